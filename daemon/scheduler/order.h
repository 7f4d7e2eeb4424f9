/* order.h - what the main loop orders of the scheduler's thread, and what the thread answers.
 *
 * An order is checked before as far as the main loop can: names are resolved, fractions are in their
 * limits. Each is answered by exactly one report, after its effect.
 *
 * Thread: plain data; who holds it. */
#ifndef ENGINE_CORED_SCHEDULER_ORDER_H
#define ENGINE_CORED_SCHEDULER_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/client_segment.h"
#include "proto/clock_page.h"

enum order_kind {
    ORDER_PAUSE,
    ORDER_RESUME,
    ORDER_SCALE,
    ORDER_CHECKPOINT,
    ORDER_ROLLBACK, /* to a checkpoint, or to a game time */
    ORDER_CREATE,
    ORDER_RATE,
    ORDER_ADVANCE,
    ORDER_JOIN,
    ORDER_LEAVE,
};

struct checkpoint; /* turn.h */

/* What to do with steps that come late. Nothing is left out up to burst of them. */
enum late_policy { LATE_SKIP, LATE_BURST, LATE_SLOW };

/* A member of a clock's group. */
struct order_member {
    const struct ec_step_member *record; /* in its segment, mapped for this member alone */
    uint32_t client_id;
    bool required;
    bool fast; /* as fast as possible, if all required ones say so */
    int64_t budget_ns;
    int64_t phase_ns;
    uint64_t start_at; /* no member before this step; 0: from the next one on */
};

struct order_clock {
    char name[EC_STEP_NAME_BYTES];
    uint32_t source;
    enum late_policy late;
    uint32_t burst;
    bool halvable;   /* at breaker level 3 */
    int64_t spin_ns; /* before a step is due */
};

struct order {
    enum order_kind kind;
    uint32_t token; /* comes back with the report */
    uint32_t clock; /* its index, or of a member the slot of the member */
    union {
        struct {
            uint64_t num, den; /* scale, or the period */
        } ratio;
        struct {
            uint64_t checkpoint; /* 0: to game_ns */
            int64_t game_ns;
        } back;
        struct {
            struct order_clock clock;
            uint64_t period_num, period_den;
        } create;
        struct {
            uint32_t slot;
            struct order_member member;
        } join;
        uint64_t steps;
        struct checkpoint
            *copy; /* of ORDER_CHECKPOINT: filled in before the report; NULL: not wanted */
    } u;
};

struct report {
    uint32_t token;
    enum order_kind kind;
    int rc;               /* EC_OK, EC_ERR_STATE, EC_ERR_NOT_FOUND, EC_ERR_LIMIT, EC_ERR_BUSY */
    int64_t effective_ns; /* real time of the effect; may lie ahead; EC_CLOCK_NEVER: time stands */
    int64_t low_ns, high_ns;           /* of EC_ERR_NOT_FOUND: game time can go back to these */
    uint64_t checkpoint;               /* its id */
    int64_t game_ns;                   /* of the checkpoint, or to which time went back */
    uint64_t step[EC_STEP_CLOCKS_MAX]; /* of the checkpoint, or to which the clocks went back */
    uint64_t steps;                    /* how many were made */
    uint32_t clock;                    /* the index of the one that was made */
};

#endif
