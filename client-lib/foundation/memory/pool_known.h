/* foundation/memory/pool_known.h - which addresses are groups of a pool, for the checking tiers.
 *
 * A pointer that is no block may point anywhere, so the group that it seems to lie in must not be
 * touched before it is known to be one. A table of two levels holds one bit per 64 KiB of the address
 * space; its unused pages never come into being.
 *
 * Thread: any. Cost: two loads to ask. Functions accept NULL, which knows everything. */
#ifndef EC_FOUNDATION_MEMORY_POOL_KNOWN_H
#define EC_FOUNDATION_MEMORY_POOL_KNOWN_H

#include <stdbool.h>

struct ec_pool_known;

struct ec_pool_known *ec_pool_known_create(void); /* NULL: no memory */
void ec_pool_known_destroy(struct ec_pool_known *known);

bool ec_pool_known_add(struct ec_pool_known *known, const void *group); /* false: no memory */
void ec_pool_known_remove(struct ec_pool_known *known, const void *group);
bool ec_pool_known_has(const struct ec_pool_known *known, const void *group);

#endif
