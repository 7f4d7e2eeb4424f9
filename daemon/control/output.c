/* The output queue of a connection: one buffer, and marks where something changes in it. */
#include "control/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/line.h"

#define OUTPUT_BYTES_FIRST 4096
#define OUTPUT_BYTES_KEPT 65536 /* a larger buffer is given back once it is empty */

static int reserve(struct output *output, size_t bytes);
static int reserve_marks(struct output *output, unsigned count);
static void add_mark(struct output *output, enum output_kind kind, bool alone, int *fds,
                     unsigned fd_count);
static void append_bytes(struct output *output, const char *bytes, size_t count);
static int duplicate(const int *fds, unsigned count, int **copies);
static void close_fds(int *fds, unsigned count);
static ssize_t send_run(struct output *output, int socket_fd);
static void advance(struct output *output, size_t bytes);

void output_finish(struct output *output)
{
    for (unsigned i = 0; i < output->mark_count; i++)
        close_fds(output->marks[i].fds, output->marks[i].fd_count);
    free(output->marks);
    free(output->bytes);
    *output = (struct output) { 0 };
}

int output_append(struct output *output, enum output_kind kind, const char *line, size_t bytes,
                  const int *fds, unsigned fd_count)
{
    const bool is_marked = fd_count > 0 || output->after_fds || kind != output->tail_kind;
    int *copies = NULL;
    int rc = reserve(output, bytes + 1);

    if (rc == EC_OK && is_marked)
        rc = reserve_marks(output, 1);
    if (rc == EC_OK && fd_count > 0)
        rc = duplicate(fds, fd_count, &copies);
    if (rc < 0)
        return rc;
    if (is_marked)
        add_mark(output, kind, fd_count > 0 || output->after_fds, copies, fd_count);
    output->after_fds = fd_count > 0;
    append_bytes(output, line, bytes);
    append_bytes(output, "\n", 1);
    return EC_OK;
}

int output_take_over(struct output *output, struct output *other)
{
    const uint64_t shift = output->sent + output_unsent(output) - other->sent;

    if (output_unsent(other) == 0)
        return EC_OK;
    if (reserve(output, output_unsent(other)) < 0 ||
        reserve_marks(output, other->mark_count + 1) < 0)
        return EC_ERR_MEMORY;
    if (output->after_fds || other->head_kind != output->tail_kind)
        add_mark(output, other->head_kind, output->after_fds, NULL, 0);
    for (unsigned i = 0; i < other->mark_count; i++) {
        output->marks[output->mark_count] = other->marks[i];
        output->marks[output->mark_count++].at += shift;
        output->tail_kind = other->marks[i].kind;
    }
    output->fd_count += other->fd_count;
    other->mark_count = other->fd_count = 0;
    other->head_kind = other->tail_kind; /* as if all of it were sent */
    output->after_fds = other->after_fds;
    memcpy(output->bytes + output->tail, other->bytes + other->head, output_unsent(other));
    output->tail += output_unsent(other);
    output->notification_bytes += other->notification_bytes;
    other->notification_bytes = 0;
    advance(other, output_unsent(other));
    return EC_OK;
}

int output_flush(struct output *output, int socket_fd)
{
    while (output_unsent(output) > 0) {
        const ssize_t sent = send_run(output, socket_fd);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN ? EC_AGAIN : EC_ERR_DISCONNECTED;
        advance(output, (size_t)sent);
    }
    return EC_OK;
}

/* Make room for so many bytes at the tail. */
static int reserve(struct output *output, size_t bytes)
{
    const size_t unsent = output_unsent(output);
    size_t capacity = output->capacity > 0 ? output->capacity : OUTPUT_BYTES_FIRST;
    char *grown;

    if (output->bytes != NULL && output->capacity - output->tail >= bytes)
        return EC_OK;
    if (output->head > 0) {
        memmove(output->bytes, output->bytes + output->head, unsent);
        output->head = 0;
        output->tail = unsent;
    }
    while (capacity - unsent < bytes)
        capacity *= 2;
    if (output->bytes != NULL && capacity == output->capacity)
        return EC_OK;
    grown = realloc(output->bytes, capacity);
    if (grown == NULL)
        return EC_ERR_MEMORY;
    output->bytes = grown;
    output->capacity = capacity;
    return EC_OK;
}

