/* proto/segment_header.h - the page that every shared-memory segment starts with.
 *
 *   +--------------------+ 0
 *   | ec_segment_header  |
 *   +--------------------+ EC_SEGMENT_HEADER_BYTES
 *   | layout of the kind |
 *   +--------------------+ total_bytes
 *
 * A segment is one sealed memfd with one writer. The writer fills the header before it hands the
 * descriptor out and never changes it again. Whoever maps a segment copies the header once, checks
 * the copy (ec_segment_check) and uses only the copy: the writer is not trusted.
 *
 * layout_hash covers the offset and size of each field of the kind (ec_layout_hash).
 * Another major version or hash is refused; a higher minor version only appends and is accepted. */
#ifndef EC_PROTO_SEGMENT_HEADER_H
#define EC_PROTO_SEGMENT_HEADER_H

#include <stdint.h>

#define EC_SEGMENT_MAGIC 0x45524f4345474e45ull /* "ENGECORE" in little-endian bytes */
#define EC_SEGMENT_HEADER_BYTES 4096
#define EC_SEGMENT_BYTES_MAX (1ull << 40)
#define EC_HOT_BYTES                                                                               \
    128 /* one hot word per slot: two cache lines, because of adjacent-line prefetch */

enum ec_segment_kind {
    EC_SEGMENT_CLOCK = 1,     /* writer engine-cored */
    EC_SEGMENT_DIRECTORY = 2, /* writer engine-cored */
    EC_SEGMENT_HEAP = 3,      /* writer engine-cored */
    EC_SEGMENT_CLIENT = 4,    /* writer the client */
    EC_SEGMENT_CURSOR = 5,    /* writer the client */
    EC_SEGMENT_PORT = 6,      /* writer one publishing thread */
    EC_SEGMENT_KINDS
};

struct ec_segment_header {
    uint64_t magic;
    uint32_t kind;         /* enum ec_segment_kind */
    uint16_t layout_major; /* readers refuse another one */
    uint16_t layout_minor; /* readers accept a higher one */
    uint64_t total_bytes;  /* size of the file */
    uint64_t layout_hash;
    uint64_t writer_client_id; /* 0: engine-cored */
    uint64_t instance;         /* id of the daemon that the writer knew when it made the segment */
};

/* One row per kind: its name and the version that this build writes. */
struct ec_layout {
    const char *name;
    uint16_t major;
    uint16_t minor;
};

/* The layout of a kind; NULL for a kind that does not exist. */
const struct ec_layout *ec_layout_of(uint32_t kind);

/* Hash over offset and size of the fields of a kind; 0 for a kind that does not exist. */
uint64_t ec_layout_hash(uint32_t kind);

#endif
