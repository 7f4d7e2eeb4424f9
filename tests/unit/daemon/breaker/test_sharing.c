/* Sharing out promises: all is given away if it is there, nobody gives more than it has. */
#include "breaker/sharing.h"

#include <check.h>
#include <stdlib.h>

#define ROWS 40

START_TEST(equal_ones_give_the_same)
{
    struct sharing_row rows[] = { { .evictable_bytes = 1000, .priority = 50 },
                                  { .evictable_bytes = 1000, .priority = 50 } };

    ck_assert_uint_eq(sharing_compute(rows, 2, 600), 0);
    ck_assert_uint_eq(rows[0].bytes + rows[1].bytes, 600);
    ck_assert_uint_ge(rows[0].bytes, 299);
    ck_assert_uint_ge(rows[1].bytes, 299);
}
END_TEST

START_TEST(who_has_more_gives_more_and_who_is_worth_more_gives_less)
{
    struct sharing_row rows[] = { { .evictable_bytes = 4000, .priority = 50 },
                                  { .evictable_bytes = 1000, .priority = 50 },
                                  { .evictable_bytes = 4000, .priority = 100 },
                                  { .evictable_bytes = 4000, .priority = 50, .idle = true } };

    ck_assert_uint_eq(sharing_compute(rows, 4, 1000), 0);
    ck_assert_uint_gt(rows[0].bytes, 3 * rows[1].bytes);
    ck_assert_uint_gt(rows[0].bytes, 10 * rows[2].bytes);
    ck_assert_uint_gt(rows[3].bytes, rows[0].bytes);
}
END_TEST

START_TEST(what_one_does_not_have_the_others_give)
{
    struct sharing_row rows[] = { { .evictable_bytes = 10, .priority = 0 },
                                  { .evictable_bytes = 5000, .priority = 100 } };

    ck_assert_uint_eq(sharing_compute(rows, 2, 3000), 0);
    ck_assert_uint_eq(rows[0].bytes, 10);
    ck_assert_uint_eq(rows[1].bytes, 2990);
}
END_TEST

START_TEST(what_nobody_has_is_said)
{
    struct sharing_row rows[] = { { .evictable_bytes = 100 }, { .evictable_bytes = 200 } };

    ck_assert_uint_eq(sharing_compute(rows, 2, 1000), 700);
    ck_assert_uint_eq(rows[0].bytes, 100);
    ck_assert_uint_eq(rows[1].bytes, 200);
    ck_assert_uint_eq(sharing_compute(rows, 0, 5), 5);
}
END_TEST

START_TEST(who_is_spared_gives_nothing_and_who_was_late_gives_less)
{
    struct sharing_row rows[] = { { .evictable_bytes = 1000, .spared = true },
                                  { .evictable_bytes = 1000, .late = true },
                                  { .evictable_bytes = 1000 } };

    ck_assert_uint_eq(sharing_compute(rows, 3, 500), 0);
    ck_assert_uint_eq(rows[0].bytes, 0);
    ck_assert_uint_gt(rows[1].bytes, 0); /* it is asked again */
    ck_assert_uint_gt(rows[2].bytes, 3 * rows[1].bytes);
}
END_TEST

START_TEST(any_rows_keep_the_promise)
{
    srand(7);
    for (unsigned round = 0; round < 2000; round++) {
        struct sharing_row rows[ROWS] = { 0 };
        const unsigned count = (unsigned)rand() % ROWS + 1;
        const uint64_t wanted = (uint64_t)rand() << (rand() % 30);
        uint64_t there = 0, given = 0, left;

        for (unsigned i = 0; i < count; i++) {
            rows[i].evictable_bytes = (uint64_t)rand() << (rand() % 20);
            rows[i].priority = (uint32_t)rand() % 101;
            rows[i].idle = rand() % 2;
            rows[i].spared = rand() % 5 == 0;
            there += rows[i].spared ? 0 : rows[i].evictable_bytes;
        }
        left = sharing_compute(rows, count, wanted);
        for (unsigned i = 0; i < count; i++) {
            ck_assert_uint_le(rows[i].bytes, rows[i].spared ? 0 : rows[i].evictable_bytes);
            given += rows[i].bytes;
        }
        ck_assert_uint_eq(given + left, wanted);
        ck_assert_uint_eq(left, wanted > there ? wanted - there : 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sharing");
    TCase *tcase = tcase_create("sharing");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, equal_ones_give_the_same);
    tcase_add_test(tcase, who_has_more_gives_more_and_who_is_worth_more_gives_less);
    tcase_add_test(tcase, what_one_does_not_have_the_others_give);
    tcase_add_test(tcase, what_nobody_has_is_said);
    tcase_add_test(tcase, who_is_spared_gives_nothing_and_who_was_late_gives_less);
    tcase_add_test(tcase, any_rows_keep_the_promise);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
