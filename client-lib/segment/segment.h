/* segment.h - create, seal, map and check shared-memory segments.
 *
 * The writer creates a segment (memfd, sized, mapped writable, header filled in, then sealed) and
 * hands its descriptor out. A reader maps a descriptor that a stranger handed in: it checks seals,
 * size and header before it looks at anything else.
 *
 * Thread: any. Cost: system calls; never on a hot path. */
#ifndef EC_SEGMENT_SEGMENT_H
#define EC_SEGMENT_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "foundation/error.h"
#include "proto/segment_header.h"

struct ec_segment_desc {
    const char *name;   /* shown in /proc/PID/maps as memfd:name */
    uint32_t kind;      /* enum ec_segment_kind */
    uint64_t bytes;     /* of the file, header page included; rounded up to pages */
    uint64_t client_id; /* of the writer; 0: engine-cored */
    uint64_t instance;
    bool punchable;         /* the heap: no FUTURE_WRITE seal, so that holes can be punched */
    bool adoptable;         /* no FUTURE_WRITE seal, so that ec_segment_adopt() can map it again */
    bool populate;          /* reserve and touch every page now: no shortage and no fault later */
    uint64_t mirror_offset; /* [mirror_offset, bytes) is mapped twice in a row; 0: not */
    uint64_t mirror_used;   /* the writer goes so far into the second mapping: what populate enters
                               of it in the page table */
    int file_fd; /* the heap: make it in this empty file of a tmpfs, which cannot be sealed, and
                               whose owner the segment becomes; 0: in a memfd */
};

/* The writer's side: the only writable mapping there will ever be. Fork leaves it out of the child. */
struct ec_segment {
    int fd;
    void *base;
    uint64_t bytes;        /* of the file */
    uint64_t mapped_bytes; /* of the address range: more than bytes when mirrored */
};

/* Returns EC_OK, EC_ERR_PARAM (size, kind), EC_ERR_MEMORY or EC_ERR_SYSTEM. */
int ec_segment_init(struct ec_segment *segment, const struct ec_segment_desc *desc,
                    struct ec_error *why);
/* Map one writable again that an earlier run of this program made, punchable or adoptable. It must
 * belong to this user, with nobody else allowed to open it, and have the size seals, the size and the
 * header that desc asks for; instance is the one that it must carry. The descriptor is the segment's
 * afterwards, also after an error (then it is closed).
 *
 * Returns EC_OK, EC_ERR_LAYOUT, EC_ERR_SIZE, EC_ERR_PERMISSION or EC_ERR_SYSTEM. */
int ec_segment_adopt(struct ec_segment *segment, int fd, const struct ec_segment_desc *desc,
                     struct ec_error *why);
void ec_segment_finish(struct ec_segment *segment); /* accepts a zeroed one */

/* Of a segment that was made before there was a daemon: who writes it, and for whom. Before it is
 * handed out. */
void ec_segment_name_writer(struct ec_segment *segment, uint64_t client_id, uint64_t instance);

/* The reader's side. The descriptor stays the caller's and may be closed afterwards. */
struct ec_segment_map {
    const void *base; /* NULL: not mapped */
    uint64_t bytes;
    uint64_t mapped_bytes;
    struct ec_segment_header header; /* the checked copy */
};

/* Check seals (SHRINK, GROW, and FUTURE_WRITE or WRITE unless the daemon writes the kind; a heap may also
 * be a file of a tmpfs, which only its mode protects), size and header against the kind, then map
 * read-only. bytes_min and bytes_max bound the size of the file.
 *
 * Returns EC_OK, EC_ERR_LAYOUT (the text names the field with both values), EC_ERR_SIZE or
 * EC_ERR_SYSTEM; then nothing stays mapped. */
int ec_segment_map_init(struct ec_segment_map *map, int fd, uint32_t kind, uint64_t bytes_min,
                        uint64_t bytes_max, struct ec_error *why);
/* Map another file in the place of the one that is mapped, at the same address: who reads meanwhile
 * sees one or the other. Checks as ec_segment_map_init; the file may be larger than the one before, of
 * which only so much is mapped, but not smaller. Not for mirrored ones.
 *
 * Returns as ec_segment_map_init, and EC_ERR_SIZE (smaller); then the one before stays. */
int ec_segment_map_replace(struct ec_segment_map *map, int fd, uint32_t kind, uint64_t bytes_max,
                           struct ec_error *why);
/* Map fd, or zeros when it is -1, read-only over what is mapped at base. Others may read there meanwhile.
 * Returns 0 or an errno. */
int ec_segment_map_over(const void *base, uint64_t bytes, int fd);
/* Map again so that [offset, bytes) appears twice in a row; for rings, whose offset is checked first. */
int ec_segment_map_mirror(struct ec_segment_map *map, int fd, uint64_t offset,
                          struct ec_error *why);
void ec_segment_map_finish(struct ec_segment_map *map); /* accepts a zeroed one */

/* Compare a copied header with what this build understands: EC_OK or EC_ERR_LAYOUT. */
int ec_segment_check(const struct ec_segment_header *header, uint32_t kind, uint64_t file_bytes,
                     struct ec_error *why);

/* The first field in which the header differs, for those who report it as data. A map whose
 * initialisation failed keeps size and header (zero when it did not come so far) for this.
 * Returns false when nothing differs. */
struct ec_segment_mismatch {
    const char *field;
    uint64_t got;
    uint64_t expected;
};
bool ec_segment_mismatch(const struct ec_segment_header *header, uint32_t kind, uint64_t file_bytes,
                         struct ec_segment_mismatch *mismatch);

#endif
