/* scheduler_private.h - the scheduler as its own files see it. */
#ifndef ENGINE_CORED_SCHEDULER_PRIVATE_H
#define ENGINE_CORED_SCHEDULER_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "scheduler/alarms.h"
#include "scheduler/mailbox.h"
#include "scheduler/rights.h"
#include "scheduler/scheduler.h"
#include "scheduler/sleeper.h"
#include "scheduler/turn.h"

struct desk;

struct scheduler {
    struct ec_clock_page *page;
    struct scheduler_state state; /* the thread's own, except counts and histograms */
    struct mailbox mailbox;
    struct alarms alarms;
    struct sleeper sleeper;
    struct rights rights; /* written by the thread before running */
    int priority;         /* asked for */
    int news_fd;          /* eventfd: reports, alarms or counts for the main loop */

    pthread_t thread;
    bool started;
    _Atomic uint32_t running; /* futex: 1 when the thread has its rights */
    _Atomic bool stopping;

    _Atomic uint32_t breaker_change; /* raised by the main loop */
    _Atomic bool halve;

    struct desk *desk; /* NULL without the rest of the daemon */
};

#endif
