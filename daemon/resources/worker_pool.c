/* worker_pool.c - jobs that wait by priority, jobs that are done, and what each thread is at.
 *
 * A thread does little itself: it starts the process that decodes, reserves what that asks for, and
 * waits. An eventfd for each thread ends the waiting when its job is cancelled.
 *
 * It takes a batch of jobs at once, for one process: up to half of its share of those that wait, so that all
 * threads come to the end together. What is left of a batch can still be taken away: by a cancellation, by a
 * thread that has nothing else, or to wait again because something more important came.
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
#include "resources/decode_messages.h"
#include "resources/decode_server.h"

#define RESTART_S 30 /* for the archives of a server that has to be started again */

struct job_list {
    struct load_job *first;
    struct load_job **end;
    unsigned count;
};

struct worker {
    struct worker_pool *pool;
    pthread_t thread;
    struct load_job *job; /* what it is at; NULL: nothing */
    bool busy;            /* with a batch, or with the end of its process */
    int cancel_fd;
    struct load_job *rest[DECODE_ENTRIES_MAX];       /* of its batch; NULL: taken */
    struct decode_entry entries[DECODE_ENTRIES_MAX]; /* the thread's own */
    struct load_batch batch;
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
static struct load_job *on_turn(void *context, unsigned *index);
static void on_end(void *context, struct load_job *job);
static void on_wake(uv_async_t *wake);
static void on_closed(uv_handle_t *handle);
static int workers_start(struct worker_pool *pool, struct ec_error *why);
static bool restart(struct worker_pool *pool, struct decode_server *lost);

static void list_init(struct job_list *list)
{
    list->first = NULL;
    list->end = &list->first;
    list->count = 0;
}

static void list_append(struct job_list *list, struct load_job *job)
{
    job->next = NULL;
    *list->end = job;
    list->end = &job->next;
    list->count++;
}

static void list_prepend(struct job_list *list, struct load_job *job)
{
    job->next = list->first;
    if (list->first == NULL)
        list->end = &job->next;
    list->first = job;
    list->count++;
}

static struct load_job *list_take(struct job_list *list)
{
    struct load_job *job = list->first;

