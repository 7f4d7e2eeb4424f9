/* mounts.h - the search path as the daemon knows it, and how it is changed without stopping the loop.
 *
 * Opening an archive may take long, and it is a stranger's: each change starts a decoding process with
 * the whole new search path, and when that has opened everything it takes the place of the old one.
 * When it fails, nothing has changed. Changes are made one after the other, in the order of asking.
 *
 *     rc = mounts_add(mounts, &mount, true, on_mounted, request, why); // EC_AGAIN: on_mounted comes
 *
 * Thread: loop. A thread of its own waits for the process. */
#ifndef RESOURCES_MOUNTS_H
#define RESOURCES_MOUNTS_H

#include <stdbool.h>

#include "foundation/error.h"
#include "resources/search_path.h"

#define MOUNTS_MAX 256

struct decode_nursery;
struct decode_server;
struct kept_mounts;
struct mounts;
struct uv_loop_s;

struct mounts_desc {
    struct uv_loop_s *loop;
    struct decode_nursery *nursery;
    unsigned seconds; /* for one archive */
    /* A new search path is in force. */
    void (*changed)(void *context, struct decode_server *server);
    void *context;
};

/* Nothing is mounted, and no server runs before mounts_begin. Returns EC_OK, EC_ERR_MEMORY or EC_ERR_SYSTEM. */
int mounts_create(const struct mounts_desc *desc, struct mounts **mounts, struct ec_error *why);
/* Waits for the change that goes on, which decode_nursery_stop ends; that and the others have failed
 * (EC_ERR_STATE). Its memory goes with the next turn of the loop. Accepts NULL. */
void mounts_destroy(struct mounts *mounts);

/* How a change ended. why is set when rc is an error. */
typedef void mounts_done_fn(void *context, int rc, const struct ec_error *why);

/* EC_AGAIN: nothing speaks against it. EC_OK: it is there. Else EC_ERR_STATE (mounted elsewhere) or what
 * search_path_check_mount returns. */
int mounts_may_add(const struct mounts *mounts, const struct search_mount *mount,
                   struct ec_error *why);

/* Add a directory or archive, searched last or (append false) first.
 *
 * Returns EC_AGAIN (done is called), EC_OK (it is there; done is not called), what mounts_may_add
 *         returns, or EC_ERR_MEMORY. done may get these too, EC_ERR_LIMIT (MOUNTS_MAX are there) or
 *         what decode_server_start returns. */
int mounts_add(struct mounts *mounts, const struct search_mount *mount, bool append,
               mounts_done_fn *done, void *context, struct ec_error *why);
/* Open everything again: an archive has changed. Returns EC_AGAIN or EC_ERR_MEMORY. */
int mounts_refresh(struct mounts *mounts, mounts_done_fn *done, void *context,
                   struct ec_error *why);
/* Whoever waits with this context is not told any more; the change is made all the same. */
void mounts_forget(struct mounts *mounts, const void *context);
/* While the daemon starts: the search path to begin with, a list of host paths separated by colons or "", and
 * its server, which is waited for; then those that were kept, each before or behind all of these (NULL: none).
 *
 * Returns EC_OK, EC_ERR_LIMIT, EC_ERR_MEMORY or what decode_server_start returns. */
int mounts_begin(struct mounts *mounts, const char *list, const struct kept_mounts *kept,
                 struct ec_error *why);

/* The search path in order; NULL after the last. */
const struct search_mount *mounts_at(const struct mounts *mounts, unsigned index);
struct decode_server *mounts_server(const struct mounts *mounts); /* the one in force */

#endif
