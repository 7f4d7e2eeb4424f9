/* turn.c - one turn of the scheduler: which steps were reached, and when the next one is due. */
#include "scheduler/turn_private.h"

#include <string.h>

#include "segment/clock_arithmetic.h"
#include "segment/clock_page.h"

/* ---- what time it is ------------------------------------------------------------------------- */

int64_t turn_game_ns(const struct scheduler_state *state, int64_t now_ns)
{
    return ec_game_at(&state->snapshot.game, now_ns);
}

int64_t turn_source_ns(const struct scheduler_state *state, uint32_t i, int64_t now_ns)
{
    return state->snapshot.step[i].source == EC_STEP_GAME ? turn_game_ns(state, now_ns) : now_ns;
}

int64_t turn_due_ns(const struct scheduler_state *state, uint32_t i, uint64_t step)
{
    const struct ec_clock_snapshot *snapshot = &state->snapshot;
    int64_t due_ns = ec_step_due_ns(&snapshot->step[i], step);
    int64_t real_ns;

    if (snapshot->step[i].source != EC_STEP_GAME)
        return due_ns;
    real_ns = ec_game_real_ns(&snapshot->game, due_ns);
    return real_ns < snapshot->game.until_ns || state->change == CHANGE_NONE
               ? real_ns
               : ec_game_real_ns(&snapshot->game_next, due_ns);
}

/* ---- the beginning --------------------------------------------------------------------------- */

void scheduler_state_init(struct scheduler_state *state, int64_t now_ns)
{
    memset(state, 0, sizeof *state);
    state->snapshot.game = (struct ec_game_snapshot) {
        .real0_ns = now_ns, .scale_num = 1, .scale_den = 1, .until_ns = EC_CLOCK_NEVER
    };
    state->snapshot.game_next = state->snapshot.game;
    state->scale_num = state->scale_den = 1;
    state->driven = -1;
    state->deadline_ns = now_ns;
    state->history_ns = INT64_MAX / 2;
    past_record(state, 0);
}

int scheduler_state_add(struct scheduler_state *state, const struct order_clock *desc,
                        uint64_t period_num, uint64_t period_den, int64_t now_ns)
{
    uint32_t i = state->clock_count;
    struct ec_step_snapshot *step = &state->snapshot.step[i];

    for (uint32_t other = 0; other < i; other++)
        if (strncmp(state->snapshot.step[other].name, desc->name, EC_STEP_NAME_BYTES) == 0)
            return EC_ERR_STATE;
    if (i == EC_STEP_CLOCKS_MAX)
        return EC_ERR_LIMIT;
    *step = (struct ec_step_snapshot) { .source = desc->source,
                                        .period_num = period_num,
                                        .period_den = period_den };
    memcpy(step->name, desc->name, sizeof step->name);
    state->clock_count = i + 1;
    step->base_ns = turn_source_ns(state, i, now_ns);
    state->clock[i].period_num = period_num;
    state->clock[i].period_den = period_den;
    state->clock[i].late = desc->late;
    state->clock[i].burst = desc->burst;
    state->clock[i].halvable = desc->halvable;
    state->clock[i].spin_ns = desc->spin_ns;
    state->clock[i].announced_ns = now_ns;
    past_record(state, turn_game_ns(state, now_ns));
    state->fresh |= 1u << i;
    state->changed = state->tell = true;
    return EC_OK;
}

/* ---- orders ---------------------------------------------------------------------------------- */

bool scheduler_must_wait(const struct scheduler_state *state, const struct order *order)
{
    switch (order->kind) {
    case ORDER_PAUSE:
    case ORDER_RESUME:
    case ORDER_SCALE:
    case ORDER_ROLLBACK:
    case ORDER_ADVANCE:
        return state->change == CHANGE_ORDERED;
    default:
        return false;
    }
}

static void report_now(struct scheduler_state *state, const struct report *report)
{
    state->report[state->report_count++] = *report;
}

static void report_later(struct scheduler_state *state, const struct wait *wait)
{
    state->wait[state->wait_count++] = *wait;
}

static void report_wait(struct scheduler_state *state, uint32_t at)
{
    report_now(state, &state->wait[at].report);
    state->wait[at] = state->wait[--state->wait_count];
}

/* Game time runs otherwise from some moment on; the report comes then. */
static void order_game(struct scheduler_state *state, struct report *report, int64_t now_ns)
{
    report->effective_ns = game_change(state, now_ns);
    if (report->effective_ns <= now_ns)
        report_now(state, report);
    else
        report_later(
            state,
            &(struct wait) { .kind = WAIT_GAME, .deadline_ns = EC_CLOCK_NEVER, .report = *report });
}

