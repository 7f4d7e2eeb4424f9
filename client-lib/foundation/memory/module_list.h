/* foundation/memory/module_list.h - write down which files this process has loaded, and where.
 *
 * With this, and only with this, an address of a process that is gone can be named.
 *
 * Thread: any, but not from inside an allocator: it waits for the loader. Cost: nothing when nothing
 *         was loaded since the last time; else a pass over all modules. */
#ifndef EC_FOUNDATION_MEMORY_MODULE_LIST_H
#define EC_FOUNDATION_MEMORY_MODULE_LIST_H

#include <stdbool.h>

#include "proto/memory_sites.h"

struct ec_module_list {
    struct ec_tracking *tracking;
    unsigned long long loads, unloads; /* as they were at the last look */
};

/* Bring the rows up to date. false: nothing has changed. One caller at a time. */
bool ec_module_list_update(struct ec_module_list *list);

#endif
