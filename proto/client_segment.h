/* proto/client_segment.h - what a client tells about itself: memory, references, frame, breaker.
 *
 * Writer: the client. Reader: the daemon, also after the client was killed. Every value is hostile
 * to the reader: counts are bounded, strings end at their array's end, indices are checked.
 *
 * Counters are per thread and tag, monotonic, one writer each, relaxed stores; the reader sums them
 * and computes what is current. */
#ifndef EC_PROTO_CLIENT_SEGMENT_H
#define EC_PROTO_CLIENT_SEGMENT_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#include "proto/breaker_board.h"
#include "proto/clock_page.h"
#include "proto/directory.h"
#include "proto/histogram.h"
#include "proto/memory_sites.h"
#include "proto/segment_header.h"

#define EC_TAGS_MAX 64
#define EC_TAG_NAME_BYTES 32
#define EC_THREADS_MAX 64
#define EC_THREAD_NAME_BYTES 16
#define EC_ALLOCATORS_MAX 128
#define EC_ALLOCATOR_NAME_BYTES 32

struct ec_tag_row {
    char name[EC_TAG_NAME_BYTES];  /* empty: unused */
    _Atomic uint64_t budget_bytes; /* 0: none */
    _Atomic uint64_t peak_bytes;   /* pushed in steps of EC_TAG_PEAK_STEP */
    uint64_t reserved[2];
};

#define EC_TAG_PEAK_STEP (64u * 1024)

struct ec_tag_counters {
    _Atomic uint64_t allocs;
    _Atomic uint64_t frees;
    _Atomic uint64_t bytes_in;
    _Atomic uint64_t bytes_out;
};

/* What a thread did to one allocator, by the index of its row; counts blocks of block_bytes each. */
struct ec_allocator_counters {
    _Atomic uint64_t allocs;
    _Atomic uint64_t frees;
};

/* A thread slot. A thread that ends leaves its slot, counts included, to the next one. The last slot
 * is shared by threads that found no free one; its counters are added to atomically. */
struct ec_thread_row {
    alignas(EC_HOT_BYTES) _Atomic uint32_t used; /* 1 while a thread owns it */
    _Atomic uint32_t tid;
    char name[EC_THREAD_NAME_BYTES];
    alignas(EC_HOT_BYTES) struct ec_tag_counters tags[EC_TAGS_MAX];
    struct ec_allocator_counters allocators[EC_ALLOCATORS_MAX];
};

enum ec_allocator_kind {
    EC_ALLOCATOR_NONE = 0,
    EC_ALLOCATOR_ARENA = 1,
    EC_ALLOCATOR_STACK = 2,
    EC_ALLOCATOR_POOL = 3,
    EC_ALLOCATOR_SLAB = 4,
    EC_ALLOCATOR_ALIGNED = 5,
    EC_ALLOCATOR_OBJECT_POOL = 6,
    EC_ALLOCATOR_DEBUG = 7,
    EC_ALLOCATOR_FRAME_ARENA = 8,
    EC_ALLOCATOR_HEAP = 9,
};

/* In the row of an allocator whose blocks have different tags: it counts for none of them itself. */
#define EC_TAG_NONE UINT32_MAX

/* One allocator's statistics. kind is stored last (release) when a row is taken.
 *
 * An allocator with one user at a time (arena) keeps current_bytes and count here. One with many
 * (pool) leaves them 0 and sets block_bytes: its threads count in their own rows. Either counts
 * nowhere else, so what a tag has is in the rows of its allocators too. The reader adds up:
 * ec_allocator_sum() and ec_tag_sum() in proto/memory_rows.h. */
