/* metric.h - the metrics by their whole names, memory.available_bytes, and conditions on them.
 *
 * Thread: any. */
#ifndef ENGINE_CTL_METRIC_H
#define ENGINE_CTL_METRIC_H

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "proto/tables.h"

#define METRIC_NAME_BYTES 64

/* The row of a metric; NULL with the nearest one in hint ("" when none is near). */
const struct ec_metric_row *metric_find(const char *name, char hint[METRIC_NAME_BYTES]);
void metric_name(const struct ec_metric_row *row, char name[METRIC_NAME_BYTES]);

/* Its value in the result of telemetry.get or in a notification. */
double metric_value(const struct ec_metric_row *row, const cJSON *telemetry);

/* "1.5 GiB", "12.3 ms", "17": by the unit. */
char *metric_text(const struct ec_metric_row *row, double value, char *buffer);

struct metric_condition {
    const struct ec_metric_row *row;
    char operation[3]; /* > >= < <= = != */
    double value;
};

/* "breaker.level>=2", "memory.available_bytes<1GiB". false: why says what is wrong with it. */
bool metric_condition_parse(const char *text, struct metric_condition *condition, char *why,
                            size_t why_bytes);
bool metric_condition_holds(const struct metric_condition *condition, double value);

#endif
