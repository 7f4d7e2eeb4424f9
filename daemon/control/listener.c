#include "control/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/log.h"
#include "proto/line.h"

#define BACKLOG 128
#define ACCEPTS_PER_WAKE 64 /* so that a storm of connects does not starve the others */
#define RETRY_MS 100        /* until the next try when there is no descriptor at all */

static int take_over(struct listener *listener, int fd, struct ec_error *why);
static int lock(struct listener *listener, struct ec_error *why);
static int remove_stale(const char *path, struct ec_error *why);
static int bind_path(struct listener *listener, struct ec_error *why);
static void remove_own(const char *path, dev_t device, ino_t inode);
static void on_poll(uv_poll_t *poll, int status, int events);
static int turn_one_away(struct listener *listener);
static void on_retry(uv_timer_t *timer);
static int open_spare(void);

int listener_init(struct listener *listener, const char *path, int passed_fd, struct ec_error *why)
{
    int rc;

    *listener = (struct listener) { .fd = -1, .lock_fd = -1, .spare_fd = open_spare() };
    if (passed_fd >= 0)
        return take_over(listener, passed_fd, why);
    if (strlen(path) > EC_SOCKET_PATH_BYTES)
        return ec_fail(why, EC_ERR_PARAM, "socket path has %zu bytes, allowed are %d: %s",
                       strlen(path), EC_SOCKET_PATH_BYTES, path);
    memcpy(listener->path, path, strlen(path) + 1);
    rc = lock(listener, why);
    if (rc == EC_OK)
        rc = remove_stale(listener->path, why);
    if (rc == EC_OK)
        rc = bind_path(listener, why);
    return rc;
}

int listener_start(struct listener *listener, uv_loop_t *loop,
                   void (*accepted)(void *context, int socket_fd), void *context,
                   struct ec_error *why)
{
    int rc = uv_poll_init(loop, &listener->poll, listener->fd);

    if (rc < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "watch the listening socket: %s", uv_strerror(rc));
    uv_timer_init(loop, &listener->retry);
    listener->accepted = accepted;
    listener->context = context;
    listener->poll.data = listener->retry.data = listener;
    listener->has_handles = true;
    uv_poll_start(&listener->poll, UV_READABLE, on_poll);
    return EC_OK;
}

static void on_closed(uv_handle_t *handle)
{
    struct listener *listener = handle->data;

    listener->closing--;
}

void listener_finish(struct listener *listener)
{
    char lock_path[sizeof listener->path + 8];
    struct stat st;

    if (listener->has_handles) {
        listener->has_handles = false;
        listener->closing = 2;
        uv_close((uv_handle_t *)&listener->poll, on_closed);
        uv_close((uv_handle_t *)&listener->retry, on_closed);
    }
    if (listener->fd >= 0)
        close(listener->fd);
    if (listener->spare_fd >= 0)
        close(listener->spare_fd);
    if (listener->inode != 0)
        remove_own(listener->path, listener->device, listener->inode);
    if (listener->lock_fd >= 0) {
        /* Removed while it is held; who waits for it looks whether it is still there (lock()). */
        snprintf(lock_path, sizeof lock_path, "%s.lock", listener->path);
        if (fstat(listener->lock_fd, &st) == 0)
            remove_own(lock_path, st.st_dev, st.st_ino);
        close(listener->lock_fd);
    }
    listener->fd = listener->spare_fd = listener->lock_fd = -1;
    listener->inode = 0;
}

/* Somebody may have removed our file, and another daemon may have made its own there. */
static void remove_own(const char *path, dev_t device, ino_t inode)
{
    struct stat st;

    if (lstat(path, &st) == 0 && st.st_dev == device && st.st_ino == inode)
        unlink(path);
}

static int take_over(struct listener *listener, int fd, struct ec_error *why)
{
    listener->fd = fd;
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "passed socket: %s", strerror(errno));
    return EC_OK;
}

