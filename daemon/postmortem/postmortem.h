/* postmortem.h - a record of each death: of clients that had attached, and of the daemon itself.
 *
 * A client that goes without client.detach leaves what its segment said last: frame and step, memory by
 * tag and allocator, references, its answer to the breaker, its last log lines; and how it ended, where
 * the kernel tells. Of the daemon before there is what its crash record kept (daemon/crash_record.h).
 * Records are JSON, few and small: postmortem/records.h.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_POSTMORTEM_H
#define ENGINE_CORED_POSTMORTEM_H

#include "foundation/error.h"

struct services;

int postmortem_init(struct services *services, struct ec_error *why); /* module phase */
int postmortem_post_init(struct services *services,
                         struct ec_error *why); /* of the daemon before */
void postmortem_shutdown(struct services *services);

#endif
