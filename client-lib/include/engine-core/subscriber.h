/* engine-core/subscriber.h - read events from the ports of all clients, in place.
 *
 * A subscriber reads every port of every client, present and future, and passes over types that it
 * did not ask for. In ports that exist it starts where desc.start says; those that are opened later
 * it reads from their beginning. When ec_subscriber_create returns, all publishers know the reader:
 * a reliable one misses nothing from then on.
 *
 *     static void on_event(void *context, const struct ec_event *event) { … }
 *
 *     ec_subscriber_create(client, &(struct ec_subscriber_desc){ .types = (const char *[]){ "game.shot" },
 *                          .type_count = 1 }, &subscriber, &why);
 *     while (running) {
 *         ec_subscriber_wait(subscriber, 100000000);
 *         ec_subscriber_poll(subscriber, on_event, game, 1000);
 *     }
 *
 * Or without call-backs:
 *
 *     while (ec_subscriber_next(subscriber, &event) == EC_OK) {
 *         use(event.payload);
 *         if (ec_subscriber_done(subscriber) != EC_OK)
 *             forget(); // it was overwritten while it was used
 *     }
 *
 * A payload is read where the publisher wrote it, and validated after use: a lossy (or demoted)
 * reader may have been overtaken meanwhile. It then gets on_lost with torn = true: what the last
 * call-back saw must be thrown away. A reliable reader that keeps up never gets it.
 *
 * The latency that the daemon shows is taken of one event in 16 and of the first after a sleep, because
 * reading the clock costs more than reading an event.
 *
 * Thread:    create and destroy from any thread; everything else from the one that reads.
 * Ownership: the caller owns the subscriber and destroys it before the client.
 * Cost:      poll and next make no system call, take no lock and allocate nothing; wait sleeps in
 *            ppoll(2). Ordered reading looks at the first event of each port for each event. */
#ifndef ENGINE_CORE_SUBSCRIBER_H
#define ENGINE_CORE_SUBSCRIBER_H

#include <engine-core/event.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ec_subscriber; /* opaque */

struct ec_loss {
    uint32_t port;
    uint32_t sender;
    uint64_t events; /* exact, foreign types included */
    uint64_t bytes;  /* of the ring */
    bool torn;       /* the event of the last call-back is not whole */
};

/* Where to start in a port that exists. */
enum ec_start {
    EC_START_TAIL = 0,     /* at what is published from now on */
    EC_START_KEYFRAME = 1, /* at the publisher's last keyframe; none in the ring: at the tail */
    EC_START_HISTORY = 2,  /* at the last history events, as far as the ring holds them */
};

/* In which order events of several ports are delivered. Within a port: as published. */
enum ec_order {
    EC_ORDER_PORT = 0, /* port after port, up to 256 events of each: the cheapest */
    EC_ORDER_TIME = 1, /* of what is there now: by time stamp */
    EC_ORDER_STEP =
        2, /* by step, then client name, port name and sequence: the same in every run. An
                          event waits until every publisher has passed its step */
};

/* Zero means the default. */
struct ec_subscriber_desc {
    const char *const *types; /* names of registered types; default: all */
    uint32_t type_count;      /* 0..32 */
    enum ec_event_policy policy;
    bool foreign_only; /* not the ports of this client itself */
    enum ec_start start;
    uint32_t history; /* of EC_START_HISTORY: 1..4,095 */
    enum ec_order order;
    uint32_t overdue_ms; /* EC_ORDER_STEP: a port that does not pass a step for so long is no longer
                            waited for until it catches up, and counted; default 100 */
    uint32_t spin_ns;    /* wait may spin for so long before it sleeps, while that has paid lately;
                            default 0, at most 100,000 */
    void (*on_lost)(void *context, const struct ec_loss *loss);
    void *context; /* of on_lost */
};

/* Returns EC_OK, EC_ERR_TYPE (names the type that is not registered), EC_ERR_PARAM, EC_ERR_LIMIT (64
 *         subscribers, 1,024 ports), EC_ERR_DISCONNECTED, EC_ERR_TIMEOUT, EC_ERR_MEMORY, EC_ERR_SYSTEM. */
EC_API int ec_subscriber_create(struct ec_client *client, const struct ec_subscriber_desc *desc,
                                struct ec_subscriber **subscriber, struct ec_error *why);
EC_API void ec_subscriber_destroy(struct ec_subscriber *subscriber); /* accepts NULL */

typedef void ec_event_fn(void *context, const struct ec_event *event);

/* Deliver up to max events in the order of desc.order. Returns how many were delivered whole. */
EC_API int ec_subscriber_poll(struct ec_subscriber *subscriber, ec_event_fn *fn, void *context,
                              uint32_t max);

/* The next event, in place. It stays until ec_subscriber_done, which says EC_OK when it was whole all
 * the time and EC_ERR_STALE when it must be thrown away. Asking again without done gives the same one.
 *
 * Returns EC_OK or EC_AGAIN (there is none now); done without next: EC_ERR_STATE. */
EC_API int ec_subscriber_next(struct ec_subscriber *subscriber, struct ec_event *event);
EC_API int ec_subscriber_done(struct ec_subscriber *subscriber);

/* Sleep until there is something to deliver. timeout_ns < 0 waits without end.
 *
 * Returns EC_OK, EC_ERR_TIMEOUT or EC_ERR_SYSTEM. */
EC_API int ec_subscriber_wait(struct ec_subscriber *subscriber, int64_t timeout_ns);

/* For a program's own poll loop: ec_subscriber_arm says EC_AGAIN when nothing is there now, and from
 * then on the descriptor becomes readable with the next event; EC_OK when there is something to poll
 * at once. Poll and next disarm. With EC_ORDER_STEP arm again at least every overdue_ms. The descriptor
 * is the subscriber's; -1 with errno: the process may have no more. */
EC_API int ec_subscriber_fd(struct ec_subscriber *subscriber);
EC_API int ec_subscriber_arm(struct ec_subscriber *subscriber);

struct ec_subscriber_stats {
    uint64_t delivered;
    uint64_t lost_events;
    uint64_t lost_bytes;
    uint64_t overdue; /* EC_ORDER_STEP: times that a port was no longer waited for */
    uint32_t ports;
    uint32_t broken_ports;  /* whose ring made no sense; no longer read */
    uint32_t demoted_ports; /* whose publisher no longer waits for us: we held it up for too long */
};

EC_API void ec_subscriber_stats(const struct ec_subscriber *subscriber,
                                struct ec_subscriber_stats *stats);

/* Who publishes on a port that is read now, such as that of the event in a call-back. */
struct ec_port_names {
    uint32_t client_id; /* 0 is the daemon */
    char client[48];    /* names, NUL-terminated */
    char port[48];
};

/* Returns EC_OK or EC_ERR_NOT_FOUND. Cost: looks at the ports one after the other. */
EC_API int ec_subscriber_port(const struct ec_subscriber *subscriber, uint32_t port_id,
                              struct ec_port_names *names);

#ifdef __cplusplus
}
#endif
#endif
