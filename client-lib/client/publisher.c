/* publisher.c - a port of this client and the thread that publishes; see engine-core/publisher.h. */
#include <engine-core/publisher.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/event_peers.h"
#include "foundation/json/json_writer.h"
#include "foundation/stamp_clock.h"

#define RING_BYTES_DEFAULT (1024u * 1024)
#define BLOCK_COUNT_DEFAULT 4u
#define TYPE_CACHE 128u /* power of two, twice the types that have a row of their own */
#define STALL_NS_DEFAULT 250000000

/* How long a publisher that waits for room sleeps between two looks; it spins first. */
#define WAIT_SPINS 200
#define WAIT_SLEEP_NS 50000

struct cached_type {
    uint64_t type; /* 0: free */
    uint32_t bytes_min, bytes_max;
    struct ec_port_type *row;
};

struct ec_publisher {
    struct cached_type *claimed; /* NULL: nothing is claimed */
    bool batch;
    bool stamped; /* the next event gets the stamp that is there */
    enum ec_stamp stamp;
    uint32_t sender;
    int64_t time_ns; /* the stamp */
    uint64_t step;
    struct ec_port_writer writer;
    struct ec_stamp_clock clock;
    struct cached_type cache[TYPE_CACHE];

    struct ec_client *client;
    struct ec_publisher *next;
    uint32_t port_id; /* with the mutex of the event peers once others know the publisher */
    struct ec_known_links readers;
    char name[EC_PORT_NAME_BYTES];
    uint32_t ring_bytes;
};

struct ec_publisher **ec_publisher_link(struct ec_publisher *publisher)
{
    return &publisher->next;
}

uint32_t ec_publisher_port_id(const struct ec_publisher *publisher)
{
    return publisher->port_id;
}

/* ---- readers come and go (service thread, mutex held) ---------------------------------------- */

static void free_readers(struct ec_port_change *change)
{
    while (change != NULL) {
        struct ec_port_change *next = (struct ec_port_change *)(void *)change->mail.next;
        struct ec_peer_reader *reader = (struct ec_peer_reader *)(void *)change;

        ec_segment_map_finish(&reader->cursors);
        if (reader->doorbell_fd >= 0)
            close(reader->doorbell_fd);
        free(reader);
        change = next;
    }
}

void ec_publisher_add_reader(struct ec_publisher *publisher, struct ec_early *news)
{
    struct ec_peer_reader *reader = calloc(1, sizeof *reader);
    const struct ec_cursor_segment *cursors;

    free_readers(ec_port_take_done(&publisher->writer));
    if (reader == NULL)
        return; /* the reader stays unadmitted: it validates and counts what it loses */
    if (news->cursor >= EC_CURSORS_MAX || news->slot >= EC_READERS_MAX ||
        ec_segment_map_init(&reader->cursors, news->fds[0], EC_SEGMENT_CURSOR,
                            sizeof(struct ec_cursor_segment), EC_SEGMENT_BYTES_MAX, NULL) < 0) {
        free(reader);
        return;
    }
    cursors = reader->cursors.base;
    reader->doorbell_fd = news->fds[1];
    news->fds[1] = -1;
    reader->change.add = true;
    reader->change.peer = (struct ec_port_peer) {
        .reader_id = ec_cursor_owner((uint32_t)news->reader_id, publisher->port_id),
        .cursor = &cursors->cursor[news->cursor].position,
        .cursor_owner = &cursors->cursor[news->cursor].reader_id,
        .epoch = &cursors->sleep[news->slot].epoch,
        .doorbell_fd = reader->doorbell_fd,
        .doorbell_is_socket = ec_doorbell_is_socket(reader->doorbell_fd),
        .slot = news->reader_slot,
        .reliable = news->reliable,
    };
    ec_known_links_add(&publisher->readers, &(struct ec_known_link) {
                                                .id = (uint32_t)news->reader_id,
                                                .reader_slot = news->reader_slot,
                                                .segment = ec_known_link_segment(news->fds[0]),
                                            });
    ec_port_post(&publisher->writer, &reader->change);
}

