/* bench/bus_end.h - one end of the event bus as any game would write it: a client with a publisher, a
 * subscriber or both, over a daemon of the contender's own.
 *
 * Thread: one. Whatever goes wrong ends the process by bench_fail. */
#ifndef EC_BENCH_BUS_END_H
#define EC_BENCH_BUS_END_H

#include <uv.h>

#include <engine-core/publisher.h>
#include <engine-core/subscriber.h>

#include "bench/contender_bus.h"
#include "support/daemon.h"

#define BUS_THERE "bench.there"
#define BUS_BACK "bench.back"
#define BUS_WAIT_NS 1000000000

struct bus_end {
    const struct bus_bench *bench;
    struct ec_client *client;
    struct ec_publisher *publisher;
    struct ec_subscriber *subscriber;
    uint64_t out;   /* type that this end publishes */
    uint64_t last;  /* value of the last payload read */
    uint64_t read;  /* events */
    uv_loop_t loop; /* of bench->in_loop */
    uv_poll_t bell;
};

/* The daemon of this contender, before any of its processes is forked; no reader is demoted, because the
 * peers wait for theirs as long as it takes, too. */
extern struct daemon_process bus_daemon;
void bus_daemon_begin(void);
void bus_daemon_end(void);

/* Connect; NULL for a direction that this end does not use. */
void bus_open(struct bus_end *end, const struct bus_bench *bench, const char *out, const char *in);
void bus_close(struct bus_end *end);

/* Room for one event, waited for as long as it takes. */
void *bus_claim(struct bus_end *end);
void bus_publish_one(struct bus_end *end, uint64_t value);
/* Events first, first + 1, … in batches of bench->batch. */
void bus_publish_many(struct bus_end *end, uint64_t first, unsigned count);

/* Wait until the publisher knows this many readers, for whom it keeps what it publishes from then on. */
void bus_await_readers(struct bus_end *end, unsigned readers);

/* Read until count events have come, each one more than the one before. */
void bus_read(struct bus_end *end, uint64_t count);

#endif
