/* layouts.c - the version and the fields of each segment's layout.
 *
 * The hash over offset and size of the fields changes when one of them moves, so that two builds
 * that disagree refuse each other. A field that is appended later raises the minor version and is
 * added to its list with the next major one. */
#include <stddef.h>

#include "proto/client_segment.h"
#include "proto/clock_page.h"
#include "proto/cursor_segment.h"
#include "proto/directory.h"
#include "proto/event_port.h"

struct field {
    uint64_t offset;
    uint64_t bytes;
};

#define FIELD(type, name)                                                                          \
    {                                                                                              \
        offsetof(struct type, name), sizeof(((struct type *)0)->name)                              \
    }

static const struct field clock_fields[] = {
    FIELD(ec_clock_page, latch),         FIELD(ec_clock_page, game_copy),
    FIELD(ec_clock_page, step_copy),     FIELD(ec_clock_page, breaker_level),
    FIELD(ec_clock_page, heartbeat_ns),  FIELD(ec_clock_page, step),
    FIELD(ec_step_word, change),         FIELD(ec_step_word, step),
    FIELD(ec_step_word, due_ns),         FIELD(ec_step_word, next_due_ns),
    FIELD(ec_game_snapshot, remainder),  FIELD(ec_game_snapshot, epoch),
    FIELD(ec_step_snapshot, fraction),   FIELD(ec_step_snapshot, period_num),
    FIELD(ec_step_snapshot, period_den), FIELD(ec_game_snapshot, until_ns),
    FIELD(ec_step_snapshot, until_step), FIELD(ec_step_snapshot, next_period_den),
    FIELD(ec_step_word, skipped),        FIELD(ec_step_word, required),
    FIELD(ec_clock_page, game_next),     FIELD(ec_step_word, epoch_after),
};

static const struct field directory_fields[] = {
    FIELD(ec_directory, high),         FIELD(ec_directory, membarrier),
    FIELD(ec_directory, index),        FIELD(ec_directory, entries),
    FIELD(ec_directory_entry, life),   FIELD(ec_directory_entry, offset),
    FIELD(ec_directory_entry, bytes),  FIELD(ec_directory_entry, kind),
    FIELD(ec_directory_entry, stride), FIELD(ec_directory_entry, name),
};

static const struct field heap_fields[] = {
    FIELD(ec_asset_heap, bytes),
};

static const struct field client_fields[] = {
    FIELD(ec_client_segment, pulse),
    FIELD(ec_client_segment, breaker),
    FIELD(ec_client_segment, threads_high),
    FIELD(ec_client_segment, tags),
    FIELD(ec_client_segment, allocators),
    FIELD(ec_client_segment, threads),
    FIELD(ec_client_segment, hard),
    FIELD(ec_client_segment, soft),
    FIELD(ec_tag_row, peak_bytes),
    FIELD(ec_tag_counters, bytes_out),
    FIELD(ec_thread_row, tags),
    FIELD(ec_allocator_row, name),
    FIELD(ec_allocator_row, current_bytes),
    FIELD(ec_allocator_row, largest_free_bytes),
    FIELD(ec_breaker_ack, sequence),
    FIELD(ec_pulse, step_ns),
    FIELD(ec_client_segment, members),
    FIELD(ec_client_segment, frames),
    FIELD(ec_step_member, done),
    FIELD(ec_step_member, finished_ns),
    FIELD(ec_step_member, step_work),
    FIELD(ec_frame_record, work),
};

static const struct field cursor_fields[] = {
    FIELD(ec_cursor_segment, sleep),  FIELD(ec_cursor_segment, cursor),
    FIELD(ec_cursor_segment, types),  FIELD(ec_cursor_slot, reader_id),
    FIELD(ec_cursor_slot, delivered), FIELD(ec_cursor_slot, lost_bytes),
    FIELD(ec_reader_type, delivered), FIELD(ec_reader_type, latency),
};

static const struct field port_fields[] = {
    FIELD(ec_event_port, name),           FIELD(ec_event_port, ring_bytes),
    FIELD(ec_event_port, ring_offset),    FIELD(ec_event_port, tail),
    FIELD(ec_event_port, published),      FIELD(ec_event_port, tail_intent),
    FIELD(ec_event_port, would_block),    FIELD(ec_event_port, readers),
    FIELD(ec_event_port, types),          FIELD(ec_event_port, marks),
    FIELD(ec_event_port, block_sequence), FIELD(ec_event_port, keyframe),
    FIELD(ec_event_port, step_passed),    FIELD(ec_event_port, block_count),
    FIELD(ec_event_header, sequence),     FIELD(ec_event_header, sender),
    FIELD(ec_event_header, bytes),        FIELD(ec_event_header, flags),
    FIELD(ec_port_reader, reader_id),     FIELD(ec_port_reader, held_up_ns),
};

#define FIELDS(kind) kind##_fields, sizeof kind##_fields / sizeof kind##_fields[0]

static const struct {
    struct ec_layout layout;
    const struct field *fields;
    size_t count;
} layouts[EC_SEGMENT_KINDS] = {
    [EC_SEGMENT_CLOCK] = { { "clock", 1, 0 }, FIELDS(clock) },
    [EC_SEGMENT_DIRECTORY] = { { "directory", 1, 3 }, FIELDS(directory) },
    [EC_SEGMENT_HEAP] = { { "heap", 1, 0 }, FIELDS(heap) },
    [EC_SEGMENT_CLIENT] = { { "client", 1, 6 }, FIELDS(client) },
    [EC_SEGMENT_CURSOR] = { { "cursor", 1, 0 }, FIELDS(cursor) },
    [EC_SEGMENT_PORT] = { { "port", 1, 0 }, FIELDS(port) },
};

const struct ec_layout *ec_layout_of(uint32_t kind)
{
    return kind < EC_SEGMENT_KINDS && layouts[kind].count != 0 ? &layouts[kind].layout : NULL;
}

/* FNV-1a, one 64-bit number at a time. */
static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * 0x100000001b3ull;
}

uint64_t ec_layout_hash(uint32_t kind)
{
    uint64_t hash = 0xcbf29ce484222325ull;

    if (ec_layout_of(kind) == NULL)
        return 0;
    for (size_t i = 0; i < layouts[kind].count; i++)
        hash = mix(mix(hash, layouts[kind].fields[i].offset), layouts[kind].fields[i].bytes);
    return hash;
}
