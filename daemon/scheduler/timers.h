/* timers.h - what is to be told when a time or a step has come: a hundred thousand at once, exactly.
 *
 * A timer belongs to a clock (real time, game time, a step clock) and is due at a number of it: ns, or a
 * step. It fires once, or again at every multiple: the grid is first + k * every, whatever the lateness
 * of a firing, so nothing drifts. Several multiples that passed at once are one firing with a count.
 *
 *     timers_arm(timers, &(struct timer_desc) { .clock = ALARM_REAL, .due = …, .every = … }, &id, why);
 *     while (timers_fire(timers, ALARM_REAL, now_ns, &firing))
 *         publish(&firing);
 *
 * Those of a clock lie in a heap of four children with the due times in line. One that has fired for
 * the last time is kept for a while, for roll-back: back there it has not fired yet, and is armed again.
 *
 * Thread: loop. Cost: arm, cancel and fire O(log n) of that clock's timers; they allocate when there are
 * more than ever before. */
#ifndef ENGINE_CORED_SCHEDULER_TIMERS_H
#define ENGINE_CORED_SCHEDULER_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

#include "foundation/error.h"
#include "scheduler/alarms.h"

struct timers;

#define TIMERS_MAX (1u << 20)

struct timer_desc {
    unsigned clock;      /* enum alarm_clock; ALARM_STEP + index */
    int64_t due;         /* ns or step */
    int64_t every;       /* 0: once */
    uint32_t owner;      /* client id */
    uint64_t event;      /* type to publish besides timer.fired; 0: none */
    const void *payload; /* of the event, copied */
    uint32_t payload_bytes;
};

struct timer_firing {
    uint64_t id;
    struct timer_desc desc; /* payload is valid until the next call; due: of this firing */
    uint64_t count;         /* firings so far, this included */
    uint64_t passed;        /* grid points that this one stands for; more than 1 when it is late */
};

/* maximum: timers at once, at most TIMERS_MAX, those kept for roll-back included. */
int timers_create(uint32_t maximum, struct timers **timers, struct ec_error *why);
void timers_destroy(struct timers *timers); /* accepts NULL */

/* All of one timer, as a later run of the daemon needs it. */
struct timer_kept {
    uint32_t slot, generation; /* the id; a free slot has one, too: it is not given out again */
    enum timer_life { TIMER_FREE, TIMER_ARMED, TIMER_FIRED } life; /* fired: kept for roll-back */
    struct timer_desc desc;                                        /* due: the next time */
    int64_t first, fired;
    uint64_t count;
};

/* From now on note is told of each timer that is armed, goes, or changes; of one that fires when that is
 * settled. What kept points to is the timers'. */
typedef void timers_note_fn(void *context, const struct timer_kept *kept);
void timers_watch(struct timers *timers, timers_note_fn *note, void *context);
void timers_note_all(const struct timers *timers); /* that there are, free slots included */

/* Take over what an earlier run left: rows[i] is slot i. Those that were armed are held. No timer was
 * made before; payloads are copied. Returns EC_OK, EC_ERR_LIMIT (more slots than maximum; those within are
 * taken over) or EC_ERR_MEMORY. */
int timers_restore(struct timers *timers, const struct timer_kept *rows, uint32_t count,
                   struct ec_error *why);

/* Its owner's connection broke: its timers stay, and do not fire before it is back. */
void timers_hold(struct timers *timers, uint32_t owner);
/* It is back: what was due meanwhile fires now. Returns how many were lost for want of memory. */
uint32_t timers_release(struct timers *timers, uint32_t owner);
uint32_t timers_held(const struct timers *timers);

/* Returns EC_OK, EC_ERR_LIMIT (there are too many) or EC_ERR_MEMORY. */
int timers_arm(struct timers *timers, const struct timer_desc *desc, uint64_t *id,
               struct ec_error *why);
/* Whose it is; 0: there is no such timer, armed or held. */
uint32_t timers_owner(const struct timers *timers, uint64_t id);
/* false: there is no such timer, or it belongs to another. */
bool timers_is_armed(const struct timers *timers, uint64_t id, uint32_t owner);
bool timers_cancel(struct timers *timers, uint64_t id, uint32_t owner);
void timers_cancel_owner(struct timers *timers, uint32_t owner);

uint32_t timers_armed(const struct timers *timers);
/* When the first of a clock is due; ALARM_NEVER: none. */
int64_t timers_first(const struct timers *timers, unsigned clock);

/* Take the first timer of a clock that is due at `now`. false: there is none. Once the firing is
 * published, settle it: one that was taken and not settled fires again in a later run. */
void timers_settle(struct timers *timers);
bool timers_fire(struct timers *timers, unsigned clock, int64_t now, struct timer_firing *firing);

/* The clock was set back to `now`: what fired after it is armed again; repeating ones go back to their
 * first grid point after it. */
void timers_set_back(struct timers *timers, unsigned clock, int64_t now);
/* No roll-back goes before `oldest` any more: forget what fired before. */
void timers_forget(struct timers *timers, unsigned clock, int64_t oldest);

/* Iterate over the armed ones and those that are held, in no order: begin with *at 0. false: no more. */
bool timers_next(const struct timers *timers, uint32_t *at, struct timer_firing *timer);

#endif
