/* bench/system_calls.h - count system calls and wake-ups.
 *
 * Thread: the one that calls. Both work without privileges. */
#ifndef EC_BENCH_SYSTEM_CALLS_H
#define EC_BENCH_SYSTEM_CALLS_H

/* Run work in a thread of its own and count the system calls that it tries: a filter refuses each
 * with ENOSYS, so work must do without. Returns the count, or -1 with errno. */
long count_system_calls(void (*work)(void *context), void *context);

/* How often threads of this process gave up their processor so far; each wakes again. */
long count_wakes(void);

#endif
