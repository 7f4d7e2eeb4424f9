/* event_port.c - see event_port.h for the protocol and its orders. */
#include "segment/event_port.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "foundation/doorbell.h"
#include "foundation/real_time.h"

/* The intent runs ahead of the claim by up to this much, so that its line, which every reader looks
 * at after each event, changes once per page and not once per event. */
#define INTENT_STEP 4096u

/* A claim takes at most this part of the ring, so that readers always have some way to go. */
#define CLAIM_SHARE 4u

static void give_back(struct ec_port_writer *writer, struct ec_port_change *change);
static bool make_room(struct ec_port_writer *writer, uint64_t end);
static int claim_block(struct ec_port_writer *writer, uint32_t bytes, void **payload);
static void show_keyframe(struct ec_port_writer *writer);
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
#endif

/* ---- the publishing thread: life ------------------------------------------------------------ */

int ec_port_writer_init(struct ec_port_writer *writer, const struct ec_port_writer_desc *desc,
                        struct ec_error *why)
{
    uint32_t block_bytes = (desc->block_bytes + 4095) & ~4095u;
    uint64_t ring_offset = EC_PORT_HEAD_BYTES + (uint64_t)block_bytes * desc->block_count;
    struct ec_segment_desc segment = {
        .name = "engine-core-port",
        .kind = EC_SEGMENT_PORT,
        .bytes = ring_offset + desc->ring_bytes,
        .client_id = desc->client_id,
        .instance = desc->instance,
        .populate = true,
        .mirror_offset = desc->mirrored ? ring_offset : 0,
        .mirror_used = desc->mirrored ? desc->ring_bytes / CLAIM_SHARE : 0,
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
    if (desc->block_bytes > EC_PORT_BLOCK_BYTES_MAX || desc->block_count > EC_PORT_BLOCKS_MAX ||
        (desc->block_bytes == 0) != (desc->block_count == 0))
        return ec_fail(
            why, EC_ERR_PARAM, "%u blocks of %u bytes, expected none or 1..%d of 1..%u bytes",
            desc->block_count, desc->block_bytes, EC_PORT_BLOCKS_MAX, EC_PORT_BLOCK_BYTES_MAX);
    rc = ec_segment_init(&writer->segment, &segment, why);
    if (rc < 0)
        return ec_error_prefix(why, rc, "create port %s", desc->name);

    port = writer->segment.base;
    snprintf(port->name, sizeof port->name, "%s", desc->name);
    port->ring_bytes = desc->ring_bytes;
    port->mirrored = desc->mirrored;
    port->ring_offset = ring_offset;
    port->block_bytes = block_bytes;
    port->block_count = desc->block_count;
    writer->port = port;
    writer->ring = (unsigned char *)port + ring_offset;
    writer->blocks = (unsigned char *)port + EC_PORT_HEAD_BYTES;
    writer->block_bytes = block_bytes;
    writer->block_count = desc->block_count;
    writer->capacity = desc->ring_bytes;
    writer->mirrored = desc->mirrored;
    writer->claim_max = (uint32_t)(writer->capacity / CLAIM_SHARE - sizeof(struct ec_event_header));
    writer->stall_ns = desc->stall_ns;
    return EC_OK;
}

void ec_port_writer_finish(struct ec_port_writer *writer)
{
    struct ec_mail *mail = ec_mailbox_take(&writer->changes);

    for (uint32_t i = 0; i < writer->peer_count; i++)
        give_back(writer, writer->peers[i].added_by);
    writer->peer_count = 0;
    while (mail != NULL) {
        struct ec_mail *next = mail->next;

        ec_mailbox_post(&writer->done, mail);
        mail = next;
    }
    ec_segment_finish(&writer->segment);
    writer->port = NULL;
}

/* ---- the publishing thread: readers come and go --------------------------------------------- */

static struct ec_port_change *change_of(struct ec_mail *mail)
{
    return (struct ec_port_change *)(void *)mail; /* its first member */
}

void ec_port_post(struct ec_port_writer *writer, struct ec_port_change *change)
{
    int doorbell_fd = change->add ? change->peer.doorbell_fd : -1;
    bool is_socket = change->peer.doorbell_is_socket; /* change may go right away */

    ec_mailbox_post(&writer->changes, &change->mail);
    atomic_thread_fence(memory_order_seq_cst); /* [3] */
    if (doorbell_fd >= 0)
        ec_doorbell_ring(doorbell_fd, is_socket);
}

struct ec_port_change *ec_port_take_done(struct ec_port_writer *writer)
{
    return change_of(ec_mailbox_take(&writer->done));
}

static void give_back(struct ec_port_writer *writer, struct ec_port_change *change)
{
    ec_mailbox_post(&writer->done, &change->mail);
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
    struct ec_port_change *change = change_of(ec_mailbox_take(&writer->changes));

    while (change != NULL) {
        struct ec_port_change *next = change_of(change->mail.next);

        if (change->add) {
            add_peer(writer, change);
        } else {
            remove_peer(writer, change->peer.reader_id);
            give_back(writer, change);
        }
        change = next;
    }
    writer->limit = writer->room = 0; /* look at the cursors again */
}

/* ---- the publishing thread: claim, commit, flush -------------------------------------------- */

int ec_port_claim_anew(struct ec_port_writer *writer, uint32_t bytes, void **payload)
{
    uint64_t size = ec_event_size(bytes), offset, end;

    writer->claimed_block = 0;
    if (size > writer->capacity / CLAIM_SHARE)
        return claim_block(writer, bytes, payload);
    if (ec_mailbox_has_mail(&writer->changes))
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
    }
    if (writer->mirrored) /* a ring that is not needs a look at its end each time */
        writer->room = writer->intent < writer->limit ? writer->intent : writer->limit;
    ec_port_take(writer, bytes, payload);
    return EC_OK;
}

