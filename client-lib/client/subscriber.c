/* subscriber.c - read the ports of all clients on one thread; see engine-core/subscriber.h. */
#include <engine-core/subscriber.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "client/event_peers.h"
#include "foundation/json/json_writer.h"

#define TYPES_MAX 32u
#define TYPE_ROWS (EC_READER_TYPES_MAX - 1) /* the last row counts for those that found none */
#define TYPE_CACHE 128u                     /* power of two, twice the rows */
#define SPIN_NS_MAX 100000u
#define BATCH_MAX 256u /* events of one port before the next one has its turn */

struct type_row {
    uint64_t type; /* 0: free */
    struct ec_reader_type *row;
};

struct ec_subscriber {
    uint64_t types[TYPES_MAX];
    uint32_t type_count; /* 0: all */
    struct ec_peer_port *ports;
    struct ec_peer_port *turn; /* who is read first next time */
    struct type_row cache[TYPE_CACHE];
    uint32_t rows_used;
    struct ec_reader_type *rows; /* own, in the cursor segment */
    _Atomic uint32_t *epoch;     /* own, in the cursor segment */
    int doorbell_fd;
    uint32_t spin_ns;
    bool armed;

    void (*on_lost)(void *context, const struct ec_loss *loss);
    void *context;

    uint64_t delivered, lost_events, lost_bytes; /* of ports that are gone */
    uint32_t broken;

    _Atomic(struct ec_subscriber_change *) changes; /* from the service thread */
    struct ec_client *client;
    struct ec_subscriber *next;
    uint64_t reader_id;
};

struct ec_subscriber **ec_subscriber_link(struct ec_subscriber *subscriber)
{
    return &subscriber->next;
}

uint64_t ec_subscriber_reader_id(const struct ec_subscriber *subscriber)
{
    return subscriber->reader_id;
}

static int64_t real_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- ports come and go (service thread, mutex held) ------------------------------------------ */

static void post(struct ec_subscriber *subscriber, struct ec_subscriber_change *change)
{
    struct ec_subscriber_change *head =
        atomic_load_explicit(&subscriber->changes, memory_order_relaxed);

    do
        change->next = head;
    while (!atomic_compare_exchange_weak_explicit(&subscriber->changes, &head, change,
                                                  memory_order_release, /* with apply_changes */
                                                  memory_order_relaxed));
    /* A sleeping reader must look at the new port: something may be in it already. */
    (void)!write(subscriber->doorbell_fd, &(uint64_t) { 1 }, sizeof(uint64_t));
}

static void free_port(struct ec_peer_port *port)
{
    ec_port_reading_finish(&port->reading);
    ec_segment_map_finish(&port->map);
    free(port);
}

void ec_subscriber_add_port(struct ec_subscriber *subscriber, struct ec_early *news,
                            enum ec_port_start start)
{
    struct ec_subscriber_change *change = calloc(1, sizeof *change);
    struct ec_peer_port *port = calloc(1, sizeof *port);

    if (change == NULL || port == NULL || news->cursor >= EC_CURSORS_MAX ||
        news->reader_slot >= EC_PORT_READERS_MAX ||
        ec_port_map(&port->map, news->fds[0], NULL) < 0) {
        free(change);
        free(port);
        return; /* not admitted by its publisher, so nobody waits for us */
    }
    port->port_id = news->port_id;
    port->client_id = news->client_id;
    port->reader_slot = news->reader_slot;
    port->from_tail = start == EC_PORT_START_TAIL;
    ec_port_reading_init(&port->reading, &port->map,
                         &ec_client_cursors(subscriber->client)->cursor[news->cursor],
                         subscriber->reader_id, start);
    change->added = port;
    post(subscriber, change);
}

void ec_subscriber_remove_port(struct ec_subscriber *subscriber, uint32_t port_id)
{
    struct ec_subscriber_change *change = calloc(1, sizeof *change);

    if (change == NULL)
        return; /* the mapping stays until the subscriber ends */
    change->removed_id = port_id;
    post(subscriber, change);
}

/* ---- life ------------------------------------------------------------------------------------ */

