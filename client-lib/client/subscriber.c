/* subscriber.c - read the ports of all clients on one thread; see engine-core/subscriber.h. */
#include <engine-core/subscriber.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "client/subscriber.h"
#include "foundation/json/json_writer.h"
#include "foundation/real_time.h"

#define SPIN_NS_MAX 100000u
#define SPIN_MISSES 4u /* so many waits in a row without success, and spinning pauses */
#define SPIN_RETRY 16u /* every so many of those it is tried again */
#define OVERDUE_MS_DEFAULT 100u

struct ec_subscriber **ec_subscriber_link(struct ec_subscriber *subscriber)
{
    return &subscriber->next;
}

uint64_t ec_subscriber_reader_id(const struct ec_subscriber *subscriber)
{
    return subscriber->reader_id;
}

/* ---- ports come and go (service thread, mutex held) ------------------------------------------ */

static void post(struct ec_subscriber *subscriber, struct ec_subscriber_change *change)
{
    ec_mailbox_post(&subscriber->changes, &change->mail);
    /* A sleeping reader must look at the new port: something may be in it already. */
    ec_doorbell_ring(subscriber->doorbell.ring_fd, false);
}

void ec_peer_port_free(struct ec_peer_port *port)
{
    ec_port_reading_finish(&port->reading);
    ec_port_view_finish(&port->view);
    free(port);
}

static enum ec_port_start port_start(const struct ec_subscriber *subscriber)
{
    return subscriber->start == EC_START_KEYFRAME  ? EC_PORT_START_KEYFRAME
           : subscriber->start == EC_START_HISTORY ? EC_PORT_START_HISTORY
                                                   : EC_PORT_START_TAIL;
}

void ec_subscriber_add_port(struct ec_subscriber *subscriber, struct ec_early *news)
{
    enum ec_port_start start = news->existed ? port_start(subscriber) : EC_PORT_START_OLDEST;
    struct ec_subscriber_change *change = calloc(1, sizeof *change);
    struct ec_peer_port *port = calloc(1, sizeof *port);

    if (change == NULL || port == NULL || news->cursor >= EC_CURSORS_MAX ||
        news->reader_slot >= EC_PORT_READERS_MAX ||
        ec_port_view_init(&port->view, news->fds[0], NULL) < 0) {
        free(change);
        free(port);
        return; /* not admitted by its publisher, so nobody waits for us */
    }
    port->port_id = news->port_id;
    port->client_id = news->client_id;
    port->reader_id = (uint32_t)subscriber->reader_id;
    port->reader_slot = news->reader_slot;
    port->was_there = start != EC_PORT_START_OLDEST;
    port->across_users = news->across_users;
    memcpy(port->client, news->client, sizeof port->client);
    memcpy(port->name, news->name, sizeof port->name);
    port->cursor = news->cursor;
    port->start = start;
    ec_known_links_add(&subscriber->ports_known, &(struct ec_known_link) {
                                                     .id = news->port_id,
                                                     .cursor = news->cursor,
                                                     .reader_slot = news->reader_slot,
                                                     .segment = ec_known_link_segment(news->fds[0]),
                                                 });
    change->added = port;
    post(subscriber, change);
}

void ec_subscriber_remove_port(struct ec_subscriber *subscriber, uint32_t port_id)
{
    struct ec_subscriber_change *change = calloc(1, sizeof *change);

    ec_known_links_remove(&subscriber->ports_known, port_id);
    if (change == NULL)
        return; /* the mapping stays until the subscriber ends */
    change->removed_id = port_id;
    post(subscriber, change);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void write_start(struct ec_json_writer *w, const struct ec_subscriber_desc *desc)
{
    ec_json_key(w, "start");
    if (desc->start == EC_START_HISTORY) {
        ec_json_object_begin(w);
        ec_json_member_u64(w, "history", desc->history);
        ec_json_object_end(w);
    } else {
        ec_json_string(w, desc->start == EC_START_KEYFRAME ? "keyframe" : "tail");
    }
}

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
    ec_json_member_boolean(w, "foreign", desc->foreign_only);
    write_start(w, desc);
    ec_json_member_array(w, "fds");
    ec_json_string(w, "doorbell");
    ec_json_string(w, "doorbell_across");
    ec_json_array_end(w);
    ec_json_object_end(w);
    ec_json_line_end(w);
    return ec_json_writer_status(w) < 0
               ? ec_fail(why, EC_ERR_PARAM, "the names of the types are too long")
               : EC_OK;
}

