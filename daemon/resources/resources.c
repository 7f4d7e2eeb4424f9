/* resources.c - the module: start, stop, totals, and what it has to do with clients. */
#include "resources/resources.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clients/clients.h"
#include "daemon/config.h"
#include "daemon/heritage.h"
#include "daemon/log.h"
#include "daemon/segments.h"
#include "daemon/services.h"
#include "resources/decode_server.h"
#include "resources/directory_writer.h"
#include "resources/gpu.h"
#include "resources/hot_reload.h"
#include "resources/manifest.h"
#include "resources/state.h"
#include "resources/succession.h"
#include "segment/references.h"

static int search_path_begin(struct resources *resources, struct ec_error *why);
static int workers_begin(struct resources *resources, struct ec_error *why);
static void on_search_path_changed(void *context, struct decode_server *server);
static void mount_again(struct resources *resources);
static int define_configured(struct resources *resources, const char *list, struct ec_error *why);
static void on_client_attached(void *context, struct client *client);
static void on_client_left(void *context, struct client *client);
static void on_client_ended(void *context, struct client *client);
static void on_clients_settled(void *context);
static void on_client_describe(void *context, struct client *client, struct ec_json_writer *writer);
static void reference_write(struct ec_json_writer *writer, const char *name, uint64_t handle,
                            const struct ec_client_segment *segment, uint32_t index);
static void on_handle_closed(uv_handle_t *handle);

/* A mount of the last run that is tried by itself. */
struct mounted_again {
    struct resources *resources;
    struct search_mount mount; /* owned */
    bool append;
};

