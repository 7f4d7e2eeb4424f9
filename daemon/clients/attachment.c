/* attachment.c - check the descriptors of client.attach before any of them is used. */
#include "clients/attachment.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/client_segment.h"
#include "proto/cursor_segment.h"

/* A higher minor version appends fields: leave it room, but not without end. */
#define GROWTH 4

static int map_part(struct attachment *attachment, enum attachment_part part,
                    struct ec_segment_map *map, int fd, uint32_t kind, uint64_t bytes,
                    struct ec_error *why);

const char *attachment_part_name(enum attachment_part part)
{
    static const char *const names[ATTACH_PARTS] = { "client", "cursor", "doorbell" };

    return names[part];
}

int attachment_init(struct attachment *attachment, const int fds[ATTACH_PARTS],
                    struct ec_error *why)
{
    int rc;

    *attachment = (struct attachment) { 0 };
    rc = map_part(attachment, ATTACH_CLIENT, &attachment->client_map, fds[ATTACH_CLIENT],
                  EC_SEGMENT_CLIENT, sizeof(struct ec_client_segment), why);
    if (rc == EC_OK)
        rc = map_part(attachment, ATTACH_CURSOR, &attachment->cursor_map, fds[ATTACH_CURSOR],
                      EC_SEGMENT_CURSOR, sizeof(struct ec_cursor_segment), why);
    if (rc == EC_OK) {
        attachment->refused = ATTACH_DOORBELL;
        rc = attachment_check_doorbell(fds[ATTACH_DOORBELL], why);
    }
    if (rc == EC_OK)
        return EC_OK;
    attachment_finish(attachment);
    return ec_error_prefix(why, rc, "%s", attachment_part_name(attachment->refused));
}

void attachment_finish(struct attachment *attachment)
{
    ec_segment_map_finish(&attachment->client_map);
    ec_segment_map_finish(&attachment->cursor_map);
}

static int map_part(struct attachment *attachment, enum attachment_part part,
                    struct ec_segment_map *map, int fd, uint32_t kind, uint64_t bytes,
                    struct ec_error *why)
{
    int rc = ec_segment_map_init(map, fd, kind, bytes, bytes * GROWTH, why);

    attachment->refused = part;
    if (rc == EC_ERR_LAYOUT && map->bytes != 0) /* refused for its header, not for its seals */
        ec_segment_mismatch(&map->header, kind, map->bytes, &attachment->mismatch);
    return rc;
}

/* Publishers write to it without looking again: only an eventfd may come. */
int attachment_check_doorbell(int fd, struct ec_error *why)
{
    static const char expected[] = "anon_inode:[eventfd]";
    char path[64], what[64];
    ssize_t bytes;

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    bytes = readlink(path, what, sizeof what - 1);
    what[bytes < 0 ? 0 : bytes] = '\0';
    if (strcmp(what, expected) != 0)
        return ec_fail(why, EC_ERR_LAYOUT, "descriptor is %s, expected %s", what, expected);
    if ((fcntl(fd, F_GETFL) & O_NONBLOCK) == 0) /* a full one would stop whoever rings it */
        return ec_fail(why, EC_ERR_LAYOUT, "eventfd blocks, expected O_NONBLOCK");
    return EC_OK;
}
