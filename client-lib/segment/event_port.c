/* event_port.c - see event_port.h for the protocol and its orders. */
#include "segment/event_port.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* The intent runs ahead of the claim by up to this much, so that its line, which every reader looks
 * at after each event, changes once per page and not once per event. */
#define INTENT_STEP 4096u

/* A claim takes at most this part of the ring, so that readers always have some way to go. */
#define CLAIM_SHARE 4u

static bool make_room(struct ec_port_writer *writer, uint64_t end);
static void announce(struct ec_port_writer *writer, uint64_t end);

/* ---- payload words -------------------------------------------------------------------------- */

#ifdef EC_TSAN
void ec_port_copy_in(void *ring, const void *from, size_t bytes)
{
    _Atomic unsigned char *to = ring;

    for (size_t i = 0; i < bytes; i++)
        atomic_store_explicit(&to[i], ((const unsigned char *)from)[i], memory_order_relaxed);
}

void ec_port_copy_out(void *to, const void *ring, size_t bytes)
{
    const _Atomic unsigned char *from = ring;

    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)to)[i] = atomic_load_explicit(&from[i], memory_order_relaxed);
}
#else
void ec_port_copy_in(void *ring, const void *from, size_t bytes)
{
    memcpy(ring, from, bytes);
}

void ec_port_copy_out(void *to, const void *ring, size_t bytes)
{
    memcpy(to, ring, bytes);
}
#endif

/* ---- the publishing thread: life ------------------------------------------------------------ */

int ec_port_writer_init(struct ec_port_writer *writer, const struct ec_port_writer_desc *desc,
                        struct ec_error *why)
{
    struct ec_segment_desc segment = {
        .name = "engine-core-port",
        .kind = EC_SEGMENT_PORT,
        .bytes = EC_PORT_RING_OFFSET + desc->ring_bytes,
        .client_id = desc->client_id,
        .instance = desc->instance,
        .populate = true,
        .mirror_offset = desc->mirrored ? EC_PORT_RING_OFFSET : 0,
    };
    struct ec_event_port *port;
    int rc;

    memset(writer, 0, sizeof *writer);
    writer->segment.fd = -1;
    if (desc->name[0] == '\0' || strlen(desc->name) >= EC_PORT_NAME_BYTES)
        return ec_fail(why, EC_ERR_PARAM, "port name is %zu bytes long, expected 1..%d",
                       strlen(desc->name), EC_PORT_NAME_BYTES - 1);
    if (desc->ring_bytes < EC_PORT_RING_BYTES_MIN || desc->ring_bytes > EC_PORT_RING_BYTES_MAX ||
        (desc->ring_bytes & (desc->ring_bytes - 1)) != 0)
        return ec_fail(why, EC_ERR_PARAM, "ring_bytes is %u, expected a power of two in %u..%u",
                       desc->ring_bytes, EC_PORT_RING_BYTES_MIN, EC_PORT_RING_BYTES_MAX);
    rc = ec_segment_init(&writer->segment, &segment, why);
    if (rc < 0)
        return ec_error_prefix(why, rc, "create port %s", desc->name);

    port = writer->segment.base;
    snprintf(port->name, sizeof port->name, "%s", desc->name);
    port->ring_bytes = desc->ring_bytes;
    port->mirrored = desc->mirrored;
    port->ring_offset = EC_PORT_RING_OFFSET;
    writer->port = port;
    writer->ring = (unsigned char *)port + EC_PORT_RING_OFFSET;
    writer->capacity = desc->ring_bytes;
    writer->mirrored = desc->mirrored;
    writer->stall_ns = desc->stall_ns;
    return EC_OK;
}

void ec_port_writer_finish(struct ec_port_writer *writer)
{
    struct ec_port_change *change = atomic_exchange(&writer->changes, NULL);

    for (uint32_t i = 0; i < writer->peer_count; i++) {
        writer->peers[i].added_by->next = change;
        change = writer->peers[i].added_by;
    }
    writer->peer_count = 0;
    while (change != NULL) {
        struct ec_port_change *next = change->next;

        change->next = atomic_load(&writer->done);
        atomic_store(&writer->done, change);
        change = next;
    }
    ec_segment_finish(&writer->segment);
    writer->port = NULL;
}

/* ---- the publishing thread: readers come and go --------------------------------------------- */

