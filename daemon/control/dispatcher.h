/* dispatcher.h - from one line to its answer: JSON-RPC 2.0 over the command table.
 *
 *   line --> strict scan --> request object --> command --> role --> parameters --> cmd_<id>()
 *                                                                                      |
 *   line <-- batch <-- result or error <-----------------------------------------------+
 *
 * The dispatcher knows callers, not sockets: it is given a line and answers through the caller's
 * send. An answer may come later (request_defer); it then lives in a struct reply of its caller.
 *
 * Thread: loop. Cost: a request that is answered at once allocates nothing. */
#ifndef ENGINE_CORED_CONTROL_DISPATCHER_H
#define ENGINE_CORED_CONTROL_DISPATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "control/methods.h"
#include "control/request_memory.h"
#include "daemon/log_limit.h"
#include "daemon/request.h"
#include "proto/line.h"

/* Who sends lines and gets answers. */
struct caller {
    struct client *client;
    /* Queue one line without LF; fds stay the dispatcher's. It cannot fail: a caller that can take no
     * more ends. */
    void (*send)(struct caller *caller, const char *line, size_t bytes, const int *fds,
                 unsigned fd_count);
    uint32_t waiting; /* requests without an answer */
    TAILQ_HEAD(replies, reply) replies;
};

/* What came with a line beside its bytes. */
struct line_rights {
    int fds[EC_LINE_FDS];
    unsigned count;
    const char *fault; /* why the descriptors cannot be used; NULL: they can */
};

typedef int handler_fn(struct request *request);

struct dispatcher {
    struct services *services;
    handler_fn *const *handlers; /* of each command; a test puts in its own */
    struct methods methods;
    struct request_memory memory;
    struct log_limit refusals;   /* of methods that the caller's role may not call */
    struct ec_json_writer reply; /* the answer being written, one text */
    struct ec_json_writer data;  /* of its error */
    struct ec_json_writer batch; /* the answers of a batch so far; bytes only */
    struct param params[METHOD_PARAMS_MAX + 1];
};

int dispatcher_init(struct dispatcher *dispatcher, struct services *services, struct ec_error *why);
void dispatcher_finish(struct dispatcher *dispatcher); /* accepts a zeroed one */

void caller_init(struct caller *caller);
/* The connection is gone: tell those who have deferred, and drop their replies. */
void caller_finish(struct caller *caller);

/* Handle one line without its LF. rights may be NULL; descriptors that the handler takes are set to
 * -1, the others stay the caller's. */
void dispatcher_line(struct dispatcher *dispatcher, struct caller *caller, const char *line,
                     size_t bytes, struct line_rights *rights);

/* Would this line's method take descriptors? For a whole line or anything else. */
bool dispatcher_takes_fds(const struct dispatcher *dispatcher, const char *line, size_t bytes);

/* Answer with an error that belongs to no request: id null. data is JSON text, or NULL. */
void dispatcher_complain(struct dispatcher *dispatcher, struct caller *caller, int code,
                         const char *text, const char *data);

#endif
