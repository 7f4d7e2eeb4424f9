/* 48 bits of address: 16 choose a leaf, 16 a bit in it, 16 lie within 64 KiB. Leaves are made when
 * they are needed and stay until the pool goes. */
#include "foundation/memory/pool_known.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define LEAVES 65536
#define LEAF_WORDS 1024
#define ADDRESS_BITS 48

struct leaf {
    _Atomic uint64_t words[LEAF_WORDS];
};

struct ec_pool_known {
    _Atomic(struct leaf *) leaves[LEAVES];
};

static uint64_t bit_of(uintptr_t address)
{
    return 1ull << (address >> 16 & 63);
}

static _Atomic uint64_t *word_of(struct leaf *leaf, uintptr_t address)
{
    return &leaf->words[address >> 22 & (LEAF_WORDS - 1)];
}

/* The leaf of an address; NULL when there is none. */
static struct leaf *leaf_of(const struct ec_pool_known *known, uintptr_t address)
{
    if (address >> ADDRESS_BITS != 0)
        return NULL;
    /* Pairs with the release of who made it. */
    return atomic_load_explicit(&known->leaves[address >> 32], memory_order_acquire);
}

struct ec_pool_known *ec_pool_known_create(void)
{
    return calloc(1, sizeof(struct ec_pool_known));
}

void ec_pool_known_destroy(struct ec_pool_known *known)
{
    if (known == NULL)
        return;
    for (uint32_t i = 0; i < LEAVES; i++)
        free(atomic_load_explicit(&known->leaves[i], memory_order_relaxed));
    free(known);
}

bool ec_pool_known_add(struct ec_pool_known *known, const void *group)
{
    const uintptr_t address = (uintptr_t)group;
    struct leaf *leaf;

    if (known == NULL)
        return true;
    if (address >> ADDRESS_BITS != 0)
        return false;
    leaf = leaf_of(known, address);
    if (leaf == NULL) {
        struct leaf *made = calloc(1, sizeof *made);

        if (made == NULL)
            return false;
        /* Release: who finds the leaf finds it zeroed. Acquire, should another thread be first. */
        if (atomic_compare_exchange_strong_explicit(&known->leaves[address >> 32], &leaf, made,
                                                    memory_order_acq_rel, memory_order_acquire))
            leaf = made;
        else
            free(made);
    }
    atomic_fetch_or_explicit(word_of(leaf, address), bit_of(address), memory_order_release);
    return true;
}

void ec_pool_known_remove(struct ec_pool_known *known, const void *group)
{
    const uintptr_t address = (uintptr_t)group;
    struct leaf *leaf = known != NULL ? leaf_of(known, address) : NULL;

    if (leaf != NULL)
        atomic_fetch_and_explicit(word_of(leaf, address), ~bit_of(address), memory_order_relaxed);
}

/* Acquire pairs with the release in add: whoever sees the bit sees the group's header. */
bool ec_pool_known_has(const struct ec_pool_known *known, const void *group)
{
    const uintptr_t address = (uintptr_t)group;
    struct leaf *leaf = known != NULL ? leaf_of(known, address) : NULL;

    return known == NULL ||
           (leaf != NULL && (atomic_load_explicit(word_of(leaf, address), memory_order_acquire) &
                             bit_of(address)) != 0);
}
