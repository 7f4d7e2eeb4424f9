/* attachment.h - what a client hands up at attach: two segments and a doorbell, checked.
 *
 * Thread: loop. Cost: system calls. */
#ifndef ENGINE_CORED_CLIENTS_ATTACHMENT_H
#define ENGINE_CORED_CLIENTS_ATTACHMENT_H

#include "foundation/error.h"
#include "segment/segment.h"

/* The places of the descriptors in fds. */
enum attachment_part { ATTACH_CLIENT, ATTACH_CURSOR, ATTACH_DOORBELL, ATTACH_PARTS };

const char *attachment_part_name(enum attachment_part part); /* "client" */

struct attachment {
    struct ec_segment_map client_map;
    struct ec_segment_map cursor_map;
    enum attachment_part refused; /* after an error: which part */
    struct ec_segment_mismatch
        mismatch; /* after EC_ERR_LAYOUT; field is NULL when it is no number */
};

/* Check and map. may_be_eventfd: the client is of our own user (see foundation/doorbell.h). The descriptors stay the caller's.
 *
 * Returns EC_OK, EC_ERR_LAYOUT, EC_ERR_SIZE or EC_ERR_SYSTEM; then nothing stays mapped. */
int attachment_init(struct attachment *attachment, const int fds[ATTACH_PARTS], bool may_be_eventfd,
                    struct ec_error *why);
/* One client segment alone, by the same checks: that of a client that attached to an earlier run. */
int attachment_map_client(struct ec_segment_map *map, int fd, struct ec_error *why);
void attachment_finish(struct attachment *attachment);

#endif
