/* fd_store.h - descriptors that the service manager keeps while the daemon is replaced.
 *
 * What is put here comes back to the next run of the daemon by its name, whether that was stopped for
 * an upgrade or killed; it is gone when the service is stopped and started again. It is a cache: the
 * next run must be able to begin without any of it.
 *
 *     int fd = fd_store_take(store, "segment-clock"); // -1: there is none
 *     …
 *     fd_store_put(store, "segment-clock", fd);
 *
 * Used with core.descriptor_store, or when the manager says that it has one ($FDSTORE, systemd 254 and
 * later). Without, nothing is sent and nothing is taken.
 *
 * Thread: loop. Cost: one message to the manager. */
#ifndef ENGINE_CORED_FD_STORE_H
#define ENGINE_CORED_FD_STORE_H

#include <stdbool.h>

#include "foundation/error.h"

#define FD_STORE_NAME_BYTES 64

struct fd_store;
struct services;

int fd_store_init(struct services *services, struct ec_error *why); /* module phase */
int fd_store_post_init(struct services *services,
                       struct ec_error *why); /* then drops what nobody took */
void fd_store_shutdown(struct services *services);

/* A descriptor that was passed at the start, before the modules: owned from here on, also after an
 * error. The name is copied. Returns EC_OK or EC_ERR_MEMORY. */
int fd_store_keep(struct fd_store **passed, const char *name, int fd, struct ec_error *why);

/* For those who accept that there is no store (NULL): it is not in use then. */
bool fd_store_is_used(const struct fd_store *store);
/* The caller's from here on, who closes it; the manager still has it. -1: there is none. */
int fd_store_take(struct fd_store *store, const char *name);
/* Iterate over the names that begin with prefix and were not taken: *at begins at 0. NULL: no more. */
const char *fd_store_next(const struct fd_store *store, const char *prefix, unsigned *at);
/* Let the manager have a duplicate, in the place of any that it has under this name. */
void fd_store_put(struct fd_store *store, const char *name, int fd);
void fd_store_remove(struct fd_store *store, const char *name);
/* Wait until the manager has read all that was put so far: before anybody relies on it. */
void fd_store_barrier(struct fd_store *store);

#endif
