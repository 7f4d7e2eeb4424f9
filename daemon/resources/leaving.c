/* leaving.c - how resources go: dropped, unloaded, replaced. Evictions are in evicting.c.
 *
 * The daemon keeps no count of references. It marks the entries, passes one barrier, and sums what the
 * clients have written into their own segments: segment/references.h has the argument. */
#include "resources/state.h"

#include <assert.h>
#include <stdlib.h>

#include "clients/clients.h"
#include "daemon/log.h"
#include "resources/directory_writer.h"

#define RECHECK_MS 100 /* how long memory stays after the last reference ended */

static bool old_life_end(struct resources *resources, struct old_life *life);
static void old_lives_check(struct resources *resources);
static void on_recheck(uv_timer_t *timer);
static void unloading_groups_end(struct resources *resources);

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
    if (resource->content != NULL)
        content_release(&resources->contents, resource->content);
    resource->content = NULL;
    resource->presence = RESOURCE_ABSENT;
    if (resource->job != NULL) /* it was being loaded anew */
        worker_pool_cancel(resources->workers, resource->job);
    resource_bury(resources, resource);
}

void resource_unneed(struct resources *resources, struct resource *resource)
{
    assert(resource->needed > 0);
    if (--resource->needed > 0)
        return;
    switch (resource->presence) {
    case RESOURCE_ABSENT:
        resource_bury(resources, resource);
        break;
    case RESOURCE_LOADING: /* dropped when the worker hands it back */
        worker_pool_cancel(resources->workers, resource->job);
        break;
    case RESOURCE_DECODED:
        resource_drop(resources, resource, EC_RESOURCE_UNLOADED);
        break;
    case RESOURCE_READY:
        resource_mark(resources, resource);
        resource->leaving = true;
        resources->leaving_count++;
        break;
    }
}

void resource_need(struct resources *resources, struct resource *resource)
{
    resource->needed++;
    if (resource->leaving) {
        resource_unmark(resources, resource);
        resource->leaving = false;
        resources->leaving_count--;
    }
}

void leaving_check(struct resources *resources)
{
    graves_hold(resources);
    /* What clients hold that are not back yet is not known. */
    if ((resources->leaving_count > 0 || resources->old_lives != NULL) &&
        clients_awaited(resources->services->clients) == 0 && references_barrier(resources)) {
        uint32_t high = atomic_load_explicit(&resources->directory->high, memory_order_relaxed);

        for (uint32_t i = 0; i < high && resources->leaving_count > 0; i++) {
            struct resource *resource = resources->by_index[i];

            if (resource != NULL && resource->leaving &&
                references_sum(resources, i, false, NULL) == 0)
                resource_drop(resources, resource, EC_RESOURCE_UNLOADED);
        }
        old_lives_check(resources);
    }
    unloading_groups_end(resources);
    if (resources->leaving_count == 0 && resources->old_lives == NULL)
        uv_timer_stop(&resources->recheck);
    else if (!uv_is_active((uv_handle_t *)&resources->recheck))
        uv_timer_start(&resources->recheck, on_recheck, RECHECK_MS, RECHECK_MS);
    graves_release(resources);
}

void leaving_check_soon(struct resources *resources)
{
    if (resources->leaving_count > 0 || resources->old_lives != NULL)
        uv_timer_start(&resources->recheck, on_recheck, 0, RECHECK_MS);
}

void old_life_begin(struct resources *resources, struct old_life *life)
{
    struct old_life *kept;

    if (references_barrier(resources) && old_life_end(resources, life))
        return;
    kept = calloc(1, sizeof *kept);
    if (kept ==
        NULL) { /* the entry is never used again, and its bytes stay: nobody reads wrong ones */
        log_error(RESOURCES_MODULE, "no memory to remember entry %u", life->index);
        return;
    }
    *kept = *life;
    kept->next = resources->old_lives;
    resources->old_lives = kept;
    if (kept->resource != NULL)
        kept->resource->old_lives++;
    if (!uv_is_active((uv_handle_t *)&resources->recheck))
        uv_timer_start(&resources->recheck, on_recheck, RECHECK_MS, RECHECK_MS);
}

void old_lives_forget(struct resources *resources)
{
    struct old_life *life;

    while ((life = resources->old_lives) != NULL) {
        resources->old_lives = life->next;
        free(life);
    }
}

void group_unload(struct resources *resources, struct group *group)
{
    struct ec_error why = { 0 };

    group->asked = false;
    if (group->user_count > 0) /* it stays for them */
        return;
    graves_hold(resources);
    if (group->state == GROUP_LOADING) {
        ec_fail(&why, EC_ERR_STATE, "group %s was unloaded while it was loading", group->name);
        group_load_cancel(resources, group, &why);
    } else if (group->state == GROUP_FAILED) {
        group->state = GROUP_UNLOADED;
    } else if (group_wants(group)) {
        group->state = GROUP_UNLOADING;
        for (uint32_t i = 0; i < group->count; i++)
            resource_unneed(resources, group->members[i]);
        group_unlink(resources, group);
        leaving_check(resources);
    }
    graves_release(resources);
}

void group_unlink(struct resources *resources, struct group *group)
{
    if (!group->linked)
        return;
    group->linked = false;
    for (uint32_t i = 0; i < group->depend_count; i++) {
        struct group *other = groups_find(resources, group->depends[i]);

        if (other == NULL) /* the file of an earlier run was not whole: group_link_wanted */
            continue;
        for (uint32_t k = 0; k < other->user_count; k++)
            if (other->users[k] == group) {
                other->users[k] = other->users[--other->user_count];
                break;
            }
        if (other->user_count == 0 && !other->asked && group_wants(other))
            group_unload(resources, other);
    }
}

/* Let go of what is not referred to any more. true: nothing is left of this life. */
static bool old_life_end(struct resources *resources, struct old_life *life)
{
    if (references_sum(resources, life->index, false, NULL) > 0)
        return false;
    if (life->content != NULL)
        content_release(&resources->contents, life->content);
    life->content = NULL;
    if (references_sum(resources, life->index, true, NULL) > 0)
        return false;
    directory_remove(resources->directory, life->index);
    return true;
}

static void old_lives_check(struct resources *resources)
{
    for (struct old_life **at = &resources->old_lives; *at != NULL;) {
        struct old_life *life = *at;

        if (!old_life_end(resources, life)) {
            at = &life->next;
            continue;
        }
        *at = life->next;
        if (life->resource != NULL)
            life->resource->old_lives--;
        free(life);
    }
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
