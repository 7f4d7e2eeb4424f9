/* Orders promise: a reader takes one order as a whole, or is told that it cannot. */
#include "segment/breaker_board.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>

static struct ec_breaker_board board;

START_TEST(an_order_is_read_as_it_was_written)
{
    const struct ec_breaker_order_seen wrote = {
        .level = 2,
        .cause = EC_BREAKER_CAUSE_MEMORY,
        .flags = EC_BREAKER_ORDER_TRIM,
        .bytes = 4096,
        .deadline_ns = 17,
        .exit_deadline_ns = 18,
    };
    struct ec_breaker_order_seen seen;
    const uint64_t first = ec_breaker_order_write(&board.orders[3], &wrote);

    ck_assert(ec_breaker_order_read(&board.orders[3], &seen));
    ck_assert_uint_eq(seen.sequence, first);
    ck_assert_uint_eq(seen.level, 2);
    ck_assert_uint_eq(seen.cause, EC_BREAKER_CAUSE_MEMORY);
    ck_assert_uint_eq(seen.flags, EC_BREAKER_ORDER_TRIM);
    ck_assert_uint_eq(seen.bytes, 4096);
    ck_assert_int_eq(seen.deadline_ns, 17);
    ck_assert_int_eq(seen.exit_deadline_ns, 18);
    ck_assert_uint_gt(ec_breaker_order_write(&board.orders[3], &wrote), first);
}
END_TEST

START_TEST(a_slot_is_found_by_its_client)
{
    ck_assert_ptr_null(ec_breaker_order_find(&board, 7));
    ec_breaker_order_assign(&board.orders[200], 7);
    ck_assert_ptr_eq(ec_breaker_order_find(&board, 7), &board.orders[200]);
    ec_breaker_order_assign(&board.orders[200], 0);
    ck_assert_ptr_null(ec_breaker_order_find(&board, 7));
}
END_TEST

START_TEST(an_order_whose_writer_died_in_the_middle_is_none)
{
    struct ec_breaker_order_seen seen;

    ec_breaker_order_write(&board.orders[0], &(struct ec_breaker_order_seen) { .bytes = 1 });
    atomic_fetch_or(&board.orders[0].sequence, 1);
    ck_assert(!ec_breaker_order_read(&board.orders[0], &seen));
    /* The next writer goes on from there, and never back. */
    ec_breaker_order_write(&board.orders[0], &(struct ec_breaker_order_seen) { .bytes = 2 });
    ck_assert(ec_breaker_order_read(&board.orders[0], &seen));
    ck_assert_uint_eq(seen.bytes, 2);
}
END_TEST

static void *write_again_and_again(void *stop)
{
    for (uint64_t i = 1; !atomic_load((atomic_bool *)stop); i++)
        ec_breaker_order_write(&board.orders[1], &(struct ec_breaker_order_seen) {
                                                     .bytes = i,
                                                     .deadline_ns = (int64_t)i,
                                                     .exit_deadline_ns = (int64_t)i,
                                                     .level = (uint32_t)i,
                                                 });
    return NULL;
}

START_TEST(an_order_is_read_whole_while_it_changes)
{
    atomic_bool stop = false;
    unsigned whole = 0;
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, write_again_and_again, &stop), 0);
    while (whole < 20000) {
        struct ec_breaker_order_seen seen;

        if (!ec_breaker_order_read(&board.orders[1], &seen))
            continue;
        whole++;
        ck_assert_int_eq(seen.deadline_ns, (int64_t)seen.bytes);
        ck_assert_int_eq(seen.exit_deadline_ns, (int64_t)seen.bytes);
        ck_assert_uint_eq(seen.level, (uint32_t)seen.bytes);
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("breaker_board");
    TCase *tcase = tcase_create("breaker_board");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, an_order_is_read_as_it_was_written);
    tcase_add_test(tcase, a_slot_is_found_by_its_client);
    tcase_add_test(tcase, an_order_whose_writer_died_in_the_middle_is_none);
    tcase_add_test(tcase, an_order_is_read_whole_while_it_changes);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
