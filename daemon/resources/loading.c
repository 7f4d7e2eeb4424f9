/* loading.c - groups become ready at one moment, or fail and leave nothing.
 *
 * A load asks the workers for each member that is not there, and loads the groups that it depends on. The
 * last one that comes publishes all. The first that fails ends the loads of all groups that name it, and
 * of those that depend on them: what only they needed is dropped, what is still at a worker is
 * cancelled and dropped when it comes back. */
#include "resources/state.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config.h"
#include "daemon/counters.h"
#include "daemon/log.h"
#include "events/events.h"
#include "foundation/real_time.h"
#include "resources/directory_writer.h"
#include "resources/hot_reload.h"
#include "resources/succession.h"

#define PROGRESS_NS 50000000 /* as the table of events says */

/* The member whose failure ended a load. */
struct failure {
    const struct resource *resource;
    const struct ec_error *why;
};

static int group_start(struct resources *resources, struct group *group, struct ec_error *why);
static int group_link(struct resources *resources, struct group *group, struct ec_error *why);
static bool depends_ready(struct resources *resources, const struct group *group);
static struct load_limits limits_of(const struct config *config);
static const void *resource_company(const struct resource *resource);
static unsigned resource_priority(const struct resource *resource);
static void progress_announce(struct resources *resources, struct group *group);
static void waiter_gone(void *context);
static void job_done(struct resources *resources, struct load_job *job);
static void job_again(struct resources *resources, struct resource *resource, struct load_job *job);
static void job_succeeded(struct resources *resources, struct resource *resource,
                          struct load_job *job);
static void groups_go_on(struct resources *resources, const struct resource *resource);
static void groups_fail(struct resources *resources, const struct failure *failure);
static void group_try(struct resources *resources, struct group *group);
static void group_complete(struct resources *resources, struct group *group);
static void member_publish(struct resources *resources, struct resource *resource);
static void groups_whole(struct resources *resources, const struct resource *resource);
static void requests_answer(struct resources *resources, struct resource *resource);
static void requests_fail(struct resource *resource, const struct ec_error *why);
static void group_give_up(struct resources *resources, struct group *group, enum group_state state);
static void group_fail(struct resources *resources, struct group *group,
                       const struct failure *failure);
static void group_waiters_fail(struct group *group, const struct ec_error *why,
                               const struct failure *failure);

int group_load(struct resources *resources, struct group *group, struct ec_error *why)
{
    int rc = group_check_depends(resources, group, why);

    if (rc < 0)
        return rc;
    graves_hold(resources);
    rc = group_start(resources, group, why);
    if (rc < 0)
        ec_error_prefix(why, rc, "load group %s", group->name);
    else
        group->asked = true;
    graves_release(resources);
    return rc;
}

void group_load_cancel(struct resources *resources, struct group *group, const struct ec_error *why)
{
    assert(group->state == GROUP_LOADING);
    group_give_up(resources, group, GROUP_UNLOADED);
    group_announce(resources, group);
    group_waiters_fail(group, why, NULL);
}

void group_loaded_write(const struct resources *resources, const struct group *group,
                        struct ec_json_writer *writer)
{
    size_t begin = writer->bytes;
    uint32_t loaded = 0;

    for (uint32_t i = 0; i < group->count; i++)
        loaded += group->members[i]->presence >= RESOURCE_DECODED;
    ec_json_object_begin(writer);
    ec_json_member_string(writer, "group", group->name);
    ec_json_member_string(writer, "state", group_state_text(group));
    ec_json_member_u64(writer, "loaded", loaded);
    ec_json_member_u64(writer, "total", group->count);
    ec_json_member_u64(writer, "bytes", group_bytes(group));
    ec_json_member_object(writer, "handles");
    for (uint32_t i = 0;
         i < group->count && group->state == GROUP_READY && writer->bytes - begin < LIST_BYTES_MAX;
         i++) {
        const struct resource *member = group->members[i];

        ec_json_key_n(writer, member->name, strlen(member->name));
        ec_json_hex64(writer, directory_handle(resources->directory, member->index));
    }
    ec_json_object_end(writer);
    ec_json_object_end(writer);
}

