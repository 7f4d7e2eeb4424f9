/* engine-ctl breaker policy, rehearse, trace, history, samples */
#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HISTORY_MAX 256
#define SAMPLES_MAX 8192
#define TRACE_MAX 16384
#define TRACE_BYTES_MAX (4 * 1024 * 1024)

static bool add_set(cJSON *params, const char *json);
static void print_values(const struct ctl *ctl, const cJSON *result);
static cJSON *read_trace(const char *path);
static void print_rehearsal(const struct ctl *ctl, const cJSON *result);
static void print_transitions(const cJSON *result);
static void print_trace(const struct ctl *ctl, const cJSON *result);
static void print_actions(const cJSON *actions);
static void print_history(const struct ctl *ctl, const cJSON *result);
static void print_effects(const struct ctl *ctl, const cJSON *result);
static void print_samples(const struct ctl *ctl, const cJSON *result);

int verb_breaker_policy(struct ctl *ctl, const struct verb_input *input)
{
    cJSON *params = cJSON_CreateObject();

    if (!add_set(params, input->options[0])) {
        cJSON_Delete(params);
        return ctl_fail(EXIT_USAGE, "breaker policy: --set is not a JSON object");
    }
    return ctl_show(ctl, "breaker.policy", params, print_values);
}

/* With a trace: the one of a file, or what the daemon recorded. */
int verb_breaker_rehearse(struct ctl *ctl, const struct verb_input *input)
{
    cJSON *params = cJSON_CreateObject(), *trace = NULL;
    int rc = EXIT_DONE;

    if (!add_set(params, input->options[0]))
        rc = ctl_fail(EXIT_USAGE, "breaker rehearse: --set is not a JSON object");
    if (rc == EXIT_DONE && input->options[1] != NULL) {
        trace = read_trace(input->options[1]);
        cJSON_AddItemToObject(params, "trace", trace);
        if (!cJSON_IsArray(trace))
            rc = ctl_fail(EXIT_USAGE, "breaker rehearse: %s is no file with a JSON array",
                          input->options[1]);
    }
    if (input->options[2] != NULL)
        cJSON_AddTrueToObject(params, "recorded");
    if (rc != EXIT_DONE) {
        cJSON_Delete(params);
        return rc;
    }
    return ctl_show(ctl, "breaker.rehearse", params, print_rehearsal);
}

/* In the form that rehearse takes. */
int verb_breaker_trace(struct ctl *ctl, const struct verb_input *input)
{
    long long limit = 1000;
    cJSON *params;

    if (input->options[0] != NULL && !verb_number(input->options[0], 1, TRACE_MAX, &limit))
        return ctl_fail(EXIT_USAGE, "breaker trace: --limit is \"%s\", expected 1..%d",
                        input->options[0], TRACE_MAX);
    params = cJSON_CreateObject();
    cJSON_AddNumberToObject(params, "limit", (double)limit);
    return ctl_show(ctl, "breaker.trace", params, print_trace);
}

int verb_breaker_history(struct ctl *ctl, const struct verb_input *input)
{
    long long limit = 32;
    cJSON *params;

    if (input->options[0] != NULL && !verb_number(input->options[0], 1, HISTORY_MAX, &limit))
        return ctl_fail(EXIT_USAGE, "breaker history: --limit is \"%s\", expected 1..%d",
                        input->options[0], HISTORY_MAX);
    params = cJSON_CreateObject();
    cJSON_AddNumberToObject(params, "limit", (double)limit);
    return ctl_show(ctl, "breaker.history", params,
                    input->options[1] != NULL ? print_effects : print_history);
}

int verb_breaker_samples(struct ctl *ctl, const struct verb_input *input)
{
    long long limit = 100, client_id = 0;
    cJSON *params;

    if (input->options[0] != NULL && !verb_number(input->options[0], 1, UINT32_MAX, &client_id))
        return ctl_fail(EXIT_USAGE, "breaker samples: --client is \"%s\", expected an id",
                        input->options[0]);
    if (input->options[1] != NULL && !verb_number(input->options[1], 1, SAMPLES_MAX, &limit))
        return ctl_fail(EXIT_USAGE, "breaker samples: --limit is \"%s\", expected 1..%d",
                        input->options[1], SAMPLES_MAX);
    params = cJSON_CreateObject();
    cJSON_AddNumberToObject(params, "client_id", (double)client_id);
    cJSON_AddNumberToObject(params, "limit", (double)limit);
    return ctl_show(ctl, "breaker.samples", params, print_samples);
}

