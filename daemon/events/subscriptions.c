/* subscriptions.c - see subscriptions.h. */
#include "events/subscriptions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/config.h"
#include "daemon/log.h"

#define SUBSCRIPTIONS_MAX 1024
#define SUBSCRIPTIONS_OF_CLIENT_MAX 64
#define TURN_EVENTS 4096               /* of one port, before the loop does something else */
#define OUTPUT_BYTES (64 * 1024)       /* a connection with more unsent bytes waits in the queue */
#define PARAMS_BYTES_MAX (1000 * 1024) /* so that the line stays below 1 MiB */
#define FLUSH_MS 5

struct queued {
    struct queued *next;
    struct event_type *type;
    size_t bytes;
    char text[]; /* the params without their closing brace */
};

/* Of a type in a subscription that does not take all events. */
struct pace {
    uint64_t type;
    int64_t next_ns;        /* the next event may go then */
    struct queued *waiting; /* the newest event, for a subscription to the newest only; or NULL */
    UT_hash_handle hh;
};

struct subscription {
    struct subscription *next;
    struct client *client;
    uint32_t id;
    uint32_t type_count; /* 0: all */
    uint64_t types[READER_TYPES_MAX];
    bool newest_only;
    int64_t interval_ns;
    struct pace *paces; /* by type */
    struct queued *first, *last;
    size_t queued_bytes;
    uint64_t lost, skipped; /* since the last notification */
};

struct reading_port {
    struct reading_port *next;
    uint32_t port_id;
    uint32_t client_id; /* of the publisher; 0: the daemon */
    struct ec_port_reading reading;
    bool broken;
};

static void *grow(void *context, void *base, size_t used, size_t bytes)
{
    (void)context;
    (void)used;
    return realloc(base, bytes);
}

