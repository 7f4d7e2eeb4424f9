/* subscriber.h - a subscriber from the inside: life and waiting stand in subscriber.c, what is
 * delivered and in which order in subscriber_reading.c. */
#ifndef EC_CLIENT_SUBSCRIBER_H
#define EC_CLIENT_SUBSCRIBER_H

#include "client/event_peers.h"
#include "foundation/stamp_clock.h"

#define EC_SUBSCRIBER_TYPES_MAX 32u
#define EC_SUBSCRIBER_TYPE_CACHE 128u /* power of two, twice the rows of a reader */

struct ec_subscriber_type {
    uint64_t type; /* 0: free */
    struct ec_reader_type *row;
};

struct ec_subscriber {
    uint64_t types[EC_SUBSCRIBER_TYPES_MAX];
    uint32_t type_count; /* 0: all */
    enum ec_order order;
    struct ec_peer_port *ports;
    struct ec_peer_port *turn;    /* EC_ORDER_PORT: who is read first next time */
    struct ec_peer_port *current; /* whose event ec_subscriber_next gave out; NULL: none */
    uint32_t turn_events;         /* how many turn has had in a row */
    struct ec_subscriber_type cache[EC_SUBSCRIBER_TYPE_CACHE];
    uint64_t last_type; /* the one delivered last, and its row; NULL: none yet */
    struct ec_reader_type *last_row;
    uint32_t rows_used;
    struct ec_reader_type *rows; /* own, in the cursor segment */
    _Atomic uint32_t *epoch;     /* own, in the cursor segment */
    struct ec_doorbell doorbell; /* an eventfd: programs of our user ring it */
    struct ec_doorbell across;   /* sockets: those of other users do */
    bool is_rung_across;         /* there is such a one: look at both */
    int loop_fd;                 /* epoll of both, for a foreign loop; -1: never asked for */
    bool may_be_rung;            /* silence the bells before the next sleep */
    bool armed;
    struct ec_stamp_clock clock; /* for latencies */
    bool has_slept;              /* since the last event */
    bool has_removed;            /* a port whose publisher is gone */
    bool has_moved;              /* a cursor, since all were shown */
    enum ec_start start;
    uint32_t history;

    uint32_t spin_ns;     /* at most */
    uint32_t spin_misses; /* waits in a row in which spinning did not pay */

    int64_t overdue_ns;    /* EC_ORDER_STEP */
    int64_t blocked_since; /* 0: the next step is not waited for */
    uint64_t blocked_step;
    uint64_t overdue;

    void (*on_lost)(void *context, const struct ec_loss *loss);
    void *context;

    uint64_t delivered, lost_events, lost_bytes; /* of ports that are gone */
    uint32_t broken;

    struct ec_mailbox changes; /* from the service thread */
    struct ec_client *client;
    struct ec_subscriber *next;

    /* With the mutex of the event peers once others know the subscriber. */
    uint64_t reader_id;
    uint32_t slot; /* in the cursor segment */
    char *request; /* owned: how it was opened, a JSON object */
    struct ec_known_links ports_known;
};

static inline struct ec_subscriber_change *ec_subscriber_change_of(struct ec_mail *mail)
{
    return (struct ec_subscriber_change *)(void *)mail; /* its first member */
}

/* What the service thread left, the oldest first. Thread: the reading one. */
static inline struct ec_subscriber_change *
ec_subscriber_take_changes(struct ec_subscriber *subscriber)
{
    return ec_subscriber_change_of(ec_mailbox_take(&subscriber->changes));
}

/* Take it and do it. Thread: the reading one. */
void ec_subscriber_apply_changes(struct ec_subscriber *subscriber);

/* Anything to deliver now? */
bool ec_subscriber_is_ready(struct ec_subscriber *subscriber);

/* EC_ORDER_STEP: the real time at which a port that holds the next step up becomes overdue; INT64_MAX
 * when nothing is held up. */
int64_t ec_subscriber_overdue_at(const struct ec_subscriber *subscriber);

/* Leave the state that ec_subscriber_arm entered. */
void ec_subscriber_disarm(struct ec_subscriber *subscriber);

/* Tell the publishers how far we are. */
void ec_subscriber_show_cursors(struct ec_subscriber *subscriber);

void ec_peer_port_free(struct ec_peer_port *port);

#endif
