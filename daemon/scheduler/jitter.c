/* jitter.c - see jitter.h. */
#include "scheduler/jitter.h"

static void empty(struct ec_histogram *histogram)
{
    for (unsigned i = 0; i < EC_HISTOGRAM_BUCKETS; i++)
        atomic_store_explicit(&histogram->bucket[i], 0, memory_order_relaxed);
    atomic_store_explicit(&histogram->max_ns, 0, memory_order_relaxed);
}

void recent_jitter_add(struct recent_jitter *recent, int64_t now_ns, uint64_t late_ns)
{
    int64_t number = now_ns / JITTER_SLICE_NS;
    unsigned at = (unsigned)(number % JITTER_SLICES);

    if (atomic_load_explicit(&recent->number[at], memory_order_relaxed) != number) {
        empty(&recent->slice[at]);
        atomic_store_explicit(&recent->number[at], number, memory_order_relaxed);
    }
    ec_histogram_add(&recent->slice[at], late_ns);
}

void recent_jitter_sum(const struct recent_jitter *recent, int64_t now_ns,
                       struct ec_histogram_sum *sum)
{
    int64_t number = now_ns / JITTER_SLICE_NS;

    for (unsigned i = 0; i < JITTER_SLICES; i++)
        if (number - atomic_load_explicit(&recent->number[i], memory_order_relaxed) < JITTER_SLICES)
            ec_histogram_sum_add(sum, &recent->slice[i]);
}
