/* account.h - where the calling thread counts, and what the next allocator in line is.
 *
 *   program --> malloc (entry.c) --> next.malloc (glibc's, or whatever else is preloaded)
 *                    |
 *                    +--> the thread's row in the client segment: a load, an addition, a store
 *
 * Everything here may be reached before any constructor ran, while the loader holds its locks, in a
 * signal handler, and in a forked child. So it takes no lock, and what it needs from others it gets
 * in account_open, during which the thread's own calls go past the counting.
 *
 * Thread: signal. */
#ifndef EC_PRELOAD_ACCOUNT_H
#define EC_PRELOAD_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "foundation/memory/module_list.h"
#include "foundation/memory/sampler.h"
#include "foundation/memory/sink.h"
#include "foundation/memory/sites.h"
#include "proto/client_segment.h"
#include "segment/segment.h"

/* The tag that everything is counted for: the first that is not fixed. Its name is the program's wish. */
#define PRELOAD_TAG EC_TAG_USER_FIRST
/* What the library's own thread takes. */
#define PRELOAD_TAG_OWN (EC_TAG_USER_FIRST + 1)
#define PRELOAD_TAG_OWN_NAME "engine-core"

/* A thread tells its balance for the peak after so many bytes. */
#define PUSH_BYTES EC_TAG_PEAK_STEP

/* The next allocator in the order of the loader. NULL: not looked up yet. */
struct next_allocator {
    void *(*malloc)(size_t);
    void (*free)(void *);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*memalign)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    size_t (*usable_size)(void *);
    int (*trim)(size_t); /* NULL: it has none */
    bool is_glibc;       /* and keeps the size where glibc does: tried out at the start */
};

/* What all threads share. Written at the start and in a forked child, read everywhere. */
struct preload {
    struct next_allocator next;
    uintptr_t mark_mask;   /* a block whose address has none of these bits may carry a mark */
    uint64_t sample_bytes; /* mean; 0: none, 1: every allocation */
    struct ec_client_segment *own;
    struct ec_segment segment; /* base NULL: counts privately, no memfd could be made */
    struct ec_memory_sink sink;
    struct ec_sites sites;
    struct ec_module_list modules;
    _Atomic uint32_t phase; /* enum preload_phase */
};

enum preload_phase { PRELOAD_NEW, PRELOAD_OPENING, PRELOAD_OPEN };

extern struct preload preload __attribute__((visibility("hidden")));

/* malloc_usable_size, without the call where the word before a block is known to say it: the size of
 * block and word in whole 16 bytes, and in bit 1 whether the block is a mapping of its own, which has
 * one word less. */
static inline size_t account_usable(void *block)
{
    size_t word;

    if (__builtin_expect(!preload.next.is_glibc, 0))
        return preload.next.usable_size(block);
    word = ((const size_t *)block)[-1];
    return (word & ~(size_t)7) - ((word & 2) != 0 ? 2 : 1) * sizeof word;
}

struct preload_thread {
    struct ec_tag_counters *counters; /* NULL: not yet, or its own calls go past */
    int64_t until;                    /* bytes to the next slow path: a push, or a sample */
    int64_t push_in;                  /* bytes to the next push, as far as until has not run */
    struct ec_sampler sampler;        /* its until: as far as the thread's has not run */
    int64_t passed;                   /* what until was set to last */
    uint32_t slot;
    uint32_t tag;
    bool shared;   /* count atomically */
    bool entering; /* inside of account_open */
    bool busy;     /* inside of a sample */
};

extern _Thread_local struct preload_thread preload_thread
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Give the thread its counters; the first thread opens the whole. false: it is about it already, or
 * another thread is; then the call goes past the counting. */
bool account_open(struct preload_thread *thread);

/* Look all the functions up. Repeats nothing. */
void account_find_next(void);

/* Start sampling at this mean distance and give the tag its name; once, before there are threads. */
void account_configure(const char *tag, uint64_t sample_bytes);

/* From now on the calling thread counts for PRELOAD_TAG_OWN, and nothing of it is a sample. */
void account_become_own(void);

/* until has run out by a block of so many bytes: push if it is time. Returns how many bytes the block
 * stands for as a sample; 0: it is none. */
uint64_t account_slow(struct preload_thread *thread, uint64_t bytes);

/* A copy of the segment in a new memfd takes the place of the old one at the same address: in a forked
 * child, and when the program closed the descriptor. The old descriptor is left as it is. false: no memfd;
 * then a private copy. */
bool account_renew_segment(bool forked);

#endif
