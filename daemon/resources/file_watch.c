/* file_watch.c - inotify on directories, and a table of paths that are not at rest yet. */
#define HASH_NONFATAL_OOM 1
#include "resources/file_watch.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uthash.h>
#include <uv.h>

#include "daemon/log.h"
#include "foundation/real_time.h"
#include "resources/state.h"

#define DIRECTORY_EVENTS                                                                           \
    (IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CREATE | IN_EXCL_UNLINK |       \
     IN_ONLYDIR)
#define MS INT64_C(1000000)
#define NESTING_MAX 64 /* of directories */

/* A path that changed. Archives are apart: their key is the path on the host, behind a ':'. */
struct file_change {
    UT_hash_handle hh;
    int64_t first_ns, last_ns;
    bool due;
    char path[];
};

/* A directory of the host that is watched: for its files, or for one file in it that is an archive. Both
 * share one descriptor when it is one directory. */
struct watched {
    int descriptor;
    char *host;    /* the directory */
    char *prefix;  /* of its files in the search path, with its '/'; NULL: for an archive */
    char *archive; /* name of the file */
};

struct file_watch {
    struct file_watch_desc desc;
    int fd;
    uv_poll_t poll;
    uv_timer_t timer;
    unsigned open_handles;
    struct watched *directories;
    uint32_t count, capacity;
    bool full; /* said so already */
    bool lost;
    struct file_change *pending;
};

static void on_readable(uv_poll_t *poll, int status, int events);
static void events_read(struct file_watch *watch);
static void on_event(struct file_watch *watch, const struct inotify_event *event);
static void on_named(struct file_watch *watch, uint32_t index, const struct inotify_event *event);
static void tree_add(struct file_watch *watch, const char *host, const char *prefix, unsigned depth,
                     bool files_too);
static bool watched_add(struct file_watch *watch, const char *host, const char *prefix,
                        const char *archive);
static void pending_add(struct file_watch *watch, const char *key);
static void on_timer(uv_timer_t *timer);
static void timer_set(struct file_watch *watch);
static void on_closed(uv_handle_t *handle);

int file_watch_create(const struct file_watch_desc *desc, struct file_watch **watch,
                      struct ec_error *why)
{
    struct file_watch *made = calloc(1, sizeof *made);

    *watch = NULL;
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory to watch files");
    made->desc = *desc;
    made->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (made->fd < 0) {
        free(made);
        return ec_fail(why, EC_ERR_SYSTEM, "inotify: %s", strerror(errno));
    }
    uv_poll_init(desc->loop, &made->poll, made->fd);
    uv_timer_init(desc->loop, &made->timer);
    made->poll.data = made;
    made->timer.data = made;
    made->open_handles = 2;
    uv_poll_start(&made->poll, UV_READABLE, on_readable);
    *watch = made;
    return EC_OK;
}

void file_watch_destroy(struct file_watch *watch)
{
    struct file_change *change, *next;

    if (watch == NULL)
        return;
    for (uint32_t i = 0; i < watch->count; i++) {
        free(watch->directories[i].host);
        free(watch->directories[i].prefix);
        free(watch->directories[i].archive);
    }
    free(watch->directories);
    HASH_ITER(hh, watch->pending, change, next)
    {
        HASH_DEL(watch->pending, change);
        free(change);
    }
    uv_close((uv_handle_t *)&watch->poll, on_closed);
    uv_close((uv_handle_t *)&watch->timer, on_closed);
}

void file_watch_mount(struct file_watch *watch, const struct search_mount *mount)
{
    char prefix[SEARCH_PATH_BYTES], parent[PATH_MAX];
    const char *at = mount->at[0] == '/' ? mount->at + 1 : mount->at;
    struct stat st;
    char *slash;

    if (stat(mount->path, &st) < 0) {
        log_warning(RESOURCES_MODULE, "%s is not watched: %s", mount->path, strerror(errno));
        return;
    }
    if (S_ISDIR(st.st_mode)) {
        snprintf(prefix, sizeof prefix, "%s%s", at, at[0] != '\0' ? "/" : "");
        tree_add(watch, mount->path, prefix, 0, false);
        return;
    }
    snprintf(parent, sizeof parent, "%s", mount->path);
    slash = strrchr(parent, '/'); /* it is absolute */
    if (slash == NULL)
        return;
    *slash = '\0';
    watched_add(watch, parent[0] != '\0' ? parent : "/", NULL, slash + 1);
}

