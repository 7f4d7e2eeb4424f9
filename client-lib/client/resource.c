/* resource.c - find, acquire and release through the mapped directory and heap.
 *
 * The protocol of acquire against evict stands in segment/references.h. What the directory says is
 * copied while the reference is held, which keeps it still, and bounded by the mapping of the heap. */
#include <engine-core/resource.h>

#include <assert.h>
#include <engine-core/resource_inline.h>
#include <stddef.h>

#include "client/client.h"
#include "foundation/json/json_writer.h"
#include "proto/handle.h"
#include "proto/image_levels.h"
#include "segment/directory.h"
#include "segment/references.h"
#include "segment/use_ring.h"

/* What is not needed in most calls stays out of line, so that those save no registers for it. */
#define COLD __attribute__((noinline, cold))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)

/* What programs have compiled in. */
static_assert(EC_INLINE_RESOURCES == EC_RESOURCES_MAX, "programs know how many there are");
static_assert(EC_INLINE_EPOCH_AT == offsetof(struct ec_directory, use_epoch), "programs read it");
static_assert(EC_INLINE_ENTRIES_AT == offsetof(struct ec_directory, entries), "programs read it");
static_assert(EC_INLINE_ENTRY_BYTES == sizeof(struct ec_directory_entry), "programs count so");
static_assert(offsetof(struct ec_directory_entry, life) == 0, "programs read it");
static_assert(EC_INLINE_READY == EC_RESOURCE_READY, "programs compare with it");
static_assert(EC_INLINE_NEWEST_AT == offsetof(struct ec_use_ring, last), "programs read it");
static_assert(offsetof(struct ec_client, fenced_serial) == 0, "programs read it");

static int found(uint32_t index, uint64_t life, ec_resource *resource);
static int acquire_otherwise(struct ec_client *client, ec_resource resource,
                             struct ec_resource_view *view) COLD;
static int acquire_in_vain(struct ec_client *client, ec_resource resource, uint64_t now) COLD;
static int acquire_rest(struct ec_client *client, ec_resource resource,
                        struct ec_resource_view *view) __attribute__((noinline));
static void release_otherwise(struct ec_client *client, ec_resource resource) COLD;
static bool is_held(struct ec_client *client, ec_resource resource, uint64_t life);
static enum ec_reference_order order_decide(struct ec_client *client);
static int view_fill(struct ec_client *client, ec_resource resource, struct ec_resource_view *view)
    __attribute__((noinline));
static int view_judge(struct ec_client *client, ec_resource resource, struct ec_resource_view *view,
                      int rc) __attribute__((noinline));
static int image_judge(const struct ec_resource_view *view, int rc);
static inline int view_copy(const struct ec_client *client, ec_resource resource,
                            uint32_t generation, struct ec_resource_view *view);
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
    uint64_t life;
    uint32_t index = ec_directory_find_life(ec_client_directory(client), name, &life);

    return found(index, life, resource);
}

int ec_resource_find_hash(struct ec_client *client, uint64_t hash, ec_resource *resource)
{
    uint64_t life;
    uint32_t index = ec_directory_find_hash(ec_client_directory(client), hash, &life);

    return found(index, life, resource);
}

static int found(uint32_t index, uint64_t life, ec_resource *resource)
{
    resource->value = 0;
    if (index == EC_RESOURCE_NONE)
        return EC_ERR_NOT_FOUND;
    switch (ec_life_state(life)) {
    case EC_RESOURCE_READY:
        resource->value = ec_handle_make(index, ec_life_generation(life));
        return EC_OK;
    case EC_RESOURCE_LOADING:
    case EC_RESOURCE_EVICTING:
        return EC_AGAIN;
    case EC_RESOURCE_EVICTED:
        return EC_ERR_EVICTED;
    default:
        return EC_ERR_STATE;
    }
}

/* The way of nearly all: this thread has a row of its own in the first client that it came to know, and
 * the daemon fences. Everything else leaves by a tail call, so that nothing is saved here. */
