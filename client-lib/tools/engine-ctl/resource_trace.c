/* resource_trace.c - read lines, bounded and checked. */
#include "engine-ctl/resource_trace.h"

#include <stdlib.h>
#include <string.h>

#include "engine-ctl/fault.h"

static int read_line(struct resource_trace *trace, const char *line);
static int add_use(struct resource_trace *trace, uint64_t resource, bool ahead);

int resource_trace_read(FILE *file, struct resource_trace *trace, struct ec_error *why)
{
    char line[512];
    unsigned long number = 0;
    int rc = EC_OK;

    *trace = (struct resource_trace) { 0 };
    trace->resources = calloc(RESOURCE_TRACE_RESOURCES_MAX, sizeof *trace->resources);
    if (trace->resources == NULL)
        return fault(why, EC_ERR_MEMORY, "no memory for a trace");
    if (fgets(line, sizeof line, file) == NULL || strcmp(line, RESOURCE_TRACE_HEADER) != 0)
        return fault(why, EC_ERR_PARSE, "it does not begin like a resource trace");
    while (rc == EC_OK && fgets(line, sizeof line, file) != NULL) {
        number++;
        rc = strchr(line, '\n') == NULL && !feof(file) ? EC_ERR_PARSE : read_line(trace, line);
    }
    if (rc < 0)
        return fault(why, rc, "line %lu: %s", number + 1,
                     rc == EC_ERR_LIMIT    ? "more than there may be"
                     : rc == EC_ERR_MEMORY ? "no memory"
                                           : "not understood");
    return ferror(file) ? fault(why, EC_ERR_SYSTEM, "it cannot be read") : EC_OK;
}

void resource_trace_finish(struct resource_trace *trace)
{
    free(trace->resources);
    free(trace->uses);
    *trace = (struct resource_trace) { 0 };
}

/* A number behind one space; at is moved behind it. */
static bool number(const char **at, uint64_t max, uint64_t *out)
{
    char *end;

    if (**at != ' ' || (*at)[1] < '0' || (*at)[1] > '9')
        return false;
    *out = strtoull(*at + 1, &end, 10);
    *at = end;
    return *out <= max;
}

static int read_line(struct resource_trace *trace, const char *line)
{
    const char *at = line + 1;
    uint64_t first, second, third;

    if (line[0] == '#' || line[0] == '\n')
        return EC_OK;
    if (line[0] == 'r') {
        if (!number(&at, RESOURCE_TRACE_RESOURCES_MAX - 1, &first) ||
            !number(&at, UINT64_C(1) << 48, &second) || !number(&at, INT64_MAX, &third) ||
            *at != ' ' || second == 0 || trace->resources[first].known)
            return EC_ERR_PARSE;
        trace->resources[first] = (struct traced_resource) { second, (int64_t)third, true };
        if (first + 1 > trace->resource_count)
            trace->resource_count = (uint32_t)first + 1;
        trace->bytes += second;
        return EC_OK;
    }
    if ((line[0] != 'u' && line[0] != 's') || !number(&at, INT64_MAX, &first) ||
        !number(&at, UINT32_MAX, &second) ||
        !number(&at, RESOURCE_TRACE_RESOURCES_MAX - 1, &third) || (*at != '\n' && *at != '\0') ||
        !trace->resources[third].known)
        return EC_ERR_PARSE;
    return add_use(trace, third, line[0] == 's');
}

static int add_use(struct resource_trace *trace, uint64_t resource, bool ahead)
{
    if (trace->use_count == RESOURCE_TRACE_USES_MAX)
        return EC_ERR_LIMIT;
    if (trace->use_count == trace->use_capacity) {
        size_t capacity = trace->use_capacity > 0 ? 2 * trace->use_capacity : 4096;
        struct traced_use *grown = realloc(trace->uses, capacity * sizeof *grown);

        if (grown == NULL)
            return EC_ERR_MEMORY;
        trace->uses = grown;
        trace->use_capacity = capacity;
    }
    trace->uses[trace->use_count++] = (struct traced_use) { (uint32_t)resource, ahead };
    trace->ahead_count += ahead;
    return EC_OK;
}
