/* doorbell.c - see doorbell.h. */
#include "foundation/doorbell.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define SILENCE_MAX 64

int ec_doorbell_init(struct ec_doorbell *doorbell, bool is_socket, struct ec_error *why)
{
    int fds[2];

    *doorbell = (struct ec_doorbell) { -1, -1 };
    if (!is_socket) {
        doorbell->ring_fd = doorbell->wait_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        return doorbell->ring_fd >= 0 ? EC_OK
                                      : ec_fail(why, EC_ERR_SYSTEM, "eventfd: %s", strerror(errno));
    }
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "socketpair: %s", strerror(errno));
    doorbell->ring_fd = fds[0];
    doorbell->wait_fd = fds[1];
    return EC_OK;
}

void ec_doorbell_finish(struct ec_doorbell *doorbell)
{
    if (doorbell->ring_fd >= 0)
        close(doorbell->ring_fd);
    if (doorbell->wait_fd >= 0 && doorbell->wait_fd != doorbell->ring_fd)
        close(doorbell->wait_fd);
    *doorbell = (struct ec_doorbell) { -1, -1 };
}

void ec_doorbell_silence(const struct ec_doorbell *doorbell)
{
    uint64_t rung;

    if (doorbell->ring_fd == doorbell->wait_fd) {
        (void)!read(doorbell->wait_fd, &rung, sizeof rung);
        return;
    }
    /* One datagram for each who rang; whoever floods us finds that we look no further. */
    for (int i = 0; i < SILENCE_MAX; i++)
        if (recv(doorbell->wait_fd, &rung, sizeof rung, MSG_DONTWAIT) < 0)
            break;
}

bool ec_doorbell_is_socket(int ring_fd)
{
    int type;
    socklen_t bytes = sizeof type;

    return getsockopt(ring_fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0;
}

bool ec_doorbell_ring(int ring_fd, bool is_socket)
{
    if (is_socket)
        return send(ring_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
    return write(ring_fd, &(uint64_t) { 1 }, sizeof(uint64_t)) > 0;
}

int ec_doorbell_check(int ring_fd, bool may_be_eventfd, struct ec_error *why)
{
    char path[64], what[64];
    socklen_t bytes = sizeof(int);
    int domain, type, flags;
    ssize_t length;

    if (getsockopt(ring_fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0) {
        bytes = sizeof type;
        if (domain == AF_UNIX && getsockopt(ring_fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 &&
            type == SOCK_DGRAM)
            return EC_OK;
        return ec_fail(why, EC_ERR_LAYOUT,
                       "doorbell is a socket of another kind, expected a pair of "
                       "datagram sockets");
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", ring_fd);
    length = readlink(path, what, sizeof what - 1);
    if (length < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "%s: %s", path, strerror(errno));
    what[length] = '\0';
    if (strcmp(what, "anon_inode:[eventfd]") != 0)
        return ec_fail(why, EC_ERR_LAYOUT, "doorbell is %s, expected anon_inode:[eventfd]", what);
    if (!may_be_eventfd)
        return ec_fail(
            why, EC_ERR_LAYOUT,
            "doorbell is an eventfd of another user, who could make it block: expected a "
            "pair of datagram sockets");
    flags = fcntl(ring_fd, F_GETFL);
    if (flags < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "flags of the doorbell: %s", strerror(errno));
    return (flags & O_NONBLOCK) != 0
               ? EC_OK
               : ec_fail(why, EC_ERR_LAYOUT, "eventfd blocks, expected O_NONBLOCK");
}
