/* asset_heap.c - ranges of the heap file with their memory. */
#include "resources/asset_heap.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <string.h>

#include "proto/directory.h"

/* A step is short enough that the loop of another load, or a signal, is not kept waiting, and is one
 * huge page. */
#define RESERVE_STEP_BYTES HEAP_HUGE_BYTES

static int reserve_memory(struct asset_heap *heap, uint64_t offset, uint64_t bytes,
                          struct ec_error *why);
static void punch(struct asset_heap *heap, uint64_t offset, uint64_t bytes);
static void give(struct asset_heap *heap, uint64_t offset, uint64_t bytes);

int asset_heap_init(struct asset_heap *heap, unsigned char *base, int fd, uint64_t bytes,
                    struct ec_error *why)
{
    const uint64_t header = EC_SEGMENT_HEADER_BYTES;
    int rc;

    *heap = (struct asset_heap) { .base = base, .fd = fd, .bytes = bytes };
    heap->capacity = (bytes - header) & ~(uint64_t)(HEAP_PAGE_BYTES - 1);
    rc = heap_ranges_init(&heap->ranges, header, heap->capacity, EC_RESOURCES_MAX, why);
    if (rc < 0)
        return rc;
    pthread_mutex_init(&heap->lock, NULL); /* never fails with default attributes */
    return EC_OK;
}

void asset_heap_finish(struct asset_heap *heap)
{
    if (heap->ranges.free == NULL)
        return;
    pthread_mutex_destroy(&heap->lock);
    heap_ranges_finish(&heap->ranges);
}

int asset_heap_reserve(struct asset_heap *heap, uint64_t bytes, uint64_t *offset,
                       struct ec_error *why)
{
    uint64_t rounded = heap_ranges_round(bytes);
    int rc;

    pthread_mutex_lock(&heap->lock);
    rc = heap_ranges_take(&heap->ranges, bytes, offset);
    pthread_mutex_unlock(&heap->lock);
    if (rc < 0)
        return ec_fail(why, rc, "the asset heap of %" PRIu64 " bytes has no free range of %" PRIu64,
                       heap->bytes, rounded);
    rc = reserve_memory(heap, *offset, rounded, why);
    if (rc < 0) {
        punch(heap, *offset, rounded);
        give(heap, *offset, bytes);
    }
    return rc;
}

void asset_heap_free(struct asset_heap *heap, uint64_t offset, uint64_t bytes)
{
    punch(heap, offset, heap_ranges_round(bytes)); /* first: who gets the range finds it empty */
    give(heap, offset, bytes);
}

uint64_t asset_heap_used(struct asset_heap *heap)
{
    uint64_t used;

    pthread_mutex_lock(&heap->lock);
    used = heap->capacity - heap->ranges.free_bytes;
    pthread_mutex_unlock(&heap->lock);
    return used;
}

static int reserve_memory(struct asset_heap *heap, uint64_t offset, uint64_t bytes,
                          struct ec_error *why)
{
    for (uint64_t done = 0, step; done < bytes; done += step) {
        int error;

        step = bytes - done < RESERVE_STEP_BYTES ? bytes - done : RESERVE_STEP_BYTES;
        do
            error = fallocate(heap->fd, 0, (off_t)(offset + done), (off_t)step) < 0 ? errno : 0;
        while (error == EINTR);
        if (error != 0)
            return ec_fail(why, error == ENOSPC || error == ENOMEM ? EC_ERR_MEMORY : EC_ERR_SYSTEM,
                           "reserve %" PRIu64 " of %" PRIu64 " bytes: %s", done + step, bytes,
                           strerror(error));
    }
    return EC_OK;
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
    heap_ranges_give(&heap->ranges, offset, bytes);
    pthread_mutex_unlock(&heap->lock);
}
