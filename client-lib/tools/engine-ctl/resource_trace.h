/* resource_trace.h - a recording of which resources games used, as a text file.
 *
 *     # engine-core resource trace 1
 *     r INDEX BYTES LOAD_NS NAME      a resource, before its first use
 *     u AT_NS CLIENT INDEX            it was acquired
 *     s AT_NS CLIENT INDEX            a game asked by a soft reference that it be loaded ahead
 *
 * INDEX is a number of the recording's own. Lines that begin with # are passed over.
 *
 * Thread: one. */
#ifndef ENGINE_CTL_RESOURCE_TRACE_H
#define ENGINE_CTL_RESOURCE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <engine-core/error.h>

#define RESOURCE_TRACE_HEADER "# engine-core resource trace 1\n"
#define RESOURCE_TRACE_RESOURCES_MAX 65536
#define RESOURCE_TRACE_USES_MAX (64u << 20)

struct traced_resource {
    uint64_t bytes;
    int64_t load_ns;
    bool known;
};

struct traced_use {
    uint32_t resource;
    bool ahead; /* a soft reference */
};

struct resource_trace {
    struct traced_resource *resources;
    uint32_t resource_count;
    struct traced_use *uses;
    size_t use_count, use_capacity;
    size_t ahead_count;
    uint64_t bytes; /* of all resources */
};

/* Read a file. What does not fit is refused with its line.
 *
 * Returns EC_OK, EC_ERR_PARSE, EC_ERR_LIMIT, EC_ERR_MEMORY or EC_ERR_SYSTEM; finish it in any case. */
int resource_trace_read(FILE *file, struct resource_trace *trace, struct ec_error *why);
void resource_trace_finish(struct resource_trace *trace);

/* ---- policies ---- */

enum { POLICY_LRU2, POLICY_LRU, POLICY_SIEVE, POLICY_S3_FIFO, POLICY_LRU2_AHEAD, POLICIES };

struct policy_result {
    uint64_t uses, hits;
    uint64_t
        reloaded_bytes; /* loads that a game had to wait for, but for the first of each resource */
    uint64_t waited_bytes; /* with the first ones */
    uint64_t ahead_bytes;  /* loads in the background, by soft references */
};

const char *policy_name(unsigned policy);
/* Play the trace with so much memory. EC_OK or EC_ERR_MEMORY. */
int policy_run(const struct resource_trace *trace, unsigned policy, uint64_t capacity_bytes,
               struct policy_result *result);

#endif
