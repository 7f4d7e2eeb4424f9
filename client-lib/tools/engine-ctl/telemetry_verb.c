/* engine-ctl telemetry get, tail, history */
#include "engine-ctl/duration.h"
#include "engine-ctl/json_read.h"
#include "engine-ctl/metric.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"

#include <assert.h>
#include <string.h>

#define TOPIC_LIST_BYTES 256

enum { INTERVAL };   /* rows of the options of telemetry tail */
enum { LAST, STEP }; /* of telemetry history */

static int check_topic(const char *topic);
static void add_topic(cJSON *params, const char *topic);
static void print_metrics(const struct ctl *ctl, const cJSON *result);
static void print_history(const struct ctl *ctl, const cJSON *result);
static int take_sample(struct ctl *ctl, const struct json_answer *sample, void *context);

int verb_telemetry_get(struct ctl *ctl, const struct verb_input *input)
{
    cJSON *params;

    if (check_topic(input->arguments[0]) != EXIT_DONE)
        return EXIT_USAGE;
    params = cJSON_CreateObject();
    add_topic(params, input->arguments[0]);
    return ctl_show(ctl, "telemetry.get", params, print_metrics);
}

int verb_telemetry_tail(struct ctl *ctl, const struct verb_input *input)
{
    long long interval_ns = 1000000000, interval_ms;
    cJSON *params;

    if (check_topic(input->arguments[0]) != EXIT_DONE)
        return EXIT_USAGE;
    if (input->options[INTERVAL] != NULL &&
        (!duration_parse(input->options[INTERVAL], &interval_ns) || interval_ns < 10000000))
        return ctl_fail(EXIT_USAGE, "telemetry tail: --interval is \"%s\", expected 10ms or more",
                        input->options[INTERVAL]);
    interval_ms = interval_ns / 1000000;
    params = cJSON_CreateObject();
    cJSON_AddNumberToObject(params, "interval_ms", (double)interval_ms);
    add_topic(params, input->arguments[0]);
    return ctl_follow(ctl, "telemetry.subscribe", params, "telemetry", take_sample, NULL);
}

int verb_telemetry_history(struct ctl *ctl, const struct verb_input *input)
{
    long long last_ns = 0, step_ns = 0;
    struct json_answer now;
    cJSON *params;
    int rc = check_topic(input->arguments[0]);

    if (rc == EXIT_DONE &&
        ((input->options[LAST] != NULL && !duration_parse(input->options[LAST], &last_ns)) ||
         (input->options[STEP] != NULL &&
          (!duration_parse(input->options[STEP], &step_ns) || step_ns == 0))))
        rc = ctl_fail(EXIT_USAGE, "telemetry history: expected durations, such as 30s, 10min");
    if (rc != EXIT_DONE)
        return rc;
    params = cJSON_CreateObject();
    cJSON_AddStringToObject(params, "topic", input->arguments[0]);
    if (step_ns > 0)
        cJSON_AddNumberToObject(params, "step_ns", (double)step_ns);
    if (last_ns > 0) {
        rc = ctl_call(ctl, "telemetry.get", "{\"topics\":[\"clock\"]}", &now);
        if (rc == EXIT_DONE && json_number(now.tree, "real_ns") > (double)last_ns)
            cJSON_AddNumberToObject(params, "since_ns",
                                    json_number(now.tree, "real_ns") - (double)last_ns);
        json_answer_finish(&now);
        if (rc != EXIT_DONE) {
            cJSON_Delete(params);
            return rc;
        }
    }
    return ctl_show(ctl, "telemetry.history", params, print_history);
}

static int check_topic(const char *topic)
{
    char known[TOPIC_LIST_BYTES];
    int used = 0;

    for (unsigned i = 0; i < EC_TOPICS; i++) {
        const char *name = ec_topic_name((enum ec_topic)i);

        if (topic == NULL || strcmp(name, topic) == 0)
            return EXIT_DONE;
        used +=
            snprintf(known + used, sizeof known - (size_t)used, "%s%s", i > 0 ? ", " : "", name);
        assert(used < TOPIC_LIST_BYTES);
    }
    return ctl_fail(EXIT_USAGE, "there is no topic %s; there are %s", topic, known);
}

static void add_topic(cJSON *params, const char *topic)
{
    if (topic != NULL)
        cJSON_AddItemToArray(cJSON_AddArrayToObject(params, "topics"), cJSON_CreateString(topic));
}

static void print_metrics(const struct ctl *ctl, const cJSON *result)
{
    static const struct column columns[] = { { "METRIC", false },
                                             { "VALUE", true },
                                             { "MEANING", false } };
    struct table table = { .columns = columns, .column_count = 3 };
    char name[METRIC_NAME_BYTES], text[TEXT_BYTES];

    for (size_t i = 0; i < EC_METRICS; i++) {
        if (json_member(result, ec_topic_name(ec_metrics[i].topic)) == NULL)
            continue;
        metric_name(&ec_metrics[i], name);
        table_cell(&table, "%s", name);
        table_cell(&table, "%s",
                   metric_text(&ec_metrics[i], metric_value(&ec_metrics[i], result), text));
        table_cell(&table, "%s", ec_metrics[i].help);
    }
    table_print(&table, stdout, ctl->colours);
}

/* Its columns are known only now. */
static void print_history(const struct ctl *ctl, const cJSON *result)
{
    struct column columns[TABLE_COLUMNS_MAX] = { { "REAL TIME", true } };
    struct table table = { .columns = columns, .column_count = 1 };
    const cJSON *name, *item, *value;

    cJSON_ArrayForEach(name, json_member(result, "names"))
    {
        if (table.column_count < TABLE_COLUMNS_MAX && cJSON_IsString(name))
            columns[table.column_count++] = (struct column) { name->valuestring, true };
    }
    cJSON_ArrayForEach(item, json_member(result, "items"))
    {
        size_t column = 0;

        cJSON_ArrayForEach(value, item)
        {
            if (column == 0)
                table_cell(&table, "%.3f", value->valuedouble / 1e9);
            else if (column < table.column_count)
                table_cell(&table, "%.0f", value->valuedouble);
            column++;
        }
    }
    table_print(&table, stdout, ctl->colours);
}

/* One line for each, without the topics' braces. */
static int take_sample(struct ctl *ctl, const struct json_answer *sample, void *context)
{
    char name[METRIC_NAME_BYTES], text[TEXT_BYTES];

    (void)context;
    if (ctl_print_line(ctl, sample))
        return EXIT_GO_ON;
    printf("%.3f", json_number(sample->tree, "real_ns") / 1e9);
    for (size_t i = 0; i < EC_METRICS; i++) {
        if (json_member(sample->tree, ec_topic_name(ec_metrics[i].topic)) == NULL)
            continue;
        metric_name(&ec_metrics[i], name);
        printf("  %s %s", name,
               metric_text(&ec_metrics[i], metric_value(&ec_metrics[i], sample->tree), text));
    }
    putchar('\n');
    return EXIT_GO_ON;
}
