/* events.h - the registry of the event bus: types, ports, readers, and the daemon's own port.
 *
 * The registry arranges who reads whom; the events themselves go from publisher to reader through
 * shared memory. The daemon publishes through its own port: what JSON clients publish, and the system
 * events of events.def. JSON subscribers are served by a validated lossy reader of the daemon.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_EVENTS_H
#define ENGINE_CORED_EVENTS_H

#include <stdint.h>

#include "foundation/error.h"
#include "proto/tables.h"

struct events;
struct client;
struct ec_json_writer;
struct services;

int events_init(struct services *services, struct ec_error *why); /* module phase */
void events_shutdown(struct services *services);

/* Publish one of the daemon's own events: payload is a struct event_<id>. Never waits. */
void events_publish_system(struct events *events, enum ec_system_event_id id, const void *payload);

/* "events":[{port, type, sequence, step, time_ns, bytes}]: what a client published last, oldest first, at most
 * EVENTS_LAST of each of EVENTS_LAST_PORTS ports; into an open object. Its process has ended, or may write
 * nonsense. */
#define EVENTS_LAST 8
#define EVENTS_LAST_PORTS 8
void events_describe_last(const struct events *events, const struct client *client,
                          struct ec_json_writer *writer);

uint32_t events_type_count(const struct events *events);

/* Sums over all types, ports and readers, past ones included. Cost: one walk over all of them. */
struct events_totals {
    uint32_t types, ports, readers;
    uint64_t published, bytes, delivered, lost, refused;
    uint64_t latency_p99_ns;
};
void events_totals(const struct events *events, struct events_totals *totals);

/* struct event_client_left { uint32_t client_id[1]; … char name[48]; } and so on, from the table. */
#define EVENT_TYPE_u32 uint32_t
#define EVENT_TYPE_u64 uint64_t
#define EVENT_TYPE_i64 int64_t
#define EVENT_TYPE_f64 double
#define EVENT_TYPE_char char
#define SYSTEM_EVENT(id, name, help) struct event_##id {
#define SYSTEM_FIELD(name, type, count, help) EVENT_TYPE_##type name[count];
#define SYSTEM_EVENT_END(id)                                                                       \
    }                                                                                              \
    ;
#include "proto/tables/events.def"
#undef SYSTEM_EVENT
#undef SYSTEM_FIELD
#undef SYSTEM_EVENT_END

#endif
