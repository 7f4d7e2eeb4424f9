/* sources.c - find the groups, keep their files open, read them. */
#include "breaker/sources.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "breaker/memory_text.h"

#define PATH_BYTES 1024
#define TEXT_BYTES 8192 /* meminfo and memory.stat are shorter; what is cut off is not needed */
#define LIMIT_NS INT64_C(1000000000)   /* a limit is read again after this time */
#define PRESSURE_NS INT64_C(250000000) /* so reading more often than this only costs */
#define STALLED_NS INT64_C(2500000000) /* the kernel adds up waiting times every two seconds */

/* With less than this free the kernel takes file pages away to serve others: usage then says little. */
#define RECLAIM_PERMILLE 30

/* More than this of a group is left: what exactly does not matter, and its statistics are not read. */
#define PLENTY_PERMILLE 500

/* With less than this of a group left, its limit is read each time: what fills it may have come with a
 * higher one. */
#define CLOSE_PERMILLE 200

static const struct kind_row {
    enum source_kind kind;
    const struct memory_group_version *version;
} kind_rows[] = { { SOURCE_GROUP_V2, &memory_group_v2 }, { SOURCE_GROUP_V1, &memory_group_v1 } };

static unsigned add_own_groups(struct sources *sources);
static int add_named_groups(struct sources *sources, const char *groups, struct ec_error *why);
static uint32_t add_group(struct sources *sources, const struct kind_row *row,
                          const char *directory);
static bool group_directory(struct sources *sources, const char *pid, const struct kind_row *row,
                            char *directory, size_t bytes, size_t *mount_bytes);
static bool is_quiet(const struct source *source, int64_t now_ns);
static bool used_bytes(const struct source *source, uint64_t *used);
static bool look_host(struct source *source);
static bool look_group(struct source *source, int64_t now_ns);
static bool look_limit(struct source *source, int64_t now_ns);
static bool look_usage(struct source *source);
static bool read_limit(const char *max, const char *high, uint64_t *limit_bytes);
static void deduct_reserved(struct source *source);
static void look_pressure(struct source *source, int64_t now_ns);
static void source_open(struct source *source, enum source_kind kind, const char *name);
static void source_close(struct source *source);
static void forget_absent(struct sources *sources, const char *name);
static int open_in(const char *directory, const char *file);
static bool is_plain(int fd);
static bool reopen(int fd);
static bool follow_replaced(struct source *source);
static bool read_fd(int fd, char *text);
static bool read_path(const char *directory, const char *name, const char *file, char *text,
                      size_t bytes);

int sources_init(struct sources *sources, const char *proc, const char *groups,
                 struct ec_error *why)
{
    struct source *host = &sources->source[SOURCES_HOST];
    int rc = EC_OK;

    *sources = (struct sources) { .high = 1, .near_permille = 1000, .is_named = groups[0] != '\0' };
    snprintf(sources->proc, sizeof sources->proc, "%s", proc);
    source_open(host, SOURCE_HOST, "host");
    host->own = true;
    host->near_permille = sources->near_permille;
    host->usage_fd = open_in(proc, "meminfo");
    if (host->usage_fd < 0 || !look_host(host)) {
        sources_finish(sources);
        return ec_fail(why, EC_ERR_SYSTEM, "%s/meminfo has no MemTotal and MemAvailable", proc);
    }
    host->plain = is_plain(host->usage_fd);
    host->pressure_fd = open_in(proc, "pressure/memory");
    if (host->pressure_fd < 0)
        sources_note_absent(sources, "pressure", strerror(errno));
    else if (look_pressure(host, 1), host->stalled.at_ns == 0)
        sources_note_absent(sources, "pressure", "the kernel keeps no account of it");
    if (sources->is_named)
        rc = add_named_groups(sources, groups, why);
    else if (add_own_groups(sources) == 0)
        sources_note_absent(sources, "own groups", "no control group limits the daemon's memory");
    if (rc < 0)
        sources_finish(sources);
    return rc;
}

void sources_finish(struct sources *sources)
{
    for (uint32_t i = 0; i < sources->high; i++)
        source_close(&sources->source[i]);
    sources->high = 0;
}

void sources_note_absent(struct sources *sources, const char *name, const char *reason)
{
    struct source_absent *absent;

    for (unsigned i = 0; i < sources->absent_count; i++)
        if (strcmp(sources->absent[i].name, name) == 0)
            return;
    if (sources->absent_count == SOURCES_ABSENT_MAX)
        return;
    absent = &sources->absent[sources->absent_count++];
    snprintf(absent->name, sizeof absent->name, "%s", name);
    snprintf(absent->reason, sizeof absent->reason, "%s", reason);
}