int ec_resource_acquire(struct ec_client *client, ec_resource resource,
                        struct ec_resource_view *view)
{
    const struct ec_resource_thread *here = &ec_resource_thread;
    uint64_t index = ec_handle_index(resource.value), now;

    if (!ec_resource_inline_may(client, here, index))
        return acquire_otherwise(client, resource, view);
    now = ec_resource_inline_raise(here, index);
    if (!LIKELY(now == resource.value - index + EC_RESOURCE_READY))
        return acquire_in_vain(client, resource, now);
    if (!ec_resource_inline_is_newest(here, index))
        return acquire_rest(client, resource, view);
    return LIKELY(view == NULL) ? EC_OK : view_fill(client, resource, view);
}

int ec_resource_access(struct ec_client *client, ec_resource resource,
                       struct ec_resource_view *view)
{
    const struct ec_directory_entry *entry;
    uint64_t life;

    if (ec_handle_index(resource.value) >= EC_RESOURCES_MAX)
        return EC_ERR_STALE;
    entry = entry_of(client, resource);
    /* The fields stand still while the caller holds it; what is replaced keeps them, too. */
    life = atomic_load_explicit(&entry->life, memory_order_acquire);
    if (life != ec_life_make(ec_handle_generation(resource.value), EC_RESOURCE_READY) &&
        !is_held(client, resource, life))
        return ec_reference_refused(life, ec_handle_generation(resource.value));
    return image_judge(view, view_copy(client, resource, ec_life_generation(life), view));
}

int ec_resource_request(struct ec_client *client, const char *name)
{
    char params[EC_RESOURCE_NAME_BYTES * 6 + 64];
    struct ec_json_writer writer;
    struct ec_error why;

    if (ec_directory_find(ec_client_directory(client), name) == EC_RESOURCE_NONE)
        return EC_ERR_NOT_FOUND;
    ec_json_writer_init(&writer, params, sizeof params - 1);
    ec_json_object_begin(&writer);
    ec_json_member_string(&writer, "name", name);
    ec_json_member_boolean(&writer, "wait", false);
    ec_json_object_end(&writer);
    params[writer.bytes] = '\0';
    return ec_connection_notify(client->connection, "resource.request", params, &why);
}

/* A life that is not READY goes on for those who hold it. The daemon may just be looking whether anybody
 * does; or it was replaced, then the entry is one generation on and unloaded. */
static bool is_held(struct ec_client *client, ec_resource resource, uint64_t life)
{
    const struct ec_client_segment *own = ec_client_own(client);
    uint32_t generation = ec_handle_generation(resource.value);

    return (life == ec_life_make(generation, EC_RESOURCE_EVICTING) ||
            life == ec_life_make(generation + 1, EC_RESOURCE_UNLOADED)) &&
           ec_reference_sum(own, &own->hard, ec_handle_index(resource.value)) > 0;
}

void ec_resource_release(struct ec_client *client, ec_resource resource)
{
    const struct ec_resource_thread *here = &ec_resource_thread;
    uint64_t index = ec_handle_index(resource.value);

    assert(index < EC_RESOURCES_MAX); /* else it was never acquired */
    if (ec_resource_inline_may(client, here, index))
        ec_resource_inline_add(here, index, -1, __ATOMIC_RELEASE);
    else
        release_otherwise(client, resource);
}

int ec_resource_note_use(struct ec_client *client, ec_resource resource)
{
    const struct ec_resource_thread *here = &ec_resource_thread;
    uint32_t index = ec_handle_index(resource.value);

    if (ec_resource_inline_may(client, here, index))
        ec_use_ring_add(
            (struct ec_use_ring *)(void *)here->uses,
            atomic_load_explicit(&ec_client_directory(client)->use_epoch, memory_order_relaxed),
            index, false);
    return EC_OK;
}

/* The first time, with fences, on the shared row, or in another client than this thread's first. */
static int acquire_otherwise(struct ec_client *client, ec_resource resource,
                             struct ec_resource_view *view)
{
    uint32_t thread = ec_client_thread_slot_plain(client);
    uint32_t order = atomic_load_explicit(&client->reference_order, memory_order_relaxed);
    int rc;

