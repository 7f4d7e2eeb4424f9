/* asset_heap.c - ranges of the heap file with their memory, and the thread that gives memory back. */
#include "resources/asset_heap.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "foundation/huge_map.h"
#include "foundation/thread.h"
#include "proto/directory.h"

/* A step is short enough that the loop of another load, or a signal, is not kept waiting. */
#define RESERVE_STEP_BYTES (4 * HEAP_HUGE_BYTES)

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* since Linux 6.1 */
#endif

/* Each entry of the directory has a content at most, and each resource a load that is not taken over yet;
 * so no more ranges are taken at once, nor on their way back. */
#define RANGES_MAX (2 * EC_RESOURCES_MAX)
#define ORDERS RANGES_MAX

struct heap_order {
    uint64_t offset;
    uint64_t bytes;
};

static int take(struct asset_heap *heap, uint64_t bytes, uint64_t *offset);
static int reserve_memory(struct asset_heap *heap, uint64_t offset, uint64_t bytes,
                          struct ec_error *why);
static bool reserve_huge(struct asset_heap *heap, uint64_t offset, uint64_t bytes);
static bool wait_for_orders(struct asset_heap *heap, uint64_t *seen);
static void punch(struct asset_heap *heap, uint64_t offset, uint64_t bytes);
static void give(struct asset_heap *heap, uint64_t offset, uint64_t bytes);
static void give_locked(struct asset_heap *heap, uint64_t offset, uint64_t bytes);
static bool has_whole_pages(int fd);
static void *reclaim(void *context);

int asset_heap_init(struct asset_heap *heap, int fd, uint64_t bytes, bool huge,
                    struct ec_error *why)
{
    const uint64_t header = EC_SEGMENT_HEADER_BYTES;
    int rc;

    *heap = (struct asset_heap) { .fd = fd, .bytes = bytes, .whole = has_whole_pages(fd) };
    atomic_init(&heap->huge, huge);
    heap->capacity = (bytes - header) & ~(uint64_t)(HEAP_PAGE_BYTES - 1);
    rc = heap_ranges_init(&heap->ranges, header, heap->capacity, RANGES_MAX, why);
    if (rc < 0)
        return rc;
    pthread_mutex_init(&heap->lock, NULL); /* these never fail with default attributes */
    pthread_cond_init(&heap->order_came, NULL);
    pthread_cond_init(&heap->order_done, NULL);
    heap->orders = calloc(ORDERS, sizeof *heap->orders);
    if (heap->orders == NULL)
        rc = ec_fail(why, EC_ERR_MEMORY, "no memory for the asset heap's orders");
    else
        rc = ec_thread_start(&heap->thread, "ec-reclaim", reclaim, heap, why);
    heap->running = rc == EC_OK;
    if (rc < 0)
        asset_heap_finish(heap);
    return rc;
}

void asset_heap_finish(struct asset_heap *heap)
{
    if (heap->ranges.free == NULL)
        return;
    if (heap->running) {
        pthread_mutex_lock(&heap->lock);
        heap->stopping = true;
        pthread_cond_signal(&heap->order_came);
        pthread_mutex_unlock(&heap->lock);
        pthread_join(heap->thread, NULL);
    }
    free(heap->orders);
    pthread_cond_destroy(&heap->order_done);
    pthread_cond_destroy(&heap->order_came);
    pthread_mutex_destroy(&heap->lock);
    heap_ranges_finish(&heap->ranges);
}

int asset_heap_reserve(struct asset_heap *heap, uint64_t bytes, uint64_t *offset,
                       struct ec_error *why)
{
    const uint64_t rounded = heap_ranges_round(bytes);
    uint64_t seen = asset_heap_done(heap);
    int rc;

    do {
        rc = take(heap, bytes, offset);
        if (rc < 0) {
            ec_fail(why, rc, "the asset heap of %" PRIu64 " bytes has no free range of %" PRIu64,
                    heap->bytes, rounded);
            continue;
        }
        rc = reserve_memory(heap, *offset, rounded, why);
        if (rc < 0)
            asset_heap_free(heap, *offset, bytes);
    } while (rc == EC_ERR_MEMORY && wait_for_orders(heap, &seen));
    return rc;
}

bool asset_heap_take_at(struct asset_heap *heap, uint64_t offset, uint64_t bytes)
{
    bool taken;

    pthread_mutex_lock(&heap->lock);
    heap->takeable = true;
    taken = heap_ranges_take_at(&heap->ranges, offset, bytes);
    pthread_mutex_unlock(&heap->lock);
    return taken;
}

