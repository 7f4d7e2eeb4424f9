/* segment/event_port.h - both sides of an event port: the publishing thread and a reader.
 *
 *            cursor of the slowest        tail            tail_intent
 *            reliable reader v              v                v
 *   ... |############|#####################|::::::::::::::::|........ positions, in bytes
 *       ^ tail_intent - ring_bytes           being written
 *
 * Publisher                                   Reader
 *   claim:  tail_intent := end of claim         tail (acquire)            [1]
 *           release fence            [2]        copy the event header, use the payload
 *           write header and payload            acquire fence             [2]
 *   flush:  marks, published, tail (release) [1]  tail_intent: position + ring_bytes below it?
 *           full fence               [3]          then the event was overwritten meanwhile: lapped
 *           mailbox; epoch odd? ring once       cursor := position (release)          [4]
 *   full:   cursor (acquire)         [4]        sleep: silence the bell, epoch odd, full fence [3],
 *                                                 tail once more
 *
 * [1] Who sees the tail sees the events before it.
 * [2] Who reads any new byte also sees the intent that announced it. A release store of the intent
 *     would not do: it keeps earlier writes before it, and here the bytes come after.
 * [3] Store-load on both sides (Dekker): either the reader sees the new tail, or the publisher sees
 *     the odd epoch. An epoch is rung once, so a reader that is slow to wake costs nothing. Who joins
 *     is posted to the mailbox, then a full fence, then its bell: either the publisher sees the post in
 *     its flush, or the reader, woken, sees the tail.
 * [4] The reader has used all before its cursor; the publisher may overwrite it.
 *
 * A reliable reader is waited for from the moment that the publishing thread knows it, at the tail of
 * that moment, until its own cursor is there: nothing is lost in between.
 *
 * A payload over a quarter of the ring lies in a block of its own. A block is used again when every
 * reliable reader has passed its event; its sequence changes (relaxed store, release fence) before the
 * first byte is overwritten, and readers look at it again after use (acquire fence), as in [2].
 *
 * Every reader validates after use, reliable ones too: they may be demoted while they read. What a
 * reader finds in a port is a stranger's: lengths are loaded once and bounded, positions masked. What
 * a publisher finds in a cursor is a stranger's: outside of the ring it marks the reader broken.
 *
 * Models: tests/models/event_port.pml, event_block.pml, event_cursor.pml and event_sleep.pml, store buffers
 * included. */
#ifndef EC_SEGMENT_EVENT_PORT_H
#define EC_SEGMENT_EVENT_PORT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "foundation/error.h"
#include "foundation/mailbox.h"
#include "proto/cursor_segment.h"
#include "proto/event_port.h"
#include "segment/segment.h"

/* What a port's event header becomes once it was copied out. */
struct ec_port_item {
    struct ec_event_header header;
    const void *payload;
};

/* ---- the publishing thread ------------------------------------------------------------------ */

/* A reader as its publisher knows it. The three words lie in the reader's cursor segment. */
struct ec_port_peer {
    uint64_t reader_id;
    const _Atomic uint64_t *cursor;
    const _Atomic uint64_t
        *cursor_owner; /* reader_id once the cursor is valid: see cursor_segment.h */
    const _Atomic uint32_t *epoch;
    int doorbell_fd; /* see foundation/doorbell.h */
    bool doorbell_is_socket;
    uint32_t slot; /* in the port's readers[] */
    bool reliable; /* asked for */
    void *context; /* whoever added it gets this back when it is removed */
};

/* Readers come and go by way of a mailbox, because only the publishing thread may look at them. */
struct ec_port_change {
    struct ec_mail mail;
    bool add; /* else remove by reader_id */
    struct ec_port_peer peer;
};

struct ec_port_peer_state {
    struct ec_port_peer peer;
    struct ec_port_change *added_by; /* goes to done when the peer is removed */
    enum ec_port_reader_state state;
    uint64_t joined; /* the tail when the publishing thread learned of it */
    uint32_t rung;   /* the epoch that was last rung */
};

struct ec_port_writer {
    /* What each event takes. */
    struct ec_event_port *port; /* the writable mapping */
    unsigned char *ring;
    uint64_t capacity;
    uint64_t position; /* end of the committed events, those of an open batch included */
    uint64_t room;     /* events may end here without any look: at cursors or the intent */
    struct ec_event_header *claimed; /* NULL: none */
    uint64_t sequence;               /* of the next event */
    uint32_t claim_max;              /* payloads up to here go into the ring */
    uint32_t claimed_bytes;
    uint32_t claimed_block; /* index + 1; 0: the payload is in the ring */
    bool keyframe;          /* the next event is one */
    bool mirrored;

    uint64_t limit;   /* events may end here without looking at cursors again */
    uint64_t flushed; /* the tail that readers see */
    uint64_t intent;  /* the tail_intent that readers see */

