/* bench_time.c - what reading a clock costs, how late its steps are, and what timers cost.
 *
 *   time.game_read          ec_time_game   against clock_gettime(CLOCK_MONOTONIC)
 *   time.step_read          ec_step_index  against a plain atomic load
 *   time.wake_p50, _p99     lateness of a step of 60 Hz in a game, against cyclictest in the same class
 *   time.wake_p50_fifo, .wake_p99_fifo and both with _spin: the same with SCHED_FIFO, without and with a
 *                           scheduler that is awake before the step
 *   time.wake_last_of_16    the last of 16 games that wait for a step, against 16 sleepers
 *   time.phase_p99          16 games of 20 Hz with 1 ms of work, spread against in one phase
 *   time.drift_30d          30 days at 60, 59.94 and 1000/3 Hz, in ns
 *   time.idle_cpu           processor time of the daemon without clients, in percent
 *   time.timers             to arm and fire one of 100,000 timers, against libuv
 *
 * The page is at rest, as it nearly always is: it changes when a scale, a rate or a pause changes.
 * It lies in shared memory, as a client's does. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <uv.h>

#include <engine-core/clock.h>

#include "bench/contender_wake.h"
#include "bench/harness.h"
#include "client/client.h"
#include "foundation/real_time.h"
#include "scheduler/timers.h"
#include "segment/clock_arithmetic.h"
#include "segment/clock_page.h"
#include "support/daemon.h"

#define CALLS 100000 /* a run: 2 to 3 ms of clock reads */
#define PAIRS 51

static struct ec_client client;
static struct ec_step_clock physics;
static _Atomic uint64_t plain;

/* Keep a value alive, and make the compiler forget what it knows of memory. */
static inline void keep(int64_t value)
{
    __asm__ volatile("" : : "r"(value) : "memory");
}

static void game_read(void)
{
    for (unsigned i = 0; i < CALLS; i++)
        keep(ec_time_game(&client));
}

static void monotonic_read(void)
{
    struct timespec now;

    for (unsigned i = 0; i < CALLS; i++) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        keep(now.tv_sec * EC_NS_PER_S + now.tv_nsec);
    }
}

static void step_read(void)
{
    for (unsigned i = 0; i < CALLS; i++)
        keep((int64_t)ec_step_index(&physics));
}

static void plain_read(void)
{
    for (unsigned i = 0; i < CALLS; i++)
        keep((int64_t)atomic_load_explicit(&plain, memory_order_relaxed));
}

static void set_up_page(void)
{
    static struct ec_clock_snapshot snapshot;
    struct ec_clock_page *page =
        mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        bench_fail("mmap of a clock page");
    snapshot.game = (struct ec_game_snapshot) {
        .real0_ns = ec_real_ns(), .scale_num = 1, .scale_den = 1, .until_ns = EC_CLOCK_NEVER
    };
    snapshot.step[0] = (struct ec_step_snapshot) { .name = "physics", .source = EC_STEP_GAME };
    ec_period_of_rate(60, 1, &snapshot.step[0].period_num, &snapshot.step[0].period_den);
    ec_clock_page_write(page, &snapshot);
    client.clock.base = page;
    if (ec_step_find(&client, "physics", &physics) != EC_OK)
        bench_fail("the clock page has no physics");
}

/* What a contender calls many times in a run. */
struct loop {
    void (*calls)(void);
};

static void measure(const void *context)
{
    const struct loop *loop = context;

    set_up_page();
    loop->calls(); /* warm up */
    bench_ready();
    while (bench_next()) {
        long switches = bench_switches();
        int64_t begin_ns = bench_ns();

        loop->calls();
        bench_answer((double)(bench_ns() - begin_ns) / CALLS, bench_switches() - switches);
    }
}

/* ---- timers ---------------------------------------------------------------------------------- */

#define TIMERS 100000
#define TIMERS_SPAN_MS 1000

static uint32_t fired;

static uint32_t due_ms(uint32_t i)
{
    return 1 + (i * 2654435761u >> 8) % TIMERS_SPAN_MS;
}

static double own_timers(void)
{
    struct timers *timers;
    struct timer_firing firing;
    int64_t begin_ns;
    uint64_t id;

    if (timers_create(TIMERS, &timers, NULL) < 0)
        bench_fail("no memory for timers");
    begin_ns = bench_ns();
    for (uint32_t i = 0; i < TIMERS; i++)
        if (timers_arm(timers, &(struct timer_desc) { .due = due_ms(i), .owner = 1 }, &id, NULL) <
            0)
            bench_fail("timer %u", i);
    for (int64_t now = 0; now <= TIMERS_SPAN_MS; now++)
        while (timers_fire(timers, ALARM_REAL, now, &firing))
            fired++;
    begin_ns = bench_ns() - begin_ns;
    timers_destroy(timers);
    return (double)begin_ns / TIMERS;
}