int resources_init(struct services *services, struct ec_error *why)
{
    static const struct client_hooks hooks = { .attached = on_client_attached,
                                               .left = on_client_left,
                                               .ended = on_client_ended,
                                               .settled = on_clients_settled,
                                               .describe = on_client_describe };
    struct resources *resources = calloc(1, sizeof *resources);
    int rc;

    if (resources == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory");
    services->resources = resources; /* shutdown takes it from here, half-built or not */
    resources->services = services;
    resources->directory = segments_directory(services->segments);
    resources->membarrier = config_boolean(services->config, EC_CONFIG_resource_membarrier) &&
                            ec_reference_membarrier_works();
    atomic_store_explicit(&resources->directory->membarrier, resources->membarrier,
                          memory_order_relaxed); /* before anybody attaches */
    if (!segments_are_kept(services->segments))
        atomic_store_explicit(&resources->directory->use_epoch, 1,
                              memory_order_relaxed); /* 0: never */
    /* Handles of one run mean nothing in a directory of another. */
    atomic_store_explicit(&resources->directory->first_generation,
                          (heritage_runs(services->heritage) % 4095u) << 20 | 1,
                          memory_order_relaxed);
    rc = asset_heap_init(
        &resources->heap, segments_heap_fd(services->segments),
        segments_heap_bytes(services->segments),
        strcmp(config_string(services->config, EC_CONFIG_resource_heap_huge), "never") != 0, why);
    if (rc == EC_OK)
        rc = contents_init(&resources->contents, &resources->heap, why);
    if (rc == EC_OK)
        kept_paths_inherit(resources);
    if (rc == EC_OK)
        succession_begin(resources);
    if (rc == EC_OK)
        rc = define_configured(resources,
                               config_string(services->config, EC_CONFIG_resource_manifests), why);
    if (rc == EC_OK)
        rc = clients_add_hooks(services->clients, &hooks, resources);
    return rc;
}

int resources_post_init(struct services *services, struct ec_error *why)
{
    struct resources *resources = services->resources;
    int rc;

    uv_timer_init(services->loop, &resources->recheck); /* never fail */
    uv_timer_init(services->loop, &resources->tick);
    resources->recheck.data = resources;
    resources->tick.data = resources;
    resources->open_handles = 2;
    resources->handles_made = true;
    log_info(RESOURCES_MODULE, "references are ordered by %s",
             resources->membarrier ? "membarrier" : "fences in the games");
    succession_write(resources);
    rc = freeing_create(services->loop, &resources->heap, &resources->freeing, why);
    if (rc == EC_OK)
        rc = search_path_begin(resources, why);
    if (rc == EC_OK)
        rc = workers_begin(resources, why);
    if (rc == EC_OK && config_boolean(services->config, EC_CONFIG_resource_hot_reload))
        rc = hot_reload_create(resources, why);
    return rc;
}

void resources_shutdown(struct services *services)
{
    struct resources *resources = services->resources;

    if (resources == NULL)
        return;
    succession_end(resources);
    kept_paths_end(resources);
    services->resources = NULL;
    hot_reload_destroy(resources);
    worker_pool_stop(resources->workers);
    decode_nursery_stop(services->decode_nursery); /* an archive may keep its reader for long */
    worker_pool_destroy(resources->workers);
    resources->leaving_count = 0; /* clients that end after this module change nothing any more */
    uses_finish(resources);
    gpu_finish(resources);
    old_lives_forget(resources);
    groups_free(resources);
    contents_finish(&resources->contents);
    mounts_destroy(resources->mounts);
    aliases_finish(&resources->aliases);
    freeing_destroy(resources->freeing);
    asset_heap_finish(&resources->heap);
    if (resources->handles_made) {
        uv_close((uv_handle_t *)&resources->recheck, on_handle_closed);
        uv_close((uv_handle_t *)&resources->tick, on_handle_closed);
    } else {
        free(resources);
    }
}

void resources_totals(const struct resources *resources, struct resources_totals *totals)
{
    *totals = (struct resources_totals) {
        .bytes = asset_heap_used((struct asset_heap *)&resources->heap),
        .resources = resources->ready,
        .groups = resources->group_count,
        .heap_virtual_bytes = resources->heap.bytes,
    };
}

const char *resources_guard_text(const struct resources *resources)
{
    bool wanted = config_boolean(resources->services->config, EC_CONFIG_resource_sandbox);

    return sandbox_guard_name(wanted ? decode_server_guard(mounts_server(resources->mounts))
                                     : SANDBOX_PROCESS);
}

uint64_t resources_evict(struct resources *resources, uint64_t bytes, struct ec_json_writer *groups)
{
    uint32_t evictable;
    uint64_t freed;

    evict_candidates(resources, NULL, &evictable);
    freed = evict_batch(resources, evictable, bytes);
    log_info(RESOURCES_MODULE, "evicted %" PRIu64 " bytes", freed);
    evict_announce(resources, groups);
    return freed;
}

/* Wrong paths in the configuration refuse the start. */
static int search_path_begin(struct resources *resources, struct ec_error *why)
{
    const struct services *services = resources->services;
    const struct mounts_desc desc = {
        .loop = services->loop,
        .nursery = services->decode_nursery,
        .seconds = (unsigned)config_integer(services->config, EC_CONFIG_resource_seconds_max),
        .changed = on_search_path_changed,
        .context = resources,
    };
    int rc = mounts_create(&desc, &resources->mounts, why);

    if (rc < 0)
        return rc;
    rc = mounts_begin(resources->mounts, config_string(services->config, EC_CONFIG_resource_mounts),
                      &resources->kept_mounts, why);
    if (rc < 0 &&
        resources->kept_mounts.count > 0) { /* some archive may be gone: one by one then */
        rc = mounts_begin(resources->mounts,
                          config_string(services->config, EC_CONFIG_resource_mounts), NULL, why);
        if (rc == EC_OK)
            mount_again(resources);
    }
    return rc < 0 ? ec_error_prefix(why, rc, "resource.mounts") : EC_OK;
}

/* Which are left, in their order. */
static void on_mounted_again(void *context, int rc, const struct ec_error *why)
{
    struct mounted_again *again = context;

    if (rc < 0)
        log_warning(RESOURCES_MODULE, "%s of the last run: %s", again->mount.path, why->text);
    else
        kept_paths_mounted(again->resources, &again->mount, again->append);
    free((char *)(size_t)again->mount.path);
    free((char *)(size_t)again->mount.at);
    free(again);
}

static void mount_again(struct resources *resources)
{
    struct kept_mounts kept = resources->kept_mounts;

    resources->kept_mounts = (struct kept_mounts) { 0 };
    for (unsigned i = 0; i < kept.count; i++) {
        struct mounted_again *again = calloc(1, sizeof *again);
        struct ec_error why = { 0 };
        int rc = EC_ERR_MEMORY;

        if (again != NULL) {
            *again = (struct mounted_again) { resources,
                                              { kept.rows[i].path, kept.rows[i].at },
                                              kept.rows[i].append };
            kept.rows[i].path = kept.rows[i].at = NULL; /* moved */
            rc = mounts_add(resources->mounts, &again->mount, again->append, on_mounted_again,
                            again, &why);
        }
        if (again != NULL && rc != EC_AGAIN)
            on_mounted_again(again, rc, &why);
    }
    kept_mounts_finish(&kept);
}

static int workers_begin(struct resources *resources, struct ec_error *why)
{
    const struct services *services = resources->services;
    const struct worker_pool_desc desc = {
        .loop = services->loop,
        .heap = &resources->heap,
        .nursery = services->decode_nursery,
        .server = mounts_server(resources->mounts),
        .threads = (unsigned)config_integer(services->config, EC_CONFIG_resource_workers),
        .done = resource_job_done,
        .context = resources,
    };

    return worker_pool_create(&desc, &resources->workers, why);
}

static void on_search_path_changed(void *context, struct decode_server *server)
{
    struct resources *resources = context;

    worker_pool_set_server(resources->workers, server);
    hot_reload_mounts_changed(resources);
}

static int define_configured(struct resources *resources, const char *list, struct ec_error *why)
{
    char *copy = strdup(list), *rest = copy, *path;
    struct manifest_sum sum;
    int rc = EC_OK;

    if (copy == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory");
    while (rc == EC_OK && (path = strsep(&rest, ":")) != NULL) {
        if (path[0] == '\0')
            continue;
        rc = manifests_define(resources, path, true, &sum, why);
        if (rc == EC_OK)
            log_info(RESOURCES_MODULE, "%s defines %u groups with %u resources", path, sum.groups,
                     sum.resources);
    }
    free(copy);
    return rc < 0 ? ec_error_prefix(why, rc, "resource.manifests") : EC_OK;
}

static void on_client_attached(void *context, struct client *client)
{
    uses_client_attached(context, client);
}

/* The references of a client that ends are still counted while its hooks run, so look afterwards. */
static void on_client_left(void *context, struct client *client)
{
    if (client->attached)
        uses_read(context); /* the next tick may come when its rings are gone */
    leaving_check_soon(context);
}

static void on_client_ended(void *context, struct client *client)
{
    uses_client_ended(context, client);
    gpu_client_ended(context, client);
    leaving_check_soon(context);
}

static void on_clients_settled(void *context)
{
    leaving_check_soon(context);
}

static void on_client_describe(void *context, struct client *client, struct ec_json_writer *writer)
{
    const struct ec_client_segment *segment = client_segment(client);
    struct resources *resources = context;
    uint32_t high = atomic_load_explicit(&resources->directory->high, memory_order_relaxed);

    ec_json_member_array(writer, "references");
    for (uint32_t i = 0; i < high && segment != NULL; i++)
        if (resources->by_index[i] != NULL)
            reference_write(writer, resources->by_index[i]->name,
                            directory_handle(resources->directory, i), segment, i);
    for (const struct old_life *old = resources->old_lives; old != NULL && segment != NULL;
         old = old->next)
        if (old->resource != NULL)
            reference_write(writer, old->resource->name, old->handle, segment, old->index);
    ec_json_array_end(writer);
}

static void reference_write(struct ec_json_writer *writer, const char *name, uint64_t handle,
                            const struct ec_client_segment *segment, uint32_t index)
{
    uint32_t hard = ec_reference_sum(segment, &segment->hard, index);
    uint32_t soft = ec_reference_sum(segment, &segment->soft, index);

    if (hard == 0 && soft == 0)
        return;
    ec_json_object_begin(writer);
    ec_json_member_string(writer, "name", name);
    ec_json_member_hex64(writer, "handle", handle);
    ec_json_member_u64(writer, "hard_refs", hard);
    ec_json_member_u64(writer, "soft_refs", soft);
    ec_json_object_end(writer);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct resources *resources = handle->data;

    if (--resources->open_handles == 0)
        free(resources);
}
