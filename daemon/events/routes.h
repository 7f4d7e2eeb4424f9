/* routes.h - who reads whom: ports, readers, and a link for each pair.
 *
 *   client A: ports ----+---- link ----+---- readers: client B
 *                       |  cursor      |
 *   daemon:   port  ----+  reader_slot +---- reader: daemon (for JSON subscribers)
 *
 * A link has a cursor in the reader's cursor segment and a slot in the port's table of readers. Both
 * ends are told: the publisher gets the reader's cursor segment and doorbell, the reader gets the
 * port. The daemon is an owner like the clients, with client_id 0, reached by calls instead of
 * notifications.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_EVENT_ROUTES_H
#define ENGINE_CORED_EVENT_ROUTES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "clients/clients.h"
#include "events/claims.h"
#include "events/types.h"
#include "proto/cursor_segment.h"
#include "proto/event_port.h"
#include "segment/event_port.h"

#define ROUTE_PORTS_MAX 64 /* of one owner */
#define READER_TYPES_MAX 32

struct route_link {
    struct route_port *port;
    struct route_reader *reader;
    struct route_link *next_of_port;
    struct route_link *next_of_reader;
    uint32_t cursor;      /* in the cursor segment of the reader's owner */
    uint32_t reader_slot; /* in the port's readers[] */
    bool existed;         /* the port was there before the reader */
    bool accepted;        /* the publishing process has handed it to its publishing thread */
    bool known;           /* the reading process has handed the port to its reading thread */
    bool restored;        /* both ends knew of it when they came back: they are told nothing */
};

struct route_port {
    struct route_port *next;
    struct route_owner *owner;
    uint32_t id;
    char name[EC_PORT_NAME_BYTES];
    uint32_t ring_bytes;
    int fd;                   /* ours */
    struct ec_port_view view; /* checked; the daemon's own is seen through its writer */
    const struct ec_event_port *port;
    struct route_link *links;
    struct claims claims; /* readers that it says it has; their slots are taken */
    bool adrift;          /* the connection of its owner broke; nobody has asked for it since */
    uint64_t segment;     /* see claims.h */
    uint64_t slots[EC_PORT_READERS_MAX / 64]; /* bits of reader slots in use */
    uint64_t sampled;                         /* published, a second ago */
    double rate_hz;
};

struct route_reader {
    struct route_reader *next;
    struct route_owner *owner;
    uint32_t id;
    uint32_t slot; /* sleep slot */
    bool reliable;
    bool foreign_only; /* not the ports of its own owner */
    uint64_t types[READER_TYPES_MAX];
    uint32_t type_count; /* 0: all */
    int bell_fd;         /* ours; -1: the owner's is used */
    bool bell_is_socket; /* else only programs of the reader's own user may ring it */
    int bell_across_fd;  /* ours, a socket for all others; -1: none */
    struct route_link *links;
    struct claims claims; /* ports that it says it reads; their cursors are taken */
    bool adrift;          /* as of a port */
};

/* Whoever has ports or readers: an attached client, or the daemon. */
struct route_owner {
    struct route_owner *next;
    struct client *client; /* NULL: the daemon */
    uint32_t client_id;
    char name[CLIENT_NAME_BYTES];
    const struct ec_cursor_segment *cursors; /* a stranger's, unless the daemon's */
    int cursor_fd, doorbell_fd;              /* the client's or the daemon's; not owned here */
    uint64_t cursor_segment;                 /* see claims.h */
    uint32_t port_count, reader_count;
    uint64_t sleep_slots;                       /* bits in use */
    uint64_t cursor_slots[EC_CURSORS_MAX / 64]; /* bits in use */
};

/* How the daemon's own ends are told. */
struct route_daemon {
    void *context;
    void (*reader_added)(void *context, const struct route_link *link); /* to the daemon's port */
    void (*reader_removed)(void *context, const struct route_link *link);
    void (*port_added)(void *context, const struct route_link *link); /* to the daemon's reader */
    void (*port_removed)(void *context, const struct route_port *port);
};

