/* events.c - the events module: types, routes, subscriptions, and the daemon's own port. */
#include "events/events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/config.h"
#include "daemon/heritage.h"
#include "daemon/log.h"
#include "daemon/segments.h"
#include "daemon/services.h"
#include "events/joining.h"
#include "events/registry.h"
#include "foundation/doorbell.h"

/* Some 4,000 system events; all of it is resident from the start, so that news of an emergency needs no
 * memory. The largest payload that the daemon can publish is a quarter of it. */
#define OWN_RING_BYTES (512u * 1024)
#define RATE_MS 1000

/* ---- the daemon's port ----------------------------------------------------------------------- */

int events_claim(struct events *events, uint32_t bytes, void **payload)
{
    int rc = ec_port_claim(&events->writer, bytes, payload);

    return rc == EC_AGAIN ? EC_ERR_BUSY : rc; /* nobody is waited for, so there is always room */
}

uint64_t events_commit(struct events *events, const struct event_type *type, uint32_t bytes,
                       uint32_t sender)
{
    const struct ec_clock_page *clock = segments_clock(events->services->segments);
    struct ec_port_type *row = ec_port_type_row(&events->writer, type->id);
    struct ec_event_header header = {
        .type = type->id,
        .sender = sender,
        .step = atomic_load_explicit(&clock->step[0].step, memory_order_relaxed),
    };
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    header.time_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    ec_port_commit(&events->writer, &header, bytes);
    atomic_fetch_add_explicit(&row->published, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&row->bytes, bytes, memory_order_relaxed);
    ec_port_flush(&events->writer);
    return events->writer.sequence - 1;
}

void events_publish_system(struct events *events, enum ec_system_event_id id, const void *payload)
{
    const struct event_type *type = events->system[id];
    void *room;

    if (events_claim(events, type->size, &room) != EC_OK)
        return; /* cannot be: counted by the port as would_block */
    memcpy(room, payload, type->size);
    events_commit(events, type, type->size, 0);
}

uint32_t events_type_count(const struct events *events)
{
    return HASH_COUNT(events->types.by_id);
}

/* The structs that the table makes in C have the layout that readers are told. */
static const size_t system_sizes[EC_SYSTEM_EVENTS] = {
#define SYSTEM_EVENT(id, name, help) [EC_SYSTEM_##id] = sizeof(struct event_##id),
#define SYSTEM_FIELD(name, type, count, help)
#define SYSTEM_EVENT_END(id)
#include "proto/tables/events.def"
#undef SYSTEM_EVENT
#undef SYSTEM_FIELD
#undef SYSTEM_EVENT_END
};

static int register_system_types(struct events *events, struct ec_error *why)
{
    for (size_t e = 0; e < EC_SYSTEM_EVENTS; e++) {
        const struct ec_system_event_row *row = &ec_system_events[e];
        struct event_field fields[EVENT_FIELDS_MAX];
        struct event_type_desc desc = {
            .name = row->name,
            .registered_by = "engine-cored",
            .version = 1,
            .lossy = true, /* the daemon never waits for a reader */
            .fields = fields,
            .field_count = (uint32_t)row->field_count,
        };
        bool created;
        int rc;

        memset(fields, 0, sizeof fields);
        for (size_t i = 0; i < row->field_count; i++) {
            snprintf(fields[i].name, sizeof fields[i].name, "%s", row->fields[i].name);
            fields[i].count = row->fields[i].count;
            if (!event_scalar_parse(row->fields[i].type, &fields[i].scalar))
                return ec_fail(why, EC_ERR_INTERNAL, "%s.%s has the unknown type %s", row->name,
                               row->fields[i].name, row->fields[i].type);
        }
        rc = event_types_register(&events->types, &desc, &events->system[e], &created, NULL, why);
        if (rc < 0)
            return rc;
        events->system[e]->is_system = true;
        if (events->system[e]->size != system_sizes[e])
            return ec_fail(why, EC_ERR_INTERNAL, "%s has %zu bytes in C and %u in its layout",
                           row->name, system_sizes[e], events->system[e]->size);
    }
    return EC_OK;
}

