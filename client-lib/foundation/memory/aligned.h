/* foundation/memory/aligned.h - make an aligned allocator that counts into a sink.
 *
 * The rest is <engine-core/aligned.h>. */
#ifndef EC_FOUNDATION_MEMORY_ALIGNED_H
#define EC_FOUNDATION_MEMORY_ALIGNED_H

#include <engine-core/aligned.h>

#include "foundation/memory/sink.h"

/* As ec_aligned_create; desc->client is not looked at. sink may be NULL and outlives it. */
int ec_aligned_create_in(struct ec_memory_sink *sink, const struct ec_aligned_desc *desc,
                         struct ec_aligned **aligned, struct ec_error *why);

#endif
