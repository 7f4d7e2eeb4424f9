/* foundation/memory/pool.h - make a pool that counts into a sink.
 *
 * The rest is <engine-core/pool.h>. */
#ifndef EC_FOUNDATION_MEMORY_POOL_H
#define EC_FOUNDATION_MEMORY_POOL_H

#include <engine-core/pool.h>

#include "foundation/memory/sink.h"

struct ec_pool_known;

/* As ec_pool_create; desc->client is not looked at. sink may be NULL and outlives the pool. */
int ec_pool_create_in(struct ec_memory_sink *sink, const struct ec_pool_desc *desc,
                      struct ec_pool **pool, struct ec_error *why);

/* Give back groups of the sink's pools that were empty for a while: frame marks do it now and then, since a pool
 * that nobody calls does not notice the time. */
void ec_pool_age_all(struct ec_memory_sink *sink);

/* The sink has another watch or other checks. Under its lock. */
void ec_pool_follow_sink(struct ec_pool *pool);

/* For what is built on pools. */
struct ec_pool_kind {
    enum ec_allocator_kind kind; /* in reports */
    bool tagged; /* each block has a tag of its own, and desc->tag is not looked at: blocks go
                                    through the functions below alone */
    struct ec_pool_known
        *known; /* shared with other pools, where this one's groups have the number; NULL:
                                    a table of its own, where it needs one. It goes after the pool. */
    uint8_t number;
};

int ec_pool_create_kind(struct ec_memory_sink *sink, const struct ec_pool_desc *desc,
                        const struct ec_pool_kind *kind, struct ec_pool **pool,
                        struct ec_error *why);

/* tag < EC_TAGS_MAX. The block is counted for the pool and for its tag, and the bytes as what was asked for. */
void *ec_pool_alloc_tagged(struct ec_pool *pool, uint32_t tag, size_t bytes);
/* ec_pool_alloc, and the same. */
void *ec_pool_alloc_requested(struct ec_pool *pool, size_t bytes);
/* As ec_pool_free, and a double free and what is no block are found in every tier. block lies in a group of the
 * pool. */
int ec_pool_free_tagged(struct ec_pool *pool, void *block);
/* EC_TAG_NONE: no live block is there. block lies in a group of the pool. */
uint32_t ec_pool_tag_of(const struct ec_pool *pool, const void *block);

#endif
