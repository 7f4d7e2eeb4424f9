/* Rows, names and peaks: what is taken is found by a reader, and what is refused changes nothing. */
#include "foundation/memory/sink.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "support/memory_rows.h"

static struct memory_rows *rows;

static void setup(void)
{
    rows = memory_rows_create();
}

static void teardown(void)
{
    memory_rows_destroy(rows);
}

START_TEST(fixed_tags_have_their_names_from_the_start)
{
    ck_assert_str_eq(rows->tags[EC_TAG_GENERAL].name, "general");
    ck_assert_str_eq(rows->tags[EC_TAG_RENDERING].name, "rendering");
    ck_assert_str_eq(rows->tags[EC_TAG_TEMPORARY].name, "temporary");
    ck_assert_str_eq(rows->tags[EC_TAG_USER_FIRST].name, "");
}
END_TEST

START_TEST(a_registered_name_gives_the_same_tag_again_and_keeps_its_budget)
{
    uint32_t tag, again, fixed;

    ck_assert_int_eq(ec_memory_sink_tag(&rows->sink, "sparks", 1 << 20, &tag, NULL), EC_OK);
    ck_assert_uint_eq(tag, EC_TAG_USER_FIRST);
    ck_assert_str_eq(rows->tags[tag].name, "sparks");
    ck_assert_int_eq(ec_memory_sink_tag(&rows->sink, "sparks", 0, &again, NULL), EC_OK);
    ck_assert_uint_eq(again, tag);
    ck_assert_uint_eq(memory_rows_tag(rows, tag).budget_bytes, 1 << 20);
    ck_assert_int_eq(ec_memory_sink_tag(&rows->sink, "audio", 77, &fixed, NULL), EC_OK);
    ck_assert_uint_eq(fixed, EC_TAG_AUDIO);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_AUDIO).budget_bytes, 77);
}
END_TEST

START_TEST(the_49th_name_is_refused)
{
    struct ec_error why = { 0 };
    char name[16];
    uint32_t tag = 0;

    for (int i = 0; i < EC_TAGS_MAX - EC_TAG_USER_FIRST; i++) {
        snprintf(name, sizeof name, "tag %d", i);
        ck_assert_int_eq(ec_memory_sink_tag(&rows->sink, name, 0, &tag, &why), EC_OK);
    }
    ck_assert_uint_eq(tag, EC_TAGS_MAX - 1);
    ck_assert_int_eq(ec_memory_sink_tag(&rows->sink, "one more", 0, &tag, &why), EC_ERR_LIMIT);
    ck_assert_str_eq(why.text, "tag \"one more\": 48 names are registered already");
    ck_assert_uint_eq(tag, EC_TAGS_MAX - 1);
}
END_TEST

static const char *const bad_names[] = { NULL, "", "line\nbreak", "\x7f",
                                         "32 bytes and no room for a NUL!!" };

START_TEST(names_that_a_terminal_or_a_row_cannot_hold_are_refused)
{
    uint32_t tag = 99;

    ck_assert_int_eq(ec_memory_sink_tag(&rows->sink, bad_names[_i], 0, &tag, NULL), EC_ERR_PARAM);
    ck_assert_uint_eq(tag, 99);
    ck_assert_int_eq(ec_memory_check_name(bad_names[_i], EC_TAG_GENERAL, NULL), EC_ERR_PARAM);
}
END_TEST

START_TEST(a_tag_over_63_is_refused_with_both_values)
{
    struct ec_error why = { 0 };

    ck_assert_int_eq(ec_memory_check_name("name", 64, &why), EC_ERR_PARAM);
    ck_assert_str_eq(why.text, "tag is 64, expected 0..63");
    ck_assert_int_eq(ec_memory_check_name("name", 63, NULL), EC_OK);
}
END_TEST

