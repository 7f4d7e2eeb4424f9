/* log_file.c - see log_file.h. */
#include "daemon/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_file(struct log_file *file);
static void turn_over(struct log_file *file);
static int append(struct log_file *file, const char *bytes, size_t count);
static int tell_lost(struct log_file *file);

void log_file_init(struct log_file *file, const char *path, uint64_t bytes_max, unsigned keep)
{
    *file = (struct log_file) { .bytes_max = bytes_max, .keep = keep, .fd = -1 };
    snprintf(file->path, sizeof file->path, "%s", path);
}

void log_file_finish(struct log_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

int log_file_write(struct log_file *file, const char *line, size_t bytes)
{
    int rc = 0;

    if (file->fd >= 0 && file->bytes > 0 && file->bytes + bytes > file->bytes_max)
        turn_over(file);
    if (file->fd < 0)
        rc = open_file(file);
    if (rc == 0 && file->is_torn) {
        rc = append(file, "\n", 1);
        file->is_torn = rc != 0;
    }
    if (rc == 0 && file->lost > 0)
        rc = tell_lost(file);
    if (rc == 0)
        rc = append(file, line, bytes);
    file->lost += rc != 0;
    return rc;
}

static int open_file(struct log_file *file)
{
    struct stat st;
    const int fd =
        open(file->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);

    if (fd < 0)
        return errno;
    file->bytes = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    file->fd = fd;
    if (file->bytes >= file->bytes_max) {
        turn_over(file);
        return open_file(file);
    }
    return 0;
}

/* Each file takes the place of the next older one. What cannot be renamed is written on. */
static void turn_over(struct log_file *file)
{
    char from[PATH_MAX + 16], to[PATH_MAX + 16];
    struct stat st;

    if (fstat(file->fd, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    for (unsigned i = file->keep; i > 0; i--) {
        snprintf(to, sizeof to, "%s.%u", file->path, i);
        if (i > 1)
            snprintf(from, sizeof from, "%s.%u", file->path, i - 1);
        else
            snprintf(from, sizeof from, "%s", file->path);
        rename(from, to);
    }
    if (file->keep == 0)
        unlink(file->path);
    /* Where the renaming did not work, the file is emptied: its bound holds in any case. */
    if (stat(file->path, &st) == 0)
        (void)!ftruncate(file->fd, 0);
    log_file_finish(file);
    file->bytes = 0;
}

static int append(struct log_file *file, const char *bytes, size_t count)
{
    const size_t whole = count;

    while (count > 0) {
        const ssize_t written = write(file->fd, bytes, count);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            const int reason = written < 0 ? errno : ENOSPC;

            file->is_torn = file->is_torn || count < whole;
            log_file_finish(file); /* opened anew: perhaps it was removed, or its disk went */
            return reason;
        }
        file->bytes += (uint64_t)written;
        bytes += written;
        count -= (size_t)written;
    }
    return 0;
}

static int tell_lost(struct log_file *file)
{
    char line[80];
    const int bytes =
        snprintf(line, sizeof line,
                 "[log][warning] %" PRIu64 " lines are missing here: they could not be "
                 "written\n",
                 file->lost);
    const int rc = append(file, line, (size_t)bytes);

    if (rc == 0)
        file->lost = 0;
    return rc;
}
