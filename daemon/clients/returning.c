/* returning.c - clients whose connection broke, or whose daemon ended, and who may come back.
 *
 *   attached --hang-up--> gone --hello {resume}--> resuming --client.resumed--> attached
 *      |                   |                          (at attach it takes over what it was)
 *      | lease             | client.grace_s
 *      v                   v
 *   next run: awaited -> lapsed: its references end; only its death is still looked for, until its process
 *                                attaches as a new one
 *
 * A lease in the heritage says who is attached. The next run makes a client of each that still lives:
 * one that hung up, with a pidfd, so that its death is noticed like any other's. */
#include "clients/clients_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon/config.h"
#include "daemon/fd_store.h"
#include "daemon/heritage.h"
#include "daemon/log.h"
#include "daemon/services.h"
#include "foundation/real_time.h"

static void on_grace(uv_timer_t *timer);

static bool is_waited_for(const struct client_private *own)
{
    return own->awaited || own->resuming ||
           (own->client.state == CLIENT_GONE && own->watch != NULL && !own->lapsed);
}

/* Let the timer ring when the first of them has had its time. */
static void arm_grace(struct clients *clients)
{
    const int64_t grace_ns =
        config_integer(clients->services->config, EC_CONFIG_client_grace_s) * EC_NS_PER_S;
    const struct client_private *own;
    int64_t first_ns = INT64_MAX, left_ns;

    DL_FOREACH(clients->live, own)
    if (is_waited_for(own) && own->grace_since_ns + grace_ns < first_ns)
        first_ns = own->grace_since_ns + grace_ns;
    if (clients->grace == NULL)
        return;
    if (first_ns == INT64_MAX) {
        uv_timer_stop(clients->grace);
        return;
    }
    left_ns = first_ns - ec_real_ns();
    uv_update_time(clients->services->loop);
    uv_timer_start(clients->grace, on_grace,
                   left_ns > 0 ? (uint64_t)(left_ns + 999999) / 1000000 : 0, 0);
}

unsigned clients_awaited(const struct clients *clients)
{
    const struct client_private *own;
    unsigned count = 0;

    DL_FOREACH(clients->live, own)
    count += own->awaited;
    return count;
}

bool clients_awaits(struct clients *clients, uint32_t id)
{
    const struct client *client = clients_find(clients, id);

    return client != NULL && client->state == CLIENT_GONE;
}

void returning_check_settled(struct clients *clients)
{
    const struct client_private *own;

    if (!clients->unsettled || clients_awaited(clients) > 0)
        return;
    DL_FOREACH(clients->live, own)
    if (own->resuming)
        return;
    clients->unsettled = false;
    for (unsigned i = 0; i < clients->hook_count; i++)
        if (clients->hooks[i].hooks.settled != NULL)
            clients->hooks[i].hooks.settled(clients->hooks[i].context);
}

static void tell_resumed(struct clients *clients, struct client *client)
{
    for (unsigned i = 0; i < clients->hook_count; i++)
        if (clients->hooks[i].hooks.resumed != NULL)
            clients->hooks[i].hooks.resumed(clients->hooks[i].context, client);
}

/* It had its time. Its process lives on without what it had. */
static void lapse(struct clients *clients, struct client_private *own)
{
    struct client *client = &own->client;

    log_warning("clients",
                "client %u (%s, pid %d) did not come back within client.grace_s = %" PRId64
                " s: its references end",
                client->id, client->name, (int)client->pid,
                config_integer(clients->services->config, EC_CONFIG_client_grace_s));
    own->lapsed = true;
    client->attached = false;
    clients_tell_ended(clients, client);
    returning_over(clients, own);
}

static void on_grace(uv_timer_t *timer)
{
    struct clients *clients = timer->data;
    const int64_t grace_ns =
        config_integer(clients->services->config, EC_CONFIG_client_grace_s) * EC_NS_PER_S;
    const int64_t now_ns = ec_real_ns();
    struct client_private *own, *next;

    DL_FOREACH_SAFE(clients->live, own, next)
    {
        if (!is_waited_for(own) || now_ns - own->grace_since_ns < grace_ns)
            continue;
        if (own->client.state == CLIENT_GONE)
            lapse(clients, own);
        else if (own->resuming)
            tell_resumed(clients, &own->client);
        own->awaited = own->resuming = false;
    }
    returning_check_settled(clients);
    arm_grace(clients);
}

/* The client segment, left with the service manager: with it the next run knows at once what the client
 * holds, and what it left if it dies meanwhile. */
static const char *store_name(uint32_t client_id, char name[FD_STORE_NAME_BYTES])
{
    snprintf(name, FD_STORE_NAME_BYTES, "client-%u", client_id);
    return name;
}

