/* The port promises: a reader gets each event whole and once, or is told exactly what it lost; a
 * publisher is held up by reliable readers only, and by nobody for longer than the stall time. */
#include "segment/event_port.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define RING EC_PORT_RING_BYTES_MIN
#define READER_ID 7
#define FOREVER INT64_MAX

static struct ec_port_writer writer;
static struct ec_cursor_segment *cursors; /* ordinary memory does */
static struct ec_error why;

static void make_writer(bool mirrored, int64_t stall_ns)
{
    struct ec_port_writer_desc desc = { .name = "test",
                                        .ring_bytes = RING,
                                        .client_id = 3,
                                        .stall_ns = stall_ns,
                                        .mirrored = mirrored };

    ck_assert_msg(ec_port_writer_init(&writer, &desc, &why) == EC_OK, "%s", why.text);
}

static void setup(void)
{
    cursors = aligned_alloc(_Alignof(struct ec_cursor_segment), sizeof *cursors);
    ck_assert_ptr_nonnull(cursors);
    memset(cursors, 0, sizeof *cursors);
#ifdef EC_TSAN
    make_writer(false, FOREVER);
#else
    make_writer(true, FOREVER);
#endif
}

static void teardown(void)
{
    struct ec_port_change *change;

    ec_port_writer_finish(&writer);
    while ((change = ec_port_take_done(&writer)) != NULL) {
        while (change != NULL) {
            struct ec_port_change *next = (struct ec_port_change *)(void *)change->mail.next;

            free(change);
            change = next;
        }
    }
    free(cursors);
}

static void read_from_history(struct ec_port_reading *reading, uint32_t cursor,
                              enum ec_port_start start, uint32_t history)
{
    struct ec_port_view view;

    ec_port_view_own(&view, &writer); /* as a reader of the same process sees it */
    ec_port_reading_init(reading, &view, &cursors->cursor[cursor], READER_ID + cursor, start,
                         history);
}

static void read_from(struct ec_port_reading *reading, uint32_t cursor, enum ec_port_start start)
{
    read_from_history(reading, cursor, start, 0);
}

static void add_reader(uint32_t cursor, bool reliable, int doorbell_fd)
{
    struct ec_port_change *change = calloc(1, sizeof *change);

    ck_assert_ptr_nonnull(change);
    change->add = true;
    change->peer = (struct ec_port_peer) {
        .reader_id = READER_ID + cursor,
        .cursor = &cursors->cursor[cursor].position,
        .cursor_owner = &cursors->cursor[cursor].reader_id,
        .epoch = &cursors->sleep[cursor].epoch,
        .doorbell_fd = doorbell_fd,
        .slot = cursor,
        .reliable = reliable,
    };
    ec_port_post(&writer, change);
}

static void remove_reader(uint32_t cursor)
{
    struct ec_port_change *change = calloc(1, sizeof *change);

    ck_assert_ptr_nonnull(change);
    change->peer.reader_id = READER_ID + cursor;
    ec_port_post(&writer, change);
}

/* Publish bytes that all follow from the number. */
static int publish(uint64_t number, uint32_t bytes)
{
    struct ec_event_header header = { .type = 1, .time_ns = 1 };
    unsigned char payload[4096];
    void *room;
    int rc = ec_port_claim(&writer, bytes, &room);

    if (rc != EC_OK)
        return rc;
    for (uint32_t i = 0; i < bytes; i++)
        payload[i] = (unsigned char)(number * 31 + i);
    ec_port_copy_in(room, payload, bytes);
    ec_port_commit(&writer, &header, bytes);
    ec_port_flush(&writer);
    return EC_OK;
}

static bool payload_is(const struct ec_port_item *item, uint64_t number)
{
    unsigned char payload[4096];

    if (item->header.bytes > sizeof payload)
        return false;
    ec_port_copy_out(payload, item->payload, item->header.bytes);
    for (uint32_t i = 0; i < item->header.bytes; i++)
        if (payload[i] != (unsigned char)(number * 31 + i))
            return false;
    return true;
}

/* Read the next event, which must be this one. */
static void expect(struct ec_port_reading *reading, uint64_t number, uint32_t bytes)
{
    struct ec_port_item item;

    ck_assert_int_eq(ec_port_peek(reading, &item), EC_OK);
    ck_assert_uint_eq(item.header.sequence, number);
    ck_assert_uint_eq(item.header.bytes, bytes);
    ck_assert_uint_eq((uintptr_t)item.payload % EC_EVENT_ALIGN, 0);
    ck_assert(payload_is(&item, number));
    ck_assert(ec_port_intact(reading));
    ec_port_advance(reading, &item);
    ec_port_show_cursor(reading);
}

