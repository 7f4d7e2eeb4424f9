/* engine-core/pool.h - blocks of one size, allocated and freed in any order by any thread.
 *
 *     struct ec_pool *sparks;
 *
 *     ec_pool_create(&(struct ec_pool_desc){ .client = client, .name = "sparks",
 *                                            .tag = EC_TAG_RENDERING,
 *                                            .block_bytes = sizeof(struct spark) }, &sparks, &why);
 *     struct spark *spark = ec_pool_alloc(sparks);
 *     …
 *     ec_pool_free(sparks, spark);
 *
 * Blocks lie in groups of 64 KiB, or 256 KiB from 1 KiB blocks up. Each thread keeps a magazine of
 * free blocks, so nearly every call touches only memory of its own thread.
 *
 * When it is full: the pool grows by a group. With blocks_max, or when the system has no memory, the
 * answer is NULL, counted in `failed`; blocks that lie in the magazines of other threads (at most
 * magazine_blocks each) are not reached.
 *
 * Faults: in builds of the tiers `debug` and `development`, with `checked`, and where the environment has
 * ENGINE_CORE_CHECKS=1, a double free and a pointer that is no block of the pool are refused and counted
 * in `failed`. Elsewhere ec_checks_set and `engine-ctl mem-observe` begin that while the pool is in use.
 * In the tier `debug` and with `guard_bytes` at least 8 bytes behind each block are guarded, and a block
 * is refused whose user wrote there. With `guard_pages` a program that runs over the end of
 * a group ends by SIGSEGV.
 *
 * Alignment: any power of two up to 64 KiB; default 16.
 * Thread:    any, also for blocks of other threads; create and destroy while nobody else uses it.
 *            A thread that ends hands its blocks and groups to the others.
 * Ownership: destroy frees all blocks, also those that are still out.
 * Cost:      a few nanoseconds, no lock, no system call. Every half magazine one uncontended lock;
 *            every new group two or three system calls. Empty groups are kept as long as they were
 *            needed within the last second; calls and the client's frame marks give back the others,
 *            ec_pool_trim all of them. */
#ifndef ENGINE_CORE_POOL_H
#define ENGINE_CORE_POOL_H

#include <engine-core/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ec_pool; /* opaque */

/* Zero means the default; name and block_bytes are required. */
struct ec_pool_desc {
    struct ec_client *client; /* where it is published; NULL: nowhere */
    const char *name;         /* shown to operators, 1..31 bytes */
    uint32_t tag;             /* what the memory is for; default EC_TAG_GENERAL */
    size_t block_bytes;       /* 1..65,536; rounded up to a multiple of align */
    size_t align;             /* power of two, 16..65,536; default 16 */
    uint64_t blocks_max;      /* never more blocks than this; 0: no limit */
    uint32_t
        magazine_blocks; /* of each thread, 16..256; default 128, and more where a thread empties
                                 and fills it again and again, up to what 256 KiB hold */
    bool checked;        /* look for double frees and foreign pointers in every tier */
    bool guard_bytes;    /* and for writes behind blocks */
    bool guard_pages;    /* a page behind each group that nobody may touch; the system allows
                                 about 30,000 of them in a process */
    bool in_segment;     /* groups lie in the client segment, see ec_client_desc.segment_bytes */
};

/* Returns EC_OK, EC_ERR_PARAM (name, tag, align, magazine_blocks), EC_ERR_SIZE (block_bytes),
 *         EC_ERR_STATE (in_segment without room in the segment), EC_ERR_LIMIT (4,096 pools in the
 *         process), EC_ERR_MEMORY.
 * A client has room for 128 allocators; further ones work and count in their tag, unlisted. */
EC_API int ec_pool_create(const struct ec_pool_desc *desc, struct ec_pool **pool,
                          struct ec_error *why);
EC_API void ec_pool_destroy(struct ec_pool *pool); /* accepts NULL */

/* One block, not cleared; NULL when the pool is full. */
EC_API void *ec_pool_alloc(struct ec_pool *pool) __attribute__((malloc, warn_unused_result));

/* Give a block back; NULL is accepted and does nothing.
 *
 * Returns EC_OK, and where it is looked for EC_ERR_STATE (the block is free already), EC_ERR_PARAM (no
 *         block of this pool) or EC_ERR_SIZE (its guard bytes were overwritten); then nothing changes. */
EC_API int ec_pool_free(struct ec_pool *pool, void *block);

/* Give empty groups back to the system; returns their bytes. Cost: system calls. */
EC_API uint64_t ec_pool_trim(struct ec_pool *pool);

/* `peak_bytes` is exact to a magazine per thread. */
EC_API void ec_pool_stats(const struct ec_pool *pool, struct ec_memory_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
