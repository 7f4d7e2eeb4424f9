/* engine-core/breaker.h - the memory circuit breaker, as a game sees it.
 *
 * The daemon publishes a level. A game looks once per frame, gives back what it is asked for, and says
 * so:
 *
 *     if (ec_breaker_level(client) >= EC_BREAKER_WARNING) {
 *         struct ec_breaker_policy policy;
 *
 *         ec_breaker_policy(client, &policy);
 *         particles.rate = policy.particle_rate;
 *         if (policy.give_bytes > 0)
 *             ec_breaker_answer(client, &policy, drop_caches(policy.give_bytes), 0);
 *         if (policy.must_leave)
 *             save_and_leave();
 *     }
 *
 * or it registers a call-back, which runs at the next frame mark, or at once on the service thread of
 * the library.
 *
 * What is guaranteed: a level that was crossed is published with the daemon's next look, which comes
 * after at most 10 ms below 30 % of free memory and sooner while memory shrinks fast. Nobody is killed
 * by the breaker. When the daemon is gone the last level stays.
 *
 * Thread: any, unless a function says otherwise.
 * Cost: a level is two loads of shared memory, a policy some more, an answer a few stores and one
 * reading of the clock; none of them makes a system call or takes a lock. */
#ifndef ENGINE_CORE_BREAKER_H
#define ENGINE_CORE_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#include <engine-core/error.h>
#include <engine-core/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ec_client;

enum ec_breaker_level {
    EC_BREAKER_NORMAL = 0,
    EC_BREAKER_WARNING = 1,   /* memory runs short: stop growing */
    EC_BREAKER_EVICTION = 2,  /* assets that nobody holds were evicted: give back caches */
    EC_BREAKER_EMERGENCY = 3, /* give back all that can be done without */
};

/* The level in force for this program, 0..3: the worse of that of all and of its own, which comes from
 * the control groups that it lives in and from the budgets of its tags. */
EC_API uint32_t ec_breaker_level(const struct ec_client *client);

/* What to do at this level. */
struct ec_breaker_policy {
    uint32_t level;
    uint64_t order;      /* names what is asked for; changes with each new order */
    uint64_t give_bytes; /* give back about so much; 0: nothing, or it was answered */
    int64_t deadline_ns; /* real time until which to answer; later others are asked for more */
    bool trim;           /* let allocators give back what they keep: ec_pool_trim */
    bool must_leave;     /* save and leave ... */
    int64_t leave_ns;    /* ... until then; it may be withdrawn */
    const char *cause;   /* "none", "memory", "pressure", "budget", "manual" or "reserve" */

    float particle_rate;    /* 1: all, 0.5: half */
    bool audio_noncritical; /* false: pause what nobody misses */
    float quality;          /* 1: as chosen, 0: the lowest preset */
    bool shadows;
    float lod_bias; /* add it to the level of detail: 1 is one level coarser */
    bool post_effects;

    uint64_t total_bytes, available_bytes; /* where the host runs short first */
    int64_t next_level_ns;                 /* time to the next level at this rate; -1: none comes */
};

EC_API void ec_breaker_policy(struct ec_client *client, struct ec_breaker_policy *policy);

/* Say that an order was carried out, and how many bytes went back to the system for it; trimmed_bytes
 * is the part of them that allocators gave back by trimming. 0 is an answer, too: there was nothing. */
EC_API void ec_breaker_answer(struct ec_client *client, const struct ec_breaker_policy *policy,
                              uint64_t freed_bytes, uint64_t trimmed_bytes);

/* The same without a policy: something was done for a level, and for the order that is newest now. */
EC_API void ec_breaker_ack(struct ec_client *client, uint32_t level, uint64_t freed_bytes);

/* Say what turning a knob gave back, such as particles that were freed because of particle_rate. Only
 * the program can tell one knob from another; breaker.history shows it with the transition. That the
 * knobs of a level were read is noted by itself. */
enum ec_breaker_knob {
    EC_BREAKER_KNOB_PARTICLES,
    EC_BREAKER_KNOB_AUDIO,
    EC_BREAKER_KNOB_QUALITY,
    EC_BREAKER_KNOB_SHADOWS,
    EC_BREAKER_KNOB_LOD,
    EC_BREAKER_KNOB_POST_EFFECTS,
};
EC_API void ec_breaker_knob_turned(struct ec_client *client, enum ec_breaker_knob knob,
                                   uint64_t freed_bytes);

/* Say from time to time, such as once per frame, how much could be given back if it were asked for: by
 * this the daemon shares out what it needs. Until the first call all that the tags hold counts. */
EC_API void ec_breaker_offer(struct ec_client *client, uint64_t evictable_bytes);

/* Be called when the level or what is asked for changes. There may be one of each kind: at frame marks
 * (inside ec_frame_begin), and immediate (on the service thread, or in ec_client_dispatch with
 * no_thread), also while the game sleeps or hangs in a long frame. An immediate one must be quick, must
 * not call the daemon, and shares its data with the game's threads.
 *
 * watch NULL ends both. When this returns the earlier call-back of that kind does not run any more.
 *
 * Thread: any, but not from a call-back. */
struct ec_breaker_watch {
    void (*fn)(void *context, const struct ec_breaker_policy *policy);
    void *context;
    bool immediate;
};
EC_API void ec_breaker_on_change(struct ec_client *client, const struct ec_breaker_watch *watch);

/* What this program is worth, and what may be asked of it. Everything is declared anew. */
struct ec_breaker_traits {
    uint32_t priority; /* 0..100; high: worth more, asked for less, asked to leave last */
    bool idle;         /* nobody plays here now */
    bool required;     /* never ask it to leave */
    bool can_save;     /* it can save its progress before it leaves */
    bool saving;       /* it saves now: ask it for nothing meanwhile */
};

/* Returns EC_OK, EC_ERR_PARAM (priority), or as ec_client_call. Cost: a round trip. */
EC_API int ec_breaker_declare(struct ec_client *client, const struct ec_breaker_traits *traits,
                              struct ec_error *why);

/* Ask for room before it is needed, as before a save. Assets that nobody holds are evicted for it; with
 * timeout_ms other clients are asked, too. What is granted is deducted from what is available for
 * others until it is released, hold_s seconds are over, or this client goes.
 *
 * Returns EC_OK with an id, EC_AGAIN (refused: there is no room), or as ec_client_call. */
struct ec_breaker_wish {
    uint64_t bytes;
    uint32_t timeout_ms; /* 0: decide at once */
    uint32_t hold_s;     /* 0: 60 */
};
EC_API int ec_breaker_reserve(struct ec_client *client, const struct ec_breaker_wish *wish,
                              uint32_t *reservation_id, struct ec_error *why);
/* Returns EC_OK, EC_ERR_NOT_FOUND (it was over already), or as ec_client_call. */
EC_API int ec_breaker_release(struct ec_client *client, uint32_t reservation_id,
                              struct ec_error *why);

#ifdef __cplusplus
}
#endif
#endif
