/* joining.h - answer event.reader.sync when all publishers know the new reader, and event.port.sync when
 * all readers know the new port.
 *
 * A publisher that knows a reliable reader waits for it. Between the daemon's record and that moment
 * lies the latency of the publisher's service thread; who syncs has it behind him, and from then on
 * loses nothing. In the same way no reader in the order of steps finds an event of a port whose readers
 * all know it only when it has passed that step.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_EVENT_JOINING_H
#define ENGINE_CORED_EVENT_JOINING_H

#include "daemon/request.h"
#include "events/registry.h"

/* Answer {complete} at once, or when the last one of the other side has accepted, or after JOINING_MS. */
#define JOINING_MS 250 /* a process whose service thread takes longer is stopped or hostile */
int joining_wait_reader(struct events *events, uint32_t reader_id, struct request *request);
int joining_wait_port(struct events *events, uint32_t port_id, struct request *request);

/* Somebody accepted, or a port or reader went: answer who waits for that. */
void joining_check(struct events *events);
void joining_finish(struct events *events);

#endif
