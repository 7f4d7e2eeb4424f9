/* proto/event_port.h - an event port: a ring that one thread writes and any subscriber reads.
 *
 *   header | hot words | readers[256] | types[64] | marks[4096] | blocks | ring (mapped twice in a row)
 *
 * Positions count bytes since the port was made and never wrap; the ring holds
 * [tail_intent - ring_bytes, tail). Events are 16-byte aligned: header, payload, padding. A payload
 * over a quarter of the ring lies in a block; the event carries struct ec_event_block in its place.
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
#define EC_PORT_BLOCKS_MAX 256
#define EC_PORT_BLOCK_BYTES_MAX (64u << 20)

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
    uint32_t block;    /* 0: payload follows in place; else index + 1 of the block that holds it */
    uint32_t flags;
};

/* What follows the header of an event whose payload lies in a block. */
struct ec_event_block {
    uint64_t sequence; /* of the block; another one there: it was overwritten */
    uint64_t reserved;
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
    uint32_t block_bytes; /* of each block, whole pages; 0: no blocks */
    uint32_t block_count; /* 0..EC_PORT_BLOCKS_MAX; they lie between this struct and the ring */

    alignas(EC_HOT_BYTES) _Atomic uint64_t tail; /* end of the committed events */
    _Atomic uint64_t published;                  /* sequence of the event that starts at tail */
    alignas(EC_HOT_BYTES) _Atomic uint64_t tail_intent; /* end of what may be being written */
    alignas(EC_HOT_BYTES) _Atomic uint64_t would_block; /* claims that found the ring full */
    _Atomic uint64_t refused;                           /* claims of unknown types or sizes */
    _Atomic uint64_t bells;                             /* doorbells rung */
    _Atomic uint64_t keyframe_position;                 /* where a late joiner may start */
    _Atomic uint64_t keyframe;                          /* its sequence + 1, stored last; 0: none */
    _Atomic uint64_t step_passed; /* no event of this step or an earlier one comes any more */

    alignas(EC_HOT_BYTES) struct ec_port_reader readers[EC_PORT_READERS_MAX];
    struct ec_port_type types[EC_PORT_TYPES_MAX];
    struct ec_port_mark marks[EC_PORT_MARKS];
    _Atomic uint64_t
        block_sequence[EC_PORT_BLOCKS_MAX]; /* changes before the block is overwritten */
};

/* Blocks, if any, and the ring start on the first page after the structure. */
#define EC_PORT_HEAD_BYTES ((sizeof(struct ec_event_port) + 4095) & ~(uint64_t)4095)

static inline uint64_t ec_event_size(uint32_t payload_bytes)
{
    return (sizeof(struct ec_event_header) + (uint64_t)payload_bytes + EC_EVENT_ALIGN - 1) &
           ~(uint64_t)(EC_EVENT_ALIGN - 1);
}

/* What an event takes of the ring. */
static inline uint64_t ec_event_ring_size(const struct ec_event_header *header)
{
    return ec_event_size(header->block == 0 ? header->bytes
                                            : (uint32_t)sizeof(struct ec_event_block));
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
