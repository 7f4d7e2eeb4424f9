/* metrics.h - the numbers of metrics.def: read now, kept over time, and sent to who subscribed.
 *
 *   modules --> metrics_collect() --> telemetry.get, the Prometheus endpoint
 *                    |
 *                    +--> each telemetry.interval_ms --> history --> telemetry.history
 *                    +--> each interval of a subscription --> feed --> notifications
 *
 * Subscriptions with the same interval and topics share one text.
 *
 * Thread: loop. Cost: a collection reads some small files and walks over clients, ports and readers; it
 * asks no client. */
#ifndef ENGINE_CORED_METRICS_H
#define ENGINE_CORED_METRICS_H

#include <stdint.h>

#include "foundation/error.h"
#include "foundation/json/json_writer.h"
#include "proto/tables.h"

struct metrics;
struct services;

#define METRICS_ALL_TOPICS ((1u << EC_TOPICS) - 1)

int metrics_init(struct services *services, struct ec_error *why); /* module phase */
void metrics_shutdown(struct services *services);

struct metrics_sample {
    int64_t real_ns;
    int64_t value[EC_METRICS];
};

/* Read the metrics of these topics (bits 1 << topic); the others are zero. */
void metrics_collect(struct services *services, unsigned topics, struct metrics_sample *sample);

/* "TOPIC":{name:value,…} of each of the topics, into an open object. */
void metrics_write(const struct metrics_sample *sample, unsigned topics,
                   struct ec_json_writer *writer);

#endif
