/* The connection: a line reader, a mutex that serialises senders, and a list of waiting calls.
 *
 *   caller   append to waiting, send, wait for done          reader   line -> id -> waiting -> done
 *                                                                     line -> method -> handler
 *
 * Whoever reads holds `reading`. With a service thread that is always the service thread; without
 * one, a caller that waits for its answer reads for all others, and hands over when it has it.
 *
 * Descriptors of an answer that nobody waits for any more (its call timed out) are closed with it. */
#include "client/connection.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "client/line_reader.h"
#include "foundation/json/json_writer.h"
#include "foundation/real_time.h"
#include "foundation/thread.h"

#define MESSAGE_BYTES 4096 /* of an error; more than fits into struct ec_error */

/* Pauses between tries to connect again. A daemon that is replaced is back in some 100 ms; the longest
 * pause bounds how long a game is without it once it is. */
#define PAUSE_FIRST_NS INT64_C(50000000)
#define PAUSE_LAST_NS INT64_C(2000000000)

enum connection_state { OPEN, CLOSED, RESUMING };

struct waiting_call {
    struct waiting_call *next;
    uint64_t id;
    struct ec_call *call;
    bool done; /* then rc and why say how; written by the reader */
    int rc;
    struct ec_error why;
};

struct notification {
    const char *method;
    ec_notification_fn *fn;
    void *context;
};

struct ec_connection {
    int socket_fd;
    dev_t socket_device; /* what stands under that number, as long as the program leaves it there */
    ino_t socket_inode;
    int stop_fd; /* eventfd: ends the service thread; -1: there is none */
    uint32_t timeout_ms;
    char path[EC_SOCKET_PATH_BYTES + 1];
    void (*on_hang_up)(void *context);
    void (*on_return)(void *context);
    int (*resume)(void *context, struct ec_error *why);
    void *context;
    bool kept;                  /* connect again; read-only once started */
    _Atomic int state;          /* enum connection_state */
    pthread_t resuming_thread;  /* valid while RESUMING; the mutex guards it */
    int64_t pause_ns, retry_ns; /* of whoever reads: the next pause, and when the next try is due */

    pthread_mutex_t send_mutex; /* one line at a time */
    uint64_t generation;        /* of the socket; changed with both mutexes held */

    pthread_mutex_t mutex; /* the fields below */
    pthread_cond_t changed;
    uint64_t next_id;
    struct waiting_call *waiting;
    bool reading;
    pthread_t reading_thread; /* valid while reading */
    struct ec_error end;      /* why the connection ended */

    pthread_t service_thread; /* valid when stop_fd is not -1 */

    struct ec_line_reader lines;                             /* of whoever holds reading */
    struct notification notifications[EC_NOTIFICATIONS_MAX]; /* read-only once started */
    unsigned notification_count;
};

static void *serve(void *context);
static bool pause_before_try(struct ec_connection *connection);
static int try_again(struct ec_connection *connection);
static void begin_pause(struct ec_connection *connection);
static void put_descriptor(struct ec_connection *connection, int fd);
static void note_socket(struct ec_connection *connection);
static bool may_call(const struct ec_connection *connection);
static int open_socket(const char *path, int *fd, struct ec_error *why);
static int init_waiting(struct ec_connection *connection, struct ec_error *why);
static int read_lines(struct ec_connection *connection);
static int handle_line(struct ec_connection *connection, const struct ec_line *line,
                       struct ec_error *why);
static void notify(struct ec_connection *connection, struct ec_json_span method,
                   struct ec_json_span params, const struct ec_line *line);
static void answer(struct ec_connection *connection, uint64_t id, const struct ec_line *line,
                   struct ec_json_span result, struct ec_json_span error);
static int take_result(struct ec_call *call, const struct ec_line *line, struct ec_json_span result,
                       struct ec_error *why);
static int take_error(struct ec_json_span error, struct ec_error *why);
static void hang_up(struct ec_connection *connection, const struct ec_error *why);
static int write_request(struct ec_json_writer *line, uint64_t id, const struct ec_call *call,
                         struct ec_error *why);
