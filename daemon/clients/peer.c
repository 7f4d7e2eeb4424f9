/* peer.c - credentials, groups and the process of a peer. */
#include "clients/peer.h"

#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5 */
#endif

static void read_groups(int socket_fd, struct peer *peer);
static int read_pidfd(int socket_fd, const struct peer *peer);

int peer_of(int socket_fd, struct peer *peer, struct ec_error *why)
{
    struct ucred credentials;
    socklen_t bytes = sizeof credentials;

    *peer = (struct peer) { .pidfd = -1 };
    if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "SO_PEERCRED: %s", strerror(errno));
    peer->pid = credentials.pid;
    peer->uid = credentials.uid;
    peer->gid = credentials.gid;
    read_groups(socket_fd, peer);
    peer->pidfd = read_pidfd(socket_fd, peer);
    return EC_OK;
}

enum ec_role peer_role(const struct peer *peer, uid_t own_uid, const gid_t *group)
{
    if (peer->uid == own_uid || peer->uid == 0)
        return EC_ROLE_OPERATOR;
    if (group == NULL)
        return EC_ROLE_NONE;
    if (peer->gid == *group)
        return EC_ROLE_GAME;
    for (size_t i = 0; i < peer->group_count; i++)
        if (peer->groups[i] == *group)
            return EC_ROLE_GAME;
    return EC_ROLE_NONE;
}

int peer_pidfd_open(pid_t pid, uid_t uid)
{
    uid_t uid_before, uid_after;
    uint64_t start_before, start_after;
    int pidfd;

    if (pid <= 0 || !peer_process(pid, &uid_before, &start_before) || uid_before != uid)
        return -1;
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0)
        return -1;
    if (!peer_process(pid, &uid_after, &start_after) || uid_after != uid ||
        start_after != start_before) {
        close(pidfd);
        return -1;
    }
    return pidfd;
}

bool peer_shares_clock(pid_t pid)
{
    char path[64], own[64], other[64];
    ssize_t own_bytes, other_bytes;

    snprintf(path, sizeof path, "/proc/%d/ns/time", (int)pid);
    own_bytes = readlink("/proc/self/ns/time", own, sizeof own);
    other_bytes = readlink(path, other, sizeof other);
    return own_bytes > 0 && own_bytes == other_bytes && memcmp(own, other, (size_t)own_bytes) == 0;
}

/* The groups of the connection, not those that the user database lists now. Who has more than fit is
 * looked up in the database. */
static void read_groups(int socket_fd, struct peer *peer)
{
    socklen_t bytes = sizeof peer->groups;
    int count = PEER_GROUPS_MAX;
    struct passwd *user;

    if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERGROUPS, peer->groups, &bytes) == 0) {
        peer->group_count = bytes / sizeof peer->groups[0];
        return;
    }
    user = getpwuid(peer->uid);
    if (user != NULL && getgrouplist(user->pw_name, peer->gid, peer->groups, &count) >= 0)
        peer->group_count = (size_t)count;
}

static int read_pidfd(int socket_fd, const struct peer *peer)
{
    int pidfd;
    socklen_t bytes = sizeof pidfd;

    if (peer->pid == 0)
        return -1;
    if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &bytes) == 0)
        return pidfd; /* close-on-exec from the start */
    return errno == ENOPROTOOPT ? peer_pidfd_open(peer->pid, peer->uid) : -1;
}

bool peer_process(pid_t pid, uid_t *uid, uint64_t *start)
{
    char path[64], text[1024];
    const char *fields;
    size_t bytes;
    FILE *file;
    bool found;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    bytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[bytes] = '\0';
    fields = strrchr(text, ')'); /* behind the name, which may hold anything */
    if (fields == NULL || sscanf(fields + 1,
                                 " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
                                 "%*d %*d %*d %" SCNu64,
                                 start) != 1)
        return false;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    found = false;
    while (!found && fgets(text, sizeof text, file) != NULL)
        found = sscanf(text, "Uid: %*u %u", uid) == 1;
    fclose(file);
    return found;
}
