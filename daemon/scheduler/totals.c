/* totals.c - the clocks in some numbers, for who watches them over time. */
#include "foundation/real_time.h"
#include "scheduler/desk.h"
#include "segment/clock_arithmetic.h"
#include "segment/clock_page.h"
#include "segment/histogram.h"

void scheduler_totals(const struct scheduler *scheduler, struct scheduler_totals *totals)
{
    const struct desk *desk = scheduler->desk;
    const int64_t real_ns = ec_real_ns();
    struct ec_game_snapshot game;

    *totals = (struct scheduler_totals) {
        .paused = desk->paused,
        .discontinuities =
            atomic_load_explicit(&scheduler->state.discontinuities, memory_order_relaxed),
        .timers = timers_armed(desk->timers),
    };
    if (ec_clock_read_game(scheduler->page, real_ns, &game) == EC_OK)
        totals->game_ns = ec_game_at(&game, real_ns);
    for (uint32_t i = 0; i < desk->clock_count; i++) {
        const struct scheduler_clock *clock = &scheduler->state.clock[i];
        struct ec_histogram_sum recent = { 0 };
        struct ec_percentiles percentiles;

        totals->steps += atomic_load_explicit(&scheduler->page->step[i].step, memory_order_relaxed);
        totals->missed += atomic_load_explicit(&clock->missed, memory_order_relaxed);
        recent_jitter_sum(&clock->recent, real_ns, &recent);
        ec_histogram_percentiles(&recent, &percentiles);
        if (percentiles.p99_ns > totals->jitter_p99_ns)
            totals->jitter_p99_ns = percentiles.p99_ns;
    }
}

bool scheduler_row(const struct scheduler *scheduler, uint32_t index, struct scheduler_row *row)
{
    if (index >= scheduler->desk->clock_count)
        return false;
    *row = (struct scheduler_row) {
        .name = scheduler->desk->clocks[index].name,
        .step = atomic_load_explicit(&scheduler->page->step[index].step, memory_order_relaxed),
        .missed = atomic_load_explicit(&scheduler->state.clock[index].missed, memory_order_relaxed),
    };
    return true;
}
