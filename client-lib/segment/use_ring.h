/* use_ring.h - which resources a thread acquires: both sides of struct ec_use_ring.
 *
 * Order: the index, then head (release); the reader loads head (acquire), copies, and loads head again
 * behind an acquire fence: what was overtaken meanwhile is thrown away. The index may be stale by then
 * only if head has moved on by a whole ring, since the writer fences between head and the next index.
 *
 * Thread: add: the owner of the ring (the shared one: any, atomically). Cost: a compare when the
 * resource was the last one too and the daemon has not read since; else three stores. */
#ifndef EC_SEGMENT_USE_RING_H
#define EC_SEGMENT_USE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/client_segment.h"

static inline void ec_use_ring_add(struct ec_use_ring *ring, uint32_t epoch, uint32_t index,
                                   bool shared)
{
    uint64_t use = (uint64_t)epoch << 32 | index, head;

    if (__builtin_expect(atomic_load_explicit(&ring->last, memory_order_relaxed) == use, 1))
        return;
    atomic_store_explicit(&ring->last, use, memory_order_relaxed);
    if (shared) {
        head = atomic_fetch_add_explicit(&ring->head, 1, memory_order_relaxed);
        atomic_store_explicit(&ring->index[head % EC_USE_RING], index, memory_order_relaxed);
        return; /* two may meet in one place, or be read too early: then one use is another's */
    }
    head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* head before the index that overwrites */
    atomic_store_explicit(&ring->index[head % EC_USE_RING], index, memory_order_relaxed);
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

/* Copy what came behind *seen, oldest first, and move *seen. The ring is hostile: indices are not
 * checked, and a head that jumps costs one ring at most.
 *
 * Returns how many were copied; *lost gets how many were overtaken. */
uint32_t ec_use_ring_read(const struct ec_use_ring *ring, uint64_t *seen,
                          uint32_t uses[EC_USE_RING], uint64_t *lost);

#endif
