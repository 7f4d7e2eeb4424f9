/* engine-core/clock.h - real time, game time, step clocks and frame marks.
 *
 * real   CLOCK_MONOTONIC in ns: never stops, never goes back
 * game   follows real time by a scale that the operator may change; may stand, and go back
 * step   a named clock of fixed periods, such as `physics` at 60 Hz; the same step has the same
 *        number and the same due time in every process
 *
 *     struct ec_step_clock physics;
 *     struct ec_step step;
 *
 *     ec_step_find(client, "physics", &physics);
 *     while (running) {
 *         if (ec_step_wait(&physics, 1000000000, &step) == EC_OK)
 *             for (; step.steps_passed > step.steps_skipped; step.steps_passed--)
 *                 simulate();
 *         draw(ec_step_alpha(&physics));
 *     }
 *
 * All of it is read from a page that the daemon writes. When the daemon ends or stops, clients go on
 * by the same arithmetic from what was announced last, and say so (`stale`).
 *
 * Thread:    any; a struct ec_step_clock belongs to one thread, each thread finds its own.
 * Ownership: the caller owns the structs; they are valid as long as the client.
 * Cost:      no system call, no lock and no allocation, except that ec_step_wait sleeps, a required
 *            member's wakes the scheduler when a step is done, and join and leave ask the daemon. */
#ifndef ENGINE_CORE_CLOCK_H
#define ENGINE_CORE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include <engine-core/client.h>
#include <engine-core/time_source.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the functions of time answer while there is no time to be had: the page holds none yet, or
 * its writer changed it faster than it could be read. */
#define EC_TIME_NONE INT64_MIN

EC_API int64_t ec_time_real(void);

/* The time of day: ns since 1970 in UTC. People and NTP set it, also back; for file names and logs. */
EC_API int64_t ec_time_wall(void);

/* Costs little more than ec_time_real. Compare only values that have the same ec_time_epoch: a
 * roll-back sets game time back. Within an epoch it never goes back. EC_TIME_NONE when there is none. */
EC_API int64_t ec_time_game(const struct ec_client *client);

/* Raised by a roll-back and by a gap in time (the host stood still for more than a second). */
EC_API uint64_t ec_time_epoch(const struct ec_client *client);

/* All of one moment. */
struct ec_time {
    int64_t real_ns;
    int64_t game_ns;
    uint64_t epoch; /* of game_ns */
    double scale;   /* game seconds per real second now; 0 while game time stands */
};

/* EC_OK or EC_AGAIN (there is none, see EC_TIME_NONE). */
EC_API int ec_time_read(const struct ec_client *client, struct ec_time *now);

/* For tests: take the time from a source, and sleep by it; NULL: real time again. Steps come by the
 * arithmetic of the page then, as they do without the daemon. The source must outlive its use. */
EC_API void ec_client_use_time(struct ec_client *client, const struct ec_time_source *source);

/* A step clock as one thread sees it. Filled in by ec_step_find; read it through the functions. */
struct ec_step_clock {
    struct ec_client *client;
    const uint64_t *newest; /* in the clock page */
    uint64_t seen;          /* the step that ec_step_wait told last */
    uint64_t epoch;         /* that it belongs to */
    uint64_t skipped;       /* steps left out until then, since the clock was made */
    uint64_t announced;     /* the daemon's newest step when it was looked for */
    uint64_t taken;         /* a step that was told before its announcement; 0: none */
    uint32_t index;
    uint32_t breaker_level; /* told last */
    bool stale;             /* the daemon was found missing, and has not come back */
    bool joined;            /* a member of the clock's group */
    bool required;
    bool working; /* a member that was told of a step and has not said that it is done */
    int bell_fd;  /* rung when a required member is done; -1: wake by futex */
    int64_t phase_ns;
    uint64_t start_at; /* no step before this one is told */
};

/* Find a clock by its name. Steps are counted from the one that is newest now.
 *
 * Returns EC_OK, EC_ERR_NOT_FOUND, or EC_AGAIN (the page is being changed; try again). */
EC_API int ec_step_find(struct ec_client *client, const char *name, struct ec_step_clock *clock);

/* The newest step: what the daemon has announced, or ec_step_wait told just before. One load. */
static inline uint64_t ec_step_index(const struct ec_step_clock *clock)
{
    uint64_t newest = __atomic_load_n(clock->newest, __ATOMIC_RELAXED);

    return clock->taken == newest + 1 ? clock->taken : newest;
}

