/* foundation/memory/heap.h - make a heap that counts into a sink.
 *
 * The rest is <engine-core/heap.h>. */
#ifndef EC_FOUNDATION_MEMORY_HEAP_H
#define EC_FOUNDATION_MEMORY_HEAP_H

#include <engine-core/heap.h>

#include "foundation/memory/sink.h"

/* As ec_heap_create; desc->client is not looked at. sink may be NULL and outlives the heap. */
int ec_heap_create_in(struct ec_memory_sink *sink, const struct ec_heap_desc *desc,
                      struct ec_heap **heap, struct ec_error *why);

#endif
