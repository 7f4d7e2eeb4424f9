/* samples.h - what each client's memory did while it ran short, ten times a second.
 *
 * One ring for all clients: the oldest go. Sampling begins with the level whose policy has the action
 * "sampling" and ends with it; what was sampled stays until it is overwritten, also when its client is
 * gone.
 *
 * Thread: loop. Cost: one small read for each client and sample; allocates nothing after creation. */
#ifndef ENGINE_CORED_BREAKER_SAMPLES_H
#define ENGINE_CORED_BREAKER_SAMPLES_H

#include <stdint.h>

#include "foundation/json/json_writer.h"

#define SAMPLES_MAX 8192
#define SAMPLE_NS INT64_C(100000000)

struct sample {
    int64_t at_ns;
    uint32_t client_id;
    uint32_t level;           /* in force for this client */
    uint64_t resident_bytes;  /* 0: its process could not be read */
    uint64_t private_bytes;   /* the anonymous part of it */
    uint64_t tagged_bytes;    /* by its own counters */
    uint64_t available_bytes; /* where memory runs short first */
};

struct samples; /* opaque */

struct samples *samples_create(void); /* NULL: no memory */
void samples_destroy(struct samples *samples);

void samples_add(struct samples *samples, const struct sample *sample);

/* The newest first, at most limit, of one client or of all (0), not older than since_ns, as elements of
 * an open array. */
struct samples_query {
    uint32_t client_id;
    int64_t since_ns;
    unsigned limit;
};
void samples_write(const struct samples *samples, const struct samples_query *query,
                   struct ec_json_writer *writer);

#endif
