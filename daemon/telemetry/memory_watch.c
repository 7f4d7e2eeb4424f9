#include "telemetry/memory_watch.h"

#include <stdlib.h>
#include <uthash.h>
#include <uv.h>

#include "clients/clients.h"
#include "daemon/config.h"
#include "daemon/services.h"
#include "foundation/real_time.h"

struct watched {
    uint32_t client_id;
    struct memory_history history;
    UT_hash_handle hh;
};

struct memory_watch {
    struct services *services;
    uv_timer_t timer;
    struct watched *clients; /* by id */
    uint64_t frames;
    double allocations_per_s;
    struct memory_snapshots snapshots;
};

static void on_timer(uv_timer_t *timer);
static void look(struct memory_watch *watch, struct client *client);
static void on_ended(void *context, struct client *client);
static void on_config(void *context, enum ec_config_id id);
static void start_timer(struct memory_watch *watch);
static void on_closed(uv_handle_t *handle);
static void forget(struct memory_watch *watch, struct watched *watched);

int memory_watch_init(struct services *services, struct ec_error *why)
{
    static const struct client_hooks hooks = { .ended = on_ended };
    struct memory_watch *watch = calloc(1, sizeof *watch);
    int rc;

    if (watch == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for the watch over memory");
    watch->services = services;
    uv_timer_init(services->loop, &watch->timer);
    uv_unref((uv_handle_t *)&watch->timer);
    watch->timer.data = watch;
    services->memory_watch = watch;
    rc = clients_add_hooks(services->clients, &hooks, watch);
    if (rc == EC_OK)
        rc = config_on_change(services->config, on_config, watch);
    return rc < 0 ? ec_fail(why, rc, "too many want to hear of clients or changes") : EC_OK;
}

int memory_watch_post_init(struct services *services, struct ec_error *why)
{
    (void)why;
    on_config(services->memory_watch, EC_CONFIG_memory_suspect_frames);
    start_timer(services->memory_watch);
    return EC_OK;
}

void memory_watch_shutdown(struct services *services)
{
    struct memory_watch *watch = services->memory_watch;
    struct watched *watched, *next;

    if (watch == NULL)
        return;
    services->memory_watch = NULL;
    HASH_ITER(hh, watch->clients, watched, next)
    forget(watch, watched);
    memory_snapshots_finish(&watch->snapshots);
    uv_timer_stop(&watch->timer);
    uv_close((uv_handle_t *)&watch->timer, on_closed);
}

const struct memory_history *memory_watch_history(const struct memory_watch *watch,
                                                  uint32_t client_id)
{
    const struct watched *watched;

    HASH_FIND(hh, watch->clients, &client_id, sizeof client_id, watched);
    return watched == NULL || watched->history.looks == 0 ? NULL : &watched->history;
}

double memory_watch_allocations_per_s(const struct memory_watch *watch)
{
    return watch->allocations_per_s;
}

uint64_t memory_watch_frames(const struct memory_watch *watch)
{
    return watch->frames;
}

struct memory_snapshots *memory_watch_snapshots(struct memory_watch *watch)
{
    return &watch->snapshots;
}

static void on_timer(uv_timer_t *timer)
{
    struct memory_watch *watch = timer->data;
    struct clients *clients = watch->services->clients;

    watch->allocations_per_s = 0;
    for (struct client *client = clients_next(clients, NULL); client != NULL;
         client = clients_next(clients, client))
        if (client->attached)
            look(watch, client);
}

static void look(struct memory_watch *watch, struct client *client)
{
    struct watched *watched;

    HASH_FIND(hh, watch->clients, &client->id, sizeof client->id, watched);
    if (watched == NULL) {
        watched = calloc(1, sizeof *watched);
        if (watched == NULL)
            return; /* it is tried again at the next look */
        watched->client_id = client->id;
        HASH_ADD(hh, watch->clients, client_id, sizeof watched->client_id, watched);
    }
    memory_history_look(&watched->history, client_segment(client), ec_real_ns());
    watch->allocations_per_s += watched->history.allocations_per_s;
}

static void on_ended(void *context, struct client *client)
{
    struct memory_watch *watch = context;
    struct watched *watched;

    HASH_FIND(hh, watch->clients, &client->id, sizeof client->id, watched);
    if (watched != NULL)
        forget(watch, watched);
}

static void forget(struct memory_watch *watch, struct watched *watched)
{
    HASH_DEL(watch->clients, watched);
    memory_history_finish(&watched->history);
    free(watched);
}

static void on_config(void *context, enum ec_config_id id)
{
    struct memory_watch *watch = context;

    if (id == EC_CONFIG_memory_suspect_frames)
        watch->frames = (uint64_t)config_integer(watch->services->config, id);
    else if (id == EC_CONFIG_memory_look_ms)
        start_timer(watch);
}

static void start_timer(struct memory_watch *watch)
{
    const uint64_t ms = (uint64_t)config_integer(watch->services->config, EC_CONFIG_memory_look_ms);

    uv_timer_start(&watch->timer, on_timer, ms, ms);
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}
