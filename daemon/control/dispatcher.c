/* JSON-RPC 2.0 to the letter, between lines and handlers. */
#include "control/dispatcher.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clients/clients.h"
#include "control/binding.h"
#include "control/reply.h"
#include "daemon/config.h"
#include "daemon/counters.h"
#include "daemon/log.h"
#include "daemon/own_memory.h"
#include "foundation/real_time.h"
#include "proto/tables/nearest.h"

#define ID_BYTES_MAX 4096 /* a longer id is no id: its echo would take the room of the answer */

enum field { FIELD_JSONRPC, FIELD_ID, FIELD_METHOD, FIELD_PARAMS, FIELDS };

static const char *const field_names[FIELDS] = { "jsonrpc", "id", "method", "params" };

/* A command without a handler does not link. */
static handler_fn *const handlers[EC_COMMANDS] = {
#define COMMAND(id, method, role, flags, help) cmd_##id,
#define PARAM(name, type, need, min, max, help)
#define RESULT(name, type, help)
#define COMMAND_END(id)
#include "proto/tables/commands.def"
#undef COMMAND
#undef PARAM
#undef RESULT
#undef COMMAND_END
};

static const struct ec_json_span no_id;

static void dispatch_one(struct dispatcher *dispatcher, struct caller *caller,
                         const struct ec_json_span values[FIELDS], struct line_rights *rights);
static void dispatch_batch(struct dispatcher *dispatcher, struct caller *caller, const char *line,
                           size_t bytes, struct line_rights *rights);
static size_t check_batch(struct dispatcher *dispatcher, struct caller *caller, const char *line,
                          size_t bytes, const struct line_rights *rights);
static bool answer(struct dispatcher *dispatcher, struct call *call,
                   const struct ec_json_span values[FIELDS], struct line_rights *rights);
static int check_request(const struct ec_json_span values[FIELDS], struct ec_error *why);
static int prepare(struct dispatcher *dispatcher, const struct call *call,
                   const struct ec_json_span values[FIELDS], const struct line_rights *rights,
                   int *command, struct ec_error *why);
static void log_refusal(struct dispatcher *dispatcher, const struct client *client,
                        const struct ec_command_row *row);
static int fail_method(struct ec_json_span name, struct ec_error *why);
static void complain_of_fault(struct dispatcher *dispatcher, struct caller *caller, int code,
                              const struct ec_json_fault *fault);
static void end_request(struct dispatcher *dispatcher);

int dispatcher_init(struct dispatcher *dispatcher, struct services *services, struct ec_error *why)
{
    *dispatcher = (struct dispatcher) { .services = services, .handlers = handlers };
    methods_init(&dispatcher->methods);
    reply_writer_init(&dispatcher->reply, EC_LINE_BYTES - 1);
    reply_writer_init(&dispatcher->data, EC_LINE_BYTES / 2);
    reply_writer_init(&dispatcher->batch, EC_LINE_BYTES - 1);
    return request_memory_init(&dispatcher->memory, own_memory_sink(services->own_memory),
                               own_memory_tag(services->own_memory, OWN_MEMORY_REQUESTS), why);
}

void dispatcher_finish(struct dispatcher *dispatcher)
{
    reply_writer_finish(&dispatcher->reply);
    reply_writer_finish(&dispatcher->data);
    reply_writer_finish(&dispatcher->batch);
    request_memory_finish(&dispatcher->memory);
}

void caller_init(struct caller *caller)
{
    caller->waiting = 0;
    TAILQ_INIT(&caller->replies);
}

void caller_finish(struct caller *caller)
{
    while (!TAILQ_EMPTY(&caller->replies))
        reply_abandon(TAILQ_FIRST(&caller->replies));
}

void dispatcher_line(struct dispatcher *dispatcher, struct caller *caller, const char *line,
                     size_t bytes, struct line_rights *rights)
{
    struct ec_json_span values[FIELDS];
    struct ec_json_fields fields = { .names = field_names, .values = values, .count = FIELDS };
    struct ec_json_fault fault;
    size_t start = 0;
    int rc;

    while (start < bytes && (line[start] == ' ' || line[start] == '\t'))
        start++;
    if (start < bytes && line[start] == '[') {
        dispatch_batch(dispatcher, caller, line, bytes, rights);
        return;
    }
    rc = ec_json_scan(line, bytes, NULL, &fields, &fault);
    if (rc < 0)
        complain_of_fault(dispatcher, caller, rc, &fault);
    else if (line[start] != '{')
        dispatcher_complain(dispatcher, caller, EC_ERR_REQUEST,
                            "a request is an object, or an array of them", NULL);
    else
        dispatch_one(dispatcher, caller, values, rights);
}

