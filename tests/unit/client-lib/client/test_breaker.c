/* The breaker promises: the daemon's level in one load, and an answer that is whole or absent. */
#include <engine-core/breaker.h>

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "segment/breaker_board.h"
#include "segment/telemetry.h"

static struct ec_client client;
static struct ec_client_segment *own;
static struct ec_clock_page *clock_page;

static void *zeroed(size_t bytes)
{
    void *memory;

    bytes = (bytes + 4095) & ~(size_t)4095;
    memory = aligned_alloc(4096, bytes);
    ck_assert_ptr_nonnull(memory);
    return memset(memory, 0, bytes);
}

static void set_up(void)
{
    own = zeroed(sizeof *own);
    clock_page = zeroed(sizeof *clock_page);
    client.own.base = own;
    client.clock.base = clock_page;
}

static void tear_down(void)
{
    free(own);
    free(clock_page);
}

START_TEST(the_level_is_the_daemons)
{
    for (uint32_t level = 0; level <= 3; level++) {
        atomic_store(&clock_page->breaker_level, level);
        ck_assert_uint_eq(ec_breaker_level(&client), level);
    }
    atomic_store(&clock_page->breaker_level, 77);
    ck_assert_uint_eq(ec_breaker_level(&client), EC_BREAKER_EMERGENCY);
}
END_TEST

START_TEST(before_the_first_answer_there_is_none)
{
    struct ec_ack_seen ack;

    ck_assert(ec_telemetry_ack(own, &ack));
    ck_assert_uint_eq(ack.sequence, 0);
}
END_TEST

START_TEST(the_daemon_reads_the_last_answer)
{
    struct ec_ack_seen first, second;

    ec_breaker_ack(&client, 1, 100);
    ck_assert(ec_telemetry_ack(own, &first));
    ec_breaker_ack(&client, 2, 4096);
    ck_assert(ec_telemetry_ack(own, &second));
    ck_assert_uint_eq(first.level, 1);
    ck_assert_uint_eq(second.level, 2);
    ck_assert_uint_eq(second.freed_bytes, 4096);
    ck_assert_uint_gt(second.sequence, first.sequence);
    ck_assert_int_gt(first.at_ns, 0);
    ck_assert_int_ge(second.at_ns, first.at_ns);
}
END_TEST

static void *answer_again_and_again(void *stop)
{
    for (uint32_t i = 1; !atomic_load((atomic_bool *)stop); i++)
        ec_breaker_ack(&client, i, i);
    return NULL;
}

START_TEST(an_answer_is_read_whole_or_not_at_all)
{
    atomic_bool stop = false;
    pthread_t threads[2];
    unsigned whole = 0;

    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, answer_again_and_again, &stop), 0);
    while (whole < 10000) {
        struct ec_ack_seen ack;

        if (!ec_telemetry_ack(own, &ack))
            continue;
        whole++;
        ck_assert_uint_eq(ack.level, ack.freed_bytes);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}
END_TEST

/* ---- with a board ---- */

static struct ec_breaker_board board;

static void give_board(void)
{
    memset(&board, 0, sizeof board);
    client.breaker.board = &board;
    client.breaker.order = &board.orders[0];
    atomic_store(&client.breaker.told, 0);
}

static uint64_t order(uint32_t level, uint64_t bytes)
{
    return ec_breaker_order_write(&board.orders[0],
                                  &(struct ec_breaker_order_seen) {
                                      .level = level,
                                      .bytes = bytes,
                                      .cause = EC_BREAKER_CAUSE_MEMORY,
                                      .flags = bytes > 0 ? EC_BREAKER_ORDER_TRIM : 0,
                                  });
}

START_TEST(the_level_is_the_worse_of_that_of_all_and_the_own)
{
    give_board();
    order(1, 0);
    ck_assert_uint_eq(ec_breaker_level(&client), 1);
    atomic_store(&clock_page->breaker_level, 3);
    ck_assert_uint_eq(ec_breaker_level(&client), 3);
    atomic_store(&clock_page->breaker_level, 0);
    order(99, 0);
    ck_assert_uint_eq(ec_breaker_level(&client), EC_BREAKER_EMERGENCY);
}
END_TEST

