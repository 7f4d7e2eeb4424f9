/* file.c - see <engine-core/file.h>. */
#include <engine-core/file.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "foundation/error.h"

enum way { NEITHER, READING, WRITING };

struct ec_file {
    FILE *stream;
    enum way way; /* of the stream since the last seek */
    char path[];  /* for messages */
};

/* The words of errno, under the code that a caller would act on. */
static int fail(const char *path, const char *what, struct ec_error *why)
{
    const int code = errno == ENOENT || errno == ENOTDIR                   ? EC_ERR_NOT_FOUND
                     : errno == EACCES || errno == EPERM || errno == EROFS ? EC_ERR_PERMISSION
                     : errno == EEXIST || errno == EISDIR                  ? EC_ERR_STATE
                     : errno == ENOMEM                                     ? EC_ERR_MEMORY
                                                                           : EC_ERR_SYSTEM;

    return ec_fail(why, code, "%s %s: %s", what, path, strerror(errno));
}

static int fail_stream(const struct ec_file *file, const char *what, struct ec_error *why)
{
    const int rc = ec_fail(why, EC_ERR_SYSTEM, "%s %s: %s", what, file->path, strerror(errno));

    clearerr(file->stream);
    return rc;
}

/* ---- open and close ---- */

#define ALL_MODES                                                                                  \
    (EC_FILE_READ | EC_FILE_WRITE | EC_FILE_CREATE | EC_FILE_TRUNCATE | EC_FILE_APPEND |           \
     EC_FILE_EXCLUSIVE)

static int flags_of(unsigned mode, const char *path, int *flags, struct ec_error *why)
{
    const bool reads = (mode & EC_FILE_READ) != 0, writes = (mode & EC_FILE_WRITE) != 0;

    if ((mode & ~(unsigned)ALL_MODES) != 0 || (!reads && !writes))
        return ec_fail(why, EC_ERR_PARAM, "open %s: mode 0x%x neither reads nor writes", path,
                       mode);
    if (!writes && (mode & (EC_FILE_CREATE | EC_FILE_TRUNCATE | EC_FILE_APPEND)) != 0)
        return ec_fail(why, EC_ERR_PARAM, "open %s: mode 0x%x changes a file without WRITE", path,
                       mode);
    if ((mode & EC_FILE_EXCLUSIVE) != 0 && (mode & EC_FILE_CREATE) == 0)
        return ec_fail(why, EC_ERR_PARAM, "open %s: mode 0x%x has EXCLUSIVE without CREATE", path,
                       mode);
    *flags = O_CLOEXEC | (reads && writes ? O_RDWR : writes ? O_WRONLY : O_RDONLY);
    *flags |= (mode & EC_FILE_CREATE) != 0 ? O_CREAT : 0;
    *flags |= (mode & EC_FILE_TRUNCATE) != 0 ? O_TRUNC : 0;
    *flags |= (mode & EC_FILE_APPEND) != 0 ? O_APPEND : 0;
    *flags |= (mode & EC_FILE_EXCLUSIVE) != 0 ? O_EXCL : 0;
    return EC_OK;
}

int ec_file_open(const char *path, unsigned mode, struct ec_file **file, struct ec_error *why)
{
    const char *stream_mode = (mode & EC_FILE_APPEND) != 0 ? "a+" : "r+";
    struct ec_file *made;
    struct stat status;
    int flags = 0, fd;
    int rc = flags_of(mode, path, &flags, why);

    if (rc < 0)
        return rc;
    fd = open(path, flags, 0644);
    if (fd < 0)
        return fail(path, "open", why);
    if (fstat(fd, &status) == 0 && S_ISDIR(status.st_mode)) {
        close(fd);
        errno = EISDIR;
        return fail(path, "open", why);
    }
    if ((mode & EC_FILE_READ) == 0)
        stream_mode = (mode & EC_FILE_APPEND) != 0 ? "a" : "w"; /* fdopen truncates nothing */
    else if ((mode & EC_FILE_WRITE) == 0)
        stream_mode = "r";
    made = malloc(sizeof *made + strlen(path) + 1);
    if (made != NULL)
        made->stream = fdopen(fd, stream_mode);
    if (made == NULL || made->stream == NULL) {
        free(made);
        close(fd);
        return ec_fail(why, EC_ERR_MEMORY, "open %s: no memory", path);
    }
    made->way = NEITHER;
    memcpy(made->path, path, strlen(path) + 1);
    *file = made;
    return EC_OK;
}

int ec_file_close(struct ec_file *file, struct ec_error *why)
{
    int rc = EC_OK;

    if (file == NULL)
        return EC_OK;
    if (fclose(file->stream) != 0)
        rc = ec_fail(why, EC_ERR_SYSTEM, "close %s: %s", file->path, strerror(errno));
    free(file);
    return rc;
}

/* ---- read and write ---- */

/* A stream that turns from writing to reading or back needs a seek in between; one to where it is
 * changes nothing else, but empties the buffer. A pipe cannot be both, so that its refusal does not
 * matter. That the end of the file was met is forgotten: it may have grown. */
