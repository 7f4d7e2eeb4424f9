/* segment.c - create, seal, map and check segments.
 *
 * The order at creation matters: size, map writable, fill in the header, and only then seal. After
 * FUTURE_WRITE the kernel refuses every further writable mapping, also through the same descriptor
 * and through a descriptor that was opened again in /proc, so the mapping made here stays the only
 * one. SHRINK keeps a reader from SIGBUS: the file can never get shorter than it was when checked.
 *
 * Of a mirrored segment the part from mirror_offset on lies twice in a row:
 *
 *   base                 base + mirror_offset            base + bytes                 + mapped_bytes
 *   | header, structure  | [mirror_offset, bytes)        | [mirror_offset, bytes) again |
 *
 * The whole range is reserved first, so that nothing else can come to lie inside it. */
#include "segment/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "foundation/huge_map.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* since Linux 5.14 */
#endif

#define WRITE_SEALS (F_SEAL_FUTURE_WRITE | F_SEAL_WRITE)
#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static uint64_t page_round(uint64_t bytes);
static int desc_check(const struct ec_segment_desc *desc, struct ec_error *why);
static int map_range(int fd, uint64_t bytes, uint64_t mirror_offset, int protection, void **base,
                     uint64_t *mapped_bytes, struct ec_error *why);
static int populate(const struct ec_segment *segment, uint64_t mirror_used, struct ec_error *why);
static int file_check(int fd, uint32_t kind, uint64_t bytes_min, uint64_t bytes_max,
                      uint64_t *bytes, struct ec_error *why);
static int header_copy(int fd, struct ec_segment_header *header, struct ec_error *why);

int ec_segment_init(struct ec_segment *segment, const struct ec_segment_desc *desc,
                    struct ec_error *why)
{
    const bool is_open = desc->punchable || desc->adoptable; /* for writable mappings */
    int seals = SIZE_SEALS | F_SEAL_SEAL | (is_open ? 0 : F_SEAL_FUTURE_WRITE);
    mode_t mode = is_open ? 0400 : 0600; /* a memfd starts with 0777 */
    int rc;

    *segment = (struct ec_segment) { .fd = -1 };
    rc = desc_check(desc, why);
    if (rc < 0)
        goto fail;
    segment->bytes = page_round(desc->bytes);
    segment->fd = desc->file_fd > 0 ? desc->file_fd
                                    : memfd_create(desc->name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (segment->fd < 0) {
        rc = ec_fail(why, EC_ERR_SYSTEM, "memfd_create: %s", strerror(errno));
        goto fail;
    }
    if (fchmod(segment->fd, mode) < 0 || ftruncate(segment->fd, (off_t)segment->bytes) < 0) {
        rc = ec_fail(why, EC_ERR_SYSTEM, "set mode and size %" PRIu64 ": %s", segment->bytes,
                     strerror(errno));
        goto fail;
    }
    rc = map_range(segment->fd, segment->bytes, desc->mirror_offset, PROT_READ | PROT_WRITE,
                   &segment->base, &segment->mapped_bytes, why);
    if (rc < 0)
        goto fail;
    if (madvise(segment->base, segment->mapped_bytes, MADV_DONTFORK) < 0) {
        rc = ec_fail(why, EC_ERR_SYSTEM, "madvise DONTFORK: %s", strerror(errno));
        goto fail;
    }
    if (desc->populate) {
        rc = populate(segment, desc->mirror_used, why);
        if (rc < 0)
            goto fail;
    }
    *(struct ec_segment_header *)segment->base = (struct ec_segment_header) {
        .magic = EC_SEGMENT_MAGIC,
        .kind = desc->kind,
        .layout_major = ec_layout_of(desc->kind)->major,
        .layout_minor = ec_layout_of(desc->kind)->minor,
        .total_bytes = segment->bytes,
        .layout_hash = ec_layout_hash(desc->kind),
        .writer_client_id = desc->client_id,
        .instance = desc->instance,
    };
    if (desc->file_fd == 0 && fcntl(segment->fd, F_ADD_SEALS, seals) < 0) {
        rc = ec_fail(why, EC_ERR_SYSTEM, "add seals: %s", strerror(errno));
        goto fail;
    }
    return EC_OK;

fail:
    ec_segment_finish(segment);
    return ec_error_prefix(why, rc, "create segment %s", desc->name);
}

int ec_segment_adopt(struct ec_segment *segment, int fd, const struct ec_segment_desc *desc,
                     struct ec_error *why)
{
    const uint64_t bytes = page_round(desc->bytes);
    struct ec_segment_header header;
    struct stat st;
    int rc;

