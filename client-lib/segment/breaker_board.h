/* segment/breaker_board.h - both sides of the breaker's orders.
 *
 * Writer: the daemon's main loop. It stores an odd sequence, the fields, then the next even sequence.
 * Reader: any thread of the client. It takes the fields between two loads of the same even sequence.
 * When the daemon is killed in the middle the sequence stays odd, and the reader says so: the order
 * that it had stays in force.
 *
 * Thread: see above. Cost: some loads or stores; no system call, no lock, no allocation. */
#ifndef EC_SEGMENT_BREAKER_BOARD_H
#define EC_SEGMENT_BREAKER_BOARD_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/breaker_board.h"

#define EC_BREAKER_ORDER_TRIES                                                                     \
    64 /* the writer needs some stores: a reader hardly ever tries twice */

/* An order as plain data. */
struct ec_breaker_order_seen {
    uint32_t level;
    uint32_t cause;
    uint32_t flags;
    uint64_t sequence; /* 0: nothing was ever written */
    uint64_t bytes;
    int64_t deadline_ns;
    int64_t exit_deadline_ns;
};

/* Write an order; sequence is ignored. Returns the sequence that names it now. */
static inline uint64_t ec_breaker_order_write(struct ec_breaker_order *order,
                                              const struct ec_breaker_order_seen *what)
{
    uint64_t sequence = atomic_load_explicit(&order->sequence, memory_order_relaxed);

    atomic_store_explicit(&order->sequence, sequence | 1, memory_order_relaxed);
    /* Pairs with the acquire fence of the reader: who loads a new field below finds the sequence odd or
     * changed. */
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&order->level, what->level, memory_order_relaxed);
    atomic_store_explicit(&order->cause, what->cause, memory_order_relaxed);
    atomic_store_explicit(&order->flags, what->flags, memory_order_relaxed);
    atomic_store_explicit(&order->bytes, what->bytes, memory_order_relaxed);
    atomic_store_explicit(&order->deadline_ns, what->deadline_ns, memory_order_relaxed);
    atomic_store_explicit(&order->exit_deadline_ns, what->exit_deadline_ns, memory_order_relaxed);
    sequence = (sequence | 1) + 1;
    /* Release: pairs with the first load of the reader. */
    atomic_store_explicit(&order->sequence, sequence, memory_order_release);
    return sequence;
}

/* false: it was being changed all the time, or its writer died in the middle. */
static inline bool ec_breaker_order_read(const struct ec_breaker_order *order,
                                         struct ec_breaker_order_seen *seen)
{
    for (unsigned i = 0; i < EC_BREAKER_ORDER_TRIES; i++) {
        /* Acquire: pairs with the release store of the writer. */
        seen->sequence = atomic_load_explicit(&order->sequence, memory_order_acquire);
        seen->level = atomic_load_explicit(&order->level, memory_order_relaxed);
        seen->cause = atomic_load_explicit(&order->cause, memory_order_relaxed);
        seen->flags = atomic_load_explicit(&order->flags, memory_order_relaxed);
        seen->bytes = atomic_load_explicit(&order->bytes, memory_order_relaxed);
        seen->deadline_ns = atomic_load_explicit(&order->deadline_ns, memory_order_relaxed);
        seen->exit_deadline_ns =
            atomic_load_explicit(&order->exit_deadline_ns, memory_order_relaxed);
        /* Pairs with the writer's release fence. */
        atomic_thread_fence(memory_order_acquire);
        if (seen->sequence % 2 == 0 &&
            atomic_load_explicit(&order->sequence, memory_order_relaxed) == seen->sequence)
            return true;
    }
    return false;
}

/* Give a slot to a client, or take it back with id 0. Nobody else looks at it then.
 * Release: pairs with the acquire load in ec_breaker_order_find(), after which the slot is read. */
static inline void ec_breaker_order_assign(struct ec_breaker_order *order, uint32_t client_id)
{
    atomic_store_explicit(&order->client_id, client_id, memory_order_release);
}

/* The slot of a client; NULL: it has none. */
static inline const struct ec_breaker_order *
ec_breaker_order_find(const struct ec_breaker_board *board, uint32_t client_id)
{
    for (unsigned i = 0; i < EC_BREAKER_SLOTS; i++)
        /* Acquire: pairs with the release store in ec_breaker_order_assign(). */
        if (atomic_load_explicit(&board->orders[i].client_id, memory_order_acquire) == client_id)
            return &board->orders[i];
    return NULL;
}

#endif