struct ec_allocator_row {
    alignas(EC_HOT_BYTES) _Atomic uint32_t kind; /* enum ec_allocator_kind; 0: unused */
    uint32_t tag;
    char name[EC_ALLOCATOR_NAME_BYTES];
    _Atomic uint64_t block_bytes; /* of each block that the thread rows count; 0: they count none */
    _Atomic uint64_t current_bytes;
    _Atomic uint64_t peak_bytes;
    _Atomic uint64_t capacity_bytes;
    _Atomic uint64_t count;    /* live blocks, without those that the thread rows count */
    _Atomic uint64_t returned; /* allocations that were in count and are given back */
    _Atomic uint64_t returned_bytes;
    _Atomic uint64_t failed;    /* refused: full, too large, zero, overflow */
    _Atomic uint64_t fallbacks; /* allocations that went to the general heap, for want of room */
    _Atomic uint64_t largest_free_bytes;
    _Atomic uint64_t
        reusable_bytes; /* free, and fit for other sizes: in groups without a live block */
};

struct ec_pulse {
    alignas(EC_HOT_BYTES) _Atomic uint64_t frame; /* frames begun */
    _Atomic int64_t frame_ns;                     /* real time of the last frame's begin */
    _Atomic uint64_t step;                        /* last step seen by ec_step_wait */
    _Atomic int64_t step_ns;                      /* real time when it was seen */
};

/* The client's answer to the breaker; sequence is odd while it is changed and 0 before the first.
 * Its two sides are ec_breaker_ack() in client/breaker.c and ec_telemetry_ack(). evictable_bytes is
 * apart: what the client could give back if it were asked, in its own words. */
struct ec_breaker_ack {
    alignas(EC_HOT_BYTES) _Atomic uint32_t level;
    _Atomic int64_t at_ns;
    _Atomic uint64_t freed_bytes;
    _Atomic uint64_t sequence;
    _Atomic uint64_t order;           /* sequence of the order that is answered; since layout 1.1 */
    _Atomic uint64_t trimmed_bytes;   /* the part of freed_bytes that allocators gave back; 1.1 */
    _Atomic uint64_t evictable_bytes; /* since layout 1.1; 0: never said */
};

/* Which knobs of the breaker the client has read, and what turning them gave back: monotonic, in its
 * own words. level is stored last (release). Since layout 1.2. */
struct ec_breaker_knob_record {
    alignas(EC_HOT_BYTES) _Atomic uint32_t level;
    _Atomic int64_t taken_ns; /* real time of the client when it first read those of this level */
    _Atomic uint64_t freed_bytes[EC_BREAKER_KNOBS];
};

/* Reference counts by thread slot and resource index. A single slot may be negative (released on
 * another thread); the sum over all threads counts. */
struct ec_reference_rows {
    alignas(EC_SEGMENT_HEADER_BYTES) _Atomic int32_t count[EC_THREADS_MAX][EC_RESOURCES_MAX];
};

/* What a member of a step clock's group did, one record for each clock. done is what the scheduler
 * waits for: the low 32 bits of the step that the member has finished, stored last (release). Its two
 * sides are client/step_member.c and daemon/scheduler/group.c. */
struct ec_step_member {
    alignas(EC_HOT_BYTES) _Atomic uint32_t done; /* futex */
    _Atomic uint32_t joined;                     /* 1 while it is a member */
    _Atomic uint64_t step;                       /* the newest step that it was told */
    _Atomic int64_t woken_ns;                    /* real time at which it was told */
    _Atomic int64_t finished_ns; /* real time at which it had finished its last step */
    /* From the due time, or the phase, or finished_ns if that was later, to woken_ns. */
    struct ec_histogram woken_late;
    struct ec_histogram step_work; /* from woken_ns to finished_ns */
};

/* Frame marks: how long frames take, from begin to begin and from begin to end. */
struct ec_frame_record {
    alignas(
        EC_HOT_BYTES) _Atomic uint64_t fps_milli; /* frames in 1000 s, by the last full second */
    struct ec_histogram period;
    struct ec_histogram work;
};

/* The client's last log lines: a ring that any of its threads writes. at_ns is stored last (release);
 * a line that is being changed may be torn, which the reader has to live with. */
#define EC_CLIENT_LOG_LINES 32
#define EC_CLIENT_LOG_TEXT_BYTES 248

struct ec_client_log_line {
    _Atomic int64_t at_ns; /* real time; 0: unused, or being changed */
    char text[EC_CLIENT_LOG_TEXT_BYTES];
};

