/* notify.h - tell the service manager how the daemon is.
 *
 * sd_notify() waits for as long as the manager does not read, and the loop with it. Here a message waits
 * at most wait_ms; after one that was lost for it no other waits, until the manager reads again.
 *
 *     struct notify notify = { .wait_ms = NOTIFY_WAIT_MS };
 *
 *     notify_send(&notify, "READY=1\nSTATUS=Listening on %s", path);
 *
 * Without $NOTIFY_SOCKET, or with NULL for notify, nothing is sent and nothing fails.
 *
 * Thread: loop. Cost: a socket and one message. */
#ifndef ENGINE_CORED_NOTIFY_H
#define ENGINE_CORED_NOTIFY_H

#include <stdbool.h>

#define NOTIFY_WAIT_MS 2000 /* a manager that takes longer has other troubles */

struct notify {
    int wait_ms;
    bool is_deaf; /* the last message was lost: the manager does not read */
};

/* One message of lines KEY=VALUE, cut at its end where it is longer than any of ours.
 * Returns EC_OK, EC_ERR_TIMEOUT (nobody reads) or EC_ERR_SYSTEM (errno says why). */
int notify_send(struct notify *notify, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The manager gets a duplicate of fd with it. */
int notify_send_fd(struct notify *notify, int fd, const char *text);

/* Wait until the manager has read all that was sent so far. Returns EC_OK or as above. */
int notify_barrier(struct notify *notify);

#endif
