/* soft.c - soft references are orders: load this ahead, and keep it while I may need it.
 *
 * Games count soft references in their own segments and raise a number behind each change; the tick
 * (uses.c) sees it and has all of them looked at. An order counts in `needed` like a group that wants
 * the resource, but what only orders keep is bounded by resource.soft_bytes, is loaded behind what is
 * asked for, a few at a time, and gives way first when memory is short.
 *
 *             first reference          room, a worker             last reference
 *   NONE ------------------> QUEUED ----------------> ACTIVE ----------------> NONE
 *                              ^   paused, cleared      | evicted, failed
 *                              +----------<-------------+-----> SPENT (until honoured again) */
#include "resources/state.h"

#include <assert.h>

#include "daemon/config.h"
#include "daemon/log.h"
#include "foundation/real_time.h"
#include "resources/use_trace.h"

static void orders_begin_free(struct resources *resources);
static struct resource *next_order(struct resources *resources, uint64_t room);
static bool order_begin(struct resources *resources, struct resource *resource);
static void order_stop(struct resources *resources, struct resource *resource, enum order order);
static void order_set(struct resources *resources, struct resource *resource, enum order order);

static bool alone(const struct resource *resource)
{
    return resource->order == ORDER_ACTIVE && resource->needed == 1;
}

void soft_look(struct resources *resources)
{
    uint32_t high = atomic_load_explicit(&resources->directory->high, memory_order_relaxed);

    graves_hold(resources);
    for (uint32_t i = 0; i < high; i++) {
        struct resource *resource = resources->by_index[i];
        bool wished;

        if (resource == NULL || resource->group_count == 0)
            continue;
        wished = resource_soft_refs(resources, resource) > 0;
        if (wished && resource->order == ORDER_NONE) {
            resource->order_number = ++resources->order_number;
            if (resources->trace != NULL)
                use_trace_add(
                    resources->trace,
                    &(struct traced_use) { .at_ns = ec_real_ns(), .index = i, .kind = USE_ORDER });
            order_set(resources, resource, ORDER_QUEUED);
        } else if (!wished && resource->order != ORDER_NONE) {
            order_stop(resources, resource, ORDER_NONE);
        }
    }
    leaving_check(resources);
    soft_advance(resources);
    graves_release(resources);
}

void soft_advance(struct resources *resources)
{
    const struct config *config = resources->services->config;
    uint64_t budget = (uint64_t)config_integer(config, EC_CONFIG_resource_soft_bytes);
    uint32_t workers = (uint32_t)config_integer(config, EC_CONFIG_resource_workers);
    uint32_t limit =
        workers > 3 ? workers / 2 : 1; /* loads that somebody waits for have the rest */

    if (resources->queued > 0 && resources->soft == RESOURCES_SOFT_HONOURED)
        orders_begin_free(resources);
    while (resources->queued > 0 && resources->soft == RESOURCES_SOFT_HONOURED &&
           resources->prefetching < limit) {
        uint64_t used = soft_bytes(resources);
        struct resource *resource = next_order(resources, used < budget ? budget - used : 0);

        if (resource == NULL || !order_begin(resources, resource))
            return;
    }
}

bool soft_hurry(struct resources *resources, struct resource *resource)
{
    if (resource->order == ORDER_NONE)
        return false;
    resource->hurried = true;
    return resource->order == ORDER_ACTIVE || order_begin(resources, resource);
}

void soft_lost(struct resources *resources, struct resource *resource)
{
    if (resource->order == ORDER_ACTIVE)
        order_stop(resources, resource, ORDER_SPENT);
}

/* With its size known, an order may turn out to be more than there is room for. */
void soft_load_ended(struct resources *resources, struct resource *resource)
{
    const struct config *config = resources->services->config;

    if (resource->order != ORDER_ACTIVE)
        return;
    if (resources->prefetching > 0)
        resources->prefetching--;
    if (resource->presence == RESOURCE_ABSENT)
        order_stop(resources, resource, ORDER_SPENT);
    else if (alone(resource) && !resource->hurried &&
             soft_bytes(resources) >
                 (uint64_t)config_integer(config, EC_CONFIG_resource_soft_bytes))
        order_stop(resources, resource, ORDER_QUEUED);
}

void soft_end(struct resources *resources, struct resource *resource)
{
    if (resource->order != ORDER_NONE)
        order_stop(resources, resource, ORDER_NONE);
}