struct ec_step {
    uint64_t step;          /* the newest one */
    uint64_t steps_passed;  /* since the last call; 0 when only the breaker or the epoch changed */
    uint64_t steps_skipped; /* of these, how many the clock leaves out because they came too late */
    int64_t due_ns; /* when the newest step was due, in time of its source: its logical time */
    uint64_t epoch; /* of time; due times and steps of two epochs have no difference */
    uint32_t breaker_level; /* of this program, as ec_breaker_level() tells it */
    bool breaker_changed;   /* since the last call */
    bool epoch_changed; /* since the last call: time went back, or stood still; start from step */
    bool stale;         /* the daemon is missing; the step was computed here */
};

/* Sleep until a step after the last one told, or a change of the breaker or the epoch. A step that was
 * reached meanwhile is answered at once. A sleeper wakes up by its own timer when the next step is due,
 * at its own priority and timer slack, or is woken by the daemon, whichever comes first. timeout_ns 0
 * only looks, negative never times out. Publishes step and time in the client segment. A member of the
 * clock's group says with this call that it is done with the step told last.
 *
 * Returns EC_OK, EC_ERR_TIMEOUT (step tells what is known, steps_passed is 0). */
EC_API int ec_step_wait(struct ec_step_clock *clock, int64_t timeout_ns, struct ec_step *step);

/* The same up to a moment of real time, such as that of the next frame. */
EC_API int ec_step_wait_until(struct ec_step_clock *clock, int64_t deadline_ns,
                              struct ec_step *step);

/* How far time has gone from the newest step to the next, 0 to 1, for interpolation. Counts from the
 * due time of the step, not from when anybody woke up; 1 when the next one is due but not there. */
EC_API double ec_step_alpha(const struct ec_step_clock *clock);

/* Become a member of the clock's group. A required member holds the next step back until it is done
 * with the last one, but no longer than its budget: then the others go on without it, and it takes the
 * common time over when it comes back. Others are only told apart in clock.group.get.
 *
 *     ec_step_join(&physics, &(struct ec_step_join_desc) { .required = true }, &why); */
struct ec_step_join_desc {
    bool required;
    bool spread;             /* wake later in the period, where nobody else of the group does */
    bool free_running_speed; /* as fast as all are done, if all required members ask for it */
    uint32_t budget_ms;      /* 0: the daemon's default */
    uint64_t start_at_step;  /* 0: the next one */
};

/* Returns EC_OK, EC_ERR_STATE (a member already), EC_ERR_PARAM, EC_ERR_LIMIT, EC_ERR_DISCONNECTED,
 *         EC_ERR_TIMEOUT or EC_ERR_MEMORY. */
EC_API int ec_step_join(struct ec_step_clock *clock, const struct ec_step_join_desc *desc,
                        struct ec_error *why);
EC_API int ec_step_leave(struct ec_step_clock *clock, struct ec_error *why);

/* Done with the step told last, before the next ec_step_wait. Does nothing for others than members. */
EC_API void ec_step_done(struct ec_step_clock *clock);

/* Frame marks: tell the daemon that the game lives, and measure frames.
 *
 *     ec_frame_begin(client, &frame);
 *     … all of the frame …
 *     ec_frame_end(&frame); // frame.work_ns is what it took
 *
 * Thread: one per client. */
struct ec_frame {
    struct ec_client *client;
    uint64_t index;    /* counts from 1 */
    int64_t begin_ns;  /* real time */
    int64_t period_ns; /* since the begin of the frame before; 0 for the first */
    int64_t work_ns;   /* from begin to end; 0 until the end */
};

EC_API void ec_frame_begin(struct ec_client *client, struct ec_frame *frame);
EC_API void ec_frame_end(struct ec_frame *frame);

/* Frames so far, and how long they took, to 12.5 % (max exact). */
struct ec_frame_times {
    uint64_t p50_ns, p99_ns, p999_ns, max_ns;
};
struct ec_frame_stats {
    uint64_t frames;
    double fps;                   /* in the last full second; 0 before there was one */
    struct ec_frame_times period; /* from begin to begin */
    struct ec_frame_times work;   /* from begin to end */
};

/* Thread: any. */
EC_API void ec_frame_stats(const struct ec_client *client, struct ec_frame_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
