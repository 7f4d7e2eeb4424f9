/* routes.c - link ports and readers and tell both ends; see routes.h. */
#include "events/routes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/heritage.h"
#include "daemon/log.h"
#include "daemon/own_memory.h"
#include "foundation/doorbell.h"
#include "segment/event_port.h"

/* From where another block of the routes came. */
static void *take_beside(const void *block, size_t bytes)
{
    return own_memory_alloc(own_memory_of(block), OWN_MEMORY_ROUTES, bytes);
}

/* ---- small sets of slots --------------------------------------------------------------------- */

/* Take the lowest free bit of count; count when all are taken. */
static uint32_t take_slot(uint64_t *bits, uint32_t count)
{
    for (uint32_t word = 0; word < count / 64; word++) {
        if (bits[word] != UINT64_MAX) {
            uint32_t bit = (uint32_t)__builtin_ctzll(~bits[word]);

            bits[word] |= 1ull << bit;
            return word * 64 + bit;
        }
    }
    return count;
}

static void give_slot(uint64_t *bits, uint32_t slot)
{
    bits[slot / 64] &= ~(1ull << (slot % 64));
}

/* ---- telling both ends ----------------------------------------------------------------------- */

/* A small notification; a client whose output is full loses it, which clients.h counts. */
static void notify(struct client *client, const char *method, const struct ec_json_writer *params,
                   const int *fds, unsigned fd_count)
{
    if (client->output != NULL)
        client_notify(client, method, params, fds, fd_count);
}

static uid_t uid_of(const struct route_owner *owner)
{
    return owner->client != NULL ? owner->client->uid : geteuid();
}

/* An eventfd is not given to another user's program: its owner could make that one block. */
int route_bell(const struct route_reader *reader, uid_t uid)
{
    if (uid != uid_of(reader->owner) && !reader->bell_is_socket)
        return reader->bell_across_fd;
    return reader->bell_fd >= 0 ? reader->bell_fd : reader->owner->doorbell_fd;
}

void route_ring(const struct route_reader *reader)
{
    int bell_fd = route_bell(reader, geteuid());

    if (bell_fd >= 0)
        ec_doorbell_ring(bell_fd, ec_doorbell_is_socket(bell_fd));
}

bool route_is_across_users(const struct route_link *link)
{
    return uid_of(link->port->owner) != uid_of(link->reader->owner);
}

static void tell_publisher_added(struct routes *routes, const struct route_link *link)
{
    const struct route_reader *reader = link->reader;
    int fds[2] = { reader->owner->cursor_fd, -1 };
    char text[512];
    struct ec_json_writer w;

    if (link->port->owner->client == NULL) {
        routes->daemon.reader_added(routes->daemon.context, link);
        return;
    }
    fds[1] = route_bell(reader, uid_of(link->port->owner));
    ec_json_writer_init(&w, text, sizeof text);
    ec_json_object_begin(&w);
    ec_json_member_u64(&w, "port_id", link->port->id);
    ec_json_member_u64(&w, "reader_id", reader->id);
    ec_json_member_u64(&w, "client_id", reader->owner->client_id);
    ec_json_member_u64(&w, "cursor", link->cursor);
    ec_json_member_u64(&w, "slot", reader->slot);
    ec_json_member_u64(&w, "reader_slot", link->reader_slot);
    ec_json_member_string(&w, "policy", reader->reliable ? "reliable" : "lossy");
    ec_json_object_end(&w);
    notify(link->port->owner->client, "event.reader.added", &w, fds, 2);
}

static void notify_reader_removed(const struct route_port *port, uint32_t reader_id)
{
    char text[128];
    struct ec_json_writer w;

    ec_json_writer_init(&w, text, sizeof text);
    ec_json_object_begin(&w);
    ec_json_member_u64(&w, "port_id", port->id);
    ec_json_member_u64(&w, "reader_id", reader_id);
    ec_json_object_end(&w);
    notify(port->owner->client, "event.reader.removed", &w, NULL, 0);
}

static void tell_publisher_removed(struct routes *routes, const struct route_link *link)
{
    if (link->port->owner->client == NULL)
        routes->daemon.reader_removed(routes->daemon.context, link);
    else
        notify_reader_removed(link->port, link->reader->id);
}