bool dispatcher_takes_fds(const struct dispatcher *dispatcher, const char *line, size_t bytes)
{
    struct ec_json_span values[FIELDS];
    struct ec_json_fields fields = { .names = field_names, .values = values, .count = FIELDS };
    int command;

    if (ec_json_scan(line, bytes, NULL, &fields, NULL) < 0 ||
        ec_json_type_of(values[FIELD_METHOD]) != EC_JSON_STRING)
        return false;
    command = methods_find(&dispatcher->methods, values[FIELD_METHOD]);
    return command >= 0 && ec_commands[command].takes_fds;
}

void dispatcher_complain(struct dispatcher *dispatcher, struct caller *caller, int code,
                         const char *text, const char *data)
{
    reply_writer_reset(&dispatcher->data);
    if (data != NULL)
        ec_json_raw(&dispatcher->data, (struct ec_json_span) { data, strlen(data) });
    reply_error(&dispatcher->reply, no_id, code, text, &dispatcher->data);
    caller->send(caller, dispatcher->reply.base, dispatcher->reply.bytes, NULL, 0);
    counters_add(dispatcher->services->counters, EC_COUNTER_requests, 1);
    counters_add(dispatcher->services->counters, EC_COUNTER_errors, 1);
    end_request(dispatcher);
}

static void dispatch_one(struct dispatcher *dispatcher, struct caller *caller,
                         const struct ec_json_span values[FIELDS], struct line_rights *rights)
{
    struct call call = { .dispatcher = dispatcher, .caller = caller, .batch = NULL };

    if (answer(dispatcher, &call, values, rights))
        caller->send(caller, dispatcher->reply.base, dispatcher->reply.bytes, call.fds,
                     call.fd_count);
    for (unsigned i = 0; i < call.fd_count; i++)
        close(call.fds[i]);
    end_request(dispatcher);
}

static void dispatch_batch(struct dispatcher *dispatcher, struct caller *caller, const char *line,
                           size_t bytes, struct line_rights *rights)
{
    struct ec_json_span values[FIELDS], element;
    struct ec_json_fields fields = { .names = field_names, .values = values, .count = FIELDS };
    struct ec_json_iterator elements;
    struct batch *batch = NULL;
    size_t left = check_batch(dispatcher, caller, line, bytes, rights);

    if (left == 0)
        return;
    ec_json_array_begin(&dispatcher->batch);
    elements = ec_json_iterate(ec_json_root(line, bytes));
    while (ec_json_next_element(&elements, &element)) {
        struct call call = {
            .dispatcher = dispatcher, .caller = caller, .batch = &batch, .is_in_batch = true
        };

        left--;
        ec_json_bind(element, &fields); /* of what is no object all values are empty */
        if (answer(dispatcher, &call, values, NULL))
            batch_add(&dispatcher->batch, &dispatcher->reply, call.id, left);
        end_request(dispatcher);
    }
    if (batch == NULL) {
        batch_send(&dispatcher->batch, caller);
    } else {
        batch->own = dispatcher->batch;
        batch->answers = &batch->own;
        reply_writer_init(&dispatcher->batch, EC_LINE_BYTES - 1);
        batch_settle(batch);
    }
    reply_writer_reset(&dispatcher->batch);
}

/* How many requests it has; 0: it is refused as a whole, and the caller was told why. */
static size_t check_batch(struct dispatcher *dispatcher, struct caller *caller, const char *line,
                          size_t bytes, const struct line_rights *rights)
{
    const size_t limit =
        (size_t)config_integer(dispatcher->services->config, EC_CONFIG_control_batch);
    struct ec_json_iterator elements;
    struct ec_json_span element;
    struct ec_json_fault fault;
    char text[80] = "a batch has at least one request";
    size_t count = 0;
    int rc = ec_json_check(line, bytes, NULL, &fault);

    if (rc < 0) {
        complain_of_fault(dispatcher, caller, rc, &fault);
        return 0;
    }
    elements = ec_json_iterate(ec_json_root(line, bytes));
    while (count <= limit && ec_json_next_element(&elements, &element))
        count++;
    if (count == 0) {
        rc = EC_ERR_REQUEST;
    } else if (count > limit) {
        rc = EC_ERR_LIMIT;
        snprintf(text, sizeof text, "a batch has at most %zu requests", limit);
    } else if (rights != NULL && (rights->count > 0 || rights->fault != NULL)) {
        rc = EC_ERR_REQUEST;
        snprintf(text, sizeof text, "descriptors come with a single request, not with a batch");
    }
    if (rc == EC_OK)
        return count;
    dispatcher_complain(dispatcher, caller, rc, text, NULL);
    return 0;
}

