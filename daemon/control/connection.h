/* connection.h - the connections: bytes in, lines to the dispatcher, lines out.
 *
 * One wake of the loop reads once, handles all whole lines, and writes once. A connection that does
 * not take its answers is not read from any more; notifications beyond its output limit are dropped
 * and counted; replies alone beyond it end it.
 *
 *             +--> whole lines --> dispatcher --> output --+
 *   recvmsg --+                                            +--> sendmsg
 *             +--> tail (an unfinished line)     notify ---+
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_CONTROL_CONNECTION_H
#define ENGINE_CORED_CONTROL_CONNECTION_H

#include <sys/queue.h>
#include <uv.h>

#include "control/dispatcher.h"

#define READ_BYTES 65536

struct connection;
TAILQ_HEAD(connection_list, connection);

struct connections {
    struct services *services;
    struct dispatcher *dispatcher;
    struct connection_list all;
    struct connection_list touched; /* to be looked at before the loop sleeps */
    unsigned count;                 /* in all */
    unsigned handles;               /* not yet closed by libuv */
    unsigned deadlines;             /* connections that have one */
    uv_prepare_t before_sleep;
    uv_timer_t deadline_timer;
    struct ec_pool *pool;      /* of connections */
    struct log_limit refusals; /* of whole connections */
    char *read_buffer;         /* READ_BYTES, shared: it is empty between two wakes */
};

/* Returns EC_OK, EC_ERR_MEMORY. */
int connections_init(struct connections *connections, struct services *services,
                     struct dispatcher *dispatcher, struct ec_error *why);
/* Flush what can be flushed at once, end all connections, and let libuv close its handles. */
void connections_finish(struct connections *connections);

/* Take over an accepted socket. One that is over a limit or has no right gets an error line and is
 * closed. */
void connections_add(struct connections *connections, int socket_fd);

#endif