START_TEST(what_was_answered_is_not_asked_again)
{
    struct ec_breaker_policy policy;
    struct ec_ack_seen ack;

    give_board();
    order(2, 5000);
    ec_breaker_policy(&client, &policy);
    ck_assert(policy.give_bytes == 5000 && policy.trim && policy.level == 2);
    ck_assert_str_eq(policy.cause, "memory");
    ec_breaker_answer(&client, &policy, 4096, 1024);
    ck_assert(ec_telemetry_ack(own, &ack));
    ck_assert_uint_eq(ack.order, policy.order);
    ck_assert_uint_eq(ack.freed_bytes, 4096);
    ck_assert_uint_eq(ack.trimmed_bytes, 1024);
    ec_breaker_policy(&client, &policy);
    ck_assert(policy.give_bytes == 0 && !policy.trim);
    order(2, 6000);
    ec_breaker_policy(&client, &policy);
    ck_assert_uint_eq(policy.give_bytes, 6000);
}
END_TEST

START_TEST(an_acknowledgement_answers_the_order_that_was_told_and_no_later_one)
{
    struct ec_breaker_policy policy;
    struct ec_ack_seen ack;
    uint64_t newest;

    give_board();
    order(2, 5000);
    ec_breaker_policy(&client, &policy);
    newest = order(2, 6000);
    ec_breaker_ack(&client, 2, 1);
    ck_assert(ec_telemetry_ack(own, &ack));
    ck_assert_uint_eq(ack.order, policy.order);
    ck_assert_uint_lt(ack.order, newest);
}
END_TEST

static unsigned calls;
static struct ec_breaker_policy last;

static void count_call(void *context, const struct ec_breaker_policy *policy)
{
    ck_assert_ptr_eq(context, &client);
    last = *policy;
    calls++;
}

START_TEST(a_call_back_runs_once_for_each_change)
{
    give_board();
    calls = 0;
    for (unsigned i = 0; i < EC_WATCH_KINDS; i++)
        pthread_mutex_init(&client.breaker.watchers[i].lock, NULL);
    ec_breaker_on_change(&client,
                         &(struct ec_breaker_watch) { .fn = count_call, .context = &client });
    ec_client_breaker_look(&client, EC_WATCH_FRAME);
    ck_assert_uint_eq(calls, 0);
    order(1, 0);
    ec_client_breaker_look(&client, EC_WATCH_IMMEDIATE); /* nobody is registered there */
    ck_assert_uint_eq(calls, 0);
    ec_client_breaker_look(&client, EC_WATCH_FRAME);
    ec_client_breaker_look(&client, EC_WATCH_FRAME);
    ck_assert_uint_eq(calls, 1);
    order(1, 77);
    ec_client_breaker_look(&client, EC_WATCH_FRAME);
    ck_assert_uint_eq(calls, 2);
    ck_assert_uint_eq(last.give_bytes, 77);
    order(1, 0); /* withdrawn, and the level is as it was: no news */
    ec_client_breaker_look(&client, EC_WATCH_FRAME);
    ck_assert_uint_eq(calls, 2);
    ec_breaker_on_change(&client, NULL);
    order(3, 1);
    ec_client_breaker_look(&client, EC_WATCH_FRAME);
    ck_assert_uint_eq(calls, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("breaker");
    TCase *tcase = tcase_create("breaker");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, the_level_is_the_daemons);
    tcase_add_test(tcase, before_the_first_answer_there_is_none);
    tcase_add_test(tcase, the_daemon_reads_the_last_answer);
    tcase_add_test(tcase, an_answer_is_read_whole_or_not_at_all);
    tcase_add_test(tcase, the_level_is_the_worse_of_that_of_all_and_the_own);
    tcase_add_test(tcase, what_was_answered_is_not_asked_again);
    tcase_add_test(tcase, an_acknowledgement_answers_the_order_that_was_told_and_no_later_one);
    tcase_add_test(tcase, a_call_back_runs_once_for_each_change);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
