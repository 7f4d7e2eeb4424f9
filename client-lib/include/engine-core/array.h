/* engine-core/array.h - a growing array of items of one size, on any allocator.
 *
 *     struct ec_allocator from = ec_heap_allocator(heap, EC_TAG_AI);
 *     struct ec_array targets;
 *
 *     ec_array_init(&targets, &from, sizeof(struct target));
 *     ec_array_add(&targets, &(struct target){ .x = 1 });
 *     for (size_t i = 0; i < targets.count; i++)
 *         aim(EC_ARRAY_AT(&targets, struct target, i));
 *     ec_array_finish(&targets);
 *
 * On a frame arena take <engine-core/frame_array.h>, which knows when its frame is over.
 *
 * When it is full: room doubles. A function that cannot get room returns NULL or EC_ERR_MEMORY and changes
 * nothing; EC_ERR_SIZE when the bytes would overflow.
 *
 * Alignment: of the items, 16.
 * Thread:    one at a time. Ownership: items belong to the array; they move when it grows.
 * Cost:      adding is amortised O(1). */
#ifndef ENGINE_CORE_ARRAY_H
#define ENGINE_CORE_ARRAY_H

#include <engine-core/allocator.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Read items and count as you like; the rest belongs to the array. */
struct ec_array {
    void *items; /* NULL while there is no room */
    size_t count;
    size_t room; /* items that fit */
    size_t item_bytes;
    struct ec_allocator from;
};

/* The item at an index below count. */
#define EC_ARRAY_AT(array, type, index) (&((type *)(array)->items)[index])

/* item_bytes >= 1. Nothing is allocated yet. */
EC_API void ec_array_init(struct ec_array *array, const struct ec_allocator *from,
                          size_t item_bytes);
EC_API void
ec_array_finish(struct ec_array *array); /* accepts a zeroed one; good for another init */

/* Room for so many items in all. Returns EC_OK, EC_ERR_SIZE, EC_ERR_MEMORY. */
EC_API int ec_array_reserve(struct ec_array *array, size_t room);

/* Copy an item to the end; item NULL: make room for one, not cleared. Returns where it is, or NULL. The item
 * may lie in the array itself. */
EC_API void *ec_array_add(struct ec_array *array, const void *item);

/* The same at an index up to count; later ones move up. */
EC_API void *ec_array_insert(struct ec_array *array, size_t index, const void *item);

/* Take out an item. swap: the last one takes its place, in O(1); else later ones move down.
 *
 * Returns EC_OK or EC_ERR_PARAM (no such index). */
EC_API int ec_array_remove(struct ec_array *array, size_t index);
EC_API int ec_array_remove_swap(struct ec_array *array, size_t index);

EC_API void ec_array_clear(struct ec_array *array); /* keeps the room */

/* Give back room that is not used. Returns EC_OK or EC_ERR_MEMORY (then nothing changed). */
EC_API int ec_array_shrink(struct ec_array *array);

#ifdef __cplusplus
}
#endif
#endif
