/* archive_wad.c - 12 bytes of header, lumps, and a directory with 16 bytes for each. */
#include "resources/archive_wad.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resources/archive_entries.h"

#define HEADER_BYTES 12
#define ROW_BYTES 16
#define NAME_BYTES 8
#define LUMPS_MAX 1000000 /* a hundred times of what the largest have */

/* What can stand behind the marker of a map; the nodes of OpenGL ports have a marker of their own. */
static const char *const map_lumps[] = {
    "THINGS", "LINEDEFS", "SIDEDEFS", "VERTEXES", "SEGS",    "SSECTORS", "NODES",    "SECTORS",
    "REJECT", "BLOCKMAP", "BEHAVIOR", "SCRIPTS",  "LEAFS",   "LIGHTS",   "MACROS",   "TEXTMAP",
    "ZNODES", "DIALOGUE", "ENDMAP",   "GL_VERT",  "GL_SEGS", "GL_SSECT", "GL_NODES", "GL_PVS",
};
static const char *const first_lumps[] = { "THINGS", "TEXTMAP", "GL_VERT" };

struct wad {
    struct archive_entries entries;
    PHYSFS_Io *io;
};

struct lump {
    char name[NAME_BYTES + 1];
    uint32_t offset, bytes;
};

/* One lump that is open. */
struct reading {
    PHYSFS_Io io; /* what PhysicsFS has of it */
    PHYSFS_Io *file;
    uint64_t offset, bytes, at;
};

static PHYSFS_Io *reading_create(PHYSFS_Io *file, uint64_t offset, uint64_t bytes);

static uint32_t le32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void lump_read(const unsigned char *row, struct lump *lump)
{
    *lump = (struct lump) { .offset = le32(row), .bytes = le32(row + 4) };
    for (unsigned i = 0; i < NAME_BYTES && row[8 + i] != '\0'; i++)
        lump->name[i] = (char)(row[8 + i] == '\\' ? '^' : row[8 + i]);
}

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* "F_START" begins the names "F/…". The marker of a map begins with the lump behind it. */
static void directory_follow(char *directory, const struct lump *lump, bool marks_map)
{
    const size_t length = strlen(lump->name);

    if (length > 6 && strcmp(lump->name + length - 6, "_START") == 0)
        snprintf(directory, NAME_BYTES + 1, "%.*s", (int)length - 6, lump->name);
    else if (length > 4 && strcmp(lump->name + length - 4, "_END") == 0)
        directory[0] = '\0';
    else if (marks_map)
        strcpy(directory, lump->name);
}

static bool lumps_add(struct wad *wad, const unsigned char *rows, uint32_t count,
                      uint64_t file_bytes)
{
    char directory[NAME_BYTES + 1] = "", path[2 * NAME_BYTES + 2];
    bool in_map = false;

    for (uint32_t i = 0; i < count; i++) {
        struct lump lump, next;
        bool marks_map;

        lump_read(rows + (size_t)ROW_BYTES * i, &lump);
        if (i + 1 < count)
            lump_read(rows + (size_t)ROW_BYTES * (i + 1), &next);
        if (lump.bytes > 0 && (lump.offset > file_bytes || lump.bytes > file_bytes - lump.offset)) {
            PHYSFS_setErrorCode(PHYSFS_ERR_CORRUPT);
            return false;
        }
        if (in_map && !is_one_of(lump.name, map_lumps, sizeof map_lumps / sizeof map_lumps[0])) {
            directory[0] = '\0';
            in_map = false;
        }
        marks_map = !in_map && i + 1 < count &&
                    is_one_of(next.name, first_lumps, sizeof first_lumps / sizeof first_lumps[0]);
        snprintf(path, sizeof path, "%s/%s", directory, lump.name);
        if (!archive_entries_add(&wad->entries, lump.name, lump.bytes, lump.offset) ||
            (directory[0] != '\0' &&
             !archive_entries_add(&wad->entries, path, lump.bytes, lump.offset))) {
            PHYSFS_setErrorCode(PHYSFS_ERR_OUT_OF_MEMORY);
            return false;
        }
        directory_follow(directory, &lump, marks_map);
        in_map = in_map || marks_map;
        if (strcmp(lump.name, "ENDMAP") == 0) {
            directory[0] = '\0';
            in_map = false;
        }
    }
    return true;
}

/* Returns the rows of the directory, or NULL with PhysicsFS's error set. */
static unsigned char *rows_read(PHYSFS_Io *io, uint64_t file_bytes, const unsigned char *header,
                                uint32_t *count)
{
    const uint32_t offset = le32(header + 8);
    unsigned char *rows;

    *count = le32(header + 4);
    if (*count > LUMPS_MAX || offset > file_bytes ||
        (uint64_t)*count * ROW_BYTES > file_bytes - offset) {
        PHYSFS_setErrorCode(PHYSFS_ERR_CORRUPT);
        return NULL;
    }
    rows = malloc((size_t)*count * ROW_BYTES + 1);
    if (rows == NULL)
        PHYSFS_setErrorCode(PHYSFS_ERR_OUT_OF_MEMORY);
    else if (archive_read_at(io, offset, rows, (uint64_t)*count * ROW_BYTES))
        return rows;
    free(rows);
    return NULL;
}

