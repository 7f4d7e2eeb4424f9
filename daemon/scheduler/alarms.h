/* alarms.h - when the main loop's timers are due, for the thread that can wake it in time.
 *
 * The main loop keeps the timers and sets, for each clock, when the first is due. The thread looks at
 * each turn, and takes an alarm that has come away, so that it rings once.
 *
 * Thread: alarms_set loop; the others step. */
#ifndef ENGINE_CORED_SCHEDULER_ALARMS_H
#define ENGINE_CORED_SCHEDULER_ALARMS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/clock_page.h"
#include "scheduler/turn.h"

#define ALARM_NEVER INT64_MAX

enum alarm_clock { ALARM_REAL, ALARM_GAME, ALARM_STEP /* and the index of the step clock */ };
#define ALARM_CLOCKS (ALARM_STEP + EC_STEP_CLOCKS_MAX)

struct alarms {
    _Atomic int64_t due[ALARM_CLOCKS]; /* ns, or a step; ALARM_NEVER: none */
};

static inline void alarms_init(struct alarms *alarms)
{
    for (unsigned i = 0; i < ALARM_CLOCKS; i++)
        atomic_init(&alarms->due[i], ALARM_NEVER);
}

static inline void alarms_set(struct alarms *alarms, unsigned clock, int64_t due)
{
    atomic_store_explicit(&alarms->due[clock], due, memory_order_relaxed); /* a kick comes behind */
}

/* Take away what is due after this turn. Whether anything was. */
bool alarms_ring(struct alarms *alarms, const struct scheduler_state *state, int64_t now_ns);

/* The real time of the next one that no step brings; EC_CLOCK_NEVER: none. */
int64_t alarms_deadline_ns(const struct alarms *alarms, const struct scheduler_state *state);

#endif
