/* contender_bus.c - publishers and subscribers as any game would write them; see contender_bus.h.
 *
 *   process A, first processor          process B, second processor
 *     publisher --- bench.there ----------> subscriber
 *     subscriber <-- bench.back ------------ publisher        (round trips only)
 *
 * B lives for all runs of the contender and is told by a pipe when a run begins. */
#include "bench/contender_bus.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <engine-core/publisher.h>
#include <engine-core/subscriber.h>

#include "bench/contender_shape.h"
#include "bench/harness.h"
#include "bench/system_calls.h"
#include "support/daemon.h"

#define THERE "bench.there"
#define BACK "bench.back"
#define READERS_MAX 8
#define WAIT_NS 1000000000
#define POLL_MAX 1024

static struct daemon_process daemon_; /* of this contender */

struct bus_end {
    const struct bus_bench *bench;
    struct ec_client *client;
    struct ec_publisher *publisher;
    struct ec_subscriber *subscriber;
    uint64_t out;  /* type that this end publishes */
    uint64_t last; /* value of the last payload read */
    uint64_t read; /* events */
};

/* ---- set-up ---------------------------------------------------------------------------------- */

/* Before any process of the contender is forked. No reader is demoted: the peers wait for theirs as
 * long as it takes, too, and on a busy machine a reader may be without a processor for long. */
static void daemon_begin(void)
{
    if (!daemon_start(&daemon_, (const char *const[]) { "--set", "event.stall_ms=60000", NULL }))
        bench_fail("%s", daemon_.why);
}

static void daemon_end(void)
{
    if (daemon_stop(&daemon_) != 0)
        bench_fail("the daemon ended badly");
}

static uint64_t register_type(struct bus_end *end, const char *name)
{
    const struct ec_event_field words = { .name = "words",
                                          .type = EC_FIELD_U64,
                                          .count = (uint32_t)(end->bench->bytes / 8),
                                          .bytes = (uint32_t)end->bench->bytes };
    char full[64];
    struct ec_error why = { 0 };
    uint64_t type;

    snprintf(full, sizeof full, "%s.%zu", name, end->bench->bytes);
    if (ec_event_type_register(
            end->client,
            &(struct ec_event_type_desc) {
                .name = full, .fields = &words, .field_count = 1, .bytes = words.bytes },
            &type, &why) < 0)
        bench_fail("%s", why.text);
    return type;
}

/* Connect; NULL for a direction that this end does not use. */
static void bus_open(struct bus_end *end, const struct bus_bench *bench, const char *out,
                     const char *in)
{
    struct ec_error why = { 0 };
    char full[64];

    *end = (struct bus_end) { .bench = bench };
    if (ec_client_create(
            &(struct ec_client_desc) { .name = "benchmark", .socket_path = daemon_.socket_path },
            &end->client, &why) < 0)
        bench_fail("%s", why.text);
    if (out != NULL) {
        end->out = register_type(end, out);
        if (ec_publisher_create(end->client, &(struct ec_publisher_desc) { .name = "bench" },
                                &end->publisher, &why) < 0)
            bench_fail("%s", why.text);
    }
    if (in != NULL) {
        register_type(end, in);
        snprintf(full, sizeof full, "%s.%zu", in, bench->bytes);
        if (ec_subscriber_create(end->client,
                                 &(struct ec_subscriber_desc) {
                                     .types = (const char *[]) { full },
                                     .type_count = 1,
                                     .foreign_only = out != NULL && strcmp(out, in) != 0 },
                                 &end->subscriber, &why) < 0)
            bench_fail("%s", why.text);
    }
}

static void bus_close(struct bus_end *end)
{
    ec_publisher_destroy(end->publisher);
    ec_subscriber_destroy(end->subscriber);
    ec_client_destroy(end->client);
}

static void *claim(struct bus_end *end)
{
    void *payload;
    int rc = ec_publisher_claim(end->publisher, end->out, end->bench->bytes, &payload);

    if (rc == EC_AGAIN)
        rc =
            ec_publisher_claim_wait(end->publisher, end->out, end->bench->bytes, WAIT_NS, &payload);
    if (rc != EC_OK)
        bench_fail("claim: %s", ec_error_text(rc));
    return payload;
}