    *segment = (struct ec_segment) { .fd = fd };
    rc = file_check(fd, desc->kind, bytes, bytes, &segment->bytes, why);
    if (rc == EC_OK &&
        (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 0777) != 0400))
        rc = ec_fail(why, EC_ERR_PERMISSION, "it does not belong to uid %u alone",
                     (unsigned)geteuid());
    if (rc == EC_OK)
        rc = header_copy(fd, &header, why);
    if (rc == EC_OK)
        rc = ec_segment_check(&header, desc->kind, segment->bytes, why);
    if (rc == EC_OK && (header.instance != desc->instance ||
                        header.layout_minor != ec_layout_of(desc->kind)->minor))
        rc = ec_fail(why, EC_ERR_LAYOUT, "it is of instance 0x%" PRIx64 ", layout minor %u",
                     header.instance, header.layout_minor);
    if (rc == EC_OK)
        rc = map_range(fd, segment->bytes, 0, PROT_READ | PROT_WRITE, &segment->base,
                       &segment->mapped_bytes, why);
    if (rc == EC_OK && madvise(segment->base, segment->mapped_bytes, MADV_DONTFORK) < 0)
        rc = ec_fail(why, EC_ERR_SYSTEM, "madvise DONTFORK: %s", strerror(errno));
    if (rc == EC_OK && desc->populate)
        rc = populate(segment, desc->mirror_used, why);
    if (rc < 0) {
        ec_segment_finish(segment);
        return ec_error_prefix(why, rc, "adopt segment %s", desc->name);
    }
    return EC_OK;
}

void ec_segment_finish(struct ec_segment *segment)
{
    if (segment->base != NULL)
        munmap(segment->base, segment->mapped_bytes);
    if (segment->fd > 0 || (segment->fd == 0 && segment->bytes != 0)) /* 0 in a zeroed one */
        close(segment->fd);
    *segment = (struct ec_segment) { .fd = -1 };
}

void ec_segment_name_writer(struct ec_segment *segment, uint64_t client_id, uint64_t instance)
{
    struct ec_segment_header *header = segment->base;

    header->writer_client_id = client_id;
    header->instance = instance;
}

int ec_segment_map_init(struct ec_segment_map *map, int fd, uint32_t kind, uint64_t bytes_min,
                        uint64_t bytes_max, struct ec_error *why)
{
    void *base;
    int rc;

    *map = (struct ec_segment_map) { 0 };
    rc = file_check(fd, kind, bytes_min, bytes_max, &map->bytes, why);
    if (rc == EC_OK)
        rc = header_copy(fd, &map->header, why);
    if (rc == EC_OK)
        rc = ec_segment_check(&map->header, kind, map->bytes, why);
    if (rc == EC_OK)
        rc = map_range(fd, map->bytes, 0, PROT_READ, &base, &map->mapped_bytes, why);
    if (rc < 0)
        return ec_error_prefix(why, rc, "map segment fd %d", fd);
    map->base = base;
    return EC_OK;
}

int ec_segment_map_over(const void *base, uint64_t bytes, int fd)
{
    const int flags = MAP_FIXED | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
    /* Not by mmap(): TSan would take that for a write to memory that others read. All arguments are as
     * wide as registers: of an int on the stack the upper half would be anything. */
    const long rc =
        syscall(SYS_mmap, (uintptr_t)base, bytes, (long)PROT_READ, (long)flags, (long)fd, 0L);

    return rc == -1 ? errno : 0;
}

int ec_segment_map_replace(struct ec_segment_map *map, int fd, uint32_t kind, uint64_t bytes_max,
                           struct ec_error *why)
{
    struct ec_segment_header header;
    uint64_t bytes;
    int code;
    int rc = file_check(fd, kind, map->bytes, bytes_max, &bytes, why);

    if (rc == EC_OK)
        rc = header_copy(fd, &header, why);
    if (rc == EC_OK)
        rc = ec_segment_check(&header, kind, bytes, why);
    if (rc == EC_OK && (code = ec_segment_map_over(map->base, map->bytes, fd)) != 0)
        rc = ec_fail(why, EC_ERR_SYSTEM, "mmap %" PRIu64 " bytes: %s", map->bytes, strerror(code));
    if (rc < 0)
        return ec_error_prefix(why, rc, "map segment fd %d again", fd);
    map->header = header;
    return EC_OK;
}