/* Hold PATH.lock, so that of two daemons that start at once only one looks at the socket file. */
static int lock(struct listener *listener, struct ec_error *why)
{
    char path[sizeof listener->path + 8];
    struct stat opened, present;

    snprintf(path, sizeof path, "%s.lock", listener->path);
    for (;;) {
        const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

        if (fd < 0)
            return ec_fail(why, EC_ERR_SYSTEM, "%s: %s", path, strerror(errno));
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
            const int reason = errno;

            close(fd);
            if (reason == EWOULDBLOCK)
                return ec_fail(why, EC_ERR_STATE, "another engine-cored is running on %s",
                               listener->path);
            return ec_fail(why, EC_ERR_SYSTEM, "lock %s: %s", path, strerror(reason));
        }
        /* A daemon that ended in between has removed the file that we opened: try the new one. */
        if (fstat(fd, &opened) == 0 && stat(path, &present) == 0 &&
            opened.st_dev == present.st_dev && opened.st_ino == present.st_ino) {
            listener->lock_fd = fd;
            return EC_OK;
        }
        close(fd);
    }
}

/* What is at the path must be nothing, or a socket that nobody listens to: that one is removed. */
static int remove_stale(const char *path, struct ec_error *why)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct stat st;
    int fd, rc, reason;

    if (lstat(path, &st) < 0)
        return errno == ENOENT ? EC_OK
                               : ec_fail(why, EC_ERR_SYSTEM, "%s: %s", path, strerror(errno));
    if (!S_ISSOCK(st.st_mode))
        return ec_fail(why, EC_ERR_STATE, "%s exists and is not a socket", path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "socket: %s", strerror(errno));
    memcpy(address.sun_path, path, strlen(path) + 1);
    rc = connect(fd, (const struct sockaddr *)&address, sizeof address);
    reason = errno;
    close(fd);
    if (rc == 0 || reason == EAGAIN) /* EAGAIN: it listens and its backlog is full */
        return ec_fail(why, EC_ERR_STATE, "somebody else listens on %s", path);
    if (reason != ECONNREFUSED)
        return ec_fail(why, EC_ERR_SYSTEM, "%s: %s", path, strerror(reason));
    if (unlink(path) < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "remove the stale socket %s: %s", path, strerror(errno));
    log_info("control", "the stale socket %s was replaced", path);
    return EC_OK;
}

static int bind_path(struct listener *listener, struct ec_error *why)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct stat st;
    mode_t before;
    int rc;

    memcpy(address.sun_path, listener->path, strlen(listener->path) + 1);
    listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener->fd < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "socket: %s", strerror(errno));
    before = umask(0177); /* never open to others, not even for a moment */
    rc = bind(listener->fd, (const struct sockaddr *)&address, sizeof address);
    umask(before);
    if (rc < 0 || listen(listener->fd, BACKLOG) < 0 || lstat(listener->path, &st) < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "listen on %s: %s", listener->path, strerror(errno));
    listener->device = st.st_dev;
    listener->inode = st.st_ino;
    return EC_OK;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct listener *listener = poll->data;

    (void)status;
    (void)events;
    if (listener->spare_fd < 0) /* it was lost; there may be one now */
        listener->spare_fd = open_spare();
    for (unsigned i = 0; i < ACCEPTS_PER_WAKE; i++) {
        const int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd >= 0) {
            listener->accepted(listener->context, fd);
            continue;
        }
        if (errno == ECONNABORTED || errno == EINTR)
            continue;
        if (errno != EMFILE && errno != ENFILE)
            return;
        switch (turn_one_away(listener)) {
        case EC_OK:
            continue;
        case EC_ERR_LIMIT: /* who waits stays in the backlog, which would wake the loop for ever */
            uv_poll_stop(&listener->poll);
            uv_timer_start(&listener->retry, on_retry, RETRY_MS, 0);
            return;
        default:
            return;
        }
    }
}

/* Without a descriptor nobody can be accepted, and accept4() says so also when nobody waits: take the
 * next one with the spare descriptor and hang up. EC_OK, EC_AGAIN (nobody waits), or EC_ERR_LIMIT:
 * another thread has taken the place of the spare one. */
static int turn_one_away(struct listener *listener)
{
    int fd, reason;

    if (listener->spare_fd < 0)
        return EC_ERR_LIMIT;
    close(listener->spare_fd);
    fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
    reason = errno;
    if (fd >= 0)
        close(fd);
    listener->spare_fd = open_spare();
    if (fd < 0)
        return reason == EMFILE || reason == ENFILE ? EC_ERR_LIMIT : EC_AGAIN;
    log_warning("control", "a connection was refused: no descriptor is left");
    return EC_OK;
}

static void on_retry(uv_timer_t *timer)
{
    struct listener *listener = timer->data;

    uv_poll_start(&listener->poll, UV_READABLE, on_poll);
}

static int open_spare(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}
