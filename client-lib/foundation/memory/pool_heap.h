/* foundation/memory/pool_heap.h - one thread's share of a pool: a magazine over groups.
 *
 *   thread A                          thread B
 *   [magazine] <--words-- [groups]    [magazine] <-- [groups]
 *        |                   ^ remote      |
 *        |                   +-------------+  blocks of A that B freed: batches of 32, one
 *        +-- blocks of B ------> remote       compare-and-swap each
 *
 * Allocation pops the magazine, free pushes it, whoever's block it is. An empty magazine is refilled
 * with a whole word of a group's bitmap; from a full one the older half goes back, own blocks with
 * one store per run of the same word, others' to the remote list of their owner. So only every 64th
 * call looks at a group at all.
 *
 * How many blocks are in the magazine is not stored: it follows from the counters that the thread
 * keeps anyway, level + frees - allocs. An index that both alloc and free store would make each of
 * them wait for the store of the other before; so alloc stores only allocs, and free only frees.
 *
 * The magazine belongs to the thread. Everything about the groups is under the heap's lock, which is
 * nearly always free: others take it only to get at groups of a thread that is gone or does not use
 * them. A group changes its owner with both heaps locked.
 *
 * A heap lives as long as its pool. When its thread ends, the next thread that has none takes it over
 * with all its groups. So a remote push can be late, or go to a former owner, but never into freed
 * memory: whoever drains passes on what is not his. Model: tests/models/pool_remote.pml. */
#ifndef EC_FOUNDATION_MEMORY_POOL_HEAP_H
#define EC_FOUNDATION_MEMORY_POOL_HEAP_H

#include <pthread.h>
#include <stdalign.h>

#include "foundation/memory/pool_group.h"
#include "foundation/memory/sink.h"

struct ec_pool_thread;

struct ec_pool_heap {
    /* The owning thread's; that of the common heap is who holds common_lock. */
    struct ec_allocator_counters *own; /* in the sink, or own_private; one writer */
    uint64_t level;                    /* blocks in the magazine, without what own counted since */
    uint64_t capacity;                 /* of the magazine; grows up to magazine_blocks_max */
    bool refilled;                     /* since the last flush */
    struct ec_pool *pool;
    struct ec_pool_heap *next;        /* in the pool's list; never changes */
    struct ec_pool_thread *thread;    /* under the lock of pool_threads.c; NULL: nobody's */
    struct ec_memory_account account; /* for the tag; all zero without a sink */
    struct ec_tag_counters *tags;     /* all of the account's thread; NULL without a sink */
    _Atomic uint64_t *requested;      /* in the sink, or requested_private; one writer */
    _Atomic uint64_t requested_private;
    struct ec_allocator_counters own_private;
    uint64_t told_allocs; /* of own_private, as far as the tag was told */
    uint64_t told_frees;
    _Atomic int64_t pushed_private;
    uint32_t forks; /* of the common heap: when it was bound, see pool_threads.c */

    /* Blocks that other threads freed, linked through their first word. */
    alignas(EC_HOT_BYTES) _Atomic(void *) remote;

    /* Under lock. */
    alignas(EC_HOT_BYTES) pthread_mutex_t lock;
    struct ec_pool_group **groups; /* NULL where a place is free */
    uint64_t *nonfull;             /* bit: the group has a free block */
    uint32_t places;               /* length of groups, a multiple of 64 */
    uint32_t nonfull_from;         /* lower words of nonfull are 0 */
    uint32_t place_from;           /* lower places are taken */
    uint32_t empty_count;          /* groups without a block that is out */
    uint32_t empty_low;            /* the fewest of them since aged_ns: so many were not needed */
    bool orphan;                   /* its thread ended */
    int64_t aged_ns;

    alignas(EC_HOT_BYTES) void *blocks[]; /* the magazine */
};

/* One word says all of it, so that each call sees one state, and no thread an older one than the thread that it
 * got the block from: blocks pass from one to another through a lock or a compare-and-swap. */
#define EC_POOL_MARKED 1u  /* since the pool was made: marks say of each block whether it is out */
#define EC_POOL_WATCHED 2u /* by the sink's watch */
/* Above it the number of times that checks were switched on, while they are; 0: they are not. Only blocks that
 * were freed since then have a mark: this number. */
#define EC_POOL_CHECKS_SHIFT 8

