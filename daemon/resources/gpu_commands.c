/* gpu_commands.c - the GPU queues of all clients: the tick, resource.gpu, and what is asked for. */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "clients/clients.h"
#include "daemon/request.h"
#include "events/events.h"
#include "proto/handle.h"
#include "resources/gpu.h"
#include "resources/state.h"

struct gpu_queues {
    struct gpu_queues *next;
    struct client *client;
    struct gpu_queue queue;
};

static int change_all(struct request *request, struct gpu_queue *queue, bool apply);
static int declare_all(struct request *request, struct gpu_queue *queue, struct ec_json_span array,
                       bool apply);
static int declare_one(struct gpu_queue *queue, struct ec_json_span value, uint64_t *id,
                       struct ec_error *why);
static int use_all(struct gpu_queue *queue, struct ec_json_span array, bool apply,
                   struct ec_error *why);
static int set_all(struct gpu_queue *queue, struct ec_json_span array, enum gpu_state state,
                   const char *what, struct ec_error *why);

struct gpu_queue *gpu_queue_of(struct resources *resources, struct client *client, bool make)
{
    struct gpu_queues *at;
    struct ec_error why;

    LL_FOREACH(resources->gpu, at)
    {
        if (at->client == client)
            return &at->queue;
    }
    at = make ? calloc(1, sizeof *at) : NULL;
    if (at == NULL)
        return NULL;
    if (gpu_queue_init(&at->queue, &why) < 0) {
        free(at);
        return NULL;
    }
    at->client = client;
    LL_PREPEND(resources->gpu, at);
    return &at->queue;
}

void gpu_tick(struct resources *resources)
{
    struct clients *clients = resources->services->clients;
    struct gpu_queues *at;

    for (struct client *client = clients_next(clients, NULL); client != NULL;
         client = clients_next(clients, client)) {
        const struct ec_client_segment *segment = client_segment(client);

        if (client->attached && segment != NULL &&
            atomic_load_explicit(&segment->gpu.high, memory_order_relaxed) > 0) {
            struct gpu_queue *queue = gpu_queue_of(resources, client, true);

            if (queue != NULL)
                gpu_queue_read(queue, &segment->gpu);
        }
    }
    LL_FOREACH(resources->gpu, at)
    gpu_ask(resources, at->client, &at->queue);
}

static void announce(struct resources *resources, const struct client *client,
                     const struct gpu_item *item)
{
    struct event_resource_gpu_evict payload = { .client_id = { client->id },
                                                .gpu_id = { item->id },
                                                .bytes = { item->bytes } };

    memcpy(payload.name, item->name, sizeof payload.name);
    events_publish_system(resources->services->events, EC_SYSTEM_resource_gpu_evict, &payload);
}

/* The game hears it by a notification, everybody else by an event, once the game has been told. */
void gpu_ask(struct resources *resources, struct client *client, struct gpu_queue *queue)
{
    static uint32_t chosen[GPU_ITEMS_MAX]; /* the loop's: each thread would clear one of its own */
    static char text[GPU_ITEMS_MAX * 24 + 64];
    uint32_t count = gpu_queue_choose(queue, chosen);
    struct ec_json_writer writer;

    if (count == 0)
        return;
    ec_json_writer_init(&writer, text, sizeof text);
    ec_json_object_begin(&writer);
    ec_json_member_array(&writer, "items");
    for (uint32_t i = 0; i < count; i++)
        ec_json_hex64(&writer, queue->items[chosen[i]].id);
    ec_json_array_end(&writer);
    ec_json_object_end(&writer);
    if (client_notify(client, "resource.gpu.evict", &writer, NULL, 0) == EC_OK) {
        for (uint32_t i = 0; i < count; i++)
            announce(resources, client, &queue->items[chosen[i]]);
        return;
    }
    for (uint32_t i = 0; i < count; i++) /* it has not heard: ask again at the next tick */
        if (queue->items[chosen[i]].state == GPU_REQUESTED)
            gpu_queue_withdraw(queue, chosen[i]);
}

