/* foundation/real_time.h - real time, CLOCK_MONOTONIC, and the wall clock, both in ns. Thread: any.
 * Cost: no system call. */
#ifndef EC_FOUNDATION_REAL_TIME_H
#define EC_FOUNDATION_REAL_TIME_H

#include <stdint.h>
#include <time.h>

#define EC_NS_PER_S INT64_C(1000000000)

static inline int64_t ec_real_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * EC_NS_PER_S + now.tv_nsec;
}

/* Since 1970; it jumps when it is set. */
static inline int64_t ec_wall_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * EC_NS_PER_S + now.tv_nsec;
}

/* When so much time has passed after now_ns; below 0: never, which INT64_MAX says. */
static inline int64_t ec_deadline_ns(int64_t now_ns, int64_t timeout_ns)
{
    return timeout_ns < 0 || timeout_ns > INT64_MAX - now_ns ? INT64_MAX : now_ns + timeout_ns;
}

#endif
