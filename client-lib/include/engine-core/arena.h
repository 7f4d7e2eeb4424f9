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
 * rewind, counts it in `fallbacks`, and warns of each place in the program that came to this once (of the
 * first 64). Otherwise the answer is NULL, counted in `failed`.
 *
 * Alignment: any power of two up to 2 MiB.
 * Thread:    one at a time; which one may change. Statistics from any.
 * Ownership: blocks belong to the arena; nothing is freed singly.
 * Cost:      an allocation is done in line and is about what a bare bump costs; reset is O(1), plus one
 *            free() per fallback. Chunks are kept until the arena is destroyed. In builds of the tier
 *            `debug` what is given back is overwritten with 0xDD, and AddressSanitizer reports its use. */
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
    bool in_segment; /* chunks lie in the client segment, see ec_client_desc.segment_bytes */

    /* Called with one line of text for each place that falls back for the first time; default: it is
     * written to stderr. Runs in the allocation; must not use the arena. */
    void (*on_warning)(void *context, const char *text);
    void *context;
};

/* Returns EC_OK, EC_ERR_PARAM (name, tag), EC_ERR_SIZE (bytes, limit_bytes), EC_ERR_STATE
 *         (in_segment without room in the segment), EC_ERR_MEMORY.
 * A client has room for 128 allocators; further ones work and count in their tag, unlisted. */
EC_API int ec_arena_create(const struct ec_arena_desc *desc, struct ec_arena **arena,
                           struct ec_error *why);
EC_API void ec_arena_destroy(struct ec_arena *arena); /* accepts NULL */

/* What ec_arena_alloc needs in line: the beginning of each arena. The fields belong to the arena. */
struct ec_arena_front {
    char *position;
    char *step_end; /* allocations that pass this go the slow way */
    char *zero;     /* current bytes are position - zero */
    uint64_t *row;  /* current bytes, and EC_ARENA_ROW_COUNT words on the live blocks */
};
#define EC_ARENA_ROW_COUNT 3
#define EC_ARENA_ALIGN_DEFAULT 16
#define EC_ARENA_ALIGN_MAX ((size_t)2 << 20)
#define EC_ARENA_BYTES_MAX ((size_t)1 << 40)

/* What ec_arena_alloc calls when there is no room, or the request is not one. */
EC_API void *ec_arena_alloc_slowly(struct ec_arena *arena, size_t bytes, size_t align);

/* bytes >= 1; align is a power of two, 0 means 16. The memory is not cleared. NULL: the size is zero
 * or the arena is full, or align is none; each counted in `failed`. */
EC_API inline void *ec_arena_alloc(struct ec_arena *arena, size_t bytes, size_t align)
    __attribute__((malloc, alloc_size(2), warn_unused_result));

/* count items of bytes each; a product that overflows is refused like a size of zero. */
EC_API inline void *ec_arena_alloc_array(struct ec_arena *arena, size_t count, size_t bytes,
                                         size_t align)
    __attribute__((malloc, alloc_size(2, 3), warn_unused_result));

/* One test for all that is unusual; what it was, the slow way finds out. The counts have one writer, so
 * a load, an addition and a store do; relaxed, for they order nothing. */
inline void *ec_arena_alloc(struct ec_arena *arena, size_t bytes, size_t align)
{
    struct ec_arena_front *const front = (struct ec_arena_front *)(void *)arena;
    const size_t alignment = align != 0 ? align : EC_ARENA_ALIGN_DEFAULT;
    const uintptr_t start = ((uintptr_t)front->position + alignment - 1) & ~(alignment - 1);
    uint64_t *const row = front->row;

    if (__builtin_expect((intptr_t)((uintptr_t)front->step_end - start) < (intptr_t)bytes ||
                             bytes - 1 >= EC_ARENA_BYTES_MAX || /* 0 wraps to the largest */
                             (alignment & (alignment - 1)) != 0 || alignment > EC_ARENA_ALIGN_MAX,
                         0))
        return ec_arena_alloc_slowly(arena, bytes, alignment);
    front->position = (char *)start + bytes;
    __atomic_store_n(row, (uint64_t)(front->position - front->zero), __ATOMIC_RELAXED);
    __atomic_store_n(row + EC_ARENA_ROW_COUNT,
                     __atomic_load_n(row + EC_ARENA_ROW_COUNT, __ATOMIC_RELAXED) + 1,
                     __ATOMIC_RELAXED);
    return (void *)start;
}

inline void *ec_arena_alloc_array(struct ec_arena *arena, size_t count, size_t bytes, size_t align)
{
    size_t product;

    if (__builtin_mul_overflow(count, bytes, &product))
        product = 0; /* refused and counted like it */
    return ec_arena_alloc(arena, product, align);
}

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