/* The values of --set, when there are any. false: they are no object. */
static bool add_set(cJSON *params, const char *json)
{
    cJSON *set = json != NULL ? cJSON_Parse(json) : NULL;

    cJSON_AddItemToObject(params, "set", set); /* deleted with them, whatever it is */
    return json == NULL || cJSON_IsObject(set);
}

/* As they can be written into a configuration. */
static void print_values(const struct ctl *ctl, const cJSON *result)
{
    const cJSON *member;

    (void)ctl;
    cJSON_ArrayForEach(member, result)
    {
        char *text = cJSON_PrintUnformatted(member);

        printf("%-26s %s\n", member->string, text);
        cJSON_free(text);
    }
}

/* NULL: it cannot be read, is too long, or is no JSON. */
static cJSON *read_trace(const char *path)
{
    char *text = malloc(TRACE_BYTES_MAX + 1);
    FILE *file = fopen(path, "re");
    cJSON *trace = NULL;
    size_t bytes;

    if (text != NULL && file != NULL) {
        bytes = fread(text, 1, TRACE_BYTES_MAX + 1, file);
        if (bytes <= TRACE_BYTES_MAX && ferror(file) == 0)
            trace = cJSON_ParseWithLength(text, bytes);
    }
    if (file != NULL)
        fclose(file);
    free(text);
    return trace;
}

static void print_rehearsal(const struct ctl *ctl, const cJSON *result)
{
    const cJSON *source, *order;
    char text[TEXT_BYTES];

    (void)ctl;
    if (json_member(result, "transitions") != NULL) {
        print_transitions(result);
        return;
    }
    cJSON_ArrayForEach(source, json_member(result, "sources"))
    {
        char *name = tame_copy(json_text(source, "name"));

        printf("%s would be at level %.0f", name, json_number(source, "level"));
        free(name);
        print_actions(json_member(source, "actions"));
        printf("\n");
        cJSON_ArrayForEach(order, json_member(source, "orders"))
            printf("  client %.0f would be asked for %s\n", json_number(order, "client_id"),
                   bytes_text(text, json_number(order, "bytes")));
    }
}

static void print_transitions(const cJSON *result)
{
    const cJSON *transition;
    char wanted[TEXT_BYTES], at[TEXT_BYTES];

    cJSON_ArrayForEach(transition, json_member(result, "transitions"))
    {
        printf("after %s level %.0f > %.0f",
               duration_text(at, json_number(transition, "at_ms") * 1e6),
               json_number(transition, "from"), json_number(transition, "to"));
        print_actions(json_member(transition, "actions"));
        if (json_number(transition, "wanted_bytes") > 0)
            printf("; %s would be wanted back",
                   bytes_text(wanted, json_number(transition, "wanted_bytes")));
        printf("\n");
    }
    printf("%.0f readings, level %.0f at the end, %.0f at most\n", json_number(result, "readings"),
           json_number(result, "level"), json_number(result, "highest"));
}

static void print_trace(const struct ctl *ctl, const cJSON *result)
{
    const cJSON *reading;
    const char *between = "[";

    (void)ctl;
    cJSON_ArrayForEach(reading, json_member(result, "trace"))
    {
        char *text = cJSON_PrintUnformatted(reading);

        printf("%s%s", between, text);
        between = ",\n ";
        cJSON_free(text);
    }
    printf("%s]\n", between[0] == '[' ? "[" : "");
}

static void print_actions(const cJSON *actions)
{
    const char *between = ": ";
    const cJSON *action;

    cJSON_ArrayForEach(action, actions)
    {
        printf("%s%s", between, cJSON_IsString(action) ? action->valuestring : "");
        between = ", ";
    }
}

