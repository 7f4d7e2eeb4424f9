/* directory_writer.c - the writer's side of directory.h: entries, lives and the name index. */
#include "resources/directory_writer.h"

#include <assert.h>
#include <string.h>

#include "proto/handle.h"
#include "segment/references.h"

static _Atomic uint32_t *index_slot(struct ec_directory *directory, const char *name);

static uint32_t high_of(const struct ec_directory *directory)
{
    return atomic_load_explicit(&directory->high, memory_order_relaxed);
}

static uint64_t life_of(const struct ec_directory *directory, uint32_t index)
{
    return atomic_load_explicit(&directory->entries[index].life, memory_order_relaxed);
}

/* Take the next entry for the name and let the slot of the index point to it. */
static uint32_t entry_take(struct ec_directory *directory, const char *name,
                           enum ec_resource_state state)
{
    uint32_t index = high_of(directory);
    struct ec_directory_entry *entry = &directory->entries[index];
    uint32_t generation = atomic_load_explicit(&directory->first_generation, memory_order_relaxed);

    memcpy(entry->name, name, strlen(name) + 1);
    atomic_store_explicit(&entry->name_hash, ec_directory_hash(name), memory_order_relaxed);
    atomic_store_explicit(&entry->life, ec_life_make(generation != 0 ? generation : 1, state),
                          memory_order_relaxed);
    atomic_store_explicit(&directory->high, index + 1, memory_order_release);
    /* Release: who finds the entry sees its name. Pairs with the acquire in ec_directory_find(). */
    atomic_store_explicit(index_slot(directory, name), index + 1, memory_order_release);
    return index;
}

int directory_add(struct ec_directory *directory, const char *name, uint32_t *index)
{
    assert(strlen(name) > 0 && strlen(name) < EC_RESOURCE_NAME_BYTES);
    assert(ec_directory_find(directory, name) == EC_RESOURCE_NONE);
    if (high_of(directory) == EC_RESOURCES_MAX)
        return EC_ERR_LIMIT;
    *index = entry_take(directory, name, EC_RESOURCE_UNLOADED);
    return EC_OK;
}

uint32_t directory_room(const struct ec_directory *directory)
{
    return EC_RESOURCES_MAX - high_of(directory);
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

    if (generation != UINT32_MAX && generation != 0) {
        atomic_store_explicit(&entry->life, ec_life_make(generation + 1, state),
                              memory_order_relaxed);
        return EC_OK;
    }
    atomic_store_explicit(&entry->life, ec_life_make(0, state), memory_order_relaxed);
    if (high_of(directory) == EC_RESOURCES_MAX)
        return EC_ERR_LIMIT;
    *index = entry_take(directory, entry->name, state);
    return EC_OK;
}

/* The slot that points to the name, or the empty one where it belongs. There are twice as many slots
 * as entries, so there is always one. */
static _Atomic uint32_t *index_slot(struct ec_directory *directory, const char *name)
{
    uint64_t hash = ec_directory_hash(name);
    uint32_t slot = ec_directory_slot(hash);

    for (;;) {
        uint32_t place = atomic_load_explicit(&directory->index[slot], memory_order_relaxed);

        if (place == 0 || strcmp(directory->entries[place - 1].name, name) == 0)
            return &directory->index[slot];
        slot = (slot + 1) & (EC_RESOURCE_INDEX_SLOTS - 1);
    }
}
