/* game.c - how game time runs, and changes.
 *
 *   snapshot.game        |  snapshot.game_next
 *   ---------------------+------------------------>  real time
 *   holds until          until_ns
 *
 * There is one announced change at a time: what was ordered, or where game time is to stand for a slow
 * clock (hold). A reader that knows the announcement needs no further word when the moment comes; the
 * turn that comes then makes room for the next. */
#include "scheduler/turn_private.h"

#include "segment/clock_arithmetic.h"

static void set_now(struct scheduler_state *state, int64_t now_ns, uint64_t num, uint64_t den)
{
    struct ec_game_snapshot *game = &state->snapshot.game;

    ec_game_rebase(game, now_ns, num, den);
    game->until_ns = EC_CLOCK_NEVER;
    state->change = CHANGE_NONE;
    state->changed = state->tell = true;
}

static void announce(struct scheduler_state *state, enum change change, int64_t at_ns, uint64_t num,
                     uint64_t den)
{
    struct ec_clock_snapshot *snapshot = &state->snapshot;

    snapshot->game_next = snapshot->game;
    snapshot->game_next.until_ns = EC_CLOCK_NEVER;
    ec_game_rebase(&snapshot->game_next, at_ns, num, den);
    snapshot->game.until_ns = at_ns;
    state->change = change;
    state->changed = true;
}

void game_wanted(const struct scheduler_state *state, uint64_t *num, uint64_t *den)
{
    bool stands = state->paused || state->driven >= 0;

    *num = stands ? 0 : state->scale_num;
    *den = stands ? 1 : state->scale_den;
}

void game_fold(struct scheduler_state *state, int64_t now_ns)
{
    struct ec_clock_snapshot *snapshot = &state->snapshot;

    if (now_ns < snapshot->game.until_ns)
        return;
    if (state->change == CHANGE_HOLD) {
        state->holding = true;
        state->holding_since_ns = snapshot->game.until_ns;
    }
    snapshot->game_next.epoch = snapshot->game.epoch;
    snapshot->game = snapshot->game_next;
    state->change = CHANGE_NONE;
    state->changed = true;
}

/* The next boundary of the fastest clock on game time, far enough ahead to be announced. */
static int64_t boundary_ns(const struct scheduler_state *state, int64_t now_ns)
{
    int64_t earliest_ns = now_ns + SCHEDULER_ANNOUNCE_NS;
    int64_t latest_ns = now_ns + SCHEDULER_CHANGE_NS;
    double fastest_ns = (double)SCHEDULER_CHANGE_NS;
    int64_t at_ns = earliest_ns;

    for (uint32_t i = 0; i < state->clock_count; i++) {
        const struct ec_step_snapshot *step = &state->snapshot.step[i];
        double period_ns = (double)step->period_num / (double)step->period_den;
        int64_t due_ns;

        if (step->source != EC_STEP_GAME || period_ns > fastest_ns)
            continue;
        due_ns = turn_due_ns(state, i, ec_step_at(step, turn_game_ns(state, earliest_ns)) + 1);
        if (due_ns <= latest_ns) {
            fastest_ns = period_ns;
            at_ns = due_ns;
        }
    }
    return at_ns;
}

int64_t game_change(struct scheduler_state *state, int64_t now_ns)
{
    struct ec_game_snapshot *game = &state->snapshot.game;
    int64_t at_ns;
    uint64_t num, den;

    game_wanted(state, &num, &den);
    if (state->holding && num != 0)
        return now_ns;          /* it goes on so when the slow clock does */
    if (game->scale_num == 0) { /* a later start than a reader thinks is no step back */
        state->holding = false;
        set_now(state, now_ns, num, den);
        return now_ns;
    }
    if ((ec_u128)game->scale_num * den == (ec_u128)num * game->scale_den &&
        state->change != CHANGE_ORDERED)
        return now_ns;
    at_ns = boundary_ns(state, now_ns);
    /* Readers that know what was announced before hold it to be so from there on: no later. */
    if (state->change != CHANGE_NONE && game->until_ns < at_ns)
        at_ns = game->until_ns;
    announce(state, CHANGE_ORDERED, at_ns, num, den);
    state->tell = true;
    return at_ns;
}

void game_jump(struct scheduler_state *state, int64_t game_ns, int64_t now_ns)
{
    struct ec_game_snapshot *game = &state->snapshot.game;

    if (game_ns > turn_game_ns(state, now_ns))
        ec_game_set(game, now_ns, game_ns, 0, 1);
    state->changed = true;
}

/* Where game time has to stand at the latest: before a second late step of a slow clock is due. */
static int64_t hold_game_ns(const struct scheduler_state *state)
{
    int64_t hold_ns = EC_CLOCK_NEVER;

    for (uint32_t i = 0; i < state->clock_count; i++) {
        const struct ec_step_snapshot *step = &state->snapshot.step[i];
        int64_t second_ns;

        if (state->clock[i].late != LATE_SLOW || step->source != EC_STEP_GAME)
            continue;
        second_ns = ec_step_due_ns(step, state->clock[i].step + 2) - 1;
        if (second_ns < hold_ns)
            hold_ns = second_ns;
    }
    return hold_ns;
}

void game_hold(struct scheduler_state *state, int64_t now_ns)
{
    struct ec_game_snapshot *game = &state->snapshot.game;
    int64_t hold_ns = hold_game_ns(state);
    int64_t at_ns;
    uint64_t num, den;

    if (state->holding && hold_ns > turn_game_ns(state, now_ns)) {
        state->holding = false;
        count_one(&state->stretched_ns, (uint64_t)(now_ns - state->holding_since_ns));
        game_wanted(state, &num, &den);
        set_now(state, now_ns, num, den);
    }
    if (hold_ns == EC_CLOCK_NEVER || state->change == CHANGE_ORDERED || game->scale_num == 0)
        return;
    at_ns = ec_game_real_ns(game, hold_ns);
    if (at_ns != game->until_ns && at_ns < EC_CLOCK_NEVER)
        announce(state, CHANGE_HOLD, at_ns < now_ns ? now_ns : at_ns, 0, 1);
}
