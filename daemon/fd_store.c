/* fd_store.c - see fd_store.h. */
#include "daemon/fd_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "daemon/config.h"
#include "daemon/log.h"
#include "daemon/notify.h"
#include "daemon/services.h"

struct passed {
    char name[FD_STORE_NAME_BYTES];
    int fd; /* -1: taken */
};

struct fd_store {
    bool is_used;
    bool has_put; /* since the last barrier */
    struct passed *passed;
    unsigned count;
    uv_timer_t *started;
    struct notify *notify;
};

static int make(struct fd_store **store, struct ec_error *why)
{
    if (*store == NULL)
        *store = calloc(1, sizeof **store);
    return *store != NULL ? EC_OK : ec_fail(why, EC_ERR_MEMORY, "no memory for descriptors");
}

int fd_store_keep(struct fd_store **store, const char *name, int fd, struct ec_error *why)
{
    struct passed *grown;

    if (make(store, why) < 0) {
        close(fd);
        return EC_ERR_MEMORY;
    }
    grown = realloc((*store)->passed, ((*store)->count + 1) * sizeof *grown);
    if (grown == NULL) {
        close(fd);
        return ec_fail(why, EC_ERR_MEMORY, "no memory for descriptors");
    }
    (*store)->passed = grown;
    grown[(*store)->count].fd = fd;
    snprintf(grown[(*store)->count].name, FD_STORE_NAME_BYTES, "%s", name);
    (*store)->count++;
    return EC_OK;
}

int fd_store_init(struct services *services, struct ec_error *why)
{
    const char *slots = getenv("FDSTORE");
    int rc = make(&services->fd_store, why);

    if (rc < 0)
        return rc;
    services->fd_store->notify = services->notify;
    services->fd_store->is_used =
        config_boolean(services->config, EC_CONFIG_core_descriptor_store) ||
        (slots != NULL && strtol(slots, NULL, 10) > 0);
    return EC_OK;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

/* The first turn of the loop: all modules have started. */
static void on_started(uv_timer_t *timer)
{
    struct fd_store *store = timer->data;

    for (unsigned i = 0; i < store->count; i++) {
        if (store->passed[i].fd < 0)
            continue;
        log_info("fd_store", "%s of the last run is of no use", store->passed[i].name);
        close(store->passed[i].fd);
        store->passed[i].fd = -1;
        fd_store_remove(store, store->passed[i].name);
    }
}

int fd_store_post_init(struct services *services, struct ec_error *why)
{
    struct fd_store *store = services->fd_store;

    store->started = calloc(1, sizeof *store->started);
    if (store->started == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a timer");
    uv_timer_init(services->loop, store->started);
    store->started->data = store;
    uv_timer_start(store->started, on_started, 0, 0);
    uv_unref((uv_handle_t *)store->started);
    return EC_OK;
}

void fd_store_shutdown(struct services *services)
{
    struct fd_store *store = services->fd_store;

    if (store == NULL)
        return;
    if (store->started != NULL)
        uv_close((uv_handle_t *)store->started, on_closed);
    for (unsigned i = 0; i < store->count; i++)
        if (store->passed[i].fd >= 0)
            close(store->passed[i].fd);
    free(store->passed);
    free(store);
    services->fd_store = NULL;
}

bool fd_store_is_used(const struct fd_store *store)
{
    return store != NULL && store->is_used;
}

int fd_store_take(struct fd_store *store, const char *name)
{
    if (!fd_store_is_used(store))
        return -1;
    for (unsigned i = 0; i < store->count; i++)
        if (store->passed[i].fd >= 0 && strcmp(store->passed[i].name, name) == 0) {
            int fd = store->passed[i].fd;

            store->passed[i].fd = -1;
            return fd;
        }
    return -1;
}

const char *fd_store_next(const struct fd_store *store, const char *prefix, unsigned *at)
{
    while (fd_store_is_used(store) && *at < store->count) {
        const struct passed *passed = &store->passed[(*at)++];

        if (passed->fd >= 0 && strncmp(passed->name, prefix, strlen(prefix)) == 0)
            return passed->name;
    }
    return NULL;
}

void fd_store_put(struct fd_store *store, const char *name, int fd)
{
    char text[FD_STORE_NAME_BYTES + 32];

    if (!fd_store_is_used(store))
        return;
    fd_store_remove(store, name); /* a second one would not take the place of the first */
    snprintf(text, sizeof text, "FDSTORE=1\nFDNAME=%s", name);
    if (notify_send_fd(store->notify, fd, text) < 0)
        log_warning("fd_store", "the service manager does not keep %s", name);
    store->has_put = true;
}

void fd_store_remove(struct fd_store *store, const char *name)
{
    if (fd_store_is_used(store))
        notify_send(store->notify, "FDSTOREREMOVE=1\nFDNAME=%s", name);
}

void fd_store_barrier(struct fd_store *store)
{
    if (!fd_store_is_used(store) || !store->has_put)
        return;
    store->has_put = false;
    if (notify_barrier(store->notify) < 0)
        log_warning("fd_store", "the service manager does not say that it keeps descriptors");
}
