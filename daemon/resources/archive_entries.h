/* archive_entries.h - what PhysicsFS asks an archiver, for archivers that know all entries from the start.
 *
 * An archiver of ours reads the directory of an archive once, adds each entry by its path, and says how an
 * entry is read. Listing, looking up and the directories in between are here.
 *
 * Thread:    one at a time, as PhysicsFS calls.
 * Ownership: the archive owns its entries, and the io that PhysicsFS has opened once it is open. */
#ifndef RESOURCES_ARCHIVE_ENTRIES_H
#define RESOURCES_ARCHIVE_ENTRIES_H

#include <physfs.h>
#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

struct archive_entry {
    UT_hash_handle hh;
    uint64_t bytes;
    uint64_t at; /* the archiver's own: where it is */
    bool is_directory;
    char path[]; /* the key */
};

struct archive_entries {
    struct archive_entry *table; /* in the order of adding */
};

/* A file, with the directories above it. Of two with one path the later one is found; a path that leaves the
 * archive, or that search_path_check refuses, is left out. false: no memory. */
bool archive_entries_add(struct archive_entries *entries, const char *path, uint64_t bytes,
                         uint64_t at);
/* A file. NULL: there is none, and PhysicsFS's error is set. */
struct archive_entry *archive_entries_file(const struct archive_entries *entries, const char *path);
void archive_entries_finish(struct archive_entries *entries); /* accepts a zeroed one */

/* As PHYSFS_Archiver has them. */
PHYSFS_EnumerateCallbackResult archive_entries_enumerate(const struct archive_entries *entries,
                                                         const char *directory,
                                                         PHYSFS_EnumerateCallback callback,
                                                         const char *original, void *context);
int archive_entries_stat(const struct archive_entries *entries, const char *path,
                         PHYSFS_Stat *stat);

/* For what an archive that is only read cannot do. */
PHYSFS_Io *archive_no_write(void *opaque, const char *path);
int archive_no_change(void *opaque, const char *path);
PHYSFS_sint64 archive_io_no_write(PHYSFS_Io *io, const void *bytes, PHYSFS_uint64 count);
int archive_io_flush(PHYSFS_Io *io);

/* Bytes [offset, offset + bytes) of io, all of them. false: PhysicsFS's error is set. */
bool archive_read_at(PHYSFS_Io *io, uint64_t offset, void *to, uint64_t bytes);

#endif
