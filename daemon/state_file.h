/* state_file.h - a small file that one run of the daemon leaves to the next.
 *
 *     text = state_file_read(path, bytes_max, &bytes, &why);
 *     …
 *     rc = state_file_replace(path, text, bytes); // 0 or an errno
 *
 * Thread: any. Cost: system calls, on a file system in memory. */
#ifndef ENGINE_CORED_STATE_FILE_H
#define ENGINE_CORED_STATE_FILE_H

#include <stddef.h>

#include "foundation/error.h"

#define STATE_FILE_PATH_BYTES 1024

/* The whole file, NUL-terminated; the caller frees it. NULL: it is not there and *why is as it was, or *why
 * says what is wrong: EC_ERR_SYSTEM, EC_ERR_SIZE (no regular file, or more than bytes_max),
 * EC_ERR_PERMISSION (somebody else's) or EC_ERR_MEMORY. */
char *state_file_read(const char *path, size_t bytes_max, size_t *bytes, struct ec_error *why);

/* All of the new text or all of what was there before is under the name, whenever this process is killed.
 * No fsync: after a crash of the host the file is of another boot. Returns 0 or an errno. */
int state_file_replace(const char *path, const char *text, size_t bytes);

#endif