static void tell_reader_added(struct routes *routes, const struct route_link *link)
{
    char text[512];
    struct ec_json_writer w;

    if (link->reader->owner->client == NULL) {
        routes->daemon.port_added(routes->daemon.context, link);
        return;
    }
    ec_json_writer_init(&w, text, sizeof text);
    ec_json_object_begin(&w);
    ec_json_member_u64(&w, "reader_id", link->reader->id);
    ec_json_member_u64(&w, "port_id", link->port->id);
    ec_json_member_u64(&w, "client_id", link->port->owner->client_id);
    ec_json_member_string(&w, "client", link->port->owner->name);
    ec_json_member_string(&w, "name", link->port->name);
    ec_json_member_u64(&w, "bytes", link->port->ring_bytes);
    ec_json_member_u64(&w, "cursor", link->cursor);
    ec_json_member_u64(&w, "reader_slot", link->reader_slot);
    ec_json_member_boolean(&w, "existed", link->existed);
    ec_json_member_boolean(&w, "across_users", route_is_across_users(link));
    ec_json_object_end(&w);
    notify(link->reader->owner->client, "event.port.added", &w, &link->port->fd, 1);
}

static void notify_port_removed(const struct route_owner *owner, uint32_t port_id)
{
    char text[64];
    struct ec_json_writer w;

    ec_json_writer_init(&w, text, sizeof text);
    ec_json_object_begin(&w);
    ec_json_member_u64(&w, "port_id", port_id);
    ec_json_object_end(&w);
    notify(owner->client, "event.port.removed", &w, NULL, 0);
}

static void tell_reader_removed(struct routes *routes, const struct route_link *link)
{
    if (link->reader->owner->client == NULL) {
        routes->daemon.port_removed(routes->daemon.context, link->port);
        return;
    }
    notify_port_removed(link->reader->owner, link->port->id);
    /* The publisher may have been killed between commit and ring. */
    route_ring(link->reader);
}

/* ---- links ----------------------------------------------------------------------------------- */

static void insert_link(struct route_link *made, struct route_port *port,
                        struct route_reader *reader)
{
    made->port = port;
    made->reader = reader;
    made->next_of_port = port->links;
    port->links = made;
    made->next_of_reader = reader->links;
    reader->links = made;
}

static int add_link(struct route_port *port, struct route_reader *reader, struct route_link **link,
                    struct ec_error *why)
{
    struct route_link *made = take_beside(port, sizeof *made);

    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a link");
    made->cursor = take_slot(reader->owner->cursor_slots, EC_CURSORS_MAX);
    made->reader_slot = take_slot(port->slots, EC_PORT_READERS_MAX);
    if (made->cursor == EC_CURSORS_MAX || made->reader_slot == EC_PORT_READERS_MAX) {
        bool cursors = made->cursor == EC_CURSORS_MAX;

        if (!cursors)
            give_slot(reader->owner->cursor_slots, made->cursor);
        if (made->reader_slot != EC_PORT_READERS_MAX)
            give_slot(port->slots, made->reader_slot);
        own_memory_free(made);
        return cursors
                   ? ec_fail(why, EC_ERR_LIMIT, "client %u reads %d ports, no more are possible",
                             reader->owner->client_id, EC_CURSORS_MAX)
                   : ec_fail(why, EC_ERR_LIMIT, "port %s has %d readers, no more are possible",
                             port->name, EC_PORT_READERS_MAX);
    }
    made->accepted = port->owner->client == NULL; /* ours is told by a call */
    made->known = reader->owner->client == NULL;
    insert_link(made, port, reader);
    *link = made;
    return EC_OK;
}

/* ---- claims ---------------------------------------------------------------------------------- */

static void drop_port_claim(struct route_port *port, uint32_t reader_id)
{
    const struct claim *claim = claims_find(&port->claims, reader_id);

    if (claim == NULL)
        return;
    give_slot(port->slots, claim->reader_slot);
    claims_remove(&port->claims, reader_id);
    notify_reader_removed(port, reader_id);
}

static void drop_reader_claim(struct route_reader *reader, uint32_t port_id)
{
    const struct claim *claim = claims_find(&reader->claims, port_id);

    if (claim == NULL)
        return;
    give_slot(reader->owner->cursor_slots, claim->cursor);
    claims_remove(&reader->claims, port_id);
    notify_port_removed(reader->owner, port_id);
}

