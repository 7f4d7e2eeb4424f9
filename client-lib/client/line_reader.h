/* line_reader.h - read lines and the descriptors that ride on them from a stream socket.
 *
 * Descriptors belong to the line whose first byte carried them. recvmsg tells only that they came
 * with some byte of what it returned, which may begin with the end of an earlier line and end with the
 * beginning of a later one. So the reader peeks first, without room for descriptors: MSG_CTRUNC then
 * says that some are about, and the peeked bytes show where the line ends. While that is so, it
 * receives line by line:
 *
 *     socket   ...earlier"}\n{"method":"event.port.added"...}\n{"id":7...
 *              |<- receive ->|<- receive, with descriptors ---->|
 *
 * Therefore the descriptors in hand are always those of the first line in the buffer.
 *
 * Thread:    one at a time.
 * Ownership: the socket stays the caller's; buffer and untaken descriptors are the reader's.
 * Cost:      two system calls per wake-up, two more for each line while descriptors come. */
#ifndef EC_CLIENT_LINE_READER_H
#define EC_CLIENT_LINE_READER_H

#include <stddef.h>

#include "foundation/error.h"
#include "proto/line.h"

struct ec_line_reader {
    int socket_fd;
    char *buffer; /* [begin, end) is received and not yet handed out */
    size_t begin, end, capacity;
    size_t searched; /* no LF in [begin, searched) */
    int fds[EC_LINE_FDS];
    unsigned fd_count; /* of the line at begin */
    unsigned given;    /* of the line that was handed out last */
};

/* One line, valid until the next call. Take a descriptor by setting its place to -1; the others are
 * closed by the next call. They are close-on-exec. */
struct ec_line {
    const char *text; /* without LF */
    size_t bytes;
    int *fds;
    unsigned fd_count;
};

void ec_line_reader_init(struct ec_line_reader *reader, int socket_fd);
void ec_line_reader_finish(struct ec_line_reader *reader); /* closes untaken descriptors */

/* The next line; never blocks.
 *
 * Returns EC_OK, EC_AGAIN (no whole line yet), EC_ERR_DISCONNECTED (the peer hung up),
 *         EC_ERR_SIZE (line over EC_LINE_BYTES), EC_ERR_LIMIT (descriptors were lost, or too many),
 *         EC_ERR_REQUEST (descriptors inside a line), EC_ERR_MEMORY or EC_ERR_SYSTEM. After an error
 *         nothing more can be read. */
int ec_line_reader_next(struct ec_line_reader *reader, struct ec_line *line, struct ec_error *why);

#endif
