/* worker_pool.c - jobs that wait by priority, jobs that are done, and what each thread is at.
 *
 * A thread does little itself: it starts the process that decodes, reserves what that asks for, and
 * waits. An eventfd for each thread ends the waiting when its job is cancelled.
 *
 * When the server has ended, killed by whatever, the thread that finds out starts another one with the
 * same search path and tries again. */
#include "resources/worker_pool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uv.h>

#include "daemon/log.h"
#include "foundation/thread.h"
#include "resources/decode_server.h"

#define RESTART_S 30 /* for the archives of a server that has to be started again */

struct job_list {
    struct load_job *first;
    struct load_job **end;
};

struct worker {
    struct worker_pool *pool;
    pthread_t thread;
    struct load_job *job; /* what it is at; NULL: nothing */
    int cancel_fd;
};

struct worker_pool {
    pthread_mutex_t lock; /* of all but restart's own time */
    pthread_mutex_t restarting;
    pthread_cond_t work;
    struct job_list waiting[LOAD_PRIORITY_MAX + 1], finished;
    struct decode_server *server;
    bool stopping;

    struct worker_pool_desc desc;
    uv_async_t wake; /* something is finished */
    unsigned started;
    struct worker workers[];
};

static void *work(void *argument);
static void on_wake(uv_async_t *wake);
static void on_closed(uv_handle_t *handle);
static int workers_start(struct worker_pool *pool, struct ec_error *why);
static bool restart(struct worker_pool *pool, struct decode_server *lost);

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

static bool list_remove(struct job_list *list, struct load_job *job)
{
    struct load_job **at = &list->first;

    while (*at != NULL && *at != job)
        at = &(*at)->next;
    if (*at == NULL)
        return false;
    *at = job->next;
    if (*at == NULL)
        list->end = at;
    return true;
}

int worker_pool_create(const struct worker_pool_desc *desc, struct worker_pool **pool,
                       struct ec_error *why)
{
    struct worker_pool *made = calloc(1, sizeof *made + desc->threads * sizeof made->workers[0]);
    int rc;

    *pool = NULL;
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for %u workers", desc->threads);
    made->desc = *desc;
    for (unsigned i = 0; i <= LOAD_PRIORITY_MAX; i++)
        list_init(&made->waiting[i]);
    list_init(&made->finished);
    rc = uv_async_init(desc->loop, &made->wake, on_wake);
    if (rc < 0) {
        free(made);
        return ec_fail(why, EC_ERR_SYSTEM, "worker wake-up: %s", uv_strerror(rc));
    }
    made->wake.data = made;
    pthread_mutex_init(&made->lock, NULL);
    pthread_mutex_init(&made->restarting, NULL);
    pthread_cond_init(&made->work, NULL);
    made->server = decode_server_acquire(desc->server);
    rc = workers_start(made, why);
    if (rc < 0) {
        worker_pool_destroy(made);
        return rc;
    }
    *pool = made;
    return EC_OK;
}

static void worker_interrupt(struct worker *worker)
{
    while (eventfd_write(worker->cancel_fd, 1) < 0 && errno == EINTR)
        ;
}

void worker_pool_destroy(struct worker_pool *pool)
{
    if (pool == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    for (unsigned i = 0; i < pool->started; i++)
        worker_interrupt(&pool->workers[i]);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->started; i++) {
        pthread_join(pool->workers[i].thread, NULL);
        close(pool->workers[i].cancel_fd);
    }
    decode_server_release(pool->server);
    uv_close((uv_handle_t *)&pool->wake, on_closed);
}

void worker_pool_submit(struct worker_pool *pool, struct load_job *job)
{
    assert(job->priority <= LOAD_PRIORITY_MAX);
    pthread_mutex_lock(&pool->lock);
    list_append(&pool->waiting[job->priority], job);
    pthread_cond_signal(&pool->work);
    pthread_mutex_unlock(&pool->lock);
}

void worker_pool_cancel(struct worker_pool *pool, struct load_job *job)
{
    pthread_mutex_lock(&pool->lock);
    for (unsigned i = 0; i < pool->started; i++)
        if (pool->workers[i].job == job)
            worker_interrupt(&pool->workers[i]);
    if (list_remove(&pool->waiting[job->priority], job)) {
        job->rc = EC_AGAIN;
        list_append(&pool->finished, job);
        uv_async_send(&pool->wake);
    }
    pthread_mutex_unlock(&pool->lock);
}

void worker_pool_raise(struct worker_pool *pool, struct load_job *job, unsigned priority)
{
    assert(priority <= LOAD_PRIORITY_MAX);
    pthread_mutex_lock(&pool->lock);
    if (priority > job->priority && list_remove(&pool->waiting[job->priority], job)) {
        job->priority = priority;
        list_append(&pool->waiting[priority], job);
    }
    pthread_mutex_unlock(&pool->lock);
}