static void expect_none(struct ec_port_reading *reading)
{
    struct ec_port_item item;

    ck_assert_int_eq(ec_port_peek(reading, &item), EC_AGAIN);
}

/* All lost events had 64 bytes; without a mirror the fillers at the ring's end are lost with them. */
static void expect_lost_bytes(uint64_t events, uint64_t bytes)
{
    if (writer.mirrored)
        ck_assert_uint_eq(bytes, events * ec_event_size(64));
    else
        ck_assert_uint_ge(bytes, events * ec_event_size(64));
}

/* ---- order and visibility -------------------------------------------------------------------- */

START_TEST(events_come_whole_and_in_order_round_the_ring)
{
    struct ec_port_reading reading;

    if (_i == 1) {
        ec_port_writer_finish(&writer);
        make_writer(false, FOREVER); /* a ring that is not mirrored: fillers at its end */
    }
    read_from(&reading, 0, EC_PORT_START_TAIL);
    for (uint64_t n = 0; n < 5000; n++) {
        uint32_t bytes = (uint32_t)(n * 37 % 1500);

        ck_assert_int_eq(publish(n, bytes), EC_OK);
        expect(&reading, n, bytes);
        expect_none(&reading);
    }
}
END_TEST

START_TEST(nothing_is_seen_before_the_flush)
{
    struct ec_event_header header = { .type = 1 };
    struct ec_port_reading reading;
    void *room;

    read_from(&reading, 0, EC_PORT_START_TAIL);
    ck_assert_int_eq(ec_port_claim(&writer, 100, &room), EC_OK);
    expect_none(&reading);
    ec_port_commit(&writer, &header, 60); /* less than was claimed */
    expect_none(&reading);
    ck_assert_uint_eq(ec_port_flush(&writer), 0);
    ck_assert(ec_port_ready(&reading));
}
END_TEST

START_TEST(claiming_again_without_a_commit_gives_the_same_room)
{
    void *first, *second;

    ck_assert_int_eq(ec_port_claim(&writer, 100, &first), EC_OK);
    ck_assert_int_eq(ec_port_claim(&writer, 200, &second), EC_OK);
    ck_assert_ptr_eq(first, second);
}
END_TEST

START_TEST(a_claim_over_a_quarter_of_the_ring_is_refused)
{
    void *room;

    ck_assert_int_eq(ec_port_claim(&writer, RING / 4 - 48, &room), EC_OK);
    ck_assert_int_eq(ec_port_claim(&writer, RING / 4 - 47, &room), EC_ERR_SIZE);
    ck_assert_int_eq(ec_port_claim(&writer, UINT32_MAX, &room), EC_ERR_SIZE);
}
END_TEST

START_TEST(a_late_reader_starts_at_the_tail_or_at_the_oldest)
{
    struct ec_port_reading tail, oldest;

    for (uint64_t n = 0; n < 10; n++)
        ck_assert_int_eq(publish(n, 8), EC_OK);
    read_from(&tail, 0, EC_PORT_START_TAIL);
    read_from(&oldest, 1, EC_PORT_START_OLDEST);
    expect_none(&tail);
    for (uint64_t n = 0; n < 10; n++)
        expect(&oldest, n, 8);
    ck_assert_int_eq(publish(10, 8), EC_OK);
    expect(&tail, 10, 8);
    expect(&oldest, 10, 8);
}
END_TEST

/* ---- reliable readers ------------------------------------------------------------------------ */

START_TEST(a_reliable_reader_holds_the_publisher_back)
{
    struct ec_port_reading reading;
    uint64_t published = 0, read = 0;

    read_from(&reading, 0, EC_PORT_START_TAIL);
    add_reader(0, true, -1);
    while (publish(published, 64) == EC_OK)
        published++;
    ck_assert_uint_eq(published, RING / ec_event_size(64)); /* all of the ring is used */
    ck_assert_uint_eq(atomic_load(&writer.port->would_block), 1);
    for (; read < 20; read++)
        expect(&reading, read, 64);
    while (publish(published, 64) == EC_OK)
        published++;
    ck_assert_uint_eq(published, RING / ec_event_size(64) + 20);
    for (; read < published; read++)
        expect(&reading, read, 64);
    ck_assert_uint_eq(reading.lost_events, 0);
}
END_TEST

