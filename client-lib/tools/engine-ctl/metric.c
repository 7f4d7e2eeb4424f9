/* metric.c - see metric.h. */
#include "engine-ctl/metric.h"

#include <stdio.h>
#include <string.h>

#include "engine-ctl/duration.h"
#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "proto/tables/nearest.h"

const struct ec_metric_row *metric_find(const char *name, char hint[METRIC_NAME_BYTES])
{
    static char known[EC_METRICS][METRIC_NAME_BYTES]; /* the nearest one is remembered by address */
    struct ec_nearest nearest;

    ec_nearest_init(&nearest, name, strlen(name));
    for (size_t i = 0; i < EC_METRICS; i++) {
        metric_name(&ec_metrics[i], known[i]);
        if (strcmp(known[i], name) == 0)
            return &ec_metrics[i];
        ec_nearest_offer(&nearest, known[i]);
    }
    snprintf(hint, METRIC_NAME_BYTES, "%s", nearest.best != NULL ? nearest.best : "");
    return NULL;
}

void metric_name(const struct ec_metric_row *row, char name[METRIC_NAME_BYTES])
{
    snprintf(name, METRIC_NAME_BYTES, "%s.%s", ec_topic_name(row->topic), row->name);
}

double metric_value(const struct ec_metric_row *row, const cJSON *telemetry)
{
    return json_number(json_member(telemetry, ec_topic_name(row->topic)), row->name);
}

char *metric_text(const struct ec_metric_row *row, double value, char *buffer)
{
    if (strcmp(row->unit, "bytes") == 0)
        return bytes_text(buffer, value);
    if (strcmp(row->unit, "ns") == 0)
        return duration_text(buffer, value);
    snprintf(buffer, TEXT_BYTES, "%.0f", value);
    return buffer;
}

bool metric_condition_parse(const char *text, struct metric_condition *condition, char *why,
                            size_t why_bytes)
{
    const size_t bytes = strcspn(text, "<>=!");
    const size_t operation_bytes = strspn(text + bytes, "<>=!");
    char name[METRIC_NAME_BYTES], hint[METRIC_NAME_BYTES];
    static const char *const operations[] = { ">", ">=", "<", "<=", "=", "!=" };
    bool known = false;

    snprintf(name, sizeof name, "%.*s", (int)bytes, text);
    snprintf(condition->operation, sizeof condition->operation, "%.*s", (int)operation_bytes,
             text + bytes);
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
        known = known || (operation_bytes < 3 && strcmp(operations[i], condition->operation) == 0);
    if (!known) {
        snprintf(why, why_bytes, "expected ready, or METRIC>VALUE with one of > >= < <= = !=");
        return false;
    }
    condition->row = metric_find(name, hint);
    if (condition->row == NULL) {
        snprintf(why, why_bytes, "there is no metric %s%s%s%s", name,
                 hint[0] != '\0' ? ", did you mean " : "; see engine-ctl telemetry get", hint,
                 hint[0] != '\0' ? "?" : "");
        return false;
    }
    if (!amount_parse(text + bytes + operation_bytes, &condition->value)) {
        snprintf(why, why_bytes, "%s is no number, such as 2, 1GiB or 5ms",
                 text + bytes + operation_bytes);
        return false;
    }
    return true;
}

bool metric_condition_holds(const struct metric_condition *condition, double value)
{
    const char first = condition->operation[0];
    const bool or_equal = condition->operation[1] == '=';

    switch (first) {
    case '>':
        return or_equal ? value >= condition->value : value > condition->value;
    case '<':
        return or_equal ? value <= condition->value : value < condition->value;
    case '!':
        return value != condition->value;
    default:
        return value == condition->value;
    }
}