static void forget_absent(struct sources *sources, const char *name)
{
    for (unsigned i = 0; i < sources->absent_count; i++)
        if (strcmp(sources->absent[i].name, name) == 0) {
            sources->absent[i] = sources->absent[--sources->absent_count];
            return;
        }
}

void sources_set_near(struct sources *sources, uint32_t permille)
{
    sources->near_permille = permille;
    for (uint32_t i = 0; i < sources->high; i++)
        sources->source[i].near_permille = permille;
}

void sources_refresh_own(struct sources *sources)
{
    if (sources->is_named)
        return;
    for (uint32_t i = SOURCES_HOST + 1; i < sources->high; i++)
        sources->source[i].own = false;
    if (add_own_groups(sources) > 0)
        forget_absent(sources, "own groups");
    for (uint32_t i = SOURCES_HOST + 1; i < sources->high; i++)
        if (!sources->source[i].own && sources->source[i].users == 0)
            source_close(&sources->source[i]);
}

void sources_chain(struct sources *sources, pid_t pid, struct source_chain *chain)
{
    char directory[PATH_BYTES], name[24];
    size_t mount_bytes;

    *chain = (struct source_chain) { 0 };
    snprintf(name, sizeof name, "%d", (int)pid);
    for (size_t i = 0; i < sizeof kind_rows / sizeof kind_rows[0]; i++) {
        if (!group_directory(sources, name, &kind_rows[i], directory, sizeof directory,
                             &mount_bytes))
            continue;
        while (strlen(directory) >= mount_bytes && chain->count < SOURCE_CHAIN_MAX) {
            const uint32_t at = add_group(sources, &kind_rows[i], directory);
            char *slash;

            if (at != SOURCES_HOST) {
                sources->source[at].users++;
                chain->source[chain->count++] = at;
            }
            slash = strrchr(directory, '/');
            if (slash == NULL)
                break;
            *slash = '\0';
        }
    }
}

void sources_release(struct sources *sources, struct source_chain *chain)
{
    for (uint32_t i = 0; i < chain->count; i++) {
        struct source *source = &sources->source[chain->source[i]];

        if (source->users > 0 && --source->users == 0 && !source->own)
            source_close(source);
    }
    chain->count = 0;
}

int sources_open_statm(const struct sources *sources, pid_t pid)
{
    char name[32];

    snprintf(name, sizeof name, "%d/statm", (int)pid);
    return open_in(sources->proc, name);
}

bool source_look(struct source *source, int64_t now_ns)
{
    look_pressure(source, now_ns);
    return is_quiet(source, now_ns) || source_look_exactly(source, now_ns);
}

bool source_look_exactly(struct source *source, int64_t now_ns)
{
    source->readable =
        (!source->plain || follow_replaced(source)) &&
        (source->kind == SOURCE_HOST ? look_host(source) : look_group(source, now_ns));
    source->exact.at_ns =
        source->readable && source->has_quick && used_bytes(source, &source->exact.used_bytes)
            ? now_ns
            : 0;
    if (!source->readable)
        return false;
    deduct_reserved(source);
    growth_add(&source->growth, now_ns, source->reading.available_bytes);
    if (source->reading.available_bytes < source->lowest_bytes)
        source->lowest_bytes = source->reading.available_bytes;
    return true;
}

bool sources_are_quiet(const struct sources *sources, int64_t now_ns)
{
    for (uint32_t i = 0; i < sources->high; i++)
        if (sources->source[i].kind != SOURCE_FREE && !is_quiet(&sources->source[i], now_ns))
            return false;
    return true;
}

/* Whether no more than a little can have changed since the last exact look. */
static bool is_quiet(const struct source *source, int64_t now_ns)
{
    const uint64_t total_bytes = source->reading.total_bytes;
    uint64_t used, gone_bytes, left_bytes;

    if (!source->readable || source->exact.at_ns == 0 ||
        now_ns - source->exact.at_ns >= SOURCE_EXACT_NS || now_ns < source->exact.at_ns ||
        !used_bytes(source, &used) || used >= total_bytes)
        return false;
    gone_bytes = used > source->exact.used_bytes ? used - source->exact.used_bytes : 0;
    left_bytes = source->reading.available_bytes;
    left_bytes = left_bytes > gone_bytes ? left_bytes - gone_bytes : 0;
    return level_permille(gone_bytes, total_bytes) < SOURCE_QUIET_PERMILLE &&
           level_permille(total_bytes - used, total_bytes) >= RECLAIM_PERMILLE &&
           level_permille(left_bytes, total_bytes) >= source->near_permille;
}

