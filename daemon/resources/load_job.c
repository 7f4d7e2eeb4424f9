/* load_job.c - open, choose a decoder, measure, reserve, decode. */
#include "resources/load_job.h"

#include "resources/search_path.h"

static bool cancelled(struct load_job *job)
{
    return atomic_load_explicit(&job->cancel, memory_order_relaxed);
}

static int decode_into_heap(struct load_job *job, struct asset_heap *heap,
                            const struct decoder *decoder, struct decode_source *source)
{
    int rc = decoder->measure(source, &job->limits, &job->decoded, &job->why);

    if (rc < 0)
        return rc;
    if (cancelled(job))
        return EC_AGAIN;
    rc = asset_heap_reserve(heap, job->decoded.bytes, &job->offset, &job->why);
    if (rc < 0)
        return rc;
    rc = decoder->decode(source, &job->decoded, heap->base + job->offset, &job->why);
    if (rc < 0)
        asset_heap_free(heap, job->offset, job->decoded.bytes);
    return rc;
}

void load_job_run(struct load_job *job, struct asset_heap *heap)
{
    const struct decoder *decoder;
    struct search_entry entry = { 0 };
    struct decode_source source = { .entry = &entry };

    if (cancelled(job)) {
        job->rc = EC_AGAIN;
        return;
    }
    job->rc = search_entry_open(&entry, job->path, &job->why);
    if (job->rc == EC_OK)
        job->rc = decoder_choose(job->kind, &source, &job->limits, &decoder, &job->why);
    if (job->rc == EC_OK)
        job->rc = decode_into_heap(job, heap, decoder, &source);
    decode_source_finish(&source);
    search_entry_close(&entry);
}
