/* engine-ctl events list, tail */
#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"

#include <stdlib.h>
#include <string.h>

#include <engine-core/error.h>

static void print_types(const struct ctl *ctl, const cJSON *types, const cJSON *stats);
static const cJSON *stats_of(const cJSON *stats, const char *name);
static int print_events(struct ctl *ctl);
static void print_event(const struct json_answer *event);

int verb_events_list(struct ctl *ctl, const struct verb_input *input)
{
    struct json_answer types = { 0 }, stats = { 0 };
    int rc;

    (void)input;
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

int verb_events_tail(struct ctl *ctl, const struct verb_input *input)
{
    struct json_answer answer;
    cJSON *params = cJSON_CreateObject();
    char *text;
    int rc;

    if (input->options[0] != NULL)
        cJSON_AddItemToArray(cJSON_AddArrayToObject(params, "types"),
                             cJSON_CreateString(input->options[0]));
    else
        cJSON_AddStringToObject(params, "types", "*");
    text = json_params(params);
    rc = ctl_call(ctl, "event.subscribe", text, &answer);
    cJSON_free(text);
    json_answer_finish(&answer);
    return rc == EXIT_DONE ? print_events(ctl) : rc;
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

static int print_events(struct ctl *ctl)
{
    struct json_answer event;
    struct ec_error why = { 0 };

    while (json_socket_next(&ctl->socket, "event", &event, &why) == EC_OK) {
        int rc;

        if (ctl->json || !ctl->terminal)
            printf("%.*s\n", (int)event.result_bytes, event.result);
        else
            print_event(&event);
        rc = ctl_flush();
        json_answer_finish(&event);
        if (rc != EXIT_DONE)
            return rc;
    }
    json_answer_finish(&event);
    return ctl_fail(why.code == EC_ERR_DISCONNECTED ? EXIT_NO_DAEMON : EXIT_ANSWERED_ERROR,
                    "events tail: %s", why.text);
}

static void print_event(const struct json_answer *event)
{
    size_t payload_bytes = 0;
    const char *payload = json_member_text(event->result, "payload", &payload_bytes);
    char *type = tame(strdup(json_text(event->tree, "type")));
    const double lost = json_number(event->tree, "lost");

    if (lost > 0)
        printf("(%.0f events lost)\n", lost);
    printf("%.6f  %-20s client %-3.0f #%-8.0f %.*s\n", json_number(event->tree, "time_ns") / 1e9,
           type, json_number(event->tree, "sender"), json_number(event->tree, "sequence"),
           (int)payload_bytes, payload != NULL ? payload : "");
    free(type);
}
