/* directory.c - the reader's side of the name index. */
#include "segment/directory.h"

#include <string.h>

uint64_t ec_directory_hash(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325ull;

    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3ull;
    return hash != 0 ? hash : 1; /* 0 marks an entry that was never used */
}

uint32_t ec_directory_find(const struct ec_directory *directory, const char *name)
{
    uint64_t hash = ec_directory_hash(name);
    uint32_t slot = ec_directory_slot(hash);

    for (uint32_t probe = 0; probe < EC_RESOURCE_INDEX_SLOTS; probe++) {
        /* Acquire: pairs with the release store that made the entry's name visible. */
        uint32_t place = atomic_load_explicit(&directory->index[slot], memory_order_acquire);

        if (place == 0 || place > EC_RESOURCES_MAX)
            return EC_RESOURCE_NONE;
        if (atomic_load_explicit(&directory->entries[place - 1].name_hash, memory_order_relaxed) ==
                hash &&
            strncmp(directory->entries[place - 1].name, name, EC_RESOURCE_NAME_BYTES) == 0)
            return place - 1;
        slot = (slot + 1) & (EC_RESOURCE_INDEX_SLOTS - 1);
    }
    return EC_RESOURCE_NONE;
}
