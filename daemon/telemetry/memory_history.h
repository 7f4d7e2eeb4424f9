/* memory_history.h - what one client's memory did over time: rates, and what only grows.
 *
 * The client is looked at about once a second; nothing is asked of it. A pool whose live blocks only
 * grew over many frames, or a place that allocates in each frame, is not wrong by itself, but it is
 * where to look first.
 *
 * Programs without frame marks count as if they had 60 frames a second.
 *
 * Thread: loop. Cost: a look is some 10 us. */
#ifndef ENGINE_CORED_TELEMETRY_MEMORY_HISTORY_H
#define ENGINE_CORED_TELEMETRY_MEMORY_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/client_segment.h"

/* Live blocks that have not become fewer since a frame. */
struct memory_growth {
    uint64_t total; /* allocations so far, at the last look; fewer: it is another allocator */
    uint64_t count;
    uint64_t begin_count;
    uint64_t begin_frame;
    uint64_t grown_frame; /* in which it grew last */
    uint32_t steps;       /* looks at which it had grown */
};

/* Allocations of a site, in a row of frames in which it had at least one each. */
struct memory_site_rate {
    uint64_t total;
    uint64_t begin_frame;
};

struct memory_history {
    uint64_t looks;
    int64_t at_ns;
    uint64_t frame;
    double allocations_per_s;
    double tag_allocations_per_s[EC_TAGS_MAX];
    uint64_t tag_total[EC_TAGS_MAX];
    struct memory_growth growth[EC_ALLOCATORS_MAX]; /* by row */
    struct memory_site_rate *sites;                 /* by row */
    uint32_t site_count;
};

void memory_history_finish(struct memory_history *history); /* accepts a zeroed one */

void memory_history_look(struct memory_history *history, const struct ec_client_segment *segment,
                         int64_t now_ns);

/* For so many frames at least: the allocator's live blocks only grew, and still do; the site allocated in
 * each. frames is how many it has been. */
bool memory_history_grows(const struct memory_history *history, uint32_t allocator,
                          uint64_t frames_min, uint64_t *frames);
bool memory_history_is_busy(const struct memory_history *history, uint32_t site,
                            uint64_t frames_min, uint64_t *frames);

#endif
