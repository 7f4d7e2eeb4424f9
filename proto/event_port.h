/* proto/event_port.h - an event port: a ring that one thread writes and any subscriber reads.
 *
 *   header | hot words | readers[256] | types[64] | marks[4096] | ring (mapped twice in a row)
 *
 * Positions count bytes since the port was made and never wrap; the ring holds
 * [tail_intent - ring_bytes, tail). Events are 16-byte aligned: header, payload, padding.
 * Both sides of the protocol stand in segment/event_port.h; tests/models/event_port.pml is its model. */
#ifndef EC_PROTO_EVENT_PORT_H
#define EC_PROTO_EVENT_PORT_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#include "proto/segment_header.h"

#define EC_PORT_RING_BYTES_MIN (16u * 1024)
#define EC_PORT_RING_BYTES_MAX (1u << 30)
#define EC_PORT_READERS_MAX 256
#define EC_PORT_TYPES_MAX 64
#define EC_PORT_MARKS 4096 /* power of two; 8 bytes of ring per mark at the very least */
#define EC_PORT_NAME_BYTES 48
#define EC_EVENT_ALIGN 16

/* Flags of an event. */
#define EC_EVENT_PAD 1u      /* filler up to the ring's end (builds whose ring is not mirrored) */
#define EC_EVENT_KEYFRAME 2u /* a late joiner may start here */

struct ec_event_header {
    uint64_t type;     /* FNV-1a of the type's name */
    int64_t time_ns;   /* real time of the stamp */
    uint64_t sequence; /* 0, 1, 2 … within the port */
    uint64_t step;     /* step of the publisher's step clock when stamped */
    uint32_t sender;   /* client id of the publisher; 0 is the daemon */
    uint32_t bytes;    /* payload */
    uint32_t block;    /* 0: payload follows in place */
    uint32_t flags;
};

enum ec_port_reader_state {
    EC_READER_NONE = 0,
    EC_READER_ADMITTED = 1, /* reliable: the publisher waits for it */
    EC_READER_LOSSY = 2,    /* admitted, never waited for */
    EC_READER_DEMOTED = 3,  /* was reliable, held the publisher up for too long */
    EC_READER_BROKEN = 4,   /* its cursor was outside the ring: no longer looked at */
};

struct ec_port_reader {
    _Atomic uint64_t reader_id; /* 0: free */
    _Atomic uint32_t state;     /* enum ec_port_reader_state */
    uint32_t reserved;
    _Atomic uint64_t demotions;
    _Atomic uint64_t held_up_ns; /* how long it held the publisher up, summed */
};

struct ec_port_type {
    _Atomic uint64_t type; /* 0: free */
    _Atomic uint64_t published;
    _Atomic uint64_t bytes;
    _Atomic uint64_t refused;
};

/* Where the event with this sequence starts. The mark of the next, unwritten event exists too. */
struct ec_port_mark {
    _Atomic uint64_t position;
    _Atomic uint64_t sequence;
};

struct ec_event_port {
    struct ec_segment_header header;

    alignas(EC_SEGMENT_HEADER_BYTES) char name[EC_PORT_NAME_BYTES];
    uint32_t ring_bytes; /* power of two */
    uint32_t mirrored;   /* 0: the ring is not mapped twice, events never cross its end */
    uint64_t ring_offset;

    alignas(EC_HOT_BYTES) _Atomic uint64_t tail; /* end of the committed events */
    _Atomic uint64_t published;                  /* sequence of the event that starts at tail */
    alignas(EC_HOT_BYTES) _Atomic uint64_t tail_intent; /* end of what may be being written */
    alignas(EC_HOT_BYTES) _Atomic uint64_t would_block; /* claims that found the ring full */
    _Atomic uint64_t refused;                           /* claims of unknown types or sizes */
    _Atomic uint64_t bells;                             /* doorbells rung */

    alignas(EC_HOT_BYTES) struct ec_port_reader readers[EC_PORT_READERS_MAX];
    struct ec_port_type types[EC_PORT_TYPES_MAX];
    struct ec_port_mark marks[EC_PORT_MARKS];
};

/* The ring starts on the first page after the structure. */
#define EC_PORT_RING_OFFSET ((sizeof(struct ec_event_port) + 4095) & ~(uint64_t)4095)

static inline uint64_t ec_event_size(uint32_t payload_bytes)
{
    return (sizeof(struct ec_event_header) + (uint64_t)payload_bytes + EC_EVENT_ALIGN - 1) &
           ~(uint64_t)(EC_EVENT_ALIGN - 1);
}

/* The id of a type: FNV-1a, 64 bits, of its name. Never 0 in practice; 0 is refused at registration. */
static inline uint64_t ec_event_type_id(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325ull;

    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3ull;
    return hash;
}

#endif
