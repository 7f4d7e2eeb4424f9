/* foundation/memory/pool_threads.h - which heap a thread has in each pool.
 *
 *   this thread: [ heap of pool 0 | of pool 1 | none | … of pool 15 | far ] --> [ of pool 16 | … ]
 *
 * A pool has an index; each thread has a table by that index, which only the thread reads without a
 * lock. The places of the first pools are in the thread-local variable itself. Pools come and go, threads too: both change tables under one lock. It is global, like the
 * table, because a thread must find its heap in less time than an argument would take to carry it.
 *
 * A forked child finds zeroes in the rows that its parent counts in, so magazines that lean on them
 * are given up there: the child begins new ones and leaks what was in the old.
 *
 * When a thread ends, its heaps go back to their pools. What it still allocates and frees after that
 * (in destructors that run later) takes the pools' common heaps. */
#ifndef EC_FOUNDATION_MEMORY_POOL_THREADS_H
#define EC_FOUNDATION_MEMORY_POOL_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include "foundation/memory/pool_heap.h"

#define EC_POOLS_MAX 4096

#define EC_POOLS_NEAR 16 /* 128 bytes: what a library may well take of the thread-local space */

struct ec_pool_thread {
    struct ec_pool_heap *near[EC_POOLS_NEAR]; /* NULL: none */
    struct ec_pool_heap **far;                /* of the pools from EC_POOLS_NEAR on */
    uint32_t far_count;
    bool known; /* its end will be noticed */
    bool gone;  /* its end was noticed */
};

/* Initial-exec: one load finds it. It is small, so the library can still be loaded by dlopen. */
extern _Thread_local struct ec_pool_thread ec_pool_this_thread
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* NULL: it has none yet. */
static inline struct ec_pool_heap *ec_pool_thread_heap(const struct ec_pool *pool)
{
    const struct ec_pool_thread *thread = &ec_pool_this_thread;
    const uint32_t index = pool->index;

    if (__builtin_expect(index < EC_POOLS_NEAR, 1))
        return thread->near[index];
    return index - EC_POOLS_NEAR < thread->far_count ? thread->far[index - EC_POOLS_NEAR] : NULL;
}

/* Give the pool an index; false: EC_POOLS_MAX are in use. */
bool ec_pool_threads_add(struct ec_pool *pool);

/* Take the pool's heaps away from their threads, and its index. */
void ec_pool_threads_remove(struct ec_pool *pool);

/* Give up the calling thread's heaps in the pools that count in this sink (NULL: in all): before the thread's row
 * may belong to another thread, which would then count where this one's magazines lean on. */
void ec_pool_threads_leave(const struct ec_memory_sink *sink);

/* The calling thread's heap in the pool, made if need be. NULL: the thread is ending, found no row of
 * its own to count in, or there is no memory; it takes the common heap then. */
struct ec_pool_heap *ec_pool_threads_heap(struct ec_pool *pool);

/* The heap for the calls of threads that have none. Under the pool's common_lock. */
struct ec_pool_heap *ec_pool_threads_common(struct ec_pool *pool);

#endif
