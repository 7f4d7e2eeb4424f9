/* connection.h - the control socket as the library uses it: requests, answers, notifications.
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

#include "foundation/error.h"
#include "foundation/json/json_scan.h"
#include "proto/line.h"

struct ec_connection;

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
 * Returns EC_OK, the daemon's error code with its message, EC_ERR_DISCONNECTED, EC_ERR_TIMEOUT or
 *         EC_ERR_MEMORY. */
int ec_connection_call(struct ec_connection *connection, struct ec_call *call,
                       struct ec_error *why);
void ec_call_finish(struct ec_call *call); /* closes the descriptors that were not taken */

/* A notification's params and descriptors; a handler takes a descriptor by setting its place to -1.
 * Handlers run on the reading thread and must be short. Thread: before ec_connection_start. */
typedef void ec_notification_fn(void *context, struct ec_json_span params, int *fds,
                                unsigned fd_count);
int ec_connection_on(struct ec_connection *connection, const char *method, ec_notification_fn *fn,
                     void *context);

#endif
