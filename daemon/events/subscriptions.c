/* subscriptions.c - see subscriptions.h. */
#include "events/subscriptions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/config.h"
#include "daemon/log.h"
#include "foundation/real_time.h"

#define TURN_EVENTS 4096               /* of one port, before the loop does something else */
#define PARAMS_BYTES_MAX (1000 * 1024) /* so that the line stays below 1 MiB */

/* What a subscription wants: these types, or all of them when there is none. */
struct filter {
    uint32_t type_count;
    uint64_t types[READER_TYPES_MAX];
};

struct reading_port {
    struct reading_port *next;
    uint32_t port_id;
    uint32_t client_id; /* of the publisher; 0: the daemon */
    struct ec_port_reading reading;
    bool broken;
};

static struct ec_cursor_segment *own_cursors(struct subscriptions *subscriptions)
{
    return subscriptions->cursors.base;
}

/* ---- who wants what -------------------------------------------------------------------------- */

static bool wants(const void *context, const struct feed_topic *topic)
{
    const struct filter *filter = context;

    for (uint32_t i = 0; i < filter->type_count; i++)
        if (filter->types[i] == topic->key)
            return true;
    return filter->type_count == 0;
}

static bool covers(const void *context, const void *other)
{
    const struct filter *filter = context, *narrower = other;

    for (uint32_t i = 0; i < narrower->type_count; i++)
        if (!wants(filter, &(struct feed_topic) { .key = narrower->types[i] }))
            return false;
    return filter->type_count == 0 || narrower->type_count > 0;
}

static void on_lost(void *context, uint64_t key, uint64_t count)
{
    struct subscriptions *subscriptions = context;
    struct event_type *type = event_types_find(subscriptions->routes->types, key);

    if (type != NULL)
        type->json_lost += count;
}

