/* resource.c - find, acquire and release through the mapped directory and heap.
 *
 * The protocol of acquire against evict stands in segment/references.h. What the directory says is
 * copied while the reference is held, which keeps it still, and bounded by the mapping of the heap. */
#include <engine-core/resource.h>

#include <assert.h>

#include "client/client.h"
#include "proto/handle.h"
#include "proto/image_levels.h"
#include "segment/directory.h"
#include "segment/references.h"

/* What is not needed in most calls stays out of line, so that those save no registers for it. */
#define COLD __attribute__((noinline, cold))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)

static int acquire_otherwise(struct ec_client *client, ec_resource resource) COLD;
static enum ec_reference_order order_decide(struct ec_client *client);
static int view_fill(struct ec_client *client, ec_resource resource, struct ec_resource_view *view)
    __attribute__((noinline));
static int view_copy(const struct ec_client *client, ec_resource resource,
                     struct ec_resource_view *view);
static bool image_fits(const struct ec_resource_view *view);

static inline const struct ec_directory_entry *entry_of(const struct ec_client *client,
                                                        ec_resource resource)
{
    return &ec_client_directory(client)->entries[ec_handle_index(resource.value)];
}

static inline _Atomic int32_t *count_of(struct ec_client *client, uint32_t thread,
                                        ec_resource resource)
{
    return &ec_client_own(client)->hard.count[thread][ec_handle_index(resource.value)];
}

int ec_resource_find(struct ec_client *client, const char *name, ec_resource *resource)
{
    const struct ec_directory *directory = ec_client_directory(client);
    uint32_t index = ec_directory_find(directory, name);
    uint64_t life;

    resource->value = 0;
    if (index == EC_RESOURCE_NONE)
        return EC_ERR_NOT_FOUND;
    life = atomic_load_explicit(&directory->entries[index].life, memory_order_acquire);
    switch (ec_life_state(life)) {
    case EC_RESOURCE_READY:
        resource->value = ec_handle_make(index, ec_life_generation(life));
        return EC_OK;
    case EC_RESOURCE_LOADING:
    case EC_RESOURCE_EVICTING:
        return EC_AGAIN;
    default:
        return EC_ERR_STATE;
    }
}

int ec_resource_acquire(struct ec_client *client, ec_resource resource,
                        struct ec_resource_view *view)
{
    uint32_t thread = ec_client_thread_slot_inline(client);
    uint32_t order = atomic_load_explicit(&client->reference_order, memory_order_relaxed);
    int rc;

    if (ec_handle_index(resource.value) >= EC_RESOURCES_MAX)
        return EC_ERR_STALE;
    if (LIKELY(order == EC_REFERENCE_MEMBARRIER && !ec_reference_row_is_shared(thread)))
        rc = ec_reference_acquire(count_of(client, thread, resource), false,
                                  EC_REFERENCE_MEMBARRIER, &entry_of(client, resource)->life,
                                  ec_handle_generation(resource.value));
    else
        rc = acquire_otherwise(client, resource);
    if (LIKELY(view == NULL) || rc != EC_OK)
        return rc;
    return view_fill(client, resource, view);
}

void ec_resource_release(struct ec_client *client, ec_resource resource)
{
    uint32_t thread = ec_client_thread_slot_inline(client);

    assert(ec_handle_index(resource.value) < EC_RESOURCES_MAX);
    if (ec_handle_index(resource.value) < EC_RESOURCES_MAX) /* else it was never acquired */
        ec_reference_release(count_of(client, thread, resource),
                             ec_reference_row_is_shared(thread));
}

/* The first time, with fences, or on the shared row. */
static int acquire_otherwise(struct ec_client *client, ec_resource resource)
{
    uint32_t thread = ec_client_thread_slot(client);
    uint32_t order = atomic_load_explicit(&client->reference_order, memory_order_relaxed);

    if (order == EC_REFERENCE_UNDECIDED)
        order = order_decide(client);
    return ec_reference_acquire(count_of(client, thread, resource),
                                ec_reference_row_is_shared(thread), (enum ec_reference_order)order,
                                &entry_of(client, resource)->life,
                                ec_handle_generation(resource.value));
}

