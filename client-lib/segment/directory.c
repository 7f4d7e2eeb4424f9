/* directory.c - the reader's side of the name index. */
#include "segment/directory.h"

#include <string.h>

static bool entry_is(const struct ec_directory_entry *entry, uint64_t hash, const char *name,
                     size_t bytes, uint64_t *life);
static bool name_is(const struct ec_directory_entry *entry, const char *name, size_t bytes);
static inline uint32_t find(const struct ec_directory *directory, uint64_t hash, const char *name,
                            size_t bytes, uint64_t *life);

/* The length comes with it, so that the name is gone through once. */
static inline uint64_t hash_of(const char *name, size_t *bytes)
{
    uint64_t hash = 0xcbf29ce484222325ull;
    const char *at = name;

    for (; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3ull;
    *bytes = (size_t)(at - name);
    return hash != 0 ? hash : 1; /* 0 marks an entry that was never used */
}

uint64_t ec_directory_hash(const char *name)
{
    size_t bytes;

    return hash_of(name, &bytes);
}

uint32_t ec_directory_find_life(const struct ec_directory *directory, const char *name,
                                uint64_t *life)
{
    size_t bytes;
    uint64_t hash = hash_of(name, &bytes);

    return find(directory, hash, name, bytes, life);
}

uint32_t ec_directory_find_hash(const struct ec_directory *directory, uint64_t hash, uint64_t *life)
{
    return find(directory, hash, NULL, 0, life);
}

static inline uint32_t find(const struct ec_directory *directory, uint64_t hash, const char *name,
                            size_t bytes, uint64_t *life)
{
    uint32_t slot = ec_directory_slot(hash);

    for (uint32_t probe = 0; probe < EC_RESOURCE_INDEX_SLOTS; probe++) {
        /* Acquire: pairs with the release store that made the entry's name visible. */
        uint32_t place = atomic_load_explicit(&directory->index[slot], memory_order_acquire);

        if (place == 0 || (place > EC_RESOURCES_MAX && place != EC_RESOURCE_INDEX_GONE))
            return EC_RESOURCE_NONE;
        if (place != EC_RESOURCE_INDEX_GONE &&
            entry_is(&directory->entries[place - 1], hash, name, bytes, life))
            return place - 1;
        slot = (slot + 1) & (EC_RESOURCE_INDEX_SLOTS - 1);
    }
    return EC_RESOURCE_NONE;
}

bool ec_directory_name(const struct ec_directory *directory, uint32_t index,
                       char name[EC_RESOURCE_NAME_BYTES])
{
    const struct ec_directory_entry *entry = &directory->entries[index];
    uint64_t hash = atomic_load_explicit(&entry->name_hash, memory_order_acquire);

    for (size_t i = 0; i < EC_RESOURCE_NAME_BYTES / 8; i++) {
        uint64_t word = atomic_load_explicit(&entry->name[i], memory_order_relaxed);

        memcpy(name + i * 8, &word, 8);
    }
    name[EC_RESOURCE_NAME_BYTES - 1] = '\0';
    atomic_thread_fence(memory_order_acquire); /* pairs with the release fence in entry_take() */
    return hash != 0 && atomic_load_explicit(&entry->name_hash, memory_order_relaxed) == hash;
}

/* The hash is looked at again after name and life: an entry that changes hands loses it first (release
 * fence in entry_take(), release store of a later life), so what was read belongs to this name. */
static bool entry_is(const struct ec_directory_entry *entry, uint64_t hash, const char *name,
                     size_t bytes, uint64_t *life)
{
    if (atomic_load_explicit(&entry->name_hash, memory_order_acquire) != hash ||
        (name != NULL && !name_is(entry, name, bytes)))
        return false;
    if (life != NULL)
        *life = atomic_load_explicit(&entry->life, memory_order_acquire);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&entry->name_hash, memory_order_relaxed) == hash;
}

/* The next 8 bytes of a name, or what is left of it and NULs. Not by a memcpy of so many bytes, which would
 * be a call. */
static inline uint64_t word_of(const char *text, size_t left)
{
    uint64_t word = 0;

    if (left >= 8) {
        memcpy(&word, text, 8);
        return word;
    }
    for (size_t i = 0; i < left; i++)
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        word |= (uint64_t)(unsigned char)text[i] << 8 * i;
#else
        word |= (uint64_t)(unsigned char)text[i] << 8 * (7 - i);
#endif
    return word;
}

static bool name_is(const struct ec_directory_entry *entry, const char *name, size_t bytes)
{
    if (bytes >= EC_RESOURCE_NAME_BYTES)
        return false;
    for (size_t at = 0; at <= bytes; at += 8)
        if (atomic_load_explicit(&entry->name[at / 8], memory_order_relaxed) !=
            word_of(name + at, bytes - at))
            return false;
    return true;
}
