/* engine-core/heap.h - the general allocator: blocks of any size, each with a tag.
 *
 *     ec_heap_create(&(struct ec_heap_desc){ .client = client, .name = "heap" }, &heap, &why);
 *     char *text = ec_alloc(heap, bytes, EC_TAG_UI);
 *     struct item *items = ec_alloc_array(heap, count, sizeof *items, EC_TAG_UI);
 *     text = ec_realloc(heap, text, 2 * bytes, EC_TAG_UI);
 *     ec_free(heap, text);
 *
 * Up to 2,048 bytes a block comes from the pool of its size class (<engine-core/slab.h>), above from the
 * C library. Take it for what lives long and has many sizes; what has one size is better off in a pool, and
 * what dies with the frame in a frame arena.
 *
 * Numbers: every block counts for its tag. The operator sees the classes as "name/64", and all larger blocks
 * as "name/large".
 *
 * When it is full: NULL, counted in `failed`: the system has no memory, or the request is none (zero bytes,
 * more than 2^40, a product that overflows, no such tag).
 *
 * Faults: in every tier freeing a block twice, or what is no block of the heap, is refused and counted. In
 * the tier `debug` and with `guard_bytes` writes behind blocks of up to 2,048 bytes are found when they
 * are freed.
 *
 * Alignment: 16; other powers of two up to 2 MiB with ec_alloc_aligned.
 * Thread:    any, also for blocks of other threads; create and destroy while nobody else uses it.
 * Ownership: destroy frees all blocks, also those that are still out.
 * Cost:      up to 2,048 bytes some nanoseconds; above, the C library's and a look-up under a lock. */
#ifndef ENGINE_CORE_HEAP_H
#define ENGINE_CORE_HEAP_H

#include <engine-core/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ec_heap; /* opaque */

/* Zero means the default; name is required. */
struct ec_heap_desc {
    struct ec_client *client; /* where it is published; NULL: nowhere, and tags are not counted */
    const char *name;         /* shown to operators, 1..25 bytes */
    bool guard_bytes;         /* look for writes behind blocks in every tier */
    bool in_segment; /* blocks lie in the client segment, see ec_client_desc.segment_bytes; those
                                 over 2,048 bytes take whole units of 64 KiB there */
};

/* Returns EC_OK, EC_ERR_PARAM (name), EC_ERR_STATE (in_segment without room in the segment),
 *         EC_ERR_LIMIT (4,096 pools in the process), EC_ERR_MEMORY. */
EC_API int ec_heap_create(const struct ec_heap_desc *desc, struct ec_heap **heap,
                          struct ec_error *why);
EC_API void ec_heap_destroy(struct ec_heap *heap); /* accepts NULL */

/* bytes in 1..2^40, tag in 0..63. The memory is not cleared. */
EC_API void *ec_alloc(struct ec_heap *heap, size_t bytes, uint32_t tag)
    __attribute__((malloc, alloc_size(2), warn_unused_result));

/* count items of bytes each. */
EC_API void *ec_alloc_array(struct ec_heap *heap, size_t count, size_t bytes, uint32_t tag)
    __attribute__((malloc, alloc_size(2, 3), warn_unused_result));

/* align is a power of two up to 2 MiB. Over 16, a block comes from the C library whatever its size. */
EC_API void *ec_alloc_aligned(struct ec_heap *heap, size_t bytes, size_t align, uint32_t tag)
    __attribute__((malloc, alloc_size(2), warn_unused_result));

/* Change the size of a block, moving it if need be. NULL as a block is ec_alloc with the tag; otherwise the
 * block keeps its own tag. On NULL the block is as it was: the request is none, there is no memory, or it
 * is no live block. A block with a larger alignment than 16 may lose it. */
EC_API void *ec_realloc(struct ec_heap *heap, void *block, size_t bytes, uint32_t tag)
    __attribute__((alloc_size(3), warn_unused_result));

/* Give a block back; NULL is accepted and does nothing.
 *
 * Returns EC_OK, EC_ERR_STATE (the block is free already), EC_ERR_PARAM (no block of the heap; one over 2,048
 *         bytes that is free already is none any more), or EC_ERR_SIZE (its guard bytes were overwritten);
 *         then nothing changes. */
EC_API int ec_free(struct ec_heap *heap, void *block);

/* How many bytes of a live block may be used: at least as many as were asked for; 0: no block. */
EC_API size_t ec_heap_block_bytes(struct ec_heap *heap, const void *block);

/* Give empty groups back to the system; returns their bytes. Cost: system calls. */
EC_API uint64_t ec_heap_trim(struct ec_heap *heap);

/* Over all sizes and tags; ec_tag_stats has each tag's share. */
EC_API void ec_heap_stats(const struct ec_heap *heap, struct ec_memory_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