/* Both say the same of each other, and are who they say. */
static bool agree(const struct route_port *port, const struct route_reader *reader)
{
    const struct claim *of_port = claims_find(&port->claims, reader->id);
    const struct claim *of_reader = claims_find(&reader->claims, port->id);

    return of_port != NULL && of_reader != NULL && of_port->reader_slot == of_reader->reader_slot &&
           of_port->segment == reader->owner->cursor_segment && of_reader->segment == port->segment;
}

/* Link a port and a reader of which one has just come: as it was, if both know how; else anew, and
 * whoever thought that it had a link is told that it ended. */
static int link_pair(struct route_port *port, struct route_reader *reader, struct route_link **link,
                     struct ec_error *why)
{
    struct route_link *made = agree(port, reader) ? take_beside(port, sizeof *made) : NULL;

    if (made == NULL) {
        drop_port_claim(port, reader->id);
        drop_reader_claim(reader, port->id);
        return add_link(port, reader, link, why);
    }
    made->cursor = claims_find(&reader->claims, port->id)->cursor;
    made->reader_slot = claims_find(&port->claims, reader->id)->reader_slot;
    made->accepted = made->known = made->restored = made->existed = true;
    claims_remove(&port->claims, reader->id); /* their slots are the link's now */
    claims_remove(&reader->claims, port->id);
    insert_link(made, port, reader);
    *link = made;
    return EC_OK;
}

/* Take the slots that claims stand for. The first count bits may be taken by others: then it is none. */
static bool take_claimed(uint64_t *bits, const struct claims *claims, bool of_port)
{
    for (uint32_t i = 0; i < claims->count; i++) {
        uint32_t slot = of_port ? claims->rows[i].reader_slot : claims->rows[i].cursor;

        if (bits[slot / 64] >> (slot % 64) & 1) {
            while (i-- > 0)
                give_slot(bits, of_port ? claims->rows[i].reader_slot : claims->rows[i].cursor);
            return false;
        }
        bits[slot / 64] |= 1ull << (slot % 64);
    }
    return true;
}

static void give_claimed(uint64_t *bits, const struct claims *claims, bool of_port)
{
    for (uint32_t i = 0; i < claims->count; i++)
        give_slot(bits, of_port ? claims->rows[i].reader_slot : claims->rows[i].cursor);
}

void routes_end_claims(struct routes *routes)
{
    for (struct route_port *port = routes->ports; port != NULL; port = port->next)
        while (port->claims.count > 0)
            drop_port_claim(port, port->claims.rows[0].id);
    for (struct route_reader *reader = routes->readers; reader != NULL; reader = reader->next)
        while (reader->claims.count > 0)
            drop_reader_claim(reader, reader->claims.rows[0].id);
}

static bool reads(const struct route_reader *reader, const struct route_port *port)
{
    if (route_bell(reader, uid_of(port->owner)) < 0) { /* opened by hand, without the library */
        log_warning("events",
                    "reader %u of client %u does not read port %u of another user: it has no "
                    "doorbell of sockets",
                    reader->id, reader->owner->client_id, port->id);
        return false;
    }
    return !reader->foreign_only || reader->owner != port->owner;
}

static void remove_link(struct route_link *link)
{
    struct route_link **at = &link->port->links;

    while (*at != link)
        at = &(*at)->next_of_port;
    *at = link->next_of_port;
    for (at = &link->reader->links; *at != link;)
        at = &(*at)->next_of_reader;
    *at = link->next_of_reader;
    give_slot(link->port->slots, link->reader_slot);
    give_slot(link->reader->owner->cursor_slots, link->cursor);
    own_memory_free(link);
}

/* ---- statistics of what goes ----------------------------------------------------------------- */

uint64_t route_lost(const struct route_link *link)
{
    const struct ec_cursor_slot *cursor = &link->reader->owner->cursors->cursor[link->cursor];

    /* Before, the slot may still say what a reader of another port has lost. Acquire: pairs with the
     * release in ec_port_reading_init(). */
    return atomic_load_explicit(&cursor->reader_id, memory_order_acquire) ==
                   ec_cursor_owner(link->reader->id, link->port->id)
               ? atomic_load_explicit(&cursor->lost_events, memory_order_relaxed)
               : 0;
}

