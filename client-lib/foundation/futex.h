/* foundation/futex.h - sleep on a word that another thread or process changes.
 *
 *     seen = atomic_load_explicit(&word, memory_order_acquire);
 *     while (!condition())
 *         if (ec_futex_wait(&word, seen, deadline_ns) == EC_ERR_TIMEOUT)
 *             break;
 *
 * The word may lie in a page that is mapped read-only. Nothing here is FUTEX_PRIVATE: the kernel
 * finds the word by its page, whichever process maps it where.
 *
 * Thread: any. Cost: one system call each. */
#ifndef EC_FOUNDATION_FUTEX_H
#define EC_FOUNDATION_FUTEX_H

#include <stdatomic.h>
#include <stdint.h>

#include <engine-core/error.h>

#define EC_FUTEX_FOREVER INT64_MAX

/* Sleep until woken, if *word is still expected, at most to deadline_ns of CLOCK_MONOTONIC.
 *
 * Returns EC_OK (woken, or the word differs, or a signal came: look again) or EC_ERR_TIMEOUT. */
int ec_futex_wait(const _Atomic uint32_t *word, uint32_t expected, int64_t deadline_ns);

/* Wake all who sleep on the word; change it before. Returns how many. */
int ec_futex_wake_all(_Atomic uint32_t *word);

/* The same for those only who sleep for one of the bits; ec_futex_wait sleeps for all of them. */
int ec_futex_wait_for(const _Atomic uint32_t *word, uint32_t expected, uint32_t bits,
                      int64_t deadline_ns);
int ec_futex_wake_for(_Atomic uint32_t *word, uint32_t bits);

/* Sleep on several words, 1 to EC_FUTEX_WORDS_MAX, until one is woken or differs. Returns as
 * ec_futex_wait, or EC_ERR_SYSTEM: the kernel cannot (it is older than 5.16, or a filter forbids it). */
#define EC_FUTEX_WORDS_MAX 128
struct ec_futex_word {
    const _Atomic uint32_t *word;
    uint32_t expected;
};
int ec_futex_wait_any(const struct ec_futex_word *words, unsigned count, int64_t deadline_ns);

#endif
