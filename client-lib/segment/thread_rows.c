#include "segment/thread_rows.h"

#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static bool take(struct ec_client_segment *segment, uint32_t slot);
static void raise_high(struct ec_client_segment *segment, uint32_t slot);

uint32_t ec_thread_rows_claim(struct ec_client_segment *segment)
{
    for (uint32_t slot = 0; slot < EC_THREAD_SLOT_SHARED; slot++) {
        struct ec_thread_row *row = &segment->threads[slot];

        if (!take(segment, slot))
            continue;
        /* for people: a reader may see the name half written, bounded by the array all the same */
        if (prctl(PR_GET_NAME, row->name) < 0)
            row->name[0] = '\0';
        atomic_store_explicit(&row->tid, (uint32_t)gettid(), memory_order_relaxed);
        return slot;
    }
    return ec_thread_rows_claim_shared(segment);
}

uint32_t ec_thread_rows_claim_shared(struct ec_client_segment *segment)
{
    static const char name[EC_THREAD_NAME_BYTES] = "shared";

    if (take(segment, EC_THREAD_SLOT_SHARED))
        memcpy(segment->threads[EC_THREAD_SLOT_SHARED].name, name, sizeof name);
    else
        raise_high(segment, EC_THREAD_SLOT_SHARED); /* who took it may not have come to that yet */
    return EC_THREAD_SLOT_SHARED;
}

void ec_thread_rows_leave(struct ec_client_segment *segment, uint32_t slot)
{
    if (slot != EC_THREAD_SLOT_SHARED)
        atomic_store_explicit(&segment->threads[slot].used, 0, memory_order_release);
}

static bool take(struct ec_client_segment *segment, uint32_t slot)
{
    _Atomic uint32_t *used = &segment->threads[slot].used;
    uint32_t expected = 0;

    if (atomic_load_explicit(used, memory_order_relaxed) != 0)
        return false;
    /* acquire pairs with the release in ec_thread_rows_leave: the counts that the last owner left are
     * added to by plain loads and stores */
    if (!atomic_compare_exchange_strong_explicit(used, &expected, 1, memory_order_acquire,
                                                 memory_order_relaxed))
        return false;
    raise_high(segment, slot);
    return true;
}

/* Raised before the first count in the slot, so that who sees the count also looks there: the evict
 * scan runs behind a membarrier, which orders both stores. */
static void raise_high(struct ec_client_segment *segment, uint32_t slot)
{
    uint32_t high = atomic_load_explicit(&segment->threads_high, memory_order_relaxed);

    while (high < slot + 1 &&
           !atomic_compare_exchange_weak_explicit(&segment->threads_high, &high, slot + 1,
                                                  memory_order_release, memory_order_relaxed))
        ;
}
