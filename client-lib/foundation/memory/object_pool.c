/* Objects: a pool for each type, and places that name them. */
#include "foundation/memory/object_pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "foundation/memory/pool.h"
#include "foundation/memory/pool_heap.h"
#include "foundation/thread_life.h"

#define OBJECTS_DEFAULT 65536
#define FLUSH_PASSES 16

static int check_desc(const struct ec_object_pool_desc *desc, struct ec_error *why);
static int make_pools(struct ec_object_pool *pool, const struct ec_object_pool_desc *desc,
                      struct ec_error *why);
static int place_take(struct ec_object_pool *pool, uint32_t *index);
static bool place_pop(struct ec_object_pool *pool, uint32_t *index);
static int place_new(struct ec_object_pool *pool, uint32_t *index);
static void place_push(struct ec_object_pool *pool, uint32_t index);
static struct ec_object_place *place_of(const struct ec_object_pool *pool, ec_object_handle handle,
                                        uint64_t *state);
static bool is_still(const struct ec_object_place *place, ec_object_handle handle);
static bool is_mine(const struct ec_object_place *place);
static void end_life(struct ec_object_pool *pool, uint32_t index, uint64_t state);
static uint32_t reverse(struct ec_object_pool *pool, uint32_t newest);
static void frame_ends(void *pool);

static uint64_t state_of(uint32_t generation, unsigned flags)
{
    return (uint64_t)generation << EC_OBJECT_FLAG_BITS | flags;
}

static uint32_t type_of(const struct ec_object_place *place)
{
    return atomic_load_explicit(&place->type, memory_order_relaxed);
}

static void *object_of(const struct ec_object_place *place)
{
    return atomic_load_explicit(&place->object, memory_order_relaxed);
}

static uint32_t generation_of(uint64_t state)
{
    return (uint32_t)(state >> EC_OBJECT_FLAG_BITS);
}

int ec_object_pool_create_in(struct ec_memory_sink *sink, const struct ec_object_pool_desc *desc,
                             struct ec_object_pool **pool, struct ec_error *why)
{
    struct ec_object_pool *made;
    int rc = check_desc(desc, why);

    *pool = NULL;
    if (rc < 0)
        return rc;
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "object pool \"%s\": no memory", desc->name);
    pthread_mutex_init(&made->lock, NULL);
    made->sink = sink;
    made->objects_max = desc->objects_max != 0 ? desc->objects_max : OBJECTS_DEFAULT;
    made->chunks =
        calloc((made->objects_max + EC_OBJECT_CHUNK - 1) / EC_OBJECT_CHUNK, sizeof *made->chunks);
    rc = made->chunks != NULL ? make_pools(made, desc, why)
                              : ec_fail(why, EC_ERR_MEMORY, "no memory");
    if (rc < 0) {
        ec_object_pool_destroy(made);
        return ec_error_prefix(why, rc, "object pool \"%s\"", desc->name);
    }
    made->link = (struct ec_frame_link) { .ends = frame_ends, .context = made };
    ec_frame_list_add(sink, &made->link);
    *pool = made;
    return EC_OK;
}

