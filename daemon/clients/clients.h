/* clients.h - who is connected, and who of them shares memory.
 *
 * A client is its connection and its process. It is made when a connection is accepted, gets an id
 * at hello and its segments at attach. It ends in two steps:
 *
 *   hang-up      subscriptions end; others are told
 *   process end  (pidfd, or hang-up of a client that never attached) all else ends: ports, readers, references
 *
 * What a process that still lives has stays after a hang-up for client.grace_s: nothing is freed under a
 * running game because of a broken connection. In that time it may come back as the client that it was
 * (clients_resume), to this run of the daemon or to a later one. The segments of the last dead clients are
 * kept, so that their memory can still be reported.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_CLIENTS_H
#define ENGINE_CORED_CLIENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "foundation/error.h"
#include "foundation/json/json_writer.h"
#include "proto/client_segment.h"
#include "proto/cursor_segment.h"
#include "proto/tables.h"
#include "segment/segment.h"

struct config;
struct services;
struct clients;

#define CLIENT_NAME_BYTES 48
#define CLIENTS_DEAD_MAX 16

/* How the control plane is reached from a client; NULL after the hang-up. */
struct client_output {
    /* Queue one whole notification line without LF; fds ride on its first byte and stay the caller's.
     * Returns EC_OK, or EC_ERR_LIMIT when the output is full: it was dropped and counted. */
    int (*notify)(void *connection, const char *line, size_t bytes, const int *fds,
                  unsigned fd_count);
    /* Unsent bytes, for senders that would rather wait. */
    size_t (*pending)(void *connection);
    /* End the connection; reason is a literal. */
    void (*close)(void *connection, const char *reason);
};

enum client_state {
    CLIENT_CONNECTED, /* its connection stands */
    CLIENT_GONE,      /* hung up; its process still lives and may hold references */
    CLIENT_DEAD,      /* its process ended; kept for memory.report */
};

struct client {
    uint32_t id; /* 0 before hello */
    enum client_state state;
    char name[CLIENT_NAME_BYTES];
    pid_t pid; /* from the kernel */
    uid_t uid;
    gid_t gid;
    enum ec_role role;
    enum ec_role role_max; /* what the peer's credentials allow */
    int64_t since_ns;
    int64_t ended_ns;
    const char *close_reason;    /* of the connection; NULL while it stands */
    uint64_t lost_notifications; /* dropped because its output or a queue was full */
    uint64_t received_bytes;     /* counted by the control module */
    uint64_t sent_bytes;         /* set by the control module when it hangs up */
    uint32_t ports;              /* counted by the events module */
    uint32_t readers;            /* counted by the events module */

    const struct client_output *output; /* NULL after the hang-up */
    void *connection;

    bool attached;
    int64_t clock_offset_ns; /* daemon's clock minus the client's; 0 in one time namespace */
    struct ec_segment_map client_map; /* their segments, read-only, checked */
    struct ec_segment_map cursor_map;
    int client_fd, cursor_fd, doorbell_fd; /* -1 when not attached */

    struct client *successor; /* while ended is told: who goes on as this one; NULL: nobody does */

    struct client_private *private; /* clients.c's own: pidfd, list links */
};

int clients_init(struct services *services, struct ec_error *why); /* module phase */
/* Can control.roles be understood? EC_OK, or as peer_roles_parse. A config_check_fn; context: the clients, or
 * NULL when none of it is in force. */
int clients_check_config(void *context, const struct config *fresh, struct ec_error *why);
int clients_post_init(struct services *services,
                      struct ec_error *why); /* knows who may come back */
void clients_shutdown(struct services *services);

/* A connection was accepted. The role comes from uid and gid: the daemon's uid and root are operator,
 * members of group control.group are game, others are refused with EC_ERR_PERMISSION; more connections
 * of one uid than control.connections_per_user with EC_ERR_LIMIT. The socket stays the caller's. */
int clients_connect(struct clients *clients, int socket_fd, const struct client_output *output,
                    void *connection, struct client **client, struct ec_error *why);
/* It said hello: give it an id, a name and a role. Returns EC_OK, EC_ERR_STATE (it has an id already)
 * or EC_ERR_PERMISSION (the role is more than role_max). */
int clients_introduce(struct clients *clients, struct client *client, const char *name,
                      enum ec_role role, struct ec_error *why);
