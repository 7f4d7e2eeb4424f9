/* jitter.h - how late steps were in the last minute.
 *
 * Seven histograms of ten seconds each, used in turns: the one that time has come to is emptied and
 * filled, the sum of all is the last 60 to 70 seconds. One writer; readers sum what they see.
 *
 * Thread: recent_jitter_add step; recent_jitter_sum any. */
#ifndef ENGINE_CORED_SCHEDULER_JITTER_H
#define ENGINE_CORED_SCHEDULER_JITTER_H

#include <stdint.h>

#include "proto/histogram.h"
#include "segment/histogram.h"

#define JITTER_SLICES 7
#define JITTER_SLICE_NS INT64_C(10000000000)

struct recent_jitter {
    struct ec_histogram slice[JITTER_SLICES];
    _Atomic int64_t number[JITTER_SLICES]; /* now / JITTER_SLICE_NS when it was begun */
};

void recent_jitter_add(struct recent_jitter *recent, int64_t now_ns, uint64_t late_ns);
void recent_jitter_sum(const struct recent_jitter *recent, int64_t now_ns,
                       struct ec_histogram_sum *sum);

#endif