static void keep_port_statistics(const struct routes *routes, const struct route_port *port)
{
    for (uint32_t i = 0; i < EC_PORT_TYPES_MAX; i++) {
        const struct ec_port_type *row = &port->port->types[i];
        struct event_type *type =
            event_types_find(routes->types, atomic_load_explicit(&row->type, memory_order_acquire));

        if (type == NULL)
            continue;
        type->published += atomic_load_explicit(&row->published, memory_order_relaxed);
        type->bytes += atomic_load_explicit(&row->bytes, memory_order_relaxed);
        type->refused += atomic_load_explicit(&row->refused, memory_order_relaxed);
    }
}

static void keep_reader_statistics(const struct routes *routes, const struct route_reader *reader)
{
    for (uint32_t i = 0; i < EC_READER_TYPES_MAX; i++) {
        const struct ec_reader_type *row = &reader->owner->cursors->types[reader->slot][i];
        struct event_type *type =
            event_types_find(routes->types, atomic_load_explicit(&row->type, memory_order_acquire));

        if (type == NULL)
            continue;
        type->delivered += atomic_load_explicit(&row->delivered, memory_order_relaxed);
        ec_histogram_sum_add(&type->latency, &row->latency);
    }
}

/* ---- ports ----------------------------------------------------------------------------------- */

struct route_port *routes_find_port(const struct routes *routes, uint32_t id)
{
    struct route_port *port = routes->ports;

    while (port != NULL && port->id != id)
        port = port->next;
    return port;
}

static void free_port(struct route_port *port)
{
    ec_port_view_finish(&port->view);
    claims_finish(&port->claims);
    if (port->fd >= 0)
        close(port->fd);
    own_memory_free(port);
}

/* Map and check a port that a client made. */
static int map_port(struct route_port *port, uint64_t ring_bytes, struct ec_error *why)
{
    int rc = ec_port_view_init(&port->view, port->fd, why);

    if (rc < 0)
        return rc;
    if (port->view.ring_bytes != ring_bytes)
        return ec_fail(why, EC_ERR_PARAM, "bytes is %llu, but the segment's ring has %u",
                       (unsigned long long)ring_bytes, port->view.ring_bytes);
    return EC_OK;
}

/* The id of an object: the one that it had, if it had one and nobody else has it. */
static int choose_id(struct routes *routes, enum heritage_id kind, uint32_t wanted, bool is_used,
                     uint32_t *last, uint32_t *id, struct ec_error *why)
{
    if (wanted == 0) {
        *id = ++*last;
        heritage_note_id(routes->heritage, kind, *id);
        return EC_OK;
    }
    if (wanted > *last || is_used)
        return ec_fail(why, EC_ERR_STATE, "resume: id %u %s", wanted,
                       is_used ? "is in use" : "was never given out");
    *id = wanted;
    return EC_OK;
}

/* A new port to the readers that there are, and they to it. */
static void link_port(struct routes *routes, struct route_port *made)
{
    for (struct route_reader *reader = routes->readers; reader != NULL; reader = reader->next) {
        struct route_link *link;
        struct ec_error reason = { 0 };

        if (!reads(reader, made))
            continue;
        if (link_pair(made, reader, &link, &reason) < 0) {
            log_warning("events", "reader %u does not read port %u: %s", reader->id, made->id,
                        reason.text);
            continue;
        }
        if (link->restored)
            continue;
        tell_reader_added(routes, link);
        tell_publisher_added(routes, link);
        link->accepted = true; /* the library awaits these before the first event */
    }
}

/* Whether the publisher knows a reader that it has: else it was told so over the connection that broke. */
static bool port_claims(const struct claims *claims, const struct route_link *link)
{
    const struct claim *claim = claims_find(claims, link->reader->id);

    return claim != NULL && claim->reader_slot == link->reader_slot &&
           claim->segment == link->reader->owner->cursor_segment;
}

/* A port that was adrift goes on. Its publisher hears of the readers that came and went meanwhile: first of
 * those that went, whose slots others may have now. */
static void take_up_port(struct routes *routes, struct route_port *port,
                         const struct claims *claims)
{
    port->adrift = false;
    for (uint32_t i = 0; i < claims->count; i++) {
        const struct route_link *link = port->links;

        while (link != NULL && link->reader->id != claims->rows[i].id)
            link = link->next_of_port;
        if (link == NULL || !port_claims(claims, link))
            notify_reader_removed(port, claims->rows[i].id);
    }
    for (struct route_link *link = port->links; link != NULL; link = link->next_of_port) {
        link->accepted = port_claims(claims, link);
        if (!link->accepted)
            tell_publisher_added(routes, link);
    }
}