struct ec_pool {
    uint32_t index;           /* in every thread's table */
    _Atomic uint32_t unusual; /* EC_POOL_…: what each block goes through; 0: the plain way */
    struct ec_pool *next;     /* of the sink; under its lock */
    uint32_t magazine_blocks;
    uint32_t magazine_blocks_max;
    struct ec_pool_shape shape;
    uint32_t tag;
    uint32_t align;
    struct ec_memory_sink *sink;
    struct ec_allocator_row *row; /* in the sink, or row_private */
    _Atomic(struct ec_pool_heap *) heaps;
    _Atomic uint64_t blocks_left; /* of blocks_max */
    pthread_mutex_t common_lock;  /* around common */
    struct ec_pool_heap *common;  /* for threads that have no heap; bound at its first use */
    uint8_t number;               /* of its groups in known */
    struct ec_pool_known *known;  /* NULL: nobody asks */
    struct ec_pool_known *own_known;
    struct ec_allocator_row row_private;

    alignas(EC_HOT_BYTES) _Atomic int64_t live; /* blocks, sum of what was pushed */
    _Atomic int64_t pushed[EC_THREADS_MAX];
};

/* A new heap on the pool's list, or with `adopt` one whose thread ended; NULL: no memory. `thread` is
 * NULL for the common one. Under the lock of pool_threads.c. */
struct ec_pool_heap *ec_pool_heap_create(struct ec_pool *pool, struct ec_pool_thread *thread,
                                         bool adopt);
void ec_pool_heap_destroy(struct ec_pool_heap *heap);

/* Say where the heap's thread counts; NULL: in the heap itself. The magazine is empty. */
void ec_pool_heap_bind(struct ec_pool_heap *heap, const struct ec_memory_account *account);

/* Fill the empty magazine up to its half. False: there is no block left anywhere. */
bool ec_pool_heap_refill(struct ec_pool_heap *heap);

/* Put the `blocks` oldest blocks of the magazine back. */
void ec_pool_heap_flush(struct ec_pool_heap *heap, uint64_t blocks);

/* The magazine is full: put its older half back, or let it grow, where the thread has had to refill it since
 * it was full last. */
void ec_pool_heap_make_room(struct ec_pool_heap *heap);

/* The thread ends: everything goes back, and somebody else may have the heap. */
void ec_pool_heap_leave(struct ec_pool_heap *heap);

/* Take back what others freed, and unmap groups that were empty for a while. Any thread. */
void ec_pool_heap_age(struct ec_pool_heap *heap);

/* Take back what others freed and unmap empty groups; returns how many bytes. Any thread. */
uint64_t ec_pool_heap_trim(struct ec_pool_heap *heap);

/* Blocks in the magazine. Relaxed: the calling thread alone writes these counters. */
static inline uint64_t ec_pool_heap_count(const struct ec_pool_heap *heap)
{
    return heap->level + atomic_load_explicit(&heap->own->frees, memory_order_relaxed) -
           atomic_load_explicit(&heap->own->allocs, memory_order_relaxed);
}

/* Take the newest block out of the magazine; NULL: it is empty. Each counter is loaded once and has one
 * writer. */
static inline void *ec_pool_heap_pop(struct ec_pool_heap *heap)
{
    struct ec_allocator_counters *own = heap->own;
    const uint64_t allocs = atomic_load_explicit(&own->allocs, memory_order_relaxed);
    const uint64_t count =
        heap->level + atomic_load_explicit(&own->frees, memory_order_relaxed) - allocs;

    if (__builtin_expect(count == 0, 0))
        return NULL;
    atomic_store_explicit(&own->allocs, allocs + 1, memory_order_relaxed);
    return heap->blocks[count - 1];
}

/* Put one in; false: it is full. */
static inline bool ec_pool_heap_push(struct ec_pool_heap *heap, void *block)
{
    struct ec_allocator_counters *own = heap->own;
    const uint64_t frees = atomic_load_explicit(&own->frees, memory_order_relaxed);
    const uint64_t count =
        heap->level + frees - atomic_load_explicit(&own->allocs, memory_order_relaxed);

    if (__builtin_expect(count >= heap->capacity, 0))
        return false;
    atomic_store_explicit(&own->frees, frees + 1, memory_order_relaxed);
    heap->blocks[count] = block;
    return true;
}

#endif