static void on_uv_timer(uv_timer_t *timer)
{
    (void)timer;
    fired++;
}

/* Time does not pass in libuv, so what would be waited for is left out: all are due at once, in the
 * order of a heap that was filled out of order. */
static double uv_timers(void)
{
    uv_timer_t *timers = calloc(TIMERS, sizeof *timers);
    uv_loop_t loop;
    int64_t begin_ns;

    if (timers == NULL || uv_loop_init(&loop) < 0)
        bench_fail("no memory for timers");
    for (uint32_t i = 0; i < TIMERS; i++)
        uv_timer_init(&loop, &timers[i]);
    begin_ns = bench_ns();
    for (uint32_t i = 0; i < TIMERS; i++)
        uv_timer_start(&timers[i], on_uv_timer, due_ms(i), 0);
    begin_ns -= bench_ns();
    while (bench_ns() / 1000000 <= (int64_t)uv_now(&loop) + TIMERS_SPAN_MS) /* all are due now */
        usleep(1000);
    begin_ns += bench_ns();
    uv_run(&loop, UV_RUN_NOWAIT);
    begin_ns = bench_ns() - begin_ns;
    uv_loop_close(&loop);
    free(timers);
    return (double)begin_ns / TIMERS;
}

static void measure_timers(const void *context)
{
    double (*const run)(void) = *(double (*const *)(void))context;

    run(); /* warm up */
    bench_ready();
    while (bench_next()) {
        long switches = bench_switches();
        double ns;

        fired = 0;
        ns = run();
        if (fired != TIMERS)
            bench_fail("%u timers of %d have fired", fired, TIMERS);
        bench_answer(ns, bench_switches() - switches);
    }
}

static double (*const own_timers_run)(void) = own_timers;
static double (*const uv_timers_run)(void) = uv_timers;

/* ---- drift and idle -------------------------------------------------------------------------- */

static void measure_drift(const void *context)
{
    static const uint64_t rates[][2] = { { 60, 1 }, { 60000, 1001 }, { 1000, 3 } };
    const int64_t month_ns = 30 * INT64_C(86400000000000);

    (void)context;
    bench_ready();
    while (bench_next()) {
        double worst_ns = 0;

        for (int i = 0; i < 3; i++) {
            struct ec_step_snapshot step = { .name = "month" };
            uint64_t last;

            ec_period_of_rate(rates[i][0], rates[i][1], &step.period_num, &step.period_den);
            last = ec_step_at(&step, month_ns);
            for (uint64_t n = 0; n < last; n += 1009) { /* a multiple of den/num s is exact */
                ec_u128 exact =
                    ((ec_u128)n * rates[i][1] * 1000000000 + rates[i][0] - 1) / rates[i][0];
                double off_ns = (double)(ec_step_due_ns(&step, n) - (int64_t)exact);

                worst_ns = off_ns * off_ns > worst_ns * worst_ns ? off_ns : worst_ns;
            }
        }
        bench_answer(worst_ns < 0 ? -worst_ns : worst_ns, 0);
    }
}

/* Processor time of all threads of a process, ns. */
static double process_ns(pid_t pid)
{
    struct timespec used;
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        bench_fail("the processor time of process %d", (int)pid);
    return (double)used.tv_sec * 1e9 + (double)used.tv_nsec;
}

static void measure_idle(const void *context)
{
    struct daemon_process server = { 0 };

    (void)context;
    if (!daemon_start(&server, NULL))
        bench_fail("engine-cored: %s", server.why);
    bench_ready();
    while (bench_next()) {
        double used_ns = process_ns(server.pid);
        int64_t begin_ns = bench_ns();

        sleep(2);
        bench_answer((process_ns(server.pid) - used_ns) / (double)(bench_ns() - begin_ns) * 100, 0);
    }
    daemon_stop(&server);
}

static const struct bench_case {
    struct bench_row row;
    struct loop ours, peer;
    const char *peer_name;
} cases[] = {
    { { .name = "time.game_read", .unit = "ns", .op = "<=", .goal = 1.35, .pairs = PAIRS },
      { game_read },
      { monotonic_read },
      "clock_gettime(MONOTONIC)" },
    { { .name = "time.step_read", .unit = "ns", .op = "<=", .goal = 2, .pairs = PAIRS },
      { step_read },
      { plain_read },
      "atomic load" },
};

/* ---- wakes ----------------------------------------------------------------------------------- */

#define WAKES_60 180 /* three seconds */
#define WAKES_20 60
#define SPIN_US 100 /* of 16,667 between two steps */

#define WAKE_PAIR(of, against, ...)                                                                \
    { .kind = of, __VA_ARGS__ },                                                                   \
    {                                                                                              \
        .kind = against, __VA_ARGS__                                                               \
    }

