/* alarms.c - see alarms.h. */
#include "scheduler/alarms.h"

#include "segment/clock_arithmetic.h"

static int64_t now_on(const struct scheduler_state *state, unsigned clock, int64_t now_ns)
{
    if (clock == ALARM_REAL)
        return now_ns;
    if (clock == ALARM_GAME)
        return ec_game_at(&state->snapshot.game, now_ns);
    return (int64_t)state->clock[clock - ALARM_STEP].step;
}

bool alarms_ring(struct alarms *alarms, const struct scheduler_state *state, int64_t now_ns)
{
    bool rings = false;

    for (unsigned i = 0; i < ALARM_STEP + state->clock_count; i++) {
        int64_t due = atomic_load_explicit(&alarms->due[i], memory_order_relaxed);

        /* One that the main loop set meanwhile stays: it is looked at in the turn that follows. */
        if (due != ALARM_NEVER && due <= now_on(state, i, now_ns))
            rings |= atomic_compare_exchange_strong_explicit(
                &alarms->due[i], &due, ALARM_NEVER, memory_order_relaxed, memory_order_relaxed);
    }
    return rings;
}

int64_t alarms_deadline_ns(const struct alarms *alarms, const struct scheduler_state *state)
{
    const struct ec_clock_snapshot *snapshot = &state->snapshot;
    int64_t real_ns = atomic_load_explicit(&alarms->due[ALARM_REAL], memory_order_relaxed);
    int64_t game_ns = atomic_load_explicit(&alarms->due[ALARM_GAME], memory_order_relaxed);

    if (game_ns == ALARM_NEVER)
        return real_ns;
    game_ns = ec_game_real_ns(&snapshot->game, game_ns);
    if (game_ns >= snapshot->game.until_ns) /* look again when that has come */
        game_ns = snapshot->game.until_ns;
    return game_ns < real_ns ? game_ns : real_ns;
}
