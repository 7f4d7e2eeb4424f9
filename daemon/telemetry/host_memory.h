/* host_memory.h - how much memory there is and how much of it can still be had.
 *
 * The host says it in /proc/meminfo; in a container a control group may allow less. All groups from
 * the own one up to the root are looked at, v2 and v1, and the place with the least left counts:
 *
 *     left of a group = limit - (usage - inactive file pages - half of the active ones)
 *
 * Shared memory counts as used everywhere. Thread: any. Cost: some small files are read. */
#ifndef ENGINE_CORED_TELEMETRY_HOST_MEMORY_H
#define ENGINE_CORED_TELEMETRY_HOST_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "foundation/error.h"

struct host_memory {
    uint64_t total_bytes;
    uint64_t available_bytes;
    uint64_t cgroup_limit_bytes; /* the least limit of the own groups; 0: none is limited */
    char source[256];            /* "meminfo", or the directory of the group that counts */
};

/* proc is "/proc", or a directory of a test with meminfo, self/cgroup and self/mountinfo.
 *
 * Returns EC_OK or EC_ERR_SYSTEM (no meminfo there). Groups that cannot be read count as unlimited. */
int host_memory_read(const char *proc, struct host_memory *memory, struct ec_error *why);

/* Resident memory of a process. peak may be NULL. Returns 0 when it cannot be read. */
uint64_t host_memory_rss(const char *proc, int pid, uint64_t *peak_bytes);

/* What the system says of a process. */
struct process_memory {
    uint64_t rss_bytes; /* anonymous + file + shared */
    uint64_t anonymous_bytes;
    uint64_t file_bytes;
    uint64_t shared_bytes; /* memfds among it, such as segments */
    uint64_t swap_bytes;
    uint64_t mapped_bytes; /* address space */
};

/* false: it cannot be read. */
bool host_memory_process(const char *proc, int pid, struct process_memory *memory);

#endif