int ec_segment_map_mirror(struct ec_segment_map *map, int fd, uint64_t offset, struct ec_error *why)
{
    uint64_t mapped_bytes;
    void *base;
    int rc;

    if (offset == 0 || offset >= map->bytes || offset != page_round(offset))
        return ec_fail(why, EC_ERR_LAYOUT,
                       "mirror fd %d: offset is %" PRIu64 ", expected whole pages below %" PRIu64,
                       fd, offset, map->bytes);
    rc = map_range(fd, map->bytes, offset, PROT_READ, &base, &mapped_bytes, why);
    if (rc < 0)
        return ec_error_prefix(why, rc, "mirror segment fd %d", fd);
    munmap((void *)(uintptr_t)map->base, map->mapped_bytes);
    map->base = base;
    map->mapped_bytes = mapped_bytes;
    return EC_OK;
}

void ec_segment_map_finish(struct ec_segment_map *map)
{
    if (map->base != NULL)
        munmap((void *)(uintptr_t)map->base, map->mapped_bytes);
    *map = (struct ec_segment_map) { 0 };
}

bool ec_segment_mismatch(const struct ec_segment_header *header, uint32_t kind, uint64_t file_bytes,
                         struct ec_segment_mismatch *mismatch)
{
    const struct ec_layout *layout = ec_layout_of(kind);
    const struct ec_segment_mismatch fields[] = {
        { "magic", header->magic, EC_SEGMENT_MAGIC },
        { "kind", header->kind, kind },
        { "layout_major", header->layout_major, layout == NULL ? 0 : layout->major },
        { "layout_hash", header->layout_hash, ec_layout_hash(kind) },
        { "total_bytes", header->total_bytes, file_bytes },
    };

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (fields[i].got != fields[i].expected) {
            *mismatch = fields[i];
            return true;
        }
    return false;
}

int ec_segment_check(const struct ec_segment_header *header, uint32_t kind, uint64_t file_bytes,
                     struct ec_error *why)
{
    struct ec_segment_mismatch mismatch;

    if (!ec_segment_mismatch(header, kind, file_bytes, &mismatch))
        return EC_OK;
    if (strcmp(mismatch.field, "magic") == 0 || strcmp(mismatch.field, "layout_hash") == 0)
        return ec_fail(why, EC_ERR_LAYOUT, "%s is 0x%" PRIx64 ", expected 0x%" PRIx64,
                       mismatch.field, mismatch.got, mismatch.expected);
    return ec_fail(why, EC_ERR_LAYOUT, "%s is %" PRIu64 ", expected %" PRIu64, mismatch.field,
                   mismatch.got, mismatch.expected);
}

static uint64_t page_round(uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    return (bytes + page - 1) & ~(page - 1);
}

static int desc_check(const struct ec_segment_desc *desc, struct ec_error *why)
{
    if (ec_layout_of(desc->kind) == NULL)
        return ec_fail(why, EC_ERR_PARAM, "kind %" PRIu32 " does not exist", desc->kind);
    if (desc->bytes < EC_SEGMENT_HEADER_BYTES || desc->bytes > EC_SEGMENT_BYTES_MAX)
        return ec_fail(why, EC_ERR_PARAM, "%" PRIu64 " bytes, expected %d..%llu", desc->bytes,
                       EC_SEGMENT_HEADER_BYTES, EC_SEGMENT_BYTES_MAX);
    if (desc->mirror_offset != page_round(desc->mirror_offset) ||
        desc->mirror_offset >= desc->bytes)
        return ec_fail(why, EC_ERR_PARAM,
                       "mirror offset is %" PRIu64 ", expected whole pages below %" PRIu64,
                       desc->mirror_offset, desc->bytes);
    if (desc->mirror_used > (desc->mirror_offset == 0 ? 0 : desc->bytes - desc->mirror_offset))
        return ec_fail(why, EC_ERR_PARAM,
                       "%" PRIu64 " bytes of the mirror are used, of which there are %" PRIu64,
                       desc->mirror_used,
                       desc->mirror_offset == 0 ? 0 : desc->bytes - desc->mirror_offset);
    return EC_OK;
}

