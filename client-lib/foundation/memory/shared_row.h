/* foundation/memory/shared_row.h - a row in which any thread counts, for allocators that need no speed.
 *
 * Blocks have different sizes and are counted in the row itself by atomic additions; the tag's peak is
 * pushed with each. With the tag EC_TAG_NONE only the row counts: whoever hands out the blocks counts for
 * their tags.
 *
 * Thread: any; init and finish while nobody else uses it. Cost: four to six atomic additions a block. */
#ifndef EC_FOUNDATION_MEMORY_SHARED_ROW_H
#define EC_FOUNDATION_MEMORY_SHARED_ROW_H

#include "foundation/memory/sink.h"

struct ec_shared_row {
    struct ec_memory_sink *sink;
    struct ec_allocator_row *row; /* in the sink, or row_private */
    uint32_t tag;
    bool is_locked; /* the allocator calls under a lock of its own: plain additions do */
    struct ec_allocator_row row_private;
};

void ec_shared_row_init(struct ec_shared_row *shared, struct ec_memory_sink *sink, const char *name,
                        enum ec_allocator_kind kind, uint32_t tag);

/* What is still out counts as freed with the allocator. */
void ec_shared_row_finish(struct ec_shared_row *shared);

/* A block of so many bytes came or went, with so many bytes of the system behind it. */
void ec_shared_row_allocated(struct ec_shared_row *shared, uint64_t bytes, uint64_t capacity_bytes);
void ec_shared_row_freed(struct ec_shared_row *shared, uint64_t bytes, uint64_t capacity_bytes);

static inline void ec_shared_row_failed(struct ec_shared_row *shared)
{
    ec_count(&shared->row->failed, 1, true);
}

static inline void ec_shared_row_stats(const struct ec_shared_row *shared,
                                       struct ec_memory_stats *stats)
{
    ec_memory_row_stats(shared->row, stats);
}

#endif
