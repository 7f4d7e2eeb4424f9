/* subscriber_reading.c - which event comes next, and what happens before and after its use.
 *
 *     choose      the port whose first wanted event is next in the subscriber's order
 *     use         in place, by a call-back or between next and done
 *     finish      validate, count, advance; a lapped port goes on at the oldest event that stands
 *
 * A port's head is the first event that the subscriber wants; foreign types before it are passed over
 * when it is looked for. */
#include <engine-core/subscriber.h>

#include <stdlib.h>
#include <string.h>

#include "client/subscriber.h"
#include "foundation/real_time.h"

#define TYPE_ROWS (EC_READER_TYPES_MAX - 1) /* the last row counts for those that found none */
#define TURN_EVENTS 256u                    /* of one port before the next one has its turn */
#define SAMPLE_EVENTS 16u                   /* of so many events one has its latency taken */
#define SHOW_SHARE 8u /* the cursor is shown at the latest after this part of the ring */

/* ---- ports come and go ----------------------------------------------------------------------- */

/* The cursor is shown here, not by the service thread: its slot may have been that of a port that is
 * still read to its end, which has left it by now. */
static void add_port(struct ec_subscriber *subscriber, struct ec_peer_port *port)
{
    struct ec_cursor_slot *slot = &ec_client_cursors(subscriber->client)->cursor[port->cursor];

    ec_port_reading_init(&port->reading, &port->view, slot,
                         ec_cursor_owner(port->reader_id, port->port_id), port->start,
                         subscriber->history);
    subscriber->is_rung_across |= port->across_users;
    port->next = subscriber->ports;
    subscriber->ports = port;
}

static void remove_port(struct ec_subscriber *subscriber, uint32_t port_id)
{
    for (struct ec_peer_port *port = subscriber->ports; port != NULL; port = port->next) {
        if (port->port_id != port_id || port->removed)
            continue;
        port->removed = subscriber->has_removed = true;
        ec_port_reading_leave(&port->reading, &port->spare);
    }
}

void ec_subscriber_apply_changes(struct ec_subscriber *subscriber)
{
    struct ec_subscriber_change *change = ec_subscriber_take_changes(subscriber);

    while (change != NULL) {
        struct ec_subscriber_change *next = ec_subscriber_change_of(change->mail.next);

        if (change->added != NULL)
            add_port(subscriber, change->added);
        else
            remove_port(subscriber, change->removed_id);
        free(change);
        change = next;
    }
}

static void drop_port(struct ec_subscriber *subscriber, struct ec_peer_port *port)
{
    struct ec_peer_port **at = &subscriber->ports;

    while (*at != port)
        at = &(*at)->next;
    *at = port->next;
    if (subscriber->turn == port)
        subscriber->turn = NULL;
    subscriber->delivered += port->delivered;
    subscriber->lost_events += port->reading.lost_events;
    subscriber->lost_bytes += port->reading.lost_bytes;
    subscriber->broken += port->broken;
    ec_peer_port_free(port);
}

/* Unmap the ports whose publisher is gone and that have been read to their end. */
static void drop_removed(struct ec_subscriber *subscriber)
{
    subscriber->has_removed = false;
    for (struct ec_peer_port *port = subscriber->ports, *next; port != NULL; port = next) {
        next = port->next;
        subscriber->has_removed |= port->removed;
        if (port->removed && port != subscriber->current &&
            (port->broken || !ec_port_ready(&port->reading)))
            drop_port(subscriber, port);
    }
}

void ec_subscriber_show_cursors(struct ec_subscriber *subscriber)
{
    if (!subscriber->has_moved)
        return;
    subscriber->has_moved = false;
    for (struct ec_peer_port *port = subscriber->ports; port != NULL; port = port->next)
        ec_port_show_cursor(&port->reading);
}

/* ---- the head of a port ---------------------------------------------------------------------- */

