/* clients.c - the life of a client, from accept to the end of its process.
 *
 *   connect --> introduce --> attach --> hang-up --> process end --> dead
 *                               ^  |         (the last two in either order)
 *                               |  v
 *                              detach
 *
 * Who is not attached has nothing that could outlive its connection: its hang-up ends it. So only
 * attached processes are watched, and a program that sends a request and exits still gets its reply. */
#include "clients/clients.h"

#include <assert.h>
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utlist.h>
#include <uv.h>

#include "clients/clients_private.h"
#include "daemon/config.h"
#include "daemon/heritage.h"
#include "daemon/log.h"
#include "daemon/services.h"
#include "foundation/real_time.h"

/* Lives until libuv has let go of the handle, which may be after its client. */
struct process_watch {
    uv_poll_t poll;
    struct clients *clients;
    struct client_private *client;
};

static enum ec_role role_of(const struct clients *clients, const struct peer *peer);
static void on_config(void *context, enum ec_config_id id);
static int user_check(const struct clients *clients, const struct peer *peer, struct ec_error *why);
static void on_process_end(uv_poll_t *poll, int status, int events);
static void process_ended(struct clients *clients, struct client_private *own);
static void give_back(struct client *client);
static void tell_attached(struct clients *clients, struct client *client);
static void tell_left(struct clients *clients, struct client *client);

int clients_init(struct services *services, struct ec_error *why)
{
    struct clients *clients = calloc(1, sizeof *clients);
    const char *name = config_string(services->config, EC_CONFIG_control_group);
    struct group *group;
    int rc;

    if (clients == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "clients: %s", strerror(errno));
    clients->services = services;
    rc = peer_roles_parse(config_string(services->config, EC_CONFIG_control_roles), &clients->roles,
                          why);
    if (rc == EC_OK)
        rc = config_add_check(services->config, clients_check_config, clients, why);
    if (rc == EC_OK && config_on_change(services->config, on_config, clients) < 0)
        rc = ec_fail(why, EC_ERR_LIMIT, "clients: too many want to hear of changes");
    if (rc < 0) {
        free(clients);
        return rc;
    }
    group = getgrnam(name); /* now and not at each accept: a look-up may block */
    if (group != NULL) {
        clients->group = group->gr_gid;
        clients->has_group = true;
    } else {
        log_debug("clients", "group %s does not exist: only root and uid %u may connect", name,
                  (unsigned)geteuid());
    }
    services->clients = clients;
    clients->last_id = heritage_last_id(services->heritage, HERITAGE_CLIENT);
    return EC_OK;
}

/* What is in force is not looked up again: that may block, and a user who has gone since must not keep other
 * keys from being set. */
int clients_check_config(void *context, const struct config *fresh, struct ec_error *why)
{
    const struct clients *clients = context;
    const char *wanted = config_string(fresh, EC_CONFIG_control_roles);
    struct peer_roles roles;

    if (clients != NULL &&
        strcmp(wanted, config_string(clients->services->config, EC_CONFIG_control_roles)) == 0)
        return EC_OK;
    return peer_roles_parse(wanted, &roles, why);
}

int clients_post_init(struct services *services, struct ec_error *why)
{
    return returning_open(services->clients, why);
}

/* The modules that hooked themselves in are gone already: nobody is told. */
void clients_shutdown(struct services *services)
{
    struct clients *clients = services->clients;

    if (clients == NULL)
        return;
    returning_close(clients);
    while (clients->live != NULL) {
        struct client_private *own = clients->live;

        client_unlist(clients, own);
        client_free(own);
    }
    while (clients->dead != NULL) {
        struct client_private *own = clients->dead;

        client_unlist(clients, own);
        client_free(own);
    }
    free(clients);
    services->clients = NULL;
}

