/* The map promises to know each key's newest value, in the order of addition, from any allocator. */
#include <engine-core/map.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "foundation/memory/arena.h"
#include "foundation/memory/heap.h"
#include "foundation/memory/pool.h"
#include "support/often.h"

#define KEYS 2000

/* Nodes in a pool, the table in a heap; all of both goes back. */
START_TEST(it_agrees_with_a_table_of_all_keys)
{
    static uint64_t values[KEYS];
    struct ec_memory_stats stats;
    struct ec_pool *pool;
    struct ec_heap *heap;
    struct ec_map map;
    size_t count = 0;

    srand(8);
    ck_assert_int_eq(
        ec_pool_create_in(NULL,
                          &(struct ec_pool_desc) { .name = "nodes",
                                                   .block_bytes = ec_map_node_bytes(
                                                       sizeof(uint32_t), sizeof(uint64_t)) },
                          &pool, NULL),
        EC_OK);
    ck_assert_int_eq(ec_heap_create_in(NULL, &(struct ec_heap_desc) { .name = "h" }, &heap, NULL),
                     EC_OK);
    ec_map_init(&map, &(struct ec_map_desc) { .nodes = ec_pool_allocator(pool),
                                              .table = ec_heap_allocator(heap, 0),
                                              .key_bytes = sizeof(uint32_t),
                                              .value_bytes = sizeof(uint64_t) });
    for (uint64_t round = 1; round < 100000; round++) {
        const uint32_t key = (uint32_t)rand() % KEYS;
        const uint64_t *found = ec_map_get(&map, &key);

        ASSERT_OFTEN(found == NULL ? values[key] == 0 : *found == values[key]);
        ASSERT_OFTEN((uintptr_t)found % 16 == 0);
        if (rand() % 2 == 0) {
            ASSERT_OFTEN(ec_map_put(&map, &key, &round) != NULL);
            count += values[key] == 0;
            values[key] = round;
        } else {
            ASSERT_OFTEN(ec_map_remove(&map, &key) ==
                         (values[key] != 0 ? EC_OK : EC_ERR_NOT_FOUND));
            count -= values[key] != 0;
            values[key] = 0;
        }
        ASSERT_OFTEN(ec_map_count(&map) == count);
    }
    for (struct ec_map_node *node = ec_map_next(&map, NULL); node != NULL;
         node = ec_map_next(&map, node)) {
        ASSERT_OFTEN(values[*(const uint32_t *)ec_map_key(node)] ==
                     *(const uint64_t *)ec_map_value(node));
        count--;
    }
    ck_assert_uint_eq(count, 0);
    ec_map_finish(&map);
    ck_assert_uint_eq(ec_map_count(&map), 0);
    ec_pool_stats(pool, &stats);
    ck_assert_uint_eq(stats.count, 0);
    ck_assert_uint_gt(stats.total, 1000);
    ec_heap_stats(heap, &stats);
    ck_assert_uint_eq(stats.count, 0);
    ec_pool_destroy(pool);
    ec_heap_destroy(heap);
}
END_TEST

START_TEST(texts_are_keys_and_come_in_order)
{
    struct ec_map map;
    char text[20];
    int i = 0;

    ec_map_init(
        &map, &(struct ec_map_desc) { .nodes = ec_system_allocator(), .value_bytes = sizeof(int) });
    for (i = 0; i < 500; i++) {
        sprintf(text, "key %d", i);
        ck_assert_int_eq(*(int *)ec_map_put(&map, text, NULL), 0); /* new ones are zero */
        *(int *)ec_map_get(&map, text) = i;
        ck_assert_int_eq(*(int *)ec_map_put(&map, text, NULL), i); /* and stay what they are */
    }
    ck_assert_ptr_null(ec_map_get(&map, "key"));
    ck_assert_ptr_null(ec_map_get(&map, "key 500"));
    i = 0;
    for (struct ec_map_node *node = ec_map_next(&map, NULL); node != NULL;
         node = ec_map_next(&map, node)) {
        sprintf(text, "key %d", i++);
        ck_assert_str_eq(ec_map_key(node), text);
    }
    ck_assert_int_eq(i, 500);
    ec_map_finish(&map);
}
END_TEST

START_TEST(without_memory_nothing_is_added)
{
    struct ec_arena *arena;
    struct ec_map map;
    size_t added = 0;

    ck_assert_int_eq(ec_arena_create_in(NULL,
                                        &(struct ec_arena_desc) { .name = "a", .bytes = 5000 },
                                        &arena, NULL),
                     EC_OK);
    ec_map_init(&map, &(struct ec_map_desc) { .nodes = ec_arena_allocator(arena), .key_bytes = 4 });
    for (uint32_t key = 0; key < 1000; key++)
        added += ec_map_put(&map, &key, NULL) != NULL;
    ck_assert_uint_gt(added, 5);
    ck_assert_uint_lt(added, 100);
    ck_assert_uint_eq(ec_map_count(&map), added);
    for (uint32_t key = 0; key < 1000; key++)
        added -= ec_map_get(&map, &key) != NULL;
    ck_assert_uint_eq(added, 0);
    ec_map_finish(&map);
    ec_arena_destroy(arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("map");
    TCase *tcase = tcase_create("map");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, it_agrees_with_a_table_of_all_keys);
    tcase_add_test(tcase, texts_are_keys_and_come_in_order);
    tcase_add_test(tcase, without_memory_nothing_is_added);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