static bool wants(const struct ec_subscriber *subscriber, uint64_t type)
{
    if (subscriber->type_count == 0)
        return true;
    for (uint32_t i = 0; i < subscriber->type_count; i++)
        if (subscriber->types[i] == type)
            return true;
    return false;
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

static void pass_over(struct ec_subscriber *subscriber, struct ec_peer_port *port)
{
    ec_port_advance(&port->reading, &port->head);
    subscriber->has_moved = true;
}

static bool find_head(struct ec_subscriber *subscriber, struct ec_peer_port *port)
{
    struct ec_port_reading *reading = &port->reading;

    while (!port->has_head && !port->broken) {
        int rc = ec_port_peek(reading, &port->head);

        if (rc == EC_AGAIN)
            break;
        if (rc < 0 && rc != EC_ERR_STALE)
            port->broken = true;
        else if (rc == EC_OK && wants(subscriber, port->head.header.type))
            port->has_head = true;
        else if (rc == EC_OK && ec_port_intact(reading))
            pass_over(subscriber, port);
        else
            tell_lost(subscriber, port, false); /* lapped, before or while its type was read */
    }
    return port->has_head;
}

/* Is there a wanted event? It is in port->head then. An idle port costs one load. */
static inline __attribute__((always_inline)) bool has_head(struct ec_subscriber *subscriber,
                                                           struct ec_peer_port *port)
{
    if (port->has_head)
        return true;
    if (!ec_port_ready(&port->reading))
        return false;
    if (!port->broken && ec_port_peek(&port->reading, &port->head) == EC_OK &&
        wants(subscriber, port->head.header.type))
        return port->has_head = true;
    return find_head(subscriber, port);
}

/* ---- which port is next ---------------------------------------------------------------------- */

static struct ec_peer_port *next_port(const struct ec_subscriber *subscriber,
                                      const struct ec_peer_port *port)
{
    return port->next != NULL ? port->next : subscriber->ports;
}

/* The port whose turn it is has nothing more, or has had enough. */
static struct ec_peer_port *choose_by_port(struct ec_subscriber *subscriber)
{
    const bool had_enough = subscriber->turn_events >= TURN_EVENTS;
    struct ec_peer_port *turn = subscriber->turn, *port;

    if (turn == NULL) {
        turn = subscriber->turn = subscriber->ports;
        if (turn == NULL || has_head(subscriber, turn))
            return turn;
    }
    for (port = next_port(subscriber, turn); port != turn; port = next_port(subscriber, port)) {
        if (has_head(subscriber, port)) {
            ec_port_show_cursor(&turn->reading);
            subscriber->turn = port;
            subscriber->turn_events = 0;
            return port;
        }
    }
    subscriber->turn_events = 0; /* nobody else wants it */
    return had_enough && has_head(subscriber, turn) ? turn : NULL;
}

static struct ec_peer_port *choose_by_time(struct ec_subscriber *subscriber)
{
    struct ec_peer_port *best = NULL;

    for (struct ec_peer_port *port = subscriber->ports; port != NULL; port = port->next)
        if (has_head(subscriber, port) &&
            (best == NULL || port->head.header.time_ns < best->head.header.time_ns ||
             (port->head.header.time_ns == best->head.header.time_ns &&
              port->port_id < best->port_id)))
            best = port;
    return best;
}

/* Ports have the same order in every run: by name, not by who came first. */
static bool is_named_before(const struct ec_peer_port *a, const struct ec_peer_port *b)
{
    int order = strcmp(a->client, b->client);

    if (order == 0)
        order = strcmp(a->name, b->name);
    return order != 0 ? order < 0 : a->port_id < b->port_id;
}

/* May this port still publish an event of the step? The daemon's own never counts: it has no steps. */
static bool may_still_publish(const struct ec_peer_port *port, uint64_t step)
{
    return port->client_id != 0 && !port->removed && !port->broken &&
           atomic_load_explicit(&port->view.port->step_passed, memory_order_acquire) <
               step; /* with ec_port_step_passed */
}

/* Is nobody left who could publish something that comes before the event? Who takes too long is no
 * longer waited for. */
static bool is_step_complete(struct ec_subscriber *subscriber, const struct ec_peer_port *best)
{
    uint64_t step = best->head.header.step;
    bool is_overdue, complete = true;

    if (subscriber->blocked_since == 0 || subscriber->blocked_step != step) {
        subscriber->blocked_since = ec_real_ns();
        subscriber->blocked_step = step;
    }
    is_overdue = ec_real_ns() - subscriber->blocked_since >= subscriber->overdue_ns;
    for (struct ec_peer_port *port = subscriber->ports; port != NULL; port = port->next) {
        if (!may_still_publish(port, step)) {
            port->overdue = false;
        } else if (!port->overdue && is_overdue) {
            port->overdue = true;
            subscriber->overdue++;
        } else if (!port->overdue) {
            complete = false;
        }
    }
    return complete;
}

static struct ec_peer_port *choose_by_step(struct ec_subscriber *subscriber)
{
    struct ec_peer_port *best = NULL;

    for (struct ec_peer_port *port = subscriber->ports; port != NULL; port = port->next)
        if (has_head(subscriber, port) &&
            (best == NULL || port->head.header.step < best->head.header.step ||
             (port->head.header.step == best->head.header.step && is_named_before(port, best))))
            best = port;
    if (best != NULL && is_step_complete(subscriber, best)) {
        /* A port that was opened before this event was published is in the mailbox at least, since its
         * publisher waits for that; it may come first. */
        if (ec_mailbox_has_mail(&subscriber->changes)) {
            ec_subscriber_apply_changes(subscriber);
            return choose_by_step(subscriber);
        }
        subscriber->blocked_since = 0;
        /* A port may have passed the step since we looked at its head: an event of it that was
         * published just before then comes first. */
        for (struct ec_peer_port *port = subscriber->ports; port != NULL; port = port->next)
            if (port != best && !port->has_head && has_head(subscriber, port) &&
                (port->head.header.step < best->head.header.step ||
                 (port->head.header.step == best->head.header.step && is_named_before(port, best))))
                best = port;
        return best;
    }
    if (best == NULL)
        subscriber->blocked_since = 0;
    return NULL;
}

static struct ec_peer_port *choose_anew(struct ec_subscriber *subscriber)
{
    if (subscriber->order == EC_ORDER_PORT)
        return choose_by_port(subscriber);
    return subscriber->order == EC_ORDER_TIME ? choose_by_time(subscriber)
                                              : choose_by_step(subscriber);
}

/* Mostly the port whose turn it is has more. */
static inline struct ec_peer_port *choose(struct ec_subscriber *subscriber)
{
    struct ec_peer_port *turn = subscriber->turn; /* NULL in any other order */

    return turn != NULL && subscriber->turn_events < TURN_EVENTS && has_head(subscriber, turn)
               ? turn
               : choose_anew(subscriber);
}

int64_t ec_subscriber_overdue_at(const struct ec_subscriber *subscriber)
{
    return subscriber->order == EC_ORDER_STEP && subscriber->blocked_since != 0
               ? subscriber->blocked_since + subscriber->overdue_ns
               : INT64_MAX;
}

bool ec_subscriber_is_ready(struct ec_subscriber *subscriber)
{
    if (ec_mailbox_has_mail(&subscriber->changes))
        ec_subscriber_apply_changes(subscriber);
    return choose(subscriber) != NULL;
}

/* ---- before and after the use ---------------------------------------------------------------- */

static struct ec_event event_of(const struct ec_peer_port *port)
{
    const struct ec_event_header *header = &port->head.header;

    return (struct ec_event) {
        .type = header->type,
        .time_ns = header->time_ns,
        .sequence = header->sequence,
        .step = header->step,
        /* A client's port speaks for that client, whatever its events say. */
        .sender = port->client_id != 0 ? port->client_id : header->sender,
        .port = port->port_id,
        .bytes = header->bytes,
        .flags = header->flags,
        .payload = port->head.payload,
    };
}

/* The row of a type in the published statistics. */
static struct ec_reader_type *find_type_row(struct ec_subscriber *subscriber, uint64_t type)
{
    uint32_t at = (uint32_t)type & (EC_SUBSCRIBER_TYPE_CACHE - 1);

    while (subscriber->cache[at].type != 0) {
        if (subscriber->cache[at].type == type)
            return subscriber->cache[at].row;
        at = (at + 1) & (EC_SUBSCRIBER_TYPE_CACHE - 1);
    }
    if (subscriber->rows_used == TYPE_ROWS || type == 0)
        return &subscriber->rows[TYPE_ROWS];
    subscriber->cache[at].type = type;
    subscriber->cache[at].row = &subscriber->rows[subscriber->rows_used++];
    atomic_store_explicit(&subscriber->cache[at].row->type, type, memory_order_release);
    return subscriber->cache[at].row;
}

/* Reading the clock costs more than the rest of an event: the latency is taken of the first event after
 * a sleep, which has cost more anyway, and of one in SAMPLE_EVENTS. */
static void sample_latency(struct ec_subscriber *subscriber, struct ec_reader_type *row,
                           const struct ec_event_header *header)
{
    int64_t now;

    if (!subscriber->has_slept && header->sequence % SAMPLE_EVENTS != 0)
        return;
    subscriber->has_slept = false;
    now = ec_stamp_clock_ns(&subscriber->clock);
    ec_histogram_add(&row->latency, now > header->time_ns ? (uint64_t)(now - header->time_ns) : 0);
}

static void count_delivered(struct ec_subscriber *subscriber, const struct ec_event_header *header)
{
    struct ec_reader_type *row = subscriber->last_row;

    if (header->type != subscriber->last_type || row == NULL) {
        row = subscriber->last_row = find_type_row(subscriber, header->type);
        subscriber->last_type = header->type;
    }
    atomic_store_explicit(&row->delivered,
                          atomic_load_explicit(&row->delivered, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    sample_latency(subscriber, row, header);
}

/* Returns whether the event was whole all the time. */
static inline __attribute__((always_inline)) bool finish(struct ec_subscriber *subscriber,
                                                         struct ec_peer_port *port)
{
    struct ec_port_reading *reading = &port->reading;

    port->has_head = false;
    if (!ec_port_intact(reading)) {
        tell_lost(subscriber, port, true);
        return false;
    }
    pass_over(subscriber, port);
    count_delivered(subscriber, &port->head.header);
    port->delivered++;
    atomic_store_explicit(&reading->slot->delivered, port->delivered, memory_order_relaxed);
    subscriber->turn_events++;
    if (reading->position - reading->shown >= reading->capacity / SHOW_SHARE)
        ec_port_show_cursor(reading);
    return true;
}

/* Is nothing there, and nothing left to do from before? That is what who polls is told most often. */
static inline bool is_idle(struct ec_subscriber *subscriber)
{
    if (subscriber->turn == NULL || subscriber->armed || subscriber->has_moved ||
        subscriber->has_removed || ec_mailbox_has_mail(&subscriber->changes))
        return false;
    for (struct ec_peer_port *port = subscriber->ports; port != NULL; port = port->next)
        if (port->has_head || ec_port_ready(&port->reading))
            return false;
    return true;
}

static void begin(struct ec_subscriber *subscriber)
{
    ec_subscriber_disarm(subscriber);
    if (ec_mailbox_has_mail(&subscriber->changes))
        ec_subscriber_apply_changes(subscriber);
}

static void end(struct ec_subscriber *subscriber)
{
    ec_subscriber_show_cursors(subscriber);
    if (subscriber->has_removed)
        drop_removed(subscriber);
}

int ec_subscriber_poll(struct ec_subscriber *subscriber, ec_event_fn *fn, void *context,
                       uint32_t max)
{
    struct ec_peer_port *port;
    uint32_t delivered = 0;

    if (is_idle(subscriber))
        return 0;
    begin(subscriber);
    while (delivered < max && (port = choose(subscriber)) != NULL) {
        struct ec_event event = event_of(port);

        subscriber->current = port;
        fn(context, &event);
        subscriber->current = NULL;
        delivered += finish(subscriber, port);
    }
    end(subscriber);
    return (int)delivered;
}

int ec_subscriber_next(struct ec_subscriber *subscriber, struct ec_event *event)
{
    if (subscriber->current == NULL) {
        begin(subscriber);
        subscriber->current = choose(subscriber);
    }
    if (subscriber->current == NULL) {
        end(subscriber);
        return EC_AGAIN;
    }
    *event = event_of(subscriber->current);
    return EC_OK;
}

int ec_subscriber_done(struct ec_subscriber *subscriber)
{
    struct ec_peer_port *port = subscriber->current;

    if (port == NULL)
        return EC_ERR_STATE;
    subscriber->current = NULL;
    return finish(subscriber, port) ? EC_OK : EC_ERR_STALE;
}
