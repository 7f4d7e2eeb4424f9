/* loading.c - groups become ready at one moment, or fail and leave nothing.
 *
 * A load asks the workers for each member that is not there. The last one that comes publishes all.
 * The first that fails ends the loads of all groups that name it: what only they needed is dropped,
 * what is still at a worker is cancelled and dropped when it comes back. */
#include "resources/state.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config.h"
#include "daemon/counters.h"
#include "daemon/log.h"
#include "events/events.h"
#include "resources/directory_writer.h"

#define PROGRESS_NS 50000000 /* as the table of events says */

/* The member whose failure ended a load. */
struct failure {
    const struct resource *resource;
    const struct ec_error *why;
};

static int resource_load(struct resources *resources, struct resource *resource,
                         struct ec_error *why);
static struct load_limits limits_of(const struct config *config);
static unsigned resource_priority(const struct resource *resource);
static void progress_announce(struct resources *resources, struct group *group);
static void groups_go_on(struct resources *resources, const struct resource *resource);
static void groups_fail(struct resources *resources, const struct failure *failure);
static void group_complete(struct resources *resources, struct group *group);
static void group_give_up(struct resources *resources, struct group *group, enum group_state state);
static void group_fail(struct resources *resources, struct group *group,
                       const struct failure *failure);
static void waiters_fail(struct group *group, const struct ec_error *why,
                         const struct failure *failure);

int group_load(struct resources *resources, struct group *group, struct ec_error *why)
{
    bool wanted = group_wants(group);
    int rc = EC_OK;

    if (group->state == GROUP_LOADING || group->state == GROUP_READY)
        return EC_OK;
    group->state = GROUP_LOADING;
    group->pending = 0;
    for (uint32_t i = 0; i < group->count && !wanted; i++)
        resource_need(resources, group->members[i]);
    for (uint32_t i = 0; i < group->count && rc == EC_OK; i++) {
        struct resource *member = group->members[i];

        if (member->presence == RESOURCE_ABSENT)
            rc = resource_load(resources, member, why);
        if (member->presence == RESOURCE_LOADING) {
            worker_pool_raise(resources->workers, member->job, group->priority);
            group->pending++;
        }
    }
    if (rc < 0) {
        group_give_up(resources, group, GROUP_FAILED);
        return ec_error_prefix(why, rc, "load group %s", group->name);
    }
    if (group->pending == 0)
        group_complete(resources, group);
    return EC_OK;
}

void group_load_cancel(struct resources *resources, struct group *group, const struct ec_error *why)
{
    assert(group->state == GROUP_LOADING);
    group_give_up(resources, group, GROUP_UNLOADED);
    group_announce(resources, group);
    waiters_fail(group, why, NULL);
}

void group_loaded_write(const struct resources *resources, const struct group *group,
                        struct ec_json_writer *writer)
{
    uint32_t loaded = 0;

    for (uint32_t i = 0; i < group->count; i++)
        loaded += group->members[i]->presence >= RESOURCE_DECODED;
    ec_json_object_begin(writer);
    ec_json_member_string(writer, "group", group->name);
    ec_json_member_string(writer, "state", group_state_name(group->state));
    ec_json_member_u64(writer, "loaded", loaded);
    ec_json_member_u64(writer, "total", group->count);
    ec_json_member_u64(writer, "bytes", group_bytes(group));
    ec_json_member_object(writer, "handles");
    for (uint32_t i = 0; i < group->count && group->state == GROUP_READY; i++) {
        const struct resource *member = group->members[i];

        ec_json_key_n(writer, member->name, strlen(member->name));
        ec_json_hex64(writer, directory_handle(resources->directory, member->index));
    }
    ec_json_object_end(writer);
    ec_json_object_end(writer);
}

