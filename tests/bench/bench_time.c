/* bench_time.c - what reading a clock costs, as ratios to what it is made of.
 *
 *   time.game_read   ec_time_game             against clock_gettime(CLOCK_MONOTONIC)
 *   time.step_read   ec_step_index            against a plain atomic load
 *
 * The page is at rest, as it nearly always is: it changes when a scale, a rate or a pause changes.
 * It lies in shared memory, as a client's does. Ours and the peer run in turns, in slices far shorter
 * than what disturbs them; the ratio is the median over all pairs.
 *
 * Where the processor counts instructions for us, those of a call are printed to stderr: they do not
 * depend on how busy the machine is. */
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <engine-core/clock.h>

#include "client/client.h"
#include "foundation/real_time.h"
#include "segment/clock_arithmetic.h"
#include "segment/clock_page.h"

#define PAIRS 101
#define CALLS 100000 /* a slice: 2 to 3 ms of clock reads */

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

static const struct row {
    const char *name;
    void (*ours)(void);
    void (*peer)(void);
    const char *peer_name;
    double goal; /* ratio at most */
} rows[] = {
    { "time.game_read", game_read, monotonic_read, "clock_gettime(CLOCK_MONOTONIC)", 1.35 },
    { "time.step_read", step_read, plain_read, "atomic load", 2.0 },
};

static double ns_per_call(void (*slice)(void))
{
    int64_t begin_ns = ec_real_ns();

    slice();
    return (double)(ec_real_ns() - begin_ns) / CALLS;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

/* Sorts the values. */
static double median(double *values)
{
    qsort(values, PAIRS, sizeof *values, compare);
    return values[PAIRS / 2];
}

static void measure(const struct row *row)
{
    double ours[PAIRS], peer[PAIRS], ratio[PAIRS], middle;

    row->ours(); /* warm up */
    row->peer();
    for (unsigned i = 0; i < PAIRS; i++) {
        ours[i] = ns_per_call(row->ours);
        peer[i] = ns_per_call(row->peer);
        ratio[i] = ours[i] / peer[i];
    }
    middle = median(ratio);
    printf("{\"name\":\"%s\",\"unit\":\"ns\",\"ours\":%.3f,\"peer\":%.3f,\"peer_name\":\"%s\","
           "\"ratio\":%.3f,\"goal\":%.2f,\"op\":\"<=\",\"holds\":%s,\"runs\":%d,\"min\":%.3f,"
           "\"max\":%.3f}\n",
           row->name, median(ours), median(peer), row->peer_name, middle, row->goal,
           middle <= row->goal ? "true" : "false", PAIRS, ratio[0], ratio[PAIRS - 1]);
}

/* Instructions of one call in user space; 0 when the processor does not count for us. */
static double instructions_per_call(void (*slice)(void))
{
    struct perf_event_attr attr = { .type = PERF_TYPE_HARDWARE,
                                    .size = sizeof attr,
                                    .config = PERF_COUNT_HW_INSTRUCTIONS,
                                    .exclude_kernel = 1,
                                    .exclude_hv = 1 };
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    uint64_t before = 0, after = 0;

    if (fd < 0)
        return 0;
    if (read(fd, &before, sizeof before) == (ssize_t)sizeof before) {
        slice();
        if (read(fd, &after, sizeof after) != (ssize_t)sizeof after)
            after = before;
    }
    close(fd);
    return (double)(after - before) / CALLS;
}

static bool set_up(void)
{
    static struct ec_clock_snapshot snapshot;
    struct ec_clock_page *page =
        mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return false;
    snapshot.game =
        (struct ec_game_snapshot) { .real0_ns = ec_real_ns(), .scale_num = 1, .scale_den = 1 };
    snapshot.step[0] = (struct ec_step_snapshot) { .name = "physics", .source = EC_STEP_GAME };
    ec_period_of_rate(60, 1, &snapshot.step[0].period_num, &snapshot.step[0].period_den);
    ec_clock_page_write(page, &snapshot);
    client.clock.base = page;
    return ec_step_find(&client, "physics", &physics) == EC_OK;
}

int main(void)
{
    if (!set_up()) {
        fprintf(stderr, "bench_time: no page to read\n");
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double ours = instructions_per_call(rows[i].ours);
        double peer = instructions_per_call(rows[i].peer);

        measure(&rows[i]);
        if (ours > 0 && peer > 0)
            fprintf(stderr, "%s: %.1f instructions, %s: %.1f\n", rows[i].name, ours,
                    rows[i].peer_name, peer);
    }
    return EXIT_SUCCESS;
}
