/* stress/memory_group.h - a memory control group with a limit, made for one run.
 *
 * Thread: one. Needs the right to make one below the own group (version 1), or below a delegated one. */
#ifndef EC_STRESS_MEMORY_GROUP_H
#define EC_STRESS_MEMORY_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct memory_group {
    char directory[512];
    bool is_v2;
    uint64_t limit_bytes;
    int usage_fd, stat_fd;
};

/* false: none can be made here; why says the reason. */
bool memory_group_create(struct memory_group *group, uint64_t limit_bytes, char *why, size_t bytes);
void memory_group_destroy(struct memory_group *group); /* its processes have to be gone */

bool memory_group_enter(const struct memory_group *group, pid_t pid);
/* As the breaker reckons it. */
uint64_t memory_group_available(const struct memory_group *group);
uint64_t memory_group_kills(const struct memory_group *group); /* by the kernel */

/* The group as one of version 2 shows itself, with pressure: a directory of links to its files. Where the
 * group is of version 1, pressure is that of a group of version 2 beside it, which the same processes
 * enter. */
struct memory_view {
    char directory[64];
    char beside[512]; /* the group of version 2; "": the group itself is one */
};

/* false: the reason is in why (no pressure here, no right to make groups). */
bool memory_view_create(struct memory_view *view, const struct memory_group *group, char *why,
                        size_t bytes);
void memory_view_destroy(struct memory_view *view);
/* Besides memory_group_enter. */
bool memory_view_enter(const struct memory_view *view, pid_t pid);

#endif
