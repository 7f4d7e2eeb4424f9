/* Groups: mapping at a multiple of their size, and the bitmap. */
#include "foundation/memory/pool_group.h"

#include <assert.h>
#include <sys/mman.h>

#define SMALL_GROUP_BYTES (64u * 1024)
#define LARGE_GROUP_BYTES (256u * 1024)
#define LARGE_FROM_BYTES 1024 /* below, a group of 64 KiB has at least 63 blocks: about one word */

static void *map_aligned(size_t bytes);

static uint32_t round_up(size_t value, size_t align)
{
    return (uint32_t)((value + align - 1) & ~(align - 1));
}

void ec_pool_shape_init(struct ec_pool_shape *shape, size_t block_bytes, size_t align)
{
    uint32_t blocks_at_most, header_bytes;

    shape->block_bytes = round_up(block_bytes, align);
    shape->group_bytes =
        shape->block_bytes < LARGE_FROM_BYTES ? SMALL_GROUP_BYTES : LARGE_GROUP_BYTES;
    blocks_at_most = shape->group_bytes / shape->block_bytes;
    header_bytes = (uint32_t)sizeof(struct ec_pool_group) + (blocks_at_most + 63) / 64 * 8;
    shape->live = 0;
#ifdef EC_POOL_CHECKED
    shape->live = header_bytes;
    header_bytes += blocks_at_most;
#endif
    shape->first = round_up(header_bytes, align);
    shape->blocks = (shape->group_bytes - shape->first) / shape->block_bytes;
    shape->reciprocal = (uint32_t)(((1ull << 32) + shape->block_bytes - 1) / shape->block_bytes);
}

struct ec_pool_group *ec_pool_group_create(const struct ec_pool_shape *shape, uint32_t blocks)
{
    struct ec_pool_group *group = map_aligned(shape->group_bytes);

    if (group == NULL)
        return NULL;
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
    munmap(group, shape->group_bytes);
}

uint32_t ec_pool_group_take(const struct ec_pool_shape *shape, struct ec_pool_group *group,
                            void **end, uint32_t room)
{
    const uint32_t word = (uint32_t)__builtin_ctzll(group->summary);
    const uint64_t free_bits = group->words[word];
    char *const base = (char *)group + shape->first + (size_t)word * 64 * shape->block_bytes;
    uint64_t bits = free_bits;
    uint32_t taken = 0;

    for (; bits != 0 && taken < room; bits &= bits - 1)
        *(end - ++taken) = base + (size_t)__builtin_ctzll(bits) * shape->block_bytes;
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

/* The system tends to place a mapping right below the last one, so after the first group the plain
 * call usually gives an aligned one. If not, map more and cut off the ends. */
static void *map_aligned(size_t bytes)
{
    const int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *base = mmap(NULL, bytes, protection, flags, -1, 0);
    size_t before, after;

    if (base == MAP_FAILED)
        return NULL;
    if (((uintptr_t)base & (bytes - 1)) == 0)
        return base;
    munmap(base, bytes);
    base = mmap(NULL, 2 * bytes, protection, flags, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    before = (size_t)(-(uintptr_t)base & (bytes - 1));
    after = bytes - before;
    if (before != 0)
        munmap(base, before);
    if (after != 0)
        munmap(base + before + bytes, after);
    return base + before;
}
