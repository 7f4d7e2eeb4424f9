/* futex.c - the futex system call, in the two forms that are used.
 *
 * FUTEX_WAIT_BITSET rather than FUTEX_WAIT, because only it takes an absolute time: a relative one
 * would be late by whatever happens between reading the clock and falling asleep. */
#include "foundation/futex.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "foundation/real_time.h"

int ec_futex_wait(const _Atomic uint32_t *word, uint32_t expected, int64_t deadline_ns)
{
    struct timespec deadline = { 0 }; /* a time before the boot has passed as well */
    struct timespec *limit = deadline_ns == EC_FUTEX_FOREVER ? NULL : &deadline;
    int saved_errno = errno;
    long rc;

    if (deadline_ns > 0) {
        deadline.tv_sec = deadline_ns / EC_NS_PER_S;
        deadline.tv_nsec = deadline_ns % EC_NS_PER_S;
    }
    rc = syscall(SYS_futex, word, FUTEX_WAIT_BITSET, expected, limit, NULL, FUTEX_BITSET_MATCH_ANY);
    if (rc < 0 && errno == ETIMEDOUT) {
        errno = saved_errno;
        return EC_ERR_TIMEOUT;
    }
    assert(rc == 0 || errno == EAGAIN || errno == EINTR);
    errno = saved_errno;
    return EC_OK;
}

int ec_futex_wake_all(_Atomic uint32_t *word)
{
    long woken = syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);

    assert(woken >= 0);
    return (int)woken;
}
