/* members.h - the attached clients as the breaker sees them.
 *
 * A member has a slot of the board, by which it is asked for things, the control groups that it lives
 * in, and what it says of itself: what it is worth, and whether it may be asked at all.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_BREAKER_MEMBERS_H
#define ENGINE_CORED_BREAKER_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "breaker/sharing.h"
#include "breaker/sources.h"
#include "segment/breaker_board.h"
#include "segment/telemetry.h"

struct client;

#define MEMBERS_MAX EC_BREAKER_SLOTS
#define PRIORITY_DEFAULT 50

/* What a client says of itself. */
struct member_traits {
    uint32_t priority; /* 0..SHARING_PRIORITY_MAX; high: worth more */
    bool busy;         /* somebody plays there */
    bool required;     /* never asked to leave */
    bool can_save;     /* it can save its progress before it leaves */
    bool saving;       /* it saves now: asked for nothing meanwhile */
};

struct member {
    struct client *client; /* NULL: a free place; its index is the slot */
    struct member_traits traits;
    struct source_chain chain;
    int64_t chain_read_ns;
    int statm_fd; /* of its process; -1: cannot be read */

    uint32_t level; /* its own, of its chain and its budgets */
    enum ec_breaker_cause cause;
    uint64_t history; /* the transition that brought its own level */
    struct ec_knobs_seen knobs;
    uint32_t budget_level;
    int64_t budget_ns; /* when it was last that high */
    uint64_t budget_history;

    struct ec_breaker_order_seen order; /* what stands in its slot */
    bool is_changed;                    /* order is to be written */
    bool is_untold;                     /* written; its client is to be told */

    uint64_t asked_sequence; /* the order that waits for an answer; 0: none */
    int64_t asked_ns;
    uint64_t asked_history; /* the transition that it belongs to */
    uint64_t memory_bytes;  /* what its tags held when it was asked */
    bool late;              /* it let the last deadline pass */

    bool answered; /* since the breaker last rose */
    uint32_t acked_level;
    int64_t ack_latency_ns;
    uint64_t freed_bytes;  /* said, in the last answer */
    uint64_t shrunk_bytes; /* seen: by how much its tags had shrunk then */
    uint64_t late_count;

    int64_t exit_ns;         /* when it was asked to leave; 0: it was not */
    uint32_t exit_source;    /* for whom */
    uint64_t resident_bytes; /* what it held then */
    bool terminated;         /* SIGTERM was sent */
    uint64_t seen_ack;       /* sequence of the last acknowledgement that was looked at */
};

/* What it could give back: its own words, or else all that its tags hold. */
uint64_t member_evictable(const struct member *member);

/* How far over its budget the worst tag is: LEVEL_WARNING above it, LEVEL_EVICTION above so many
 * thousandths of it; 0: budgets do not count. */
uint32_t member_budget_level(const struct member *member, uint32_t eviction_permille);

/* Memory of its process: resident, and the anonymous part of that. 0: it cannot be read. */
void member_memory(const struct member *member, uint64_t *resident_bytes, uint64_t *private_bytes);

bool member_is_in(const struct member *member, uint32_t source);

#endif
