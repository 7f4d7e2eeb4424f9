/* proto/directory.h - the directory of resources, the heap that they lie in, and the breaker's board.
 *
 * Writer: engine-cored's main loop. Readers: all, read-only.
 *
 * life = generation << 32 | state is one word, so that an acquire checks both with one load. The
 * daemon leaves READY (release) before it changes any other field and enters it (release) after; a
 * reader copies the fields and loads life again (acquire fence between), or holds a reference, which
 * keeps them still. The protocol of acquire and evict stands in segment/references.h.
 *
 * An entry can lose its name (name_hash 0) and get another one later, under a later generation: who
 * finds an entry by name loads life and then looks at name_hash again, ec_directory_find(). */
#ifndef EC_PROTO_DIRECTORY_H
#define EC_PROTO_DIRECTORY_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#include "proto/breaker_board.h"
#include "proto/segment_header.h"

#define EC_RESOURCES_MAX 16384
#define EC_RESOURCE_INDEX_SLOTS 32768 /* power of two, twice the resources */
#define EC_RESOURCE_NAME_BYTES 128
#define EC_RESOURCE_INDEX_GONE UINT32_MAX

enum ec_resource_state {
    EC_RESOURCE_UNLOADED = 0,
    EC_RESOURCE_LOADING = 1,
    EC_RESOURCE_READY = 2,
    EC_RESOURCE_EVICTING = 3, /* may be undone: an acquire tries again */
    EC_RESOURCE_EVICTED = 4,
    EC_RESOURCE_FAILED = 5,
};

enum ec_resource_kind { EC_KIND_RAW = 0, EC_KIND_IMAGE = 1 };

struct ec_directory_entry {
    alignas(EC_HOT_BYTES) _Atomic uint64_t life; /* generation << 32 | enum ec_resource_state */
    _Atomic uint64_t name_hash;                  /* FNV-1a of the name; 0: never used */
    /* In the heap segment; the writer's own without a name: the next such entry + 1. */
    _Atomic uint64_t offset;
    _Atomic uint64_t bytes;
    _Atomic uint32_t kind;
    _Atomic uint32_t width; /* images: pixels; rows are tight, stride = width * channels */
    _Atomic uint32_t height;
    _Atomic uint32_t channels; /* 1 grey, 2 grey+alpha, 3 RGB, 4 RGBA, 8 bits each */
    _Atomic uint32_t stride;   /* bytes from row to row */
    _Atomic uint32_t levels;   /* images: mip levels, see image_levels.h; since layout 1.2 */
    /* NUL-padded. Words, so that a reader that comes while the entry changes hands tears nothing. */
    _Atomic uint64_t name[EC_RESOURCE_NAME_BYTES / 8];
};

struct ec_directory {
    struct ec_segment_header header;
    alignas(EC_SEGMENT_HEADER_BYTES) _Atomic uint32_t high; /* entries [0, high) were used */
    _Atomic uint32_t membarrier; /* 1: the writer orders references; 0: acquire needs a fence */
    _Atomic uint32_t first_generation; /* of a new entry; other in each run; 0 is 1; since 1.2 */
    uint32_t first_free; /* the writer's own: entries without a name, + 1; since layout 1.3 */
    uint32_t free_count; /* the writer's own: how many; 1.3 */
    /* Raised each time that the writer has read the clients' rings of uses; since layout 1.3. */
    _Atomic uint32_t use_epoch;
    /* Open addressing by name_hash: index + 1 of the entry; 0 ends the search,
     * EC_RESOURCE_INDEX_GONE does not. */
    alignas(EC_HOT_BYTES) _Atomic uint32_t index[EC_RESOURCE_INDEX_SLOTS];
    struct ec_directory_entry entries[EC_RESOURCES_MAX];
    struct ec_breaker_board breaker; /* since layout 1.1 */
};

/* The heap's first page is its header; ranges are page-granular. */
struct ec_asset_heap {
    struct ec_segment_header header;
    alignas(EC_SEGMENT_HEADER_BYTES) unsigned char bytes[1];
};

#endif
