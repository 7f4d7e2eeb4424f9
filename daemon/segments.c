/* segments.c - the daemon's own segments, from a table of what they are. */
#include "daemon/segments.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/config.h"
#include "daemon/heap_file.h"
#include "daemon/log.h"
#include "daemon/services.h"
#include "segment/segment.h"

enum { CLOCK, DIRECTORY, HEAP, SEGMENTS };

struct segments {
    struct ec_segment own[SEGMENTS];
    struct segment_row rows[SEGMENTS];
    bool kept;
};

/* What the heap is made in. */
struct heap_place {
    int fd; /* 0: a memfd */
    const char *protection;
};

static int create(uint64_t instance, uint64_t heap_bytes, const struct heap_place *place,
                  struct segments **segments, struct ec_error *why);
static int heap_place_choose(const struct config *config, uint64_t bytes, struct heap_place *place,
                             struct ec_error *why);
static int open_read_only(int fd, struct ec_error *why);

int segments_init(struct services *services, struct ec_error *why)
{
    const uint64_t heap_bytes =
        (uint64_t)config_integer(services->config, EC_CONFIG_resource_heap_bytes);
    struct heap_place place;
    int rc = heap_place_choose(services->config, heap_bytes, &place, why);

    if (rc < 0)
        return rc;
    return create(services->instance, heap_bytes, &place, &services->segments, why);
}

void segments_shutdown(struct services *services)
{
    segments_destroy(services->segments);
    services->segments = NULL;
}

int segments_create(uint64_t instance, uint64_t heap_bytes, struct segments **segments,
                    struct ec_error *why)
{
    const struct heap_place memfd = { .protection = "read-only descriptor" };

    return create(instance, heap_bytes, &memfd, segments, why);
}

/* The place's descriptor is taken, whatever comes of it. */
static int create(uint64_t instance, uint64_t heap_bytes, const struct heap_place *place,
                  struct segments **segments, struct ec_error *why)
{
    const struct ec_segment_desc descs[SEGMENTS] = {
        [CLOCK] = { .name = "clock",
                    .kind = EC_SEGMENT_CLOCK,
                    .bytes = sizeof(struct ec_clock_page),
                    .instance = instance,
                    .populate = true }, /* the scheduler thread must not fault */
        [DIRECTORY] = { .name = "directory",
                        .kind = EC_SEGMENT_DIRECTORY,
                        .bytes = sizeof(struct ec_directory),
                        .instance = instance },
        [HEAP] = { .name = "heap",
                   .kind = EC_SEGMENT_HEAP,
                   .bytes = heap_bytes,
                   .instance = instance,
                   .punchable = true,
                   .file_fd = place->fd },
    };
    struct segments *made = calloc(1, sizeof *made);
    int rc = EC_OK;

    *segments = NULL;
    if (made == NULL) {
        if (place->fd > 0)
            close(place->fd);
        return ec_fail(why, EC_ERR_MEMORY, "segments: %s", strerror(errno));
    }
    for (unsigned i = 0; i < SEGMENTS; i++)
        made->own[i].fd = made->rows[i].fd = -1;
    for (unsigned i = 0; i < SEGMENTS && rc == EC_OK; i++) {
        rc = ec_segment_init(&made->own[i], &descs[i], why);
        if (rc < 0)
            break;
        made->rows[i] = (struct segment_row) {
            .name = descs[i].name,
            .kind = descs[i].kind,
            .bytes = made->own[i].bytes,
            .fd = open_read_only(made->own[i].fd, why),
            .protection = descs[i].punchable ? place->protection : "sealed",
        };
        if (made->rows[i].fd < 0)
            rc = made->rows[i].fd;
    }
    if (rc < 0) {
        segments_destroy(made);
        return rc;
    }
    *segments = made;
    return EC_OK;
}

void segments_destroy(struct segments *segments)
{
    if (segments == NULL)
        return;
    for (unsigned i = 0; i < SEGMENTS; i++) {
        if (segments->rows[i].fd >= 0)
            close(segments->rows[i].fd);
        ec_segment_finish(&segments->own[i]);
    }
    free(segments);
}

bool segments_are_kept(const struct segments *segments)
{
    return segments->kept;
}

struct ec_clock_page *segments_clock(struct segments *segments)
{
    return segments->own[CLOCK].base;
}

struct ec_directory *segments_directory(struct segments *segments)
{
    return segments->own[DIRECTORY].base;
}

unsigned char *segments_heap(struct segments *segments)
{
    return segments->own[HEAP].base;
}

uint64_t segments_heap_bytes(struct segments *segments)
{
    return segments->own[HEAP].bytes;
}

int segments_heap_fd(struct segments *segments)
{
    return segments->own[HEAP].fd;
}

const char *segments_heap_protection(const struct segments *segments)
{
    return segments->rows[HEAP].protection;
}

uint64_t segments_heap_huge_bytes(const struct segments *segments)
{
    return heap_file_huge_bytes(segments->own[HEAP].fd, segments->own[HEAP].bytes);
}

const struct segment_row *segments_rows(struct segments *segments, unsigned *count)
{
    *count = SEGMENTS;
    return segments->rows;
}

/* A descriptor of the same memfd that cannot be mapped writable, whatever its seals allow. */
static int open_read_only(int fd, struct ec_error *why)
{
    char path[sizeof "/proc/self/fd/" + 3 * sizeof fd];
    int again;

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    again = open(path, O_RDONLY | O_CLOEXEC);
    return again >= 0 ? again
                      : ec_fail(why, EC_ERR_SYSTEM, "open %s read-only: %s", path, strerror(errno));
}

/* Where an own tmpfs is asked for and cannot be had, a memfd does, and the row says so. A place that an
 * administrator named must be right. */
static int heap_place_choose(const struct config *config, uint64_t bytes, struct heap_place *place,
                             struct ec_error *why)
{
    const struct heap_file_desc desc = {
        .path = config_string(config, EC_CONFIG_resource_heap_path),
        .huge = config_string(config, EC_CONFIG_resource_heap_huge),
        .bytes = bytes,
    };
    int rc;

    *place = (struct heap_place) { .protection = "read-only descriptor" };
    if (desc.path[0] == '\0' && strcmp(desc.huge, "never") == 0)
        return EC_OK;
    rc = heap_file_open(&desc, &place->fd, why);
    if (rc == EC_OK) {
        place->protection =
            desc.path[0] != '\0'
                ? "read-only descriptor, in the tmpfs of resource.heap_path, unsealed"
                : "read-only descriptor, in an own tmpfs, unsealed";
        return EC_OK;
    }
    place->fd = 0;
    if (desc.path[0] != '\0')
        return ec_error_prefix(why, rc, "resource.heap_path");
    if (rc != EC_ERR_SYSTEM)
        return ec_error_prefix(why, rc, "resource.heap_huge");
    log_warning("segments", "the asset heap gets no huge pages: %s", why->text);
    place->protection = "read-only descriptor; no own tmpfs was permitted";
    return EC_OK;
}
