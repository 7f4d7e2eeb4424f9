/* config_watch.h - notice when a configuration file changes, also when another takes its place.
 *
 * The directories are watched by inotify, since a file that is replaced by a rename is a new file. What
 * counts is whether the path leads to another file, size or time than before, so files beside it do not
 * matter, and a link that is turned to another file does. A burst of changes is one.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_CONFIG_WATCH_H
#define ENGINE_CORED_CONFIG_WATCH_H

#include <uv.h>

#include "daemon/config.h"
#include "foundation/error.h"

struct config_watch;

/* Watch the files of the configuration. Directories that are not there are not watched.
 *
 * Returns EC_OK, EC_ERR_SYSTEM (no inotify here) or EC_ERR_MEMORY. */
int config_watch_create(uv_loop_t *loop, const struct config *config,
                        void (*on_change)(void *context), void *context,
                        struct config_watch **watch, struct ec_error *why);
/* Accepts NULL. The memory goes when the loop has closed the handles. */
void config_watch_destroy(struct config_watch *watch);

#endif
