/* desk_heritage.c - keep what a later run of the daemon goes on from.
 *
 * What was ordered is written before its answer. Time also changes by itself (the breaker halves a
 * rate, a group drives it, it waits for a slow clock): once a second the page is compared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/config.h"
#include "daemon/log.h"
#include "foundation/real_time.h"
#include "scheduler/desk.h"
#include "scheduler/timer_ledger.h"
#include "segment/clock_arithmetic.h"
#include "segment/clock_page.h"

#define LOOK_MS 1000
#define LEDGER_PATH_BYTES 1000 /* a name of the same file being written is longer */

_Static_assert(HERITAGE_CHECKPOINTS == SCHEDULER_CHECKPOINTS, "an id has the same place in both");

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

void desk_heritage_checkpoint(struct desk *desk, const struct checkpoint *checkpoint,
                              const char *name)
{
    struct checkpoint_heritage *heritage = calloc(1, sizeof *heritage);

    if (heritage == NULL)
        return; /* it ends with this run */
    heritage->id = checkpoint->id;
    snprintf(heritage->name, sizeof heritage->name, "%s", name);
    heritage->game_ns = checkpoint->past.game_ns;
    heritage->remainder = checkpoint->remainder;
    heritage->remainder_den = checkpoint->remainder_den;
    heritage->clock_count = checkpoint->past.clock_count;
    for (uint32_t i = 0; i < heritage->clock_count; i++) {
        heritage->clock[i].step = checkpoint->past.clock[i].step;
        heritage->clock[i].period_num = checkpoint->past.clock[i].period_num;
        heritage->clock[i].period_den = checkpoint->past.clock[i].period_den;
        heritage->clock[i].halved = checkpoint->past.clock[i].halved;
    }
    heritage_checkpoint_add(desk->services->heritage, heritage);
    free(heritage);
}

/* ---- timers ----------------------------------------------------------------------------------- */

static bool ledger_path(const struct desk *desk, char path[LEDGER_PATH_BYTES])
{
    return snprintf(path, LEDGER_PATH_BYTES, "%s.timers", desk->services->socket_path) <
           LEDGER_PATH_BYTES;
}

/* Those of the last run, into timers that are still empty. */
static void restore_timers(struct desk *desk, const char *path)
{
    struct timer_ledger_rows found;
    struct ec_error why = { 0 };
    int rc = timer_ledger_read(path, ALARM_STEP + desk->clock_count, &found, &why);

    for (uint32_t i = 0; i < found.count; i++)
        if (found.rows[i].life != TIMER_FREE &&
            !clients_awaits(desk->services->clients, found.rows[i].desc.owner))
            found.rows[i].life = TIMER_FREE;
    if (rc == EC_OK)
        rc = timers_restore(desk->timers, found.rows, found.count, &why);
    timer_ledger_rows_finish(&found);
    if (rc < 0 && rc != EC_ERR_NOT_FOUND)
        log_warning("scheduler", "timers of the last run in %s: %s", path, why.text);
    if (timers_held(desk->timers) > 0)
        log_info("scheduler", "%u timers of the last run wait for their clients",
                 timers_held(desk->timers));
}

void desk_inherit_timers(struct desk *desk)
{
    char path[LEDGER_PATH_BYTES];
    struct ec_error why = { 0 };
    int rc;

    if (desk->services->heritage == NULL || !ledger_path(desk, path))
        return;
    if (heritage_exists(desk->services->heritage))
        restore_timers(desk, path);
    rc = timer_ledger_create(
        path, (uint32_t)config_integer(desk->services->config, EC_CONFIG_scheduler_timers),
        &desk->ledger, &why);
    if (rc == EC_OK) {
        timers_watch(desk->timers, timer_ledger_note, desk->ledger);
        timers_note_all(desk->timers);
        rc = timer_ledger_commit(desk->ledger, &why);
    }
    if (rc == EC_OK)
        return;
    log_warning("scheduler", "timers would end with this run of the daemon: %s", why.text);
    timers_watch(desk->timers, NULL, NULL);
    timer_ledger_destroy(desk->ledger, false);
    desk->ledger = NULL;
    unlink(path); /* it would say what is not true any more */
}

/* Games outlive the daemon: what they armed stays for the next one. */
void desk_ledger_close(struct desk *desk)
{
    timers_watch(desk->timers, NULL, NULL);
    timer_ledger_destroy(desk->ledger, heritage_lease(desk->services->heritage, 0) != NULL);
    desk->ledger = NULL;
}

int desk_heritage_open(struct desk *desk, const struct clock_heritage *heritage,
                       struct ec_error *why)
{
    const struct checkpoint_heritage *checkpoint;

    if (heritage != NULL) /* ids are not used again */
        desk->last_checkpoint = heritage->last_checkpoint;
    for (unsigned i = 0; (checkpoint = heritage_checkpoint(desk->services->heritage, i)) != NULL;
         i++) {
        struct desk_checkpoint *place = &desk->checkpoints[checkpoint->id % SCHEDULER_CHECKPOINTS];

        *place = (struct desk_checkpoint) { .id = checkpoint->id, .game_ns = checkpoint->game_ns };
        memcpy(place->name, checkpoint->name, sizeof place->name);
    }
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
