/* proto/cursor_segment.h - where a client keeps its readers' positions, sleep epochs and counts.
 *
 * Writer: the client; each reader's part only by the thread that reads. Readers: the daemon and the
 * publishers that this client reads, read-only. They treat every value as hostile.
 *
 * A subscriber is one of 64 readers (its sleep epoch and its counts); it has one cursor per port. */
#ifndef EC_PROTO_CURSOR_SEGMENT_H
#define EC_PROTO_CURSOR_SEGMENT_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#include "proto/histogram.h"
#include "proto/segment_header.h"

#define EC_READERS_MAX 64
#define EC_CURSORS_MAX 1024
#define EC_READER_TYPES_MAX 64

/* Odd: the reader sleeps, or is about to. A publisher rings once for each odd value. */
struct ec_sleep_slot {
    alignas(EC_HOT_BYTES) _Atomic uint32_t epoch;
};

/* A reader's position in one port. The publisher admits the cursor when reader_id names this reader and
 * this port: it is stored (release) after position. The port belongs to it because a slot is used again
 * as soon as a port is gone, when the reader may still be reading that one to its end. */
struct ec_cursor_slot {
    alignas(EC_HOT_BYTES) _Atomic uint64_t position;
    _Atomic uint64_t reader_id; /* ec_cursor_owner(); 0: nobody's */
    alignas(64) _Atomic uint64_t delivered;
    _Atomic uint64_t lost_events;
    _Atomic uint64_t lost_bytes;
};

static inline uint64_t ec_cursor_owner(uint32_t reader_id, uint32_t port_id)
{
    return (uint64_t)port_id << 32 | reader_id;
}

struct ec_reader_type {
    _Atomic uint64_t type; /* 0: free; the last row also counts types that found no row */
    _Atomic uint64_t delivered;
    struct ec_histogram latency; /* publish to read */
};

struct ec_cursor_segment {
    struct ec_segment_header header;
    alignas(EC_SEGMENT_HEADER_BYTES) struct ec_sleep_slot sleep[EC_READERS_MAX];
    struct ec_cursor_slot cursor[EC_CURSORS_MAX];
    struct ec_reader_type types[EC_READERS_MAX][EC_READER_TYPES_MAX];
};

#endif