bool file_changes_have(const struct file_changes *changes, const char *path)
{
    struct file_change *change = NULL;

    HASH_FIND_STR(changes->files, path, change);
    return change != NULL && change->due;
}

/* ---- directories ---- */

/* files_too: the directory appeared later, and what lies in it may be older than the watch. */
static void tree_add(struct file_watch *watch, const char *host, const char *prefix, unsigned depth,
                     bool files_too)
{
    struct dirent *entry;
    DIR *directory;

    watched_add(watch, host, prefix, NULL); /* first the watch, so that nothing is missed */
    directory = depth < NESTING_MAX ? opendir(host) : NULL;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        char path[PATH_MAX], below[SEARCH_PATH_BYTES];
        struct stat st;

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            snprintf(path, sizeof path, "%s/%s", host, entry->d_name) >= (int)sizeof path ||
            lstat(path, &st) < 0)
            continue; /* links are not followed, as in the search path */
        if (S_ISDIR(st.st_mode) &&
            snprintf(below, sizeof below, "%s%s/", prefix, entry->d_name) < (int)sizeof below)
            tree_add(watch, path, below, depth + 1, files_too);
        else if (files_too && S_ISREG(st.st_mode) &&
                 snprintf(below, sizeof below, "%s%s", prefix, entry->d_name) < (int)sizeof below)
            pending_add(watch, below);
    }
    if (directory != NULL)
        closedir(directory);
}

static bool same(const char *left, const char *right)
{
    return left == NULL || right == NULL ? left == right : strcmp(left, right) == 0;
}

/* false: it cannot be watched. */
static bool watched_add(struct file_watch *watch, const char *host, const char *prefix,
                        const char *archive)
{
    struct watched *grown, *made;
    int descriptor;

    for (uint32_t i = 0; i < watch->count; i++)
        if (strcmp(watch->directories[i].host, host) == 0 &&
            same(watch->directories[i].prefix, prefix) &&
            same(watch->directories[i].archive, archive))
            return true;
    descriptor = watch->count < FILE_WATCH_DIRECTORIES
                     ? inotify_add_watch(watch->fd, host, DIRECTORY_EVENTS)
                     : -1;
    if (descriptor < 0) {
        if (!watch->full)
            log_warning(RESOURCES_MODULE, "%s is not watched: %s", host,
                        watch->count < FILE_WATCH_DIRECTORIES ? strerror(errno)
                                                              : "too many directories");
        watch->full = true;
        return false;
    }
    if (watch->count == watch->capacity) {
        uint32_t capacity = watch->capacity > 0 ? 2 * watch->capacity : 64;

        grown = realloc(watch->directories, capacity * sizeof *grown);
        if (grown == NULL)
            return false;
        watch->directories = grown;
        watch->capacity = capacity;
    }
    made = &watch->directories[watch->count];
    *made = (struct watched) { .descriptor = descriptor,
                               .host = strdup(host),
                               .prefix = prefix != NULL ? strdup(prefix) : NULL,
                               .archive = archive != NULL ? strdup(archive) : NULL };
    if (made->host != NULL && (made->prefix != NULL || prefix == NULL) &&
        (made->archive != NULL || archive == NULL)) {
        watch->count++;
        return true;
    }
    free(made->host);
    free(made->prefix);
    free(made->archive);
    return false;
}

static void watched_forget(struct file_watch *watch, int descriptor)
{
    for (uint32_t i = 0; i < watch->count;) {
        struct watched *at = &watch->directories[i];

        if (at->descriptor != descriptor) {
            i++;
            continue;
        }
        free(at->host);
        free(at->prefix);
        free(at->archive);
        *at = watch->directories[--watch->count];
    }
}

/* ---- events ---- */

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct file_watch *watch = poll->data;

    (void)status;
    (void)events;
    events_read(watch);
    timer_set(watch);
}

static void events_read(struct file_watch *watch)
{
    _Alignas(struct inotify_event) char buffer[16384];
    ssize_t got;

    while ((got = read(watch->fd, buffer, sizeof buffer)) > 0)
        for (ssize_t at = 0; at < got;) {
            const struct inotify_event *event = (const struct inotify_event *)(buffer + at);

            on_event(watch, event);
            at += (ssize_t)(sizeof *event + event->len);
        }
}

