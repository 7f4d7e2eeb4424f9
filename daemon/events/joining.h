/* joining.h - answer event.reader.sync when all publishers know the new reader.
 *
 * A publisher that knows a reliable reader waits for it. Between the daemon's record and that moment
 * lies the latency of the publisher's service thread; who syncs has it behind him, and from then on
 * loses nothing.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_EVENT_JOINING_H
#define ENGINE_CORED_EVENT_JOINING_H

#include "daemon/request.h"
#include "events/registry.h"

/* Answer {complete} at once, or when the last publisher has accepted, or after JOINING_MS. */
#define JOINING_MS 250 /* a publisher whose service thread takes longer is stopped or hostile */
int joining_wait(struct events *events, struct route_reader *reader, struct request *request);

/* A publisher accepted the reader, or a port or reader went: answer who waits for that. */
void joining_check(struct events *events);
void joining_finish(struct events *events);

#endif
