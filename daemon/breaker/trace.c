/* trace.c - a ring of readings. */
#include "breaker/trace.h"

#include <stdlib.h>

#define NS_PER_MS INT64_C(1000000)
#define CALM_NS (100 * NS_PER_MS)
#define NEAR_NS (10 * NS_PER_MS)

struct trace {
    uint64_t count; /* ever */
    struct trace_reading ring[TRACE_MAX];
};

struct trace *trace_create(void)
{
    return calloc(1, sizeof(struct trace)); /* pages that are never used are never there */
}

void trace_destroy(struct trace *trace)
{
    free(trace);
}

void trace_add(struct trace *trace, int64_t at_ns, const struct level_reading *reading,
               bool is_near)
{
    const int64_t apart_ns = is_near ? NEAR_NS : CALM_NS;

    if (trace->count > 0 && at_ns - trace->ring[(trace->count - 1) % TRACE_MAX].at_ns < apart_ns)
        return;
    trace->ring[trace->count++ % TRACE_MAX] = (struct trace_reading) {
        .at_ns = at_ns,
        .total_bytes = reading->total_bytes,
        .available_bytes = reading->available_bytes,
        .some_permille = reading->some_permille,
        .full_permille = reading->full_permille,
    };
}

bool trace_at(const struct trace *trace, uint32_t place, struct trace_reading *reading)
{
    const uint32_t held = trace_count(trace);

    if (place >= held)
        return false;
    *reading = trace->ring[(trace->count - held + place) % TRACE_MAX];
    return true;
}

uint32_t trace_count(const struct trace *trace)
{
    return trace->count < TRACE_MAX ? (uint32_t)trace->count : TRACE_MAX;
}

void trace_write(const struct trace *trace, uint32_t limit, struct ec_json_writer *writer)
{
    const uint32_t held = trace_count(trace);
    const uint32_t first = held > limit ? held - limit : 0;
    struct trace_reading reading;
    int64_t begin_ns = 0;

    for (uint32_t place = first; trace_at(trace, place, &reading); place++) {
        if (place == first)
            begin_ns = reading.at_ns;
        ec_json_array_begin(writer);
        ec_json_i64(writer, (reading.at_ns - begin_ns) / NS_PER_MS);
        ec_json_u64(writer, reading.total_bytes);
        ec_json_u64(writer, reading.available_bytes);
        ec_json_u64(writer, reading.some_permille);
        ec_json_u64(writer, reading.full_permille);
        ec_json_array_end(writer);
    }
}
