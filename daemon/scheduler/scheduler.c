/* scheduler.c - the scheduler's thread and its life.
 *
 *   main loop                               thread
 *   order, command++, wake  ------------->  sleep on command until the deadline
 *                                           orders, turn: what was reached?
 *   page, counts, histograms   <----------  publish: stores, one wake for each clock
 *   news_fd                    <----------  reports, alarms
 *
 * The state belongs to the thread; the main loop reads the page like everybody, and the counts and
 * histograms by relaxed loads. */
#include "scheduler/scheduler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/config.h"
#include "daemon/heritage.h"
#include "daemon/log.h"
#include "daemon/segments.h"
#include "daemon/services.h"
#include "foundation/futex.h"
#include "foundation/real_time.h"
#include "foundation/thread.h"
#include "scheduler/desk.h"
#include "scheduler/scheduler_private.h"
#include "scheduler/succession.h"
#include "segment/clock_arithmetic.h"

/* The clocks that every game finds. The network goes on while game time stands. */
static const struct {
    struct order_clock clock;
    uint64_t hz;
} first_clocks[] = {
    { { .name = "physics", .source = EC_STEP_GAME }, 60 },
    { { .name = "network", .source = EC_STEP_REAL }, 20 },
    { { .name = "ai", .source = EC_STEP_GAME }, 10 },
};

static int add_first_clocks(struct scheduler *scheduler, int64_t now_ns, struct ec_error *why)
{
    for (size_t i = 0; i < sizeof first_clocks / sizeof first_clocks[0]; i++) {
        uint64_t num, den;
        int rc = ec_period_of_rate(first_clocks[i].hz, 1, &num, &den);

        if (rc == EC_OK)
            rc = scheduler_state_add(&scheduler->state, &first_clocks[i].clock, num, den, now_ns);
        if (rc < 0)
            return ec_fail(why, rc, "step clock %s", first_clocks[i].clock.name);
    }
    return EC_OK;
}

static void restore_checkpoints(struct scheduler *scheduler, struct heritage *heritage,
                                bool goes_on, int64_t now_ns)
{
    const struct checkpoint_heritage *checkpoint;
    unsigned index = 0;

    while ((checkpoint = heritage_checkpoint(heritage, index)) != NULL)
        if (goes_on && succession_restore_checkpoint(&scheduler->state, checkpoint, now_ns))
            index++;
        else
            heritage_checkpoint_remove(heritage, checkpoint->id);
}

int scheduler_create(const struct scheduler_desc *desc, struct scheduler **scheduler,
                     struct ec_error *why)
{
    struct scheduler *made = aligned_alloc(EC_HOT_BYTES, sizeof *made);
    int64_t now_ns;
    int rc;

    if (!made)
        return ec_fail(why, EC_ERR_MEMORY, "scheduler: %zu bytes", sizeof *made);
    memset(made, 0, sizeof *made);
    made->page = desc->page;
    made->priority = desc->priority;
    alarms_init(&made->alarms);
    made->sleeper.bell_fd = -1;
    made->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made->news_fd < 0) {
        rc = ec_fail(why, EC_ERR_SYSTEM, "eventfd of the scheduler: %s", strerror(errno));
        goto fail;
    }
    rc = sleeper_init(&made->sleeper, desc->time, !desc->no_waitv, why);
    if (rc < 0)
        goto fail;
    now_ns = sleeper_now_ns(&made->sleeper);
    if (desc->heritage != NULL) {
        succession_restore(&made->state, desc->heritage, now_ns);
    } else {
        scheduler_state_init(&made->state, now_ns);
        rc = add_first_clocks(made, now_ns, why);
    }
    made->state.history_ns = desc->history_ns;
    if (rc < 0)
        goto fail;
    restore_checkpoints(made, desc->checkpoints, desc->heritage != NULL, now_ns);
    for (uint32_t i = 0; i < EC_STEP_CLOCKS_MAX; i++)
        if (atomic_load_explicit(&made->page->step[i].change, memory_order_relaxed) == 0)
            atomic_store_explicit(&made->page->step[i].change, desc->first_change,
                                  memory_order_relaxed); /* nobody reads it yet */
    scheduler_state_write(&made->state, now_ns, made->page);
    *scheduler = made;
    return EC_OK;

