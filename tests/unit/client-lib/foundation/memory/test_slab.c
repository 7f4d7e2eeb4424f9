/* The slab promises: each size has its class, blocks are disjoint and found again from their address. */
#include "foundation/memory/slab.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "support/memory_rows.h"
#include "support/often.h"

static struct memory_rows *rows;

static void setup(void)
{
    rows = memory_rows_create();
}

static void teardown(void)
{
    memory_rows_destroy(rows);
}

static struct ec_slab *make(struct ec_slab_desc desc)
{
    struct ec_error why = { 0 };
    struct ec_slab *slab;

    desc.name = "slab";
    desc.tag = EC_TAG_SCRIPTS;
    ck_assert_msg(ec_slab_create_in(&rows->sink, &desc, &slab, &why) == EC_OK, "%s", why.text);
    return slab;
}

static struct ec_memory_stats stats_of(const struct ec_slab *slab)
{
    struct ec_memory_stats stats;

    ec_slab_stats(slab, &stats);
    return stats;
}

START_TEST(a_name_that_leaves_no_room_for_the_class_is_refused)
{
    struct ec_error why = { 0 };
    struct ec_slab *slab;

    ck_assert_int_eq(
        ec_slab_create_in(&rows->sink,
                          &(struct ec_slab_desc) { .name = "123456789012345678901234567" }, &slab,
                          &why),
        EC_ERR_PARAM);
    ck_assert_str_eq(why.text, "slab: name has 27 bytes, expected 1..26");
    ck_assert_int_eq(
        ec_slab_create_in(&rows->sink, &(struct ec_slab_desc) { .name = "" }, &slab, &why),
        EC_ERR_PARAM);
    ck_assert_ptr_null(slab);
    ck_assert_uint_eq(memory_rows_listed(rows), 0);
}
END_TEST

START_TEST(each_size_gets_the_smallest_class_that_holds_it)
{
    struct ec_slab *slab = make((struct ec_slab_desc) { 0 });
    size_t before = 0;

    for (size_t bytes = 1; bytes <= EC_SLAB_BYTES_MAX; bytes++) {
        char *block = ec_slab_alloc(slab, bytes);
        const size_t room = ec_slab_block_bytes(slab, block);

        ASSERT_OFTEN(block != NULL && (uintptr_t)block % 16 == 0);
        ASSERT_OFTEN(room >= bytes && room >= before);
        ASSERT_OFTEN(room - bytes < 16 || (room - bytes) * 5 <= room);
        memset(block, 1, room);
        ASSERT_OFTEN(ec_slab_block_bytes(slab, block + room - 1) == room);
        ASSERT_OFTEN(ec_slab_free(slab, block) == EC_OK);
        before = room;
    }
    ck_assert_uint_eq(stats_of(slab).count, 0);
    ck_assert_uint_eq(stats_of(slab).total, EC_SLAB_BYTES_MAX);
    ck_assert_uint_eq(memory_rows_allocator(rows, "slab/64").total, 16);
    ck_assert_uint_eq(memory_rows_allocator(rows, "slab/2048").total, 256);
    ck_assert_uint_eq(memory_rows_listed(rows), 24);
    ec_slab_destroy(slab);
    ck_assert_uint_eq(memory_rows_listed(rows), 0);
}
END_TEST

START_TEST(what_is_no_size_or_no_block_is_refused_and_counted)
{
    struct ec_slab *slab = make((struct ec_slab_desc) { .checked = true });
    volatile size_t huge = SIZE_MAX;
    char *block = ec_slab_alloc(slab, 100), *mine = malloc(100);

    ck_assert_ptr_null(ec_slab_alloc(slab, huge + 1));
    ck_assert_ptr_null(ec_slab_alloc(slab, EC_SLAB_BYTES_MAX + 1));
    ck_assert_ptr_null(ec_slab_alloc(slab, huge));
    ck_assert_int_eq(ec_slab_free(slab, mine), EC_ERR_PARAM);
    ck_assert_int_eq(ec_slab_free(slab, &slab), EC_ERR_PARAM);
    ck_assert_int_eq(ec_slab_free(slab, block + 16), EC_ERR_PARAM);
    ck_assert_int_eq(ec_slab_free(slab, block), EC_OK);
    ck_assert_int_eq(ec_slab_free(slab, block), EC_ERR_STATE);
    ck_assert_int_eq(ec_slab_free(slab, NULL), EC_OK);
    ck_assert_uint_eq(ec_slab_block_bytes(slab, mine), 0);
    ck_assert_uint_eq(stats_of(slab).failed, 7);
    free(mine);
    ec_slab_destroy(slab);
}
END_TEST

/* Random sizes against a list that knows the bytes; then everything goes back. */
START_TEST(it_agrees_with_a_list)
{
    enum { LIVE = 4000 };
    static struct {
        unsigned char *block;
        size_t bytes;
    } list[LIVE];
    struct ec_slab *slab = make((struct ec_slab_desc) { 0 });
    size_t count = 0;

    srand(5);
    for (int round = 0; round < 200000; round++) {
        const int i = rand() % LIVE;
        const unsigned char fill = (unsigned char)(i + round);

        if (list[i].block != NULL) {
            for (size_t b = 1; b < list[i].bytes; b++)
                ASSERT_OFTEN(list[i].block[b] == list[i].block[0]);
            ASSERT_OFTEN(ec_slab_free(slab, list[i].block) == EC_OK);
            list[i].block = NULL;
            count--;
            continue;
        }
        list[i].bytes = (size_t)(rand() % EC_SLAB_BYTES_MAX) + 1;
        if (rand() % 4 != 0)
            list[i].bytes = list[i].bytes / 16 + 1;
        list[i].block = ec_slab_alloc(slab, list[i].bytes);
        ASSERT_OFTEN(list[i].block != NULL);
        memset(list[i].block, fill, list[i].bytes);
        count++;
    }
    ck_assert_uint_eq(stats_of(slab).count, count);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_SCRIPTS).count, count);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_SCRIPTS).bytes, stats_of(slab).current_bytes);
    for (int i = 0; i < LIVE; i++)
        ASSERT_OFTEN(ec_slab_free(slab, list[i].block) == EC_OK);
    ck_assert_uint_gt(ec_slab_trim(slab), 0);
    ck_assert_uint_eq(stats_of(slab).capacity_bytes, 0);
    ec_slab_destroy(slab);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_SCRIPTS).bytes, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slab");
    TCase *tcase = tcase_create("slab");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_name_that_leaves_no_room_for_the_class_is_refused);
    tcase_add_test(tcase, each_size_gets_the_smallest_class_that_holds_it);
    tcase_add_test(tcase, what_is_no_size_or_no_block_is_refused_and_counted);
    tcase_add_test(tcase, it_agrees_with_a_list);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
