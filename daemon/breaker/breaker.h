/* breaker.h - the memory circuit breaker: levels 0..3 that games see in one load.
 *
 * Levels are tripped by hand. Entering level 2 or 3 evicts every evictable resource that nobody
 * holds. A level ends by itself when its time is over, or by a reset.
 *
 *   0 normal   1 warning   2 eviction   3 emergency
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_BREAKER_H
#define ENGINE_CORED_BREAKER_H

#include <stdint.h>

#include "foundation/error.h"
#include "foundation/json/json_writer.h"

struct breaker;
struct services;

#define BREAKER_LEVEL_MAX 3
#define BREAKER_REASON_BYTES 128

int breaker_init(struct services *services, struct ec_error *why); /* module phase */
void breaker_shutdown(struct services *services);

uint32_t breaker_level(const struct breaker *breaker);

struct breaker_trip {
    uint32_t level;  /* 0..3; 0 is the end of a manual level */
    uint32_t hold_s; /* 0: until reset */
    const char *reason;
};
/* Enter a level now, also a lower one: games see it before this returns. The names of the groups that
 * lost something to eviction go into groups (an open array) when it is not NULL. Returns the bytes
 * given back. */
uint64_t breaker_trip(struct breaker *breaker, const struct breaker_trip *trip,
                      struct ec_json_writer *groups);
void breaker_reset(struct breaker *breaker, const char *reason);

struct breaker_state {
    uint32_t level;
    int64_t since_ns;   /* real time when it was entered or tripped again */
    uint32_t hold_s;    /* until it ends by itself, rounded up; 0: until reset */
    const char *reason; /* the breaker's */
};
void breaker_state(const struct breaker *breaker, struct breaker_state *state);

#endif