/* Accepts a half-built one. */
void ec_object_pool_destroy(struct ec_object_pool *pool)
{
    uint32_t high;

    if (pool == NULL)
        return;
    if (pool->link.ends != NULL)
        ec_frame_list_remove(pool->sink, &pool->link);
    high = atomic_load_explicit(&pool->high, memory_order_acquire);
    for (uint32_t index = 0; index < high; index++) {
        struct ec_object_place *place = ec_object_pool_place(pool, index);
        const struct ec_object_type *type = &pool->types[type_of(place)];
        const uint64_t state = atomic_load_explicit(&place->state, memory_order_acquire);

        if ((state & EC_OBJECT_LIVE) == 0)
            continue;
        /* Out of reach before it ends, so that no destructor of another object ends it once more. */
        atomic_store_explicit(&place->state, state_of(generation_of(state), 0),
                              memory_order_relaxed);
        if (type->destruct != NULL)
            type->destruct(object_of(place), type->context);
    }
    for (uint32_t i = 0; i < pool->type_count; i++)
        ec_pool_destroy(pool->pools[i]);
    for (uint32_t i = 0; pool->chunks != NULL && i * EC_OBJECT_CHUNK < high; i++)
        free(atomic_load_explicit(&pool->chunks[i], memory_order_relaxed));
    free(pool->chunks);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

int ec_object_create(struct ec_object_pool *pool, uint32_t type_index, const void *arguments,
                     ec_object_handle *handle)
{
    const struct ec_object_type *type;
    struct ec_object_place *place;
    uint32_t index, generation;
    void *object;
    int rc;

    *handle = (ec_object_handle) { 0 };
    if (type_index >= pool->type_count)
        return EC_ERR_PARAM;
    type = &pool->types[type_index];
    rc = place_take(pool, &index);
    if (rc < 0) {
        ec_count(&pool->pools[type_index]->row->failed, 1, true);
        return rc;
    }
    place = ec_object_pool_place(pool, index);
    object = ec_pool_alloc(pool->pools[type_index]);
    if (object == NULL) { /* which the pool counted */
        place_push(pool, index);
        return EC_ERR_MEMORY;
    }
    if (type->construct == NULL)
        memset(object, 0, type->bytes);
    else
        rc = type->construct(object, arguments, type->context);
    if (rc < 0) {
        ec_pool_free(pool->pools[type_index], object);
        place_push(pool, index);
        return rc;
    }
    generation = generation_of(atomic_load_explicit(&place->state, memory_order_relaxed)) + 1;
    /* Pairs with the acquire in is_still: who sees what this life stores sees that the last one is over. */
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&place->object, object, memory_order_relaxed);
    atomic_store_explicit(&place->type, type_index, memory_order_relaxed);
    atomic_store_explicit(&place->owner, ec_thread_life(), memory_order_relaxed);
    atomic_fetch_add_explicit(&pool->live_count, 1, memory_order_relaxed);
    /* Pairs with the acquire in place_of: who sees the generation sees the object. */
    atomic_store_explicit(&place->state, state_of(generation, EC_OBJECT_LIVE),
                          memory_order_release);
    *handle = (ec_object_handle) { .index = index, .generation = generation };
    return EC_OK;
}

void *ec_object_get(const struct ec_object_pool *pool, ec_object_handle handle)
{
    uint64_t state;
    const struct ec_object_place *place = place_of(pool, handle, &state);
    void *object;

    if (place == NULL)
        return NULL;
    object = object_of(place);
    return is_still(place, handle) ? object : NULL;
}

int ec_object_type_of(const struct ec_object_pool *pool, ec_object_handle handle)
{
    uint64_t state;
    const struct ec_object_place *place = place_of(pool, handle, &state);
    uint32_t type;

    if (place == NULL)
        return EC_ERR_STALE;
    type = type_of(place);
    return is_still(place, handle) ? (int)type : EC_ERR_STALE;
}

int ec_object_destroy(struct ec_object_pool *pool, ec_object_handle handle)
{
    uint64_t state;
    struct ec_object_place *place = place_of(pool, handle, &state);

    if (place == NULL)
        return EC_ERR_STALE;
    if (!is_mine(place))
        return EC_ERR_PERMISSION;
    if ((state & EC_OBJECT_PUT_OFF) != 0)
        return EC_ERR_STATE;
    /* Another thread may put it off meanwhile; it then has it. */
    if (!atomic_compare_exchange_strong_explicit(&place->state, &state,
                                                 state_of(handle.generation, 0),
                                                 memory_order_acq_rel, memory_order_relaxed))
        return generation_of(state) == handle.generation && (state & EC_OBJECT_PUT_OFF) != 0
                   ? EC_ERR_STATE
                   : EC_ERR_STALE;
    end_life(pool, handle.index, state);
    return EC_OK;
}