int clients_connect(struct clients *clients, int socket_fd, const struct client_output *output,
                    void *connection, struct client **client, struct ec_error *why)
{
    struct client_private *own;
    enum ec_role role;
    struct peer peer;
    int rc;

    *client = NULL;
    rc = peer_of(socket_fd, &peer, why);
    if (rc < 0)
        return rc;
    role = role_of(clients, &peer);
    if (role == EC_ROLE_NONE)
        rc = ec_fail(why, EC_ERR_PERMISSION,
                     "process %d of uid %u is neither the daemon's nor in group %s", (int)peer.pid,
                     (unsigned)peer.uid,
                     config_string(clients->services->config, EC_CONFIG_control_group));
    if (rc == EC_OK && role != EC_ROLE_OPERATOR)
        rc = user_check(clients, &peer, why);
    own = rc == EC_OK ? client_make(&peer, role, output, connection) : NULL;
    if (rc == EC_OK && own == NULL)
        rc = ec_fail(why, EC_ERR_MEMORY, "no memory for a client");
    if (rc < 0) {
        if (peer.pidfd >= 0)
            close(peer.pidfd);
        return rc;
    }
    own->listed = true;
    DL_PREPEND(clients->live, own); /* id 0 sorts first */
    *client = &own->client;
    return EC_OK;
}

int clients_introduce(struct clients *clients, struct client *client, const char *name,
                      enum ec_role role, struct ec_error *why)
{
    struct client_private *own = client->private;

    if (client->id != 0)
        return ec_fail(why, EC_ERR_STATE, "client %u has said hello already", client->id);
    if (role > client->role_max)
        return ec_fail(why, EC_ERR_PERMISSION, "role %s: uid %u may be %s at most",
                       ec_role_name(role), (unsigned)client->uid, ec_role_name(client->role_max));
    do
        client->id = ++clients->last_id;
    while (client->id == 0); /* after 2^32 hellos */
    heritage_note_id(clients->services->heritage, HERITAGE_CLIENT, client->id);
    strncpy(client->name, name, sizeof client->name - 1);
    client->role = role;
    DL_DELETE(clients->live, own);
    DL_APPEND(clients->live, own);
    return EC_OK;
}

void clients_hang_up(struct clients *clients, struct client *client, const char *reason)
{
    struct client_private *own = client->private;

    own->hung_up = true;
    if (client->state == CLIENT_CONNECTED)
        client_hang_up(clients, own, reason);
    closed_clients_add(&clients->closed, client, ec_real_ns());
    client->connection = NULL;
    if (client->state == CLIENT_GONE && own->watch == NULL && own->listed) {
        /* nothing of it can outlive it */
        client_unlist(clients, own);
        clients_tell_ended(clients, client);
    }
    if (!own->listed)
        client_free(own);
}

struct client *clients_next(struct clients *clients, struct client *client)
{
    struct client_private *next = client == NULL ? clients->live : client->private->next;

    return next == NULL ? NULL : &next->client;
}

struct client *clients_next_dead(struct clients *clients, struct client *client)
{
    struct client_private *next = client == NULL ? clients->dead : client->private->next;

    return next == NULL ? NULL : &next->client;
}

struct client *clients_find(struct clients *clients, uint32_t id)
{
    struct client_private *own;

    if (id == 0)
        return NULL;
    DL_FOREACH(clients->live, own)
    if (own->client.id == id)
        return &own->client;
    return NULL;
}

unsigned clients_count(struct clients *clients)
{
    struct client_private *own;
    unsigned count = 0;

    DL_FOREACH(clients->live, own)
    if (own->client.state == CLIENT_CONNECTED && own->client.id != 0)
        count++;
    return count;
}

int clients_add_hooks(struct clients *clients, const struct client_hooks *hooks, void *context)
{
    assert(clients->hook_count < CLIENTS_HOOKS_MAX);
    clients->hooks[clients->hook_count].hooks = *hooks;
    clients->hooks[clients->hook_count].context = context;
    clients->hook_count++;
    return EC_OK;
}

void clients_describe(struct clients *clients, struct client *client, struct ec_json_writer *writer)
{
    for (unsigned i = 0; i < clients->hook_count; i++)
        if (clients->hooks[i].hooks.describe != NULL)
            clients->hooks[i].hooks.describe(clients->hooks[i].context, client, writer);
}

