/* Answers: their text, and those that handlers give later. Also what request.h offers handlers. */
#include "control/reply.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/counters.h"
#include "daemon/own_memory.h"

#define WRITER_BYTES_KEPT 65536
#define ERROR_BYTES 256 /* an error answer with a short id */

static struct ec_json_span reply_id(const struct reply *reply);
static void deliver(struct reply *reply);
static void reply_free(struct reply *reply);

void *request_alloc(struct request *request, size_t bytes)
{
    return request_memory_alloc(&request->call->dispatcher->memory, bytes);
}

struct cJSON *request_tree(struct request *request, struct ec_json_span span)
{
    return request_memory_tree(&request->call->dispatcher->memory, span, request->why);
}

static void write_would(struct request *request, const char *format, va_list arguments)
{
    char text[512];

    vsnprintf(text, sizeof text, format, arguments);
    ec_json_object_begin(request->result);
    ec_json_member_boolean(request->result, "dry_run", true);
    ec_json_member_string(request->result, "would", text);
}

bool request_would(struct request *request, const char *format, ...)
{
    va_list arguments;

    if (!request->dry_run)
        return false;
    va_start(arguments, format);
    write_would(request, format, arguments);
    va_end(arguments);
    ec_json_object_end(request->result);
    return true;
}

bool request_would_begin(struct request *request, const char *format, ...)
{
    va_list arguments;

    if (!request->dry_run)
        return false;
    va_start(arguments, format);
    write_would(request, format, arguments);
    va_end(arguments);
    return true;
}

int request_attach_fd(struct request *request, int fd)
{
    struct call *call = request->call;
    int copy;

    if (call->fd_count == EC_LINE_FDS)
        return ec_fail(request->why, EC_ERR_LIMIT, "a reply carries at most %d descriptors",
                       EC_LINE_FDS);
    copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return ec_fail(request->why, EC_ERR_SYSTEM, "duplicate descriptor %d: %s", fd,
                       strerror(errno));
    call->fds[call->fd_count++] = copy;
    return EC_OK;
}

int request_defer(struct request *request, void (*on_gone)(void *context), void *context,
                  struct reply **out)
{
    struct own_memory *own = request->services->own_memory;
    struct call *call = request->call;
    struct reply *reply = own_memory_alloc(own, OWN_MEMORY_REPLIES, sizeof *reply + call->id.bytes);

    assert(call->deferred == NULL);
    assert(call->fd_count == 0); /* a late reply carries none */
    if (reply != NULL && call->is_in_batch && *call->batch == NULL) {
        *call->batch = own_memory_alloc(own, OWN_MEMORY_REPLIES, sizeof **call->batch);
        if (*call->batch == NULL) {
            own_memory_free(reply);
            reply = NULL;
        } else {
            (*call->batch)->caller = call->caller;
            (*call->batch)->answers = &call->dispatcher->batch;
            (*call->batch)->waiting = 1; /* the reading of the batch itself */
        }
    }
    if (reply == NULL)
        return ec_fail(request->why, EC_ERR_MEMORY, "no memory to answer later");
    reply->dispatcher = call->dispatcher;
    reply->caller = call->caller;
    reply->batch = call->is_in_batch ? *call->batch : NULL;
    reply->on_gone = on_gone;
    reply->context = context;
    reply->id_bytes = call->id.bytes;
    if (call->id.bytes > 0)
        memcpy(reply->id, call->id.text, call->id.bytes);
    reply_writer_init(&reply->text, EC_LINE_BYTES - 1);
    reply_writer_init(&reply->data, EC_LINE_BYTES / 2);
    if (reply->batch != NULL)
        reply->batch->waiting++;
    TAILQ_INSERT_TAIL(&call->caller->replies, reply, link);
    call->caller->waiting++;
    call->deferred = reply;
    *out = reply;
    return EC_AGAIN;
}

struct ec_json_writer *reply_result(struct reply *reply)
{
    reply_writer_reset(&reply->text);
    reply_begin(&reply->text, reply_id(reply));
    return &reply->text;
}

struct ec_json_writer *reply_data(struct reply *reply)
{
    reply_writer_reset(&reply->data);
    return &reply->data;
}

void reply_finish(struct reply *reply)
{
    struct counters *counters = reply->dispatcher->services->counters;
    int rc = reply_end(&reply->text);

    if (rc < 0) {
        reply_error(&reply->text, reply_id(reply), rc, NULL, NULL);
        counters_add(counters, EC_COUNTER_errors, 1);
    }
    counters_add(counters, EC_COUNTER_requests, 1);
    deliver(reply);
}

void reply_fail(struct reply *reply, const struct ec_error *why)
{
    struct counters *counters = reply->dispatcher->services->counters;

    reply_error(&reply->text, reply_id(reply), why->code, why->text, &reply->data);
    counters_add(counters, EC_COUNTER_requests, 1);
    counters_add(counters, EC_COUNTER_errors, 1);
    deliver(reply);
}

void reply_cancel(struct reply *reply)
{
    TAILQ_REMOVE(&reply->caller->replies, reply, link);
    reply->caller->waiting--;
    if (reply->batch != NULL)
        reply->batch->waiting--; /* the one of the reading stays */
    reply_free(reply);
}

