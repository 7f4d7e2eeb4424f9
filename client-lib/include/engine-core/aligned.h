/* engine-core/aligned.h - blocks at large alignments, such as for DMA buffers, pages, or huge pages.
 *
 *     ec_aligned_create(&(struct ec_aligned_desc){ .client = client, .name = "staging",
 *                                                  .tag = EC_TAG_RENDERING }, &staging, &why);
 *     void *buffer = ec_aligned_alloc(staging, 1 << 20, 4096);
 *     …
 *     ec_aligned_free(staging, buffer);
 *
 * With huge_pages a block of 2 MiB or more lies at a multiple of 2 MiB and the system is advised to back it
 * with huge pages; where it has none, it does not.
 *
 * When it is full: the answer is NULL, counted in `failed`: limit_bytes would be passed, or the system
 * refuses.
 *
 * Faults: freeing a block twice, or what is no block, is refused and counted in every tier.
 *
 * Alignment: any power of two up to 2 MiB; default 16.
 * Thread:    any; create and destroy while nobody else uses it.
 * Ownership: destroy frees all blocks, also those that are still out.
 * Cost:      a malloc, a look-up under a lock and some atomic additions; blocks of 128 KiB and more are
 *            mapped, with system calls. For many small blocks take a pool, whose alignment goes up to
 *            64 KiB. */
#ifndef ENGINE_CORE_ALIGNED_H
#define ENGINE_CORE_ALIGNED_H

#include <engine-core/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ec_aligned; /* opaque */

/* Zero means the default; name is required. */
struct ec_aligned_desc {
    struct ec_client *client; /* where it is published; NULL: nowhere */
    const char *name;         /* shown to operators, 1..31 bytes */
    uint32_t tag;             /* what the memory is for; default EC_TAG_GENERAL */
    size_t limit_bytes;       /* of all live blocks together, without padding; 0: none */
    bool huge_pages;          /* ask for them for blocks of 2 MiB and more */
    bool in_segment; /* blocks lie in the client segment, see ec_client_desc.segment_bytes */
};

/* Returns EC_OK, EC_ERR_PARAM (name, tag), EC_ERR_STATE (in_segment without room in the segment),
 *         EC_ERR_MEMORY. */
EC_API int ec_aligned_create(const struct ec_aligned_desc *desc, struct ec_aligned **aligned,
                             struct ec_error *why);
EC_API void ec_aligned_destroy(struct ec_aligned *aligned); /* accepts NULL */

/* bytes in 1..2^40; align is a power of two, 0 means 16. The memory is not cleared. NULL: the size is zero
 * or over the limit, align is none, or there is no memory; each counted in `failed`. */
EC_API void *ec_aligned_alloc(struct ec_aligned *aligned, size_t bytes, size_t align)
    __attribute__((malloc, alloc_size(2), warn_unused_result));

/* Give a block back; NULL is accepted and does nothing.
 *
 * Returns EC_OK or EC_ERR_PARAM (no live block of this allocator); then nothing changes. */
EC_API int ec_aligned_free(struct ec_aligned *aligned, void *block);

EC_API void ec_aligned_stats(const struct ec_aligned *aligned, struct ec_memory_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