/* Wait until the publisher knows this many readers, for whom it keeps what it publishes from then on.
 * A claim, which is never committed, is how the publishing thread gets to know of them. */
static void await_readers(struct bus_end *end, unsigned readers)
{
    struct ec_publisher_stats stats;
    int64_t begin = bench_ns();

    for (;;) {
        claim(end);
        ec_publisher_stats(end->publisher, &stats);
        if (stats.readers == readers)
            return;
        if (bench_ns() - begin > 10 * (int64_t)WAIT_NS)
            bench_fail("the publisher knows %u of %u readers", stats.readers, readers);
        usleep(100);
    }
}

static void publish(struct bus_end *end, uint64_t value)
{
    bench_fill(claim(end), value, end->bench->bytes);
    ec_publisher_commit(end->publisher);
}

static void publish_batches(struct bus_end *end, uint64_t first, unsigned count)
{
    unsigned batch = end->bench->batch;

    if (batch == 0) {
        for (unsigned i = 0; i < count; i++)
            publish(end, first + i);
        return;
    }
    for (unsigned i = 0; i < count;) {
        ec_publisher_batch_begin(end->publisher);
        for (unsigned j = 0; j < batch && i < count; j++, i++)
            publish(end, first + i);
        ec_publisher_batch_end(end->publisher);
    }
}

static void on_event(void *context, const struct ec_event *event)
{
    struct bus_end *end = context;
    uint64_t value = bench_read(event->payload, event->bytes);

    if (end->read != 0 && value != end->last + 1)
        bench_fail("event %llu after %llu", (unsigned long long)value,
                   (unsigned long long)end->last);
    end->last = value;
    end->read++;
}

/* Read until count events have come. */
static void read_events(struct bus_end *end, uint64_t count)
{
    uint64_t goal = end->read + count;

    while (end->read < goal) {
        uint64_t left = goal - end->read;

        if (ec_subscriber_poll(end->subscriber, on_event, end,
                               left < POLL_MAX ? (uint32_t)left : POLL_MAX) != 0)
            continue;
        if (end->bench->sleeping)
            ec_subscriber_wait(end->subscriber, WAIT_NS);
        else
            bench_relax();
    }
}

/* ---- publishing cost ------------------------------------------------------------------------- */

/* Reads as many events as each message says, and answers with the time that took. */
static void reader(struct bench_partner *parent, const void *context)
{
    const struct bus_bench *bench = context;
    struct bus_end end;
    uint64_t count;

    bench_pin(bench->readers > 1 ? BENCH_ANY_PROCESSOR : 1);
    bus_open(&end, bench, NULL, THERE);
    bench_partner_send(parent, 0); /* what is published from now on will be read */
    while (bench_partner_wait(parent, &count)) {
        long switches = bench_switches();
        int64_t begin;

        read_events(&end, 1);
        begin = bench_ns();
        read_events(&end, count - 1);
        bench_partner_send(parent, (uint64_t)(bench_ns() - begin));
        bench_partner_send(parent, (uint64_t)(bench_switches() - switches));
    }
    bus_close(&end);
}

struct readers {
    struct bench_partner partner[READERS_MAX];
    unsigned count;
};

static void readers_start(struct readers *readers, const struct bus_bench *bench)
{
    readers->count = bench->readers;
    for (unsigned i = 0; i < readers->count; i++)
        bench_partner_start(&readers->partner[i], reader, bench);
}

/* A publisher may know a reader before the reader's subscription has begun: both must have said so. */
static void readers_await(struct readers *readers, struct bus_end *end)
{
    uint64_t subscribed;

    for (unsigned i = 0; i < readers->count; i++)
        if (!bench_partner_wait(&readers->partner[i], &subscribed))
            bench_fail("a reader ended");
    await_readers(end, readers->count);
}

static void readers_end(struct readers *readers)
{
    for (unsigned i = 0; i < readers->count; i++)
        bench_partner_end(&readers->partner[i]);
}

