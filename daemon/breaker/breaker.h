/* breaker.h - the memory circuit breaker: levels 0..3 that games see in one load.
 *
 * Levels are tripped by hand. Entering level 2 or 3 evicts every evictable resource that nobody
 * holds.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_BREAKER_H
#define ENGINE_CORED_BREAKER_H

#include <stdint.h>

#include "foundation/error.h"

struct breaker;
struct services;

int breaker_init(struct services *services, struct ec_error *why); /* module phase */
void breaker_shutdown(struct services *services);

uint32_t breaker_level(const struct breaker *breaker);

#endif