struct ec_client_log {
    alignas(EC_HOT_BYTES) _Atomic uint64_t next; /* lines since the start */
    struct ec_client_log_line lines[EC_CLIENT_LOG_LINES];
};

/* Behind the struct, up to the end of the file, may lie blocks of the client's allocators, so much at
 * most. They are the client's affair: no offset leads there, and the daemon does not read them. */
#define EC_CLIENT_BLOCKS_MAX ((size_t)64 << 30)

/* Which resources a thread acquired, newest last; head counts all of them. The daemon reads behind it
 * every few milliseconds and loses what is overtaken. A thread that acquires the same resource again
 * before the daemon has read (ec_directory's use_epoch) writes it once. Both sides: segment/use_ring.h. */
#define EC_USE_RING 4096 /* power of two */

struct ec_use_ring {
    alignas(EC_HOT_BYTES) _Atomic uint64_t head;
    _Atomic uint64_t last; /* the thread's own: use_epoch << 32 | index of the newest */
    _Atomic uint32_t index[EC_USE_RING];
};

/* What the game keeps on its GPU, in its own words. life is generation << 32 | enum ec_gpu_state, stored
 * last (release). Both sides: segment/gpu_table.h. */
#define EC_GPU_RESOURCES_MAX 4096
#define EC_GPU_NAME_BYTES 64

enum ec_gpu_state {
    EC_GPU_UNUSED = 0,
    EC_GPU_RESIDENT = 1,
    EC_GPU_EVICTED = 2, /* declared; its bytes are given back */
};

struct ec_gpu_row {
    alignas(64) _Atomic uint64_t life;
    _Atomic uint64_t bytes;
    _Atomic uint64_t used_fence; /* the last work that uses it */
    uint64_t reserved;
    _Atomic uint64_t name[EC_GPU_NAME_BYTES / 8]; /* NUL-padded */
};

struct ec_gpu_table {
    alignas(EC_HOT_BYTES) _Atomic uint64_t completed_fence; /* all work up to it is done */
    _Atomic uint64_t budget_bytes;                          /* 0: none was said */
    _Atomic uint32_t high;                                  /* rows [0, high) were used */
    struct ec_gpu_row rows[EC_GPU_RESOURCES_MAX];
};

/* How closely the client looks at its own memory, beside the samples in tracking. */
struct ec_observation {
    alignas(EC_HOT_BYTES) _Atomic uint32_t is_switchable; /* 1: it hears memory.observe */
    _Atomic uint32_t checks; /* 1: all its pools look for double frees and foreign pointers */
    _Atomic uint64_t faults; /* that light checks found, in all allocators */
};

/* How many bytes were asked for in the blocks that a thread counts for an allocator with several sizes: what they
 * were rounded up to is allocs times block_bytes. */
struct ec_requested_row {
    alignas(EC_HOT_BYTES) _Atomic uint64_t bytes[EC_ALLOCATORS_MAX];
};

struct ec_client_segment {
    struct ec_segment_header header;
    alignas(EC_SEGMENT_HEADER_BYTES) struct ec_pulse pulse;
    struct ec_breaker_ack breaker;
    _Atomic uint32_t threads_high; /* slots [0, threads_high) were used at some time */
    struct ec_tag_row tags[EC_TAGS_MAX];
    struct ec_allocator_row allocators[EC_ALLOCATORS_MAX];
    struct ec_thread_row threads[EC_THREADS_MAX];
    struct ec_reference_rows hard;
    struct ec_reference_rows soft;
    struct ec_step_member members[EC_STEP_CLOCKS_MAX]; /* by the index of the clock */
    struct ec_frame_record frames;
    struct ec_breaker_knob_record knobs;
    struct ec_tracking tracking; /* since layout 1.3 */
    /* Since layout 1.4. */
    alignas(EC_HOT_BYTES) _Atomic uint64_t soft_changes; /* raised behind each change in soft */
    struct ec_use_ring uses[EC_THREADS_MAX];
    struct ec_gpu_table gpu;
    struct ec_client_log log; /* since layout 1.5 */
    /* Since layout 1.6. */
    struct ec_observation observation;
    struct ec_requested_row requested[EC_THREADS_MAX];
};

#endif
