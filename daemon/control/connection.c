#include "control/connection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clients/clients.h"
#include "control/arrival.h"
#include "control/output.h"
#include "control/reply.h"
#include "daemon/before_answers.h"
#include "daemon/config.h"
#include "daemon/counters.h"
#include "daemon/log.h"
#include "daemon/own_memory.h"
#include "foundation/memory/pool.h"
#include "foundation/real_time.h"

#define PAUSE_BYTES 65536     /* unsent output above which a client is not read from; with a low */
#define PAUSE_SHARE 4         /* control.output_bytes it is this part of that */
#define TAIL_BYTES_KEPT 16384 /* a larger buffer goes back when its line is complete */
#define TAIL_BYTES_SMALL 4096 /* a line as short as this is read on in small pieces */
#define DEADLINE_CHECK_MS 250 /* how late the end of a deadline may be noticed */
#define DRAIN_MS 2000         /* how long a refused client may take to stop sending */
#define NOTIFIED_FDS_MAX                                                                           \
    256 /* descriptors that a client may leave unread before some are dropped */

struct connection {
    struct caller caller; /* first: the dispatcher hands this out */
    struct connections *all;
    TAILQ_ENTRY(connection) link;
    TAILQ_ENTRY(connection) touched_link;
    uv_poll_t poll;
    int fd;
    int events; /* that poll waits for */
    struct output output;
    struct output late; /* notifications that a handler sent to its own caller: after the reply */

    char *tail; /* received, not yet handled */
    size_t tail_bytes, tail_capacity;
    size_t searched;            /* bytes of the tail that hold no LF */
    struct line_rights *rights; /* of the unfinished line at the tail's start; NULL: none */
    uint64_t deadline_ms;       /* of the loop: for the line, or a refused client; 0: none */

    const char *close_reason; /* set: to be closed */
    bool is_handling;         /* a line is with the dispatcher */
    bool is_touched;
    bool is_paused;  /* not read from: its output is in the way */
    bool is_at_end;  /* it has closed its side */
    bool is_refused; /* it gets what is queued, and nothing it sends counts any more */
    bool is_shut;    /* refused, and our side is closed */
    bool is_ended;
};

static int notify(void *connection, const char *line, size_t bytes, const int *fds,
                  unsigned fd_count);
static size_t pending(void *connection);
static void close_later(void *connection, const char *reason);

static const struct client_output client_output = { notify, pending, close_later };

static void send_reply(struct caller *caller, const char *line, size_t bytes, const int *fds,
                       unsigned fd_count);
static void turn_away(struct connections *connections, int socket_fd, const struct ec_error *why);
static void on_before_sleep(uv_prepare_t *prepare);
static void on_deadline_check(uv_timer_t *timer);
static void on_poll(uv_poll_t *poll, int status, int events);
static bool read_once(struct connection *connection);
static bool fault_line(struct connection *connection, struct arrival *arrival);
static void take_bytes(struct connection *connection, char *data, size_t bytes,
                       struct arrival *arrival);
static size_t handle_lines(struct connection *connection, char *data, size_t bytes,
                           struct arrival *arrival);
static bool has_too_much_unsent(const struct connection *connection);
static void handle_line(struct connection *connection, char *line, size_t bytes,
                        struct line_rights *rights);
static void keep_tail(struct connection *connection, const char *data, size_t bytes,
                      struct arrival *arrival);
static void set_deadline(struct connection *connection, uint64_t deadline_ms);
static void refuse(struct connection *connection, int code, const char *text);
static void touch(struct connection *connection);
static int flush(struct connection *connection);
static void settle(struct connection *connection);
static void poll_for(struct connection *connection, int events);
static void end(struct connection *connection, const char *reason);

int connections_init(struct connections *connections, struct services *services,
                     struct dispatcher *dispatcher, struct ec_error *why)
{
    const struct ec_pool_desc pool = { .name = "connections",
                                       .tag = own_memory_tag(services->own_memory,
                                                             OWN_MEMORY_CONNECTIONS),
                                       .block_bytes = sizeof(struct connection) };
    int rc;