void group_announce(struct resources *resources, const struct group *group)
{
    const char *state = group_state_text(group);
    struct event_resource_group payload = { 0 };

    succession_note(resources);
    memcpy(payload.group, group->name, strlen(group->name));
    memcpy(payload.state, state, strlen(state));
    payload.bytes[0] = group_bytes(group);
    log_info(RESOURCES_MODULE, "group %s is %s, %llu bytes", group->name, state,
             (unsigned long long)payload.bytes[0]);
    events_publish_system(resources->services->events, EC_SYSTEM_resource_group, &payload);
}

int waiter_add(struct request *request, struct waiter **list)
{
    struct waiter *waiter = calloc(1, sizeof *waiter);
    int rc;

    if (waiter == NULL)
        return ec_fail(request->why, EC_ERR_MEMORY, "no memory to wait");
    rc = request_defer(request, waiter_gone, waiter, &waiter->reply);
    if (rc < 0) {
        free(waiter);
        return rc;
    }
    waiter->list = list;
    waiter->next = *list;
    *list = waiter;
    return rc;
}

struct reply *waiter_take(struct waiter **list)
{
    struct waiter *waiter = *list;
    struct reply *reply;

    if (waiter == NULL)
        return NULL;
    *list = waiter->next;
    reply = waiter->reply;
    free(waiter);
    return reply;
}

void waiters_forget(struct waiter **list)
{
    while (waiter_take(list) != NULL)
        ;
}

/* Take the needs of a group and begin what is missing of it. */
static int group_start(struct resources *resources, struct group *group, struct ec_error *why)
{
    bool wanted = group_wants(group);
    int rc;

    if (group->state == GROUP_LOADING ||
        (group->state == GROUP_READY && depends_ready(resources, group)))
        return EC_OK;
    group->state = GROUP_LOADING;
    group->pending = 0;
    for (uint32_t i = 0; i < group->count && !wanted; i++)
        resource_need(resources, group->members[i]);
    rc = group_link(resources, group, why);
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
        return rc;
    }
    group_try(resources, group);
    return EC_OK;
}

/* false: no memory. */
static bool user_add(struct group *group, struct group *user)
{
    if (group->user_count == group->user_capacity) {
        uint32_t capacity = group->user_capacity > 0 ? 2 * group->user_capacity : 4;
        struct group **grown = realloc(group->users, capacity * sizeof(struct group *));

        if (grown == NULL)
            return false;
        group->users = grown;
        group->user_capacity = capacity;
    }
    group->users[group->user_count++] = user;
    return true;
}

void group_link_wanted(struct resources *resources, struct group *group)
{
    for (uint32_t i = 0; i < group->depend_count && !group->linked; i++) {
        struct group *other = groups_find(resources, group->depends[i]);

        if (other != NULL)
            (void)user_add(other, group); /* without memory it does not stand there */
    }
    group->linked = true;
}

/* Stand among the users of each dependency, and start those that are not there. */
static int group_link(struct resources *resources, struct group *group, struct ec_error *why)
{
    int rc = EC_OK;

    for (uint32_t i = 0; i < group->depend_count && !group->linked; i++) {
        struct group *other = groups_find(resources, group->depends[i]);

        if (!user_add(other, group)) {
            group->linked = true; /* with those that it has got; giving up takes them back */
            return ec_fail(why, EC_ERR_MEMORY, "no memory for dependency %s", other->name);
        }
    }
    group->linked = true;
    for (uint32_t i = 0; i < group->depend_count && rc == EC_OK; i++)
        rc = group_start(resources, groups_find(resources, group->depends[i]), why);
    return rc;
}

static bool depends_ready(struct resources *resources, const struct group *group)
{
    for (uint32_t i = 0; i < group->depend_count; i++)
        if (groups_find(resources, group->depends[i])->state != GROUP_READY)
            return false;
    return true;
}

