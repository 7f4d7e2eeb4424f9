/* foundation/memory/checks.h - what allocators look for when nobody said it for one of them.
 *
 * Light checks (double frees, pointers that are no block) are on in the tiers debug and development; in
 * release the environment switches them on, ENGINE_CORE_CHECKS=1. Guard bytes are on in the tier debug.
 *
 * Thread: any. Cost: the environment is read once. */
#ifndef EC_FOUNDATION_MEMORY_CHECKS_H
#define EC_FOUNDATION_MEMORY_CHECKS_H

#include <stdbool.h>

bool ec_memory_checks_are_on(void);
bool ec_memory_guards_are_on(void);

#endif
