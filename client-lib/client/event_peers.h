/* event_peers.h - which ports and readers this client has, and who is on their other side.
 *
 * The daemon announces ports and readers of others on the service thread; the publishing and reading
 * threads own their rings. Between them stand mailboxes, never a lock that a hot path would take:
 *
 *   event.reader.added    service thread: map cursors -> ec_port_post -> publishing thread
 *   event.port.added      service thread: map port, show cursor -> subscriber's mailbox -> reading thread
 *
 * The mutex guards the lists below; it is taken by create, destroy and the service thread only. */
#ifndef EC_CLIENT_EVENT_PEERS_H
#define EC_CLIENT_EVENT_PEERS_H

#include <pthread.h>

#include "client/client.h"
#include "client/known_links.h"
#include "foundation/json/json_writer.h"
#include "segment/event_port.h"

#include <engine-core/publisher.h>
#include <engine-core/subscriber.h>

#define EC_CLIENT_TYPES_MAX 1024

struct ec_known_type {
    uint64_t type;
    uint32_t bytes; /* the payload: exact or at most */
    bool exact;
    char *request; /* owned: how it was registered, for the next daemon */
};

/* A reader of one of our ports, and the mapping that its words lie in. */
struct ec_peer_reader {
    struct ec_port_change change; /* first: the publisher gives this back */
    struct ec_segment_map cursors;
    int doorbell_fd;
};

/* A port that a subscriber of ours reads. */
struct ec_peer_port {
    struct ec_peer_port *next;
    struct ec_port_view view;
    struct ec_port_reading reading;
    struct ec_port_item head; /* the next wanted event, when has_head */
    bool has_head;
    bool overdue; /* EC_ORDER_STEP: no longer waited for, until it catches up */
    char client[48];
    char name[EC_PORT_NAME_BYTES];
    uint32_t port_id;
    uint32_t client_id;
    uint32_t reader_id;   /* that it was linked to */
    uint32_t reader_slot; /* in the port's readers[] */
    uint64_t delivered;
    bool was_there;    /* before the subscriber */
    bool across_users; /* its publisher is another user's: it rings the other bell */
    uint32_t cursor;   /* in the client's cursor segment */
    enum ec_port_start start;
    bool removed;                /* its publisher is gone: drain it, then unmap */
    struct ec_cursor_slot spare; /* then its cursor is here: the daemon may give away the other */
    bool broken;                 /* its ring made no sense */
};

/* What the service thread tells a reading thread. */
struct ec_subscriber_change {
    struct ec_mail mail;
    struct ec_peer_port *added; /* NULL: removed_id is meant */
    uint32_t removed_id;
};

/* A notification that came before the call that makes its object known had returned. */
struct ec_early {
    struct ec_early *next;
    bool port;         /* a port for a reader; else a reader for a port */
    bool removed;      /* it went again */
    bool existed;      /* a port that was there before its reader */
    bool across_users; /* a port of another user's program */
    uint64_t id;       /* of our object: reader_id or port_id */
    uint32_t port_id;
    uint32_t client_id;
    char client[48]; /* name of the publisher; of a port only */
    char name[EC_PORT_NAME_BYTES];
    uint32_t cursor;
    uint32_t slot; /* sleep slot, or reader slot of the port */
    uint32_t reader_slot;
    uint64_t reader_id;
    bool reliable;
    bool accepted; /* an object of ours knows it now: tell the daemon */
    int fds[2];    /* -1: none */
};

struct ec_event_peers {
    struct ec_connection *connection;
    pthread_mutex_t mutex;
    struct ec_publisher *publishers;
    struct ec_subscriber *subscribers;
    struct ec_early *early;
    unsigned early_count;
    unsigned
        opening; /* subscribers on their way: ports that go meanwhile are remembered for them */
    uint32_t ids_lent; /* resume.c */
    unsigned type_count;
    struct ec_known_type types[EC_CLIENT_TYPES_MAX];
};