int routes_open_port(struct routes *routes, struct route_owner *owner,
                     const struct route_port_desc *desc, struct route_port **port,
                     struct ec_error *why)
{
    struct route_port *made = desc->id != 0 ? routes_find_port(routes, desc->id) : NULL;
    int rc = EC_OK;

    if (made != NULL && made->owner == owner && made->adrift && desc->claims != NULL &&
        made->segment == claim_segment(desc->fd)) {
        take_up_port(routes, made, desc->claims);
        *port = made;
        return EC_OK;
    }

    if (owner->port_count == ROUTE_PORTS_MAX)
        return ec_fail(why, EC_ERR_LIMIT, "client %u has %d ports, no more are possible",
                       owner->client_id, ROUTE_PORTS_MAX);
    made = take_beside(owner, sizeof *made);
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a port");
    made->fd = fcntl(desc->fd, F_DUPFD_CLOEXEC, 3);
    if (made->fd < 0)
        rc = ec_fail(why, EC_ERR_SYSTEM, "duplicate descriptor %d: %s", desc->fd, strerror(errno));
    if (rc == EC_OK && desc->own == NULL)
        rc = map_port(made, desc->ring_bytes, why);
    else if (rc == EC_OK)
        ec_port_view_own(&made->view, desc->own);
    if (rc == EC_OK)
        rc = choose_id(routes, HERITAGE_PORT, desc->id, routes_find_port(routes, desc->id) != NULL,
                       &routes->last_port_id, &made->id, why);
    if (rc < 0) {
        free_port(made);
        return rc;
    }
    made->port = made->view.port;
    made->ring_bytes = made->view.ring_bytes;
    made->owner = owner;
    made->segment = claim_segment(made->fd);
    snprintf(made->name, sizeof made->name, "%s", desc->name);
    if (desc->claims != NULL) {
        take_claimed(made->slots, desc->claims, true); /* none is taken yet, and none twice */
        made->claims = *desc->claims;
        *desc->claims = (struct claims) { 0 };
    }
    made->next = routes->ports;
    routes->ports = made;
    owner->port_count++;
    if (owner->client != NULL)
        owner->client->ports++;
    *port = made;
    link_port(routes, made);
    return EC_OK;
}

void routes_close_port(struct routes *routes, struct route_port *port)
{
    struct route_port **at = &routes->ports;

    keep_port_statistics(routes, port);
    while (port->links != NULL) {
        routes->lost += route_lost(port->links); /* before it leaves its cursor */
        tell_reader_removed(routes, port->links);
        if (port->owner->client == NULL)
            tell_publisher_removed(routes, port->links);
        remove_link(port->links);
    }
    while (*at != port)
        at = &(*at)->next;
    *at = port->next;
    port->owner->port_count--;
    if (port->owner->client != NULL)
        port->owner->client->ports--;
    free_port(port);
}

/* ---- readers --------------------------------------------------------------------------------- */

struct route_reader *routes_find_reader(const struct routes *routes, uint32_t id)
{
    struct route_reader *reader = routes->readers;

    while (reader != NULL && reader->id != id)
        reader = reader->next;
    return reader;
}

/* Its id, its sleep slot, and the cursors that it says it has. */
static int take_reader_place(struct routes *routes, struct route_reader *made,
                             const struct route_reader_desc *desc, struct ec_error *why)
{
    struct route_owner *owner = made->owner;
    uint32_t slot = desc->slot;
    int rc =
        choose_id(routes, HERITAGE_READER, desc->id, routes_find_reader(routes, desc->id) != NULL,
                  &routes->last_reader_id, &made->id, why);

    if (rc < 0)
        return rc;
    if (desc->claims == NULL)
        slot = take_slot(&owner->sleep_slots, EC_READERS_MAX);
    else if (slot >= EC_READERS_MAX || (owner->sleep_slots >> slot & 1))
        return ec_fail(why, EC_ERR_STATE, "resume: sleep slot %u is in use", slot);
    if (slot == EC_READERS_MAX)
        return ec_fail(why, EC_ERR_LIMIT, "client %u has %d readers, no more are possible",
                       owner->client_id, EC_READERS_MAX);
    if (desc->claims != NULL && !take_claimed(owner->cursor_slots, desc->claims, false))
        return ec_fail(why, EC_ERR_STATE, "resume: a cursor of reader %u is in use", desc->id);
    owner->sleep_slots |= 1ull << slot;
    made->slot = slot;
    if (desc->claims != NULL) {
        made->claims = *desc->claims;
        *desc->claims = (struct claims) { 0 };
    }
    return EC_OK;
}

