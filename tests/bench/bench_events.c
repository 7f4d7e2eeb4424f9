/* bench_events.c - the event bus against pipes, bare cache lines, eventfds, iceoryx and ZeroMQ.
 *
 *     bench_events [ROW ...]
 *
 * Publishers and subscribers are real processes that use the installed headers, over a real daemon on
 * a socket of its own. Every word of every payload is written, read and compared, on both sides. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/contender_bus.h"
#include "bench/contender_kernel.h"
#include "bench/harness.h"

static char directory[64]; /* for the sockets of peers */

/* ---- RouDi, iceoryx' daemon ------------------------------------------------------------------- */

static pid_t roudi_pid;

/* Start it and wait until it says that it is ready; one that runs already will do as well. false: not
 * installed. */
static bool roudi_start(void)
{
    char line[512];
    int ends[2], status;
    FILE *said;

    if (roudi_pid != 0)
        return true;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return false;
    roudi_pid = fork();
    if (roudi_pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        execlp("iox-roudi", "iox-roudi", "--log-level", "off", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    said = fdopen(ends[0], "r"); /* stays open: RouDi must not end by what it still says */
    while (said != NULL && fgets(line, sizeof line, said) != NULL)
        if (strstr(line, "ready for clients") != NULL)
            return true;
    waitpid(roudi_pid, &status, 0);
    roudi_pid = 0;
    return WEXITSTATUS(status) != 127;
}

static void no_roudi(const void *context)
{
    (void)context;
    bench_missing("iox-roudi");
}

static void roudi_stop(void)
{
    if (roudi_pid <= 0)
        return;
    kill(roudi_pid, SIGTERM);
    waitpid(roudi_pid, NULL, 0);
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define BATCH 16

static const struct bus_bench one = { .bytes = 64, .readers = 1, .batch = BATCH };
static const struct bus_bench alone = { .bytes = 64, .readers = 1 };
static const struct bus_bench four = { .bytes = 64, .readers = 4, .batch = BATCH };
static const struct bus_bench kib = { .bytes = 1024, .readers = 1 };
static const struct bus_bench asleep = { .bytes = 64, .readers = 1, .sleeping = true };
static const struct bus_bench stream = {
    .bytes = 64, .readers = 1, .batch = BATCH, .sleeping = true
};
static const struct bus_bench fan = { .bytes = 64, .readers = 4, .batch = BATCH, .sleeping = true };

static const struct bus_bench eight = {
    .bytes = 64, .readers = 8, .batch = BATCH, .sleeping = true
};
static const struct bus_bench one_sleeper = {
    .bytes = 64, .readers = 1, .batch = BATCH, .sleeping = true
};
static const struct bus_bench spinning = {
    .bytes = 64, .readers = 1, .sleeping = true, .spin_ns = 100000
};
static const struct bus_bench in_loop = { .bytes = 64, .readers = 1, .in_loop = true };
static const struct bus_bench lossy = { .bytes = 64, .readers = 1, .lossy = true };
static const struct bus_bench precise = {
    .bytes = 64, .readers = 1, .batch = BATCH, .stamp_each = true
};
static const struct bus_bench recorded = {
    .bytes = 64, .readers = 1, .batch = BATCH, .recorded = true
};
static const struct bus_bench large = { .bytes = 1024, .batch = BATCH };

static const struct kernel_bench kernel_64 = { .bytes = 64, .readers = 1 };
static const struct kernel_bench kernel_1024 = { .bytes = 1024, .readers = 1 };
static const struct kernel_bench kernel_4 = { .bytes = 64, .readers = 4 };

#define OURS(function, bench)                                                                      \
    {                                                                                              \
        .name = "engine-core", .run = function, .context = &(bench)                                \
    }
#define ICEORYX(...)                                                                               \
    {                                                                                              \
        .name = "iceoryx", .program = "peer_iceoryx_events", .arguments = (const char *const[])    \
        {                                                                                          \
            __VA_ARGS__, NULL                                                                      \
        }                                                                                          \
    }
#define ZEROMQ(...)                                                                                \
    {                                                                                              \
        .name = "ZeroMQ", .program = "peer_zeromq", .arguments = (const char *const[])             \
        {                                                                                          \
            directory, __VA_ARGS__, NULL                                                           \
        }                                                                                          \
    }

static const struct {
    struct bench_row row;
    struct bench_contender ours, peer;
    bool roudi; /* the peer needs it */
} rows[] = {
    { { .name = "events.publish", .unit = "ns", .op = "<=", .goal = 0.10 },
      OURS(bus_publish, one),
      { .name = "pipe write", .run = pipe_publish, .context = &kernel_64 },
      false },
    { { .name = "events.publish", .unit = "ns", .op = "<=", .goal = 0.02 },
      OURS(bus_publish, one),
      ICEORYX("publish", "64"),
      true },
    { { .name = "events.publish_alone", .unit = "ns" },
      OURS(bus_publish, alone),
      { .name = "the same in batches of 16", .run = bus_publish, .context = &one },
      false },
    { { .name = "events.publish_fanout", .unit = "ns", .op = "<=", .goal = 1.1 },
      OURS(bus_publish, four),
      { .name = "1 reader", .run = bus_publish, .context = &one },
      false },
    { { .name = "events.publish_fanout", .unit = "ns", .op = "<=", .goal = 1.2 },
      OURS(bus_publish, eight),
      { .name = "1 reader, ours 8 that may sleep", .run = bus_publish, .context = &one_sleeper },
      false },
    { { .name = "events.precise_stamp", .unit = "ns" },
      OURS(bus_publish, precise),
      { .name = "a stamp per batch of 16", .run = bus_publish, .context = &one },
      false },
    { { .name = "events.latency_poll_64", .unit = "ns", .op = "<=", .goal = 1.12 },
      OURS(bus_round_trip, alone),
      { .name = "bare line echo", .run = line_round_trip, .context = &kernel_64 },
      false },
    { { .name = "events.latency_poll_64", .unit = "ns", .op = "<=", .goal = 0.14 },
      OURS(bus_round_trip, alone),
      ICEORYX("round_trip", "64"),
      true },
    { { .name = "events.latency_poll_1024", .unit = "ns", .op = "<=", .goal = 1.2 },
      OURS(bus_round_trip, kib),
      { .name = "bare line echo", .run = line_round_trip, .context = &kernel_1024 },
      false },
    { { .name = "events.latency_poll_1024", .unit = "ns", .op = "<=", .goal = 0.14 },
      OURS(bus_round_trip, kib),
      ICEORYX("round_trip", "1024"),
      true },
    { { .name = "events.latency_block", .unit = "ns", .op = "<=", .goal = 1.05 },
      OURS(bus_round_trip, asleep),
      { .name = "bare eventfd", .run = eventfd_round_trip, .context = &kernel_64 },
      false },
    { { .name = "events.latency_block", .unit = "ns", .op = "<=", .goal = 0.35, .shared = true },
      OURS(bus_round_trip, asleep),
      ZEROMQ("round_trip"),
      false },
    { { .name = "events.latency_epoll", .unit = "ns", .op = "<=", .goal = 1.1 },
      OURS(bus_round_trip, in_loop),
      { .name = "bare eventfd in epoll", .run = epoll_round_trip, .context = &kernel_64 },
      false },
    { { .name = "events.adaptive_spin", .unit = "ns", .op = "<=", .goal = 0.06 },
      OURS(bus_round_trip, spinning),
      { .name = "without spinning", .run = bus_round_trip, .context = &asleep },
      false },
    { { .name = "events.lossy_check", .unit = "ns", .op = "<=", .goal = 1.1 },
      OURS(bus_round_trip, lossy),
      { .name = "reliable", .run = bus_round_trip, .context = &alone },
      false },
    { { .name = "events.throughput", .unit = "M/s", .op = ">=", .goal = 20, .shared = true },
      OURS(bus_throughput, stream),
      { .name = "pipe", .run = pipe_throughput, .context = &kernel_64 },
      false },
    { { .name = "events.throughput", .unit = "M/s", .op = ">=", .goal = 12, .shared = true },
      OURS(bus_throughput, stream),
      ZEROMQ("throughput", "1"),
      false },
    { { .name = "events.fanout", .unit = "M/s", .op = ">=", .goal = 12, .shared = true },
      OURS(bus_throughput, fan),
      ZEROMQ("throughput", "4"),
      false },
    { { .name = "events.fanout", .unit = "M/s", .op = ">=", .goal = 40, .shared = true },
      OURS(bus_throughput, fan),
      { .name = "4 pipes", .run = pipe_throughput, .context = &kernel_4 },
      false },
    { { .name = "events.dead_reader", .unit = "us", .op = "<=", .goal = 2, .shared = true },
      OURS(bus_dead_reader, alone),
      { .name = "bare socket hang-up", .run = socket_dead },
      false },
    { { .name = "events.daemon_killed",
        .unit = "after/before",
        .op = ">=",
        .goal = 0.95,
        .pairs = 5,
        .shared = true },
      OURS(bus_daemon_killed, one),
      { 0 },
      false },
    { { .name = "events.daemon_killed_lost",
        .unit = "events",
        .op = "<=",
        .goal = 0,
        .pairs = 5,
        .shared = true },
      OURS(bus_daemon_killed_lost, one),
      { 0 },
      false },
    { { .name = "events.record", .unit = "ns", .op = "<=", .goal = 1.1 },
      OURS(bus_publish, recorded),
      { .name = "not recorded", .run = bus_publish, .context = &one },
      false },
    { { .name = "events.record_rate", .unit = "MB/s", .pairs = 5, .shared = true },
      OURS(bus_record_rate, large),
      { 0 },
      false },
    { { .name = "events.syscalls", .unit = "calls/M", .op = "<=", .goal = 0, .pairs = 5 },
      OURS(bus_system_calls, one),
      { 0 },
      false },
    { { .name = "events.idle_wakes",
        .unit = "in 10 s",
        .op = "<=",
        .goal = 0,
        .pairs = 5,
        .shared = true },
      OURS(bus_idle_wakes, alone),
      { 0 },
      false },
};

int main(int argc, char **argv)
{
    struct bench_contender peer;
    int status = EXIT_SUCCESS;

    snprintf(directory, sizeof directory, "/tmp/engine-core-bench-XXXXXX");
    if (mkdtemp(directory) == NULL) {
        fprintf(stderr, "bench_events: %s: %s\n", directory, strerror(errno));
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!bench_wanted(argc, argv, rows[i].row.name))
            continue;
        peer = rows[i].peer;
        if (rows[i].roudi && !roudi_start())
            peer.run = no_roudi;
        if (!bench_compare(&rows[i].row, &rows[i].ours, peer.name != NULL ? &peer : NULL))
            status = EXIT_FAILURE;
    }
    roudi_stop();
    rmdir(directory);
    return status;
}