uint64_t soft_bytes(const struct resources *resources)
{
    uint32_t high = atomic_load_explicit(&resources->directory->high, memory_order_relaxed);
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < high; i++) {
        const struct resource *resource = resources->by_index[i];

        if (resource == NULL || !alone(resource))
            continue;
        bytes +=
            resource->content != NULL ? content_bytes(resource->content) : resource->known_bytes;
    }
    return bytes;
}

uint64_t resources_set_soft(struct resources *resources, enum resources_soft soft)
{
    uint32_t high = atomic_load_explicit(&resources->directory->high, memory_order_relaxed);
    uint64_t before = asset_heap_used(&resources->heap), after;

    if (resources->soft == soft)
        return 0;
    log_info(RESOURCES_MODULE, "soft references are %s",
             soft == RESOURCES_SOFT_HONOURED ? "honoured"
             : soft == RESOURCES_SOFT_PAUSED ? "paused"
                                             : "cleared");
    resources->soft = soft;
    graves_hold(resources);
    for (uint32_t i = 0; i < high; i++) {
        struct resource *resource = resources->by_index[i];

        if (resource == NULL)
            continue;
        if (soft == RESOURCES_SOFT_HONOURED && resource->order == ORDER_SPENT)
            order_set(resources, resource, ORDER_QUEUED);
        if (resource->order == ORDER_ACTIVE &&
            (soft == RESOURCES_SOFT_CLEARED || (soft == RESOURCES_SOFT_PAUSED && alone(resource) &&
                                                resource->presence == RESOURCE_LOADING)))
            order_stop(resources, resource, ORDER_QUEUED);
    }
    leaving_check(resources);
    soft_advance(resources);
    graves_release(resources);
    after = asset_heap_used(&resources->heap);
    return after < before ? before - after : 0;
}

/* What groups have in memory costs nothing, in whatever order; so a game that asks for all of a level that is
 * there takes one pass, and not one for each resource. */
static void orders_begin_free(struct resources *resources)
{
    uint32_t high = atomic_load_explicit(&resources->directory->high, memory_order_relaxed);

    for (uint32_t i = 0; i < high && resources->queued > 0; i++) {
        struct resource *resource = resources->by_index[i];

        if (resource != NULL && resource->order == ORDER_QUEUED && resource->needed > 0 &&
            resource->presence >= RESOURCE_DECODED)
            order_begin(resources, resource);
    }
}

/* The first in the queue that fits. Sizes that are not known yet fit while there is any room. What other
 * orders or groups have in memory already costs nothing. */
static struct resource *next_order(struct resources *resources, uint64_t room)
{
    uint32_t high = atomic_load_explicit(&resources->directory->high, memory_order_relaxed);
    struct resource *first = NULL;

    for (uint32_t i = 0; i < high; i++) {
        struct resource *resource = resources->by_index[i];

        if (resource == NULL || resource->order != ORDER_QUEUED)
            continue;
        if (resource->needed == 0 && (room == 0 || resource->known_bytes > room))
            continue;
        if (first == NULL || resource->order_number < first->order_number)
            first = resource;
    }
    return first;
}

static bool order_begin(struct resources *resources, struct resource *resource)
{
    struct ec_error why;

    order_set(resources, resource, ORDER_ACTIVE);
    resource_need(resources, resource);
    if (resource->presence == RESOURCE_DECODED) { /* for a group that goes on loading */
        resource_publish(resources, resource);
        return true;
    }
    if (resource->presence == RESOURCE_ABSENT && resource_load(resources, resource, &why) < 0) {
        log_warning(RESOURCES_MODULE, "load %s ahead: %s", resource->name, why.text);
        order_stop(resources, resource, ORDER_SPENT);
        return false;
    }
    if (resource->presence == RESOURCE_LOADING)
        resources->prefetching++;
    return true;
}

static void order_stop(struct resources *resources, struct resource *resource, enum order order)
{
    bool active = resource->order == ORDER_ACTIVE;

    if (active && resource->presence == RESOURCE_LOADING && resources->prefetching > 0)
        resources->prefetching--;
    order_set(resources, resource, order);
    resource->hurried = false;
    if (active)
        resource_unneed(resources, resource);
}

static void order_set(struct resources *resources, struct resource *resource, enum order order)
{
    if (resource->order == ORDER_QUEUED)
        resources->queued--;
    if (order == ORDER_QUEUED)
        resources->queued++;
    resource->order = order;
}
