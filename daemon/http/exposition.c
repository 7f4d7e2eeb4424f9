/* exposition.c - see exposition.h. https://prometheus.io/docs/instrumenting/exposition_formats */
#include "http/exposition.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "clients/clients.h"
#include "daemon/counters.h"
#include "daemon/services.h"
#include "events/registry.h"
#include "foundation/real_time.h"
#include "metrics/metrics.h"
#include "resources/state.h"
#include "scheduler/scheduler.h"
#include "segment/telemetry.h"

#define PREFIX "engine_core_"
#define NAME_BYTES 96

/* How a suffix of our names is said there, and what the value is divided by. */
static const struct {
    const char *ours, *theirs;
    double divisor;
} units[] = {
    { "_bytes_s", "_bytes_per_second", 1 },
    { "_ns", "_seconds", 1e9 },
    { "_permille", "_ratio", 1000 },
};

static double translate(const struct ec_metric_row *row, char name[NAME_BYTES]);
static bool is_metric(enum ec_counter_id id);
static void begin(FILE *out, const char *name, bool is_counter, const char *help);
static void help_text(FILE *out, const char *text);
static void write_metrics(struct services *services, FILE *out);
static void write_counters(const struct counters *counters, FILE *out);
static void write_daemon(const struct services *services, FILE *out);
static void write_clients(struct services *services, FILE *out);
static void write_clocks(const struct services *services, FILE *out);
static void write_types(const struct services *services, FILE *out);
static void write_groups(struct services *services, FILE *out);

void exposition_write(struct services *services, FILE *out)
{
    write_daemon(services, out);
    write_metrics(services, out);
    write_counters(services->counters, out);
    write_clocks(services, out);
    write_clients(services, out);
    write_types(services, out);
    write_groups(services, out);
}

void exposition_label(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\\' || *text == '"')
            fprintf(out, "\\%c", *text);
        else if (*text == '\n')
            fputs("\\n", out);
        else
            fputc(*text, out);
    }
}

static void begin(FILE *out, const char *name, bool is_counter, const char *help)
{
    fprintf(out, "# HELP %s ", name);
    help_text(out, help);
    fprintf(out, "\n# TYPE %s %s\n", name, is_counter ? "counter" : "gauge");
}

static void help_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '\\')
            fputs("\\\\", out);
        else
            fputc(*text == '\n' ? ' ' : *text, out);
}

static void write_daemon(const struct services *services, FILE *out)
{
    begin(out, PREFIX "build_info", false, "What is running, as labels; always 1.");
    fprintf(out, PREFIX "build_info{version=\"" EC_VERSION "\",instance=\"0x%016" PRIx64 "\"} 1\n",
            services->instance);
    begin(out, PREFIX "uptime_seconds", false, "Time since the start.");
    fprintf(out, PREFIX "uptime_seconds %.3f\n",
            (double)(ec_real_ns() - services->started_ns) / 1e9);
}

/* ---- the tables -------------------------------------------------------------------------------- */

/* The name there. Returns what the value is to be divided by. */
static double translate(const struct ec_metric_row *row, char name[NAME_BYTES])
{
    size_t bytes =
        (size_t)snprintf(name, NAME_BYTES, PREFIX "%s_%s", ec_topic_name(row->topic), row->name);
    double divisor = 1;

    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        const size_t suffix_bytes = strlen(units[i].ours);

        if (bytes > suffix_bytes && strcmp(name + bytes - suffix_bytes, units[i].ours) == 0) {
            strcpy(name + bytes - suffix_bytes, units[i].theirs);
            divisor = units[i].divisor;
            break;
        }
    }
    if (row->is_counter)
        strcat(name, "_total");
    return divisor;
}

static void write_metrics(struct services *services, FILE *out)
{
    struct metrics_sample sample;

    metrics_collect(services, METRICS_ALL_TOPICS, &sample);
    for (size_t i = 0; i < EC_METRICS; i++) {
        char name[NAME_BYTES];
        const double divisor = translate(&ec_metrics[i], name);

        begin(out, name, ec_metrics[i].is_counter, ec_metrics[i].help);
        if (divisor == 1)
            fprintf(out, "%s %" PRId64 "\n", name, sample.value[i]);
        else
            fprintf(out, "%s %.9g\n", name, (double)sample.value[i] / divisor);
    }
}

static void write_counters(const struct counters *counters, FILE *out)
{
    for (size_t i = 0; i < EC_COUNTERS; i++) {
        char name[NAME_BYTES];

        if (is_metric((enum ec_counter_id)i))
            continue;
        snprintf(name, sizeof name, PREFIX "%s_total", ec_counters[i].name);
        for (char *at = name; *at != '\0'; at++)
            if (*at == '.')
                *at = '_';
        begin(out, name, true, ec_counters[i].help);
        fprintf(out, "%s %" PRIu64 "\n", name, counters_get(counters, (enum ec_counter_id)i));
    }
}

