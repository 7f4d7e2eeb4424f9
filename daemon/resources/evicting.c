/* evicting.c - which resources may go, in which order, and who holds the others. */
#include "resources/state.h"

#include <stdlib.h>

#include "clients/clients.h"
#include "daemon/counters.h"
#include "daemon/log.h"
#include "foundation/real_time.h"
#include "resources/directory_writer.h"
#include "segment/references.h"

static bool group_is_awaited(struct group *group, uint64_t stamp);
static enum verdict verdict_before(const struct resources *resources,
                                   const struct resource *resource, const struct group *group);
static int compare_candidates(const void *left, const void *right);
static uint64_t evict_marked(struct resources *resources, uint32_t first, uint32_t end);
static void evicted(struct resources *resources, struct resource *resource);

uint64_t resource_hard_refs(struct resources *resources, const struct resource *resource)
{
    return references_sum(resources, resource->index, false, NULL);
}

/* Those of old lives ask for the same resource. */
uint64_t resource_soft_refs(struct resources *resources, const struct resource *resource)
{
    uint64_t sum = references_sum(resources, resource->index, true, NULL);

    for (const struct old_life *old = resources->old_lives; old != NULL && resource->old_lives > 0;
         old = old->next)
        if (old->resource == resource)
            sum += references_sum(resources, old->index, true, NULL);
    return sum;
}

uint64_t references_sum(struct resources *resources, uint32_t index, bool soft,
                        uint32_t *first_client)
{
    struct clients *clients = resources->services->clients;
    uint64_t sum = 0;

    for (struct client *client = clients_next(clients, NULL); client != NULL;
         client = clients_next(clients, client)) {
        const struct ec_client_segment *segment = client_segment(client);
        uint32_t count;

        if (!client->attached || segment == NULL)
            continue;
        count = ec_reference_sum(segment, soft ? &segment->soft : &segment->hard, index);
        if (count > 0 && sum == 0 && first_client != NULL)
            *first_client = client->id;
        sum += count;
    }
    return sum;
}

void resource_mark(struct resources *resources, struct resource *resource)
{
    ec_reference_mark(&resources->directory->entries[resource->index].life,
                      directory_generation(resources->directory, resource->index));
}

void resource_unmark(struct resources *resources, struct resource *resource)
{
    ec_reference_unmark(&resources->directory->entries[resource->index].life,
                        directory_generation(resources->directory, resource->index));
}

bool references_barrier(struct resources *resources)
{
    if (ec_reference_barrier(resources->membarrier) == EC_OK)
        return true;
    log_error(RESOURCES_MODULE, "membarrier failed; nothing is freed");
    return false;
}

uint64_t evict_batch(struct resources *resources, uint32_t count, uint64_t bytes)
{
    uint64_t freed = 0;

    for (uint32_t first = 0, end; first < count && freed < bytes; first = end) {
        uint64_t marked = 0;

        for (end = first; end < count && marked < bytes - freed; end++) {
            marked += resource_bytes(resources->batch[end]);
            resource_mark(resources, resources->batch[end]);
        }
        freed += evict_marked(resources, first, end);
    }
    return freed;
}

uint32_t evict_candidates(struct resources *resources, const struct group *group,
                          uint32_t *evictable)
{
    uint32_t high = atomic_load_explicit(&resources->directory->high, memory_order_relaxed);
    const bool awaited = clients_awaited(resources->services->clients) > 0;
    uint32_t count = 0;

    uses_read(resources);
    resources->stamp++;                         /* of the walks of group_is_awaited */
    for (unsigned pass = 0; pass < 2; pass++) { /* those that may go first */
        for (uint32_t i = 0; i < (group != NULL ? group->count : high); i++) {
            struct resource *resource = group != NULL ? group->members[i] : resources->by_index[i];

            if (resource == NULL || resource->presence != RESOURCE_READY)
                continue;
            resource->verdict =
                awaited ? VERDICT_RETURNING : verdict_before(resources, resource, group);
            if ((resource->verdict != VERDICT_NONE) == (pass == 1))
                resources->batch[count++] = resource;
        }
        if (pass == 0)
            *evictable = count;
    }
    qsort(resources->batch, *evictable, sizeof resources->batch[0], compare_candidates);
    return count;
}

void evict_announce(struct resources *resources, struct ec_json_writer *names)
{
    struct group *group, *next;

    HASH_ITER(hh, resources->groups, group, next)
    {
        if (!group->lost)
            continue;
        group->lost = false;
        if (names != NULL)
            ec_json_string(names, group->name);
        if (group->state == GROUP_READY)
            group->state = GROUP_EVICTED;
        group_announce(resources, group);
    }
}

/* It is loading, or one is that depends on it. Each group is walked once, since the number of ways that
 * lead to it has no bound. */
static bool group_is_awaited(struct group *group, uint64_t stamp)
{
    if (group->stamp == stamp)
        return group->awaited;
    group->stamp = stamp;
    group->awaited = group->state == GROUP_LOADING;
    for (uint32_t i = 0; i < group->user_count && !group->awaited; i++)
        group->awaited = group_is_awaited(group->users[i], stamp);
    return group->awaited;
}

/* Why a resource must not even be tried; VERDICT_NONE: it may. When a group is evicted, what another
 * group needs stays. */
static enum verdict verdict_before(const struct resources *resources,
                                   const struct resource *resource, const struct group *group)
{
    uint32_t own = group != NULL && group_wants(group) ? 1 : 0;

    if (resource->leaving)
        return VERDICT_LEAVING;
    if (resource_residency(resource) == RESIDENCY_PINNED)
        return VERDICT_PINNED;
    for (uint32_t i = 0; i < resource->group_count; i++)
        if (group_is_awaited(resource->groups[i], resources->stamp))
            return VERDICT_AWAITED;
    if (resource->order == ORDER_ACTIVE)
        own++;
    if (group != NULL && resource->needed > own)
        return VERDICT_SHARED;
    return VERDICT_NONE;
}

static int compare_candidates(const void *left, const void *right)
{
    const struct resource *a = *(struct resource *const *)left;
    const struct resource *b = *(struct resource *const *)right;

    if (usage_before(a, b))
        return -1;
    if (usage_before(b, a))
        return 1;
    return a->index < b->index ? -1 : 1;
}

/* [first, end) of the batch is marked: free what nobody holds, unmark the rest. */
static uint64_t evict_marked(struct resources *resources, uint32_t first, uint32_t end)
{
    bool ordered = references_barrier(resources);
    uint64_t freed = 0;

    for (uint32_t i = first; i < end; i++) {
        struct resource *resource = resources->batch[i];

        resource->verdict_client = 0;
        if (!ordered ||
            references_sum(resources, resource->index, false, &resource->verdict_client) > 0) {
            resource_unmark(resources, resource);
            resource->verdict = ordered ? VERDICT_HELD : VERDICT_FAILED;
            continue;
        }
        if (resource->content->users == 1) /* else other names keep the bytes */
            freed += resource_bytes(resource);
        resource->verdict = VERDICT_FREED;
        evicted(resources, resource);
    }
    return freed;
}

static void evicted(struct resources *resources, struct resource *resource)
{
    resource_drop(resources, resource, EC_RESOURCE_EVICTED);
    counters_add(resources->services->counters, EC_COUNTER_resources_evicted, 1);
    for (uint32_t g = 0; g < resource->group_count; g++)
        resource->groups[g]->lost = resource->groups[g]->lost || group_wants(resource->groups[g]);
    soft_lost(resources, resource);
}
