/* engine-core/map.h - a hash map from keys of one size, or texts, to values of one size, on any allocator.
 *
 *     ec_map_init(&map, &(struct ec_map_desc){ .nodes = ec_pool_allocator(pool),
 *                                              .table = ec_heap_allocator(heap, EC_TAG_AI),
 *                                              .key_bytes = sizeof(uint64_t),
 *                                              .value_bytes = sizeof(struct target) });
 *     struct target *target = ec_map_put(&map, &id, NULL);
 *     …
 *     target = ec_map_get(&map, &id);
 *     ec_map_remove(&map, &id);
 *
 * Each entry is one block of ec_map_node_bytes, so a pool serves; the table of buckets grows, so it needs an
 * allocator with many sizes. Entries do not move: pointers to values stay good until they are removed.
 * Entries are visited in the order in which they were added.
 *
 * When it is full: an allocator that refuses makes ec_map_put return NULL, and nothing changes.
 *
 * Alignment: of values, 16.
 * Thread:    one at a time. Ownership: keys and values are copied; entries belong to the map.
 * Cost:      O(1); chains are kept short (uthash underneath, hash of Bob Jenkins). */
#ifndef ENGINE_CORE_MAP_H
#define ENGINE_CORE_MAP_H

#include <engine-core/allocator.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ec_map_node; /* opaque */

struct ec_map_desc {
    struct ec_allocator nodes;
    struct ec_allocator table; /* zero: that of the nodes */
    size_t key_bytes;          /* all of them count, padding too; 0: keys are texts */
    size_t value_bytes;        /* 0: a set */
};

/* The fields belong to the map. */
struct ec_map {
    struct ec_map_node *head;
    struct ec_map_desc desc;
};

EC_API void ec_map_init(struct ec_map *map, const struct ec_map_desc *desc);
EC_API void ec_map_finish(struct ec_map *map); /* accepts a zeroed one; good for another init */

/* Bytes of an entry; for a text `key` is its length. */
EC_API size_t ec_map_node_bytes(size_t key_bytes, size_t value_bytes);

EC_API size_t ec_map_count(const struct ec_map *map);

/* The value for the key; NULL: there is none. */
EC_API void *ec_map_get(const struct ec_map *map, const void *key);

/* Add or replace. value NULL: a new one is zero, and one that is there stays. Returns the value, or NULL: no
 * memory. */
EC_API void *ec_map_put(struct ec_map *map, const void *key, const void *value);

/* Returns EC_OK or EC_ERR_NOT_FOUND. */
EC_API int ec_map_remove(struct ec_map *map, const void *key);

EC_API void ec_map_clear(struct ec_map *map);

/* The entry after this one, or the first for NULL; NULL at the end. The entry that you are at may be
 * removed once the next one is known. */
EC_API struct ec_map_node *ec_map_next(const struct ec_map *map, const struct ec_map_node *node);
EC_API const void *ec_map_key(const struct ec_map_node *node);
EC_API void *ec_map_value(struct ec_map_node *node);

#ifdef __cplusplus
}
#endif
#endif
