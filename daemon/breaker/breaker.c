/* breaker.c - the tick, the level of all, the level of each client, and who is told.
 *
 *   look: sources -> machines -> level of all -> page word      games see it from here on
 *                             -> level of each -> orders -> slots of the board -> sockets
 *                             -> event, history, log, alarm
 *
 * Nothing up to the slots allocates, except the eviction of assets, which comes after the level. */
#include "breaker/breaker.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "breaker/state.h"
#include "clients/clients.h"
#include "daemon/config.h"
#include "daemon/log.h"
#include "daemon/request.h"
#include "daemon/segments.h"
#include "events/events.h"
#include "foundation/real_time.h"
#include "resources/resources.h"
#include "scheduler/scheduler.h"

#define NS_PER_MS INT64_C(1000000)
#define CHAIN_NS (5 * EC_NS_PER_S)   /* a client may have been moved to another group */
#define CHAINS_NS (100 * NS_PER_MS)  /* at most one client's chain is read in this time */
#define BUDGETS_NS (100 * NS_PER_MS) /* tags are added up so often */

static bool is_calm(const struct breaker *breaker);
static void count_taken(struct breaker *breaker);
static void look_at_sources(struct breaker *breaker, int64_t now_ns);
static void note_source(struct breaker *breaker, struct source *source, uint32_t from,
                        int64_t now_ns);
static void look_at_members(struct breaker *breaker, int64_t now_ns);
static void refresh_chain(struct breaker *breaker, int64_t now_ns);
static void arm_chain(struct breaker *breaker, const struct source_chain *chain);
static void arm(struct breaker *breaker, uint32_t source);
static void disarm_free(struct breaker *breaker);
static void look_at_budget(struct breaker *breaker, struct member *member, int64_t now_ns);
static void member_level(struct breaker *breaker, struct member *member);
static void refresh_own(struct breaker *breaker, int64_t now_ns);
static bool settle_level(struct breaker *breaker, int64_t now_ns);
static uint64_t settle_soft(struct breaker *breaker);
static void set_soft(struct breaker *breaker, enum resources_soft soft, enum breaker_action action);
static void tell(struct breaker *breaker, uint32_t from);
static void record(struct breaker *breaker, int64_t now_ns);
static void write_forecast(struct breaker *breaker, int64_t now_ns);
static void serve_waiting(struct breaker *breaker, int64_t now_ns);
static struct history_item *note_manual(struct breaker *breaker, uint32_t from, const char *reason,
                                        int64_t now_ns);
static void write_knobs(struct breaker *breaker);
static void on_config(void *context, enum ec_config_id id);
static void on_timer(uv_timer_t *timer);
static void on_wake(void *context);
static void look_and_sleep(struct breaker *breaker);
static void on_handle_closed(void *context);
static void on_timer_closed(uv_handle_t *handle);
static void client_attached(void *context, struct client *client);
static void client_left(void *context, struct client *client);
static void client_ended(void *context, struct client *client);

static const struct client_hooks hooks = {
    .attached = client_attached,
    .left = client_left,
    .ended = client_ended,
};

int breaker_init(struct services *services, struct ec_error *why)
{
    const struct config *config = services->config;
    struct breaker *breaker;
    int rc = config_add_check(services->config, breaker_check_config, NULL, why);

    if (rc < 0)
        return rc;
    breaker = calloc(1, sizeof *breaker);
    if (breaker == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "breaker: %s", strerror(errno));
    breaker->services = services;
    breaker->page = segments_clock(services->segments);
    breaker->board = &segments_directory(services->segments)->breaker;
    breaker->since_ns = ec_real_ns();
    breaker->kernel_events = config_boolean(config, EC_CONFIG_breaker_kernel_events);
    breaker->is_locked = mlock(breaker, sizeof *breaker) == 0;
    rc = policy_load(config, &breaker->policy, why);
    if (rc == EC_OK)
        rc = sources_init(&breaker->sources, config_string(config, EC_CONFIG_breaker_proc),
                          config_string(config, EC_CONFIG_breaker_groups), why);
    breaker->samples = samples_create();
    breaker->trace = trace_create();
    if (rc == EC_OK && (breaker->samples == NULL || breaker->trace == NULL))
        rc = ec_fail(why, EC_ERR_MEMORY, "samples of the breaker: %s", strerror(errno));
    if (rc == EC_OK)
        rc = alarm_hook_init(&breaker->alarm, services->loop, why);
    if (rc < 0) {
        samples_destroy(breaker->samples);
        trace_destroy(breaker->trace);
        sources_finish(&breaker->sources);
        free(breaker);
        return rc;
    }
    uv_timer_init(services->loop, &breaker->timer);
    uv_unref((uv_handle_t *)&breaker->timer);
    breaker->timer.data = breaker;
    breaker->open_handles = 2;
    services->breaker = breaker;
    if (!breaker->is_locked)
        sources_note_absent(&breaker->sources, "locked memory", strerror(errno));
    breaker->marks = policy_marks(&breaker->policy);
    breaker->tick = policy_tick(&breaker->policy);
    sources_set_near(&breaker->sources, policy_near_permille(&breaker->policy));
    write_knobs(breaker);
    rc = clients_add_hooks(services->clients, &hooks, breaker);
    if (rc == EC_OK)
        rc = config_on_change(services->config, on_config, breaker);
    return rc < 0 ? ec_fail(why, rc, "breaker: too many want to hear of clients or changes") : rc;
}

