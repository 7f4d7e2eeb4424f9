/* rollback.c - checkpoints, and the way back.
 *
 * How the clocks on game time count changes rarely: when one is made, and with each new rate. Each time
 * a past is recorded, from which game time on which bases and periods hold. To go back to a time is to
 * find its past; a checkpoint carries its own. */
#include "scheduler/turn_private.h"

#include <string.h>

#include "segment/clock_arithmetic.h"

static void fill_past(const struct scheduler_state *state, int64_t game_ns, struct past *past)
{
    past->game_ns = game_ns;
    past->clock_count = state->clock_count;
    for (uint32_t i = 0; i < state->clock_count; i++)
        past->clock[i] = (struct past_clock) {
            .step = state->snapshot.step[i],
            .period_num = state->clock[i].period_num,
            .period_den = state->clock[i].period_den,
            .halved = state->clock[i].halved,
        };
}

void past_record(struct scheduler_state *state, int64_t game_ns)
{
    if (state->past_count == SCHEDULER_PASTS) {
        memmove(&state->past[0], &state->past[1], (SCHEDULER_PASTS - 1) * sizeof state->past[0]);
        state->past_count--;
    }
    fill_past(state, game_ns, &state->past[state->past_count++]);
}

void past_record_rate(struct scheduler_state *state, uint32_t clock, int64_t game_ns)
{
    past_record(state, game_ns);
    /* When time was put forward over several changes at once, they come in the order of the clocks. In
     * the list they stand by time: the later ones know of this one, and it does not know of them. */
    for (uint32_t at = state->past_count - 1; at > 0; at--) {
        struct past *later = &state->past[at - 1], *here = &state->past[at];
        struct past_clock changed = here->clock[clock];

        if (later->game_ns <= game_ns)
            break;
        *here = *later;
        here->clock[clock] = changed;
        if (at > 1)
            *later = state->past[at - 2];
        later->game_ns = game_ns;
        later->clock[clock] = changed;
    }
}

/* Game time from which on all can be undone. */
static int64_t oldest_ns(const struct scheduler_state *state, int64_t game_ns)
{
    int64_t known_ns = state->past_count > 0 ? state->past[0].game_ns : game_ns;
    int64_t kept_ns = game_ns - state->history_ns;

    return known_ns > kept_ns ? known_ns : kept_ns;
}

int rollback_checkpoint(struct scheduler_state *state, const struct order *order, int64_t now_ns,
                        struct report *report)
{
    uint64_t id = ++state->last_checkpoint;
    struct checkpoint *checkpoint = &state->checkpoint[id % SCHEDULER_CHECKPOINTS];
    struct ec_game_snapshot game = state->snapshot.game;

    ec_game_rebase(&game, now_ns, game.scale_num, game.scale_den);
    checkpoint->id = id;
    checkpoint->remainder = game.remainder;
    checkpoint->remainder_den = game.scale_den;
    fill_past(state, game.game0_ns, &checkpoint->past);
    if (order->u.copy != NULL)
        *order->u.copy = *checkpoint;
    report->checkpoint = id;
    report->game_ns = game.game0_ns;
    for (uint32_t i = 0; i < state->clock_count; i++)
        report->step[i] = state->clock[i].step;
    return EC_OK;
}

/* Step 0 is due now, at the rate that was ordered last. */
static void begin_again(struct scheduler_state *state, uint32_t i, int64_t game_ns)
{
    struct ec_step_snapshot *step = &state->snapshot.step[i];
    struct scheduler_clock *clock = &state->clock[i];

    step->base_ns = game_ns;
    step->fraction = step->n0 = step->until_step = 0;
    step->period_num = clock->period_num;
    step->period_den = clock->period_den;
    clock->halved = false; /* the next turn halves it again */
}

/* The clocks that follow game time go back; those on real time stay what they are. One that was made
 * after that moment would stand until the time of its making comes again: it begins anew instead. */
static void restore(struct scheduler_state *state, const struct past *past, int64_t game_ns)
{
    for (uint32_t i = 0; i < state->clock_count; i++) {
        struct scheduler_clock *clock = &state->clock[i];

        if (state->snapshot.step[i].source != EC_STEP_GAME)
            continue;
        if (i < past->clock_count) {
            state->snapshot.step[i] = past->clock[i].step;
            clock->period_num = past->clock[i].period_num;
            clock->period_den = past->clock[i].period_den;
            clock->halved = past->clock[i].halved;
        } else {
            begin_again(state, i, game_ns);
        }
        clock->step = ec_step_at(&state->snapshot.step[i], game_ns);
        clock->held = clock->drops = false;
        group_restart(state, i);
    }
}

/* What lay behind the moment that time went back to has not happened. */
static void forget(struct scheduler_state *state, int64_t game_ns)
{
    for (uint32_t i = 0; i < SCHEDULER_CHECKPOINTS; i++)
        if (state->checkpoint[i].past.game_ns > game_ns)
            state->checkpoint[i].id = 0;
    while (state->past_count > 1 && state->past[state->past_count - 1].game_ns > game_ns)
        state->past_count--;
}

/* The newest past is what holds now: it lacks clocks that were made later, which begin anew, and a
 * checkpoint may lie before all that is known. */
static void record_again(struct scheduler_state *state, int64_t game_ns)
{
    const struct past *newest = &state->past[state->past_count - 1];

    if (newest->game_ns > game_ns)
        state->past_count = 0;
    if (state->past_count == 0 || newest->clock_count < state->clock_count)
        past_record(state, game_ns);
}

int rollback(struct scheduler_state *state, const struct order *order, int64_t now_ns,
             struct report *report)
{
    const uint64_t id = order->u.back.checkpoint;
    struct checkpoint *checkpoint = &state->checkpoint[id % SCHEDULER_CHECKPOINTS];
    struct ec_game_snapshot *game = &state->snapshot.game;
    int64_t game_ns = turn_game_ns(state, now_ns);
    uint64_t remainder = 0, remainder_den = 1, num, den;
    const struct past *past;

    report->low_ns = oldest_ns(state, game_ns);
    report->high_ns = game_ns;
    if (id != 0) {
        if (checkpoint->id != id)
            return EC_ERR_NOT_FOUND;
        past = &checkpoint->past;
        game_ns = past->game_ns;
        remainder = checkpoint->remainder;
        remainder_den = checkpoint->remainder_den;
    } else {
        uint32_t i = state->past_count;

        game_ns = order->u.back.game_ns;
        if (game_ns < report->low_ns || game_ns > report->high_ns)
            return EC_ERR_NOT_FOUND;
        while (i > 1 && state->past[i - 1].game_ns > game_ns)
            i--;
        past = &state->past[i - 1];
    }
    game_wanted(state, &num, &den);
    game->scale_num = num;
    game->scale_den = den;
    ec_game_set(game, now_ns, game_ns, remainder, remainder_den);
    game->until_ns = EC_CLOCK_NEVER;
    game->epoch++;
    state->change = CHANGE_NONE;
    state->holding = false;
    state->advance.left = 0;
    restore(state, past, game_ns);
    forget(state, game_ns);
    record_again(state, game_ns);
    state->changed = state->tell = true;
    state->fresh = (1u << state->clock_count) - 1; /* each word says the epoch */
    report->game_ns = game_ns;
    for (uint32_t i = 0; i < state->clock_count; i++)
        report->step[i] = state->clock[i].step;
    return EC_OK;
}
