/* listener.h - the listening socket and its file.
 *
 * Made by the service manager and passed, or bound here: under umask 0177, guarded by a lock file
 * beside it (PATH.lock). A socket file that nobody listens to any more is replaced; one that answers
 * is never stolen. At the end the file is removed if it is still ours.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_CONTROL_LISTENER_H
#define ENGINE_CORED_CONTROL_LISTENER_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "foundation/error.h"

struct listener {
    int fd;
    int lock_fd;  /* -1: passed by the service manager */
    int spare_fd; /* given up for a moment when the process has no descriptor left */
    char path[108];
    dev_t device; /* of the socket file, to know it again */
    ino_t inode;
    void (*accepted)(void *context, int socket_fd); /* owns the descriptor */
    void *context;
    uv_poll_t poll;
    uv_timer_t retry; /* runs while not even the spare descriptor can be had */
    bool has_handles; /* poll and retry */
    unsigned closing; /* handles that the loop has not let go of */
};

/* passed_fd: a listening socket that is taken over, or -1 to bind path.
 *
 * Returns EC_OK, EC_ERR_PARAM (path too long), EC_ERR_STATE (somebody listens there, or it is no
 * socket), EC_ERR_SYSTEM. */
int listener_init(struct listener *listener, const char *path, int passed_fd, struct ec_error *why);
/* Accept from now on: close-on-exec, non-blocking. */
int listener_start(struct listener *listener, uv_loop_t *loop,
                   void (*accepted)(void *context, int socket_fd), void *context,
                   struct ec_error *why);
/* Accepts a half-built one. The loop has let go of it when closing is 0 again. */
void listener_finish(struct listener *listener);

#endif