void ec_port_post(struct ec_port_writer *writer, struct ec_port_change *change)
{
    struct ec_port_change *head = atomic_load_explicit(&writer->changes, memory_order_relaxed);
    int doorbell_fd = change->add ? change->peer.doorbell_fd : -1; /* change may go right away */

    do
        change->next = head;
    while (!atomic_compare_exchange_weak_explicit(&writer->changes, &head, change,
                                                  memory_order_release, /* with take: acquire */
                                                  memory_order_relaxed));
    atomic_thread_fence(memory_order_seq_cst); /* [3] */
    if (doorbell_fd >= 0)
        (void)!write(doorbell_fd, &(uint64_t) { 1 }, sizeof(uint64_t));
}

struct ec_port_change *ec_port_take_done(struct ec_port_writer *writer)
{
    return atomic_exchange_explicit(&writer->done, NULL, memory_order_acquire);
}

static void give_back(struct ec_port_writer *writer, struct ec_port_change *change)
{
    struct ec_port_change *head = atomic_load_explicit(&writer->done, memory_order_relaxed);

    do
        change->next = head;
    while (!atomic_compare_exchange_weak_explicit(&writer->done, &head, change,
                                                  memory_order_release, memory_order_relaxed));
}

static void set_peer_state(struct ec_port_writer *writer, struct ec_port_peer_state *peer,
                           enum ec_port_reader_state state)
{
    peer->state = state;
    atomic_store_explicit(&writer->port->readers[peer->peer.slot].state, state,
                          memory_order_release); /* with the reader's and the daemon's looks */
}

static void add_peer(struct ec_port_writer *writer, struct ec_port_change *change)
{
    struct ec_port_peer_state *peer;

    if (writer->peer_count == EC_PORT_READERS_MAX || change->peer.slot >= EC_PORT_READERS_MAX) {
        give_back(writer, change); /* the daemon hands out no more slots than there are */
        return;
    }
    peer = &writer->peers[writer->peer_count++];
    *peer = (struct ec_port_peer_state) { .peer = change->peer,
                                          .added_by = change,
                                          .joined = writer->flushed };
    atomic_store_explicit(&writer->port->readers[peer->peer.slot].reader_id, peer->peer.reader_id,
                          memory_order_relaxed);
    set_peer_state(writer, peer, EC_READER_NONE);
}

static void remove_peer(struct ec_port_writer *writer, uint64_t reader_id)
{
    for (uint32_t i = 0; i < writer->peer_count; i++) {
        struct ec_port_peer_state *peer = &writer->peers[i];

        if (peer->peer.reader_id != reader_id)
            continue;
        set_peer_state(writer, peer, EC_READER_NONE);
        atomic_store_explicit(&writer->port->readers[peer->peer.slot].reader_id, 0,
                              memory_order_relaxed);
        give_back(writer, peer->added_by);
        *peer = writer->peers[--writer->peer_count];
        return;
    }
}

void ec_port_apply_changes(struct ec_port_writer *writer)
{
    struct ec_port_change *change, *ordered = NULL;

    change = atomic_exchange_explicit(&writer->changes, NULL, memory_order_acquire);
    while (change != NULL) { /* the mailbox is a stack: turn it round */
        struct ec_port_change *next = change->next;

        change->next = ordered;
        ordered = change;
        change = next;
    }
    while (ordered != NULL) {
        struct ec_port_change *next = ordered->next;

        if (ordered->add) {
            add_peer(writer, ordered);
        } else {
            remove_peer(writer, ordered->peer.reader_id);
            give_back(writer, ordered);
        }
        ordered = next;
    }
    writer->limit = 0; /* look at the cursors again */
}

/* ---- the publishing thread: claim, commit, flush -------------------------------------------- */

