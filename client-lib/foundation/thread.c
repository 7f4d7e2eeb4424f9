/* Threads inherit the signal mask of their creator: it is blocked around the start, so that there is
 * no instant in which the new thread could take a signal. */
#include "foundation/thread.h"

#include <assert.h>
#include <signal.h>
#include <string.h>

#define THREAD_NAME_BYTES 16 /* the kernel's limit, with the NUL */

int ec_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *context,
                    struct ec_error *why)
{
    sigset_t all, before;
    int rc;

    assert(name[0] != '\0' && strlen(name) < THREAD_NAME_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(thread, NULL, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return ec_fail(why, EC_ERR_SYSTEM, "start thread %s: %s", name, strerror(rc));
    pthread_setname_np(*thread, name); /* for people only: a thread without a name works as well */
    return EC_OK;
}