static int write_request(struct ec_json_writer *w, const struct ec_subscriber_desc *desc,
                         struct ec_error *why)
{
    ec_json_object_begin(w);
    if (desc->type_count == 0) {
        ec_json_member_string(w, "types", "*");
    } else {
        ec_json_member_array(w, "types");
        for (uint32_t i = 0; i < desc->type_count; i++)
            ec_json_string(w, desc->types[i]);
        ec_json_array_end(w);
    }
    ec_json_member_string(w, "policy", desc->policy == EC_EVENT_LOSSY ? "lossy" : "reliable");
    ec_json_member_array(w, "fds");
    ec_json_string(w, "doorbell");
    ec_json_array_end(w);
    ec_json_object_end(w);
    ec_json_line_end(w);
    return ec_json_writer_status(w) < 0
               ? ec_fail(why, EC_ERR_PARAM, "the names of the types are too long")
               : EC_OK;
}

/* The ports that existed when the daemon recorded the reader: one descriptor each. */
static int take_ports(struct ec_subscriber *subscriber, struct ec_call *call,
                      struct ec_json_span ports, struct ec_error *why)
{
    struct ec_json_iterator iterator = ec_json_iterate(ports);
    struct ec_json_span item;

    for (unsigned i = 0; ec_json_next_element(&iterator, &item); i++) {
        uint64_t port_id, client_id, cursor, reader_slot;
        struct ec_early news = { .fds = { -1, -1 } };

        if (i >= call->reply_fd_count || !ec_event_member(item, "port_id", UINT32_MAX, &port_id) ||
            !ec_event_member(item, "client_id", UINT32_MAX, &client_id) ||
            !ec_event_member(item, "cursor", EC_CURSORS_MAX - 1, &cursor) ||
            !ec_event_member(item, "reader_slot", EC_PORT_READERS_MAX - 1, &reader_slot))
            return ec_fail(why, EC_ERR_INTERNAL, "port %u of the daemon's answer is not whole", i);
        news.port_id = (uint32_t)port_id;
        news.client_id = (uint32_t)client_id;
        news.cursor = (uint32_t)cursor;
        news.reader_slot = (uint32_t)reader_slot;
        news.fds[0] = call->reply_fds[i]; /* stays the call's: mapping does not keep it */
        ec_subscriber_add_port(subscriber, &news, EC_PORT_START_TAIL);
    }
    return EC_OK;
}

/* The slot may have served an earlier subscriber. */
static void clear_rows(struct ec_reader_type *rows)
{
    for (uint32_t i = 0; i < EC_READER_TYPES_MAX; i++) {
        if (atomic_load_explicit(&rows[i].delivered, memory_order_relaxed) == 0)
            continue;
        atomic_store_explicit(&rows[i].type, 0, memory_order_relaxed);
        atomic_store_explicit(&rows[i].delivered, 0, memory_order_relaxed);
        for (uint32_t b = 0; b < EC_HISTOGRAM_BUCKETS; b++)
            atomic_store_explicit(&rows[i].latency.bucket[b], 0, memory_order_relaxed);
        atomic_store_explicit(&rows[i].latency.max_ns, 0, memory_order_relaxed);
    }
}

static int open_reader(struct ec_subscriber *subscriber, const struct ec_subscriber_desc *desc,
                       struct ec_error *why)
{
    static const char *const names[] = { "reader_id", "slot", "ports" };
    struct ec_json_span values[3] = { { 0 } };
    struct ec_json_fields members = { .names = names, .values = values, .count = 3 };
    struct ec_call call = { .method = "event.reader.open",
                            .fds = &subscriber->doorbell_fd,
                            .fd_count = 1 };
    char request[8192];
    struct ec_json_writer w;
    uint64_t slot;
    int rc;

    ec_json_writer_init(&w, request, sizeof request);
    rc = write_request(&w, desc, why);
    if (rc < 0)
        return rc;
    request[w.bytes - 1] = '\0';
    call.params = request;
    rc = ec_connection_call(subscriber->client->connection, &call, why);
    if (rc == EC_OK && (ec_json_bind(call.result, &members) != EC_OK ||
                        ec_json_get_u64(values[0], &subscriber->reader_id) != EC_OK ||
                        ec_json_get_u64(values[1], &slot) != EC_OK || slot >= EC_READERS_MAX))
        rc = ec_fail(why, EC_ERR_INTERNAL, "the daemon's answer has no reader_id and slot");
    if (rc == EC_OK) {
        struct ec_cursor_segment *cursors = ec_client_cursors(subscriber->client);

        subscriber->epoch = &cursors->sleep[slot].epoch;
        subscriber->rows = cursors->types[slot];
        clear_rows(subscriber->rows);
        rc = take_ports(subscriber, &call, values[2], why);
    }
    ec_call_finish(&call);
    return rc;
}

