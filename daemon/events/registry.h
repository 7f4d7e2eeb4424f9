/* registry.h - the state of the events module, for its own files. */
#ifndef ENGINE_CORED_EVENT_REGISTRY_H
#define ENGINE_CORED_EVENT_REGISTRY_H

#include <uv.h>

#include "events/events.h"
#include "events/routes.h"
#include "events/subscriptions.h"
#include "events/types.h"
#include "segment/event_port.h"

struct events {
    struct services *services;
    struct event_types types;
    struct routes routes;
    struct route_owner *owner; /* the daemon */
    struct subscriptions subscriptions;

    struct ec_port_writer writer; /* the daemon's own port: JSON publishers and system events */
    struct route_port *port;
    struct event_type *system[EC_SYSTEM_EVENTS];

    struct joining *joining; /* readers that wait for their publishers (joining.c) */

    uv_timer_t *rate_timer; /* samples rates once a second */
    int64_t sampled_ns;
};

/* Publish into the daemon's port; never waits. Returns EC_OK, EC_ERR_SIZE or EC_ERR_PARAM. */
int events_claim(struct events *events, uint32_t bytes, void **payload);
uint64_t events_commit(struct events *events, const struct event_type *type, uint32_t bytes,
                       uint32_t sender);

/* Counts of a type over all ports and readers, present and past (statistics.c). */
struct event_counts {
    uint64_t published, bytes, refused, delivered, lost;
    uint32_t publishers, subscribers;
    struct ec_histogram_sum latency;
};
void event_counts_sum(const struct events *events, const struct event_type *type,
                      struct event_counts *counts);
void events_sample_rates(struct events *events);
/* {client_id, port, …} of one port into an open array. */
void event_port_write(const struct route_port *port, struct ec_json_writer *writer);
/* "ports":[…], "readers":[…] of one client into an open object; a client_hooks.describe. */
void events_describe_client(void *context, struct client *client, struct ec_json_writer *writer);

#endif