START_TEST(a_reader_that_left_no_longer_holds_the_publisher_back)
{
    struct ec_port_reading reading;

    read_from(&reading, 0, EC_PORT_START_TAIL);
    add_reader(0, true, -1);
    while (publish(0, 64) == EC_OK)
        continue;
    remove_reader(0);
    ck_assert_int_eq(publish(0, 64), EC_OK);
    ck_assert_uint_eq(writer.peer_count, 0);
    ck_assert_uint_eq(atomic_load(&writer.port->readers[0].reader_id), 0);
}
END_TEST

START_TEST(a_reader_that_stalls_is_demoted_and_told_what_it_lost)
{
    struct ec_port_reading reading;
    struct ec_port_item item;
    uint64_t published = 0, events, bytes, oldest;

    writer.stall_ns = 1;
    read_from(&reading, 0, EC_PORT_START_TAIL);
    add_reader(0, true, -1);
    for (; published < 1000; published++)
        while (publish(published, 64) != EC_OK)
            continue;
    ck_assert_uint_eq(atomic_load(&writer.port->readers[0].state), EC_READER_DEMOTED);
    ck_assert_uint_eq(atomic_load(&writer.port->readers[0].demotions), 1);
    ck_assert_int_eq(ec_port_peek(&reading, &item), EC_ERR_STALE);
    ck_assert(ec_port_resync(&reading, &events, &bytes));
    expect_lost_bytes(events, bytes);
    oldest = events;
    ck_assert_uint_ge(published - oldest, (RING - 4096) / ec_event_size(64) - 1);
    for (; oldest < published; oldest++)
        expect(&reading, oldest, 64);
    expect_none(&reading);
    ck_assert_uint_eq(atomic_load(&cursors->cursor[0].lost_events), events);
}
END_TEST

static const struct {
    const char *what;
    uint64_t cursor;
} broken_cursors[] = {
    { "ahead of the tail", 1u << 30 },
    { "the largest number", UINT64_MAX },
    { "just wrapped", UINT64_MAX - RING + 1 },
    { "far behind", 0 },
};

START_TEST(a_cursor_outside_of_the_ring_is_broken_and_ignored)
{
    struct ec_port_reading reading;

    for (uint64_t n = 0; n < 10 * RING / ec_event_size(64); n++)
        ck_assert_int_eq(publish(n, 64), EC_OK);
    read_from(&reading, 0, EC_PORT_START_TAIL);
    add_reader(0, true, -1);
    ck_assert_int_eq(publish(0, 64), EC_OK);
    ck_assert_uint_eq(atomic_load(&writer.port->readers[0].state), EC_READER_ADMITTED);
    atomic_store(&cursors->cursor[0].position, broken_cursors[_i].cursor);
    for (uint64_t n = 0; n < 10 * RING / ec_event_size(64); n++)
        ck_assert_int_eq(publish(n, 64), EC_OK);
    ck_assert_uint_eq(atomic_load(&writer.port->readers[0].state), EC_READER_BROKEN);
}
END_TEST

START_TEST(a_reader_is_waited_for_before_its_cursor_is_there)
{
    struct ec_port_reading reading;
    uint64_t published = 0;

    add_reader(0, true, -1); /* the publisher hears of it before its cursor is there */
    while (publish(published, 64) == EC_OK)
        published++;
    ck_assert_uint_eq(published, RING / ec_event_size(64));
    ck_assert_uint_eq(atomic_load(&writer.port->readers[0].state), EC_READER_NONE);
    read_from(&reading, 0, EC_PORT_START_OLDEST);
    for (uint64_t n = 0; n < 20; n++)
        expect(&reading, n, 64);
    ck_assert_int_eq(publish(published, 64), EC_OK);
    ck_assert_uint_eq(atomic_load(&writer.port->readers[0].state), EC_READER_ADMITTED);
}
END_TEST

/* ---- lossy readers --------------------------------------------------------------------------- */

