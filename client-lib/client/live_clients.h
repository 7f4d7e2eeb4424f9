/* live_clients.h - the clients that this process has now.
 *
 * Two things reach the library without a pointer to a client: a fork, and the end of a thread. For
 * them there is one list per process.
 *
 * A forked child must not keep the connection open, or the daemon would take the parent for alive
 * when it is dead; and it must not count into the parent's segments. So the child closes the
 * descriptors, and private zero pages take the place of the segments, which fork has left out.
 *
 * Thread: any. */
#ifndef EC_CLIENT_LIVE_CLIENTS_H
#define EC_CLIENT_LIVE_CLIENTS_H

#include "client/client.h"

/* Sets client->serial. EC_OK or EC_ERR_MEMORY (the fork handler could not be registered). */
int ec_live_clients_add(struct ec_client *client, struct ec_error *why);
void ec_live_clients_remove(struct ec_client *client); /* accepts one that was never added */

/* The client with this serial, which stays alive until the unlock; NULL: it is gone, and nothing has
 * to be unlocked. */
struct ec_client *ec_live_clients_lock(uint64_t serial);
void ec_live_clients_unlock(void);

#endif
