/* leaving.c - how resources go: dropped, unloaded, evicted; and who keeps them.
 *
 * The daemon keeps no count of references. It marks the entries of a batch, passes one barrier, and
 * sums what the clients have written into their own segments: segment/references.h has the argument. */
#include "resources/state.h"

#include <assert.h>
#include <stdlib.h>

#include "clients/clients.h"
#include "daemon/counters.h"
#include "daemon/log.h"
#include "resources/directory_writer.h"
#include "segment/references.h"

#define RECHECK_MS 100 /* how long memory stays after the last reference ended */

static uint64_t references_sum(struct resources *resources, const struct resource *resource,
                               bool soft, uint32_t *first_client);
static void mark(struct resources *resources, struct resource *resource);
static void unmark(struct resources *resources, struct resource *resource);
static bool barrier(struct resources *resources);
static void on_recheck(uv_timer_t *timer);
static void unloading_groups_end(struct resources *resources);
static enum verdict verdict_before(const struct resource *resource, const struct group *group);
static int compare_candidates(const void *left, const void *right);
static uint64_t evict_marked(struct resources *resources, uint32_t first, uint32_t end);

uint64_t resource_hard_refs(struct resources *resources, const struct resource *resource)
{
    uint32_t client;

    return references_sum(resources, resource, false, &client);
}

uint64_t resource_soft_refs(struct resources *resources, const struct resource *resource)
{
    uint32_t client;

    return references_sum(resources, resource, true, &client);
}

void resource_drop(struct resources *resources, struct resource *resource,
                   enum ec_resource_state state)
{
    uint32_t index = resource->index;

    assert(resource->presence != RESOURCE_ABSENT);
    if (resource->presence == RESOURCE_READY)
        resources->ready--;
    if (resource->leaving) {
        resource->leaving = false;
        resources->leaving_count--;
    }
    /* First nobody can get in any more, then the bytes go. */
    if (directory_advance(resources->directory, &resource->index, state) < 0)
        log_error(RESOURCES_MODULE, "resource %s has used up its handles and the directory is full",
                  resource->name);
    resources->by_index[index] = NULL;
    resources->by_index[resource->index] = resource;
    if (resource->presence == RESOURCE_DECODED || resource->presence == RESOURCE_READY)
        asset_heap_free_soon(&resources->heap, resource->offset, resource->decoded.bytes);
    resource->presence = RESOURCE_ABSENT;
}

void resource_unneed(struct resources *resources, struct resource *resource)
{
    assert(resource->needed > 0);
    if (--resource->needed > 0)
        return;
    switch (resource->presence) {
    case RESOURCE_ABSENT:
        break;
    case RESOURCE_LOADING: /* dropped when the worker hands it back */
        worker_pool_cancel(resources->workers, resource->job);
        break;
    case RESOURCE_DECODED:
        resource_drop(resources, resource, EC_RESOURCE_UNLOADED);
        break;
    case RESOURCE_READY:
        mark(resources, resource);
        resource->leaving = true;
        resources->leaving_count++;
        break;
    }
}

void resource_need(struct resources *resources, struct resource *resource)
{
    resource->needed++;
    if (resource->leaving) {
        unmark(resources, resource);
        resource->leaving = false;
        resources->leaving_count--;
    }
}

void leaving_check(struct resources *resources)
{
    if (resources->leaving_count > 0 && barrier(resources)) {
        uint32_t high = atomic_load_explicit(&resources->directory->high, memory_order_relaxed);

        for (uint32_t i = 0; i < high && resources->leaving_count > 0; i++) {
            struct resource *resource = resources->by_index[i];

            if (resource != NULL && resource->leaving &&
                resource_hard_refs(resources, resource) == 0)
                resource_drop(resources, resource, EC_RESOURCE_UNLOADED);
        }
    }
    unloading_groups_end(resources);
    if (resources->leaving_count == 0)
        uv_timer_stop(&resources->recheck);
    else if (!uv_is_active((uv_handle_t *)&resources->recheck))
        uv_timer_start(&resources->recheck, on_recheck, RECHECK_MS, RECHECK_MS);
}

void leaving_check_soon(struct resources *resources)
{
    if (resources->leaving_count > 0)
        uv_timer_start(&resources->recheck, on_recheck, 0, RECHECK_MS);
}

void group_unload(struct resources *resources, struct group *group)
{
    struct ec_error why = { 0 };

    if (group->state == GROUP_LOADING) {
        ec_fail(&why, EC_ERR_STATE, "group %s was unloaded while it was loading", group->name);
        group_load_cancel(resources, group, &why);
        return;
    }
    if (group->state == GROUP_FAILED)
        group->state = GROUP_UNLOADED;
    if (!group_wants(group))
        return;
    group->state = GROUP_UNLOADING;
    for (uint32_t i = 0; i < group->count; i++)
        resource_unneed(resources, group->members[i]);
    leaving_check(resources);
}