static void on_event(struct file_watch *watch, const struct inotify_event *event)
{
    if (event->mask & IN_Q_OVERFLOW)
        watch->lost = true;
    else if (event->mask & IN_IGNORED) /* the directory is gone */
        watched_forget(watch, event->wd);
    else if (event->len > 0)
        for (uint32_t i = 0; i < watch->count; i++)
            if (watch->directories[i].descriptor == event->wd)
                on_named(watch, i, event);
}

/* By index, since the table may grow meanwhile. */
static void on_named(struct file_watch *watch, uint32_t index, const struct inotify_event *event)
{
    const struct watched *at = &watch->directories[index];
    char path[PATH_MAX], below[PATH_MAX];

    if (at->archive != NULL) {
        if (strcmp(at->archive, event->name) == 0 &&
            (event->mask & (IN_CLOSE_WRITE | IN_MOVED_TO)) &&
            snprintf(path, sizeof path, ":%s/%s", at->host, event->name) < (int)sizeof path)
            pending_add(watch, path);
        return;
    }
    if (snprintf(below, sizeof below, "%s%s", at->prefix, event->name) >= SEARCH_PATH_BYTES)
        return;
    if ((event->mask & IN_ISDIR) == 0) {
        if ((event->mask & IN_CREATE) == 0) /* nothing is in it yet */
            pending_add(watch, below);
        return;
    }
    if ((event->mask & (IN_CREATE | IN_MOVED_TO)) == 0 ||
        snprintf(path, sizeof path, "%s/%s", at->host, event->name) >= (int)sizeof path)
        return;
    strcat(below, "/"); /* PATH_MAX is longer than SEARCH_PATH_BYTES */
    tree_add(watch, path, below, 0, true);
}

static void pending_add(struct file_watch *watch, const char *key)
{
    struct file_change *change = NULL;
    int64_t now_ns = ec_real_ns();

    HASH_FIND_STR(watch->pending, key, change);
    if (change != NULL) {
        change->last_ns = now_ns;
        return;
    }
    change = HASH_COUNT(watch->pending) < FILE_WATCH_PENDING
                 ? malloc(sizeof *change + strlen(key) + 1)
                 : NULL;
    if (change == NULL) {
        watch->lost = true;
        return;
    }
    change->first_ns = change->last_ns = now_ns;
    change->due = false;
    memcpy(change->path, key, strlen(key) + 1);
    HASH_ADD_STR(watch->pending, path, change);
    if (change->hh.tbl == NULL) {
        free(change);
        watch->lost = true;
    }
}

static int64_t due_ns(const struct file_change *change)
{
    int64_t quiet = change->last_ns + FILE_WATCH_QUIET_MS * MS;
    int64_t limit = change->first_ns + FILE_WATCH_LIMIT_MS * MS;

    return quiet < limit ? quiet : limit;
}

static void timer_set(struct file_watch *watch)
{
    int64_t now_ns = ec_real_ns(), next_ns = watch->lost ? now_ns : INT64_MAX;
    struct file_change *change, *next;

    HASH_ITER(hh, watch->pending, change, next)
    {
        if (due_ns(change) < next_ns)
            next_ns = due_ns(change);
    }
    if (next_ns == INT64_MAX)
        uv_timer_stop(&watch->timer);
    else
        uv_timer_start(&watch->timer, on_timer,
                       next_ns > now_ns ? (uint64_t)((next_ns - now_ns) / MS) + 1 : 0, 0);
}

static void on_timer(uv_timer_t *timer)
{
    struct file_watch *watch = timer->data;
    struct file_changes changes = { 0 };
    struct file_change *change, *next;
    int64_t now_ns;
    bool any;

    /* When this process stood still, more may have happened to a path that only seems to have come to
     * rest. */
    events_read(watch);
    now_ns = ec_real_ns();
    any = changes.lost = changes.archives = watch->lost;
    watch->lost = false;
    HASH_ITER(hh, watch->pending, change, next)
    {
        change->due = due_ns(change) <= now_ns;
        any = any || change->due;
        changes.archives = changes.archives || (change->due && change->path[0] == ':');
    }
    changes.files = watch->pending;
    if (any)
        watch->desc.changed(watch->desc.context, &changes);
    HASH_ITER(hh, watch->pending, change, next)
    {
        if (!change->due)
            continue;
        HASH_DEL(watch->pending, change);
        free(change);
    }
    timer_set(watch);
}

static void on_closed(uv_handle_t *handle)
{
    struct file_watch *watch = handle->data;

    if (--watch->open_handles > 0)
        return;
    close(watch->fd);
    free(watch);
}
