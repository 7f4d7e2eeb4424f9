/* search_path.c - PhysicsFS with the checks that it does not make, or makes differently by archiver.
 *
 * Paths are checked here as text, before any archiver sees them, so that a name is refused for the
 * same reason whether it would be a loose file or an entry of an archive. Symbolic links are refused
 * by PhysicsFS itself (permitSymbolicLinks off). Anything that is not a regular file is refused before
 * it is opened: opening a FIFO would stop a worker for ever. */
#include "resources/search_path.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <physfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "resources/archive_io.h"
#include "resources/archive_wad.h"

struct mount {
    struct search_mount row;
    char *path;
    char *at;
    int fd; /* of an archive, for all who read it; -1: a directory */
};

struct search_path {
    struct mount *mounts;
    unsigned count;
};

static int check_at(const char *at, struct ec_error *why);
static int mount_open(struct mount *mount, bool append, struct ec_error *why);
static int mount_find(const struct search_path *search, const char *path, const char *at,
                      struct ec_error *why);
static void mount_insert(struct search_path *search, struct mount mount, bool append);

static const char *physfs_text(void)
{
    const char *text = PHYSFS_getErrorByCode(PHYSFS_getLastErrorCode());

    return text != NULL ? text : "unknown error";
}

/* The number that the next descriptor will get. */
static int next_fd(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (fd >= 0)
        close(fd);
    return fd;
}