uint64_t evict_batch(struct resources *resources, uint32_t count, uint64_t bytes)
{
    uint64_t freed = 0;

    for (uint32_t first = 0, end; first < count && freed < bytes; first = end) {
        uint64_t marked = 0;

        for (end = first; end < count && marked < bytes - freed; end++) {
            marked += resource_bytes(resources->batch[end]);
            mark(resources, resources->batch[end]);
        }
        freed += evict_marked(resources, first, end);
    }
    return freed;
}

uint32_t evict_candidates(struct resources *resources, const struct group *group,
                          uint32_t *evictable)
{
    uint32_t high = atomic_load_explicit(&resources->directory->high, memory_order_relaxed);
    uint32_t count = 0;

    for (unsigned pass = 0; pass < 2; pass++) { /* those that may go first */
        for (uint32_t i = 0; i < (group != NULL ? group->count : high); i++) {
            struct resource *resource = group != NULL ? group->members[i] : resources->by_index[i];

            if (resource == NULL || resource->presence != RESOURCE_READY || resource->leaving)
                continue;
            resource->verdict = verdict_before(resource, group);
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

/* Sum over the living clients; *first_client is the id of one that holds it. */
static uint64_t references_sum(struct resources *resources, const struct resource *resource,
                               bool soft, uint32_t *first_client)
{
    struct clients *clients = resources->services->clients;
    uint64_t sum = 0;

    for (struct client *client = clients_next(clients, NULL); client != NULL;
         client = clients_next(clients, client)) {
        const struct ec_client_segment *segment = client_segment(client);
        uint32_t count;

        if (!client->attached || segment == NULL)
            continue;
        count = ec_reference_sum(segment, soft ? &segment->soft : &segment->hard, resource->index);
        if (count > 0 && sum == 0)
            *first_client = client->id;
        sum += count;
    }
    return sum;
}

static void mark(struct resources *resources, struct resource *resource)
{
    ec_reference_mark(&resources->directory->entries[resource->index].life,
                      directory_generation(resources->directory, resource->index));
}

static void unmark(struct resources *resources, struct resource *resource)
{
    ec_reference_unmark(&resources->directory->entries[resource->index].life,
                        directory_generation(resources->directory, resource->index));
}

static bool barrier(struct resources *resources)
{
    if (ec_reference_barrier(resources->membarrier) == EC_OK)
        return true;
    log_error(RESOURCES_MODULE, "membarrier failed; nothing is freed");
    return false;
}

static void on_recheck(uv_timer_t *timer)
{
    leaving_check(timer->data);
}

/* A group that is unloading has ended when none of its members is leaving. */
static void unloading_groups_end(struct resources *resources)
{
    struct group *group, *next;

    HASH_ITER(hh, resources->groups, group, next)
    {
        bool waiting = false;

        if (group->state != GROUP_UNLOADING)
            continue;
        for (uint32_t i = 0; i < group->count && !waiting; i++)
            waiting = group->members[i]->leaving;
        if (waiting)
            continue;
        group->state = GROUP_UNLOADED;
        group_announce(resources, group);
    }
}

/* Why a resource must not even be tried; VERDICT_NONE: it may. When a group is evicted, what another
 * group needs stays. */
static enum verdict verdict_before(const struct resource *resource, const struct group *group)
{
    if (resource_residency(resource) == RESIDENCY_PINNED)
        return VERDICT_PINNED;
    for (uint32_t i = 0; i < resource->group_count; i++)
        if (resource->groups[i]->state == GROUP_LOADING)
            return VERDICT_AWAITED;
    if (group != NULL && resource->needed > (group_wants(group) ? 1u : 0u))
        return VERDICT_SHARED;
    return VERDICT_NONE;
}

/* Evictable before auto; of each the one that was used longest ago first. */
static int compare_candidates(const void *left, const void *right)
{
    const struct resource *a = *(struct resource *const *)left;
    const struct resource *b = *(struct resource *const *)right;
    enum residency a_class = resource_residency(a), b_class = resource_residency(b);

    if (a_class != b_class)
        return a_class < b_class ? -1 : 1;
    if (a->used_ns != b->used_ns)
        return a->used_ns < b->used_ns ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

/* [first, end) of the batch is marked: free what nobody holds, unmark the rest. */
static uint64_t evict_marked(struct resources *resources, uint32_t first, uint32_t end)
{
    bool ordered = barrier(resources);
    uint64_t freed = 0;

    for (uint32_t i = first; i < end; i++) {
        struct resource *resource = resources->batch[i];

        resource->verdict_client = 0;
        if (!ordered || references_sum(resources, resource, false, &resource->verdict_client) > 0) {
            unmark(resources, resource);
            resource->verdict = ordered ? VERDICT_HELD : VERDICT_FAILED;
            resource->used_ns = (int64_t)uv_hrtime();
            continue;
        }
        freed += resource_bytes(resource);
        resource->verdict = VERDICT_FREED;
        resource_drop(resources, resource, EC_RESOURCE_EVICTED);
        counters_add(resources->services->counters, EC_COUNTER_resources_evicted, 1);
        for (uint32_t g = 0; g < resource->group_count; g++)
            resource->groups[g]->lost =
                resource->groups[g]->lost || group_wants(resource->groups[g]);
    }
    return freed;
}
