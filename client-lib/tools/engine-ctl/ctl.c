/* The connection of one run, and how errors become exit codes. */
#include "engine-ctl/ctl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <engine-core/client.h>

#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "proto/tables.h"

#define PROTOCOL "1"
#define JSON_SPACE " \t\r\n"

static int say_error(const struct ctl *ctl, const char *method, int rc,
                     const struct json_answer *answer, const struct ec_error *why);
static bool can_be_rehearsed(const char *method, const char *params);
static char *add_dry_run(const char *params);

int ctl_connect(struct ctl *ctl)
{
    char path[EC_SOCKET_PATH_MAX];
    struct ec_error why = { 0 };
    struct json_answer answer;
    int rc;

    if (json_socket_is_open(&ctl->socket))
        return EXIT_DONE;
    rc = ec_client_socket_path(ctl->socket_path, path, sizeof path, &why);
    if (rc == EC_OK)
        rc = json_socket_open(&ctl->socket, path, ctl->timeout_ms, &why);
    if (rc < 0)
        return ctl_fail(ctl_exit_code(rc), "%s", why.text);
    rc = json_socket_call(&ctl->socket, "core.hello",
                          "{\"name\":\"engine-ctl\",\"protocol\":" PROTOCOL "}", &answer, &why);
    if (rc < 0)
        rc = say_error(ctl, "core.hello", rc, &answer, &why);
    json_answer_finish(&answer);
    return rc;
}

int ctl_call(struct ctl *ctl, const char *method, const char *params, struct json_answer *answer)
{
    const bool is_rehearsal = ctl->dry_run && can_be_rehearsed(method, params);
    struct ec_error why = { 0 };
    char *with_dry_run = NULL;
    int rc;

    *answer = (struct json_answer) { 0 };
    rc = ctl_connect(ctl);
    if (rc != EXIT_DONE)
        return rc;
    if (is_rehearsal) {
        with_dry_run = add_dry_run(params);
        params = with_dry_run;
    }
    rc = json_socket_call(&ctl->socket, method, params, answer, &why);
    free(with_dry_run);
    if (rc < 0)
        return say_error(ctl, method, rc, answer, &why);
    if (!is_rehearsal)
        return EXIT_DONE;
    if (ctl->json)
        printf("%.*s\n", (int)answer->result_bytes, answer->result);
    else {
        char *would = tame_copy(json_text(answer->tree, "would"));

        printf("would %s\n", would);
        free(would);
    }
    rc = ctl_flush();
    return rc == EXIT_DONE ? EXIT_REHEARSED : rc;
}

int ctl_show(struct ctl *ctl, const char *method, cJSON *params, ctl_print_fn *print)
{
    char *text = params != NULL ? json_params(params) : NULL;
    struct json_answer answer;
    int rc;

    if (ctl->json) {
        rc = ctl_call_and_print(ctl, method, text);
    } else {
        rc = ctl_call(ctl, method, text, &answer);
        if (rc == EXIT_DONE) {
            print(ctl, answer.tree);
            rc = ctl_flush();
        }
        json_answer_finish(&answer);
    }
    cJSON_free(text);
    return rc;
}

int ctl_follow(struct ctl *ctl, const char *method, cJSON *params, const char *notification,
               ctl_take_fn *take, void *context)
{
    const int rc = ctl_subscribe(ctl, method, params);

    return rc == EXIT_DONE ? ctl_take(ctl, method, notification, take, context) : rc;
}

int ctl_subscribe(struct ctl *ctl, const char *method, cJSON *params)
{
    char *text = json_params(params);
    struct json_answer answer;
    int rc = ctl_call(ctl, method, text, &answer);

    cJSON_free(text);
    json_answer_finish(&answer);
    return rc;
}

