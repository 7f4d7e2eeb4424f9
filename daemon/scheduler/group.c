/* group.c - who may hold a step back, and for how long.
 *
 * A member says which step it has finished in a word of its own segment (done) and wakes whoever waits
 * on it. The scheduler waits for the first member that is not ready; when that one is, it looks at the
 * rest. tests/models/group_wait.pml is the model of this wait.
 *
 * Order: what a turn decides by and what it sleeps on must be the same load of done. A second load
 * could see the member ready after the decision was made, and the thread would sleep on the new value,
 * for which nobody wakes it. */
#include "scheduler/turn_private.h"

#include <stddef.h>

static bool is_member(const struct scheduler_member *member, uint32_t clock)
{
    return member->desc.record != NULL && member->clock == clock;
}

static void count_required(struct scheduler_state *state, uint32_t clock)
{
    uint32_t required = 0;

    for (uint32_t i = 0; i < SCHEDULER_MEMBERS; i++)
        required += is_member(&state->member[i], clock) && state->member[i].desc.required;
    state->clock[clock].required = required;
}

static void release(struct scheduler_state *state, struct scheduler_member *member, uint32_t done)
{
    member->left_at = done;
    atomic_store_explicit(&member->released, 1, memory_order_relaxed);
    count_one(&member->releases, 1);
    count_one(&state->releases, 1);
}

/* Whether a member lets the clock go on. *done is what was seen of it. */
static bool is_ready(struct scheduler_state *state, struct scheduler_member *member,
                     const struct scheduler_clock *clock, int64_t now_ns, uint32_t *done)
{
    /* acquire: partner is the member's release store; what it did in the step is done. */
    *done = atomic_load_explicit(&member->desc.record->done, memory_order_acquire);
    if (atomic_load_explicit(&member->released, memory_order_relaxed) != 0) {
        if (*done != member->left_at) { /* it is back, and takes over the common time */
            atomic_store_explicit(&member->released, 0, memory_order_relaxed);
            member->from = clock->step + 1;
        }
        return true;
    }
    if (clock->step < member->from || *done == (uint32_t)clock->step)
        return true;
    if (now_ns - clock->announced_ns < member->desc.budget_ns + member->desc.phase_ns)
        return false;
    release(state, member, *done);
    return true;
}

bool group_is_ready(struct scheduler_state *state, uint32_t clock, int64_t now_ns,
                    struct scheduler_outcome *outcome)
{
    const struct scheduler_clock *group = &state->clock[clock];

    for (uint32_t i = 0; i < SCHEDULER_MEMBERS && group->required > 0; i++) {
        struct scheduler_member *member = &state->member[i];
        uint32_t done;
        int64_t end_ns;

        if (!is_member(member, clock) || !member->desc.required ||
            is_ready(state, member, group, now_ns, &done))
            continue;
        if (outcome == NULL)
            return false;
        end_ns = group->announced_ns + member->desc.budget_ns + member->desc.phase_ns;
        if (end_ns < outcome->deadline_ns)
            outcome->deadline_ns = end_ns;
        outcome->words[outcome->word_count++] =
            (struct ec_futex_word) { &member->desc.record->done, done };
        return false;
    }
    return true;
}

void group_join(struct scheduler_state *state, uint32_t clock, uint32_t slot,
                const struct order_member *desc)
{
    struct scheduler_member *member = &state->member[slot];
    uint64_t next = state->clock[clock].step + 1;

    member->desc = *desc;
    member->clock = clock;
    member->from = desc->start_at > next ? desc->start_at : next;
    atomic_store_explicit(&member->released, 0, memory_order_relaxed);
    atomic_store_explicit(&member->releases, 0, memory_order_relaxed);
    count_required(state, clock);
}

void group_leave(struct scheduler_state *state, uint32_t slot)
{
    struct scheduler_member *member = &state->member[slot];

    member->desc.record = NULL;
    count_required(state, member->clock);
}

void group_restart(struct scheduler_state *state, uint32_t clock)
{
    for (uint32_t i = 0; i < SCHEDULER_MEMBERS; i++)
        if (is_member(&state->member[i], clock))
            state->member[i].from = 0;
}

int group_driving(const struct scheduler_state *state)
{
    for (uint32_t clock = 0; clock < state->clock_count; clock++) {
        bool fast = true, alive = false;

        if (state->clock[clock].required == 0 || state->snapshot.step[clock].source != EC_STEP_GAME)
            continue;
        for (uint32_t i = 0; i < SCHEDULER_MEMBERS; i++) {
            const struct scheduler_member *member = &state->member[i];

            if (!is_member(member, clock) || !member->desc.required)
                continue;
            fast = fast && member->desc.fast;
            alive = alive || (atomic_load_explicit(&member->released, memory_order_relaxed) == 0 &&
                              member->from <= state->clock[clock].step + 1);
        }
        if (fast && alive) /* nothing else would hold time back */
            return (int)clock;
    }
    return -1;
}
