/* directory_writer.c - the writer's side of directory.h: entries, lives and the name index. */
#include "resources/directory_writer.h"

#include <assert.h>
#include <string.h>

#include "proto/handle.h"
#include "segment/references.h"

static uint32_t entry_unused(struct ec_directory *directory);
static void entry_free(struct ec_directory *directory, struct ec_directory_entry *entry,
                       uint32_t index);
static void name_write(struct ec_directory_entry *entry, const char *name);
static _Atomic uint32_t *index_slot(struct ec_directory *directory, const char *name);
static void index_remove(struct ec_directory *directory, const char *name);

static uint32_t high_of(const struct ec_directory *directory)
{
    return atomic_load_explicit(&directory->high, memory_order_relaxed);
}

static uint64_t life_of(const struct ec_directory *directory, uint32_t index)
{
    return atomic_load_explicit(&directory->entries[index].life, memory_order_relaxed);
}

/* Give the name to an unused entry and let the slot of the index point to it. */
static uint32_t entry_take(struct ec_directory *directory, const char *name,
                           enum ec_resource_state state)
{
    uint32_t index = entry_unused(directory);
    struct ec_directory_entry *entry = &directory->entries[index];
    uint32_t generation = ec_life_generation(life_of(directory, index));

    if (generation == 0)
        generation = atomic_load_explicit(&directory->first_generation, memory_order_relaxed);

    /* name_hash has been 0 for long; the fence keeps it before the name for a reader that still looks
     * at the entry under its old name. Pairs with the acquire fences in segment/directory.c. */
    atomic_thread_fence(memory_order_release);
    name_write(entry, name);
    atomic_store_explicit(&entry->life, ec_life_make(generation != 0 ? generation : 1, state),
                          memory_order_release);
    atomic_store_explicit(&entry->name_hash, ec_directory_hash(name), memory_order_release);
    /* Release: who finds the entry sees its name. Pairs with the acquire in ec_directory_find(). */
    atomic_store_explicit(index_slot(directory, name), index + 1, memory_order_release);
    return index;
}

int directory_add(struct ec_directory *directory, const char *name, uint32_t *index)
{
    assert(strlen(name) > 0 && strlen(name) < EC_RESOURCE_NAME_BYTES);
    assert(ec_directory_find(directory, name) == EC_RESOURCE_NONE);
    if (directory_room(directory) == 0)
        return EC_ERR_LIMIT;
    *index = entry_take(directory, name, EC_RESOURCE_UNLOADED);
    return EC_OK;
}

void directory_remove(struct ec_directory *directory, uint32_t index)
{
    struct ec_directory_entry *entry = &directory->entries[index];
    char name[EC_RESOURCE_NAME_BYTES];

    assert(directory_state(directory, index) != EC_RESOURCE_READY);
    if (ec_directory_name(directory, index, name) && ec_directory_find(directory, name) == index)
        index_remove(directory, name);
    entry_free(directory, entry, index);
}

uint32_t directory_replace(struct ec_directory *directory, uint32_t index)
{
    struct ec_directory_entry *entry = &directory->entries[index];
    uint32_t generation = directory_generation(directory, index), next;
    char name[EC_RESOURCE_NAME_BYTES];
    bool named = ec_directory_name(directory, index, name);

    assert(named && generation != 0 && directory_room(directory) > 0);
    (void)named;
    next = entry_take(directory, name, EC_RESOURCE_LOADING);
    /* The old entry keeps its hash until it is removed: readers that stand on it find it stale. */
    atomic_store_explicit(
        &entry->life,
        ec_life_make(generation != UINT32_MAX ? generation + 1 : 0, EC_RESOURCE_UNLOADED),
        memory_order_relaxed);
    return next;
}

uint32_t directory_room(const struct ec_directory *directory)
{
    return EC_RESOURCES_MAX - high_of(directory) + directory->free_count;
}

uint64_t directory_handle(const struct ec_directory *directory, uint32_t index)
{
    return ec_handle_make(index, directory_generation(directory, index));
}

uint32_t directory_generation(const struct ec_directory *directory, uint32_t index)
{
    return ec_life_generation(life_of(directory, index));
}

enum ec_resource_state directory_state(const struct ec_directory *directory, uint32_t index)
{
    return (enum ec_resource_state)ec_life_state(life_of(directory, index));
}

void directory_set_state(struct ec_directory *directory, uint32_t index,
                         enum ec_resource_state state)
{
    uint64_t life = life_of(directory, index);

    assert(state != EC_RESOURCE_READY && ec_life_state(life) != EC_RESOURCE_READY);
    atomic_store_explicit(&directory->entries[index].life,
                          ec_life_make(ec_life_generation(life), state), memory_order_relaxed);
}

