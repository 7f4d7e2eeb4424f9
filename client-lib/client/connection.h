/* connection.h - the control socket as the library uses it: requests, answers, notifications.
 *
 * When the daemon hangs up, whoever reads tries to connect again, with pauses that grow from 50 ms to
 * 2 s, and hands back what the new daemon has to know (desc.resume). Until that is done all calls of
 * others fail at once.
 *
 *     OPEN --hang up--> CLOSED --connected--> RESUMING --handed back--> OPEN
 *                         ^------- failed -------+
 *
 * The number of the socket's descriptor stays the same through all of this. While CLOSED without a
 * service thread it is that of a timer, readable when it is time for the next try.
 *
 * One thread at a time reads the socket: the service thread, or, with no_thread, whoever dispatches
 * or waits for an answer. Answers are matched by id; notifications go to the handlers on the reading
 * thread. Sending is serialised by a mutex. SIGPIPE is never raised.
 *
 * Thread: any, except where stated. */
#ifndef EC_CLIENT_CONNECTION_H
#define EC_CLIENT_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "foundation/error.h"
#include "foundation/json/json_scan.h"
#include "proto/line.h"

struct ec_connection;

struct ec_connection_desc {
    const char *socket_path; /* as it is: the default was looked up before */
    uint32_t timeout_ms;     /* of each call, from sending to the answer */
    /* On the reading thread, when the daemon hung up and all waiting calls have failed; and when the
     * connection stands again. */
    void (*on_hang_up)(void *context);
    void (*on_return)(void *context);
    /* On the reading thread, with a new connection that only this thread may call on: say hello, hand
     * back. EC_OK, or an error: then the next try comes later. */
    int (*resume)(void *context, struct ec_error *why);
    void *context;
};

/* Connect. Until ec_connection_start the connection has no service thread.
 *
 * Returns EC_OK, EC_ERR_PARAM (path over EC_SOCKET_PATH_BYTES), EC_ERR_DISCONNECTED (nobody listens
 *         there), EC_ERR_PERMISSION, EC_ERR_MEMORY or EC_ERR_SYSTEM. */
int ec_connection_create(const struct ec_connection_desc *desc, struct ec_connection **connection,
                         struct ec_error *why);
/* No call may be going on. Not from a notification handler. Accepts NULL. */
void ec_connection_destroy(struct ec_connection *connection);

/* Start the service thread, which reads from now on. EC_OK or EC_ERR_SYSTEM. */
int ec_connection_start(struct ec_connection *connection, struct ec_error *why);
/* From now on a connection that breaks is made again. Thread: before ec_connection_start. */
void ec_connection_keep(struct ec_connection *connection);

/* Without a service thread: the socket, and handle what has come. EC_OK, EC_AGAIN (nothing to do),
 * EC_ERR_DISCONNECTED. With one: -1 and EC_AGAIN. */
int ec_connection_fd(const struct ec_connection *connection);
int ec_connection_dispatch(struct ec_connection *connection);

bool ec_connection_is_open(const struct ec_connection *connection);
/* How often it was made again. What a call arranged counts only if this is the same before and after. */
uint64_t ec_connection_generation(struct ec_connection *connection);

/* false: the program closed all descriptors, as those that become daemons do, and the numbers may be
 * somebody else's: none may be closed, and nothing else be done with this. Thread: signal. */
bool ec_connection_has_descriptors(const struct ec_connection *connection);

/* In a forked child: close the descriptors and fail all later calls; the parent's connection stands.
 * Thread: the one that forked; no lock is taken. */
void ec_connection_abandon(struct ec_connection *connection);

/* One request and its answer. Fill in the first part; finish it after use, also after an error. */
struct ec_call {
    const char *method;
    const char *params; /* JSON text of an object, NUL-terminated; NULL: none */
    const int *fds;     /* sent with the line; stay the caller's */
    unsigned fd_count;

    char *line;                 /* the answer's text; owned by the call */
    struct ec_json_span result; /* inside line, checked JSON */
    int reply_fds[EC_LINE_FDS]; /* close-on-exec; take one by setting its place to -1 */
    unsigned reply_fd_count;
};

/* Send and wait. Not from a notification handler (it would wait for itself): assert.
 *
 * Returns EC_OK, the daemon's error code with its message, EC_ERR_DISCONNECTED, EC_ERR_TIMEOUT,
 *         EC_ERR_PARAM (params are not a JSON object or array), EC_ERR_SIZE (the request is over
 *         EC_LINE_BYTES) or EC_ERR_MEMORY. */
int ec_connection_call(struct ec_connection *connection, struct ec_call *call,
                       struct ec_error *why);
void ec_call_finish(struct ec_call *call); /* closes the descriptors that were not taken */

/* Send a notification: nobody answers, so a handler may do it too. params is JSON text of an object.
 * Returns EC_OK, EC_ERR_DISCONNECTED, EC_ERR_TIMEOUT or as ec_connection_call. */
int ec_connection_notify(struct ec_connection *connection, const char *method, const char *params,
                         struct ec_error *why);

/* Most methods that can have a handler. */
#define EC_NOTIFICATIONS_MAX 8

/* A notification's params and descriptors; a handler takes a descriptor by setting its place to -1.
 * Handlers run on the reading thread and must be short. method is a literal.
 * Thread: before ec_connection_start. Returns EC_OK or EC_ERR_LIMIT. */
typedef void ec_notification_fn(void *context, struct ec_json_span params, int *fds,
                                unsigned fd_count);
int ec_connection_on(struct ec_connection *connection, const char *method, ec_notification_fn *fn,
                     void *context);

#endif
