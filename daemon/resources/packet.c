/* packet.c - sendmsg, recvmsg and SCM_RIGHTS. */
#include "resources/packet.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
    struct cmsghdr header; /* for its alignment */
    char bytes[CMSG_SPACE(PACKET_FDS * sizeof(int))];
};

static void take_fds(struct msghdr *message, int *fds, unsigned fd_count);

bool packet_pair(int ends[2])
{
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0;
}

bool packet_send(int socket_fd, const void *packet, size_t bytes, const int *fds, unsigned fd_count)
{
    struct iovec data = { .iov_base = (void *)(size_t)packet, .iov_len = bytes };
    struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
    union control control;
    ssize_t sent;

    assert(fd_count <= PACKET_FDS);
    if (fd_count > 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(&control.header), fds, fd_count * sizeof(int));
    }
    do
        sent = sendmsg(socket_fd, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)bytes;
}

bool packet_receive(int socket_fd, void *packet, size_t bytes, int *fds, unsigned fd_count)
{
    struct iovec data = { .iov_base = packet, .iov_len = bytes };
    struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
    union control control;
    ssize_t received;

    assert(fd_count <= PACKET_FDS);
    for (unsigned i = 0; i < fd_count; i++)
        fds[i] = -1;
    if (fd_count > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
    }
    do
        received = recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC);
    while (received < 0 && errno == EINTR);
    if (received < 0)
        return false;
    take_fds(&message, fds, fd_count);
    if (received == (ssize_t)bytes && (message.msg_flags & MSG_TRUNC) == 0)
        return true;
    for (unsigned i = 0; i < fd_count; i++)
        if (fds[i] >= 0) {
            close(fds[i]);
            fds[i] = -1;
        }
    return false;
}

static void take_fds(struct msghdr *message, int *fds, unsigned fd_count)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL;
         part = CMSG_NXTHDR(message, part)) {
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        assert(count <= fd_count);
        memcpy(fds, CMSG_DATA(part), count * sizeof(int));
        return;
    }
    (void)fd_count;
}
