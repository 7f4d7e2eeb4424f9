/* foundation/memory/pool_group.h - a group of blocks, and which of them are free.
 *
 *   base (a multiple of group_bytes)
 *   | header | words | live | padding to first | block 0 | block 1 | … |
 *
 * A group lies at a multiple of its size, so masking the address of a block finds it. A set bit in
 * words means that the block lies free in the group; a block in a magazine, on its way between
 * threads or with the user has its bit clear. Bits are taken and put back by whole words.
 *
 * Thread: whoever holds the lock of the heap that owns the group; owner alone may be read by those
 *         who hold one of its blocks. */
#ifndef EC_FOUNDATION_MEMORY_POOL_GROUP_H
#define EC_FOUNDATION_MEMORY_POOL_GROUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "foundation/memory/space.h"

struct ec_pool_heap;

/* How the groups of one pool are cut. */
struct ec_pool_shape {
    uint32_t block_bytes;  /* as users see it, and as it is counted: a multiple of the alignment */
    uint32_t stride_bytes; /* from block to block: block_bytes, and a guard when there is one */
    uint32_t group_bytes;  /* power of two */
    uint32_t first;        /* offset of block 0 */
    uint32_t blocks;       /* in a whole group, at most 4,096 */
    uint32_t live;         /* offset of the live bytes */
    uint32_t reciprocal;   /* 2^32 / stride_bytes, rounded up */
    uint32_t guard_from;   /* offset in a block of its guard bytes, up to the stride; 0: none */
    bool guard_pages;      /* behind each group a page that nobody may touch */
    struct ec_space *space;
};

/* What a shape has beside its blocks. */
struct ec_pool_extras {
    bool guard_bytes;
    bool guard_pages;
    struct ec_space *space;
};

struct ec_pool_group {
    _Atomic(struct ec_pool_heap *) owner;
    uint32_t place;      /* in the owner's table */
    uint32_t blocks;     /* fewer than the shape's in the last group before blocks_max */
    uint32_t free_count; /* set bits */
    uint64_t summary;    /* bit w: words[w] is not 0 */
    uint64_t words[];
};

/* block_bytes and align were checked by the pool. extras may be NULL. */
void ec_pool_shape_init(struct ec_pool_shape *shape, size_t block_bytes, size_t align,
                        const struct ec_pool_extras *extras);

/* Map a group with its first `blocks` blocks free; NULL when the system refuses. */
struct ec_pool_group *ec_pool_group_create(const struct ec_pool_shape *shape, uint32_t blocks);
void ec_pool_group_destroy(const struct ec_pool_shape *shape, struct ec_pool_group *group);

/* Take free blocks of the lowest word that has some, at most `room`; write their addresses downwards
 * from end[-1], lowest address first. Returns how many. */
uint32_t ec_pool_group_take(const struct ec_pool_shape *shape, struct ec_pool_group *group,
                            void **end, uint32_t room);

/* Put blocks of one word back. */
void ec_pool_group_put(struct ec_pool_group *group, uint32_t word, uint64_t bits);

static inline struct ec_pool_group *ec_pool_group_of(const struct ec_pool_shape *shape,
                                                     const void *block)
{
    const uintptr_t inside = (uintptr_t)block & (shape->group_bytes - 1);

    return (struct ec_pool_group *)(uintptr_t)((const char *)block - inside);
}

/* The multiplication divides exactly, because a block's offset is a multiple of the stride. */
static inline uint32_t ec_pool_group_index(const struct ec_pool_shape *shape, const void *block)
{
    const uint32_t inside = (uint32_t)((uintptr_t)block & (shape->group_bytes - 1));

    return (uint32_t)(((uint64_t)(inside - shape->first) * shape->reciprocal) >> 32);
}

/* Does a block begin at this address, which lies in a group? Of an address within a block the index is that of
 * another one, or none. */
static inline bool ec_pool_group_is_start(const struct ec_pool_shape *shape, const void *address)
{
    const uint32_t inside = (uint32_t)((uintptr_t)address & (shape->group_bytes - 1));
    const uint32_t index = ec_pool_group_index(shape, address);

    return index < shape->blocks && shape->first + index * shape->stride_bytes == inside;
}

static inline bool ec_pool_group_is_empty(const struct ec_pool_group *group)
{
    return group->free_count == group->blocks;
}

/* One byte per block: what it means depends on what is unusual about the pool, see pool_heap.h. Where nothing
 * is, nobody touches them. */
static inline _Atomic uint8_t *ec_pool_group_live(const struct ec_pool_shape *shape,
                                                  struct ec_pool_group *group)
{
    return (_Atomic uint8_t *)((char *)group + shape->live);
}

static inline _Atomic uint8_t *ec_pool_live_byte(const struct ec_pool_shape *shape,
                                                 const void *block)
{
    struct ec_pool_group *group = ec_pool_group_of(shape, block);

    return ec_pool_group_live(shape, group) + ec_pool_group_index(shape, block);
}

/* Guard bytes: written when a block is handed out, looked at when it comes back. */
void ec_pool_guard_write(const struct ec_pool_shape *shape, void *block);
bool ec_pool_guard_is_whole(const struct ec_pool_shape *shape, const void *block);

#endif
