/* Reservations end in three ways, and only their owner ends them. */
#include "breaker/reservations.h"

#include <check.h>
#include <stdlib.h>

#include "foundation/error.h"

static struct reservations table;

static uint32_t add(uint32_t client_id, uint64_t bytes, int64_t end_ns)
{
    return reservations_add(
        &table, &(struct reservation) { .client_id = client_id, .bytes = bytes, .end_ns = end_ns });
}

static void set_up(void)
{
    table = (struct reservations) { 0 };
}

static void tear_down(void)
{
}

START_TEST(only_its_owner_releases_it_and_only_once)
{
    const uint32_t id = add(7, 100, 1000);

    ck_assert_uint_ne(id, 0);
    ck_assert_int_eq(reservations_release(&table, 8, id), EC_ERR_NOT_FOUND);
    ck_assert_int_eq(reservations_release(&table, 7, id), EC_OK);
    ck_assert_int_eq(reservations_release(&table, 7, id), EC_ERR_NOT_FOUND);
}
END_TEST

START_TEST(time_ends_it)
{
    add(7, 100, 1000);
    add(7, 100, 2000);
    ck_assert_uint_eq(reservations_expire(&table, 999), 0);
    ck_assert_uint_eq(reservations_expire(&table, 1000), 1);
    ck_assert_uint_eq(reservations_expire(&table, 5000), 1);
}
END_TEST

START_TEST(all_of_a_client_end_with_it)
{
    add(7, 100, 1000);
    add(8, 100, 1000);
    add(7, 100, 1000);
    ck_assert_uint_eq(reservations_end_client(&table, 7), 2);
    ck_assert_uint_eq(reservations_end_client(&table, 7), 0);
    ck_assert_uint_eq(reservations_end_client(&table, 8), 1);
}
END_TEST

START_TEST(a_full_table_says_so_and_ids_are_not_used_twice)
{
    uint32_t last = 0;

    for (unsigned i = 0; i < RESERVATIONS_MAX; i++) {
        const uint32_t id = add(1, 1, 1);

        ck_assert_uint_gt(id, last);
        last = id;
    }
    ck_assert_uint_eq(add(1, 1, 1), 0);
    ck_assert_int_eq(reservations_release(&table, 1, 5), EC_OK);
    ck_assert_uint_gt(add(1, 1, 1), last);
}
END_TEST

/* What a client holds, and what of its two reservations is taken then. */
static const struct {
    uint64_t held_bytes, first, second;
} takes[] = {
    { 1000, 0, 0 },   { 1060, 60, 0 }, /* before the second there is one that can be taken */
    { 1100, 100, 0 }, { 1130, 100, 30 }, { 1500, 100, 50 }, { 1090, 90, 0 }, { 900, 0, 0 },
};

START_TEST(what_a_client_grows_by_is_taken_once_the_first_first)
{
    const struct reservation first = { .client_id = 7, .bytes = 100, .held_bytes = 1000 },
                             second = { .client_id = 7, .bytes = 50, .held_bytes = 1060 };

    reservations_add(&table, &first);
    reservations_add(&table, &second);
    ck_assert(reservations_any(&table, 7));
    ck_assert(!reservations_any(&table, 8));
    for (size_t i = 0; i < sizeof takes / sizeof takes[0]; i++) {
        reservations_take(&table, 7, takes[i].held_bytes);
        ck_assert_uint_eq(table.rows[0].taken_bytes, takes[i].first);
        ck_assert_uint_eq(table.rows[1].taken_bytes, takes[i].second);
        ck_assert(!reservations_take(&table, 7, takes[i].held_bytes)); /* no change */
    }
    ck_assert(!reservations_take(&table, 8, 5000)); /* somebody else */
}
END_TEST

START_TEST(nothing_is_taken_by_who_cannot_be_looked_at)
{
    const struct reservation blind = { .client_id = 7, .bytes = 100, .held_bytes = UINT64_MAX };

    reservations_add(&table, &blind);
    ck_assert(!reservations_take(&table, 7, UINT64_C(1) << 40));
    ck_assert_uint_eq(table.rows[0].taken_bytes, 0);
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
    tcase_add_test(tcase, what_a_client_grows_by_is_taken_once_the_first_first);
    tcase_add_test(tcase, nothing_is_taken_by_who_cannot_be_looked_at);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