void asset_heap_clear_free(struct asset_heap *heap)
{
    pthread_mutex_lock(&heap->lock);
    for (uint32_t i = 0; i < heap->ranges.count; i++)
        punch(heap, heap->ranges.free[i].offset, heap->ranges.free[i].bytes);
    heap->takeable = false;
    pthread_mutex_unlock(&heap->lock);
}

void asset_heap_free(struct asset_heap *heap, uint64_t offset, uint64_t bytes)
{
    punch(heap, offset, heap_ranges_round(bytes)); /* first: who gets the range finds it empty */
    give(heap, offset, bytes);
}

void asset_heap_free_soon(struct asset_heap *heap, uint64_t offset, uint64_t bytes)
{
    pthread_mutex_lock(&heap->lock);
    assert(heap->ordered - heap->done < ORDERS);
    heap->orders[heap->ordered++ % ORDERS] = (struct heap_order) { offset, bytes };
    heap->ordered_bytes += heap_ranges_round(bytes);
    pthread_cond_signal(&heap->order_came);
    pthread_mutex_unlock(&heap->lock);
}

uint64_t asset_heap_ordered(struct asset_heap *heap)
{
    uint64_t ordered;

    pthread_mutex_lock(&heap->lock);
    ordered = heap->ordered;
    pthread_mutex_unlock(&heap->lock);
    return ordered;
}

uint64_t asset_heap_done(struct asset_heap *heap)
{
    uint64_t done;

    pthread_mutex_lock(&heap->lock);
    done = heap->done;
    pthread_mutex_unlock(&heap->lock);
    return done;
}

void asset_heap_on_reclaimed(struct asset_heap *heap, void (*reclaimed)(void *context),
                             void *context)
{
    pthread_mutex_lock(&heap->lock);
    heap->reclaimed = reclaimed;
    heap->context = context;
    pthread_mutex_unlock(&heap->lock);
}

uint64_t asset_heap_used(struct asset_heap *heap)
{
    uint64_t used;

    pthread_mutex_lock(&heap->lock);
    used = heap->capacity - heap->ranges.free_bytes - heap->ordered_bytes;
    pthread_mutex_unlock(&heap->lock);
    return used;
}

void asset_heap_stats(struct asset_heap *heap, struct asset_heap_stats *stats)
{
    struct stat st = { 0 };

    if (fstat(heap->fd, &st) < 0)
        st.st_blocks = 0; /* a descriptor of our own: it does not happen */
    pthread_mutex_lock(&heap->lock);
    *stats = (struct asset_heap_stats) {
        .virtual_bytes = heap->bytes,
        .used_bytes = heap->capacity - heap->ranges.free_bytes - heap->ordered_bytes,
        .freeing_bytes = heap->ordered_bytes,
        .resident_bytes = (uint64_t)st.st_blocks * 512,
        .free_bytes = heap->ranges.free_bytes,
    };
    heap_ranges_measure(&heap->ranges, &stats->free_ranges, &stats->largest_free_bytes);
    pthread_mutex_unlock(&heap->lock);
}

static int take(struct asset_heap *heap, uint64_t bytes, uint64_t *offset)
{
    int rc;

    pthread_mutex_lock(&heap->lock);
    rc = heap_ranges_take(&heap->ranges, bytes, offset);
    pthread_mutex_unlock(&heap->lock);
    return rc;
}

/* Returns 0 or an errno. */
static int allocate(struct asset_heap *heap, uint64_t offset, uint64_t bytes)
{
    int error;

    do
        error = fallocate(heap->fd, 0, (off_t)offset, (off_t)bytes) < 0 ? errno : 0;
    while (error == EINTR);
    return error;
}

static int reserve_memory(struct asset_heap *heap, uint64_t offset, uint64_t bytes,
                          struct ec_error *why)
{
    for (uint64_t done = 0, step; done < bytes; done += step) {
        int error;

        step = bytes - done < RESERVE_STEP_BYTES ? bytes - done : RESERVE_STEP_BYTES;
        if (step >= HEAP_HUGE_BYTES)
            step &= ~(uint64_t)(HEAP_HUGE_BYTES - 1); /* what is left is a step of its own */
        if (step >= HEAP_HUGE_BYTES && reserve_huge(heap, offset + done, step))
            continue;
        error = allocate(heap, offset + done, step);
        if (error != 0)
            return ec_fail(why, error == ENOSPC || error == ENOMEM ? EC_ERR_MEMORY : EC_ERR_SYSTEM,
                           "reserve %" PRIu64 " of %" PRIu64 " bytes: %s", done + step, bytes,
                           strerror(error));
    }
    return EC_OK;
}

