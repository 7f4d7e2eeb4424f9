/* contender_bus.c - what publishing, a round trip and a stream cost; see contender_bus.h.
 *
 *   process A, first processor          process B, second processor
 *     publisher --- bench.there ----------> subscriber
 *     subscriber <-- bench.back ------------ publisher        (round trips only)
 *
 * B lives for all runs of the contender and is told by a pipe when a run begins. */
#include "bench/contender_bus.h"

#include <unistd.h>

#include "bench/bus_end.h"
#include "bench/bus_recorder.h"
#include "bench/contender_shape.h"
#include "bench/harness.h"

#define READERS_MAX 8

/* ---- publishing cost ------------------------------------------------------------------------- */

/* Reads as many events as each message says, and answers with the time that took. */
static void reader(struct bench_partner *parent, const void *context)
{
    const struct bus_bench *bench = context;
    struct bus_end end;
    uint64_t count;

    bench_pin(bench->readers > 1 ? BENCH_ANY_PROCESSOR : 1);
    bus_open(&end, bench, NULL, BUS_THERE);
    bench_partner_send(parent, 0); /* what is published from now on will be read */
    while (bench_partner_wait(parent, &count)) {
        long switches = bench_switches();
        int64_t begin;

        bus_read(&end, 1);
        begin = bench_ns();
        bus_read(&end, count - 1);
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
    bus_await_readers(end, readers->count + end->bench->recorded);
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
    pid_t recorder = 0;

    bus_daemon_begin();
    readers_start(&readers, bench); /* before this process has threads */
    if (bench->recorded)
        recorder = bus_recorder_start();
    bench_pin(0);
    bus_open(&end, bench, BUS_THERE, NULL);
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
            bus_publish_many(&end, value, SHAPE_BURST);
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
    if (bench->recorded)
        bus_recorder_stop(recorder);
    bus_close(&end);
    readers_end(&readers);
    bus_daemon_end();
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
    bus_open(&end, bench, BUS_BACK, BUS_THERE);
    bus_await_readers(&end, 1); /* the other side's; its own is foreign_only */
    bench_partner_send(parent, 0);
    while (bench_partner_wait(parent, &count)) {
        long switches = bench_switches();

        for (uint64_t i = 0; i < count; i++) {
            bus_read(&end, 1);
            bus_publish_one(&end, end.last);
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

    bus_daemon_begin();
    bench_partner_start(&partner, echo, bench);
    bench_pin(0);
    bus_open(&end, bench, BUS_THERE, BUS_BACK);
    bus_await_readers(&end, 1);
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
                bus_publish_one(&end, value++);
                bus_read(&end, 1);
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
    bus_daemon_end();
}

/* ---- throughput ------------------------------------------------------------------------------ */

void bus_throughput(const void *context)
{
    const struct bus_bench *bench = context;
    struct readers readers;
    struct bus_end end;
    uint64_t value = 0;

    bus_daemon_begin();
    readers_start(&readers, bench);
    bench_pin(bench->readers > 1 ? BENCH_ANY_PROCESSOR : 0);
    bus_open(&end, bench, BUS_THERE, NULL);
    readers_await(&readers, &end);
    bench_ready();
    while (bench_next()) {
        long switches = bench_switches();
        uint64_t longest_ns;

        readers_begin(&readers, SHAPE_THROUGHPUT);
        bus_publish_many(&end, value, SHAPE_THROUGHPUT);
        value += SHAPE_THROUGHPUT;
        switches = bench_switches() - switches;
        longest_ns = readers_wait(&readers, &switches);
        bench_answer((double)SHAPE_THROUGHPUT * bench->readers * 1000 / (double)longest_ns,
                     switches);
    }
    bus_close(&end);
    readers_end(&readers);
    bus_daemon_end();
}