/* The period that is to hold: as ordered, doubled while the breaker asks for it. */
static void announce_period(struct scheduler_state *state, uint32_t i)
{
    struct scheduler_clock *clock = &state->clock[i];
    struct ec_step_snapshot *step = &state->snapshot.step[i];
    uint64_t num = clock->period_num, den = clock->period_den;

    if (clock->halved) {
        if (den % 2 == 0)
            den /= 2;
        else
            num *= 2;
    }
    step->until_step = clock->step + 1;
    step->next_period_num = num;
    step->next_period_den = den;
    state->changed = state->tell = true;
}

static void order_rate(struct scheduler_state *state, const struct order *order,
                       struct report *report, int64_t now_ns)
{
    struct scheduler_clock *clock = &state->clock[order->clock];

    clock->period_num = order->u.ratio.num;
    clock->period_den = order->u.ratio.den;
    announce_period(state, order->clock);
    report->effective_ns = turn_due_ns(state, order->clock, clock->step + 1);
    if (report->effective_ns == EC_CLOCK_NEVER)
        report_now(state, report);
    else
        report_later(state, &(struct wait) { .kind = WAIT_RATE,
                                             .clock = order->clock,
                                             .step = clock->step + 1,
                                             .deadline_ns = now_ns + SCHEDULER_PATIENCE_NS,
                                             .report = *report });
}

static void order_advance(struct scheduler_state *state, const struct order *order,
                          struct report *report, int64_t now_ns)
{
    if (!state->paused || state->snapshot.step[order->clock].source != EC_STEP_GAME ||
        state->advance.left > 0) {
        report->rc = EC_ERR_STATE;
        report_now(state, report);
        return;
    }
    state->advance.clock = order->clock;
    state->advance.left = order->u.steps;
    state->advance.made = 0;
    report->effective_ns = now_ns;
    report_later(state, &(struct wait) { .kind = WAIT_ADVANCE,
                                         .clock = order->clock,
                                         .deadline_ns = EC_CLOCK_NEVER,
                                         .report = *report });
}

void scheduler_order(struct scheduler_state *state, const struct order *order, int64_t now_ns)
{
    struct report report = { .token = order->token, .kind = order->kind, .effective_ns = now_ns };

    game_fold(state, now_ns);
    switch (order->kind) {
    case ORDER_PAUSE:
    case ORDER_RESUME:
        state->paused = order->kind == ORDER_PAUSE;
        state->advance.left = 0;
        order_game(state, &report, now_ns);
        return;
    case ORDER_SCALE:
        state->scale_num = order->u.ratio.num;
        state->scale_den = order->u.ratio.den;
        order_game(state, &report, now_ns);
        return;
    case ORDER_RATE:
        order_rate(state, order, &report, now_ns);
        return;
    case ORDER_ADVANCE:
        order_advance(state, order, &report, now_ns);
        return;
    case ORDER_CHECKPOINT:
        report.rc = rollback_checkpoint(state, order, now_ns, &report);
        break;
    case ORDER_ROLLBACK:
        report.rc = rollback(state, order, now_ns, &report);
        break;
    case ORDER_CREATE:
        report.rc = scheduler_state_add(state, &order->u.create.clock, order->u.create.period_num,
                                        order->u.create.period_den, now_ns);
        report.clock = state->clock_count - 1;
        break;
    case ORDER_JOIN:
        group_join(state, order->clock, order->u.join.slot, &order->u.join.member);
        state->fresh |= 1u << order->clock; /* the page says how many are required */
        break;
    case ORDER_LEAVE:
        state->fresh |= 1u << state->member[order->clock].clock;
        group_leave(state, order->clock);
        break;
    }
    report_now(state, &report);
}

/* ---- the turn -------------------------------------------------------------------------------- */

/* Whether the turn comes so late that time itself must have stood still. */
static bool find_gap(struct scheduler_state *state, int64_t now_ns)
{
    if (now_ns <= state->deadline_ns || now_ns - state->deadline_ns <= SCHEDULER_GAP_NS)
        return false;
    state->snapshot.game.epoch++;
    state->snapshot.game_next.epoch = state->snapshot.game.epoch;
    atomic_store_explicit(&state->gap_ns, now_ns - state->deadline_ns, memory_order_relaxed);
    count_one(&state->discontinuities, 1);
    state->changed = state->tell = true;
    state->fresh = (1u << state->clock_count) - 1; /* each word says the epoch */
    return true;
}

/* Whether time follows a group, and which: that begins and ends with its members. */
static void choose_driven(struct scheduler_state *state, int64_t now_ns)
{
    int driven = state->paused ? -1 : group_driving(state);

    if (driven == state->driven)
        return;
    state->driven = driven;
    game_change(state, now_ns);
}