void group_announce(struct resources *resources, const struct group *group)
{
    const char *state = group_state_name(group->state);
    struct event_resource_group payload = { 0 };

    memcpy(payload.group, group->name, strlen(group->name));
    memcpy(payload.state, state, strlen(state));
    payload.bytes[0] = group_bytes(group);
    log_info(RESOURCES_MODULE, "group %s is %s, %llu bytes", group->name, state,
             (unsigned long long)payload.bytes[0]);
    events_publish_system(resources->services->events, EC_SYSTEM_resource_group, &payload);
}

static struct load_limits limits_of(const struct config *config)
{
    return (struct load_limits) {
        .decode = { .bytes_max = (uint64_t)config_integer(config, EC_CONFIG_resource_bytes_max),
                    .pixels_max = (uint64_t)config_integer(config, EC_CONFIG_resource_pixels_max) },
        .memory_bytes = (uint64_t)config_integer(config, EC_CONFIG_resource_decode_memory_bytes),
        .seconds = (unsigned)config_integer(config, EC_CONFIG_resource_seconds_max),
        .guarded = config_boolean(config, EC_CONFIG_resource_sandbox),
        .drop_cache = config_boolean(config, EC_CONFIG_resource_drop_cache),
    };
}

/* The highest of the groups that are loading it. */
static unsigned resource_priority(const struct resource *resource)
{
    unsigned highest = 0;

    for (uint32_t i = 0; i < resource->group_count; i++)
        if (resource->groups[i]->state == GROUP_LOADING && resource->groups[i]->priority > highest)
            highest = resource->groups[i]->priority;
    return highest;
}

/* Hand an absent resource to the workers. */
static int resource_load(struct resources *resources, struct resource *resource,
                         struct ec_error *why)
{
    struct load_job *job;

