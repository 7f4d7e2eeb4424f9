/* ctl.h - one run of engine-ctl: what all verbs share.
 *
 * A verb returns an exit code. Whoever finds a fault says it on stderr and returns the code; callers
 * only pass it on.
 *
 * Thread: the only one. */
#ifndef ENGINE_CTL_CTL_H
#define ENGINE_CTL_CTL_H

#include <stdbool.h>

#include "engine-ctl/json_socket.h"

enum exit_code {
    EXIT_DONE = 0,
    EXIT_ANSWERED_ERROR = 1, /* the daemon answered an error, or output could not be written */
    EXIT_USAGE = 2,
    EXIT_NO_DAEMON = 3, /* none there, or it hung up */
    EXIT_TIMEOUT = 4,
    EXIT_NOT_PERMITTED = 5,
    EXIT_INCOMPATIBLE = 6, /* the daemon speaks another protocol version */
    EXIT_REHEARSED = 100,  /* within the program: --dry-run has said what would happen; ends as 0 */
};

struct ctl {
    const char *socket_path; /* NULL: the default */
    int timeout_ms;          /* of each request */
    bool json;               /* --json */
    bool dry_run;            /* --dry-run: methods that change something are only rehearsed */
    bool terminal;           /* stdout is one */
    bool colours;            /* on a terminal, and NO_COLOR is not set */
    struct json_socket socket;
};

/* Connect and say hello, at the first call; later ones do nothing. */
int ctl_connect(struct ctl *ctl);

/* One request. params is the JSON text of an object, NULL for none. answer is to be finished by the
 * caller, also after an error. */
int ctl_call(struct ctl *ctl, const char *method, const char *params, struct json_answer *answer);

/* What most verbs do: one request, whose result is printed as it came with --json, else by print. params
 * is deleted; NULL for none. */
typedef void ctl_print_fn(const struct ctl *ctl, const cJSON *result);
int ctl_show(struct ctl *ctl, const char *method, cJSON *params, ctl_print_fn *print);

/* Subscribe with a method, and take its notifications until the daemon goes, a signal ends it, or take
 * answers with something else than EXIT_GO_ON: the exit code. Each is handed on; take prints it. Both
 * steps by themselves, for who has to do something between them. */
#define EXIT_GO_ON (-1)
typedef int ctl_take_fn(struct ctl *ctl, const struct json_answer *notification, void *context);
int ctl_follow(struct ctl *ctl, const char *method, cJSON *params, const char *notification,
               ctl_take_fn *take, void *context);
int ctl_subscribe(struct ctl *ctl, const char *method, cJSON *params);
int ctl_take(struct ctl *ctl, const char *what, const char *notification, ctl_take_fn *take,
             void *context); /* what: for messages */

/* Print a notification as it came, in one line, when that is wanted: with --json or in a pipe. */
bool ctl_print_line(const struct ctl *ctl, const struct json_answer *notification);

/* The same when the result is printed as it came, in one line: all there is to do with --json. */
int ctl_call_and_print(struct ctl *ctl, const char *method, const char *params);

/* Say "engine-ctl: ..." on stderr and return the code. */
int ctl_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The exit code of an error of the library or the daemon. */
int ctl_exit_code(int error_code);

/* EXIT_DONE, or EXIT_ANSWERED_ERROR when stdout could not take all that was printed. */
int ctl_flush(void);

#endif
