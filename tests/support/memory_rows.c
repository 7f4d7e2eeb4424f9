/* Rows in ordinary memory, and which thread has which. */
#include "support/memory_rows.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "foundation/memory/pool_threads.h"

static _Thread_local uint32_t slot_plus_1;
static pthread_key_t at_end;
static struct memory_rows *in_use;

static uint32_t thread_slot(void *context)
{
    struct memory_rows *rows = context;

    if (slot_plus_1 != 0)
        return slot_plus_1 - 1;
    for (uint32_t slot = 0; slot < EC_THREADS_MAX - 1; slot++) {
        uint32_t expected = 0, high = atomic_load(&rows->threads_high);

        if (!atomic_compare_exchange_strong(&rows->threads[slot].used, &expected, 1))
            continue;
        while (high < slot + 1 &&
               !atomic_compare_exchange_weak(&rows->threads_high, &high, slot + 1))
            ;
        slot_plus_1 = slot + 1;
        pthread_setspecific(at_end, rows);
        return slot;
    }
    return EC_THREADS_MAX - 1;
}

static void thread_ends(void *context)
{
    struct memory_rows *rows = context;

    if (rows != in_use)
        return;
    ec_pool_threads_leave(&rows->sink);
    atomic_store(&rows->threads[slot_plus_1 - 1].used, 0);
    slot_plus_1 = 0;
}

struct memory_rows *memory_rows_create(void)
{
    struct memory_rows *rows = aligned_alloc(EC_HOT_BYTES, sizeof *rows);

    if (rows == NULL || pthread_key_create(&at_end, thread_ends) != 0)
        abort();
    memset(rows, 0, sizeof *rows);
    slot_plus_1 = 0;
    in_use = rows;
    rows->sink.tags = rows->tags;
    rows->sink.allocators = rows->allocators;
    rows->sink.threads = rows->threads;
    rows->sink.threads_high = &rows->threads_high;
    rows->sink.thread_slot = thread_slot;
    rows->sink.context = rows;
    if (ec_memory_sink_init(&rows->sink, NULL) < 0)
        abort();
    return rows;
}

void memory_rows_destroy(struct memory_rows *rows)
{
    pthread_key_delete(at_end);
    slot_plus_1 = 0;
    in_use = NULL;
    ec_memory_sink_finish(&rows->sink);
    free(rows);
}

struct ec_tag_sums memory_rows_tag(const struct memory_rows *rows, uint32_t tag)
{
    return ec_tag_sum(rows->tags, rows->allocators, rows->threads, atomic_load(&rows->threads_high),
                      tag);
}

struct ec_allocator_sums memory_rows_allocator(const struct memory_rows *rows, const char *name)
{
    for (uint32_t i = 0; i < EC_ALLOCATORS_MAX; i++)
        if (atomic_load(&rows->allocators[i].kind) != EC_ALLOCATOR_NONE &&
            strcmp(rows->allocators[i].name, name) == 0)
            return ec_allocator_sum(rows->allocators, rows->threads,
                                    atomic_load(&rows->threads_high), i);
    return (struct ec_allocator_sums) { 0 };
}

unsigned memory_rows_listed(const struct memory_rows *rows)
{
    unsigned count = 0;

    for (uint32_t i = 0; i < EC_ALLOCATORS_MAX; i++)
        count += atomic_load(&rows->allocators[i].kind) != EC_ALLOCATOR_NONE;
    return count;
}
