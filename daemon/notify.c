/* notify.c - see notify.h; the protocol is that of sd_notify(3) and sd_notify_barrier(3). */
#include "daemon/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <engine-core/error.h>

#define MESSAGE_BYTES 2048 /* a path, a reason, and what stands around them */

static int deliver(struct notify *notify, const char *text, const int *fd);

int notify_send(struct notify *notify, const char *format, ...)
{
    char text[MESSAGE_BYTES];
    va_list values;

    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    return deliver(notify, text, NULL);
}

int notify_send_fd(struct notify *notify, int fd, const char *text)
{
    return deliver(notify, text, &fd);
}

/* The manager closes what comes with a barrier once it has read everything before it. */
int notify_barrier(struct notify *notify)
{
    struct pollfd closed = { 0 };
    int ends[2], rc;

    if (notify == NULL)
        return EC_OK;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return EC_ERR_SYSTEM;
    rc = deliver(notify, "BARRIER=1", &ends[1]);
    close(ends[1]);
    closed.fd = ends[0];
    if (rc == EC_OK && poll(&closed, 1, notify->wait_ms) != 1)
        rc = EC_ERR_TIMEOUT;
    close(ends[0]);
    return rc;
}

/* A socket that is connected to the manager, for poll() tells of its room only then. */
static int connect_manager(const char *name)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const size_t length = strlen(name);
    int fd;

    if ((name[0] != '/' && name[0] != '@') || length < 2 || length >= sizeof address.sun_path) {
        errno = EINVAL;
        return -1;
    }
    memcpy(address.sun_path, name, length);
    if (name[0] == '@') /* an abstract one */
        address.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address,
                           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) < 0) {
        const int reason = errno;

        close(fd);
        errno = reason;
        return -1;
    }
    return fd;
}

static bool has_room(int socket_fd, int wait_ms)
{
    struct pollfd room = { .fd = socket_fd, .events = POLLOUT };

    return poll(&room, 1, wait_ms) == 1;
}

static int deliver(struct notify *notify, const char *text, const int *fd)
{
    const char *name = getenv("NOTIFY_SOCKET");
    struct iovec data = { .iov_base = (void *)(size_t)text, .iov_len = strlen(text) };
    struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
    union {
        struct cmsghdr header; /* for its alignment */
        char bytes[CMSG_SPACE(sizeof *fd)];
    } control = { 0 };
    int socket_fd, rc = EC_OK;

    if (notify == NULL || name == NULL)
        return EC_OK;
    if (fd != NULL) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control.bytes;
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof *fd);
        memcpy(CMSG_DATA(&control.header), fd, sizeof *fd);
    }
    socket_fd = connect_manager(name);
    if (socket_fd < 0)
        return EC_ERR_SYSTEM;
    if (!has_room(socket_fd, notify->is_deaf ? 0 : notify->wait_ms))
        rc = EC_ERR_TIMEOUT;
    else if (sendmsg(socket_fd, &message, MSG_NOSIGNAL) < 0)
        rc = errno == EAGAIN ? EC_ERR_TIMEOUT : EC_ERR_SYSTEM;
    notify->is_deaf = rc == EC_ERR_TIMEOUT;
    close(socket_fd);
    return rc;
}
