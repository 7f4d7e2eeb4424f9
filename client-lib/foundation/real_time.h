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

#endif
