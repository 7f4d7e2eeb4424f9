/* resources.c - the module: start, stop, totals, and what it has to do with clients. */
#include "resources/resources.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clients/clients.h"
#include "daemon/config.h"
#include "daemon/log.h"
#include "daemon/segments.h"
#include "daemon/services.h"
#include "resources/directory_writer.h"
#include "resources/state.h"
#include "segment/references.h"

static int mount_configured(struct resources *resources, const char *list, struct ec_error *why);
static void on_client_changed(void *context, struct client *client);
static void on_client_describe(void *context, struct client *client, struct ec_json_writer *writer);
static void on_recheck_closed(uv_handle_t *handle);
static void waiters_forget(struct resources *resources);

int resources_init(struct services *services, struct ec_error *why)
{
    static const struct client_hooks hooks = { .left = on_client_changed,
                                               .ended = on_client_changed,
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
    rc = asset_heap_init(&resources->heap, segments_heap(services->segments),
                         segments_heap_fd(services->segments),
                         segments_heap_bytes(services->segments), why);
    if (rc == EC_OK)
        rc = search_path_create(&resources->search, why);
    if (rc == EC_OK)
        rc = mount_configured(resources, config_string(services->config, EC_CONFIG_resource_mounts),
                              why);
    if (rc == EC_OK)
        rc = clients_add_hooks(services->clients, &hooks, resources);
    return rc;
}

int resources_post_init(struct services *services, struct ec_error *why)
{
    struct resources *resources = services->resources;
    unsigned threads = (unsigned)config_integer(services->config, EC_CONFIG_resource_workers);
    int rc = uv_timer_init(services->loop, &resources->recheck);

    if (rc < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "timer: %s", uv_strerror(rc));
    resources->recheck.data = resources;
    resources->recheck_made = true;
    log_info(RESOURCES_MODULE, "references are ordered by %s",
             resources->membarrier ? "membarrier" : "fences in the games");
    return worker_pool_create(services->loop, &resources->heap, threads, resource_job_done,
                              resources, &resources->workers, why);
}

void resources_shutdown(struct services *services)
{
    struct resources *resources = services->resources;

    if (resources == NULL)
        return;
    services->resources = NULL;
    worker_pool_destroy(resources->workers);
    waiters_forget(resources);
    resources->leaving_count = 0; /* clients that end after this module change nothing any more */
    groups_free(resources);
    search_path_destroy(resources->search);
    asset_heap_finish(&resources->heap);
    if (resources->recheck_made)
        uv_close((uv_handle_t *)&resources->recheck, on_recheck_closed);
    else
        free(resources);
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

/* Paths separated by colons. */
static int mount_configured(struct resources *resources, const char *list, struct ec_error *why)
{
    char *copy = strdup(list), *rest = copy, *path;
    int rc = EC_OK;

    if (copy == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory");
    while (rc == EC_OK && (path = strsep(&rest, ":")) != NULL)
        if (path[0] != '\0')
            rc = search_path_mount(resources->search, path, "/", true, why);
    free(copy);
    return rc < 0 ? ec_error_prefix(why, rc, "resource.mounts") : EC_OK;
}

/* The references of a client that ends are still counted while its hooks run, so look afterwards. */
static void on_client_changed(void *context, struct client *client)
{
    (void)client;
    leaving_check_soon(context);
}

static void on_client_describe(void *context, struct client *client, struct ec_json_writer *writer)
{
    const struct ec_client_segment *segment = client_segment(client);
    struct resources *resources = context;
    uint32_t high = atomic_load_explicit(&resources->directory->high, memory_order_relaxed);

    ec_json_member_array(writer, "references");
    for (uint32_t i = 0; i < high && segment != NULL; i++) {
        const struct resource *resource = resources->by_index[i];
        uint32_t hard = ec_reference_sum(segment, &segment->hard, i);

        if (resource == NULL || hard == 0)
            continue;
        ec_json_object_begin(writer);
        ec_json_member_string(writer, "name", resource->name);
        ec_json_member_hex64(writer, "handle", directory_handle(resources->directory, i));
        ec_json_member_u64(writer, "hard_refs", hard);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
}

static void on_recheck_closed(uv_handle_t *handle)
{
    free(handle->data);
}

/* Connections are gone by now and have taken their waiters along; this is for a test without them. */
static void waiters_forget(struct resources *resources)
{
    struct group *group, *next;

    HASH_ITER(hh, resources->groups, group, next)
    {
        while (group->waiters != NULL) {
            struct load_waiter *waiter = group->waiters;

            group->waiters = waiter->next;
            free(waiter);
        }
    }
}
