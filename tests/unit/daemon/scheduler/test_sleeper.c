/* test_sleeper.c - one wait for the time, the main loop and a member, by FUTEX_WAITV and by the bell. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "foundation/futex.h"
#include "foundation/real_time.h"
#include "scheduler/sleeper.h"

#define FOREVER_NS (INT64_C(20) * EC_NS_PER_S)

static struct sleeper sleeper;
static _Atomic uint32_t member;

static void set_up_with(bool waitv)
{
    ck_assert_int_eq(sleeper_init(&sleeper, NULL, waitv, NULL), EC_OK);
    if (!waitv)
        ck_assert_int_ge(sleeper.bell_fd, 0);
    atomic_store(&member, 0);
}

static void tear_down(void)
{
    sleeper_finish(&sleeper);
}

static struct scheduler_outcome waiting_for_member(void)
{
    struct scheduler_outcome outcome = { .word_count = 1 };

    outcome.words[0] = (struct ec_futex_word) { &member, 0 };
    return outcome;
}

/* Waits with a far deadline until something else ends it: without that the test times out. */
static void wait_long(const struct scheduler_outcome *outcome, uint32_t command)
{
    int64_t end_ns = ec_real_ns() + FOREVER_NS;

    sleeper_wait(&sleeper, command, outcome, end_ns);
    ck_assert_int_lt(ec_real_ns(), end_ns);
}

static void *be_done(void *context)
{
    const uint64_t one = 1;

    atomic_store_explicit(&member, 1, memory_order_release);
    if (sleeper.bell_fd < 0)
        ec_futex_wake_all(&member);
    else if (write(sleeper.bell_fd, &one, sizeof one) < 0)
        abort();
    return context;
}

static void *kick(void *context)
{
    sleeper_kick(&sleeper);
    return context;
}

START_TEST(a_member_that_is_done_ends_the_wait)
{
    struct scheduler_outcome outcome = waiting_for_member();
    pthread_t thread;

    set_up_with(_i == 0);
    for (int i = 0; i < 200; i++) {
        uint32_t command = sleeper_command(&sleeper);

        atomic_store(&member, 0);
        ck_assert_int_eq(pthread_create(&thread, NULL, be_done, NULL), 0);
        while (atomic_load(&member) == 0)
            wait_long(&outcome, command);
        pthread_join(thread, NULL);
    }
}
END_TEST

START_TEST(a_kick_ends_the_wait_also_one_that_came_before_it)
{
    struct scheduler_outcome outcome = waiting_for_member(), nobody = { 0 };
    pthread_t thread;

    set_up_with(_i == 0);
    for (int i = 0; i < 200; i++) {
        uint32_t command = sleeper_command(&sleeper);

        ck_assert_int_eq(pthread_create(&thread, NULL, kick, NULL), 0);
        while (sleeper_command(&sleeper) == command)
            wait_long(i % 2 ? &outcome : &nobody, command);
        wait_long(&outcome, command);
        pthread_join(thread, NULL);
    }
}
END_TEST

START_TEST(the_deadline_ends_the_wait_and_not_before)
{
    struct scheduler_outcome outcome = waiting_for_member();
    int64_t end_ns = ec_real_ns() + 3000000;

    set_up_with(_i == 0);
    while (ec_real_ns() < end_ns)
        sleeper_wait(&sleeper, sleeper_command(&sleeper), &outcome, end_ns);
    sleeper_wait(&sleeper, sleeper_command(&sleeper), &outcome, end_ns - 1000000); /* is over */
}
END_TEST

START_TEST(a_spin_before_the_deadline_ends_at_the_deadline)
{
    struct scheduler_outcome outcome = { .spin_ns = 1000000 };
    int64_t end_ns = ec_real_ns() + 3000000;

    set_up_with(_i == 0);
    sleeper.may_spin = true;
    sleeper_wait(&sleeper, sleeper_command(&sleeper), &outcome, end_ns);
    ck_assert_int_ge(ec_real_ns(), end_ns);
}
END_TEST

static int64_t simulated_ns = 1000;

static int64_t simulated_now(void *context)
{
    return *(int64_t *)context;
}

static void simulated_sleep(void *context, int64_t deadline_ns)
{
    *(int64_t *)context = deadline_ns;
}

START_TEST(with_a_simulated_source_years_pass_at_once)
{
    const struct ec_time_source source = { simulated_now, simulated_sleep, &simulated_ns };
    struct scheduler_outcome outcome = { 0 };

    ck_assert_int_eq(sleeper_init(&sleeper, &source, true, NULL), EC_OK);
    ck_assert_int_eq(sleeper_now_ns(&sleeper), 1000);
    sleeper_wait(&sleeper, sleeper_command(&sleeper), &outcome, INT64_C(100000000000000000));
    ck_assert_int_eq(sleeper_now_ns(&sleeper), INT64_C(100000000000000000));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sleeper");
    TCase *tests = tcase_create("one wait");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tests, NULL, tear_down);
    tcase_add_loop_test(tests, a_member_that_is_done_ends_the_wait, 0, 2);
    tcase_add_loop_test(tests, a_kick_ends_the_wait_also_one_that_came_before_it, 0, 2);
    tcase_add_loop_test(tests, the_deadline_ends_the_wait_and_not_before, 0, 2);
    tcase_add_loop_test(tests, a_spin_before_the_deadline_ends_at_the_deadline, 0, 2);
    tcase_add_test(tests, with_a_simulated_source_years_pass_at_once);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
