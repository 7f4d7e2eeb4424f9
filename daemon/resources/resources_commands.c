/* resources_commands.c - the resource.* methods: unpack, call, pack. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/clients.h"
#include "daemon/log.h"
#include "daemon/request.h"
#include "resources/directory_writer.h"
#include "resources/state.h"
#include "segment/references.h"

static int resources_unpack(struct request *request, struct ec_json_span array,
                            struct group_desc *desc);
static int resource_unpack(struct request *request, struct ec_json_span row,
                           struct resource_desc *desc);
static int options_unpack(struct request *request, const struct ec_json_span values[2],
                          struct resource_desc *desc);
static int text_unpack(struct request *request, struct ec_json_span value, const char *what,
                       size_t bytes_max, const char **text);
static void evict_plan_write(struct request *request, uint32_t evictable, uint64_t bytes);
static int group_required(struct request *request, const char *name, struct group **group);
static void on_waiter_gone(void *context);
static void holders_write(struct resources *resources, const struct group *group,
                          struct ec_json_writer *writer);
static void item_write(struct resources *resources, const struct resource *resource,
                       const struct group *group, struct ec_json_writer *writer);
static void group_write(struct resources *resources, const struct group *group,
                        struct ec_json_writer *writer);
static void kept_write(const struct resource *resource, struct ec_json_writer *writer);

static const char *const resource_state_names[] = {
    [EC_RESOURCE_UNLOADED] = "unloaded", [EC_RESOURCE_LOADING] = "loading",
    [EC_RESOURCE_READY] = "ready",       [EC_RESOURCE_EVICTING] = "evicting",
    [EC_RESOURCE_EVICTED] = "evicted",   [EC_RESOURCE_FAILED] = "failed",
};

int cmd_resource_define(struct request *request)
{
    const struct params_resource_define *params = request->params;
    struct group_desc desc = { .name = params->group.string,
                               .priority = (unsigned)params->priority.integer };
    int rc;

    if (!residency_parse(params->residency.string, &desc.residency))
        return ec_fail(request->why, EC_ERR_PARAM,
                       "residency is %s, expected auto, pinned or evictable",
                       params->residency.string);
    rc = resources_unpack(request, params->resources.span, &desc);
    if (rc == EC_OK && request->dry_run)
        rc = groups_may_define(request->services->resources, &desc, request->why);
    if (rc >= 0 && request_would(request,
                                 groups_find(request->services->resources, desc.name) == NULL
                                     ? "define the group %s of %u resources"
                                     : "find the group %s defined so already, with %u resources",
                                 desc.name, desc.count))
        return EC_OK;
    if (rc == EC_OK)
        rc = groups_define(request->services->resources, &desc, request->why);
    if (rc < 0)
        return rc;
    ec_json_object_begin(request->result);
    ec_json_member_string(request->result, "group", desc.name);
    ec_json_member_u64(request->result, "resources", desc.count);
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_resource_load(struct request *request)
{
    const struct params_resource_load *params = request->params;
    struct resources *resources = request->services->resources;
    struct load_waiter *waiter;
    struct group *group;
    int rc = group_required(request, params->group.string, &group);

    if (rc == EC_OK && request_would(request, "load the group %s of %u resources, now %s",
                                     group->name, group->count, group_state_name(group->state)))
        return EC_OK;
    if (rc == EC_OK)
        rc = group_load(resources, group, request->why);
    if (rc < 0)
        return rc;
    if (!params->wait.boolean || group->state == GROUP_READY) {
        group_loaded_write(resources, group, request->result);
        return EC_OK;
    }
    waiter = calloc(1, sizeof *waiter);
    if (waiter == NULL)
        return ec_fail(request->why, EC_ERR_MEMORY, "no memory to wait for group %s", group->name);
    rc = request_defer(request, on_waiter_gone, waiter, &waiter->reply);
    if (rc < 0) {
        free(waiter);
        return rc;
    }
    waiter->group = group;
    waiter->next = group->waiters;
    group->waiters = waiter;
    return rc;
}

int cmd_resource_unload(struct request *request)
{
    const struct params_resource_unload *params = request->params;
    struct resources *resources = request->services->resources;
    struct group *group;
    int rc = group_required(request, params->group.string, &group);

    if (rc < 0)
        return rc;
    if (request_would(request, "unload the group %s, now %s", group->name,
                      group_state_name(group->state)))
        return EC_OK;
    group_unload(resources, group);
    ec_json_object_begin(request->result);
    ec_json_member_string(request->result, "group", group->name);
    ec_json_member_string(request->result, "state", group_state_name(group->state));
    ec_json_member_array(request->result, "waiting_for");
    if (group->state == GROUP_UNLOADING)
        holders_write(resources, group, request->result);
    ec_json_array_end(request->result);
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_resource_list(struct request *request)
{
    const struct params_resource_list *params = request->params;
    struct resources *resources = request->services->resources;
    struct ec_json_writer *result = request->result;
    uint32_t high = atomic_load_explicit(&resources->directory->high, memory_order_relaxed);
    struct group *only = NULL, *group, *next;
    int rc = EC_OK;

    if (params->group.present)
        rc = group_required(request, params->group.string, &only);
    if (rc < 0)
        return rc;
    ec_json_object_begin(result);
    ec_json_member_array(result, "items");
    for (uint32_t i = 0; i < (only != NULL ? only->count : high); i++) {
        const struct resource *resource = only != NULL ? only->members[i] : resources->by_index[i];

        if (resource == NULL)
            continue;
        if (params->state.present &&
            strcmp(params->state.string,
                   resource_state_names[directory_state(resources->directory, resource->index)]) !=
                0)
            continue;
        item_write(resources, resource, only != NULL ? only : resource->groups[0], result);
    }
    ec_json_array_end(result);
    ec_json_member_array(result, "groups");
    HASH_ITER(hh, resources->groups, group, next)
    {
        if (only == NULL || only == group)
            group_write(resources, group, result);
    }
    ec_json_array_end(result);
    ec_json_object_end(result);
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
    ec_json_member_array(result, "evicted");
    for (uint32_t i = 0; i < evictable; i++)
        if (resources->batch[i]->verdict == VERDICT_FREED)
            ec_json_string(result, resources->batch[i]->name);
    ec_json_array_end(result);
    ec_json_member_array(result, "kept");
    for (uint32_t i = 0; i < count; i++)
        kept_write(resources->batch[i], result);
    ec_json_array_end(result);
    ec_json_object_end(result);
    evict_announce(resources, NULL);
    return rc;
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
    for (uint32_t i = 0; i < count; i++)
        ec_json_string(request->result, resources->batch[i]->name);
    ec_json_array_end(request->result);
    ec_json_object_end(request->result);
}

static int group_required(struct request *request, const char *name, struct group **group)
{
    *group = groups_find(request->services->resources, name);
    if (*group == NULL)
        return ec_fail(request->why, EC_ERR_NOT_FOUND, "group %s is not defined", name);
    return EC_OK;
}

static int resources_unpack(struct request *request, struct ec_json_span array,
                            struct group_desc *desc)
{
    struct ec_json_iterator rows = ec_json_iterate(array);
    struct ec_json_span row;
    uint32_t count = 0;

    while (ec_json_next_element(&rows, &row) && count <= EC_RESOURCES_MAX)
        count++;
    if (count == 0)
        return ec_fail(request->why, EC_ERR_PARAM, "resources is empty");
    if (count > EC_RESOURCES_MAX)
        return ec_fail(request->why, EC_ERR_LIMIT, "more than %d resources", EC_RESOURCES_MAX);
    desc->resources = request_alloc(request, count * sizeof *desc->resources);
    if (desc->resources == NULL)
        return ec_fail(request->why, EC_ERR_MEMORY, "no memory for %u resources", count);
    rows = ec_json_iterate(array);
    for (; ec_json_next_element(&rows, &row); desc->count++) {
        int rc = resource_unpack(request, row, &desc->resources[desc->count]);

        if (rc < 0)
            return ec_error_prefix(request->why, rc, "resources[%u]", desc->count);
    }
    return EC_OK;
}

static int resource_unpack(struct request *request, struct ec_json_span row,
                           struct resource_desc *desc)
{
    static const char *const names[] = { "name", "path", "kind", "channels", "levels" };
    struct ec_json_span values[5];
    struct ec_json_fields fields = { .names = names, .values = values, .count = 5 };
    const char *kind = "raw";
    int rc;

    *desc = (struct resource_desc) { 0 };
    if (ec_json_bind(row, &fields) < 0)
        return ec_fail(request->why, EC_ERR_PARAM, "is %s, expected an object",
                       ec_json_type_text(ec_json_type_of(row)));
    if (fields.unknown.text != NULL)
        return ec_fail(request->why, EC_ERR_PARAM, "has the unknown member %.*s",
                       (int)(fields.unknown.bytes < 64 ? fields.unknown.bytes : 64),
                       fields.unknown.text);
    rc = text_unpack(request, values[0], "name", EC_RESOURCE_NAME_BYTES - 1, &desc->name);
    if (rc < 0)
        return rc;
    desc->path = desc->name;
    if (values[1].text != NULL)
        rc = text_unpack(request, values[1], "path", SEARCH_PATH_BYTES - 1, &desc->path);
    if (rc == EC_OK && values[2].text != NULL)
        rc = text_unpack(request, values[2], "kind", 16, &kind);
    if (rc < 0)
        return rc;
    if (!decoder_kind(kind, &desc->kind))
        return ec_fail(request->why, EC_ERR_PARAM, "kind is %s, expected raw or image", kind);
    rc = options_unpack(request, &values[3], desc);
    if (rc < 0)
        return rc;
    rc = search_path_check(desc->path, strlen(desc->path), request->why);
    return rc < 0 ? ec_error_prefix(request->why, rc, "path") : EC_OK;
}

static int number_unpack(struct request *request, struct ec_json_span value, const char *what,
                         int64_t max, uint32_t *number)
{
    int64_t got = 0;

    if (value.text == NULL)
        return EC_OK;
    if (ec_json_get_i64(value, &got) < 0 || got < 1 || got > max)
        return ec_fail(request->why, EC_ERR_PARAM, "%s is %.*s, expected 1..%" PRId64, what,
                       (int)(value.bytes < 32 ? value.bytes : 32), value.text, max);
    *number = (uint32_t)got;
    return EC_OK;
}

/* values are those of channels and levels. */
static int options_unpack(struct request *request, const struct ec_json_span values[2],
                          struct resource_desc *desc)
{
    int rc = number_unpack(request, values[0], "channels", 4, &desc->options.channels);