int breaker_post_init(struct services *services, struct ec_error *why)
{
    struct breaker *breaker = services->breaker;

    if (breaker->kernel_events) {
        breaker->wakeups = wakeups_create(services->loop, on_wake, breaker);
        if (breaker->wakeups == NULL)
            return ec_fail(why, EC_ERR_MEMORY, "wake-ups of the breaker");
    } else {
        sources_note_absent(&breaker->sources, "kernel events", "breaker.kernel_events is false");
    }
    breaker_inherit(breaker);
    look_and_sleep(breaker); /* it knows the limits then */
    for (uint32_t i = 0; i < breaker->sources.high && breaker->wakeups != NULL; i++)
        if (breaker->sources.source[i].kind != SOURCE_FREE)
            wakeups_arm(breaker->wakeups, &breaker->sources, i, &breaker->marks,
                        breaker->tick.fast_permille);
    for (unsigned i = 0; i < breaker->sources.absent_count; i++)
        log_info("breaker", "without %s: %s", breaker->sources.absent[i].name,
                 breaker->sources.absent[i].reason);
    return EC_OK;
}

/* The handles lie inside: the loop says when it has let go. */
void breaker_shutdown(struct services *services)
{
    struct breaker *breaker = services->breaker;

    if (breaker == NULL)
        return;
    services->breaker = NULL;
    wakeups_destroy(breaker->wakeups);
    for (struct member *member = members_next(breaker, NULL); member != NULL;
         member = members_next(breaker, member))
        if (member->statm_fd >= 0)
            close(member->statm_fd);
    samples_destroy(breaker->samples);
    trace_destroy(breaker->trace);
    sources_finish(&breaker->sources);
    alarm_hook_close(&breaker->alarm, on_handle_closed, breaker);
    uv_close((uv_handle_t *)&breaker->timer, on_timer_closed);
}

uint32_t breaker_level(const struct breaker *breaker)
{
    return breaker->level;
}

int64_t breaker_look(struct breaker *breaker, int64_t now_ns)
{
    const int64_t started_ns = ec_real_ns();
    int64_t look_ns = breaker->tick.tick_ns;
    bool risen;

    breaker->looks++;
    if (breaker->is_calm && sources_are_quiet(&breaker->sources, now_ns)) {
        breaker->look_cost_ns += ec_real_ns() - started_ns;
        return breaker->look_ns;
    }
    if (reservations_expire(&breaker->reservations, now_ns) > 0) {
        breaker_deduct(breaker);
        breaker_keep(breaker);
    }
    if (breaker->manual.level > 0 && breaker->manual.end_ns != 0 &&
        now_ns >= breaker->manual.end_ns)
        breaker_reset(breaker, "the time of the manual level is over");
    count_taken(breaker);
    look_at_sources(breaker, now_ns);
    risen = settle_level(breaker, now_ns);
    settle_soft(breaker);
    look_at_members(breaker, now_ns);
    orders_look(breaker, now_ns);
    orders_publish(breaker, risen);
    if (effects_look(breaker, now_ns) && look_ns > SAMPLE_NS)
        look_ns = SAMPLE_NS;
    write_forecast(breaker, now_ns);
    record(breaker, now_ns);
    serve_waiting(breaker, now_ns);
    for (uint32_t i = 0; i < breaker->sources.high; i++) {
        const struct source *source = &breaker->sources.source[i];
        int64_t source_ns;

        if (source->kind == SOURCE_FREE || !source->readable)
            continue;
        source_ns = level_look_ns(&breaker->tick, &breaker->marks, &source->reading,
                                  growth_bytes_per_s(&source->growth));
        look_ns = source_ns < look_ns ? source_ns : look_ns;
    }
    breaker->looked_ns = now_ns;
    breaker->look_ns = look_ns;
    breaker->is_calm = is_calm(breaker);
    breaker->look_cost_ns += ec_real_ns() - started_ns;
    return look_ns;
}

