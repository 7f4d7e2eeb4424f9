/* foundation/memory/sink.h - where allocators count: rows of tags, allocators and threads.
 *
 * A sink knows rows that somebody else owns, such as those of a client segment; allocators made with
 * one are visible there. An allocator made without a sink counts in itself.
 *
 * Each thread counts in its own row, so counting is a load, an addition and a store. The last row is
 * shared by all threads that found no other and is added to atomically.
 *
 * Current and count are computed by the reader (proto/memory_rows.h). A peak cannot be: each thread
 * now and then pushes what its balance has become since the last time into one atomic sum, and the
 * highest sum is the peak. Allocators push where they are slow anyway.
 *
 * Thread: any. Cost: one lock for rows and names, none for counting. */
#ifndef EC_FOUNDATION_MEMORY_SINK_H
#define EC_FOUNDATION_MEMORY_SINK_H

#include <pthread.h>
#include <stdbool.h>

#include <engine-core/memory.h>

#include "foundation/error.h"
#include "foundation/memory/space.h"
#include "proto/client_segment.h"

struct ec_frame_link;
struct ec_memory_watch;
struct ec_pool;

struct ec_memory_sink {
    struct ec_tag_row *tags;             /* EC_TAGS_MAX */
    struct ec_allocator_row *allocators; /* EC_ALLOCATORS_MAX */
    struct ec_thread_row *threads;       /* EC_THREADS_MAX */
    _Atomic uint32_t *threads_high;
    struct ec_requested_row *requested;     /* EC_THREADS_MAX; NULL: nobody asks */
    uint32_t (*thread_slot)(void *context); /* the calling thread's row */
    void *context;
    struct ec_space *space; /* for blocks that lie in the segment; NULL: it has no room for them */
    _Atomic uint64_t
        *faults; /* how many light checks found, with all allocators; NULL: nobody asks */
    _Atomic(const struct ec_memory_watch *) watch; /* foundation/memory/watch.h; NULL: nobody */

    pthread_mutex_t frame_lock;
    struct ec_frame_link *frame_links; /* foundation/memory/frame_list.h; under frame_lock */

    pthread_mutex_t lock;
    struct ec_pool *pools; /* that hear of watch and checks by a word of their own; under lock */
    uint8_t checks;        /* number of those that are on; 0: none. Under lock */
    uint8_t checks_last;   /* the last number that was given; under lock */
    uint64_t rows_taken[EC_ALLOCATORS_MAX / 64]; /* under lock */
    _Atomic int64_t live_bytes[EC_TAGS_MAX];     /* sum of what was pushed */
    _Atomic int64_t pushed_bytes[EC_THREADS_MAX][EC_TAGS_MAX];
};

/* Where one thread counts for one tag. Valid for that thread while it lives. */
struct ec_memory_account {
    struct ec_tag_counters *tag;
    uint32_t slot;
    bool shared; /* add atomically */
};

/* Fill in the first part of the sink before. Writes the names of the fixed tags into their rows.
 *
 * Returns EC_OK or EC_ERR_SYSTEM. */
int ec_memory_sink_init(struct ec_memory_sink *sink, struct ec_error *why);
void ec_memory_sink_finish(struct ec_memory_sink *sink);

/* Let pools look for double frees and foreign pointers from now on, or no more. Each time that they begin has a
 * number of its own, 1..255: what was marked in an earlier one means nothing any more.
 *
 * Returns EC_OK, or EC_ERR_LIMIT (all numbers were used); then nothing changes. */
int ec_memory_checks_set(struct ec_memory_sink *sink, bool on);

/* A light check has found a fault. sink may be NULL. */
static inline void ec_memory_sink_fault(struct ec_memory_sink *sink)
{
    if (sink != NULL && sink->faults != NULL)
        atomic_fetch_add_explicit(sink->faults, 1, memory_order_relaxed);
}

/* See ec_tag_register. */
int ec_memory_sink_tag(struct ec_memory_sink *sink, const char *name, uint64_t budget_bytes,
                       uint32_t *tag, struct ec_error *why);

/* Check what every allocator's description has. Returns EC_OK or EC_ERR_PARAM. */
int ec_memory_check_name(const char *name, uint32_t tag, struct ec_error *why);

/* A row for a new allocator, all counts zero, also those of the threads. block_bytes: see the row.
 * NULL when all are taken. */
struct ec_allocator_row *ec_memory_sink_row_take(struct ec_memory_sink *sink, const char *name,
                                                 enum ec_allocator_kind kind, uint32_t tag,
                                                 uint64_t block_bytes);
void ec_memory_sink_row_leave(struct ec_memory_sink *sink, struct ec_allocator_row *row);

bool ec_memory_row_is_listed(const struct ec_memory_sink *sink, const struct ec_allocator_row *row);

/* The space for in_segment of a description: NULL, the system, unless it is asked for.
 *
 * Returns EC_OK or EC_ERR_STATE (there is no sink, or it has no room for blocks). */
int ec_memory_sink_space(struct ec_memory_sink *sink, bool in_segment, struct ec_space **space,
                         struct ec_error *why);

/* The statistics of an allocator that counts all in its row. */
void ec_memory_row_stats(const struct ec_allocator_row *row, struct ec_memory_stats *stats);

/* Several allocators seen as one. The peak is the sum of the peaks: the real one is at most that. */
void ec_memory_stats_add(struct ec_memory_stats *sum, const struct ec_memory_stats *one);

/* "arena"; "unknown" for what is no kind. */
const char *ec_allocator_kind_name(uint32_t kind);

/* Set up a row that is not taken from a sink. */
void ec_memory_row_init(struct ec_allocator_row *row, const char *name, enum ec_allocator_kind kind,
                        uint32_t tag, uint64_t block_bytes);

/* The calling thread's account; or, for a thread that has no row any more, the shared one. */
struct ec_memory_account ec_memory_sink_account(struct ec_memory_sink *sink, uint32_t tag);
struct ec_memory_account ec_memory_sink_account_shared(struct ec_memory_sink *sink, uint32_t tag);

/* Count for the tag on the calling thread, and push: for blocks that no allocator's row counts. */
void ec_memory_sink_count(struct ec_memory_sink *sink, uint32_t tag, uint64_t allocs,
                          uint64_t bytes_in, uint64_t frees, uint64_t bytes_out);

/* Push the account's balance and raise the tag's peak. */
void ec_memory_sink_push(struct ec_memory_sink *sink, const struct ec_memory_account *account,
                         uint32_t tag);

/* The tag's balance has changed by so much, by what is not counted for the tag itself. */
void ec_memory_sink_push_bytes(struct ec_memory_sink *sink, uint32_t tag, int64_t bytes);

/* Replace *pushed by the balance; returns the difference. */
int64_t ec_memory_push(_Atomic int64_t *pushed, uint64_t in, uint64_t out);

/* Add the difference to *live and raise *peak to the sum, in units of so many bytes. */
void ec_memory_raise(_Atomic int64_t *live, _Atomic uint64_t *peak, int64_t difference,
                     uint64_t unit);

/* Add to a counter. Orders are relaxed throughout: counters publish nothing but themselves. */
static inline void ec_count(_Atomic uint64_t *counter, uint64_t value, bool shared)
{
    if (__builtin_expect(shared, 0))
        atomic_fetch_add_explicit(counter, value, memory_order_relaxed);
    else
        atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + value,
                              memory_order_relaxed);
}

#endif