static const struct wake_case {
    const char *name;
    double goal;
    const char *ours_name, *peer_name;
    struct wake_shape ours, peer;
} wake_cases[] = {
    { "time.wake_p50", 1.2, "engine-core", "cyclictest",
      WAKE_PAIR(WAKE_STEP, WAKE_CYCLICTEST, .processes = 1, .hz = 60, .wakes = WAKES_60,
                .percentile = 50) },
    { "time.wake_p99", 1.2, "engine-core", "cyclictest",
      WAKE_PAIR(WAKE_STEP, WAKE_CYCLICTEST, .processes = 1, .hz = 60, .wakes = WAKES_60,
                .percentile = 99) },
    { "time.wake_p50_fifo", 1.2, "engine-core", "cyclictest",
      WAKE_PAIR(WAKE_STEP, WAKE_CYCLICTEST, .processes = 1, .hz = 60, .wakes = WAKES_60,
                .fifo = true, .percentile = 50) },
    { "time.wake_p99_fifo", 1.2, "engine-core", "cyclictest",
      WAKE_PAIR(WAKE_STEP, WAKE_CYCLICTEST, .processes = 1, .hz = 60, .wakes = WAKES_60,
                .fifo = true, .percentile = 99) },
    { "time.wake_p50_fifo_spin", 1.2, "engine-core", "cyclictest",
      WAKE_PAIR(WAKE_STEP, WAKE_CYCLICTEST, .processes = 1, .hz = 60, .wakes = WAKES_60,
                .fifo = true, .spin_us = SPIN_US, .percentile = 50) },
    { "time.wake_p99_fifo_spin", 1.2, "engine-core", "cyclictest",
      WAKE_PAIR(WAKE_STEP, WAKE_CYCLICTEST, .processes = 1, .hz = 60, .wakes = WAKES_60,
                .fifo = true, .spin_us = SPIN_US, .percentile = 99) },
    { "time.wake_last_of_16", 1.2, "engine-core", "16 sleepers",
      WAKE_PAIR(WAKE_STEP, WAKE_SLEEPER, .processes = 16, .hz = 60, .wakes = WAKES_60, .last = true,
                .percentile = 99) },
    { "time.phase_p99", 0.1, "spread", "one phase",
      WAKE_PAIR(WAKE_SPREAD, WAKE_MEMBER, .processes = 16, .hz = 20, .wakes = WAKES_20,
                .work_ns = 1000000, .percentile = 99) },
};

static bool compare_wakes(const struct wake_case *wake_case)
{
    const struct bench_row row = {
        .name = wake_case->name,
        .unit = "us",
        .op = "<=",
        .goal = wake_case->goal,
        .pairs = 5,
        .shared = true,
    };
    const struct bench_contender ours = { .name = wake_case->ours_name,
                                          .run = contender_wake,
                                          .context = &wake_case->ours };
    const struct bench_contender peer = { .name = wake_case->peer_name,
                                          .run = contender_wake,
                                          .context = &wake_case->peer };

    return bench_compare(&row, &ours, &peer);
}

static const struct {
    struct bench_row row;
    struct bench_contender ours, peer;
} rest[] = {
    { { .name = "time.timers", .unit = "ns", .op = "<=", .goal = 1.0, .shared = true },
      { .name = "engine-core", .run = measure_timers, .context = &own_timers_run },
      { .name = "libuv", .run = measure_timers, .context = &uv_timers_run } },
    { { .name = "time.drift_30d", .unit = "ns", .op = "<=", .goal = 0, .pairs = 5, .shared = true },
      { .name = "engine-core", .run = measure_drift },
      { 0 } },
    { { .name = "time.idle_cpu", .unit = "%", .op = "<=", .goal = 0.3, .pairs = 5, .shared = true },
      { .name = "engine-cored", .run = measure_idle },
      { 0 } },
};

int main(int argc, char **argv)
{
    int status = EXIT_SUCCESS;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct bench_contender ours = { .name = "engine-core",
                                              .run = measure,
                                              .context = &cases[i].ours };
        const struct bench_contender peer = { .name = cases[i].peer_name,
                                              .run = measure,
                                              .context = &cases[i].peer };

        if (bench_wanted(argc, argv, cases[i].row.name) &&
            !bench_compare(&cases[i].row, &ours, &peer))
            status = EXIT_FAILURE;
    }
    for (size_t i = 0; i < sizeof wake_cases / sizeof *wake_cases; i++)
        if (bench_wanted(argc, argv, wake_cases[i].name) && !compare_wakes(&wake_cases[i]))
            status = EXIT_FAILURE;
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        if (bench_wanted(argc, argv, rest[i].row.name) &&
            !bench_compare(&rest[i].row, &rest[i].ours,
                           rest[i].peer.name != NULL ? &rest[i].peer : NULL))
            status = EXIT_FAILURE;
    return status;
}
