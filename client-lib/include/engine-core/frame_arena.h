/* engine-core/frame_arena.h - memory that lives for two frames: the one that asked for it, and the next.
 *
 *     ec_frame_arena_create(&(struct ec_frame_arena_desc){ .client = client, .name = "frame",
 *                                                          .tag = EC_TAG_RENDERING, .bytes = 4 << 20 },
 *                           &frame, &why);
 *     for (;;) {
 *         struct ec_frame mark;
 *
 *         ec_frame_begin(client, &mark); // <engine-core/clock.h>: all frame arenas of the client go on
 *         struct draw *draws = ec_frame_alloc_array(frame, count, sizeof *draws, 0);
 *         …                              // what the frame before allocated can still be read
 *         ec_frame_end(&mark);
 *     }
 *
 * It is double-buffered: each frame has its own chunks, and those of the frame before the last are used again.
 * Without a client, or in a program with several frames at once, call ec_frame_arena_next instead of making
 * frame marks.
 *
 * Scopes: ec_frame_arena_base gives the arena of the present frame for what <engine-core/arena.h> can do, such
 * as markers; a reset of it gives back this frame's blocks alone.
 *
 * When it is full: as an arena, see there: growth_bytes, then heap_fallback (with one warning for each place in
 * the program, and counted), then NULL. limit_bytes counts the chunks of all frames together.
 *
 * Old frames: ec_frame_arena_check tells whether a pointer is still good. In the tier `debug`, and with
 * guard_old_frames, there are four sets of chunks instead of two, and those of the frames before the last one
 * cannot be touched: who uses memory of an old frame ends by SIGSEGV at that place.
 *
 * Alignment: any power of two up to 2 MiB; default 16.
 * Thread:    one at a time, the one that marks frames. Statistics from any.
 * Ownership: blocks belong to the frame arena. Destroy it before the client, and not while a frame begins.
 * Cost:      an allocation is done in line; a new frame is O(1), plus one free() per fallback, and two system
 *            calls for each guarded chunk. */
#ifndef ENGINE_CORE_FRAME_ARENA_H
#define ENGINE_CORE_FRAME_ARENA_H

#include <engine-core/arena.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ec_frame_arena; /* opaque; begins with a struct ec_arena */

/* Zero means the default; name and bytes are required. */
struct ec_frame_arena_desc {
    struct ec_client
        *client;      /* whose frame marks it follows, and where it is published; NULL: nowhere */
    const char *name; /* shown to operators, 1..31 bytes */
    uint32_t tag;     /* what the memory is for; default EC_TAG_GENERAL */
    size_t bytes;     /* of the first chunk of each frame, 64..2^40 */
    size_t growth_bytes;   /* at least, of each further chunk; 0: fixed capacity */
    size_t limit_bytes;    /* of all chunks together; 0: none */
    bool heap_fallback;    /* when full, take blocks from the general heap */
    bool guard_old_frames; /* make use of memory of old frames end by SIGSEGV in every tier */
    bool in_segment;       /* chunks lie in the client segment, see ec_client_desc.segment_bytes */
    void (*on_warning)(void *context, const char *text); /* see struct ec_arena_desc */
    void *context;
};

/* Returns EC_OK, EC_ERR_PARAM (name, tag), EC_ERR_SIZE (bytes, limit_bytes), EC_ERR_STATE (in_segment
 *         without room in the segment), EC_ERR_MEMORY. */
EC_API int ec_frame_arena_create(const struct ec_frame_arena_desc *desc,
                                 struct ec_frame_arena **frame, struct ec_error *why);
EC_API void ec_frame_arena_destroy(struct ec_frame_arena *frame); /* accepts NULL */

/* The arena of the present frame. */
static inline struct ec_arena *ec_frame_arena_base(struct ec_frame_arena *frame)
{
    return (struct ec_arena *)(void *)frame;
}

/* As ec_arena_alloc and ec_arena_alloc_array. */
static inline void *ec_frame_alloc(struct ec_frame_arena *frame, size_t bytes, size_t align)
{
    return ec_arena_alloc(ec_frame_arena_base(frame), bytes, align);
}

static inline void *ec_frame_alloc_array(struct ec_frame_arena *frame, size_t count, size_t bytes,
                                         size_t align)
{
    return ec_arena_alloc_array(ec_frame_arena_base(frame), count, bytes, align);
}

/* Begin the next frame by hand. */
EC_API void ec_frame_arena_next(struct ec_frame_arena *frame);

/* Frames begun so far, from 0. */
EC_API uint64_t ec_frame_arena_number(const struct ec_frame_arena *frame);

/* May what lies at this address still be used?
 *
 * Returns EC_OK (it was allocated in this frame or the one before), EC_ERR_STALE (in an older one, or it was
 *         given back), EC_ERR_PARAM (it is not in the chunks of this arena). Cost: a walk over the chunks. */
EC_API int ec_frame_arena_check(const struct ec_frame_arena *frame, const void *address);

/* `count` and `current_bytes` are of the present frame and the one before. */
EC_API void ec_frame_arena_stats(const struct ec_frame_arena *frame, struct ec_memory_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
