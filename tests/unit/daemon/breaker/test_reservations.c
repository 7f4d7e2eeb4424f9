/* Reservations end in three ways, and only their owner ends them. */
#include "breaker/reservations.h"

#include <check.h>
#include <stdlib.h>

#include "foundation/error.h"

static struct reservations table;

static void set_up(void)
{
    table = (struct reservations) { 0 };
}

static void tear_down(void)
{
}

START_TEST(only_its_owner_releases_it_and_only_once)
{
    const uint32_t id = reservations_add(&table, 7, 100, 1000);

    ck_assert_uint_ne(id, 0);
    ck_assert_int_eq(reservations_release(&table, 8, id), EC_ERR_NOT_FOUND);
    ck_assert_int_eq(reservations_release(&table, 7, id), EC_OK);
    ck_assert_int_eq(reservations_release(&table, 7, id), EC_ERR_NOT_FOUND);
}
END_TEST

START_TEST(time_ends_it)
{
    reservations_add(&table, 7, 100, 1000);
    reservations_add(&table, 7, 100, 2000);
    ck_assert_uint_eq(reservations_expire(&table, 999), 0);
    ck_assert_uint_eq(reservations_expire(&table, 1000), 1);
    ck_assert_uint_eq(reservations_expire(&table, 5000), 1);
}
END_TEST

START_TEST(all_of_a_client_end_with_it)
{
    reservations_add(&table, 7, 100, 1000);
    reservations_add(&table, 8, 100, 1000);
    reservations_add(&table, 7, 100, 1000);
    ck_assert_uint_eq(reservations_end_client(&table, 7), 2);
    ck_assert_uint_eq(reservations_end_client(&table, 7), 0);
    ck_assert_uint_eq(reservations_end_client(&table, 8), 1);
}
END_TEST

START_TEST(a_full_table_says_so_and_ids_are_not_used_twice)
{
    uint32_t last = 0;

    for (unsigned i = 0; i < RESERVATIONS_MAX; i++) {
        const uint32_t id = reservations_add(&table, 1, 1, 1);

        ck_assert_uint_gt(id, last);
        last = id;
    }
    ck_assert_uint_eq(reservations_add(&table, 1, 1, 1), 0);
    ck_assert_int_eq(reservations_release(&table, 1, 5), EC_OK);
    ck_assert_uint_gt(reservations_add(&table, 1, 1, 1), last);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reservations");
    TCase *tcase = tcase_create("reservations");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, only_its_owner_releases_it_and_only_once);
    tcase_add_test(tcase, time_ends_it);
    tcase_add_test(tcase, all_of_a_client_end_with_it);
    tcase_add_test(tcase, a_full_table_says_so_and_ids_are_not_used_twice);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