    struct ec_segment segment;
    unsigned char *blocks;
    uint32_t block_bytes, block_count;
    uint32_t next_block;                    /* the one that was used longest ago */
    uint64_t block_sequence;                /* of the block that was claimed last */
    uint64_t block_end[EC_PORT_BLOCKS_MAX]; /* free again when all reliable readers are here */

    int64_t stall_ns;      /* a reader that holds up for longer is demoted */
    int64_t blocked_since; /* 0: not blocked */

    struct ec_mailbox changes; /* to the publishing thread */
    struct ec_mailbox done;    /* the other way: what may be freed */
    uint32_t peer_count;
    struct ec_port_peer_state peers[EC_PORT_READERS_MAX];
};

struct ec_port_writer_desc {
    const char *name;
    uint32_t ring_bytes;
    uint64_t client_id;
    uint64_t instance;
    int64_t stall_ns;
    bool mirrored; /* false: events never cross the ring's end, a filler takes the rest */
    uint32_t
        block_bytes; /* for payloads over a quarter of the ring; rounded up to pages; 0: none */
    uint32_t block_count;
};

/* Create the segment. Returns EC_OK, EC_ERR_PARAM (names the value and its range), EC_ERR_MEMORY,
 * EC_ERR_SYSTEM. */
int ec_port_writer_init(struct ec_port_writer *writer, const struct ec_port_writer_desc *desc,
                        struct ec_error *why);
/* Thread: any, once the publishing thread has stopped. All changes that are left are in done then. */
void ec_port_writer_finish(struct ec_port_writer *writer);

/* Reserve room; again without a commit: the same room anew.
 * Returns EC_OK, EC_AGAIN or EC_ERR_SIZE (over a quarter of the ring, and over a block). */
static inline int ec_port_claim(struct ec_port_writer *writer, uint32_t bytes, void **payload);

/* Finish the claimed event; header.sequence, bytes and block are set here. Readers see it after flush. */
static inline void ec_port_commit(struct ec_port_writer *writer,
                                  const struct ec_event_header *header, uint32_t bytes);

/* The next event that is committed is a keyframe: late joiners may start there. */
void ec_port_keyframe(struct ec_port_writer *writer);

/* No event of this step or an earlier one will come any more; never goes back. Wakes sleeping readers,
 * which may wait for just that. */
void ec_port_step_passed(struct ec_port_writer *writer, uint64_t step);

/* Make all committed events visible and wake sleeping readers. Returns the number of bells rung. */
uint32_t ec_port_flush(struct ec_port_writer *writer);

/* Hand over a change; a reader that joins is rung, for what was published before it was known.
 * Thread: any. The writer owns the change until it comes back from ec_port_take_done. */
void ec_port_post(struct ec_port_writer *writer, struct ec_port_change *change);
/* The oldest of the changes that the publishing thread has dealt with; its mail has the next. NULL: none.
 * Thread: any. */
struct ec_port_change *ec_port_take_done(struct ec_port_writer *writer);
/* Look at the mailbox now. Thread: the publishing one. */
void ec_port_apply_changes(struct ec_port_writer *writer);

/* Find or take the row of a type in the port's statistics. Thread: the publishing one. */
struct ec_port_type *ec_port_type_row(struct ec_port_writer *writer, uint64_t type);

/* ---- a reader ------------------------------------------------------------------------------- */

/* A mapped port; the numbers were loaded once and checked against the size of the segment. */
struct ec_port_view {
    struct ec_segment_map map; /* base NULL: the writer's own mapping is used */
    const struct ec_event_port *port;
    const unsigned char *blocks;
    const unsigned char *ring;
    uint32_t ring_bytes;
    uint32_t block_bytes, block_count;
    bool mirrored;
};

struct ec_port_reading {
    const struct ec_event_port *port; /* read-only, a stranger's */
    const unsigned char *ring;
    const unsigned char *blocks;
    uint64_t capacity;
    uint32_t block_bytes, block_count;
    bool mirrored;
    struct ec_cursor_slot *slot; /* own */

    uint32_t block;          /* of the event last looked at: index + 1; 0: in the ring */
    uint64_t block_sequence; /* that the event named */

    uint64_t position; /* of the next event */
    uint64_t tail;     /* as last seen */
    uint64_t expected; /* sequence of the next event */
    uint64_t shown;    /* the cursor that the publisher sees */
    uint64_t lost_events, lost_bytes;
};

enum ec_port_start {
    EC_PORT_START_TAIL,     /* what is published from now on */
    EC_PORT_START_OLDEST,   /* all since the port was opened, as far as the ring still holds it */
    EC_PORT_START_KEYFRAME, /* from the newest keyframe; none in the ring: from the tail */
    EC_PORT_START_HISTORY,  /* the last n events, as far as the ring still holds them */
};

