/* collect.c - ask each module for its sums; a row of metrics.def that nobody fills in is zero. */
#include <dirent.h>
#include <unistd.h>

#include "breaker/breaker.h"
#include "clients/clients.h"
#include "daemon/counters.h"
#include "daemon/log.h"
#include "daemon/services.h"
#include "events/events.h"
#include "foundation/real_time.h"
#include "metrics/metrics.h"
#include "resources/resources.h"
#include "scheduler/scheduler.h"
#include "segment/telemetry.h"
#include "telemetry/host_memory.h"

#define PROC "/proc"

static void collect_memory(struct services *services, int64_t *value);
static void collect_clients(struct services *services, int64_t *value);
static void collect_clock(struct services *services, int64_t *value);
static void collect_event(struct services *services, int64_t *value);
static void collect_breaker(struct services *services, int64_t *value);
static void collect_resource(struct services *services, int64_t *value);
static void collect_control(struct services *services, int64_t *value);
static int64_t bounded(uint64_t number);
static int64_t count_descriptors(void);

void metrics_collect(struct services *services, unsigned topics, struct metrics_sample *sample)
{
    static void (*const collect[EC_TOPICS])(struct services *, int64_t *) = {
        [EC_TOPIC_MEMORY] = collect_memory,     [EC_TOPIC_CLOCK] = collect_clock,
        [EC_TOPIC_EVENT] = collect_event,       [EC_TOPIC_BREAKER] = collect_breaker,
        [EC_TOPIC_RESOURCE] = collect_resource, [EC_TOPIC_CONTROL] = collect_control,
    };

    *sample = (struct metrics_sample) { .real_ns = ec_real_ns() };
    for (unsigned topic = 0; topic < EC_TOPICS; topic++)
        if ((topics >> topic & 1) != 0)
            collect[topic](services, sample->value);
}

static void collect_memory(struct services *services, int64_t *value)
{
    struct host_memory memory;
    struct resources_totals totals;
    struct ec_error why;

    if (host_memory_read(PROC, &memory, &why) == EC_OK) {
        value[EC_METRIC_memory_total] = bounded(memory.total_bytes);
        value[EC_METRIC_memory_available] = bounded(memory.available_bytes);
    }
    resources_totals(services->resources, &totals);
    value[EC_METRIC_memory_assets] = bounded(totals.bytes);
    value[EC_METRIC_memory_daemon] = bounded(host_memory_rss(PROC, getpid(), NULL));
    collect_clients(services, value);
}

static void collect_clients(struct services *services, int64_t *value)
{
    uint64_t bytes = 0, peak_bytes = 0;
    struct client *client = NULL;

    while ((client = clients_next(services->clients, client)) != NULL) {
        struct ec_memory_sum sum;

        if (!client->attached)
            continue;
        ec_telemetry_memory(client_segment(client), &sum);
        if (__builtin_add_overflow(bytes, sum.bytes, &bytes))
            bytes = UINT64_MAX;
        if (__builtin_add_overflow(peak_bytes, sum.peak_bytes, &peak_bytes))
            peak_bytes = UINT64_MAX;
        value[EC_METRIC_memory_client_count]++;
    }
    value[EC_METRIC_memory_clients] = bounded(bytes);
    value[EC_METRIC_memory_clients_peak] = bounded(peak_bytes);
}

static void collect_clock(struct services *services, int64_t *value)
{
    struct scheduler_totals totals;

    scheduler_totals(services->scheduler, &totals);
    value[EC_METRIC_clock_game] = totals.game_ns;
    value[EC_METRIC_clock_paused] = totals.paused;
    value[EC_METRIC_clock_steps] = bounded(totals.steps);
    value[EC_METRIC_clock_missed] = bounded(totals.missed);
    value[EC_METRIC_clock_jitter] = bounded(totals.jitter_p99_ns);
    value[EC_METRIC_clock_discontinuities] = bounded(totals.discontinuities);
    value[EC_METRIC_clock_timers] = totals.timers;
}

static void collect_event(struct services *services, int64_t *value)
{
    struct events_totals totals;

    events_totals(services->events, &totals);
    value[EC_METRIC_event_types] = totals.types;
    value[EC_METRIC_event_ports] = totals.ports;
    value[EC_METRIC_event_readers] = totals.readers;
    value[EC_METRIC_event_published] = bounded(totals.published);
    value[EC_METRIC_event_bytes] = bounded(totals.bytes);
    value[EC_METRIC_event_delivered] = bounded(totals.delivered);
    value[EC_METRIC_event_lost] = bounded(totals.lost);
    value[EC_METRIC_event_refused] = bounded(totals.refused);
    value[EC_METRIC_event_latency] = bounded(totals.latency_p99_ns);
}

static void collect_breaker(struct services *services, int64_t *value)
{
    struct breaker_totals totals;

    breaker_totals(services->breaker, &totals);
    value[EC_METRIC_breaker_level] = totals.level;
    value[EC_METRIC_breaker_available] = totals.available_permille;
    value[EC_METRIC_breaker_growth] = bounded(totals.growth_bytes_s);
    value[EC_METRIC_breaker_reservations] = totals.reservations;
    value[EC_METRIC_breaker_looks] = bounded(totals.looks);
}

static void collect_resource(struct services *services, int64_t *value)
{
    const struct counters *counters = services->counters;
    struct resources_totals totals;

    resources_totals(services->resources, &totals);
    value[EC_METRIC_resource_groups] = totals.groups;
    value[EC_METRIC_resource_ready] = totals.resources;
    value[EC_METRIC_resource_bytes] = bounded(totals.bytes);
    value[EC_METRIC_resource_loaded] = bounded(counters_get(counters, EC_COUNTER_resources_loaded));
    value[EC_METRIC_resource_failed] = bounded(counters_get(counters, EC_COUNTER_resources_failed));
    value[EC_METRIC_resource_evicted] =
        bounded(counters_get(counters, EC_COUNTER_resources_evicted));
}

static void collect_control(struct services *services, int64_t *value)
{
    const struct counters *counters = services->counters;

    value[EC_METRIC_control_clients] = clients_count(services->clients);
    value[EC_METRIC_control_requests] = bounded(counters_get(counters, EC_COUNTER_requests));
    value[EC_METRIC_control_errors] = bounded(counters_get(counters, EC_COUNTER_errors));
    value[EC_METRIC_control_connections] = bounded(counters_get(counters, EC_COUNTER_connections));
    value[EC_METRIC_control_refused] = bounded(counters_get(counters, EC_COUNTER_refused));
    value[EC_METRIC_control_dropped] = bounded(counters_get(counters, EC_COUNTER_dropped));
    value[EC_METRIC_control_log_lost] = bounded(log_lost() + log_sink_lost());
    value[EC_METRIC_control_descriptors] = count_descriptors();
}

/* Counters of clients are strangers' numbers. */
static int64_t bounded(uint64_t number)
{
    return number > INT64_MAX ? INT64_MAX : (int64_t)number;
}

static int64_t count_descriptors(void)
{
    DIR *directory = opendir(PROC "/self/fd");
    int64_t count = -3; /* ".", ".." and the directory's own */

    if (directory == NULL)
        return 0;
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}
