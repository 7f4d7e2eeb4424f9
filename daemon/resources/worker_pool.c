/* worker_pool.c - two lists under one lock: what waits for a worker, what waits for the loop. */
#include "resources/worker_pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

struct job_list {
    struct load_job *first;
    struct load_job **end;
};

struct worker_pool {
    pthread_mutex_t lock; /* of waiting, finished and stopping */
    pthread_cond_t work;
    struct job_list waiting, finished;
    bool stopping;

    struct asset_heap *heap;
    worker_done_fn *done;
    void *context;
    uv_async_t wake; /* something is finished */
    unsigned threads;
    pthread_t thread[];
};

static void *work(void *argument);
static void on_wake(uv_async_t *wake);
static void on_closed(uv_handle_t *handle);
static int threads_start(struct worker_pool *pool, unsigned threads, struct ec_error *why);

static void list_init(struct job_list *list)
{
    list->first = NULL;
    list->end = &list->first;
}

static void list_append(struct job_list *list, struct load_job *job)
{
    job->next = NULL;
    *list->end = job;
    list->end = &job->next;
}

static struct load_job *list_take(struct job_list *list)
{
    struct load_job *job = list->first;

    list->first = job->next;
    if (list->first == NULL)
        list->end = &list->first;
    return job;
}

int worker_pool_create(struct uv_loop_s *loop, struct asset_heap *heap, unsigned threads,
                       worker_done_fn *done, void *context, struct worker_pool **pool,
                       struct ec_error *why)
{
    struct worker_pool *made = calloc(1, sizeof *made + threads * sizeof made->thread[0]);
    int rc;

    *pool = NULL;
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for %u workers", threads);
    made->heap = heap;
    made->done = done;
    made->context = context;
    list_init(&made->waiting);
    list_init(&made->finished);
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->work, NULL);
    rc = uv_async_init(loop, &made->wake, on_wake);
    if (rc < 0) {
        free(made);
        return ec_fail(why, EC_ERR_SYSTEM, "worker wake-up: %s", uv_strerror(rc));
    }
    made->wake.data = made;
    rc = threads_start(made, threads, why);
    if (rc < 0) {
        worker_pool_destroy(made);
        return rc;
    }
    *pool = made;
    return EC_OK;
}

void worker_pool_destroy(struct worker_pool *pool)
{
    if (pool == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->threads; i++)
        pthread_join(pool->thread[i], NULL);
    uv_close((uv_handle_t *)&pool->wake, on_closed);
}

void worker_pool_submit(struct worker_pool *pool, struct load_job *job)
{
    pthread_mutex_lock(&pool->lock);
    list_append(&pool->waiting, job);
    pthread_cond_signal(&pool->work);
    pthread_mutex_unlock(&pool->lock);
}

static int threads_start(struct worker_pool *pool, unsigned threads, struct ec_error *why)
{
    sigset_t all, before;
    int error = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the loop's */
    while (error == 0 && pool->threads < threads) {
        error = pthread_create(&pool->thread[pool->threads], NULL, work, pool);
        if (error == 0)
            pool->threads++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return ec_fail(why, EC_ERR_SYSTEM, "start worker %u: %s", pool->threads, strerror(error));
    return EC_OK;
}

static void *work(void *argument)
{
    struct worker_pool *pool = argument;

    pthread_setname_np(pthread_self(), "ec-worker");
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        struct load_job *job;

        while (pool->waiting.first == NULL && !pool->stopping)
            pthread_cond_wait(&pool->work, &pool->lock);
        if (pool->stopping)
            break;
        job = list_take(&pool->waiting);
        pthread_mutex_unlock(&pool->lock);
        load_job_run(job, pool->heap);
        pthread_mutex_lock(&pool->lock);
        list_append(&pool->finished, job);
        uv_async_send(&pool->wake); /* under the lock: destroy closes it only after the join */
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static void on_wake(uv_async_t *wake)
{
    struct worker_pool *pool = wake->data;
    struct job_list finished;

    pthread_mutex_lock(&pool->lock);
    finished = pool->finished;
    if (finished.first == NULL)
        list_init(&finished);
    list_init(&pool->finished);
    pthread_mutex_unlock(&pool->lock);
    while (finished.first != NULL)
        pool->done(pool->context, list_take(&finished));
}

static void on_closed(uv_handle_t *handle)
{
    struct worker_pool *pool = handle->data;

    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
