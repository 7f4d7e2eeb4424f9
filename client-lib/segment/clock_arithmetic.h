/* segment/clock_arithmetic.h - step numbers, due times and game time, exact to the nanosecond.
 *
 * Time is integers, rates are fractions, products have 128 bits. A step is due at a moment rounded
 * *up* to whole ns, and the step of a time is rounded *down*: so a step's own due time gives that
 * step back, always. Nothing is ever added up, so nothing drifts: two processes that know the same
 * snapshot know the same steps, whenever they came.
 *
 *     real = 0        base                     time
 *      |---------------|-----|-----|-----|----->
 *                      n0   n0+1  n0+2  …        due(n) = base + ceil((fraction + (n - n0) P) / Q)
 *
 * When a rate or a scale changes, the snapshot is moved to that moment (`rebase`) with the remainder
 * that whole ns cannot express.
 *
 * Snapshots may come from another process: no value makes these functions trap, provided that
 * ec_game_valid and ec_step_valid say yes. Times beyond int64 become INT64_MAX.
 *
 * Thread: any; pure functions. Cost: a multiplication and a division. */
#ifndef EC_SEGMENT_CLOCK_ARITHMETIC_H
#define EC_SEGMENT_CLOCK_ARITHMETIC_H

#include <stdbool.h>
#include <stdint.h>

#include <engine-core/error.h>

#include "proto/clock_page.h"

#define EC_PERIOD_NS_MIN INT64_C(100000)        /* 10 kHz */
#define EC_PERIOD_NS_MAX INT64_C(3600000000000) /* 1/3600 Hz */

__extension__ typedef unsigned __int128 ec_u128; /* ISO C has no name for it */

/* A rate in Hz as the reduced fraction of a period in ns, and back.
 *
 * Returns EC_OK or EC_ERR_PARAM (a zero; shorter or longer than the limits above; a fraction that
 * needs terms of EC_PERIOD_TERM_MAX). */
int ec_period_of_rate(uint64_t rate_num, uint64_t rate_den, uint64_t *period_num,
                      uint64_t *period_den);
void ec_rate_of_period(uint64_t period_num, uint64_t period_den, uint64_t *rate_num,
                       uint64_t *rate_den);

/* What a snapshot must be so that the functions below do not divide by zero or leave their range. */
bool ec_game_valid(const struct ec_game_snapshot *game);
bool ec_step_valid(const struct ec_step_snapshot *step);

/* When a step is due, in time of its source. Steps before n0 are not known any more: base_ns. */
int64_t ec_step_due_ns(const struct ec_step_snapshot *step, uint64_t number);

/* The last step that is due at or before source_ns; at least n0. */
uint64_t ec_step_at(const struct ec_step_snapshot *step, int64_t source_ns);

/* How far source_ns is from the due time of a step to that of the next, 0 to 1. */
double ec_step_fraction(const struct ec_step_snapshot *step, uint64_t number, int64_t source_ns);

/* From step `number` on the period is period_num/period_den, as ec_period_of_rate gives it.
 *
 * Returns EC_OK, or EC_AGAIN: the common denominator is too large, the remainder was rounded down to
 * the new one (an error below 1 ns). */
int ec_step_rebase(struct ec_step_snapshot *step, uint64_t number, uint64_t period_num,
                   uint64_t period_den);

/* Carry an announced change of the period out: what the clock is from until_step on. As ec_step_rebase. */
int ec_step_rebase_announced(struct ec_step_snapshot *step);

/* Game time at a real time. A real time before real0 counts as real0. */
static inline int64_t ec_game_at(const struct ec_game_snapshot *game, int64_t real_ns)
{
    uint64_t since = real_ns > game->real0_ns ? (uint64_t)real_ns - (uint64_t)game->real0_ns : 0;

    /* At scale 1 the remainder stays what it is, and the division would cost more than all the rest. */
    if (game->scale_num != game->scale_den)
        since = (uint64_t)(((ec_u128)since * game->scale_num + game->remainder) / game->scale_den);
    return (int64_t)((uint64_t)game->game0_ns + since);
}

/* The first real time at which game time is game_ns or later; INT64_MAX when it stands before. */
int64_t ec_game_real_ns(const struct ec_game_snapshot *game, int64_t game_ns);

/* From real_ns on game time goes at scale_num/scale_den (at most EC_SCALE_MAX; num 0 stands; den up
 * to EC_SCALE_DEN_MAX). Returns as ec_step_rebase. */
int ec_game_rebase(struct ec_game_snapshot *game, int64_t real_ns, uint64_t scale_num,
                   uint64_t scale_den);

/* From real_ns on game time is game_ns + remainder/remainder_den, and goes on at its scale. */
int ec_game_set(struct ec_game_snapshot *game, int64_t real_ns, int64_t game_ns, uint64_t remainder,
                uint64_t remainder_den);

#endif
