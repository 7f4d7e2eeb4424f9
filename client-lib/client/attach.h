/* attach.h - say hello and exchange segments, the first time and with each new daemon.
 *
 * The segments of another daemon take the place of those before at their addresses, so that threads of
 * the game that read the clock or acquire a resource at that moment need no lock and notice nothing.
 *
 * Thread: the one that creates the client; later the reading thread of the connection. */
#ifndef EC_CLIENT_ATTACH_H
#define EC_CLIENT_ATTACH_H

#include "client/client.h"

/* resume: NULL the first time; else ask to be the client that this was, and *resume says whether the
 * daemon agrees. Returns EC_OK, EC_ERR_VERSION, or as ec_connection_call. */
int ec_client_hello(struct ec_client *client, bool *resume, struct ec_error *why);

/* Hand up the own segments, map the daemon's. Returns EC_OK, EC_ERR_LAYOUT, EC_ERR_STATE (another time
 * namespace), EC_ERR_SIZE, EC_ERR_SYSTEM, EC_ERR_MEMORY, or as ec_connection_call. */
int ec_client_attach(struct ec_client *client, struct ec_error *why);

/* Unmap the heap, and those before it. */
void ec_client_heaps_finish(struct ec_client *client);

/* resume.c: tell another daemon, or the same one on another connection, all that it has to know.
 * context is the client. Returns EC_OK or why not; then the connection is closed and tried again. */
int ec_client_resume(void *context, struct ec_error *why);

#endif
