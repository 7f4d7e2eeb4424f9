/* memory_text.h - what the kernel's text files about memory say, as numbers.
 *
 * Pure functions: text in, numbers out. Every text ends with a NUL and may hold anything.
 *
 * Thread: any. */
#ifndef ENGINE_CORED_BREAKER_MEMORY_TEXT_H
#define ENGINE_CORED_BREAKER_MEMORY_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMORY_UNLIMITED UINT64_MAX

/* "1234\n"; "max" is MEMORY_UNLIMITED. false: neither. */
bool memory_text_number(const char *text, uint64_t *value);

/* The number behind a name that begins a row: "inactive_file 4096", "MemTotal:   123 kB". */
bool memory_text_row(const char *text, const char *name, uint64_t *value);

/* How long programs have waited for memory so far, of a pressure file; row is "some" or "full". */
bool memory_text_stalled_us(const char *text, const char *row, uint64_t *microseconds);

/* Of /proc/meminfo. kernel_bytes is MemAvailable, which is far too high on some hosts; available_bytes
 * is that, but no more than free memory, clean cache (the active part by half) and half of what the
 * kernel could give back of its own. false: there is no MemTotal or MemAvailable. */
struct memory_host {
    uint64_t total_bytes;
    uint64_t available_bytes;
    uint64_t kernel_bytes;
};
bool memory_text_host(const char *meminfo, struct memory_host *host);

/* The two versions of control groups, and their files. */
struct memory_group_version {
    const char *type;                                               /* of the file system */
    const char *limit, *high, *usage, *inactive_file, *active_file; /* high may be NULL */
};
extern const struct memory_group_version memory_group_v1, memory_group_v2;

/* Available of a group: limit - (usage - inactive file pages - half of the active ones). Shared memory
 * is in usage and in none of the others: it counts as used. stat may be "". */
uint64_t memory_text_group_left(const struct memory_group_version *version, uint64_t limit_bytes,
                                uint64_t usage_bytes, const char *stat);

/* The path of the memory group in /proc/PID/cgroup: "/…", "" for the root. false: it is in none, or
 * the path does not fit. */
bool memory_text_group_path(const char *cgroup, const struct memory_group_version *version,
                            char *path, size_t bytes);

/* Where the tree of groups is mounted, and which directory of the tree that is. Of
 * /proc/PID/mountinfo. */
bool memory_text_group_mount(const char *mountinfo, const struct memory_group_version *version,
                             char *root, char *mount, size_t bytes);

#endif