void gpu_client_ended(struct resources *resources, const struct client *client)
{
    struct gpu_queues *at, *next;

    LL_FOREACH_SAFE(resources->gpu, at, next)
    {
        if (at->client != client)
            continue;
        LL_DELETE(resources->gpu, at);
        gpu_queue_finish(&at->queue);
        free(at);
    }
}

void gpu_finish(struct resources *resources)
{
    while (resources->gpu != NULL)
        gpu_client_ended(resources, resources->gpu->client);
}

int cmd_resource_gpu(struct request *request)
{
    struct resources *resources = request->services->resources;
    struct gpu_queue *queue;
    int rc;

    if (request_would(request, "change what this client keeps on its GPU"))
        return EC_OK;
    queue = gpu_queue_of(resources, request->client, true);
    if (queue == NULL)
        return ec_fail(request->why, EC_ERR_MEMORY, "no memory for a GPU queue");
    rc = change_all(request, queue, false); /* a fault anywhere changes nothing */
    if (rc < 0)
        return rc;
    ec_json_object_begin(request->result);
    ec_json_member_array(request->result, "gpu_ids");
    change_all(request, queue, true);
    ec_json_array_end(request->result);
    gpu_ask(resources, request->client, queue);
    ec_json_member_u64(request->result, "budget_bytes", queue->budget_bytes);
    ec_json_member_u64(request->result, "resident_bytes", queue->resident_bytes);
    ec_json_member_u64(request->result, "requested_bytes", queue->requested_bytes);
    ec_json_object_end(request->result);
    return EC_OK;
}

static int change_all(struct request *request, struct gpu_queue *queue, bool apply)
{
    const struct params_resource_gpu *params = request->params;
    const struct {
        struct ec_json_span array;
        enum gpu_state state;
        const char *what;
    } sets[] = { { params->evicted.span, GPU_EVICTED, "evicted" },
                 { params->restored.span, GPU_RESIDENT, "restored" },
                 { params->forget.span, GPU_UNUSED, "forget" } };
    int rc;

    if (apply && params->budget_bytes.present)
        queue->budget_bytes = (uint64_t)params->budget_bytes.integer;
    if (apply && params->completed_fence.present &&
        (uint64_t)params->completed_fence.integer > queue->completed_fence)
        queue->completed_fence = (uint64_t)params->completed_fence.integer;
    rc = declare_all(request, queue, params->declare.span, apply);
    if (rc == EC_OK)
        rc = use_all(queue, params->used.span, apply, request->why);
    for (size_t i = 0; i < sizeof sets / sizeof sets[0] && rc == EC_OK; i++)
        rc = set_all(queue, sets[i].array, apply ? sets[i].state : GPU_KEEP, sets[i].what,
                     request->why);
    return rc;
}

static int declare_all(struct request *request, struct gpu_queue *queue, struct ec_json_span array,
                       bool apply)
{
    struct ec_json_iterator rows = ec_json_iterate(array);
    struct ec_json_span row;

    for (uint32_t at = 0; ec_json_next_element(&rows, &row); at++) {
        uint64_t id = 0;
        int rc = declare_one(queue, row, apply ? &id : NULL, request->why);

        if (rc == EC_OK && at >= gpu_queue_room(queue) && !apply)
            rc = ec_fail(request->why, EC_ERR_LIMIT, "%d are declared already",
                         EC_GPU_RESOURCES_MAX);
        if (rc < 0)
            return ec_error_prefix(request->why, rc, "declare[%u]", at);
        if (apply)
            ec_json_hex64(request->result, id);
    }
    return EC_OK;
}

static int declare_one(struct gpu_queue *queue, struct ec_json_span value, uint64_t *id,
                       struct ec_error *why)
{
    static const char *const names[] = { "name", "bytes" };
    struct ec_json_span values[2];
    struct ec_json_fields fields = { .names = names, .values = values, .count = 2 };
    char name[EC_GPU_NAME_BYTES];
    uint64_t bytes;

