/* contender_life.c - what the bus does not cost, and what happens when somebody dies; see contender_bus.h. */
#include "bench/contender_bus.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "bench/bus_end.h"
#include "bench/bus_recorder.h"
#include "bench/harness.h"
#include "bench/system_calls.h"

/* ---- system calls, wake-ups, death ------------------------------------------------------------ */

#define CALLS_EVENTS 1000000u
#define CALLS_BURST 1024u

/* Publish and read alternately within one thread: neither ever waits. */
static void publish_and_read(void *context)
{
    struct bus_end *end = context;

    for (unsigned i = 0; i < CALLS_EVENTS; i += CALLS_BURST) {
        bus_publish_many(end, i, CALLS_BURST);
        bus_read(end, CALLS_BURST);
    }
}

void bus_system_calls(const void *context)
{
    struct bus_end end;

    bus_daemon_begin();
    bench_pin(0);
    bus_open(&end, context, BUS_THERE, BUS_THERE);
    bus_await_readers(&end, 1);
    bus_publish_many(&end, UINT64_MAX - CALLS_BURST + 1,
                     CALLS_BURST); /* learn types, touch pages */
    bus_read(&end, CALLS_BURST);
    bench_ready();
    while (bench_next()) {
        long calls;

        end.read = 0;
        calls = count_system_calls(publish_and_read, &end);
        if (calls < 0)
            bench_fail("system calls cannot be counted here: %s", strerror(errno));
        bench_answer((double)calls, 0);
    }
    bus_close(&end);
    bus_daemon_end();
}

#define IDLE_S 10

void bus_idle_wakes(const void *context)
{
    struct bus_end end;

    bus_daemon_begin();
    bus_open(&end, context, NULL, BUS_THERE);
    bench_ready();
    while (bench_next()) {
        long bare = count_wakes(), before;

        poll(NULL, 0, 10); /* what one time-out counts for; some kernels count it twice */
        before = count_wakes();
        bare = before - bare;
        ec_subscriber_wait(end.subscriber, (int64_t)IDLE_S * 1000000000);
        bench_answer((double)(count_wakes() - before - bare), 0);
    }
    bus_close(&end);
    bus_daemon_end();
}

static void victim(struct bench_partner *parent, const void *context)
{
    struct bus_end end;
    uint64_t never;

    bench_pin(1);
    bus_open(&end, context, NULL, BUS_THERE);
    bench_partner_wait(parent, &never);
}

/* us from SIGKILL of the reader until the publisher has let go of its cursor. */
static double release_us(const struct bus_bench *bench, pid_t reader)
{
    struct ec_publisher_stats stats;
    struct bus_end end;
    int64_t begin, took;

    bench_pin(
        BENCH_ANY_PROCESSOR); /* its service thread need not share the processor with the loop below */
    bus_open(&end, bench, BUS_THERE, NULL);
    bench_pin(0);
    bus_await_readers(&end, 1);
    begin = bench_ns();
    kill(reader, SIGKILL);
    do {
        bus_claim(&end);
        ec_publisher_stats(end.publisher, &stats);
        took = bench_ns() - begin;
    } while (stats.readers != 0 && took < 10 * (int64_t)BUS_WAIT_NS);
    if (stats.readers != 0)
        bench_fail("a dead reader is still there after 10 s");
    bus_close(&end);
    return (double)took / 1000;
}

void bus_dead_reader(const void *context)
{
    bus_daemon_begin();
    bench_ready();
    while (bench_next()) {
        struct bench_partner dying;
        double took_us;

        bench_partner_start(&dying, victim, context); /* no client, so no thread exists here now */
        took_us = release_us(context, dying.pid);
        bench_partner_end(&dying);
        bench_answer(took_us, 0);
    }
    bus_daemon_end();
}

/* ---- without a daemon ------------------------------------------------------------------------ */

#define BEFORE_NS 2000000000
#define AFTER_NS 5000000000
#define LOST_NS 1000000000
#define CHUNK 4096u
#define QUIET_NS 2000000000 /* nothing more comes when nothing came for so long */