void ec_publisher_remove_reader(struct ec_publisher *publisher, uint64_t reader_id)
{
    struct ec_peer_reader *removal = calloc(1, sizeof *removal);

    ec_known_links_remove(&publisher->readers, (uint32_t)reader_id);
    free_readers(ec_port_take_done(&publisher->writer));
    if (removal == NULL)
        return; /* the reader is demoted once it holds the publisher up */
    removal->doorbell_fd = -1;
    removal->change.peer.reader_id = ec_cursor_owner((uint32_t)reader_id, publisher->port_id);
    ec_port_post(&publisher->writer, &removal->change);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* With resume: as the daemon before knew it. */
static void write_open(const struct ec_publisher *publisher, bool resume, struct ec_json_writer *w)
{
    ec_json_object_begin(w);
    ec_json_member_string(w, "name", publisher->name);
    ec_json_member_u64(w, "bytes", publisher->ring_bytes);
    ec_json_member_u64(w, "blocks", publisher->writer.block_count);
    if (resume) {
        ec_json_member_object(w, "resume");
        ec_json_member_u64(w, "port_id", publisher->port_id);
        ec_known_links_write(&publisher->readers, true, w);
        ec_json_object_end(w);
    }
    ec_json_object_end(w);
}

static int take_answer(struct ec_publisher *publisher, struct ec_call *call, struct ec_error *why)
{
    uint64_t port_id;

    if (!ec_event_member(call->result, "port_id", UINT32_MAX, &port_id))
        return ec_fail(why, EC_ERR_INTERNAL, "the daemon's answer has no port_id");
    publisher->port_id = (uint32_t)port_id;
    return EC_OK;
}

static int open_port(struct ec_publisher *publisher, struct ec_error *why)
{
    struct ec_call call = { .method = "event.port.open",
                            .fds = &publisher->writer.segment.fd,
                            .fd_count = 1 };
    char request[512];
    struct ec_json_writer w;
    uint64_t stall_ms;
    int rc;

    ec_json_writer_init(&w, request, sizeof request - 1);
    write_open(publisher, false, &w);
    request[w.bytes] = '\0';
    call.params = request;
    rc = ec_connection_call(publisher->client->connection, &call, why);
    if (rc == EC_OK)
        rc = take_answer(publisher, &call, why);
    if (rc == EC_OK && ec_event_member(call.result, "stall_ms", UINT32_MAX, &stall_ms))
        publisher->writer.stall_ns = (int64_t)stall_ms * 1000000;
    ec_call_finish(&call);
    return rc;
}

bool ec_publisher_hand_back(struct ec_publisher *publisher, bool fresh,
                            struct ec_handback *handback)
{
    struct ec_json_writer w;

    while (fresh && publisher->readers.count > 0)
        ec_publisher_remove_reader(publisher, publisher->readers.rows[0].id);
    if (fresh)
        publisher->port_id = ec_handback_lend_id(publisher->client->event_peers);
    *handback = (struct ec_handback) { .of_port = true, .id = publisher->port_id };
    handback->fds[0] = fcntl(publisher->writer.segment.fd, F_DUPFD_CLOEXEC, 3);
    handback->fd_count = handback->fds[0] >= 0;
    ec_json_writer_init_growing(&w, ec_json_grow_heap, NULL, EC_LINE_BYTES);
    write_open(publisher, !fresh, &w);
    ec_json_line_end(&w);
    handback->params = w.base;
    if (handback->fd_count == 0 || ec_json_writer_status(&w) < 0)
        return false;
    handback->params[w.bytes - 1] = '\0'; /* instead of the line end */
    return true;
}

int ec_publisher_take_back(struct ec_publisher *publisher, struct ec_call *call,
                           struct ec_error *why)
{
    return take_answer(publisher, call, why);
}

/* The readers that were there before come as notifications right behind the port's answer, so one more
 * answer means that they are known: none of them misses the first event. It comes when they know the port
 * as well, or after a while: one that is stopped does not hold us up. */
static void await_readers(struct ec_publisher *publisher)
{
    struct ec_call call = { .method = "event.port.sync" };
    char request[64];

    snprintf(request, sizeof request, "{\"port_id\":%u}", publisher->port_id);
    call.params = request;
    ec_connection_call(publisher->client->connection, &call, NULL);
    ec_call_finish(&call);
}

int ec_publisher_create(struct ec_client *client, const struct ec_publisher_desc *desc,
                        struct ec_publisher **publisher, struct ec_error *why)
{
    struct ec_port_writer_desc writer = {
        .name = desc->name != NULL ? desc->name : "main",
        .ring_bytes = desc->ring_bytes != 0 ? desc->ring_bytes : RING_BYTES_DEFAULT,
        .client_id = client->id,
        .instance = client->instance,
        .stall_ns = STALL_NS_DEFAULT,
        .mirrored = true,
        .block_bytes = desc->block_bytes,
        .block_count = desc->block_bytes != 0 && desc->block_count == 0 ? BLOCK_COUNT_DEFAULT
                                                                        : desc->block_count,
    };
    struct ec_publisher *made = calloc(1, sizeof *made);
    uint64_t generation = ec_connection_generation(client->connection);
    int rc;

    *publisher = NULL;
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "%zu bytes for a publisher", sizeof *made);
    made->client = client;
    made->stamp = desc->stamp;
    made->stamped = desc->stamp == EC_STAMP_FRAME; /* below */
    made->sender = client->id;
    made->ring_bytes = writer.ring_bytes;
    snprintf(made->name, sizeof made->name, "%s", writer.name);
#ifdef EC_TSAN
    writer.mirrored = false; /* TSan takes the two addresses of a mirrored ring for two memories */
#endif
    rc = strlen(writer.name) < sizeof made->name
             ? ec_port_writer_init(&made->writer, &writer, why)
             : ec_fail(why, EC_ERR_PARAM, "its name has %zu bytes, expected at most %zu",
                       strlen(writer.name), sizeof made->name - 1);
    if (rc == EC_OK)
        rc = open_port(made, why);
    if (rc < 0) {
        ec_port_writer_finish(&made->writer);
        free(made);
        return ec_error_prefix(why, rc, "create publisher %s", writer.name);
    }
    ec_stamp_clock_init(&made->clock);
    ec_publisher_stamp(made);
    ec_event_peers_add_publisher(client->event_peers, made);
    await_readers(made);
    if (generation != ec_connection_generation(client->connection)) {
        ec_publisher_destroy(made); /* the daemon that came meanwhile may not know it */
        return ec_fail(why, EC_ERR_DISCONNECTED, "create publisher: the daemon was replaced");
    }
    *publisher = made;
    return EC_OK;
}