uint64_t breaker_trip(struct breaker *breaker, const struct breaker_trip *trip,
                      struct ec_json_writer *groups)
{
    const int64_t now_ns = ec_real_ns();
    const uint32_t from = breaker->manual.level;
    uint64_t freed_bytes = 0;
    struct history_item *item;

    assert(trip->level <= BREAKER_LEVEL_MAX);
    breaker->manual.level = trip->level;
    breaker->manual.end_ns =
        trip->level > 0 && trip->hold_s > 0 ? now_ns + (int64_t)trip->hold_s * EC_NS_PER_S : 0;
    snprintf(breaker->manual.reason, sizeof breaker->manual.reason, "%s", trip->reason);
    item = note_manual(breaker, from, trip->reason, now_ns);
    for (uint32_t i = 0; i < breaker->member_high; i++)
        breaker->members[i].answered = false;
    /* The orders first: who sees the level and answers at once has answered them. */
    orders_by_hand(breaker, now_ns);
    orders_write(breaker);
    settle_level(breaker, now_ns);
    item->global = breaker->level;
    orders_tell(breaker, true);
    freed_bytes = settle_soft(breaker);
    if (trip->level >= LEVEL_EVICTION && policy_does(&breaker->policy, trip->level, ACTION_EVICT)) {
        const int64_t before_ns = ec_real_ns();
        const uint64_t evicted_bytes =
            resources_evict(breaker->services->resources, UINT64_MAX, groups);

        history_add_effect(item, ACTION_EVICT, evicted_bytes, ec_real_ns() - before_ns);
        freed_bytes += evicted_bytes;
        log_info("breaker", "eviction gave back %" PRIu64 " bytes", freed_bytes);
    }
    breaker_keep(breaker); /* last: before the answer, but not before anybody is helped */
    return freed_bytes;
}

void breaker_reset(struct breaker *breaker, const char *reason)
{
    const int64_t now_ns = ec_real_ns();
    struct history_item *item;

    if (breaker->manual.level == 0)
        return;
    item = note_manual(breaker, breaker->manual.level, reason, now_ns);
    breaker->manual.level = LEVEL_NORMAL;
    breaker->manual.end_ns = 0;
    item->to = LEVEL_NORMAL;
    settle_level(breaker, now_ns);
    item->global = breaker->level;
    settle_soft(breaker);
    orders_look(breaker, now_ns);
    orders_publish(breaker, true);
    breaker_keep(breaker);
}

void breaker_raise_again(struct breaker *breaker, uint32_t level, int64_t end_ns,
                         const char *reason)
{
    struct history_item *item;

    snprintf(breaker->manual.reason, sizeof breaker->manual.reason, "%s", reason);
    breaker->manual.level = level;
    breaker->manual.end_ns = end_ns;
    item = note_manual(breaker, LEVEL_NORMAL, reason, ec_real_ns());
    item->global = level;
}

void breaker_state(const struct breaker *breaker, struct breaker_state *state)
{
    const int64_t left_ns = breaker->manual.end_ns - ec_real_ns();

    *state = (struct breaker_state) {
        .level = breaker->level,
        .since_ns = breaker->since_ns,
        .hold_s = breaker->manual.end_ns == 0 || left_ns <= 0
                      ? 0
                      : (uint32_t)((left_ns + EC_NS_PER_S - 1) / EC_NS_PER_S),
        .reason = breaker->reason,
    };
}

struct member *breaker_member(struct breaker *breaker, uint32_t client_id)
{
    for (uint32_t i = 0; i < breaker->member_high; i++)
        if (breaker->members[i].client != NULL && breaker->members[i].client->id == client_id)
            return &breaker->members[i];
    return NULL;
}

const struct source *breaker_tightest(const struct breaker *breaker)
{
    const struct source *tightest = &breaker->sources.source[SOURCES_HOST];

    for (uint32_t i = 1; i < breaker->sources.high; i++) {
        const struct source *source = &breaker->sources.source[i];

        if (source->kind == SOURCE_FREE || !source->own || !source->readable)
            continue;
        if (source->machine.level > tightest->machine.level ||
            (source->machine.level == tightest->machine.level &&
             level_permille(source->reading.available_bytes, source->reading.total_bytes) <
                 level_permille(tightest->reading.available_bytes, tightest->reading.total_bytes)))
            tightest = source;
    }
    return tightest;
}

