/* state_file.c - read as a stranger's, write beside and rename. */
#include "daemon/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *read_all(int fd, size_t size, size_t *bytes, struct ec_error *why)
{
    char *text = malloc(size + 1);
    ssize_t got;

    if (text == NULL) {
        ec_fail(why, EC_ERR_MEMORY, "no memory for %zu bytes", size);
        return NULL;
    }
    while (*bytes < size && (got = read(fd, text + *bytes, size - *bytes)) > 0)
        *bytes += (size_t)got;
    text[*bytes] = '\0';
    return text;
}

char *state_file_read(const char *path, size_t bytes_max, size_t *bytes, struct ec_error *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char *text = NULL;
    struct stat st;

    *bytes = 0;
    if (fd < 0) {
        if (errno != ENOENT)
            ec_fail(why, EC_ERR_SYSTEM, "%s", strerror(errno));
        return NULL;
    }
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size > bytes_max)
        ec_fail(why, EC_ERR_SIZE, "no file of at most %zu bytes", bytes_max);
    else if (st.st_uid != geteuid())
        ec_fail(why, EC_ERR_PERMISSION, "it belongs to uid %u", (unsigned)st.st_uid);
    else
        text = read_all(fd, (size_t)st.st_size, bytes, why);
    close(fd);
    return text;
}

int state_file_replace(const char *path, const char *text, size_t bytes)
{
    char fresh[STATE_FILE_PATH_BYTES];
    size_t written = 0;
    ssize_t n = 0;
    int fd, rc;

    if (snprintf(fresh, sizeof fresh, "%s.new", path) >= (int)sizeof fresh)
        return ENAMETOOLONG;
    fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return errno;
    while (written < bytes && (n = write(fd, text + written, bytes - written)) > 0)
        written += (size_t)n;
    rc = written == bytes ? 0 : n < 0 ? errno : ENOSPC;
    if (close(fd) < 0 && rc == 0)
        rc = errno;
    if (rc == 0 && rename(fresh, path) < 0)
        rc = errno;
    if (rc != 0)
        unlink(fresh);
    return rc;
}
