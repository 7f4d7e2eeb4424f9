#include "daemon/own_memory.h"

#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/services.h"
#include "foundation/memory/heap.h"
#include "segment/thread_rows.h"

struct own_memory {
    struct ec_client_segment *rows;
    struct ec_memory_sink sink;
    struct ec_allocator_row *c_library; /* NULL: no row was free */
    struct ec_heap *heap;
    uint32_t tags[OWN_MEMORY_TAGS];
};

static uint32_t thread_slot(void *context);
static int make_rows(struct own_memory *own, struct ec_error *why);

int own_memory_init(struct services *services, struct ec_error *why)
{
    static const char *const names[OWN_MEMORY_TAGS] = {
        [OWN_MEMORY_HEAP] = "heap",
        [OWN_MEMORY_REQUESTS] = "requests",
        [OWN_MEMORY_CONNECTIONS] = "connections",
        [OWN_MEMORY_REPLIES] = "replies",
        [OWN_MEMORY_FEEDS] = "feeds",
        [OWN_MEMORY_ROUTES] = "routes",
    };
    struct own_memory *own = calloc(1, sizeof *own);
    int rc;

    if (own == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for the daemon's own counters");
    rc = make_rows(own, why);
    if (rc == EC_OK)
        rc = ec_memory_sink_init(&own->sink, why);
    for (unsigned i = 0; rc == EC_OK && i < OWN_MEMORY_TAGS; i++)
        rc = ec_memory_sink_tag(&own->sink, names[i], 0, &own->tags[i], why);
    if (rc == EC_OK)
        rc = ec_heap_create_in(&own->sink, &(struct ec_heap_desc) { .name = "blocks" }, &own->heap,
                               why);
    if (rc < 0) {
        if (own->rows != NULL)
            munmap(own->rows, sizeof *own->rows);
        free(own);
        return rc;
    }
    own->c_library = ec_memory_sink_row_take(&own->sink, "C library", EC_ALLOCATOR_HEAP,
                                             own->tags[OWN_MEMORY_HEAP], 0);
    services->own_memory = own;
    return EC_OK;
}

void own_memory_shutdown(struct services *services)
{
    struct own_memory *own = services->own_memory;

    if (own == NULL)
        return;
    ec_heap_destroy(own->heap);
    ec_memory_sink_finish(&own->sink);
    munmap(own->rows, sizeof *own->rows);
    free(own);
    services->own_memory = NULL;
}

struct ec_memory_sink *own_memory_sink(struct own_memory *own)
{
    return own != NULL ? &own->sink : NULL;
}

uint32_t own_memory_tag(const struct own_memory *own, enum own_memory_tag tag)
{
    return own != NULL ? own->tags[tag] : 0;
}

const struct ec_client_segment *own_memory_segment(struct own_memory *own)
{
    const struct mallinfo2 info = mallinfo2();
    const uint64_t bytes = info.uordblks + info.hblkhd;
    struct ec_allocator_row *row = own->c_library;

    if (row == NULL)
        return own->rows;
    /* Relaxed: the loop writes and reads them. The number of blocks is not known, which is 0. */
    atomic_store_explicit(&row->current_bytes, bytes, memory_order_relaxed);
    if (bytes > atomic_load_explicit(&row->peak_bytes, memory_order_relaxed))
        atomic_store_explicit(&row->peak_bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&row->capacity_bytes, info.arena + info.hblkhd, memory_order_relaxed);
    atomic_store_explicit(&row->largest_free_bytes, info.keepcost, memory_order_relaxed);
    return own->rows;
}

uint64_t own_memory_bytes(void)
{
    const struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

/* In front of each block: who frees it need not know more. */
struct front {
    struct own_memory *own;
    uint32_t tag;
    size_t bytes;
};

#define FRONT_BYTES 32 /* a multiple of 16, as blocks are aligned */
_Static_assert(sizeof(struct front) <= FRONT_BYTES, "it lies in front");

#if defined(__SANITIZE_ADDRESS__)
static void *take_block(struct own_memory *own, uint32_t tag, size_t bytes)
{
    void *block = malloc(bytes);

    if (block != NULL)
        ec_memory_sink_count(&own->sink, tag, 1, bytes, 0, 0);
    return block;
}

static void give_block(struct front *front)
{
    ec_memory_sink_count(&front->own->sink, front->tag, 0, 0, 1, front->bytes);
    free(front);
}
#else
static void *take_block(struct own_memory *own, uint32_t tag, size_t bytes)
{
    return ec_alloc(own->heap, bytes, tag);
}

static void give_block(struct front *front)
{
    const int rc = ec_free(front->own->heap, front);

    assert(rc == EC_OK);
    (void)rc;
}
#endif

void *own_memory_alloc(struct own_memory *own, enum own_memory_tag tag, size_t bytes)
{
    const size_t whole = FRONT_BYTES + bytes;
    struct front *front;

    if (whole < bytes)
        return NULL;
    front = own != NULL ? take_block(own, own->tags[tag], whole) : malloc(whole);
    if (front == NULL)
        return NULL;
    memset(front, 0, whole);
    *front = (struct front) { .own = own, .tag = own_memory_tag(own, tag), .bytes = whole };
    return (char *)front + FRONT_BYTES;
}

void own_memory_free(void *block)
{
    struct front *front;

    if (block == NULL)
        return;
    front = (struct front *)(void *)((char *)block - FRONT_BYTES);
    if (front->own != NULL)
        give_block(front);
    else
        free(front);
}

struct own_memory *own_memory_of(const void *block)
{
    return ((const struct front *)(const void *)((const char *)block - FRONT_BYTES))->own;
}

/* Pages come when they are touched: some of the counters, none of the references. */
static int make_rows(struct own_memory *own, struct ec_error *why)
{
    void *rows = mmap(NULL, sizeof *own->rows, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (rows == MAP_FAILED)
        return ec_fail(why, EC_ERR_MEMORY, "reserve %zu bytes for the daemon's own counters: %s",
                       sizeof *own->rows, strerror(errno));
    own->rows = rows;
    own->sink.tags = own->rows->tags;
    own->sink.allocators = own->rows->allocators;
    own->sink.threads = own->rows->threads;
    own->sink.threads_high = &own->rows->threads_high;
    own->sink.requested = own->rows->requested;
    own->sink.faults = &own->rows->observation.faults;
    own->sink.thread_slot = thread_slot;
    own->sink.context = own;
    return EC_OK;
}

/* The daemon has few threads, and they end with it. */
static uint32_t thread_slot(void *context)
{
    static _Thread_local struct {
        const struct own_memory *own;
        uint32_t slot;
    } held;
    const struct own_memory *own = context;

    if (held.own != own) {
        held.own = own;
        held.slot = ec_thread_rows_claim(own->rows);
    }
    return held.slot;
}