fail:
    scheduler_destroy(made);
    return rc;
}

/* What the main loop has to look at: a sum that grows with each of them. */
static uint64_t news_sum(const struct scheduler_state *state)
{
    uint64_t sum = atomic_load_explicit(&state->discontinuities, memory_order_relaxed) +
                   atomic_load_explicit(&state->releases, memory_order_relaxed);

    for (uint32_t i = 0; i < state->clock_count; i++)
        sum += atomic_load_explicit(&state->clock[i].missed, memory_order_relaxed);
    return sum;
}

static void take_orders(struct scheduler *scheduler, int64_t now_ns)
{
    const struct order *order;

    while ((order = mailbox_next(&scheduler->mailbox)) != NULL) {
        if (scheduler_must_wait(&scheduler->state, order) &&
            now_ns < scheduler->state.snapshot.game.until_ns)
            return;
        scheduler_order(&scheduler->state, order, now_ns);
        mailbox_done(&scheduler->mailbox);
    }
}

static void tell(struct scheduler *scheduler, uint64_t sum_before, bool rings)
{
    struct scheduler_state *state = &scheduler->state;
    const uint64_t one = 1;
    bool news = rings || state->report_count > 0 || news_sum(state) != sum_before;
    ssize_t bytes = 0;

    for (uint32_t i = 0; i < state->report_count; i++)
        mailbox_report(&scheduler->mailbox, &state->report[i]);
    state->report_count = 0;
    if (news)
        bytes = write(scheduler->news_fd, &one, sizeof one);
    (void)bytes; /* full: it is readable already */
}

static void *run(void *context)
{
    struct scheduler *scheduler = context;
    struct scheduler_state *state = &scheduler->state;
    const struct rights_range ranges[] = {
        { scheduler, sizeof *scheduler },
        { scheduler->page, sizeof *scheduler->page },
    };

    rights_acquire(&scheduler->rights, scheduler->priority, ranges, 2);
    scheduler->sleeper.may_spin = scheduler->rights.priority > 0;
    /* release: partner is the acquire load in scheduler_start, after which rights are read. */
    atomic_store_explicit(&scheduler->running, 1, memory_order_release);
    ec_futex_wake_all(&scheduler->running);

    /* The start was an event of the program, not of time: it is no gap, however long ago. */
    state->deadline_ns = sleeper_now_ns(&scheduler->sleeper);
    for (;;) {
        uint32_t command = sleeper_command(&scheduler->sleeper);
        struct scheduler_outcome outcome;
        int64_t now_ns, alarm_ns;
        uint64_t sum;
        bool rings;

        if (atomic_load_explicit(&scheduler->stopping, memory_order_relaxed))
            return NULL;
        now_ns = sleeper_now_ns(&scheduler->sleeper);
        sum = news_sum(state);
        /* acquire: partner is the release add in scheduler_breaker_changed(); the levels that the
         * main loop wrote before are older than what sleepers are told here. */
        state->breaker_change =
            atomic_load_explicit(&scheduler->breaker_change, memory_order_acquire);
        state->halve = atomic_load_explicit(&scheduler->halve, memory_order_relaxed);
        take_orders(scheduler, now_ns);
        scheduler_turn(state, now_ns, &outcome);
        scheduler_publish(state, &outcome, now_ns, scheduler->page);
        rings = alarms_ring(&scheduler->alarms, state, now_ns);
        tell(scheduler, sum, rings);
        alarm_ns = alarms_deadline_ns(&scheduler->alarms, state);
        if (alarm_ns < outcome.deadline_ns)
            outcome.deadline_ns = alarm_ns;
        sleeper_wait(&scheduler->sleeper, command, &outcome, outcome.deadline_ns);
    }
}