int ec_object_destroy_later(struct ec_object_pool *pool, ec_object_handle handle)
{
    uint64_t state;
    struct ec_object_place *place = place_of(pool, handle, &state);
    uint32_t newest;

    if (place == NULL)
        return EC_ERR_STALE;
    if ((state & EC_OBJECT_PUT_OFF) != 0)
        return EC_OK;
    if (!atomic_compare_exchange_strong_explicit(&place->state, &state, state | EC_OBJECT_PUT_OFF,
                                                 memory_order_acq_rel, memory_order_relaxed))
        return generation_of(state) == handle.generation && (state & EC_OBJECT_PUT_OFF) != 0
                   ? EC_OK
                   : EC_ERR_STALE;
    atomic_fetch_add_explicit(&pool->put_off_count, 1, memory_order_relaxed);
    newest = atomic_load_explicit(&pool->put_off, memory_order_relaxed);
    do { /* release: pairs with the acquire in flush */
        atomic_store_explicit(&place->next, newest, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&pool->put_off, &newest, handle.index + 1,
                                                    memory_order_release, memory_order_relaxed));
    return EC_OK;
}

int ec_object_hand_off(struct ec_object_pool *pool, ec_object_handle handle)
{
    uint64_t state;
    struct ec_object_place *place = place_of(pool, handle, &state);
    uint32_t owner = ec_thread_life();

    if (place == NULL)
        return EC_ERR_STALE;
    /* Release: pairs with the acquire of who takes it. In one step: a flush may end the object meanwhile, and
     * another thread make its own in the place. */
    if (owner == EC_THREAD_LIFE_NONE ||
        !atomic_compare_exchange_strong_explicit(&place->owner, &owner, EC_THREAD_LIFE_NONE,
                                                 memory_order_release, memory_order_relaxed))
        return is_still(place, handle) ? EC_ERR_PERMISSION : EC_ERR_STALE;
    return EC_OK;
}

