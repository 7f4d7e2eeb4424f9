/* counters.h - the counters of counters.def: they only grow, any thread adds. */
#ifndef ENGINE_CORED_COUNTERS_H
#define ENGINE_CORED_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "proto/tables.h"

struct counters {
    _Atomic uint64_t value[EC_COUNTERS];
};

static inline void counters_add(struct counters *counters, enum ec_counter_id id, uint64_t n)
{
    atomic_fetch_add_explicit(&counters->value[id], n, memory_order_relaxed);
}

static inline uint64_t counters_get(const struct counters *counters, enum ec_counter_id id)
{
    return atomic_load_explicit(&counters->value[id], memory_order_relaxed);
}

#endif