    *connections = (struct connections) { .services = services, .dispatcher = dispatcher };
    TAILQ_INIT(&connections->all);
    TAILQ_INIT(&connections->touched);
    rc = ec_pool_create_in(own_memory_sink(services->own_memory), &pool, &connections->pool, why);
    if (rc < 0)
        return rc;
    connections->read_buffer = malloc(READ_BYTES);
    if (connections->read_buffer == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "%d bytes to read into", READ_BYTES);
    uv_prepare_init(services->loop, &connections->before_sleep);
    connections->before_sleep.data = connections;
    uv_prepare_start(&connections->before_sleep, on_before_sleep);
    uv_unref((uv_handle_t *)&connections->before_sleep);
    uv_timer_init(services->loop, &connections->deadline_timer);
    connections->deadline_timer.data = connections;
    uv_unref((uv_handle_t *)&connections->deadline_timer);
    connections->handles = 2;
    return EC_OK;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct connections *connections = handle->data;

    connections->handles--;
}

void connections_finish(struct connections *connections)
{
    if (connections->read_buffer == NULL) {
        ec_pool_destroy(connections->pool);
        connections->pool = NULL;
        return;
    }
    while (!TAILQ_EMPTY(&connections->all)) {
        struct connection *connection = TAILQ_FIRST(&connections->all);

        flush(connection);
        end(connection, "the daemon ends");
    }
    uv_close((uv_handle_t *)&connections->before_sleep, on_handle_closed);
    uv_close((uv_handle_t *)&connections->deadline_timer, on_handle_closed);
    while (connections->handles > 0)
        uv_run(connections->services->loop, UV_RUN_NOWAIT);
    free(connections->read_buffer);
    connections->read_buffer = NULL;
    ec_pool_destroy(connections->pool);
    connections->pool = NULL;
}

void connections_add(struct connections *connections, int socket_fd)
{
    struct services *services = connections->services;
    struct connection *connection = NULL;
    struct ec_error why;
    const int64_t limit = config_integer(services->config, EC_CONFIG_control_connections);
    int rc = EC_OK;

    if (connections->count >= limit)
        rc = ec_fail(&why, EC_ERR_LIMIT, "there are %u connections, allowed are %d",
                     connections->count, (int)limit);
    if (rc == EC_OK && (connection = ec_pool_alloc(connections->pool)) == NULL)
        rc = ec_fail(&why, EC_ERR_MEMORY, "no memory for a connection");
    if (rc == EC_OK) {
        memset(connection, 0, sizeof *connection);
        rc = clients_connect(services->clients, socket_fd, &client_output, connection,
                             &connection->caller.client, &why);
    }
    if (rc < 0) {
        if (connection != NULL)
            ec_pool_free(connections->pool, connection);
        turn_away(connections, socket_fd, &why);
        return;
    }
    connection->all = connections;
    connection->fd = socket_fd;
    connection->caller.send = send_reply;
    caller_init(&connection->caller);
    TAILQ_INSERT_TAIL(&connections->all, connection, link);
    connections->count++;
    counters_add(services->counters, EC_COUNTER_connections, 1);
    rc = uv_poll_init(services->loop, &connection->poll, socket_fd);
    connection->poll.data = connection;
    if (rc == 0) {
        connections->handles++;
        connection->events = UV_READABLE;
        uv_poll_start(&connection->poll, UV_READABLE, on_poll);
    } else {
        /* Without a handle there is nothing to close later. */
        clients_hang_up(services->clients, connection->caller.client, "cannot be polled");
        TAILQ_REMOVE(&connections->all, connection, link);
        connections->count--;
        close(socket_fd);
        ec_pool_free(connections->pool, connection);
    }
}

