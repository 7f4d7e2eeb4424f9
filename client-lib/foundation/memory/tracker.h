/* foundation/memory/tracker.h - tells the table of call sites what the allocators of a sink hand out.
 *
 *   allocator --> watch.h --> sampler: is the block chosen?
 *                                |
 *                                +--> stack or file:line --> sites.h, and the block is remembered
 *   free ------> watch.h --> remembered? then its site loses it
 *
 * Whether a block is remembered is looked up in 64 KiB of counters first, by a hash of its address, so
 * that the free of a block that was not chosen takes no lock.
 *
 * Thread: any. Cost: not chosen, some nanoseconds; chosen, a stack and a lock. */
#ifndef EC_FOUNDATION_MEMORY_TRACKER_H
#define EC_FOUNDATION_MEMORY_TRACKER_H

#include "foundation/error.h"
#include "foundation/memory/block_table.h"
#include "foundation/memory/module_list.h"
#include "foundation/memory/sites.h"
#include "foundation/memory/watch.h"

#define EC_TRACKER_FILTER 65536

struct ec_tracker {
    struct ec_memory_sink *sink;
    struct ec_tracking *tracking;
    _Atomic uint64_t sample_bytes; /* 0: nothing is chosen; blocks that were are still looked for */
    uint64_t serial;               /* of this tracker in the process */
    struct ec_memory_watch watch;
    struct ec_sites sites;
    pthread_mutex_t modules_lock;
    struct ec_module_list modules;
    _Atomic bool has_news;
    struct ec_block_table blocks;
    _Atomic uint8_t
        filter[EC_TRACKER_FILTER]; /* how many remembered blocks; 255: it was more once */
};

/* Begin to watch the sink. tracking: rows of the same segment. The tracker is zeroed memory.
 * sample_bytes: mean distance, 1: each block. */
void ec_tracker_start(struct ec_tracker *tracker, struct ec_memory_sink *sink,
                      struct ec_tracking *tracking, uint64_t sample_bytes);

/* Another distance from now on; 0 ends the choosing. Blocks keep the weight that they were chosen with. */
void ec_tracker_set(struct ec_tracker *tracker, uint64_t sample_bytes);

/* Write down modules that were loaded since; not inside an allocator. */
void ec_tracker_update_modules(struct ec_tracker *tracker);

/* No allocator of the sink is used any more. Accepts NULL. */
void ec_tracker_finish(struct ec_tracker *tracker);

#endif
