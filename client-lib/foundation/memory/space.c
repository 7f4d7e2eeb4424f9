/* Pages of the system at any alignment; units of a range by first fit. */
#include "foundation/memory/space.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *map_aligned(size_t bytes, size_t align);
static size_t find_run(const struct ec_space *space, size_t units, size_t align);
static size_t last_taken(const struct ec_space *space, size_t from, size_t end);
static void mark(struct ec_space *space, size_t from, size_t units, bool taken);

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) & ~(unit - 1);
}

size_t ec_space_page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

int ec_space_init(struct ec_space *space, void *base, size_t bytes, struct ec_error *why)
{
    const size_t before = (size_t)(-(uintptr_t)base & (EC_SPACE_UNIT_BYTES - 1));
    const size_t units = bytes > before ? (bytes - before) / EC_SPACE_UNIT_BYTES : 0;
    int rc;

    *space = (struct ec_space) { .base = (char *)base + before, .units = units };
    if (units == 0)
        return ec_fail(why, EC_ERR_SIZE, "space has %zu bytes, expected at least %u", bytes,
                       EC_SPACE_UNIT_BYTES);
    rc = pthread_mutex_init(&space->lock, NULL);
    if (rc != 0) {
        *space = (struct ec_space) { 0 };
        return ec_fail(why, EC_ERR_SYSTEM, "make a lock: %s", strerror(rc));
    }
    space->taken = calloc((units + 63) / 64, sizeof *space->taken);
    if (space->taken == NULL) {
        pthread_mutex_destroy(&space->lock);
        *space = (struct ec_space) { 0 };
        return ec_fail(why, EC_ERR_MEMORY, "space: no memory");
    }
    return EC_OK;
}

void ec_space_finish(struct ec_space *space)
{
    if (space->taken == NULL)
        return;
    free(space->taken);
    pthread_mutex_destroy(&space->lock);
    *space = (struct ec_space) { 0 };
}

void *ec_space_map(struct ec_space *space, size_t bytes, size_t align)
{
    const size_t units = bytes / EC_SPACE_UNIT_BYTES + (bytes % EC_SPACE_UNIT_BYTES != 0);
    size_t from;

    if (space == NULL)
        return map_aligned(bytes, align);
    pthread_mutex_lock(&space->lock);
    from = find_run(space, units, align);
    if (from < space->units)
        mark(space, from, units, true);
    pthread_mutex_unlock(&space->lock);
    return from < space->units ? space->base + from * EC_SPACE_UNIT_BYTES : NULL;
}

void ec_space_unmap(struct ec_space *space, void *base, size_t bytes)
{
    const size_t units = bytes / EC_SPACE_UNIT_BYTES + (bytes % EC_SPACE_UNIT_BYTES != 0);

    if (space == NULL) {
        munmap(base, round_up(bytes, ec_space_page_bytes()));
        return;
    }
    pthread_mutex_lock(&space->lock);
    mark(space, (size_t)((char *)base - space->base) / EC_SPACE_UNIT_BYTES, units, false);
    pthread_mutex_unlock(&space->lock);
}

void *ec_space_map_guarded(size_t bytes, size_t align)
{
    const size_t page = ec_space_page_bytes(), room = round_up(bytes, page);
    char *base = map_aligned(room + page, align);

    if (base != NULL && mprotect(base + room, page, PROT_NONE) < 0) {
        munmap(base, room + page);
        return NULL;
    }
    return base;
}

void ec_space_unmap_guarded(void *base, size_t bytes)
{
    const size_t page = ec_space_page_bytes();

    munmap(base, round_up(bytes, page) + page);
}

/* The system tends to place a mapping right below the last one, so after the first of a kind the plain
 * call usually gives an aligned one. If not, map more and cut off the ends. */
static void *map_aligned(size_t bytes, size_t align)
{
    const int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    const size_t page = ec_space_page_bytes(), room = round_up(bytes, page);
    size_t before, more;
    char *base;

    if (room < bytes || __builtin_add_overflow(room, align, &more))
        return NULL;
    base = mmap(NULL, room, protection, flags, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    if (((uintptr_t)base & (align - 1)) == 0)
        return base;
    munmap(base, room);
    base = mmap(NULL, more, protection, flags, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    before = (size_t)(-(uintptr_t)base & (align - 1));
    if (before != 0)
        munmap(base, before);
    if (align - before != 0)
        munmap(base + before + room, align - before);
    return base + before;
}

/* The first unit of the first run of free ones that is long enough; space->units when there is none. */
static size_t find_run(const struct ec_space *space, size_t units, size_t align)
{
    const size_t bytes = align > EC_SPACE_UNIT_BYTES ? align : EC_SPACE_UNIT_BYTES;
    const size_t step = bytes / EC_SPACE_UNIT_BYTES;
    size_t from = (size_t)(-(uintptr_t)space->base & (bytes - 1)) / EC_SPACE_UNIT_BYTES;

    while (units <= space->units && from <= space->units - units) {
        const size_t taken = last_taken(space, from, from + units);

        if (taken == from + units)
            return from;
        while (from <= taken)
            from += step;
    }
    return space->units;
}

/* The last taken unit of [from, end), or end when all are free. */
static size_t last_taken(const struct ec_space *space, size_t from, size_t end)
{
    for (size_t unit = end; unit > from; unit--)
        if ((space->taken[(unit - 1) / 64] >> ((unit - 1) & 63) & 1) != 0)
            return unit - 1;
    return end;
}

static void mark(struct ec_space *space, size_t from, size_t units, bool taken)
{
    for (size_t unit = from; unit < from + units; unit++) {
        const uint64_t bit = 1ull << (unit & 63);

        if (taken)
            space->taken[unit / 64] |= bit;
        else
            space->taken[unit / 64] &= ~bit;
    }
}
