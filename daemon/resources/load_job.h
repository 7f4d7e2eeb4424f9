/* load_job.h - have a few resources read and decoded by a process of their own, and wait for it.
 *
 * Starting a process takes as long as decoding a small picture, so those that lie in one batch share one.
 * What a file does to its decoder stays with its own resource: who crashes or hangs fails, and the others
 * of the batch get another process.
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

struct decode_entry;
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
    const void *company;                 /* only jobs of one company share a process */
    unsigned
        priority; /* 0..LOAD_PRIORITY_MAX, higher ones first; the pool's while it has the job */
    bool cancelled, alone; /* the pool's: nobody wants it any more; it gets a process of its own */

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

/* Jobs for one process, all with the same limits. What it needs to know of them is copied at the start:
 * any but the one whose turn it is may be taken away at any time. */
struct load_batch {
    struct load_limits limits;
    unsigned count;                     /* 1..DECODE_ENTRIES_MAX */
    const struct decode_entry *entries; /* of each: load_job_entry() */
    /* The first job from place *index on that is still to be done here; *index becomes its place. NULL:
     * there is none, or there is something better to do. Its end is told in the order of the turns. */
    struct load_job *(*turn)(void *context, unsigned *index);
    void (*end)(void *context, struct load_job *job);
    void *context;
};
void load_job_entry(const struct load_job *job, struct decode_entry *entry);
bool load_limits_same(const struct load_limits *left, const struct load_limits *right);

enum load_outcome {
    LOAD_OVER,      /* each job that had a turn was ended; there may be others left */
    LOAD_NO_SERVER, /* the server has ended; no job had a turn */
    LOAD_ALONE,     /* the process was lost before its first turn, or in a later one, which was not
                       ended: whose fault it is shows when each of those left runs alone */
};

/* Run one process for the batch. cancel_fd ends the job whose turn it is. However the process ends, no
 * job is ended before nobody can write into its range any more. */
enum load_outcome load_batch_run(const struct load_batch *batch, const struct load_place *place);

#endif