/* The cheap number: what is not free of the host, what is charged to a group. */
static bool used_bytes(const struct source *source, uint64_t *used)
{
    char text[TEXT_BYTES];
    struct sysinfo host;

    if (source->kind != SOURCE_HOST)
        return read_fd(source->usage_fd, text) && memory_text_number(text, used);
    if (sysinfo(&host) < 0)
        return false;
    *used = ((uint64_t)host.totalram - host.freeram) * host.mem_unit;
    return true;
}

/* The groups of this process, up to the root. Returns how many of them have a limit. */
static unsigned add_own_groups(struct sources *sources)
{
    unsigned found = 0;

    for (size_t i = 0; i < sizeof kind_rows / sizeof kind_rows[0]; i++) {
        char directory[PATH_BYTES];
        size_t mount_bytes;

        if (!group_directory(sources, "self", &kind_rows[i], directory, sizeof directory,
                             &mount_bytes))
            continue;
        while (strlen(directory) >= mount_bytes) {
            const uint32_t at = add_group(sources, &kind_rows[i], directory);
            char *slash = strrchr(directory, '/');

            if (at != SOURCES_HOST) {
                sources->source[at].own = true;
                found++;
            }
            if (slash == NULL)
                break;
            *slash = '\0';
        }
    }
    return found;
}

static int add_named_groups(struct sources *sources, const char *groups, struct ec_error *why)
{
    while (*groups != '\0') {
        const size_t bytes = strcspn(groups, ":");
        char directory[PATH_BYTES];
        uint32_t at = SOURCES_HOST;

        if (bytes > 0) {
            snprintf(directory, sizeof directory, "%.*s", (int)bytes, groups);
            for (size_t i = 0; i < sizeof kind_rows / sizeof kind_rows[0] && at == SOURCES_HOST;
                 i++)
                at = add_group(sources, &kind_rows[i], directory);
            if (at == SOURCES_HOST)
                return ec_fail(why, EC_ERR_SYSTEM,
                               "breaker.groups: %s is no memory group with a limit", directory);
            sources->source[at].own = true;
        }
        groups += bytes;
        groups += *groups == ':';
    }
    return EC_OK;
}

/* The index of the group's source; SOURCES_HOST: it has no limit, cannot be read, or there is no room. */
static uint32_t add_group(struct sources *sources, const struct kind_row *row,
                          const char *directory)
{
    char text[64], high[64] = "max";
    uint64_t limit_bytes;
    struct source *source;
    uint32_t at = 1;

    if (strlen(directory) >= SOURCE_NAME_BYTES)
        return SOURCES_HOST;
    for (uint32_t i = 1; i < sources->high; i++)
        if (sources->source[i].kind == row->kind && strcmp(sources->source[i].name, directory) == 0)
            return i;
    if (row->version->high != NULL)
        read_path(directory, NULL, row->version->high, high, sizeof high);
    if (!read_path(directory, NULL, row->version->limit, text, sizeof text) ||
        !read_limit(text, high, &limit_bytes) || limit_bytes == MEMORY_UNLIMITED)
        return SOURCES_HOST;
    while (at < SOURCES_MAX && sources->source[at].kind != SOURCE_FREE)
        at++;
    if (at == SOURCES_MAX) {
        sources_note_absent(sources, "further groups", "there are too many");
        return SOURCES_HOST;
    }
    source = &sources->source[at];
    source_open(source, row->kind, directory);
    source->usage_fd = open_in(directory, row->version->usage);
    source->stat_fd = open_in(directory, "memory.stat");
    source->limit_fd = open_in(directory, row->version->limit);
    source->near_permille = sources->near_permille;
    source->has_quick = true;
    if (row->version->high != NULL)
        source->high_fd = open_in(directory, row->version->high);
    if (row->kind == SOURCE_GROUP_V2)
        source->pressure_fd = open_in(directory, "memory.pressure");
    if (source->usage_fd < 0 || source->limit_fd < 0) {
        source_close(source);
        return SOURCES_HOST;
    }
    source->plain = is_plain(source->usage_fd);
    if (at >= sources->high)
        sources->high = at + 1;
    return at;
}

