/* thread.c - see foundation/thread.h and <engine-core/thread.h>.
 *
 * Threads inherit the signal mask of their creator: it is blocked around the start, so that there is
 * no instant in which the new thread could take a signal. */
#include "foundation/thread.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "foundation/futex.h"
#include "foundation/real_time.h"

#define STACK_BYTES_MIN ((size_t)16 << 10)
#define STACK_BYTES_MAX ((size_t)1 << 30)
#define NICE_STEP 10

static int start(pthread_t *thread, const char *name, const pthread_attr_t *attributes,
                 void *(*run)(void *), void *context, struct ec_error *why)
{
    sigset_t all, before;
    int rc;

    assert(name[0] != '\0' && strlen(name) < EC_THREAD_NAME_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(thread, attributes, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return ec_fail(why, EC_ERR_SYSTEM, "start thread %s: %s", name, strerror(rc));
    pthread_setname_np(*thread, name); /* for people only: a thread without a name works as well */
    return EC_OK;
}

int ec_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *context,
                    struct ec_error *why)
{
    return start(thread, name, NULL, run, context, why);
}

int ec_thread_start_with_stack(pthread_t *thread, const char *name, size_t stack_bytes,
                               void *(*run)(void *), void *context, struct ec_error *why)
{
    pthread_attr_t attributes;
    int rc = pthread_attr_init(&attributes);

    if (rc == 0 && stack_bytes > 0) {
        rc = pthread_attr_setstacksize(&attributes, stack_bytes);
        if (rc != 0)
            pthread_attr_destroy(&attributes);
    }
    if (rc != 0)
        return ec_fail(why, EC_ERR_SYSTEM, "thread %s: a stack of %zu bytes: %s", name, stack_bytes,
                       strerror(rc));
    rc = start(thread, name, &attributes, run, context, why);
    pthread_attr_destroy(&attributes);
    return rc;
}

/* ---- threads with a state -------------------------------------------------------------------- */

/* One more than the outside sees: asked to stop before it ever ran. */
#define STOP_ASKED_SUSPENDED ((uint32_t)EC_THREAD_STOPPED + 1)

struct ec_thread {
    /* Who changes it wakes all who sleep on it. Changes to the state are read-modify-writes with
     * release, reads acquire: what was done before a change is seen by who reacts to it. */
    _Atomic uint32_t state;
    _Atomic uint32_t begun;          /* the priority is settled */
    enum ec_thread_priority granted; /* valid once begun */
    ec_thread_fn *run;
    void *context;
    int result; /* valid once stopped */
    pthread_t pthread;
    char name[EC_THREAD_NAME_BYTES];
};

static uint32_t load(const struct ec_thread *thread)
{
    return atomic_load_explicit(&thread->state, memory_order_acquire);
}

static bool change(struct ec_thread *thread, uint32_t from, uint32_t to)
{
    if (!atomic_compare_exchange_strong_explicit(&thread->state, &from, to, memory_order_acq_rel,
                                                 memory_order_acquire))
        return false;
    ec_futex_wake_all(&thread->state);
    return true;
}

/* For the calling thread alone: Linux keeps the nice value for each thread. */
static enum ec_thread_priority take_priority(enum ec_thread_priority wanted)
{
    const struct sched_param none = { 0 };
    const id_t self = (id_t)syscall(SYS_gettid);
    const int now = getpriority(PRIO_PROCESS, self);
    const int step = wanted == EC_THREAD_LOW ? NICE_STEP : -NICE_STEP;

    if (wanted == EC_THREAD_NORMAL || setpriority(PRIO_PROCESS, self, now + step) != 0)
        return EC_THREAD_NORMAL;
    if (wanted == EC_THREAD_LOW)
        sched_setscheduler((pid_t)self, SCHED_BATCH, &none); /* the nice value holds without it */
    return wanted;
}

static void *live(void *context)
{
    struct ec_thread *self = context;
    uint32_t state;

    self->granted = take_priority(self->granted);
    /* release: partner is the acquire load in wait_for_begin. */
    atomic_store_explicit(&self->begun, 1, memory_order_release);
    ec_futex_wake_all(&self->begun);
    while ((state = load(self)) == EC_THREAD_SUSPENDED)
        ec_futex_wait(&self->state, state, EC_FUTEX_FOREVER);
    if (state != STOP_ASKED_SUSPENDED)
        self->result = self->run(self, self->context);
    /* release: the result is there for who sees the state. */
    atomic_store_explicit(&self->state, EC_THREAD_STOPPED, memory_order_release);
    ec_futex_wake_all(&self->state);
    return NULL;
}

static int check(const struct ec_thread_desc *desc, struct ec_error *why)
{
    const size_t length = desc->name == NULL ? 0 : strnlen(desc->name, EC_THREAD_NAME_BYTES);

    if (length == 0 || length == EC_THREAD_NAME_BYTES)
        return ec_fail(why, EC_ERR_PARAM, "thread name has %s bytes, expected 1 to %d",
                       length == 0 ? "0" : "more than 15", EC_THREAD_NAME_BYTES - 1);
    if (desc->run == NULL)
        return ec_fail(why, EC_ERR_PARAM, "thread %s: run is NULL", desc->name);
    if ((unsigned)desc->priority > EC_THREAD_HIGH)
        return ec_fail(why, EC_ERR_PARAM, "thread %s: no priority %u", desc->name,
                       (unsigned)desc->priority);
    if (desc->stack_bytes != 0 &&
        (desc->stack_bytes < STACK_BYTES_MIN || desc->stack_bytes > STACK_BYTES_MAX))
        return ec_fail(why, EC_ERR_PARAM, "thread %s: stack of %zu bytes, expected %zu to %zu",
                       desc->name, desc->stack_bytes, STACK_BYTES_MIN, STACK_BYTES_MAX);
    return EC_OK;
}

int ec_thread_create(const struct ec_thread_desc *desc, struct ec_thread **thread,
                     struct ec_error *why)
{
    struct ec_thread *made;
    int rc = check(desc, why);

    if (rc < 0)
        return rc;
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "thread %s: no memory", desc->name);
    atomic_init(&made->state, desc->suspended ? EC_THREAD_SUSPENDED : EC_THREAD_RUNNING);
    made->granted = desc->priority;
    made->run = desc->run;
    made->context = desc->context;
    memcpy(made->name, desc->name, strlen(desc->name));
    rc = ec_thread_start_with_stack(&made->pthread, made->name, desc->stack_bytes, live, made, why);
    if (rc < 0) {
        free(made);
        return rc;
    }
    /* acquire: partner is the release store in live. */
    while (atomic_load_explicit(&made->begun, memory_order_acquire) == 0)
        ec_futex_wait(&made->begun, 0, EC_FUTEX_FOREVER);
    *thread = made;
    return EC_OK;
}

