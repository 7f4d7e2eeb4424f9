/* turn.h - what the scheduler does each time it wakes, without threads and without a clock.
 *
 * A turn is told what time it is. It carries out what was ordered, finds which steps were reached, says
 * what has to be published and when the next turn is due; then the page is written and sleepers are
 * woken. So thirty days pass in a test in a moment.
 *
 *     while ((order = …) != NULL && !scheduler_must_wait(&state, order))
 *         scheduler_order(&state, order, now_ns);
 *     scheduler_turn(&state, now_ns, &outcome);
 *     scheduler_publish(&state, &outcome, now_ns, page);
 *     … hand on state.report[0..report_count), sleep until outcome.deadline_ns …
 *
 * Changes of game time (pause, resume, scale) take effect at the next boundary of the fastest clock
 * that follows it, at least SCHEDULER_ANNOUNCE_NS from now and at most 100 ms, and are announced in the
 * page before; at once while game time stands. A new rate holds from a clock's next step on.
 *
 * What happens to steps that come late is a clock's policy:
 *
 *   skip     only the newest is announced; the others are counted and left out
 *   burst N  up to N late ones are made up for, what is more is left out
 *   slow     game time waits: it stands just before a second step would be due (no step is left out)
 *
 * The base of a clock never moves, however late a turn is. A turn that comes more than SCHEDULER_GAP_NS
 * after its deadline (the host or the process stood still) is a discontinuity: the epoch rises, late
 * steps are left out whatever the policy, and it is no jitter.
 *
 * A required member of a clock's group holds the next step back until it has finished the last one, or
 * its budget is over: then it is released, and required again once it finishes anything (group.c).
 *
 * Roll-back sets game time back to a checkpoint or to a time, and the clocks on game time with it, with
 * the rates that they had then; scale and pause stay as they are (rollback.c).
 *
 * Thread: step; counts and histograms may be read from any. Nothing here allocates. */
#ifndef ENGINE_CORED_SCHEDULER_TURN_H
#define ENGINE_CORED_SCHEDULER_TURN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "foundation/error.h"
#include "foundation/futex.h"
#include "proto/clock_page.h"
#include "proto/histogram.h"
#include "scheduler/jitter.h"
#include "scheduler/order.h"

#define SCHEDULER_GAP_NS INT64_C(1000000000)
#define SCHEDULER_HEARTBEAT_NS INT64_C(250000000) /* a turn at least so often, whatever is due */
#define SCHEDULER_ANNOUNCE_NS INT64_C(2000000)    /* before an effect; more than a turn can take */
#define SCHEDULER_CHANGE_NS INT64_C(100000000)    /* no change of game time waits for longer */
#define SCHEDULER_PATIENCE_NS INT64_C(1000000000) /* of a report, for a boundary that is far away */

#define SCHEDULER_CHECKPOINTS 32 /* the oldest goes */
#define SCHEDULER_PASTS 64       /* changes of rate that roll-back can undo */
#define SCHEDULER_MEMBERS 128
#define SCHEDULER_WAITS 256 /* as many as there are orders */

struct scheduler_clock {
    uint64_t step;                   /* the newest that was announced */
    int64_t announced_ns;            /* when */
    uint64_t period_num, period_den; /* as ordered; the snapshot has what holds */
    bool halved;                     /* by the breaker */
    bool held;                       /* a step is due, but required members are not ready */
    bool drops;                      /* there was a gap: late steps are left out when it goes on */
    bool halvable;
    enum late_policy late;
    uint32_t burst;
    int64_t spin_ns;
    uint32_t required;           /* members */
    _Atomic uint64_t missed;     /* steps that were left out because they were late */
    struct ec_histogram jitter;  /* how long after its due time a step was seen */
    struct recent_jitter recent; /* the same, of the last minute */
};

/* One clock on game time as it was. */
struct past_clock {
    struct ec_step_snapshot step;
    uint64_t period_num, period_den;
    bool halved;
};

/* All of them, from a game time on. */
struct past {
    int64_t game_ns;
    uint32_t clock_count;
    struct past_clock clock[EC_STEP_CLOCKS_MAX];
};

struct checkpoint {
    uint64_t id;                       /* 0: unused */
    uint64_t remainder, remainder_den; /* of game_ns */
    struct past past;
};

struct scheduler_member {
    struct order_member desc; /* record NULL: unused */
    uint32_t clock;
    uint64_t from;    /* the first step that waits for it to finish */
    uint32_t left_at; /* what done said when it was released */
    _Atomic uint32_t released;
    _Atomic uint64_t releases;
};

