/* breaker.c - read level, policy and orders out of shared memory, answer in the own segment. */
#include <engine-core/breaker.h>

#include <string.h>

#include "client/client.h"
#include "foundation/real_time.h"
#include "segment/breaker_board.h"

static uint32_t worse(const struct ec_client *client, uint32_t own);
static void take_order(struct ec_client *client, struct ec_breaker_policy *policy);
static void take_knobs(const struct ec_client *client, struct ec_breaker_policy *policy);
static void take_forecast(const struct ec_client *client, struct ec_breaker_policy *policy);
static void note_taken(struct ec_client *client, uint32_t level);
static const char *cause_name(uint32_t cause);
static void write_ack(struct ec_client *client, uint32_t level, uint64_t order,
                      uint64_t freed_bytes, uint64_t trimmed_bytes);
static void on_changed(void *context, struct ec_json_span params, int *fds, unsigned fd_count);

static const struct ec_breaker_order *order_of(const struct ec_client *client)
{
    /* Relaxed: it points into the directory, which is mapped before and stays at its address. */
    return atomic_load_explicit(&client->breaker.order, memory_order_relaxed);
}

void ec_client_breaker_find_order(struct ec_client *client)
{
    atomic_store_explicit(&client->breaker.order,
                          ec_breaker_order_find(client->breaker.board, client->id),
                          memory_order_relaxed);
}

int ec_client_breaker_create(struct ec_client *client, struct ec_error *why)
{
    struct ec_client_breaker *breaker = &client->breaker;

    for (unsigned i = 0; i < EC_WATCH_KINDS; i++)
        pthread_mutex_init(&breaker->watchers[i].lock, NULL);
    breaker->board = &ec_client_directory(client)->breaker;
    ec_client_breaker_find_order(client);
    if (ec_connection_on(client->connection, "breaker.changed", on_changed, client) < 0)
        return ec_fail(why, EC_ERR_LIMIT, "too many notifications have a handler");
    return EC_OK;
}

uint32_t ec_breaker_level(const struct ec_client *client)
{
    const struct ec_breaker_order *order = order_of(client);

    /* Relaxed: only the number counts; who wants to know more reads the order as a whole. */
    return worse(client, order == NULL ? EC_BREAKER_NORMAL
                                       : atomic_load_explicit(&order->level, memory_order_relaxed));
}

void ec_breaker_policy(struct ec_client *client, struct ec_breaker_policy *policy)
{
    memset(policy, 0, sizeof *policy);
    take_order(client, policy);
    take_knobs(client, policy);
    take_forecast(client, policy);
    note_taken(client, policy->level);
}

void ec_breaker_answer(struct ec_client *client, const struct ec_breaker_policy *policy,
                       uint64_t freed_bytes, uint64_t trimmed_bytes)
{
    write_ack(client, policy->level, policy->order, freed_bytes, trimmed_bytes);
}

void ec_breaker_ack(struct ec_client *client, uint32_t level, uint64_t freed_bytes)
{
    const struct ec_breaker_order *order = order_of(client);
    uint64_t sequence = atomic_load_explicit(&client->breaker.told, memory_order_relaxed);

    if (sequence == 0 && order != NULL) /* it never asked what it is: then the newest one */
        sequence = atomic_load_explicit(&order->sequence, memory_order_acquire) & ~(uint64_t)1;
    write_ack(client, level, sequence, freed_bytes, 0);
}

void ec_breaker_knob_turned(struct ec_client *client, enum ec_breaker_knob knob,
                            uint64_t freed_bytes)
{
    if ((unsigned)knob < EC_BREAKER_KNOBS)
        atomic_fetch_add_explicit(&ec_client_own(client)->knobs.freed_bytes[knob], freed_bytes,
                                  memory_order_relaxed);
}

void ec_breaker_offer(struct ec_client *client, uint64_t evictable_bytes)
{
    /* Relaxed: a number of its own. */
    atomic_store_explicit(&ec_client_own(client)->breaker.evictable_bytes, evictable_bytes,
                          memory_order_relaxed);
}

