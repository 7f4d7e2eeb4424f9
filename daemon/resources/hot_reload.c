/* hot_reload.c - a new life for what changed. */
#include "resources/hot_reload.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/counters.h"
#include "daemon/log.h"
#include "events/events.h"
#include "foundation/real_time.h"
#include "resources/directory_writer.h"
#include "resources/file_watch.h"
#include "resources/state.h"

struct hot_reload {
    struct file_watch *watch;
    bool refreshing; /* the search path is being opened anew */
    bool again;      /* an archive changed meanwhile */
};

static void on_files_changed(void *context, const struct file_changes *changes);
static void refresh(struct resources *resources);
static void on_refreshed(void *context, int rc, const struct ec_error *why);
static void reload_all(struct resources *resources, const struct file_changes *changes);
static void take_result(struct resources *resources, struct resource *resource,
                        struct load_job *job);
static void failed(struct resources *resources, const struct resource *resource,
                   const char *reason);
static bool may_replace(const struct resources *resources, const struct resource *resource);
static void replace(struct resources *resources, struct resource *resource,
                    struct content *content);
static void announce(struct resources *resources, const struct resource *resource,
                     uint64_t old_handle, const char *state);

int hot_reload_create(struct resources *resources, struct ec_error *why)
{
    const struct file_watch_desc desc = { .loop = resources->services->loop,
                                          .changed = on_files_changed,
                                          .context = resources };
    struct hot_reload *made = calloc(1, sizeof *made);
    int rc;

    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for hot reload");
    rc = file_watch_create(&desc, &made->watch, why);
    if (rc < 0) {
        free(made);
        return rc;
    }
    resources->hot_reload = made;
    hot_reload_mounts_changed(resources);
    return EC_OK;
}

void hot_reload_destroy(struct resources *resources)
{
    if (resources->hot_reload == NULL)
        return;
    mounts_forget(resources->mounts, resources);
    file_watch_destroy(resources->hot_reload->watch);
    free(resources->hot_reload);
    resources->hot_reload = NULL;
}

void hot_reload_mounts_changed(struct resources *resources)
{
    const struct search_mount *mount;

    if (resources->hot_reload == NULL)
        return;
    for (unsigned i = 0; (mount = mounts_at(resources->mounts, i)) != NULL; i++)
        file_watch_mount(resources->hot_reload->watch, mount);
}

static void on_files_changed(void *context, const struct file_changes *changes)
{
    struct resources *resources = context;

    if (changes->archives)
        refresh(resources);
    reload_all(resources, changes);
}

/* An archive is read by processes that have it open: they are replaced, and then what is in memory is read
 * again. What comes out as it was changes nothing. */
static void refresh(struct resources *resources)
{
    struct hot_reload *hot_reload = resources->hot_reload;
    struct ec_error why;

    if (hot_reload->refreshing) {
        hot_reload->again = true;
        return;
    }
    hot_reload->refreshing = mounts_refresh(resources->mounts, on_refreshed, resources, &why) >= 0;
    if (!hot_reload->refreshing)
        log_warning(RESOURCES_MODULE, "an archive changed and cannot be opened: %s", why.text);
}

static void on_refreshed(void *context, int rc, const struct ec_error *why)
{
    const struct file_changes all = { .lost = true };
    struct resources *resources = context;
    struct hot_reload *hot_reload = resources->hot_reload;

    hot_reload->refreshing = false;
    if (rc < 0)
        log_warning(RESOURCES_MODULE, "an archive changed and cannot be opened: %s", why->text);
    else
        reload_all(resources, &all);
    if (hot_reload->again) {
        hot_reload->again = false;
        refresh(resources);
    }
}

static void reload_all(struct resources *resources, const struct file_changes *changes)
{
    uint32_t high = atomic_load_explicit(&resources->directory->high, memory_order_relaxed);

    for (uint32_t i = 0; i < high; i++) {
        struct resource *resource = resources->by_index[i];
        char path[SEARCH_PATH_BYTES];
        struct ec_error why;

        if (resource == NULL || resource->presence == RESOURCE_ABSENT || resource->leaving)
            continue;
        if (!changes->lost &&
            (aliases_resolve(&resources->aliases, resource->path, path, sizeof path, &why) < 0 ||
             !file_changes_have(changes, path)))
            continue;
        if (hot_reload_begin(resources, resource, &why) < 0)
            log_warning(RESOURCES_MODULE, "reload %s: %s", resource->name, why.text);
    }
}

