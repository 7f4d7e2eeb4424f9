/* proto/histogram.h - a log-linear histogram of durations, as it lies in segments.
 *
 * Four buckets per power of two from 64 ns to 2^32 ns (4.3 s): a percentile is read with an error
 * of at most 12.5 % of its value. One writer adds with relaxed stores; readers sum what they see
 * and tolerate that the last few samples are missing. */
#ifndef EC_PROTO_HISTOGRAM_H
#define EC_PROTO_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

#define EC_HISTOGRAM_FIRST_BITS 6 /* all below 64 ns share bucket 0 */
#define EC_HISTOGRAM_LAST_BITS 32
#define EC_HISTOGRAM_BUCKETS ((EC_HISTOGRAM_LAST_BITS - EC_HISTOGRAM_FIRST_BITS) * 4 + 2)

struct ec_histogram {
    _Atomic uint32_t bucket[EC_HISTOGRAM_BUCKETS];
    _Atomic uint64_t max_ns;
};

/* The bucket that a duration falls into. */
static inline uint32_t ec_histogram_bucket(uint64_t ns)
{
    uint32_t bits, index;

    if (ns < 1u << EC_HISTOGRAM_FIRST_BITS)
        return 0;
    bits = 63u - (uint32_t)__builtin_clzll(ns);
    if (bits >= EC_HISTOGRAM_LAST_BITS)
        return EC_HISTOGRAM_BUCKETS - 1;
    index = (bits - EC_HISTOGRAM_FIRST_BITS) * 4 + (uint32_t)(ns >> (bits - 2) & 3);
    return index + 1;
}

/* The middle of a bucket in ns: what a percentile reports. */
static inline uint64_t ec_histogram_value(uint32_t bucket)
{
    uint32_t octave, quarter;

    if (bucket == 0)
        return 1u << (EC_HISTOGRAM_FIRST_BITS - 1);
    if (bucket >= EC_HISTOGRAM_BUCKETS - 1)
        return 1ull << EC_HISTOGRAM_LAST_BITS;
    octave = (bucket - 1) / 4 + EC_HISTOGRAM_FIRST_BITS;
    quarter = (bucket - 1) % 4;
    return (1ull << octave) + (2 * quarter + 1) * (1ull << (octave - 3));
}

/* Count one duration. Only the one writer calls this. */
static inline void ec_histogram_add(struct ec_histogram *histogram, uint64_t ns)
{
    _Atomic uint32_t *bucket = &histogram->bucket[ec_histogram_bucket(ns)];

    atomic_store_explicit(bucket, atomic_load_explicit(bucket, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    if (ns > atomic_load_explicit(&histogram->max_ns, memory_order_relaxed))
        atomic_store_explicit(&histogram->max_ns, ns, memory_order_relaxed);
}

#endif
