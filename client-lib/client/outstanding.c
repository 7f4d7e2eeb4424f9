/* outstanding.c - see outstanding.h. */
#include "client/outstanding.h"

#include <assert.h>
#include <stdlib.h>

int ec_outstanding_init(struct ec_outstanding *outstanding, uint32_t capacity)
{
    *outstanding = (struct ec_outstanding) {
        .slots = calloc(capacity, sizeof *outstanding->slots),
        .heap = calloc(capacity, sizeof *outstanding->heap),
        .capacity = capacity,
    };
    if (outstanding->slots == NULL || outstanding->heap == NULL) {
        ec_outstanding_finish(outstanding);
        return EC_ERR_MEMORY;
    }
    for (uint32_t i = 0; i < capacity; i++)
        outstanding->slots[i].place = i + 1;
    return EC_OK;
}

void ec_outstanding_finish(struct ec_outstanding *outstanding)
{
    free(outstanding->slots);
    free(outstanding->heap);
    *outstanding = (struct ec_outstanding) { 0 };
}

/* ---- the heap: no slot has an earlier deadline than the one above it --------------------------- */

static int64_t deadline_at(const struct ec_outstanding *outstanding, uint32_t place)
{
    return outstanding->slots[outstanding->heap[place]].deadline_ns;
}

static void put(struct ec_outstanding *outstanding, uint32_t place, uint32_t slot)
{
    outstanding->heap[place] = slot;
    outstanding->slots[slot].place = place;
}

static void rise(struct ec_outstanding *outstanding, uint32_t place)
{
    uint32_t slot = outstanding->heap[place];

    while (place > 0 &&
           deadline_at(outstanding, (place - 1) / 2) > outstanding->slots[slot].deadline_ns) {
        put(outstanding, place, outstanding->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    put(outstanding, place, slot);
}

static void sink(struct ec_outstanding *outstanding, uint32_t place)
{
    uint32_t slot = outstanding->heap[place];

    for (;;) {
        uint32_t child = 2 * place + 1;

        if (child + 1 < outstanding->count &&
            deadline_at(outstanding, child + 1) < deadline_at(outstanding, child))
            child++;
        if (child >= outstanding->count ||
            deadline_at(outstanding, child) >= outstanding->slots[slot].deadline_ns)
            break;
        put(outstanding, place, outstanding->heap[child]);
        place = child;
    }
    put(outstanding, place, slot);
}

/* ---- requests -------------------------------------------------------------------------------- */

uint64_t ec_outstanding_add(struct ec_outstanding *outstanding, int64_t deadline_ns,
                            ec_reply_fn *fn, void *context)
{
    uint32_t index = outstanding->first_free;
    struct ec_outstanding_slot *slot = &outstanding->slots[index];

    assert(outstanding->count < outstanding->capacity);
    outstanding->first_free = slot->place;
    slot->deadline_ns = deadline_ns;
    slot->fn = fn;
    slot->context = context;
    slot->generation++;
    outstanding->heap[outstanding->count++] = index;
    rise(outstanding, outstanding->count - 1);
    return (uint64_t)slot->generation << 32 | index;
}

bool ec_outstanding_remove(struct ec_outstanding *outstanding, uint64_t correlation,
                           struct ec_outstanding_slot *removed)
{
    uint32_t index = (uint32_t)correlation, last;
    struct ec_outstanding_slot *slot;

    if (index >= outstanding->capacity)
        return false;
    slot = &outstanding->slots[index];
    if (slot->generation != correlation >> 32 || (slot->generation & 1) == 0)
        return false;
    *removed = *slot;
    last = outstanding->heap[--outstanding->count];
    if (last != index) { /* the last one takes its place, and then its own */
        put(outstanding, removed->place, last);
        sink(outstanding, removed->place);
        rise(outstanding, outstanding->slots[last].place);
    }
    slot->generation++;
    slot->place = outstanding->first_free;
    outstanding->first_free = index;
    return true;
}

bool ec_outstanding_first(const struct ec_outstanding *outstanding, uint64_t *correlation,
                          int64_t *deadline_ns)
{
    uint32_t index = outstanding->heap[0];

    if (outstanding->count == 0)
        return false;
    *correlation = (uint64_t)outstanding->slots[index].generation << 32 | index;
    *deadline_ns = outstanding->slots[index].deadline_ns;
    return true;
}