void ec_publisher_destroy(struct ec_publisher *publisher)
{
    struct ec_call call = { .method = "event.port.close" };
    char request[64];

    if (publisher == NULL)
        return;
    ec_event_peers_remove_publisher(publisher->client->event_peers, publisher);
    snprintf(request, sizeof request, "{\"port_id\":%u}", publisher->port_id);
    call.params = request;
    /* Without a daemon there is nobody to tell; readers keep their mapping until they drop it. */
    ec_connection_call(publisher->client->connection, &call, NULL);
    ec_call_finish(&call);
    ec_port_writer_finish(&publisher->writer);
    free_readers(ec_port_take_done(&publisher->writer));
    ec_known_links_finish(&publisher->readers);
    free(publisher);
}

/* ---- publishing ------------------------------------------------------------------------------ */

static void count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed); /* one writer: the publishing thread */
}

/* The slow way, once per type: ask the list of registered types, take a row of statistics. */
static struct cached_type *learn_type(struct ec_publisher *publisher, uint64_t type, uint32_t at)
{
    struct cached_type *row = &publisher->cache[at];
    struct ec_known_type known;

    if (type == 0 || !ec_event_peers_type(publisher->client->event_peers, type, &known))
        return NULL;
    *row = (struct cached_type) {
        .type = type,
        .bytes_min = known.exact ? known.bytes : 0,
        .bytes_max = known.bytes,
        .row = ec_port_type_row(&publisher->writer, type),
    };
    return row;
}

/* It is not where it belongs: another one is there, or none yet. */
static struct cached_type *search_type(struct ec_publisher *publisher, uint64_t type)
{
    uint32_t at = (uint32_t)type & (TYPE_CACHE - 1);