    if (rc == EC_OK)
        rc = number_unpack(request, values[1], "levels", 32, &desc->options.levels);
    if (rc == EC_OK && desc->kind != EC_KIND_IMAGE &&
        (values[0].text != NULL || values[1].text != NULL))
        rc = ec_fail(request->why, EC_ERR_PARAM, "channels and levels are for images");
    return rc;
}

/* A string member of 1..bytes_max bytes without control characters. */
static int text_unpack(struct request *request, struct ec_json_span value, const char *what,
                       size_t bytes_max, const char **text)
{
    bool is_path = strcmp(what, "path") == 0;
    char *buffer;
    int rc;

    if (ec_json_type_of(value) != EC_JSON_STRING)
        return ec_fail(request->why, EC_ERR_PARAM, "%s is %s, expected a string", what,
                       value.text == NULL ? "missing" : ec_json_type_text(ec_json_type_of(value)));
    buffer = request_alloc(request, value.bytes);
    if (buffer == NULL)
        return ec_fail(request->why, EC_ERR_MEMORY, "no memory for %s", what);
    rc = ec_json_get_text(value, buffer, value.bytes);
    if (rc < 0)
        return ec_fail(request->why, is_path ? EC_ERR_PATH : EC_ERR_PARAM, "%s contains a NUL",
                       what);
    if (buffer[0] == '\0' || strlen(buffer) > bytes_max)
        return ec_fail(request->why, is_path ? EC_ERR_PATH : EC_ERR_PARAM,
                       "%s has %zu bytes, expected 1..%zu", what, strlen(buffer), bytes_max);
    for (const char *at = buffer; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            return ec_fail(request->why, is_path ? EC_ERR_PATH : EC_ERR_PARAM,
                           "%s contains a control character", what);
    *text = buffer;
    return EC_OK;
}

static void on_waiter_gone(void *context)
{
    struct load_waiter *waiter = context;
    struct load_waiter **at = &waiter->group->waiters;

    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
    free(waiter);
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
        ec_json_member_u64(writer, "hard_refs", held);
        ec_json_object_end(writer);
    }
}

