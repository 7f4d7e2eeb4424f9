/* sync.c - see <engine-core/sync.h>. */
#include <engine-core/sync.h>

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "foundation/real_time.h"

/* A fault of the program, such as an unlock by who does not hold it: going on would break its data. */
static void must(int error)
{
    if (error != 0)
        abort();
}

static struct timespec deadline_in(int64_t timeout_ns)
{
    const int64_t end_ns = ec_deadline_ns(ec_real_ns(), timeout_ns);

    return (struct timespec) { .tv_sec = end_ns / EC_NS_PER_S, .tv_nsec = end_ns % EC_NS_PER_S };
}

/* ---- mutex ---- */

void ec_mutex_init(struct ec_mutex *mutex)
{
    pthread_mutexattr_t checked;

    must(pthread_mutexattr_init(&checked));
    must(pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK));
    must(pthread_mutex_init(&mutex->inside, &checked));
    pthread_mutexattr_destroy(&checked);
}

void ec_mutex_finish(struct ec_mutex *mutex)
{
    must(pthread_mutex_destroy(&mutex->inside));
}

void ec_mutex_lock(struct ec_mutex *mutex)
{
    must(pthread_mutex_lock(&mutex->inside));
}

void ec_mutex_unlock(struct ec_mutex *mutex)
{
    must(pthread_mutex_unlock(&mutex->inside));
}

int ec_mutex_try_lock(struct ec_mutex *mutex)
{
    const int error = pthread_mutex_trylock(&mutex->inside);

    if (error == EBUSY)
        return EC_AGAIN;
    must(error);
    return EC_OK;
}

/* ---- semaphore ---- */

int ec_semaphore_init(struct ec_semaphore *semaphore, uint32_t count)
{
    return sem_init(&semaphore->inside, 0, count) == 0 ? EC_OK : EC_ERR_PARAM;
}

void ec_semaphore_finish(struct ec_semaphore *semaphore)
{
    must(sem_destroy(&semaphore->inside));
}

int ec_semaphore_post(struct ec_semaphore *semaphore)
{
    return sem_post(&semaphore->inside) == 0 ? EC_OK : EC_ERR_LIMIT;
}

int ec_semaphore_wait(struct ec_semaphore *semaphore, int64_t timeout_ns)
{
    const struct timespec deadline = deadline_in(timeout_ns);

    while (sem_clockwait(&semaphore->inside, CLOCK_MONOTONIC, &deadline) != 0) {
        if (errno == ETIMEDOUT)
            return EC_ERR_TIMEOUT;
        must(errno == EINTR ? 0 : errno);
    }
    return EC_OK;
}

/* ---- event ---- */

void ec_signal_init(struct ec_signal *event, bool automatic)
{
    pthread_condattr_t monotonic;

    must(pthread_condattr_init(&monotonic));
    must(pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC));
    must(pthread_mutex_init(&event->mutex, NULL));
    must(pthread_cond_init(&event->changed, &monotonic));
    pthread_condattr_destroy(&monotonic);
    event->is_set = false;
    event->automatic = automatic;
}

void ec_signal_finish(struct ec_signal *event)
{
    must(pthread_cond_destroy(&event->changed));
    must(pthread_mutex_destroy(&event->mutex));
}

void ec_signal_set(struct ec_signal *event)
{
    must(pthread_mutex_lock(&event->mutex));
    event->is_set = true;
    if (event->automatic)
        pthread_cond_signal(&event->changed);
    else
        pthread_cond_broadcast(&event->changed);
    must(pthread_mutex_unlock(&event->mutex));
}

void ec_signal_reset(struct ec_signal *event)
{
    must(pthread_mutex_lock(&event->mutex));
    event->is_set = false;
    must(pthread_mutex_unlock(&event->mutex));
}

int ec_signal_wait(struct ec_signal *event, int64_t timeout_ns)
{
    const struct timespec deadline = deadline_in(timeout_ns);
    bool was_set;
    int error = 0;

    must(pthread_mutex_lock(&event->mutex));
    while (!event->is_set && error == 0)
        error = pthread_cond_timedwait(&event->changed, &event->mutex, &deadline);
    was_set = event->is_set;
    if (was_set && event->automatic)
        event->is_set = false;
    must(pthread_mutex_unlock(&event->mutex));
    return was_set ? EC_OK : EC_ERR_TIMEOUT;
}

/* ---- once ---- */

void ec_once(struct ec_once *once, void (*fn)(void *context), void *context)
{
    /* acquire: partner is the release below; what fn has stored is seen. */
    if (__atomic_load_n(&once->done, __ATOMIC_ACQUIRE) != 0)
        return;
    must(pthread_mutex_lock(&once->mutex));
    if (__atomic_load_n(&once->done, __ATOMIC_RELAXED) == 0) {
        fn(context);
        __atomic_store_n(&once->done, 1, __ATOMIC_RELEASE);
    }
    must(pthread_mutex_unlock(&once->mutex));
}
