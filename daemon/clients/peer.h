/* peer.h - who is at the other end of a socket, as the kernel says.
 *
 * Thread: loop. Cost: some system calls, once per connection. */
#ifndef ENGINE_CORED_CLIENTS_PEER_H
#define ENGINE_CORED_CLIENTS_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "foundation/error.h"
#include "proto/tables.h"

#define PEER_GROUPS_MAX 256 /* supplementary groups that are looked at */

/* As it was when it connected: who drops its rights later keeps these. */
struct peer {
    pid_t pid; /* 0: its process is not visible from here */
    uid_t uid;
    gid_t gid;
    int pidfd; /* -1: none, then it may not attach; the caller closes it */
    gid_t groups[PEER_GROUPS_MAX];
    size_t group_count;
};

/* Returns EC_OK or EC_ERR_SYSTEM. */
int peer_of(int socket_fd, struct peer *peer, struct ec_error *why);

/* What a peer may be: the daemon's own uid and root are operator, members of the group are game, and
 * others none. group is NULL when there is no such group. */
enum ec_role peer_role(const struct peer *peer, uid_t own_uid, const gid_t *group);

/* Effective uid and start time (clock ticks since boot) of a process: with its number they name it for
 * as long as the host runs. false: there is none that can be seen. */
bool peer_process(pid_t pid, uid_t *uid, uint64_t *start);

/* A descriptor of a process by its number. The number may have gone to another process since: it is
 * taken only if uid and start time are the same before and after. Returns -1 for none. */
int peer_pidfd_open(pid_t pid, uid_t uid);

/* Does the process read the same CLOCK_MONOTONIC as this one? false also when that cannot be seen. */
bool peer_shares_clock(pid_t pid);

#endif
