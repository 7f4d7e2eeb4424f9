/* archive_io.c - a PHYSFS_Io. */
#include "resources/archive_io.h"

#include <errno.h>
#include <physfs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "resources/archive_entries.h"

struct archive_io {
    PHYSFS_Io io;
    int fd;
    uint64_t bytes;
    uint64_t position;
    uint64_t begin, end; /* of what was read; begin is UINT64_MAX at first */
};

static struct archive_io *newest;

static struct archive_io *reader_make(int fd, uint64_t bytes);

static struct archive_io *of(PHYSFS_Io *io)
{
    return io->opaque;
}

static PHYSFS_sint64 io_read(PHYSFS_Io *io, void *to, PHYSFS_uint64 bytes)
{
    struct archive_io *reader = of(io);
    uint64_t got = 0;

    while (got < bytes) {
        ssize_t some =
            pread(reader->fd, (char *)to + got, bytes - got, (off_t)(reader->position + got));

        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0 && got == 0) {
            PHYSFS_setErrorCode(PHYSFS_ERR_IO);
            return -1;
        }
        if (some <= 0)
            break;
        got += (uint64_t)some;
    }
    if (got > 0 && reader->position < reader->begin)
        reader->begin = reader->position;
    reader->position += got;
    if (got > 0 && reader->position > reader->end)
        reader->end = reader->position;
    return (PHYSFS_sint64)got;
}

static int io_seek(PHYSFS_Io *io, PHYSFS_uint64 offset)
{
    if (offset > INT64_MAX) {
        PHYSFS_setErrorCode(PHYSFS_ERR_PAST_EOF);
        return 0;
    }
    of(io)->position = offset;
    return 1;
}

static PHYSFS_sint64 io_tell(PHYSFS_Io *io)
{
    return (PHYSFS_sint64)of(io)->position;
}

static PHYSFS_sint64 io_length(PHYSFS_Io *io)
{
    return (PHYSFS_sint64)of(io)->bytes;
}

static PHYSFS_Io *io_duplicate(PHYSFS_Io *io)
{
    newest = reader_make(of(io)->fd, of(io)->bytes);
    if (newest == NULL) {
        PHYSFS_setErrorCode(PHYSFS_ERR_OUT_OF_MEMORY);
        return NULL;
    }
    return &newest->io;
}

static void io_destroy(PHYSFS_Io *io)
{
    if (newest == of(io))
        newest = NULL;
    free(of(io));
}

static struct archive_io *reader_make(int fd, uint64_t bytes)
{
    struct archive_io *reader = malloc(sizeof *reader);

    if (reader == NULL)
        return NULL;
    *reader = (struct archive_io) { .io = { .version = 0,
                                            .opaque = reader,
                                            .read = io_read,
                                            .write = archive_io_no_write,
                                            .seek = io_seek,
                                            .tell = io_tell,
                                            .length = io_length,
                                            .duplicate = io_duplicate,
                                            .flush = archive_io_flush,
                                            .destroy = io_destroy },
                                    .fd = fd,
                                    .bytes = bytes,
                                    .begin = UINT64_MAX };
    return reader;
}

int archive_io_mount(int fd, const char *path, const char *at, bool append, struct ec_error *why)
{
    struct archive_io *reader;
    const char *text;
    struct stat st;

    if (fstat(fd, &st) < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "%s: %s", path, strerror(errno));
    reader = reader_make(fd, (uint64_t)st.st_size);
    if (reader == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory to mount %s", path);
    if (PHYSFS_mountIo(&reader->io, path, at, append ? 1 : 0))
        return EC_OK;
    text = PHYSFS_getErrorByCode(PHYSFS_getLastErrorCode());
    free(reader); /* it is not taken over then */
    return ec_fail(why, EC_ERR_PATH, "%s cannot be mounted: %s", path,
                   text != NULL ? text : "unknown error");
}

struct archive_io *archive_io_newest(void)
{
    struct archive_io *reader = newest;

    newest = NULL;
    return reader;
}

int archive_io_fd(const struct archive_io *reader)
{
    return reader->fd;
}

void archive_io_span(const struct archive_io *reader, int64_t *begin, int64_t *end)
{
    *begin = (int64_t)(reader->begin < reader->end ? reader->begin : reader->end);
    *end = (int64_t)reader->end;
}
