#include "control/arrival.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

ssize_t arrival_receive(struct arrival *arrival, int socket_fd, char *buffer, size_t bytes)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * EC_LINE_FDS)];
        struct cmsghdr align;
    } control;
    struct iovec part = { buffer, bytes };
    struct msghdr message = { .msg_iov = &part,
                              .msg_iovlen = 1,
                              .msg_control = control.bytes,
                              .msg_controllen = sizeof control.bytes };
    struct line_rights *rights = &arrival->rights;
    const ssize_t received = recvmsg(socket_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (received < 0 || (message.msg_controllen == 0 && !(message.msg_flags & MSG_CTRUNC)))
        return received;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header != NULL;
         header = CMSG_NXTHDR(&message, header)) {
        const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        /* The control buffer has room for EC_LINE_FDS, so they fit. */
        memcpy(rights->fds + rights->count, CMSG_DATA(header), count * sizeof(int));
        rights->count += (unsigned)count;
    }
    if (message.msg_flags & MSG_CTRUNC) {
        rights_finish(rights);
        rights->fault = "descriptors were lost: too many, or no room for them here";
    }
    return received;
}

void arrival_place(struct arrival *arrival, const struct dispatcher *dispatcher, const char *data,
                   size_t fresh, size_t bytes)
{
    const char *lf = fresh == 0 ? NULL : memchr(data + fresh, '\n', bytes - fresh);
    size_t start = fresh == 0 ? 0 : lf != NULL ? (size_t)(lf - data) + 1 : bytes;

    arrival->at = ARRIVAL_NOWHERE;
    for (bool is_taken = false; start < bytes; start = (size_t)(lf - data) + 1) {
        lf = memchr(data + start, '\n', bytes - start);
        if (lf == NULL) { /* unfinished, so nothing is behind it: it is a piece of its own */
            arrival->at = start;
            return;
        }
        if (dispatcher_takes_fds(dispatcher, data + start, (size_t)(lf - data) - start)) {
            arrival->at = start;
            is_taken = true;
        } else if (!is_taken) {
            arrival->at = start;
        }
    }
}

void rights_finish(struct line_rights *rights)
{
    for (unsigned i = 0; i < rights->count; i++)
        if (rights->fds[i] >= 0)
            close(rights->fds[i]);
    rights->count = 0;
    rights->fault = NULL;
}
