/* desk_heritage.c - keep what a later run of the daemon goes on from.
 *
 * What was ordered is written before its answer. Time also changes by itself (the breaker halves a
 * rate, a group drives it, it waits for a slow clock): once a second the page is compared. */
#include <stdlib.h>
#include <string.h>

#include "foundation/real_time.h"
#include "scheduler/desk.h"
#include "segment/clock_arithmetic.h"
#include "segment/clock_page.h"

#define LOOK_MS 1000

/* What the page says now. false: it changes too fast. */
static bool read_snapshot(const struct ec_clock_page *page, struct clock_heritage *heritage)
{
    for (unsigned i = 0; i < EC_CLOCK_READS_MAX; i++) {
        uint32_t latch = ec_clock_latch_begin(page);
        struct ec_clock_snapshot *to = &heritage->snapshot;

        ec_clock_words_load(&to->game, &page->game_copy[latch & 1], sizeof to->game);
        ec_clock_words_load(to->step, page->step_copy[latch & 1], sizeof to->step);
        ec_clock_words_load(&to->game_next, &page->game_next[latch & 1], sizeof to->game_next);
        if (ec_clock_latch_held(page, latch))
            return true;
    }
    return false;
}

void desk_heritage_write(struct desk *desk)
{
    const struct ec_clock_page *page = desk->scheduler->page;
    struct clock_heritage heritage = {
        .scale_num = desk->scale.num,
        .scale_den = desk->scale.den,
        .paused = desk->paused,
        .last_checkpoint = desk->last_checkpoint,
        .clock_count = desk->clock_count,
    };

    desk->heritage_latch = atomic_load_explicit(&page->latch, memory_order_relaxed);
    if (!read_snapshot(page, &heritage))
        return; /* looked at again in a second */
    for (uint32_t i = 0; i < desk->clock_count; i++) {
        heritage.clock[i].late = desk->clocks[i].late;
        heritage.clock[i].burst = desk->clocks[i].burst;
        heritage.clock[i].halvable = desk->clocks[i].halvable;
        heritage.clock[i].spin_ns = desk->clocks[i].spin_ns;
        heritage.clock[i].period_num = desk->periods[i].num;
        heritage.clock[i].period_den = desk->periods[i].den;
        heritage.clock[i].step = atomic_load_explicit(&page->step[i].step, memory_order_relaxed);
        heritage.clock[i].missed =
            atomic_load_explicit(&page->step[i].skipped, memory_order_relaxed);
    }
    heritage_set_clock(desk->services->heritage, &heritage);
}

static void on_look(uv_timer_t *timer)
{
    struct desk *desk = timer->data;

    if (atomic_load_explicit(&desk->scheduler->page->latch, memory_order_relaxed) !=
        desk->heritage_latch)
        desk_heritage_write(desk);
}

int desk_heritage_open(struct desk *desk, const struct clock_heritage *heritage,
                       struct ec_error *why)
{
    if (heritage != NULL) /* its checkpoints are gone; their ids are not used again */
        desk->last_checkpoint = heritage->last_checkpoint;
    desk->heritage_timer = calloc(1, sizeof *desk->heritage_timer);
    if (desk->heritage_timer == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a timer");
    uv_timer_init(desk->services->loop, desk->heritage_timer);
    desk->heritage_timer->data = desk;
    uv_timer_start(desk->heritage_timer, on_look, LOOK_MS, LOOK_MS);
    uv_unref((uv_handle_t *)desk->heritage_timer);
    desk_heritage_write(desk);
    return EC_OK;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

void desk_heritage_close(struct desk *desk)
{
    if (desk->heritage_timer == NULL)
        return;
    desk_heritage_write(desk);
    uv_close((uv_handle_t *)desk->heritage_timer, on_closed);
    desk->heritage_timer = NULL;
}
