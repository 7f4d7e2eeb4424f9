/* search_path.c - PhysicsFS with the checks that it does not make, or makes differently by archiver.
 *
 * Paths are checked here as text, before any archiver sees them, so that a name is refused for the
 * same reason whether it would be a loose file or an entry of an archive. Symbolic links are refused
 * by PhysicsFS itself (permitSymbolicLinks off). Anything that is not a regular file is refused before
 * it is opened: opening a FIFO would stop a worker for ever. */
#include "resources/search_path.h"

#include <errno.h>
#include <inttypes.h>
#include <physfs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct mount {
    struct search_mount row;
    char *path;
    char *at;
};

struct search_path {
    struct mount *mounts;
    unsigned count;
};

static int mount_check(const char *path, const char *at, struct ec_error *why);
static int mount_find(const struct search_path *search, const char *path, const char *at,
                      struct ec_error *why);
static void mount_insert(struct search_path *search, struct mount mount, bool append);

static const char *physfs_text(void)
{
    const char *text = PHYSFS_getErrorByCode(PHYSFS_getLastErrorCode());

    return text != NULL ? text : "unknown error";
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

int search_path_may_mount(const struct search_path *search, const char *path, const char *at,
                          struct ec_error *why)
{
    int rc = mount_check(path, at, why);

    return rc == EC_OK ? mount_find(search, path, at, why) : rc;
}

int search_path_mount(struct search_path *search, const char *path, const char *at, bool append,
                      struct ec_error *why)
{
    struct mount mount = { 0 };
    struct mount *grown;
    int rc = search_path_may_mount(search, path, at, why);

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
    if (!PHYSFS_mount(path, at, append ? 1 : 0)) {
        rc = ec_fail(why, EC_ERR_PATH, "%s cannot be mounted: %s", path, physfs_text());
        goto fail;
    }
    mount.row = (struct search_mount) { mount.path, mount.at };
    mount_insert(search, mount, append);
    return EC_OK;

fail:
    free(mount.path);
    free(mount.at);
    return rc;
}

const struct search_mount *search_path_at(const struct search_path *search, unsigned index)
{
    return index < search->count ? &search->mounts[index].row : NULL;
}

int search_entry_open(struct search_entry *entry, const char *path, struct ec_error *why)
{
    PHYSFS_Stat stat;
    PHYSFS_ErrorCode code;

    *entry = (struct search_entry) { 0 };
    if (!PHYSFS_stat(path, &stat)) {
        code = PHYSFS_getLastErrorCode();
        /* Without any mount PhysicsFS fails and names no error. */
        if (code == PHYSFS_ERR_NOT_FOUND || code == PHYSFS_ERR_NOT_MOUNTED || code == PHYSFS_ERR_OK)
            return ec_fail(why, EC_ERR_NOT_FOUND, "not found in the search path");
        return ec_fail(why, EC_ERR_PATH, "%s", PHYSFS_getErrorByCode(code));
    }
    if (stat.filetype != PHYSFS_FILETYPE_REGULAR)
        return ec_fail(why, EC_ERR_PATH,
                       stat.filetype == PHYSFS_FILETYPE_DIRECTORY ? "is a directory"
                                                                  : "is not a regular file");
    if (stat.filesize < 0)
        return ec_fail(why, EC_ERR_PATH, "its size is not known");
    entry->file = PHYSFS_openRead(path);
    if (entry->file == NULL)
        return ec_fail(why, EC_ERR_PATH, "open: %s", physfs_text());
    entry->bytes = (uint64_t)stat.filesize;
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

static int mount_check(const char *path, const char *at, struct ec_error *why)
{
    struct ec_error reason = { 0 };
    struct stat st;

    if (path[0] != '/')
        return ec_fail(why, EC_ERR_PATH, "%s is not an absolute path", path);
    if (at[0] != '/' ||
        (at[1] != '\0' && search_path_check(at + 1, strlen(at + 1), &reason) != EC_OK))
        return ec_fail(why, EC_ERR_PATH, "mount point %s is refused%s%s", at,
                       reason.text[0] != '\0' ? ": " : ", it must begin with /", reason.text);
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