/* Find a type that this client registered. Takes the mutex. */
bool ec_event_peers_type(struct ec_event_peers *peers, uint64_t type, struct ec_known_type *known);

/* ---- resume.c: what a new daemon is told ---- */

/* How an object was opened, and what it says of itself; written with the mutex held, sent without. */
struct ec_handback {
    struct ec_handback *next;
    bool of_port;
    uint32_t id;  /* port_id or reader_id, as it was, or lent */
    char *params; /* owned */
    int fds[2];   /* owned duplicates */
    unsigned fd_count;
};

/* An id for an object that is opened as a new one, until the daemon has named it: the daemon may give
 * the number that it had to another object, whose notifications it must not get. They come from the end
 * that no daemon reaches. With the mutex held. */
uint32_t ec_handback_lend_id(struct ec_event_peers *peers);
/* The members of a JSON object that this library wrote, into an open object. */
void ec_handback_copy_members(struct ec_json_writer *writer, const char *object);

/* Write what opens the object again. fresh: as if it was new; who it knew is let go of. false: no
 * memory, or no descriptor. */
bool ec_publisher_hand_back(struct ec_publisher *publisher, bool fresh,
                            struct ec_handback *handback);
bool ec_subscriber_hand_back(struct ec_subscriber *subscriber, bool fresh,
                             struct ec_handback *handback);
/* What the daemon before said of objects that nobody knew: its numbers mean others now. Takes the mutex. */
void ec_event_peers_forget_early(struct ec_event_peers *peers);
/* What came for an object before the answer that gave it this id was looked at. Takes the mutex. */
void ec_event_peers_deliver_early(struct ec_event_peers *peers);
/* The daemon's answer. */
int ec_publisher_take_back(struct ec_publisher *publisher, struct ec_call *call,
                           struct ec_error *why);
int ec_subscriber_take_back(struct ec_subscriber *subscriber, struct ec_call *call,
                            struct ec_error *why);

/* Publisher side (publisher.c). Called with the mutex held, on the service thread. */
void ec_publisher_add_reader(struct ec_publisher *publisher, struct ec_early *news);
void ec_publisher_remove_reader(struct ec_publisher *publisher, uint64_t reader_id);

/* Subscriber side (subscriber.c). The same. */
void ec_subscriber_add_port(struct ec_subscriber *subscriber, struct ec_early *news);
void ec_subscriber_remove_port(struct ec_subscriber *subscriber, uint32_t port_id);

/* Make an object known and hand it what came early. Takes the mutex. */
void ec_event_peers_add_publisher(struct ec_event_peers *peers, struct ec_publisher *publisher);
void ec_event_peers_remove_publisher(struct ec_event_peers *peers, struct ec_publisher *publisher);
/* Bracket a subscriber's creation: open, then add_subscriber, or cancel when it failed. */
void ec_event_peers_open_subscriber(struct ec_event_peers *peers);
void ec_event_peers_cancel_subscriber(struct ec_event_peers *peers);
void ec_event_peers_add_subscriber(struct ec_event_peers *peers, struct ec_subscriber *subscriber);
void ec_event_peers_remove_subscriber(struct ec_event_peers *peers,
                                      struct ec_subscriber *subscriber);

/* The links and ids that event_peers.c walks by. */
struct ec_publisher **ec_publisher_link(struct ec_publisher *publisher);
uint32_t ec_publisher_port_id(const struct ec_publisher *publisher);
struct ec_subscriber **ec_subscriber_link(struct ec_subscriber *subscriber);
uint64_t ec_subscriber_reader_id(const struct ec_subscriber *subscriber);

/* Read the members of a port that notification and reply have in common. */
bool ec_event_port_members(struct ec_json_span object, struct ec_early *news);

/* Read one unsigned member of a notification or reply; false when it is missing or out of range. */
bool ec_event_member(struct ec_json_span object, const char *name, uint64_t max, uint64_t *value);

#endif
