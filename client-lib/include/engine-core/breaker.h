/* engine-core/breaker.h - the memory circuit breaker, as a game sees it.
 *
 * The daemon publishes one level for all. A game looks once per frame, gives back what the level asks
 * for, and says so:
 *
 *     if (ec_breaker_level(client) >= EC_BREAKER_EVICTION && !dropped) {
 *         uint64_t freed_bytes = drop_caches();
 *
 *         ec_breaker_ack(client, EC_BREAKER_EVICTION, freed_bytes);
 *         dropped = true;
 *     }
 *
 * Entering a level also raises the word that ec_step_wait sleeps on, and the event breaker.level is
 * published by the daemon. When the daemon is gone the last level stays.
 *
 * Thread: any. Cost: a level is one load of shared memory, an acknowledgement a few stores and one
 * reading of the clock; neither makes a system call or takes a lock. */
#ifndef ENGINE_CORE_BREAKER_H
#define ENGINE_CORE_BREAKER_H

#include <stdint.h>

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

/* The level in force, 0..3. */
EC_API uint32_t ec_breaker_level(const struct ec_client *client);

/* Say that this program has acted on a level and how many bytes it gave back for it. The daemon reports
 * it with the time that it took. A later call replaces an earlier one. */
EC_API void ec_breaker_ack(struct ec_client *client, uint32_t level, uint64_t freed_bytes);

#ifdef __cplusplus
}
#endif
#endif
