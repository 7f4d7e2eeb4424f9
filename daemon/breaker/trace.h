/* trace.h - the course of memory as it was read: what a policy can be tried on.
 *
 * A ring of readings of what ran short first, one each tenth of a second, and one each look (not closer than
 * 10 ms) while that is near a mark. Calm hosts keep half an hour, those in trouble some minutes.
 *
 * Thread: loop. Allocates nothing after creation. */
#ifndef ENGINE_CORED_BREAKER_TRACE_H
#define ENGINE_CORED_BREAKER_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "breaker/levels.h"
#include "foundation/json/json_writer.h"

#define TRACE_MAX 16384

struct trace_reading {
    int64_t at_ns;
    uint64_t total_bytes, available_bytes;
    uint32_t some_permille, full_permille;
};

struct trace; /* opaque */

struct trace *trace_create(void); /* NULL: no memory */
void trace_destroy(struct trace *trace);

void trace_add(struct trace *trace, int64_t at_ns, const struct level_reading *reading,
               bool is_near);

/* The reading at a place, 0 the oldest; false: there are no more. */
bool trace_at(const struct trace *trace, uint32_t place, struct trace_reading *reading);
uint32_t trace_count(const struct trace *trace);

/* The newest limit of them, the oldest first, as elements [at_ms, total_bytes, available_bytes,
 * some_permille, full_permille] of an open array; times count from the first one. */
void trace_write(const struct trace *trace, uint32_t limit, struct ec_json_writer *writer);

#endif
