/* client/breaker.h - what a client keeps for the breaker. */
#ifndef EC_CLIENT_BREAKER_H
#define EC_CLIENT_BREAKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <engine-core/breaker.h>

#include "proto/breaker_board.h"

struct ec_client;

enum ec_breaker_watch_kind { EC_WATCH_FRAME, EC_WATCH_IMMEDIATE, EC_WATCH_KINDS };

/* A call-back and what it was told last. lock is held while it runs and while it is changed. */
struct ec_breaker_watcher {
    pthread_mutex_t lock;
    _Atomic uint32_t is_set; /* looked at before the lock is taken */
    struct ec_breaker_watch watch;
    uint32_t level;
    uint64_t order;
};

/* Zero is a client without a board: the level of all is all that it sees. */
struct ec_client_breaker {
    const struct ec_breaker_board *board;
    /* The own slot; NULL: none. Another daemon may give another one. */
    _Atomic(const struct ec_breaker_order *) order;
    _Atomic uint64_t told; /* the order that a policy told last */
    struct ec_breaker_watcher watchers[EC_WATCH_KINDS];
};

/* After the directory is mapped and before the connection starts. Returns EC_OK or EC_ERR_LIMIT. */
int ec_client_breaker_create(struct ec_client *client, struct ec_error *why);

/* The own slot in the board of the daemon that is attached to now. */
void ec_client_breaker_find_order(struct ec_client *client);

/* Run the call-back of this kind if something has changed for it. */
void ec_client_breaker_look(struct ec_client *client, enum ec_breaker_watch_kind kind);

#endif
