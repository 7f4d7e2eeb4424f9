/* watch.c - see watch.h. */
#include "engine-ctl/watch.h"

#include <errno.h>
#include <time.h>

#include "engine-ctl/verb.h"

int watch_show(struct ctl *ctl, const char *verb, const char *seconds, watch_show_fn *show,
               void *context)
{
    long long interval_s = 1;
    struct timespec next;
    int rc;

    if (seconds == NULL)
        return show(ctl, context);
    if (seconds[0] != '\0' && !verb_number(seconds, 1, WATCH_S_MAX, &interval_s))
        return ctl_fail(EXIT_USAGE, "%s: --watch is \"%s\", expected seconds, 1..%d", verb, seconds,
                        WATCH_S_MAX);
    clock_gettime(CLOCK_MONOTONIC, &next);
    do {
        rc = show(ctl, context);
        next.tv_sec += interval_s;
        while (rc == EXIT_DONE &&
               clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) == EINTR)
            continue;
    } while (rc == EXIT_DONE);
    return rc;
}
