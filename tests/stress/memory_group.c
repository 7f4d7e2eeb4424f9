/* memory_group.c - make, limit, read and remove a control group. */
#include "stress/memory_group.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_BYTES 8192

static bool find_own(char *directory, size_t bytes, bool *is_v2);
static bool write_number(const struct memory_group *group, const char *file, uint64_t value);
static uint64_t read_number(int fd, const char *name);
static int open_in(const struct memory_group *group, const char *file, int flags);
static bool write_file(const char *directory, const char *file, const char *text);
static bool find_unified(char *directory, size_t bytes);
static void remove_group(char *directory);

bool memory_group_create(struct memory_group *group, uint64_t limit_bytes, char *why, size_t bytes)
{
    char own[400];

    *group = (struct memory_group) { .usage_fd = -1, .stat_fd = -1, .limit_bytes = limit_bytes };
    if (!find_own(own, sizeof own, &group->is_v2)) {
        snprintf(why, bytes, "no memory control group is mounted here");
        return false;
    }
    snprintf(group->directory, sizeof group->directory, "%s/engine-core-stress-%d", own,
             (int)getpid());
    if (mkdir(group->directory, 0755) < 0) {
        snprintf(why, bytes, "%s: %s", group->directory, strerror(errno));
        group->directory[0] = '\0';
        return false;
    }
    if (!write_number(group, group->is_v2 ? "memory.max" : "memory.limit_in_bytes", limit_bytes)) {
        snprintf(why, bytes, "limit of %s: %s", group->directory, strerror(errno));
        memory_group_destroy(group);
        return false;
    }
    group->usage_fd =
        open_in(group, group->is_v2 ? "memory.current" : "memory.usage_in_bytes", O_RDONLY);
    group->stat_fd = open_in(group, "memory.stat", O_RDONLY);
    return group->usage_fd >= 0 && group->stat_fd >= 0;
}

void memory_group_destroy(struct memory_group *group)
{
    if (group->usage_fd >= 0)
        close(group->usage_fd);
    if (group->stat_fd >= 0)
        close(group->stat_fd);
    group->usage_fd = group->stat_fd = -1;
    remove_group(group->directory);
}

bool memory_group_enter(const struct memory_group *group, pid_t pid)
{
    return write_number(group, "cgroup.procs", (uint64_t)pid);
}

uint64_t memory_group_available(const struct memory_group *group)
{
    const char *inactive = group->is_v2 ? "\ninactive_file " : "\ntotal_inactive_file ";
    const char *active = group->is_v2 ? "\nactive_file " : "\ntotal_active_file ";
    const uint64_t usage = read_number(group->usage_fd, NULL);
    const uint64_t file =
        read_number(group->stat_fd, inactive) + read_number(group->stat_fd, active) / 2;
    const uint64_t used = usage > file ? usage - file : 0;

    return group->limit_bytes > used ? group->limit_bytes - used : 0;
}

uint64_t memory_group_kills(const struct memory_group *group)
{
    const int fd = open_in(group, group->is_v2 ? "memory.events" : "memory.oom_control", O_RDONLY);
    const uint64_t kills = fd < 0 ? 0 : read_number(fd, "\noom_kill ");

    if (fd >= 0)
        close(fd);
    return kills;
}

bool memory_view_create(struct memory_view *view, const struct memory_group *group, char *why,
                        size_t bytes)
{
    const struct {
        const char *name, *v1;
    } links[] = {
        { "memory.max", "memory.limit_in_bytes" },
        { "memory.current", "memory.usage_in_bytes" },
        { "memory.stat", "memory.stat" },
    };
    char from[600], to[128];
    bool done = true;

    *view = (struct memory_view) { .directory = "/tmp/ec-view-XXXXXX" };
    if (!group->is_v2) {
        if (!find_unified(from, sizeof from)) {
            snprintf(why, bytes, "no control groups of version 2 are mounted here");
            view->directory[0] = '\0';
            return false;
        }
        snprintf(view->beside, sizeof view->beside, "%.400s/engine-core-stress-%d", from,
                 (int)getpid());
        if (mkdir(view->beside, 0755) < 0) {
            snprintf(why, bytes, "%.150s: %s", view->beside, strerror(errno));
            view->beside[0] = view->directory[0] = '\0';
            return false;
        }
    }
    done = mkdtemp(view->directory) != NULL;
    for (size_t i = 0; i < sizeof links / sizeof links[0] && done; i++) {
        snprintf(from, sizeof from, "%s/%s", group->directory,
                 group->is_v2 ? links[i].name : links[i].v1);
        snprintf(to, sizeof to, "%s/%s", view->directory, links[i].name);
        done = symlink(from, to) == 0;
    }
    snprintf(from, sizeof from, "%s/memory.pressure",
             group->is_v2 ? group->directory : view->beside);
    snprintf(to, sizeof to, "%s/memory.pressure", view->directory);
    done = done && access(from, R_OK) == 0 && symlink(from, to) == 0;
    if (!done) {
        snprintf(why, bytes, "%.150s: %s", from, strerror(errno));
        memory_view_destroy(view);
    }
    return done;
}