/* Several threads may come here at once; all decide the same. */
static enum ec_reference_order order_decide(struct ec_client *client)
{
    bool daemon_fences =
        atomic_load_explicit(&ec_client_directory(client)->membarrier, memory_order_relaxed) != 0;
    enum ec_reference_order order = ec_reference_register(daemon_fences);

    atomic_store_explicit(&client->reference_order, (uint32_t)order, memory_order_relaxed);
    return order;
}

/* The resource is held; it is given back when the directory makes no sense. */
static int view_fill(struct ec_client *client, ec_resource resource, struct ec_resource_view *view)
{
    int rc = view_copy(client, resource, view);

    if (rc < 0)
        ec_resource_release(client, resource);
    return rc;
}

static int view_copy(const struct ec_client *client, ec_resource resource,
                     struct ec_resource_view *view)
{
    const struct ec_directory_entry *entry = entry_of(client, resource);
    uint64_t heap_bytes;
    const unsigned char *heap = ec_client_heap(client, &heap_bytes);
    uint64_t offset = atomic_load_explicit(&entry->offset, memory_order_relaxed);
    uint64_t bytes = atomic_load_explicit(&entry->bytes, memory_order_relaxed);

    if (offset > heap_bytes || bytes > heap_bytes - offset)
        return EC_ERR_LAYOUT;
    *view = (struct ec_resource_view) {
        .data = heap + offset,
        .bytes = bytes,
        .content =
            (enum ec_resource_content)atomic_load_explicit(&entry->kind, memory_order_relaxed),
        .width = atomic_load_explicit(&entry->width, memory_order_relaxed),
        .height = atomic_load_explicit(&entry->height, memory_order_relaxed),
        .channels = atomic_load_explicit(&entry->channels, memory_order_relaxed),
        .stride = atomic_load_explicit(&entry->stride, memory_order_relaxed),
        .levels = atomic_load_explicit(&entry->levels, memory_order_relaxed),
    };
    /* Another daemon may have brought another directory and heap meanwhile. It empties the directory
     * first, so who still finds the old generation here had the old heap, too. The fence keeps the
     * loads above before this one. */
    atomic_thread_fence(memory_order_acquire);
    if (ec_life_generation(atomic_load_explicit(&entry->life, memory_order_relaxed)) !=
        ec_handle_generation(resource.value))
        return EC_ERR_STALE;
    /* A game that walks over rows and levels must stay inside the bytes. */
    return view->content != EC_RESOURCE_IMAGE || image_fits(view) ? EC_OK : EC_ERR_LAYOUT;
}

static bool image_fits(const struct ec_resource_view *view)
{
    return view->width > 0 && view->width <= EC_IMAGE_SIDE_MAX && view->height > 0 &&
           view->height <= EC_IMAGE_SIDE_MAX && view->channels > 0 && view->channels <= 4 &&
           view->stride == view->width * view->channels && view->levels > 0 &&
           view->levels <= ec_image_level_count(view->width, view->height) &&
           ec_image_levels_bytes(view->width, view->height, view->channels, view->levels) <=
               view->bytes;
}

struct ec_resource_level ec_resource_level(const struct ec_resource_view *view, uint32_t index)
{
    struct ec_resource_level level = { 0 };

    if (index >= view->levels)
        return level;
    level.offset = ec_image_level_offset(view->width, view->height, view->channels, index);
    level.data = (const unsigned char *)view->data + level.offset;
    level.width = ec_image_level_side(view->width, index);
    level.height = ec_image_level_side(view->height, index);
    level.stride = level.width * view->channels;
    level.bytes = (size_t)level.stride * level.height;
    return level;
}