static int check_params(const struct ec_call *call, struct ec_json_span *params,
                        struct ec_error *why);
static int send_line(struct ec_connection *connection, const struct ec_json_writer *line,
                     const struct ec_call *call, uint64_t generation, int64_t deadline_ns,
                     struct ec_error *why);
static ssize_t send_some(int fd, const char *bytes, size_t count, const int *fds,
                         unsigned fd_count);
static int wait_for_answer(struct ec_connection *connection, struct waiting_call *self,
                           int64_t deadline_ns, struct ec_error *why);
static void read_for_all(struct ec_connection *connection, int64_t deadline_ns);
static void leave(struct ec_connection *connection, struct waiting_call *self);
static int wait_for_socket(int fd, int stop_fd, short events, int64_t deadline_ns);

int ec_connection_create(const struct ec_connection_desc *desc, struct ec_connection **connection,
                         struct ec_error *why)
{
    struct ec_connection *made = calloc(1, sizeof *made);
    int rc;

    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a connection");
    made->stop_fd = -1;
    made->timeout_ms = desc->timeout_ms;
    made->state = CLOSED;
    made->on_hang_up = desc->on_hang_up;
    made->on_return = desc->on_return;
    made->resume = desc->resume;
    made->context = desc->context;
    rc = init_waiting(made, why);
    if (rc < 0) {
        free(made);
        return rc;
    }
    rc = open_socket(desc->socket_path, &made->socket_fd, why);
    ec_line_reader_init(&made->lines, made->socket_fd);
    if (rc < 0) {
        ec_connection_destroy(made);
        return rc;
    }
    note_socket(made);
    memcpy(made->path, desc->socket_path, strlen(desc->socket_path) + 1); /* it was connected to */
    made->pause_ns = PAUSE_FIRST_NS;
    atomic_store_explicit(&made->state, OPEN, memory_order_relaxed);
    *connection = made;
    return EC_OK;
}

void ec_connection_destroy(struct ec_connection *connection)
{
    if (connection == NULL)
        return;
    if (connection->stop_fd >= 0) {
        eventfd_write(connection->stop_fd, 1);
        pthread_join(connection->service_thread, NULL);
        close(connection->stop_fd);
    }
    assert(connection->waiting == NULL && !connection->reading);
    ec_line_reader_finish(&connection->lines);
    if (connection->socket_fd >= 0)
        close(connection->socket_fd);
    pthread_cond_destroy(&connection->changed);
    pthread_mutex_destroy(&connection->mutex);
    pthread_mutex_destroy(&connection->send_mutex);
    free(connection);
}

int ec_connection_start(struct ec_connection *connection, struct ec_error *why)
{
    int rc;

    assert(connection->stop_fd < 0);
    connection->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (connection->stop_fd < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "eventfd: %s", strerror(errno));
    pthread_mutex_lock(&connection->mutex);
    rc = ec_thread_start(&connection->service_thread, "ec-service", serve, connection, why);
    if (rc == EC_OK) { /* from here on nobody else reads */
        connection->reading = true;
        connection->reading_thread = connection->service_thread;
    } else {
        close(connection->stop_fd);
        connection->stop_fd = -1;
    }
    pthread_mutex_unlock(&connection->mutex);
    return rc;
}

void ec_connection_keep(struct ec_connection *connection)
{
    connection->kept = connection->resume != NULL;
}

uint64_t ec_connection_generation(struct ec_connection *connection)
{
    uint64_t generation;

    pthread_mutex_lock(&connection->mutex);
    generation = connection->generation;
    pthread_mutex_unlock(&connection->mutex);
    return generation;
}

int ec_connection_fd(const struct ec_connection *connection)
{
    return connection->stop_fd >= 0 ? -1 : connection->socket_fd;
}