int client_pidfd(const struct client *client)
{
    return client->private->pidfd;
}

int client_signal(struct client *client, int number)
{
    if (client->private->pidfd < 0)
        return EC_ERR_STATE;
    return syscall(SYS_pidfd_send_signal, client->private->pidfd, number, NULL, 0) == 0
               ? EC_OK
               : EC_ERR_SYSTEM;
}

int client_notify(struct client *client, const char *method, const struct ec_json_writer *params,
                  const int *fds, unsigned fd_count)
{
    static const char head[] = "{\"jsonrpc\":\"2.0\",\"method\":\"", middle[] = "\",\"params\":";
    const size_t method_bytes = strlen(method);
    size_t bytes = sizeof head - 1 + method_bytes + sizeof middle - 1 + params->bytes + 1;
    char *line, *at;
    int rc;

    assert(ec_json_writer_status(params) == EC_OK);
    if (client->output == NULL)
        return EC_ERR_DISCONNECTED;
    line = malloc(bytes);
    if (line == NULL)
        return EC_ERR_MEMORY;
    at = mempcpy(line, head, sizeof head - 1);
    at = mempcpy(at, method, method_bytes);
    at = mempcpy(at, middle, sizeof middle - 1);
    at = mempcpy(at, params->base, params->bytes);
    *at = '}';
    rc = client->output->notify(client->connection, line, bytes, fds, fd_count);
    free(line);
    return rc;
}

int clients_may_attach(struct clients *clients, const struct client *client, struct ec_error *why)
{
    const int64_t most = config_integer(clients->services->config, EC_CONFIG_control_connections);
    struct client_private *own;
    int64_t attached = 0;

    if (client->id == 0)
        return ec_fail(why, EC_ERR_STATE, "say core.hello first");
    if (client->attached)
        return ec_fail(why, EC_ERR_STATE, "client %u is attached already", client->id);
    if (client->private->pidfd < 0)
        return ec_fail(why, EC_ERR_PERMISSION,
                       "process %d of client %u is not visible from the daemon", (int)client->pid,
                       client->id);
    DL_FOREACH(clients->live, own)
    attached += own->client.attached;
    /* A process that attaches and hangs up again and again leaves its segments until it ends. */
    if (attached >= most)
        return ec_fail(why, EC_ERR_LIMIT,
                       "%" PRId64
                       " clients hold segments, the limit is control.connections = %" PRId64,
                       attached, most);
    return EC_OK;
}

int clients_attach(struct clients *clients, struct client *client, struct attachment *attachment,
                   int fds[ATTACH_PARTS], int64_t clock_offset_ns, struct ec_error *why)
{
    struct client_private *own = client->private;
    int rc = client_watch(clients, own, why);

    if (rc < 0)
        return rc;
    client->client_map = attachment->client_map;
    client->cursor_map = attachment->cursor_map;
    *attachment = (struct attachment) { 0 };
    client->client_fd = fds[ATTACH_CLIENT];
    client->cursor_fd = fds[ATTACH_CURSOR];
    client->doorbell_fd = fds[ATTACH_DOORBELL];
    for (unsigned i = 0; i < ATTACH_PARTS; i++)
        fds[i] = -1;
    client->clock_offset_ns = clock_offset_ns;
    client->attached = true;
    log_info("clients", "client %u (%s, pid %d) %s", client->id, client->name, (int)client->pid,
             own->resumes != NULL ? "is back" : "attached");
    returning_attached(clients, own);
    tell_attached(clients, client);
    return EC_OK;
}

int clients_may_detach(const struct client *client, struct ec_error *why)
{
    return client->attached ? EC_OK
                            : ec_fail(why, EC_ERR_STATE, "client %u is not attached", client->id);
}

int clients_detach(struct clients *clients, struct client *client, struct ec_error *why)
{
    int rc = clients_may_detach(client, why);

    if (rc < 0)
        return rc;
    tell_left(clients, client);
    client_watch_stop(client->private);
    client->attached = false;
    give_back(client);
    ec_segment_map_finish(&client->client_map);
    clients_tell_ended(clients, client);
    log_info("clients", "client %u (%s, pid %d) detached", client->id, client->name,
             (int)client->pid);
    returning_over(clients, client->private);
    return EC_OK;
}