static void count_event(void *context, const struct ec_event *event)
{
    struct bus_end *end = context;

    end->last = bench_read(event->payload, event->bytes);
    end->read++;
}

/* Reads until it is told how many there were, and then the rest; answers how many came. */
static void survivor(struct bench_partner *parent, const void *context)
{
    struct pollfd told = { .fd = parent->from, .events = POLLIN };
    struct bus_end end;
    uint64_t total = UINT64_MAX;
    int64_t last_ns = 0;

    bench_pin(1);
    bus_open(&end, context, NULL, BUS_THERE);
    bench_partner_send(parent, 0);
    for (unsigned turn = 0; end.read < total; turn++) {
        if (ec_subscriber_poll(end.subscriber, count_event, &end, CHUNK) > 0)
            last_ns = bench_ns();
        else if (total != UINT64_MAX && bench_ns() - last_ns > QUIET_NS)
            break;
        if (total == UINT64_MAX && turn % 64 == 0 && poll(&told, 1, 0) == 1) {
            if (!bench_partner_wait(parent, &total))
                return;
            last_ns = bench_ns();
        }
    }
    bench_partner_send(parent, end.read);
    bus_close(&end);
}

/* Publishes for so long; returns events a second. */
static double publish_for(struct bus_end *end, int64_t duration_ns, uint64_t *value)
{
    const uint64_t first = *value;
    const int64_t begin = bench_ns();
    int64_t now = begin;

    while (now - begin < duration_ns) {
        bus_publish_many(end, *value, CHUNK);
        *value += CHUNK;
        now = bench_ns();
    }
    return (double)(*value - first) * 1e9 / (double)(now - begin);
}

/* Events a second after the daemon's death by those before; *lost did not come to the reader. */
static double outlive_daemon(const struct bus_bench *bench, int64_t before_ns, int64_t after_ns,
                             uint64_t *lost)
{
    struct bench_partner reader;
    struct bus_end end;
    uint64_t published = 0, read = 0;
    double before, after;

    bus_daemon_begin();
    bench_partner_start(&reader, survivor, bench);
    bus_open(&end, bench, BUS_THERE, NULL);
    if (!bench_partner_wait(&reader, &read))
        bench_fail("the reader ended");
    bus_await_readers(&end, 1);
    before = publish_for(&end, before_ns, &published);
    daemon_kill(&bus_daemon);
    after = publish_for(&end, after_ns, &published);
    bench_partner_send(&reader, published);
    if (!bench_partner_wait(&reader, &read))
        bench_fail("the reader ended");
    bench_partner_end(&reader);
    bus_close(&end);
    *lost = published - read;
    return after / before;
}

void bus_daemon_killed(const void *context)
{
    uint64_t lost;

    bench_pin(0);
    bench_ready();
    while (bench_next())
        bench_answer(outlive_daemon(context, BEFORE_NS, AFTER_NS, &lost), 0);
}

void bus_daemon_killed_lost(const void *context)
{
    uint64_t lost;

    bench_pin(0);
    bench_ready();
    while (bench_next()) {
        outlive_daemon(context, LOST_NS, LOST_NS, &lost);
        bench_answer((double)lost, 0);
    }
}

/* ---- recording ------------------------------------------------------------------------------- */

#define RECORD_NS 500000000

void bus_record_rate(const void *context)
{
    bench_ready();
    while (bench_next()) {
        struct bus_end end;
        uint64_t value = 0, bytes;
        pid_t recorder;
        int64_t begin;

        bus_daemon_begin();
        recorder = bus_recorder_start(); /* no client, so no thread exists here now */
        bench_pin(0);
        bus_open(&end, context, BUS_THERE, NULL);
        bus_await_readers(&end, 1);
        begin = bench_ns();
        publish_for(&end, RECORD_NS, &value);
        bytes = bus_recorder_stop(recorder);
        bench_answer((double)bytes * 1e3 / (double)(bench_ns() - begin), 0);
        bus_close(&end);
        bus_daemon_end();
        bench_pin(BENCH_ANY_PROCESSOR);
    }
}