int ec_connection_dispatch(struct ec_connection *connection)
{
    int rc = EC_AGAIN;
    bool mine;

    if (connection->stop_fd >= 0)
        return EC_AGAIN;
    pthread_mutex_lock(&connection->mutex);
    /* Nobody reads between two calls of a thread that resumes; it is at it all the same. */
    mine = !connection->reading &&
           atomic_load_explicit(&connection->state, memory_order_relaxed) != RESUMING;
    if (mine) {
        connection->reading = true;
        connection->reading_thread = pthread_self();
    }
    pthread_mutex_unlock(&connection->mutex);
    if (!mine)
        return EC_AGAIN; /* a caller that waits for its answer is at it */
    if (ec_connection_is_open(connection))
        rc = read_lines(connection);
    else if (connection->kept && ec_real_ns() >= connection->retry_ns)
        rc = try_again(connection);
    pthread_mutex_lock(&connection->mutex);
    connection->reading = false;
    pthread_cond_broadcast(&connection->changed);
    pthread_mutex_unlock(&connection->mutex);
    return ec_connection_is_open(connection) ? rc : EC_ERR_DISCONNECTED;
}

bool ec_connection_is_open(const struct ec_connection *connection)
{
    /* pairs with the releases in hang_up and try_again: who sees the end also sees its reason */
    return atomic_load_explicit(&connection->state, memory_order_acquire) == OPEN;
}

bool ec_connection_has_descriptors(const struct ec_connection *connection)
{
    struct stat st;

    return fstat(connection->socket_fd, &st) == 0 && st.st_dev == connection->socket_device &&
           st.st_ino == connection->socket_inode;
}

void ec_connection_abandon(struct ec_connection *connection)
{
    const bool has_descriptors = ec_connection_has_descriptors(connection);

    atomic_store_explicit(&connection->state, CLOSED, memory_order_relaxed);
    connection->kept = false;
    if (has_descriptors)
        close(connection->socket_fd);
    connection->socket_fd = -1;
    if (has_descriptors && connection->stop_fd >= 0)
        close(connection->stop_fd);
    connection->stop_fd = -1; /* the service thread did not come along */
}

int ec_connection_on(struct ec_connection *connection, const char *method, ec_notification_fn *fn,
                     void *context)
{
    assert(connection->stop_fd < 0);
    if (connection->notification_count == EC_NOTIFICATIONS_MAX)
        return EC_ERR_LIMIT;
    connection->notifications[connection->notification_count++] =
        (struct notification) { .method = method, .fn = fn, .context = context };
    return EC_OK;
}

int ec_connection_call(struct ec_connection *connection, struct ec_call *call, struct ec_error *why)
{
    const int64_t deadline_ns = ec_real_ns() + (int64_t)connection->timeout_ms * 1000000;
    struct waiting_call self = { .call = call };
    struct ec_json_writer line;
    uint64_t generation;
    int rc;

    call->line = NULL;
    call->reply_fd_count = 0;
    pthread_mutex_lock(&connection->mutex);
    if (!may_call(connection)) {
        pthread_mutex_unlock(&connection->mutex);
        return ec_fail(why, EC_ERR_DISCONNECTED, "%s: not connected to the daemon", call->method);
    }
    generation = connection->generation;
    assert(!connection->reading || !pthread_equal(connection->reading_thread, pthread_self()));
    self.id = ++connection->next_id;
    self.next = connection->waiting;
    connection->waiting = &self;
    pthread_mutex_unlock(&connection->mutex);

    ec_json_writer_init_growing(&line, ec_json_grow_heap, NULL, EC_LINE_BYTES);
    rc = write_request(&line, self.id, call, why);
    if (rc == EC_OK)
        rc = send_line(connection, &line, call, generation, deadline_ns, why);
    free(line.base);
    pthread_mutex_lock(&connection->mutex);
    if (rc == EC_OK)
        rc = wait_for_answer(connection, &self, deadline_ns, why);
    leave(connection, &self);
    pthread_mutex_unlock(&connection->mutex);
    return rc == EC_OK ? EC_OK : ec_error_prefix(why, rc, "%s", call->method);
}

int ec_connection_notify(struct ec_connection *connection, const char *method, const char *params,
                         struct ec_error *why)
{
    const int64_t deadline_ns = ec_real_ns() + (int64_t)connection->timeout_ms * 1000000;
    const struct ec_call call = { .method = method, .params = params };
    struct ec_json_writer line;
    uint64_t generation;
    bool may;
    int rc;

