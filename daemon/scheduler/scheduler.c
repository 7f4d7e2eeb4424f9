/* scheduler.c - the scheduler's thread and its life.
 *
 *   main loop                               thread
 *   command++ (release), wake  ---------->  sleep on command until the deadline
 *                                           turn: what was reached?
 *   page, counts, histograms   <----------  publish: stores, one wake for each clock
 *
 * The state belongs to the thread; the main loop reads the page like everybody, and the counts and
 * histograms by relaxed loads. */
#include "scheduler/scheduler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "daemon/config.h"
#include "daemon/log.h"
#include "daemon/segments.h"
#include "daemon/services.h"
#include "foundation/futex.h"
#include "foundation/real_time.h"
#include "foundation/thread.h"
#include "scheduler/rights.h"
#include "scheduler/scheduler_private.h"

int scheduler_create(struct ec_clock_page *page, int priority, struct scheduler **scheduler,
                     struct ec_error *why)
{
    struct scheduler *made = calloc(1, sizeof *made);
    int64_t now_ns = ec_real_ns();
    int rc;

    if (!made)
        return ec_fail(why, EC_ERR_MEMORY, "scheduler: %zu bytes", sizeof *made);
    made->page = page;
    made->priority = priority;
    scheduler_state_init(&made->state, now_ns);
    rc = scheduler_state_add(&made->state, "physics", EC_STEP_GAME, 60, 1, now_ns, why);
    if (rc < 0) {
        free(made);
        return rc;
    }
    scheduler_state_write(&made->state, now_ns, page);
    *scheduler = made;
    return EC_OK;
}

static void *run(void *context)
{
    struct scheduler *scheduler = context;
    const struct rights_range ranges[] = {
        { scheduler, sizeof *scheduler },
        { scheduler->page, sizeof *scheduler->page },
    };

    rights_acquire(&scheduler->rights, scheduler->priority, ranges, 2);
    /* release: partner is the acquire load in scheduler_start, after which rights are read. */
    atomic_store_explicit(&scheduler->running, 1, memory_order_release);
    ec_futex_wake_all(&scheduler->running);

    /* The start was an event of the program, not of time: it is no gap, however long ago. */
    scheduler->state.deadline_ns = ec_real_ns();
    for (;;) {
        /* acquire: partner is the release in scheduler_kick; a command that comes after this load
         * makes the sleep below return at once. */
        uint32_t command = atomic_load_explicit(&scheduler->command, memory_order_acquire);
        struct scheduler_outcome outcome;
        int64_t now_ns;

        if (atomic_load_explicit(&scheduler->stopping, memory_order_relaxed))
            return NULL;
        now_ns = ec_real_ns();
        scheduler_turn(&scheduler->state, now_ns, &outcome);
        scheduler_publish(&scheduler->state, &outcome, now_ns, scheduler->page);
        ec_futex_wait(&scheduler->command, command, outcome.deadline_ns);
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
    /* release: what was stored before is seen by the turn that this causes. */
    atomic_fetch_add_explicit(&scheduler->command, 1, memory_order_release);
    ec_futex_wake_all(&scheduler->command);
}

void scheduler_destroy(struct scheduler *scheduler)
{
    if (!scheduler)
        return;
    if (scheduler->started) {
        atomic_store_explicit(&scheduler->stopping, true, memory_order_relaxed);
        scheduler_kick(scheduler); /* its release makes stopping seen, too */
        pthread_join(scheduler->thread, NULL);
    }
    free(scheduler);
}

void scheduler_describe(const struct scheduler *scheduler, struct ec_json_writer *writer)
{
    rights_describe(&scheduler->rights, writer);
}

int scheduler_init(struct services *services, struct ec_error *why)
{
    return scheduler_create(segments_clock(services->segments),
                            (int)config_integer(services->config, EC_CONFIG_scheduler_priority),
                            &services->scheduler, why);
}

int scheduler_post_init(struct services *services, struct ec_error *why)
{
    const struct rights *rights = &services->scheduler->rights;
    int rc = scheduler_start(services->scheduler, why);

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
    scheduler_destroy(services->scheduler);
    services->scheduler = NULL;
}
