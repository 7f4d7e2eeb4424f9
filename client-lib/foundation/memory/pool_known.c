/* Leaves are made when they are needed and stay until the table goes. All are mappings of their own: of those that
 * the C library gives, and has given before, each page would be cleared and so come into being. */
#include "foundation/memory/pool_known.h"

#include "foundation/memory/space.h"

#define UNIT_BYTES 65536

static struct ec_pool_known_leaf *leaf_of(struct ec_pool_known *known, uintptr_t address,
                                          bool make);
static void free_leaf(struct ec_pool_known_leaf *leaf);
static bool set(struct ec_pool_known *known, const void *group, size_t bytes, uint8_t number,
                bool make);

struct ec_pool_known *ec_pool_known_create(void)
{
    return ec_space_map(NULL, sizeof(struct ec_pool_known), ec_space_page_bytes());
}

void ec_pool_known_destroy(struct ec_pool_known *known)
{
    if (known == NULL)
        return;
    for (uint32_t i = 0; i < EC_POOL_KNOWN_LEAVES; i++)
        free_leaf(atomic_load_explicit(&known->leaves[i], memory_order_relaxed));
    ec_space_unmap(NULL, known, sizeof *known);
}

bool ec_pool_known_add(struct ec_pool_known *known, const void *group, size_t bytes, uint8_t number)
{
    if (known == NULL)
        return true;
    if (set(known, group, bytes, number, true))
        return true;
    set(known, group, bytes, 0, false);
    return false;
}

void ec_pool_known_remove(struct ec_pool_known *known, const void *group, size_t bytes)
{
    if (known != NULL)
        set(known, group, bytes, 0, false);
}

static bool set(struct ec_pool_known *known, const void *group, size_t bytes, uint8_t number,
                bool make)
{
    for (size_t offset = 0; offset < bytes; offset += UNIT_BYTES) {
        const uintptr_t address = (uintptr_t)group + offset;
        struct ec_pool_known_leaf *leaf = leaf_of(known, address, make);

        if (leaf == NULL)
            return false;
        atomic_store_explicit(&leaf->numbers[address >> 16 & (EC_POOL_KNOWN_LEAF_BYTES - 1)],
                              number, memory_order_release);
    }
    return true;
}

/* The leaf of an address, made if there is none and it is wanted. */
static struct ec_pool_known_leaf *leaf_of(struct ec_pool_known *known, uintptr_t address, bool make)
{
    struct ec_pool_known_leaf *leaf, *made;

    if (address >> EC_POOL_KNOWN_ADDRESS_BITS != 0)
        return NULL;
    leaf = atomic_load_explicit(&known->leaves[address >> 32], memory_order_acquire);
    if (leaf != NULL || !make)
        return leaf;
    made = ec_space_map(NULL, sizeof *made, ec_space_page_bytes());
    if (made == NULL)
        return NULL;
    /* Release: who finds the leaf finds it zeroed. Acquire, should another thread be first. */
    if (atomic_compare_exchange_strong_explicit(&known->leaves[address >> 32], &leaf, made,
                                                memory_order_acq_rel, memory_order_acquire))
        return made;
    free_leaf(made);
    return leaf;
}

static void free_leaf(struct ec_pool_known_leaf *leaf)
{
    if (leaf != NULL)
        ec_space_unmap(NULL, leaf, sizeof *leaf);
}
