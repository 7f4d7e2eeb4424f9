/* Lines out of a stream: take what is complete from the buffer, else receive more and look again. */
#include "client/line_reader.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

_Static_assert(EC_LINE_FDS % 2 == 0, "the kernel fills up the padding of an odd number");

#define FIRST_BYTES 4096u /* most lines fit, so most readers never grow */

static bool take_line(struct ec_line_reader *reader, struct ec_line *line);
static int make_room(struct ec_line_reader *reader, struct ec_error *why);
static int receive(struct ec_line_reader *reader, struct ec_error *why);
static int peek(const struct ec_line_reader *reader, size_t bytes, size_t *got, bool *carry,
                struct ec_error *why);
static int receive_plain(struct ec_line_reader *reader, size_t bytes, struct ec_error *why);
static int receive_with_descriptors(struct ec_line_reader *reader, size_t bytes,
                                    struct ec_error *why);
static int receive_failed(ssize_t got, struct ec_error *why);
static void close_descriptors(struct ec_line_reader *reader, unsigned count);

void ec_line_reader_init(struct ec_line_reader *reader, int socket_fd)
{
    *reader = (struct ec_line_reader) { .socket_fd = socket_fd };
}

void ec_line_reader_finish(struct ec_line_reader *reader)
{
    close_descriptors(reader, reader->given > 0 ? reader->given : reader->fd_count);
    free(reader->buffer);
    *reader = (struct ec_line_reader) { .socket_fd = -1 };
}

int ec_line_reader_next(struct ec_line_reader *reader, struct ec_line *line, struct ec_error *why)
{
    close_descriptors(reader, reader->given);
    reader->given = 0;
    while (!take_line(reader, line)) {
        int rc = make_room(reader, why);

        if (rc == EC_OK)
            rc = receive(reader, why);
        if (rc != EC_OK)
            return rc;
    }
    return EC_OK;
}

static bool take_line(struct ec_line_reader *reader, struct ec_line *line)
{
    const char *end;

    if (reader->searched == reader->end)
        return false;
    end = memchr(reader->buffer + reader->searched, '\n', reader->end - reader->searched);
    if (end == NULL) {
        reader->searched = reader->end;
        return false;
    }
    *line = (struct ec_line) {
        .text = reader->buffer + reader->begin,
        .bytes = (size_t)(end - reader->buffer) - reader->begin,
        .fds = reader->fds,
        .fd_count = reader->fd_count,
    };
    reader->begin += line->bytes + 1;
    reader->searched = reader->begin;
    reader->given = reader->fd_count;
    reader->fd_count = 0;
    return true;
}

/* Move what is left to the front, and grow when that did not help. */
static int make_room(struct ec_line_reader *reader, struct ec_error *why)
{
    char *grown;
    size_t capacity;

    if (reader->begin > 0) {
        memmove(reader->buffer, reader->buffer + reader->begin, reader->end - reader->begin);
        reader->end -= reader->begin;
        reader->searched -= reader->begin;
        reader->begin = 0;
    }
    if (reader->end < reader->capacity)
        return EC_OK;
    if (reader->capacity >= EC_LINE_BYTES)
        return ec_fail(why, EC_ERR_SIZE, "line is longer than %d bytes", EC_LINE_BYTES);
    capacity = reader->capacity == 0 ? FIRST_BYTES : reader->capacity * 2;
    grown = realloc(reader->buffer, capacity);
    if (grown == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a line of %zu bytes", capacity);
    reader->buffer = grown;
    reader->capacity = capacity;
    return EC_OK;
}

/* While descriptors are about, no receive crosses the end of a line. */
static int receive(struct ec_line_reader *reader, struct ec_error *why)
{
    const char *peeked = reader->buffer + reader->end, *line_end;
    size_t got = 0;
    bool carry = false;
    int rc;

    rc = peek(reader, reader->capacity - reader->end, &got, &carry, why);
    if (rc != EC_OK)
        return rc;
    if (!carry)
        return receive_plain(reader, got, why);
    line_end = memchr(peeked, '\n', got);
    if (line_end != NULL)
        got = (size_t)(line_end - peeked) + 1;
    return receive_with_descriptors(reader, got, why);
}

/* How many bytes can be had, and whether descriptors may ride on them: the kernel also says so when
 * it sees them just behind what was asked for. */
static int peek(const struct ec_line_reader *reader, size_t bytes, size_t *got, bool *carry,
                struct ec_error *why)
{
    struct iovec room = { .iov_base = reader->buffer + reader->end, .iov_len = bytes };
    struct msghdr message = { .msg_iov = &room, .msg_iovlen = 1 };
    ssize_t n;

    do
        n = recvmsg(reader->socket_fd, &message, MSG_PEEK | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return receive_failed(n, why);
    *got = (size_t)n;
    *carry = (message.msg_flags & MSG_CTRUNC) != 0;
    return EC_OK;
}

static int receive_plain(struct ec_line_reader *reader, size_t bytes, struct ec_error *why)
{
    ssize_t n;

    do
        n = recv(reader->socket_fd, reader->buffer + reader->end, bytes, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return receive_failed(n, why);
    reader->end += (size_t)n;
    return EC_OK;
}

static int receive_with_descriptors(struct ec_line_reader *reader, size_t bytes,
                                    struct ec_error *why)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * EC_LINE_FDS)];
    } control;
    struct iovec room = { .iov_base = reader->buffer + reader->end, .iov_len = bytes };
    struct msghdr message = { .msg_iov = &room,
                              .msg_iovlen = 1,
                              .msg_control = control.bytes,
                              .msg_controllen = sizeof control.bytes };
    bool arrived = false;
    ssize_t n;

    do
        n = recvmsg(reader->socket_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return receive_failed(n, why);
    for (struct cmsghdr *part = CMSG_FIRSTHDR(&message); part != NULL;
         part = CMSG_NXTHDR(&message, part)) {
        unsigned count;

        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        arrived = true;
        close_descriptors(reader,
                          reader->fd_count); /* none, unless they came twice: refused below */
        count = (unsigned)((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(reader->fds, CMSG_DATA(part), count * sizeof(int)); /* the kernel sends one part */
        reader->fd_count = count;
    }
    if (message.msg_flags & MSG_CTRUNC) {
        close_descriptors(reader, reader->fd_count);
        reader->fd_count = 0;
        return ec_fail(why, EC_ERR_LIMIT,
                       "descriptors were lost: more than %d came, or this process may open no more",
                       EC_LINE_FDS);
    }
    if (arrived && reader->end > reader->begin) {
        close_descriptors(reader, reader->fd_count);
        reader->fd_count = 0;
        return ec_fail(why, EC_ERR_REQUEST, "descriptors came inside a line");
    }
    reader->end += (size_t)n;
    return EC_OK;
}

static int receive_failed(ssize_t got, struct ec_error *why)
{
    if (got == 0 || errno == ECONNRESET)
        return ec_fail(why, EC_ERR_DISCONNECTED, "the daemon hung up");
    if (errno == EAGAIN)
        return EC_AGAIN;
    return ec_fail(why, EC_ERR_SYSTEM, "receive: %s", strerror(errno));
}

static void close_descriptors(struct ec_line_reader *reader, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (reader->fds[i] >= 0)
            close(reader->fds[i]);
}