enum change { CHANGE_NONE, CHANGE_ORDERED, CHANGE_HOLD };

enum wait_kind { WAIT_NONE, WAIT_GAME, WAIT_RATE, WAIT_ADVANCE };

/* A report that waits for its effect. */
struct wait {
    enum wait_kind kind;
    uint32_t clock;
    uint64_t step;       /* of WAIT_RATE: the boundary */
    int64_t deadline_ns; /* reported then at the latest */
    struct report report;
};

struct scheduler_state {
    struct ec_clock_snapshot snapshot; /* what the page holds, or will after the next publish */
    struct scheduler_clock clock[EC_STEP_CLOCKS_MAX];
    uint32_t clock_count;
    bool halve;              /* clocks that allow it: the breaker's wish; set it before a turn */
    uint32_t breaker_change; /* another number: levels changed; set it before a turn */
    uint32_t breaker_told;   /* that sleepers were told of */
    _Atomic uint32_t halved_count; /* clocks at half their rate, or soon */
    int64_t deadline_ns;           /* of the next turn */
    _Atomic uint64_t discontinuities;
    _Atomic int64_t gap_ns; /* the last one */

    uint64_t scale_num, scale_den; /* as ordered */
    bool paused;
    _Atomic int driven; /* the clock that runs as fast as possible and drives game time; -1: none */
    enum change change; /* what game_next is */
    bool holding;       /* game time stands, for a slow clock */
    int64_t holding_since_ns;
    _Atomic uint64_t stretched_ns; /* real time for which it stood so */
    bool changed;                  /* the snapshot, since the last publish */
    bool tell;                     /* sleepers, of a change */
    uint32_t fresh;                /* bit i: clock i was made or set back; publish its step */

    struct {
        uint64_t left, made; /* steps */
        uint32_t clock;
    } advance;
    bool drive_waits; /* time is put forward by steps, and members are not ready for the next */

    struct checkpoint checkpoint[SCHEDULER_CHECKPOINTS];
    uint64_t last_checkpoint; /* id */
    int64_t history_ns;       /* game time that can be undone */
    struct past past[SCHEDULER_PASTS];
    uint32_t past_count;

    struct scheduler_member member[SCHEDULER_MEMBERS];
    _Atomic uint64_t releases; /* of all members */

    struct wait wait[SCHEDULER_WAITS];
    uint32_t wait_count;
    struct report report[SCHEDULER_WAITS]; /* to hand on after the publish */
    uint32_t report_count;
};

struct scheduler_outcome {
    uint32_t stepped;      /* bit i: clock i reached a new step */
    bool snapshot_changed; /* the latch has to be written */
    bool tell;             /* wake all sleepers: they wait for something else now */
    int64_t deadline_ns;   /* real time of the next turn */
    int64_t spin_ns;       /* do not sleep for the last of it */
    /* Words whose change makes a turn, too: of members that hold a step back. */
    struct ec_futex_word words[EC_STEP_CLOCKS_MAX + 1];
    unsigned word_count;
};

/* Begin at now_ns: game time is 0 and runs with real time; there are no step clocks yet. */
void scheduler_state_init(struct scheduler_state *state, int64_t now_ns);

/* Add a step clock whose step 0 is due now. The period as ec_period_of_rate gives it.
 *
 * Returns EC_OK, EC_ERR_STATE (the name is taken) or EC_ERR_LIMIT (EC_STEP_CLOCKS_MAX). */
int scheduler_state_add(struct scheduler_state *state, const struct order_clock *desc,
                        uint64_t period_num, uint64_t period_den, int64_t now_ns);

/* Write everything into a page that nobody reads yet. */
void scheduler_state_write(struct scheduler_state *state, int64_t now_ns,
                           struct ec_clock_page *page);

/* Whether an order has to wait for the one before it to take effect. */
bool scheduler_must_wait(const struct scheduler_state *state, const struct order *order);

/* Carry an order out. Its report is in state->report now or after a later turn. */
void scheduler_order(struct scheduler_state *state, const struct order *order, int64_t now_ns);

void scheduler_turn(struct scheduler_state *state, int64_t now_ns,
                    struct scheduler_outcome *outcome);

/* Store what a turn found, and wake those who sleep on a clock that changed: one system call for
 * each such clock. Tells sleepers of new breaker levels, too. */
void scheduler_publish(struct scheduler_state *state, const struct scheduler_outcome *outcome,
                       int64_t now_ns, struct ec_clock_page *page);

#endif