/* It says hello as the client that it was before its connection, or the daemon, broke: it gets that id
 * and name again if it is the same process. What it held is taken over when it attaches.
 *
 * of_this_run: it got that id from this run of the daemon; then its old connection may still stand for us,
 * and ends now.
 *
 * Returns EC_OK, EC_ERR_NOT_FOUND (that id is not waited for, another connection comes back as it, or it
 * is another process; it may introduce itself), EC_ERR_STATE (it has an id already) or EC_ERR_PERMISSION
 * (the role is more than role_max). */
int clients_resume(struct clients *clients, struct client *client, uint32_t id, bool of_this_run,
                   enum ec_role role, struct ec_error *why);
/* It has handed back all that it had. */
void clients_resumed(struct clients *clients, struct client *client);
/* How many clients of the last run may still come back: what they hold is not known, so nothing may be
 * freed. It ends when they are back or dead, and after client.grace_s. */
unsigned clients_awaited(const struct clients *clients);
/* Whether one that hung up may come back as this client: then what it ordered stands. */
bool clients_awaits(struct clients *clients, uint32_t id);
/* The connection ended. The client may be freed before this returns. */
void clients_hang_up(struct clients *clients, struct client *client, const char *reason);

/* Iterate: NULL begins and ends. Connected and gone clients, in order of id; dead ones apart. */
struct client *clients_next(struct clients *clients, struct client *client);
struct client *clients_next_dead(struct clients *clients, struct client *client);
struct client *clients_find(struct clients *clients, uint32_t id); /* connected or gone; NULL */
unsigned clients_count(struct clients *clients);                   /* that said hello */

/* Others are told what happens to a client, in the order of registration. All of its fields are still
 * valid in each of them. Each may be NULL.
 *
 *   attached  its segments are mapped
 *   left      it hung up or detached. Comes for every connection; attached says whether there was more
 *             than that. Who detaches and hangs up later leaves twice, the second time not attached.
 *             What it was to others ends, unless client_may_return()
 *   ended     its references count no more: its process ended, it detached, or it hung up and was not
 *             attached, or did not come back in time. It is not attached now, and out of
 *             clients_next() unless it detached or its process lives. With a successor it only changes its
 *             connection: that one is the same process, its segments are mapped, and it attaches next
 *   resumed   it has handed back all that it had, or its time for that is over: what it did not ask for
 *             ends
 *   died      its process ended, and it had attached. Comes before left and ended; ended_ns is set
 *   settled   all that came back have handed back what they had, and nobody is awaited any more */
struct client_hooks {
    void (*attached)(void *context, struct client *client);
    void (*left)(void *context, struct client *client);
    void (*ended)(void *context, struct client *client);
    void (*died)(void *context, struct client *client);
    void (*resumed)(void *context, struct client *client);
    void (*settled)(void *context);
    /* Write further members of client.get, such as "ports":[…], into the open object. */
    void (*describe)(void *context, struct client *client, struct ec_json_writer *writer);
};
int clients_add_hooks(struct clients *clients, const struct client_hooks *hooks, void *context);
void clients_describe(struct clients *clients, struct client *client,
                      struct ec_json_writer *writer); /* calls describe of all */

/* Typed views of the mapped segments; NULL unless attached (dead ones keep the client segment). */
static inline const struct ec_client_segment *client_segment(const struct client *client)
{
    return client->client_map.base;
}

static inline const struct ec_cursor_segment *client_cursors(const struct client *client)
{
    return client->cursor_map.base;
}

/* It hung up, but its process lives and was attached: it has client.grace_s to come back. */
static inline bool client_may_return(const struct client *client)
{
    return client->state == CLIENT_GONE && client->attached && client->ended_ns == 0;
}

/* The descriptor of its process; -1: not watched. The client's. */
int client_pidfd(const struct client *client);

/* Send a signal to the process of an attached client: to this one, never to another that has its pid
 * now. Returns EC_OK, EC_ERR_STATE (its process is not watched) or EC_ERR_SYSTEM. */
int client_signal(struct client *client, int number);

/* Send a notification {"jsonrpc":"2.0","method":method,"params":params}: params is one JSON value.
 *
 * Returns EC_OK, EC_ERR_DISCONNECTED (it hung up), EC_ERR_LIMIT (its output is full; the control module
 * has counted it) or EC_ERR_MEMORY. */
int client_notify(struct client *client, const char *method, const struct ec_json_writer *params,
                  const int *fds, unsigned fd_count);

#endif
