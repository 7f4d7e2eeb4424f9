/* bench/contender_wake.h - processes that wake for the steps of a clock, and how late they are.
 *
 * Each run starts `processes` of them, lets them wake `wakes` times and answers a percentile of the
 * lateness in us: of all wakes, or of the last process of each wake. */
#ifndef EC_BENCH_CONTENDER_WAKE_H
#define EC_BENCH_CONTENDER_WAKE_H

#include <stdbool.h>
#include <stdint.h>

enum wake_kind {
    WAKE_STEP,    /* ec_step_wait on a clock of the daemon, on real time */
    WAKE_MEMBER,  /* the same as members of its group, all in one phase */
    WAKE_SPREAD,  /* each with a phase of its own */
    WAKE_SLEEPER, /* clock_nanosleep to the same deadlines, without a daemon */
    WAKE_CYCLICTEST,
};

struct wake_shape {
    enum wake_kind kind;
    unsigned processes; /* up to 16 */
    unsigned hz;
    unsigned wakes;   /* up to 1024 */
    int64_t work_ns;  /* processor time that each spends after a wake */
    bool fifo;        /* processes run with SCHED_FIFO */
    unsigned spin_us; /* the scheduler stays awake so long before each step */
    bool last;        /* measure the last process of each wake */
    double percentile;
};

/* For struct bench_contender: context is a struct wake_shape. */
void contender_wake(const void *context);

#endif
