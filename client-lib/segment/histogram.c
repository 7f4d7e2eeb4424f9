/* histogram.c - sum histograms and find the bucket in which a share of all lies. */
#include "segment/histogram.h"

static uint64_t quantile(const struct ec_histogram_sum *sum, uint64_t per_mille);

/* The loads are relaxed: buckets are counted independently, and a sample more or less is nothing. */
void ec_histogram_sum_add(struct ec_histogram_sum *sum, const struct ec_histogram *histogram)
{
    uint64_t max_ns = atomic_load_explicit(&histogram->max_ns, memory_order_relaxed);

    for (uint32_t i = 0; i < EC_HISTOGRAM_BUCKETS; i++) {
        uint32_t count = atomic_load_explicit(&histogram->bucket[i], memory_order_relaxed);

        sum->bucket[i] += count;
        sum->count += count;
    }
    if (max_ns > sum->max_ns)
        sum->max_ns = max_ns;
}

void ec_histogram_percentiles(const struct ec_histogram_sum *sum,
                              struct ec_percentiles *percentiles)
{
    *percentiles = (struct ec_percentiles) { .count = sum->count };
    if (sum->count == 0)
        return;
    percentiles->p50_ns = quantile(sum, 500);
    percentiles->p99_ns = quantile(sum, 990);
    percentiles->p999_ns = quantile(sum, 999);
    percentiles->max_ns = sum->max_ns;
}

/* The first bucket up to which at least this share lies. The middle of the last bucket in use may lie
 * above the largest sample: then that is the better answer. */
static uint64_t quantile(const struct ec_histogram_sum *sum, uint64_t per_mille)
{
    uint64_t below = sum->count / 1000 * per_mille + (sum->count % 1000 * per_mille + 999) / 1000;
    uint64_t seen = 0, value_ns = 0;

    for (uint32_t i = 0; i < EC_HISTOGRAM_BUCKETS && seen < below; i++) {
        seen += sum->bucket[i];
        value_ns = ec_histogram_value(i);
    }
    return value_ns < sum->max_ns ? value_ns : sum->max_ns;
}
