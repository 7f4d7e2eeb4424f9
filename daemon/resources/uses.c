/* uses.c - who used what, and when: read out of the games' rings by a tick.
 *
 * A use is an acquire. The clock of residency counts uses, not time; a resource that is acquired several
 * times between two ticks was used once, so that a game that loads and then walks over a level twice
 * does not look like one that comes back to it. Histories are kept while a resource is not in memory:
 * without that, LRU-2 is worse than LRU. */
#include "resources/state.h"

#include <stdlib.h>
#include <utlist.h>

#include "clients/clients.h"
#include "daemon/config.h"
#include "foundation/real_time.h"
#include "proto/residency_rule.h"
#include "resources/gpu.h"
#include "resources/use_trace.h"
#include "segment/use_ring.h"

#define IDLE_TICKS 10 /* the tick is so much longer while nothing is loaded */

/* How far a client was read. */
struct use_reader {
    struct use_reader *next;
    const struct client *client;
    uint64_t seen[EC_THREADS_MAX];
    uint64_t soft_seen;
};

static void on_tick(uv_timer_t *timer);
static void client_read(struct resources *resources, struct use_reader *reader);
static void use(struct resources *resources, uint32_t client_id, uint32_t index, int64_t now_ns);
static struct ec_residency_use usage_of(const struct resource *resource);

void uses_start(struct resources *resources)
{
    uint64_t ms = (uint64_t)config_integer(resources->services->config, EC_CONFIG_resource_tick_ms);

    uv_timer_start(&resources->tick, on_tick, ms, ms);
    uv_unref((uv_handle_t *)&resources->tick);
}

void uses_finish(struct resources *resources)
{
    struct use_reader *reader, *next;

    LL_FOREACH_SAFE(resources->use_readers, reader, next)
    {
        LL_DELETE(resources->use_readers, reader);
        free(reader);
    }
    use_trace_destroy(resources->trace);
    resources->trace = NULL;
}

void uses_client_attached(struct resources *resources, struct client *client)
{
    const struct ec_client_segment *segment = client_segment(client);
    struct use_reader *reader = calloc(1, sizeof *reader);

    if (reader == NULL)
        return; /* its uses are not seen; nothing else depends on them */
    reader->client = client;
    for (uint32_t i = 0; i < EC_THREADS_MAX; i++)
        reader->seen[i] = atomic_load_explicit(&segment->uses[i].head, memory_order_relaxed);
    LL_PREPEND(resources->use_readers, reader);
    if (!uv_is_active((uv_handle_t *)&resources->tick))
        uses_start(resources);
}

/* Its soft references ended with it. */
void uses_client_ended(struct resources *resources, const struct client *client)
{
    struct use_reader *reader, *next;

    LL_FOREACH_SAFE(resources->use_readers, reader, next)
    {
        if (reader->client != client)
            continue;
        LL_DELETE(resources->use_readers, reader);
        free(reader);
        resources->soft_changed = true;
    }
}

void uses_read(struct resources *resources)
{
    struct use_reader *reader;

    resources->use_round++;
    LL_FOREACH(resources->use_readers, reader)
    client_read(resources, reader);
    /* From here on games write the same resource again. */
    atomic_fetch_add_explicit(&resources->directory->use_epoch, 1, memory_order_relaxed);
}

bool usage_before(const struct resource *left, const struct resource *right)
{
    enum residency left_class = resource_residency(left), right_class = resource_residency(right);
    struct ec_residency_use left_use = usage_of(left), right_use = usage_of(right);

    if (left_class != right_class)
        return left_class < right_class;
    if ((left->order == ORDER_ACTIVE) != (right->order == ORDER_ACTIVE))
        return right->order == ORDER_ACTIVE;
    return ec_residency_before(&left_use, &right_use);
}

static struct ec_residency_use usage_of(const struct resource *resource)
{
    const struct usage *usage = &resource->usage;

    return (struct ec_residency_use) {
        .previous = usage->previous,
        .last = usage->last_ns > usage->loaded_ns ? usage->last_ns : usage->loaded_ns,
        .bytes = resource_bytes(resource),
        .load_ns = usage->load_ns,
    };
}

static void on_tick(uv_timer_t *timer)
{
    struct resources *resources = timer->data;
    uint64_t ms = (uint64_t)config_integer(resources->services->config, EC_CONFIG_resource_tick_ms);

    uses_read(resources);
    gpu_tick(resources);
    if (resources->soft_changed) {
        resources->soft_changed = false;
        soft_look(resources);
    }
    if (resources->use_readers == NULL)
        uv_timer_stop(timer);
    else
        uv_timer_set_repeat(timer,
                            resources->ready > 0 || resources->gpu != NULL ? ms : ms * IDLE_TICKS);
}

static void client_read(struct resources *resources, struct use_reader *reader)
{
    static uint32_t uses[EC_USE_RING];
    const struct ec_client_segment *segment = client_segment(reader->client);
    uint32_t threads;
    uint64_t soft;

    if (segment == NULL)
        return;
    threads = atomic_load_explicit(&segment->threads_high, memory_order_relaxed);
    for (uint32_t i = 0; i < threads && i < EC_THREADS_MAX; i++) {
        uint64_t lost;
        uint32_t count = ec_use_ring_read(&segment->uses[i], &reader->seen[i], uses, &lost);
        int64_t now_ns = count > 0 ? ec_real_ns() : 0;

        resources->uses_lost += lost;
        for (uint32_t k = 0; k < count; k++)
            use(resources, reader->client->id, uses[k], now_ns);
    }
    /* Acquire: pairs with the release of who changed a soft count before. */
    soft = atomic_load_explicit(&segment->soft_changes, memory_order_acquire);
    if (soft != reader->soft_seen)
        resources->soft_changed = true;
    reader->soft_seen = soft;
}

/* The index is what a client wrote. */
static void use(struct resources *resources, uint32_t client_id, uint32_t index, int64_t now_ns)
{
    struct resource *resource = index < EC_RESOURCES_MAX ? resources->by_index[index] : NULL;

    if (resource == NULL || resource->usage.round == resources->use_round)
        return;
    resource->usage.round = resources->use_round;
    resource->usage.previous = resource->usage.last;
    resource->usage.previous_ns = resource->usage.last_ns;
    resource->usage.last = ++resources->use_clock;
    resource->usage.last_ns = now_ns;
    resource->usage.count++;
    if (resources->trace != NULL)
        use_trace_add(resources->trace, &(struct traced_use) { .at_ns = now_ns,
                                                               .client_id = client_id,
                                                               .index = index,
                                                               .kind = USE_ACQUIRE });
}
