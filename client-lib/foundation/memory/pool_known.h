/* foundation/memory/pool_known.h - which addresses are groups, and of which pool.
 *
 * A pointer that is no block may point anywhere, so the group that it seems to lie in must not be
 * touched before it is known to be one. A table of two levels holds one byte per 64 KiB of the address
 * space: a number of the pool, 1..255, or 0. Several pools may share a table. Its unused pages never come
 * into being.
 *
 * Thread: any. Cost: two loads to ask. Functions accept NULL, which remembers nothing. */
#ifndef EC_FOUNDATION_MEMORY_POOL_KNOWN_H
#define EC_FOUNDATION_MEMORY_POOL_KNOWN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 48 bits of address: 16 choose a leaf, 16 a byte in it, 16 lie within 64 KiB. */
#define EC_POOL_KNOWN_LEAVES 65536
#define EC_POOL_KNOWN_LEAF_BYTES 65536
#define EC_POOL_KNOWN_ADDRESS_BITS 48

struct ec_pool_known_leaf {
    _Atomic uint8_t numbers[EC_POOL_KNOWN_LEAF_BYTES];
};

struct ec_pool_known {
    _Atomic(struct ec_pool_known_leaf *) leaves[EC_POOL_KNOWN_LEAVES];
};

struct ec_pool_known *ec_pool_known_create(void); /* NULL: no memory */
void ec_pool_known_destroy(struct ec_pool_known *known);

/* group and bytes are multiples of 64 KiB, number is not 0. false: no memory; nothing changed. */
bool ec_pool_known_add(struct ec_pool_known *known, const void *group, size_t bytes,
                       uint8_t number);
void ec_pool_known_remove(struct ec_pool_known *known, const void *group, size_t bytes);

/* The number of the pool whose group the address lies in; 0: none. known is not NULL. Acquire pairs with
 * the releases of who made the leaf and who added the group: whoever sees the number sees its header. */
static inline uint8_t ec_pool_known_number(const struct ec_pool_known *known, const void *address)
{
    const uintptr_t at = (uintptr_t)address;
    const struct ec_pool_known_leaf *leaf;

    if (__builtin_expect(at >> EC_POOL_KNOWN_ADDRESS_BITS != 0, 0))
        return 0;
    leaf = atomic_load_explicit(&known->leaves[at >> 32], memory_order_acquire);
    if (__builtin_expect(leaf == NULL, 0))
        return 0;
    return atomic_load_explicit(&leaf->numbers[at >> 16 & (EC_POOL_KNOWN_LEAF_BYTES - 1)],
                                memory_order_acquire);
}

#endif
