/* segments.h - the daemon's own segments: clock page, directory, asset heap.
 *
 * Each is a memfd that the daemon maps writable before it seals it; clients get read-only
 * descriptors. The event port of the daemon belongs to the events module.
 *
 * Where the service manager keeps descriptors (daemon/fd_store.h) all three are left with it, and the
 * next run takes them over as they are: with step index, game time, handles and assets. If one of them
 * cannot be used, all begin anew.
 *
 * Protection: clock and directory carry F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE; the heap
 * carries SHRINK | GROW (in a tmpfs of its own, heap_file.h, no seal at all), mode 0400 and is passed as a
 * descriptor opened read-only, because FUTURE_WRITE forbids to punch holes. It also forbids a later run to
 * map them writable, so with a descriptor store clock and directory are protected like the heap. */
#ifndef ENGINE_CORED_SEGMENTS_H
#define ENGINE_CORED_SEGMENTS_H

#include <stdbool.h>

#include "foundation/error.h"
#include "proto/clock_page.h"
#include "proto/directory.h"

struct services;
struct segments;

int segments_init(struct services *services, struct ec_error *why);      /* module phase */
int segments_post_init(struct services *services, struct ec_error *why); /* they go to the store */
void segments_shutdown(struct services *services);

/* For tests: the same without the rest of the daemon. */
struct fd_store;
struct segments_desc {
    uint64_t instance;
    uint64_t heap_bytes;
    struct fd_store *store;   /* NULL: none */
    uint64_t instance_before; /* of the run that left segments there */
};
int segments_create(const struct segments_desc *desc, struct segments **segments,
                    struct ec_error *why);
void segments_destroy(struct segments *segments);

/* Whether they are those of an earlier run of the daemon, which the service manager kept. */
bool segments_are_kept(const struct segments *segments);

struct ec_clock_page *segments_clock(struct segments *segments);
struct ec_directory *segments_directory(struct segments *segments);
unsigned char *
segments_heap(struct segments *segments); /* base of the file; page 0 is its header */
uint64_t segments_heap_bytes(struct segments *segments);
int segments_heap_fd(struct segments *segments);                       /* writable: for fallocate */
const char *segments_heap_protection(const struct segments *segments); /* as in its row */
/* How much of the heap's memory is huge pages. Cost: reads a few pages of it and /proc; not for often. */
uint64_t segments_heap_huge_bytes(const struct segments *segments);

/* What clients get, in the order of the attach reply: name, kind and a read-only descriptor. */
struct segment_row {
    const char *name; /* "clock", "directory", "heap" */
    uint32_t kind;
    uint64_t bytes;
    int fd;                 /* owned by the segments */
    const char *protection; /* for core.info: "sealed" or "read-only descriptor" */
};
const struct segment_row *segments_rows(struct segments *segments, unsigned *count);

#endif