/* The directory of a process's group. mount_bytes: what belongs to the mount; shorter ones are outside. */
static bool group_directory(struct sources *sources, const char *pid, const struct kind_row *row,
                            char *directory, size_t bytes, size_t *mount_bytes)
{
    static char text[4 * TEXT_BYTES]; /* of the loop thread: mountinfo can be long */
    char path[PATH_BYTES / 2], root[PATH_BYTES / 2], mount[PATH_BYTES / 2];
    const char *below;
    size_t root_bytes;

    if (!read_path(sources->proc, "self", "mountinfo", text, sizeof text) ||
        !memory_text_group_mount(text, row->version, root, mount, sizeof root) ||
        !read_path(sources->proc, pid, "cgroup", text, sizeof text) ||
        !memory_text_group_path(text, row->version, path, sizeof path))
        return false;
    root_bytes = strcmp(root, "/") == 0 ? 0 : strlen(root);
    /* The path is seen from the root of the tree, of which only a part may be mounted here. */
    below = strncmp(path, root, root_bytes) == 0 ? path + root_bytes : "";
    *mount_bytes = strlen(mount);
    return snprintf(directory, bytes, "%s%s", mount, below) < (int)bytes;
}

static bool look_host(struct source *source)
{
    char text[TEXT_BYTES];
    struct memory_host host;
    struct sysinfo real;

    if (!read_fd(source->usage_fd, text) || !memory_text_host(text, &host))
        return false;
    /* In some containers meminfo tells of another memory than the kernel does. */
    source->has_quick =
        sysinfo(&real) == 0 && (uint64_t)real.totalram * real.mem_unit == host.total_bytes;
    source->reading.total_bytes = source->limit_bytes = host.total_bytes;
    source->reading.available_bytes = host.available_bytes;
    source->kernel_bytes = host.kernel_bytes;
    return true;
}

static bool look_group(struct source *source, int64_t now_ns)
{
    const bool is_new = source->limit_read_ns == 0 || now_ns - source->limit_read_ns >= LIMIT_NS;
    uint64_t limit_bytes;

    if (is_new && !look_limit(source, now_ns))
        return false;
    if (!look_usage(source))
        return false;
    if (is_new ||
        level_permille(source->reading.available_bytes, source->limit_bytes) >= CLOSE_PERMILLE)
        return true;
    limit_bytes = source->limit_bytes;
    return look_limit(source, now_ns) && (source->limit_bytes == limit_bytes || look_usage(source));
}

static bool look_limit(struct source *source, int64_t now_ns)
{
    const uint64_t limit_bytes = source->limit_bytes;
    char text[TEXT_BYTES], high[TEXT_BYTES];

    if (!read_fd(source->high_fd, high))
        strcpy(high, "max");
    if (!read_fd(source->limit_fd, text) || !read_limit(text, high, &source->limit_bytes))
        return false;
    source->limit_read_ns = now_ns;
    if (source->limit_bytes != limit_bytes)
        source->growth = (struct growth) { 0 }; /* nothing grew: there is less, or more */
    return true;
}

static bool look_usage(struct source *source)
{
    const struct memory_group_version *version =
        source->kind == SOURCE_GROUP_V2 ? &memory_group_v2 : &memory_group_v1;
    uint64_t usage_bytes, left_bytes;
    char text[TEXT_BYTES];

    if (!read_fd(source->usage_fd, text) || !memory_text_number(text, &usage_bytes))
        return false;
    left_bytes = source->limit_bytes > usage_bytes ? source->limit_bytes - usage_bytes : 0;
    if (level_permille(left_bytes, source->limit_bytes) < PLENTY_PERMILLE &&
        read_fd(source->stat_fd, text))
        left_bytes = memory_text_group_left(version, source->limit_bytes, usage_bytes, text);
    source->reading.total_bytes = source->limit_bytes;
    source->reading.available_bytes = left_bytes;
    return true;
}

/* Above memory.high the kernel makes programs wait long before it refuses or kills: that is the limit
 * that a game feels. */
static bool read_limit(const char *max, const char *high, uint64_t *limit_bytes)
{
    uint64_t high_bytes;

    if (!memory_text_number(max, limit_bytes))
        return false;
    if (memory_text_number(high, &high_bytes) && high_bytes < *limit_bytes)
        *limit_bytes = high_bytes;
    return true;
}

/* What was promised to somebody is not there for others. */
static void deduct_reserved(struct source *source)
{
    uint64_t *available_bytes = &source->reading.available_bytes;

    *available_bytes =
        *available_bytes > source->reserved_bytes ? *available_bytes - source->reserved_bytes : 0;
}

