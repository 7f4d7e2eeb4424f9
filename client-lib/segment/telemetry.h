/* segment/telemetry.h - read what a client tells in its segment into plain numbers.
 *
 * The writer may be hostile, or killed in the middle of a store. Each value is loaded once, counts are
 * bounded, what is current is never below zero, and texts end inside their array and hold no control
 * characters.
 *
 * Thread: any; the segment's writer may go on. Cost: some microseconds; no system call. */
#ifndef EC_SEGMENT_TELEMETRY_H
#define EC_SEGMENT_TELEMETRY_H

#include <stdbool.h>

#include "foundation/memory/sink.h" /* ec_allocator_kind_name */
#include "proto/client_segment.h"

struct ec_tag_report {
    uint32_t row;
    char name[EC_TAG_NAME_BYTES];
    uint64_t bytes;        /* now */
    uint64_t peak_bytes;   /* at least bytes; published in steps of EC_TAG_PEAK_STEP */
    uint64_t count;        /* live blocks */
    uint64_t total;        /* allocations so far */
    uint64_t budget_bytes; /* 0: none */
};

struct ec_allocator_report {
    uint32_t row; /* stays the allocator's while it lives */
    char name[EC_ALLOCATOR_NAME_BYTES];
    char tag[EC_TAG_NAME_BYTES];
    uint32_t kind; /* enum ec_allocator_kind; larger values may come */
    uint64_t current_bytes;
    uint64_t requested_bytes; /* of them; where blocks have classes, by the average of all so far */
    uint64_t peak_bytes;
    uint64_t capacity_bytes;
    uint64_t unusable_bytes; /* free, but only for blocks of this allocator's one size */
    uint64_t count;
    uint64_t total;
    uint64_t failed;
    uint64_t fallbacks; /* taken from the heap because the allocator was full */
    uint64_t largest_free_bytes;
    double fragmentation; /* 0..1, see ec_telemetry_allocators */
};

/* The tags that have a name or ever counted something. Returns how many rows were filled in. */
unsigned ec_telemetry_tags(const struct ec_client_segment *segment,
                           struct ec_tag_report tags[EC_TAGS_MAX]);
/* tag < EC_TAGS_MAX */
void ec_telemetry_tag_name(const struct ec_client_segment *segment, uint32_t tag,
                           char name[EC_TAG_NAME_BYTES]);
/* Fragmentation is the share of the free bytes that does not serve every request. Where blocks have one size
 * (pools and what is built on them), that is what lies in groups with live blocks or in magazines: it serves
 * this size alone and cannot go back to the system. Elsewhere it is all but the largest free block. 0 when
 * nothing is free. */
unsigned ec_telemetry_allocators(const struct ec_client_segment *segment,
                                 struct ec_allocator_report allocators[EC_ALLOCATORS_MAX]);

/* Over all tags. The peak is the sum of the tags' peaks: the real one is at most that. */
struct ec_memory_sum {
    uint64_t bytes;
    uint64_t peak_bytes;
};
void ec_telemetry_memory(const struct ec_client_segment *segment, struct ec_memory_sum *sum);

/* How closely it looks at its own memory, beside samples. */
struct ec_observation_seen {
    bool is_switchable; /* by memory.observe */
    bool checks;
    uint64_t faults;
};
void ec_telemetry_observation(const struct ec_client_segment *segment,
                              struct ec_observation_seen *seen);

/* References to the first `resources` resources, summed over threads; a resource counts no less than
 * zero. Bounded by EC_THREADS_MAX * EC_RESOURCES_MAX loads. */
struct ec_reference_sum {
    uint64_t hard;
    uint64_t soft;
};
void ec_telemetry_references(const struct ec_client_segment *segment, uint32_t resources,
                             struct ec_reference_sum *sum);

struct ec_pulse_seen {
    uint64_t frame;
    uint64_t step;
    int64_t last_ns; /* real time of the newer of frame and step; 0: none yet */
};
void ec_telemetry_pulse(const struct ec_client_segment *segment, struct ec_pulse_seen *pulse);

struct ec_ack_seen {
    uint32_t level;
    int64_t at_ns; /* real time of the client */
    uint64_t freed_bytes;
    uint64_t trimmed_bytes; /* the part of them that its allocators gave back */
    uint64_t order;         /* sequence of the breaker's order that it answers; 0: of none */
    uint64_t sequence;      /* 0: it never answered */
};
/* Returns false when the client kept changing it while it was read. */
bool ec_telemetry_ack(const struct ec_client_segment *segment, struct ec_ack_seen *ack);

struct ec_knobs_seen {
    uint32_t level;   /* whose knobs it read last */
    int64_t taken_ns; /* when, in real time of the client; 0: never */
    uint64_t freed_bytes[EC_BREAKER_KNOBS];
};
void ec_telemetry_knobs(const struct ec_client_segment *segment, struct ec_knobs_seen *knobs);

/* What it could give back in its own words; 0: it never said. */
uint64_t ec_telemetry_evictable(const struct ec_client_segment *segment);

#endif
