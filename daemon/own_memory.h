/* own_memory.h - the daemon's own memory, counted as that of any client.
 *
 * The daemon maps no segment of its own into others, so the rows that its allocators count in lie in
 * private memory; reports read them like a client's. Arenas and pools of the modules are made with
 * own_memory_sink(); what comes and goes with clients and requests are blocks of one heap. What still comes
 * from the C library is one row, brought up to date for a report.
 *
 * Thread: any, except where stated. */
#ifndef ENGINE_CORED_OWN_MEMORY_H
#define ENGINE_CORED_OWN_MEMORY_H

#include <stdint.h>

#include "foundation/error.h"
#include "foundation/memory/sink.h"

struct own_memory;
struct services;

/* What the daemon's memory is for. */
enum own_memory_tag {
    OWN_MEMORY_HEAP,     /* the C library's blocks */
    OWN_MEMORY_REQUESTS, /* while a command runs */
    OWN_MEMORY_CONNECTIONS,
    OWN_MEMORY_REPLIES, /* answers that come later */
    OWN_MEMORY_FEEDS,   /* subscriptions, and what waits for them or can be replayed */
    OWN_MEMORY_ROUTES,  /* ports, readers and their links */
    OWN_MEMORY_TAGS
};

int own_memory_init(struct services *services, struct ec_error *why); /* module phase */
void own_memory_shutdown(struct services *services);

/* own NULL, as in the test of a module: NULL, and tag 0. */
struct ec_memory_sink *own_memory_sink(struct own_memory *own);
uint32_t own_memory_tag(const struct own_memory *own, enum own_memory_tag tag);

/* One zeroed block, from the pools of the daemon's heap; NULL: no memory. Under AddressSanitizer it comes from
 * malloc, which sees more, and is counted all the same. */
void *own_memory_alloc(struct own_memory *own, enum own_memory_tag tag, size_t bytes);
void own_memory_free(void *block); /* accepts NULL */
/* Whose block it is: for one more beside it. */
struct own_memory *own_memory_of(const void *block);

/* What a report reads. Thread: loop. */
const struct ec_client_segment *own_memory_segment(struct own_memory *own);

/* Blocks of the C library's allocator that are in use, mapped ones included. */
uint64_t own_memory_bytes(void);

#endif
