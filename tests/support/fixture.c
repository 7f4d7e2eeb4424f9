/* fixture.c - see fixture.h. */
#include "support/fixture.h"

#include <stdio.h>
#include <stdlib.h>

#include "foundation/real_time.h"

const char *const fixture_patient[] = { "--set", "event.stall_ms=60000", NULL };

static void must(bool ok, const char *what, const char *why)
{
    if (!ok) {
        fprintf(stderr, "fixture: %s%s\n", what, why);
        abort();
    }
}

void fixture_start(struct daemon_process *engine, struct line_client *tool,
                   const char *const *arguments)
{
    must(daemon_start(engine, arguments), "the daemon did not start: ", engine->why);
    must(line_client_connect(tool, engine->socket_path), "connect to ", engine->socket_path);
    must(line_client_hello(tool, "operator") != NULL, "no answer from ", engine->socket_path);
}

void fixture_stop(struct daemon_process *engine, struct line_client *tool)
{
    int status;

    line_client_close(tool);
    status = daemon_stop(engine);
    must(status == 0, "the daemon ended badly", status < 0 ? ", by a signal" : "");
}

void fixture_restart(struct daemon_process *engine, struct line_client *tool,
                     const char *const *arguments)
{
    fixture_stop(engine, tool);
    *engine = (struct daemon_process) { 0 };
    fixture_start(engine, tool, arguments);
}

void fixture_await_clients(struct line_client *tool, unsigned count)
{
    char wanted[16];

    snprintf(wanted, sizeof wanted, "%u", count);
    while (!line_has(line_client_call(tool, "core.info", NULL), "clients", wanted))
        continue;
}

void fixture_await_descriptors(const struct daemon_process *engine, struct line_client *tool,
                               unsigned at_most)
{
    const int64_t end_ns = ec_real_ns() + DAEMON_WAIT_MS * 1000000ll;
    unsigned count;
    char text[64];

    do {
        line_client_call(tool, "core.ping", NULL); /* its loop has gone round */
        count = process_descriptors(engine->pid);
    } while (count > at_most && ec_real_ns() < end_ns);
    snprintf(text, sizeof text, "%u are open, %u were", count, at_most);
    must(count <= at_most, "the daemon left descriptors open: ", text);
}
