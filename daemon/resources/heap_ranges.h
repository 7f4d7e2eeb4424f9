/* heap_ranges.h - which pages of the asset heap are free.
 *
 * Only arithmetic: offsets in, offsets out, no memory is touched. Ranges are whole pages; large ones
 * are aligned so that huge pages fit. What was freed first is used again first, so that a stale
 * pointer of a game shows its old bytes' place empty for as long as possible.
 *
 * Thread:    one at a time (asset_heap.h locks).
 * Ownership: the table is allocated once at init; taking and giving never allocate, so giving never
 *            fails.
 * Cost:      linear in the number of free ranges. */
#ifndef RESOURCES_HEAP_RANGES_H
#define RESOURCES_HEAP_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "foundation/error.h"

#define HEAP_PAGE_BYTES 4096u
#define HEAP_HUGE_BYTES (2u << 20) /* from this size on ranges are aligned to it */

struct heap_range {
    uint64_t offset;
    uint64_t bytes;
    uint64_t freed_at; /* serial of the free; 0: never used before */
};

struct heap_ranges {
    struct heap_range *free; /* sorted by offset; neighbours may touch */
    uint32_t count;
    uint32_t capacity;
    uint64_t serial;
    uint64_t free_bytes;
};

/* All of [offset, offset + bytes) is free; at most taken_max ranges will be taken at once.
 *
 * Returns EC_OK, EC_ERR_PARAM (not whole pages) or EC_ERR_MEMORY. */
int heap_ranges_init(struct heap_ranges *ranges, uint64_t offset, uint64_t bytes,
                     uint32_t taken_max, struct ec_error *why);
void heap_ranges_finish(struct heap_ranges *ranges); /* accepts a zeroed one */

/* bytes rounded up to whole pages, at least one. */
uint64_t heap_ranges_round(uint64_t bytes);

/* Take a range of heap_ranges_round(bytes). Returns EC_OK or EC_ERR_MEMORY (no free range is large
 * enough; nothing was taken). */
int heap_ranges_take(struct heap_ranges *ranges, uint64_t bytes, uint64_t *offset);

/* Free ranges, neighbours that touch counted as one, and the largest of them. */
void heap_ranges_measure(const struct heap_ranges *ranges, uint32_t *count,
                         uint64_t *largest_bytes);

/* Take [offset, offset + heap_ranges_round(bytes)). false: not all of it is free; nothing was taken. */
bool heap_ranges_take_at(struct heap_ranges *ranges, uint64_t offset, uint64_t bytes);

/* Give back what take returned, with the same bytes. */
void heap_ranges_give(struct heap_ranges *ranges, uint64_t offset, uint64_t bytes);

/* How far the free memory around [*begin, *end), which is free, reaches within the huge pages that it
 * begins and ends in. */
void heap_ranges_widen(const struct heap_ranges *ranges, uint64_t *begin, uint64_t *end);

#endif
