/* host_memory.c - read meminfo and the chain of control groups. */
#include "telemetry/host_memory.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The files of the two versions of control groups. */
static const struct group_version {
    const char *limit, *usage, *inactive_file, *active_file;
} v2 = { "memory.max", "memory.current", "inactive_file", "active_file" },
  v1 = { "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
         "total_active_file" };

/* Where the memory groups of this process are: a mounted tree and a directory in it. */
struct group_place {
    const struct group_version *version;
    char mount[PATH_MAX];
    char path[PATH_MAX]; /* "" or "/…" below mount */
};

static bool find_own_group(const char *proc, const struct group_version *version,
                           struct group_place *place);
static bool find_mount(const char *proc, const struct group_version *version, char *root,
                       char *mount);
static void look_at_groups(struct group_place *place, struct host_memory *memory);
static bool group_left(const struct group_version *version, const char *directory,
                       uint64_t *limit_bytes, uint64_t *left_bytes);
static bool read_number(const char *directory, const char *file, uint64_t *value);
static bool read_row(const char *directory, const char *file, const char *name, uint64_t *value);

int host_memory_read(const char *proc, struct host_memory *memory, struct ec_error *why)
{
    static const struct group_version *const versions[] = { &v2, &v1 };
    struct group_place place;

    *memory = (struct host_memory) { .source = "meminfo" };
    if (!read_row(proc, "meminfo", "MemTotal:", &memory->total_bytes) ||
        !read_row(proc, "meminfo", "MemAvailable:", &memory->available_bytes))
        return ec_fail(why, EC_ERR_SYSTEM, "%s/meminfo has no MemTotal and MemAvailable", proc);
    memory->total_bytes *= 1024;
    memory->available_bytes *= 1024;
    for (unsigned i = 0; i < sizeof versions / sizeof versions[0]; i++)
        if (find_own_group(proc, versions[i], &place))
            look_at_groups(&place, memory);
    return EC_OK;
}

uint64_t host_memory_rss(const char *proc, int pid, uint64_t *peak_bytes)
{
    char directory[PATH_MAX];
    uint64_t rss = 0, peak = 0;

    snprintf(directory, sizeof directory, "%s/%d", proc, pid);
    if (!read_row(directory, "status", "VmRSS:", &rss))
        rss = 0;
    if (peak_bytes != NULL)
        *peak_bytes = read_row(directory, "status", "VmHWM:", &peak) ? peak * 1024 : 0;
    return rss * 1024;
}

bool host_memory_process(const char *proc, int pid, struct process_memory *memory)
{
    const struct {
        const char *name;
        uint64_t *bytes;
    } rows[] = {
        { "VmRSS:", &memory->rss_bytes },    { "RssAnon:", &memory->anonymous_bytes },
        { "RssFile:", &memory->file_bytes }, { "RssShmem:", &memory->shared_bytes },
        { "VmSwap:", &memory->swap_bytes },  { "VmSize:", &memory->mapped_bytes },
    };
    char path[PATH_MAX], line[256];
    FILE *file;

    *memory = (struct process_memory) { 0 };
    snprintf(path, sizeof path, "%s/%d/status", proc, pid);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    while (fgets(line, sizeof line, file) != NULL)
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
            if (strncmp(line, rows[i].name, strlen(rows[i].name)) == 0)
                *rows[i].bytes = strtoull(line + strlen(rows[i].name), NULL, 10) * 1024;
    fclose(file);
    return memory->rss_bytes != 0; /* one that has ended has none */
}

/* /proc/self/cgroup has a line "0::/path" for v2 and "4:memory,…:/path" for v1. The path is seen from
 * the root of the tree, of which only a part may be mounted here. */
static bool find_own_group(const char *proc, const struct group_version *version,
                           struct group_place *place)
{
    char file_path[PATH_MAX], line[PATH_MAX + 64], root[PATH_MAX];
    bool found = false;
    size_t root_bytes;
    FILE *file;

    place->version = version;
    if (!find_mount(proc, version, root, place->mount))
        return false;
    snprintf(file_path, sizeof file_path, "%s/self/cgroup", proc);
    file = fopen(file_path, "re");
    if (file == NULL)
        return false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        char *controllers = strchr(line, ':'), *path;