void breaker_use_policy(struct breaker *breaker, const struct breaker_policy *policy)
{
    breaker->policy = *policy;
    breaker->policy_version++;
    settle_soft(breaker);
    breaker->is_calm = false;
    breaker->marks = policy_marks(policy);
    breaker->tick = policy_tick(policy);
    sources_set_near(&breaker->sources, policy_near_permille(policy));
    write_knobs(breaker);
    breaker_tell_scheduler(breaker);
    for (uint32_t i = 0; i < breaker->sources.high && breaker->wakeups != NULL; i++)
        if (breaker->sources.source[i].kind != SOURCE_FREE)
            wakeups_arm(breaker->wakeups, &breaker->sources, i, &breaker->marks,
                        breaker->tick.fast_permille);
    log_info("breaker", "policy %" PRIu64 " is in force", breaker->policy_version);
}

/* Those that count for all bear every reservation; a client's groups bear those of who is in them. */
void breaker_deduct(struct breaker *breaker)
{
    breaker->looked_ns = 0; /* what was read before is not true any more */
    breaker->is_calm = false;
    for (uint32_t i = 0; i < breaker->sources.high; i++) {
        struct source *source = &breaker->sources.source[i];

        source->reserved_bytes = 0;
        source->exact.at_ns = 0;
        for (unsigned r = 0; r < RESERVATIONS_MAX; r++) {
            const struct reservation *row = &breaker->reservations.rows[r];
            const struct member *member =
                row->id == 0 ? NULL : breaker_member(breaker, row->client_id);

            if (row->id != 0 && (source->own || (member != NULL && member_is_in(member, i))))
                source->reserved_bytes += row->bytes - row->taken_bytes;
        }
    }
}

/* With what is taken, everyone that bears it stays above the mark of level 2. */
bool breaker_has_room(struct breaker *breaker, uint32_t client_id, uint64_t bytes,
                      uint64_t *missing_bytes)
{
    const struct member *member = breaker_member(breaker, client_id);

    *missing_bytes = 0;
    for (uint32_t i = 0; i < breaker->sources.high; i++) {
        struct source *source = &breaker->sources.source[i];
        uint64_t wanted_bytes;

        if (source->kind == SOURCE_FREE ||
            (!source->own && (member == NULL || !member_is_in(member, i))) ||
            !source_look_exactly(source, ec_real_ns()))
            continue;
        if (__builtin_add_overflow(
                bytes,
                level_mark_bytes(&breaker->marks, LEVEL_EVICTION, source->reading.total_bytes),
                &wanted_bytes))
            wanted_bytes = UINT64_MAX;
        if (wanted_bytes > source->reading.available_bytes &&
            wanted_bytes - source->reading.available_bytes > *missing_bytes)
            *missing_bytes = wanted_bytes - source->reading.available_bytes;
    }
    return *missing_bytes == 0;
}

/* ---- a look ---------------------------------------------------------------------------------- */

/* Whether nothing but a source can bring anything new. */
static bool is_calm(const struct breaker *breaker)
{
    if (breaker->level > LEVEL_NORMAL || breaker->manual.level > LEVEL_NORMAL ||
        breaker->reservations.count > 0)
        return false;
    for (unsigned i = 0; i < WAITING_MAX; i++)
        if (breaker->waiting[i].reply != NULL)
            return false;
    for (uint32_t i = 0; i < breaker->member_high; i++) {
        const struct member *member = &breaker->members[i];

        if (member->client != NULL &&
            (member->level > LEVEL_NORMAL || member->exit_ns != 0 || member->asked_sequence != 0))
            return false;
    }
    return true;
}

/* Who grows into what it has reserved uses it: that shows in what is available by itself. */
static void count_taken(struct breaker *breaker)
{
    bool changed = false;

    for (struct member *member = members_next(breaker, NULL); member != NULL;
         member = members_next(breaker, member)) {
        uint64_t resident_bytes, private_bytes;

        if (!reservations_any(&breaker->reservations, member->client->id))
            continue;
        member_memory(member, &resident_bytes, &private_bytes);
        if (resident_bytes != 0 &&
            reservations_take(&breaker->reservations, member->client->id, private_bytes))
            changed = true;
    }
    if (changed)
        breaker_deduct(breaker);
}

static void look_at_sources(struct breaker *breaker, int64_t now_ns)
{
    for (uint32_t i = 0; i < breaker->sources.high; i++) {
        struct source *source = &breaker->sources.source[i];
        struct history_item *item;
        const uint32_t from = source->machine.level;

        /* What cannot be read keeps its level until its group is found gone. */
        if (source->kind == SOURCE_FREE || !source_look(source, now_ns))
            continue;
        if (level_machine_look(&source->machine, &breaker->marks, &source->reading, now_ns))
            note_source(breaker, source, from, now_ns);
        item = history_find(&breaker->history, source->history);
        if (item != NULL && source->reading.available_bytes < item->lowest_bytes)
            item->lowest_bytes = source->reading.available_bytes;
    }
}