/* Check a port that a stranger handed in and map it. Returns EC_OK, EC_ERR_LAYOUT, EC_ERR_SYSTEM. */
int ec_port_view_init(struct ec_port_view *view, int fd, struct ec_error *why);
/* The port of a writer in this process, seen through the writer's mapping. */
void ec_port_view_own(struct ec_port_view *view, const struct ec_port_writer *writer);
void ec_port_view_finish(struct ec_port_view *view); /* accepts a zeroed one */

/* Begin to read. The view must stay until the end; the slot is the reader's own. Publishes the cursor
 * and then reader_id, for the publisher to admit it. history is the n of EC_PORT_START_HISTORY. */
void ec_port_reading_init(struct ec_port_reading *reading, const struct ec_port_view *view,
                          struct ec_cursor_slot *slot, uint64_t reader_id, enum ec_port_start start,
                          uint32_t history);
/* Begin anew, further on: what is passed over is not counted as lost. */
void ec_port_seek(struct ec_port_reading *reading, enum ec_port_start start, uint32_t history);
/* Give the slot back: its reader_id becomes 0. Reading may go on to the end of the port, with a slot that
 * nobody looks at; with NULL it is over. */
void ec_port_reading_leave(struct ec_port_reading *reading, struct ec_cursor_slot *spare);
void ec_port_reading_finish(struct ec_port_reading *reading);

/* Look at the next event.
 *
 * Returns EC_OK, EC_AGAIN (none), EC_ERR_STALE (lapped: call ec_port_resync) or EC_ERR_LAYOUT (the
 * ring makes no sense: stop reading it). */
static inline int ec_port_peek(struct ec_port_reading *reading, struct ec_port_item *item);

/* After use: true when item was whole all the time. Then go on with ec_port_advance. */
static inline bool ec_port_ring_is_intact(const struct ec_port_reading *reading)
{
    return atomic_load_explicit(&reading->port->tail_intent, memory_order_relaxed) <=
           reading->position + reading->capacity;
}

static inline bool ec_port_intact(const struct ec_port_reading *reading)
{
    atomic_thread_fence(memory_order_acquire); /* [2] */
    if (reading->block != 0)                   /* its event was whole when it was copied out */
        return atomic_load_explicit(&reading->port->block_sequence[reading->block - 1],
                                    memory_order_relaxed) == reading->block_sequence;
    return ec_port_ring_is_intact(reading);
}

static inline void ec_port_advance(struct ec_port_reading *reading, const struct ec_port_item *item)
{
    reading->block = 0;
    reading->position += ec_event_ring_size(&item->header);
    reading->expected = item->header.sequence + 1;
}

/* Tell the publisher how far this reader is; once per poll, not per event. */
static inline void ec_port_show_cursor(struct ec_port_reading *reading)
{
    if (reading->shown == reading->position)
        return;
    reading->shown = reading->position;
    atomic_store_explicit(&reading->slot->position, reading->position,
                          memory_order_release); /* [4] */
}

/* Go to the oldest event that still stands. Fills in what was lost; false: the marks make no sense
 * (EC_ERR_LAYOUT to the caller). */
bool ec_port_resync(struct ec_port_reading *reading, uint64_t *lost_events, uint64_t *lost_bytes);

/* Anything to read? One acquire load when the cached tail is used up. */
static inline bool ec_port_ready(struct ec_port_reading *reading)
{
    if ((int64_t)(reading->tail - reading->position) <= 0)
        reading->tail = atomic_load_explicit(&reading->port->tail, memory_order_acquire); /* [1] */
    return (int64_t)(reading->tail - reading->position) > 0; /* a mark may be ahead of the tail */
}

/* ---- payload words -------------------------------------------------------------------------- */

/* Copy into or out of a ring whose other side may write or read at the same time. In the tsan build
 * the words are relaxed atomics, because a lapped read is a race by the letter; elsewhere memcpy. */
#ifdef EC_TSAN
void ec_port_copy_in(void *ring, const void *from, size_t bytes);
void ec_port_copy_out(void *to, const void *ring, size_t bytes);
#else
static inline void ec_port_copy_in(void *ring, const void *from, size_t bytes)
{
    memcpy(ring, from, bytes);
}

static inline void ec_port_copy_out(void *to, const void *ring, size_t bytes)
{
    memcpy(to, ring, bytes);
}
#endif

/* ---- what each event takes ------------------------------------------------------------------- */

/* The common case of claim, commit and peek stands here, to become part of its caller; whatever else
 * there is to be looked at is in event_port.c. */

int ec_port_claim_anew(struct ec_port_writer *writer, uint32_t bytes, void **payload);
void ec_port_commit_rare(struct ec_port_writer *writer, const struct ec_event_header *header,
                         uint32_t bytes);