    pthread_mutex_lock(&connection->mutex);
    may = may_call(connection);
    generation = connection->generation;
    pthread_mutex_unlock(&connection->mutex);
    if (!may)
        return ec_fail(why, EC_ERR_DISCONNECTED, "%s: not connected to the daemon", method);
    ec_json_writer_init_growing(&line, ec_json_grow_heap, NULL, EC_LINE_BYTES);
    rc = write_request(&line, 0, &call, why);
    if (rc == EC_OK)
        rc = send_line(connection, &line, &call, generation, deadline_ns, why);
    free(line.base);
    return rc == EC_OK ? EC_OK : ec_error_prefix(why, rc, "%s", method);
}

void ec_call_finish(struct ec_call *call)
{
    for (unsigned i = 0; i < call->reply_fd_count; i++)
        if (call->reply_fds[i] >= 0)
            close(call->reply_fds[i]);
    call->reply_fd_count = 0;
    free(call->line);
    call->line = NULL;
    call->result = (struct ec_json_span) { 0 };
}

/* ---- connect ---- */

static int open_socket(const char *path, int *fd, struct ec_error *why)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const size_t bytes = strlen(path);
    int rc;

    *fd = -1;
    if (bytes == 0 || bytes > EC_SOCKET_PATH_BYTES)
        return ec_fail(why, EC_ERR_PARAM, "socket path has %zu bytes, the limit is %d: %s", bytes,
                       EC_SOCKET_PATH_BYTES, path);
    memcpy(address.sun_path, path, bytes + 1);
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "socket: %s", strerror(errno));
    do
        rc = connect(*fd, (const struct sockaddr *)&address, sizeof address);
    while (rc < 0 && errno == EINTR);
    if (rc == 0)
        return EC_OK;
    rc = errno == ENOENT || errno == ECONNREFUSED ? EC_ERR_DISCONNECTED
         : errno == EACCES || errno == EPERM      ? EC_ERR_PERMISSION
                                                  : EC_ERR_SYSTEM;
    return ec_fail(why, rc, rc == EC_ERR_DISCONNECTED ? "no daemon at %s: %s" : "socket %s: %s",
                   path, strerror(errno));
}

