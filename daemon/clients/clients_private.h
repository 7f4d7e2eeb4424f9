/* clients_private.h - what the files of this folder share.
 *
 * A client is in one of two lists, or in none while its connection still points to it:
 *
 *   live  connected, or hung up with a process that may hold references; in order of id
 *   dead  the process ended; the last CLIENTS_DEAD_MAX, oldest first */
#ifndef ENGINE_CORED_CLIENTS_PRIVATE_H
#define ENGINE_CORED_CLIENTS_PRIVATE_H

#include <sys/types.h>
#include <uv.h>

#include "clients/attachment.h"
#include "clients/clients.h"
#include "clients/closed.h"
#include "clients/peer.h"
#include "clients/peer_roles.h"

#define CLIENTS_HOOKS_MAX 16

struct process_watch; /* a pidfd on the loop */

struct client_private {
    struct client client;
    struct client_private *prev, *next;
    bool listed;
    bool hung_up;                /* its connection does not point here any more */
    struct peer peer;            /* as it connected; whose process it is stands in pidfd */
    int pidfd;                   /* -1: the process is not visible */
    struct process_watch *watch; /* NULL unless attached, or awaited */

    uint64_t process_start;         /* see peer_process(); 0: not known */
    struct client_private *resumes; /* what it takes over when it attaches; NULL: nothing */
    bool awaited;                   /* of the last run of the daemon: it may come back */
    bool resuming;                  /* back, but has not said that it handed back everything */
    bool lapsed;                    /* it did not come back in time */
    int64_t grace_since_ns;         /* of who is gone, awaited or resuming */
};

struct clients {
    struct services *services;
    struct client_private *live;
    struct client_private *dead;
    unsigned dead_count;
    struct closed_clients closed;
    uint32_t last_id;
    gid_t group; /* of control.group */
    bool has_group;
    struct peer_roles roles; /* of control.roles */
    struct {
        struct client_hooks hooks;
        void *context;
    } hooks[CLIENTS_HOOKS_MAX];
    unsigned hook_count;
    uv_timer_t *grace; /* runs while somebody's time to come back does */
    bool unsettled;    /* settled is to be told */
};

/* Take over what was checked; descriptors included, whose places are set to -1.
 *
 * Returns EC_OK, EC_ERR_STATE (attached already, or no hello yet), EC_ERR_PERMISSION (its process is
 * not visible), EC_ERR_LIMIT (too many hold segments) or EC_ERR_SYSTEM. */
int clients_may_attach(struct clients *clients, const struct client *client, struct ec_error *why);
int clients_attach(struct clients *clients, struct client *client, struct attachment *attachment,
                   int fds[ATTACH_PARTS], int64_t clock_offset_ns, struct ec_error *why);
/* ---- clients.c, for returning.c ---- */
struct client_private *client_make(const struct peer *peer, enum ec_role role,
                                   const struct client_output *output, void *connection);
void client_free(struct client_private *own);
/* Its connection ends for all others; it is closed by its own module. */
void client_hang_up(struct clients *clients, struct client_private *own, const char *reason);
void client_unlist(struct clients *clients, struct client_private *own);
int client_watch(struct clients *clients, struct client_private *own, struct ec_error *why);
void client_watch_stop(struct client_private *own);
void clients_tell_ended(struct clients *clients, struct client *client);
void clients_tell_died(struct clients *clients, struct client *client);

/* ---- returning.c ---- */

int returning_open(struct clients *clients, struct ec_error *why);
void returning_close(struct clients *clients);
/* Its connection ended while its process lives. */
void returning_gone(struct clients *clients, struct client_private *own);
/* It is attached: who it is goes into the heritage, and what it was before is over. */
void returning_attached(struct clients *clients, struct client_private *own);
/* It detached, or its process ended: nobody may come back as it. */
void returning_over(struct clients *clients, struct client_private *own);
/* Tell, if it has come to that. */
void returning_check_settled(struct clients *clients);

/* Returns EC_OK or EC_ERR_STATE (not attached). */
int clients_may_detach(const struct client *client, struct ec_error *why);
int clients_detach(struct clients *clients, struct client *client, struct ec_error *why);

#endif