    if (ec_json_bind(value, &fields) < 0 || fields.unknown.text != NULL ||
        ec_json_get_text(values[0], name, sizeof name) < 0 ||
        ec_json_get_u64(values[1], &bytes) < 0)
        return ec_fail(why, EC_ERR_PARAM, "expected {name: 1..%d bytes, bytes}",
                       EC_GPU_NAME_BYTES - 1);
    if (!gpu_item_is_possible(name, bytes))
        return ec_fail(why, EC_ERR_PARAM, "an empty name, or bytes that no GPU has");
    return id != NULL ? gpu_queue_declare(queue, name, bytes, id) : EC_OK;
}

static int use_all(struct gpu_queue *queue, struct ec_json_span array, bool apply,
                   struct ec_error *why)
{
    static const char *const names[] = { "gpu_id", "fence" };
    struct ec_json_iterator rows = ec_json_iterate(array);
    struct ec_json_span row, values[2];
    struct ec_json_fields fields = { .names = names, .values = values, .count = 2 };

    for (uint32_t at = 0; ec_json_next_element(&rows, &row); at++) {
        uint64_t id, fence;

        if (ec_json_bind(row, &fields) < 0 || ec_json_get_hex64(values[0], &id) < 0 ||
            ec_json_get_u64(values[1], &fence) < 0)
            return ec_fail(why, EC_ERR_PARAM, "used[%u]: expected {gpu_id, fence}", at);
        if (gpu_queue_use(queue, id, apply ? fence : 0) < 0) /* fence 0 changes nothing */
            return ec_fail(why, EC_ERR_STALE, "used[%u]: there is no such gpu_id", at);
    }
    return EC_OK;
}

static int set_all(struct gpu_queue *queue, struct ec_json_span array, enum gpu_state state,
                   const char *what, struct ec_error *why)
{
    struct ec_json_iterator rows = ec_json_iterate(array);
    struct ec_json_span row;

    for (uint32_t at = 0; ec_json_next_element(&rows, &row); at++) {
        uint64_t id;

        if (ec_json_get_hex64(row, &id) < 0)
            return ec_fail(why, EC_ERR_PARAM, "%s[%u]: expected a gpu_id", what, at);
        if (gpu_queue_set_state(queue, id, state) < 0)
            return ec_fail(why, EC_ERR_STALE, "%s[%u]: there is no such gpu_id", what, at);
    }
    return EC_OK;
}

void gpu_lists_write(struct resources *resources, uint32_t limit, struct ec_json_writer *writer)
{
    struct gpu_queues *at;

    gpu_tick(resources);
    ec_json_member_array(writer, "gpu");
    LL_FOREACH(resources->gpu, at)
    {
        const struct gpu_queue *queue = &at->queue;

        ec_json_object_begin(writer);
        ec_json_member_u64(writer, "client_id", at->client->id);
        ec_json_member_string(writer, "client", at->client->name);
        ec_json_member_u64(writer, "budget_bytes", queue->budget_bytes);
        ec_json_member_u64(writer, "resident_bytes", queue->resident_bytes);
        ec_json_member_u64(writer, "requested_bytes", queue->requested_bytes);
        ec_json_member_u64(writer, "completed_fence", queue->completed_fence);
        ec_json_member_u64(writer, "declared", queue->count);
        ec_json_member_array(writer, "items");
        for (uint32_t i = 0; i < queue->high && limit > 0; i++) {
            const struct gpu_item *item = &queue->items[i];

            if (item->state == GPU_UNUSED)
                continue;
            ec_json_object_begin(writer);
            ec_json_member_hex64(writer, "gpu_id", item->id);
            ec_json_member_string(writer, "name", item->name);
            ec_json_member_u64(writer, "bytes", item->bytes);
            ec_json_member_u64(writer, "used_fence", item->used_fence);
            ec_json_member_string(writer, "state", gpu_state_name(item->state));
            ec_json_object_end(writer);
            limit--;
        }
        ec_json_array_end(writer);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
}
