/* Map: uthash over blocks of the two allocators.
 *
 *   | node | value, at a multiple of 16 | key |
 *
 * uthash asks for memory through macros, which find the map by its name in the functions below. Out of
 * memory it leaves the new entry out. */
#include <engine-core/map.h>

#include <stdalign.h>
#include <stdbool.h>
#include <string.h>

static void *table_alloc(const struct ec_map *map, size_t bytes);
static void table_free(const struct ec_map *map, void *block, size_t bytes);

#define HASH_NONFATAL_OOM 1
#define uthash_malloc(bytes) table_alloc(map, bytes)
#define uthash_free(block, bytes) table_free(map, block, bytes)
#define uthash_nonfatal_oom(element) left_out = true
#include <uthash.h>

struct ec_map_node {
    alignas(16) UT_hash_handle hh;
    size_t key_bytes;
};

static size_t key_bytes_of(const struct ec_map *map, const void *key);
static struct ec_map_node *find(const struct ec_map *map, const void *key);
static void free_node(const struct ec_map *map, struct ec_map_node *node);

static size_t value_room(size_t value_bytes)
{
    return (value_bytes + 15) & ~(size_t)15;
}

static void *value_of(struct ec_map_node *node)
{
    return node + 1;
}

static char *key_of(const struct ec_map *map, struct ec_map_node *node)
{
    return (char *)value_of(node) + value_room(map->desc.value_bytes);
}

void ec_map_init(struct ec_map *map, const struct ec_map_desc *desc)
{
    *map = (struct ec_map) { .desc = *desc };
    if (desc->table.methods == NULL)
        map->desc.table = desc->nodes;
}

void ec_map_finish(struct ec_map *map)
{
    ec_map_clear(map);
}

size_t ec_map_node_bytes(size_t key_bytes, size_t value_bytes)
{
    return sizeof(struct ec_map_node) + value_room(value_bytes) + key_bytes;
}

size_t ec_map_count(const struct ec_map *map)
{
    return HASH_COUNT(map->head);
}

void *ec_map_get(const struct ec_map *map, const void *key)
{
    struct ec_map_node *node = find(map, key);

    return node != NULL ? value_of(node) : NULL;
}

void *ec_map_put(struct ec_map *map, const void *key, const void *value)
{
    const size_t key_bytes = key_bytes_of(map, key), value_bytes = map->desc.value_bytes;
    struct ec_map_node *node = find(map, key);
    bool left_out = false;

    if (node == NULL) {
        if (key_bytes > UINT32_MAX)
            return NULL;
        node = ec_allocator_alloc(&map->desc.nodes, ec_map_node_bytes(key_bytes, value_bytes), 16);
        if (node == NULL)
            return NULL;
        memset(node, 0, sizeof *node + value_bytes);
        node->key_bytes = key_bytes;
        memcpy(key_of(map, node), key, key_bytes);
        HASH_ADD_KEYPTR(hh, map->head, key_of(map, node), (unsigned)key_bytes, node);
        if (left_out) {
            free_node(map, node);
            return NULL;
        }
    }
    if (value != NULL)
        memcpy(value_of(node), value, value_bytes);
    return value_of(node);
}

int ec_map_remove(struct ec_map *map, const void *key)
{
    struct ec_map_node *node = find(map, key);

    if (node == NULL)
        return EC_ERR_NOT_FOUND;
    HASH_DEL(map->head, node);
    free_node(map, node);
    return EC_OK;
}

void ec_map_clear(struct ec_map *map)
{
    struct ec_map_node *node = map->head, *next;

    HASH_CLEAR(hh, map->head); /* the table alone; the nodes keep their order */
    for (; node != NULL; node = next) {
        next = node->hh.next;
        free_node(map, node);
    }
}

struct ec_map_node *ec_map_next(const struct ec_map *map, const struct ec_map_node *node)
{
    return node != NULL ? node->hh.next : map->head;
}

const void *ec_map_key(const struct ec_map_node *node)
{
    return node->hh.key;
}

void *ec_map_value(struct ec_map_node *node)
{
    return value_of(node);
}

/* A text keeps its NUL, so that it is found as a text. */
static size_t key_bytes_of(const struct ec_map *map, const void *key)
{
    return map->desc.key_bytes != 0 ? map->desc.key_bytes : strlen(key) + 1;
}

static struct ec_map_node *find(const struct ec_map *map, const void *key)
{
    struct ec_map_node *node;

    HASH_FIND(hh, map->head, key, (unsigned)key_bytes_of(map, key), node);
    return node;
}

static void free_node(const struct ec_map *map, struct ec_map_node *node)
{
    ec_allocator_free(&map->desc.nodes, node,
                      ec_map_node_bytes(node->key_bytes, map->desc.value_bytes));
}

static void *table_alloc(const struct ec_map *map, size_t bytes)
{
    return ec_allocator_alloc(&map->desc.table, bytes, 16);
}

static void table_free(const struct ec_map *map, void *block, size_t bytes)
{
    ec_allocator_free(&map->desc.table, block, bytes);
}
