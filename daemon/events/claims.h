/* claims.h - what ports and readers that come back say of each other.
 *
 * The rings between games go on working while the daemon is away: publisher and reader both know the
 * cursor and the slot that they share. Each of them says so when it comes back, in any order:
 *
 *   port 5:    "reader 3 has my slot 2, and its cursors are file F"
 *   reader 3:  "I read port 5, which is file G, with cursor 7 and its slot 2"
 *
 * When both have come and agree, their link stands again and nobody is told anything: not an event is
 * lost or seen twice. What they do not agree on is ended for who claims it, and begun anew for both. So
 * are the claims whose other side does not come back.
 *
 * A claim is a stranger's word. It takes slots of the one who makes it, and of nobody else; the files
 * are named by their inode, which cannot be had without having the file, so nobody gets a link by
 * guessing numbers.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_EVENTS_CLAIMS_H
#define ENGINE_CORED_EVENTS_CLAIMS_H

#include <stdbool.h>
#include <stdint.h>

#include "foundation/error.h"
#include "foundation/json/json_span.h"

struct claim {
    uint32_t id; /* of the other side: reader_id in a port, port_id in a reader */
    uint32_t reader_slot;
    uint32_t cursor;  /* of a reader's claim */
    uint64_t segment; /* inode of the other side's cursor segment, or port */
};

struct claims {
    struct claim *rows; /* owned */
    uint32_t count;
};

/* Read [{reader_id, reader_slot, segment}] of a port, or [{port_id, cursor, reader_slot, segment}] of a
 * reader. No slot, cursor or id may stand twice.
 *
 * Returns EC_OK, EC_ERR_PARAM or EC_ERR_MEMORY; then there are none. */
int claims_read(struct claims *claims, struct ec_json_span array, bool of_port,
                struct ec_error *why);
void claims_finish(struct claims *claims); /* accepts a zeroed one */

const struct claim *claims_find(const struct claims *claims, uint32_t id); /* NULL: none */
void claims_remove(struct claims *claims, uint32_t id);

/* The inode of a file, which names it for as long as somebody has it. */
uint64_t claim_segment(int fd);

#endif