void ec_breaker_on_change(struct ec_client *client, const struct ec_breaker_watch *watch)
{
    for (unsigned kind = 0; kind < EC_WATCH_KINDS; kind++) {
        struct ec_breaker_watcher *watcher = &client->breaker.watchers[kind];

        if (watch != NULL && watch->immediate != (kind == EC_WATCH_IMMEDIATE))
            continue;
        pthread_mutex_lock(&watcher->lock);
        watcher->watch = watch == NULL ? (struct ec_breaker_watch) { 0 } : *watch;
        watcher->level = EC_BREAKER_NORMAL; /* a level that is in force already is told */
        watcher->order = 0;
        atomic_store_explicit(&watcher->is_set, watch != NULL && watch->fn != NULL,
                              memory_order_relaxed);
        pthread_mutex_unlock(&watcher->lock);
    }
}

/* Two loads when nothing has changed. The frame thread and the service thread each have their own. */
void ec_client_breaker_look(struct ec_client *client, enum ec_breaker_watch_kind kind)
{
    struct ec_breaker_watcher *watcher = &client->breaker.watchers[kind];
    const struct ec_breaker_order *order = order_of(client);
    struct ec_breaker_policy policy;

    if (atomic_load_explicit(&watcher->is_set, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&watcher->lock);
    if (watcher->watch.fn != NULL &&
        (ec_breaker_level(client) != watcher->level ||
         (order != NULL &&
          atomic_load_explicit(&order->sequence, memory_order_relaxed) != watcher->order))) {
        const uint32_t before = watcher->level;
        const uint64_t order_before = watcher->order;

        ec_breaker_policy(client, &policy);
        watcher->level = policy.level;
        watcher->order = policy.order;
        /* A slot that was written without a word to this program is no change: at the begin, and when
         * an order was withdrawn after it was answered. */
        if (policy.level != before || (policy.order != order_before &&
                                       (policy.give_bytes > 0 || policy.must_leave || policy.trim)))
            watcher->watch.fn(watcher->watch.context, &policy);
    }
    pthread_mutex_unlock(&watcher->lock);
}

/* Acquire: pairs with the release store of the breaker's settle_level() in the daemon. */
static uint32_t worse(const struct ec_client *client, uint32_t own)
{
    const uint32_t all =
        atomic_load_explicit(&ec_client_clock(client)->breaker_level, memory_order_acquire);
    const uint32_t level = own > all ? own : all;

    return level <= EC_BREAKER_EMERGENCY ? level : EC_BREAKER_EMERGENCY;
}

static void take_order(struct ec_client *client, struct ec_breaker_policy *policy)
{
    const struct ec_breaker_ack *ack = &ec_client_own(client)->breaker;
    struct ec_breaker_order_seen seen = { 0 };

    /* When the daemon died in the middle of an order there is none: the level counts. */
    const struct ec_breaker_order *order = order_of(client);

    if (order != NULL && !ec_breaker_order_read(order, &seen))
        seen = (struct ec_breaker_order_seen) { 0 };
    policy->level = worse(client, seen.level);
    policy->order = seen.sequence;
    policy->cause = cause_name(seen.cause);
    policy->deadline_ns = seen.deadline_ns;
    policy->must_leave = seen.exit_deadline_ns != 0;
    policy->leave_ns = seen.exit_deadline_ns;
    /* Relaxed: written by this process alone. */
    if (atomic_load_explicit(&ack->order, memory_order_relaxed) < seen.sequence) {
        policy->give_bytes = seen.bytes;
        policy->trim = (seen.flags & EC_BREAKER_ORDER_TRIM) != 0;
    }
    atomic_store_explicit(&client->breaker.told, seen.sequence, memory_order_relaxed);
}

static void take_knobs(const struct ec_client *client, struct ec_breaker_policy *policy)
{
    const struct ec_breaker_knobs *knobs;

    policy->particle_rate = policy->quality = 1.0f;
    policy->audio_noncritical = policy->shadows = policy->post_effects = true;
    if (client->breaker.board == NULL)
        return;
    knobs = &client->breaker.board->knobs[policy->level];
    /* Relaxed: each knob stands for itself. */
    policy->particle_rate =
        (float)atomic_load_explicit(&knobs->particle_rate_permille, memory_order_relaxed) / 1000.0f;
    policy->audio_noncritical =
        atomic_load_explicit(&knobs->audio_noncritical, memory_order_relaxed) != 0;
    policy->quality =
        (float)atomic_load_explicit(&knobs->quality_permille, memory_order_relaxed) / 1000.0f;
    policy->shadows = atomic_load_explicit(&knobs->shadows, memory_order_relaxed) != 0;
    policy->lod_bias =
        (float)atomic_load_explicit(&knobs->lod_bias_permille, memory_order_relaxed) / 1000.0f;
    policy->post_effects = atomic_load_explicit(&knobs->post_effects, memory_order_relaxed) != 0;
}

/* When the knobs of a level were read first. Two threads that do so at once write the same level. */
static void note_taken(struct ec_client *client, uint32_t level)
{
    struct ec_breaker_knob_record *knobs = &ec_client_own(client)->knobs;

    /* Relaxed: written by this process alone. */
    if (atomic_load_explicit(&knobs->level, memory_order_relaxed) == level)
        return;
    atomic_store_explicit(&knobs->taken_ns, ec_real_ns(), memory_order_relaxed);
    /* Release: pairs with the acquire load in ec_telemetry_knobs(). */
    atomic_store_explicit(&knobs->level, level, memory_order_release);
}

static void take_forecast(const struct ec_client *client, struct ec_breaker_policy *policy)
{
    const struct ec_breaker_forecast *forecast;

    policy->next_level_ns = -1;
    if (client->breaker.board == NULL)
        return;
    forecast = &client->breaker.board->forecast;
    policy->total_bytes = atomic_load_explicit(&forecast->total_bytes, memory_order_relaxed);
    policy->available_bytes =
        atomic_load_explicit(&forecast->available_bytes, memory_order_relaxed);
    policy->next_level_ns = atomic_load_explicit(&forecast->next_level_ns, memory_order_relaxed);
}

static const char *cause_name(uint32_t cause)
{
    static const char *const names[] = {
        "none", "memory", "pressure", "budget", "manual", "reserve"
    };

    return cause < sizeof names / sizeof names[0] ? names[cause] : "none";
}

/* An odd sequence keeps the daemon from taking a half-written answer for a whole one, also when this
 * process is killed here. It keeps two threads of this process apart as well. */
static void write_ack(struct ec_client *client, uint32_t level, uint64_t order,
                      uint64_t freed_bytes, uint64_t trimmed_bytes)
{
    struct ec_breaker_ack *ack = &ec_client_own(client)->breaker;
    uint64_t sequence;

    do
        sequence = atomic_load_explicit(&ack->sequence, memory_order_relaxed) & ~(uint64_t)1;
    while (!atomic_compare_exchange_weak_explicit(&ack->sequence, &sequence, sequence + 1,
                                                  memory_order_acquire, memory_order_relaxed));
    /* Pairs with the acquire fence in ec_telemetry_ack(): who reads a new field below then finds the
     * sequence odd or changed. */
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&ack->level, level, memory_order_relaxed);
    atomic_store_explicit(&ack->at_ns, ec_real_ns(), memory_order_relaxed);
    atomic_store_explicit(&ack->freed_bytes, freed_bytes, memory_order_relaxed);
    atomic_store_explicit(&ack->trimmed_bytes, trimmed_bytes, memory_order_relaxed);
    atomic_store_explicit(&ack->order, order, memory_order_relaxed);
    /* Release: pairs with the first load in ec_telemetry_ack(). */
    atomic_store_explicit(&ack->sequence, sequence + 2, memory_order_release);
}

/* The notification says only that there is something to read: what counts is in shared memory. */
static void on_changed(void *context, struct ec_json_span params, int *fds, unsigned fd_count)
{
    (void)params;
    (void)fds;
    (void)fd_count;
    ec_client_breaker_look(context, EC_WATCH_IMMEDIATE);
}