static bool is_file(int fd)
{
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

int search_path_create(struct search_path **search, struct ec_error *why)
{
    *search = calloc(1, sizeof **search);
    if (*search == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for the search path");
    if (!PHYSFS_init("engine-cored")) {
        free(*search);
        *search = NULL;
        return ec_fail(why, EC_ERR_SYSTEM, "PhysicsFS: %s", physfs_text());
    }
    PHYSFS_permitSymbolicLinks(0);
    if (!PHYSFS_deregisterArchiver("WAD") || !PHYSFS_registerArchiver(&archive_wad)) {
        const int rc = ec_fail(why, EC_ERR_SYSTEM, "PhysicsFS: archivers: %s", physfs_text());

        search_path_destroy(*search);
        *search = NULL;
        return rc;
    }
    return EC_OK;
}

void search_path_destroy(struct search_path *search)
{
    if (search == NULL)
        return;
    PHYSFS_deinit();
    for (unsigned i = 0; i < search->count; i++) {
        free(search->mounts[i].path);
        free(search->mounts[i].at);
        if (search->mounts[i].fd >= 0)
            close(search->mounts[i].fd);
    }
    free(search->mounts);
    free(search);
}

int search_path_check(const char *path, size_t bytes, struct ec_error *why)
{
    const char *end = path + bytes, *part = path;

    if (bytes == 0)
        return ec_fail(why, EC_ERR_PATH, "the path is empty");
    if (bytes >= SEARCH_PATH_BYTES)
        return ec_fail(why, EC_ERR_PATH, "the path has %zu bytes, at most %d are allowed", bytes,
                       SEARCH_PATH_BYTES - 1);
    for (const char *at = path; at <= end; at++) {
        size_t part_bytes = (size_t)(at - part);
        unsigned char byte = at < end ? (unsigned char)*at : '/';

        if (byte < 0x20 || byte == 0x7f)
            return ec_fail(why, EC_ERR_PATH, "byte %zu is a control character (0x%02x)",
                           (size_t)(at - path), byte);
        if (byte == '\\' || byte == ':')
            return ec_fail(why, EC_ERR_PATH, "%.*s contains '%c'", (int)bytes, path, byte);
        if (byte != '/')
            continue;
        if (part_bytes == 0)
            return ec_fail(why, EC_ERR_PATH, "%.*s is absolute or has an empty part", (int)bytes,
                           path);
        if (part[0] == '.' && (part_bytes == 1 || (part_bytes == 2 && part[1] == '.')))
            return ec_fail(why, EC_ERR_PATH, "%.*s contains '%.*s'", (int)bytes, path,
                           (int)part_bytes, part);
        part = at + 1;
    }
    return EC_OK;
}

int search_path_mount(struct search_path *search, const char *path, const char *at, bool append,
                      struct ec_error *why)
{
    struct mount mount = { .fd = -1 };
    struct mount *grown;
    int rc = search_path_check_mount(path, at, why);

    if (rc == EC_OK)
        rc = mount_find(search, path, at, why);
    if (rc != EC_AGAIN)
        return rc;
    mount.path = strdup(path);
    mount.at = strdup(at);
    grown = realloc(search->mounts, (search->count + 1) * sizeof *grown);
    if (grown != NULL)
        search->mounts = grown;
    if (grown == NULL || mount.path == NULL || mount.at == NULL) {
        rc = ec_fail(why, EC_ERR_MEMORY, "no memory to mount %s", path);
        goto fail;
    }
    rc = mount_open(&mount, append, why);
    if (rc < 0)
        goto fail;
    mount.row = (struct search_mount) { mount.path, mount.at };
    mount_insert(search, mount, append);
    return EC_OK;

fail:
    free(mount.path);
    free(mount.at);
    if (mount.fd >= 0)
        close(mount.fd);
    return rc;
}

static int mount_open(struct mount *mount, bool append, struct ec_error *why)
{
    int fd = open(mount->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return ec_fail(why, EC_ERR_PATH, "%s: %s", mount->path, strerror(errno));
    if (is_file(fd)) {
        mount->fd = fd;
        return archive_io_mount(fd, mount->path, mount->at, append, why);
    }
    close(fd);
    if (!PHYSFS_mount(mount->path, mount->at, append ? 1 : 0))
        return ec_fail(why, EC_ERR_PATH, "%s cannot be mounted: %s", mount->path, physfs_text());
    return EC_OK;
}

const struct search_mount *search_path_at(const struct search_path *search, unsigned index)
{
    return index < search->count ? &search->mounts[index].row : NULL;
}

static unsigned mount_of(const struct search_path *search, const char *path)
{
    const char *real = PHYSFS_getRealDir(path);
    unsigned index = 0;

    while (real != NULL && index < search->count && strcmp(search->mounts[index].path, real) != 0)
        index++;
    return real != NULL && index < search->count ? index : 0;
}

/* PhysicsFS does not tell which descriptor it reads a loose file from. It is the one that opening it made.
 * An entry of an archive that is unpacked as a whole has none. */
static void find_fd(struct search_entry *entry, int expected)
{
    entry->archive = archive_io_newest();
    entry->fd = entry->archive != NULL ? archive_io_fd(entry->archive)
                : is_file(expected)    ? expected
                                       : -1;
    if (entry->fd >= 0)
        entry->begin = lseek(expected, 0, SEEK_CUR);
}

int search_entry_open(const struct search_path *search, struct search_entry *entry,
                      const char *path, struct ec_error *why)
{
    PHYSFS_Stat stat;
    PHYSFS_ErrorCode code;
    PHYSFS_sint64 length;
    int fd;

    *entry = (struct search_entry) { .fd = -1 };
    if (!PHYSFS_stat(path, &stat)) {
        code = PHYSFS_getLastErrorCode();
        /* Without any mount PhysicsFS fails and names no error. */
        if (code == PHYSFS_ERR_NOT_FOUND || code == PHYSFS_ERR_NOT_MOUNTED || code == PHYSFS_ERR_OK)
            return ec_fail(why, EC_ERR_NOT_FOUND, "not found in the search path: %s", path);
        return ec_fail(why, EC_ERR_PATH, "%s", PHYSFS_getErrorByCode(code));
    }
    if (stat.filetype != PHYSFS_FILETYPE_REGULAR)
        return ec_fail(why, EC_ERR_PATH,
                       stat.filetype == PHYSFS_FILETYPE_DIRECTORY ? "is a directory"
                                                                  : "is not a regular file");
    entry->mount = mount_of(search, path);
    fd = next_fd();
    (void)archive_io_newest(); /* of others */
    entry->file = PHYSFS_openRead(path);
    if (entry->file == NULL) {
        code = PHYSFS_getLastErrorCode();
        return ec_fail(why, code == PHYSFS_ERR_OUT_OF_MEMORY ? EC_ERR_MEMORY : EC_ERR_PATH,
                       "open: %s", PHYSFS_getErrorByCode(code));
    }
    find_fd(entry, fd);
    /* Of the file that is open: the one that was looked at may have been replaced by a saved one since. */
    length = PHYSFS_fileLength(entry->file);
    if (length < 0) {
        search_entry_close(entry);
        return ec_fail(why, EC_ERR_PATH, "its size is not known");
    }
    entry->bytes = (uint64_t)length;
    return EC_OK;
}

int search_entry_read(struct search_entry *entry, void *to, uint64_t bytes, struct ec_error *why)
{
    PHYSFS_sint64 got = PHYSFS_readBytes(entry->file, to, bytes);

    if (got < 0)
        return ec_fail(why, EC_ERR_PATH, "read: %s", physfs_text());
    if ((uint64_t)got != bytes)
        return ec_fail(why, EC_ERR_SIZE, "ends after %" PRId64 " bytes, %" PRIu64 " were announced",
                       (int64_t)got, bytes);
    return EC_OK;
}

bool search_entry_at_end(struct search_entry *entry)
{
    unsigned char more;

    return PHYSFS_readBytes(entry->file, &more, 1) <= 0;
}

void search_entry_close(struct search_entry *entry)
{
    if (entry->file != NULL)
        PHYSFS_close(entry->file);
    entry->file = NULL;
}

void search_entry_forget(const struct search_entry *entry)
{
    const int64_t page = sysconf(_SC_PAGESIZE);
    int64_t begin = entry->begin, end = entry->fd >= 0 ? lseek(entry->fd, 0, SEEK_CUR) : -1;

    if (entry->archive != NULL)
        archive_io_span(entry->archive, &begin, &end);
    if (begin < 0 || end <= begin)
        return;
    /* Whole pages: of what the kernel keeps together it drops nothing unless it is told to drop all. */
    begin -= begin % page;
    end += (page - end % page) % page;
    posix_fadvise(entry->fd, begin, end - begin, POSIX_FADV_DONTNEED);
}

static int check_at(const char *at, struct ec_error *why)
{
    struct ec_error reason = { 0 };

    if (at[0] == '/' &&
        (at[1] == '\0' || search_path_check(at + 1, strlen(at + 1), &reason) == EC_OK))
        return EC_OK;
    return ec_fail(why, EC_ERR_PATH, "mount point %s is refused%s%s", at,
                   reason.text[0] != '\0' ? ": " : ", it must begin with /", reason.text);
}

int search_path_check_mount(const char *path, const char *at, struct ec_error *why)
{
    struct stat st;
    int rc;

    if (path[0] != '/')
        return ec_fail(why, EC_ERR_PATH, "%s is not an absolute path", path);
    rc = check_at(at, why);
    if (rc < 0)
        return rc;
    if (stat(path, &st) < 0)
        return ec_fail(why, errno == ENOENT || errno == ENOTDIR ? EC_ERR_NOT_FOUND : EC_ERR_PATH,
                       "%s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return ec_fail(why, EC_ERR_PATH, "%s is neither a directory nor a file", path);
    if (access(path, S_ISDIR(st.st_mode) ? R_OK | X_OK : R_OK) < 0)
        return ec_fail(why, EC_ERR_PATH, "%s: %s", path, strerror(errno));
    return EC_OK;
}

/* EC_AGAIN: not mounted yet. PhysicsFS would say yes to a second mount elsewhere and do nothing. */
static int mount_find(const struct search_path *search, const char *path, const char *at,
                      struct ec_error *why)
{
    for (unsigned i = 0; i < search->count; i++) {
        if (strcmp(search->mounts[i].path, path) != 0)
            continue;
        if (strcmp(search->mounts[i].at, at) == 0)
            return EC_OK;
        return ec_fail(why, EC_ERR_STATE, "%s is already mounted at %s", path,
                       search->mounts[i].at);
    }
    return EC_AGAIN;
}

static void mount_insert(struct search_path *search, struct mount mount, bool append)
{
    if (append) {
        search->mounts[search->count] = mount;
    } else {
        memmove(&search->mounts[1], &search->mounts[0], search->count * sizeof *search->mounts);
        search->mounts[0] = mount;
    }
    search->count++;
}