    if (ec_handle_index(resource.value) >= EC_RESOURCES_MAX)
        return EC_ERR_STALE;
    if (order == EC_REFERENCE_UNDECIDED)
        order = order_decide(client);
    rc =
        ec_reference_acquire(count_of(client, thread, resource), ec_reference_row_is_shared(thread),
                             (enum ec_reference_order)order, &entry_of(client, resource)->life,
                             ec_handle_generation(resource.value));
    return rc == EC_OK ? acquire_rest(client, resource, view) : rc;
}

/* The count in the own row was raised, but the life is another one. now is what was seen: since then an
 * eviction may have been undone. */
static int acquire_in_vain(struct ec_client *client, ec_resource resource, uint64_t now)
{
    uint32_t thread = ec_client_thread_slot(client);

    ec_reference_add(count_of(client, thread, resource), (uint32_t)-1, false, memory_order_relaxed);
    return ec_reference_refused(now, ec_handle_generation(resource.value));
}

/* It is held: note the use, and fill the view. */
static int acquire_rest(struct ec_client *client, ec_resource resource,
                        struct ec_resource_view *view)
{
    uint32_t thread = ec_client_thread_slot(client);

    ec_use_ring_add(
        &ec_client_own(client)->uses[thread],
        atomic_load_explicit(&ec_client_directory(client)->use_epoch, memory_order_relaxed),
        ec_handle_index(resource.value), ec_reference_row_is_shared(thread));
    return view == NULL ? EC_OK : view_fill(client, resource, view);
}

static void release_otherwise(struct ec_client *client, ec_resource resource)
{
    uint32_t thread = ec_client_thread_slot_plain(client);

    if (ec_handle_index(resource.value) < EC_RESOURCES_MAX)
        ec_reference_release(count_of(client, thread, resource),
                             ec_reference_row_is_shared(thread));
}

/* Several threads may come here at once; all decide the same. */
static enum ec_reference_order order_decide(struct ec_client *client)
{
    bool daemon_fences =
        atomic_load_explicit(&ec_client_directory(client)->membarrier, memory_order_relaxed) != 0;
    enum ec_reference_order order = ec_reference_register(daemon_fences);

    atomic_store_explicit(&client->reference_order, (uint32_t)order, memory_order_relaxed);
    if (order == EC_REFERENCE_MEMBARRIER)
        atomic_store_explicit(&client->fenced_serial, client->serial, memory_order_relaxed);
    return order;
}

/* The resource is held; it is given back when the directory makes no sense. */
static int view_fill(struct ec_client *client, ec_resource resource, struct ec_resource_view *view)
{
    int rc = view_copy(client, resource, ec_handle_generation(resource.value), view);

    if (LIKELY(rc == EC_OK && view->content != EC_RESOURCE_IMAGE))
        return EC_OK;
    return view_judge(client, resource, view, rc);
}

static int view_judge(struct ec_client *client, ec_resource resource, struct ec_resource_view *view,
                      int rc)
{
    rc = image_judge(view, rc);
    if (rc < 0)
        ec_resource_release(client, resource);
    return rc;
}

/* A game that walks over rows and levels must stay inside the bytes. */
static int image_judge(const struct ec_resource_view *view, int rc)
{
    return rc == EC_OK && view->content == EC_RESOURCE_IMAGE && !image_fits(view) ? EC_ERR_LAYOUT
                                                                                  : rc;
}

/* generation is what the entry had when the caller looked. */
static inline int view_copy(const struct ec_client *client, ec_resource resource,
                            uint32_t generation, struct ec_resource_view *view)
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
     * first, so who still finds the generation here had the old heap, too. The fence keeps the
     * loads above before this one. */
    atomic_thread_fence(memory_order_acquire);
    if (ec_life_generation(atomic_load_explicit(&entry->life, memory_order_relaxed)) != generation)
        return EC_ERR_STALE;
    return EC_OK;
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