/* And free it. */
static void give_reader_place(struct route_reader *reader)
{
    give_claimed(reader->owner->cursor_slots, &reader->claims, false);
    claims_finish(&reader->claims);
    give_slot(&reader->owner->sleep_slots, reader->slot);
    own_memory_free(reader);
}

static bool reader_claims(const struct claims *claims, const struct route_link *link)
{
    const struct claim *claim = claims_find(claims, link->port->id);

    return claim != NULL && claim->cursor == link->cursor &&
           claim->reader_slot == link->reader_slot && claim->segment == link->port->segment;
}

/* A reader that was adrift goes on. Of the ports that went meanwhile it is told; those that came are in the
 * answer. Its doorbells are the ones that it had. */
static void take_up_reader(struct route_reader *reader, const struct route_reader_desc *desc)
{
    reader->adrift = false;
    for (uint32_t i = 0; i < desc->claims->count; i++) {
        const struct route_link *link = reader->links;

        while (link != NULL && link->port->id != desc->claims->rows[i].id)
            link = link->next_of_reader;
        if (link == NULL || !reader_claims(desc->claims, link))
            notify_port_removed(reader->owner, desc->claims->rows[i].id);
    }
    for (struct route_link *link = reader->links; link != NULL; link = link->next_of_reader) {
        link->restored = reader_claims(desc->claims, link);
        link->known = true;
    }
    if (desc->bell_fd >= 0)
        close(desc->bell_fd);
    if (desc->bell_across_fd >= 0)
        close(desc->bell_across_fd);
}

int routes_open_reader(struct routes *routes, struct route_owner *owner,
                       const struct route_reader_desc *desc, struct route_reader **reader,
                       struct ec_error *why)
{
    struct route_reader *made = desc->id != 0 ? routes_find_reader(routes, desc->id) : NULL;
    int rc;

    if (made != NULL && made->owner == owner && made->adrift && desc->claims != NULL &&
        made->slot == desc->slot) {
        take_up_reader(made, desc);
        *reader = made;
        return EC_OK;
    }
    made = take_beside(owner, sizeof *made);
    if (made == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a reader");
    made->owner = owner;
    rc = take_reader_place(routes, made, desc, why);
    if (rc < 0) {
        own_memory_free(made);
        return rc;
    }
    made->reliable = desc->reliable;
    made->foreign_only = desc->foreign_only;
    made->type_count = desc->type_count;
    if (desc->type_count > 0) /* types may be NULL: all */
        memcpy(made->types, desc->types, desc->type_count * sizeof *desc->types);
    made->bell_fd = desc->bell_fd;
    made->bell_across_fd = desc->bell_across_fd;
    made->bell_is_socket =
        ec_doorbell_is_socket(desc->bell_fd >= 0 ? desc->bell_fd : owner->doorbell_fd);
    for (struct route_port *port = routes->ports; port != NULL && rc == EC_OK; port = port->next) {
        struct route_link *link;

        if (reads(made, port))
            rc = link_pair(port, made, &link, why);
    }
    if (rc < 0) {
        while (made->links != NULL) {
            if (made->links->restored) /* its publisher has known the reader all the time */
                tell_publisher_removed(routes, made->links);
            remove_link(made->links);
        }
        give_reader_place(made);
        return rc;
    }
    made->next = routes->readers;
    routes->readers = made;
    owner->reader_count++;
    if (owner->client != NULL)
        owner->client->readers++;
    for (struct route_link *link = made->links; link != NULL; link = link->next_of_reader) {
        /* The answer has the port. A reader that was there before this run of the daemon wants all that it
         * has published. */
        link->known = true;
        link->existed = desc->id == 0 || link->port->owner->client != NULL;
        if (!link->restored)
            tell_publisher_added(routes, link);
    }
    *reader = made;
    return EC_OK;
}

void routes_tell_reader(struct routes *routes, const struct route_link *link)
{
    tell_reader_added(routes, link);
}

void routes_close_reader(struct routes *routes, struct route_reader *reader)
{
    struct route_reader **at = &routes->readers;

    keep_reader_statistics(routes, reader);
    while (reader->links != NULL) {
        routes->lost += route_lost(reader->links);
        tell_publisher_removed(routes, reader->links);
        remove_link(reader->links);
    }
    while (*at != reader)
        at = &(*at)->next;
    *at = reader->next;
    reader->owner->reader_count--;
    if (reader->owner->client != NULL)
        reader->owner->client->readers--;
    if (reader->bell_fd >= 0)
        close(reader->bell_fd);
    if (reader->bell_across_fd >= 0)
        close(reader->bell_across_fd);
    give_reader_place(reader);
}

/* ---- owners ---------------------------------------------------------------------------------- */

struct route_owner *routes_add_owner(struct routes *routes, struct client *client)
{
    struct route_owner *owner =
        own_memory_alloc(routes->own_memory, OWN_MEMORY_ROUTES, sizeof *owner);

