/* segment/histogram.h - read the histograms that lie in segments (proto/histogram.h).
 *
 * A sum starts zeroed, takes any number of histograms, each copied once, and answers percentiles of
 * them all:
 *
 *     struct ec_histogram_sum sum = { 0 };
 *
 *     ec_histogram_sum_add(&sum, &reader->latency);
 *     ec_histogram_percentiles(&sum, &percentiles);
 *
 * Thread: any; the histogram's writer may go on. Cost: a pass over 106 buckets; no system call. */
#ifndef EC_SEGMENT_HISTOGRAM_H
#define EC_SEGMENT_HISTOGRAM_H

#include "proto/histogram.h"

struct ec_histogram_sum {
    uint64_t bucket[EC_HISTOGRAM_BUCKETS];
    uint64_t count;
    uint64_t max_ns;
};

/* p50 is the time that half of all took at most, to 12.5 %; none is above max, which is exact. All
 * are 0 when nothing was counted. */
struct ec_percentiles {
    uint64_t count;
    uint64_t p50_ns;
    uint64_t p99_ns;
    uint64_t p999_ns;
    uint64_t max_ns;
};

void ec_histogram_sum_add(struct ec_histogram_sum *sum, const struct ec_histogram *histogram);
void ec_histogram_percentiles(const struct ec_histogram_sum *sum,
                              struct ec_percentiles *percentiles);

#endif
