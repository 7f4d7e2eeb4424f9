/* foundation/memory/slab.h - make a slab that counts into a sink.
 *
 * The rest is <engine-core/slab.h>. */
#ifndef EC_FOUNDATION_MEMORY_SLAB_H
#define EC_FOUNDATION_MEMORY_SLAB_H

#include <engine-core/slab.h>

#include "foundation/memory/sink.h"

struct ec_pool;

/* As ec_slab_create; desc->client is not looked at. sink may be NULL and outlives the slab. */
int ec_slab_create_in(struct ec_memory_sink *sink, const struct ec_slab_desc *desc,
                      struct ec_slab **slab, struct ec_error *why);

/* The same with a tag for each block, for the heap; desc->tag is not looked at. */
int ec_slab_create_tagged(struct ec_memory_sink *sink, const struct ec_slab_desc *desc,
                          struct ec_slab **slab, struct ec_error *why);

/* The pool for a size in 1..EC_SLAB_BYTES_MAX, made if need be; NULL: no memory. */
struct ec_pool *ec_slab_pool_for(struct ec_slab *slab, size_t bytes);

/* The pool whose group the address lies in; NULL: none. */
struct ec_pool *ec_slab_pool_of(const struct ec_slab *slab, const void *address);

/* Count a request that no pool was asked. */
void ec_slab_failed(struct ec_slab *slab);

/* Bytes of the blocks that a size gets. */
size_t ec_slab_class_bytes(size_t bytes);

#endif
