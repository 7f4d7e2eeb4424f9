/* proto/memory_rows.h - add up what the threads of a client counted.
 *
 * Counters are monotonic and have one writer each, so a reader may add them at any time, also after
 * the writer was killed. A block that one thread allocated and another freed may be seen freed
 * first; a difference is therefore clamped at 0. Peaks are pushed in steps, so they are never
 * reported below what is current.
 *
 * Thread: any. Cost: one pass over the thread rows, below a microsecond. */
#ifndef EC_PROTO_MEMORY_ROWS_H
#define EC_PROTO_MEMORY_ROWS_H

#include "proto/client_segment.h"

struct ec_tag_sums {
    uint64_t bytes; /* current */
    uint64_t peak_bytes;
    uint64_t budget_bytes; /* 0: none */
    uint64_t count;        /* live blocks */
    uint64_t total;        /* allocations so far */
};

struct ec_allocator_sums {
    uint64_t current_bytes;
    uint64_t peak_bytes;
    uint64_t capacity_bytes;
    uint64_t count; /* live blocks */
    uint64_t total; /* allocations so far */
    uint64_t failed;
    uint64_t fallbacks;
    uint64_t largest_free_bytes;
    uint64_t unusable_bytes; /* free, but only for blocks of this allocator's one size */
    uint64_t block_bytes;    /* that size; 0: blocks have many sizes */
};

static inline uint64_t ec_row_load(const _Atomic uint64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed); /* counts order nothing else */
}

static inline uint64_t ec_row_difference(uint64_t in, uint64_t out)
{
    return in > out ? in - out : 0;
}

/* index < EC_ALLOCATORS_MAX; thread_count <= EC_THREADS_MAX, such as threads_high after a check. */
static inline void ec_allocator_count(const struct ec_thread_row *threads, uint32_t thread_count,
                                      uint32_t index, uint64_t *allocs, uint64_t *frees)
{
    *allocs = *frees = 0;
    for (uint32_t i = 0; i < thread_count; i++) {
        *frees += ec_row_load(&threads[i].allocators[index].frees);
        *allocs += ec_row_load(&threads[i].allocators[index].allocs);
    }
}

/* tag < EC_TAGS_MAX; thread_count as above. What threads counted for the tag itself, and what they
 * counted for the allocators that have it: an allocation is in one of the two. */
static inline struct ec_tag_sums ec_tag_sum(const struct ec_tag_row *tags,
                                            const struct ec_allocator_row *allocators,
                                            const struct ec_thread_row *threads,
                                            uint32_t thread_count, uint32_t tag)
{
    uint64_t allocs = 0, frees = 0, bytes_in = 0, bytes_out = 0, peak_bytes;

    for (uint32_t i = 0; i < thread_count; i++) {
        const struct ec_tag_counters *counters = &threads[i].tags[tag];

        frees += ec_row_load(&counters->frees);
        bytes_out += ec_row_load(&counters->bytes_out);
        allocs += ec_row_load(&counters->allocs);
        bytes_in += ec_row_load(&counters->bytes_in);
    }
    for (uint32_t i = 0; i < EC_ALLOCATORS_MAX; i++) {
        const struct ec_allocator_row *row = &allocators[i];
        const uint64_t block_bytes = ec_row_load(&row->block_bytes);
        uint64_t blocks_in, blocks_out, returned_bytes;

        /* Acquire: pairs with the release that takes the row, after its tag. */
        if (atomic_load_explicit(&row->kind, memory_order_acquire) == EC_ALLOCATOR_NONE ||
            row->tag != tag)
            continue;
        blocks_out = ec_row_load(&row->returned);
        frees += blocks_out;
        allocs += blocks_out + ec_row_load(&row->count);
        returned_bytes = ec_row_load(&row->returned_bytes);
        bytes_out += returned_bytes;
        bytes_in += returned_bytes + ec_row_load(&row->current_bytes);
        if (block_bytes == 0)
            continue;
        ec_allocator_count(threads, thread_count, i, &blocks_in, &blocks_out);
        allocs += blocks_in;
        frees += blocks_out;
        bytes_in += blocks_in * block_bytes;
        bytes_out += blocks_out * block_bytes;
    }
    peak_bytes = ec_row_load(&tags[tag].peak_bytes);
    bytes_in = ec_row_difference(bytes_in, bytes_out);
    return (struct ec_tag_sums) {
        .bytes = bytes_in,
        .peak_bytes = peak_bytes > bytes_in ? peak_bytes : bytes_in,
        .budget_bytes = ec_row_load(&tags[tag].budget_bytes),
        .count = ec_row_difference(allocs, frees),
        .total = allocs,
    };
}

/* index < EC_ALLOCATORS_MAX; thread_count as above. */
static inline struct ec_allocator_sums ec_allocator_sum(const struct ec_allocator_row *allocators,
                                                        const struct ec_thread_row *threads,
                                                        uint32_t thread_count, uint32_t index)
{
    const struct ec_allocator_row *row = &allocators[index];
    const uint64_t block_bytes = ec_row_load(&row->block_bytes);
    const uint64_t count = ec_row_load(&row->count);
    uint64_t allocs = 0, frees = 0, current_bytes, peak_bytes;

    if (block_bytes != 0)
        ec_allocator_count(threads, thread_count, index, &allocs, &frees);
    current_bytes =
        ec_row_load(&row->current_bytes) + ec_row_difference(allocs, frees) * block_bytes;
    peak_bytes = ec_row_load(&row->peak_bytes);
    return (struct ec_allocator_sums) {
        .current_bytes = current_bytes,
        .peak_bytes = peak_bytes > current_bytes ? peak_bytes : current_bytes,
        .capacity_bytes = ec_row_load(&row->capacity_bytes),
        .count = count + ec_row_difference(allocs, frees),
        .total = ec_row_load(&row->returned) + count + allocs,
        .failed = ec_row_load(&row->failed),
        .fallbacks = ec_row_load(&row->fallbacks),
        .largest_free_bytes = ec_row_load(&row->largest_free_bytes),
        .block_bytes = block_bytes,
        .unusable_bytes =
            block_bytes != 0
                ? ec_row_difference(
                      ec_row_difference(ec_row_load(&row->capacity_bytes), current_bytes),
                      ec_row_load(&row->reusable_bytes))
                : 0,
    };
}

#endif
