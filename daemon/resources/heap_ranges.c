/* heap_ranges.c - a table of free ranges sorted by offset.
 *
 * Freed ranges keep the serial of their free and are not merged at once, because a merged range would
 * be as young as its youngest part, and old space would wait for nothing. They are merged when nothing
 * fits any more or the table is full. Merged, there is at most one free range more than taken ones,
 * so a table of twice that never overflows:
 *
 *     count <= 2 * taken_max + 2, and after a merge count <= taken + 1 */
#include "resources/heap_ranges.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static uint32_t first_from(const struct heap_ranges *ranges, uint64_t offset);
static bool find_oldest(const struct heap_ranges *ranges, uint64_t bytes, uint32_t *place);
static void cut(struct heap_ranges *ranges, uint32_t place, uint64_t offset, uint64_t bytes);
static void insert(struct heap_ranges *ranges, uint32_t place, struct heap_range range);
static void merge_all(struct heap_ranges *ranges);

int heap_ranges_init(struct heap_ranges *ranges, uint64_t offset, uint64_t bytes,
                     uint32_t taken_max, struct ec_error *why)
{
    *ranges = (struct heap_ranges) { .capacity = 2 * taken_max + 4 };
    if (offset % HEAP_PAGE_BYTES != 0 || bytes % HEAP_PAGE_BYTES != 0)
        return ec_fail(why, EC_ERR_PARAM, "heap range %" PRIu64 "+%" PRIu64 " is not whole pages",
                       offset, bytes);
    ranges->free = calloc(ranges->capacity, sizeof *ranges->free);
    if (ranges->free == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for %u heap ranges", ranges->capacity);
    if (bytes > 0)
        insert(ranges, 0, (struct heap_range) { .offset = offset, .bytes = bytes });
    ranges->free_bytes = bytes;
    return EC_OK;
}

void heap_ranges_finish(struct heap_ranges *ranges)
{
    free(ranges->free);
    *ranges = (struct heap_ranges) { 0 };
}

uint64_t heap_ranges_round(uint64_t bytes)
{
    if (bytes == 0)
        return HEAP_PAGE_BYTES;
    if (bytes > UINT64_MAX - HEAP_PAGE_BYTES)
        return UINT64_MAX & ~(uint64_t)(HEAP_PAGE_BYTES - 1); /* larger than any heap */
    return (bytes + HEAP_PAGE_BYTES - 1) & ~(uint64_t)(HEAP_PAGE_BYTES - 1);
}

int heap_ranges_take(struct heap_ranges *ranges, uint64_t bytes, uint64_t *offset)
{
    uint32_t place;

    bytes = heap_ranges_round(bytes);
    if (ranges->count + 1 >= ranges->capacity)
        merge_all(ranges); /* a cut may need one more place */
    if (!find_oldest(ranges, bytes, &place)) {
        merge_all(ranges);
        if (!find_oldest(ranges, bytes, &place))
            return EC_ERR_MEMORY;
    }
    *offset = ranges->free[place].offset;
    if (bytes >= HEAP_HUGE_BYTES)
        *offset = (*offset + HEAP_HUGE_BYTES - 1) & ~(uint64_t)(HEAP_HUGE_BYTES - 1);
    cut(ranges, place, *offset, bytes);
    ranges->free_bytes -= bytes;
    return EC_OK;
}

bool heap_ranges_take_at(struct heap_ranges *ranges, uint64_t offset, uint64_t bytes)
{
    bytes = heap_ranges_round(bytes);
    if (ranges->count + 1 >= ranges->capacity)
        merge_all(ranges);
    for (uint32_t i = 0; i < ranges->count; i++) {
        const struct heap_range *range = &ranges->free[i];

        if (offset < range->offset || offset >= range->offset + range->bytes)
            continue;
        if (bytes > range->offset + range->bytes - offset)
            return false;
        cut(ranges, i, offset, bytes);
        ranges->free_bytes -= bytes;
        return true;
    }
    return false;
}

void heap_ranges_give(struct heap_ranges *ranges, uint64_t offset, uint64_t bytes)
{
    uint32_t low;

    bytes = heap_ranges_round(bytes);
    if (ranges->count >= ranges->capacity)
        merge_all(ranges);
    low = first_from(ranges, offset);
    assert(low == 0 || ranges->free[low - 1].offset + ranges->free[low - 1].bytes <= offset);
    assert(low == ranges->count || offset + bytes <= ranges->free[low].offset);
    insert(ranges, low,
           (struct heap_range) { .offset = offset, .bytes = bytes, .freed_at = ++ranges->serial });
    ranges->free_bytes += bytes;
}

void heap_ranges_widen(const struct heap_ranges *ranges, uint64_t *begin, uint64_t *end)
{
    const uint64_t floor = *begin - *begin % HEAP_HUGE_BYTES;
    const uint64_t ceiling = (*end + HEAP_HUGE_BYTES - 1) / HEAP_HUGE_BYTES * HEAP_HUGE_BYTES;

    for (uint32_t i = first_from(ranges, *begin); i > 0 && *begin > floor; i--) {
        const struct heap_range *before = &ranges->free[i - 1];

        if (before->offset + before->bytes != *begin)
            break;
        *begin = before->offset > floor ? before->offset : floor;
    }
    for (uint32_t i = first_from(ranges, *end); i < ranges->count && *end < ceiling; i++) {
        const struct heap_range *behind = &ranges->free[i];

        if (behind->offset != *end)
            break;
        *end = behind->bytes < ceiling - *end ? *end + behind->bytes : ceiling;
    }
}

/* The place of the first range that does not begin before offset. */
static uint32_t first_from(const struct heap_ranges *ranges, uint64_t offset)
{
    uint32_t low = 0, high = ranges->count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (ranges->free[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Does the range hold bytes at the alignment that they need? */
static bool fits(const struct heap_range *range, uint64_t bytes)
{
    uint64_t lost = 0;

    if (bytes >= HEAP_HUGE_BYTES)
        lost = (HEAP_HUGE_BYTES - range->offset % HEAP_HUGE_BYTES) % HEAP_HUGE_BYTES;
    return range->bytes >= lost && range->bytes - lost >= bytes;
}

/* Of those that fit the one freed longest ago; of equals the first. */
static bool find_oldest(const struct heap_ranges *ranges, uint64_t bytes, uint32_t *place)
{
    bool found = false;

    for (uint32_t i = 0; i < ranges->count; i++)
        if (fits(&ranges->free[i], bytes) &&
            (!found || ranges->free[i].freed_at < ranges->free[*place].freed_at)) {
            *place = i;
            found = true;
        }
    return found;
}

/* Take [offset, offset + bytes) out of a range; what is left before and behind stays free. */
static void cut(struct heap_ranges *ranges, uint32_t place, uint64_t offset, uint64_t bytes)
{
    struct heap_range whole = ranges->free[place];
    uint64_t end = whole.offset + whole.bytes;
    bool before = offset > whole.offset, behind = offset + bytes < end;

    if (before) {
        ranges->free[place].bytes = offset - whole.offset;
        if (behind)
            insert(ranges, place + 1,
                   (struct heap_range) { offset + bytes, end - offset - bytes, whole.freed_at });
    } else if (behind) {
        ranges->free[place].offset = offset + bytes;
        ranges->free[place].bytes = end - offset - bytes;
    } else {
        ranges->count--;
        memmove(&ranges->free[place], &ranges->free[place + 1],
                (ranges->count - place) * sizeof *ranges->free);
    }
}

static void insert(struct heap_ranges *ranges, uint32_t place, struct heap_range range)
{
    assert(ranges->count < ranges->capacity);
    memmove(&ranges->free[place + 1], &ranges->free[place],
            (ranges->count - place) * sizeof *ranges->free);
    ranges->free[place] = range;
    ranges->count++;
}

/* Join neighbours that touch; the joined range is as young as its youngest part. */
static void merge_all(struct heap_ranges *ranges)
{
    uint32_t last = 0;

    for (uint32_t i = 1; i < ranges->count; i++) {
        struct heap_range *into = &ranges->free[last], *next = &ranges->free[i];

        if (into->offset + into->bytes != next->offset) {
            ranges->free[++last] = *next;
            continue;
        }
        into->bytes += next->bytes;
        if (next->freed_at > into->freed_at)
            into->freed_at = next->freed_at;
    }
    if (ranges->count > 0)
        ranges->count = last + 1;
}

void heap_ranges_measure(const struct heap_ranges *ranges, uint32_t *count, uint64_t *largest_bytes)
{
    uint64_t bytes = 0, end = 0;

    *count = 0;
    *largest_bytes = 0;
    for (uint32_t i = 0; i < ranges->count; i++) {
        const struct heap_range *range = &ranges->free[i];

        if (i == 0 || range->offset != end) {
            ++*count;
            bytes = 0;
        }
        bytes += range->bytes;
        end = range->offset + range->bytes;
        if (bytes > *largest_bytes)
            *largest_bytes = bytes;
    }
}
