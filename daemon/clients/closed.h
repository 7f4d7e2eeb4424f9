/* closed.h - the last closed connections: who they were and why they ended. Thread: loop. */
#ifndef ENGINE_CORED_CLIENTS_CLOSED_H
#define ENGINE_CORED_CLIENTS_CLOSED_H

#include "clients/clients.h"

#define CLOSED_CLIENTS_MAX 128

struct closed_client {
    uint32_t id; /* 0: it never said hello */
    char name[CLIENT_NAME_BYTES];
    pid_t pid;
    uid_t uid;
    const char *reason; /* a literal */
    int64_t since_ns;
    int64_t ended_ns;
    uint64_t received_bytes;
    uint64_t sent_bytes;
    uint64_t lost_notifications;
};

struct closed_clients {
    struct closed_client rows[CLOSED_CLIENTS_MAX];
    uint64_t count; /* since the start */
};

void closed_clients_add(struct closed_clients *closed, const struct client *client, int64_t now_ns);
/* The last ones, newest first: index 0.. until NULL. */
const struct closed_client *closed_clients_at(const struct closed_clients *closed, unsigned index);

#endif