START_TEST(rows_run_out_come_back_and_are_clean)
{
    struct ec_allocator_row *taken[EC_ALLOCATORS_MAX];
    struct ec_allocator_counters *counters = &rows->threads[0].allocators[5];

    (void)ec_memory_sink_account(&rows->sink, EC_TAG_GENERAL);
    for (int i = 0; i < EC_ALLOCATORS_MAX; i++) {
        taken[i] = ec_memory_sink_row_take(&rows->sink, "row", EC_ALLOCATOR_POOL, 3, 64);
        ck_assert_ptr_nonnull(taken[i]);
    }
    ck_assert_ptr_null(ec_memory_sink_row_take(&rows->sink, "row", EC_ALLOCATOR_POOL, 3, 64));
    ck_assert_uint_eq(memory_rows_listed(rows), EC_ALLOCATORS_MAX);

    ec_count(&taken[5]->failed, 7, false);
    ec_count(&counters->allocs, 9, false);
    ec_memory_sink_row_leave(&rows->sink, taken[5]);
    ck_assert_uint_eq(memory_rows_listed(rows), EC_ALLOCATORS_MAX - 1);
    ck_assert_ptr_eq(ec_memory_sink_row_take(&rows->sink, "again", EC_ALLOCATOR_ARENA, 1, 0),
                     taken[5]);
    ck_assert_str_eq(taken[5]->name, "again");
    ck_assert_uint_eq(atomic_load(&taken[5]->failed), 0);
    ck_assert_uint_eq(atomic_load(&counters->allocs), 0);
}
END_TEST

START_TEST(a_tag_holds_what_was_counted_for_it_and_for_its_allocators)
{
    struct ec_memory_account account = ec_memory_sink_account(&rows->sink, EC_TAG_AI);
    struct ec_allocator_row *row =
        ec_memory_sink_row_take(&rows->sink, "row", EC_ALLOCATOR_POOL, EC_TAG_AI, 32);
    struct ec_allocator_counters *counters =
        &rows->threads[account.slot].allocators[row - rows->allocators];
    struct ec_tag_sums sums;

    ec_count(&account.tag->allocs, 2, account.shared);
    ec_count(&account.tag->bytes_in, 1000, account.shared);
    ec_count(&counters->allocs, 5, false);
    ec_count(&counters->frees, 1, false);
    sums = memory_rows_tag(rows, EC_TAG_AI);
    ck_assert_uint_eq(sums.bytes, 1000 + 4 * 32);
    ck_assert_uint_eq(sums.count, 2 + 4);
    ck_assert_uint_eq(sums.total, 7);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_AUDIO).total, 0);
}
END_TEST

START_TEST(more_freed_than_allocated_reads_as_nothing)
{
    struct ec_memory_account account = ec_memory_sink_account(&rows->sink, EC_TAG_AI);

    ec_count(&account.tag->frees, 3, account.shared);
    ec_count(&account.tag->bytes_out, 300, account.shared);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_AI).bytes, 0);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_AI).count, 0);
}
END_TEST

START_TEST(the_peak_is_the_highest_pushed_sum_and_never_below_what_is_current)
{
    struct ec_memory_account one = ec_memory_sink_account(&rows->sink, EC_TAG_AI);
    struct ec_memory_account two = ec_memory_sink_account_shared(&rows->sink, EC_TAG_AI);

    ec_count(&one.tag->bytes_in, 1000, one.shared);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_AI).peak_bytes, 1000);
    ec_memory_sink_push(&rows->sink, &one, EC_TAG_AI);
    ec_count(&two.tag->bytes_in, 500, two.shared);
    ec_memory_sink_push(&rows->sink, &two, EC_TAG_AI);
    ec_count(&one.tag->bytes_out, 1000, one.shared);
    ec_memory_sink_push(&rows->sink, &one, EC_TAG_AI);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_AI).bytes, 500);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_AI).peak_bytes, 1500);
}
END_TEST

START_TEST(the_shared_row_is_in_the_readers_view)
{
    struct ec_memory_account account = ec_memory_sink_account_shared(&rows->sink, EC_TAG_UI);

    ck_assert(account.shared);
    ec_count(&account.tag->allocs, 1, account.shared);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_UI).count, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sink");
    TCase *tcase = tcase_create("sink");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, fixed_tags_have_their_names_from_the_start);
    tcase_add_test(tcase, a_registered_name_gives_the_same_tag_again_and_keeps_its_budget);
    tcase_add_test(tcase, the_49th_name_is_refused);
    tcase_add_loop_test(tcase, names_that_a_terminal_or_a_row_cannot_hold_are_refused, 0,
                        sizeof bad_names / sizeof bad_names[0]);
    tcase_add_test(tcase, a_tag_over_63_is_refused_with_both_values);
    tcase_add_test(tcase, rows_run_out_come_back_and_are_clean);
    tcase_add_test(tcase, a_tag_holds_what_was_counted_for_it_and_for_its_allocators);
    tcase_add_test(tcase, more_freed_than_allocated_reads_as_nothing);
    tcase_add_test(tcase, the_peak_is_the_highest_pushed_sum_and_never_below_what_is_current);
    tcase_add_test(tcase, the_shared_row_is_in_the_readers_view);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