static void note_source(struct breaker *breaker, struct source *source, uint32_t from,
                        int64_t now_ns)
{
    struct history_item *item = history_add(&breaker->history);

    source->history = item->number;
    item->at_ns = now_ns;
    item->from = from;
    item->to = source->machine.level;
    item->own = source->own;
    item->global = breaker->level; /* settle_level() puts the new one in */
    item->cause = source->machine.cause;
    snprintf(item->source, sizeof item->source, "%.*s", HISTORY_NAME_BYTES - 1, source->name);
    item->total_bytes = source->reading.total_bytes;
    item->available_bytes = item->lowest_bytes = source->reading.available_bytes;
    item->bytes_per_s = growth_bytes_per_s(&source->growth);
    snprintf(item->reason, sizeof item->reason, "%u of 1000 parts are left",
             level_permille(item->available_bytes, item->total_bytes));
    if (!source->own)
        log_write(item->to > from ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, "breaker",
                  "%s: level %u -> %u, %u of 1000 parts are left", source->name, from, item->to,
                  level_permille(item->available_bytes, item->total_bytes));
}

/* The level of all, out of the sources that count and of what was raised by hand. Games see it when
 * this returns. Returns whether it changed. */
static bool settle_level(struct breaker *breaker, int64_t now_ns)
{
    const uint32_t from = breaker->level;
    const struct source *tightest = breaker_tightest(breaker);
    uint32_t level = tightest->machine.level;
    struct history_item *item;

    breaker->cause = tightest->machine.cause;
    if (breaker->manual.level > 0 && breaker->manual.level >= level) {
        level = breaker->manual.level;
        breaker->cause = EC_BREAKER_CAUSE_MANUAL;
    }
    if (level == from)
        return false;
    if (level > from || level == LEVEL_NORMAL)
        for (uint32_t i = 0; i < breaker->member_high; i++)
            breaker->members[i].answered = false; /* what they said was to another level */
    breaker->level = level;
    breaker->since_ns = now_ns;
    /* Release: pairs with the acquire load of ec_breaker_level(). */
    atomic_store_explicit(&breaker->page->breaker_level, level, memory_order_release);
    breaker_tell_scheduler(breaker);
    for (uint32_t i = 0; i < breaker->sources.high; i++) {
        item = history_find(&breaker->history, breaker->sources.source[i].history);
        if (item != NULL && item->at_ns == now_ns)
            item->global = level;
    }
    breaker->level_history =
        breaker->cause == EC_BREAKER_CAUSE_MANUAL ? breaker->manual.history : tightest->history;
    if (breaker->cause != EC_BREAKER_CAUSE_MANUAL && now_ns != breaker->manual_ns)
        snprintf(breaker->reason, sizeof breaker->reason, "%.90s: %u of 1000 parts are left",
                 tightest->name,
                 level_permille(tightest->reading.available_bytes, tightest->reading.total_bytes));
    tell(breaker, from);
    return true;
}

void breaker_tell_scheduler(struct breaker *breaker)
{
    scheduler_breaker_changed(breaker->services->scheduler,
                              policy_does(&breaker->policy, breaker->level, ACTION_STEP_RATE));
}

/* Soft references are wishes: they give way first, and count again when there is room. Games have seen
 * the level by now. Returns the bytes given back. */
static uint64_t settle_soft(struct breaker *breaker)
{
    const bool pauses = policy_does(&breaker->policy, breaker->level, ACTION_PREFETCH);
    const bool clears = policy_does(&breaker->policy, breaker->level, ACTION_SOFT);
    const enum resources_soft wanted = clears   ? RESOURCES_SOFT_CLEARED
                                       : pauses ? RESOURCES_SOFT_PAUSED
                                                : RESOURCES_SOFT_HONOURED;

    breaker->soft_freed_bytes = 0;
    if (wanted == breaker->soft)
        return 0;
    /* One after the other, so that each effect is its own. */
    if (pauses && breaker->soft == RESOURCES_SOFT_HONOURED)
        set_soft(breaker, RESOURCES_SOFT_PAUSED, ACTION_PREFETCH);
    if (wanted > breaker->soft)
        set_soft(breaker, wanted, ACTION_SOFT);
    else if (wanted < breaker->soft)
        resources_set_soft(breaker->services->resources, wanted);
    breaker->soft = wanted;
    return breaker->soft_freed_bytes;
}

static void set_soft(struct breaker *breaker, enum resources_soft soft, enum breaker_action action)
{
    const int64_t before_ns = ec_real_ns();
    const uint64_t freed_bytes = resources_set_soft(breaker->services->resources, soft);

    breaker->soft = soft;
    breaker->soft_freed_bytes += freed_bytes;
    history_add_effect(history_find(&breaker->history, breaker->level_history), action, freed_bytes,
                       ec_real_ns() - before_ns);
}

