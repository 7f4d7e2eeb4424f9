/* subscriptions.h - JSON subscribers, and the daemon's own reader that serves them.
 *
 * While there is a subscription, the daemon reads all ports as one more lossy reader: it validates
 * after use, decodes by the type's layout and publishes to a feed (clients/feed.h), which bounds,
 * counts and replays. Without subscriptions nothing is read and no publisher rings us.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_EVENT_SUBSCRIPTIONS_H
#define ENGINE_CORED_EVENT_SUBSCRIPTIONS_H

#include <uv.h>

#include "clients/feed.h"
#include "daemon/counters.h"
#include "events/routes.h"
#include "foundation/doorbell.h"
#include "segment/event_port.h"

struct config;

struct subscriptions {
    uv_loop_t *loop;
    const struct config *config;
    struct counters *counters;
    struct routes *routes;
    struct route_owner *owner; /* the daemon */

    struct ec_segment cursors; /* the daemon's cursor segment */
    struct ec_doorbell doorbell;
    bool polling;
    uv_poll_t *bell;

    struct route_reader *reader; /* NULL: nobody subscribes */
    struct reading_port *ports;
    struct feed *feed;
    struct ec_json_writer payload; /* scratch, kept */
    struct ec_json_writer params;
};

int subscriptions_init(struct subscriptions *subscriptions, uv_loop_t *loop, uint64_t instance,
                       struct ec_error *why);
void subscriptions_finish(struct subscriptions *subscriptions);

struct subscription_desc {
    const uint64_t *types; /* NULL: all */
    uint32_t type_count;
    bool is_rehearsal;                  /* only look whether it could be added */
    struct feed_subscription_desc feed; /* pace and since; the filter is made of the types */
};

/* Returns EC_OK, EC_ERR_LIMIT, EC_ERR_PARAM (since), EC_ERR_MEMORY. */
int subscriptions_add(struct subscriptions *subscriptions, struct client *client,
                      const struct subscription_desc *desc, uint32_t *id, struct ec_error *why);
void subscriptions_remove_client(struct subscriptions *subscriptions, const struct client *client);
uint32_t subscriptions_count(const struct subscriptions *subscriptions, uint64_t type);

/* For route_daemon: the daemon's reader got or lost a port. */
void subscriptions_port_added(struct subscriptions *subscriptions, const struct route_link *link);
void subscriptions_port_removed(struct subscriptions *subscriptions, const struct route_port *port);

#endif