int ec_port_claim(struct ec_port_writer *writer, uint32_t bytes, void **payload)
{
    uint64_t size = ec_event_size(bytes), offset, end;

    if (size > writer->capacity / CLAIM_SHARE)
        return EC_ERR_SIZE;
    if (atomic_load_explicit(&writer->changes, memory_order_relaxed) != NULL)
        ec_port_apply_changes(writer);

    offset = writer->position & (writer->capacity - 1);
    end = writer->position + size;
    if (!writer->mirrored && offset + size > writer->capacity)
        end += writer->capacity - offset; /* a filler takes the rest of the ring */
    if (end > writer->limit && !make_room(writer, end))
        return EC_AGAIN;
    if (end > writer->intent)
        announce(writer, end);
    if (!writer->mirrored && offset + size > writer->capacity) {
        struct ec_event_header pad = { .flags = EC_EVENT_PAD,
                                       .bytes = (uint32_t)(writer->capacity - offset) };

        /* Near the end only 16 bytes may be left: a filler is its flags, in its last 16 bytes. */
        if (writer->capacity - offset >= sizeof pad)
            ec_port_copy_in(writer->ring + offset, &pad, sizeof pad);
        writer->position += writer->capacity - offset;
        offset = 0;
    }
    writer->claimed = (struct ec_event_header *)(void *)(writer->ring + offset);
    writer->claimed_bytes = bytes;
    *payload = writer->claimed + 1;
    return EC_OK;
}

/* Say which bytes are about to be overwritten, before the first of them is.
 *
 * The intent may run ahead of the claim, but never past the limit: a reliable reader that is in
 * time must not look lapped. The release fence is [2] of the header. */
