/* bench/contender_bus.h - what the event bus itself is measured by: real processes, a real daemon, the
 * installed headers.
 *
 * Each function is a contender's run (see harness.h); context is a struct bus_bench. A contender runs a
 * daemon of its own, so that two of them never read one another. */
#ifndef EC_BENCH_CONTENDER_BUS_H
#define EC_BENCH_CONTENDER_BUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bus_bench {
    size_t bytes;     /* of a payload */
    unsigned readers; /* subscribers in processes of their own */
    unsigned batch;   /* events per batch; 0: each is committed alone */
    bool sleeping;    /* readers sleep in ec_subscriber_wait when there is nothing */
    uint32_t spin_ns; /* for so long they may spin before that */
    bool in_loop;     /* they sleep in a loop of libuv instead */
    bool lossy;       /* nobody waits for them; they validate what they read */
    bool stamp_each;  /* each event has a stamp of its own, not each batch */
    bool recorded;    /* engine-ctl record is one more reader */
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
/* Events a second in the 5 s after SIGKILL of the daemon, by those in the 2 s before. */
void bus_daemon_killed(const void *context);
/* Events that a reliable reader did not get of those that were published then, in a second. */
void bus_daemon_killed_lost(const void *context);
/* MB a second that engine-ctl record writes while more than that is published. */
void bus_record_rate(const void *context);

#endif
