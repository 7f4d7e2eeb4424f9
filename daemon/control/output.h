/* output.h - what is still to be sent to one connection: whole lines, some with descriptors.
 *
 *   bytes   |......reply\n|notification\n|reply with fds\n|reply\n|
 *   marks          reply   notification   fds              plain
 *
 * A mark stands where the kind of line changes and around each line with descriptors. Descriptors
 * ride on the first byte of their line, which is sent by a sendmsg() of its own; all other lines go
 * out together.
 *
 * Thread: loop. Ownership: descriptors are duplicated at the append, so the caller keeps its own.
 * Cost: one copy of the line; the buffer is kept, so that a busy connection allocates nothing. */
#ifndef ENGINE_CORED_CONTROL_OUTPUT_H
#define ENGINE_CORED_CONTROL_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "foundation/error.h"

enum output_kind { OUTPUT_REPLY, OUTPUT_NOTIFICATION };

struct output_mark {
    uint64_t at; /* place in the stream of all bytes ever appended */
    enum output_kind kind;
    bool alone; /* what is sent ends before this place */
    int *fds;   /* of the line that begins here; NULL: none */
    unsigned fd_count;
};

struct output {
    char *bytes;
    size_t head, tail, capacity; /* [head, tail) is unsent */
    uint64_t sent;               /* place of head in the stream */
    struct output_mark *marks;   /* in order; those before head are gone */
    unsigned mark_count, mark_capacity;
    enum output_kind head_kind, tail_kind;
    bool after_fds;            /* the last line has descriptors */
    size_t notification_bytes; /* unsent ones of notifications */
    unsigned fd_count;         /* descriptors of all that is unsent */
};

void output_finish(struct output *output); /* accepts a zeroed one */

/* Append one line; LF is added. Returns EC_OK, EC_ERR_MEMORY or EC_ERR_SYSTEM (a descriptor cannot be
 * duplicated); then nothing was appended. */
int output_append(struct output *output, enum output_kind kind, const char *line, size_t bytes,
                  const int *fds, unsigned fd_count);

/* Append all lines of another output and leave that one empty. EC_OK or EC_ERR_MEMORY. */
int output_take_over(struct output *output, struct output *other);

/* Send as much as the socket takes. Returns EC_OK (all is sent), EC_AGAIN, EC_ERR_DISCONNECTED. */
int output_flush(struct output *output, int socket_fd);

static inline size_t output_unsent(const struct output *output)
{
    return output->tail - output->head;
}

static inline size_t output_unsent_replies(const struct output *output)
{
    return output_unsent(output) - output->notification_bytes;
}

#endif
