/* file_watch.h - which files of mounted directories, and which archives, were saved.
 *
 *     watch = file_watch_create(&desc, why);
 *     file_watch_mount(watch, &mount);     // for each mount
 *
 * A save is many events: an editor writes another file, flushes, renames it over the old one, sets the
 * times. What happens to one path within QUIET_MS of its last event is one change; a path that never
 * comes to rest is told every LIMIT_MS. Only complete files count: closed after writing, moved in, moved
 * away or removed. Directories that appear later are watched as well.
 *
 * Thread: loop. Cost: one inotify watch for each directory of the tree. */
#ifndef RESOURCES_FILE_WATCH_H
#define RESOURCES_FILE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "foundation/error.h"
#include "resources/search_path.h"

#define FILE_WATCH_QUIET_MS 100
#define FILE_WATCH_LIMIT_MS 1000
#define FILE_WATCH_DIRECTORIES 8192
#define FILE_WATCH_PENDING 65536

struct file_watch;
struct uv_loop_s;

/* What came to rest since the last call; never empty. */
struct file_changes {
    bool lost;     /* events were lost: anything may have changed */
    bool archives; /* an archive was saved */
    struct file_change *files;
};

struct file_watch_desc {
    struct uv_loop_s *loop;
    void (*changed)(void *context, const struct file_changes *changes);
    void *context;
};

/* Returns EC_OK, EC_ERR_MEMORY or EC_ERR_SYSTEM (no inotify). */
int file_watch_create(const struct file_watch_desc *desc, struct file_watch **watch,
                      struct ec_error *why);
void file_watch_destroy(
    struct file_watch *watch); /* memory goes with the next turn; accepts NULL */

/* Watch a directory's tree, or the file of an archive. The same again adds only what is new. What cannot be
 * watched is logged. */
void file_watch_mount(struct file_watch *watch, const struct search_mount *mount);

/* Did the file change that has this path inside the search path? */
bool file_changes_have(const struct file_changes *changes, const char *path);

#endif