static int reserve_marks(struct output *output, unsigned count)
{
    unsigned capacity = output->mark_capacity > 0 ? output->mark_capacity : 4;
    struct output_mark *grown;

    if (output->mark_capacity - output->mark_count >= count)
        return EC_OK;
    while (capacity - output->mark_count < count)
        capacity *= 2;
    grown = realloc(output->marks, capacity * sizeof *grown);
    if (grown == NULL)
        return EC_ERR_MEMORY;
    output->marks = grown;
    output->mark_capacity = capacity;
    return EC_OK;
}

static void add_mark(struct output *output, enum output_kind kind, bool alone, int *fds,
                     unsigned fd_count)
{
    output->marks[output->mark_count++] = (struct output_mark) {
        .at = output->sent + output_unsent(output),
        .kind = kind,
        .alone = alone,
        .fds = fds,
        .fd_count = fd_count,
    };
    output->tail_kind = kind;
    output->fd_count += fd_count;
}

static void append_bytes(struct output *output, const char *bytes, size_t count)
{
    memcpy(output->bytes + output->tail, bytes, count);
    output->tail += count;
    if (output->tail_kind == OUTPUT_NOTIFICATION)
        output->notification_bytes += count;
}

static int duplicate(const int *fds, unsigned count, int **out)
{
    int *copies = malloc(count * sizeof *copies);

    if (copies == NULL)
        return EC_ERR_MEMORY;
    for (unsigned i = 0; i < count; i++) {
        copies[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);
        if (copies[i] < 0) {
            close_fds(copies, i);
            return EC_ERR_SYSTEM;
        }
    }
    *out = copies;
    return EC_OK;
}

static void close_fds(int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        close(fds[i]);
    free(fds);
}

/* One system call: from the head to the next place where another one has to begin. */
static ssize_t send_run(struct output *output, int socket_fd)
{
    char control[CMSG_SPACE(sizeof(int) * EC_LINE_FDS)];
    struct iovec part = { output->bytes + output->head, output_unsent(output) };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

    if (output->mark_count == 0) /* nearly always */
        return send(socket_fd, part.iov_base, part.iov_len, MSG_NOSIGNAL | MSG_DONTWAIT);
    for (unsigned i = 0; i < output->mark_count; i++) {
        const struct output_mark *mark = &output->marks[i];

        if (mark->at == output->sent && mark->fds != NULL) {
            struct cmsghdr *rights;

            memset(control, 0, sizeof control);
            message.msg_control = control;
            message.msg_controllen = CMSG_SPACE(sizeof(int) * mark->fd_count);
            rights = CMSG_FIRSTHDR(&message);
            rights->cmsg_level = SOL_SOCKET;
            rights->cmsg_type = SCM_RIGHTS;
            rights->cmsg_len = CMSG_LEN(sizeof(int) * mark->fd_count);
            memcpy(CMSG_DATA(rights), mark->fds, sizeof(int) * mark->fd_count);
        } else if (mark->at > output->sent && mark->alone) {
            part.iov_len = mark->at - output->sent;
            break;
        }
    }
    return sendmsg(socket_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* So many bytes are gone. Their marks go, too, and the descriptors of a line whose first byte is. */
static void advance(struct output *output, size_t bytes)
{
    const uint64_t end = output->sent + bytes;
    unsigned gone = 0;

    while (output->sent < end) {
        const bool is_at_mark = gone < output->mark_count && output->marks[gone].at <= output->sent;
        uint64_t stop = end;

        if (is_at_mark) {
            output->head_kind = output->marks[gone].kind;
            output->fd_count -= output->marks[gone].fd_count;
            close_fds(output->marks[gone].fds, output->marks[gone].fd_count);
            gone++;
            continue;
        }
        if (gone < output->mark_count && output->marks[gone].at < stop)
            stop = output->marks[gone].at;
        if (output->head_kind == OUTPUT_NOTIFICATION && output->notification_bytes > 0)
            output->notification_bytes -= stop - output->sent;
        output->head += stop - output->sent;
        output->sent = stop;
    }
    output->mark_count -= gone;
    if (gone > 0)
        memmove(output->marks, output->marks + gone, output->mark_count * sizeof *output->marks);
    if (output_unsent(output) > 0)
        return;
    output->head = output->tail = 0;
    if (output->capacity > OUTPUT_BYTES_KEPT) {
        free(output->bytes);
        output->bytes = NULL;
        output->capacity = 0;
    }
}