static int open_own_port(struct events *events, struct ec_error *why)
{
    struct ec_port_writer_desc desc = {
        .name = "engine-cored",
        .ring_bytes = OWN_RING_BYTES,
        .instance = events->services->instance,
        .mirrored = true,
    };
    int rc;

#ifdef EC_TSAN
    desc.mirrored = false; /* TSan takes the two addresses of a mirrored ring for two memories */
#endif
    rc = ec_port_writer_init(&events->writer, &desc, why);
    if (rc == EC_OK)
        rc = routes_open_port(&events->routes, events->owner,
                              &(struct route_port_desc) { .name = desc.name,
                                                          .ring_bytes = desc.ring_bytes,
                                                          .fd = events->writer.segment.fd,
                                                          .own = &events->writer },
                              &events->port, why);
    return rc;
}

/* ---- readers of the daemon's port ------------------------------------------------------------ */

/* The loop is the publishing thread of this port, so a change is applied at once: when this returns,
 * the reader's segment is no longer looked at. */
static void apply(struct events *events, struct ec_port_change *change)
{
    ec_port_post(&events->writer, change);
    ec_port_apply_changes(&events->writer);
    for (change = ec_port_take_done(&events->writer); change != NULL;) {
        struct ec_port_change *next = (struct ec_port_change *)(void *)change->mail.next;

        free(change);
        change = next;
    }
}

static void own_reader_added(void *context, const struct route_link *link)
{
    struct events *events = context;
    const struct route_reader *reader = link->reader;
    const struct ec_cursor_segment *cursors = reader->owner->cursors;
    const int bell_fd = route_bell(reader, geteuid());
    struct ec_port_change *change = calloc(1, sizeof *change);

    if (change == NULL)
        return; /* the reader validates and counts; it is just not woken */
    change->add = true;
    change->peer = (struct ec_port_peer) {
        .reader_id = ec_cursor_owner(reader->id, link->port->id),
        .cursor = &cursors->cursor[link->cursor].position,
        .cursor_owner = &cursors->cursor[link->cursor].reader_id,
        .epoch = &cursors->sleep[reader->slot].epoch,
        .doorbell_fd = bell_fd,
        .doorbell_is_socket = ec_doorbell_is_socket(bell_fd),
        .slot = link->reader_slot,
        .reliable = false, /* system ports never wait */
    };
    apply(events, change);
}

static void own_reader_removed(void *context, const struct route_link *link)
{
    struct ec_port_change change = { .peer.reader_id =
                                         ec_cursor_owner(link->reader->id, link->port->id) };
    struct events *events = context;
    struct ec_port_change *removal = malloc(sizeof *removal);

    if (removal == NULL)
        abort(); /* the reader's segment goes: it must not be looked at again */
    *removal = change;
    apply(events, removal);
}

static void own_port_added(void *context, const struct route_link *link)
{
    struct events *events = context;

    subscriptions_port_added(&events->subscriptions, link);
}

static void own_port_removed(void *context, const struct route_port *port)
{
    struct events *events = context;

    subscriptions_port_removed(&events->subscriptions, port);
}

/* ---- clients come and go --------------------------------------------------------------------- */

static void client_attached(void *context, struct client *client)
{
    struct events *events = context;
    struct event_client_joined joined = { .client_id = { client->id },
                                          .pid = { (uint32_t)client->pid } };

    if (routes_owner(&events->routes, client) == NULL && /* else it is back: see client_ended */
        routes_add_owner(&events->routes, client) == NULL)
        log_warning("events", "no memory for the ports of client %u", client->id);
    memcpy(joined.name, client->name, sizeof joined.name);
    events_publish_system(events, EC_SYSTEM_client_joined, &joined);
}

static void client_left(void *context, struct client *client)
{
    struct events *events = context;
    struct route_owner *owner = routes_owner(&events->routes, client);
    struct event_client_left left = { .client_id = { client->id },
                                      .pid = { (uint32_t)client->pid } };

    subscriptions_remove_client(&events->subscriptions, client);
    if (owner == NULL)
        return;
    if (client_may_return(client))
        routes_set_adrift(&events->routes, owner);
    else
        routes_remove_owner(&events->routes, owner);
    joining_check(events);
    memcpy(left.name, client->name, sizeof left.name);
    events_publish_system(events, EC_SYSTEM_client_left, &left);
}