START_TEST(a_lapped_reader_counts_exactly_what_it_lost)
{
    struct ec_port_reading reading;
    uint64_t published = 0, seen = 0, lost = 0, lost_bytes = 0;

    read_from(&reading, 0, EC_PORT_START_TAIL);
    add_reader(0, false, -1);
    for (int round = 0; round < 50; round++) {
        struct ec_port_item item;
        int rc;

        for (int i = 0; i < 37 * round; i++)
            ck_assert_int_eq(publish(published++, 64), EC_OK);
        while ((rc = ec_port_peek(&reading, &item)) != EC_AGAIN) {
            uint64_t events, bytes;

            if (rc == EC_ERR_STALE || !ec_port_intact(&reading)) {
                ck_assert(ec_port_resync(&reading, &events, &bytes));
                lost += events;
                lost_bytes += bytes;
                continue;
            }
            ck_assert_int_eq(rc, EC_OK);
            ck_assert_uint_eq(item.header.sequence, seen + lost);
            ck_assert(payload_is(&item, item.header.sequence));
            seen++;
            ec_port_advance(&reading, &item);
        }
        ec_port_show_cursor(&reading);
        ck_assert_uint_eq(seen + lost, published);
    }
    ck_assert_uint_gt(lost, 0);
    expect_lost_bytes(lost, lost_bytes);
}
END_TEST

START_TEST(an_event_overwritten_while_it_is_read_is_not_intact)
{
    struct ec_port_reading reading;
    struct ec_port_item item;

    read_from(&reading, 0, EC_PORT_START_TAIL);
    ck_assert_int_eq(publish(0, 64), EC_OK);
    ck_assert_int_eq(ec_port_peek(&reading, &item), EC_OK);
    ck_assert(ec_port_intact(&reading));
    for (uint64_t n = 1; n < RING / ec_event_size(64); n++)
        ck_assert_int_eq(publish(n, 64), EC_OK);
    ck_assert_int_eq(publish(0, 64), EC_OK);
    ck_assert(!ec_port_intact(&reading));
}
END_TEST

/* ---- where to start -------------------------------------------------------------------------- */

static const struct {
    uint64_t published;
    uint32_t history;
    uint64_t first; /* that is read */
} histories[] = {
    { 0, 10, 0 },    /* nothing was published */
    { 5, 10, 0 },    /* less than asked for */
    { 100, 10, 90 }, /* exactly that many */
    { 100, 1, 99 },
};

START_TEST(a_late_reader_gets_the_last_n_events)
{
    struct ec_port_reading reading;

    for (uint64_t n = 0; n < histories[_i].published; n++)
        ck_assert_int_eq(publish(n, 64), EC_OK);
    read_from_history(&reading, 0, EC_PORT_START_HISTORY, histories[_i].history);
    for (uint64_t n = histories[_i].first; n < histories[_i].published; n++)
        expect(&reading, n, 64);
    expect_none(&reading);
    ck_assert_uint_eq(reading.lost_events, 0);
}
END_TEST

START_TEST(history_reaches_back_as_far_as_the_ring_holds)
{
    struct ec_port_reading reading;
    uint64_t published = 10 * RING / ec_event_size(64);

    for (uint64_t n = 0; n < published; n++)
        ck_assert_int_eq(publish(n, 64), EC_OK);
    read_from_history(&reading, 0, EC_PORT_START_HISTORY, EC_PORT_MARKS - 1);
    ck_assert_uint_ge(published - reading.expected, (RING - 4096) / ec_event_size(64) - 1);
    for (uint64_t n = reading.expected; n < published; n++)
        expect(&reading, n, 64);
    ck_assert_uint_eq(reading.lost_events, 0);
}
END_TEST

START_TEST(a_late_reader_starts_at_the_last_keyframe)
{
    struct ec_port_reading reading;

    for (uint64_t n = 0; n < 50; n++) {
        if (n % 20 == 10)
            ec_port_keyframe(&writer);
        ck_assert_int_eq(publish(n, 64), EC_OK);
    }
    read_from(&reading, 0, EC_PORT_START_KEYFRAME);
    for (uint64_t n = 30; n < 50; n++) {
        struct ec_port_item item;

        ck_assert_int_eq(ec_port_peek(&reading, &item), EC_OK);
        ck_assert_int_eq((item.header.flags & EC_EVENT_KEYFRAME) != 0, n == 30);
        expect(&reading, n, 64);
    }
    expect_none(&reading);
}
END_TEST

START_TEST(without_a_keyframe_in_the_ring_it_starts_at_the_tail)
{
    struct ec_port_reading never, gone;

    ck_assert_int_eq(publish(0, 64), EC_OK);
    read_from(&never, 0, EC_PORT_START_KEYFRAME);
    expect_none(&never);
    ec_port_keyframe(&writer);
    for (uint64_t n = 1; n < 2 * RING / ec_event_size(64); n++)
        ck_assert_int_eq(publish(n, 64), EC_OK);
    read_from(&gone, 1, EC_PORT_START_KEYFRAME);
    expect_none(&gone);
}
END_TEST

