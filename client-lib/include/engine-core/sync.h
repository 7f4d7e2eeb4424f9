/* engine-core/sync.h - what the threads of one process wait on: mutex, semaphore, event, once.
 *
 *     static struct ec_mutex lock = EC_MUTEX_INIT;
 *     static struct ec_once once = EC_ONCE_INIT;
 *
 *     ec_once(&once, build_tables, NULL);
 *     ec_mutex_lock(&lock);
 *     …
 *     ec_mutex_unlock(&lock);
 *
 * They are the pthread ones with one clock: time-outs are in ns of CLOCK_MONOTONIC, below 0 for ever,
 * so that setting the wall clock moves none. They are for one process; what processes share lies in
 * the segments.
 *
 * Thread:    any.
 * Ownership: the program puts them where it likes and finishes what it has initialised, when nobody
 *            uses it any more. A static initialiser needs no finish.
 * Cost:      without contention no system call. */
#ifndef ENGINE_CORE_SYNC_H
#define ENGINE_CORE_SYNC_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

#include <engine-core/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- mutex: one thread at a time ------------------------------------------------------------- */

struct ec_mutex {
    pthread_mutex_t inside;
};
#define EC_MUTEX_INIT                                                                              \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER                                                                  \
    }

EC_API void ec_mutex_init(struct ec_mutex *mutex);
EC_API void ec_mutex_finish(struct ec_mutex *mutex);

/* The holder must not lock it again: after ec_mutex_init that aborts, as does an unlock by a thread
 * that does not hold it; after EC_MUTEX_INIT it is not noticed. */
EC_API void ec_mutex_lock(struct ec_mutex *mutex);
EC_API void ec_mutex_unlock(struct ec_mutex *mutex);
/* Returns EC_OK or EC_AGAIN: another thread holds it. */
EC_API int ec_mutex_try_lock(struct ec_mutex *mutex);

/* ---- semaphore: so many at a time ------------------------------------------------------------ */

struct ec_semaphore {
    sem_t inside;
};

#define EC_SEMAPHORE_MAX 0x7fffffffu

/* Returns EC_OK or EC_ERR_PARAM: more than EC_SEMAPHORE_MAX. */
EC_API int ec_semaphore_init(struct ec_semaphore *semaphore, uint32_t count);
EC_API void ec_semaphore_finish(struct ec_semaphore *semaphore);

/* Returns EC_OK or EC_ERR_LIMIT: the count is EC_SEMAPHORE_MAX already. From signal handlers, too. */
EC_API int ec_semaphore_post(struct ec_semaphore *semaphore);
/* Returns EC_OK or EC_ERR_TIMEOUT; with a time-out of 0 it never sleeps. */
EC_API int ec_semaphore_wait(struct ec_semaphore *semaphore, int64_t timeout_ns);

/* ---- event: something has happened ----------------------------------------------------------- */

struct ec_signal {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_set;
    bool automatic;
};

/* automatic: one wait that succeeds takes the event back, so one set lets one thread go on; otherwise
 * it stays until ec_signal_reset and lets all go on. */
EC_API void ec_signal_init(struct ec_signal *event, bool automatic);
EC_API void ec_signal_finish(struct ec_signal *event);
EC_API void ec_signal_set(struct ec_signal *event);
EC_API void ec_signal_reset(struct ec_signal *event);
/* Returns EC_OK or EC_ERR_TIMEOUT; with a time-out of 0 it only looks. */
EC_API int ec_signal_wait(struct ec_signal *event, int64_t timeout_ns);

/* ---- once: whoever comes first does it, the others wait for that ------------------------------ */

struct ec_once {
    pthread_mutex_t mutex;
    uint32_t done; /* read without the mutex */
};
#define EC_ONCE_INIT                                                                               \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, 0                                                               \
    }

/* fn must not call ec_once for the same once. */
EC_API void ec_once(struct ec_once *once, void (*fn)(void *context), void *context);

#ifdef __cplusplus
}
#endif
#endif