void reply_abandon(struct reply *reply)
{
    TAILQ_REMOVE(&reply->caller->replies, reply, link);
    reply->caller->waiting--;
    if (reply->on_gone != NULL)
        reply->on_gone(reply->context);
    if (reply->batch != NULL) {
        reply->batch->caller = NULL;
        batch_settle(reply->batch);
    }
    reply_free(reply);
}

void reply_writer_init(struct ec_json_writer *writer, size_t bytes_max)
{
    ec_json_writer_init_growing(writer, ec_json_grow_heap, NULL, bytes_max);
}

void reply_writer_finish(struct ec_json_writer *writer)
{
    free(writer->base);
    *writer = (struct ec_json_writer) { 0 };
}

void reply_writer_reset(struct ec_json_writer *writer)
{
    const size_t bytes_max = writer->bytes_max;

    ec_json_writer_rewind(writer, 0);
    if (writer->capacity <= WRITER_BYTES_KEPT)
        return;
    free(writer->base);
    reply_writer_init(writer, bytes_max);
}

void reply_begin(struct ec_json_writer *writer, struct ec_json_span id)
{
    ec_json_object_begin(writer);
    ec_json_member_string(writer, "jsonrpc", "2.0");
    ec_json_key(writer, "id");
    if (id.bytes > 0)
        ec_json_raw(writer, id);
    else
        ec_json_null(writer);
    ec_json_key(writer, "result");
}

int reply_end(struct ec_json_writer *writer)
{
    if (ec_json_writer_status(writer) < 0)
        return ec_json_writer_status(writer);
    assert(writer->depth == 1); /* the handler has closed what it opened */
    if (writer->after_key)
        return EC_ERR_INTERNAL;
    ec_json_object_end(writer);
    return ec_json_writer_status(writer);
}

void reply_error(struct ec_json_writer *writer, struct ec_json_span id, int code, const char *text,
                 const struct ec_json_writer *data)
{
    ec_json_writer_rewind(writer, 0);
    ec_json_object_begin(writer);
    ec_json_member_string(writer, "jsonrpc", "2.0");
    ec_json_key(writer, "id");
    if (id.bytes > 0)
        ec_json_raw(writer, id);
    else
        ec_json_null(writer);
    ec_json_member_object(writer, "error");
    ec_json_member_i64(writer, "code", code);
    ec_json_member_string(writer, "message",
                          text != NULL && text[0] != '\0' ? text : ec_error_text(code));
    if (data != NULL && data->bytes > 0 && data->depth == 0 && ec_json_writer_status(data) == EC_OK)
        ec_json_member_raw(writer, "data", (struct ec_json_span) { data->base, data->bytes });
    ec_json_object_end(writer);
    ec_json_object_end(writer);
}

void batch_add(struct ec_json_writer *answers, struct ec_json_writer *answer,
               struct ec_json_span id, size_t answers_left)
{
    const size_t room = EC_LINE_BYTES - ERROR_BYTES * answers_left;

    if (ec_json_writer_status(answer) < 0 || answers->bytes + answer->bytes + 3 > room)
        reply_error(answer, id, EC_ERR_SIZE, "the answers of this batch are over 1 MiB", NULL);
    ec_json_raw(answers, (struct ec_json_span) { answer->base, answer->bytes });
}

void batch_settle(struct batch *batch)
{
    if (--batch->waiting > 0)
        return;
    if (batch->caller != NULL)
        batch_send(batch->answers, batch->caller);
    reply_writer_finish(&batch->own);
    own_memory_free(batch);
}

void batch_send(struct ec_json_writer *answers, struct caller *caller)
{
    const bool is_empty = answers->bytes == 1;

    ec_json_array_end(answers);
    if (ec_json_writer_status(answers) < 0) {
        const struct ec_json_span no_id = { 0 };

        /* Ids so long that not even errors fit. */
        reply_error(answers, no_id, ec_json_writer_status(answers), NULL, NULL);
    }
    if (!is_empty)
        caller->send(caller, answers->base, answers->bytes, NULL, 0);
}

static struct ec_json_span reply_id(const struct reply *reply)
{
    return (struct ec_json_span) { reply->id, reply->id_bytes };
}

static void deliver(struct reply *reply)
{
    struct caller *caller = reply->caller;
    struct batch *batch = reply->batch;

    TAILQ_REMOVE(&caller->replies, reply, link);
    caller->waiting--;
    if (ec_json_writer_status(&reply->text) < 0)
        reply_error(&reply->text, reply_id(reply), ec_json_writer_status(&reply->text), NULL, NULL);
    if (reply->id_bytes > 0 && batch != NULL)
        batch_add(batch->answers, &reply->text, reply_id(reply), batch->waiting);
    else if (reply->id_bytes > 0)
        caller->send(caller, reply->text.base, reply->text.bytes, NULL, 0);
    if (batch != NULL)
        batch_settle(batch);
    reply_free(reply);
}

static void reply_free(struct reply *reply)
{
    reply_writer_finish(&reply->text);
    reply_writer_finish(&reply->data);
    own_memory_free(reply);
}