/* Whole huge pages. The kernel joins what is there of a huge page, and zeros for what is not, whatever
 * the system's switch for shared memory says; but something has to be there.
 *
 * false: not all of it, or it is not known; then the usual way finds out what is missing, and why. */
static bool reserve_huge(struct asset_heap *heap, uint64_t offset, uint64_t bytes)
{
    int error = 0;
    void *base;

    if (!atomic_load_explicit(&heap->huge, memory_order_relaxed))
        return false;
    for (uint64_t at = 0; at < bytes; at += HEAP_HUGE_BYTES)
        if (allocate(heap, offset + at, HEAP_PAGE_BYTES) != 0)
            return false;
    base = ec_huge_map(heap->fd, offset, bytes, PROT_READ, 0);
    if (base == MAP_FAILED)
        return false;
    if (madvise(base, bytes, MADV_COLLAPSE) < 0)
        error = errno;
    munmap(base, bytes);
    if (error == EINVAL) /* an older kernel, or one that is told to have none at all */
        atomic_store_explicit(&heap->huge, false, memory_order_relaxed);
    return error == 0;
}

/* Returns true when something was freed since *seen, if need be after waiting for it. */
static bool wait_for_orders(struct asset_heap *heap, uint64_t *seen)
{
    bool freed;

    pthread_mutex_lock(&heap->lock);
    while (heap->done == *seen && heap->ordered > heap->done)
        pthread_cond_wait(&heap->order_done, &heap->lock);
    freed = heap->done != *seen;
    *seen = heap->done;
    pthread_mutex_unlock(&heap->lock);
    return freed;
}

/* A hole that cannot be punched is memory that stays; the range is still good, since whoever gets it
 * writes all of it. The heap's file always supports it, so there is nobody to tell. */
static void punch(struct asset_heap *heap, uint64_t offset, uint64_t bytes)
{
    while (fallocate(heap->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                     (off_t)bytes) < 0 &&
           errno == EINTR)
        ;
}

static void give(struct asset_heap *heap, uint64_t offset, uint64_t bytes)
{
    pthread_mutex_lock(&heap->lock);
    give_locked(heap, offset, bytes);
    pthread_mutex_unlock(&heap->lock);
}

/* A huge page that came for the range alone leaves small ones beside the hole. They go as well, under the
 * lock, so that nobody takes them meanwhile: less than two huge pages. */
static void give_locked(struct asset_heap *heap, uint64_t offset, uint64_t bytes)
{
    const uint64_t end = offset + heap_ranges_round(bytes);
    uint64_t wide_begin = offset, wide_end = end;

    heap_ranges_give(&heap->ranges, offset, bytes);
    if (!heap->whole || heap->takeable)
        return;
    heap_ranges_widen(&heap->ranges, &wide_begin, &wide_end);
    if (wide_begin < offset)
        punch(heap, wide_begin, offset - wide_begin);
    if (end < wide_end)
        punch(heap, end, wide_end - end);
}

/* The kernel says so by the size of a block, which is a huge page's then. */
static bool has_whole_pages(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && st.st_blksize >= (blksize_t)HEAP_HUGE_BYTES;
}

static void *reclaim(void *context)
{
    struct asset_heap *heap = context;

    pthread_mutex_lock(&heap->lock);
    for (;;) {
        struct heap_order order;

        while (heap->done == heap->ordered && !heap->stopping)
            pthread_cond_wait(&heap->order_came, &heap->lock);
        if (heap->done == heap->ordered)
            break;
        order = heap->orders[heap->done % ORDERS];
        pthread_mutex_unlock(&heap->lock);
        punch(heap, order.offset, heap_ranges_round(order.bytes));
        pthread_mutex_lock(&heap->lock);
        give_locked(heap, order.offset, order.bytes);
        heap->ordered_bytes -= heap_ranges_round(order.bytes);
        heap->done++;
        pthread_cond_broadcast(&heap->order_done);
        if (heap->done == heap->ordered && heap->reclaimed != NULL)
            heap->reclaimed(heap->context);
    }
    pthread_mutex_unlock(&heap->lock);
    return NULL;
}