/* Map the file, and from mirror_offset on a second time directly behind it unless that is 0. */
static int map_range(int fd, uint64_t bytes, uint64_t mirror_offset, int protection, void **base,
                     uint64_t *mapped_bytes, struct ec_error *why)
{
    uint64_t again = mirror_offset == 0 ? 0 : bytes - mirror_offset;
    unsigned char *range;

    range = ec_huge_reserve(0, bytes + again);
    if (range == MAP_FAILED)
        return ec_fail(why, EC_ERR_MEMORY, "reserve %" PRIu64 " bytes: %s", bytes + again,
                       strerror(errno));
    if (mmap(range, bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED ||
        (again != 0 && mmap(range + bytes, again, protection, MAP_SHARED | MAP_FIXED, fd,
                            (off_t)mirror_offset) == MAP_FAILED)) {
        int code = errno == ENOMEM ? EC_ERR_MEMORY : EC_ERR_SYSTEM;

        code = ec_fail(why, code, "mmap %" PRIu64 " bytes: %s", bytes, strerror(errno));
        munmap(range, bytes + again);
        return code;
    }
    *base = range;
    *mapped_bytes = bytes + again;
    return EC_OK;
}

/* Reserve the pages, so that a shortage is an error here and not a SIGBUS later, then enter them in
 * the page table. */
static int populate(const struct ec_segment *segment, uint64_t mirror_used, struct ec_error *why)
{
    const uint64_t page = page_round(1), touched = segment->bytes + page_round(mirror_used);

    while (fallocate(segment->fd, 0, 0, (off_t)segment->bytes) < 0)
        if (errno != EINTR)
            return ec_fail(why, EC_ERR_MEMORY, "reserve %" PRIu64 " bytes: %s", segment->bytes,
                           strerror(errno));
    if (madvise(segment->base, touched, MADV_POPULATE_WRITE) == 0)
        return EC_OK;
    if (errno != EINVAL) /* before Linux 5.14 the kernel does not know it: then by hand */
        return ec_fail(why, errno == ENOMEM ? EC_ERR_MEMORY : EC_ERR_SYSTEM, "populate: %s",
                       strerror(errno));
    for (uint64_t at = 0; at < touched; at += page)
        ((volatile unsigned char *)segment->base)[at] = 0; /* nothing was written yet */
    return EC_OK;
}

/* A heap in a tmpfs of its own has no seals but the one against seals, and a mode that lets nobody else
 * open it for writing; only the daemon hands heaps out. */
static bool is_heap_file(uint32_t kind, const struct stat *st, int seals)
{
    return kind == EC_SEGMENT_HEAP && seals == F_SEAL_SEAL && (st->st_mode & 0777) == 0400 &&
           st->st_nlink == 0;
}

/* Only a memfd on ordinary pages can be trusted not to fault: a file of a file system can be cut, and
 * the pool of huge pages can run dry under a reader. */
static int file_check(int fd, uint32_t kind, uint64_t bytes_min, uint64_t bytes_max,
                      uint64_t *bytes, struct ec_error *why)
{
    struct statfs fs;
    struct stat st;
    int seals;

    if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "fstat: %s", strerror(errno));
    seals = S_ISREG(st.st_mode) && fs.f_type == TMPFS_MAGIC ? fcntl(fd, F_GET_SEALS) : -1;
    if (seals < 0)
        return ec_fail(why, EC_ERR_LAYOUT, "file mode is 0%o, expected a memfd", st.st_mode);
    if ((seals & SIZE_SEALS) != SIZE_SEALS && !is_heap_file(kind, &st, seals))
        return ec_fail(why, EC_ERR_LAYOUT, "seals are 0x%x, expected SHRINK and GROW (0x%x)",
                       (unsigned)seals, (unsigned)SIZE_SEALS);
    /* A daemon that keeps its segments over a restart has to map them writable again. */
    if (kind != EC_SEGMENT_HEAP && kind != EC_SEGMENT_CLOCK && kind != EC_SEGMENT_DIRECTORY &&
        (seals & WRITE_SEALS) == 0)
        return ec_fail(why, EC_ERR_LAYOUT, "seals are 0x%x, expected FUTURE_WRITE (0x%x)",
                       (unsigned)seals, (unsigned)F_SEAL_FUTURE_WRITE);
    *bytes = (uint64_t)st.st_size;
    if (bytes_min < EC_SEGMENT_HEADER_BYTES)
        bytes_min = EC_SEGMENT_HEADER_BYTES;
    if (*bytes < bytes_min || *bytes > bytes_max || *bytes != page_round(*bytes))
        return ec_fail(why, EC_ERR_SIZE,
                       "size is %" PRIu64 ", expected whole pages in %" PRIu64 "..%" PRIu64, *bytes,
                       bytes_min, bytes_max);
    return EC_OK;
}

/* The one look at the header: what is checked is what is used. */
static int header_copy(int fd, struct ec_segment_header *header, struct ec_error *why)
{
    ssize_t got;

    do
        got = pread(fd, header, sizeof *header, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "read header: %s", strerror(errno));
    if ((size_t)got != sizeof *header)
        return ec_fail(why, EC_ERR_LAYOUT, "header has %zd bytes, expected %zu", got,
                       sizeof *header);
    return EC_OK;
}