int ec_port_peek_anew(struct ec_port_reading *reading, struct ec_port_item *item);

/* Is the room behind the position free, and is there nothing else to do first? */
static inline bool ec_port_has_room(const struct ec_port_writer *writer, uint32_t bytes)
{
    return bytes <= writer->claim_max && writer->position + ec_event_size(bytes) <= writer->room &&
           !ec_mailbox_has_mail(&writer->changes);
}

/* It is: give it out. */
static inline void ec_port_take(struct ec_port_writer *writer, uint32_t bytes, void **payload)
{
    unsigned char *event = writer->ring + (writer->position & (writer->capacity - 1));

    writer->claimed = (struct ec_event_header *)(void *)event;
    writer->claimed_bytes = bytes;
    *payload = event + sizeof(struct ec_event_header);
}

static inline int ec_port_claim(struct ec_port_writer *writer, uint32_t bytes, void **payload)
{
    if (!ec_port_has_room(writer, bytes))
        return ec_port_claim_anew(writer, bytes, payload);
    ec_port_take(writer, bytes, payload);
    return EC_OK;
}

/* Two halves of a word of the header, the first one at the lower address. */
static inline uint64_t ec_port_pair(uint32_t first, uint32_t second)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return (uint64_t)first << 32 | second;
#else
    return first | (uint64_t)second << 32;
#endif
}

/* Into the ring, word by word. What was stored a moment ago as single words must not be read back in
 * larger ones, as a copy of the struct would: a processor cannot forward that, and waits until its stores
 * have left for the cache, where another processor may just hold the line. */
static inline void ec_port_write_header(struct ec_port_writer *writer,
                                        const struct ec_event_header *header, uint32_t bytes)
{
    _Atomic uint64_t *words = (_Atomic uint64_t *)(void *)writer->claimed;

    atomic_store_explicit(&words[0], header->type, memory_order_relaxed);
    atomic_store_explicit(&words[1], (uint64_t)header->time_ns, memory_order_relaxed);
    atomic_store_explicit(&words[2], writer->sequence, memory_order_relaxed);
    atomic_store_explicit(&words[3], header->step, memory_order_relaxed);
    atomic_store_explicit(&words[4], ec_port_pair(header->sender, bytes), memory_order_relaxed);
    atomic_store_explicit(&words[5], ec_port_pair(writer->claimed_block, header->flags),
                          memory_order_relaxed);
}

/* Go behind the event, of which so many bytes stand in the ring, and mark where the next one will start.
 * Readers check the mark's sequence before and after: the row of an older event is overwritten here. */
static inline void ec_port_pass(struct ec_port_writer *writer, uint32_t bytes)
{
    const uint64_t position = writer->position + ec_event_size(bytes);
    const uint64_t sequence = writer->sequence + 1;
    struct ec_port_mark *mark = &writer->port->marks[sequence & (EC_PORT_MARKS - 1)];

    writer->claimed = NULL;
    writer->position = position;
    writer->sequence = sequence;
    atomic_store_explicit(&mark->sequence, UINT64_MAX, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* with the acquire fence in read_mark */
    atomic_store_explicit(&mark->position, position, memory_order_relaxed);
    atomic_store_explicit(&mark->sequence, sequence, memory_order_release);
}

/* Is the claimed event one that just has to be written? */
static inline bool ec_port_is_plain(const struct ec_port_writer *writer)
{
    return writer->claimed_block == 0 && !writer->keyframe;
}

/* Commit it then. header need not be in memory for that. */
static inline void ec_port_commit_plain(struct ec_port_writer *writer,
                                        const struct ec_event_header *header, uint32_t bytes)
{
    assert(writer->claimed != NULL && bytes <= writer->claimed_bytes);
    ec_port_write_header(writer, header, bytes);
    ec_port_pass(writer, bytes);
}

static inline void ec_port_commit(struct ec_port_writer *writer,
                                  const struct ec_event_header *header, uint32_t bytes)
{
    if (ec_port_is_plain(writer))
        ec_port_commit_plain(writer, header, bytes);
    else
        ec_port_commit_rare(writer, header, bytes);
}

static inline int ec_port_peek(struct ec_port_reading *reading, struct ec_port_item *item)
{
    if (reading->mirrored && ec_port_ready(reading)) {
        const uint64_t available = reading->tail - reading->position;
        const unsigned char *event = reading->ring + (reading->position & (reading->capacity - 1));

        if (available >= sizeof item->header && available <= reading->capacity) {
            ec_port_copy_out(&item->header, event, sizeof item->header); /* the length, once */
            if (item->header.block == 0 && ec_event_size(item->header.bytes) <= available) {
                reading->block = 0;
                item->payload = event + sizeof item->header;
                return EC_OK;
            }
        }
    }
    return ec_port_peek_anew(reading, item);
}

#endif