/* The ports that existed when the daemon recorded the reader, or answered one that came back: one descriptor
 * each. */
static int take_ports(struct ec_subscriber *subscriber, struct ec_call *call,
                      struct ec_json_span ports, struct ec_error *why)
{
    struct ec_json_iterator iterator = ec_json_iterate(ports);
    struct ec_json_span item;

    for (unsigned i = 0; ec_json_next_element(&iterator, &item); i++) {
        struct ec_early news = { .fds = { -1, -1 } };

        if (i >= call->reply_fd_count || !ec_event_port_members(item, &news))
            return ec_fail(why, EC_ERR_INTERNAL, "port %u of the daemon's answer is not whole", i);
        news.fds[0] = call->reply_fds[i]; /* stays the call's: mapping does not keep it */
        ec_subscriber_add_port(subscriber, &news);
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
    const int bells[2] = { subscriber->doorbell.ring_fd, subscriber->across.ring_fd };
    struct ec_call call = { .method = "event.reader.open", .fds = bells, .fd_count = 2 };
    char request[8192];
    struct ec_json_writer w;
    uint64_t slot;
    int rc;

    ec_json_writer_init(&w, request, sizeof request);
    rc = write_request(&w, desc, why);
    if (rc < 0)
        return rc;
    request[w.bytes - 1] = '\0';
    subscriber->request = strdup(request);
    if (subscriber->request == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for the request");
    call.params = request;
    rc = ec_connection_call(subscriber->client->connection, &call, why);
    if (rc == EC_OK && (ec_json_bind(call.result, &members) != EC_OK ||
                        ec_json_get_u64(values[0], &subscriber->reader_id) != EC_OK ||
                        ec_json_get_u64(values[1], &slot) != EC_OK || slot >= EC_READERS_MAX))
        rc = ec_fail(why, EC_ERR_INTERNAL, "the daemon's answer has no reader_id and slot");
    if (rc == EC_OK) {
        struct ec_cursor_segment *cursors = ec_client_cursors(subscriber->client);

        subscriber->slot = (uint32_t)slot;
        subscriber->epoch = &cursors->sleep[slot].epoch;
        subscriber->rows = cursors->types[slot];
        clear_rows(subscriber->rows);
        rc = take_ports(subscriber, &call, values[2], why);
    }
    ec_call_finish(&call);
    return rc;
}

bool ec_subscriber_hand_back(struct ec_subscriber *subscriber, bool fresh,
                             struct ec_handback *handback)
{
    struct ec_json_writer w;

    while (fresh && subscriber->ports_known.count > 0)
        ec_subscriber_remove_port(subscriber, subscriber->ports_known.rows[0].id);
    if (fresh)
        subscriber->reader_id = ec_handback_lend_id(subscriber->client->event_peers);
    *handback = (struct ec_handback) { .id = (uint32_t)subscriber->reader_id, .fd_count = 2 };
    handback->fds[0] = fcntl(subscriber->doorbell.ring_fd, F_DUPFD_CLOEXEC, 3);
    handback->fds[1] = fcntl(subscriber->across.ring_fd, F_DUPFD_CLOEXEC, 3);
    /* The request again, with one more member. */
    ec_json_writer_init_growing(&w, ec_json_grow_heap, NULL, EC_LINE_BYTES);
    ec_json_object_begin(&w);
    ec_handback_copy_members(&w, subscriber->request);
    ec_json_member_object(&w, "resume");
    ec_json_member_u64(&w, "reader_id", fresh ? 0 : subscriber->reader_id);
    ec_json_member_u64(&w, "slot", subscriber->slot); /* its reading thread uses it right now */
    ec_known_links_write(&subscriber->ports_known, false, &w);
    ec_json_object_end(&w);
    ec_json_object_end(&w);
    ec_json_line_end(&w);
    handback->params = w.base;
    if (handback->fds[0] < 0 || handback->fds[1] < 0 || ec_json_writer_status(&w) < 0)
        return false;
    handback->params[w.bytes - 1] = '\0'; /* instead of the line end */
    return true;
}

int ec_subscriber_take_back(struct ec_subscriber *subscriber, struct ec_call *call,
                            struct ec_error *why)
{
    static const char *const names[] = { "reader_id", "slot", "ports" };
    struct ec_json_span values[3] = { { 0 } };
    struct ec_json_fields members = { .names = names, .values = values, .count = 3 };
    uint64_t reader_id, slot;

    if (ec_json_bind(call->result, &members) != EC_OK ||
        ec_json_get_u64(values[0], &reader_id) != EC_OK || reader_id > UINT32_MAX ||
        ec_json_get_u64(values[1], &slot) != EC_OK || slot != subscriber->slot)
        return ec_fail(why, EC_ERR_INTERNAL, "the daemon's answer has no reader_id and slot");
    subscriber->reader_id = reader_id;
    return take_ports(subscriber, call, values[2], why);
}

static void free_all(struct ec_subscriber *subscriber)
{
    struct ec_subscriber_change *change = ec_subscriber_take_changes(subscriber);

    while (change != NULL) {
        struct ec_subscriber_change *next = ec_subscriber_change_of(change->mail.next);

        if (change->added != NULL)
            ec_peer_port_free(change->added);
        free(change);
        change = next;
    }
    while (subscriber->ports != NULL) {
        struct ec_peer_port *next = subscriber->ports->next;

        ec_peer_port_free(subscriber->ports);
        subscriber->ports = next;
    }
    ec_doorbell_finish(&subscriber->doorbell);
    ec_doorbell_finish(&subscriber->across);
    if (subscriber->loop_fd >= 0)
        close(subscriber->loop_fd);
    ec_known_links_finish(&subscriber->ports_known);
    free(subscriber->request);
    free(subscriber);
}

static int check_desc(const struct ec_subscriber_desc *desc, struct ec_error *why)
{
    if (desc->type_count > EC_SUBSCRIBER_TYPES_MAX)
        return ec_fail(why, EC_ERR_PARAM, "%u types, at most %u are possible", desc->type_count,
                       EC_SUBSCRIBER_TYPES_MAX);
    if ((unsigned)desc->policy > EC_EVENT_LOSSY)
        return ec_fail(why, EC_ERR_PARAM, "policy %d: there is no such one", (int)desc->policy);
    if ((unsigned)desc->start > EC_START_HISTORY || (unsigned)desc->order > EC_ORDER_STEP)
        return ec_fail(why, EC_ERR_PARAM, "start %d, order %d: there is no such one",
                       (int)desc->start, (int)desc->order);
    if ((desc->start == EC_START_HISTORY) != (desc->history != 0) || desc->history >= EC_PORT_MARKS)
        return ec_fail(why, EC_ERR_PARAM, "history is %u, expected 1..%d with EC_START_HISTORY",
                       desc->history, EC_PORT_MARKS - 1);
    if (desc->spin_ns > SPIN_NS_MAX)
        return ec_fail(why, EC_ERR_PARAM, "spin_ns is %u, expected 0..%u", desc->spin_ns,
                       SPIN_NS_MAX);
    for (uint32_t i = 0; i < desc->type_count; i++)
        if (desc->types[i] == NULL || desc->types[i][0] == '\0')
            return ec_fail(why, EC_ERR_PARAM, "type %u has no name", i);
    return EC_OK;
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
    ec_subscriber_apply_changes(subscriber);
    for (struct ec_peer_port *port = subscriber->ports; port != NULL; port = port->next)
        if (port->was_there)
            ec_port_seek(&port->reading, port_start(subscriber), subscriber->history);
}

int ec_subscriber_create(struct ec_client *client, const struct ec_subscriber_desc *desc,
                         struct ec_subscriber **subscriber, struct ec_error *why)
{
    const uint64_t generation = ec_connection_generation(client->connection);
    struct ec_subscriber *made;
    int rc = check_desc(desc, why);

    *subscriber = NULL;
    if (rc < 0)
        return ec_error_prefix(why, rc, "create subscriber");
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "%zu bytes for a subscriber", sizeof *made);
    made->client = client;
    made->across = (struct ec_doorbell) { -1, -1 };
    made->loop_fd = -1;
    ec_stamp_clock_init(&made->clock);
    made->on_lost = desc->on_lost;
    made->context = desc->context;
    made->spin_ns = desc->spin_ns;
    made->start = desc->start;
    made->history = desc->history;
    made->order = desc->order;
    made->overdue_ns =
        (int64_t)(desc->overdue_ms != 0 ? desc->overdue_ms : OVERDUE_MS_DEFAULT) * 1000000;
    made->type_count = desc->type_count;
    for (uint32_t i = 0; i < desc->type_count; i++)
        made->types[i] = ec_event_type(desc->types[i]);
    rc = ec_doorbell_init(&made->doorbell, false, why);
    if (rc == EC_OK)
        rc = ec_doorbell_init(&made->across, true, why);
    if (rc < 0) {
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
    if (generation != ec_connection_generation(client->connection)) {
        ec_subscriber_destroy(made); /* the daemon that came meanwhile may not know it */
        return ec_fail(why, EC_ERR_DISCONNECTED, "create subscriber: the daemon was replaced");
    }
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

static void silence(struct ec_subscriber *subscriber)
{
    subscriber->may_be_rung = false;
    ec_doorbell_silence(&subscriber->doorbell);
    if (subscriber->is_rung_across)
        ec_doorbell_silence(&subscriber->across);
}

/* The bells are silenced before the next sleep, when nobody waits for us. A foreign loop would find them
 * readable until then. */
void ec_subscriber_disarm(struct ec_subscriber *subscriber)
{
    if (!subscriber->armed)
        return;
    subscriber->armed = false;
    atomic_store_explicit(subscriber->epoch,
                          atomic_load_explicit(subscriber->epoch, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    subscriber->may_be_rung = true;
    if (subscriber->loop_fd >= 0)
        silence(subscriber);
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Spin for a while? Only while it has paid lately; otherwise just now and then. */
static bool spin(struct ec_subscriber *subscriber)
{
    int64_t end;

    if (subscriber->spin_ns == 0)
        return false;
    if (subscriber->spin_misses >= SPIN_MISSES && subscriber->spin_misses++ % SPIN_RETRY != 0)
        return false;
    end = ec_real_ns() + subscriber->spin_ns;
    do {
        for (int i = 0; i < 32; i++) {
            if (ec_subscriber_is_ready(subscriber)) {
                subscriber->spin_misses = 0;
                return true;
            }
            relax();
        }
    } while (ec_real_ns() < end);
    subscriber->spin_misses++;
    return false;
}

int ec_subscriber_arm(struct ec_subscriber *subscriber)
{
    ec_subscriber_show_cursors(subscriber);
    if (ec_subscriber_is_ready(subscriber))
        return EC_OK;
    if (!subscriber->armed) {
        if (subscriber->may_be_rung)
            silence(
                subscriber); /* before the epoch and the second look: this may be a ring for both */
        subscriber->armed = true;
        atomic_store_explicit(subscriber->epoch,
                              atomic_load_explicit(subscriber->epoch, memory_order_relaxed) + 1,
                              memory_order_relaxed);
    }
    atomic_thread_fence(memory_order_seq_cst); /* [3] of segment/event_port.h */
    if (!ec_subscriber_is_ready(subscriber))
        return EC_AGAIN;
    ec_subscriber_disarm(subscriber);
    return EC_OK;
}

int ec_subscriber_fd(struct ec_subscriber *subscriber)
{
    struct epoll_event readable = { .events = EPOLLIN };
    int fd = subscriber->loop_fd;

    if (fd >= 0)
        return fd;
    fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0)
        return -1;
    if (epoll_ctl(fd, EPOLL_CTL_ADD, subscriber->doorbell.wait_fd, &readable) < 0 ||
        epoll_ctl(fd, EPOLL_CTL_ADD, subscriber->across.wait_fd, &readable) < 0) {
        close(fd);
        return -1;
    }
    return subscriber->loop_fd = fd;
}

int ec_subscriber_wait(struct ec_subscriber *subscriber, int64_t timeout_ns)
{
    int64_t end_ns;

    if (ec_subscriber_is_ready(subscriber) || spin(subscriber))
        return EC_OK;
    end_ns = ec_deadline_ns(ec_real_ns(), timeout_ns);
    while (ec_subscriber_arm(subscriber) == EC_AGAIN) {
        struct pollfd bells[2] = { { .fd = subscriber->doorbell.wait_fd, .events = POLLIN },
                                   { .fd = subscriber->across.wait_fd, .events = POLLIN } };
        int64_t overdue_ns = ec_subscriber_overdue_at(subscriber);
        int64_t until_ns = overdue_ns < end_ns ? overdue_ns : end_ns;
        int64_t left_ns = until_ns == INT64_MAX ? 0 : until_ns - ec_real_ns();
        struct timespec left = { .tv_sec = left_ns / 1000000000, .tv_nsec = left_ns % 1000000000 };
        int rc;

        if (until_ns == end_ns && end_ns != INT64_MAX && left_ns <= 0) {
            ec_subscriber_disarm(subscriber);
            return EC_ERR_TIMEOUT;
        }
        if (left_ns < 0)
            left = (struct timespec) { 0 };
        rc = ppoll(bells, subscriber->is_rung_across ? 2 : 1, until_ns == INT64_MAX ? NULL : &left,
                   NULL);
        subscriber->has_slept = true;
        ec_subscriber_disarm(subscriber);
        if (rc == 0)
            subscriber->may_be_rung = false; /* hardly: a late ring costs one more turn */
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
        .overdue = subscriber->overdue,
    };
    for (const struct ec_peer_port *port = subscriber->ports; port != NULL; port = port->next) {
        stats->delivered += port->delivered;
        stats->lost_events += port->reading.lost_events;
        stats->lost_bytes += port->reading.lost_bytes;
        stats->broken_ports += port->broken;
        stats->demoted_ports +=
            atomic_load_explicit(&port->view.port->readers[port->reader_slot].state,
                                 memory_order_relaxed) == EC_READER_DEMOTED;
        stats->ports++;
    }
}

int ec_subscriber_port(const struct ec_subscriber *subscriber, uint32_t port_id,
                       struct ec_port_names *names)
{
    const struct ec_peer_port *port = subscriber->ports;

    while (port != NULL && port->port_id != port_id)
        port = port->next;
    if (port == NULL)
        return EC_ERR_NOT_FOUND;
    *names = (struct ec_port_names) { .client_id = port->client_id };
    memcpy(names->client, port->client, strnlen(port->client, sizeof names->client - 1));
    memcpy(names->port, port->name, strnlen(port->name, sizeof names->port - 1));
    return EC_OK;
}
