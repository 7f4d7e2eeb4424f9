/* sleeper.h - how the scheduler's thread waits: for the time, the main loop, and members of groups.
 *
 * One system call waits for all of it: FUTEX_WAITV on the command word and on the words of members,
 * or, when there are none, FUTEX_WAIT_BITSET on the command word. Where the kernel has no FUTEX_WAITV
 * (before 5.16) members and the main loop ring an eventfd instead, and the thread waits by ppoll.
 *
 * With a simulated time source nothing is waited for but that time.
 *
 * Thread: sleeper_wait step; sleeper_kick any. */
#ifndef ENGINE_CORED_SCHEDULER_SLEEPER_H
#define ENGINE_CORED_SCHEDULER_SLEEPER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <engine-core/time_source.h>

#include "foundation/error.h"
#include "scheduler/turn.h"

struct sleeper {
    const struct ec_time_source *time; /* NULL: real time */
    int bell_fd;                       /* eventfd; -1: FUTEX_WAITV works */
    bool may_spin;
    _Atomic uint32_t command; /* futex: raised by who wants a turn now */
};

/* waitv false: do as if the kernel had no FUTEX_WAITV. EC_OK or EC_ERR_SYSTEM. */
int sleeper_init(struct sleeper *sleeper, const struct ec_time_source *time, bool waitv,
                 struct ec_error *why);
void sleeper_finish(struct sleeper *sleeper);

int64_t sleeper_now_ns(const struct sleeper *sleeper);

/* Before a turn: who kicks after this makes the wait that follows it end at once. */
uint32_t sleeper_command(const struct sleeper *sleeper);
void sleeper_wait(struct sleeper *sleeper, uint32_t command,
                  const struct scheduler_outcome *outcome, int64_t deadline_ns);
void sleeper_kick(struct sleeper *sleeper);

#endif