static void readers_begin(const struct readers *readers, uint64_t count)
{
    for (unsigned i = 0; i < readers->count; i++)
        bench_partner_send(&readers->partner[i], count);
}

/* The longest time that a reader took; adds their lost processors to *switches. */
static uint64_t readers_wait(const struct readers *readers, long *switches)
{
    uint64_t longest = 0;

    for (unsigned i = 0; i < readers->count; i++) {
        uint64_t took = 0, lost = 0;

        if (!bench_partner_wait(&readers->partner[i], &took) ||
            !bench_partner_wait(&readers->partner[i], &lost))
            bench_fail("a reader ended");
        longest = took > longest ? took : longest;
        *switches += (long)lost;
    }
    return longest;
}

static void measure_publish(const struct bus_bench *bench, bool beside)
{
    struct readers readers;
    struct bus_end end;
    uint64_t value = 0;

    daemon_begin();
    readers_start(&readers, bench); /* before this process has threads */
    bench_pin(0);
    bus_open(&end, bench, THERE, NULL);
    readers_await(&readers, &end);
    bench_ready();
    while (bench_next()) {
        double ns[SHAPE_BURSTS];
        long switches = 0;

        for (unsigned i = 0; i < SHAPE_BURSTS; i++) {
            long before = bench_switches();
            int64_t begin;

            if (beside) {
                readers_begin(&readers, SHAPE_BURST);
                usleep(100); /* they get to their polling, or to their sleep */
            }
            begin = bench_ns();
            publish_batches(&end, value, SHAPE_BURST);
            ns[i] = (double)(bench_ns() - begin) / SHAPE_BURST;
            switches += bench_switches() - before;
            value += SHAPE_BURST;
            if (!beside)
                readers_begin(&readers, SHAPE_BURST);
            before = 0;
            readers_wait(&readers, &before); /* theirs do not touch what is timed here */
        }
        bench_answer(bench_median(ns, SHAPE_BURSTS), switches);
    }
    bus_close(&end);
    readers_end(&readers);
    daemon_end();
}

void bus_publish(const void *context)
{
    measure_publish(context, false);
}

void bus_publish_beside(const void *context)
{
    measure_publish(context, true);
}

/* ---- round trip ------------------------------------------------------------------------------ */

static void echo(struct bench_partner *parent, const void *context)
{
    const struct bus_bench *bench = context;
    struct bus_end end;
    uint64_t count;

    bench_pin(1);
    bus_open(&end, bench, BACK, THERE);
    await_readers(&end, 1); /* the other side's; its own is foreign_only */
    bench_partner_send(parent, 0);
    while (bench_partner_wait(parent, &count)) {
        long switches = bench_switches();

        for (uint64_t i = 0; i < count; i++) {
            read_events(&end, 1);
            publish(&end, end.last);
        }
        bench_partner_send(parent, (uint64_t)(bench_switches() - switches));
    }
    bus_close(&end);
}

void bus_round_trip(const void *context)
{
    const struct bus_bench *bench = context;
    unsigned blocks = bench->sleeping ? SHAPE_BLOCKS_SLEEPING : SHAPE_BLOCKS;
    struct bench_partner partner;
    struct bus_end end;
    uint64_t value = 0, answer;

    daemon_begin();
    bench_partner_start(&partner, echo, bench);
    bench_pin(0);
    bus_open(&end, bench, THERE, BACK);
    await_readers(&end, 1);
    if (!bench_partner_wait(&partner, &answer))
        bench_fail("the other process ended");
    bench_ready();
    while (bench_next()) {
        double ns[SHAPE_BLOCKS];
        long switches = bench_switches();

        bench_partner_send(&partner, (blocks + 1) * SHAPE_BLOCK);
        for (unsigned i = 0; i <= blocks; i++) {
            int64_t begin = bench_ns();

            for (unsigned j = 0; j < SHAPE_BLOCK; j++) {
                publish(&end, value++);
                read_events(&end, 1);
            }
            if (i > 0) /* the first block wakes the other process */
                ns[i - 1] = (double)(bench_ns() - begin) / SHAPE_BLOCK;
        }
        switches = bench_switches() - switches;
        if (!bench_partner_wait(&partner, &answer) || end.last != value - 1)
            bench_fail("the other process ended");
        bench_answer(bench_median(ns, blocks), switches + (long)answer);
    }
    bus_close(&end);
    bench_partner_end(&partner);
    daemon_end();
}