/* The share of the time since the kernel last added up. A file that cannot be read says nothing. */
static void look_pressure(struct source *source, int64_t now_ns)
{
    char text[TEXT_BYTES];
    uint64_t some_us, full_us;
    int64_t passed_ns;

    if (source->pressure_fd < 0 ||
        (source->stalled.looked_ns != 0 && now_ns - source->stalled.looked_ns < PRESSURE_NS))
        return;
    source->stalled.looked_ns = now_ns;
    if (!read_fd(source->pressure_fd, text) || !memory_text_stalled_us(text, "some", &some_us))
        return;
    if (!memory_text_stalled_us(text, "full", &full_us))
        full_us = 0;
    passed_ns = now_ns - source->stalled.at_ns;
    if (source->stalled.at_ns != 0 && some_us == source->stalled.some_us) {
        if (passed_ns >= STALLED_NS)
            source->reading.some_permille = source->reading.full_permille = 0;
        return;
    }
    if (source->stalled.at_ns != 0 && passed_ns > 0 && some_us > source->stalled.some_us) {
        /* What is new happened since the kernel added up the last time, however long it was quiet. */
        const uint64_t passed_us =
            (uint64_t)(passed_ns < STALLED_NS ? passed_ns : STALLED_NS) / 1000 + 1;

        source->reading.some_permille =
            level_permille(some_us - source->stalled.some_us, passed_us);
        source->reading.full_permille =
            full_us > source->stalled.full_us
                ? level_permille(full_us - source->stalled.full_us, passed_us)
                : 0;
    }
    source->stalled.some_us = some_us;
    source->stalled.full_us = full_us;
    source->stalled.at_ns = now_ns;
}

static void source_open(struct source *source, enum source_kind kind, const char *name)
{
    *source = (struct source) {
        .kind = kind,
        .usage_fd = -1,
        .stat_fd = -1,
        .limit_fd = -1,
        .high_fd = -1,
        .pressure_fd = -1,
        .lowest_bytes = UINT64_MAX,
    };
    snprintf(source->name, sizeof source->name, "%s", name);
}

static void source_close(struct source *source)
{
    int *const fds[] = { &source->usage_fd, &source->stat_fd, &source->limit_fd, &source->high_fd,
                         &source->pressure_fd };

    if (source->kind == SOURCE_FREE)
        return;
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
    source->kind = SOURCE_FREE;
}

static int open_in(const char *directory, const char *file)
{
    char path[PATH_BYTES];

    snprintf(path, sizeof path, "%s/%s", directory, file);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Not the kernel's own text, but a file that somebody writes. */
static bool is_plain(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 && fs.f_type != PROC_SUPER_MAGIC &&
           fs.f_type != CGROUP_SUPER_MAGIC && fs.f_type != CGROUP2_SUPER_MAGIC;
}

/* Open again what has another file in its place now. false: there is none. */
static bool reopen(int fd)
{
    static const char gone[] = " (deleted)";
    char link[32], path[PATH_BYTES];
    bool done = false;
    ssize_t bytes;
    int fresh;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    bytes = readlink(link, path, sizeof path - 1) - (ssize_t)(sizeof gone - 1);
    if (bytes <= 0 || memcmp(path + bytes, gone, sizeof gone - 1) != 0)
        return false;
    path[bytes] = '\0';
    fresh = open(path, O_RDONLY | O_CLOEXEC);
    if (fresh >= 0) {
        done = dup3(fresh, fd, O_CLOEXEC) >= 0;
        close(fresh);
    }
    return done;
}

/* Who writes a plain file may put a new one in its place: then that is read. false: one is gone. */
static bool follow_replaced(struct source *source)
{
    const int fds[] = { source->usage_fd, source->stat_fd, source->limit_fd, source->high_fd,
                        source->pressure_fd };
    bool all = true;
    struct stat st;

    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        if (fds[i] >= 0 && fstat(fds[i], &st) == 0 && st.st_nlink == 0 && !reopen(fds[i]))
            all = false;
    return all;
}

/* text has TEXT_BYTES. */
static bool read_fd(int fd, char *text)
{
    const ssize_t bytes = fd < 0 ? -1 : pread(fd, text, TEXT_BYTES - 1, 0);

    if (bytes <= 0)
        return false;
    text[bytes] = '\0';
    return true;
}

/* name may be NULL. */
static bool read_path(const char *directory, const char *name, const char *file, char *text,
                      size_t bytes)
{
    char path[PATH_BYTES];
    size_t used = 0;
    ssize_t got;
    int fd;

    snprintf(path, sizeof path, "%s/%s%s%s", directory, name == NULL ? "" : name,
             name == NULL ? "" : "/", file);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    while (used < bytes - 1 && (got = read(fd, text + used, bytes - 1 - used)) > 0)
        used += (size_t)got;
    close(fd);
    text[used] = '\0';
    return used > 0;
}