struct routes {
    struct event_types *types;
    struct own_memory
        *own_memory; /* where owners and what they have is taken from; NULL: the C library */
    struct route_daemon daemon;
    struct route_owner *owners;
    struct route_port *ports;
    struct route_reader *readers;
    uint32_t last_port_id, last_reader_id;
    uint64_t lost;             /* by readers, over links that are gone */
    struct heritage *heritage; /* ids go on where the last run ended; NULL: from 1 */
};

struct route_owner *routes_add_owner(struct routes *routes, struct client *client);
struct route_owner *routes_owner(struct routes *routes, const struct client *client);
/* Ends all its ports and readers, tells the others and rings the readers of its ports. */
void routes_remove_owner(struct routes *routes, struct route_owner *owner);

/* The connection of a client broke while its process goes on: so do its ports and readers, through shared
 * memory. Links come and go meanwhile; only the client hears nothing of it.
 *
 *   routes_set_adrift     its connection broke
 *   routes_rebind_owner   the same process has attached again; cursors and doorbell are the same files in
 *                         another mapping. false: they are not, and nothing has changed
 *   routes_open_port, routes_open_reader with the id that it had: it goes on, and hears what it missed
 *   routes_end_adrift     it has asked for all that it still has; the rest ends */
void routes_set_adrift(struct routes *routes, const struct route_owner *owner);
bool routes_rebind_owner(struct routes *routes, struct route_owner *owner, struct client *client);
void routes_end_adrift(struct routes *routes, const struct route_owner *owner);

struct route_port_desc {
    const char *name;
    uint64_t ring_bytes;
    int fd;                           /* stays the caller's: it is duplicated */
    const struct ec_port_writer *own; /* NULL unless it is the daemon's port */
    uint32_t id;                      /* that it had before; 0: a new one */
    struct claims *claims;            /* taken over when it returns EC_OK; NULL: none, it is new */
};

/* Returns EC_OK, EC_ERR_LIMIT, EC_ERR_LAYOUT, EC_ERR_PARAM, EC_ERR_STATE (the id is another's, or was
 * never given out), EC_ERR_SYSTEM, EC_ERR_MEMORY. */
int routes_open_port(struct routes *routes, struct route_owner *owner,
                     const struct route_port_desc *desc, struct route_port **port,
                     struct ec_error *why);
void routes_close_port(struct routes *routes, struct route_port *port);
struct route_port *routes_find_port(const struct routes *routes, uint32_t id);

struct route_reader_desc {
    bool reliable;
    bool foreign_only;
    const uint64_t *types;
    uint32_t type_count;
    int bell_fd;           /* -1: the owner's is used */
    int bell_across_fd;    /* for programs of other users; -1: none */
    uint32_t id;           /* that it had before; 0: a new one */
    uint32_t slot;         /* that it had before; with claims only */
    struct claims *claims; /* taken over when it returns EC_OK; NULL: none, it is new */
};

/* Takes the doorbells when it returns EC_OK. Errors as routes_open_port. */
int routes_open_reader(struct routes *routes, struct route_owner *owner,
                       const struct route_reader_desc *desc, struct route_reader **reader,
                       struct ec_error *why);
/* Tell the reader's client of a port that had no place in the answer. */
void routes_tell_reader(struct routes *routes, const struct route_link *link);
void routes_close_reader(struct routes *routes, struct route_reader *reader);
struct route_reader *routes_find_reader(const struct routes *routes, uint32_t id);

/* Nobody who claims or is claimed comes back any more: end what is left for those who claim it. */
void routes_end_claims(struct routes *routes);

/* What a program of this user rings to wake the reader; -1: nothing that it may be given. */
int route_bell(const struct route_reader *reader, uid_t uid);
void route_ring(const struct route_reader *reader); /* by the daemon itself */
/* What the reader says that it has lost; 0 until it has taken its cursor. */
uint64_t route_lost(const struct route_link *link);
/* Do port and reader belong to different users? */
bool route_is_across_users(const struct route_link *link);

#endif