/* Handle one request object. true: dispatcher->reply has its answer. */
static bool answer(struct dispatcher *dispatcher, struct call *call,
                   const struct ec_json_span values[FIELDS], struct line_rights *rights)
{
    struct counters *counters = dispatcher->services->counters;
    struct ec_error why = { .code = EC_OK };
    struct request request = { .services = dispatcher->services,
                               .client = call->caller->client,
                               .params = dispatcher->params,
                               .raw = values[FIELD_PARAMS],
                               .result = &dispatcher->reply,
                               .data = &dispatcher->data,
                               .fds = rights != NULL ? rights->fds : NULL,
                               .fd_count = rights != NULL ? rights->count : 0,
                               .why = &why,
                               .call = call };
    bool is_notification = false;
    int command = -1;
    int rc = check_request(values, &why);

    if (rc == EC_OK) {
        call->id = values[FIELD_ID];
        is_notification = call->id.text == NULL;
        rc = prepare(dispatcher, call, values, rights, &command, &why);
    } else if (ec_json_type_of(values[FIELD_ID]) != EC_JSON_ARRAY &&
               ec_json_type_of(values[FIELD_ID]) != EC_JSON_OBJECT &&
               ec_json_type_of(values[FIELD_ID]) != EC_JSON_BOOLEAN &&
               values[FIELD_ID].bytes <= ID_BYTES_MAX) {
        call->id = values[FIELD_ID]; /* what is wrong is something else; the id tells whose it is */
    }
    if (rc == EC_OK) {
        const unsigned dry_run = dispatcher->methods.dry_run[command];

        request.dry_run = dry_run > 0 && dispatcher->params[dry_run].boolean;
        reply_begin(&dispatcher->reply, call->id);
        rc = dispatcher->handlers[command](&request);
        if (rc == EC_AGAIN && call->deferred != NULL)
            return false;
        if (call->deferred != NULL)
            reply_cancel(call->deferred);
        if (rc == EC_OK)
            rc = reply_end(&dispatcher->reply);
        else if (rc == EC_AGAIN)
            rc = ec_fail(&why, EC_ERR_INTERNAL, "%s did not answer", ec_commands[command].method);
    }
    counters_add(counters, EC_COUNTER_requests, 1);
    if (rc < 0) {
        counters_add(counters, EC_COUNTER_errors, 1);
        if (rc == EC_ERR_SIZE && why.text[0] == '\0')
            ec_fail(&why, rc, "the answer is over 1 MiB");
        for (; call->fd_count > 0; call->fd_count--)
            close(call->fds[call->fd_count - 1]);
        if (rc == EC_ERR_PARAM && command >= 0 && dispatcher->data.bytes == 0)
            binding_say_param(command, why.text, &dispatcher->data);
        if (!is_notification)
            reply_error(&dispatcher->reply, call->id, rc, why.text, &dispatcher->data);
    }
    return !is_notification;
}

/* Is it a request object of JSON-RPC 2.0? */
static int check_request(const struct ec_json_span values[FIELDS], struct ec_error *why)
{
    const enum ec_json_type id = ec_json_type_of(values[FIELD_ID]);
    const enum ec_json_type params = ec_json_type_of(values[FIELD_PARAMS]);

    if (!ec_json_string_equals(values[FIELD_JSONRPC], "2.0"))
        return ec_fail(why, EC_ERR_REQUEST, "a request is an object with \"jsonrpc\":\"2.0\"");
    if (ec_json_type_of(values[FIELD_METHOD]) != EC_JSON_STRING)
        return ec_fail(why, EC_ERR_REQUEST, "a request has a method, which is a string");
    if (id != EC_JSON_NONE && id != EC_JSON_NUMBER && id != EC_JSON_STRING && id != EC_JSON_NULL)
        return ec_fail(why, EC_ERR_REQUEST, "an id is a string, a number or null");
    if (values[FIELD_ID].bytes > ID_BYTES_MAX)
        return ec_fail(why, EC_ERR_REQUEST, "an id has at most %d bytes", ID_BYTES_MAX);
    if (params != EC_JSON_NONE && params != EC_JSON_ARRAY && params != EC_JSON_OBJECT)
        return ec_fail(why, EC_ERR_REQUEST, "params are an object or an array");
    return EC_OK;
}