/* ---- blocks ---------------------------------------------------------------------------------- */

#define BLOCK (3 * RING)

static void make_writer_with_blocks(uint32_t count)
{
    struct ec_port_writer_desc desc = { .name = "blocks",
                                        .ring_bytes = RING,
                                        .stall_ns = FOREVER,
                                        .mirrored = writer.mirrored,
                                        .block_bytes = BLOCK,
                                        .block_count = count };

    ec_port_writer_finish(&writer);
    ck_assert_msg(ec_port_writer_init(&writer, &desc, &why) == EC_OK, "%s", why.text);
}

static int publish_block(uint64_t number, uint32_t bytes)
{
    struct ec_event_header header = { .type = 1 };
    static unsigned char payload[BLOCK];
    void *room;
    int rc = ec_port_claim(&writer, bytes, &room);

    if (rc != EC_OK)
        return rc;
    memset(payload, (int)(number & 0xff), bytes);
    ec_port_copy_in(room, payload, bytes);
    ec_port_commit(&writer, &header, bytes);
    ec_port_flush(&writer);
    return EC_OK;
}

static bool block_is(const struct ec_port_item *item, uint64_t number)
{
    static unsigned char payload[BLOCK];

    ck_assert_uint_le(item->header.bytes, sizeof payload);
    ec_port_copy_out(payload, item->payload, item->header.bytes);
    for (uint32_t i = 0; i < item->header.bytes; i++)
        if (payload[i] != (unsigned char)number)
            return false;
    return true;
}

START_TEST(a_large_payload_comes_whole_in_a_block)
{
    struct ec_port_reading reading;
    struct ec_port_item item;

    make_writer_with_blocks(2);
    read_from(&reading, 0, EC_PORT_START_TAIL);
    for (uint64_t n = 0; n < 50; n++) {
        uint32_t bytes = n % 3 == 0 ? 100 : (uint32_t)(BLOCK - n);

        ck_assert_int_eq(publish_block(n, bytes), EC_OK);
        ck_assert_int_eq(ec_port_peek(&reading, &item), EC_OK);
        ck_assert_uint_eq(item.header.bytes, bytes);
        ck_assert_int_eq(item.header.block != 0, n % 3 != 0);
        ck_assert(block_is(&item, n));
        ck_assert(ec_port_intact(&reading));
        ec_port_advance(&reading, &item);
        ec_port_show_cursor(&reading);
    }
    ck_assert_int_eq(publish_block(0, BLOCK), EC_OK);
    ck_assert_int_eq(publish_block(0, BLOCK + 1), EC_ERR_SIZE);
}
END_TEST

START_TEST(a_block_is_not_used_again_before_the_reliable_reader_has_passed_it)
{
    struct ec_port_reading reading;
    struct ec_port_item item;

    make_writer_with_blocks(2);
    read_from(&reading, 0, EC_PORT_START_TAIL);
    add_reader(0, true, -1);
    ck_assert_int_eq(publish_block(0, BLOCK), EC_OK);
    ck_assert_int_eq(publish_block(1, BLOCK), EC_OK);
    ck_assert_int_eq(publish_block(2, BLOCK), EC_AGAIN);
    ck_assert_int_eq(publish_block(2, 100), EC_OK); /* the ring has room */
    ck_assert_int_eq(ec_port_peek(&reading, &item), EC_OK);
    ck_assert_int_eq(publish_block(3, BLOCK), EC_AGAIN); /* looked at, not passed */
    ck_assert(block_is(&item, 0));
    ck_assert(ec_port_intact(&reading));
    ec_port_advance(&reading, &item);
    ec_port_show_cursor(&reading);
    ck_assert_int_eq(publish_block(3, BLOCK), EC_OK);
    ck_assert_int_eq(ec_port_peek(&reading, &item), EC_OK);
    ck_assert(block_is(&item, 1));
    ck_assert(ec_port_intact(&reading));
}
END_TEST

