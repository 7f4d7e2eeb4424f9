/* foundation/memory/frame_arena.h - make a frame arena that counts into a sink.
 *
 * The rest is <engine-core/frame_arena.h>. */
#ifndef EC_FOUNDATION_MEMORY_FRAME_ARENA_H
#define EC_FOUNDATION_MEMORY_FRAME_ARENA_H

#include <engine-core/frame_arena.h>

#include "foundation/memory/sink.h"

/* As ec_frame_arena_create; it follows the frames of the sink. sink may be NULL and outlives it. */
int ec_frame_arena_create_in(struct ec_memory_sink *sink, const struct ec_frame_arena_desc *desc,
                             struct ec_frame_arena **frame, struct ec_error *why);

#endif
