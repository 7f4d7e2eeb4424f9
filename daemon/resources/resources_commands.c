/* resources_commands.c - the resource.* methods: unpack, call, pack. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/clients.h"
#include "daemon/log.h"
#include "daemon/request.h"
#include "proto/tables.h"
#include "proto/tables/nearest.h"
#include "resources/directory_writer.h"
#include "resources/gpu.h"
#include "resources/hot_reload.h"
#include "resources/manifest.h"
#include "resources/state.h"
#include "resources/succession.h"
#include "resources/use_trace.h"
#include "segment/references.h"

#define NEAREST_LETTERS_MAX (1u << 20) /* compared with one another for a message: a few ms */

/* Where the lists of an answer begin and end. */
struct page {
    struct group *only; /* one group's; NULL: all */
    const char *state;  /* only resources in this one; NULL: any */
    uint32_t limit;
    uint32_t at, end;
    struct group *group; /* the next one */
    struct group *last;  /* the last one written */
};

static int manifest_define(struct request *request);
static void evict_plan_write(struct request *request, uint32_t evictable, uint64_t bytes);
static int group_required(struct request *request, const char *name, struct group **group);
static int resource_required(struct request *request, const char *name, struct resource **resource);
static int group_unknown(struct resources *resources, const char *name, struct ec_error *why);
static int resource_unknown(struct resources *resources, const char *name, struct ec_error *why);
static bool offer(struct ec_nearest *nearest, const char *known, size_t *letters);
static int name_unknown(const char *what, const struct ec_nearest *nearest, struct ec_error *why);
static int state_check(const char *state, struct ec_error *why);
static void holders_write(struct resources *resources, const struct group *group,
                          struct ec_json_writer *writer);
static int page_begin(struct resources *resources, const char *after, struct page *page,
                      struct ec_error *why);
static void page_items_write(struct resources *resources, struct page *page,
                             struct ec_json_writer *writer);
static void page_groups_write(struct resources *resources, struct page *page,
                              struct ec_json_writer *writer);
static void page_next_write(const struct page *page, struct ec_json_writer *writer);
static uint64_t traced_end(struct resources *resources, uint64_t since, uint64_t end);
static void traced_write(struct resources *resources, uint64_t since, uint64_t end,
                         struct ec_json_writer *writer);
static void item_write(struct resources *resources, const struct resource *resource,
                       struct ec_json_writer *writer);
static void item_clients_write(struct resources *resources, const struct resource *resource,
                               struct ec_json_writer *writer);
static void item_old_write(struct resources *resources, const struct resource *resource,
                           struct ec_json_writer *writer);
static void group_write(struct resources *resources, const struct group *group,
                        struct ec_json_writer *writer);
static void evicted_write(struct resources *resources, uint32_t count,
                          struct ec_json_writer *writer);
static const char *kept_reason(struct resources *resources, const struct resource *resource,
                               char *held, size_t bytes);

int cmd_resource_define(struct request *request)
{
    const struct params_resource_define *params = request->params;
    struct resources *resources = request->services->resources;
    const struct manifest_group group = { .group = params->group.span,
                                          .resources = params->resources.span,
                                          .depends = params->depends.span,
                                          .priority = params->priority.span,
                                          .residency = params->residency.span };
    struct manifest manifest;
    int rc;

    if (params->manifest.present)
        return manifest_define(request);
    if (!params->group.present || (!params->resources.present && !params->depends.present))
        return ec_fail(request->why, EC_ERR_PARAM,
                       "group with resources or depends is required, or manifest");
    rc = manifest_read_group(&group, &manifest, request->why);
    if (rc < 0)
        return rc;
    if (request->dry_run) {
        bool known = groups_find(resources, params->group.string) != NULL;

        rc = groups_may_define(resources, manifest.groups, manifest.count, request->why);
        if (rc == EC_OK)
            request_would(request,
                          known ? "find the group %s defined so already, with %u resources"
                                : "define the group %s of %u resources",
                          params->group.string, manifest.resources);
        manifest_finish(&manifest);
        return rc;
    }
    rc = groups_define(resources, manifest.groups, manifest.count, request->why);
    if (rc == EC_OK) {
        ec_json_object_begin(request->result);
        ec_json_member_string(request->result, "group", params->group.string);
        ec_json_member_u64(request->result, "resources", manifest.resources);
        ec_json_member_u64(request->result, "groups", manifest.count);
        ec_json_object_end(request->result);
    }
    manifest_finish(&manifest);
    return rc;
}

