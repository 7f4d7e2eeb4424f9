/* foundation/memory/watch.h - what allocators tell about single blocks.
 *
 * Whoever wants to know of blocks (sampled call sites, lists of live blocks) fills in a struct
 * ec_memory_watch and stores it in a sink; all allocators that count in the sink call it from then on. Pools,
 * slabs, heaps and aligned allocators tell of each block; arenas, frame arenas and stacks, which give back
 * without looking at blocks, of each chunk that they take from the system. What is still out when its
 * allocator is destroyed is told as freed then; of pools, which do not know their blocks one by one, the
 * groups that end are told.
 *
 * The functions run on the thread that allocates or frees, without a lock of the allocator that another
 * thread could wait for. They must not call the allocator that called them. The call stack leads through
 * frames of this library; whoever walks it skips those.
 *
 * Thread: any. Cost while nobody watches: at most two loads and a branch for each block. */
#ifndef EC_FOUNDATION_MEMORY_WATCH_H
#define EC_FOUNDATION_MEMORY_WATCH_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "foundation/memory/sink.h"

struct ec_memory_watch {
    void (*allocated)(void *context, const void *block, size_t bytes, uint32_t tag);
    void (*freed)(void *context, const void *block, size_t bytes, uint32_t tag); /* before it is */
    void (*ended)(void *context, const void *base, size_t bytes); /* all blocks in it, if any */
    void *context;
};

/* NULL ends it. The struct lives as long as any allocator of the sink may still call it. */
void ec_memory_watch_set(struct ec_memory_sink *sink, const struct ec_memory_watch *watch);

/* sink may be NULL. Acquire: pairs with the release in ec_memory_watch_set, so that who sees the struct sees
 * its fields. */
static inline const struct ec_memory_watch *ec_memory_watch_of(struct ec_memory_sink *sink)
{
    return sink != NULL ? atomic_load_explicit(&sink->watch, memory_order_acquire) : NULL;
}

static inline void ec_watch_allocated(struct ec_memory_sink *sink, const void *block, size_t bytes,
                                      uint32_t tag)
{
    const struct ec_memory_watch *watch = ec_memory_watch_of(sink);

    if (__builtin_expect(watch != NULL, 0))
        watch->allocated(watch->context, block, bytes, tag);
}

static inline void ec_watch_freed(struct ec_memory_sink *sink, const void *block, size_t bytes,
                                  uint32_t tag)
{
    const struct ec_memory_watch *watch = ec_memory_watch_of(sink);

    if (__builtin_expect(watch != NULL, 0))
        watch->freed(watch->context, block, bytes, tag);
}

static inline void ec_watch_ended(struct ec_memory_sink *sink, const void *base, size_t bytes)
{
    const struct ec_memory_watch *watch = ec_memory_watch_of(sink);

    if (__builtin_expect(watch != NULL, 0))
        watch->ended(watch->context, base, bytes);
}

#endif
