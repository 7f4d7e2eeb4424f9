/* The connection of one run, and how errors become exit codes. */
#include "engine-ctl/ctl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <engine-core/client.h>

#define PROTOCOL "1"

static int say_error(const struct ctl *ctl, const char *method, int rc,
                     const struct json_answer *answer, const struct ec_error *why);

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
    struct ec_error why = { 0 };
    int rc;

    *answer = (struct json_answer) { 0 };
    rc = ctl_connect(ctl);
    if (rc != EXIT_DONE)
        return rc;
    rc = json_socket_call(&ctl->socket, method, params, answer, &why);
    return rc == EC_OK ? EXIT_DONE : say_error(ctl, method, rc, answer, &why);
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

    fflush(stdout);
    fputs("engine-ctl: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
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