    for (uint32_t probe = 0; probe < 4; probe++, at = (at + 1) & (TYPE_CACHE - 1)) {
        if (publisher->cache[at].type == type && type != 0)
            return &publisher->cache[at];
        if (publisher->cache[at].type == 0)
            return learn_type(publisher, type, at);
    }
    return learn_type(publisher, type, (uint32_t)type & (TYPE_CACHE - 1)); /* take its place */
}

static int refuse(struct ec_publisher *publisher, struct cached_type *known, int code)
{
    if (known != NULL)
        count(&known->row->refused, 1);
    count(&publisher->writer.port->refused, 1);
    return code;
}

/* Whatever is not the common case stands apart and out of line: the common one then calls nothing, and
 * needs no registers that it had to save. */
static __attribute__((noinline)) int claim_rare(struct ec_publisher *publisher, uint64_t type,
                                                size_t bytes, void **payload)
{
    struct cached_type *known;
    int rc;

    publisher->claimed = NULL;
    known = search_type(publisher, type);
    if (known == NULL)
        return refuse(publisher, NULL, EC_ERR_TYPE);
    if (bytes < known->bytes_min || bytes > known->bytes_max)
        return refuse(publisher, known, EC_ERR_SIZE);
    rc = ec_port_claim(&publisher->writer, (uint32_t)bytes, payload);
    if (rc < 0)
        return refuse(publisher, known, rc);
    if (rc == EC_OK)
        publisher->claimed = known;
    return rc;
}

int ec_publisher_claim(struct ec_publisher *publisher, uint64_t type, size_t bytes, void **payload)
{
    struct cached_type *known = &publisher->cache[type & (TYPE_CACHE - 1)];

    if (known->type != type || type == 0 || bytes < known->bytes_min || bytes > known->bytes_max ||
        !ec_port_has_room(&publisher->writer, (uint32_t)bytes))
        return claim_rare(publisher, type, bytes, payload);
    ec_port_take(&publisher->writer, (uint32_t)bytes, payload);
    publisher->claimed = known;
    return EC_OK;
}

int ec_publisher_claim_wait(struct ec_publisher *publisher, uint64_t type, size_t bytes,
                            int64_t timeout_ns, void **payload)
{
    int64_t start = ec_real_ns();

    for (int spins = 0;; spins++) {
        int rc = ec_publisher_claim(publisher, type, bytes, payload);

        if (rc != EC_AGAIN)
            return rc;
        ec_port_flush(&publisher->writer); /* an open batch must not hold its own readers back */
        if (ec_real_ns() - start >= timeout_ns)
            return EC_ERR_TIMEOUT;
        if (spins >= WAIT_SPINS)
            nanosleep(&(struct timespec) { .tv_nsec = WAIT_SLEEP_NS }, NULL);
    }
}

/* The newest step of the first clock; a thread of this program may have been told of the one after it. */
static uint64_t first_step(const struct ec_client *client)
{
    const struct ec_clock_page *clock = ec_client_clock(client);
    uint64_t step, taken;

    if (clock == NULL)
        return 0;
    step = atomic_load_explicit(&clock->step[0].step, memory_order_relaxed);
    taken = atomic_load_explicit(&client->first_taken, memory_order_relaxed);
    return taken == step + 1 ? taken : step;
}

/* The newest step; the one after it if this port said that it is over, as it does when another client of
 * this program was told of its end. */
void ec_publisher_stamp(struct ec_publisher *publisher)
{
    const uint64_t step = first_step(publisher->client);
    const uint64_t passed =
        atomic_load_explicit(&publisher->writer.port->step_passed, memory_order_relaxed);

    publisher->time_ns = ec_stamp_clock_ns(&publisher->clock);
    publisher->step = step > 0 && passed == step ? step + 1 : step;
}

/* Word by word, for the reason that ec_port_write_header gives: the stamp may be just stored. */
static inline struct ec_event_header header_of(const struct ec_publisher *publisher,
                                               const struct cached_type *type)
{
    return (struct ec_event_header) {
        .type = type->type,
        .time_ns = publisher->time_ns,
        .step = publisher->step,
        .sender = publisher->sender,
    };
}

static __attribute__((noinline)) int flush(struct ec_publisher *publisher)
{
    ec_port_flush(&publisher->writer);
    return EC_OK;
}