int resource_load(struct resources *resources, struct resource *resource, struct ec_error *why)
{
    struct load_job *job;

    assert(resource->presence == RESOURCE_ABSENT);
    if (directory_generation(resources->directory, resource->index) == 0)
        return ec_fail(why, EC_ERR_LIMIT, "resource %s has used up its handles", resource->name);
    if (resource->job == NULL) { /* else an earlier life is being read again, and comes back soon */
        job = load_job_create(resources, resource, why);
        if (job == NULL)
            return why->code;
        resource->job = job;
        worker_pool_submit(resources->workers, job);
    }
    resource->presence = RESOURCE_LOADING;
    resource->stale = false;
    directory_set_state(resources->directory, resource->index, EC_RESOURCE_LOADING);
    return EC_OK;
}

int resource_ask(struct resources *resources, struct resource *resource, struct ec_error *why)
{
    int rc = EC_OK;

    if (!soft_hurry(resources, resource) && resource->needed == 0)
        return ec_fail(
            why, EC_ERR_STATE,
            "resource %s is in no group that is loaded, and no soft reference asks for it",
            resource->name);
    if (resource->presence == RESOURCE_ABSENT)
        rc = resource_load(resources, resource, why);
    if (rc == EC_OK && resource->presence == RESOURCE_LOADING)
        worker_pool_raise(resources->workers, resource->job, LOAD_PRIORITY_DEFAULT);
    return rc;
}

struct load_job *load_job_create(struct resources *resources, struct resource *resource,
                                 struct ec_error *why)
{
    struct load_job *job = calloc(1, sizeof *job);