    if (directory_generation(resources->directory, resource->index) == 0)
        return ec_fail(why, EC_ERR_LIMIT, "resource %s has used up its handles", resource->name);
    job = calloc(1, sizeof *job);
    if (job == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory to load %s", resource->name);
    if (aliases_resolve(&resources->aliases, resource->path, job->path, sizeof job->path, why) <
        0) {
        free(job);
        return why->code;
    }
    job->owner = resource;
    job->kind = resource->kind;
    job->options = resource->options;
    job->limits = limits_of(resources->services->config);
    job->priority = resource_priority(resource);
    resource->job = job;
    resource->presence = RESOURCE_LOADING;
    directory_set_state(resources->directory, resource->index, EC_RESOURCE_LOADING);
    worker_pool_submit(resources->workers, job);
    return EC_OK;
}

/* The result of a worker is in: decoded, failed, cancelled; and it may be wanted or not. */
void resource_job_done(void *context, struct load_job *job)
{
    struct resources *resources = context;
    struct resource *resource = job->owner;
    struct counters *counters = resources->services->counters;
    struct failure failure = { resource, &job->why };

    resource->job = NULL;
    resource->mount = job->mount;
    if (job->rc == EC_AGAIN)
        resources->cancelled++;
    if (job->rc == EC_AGAIN && resource->needed > 0) { /* cancelled, and wanted again since */
        job->rc = EC_OK;
        resource->job = job;
        worker_pool_submit(resources->workers, job);
        return;
    }
    if (job->rc == EC_OK) {
        counters_add(counters, EC_COUNTER_resources_loaded, 1);
        resource->presence = RESOURCE_DECODED;
        resource->decoded = job->decoded;
        resource->offset = job->offset;
        resource->used_ns = (int64_t)uv_hrtime();
    }
    if (job->rc != EC_OK || resource->needed == 0)
        resource_drop(resources, resource,
                      job->rc < 0 && resource->needed > 0 ? EC_RESOURCE_FAILED
                                                          : EC_RESOURCE_UNLOADED);
    if (job->rc < 0 && resource->needed > 0)
        counters_add(counters, EC_COUNTER_resources_failed, 1);
    if (job->rc < 0)
        groups_fail(resources, &failure);
    else
        groups_go_on(resources, resource);
    free(job);
}

/* A group of thousands must not flood those who listen. */
static void progress_announce(struct resources *resources, struct group *group)
{
    const int64_t now = (int64_t)uv_hrtime();
    struct event_resource_progress payload = { 0 };

    if (group->pending > 0 && now - group->progress_ns < PROGRESS_NS)
        return;
    group->progress_ns = now;
    memcpy(payload.group, group->name, strlen(group->name));
    payload.loaded[0] = group->count - group->pending;
    payload.total[0] = group->count;
    payload.bytes[0] = group_bytes(group);
    events_publish_system(resources->services->events, EC_SYSTEM_resource_progress, &payload);
}

/* Answers that go out here may bring new requests in, also for these groups: so first count, then
 * complete, and a group that counts nothing any more is one of those that were counted. */
static void groups_go_on(struct resources *resources, const struct resource *resource)
{
    for (uint32_t i = 0; i < resource->group_count; i++)
        if (resource->groups[i]->state == GROUP_LOADING)
            resource->groups[i]->pending--;
    for (uint32_t i = 0; i < resource->group_count; i++)
        if (resource->groups[i]->state == GROUP_LOADING)
            progress_announce(resources, resource->groups[i]);
    for (uint32_t i = 0; i < resource->group_count; i++)
        if (resource->groups[i]->state == GROUP_LOADING && resource->groups[i]->pending == 0)
            group_complete(resources, resource->groups[i]);
}

/* A request that loads the resource anew ends this: what loads then has another job. */
static void groups_fail(struct resources *resources, const struct failure *failure)
{
    const struct resource *resource = failure->resource;

    for (uint32_t i = 0; i < resource->group_count && resource->presence == RESOURCE_ABSENT; i++)
        if (resource->groups[i]->state == GROUP_LOADING)
            group_fail(resources, resource->groups[i], failure);
}

/* All members are there: publish those that are new. */
static void group_complete(struct resources *resources, struct group *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        struct resource *member = group->members[i];

        if (member->presence != RESOURCE_DECODED)
            continue;
        directory_publish(resources->directory, member->index, member->offset, &member->decoded);
        member->presence = RESOURCE_READY;
        resources->ready++;
    }
    group->state = GROUP_READY;
    group_announce(resources, group);
    while (group->waiters != NULL) {
        struct load_waiter *waiter = group->waiters;

        group->waiters = waiter->next;
        group_loaded_write(resources, group, reply_result(waiter->reply));
        reply_finish(waiter->reply);
        free(waiter);
    }
}

/* The group stops needing its members; what nobody else needs goes. */
static void group_give_up(struct resources *resources, struct group *group, enum group_state state)
{
    group->state = state;
    group->pending = 0;
    for (uint32_t i = 0; i < group->count; i++)
        resource_unneed(resources, group->members[i]);
    leaving_check(resources);
}

static void group_fail(struct resources *resources, struct group *group,
                       const struct failure *failure)
{
    struct ec_error why = *failure->why;

    group_give_up(resources, group, GROUP_FAILED);
    ec_error_prefix(&why, EC_ERR_GROUP, "group %s: resource %s", group->name,
                    failure->resource->name);
    log_warning(RESOURCES_MODULE, "%s", why.text);
    group_announce(resources, group);
    waiters_fail(group, &why, failure);
}

static void waiters_fail(struct group *group, const struct ec_error *why,
                         const struct failure *failure)
{
    while (group->waiters != NULL) {
        struct load_waiter *waiter = group->waiters;

        group->waiters = waiter->next;
        if (failure != NULL) {
            struct ec_json_writer *data = reply_data(waiter->reply);

            ec_json_object_begin(data);
            ec_json_member_string(data, "group", group->name);
            ec_json_member_string(data, "resource", failure->resource->name);
            ec_json_member_string(data, "path", failure->resource->path);
            ec_json_member_string(data, "reason", failure->why->text);
            ec_json_object_end(data);
        }
        reply_fail(waiter->reply, why);
        free(waiter);
    }
}
