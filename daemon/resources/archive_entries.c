/* archive_entries.c - a hash table of paths; directories are entries, too. */
#define HASH_NONFATAL_OOM 1
#include "resources/archive_entries.h"

#include <stdlib.h>
#include <string.h>

#include "resources/search_path.h"

static struct archive_entry *find(const struct archive_entries *entries, const char *path)
{
    struct archive_entry *entry;

    HASH_FIND_STR(entries->table, path, entry);
    return entry;
}

/* NULL: no memory. */
static struct archive_entry *take(struct archive_entries *entries, const char *path, size_t length)
{
    struct archive_entry *entry = calloc(1, sizeof *entry + length + 1);

    if (entry == NULL)
        return NULL;
    memcpy(entry->path, path, length);
    HASH_ADD_KEYPTR(hh, entries->table, entry->path, length, entry);
    if (entry->hh.tbl != NULL)
        return entry;
    free(entry);
    return NULL;
}

static bool add_directories(struct archive_entries *entries, const char *path)
{
    char part[SEARCH_PATH_BYTES];

    for (const char *end = strchr(path, '/'); end != NULL; end = strchr(end + 1, '/')) {
        struct archive_entry *entry;

        memcpy(part, path, (size_t)(end - path));
        part[end - path] = '\0';
        if (find(entries, part) != NULL) /* a marker of a map is a file with files below it */
            continue;
        entry = take(entries, part, (size_t)(end - path));
        if (entry == NULL)
            return false;
        entry->is_directory = true;
    }
    return true;
}

bool archive_entries_add(struct archive_entries *entries, const char *path, uint64_t bytes,
                         uint64_t at)
{
    struct archive_entry *entry = find(entries, path);
    struct ec_error why = { 0 };

    if (search_path_check(path, strlen(path), &why) < 0)
        return true;
    if (entry == NULL) {
        if (!add_directories(entries, path))
            return false;
        entry = take(entries, path, strlen(path));
    }
    if (entry == NULL)
        return false;
    entry->bytes = bytes;
    entry->at = at;
    entry->is_directory = false;
    return true;
}

struct archive_entry *archive_entries_file(const struct archive_entries *entries, const char *path)
{
    struct archive_entry *entry = find(entries, path);

    if (entry != NULL && !entry->is_directory)
        return entry;
    PHYSFS_setErrorCode(entry != NULL ? PHYSFS_ERR_NOT_A_FILE : PHYSFS_ERR_NOT_FOUND);
    return NULL;
}

void archive_entries_finish(struct archive_entries *entries)
{
    struct archive_entry *entry, *next;

    HASH_ITER(hh, entries->table, entry, next)
    {
        HASH_DEL(entries->table, entry);
        free(entry);
    }
}

PHYSFS_EnumerateCallbackResult archive_entries_enumerate(const struct archive_entries *entries,
                                                         const char *directory,
                                                         PHYSFS_EnumerateCallback callback,
                                                         const char *original, void *context)
{
    const size_t length = strlen(directory);

    for (const struct archive_entry *entry = entries->table; entry != NULL;
         entry = entry->hh.next) {
        const char *name = entry->path;
        PHYSFS_EnumerateCallbackResult result;

        if (length > 0) {
            if (strncmp(name, directory, length) != 0 || name[length] != '/')
                continue;
            name += length + 1;
        }
        if (strchr(name, '/') != NULL)
            continue;
        result = callback(context, original, name);
        if (result == PHYSFS_ENUM_ERROR)
            PHYSFS_setErrorCode(PHYSFS_ERR_APP_CALLBACK);
        if (result != PHYSFS_ENUM_OK)
            return result;
    }
    return PHYSFS_ENUM_OK;
}

int archive_entries_stat(const struct archive_entries *entries, const char *path, PHYSFS_Stat *stat)
{
    const struct archive_entry *entry = find(entries, path);
    const bool is_directory = entry == NULL || entry->is_directory;

    if (entry == NULL && path[0] != '\0') {
        PHYSFS_setErrorCode(PHYSFS_ERR_NOT_FOUND);
        return 0;
    }
    *stat = (PHYSFS_Stat) {
        .filesize = is_directory ? 0 : (PHYSFS_sint64)entry->bytes,
        .modtime = -1,
        .createtime = -1,
        .accesstime = -1,
        .filetype = is_directory ? PHYSFS_FILETYPE_DIRECTORY : PHYSFS_FILETYPE_REGULAR,
        .readonly = 1,
    };
    return 1;
}

PHYSFS_Io *archive_no_write(void *opaque, const char *path)
{
    (void)opaque;
    (void)path;
    PHYSFS_setErrorCode(PHYSFS_ERR_READ_ONLY);
    return NULL;
}

int archive_no_change(void *opaque, const char *path)
{
    (void)opaque;
    (void)path;
    PHYSFS_setErrorCode(PHYSFS_ERR_READ_ONLY);
    return 0;
}

PHYSFS_sint64 archive_io_no_write(PHYSFS_Io *io, const void *bytes, PHYSFS_uint64 count)
{
    (void)io;
    (void)bytes;
    (void)count;
    PHYSFS_setErrorCode(PHYSFS_ERR_READ_ONLY);
    return -1;
}

int archive_io_flush(PHYSFS_Io *io)
{
    (void)io;
    return 1;
}

bool archive_read_at(PHYSFS_Io *io, uint64_t offset, void *to, uint64_t bytes)
{
    unsigned char *at = to;

    if (!io->seek(io, offset))
        return false;
    while (bytes > 0) {
        const PHYSFS_sint64 got = io->read(io, at, bytes);

        if (got <= 0) {
            if (got == 0)
                PHYSFS_setErrorCode(PHYSFS_ERR_CORRUPT);
            return false;
        }
        at += got;
        bytes -= (uint64_t)got;
    }
    return true;
}
