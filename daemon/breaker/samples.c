/* samples.c - a ring of samples. */
#include "breaker/samples.h"

#include <stdlib.h>

struct samples {
    uint64_t count; /* ever */
    struct sample ring[SAMPLES_MAX];
};

static void write_sample(const struct sample *sample, struct ec_json_writer *writer);

struct samples *samples_create(void)
{
    return calloc(1, sizeof(struct samples)); /* pages that are never used are never there */
}

void samples_destroy(struct samples *samples)
{
    free(samples);
}

void samples_add(struct samples *samples, const struct sample *sample)
{
    samples->ring[samples->count++ % SAMPLES_MAX] = *sample;
}

void samples_write(const struct samples *samples, const struct samples_query *query,
                   struct ec_json_writer *writer)
{
    const uint64_t held = samples->count < SAMPLES_MAX ? samples->count : SAMPLES_MAX;
    unsigned written = 0;

    for (uint64_t back = 1; back <= held && written < query->limit; back++) {
        const struct sample *sample = &samples->ring[(samples->count - back) % SAMPLES_MAX];

        if (sample->at_ns < query->since_ns)
            break;
        if (query->client_id != 0 && sample->client_id != query->client_id)
            continue;
        write_sample(sample, writer);
        written++;
    }
}

static void write_sample(const struct sample *sample, struct ec_json_writer *writer)
{
    ec_json_object_begin(writer);
    ec_json_member_i64(writer, "at_ns", sample->at_ns);
    ec_json_member_u64(writer, "client_id", sample->client_id);
    ec_json_member_u64(writer, "level", sample->level);
    ec_json_member_u64(writer, "resident_bytes", sample->resident_bytes);
    ec_json_member_u64(writer, "private_bytes", sample->private_bytes);
    ec_json_member_u64(writer, "tagged_bytes", sample->tagged_bytes);
    ec_json_member_u64(writer, "available_bytes", sample->available_bytes);
    ec_json_object_end(writer);
}
