/* memory_snapshot.h - the memory of a client at one moment, kept to be compared with another.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_TELEMETRY_MEMORY_SNAPSHOT_H
#define ENGINE_CORED_TELEMETRY_MEMORY_SNAPSHOT_H

#include <stdint.h>

#include "foundation/error.h"
#include "proto/client_segment.h"

#define MEMORY_SNAPSHOTS_MAX 64
#define MEMORY_SNAPSHOT_NAME_BYTES 48

struct memory_amount {
    uint64_t bytes;
    uint64_t count;
    uint64_t total;
};

struct memory_snapshot {
    uint32_t id; /* from 1; 0: unused */
    uint32_t client_id;
    char name[MEMORY_SNAPSHOT_NAME_BYTES]; /* "" without one */
    int64_t real_ns;
    uint64_t frame;
    struct memory_amount tags[EC_TAGS_MAX]; /* by row, as the others */
    struct memory_amount allocators[EC_ALLOCATORS_MAX];
    struct memory_amount *sites;
    uint32_t site_count;
};

/* A ring: the oldest goes when there is no room. */
struct memory_snapshots {
    struct memory_snapshot *kept[MEMORY_SNAPSHOTS_MAX];
    uint32_t last_id;
};

void memory_snapshots_finish(struct memory_snapshots *snapshots);

/* Returns EC_OK or EC_ERR_MEMORY. */
int memory_snapshots_take(struct memory_snapshots *snapshots, uint32_t client_id, const char *name,
                          const struct ec_client_segment *segment, int64_t now_ns,
                          const struct memory_snapshot **taken, struct ec_error *why);

/* By number, or the newest with this name; NULL: there is none. */
const struct memory_snapshot *memory_snapshots_find(const struct memory_snapshots *snapshots,
                                                    uint32_t id, const char *name);

#endif