static void item_write(struct resources *resources, const struct resource *resource,
                       const struct group *group, struct ec_json_writer *writer)
{
    enum ec_resource_state state = directory_state(resources->directory, resource->index);

    ec_json_object_begin(writer);
    ec_json_member_string(writer, "name", resource->name);
    ec_json_member_string(writer, "group", group->name);
    ec_json_member_string(writer, "path", resource->path);
    ec_json_member_string(writer, "kind", decoder_kind_name(resource->kind));
    ec_json_member_string(writer, "state", resource_state_names[state]);
    ec_json_member_u64(writer, "bytes", resource_bytes(resource));
    ec_json_member_hex64(writer, "handle", directory_handle(resources->directory, resource->index));
    ec_json_member_u64(writer, "hard_refs", resource_hard_refs(resources, resource));
    ec_json_member_u64(writer, "soft_refs", resource_soft_refs(resources, resource));
    ec_json_member_string(writer, "residency", residency_name(resource_residency(resource)));
    ec_json_member_i64(writer, "last_use_ns", resource->used_ns);
    ec_json_member_object(writer, "meta");
    if (resource->kind == EC_KIND_IMAGE && resource_bytes(resource) > 0) {
        ec_json_member_u64(writer, "width", resource->decoded.width);
        ec_json_member_u64(writer, "height", resource->decoded.height);
        ec_json_member_u64(writer, "channels", resource->decoded.channels);
        ec_json_member_u64(writer, "stride", resource->decoded.stride);
        ec_json_member_u64(writer, "levels", resource->decoded.levels);
    }
    ec_json_object_end(writer);
    ec_json_object_end(writer);
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
    ec_json_member_string(writer, "state", group_state_name(group->state));
    ec_json_member_u64(writer, "bytes", group_bytes(group));
    ec_json_member_u64(writer, "resources", group->count);
    ec_json_member_u64(writer, "loaded", loaded);
    ec_json_member_u64(writer, "hard_refs", hard);
    ec_json_member_u64(writer, "soft_refs", soft);
    ec_json_member_string(writer, "residency", residency_name(group->residency));
    ec_json_object_end(writer);
}

/* A resource that was looked at and stayed, with the reason. What was not looked at, because enough was
 * free before, is not named. */
static void kept_write(const struct resource *resource, struct ec_json_writer *writer)
{
    char held[48];
    const char *reason;

    switch (resource->verdict) {
    case VERDICT_HELD:
        snprintf(held, sizeof held, "held by client %u", resource->verdict_client);
        reason = held;
        break;
    case VERDICT_PINNED:
        reason = "pinned";
        break;
    case VERDICT_SHARED:
        reason = "needed by another group";
        break;
    case VERDICT_AWAITED:
        reason = "needed by a group that is loading";
        break;
    case VERDICT_FAILED:
        reason = "membarrier failed";
        break;
    default:
        return;
    }
    ec_json_object_begin(writer);
    ec_json_member_string(writer, "name", resource->name);
    ec_json_member_string(writer, "reason", reason);
    ec_json_object_end(writer);
}
