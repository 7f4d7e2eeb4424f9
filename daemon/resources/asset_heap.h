/* asset_heap.h - the memory that decoded assets lie in.
 *
 * A sparse file with a large virtual size. A range is reserved before it is written, so that a full
 * memory is an error of one load and never a SIGBUS; freeing it punches a hole, so that the memory
 * comes back, even while games have it mapped. Punching takes the kernel 0.2 ms a MiB, so the loop only
 * orders it and a thread of the heap does it.
 *
 * Thread: any. Cost: system calls. */
#ifndef RESOURCES_ASSET_HEAP_H
#define RESOURCES_ASSET_HEAP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "foundation/error.h"
#include "resources/heap_ranges.h"

struct heap_order;

struct asset_heap {
    pthread_mutex_t lock; /* of ranges and orders */
    struct heap_ranges ranges;
    int fd;
    uint64_t bytes;    /* of the file; page 0 is its header */
    uint64_t capacity; /* what can be taken */
    atomic_bool huge;  /* ask for huge pages; false once the kernel says that it has none */
    bool whole;        /* the file gets huge pages unasked, also where less of one was reserved */
    bool takeable;     /* from the first take_at on: free memory may be taken with what is in it */

    /* Ranges to be freed by the thread: [done, ordered) of the ring. */
    struct heap_order *orders;
    uint64_t ordered, done;
    uint64_t ordered_bytes; /* of those not done */
    pthread_cond_t order_came, order_done;
    pthread_t thread;
    bool running, stopping;
    void (*reclaimed)(void *context); /* see asset_heap_on_reclaimed */
    void *context;
};

/* fd and bytes stay the caller's. With huge, each whole 2 MiB of a range is a huge page where the kernel
 * gives one (also to a memfd, since Linux 6.1), which is an order of magnitude cheaper to reserve, to map
 * and to give back than 512 small ones.
 *
 * Returns EC_OK, EC_ERR_MEMORY or EC_ERR_SYSTEM. */
int asset_heap_init(struct asset_heap *heap, int fd, uint64_t bytes, bool huge,
                    struct ec_error *why);
/* Does what was ordered first. Accepts a zeroed one. */
void asset_heap_finish(struct asset_heap *heap);

/* Take a range and reserve its memory, which is all zero. When there is no room, and ranges are about to
 * be freed, it waits for them.
 *
 * Returns EC_OK, EC_ERR_MEMORY (no free range, or no memory; the text says which) or EC_ERR_SYSTEM;
 * then nothing is taken. */
int asset_heap_reserve(struct asset_heap *heap, uint64_t bytes, uint64_t *offset,
                       struct ec_error *why);
/* Take a range that an earlier run of the daemon reserved. false: not all of it is free. */
bool asset_heap_take_at(struct asset_heap *heap, uint64_t offset, uint64_t bytes);
/* Give back the memory of all that is free: what an earlier run left there. */
void asset_heap_clear_free(struct asset_heap *heap);
/* Give back what reserve returned, with the same bytes: at once, or soon. */
void asset_heap_free(struct asset_heap *heap, uint64_t offset, uint64_t bytes);
void asset_heap_free_soon(struct asset_heap *heap, uint64_t offset, uint64_t bytes);

/* How many frees were ordered, and how many of them are done: memory that was ordered to be freed is
 * back when done has come up to what ordered was then. */
uint64_t asset_heap_ordered(struct asset_heap *heap);
uint64_t asset_heap_done(struct asset_heap *heap);
/* Call reclaimed on the heap's thread each time that all that was ordered is done. */
void asset_heap_on_reclaimed(struct asset_heap *heap, void (*reclaimed)(void *context),
                             void *context);

uint64_t
asset_heap_used(struct asset_heap *heap); /* bytes in whole pages; not what is being freed */

struct asset_heap_stats {
    uint64_t virtual_bytes;      /* of the file */
    uint64_t used_bytes;         /* taken, in whole pages */
    uint64_t freeing_bytes;      /* ordered to be freed, and not back yet */
    uint64_t resident_bytes;     /* of the file, as the kernel counts */
    uint64_t free_bytes;         /* that can still be taken */
    uint64_t largest_free_bytes; /* in one piece */
    uint32_t free_ranges;
};
void asset_heap_stats(struct asset_heap *heap, struct asset_heap_stats *stats);

#endif
