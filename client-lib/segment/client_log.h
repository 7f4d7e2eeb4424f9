/* segment/client_log.h - the last log lines of a client, both sides.
 *
 * Threads of the client claim lines of a ring one after the other; nobody waits for anybody. The daemon
 * reads them when the client is dead, so what it sees is what was there last; a thread that died in the
 * middle of a line leaves it unused. While the client lives a line may be read torn.
 *
 * Thread: any. Cost: writing is a copy and some stores. */
#ifndef EC_SEGMENT_CLIENT_LOG_H
#define EC_SEGMENT_CLIENT_LOG_H

#include "proto/client_segment.h"

/* The client's side. text is cut to what fits; at_ns is not 0. */
void ec_client_log_write(struct ec_client_segment *segment, int64_t at_ns, const char *text);

/* The daemon's. Control characters and what is not UTF-8 become '?'. Oldest first; returns how many. */
struct ec_client_log_seen {
    int64_t at_ns;
    char text[EC_CLIENT_LOG_TEXT_BYTES];
};
unsigned ec_client_log_read(const struct ec_client_segment *segment,
                            struct ec_client_log_seen lines[EC_CLIENT_LOG_LINES]);

#endif