struct client_private *client_make(const struct peer *peer, enum ec_role role,
                                   const struct client_output *output, void *connection)
{
    struct client_private *own = calloc(1, sizeof *own);

    if (own == NULL)
        return NULL;
    own->peer = *peer;
    own->pidfd = peer->pidfd;
    own->client = (struct client) {
        .state = CLIENT_CONNECTED,
        .pid = peer->pid,
        .uid = peer->uid,
        .gid = peer->gid,
        .role = role,
        .role_max = role,
        .since_ns = ec_real_ns(),
        .output = output,
        .connection = connection,
        .client_fd = -1,
        .cursor_fd = -1,
        .doorbell_fd = -1,
        .private = own,
    };
    return own;
}

void client_free(struct client_private *own)
{
    client_watch_stop(own);
    give_back(&own->client);
    ec_segment_map_finish(&own->client.client_map);
    if (own->pidfd >= 0)
        close(own->pidfd);
    free(own);
}

static enum ec_role role_of(const struct clients *clients, const struct peer *peer)
{
    const enum ec_role usual =
        peer_role(peer, geteuid(), clients->has_group ? &clients->group : NULL);
    const enum ec_role given = peer_roles_of(&clients->roles, peer);

    return given > usual ? given : usual;
}

/* Who may do less now does less from now on. More is for connections to come: programs have asked for
 * their role, or have been told it. */
static void on_config(void *context, enum ec_config_id id)
{
    struct clients *clients = context;
    struct client_private *own, *next;

    if (id != EC_CONFIG_control_roles)
        return;
    /* It was checked. A user or group that went in this moment leaves the rows before it. */
    peer_roles_parse(config_string(clients->services->config, id), &clients->roles, NULL);
    DL_FOREACH_SAFE(clients->live, own, next)
    {
        struct client *client = &own->client;
        const enum ec_role most = role_of(clients, &own->peer);

        if (client->output == NULL || most >= client->role_max)
            continue;
        log_warning("clients", "client %u (%s, pid %d, uid %u) may be %s at most now", client->id,
                    client->name, (int)client->pid, (unsigned)client->uid, ec_role_name(most));
        client->role_max = most;
        client->role = client->role < most ? client->role : most;
        if (most == EC_ROLE_NONE)
            client->output->close(client->connection, "it may do nothing any more");
    }
}

static int user_check(const struct clients *clients, const struct peer *peer, struct ec_error *why)
{
    const int64_t most =
        config_integer(clients->services->config, EC_CONFIG_control_connections_per_user);
    const struct client_private *own;
    int64_t count = 0;

    DL_FOREACH(clients->live, own)
    count += own->client.uid == peer->uid;
    if (count < most)
        return EC_OK;
    return ec_fail(why, EC_ERR_LIMIT,
                   "uid %u has %" PRId64
                   " connections, the limit is control.connections_per_user = %" PRId64,
                   (unsigned)peer->uid, count, most);
}

