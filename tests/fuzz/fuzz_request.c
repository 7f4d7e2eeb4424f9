/* Lines of a stranger against the dispatcher: whatever comes, every answer is strict JSON and one line.
 *
 * Handlers are doubles that write a valid result and take what they are given, so that the fuzzer
 * reaches scanning, batches, binding, errors and deferred answers, and does not shut anything down. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "clients/clients.h"
#include "control/dispatcher.h"
#include "daemon/config.h"
#include "daemon/counters.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct services services;
static struct counters counters;
static struct dispatcher dispatcher;
static struct client client = { .id = 1 };
static struct caller caller;
static handler_fn *handlers[EC_COMMANDS];
static struct reply *deferred[1024];
static unsigned deferred_count;

static void check_answer(struct caller *to, const char *line, size_t bytes, const int *fds,
                         unsigned fd_count)
{
    const struct ec_json_limits limits = { .depth = EC_LINE_DEPTH + 2 }; /* an echo goes deeper */

    (void)to;
    (void)fds;
    (void)fd_count;
    if (ec_json_check(line, bytes, &limits, NULL) != EC_OK || memchr(line, '\n', bytes) != NULL ||
        bytes >= EC_LINE_BYTES)
        abort();
}

static int answer(struct request *request)
{
    ec_json_object_begin(request->result);
    if (request->raw.text != NULL) {
        ec_json_member_raw(request->result, "echo", request->raw);
        if (request_tree(request, request->raw) == NULL)
            ec_json_member_string(request->result, "why", request->why->text);
    }
    ec_json_object_end(request->result);
    return EC_OK;
}

static int answer_later(struct request *request)
{
    if (deferred_count == sizeof deferred / sizeof deferred[0])
        return ec_fail(request->why, EC_ERR_BUSY, "enough");
    return request_defer(request, NULL, NULL, &deferred[deferred_count++]);
}

static void set_up(void)
{
    const struct config_source source = { 0 };
    struct ec_error why;

    services.counters = &counters;
    if (config_create(&source, &services.config, &why) < 0 ||
        dispatcher_init(&dispatcher, &services, &why) < 0)
        abort();
    for (size_t i = 0; i < EC_COMMANDS; i++)
        handlers[i] = i % 8 == 7 ? answer_later : answer;
    dispatcher.handlers = handlers;
    caller = (struct caller) { .client = &client, .send = check_answer };
    caller_init(&caller);
}

/* The first byte is the role; then lines as they would be cut by a connection. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const char *at = (const char *)data + 1, *end = (const char *)data + bytes;

    if (services.config == NULL)
        set_up();
    if (bytes == 0)
        return 0;
    client.role = (enum ec_role)(data[0] % 4);
    while (at < end) {
        const char *lf = memchr(at, '\n', (size_t)(end - at));
        const size_t line_bytes = (size_t)((lf != NULL ? lf : end) - at);
        /* A copy of its own, so that one byte too many is seen. */
        char *line = malloc(line_bytes + 1);

        memcpy(line, at, line_bytes);
        line = realloc(line, line_bytes > 0 ? line_bytes : 1);
        dispatcher_takes_fds(&dispatcher, line, line_bytes);
        dispatcher_line(&dispatcher, &caller, line, line_bytes, NULL);
        free(line);
        at += line_bytes + 1;
    }
    if (data[0] & 4) {
        caller_finish(&caller);
    } else {
        for (unsigned i = 0; i < deferred_count; i++) {
            ec_json_null(reply_result(deferred[i]));
            reply_finish(deferred[i]);
        }
    }
    assert(caller.waiting == 0);
    deferred_count = 0;
    return 0;
}