static int64_t real_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static struct ec_cursor_segment *own_cursors(struct subscriptions *subscriptions)
{
    return subscriptions->cursors.base;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Send params (without the closing brace) with what was lost and skipped before. */
static bool send_now(struct subscriptions *subscriptions, struct subscription *s, const char *text,
                     size_t bytes)
{
    struct ec_json_writer *w = &subscriptions->params;
    char tail[80], lost[32] = "", skipped[40] = "";
    int tail_bytes;

    if (s->lost != 0)
        snprintf(lost, sizeof lost, ",\"lost\":%llu", (unsigned long long)s->lost);
    if (s->skipped != 0)
        snprintf(skipped, sizeof skipped, ",\"skipped\":%llu", (unsigned long long)s->skipped);
    tail_bytes = snprintf(tail, sizeof tail, "%s%s}", lost, skipped);
    ec_json_writer_rewind(w, 0);
    if (w->capacity < bytes + sizeof tail) {
        char *more = realloc(w->base, bytes + sizeof tail);

        if (more == NULL)
            return false;
        w->base = more;
        w->capacity = bytes + sizeof tail;
    }
    memcpy(w->base, text, bytes);
    memcpy(w->base + bytes, tail, (size_t)tail_bytes);
    w->bytes = bytes + (size_t)tail_bytes;
    if (client_notify(s->client, "event", w, NULL, 0) != EC_OK)
        return false;
    s->lost = s->skipped = 0;
    counters_add(subscriptions->counters, EC_COUNTER_events_json, 1);
    return true;
}

/* type is NULL for events that were overtaken in their ring: nobody knows what they were, so only the
 * cursor counts them. */
static void count_lost(struct subscriptions *subscriptions, struct subscription *s,
                       struct event_type *type, uint64_t n)
{
    if (type != NULL)
        type->json_lost += n;
    s->lost += n;
    counters_add(subscriptions->counters, EC_COUNTER_events_json_lost, n);
}

static void count_skipped(struct subscriptions *subscriptions, struct subscription *s)
{
    s->skipped++;
    counters_add(subscriptions->counters, EC_COUNTER_events_json_skipped, 1);
}

static bool output_has_room(const struct subscription *s)
{
    return s->client->output != NULL &&
           s->client->output->pending(s->client->connection) < OUTPUT_BYTES;
}

static struct queued *make_queued(struct event_type *type, const char *text, size_t bytes)
{
    struct queued *item = malloc(sizeof *item + bytes);

    if (item == NULL)
        return NULL;
    item->next = NULL;
    item->type = type;
    item->bytes = bytes;
    memcpy(item->text, text, bytes);
    return item;
}

static void drop_first(struct subscription *s)
{
    struct queued *first = s->first;

    s->first = first->next;
    if (s->first == NULL)
        s->last = NULL;
    s->queued_bytes -= first->bytes;
    free(first);
}

/* ---- fewer than all -------------------------------------------------------------------------- */

/* The row of a type; made when it is new. NULL: no memory. */
static struct pace *find_pace(struct subscription *s, uint64_t type)
{
    struct pace *pace;

    HASH_FIND(hh, s->paces, &type, sizeof type, pace);
    if (pace != NULL)
        return pace;
    pace = calloc(1, sizeof *pace);
    if (pace == NULL)
        return NULL;
    pace->type = type;
    HASH_ADD(hh, s->paces, type, sizeof pace->type, pace);
    return pace;
}

/* One event of the type goes out now. Being late once is made up for, so that the rate is reached;
 * standing still is not. */
static void step_pace(const struct subscription *s, struct pace *pace, int64_t now_ns)
{
    pace->next_ns = now_ns - pace->next_ns < s->interval_ns ? pace->next_ns + s->interval_ns
                                                            : now_ns + s->interval_ns;
}

static void free_paces(struct subscription *s)
{
    struct pace *pace, *next;

    HASH_ITER(hh, s->paces, pace, next)
    {
        HASH_DEL(s->paces, pace);
        free(pace->waiting);
        free(pace);
    }
}

/* ---- what waits ------------------------------------------------------------------------------ */

static void flush_queues(uv_timer_t *timer);

static void flush_in(struct subscriptions *subscriptions, uint64_t ms)
{
    uv_timer_t *timer = subscriptions->flush_timer;

    if (!uv_is_active((uv_handle_t *)timer) || uv_timer_get_due_in(timer) > ms)
        uv_timer_start(timer, flush_queues, ms, 0);
}

static uint64_t ms_until(int64_t time_ns, int64_t now_ns)
{
    return time_ns <= now_ns ? 1 : (uint64_t)(time_ns - now_ns) / 1000000 + 1;
}

/* Send the newest events whose turn has come; the others have a later look. */
static void flush_newest(struct subscriptions *subscriptions, struct subscription *s)
{
    int64_t now_ns = real_ns();
    struct pace *pace, *next;

    HASH_ITER(hh, s->paces, pace, next)
    {
        if (pace->waiting == NULL)
            continue;
        if (pace->next_ns > now_ns) {
            flush_in(subscriptions, ms_until(pace->next_ns, now_ns));
        } else if (!output_has_room(s)) {
            flush_in(subscriptions, FLUSH_MS);
        } else {
            if (!send_now(subscriptions, s, pace->waiting->text, pace->waiting->bytes))
                count_lost(subscriptions, s, pace->waiting->type, 1);
            step_pace(s, pace, now_ns);
            free(pace->waiting);
            pace->waiting = NULL;
        }
    }
}

static void flush_queues(uv_timer_t *timer)
{
    struct subscriptions *subscriptions = timer->data;

    for (struct subscription *s = subscriptions->list; s != NULL; s = s->next) {
        while (s->first != NULL && output_has_room(s)) {
            if (!send_now(subscriptions, s, s->first->text, s->first->bytes))
                count_lost(subscriptions, s, s->first->type, 1);
            drop_first(s);
        }
        if (s->first != NULL)
            flush_in(subscriptions, FLUSH_MS);
        if (s->newest_only)
            flush_newest(subscriptions, s);
    }
}

static void enqueue(struct subscriptions *subscriptions, struct subscription *s,
                    struct event_type *type, const char *text, size_t bytes)
{
    size_t bound = (size_t)config_integer(subscriptions->config, EC_CONFIG_event_queue_bytes);
    struct queued *item = bytes <= bound ? make_queued(type, text, bytes) : NULL;

    if (item == NULL) {
        count_lost(subscriptions, s, type, 1);
        return;
    }
    if (s->last != NULL)
        s->last->next = item;
    else
        s->first = item;
    s->last = item;
    s->queued_bytes += bytes;
    while (s->queued_bytes > bound) { /* oldest first */
        count_lost(subscriptions, s, s->first->type, 1);
        drop_first(s);
    }
    flush_in(subscriptions, FLUSH_MS);
}

static void send_or_enqueue(struct subscriptions *subscriptions, struct subscription *s,
                            struct event_type *type, const char *text, size_t bytes)
{
    if (s->first != NULL || !output_has_room(s))
        enqueue(subscriptions, s, type, text, bytes);
    else if (!send_now(subscriptions, s, text, bytes))
        count_lost(subscriptions, s, type, 1);
}

/* The event takes the place of an older one of its type, or goes out if its turn has come. */
static void send_newest(struct subscriptions *subscriptions, struct subscription *s,
                        struct event_type *type, struct pace *pace, struct ec_json_span text)
{
    struct queued *item = make_queued(type, text.text, text.bytes);

    if (pace->waiting != NULL)
        count_skipped(subscriptions, s);
    free(pace->waiting);
    pace->waiting = item;
    if (item == NULL)
        count_lost(subscriptions, s, type, 1);
    flush_newest(subscriptions, s);
}

/* ---- who wants what -------------------------------------------------------------------------- */

static bool wants(const struct subscription *s, uint64_t type)
{
    if (s->type_count == 0)
        return true;
    for (uint32_t i = 0; i < s->type_count; i++)
        if (s->types[i] == type)
            return true;
    return false;
}

static void write_params(struct ec_json_writer *w, const struct subscription *s,
                         const struct event_type *type, const struct ec_event_header *header,
                         uint32_t sender, const struct ec_json_writer *payload)
{
    ec_json_writer_rewind(w, 0);
    ec_json_object_begin(w);
    ec_json_member_u64(w, "subscription_id", s->id);
    ec_json_member_string(w, "type", type->name);
    ec_json_member_i64(w, "time_ns", header->time_ns);
    ec_json_member_u64(w, "sender", sender);
    ec_json_member_u64(w, "sequence", header->sequence);
    ec_json_member_raw(w, "payload",
                       (struct ec_json_span) { .text = payload->base, .bytes = payload->bytes });
    ec_json_object_end(w);
}

/* The event's turn in a subscription that takes fewer than all. Returns whether it is taken. */
static bool take_turn(struct subscriptions *subscriptions, struct subscription *s,
                      struct pace *pace, int64_t now_ns)
{
    if (s->newest_only)
        return true;
    if (now_ns < pace->next_ns) {
        count_skipped(subscriptions, s);
        return false;
    }
    step_pace(s, pace, now_ns);
    return true;
}

static void send_event(struct subscriptions *subscriptions, struct event_type *type,
                       const struct ec_event_header *header, uint32_t sender, int64_t now_ns)
{
    struct ec_json_writer text = { 0 };

    ec_json_writer_init_growing(&text, grow, NULL, PARAMS_BYTES_MAX);
    for (struct subscription *s = subscriptions->list; s != NULL; s = s->next) {
        struct pace *pace = NULL;

        if (!wants(s, type->id))
            continue;
        if (s->newest_only || s->interval_ns != 0) {
            pace = find_pace(s, type->id);
            if (pace != NULL && !take_turn(subscriptions, s, pace, now_ns))
                continue;
        }
        write_params(&text, s, type, header, sender, &subscriptions->payload);
        if (ec_json_writer_status(&text) < 0) {
            count_lost(subscriptions, s, type, 1);
            continue;
        }
        text.bytes--; /* the closing brace comes when it is sent */
        if (s->newest_only && pace != NULL)
            send_newest(subscriptions, s, type, pace,
                        (struct ec_json_span) { .text = text.base, .bytes = text.bytes });
        else
            send_or_enqueue(subscriptions, s, type, text.base, text.bytes);
    }
    free(text.base);
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
    for (struct subscription *s = subscriptions->list; s != NULL; s = s->next)
        count_lost(subscriptions, s, NULL, events);
}

/* Is the event for any subscription, and must its payload be decoded for that? Where all of them have
 * had their share of the type it is only counted. */
static bool is_wanted(struct subscriptions *subscriptions, uint64_t type, int64_t now_ns,
                      bool *decoded)
{
    bool wanted = false;

    *decoded = false;
    for (struct subscription *s = subscriptions->list; s != NULL && !*decoded; s = s->next) {
        struct pace *pace = NULL;

        if (!wants(s, type))
            continue;
        wanted = true;
        if (!s->newest_only && s->interval_ns != 0)
            HASH_FIND(hh, s->paces, &type, sizeof type, pace);
        *decoded = pace == NULL || now_ns >= pace->next_ns;
    }
    return wanted;
}

/* Decode while the payload may be overwritten, validate, and only then send. */
static void read_event(struct subscriptions *subscriptions, struct reading_port *port,
                       const struct ec_port_item *item)
{
    struct event_type *type = event_types_find(subscriptions->routes->types, item->header.type);
    int64_t now_ns = real_ns();
    bool decoded = false;
    bool wanted = type != NULL && item->header.bytes <= type->size &&
                  is_wanted(subscriptions, type->id, now_ns, &decoded);

    ec_json_writer_rewind(&subscriptions->payload, 0);
    if (decoded)
        event_payload_decode(type, item->payload, item->header.bytes, &subscriptions->payload);
    if (!ec_port_intact(&port->reading)) {
        resync(subscriptions, port);
        return;
    }
    if (wanted && ec_json_writer_status(&subscriptions->payload) == EC_OK) {
        /* A client's port speaks for that client, whatever its events say. */
        uint32_t sender = port->client_id != 0 ? port->client_id : item->header.sender;

        count_delivered(subscriptions, &item->header, now_ns);
        send_event(subscriptions, type, &item->header, sender, now_ns);
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
    while (subscriptions->ports != NULL) {
        struct reading_port *next = subscriptions->ports->next;

        ec_port_reading_finish(&subscriptions->ports->reading);
        free(subscriptions->ports);
        subscriptions->ports = next;
    }
    routes_close_reader(subscriptions->routes, subscriptions->reader);
    subscriptions->reader = NULL;
}

int subscriptions_add(struct subscriptions *subscriptions, struct client *client,
                      const struct subscription_desc *desc, uint32_t *id, struct ec_error *why)
{
    uint32_t all = 0, own = 0;
    struct subscription *s;
    int rc;

    for (s = subscriptions->list; s != NULL; s = s->next) {
        all++;
        own += s->client == client;
    }
    if (all >= SUBSCRIPTIONS_MAX || own >= SUBSCRIPTIONS_OF_CLIENT_MAX)
        return ec_fail(why, EC_ERR_LIMIT,
                       "%u subscriptions, %u of them this client's; at most %d and %d are possible",
                       all, own, SUBSCRIPTIONS_MAX, SUBSCRIPTIONS_OF_CLIENT_MAX);
    s = calloc(1, sizeof *s);
    if (s == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a subscription");
    if (subscriptions->reader == NULL) {
        rc = open_reader(subscriptions, why);
        if (rc < 0) {
            free(s);
            return rc;
        }
    }
    s->client = client;
    s->id = ++subscriptions->last_id;
    s->type_count = desc->type_count;
    s->newest_only = desc->newest_only;
    s->interval_ns = desc->interval_ns;
    if (desc->type_count != 0)
        memcpy(s->types, desc->types, desc->type_count * sizeof *desc->types);
    s->next = subscriptions->list;
    subscriptions->list = s;
    *id = s->id;
    return EC_OK;
}

static void remove_at(struct subscriptions *subscriptions, struct subscription **at)
{
    struct subscription *s = *at;

    *at = s->next;
    while (s->first != NULL)
        drop_first(s);
    free_paces(s);
    free(s);
    if (subscriptions->list == NULL)
        close_reader(subscriptions);
}

bool subscriptions_has(const struct subscriptions *subscriptions, const struct client *client,
                       uint32_t id)
{
    for (const struct subscription *s = subscriptions->list; s != NULL; s = s->next)
        if (s->id == id && s->client == client)
            return true;
    return false;
}

bool subscriptions_remove(struct subscriptions *subscriptions, const struct client *client,
                          uint32_t id)
{
    for (struct subscription **at = &subscriptions->list; *at != NULL; at = &(*at)->next) {
        if ((*at)->id == id && (*at)->client == client) {
            remove_at(subscriptions, at);
            return true;
        }
    }
    return false;
}

void subscriptions_remove_client(struct subscriptions *subscriptions, const struct client *client)
{
    struct subscription **at = &subscriptions->list;

    while (*at != NULL) {
        if ((*at)->client == client)
            remove_at(subscriptions, at);
        else
            at = &(*at)->next;
    }
}

uint32_t subscriptions_count(const struct subscriptions *subscriptions, uint64_t type)
{
    uint32_t count = 0;

    for (const struct subscription *s = subscriptions->list; s != NULL; s = s->next)
        count += wants(s, type);
    return count;
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
    ec_json_writer_init_growing(&subscriptions->payload, grow, NULL, PARAMS_BYTES_MAX);
    ec_json_writer_init_growing(&subscriptions->params, grow, NULL, PARAMS_BYTES_MAX + 64);
    if (rc < 0)
        return ec_error_prefix(why, rc, "create the daemon's cursors");
    /* Of sockets: games of other users ring it, and the daemon must never block. */
    rc = ec_doorbell_init(&subscriptions->doorbell, true, why);
    if (rc < 0)
        return ec_error_prefix(why, rc, "create the daemon's doorbell");
    subscriptions->bell = calloc(1, sizeof *subscriptions->bell);
    subscriptions->flush_timer = calloc(1, sizeof *subscriptions->flush_timer);
    if (subscriptions->bell == NULL || subscriptions->flush_timer == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for the daemon's doorbell");
    uv_poll_init(loop, subscriptions->bell, subscriptions->doorbell.wait_fd);
    uv_timer_init(loop, subscriptions->flush_timer);
    subscriptions->bell->data = subscriptions->flush_timer->data = subscriptions;
    subscriptions->polling = true;
    return EC_OK;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

void subscriptions_finish(struct subscriptions *subscriptions)
{
    while (subscriptions->list != NULL)
        remove_at(subscriptions, &subscriptions->list);
    if (subscriptions->polling) {
        uv_close((uv_handle_t *)subscriptions->bell, on_closed);
        uv_close((uv_handle_t *)subscriptions->flush_timer, on_closed);
    } else {
        free(subscriptions->bell);
        free(subscriptions->flush_timer);
    }
    subscriptions->polling = false;
    ec_doorbell_finish(&subscriptions->doorbell);
    ec_segment_finish(&subscriptions->cursors);
    free(subscriptions->payload.base);
    free(subscriptions->params.base);
    subscriptions->payload.base = subscriptions->params.base = NULL;
}
