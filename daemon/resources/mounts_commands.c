/* mounts_commands.c - resource.mount, resource.alias and resource.stats. */
#include <stdlib.h>
#include <string.h>

#include "daemon/log.h"
#include "daemon/request.h"
#include "daemon/segments.h"
#include "resources/state.h"

/* An answer to resource.mount that waits for the archive to be open. */
struct mount_waiter {
    struct resources *resources;
    struct reply *reply;       /* NULL: its connection is gone; the mount is made all the same */
    struct search_mount mount; /* owned */
    bool append;
};

static struct mount_waiter *waiter_make(struct resources *resources,
                                        const struct search_mount *mount, bool append);
static void waiter_free(struct mount_waiter *waiter);
static void mounts_write(const struct resources *resources, struct ec_json_writer *writer);
static void on_mounted(void *context, int rc, const struct ec_error *why);
static void on_gone(void *context);
static int alias_unpack(struct request *request, struct ec_json_span name, struct ec_json_span path,
                        struct alias *alias);
static int names_unpack(struct request *request, struct ec_json_span array, const char ***names,
                        uint32_t *count);
static int aliases_unpack(struct request *request, struct ec_json_span object,
                          struct alias **aliases, uint32_t *count);

int cmd_resource_mount(struct request *request)
{
    const struct params_resource_mount *params = request->params;
    const struct search_mount mount = { params->path.string, params->at.string };
    struct resources *resources = request->services->resources;
    struct mount_waiter *waiter;
    int rc;

    if (!params->path.present) {
        if (!request_would(request, "show the search path"))
            mounts_write(resources, request->result);
        return EC_OK;
    }
    rc = mounts_may_add(resources->mounts, &mount, request->why);
    if (rc < 0)
        return rc;
    if (request_would(request, rc == EC_AGAIN ? "mount %s at %s" : "find %s mounted at %s already",
                      mount.path, mount.at))
        return EC_OK;
    if (rc == EC_OK) {
        mounts_write(resources, request->result);
        return EC_OK;
    }
    waiter = waiter_make(resources, &mount, params->append.boolean);
    if (waiter == NULL)
        return ec_fail(request->why, EC_ERR_MEMORY, "no memory to wait for %s", mount.path);
    rc = request_defer(request, on_gone, waiter, &waiter->reply);
    if (rc == EC_AGAIN) {
        rc = mounts_add(resources->mounts, &mount, params->append.boolean, on_mounted, waiter,
                        request->why);
        if (rc == EC_AGAIN)
            return EC_AGAIN;
        reply_fail(waiter->reply, request->why); /* the answer is on its way already */
        rc = EC_AGAIN;
    }
    waiter_free(waiter);
    return rc;
}

static struct mount_waiter *waiter_make(struct resources *resources,
                                        const struct search_mount *mount, bool append)
{
    struct mount_waiter *waiter = calloc(1, sizeof *waiter);

    if (waiter == NULL)
        return NULL;
    *waiter = (struct mount_waiter) { .resources = resources,
                                      .mount = { strdup(mount->path), strdup(mount->at) },
                                      .append = append };
    if (waiter->mount.path != NULL && waiter->mount.at != NULL)
        return waiter;
    waiter_free(waiter);
    return NULL;
}

static void waiter_free(struct mount_waiter *waiter)
{
    free((char *)(size_t)waiter->mount.path);
    free((char *)(size_t)waiter->mount.at);
    free(waiter);
}

/* Written down before it is answered. */
static void on_mounted(void *context, int rc, const struct ec_error *why)
{
    struct mount_waiter *waiter = context;

    if (rc == EC_OK)
        kept_paths_mounted(waiter->resources, &waiter->mount, waiter->append);
    if (waiter->reply != NULL && rc < 0) {
        reply_fail(waiter->reply, why);
    } else if (waiter->reply != NULL) {
        mounts_write(waiter->resources, reply_result(waiter->reply));
        reply_finish(waiter->reply);
    }
    waiter_free(waiter);
}

static void on_gone(void *context)
{
    struct mount_waiter *waiter = context;

    waiter->reply = NULL;
}

