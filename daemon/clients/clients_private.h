/* clients_private.h - what the files of this folder share.
 *
 * A client is in one of two lists, or in none while its connection still points to it:
 *
 *   live  connected, or hung up with a process that may hold references; in order of id
 *   dead  the process ended; the last CLIENTS_DEAD_MAX, oldest first */
#ifndef ENGINE_CORED_CLIENTS_PRIVATE_H
#define ENGINE_CORED_CLIENTS_PRIVATE_H

#include <sys/types.h>

#include "clients/attachment.h"
#include "clients/clients.h"
#include "clients/closed.h"

#define CLIENTS_HOOKS_MAX 8

struct process_watch; /* a pidfd on the loop */

struct client_private {
    struct client client;
    struct client_private *prev, *next;
    bool listed;
    bool hung_up;                /* its connection does not point here any more */
    int pidfd;                   /* -1: the process is not visible */
    struct process_watch *watch; /* NULL unless attached */
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
    struct {
        struct client_hooks hooks;
        void *context;
    } hooks[CLIENTS_HOOKS_MAX];
    unsigned hook_count;
};

/* Take over what was checked; descriptors included, whose places are set to -1.
 *
 * Returns EC_OK, EC_ERR_STATE (attached already, or no hello yet), EC_ERR_PERMISSION (its process is
 * not visible), EC_ERR_LIMIT (too many hold segments) or EC_ERR_SYSTEM. */
int clients_may_attach(struct clients *clients, const struct client *client, struct ec_error *why);
int clients_attach(struct clients *clients, struct client *client, struct attachment *attachment,
                   int fds[ATTACH_PARTS], int64_t clock_offset_ns, struct ec_error *why);
/* Returns EC_OK or EC_ERR_STATE (not attached). */
int clients_may_detach(const struct client *client, struct ec_error *why);
int clients_detach(struct clients *clients, struct client *client, struct ec_error *why);

#endif
