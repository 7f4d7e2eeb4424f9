/* turn.c - one turn of the scheduler: which steps were reached, and when the next one is due. */
#include "scheduler/turn.h"

#include <inttypes.h>
#include <string.h>

#include "foundation/futex.h"
#include "segment/clock_arithmetic.h"
#include "segment/clock_page.h"

static void count_one(_Atomic uint64_t *counter, uint64_t n)
{
    /* One writer: no read-modify-write needed. */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* Now, on the clock that the steps follow. */
static int64_t source_now_ns(const struct scheduler_state *state, uint32_t i, int64_t now_ns)
{
    return state->snapshot.step[i].source == EC_STEP_GAME
               ? ec_game_at(&state->snapshot.game, now_ns)
               : now_ns;
}

/* The real time at which a step is due; INT64_MAX while its source stands. */
static int64_t real_due_ns(const struct scheduler_state *state, uint32_t i, uint64_t step)
{
    int64_t due_ns = ec_step_due_ns(&state->snapshot.step[i], step);

    return state->snapshot.step[i].source == EC_STEP_GAME
               ? ec_game_real_ns(&state->snapshot.game, due_ns)
               : due_ns;
}

void scheduler_state_init(struct scheduler_state *state, int64_t now_ns)
{
    memset(state, 0, sizeof *state);
    state->snapshot.game =
        (struct ec_game_snapshot) { .real0_ns = now_ns, .scale_num = 1, .scale_den = 1 };
    state->deadline_ns = now_ns;
}

int scheduler_state_add(struct scheduler_state *state, const char *name, uint32_t source,
                        uint64_t rate_num, uint64_t rate_den, int64_t now_ns, struct ec_error *why)
{
    uint32_t i = state->clock_count;
    size_t bytes = strlen(name);
    struct ec_step_snapshot *step;

    if (i == EC_STEP_CLOCKS_MAX)
        return ec_fail(why, EC_ERR_LIMIT, "step clock %s: there are %d already", name,
                       EC_STEP_CLOCKS_MAX);
    if (bytes == 0 || bytes >= EC_STEP_NAME_BYTES)
        return ec_fail(why, EC_ERR_PARAM, "name of a step clock has %zu bytes, expected 1 to %d",
                       bytes, EC_STEP_NAME_BYTES - 1);
    step = &state->snapshot.step[i];
    if (ec_period_of_rate(rate_num, rate_den, &step->period_num, &step->period_den) != EC_OK)
        return ec_fail(why, EC_ERR_PARAM,
                       "rate of step clock %s is %" PRIu64 "/%" PRIu64
                       " Hz, expected 1/3600 to 10000",
                       name, rate_num, rate_den);
    memcpy(step->name, name, bytes + 1);
    step->source = source;
    state->clock_count = i + 1; /* from here on source_now_ns knows it */
    step->base_ns = source_now_ns(state, i, now_ns);
    return EC_OK;
}

static void publish_step(const struct scheduler_state *state, uint32_t i,
                         struct ec_clock_page *page)
{
    const struct ec_step_snapshot *step = &state->snapshot.step[i];
    uint64_t number = state->clock[i].step;

    ec_step_word_publish(&page->step[i], number, ec_step_due_ns(step, number),
                         ec_step_due_ns(step, number + 1));
}

void scheduler_state_write(const struct scheduler_state *state, int64_t now_ns,
                           struct ec_clock_page *page)
{
    ec_clock_page_write(page, &state->snapshot);
    for (uint32_t i = 0; i < state->clock_count; i++)
        publish_step(state, i, page);
    atomic_store_explicit(&page->heartbeat_ns, now_ns, memory_order_relaxed);
}

/* Move a clock to the step that is due now. Whether there is a new one. */
static bool advance(struct scheduler_state *state, uint32_t i, int64_t now_ns, bool gap)
{
    struct scheduler_clock *clock = &state->clock[i];
    uint64_t reached = ec_step_at(&state->snapshot.step[i], source_now_ns(state, i, now_ns));

    if (reached <= clock->step)
        return false;
    if (!gap) /* how late the thread was for the first step that it had to announce */
        ec_histogram_add(&clock->jitter,
                         (uint64_t)(now_ns - real_due_ns(state, i, clock->step + 1)));
    count_one(&clock->missed, reached - clock->step - 1);
    clock->step = reached;
    return true;
}

void scheduler_turn(struct scheduler_state *state, int64_t now_ns,
                    struct scheduler_outcome *outcome)
{
    bool gap = now_ns > state->deadline_ns && now_ns - state->deadline_ns > SCHEDULER_GAP_NS;

    *outcome = (struct scheduler_outcome) { .deadline_ns = now_ns + SCHEDULER_HEARTBEAT_NS };
    if (gap) {
        state->snapshot.game.epoch++;
        count_one(&state->discontinuities, 1);
        outcome->snapshot_changed = true;
    }
    for (uint32_t i = 0; i < state->clock_count; i++) {
        int64_t next_ns;

        if (advance(state, i, now_ns, gap))
            outcome->stepped |= 1u << i;
        next_ns = real_due_ns(state, i, state->clock[i].step + 1);
        if (next_ns < outcome->deadline_ns)
            outcome->deadline_ns = next_ns;
    }
    state->deadline_ns = outcome->deadline_ns;
}

void scheduler_publish(struct scheduler_state *state, const struct scheduler_outcome *outcome,
                       int64_t now_ns, struct ec_clock_page *page)
{
    /* acquire: partner is the main loop's release store of the level; what it wrote before is older
     * than what sleepers are told here. */
    uint32_t level = atomic_load_explicit(&page->breaker_level, memory_order_acquire);
    bool all = outcome->snapshot_changed || level != state->breaker_level;

    state->breaker_level = level;
    atomic_store_explicit(&page->heartbeat_ns, now_ns, memory_order_relaxed);
    if (outcome->snapshot_changed)
        ec_clock_page_write(page, &state->snapshot);
    for (uint32_t i = 0; i < state->clock_count; i++) {
        if (outcome->stepped >> i & 1)
            publish_step(state, i, page);
        else if (all)
            ec_step_word_touch(&page->step[i]);
        else
            continue;
        ec_futex_wake_all(&page->step[i].change);
    }
}
