/* arrival.h - descriptors that came with what was received, and the line that they belong to.
 *
 * Descriptors ride on the first byte of a line. recvmsg() only says that they came with some byte of
 * what it returned; it ends behind the piece that carries them, and may have put pieces without any in
 * front of it:
 *
 *     sent       one line | one line | one line, with descriptors |
 *     received   |<---------- one recvmsg(), descriptors -------->|
 *
 * A line with descriptors is a piece of its own (clients send it with a sendmsg() of its own), so it is
 * the last one. To be kind to clients that send more lines with it, of complete lines the last one
 * counts whose method takes descriptors.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_CONTROL_ARRIVAL_H
#define ENGINE_CORED_CONTROL_ARRIVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "control/dispatcher.h"

#define ARRIVAL_NOWHERE SIZE_MAX

struct arrival {
    struct line_rights rights; /* empty, as nearly always: nothing came */
    size_t at;                 /* where their line begins in the data; ARRIVAL_NOWHERE */
};

/* recvmsg(). Lost descriptors are all closed and become a fault. Returns what recvmsg does. */
ssize_t arrival_receive(struct arrival *arrival, int socket_fd, char *buffer, size_t bytes);

/* Find the line; data[fresh, bytes) was received together with the descriptors. ARRIVAL_NOWHERE: they
 * came in the middle of the line that data begins with. */
void arrival_place(struct arrival *arrival, const struct dispatcher *dispatcher, const char *data,
                   size_t fresh, size_t bytes);

static inline bool arrival_is_empty(const struct arrival *arrival)
{
    return arrival->rights.count == 0 && arrival->rights.fault == NULL;
}

/* Close what nobody took, and forget it. */
void rights_finish(struct line_rights *rights);

#endif