static void tell(struct breaker *breaker, uint32_t from)
{
    const struct source *tightest = breaker_tightest(breaker);
    struct event_breaker_level event = { .from = { from }, .to = { breaker->level } };

    memcpy(event.reason, breaker->reason, sizeof event.reason);
    events_publish_system(breaker->services->events, EC_SYSTEM_breaker_level, &event);
    log_write(breaker->level > from ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, "breaker",
              "level %u -> %u: %s", from, breaker->level, breaker->reason);
    if (breaker->policy.on_level[0] != '\0') {
        struct alarm_values values = {
            .from = from,
            .to = breaker->level,
            .cause = history_cause_name(breaker->cause),
            .available_bytes = tightest->reading.available_bytes,
            .total_bytes = tightest->reading.total_bytes,
            .limit_s = breaker->policy.on_level_s,
        };

        strcpy(values.command, breaker->policy.on_level);
        memcpy(values.reason, breaker->reason, sizeof values.reason);
        alarm_hook_tell(&breaker->alarm, &values);
    }
}

static void look_at_members(struct breaker *breaker, int64_t now_ns)
{
    const bool budgets = now_ns - breaker->budgets_ns >= BUDGETS_NS;

    if (now_ns - breaker->chains_ns >= CHAINS_NS) {
        breaker->chains_ns = now_ns;
        refresh_chain(breaker, now_ns);
        refresh_own(breaker, now_ns);
    }
    if (budgets)
        breaker->budgets_ns = now_ns;
    for (uint32_t i = 0; i < breaker->member_high; i++) {
        struct member *member = &breaker->members[i];

        if (member->client == NULL)
            continue;
        if (budgets)
            look_at_budget(breaker, member, now_ns);
        member_level(breaker, member);
    }
}

/* The chain that was not read for the longest time. */
static void refresh_chain(struct breaker *breaker, int64_t now_ns)
{
    struct member *oldest = NULL;
    struct source_chain before;

    for (uint32_t i = 0; i < breaker->member_high; i++) {
        struct member *member = &breaker->members[i];

        if (member->client != NULL &&
            (oldest == NULL || member->chain_read_ns < oldest->chain_read_ns))
            oldest = member;
    }
    if (oldest == NULL || now_ns - oldest->chain_read_ns < CHAIN_NS)
        return;
    oldest->chain_read_ns = now_ns;
    before = oldest->chain;
    sources_chain(&breaker->sources, oldest->client->pid, &oldest->chain);
    sources_release(&breaker->sources, &before);
    if (memcmp(&before.source, &oldest->chain.source, sizeof before.source) != 0)
        breaker_deduct(breaker);
    arm_chain(breaker, &oldest->chain);
    disarm_free(breaker);
}

static void refresh_own(struct breaker *breaker, int64_t now_ns)
{
    if (now_ns - breaker->own_chain_ns < CHAIN_NS)
        return;
    breaker->own_chain_ns = now_ns;
    sources_refresh_own(&breaker->sources);
    if (breaker->reservations.count > 0) /* they are deducted from other sources now, perhaps */
        breaker_deduct(breaker);
    for (uint32_t i = 0; i < breaker->sources.high; i++)
        if (breaker->sources.source[i].kind != SOURCE_FREE && breaker->sources.source[i].own)
            arm(breaker, i);
    disarm_free(breaker);
}

static void arm_chain(struct breaker *breaker, const struct source_chain *chain)
{
    for (uint32_t i = 0; i < chain->count; i++)
        arm(breaker, chain->source[i]);
}

/* What is not armed yet. */
static void arm(struct breaker *breaker, uint32_t source)
{
    if (breaker->wakeups == NULL || wakeups_is_armed(breaker->wakeups, source))
        return;
    source_look(&breaker->sources.source[source], ec_real_ns()); /* its limit has to be known */
    wakeups_arm(breaker->wakeups, &breaker->sources, source, &breaker->marks,
                breaker->tick.fast_permille);
}

static void disarm_free(struct breaker *breaker)
{
    for (uint32_t i = 0; i < SOURCES_MAX && breaker->wakeups != NULL; i++)
        if (breaker->sources.source[i].kind == SOURCE_FREE)
            wakeups_disarm(breaker->wakeups, i);
}