    if (owner == NULL)
        return NULL;
    owner->client = client;
    owner->cursor_fd = owner->doorbell_fd = -1;
    if (client != NULL) {
        owner->client_id = client->id;
        snprintf(owner->name, sizeof owner->name, "%s", client->name);
        owner->cursors = client_cursors(client);
        owner->cursor_fd = client->cursor_fd;
        owner->doorbell_fd = client->doorbell_fd;
        owner->cursor_segment = claim_segment(client->cursor_fd);
    }
    owner->next = routes->owners;
    routes->owners = owner;
    return owner;
}

struct route_owner *routes_owner(struct routes *routes, const struct client *client)
{
    struct route_owner *owner = routes->owners;

    while (owner != NULL && owner->client != client)
        owner = owner->next;
    return owner;
}

void routes_set_adrift(struct routes *routes, const struct route_owner *owner)
{
    for (struct route_reader *reader = routes->readers; reader != NULL; reader = reader->next)
        if (reader->owner == owner)
            reader->adrift = true;
    for (struct route_port *port = routes->ports; port != NULL; port = port->next)
        if (port->owner == owner)
            port->adrift = true;
}

/* The daemon's own port looks at the reader's cursor through the owner's mapping, and rings its bell. */
static void move_own_links(struct routes *routes, const struct route_owner *owner, bool away)
{
    for (struct route_reader *reader = routes->readers; reader != NULL; reader = reader->next)
        for (struct route_link *link = reader->links; reader->owner == owner && link != NULL;
             link = link->next_of_reader) {
            if (link->port->owner->client != NULL)
                continue;
            if (away)
                routes->daemon.reader_removed(routes->daemon.context, link);
            else
                routes->daemon.reader_added(routes->daemon.context, link);
        }
}

bool routes_rebind_owner(struct routes *routes, struct route_owner *owner, struct client *client)
{
    if (client_cursors(client) == NULL || claim_segment(client->cursor_fd) != owner->cursor_segment)
        return false;
    move_own_links(routes, owner, true);
    owner->client = client;
    owner->cursors = client_cursors(client);
    owner->cursor_fd = client->cursor_fd;
    owner->doorbell_fd = client->doorbell_fd;
    client->ports = owner->port_count;
    client->readers = owner->reader_count;
    move_own_links(routes, owner, false);
    return true;
}

void routes_end_adrift(struct routes *routes, const struct route_owner *owner)
{
    for (struct route_reader *reader = routes->readers, *next; reader != NULL; reader = next) {
        next = reader->next;
        if (reader->owner == owner && reader->adrift)
            routes_close_reader(routes, reader);
    }
    for (struct route_port *port = routes->ports, *next; port != NULL; port = next) {
        next = port->next;
        if (port->owner == owner && port->adrift)
            routes_close_port(routes, port);
    }
}

void routes_remove_owner(struct routes *routes, struct route_owner *owner)
{
    struct route_owner **at = &routes->owners;

    for (struct route_reader *reader = routes->readers, *next; reader != NULL; reader = next) {
        next = reader->next;
        if (reader->owner == owner)
            routes_close_reader(routes, reader);
    }
    for (struct route_port *port = routes->ports, *next; port != NULL; port = next) {
        next = port->next;
        if (port->owner == owner)
            routes_close_port(routes, port);
    }
    while (*at != owner)
        at = &(*at)->next;
    *at = owner->next;
    own_memory_free(owner);
}
