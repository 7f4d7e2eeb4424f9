/* log_file.h - a log file that is turned over when it is full, and outlives a full disk.
 *
 *     engine-core.log -> engine-core.log.1 -> engine-core.log.2 -> gone
 *
 * What cannot be written is lost and counted; the file is tried again with each line, so that logging
 * goes on by itself once there is room. The first line behind a gap says how many are missing.
 *
 * Thread: one, the writer's. */
#ifndef ENGINE_CORED_LOG_FILE_H
#define ENGINE_CORED_LOG_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct log_file {
    char path[PATH_MAX];
    uint64_t bytes_max; /* turned over before it would be larger */
    unsigned keep;      /* older files */
    int fd;             /* -1: not open */
    uint64_t bytes;
    uint64_t lost; /* since the last line that was written */
    bool is_torn;  /* the last line was written in part */
};

void log_file_init(struct log_file *file, const char *path, uint64_t bytes_max, unsigned keep);
void log_file_finish(struct log_file *file);

/* One line with its LF. Returns 0, or the errno for which it was lost. */
int log_file_write(struct log_file *file, const char *line, size_t bytes);

#endif
