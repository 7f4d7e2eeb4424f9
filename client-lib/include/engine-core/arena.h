/* engine-core/arena.h - bump memory that is given back all at once, such as that of one frame.
 *
 *     struct ec_arena *frame;
 *
 *     ec_arena_create(&(struct ec_arena_desc){ .client = client, .name = "frame",
 *                                              .tag = EC_TAG_RENDERING, .bytes = 4 << 20 },
 *                     &frame, &why);
 *     for (;;) {
 *         struct draw *draws = ec_arena_alloc_array(frame, count, sizeof *draws, 0);
 *         …
 *         ec_arena_reset(frame);
 *     }
 *
 * Scopes nest: rewinding to a marker gives back what was allocated after it.
 *
 *     struct ec_arena_marker marker;
 *
 *     ec_arena_mark(arena, &marker);
 *     … ec_arena_alloc(arena, …) …
 *     ec_arena_rewind(arena, &marker);
 *
 * When it is full: an arena with growth_bytes takes another chunk, as long as limit_bytes allows.
 * Otherwise one with heap_fallback takes the block from the general heap until the next reset or
 * rewind and counts it in `fallbacks`. Otherwise the answer is NULL, counted in `failed`.
 *
 * Alignment: any power of two up to 2 MiB.
 * Thread:    one at a time; which one may change. Statistics from any.
 * Ownership: blocks belong to the arena; nothing is freed singly.
 * Cost:      an allocation is a few nanoseconds; reset is O(1), plus one free() per fallback. Chunks
 *            are kept until the arena is destroyed. In builds of the tier `debug` what is given back
 *            is overwritten with 0xDD, and AddressSanitizer reports its use. */
#ifndef ENGINE_CORE_ARENA_H
#define ENGINE_CORE_ARENA_H

#include <engine-core/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ec_arena; /* opaque */

/* Zero means the default; name and bytes are required. */
struct ec_arena_desc {
    struct ec_client *client; /* where it is published; NULL: nowhere */
    const char *name;         /* shown to operators, 1..31 bytes */
    uint32_t tag;             /* what the memory is for; default EC_TAG_GENERAL */
    size_t bytes;             /* of the first chunk, 64..2^40 */
    size_t growth_bytes;      /* at least, of each further chunk; 0: fixed capacity */
    size_t limit_bytes;       /* of all chunks together; 0: none */
    bool heap_fallback;       /* when full, take blocks from the general heap */
};

/* Returns EC_OK, EC_ERR_PARAM (name, tag), EC_ERR_SIZE (bytes, limit_bytes), EC_ERR_MEMORY.
 * A client has room for 128 allocators; further ones work and count in their tag, unlisted. */
EC_API int ec_arena_create(const struct ec_arena_desc *desc, struct ec_arena **arena,
                           struct ec_error *why);
EC_API void ec_arena_destroy(struct ec_arena *arena); /* accepts NULL */

/* bytes >= 1; align is a power of two, 0 means 16. The memory is not cleared. NULL: the size is zero
 * or the arena is full, or align is none; each counted in `failed`. */
EC_API void *ec_arena_alloc(struct ec_arena *arena, size_t bytes, size_t align)
    __attribute__((malloc, alloc_size(2), warn_unused_result));

/* count items of bytes each; a product that overflows is refused like a size of zero. */
EC_API void *ec_arena_alloc_array(struct ec_arena *arena, size_t count, size_t bytes, size_t align)
    __attribute__((malloc, alloc_size(2, 3), warn_unused_result));

/* A place in the arena, to be used once, by ec_arena_rewind. Its fields belong to the arena. */
struct ec_arena_marker {
    uint64_t serial; /* 0: never set */
    uint32_t depth;
};

/* Returns EC_OK or EC_ERR_LIMIT (64 markers are open). */
EC_API int ec_arena_mark(struct ec_arena *arena, struct ec_arena_marker *marker);

/* Give back what was allocated since the marker; later markers become stale.
 *
 * Returns EC_OK or EC_ERR_STALE (used before, or an earlier one was, or the arena was reset); then
 *         nothing changes, and it is counted in `failed`. */
EC_API int ec_arena_rewind(struct ec_arena *arena, const struct ec_arena_marker *marker);

/* Give back everything; all markers become stale. */
EC_API void ec_arena_reset(struct ec_arena *arena);

/* `count` is what was allocated since the last reset and not rewound. */
EC_API void ec_arena_stats(const struct ec_arena *arena, struct ec_memory_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
