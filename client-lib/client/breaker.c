/* breaker.c - read the level out of the clock page and answer in the own segment. */
#include <engine-core/breaker.h>

#include "client/client.h"
#include "foundation/real_time.h"

/* Acquire: pairs with the release store of breaker_enter() in the daemon. */
uint32_t ec_breaker_level(const struct ec_client *client)
{
    uint32_t level =
        atomic_load_explicit(&ec_client_clock(client)->breaker_level, memory_order_acquire);

    return level <= EC_BREAKER_EMERGENCY ? level : EC_BREAKER_EMERGENCY;
}

/* An odd sequence keeps the daemon from taking a half-written answer for a whole one, also when this
 * process is killed here. It keeps two threads of this process apart as well. */
void ec_breaker_ack(struct ec_client *client, uint32_t level, uint64_t freed_bytes)
{
    struct ec_breaker_ack *ack = &ec_client_own(client)->breaker;
    uint64_t sequence;

    do
        sequence = atomic_load_explicit(&ack->sequence, memory_order_relaxed) & ~(uint64_t)1;
    while (!atomic_compare_exchange_weak_explicit(&ack->sequence, &sequence, sequence + 1,
                                                  memory_order_acquire, memory_order_relaxed));
    /* Pairs with the acquire fence in ec_telemetry_ack(): who reads a new field below then finds the
     * sequence odd or changed. */
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&ack->level, level, memory_order_relaxed);
    atomic_store_explicit(&ack->at_ns, ec_real_ns(), memory_order_relaxed);
    atomic_store_explicit(&ack->freed_bytes, freed_bytes, memory_order_relaxed);
    /* Release: pairs with the first load in ec_telemetry_ack(). */
    atomic_store_explicit(&ack->sequence, sequence + 2, memory_order_release);
}
