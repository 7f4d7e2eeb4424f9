/* A signalfd that is never read, so that it stays readable; see stop_signal.h. */
#include "engine-ctl/stop_signal.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <time.h>

int stop_signal_open(void)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    if (sigprocmask(SIG_BLOCK, &signals, NULL) < 0)
        return -1;
    return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

bool stop_signal_wait(int stop, int other_fd, int64_t ns)
{
    struct pollfd readable[] = { { .fd = stop, .events = POLLIN },
                                 { .fd = other_fd, .events = POLLIN } };
    struct timespec timeout = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

    return ppoll(readable, 2, &timeout, NULL) > 0 && readable[0].revents != 0;
}