/* It is in the ring: count it, and show it unless it waits for the end of a batch. */
static inline int finish_commit(struct ec_publisher *publisher, struct cached_type *type,
                                uint32_t used)
{
    publisher->claimed = NULL;
    count(&type->row->published, 1);
    count(&type->row->bytes, used);
    return publisher->batch ? EC_OK : flush(publisher);
}

/* A keyframe, or a payload in a block. */
static __attribute__((noinline)) int commit_special(struct ec_publisher *publisher, uint32_t used)
{
    struct ec_event_header header = header_of(publisher, publisher->claimed);

    ec_port_commit_rare(&publisher->writer, &header, used);
    return finish_commit(publisher, publisher->claimed, used);
}

static inline __attribute__((always_inline)) int commit_stamped(struct ec_publisher *publisher,
                                                                uint32_t used)
{
    struct cached_type *type = publisher->claimed;
    struct ec_event_header header;

    if (!ec_port_is_plain(&publisher->writer))
        return commit_special(publisher, used);
    header = header_of(publisher, type);
    ec_port_commit_plain(&publisher->writer, &header, used);
    return finish_commit(publisher, type, used);
}

static __attribute__((noinline)) int stamp_and_commit(struct ec_publisher *publisher, uint32_t used)
{
    ec_publisher_stamp(publisher);
    publisher->stamped = publisher->batch && publisher->stamp == EC_STAMP_BATCH;
    return commit_stamped(publisher, used);
}

static inline __attribute__((always_inline)) int commit(struct ec_publisher *publisher,
                                                        uint32_t used)
{
    return publisher->stamped ? commit_stamped(publisher, used) : stamp_and_commit(publisher, used);
}

int ec_publisher_commit_used(struct ec_publisher *publisher, size_t used)
{
    if (publisher->claimed == NULL)
        return EC_ERR_STATE;
    if (used > publisher->writer.claimed_bytes || used < publisher->claimed->bytes_min)
        return EC_ERR_SIZE;
    return commit(publisher, (uint32_t)used);
}

int ec_publisher_commit(struct ec_publisher *publisher)
{
    if (publisher->claimed == NULL)
        return EC_ERR_STATE;
    return commit(publisher, publisher->writer.claimed_bytes);
}

int ec_publisher_publish(struct ec_publisher *publisher, uint64_t type, const void *payload,
                         size_t bytes)
{
    void *room;
    int rc = ec_publisher_claim(publisher, type, bytes, &room);

    if (rc != EC_OK)
        return rc;
    ec_port_copy_in(room, payload, bytes);
    return ec_publisher_commit(publisher);
}

void ec_publisher_batch_begin(struct ec_publisher *publisher)
{
    publisher->batch = true;
    publisher->stamped = publisher->stamp == EC_STAMP_FRAME;
}

void ec_publisher_batch_end(struct ec_publisher *publisher)
{
    publisher->batch = false;
    publisher->stamped = publisher->stamp == EC_STAMP_FRAME;
    ec_port_flush(&publisher->writer);
}

void ec_publisher_keyframe(struct ec_publisher *publisher)
{
    ec_port_keyframe(&publisher->writer);
}

void ec_publisher_step_passed(struct ec_publisher *publisher, uint64_t step)
{
    ec_port_flush(&publisher->writer); /* an open batch may hold events of this step */
    ec_port_step_passed(&publisher->writer, step);
    /* What an open batch gets from now on is of a later one. */
    publisher->stamped = publisher->stamp == EC_STAMP_FRAME;
}

void ec_publisher_stats(const struct ec_publisher *publisher, struct ec_publisher_stats *stats)
{
    const struct ec_event_port *port = publisher->writer.port;

    *stats = (struct ec_publisher_stats) {
        .published = publisher->writer.sequence,
        .would_block = atomic_load_explicit(&port->would_block, memory_order_relaxed),
        .refused = atomic_load_explicit(&port->refused, memory_order_relaxed),
        .bells = atomic_load_explicit(&port->bells, memory_order_relaxed),
        .readers = publisher->writer.peer_count,
    };
    for (uint32_t i = 0; i < publisher->writer.peer_count; i++) {
        stats->reliable += publisher->writer.peers[i].state == EC_READER_ADMITTED;
        stats->demoted += publisher->writer.peers[i].state == EC_READER_DEMOTED;
    }
}
