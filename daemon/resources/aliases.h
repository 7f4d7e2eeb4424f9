/* aliases.h - other names for paths: what a resource names, and what is looked up for it.
 *
 * A row is a name and a path, or two prefixes that end in '/': with "textures/" -> "hd/textures/",
 * textures/wall.png is looked up as hd/textures/wall.png. A whole name wins over a prefix, and a longer
 * prefix over a shorter one. What comes out is looked up as it is; it is not an alias again.
 *
 * Thread: one at a time. Cost: a binary search for the name and for each '/' in it. */
#ifndef RESOURCES_ALIASES_H
#define RESOURCES_ALIASES_H

#include <stddef.h>
#include <stdint.h>

#include "foundation/error.h"

#define ALIASES_MAX 4096

struct alias {
    const char *name;
    const char *path;
};

struct aliases {
    struct alias *rows; /* sorted by name; zero is an empty table */
    uint32_t count;
};

/* Remove names, then set others anew; all or nothing. What is given is copied.
 *
 * Returns EC_OK, EC_ERR_NOT_FOUND (a name to remove is none), EC_ERR_PATH (a name or path is refused,
 * or only one of both is a prefix), EC_ERR_LIMIT or EC_ERR_MEMORY. */
int aliases_change(struct aliases *aliases, const char *const *remove, uint32_t remove_count,
                   const struct alias *set, uint32_t set_count, struct ec_error *why);
void aliases_finish(struct aliases *aliases); /* accepts a zeroed one */

/* The path to look up for a name: that itself, or what its alias makes of it.
 *
 * Returns EC_OK or EC_ERR_PATH (longer than bytes). */
int aliases_resolve(const struct aliases *aliases, const char *name, char *path, size_t bytes,
                    struct ec_error *why);

#endif