static void take_segment(struct clients *clients, struct client *client)
{
    char name[FD_STORE_NAME_BYTES];
    int fd = fd_store_take(clients->services->fd_store, store_name(client->id, name));
    struct ec_error why = { 0 };

    if (fd < 0)
        return;
    if (attachment_map_client(&client->client_map, fd, &why) < 0) {
        log_warning("clients", "%s of the last run: %s", name, why.text);
        close(fd);
        fd_store_remove(clients->services->fd_store, name);
        return;
    }
    client->client_fd = fd;
}

/* Its process ended while the daemon was away. */
static void mourn(struct clients *clients, const struct lease *lease)
{
    struct peer peer = { .pid = lease->pid, .uid = lease->uid, .pidfd = -1 };
    struct client_private *own = client_make(&peer, EC_ROLE_GAME, NULL, NULL);

    if (own == NULL)
        return;
    own->client.id = lease->client_id;
    own->client.state = CLIENT_DEAD;
    own->client.ended_ns = ec_real_ns();
    own->client.since_ns = 0; /* not known */
    own->client.close_reason = "the daemon ended";
    memcpy(own->client.name, lease->name, sizeof own->client.name);
    take_segment(clients, &own->client);
    clients_tell_died(clients, &own->client);
    client_free(own);
    fd_store_remove(clients->services->fd_store,
                    store_name(lease->client_id, (char[FD_STORE_NAME_BYTES]) { 0 }));
}

/* ---- the leases of the run before ------------------------------------------------------------ */

static int await(struct clients *clients, const struct lease *lease, struct ec_error *why)
{
    struct peer peer = { .pid = lease->pid, .uid = lease->uid };
    struct client_private *own;
    uint64_t start = 0;
    uid_t uid;
    int rc;

    peer.pidfd = peer_pidfd_open(lease->pid, lease->uid);
    /* After it was opened: the number may have gone to another process before. */
    if (peer.pidfd < 0 || !peer_process(lease->pid, &uid, &start) ||
        start != lease->process_start) {
        if (peer.pidfd >= 0)
            close(peer.pidfd);
        return EC_ERR_NOT_FOUND;
    }
    own = client_make(&peer, EC_ROLE_GAME, NULL, NULL);
    if (own == NULL) {
        close(peer.pidfd);
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a client");
    }
    own->client.id = lease->client_id;
    own->client.state = CLIENT_GONE;
    memcpy(own->client.name, lease->name, sizeof own->client.name);
    own->client.close_reason = "the daemon ended";
    own->process_start = start;
    own->awaited = own->hung_up = own->listed = true;
    own->grace_since_ns = ec_real_ns();
    take_segment(clients, &own->client);
    own->client.attached = own->client.client_map.base != NULL; /* then its references count */
    DL_APPEND(clients->live, own);
    rc = client_watch(clients, own, why);
    if (rc < 0) {
        client_unlist(clients, own);
        client_free(own);
    }
    return rc;
}

static void await_all(struct clients *clients)
{
    struct heritage *heritage = clients->services->heritage;
    const struct lease *lease;
    unsigned at = 0;

    while ((lease = heritage_lease(heritage, at)) != NULL) {
        struct ec_error why = { 0 };
        const struct lease copy = *lease;

        if (await(clients, &copy, &why) == EC_OK) {
            at++;
            continue;
        }
        log_info("clients", "client %u (%s, pid %d) of the last run does not come back: %s",
                 copy.client_id, copy.name, (int)copy.pid,
                 why.text[0] != '\0' ? why.text : "its process has ended");
        mourn(clients, &copy);
        heritage_lease_remove(heritage, copy.client_id); /* another takes its place */
    }
    if (at > 0) {
        clients->unsettled = true;
        log_info("clients", "%u clients of the last run may come back", at);
    }
}

