/* engine-core/subscriber.h - read events from the ports of all clients, in place.
 *
 * A subscriber reads every port of every client, present and future, and passes over types that it
 * did not ask for. It starts at the tail of the ports that exist and at the beginning of those that
 * are opened later.
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
 * A payload is read where the publisher wrote it, and validated after use: a lossy (or demoted)
 * reader may have been overtaken meanwhile. It then gets on_lost with torn = true: what the last
 * call-back saw must be thrown away. A reliable reader that keeps up never gets it.
 *
 * Thread:    create and destroy from any thread; everything else from the one that reads.
 * Ownership: the caller owns the subscriber and destroys it before the client.
 * Cost:      poll makes no system call, takes no lock and allocates nothing; wait sleeps in poll(2). */
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

/* Zero means the default. */
struct ec_subscriber_desc {
    const char *const *types; /* names of registered types; default: all */
    uint32_t type_count;      /* 0..32 */
    enum ec_event_policy policy;
    uint32_t
        spin_ns; /* wait spins for up to this long before it sleeps; default 0, at most 100,000 */
    void (*on_lost)(void *context, const struct ec_loss *loss);
    void *context; /* of on_lost */
};

/* Returns EC_OK, EC_ERR_TYPE (names the type that is not registered), EC_ERR_PARAM, EC_ERR_LIMIT (64
 *         subscribers, 1,024 ports), EC_ERR_DISCONNECTED, EC_ERR_TIMEOUT, EC_ERR_MEMORY, EC_ERR_SYSTEM. */
EC_API int ec_subscriber_create(struct ec_client *client, const struct ec_subscriber_desc *desc,
                                struct ec_subscriber **subscriber, struct ec_error *why);
EC_API void ec_subscriber_destroy(struct ec_subscriber *subscriber); /* accepts NULL */

typedef void ec_event_fn(void *context, const struct ec_event *event);

/* Deliver up to max events, port after port, fairly. Returns how many were delivered whole. */
EC_API int ec_subscriber_poll(struct ec_subscriber *subscriber, ec_event_fn *fn, void *context,
                              uint32_t max);

/* Sleep until there is something to poll. timeout_ns < 0 waits without end.
 *
 * Returns EC_OK, EC_ERR_TIMEOUT or EC_ERR_SYSTEM. */
EC_API int ec_subscriber_wait(struct ec_subscriber *subscriber, int64_t timeout_ns);

/* For a program's own poll loop: ec_subscriber_arm says EC_AGAIN when nothing is there now, and from
 * then on the descriptor becomes readable with the next event; EC_OK when there is something to poll
 * at once. Poll disarms. */
EC_API int ec_subscriber_fd(const struct ec_subscriber *subscriber);
EC_API int ec_subscriber_arm(struct ec_subscriber *subscriber);

struct ec_subscriber_stats {
    uint64_t delivered;
    uint64_t lost_events;
    uint64_t lost_bytes;
    uint32_t ports;
    uint32_t broken_ports; /* whose ring made no sense; no longer read */
};

EC_API void ec_subscriber_stats(const struct ec_subscriber *subscriber,
                                struct ec_subscriber_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
