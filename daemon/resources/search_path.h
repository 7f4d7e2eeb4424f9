/* search_path.h - where resources come from: directories and archives, searched in order.
 *
 * PhysicsFS does the work; it keeps one search path per process, so there is one of these in a decoding
 * process (decode_server.h), and none in the daemon itself. Names inside it use '/' and cannot leave it:
 * "..", absolute paths and links are refused.
 *
 * Thread:    one at a time; the checks: any.
 * Ownership: an entry is closed by whoever opened it. */
#ifndef RESOURCES_SEARCH_PATH_H
#define RESOURCES_SEARCH_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "foundation/error.h"

#define SEARCH_PATH_BYTES 1024 /* of an entry's path, NUL included */

struct search_path;

int search_path_create(struct search_path **search, struct ec_error *why);
void search_path_destroy(struct search_path *search); /* accepts NULL */

/* Is it a path inside the search path? bytes without the NUL.
 *
 * Returns EC_OK or EC_ERR_PATH with the reason. */
int search_path_check(const char *path, size_t bytes, struct ec_error *why);

/* Could this be mounted there, as far as can be seen without reading it? Thread: any.
 *
 * Returns EC_OK, EC_ERR_NOT_FOUND or EC_ERR_PATH (relative, not readable, neither directory nor file, or
 * a bad at). */
int search_path_check_mount(const char *path, const char *at, struct ec_error *why);

/* Add a directory or archive of the host; at is where its tree appears, "/" or "/textures". Mounting
 * the same again changes nothing. An archive stays the file that it is now, whatever is renamed over it.
 *
 * Returns EC_OK, EC_ERR_NOT_FOUND, EC_ERR_PATH (relative, not readable, not an archive that PhysicsFS
 * knows, or a bad at), EC_ERR_STATE (mounted elsewhere) or EC_ERR_MEMORY. */
int search_path_mount(struct search_path *search, const char *path, const char *at, bool append,
                      struct ec_error *why);

struct search_mount {
    const char *path;
    const char *at;
};
/* The search path in order; NULL after the last. */
const struct search_mount *search_path_at(const struct search_path *search, unsigned index);

/* An open entry. Its length is what the archive says, and may be a lie. */
struct search_entry {
    void *file;
    uint64_t bytes;
    unsigned mount; /* whose it is: search_path_at() */
    int fd;         /* of the file that it is read from; -1: not known */
    int64_t begin;  /* where in that, of a loose file */
    struct archive_io
        *archive; /* NULL: a loose file, or one of an archive that is unpacked whole */
};

/* Returns EC_OK, EC_ERR_NOT_FOUND, EC_ERR_PATH (not a file, a link, damaged) or EC_ERR_MEMORY. */
int search_entry_open(const struct search_path *search, struct search_entry *entry,
                      const char *path, struct ec_error *why);
/* Read the next bytes, all of them. Returns EC_OK or EC_ERR_SIZE (the entry is shorter) or EC_ERR_PATH. */
int search_entry_read(struct search_entry *entry, void *to, uint64_t bytes, struct ec_error *why);
/* Are there more bytes than were read? */
bool search_entry_at_end(struct search_entry *entry);
void search_entry_close(struct search_entry *entry);
/* What was read is not needed again soon: the kernel may forget it. */
void search_entry_forget(const struct search_entry *entry);

#endif
