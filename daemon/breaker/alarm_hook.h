/* alarm_hook.h - run a command of the operator's when the level changes.
 *
 * The command goes to /bin/sh -c with the values in its environment: EC_BREAKER_LEVEL, EC_BREAKER_FROM,
 * EC_BREAKER_CAUSE, EC_BREAKER_REASON, EC_BREAKER_AVAILABLE_BYTES, EC_BREAKER_TOTAL_BYTES. One runs at a
 * time; a change that comes meanwhile is told when it has ended, the newest only. One that takes
 * longer than its time is killed, with all that it started.
 *
 * It starts when the loop comes round, never in the middle of a trip.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_BREAKER_ALARM_HOOK_H
#define ENGINE_CORED_BREAKER_ALARM_HOOK_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "breaker/policy.h"
#include "foundation/error.h"

struct alarm_values {
    char command[POLICY_COMMAND_BYTES];
    uint32_t from, to;
    const char *cause; /* a literal */
    char reason[128];
    uint64_t available_bytes, total_bytes;
    int64_t limit_s;
};

struct alarm_hook {
    uv_loop_t *loop;
    uv_process_t process;
    uv_timer_t timer; /* begins what waits, or ends what runs too long */
    bool is_running, is_waiting;
    struct alarm_values values; /* of what waits */
    uint64_t started, failed, killed;
    unsigned open_handles;
    void (*on_closed)(void *context);
    void *context;
};

int alarm_hook_init(struct alarm_hook *hook, uv_loop_t *loop, struct ec_error *why);
/* A running command is killed. on_closed is called when the loop has let go. */
void alarm_hook_close(struct alarm_hook *hook, void (*on_closed)(void *context), void *context);
void alarm_hook_tell(struct alarm_hook *hook, const struct alarm_values *values);

#endif
