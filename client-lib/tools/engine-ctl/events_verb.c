/* engine-ctl events list, stats, publish */
#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"
#include "engine-ctl/watch.h"

#include <stdlib.h>
#include <string.h>

#include <engine-core/error.h>

static void print_types(const struct ctl *ctl, const cJSON *types, const cJSON *stats);
static const cJSON *stats_of(const cJSON *stats, const char *name);
static int list_fields(struct ctl *ctl, const char *type);
static int show_stats(struct ctl *ctl, void *context);
static int print_stats_of(struct ctl *ctl, const char *type, struct table *table,
                          struct table *ports);
static void add_ports(struct table *table, const cJSON *ports);
static char *type_params(const char *type);

int verb_events_list(struct ctl *ctl, const struct verb_input *input)
{
    struct json_answer types = { 0 }, stats = { 0 };
    int rc;

    if (input->arguments[0] != NULL)
        return list_fields(ctl, input->arguments[0]);
    if (ctl->json)
        return ctl_call_and_print(ctl, "event.stats", NULL);
    rc = ctl_call(ctl, "event.list", NULL, &types);
    if (rc == EXIT_DONE)
        rc = ctl_call(ctl, "event.stats", NULL, &stats);
    if (rc == EXIT_DONE) {
        print_types(ctl, json_member(types.tree, "items"), json_member(stats.tree, "items"));
        rc = ctl_flush();
    }
    json_answer_finish(&types);
    json_answer_finish(&stats);
    return rc;
}

int verb_events_stats(struct ctl *ctl, const struct verb_input *input)
{
    return watch_show(ctl, "events stats", input->options[1], show_stats, (void *)(uintptr_t)input);
}

int verb_events_publish(struct ctl *ctl, const struct verb_input *input)
{
    const char *payload = input->arguments[1];
    cJSON *tree = payload != NULL ? cJSON_ParseWithOpts(payload, NULL, true) : NULL;
    cJSON *params;
    char *text;
    int rc;

    if (payload != NULL && !cJSON_IsObject(tree)) {
        cJSON_Delete(tree);
        return ctl_fail(EXIT_USAGE, "events publish: the payload is no JSON object: %s", payload);
    }
    cJSON_Delete(tree);
    params = cJSON_CreateObject();
    cJSON_AddStringToObject(params, "type", input->arguments[0]);
    if (payload != NULL) /* as it was given: a tree would lose digits */
        cJSON_AddRawToObject(params, "payload", payload);
    text = json_params(params);
    for (char *at = text; at != NULL && (at = strpbrk(at, "\r\n")) != NULL;)
        *at = ' '; /* a request is one line */
    rc = ctl_call_and_print(ctl, "event.publish", text);
    cJSON_free(text);
    return rc;
}

static char *type_params(const char *type)
{
    cJSON *params = cJSON_CreateObject();

    cJSON_AddStringToObject(params, "type", type);
    return json_params(params);
}

static int list_fields(struct ctl *ctl, const char *type)
{
    static const struct column columns[] = {
        { "FIELD", false }, { "TYPE", false }, { "COUNT", true }, { "OFFSET", true }
    };
    struct table table = { .columns = columns, .column_count = 4 };
    struct json_answer answer = { 0 };
    char *params = type_params(type);
    const cJSON *field;
    int rc;

    if (ctl->json) {
        rc = ctl_call_and_print(ctl, "event.list", params);
        cJSON_free(params);
        return rc;
    }
    rc = ctl_call(ctl, "event.list", params, &answer);
    cJSON_free(params);
    if (rc == EXIT_DONE) {
        cJSON_ArrayForEach(
            field, json_member(cJSON_GetArrayItem(json_member(answer.tree, "items"), 0), "fields"))
        {
            table_cell(&table, "%s", json_text(field, "name"));
            table_cell(&table, "%s", json_text(field, "type"));
            table_cell(&table, "%.0f", json_number(field, "count"));
            table_cell(&table, "%.0f", json_number(field, "offset"));
        }
        table_print(&table, stdout, ctl->colours);
        rc = ctl_flush();
    }
    json_answer_finish(&answer);
    return rc;
}

static int show_stats(struct ctl *ctl, void *context)
{
    const struct verb_input *input = context;
    static const struct column columns[] = {
        { "TYPE", false },     { "PUBLISHED", true }, { "RATE", true },    { "BYTES", true },
        { "DELIVERED", true }, { "LOST", true },      { "REFUSED", true }, { "LATENCY P50", true },
        { "P99", true },       { "P99.9", true },     { "MAX", true },
    };
    static const struct column port_columns[] = {
        { "PORT", false },     { "CLIENT", true }, { "PUBLISHED", true }, { "RATE", true },
        { "BYTES", true },     { "RING", true },   { "USED", true },      { "FULL", true },
        { "DELIVERED", true }, { "LOST", true },   { "READERS", true },
    };
    struct table table = { .columns = columns, .column_count = 11 };
    struct table ports = { .columns = port_columns, .column_count = 11 };
    int rc = EXIT_DONE;

    if (input->list_count == 0)
        rc = print_stats_of(ctl, NULL, &table, &ports);
    for (size_t i = 0; i < input->list_count && rc == EXIT_DONE; i++)
        rc = print_stats_of(ctl, input->list[i], &table, NULL);
    if (ctl->terminal && !ctl->json && rc == EXIT_DONE) {
        if (input->options[1] != NULL)
            fputs("\033[H\033[J", stdout); /* in place of the page before */
        table_print(&table, stdout, ctl->colours);
        if (input->list_count == 0) {
            putchar('\n');
            table_print(&ports, stdout, ctl->colours);
        }
        rc = ctl_flush();
    }
    return rc;
}