static int init_waiting(struct ec_connection *connection, struct ec_error *why)
{
    pthread_condattr_t monotonic;
    int rc;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    rc = pthread_cond_init(&connection->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (rc != 0)
        return ec_fail(why, EC_ERR_SYSTEM, "condition variable: %s", strerror(rc));
    pthread_mutex_init(&connection->mutex, NULL);
    pthread_mutex_init(&connection->send_mutex, NULL);
    return EC_OK;
}

/* ---- read ---- */

static void *serve(void *context)
{
    struct ec_connection *connection = context;

    /* First what came before this thread, then what comes. */
    for (;;) {
        if (!ec_connection_is_open(connection)) {
            if (!connection->kept || !pause_before_try(connection))
                break;
            try_again(connection);
        } else if (read_lines(connection) >= 0 &&
                   wait_for_socket(connection->socket_fd, connection->stop_fd, POLLIN, INT64_MAX) ==
                       EC_AGAIN) {
            break; /* stopped */
        }
    }
    pthread_mutex_lock(&connection->mutex);
    connection->reading = false;
    pthread_mutex_unlock(&connection->mutex);
    return NULL;
}

/* Handle all lines that are there. EC_OK, EC_AGAIN (there was none) or what ended the connection. */
static int read_lines(struct ec_connection *connection)
{
    struct ec_error why = { 0 };
    struct ec_line line;
    int handled = EC_AGAIN, rc;

    while ((rc = ec_line_reader_next(&connection->lines, &line, &why)) == EC_OK) {
        rc = handle_line(connection, &line, &why);
        if (rc < 0)
            break;
        handled = EC_OK;
    }
    if (rc == EC_AGAIN)
        return handled;
    hang_up(connection, &why);
    return rc;
}

/* A line that is not what the protocol says ends the connection: nothing after it can be trusted. */
static int handle_line(struct ec_connection *connection, const struct ec_line *line,
                       struct ec_error *why)
{
    enum { ID, METHOD, PARAMS, RESULT, ERROR, MEMBERS };
    static const char *const names[MEMBERS] = { "id", "method", "params", "result", "error" };
    struct ec_json_span values[MEMBERS];
    struct ec_json_fields fields = { .names = names, .values = values, .count = MEMBERS };
    struct ec_json_fault fault = { 0 };
    uint64_t id;
    int rc = ec_json_scan(line->text, line->bytes, NULL, &fields, &fault);

    if (rc < 0)
        return ec_fail(why, rc, "the daemon sent a bad line: %s at byte %zu", fault.reason,
                       fault.offset);
    if (values[METHOD].text != NULL)
        notify(connection, values[METHOD], values[PARAMS], line);
    else if (ec_json_get_u64(values[ID], &id) == EC_OK)
        answer(connection, id, line, values[RESULT], values[ERROR]);
    else if (values[ERROR].text != NULL) /* without an id it is about the connection */
        return take_error(values[ERROR], why);
    else
        return ec_fail(why, EC_ERR_REQUEST, "the daemon sent neither an answer nor a notification");
    return EC_OK;
}

/* A method that nobody listens to is not an error: a newer daemon may know more of them. */
static void notify(struct ec_connection *connection, struct ec_json_span method,
                   struct ec_json_span params, const struct ec_line *line)
{
    for (unsigned i = 0; i < connection->notification_count; i++) {
        const struct notification *row = &connection->notifications[i];

        if (ec_json_string_equals(method, row->method))
            row->fn(row->context, params, line->fds, line->fd_count);
    }
}

static void answer(struct ec_connection *connection, uint64_t id, const struct ec_line *line,
                   struct ec_json_span result, struct ec_json_span error)
{
    pthread_mutex_lock(&connection->mutex);
    for (struct waiting_call *waiting = connection->waiting; waiting != NULL;
         waiting = waiting->next) {
        if (waiting->id != id || waiting->done)
            continue;
        waiting->rc = error.text != NULL ? take_error(error, &waiting->why)
                                         : take_result(waiting->call, line, result, &waiting->why);
        waiting->done = true;
        pthread_cond_broadcast(&connection->changed);
        break;
    }
    pthread_mutex_unlock(&connection->mutex);
}

/* The call keeps a copy: the reader's buffer is needed for the next line. */
static int take_result(struct ec_call *call, const struct ec_line *line, struct ec_json_span result,
                       struct ec_error *why)
{
    if (result.text == NULL)
        return ec_fail(why, EC_ERR_REQUEST, "the answer has neither result nor error");
    call->line = malloc(line->bytes + 1);
    if (call->line == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for an answer of %zu bytes", line->bytes);
    memcpy(call->line, line->text, line->bytes);
    call->line[line->bytes] = '\0';
    call->result = (struct ec_json_span) { .text = call->line + (result.text - line->text),
                                           .bytes = result.bytes };
    for (unsigned i = 0; i < line->fd_count; i++) {
        call->reply_fds[i] = line->fds[i];
        line->fds[i] = -1;
    }
    call->reply_fd_count = line->fd_count;
    return EC_OK;
}

/* Turn {"code", "message"} into an error. A code that is none of ours still has to be negative. */
static int take_error(struct ec_json_span error, struct ec_error *why)
{
    static const char *const names[] = { "code", "message" };
    struct ec_json_span values[2];
    struct ec_json_fields fields = { .names = names, .values = values, .count = 2 };
    char message[MESSAGE_BYTES];
    int64_t code;

    if (ec_json_bind(error, &fields) < 0 || ec_json_get_i64(values[0], &code) < 0 || code >= 0 ||
        code < INT32_MIN)
        return ec_fail(why, EC_ERR_INTERNAL, "the daemon answered an error without a code");
    if (ec_json_get_text(values[1], message, sizeof message) < 0 || message[0] == '\0')
        return ec_fail(why, (int)code, "%s", ec_error_text((int)code));
    return ec_fail(why, (int)code, "%s", message);
}

/* The daemon is gone, or is not to be trusted any more. The descriptor stays open until destroy, so
 * that its number is not given to another file while somebody still polls it. */
static void hang_up(struct ec_connection *connection, const struct ec_error *why)
{
    bool was_open;

    shutdown(connection->socket_fd, SHUT_RDWR);
    pthread_mutex_lock(&connection->mutex);
    connection->end = *why;
    /* pairs with the acquire in ec_connection_is_open */
    was_open = atomic_exchange_explicit(&connection->state, CLOSED, memory_order_acq_rel) == OPEN;
    for (struct waiting_call *waiting = connection->waiting; waiting != NULL;
         waiting = waiting->next) {
        if (waiting->done)
            continue;
        waiting->rc = ec_fail(&waiting->why, EC_ERR_DISCONNECTED, "%s", why->text);
        waiting->done = true;
    }
    pthread_cond_broadcast(&connection->changed);
    pthread_mutex_unlock(&connection->mutex);
    if (!was_open)
        return; /* it never came back */
    if (connection->kept)
        begin_pause(connection);
    if (connection->on_hang_up != NULL)
        connection->on_hang_up(connection->context);
}

/* ---- coming back ---- */

/* With the mutex held. */
static bool may_call(const struct ec_connection *connection)
{
    int state = atomic_load_explicit(&connection->state, memory_order_relaxed);

    return state == OPEN ||
           (state == RESUMING && pthread_equal(connection->resuming_thread, pthread_self()));
}

/* Another file under the number of the socket, so that who polls it need not know. Senders are kept
 * out: what was meant for the old one must not get into the new one. */
static void put_descriptor(struct ec_connection *connection, int fd)
{
    pthread_mutex_lock(&connection->send_mutex);
    pthread_mutex_lock(&connection->mutex);
    dup3(fd, connection->socket_fd, O_CLOEXEC); /* cannot fail: both are open */
    note_socket(connection);
    connection->generation++;
    pthread_mutex_unlock(&connection->mutex);
    pthread_mutex_unlock(&connection->send_mutex);
    close(fd);
}

static void note_socket(struct ec_connection *connection)
{
    struct stat st = { 0 };

    (void)fstat(connection->socket_fd, &st);
    connection->socket_device = st.st_dev;
    connection->socket_inode = st.st_ino;
}

/* When the next try is due. The pauses of many clients of one daemon are not to end at once, so up to a
 * quarter is taken off. */
static void begin_pause(struct ec_connection *connection)
{
    const int64_t now = ec_real_ns(), pause_ns = connection->pause_ns;
    struct itimerspec due = { 0 };
    int fd;

    connection->retry_ns = now + pause_ns - now % (pause_ns / 4);
    connection->pause_ns = pause_ns * 2 < PAUSE_LAST_NS ? pause_ns * 2 : PAUSE_LAST_NS;
    if (connection->stop_fd >= 0)
        return;
    due.it_value.tv_sec = connection->retry_ns / 1000000000;
    due.it_value.tv_nsec = connection->retry_ns % 1000000000;
    fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd < 0)
        return; /* the socket that hung up stays: the program polls more often than it has to */
    timerfd_settime(fd, TFD_TIMER_ABSTIME, &due, NULL);
    put_descriptor(connection, fd);
}

/* false: the service thread is to end. */
static bool pause_before_try(struct ec_connection *connection)
{
    struct pollfd stop = { .fd = connection->stop_fd, .events = POLLIN };

    for (;;) {
        int64_t left_ns = connection->retry_ns - ec_real_ns();
        struct timespec left = { .tv_sec = left_ns / 1000000000, .tv_nsec = left_ns % 1000000000 };

        if (left_ns <= 0)
            return poll(&stop, 1, 0) <= 0;
        if (ppoll(&stop, 1, &left, NULL) > 0)
            return false;
    }
}

/* Connect and let the owner say who it is. On the reading thread. EC_OK or EC_ERR_DISCONNECTED. */
static int try_again(struct ec_connection *connection)
{
    struct ec_error why = { 0 };
    int fd, rc = open_socket(connection->path, &fd, &why);

    if (rc < 0) {
        if (fd >= 0)
            close(fd);
        begin_pause(connection);
        return EC_ERR_DISCONNECTED;
    }
    ec_line_reader_finish(&connection->lines);
    put_descriptor(connection, fd);
    ec_line_reader_init(&connection->lines, connection->socket_fd);
    pthread_mutex_lock(&connection->mutex);
    connection->reading = false; /* the calls below read by themselves */
    connection->resuming_thread = pthread_self();
    atomic_store_explicit(&connection->state, RESUMING, memory_order_release);
    pthread_mutex_unlock(&connection->mutex);

    rc = connection->resume(connection->context, &why);

    if (rc < 0)
        hang_up(connection, &why);
    pthread_mutex_lock(&connection->mutex);
    connection->reading = true;
    connection->reading_thread = pthread_self();
    if (atomic_load_explicit(&connection->state, memory_order_relaxed) == CLOSED)
        rc = EC_ERR_DISCONNECTED;
    else
        atomic_store_explicit(&connection->state, OPEN, memory_order_release);
    pthread_mutex_unlock(&connection->mutex);
    if (rc < 0) {
        begin_pause(connection);
        return EC_ERR_DISCONNECTED;
    }
    connection->pause_ns = PAUSE_FIRST_NS;
    if (connection->on_return != NULL)
        connection->on_return(connection->context);
    return EC_OK;
}

/* ---- call ---- */

static int write_request(struct ec_json_writer *line, uint64_t id, const struct ec_call *call,
                         struct ec_error *why)
{
    struct ec_json_span params = { 0 };
    int rc = check_params(call, &params, why);

    if (rc < 0)
        return rc;
    ec_json_object_begin(line);
    ec_json_member_string(line, "jsonrpc", "2.0");
    if (id != 0) /* 0: a notification */
        ec_json_member_u64(line, "id", id);
    ec_json_member_string(line, "method", call->method);
    if (params.text != NULL)
        ec_json_member_raw(line, "params", params);
    ec_json_object_end(line);
    ec_json_line_end(line);
    rc = ec_json_writer_status(line);
    return rc == EC_OK ? EC_OK
                       : ec_fail(why, rc, "the request: %s, at most %d bytes", ec_error_text(rc),
                                 EC_LINE_BYTES);
}

static int check_params(const struct ec_call *call, struct ec_json_span *params,
                        struct ec_error *why)
{
    struct ec_json_fault fault = { 0 };
    enum ec_json_type type;
    size_t bytes;

    if (call->fd_count > EC_LINE_FDS)
        return ec_fail(why, EC_ERR_LIMIT, "%u descriptors, the limit is %d", call->fd_count,
                       EC_LINE_FDS);
    if (call->params == NULL)
        return EC_OK;
    bytes = strlen(call->params);
    if (ec_json_check(call->params, bytes, NULL, &fault) < 0)
        return ec_fail(why, EC_ERR_PARAM, "params: %s at byte %zu", fault.reason, fault.offset);
    *params = ec_json_root(call->params, bytes);
    type = ec_json_type_of(*params);
    if (type != EC_JSON_OBJECT && type != EC_JSON_ARRAY)
        return ec_fail(why, EC_ERR_PARAM, "params: expected an object or array, got %s",
                       ec_json_type_text(type));
    return EC_OK;
}

/* A line that went out in part and cannot be finished ends the connection: the next one would be
 * taken for its rest. */
static int send_line(struct ec_connection *connection, const struct ec_json_writer *line,
                     const struct ec_call *call, uint64_t generation, int64_t deadline_ns,
                     struct ec_error *why)
{
    size_t sent = 0;
    int rc = EC_OK;

    pthread_mutex_lock(&connection->send_mutex);
    if (connection->generation != generation) /* it was meant for the daemon before */
        rc = ec_fail(why, EC_ERR_DISCONNECTED, "the daemon hung up");
    while (sent < line->bytes && rc == EC_OK) {
        ssize_t n = send_some(connection->socket_fd, line->base + sent, line->bytes - sent,
                              call->fds, sent == 0 ? call->fd_count : 0);

        if (n >= 0)
            sent += (size_t)n;
        else if (errno == EAGAIN)
            rc = wait_for_socket(connection->socket_fd, -1, POLLOUT, deadline_ns);
        else if (errno == EPIPE || errno == ECONNRESET || errno == ENOTSOCK)
            rc = ec_fail(why, EC_ERR_DISCONNECTED, "the daemon hung up");
        else
            rc = ec_fail(why, EC_ERR_SYSTEM, "send: %s", strerror(errno));
        if (rc == EC_ERR_TIMEOUT)
            ec_fail(why, rc, "the daemon took %zu of %zu bytes in %u ms", sent, line->bytes,
                    connection->timeout_ms);
    }
    if (rc < 0 && sent > 0)
        shutdown(connection->socket_fd, SHUT_RDWR); /* whoever reads notices and tells the others */
    pthread_mutex_unlock(&connection->send_mutex);
    return rc;
}

static ssize_t send_some(int fd, const char *bytes, size_t count, const int *fds, unsigned fd_count)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * EC_LINE_FDS)];
    } control = { .bytes = { 0 } };
    struct iovec data = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = count };
    struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
    ssize_t n;

    if (fd_count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        control.align = (struct cmsghdr) { .cmsg_level = SOL_SOCKET,
                                           .cmsg_type = SCM_RIGHTS,
                                           .cmsg_len = CMSG_LEN(sizeof(int) * fd_count) };
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), fds, sizeof(int) * fd_count);
    }
    do
        n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n;
}

