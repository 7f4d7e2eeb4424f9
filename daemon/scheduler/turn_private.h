/* turn_private.h - what the files of a turn (turn.c, game.c, rollback.c, group.c) share. */
#ifndef ENGINE_CORED_SCHEDULER_TURN_PRIVATE_H
#define ENGINE_CORED_SCHEDULER_TURN_PRIVATE_H

#include "scheduler/turn.h"

static inline void count_one(_Atomic uint64_t *counter, uint64_t n)
{
    /* One writer: no read-modify-write needed. */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* ---- turn.c: what time it is on which clock ---- */

int64_t turn_game_ns(const struct scheduler_state *state, int64_t now_ns);
int64_t turn_source_ns(const struct scheduler_state *state, uint32_t clock, int64_t now_ns);
/* The real time at which a step is due; EC_CLOCK_NEVER while its source stands. */
int64_t turn_due_ns(const struct scheduler_state *state, uint32_t clock, uint64_t step);

/* ---- game.c: how game time runs ---- */

/* Carry out what was announced and is due. */
void game_fold(struct scheduler_state *state, int64_t now_ns);
/* Make game time run as state says (scale, paused, driven). Returns when it will. */
int64_t game_change(struct scheduler_state *state, int64_t now_ns);
/* Put game time to a moment of a step; it stands, and goes on from there if it is to run. */
void game_jump(struct scheduler_state *state, int64_t game_ns, int64_t now_ns);
/* Scale as it is to be now, 0 when game time is to stand. */
void game_wanted(const struct scheduler_state *state, uint64_t *num, uint64_t *den);
/* The slow policy: let game time go on, and say where it is to stand if nobody comes in time. */
void game_hold(struct scheduler_state *state, int64_t now_ns);

/* ---- rollback.c ---- */

void past_record(struct scheduler_state *state, int64_t game_ns);
/* The same when a clock's rate changed at game_ns, which may lie before changes that are recorded. */
void past_record_rate(struct scheduler_state *state, uint32_t clock, int64_t game_ns);
int rollback_checkpoint(struct scheduler_state *state, const struct order *order, int64_t now_ns,
                        struct report *report);
int rollback(struct scheduler_state *state, const struct order *order, int64_t now_ns,
             struct report *report);

/* ---- group.c ---- */

/* Whether all required members are ready for the step after the newest. If not, outcome (may be NULL)
 * gets what to wait for. Releases those whose budget is over. */
bool group_is_ready(struct scheduler_state *state, uint32_t clock, int64_t now_ns,
                    struct scheduler_outcome *outcome);
void group_join(struct scheduler_state *state, uint32_t clock, uint32_t slot,
                const struct order_member *desc);
void group_leave(struct scheduler_state *state, uint32_t slot);
/* After a roll-back: all members have to come to the step that is newest now. */
void group_restart(struct scheduler_state *state, uint32_t clock);
/* The clock whose group wants to run as fast as possible, and can; -1: none. */
int group_driving(const struct scheduler_state *state);

#endif