        path = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        if (path == NULL)
            continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        if (version == &v2 ? strcmp(controllers, ":") != 0 : strstr(controllers, "memory") == NULL)
            continue;
        root_bytes = strcmp(root, "/") == 0 ? 0 : strlen(root);
        if (strncmp(path, root, root_bytes) != 0)
            path = ""; /* what is mounted is below: look at the mount alone */
        else
            path += root_bytes;
        snprintf(place->path, sizeof place->path, "%s", strcmp(path, "/") == 0 ? "" : path);
        found = true;
    }
    fclose(file);
    return found;
}

/* A line of mountinfo: "36 35 0:27 ROOT MOUNT options … - cgroup2 source super-options". */
static bool find_mount(const char *proc, const struct group_version *version, char *root,
                       char *mount)
{
    char file_path[PATH_MAX], *line = NULL;
    size_t capacity = 0;
    bool found = false;
    FILE *file;

    snprintf(file_path, sizeof file_path, "%s/self/mountinfo", proc);
    file = fopen(file_path, "re");
    if (file == NULL)
        return false;
    while (!found && getline(&line, &capacity, file) > 0) {
        const char *tail = strstr(line, " - ");
        char type[32], options[512];

        if (tail == NULL || sscanf(tail, " - %31s %*s %511s", type, options) != 2)
            continue;
        if (version == &v2 ? strcmp(type, "cgroup2") != 0
                           : strcmp(type, "cgroup") != 0 || strstr(options, "memory") == NULL)
            continue;
        found = sscanf(line, "%*s %*s %*s %4095s %4095s", root, mount) == 2;
    }
    free(line);
    fclose(file);
    return found;
}

/* From the own group up to the top of what is mounted. */
static void look_at_groups(struct group_place *place, struct host_memory *memory)
{
    char directory[2 * PATH_MAX];
    uint64_t limit_bytes, left_bytes;
    char *slash;

    for (;;) {
        snprintf(directory, sizeof directory, "%s%s", place->mount, place->path);
        if (group_left(place->version, directory, &limit_bytes, &left_bytes)) {
            if (memory->cgroup_limit_bytes == 0 || limit_bytes < memory->cgroup_limit_bytes)
                memory->cgroup_limit_bytes = limit_bytes;
            if (left_bytes < memory->available_bytes) {
                memory->total_bytes = limit_bytes;
                memory->available_bytes = left_bytes;
                snprintf(memory->source, sizeof memory->source, "%.255s", directory);
            }
        }
        slash = strrchr(place->path, '/');
        if (slash == NULL)
            return;
        *slash = '\0';
    }
}

/* false: not limited, or not readable. v1 writes "no limit" as a number near 2^63. */
static bool group_left(const struct group_version *version, const char *directory,
                       uint64_t *limit_bytes, uint64_t *left_bytes)
{
    uint64_t usage, inactive = 0, active = 0, file_bytes, used;

    if (!read_number(directory, version->limit, limit_bytes) || *limit_bytes >= UINT64_MAX / 4 ||
        !read_number(directory, version->usage, &usage))
        return false;
    if (!read_row(directory, "memory.stat", version->inactive_file, &inactive))
        inactive = 0;
    if (!read_row(directory, "memory.stat", version->active_file, &active))
        active = 0;
    file_bytes = inactive + active / 2;
    used = usage > file_bytes ? usage - file_bytes : 0;
    *left_bytes = *limit_bytes > used ? *limit_bytes - used : 0;
    return true;
}

static bool read_number(const char *directory, const char *file, uint64_t *value)
{
    char path[2 * PATH_MAX + 64];
    FILE *stream;
    bool found;

    snprintf(path, sizeof path, "%s/%s", directory, file);
    stream = fopen(path, "re");
    if (stream == NULL)
        return false;
    found = fscanf(stream, "%" SCNu64, value) == 1; /* not "max" */
    fclose(stream);
    return found;
}

/* The number in the row "name number …". */
static bool read_row(const char *directory, const char *file, const char *name, uint64_t *value)
{
    char path[2 * PATH_MAX + 64], row[256], word[64];
    bool found = false;
    FILE *stream;

    snprintf(path, sizeof path, "%s/%s", directory, file);
    stream = fopen(path, "re");
    if (stream == NULL)
        return false;
    while (!found && fgets(row, sizeof row, stream) != NULL)
        found = sscanf(row, "%63s %" SCNu64, word, value) == 2 && strcmp(word, name) == 0;
    fclose(stream);
    return found;
}