/* ---- throughput ------------------------------------------------------------------------------ */

void bus_throughput(const void *context)
{
    const struct bus_bench *bench = context;
    struct readers readers;
    struct bus_end end;
    uint64_t value = 0;

    daemon_begin();
    readers_start(&readers, bench);
    bench_pin(bench->readers > 1 ? BENCH_ANY_PROCESSOR : 0);
    bus_open(&end, bench, THERE, NULL);
    readers_await(&readers, &end);
    bench_ready();
    while (bench_next()) {
        long switches = bench_switches();
        uint64_t longest_ns;

        readers_begin(&readers, SHAPE_THROUGHPUT);
        publish_batches(&end, value, SHAPE_THROUGHPUT);
        value += SHAPE_THROUGHPUT;
        switches = bench_switches() - switches;
        longest_ns = readers_wait(&readers, &switches);
        bench_answer((double)SHAPE_THROUGHPUT * bench->readers * 1000 / (double)longest_ns,
                     switches);
    }
    bus_close(&end);
    readers_end(&readers);
    daemon_end();
}

/* ---- system calls, wake-ups, death ------------------------------------------------------------ */

#define CALLS_EVENTS 1000000u
#define CALLS_BURST 1024u

/* Publish and read alternately within one thread: neither ever waits. */
static void publish_and_read(void *context)
{
    struct bus_end *end = context;

    for (unsigned i = 0; i < CALLS_EVENTS; i += CALLS_BURST) {
        publish_batches(end, i, CALLS_BURST);
        read_events(end, CALLS_BURST);
    }
}

void bus_system_calls(const void *context)
{
    struct bus_end end;

    daemon_begin();
    bench_pin(0);
    bus_open(&end, context, THERE, THERE);
    await_readers(&end, 1);
    publish_batches(&end, UINT64_MAX - CALLS_BURST + 1, CALLS_BURST); /* learn types, touch pages */
    read_events(&end, CALLS_BURST);
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
    daemon_end();
}

#define IDLE_S 10

void bus_idle_wakes(const void *context)
{
    struct bus_end end;

    daemon_begin();
    bus_open(&end, context, NULL, THERE);
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
    daemon_end();
}

static void victim(struct bench_partner *parent, const void *context)
{
    struct bus_end end;
    uint64_t never;

    bench_pin(1);
    bus_open(&end, context, NULL, THERE);
    bench_partner_wait(parent, &never);
}

/* us from SIGKILL of the reader until the publisher has let go of its cursor. */
static double release_us(const struct bus_bench *bench, pid_t reader)
{
    struct ec_publisher_stats stats;
    struct bus_end end;
    int64_t begin, took;

    bus_open(&end, bench, THERE, NULL);
    await_readers(&end, 1);
    begin = bench_ns();
    kill(reader, SIGKILL);
    do {
        claim(&end);
        ec_publisher_stats(end.publisher, &stats);
        took = bench_ns() - begin;
    } while (stats.readers != 0 && took < 10 * (int64_t)WAIT_NS);
    if (stats.readers != 0)
        bench_fail("a dead reader is still there after 10 s");
    bus_close(&end);
    return (double)took / 1000;
}

void bus_dead_reader(const void *context)
{
    daemon_begin();
    bench_pin(0);
    bench_ready();
    while (bench_next()) {
        struct bench_partner dying;
        double took_us;

        bench_partner_start(&dying, victim, context); /* no client, so no thread exists here now */
        took_us = release_us(context, dying.pid);
        bench_partner_end(&dying);
        bench_answer(took_us, 0);
    }
    daemon_end();
}
