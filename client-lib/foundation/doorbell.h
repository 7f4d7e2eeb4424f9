/* foundation/doorbell.h - wake a thread of another process that sleeps in poll.
 *
 * Two kinds. Between processes of one user it is an eventfd: the cheapest. Across users it is a pair of
 * datagram sockets: O_NONBLOCK of an eventfd belongs to all who hold it, so a hostile owner could make
 * the ringing thread block, and MSG_DONTWAIT belongs to the call.
 *
 * Ringing a bell that rings already does nothing. Thread: any. Cost: one system call. */
#ifndef EC_FOUNDATION_DOORBELL_H
#define EC_FOUNDATION_DOORBELL_H

#include <stdbool.h>

#include "foundation/error.h"

/* The owner's side. Equal descriptors: an eventfd. */
struct ec_doorbell {
    int ring_fd; /* given to others */
    int wait_fd; /* polled by the owner */
};

/* Returns EC_OK or EC_ERR_SYSTEM. */
int ec_doorbell_init(struct ec_doorbell *doorbell, bool is_socket, struct ec_error *why);
void ec_doorbell_finish(struct ec_doorbell *doorbell); /* accepts { -1, -1 } */
void ec_doorbell_silence(const struct ec_doorbell *doorbell);

/* The other side, which holds ring_fd only. */
bool ec_doorbell_is_socket(int ring_fd);
/* true: it rang. false: it was ringing already, or its owner is gone. Never blocks on a socket. */
bool ec_doorbell_ring(int ring_fd, bool is_socket);

/* Check what a stranger hands in: a datagram socket, or with may_be_eventfd also an eventfd that does
 * not block. Returns EC_OK, EC_ERR_LAYOUT (says what it is) or EC_ERR_SYSTEM. */
int ec_doorbell_check(int ring_fd, bool may_be_eventfd, struct ec_error *why);

#endif