/* It had its time, or died, or goes on over another connection. */
static void client_ended(void *context, struct client *client)
{
    struct events *events = context;
    struct route_owner *owner = routes_owner(&events->routes, client);

    if (owner == NULL || (client->successor != NULL &&
                          routes_rebind_owner(&events->routes, owner, client->successor)))
        return;
    routes_remove_owner(&events->routes, owner);
    joining_check(events);
}

static void client_resumed(void *context, struct client *client)
{
    struct events *events = context;
    struct route_owner *owner = routes_owner(&events->routes, client);

    if (owner != NULL)
        routes_end_adrift(&events->routes, owner);
    joining_check(events);
}

static void clients_settled(void *context)
{
    struct events *events = context;

    routes_end_claims(&events->routes);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void on_rate_timer(uv_timer_t *timer)
{
    events_sample_rates(timer->data);
}

static int start_rates(struct events *events, struct ec_error *why)
{
    events->rate_timer = calloc(1, sizeof *events->rate_timer);
    if (events->rate_timer == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a timer");
    uv_timer_init(events->services->loop, events->rate_timer);
    events->rate_timer->data = events;
    uv_timer_start(events->rate_timer, on_rate_timer, RATE_MS, RATE_MS);
    uv_unref((uv_handle_t *)events->rate_timer);
    events_sample_rates(events);
    return EC_OK;
}

int events_init(struct services *services, struct ec_error *why)
{
    static const struct client_hooks hooks = { .attached = client_attached,
                                               .left = client_left,
                                               .ended = client_ended,
                                               .resumed = client_resumed,
                                               .settled = clients_settled,
                                               .describe = events_describe_client };
    struct events *events = calloc(1, sizeof *events);
    int rc;

    if (events == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "%zu bytes for the events", sizeof *events);
    services->events = events;
    events->services = services;
    events->writer.segment.fd = -1;
    events->routes = (struct routes) {
        .types = &events->types,
        .own_memory = services->own_memory,
        .heritage = services->heritage,
        .last_port_id = heritage_last_id(services->heritage, HERITAGE_PORT),
        .last_reader_id = heritage_last_id(services->heritage, HERITAGE_READER),
        .daemon = { events, own_reader_added, own_reader_removed, own_port_added,
                    own_port_removed },
    };
    events->subscriptions.config = services->config;
    events->subscriptions.counters = services->counters;
    events->subscriptions.routes = &events->routes;
    rc = subscriptions_init(&events->subscriptions, services->loop, services->instance, why);
    if (rc < 0)
        return rc;
    events->owner = routes_add_owner(&events->routes, NULL);
    if (events->owner == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for the daemon's routes");
    events->owner->cursors = events->subscriptions.cursors.base;
    events->owner->cursor_fd = events->subscriptions.cursors.fd;
    events->owner->doorbell_fd = events->subscriptions.doorbell.ring_fd;
    events->subscriptions.owner = events->owner;
    rc = register_system_types(events, why);
    if (rc == EC_OK)
        rc = open_own_port(events, why);
    if (rc == EC_OK)
        rc = clients_add_hooks(services->clients, &hooks, events);
    if (rc == EC_OK)
        rc = start_rates(events, why);
    return rc;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

void events_shutdown(struct services *services)
{
    struct events *events = services->events;

    if (events == NULL)
        return;
    if (events->rate_timer != NULL)
        uv_close((uv_handle_t *)events->rate_timer, on_closed);
    joining_finish(events);
    subscriptions_finish(&events->subscriptions);
    while (events->routes.owners != NULL)
        routes_remove_owner(&events->routes, events->routes.owners);
    if (events->writer.port != NULL)
        ec_port_writer_finish(&events->writer);
    event_types_finish(&events->types);
    free(events);
    services->events = NULL;
}
