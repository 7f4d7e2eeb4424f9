/* wakeups.c - arm kernel events, wait for them in the loop. */
#include "breaker/wakeups.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "breaker/memory_text.h"

#define PATH_BYTES 512

/* Without rights the kernel takes windows of whole two seconds only. */
#define TRIGGER "some 100000 2000000"

enum wakeup_kind { WAKE_GROUP, WAKE_PRESSURE, WAKE_KINDS };

/* Freed when the loop has let go of its poll. */
struct wakeup {
    uv_poll_t poll;
    struct wakeups *owner; /* NULL: disarmed */
    int fd;
    bool is_eventfd;
};

struct wakeups {
    uv_loop_t *loop;
    void (*wake)(void *context);
    void *context;
    uint64_t count;
    struct wakeup *armed[SOURCES_MAX][WAKE_KINDS];
};

static int arm_v1(const struct source *source, const struct level_marks *marks,
                  uint32_t fast_permille);
static int arm_v2(const struct source *source);
static int arm_pressure(const struct sources *sources, const struct source *source);
static int watch(struct wakeups *wakeups, struct wakeup **place, int fd, bool is_eventfd);
static void disarm(struct wakeup **place);
static void on_event(uv_poll_t *poll, int status, int events);
static void on_closed(uv_handle_t *handle);
static void note(struct sources *sources, const char *name, int reason);

struct wakeups *wakeups_create(uv_loop_t *loop, void (*wake)(void *context), void *context)
{
    struct wakeups *wakeups = calloc(1, sizeof *wakeups);

    if (wakeups == NULL)
        return NULL;
    wakeups->loop = loop;
    wakeups->wake = wake;
    wakeups->context = context;
    return wakeups;
}

void wakeups_destroy(struct wakeups *wakeups)
{
    if (wakeups == NULL)
        return;
    for (uint32_t i = 0; i < SOURCES_MAX; i++)
        wakeups_disarm(wakeups, i);
    free(wakeups);
}

void wakeups_arm(struct wakeups *wakeups, struct sources *sources, uint32_t index,
                 const struct level_marks *marks, uint32_t fast_permille)
{
    const struct source *source = &sources->source[index];
    int fd;

    wakeups_disarm(wakeups, index);
    if (source->kind == SOURCE_GROUP_V1 || source->kind == SOURCE_GROUP_V2) {
        const bool is_v1 = source->kind == SOURCE_GROUP_V1;

        fd = is_v1 ? arm_v1(source, marks, fast_permille) : arm_v2(source);
        if (fd >= 0)
            fd = watch(wakeups, &wakeups->armed[index][WAKE_GROUP], fd, is_v1);
        if (fd < 0)
            note(sources, is_v1 ? "usage events (v1)" : "memory.events (v2)", -fd);
    }
    if (source->pressure_fd >= 0) {
        fd = arm_pressure(sources, source);
        if (fd >= 0)
            fd = watch(wakeups, &wakeups->armed[index][WAKE_PRESSURE], fd, false);
        if (fd < 0)
            note(sources, "pressure trigger", -fd);
    }
}

void wakeups_disarm(struct wakeups *wakeups, uint32_t source)
{
    for (unsigned kind = 0; kind < WAKE_KINDS; kind++)
        disarm(&wakeups->armed[source][kind]);
}

uint64_t wakeups_count(const struct wakeups *wakeups)
{
    return wakeups->count;
}

bool wakeups_is_armed(const struct wakeups *wakeups, uint32_t source)
{
    return wakeups->armed[source][WAKE_GROUP] != NULL ||
           wakeups->armed[source][WAKE_PRESSURE] != NULL;
}

/* An eventfd for all marks. Usage counts cache as well, so it rings too early rather than too late.
 * Returns it, or -errno. */
