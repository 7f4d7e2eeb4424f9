/* segments.c - the daemon's own segments, from a table of what they are. */
#include "daemon/segments.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/config.h"
#include "daemon/services.h"
#include "segment/segment.h"

enum { CLOCK, DIRECTORY, HEAP, SEGMENTS };

struct segments {
    struct ec_segment own[SEGMENTS];
    struct segment_row rows[SEGMENTS];
    bool kept;
};

static int open_read_only(int fd, struct ec_error *why);

int segments_init(struct services *services, struct ec_error *why)
{
    int64_t heap_bytes = config_integer(services->config, EC_CONFIG_resource_heap_bytes);

    return segments_create(services->instance, (uint64_t)heap_bytes, &services->segments, why);
}

void segments_shutdown(struct services *services)
{
    segments_destroy(services->segments);
    services->segments = NULL;
}

int segments_create(uint64_t instance, uint64_t heap_bytes, struct segments **segments,
                    struct ec_error *why)
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
                   .punchable = true },
    };
    struct segments *made = calloc(1, sizeof *made);
    int rc = EC_OK;

    *segments = NULL;
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "segments: %s", strerror(errno));
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
            .protection = descs[i].punchable ? "read-only descriptor" : "sealed",
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
    (void)segments;
    return 0;
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
