/* sleeper.c - see sleeper.h. */
#include "scheduler/sleeper.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "foundation/futex.h"
#include "foundation/real_time.h"

/* Ask the kernel by a wait that ends at once: the word differs from what is expected. */
static bool has_waitv(const struct sleeper *sleeper)
{
    const struct ec_futex_word word = { &sleeper->command, 1 };

    return ec_futex_wait_any(&word, 1, 0) != EC_ERR_SYSTEM;
}

int sleeper_init(struct sleeper *sleeper, const struct ec_time_source *time, bool waitv,
                 struct ec_error *why)
{
    *sleeper = (struct sleeper) { .time = time, .bell_fd = -1 };
    if (waitv && has_waitv(sleeper))
        return EC_OK;
    sleeper->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return sleeper->bell_fd >= 0
               ? EC_OK
               : ec_fail(why, EC_ERR_SYSTEM, "eventfd of the scheduler: %s", strerror(errno));
}

void sleeper_finish(struct sleeper *sleeper)
{
    if (sleeper->bell_fd >= 0)
        close(sleeper->bell_fd);
    sleeper->bell_fd = -1;
}

int64_t sleeper_now_ns(const struct sleeper *sleeper)
{
    return sleeper->time != NULL ? sleeper->time->now_ns(sleeper->time->context) : ec_real_ns();
}

uint32_t sleeper_command(const struct sleeper *sleeper)
{
    /* acquire: partner is the release in sleeper_kick. */
    return atomic_load_explicit(&sleeper->command, memory_order_acquire);
}

/* Whether any of the words differs from what was seen. */
static bool is_awaited(const struct sleeper *sleeper, uint32_t command,
                       const struct scheduler_outcome *outcome)
{
    for (unsigned i = 0; i < outcome->word_count; i++)
        if (atomic_load_explicit(outcome->words[i].word, memory_order_acquire) !=
            outcome->words[i].expected)
            return false;
    return sleeper_command(sleeper) == command;
}

/* The bell is emptied before the words are looked at: who changes one later rings again. */
static void wait_for_bell(struct sleeper *sleeper, uint32_t command,
                          const struct scheduler_outcome *outcome, int64_t deadline_ns)
{
    struct pollfd bell = { .fd = sleeper->bell_fd, .events = POLLIN };
    int64_t left_ns = deadline_ns - ec_real_ns();
    struct timespec left = { 0 };
    uint64_t rings;
    ssize_t bytes = read(sleeper->bell_fd, &rings, sizeof rings);

    (void)bytes; /* nothing to read: nobody has rung */
    if (left_ns <= 0 || !is_awaited(sleeper, command, outcome))
        return;
    left.tv_sec = left_ns / EC_NS_PER_S;
    left.tv_nsec = left_ns % EC_NS_PER_S;
    ppoll(&bell, 1, &left, NULL);
}

static void wait_for_words(struct sleeper *sleeper, uint32_t command,
                           const struct scheduler_outcome *outcome, int64_t deadline_ns)
{
    struct ec_futex_word words[EC_STEP_CLOCKS_MAX + 2] = { { &sleeper->command, command } };

    if (outcome->word_count == 0) {
        ec_futex_wait(&sleeper->command, command, deadline_ns);
        return;
    }
    memcpy(&words[1], outcome->words, outcome->word_count * sizeof words[0]);
    ec_futex_wait_any(words, outcome->word_count + 1, deadline_ns);
}

/* The last part of a wait, awake: no wake-up can be late then. */
static void spin(const struct sleeper *sleeper, uint32_t command,
                 const struct scheduler_outcome *outcome, int64_t deadline_ns)
{
    while (ec_real_ns() < deadline_ns && is_awaited(sleeper, command, outcome))
        ;
}

void sleeper_wait(struct sleeper *sleeper, uint32_t command,
                  const struct scheduler_outcome *outcome, int64_t deadline_ns)
{
    int64_t spin_ns = sleeper->may_spin ? outcome->spin_ns : 0;
    int64_t until_ns = deadline_ns - spin_ns;

    if (sleeper->time != NULL) {
        if (is_awaited(sleeper, command, outcome))
            sleeper->time->sleep_until(sleeper->time->context, deadline_ns);
        return;
    }
    if (sleeper->bell_fd >= 0)
        wait_for_bell(sleeper, command, outcome, until_ns);
    else
        wait_for_words(sleeper, command, outcome, until_ns);
    if (spin_ns > 0 && ec_real_ns() >= until_ns)
        spin(sleeper, command, outcome, deadline_ns);
}

void sleeper_kick(struct sleeper *sleeper)
{
    const uint64_t one = 1;

    /* release: what was stored before is seen by the turn that this causes. */
    atomic_fetch_add_explicit(&sleeper->command, 1, memory_order_release);
    if (sleeper->bell_fd >= 0) {
        ssize_t bytes = write(sleeper->bell_fd, &one, sizeof one);

        (void)bytes; /* full: it is ringing already */
    } else {
        ec_futex_wake_all(&sleeper->command);
    }
}
