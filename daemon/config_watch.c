/* config_watch.c - see config_watch.h. */
#include "daemon/config_watch.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/log.h"

#define QUIET_MS                                                                                   \
    50 /* editors write, rename and set times in several steps; what comes later is the next */
#define EVENTS (IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE | IN_ATTRIB)

/* Which file a path leads to, and its age; all zero: none. */
struct identity {
    dev_t device;
    ino_t inode;
    off_t bytes;
    struct timespec changed;
};

struct config_watch {
    const struct config *config;
    void (*on_change)(void *context);
    void *context;
    struct identity known[CONFIG_STANDARD_MAX];
    int fd;
    uv_poll_t poll;
    uv_timer_t quiet;
    unsigned open_handles;
};

static void watch_directory(struct config_watch *watch, const char *path);
static struct identity identify(const char *path);
static bool has_changed(struct config_watch *watch);
static void on_event(uv_poll_t *poll, int status, int events);
static void on_quiet(uv_timer_t *timer);
static void on_closed(uv_handle_t *handle);

int config_watch_create(uv_loop_t *loop, const struct config *config,
                        void (*on_change)(void *context), void *context, struct config_watch **out,
                        struct ec_error *why)
{
    struct config_watch *watch = calloc(1, sizeof *watch);
    const char *path;

    *out = NULL;
    if (watch == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a watch");
    watch->config = config;
    watch->on_change = on_change;
    watch->context = context;
    watch->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (watch->fd < 0 || uv_poll_init(loop, &watch->poll, watch->fd) < 0) {
        ec_fail(why, EC_ERR_SYSTEM, "inotify: %s", strerror(errno));
        if (watch->fd >= 0)
            close(watch->fd);
        free(watch);
        return EC_ERR_SYSTEM;
    }
    uv_timer_init(loop, &watch->quiet);
    watch->poll.data = watch->quiet.data = watch;
    watch->open_handles = 2;
    for (unsigned i = 0; (path = config_file(config, i)) != NULL; i++) {
        watch_directory(watch, path);
        watch->known[i] = identify(path);
    }
    uv_poll_start(&watch->poll, UV_READABLE, on_event);
    uv_unref((uv_handle_t *)&watch->poll);
    uv_unref((uv_handle_t *)&watch->quiet);
    *out = watch;
    return EC_OK;
}

void config_watch_destroy(struct config_watch *watch)
{
    if (watch == NULL)
        return;
    uv_close((uv_handle_t *)&watch->poll, on_closed);
    uv_close((uv_handle_t *)&watch->quiet, on_closed);
    close(watch->fd);
}

static void watch_directory(struct config_watch *watch, const char *path)
{
    const char *slash = strrchr(path, '/');
    char directory[PATH_MAX] = ".";

    if (slash != NULL && (size_t)(slash - path) < sizeof directory) {
        const size_t bytes = slash == path ? 1 : (size_t)(slash - path);

        memcpy(directory, path, bytes);
        directory[bytes] = '\0';
    }
    if (inotify_add_watch(watch->fd, directory, EVENTS) < 0)
        log_debug("config", "%s is not watched: %s", directory, strerror(errno));
}

static struct identity identify(const char *path)
{
    struct identity identity = { 0 };
    struct stat st;

    if (stat(path, &st) < 0)
        return identity;
    identity.device = st.st_dev;
    identity.inode = st.st_ino;
    identity.bytes = st.st_size;
    identity.changed = st.st_mtim;
    return identity;
}

static bool has_changed(struct config_watch *watch)
{
    const char *path;
    bool any = false;

    for (unsigned i = 0; (path = config_file(watch->config, i)) != NULL; i++) {
        const struct identity now = identify(path), before = watch->known[i];

        any = any || now.device != before.device || now.inode != before.inode ||
              now.bytes != before.bytes || now.changed.tv_sec != before.changed.tv_sec ||
              now.changed.tv_nsec != before.changed.tv_nsec;
        watch->known[i] = now;
    }
    return any;
}

/* What the events say does not matter, only that there were some. */
static void on_event(uv_poll_t *poll, int status, int events)
{
    struct config_watch *watch = poll->data;
    char buffer[4096];

    (void)status;
    (void)events;
    while (read(watch->fd, buffer, sizeof buffer) > 0)
        ;
    if (!uv_is_active(
            (uv_handle_t *)&watch->quiet)) /* a busy directory must not put it off for ever */
        uv_timer_start(&watch->quiet, on_quiet, QUIET_MS, 0);
}

static void on_quiet(uv_timer_t *timer)
{
    struct config_watch *watch = timer->data;

    if (has_changed(watch))
        watch->on_change(watch->context);
}

static void on_closed(uv_handle_t *handle)
{
    struct config_watch *watch = handle->data;

    if (--watch->open_handles == 0)
        free(watch);
}
