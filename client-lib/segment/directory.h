/* directory.h - find a resource in the directory by its name, without the daemon.
 *
 * Thread: any; the writer may add names meanwhile. Cost: a hash of the name and mostly one probe. */
#ifndef EC_SEGMENT_DIRECTORY_H
#define EC_SEGMENT_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/directory.h"

#define EC_RESOURCE_NONE UINT32_MAX

/* FNV-1a of the name, never 0. */
uint64_t ec_directory_hash(const char *name);

/* The slot to begin the search at; the next one is (slot + 1) mod EC_RESOURCE_INDEX_SLOTS. */
static inline uint32_t ec_directory_slot(uint64_t hash)
{
    return (uint32_t)(hash ^ hash >> 32) & (EC_RESOURCE_INDEX_SLOTS - 1);
}

/* The index of the entry, or EC_RESOURCE_NONE. What the index says is bounded before it is used. *life
 * (NULL: not wanted) is of this name, even if the entry changes hands meanwhile. */
uint32_t ec_directory_find_life(const struct ec_directory *directory, const char *name,
                                uint64_t *life);

/* The same by hash alone. */
uint32_t ec_directory_find_hash(const struct ec_directory *directory, uint64_t hash,
                                uint64_t *life);

static inline uint32_t ec_directory_find(const struct ec_directory *directory, const char *name)
{
    return ec_directory_find_life(directory, name, NULL);
}

/* Copy the name of entry index, < EC_RESOURCES_MAX. false: it has none now. */
bool ec_directory_name(const struct ec_directory *directory, uint32_t index,
                       char name[EC_RESOURCE_NAME_BYTES]);

#endif