void worker_pool_set_server(struct worker_pool *pool, struct decode_server *server)
{
    struct decode_server *before;

    pthread_mutex_lock(&pool->lock);
    before = pool->server;
    pool->server = decode_server_acquire(server);
    pthread_mutex_unlock(&pool->lock);
    decode_server_release(before);
}

void worker_pool_stats(struct worker_pool *pool, struct worker_pool_stats *stats)
{
    pthread_mutex_lock(&pool->lock);
    *stats = (struct worker_pool_stats) { .workers = pool->started };
    for (unsigned i = 0; i < pool->started; i++)
        stats->running += pool->workers[i].job != NULL;
    for (unsigned i = 0; i <= LOAD_PRIORITY_MAX; i++)
        for (const struct load_job *job = pool->waiting[i].first; job != NULL; job = job->next)
            stats->waiting++;
    pthread_mutex_unlock(&pool->lock);
}

static int workers_start(struct worker_pool *pool, struct ec_error *why)
{
    for (; pool->started < pool->desc.threads; pool->started++) {
        struct worker *worker = &pool->workers[pool->started];
        int rc;

        worker->pool = pool;
        worker->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (worker->cancel_fd < 0)
            return ec_fail(why, EC_ERR_SYSTEM, "eventfd: %s", strerror(errno));
        rc = ec_thread_start(&worker->thread, "ec-worker", work, worker, why);
        if (rc < 0) {
            close(worker->cancel_fd);
            return rc;
        }
    }
    return EC_OK;
}

/* The first of the highest priority. NULL: none waits. */
static struct load_job *next_job(struct worker_pool *pool)
{
    for (unsigned i = LOAD_PRIORITY_MAX + 1; i-- > 0;)
        if (pool->waiting[i].first != NULL)
            return list_take(&pool->waiting[i]);
    return NULL;
}

static void run(struct worker *worker, struct load_job *job, struct decode_server *server)
{
    struct load_place place = { .heap = worker->pool->desc.heap,
                                .server = server,
                                .cancel_fd = worker->cancel_fd };

    if (load_job_run(job, &place))
        return;
    if (restart(worker->pool, server)) {
        pthread_mutex_lock(&worker->pool->lock);
        place.server = decode_server_acquire(worker->pool->server);
        pthread_mutex_unlock(&worker->pool->lock);
        if (load_job_run(job, &place)) {
            decode_server_release(place.server);
            return;
        }
        decode_server_release(place.server);
    }
    job->rc = ec_fail(&job->why, EC_ERR_SYSTEM, "the decoding processes have ended");
}

/* Returns false when there can be none. One thread does it, the others find it done. */
static bool restart(struct worker_pool *pool, struct decode_server *lost)
{
    struct decode_server *server;
    struct ec_error why = { 0 };
    bool is_current;
    int rc = EC_OK;

    pthread_mutex_lock(&pool->restarting);
    pthread_mutex_lock(&pool->lock);
    is_current = pool->server == lost;
    pthread_mutex_unlock(&pool->lock);
    if (is_current) {
        log_warning("resources", "the decoding process has ended and is started again");
        rc = decode_server_again(pool->desc.nursery, lost, RESTART_S, &server, &why);
    }
    if (rc < 0) {
        log_error("resources", "the decoding process cannot be started again: %s", why.text);
    } else if (is_current) {
        pthread_mutex_lock(&pool->lock);
        is_current = pool->server == lost; /* the loop may have set another one meanwhile */
        if (is_current)
            pool->server = server;
        pthread_mutex_unlock(&pool->lock);
        decode_server_release(is_current ? lost : server);
    }
    pthread_mutex_unlock(&pool->restarting);
    return rc == EC_OK;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct worker_pool *pool = worker->pool;

    pthread_mutex_lock(&pool->lock);
    for (;;) {
        struct decode_server *server;
        struct load_job *job = NULL;
        eventfd_t cancelled;

        while (!pool->stopping && (job = next_job(pool)) == NULL)
            pthread_cond_wait(&pool->work, &pool->lock);
        if (pool->stopping)
            break;
        worker->job = job;
        server = decode_server_acquire(pool->server);
        pthread_mutex_unlock(&pool->lock);
        run(worker, job, server);
        decode_server_release(server);
        pthread_mutex_lock(&pool->lock);
        worker->job = NULL;
        if (pool->stopping)
            break;
        (void)eventfd_read(worker->cancel_fd, &cancelled); /* mostly there is nothing */
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
        pool->desc.done(pool->desc.context, list_take(&finished));
}

static void on_closed(uv_handle_t *handle)
{
    struct worker_pool *pool = handle->data;

    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->restarting);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