static void close_archive(void *opaque)
{
    struct wad *wad = opaque;

    archive_entries_finish(&wad->entries);
    if (wad->io != NULL)
        wad->io->destroy(wad->io);
    free(wad);
}

static void *open_archive(PHYSFS_Io *io, const char *name, int for_write, int *claimed)
{
    const PHYSFS_sint64 length = io->length(io);
    unsigned char header[HEADER_BYTES], *rows;
    struct wad *wad;
    uint32_t count;
    bool added;

    (void)name;
    if (for_write || length < HEADER_BYTES || !archive_read_at(io, 0, header, sizeof header) ||
        (memcmp(header, "IWAD", 4) != 0 && memcmp(header, "PWAD", 4) != 0)) {
        PHYSFS_setErrorCode(for_write ? PHYSFS_ERR_READ_ONLY : PHYSFS_ERR_UNSUPPORTED);
        return NULL;
    }
    *claimed = 1;
    rows = rows_read(io, (uint64_t)length, header, &count);
    if (rows == NULL)
        return NULL;
    wad = calloc(1, sizeof *wad);
    if (wad == NULL)
        PHYSFS_setErrorCode(PHYSFS_ERR_OUT_OF_MEMORY);
    added = wad != NULL && lumps_add(wad, rows, count, (uint64_t)length);
    free(rows);
    if (added) {
        wad->io = io;
        return wad;
    }
    if (wad != NULL)
        close_archive(wad); /* the io stays the caller's */
    return NULL;
}

static PHYSFS_EnumerateCallbackResult enumerate(void *opaque, const char *directory,
                                                PHYSFS_EnumerateCallback callback,
                                                const char *original, void *context)
{
    const struct wad *wad = opaque;

    return archive_entries_enumerate(&wad->entries, directory, callback, original, context);
}

static int stat_entry(void *opaque, const char *path, PHYSFS_Stat *stat)
{
    const struct wad *wad = opaque;

    return archive_entries_stat(&wad->entries, path, stat);
}

static PHYSFS_Io *open_read(void *opaque, const char *path)
{
    struct wad *wad = opaque;
    const struct archive_entry *entry = archive_entries_file(&wad->entries, path);

    return entry != NULL ? reading_create(wad->io, entry->at, entry->bytes) : NULL;
}

/* ---- an open lump ---- */

static PHYSFS_sint64 lump_io_read(PHYSFS_Io *io, void *to, PHYSFS_uint64 bytes)
{
    struct reading *reading = io->opaque;

    if (bytes > reading->bytes - reading->at)
        bytes = reading->bytes - reading->at;
    if (!archive_read_at(reading->file, reading->offset + reading->at, to, bytes))
        return -1;
    reading->at += bytes;
    return (PHYSFS_sint64)bytes;
}

static int lump_io_seek(PHYSFS_Io *io, PHYSFS_uint64 offset)
{
    struct reading *reading = io->opaque;

    if (offset > reading->bytes) {
        PHYSFS_setErrorCode(PHYSFS_ERR_PAST_EOF);
        return 0;
    }
    reading->at = offset;
    return 1;
}

static PHYSFS_sint64 lump_io_tell(PHYSFS_Io *io)
{
    return (PHYSFS_sint64)((struct reading *)io->opaque)->at;
}

static PHYSFS_sint64 lump_io_length(PHYSFS_Io *io)
{
    return (PHYSFS_sint64)((struct reading *)io->opaque)->bytes;
}

static PHYSFS_Io *lump_io_duplicate(PHYSFS_Io *io)
{
    struct reading *reading = io->opaque;

    return reading_create(reading->file, reading->offset, reading->bytes);
}

static void lump_io_destroy(PHYSFS_Io *io)
{
    struct reading *reading = io->opaque;

    reading->file->destroy(reading->file);
    free(reading);
}

static PHYSFS_Io *reading_create(PHYSFS_Io *file, uint64_t offset, uint64_t bytes)
{
    struct reading *reading = calloc(1, sizeof *reading);

    if (reading == NULL) {
        PHYSFS_setErrorCode(PHYSFS_ERR_OUT_OF_MEMORY);
        return NULL;
    }
    *reading = (struct reading) {
        .io = { .opaque = reading,
                .read = lump_io_read,
                .write = archive_io_no_write,
                .seek = lump_io_seek,
                .tell = lump_io_tell,
                .length = lump_io_length,
                .duplicate = lump_io_duplicate,
                .flush = archive_io_flush,
                .destroy = lump_io_destroy },
        .file = file->duplicate(file),
        .offset = offset,
        .bytes = bytes,
    };
    /* At its place from the beginning: what was read of the file is known from where it stood then. */
    if (reading->file != NULL && reading->file->seek(reading->file, offset))
        return &reading->io;
    if (reading->file != NULL)
        reading->file->destroy(reading->file);
    free(reading);
    return NULL;
}

const PHYSFS_Archiver archive_wad = {
    .info = { .extension = "WAD",
              .description = "Doom WAD, lumps by map and marker",
              .author = "engine-core",
              .url = "",
              .supportsSymlinks = 0 },
    .openArchive = open_archive,
    .enumerate = enumerate,
    .openRead = open_read,
    .openWrite = archive_no_write,
    .openAppend = archive_no_write,
    .remove = archive_no_change,
    .mkdir = archive_no_change,
    .stat = stat_entry,
    .closeArchive = close_archive,
};
