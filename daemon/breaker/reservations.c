/* reservations.c - a small table. */
#include "breaker/reservations.h"

#include <stddef.h>

#include "foundation/error.h"

static uint64_t difference(uint64_t more, uint64_t less);

uint32_t reservations_add(struct reservations *reservations, const struct reservation *wanted)
{
    for (unsigned i = 0; i < RESERVATIONS_MAX; i++) {
        struct reservation *row = &reservations->rows[i];

        if (row->id != 0)
            continue;
        if (++reservations->last_id == 0)
            reservations->last_id = 1;
        *row = *wanted;
        row->id = reservations->last_id;
        row->taken_bytes = 0;
        reservations->count++;
        return row->id;
    }
    return 0;
}

static struct reservation *find(struct reservations *reservations, uint32_t client_id, uint32_t id)
{
    for (unsigned i = 0; i < RESERVATIONS_MAX; i++)
        if (reservations->rows[i].id == id && reservations->rows[i].client_id == client_id)
            return &reservations->rows[i];
    return NULL;
}

bool reservations_has(struct reservations *reservations, uint32_t client_id, uint32_t id)
{
    return find(reservations, client_id, id) != NULL;
}

int reservations_release(struct reservations *reservations, uint32_t client_id, uint32_t id)
{
    struct reservation *row = find(reservations, client_id, id);

    if (row == NULL)
        return EC_ERR_NOT_FOUND;
    row->id = 0;
    reservations->count--;
    return EC_OK;
}

bool reservations_any(const struct reservations *reservations, uint32_t client_id)
{
    for (unsigned i = 0; i < RESERVATIONS_MAX && reservations->count > 0; i++)
        if (reservations->rows[i].id != 0 && reservations->rows[i].client_id == client_id)
            return true;
    return false;
}

/* No row takes more than the client has grown by since it was granted, and all of them together no more
 * than since the first. */
bool reservations_take(struct reservations *reservations, uint32_t client_id, uint64_t held_bytes)
{
    uint64_t first_bytes = 0, taken_bytes = 0;
    uint32_t after = 0;
    bool changed = false;

    for (;;) {
        struct reservation *next = NULL;
        uint64_t bytes, left_bytes;

        for (unsigned i = 0; i < RESERVATIONS_MAX; i++) {
            struct reservation *row = &reservations->rows[i];

            if (row->id > after && row->client_id == client_id &&
                (next == NULL || row->id < next->id))
                next = row;
        }
        if (next == NULL)
            return changed;
        if (after == 0)
            first_bytes = next->held_bytes;
        after = next->id;
        bytes = difference(held_bytes, next->held_bytes);
        left_bytes = difference(difference(held_bytes, first_bytes), taken_bytes);
        bytes = bytes < left_bytes ? bytes : left_bytes;
        bytes = bytes < next->bytes ? bytes : next->bytes;
        changed = changed || bytes != next->taken_bytes;
        next->taken_bytes = bytes;
        taken_bytes += bytes;
    }
}

unsigned reservations_end_client(struct reservations *reservations, uint32_t client_id)
{
    unsigned ended = 0;

    for (unsigned i = 0; i < RESERVATIONS_MAX; i++)
        if (reservations->rows[i].id != 0 && reservations->rows[i].client_id == client_id) {
            reservations->rows[i].id = 0;
            ended++;
        }
    reservations->count -= ended;
    return ended;
}

unsigned reservations_expire(struct reservations *reservations, int64_t now_ns)
{
    unsigned ended = 0;

    for (unsigned i = 0; i < RESERVATIONS_MAX && reservations->count > 0; i++)
        if (reservations->rows[i].id != 0 && now_ns >= reservations->rows[i].end_ns) {
            reservations->rows[i].id = 0;
            ended++;
        }
    reservations->count -= ended;
    return ended;
}

static uint64_t difference(uint64_t more, uint64_t less)
{
    return more > less ? more - less : 0;
}