/* Put game time forward to a step, where it does not go by itself: single steps while paused, and as
 * fast as possible. Whether it moved. */
static bool drive(struct scheduler_state *state, int64_t now_ns, struct scheduler_outcome *outcome)
{
    bool advancing = state->advance.left > 0;
    uint32_t i = advancing ? state->advance.clock : (uint32_t)state->driven;
    uint64_t steps = 1;

    state->drive_waits = false;
    /* Until a change that stops it has come, game time runs by itself. */
    if ((!advancing && state->driven < 0) || state->snapshot.game.scale_num != 0)
        return false;
    state->drive_waits = !group_is_ready(state, i, now_ns, outcome);
    if (state->drive_waits)
        return false;
    if (advancing) {
        if (state->clock[i].required == 0)
            steps = state->advance.left;
        state->advance.left -= steps;
        state->advance.made += steps;
    }
    game_jump(state, ec_step_due_ns(&state->snapshot.step[i], state->clock[i].step + steps),
              now_ns);
    return true;
}

/* How many late steps a clock makes up for. */
static uint64_t burst_of(const struct scheduler_clock *clock)
{
    switch (clock->late) {
    case LATE_SKIP:
        return 0;
    case LATE_BURST:
        return clock->burst;
    case LATE_SLOW:
        return UINT64_MAX; /* there is never more than one, unless time jumped */
    }
    return 0;
}

struct pass {
    int64_t now_ns;
    bool gap;    /* time stood still before this turn */
    bool jumped; /* it was put forward, so nothing is late */
};

/* Move a clock to the step that is due now. Whether there is a new one. */
static bool advance(struct scheduler_state *state, uint32_t i, const struct pass *pass,
                    struct scheduler_outcome *outcome)
{
    struct scheduler_clock *clock = &state->clock[i];
    struct ec_step_snapshot *step = &state->snapshot.step[i];
    uint64_t reached = ec_step_at(step, turn_source_ns(state, i, pass->now_ns));
    uint64_t late, skipped = 0;

    if (reached <= clock->step) {
        clock->held = false;
        return false;
    }
    clock->drops = clock->drops || pass->gap;
    if (!group_is_ready(state, i, pass->now_ns, outcome)) {
        clock->held = true;
        return false;
    }
    if (!pass->gap && !pass->jumped && !clock->held) {
        /* how late the thread was for the first step that it had to announce */
        uint64_t late_ns = (uint64_t)(pass->now_ns - turn_due_ns(state, i, clock->step + 1));

        ec_histogram_add(&clock->jitter, late_ns);
        recent_jitter_add(&clock->recent, pass->now_ns, late_ns);
    }
    late = reached - clock->step - 1;
    if (clock->drops)
        skipped = late;
    else if (!pass->jumped && late > burst_of(clock))
        skipped = late - burst_of(clock);
    clock->held = clock->drops = false;
    clock->step = clock->required > 0 ? clock->step + skipped + 1 : reached;
    clock->announced_ns = pass->now_ns;
    count_one(&clock->missed, skipped);
    if (step->until_step != 0 && clock->step >= step->until_step) {
        int64_t from_ns = ec_step_due_ns(step, step->until_step);

        ec_step_rebase_announced(step);
        if (step->source == EC_STEP_GAME)
            past_record_rate(state, i, from_ns);
        state->changed = true;
    }
    return true;
}

/* Halve the rate of clocks that allow it, from their next step on, or give it back. */
static void follow_breaker(struct scheduler_state *state)
{
    uint32_t halved = 0;

    for (uint32_t i = 0; i < state->clock_count; i++) {
        struct scheduler_clock *clock = &state->clock[i];

        halved += clock->halvable && state->halve;
        if (!clock->halvable || clock->halved == state->halve)
            continue;
        clock->halved = state->halve;
        announce_period(state, i);
    }
    atomic_store_explicit(&state->halved_count, halved, memory_order_relaxed);
}

static bool has_come(const struct scheduler_state *state, const struct wait *wait, int64_t now_ns)
{
    switch (wait->kind) {
    case WAIT_GAME:
        return state->change != CHANGE_ORDERED;
    case WAIT_RATE:
        return state->clock[wait->clock].step >= wait->step || now_ns >= wait->deadline_ns;
    case WAIT_ADVANCE:
        return state->advance.left == 0;
    case WAIT_NONE:
        break;
    }
    return true;
}

static void answer_waits(struct scheduler_state *state, int64_t now_ns)
{
    for (uint32_t i = 0; i < state->wait_count;) {
        struct wait *wait = &state->wait[i];

        if (!has_come(state, wait, now_ns)) {
            i++;
            continue;
        }
        if (wait->kind == WAIT_ADVANCE)
            wait->report.steps = state->advance.made;
        if (wait->kind == WAIT_RATE && state->clock[wait->clock].step < wait->step)
            wait->report.effective_ns = turn_due_ns(state, wait->clock, wait->step);
        report_wait(state, i);
    }
}

