/* foundation/memory/debug.h - make a debug allocator that counts into a sink.
 *
 * The rest is <engine-core/debug.h>. */
#ifndef EC_FOUNDATION_MEMORY_DEBUG_H
#define EC_FOUNDATION_MEMORY_DEBUG_H

#include <engine-core/debug.h>

#include "foundation/memory/sink.h"

/* As ec_debug_create; it follows the frames of the sink, which may be NULL and outlives it. */
int ec_debug_create_in(struct ec_memory_sink *sink, const struct ec_debug_desc *desc,
                       struct ec_debug **debug, struct ec_error *why);

#endif
