/* reservations.c - a small table. */
#include "breaker/reservations.h"

#include <stddef.h>

#include "foundation/error.h"

uint32_t reservations_add(struct reservations *reservations, uint32_t client_id, uint64_t bytes,
                          int64_t end_ns)
{
    for (unsigned i = 0; i < RESERVATIONS_MAX; i++) {
        struct reservation *row = &reservations->rows[i];

        if (row->id != 0)
            continue;
        if (++reservations->last_id == 0)
            reservations->last_id = 1;
        *row = (struct reservation) { reservations->last_id, client_id, bytes, end_ns };
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
    return EC_OK;
}

unsigned reservations_end_client(struct reservations *reservations, uint32_t client_id)
{
    unsigned ended = 0;

    for (unsigned i = 0; i < RESERVATIONS_MAX; i++)
        if (reservations->rows[i].id != 0 && reservations->rows[i].client_id == client_id) {
            reservations->rows[i].id = 0;
            ended++;
        }
    return ended;
}

unsigned reservations_expire(struct reservations *reservations, int64_t now_ns)
{
    unsigned ended = 0;

    for (unsigned i = 0; i < RESERVATIONS_MAX; i++)
        if (reservations->rows[i].id != 0 && now_ns >= reservations->rows[i].end_ns) {
            reservations->rows[i].id = 0;
            ended++;
        }
    return ended;
}
