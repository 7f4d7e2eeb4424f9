/* engine-core/memory.h - what memory is for (tags), and the numbers that every allocator keeps.
 *
 * Each allocator has a name and a tag. Made with a client, it counts into the client's segment, where
 * the daemon and tools see it at any time, also after this process was killed. Made without one, it
 * counts privately; only its statistics function shows it.
 *
 *     uint32_t particles;
 *
 *     ec_tag_register(client, "particles", 64 << 20, &particles, &why);
 *     ec_pool_create(&(struct ec_pool_desc){ .client = client, .name = "sparks",
 *                                            .tag = particles, .block_bytes = 64 }, &pool, &why);
 *
 * Ownership: destroy allocators before the client that they were made with.
 *            A forked child must not use an allocator that was made with a client.
 * Cost:      counting is one or two plain stores per allocation, to memory of the calling thread. */
#ifndef ENGINE_CORE_MEMORY_H
#define ENGINE_CORE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <engine-core/error.h>
#include <engine-core/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ec_client;

/* The tags that every client has; a program adds its own after them. */
enum ec_tag {
    EC_TAG_GENERAL = 0,
    EC_TAG_RENDERING,
    EC_TAG_PHYSICS,
    EC_TAG_AUDIO,
    EC_TAG_ANIMATION,
    EC_TAG_AI,
    EC_TAG_NETWORK,
    EC_TAG_ASSETS,
    EC_TAG_SCRIPTS,
    EC_TAG_UI,
    EC_TAG_TEMPORARY,
    EC_TAG_USER_FIRST = 16, /* tags from here to 63 come from ec_tag_register */
};

/* The number of the tag with this name: a fixed one, one that was registered before, or a new one.
 * name has 1..31 bytes without control characters. A budget other than 0 replaces the tag's budget,
 * which is the number of bytes that the operator sees it held against.
 *
 * Thread: any.
 * Returns EC_OK, EC_ERR_PARAM (no client, name), EC_ERR_LIMIT (48 names are registered). */
EC_API int ec_tag_register(struct ec_client *client, const char *name, uint64_t budget_bytes,
                           uint32_t *tag, struct ec_error *why);

/* What a tag holds in this process, summed over its threads. */
struct ec_tag_stats {
    uint64_t current_bytes;
    uint64_t peak_bytes;   /* exact to 64 KiB per thread */
    uint64_t budget_bytes; /* 0: none */
    uint64_t count;        /* live blocks */
    uint64_t total;        /* allocations so far */
};

/* Thread: any. Cost: below a microsecond. Returns EC_OK or EC_ERR_PARAM (no client, no such tag). */
EC_API int ec_tag_stats(struct ec_client *client, uint32_t tag, struct ec_tag_stats *stats);

/* Look for faults in this client's pools and slabs from now on, or no more: a block that was freed since then and
 * is freed again, and a pointer that is no block of the pool, are refused and counted in `failed`. Every tier
 * has these checks; `debug` and `development`, ENGINE_CORE_CHECKS=1 in the environment and `checked` in a
 * description have them from the start and cannot be talked out of it. Heaps, aligned allocators, stacks and object
 * pools always look. An operator does the same with `engine-ctl mem-observe`.
 *
 * Thread: any, while allocators are in use. Cost: while it is on, some nanoseconds per block of a pool.
 * Returns EC_OK, EC_ERR_PARAM (no client) or EC_ERR_LIMIT (it was switched on 255 times). */
EC_API int ec_checks_set(struct ec_client *client, bool on);

/* One allocator's numbers; the same for every kind. */
struct ec_memory_stats {
    uint64_t current_bytes; /* handed out and not given back, with padding */
    uint64_t peak_bytes;
    uint64_t capacity_bytes; /* taken from the system for blocks */
    uint64_t count;          /* live blocks */
    uint64_t total;          /* allocations so far */
    uint64_t failed;         /* refused: full, zero, over a limit, overflow */
    uint64_t fallbacks;      /* allocations that went to the general heap, for want of room */
    uint64_t largest_free_bytes;
};

#ifdef __cplusplus
}
#endif
#endif
