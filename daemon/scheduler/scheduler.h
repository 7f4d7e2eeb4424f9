/* scheduler.h - the thread that keeps the clocks, the writer of the clock page, and what the main loop
 * has to do with them.
 *
 * The thread sleeps on a command word with the next deadline as time-out, so that one system call
 * waits for the time and for the main loop. Between two sleeps it carries out the orders in its mailbox
 * and makes a turn (turn.h): arithmetic, some stores and a wake. It never allocates, logs or takes a
 * lock.
 *
 * The main loop's side is the desk (desk.h): it posts orders, answers requests when the reports come,
 * keeps the members of groups and the timers.
 *
 * Thread: loop, unless a function says otherwise. */
#ifndef ENGINE_CORED_SCHEDULER_H
#define ENGINE_CORED_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

#include <engine-core/time_source.h>

#include "foundation/error.h"
#include "foundation/json/json_writer.h"

struct clock_heritage;
struct ec_clock_page;
struct heritage;
struct scheduler;
struct services;

int scheduler_init(struct services *services, struct ec_error *why);      /* module phase */
int scheduler_post_init(struct services *services, struct ec_error *why); /* starts the thread */
void scheduler_shutdown(struct services *services);

/* The same without the rest of the daemon. The page stays the caller's and must outlive the
 * scheduler. It begins with the clocks physics (60 Hz), network (20 Hz, real time) and ai (10 Hz). From
 * create on the page can be read; from start on time goes. destroy accepts NULL. */
struct scheduler_desc {
    struct ec_clock_page *page;
    int priority;                          /* of SCHED_FIFO to ask for; 0: none */
    int64_t history_ns;                    /* game time that roll-back can undo; 0: none */
    bool no_waitv;                         /* do as if the kernel had no FUTEX_WAITV */
    const struct ec_time_source *time;     /* NULL: real time */
    const struct clock_heritage *heritage; /* where the clocks go on; NULL: they begin */
    struct heritage *checkpoints; /* those that stand; those that do not are removed; NULL: none */
    /* Where the words that sleepers wait on begin. Different in each run: who still looked at the page
     * of the run before must not sleep on this one as if nothing had changed. */
    uint32_t first_change;
};
int scheduler_create(const struct scheduler_desc *desc, struct scheduler **scheduler,
                     struct ec_error *why);
int scheduler_start(struct scheduler *scheduler, struct ec_error *why);
void scheduler_destroy(struct scheduler *scheduler);

/* Make a turn now. Thread: any. */
void scheduler_kick(struct scheduler *scheduler);

/* A level of the breaker was changed in shared memory: who sleeps on a step clock is told now, not at
 * the next step. halve: clocks that allow it go at half their rate until it is called without.
 * Thread: any. */
void scheduler_breaker_changed(struct scheduler *scheduler, bool halve);
uint32_t scheduler_halved(const struct scheduler *scheduler); /* clocks that go so */

/* Sums over all clocks. The desk is needed for the timers. */
struct scheduler_totals {
    int64_t game_ns;
    bool paused;
    uint64_t steps, missed, discontinuities;
    uint64_t jitter_p99_ns; /* of the last minute, the worst clock */
    uint32_t timers;
};
void scheduler_totals(const struct scheduler *scheduler, struct scheduler_totals *totals);

/* One clock, by its index from 0 on. false: there are no more. */
struct scheduler_row {
    const char *name;
    uint64_t step, missed;
};
bool scheduler_row(const struct scheduler *scheduler, uint32_t index, struct scheduler_row *row);

/* What the thread was granted: {class, priority, memory_locked, exact_timers, refused?}, one JSON
 * object. */
void scheduler_describe(const struct scheduler *scheduler, struct ec_json_writer *writer);

#endif