/* Into rows of the table for people, else one line of JSON as it came. */
static int print_stats_of(struct ctl *ctl, const char *type, struct table *table,
                          struct table *ports)
{
    struct json_answer answer = { 0 };
    char *params = type != NULL ? type_params(type) : NULL;
    char text[TEXT_BYTES];
    const cJSON *row;
    int rc;

    if (ctl->json || !ctl->terminal) {
        rc = ctl_call_and_print(ctl, "event.stats", params);
        cJSON_free(params);
        return rc;
    }
    rc = ctl_call(ctl, "event.stats", params, &answer);
    cJSON_free(params);
    cJSON_ArrayForEach(row, json_member(answer.tree, "items"))
    {
        const cJSON *latency = json_member(row, "latency_ns");

        table_cell(table, "%s", json_text(row, "name"));
        table_cell(table, "%s", number_text(text, json_number(row, "published")));
        table_cell(table, "%s/s", number_text(text, json_number(row, "rate_hz")));
        table_cell(table, "%s", bytes_text(text, json_number(row, "bytes")));
        table_cell(table, "%s", number_text(text, json_number(row, "delivered")));
        table_cell(table, "%s", number_text(text, json_number(row, "lost")));
        table_cell(table, "%s", number_text(text, json_number(row, "refused")));
        table_cell(table, "%s", latency_text(text, json_number(latency, "p50")));
        table_cell(table, "%s", latency_text(text, json_number(latency, "p99")));
        table_cell(table, "%s", latency_text(text, json_number(latency, "p999")));
        table_cell(table, "%s", latency_text(text, json_number(latency, "max")));
    }
    if (ports != NULL)
        add_ports(ports, json_member(answer.tree, "ports"));
    json_answer_finish(&answer);
    return rc;
}

static void add_ports(struct table *table, const cJSON *ports)
{
    char text[TEXT_BYTES];
    const cJSON *port;

    cJSON_ArrayForEach(port, ports)
    {
        char *name = tame_copy(json_text(port, "port")); /* a client chose it */

        table_cell(table, "%s", name);
        table_cell(table, "%.0f", json_number(port, "client_id"));
        table_cell(table, "%s", number_text(text, json_number(port, "published")));
        table_cell(table, "%s/s", number_text(text, json_number(port, "rate_hz")));
        table_cell(table, "%s", bytes_text(text, json_number(port, "bytes")));
        table_cell(table, "%s", bytes_text(text, json_number(port, "ring_bytes")));
        table_cell(table, "%s", bytes_text(text, json_number(port, "used_bytes")));
        table_cell(table, "%s", number_text(text, json_number(port, "would_block")));
        table_cell(table, "%s", number_text(text, json_number(port, "delivered")));
        table_cell(table, "%s", number_text(text, json_number(port, "lost")));
        table_cell(table, "%s", number_text(text, json_number(port, "readers")));
        free(name);
    }
}

static void print_types(const struct ctl *ctl, const cJSON *types, const cJSON *stats)
{
    static const struct column columns[] = {
        { "TYPE", false },       { "BYTES", true },     { "POLICY", false }, { "PORTS", true },
        { "READERS", true },     { "PUBLISHED", true }, { "RATE", true },    { "LOST", true },
        { "LATENCY P50", true }, { "P99", true },
    };
    struct table table = { .columns = columns, .column_count = 10 };
    char text[TEXT_BYTES];
    const cJSON *type;

    cJSON_ArrayForEach(type, types)
    {
        const cJSON *counts = stats_of(stats, json_text(type, "name"));
        const cJSON *latency = json_member(counts, "latency_ns");

        table_cell(&table, "%s", json_text(type, "name"));
        table_cell(&table, "%.0f", json_number(type, "size"));
        table_cell(&table, "%s", json_text(type, "policy"));
        table_cell(&table, "%.0f", json_number(type, "publishers"));
        table_cell(&table, "%.0f", json_number(type, "subscribers"));
        table_cell(&table, "%s", number_text(text, json_number(counts, "published")));
        table_cell(&table, "%s/s", number_text(text, json_number(counts, "rate_hz")));
        table_cell(&table, "%s", number_text(text, json_number(counts, "lost")));
        table_cell(&table, "%s", latency_text(text, json_number(latency, "p50")));
        table_cell(&table, "%s", latency_text(text, json_number(latency, "p99")));
    }
    table_print(&table, stdout, ctl->colours);
}

static const cJSON *stats_of(const cJSON *stats, const char *name)
{
    const cJSON *row;

    cJSON_ArrayForEach(row, stats) if (strcmp(json_text(row, "name"), name) == 0) return row;
    return NULL;
}