START_TEST(a_lossy_reader_notices_that_its_block_was_used_again_and_loses_just_that)
{
    struct ec_port_reading reading;
    struct ec_port_item item;
    uint64_t events, bytes;

    make_writer_with_blocks(1);
    read_from(&reading, 0, EC_PORT_START_TAIL);
    ck_assert_int_eq(publish_block(0, BLOCK), EC_OK);
    ck_assert_int_eq(ec_port_peek(&reading, &item), EC_OK);
    ck_assert(ec_port_intact(&reading));
    ck_assert_int_eq(publish_block(1, BLOCK), EC_OK);
    ck_assert(!ec_port_intact(&reading));
    ck_assert(ec_port_resync(&reading, &events, &bytes));
    ck_assert_uint_eq(events, 1);
    ck_assert_int_eq(publish_block(2, BLOCK), EC_OK);
    ck_assert_int_eq(ec_port_peek(&reading, &item), EC_ERR_STALE); /* 1 is gone as well */
    ck_assert(ec_port_resync(&reading, &events, &bytes));
    ck_assert_uint_eq(events, 1);
    ck_assert_int_eq(ec_port_peek(&reading, &item), EC_OK);
    ck_assert_uint_eq(item.header.sequence, 2);
    ck_assert(block_is(&item, 2));
    ck_assert(ec_port_intact(&reading));
}
END_TEST

START_TEST(a_block_that_does_not_exist_is_never_looked_at)
{
    struct ec_event_header *header;
    struct ec_port_reading reading;
    struct ec_port_item item;

    make_writer_with_blocks(1);
    read_from(&reading, 0, EC_PORT_START_TAIL);
    ck_assert_int_eq(publish_block(0, BLOCK), EC_OK);
    header = (struct ec_event_header *)(void *)writer.ring;
    header->block = _i == 0 ? 2 : _i == 1 ? UINT32_MAX : 1;
    if (_i == 2)
        header->bytes = BLOCK + 1;
    ck_assert_int_eq(ec_port_peek(&reading, &item), EC_ERR_LAYOUT);
}
END_TEST

/* ---- sleeping -------------------------------------------------------------------------------- */

START_TEST(a_reader_that_joins_between_claim_and_flush_is_rung_by_the_flush)
{
    struct ec_event_header header = { .type = 1 };
    int bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct ec_port_reading reading;
    uint64_t rung;
    void *room;

    read_from(&reading, 0, EC_PORT_START_TAIL);
    ck_assert_int_eq(ec_port_claim(&writer, 8, &room), EC_OK);
    add_reader(0, true, bell);
    ck_assert_int_eq(read(bell, &rung, sizeof rung), (ssize_t)sizeof rung);
    atomic_store(&cursors->sleep[0].epoch, 1); /* it looked, found nothing and sleeps */
    ec_port_commit(&writer, &header, 8);
    ck_assert_uint_eq(ec_port_flush(&writer), 1);
    ck_assert_int_eq(read(bell, &rung, sizeof rung), (ssize_t)sizeof rung);
    close(bell);
}
END_TEST

START_TEST(a_sleeping_reader_is_rung_once_for_each_epoch)
{
    int bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct ec_port_reading reading;
    uint64_t rung;

    read_from(&reading, 0, EC_PORT_START_TAIL);
    add_reader(0, true, bell);
    ck_assert_int_eq(read(bell, &rung, sizeof rung), (ssize_t)sizeof rung); /* for joining */
    ck_assert_int_eq(publish(0, 8), EC_OK);
    ck_assert_int_eq(read(bell, &rung, sizeof rung), -1); /* awake: not rung */
    atomic_store(&cursors->sleep[0].epoch, 1);
    ck_assert_int_eq(publish(1, 8), EC_OK);
    ck_assert_int_eq(publish(2, 8), EC_OK);
    ck_assert_int_eq(read(bell, &rung, sizeof rung), (ssize_t)sizeof rung);
    ck_assert_uint_eq(rung, 1);
    atomic_store(&cursors->sleep[0].epoch, 3);
    ck_assert_int_eq(publish(3, 8), EC_OK);
    ck_assert_int_eq(read(bell, &rung, sizeof rung), (ssize_t)sizeof rung);
    ck_assert_uint_eq(atomic_load(&writer.port->bells), 2);
    close(bell);
}
END_TEST

/* ---- a hostile port -------------------------------------------------------------------------- */

/* Overwrite a word of the first event, as a publisher that lies. */
static const struct {
    const char *what;
    uint32_t bytes;
    uint64_t tail;
    int expected;
} hostile_ports[] = {
    { "a length beyond the tail", 1000, 112, EC_ERR_LAYOUT },
    { "the largest length", UINT32_MAX, 112, EC_ERR_LAYOUT },
    { "a tail inside of a header", 64, 16, EC_ERR_LAYOUT },
    { "a tail beyond the ring", 64, 10 * RING, EC_ERR_STALE },
    { "the largest tail", 64, INT64_MAX, EC_ERR_STALE },
};

