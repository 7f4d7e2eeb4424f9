/* request.h - one request on its way through a command handler.
 *
 *     int cmd_breaker_reset(struct request *request)
 *     {
 *         struct breaker *breaker = request->services->breaker;
 *
 *         breaker_reset(breaker);
 *         ec_json_object_begin(request->result);
 *         ec_json_member_i64(request->result, "level", breaker_level(breaker));
 *         ec_json_object_end(request->result);
 *         return EC_OK;
 *     }
 *
 * The control plane has checked role and parameters against the command table before. A handler
 * writes exactly one JSON value to result and returns EC_OK, or returns an error after ec_fail on
 * request->why; what it wrote is thrown away then, data excepted (a JSON value for the error's data
 * member, optional). A handler that answers later returns request_defer's EC_AGAIN.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_REQUEST_H
#define ENGINE_CORED_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/services.h"
#include "foundation/error.h"
#include "foundation/json/json_scan.h"
#include "foundation/json/json_writer.h"

struct cJSON;
struct client;
struct reply; /* a deferred answer */

/* A bound parameter. span is its JSON text; the member of the row's type is set too. Absent ones are
 * all zero with present == false, unless the table gives a default. */
struct param {
    bool present;
    bool boolean;
    int64_t integer;
    double number;
    uint64_t id;
    const char *string; /* unescaped, NUL-terminated, in the request's arena; no NUL inside */
    struct ec_json_span span;
};

/* struct params_breaker_trip { struct param level, reason, hold_s; } and so on, from the table. */
#define COMMAND(id, method, role, flags, help)                                                     \
    struct params_##id {                                                                           \
        struct param none; /* a command without parameters is legal C too */
#define PARAM(name, type, need, min, max, help) struct param name;
#define RESULT(name, type, help)
#define COMMAND_END(id)                                                                            \
    }                                                                                              \
    ;
#include "proto/tables/commands.def"
#undef COMMAND
#undef PARAM
#undef RESULT
#undef COMMAND_END

struct request {
    struct services *services;
    struct client *client;         /* who asks; never NULL; before hello its id is 0 */
    const void *params;            /* struct params_<id> of this command */
    struct ec_json_span raw;       /* the params as they came; empty when there were none */
    struct ec_json_writer *result; /* one JSON value */
    struct ec_json_writer *data;   /* of an error; write nothing for none */
    bool dry_run;                  /* nothing may change: request_would() answers */
    int *fds; /* descriptors of the line; take one by setting its place to -1 */
    unsigned fd_count;
    struct ec_error *why;
    struct call *call; /* the control plane's own */
};

/* Memory that lives as long as the request (4 MiB in all). NULL when that is used up. */
void *request_alloc(struct request *request, size_t bytes);

/* A parameter as a tree, in the request's memory. NULL with request->why set when it does not fit.
 * Numbers lose digits above 2^53 here; read those from the spans. */
struct cJSON *request_tree(struct request *request, struct ec_json_span span);

/* In each handler that changes something, behind the last check and before the first change:
 *
 *     if (request_would(request, "pause game time"))
 *         return EC_OK;
 *
 * true: the request is only to say what would happen, and this text has been written as its result. */
bool request_would(struct request *request, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same with further members: the result is an open object then, which the handler ends. */
bool request_would_begin(struct request *request, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Send fd with the reply, on its first byte. The caller keeps ownership; it stays open until
 * the handler returns. At most EC_LINE_FDS. */
int request_attach_fd(struct request *request, int fd);

/* Answer later: returns EC_AGAIN for the handler to return, and the reply to finish. When the
 * connection ends before, on_gone is told and the reply must not be finished any more. */
int request_defer(struct request *request, void (*on_gone)(void *context), void *context,
                  struct reply **reply);

/* Finish a deferred reply: exactly one of these, once. Begin with reply_result, write one value. */
struct ec_json_writer *reply_result(struct reply *reply);
struct ec_json_writer *reply_data(struct reply *reply);
void reply_finish(struct reply *reply);
void reply_fail(struct reply *reply, const struct ec_error *why);

/* The handlers: int cmd_<id>(struct request *), one for each row; a missing one does not link. */
#define COMMAND(id, method, role, flags, help) int cmd_##id(struct request *request);
#define PARAM(name, type, need, min, max, help)
#define RESULT(name, type, help)
#define COMMAND_END(id)
#include "proto/tables/commands.def"
#undef COMMAND
#undef PARAM
#undef RESULT
#undef COMMAND_END

#endif
