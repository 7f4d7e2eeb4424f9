/* kept_paths.h - mounts and aliases that were made while the daemon ran, for its next run.
 *
 * A file beside the socket (PATH.paths), replaced as a whole with each change, before that is answered:
 *
 *     {"format":1,"boot_id":"…",
 *      "mounts":[{"path":"/srv/mod.zip","at":"/","append":false}, …],   in the order of asking
 *      "aliases":{"textures/":"hd/textures/", …}}
 *
 * The next run mounts them again on top of what it is configured to. One that cannot be mounted any more is
 * left out, which the log says; it does not keep the daemon from starting. The file counts for one boot,
 * and as long as the heritage does (daemon/heritage.h).
 *
 * Thread: loop. */
#ifndef RESOURCES_KEPT_PATHS_H
#define RESOURCES_KEPT_PATHS_H

#include <stdbool.h>
#include <stddef.h>

#include "foundation/error.h"
#include "foundation/json/json_writer.h"
#include "resources/aliases.h"
#include "resources/mounts.h"

struct resources;

struct kept_mount {
    char *path, *at; /* owned */
    bool append;
};

struct kept_mounts {
    struct kept_mount *rows; /* owned; zero is none */
    unsigned count;          /* at most MOUNTS_MAX */
};

/* Read and check a text: every path could be mounted or looked up, as far as can be seen without reading it.
 * What is in mounts and aliases before is replaced; nothing of a text that is refused is kept.
 *
 * Returns EC_OK, EC_ERR_NOT_FOUND (of another boot), EC_ERR_PARSE, EC_ERR_PARAM, EC_ERR_PATH, EC_ERR_LIMIT
 * or EC_ERR_MEMORY. */
int kept_paths_read(const char *text, size_t bytes, struct kept_mounts *mounts,
                    struct aliases *aliases, struct ec_error *why);
void kept_paths_write(const struct kept_mounts *mounts, const struct aliases *aliases,
                      struct ec_json_writer *writer);
void kept_mounts_finish(struct kept_mounts *mounts); /* accepts a zeroed one */

/* What the last run left, into resources->kept_mounts and ->aliases. */
void kept_paths_inherit(struct resources *resources);
/* One more was mounted. Without memory it ends with this run, which the log says. */
void kept_paths_mounted(struct resources *resources, const struct search_mount *mount, bool append);
/* Write them down. */
void kept_paths_save(struct resources *resources);
void kept_paths_end(struct resources *resources);

#endif