static void earlier(struct scheduler_outcome *outcome, int64_t deadline_ns)
{
    if (deadline_ns < outcome->deadline_ns)
        outcome->deadline_ns = deadline_ns;
}

/* When something has to be done next. */
static void find_deadline(struct scheduler_state *state, int64_t now_ns,
                          struct scheduler_outcome *outcome)
{
    for (uint32_t i = 0; i < state->clock_count; i++) {
        int64_t due_ns = turn_due_ns(state, i, state->clock[i].step + 1);

        if (state->clock[i].held) /* its members are waited for, or their budget */
            continue;
        if (due_ns < outcome->deadline_ns)
            outcome->spin_ns = state->clock[i].spin_ns;
        earlier(outcome, due_ns);
    }
    if (state->change == CHANGE_ORDERED)
        earlier(outcome, state->snapshot.game.until_ns);
    for (uint32_t i = 0; i < state->wait_count; i++)
        earlier(outcome, state->wait[i].deadline_ns);
    if ((state->advance.left > 0 || state->driven >= 0) && !state->drive_waits &&
        state->snapshot.game.scale_num == 0)
        earlier(outcome, now_ns);
}

void scheduler_turn(struct scheduler_state *state, int64_t now_ns,
                    struct scheduler_outcome *outcome)
{
    struct pass pass = { .now_ns = now_ns };

    *outcome = (struct scheduler_outcome) { .deadline_ns = now_ns + SCHEDULER_HEARTBEAT_NS };
    pass.gap = find_gap(state, now_ns);
    game_fold(state, now_ns);
    choose_driven(state, now_ns);
    pass.jumped = drive(state, now_ns, outcome);
    for (uint32_t i = 0; i < state->clock_count; i++)
        if (advance(state, i, &pass, outcome))
            outcome->stepped |= 1u << i;
    follow_breaker(state);
    game_hold(state, now_ns);
    answer_waits(state, now_ns);
    find_deadline(state, now_ns, outcome);
    outcome->snapshot_changed = state->changed;
    outcome->tell = state->tell;
    outcome->stepped |= state->fresh;
    state->changed = state->tell = false;
    state->fresh = 0;
    state->deadline_ns = outcome->deadline_ns;
}

/* ---- publishing ------------------------------------------------------------------------------ */

static void publish_step(const struct scheduler_state *state, uint32_t i,
                         struct ec_clock_page *page)
{
    const struct ec_step_snapshot *step = &state->snapshot.step[i];
    const struct scheduler_clock *clock = &state->clock[i];

    atomic_store_explicit(&page->step[i].required, clock->required, memory_order_relaxed);
    ec_step_word_publish(&page->step[i],
                         &(struct ec_step_news) {
                             .step = clock->step,
                             .epoch = state->snapshot.game.epoch,
                             .skipped = atomic_load_explicit(&clock->missed, memory_order_relaxed),
                             .due_ns = ec_step_due_ns(step, clock->step),
                             .next_due_ns = ec_step_due_ns(step, clock->step + 1),
                         });
}

void scheduler_state_write(struct scheduler_state *state, int64_t now_ns,
                           struct ec_clock_page *page)
{
    state->changed = state->tell = false;
    state->fresh = 0;
    ec_clock_page_write(page, &state->snapshot);
    for (uint32_t i = 0; i < state->clock_count; i++)
        publish_step(state, i, page);
    atomic_store_explicit(&page->heartbeat_ns, now_ns, memory_order_relaxed);
}

void scheduler_publish(struct scheduler_state *state, const struct scheduler_outcome *outcome,
                       int64_t now_ns, struct ec_clock_page *page)
{
    bool all = outcome->tell || state->breaker_change != state->breaker_told;

    state->breaker_told = state->breaker_change;
    atomic_store_explicit(&page->heartbeat_ns, now_ns, memory_order_relaxed);
    if (outcome->snapshot_changed)
        ec_clock_page_write(page, &state->snapshot);
    for (uint32_t i = 0; i < state->clock_count; i++) {
        bool stepped = outcome->stepped >> i & 1;

        if (stepped)
            publish_step(state, i, page);
        else if (all)
            ec_step_word_touch(&page->step[i]);
        else
            continue;
        ec_futex_wake_for(&page->step[i].change,
                          (stepped ? EC_STEP_WAKE_STEP : 0) | (all ? EC_STEP_WAKE_CHANGE : 0));
    }
}