int hot_reload_begin(struct resources *resources, struct resource *resource, struct ec_error *why)
{
    if (resource->presence == RESOURCE_ABSENT || resource->leaving)
        return ec_fail(why, EC_ERR_STATE, "resource %s is not in memory", resource->name);
    if (resource->job != NULL) {
        resource->stale = true;
        return EC_OK;
    }
    resource->job = load_job_create(resources, resource, why);
    if (resource->job == NULL)
        return why->code;
    resource->stale = false;
    worker_pool_submit(resources->workers, resource->job);
    return EC_OK;
}

void hot_reload_job_done(struct resources *resources, struct resource *resource,
                         struct load_job *job)
{
    bool again = resource->stale && resource->presence >= RESOURCE_DECODED;
    struct ec_error why;

    resource->job = NULL;
    resource->stale = false;
    if (resource->presence >= RESOURCE_DECODED && !again) {
        take_result(resources, resource, job);
    } else if (job->rc == EC_OK) {
        asset_heap_free_soon(&resources->heap, job->offset, job->decoded.bytes);
    }
    free(job);
    if (again && hot_reload_begin(resources, resource, &why) < 0)
        log_warning(RESOURCES_MODULE, "reload %s: %s", resource->name, why.text);
    resource_bury(resources, resource);
}

static void take_result(struct resources *resources, struct resource *resource,
                        struct load_job *job)
{
    uint64_t handle = directory_handle(resources->directory, resource->index);
    struct content *content;

    if (job->rc == EC_AGAIN)
        return;
    if (job->rc < 0) {
        failed(resources, resource, job->why.text);
        return;
    }
    content = content_take(&resources->contents, &job->digest, &job->decoded, job->offset);
    if (content == NULL) {
        failed(resources, resource, "no memory");
        return;
    }
    if (content == resource->content || !may_replace(resources, resource)) {
        if (content != resource->content) /* else saved without a change */
            failed(resources, resource, "the directory has no room for another life");
        content_release(&resources->contents, content);
        return;
    }
    resource->usage.loaded_ns = ec_real_ns();
    resource->usage.load_ns = job->load_ns;
    resource->known_bytes = content_bytes(content);
    counters_add(resources->services->counters, EC_COUNTER_resources_reloaded, 1);
    if (resource->presence == RESOURCE_DECODED) { /* nobody has seen the old one */
        content_release(&resources->contents, resource->content);
        resource->content = content;
        return;
    }
    replace(resources, resource, content);
    log_info(RESOURCES_MODULE, "resource %s changed", resource->name);
    announce(resources, resource, handle, "changed");
}

static void failed(struct resources *resources, const struct resource *resource, const char *reason)
{
    log_warning(RESOURCES_MODULE, "resource %s changed and cannot be loaded: %s", resource->name,
                reason);
    counters_add(resources->services->counters, EC_COUNTER_resources_failed, 1);
    announce(resources, resource, directory_handle(resources->directory, resource->index),
             "failed");
}

/* Nobody has seen the bytes of one that is not READY, so that needs no other entry. */
static bool may_replace(const struct resources *resources, const struct resource *resource)
{
    return resource->presence != RESOURCE_READY ||
           (directory_room(resources->directory) > 0 &&
            directory_generation(resources->directory, resource->index) != 0);
}

static void replace(struct resources *resources, struct resource *resource, struct content *content)
{
    struct old_life life = { .index = resource->index,
                             .handle = directory_handle(resources->directory, resource->index),
                             .content = resource->content,
                             .resource = resource };

    resources->by_index[life.index] = NULL;
    resource->index = directory_replace(resources->directory, life.index);
    resources->by_index[resource->index] = resource;
    resource->content = content;
    directory_publish(resources->directory, resource->index, content->offset, &content->decoded);
    if (resource->leaving)
        resource_mark(resources, resource);
    old_life_begin(resources, &life);
}

static void announce(struct resources *resources, const struct resource *resource,
                     uint64_t old_handle, const char *state)
{
    struct event_resource_changed payload = { 0 };

    memcpy(payload.name, resource->name, strlen(resource->name));
    memcpy(payload.state, state, strlen(state));
    payload.handle[0] = directory_handle(resources->directory, resource->index);
    payload.old_handle[0] = old_handle;
    events_publish_system(resources->services->events, EC_SYSTEM_resource_changed, &payload);
}
