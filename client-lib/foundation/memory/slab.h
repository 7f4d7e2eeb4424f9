/* foundation/memory/slab.h - make a slab that counts into a sink.
 *
 * The rest is <engine-core/slab.h>. */
#ifndef EC_FOUNDATION_MEMORY_SLAB_H
#define EC_FOUNDATION_MEMORY_SLAB_H

#include <engine-core/slab.h>

#include "foundation/memory/pool_known.h"
#include "foundation/memory/sink.h"

struct ec_pool;

#define EC_SLAB_CLASSES 24
#define EC_SLAB_NAME_BYTES 26

struct ec_slab {
    _Atomic(struct ec_pool *) pools[EC_SLAB_CLASSES];
    struct ec_pool_known *known; /* by number of the class, from 1 */
    struct ec_memory_sink *sink;
    struct ec_slab_desc desc;
    bool tagged;
    pthread_mutex_t lock; /* to make pools */
    char name[EC_SLAB_NAME_BYTES + 1];
};

/* As ec_slab_create; desc->client is not looked at. sink may be NULL and outlives the slab. */
int ec_slab_create_in(struct ec_memory_sink *sink, const struct ec_slab_desc *desc,
                      struct ec_slab **slab, struct ec_error *why);

/* The same with a tag for each block, for the heap; desc->tag is not looked at. */
int ec_slab_create_tagged(struct ec_memory_sink *sink, const struct ec_slab_desc *desc,
                          struct ec_slab **slab, struct ec_error *why);

/* 0 for 1..16 bytes and so on. Above 128 the two bits below the highest choose one of four. */
static inline unsigned ec_slab_class_of(size_t bytes)
{
    const unsigned last = (unsigned)bytes - 1;
    unsigned doubling;

    if (bytes <= 128)
        return last / 16;
    doubling = 31 - (unsigned)__builtin_clz(last); /* 7 for 129..256 */
    return 8 + (doubling - 7) * 4 + (last >> (doubling - 2) & 3);
}

/* NULL: no memory. */
struct ec_pool *ec_slab_make_pool(struct ec_slab *slab, unsigned class);

/* The pool for a size in 1..EC_SLAB_BYTES_MAX, made if need be; NULL: no memory. Acquire pairs with the release
 * of who made the pool. */
static inline struct ec_pool *ec_slab_pool_for(struct ec_slab *slab, size_t bytes)
{
    const unsigned class = ec_slab_class_of(bytes);
    struct ec_pool *pool = atomic_load_explicit(&slab->pools[class], memory_order_acquire);

    return __builtin_expect(pool != NULL, 1) ? pool : ec_slab_make_pool(slab, class);
}

/* The pool whose group the address lies in; NULL: none. */
static inline struct ec_pool *ec_slab_pool_of(const struct ec_slab *slab, const void *address)
{
    const unsigned number = ec_pool_known_number(slab->known, address);

    return number != 0 ? atomic_load_explicit(&slab->pools[number - 1], memory_order_acquire)
                       : NULL;
}

/* Count a request that no pool was asked. */
void ec_slab_failed(struct ec_slab *slab);

/* Bytes of the blocks that a size gets. */
size_t ec_slab_class_bytes(size_t bytes);

#endif
