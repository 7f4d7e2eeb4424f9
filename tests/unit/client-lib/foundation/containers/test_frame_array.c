/* What lives for a frame can be changed in it, read through the next, and is refused after that. */
#include <engine-core/frame_array.h>
#include <engine-core/frame_string.h>

#include <check.h>
#include <string.h>

#include "foundation/memory/frame_arena.h"

static struct ec_frame_arena *frame;

static void setup(void)
{
    ck_assert_int_eq(
        ec_frame_arena_create_in(
            NULL, &(struct ec_frame_arena_desc) { .name = "f", .bytes = 1 << 16 }, &frame, NULL),
        EC_OK);
}

static void teardown(void)
{
    ec_frame_arena_destroy(frame);
}

START_TEST(an_array_grows_in_its_frame_and_in_place)
{
    struct ec_frame_array array;
    struct ec_memory_stats stats;

    ec_frame_array_init(&array, frame, sizeof(int));
    ck_assert_int_eq(ec_frame_array_reserve(&array, 4), EC_OK);
    for (int i = 0; i < 1024; i++)
        ck_assert_ptr_nonnull(ec_frame_array_add(&array, &i));
    for (int i = 0; i < 1024; i++)
        ck_assert_int_eq(*EC_ARRAY_AT(&array.array, int, i), i);
    ec_frame_arena_stats(frame, &stats);
    ck_assert_uint_eq(stats.count, 1);
    ck_assert_uint_eq(stats.current_bytes, 1024 * sizeof(int));
    ec_frame_arena_next(frame);
    ck_assert_int_eq(ec_frame_array_check(&array), EC_OK);
    ck_assert_int_eq(*EC_ARRAY_AT(&array.array, int, 7), 7);
    ck_assert_ptr_null(ec_frame_array_add(&array, NULL));
    ck_assert_int_eq(ec_frame_array_reserve(&array, 5000), EC_ERR_STALE);
    ec_frame_arena_stats(frame, &stats);
    ck_assert_uint_eq(stats.failed, 2);
    ec_frame_arena_next(frame);
    ck_assert_int_eq(ec_frame_array_check(&array), EC_ERR_STALE);
}
END_TEST

START_TEST(a_string_is_built_in_its_frame_and_read_in_the_next)
{
    struct ec_frame_string string;
    struct ec_memory_stats stats;

    ec_frame_string_init(&string, frame);
    ck_assert_str_eq(ec_frame_string_text(&string), "");
    ck_assert_int_eq(ec_frame_string_append(&string, "level "), EC_OK);
    ck_assert_int_eq(ec_frame_string_format(&string, "%d of %0*d", 3, 100, 7), EC_OK);
    ck_assert_int_eq(ec_frame_string_append_bytes(&string, "!?", 1), EC_OK);
    ck_assert_uint_eq(strlen(ec_frame_string_text(&string)), 6 + 5 + 100 + 1);
    ec_frame_arena_stats(frame, &stats);
    ck_assert_uint_eq(stats.count, 1);
    ec_frame_arena_next(frame);
    ck_assert_int_eq(strncmp(ec_frame_string_text(&string), "level 3 of 0", 12), 0);
    ck_assert_int_eq(ec_frame_string_append(&string, "x"), EC_ERR_STALE);
    ck_assert_int_eq(ec_frame_string_append_bytes(&string, "x", 1), EC_ERR_STALE);
    ck_assert_int_eq(ec_frame_string_format(&string, "%d", 1), EC_ERR_STALE);
    ec_frame_arena_next(frame);
    ck_assert_str_eq(ec_frame_string_text(&string), "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("frame_array");
    TCase *tcase = tcase_create("frame_array");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, an_array_grows_in_its_frame_and_in_place);
    tcase_add_test(tcase, a_string_is_built_in_its_frame_and_read_in_the_next);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
