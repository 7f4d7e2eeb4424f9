/* alarm_hook.c - one child process at a time, with a time limit. */
#include "breaker/alarm_hook.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/log.h"

#define VARIABLES 6
#define VARIABLE_BYTES 192
#define ENVIRONMENT_MAX 256

extern char **environ;

static void on_timer(uv_timer_t *timer);
static void start(struct alarm_hook *hook);
static int spawn(struct alarm_hook *hook);
static void kill_group(const struct alarm_hook *hook);
static void on_exit_of(uv_process_t *process, int64_t status, int signal);
static void on_process_closed(uv_handle_t *handle);
static void on_closed(uv_handle_t *handle);

int alarm_hook_init(struct alarm_hook *hook, uv_loop_t *loop, struct ec_error *why)
{
    int rc;

    *hook = (struct alarm_hook) { .loop = loop };
    rc = uv_timer_init(loop, &hook->timer);
    if (rc < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "timer of the alarm: %s", uv_strerror(rc));
    uv_unref((uv_handle_t *)&hook->timer);
    hook->timer.data = hook;
    hook->open_handles = 1;
    return EC_OK;
}

void alarm_hook_close(struct alarm_hook *hook, void (*closed)(void *context), void *context)
{
    hook->on_closed = closed;
    hook->context = context;
    hook->is_waiting = false;
    if (hook->is_running && !uv_is_closing((uv_handle_t *)&hook->process)) {
        kill_group(hook);
        uv_close((uv_handle_t *)&hook->process, on_closed);
    }
    uv_close((uv_handle_t *)&hook->timer, on_closed);
}

void alarm_hook_tell(struct alarm_hook *hook, const struct alarm_values *values)
{
    hook->values = *values;
    hook->is_waiting = true;
    if (!hook->is_running)
        uv_timer_start(&hook->timer, on_timer, 0, 0);
}

static void on_timer(uv_timer_t *timer)
{
    struct alarm_hook *hook = timer->data;

    if (!hook->is_running) {
        start(hook);
        return;
    }
    log_warning("breaker", "the command of breaker.on_level took too long and was killed");
    hook->killed++;
    kill_group(hook);
}

static void start(struct alarm_hook *hook)
{
    int rc;

    if (!hook->is_waiting)
        return;
    hook->is_waiting = false;
    rc = spawn(hook);
    hook->open_handles++; /* also a process that did not start has to be closed */
    hook->is_running = true;
    if (rc < 0) {
        hook->failed++;
        log_warning("breaker", "the command of breaker.on_level did not start: %s",
                    uv_strerror(rc));
        uv_close((uv_handle_t *)&hook->process, on_process_closed);
        return;
    }
    hook->started++;
    uv_unref((uv_handle_t *)&hook->process);
    uv_timer_start(&hook->timer, on_timer, (uint64_t)hook->values.limit_s * 1000, 0);
}

static int spawn(struct alarm_hook *hook)
{
    const struct alarm_values *values = &hook->values;
    static char shell[] = "/bin/sh", option[] = "-c"; /* libuv wants them writable */
    char command[POLICY_COMMAND_BYTES], variables[VARIABLES][VARIABLE_BYTES];
    char *arguments[] = { shell, option, command, NULL };
    char *environment[ENVIRONMENT_MAX + VARIABLES + 1];
    unsigned count = 0;
    uv_stdio_container_t stdio[] = { { .flags = UV_IGNORE },
                                     { .flags = UV_INHERIT_FD, .data.fd = 2 },
                                     { .flags = UV_INHERIT_FD, .data.fd = 2 } };
    const uv_process_options_t options = {
        .exit_cb = on_exit_of,
        .file = shell,
        .args = arguments,
        .env = environment,
        .flags = UV_PROCESS_DETACHED, /* a process group of its own, to be killed as a whole */
        .stdio = stdio,
        .stdio_count = 3,
    };

    strcpy(command, values->command);
    snprintf(variables[0], VARIABLE_BYTES, "EC_BREAKER_LEVEL=%u", values->to);
    snprintf(variables[1], VARIABLE_BYTES, "EC_BREAKER_FROM=%u", values->from);
    snprintf(variables[2], VARIABLE_BYTES, "EC_BREAKER_CAUSE=%s", values->cause);
    snprintf(variables[3], VARIABLE_BYTES, "EC_BREAKER_REASON=%s", values->reason);
    snprintf(variables[4], VARIABLE_BYTES, "EC_BREAKER_AVAILABLE_BYTES=%" PRIu64,
             values->available_bytes);
    snprintf(variables[5], VARIABLE_BYTES, "EC_BREAKER_TOTAL_BYTES=%" PRIu64, values->total_bytes);
    while (count < ENVIRONMENT_MAX && environ[count] != NULL) {
        environment[count] = environ[count];
        count++;
    }
    for (unsigned i = 0; i < VARIABLES; i++)
        environment[count++] = variables[i];
    environment[count] = NULL;
    hook->process.data = hook;
    return uv_spawn(hook->loop, &hook->process, &options);
}

static void kill_group(const struct alarm_hook *hook)
{
    kill(-hook->process.pid, SIGKILL);
}

static void on_exit_of(uv_process_t *process, int64_t status, int signal)
{
    struct alarm_hook *hook = process->data;

    if (status != 0 || signal != 0) {
        hook->failed++;
        log_warning("breaker", "the command of breaker.on_level ended with status %d, signal %d",
                    (int)status, signal);
    }
    uv_timer_stop(&hook->timer);
    uv_close((uv_handle_t *)process, on_process_closed);
}

/* The next one may begin: the handle is free again. */
static void on_process_closed(uv_handle_t *handle)
{
    struct alarm_hook *hook = handle->data;

    hook->open_handles--;
    hook->is_running = false;
    if (hook->on_closed == NULL)
        start(hook);
    else if (hook->open_handles == 0)
        hook->on_closed(hook->context);
}

static void on_closed(uv_handle_t *handle)
{
    struct alarm_hook *hook = handle->data;

    if (--hook->open_handles == 0)
        hook->on_closed(hook->context);
}
