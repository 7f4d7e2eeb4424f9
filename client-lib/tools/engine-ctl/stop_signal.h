/* stop_signal.h - SIGINT and SIGTERM as something to wait for: a verb that runs long ends in good order.
 *
 *     stop = stop_signal_open();           // before any thread is started
 *     while (!stop_signal_wait(stop, -1, ns)) // true: asked to stop
 *         …
 *
 * Thread: one. */
#ifndef ENGINE_CTL_STOP_SIGNAL_H
#define ENGINE_CTL_STOP_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>

/* Block both signals in this thread and those that it starts. A descriptor, or -1 with errno. */
int stop_signal_open(void);

/* Sleep for so long, or until asked to stop or until other_fd (-1: none) is readable. Once asked, it is
 * true for ever. */
bool stop_signal_wait(int stop, int other_fd, int64_t ns);

#endif
