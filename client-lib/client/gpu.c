/* gpu.c - the rows of the client segment's GPU table, and what the daemon asks for. */
#include <engine-core/gpu.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "proto/handle.h"

_Static_assert(EC_GPU_MAX == EC_GPU_RESOURCES_MAX, "the header says what the table holds");

/* Requests by row: the generation that is asked for, 0 for none. Written by the service thread, taken by
 * who asks. */
struct ec_client_gpu {
    _Atomic uint32_t waiting; /* at most so many rows have one */
    _Atomic uint32_t asked[EC_GPU_RESOURCES_MAX];
};

static void on_evict(void *context, struct ec_json_span params, int *fds, unsigned fd_count);

static uint64_t life_make(uint32_t generation, enum ec_gpu_state state)
{
    return (uint64_t)generation << 32 | (uint32_t)state;
}

int ec_client_gpu_create(struct ec_client *client, struct ec_error *why)
{
    client->gpu = calloc(1, sizeof *client->gpu);
    if (client->gpu == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for GPU requests");
    if (ec_connection_on(client->connection, "resource.gpu.evict", on_evict, client) < 0)
        return ec_fail(why, EC_ERR_LIMIT, "too many notifications have a handler");
    return EC_OK;
}

void ec_client_gpu_destroy(struct ec_client *client)
{
    free(client->gpu);
    client->gpu = NULL;
}

/* The row of a handle, if that is its life. */
static struct ec_gpu_row *row_of(struct ec_client *client, ec_gpu gpu)
{
    uint32_t index = ec_handle_index(gpu.value), generation = ec_handle_generation(gpu.value);
    struct ec_gpu_row *row;
    uint64_t life;

    if (index >= EC_GPU_RESOURCES_MAX || generation == 0)
        return NULL;
    row = &ec_client_own(client)->gpu.rows[index];
    life = atomic_load_explicit(&row->life, memory_order_relaxed);
    return life >> 32 == generation && (uint32_t)life != EC_GPU_UNUSED ? row : NULL;
}

int ec_gpu_declare(struct ec_client *client, const char *name, uint64_t bytes, ec_gpu *gpu)
{
    struct ec_gpu_table *table = &ec_client_own(client)->gpu;
    size_t length = name != NULL ? strlen(name) : 0;
    uint32_t index = 0, generation;
    struct ec_gpu_row *row;

    gpu->value = 0;
    if (length == 0 || length >= EC_GPU_NAME_BYTES || bytes == 0)
        return EC_ERR_PARAM;
    while (index < EC_GPU_RESOURCES_MAX &&
           (uint32_t)atomic_load_explicit(&table->rows[index].life, memory_order_relaxed) !=
               EC_GPU_UNUSED)
        index++;
    if (index == EC_GPU_RESOURCES_MAX)
        return EC_ERR_LIMIT;
    row = &table->rows[index];
    generation = (uint32_t)(atomic_load_explicit(&row->life, memory_order_relaxed) >> 32) + 1;
    if (generation == 0)
        generation = 1;
    for (size_t at = 0; at < EC_GPU_NAME_BYTES; at += 8) {
        uint64_t word = 0;

        if (at < length)
            memcpy(&word, name + at, length - at < 8 ? length - at : 8);
        atomic_store_explicit(&row->name[at / 8], word, memory_order_relaxed);
    }
    atomic_store_explicit(&row->bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&row->used_fence, 0, memory_order_relaxed);
    /* Release: who sees this life sees its fields. Pairs with the acquire of the daemon's tick. */
    atomic_store_explicit(&row->life, life_make(generation, EC_GPU_RESIDENT), memory_order_release);
    if (atomic_load_explicit(&table->high, memory_order_relaxed) < index + 1)
        atomic_store_explicit(&table->high, index + 1, memory_order_release);
    gpu->value = ec_handle_make(index, generation);
    return EC_OK;
}

void ec_gpu_forget(struct ec_client *client, ec_gpu gpu)
{
    struct ec_gpu_row *row = row_of(client, gpu);

    if (row != NULL)
        atomic_store_explicit(&row->life, life_make(ec_handle_generation(gpu.value), EC_GPU_UNUSED),
                              memory_order_release);
}

void ec_gpu_use(struct ec_client *client, ec_gpu gpu, uint64_t fence)
{
    struct ec_gpu_row *row = row_of(client, gpu);
    uint64_t before;

    if (row == NULL)
        return;
    before = atomic_load_explicit(&row->used_fence, memory_order_relaxed);
    while (before < fence &&
           !atomic_compare_exchange_weak_explicit(&row->used_fence, &before, fence,
                                                  memory_order_release, memory_order_relaxed))
        ;
}

void ec_gpu_completed(struct ec_client *client, uint64_t fence)
{
    _Atomic uint64_t *completed = &ec_client_own(client)->gpu.completed_fence;
    uint64_t before = atomic_load_explicit(completed, memory_order_relaxed);

    while (before < fence &&
           !atomic_compare_exchange_weak_explicit(completed, &before, fence, memory_order_release,
                                                  memory_order_relaxed))
        ;
}

void ec_gpu_budget(struct ec_client *client, uint64_t bytes)
{
    atomic_store_explicit(&ec_client_own(client)->gpu.budget_bytes, bytes, memory_order_relaxed);
}

/* Takes the request of a row. 0: there is none. */
static uint32_t request_take(struct ec_client_gpu *requests, uint32_t index)
{
    uint32_t generation =
        atomic_exchange_explicit(&requests->asked[index], 0, memory_order_acquire);

    if (generation != 0)
        atomic_fetch_sub_explicit(&requests->waiting, 1, memory_order_relaxed);
    return generation;
}

/* Is this life there, and is all work that uses it done? */
static bool is_idle(struct ec_client *client, ec_gpu gpu, uint64_t *fence)
{
    const struct ec_gpu_table *table = &ec_client_own(client)->gpu;
    const struct ec_gpu_row *row = row_of(client, gpu);

    if (row == NULL ||
        (uint32_t)atomic_load_explicit(&row->life, memory_order_relaxed) != EC_GPU_RESIDENT)
        return false;
    *fence = atomic_load_explicit(&row->used_fence, memory_order_relaxed);
    return *fence <= atomic_load_explicit(&table->completed_fence, memory_order_relaxed);
}

int ec_gpu_next_request(struct ec_client *client, ec_gpu *gpu)
{
    struct ec_client_gpu *requests = client->gpu;
    uint32_t high = atomic_load_explicit(&ec_client_own(client)->gpu.high, memory_order_relaxed);
    uint64_t oldest = UINT64_MAX;

    gpu->value = 0;
    if (atomic_load_explicit(&requests->waiting, memory_order_acquire) == 0)
        return EC_AGAIN;
    for (uint32_t i = 0; i < high; i++) {
        uint32_t generation = atomic_load_explicit(&requests->asked[i], memory_order_acquire);
        ec_gpu asked = { ec_handle_make(i, generation) };
        uint64_t fence;

        if (generation == 0)
            continue;
        if (!is_idle(client, asked, &fence)) {
            request_take(requests, i); /* used since, or gone */
        } else if (gpu->value == 0 || fence < oldest) {
            oldest = fence;
            *gpu = asked;
        }
    }
    if (gpu->value == 0)
        return EC_AGAIN;
    request_take(requests, ec_handle_index(gpu->value));
    return EC_OK;
}

static int state_set(struct ec_client *client, ec_gpu gpu, enum ec_gpu_state state)
{
    struct ec_gpu_row *row = row_of(client, gpu);

    if (row == NULL)
        return EC_ERR_STALE;
    atomic_store_explicit(&row->life, life_make(ec_handle_generation(gpu.value), state),
                          memory_order_release);
    return EC_OK;
}

int ec_gpu_evicted(struct ec_client *client, ec_gpu gpu)
{
    return state_set(client, gpu, EC_GPU_EVICTED);
}

int ec_gpu_restored(struct ec_client *client, ec_gpu gpu)
{
    return state_set(client, gpu, EC_GPU_RESIDENT);
}

/* {"items":["0x…", …]}; on the reading thread. */
static void on_evict(void *context, struct ec_json_span params, int *fds, unsigned fd_count)
{
    static const char *const names[] = { "items" };
    struct ec_json_span items, item;
    struct ec_json_fields fields = { .names = names, .values = &items, .count = 1 };
    struct ec_client *client = context;
    struct ec_json_iterator rows;
    uint64_t id;

    (void)fds;
    (void)fd_count;
    if (ec_json_bind(params, &fields) < 0)
        return;
    rows = ec_json_iterate(items);
    while (ec_json_next_element(&rows, &item)) {
        if (ec_json_get_hex64(item, &id) < 0 || ec_handle_index(id) >= EC_GPU_RESOURCES_MAX ||
            ec_handle_generation(id) == 0)
            continue;
        /* Raised first: it is never below the number of requests that can be seen. */
        atomic_fetch_add_explicit(&client->gpu->waiting, 1, memory_order_relaxed);
        if (atomic_exchange_explicit(&client->gpu->asked[ec_handle_index(id)],
                                     ec_handle_generation(id), memory_order_release) != 0)
            atomic_fetch_sub_explicit(&client->gpu->waiting, 1, memory_order_relaxed);
    }
}
