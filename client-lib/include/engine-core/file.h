/* engine-core/file.h - read and write files, and replace one so that nobody ever sees half of it.
 *
 *     ec_file_open("levels.txt", EC_FILE_READ, &file, &why);
 *     while ((rc = ec_file_read_line(file, line, sizeof line, &why)) == EC_OK)
 *         puts(line);
 *     ec_file_close(file, NULL);
 *
 *     ec_file_replace("settings.json", text, strlen(text), 0644, &why);
 *
 * Reading and writing is buffered by the C library. Errors name the path and say what the system said.
 *
 * Thread:    one at a time for each file.
 * Ownership: close frees the file, also when it fails.
 * Cost:      a copy; system calls when the buffer is empty or full. */
#ifndef ENGINE_CORE_FILE_H
#define ENGINE_CORE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include <engine-core/error.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ec_file; /* opaque */

enum ec_file_mode {
    EC_FILE_READ = 1,
    EC_FILE_WRITE = 2,     /* with READ: both */
    EC_FILE_CREATE = 4,    /* when it does not exist; mode 0644 less the umask */
    EC_FILE_TRUNCATE = 8,  /* to no bytes */
    EC_FILE_APPEND = 16,   /* each write goes to the end */
    EC_FILE_EXCLUSIVE = 32 /* with CREATE: it must not exist */
};

enum ec_file_origin {
    EC_FILE_BEGIN,
    EC_FILE_HERE,
    EC_FILE_END,
};

/* The descriptor is closed on exec.
 *
 * Returns EC_OK, EC_ERR_PARAM (mode), EC_ERR_NOT_FOUND, EC_ERR_PERMISSION, EC_ERR_STATE (it exists,
 *         or is a directory), EC_ERR_MEMORY, EC_ERR_SYSTEM. */
EC_API int ec_file_open(const char *path, unsigned mode, struct ec_file **file,
                        struct ec_error *why);

/* What was written reaches the kernel, or EC_ERR_SYSTEM says that it did not. Accepts NULL. */
EC_API int ec_file_close(struct ec_file *file, struct ec_error *why);

/* As many bytes as there are, up to `bytes`: less only at the end of the file.
 *
 * Returns the number, 0 at the end, or EC_ERR_SYSTEM. */
EC_API int64_t ec_file_read(struct ec_file *file, void *buffer, size_t bytes, struct ec_error *why);

/* All of it.
 *
 * Returns EC_OK or EC_ERR_SYSTEM; then a part may have been written. */
EC_API int ec_file_write(struct ec_file *file, const void *bytes, size_t count,
                         struct ec_error *why);

/* The next line without its line feed (and without a carriage return before that), NUL-terminated. A
 * last line may lack the line feed. A line that does not fit into room - 1 bytes, or that contains a
 * NUL, is passed over whole.
 *
 * Returns EC_OK, EC_AGAIN (the end of the file), EC_ERR_SIZE (too long), EC_ERR_PARSE (a NUL),
 *         EC_ERR_SYSTEM. */
EC_API int ec_file_read_line(struct ec_file *file, char *line, size_t room, struct ec_error *why);

/* Returns EC_OK, EC_ERR_PARAM (origin, or a place before the beginning), EC_ERR_SYSTEM. */
EC_API int ec_file_seek(struct ec_file *file, int64_t offset, enum ec_file_origin origin,
                        struct ec_error *why);
EC_API int64_t ec_file_tell(struct ec_file *file); /* EC_ERR_SYSTEM for a pipe */

/* To the kernel; with sync to the disk, too. Returns EC_OK or EC_ERR_SYSTEM: then what was in the
 * buffer is lost. */
EC_API int ec_file_flush(struct ec_file *file, struct ec_error *why);
EC_API int ec_file_sync(struct ec_file *file, struct ec_error *why);

/* Make the file have exactly this content: it is written beside the path, synced and renamed over it,
 * so that readers and a crash see either the old or the new content whole. A symbolic link is
 * replaced, not followed. permissions as for chmod, not masked.
 *
 * Returns EC_OK, EC_ERR_PARAM (path), EC_ERR_NOT_FOUND (the directory), EC_ERR_PERMISSION,
 *         EC_ERR_SYSTEM (disk full and others): the old file stays as it was, and nothing is left
 *         beside it. */
EC_API int ec_file_replace(const char *path, const void *bytes, size_t count, unsigned permissions,
                           struct ec_error *why);

#ifdef __cplusplus
}
#endif
#endif
