/* engine-core/stack.h - memory that is given back in the reverse order, block by block or to a marker.
 *
 *     ec_stack_create(&(struct ec_stack_desc){ .client = client, .name = "level",
 *                                              .tag = EC_TAG_PHYSICS, .bytes = 8 << 20 },
 *                     &stack, &why);
 *     struct grid *grid = ec_stack_alloc(stack, sizeof *grid, 0);
 *     struct ec_stack_marker before = ec_stack_mark(stack);
 *     …
 *     ec_stack_rewind(stack, &before); // all since the marker
 *     ec_stack_free(stack, grid);      // the newest block, and only that
 *
 * When it is full: the answer is NULL, counted in `failed`. A stack does not grow.
 *
 * Order is checked in every tier: freeing another block than the newest is refused and counted.
 *
 * Alignment: any power of two up to 2 MiB; default 16.
 * Thread:    one at a time; which one may change. Statistics from any.
 * Ownership: blocks belong to the stack; destroy frees all.
 * Cost:      a few nanoseconds each way. Each block has 32 bytes in front of it, which are counted. In
 *            builds of the tier `debug` what is given back is overwritten with 0xDD, and
 *            AddressSanitizer reports its use. */
#ifndef ENGINE_CORE_STACK_H
#define ENGINE_CORE_STACK_H

#include <engine-core/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ec_stack; /* opaque */

/* Zero means the default; name and bytes are required. */
struct ec_stack_desc {
    struct ec_client *client; /* where it is published; NULL: nowhere */
    const char *name;         /* shown to operators, 1..31 bytes */
    uint32_t tag;             /* what the memory is for; default EC_TAG_GENERAL */
    size_t bytes;             /* 64..2^40 */
    bool in_segment; /* blocks lie in the client segment, see ec_client_desc.segment_bytes */
};

/* Returns EC_OK, EC_ERR_PARAM (name, tag), EC_ERR_SIZE (bytes), EC_ERR_STATE (in_segment without room in
 *         the segment), EC_ERR_MEMORY. */
EC_API int ec_stack_create(const struct ec_stack_desc *desc, struct ec_stack **stack,
                           struct ec_error *why);
EC_API void ec_stack_destroy(struct ec_stack *stack); /* accepts NULL */

/* bytes >= 1; align is a power of two, 0 means 16. The memory is not cleared. NULL: the size is zero,
 * align is none, or the stack is full; each counted in `failed`. */
EC_API void *ec_stack_alloc(struct ec_stack *stack, size_t bytes, size_t align)
    __attribute__((malloc, alloc_size(2), warn_unused_result));

/* Free the newest block; NULL is accepted and does nothing.
 *
 * Returns EC_OK or EC_ERR_STATE (it is not the newest, or no block); then nothing changes, and it is
 *         counted in `failed`. */
EC_API int ec_stack_free(struct ec_stack *stack, void *block);

/* The newest block at some time. Its fields belong to the stack. */
struct ec_stack_marker {
    void *block; /* NULL: the stack was empty */
    uint64_t serial;
};

EC_API struct ec_stack_marker ec_stack_mark(const struct ec_stack *stack);

/* Free all blocks that are newer than the marker, which stays good.
 *
 * Returns EC_OK or EC_ERR_STALE (the block that was the newest then is gone); then nothing changes, and it
 *         is counted in `failed`. Cost: one step for each block. */
EC_API int ec_stack_rewind(struct ec_stack *stack, const struct ec_stack_marker *marker);

EC_API void ec_stack_stats(const struct ec_stack *stack, struct ec_memory_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