static void announce(struct ec_port_writer *writer, uint64_t end)
{
    uint64_t ahead = (end + INTENT_STEP - 1) & ~(uint64_t)(INTENT_STEP - 1);

    writer->intent = ahead < writer->limit ? ahead : writer->limit;
    atomic_store_explicit(&writer->port->tail_intent, writer->intent, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* May this reader be admitted, and as what? Its cursor counts once it is inside the ring. */
static void admit_peer(struct ec_port_writer *writer, struct ec_port_peer_state *peer)
{
    uint64_t owner = atomic_load_explicit(peer->peer.cursor_owner,
                                          memory_order_acquire); /* with reading_init's release */
    uint64_t cursor;

    if (owner != peer->peer.reader_id)
        return;
    if (!peer->peer.reliable) {
        set_peer_state(writer, peer, EC_READER_LOSSY);
        return;
    }
    cursor = atomic_load_explicit(peer->peer.cursor, memory_order_acquire);
    if (cursor <= writer->position && cursor + writer->capacity >= writer->intent)
        set_peer_state(writer, peer, EC_READER_ADMITTED);
}

/* Where a reader without a cursor is taken to be: what was flushed before it was known is not promised
 * to it, and neither is what an open batch has overtaken already. */
static uint64_t joined_position(const struct ec_port_writer *writer,
                                const struct ec_port_peer_state *peer)
{
    return peer->joined + writer->capacity < writer->intent ? writer->intent - writer->capacity
                                                            : peer->joined;
}

/* The position of the slowest reliable reader, and who that is; UINT64_MAX when there is none. */
static uint64_t slowest_peer(struct ec_port_writer *writer, struct ec_port_peer_state **slowest)
{
    uint64_t least = UINT64_MAX;

    *slowest = NULL;
    for (uint32_t i = 0; i < writer->peer_count; i++) {
        struct ec_port_peer_state *peer = &writer->peers[i];
        uint64_t cursor;

        if (peer->state == EC_READER_NONE)
            admit_peer(writer, peer);
        if (peer->state == EC_READER_NONE && peer->peer.reliable)
            cursor = joined_position(writer, peer);
        else if (peer->state == EC_READER_ADMITTED)
            cursor = atomic_load_explicit(peer->peer.cursor, memory_order_acquire); /* [4] */
        else
            continue;
        if (cursor > writer->position || cursor + writer->capacity < writer->intent) {
            set_peer_state(writer, peer, EC_READER_BROKEN); /* nonsense: never waited for again */
            continue;
        }
        if (cursor < least) {
            least = cursor;
            *slowest = peer;
        }
    }
    return least;
}

/* The reader has held this publisher up since blocked_since: is that long enough? */
static bool demote_if_stalled(struct ec_port_writer *writer, struct ec_port_peer_state *peer)
{
    struct ec_port_reader *row = &writer->port->readers[peer->peer.slot];
    int64_t now = now_ns();

    if (writer->blocked_since == 0)
        writer->blocked_since = now;
    if (now - writer->blocked_since < writer->stall_ns)
        return false;
    atomic_store_explicit(&row->held_up_ns,
                          atomic_load_explicit(&row->held_up_ns, memory_order_relaxed) +
                              (uint64_t)(now - writer->blocked_since),
                          memory_order_relaxed);
    atomic_store_explicit(&row->demotions,
                          atomic_load_explicit(&row->demotions, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    set_peer_state(writer, peer, EC_READER_DEMOTED); /* before the intent that overtakes it */
    return true;
}

/* Look at the cursors: may events be written up to end? Sets the limit. */
static bool make_room(struct ec_port_writer *writer, uint64_t end)
{
    struct ec_port_peer_state *slowest;

    for (;;) {
        uint64_t least = slowest_peer(writer, &slowest);

        writer->limit = least == UINT64_MAX ? writer->position + 2 * writer->capacity
                                            : least + writer->capacity;
        if (end <= writer->limit) {
            writer->blocked_since = 0;
            return true;
        }
        if (!demote_if_stalled(writer, slowest)) {
            struct ec_event_port *port = writer->port;

            atomic_store_explicit(&port->would_block,
                                  atomic_load_explicit(&port->would_block, memory_order_relaxed) +
                                      1,
                                  memory_order_relaxed);
            return false;
        }
    }
}

void ec_port_commit(struct ec_port_writer *writer, const struct ec_event_header *header,
                    uint32_t bytes)
{
    struct ec_event_header event = *header;
    struct ec_port_mark *mark;

    assert(writer->claimed != NULL && bytes <= writer->claimed_bytes);
    event.sequence = writer->sequence;
    event.bytes = bytes;
    event.block = 0;
    ec_port_copy_in(writer->claimed, &event, sizeof event);
    writer->claimed = NULL;
    writer->position += ec_event_size(bytes);
    writer->sequence++;

    /* Where the next event will start. Readers check the sequence before and after: the row of an
     * older event is overwritten here. */
    mark = &writer->port->marks[writer->sequence & (EC_PORT_MARKS - 1)];
    atomic_store_explicit(&mark->sequence, UINT64_MAX, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* with the acquire fence in read_mark */
    atomic_store_explicit(&mark->position, writer->position, memory_order_relaxed);
    atomic_store_explicit(&mark->sequence, writer->sequence, memory_order_release);
}

uint32_t ec_port_flush(struct ec_port_writer *writer)
{
    uint32_t bells = 0;

    if (writer->flushed == writer->position)
        return 0;
    writer->flushed = writer->position;
    atomic_store_explicit(&writer->port->published, writer->sequence, memory_order_release);
    atomic_store_explicit(&writer->port->tail, writer->position, memory_order_release); /* [1] */
    atomic_thread_fence(memory_order_seq_cst);                                          /* [3] */
    if (atomic_load_explicit(&writer->changes, memory_order_relaxed) != NULL)
        ec_port_apply_changes(writer);
    for (uint32_t i = 0; i < writer->peer_count; i++) {
        struct ec_port_peer_state *peer = &writer->peers[i];
        uint32_t epoch = atomic_load_explicit(peer->peer.epoch, memory_order_relaxed);

        if ((epoch & 1) != 0 && epoch != peer->rung) {
            peer->rung = epoch;
            /* A full counter (EAGAIN) is as good as rung; a closed one is a reader that left. */
            if (write(peer->peer.doorbell_fd, &(uint64_t) { 1 }, sizeof(uint64_t)) > 0)
                bells++;
        }
    }
    if (bells != 0)
        atomic_store_explicit(&writer->port->bells,
                              atomic_load_explicit(&writer->port->bells, memory_order_relaxed) +
                                  bells,
                              memory_order_relaxed);
    return bells;
}

struct ec_port_type *ec_port_type_row(struct ec_port_writer *writer, uint64_t type)
{
    struct ec_port_type *rows = writer->port->types;
    uint32_t i;

    for (i = 0; i < EC_PORT_TYPES_MAX - 1; i++) {
        uint64_t known = atomic_load_explicit(&rows[i].type, memory_order_relaxed);

        if (known == type)
            return &rows[i];
        if (known == 0) {
            atomic_store_explicit(&rows[i].type, type, memory_order_release);
            return &rows[i];
        }
    }
    return &rows[i]; /* the last one counts for all that found no row; its type stays 0 */
}

/* ---- a reader ------------------------------------------------------------------------------- */

int ec_port_map(struct ec_segment_map *map, int fd, struct ec_error *why)
{
    const struct ec_event_port *port;
    uint64_t offset;
    uint32_t ring_bytes, mirrored;
    int rc;

    rc = ec_segment_map_init(map, fd, EC_SEGMENT_PORT, EC_PORT_RING_OFFSET + EC_PORT_RING_BYTES_MIN,
                             EC_PORT_RING_OFFSET + (uint64_t)EC_PORT_RING_BYTES_MAX, why);
    if (rc < 0)
        return rc;
    port = map->base;
    ring_bytes = *(const volatile uint32_t *)&port->ring_bytes;
    offset = *(const volatile uint64_t *)&port->ring_offset;
    mirrored = *(const volatile uint32_t *)&port->mirrored;
    if (offset != EC_PORT_RING_OFFSET || ring_bytes < EC_PORT_RING_BYTES_MIN ||
        (ring_bytes & (ring_bytes - 1)) != 0 || offset + ring_bytes != map->bytes || mirrored > 1) {
        ec_segment_map_finish(map);
        return ec_fail(why, EC_ERR_LAYOUT, "ring of %u bytes at %llu does not fill the segment",
                       ring_bytes, (unsigned long long)offset);
    }
    if (mirrored != 0) {
        rc = ec_segment_map_mirror(map, fd, offset, why);
        if (rc < 0)
            ec_segment_map_finish(map);
    }
    return rc;
}

/* The start of the event with this sequence. false: the marks no longer have it. */
static bool read_mark(const struct ec_event_port *port, uint64_t sequence, uint64_t *position)
{
    const struct ec_port_mark *mark = &port->marks[sequence & (EC_PORT_MARKS - 1)];

    if (atomic_load_explicit(&mark->sequence, memory_order_acquire) != sequence)
        return false;
    *position = atomic_load_explicit(&mark->position, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire); /* with the release fence in ec_port_commit */
    return atomic_load_explicit(&mark->sequence, memory_order_relaxed) == sequence;
}

/* Take position and sequence of the next event from the newest mark, which has both together. It is
 * missing only while the publisher laps the marks; a hostile one makes us give up and stay where we
 * are, where the next peek finds out. */
static void find_tail(struct ec_port_reading *reading)
{
    for (int tries = 0; tries < 1000; tries++) {
        uint64_t sequence = atomic_load_explicit(&reading->port->published, memory_order_acquire);
        uint64_t position;

        if (sequence < reading->expected)
            return;
        if (!read_mark(reading->port, sequence, &position) || position < reading->position)
            continue;
        reading->position = position;
        reading->expected = sequence;
        return;
    }
}

void ec_port_reading_init(struct ec_port_reading *reading, const struct ec_segment_map *map,
                          struct ec_cursor_slot *slot, uint64_t reader_id, enum ec_port_start start)
{
    const struct ec_event_port *port = map->base;

    *reading = (struct ec_port_reading) {
        .port = port,
        .ring = (const unsigned char *)port + EC_PORT_RING_OFFSET,
        .capacity = map->bytes - EC_PORT_RING_OFFSET, /* checked by ec_port_map */
        .mirrored = map->mapped_bytes != map->bytes,
        .slot = slot,
    };
    if (start == EC_PORT_START_TAIL)
        find_tail(reading);
    reading->tail = reading->shown = reading->position;
    atomic_store_explicit(&slot->delivered, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->lost_events, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->lost_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->position, reading->position, memory_order_relaxed);
    atomic_store_explicit(&slot->reader_id, reader_id,
                          memory_order_release); /* with admit_peer's acquire */
}

void ec_port_skip_to_tail(struct ec_port_reading *reading)
{
    find_tail(reading);
    reading->tail = reading->position;
    ec_port_show_cursor(reading);
}

void ec_port_reading_finish(struct ec_port_reading *reading)
{
    if (reading->slot != NULL)
        atomic_store_explicit(&reading->slot->reader_id, 0, memory_order_release);
    reading->slot = NULL;
}

bool ec_port_ready(struct ec_port_reading *reading)
{
    if ((int64_t)(reading->tail - reading->position) <= 0)
        reading->tail = atomic_load_explicit(&reading->port->tail, memory_order_acquire); /* [1] */
    return (int64_t)(reading->tail - reading->position) > 0; /* a mark may be ahead of the tail */
}

bool ec_port_intact(const struct ec_port_reading *reading)
{
    atomic_thread_fence(memory_order_acquire); /* [2] */
    return atomic_load_explicit(&reading->port->tail_intent, memory_order_relaxed) <=
           reading->position + reading->capacity;
}

int ec_port_peek(struct ec_port_reading *reading, struct ec_port_item *item)
{
    for (;;) {
        uint64_t offset, available, rest;
        const unsigned char *event;

        if (!ec_port_ready(reading))
            return reading->position - reading->tail <= reading->capacity ? EC_AGAIN
                                                                          : EC_ERR_LAYOUT;
        available = reading->tail - reading->position;
        if (available > reading->capacity)
            return EC_ERR_STALE;
        offset = reading->position & (reading->capacity - 1);
        rest = reading->capacity - offset;
        event = reading->ring + offset;
        if (!reading->mirrored &&
            rest < sizeof item->header) { /* a filler without room for a header */
            if (rest > available)
                return ec_port_intact(reading) ? EC_ERR_LAYOUT : EC_ERR_STALE;
            reading->position += rest;
            continue;
        }
        if (available < sizeof item->header)
            return ec_port_intact(reading) ? EC_ERR_LAYOUT : EC_ERR_STALE;
        ec_port_copy_out(&item->header, event, sizeof item->header);
        if ((item->header.flags & EC_EVENT_PAD) != 0 && !reading->mirrored) {
            if (!ec_port_intact(reading))
                return EC_ERR_STALE;
            if (rest > available)
                return EC_ERR_LAYOUT;
            reading->position += rest;
            continue;
        }
        /* The length was loaded once, above; garbage of a lapped read is told from a broken ring. */
        if (ec_event_size(item->header.bytes) > available ||
            (!reading->mirrored && ec_event_size(item->header.bytes) > rest))
            return ec_port_intact(reading) ? EC_ERR_LAYOUT : EC_ERR_STALE;
        item->payload = event + sizeof item->header;
        return EC_OK;
    }
}

void ec_port_advance(struct ec_port_reading *reading, const struct ec_port_item *item)
{
    reading->position += ec_event_size(item->header.bytes);
    reading->expected = item->header.sequence + 1;
}

void ec_port_show_cursor(struct ec_port_reading *reading)
{
    if (reading->shown == reading->position)
        return;
    reading->shown = reading->position;
    atomic_store_explicit(&reading->slot->position, reading->position,
                          memory_order_release); /* [4] */
}

/* The oldest sequence in [low, high] whose event starts at or after bound. Rows that were overwritten
 * meanwhile count as too old. */
static bool find_mark(const struct ec_event_port *port, uint64_t low, uint64_t high, uint64_t bound,
                      uint64_t *sequence, uint64_t *position)
{
    bool found = false;

    while (low <= high) {
        uint64_t middle = low + (high - low) / 2, at;

        if (read_mark(port, middle, &at) && at >= bound) {
            *sequence = middle;
            *position = at;
            found = true;
            if (middle == low)
                break;
            high = middle - 1;
        } else {
            low = middle + 1;
        }
    }
    return found;
}

bool ec_port_resync(struct ec_port_reading *reading, uint64_t *lost_events, uint64_t *lost_bytes)
{
    const struct ec_event_port *port = reading->port;

    /* The publisher may overtake us while we look; it cannot do so for ever unless it is hostile. */
    for (int tries = 0; tries < 1000; tries++) {
        uint64_t high = atomic_load_explicit(&port->published, memory_order_acquire);
        uint64_t intent = atomic_load_explicit(&port->tail_intent, memory_order_relaxed);
        uint64_t bound = intent > reading->capacity ? intent - reading->capacity : 0;
        uint64_t low = high >= EC_PORT_MARKS ? high - (EC_PORT_MARKS - 1) : 0;
        uint64_t sequence, position;

        if (low < reading->expected)
            low = reading->expected;
        if (bound < reading->position)
            bound = reading->position;
        if (low > high || !find_mark(port, low, high, bound, &sequence, &position))
            continue;
        if (position < reading->position || sequence < reading->expected)
            return false;
        *lost_events = sequence - reading->expected;
        *lost_bytes = position - reading->position;
        reading->lost_events += *lost_events;
        reading->lost_bytes += *lost_bytes;
        reading->position = position;
        reading->expected = sequence;
        reading->tail = position; /* load it anew */
        atomic_store_explicit(&reading->slot->lost_events, reading->lost_events,
                              memory_order_relaxed);
        atomic_store_explicit(&reading->slot->lost_bytes, reading->lost_bytes,
                              memory_order_relaxed);
        ec_port_show_cursor(reading);
        return true;
    }
    return false;
}
