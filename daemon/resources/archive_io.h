/* archive_io.h - an archive that PhysicsFS reads, as the file that was there when it was mounted.
 *
 * PhysicsFS opens an archive by its name again for each entry. When another file has been renamed over
 * it, that would read the new bytes at the places of the old directory. Here each reader has a position of its own
 * in one descriptor, so processes that were forked apart do not move each other either.
 *
 * Thread: one. Cost: a pread for each read. */
#ifndef RESOURCES_ARCHIVE_IO_H
#define RESOURCES_ARCHIVE_IO_H

#include <stdbool.h>
#include <stdint.h>

#include "foundation/error.h"

/* Mount the file that fd is open for reading, and that lies at path; at and append as search_path_mount has
 * them. The descriptor stays the caller's, and open as long as it is mounted.
 *
 * Returns EC_OK, EC_ERR_PATH (no archive that PhysicsFS knows), EC_ERR_SYSTEM or EC_ERR_MEMORY. */
int archive_io_mount(int fd, const char *path, const char *at, bool append, struct ec_error *why);

/* Who reads an entry: the reader that was made last. NULL: none since the last call. It lives as long as
 * the entry is open. */
struct archive_io;
struct archive_io *archive_io_newest(void);
int archive_io_fd(const struct archive_io *reader);
/* What it has read so far lies in [*begin, *end). Empty: nothing. */
void archive_io_span(const struct archive_io *reader, int64_t *begin, int64_t *end);

#endif