int client_watch(struct clients *clients, struct client_private *own, struct ec_error *why)
{
    struct process_watch *watch = calloc(1, sizeof *watch);
    int rc;

    if (watch == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for the watch of a process");
    rc = uv_poll_init(clients->services->loop, &watch->poll, own->pidfd);
    if (rc < 0) {
        free(watch); /* libuv knows nothing of it */
        return ec_fail(why, EC_ERR_SYSTEM, "watch process %d: %s", (int)own->client.pid,
                       uv_strerror(rc));
    }
    watch->clients = clients;
    watch->client = own;
    watch->poll.data = watch;
    own->watch = watch;
    rc = uv_poll_start(&watch->poll, UV_READABLE, on_process_end);
    if (rc < 0) {
        client_watch_stop(own);
        return ec_fail(why, EC_ERR_SYSTEM, "watch process %d: %s", (int)own->client.pid,
                       uv_strerror(rc));
    }
    return EC_OK;
}

static void on_watch_closed(uv_handle_t *handle)
{
    free(handle->data);
}

/* The descriptor may be closed at once; the handle may not be freed before the loop says so. */
void client_watch_stop(struct client_private *own)
{
    if (own->watch == NULL)
        return;
    uv_close((uv_handle_t *)&own->watch->poll, on_watch_closed);
    own->watch = NULL;
}

/* A pidfd is readable from the moment its process has ended. */
static void on_process_end(uv_poll_t *poll, int status, int events)
{
    struct process_watch *watch = poll->data;

    (void)status; /* an error of the watch counts as an end: better than references for ever */
    (void)events;
    process_ended(watch->clients, watch->client);
}

/* An attached process ended, before or after its connection did: a child may have kept the socket. */
static void process_ended(struct clients *clients, struct client_private *own)
{
    struct client *client = &own->client;
    const struct client_output *output = client->output;
    void *connection = client->connection;

    log_info("clients", "client %u (%s, pid %d) ended", client->id, client->name, (int)client->pid);
    client->ended_ns = ec_real_ns();
    clients_tell_died(clients, client);
    if (client->state == CLIENT_CONNECTED)
        client_hang_up(clients, own, "process ended");
    client_watch_stop(own);
    client_unlist(clients, own);
    client->state = CLIENT_DEAD;
    client->attached = false;
    if (!own->lapsed)
        clients_tell_ended(clients, client);
    give_back(client); /* who was told has looked at its segments for the last time */
    close(own->pidfd);
    own->pidfd = -1;
    returning_over(clients, own);

    own->listed = true;
    DL_APPEND(clients->dead, own);
    if (++clients->dead_count > CLIENTS_DEAD_MAX) {
        struct client_private *oldest = clients->dead;

        client_unlist(clients, oldest);
        if (oldest->hung_up)
            client_free(oldest);
    }
    if (output != NULL) /* last: it may call clients_hang_up at once */
        output->close(connection, "process ended");
}

void client_hang_up(struct clients *clients, struct client_private *own, const char *reason)
{
    struct client *client = &own->client;

    client->state = CLIENT_GONE;
    client->close_reason = reason;
    client->output = NULL;
    log_debug("clients", "client %u (%s, pid %d) hung up: %s", client->id, client->name,
              (int)client->pid, reason);
    tell_left(clients, client);
    returning_gone(clients, own);
}

void client_unlist(struct clients *clients, struct client_private *own)
{
    assert(own->listed);
    own->listed = false;
    if (own->client.state == CLIENT_DEAD) {
        DL_DELETE(clients->dead, own);
        clients->dead_count--;
    } else {
        DL_DELETE(clients->live, own);
    }
    own->prev = own->next = NULL;
}

/* All but the client segment, which a dead client keeps. */
static void give_back(struct client *client)
{
    int *const fds[] = { &client->client_fd, &client->cursor_fd, &client->doorbell_fd };

    ec_segment_map_finish(&client->cursor_map);
    for (unsigned i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

static void tell_attached(struct clients *clients, struct client *client)
{
    for (unsigned i = 0; i < clients->hook_count; i++)
        if (clients->hooks[i].hooks.attached != NULL)
            clients->hooks[i].hooks.attached(clients->hooks[i].context, client);
}

static void tell_left(struct clients *clients, struct client *client)
{
    for (unsigned i = 0; i < clients->hook_count; i++)
        if (clients->hooks[i].hooks.left != NULL)
            clients->hooks[i].hooks.left(clients->hooks[i].context, client);
}

void clients_tell_ended(struct clients *clients, struct client *client)
{
    for (unsigned i = 0; i < clients->hook_count; i++)
        if (clients->hooks[i].hooks.ended != NULL)
            clients->hooks[i].hooks.ended(clients->hooks[i].context, client);
}

void clients_tell_died(struct clients *clients, struct client *client)
{
    for (unsigned i = 0; i < clients->hook_count; i++)
        if (clients->hooks[i].hooks.died != NULL)
            clients->hooks[i].hooks.died(clients->hooks[i].context, client);
}