/* Everything between the request object and the handler. */
static int prepare(struct dispatcher *dispatcher, const struct call *call,
                   const struct ec_json_span values[FIELDS], const struct line_rights *rights,
                   int *command, struct ec_error *why)
{
    const struct client *client = call->caller->client;
    const int64_t in_flight =
        config_integer(dispatcher->services->config, EC_CONFIG_control_in_flight);
    const int found = methods_find(&dispatcher->methods, values[FIELD_METHOD]);
    const bool has_fds = rights != NULL && rights->count > 0;
    const struct ec_command_row *row;

    if (found < 0)
        return fail_method(values[FIELD_METHOD], why);
    row = &ec_commands[found];
    if (call->caller->waiting >= in_flight)
        return ec_fail(why, EC_ERR_LIMIT, "%u requests are unanswered, allowed are %d",
                       call->caller->waiting, (int)in_flight);
    if (client->role < row->role)
        log_refusal(dispatcher, client, row);
    if (client->role < row->role)
        return ec_fail(why, EC_ERR_PERMISSION, "%s needs the role %s, this client is %s",
                       row->method, ec_role_name(row->role), ec_role_name(client->role));
    if (rights != NULL && rights->fault != NULL)
        return ec_fail(why, EC_ERR_REQUEST, "%s", rights->fault);
    if (has_fds && !row->takes_fds)
        return ec_fail(why, EC_ERR_REQUEST, "%s takes no descriptors", row->method);
    if (has_fds && client->id == 0)
        return ec_fail(why, EC_ERR_STATE, "descriptors are taken after core.hello only");
    if (call->is_in_batch && row->takes_fds)
        return ec_fail(why, EC_ERR_REQUEST, "%s passes descriptors and cannot be part of a batch",
                       row->method);
    *command = found;
    if (found == EC_COMMAND_core_ping) /* takes anything */
        return EC_OK;
    if (ec_json_type_of(values[FIELD_PARAMS]) == EC_JSON_ARRAY)
        return ec_fail(why, EC_ERR_PARAM, "%s takes its parameters by name", row->method);
    return binding_bind(&dispatcher->methods, found, values[FIELD_PARAMS], &dispatcher->memory,
                        dispatcher->params, &dispatcher->data, why);
}

/* With who it was; strangers cannot fill the log with it. */
static void log_refusal(struct dispatcher *dispatcher, const struct client *client,
                        const struct ec_command_row *row)
{
    uint64_t kept_back;

    if (log_limit_allows(&dispatcher->refusals, ec_real_ns(), &kept_back))
        log_warning("control",
                    "%s was refused to client %u (pid %d, uid %u): it is %s; %llu more were not "
                    "logged",
                    row->method, client->id, (int)client->pid, (unsigned)client->uid,
                    ec_role_name(client->role), (unsigned long long)kept_back);
}

static int fail_method(struct ec_json_span name, struct ec_error *why)
{
    char text[METHOD_BYTES_MAX];
    struct ec_nearest nearest;

    if (ec_json_get_text(name, text, sizeof text) < 0)
        return ec_fail(why, EC_ERR_METHOD, "there is no method of that name");
    ec_nearest_init(&nearest, text, strlen(text));
    for (size_t i = 0; i < EC_COMMANDS; i++)
        ec_nearest_offer(&nearest, ec_commands[i].method);
    if (nearest.best != NULL)
        return ec_fail(why, EC_ERR_METHOD, "there is no method %s, did you mean %s?", text,
                       nearest.best);
    return ec_fail(why, EC_ERR_METHOD, "there is no method %s", text);
}

/* The scanner has said what is wrong with a line, and where. */
static void complain_of_fault(struct dispatcher *dispatcher, struct caller *caller, int code,
                              const struct ec_json_fault *fault)
{
    char text[EC_JSON_REASON_BYTES + 32];
    char data[48];

    snprintf(text, sizeof text, "byte %zu: %s", fault->offset, fault->reason);
    snprintf(data, sizeof data, "{\"offset\":%zu}", fault->offset);
    dispatcher_complain(dispatcher, caller, code, text, data);
}

static void end_request(struct dispatcher *dispatcher)
{
    reply_writer_reset(&dispatcher->reply);
    reply_writer_reset(&dispatcher->data);
    request_memory_reset(&dispatcher->memory);
}