static void free_all(struct ec_subscriber *subscriber)
{
    struct ec_subscriber_change *change = atomic_exchange(&subscriber->changes, NULL);

    while (change != NULL) {
        struct ec_subscriber_change *next = change->next;

        if (change->added != NULL)
            free_port(change->added);
        free(change);
        change = next;
    }
    while (subscriber->ports != NULL) {
        struct ec_peer_port *next = subscriber->ports->next;

        free_port(subscriber->ports);
        subscriber->ports = next;
    }
    if (subscriber->doorbell_fd >= 0)
        close(subscriber->doorbell_fd);
    free(subscriber);
}

static int check_desc(const struct ec_subscriber_desc *desc, struct ec_error *why)
{
    if (desc->type_count > TYPES_MAX)
        return ec_fail(why, EC_ERR_PARAM, "%u types, at most %u are possible", desc->type_count,
                       TYPES_MAX);
    if (desc->spin_ns > SPIN_NS_MAX)
        return ec_fail(why, EC_ERR_PARAM, "spin_ns is %u, expected 0..%u", desc->spin_ns,
                       SPIN_NS_MAX);
    for (uint32_t i = 0; i < desc->type_count; i++)
        if (desc->types[i] == NULL || desc->types[i][0] == '\0')
            return ec_fail(why, EC_ERR_PARAM, "type %u has no name", i);
    return EC_OK;
}

/* Take what the service thread left, oldest first. */
static void apply_changes(struct ec_subscriber *subscriber)
{
    struct ec_subscriber_change *change, *ordered = NULL;

    change = atomic_exchange_explicit(&subscriber->changes, NULL, memory_order_acquire);
    while (change != NULL) {
        struct ec_subscriber_change *next = change->next;

        change->next = ordered;
        ordered = change;
        change = next;
    }
    while (ordered != NULL) {
        struct ec_subscriber_change *next = ordered->next;

        if (ordered->added != NULL) {
            ordered->added->next = subscriber->ports;
            subscriber->ports = ordered->added;
        } else {
            for (struct ec_peer_port *port = subscriber->ports; port != NULL; port = port->next)
                if (port->port_id == ordered->removed_id)
                    port->removed = true;
        }
        free(ordered);
        ordered = next;
    }
}

/* Wait until all publishers know this reader, and begin behind what they published before that: from
 * here on nothing is lost. One that is stopped does not hold us up for longer than the daemon waits for
 * it; what it lets us lose is counted. */
static void sync_reader(struct ec_subscriber *subscriber)
{
    struct ec_call call = { .method = "event.reader.sync" };
    char request[64];

    snprintf(request, sizeof request, "{\"reader_id\":%u}", (uint32_t)subscriber->reader_id);
    call.params = request;
    ec_connection_call(subscriber->client->connection, &call, NULL);
    ec_call_finish(&call);
    apply_changes(subscriber);
    for (struct ec_peer_port *port = subscriber->ports; port != NULL; port = port->next)
        if (port->from_tail)
            ec_port_skip_to_tail(&port->reading);
}

int ec_subscriber_create(struct ec_client *client, const struct ec_subscriber_desc *desc,
                         struct ec_subscriber **subscriber, struct ec_error *why)
{
    struct ec_subscriber *made;
    int rc = check_desc(desc, why);

    *subscriber = NULL;
    if (rc < 0)
        return ec_error_prefix(why, rc, "create subscriber");
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "%zu bytes for a subscriber", sizeof *made);
    made->client = client;
    made->on_lost = desc->on_lost;
    made->context = desc->context;
    made->spin_ns = desc->spin_ns;
    made->type_count = desc->type_count;
    for (uint32_t i = 0; i < desc->type_count; i++)
        made->types[i] = ec_event_type(desc->types[i]);
    made->doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made->doorbell_fd < 0) {
        rc = ec_fail(why, EC_ERR_SYSTEM, "eventfd: %s", strerror(errno));
        free_all(made);
        return rc;
    }
    ec_event_peers_open_subscriber(client->event_peers);
    rc = open_reader(made, desc, why);
    if (rc < 0) {
        ec_event_peers_cancel_subscriber(client->event_peers);
        free_all(made);
        return ec_error_prefix(why, rc, "create subscriber");
    }
    ec_event_peers_add_subscriber(client->event_peers, made);
    sync_reader(made);
    *subscriber = made;
    return EC_OK;
}