static void send_event(struct subscriptions *subscriptions, const struct event_type *type,
                       const struct ec_event_header *header, uint32_t sender, int64_t now_ns)
{
    const struct feed_topic topic = { .key = type->id };
    const struct ec_json_writer *payload = &subscriptions->payload;
    struct ec_json_writer *w = &subscriptions->params;

    if (ec_json_writer_status(payload) < 0) { /* too long for a line, or no memory */
        feed_lose(subscriptions->feed, 1);
        return;
    }
    ec_json_writer_rewind(w, 0);
    ec_json_object_begin(w);
    ec_json_member_string(w, "type", type->name);
    ec_json_member_i64(w, "time_ns", header->time_ns);
    ec_json_member_u64(w, "sender", sender);
    ec_json_member_u64(w, "sequence", header->sequence);
    ec_json_member_raw(w, "payload",
                       (struct ec_json_span) { .text = payload->base, .bytes = payload->bytes });
    ec_json_object_end(w);
    if (ec_json_writer_status(w) < 0)
        feed_lose(subscriptions->feed, 1);
    else
        feed_publish(subscriptions->feed, &topic,
                     (struct ec_json_span) { w->base + 1, w->bytes - 2 }, now_ns);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void count_delivered(struct subscriptions *subscriptions,
                            const struct ec_event_header *header, int64_t now)
{
    struct ec_reader_type *rows = own_cursors(subscriptions)->types[subscriptions->reader->slot];
    uint32_t i = 0;

    while (i < EC_READER_TYPES_MAX - 1) {
        uint64_t known = atomic_load_explicit(&rows[i].type, memory_order_relaxed);

        if (known == header->type)
            break;
        if (known == 0) {
            atomic_store_explicit(&rows[i].type, header->type, memory_order_relaxed);
            break;
        }
        i++;
    }
    atomic_store_explicit(&rows[i].delivered,
                          atomic_load_explicit(&rows[i].delivered, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    ec_histogram_add(&rows[i].latency,
                     now > header->time_ns ? (uint64_t)(now - header->time_ns) : 0);
}

static void resync(struct subscriptions *subscriptions, struct reading_port *port)
{
    uint64_t events, bytes;

    if (!ec_port_resync(&port->reading, &events, &bytes)) {
        port->broken = true;
        log_warning("events", "port %u of client %u makes no sense: no longer read", port->port_id,
                    port->client_id);
        return;
    }
    feed_lose(subscriptions->feed, events);
}

/* Is there a subscription for this type? */
static bool is_wanted(const struct subscriptions *subscriptions, uint64_t type)
{
    const struct feed_topic topic = { .key = type };

    for (const void *filter = feed_next_filter(subscriptions->feed, NULL); filter != NULL;
         filter = feed_next_filter(subscriptions->feed, filter))
        if (wants(filter, &topic))
            return true;
    return false;
}

/* Decode while the payload may be overwritten, validate, and only then send. */
static void read_event(struct subscriptions *subscriptions, struct reading_port *port,
                       const struct ec_port_item *item)
{
    struct event_type *type = event_types_find(subscriptions->routes->types, item->header.type);
    const struct feed_topic topic = { .key = item->header.type };
    const int64_t now_ns = ec_real_ns();
    bool is_for_us = type != NULL && is_wanted(subscriptions, type->id);
    bool is_too_large = is_for_us && item->header.bytes > type->size; /* no library writes that */
    bool is_taken;

    is_for_us = is_for_us && !is_too_large;
    is_taken = is_for_us && feed_takes(subscriptions->feed, &topic, now_ns);
    ec_json_writer_rewind(&subscriptions->payload, 0);
    if (is_taken)
        event_payload_decode(type, item->payload, item->header.bytes, &subscriptions->payload);
    if (!ec_port_intact(&port->reading)) {
        resync(subscriptions, port);
        return;
    }
    if (is_for_us) {
        /* A client's port speaks for that client, whatever its events say. */
        uint32_t sender = port->client_id != 0 ? port->client_id : item->header.sender;

        count_delivered(subscriptions, &item->header, now_ns);
        if (is_taken)
            send_event(subscriptions, type, &item->header, sender, now_ns);
        else
            feed_pass_over(subscriptions->feed, &topic);
    } else if (is_too_large) {
        feed_lose(subscriptions->feed, 1);
    }
    ec_port_advance(&port->reading, item);
}

/* true: there is more. */
static bool read_port(struct subscriptions *subscriptions, struct reading_port *port)
{
    for (int i = 0; i < TURN_EVENTS && !port->broken; i++) {
        struct ec_port_item item;
        int rc = ec_port_peek(&port->reading, &item);

        if (rc == EC_AGAIN)
            break;
        if (rc == EC_ERR_STALE)
            resync(subscriptions, port);
        else if (rc < 0)
            port->broken = true;
        else
            read_event(subscriptions, port, &item);
    }
    ec_port_show_cursor(&port->reading);
    return !port->broken && ec_port_ready(&port->reading);
}

static void step_epoch(struct subscriptions *subscriptions)
{
    _Atomic uint32_t *epoch = &own_cursors(subscriptions)->sleep[subscriptions->reader->slot].epoch;

    atomic_store_explicit(epoch, atomic_load_explicit(epoch, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static bool is_asleep(struct subscriptions *subscriptions)
{
    return (atomic_load_explicit(
                &own_cursors(subscriptions)->sleep[subscriptions->reader->slot].epoch,
                memory_order_relaxed) &
            1) != 0;
}

/* Read everything, then go to sleep; stay awake (the bell is level-triggered) when there is more. */
static void read_all(struct subscriptions *subscriptions)
{
    bool more = false;

    if (subscriptions->reader == NULL)
        return;
    if (is_asleep(subscriptions))
        step_epoch(subscriptions);
    for (struct reading_port *port = subscriptions->ports; port != NULL; port = port->next)
        more |= read_port(subscriptions, port);
    if (!more) {
        step_epoch(subscriptions);                 /* odd: asleep */
        atomic_thread_fence(memory_order_seq_cst); /* [3] of segment/event_port.h */
        for (struct reading_port *port = subscriptions->ports; port != NULL; port = port->next)
            more |= !port->broken && ec_port_ready(&port->reading);
    }
    if (more) /* come back after the loop has looked at the others */
        ec_doorbell_ring(subscriptions->doorbell.ring_fd, true);
}

static void on_bell(uv_poll_t *handle, int status, int events)
{
    struct subscriptions *subscriptions = handle->data;

    (void)status;
    (void)events;
    ec_doorbell_silence(&subscriptions->doorbell);
    read_all(subscriptions);
}

void subscriptions_port_added(struct subscriptions *subscriptions, const struct route_link *link)
{
    struct reading_port *port = calloc(1, sizeof *port);

    if (port == NULL)
        return; /* its publisher never admits us, so nothing waits */
    port->port_id = link->port->id;
    port->client_id = link->port->owner->client_id;
    ec_port_reading_init(
        &port->reading, &link->port->view, &own_cursors(subscriptions)->cursor[link->cursor],
        ec_cursor_owner(link->reader->id, link->port->id),
        subscriptions->reader == NULL ? EC_PORT_START_TAIL : EC_PORT_START_OLDEST, 0);
    port->next = subscriptions->ports;
    subscriptions->ports = port;
    ec_doorbell_ring(subscriptions->doorbell.ring_fd, true);
}

void subscriptions_port_removed(struct subscriptions *subscriptions, const struct route_port *gone)
{
    for (struct reading_port **at = &subscriptions->ports; *at != NULL; at = &(*at)->next) {
        struct reading_port *port = *at;

        if (port->port_id != gone->id)
            continue;
        /* What was published until now; a publisher that closed its port and goes on is not waited for. */
        for (uint64_t tail = atomic_load_explicit(&gone->port->tail, memory_order_acquire);
             port->reading.position < tail && read_port(subscriptions, port);)
            continue;
        *at = port->next;
        ec_port_reading_finish(&port->reading);
        free(port);
        return;
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static int open_reader(struct subscriptions *subscriptions, struct ec_error *why)
{
    const struct route_reader_desc desc = { .bell_fd = -1,
                                            .bell_across_fd = -1 }; /* lossy, all types */
    struct route_reader *reader;
    int rc = routes_open_reader(subscriptions->routes, subscriptions->owner, &desc, &reader, why);

    if (rc < 0)
        return rc;
    memset(own_cursors(subscriptions)->types[reader->slot], 0,
           sizeof own_cursors(subscriptions)->types[reader->slot]);
    for (struct route_link *link = reader->links; link != NULL; link = link->next_of_reader)
        subscriptions_port_added(subscriptions, link);
    subscriptions->reader = reader;
    uv_poll_start(subscriptions->bell, UV_READABLE, on_bell);
    read_all(subscriptions);
    return EC_OK;
}

static void close_reader(struct subscriptions *subscriptions)
{
    if (subscriptions->reader == NULL)
        return;
    uv_poll_stop(subscriptions->bell);
    if (is_asleep(subscriptions))
        step_epoch(subscriptions);
    routes_close_reader(subscriptions->routes, subscriptions->reader);
    subscriptions->reader = NULL;
    while (subscriptions->ports != NULL) {
        struct reading_port *next = subscriptions->ports->next;

        ec_port_reading_finish(&subscriptions->ports->reading);
        free(subscriptions->ports);
        subscriptions->ports = next;
    }
}

static void on_used(void *context, bool used)
{
    struct subscriptions *subscriptions = context;

    if (!used)
        close_reader(subscriptions);
}

int subscriptions_add(struct subscriptions *subscriptions, struct client *client,
                      const struct subscription_desc *desc, uint32_t *id, struct ec_error *why)
{
    struct filter filter = { .type_count = desc->type_count };
    struct feed_subscription_desc with_filter = desc->feed;
    int rc = EC_OK;

    if (desc->type_count > 0)
        memcpy(filter.types, desc->types, desc->type_count * sizeof *desc->types);
    with_filter.filter = &filter;
    with_filter.filter_bytes =
        offsetof(struct filter, types) + desc->type_count * sizeof *desc->types;
    if (desc->is_rehearsal)
        return feed_may_add(subscriptions->feed, client, &with_filter, why);
    if (subscriptions->reader == NULL)
        rc = open_reader(subscriptions, why);
    if (rc == EC_OK)
        rc = feed_add(subscriptions->feed, client, &with_filter, id, why);
    if (rc < 0 && !feed_is_used(subscriptions->feed))
        close_reader(subscriptions);
    return rc;
}

void subscriptions_remove_client(struct subscriptions *subscriptions, const struct client *client)
{
    feed_remove_client(subscriptions->feed, client);
}

uint32_t subscriptions_count(const struct subscriptions *subscriptions, uint64_t type)
{
    return feed_count(subscriptions->feed, &(struct feed_topic) { .key = type });
}

int subscriptions_init(struct subscriptions *subscriptions, uv_loop_t *loop, uint64_t instance,
                       struct ec_error *why)
{
    struct ec_segment_desc desc = {
        .name = "engine-core-cursors",
        .kind = EC_SEGMENT_CURSOR,
        .bytes = sizeof(struct ec_cursor_segment),
        .instance = instance,
    };
    int rc = ec_segment_init(&subscriptions->cursors, &desc, why);

    subscriptions->loop = loop;
    subscriptions->doorbell = (struct ec_doorbell) { -1, -1 };
    ec_json_writer_init_growing(&subscriptions->payload, ec_json_grow_heap, NULL, PARAMS_BYTES_MAX);
    ec_json_writer_init_growing(&subscriptions->params, ec_json_grow_heap, NULL,
                                PARAMS_BYTES_MAX + 64);
    if (rc < 0)
        return ec_error_prefix(why, rc, "create the daemon's cursors");
    /* Of sockets: games of other users ring it, and the daemon must never block. */
    rc = ec_doorbell_init(&subscriptions->doorbell, true, why);
    if (rc < 0)
        return ec_error_prefix(why, rc, "create the daemon's doorbell");
    rc = feed_create(loop,
                     &(struct feed_desc) {
                         .method = "event",
                         .instance = instance,
                         .config = subscriptions->config,
                         .counters = subscriptions->counters,
                         .own_memory = subscriptions->routes->own_memory,
                         .delivered = EC_COUNTER_events_json,
                         .lost = EC_COUNTER_events_json_lost,
                         .skipped = EC_COUNTER_events_json_skipped,
                         .wants = wants,
                         .covers = covers,
                         .on_lost = on_lost,
                         .on_used = on_used,
                         .context = subscriptions,
                     },
                     &subscriptions->feed, why);
    if (rc < 0)
        return rc;
    subscriptions->bell = calloc(1, sizeof *subscriptions->bell);
    if (subscriptions->bell == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for the daemon's doorbell");
    uv_poll_init(loop, subscriptions->bell, subscriptions->doorbell.wait_fd);
    subscriptions->bell->data = subscriptions;
    subscriptions->polling = true;
    return EC_OK;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

void subscriptions_finish(struct subscriptions *subscriptions)
{
    feed_destroy(subscriptions->feed);
    subscriptions->feed = NULL;
    close_reader(subscriptions);
    if (subscriptions->polling)
        uv_close((uv_handle_t *)subscriptions->bell, on_closed);
    else
        free(subscriptions->bell);
    subscriptions->polling = false;
    ec_doorbell_finish(&subscriptions->doorbell);
    ec_segment_finish(&subscriptions->cursors);
    free(subscriptions->payload.base);
    free(subscriptions->params.base);
    subscriptions->payload.base = subscriptions->params.base = NULL;
}
