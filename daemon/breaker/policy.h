/* policy.h - what the breaker does at which mark: all numbers, from the configuration.
 *
 * The rows of policy.c name each value once: the configuration key breaker.NAME, the member NAME of
 * breaker.policy, and its limits, which are those of the configuration. A policy that does not fit
 * together is refused as a whole, with the key that does not fit.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_BREAKER_POLICY_H
#define ENGINE_CORED_BREAKER_POLICY_H

#include "breaker/levels.h"
#include "foundation/error.h"
#include "foundation/json/json_span.h"
#include "foundation/json/json_writer.h"

struct config;

#define POLICY_COMMAND_BYTES 1024

/* What can be done at a level. Each has its own effect in the history of transitions. */
enum breaker_action {
    ACTION_SAMPLING,     /* look at each client's memory ten times a second */
    ACTION_PREFETCH,     /* cancel what is loaded ahead, and begin no more */
    ACTION_SOFT,         /* let go what only soft references keep */
    ACTION_EVICT,        /* assets that are evictable and that nobody holds */
    ACTION_ORDERS,       /* ask clients for bytes */
    ACTION_TRIM,         /* and their allocators for what they keep */
    ACTION_PARTICLES,    /* knobs: those who read the policy turn them */
    ACTION_AUDIO,        /* pause what nobody misses */
    ACTION_QUALITY,      /* the lowest preset */
    ACTION_SHADOWS,      /* off */
    ACTION_LOD,          /* coarser */
    ACTION_POST_EFFECTS, /* off */
    ACTION_STEP_RATE,    /* half the rate of clocks that allow it */
    ACTION_EXIT,         /* ask clients to save and leave, one at a time */
    ACTION_COUNT
};

struct breaker_policy {
    int64_t warning_permille, eviction_permille, emergency_permille;
    int64_t warning_bytes, eviction_bytes, emergency_bytes;
    int64_t hysteresis_permille;
    int64_t hold_ms;
    int64_t psi_some_permille, psi_full_permille, psi_ceiling_permille;
    int64_t tick_ms, fast_tick_ms, fast_permille;
    int64_t order_extra_permille, order_growth_ms, order_deadline_ms;
    int64_t grace_ms, save_deadline_ms;
    int64_t sigterm; /* boolean */
    int64_t particle_rate_permille, lod_bias_permille;
    int64_t budget_eviction_permille;
    int64_t on_level_s;
    uint32_t actions[LEVELS];            /* bit i: enum breaker_action i, at this level alone */
    char on_level[POLICY_COMMAND_BYTES]; /* "": none */
};

/* Read the keys. Returns EC_OK or EC_ERR_POLICY with the key in the text; then policy is unchanged. */
int policy_load(const struct config *config, struct breaker_policy *policy, struct ec_error *why);

/* Lay the members of an object over a policy: all of them or none. Returns EC_OK or EC_ERR_POLICY. */
int policy_set(struct breaker_policy *policy, struct ec_json_span members, struct ec_error *why);

/* All values as members of an open object. */
void policy_write(const struct breaker_policy *policy, struct ec_json_writer *writer);

struct level_marks policy_marks(const struct breaker_policy *policy);
/* With less left than this each look has to be exact. */
uint32_t policy_near_permille(const struct breaker_policy *policy);
struct level_tick policy_tick(const struct breaker_policy *policy);

/* Is the action done at this level? What a level does, the higher ones do too. */
bool policy_does(const struct breaker_policy *policy, uint32_t level, enum breaker_action action);

/* What has to come back: up to a little over the warning mark, and what will grow meanwhile. */
uint64_t policy_wanted_bytes(const struct breaker_policy *policy,
                             const struct level_reading *reading, uint64_t growth_bytes_per_s);

const char *policy_action_name(enum breaker_action action); /* "post_effects" */

/* The knobs of a level, into the board. */
void policy_write_knobs(const struct breaker_policy *policy, uint32_t level,
                        struct ec_breaker_knobs *knobs);

#endif