int ctl_take(struct ctl *ctl, const char *what, const char *notification, ctl_take_fn *take,
             void *context)
{
    struct json_answer answer;
    struct ec_error why = { 0 };
    int rc;

    do {
        const int status = json_socket_next(&ctl->socket, notification, &answer, &why);

        if (status < 0)
            rc = ctl_fail(ctl_exit_code(status), "%s: %s", what, why.text);
        else
            rc = take(ctl, &answer, context);
        json_answer_finish(&answer);
        if (rc == EXIT_GO_ON && ctl_flush() != EXIT_DONE)
            rc = EXIT_ANSWERED_ERROR;
    } while (rc == EXIT_GO_ON);
    return rc;
}

bool ctl_print_line(const struct ctl *ctl, const struct json_answer *notification)
{
    if (!ctl->json && ctl->terminal)
        return false;
    printf("%.*s\n", (int)notification->result_bytes, notification->result);
    return true;
}

int ctl_call_and_print(struct ctl *ctl, const char *method, const char *params)
{
    struct json_answer answer;
    int rc = ctl_call(ctl, method, params, &answer);

    if (rc == EXIT_DONE) {
        printf("%.*s\n", (int)answer.result_bytes, answer.result);
        rc = ctl_flush();
    }
    json_answer_finish(&answer);
    return rc;
}

int ctl_fail(int code, const char *format, ...)
{
    va_list arguments;
    char *text = NULL;
    int bytes;

    fflush(stdout);
    va_start(arguments, format);
    bytes = vasprintf(&text, format, arguments);
    va_end(arguments);
    /* What the daemon answers may quote names that strangers chose. */
    fprintf(stderr, "engine-ctl: %s\n", bytes < 0 ? format : tame(text));
    if (bytes >= 0)
        free(text);
    return code;
}

int ctl_flush(void)
{
    if (fflush(stdout) != 0)
        return ctl_fail(EXIT_ANSWERED_ERROR, "write: %s", strerror(errno));
    /* An earlier write may have failed, of which only this is left. */
    return ferror(stdout) == 0 ? EXIT_DONE : ctl_fail(EXIT_ANSWERED_ERROR, "write error");
}

int ctl_exit_code(int error_code)
{
    static const struct {
        int error_code;
        int exit_code;
    } codes[] = {
        { EC_ERR_DISCONNECTED, EXIT_NO_DAEMON },
        { EC_ERR_TIMEOUT, EXIT_TIMEOUT },
        { EC_ERR_PERMISSION, EXIT_NOT_PERMITTED },
        { EC_ERR_VERSION, EXIT_INCOMPATIBLE },
    };

    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (codes[i].error_code == error_code)
            return codes[i].exit_code;
    return EXIT_ANSWERED_ERROR;
}

/* With --json an error that the daemon answered is its error object, as it came. */
static int say_error(const struct ctl *ctl, const char *method, int rc,
                     const struct json_answer *answer, const struct ec_error *why)
{
    if (ctl->json && answer->error != NULL)
        fprintf(stderr, "%.*s\n", (int)answer->error_bytes, answer->error);
    else
        ctl_fail(0, "%s: %s", method, why->text);
    return ctl_exit_code(rc);
}

static bool can_be_rehearsed(const char *method, const char *params)
{
    if (params != NULL && params[strspn(params, JSON_SPACE)] != '{')
        return false; /* the daemon says what is wrong with it */
    for (size_t i = 0; i < EC_COMMANDS; i++) {
        if (strcmp(ec_commands[i].method, method) != 0)
            continue;
        for (size_t p = 0; p < ec_commands[i].param_count; p++)
            if (strcmp(ec_commands[i].params[p].name, "dry_run") == 0)
                return true;
    }
    return false;
}

/* The params with one member more. */
static char *add_dry_run(const char *params)
{
    const char *members = params != NULL ? strchr(params, '{') + 1 : "}";
    const bool is_empty = members[strspn(members, JSON_SPACE)] == '}';
    char *text = NULL;

    if (asprintf(&text, "{\"dry_run\":true%s%s", is_empty ? "" : ",", members) < 0)
        abort(); /* a few bytes: nothing would work any more */
    return text;
}