void memory_view_destroy(struct memory_view *view)
{
    static const char *const names[] = { "memory.max", "memory.current", "memory.stat",
                                         "memory.pressure" };
    char path[128];

    for (size_t i = 0; i < sizeof names / sizeof names[0] && view->directory[0] != '\0'; i++) {
        snprintf(path, sizeof path, "%s/%s", view->directory, names[i]);
        unlink(path);
    }
    if (view->directory[0] != '\0')
        rmdir(view->directory);
    remove_group(view->beside);
    *view = (struct memory_view) { 0 };
}

bool memory_view_enter(const struct memory_view *view, pid_t pid)
{
    char text[32];

    snprintf(text, sizeof text, "%d", (int)pid);
    return view->beside[0] == '\0' || write_file(view->beside, "cgroup.procs", text);
}

/* The last process is out of it a moment after it was waited for, and version 1 tells nobody when. */
static void remove_group(char *directory)
{
    for (unsigned i = 0; directory[0] != '\0' && i < 200; i++) {
        if (rmdir(directory) == 0 || errno != EBUSY)
            break;
        usleep(10000);
    }
    directory[0] = '\0';
}

/* Where the tree of version 2 is mounted: by itself, or beside those of version 1. */
static bool find_unified(char *directory, size_t bytes)
{
    static const char *const places[] = { "/sys/fs/cgroup/unified", "/sys/fs/cgroup" };

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char path[64];

        snprintf(path, sizeof path, "%s/cgroup.controllers", places[i]);
        snprintf(directory, bytes, "%s", places[i]);
        if (access(path, R_OK) == 0 && access(directory, W_OK) == 0)
            return true;
    }
    return false;
}

/* The group of this process, version 1 first: where both are mounted memory is there. */
static bool find_own(char *directory, size_t bytes, bool *is_v2)
{
    char line[512], path[300] = "";
    bool found = false;
    FILE *file = fopen("/proc/self/cgroup", "re");

    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        char *colon = strchr(line, ':');

        line[strcspn(line, "\n")] = '\0';
        if (colon == NULL)
            continue;
        if (strncmp(colon, ":memory:", 8) == 0) {
            snprintf(path, sizeof path, "%s", colon + 8);
            *is_v2 = false;
            found = true;
        }
    }
    if (file != NULL)
        fclose(file);
    if (found) {
        snprintf(directory, bytes, "/sys/fs/cgroup/memory%s", strcmp(path, "/") == 0 ? "" : path);
        return access(directory, W_OK) == 0;
    }
    /* Version 2: only where the controller was handed down to the children of the root. */
    *is_v2 = true;
    snprintf(directory, bytes, "/sys/fs/cgroup");
    file = fopen("/sys/fs/cgroup/cgroup.subtree_control", "re");
    found =
        file != NULL && fgets(line, sizeof line, file) != NULL && strstr(line, "memory") != NULL;
    if (file != NULL)
        fclose(file);
    return found && access(directory, W_OK) == 0;
}

static bool write_number(const struct memory_group *group, const char *file, uint64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%" PRIu64, value);
    return write_file(group->directory, file, text);
}

static bool write_file(const char *directory, const char *file, const char *text)
{
    const ssize_t bytes = (ssize_t)strlen(text);
    char path[600];
    bool done;
    int fd;

    snprintf(path, sizeof path, "%s/%s", directory, file);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    done = fd >= 0 && write(fd, text, (size_t)bytes) == bytes;
    if (fd >= 0)
        close(fd);
    return done;
}

/* The number behind name, or the first one. */
static uint64_t read_number(int fd, const char *name)
{
    char text[TEXT_BYTES];
    ssize_t bytes;
    const char *at;

    text[0] = '\n'; /* so that the first row begins as the others */
    bytes = pread(fd, text + 1, sizeof text - 2, 0);
    if (bytes <= 0)
        return 0;
    text[bytes + 1] = '\0';
    at = name == NULL ? text : strstr(text, name);
    return at == NULL ? 0 : strtoull(at + (name == NULL ? 1 : strlen(name)), NULL, 10);
}

static int open_in(const struct memory_group *group, const char *file, int flags)
{
    char path[600];

    snprintf(path, sizeof path, "%s/%s", group->directory, file);
    return open(path, flags | O_CLOEXEC);
}
