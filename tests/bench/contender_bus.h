/* bench/contender_bus.h - what the event bus itself is measured by: real processes, a real daemon, the
 * installed headers.
 *
 * Each function is a contender's run (see harness.h); context is a struct bus_bench. A contender runs a
 * daemon of its own, so that two of them never read one another. */
#ifndef EC_BENCH_CONTENDER_BUS_H
#define EC_BENCH_CONTENDER_BUS_H

#include <stdbool.h>
#include <stddef.h>

struct bus_bench {
    size_t bytes;     /* of a payload */
    unsigned readers; /* subscribers in processes of their own */
    unsigned batch;   /* events per batch; 0: each is committed alone */
    bool sleeping;    /* readers sleep in ec_subscriber_wait when there is nothing */
};

/* ns to fill and commit one event, while the readers are parked awake: bursts of 128, median. */
void bus_publish(const void *context);
/* The same while each reader reads at the same time, asleep or awake. */
void bus_publish_beside(const void *context);
/* ns from publishing an event to having read its answer from the other process: blocks of 16, median. */
void bus_round_trip(const void *context);
/* Million deliveries a second. */
void bus_throughput(const void *context);
/* System calls of a million publishes and of a million reads that need not sleep. */
void bus_system_calls(const void *context);
/* Times that the threads of a subscribed process woke in 10 s without events. */
void bus_idle_wakes(const void *context);
/* us from SIGKILL of a reader until the publisher no longer counts it. */
void bus_dead_reader(const void *context);

#endif
