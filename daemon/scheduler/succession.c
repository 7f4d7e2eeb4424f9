/* succession.c - see succession.h. */
#include "scheduler/succession.h"

#include <string.h>

#include "scheduler/turn_private.h"
#include "segment/clock_arithmetic.h"
#include "segment/clock_page.h"

/* What was announced and came while nobody was there has happened. What is still to come is an order,
 * if it leads where time is to go; else time was to stand for a slow clock. */
static void restore_game(struct scheduler_state *state, int64_t now_ns)
{
    const struct ec_game_snapshot *next = &state->snapshot.game_next;
    uint64_t num, den;

    if (state->snapshot.game.until_ns == EC_CLOCK_NEVER)
        return;
    game_wanted(state, &num, &den);
    state->change = (ec_u128)next->scale_num * den == (ec_u128)num * next->scale_den
                        ? CHANGE_ORDERED
                        : CHANGE_HOLD;
    if (now_ns >= state->snapshot.game.until_ns)
        state->change = CHANGE_ORDERED; /* who waited for a slow clock waits no more */
    game_fold(state, now_ns);
}

static void restore_step(struct scheduler_state *state, const struct clock_heritage *heritage,
                         uint32_t i, int64_t now_ns)
{
    struct ec_step_snapshot *step = &state->snapshot.step[i];
    struct scheduler_clock *clock = &state->clock[i];
    uint64_t reached;

    clock->late = (enum late_policy)heritage->clock[i].late;
    clock->burst = heritage->clock[i].burst;
    clock->halvable = heritage->clock[i].halvable;
    clock->spin_ns = heritage->clock[i].spin_ns;
    clock->period_num = heritage->clock[i].period_num;
    clock->period_den = heritage->clock[i].period_den;
    clock->announced_ns = now_ns;
    atomic_store_explicit(&clock->missed, heritage->clock[i].missed, memory_order_relaxed);
    clock->step = heritage->clock[i].step;
    reached = ec_step_at(step, turn_source_ns(state, i, now_ns));
    if (reached > clock->step)
        clock->step = reached;
    if (step->until_step != 0 && clock->step >= step->until_step)
        ec_step_rebase_announced(step);
    state->fresh |= 1u << i;
}

void succession_restore(struct scheduler_state *state, const struct clock_heritage *heritage,
                        int64_t now_ns)
{
    scheduler_state_init(state, now_ns);
    state->past_count = 0;
    state->snapshot = heritage->snapshot;
    state->clock_count = heritage->clock_count;
    state->scale_num = heritage->scale_num;
    state->scale_den = heritage->scale_den;
    state->paused = heritage->paused;
    state->last_checkpoint = heritage->last_checkpoint;
    restore_game(state, now_ns);
    for (uint32_t i = 0; i < state->clock_count; i++)
        restore_step(state, heritage, i, now_ns);
    past_record(state, turn_game_ns(state, now_ns));
    game_change(state, now_ns); /* a group that drove time has to gather first */
    state->changed = state->tell = true;
}

bool succession_restore_checkpoint(struct scheduler_state *state,
                                   const struct checkpoint_heritage *heritage, int64_t now_ns)
{
    struct checkpoint *checkpoint = &state->checkpoint[heritage->id % SCHEDULER_CHECKPOINTS];

    if (heritage->id > state->last_checkpoint || heritage->clock_count > state->clock_count ||
        heritage->game_ns > turn_game_ns(state, now_ns))
        return false;
    for (uint32_t i = 0; i < heritage->clock_count;
         i++) /* what goes back stays the clock that it is */
        if (heritage->clock[i].step.source != state->snapshot.step[i].source ||
            strncmp(heritage->clock[i].step.name, state->snapshot.step[i].name,
                    EC_STEP_NAME_BYTES) != 0)
            return false;
    *checkpoint = (struct checkpoint) {
        .id = heritage->id,
        .remainder = heritage->remainder,
        .remainder_den = heritage->remainder_den,
        .past = { .game_ns = heritage->game_ns, .clock_count = heritage->clock_count },
    };
    for (uint32_t i = 0; i < heritage->clock_count; i++)
        checkpoint->past.clock[i] = (struct past_clock) {
            .step = heritage->clock[i].step,
            .period_num = heritage->clock[i].period_num,
            .period_den = heritage->clock[i].period_den,
            .halved = heritage->clock[i].halved,
        };
    return true;
}

bool succession_read_page(const struct ec_clock_page *page, struct clock_heritage *heritage)
{
    struct clock_heritage found = *heritage;
    uint32_t latch = ec_clock_latch_begin(page) & 1; /* its writer is dead: the copies are whole */
    uint32_t count = 0;

    ec_clock_words_load(&found.snapshot.game, &page->game_copy[latch], sizeof found.snapshot.game);
    ec_clock_words_load(&found.snapshot.game_next, &page->game_next[latch],
                        sizeof found.snapshot.game_next);
    ec_clock_words_load(found.snapshot.step, page->step_copy[latch], sizeof found.snapshot.step);
    if (!ec_game_valid(&found.snapshot.game) || !ec_game_valid(&found.snapshot.game_next))
        return false;
    while (count < EC_STEP_CLOCKS_MAX && found.snapshot.step[count].name[0] != '\0') {
        const struct ec_step_snapshot *step = &found.snapshot.step[count];
        struct ec_step_news news;

        if (memchr(step->name, '\0', sizeof step->name) == NULL || !ec_step_valid(step) ||
            step->source > EC_STEP_GAME)
            return false;
        if (count >= heritage->clock_count) { /* made just before the end: the file lacks it */
            memset(&found.clock[count], 0, sizeof found.clock[count]);
            found.clock[count].period_num = step->period_num;
            found.clock[count].period_den = step->period_den;
        }
        /* A word that was being changed says nothing; then the arithmetic says it all. */
        found.clock[count].step = step->n0;
        if (ec_step_word_read(&page->step[count], &news) == EC_OK) {
            found.clock[count].step = news.step;
            found.clock[count].missed = news.skipped;
        }
        count++;
    }
    if (count == 0)
        return false;
    found.clock_count = count;
    *heritage = found;
    return true;
}
