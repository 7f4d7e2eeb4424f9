/* turn.h - what the scheduler does each time it wakes, without threads and without a clock.
 *
 * A turn is told what time it is. It finds which steps were reached, says what has to be published
 * and when the next turn is due; then the page is written and sleepers are woken. So thirty days pass
 * in a test in a moment.
 *
 *     scheduler_turn(&state, now_ns, &outcome);
 *     scheduler_publish(&state, &outcome, now_ns, page);
 *     … sleep until outcome.deadline_ns …
 *
 * Late steps are skipped: only the newest one is announced, the others are counted as missed. The
 * base of a clock never moves, however late a turn is. A turn that comes more than SCHEDULER_GAP_NS
 * after its deadline (the host or the process stood still) is a discontinuity: the epoch rises, and
 * it is no jitter.
 *
 * Thread: step; the counts and histograms may be read from any. */
#ifndef ENGINE_CORED_SCHEDULER_TURN_H
#define ENGINE_CORED_SCHEDULER_TURN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "foundation/error.h"
#include "proto/clock_page.h"
#include "proto/histogram.h"

#define SCHEDULER_GAP_NS INT64_C(1000000000)
#define SCHEDULER_HEARTBEAT_NS INT64_C(250000000) /* a turn at least so often, whatever is due */

struct scheduler_clock {
    uint64_t step;              /* the newest that was announced */
    _Atomic uint64_t missed;    /* steps that were skipped because they were late */
    struct ec_histogram jitter; /* how long after its due time a step was seen */
};

struct scheduler_state {
    struct ec_clock_snapshot snapshot; /* what the page holds, or will after the next publish */
    struct scheduler_clock clock[EC_STEP_CLOCKS_MAX];
    uint32_t clock_count;
    uint32_t breaker_level; /* that sleepers were told of */
    int64_t deadline_ns;    /* of the next turn */
    _Atomic uint64_t discontinuities;
};

struct scheduler_outcome {
    uint32_t stepped;      /* bit i: clock i reached a new step */
    bool snapshot_changed; /* the latch has to be written */
    int64_t deadline_ns;   /* real time of the next turn */
};

/* Begin at now_ns: game time is 0 and runs with real time; there are no step clocks yet. */
void scheduler_state_init(struct scheduler_state *state, int64_t now_ns);

/* Add a step clock whose step 0 is due now.
 *
 * Returns EC_OK, EC_ERR_PARAM (name or rate) or EC_ERR_LIMIT (EC_STEP_CLOCKS_MAX). */
int scheduler_state_add(struct scheduler_state *state, const char *name, uint32_t source,
                        uint64_t rate_num, uint64_t rate_den, int64_t now_ns, struct ec_error *why);

/* Write everything into a page that nobody reads yet. */
void scheduler_state_write(const struct scheduler_state *state, int64_t now_ns,
                           struct ec_clock_page *page);

void scheduler_turn(struct scheduler_state *state, int64_t now_ns,
                    struct scheduler_outcome *outcome);

/* Store what a turn found, and wake those who sleep on a clock that changed: one system call for
 * each such clock. Tells sleepers of a new breaker level, too. */
void scheduler_publish(struct scheduler_state *state, const struct scheduler_outcome *outcome,
                       int64_t now_ns, struct ec_clock_page *page);

#endif
