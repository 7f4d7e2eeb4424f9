/* bench_stress.c - the same load for a long time: what it costs at the end, and what got lost.
 *
 *   stress.event_storm_p99       100 events of 64 bytes each millisecond, in one batch, to another process
 *                                that sleeps in between: from the stamp until it is read, us
 *   stress.event_storm_poll_p99  the same to one that polls
 *   stress.event_storm_lost      events of that which did not arrive, or not in order
 *   stress.event_storm_cpu       processor time of both processes with all their threads, % of one processor
 *   stress.frames_arena, _pool   10,000 blocks of 128 bytes a frame, two lines of each touched, then all given
 *                                back: ms a frame, of 1,000 frames
 *   stress.frames_faults         page faults in the last 100 of these frames, of arena and pool together
 *   stress.frames_growth         resident KiB after the last frame more than after the 100th
 *   stress.frames_last           time of the last 100 frames by that of the first 100, without the very first three
 *
 * A storm takes five runs of 12 s: together a minute. Latencies are taken of one event in seven, because
 * reading the clock for each would be what is measured. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <engine-core/arena.h>
#include <engine-core/clock.h>
#include <engine-core/pool.h>

#include "bench/bus_end.h"
#include "bench/harness.h"

#define NS_PER_MS INT64_C(1000000)

/* ---- the storm ------------------------------------------------------------------------------- */

#define STORM_MS 12000
#define STORM_RUNS 5
#define STORM_BATCH 100
#define STORM_EVENTS ((uint64_t)STORM_MS * STORM_BATCH)
#define SAMPLED 7 /* prime to the batch, so that each place in it has its turn */

enum storm_answer { STORM_P99, STORM_LOST, STORM_CPU };

struct storm {
    struct bus_bench bus;
    enum storm_answer answer;
};

static double cpu_ns(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e9 +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e3;
}

struct reading {
    uint64_t last;                  /* the highest number so far */
    uint64_t missing, out_of_order; /* numbers passed over; events that did not lie behind it */
    uint32_t samples;
    double late_us[STORM_EVENTS / SAMPLED + 1];
};

static void on_event(void *context, const struct ec_event *event)
{
    struct reading *reading = context;
    const uint64_t value = bench_read(event->payload, event->bytes);

    if (value % SAMPLED == 0 && reading->samples < STORM_EVENTS / SAMPLED + 1)
        reading->late_us[reading->samples++] = (double)(ec_time_real() - event->time_ns) / 1e3;
    if (value <= reading->last) {
        reading->out_of_order++;
        return;
    }
    reading->missing += value - reading->last - 1;
    reading->last = value;
}

/* Reads a storm each time it is told, up to the event that it is told of, and answers. */
static void storm_reader(struct bench_partner *parent, const void *context)
{
    static struct reading reading;
    const struct storm *storm = context;
    struct bus_end end;
    uint64_t last, answers[3];

    bench_pin(1);
    bus_open(&end, &storm->bus, NULL, BUS_THERE);
    bench_partner_send(parent, 0);
    while (bench_partner_wait(parent, &last)) {
        const double cpu_before = cpu_ns();

        reading.missing = reading.out_of_order = reading.samples = 0;
        reading.last = last - STORM_EVENTS;
        while (reading.last < last)
            if (ec_subscriber_poll(end.subscriber, on_event, &reading, 1024) == 0) {
                if (!storm->bus.sleeping)
                    bench_relax();
                else if (ec_subscriber_wait(end.subscriber, 10 * (int64_t)BUS_WAIT_NS) != EC_OK)
                    break; /* nothing more comes: what is missing is lost */
            }
        answers[STORM_P99] =
            (uint64_t)(bench_percentile(reading.late_us, reading.samples, 99) * 1e3);
        answers[STORM_LOST] = reading.missing + last - reading.last + reading.out_of_order;
        answers[STORM_CPU] = (uint64_t)(cpu_ns() - cpu_before);
        for (int i = 0; i < 3; i++)
            bench_partner_send(parent, answers[i]);
    }
    bus_close(&end);
}

