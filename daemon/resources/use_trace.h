/* use_trace.h - the newest uses of resources, for whoever records them.
 *
 * A bounded ring in the daemon; who is too slow is told how many it lost.
 *
 * Thread: loop. */
#ifndef RESOURCES_USE_TRACE_H
#define RESOURCES_USE_TRACE_H

#include <stdint.h>

#define USE_TRACE_EVENTS 65536 /* power of two */

enum use_kind {
    USE_ACQUIRE,
    USE_ORDER, /* a soft reference began */
};

struct traced_use {
    int64_t at_ns;
    uint32_t client_id; /* 0: of several */
    uint32_t index;
    enum use_kind kind;
};

struct use_trace;

struct use_trace *use_trace_create(void); /* NULL: no memory */
void use_trace_destroy(struct use_trace *trace);
void use_trace_add(struct use_trace *trace, const struct traced_use *use);
/* How many were added; those from the result of use_trace_first on are still there. */
uint64_t use_trace_end(const struct use_trace *trace);
uint64_t use_trace_first(const struct use_trace *trace);
const struct traced_use *use_trace_at(const struct use_trace *trace, uint64_t sequence);

#endif
