/* segments.c - the daemon's own segments, from a table of what they are. */
#include "daemon/segments.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/config.h"
#include "daemon/fd_store.h"
#include "daemon/heap_file.h"
#include "daemon/heritage.h"
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

static int create(const struct segments_desc *desc, const struct heap_place *place,
                  struct segments **segments, struct ec_error *why);
static int heap_place_choose(const struct config *config, uint64_t bytes, struct heap_place *place,
                             struct ec_error *why);
static const char *store_name(const char *segment, char name[FD_STORE_NAME_BYTES]);
static int open_read_only(int fd, struct ec_error *why);

int segments_init(struct services *services, struct ec_error *why)
{
    const struct segments_desc desc = {
        .instance = services->instance,
        .heap_bytes = (uint64_t)config_integer(services->config, EC_CONFIG_resource_heap_bytes),
        .store = services->fd_store,
        .instance_before = heritage_instance(services->heritage),
    };
    struct heap_place place;
    int rc = heap_place_choose(services->config, desc.heap_bytes, &place, why);

    if (rc < 0)
        return rc;
    return create(&desc, &place, &services->segments, why);
}

int segments_post_init(struct services *services, struct ec_error *why)
{
    struct segments *segments = services->segments;
    char name[FD_STORE_NAME_BYTES];

    (void)why;
    for (unsigned i = 0; i < SEGMENTS && !segments->kept; i++)
        fd_store_put(services->fd_store, store_name(segments->rows[i].name, name),
                     segments->own[i].fd);
    fd_store_barrier(services->fd_store);
    return EC_OK;
}

void segments_shutdown(struct services *services)
{
    segments_destroy(services->segments);
    services->segments = NULL;
}

static const char *store_name(const char *segment, char name[FD_STORE_NAME_BYTES])
{
    snprintf(name, FD_STORE_NAME_BYTES, "segment-%s", segment);
    return name;
}

int segments_create(const struct segments_desc *desc, struct segments **segments,
                    struct ec_error *why)
{
    const struct heap_place memfd = { .protection = "read-only descriptor" };

    return create(desc, &memfd, segments, why);
}

/* All three, or none. */
static bool adopt(struct segments *segments, const struct ec_segment_desc descs[SEGMENTS],
                  const struct segments_desc *desc)
{
    struct ec_error why = { 0 };
    int rc = EC_OK;

    for (unsigned i = 0; i < SEGMENTS; i++) {
        struct ec_segment_desc before = descs[i];
        char name[FD_STORE_NAME_BYTES];
        int fd = fd_store_take(desc->store, store_name(descs[i].name, name));

        before.instance = desc->instance_before;
        if (fd < 0)
            rc = EC_ERR_NOT_FOUND;
        else if (rc < 0)
            close(fd);
        else
            rc = ec_segment_adopt(&segments->own[i], fd, &before, &why);
    }
    if (rc == EC_OK) {
        for (unsigned i = 0; i < SEGMENTS; i++)
            ((struct ec_segment_header *)segments->own[i].base)->instance = desc->instance;
        log_info("segments", "clock, directory and heap of the last run go on");
        return true;
    }
    if (rc != EC_ERR_NOT_FOUND)
        log_warning("segments", "%s; clock, directory and heap begin anew", why.text);
    for (unsigned i = 0; i < SEGMENTS; i++)
        ec_segment_finish(&segments->own[i]);
    return false;
}

static int make(struct segments *segments, const struct ec_segment_desc descs[SEGMENTS],
                struct ec_error *why)
{
    int rc = EC_OK;

    for (unsigned i = 0; i < SEGMENTS && rc == EC_OK; i++)
        rc = ec_segment_init(&segments->own[i], &descs[i], why);
    return rc;
}

static int fill_rows(struct segments *segments, const struct ec_segment_desc descs[SEGMENTS],
                     const struct heap_place *place, struct ec_error *why)
{
    for (unsigned i = 0; i < SEGMENTS; i++) {
        segments->rows[i] = (struct segment_row) {
            .name = descs[i].name,
            .kind = descs[i].kind,
            .bytes = segments->own[i].bytes,
            .fd = open_read_only(segments->own[i].fd, why),
            .protection = descs[i].punchable   ? place->protection
                          : descs[i].adoptable ? "read-only descriptor"
                                               : "sealed",
        };
        if (segments->rows[i].fd < 0)
            return segments->rows[i].fd;
    }
    return EC_OK;
}

/* The place's descriptor is taken, whatever comes of it. */
static int create(const struct segments_desc *desc, const struct heap_place *place,
                  struct segments **segments, struct ec_error *why)
{
    const bool stored = fd_store_is_used(desc->store);
    const struct ec_segment_desc descs[SEGMENTS] = {
        [CLOCK] = { .name = "clock",
                    .kind = EC_SEGMENT_CLOCK,
                    .bytes = sizeof(struct ec_clock_page),
                    .instance = desc->instance,
                    .adoptable = stored,
                    .populate = true }, /* the scheduler thread must not fault */
        [DIRECTORY] = { .name = "directory",
                        .kind = EC_SEGMENT_DIRECTORY,
                        .bytes = sizeof(struct ec_directory),
                        .adoptable = stored,
                        .instance = desc->instance },
        [HEAP] = { .name = "heap",
                   .kind = EC_SEGMENT_HEAP,
                   .bytes = desc->heap_bytes,
                   .instance = desc->instance,
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
    made->kept = stored && adopt(made, descs, desc);
    if (!made->kept)
        rc = make(made, descs, why);
    else if (place->fd > 0)
        close(place->fd); /* the heap of the last run is in its own place */
    if (rc == EC_OK)
        rc = fill_rows(made, descs, place, why);
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
    if (desc.path[0] == '\0' && (strcmp(desc.huge, "never") == 0 || strcmp(desc.huge, "auto") == 0))
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
