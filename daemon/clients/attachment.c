/* attachment.c - check the descriptors of client.attach before any of them is used. */
#include "clients/attachment.h"

#include "foundation/doorbell.h"
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

int attachment_init(struct attachment *attachment, const int fds[ATTACH_PARTS], bool may_be_eventfd,
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
        rc = ec_doorbell_check(fds[ATTACH_DOORBELL], may_be_eventfd, why);
    }
    if (rc == EC_OK)
        return EC_OK;
    attachment_finish(attachment);
    return ec_error_prefix(why, rc, "%s", attachment_part_name(attachment->refused));
}

int attachment_map_client(struct ec_segment_map *map, int fd, struct ec_error *why)
{
    struct attachment attachment = { 0 };

    return map_part(&attachment, ATTACH_CLIENT, map, fd, EC_SEGMENT_CLIENT,
                    sizeof(struct ec_client_segment), why);
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
    const uint64_t blocks = kind == EC_SEGMENT_CLIENT ? EC_CLIENT_BLOCKS_MAX : 0;
    int rc = ec_segment_map_init(map, fd, kind, bytes, bytes * GROWTH + blocks, why);

    attachment->refused = part;
    if (rc == EC_ERR_LAYOUT && map->bytes != 0) /* refused for its header, not for its seals */
        ec_segment_mismatch(&map->header, kind, map->bytes, &attachment->mismatch);
    return rc;
}
