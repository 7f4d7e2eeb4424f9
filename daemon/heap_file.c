/* heap_file.c - fsopen and fsmount make a tmpfs without a place; O_TMPFILE makes a file without a name. */
#include "daemon/heap_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "foundation/huge_map.h"

static int make_tmpfs(const struct heap_file_desc *desc, struct ec_error *why);
static int open_directory(const char *path, struct ec_error *why);

int heap_file_open(const struct heap_file_desc *desc, int *fd, struct ec_error *why)
{
    const int directory =
        desc->path[0] != '\0' ? open_directory(desc->path, why) : make_tmpfs(desc, why);

    *fd = -1;
    if (directory < 0)
        return directory;
    *fd = openat(directory, ".", O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0400);
    if (*fd < 0)
        ec_fail(why, EC_ERR_SYSTEM, "make a file in the tmpfs: %s", strerror(errno));
    close(directory); /* the file keeps its tmpfs */
    return *fd >= 0 ? EC_OK : EC_ERR_SYSTEM;
}

static int configure(int context, const struct heap_file_desc *desc)
{
    char size[24];

    snprintf(size, sizeof size, "%" PRIu64, desc->bytes);
    if (fsconfig(context, FSCONFIG_SET_STRING, "size", size, 0) < 0 ||
        fsconfig(context, FSCONFIG_SET_STRING, "mode", "0700", 0) < 0 ||
        fsconfig(context, FSCONFIG_SET_STRING, "huge", desc->huge, 0) < 0)
        return -1;
    return fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
}

/* Returns the root of a new tmpfs, or an error. */
static int make_tmpfs(const struct heap_file_desc *desc, struct ec_error *why)
{
    int context, root = -1;

    if (strcmp(desc->huge, "always") != 0 && strcmp(desc->huge, "within_size") != 0 &&
        strcmp(desc->huge, "advise") != 0)
        return ec_fail(why, EC_ERR_PARAM, "%s, allowed are " HEAP_FILE_HUGE, desc->huge);
    context = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (context >= 0 && configure(context, desc) == 0)
        root = fsmount(context, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NODEV);
    if (root < 0)
        ec_fail(why, EC_ERR_SYSTEM, "make a tmpfs with huge=%s: %s", desc->huge, strerror(errno));
    if (context >= 0)
        close(context);
    return root >= 0 ? root : EC_ERR_SYSTEM;
}

static int open_directory(const char *path, struct ec_error *why)
{
    const int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct statfs fs;

    if (directory < 0)
        return ec_fail(why, errno == ENOENT ? EC_ERR_NOT_FOUND : EC_ERR_PATH, "%s: %s", path,
                       strerror(errno));
    if (fstatfs(directory, &fs) < 0 || fs.f_type != TMPFS_MAGIC) {
        close(directory);
        return ec_fail(why, EC_ERR_PATH, "%s is not in a tmpfs", path);
    }
    return directory;
}

/* The mapping's paragraph of /proc/self/smaps tells how much of it the kernel maps by huge entries. */
static uint64_t huge_of_mapping(const void *base)
{
    FILE *file = fopen("/proc/self/smaps", "re");
    char line[512];
    uint64_t kib = 0;
    bool inside = false;

    if (file == NULL)
        return 0;
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned long begin, end;

        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2) {
            if (inside)
                break;
            inside = begin == (unsigned long)base;
        } else if (inside) {
            (void)sscanf(line, "ShmemPmdMapped: %" SCNu64, &kib); /* other lines do not match */
        }
    }
    fclose(file);
    return kib * 1024;
}

/* A mapping of its own, which nobody touches meanwhile. Data may go between the look for it and the read;
 * then the read finds zeros, and a page comes for it that the next user of the range has anyway. */
uint64_t heap_file_huge_bytes(int fd, uint64_t bytes)
{
    void *again = ec_huge_map(fd, 0, bytes, PROT_READ, MAP_NORESERVE);
    uint64_t huge;

    if (again == MAP_FAILED)
        return 0;
    for (off_t at = lseek(fd, 0, SEEK_DATA); at >= 0;) {
        const off_t place = at & ~(off_t)(EC_HUGE_BYTES - 1);

        (void)*((volatile const unsigned char *)again + at);
        at = lseek(fd, place + (off_t)EC_HUGE_BYTES, SEEK_DATA);
    }
    huge = huge_of_mapping(again);
    munmap(again, bytes);
    return huge;
}