START_TEST(a_port_that_lies_is_never_read_outside_of_its_ring)
{
    struct ec_port_reading reading;
    struct ec_port_item item;
    struct ec_event_header *header = (struct ec_event_header *)(void *)writer.ring;

    read_from(&reading, 0, EC_PORT_START_TAIL);
    ck_assert_int_eq(publish(0, 64), EC_OK);
    header->bytes = hostile_ports[_i].bytes;
    atomic_store(&writer.port->tail, hostile_ports[_i].tail);
    ck_assert_int_eq(ec_port_peek(&reading, &item), hostile_ports[_i].expected);
}
END_TEST

static const uint64_t hostile_sequences[] = { EC_PORT_MARKS - 1, UINT64_MAX / 2, UINT64_MAX - 1,
                                              UINT64_MAX };

START_TEST(resync_gives_up_on_marks_that_make_no_sense)
{
    struct ec_port_reading reading;
    uint64_t events, bytes;

    read_from(&reading, 0, EC_PORT_START_TAIL);
    ck_assert_int_eq(publish(0, 64), EC_OK);
    atomic_store(&writer.port->tail_intent, 10ull * RING);
    atomic_store(&writer.port->published, hostile_sequences[_i]);
    ck_assert(!ec_port_resync(&reading, &events, &bytes));
    read_from_history(&reading, 1, EC_PORT_START_HISTORY, UINT32_MAX); /* comes to an end, too */
}
END_TEST

START_TEST(a_mapped_port_must_fill_its_segment)
{
    struct ec_port_view view = { 0 };

    ck_assert_int_eq(ec_port_view_init(&view, writer.segment.fd, &why), EC_OK);
    ec_port_view_finish(&view);
    writer.port->ring_bytes = RING / 2; /* the writer may still lie about itself */
    ck_assert_int_eq(ec_port_view_init(&view, writer.segment.fd, &why), EC_ERR_LAYOUT);
    ck_assert_ptr_nonnull(strstr(why.text, "8192"));
    writer.port->ring_bytes = RING;
    writer.port->ring_offset = 4096;
    ck_assert_int_eq(ec_port_view_init(&view, writer.segment.fd, &why), EC_ERR_LAYOUT);
    writer.port->ring_offset = EC_PORT_HEAD_BYTES;
    writer.port->block_count = 1;
    ck_assert_int_eq(ec_port_view_init(&view, writer.segment.fd, &why), EC_ERR_LAYOUT);
    writer.port->block_bytes = 4096;
    ck_assert_int_eq(ec_port_view_init(&view, writer.segment.fd, &why), EC_ERR_LAYOUT);
    ck_assert_ptr_null(view.map.base);
}
END_TEST

static const struct {
    const char *name;
    uint32_t ring_bytes;
    uint32_t block_bytes, block_count;
} bad_descs[] = {
    { "", RING, 0, 0 },
    { "012345678901234567890123456789012345678901234567", RING, 0, 0 },
    { "x", RING - 1, 0, 0 },
    { "x", RING + 4096, 0, 0 },
    { "x", RING / 2, 0, 0 },
    { "x", 1u << 31, 0, 0 },
    { "x", RING, 4096, 0 },
    { "x", RING, 0, 4 },
    { "x", RING, (64u << 20) + 1, 1 },
    { "x", RING, 4096, 257 },
};

START_TEST(a_port_with_a_bad_name_or_size_is_not_made)
{
    struct ec_port_writer_desc desc = { .name = bad_descs[_i].name,
                                        .ring_bytes = bad_descs[_i].ring_bytes,
                                        .block_bytes = bad_descs[_i].block_bytes,
                                        .block_count = bad_descs[_i].block_count };
    struct ec_port_writer bad;

    ck_assert_int_eq(ec_port_writer_init(&bad, &desc, &why), EC_ERR_PARAM);
    ck_assert_int_eq(bad.segment.fd, -1);
}
END_TEST

/* ---- several threads ------------------------------------------------------------------------- */

#define STRESS_EVENTS 40000u

struct stress_reader {
    uint32_t cursor;
    struct ec_port_reading reading;
    uint64_t seen, lost;
    bool torn;
};

