/* load_job.h - have one resource read and decoded by a process of its own, and wait for it.
 *
 * Thread:    fill in on the loop, run on a worker, read the result on the loop; the worker pool hands
 *            it over both ways.
 * Ownership: the maker owns the job; of a job that succeeded it owns the range in the heap, too. */
#ifndef RESOURCES_LOAD_JOB_H
#define RESOURCES_LOAD_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "decoders/decoder.h"
#include "foundation/error.h"
#include "resources/asset_heap.h"
#include "resources/content.h"
#include "resources/sandbox.h"
#include "resources/search_path.h"

struct decode_server;

#define LOAD_PRIORITY_MAX 9
#define LOAD_PRIORITY_DEFAULT 5

struct load_limits {
    struct decode_limits decode;
    uint64_t memory_bytes; /* of the process */
    unsigned seconds;      /* for all of it */
    bool guarded;          /* under the filter, where the kernel has it */
    bool drop_cache;       /* of the file */
};

struct load_job {
    struct load_job *next; /* the pool's */
    void *owner;

    char path[SEARCH_PATH_BYTES]; /* in the search path */
    enum ec_resource_kind kind;
    struct decode_options options;
    struct load_limits limits;
    const struct content_secret *secret; /* for digest */
    unsigned
        priority; /* 0..LOAD_PRIORITY_MAX, higher ones first; the pool's while it has the job */

    int rc; /* EC_OK, EC_AGAIN (cancelled) or an error with its reason in why */
    struct ec_error why;
    struct decoded decoded;
    uint64_t offset; /* in the heap */
    unsigned mount;  /* place of what it came from in the search path */
    enum sandbox_guard guard;
    struct content_digest
        digest;      /* of what was decoded; taken here, since no decoder is believed */
    int64_t load_ns; /* reading and decoding took */
};

struct load_place {
    struct asset_heap *heap;
    struct decode_server *server;
    int cancel_fd;
};

/* Run to the end, or until cancel_fd is readable. However the process ends, its end is waited for:
 * afterwards nobody writes into the range any more.
 *
 * Returns false when nothing was tried, because the server has ended. */
bool load_job_run(struct load_job *job, const struct load_place *place);

#endif