/* The newest first. Times are how long ago, by the newest one. */
static void print_history(const struct ctl *ctl, const cJSON *result)
{
    static const struct column columns[] = {
        { "BEFORE THE LAST", true }, { "LEVEL", true }, { "CAUSE", false },
        { "SOURCE", false },         { "LEFT", true },  { "LOWEST", true },
        { "FREED", true },           { "ASKED", true }, { "LATE", true },
        { "LEAVING", true },
    };
    struct table table = { .columns = columns, .column_count = 10 };
    const cJSON *items = json_member(result, "items"), *item, *client;
    const double newest_ns = json_number(cJSON_GetArrayItem(items, 0), "at_ns");
    char text[TEXT_BYTES];

    cJSON_ArrayForEach(item, items)
    {
        char *source = tame_copy(json_text(item, "source"));
        double late = 0;

        cJSON_ArrayForEach(client, json_member(item, "clients")) late +=
            json_number(client, "late");
        table_cell(&table, "%s", duration_text(text, newest_ns - json_number(item, "at_ns")));
        table_cell(&table, "%.0f > %.0f", json_number(item, "from"), json_number(item, "to"));
        table_cell(&table, "%s", json_text(item, "cause"));
        table_cell(&table, "%s", source);
        table_cell(&table, "%.1f %%", 100 * json_number(item, "available_ratio"));
        table_cell(&table, "%s", bytes_text(text, json_number(item, "lowest_bytes")));
        table_cell(&table, "%s", bytes_text(text, json_number(item, "freed_bytes")));
        table_cell(&table, "%d", cJSON_GetArraySize(json_member(item, "clients")));
        table_cell(&table, "%.0f", late);
        table_cell(&table, "%.0f", json_number(item, "exits"));
        free(source);
    }
    if (table.cell_count > 0)
        table_print(&table, stdout, ctl->colours);
    else
        printf("no transitions so far\n");
}

/* Of each transition: what was done for it, and what that gave back. */
static void print_effects(const struct ctl *ctl, const cJSON *result)
{
    static const struct column columns[] = {
        { "LEVEL", false }, { "SOURCE", false }, { "ACTION", false },
        { "RUNS", true },   { "FREED", true },   { "TIME", true },
    };
    struct table table = { .columns = columns, .column_count = 6 };
    const cJSON *item, *effect;
    char text[TEXT_BYTES];

    cJSON_ArrayForEach(item, json_member(result, "items"))
    {
        cJSON_ArrayForEach(effect, json_member(item, "actions"))
        {
            char *source = tame_copy(json_text(item, "source"));

            table_cell(&table, "%.0f > %.0f", json_number(item, "from"), json_number(item, "to"));
            table_cell(&table, "%s", source);
            free(source);
            table_cell(&table, "%s", effect->string);
            table_cell(&table, "%.0f", json_number(effect, "runs"));
            table_cell(&table, "%s", bytes_text(text, json_number(effect, "freed_bytes")));
            table_cell(&table, "%s", duration_text(text, json_number(effect, "ns")));
        }
    }
    if (table.cell_count > 0)
        table_print(&table, stdout, ctl->colours);
    else
        printf("no actions so far\n");
}

/* The newest first; times count back from it. */
static void print_samples(const struct ctl *ctl, const cJSON *result)
{
    static const struct column columns[] = {
        { "AGO", true },     { "CLIENT", true },  { "LEVEL", true },     { "RESIDENT", true },
        { "PRIVATE", true }, { "IN TAGS", true }, { "AVAILABLE", true },
    };
    struct table table = { .columns = columns, .column_count = 7 };
    const cJSON *items = json_member(result, "items"), *item;
    const double newest_ns = json_number(cJSON_GetArrayItem(items, 0), "at_ns");
    char text[TEXT_BYTES];

    cJSON_ArrayForEach(item, items)
    {
        table_cell(&table, "%.1f s", (newest_ns - json_number(item, "at_ns")) / 1e9);
        table_cell(&table, "%.0f", json_number(item, "client_id"));
        table_cell(&table, "%.0f", json_number(item, "level"));
        table_cell(&table, "%s", bytes_text(text, json_number(item, "resident_bytes")));
        table_cell(&table, "%s", bytes_text(text, json_number(item, "private_bytes")));
        table_cell(&table, "%s", bytes_text(text, json_number(item, "tagged_bytes")));
        table_cell(&table, "%s", bytes_text(text, json_number(item, "available_bytes")));
    }
    if (table.cell_count > 0)
        table_print(&table, stdout, ctl->colours);
    else
        printf("nothing was sampled: no level with the action \"sampling\" was in force\n");
}
