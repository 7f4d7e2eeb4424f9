/* load_job.h - read and decode one resource, on a worker.
 *
 * Thread:    fill in on the loop, run on a worker, read the result on the loop; the worker pool hands
 *            it over both ways. cancel may be set on the loop at any time.
 * Ownership: the maker owns the job; of a job that succeeded it owns the range in the heap, too. */
#ifndef RESOURCES_LOAD_JOB_H
#define RESOURCES_LOAD_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "foundation/error.h"
#include "resources/asset_heap.h"
#include "resources/decoder.h"

struct load_job {
    struct load_job *next; /* the pool's */
    void *owner;

    const char *path; /* in the search path; stays the owner's */
    enum ec_resource_kind kind;
    struct decode_limits limits;
    atomic_bool cancel; /* nobody wants it any more */

    int rc; /* EC_OK, EC_AGAIN (cancelled) or an error with its reason in why */
    struct ec_error why;
    struct decoded decoded;
    uint64_t offset; /* in the heap */
};

void load_job_run(struct load_job *job, struct asset_heap *heap);

#endif