    list->first = job->next;
    if (list->first == NULL)
        list->end = &list->first;
    list->count--;
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
    list->count--;
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

void worker_pool_stop(struct worker_pool *pool)
{
    if (pool == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    for (unsigned i = 0; i < pool->started; i++)
        worker_interrupt(&pool->workers[i]);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
}

void worker_pool_destroy(struct worker_pool *pool)
{
    if (pool == NULL)
        return;
    worker_pool_stop(pool);
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
    job->cancelled = job->alone = false;
    pthread_mutex_lock(&pool->lock);
    list_append(&pool->waiting[job->priority], job);
    pthread_cond_signal(&pool->work);
    pthread_mutex_unlock(&pool->lock);
}

/* Returns false when it is in no thread's batch, or has had its turn. */
static bool rest_remove(struct worker_pool *pool, const struct load_job *job)
{
    for (unsigned i = 0; i < pool->started; i++)
        for (unsigned k = 0; k < pool->workers[i].batch.count; k++)
            if (pool->workers[i].rest[k] == job) {
                pool->workers[i].rest[k] = NULL;
                return true;
            }
    return false;
}

static void finish(struct worker_pool *pool, struct load_job *job)
{
    list_append(&pool->finished, job);
    uv_async_send(&pool->wake); /* under the lock: destroy closes it only after the join */
}

void worker_pool_cancel(struct worker_pool *pool, struct load_job *job)
{
    pthread_mutex_lock(&pool->lock);
    for (unsigned i = 0; i < pool->started; i++)
        if (pool->workers[i].job == job) {
            job->cancelled = true;
            worker_interrupt(&pool->workers[i]);
        }
    if (list_remove(&pool->waiting[job->priority], job) || rest_remove(pool, job)) {
        job->rc = EC_AGAIN;
        finish(pool, job);
    }
    pthread_mutex_unlock(&pool->lock);
}

void worker_pool_raise(struct worker_pool *pool, struct load_job *job, unsigned priority)
{
    assert(priority <= LOAD_PRIORITY_MAX);
    pthread_mutex_lock(&pool->lock);
    if (priority > job->priority &&
        (list_remove(&pool->waiting[job->priority], job) || rest_remove(pool, job))) {
        job->priority = priority;
        list_append(&pool->waiting[priority], job);
        pthread_cond_signal(&pool->work);
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
    *stats =
        (struct worker_pool_stats) { .workers = pool->started, .running = pool->finished.count };
    for (unsigned i = 0; i < pool->started; i++) {
        stats->running += pool->workers[i].busy;
        for (unsigned k = 0; k < pool->workers[i].batch.count; k++)
            stats->waiting += pool->workers[i].rest[k] != NULL;
    }
    for (unsigned i = 0; i <= LOAD_PRIORITY_MAX; i++)
        stats->waiting += pool->waiting[i].count;
    pthread_mutex_unlock(&pool->lock);
}

static int workers_start(struct worker_pool *pool, struct ec_error *why)
{
    for (unsigned i = 0; i < pool->desc.threads; i++) {
        struct worker *worker = &pool->workers[i];
        int rc;

        worker->pool = pool;
        worker->batch = (struct load_batch) {
            .entries = worker->entries, .turn = on_turn, .end = on_end, .context = worker
        };
        worker->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (worker->cancel_fd < 0)
            return ec_fail(why, EC_ERR_SYSTEM, "eventfd: %s", strerror(errno));
        rc = ec_thread_start(&worker->thread, "ec-worker", work, worker, why);
        if (rc < 0) {
            close(worker->cancel_fd);
            return rc;
        }
        pthread_mutex_lock(&pool->lock); /* those that run already look at each other's batches */
        pool->started = i + 1;
        pthread_mutex_unlock(&pool->lock);
    }
    return EC_OK;
}

/* The first of the highest priority. NULL: none waits. */
static struct job_list *first_waiting(struct worker_pool *pool)
{
    for (unsigned i = LOAD_PRIORITY_MAX + 1; i-- > 0;)
        if (pool->waiting[i].first != NULL)
            return &pool->waiting[i];
    return NULL;
}

/* The last of another thread's batch, which it would come to last. NULL: there is none. */
static struct load_job *take_from_others(struct worker_pool *pool)
{
    for (unsigned i = 0; i < pool->started; i++) {
        struct worker *other = &pool->workers[i];

        for (unsigned k = other->batch.count; k-- > 0;) {
            struct load_job *job = other->rest[k];

            other->rest[k] = NULL;
            if (job != NULL)
                return job;
        }
    }
    return NULL;
}

static bool may_share(const struct load_job *first, const struct load_job *job)
{
    return !first->alone && !job->alone && job->company == first->company &&
           load_limits_same(&job->limits, &first->limits);
}

/* Fill the worker's batch. false: there is nothing to do. */
static bool batch_take(struct worker *worker)
{
    struct worker_pool *pool = worker->pool;
    struct job_list *list = first_waiting(pool);
    struct load_batch *batch = &worker->batch;
    struct load_job *job = list != NULL ? list_take(list) : take_from_others(pool);
    unsigned most = 1;

    if (job == NULL)
        return false;
    if (list != NULL && job->limits.guarded &&
        decode_server_guard(pool->server) == SANDBOX_ONE_RANGE)
        most += list->count / (2 * pool->desc.threads);
    batch->limits = job->limits;
    batch->count = 0;
    while (job != NULL) {
        load_job_entry(job, &worker->entries[batch->count]);
        worker->rest[batch->count++] = job;
        job = NULL;
        if (batch->count < most && batch->count < DECODE_ENTRIES_MAX && list->first != NULL &&
            may_share(worker->rest[0], list->first))
            job = list_take(list);
    }
    if (batch->count > 1)
        pthread_cond_signal(&pool->work); /* who finds nothing else takes of it */
    return true;
}

/* What had no turn, or had it in vain, waits again before all others. */
static void batch_give_back(struct worker *worker)
{
    struct worker_pool *pool = worker->pool;
    struct load_job *job = worker->job;

    for (unsigned i = worker->batch.count; i-- > 0;)
        if (worker->rest[i] != NULL)
            list_prepend(&pool->waiting[worker->rest[i]->priority], worker->rest[i]);
    worker->batch.count = 0;
    worker->job = NULL;
    if (job != NULL && job->cancelled) {
        job->rc = EC_AGAIN;
        finish(pool, job);
    } else if (job != NULL) {
        list_prepend(&pool->waiting[job->priority], job);
    }
}

static struct load_job *on_turn(void *context, unsigned *index)
{
    struct worker *worker = context;
    struct worker_pool *pool = worker->pool;
    struct load_job *job = NULL;
    const struct job_list *better;
    eventfd_t cancelled;

    pthread_mutex_lock(&pool->lock);
    while (*index < worker->batch.count && (job = worker->rest[*index]) == NULL)
        ++*index;
    better = first_waiting(pool);
    if (pool->stopping ||
        (job != NULL && better != NULL && better->first->priority > job->priority))
        job = NULL;
    if (job != NULL) {
        worker->rest[*index] = NULL;
        worker->job = job;
        (void)eventfd_read(worker->cancel_fd, &cancelled); /* mostly there is nothing */
    }
    pthread_mutex_unlock(&pool->lock);
    return job;
}

static void on_end(void *context, struct load_job *job)
{
    struct worker *worker = context;
    struct worker_pool *pool = worker->pool;

    pthread_mutex_lock(&pool->lock);
    if (worker->job == job) /* else the next one has its turn already */
        worker->job = NULL;
    if (!pool->stopping)
        finish(pool, job);
    pthread_mutex_unlock(&pool->lock);
}

/* Each of the batch gets a process of its own when it is taken again. */
static void batch_split(struct worker *worker)
{
    pthread_mutex_lock(&worker->pool->lock);
    worker->job->alone = true;
    for (unsigned i = 0; i < worker->batch.count; i++)
        if (worker->rest[i] != NULL)
            worker->rest[i]->alone = true;
    pthread_mutex_unlock(&worker->pool->lock);
}

static void run(struct worker *worker, struct decode_server *server)
{
    struct worker_pool *pool = worker->pool;
    const struct load_place place = { .heap = pool->desc.heap,
                                      .server = server,
                                      .cancel_fd = worker->cancel_fd };

    switch (load_batch_run(&worker->batch, &place)) {
    case LOAD_OVER:
        break;
    case LOAD_ALONE:
        batch_split(worker);
        break;
    case LOAD_NO_SERVER: /* with another one all of it waits again */
        if (!restart(pool, server)) {
            worker->job->rc =
                ec_fail(&worker->job->why, EC_ERR_SYSTEM, "the decoding processes have ended");
            on_end(worker, worker->job);
        }
        break;
    }
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
    if (pool->stopping)
        rc = EC_AGAIN;
    pthread_mutex_unlock(&pool->lock);
    if (rc == EC_OK && is_current) {
        log_warning("resources", "the decoding process has ended and is started again");
        rc = decode_server_again(pool->desc.nursery, lost, RESTART_S, &server, &why);
    }
    if (rc < 0) {
        log_error("resources", "the decoding process cannot be started again: %s", why.text);
    } else if (rc == EC_OK && is_current) {
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

        while (!pool->stopping && !batch_take(worker))
            pthread_cond_wait(&pool->work, &pool->lock);
        if (pool->stopping)
            break;
        worker->busy = true;
        server = decode_server_acquire(pool->server);
        pthread_mutex_unlock(&pool->lock);
        run(worker, server);
        decode_server_release(server);
        pthread_mutex_lock(&pool->lock);
        worker->busy = false;
        if (pool->stopping)
            break;
        batch_give_back(worker);
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