void ec_subscriber_destroy(struct ec_subscriber *subscriber)
{
    struct ec_call call = { .method = "event.reader.close" };
    char request[64];

    if (subscriber == NULL)
        return;
    ec_event_peers_remove_subscriber(subscriber->client->event_peers, subscriber);
    snprintf(request, sizeof request, "{\"reader_id\":%u}", (uint32_t)subscriber->reader_id);
    call.params = request;
    /* Without a daemon nobody is told; publishers demote the cursor that no longer moves. */
    ec_connection_call(subscriber->client->connection, &call, NULL);
    ec_call_finish(&call);
    free_all(subscriber);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void drop_port(struct ec_subscriber *subscriber, struct ec_peer_port *port)
{
    struct ec_peer_port **at = &subscriber->ports;

    while (*at != port)
        at = &(*at)->next;
    *at = port->next;
    if (subscriber->turn == port)
        subscriber->turn = port->next;
    subscriber->delivered += port->delivered;
    subscriber->lost_events += port->reading.lost_events;
    subscriber->lost_bytes += port->reading.lost_bytes;
    subscriber->broken += port->broken;
    free_port(port);
}

static bool wants(const struct ec_subscriber *subscriber, uint64_t type)
{
    if (subscriber->type_count == 0)
        return true;
    for (uint32_t i = 0; i < subscriber->type_count; i++)
        if (subscriber->types[i] == type)
            return true;
    return false;
}

/* The row of a type in the published statistics. */
static struct ec_reader_type *type_row(struct ec_subscriber *subscriber, uint64_t type)
{
    uint32_t at = (uint32_t)type & (TYPE_CACHE - 1);

    while (subscriber->cache[at].type != 0) {
        if (subscriber->cache[at].type == type)
            return subscriber->cache[at].row;
        at = (at + 1) & (TYPE_CACHE - 1);
    }
    if (subscriber->rows_used == TYPE_ROWS || type == 0)
        return &subscriber->rows[TYPE_ROWS];
    subscriber->cache[at].type = type;
    subscriber->cache[at].row = &subscriber->rows[subscriber->rows_used++];
    atomic_store_explicit(&subscriber->cache[at].row->type, type, memory_order_release);
    return subscriber->cache[at].row;
}

static void count_delivered(struct ec_subscriber *subscriber, const struct ec_event_header *header,
                            int64_t now)
{
    struct ec_reader_type *row = type_row(subscriber, header->type);

    atomic_store_explicit(&row->delivered,
                          atomic_load_explicit(&row->delivered, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    ec_histogram_add(&row->latency, now > header->time_ns ? (uint64_t)(now - header->time_ns) : 0);
}

static void tell_lost(struct ec_subscriber *subscriber, struct ec_peer_port *port, bool torn)
{
    struct ec_loss loss = { .port = port->port_id, .sender = port->client_id, .torn = torn };

    if (!ec_port_resync(&port->reading, &loss.events, &loss.bytes)) {
        port->broken = true;
        return;
    }
    if (subscriber->on_lost != NULL)
        subscriber->on_lost(subscriber->context, &loss);
}

/* Read up to max events of one port. */
static uint32_t read_port(struct ec_subscriber *subscriber, struct ec_peer_port *port,
                          ec_event_fn *fn, void *context, uint32_t max, int64_t *now)
{
    struct ec_port_reading *reading = &port->reading;
    uint32_t delivered = 0;

    for (uint32_t seen = 0; seen < BATCH_MAX && delivered < max && !port->broken; seen++) {
        struct ec_port_item item;
        int rc = ec_port_peek(reading, &item);
        bool wanted;

        if (rc == EC_AGAIN)
            break;
        if (rc == EC_ERR_STALE) {
            tell_lost(subscriber, port, false);
            continue;
        }
        if (rc < 0) {
            port->broken = true;
            break;
        }
        wanted = wants(subscriber, item.header.type);
        if (wanted) {
            const struct ec_event event = {
                .type = item.header.type,
                .time_ns = item.header.time_ns,
                .sequence = item.header.sequence,
                .step = item.header.step,
                .sender = port->client_id != 0 ? port->client_id : item.header.sender,
                .port = port->port_id,
                .bytes = item.header.bytes,
                .flags = item.header.flags,
                .payload = item.payload,
            };

            fn(context, &event);
        }
        if (!ec_port_intact(reading)) {
            tell_lost(subscriber, port, wanted);
            continue;
        }
        ec_port_advance(reading, &item);
        if (wanted) {
            if (*now == 0)
                *now = real_ns();
            count_delivered(subscriber, &item.header, *now);
            delivered++;
        }
    }
    ec_port_show_cursor(reading);
    if (delivered != 0) {
        port->delivered += delivered;
        atomic_store_explicit(&reading->slot->delivered, port->delivered, memory_order_relaxed);
    }
    return delivered;
}

static void disarm(struct ec_subscriber *subscriber)
{
    uint64_t rung;

    if (!subscriber->armed)
        return;
    subscriber->armed = false;
    atomic_store_explicit(subscriber->epoch,
                          atomic_load_explicit(subscriber->epoch, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    (void)!read(subscriber->doorbell_fd, &rung, sizeof rung); /* level back to silent */
}

int ec_subscriber_poll(struct ec_subscriber *subscriber, ec_event_fn *fn, void *context,
                       uint32_t max)
{
    uint32_t delivered = 0, before;

    disarm(subscriber);
    if (atomic_load_explicit(&subscriber->changes, memory_order_relaxed) != NULL)
        apply_changes(subscriber);
    do {
        struct ec_peer_port *port = subscriber->turn != NULL ? subscriber->turn : subscriber->ports;
        struct ec_peer_port *first = port;

        before = delivered;
        while (port != NULL && delivered < max) {
            struct ec_peer_port *next = port->next != NULL ? port->next : subscriber->ports;
            int64_t now = 0;

            delivered += read_port(subscriber, port, fn, context, max - delivered, &now);
            if (port->removed && (port->broken || !ec_port_ready(&port->reading))) {
                bool last = next == first || next == port;

                if (port == first)
                    first = next;
                drop_port(subscriber, port);
                if (last)
                    break;
            } else if (next == first) {
                break;
            }
            port = next;
            subscriber->turn = port; /* who was not reached is first next time */
        }
    } while (delivered < max && delivered != before);
    return (int)delivered;
}

static bool anything(struct ec_subscriber *subscriber)
{
    if (atomic_load_explicit(&subscriber->changes, memory_order_relaxed) != NULL)
        apply_changes(subscriber);
    for (struct ec_peer_port *port = subscriber->ports; port != NULL; port = port->next)
        if (!port->broken && (port->removed || ec_port_ready(&port->reading)))
            return true;
    return false;
}

int ec_subscriber_arm(struct ec_subscriber *subscriber)
{
    if (anything(subscriber))
        return EC_OK;
    if (!subscriber->armed) {
        subscriber->armed = true;
        atomic_store_explicit(subscriber->epoch,
                              atomic_load_explicit(subscriber->epoch, memory_order_relaxed) + 1,
                              memory_order_relaxed);
    }
    atomic_thread_fence(memory_order_seq_cst); /* [3] of segment/event_port.h */
    if (!anything(subscriber))
        return EC_AGAIN;
    disarm(subscriber);
    return EC_OK;
}

int ec_subscriber_fd(const struct ec_subscriber *subscriber)
{
    return subscriber->doorbell_fd;
}

int ec_subscriber_wait(struct ec_subscriber *subscriber, int64_t timeout_ns)
{
    int64_t start = timeout_ns >= 0 || subscriber->spin_ns != 0 ? real_ns() : 0;

    if (subscriber->spin_ns != 0)
        while (real_ns() - start < subscriber->spin_ns)
            if (anything(subscriber))
                return EC_OK;
    while (ec_subscriber_arm(subscriber) == EC_AGAIN) {
        struct pollfd bell = { .fd = subscriber->doorbell_fd, .events = POLLIN };
        int64_t left = timeout_ns < 0 ? 0 : timeout_ns - (real_ns() - start);
        struct timespec timeout = { .tv_sec = left / 1000000000, .tv_nsec = left % 1000000000 };
        int rc;

        if (timeout_ns >= 0 && left <= 0) {
            disarm(subscriber);
            return EC_ERR_TIMEOUT;
        }
        rc = ppoll(&bell, 1, timeout_ns < 0 ? NULL : &timeout, NULL);
        disarm(subscriber);
        if (rc < 0 && errno != EINTR)
            return EC_ERR_SYSTEM;
    }
    return EC_OK;
}

void ec_subscriber_stats(const struct ec_subscriber *subscriber, struct ec_subscriber_stats *stats)
{
    *stats = (struct ec_subscriber_stats) {
        .delivered = subscriber->delivered,
        .lost_events = subscriber->lost_events,
        .lost_bytes = subscriber->lost_bytes,
        .broken_ports = subscriber->broken,
    };
    for (const struct ec_peer_port *port = subscriber->ports; port != NULL; port = port->next) {
        stats->delivered += port->delivered;
        stats->lost_events += port->reading.lost_events;
        stats->lost_bytes += port->reading.lost_bytes;
        stats->broken_ports += port->broken;
        stats->ports++;
    }
}
