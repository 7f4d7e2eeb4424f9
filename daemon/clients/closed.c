/* closed.c - a ring of rows. */
#include "clients/closed.h"

#include <string.h>

void closed_clients_add(struct closed_clients *closed, const struct client *client, int64_t now_ns)
{
    struct closed_client *row = &closed->rows[closed->count++ % CLOSED_CLIENTS_MAX];

    *row = (struct closed_client) {
        .id = client->id,
        .pid = client->pid,
        .uid = client->uid,
        .reason = client->close_reason,
        .since_ns = client->since_ns,
        .ended_ns = now_ns,
        .received_bytes = client->received_bytes,
        .sent_bytes = client->sent_bytes,
        .lost_notifications = client->lost_notifications,
    };
    memcpy(row->name, client->name, sizeof row->name);
}

const struct closed_client *closed_clients_at(const struct closed_clients *closed, unsigned index)
{
    if (index >= CLOSED_CLIENTS_MAX || index >= closed->count)
        return NULL;
    return &closed->rows[(closed->count - 1 - index) % CLOSED_CLIENTS_MAX];
}
