/* futex.c - the futex system call, in the forms that are used.
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

/* From Linux 5.16; older headers do not have them. */
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
struct waitv_word {
    uint64_t value;
    uint64_t address;
    uint32_t flags;
    uint32_t reserved;
};
#define WAITV_SIZE_32 2u

static struct timespec timespec_of(int64_t deadline_ns)
{
    struct timespec deadline = { 0 }; /* a time before the boot has passed as well */

    if (deadline_ns > 0) {
        deadline.tv_sec = deadline_ns / EC_NS_PER_S;
        deadline.tv_nsec = deadline_ns % EC_NS_PER_S;
    }
    return deadline;
}

int ec_futex_wait_for(const _Atomic uint32_t *word, uint32_t expected, uint32_t bits,
                      int64_t deadline_ns)
{
    struct timespec deadline = timespec_of(deadline_ns);
    struct timespec *limit = deadline_ns == EC_FUTEX_FOREVER ? NULL : &deadline;
    int saved_errno = errno;
    long rc = syscall(SYS_futex, word, FUTEX_WAIT_BITSET, expected, limit, NULL, bits);

    if (rc < 0 && errno == ETIMEDOUT) {
        errno = saved_errno;
        return EC_ERR_TIMEOUT;
    }
    assert(rc == 0 || errno == EAGAIN || errno == EINTR);
    errno = saved_errno;
    return EC_OK;
}

int ec_futex_wait(const _Atomic uint32_t *word, uint32_t expected, int64_t deadline_ns)
{
    return ec_futex_wait_for(word, expected, FUTEX_BITSET_MATCH_ANY, deadline_ns);
}

int ec_futex_wake_for(_Atomic uint32_t *word, uint32_t bits)
{
    long woken = syscall(SYS_futex, word, FUTEX_WAKE_BITSET, INT_MAX, NULL, NULL, bits);

    assert(woken >= 0);
    return (int)woken;
}

int ec_futex_wake_all(_Atomic uint32_t *word)
{
    return ec_futex_wake_for(word, FUTEX_BITSET_MATCH_ANY);
}

int ec_futex_wait_any(const struct ec_futex_word *words, unsigned count, int64_t deadline_ns)
{
    struct waitv_word waiters[EC_FUTEX_WORDS_MAX];
    struct timespec deadline = timespec_of(deadline_ns);
    int saved_errno = errno, rc = EC_OK;

    assert(count > 0 && count <= EC_FUTEX_WORDS_MAX);
    for (unsigned i = 0; i < count; i++)
        waiters[i] = (struct waitv_word) { .value = words[i].expected,
                                           .address = (uintptr_t)words[i].word,
                                           .flags = WAITV_SIZE_32 };
    if (syscall(SYS_futex_waitv, waiters, count, 0,
                deadline_ns == EC_FUTEX_FOREVER ? NULL : &deadline, CLOCK_MONOTONIC) < 0 &&
        errno != EAGAIN && errno != EINTR)
        rc = errno == ETIMEDOUT ? EC_ERR_TIMEOUT : EC_ERR_SYSTEM;
    errno = saved_errno;
    return rc;
}