int returning_open(struct clients *clients, struct ec_error *why)
{
    clients->grace = calloc(1, sizeof *clients->grace);
    if (clients->grace == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for a timer");
    uv_timer_init(clients->services->loop, clients->grace);
    clients->grace->data = clients;
    uv_unref((uv_handle_t *)clients->grace);
    await_all(clients);
    arm_grace(clients);
    return EC_OK;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

void returning_close(struct clients *clients)
{
    if (clients->grace != NULL)
        uv_close((uv_handle_t *)clients->grace, on_closed);
    clients->grace = NULL;
}

/* ---- coming back ----------------------------------------------------------------------------- */

/* Whose process is attached, or was: the connection may have broken for it and not for us yet. */
static struct client_private *find_before(struct clients *clients, uint32_t id)
{
    struct client_private *own;

    DL_FOREACH(clients->live, own)
    if (own->client.id == id && own->watch != NULL)
        return own;
    return NULL;
}

static bool is_same_process(const struct client_private *before, const struct client *client)
{
    uint64_t start;
    uid_t uid;

    return before->client.pid == client->pid && before->client.uid == client->uid &&
           peer_process(client->pid, &uid, &start) && start == before->process_start;
}

/* The process has another connection now, so nobody is at the other end of this one. */
static void end_connection(struct clients *clients, struct client_private *before)
{
    const struct client_output *output = before->client.output;
    void *connection = before->client.connection;

    client_hang_up(clients, before, "it came back over another connection");
    if (output != NULL)
        output->close(connection, "it came back over another connection");
}

/* A connection has said hello as this one, and has not attached yet. */
static bool is_taken(struct clients *clients, const struct client_private *before)
{
    const struct client_private *own;

    DL_FOREACH(clients->live, own)
    if (own->resumes == before)
        return true;
    return false;
}

int clients_resume(struct clients *clients, struct client *client, uint32_t id, bool of_this_run,
                   enum ec_role role, struct ec_error *why)
{
    struct client_private *own = client->private, *before = find_before(clients, id);

    if (client->id != 0)
        return ec_fail(why, EC_ERR_STATE, "client %u has said hello already", client->id);
    if (role > client->role_max)
        return ec_fail(why, EC_ERR_PERMISSION, "role %s: uid %u may be %s at most",
                       ec_role_name(role), (unsigned)client->uid, ec_role_name(client->role_max));
    if (before == NULL || before->lapsed || is_taken(clients, before) ||
        (before->client.state == CLIENT_CONNECTED && !of_this_run))
        return ec_fail(why, EC_ERR_NOT_FOUND, "client %u is not waited for", id);
    if (!is_same_process(before, client))
        return ec_fail(why, EC_ERR_NOT_FOUND, "client %u is another process", id);
    if (before->client.state == CLIENT_CONNECTED)
        end_connection(clients, before);
    own->resumes = before;
    client->id = id;
    client->role = role;
    memcpy(client->name, before->client.name, sizeof client->name);
    DL_DELETE(clients->live, own);
    DL_APPEND(clients->live, own);
    return EC_OK;
}

void clients_resumed(struct clients *clients, struct client *client)
{
    const bool resuming = client->private->resuming;

    client->private->resuming = false;
    if (resuming)
        tell_resumed(clients, client);
    returning_check_settled(clients);
}

void returning_gone(struct clients *clients, struct client_private *own)
{
    own->resuming = false;
    own->resumes = NULL;
    own->grace_since_ns = ec_real_ns();
    arm_grace(clients);
    returning_check_settled(clients);
}

/* It came back too late for what it was, and is here as a new one: its death is that one's. */
static void forget_lapsed(struct clients *clients, const struct client_private *own)
{
    struct client_private *other, *next;

    DL_FOREACH_SAFE(clients->live, other, next)
    {
        if (!other->lapsed || other->client.pid != own->client.pid ||
            other->process_start != own->process_start)
            continue;
        client_unlist(clients, other);
        client_watch_stop(other);
        if (other->hung_up)
            client_free(other);
    }
}

void returning_attached(struct clients *clients, struct client_private *own)
{
    struct client_private *before = own->resumes;
    struct lease lease = {
        .client_id = own->client.id,
        .pid = own->client.pid,
        .uid = own->client.uid,
    };
    uid_t uid;

    if (before != NULL) {
        /* Its segments are mapped once more by now, so its references count without a gap. */
        own->resumes = NULL;
        own->resuming = clients->unsettled = true;
        own->grace_since_ns = ec_real_ns();
        client_unlist(clients, before);
        client_watch_stop(before); /* its process is watched as this one's from now on */
        before->client.attached = false;
        before->client.successor = &own->client;
        clients_tell_ended(clients, &before->client);
        before->client.successor = NULL;
        if (before->hung_up)
            client_free(before);
        arm_grace(clients);
    }
    if (!peer_process(own->client.pid, &uid, &own->process_start))
        return; /* it cannot be known again */
    forget_lapsed(clients, own);
    fd_store_put(clients->services->fd_store,
                 store_name(own->client.id, (char[FD_STORE_NAME_BYTES]) { 0 }),
                 own->client.client_fd);
    lease.process_start = own->process_start;
    memcpy(lease.name, own->client.name, sizeof lease.name);
    heritage_lease_add(clients->services->heritage, &lease);
}

void returning_over(struct clients *clients, struct client_private *own)
{
    struct client_private *other;

    DL_FOREACH(clients->live, other)
    if (other->resumes == own)
        other->resumes = NULL; /* its process ended meanwhile, or its time was up */
    own->awaited = own->resuming = false;
    fd_store_remove(clients->services->fd_store,
                    store_name(own->client.id, (char[FD_STORE_NAME_BYTES]) { 0 }));
    heritage_lease_remove(clients->services->heritage, own->client.id);
    returning_check_settled(clients);
}