/* The payload goes into the block that was used longest ago, once no reliable reader needs it. */
static int claim_block(struct ec_port_writer *writer, uint32_t bytes, void **payload)
{
    uint32_t block = writer->next_block;
    int rc;

    if (bytes > writer->block_bytes)
        return EC_ERR_SIZE;
    rc = ec_port_claim(writer, sizeof(struct ec_event_block), payload);
    if (rc != EC_OK)
        return rc;
    if (writer->block_end[block] + writer->capacity > writer->limit &&
        !make_room(writer, writer->block_end[block] + writer->capacity)) {
        writer->claimed = NULL;
        return EC_AGAIN;
    }
    /* Announce it: readers that still look at its old payload must notice. */
    atomic_store_explicit(&writer->port->block_sequence[block], ++writer->block_sequence,
                          memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* with the acquire fence in ec_port_intact */
    writer->claimed_bytes = bytes;
    writer->claimed_block = block + 1;
    writer->room = 0; /* so that the next claim comes by here and forgets the block */
    *payload = writer->blocks + (size_t)block * writer->block_bytes;
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
    int64_t now = ec_real_ns();

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

void ec_port_keyframe(struct ec_port_writer *writer)
{
    writer->keyframe = true;
}

/* The event that is being committed is a keyframe. Readers that see it before the flush find it behind
 * the tail, where nothing is yet. */
static void show_keyframe(struct ec_port_writer *writer)
{
    struct ec_event_port *port = writer->port;

    writer->keyframe = false;
    atomic_store_explicit(&port->keyframe, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* with the acquire fence in find_keyframe */
    atomic_store_explicit(&port->keyframe_position, writer->position, memory_order_relaxed);
    atomic_store_explicit(&port->keyframe, writer->sequence + 1, memory_order_release);
}

/* The event's payload is in a block: say in which life of it, and until when it is needed. */
static void write_block(struct ec_port_writer *writer)
{
    struct ec_event_block block = { .sequence = writer->block_sequence };

    ec_port_copy_in(writer->claimed + 1, &block, sizeof block);
    writer->block_end[writer->claimed_block - 1] = writer->position + ec_event_size(sizeof block);
    writer->next_block = writer->claimed_block % writer->block_count;
}

void ec_port_commit_rare(struct ec_port_writer *writer, const struct ec_event_header *header,
                         uint32_t bytes)
{
    struct ec_event_header event = *header;

    assert(writer->claimed != NULL && bytes <= writer->claimed_bytes);
    if (writer->keyframe)
        event.flags |= EC_EVENT_KEYFRAME;
    ec_port_write_header(writer, &event, bytes);
    if (writer->claimed_block != 0) {
        write_block(writer);
        bytes = sizeof(struct ec_event_block);
    }
    if (writer->keyframe)
        show_keyframe(writer);
    ec_port_pass(writer, bytes);
}

/* Wake who sleeps, after a store that it waits for. */
static uint32_t ring_readers(struct ec_port_writer *writer)
{
    uint32_t bells = 0;

    atomic_thread_fence(memory_order_seq_cst); /* [3] */
    if (ec_mailbox_has_mail(&writer->changes))
        ec_port_apply_changes(writer);
    for (uint32_t i = 0; i < writer->peer_count; i++) {
        struct ec_port_peer_state *peer = &writer->peers[i];
        uint32_t epoch = atomic_load_explicit(peer->peer.epoch, memory_order_relaxed);

        if ((epoch & 1) != 0 && epoch != peer->rung) {
            peer->rung = epoch;
            bells += ec_doorbell_ring(peer->peer.doorbell_fd, peer->peer.doorbell_is_socket);
        }
    }
    if (bells != 0)
        atomic_store_explicit(&writer->port->bells,
                              atomic_load_explicit(&writer->port->bells, memory_order_relaxed) +
                                  bells,
                              memory_order_relaxed);
    return bells;
}

uint32_t ec_port_flush(struct ec_port_writer *writer)
{
    if (writer->flushed == writer->position)
        return 0;
    writer->flushed = writer->position;
    atomic_store_explicit(&writer->port->published, writer->sequence, memory_order_release);
    atomic_store_explicit(&writer->port->tail, writer->position, memory_order_release); /* [1] */
    return ring_readers(writer);
}

void ec_port_step_passed(struct ec_port_writer *writer, uint64_t step)
{
    if (step <= atomic_load_explicit(&writer->port->step_passed, memory_order_relaxed))
        return;
    atomic_store_explicit(&writer->port->step_passed, step,
                          memory_order_release); /* its events were flushed before */
    ring_readers(writer);
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

/* Load what the port says of itself, once, and see whether that fills the segment. */
static int check_port(struct ec_port_view *view, uint64_t *ring_offset, struct ec_error *why)
{
    const volatile struct ec_event_port *port = view->map.base; /* each field is loaded once */
    uint32_t mirrored = port->mirrored;

    view->ring_bytes = port->ring_bytes;
    view->block_bytes = port->block_bytes;
    view->block_count = port->block_count;
    view->mirrored = mirrored == 1;
    *ring_offset = port->ring_offset;
    if (view->block_count > EC_PORT_BLOCKS_MAX || view->block_bytes > EC_PORT_BLOCK_BYTES_MAX ||
        view->block_bytes % 4096 != 0 || (view->block_count == 0) != (view->block_bytes == 0))
        return ec_fail(why, EC_ERR_LAYOUT, "%u blocks of %u bytes are not possible",
                       view->block_count, view->block_bytes);
    if (*ring_offset != EC_PORT_HEAD_BYTES + (uint64_t)view->block_bytes * view->block_count ||
        view->ring_bytes < EC_PORT_RING_BYTES_MIN || view->ring_bytes > EC_PORT_RING_BYTES_MAX ||
        (view->ring_bytes & (view->ring_bytes - 1)) != 0 ||
        *ring_offset + view->ring_bytes != view->map.bytes || mirrored > 1)
        return ec_fail(why, EC_ERR_LAYOUT, "ring of %u bytes at %llu does not fill the segment",
                       view->ring_bytes, (unsigned long long)*ring_offset);
    return EC_OK;
}

int ec_port_view_init(struct ec_port_view *view, int fd, struct ec_error *why)
{
    uint64_t ring_offset = 0;
    int rc;

    *view = (struct ec_port_view) { 0 };
    rc = ec_segment_map_init(&view->map, fd, EC_SEGMENT_PORT,
                             EC_PORT_HEAD_BYTES + EC_PORT_RING_BYTES_MIN,
                             EC_PORT_HEAD_BYTES + (uint64_t)EC_PORT_RING_BYTES_MAX +
                                 (uint64_t)EC_PORT_BLOCK_BYTES_MAX * EC_PORT_BLOCKS_MAX,
                             why);
    if (rc == EC_OK)
        rc = check_port(view, &ring_offset, why);
    if (rc == EC_OK && view->mirrored)
        rc = ec_segment_map_mirror(&view->map, fd, ring_offset, why);
    if (rc < 0) {
        ec_port_view_finish(view);
        return rc;
    }
    view->port = view->map.base;
    view->blocks = (const unsigned char *)view->map.base + EC_PORT_HEAD_BYTES;
    view->ring = (const unsigned char *)view->map.base + ring_offset;
    return EC_OK;
}

void ec_port_view_own(struct ec_port_view *view, const struct ec_port_writer *writer)
{
    *view = (struct ec_port_view) {
        .port = writer->port,
        .blocks = writer->blocks,
        .ring = writer->ring,
        .ring_bytes = (uint32_t)writer->capacity,
        .block_bytes = writer->block_bytes,
        .block_count = writer->block_count,
        .mirrored = writer->mirrored,
    };
}

void ec_port_view_finish(struct ec_port_view *view)
{
    ec_segment_map_finish(&view->map);
    *view = (struct ec_port_view) { 0 };
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

/* The oldest sequence in [low, high] whose event starts at or after bound. Rows that were overwritten
 * meanwhile count as too old. It goes by the count of what is left, which ends also where the publisher
 * claims sequences up to the largest number. */
static bool find_mark(const struct ec_event_port *port, uint64_t low, uint64_t high, uint64_t bound,
                      uint64_t *sequence, uint64_t *position)
{
    bool found = false;
    uint64_t left = high - low + 1;

    assert(low <= high && high - low < EC_PORT_MARKS);
    *sequence = *position = 0; /* as long as nothing is found */
    while (left > 0) {
        uint64_t half = left / 2, middle = low + half, at;

        if (read_mark(port, middle, &at) && at >= bound) {
            *sequence = middle;
            *position = at;
            found = true;
            left = half;
        } else {
            low = middle + 1;
            left -= half + 1;
        }
    }
    return found;
}

/* Go to the newest keyframe. false: there is none, or the ring no longer holds it. */
static bool find_keyframe(struct ec_port_reading *reading)
{
    const struct ec_event_port *port = reading->port;

    for (int tries = 0; tries < 1000; tries++) {
        uint64_t keyframe = atomic_load_explicit(&port->keyframe, memory_order_acquire);
        uint64_t position = atomic_load_explicit(&port->keyframe_position, memory_order_relaxed);

        atomic_thread_fence(memory_order_acquire); /* with the release fence in show_keyframe */
        if (keyframe != atomic_load_explicit(&port->keyframe, memory_order_relaxed))
            continue;
        if (keyframe == 0)
            return false;
        if (position < reading->position || keyframe - 1 < reading->expected ||
            atomic_load_explicit(&port->tail_intent, memory_order_relaxed) >
                position + reading->capacity)
            return false;
        reading->position = position;
        reading->expected = keyframe - 1;
        return true;
    }
    return false;
}

static uint64_t oldest_position(const struct ec_port_reading *reading)
{
    uint64_t intent = atomic_load_explicit(&reading->port->tail_intent, memory_order_relaxed);

    return intent > reading->capacity ? intent - reading->capacity : 0;
}

/* Go back by n events from the newest, as far as ring and marks hold them. */
static bool find_history(struct ec_port_reading *reading, uint32_t n)
{
    uint64_t high = atomic_load_explicit(&reading->port->published, memory_order_acquire);
    uint64_t reach = n < EC_PORT_MARKS ? n : EC_PORT_MARKS - 1;
    uint64_t low = high > reach ? high - reach : 0;
    uint64_t sequence, position;

    if (low < reading->expected)
        low = reading->expected;
    if (low > high ||
        !find_mark(reading->port, low, high, oldest_position(reading), &sequence, &position) ||
        position < reading->position)
        return false;
    reading->position = position;
    reading->expected = sequence;
    return true;
}

static void find_start(struct ec_port_reading *reading, enum ec_port_start start, uint32_t history)
{
    if (start == EC_PORT_START_OLDEST)
        return; /* at 0, from where the first peek goes on to what the ring still holds */
    if (start == EC_PORT_START_KEYFRAME && find_keyframe(reading))
        return;
    if (start == EC_PORT_START_HISTORY && find_history(reading, history))
        return;
    find_tail(reading);
}

void ec_port_reading_init(struct ec_port_reading *reading, const struct ec_port_view *view,
                          struct ec_cursor_slot *slot, uint64_t reader_id, enum ec_port_start start,
                          uint32_t history)
{
    *reading = (struct ec_port_reading) {
        .port = view->port,
        .ring = view->ring,
        .blocks = view->blocks,
        .capacity = view->ring_bytes,
        .block_bytes = view->block_bytes,
        .block_count = view->block_count,
        .mirrored = view->mirrored,
        .slot = slot,
    };
    find_start(reading, start, history);
    reading->tail = reading->shown = reading->position;
    atomic_store_explicit(&slot->delivered, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->lost_events, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->lost_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->position, reading->position, memory_order_relaxed);
    atomic_store_explicit(&slot->reader_id, reader_id,
                          memory_order_release); /* with admit_peer's acquire */
}

void ec_port_seek(struct ec_port_reading *reading, enum ec_port_start start, uint32_t history)
{
    find_start(reading, start, history);
    reading->tail = reading->position;
    ec_port_show_cursor(reading);
}

void ec_port_reading_leave(struct ec_port_reading *reading, struct ec_cursor_slot *spare)
{
    if (reading->slot != NULL)
        atomic_store_explicit(&reading->slot->reader_id, 0, memory_order_release);
    reading->slot = spare;
}

void ec_port_reading_finish(struct ec_port_reading *reading)
{
    ec_port_reading_leave(reading, NULL);
}

/* The event's payload lies in a block: find it, once the event itself is known to be whole. */
static int peek_block(struct ec_port_reading *reading, struct ec_port_item *item,
                      const unsigned char *event)
{
    struct ec_event_block block;

    ec_port_copy_out(&block, event + sizeof item->header, sizeof block);
    if (!ec_port_intact(reading))
        return EC_ERR_STALE;
    if (item->header.block > reading->block_count || item->header.bytes > reading->block_bytes)
        return EC_ERR_LAYOUT;
    reading->block = item->header.block;
    reading->block_sequence = block.sequence;
    item->payload = reading->blocks + (size_t)(item->header.block - 1) * reading->block_bytes;
    return ec_port_intact(reading) ? EC_OK : EC_ERR_STALE;
}

int ec_port_peek_anew(struct ec_port_reading *reading, struct ec_port_item *item)
{
    reading->block = 0;
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
        if (ec_event_ring_size(&item->header) > available ||
            (!reading->mirrored && ec_event_ring_size(&item->header) > rest))
            return ec_port_intact(reading) ? EC_ERR_LAYOUT : EC_ERR_STALE;
        if (item->header.block != 0)
            return peek_block(reading, item, event);
        item->payload = event + sizeof item->header;
        return EC_OK;
    }
}

static void count_lost(struct ec_port_reading *reading, uint64_t sequence, uint64_t position,
                       uint64_t *lost_events, uint64_t *lost_bytes)
{
    *lost_events = sequence - reading->expected;
    *lost_bytes = position - reading->position;
    reading->lost_events += *lost_events;
    reading->lost_bytes += *lost_bytes;
    reading->position = position;
    reading->expected = sequence;
    reading->block = 0;
    atomic_store_explicit(&reading->slot->lost_events, reading->lost_events, memory_order_relaxed);
    atomic_store_explicit(&reading->slot->lost_bytes, reading->lost_bytes, memory_order_relaxed);
    ec_port_show_cursor(reading);
}

bool ec_port_resync(struct ec_port_reading *reading, uint64_t *lost_events, uint64_t *lost_bytes)
{
    const struct ec_event_port *port = reading->port;

    if (reading->block != 0 &&
        ec_port_ring_is_intact(reading)) { /* only this one's block was used again */
        count_lost(reading, reading->expected + 1,
                   reading->position + ec_event_size(sizeof(struct ec_event_block)), lost_events,
                   lost_bytes);
        return true;
    }

    /* The publisher may overtake us while we look; it cannot do so for ever unless it is hostile. */
    for (int tries = 0; tries < 1000; tries++) {
        uint64_t high = atomic_load_explicit(&port->published, memory_order_acquire);
        uint64_t bound = oldest_position(reading);
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
        count_lost(reading, sequence, position, lost_events, lost_bytes);
        reading->tail = position; /* load it anew */
        return true;
    }
    return false;
}
