/* A stamp clock says what the kernel's clock would say, or asks it. */
#include "foundation/stamp_clock.h"

#include <check.h>

#include "support/often.h"

#define MS INT64_C(1000000)
#define COUNTS_PER_NS 3

static struct ec_stamp_clock clock_;
static uint64_t count; /* of a simulated counter */
static int64_t now_ns; /* of the kernel's clock */

static void set_up(void)
{
    clock_ = (struct ec_stamp_clock) { 0 };
    count = 1000000;
    now_ns = 77 * MS;
}

static void pass(int64_t ns)
{
    now_ns += ns;
    count += (uint64_t)ns * COUNTS_PER_NS;
}

/* A reading of the kernel's clock each millisecond. */
static void note_for(int64_t ms)
{
    for (int64_t i = 0; i < ms; i++) {
        pass(MS);
        ec_stamp_clock_note(&clock_, count, now_ns);
    }
}

static bool says(int64_t *said_ns)
{
    return ec_stamp_clock_at(&clock_, count, said_ns);
}

START_TEST(after_two_estimates_that_agree_it_continues_a_reading_for_a_millisecond)
{
    int64_t said;

    note_for(15);
    ck_assert(!says(&said)); /* one estimate is none */
    note_for(15);
    for (int i = 0; i < 999; i++) {
        pass(1000);
        ASSERT_OFTEN(says(&said) && said >= now_ns - 1 && said <= now_ns + 1);
    }
    pass(2000);
    ck_assert(!says(&said));
    ec_stamp_clock_note(&clock_, count, now_ns);
    ck_assert(says(&said));
}
END_TEST

START_TEST(a_counter_that_was_set_back_is_not_believed)
{
    int64_t said;

    note_for(30);
    count -= 5;
    ck_assert(!says(&said));
    count = 1;
    ck_assert(!says(&said));
    ec_stamp_clock_note(&clock_, count, now_ns);
    ck_assert(!says(&said));
    note_for(30);
    ck_assert(says(&said));
    ck_assert_int_le(said, now_ns + 1);
    ck_assert_int_ge(said, now_ns - 1);
}
END_TEST

START_TEST(a_counter_that_ran_on_while_the_clock_stood_is_not_believed)
{
    int64_t said;

    note_for(30);
    count += 3600 * 1000 * (uint64_t)MS * COUNTS_PER_NS; /* suspended for an hour */
    ck_assert(!says(&said));
    note_for(10); /* its estimate has that hour in it */
    ck_assert(!says(&said));
    note_for(30);
    ck_assert(says(&said));
    ck_assert_int_le(said, now_ns + 1);
    ck_assert_int_ge(said, now_ns - 1);
}
END_TEST

START_TEST(it_never_goes_back)
{
    int64_t before, after;

    note_for(30);
    pass(MS / 2);
    ck_assert(says(&before));
    ec_stamp_clock_note(&clock_, count, now_ns - 100); /* the rate was a little too high */
    ck_assert(says(&after));
    ck_assert_int_eq(after, before);
    pass(200);
    ck_assert(says(&after));
    ck_assert_int_gt(after, before);
}
END_TEST

START_TEST(a_long_pause_keeps_the_rate)
{
    int64_t said;

    note_for(30);
    pass(3600 * 1000 * MS);
    ck_assert(!says(&said));
    ec_stamp_clock_note(&clock_, count, now_ns);
    pass(MS / 2);
    ck_assert(says(&said));
    ck_assert_int_le(said, now_ns + 10);
    ck_assert_int_ge(said, now_ns - 10);
}
END_TEST

START_TEST(on_this_machine_it_agrees_with_the_kernel_s_clock)
{
    const int64_t end_ns = ec_real_ns() + 100 * MS;
    int64_t before_ns, stamp_ns, last_ns = 0;

    ec_stamp_clock_init(&clock_);
    do {
        before_ns = ec_real_ns();
        stamp_ns = ec_stamp_clock_ns(&clock_);
        ASSERT_OFTEN(stamp_ns >= last_ns);
        ASSERT_OFTEN(stamp_ns >= before_ns - 2000 && stamp_ns <= ec_real_ns() + 2000);
        last_ns = stamp_ns;
    } while (before_ns < end_ns);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stamp clock");
    TCase *tcase = tcase_create("stamp clock");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, NULL);
    tcase_add_test(tcase, after_two_estimates_that_agree_it_continues_a_reading_for_a_millisecond);
    tcase_add_test(tcase, a_counter_that_was_set_back_is_not_believed);
    tcase_add_test(tcase, a_counter_that_ran_on_while_the_clock_stood_is_not_believed);
    tcase_add_test(tcase, it_never_goes_back);
    tcase_add_test(tcase, a_long_pause_keeps_the_rate);
    tcase_add_test(tcase, on_this_machine_it_agrees_with_the_kernel_s_clock);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