/* Rises at once, falls when it was lower for the hold time. */
static void look_at_budget(struct breaker *breaker, struct member *member, int64_t now_ns)
{
    const uint32_t level =
        member_budget_level(member, (uint32_t)breaker->policy.budget_eviction_permille);

    if (level >= member->budget_level)
        member->budget_ns = now_ns;
    if (level > member->budget_level ||
        (level < member->budget_level && now_ns - member->budget_ns >= breaker->marks.hold_ns)) {
        struct history_item *item = history_add(&breaker->history);

        item->at_ns = now_ns;
        item->from = member->budget_level;
        item->to = level;
        item->global = breaker->level;
        item->cause = EC_BREAKER_CAUSE_BUDGET;
        snprintf(item->source, sizeof item->source, "budget");
        snprintf(item->reason, sizeof item->reason, "client %u (%s)", member->client->id,
                 member->client->name);
        member->budget_level = level;
        member->budget_history = item->number;
    }
}

static void member_level(struct breaker *breaker, struct member *member)
{
    uint32_t level = member->budget_level;
    enum ec_breaker_cause cause =
        level > LEVEL_NORMAL ? EC_BREAKER_CAUSE_BUDGET : EC_BREAKER_CAUSE_NONE;

    uint64_t history = member->budget_history;

    for (uint32_t i = 0; i < member->chain.count; i++) {
        const struct source *source = &breaker->sources.source[member->chain.source[i]];

        if (source->machine.level > level) {
            level = source->machine.level;
            cause = source->machine.cause;
            history = source->history;
        }
    }
    if (level == member->level)
        return;
    if (level > member->level)
        member->answered = false;
    member->level = level;
    member->cause = cause;
    member->history = history;
    member->order.level = level;
    breaker->own_level_changed = true;
    if (member->asked_sequence == 0)
        member->order.cause = cause;
    member->is_changed = true;
}

/* For later rehearsals. */
static void record(struct breaker *breaker, int64_t now_ns)
{
    const struct source *tightest = breaker_tightest(breaker);
    const struct level_reading *reading = &tightest->reading;

    trace_add(breaker->trace, now_ns, reading,
              level_permille(reading->available_bytes, reading->total_bytes) <
                  tightest->near_permille);
}

static void write_forecast(struct breaker *breaker, int64_t now_ns)
{
    const struct source *tightest = breaker_tightest(breaker);
    struct ec_breaker_forecast *forecast = &breaker->board->forecast;

    /* Relaxed: each stands for itself. */
    atomic_store_explicit(&forecast->total_bytes, tightest->reading.total_bytes,
                          memory_order_relaxed);
    atomic_store_explicit(&forecast->available_bytes, tightest->reading.available_bytes,
                          memory_order_relaxed);
    atomic_store_explicit(
        &forecast->next_level_ns,
        level_next_ns(&breaker->marks, &tightest->reading, growth_bytes_per_s(&tightest->growth)),
        memory_order_relaxed);
    atomic_store_explicit(&forecast->at_ns, now_ns, memory_order_relaxed);
}

static struct history_item *note_manual(struct breaker *breaker, uint32_t from, const char *reason,
                                        int64_t now_ns)
{
    const struct source *tightest = breaker_tightest(breaker);
    struct history_item *item = history_add(&breaker->history);

    breaker->manual.history = item->number;
    breaker->manual_ns = now_ns;
    breaker->is_calm = false;
    breaker->since_ns = now_ns;
    memset(breaker->reason, 0, sizeof breaker->reason);
    strncpy(breaker->reason, reason, sizeof breaker->reason - 1);
    item->at_ns = now_ns;
    item->from = from;
    item->to = breaker->manual.level;
    item->own = true;
    item->cause = EC_BREAKER_CAUSE_MANUAL;
    snprintf(item->source, sizeof item->source, "manual");
    snprintf(item->reason, sizeof item->reason, "%.*s", HISTORY_NAME_BYTES - 1, reason);
    item->total_bytes = tightest->reading.total_bytes;
    item->available_bytes = item->lowest_bytes = tightest->reading.available_bytes;
    return item;
}

static void write_knobs(struct breaker *breaker)
{
    for (uint32_t level = LEVEL_NORMAL; level < LEVELS; level++)
        policy_write_knobs(&breaker->policy, level, &breaker->board->knobs[level]);
}

/* ---- reservations that wait ------------------------------------------------------------------- */

/* Grant what there is room for now; refuse what waited for too long. */
static void serve_waiting(struct breaker *breaker, int64_t now_ns)
{
    for (unsigned i = 0; i < WAITING_MAX; i++)
        if (breaker->waiting[i].reply != NULL)
            waiting_serve(breaker, &breaker->waiting[i], now_ns);
}

/* ---- configuration and loop ------------------------------------------------------------------- */

int breaker_check_config(void *context, const struct config *fresh, struct ec_error *why)
{
    struct breaker_policy policy;

    (void)context;
    return policy_load(fresh, &policy, why);
}