/* Called and left with the mutex held, as the two below. */
static int wait_for_answer(struct ec_connection *connection, struct waiting_call *self,
                           int64_t deadline_ns, struct ec_error *why)
{
    const struct timespec deadline = { .tv_sec = deadline_ns / 1000000000,
                                       .tv_nsec = deadline_ns % 1000000000 };

    while (!self->done) { /* a hang-up makes it done, too */
        if (ec_real_ns() >= deadline_ns)
            return ec_fail(why, EC_ERR_TIMEOUT, "no answer within %u ms", connection->timeout_ms);
        if (!connection->reading)
            read_for_all(connection, deadline_ns);
        else
            pthread_cond_timedwait(&connection->changed, &connection->mutex, &deadline);
    }
    return self->rc == EC_OK ? EC_OK : ec_fail(why, self->rc, "%s", self->why.text);
}

/* Others may find their answer in what this thread reads. */
static void read_for_all(struct ec_connection *connection, int64_t deadline_ns)
{
    connection->reading = true;
    connection->reading_thread = pthread_self();
    pthread_mutex_unlock(&connection->mutex);
    if (wait_for_socket(connection->socket_fd, connection->stop_fd, POLLIN, deadline_ns) == EC_OK)
        read_lines(connection);
    else if (connection->stop_fd >= 0) /* stopped while it came back */
        hang_up(connection, &(struct ec_error) { .text = "the client ends" });
    pthread_mutex_lock(&connection->mutex);
    connection->reading = false;
    pthread_cond_broadcast(&connection->changed);
}

static void leave(struct ec_connection *connection, struct waiting_call *self)
{
    struct waiting_call **link = &connection->waiting;

    while (*link != self)
        link = &(*link)->next;
    *link = self->next;
}

/* EC_OK: the socket is ready or hung up; EC_AGAIN: stopped; EC_ERR_TIMEOUT. */
static int wait_for_socket(int fd, int stop_fd, short events, int64_t deadline_ns)
{
    struct pollfd waits[2] = { { .fd = fd, .events = events },
                               { .fd = stop_fd, .events = POLLIN } };

    for (;;) {
        int64_t left_ns = deadline_ns - ec_real_ns();
        struct timespec left = { .tv_sec = left_ns / 1000000000, .tv_nsec = left_ns % 1000000000 };
        int ready;

        if (left_ns <= 0)
            return EC_ERR_TIMEOUT;
        ready = ppoll(waits, 2, deadline_ns == INT64_MAX ? NULL : &left, NULL);
        if (ready > 0)
            return waits[1].revents != 0 ? EC_AGAIN : EC_OK;
        assert(ready == 0 || errno == EINTR || errno == ENOMEM);
    }
}
