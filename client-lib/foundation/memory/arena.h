/* foundation/memory/arena.h - make an arena that counts into a sink.
 *
 * The rest is <engine-core/arena.h>. */
#ifndef EC_FOUNDATION_MEMORY_ARENA_H
#define EC_FOUNDATION_MEMORY_ARENA_H

#include <engine-core/arena.h>

#include "foundation/memory/sink.h"

/* As ec_arena_create; desc->client is not looked at. sink may be NULL and outlives the arena. */
int ec_arena_create_in(struct ec_memory_sink *sink, const struct ec_arena_desc *desc,
                       struct ec_arena **arena, struct ec_error *why);

#endif