static int arm_v1(const struct source *source, const struct level_marks *marks,
                  uint32_t fast_permille)
{
    const uint64_t fast_bytes = source->limit_bytes / 1000 * fast_permille;
    char path[PATH_BYTES], order[64];
    int fd, control, failed = 0;

    snprintf(path, sizeof path, "%s/cgroup.event_control", source->name);
    control = open(path, O_WRONLY | O_CLOEXEC);
    if (control < 0)
        return -errno;
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        failed = errno;
    for (uint32_t level = LEVEL_NORMAL; level < LEVELS && failed == 0; level++) {
        const uint64_t left_bytes = level == LEVEL_NORMAL
                                        ? fast_bytes
                                        : level_mark_bytes(marks, level, source->limit_bytes);

        snprintf(order, sizeof order, "%d %d %" PRIu64, fd, source->usage_fd,
                 source->limit_bytes - (left_bytes < source->limit_bytes ? left_bytes : 0));
        if (write(control, order, strlen(order)) < 0)
            failed = errno;
    }
    close(control);
    if (failed == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -failed;
}

static int arm_v2(const struct source *source)
{
    char path[PATH_BYTES];
    int fd;

    snprintf(path, sizeof path, "%s/memory.events", source->name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int arm_pressure(const struct sources *sources, const struct source *source)
{
    char path[PATH_BYTES];
    int fd, failed;

    if (source->kind == SOURCE_HOST)
        snprintf(path, sizeof path, "%s/pressure/memory", sources->proc);
    else
        snprintf(path, sizeof path, "%s/memory.pressure", source->name);
    fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (write(fd, TRIGGER, sizeof TRIGGER) > 0)
        return fd;
    failed = errno;
    close(fd);
    return -failed;
}

/* Takes the descriptor. Returns 0 or -errno. A plain file cannot be waited for: EPERM. */
static int watch(struct wakeups *wakeups, struct wakeup **place, int fd, bool is_eventfd)
{
    struct wakeup *wakeup = calloc(1, sizeof *wakeup);
    int rc;

    if (wakeup == NULL) {
        close(fd);
        return -ENOMEM;
    }
    wakeup->fd = fd;
    wakeup->is_eventfd = is_eventfd;
    wakeup->owner = wakeups;
    rc = uv_poll_init(wakeups->loop, &wakeup->poll, fd);
    if (rc < 0) {
        close(fd);
        free(wakeup);
        return rc;
    }
    wakeup->poll.data = wakeup;
    uv_poll_start(&wakeup->poll, is_eventfd ? UV_READABLE : UV_PRIORITIZED, on_event);
    uv_unref((uv_handle_t *)&wakeup->poll);
    *place = wakeup;
    return 0;
}

static void disarm(struct wakeup **place)
{
    struct wakeup *wakeup = *place;

    if (wakeup == NULL)
        return;
    *place = NULL;
    wakeup->owner = NULL;
    uv_close((uv_handle_t *)&wakeup->poll, on_closed);
}

static void on_event(uv_poll_t *poll, int status, int events)
{
    struct wakeup *wakeup = poll->data;
    struct wakeups *wakeups = wakeup->owner;
    uint64_t value;

    (void)events;
    /* A group that is removed polls as an error for ever: the tick goes on without this event. */
    if (status < 0) {
        uv_poll_stop(poll);
        return;
    }
    if (wakeup->is_eventfd && read(wakeup->fd, &value, sizeof value) < 0)
        return;
    if (!wakeup->is_eventfd) { /* reading says that the change was seen */
        char text[512];

        if (pread(wakeup->fd, text, sizeof text, 0) < 0) {
            uv_poll_stop(poll);
            return;
        }
    }
    wakeups->count++;
    wakeups->wake(wakeups->context);
}

static void on_closed(uv_handle_t *handle)
{
    struct wakeup *wakeup = handle->data;

    close(wakeup->fd);
    free(wakeup);
}

static void note(struct sources *sources, const char *name, int reason)
{
    sources_note_absent(sources, name,
                        reason == EPERM ? "it cannot be waited for" : strerror(reason));
}
