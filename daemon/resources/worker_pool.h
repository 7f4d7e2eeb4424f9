/* worker_pool.h - threads that run load jobs and hand them back to the loop.
 *
 * Thread: loop; done is called on the loop. */
#ifndef RESOURCES_WORKER_POOL_H
#define RESOURCES_WORKER_POOL_H

#include "foundation/error.h"
#include "resources/load_job.h"

struct uv_loop_s;
struct worker_pool;

typedef void worker_done_fn(void *context, struct load_job *job);

/* Start the threads. They block all signals.
 *
 * Returns EC_OK, EC_ERR_MEMORY or EC_ERR_SYSTEM. */
int worker_pool_create(struct uv_loop_s *loop, struct asset_heap *heap, unsigned threads,
                       worker_done_fn *done, void *context, struct worker_pool **pool,
                       struct ec_error *why);
/* Wait for the jobs that run, forget the others (done is not called for them) and end the threads.
 * The pool's memory goes with the next turn of the loop. Accepts NULL. */
void worker_pool_destroy(struct worker_pool *pool);

/* The job stays the caller's and must live until done is called for it, or the pool is destroyed. */
void worker_pool_submit(struct worker_pool *pool, struct load_job *job);

#endif
