/* foundation/memory/pool.h - make a pool that counts into a sink.
 *
 * The rest is <engine-core/pool.h>. */
#ifndef EC_FOUNDATION_MEMORY_POOL_H
#define EC_FOUNDATION_MEMORY_POOL_H

#include <engine-core/pool.h>

#include "foundation/memory/sink.h"

/* As ec_pool_create; desc->client is not looked at. sink may be NULL and outlives the pool. */
int ec_pool_create_in(struct ec_memory_sink *sink, const struct ec_pool_desc *desc,
                      struct ec_pool **pool, struct ec_error *why);

#endif
