/* decode_server.h - the processes that read archives and decode, seen from the daemon.
 *
 *   engine-cored --- fork ---> nursery ---> server (a search path) ---> child (a few resources)
 *                              (at the start,  \--> child
 *                               before any thread;
 *                               later by exec)
 *
 * The nursery does nothing but start servers, so that there is always a process without threads and
 * without a stranger's bytes to fork from. A server opens the archives of one search path and forks a
 * child for each resource, or a few; the child gives up its rights, decodes and ends. An archive that crashes
 * its reader takes a server along that nobody uses yet: a search path is changed by starting a server
 * with the new one, and then taking that.
 *
 *     decode_nursery_start(decode_child_run, &nursery, &why); // before any thread
 *     decode_server_start(nursery, mounts, count, &server, &why);
 *     decode_child_start(server, &load, NULL, cancel_fd, &child, &why);
 *     … load_job.c …
 *     decode_child_finish(&child);
 *     decode_server_release(server);
 *
 * Thread:    start of the nursery: the only one. Servers: worker (starting one takes as long as its
 *            archives), acquire and release: any. A child: one at a time.
 * Ownership: the caller owns nursery and child; servers are counted. */
#ifndef RESOURCES_DECODE_SERVER_H
#define RESOURCES_DECODE_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "foundation/error.h"
#include "resources/sandbox.h"

struct decode_entry;
struct decode_load;
struct decode_nursery;
struct decode_server;
struct search_mount;
struct search_path;

/* What a child does with its end of the socket: decode_child_run, or a test's own. */
typedef void decode_child_fn(struct search_path *search, const struct decode_load *load,
                             int socket_fd);

/* Begin main with this: a program that is to be a nursery does not come back. If the nursery ends, killed by
 * whatever, the next server needs another, which cannot be forked from a process with threads; so the program
 * is executed anew with one argument that nobody else passes. */
void decode_nursery_if_asked(int argc, char **argv, decode_child_fn *child);

/* Returns EC_OK, EC_ERR_MEMORY or EC_ERR_SYSTEM. */
int decode_nursery_start(decode_child_fn *child, struct decode_nursery **nursery,
                         struct ec_error *why);
/* All servers and their children end soon, and none is started any more; whoever waits for one is told.
 * Thread: any. Accepts NULL. */
void decode_nursery_stop(struct decode_nursery *nursery);
/* The same, and waits for it. Accepts NULL. */
void decode_nursery_end(struct decode_nursery *nursery);

/* A server with these mounts, searched in their order; they are copied. It gives up on one of them after
 * seconds.
 *
 * Returns EC_OK, what search_path_mount returns, naming the mount, EC_ERR_TIMEOUT, EC_ERR_PATH (an
 * archive made its reader crash), EC_ERR_MEMORY or EC_ERR_SYSTEM. */
int decode_server_start(struct decode_nursery *nursery, const struct search_mount *mounts,
                        unsigned count, unsigned seconds, struct decode_server **server,
                        struct ec_error *why);
/* Another one with the same mounts, for one that has ended, or whose archives have changed. */
int decode_server_again(struct decode_nursery *nursery, const struct decode_server *old,
                        unsigned seconds, struct decode_server **server, struct ec_error *why);
struct decode_server *decode_server_acquire(struct decode_server *server);
void decode_server_release(struct decode_server *server); /* accepts NULL */

/* What the kernel lets its children be kept in. */
enum sandbox_guard decode_server_guard(const struct decode_server *server);

struct decode_child {
    int socket_fd; /* what the child says */
    int status_fd; /* what its server says about it */
    int pid_fd;
};

/* Start one with load->count entries, of which more has those behind the first, and wait until it runs, or
 * cancel_fd is readable.
 *
 * Returns EC_OK, EC_AGAIN (cancelled), EC_ERR_STATE (the server has ended, or does nothing for half a
 * minute) or EC_ERR_SYSTEM; then nobody will hear of what may still be started. */
int decode_child_start(struct decode_server *server, const struct decode_load *load,
                       const struct decode_entry *more, int cancel_fd, struct decode_child *child,
                       struct ec_error *why);
/* Give it wait_ms to end by itself, then kill it; close what is open. Afterwards it writes nowhere.
 * Returns its wait status, or -1 when its server ended as well. */
int decode_child_finish(struct decode_child *child, int wait_ms);

#endif
