/* statistics.c - sum up what publishers and readers count in their own segments.
 *
 * Nobody writes a shared counter: each publisher counts per type in its port, each reader in its
 * cursor segment, and the sums are made here when somebody asks. Every number is a stranger's: it is
 * loaded once and only added and shown. */
#include <string.h>
#include <time.h>

#include "events/registry.h"

static uint64_t load(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static const struct ec_cursor_slot *cursor_of(const struct route_link *link)
{
    return &link->reader->owner->cursors->cursor[link->cursor];
}

static void add_port(const struct route_port *port, uint64_t type, struct event_counts *counts)
{
    for (uint32_t i = 0; i < EC_PORT_TYPES_MAX; i++) {
        const struct ec_port_type *row = &port->port->types[i];

        if (atomic_load_explicit(&row->type, memory_order_acquire) != type)
            continue;
        counts->published += load(&row->published);
        counts->bytes += load(&row->bytes);
        counts->refused += load(&row->refused);
        counts->publishers++;
        return;
    }
}

static bool reader_wants(const struct route_reader *reader, uint64_t type)
{
    for (uint32_t i = 0; i < reader->type_count; i++)
        if (reader->types[i] == type)
            return true;
    return reader->type_count == 0;
}

static void add_reader(const struct route_reader *reader, uint64_t type,
                       struct event_counts *counts)
{
    const struct ec_reader_type *rows = reader->owner->cursors->types[reader->slot];

    for (uint32_t i = 0; i < EC_READER_TYPES_MAX; i++) {
        if (atomic_load_explicit(&rows[i].type, memory_order_acquire) != type)
            continue;
        counts->delivered += load(&rows[i].delivered);
        ec_histogram_sum_add(&counts->latency, &rows[i].latency);
        break;
    }
    if (reader->owner->client != NULL) /* the daemon's reader stands for the subscriptions below */
        counts->subscribers += reader_wants(reader, type);
}

void event_counts_sum(const struct events *events, const struct event_type *type,
                      struct event_counts *counts)
{
    *counts = (struct event_counts) {
        .published = type->published,
        .bytes = type->bytes,
        .refused = type->refused,
        .delivered = type->delivered,
        .lost = type->json_lost,
        .latency = type->latency,
    };
    for (const struct route_port *port = events->routes.ports; port != NULL; port = port->next)
        add_port(port, type->id, counts);
    for (const struct route_reader *reader = events->routes.readers; reader != NULL;
         reader = reader->next)
        add_reader(reader, type->id, counts);
    counts->subscribers += subscriptions_count(&events->subscriptions, type->id);
}

static void total_ports(const struct events *events, struct events_totals *totals)
{
    for (const struct route_port *port = events->routes.ports; port != NULL; port = port->next) {
        totals->ports++;
        for (uint32_t i = 0; i < EC_PORT_TYPES_MAX; i++) {
            const struct ec_port_type *row = &port->port->types[i];

            totals->published += load(&row->published);
            totals->bytes += load(&row->bytes);
            totals->refused += load(&row->refused);
        }
        for (const struct route_link *link = port->links; link != NULL; link = link->next_of_port)
            totals->lost += route_lost(link);
    }
}

static void total_readers(const struct events *events, struct events_totals *totals,
                          struct ec_histogram_sum *latency)
{
    for (const struct route_reader *reader = events->routes.readers; reader != NULL;
         reader = reader->next) {
        const struct ec_reader_type *rows = reader->owner->cursors->types[reader->slot];

        totals->readers++;
        for (uint32_t i = 0; i < EC_READER_TYPES_MAX; i++) {
            if (atomic_load_explicit(&rows[i].type, memory_order_acquire) == 0)
                continue;
            totals->delivered += load(&rows[i].delivered);
            ec_histogram_sum_add(latency, &rows[i].latency);
        }
    }
}

void events_totals(const struct events *events, struct events_totals *totals)
{
    struct event_type *type, *next;
    struct ec_histogram_sum latency = { 0 };
    struct ec_percentiles percentiles;

    *totals = (struct events_totals) { .types = HASH_COUNT(events->types.by_id),
                                       .lost = events->routes.lost };
    HASH_ITER(hh, events->types.by_id, type, next)
    {
        totals->published += type->published;
        totals->bytes += type->bytes;
        totals->refused += type->refused;
        totals->delivered += type->delivered;
        totals->lost += type->json_lost;
        for (unsigned i = 0; i < EC_HISTOGRAM_BUCKETS; i++)
            latency.bucket[i] += type->latency.bucket[i];
        latency.count += type->latency.count;
        if (type->latency.max_ns > latency.max_ns)
            latency.max_ns = type->latency.max_ns;
    }
    total_ports(events, totals);
    total_readers(events, totals, &latency);
    ec_histogram_percentiles(&latency, &percentiles);
    totals->latency_p99_ns = percentiles.p99_ns;
}

/* What a stranger's port says it has published; one that goes back has no rate. */
static void sample_port(struct route_port *port, int64_t passed_ns)
{
    uint64_t published = load(&port->port->published);

    port->rate_hz = published < port->sampled
                        ? 0
                        : (double)(published - port->sampled) * 1e9 / (double)passed_ns;
    port->sampled = published;
}

void events_sample_rates(struct events *events)
{
    struct event_type *type, *next;
    struct timespec now;
    int64_t now_ns, passed_ns;

    clock_gettime(CLOCK_MONOTONIC, &now);
    now_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    passed_ns = now_ns - events->sampled_ns;
    if (passed_ns <= 0)
        return;
    HASH_ITER(hh, events->types.by_id, type, next)
    {
        uint64_t published = type->published;

        for (const struct route_port *port = events->routes.ports; port != NULL;
             port = port->next) {
            struct event_counts counts = { 0 };

            add_port(port, type->id, &counts);
            published += counts.published;
        }
        type->rate_hz = (double)(published - type->sampled) * 1e9 / (double)passed_ns;
        type->sampled = published;
    }
    for (struct route_port *port = events->routes.ports; port != NULL; port = port->next)
        sample_port(port, passed_ns);
    events->sampled_ns = now_ns;
}

static uint32_t state_of(const struct route_link *link)
{
    return atomic_load_explicit(&link->port->port->readers[link->reader_slot].state,
                                memory_order_relaxed);
}

static uint64_t lag_of(const struct route_link *link)
{
    uint64_t tail = load(&link->port->port->tail);
    uint64_t cursor = load(&cursor_of(link)->position);

    return cursor <= tail && tail - cursor <= link->port->ring_bytes ? tail - cursor
                                                                     : link->port->ring_bytes;
}

void event_port_write(const struct route_port *port, struct ec_json_writer *w)
{
    uint64_t used = 0, lost = 0, delivered = 0, bytes = 0;
    uint32_t readers = 0;

    for (const struct route_link *link = port->links; link != NULL; link = link->next_of_port) {
        uint64_t lag = state_of(link) == EC_READER_ADMITTED ? lag_of(link) : 0;

        if (lag > used)
            used = lag;
        lost += load(&cursor_of(link)->lost_events);
        delivered += load(&cursor_of(link)->delivered);
        readers++;
    }
    for (uint32_t i = 0; i < EC_PORT_TYPES_MAX; i++)
        bytes += load(&port->port->types[i].bytes);
    ec_json_object_begin(w);
    ec_json_member_u64(w, "client_id", port->owner->client_id);
    ec_json_member_u64(w, "port_id", port->id);
    ec_json_member_string(w, "port", port->name);
    ec_json_member_u64(w, "ring_bytes", port->ring_bytes);
    ec_json_member_u64(w, "used_bytes", used);
    ec_json_member_u64(w, "published", load(&port->port->published));
    ec_json_member_u64(w, "bytes", bytes);
    ec_json_member_real(w, "rate_hz", port->rate_hz);
    ec_json_member_u64(w, "delivered", delivered);
    ec_json_member_u64(w, "would_block", load(&port->port->would_block));
    ec_json_member_u64(w, "refused", load(&port->port->refused));
    ec_json_member_u64(w, "bells", load(&port->port->bells));
    ec_json_member_u64(w, "readers", readers);
    ec_json_member_u64(w, "lost", lost);
    ec_json_object_end(w);
}

static const char *state_name(uint32_t state)
{
    static const char *const names[] = {
        [EC_READER_NONE] = "joining",  [EC_READER_ADMITTED] = "reliable",
        [EC_READER_LOSSY] = "lossy",   [EC_READER_DEMOTED] = "demoted",
        [EC_READER_BROKEN] = "broken",
    };

    return state < sizeof names / sizeof names[0] ? names[state] : "unknown";
}

static void write_reader(const struct route_reader *reader, struct ec_json_writer *w)
{
    ec_json_object_begin(w);
    ec_json_member_u64(w, "reader_id", reader->id);
    ec_json_member_string(w, "policy", reader->reliable ? "reliable" : "lossy");
    ec_json_member_array(w, "ports");
    for (const struct route_link *link = reader->links; link != NULL; link = link->next_of_reader) {
        ec_json_object_begin(w);
        ec_json_member_u64(w, "port_id", link->port->id);
        ec_json_member_string(w, "state", state_name(state_of(link)));
        ec_json_member_u64(w, "lag_bytes", lag_of(link));
        ec_json_member_u64(w, "delivered", load(&cursor_of(link)->delivered));
        ec_json_member_u64(w, "lost_events", load(&cursor_of(link)->lost_events));
        ec_json_member_u64(w, "lost_bytes", load(&cursor_of(link)->lost_bytes));
        ec_json_object_end(w);
    }
    ec_json_array_end(w);
    ec_json_object_end(w);
}

void events_describe_client(void *context, struct client *client, struct ec_json_writer *w)
{
    const struct events *events = context;

    ec_json_member_array(w, "ports");
    for (const struct route_port *port = events->routes.ports; port != NULL; port = port->next)
        if (port->owner->client == client)
            event_port_write(port, w);
    ec_json_array_end(w);
    ec_json_member_array(w, "readers");
    for (const struct route_reader *reader = events->routes.readers; reader != NULL;
         reader = reader->next)
        if (reader->owner->client == client)
            write_reader(reader, w);
    ec_json_array_end(w);
}

/* ---- what was published last ------------------------------------------------------------------ */

static void write_last_of(const struct events *events, const struct route_port *port,
                          struct ec_json_writer *writer)
{
    struct ec_cursor_slot scratch;
    struct ec_port_reading reading;
    struct ec_port_item item;

    memset(&scratch, 0, sizeof scratch);
    ec_port_reading_init(&reading, &port->view, &scratch, 0, EC_PORT_START_HISTORY, EVENTS_LAST);
    for (unsigned i = 0; i < EVENTS_LAST && ec_port_peek(&reading, &item) == EC_OK; i++) {
        const struct event_type *type = event_types_find(&events->types, item.header.type);

        ec_json_object_begin(writer);
        ec_json_member_string(writer, "port", port->name);
        ec_json_member_string(writer, "type", type != NULL ? type->name : "");
        ec_json_member_u64(writer, "sequence", item.header.sequence);
        ec_json_member_u64(writer, "step", item.header.step);
        ec_json_member_i64(writer, "time_ns", item.header.time_ns);
        ec_json_member_u64(writer, "bytes", item.header.bytes);
        ec_json_object_end(writer);
        ec_port_advance(&reading, &item);
    }
    ec_port_reading_finish(&reading);
}

void events_describe_last(const struct events *events, const struct client *client,
                          struct ec_json_writer *writer)
{
    unsigned ports = 0;

    ec_json_member_array(writer, "events");
    for (const struct route_port *port = events->routes.ports;
         port != NULL && ports < EVENTS_LAST_PORTS; port = port->next) {
        if (port->owner->client != client)
            continue;
        write_last_of(events, port, writer);
        ports++;
    }
    ec_json_array_end(writer);
}
