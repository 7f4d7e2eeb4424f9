/* engine-core/slab.h - blocks of 1 to 2,048 bytes of one purpose, each from a pool of its size class.
 *
 *     ec_slab_create(&(struct ec_slab_desc){ .client = client, .name = "scripts",
 *                                            .tag = EC_TAG_SCRIPTS }, &slab, &why);
 *     struct node *node = ec_slab_alloc(slab, sizeof *node + name_bytes);
 *     …
 *     ec_slab_free(slab, node);
 *
 * There are 24 classes: multiples of 16 up to 128, then four to a doubling (160, 192, 224, 256, 320 … 2,048),
 * so at most a fifth of a block is padding, or 15 bytes. A class gets its pool, listed as "name/64", when it is used
 * first; all that <engine-core/pool.h> says holds for it.
 *
 * When it is full: the pool of the class grows. NULL, counted in `failed`, when the system has no memory,
 * the size is zero, or it is over 2,048 (take a heap, <engine-core/heap.h>).
 *
 * Alignment: 16.
 * Thread:    any; create and destroy while nobody else uses it.
 * Ownership: destroy frees all blocks, also those that are still out.
 * Cost:      that of a pool; free looks up the class in two loads more. */
#ifndef ENGINE_CORE_SLAB_H
#define ENGINE_CORE_SLAB_H

#include <engine-core/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EC_SLAB_BYTES_MAX 2048

struct ec_slab; /* opaque */

/* Zero means the default; name is required. */
struct ec_slab_desc {
    struct ec_client *client; /* where it is published; NULL: nowhere */
    const char *name;         /* shown to operators, 1..26 bytes */
    uint32_t tag;             /* what the memory is for; default EC_TAG_GENERAL */
    bool checked;             /* look for double frees in every tier, see <engine-core/pool.h> */
    bool guard_bytes;         /* and for writes behind blocks */
    bool in_segment; /* groups lie in the client segment, see ec_client_desc.segment_bytes */
};

/* Returns EC_OK, EC_ERR_PARAM (name, tag), EC_ERR_STATE (in_segment without room in the segment),
 *         EC_ERR_LIMIT (4,096 pools in the process), EC_ERR_MEMORY. */
EC_API int ec_slab_create(const struct ec_slab_desc *desc, struct ec_slab **slab,
                          struct ec_error *why);
EC_API void ec_slab_destroy(struct ec_slab *slab); /* accepts NULL */

/* bytes in 1..2,048. The memory is not cleared. NULL: another size, or no memory. */
EC_API void *ec_slab_alloc(struct ec_slab *slab, size_t bytes)
    __attribute__((malloc, alloc_size(2), warn_unused_result));

/* Give a block back; NULL is accepted and does nothing.
 *
 * Returns EC_OK, EC_ERR_PARAM (the address is in none of its groups; in every tier), and where it is looked
 *         for EC_ERR_STATE (the block is free already), EC_ERR_PARAM (no block) or EC_ERR_SIZE (its
 *         guard bytes were overwritten); then nothing changes. */
EC_API int ec_slab_free(struct ec_slab *slab, void *block);

/* How many bytes of a live block may be used: at least as many as were asked for; 0: no block of the slab. */
EC_API size_t ec_slab_block_bytes(const struct ec_slab *slab, const void *block);

/* Give empty groups back to the system; returns their bytes. Cost: system calls. */
EC_API uint64_t ec_slab_trim(struct ec_slab *slab);

/* Over all classes. */
EC_API void ec_slab_stats(const struct ec_slab *slab, struct ec_memory_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