/* Counters that are metrics as well, as they are or in a sum. */
static bool is_metric(enum ec_counter_id id)
{
    const char *name = ec_counters[id].name, *dot = strchr(name, '.');

    if (id == EC_COUNTER_log_lost || id == EC_COUNTER_log_sink_lost || id == EC_COUNTER_dropped)
        return true;
    for (size_t i = 0; i < EC_METRICS && dot != NULL; i++) {
        const char *topic = ec_topic_name(ec_metrics[i].topic);

        if (strcmp(ec_metrics[i].name, dot + 1) == 0 && strlen(topic) == (size_t)(dot - name) &&
            memcmp(topic, name, strlen(topic)) == 0)
            return true;
    }
    return false;
}

/* ---- rows with labels -------------------------------------------------------------------------- */

static void write_clients(struct services *services, FILE *out)
{
    unsigned named = 0;
    uint64_t other = 0;

    begin(out, PREFIX "client_memory_bytes", false, "What a client has tagged.");
    for (struct client *client = clients_next(services->clients, NULL); client != NULL;
         client = clients_next(services->clients, client)) {
        struct ec_memory_sum sum;

        if (!client->attached)
            continue;
        ec_telemetry_memory(client_segment(client), &sum);
        if (named++ >= EXPOSITION_ROWS) {
            other += sum.bytes;
            continue;
        }
        fprintf(out, PREFIX "client_memory_bytes{client=\"%" PRIu32 "\",name=\"", client->id);
        exposition_label(out, client->name);
        fprintf(out, "\"} %" PRIu64 "\n", sum.bytes);
    }
    if (named > EXPOSITION_ROWS)
        fprintf(out, PREFIX "client_memory_bytes{client=\"other\",name=\"other\"} %" PRIu64 "\n",
                other);
}

static void write_clocks(const struct services *services, FILE *out)
{
    struct scheduler_row row;

    begin(out, PREFIX "clock_step_total", true, "Steps of a clock.");
    for (uint32_t i = 0; scheduler_row(services->scheduler, i, &row); i++) {
        fputs(PREFIX "clock_step_total{clock=\"", out);
        exposition_label(out, row.name);
        fprintf(out, "\"} %" PRIu64 "\n", row.step);
    }
    begin(out, PREFIX "clock_step_missed_total", true, "Steps of a clock that were left out.");
    for (uint32_t i = 0; scheduler_row(services->scheduler, i, &row); i++) {
        fputs(PREFIX "clock_step_missed_total{clock=\"", out);
        exposition_label(out, row.name);
        fprintf(out, "\"} %" PRIu64 "\n", row.missed);
    }
}

/* One family after the other, as the format wants it, so the sums are made first. */
static void write_types(const struct services *services, FILE *out)
{
    static const char *const names[] = { "published", "delivered", "lost" };
    const struct event_type *types[EXPOSITION_ROWS];
    uint64_t sums[EXPOSITION_ROWS + 1][3] = { { 0 } }; /* the last: all others */
    struct event_type *type, *next;
    unsigned count = 0;
    bool has_other = false;

    HASH_ITER(hh, services->events->types.by_id, type, next)
    {
        struct event_counts counts;
        uint64_t *row = sums[count < EXPOSITION_ROWS ? count : EXPOSITION_ROWS];

        event_counts_sum(services->events, type, &counts);
        row[0] += counts.published;
        row[1] += counts.delivered;
        row[2] += counts.lost;
        if (count < EXPOSITION_ROWS)
            types[count++] = type;
        else
            has_other = true;
    }
    for (unsigned n = 0; n < 3; n++) {
        char name[NAME_BYTES];

        snprintf(name, sizeof name, PREFIX "event_type_%s_total", names[n]);
        begin(out, name, true, "Events of a type.");
        for (unsigned i = 0; i < count + has_other; i++) {
            fprintf(out, "%s{type=\"", name);
            exposition_label(out, i < count ? types[i]->name : "other");
            fprintf(out, "\"} %" PRIu64 "\n", sums[i < count ? i : EXPOSITION_ROWS][n]);
        }
    }
}

static void write_groups(struct services *services, FILE *out)
{
    struct group *group, *next;
    unsigned named = 0, other = 0;

    begin(out, PREFIX "resource_group_resources", false, "Resources of a group, by its state.");
    HASH_ITER(hh, services->resources->groups, group, next)
    {
        if (named++ >= EXPOSITION_ROWS) {
            other += group->count;
            continue;
        }
        fputs(PREFIX "resource_group_resources{group=\"", out);
        exposition_label(out, group->name);
        fprintf(out, "\",state=\"%s\"} %" PRIu32 "\n", group_state_name(group->state),
                group->count);
    }
    if (named > EXPOSITION_ROWS)
        fprintf(out, PREFIX "resource_group_resources{group=\"other\",state=\"other\"} %u\n",
                other);
}