void directory_publish(struct ec_directory *directory, uint32_t index, uint64_t offset,
                       const struct decoded *decoded)
{
    struct ec_directory_entry *entry = &directory->entries[index];
    uint32_t generation = directory_generation(directory, index);

    assert(generation != 0);
    /* The state before READY was stored long ago; the fence keeps it before the fields for a reader
     * that copies them without a reference and then looks at life again. */
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&entry->offset, offset, memory_order_relaxed);
    atomic_store_explicit(&entry->bytes, decoded->bytes, memory_order_relaxed);
    atomic_store_explicit(&entry->kind, decoded->kind, memory_order_relaxed);
    atomic_store_explicit(&entry->width, decoded->width, memory_order_relaxed);
    atomic_store_explicit(&entry->height, decoded->height, memory_order_relaxed);
    atomic_store_explicit(&entry->channels, decoded->channels, memory_order_relaxed);
    atomic_store_explicit(&entry->stride, decoded->stride, memory_order_relaxed);
    atomic_store_explicit(&entry->levels, decoded->levels, memory_order_relaxed);
    /* Release: fields and bytes are complete. Pairs with the acquire load in ec_reference_acquire(). */
    atomic_store_explicit(&entry->life, ec_life_make(generation, EC_RESOURCE_READY),
                          memory_order_release);
}

int directory_advance(struct ec_directory *directory, uint32_t *index, enum ec_resource_state state)
{
    struct ec_directory_entry *entry = &directory->entries[*index];
    uint32_t generation = directory_generation(directory, *index);
    char name[EC_RESOURCE_NAME_BYTES];

    if (generation != UINT32_MAX && generation != 0) {
        atomic_store_explicit(&entry->life, ec_life_make(generation + 1, state),
                              memory_order_relaxed);
        return EC_OK;
    }
    atomic_store_explicit(&entry->life, ec_life_make(0, state), memory_order_relaxed);
    if (directory_room(directory) == 0)
        return EC_ERR_LIMIT;
    ec_directory_name(directory, *index, name);
    *index = entry_take(directory, name, state);
    return EC_OK;
}

/* One that lost its name, or the next that never had one. */
static uint32_t entry_unused(struct ec_directory *directory)
{
    uint32_t index = high_of(directory);

    if (directory->first_free != 0) {
        index = directory->first_free - 1;
        directory->first_free =
            (uint32_t)atomic_load_explicit(&directory->entries[index].offset, memory_order_relaxed);
        directory->free_count--;
        return index;
    }
    atomic_store_explicit(&directory->high, index + 1, memory_order_release);
    return index;
}

/* The handle that lists have shown for it must not fit the next name, so another life begins. */
static void entry_free(struct ec_directory *directory, struct ec_directory_entry *entry,
                       uint32_t index)
{
    uint32_t generation = directory_generation(directory, index);

    atomic_store_explicit(&entry->name_hash, 0, memory_order_relaxed);
    if (generation == 0 || generation == UINT32_MAX) { /* retired */
        atomic_store_explicit(&entry->life, ec_life_make(0, EC_RESOURCE_UNLOADED),
                              memory_order_release);
        return;
    }
    atomic_store_explicit(&entry->life, ec_life_make(generation + 1, EC_RESOURCE_UNLOADED),
                          memory_order_release);
    atomic_store_explicit(&entry->offset, directory->first_free, memory_order_relaxed);
    directory->first_free = index + 1;
    directory->free_count++;
}

static void name_write(struct ec_directory_entry *entry, const char *name)
{
    size_t bytes = strlen(name);

    for (size_t at = 0; at < EC_RESOURCE_NAME_BYTES; at += 8) {
        uint64_t word = 0;

        if (at < bytes)
            memcpy(&word, name + at, bytes - at < 8 ? bytes - at : 8);
        atomic_store_explicit(&entry->name[at / 8], word, memory_order_relaxed);
    }
}

static bool slot_is(const struct ec_directory *directory, uint32_t place, const char *name)
{
    char there[EC_RESOURCE_NAME_BYTES];

    return place != EC_RESOURCE_INDEX_GONE && ec_directory_name(directory, place - 1, there) &&
           strcmp(there, name) == 0;
}

/* The slot that points to the name, or the one where it belongs: the first on the way that is free.
 * There are twice as many slots as entries, so there is always one. */
static _Atomic uint32_t *index_slot(struct ec_directory *directory, const char *name)
{
    uint32_t slot = ec_directory_slot(ec_directory_hash(name));
    _Atomic uint32_t *gone = NULL;

    for (uint32_t probe = 0; probe < EC_RESOURCE_INDEX_SLOTS; probe++) {
        uint32_t place = atomic_load_explicit(&directory->index[slot], memory_order_relaxed);

        if (place == 0)
            return gone != NULL ? gone : &directory->index[slot];
        if (place == EC_RESOURCE_INDEX_GONE && gone == NULL)
            gone = &directory->index[slot];
        if (slot_is(directory, place, name))
            return &directory->index[slot];
        slot = (slot + 1) & (EC_RESOURCE_INDEX_SLOTS - 1);
    }
    assert(gone != NULL);
    return gone;
}

/* A slot before an empty one may be empty, too: no search goes on behind it. */
static void index_remove(struct ec_directory *directory, const char *name)
{
    const uint32_t mask = EC_RESOURCE_INDEX_SLOTS - 1;
    uint32_t slot = (uint32_t)(index_slot(directory, name) - directory->index);

    atomic_store_explicit(&directory->index[slot], EC_RESOURCE_INDEX_GONE, memory_order_relaxed);
    while (atomic_load_explicit(&directory->index[(slot + 1) & mask], memory_order_relaxed) == 0 &&
           atomic_load_explicit(&directory->index[slot], memory_order_relaxed) ==
               EC_RESOURCE_INDEX_GONE) {
        atomic_store_explicit(&directory->index[slot], 0, memory_order_relaxed);
        slot = (slot - 1) & mask;
    }
}
