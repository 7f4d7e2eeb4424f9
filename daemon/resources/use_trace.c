/* use_trace.c - a ring. */
#include "resources/use_trace.h"

#include <stdlib.h>

struct use_trace {
    uint64_t end;
    struct traced_use uses[USE_TRACE_EVENTS];
};

struct use_trace *use_trace_create(void)
{
    return calloc(1, sizeof(struct use_trace));
}

void use_trace_destroy(struct use_trace *trace)
{
    free(trace);
}

void use_trace_add(struct use_trace *trace, const struct traced_use *use)
{
    trace->uses[trace->end++ % USE_TRACE_EVENTS] = *use;
}

uint64_t use_trace_end(const struct use_trace *trace)
{
    return trace->end;
}

uint64_t use_trace_first(const struct use_trace *trace)
{
    return trace->end > USE_TRACE_EVENTS ? trace->end - USE_TRACE_EVENTS : 0;
}

const struct traced_use *use_trace_at(const struct use_trace *trace, uint64_t sequence)
{
    return &trace->uses[sequence % USE_TRACE_EVENTS];
}
