/* use_ring.c - the reader's side. */
#include "segment/use_ring.h"

#include <string.h>

uint32_t ec_use_ring_read(const struct ec_use_ring *ring, uint64_t *seen,
                          uint32_t uses[EC_USE_RING], uint64_t *lost)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire), from = *seen, after;
    uint32_t count, overtaken;

    *lost = 0;
    *seen = head;
    if (head < from) { /* never in good faith */
        *lost = 1;
        return 0;
    }
    if (head - from > EC_USE_RING) {
        *lost = head - from - EC_USE_RING;
        from = head - EC_USE_RING;
    }
    count = (uint32_t)(head - from);
    for (uint32_t i = 0; i < count; i++)
        uses[i] =
            atomic_load_explicit(&ring->index[(from + i) % EC_USE_RING], memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire); /* pairs with the release fence in add */
    after = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (after < head || after + 1 - from <= EC_USE_RING) /* one may be on its way */
        return count;
    overtaken =
        after + 1 - from - EC_USE_RING < count ? (uint32_t)(after + 1 - from - EC_USE_RING) : count;
    *lost += overtaken;
    memmove(uses, uses + overtaken, (count - overtaken) * sizeof uses[0]);
    return count - overtaken;
}