int ec_object_take(struct ec_object_pool *pool, ec_object_handle handle)
{
    uint64_t state;
    struct ec_object_place *place = place_of(pool, handle, &state);
    const uint32_t mine = ec_thread_life();
    uint32_t owner;

    if (place == NULL)
        return EC_ERR_STALE;
    if (mine == EC_THREAD_LIFE_NONE) /* it can own nothing */
        return EC_ERR_PERMISSION;
    owner = atomic_load_explicit(&place->owner, memory_order_acquire);
    if (owner == mine)
        return EC_OK;
    if (!ec_thread_life_is_over(owner) ||
        !atomic_compare_exchange_strong_explicit(&place->owner, &owner, mine, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return EC_ERR_PERMISSION;
    if (is_still(place, handle))
        return EC_OK;
    /* The object is gone, and what was taken is the place or its next object, which nobody owned either. Who
     * makes one there writes his own name over this one. */
    owner = mine;
    atomic_compare_exchange_strong_explicit(&place->owner, &owner, EC_THREAD_LIFE_NONE,
                                            memory_order_release, memory_order_relaxed);
    return EC_ERR_STALE;
}

uint64_t ec_object_pool_flush(struct ec_object_pool *pool)
{
    uint64_t count = 0;

    for (int pass = 0; pass < FLUSH_PASSES; pass++) {
        const uint32_t newest = atomic_exchange_explicit(&pool->put_off, 0, memory_order_acquire);
        uint32_t next = reverse(pool, newest);

        if (next == 0)
            break;
        while (next != 0) {
            const uint32_t index = next - 1;
            struct ec_object_place *place = ec_object_pool_place(pool, index);
            const uint64_t state = atomic_load_explicit(&place->state, memory_order_relaxed);

            next = atomic_load_explicit(&place->next, memory_order_relaxed);
            atomic_store_explicit(&place->state, state_of(generation_of(state), 0),
                                  memory_order_release);
            atomic_fetch_sub_explicit(&pool->put_off_count, 1, memory_order_relaxed);
            end_life(pool, index, state);
            count++;
        }
    }
    return count;
}

int ec_object_pool_visit(struct ec_object_pool *pool, uint32_t type,
                         int (*visit)(void *context, ec_object_handle handle, void *object),
                         void *context)
{
    const uint32_t high = atomic_load_explicit(&pool->high, memory_order_acquire);
    int answer = 0;

    for (uint32_t index = 0; answer == 0 && index < high; index++) {
        const struct ec_object_place *place = ec_object_pool_place(pool, index);
        const uint64_t state = atomic_load_explicit(&place->state, memory_order_acquire);
        const ec_object_handle handle = { .index = index, .generation = generation_of(state) };

        if ((state & EC_OBJECT_LIVE) != 0 && (type == UINT32_MAX || type == type_of(place)))
            answer = visit(context, handle, object_of(place));
    }
    return answer;
}

void ec_object_pool_counts(const struct ec_object_pool *pool, struct ec_object_counts *counts)
{
    *counts = (struct ec_object_counts) {
        .live = atomic_load_explicit(&pool->live_count, memory_order_relaxed),
        .put_off = atomic_load_explicit(&pool->put_off_count, memory_order_relaxed),
        .retired = atomic_load_explicit(&pool->retired_count, memory_order_relaxed),
        .places = atomic_load_explicit(&pool->high, memory_order_relaxed),
    };
}

void ec_object_pool_stats(const struct ec_object_pool *pool, struct ec_memory_stats *stats)
{
    *stats = (struct ec_memory_stats) { 0 };
    for (uint32_t i = 0; i < pool->type_count; i++) {
        struct ec_memory_stats one;

        ec_pool_stats(pool->pools[i], &one);
        ec_memory_stats_add(stats, &one);
    }
}

struct ec_object_place *ec_object_pool_place(const struct ec_object_pool *pool, uint32_t index)
{
    return atomic_load_explicit(&pool->chunks[index / EC_OBJECT_CHUNK], memory_order_acquire) +
           index % EC_OBJECT_CHUNK;
}

static int check_desc(const struct ec_object_pool_desc *desc, struct ec_error *why)
{
    const int rc = ec_memory_check_name(desc->name, desc->tag, why);

    if (rc < 0)
        return ec_error_prefix(why, rc, "object pool");
    if (desc->types == NULL || desc->type_count == 0 || desc->type_count > EC_OBJECT_TYPES_MAX)
        return ec_fail(why, EC_ERR_PARAM, "object pool \"%s\": %u types, expected 1..%d",
                       desc->name, desc->types == NULL ? 0 : desc->type_count, EC_OBJECT_TYPES_MAX);
    if (desc->objects_max > EC_OBJECTS_MAX)
        return ec_fail(why, EC_ERR_LIMIT, "object pool \"%s\": objects_max is %u, expected 1..%u",
                       desc->name, desc->objects_max, EC_OBJECTS_MAX);
    return EC_OK;
}

static int make_pools(struct ec_object_pool *pool, const struct ec_object_pool_desc *desc,
                      struct ec_error *why)
{
    int rc = EC_OK;

    for (uint32_t i = 0; rc == EC_OK && i < desc->type_count; i++) {
        const struct ec_object_type *type = &desc->types[i];
        char name[EC_ALLOCATOR_NAME_BYTES];
        const struct ec_pool_desc one = { .name = name,
                                          .tag = desc->tag,
                                          .block_bytes = type->bytes,
                                          .align = type->align,
                                          .in_segment = desc->in_segment };

        rc = ec_memory_check_name(type->name, desc->tag, why);
        if (rc < 0)
            return ec_error_prefix(why, rc, "type %u", i);
        snprintf(name, sizeof name, "%s/%s", desc->name, type->name);
        rc = ec_pool_create_kind(pool->sink, &one,
                                 &(struct ec_pool_kind) { .kind = EC_ALLOCATOR_OBJECT_POOL },
                                 &pool->pools[i], why);
        if (rc < 0)
            return rc;
        pool->types[i] = *type;
        pool->types[i].name = pool->pools[i]->row->name;
        pool->type_count = i + 1;
    }
    return rc;
}

/* A place that is free: one that was used before, or a new one. */
static int place_take(struct ec_object_pool *pool, uint32_t *index)
{
    return place_pop(pool, index) ? EC_OK : place_new(pool, index);
}

/* Acquire: pairs with the release of who pushed it. The count in the head changes with each push and pop, so
 * that `next`, which was read before, belongs to the place as it is now. */
static bool place_pop(struct ec_object_pool *pool, uint32_t *index)
{
    uint64_t head = atomic_load_explicit(&pool->free, memory_order_acquire);
    uint64_t next;

    do {
        if ((uint32_t)head == 0)
            return false;
        *index = (uint32_t)head - 1;
        next =
            atomic_load_explicit(&ec_object_pool_place(pool, *index)->next, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&pool->free, &head,
                                                    ((head >> 32) + 1) << 32 | next,
                                                    memory_order_acquire, memory_order_acquire));
    return true;
}

static int place_new(struct ec_object_pool *pool, uint32_t *index)
{
    int rc = EC_OK;

    pthread_mutex_lock(&pool->lock);
    *index = atomic_load_explicit(&pool->high, memory_order_relaxed);
    if (*index == pool->objects_max) {
        rc = EC_ERR_LIMIT;
    } else if (*index % EC_OBJECT_CHUNK == 0) {
        struct ec_object_place *chunk = calloc(EC_OBJECT_CHUNK, sizeof *chunk);

        if (chunk == NULL)
            rc = EC_ERR_MEMORY;
        else /* pairs with the acquire in ec_object_pool_place */
            atomic_store_explicit(&pool->chunks[*index / EC_OBJECT_CHUNK], chunk,
                                  memory_order_release);
    }
    if (rc == EC_OK) /* pairs with the acquire of those who check an index */
        atomic_store_explicit(&pool->high, *index + 1, memory_order_release);
    pthread_mutex_unlock(&pool->lock);
    return rc;
}

static void place_push(struct ec_object_pool *pool, uint32_t index)
{
    struct ec_object_place *place = ec_object_pool_place(pool, index);
    uint64_t head = atomic_load_explicit(&pool->free, memory_order_relaxed);

    do {
        atomic_store_explicit(&place->next, (uint32_t)head, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&pool->free, &head,
                                                    ((head >> 32) + 1) << 32 | (index + 1),
                                                    memory_order_release, memory_order_relaxed));
}

/* The place of a live object; NULL: the handle is stale, or none. */
static struct ec_object_place *place_of(const struct ec_object_pool *pool, ec_object_handle handle,
                                        uint64_t *state)
{
    struct ec_object_place *place;

    if (handle.index >= atomic_load_explicit(&pool->high, memory_order_acquire))
        return NULL;
    place = ec_object_pool_place(pool, handle.index);
    *state = atomic_load_explicit(&place->state, memory_order_acquire);
    if ((*state & ~(uint64_t)EC_OBJECT_PUT_OFF) != state_of(handle.generation, EC_OBJECT_LIVE))
        return NULL;
    return place;
}

/* What was read from the place since place_of belongs to this handle. Another life may have begun meanwhile, or
 * be about to: this one is over then, which the fence lets be seen. It pairs with the one in ec_object_create. */
static bool is_still(const struct ec_object_place *place, ec_object_handle handle)
{
    atomic_thread_fence(memory_order_acquire);
    return (atomic_load_explicit(&place->state, memory_order_relaxed) &
            ~(uint64_t)EC_OBJECT_PUT_OFF) == state_of(handle.generation, EC_OBJECT_LIVE);
}

static bool is_mine(const struct ec_object_place *place)
{
    const uint32_t owner = atomic_load_explicit(&place->owner, memory_order_relaxed);

    return owner == ec_thread_life() && owner != EC_THREAD_LIFE_NONE;
}

/* The object is out of reach already. A place whose generations are used up is not used again. */
static void end_life(struct ec_object_pool *pool, uint32_t index, uint64_t state)
{
    const struct ec_object_place *place = ec_object_pool_place(pool, index);
    const struct ec_object_type *type = &pool->types[type_of(place)];

    if (type->destruct != NULL)
        type->destruct(object_of(place), type->context);
    ec_pool_free(pool->pools[type_of(place)], object_of(place));
    atomic_fetch_sub_explicit(&pool->live_count, 1, memory_order_relaxed);
    if (generation_of(state) == UINT32_MAX)
        atomic_fetch_add_explicit(&pool->retired_count, 1, memory_order_relaxed);
    else
        place_push(pool, index);
}

/* From newest first to oldest first; returns the first. Nobody else sees the list. */
static uint32_t reverse(struct ec_object_pool *pool, uint32_t newest)
{
    uint32_t first = 0;

    while (newest != 0) {
        struct ec_object_place *place = ec_object_pool_place(pool, newest - 1);
        const uint32_t next = atomic_load_explicit(&place->next, memory_order_relaxed);

        atomic_store_explicit(&place->next, first, memory_order_relaxed);
        first = newest;
        newest = next;
    }
    return first;
}

static void frame_ends(void *pool)
{
    ec_object_pool_flush(pool);
}
