/* known_links.h - who is on the other side of a port or a subscriber: what a new daemon is told of it.
 *
 * Thread: with the mutex of the event peers held, or before others know the object.
 * Cost: linear; at most some hundred rows. */
#ifndef EC_CLIENT_KNOWN_LINKS_H
#define EC_CLIENT_KNOWN_LINKS_H

#include <stdint.h>

#include "foundation/json/json_writer.h"

struct ec_known_link {
    uint32_t id;          /* of a port: reader_id; of a subscriber: port_id */
    uint32_t cursor;      /* of a subscriber's */
    uint32_t reader_slot; /* in the port */
    uint64_t segment;     /* inode of the other side's cursor segment, or port */
};

struct ec_known_links {
    struct ec_known_link *rows;
    uint32_t count, capacity;
};

/* Without memory it is forgotten: the link begins anew when a daemon does. */
void ec_known_links_add(struct ec_known_links *links, const struct ec_known_link *link);
void ec_known_links_remove(struct ec_known_links *links, uint32_t id);
void ec_known_links_finish(struct ec_known_links *links);

/* The inode of a file, or 0. */
uint64_t ec_known_link_segment(int fd);

/* "readers":[…] of a port, or "ports":[…] of a subscriber, into an open object. */
void ec_known_links_write(const struct ec_known_links *links, bool of_port,
                          struct ec_json_writer *writer);

#endif
