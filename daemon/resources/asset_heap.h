/* asset_heap.h - the memory that decoded assets lie in.
 *
 * A sparse file with a large virtual size. A range is reserved before it is written, so that a full
 * memory is an error of one load and never a SIGBUS; freeing it punches a hole, so that the memory
 * comes back at once, even while games have it mapped.
 *
 * Thread: any. Cost: system calls; freeing costs about what bare fallocate does. */
#ifndef RESOURCES_ASSET_HEAP_H
#define RESOURCES_ASSET_HEAP_H

#include <pthread.h>
#include <stdint.h>

#include "foundation/error.h"
#include "resources/heap_ranges.h"

struct asset_heap {
    pthread_mutex_t lock; /* of ranges */
    struct heap_ranges ranges;
    unsigned char *base; /* of the file, mapped writable */
    int fd;
    uint64_t bytes;    /* of the file; page 0 is its header */
    uint64_t capacity; /* what can be taken */
};

/* base, fd and bytes stay the caller's. Returns EC_OK or EC_ERR_MEMORY. */
int asset_heap_init(struct asset_heap *heap, unsigned char *base, int fd, uint64_t bytes,
                    struct ec_error *why);
void asset_heap_finish(struct asset_heap *heap);

/* Take a range and reserve its memory, which is all zero.
 *
 * Returns EC_OK, EC_ERR_MEMORY (no free range, or no memory; the text says which) or EC_ERR_SYSTEM;
 * then nothing is taken. */
int asset_heap_reserve(struct asset_heap *heap, uint64_t bytes, uint64_t *offset,
                       struct ec_error *why);
/* Give back what reserve returned, with the same bytes. */
void asset_heap_free(struct asset_heap *heap, uint64_t offset, uint64_t bytes);

uint64_t asset_heap_used(struct asset_heap *heap); /* bytes in whole pages */

#endif
