/* breaker.h - the memory circuit breaker: levels 0..3 that games see in one load.
 *
 *   0 normal   1 warning   2 eviction   3 emergency
 *
 * The level of all is the worst of the sources that count for all (the host, the daemon's own control
 * groups) and of a level that an operator raised, which is a floor until its time is over or it is
 * reset. Each client has a level of its own besides, of the groups that it lives in and of the budgets
 * of its tags.
 *
 * What follows from a level is the policy's: assets are evicted, clients are asked for bytes, knobs are
 * turned, clients are asked to save and leave. Nobody is ever killed.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_BREAKER_H
#define ENGINE_CORED_BREAKER_H

#include <stdint.h>

#include "foundation/error.h"
#include "foundation/json/json_writer.h"

struct breaker;
struct config;
struct services;

#define BREAKER_LEVEL_MAX 3
#define BREAKER_REASON_BYTES 128

int breaker_init(struct services *services, struct ec_error *why);      /* module phase */
int breaker_post_init(struct services *services, struct ec_error *why); /* starts to look */
void breaker_shutdown(struct services *services);

uint32_t breaker_level(const struct breaker *breaker);

/* Look at memory, and do what follows from it. The loop does so by itself from post_init on, at
 * times that depend on what it finds; a test says what time it is. Returns in how many ns to look
 * again. */
int64_t breaker_look(struct breaker *breaker, int64_t now_ns);

/* Do the values of the configuration make a policy? EC_OK, or EC_ERR_PARAM naming the key. A
 * config_check_fn. */
int breaker_check_config(void *context, const struct config *fresh, struct ec_error *why);

struct breaker_trip {
    uint32_t level;  /* 0..3; 0 is the end of a manual level */
    uint32_t hold_s; /* 0: until reset */
    const char *reason;
};
/* Raise the floor, or lower an earlier one: games see it before this returns. The names of the groups
 * that lost something to eviction go into groups (an open array) when it is not NULL. Returns the
 * bytes given back. */
uint64_t breaker_trip(struct breaker *breaker, const struct breaker_trip *trip,
                      struct ec_json_writer *groups);
void breaker_reset(struct breaker *breaker, const char *reason);

struct breaker_state {
    uint32_t level;
    int64_t since_ns;   /* real time when it was entered or tripped again */
    uint32_t hold_s;    /* until the floor ends by itself, rounded up; 0: until reset, or none */
    const char *reason; /* the breaker's */
};
void breaker_state(const struct breaker *breaker, struct breaker_state *state);

struct breaker_totals {
    uint32_t level, available_permille, reservations;
    uint64_t growth_bytes_s, looks;
};
void breaker_totals(const struct breaker *breaker, struct breaker_totals *totals);

#endif