    if (job == NULL) {
        ec_fail(why, EC_ERR_MEMORY, "no memory to load %s", resource->name);
        return NULL;
    }
    if (aliases_resolve(&resources->aliases, resource->path, job->path, sizeof job->path, why) <
        0) {
        free(job);
        return NULL;
    }
    job->owner = resource;
    job->kind = resource->kind;
    job->options = resource->options;
    job->secret = &resources->contents.secret;
    job->company = resource_company(resource);
    job->limits = limits_of(resources->services->config);
    job->priority = resource_priority(resource);
    return job;
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

/* A group that is loading it, or any: what is loaded for one group may be decoded by one process. */
static const void *resource_company(const struct resource *resource)
{
    for (uint32_t i = 0; i < resource->group_count; i++)
        if (resource->groups[i]->state == GROUP_LOADING)
            return resource->groups[i];
    return resource->group_count > 0 ? resource->groups[0] : NULL;
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

/* The result of a worker is in: decoded, failed, cancelled; and it may be wanted or not. */
void resource_job_done(void *context, struct load_job *job)
{
    struct resources *resources = context;

    graves_hold(resources);
    job_done(resources, job);
    graves_release(resources);
}

static void job_done(struct resources *resources, struct load_job *job)
{
    struct resource *resource = job->owner;
    struct counters *counters = resources->services->counters;
    struct failure failure = { resource, &job->why };
    bool wanted = resource->needed > 0;

    resource->mount = job->mount;
    if (job->rc == EC_AGAIN)
        resources->cancelled++;
    if (resource->presence != RESOURCE_LOADING) { /* a reload of what games can have meanwhile */
        hot_reload_job_done(resources, resource, job);
        return;
    }
    resource->job = NULL;
    if (wanted && (job->rc == EC_AGAIN || resource->stale)) {
        /* Cancelled, and wanted again since; or of bytes that have changed since. */
        if (job->rc == EC_OK)
            asset_heap_free_soon(&resources->heap, job->offset, job->decoded.bytes);
        job_again(resources, resource, job);
        return;
    }
    if (job->rc == EC_OK)
        job_succeeded(resources, resource, job);
    if (job->rc == EC_OK)
        counters_add(counters, EC_COUNTER_resources_loaded, 1);
    else if (wanted)
        counters_add(counters, EC_COUNTER_resources_failed, 1);
    if (!wanted) {
        resource_drop(resources, resource, EC_RESOURCE_UNLOADED);
    } else if (job->rc < 0) {
        resource_drop(resources, resource, EC_RESOURCE_FAILED);
        soft_load_ended(resources, resource);
        requests_fail(resource, &job->why);
        groups_fail(resources, &failure);
    } else {
        soft_load_ended(resources, resource);
        if (resource->presence == RESOURCE_DECODED && resource_is_wanted_alone(resource))
            resource_publish(resources, resource);
        groups_go_on(resources, resource);
    }
    free(job);
    soft_advance(resources);
}

static void job_again(struct resources *resources, struct resource *resource, struct load_job *job)
{
    job->rc = EC_OK;
    resource->stale = false;
    resource->job = job;
    worker_pool_submit(resources->workers, job);
}

/* job->rc becomes an error when the content cannot be kept. */
static void job_succeeded(struct resources *resources, struct resource *resource,
                          struct load_job *job)
{
    resource->content =
        content_take(&resources->contents, &job->digest, &job->decoded, job->offset);
    if (resource->content == NULL) {
        job->rc = ec_fail(&job->why, EC_ERR_MEMORY, "no memory");
        return;
    }
    resource->presence = RESOURCE_DECODED;
    resource->known_bytes = heap_ranges_round(job->decoded.bytes);
    resource->usage.loaded_ns = ec_real_ns();
    if (resource->usage.load_ns == 0 || job->load_ns < resource->usage.load_ns)
        resource->usage.load_ns =
            job->load_ns; /* the shortest: what a busy machine adds is no cost */
}

bool resource_is_wanted_alone(const struct resource *resource)
{
    if (resource->order == ORDER_ACTIVE)
        return true;
    for (uint32_t i = 0; i < resource->group_count; i++)
        if (resource->groups[i]->state == GROUP_EVICTED ||
            resource->groups[i]->state == GROUP_READY)
            return true;
    return false;
}

void resource_publish(struct resources *resources, struct resource *resource)
{
    struct event_resource_ready payload = { 0 };

    member_publish(resources, resource);
    memcpy(payload.name, resource->name, strlen(resource->name));
    payload.handle[0] = directory_handle(resources->directory, resource->index);
    events_publish_system(resources->services->events, EC_SYSTEM_resource_ready, &payload);
    groups_whole(resources, resource);
    requests_answer(resources, resource);
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
        group_try(resources, resource->groups[i]);
}

/* A request that loads the resource anew ends this: what loads then has another job. */
static void groups_fail(struct resources *resources, const struct failure *failure)
{
    const struct resource *resource = failure->resource;

    for (uint32_t i = 0; i < resource->group_count && resource->presence == RESOURCE_ABSENT; i++)
        if (resource->groups[i]->state == GROUP_LOADING)
            group_fail(resources, resource->groups[i], failure);
}

static void group_try(struct resources *resources, struct group *group)
{
    if (group->state == GROUP_LOADING && group->pending == 0 && depends_ready(resources, group))
        group_complete(resources, group);
}

/* All members are there: publish those that are new. Then the groups that waited for this one. */
static void group_complete(struct resources *resources, struct group *group)
{
    struct reply *reply;

    for (uint32_t i = 0; i < group->count; i++)
        if (group->members[i]->presence == RESOURCE_DECODED)
            member_publish(resources, group->members[i]);
    group->state = GROUP_READY;
    group_announce(resources, group);
    for (uint32_t i = 0; i < group->user_count; i++)
        group_try(resources, group->users[i]);
    for (uint32_t i = 0; i < group->count; i++)
        requests_answer(resources, group->members[i]);
    while ((reply = waiter_take(&group->waiters)) != NULL) {
        group_loaded_write(resources, group, reply_result(reply));
        reply_finish(reply);
    }
}

static void member_publish(struct resources *resources, struct resource *resource)
{
    directory_publish(resources->directory, resource->index, resource->content->offset,
                      &resource->content->decoded);
    resource->presence = RESOURCE_READY;
    resources->ready++;
}

/* Groups that had lost this one to eviction, and have all of their members again. */
static void groups_whole(struct resources *resources, const struct resource *resource)
{
    for (uint32_t i = 0; i < resource->group_count; i++) {
        struct group *group = resource->groups[i];
        bool whole = group->state == GROUP_EVICTED;

        for (uint32_t k = 0; k < group->count && whole; k++)
            whole = group->members[k]->presence == RESOURCE_READY;
        if (!whole)
            continue;
        group->state = GROUP_READY;
        group_announce(resources, group);
        for (uint32_t k = 0; k < group->user_count; k++)
            group_try(resources, group->users[k]);
    }
}

static void requests_answer(struct resources *resources, struct resource *resource)
{
    struct reply *reply;

    while (resource->presence == RESOURCE_READY &&
           (reply = waiter_take(&resource->waiters)) != NULL) {
        resource_ready_write(resources, resource, reply_result(reply));
        reply_finish(reply);
    }
}

static void requests_fail(struct resource *resource, const struct ec_error *why)
{
    struct ec_error text = *why;
    struct reply *reply;

    ec_error_prefix(&text, EC_ERR_GROUP, "resource %s", resource->name);
    while ((reply = waiter_take(&resource->waiters)) != NULL)
        reply_fail(reply, &text);
}

void resource_ready_write(const struct resources *resources, const struct resource *resource,
                          struct ec_json_writer *writer)
{
    ec_json_object_begin(writer);
    ec_json_member_string(writer, "name", resource->name);
    ec_json_member_string(writer, "state",
                          resource->presence == RESOURCE_READY ? "ready" : "loading");
    ec_json_member_hex64(writer, "handle", directory_handle(resources->directory, resource->index));
    ec_json_member_u64(writer, "bytes", resource_bytes(resource));
    ec_json_object_end(writer);
}

/* The group stops needing its members; what nobody else needs goes. */
static void group_give_up(struct resources *resources, struct group *group, enum group_state state)
{
    group->state = state;
    group->asked = false;
    group->pending = 0;
    for (uint32_t i = 0; i < group->count; i++)
        resource_unneed(resources, group->members[i]);
    group_unlink(resources, group);
    leaving_check(resources);
}

/* Its users cannot become ready without it. Those that are ready already keep what they have. */
static void group_fail(struct resources *resources, struct group *group,
                       const struct failure *failure)
{
    struct ec_error why = *failure->why;

    group_give_up(resources, group, GROUP_FAILED);
    ec_error_prefix(&why, EC_ERR_GROUP, "group %s: resource %s", group->name,
                    failure->resource->name);
    log_warning(RESOURCES_MODULE, "%s", why.text);
    group_announce(resources, group);
    for (uint32_t i = 0; i < group->user_count;)
        if (group->users[i]->state == GROUP_LOADING)
            group_fail(resources, group->users[i], failure); /* takes itself out of the users */
        else
            i++;
    group_waiters_fail(group, &why, failure);
}

static void group_waiters_fail(struct group *group, const struct ec_error *why,
                               const struct failure *failure)
{
    struct reply *reply;

    while ((reply = waiter_take(&group->waiters)) != NULL) {
        if (failure != NULL) {
            struct ec_json_writer *data = reply_data(reply);

            ec_json_object_begin(data);
            ec_json_member_string(data, "group", group->name);
            ec_json_member_string(data, "resource", failure->resource->name);
            ec_json_member_string(data, "path", failure->resource->path);
            ec_json_member_string(data, "reason", failure->why->text);
            ec_json_object_end(data);
        }
        reply_fail(reply, why);
    }
}

static void waiter_gone(void *context)
{
    struct waiter *waiter = context;
    struct waiter **at = waiter->list;

    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
    free(waiter);
}
