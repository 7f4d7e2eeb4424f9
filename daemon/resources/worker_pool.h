/* worker_pool.h - threads that see load jobs through and hand them back to the loop.
 *
 * Thread: loop, unless another is named; done is called on the loop. */
#ifndef RESOURCES_WORKER_POOL_H
#define RESOURCES_WORKER_POOL_H

#include "foundation/error.h"
#include "resources/load_job.h"

struct decode_nursery;
struct uv_loop_s;
struct worker_pool;

typedef void worker_done_fn(void *context, struct load_job *job);

struct worker_pool_desc {
    struct uv_loop_s *loop;
    struct asset_heap *heap;
    struct decode_nursery *nursery;
    struct decode_server *server; /* the search path to begin with; the pool takes a reference */
    unsigned threads;             /* 1..64: so many resources are decoded at once */
    worker_done_fn *done;
    void *context;
};

/* Start the threads. They block all signals.
 *
 * Returns EC_OK, EC_ERR_MEMORY or EC_ERR_SYSTEM. */
int worker_pool_create(const struct worker_pool_desc *desc, struct worker_pool **pool,
                       struct ec_error *why);
/* Begin nothing any more, also no server. One that a thread is about to start, which may take long, is ended
 * with the nursery. Accepts NULL. */
void worker_pool_stop(struct worker_pool *pool);
/* The same; kill what runs, forget the other jobs (done is not called for any) and end the threads. The pool's
 * memory goes with the next turn of the loop. Accepts NULL. */
void worker_pool_destroy(struct worker_pool *pool);

/* The job stays the caller's and must live until done is called for it, or the pool is destroyed. */
void worker_pool_submit(struct worker_pool *pool, struct load_job *job);
/* Nobody wants it any more: it comes back soon, mostly with EC_AGAIN. */
void worker_pool_cancel(struct worker_pool *pool, struct load_job *job);
/* Let a job that waits overtake those with a lower priority. */
void worker_pool_raise(struct worker_pool *pool, struct load_job *job, unsigned priority);

struct worker_pool_stats {
    unsigned workers; /* threads */
    unsigned running; /* of them with jobs; and jobs that are done and on their way back */
    unsigned waiting; /* jobs that no thread has yet */
};
void worker_pool_stats(struct worker_pool *pool, struct worker_pool_stats *stats);

/* Jobs that begin from now on use this search path; the pool takes a reference. */
void worker_pool_set_server(struct worker_pool *pool, struct decode_server *server);

#endif