static void turn(struct ec_file *file, enum way to)
{
    if (file->way != NEITHER && file->way != to)
        (void)fseeko(file->stream, 0, SEEK_CUR);
    clearerr(file->stream);
    file->way = to;
}

int64_t ec_file_read(struct ec_file *file, void *buffer, size_t bytes, struct ec_error *why)
{
    size_t count;

    turn(file, READING);
    errno = 0;
    count = fread(buffer, 1, bytes, file->stream);
    if (count < bytes && ferror(file->stream))
        return fail_stream(file, "read", why);
    return (int64_t)count;
}

int ec_file_write(struct ec_file *file, const void *bytes, size_t count, struct ec_error *why)
{
    turn(file, WRITING);
    errno = 0;
    if (fwrite(bytes, 1, count, file->stream) < count)
        return fail_stream(file, "write", why);
    return EC_OK;
}

int ec_file_read_line(struct ec_file *file, char *line, size_t room, struct ec_error *why)
{
    size_t bytes = 0; /* of the line, also those that do not fit */
    bool has_nul = false;
    int c;

    turn(file, READING);
    errno = 0;
    while ((c = getc(file->stream)) != EOF && c != '\n') {
        has_nul = has_nul || c == '\0';
        if (bytes < room)
            line[bytes] = (char)c;
        bytes++;
    }
    if (c == EOF && ferror(file->stream))
        return fail_stream(file, "read", why);
    if (c == EOF && bytes == 0)
        return EC_AGAIN;
    if (has_nul)
        return ec_fail(why, EC_ERR_PARSE, "read %s: a line contains a NUL", file->path);
    if (bytes > 0 && bytes <= room && line[bytes - 1] == '\r')
        bytes--;
    if (bytes >= room)
        return ec_fail(why, EC_ERR_SIZE, "read %s: a line of %zu bytes, there is room for %zu",
                       file->path, bytes, room == 0 ? 0 : room - 1);
    line[bytes] = '\0';
    return EC_OK;
}

int ec_file_seek(struct ec_file *file, int64_t offset, enum ec_file_origin origin,
                 struct ec_error *why)
{
    static const int whence[] = { SEEK_SET, SEEK_CUR, SEEK_END };

    if ((unsigned)origin > EC_FILE_END)
        return ec_fail(why, EC_ERR_PARAM, "seek in %s: no origin %u", file->path, (unsigned)origin);
    if (fseeko(file->stream, offset, whence[origin]) == 0) {
        file->way = NEITHER;
        return EC_OK;
    }
    if (errno == EINVAL)
        return ec_fail(why, EC_ERR_PARAM, "seek in %s: the place is before the beginning",
                       file->path);
    return ec_fail(why, EC_ERR_SYSTEM, "seek in %s: %s", file->path, strerror(errno));
}

int64_t ec_file_tell(struct ec_file *file)
{
    const off_t at = ftello(file->stream);

    return at < 0 ? EC_ERR_SYSTEM : at;
}

int ec_file_flush(struct ec_file *file, struct ec_error *why)
{
    return fflush(file->stream) == 0 ? EC_OK : fail_stream(file, "write", why);
}

int ec_file_sync(struct ec_file *file, struct ec_error *why)
{
    const int rc = ec_file_flush(file, why);

    if (rc < 0)
        return rc;
    return fdatasync(fileno(file->stream)) == 0 ? EC_OK : fail_stream(file, "sync", why);
}

/* ---- replace ---- */

static int write_all(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        const ssize_t n = write(fd, bytes, count);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        bytes += n;
        count -= (size_t)n;
    }
    return 0;
}

/* The rename itself is on the disk once the directory is. A file system that cannot sync a directory
 * has done all that it can. */
static void sync_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    const size_t length = slash == NULL ? 0 : (size_t)(slash - path) + 1;
    char *directory = slash == NULL ? strdup(".") : strndup(path, length);
    int fd = -1;

    if (directory != NULL)
        fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(directory);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
}

int ec_file_replace(const char *path, const void *bytes, size_t count, unsigned permissions,
                    struct ec_error *why)
{
    static const char suffix[] = ".XXXXXX";
    const size_t length = strlen(path);
    char *beside;
    int fd, rc = EC_OK;

    if (length == 0 || length > PATH_MAX - sizeof suffix || path[length - 1] == '/')
        return ec_fail(why, EC_ERR_PARAM, "replace: %s is no path of a file",
                       length == 0 ? "\"\"" : path);
    beside = malloc(length + sizeof suffix);
    if (beside == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "replace %s: no memory", path);
    memcpy(beside, path, length);
    memcpy(beside + length, suffix, sizeof suffix);
    fd = mkostemp(beside, O_CLOEXEC);
    if (fd < 0) {
        rc = fail(path, "replace", why);
        free(beside);
        return rc;
    }
    if (write_all(fd, bytes, count) < 0 || fchmod(fd, (mode_t)permissions) < 0 || fsync(fd) < 0 ||
        rename(beside, path) < 0) {
        rc = fail(path, "replace", why);
        unlink(beside);
    } else {
        sync_directory(path);
    }
    close(fd);
    free(beside);
    return rc;
}