static void *read_all(void *context)
{
    struct stress_reader *reader = context;

    while (reader->seen + reader->lost < STRESS_EVENTS) {
        struct ec_port_item item;
        int rc = ec_port_peek(&reader->reading, &item);
        uint64_t events, bytes;
        bool whole;

        if (rc == EC_AGAIN) {
            ec_port_show_cursor(&reader->reading);
            sched_yield();
            continue;
        }
        whole = rc == EC_OK && payload_is(&item, item.header.sequence);
        if (rc == EC_ERR_STALE || !ec_port_intact(&reader->reading)) {
            ck_assert(ec_port_resync(&reader->reading, &events, &bytes));
            reader->lost += events;
            continue;
        }
        reader->torn |= !whole || item.header.sequence != reader->seen + reader->lost;
        reader->seen++;
        ec_port_advance(&reader->reading, &item);
        if (reader->seen % 16 == 0)
            ec_port_show_cursor(&reader->reading);
    }
    ec_port_show_cursor(&reader->reading);
    return NULL;
}

/* Reader 0 is reliable, reader 1 lossy; the ring is small, so both laps and waits happen. */
START_TEST(readers_on_other_threads_get_everything_or_the_exact_count)
{
    struct stress_reader readers[2] = { { .cursor = 0 }, { .cursor = 1 } };
    pthread_t threads[2];

    for (uint32_t i = 0; i < 2; i++) {
        read_from(&readers[i].reading, i, EC_PORT_START_TAIL);
        add_reader(i, i == 0, -1);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, read_all, &readers[i]), 0);
    }
    for (uint64_t n = 0; n < STRESS_EVENTS; n++)
        while (publish(n, (uint32_t)(n % 200)) == EC_AGAIN)
            sched_yield();
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert(!readers[i].torn);
        ck_assert_uint_eq(readers[i].seen + readers[i].lost, STRESS_EVENTS);
    }
    ck_assert_uint_eq(readers[0].lost, 0);
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

int main(void)
{
    Suite *suite = suite_create("event_port");
    TCase *tcase = tcase_create("event_port");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, events_come_whole_and_in_order_round_the_ring, 0, 2);
    tcase_add_test(tcase, nothing_is_seen_before_the_flush);
    tcase_add_test(tcase, claiming_again_without_a_commit_gives_the_same_room);
    tcase_add_test(tcase, a_claim_over_a_quarter_of_the_ring_is_refused);
    tcase_add_test(tcase, a_late_reader_starts_at_the_tail_or_at_the_oldest);
    tcase_add_test(tcase, a_reliable_reader_holds_the_publisher_back);
    tcase_add_test(tcase, a_reader_that_left_no_longer_holds_the_publisher_back);
    tcase_add_test(tcase, a_reader_that_stalls_is_demoted_and_told_what_it_lost);
    tcase_add_loop_test(tcase, a_cursor_outside_of_the_ring_is_broken_and_ignored, 0,
                        COUNT(broken_cursors));
    tcase_add_test(tcase, a_reader_is_waited_for_before_its_cursor_is_there);
    tcase_add_test(tcase, a_lapped_reader_counts_exactly_what_it_lost);
    tcase_add_test(tcase, an_event_overwritten_while_it_is_read_is_not_intact);
    tcase_add_loop_test(tcase, a_late_reader_gets_the_last_n_events, 0, COUNT(histories));
    tcase_add_test(tcase, history_reaches_back_as_far_as_the_ring_holds);
    tcase_add_test(tcase, a_late_reader_starts_at_the_last_keyframe);
    tcase_add_test(tcase, without_a_keyframe_in_the_ring_it_starts_at_the_tail);
    tcase_add_test(tcase, a_large_payload_comes_whole_in_a_block);
    tcase_add_test(tcase, a_block_is_not_used_again_before_the_reliable_reader_has_passed_it);
    tcase_add_test(tcase, a_lossy_reader_notices_that_its_block_was_used_again_and_loses_just_that);
    tcase_add_loop_test(tcase, a_block_that_does_not_exist_is_never_looked_at, 0, 3);
    tcase_add_test(tcase, a_reader_that_joins_between_claim_and_flush_is_rung_by_the_flush);
    tcase_add_test(tcase, a_sleeping_reader_is_rung_once_for_each_epoch);
    tcase_add_loop_test(tcase, a_port_that_lies_is_never_read_outside_of_its_ring, 0,
                        COUNT(hostile_ports));
    tcase_add_loop_test(tcase, resync_gives_up_on_marks_that_make_no_sense, 0,
                        COUNT(hostile_sequences));
    tcase_add_test(tcase, a_mapped_port_must_fill_its_segment);
    tcase_add_loop_test(tcase, a_port_with_a_bad_name_or_size_is_not_made, 0, COUNT(bad_descs));
    tcase_add_test(tcase, readers_on_other_threads_get_everything_or_the_exact_count);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
