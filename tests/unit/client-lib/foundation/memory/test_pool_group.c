/* A group hands out each of its blocks once, by whole words, and finds itself from any of them. */
#include "foundation/memory/pool_group.h"

#include <check.h>
#include <string.h>

static const struct {
    size_t block_bytes, align;
} shapes[] = {
    { 1, 16 },      { 16, 16 },   { 24, 16 },     { 48, 16 },       { 64, 64 },
    { 100, 16 },    { 512, 512 }, { 1008, 16 },   { 1009, 16 },     { 1024, 16 },
    { 1024, 1024 }, { 5000, 16 }, { 4096, 4096 }, { 65536, 65536 }, { 65535, 16 },
};

#define SHAPES (sizeof shapes / sizeof shapes[0])

static struct ec_pool_shape shape;

static void setup_shape(int i)
{
    ec_pool_shape_init(&shape, shapes[i].block_bytes, shapes[i].align, NULL);
}

START_TEST(groups_have_64_KiB_and_256_KiB_from_1_KiB_blocks_up)
{
    setup_shape(_i);
    ck_assert_uint_eq(shape.block_bytes % shapes[_i].align, 0);
    ck_assert_uint_ge(shape.block_bytes, shapes[_i].block_bytes);
    ck_assert_uint_eq(shape.group_bytes, shape.block_bytes < 1024 ? 65536 : 262144);
    ck_assert_uint_ge(shape.blocks, 1);
    ck_assert_uint_le(shape.first + shape.blocks * shape.block_bytes, shape.group_bytes);
}
END_TEST

START_TEST(each_block_is_handed_out_once_lowest_first)
{
    void *blocks[4096 + 64];
    struct ec_pool_group *group;
    uint32_t count = 0;

    setup_shape(_i);
    group = ec_pool_group_create(&shape, shape.blocks);
    ck_assert_ptr_nonnull(group);
    ck_assert_uint_eq((uintptr_t)group % shape.group_bytes, 0);
    ck_assert(ec_pool_group_is_empty(group));
    while (group->summary != 0) {
        void *some[64];
        const uint32_t taken = ec_pool_group_take(&shape, group, some + 64, 64);

        ck_assert_uint_ge(taken, 1);
        for (uint32_t i = 0; i < taken; i++)
            blocks[count++] = some[63 - i];
    }
    ck_assert_uint_eq(count, shape.blocks);
    ck_assert_uint_eq(group->free_count, 0);
    for (uint32_t i = 0; i < count; i++) {
        ck_assert_uint_eq((uintptr_t)blocks[i] % shapes[_i].align, 0);
        ck_assert_ptr_eq(ec_pool_group_of(&shape, blocks[i]), group);
        ck_assert_uint_eq(ec_pool_group_index(&shape, blocks[i]), i);
        memset(blocks[i], 0xFF, shape.block_bytes);
    }
    for (uint32_t i = 0; i < count; i++)
        ec_pool_group_put(group, i / 64, 1ull << (i & 63));
    ck_assert(ec_pool_group_is_empty(group));
    ck_assert_uint_eq(group->blocks, shape.blocks);
    ec_pool_group_destroy(&shape, group);
}
END_TEST

START_TEST(a_word_is_taken_in_parts_when_there_is_no_room)
{
    void *some[10];
    struct ec_pool_group *group;

    ec_pool_shape_init(&shape, 64, 16, NULL);
    group = ec_pool_group_create(&shape, 100);
    ck_assert_ptr_nonnull(group);
    ck_assert_uint_eq(ec_pool_group_take(&shape, group, some + 10, 10), 10);
    ck_assert_uint_eq(ec_pool_group_index(&shape, some[9]), 0);
    ck_assert_uint_eq(ec_pool_group_index(&shape, some[0]), 9);
    ck_assert_uint_eq(ec_pool_group_take(&shape, group, some + 10, 5), 5);
    ck_assert_uint_eq(ec_pool_group_index(&shape, some[9]), 10);
    ck_assert_uint_eq(group->free_count, 85);
    ec_pool_group_put(group, 0, 0x7FFF);
    ck_assert(ec_pool_group_is_empty(group));
    ec_pool_group_destroy(&shape, group);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool_group");
    TCase *tcase = tcase_create("pool_group");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, groups_have_64_KiB_and_256_KiB_from_1_KiB_blocks_up, 0, SHAPES);
    tcase_add_loop_test(tcase, each_block_is_handed_out_once_lowest_first, 0, SHAPES);
    tcase_add_test(tcase, a_word_is_taken_in_parts_when_there_is_no_room);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