int ec_thread_resume(struct ec_thread *thread)
{
    return change(thread, EC_THREAD_SUSPENDED, EC_THREAD_RUNNING) ? EC_OK : EC_ERR_STATE;
}

void ec_thread_ask_stop(struct ec_thread *thread)
{
    /* In this order: a thread that is resumed in between is running then. */
    if (!change(thread, EC_THREAD_SUSPENDED, STOP_ASKED_SUSPENDED))
        change(thread, EC_THREAD_RUNNING, EC_THREAD_STOP_ASKED);
}

bool ec_thread_stop_asked(const struct ec_thread *thread)
{
    const uint32_t state = load(thread);

    return state == EC_THREAD_STOP_ASKED || state == STOP_ASKED_SUSPENDED;
}

int ec_thread_rest(struct ec_thread *self, int64_t timeout_ns)
{
    const int64_t deadline_ns = ec_deadline_ns(ec_real_ns(), timeout_ns);
    int rc = EC_OK;

    while (rc == EC_OK && !ec_thread_stop_asked(self))
        rc = ec_futex_wait(&self->state, EC_THREAD_RUNNING, deadline_ns);
    return ec_thread_stop_asked(self) ? EC_OK : EC_ERR_TIMEOUT;
}

int ec_thread_join(struct ec_thread *thread, int64_t timeout_ns, int *result)
{
    const int64_t deadline_ns = ec_deadline_ns(ec_real_ns(), timeout_ns);
    uint32_t state;

    if (pthread_equal(thread->pthread, pthread_self()))
        return EC_ERR_STATE;
    while ((state = load(thread)) != EC_THREAD_STOPPED)
        if (ec_futex_wait(&thread->state, state, deadline_ns) == EC_ERR_TIMEOUT &&
            load(thread) != EC_THREAD_STOPPED)
            return EC_ERR_TIMEOUT;
    pthread_join(thread->pthread, NULL); /* it has a few instructions left */
    if (result != NULL)
        *result = thread->result;
    free(thread);
    return EC_OK;
}

enum ec_thread_state ec_thread_state(const struct ec_thread *thread)
{
    const uint32_t state = load(thread);

    return state == STOP_ASKED_SUSPENDED ? EC_THREAD_STOP_ASKED : (enum ec_thread_state)state;
}

const char *ec_thread_name(const struct ec_thread *thread)
{
    return thread->name;
}

enum ec_thread_priority ec_thread_priority(const struct ec_thread *thread)
{
    return thread->granted;
}