/* Which files the daemon can read is nothing that games may find out. */
static int manifest_define(struct request *request)
{
    const struct params_resource_define *params = request->params;
    struct resources *resources = request->services->resources;
    struct manifest_sum sum;
    int rc;

    if (params->group.present || params->resources.present || params->depends.present)
        return ec_fail(request->why, EC_ERR_PARAM, "manifest stands alone");
    if (request->client->role < EC_ROLE_OPERATOR)
        return ec_fail(request->why, EC_ERR_PERMISSION, "manifest is for operators");
    if (params->manifest.string[0] != '/')
        return ec_fail(request->why, EC_ERR_PATH, "manifest is %s, expected an absolute path",
                       params->manifest.string);
    rc =
        manifests_define(resources, params->manifest.string, !request->dry_run, &sum, request->why);
    if (rc < 0 ||
        request_would(request, "define %u groups of %u resources", sum.groups, sum.resources))
        return rc;
    ec_json_object_begin(request->result);
    ec_json_member_string(request->result, "group", sum.first);
    ec_json_member_u64(request->result, "resources", sum.resources);
    ec_json_member_u64(request->result, "groups", sum.groups);
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_resource_undefine(struct request *request)
{
    const struct params_resource_undefine *params = request->params;
    struct resources *resources = request->services->resources;
    struct group *group;
    int rc = group_required(request, params->group.string, &group);

    if (rc == EC_OK)
        rc = group_may_undefine(group, request->why);
    if (rc < 0 ||
        request_would(request, "forget the group %s of %u resources", group->name, group->count))
        return rc;
    rc = group_undefine(resources, group, request->why);
    if (rc < 0)
        return rc;
    ec_json_object_begin(request->result);
    ec_json_member_string(request->result, "group", params->group.string);
    ec_json_member_u64(request->result, "groups", resources->group_count);
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_resource_load(struct request *request)
{
    const struct params_resource_load *params = request->params;
    struct resources *resources = request->services->resources;
    struct group *group;
    int rc = group_required(request, params->group.string, &group);

    if (rc == EC_OK && request->dry_run)
        rc = group_check_depends(resources, group, request->why);
    if (rc == EC_OK && request_would(request, "load the group %s of %u resources, now %s",
                                     group->name, group->count, group_state_text(group)))
        return EC_OK;
    if (rc == EC_OK)
        rc = group_load(resources, group, request->why);
    if (rc < 0)
        return rc;
    if (params->wait.boolean && group->state != GROUP_READY)
        return waiter_add(request, &group->waiters);
    group_loaded_write(resources, group, request->result);
    return EC_OK;
}

int cmd_resource_unload(struct request *request)
{
    const struct params_resource_unload *params = request->params;
    struct resources *resources = request->services->resources;
    struct group *group;
    int rc = group_required(request, params->group.string, &group);

    if (rc < 0)
        return rc;
    if (request_would(request, "unload the group %s, now %s", group->name, group_state_text(group)))
        return EC_OK;
    group_unload(resources, group);
    ec_json_object_begin(request->result);
    ec_json_member_string(request->result, "group", group->name);
    ec_json_member_string(request->result, "state", group_state_text(group));
    ec_json_member_array(request->result, "waiting_for");
    if (group->state == GROUP_UNLOADING)
        holders_write(resources, group, request->result);
    ec_json_array_end(request->result);
    ec_json_member_array(request->result, "needed_by");
    for (uint32_t i = 0; i < group->user_count; i++)
        ec_json_string(request->result, group->users[i]->name);
    ec_json_array_end(request->result);
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_resource_request(struct request *request)
{
    const struct params_resource_request *params = request->params;
    struct resources *resources = request->services->resources;
    struct resource *resource;
    int rc = resource_required(request, params->name.string, &resource);

    if (rc == EC_OK &&
        request_would(
            request, "see that resource %s is loaded, now %s", resource->name,
            ec_resource_state_name(directory_state(resources->directory, resource->index))))
        return EC_OK;
    if (rc == EC_OK && resource->presence != RESOURCE_READY)
        rc = resource_ask(resources, resource, request->why);
    if (rc < 0)
        return rc;
    if (params->wait.boolean && resource->presence != RESOURCE_READY)
        return waiter_add(request, &resource->waiters);
    resource_ready_write(resources, resource, request->result);
    return EC_OK;
}

/* Both lists go on where the last answer ended, and end where this one would become too long. */
int cmd_resource_list(struct request *request)
{
    const struct params_resource_list *params = request->params;
    struct resources *resources = request->services->resources;
    struct ec_json_writer *result = request->result;
    struct page page = { .limit = (uint32_t)params->limit.integer,
                         .state = params->state.present ? params->state.string : NULL };
    uint32_t defined = 0;
    int rc = EC_OK;

    if (params->gpu.boolean) {
        ec_json_object_begin(result);
        gpu_lists_write(resources, page.limit, result);
        ec_json_object_end(result);
        return EC_OK;
    }
    if (params->group.present)
        rc = group_required(request, params->group.string, &page.only);
    if (rc == EC_OK && page.state != NULL)
        rc = state_check(page.state, request->why);
    if (rc == EC_OK)
        rc = page_begin(resources, params->after.present ? params->after.string : NULL, &page,
                        request->why);
    if (rc < 0)
        return rc;
    uses_read(resources);
    for (uint32_t i = 0; i < EC_RESOURCES_MAX; i++)
        defined += resources->by_index[i] != NULL;
    ec_json_object_begin(result);
    ec_json_member_array(result, "items");
    page_items_write(resources, &page, result);
    ec_json_array_end(result);
    ec_json_member_array(result, "groups");
    page_groups_write(resources, &page, result);
    ec_json_array_end(result);
    ec_json_key(result, "next");
    page_next_write(&page, result);
    ec_json_member_u64(result, "resources", defined);
    ec_json_object_end(result);
    return EC_OK;
}

int cmd_resource_get(struct request *request)
{
    const struct params_resource_get *params = request->params;
    struct resources *resources = request->services->resources;
    struct resource *resource;
    int rc = resource_required(request, params->name.string, &resource);

    if (rc < 0)
        return rc;
    uses_read(resources);
    item_write(resources, resource, request->result);
    return EC_OK;
}

int cmd_resource_pin(struct request *request)
{
    const struct params_resource_pin *params = request->params;
    struct group *group;
    int rc = group_required(request, params->group.string, &group);

    if (rc < 0)
        return rc;
    if (request_would(request,
                      params->pinned.boolean ? "pin the group %s" : "let go of the group %s",
                      group->name))
        return EC_OK;
    group->pinned = params->pinned.boolean;
    succession_note(request->services->resources);
    ec_json_object_begin(request->result);
    ec_json_member_string(request->result, "group", group->name);
    ec_json_member_boolean(request->result, "pinned", group_is_pinned(group));
    ec_json_member_string(request->result, "residency", residency_name(group->residency));
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_resource_reload(struct request *request)
{
    const struct params_resource_reload *params = request->params;
    struct resources *resources = request->services->resources;
    struct resource *resource;
    int rc = resource_required(request, params->name.string, &resource);

    if (rc == EC_OK && request_would(request, "read %s again, now %s", resource->path,
                                     ec_resource_state_name(
                                         directory_state(resources->directory, resource->index))))
        return EC_OK;
    if (rc == EC_OK)
        rc = hot_reload_begin(resources, resource, request->why);
    if (rc < 0)
        return rc;
    ec_json_object_begin(request->result);
    ec_json_member_string(request->result, "name", resource->name);
    ec_json_member_hex64(request->result, "handle",
                         directory_handle(resources->directory, resource->index));
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_resource_trace(struct request *request)
{
    const struct params_resource_trace *params = request->params;
    struct resources *resources = request->services->resources;
    uint64_t first, end, since;

    if (resources->trace == NULL)
        resources->trace = use_trace_create();
    if (resources->trace == NULL)
        return ec_fail(request->why, EC_ERR_MEMORY, "no memory for a trace");
    uses_read(resources);
    first = use_trace_first(resources->trace);
    end = use_trace_end(resources->trace);
    since = params->since.present ? (uint64_t)params->since.integer : end;
    if (since > end)
        return ec_fail(request->why, EC_ERR_PARAM, "since is %llu, there are %llu so far",
                       (unsigned long long)since, (unsigned long long)end);
    ec_json_object_begin(request->result);
    ec_json_member_u64(request->result, "lost", since < first ? first - since : 0);
    since = since < first ? first : since;
    if (end - since > (uint64_t)params->limit.integer)
        end = since + (uint64_t)params->limit.integer;
    end = traced_end(resources, since, end);
    ec_json_member_u64(request->result, "next", end);
    ec_json_member_u64(request->result, "overtaken", resources->uses_lost);
    traced_write(resources, since, end, request->result);
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_resource_evict(struct request *request)
{
    const struct params_resource_evict *params = request->params;
    struct resources *resources = request->services->resources;
    uint64_t bytes = params->bytes.present ? (uint64_t)params->bytes.integer : UINT64_MAX, freed;
    struct ec_json_writer *result = request->result;
    uint32_t evictable, count;
    struct group *group = NULL;
    int rc = EC_OK;

    if (params->group.present)
        rc = group_required(request, params->group.string, &group);
    else if (!params->bytes.present)
        rc = ec_fail(request->why, EC_ERR_PARAM, "bytes or group is required");
    if (rc < 0)
        return rc;
    count = evict_candidates(resources, group, &evictable);
    if (request->dry_run) {
        evict_plan_write(request, evictable, bytes);
        return EC_OK;
    }
    freed = evict_batch(resources, evictable, bytes);
    rc = freeing_defer(resources->freeing, request, &result);
    ec_json_object_begin(result);
    ec_json_member_u64(result, "freed_bytes", freed);
    evicted_write(resources, count, result);
    ec_json_object_end(result);
    evict_announce(resources, NULL);
    return rc;
}

/* What became of the batch. Names as far as there is room, and how many there are. */
static void evicted_write(struct resources *resources, uint32_t count,
                          struct ec_json_writer *writer)
{
    size_t begin = writer->bytes;
    uint32_t evicted = 0, kept = 0;

    ec_json_member_array(writer, "evicted");
    for (uint32_t i = 0; i < count; i++) {
        if (resources->batch[i]->verdict != VERDICT_FREED)
            continue;
        evicted++;
        if (writer->bytes - begin < LIST_BYTES_MAX)
            ec_json_string(writer, resources->batch[i]->name);
    }
    ec_json_array_end(writer);
    begin = writer->bytes;
    ec_json_member_array(writer, "kept");
    for (uint32_t i = 0; i < count; i++) {
        char held[64 + CLIENT_NAME_BYTES];
        const char *reason = kept_reason(resources, resources->batch[i], held, sizeof held);

        if (reason == NULL)
            continue;
        kept++;
        if (writer->bytes - begin < LIST_BYTES_MAX) {
            ec_json_object_begin(writer);
            ec_json_member_string(writer, "name", resources->batch[i]->name);
            ec_json_member_string(writer, "reason", reason);
            ec_json_object_end(writer);
        }
    }
    ec_json_array_end(writer);
    ec_json_member_u64(writer, "evicted_count", evicted);
    ec_json_member_u64(writer, "kept_count", kept);
}

/* The candidates that would go for so many bytes, those that would go first in front. */
static void evict_plan_write(struct request *request, uint32_t evictable, uint64_t bytes)
{
    struct resources *resources = request->services->resources;
    uint64_t freed = 0;
    uint32_t count = 0;

    while (count < evictable && freed < bytes)
        freed += resource_bytes(resources->batch[count++]);
    request_would_begin(request,
                        "evict %u resources, %" PRIu64 " bytes, if nobody takes them before", count,
                        freed);
    ec_json_member_array(request->result, "evicted");
    for (uint32_t i = 0; i < count && request->result->bytes < LIST_BYTES_MAX; i++)
        ec_json_string(request->result, resources->batch[i]->name);
    ec_json_array_end(request->result);
    ec_json_object_end(request->result);
}

static int group_required(struct request *request, const char *name, struct group **group)
{
    *group = groups_find(request->services->resources, name);
    if (*group == NULL)
        return group_unknown(request->services->resources, name, request->why);
    return EC_OK;
}

static int group_unknown(struct resources *resources, const char *name, struct ec_error *why)
{
    const struct resource *resource = resource_find(resources, name);
    struct group *group, *next;
    struct ec_nearest nearest;
    size_t letters = 0;

    if (resource != NULL)
        return ec_fail(why, EC_ERR_NOT_FOUND,
                       "group %s is not defined; it is a resource of group %s", name,
                       resource->group_count > 0 ? resource->groups[0]->name : "-");
    ec_nearest_init(&nearest, name, strlen(name));
    HASH_ITER(hh, resources->groups, group, next)
    {
        if (!offer(&nearest, group->name, &letters))
            break;
    }
    return name_unknown("group", &nearest, why);
}

static int resource_unknown(struct resources *resources, const char *name, struct ec_error *why)
{
    struct ec_nearest nearest;
    size_t letters = 0;

    if (groups_find(resources, name) != NULL)
        return ec_fail(why, EC_ERR_NOT_FOUND, "resource %s is not defined; it is a group", name);
    ec_nearest_init(&nearest, name, strlen(name));
    for (uint32_t i = 0; i < EC_RESOURCES_MAX; i++)
        if (resources->by_index[i] != NULL &&
            !offer(&nearest, resources->by_index[i]->name, &letters))
            break;
    return name_unknown("resource", &nearest, why);
}

/* false: enough was compared for one message. */
static bool offer(struct ec_nearest *nearest, const char *known, size_t *letters)
{
    size_t bytes = strlen(known);

    if (bytes > 2 * nearest->bytes || nearest->bytes > 2 * bytes)
        return true; /* too far in any case */
    *letters += bytes * nearest->bytes;
    ec_nearest_offer(nearest, known);
    return *letters < NEAREST_LETTERS_MAX;
}

static int name_unknown(const char *what, const struct ec_nearest *nearest, struct ec_error *why)
{
    if (nearest->best == NULL)
        return ec_fail(why, EC_ERR_NOT_FOUND, "%s %s is not defined", what, nearest->name);
    return ec_fail(why, EC_ERR_NOT_FOUND, "%s %s is not defined, did you mean %s?", what,
                   nearest->name, nearest->best);
}

static int resource_required(struct request *request, const char *name, struct resource **resource)
{
    *resource = resource_find(request->services->resources, name);
    if (*resource == NULL)
        return resource_unknown(request->services->resources, name, request->why);
    return EC_OK;
}

static int state_check(const char *state, struct ec_error *why)
{
    const char *known;

    for (unsigned i = 0; (known = ec_resource_state_name(i)) != NULL; i++)
        if (strcmp(known, state) == 0)
            return EC_OK;
    return ec_fail(why, EC_ERR_PARAM,
                   "state is %s, expected unloaded, loading, ready, evicting, evicted or failed",
                   state);
}

/* ---- pages ---- */

/* next is "PLACE/GROUP": the place of the next resource, and the last group that was written; without
 * GROUP all groups were. */
static int page_begin(struct resources *resources, const char *after, struct page *page,
                      struct ec_error *why)
{
    char *rest = NULL;
    unsigned long place;

    page->end = page->only != NULL
                    ? page->only->count
                    : atomic_load_explicit(&resources->directory->high, memory_order_relaxed);
    page->group = page->only != NULL ? page->only : resources->groups;
    if (after == NULL)
        return EC_OK;
    place = strtoul(after, &rest, 10);
    if (after[0] < '0' || after[0] > '9' || *rest != '/' || place > EC_RESOURCES_MAX)
        return ec_fail(why, EC_ERR_PARAM, "after is %s, which no answer gave as next", after);
    page->at = (uint32_t)place;
    page->group = NULL;
    if (rest[1] == '\0')
        return EC_OK;
    page->group = groups_find(resources, rest + 1);
    if (page->group == NULL)
        return ec_fail(why, EC_ERR_STATE, "group %s is gone since; begin anew", rest + 1);
    page->group = page->only != NULL ? NULL : page->group->hh.next;
    return EC_OK;
}

static void page_items_write(struct resources *resources, struct page *page,
                             struct ec_json_writer *writer)
{
    size_t begin = writer->bytes;

    for (uint32_t written = 0;
         page->at < page->end && written < page->limit && writer->bytes - begin < LIST_BYTES_MAX;
         page->at++) {
        const struct resource *resource =
            page->only != NULL ? page->only->members[page->at] : resources->by_index[page->at];
        const char *state;

        if (resource == NULL)
            continue;
        state = ec_resource_state_name(directory_state(resources->directory, resource->index));
        if (page->state != NULL && strcmp(page->state, state) != 0)
            continue;
        item_write(resources, resource, writer);
        written++;
    }
}

static void page_groups_write(struct resources *resources, struct page *page,
                              struct ec_json_writer *writer)
{
    size_t begin = writer->bytes;

    for (uint32_t written = 0;
         page->group != NULL && written < page->limit && writer->bytes - begin < LIST_BYTES_MAX;
         written++) {
        group_write(resources, page->group, writer);
        page->last = page->group;
        page->group = page->only != NULL ? NULL : page->group->hh.next;
    }
}

static void page_next_write(const struct page *page, struct ec_json_writer *writer)
{
    char next[16 + GROUP_NAME_BYTES];

    if (page->at >= page->end && page->group == NULL) {
        ec_json_null(writer);
        return;
    }
    snprintf(next, sizeof next, "%u/%s", page->at, page->group != NULL ? page->last->name : "");
    ec_json_string(writer, next);
}

/* Who holds members that are leaving. */
static void holders_write(struct resources *resources, const struct group *group,
                          struct ec_json_writer *writer)
{
    struct clients *clients = resources->services->clients;

    for (struct client *client = clients_next(clients, NULL); client != NULL;
         client = clients_next(clients, client)) {
        const struct ec_client_segment *segment = client_segment(client);
        uint64_t held = 0;

        for (uint32_t i = 0; i < group->count && client->attached && segment != NULL; i++)
            if (group->members[i]->leaving)
                held += ec_reference_sum(segment, &segment->hard, group->members[i]->index);
        if (held == 0)
            continue;
        ec_json_object_begin(writer);
        ec_json_member_u64(writer, "client_id", client->id);
        ec_json_member_string(writer, "client", client->name);
        ec_json_member_u64(writer, "hard_refs", held);
        ec_json_object_end(writer);
    }
}

static void item_write(struct resources *resources, const struct resource *resource,
                       struct ec_json_writer *writer)
{
    enum ec_resource_state state = directory_state(resources->directory, resource->index);
    const struct content *content = resource->content;
    const struct usage *usage = &resource->usage;

    ec_json_object_begin(writer);
    ec_json_member_string(writer, "name", resource->name);
    ec_json_member_string(writer, "group",
                          resource->group_count > 0 ? resource->groups[0]->name : "");
    ec_json_member_u64(writer, "groups", resource->group_count);
    ec_json_member_string(writer, "path", resource->path);
    ec_json_member_string(writer, "kind", decoder_kind_name(resource->kind));
    ec_json_member_string(writer, "state", ec_resource_state_name(state));
    ec_json_member_u64(writer, "bytes", resource_bytes(resource));
    ec_json_member_hex64(writer, "handle", directory_handle(resources->directory, resource->index));
    ec_json_member_u64(writer, "hard_refs", resource_hard_refs(resources, resource));
    ec_json_member_u64(writer, "soft_refs", resource_soft_refs(resources, resource));
    item_clients_write(resources, resource, writer);
    ec_json_member_string(writer, "residency", residency_name(resource_residency(resource)));
    ec_json_member_i64(writer, "last_use_ns", usage->last_ns);
    ec_json_member_i64(writer, "previous_use_ns", usage->previous_ns);
    ec_json_member_u64(writer, "uses", usage->count);
    ec_json_member_i64(writer, "load_ns", usage->load_ns);
    ec_json_member_u64(writer, "names", content != NULL ? content->users : 0);
    item_old_write(resources, resource, writer);
    ec_json_member_object(writer, "meta");
    if (resource->kind == EC_KIND_IMAGE && content != NULL) {
        ec_json_member_u64(writer, "width", content->decoded.width);
        ec_json_member_u64(writer, "height", content->decoded.height);
        ec_json_member_u64(writer, "channels", content->decoded.channels);
        ec_json_member_u64(writer, "stride", content->decoded.stride);
        ec_json_member_u64(writer, "levels", content->decoded.levels);
    }
    ec_json_object_end(writer);
    ec_json_object_end(writer);
}

static void item_clients_write(struct resources *resources, const struct resource *resource,
                               struct ec_json_writer *writer)
{
    struct clients *clients = resources->services->clients;

    ec_json_member_array(writer, "clients");
    for (struct client *client = clients_next(clients, NULL); client != NULL;
         client = clients_next(clients, client)) {
        const struct ec_client_segment *segment = client_segment(client);
        uint32_t hard, soft;

        if (!client->attached || segment == NULL)
            continue;
        hard = ec_reference_sum(segment, &segment->hard, resource->index);
        soft = ec_reference_sum(segment, &segment->soft, resource->index);
        if (hard == 0 && soft == 0)
            continue;
        ec_json_object_begin(writer);
        ec_json_member_u64(writer, "client_id", client->id);
        ec_json_member_string(writer, "client", client->name);
        ec_json_member_u64(writer, "hard_refs", hard);
        ec_json_member_u64(writer, "soft_refs", soft);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
}

static void item_old_write(struct resources *resources, const struct resource *resource,
                           struct ec_json_writer *writer)
{
    ec_json_member_array(writer, "old");
    for (const struct old_life *old = resources->old_lives; old != NULL && resource->old_lives > 0;
         old = old->next) {
        if (old->resource != resource || old->content == NULL)
            continue;
        ec_json_object_begin(writer);
        ec_json_member_hex64(writer, "handle", old->handle);
        ec_json_member_u64(writer, "bytes", content_bytes(old->content));
        ec_json_member_u64(writer, "hard_refs", references_sum(resources, old->index, false, NULL));
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
}

static void group_write(struct resources *resources, const struct group *group,
                        struct ec_json_writer *writer)
{
    uint64_t hard = 0, soft = 0;
    uint32_t loaded = 0;

    for (uint32_t i = 0; i < group->count; i++) {
        hard += resource_hard_refs(resources, group->members[i]);
        soft += resource_soft_refs(resources, group->members[i]);
        loaded += group->members[i]->presence >= RESOURCE_DECODED;
    }
    ec_json_object_begin(writer);
    ec_json_member_string(writer, "group", group->name);
    ec_json_member_string(writer, "state", group_state_text(group));
    ec_json_member_u64(writer, "bytes", group_bytes(group));
    ec_json_member_u64(writer, "resources", group->count);
    ec_json_member_u64(writer, "loaded", loaded);
    ec_json_member_u64(writer, "hard_refs", hard);
    ec_json_member_u64(writer, "soft_refs", soft);
    ec_json_member_string(writer, "residency", residency_name(group->residency));
    ec_json_member_boolean(writer, "pinned", group_is_pinned(group));
    ec_json_member_array(writer, "depends");
    for (uint32_t i = 0; i < group->depend_count; i++)
        ec_json_string(writer, group->depends[i]);
    ec_json_array_end(writer);
    ec_json_member_u64(writer, "needed_by", group->user_count);
    ec_json_object_end(writer);
}

/* So far that the answer does not become too long, whatever the names: with each letter escaped. */
static uint64_t traced_end(struct resources *resources, uint64_t since, uint64_t end)
{
    size_t bytes = 0;

    for (uint64_t i = since; i < end; i++) {
        const struct resource *resource =
            resources->by_index[use_trace_at(resources->trace, i)->index];

        bytes += 100 + (resource != NULL ? 2 * strlen(resource->name) : 0);
        if (bytes > 2 * LIST_BYTES_MAX)
            return i;
    }
    return end;
}

/* The resources of [since, end), each once, and the uses. */
static void traced_write(struct resources *resources, uint64_t since, uint64_t end,
                         struct ec_json_writer *writer)
{
    resources->stamp++;
    ec_json_member_array(writer, "resources");
    for (uint64_t i = since; i < end; i++) {
        struct resource *resource = resources->by_index[use_trace_at(resources->trace, i)->index];

        if (resource == NULL || resource->stamp == resources->stamp)
            continue;
        resource->stamp = resources->stamp;
        ec_json_array_begin(writer);
        ec_json_u64(writer, resource->index);
        ec_json_string(writer, resource->name);
        ec_json_u64(writer, resource->known_bytes);
        ec_json_i64(writer, resource->usage.load_ns);
        ec_json_array_end(writer);
    }
    ec_json_array_end(writer);
    ec_json_member_array(writer, "uses");
    for (uint64_t i = since; i < end; i++) {
        const struct traced_use *use = use_trace_at(resources->trace, i);

        ec_json_array_begin(writer);
        ec_json_i64(writer, use->at_ns);
        ec_json_u64(writer, use->client_id);
        ec_json_u64(writer, use->index);
        ec_json_u64(writer, use->kind);
        ec_json_array_end(writer);
    }
    ec_json_array_end(writer);
}

/* Why a resource that was looked at stayed; NULL: it went, or was not looked at because enough was free
 * before. held is room for a text. */
static const char *kept_reason(struct resources *resources, const struct resource *resource,
                               char *held, size_t bytes)
{
    const struct client *holder;

    switch (resource->verdict) {
    case VERDICT_HELD:
        holder = clients_find(resources->services->clients, resource->verdict_client);
        snprintf(held, bytes, "held by client %u (%s)", resource->verdict_client,
                 holder != NULL ? holder->name : "gone");
        return held;
    case VERDICT_LEAVING:
        return "being unloaded; it goes as soon as nobody holds it";
    case VERDICT_PINNED:
        return "pinned";
    case VERDICT_SHARED:
        return "needed by another group";
    case VERDICT_AWAITED:
        return "needed by a group that is loading";
    case VERDICT_RETURNING:
        return "clients of the last run may come back and hold it";
    case VERDICT_FAILED:
        return "membarrier failed";
    default:
        return NULL;
    }
}
