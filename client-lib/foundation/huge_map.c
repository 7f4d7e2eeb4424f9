/* huge_map.c - reserve a little too much, give back what is before and behind. */
#include "foundation/huge_map.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define RESERVE_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

void *ec_huge_reserve(uint64_t offset, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *range, *base;
    size_t whole, before;

    if (bytes < EC_HUGE_BYTES)
        return mmap(NULL, bytes, PROT_NONE, RESERVE_FLAGS, -1, 0);
    if (bytes > SIZE_MAX - EC_HUGE_BYTES - page) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    whole = (bytes + page - 1) & ~(page - 1);
    range = mmap(NULL, whole + EC_HUGE_BYTES, PROT_NONE, RESERVE_FLAGS, -1, 0);
    if (range == MAP_FAILED)
        return range;
    before = ((size_t)offset - (uintptr_t)range) & (EC_HUGE_BYTES - 1);
    base = range + before;
    if (before > 0)
        munmap(range, before);
    munmap(base + whole, EC_HUGE_BYTES - before); /* a page at least */
    return base;
}

void *ec_huge_map(int fd, uint64_t offset, size_t bytes, int protection, int flags)
{
    void *range, *base;
    int code;

    if (bytes < EC_HUGE_BYTES)
        return mmap(NULL, bytes, protection, MAP_SHARED | flags, fd, (off_t)offset);
    range = ec_huge_reserve(offset, bytes);
    if (range == MAP_FAILED)
        return MAP_FAILED;
    base = mmap(range, bytes, protection, MAP_SHARED | MAP_FIXED | flags, fd, (off_t)offset);
    if (base == MAP_FAILED) {
        code = errno;
        munmap(range, bytes);
        errno = code;
    }
    return base;
}

void *ec_huge_alloc(size_t bytes)
{
    void *range = bytes > 0 ? ec_huge_reserve(0, bytes) : MAP_FAILED;

    if (range == MAP_FAILED)
        return NULL;
    if (mprotect(range, bytes, PROT_READ | PROT_WRITE) < 0) { /* counts it, as a malloc does */
        munmap(range, bytes);
        return NULL;
    }
    if (bytes >= EC_HUGE_BYTES)
        madvise(range, bytes, MADV_HUGEPAGE); /* a hint: where it is refused, small ones do */
    return range;
}

void ec_huge_free(void *memory, size_t bytes)
{
    if (memory != NULL)
        munmap(memory, bytes);
}