/* Comes once for each key; the first takes all of them over. */
static void on_config(void *context, enum ec_config_id id)
{
    struct breaker *breaker = context;
    struct breaker_policy policy = breaker->policy;

    if (strncmp(ec_configs[id].key, "breaker.", 8) == 0 &&
        policy_load(breaker->services->config, &policy, NULL) == EC_OK &&
        memcmp(&policy, &breaker->policy, sizeof policy) != 0)
        breaker_use_policy(breaker, &policy);
}

static void on_timer(uv_timer_t *timer)
{
    look_and_sleep(timer->data);
}

/* The kernel saw something that a quiet look need not see, such as pressure. */
static void on_wake(void *context)
{
    struct breaker *breaker = context;

    breaker->is_calm = false;
    look_and_sleep(breaker);
}

static void look_and_sleep(struct breaker *breaker)
{
    const int64_t look_ns = breaker_look(breaker, ec_real_ns());

    uv_update_time(breaker->services->loop); /* the look itself may have taken a while */
    uv_timer_start(&breaker->timer, on_timer, (uint64_t)(look_ns / NS_PER_MS), 0);
}

static void on_timer_closed(uv_handle_t *handle)
{
    on_handle_closed(handle->data);
}

static void on_handle_closed(void *context)
{
    struct breaker *breaker = context;

    if (--breaker->open_handles == 0)
        free(breaker);
}

/* ---- clients ---------------------------------------------------------------------------------- */

static void client_attached(void *context, struct client *client)
{
    struct breaker *breaker = context;
    struct member *member;
    uint32_t slot = 0;

    while (slot < MEMBERS_MAX && breaker->members[slot].client != NULL)
        slot++;
    if (slot == MEMBERS_MAX) {
        breaker->unlisted++;
        log_warning("breaker", "client %u (%s) sees the level of all only: %d others have orders",
                    client->id, client->name, MEMBERS_MAX);
        return;
    }
    breaker->is_calm = false;
    member = &breaker->members[slot];
    *member = (struct member) {
        .client = client,
        .traits = { .priority = PRIORITY_DEFAULT, .busy = true },
        .order.sequence = member->order.sequence,
    };
    if (slot >= breaker->member_high)
        breaker->member_high = slot + 1;
    member->statm_fd = sources_open_statm(&breaker->sources, client->pid);
    if (client_segment(client) != NULL) /* what it did before is not of this level */
        ec_telemetry_knobs(client_segment(client), &member->knobs);
    sources_chain(&breaker->sources, client->pid, &member->chain);
    member->chain_read_ns = ec_real_ns();
    arm_chain(breaker, &member->chain);
    ec_breaker_order_write(&breaker->board->orders[slot], &member->order);
    ec_breaker_order_assign(&breaker->board->orders[slot], client->id);
}

/* What was promised to it is free again. */
static void end_reservations(struct breaker *breaker, uint32_t client_id)
{
    if (reservations_end_client(&breaker->reservations, client_id) == 0)
        return;
    breaker_deduct(breaker);
    breaker_keep(breaker);
}

static void client_left(void *context, struct client *client)
{
    struct breaker *breaker = context;

    for (unsigned i = 0; i < WAITING_MAX; i++)
        if (breaker->waiting[i].reply != NULL && breaker->waiting[i].client_id == client->id)
            breaker->waiting[i].reply = NULL; /* the control plane has thrown it away */
    if (!client_may_return(client))
        end_reservations(breaker, client->id);
}

static void client_ended(void *context, struct client *client)
{
    struct breaker *breaker = context;
    struct member *member = breaker_member(breaker, client->id);

    if (client->successor == NULL)
        end_reservations(breaker, client->id);
    if (member == NULL)
        return;
    if (member->exit_ns != 0) {
        const struct source *source = &breaker->sources.source[member->exit_source];

        history_add_effect(history_find(&breaker->history, source->history), ACTION_EXIT,
                           member->resident_bytes, ec_real_ns() - member->exit_ns);
        log_info("breaker", "client %u (%s) left as it was asked", client->id, client->name);
    }
    ec_breaker_order_assign(&breaker->board->orders[member - breaker->members], 0);
    member->client = NULL;
    if (member->statm_fd >= 0)
        close(member->statm_fd);
    sources_release(&breaker->sources, &member->chain);
    disarm_free(breaker);
}

void breaker_totals(const struct breaker *breaker, struct breaker_totals *totals)
{
    const struct source *tightest = breaker_tightest(breaker);
    const struct level_reading *reading = &tightest->reading;

    *totals = (struct breaker_totals) {
        .level = breaker->level,
        .available_permille = level_permille(reading->available_bytes, reading->total_bytes),
        .reservations = breaker->reservations.count,
        .growth_bytes_s = growth_bytes_per_s(&tightest->growth),
        .looks = breaker->looks,
    };
}
