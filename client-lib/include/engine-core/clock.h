/* engine-core/clock.h - real time, game time, step clocks and frame marks.
 *
 * real   CLOCK_MONOTONIC in ns: never stops, never goes back
 * game   follows real time by a scale that the operator may change; may stand
 * step   a named clock of fixed periods, such as `physics` at 60 Hz; the same step has the same
 *        number and the same due time in every process
 *
 *     struct ec_step_clock physics;
 *     struct ec_step step;
 *
 *     ec_step_find(client, "physics", &physics);
 *     while (running) {
 *         if (ec_step_wait(&physics, 1000000000, &step) == EC_OK)
 *             for (; step.steps_passed > 0; step.steps_passed--)
 *                 simulate();
 *         draw(ec_step_alpha(&physics));
 *     }
 *
 * All of it is read from a page that the daemon writes. When the daemon ends or stops, clients go on
 * by the same arithmetic from what was announced last, and say so (`stale`).
 *
 * Thread:    any; a struct ec_step_clock belongs to one thread, each thread finds its own.
 * Ownership: the caller owns the structs; they are valid as long as the client.
 * Cost:      no system call, no lock and no allocation, except that ec_step_wait sleeps. */
#ifndef ENGINE_CORE_CLOCK_H
#define ENGINE_CORE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include <engine-core/client.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the functions of time answer while there is no time to be had: the page holds none yet, or
 * its writer changed it faster than it could be read. */
#define EC_TIME_NONE INT64_MIN

EC_API int64_t ec_time_real(void);

/* Costs little more than ec_time_real. Compare only values that have the same ec_time_epoch: a
 * roll-back sets game time back. EC_TIME_NONE when there is none. */
EC_API int64_t ec_time_game(const struct ec_client *client);

/* Raised by a roll-back and by a gap in time (the host stood still for more than a second). */
EC_API uint64_t ec_time_epoch(const struct ec_client *client);

/* A step clock as one thread sees it. Filled in by ec_step_find; read it through the functions. */
struct ec_step_clock {
    const struct ec_client *client;
    const uint64_t *newest; /* in the clock page */
    uint64_t seen;          /* the step that ec_step_wait told last */
    uint64_t announced;     /* the daemon's newest step when it was looked for */
    uint32_t index;
    uint32_t breaker_level; /* told last */
    bool stale;             /* the daemon was found missing, and has not come back */
};

/* Find a clock by its name. Steps are counted from the one that is newest now.
 *
 * Returns EC_OK, EC_ERR_NOT_FOUND, or EC_AGAIN (the page is being changed; try again). */
EC_API int ec_step_find(struct ec_client *client, const char *name, struct ec_step_clock *clock);

/* The newest step that the daemon has announced: one load. */
static inline uint64_t ec_step_index(const struct ec_step_clock *clock)
{
    return __atomic_load_n(clock->newest, __ATOMIC_RELAXED);
}

struct ec_step {
    uint64_t step;         /* the newest one */
    uint64_t steps_passed; /* since the last call; 0 when only the breaker changed */
    int64_t due_ns; /* when the newest step was due, in time of its source: its logical time */
    uint64_t epoch; /* of time; due times of two epochs have no difference */
    uint32_t breaker_level;
    bool breaker_changed; /* since the last call */
    bool stale;           /* the daemon did not announce this step; it was computed here */
};

/* Sleep until a step after the last one told, or a change of the breaker. A step that was reached
 * meanwhile is answered at once. timeout_ns 0 only looks, negative never times out. Publishes step
 * and time in the client segment.
 *
 * Returns EC_OK, EC_ERR_TIMEOUT (step tells what is known, steps_passed is 0). */
EC_API int ec_step_wait(struct ec_step_clock *clock, int64_t timeout_ns, struct ec_step *step);

/* How far time has gone from the newest step to the next, 0 to 1, for interpolation. Counts from the
 * due time of the step, not from when anybody woke up; 1 when the next one is due but not there. */
EC_API double ec_step_alpha(const struct ec_step_clock *clock);

/* Frame marks: tell the daemon that the game lives, and measure frames.
 *
 *     ec_frame_begin(client, &frame);
 *     … all of the frame …
 *     ec_frame_end(&frame); // frame.work_ns is what it took
 *
 * Thread: one per client. */
struct ec_frame {
    uint64_t index;    /* counts from 1 */
    int64_t begin_ns;  /* real time */
    int64_t period_ns; /* since the begin of the frame before; 0 for the first */
    int64_t work_ns;   /* from begin to end; 0 until the end */
};

EC_API void ec_frame_begin(struct ec_client *client, struct ec_frame *frame);
EC_API void ec_frame_end(struct ec_frame *frame);

#ifdef __cplusplus
}
#endif
#endif
