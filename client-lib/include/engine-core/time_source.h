/* engine-core/time_source.h - where time comes from: the system's clock, or one that a test turns.
 *
 * Whoever needs the time, or sleeps until one, does it through such a table, so that a test can put
 * another in its place: thirty days pass in a moment then, always in the same way.
 *
 *     static int64_t now_ns(void *context) { return ((struct my_time *)context)->now_ns; }
 *     static void sleep_until(void *context, int64_t ns) { ((struct my_time *)context)->now_ns = ns; }
 *
 * Thread: any; the functions of a source must allow for all threads that it is given to. */
#ifndef ENGINE_CORE_TIME_SOURCE_H
#define ENGINE_CORE_TIME_SOURCE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ec_time_source {
    /* CLOCK_MONOTONIC, ns: never goes back. */
    int64_t (*now_ns)(void *context);
    /* Return at that time or earlier, never without end. INT64_MAX: nothing is due. */
    void (*sleep_until)(void *context, int64_t deadline_ns);
    void *context;
};

#ifdef __cplusplus
}
#endif
#endif
