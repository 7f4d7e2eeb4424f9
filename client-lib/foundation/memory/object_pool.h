/* foundation/memory/object_pool.h - the places of objects, and how to make an object pool that counts into a
 * sink.
 *
 * The rest is <engine-core/object_pool.h>.
 *
 *   handle { index, generation } --> place { state: generation, flags | object | owner }
 *
 * A place's state is one word, so that of several threads that destroy, put off and get an object each sees
 * one state after the other. Free places and those that are put off are stacks without a lock, linked
 * through the places' indices; the head of the free ones counts its changes against ABA, the other is only
 * taken as a whole. Models: tests/models/object_free.pml, object_life.pml, object_owner.pml. */
#ifndef EC_FOUNDATION_MEMORY_OBJECT_POOL_H
#define EC_FOUNDATION_MEMORY_OBJECT_POOL_H

#include <engine-core/object_pool.h>

#include "foundation/memory/frame_list.h"
#include "foundation/memory/sink.h"

#define EC_OBJECT_TYPES_MAX 64
#define EC_OBJECTS_MAX (1u << 24)
#define EC_OBJECT_CHUNK 1024 /* places that come at once */

#define EC_OBJECT_LIVE 1u
#define EC_OBJECT_PUT_OFF 2u
#define EC_OBJECT_FLAG_BITS 2

struct ec_pool;

struct ec_object_place {
    _Atomic uint64_t state; /* generation << EC_OBJECT_FLAG_BITS | flags */
    _Atomic(void *) object;
    _Atomic uint32_t type;
    _Atomic uint32_t owner; /* a thread's life, see thread_life.h */
    _Atomic uint32_t next;  /* index + 1 in the stack that it is in; 0: the last */
};

struct ec_object_pool {
    struct ec_object_type types[EC_OBJECT_TYPES_MAX];
    struct ec_pool *pools[EC_OBJECT_TYPES_MAX];
    uint32_t type_count;
    uint32_t objects_max;
    struct ec_memory_sink *sink;
    _Atomic(struct ec_object_place *) *chunks;
    pthread_mutex_t lock;     /* to add chunks */
    _Atomic uint32_t high;    /* places that were ever used */
    _Atomic uint64_t free;    /* count of changes << 32 | index + 1 */
    _Atomic uint32_t put_off; /* index + 1 of the newest */
    _Atomic uint64_t live_count, put_off_count, retired_count;
    struct ec_frame_link link;
};

/* As ec_object_pool_create; it follows the frames of the sink, which may be NULL and outlives the pool. */
int ec_object_pool_create_in(struct ec_memory_sink *sink, const struct ec_object_pool_desc *desc,
                             struct ec_object_pool **pool, struct ec_error *why);

/* index below high. */
struct ec_object_place *ec_object_pool_place(const struct ec_object_pool *pool, uint32_t index);

#endif
