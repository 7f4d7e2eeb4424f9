/* bench_time.c - what reading a clock costs, as ratios to what it is made of.
 *
 *   time.game_read   ec_time_game   against clock_gettime(CLOCK_MONOTONIC)
 *   time.step_read   ec_step_index  against a plain atomic load
 *
 * The page is at rest, as it nearly always is: it changes when a scale, a rate or a pause changes.
 * It lies in shared memory, as a client's does. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include <engine-core/clock.h>

#include "bench/harness.h"
#include "client/client.h"
#include "foundation/real_time.h"
#include "segment/clock_arithmetic.h"
#include "segment/clock_page.h"

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

int main(void)
{
    int status = EXIT_SUCCESS;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct bench_contender ours = { .name = "engine-core",
                                              .run = measure,
                                              .context = &cases[i].ours };
        const struct bench_contender peer = { .name = cases[i].peer_name,
                                              .run = measure,
                                              .context = &cases[i].peer };

        if (!bench_compare(&cases[i].row, &ours, &peer))
            status = EXIT_FAILURE;
    }
    return status;
}
