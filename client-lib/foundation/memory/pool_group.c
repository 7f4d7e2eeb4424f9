/* Groups: how they are cut, where they come from, guard bytes, and the bitmap. */
#include "foundation/memory/pool_group.h"

#include <assert.h>
#include <string.h>

#define SMALL_GROUP_BYTES (64u * 1024)
#define LARGE_GROUP_BYTES (256u * 1024)
#define LARGE_FROM_BYTES 1024 /* below, a group of 64 KiB has at least 63 blocks: about one word */
#define GUARD_BYTES_MIN 8
#define GUARD 0xFD /* "no man's land" of debugging allocators */

static uint32_t round_up(size_t value, size_t align)
{
    return (uint32_t)((value + align - 1) & ~(align - 1));
}

void ec_pool_shape_init(struct ec_pool_shape *shape, size_t block_bytes, size_t align,
                        const struct ec_pool_extras *extras)
{
    uint32_t blocks_at_most, header_bytes;

    *shape = (struct ec_pool_shape) { .block_bytes = round_up(block_bytes, align) };
    if (extras != NULL && extras->guard_bytes)
        shape->guard_from = (uint32_t)block_bytes;
    shape->stride_bytes = round_up(
        shape->guard_from != 0 ? block_bytes + GUARD_BYTES_MIN : shape->block_bytes, align);
    shape->group_bytes =
        shape->block_bytes < LARGE_FROM_BYTES ? SMALL_GROUP_BYTES : LARGE_GROUP_BYTES;
    blocks_at_most = shape->group_bytes / shape->stride_bytes;
    header_bytes = (uint32_t)sizeof(struct ec_pool_group) + (blocks_at_most + 63) / 64 * 8;
    shape->live = header_bytes;
    shape->first = round_up(header_bytes + blocks_at_most, align);
    shape->blocks = (shape->group_bytes - shape->first) / shape->stride_bytes;
    shape->reciprocal = (uint32_t)(((1ull << 32) + shape->stride_bytes - 1) / shape->stride_bytes);
    if (extras != NULL) {
        shape->guard_pages = extras->guard_pages;
        shape->space = extras->space;
    }
}

void ec_pool_guard_write(const struct ec_pool_shape *shape, void *block)
{
    memset((char *)block + shape->guard_from, GUARD, shape->stride_bytes - shape->guard_from);
}

bool ec_pool_guard_is_whole(const struct ec_pool_shape *shape, const void *block)
{
    const unsigned char *const bytes = block;

    for (uint32_t i = shape->guard_from; i < shape->stride_bytes; i++)
        if (bytes[i] != GUARD)
            return false;
    return true;
}

struct ec_pool_group *ec_pool_group_create(const struct ec_pool_shape *shape, uint32_t blocks)
{
    const size_t bytes = shape->group_bytes;
    struct ec_pool_group *group = shape->guard_pages ? ec_space_map_guarded(bytes, bytes)
                                                     : ec_space_map(shape->space, bytes, bytes);

    if (group == NULL)
        return NULL;
    if (shape->space != NULL) /* it may have been something else before */
        memset(group, 0, shape->first);
    group->blocks = group->free_count = blocks;
    for (uint32_t word = 0; word * 64 < blocks; word++) {
        const uint32_t left = blocks - word * 64;

        group->words[word] = left >= 64 ? ~0ull : (1ull << left) - 1;
        group->summary |= 1ull << word;
    }
    return group;
}

void ec_pool_group_destroy(const struct ec_pool_shape *shape, struct ec_pool_group *group)
{
    if (shape->guard_pages)
        ec_space_unmap_guarded(group, shape->group_bytes);
    else
        ec_space_unmap(shape->space, group, shape->group_bytes);
}

uint32_t ec_pool_group_take(const struct ec_pool_shape *shape, struct ec_pool_group *group,
                            void **end, uint32_t room)
{
    const uint32_t word = (uint32_t)__builtin_ctzll(group->summary);
    const uint64_t free_bits = group->words[word];
    char *const base = (char *)group + shape->first + (size_t)word * 64 * shape->stride_bytes;
    uint64_t bits = free_bits;
    uint32_t taken = 0;

    if (bits == UINT64_MAX &&
        room >= 64) { /* as whole words come back where blocks are freed in turn */
        for (uint32_t i = 0; i < 64; i++)
            *(end - 1 - i) = base + (size_t)i * shape->stride_bytes;
        taken = 64;
        bits = 0;
    }
    for (; bits != 0 && taken < room; bits &= bits - 1)
        *(end - ++taken) = base + (size_t)__builtin_ctzll(bits) * shape->stride_bytes;
    group->words[word] = bits;
    if (bits == 0)
        group->summary &= ~(1ull << word);
    group->free_count -= taken;
    return taken;
}

void ec_pool_group_put(struct ec_pool_group *group, uint32_t word, uint64_t bits)
{
    assert((group->words[word] & bits) == 0); /* else a block was freed twice */
    group->words[word] |= bits;
    group->summary |= 1ull << word;
    group->free_count += (uint32_t)__builtin_popcountll(bits);
}