/* A batch each millisecond; those that the processor was too late for follow at once. */
static void blow(struct bus_end *end, uint64_t first)
{
    struct timespec due;

    clock_gettime(CLOCK_MONOTONIC, &due);
    for (unsigned ms = 0; ms < STORM_MS; ms++) {
        bus_publish_many(end, first + (uint64_t)ms * STORM_BATCH, STORM_BATCH);
        due.tv_nsec += NS_PER_MS;
        if (due.tv_nsec >= 1000 * NS_PER_MS) {
            due.tv_nsec -= 1000 * NS_PER_MS;
            due.tv_sec++;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
    }
}

static void run_storm(const void *context)
{
    const struct storm *storm = context;
    struct bench_partner reader;
    struct bus_end end;
    uint64_t first = 1, answers[3];

    bus_daemon_begin();
    bench_partner_start(&reader, storm_reader, storm);
    bench_pin(0);
    bus_open(&end, &storm->bus, BUS_THERE, NULL);
    bus_await_readers(&end, 1);
    if (!bench_partner_wait(&reader, &answers[0]))
        bench_fail("the reader ended");
    bench_ready();
    while (bench_next()) {
        const int64_t begin_ns = bench_ns();
        double cpu = cpu_ns(), took_ns;

        bench_partner_send(&reader, first + STORM_EVENTS - 1);
        blow(&end, first);
        first += STORM_EVENTS;
        took_ns = (double)(bench_ns() - begin_ns);
        cpu = cpu_ns() - cpu;
        for (int i = 0; i < 3; i++)
            if (!bench_partner_wait(&reader, &answers[i]))
                bench_fail("the reader ended");
        if (storm->answer == STORM_CPU)
            bench_answer((cpu + (double)answers[STORM_CPU]) / took_ns * 100, 0);
        else
            bench_answer((double)answers[storm->answer] / (storm->answer == STORM_P99 ? 1e3 : 1),
                         0);
    }
    bus_close(&end);
    bench_partner_end(&reader);
    bus_daemon_end();
}

/* ---- frames ---------------------------------------------------------------------------------- */

#define FRAMES 1000
#define FRAME_BLOCKS 10000
#define FRAME_BYTES 128
#define PART 100 /* frames at the begin and at the end that are compared */

enum frames_answer { FRAMES_ARENA, FRAMES_POOL, FRAMES_FAULTS, FRAMES_GROWTH, FRAMES_LAST };

struct frames {
    struct ec_arena *arena;
    struct ec_pool *pool;
    double ms[2][FRAMES]; /* of the arena, of the pool */
};

static void touch(void *block)
{
    ((volatile unsigned char *)block)[0] = 1;
    ((volatile unsigned char *)block)[FRAME_BYTES / 2] = 1;
}

static void frame_of_arena(struct frames *frames)
{
    for (int i = 0; i < FRAME_BLOCKS; i++)
        touch(ec_arena_alloc(frames->arena, FRAME_BYTES, 0));
    ec_arena_reset(frames->arena);
}

static void frame_of_pool(struct frames *frames)
{
    static void *blocks[FRAME_BLOCKS];

    for (int i = 0; i < FRAME_BLOCKS; i++) {
        blocks[i] = ec_pool_alloc(frames->pool);
        touch(blocks[i]);
    }
    for (int i = 0; i < FRAME_BLOCKS; i++)
        ec_pool_free(frames->pool, blocks[i]);
}

static void one_frame(struct frames *frames, int frame)
{
    int64_t begin_ns = bench_ns(), middle_ns;

    frame_of_arena(frames);
    middle_ns = bench_ns();
    frame_of_pool(frames);
    frames->ms[0][frame] = (double)(middle_ns - begin_ns) / 1e6;
    frames->ms[1][frame] = (double)(bench_ns() - middle_ns) / 1e6;
}

static long faults(void)
{
    struct rusage used;

    getrusage(RUSAGE_THREAD, &used);
    return used.ru_minflt + used.ru_majflt;
}

/* Both allocators, median of these frames. */
static double median_ms(const struct frames *frames, int from, int count)
{
    double sum[FRAMES];

    for (int i = 0; i < count; i++)
        sum[i] = frames->ms[0][from + i] + frames->ms[1][from + i];
    return bench_median(sum, (size_t)count);
}

static double frames_answer(struct frames *frames, enum frames_answer answer)
{
    long faults_before = 0, kib_before = 0;

    for (int i = 0; i < FRAMES; i++) {
        if (i == PART)
            kib_before = process_resident_kib(getpid());
        if (i == FRAMES - PART)
            faults_before = faults();
        one_frame(frames, i);
    }
    switch (answer) {
    case FRAMES_ARENA:
        return bench_median(frames->ms[0], FRAMES);
    case FRAMES_POOL:
        return bench_median(frames->ms[1], FRAMES);
    case FRAMES_FAULTS:
        return (double)(faults() - faults_before);
    case FRAMES_GROWTH:
        return (double)(process_resident_kib(getpid()) - kib_before);
    case FRAMES_LAST:
        return median_ms(frames, FRAMES - PART, PART) / median_ms(frames, 3, PART);
    }
    return 0;
}

static void run_frames(const void *context)
{
    static struct frames frames;
    const enum frames_answer answer = *(const enum frames_answer *)context;
    struct ec_client *client;
    struct ec_error why = { 0 };

    bus_daemon_begin();
    bench_pin(0);
    if (ec_client_create(
            &(struct ec_client_desc) { .name = "frames", .socket_path = bus_daemon.socket_path },
            &client, &why) < 0 ||
        ec_arena_create(&(struct ec_arena_desc) { .client = client,
                                                  .name = "frame",
                                                  .bytes = FRAME_BLOCKS * FRAME_BYTES },
                        &frames.arena, &why) < 0 ||
        ec_pool_create(&(struct ec_pool_desc) { .client = client,
                                                .name = "frame",
                                                .block_bytes = FRAME_BYTES },
                       &frames.pool, &why) < 0)
        bench_fail("%s", why.text);
    bench_ready();
    while (bench_next())
        bench_answer(frames_answer(&frames, answer), 0);
    ec_pool_destroy(frames.pool);
    ec_arena_destroy(frames.arena);
    ec_client_destroy(client);
    bus_daemon_end();
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define STORM(name_, unit_, goal_, sleeping_, answer_)                                             \
    {                                                                                              \
        { .name = name_,                                                                           \
          .unit = unit_,                                                                           \
          .op = "<=",                                                                              \
          .goal = goal_,                                                                           \
          .pairs = STORM_RUNS,                                                                     \
          .shared = true },                                                                        \
        {                                                                                          \
            { .bytes = 64, .readers = 1, .batch = STORM_BATCH, .sleeping = sleeping_ }, answer_    \
        }                                                                                          \
    }

static const struct {
    struct bench_row row;
    struct storm storm;
} storms[] = {
    STORM("stress.event_storm_p99", "us", 1000, true, STORM_P99),
    STORM("stress.event_storm_poll_p99", "us", 5, false, STORM_P99),
    STORM("stress.event_storm_lost", "events", 0, true, STORM_LOST),
    STORM("stress.event_storm_cpu", "%", 8, true, STORM_CPU),
};

#define FRAME(name_, unit_, goal_, answer_)                                                        \
    {                                                                                              \
        { .name = name_, .unit = unit_, .op = "<=", .goal = goal_, .shared = true }, answer_       \
    }

static const struct {
    struct bench_row row;
    enum frames_answer answer;
} frame_rows[] = {
    FRAME("stress.frames_arena", "ms", 0.06, FRAMES_ARENA),
    FRAME("stress.frames_pool", "ms", 0.12, FRAMES_POOL),
    FRAME("stress.frames_faults", "faults", 0, FRAMES_FAULTS),
    FRAME("stress.frames_growth", "KiB", 0, FRAMES_GROWTH),
    FRAME("stress.frames_last", "ratio", 1.1, FRAMES_LAST),
};

static bool measure(int argc, char **argv, const struct bench_row *row,
                    void (*run)(const void *context), const void *context)
{
    return !bench_wanted(argc, argv, row->name) ||
           bench_compare(
               row,
               &(struct bench_contender) { .name = "engine-core", .run = run, .context = context },
               NULL);
}

int main(int argc, char **argv)
{
    bool is_measured = true;

    for (size_t i = 0; i < sizeof storms / sizeof *storms; i++)
        is_measured =
            measure(argc, argv, &storms[i].row, run_storm, &storms[i].storm) && is_measured;
    for (size_t i = 0; i < sizeof frame_rows / sizeof *frame_rows; i++)
        is_measured = measure(argc, argv, &frame_rows[i].row, run_frames, &frame_rows[i].answer) &&
                      is_measured;
    return is_measured ? EXIT_SUCCESS : EXIT_FAILURE;
}
