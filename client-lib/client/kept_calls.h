/* kept_calls.h - what a client asked of the daemon and would have to ask again of the next one: what it
 * is worth to the breaker, and the groups of step clocks that it is a member of.
 *
 * Thread: any; its mutex is never held during a call. */
#ifndef EC_CLIENT_KEPT_CALLS_H
#define EC_CLIENT_KEPT_CALLS_H

#include <pthread.h>

#include "client/client.h"

struct ec_kept_join {
    char *params; /* owned; NULL: no member */
    int bell_fd;  /* the member's; its number stays the same. -1: none */
};

struct ec_kept_calls {
    pthread_mutex_t mutex;
    char *declare; /* owned; NULL: never said */
    struct ec_kept_join joins[EC_STEP_CLOCKS_MAX];
};

int ec_kept_calls_create(struct ec_client *client, struct ec_error *why);
void ec_kept_calls_destroy(struct ec_client *client); /* accepts one without */

/* Copies params. Returns EC_OK or EC_ERR_MEMORY. */
int ec_kept_set_declare(struct ec_client *client, const char *params, struct ec_error *why);
int ec_kept_set_join(struct ec_client *client, uint32_t clock, const char *params, int bell_fd,
                     struct ec_error *why);
/* After this the bell is not touched any more: its owner may close it. */
void ec_kept_remove_join(struct ec_client *client, uint32_t clock);

/* Ask again. Returns EC_OK or as ec_connection_call. */
int ec_kept_declare(struct ec_client *client, struct ec_error *why);
int ec_kept_join_again(struct ec_client *client, struct ec_error *why);

#endif
