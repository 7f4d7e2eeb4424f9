/* Atomic additions to one row, and to the tag when the row is in no list. */
#include "foundation/memory/shared_row.h"

#include "proto/memory_rows.h"

static void count_for_tag(struct ec_shared_row *shared, uint64_t allocs, uint64_t bytes_in,
                          uint64_t frees, uint64_t bytes_out);

void ec_shared_row_init(struct ec_shared_row *shared, struct ec_memory_sink *sink, const char *name,
                        enum ec_allocator_kind kind, uint32_t tag)
{
    *shared = (struct ec_shared_row) { .sink = sink, .tag = tag };
    if (sink != NULL)
        shared->row = ec_memory_sink_row_take(sink, name, kind, tag, 0);
    if (shared->row != NULL)
        return;
    shared->row = &shared->row_private;
    ec_memory_row_init(shared->row, name, kind, tag, 0);
}

/* The row goes, and with it what was counted there; from now on the tag itself says so. */
void ec_shared_row_finish(struct ec_shared_row *shared)
{
    const uint64_t count = ec_row_load(&shared->row->count);
    const uint64_t bytes = ec_row_load(&shared->row->current_bytes);
    const uint64_t returned = ec_row_load(&shared->row->returned);
    const uint64_t returned_bytes = ec_row_load(&shared->row->returned_bytes);

    if (ec_memory_row_is_listed(shared->sink, shared->row)) {
        count_for_tag(shared, returned + count, returned_bytes + bytes, returned + count,
                      returned_bytes + bytes);
        ec_memory_sink_row_leave(shared->sink, shared->row);
    } else {
        count_for_tag(shared, 0, 0, count, bytes);
    }
    if (shared->sink != NULL && shared->tag != EC_TAG_NONE)
        ec_memory_sink_push_bytes(shared->sink, shared->tag, -(int64_t)bytes);
}

void ec_shared_row_allocated(struct ec_shared_row *shared, uint64_t bytes, uint64_t capacity_bytes)
{
    struct ec_allocator_row *row = shared->row;
    const bool shared_by_threads = !shared->is_locked;
    uint64_t now, peak;

    now = ec_row_load(&row->current_bytes);
    if (shared_by_threads)
        now = atomic_fetch_add_explicit(&row->current_bytes, bytes, memory_order_relaxed);
    else
        atomic_store_explicit(&row->current_bytes, now + bytes, memory_order_relaxed);
    now += bytes;
    peak = atomic_load_explicit(&row->peak_bytes, memory_order_relaxed);

    while (now > peak &&
           !atomic_compare_exchange_weak_explicit(&row->peak_bytes, &peak, now,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
    ec_count(&row->count, 1, shared_by_threads);
    ec_count(&row->capacity_bytes, capacity_bytes, shared_by_threads);
    if (shared->sink == NULL || shared->tag == EC_TAG_NONE)
        return;
    ec_memory_sink_push_bytes(shared->sink, shared->tag, (int64_t)bytes);
    if (!ec_memory_row_is_listed(shared->sink, row))
        count_for_tag(shared, 1, bytes, 0, 0);
}

/* A reader may look between the additions: it finds the block in `count` or in `returned`, or for a
 * moment in both, never in none. */
void ec_shared_row_freed(struct ec_shared_row *shared, uint64_t bytes, uint64_t capacity_bytes)
{
    struct ec_allocator_row *row = shared->row;
    const bool shared_by_threads = !shared->is_locked;

    ec_count(&row->returned, 1, shared_by_threads);
    ec_count(&row->returned_bytes, bytes, shared_by_threads);
    ec_count(&row->count, (uint64_t)-1, shared_by_threads);
    ec_count(&row->current_bytes, -bytes, shared_by_threads);
    ec_count(&row->capacity_bytes, -capacity_bytes, shared_by_threads);
    if (shared->sink == NULL || shared->tag == EC_TAG_NONE)
        return;
    ec_memory_sink_push_bytes(shared->sink, shared->tag, -(int64_t)bytes);
    if (!ec_memory_row_is_listed(shared->sink, row))
        count_for_tag(shared, 0, 0, 1, bytes);
}

/* Nothing is pushed: that was done with each block. */
static void count_for_tag(struct ec_shared_row *shared, uint64_t allocs, uint64_t bytes_in,
                          uint64_t frees, uint64_t bytes_out)
{
    struct ec_memory_account account;

    if (shared->sink == NULL || shared->tag == EC_TAG_NONE)
        return;
    account = ec_memory_sink_account(shared->sink, shared->tag);
    ec_count(&account.tag->allocs, allocs, account.shared);
    ec_count(&account.tag->bytes_in, bytes_in, account.shared);
    ec_count(&account.tag->frees, frees, account.shared);
    ec_count(&account.tag->bytes_out, bytes_out, account.shared);
}
