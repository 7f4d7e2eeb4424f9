/* foundation/memory/space.h - where allocators get whole pages from: the system, or a piece of a segment.
 *
 * NULL is the system: pages are mapped and unmapped. Otherwise a space hands out parts of a range that
 * somebody else mapped, such as the room for blocks in a client segment, in units of 64 KiB; what is given
 * back is used again, and stays resident until then.
 *
 * Thread: any. Cost: system calls; or a lock and a search of a bitmap with one bit for each unit. */
#ifndef EC_FOUNDATION_MEMORY_SPACE_H
#define EC_FOUNDATION_MEMORY_SPACE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "foundation/error.h"

#define EC_SPACE_UNIT_BYTES (64u * 1024)

struct ec_space {
    char *base;
    size_t units;
    pthread_mutex_t lock;
    uint64_t *taken; /* one bit for each unit; under lock */
};

/* [base, base + bytes) stays the caller's and outlives the space. base is a multiple of a page.
 *
 * Returns EC_OK, EC_ERR_SIZE (below one unit), EC_ERR_MEMORY or EC_ERR_SYSTEM. */
int ec_space_init(struct ec_space *space, void *base, size_t bytes, struct ec_error *why);
void ec_space_finish(struct ec_space *space); /* accepts a zeroed one */

/* bytes is rounded up to pages (the system) or units; align is a power of two. New pages of the system are
 * zero, others are as they were left. NULL: refused. */
void *ec_space_map(struct ec_space *space, size_t bytes, size_t align);
void ec_space_unmap(struct ec_space *space, void *base, size_t bytes); /* as it was asked for */

/* As above, from the system, with a page behind it that nobody may touch. */
void *ec_space_map_guarded(size_t bytes, size_t align);
void ec_space_unmap_guarded(void *base, size_t bytes);

size_t ec_space_page_bytes(void);

#endif