static void mounts_write(const struct resources *resources, struct ec_json_writer *writer)
{
    const struct search_mount *mount;

    ec_json_object_begin(writer);
    ec_json_member_array(writer, "items");
    for (unsigned i = 0; (mount = mounts_at(resources->mounts, i)) != NULL; i++) {
        ec_json_object_begin(writer);
        ec_json_member_string(writer, "path", mount->path);
        ec_json_member_string(writer, "at", mount->at);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
    ec_json_object_end(writer);
}

/* Without set and remove it only shows the table, which nobody has to rehearse. */
int cmd_resource_alias(struct request *request)
{
    const struct params_resource_alias *params = request->params;
    struct aliases *aliases = &request->services->resources->aliases;
    struct aliases rehearsed = { 0 };
    struct alias *set = NULL;
    const char **remove = NULL;
    uint32_t set_count = 0, remove_count = 0;
    int rc = EC_OK;

    if (params->set.present)
        rc = aliases_unpack(request, params->set.span, &set, &set_count);
    if (rc == EC_OK && params->remove.present)
        rc = names_unpack(request, params->remove.span, &remove, &remove_count);
    if (rc == EC_OK && request->dry_run) {
        rc = aliases_change(&rehearsed, NULL, 0, aliases->rows, aliases->count, request->why);
        if (rc == EC_OK)
            rc = aliases_change(&rehearsed, remove, remove_count, set, set_count, request->why);
        aliases_finish(&rehearsed);
    } else if (rc == EC_OK) {
        rc = aliases_change(aliases, remove, remove_count, set, set_count, request->why);
        if (rc == EC_OK && remove_count + set_count > 0)
            kept_paths_save(request->services->resources);
    }
    if (rc < 0)
        return rc;
    if (request_would(request, "remove %u and set %u aliases", remove_count, set_count))
        return EC_OK;
    ec_json_object_begin(request->result);
    ec_json_member_object(request->result, "aliases");
    for (uint32_t i = 0; i < aliases->count; i++) {
        ec_json_key_n(request->result, aliases->rows[i].name, strlen(aliases->rows[i].name));
        ec_json_string(request->result, aliases->rows[i].path);
    }
    ec_json_object_end(request->result);
    ec_json_object_end(request->result);
    return EC_OK;
}

int cmd_resource_stats(struct request *request)
{
    struct resources *resources = request->services->resources;
    struct ec_json_writer *result = request->result;
    struct worker_pool_stats pool;
    struct asset_heap_stats heap;

    asset_heap_stats(&resources->heap, &heap);
    worker_pool_stats(resources->workers, &pool);
    ec_json_object_begin(result);
    ec_json_member_object(result, "heap");
    ec_json_member_u64(result, "virtual_bytes", heap.virtual_bytes);
    ec_json_member_u64(result, "used_bytes", heap.used_bytes);
    ec_json_member_u64(result, "freeing_bytes", heap.freeing_bytes);
    ec_json_member_u64(result, "resident_bytes", heap.resident_bytes);
    ec_json_member_u64(result, "huge_bytes", segments_heap_huge_bytes(request->services->segments));
    ec_json_member_u64(result, "free_bytes", heap.free_bytes);
    ec_json_member_u64(result, "free_ranges", heap.free_ranges);
    ec_json_member_u64(result, "largest_free_bytes", heap.largest_free_bytes);
    ec_json_member_string(result, "protection",
                          segments_heap_protection(request->services->segments));
    ec_json_object_end(result);
    ec_json_member_object(result, "decoding");
    ec_json_member_string(result, "guard", resources_guard_text(resources));
    ec_json_member_u64(result, "workers", pool.workers);
    ec_json_member_u64(result, "waiting", pool.waiting);
    ec_json_member_u64(result, "running", pool.running);
    ec_json_member_u64(result, "cancelled", resources->cancelled);
    ec_json_object_end(result);
    ec_json_object_end(result);
    return EC_OK;
}

static int text_get(struct request *request, struct ec_json_span span, const char *what,
                    const char **text)
{
    char *buffer;

    if (ec_json_type_of(span) != EC_JSON_STRING)
        return ec_fail(request->why, EC_ERR_PARAM, "%s is %s, expected a string", what,
                       ec_json_type_text(ec_json_type_of(span)));
    buffer = request_alloc(request, span.bytes);
    if (buffer == NULL)
        return ec_fail(request->why, EC_ERR_MEMORY, "no memory for %s", what);
    if (ec_json_get_text(span, buffer, span.bytes) < 0)
        return ec_fail(request->why, EC_ERR_PATH, "%s contains a NUL", what);
    *text = buffer;
    return EC_OK;
}

static int alias_unpack(struct request *request, struct ec_json_span name, struct ec_json_span path,
                        struct alias *alias)
{
    int rc = text_get(request, name, "the name of an alias", &alias->name);

    return rc < 0 ? rc : text_get(request, path, "the path of an alias", &alias->path);
}

static int aliases_unpack(struct request *request, struct ec_json_span object,
                          struct alias **aliases, uint32_t *count)
{
    struct ec_json_iterator members = ec_json_iterate(object);
    struct ec_json_span name, path;
    uint32_t members_count = 0;
    int rc = EC_OK;

    while (ec_json_next_member(&members, &name, &path))
        members_count++;
    *aliases = request_alloc(request, (members_count + 1) * sizeof **aliases);
    if (*aliases == NULL)
        return ec_fail(request->why, EC_ERR_MEMORY, "no memory for %u aliases", members_count);
    members = ec_json_iterate(object);
    for (; rc == EC_OK && ec_json_next_member(&members, &name, &path); ++*count)
        rc = alias_unpack(request, name, path, &(*aliases)[*count]);
    return rc;
}

static int names_unpack(struct request *request, struct ec_json_span array, const char ***names,
                        uint32_t *count)
{
    struct ec_json_iterator rows = ec_json_iterate(array);
    struct ec_json_span row;
    uint32_t rows_count = 0;
    int rc = EC_OK;

    while (ec_json_next_element(&rows, &row))
        rows_count++;
    *names = request_alloc(request, (rows_count + 1) * sizeof **names);
    if (*names == NULL)
        return ec_fail(request->why, EC_ERR_MEMORY, "no memory for %u names", rows_count);
    rows = ec_json_iterate(array);
    for (; rc == EC_OK && ec_json_next_element(&rows, &row); ++*count)
        rc = text_get(request, row, "a name to remove", &(*names)[*count]);
    return rc;
}