int scheduler_start(struct scheduler *scheduler, struct ec_error *why)
{
    int rc = ec_thread_start(&scheduler->thread, "scheduler", run, scheduler, why);

    if (rc < 0)
        return rc;
    scheduler->started = true;
    while (atomic_load_explicit(&scheduler->running, memory_order_acquire) == 0)
        ec_futex_wait(&scheduler->running, 0, EC_FUTEX_FOREVER);
    return EC_OK;
}

void scheduler_kick(struct scheduler *scheduler)
{
    sleeper_kick(&scheduler->sleeper);
}

void scheduler_breaker_changed(struct scheduler *scheduler, bool halve)
{
    atomic_store_explicit(&scheduler->halve, halve, memory_order_relaxed);
    /* Release: pairs with the acquire load in run(). */
    atomic_fetch_add_explicit(&scheduler->breaker_change, 1, memory_order_release);
    scheduler_kick(scheduler);
}

uint32_t scheduler_halved(const struct scheduler *scheduler)
{
    return atomic_load_explicit(&scheduler->state.halved_count, memory_order_relaxed);
}

static void stop(struct scheduler *scheduler)
{
    if (!scheduler->started)
        return;
    atomic_store_explicit(&scheduler->stopping, true, memory_order_relaxed);
    scheduler_kick(scheduler); /* its release makes stopping seen, too */
    pthread_join(scheduler->thread, NULL);
    scheduler->started = false;
}

void scheduler_destroy(struct scheduler *scheduler)
{
    if (!scheduler)
        return;
    stop(scheduler);
    sleeper_finish(&scheduler->sleeper);
    if (scheduler->news_fd >= 0)
        close(scheduler->news_fd);
    free(scheduler);
}

void scheduler_describe(const struct scheduler *scheduler, struct ec_json_writer *writer)
{
    rights_describe(&scheduler->rights, writer);
}

int scheduler_init(struct services *services, struct ec_error *why)
{
    struct clock_heritage heritage = { 0 };
    const bool kept = segments_are_kept(services->segments);
    bool has_heritage = heritage_clock(services->heritage, kept, &heritage);
    struct scheduler_desc desc = {
        .page = segments_clock(services->segments),
        .priority = (int)config_integer(services->config, EC_CONFIG_scheduler_priority),
        .history_ns = config_integer(services->config, EC_CONFIG_scheduler_history_s) * EC_NS_PER_S,
        .no_waitv = !config_boolean(services->config, EC_CONFIG_scheduler_waitv),
        .first_change = heritage_runs(services->heritage) << 24,
        .checkpoints = services->heritage,
    };
    int rc;

    if (kept && has_heritage)
        succession_read_page(desc.page, &heritage); /* if it cannot be used, the file can */
    if (has_heritage) {
        desc.heritage = &heritage;
        log_info("scheduler", "the clocks go on where the last run left them");
    }
    rc = scheduler_create(&desc, &services->scheduler, why);
    return rc < 0 ? rc : desk_open(services, desc.heritage, why);
}

int scheduler_post_init(struct services *services, struct ec_error *why)
{
    const struct rights *rights = &services->scheduler->rights;
    int rc;

    desk_inherit_timers(services->scheduler->desk);
    rc = scheduler_start(services->scheduler, why);
    if (rc < 0)
        return rc;
    if (rights->refused_priority[0] != '\0')
        log_warning("scheduler", "%s; steps may be late under load", rights->refused_priority);
    if (rights->refused_memory[0] != '\0')
        log_warning("scheduler", "%s; steps may be late when memory is short",
                    rights->refused_memory);
    return EC_OK;
}

void scheduler_shutdown(struct services *services)
{
    struct scheduler *scheduler = services->scheduler;

    if (scheduler == NULL)
        return;
    stop(scheduler); /* first: it looks at what the desk has mapped */
    desk_close(scheduler->desk);
    scheduler_destroy(scheduler);
    services->scheduler = NULL;
}
