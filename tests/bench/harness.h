/* bench/harness.h - compare two things in turns, in one run, on the same processors.
 *
 * A contender is a process that measures once whenever it is told to. Ours and the peer are started
 * together, measured in turns, and each pair gives one ratio; the result is the median of the ratios.
 *
 *     static void ours(const void *context)        static void pipe_write(const void *context)
 *     {                                            { … }
 *         set_up();
 *         while (bench_next())
 *             bench_answer(measure_once(), switches);
 *     }
 *
 *     bench_compare(&(struct bench_row){ .name = "events.publish", .unit = "ns", .op = "<=", .goal = 0.1 },
 *                   &(struct bench_contender){ .name = "engine-core", .run = ours },
 *                   &(struct bench_contender){ .name = "pipe", .run = pipe_write });
 *
 * A run in which the scheduler took the processor away from a thread that measures says nothing
 * about either side: its pair is thrown away, measured again, and counted. Runs should therefore be
 * short, a few milliseconds. A machine too busy for enough quiet pairs gives the quietest ones there
 * were, and the row says so.
 *
 * A contender speaks lines on stdin and stdout, so it may be another program in another language:
 * it says "ready", then answers each line "run" with "VALUE SWITCHES" until stdin ends. "missing WHY"
 * instead of "ready" means that what it measures is not installed.
 *
 * Each result is one line of JSON on stdout; tests/bench/run makes the table and bench.json of them.
 * Thread: one. */
#ifndef EC_BENCH_HARNESS_H
#define EC_BENCH_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BENCH_PAIRS 11 /* quiet pairs of a row, unless it says otherwise; never below 5 */
#define BENCH_PAIRS_MAX 101

struct bench_contender {
    const char *name;
    void (*run)(const void *context); /* in a process of its own; or: */
    const char *program;              /* beside this program, with the words of arguments */
    const char *const *arguments;     /* NULL-terminated, or NULL */
    const void *context;
};

struct bench_row {
    const char *name; /* as docs/performance.md lists it */
    const char *unit; /* of the values */
    const char *op;   /* "<=" or ">="; NULL: printed, not judged */
    double goal;      /* of the ratio ours to peer; of ours when there is no peer */
    unsigned pairs;   /* 0: BENCH_PAIRS */
    unsigned run_s;   /* how long one run may take at most; 0: a minute */
    bool shared; /* more threads than processors, or runs of many time slices: the scheduler is part
                         of what is measured, and no pair is thrown away */
};

/* Is this row asked for? The arguments of a benchmark are names of rows; without any, all are. */
bool bench_wanted(int argc, char **argv, const char *name);

/* Print the row of ours against peer; peer NULL: ours alone. false: it could not be measured (the
 * reason went to stderr). A peer that is not installed is a row, not a failure. */
bool bench_compare(const struct bench_row *row, const struct bench_contender *ours,
                   const struct bench_contender *peer);

/* The contender's side. bench_ready once, then bench_next before each run; false: end. */
void bench_ready(void);
bool bench_next(void);
void bench_answer(double value, long switches);
/* The contender cannot go on: say why and end the process. */
_Noreturn void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The peer is not installed. */
_Noreturn void bench_missing(const char *what);

/* ---- two processes of one contender ---------------------------------------------------------- */

/* A second process with a pipe each way. It sleeps in bench_partner_wait between runs. */
struct bench_partner {
    pid_t pid;
    int to, from; /* write and read here */
};

/* Runs main in the child, which ends with it. The child dies with its parent. */
void bench_partner_start(struct bench_partner *partner,
                         void (*main)(struct bench_partner *parent, const void *context),
                         const void *context);
void bench_partner_end(struct bench_partner *partner); /* waits for it; it must have been told */

/* One number across, either way. bench_partner_wait: false when the other side has ended. */
void bench_partner_send(const struct bench_partner *partner, uint64_t value);
bool bench_partner_wait(const struct bench_partner *partner, uint64_t *value);

/* ---- measuring ------------------------------------------------------------------------------- */

int64_t bench_ns(void); /* CLOCK_MONOTONIC */

/* Bind this thread to the first or second processor that the process may use, or to any again.
 * Fails the contender when there is no second one. */
#define BENCH_ANY_PROCESSOR (-1)
void bench_pin(int which);

/* How often this thread, or any thread of this process, lost its processor unwillingly so far. */
long bench_switches(void);
long bench_switches_process(void);

double bench_median(double *values, size_t count); /* sorts them */
/* The smallest of them that so many percent lie below; sorts them. No values: 0. */
double bench_percentile(double *values, size_t count, double percentile);

static inline void bench_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- payloads -------------------------------------------------------------------------------- */

/* Every word is written by the sender and read and compared by the receiver, whatever the transport. */
static inline void bench_fill(void *payload, uint64_t value, size_t bytes)
{
    uint64_t *words = payload;

    for (size_t i = 0; i < bytes / sizeof *words; i++)
        words[i] = value;
}

/* The value of all words; the process ends when they differ. */
uint64_t bench_read(const void *payload, size_t bytes);

#endif