static void turn_away(struct connections *connections, int socket_fd, const struct ec_error *why)
{
    const struct ec_json_span no_id = { 0 };
    struct ec_json_writer reply;
    char line[EC_ERROR_TEXT_BYTES * 6 + 128]; /* every byte may need an escape */
    uint64_t kept_back;

    counters_add(connections->services->counters, EC_COUNTER_refused, 1);
    if (log_limit_allows(&connections->refusals, ec_real_ns(), &kept_back))
        log_warning("control", "a connection was refused: %s; %llu more were not logged", why->text,
                    (unsigned long long)kept_back);
    ec_json_writer_init(&reply, line, sizeof line);
    reply_error(&reply, no_id, why->code, why->text, NULL);
    ec_json_line_end(&reply);
    /* Nothing was sent to it before, so the socket takes one line; if not, nobody is there. */
    if (send(socket_fd, line, reply.bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        log_debug("control", "it could not be told: %s", strerror(errno));
    close(socket_fd);
}

/* Send; what is answered for is written by then. */
static int flush(struct connection *connection)
{
    before_answers_write(connection->all->services->before_answers);
    return output_flush(&connection->output, connection->fd);
}

/* The dispatcher's answers. Beyond the limit replies cannot be dropped, so the client is. */
static void send_reply(struct caller *caller, const char *line, size_t bytes, const int *fds,
                       unsigned fd_count)
{
    struct connection *connection = (struct connection *)caller;
    const struct config *config = connection->all->services->config;
    const size_t limit = (size_t)config_integer(config, EC_CONFIG_control_output_bytes);
    struct output *output = &connection->output;
    int rc;

    if (output_unsent_replies(output) + bytes > limit) {
        flush(connection);
        if (output_unsent_replies(output) + bytes > limit) {
            connection->close_reason = "it does not take its answers";
            touch(connection);
            return;
        }
    }
    rc = output_append(output, OUTPUT_REPLY, line, bytes, fds, fd_count);
    if (rc < 0)
        connection->close_reason =
            rc == EC_ERR_MEMORY ? "no memory for its answers" : "no descriptors for its answers";
    touch(connection);
}

static int notify(void *context, const char *line, size_t bytes, const int *fds, unsigned fd_count)
{
    struct connection *connection = context;
    struct services *services = connection->all->services;
    const size_t limit = (size_t)config_integer(services->config, EC_CONFIG_control_output_bytes);
    struct output *output = connection->is_handling ? &connection->late : &connection->output;

    if (connection->is_ended || connection->is_refused || connection->close_reason != NULL ||
        pending(connection) + bytes + 1 > limit ||
        (fd_count > 0 &&
         connection->output.fd_count + connection->late.fd_count + fd_count > NOTIFIED_FDS_MAX) ||
        output_append(output, OUTPUT_NOTIFICATION, line, bytes, fds, fd_count) < 0) {
        connection->caller.client->lost_notifications++;
        counters_add(services->counters, EC_COUNTER_dropped, 1);
        return EC_ERR_LIMIT;
    }
    touch(connection);
    return EC_OK;
}

static size_t pending(void *context)
{
    const struct connection *connection = context;

    return output_unsent(&connection->output) + output_unsent(&connection->late);
}

/* Whoever calls may be in the middle of something, so the end comes before the loop sleeps. */
static void close_later(void *context, const char *reason)
{
    struct connection *connection = context;

    if (connection->close_reason == NULL)
        connection->close_reason = reason;
    touch(connection);
}

static void touch(struct connection *connection)
{
    if (connection->is_touched || connection->is_ended)
        return;
    connection->is_touched = true;
    TAILQ_INSERT_TAIL(&connection->all->touched, connection, touched_link);
}

/* Every connection that got output or a reason to close since the last wake. */
static void on_before_sleep(uv_prepare_t *prepare)
{
    struct connections *connections = prepare->data;
    struct connection *connection;

    before_answers_write(connections->services->before_answers); /* also where nobody is answered */
    while ((connection = TAILQ_FIRST(&connections->touched)) != NULL)
        settle(connection);
}

static void on_deadline_check(uv_timer_t *timer)
{
    struct connections *connections = timer->data;
    const uint64_t now = uv_now(connections->services->loop);
    struct connection *connection = TAILQ_FIRST(&connections->all);

    while (connection != NULL) {
        struct connection *next = TAILQ_NEXT(connection, link);

        if (connection->deadline_ms != 0 && connection->deadline_ms <= now) {
            if (connection->is_refused) {
                end(connection, "it went on sending after it was refused");
            } else {
                refuse(connection, EC_ERR_TIMEOUT, "the line was not complete in time");
                settle(connection);
            }
        }
        connection = next;
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct connection *connection = poll->data;

    if (status < 0) { /* libuv has stopped the handle: what was sent before still counts */
        while (!connection->is_paused && !connection->is_ended && read_once(connection))
            ;
        if (!connection->is_ended)
            end(connection, "the connection was reset");
        return;
    }
    if (events & UV_READABLE)
        read_once(connection);
    else
        settle(connection);
}

/* Receive once and handle what is complete. false: there was nothing, or there will be nothing. */
static bool read_once(struct connection *connection)
{
    const bool is_fresh = connection->tail_bytes == 0 || connection->is_refused;
    const size_t before = is_fresh ? 0 : connection->tail_bytes;
    struct arrival arrival = { .at = ARRIVAL_NOWHERE };
    size_t room = READ_BYTES;
    char *buffer = connection->all->read_buffer;
    ssize_t received;

    if (!is_fresh) {
        room = before < TAIL_BYTES_SMALL ? TAIL_BYTES_SMALL : READ_BYTES;
        if (connection->tail_capacity - before < room) {
            const size_t capacity = connection->tail_capacity * 2 + room;
            char *grown = realloc(connection->tail, capacity);

            if (grown == NULL) {
                end(connection, "no memory for its line");
                return false;
            }
            connection->tail = grown;
            connection->tail_capacity = capacity;
        }
        buffer = connection->tail + before;
    }
    received = arrival_receive(&arrival, connection->fd, buffer, room);
    if (received < 0) {
        if (errno != EAGAIN && errno != EINTR)
            end(connection, "the connection was reset");
        return false;
    }
    connection->caller.client->received_bytes += (uint64_t)received;
    if (received == 0) {
        connection->is_at_end = true;
    } else if (!connection->is_refused) {
        char *data = buffer - before;
        const size_t bytes = before + (size_t)received;

        if (!arrival_is_empty(&arrival)) {
            arrival_place(&arrival, connection->all->dispatcher, data, before, bytes);
            if (arrival.at == ARRIVAL_NOWHERE && !fault_line(connection, &arrival)) {
                end(connection, "no memory for its line");
                return false;
            }
        }
        take_bytes(connection, data, bytes, &arrival);
    }
    rights_finish(&arrival.rights);
    settle(connection);
    return received > 0;
}

/* Descriptors in the middle of a line: the line, which was there before, gets an error instead of
 * being carried out. false: no memory. */
static bool fault_line(struct connection *connection, struct arrival *arrival)
{
    rights_finish(&arrival->rights);
    if (connection->rights == NULL)
        connection->rights = calloc(1, sizeof *connection->rights);
    if (connection->rights == NULL)
        return false;
    rights_finish(connection->rights);
    connection->rights->fault = "descriptors ride on the first byte of a line";
    return true;
}

/* Handle the complete lines of data and keep the rest. data may be the tail itself. */
static void take_bytes(struct connection *connection, char *data, size_t bytes,
                       struct arrival *arrival)
{
    const size_t handled = handle_lines(connection, data, bytes, arrival);

    if (connection->is_refused || connection->close_reason != NULL)
        connection->tail_bytes = 0;
    else
        keep_tail(connection, data + handled, bytes - handled, arrival);
}

/* Returns the bytes that were handled. */
static size_t handle_lines(struct connection *connection, char *data, size_t bytes,
                           struct arrival *arrival)
{
    size_t at = 0;

    while (connection->close_reason == NULL && !connection->is_refused) {
        const size_t searched = at == 0 ? connection->searched : 0;
        struct line_rights *rights = NULL;
        char *lf;

        if (has_too_much_unsent(connection)) {
            flush(connection);
            connection->is_paused = has_too_much_unsent(connection);
            if (connection->is_paused)
                break;
        }
        lf = memchr(data + at + searched, '\n', bytes - at - searched);
        if ((lf == NULL && bytes - at >= EC_LINE_BYTES) ||
            (lf != NULL && (size_t)(lf - data) - at >= EC_LINE_BYTES)) {
            refuse(connection, EC_ERR_SIZE, "a line has at most 1048576 bytes");
            break;
        }
        if (lf == NULL)
            break;
        if (at == 0 && connection->rights != NULL)
            rights = connection->rights;
        else if (arrival != NULL && arrival->at == at)
            rights = &arrival->rights;
        connection->searched = 0;
        set_deadline(connection, 0);
        handle_line(connection, data + at, (size_t)(lf - data) - at, rights);
        if (rights != NULL)
            rights_finish(rights);
        if (rights == connection->rights) {
            free(connection->rights);
            connection->rights = NULL;
        }
        at = (size_t)(lf - data) + 1;
    }
    if (arrival != NULL && arrival->at != ARRIVAL_NOWHERE)
        arrival->at = arrival->at >= at ? arrival->at - at : ARRIVAL_NOWHERE;
    return at;
}

/* So that the answers to what is read stay within the limit, unless a single one does not. */
static bool has_too_much_unsent(const struct connection *connection)
{
    const size_t limit =
        (size_t)config_integer(connection->all->services->config, EC_CONFIG_control_output_bytes) /
        PAUSE_SHARE;

    return output_unsent(&connection->output) > (limit < PAUSE_BYTES ? limit : PAUSE_BYTES);
}

static bool is_blank(const char *line, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    return true;
}

/* A browser that a web page sends here must not get to say anything. */
static bool is_http(const char *line, size_t bytes)
{
    static const char *const verbs[] = { "GET ",   "POST ",    "PUT ",     "HEAD ", "DELETE ",
                                         "PATCH ", "OPTIONS ", "CONNECT ", "TRACE " };

    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (bytes >= strlen(verbs[i]) && memcmp(line, verbs[i], strlen(verbs[i])) == 0)
            return true;
    return false;
}

static void handle_line(struct connection *connection, char *line, size_t bytes,
                        struct line_rights *rights)
{
    if (bytes > 0 && line[bytes - 1] == '\r')
        bytes--;
    if (is_blank(line, bytes))
        return;
    if (is_http(line, bytes)) {
        connection->close_reason = "it speaks HTTP";
        return;
    }
    connection->is_handling = true;
    dispatcher_line(connection->all->dispatcher, &connection->caller, line, bytes, rights);
    connection->is_handling = false;
    if (output_take_over(&connection->output, &connection->late) < 0)
        connection->close_reason = "no memory for its notifications";
}

/* The rest of what was received: the beginning of a line, or lines that wait for room in the output. */
static void keep_tail(struct connection *connection, const char *data, size_t bytes,
                      struct arrival *arrival)
{
    if (bytes > connection->tail_capacity) {
        char *grown = realloc(connection->tail, bytes); /* data is the read buffer */

        if (grown == NULL) {
            connection->close_reason = "no memory for its line";
            return;
        }
        connection->tail = grown;
        connection->tail_capacity = bytes;
    }
    if (bytes > 0)
        memmove(connection->tail, data, bytes);
    connection->tail_bytes = bytes;
    connection->searched = 0;
    if (bytes == 0 && connection->tail_capacity > TAIL_BYTES_KEPT) {
        free(connection->tail);
        connection->tail = NULL;
        connection->tail_capacity = 0;
    }
    if (bytes > 0 && !connection->is_paused) {
        connection->searched = bytes;
        if (connection->deadline_ms == 0)
            set_deadline(connection,
                         uv_now(connection->all->services->loop) +
                             1000 * (uint64_t)config_integer(connection->all->services->config,
                                                             EC_CONFIG_control_line_s));
    }
    if (arrival == NULL || arrival->at == ARRIVAL_NOWHERE || connection->rights != NULL)
        return;
    connection->rights = malloc(sizeof *connection->rights);
    if (connection->rights == NULL) {
        connection->close_reason = "no memory for its line";
        return;
    }
    *connection->rights = arrival->rights;
    arrival->rights.count = 0; /* they have moved */
}

static void set_deadline(struct connection *connection, uint64_t deadline_ms)
{
    struct connections *connections = connection->all;

    if ((connection->deadline_ms != 0) != (deadline_ms != 0)) {
        connections->deadlines += deadline_ms != 0 ? 1 : (unsigned)-1;
        if (connections->deadlines == 0)
            uv_timer_stop(&connections->deadline_timer);
        else if (!uv_is_active((uv_handle_t *)&connections->deadline_timer))
            uv_timer_start(&connections->deadline_timer, on_deadline_check, DEADLINE_CHECK_MS,
                           DEADLINE_CHECK_MS);
    }
    connection->deadline_ms = deadline_ms;
}

/* Say what is wrong, send what is queued, close our side, and throw away what still comes: closing at
 * once would reset the connection, and the client might never read why. */
static void refuse(struct connection *connection, int code, const char *text)
{
    dispatcher_complain(connection->all->dispatcher, &connection->caller, code, text, NULL);
    connection->is_refused = true;
    connection->is_paused = false;
    connection->tail_bytes = 0;
    set_deadline(connection, uv_now(connection->all->services->loop) + DRAIN_MS);
}

/* Send, go on with what had to wait, and decide what to wait for next. */
static void settle(struct connection *connection)
{
    struct output *output = &connection->output;

    if (connection->is_ended)
        return;
    if (connection->is_touched)
        TAILQ_REMOVE(&connection->all->touched, connection, touched_link);
    connection->is_touched = false;
    for (;;) {
        if (flush(connection) == EC_ERR_DISCONNECTED) {
            end(connection, "it has hung up");
            return;
        }
        if (connection->close_reason != NULL) {
            end(connection, connection->close_reason);
            return;
        }
        if (connection->is_paused && !has_too_much_unsent(connection)) {
            connection->is_paused = false;
            if (connection->tail_bytes > 0) /* else nothing had to wait, and there may be no tail */
                take_bytes(connection, connection->tail, connection->tail_bytes, NULL);
        } else if (connection->is_at_end && !connection->is_paused && connection->tail_bytes > 0) {
            /* The last line may do without its LF. */
            const size_t bytes = connection->tail_bytes;

            connection->tail_bytes = 0;
            set_deadline(connection, 0);
            handle_line(connection, connection->tail, bytes, connection->rights);
        } else {
            break;
        }
    }
    if (output_unsent(output) == 0) {
        if (connection->is_at_end && (connection->is_refused || connection->caller.waiting == 0)) {
            end(connection, connection->is_refused ? "it was refused" : "it has closed");
            return;
        }
        if (connection->is_refused && !connection->is_shut) {
            shutdown(connection->fd, SHUT_WR);
            connection->is_shut = true;
        }
    }
    poll_for(connection, (connection->is_paused || connection->is_at_end ? 0 : UV_READABLE) |
                             (output_unsent(output) > 0 ? UV_WRITABLE : 0));
}

/* A system call only when it changes, which is when a send was short. */
static void poll_for(struct connection *connection, int events)
{
    if (events == connection->events)
        return;
    connection->events = events;
    if (events == 0)
        uv_poll_stop(&connection->poll);
    else
        uv_poll_start(&connection->poll, events, on_poll);
}

static void on_closed(uv_handle_t *handle)
{
    struct connection *connection = handle->data;

    connection->all->handles--;
    ec_pool_free(connection->all->pool, connection);
}

/* The connection is gone; its memory goes when libuv has let go of the handle. */
static void end(struct connection *connection, const char *reason)
{
    struct connections *connections = connection->all;

    if (connection->is_ended)
        return;
    if (connection->is_touched)
        TAILQ_REMOVE(&connections->touched, connection, touched_link);
    connection->is_touched = false;
    connection->is_ended = true;
    set_deadline(connection, 0);
    TAILQ_REMOVE(&connections->all, connection, link);
    connections->count--;
    caller_finish(&connection->caller);
    connection->caller.client->sent_bytes = connection->output.sent;
    clients_hang_up(connections->services->clients, connection->caller.client, reason);
    uv_close((uv_handle_t *)&connection->poll, on_closed);
    close(connection->fd);
    output_finish(&connection->output);
    output_finish(&connection->late);
    free(connection->tail);
    if (connection->rights != NULL)
        rights_finish(connection->rights);
    free(connection->rights);
}
