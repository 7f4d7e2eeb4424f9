/* sharing.c - fill up shares by weight until nobody has more to give. */
#include "breaker/sharing.h"

static double weight_of(const struct sharing_row *row);

uint64_t sharing_compute(struct sharing_row *rows, unsigned count, uint64_t bytes)
{
    uint64_t left = bytes;

    for (unsigned i = 0; i < count; i++)
        rows[i].bytes = 0;
    /* Each pass fills at least one row up, or gives all away. */
    for (unsigned pass = 0; pass <= count && left > 0; pass++) {
        const uint64_t before = left;
        double weights = 0;

        for (unsigned i = 0; i < count; i++)
            weights += weight_of(&rows[i]);
        if (weights <= 0)
            break;
        for (unsigned i = 0; i < count && left > 0; i++) {
            const uint64_t room = rows[i].evictable_bytes - rows[i].bytes;
            uint64_t share = (uint64_t)((double)before * (weight_of(&rows[i]) / weights)) + 1;

            if (weight_of(&rows[i]) <= 0)
                continue;
            share = share < room ? share : room;
            share = share < left ? share : left;
            rows[i].bytes += share;
            left -= share;
        }
    }
    return left;
}

/* By all that it could give, not by what is left of that: else the order of passes would count. */
static double weight_of(const struct sharing_row *row)
{
    double weight;

    if (row->spared || row->bytes >= row->evictable_bytes)
        return 0;
    weight = (double)row->evictable_bytes * (double)(SHARING_PRIORITY_MAX + 1 - row->priority);
    if (row->idle)
        weight *= 2;
    return row->late ? weight / 4 : weight;
}
