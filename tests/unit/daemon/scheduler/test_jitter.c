/* test_jitter.c - the last minute is remembered, and what was before is not. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/jitter.h"

static struct recent_jitter recent;

static struct ec_percentiles percentiles_at(int64_t now_ns)
{
    struct ec_histogram_sum sum = { 0 };
    struct ec_percentiles percentiles;

    recent_jitter_sum(&recent, now_ns, &sum);
    ec_histogram_percentiles(&sum, &percentiles);
    return percentiles;
}

START_TEST(a_late_step_is_forgotten_after_a_minute)
{
    int64_t begin_ns = 123 * JITTER_SLICE_NS;

    memset(&recent, 0, sizeof recent);
    recent_jitter_add(&recent, begin_ns, 5000000);
    for (int64_t now_ns = begin_ns; now_ns < begin_ns + 6 * JITTER_SLICE_NS; now_ns += 100000000) {
        recent_jitter_add(&recent, now_ns, 100);
        ck_assert_uint_eq(percentiles_at(now_ns).max_ns, 5000000);
    }
    for (int64_t now_ns = begin_ns + 7 * JITTER_SLICE_NS; now_ns < begin_ns + 20 * JITTER_SLICE_NS;
         now_ns += 100000000) {
        recent_jitter_add(&recent, now_ns, 100);
        ck_assert_uint_eq(percentiles_at(now_ns).max_ns, 100);
        ck_assert_uint_le(percentiles_at(now_ns).count, 700);
    }
}
END_TEST

START_TEST(without_steps_nothing_is_left)
{
    memset(&recent, 0, sizeof recent);
    recent_jitter_add(&recent, JITTER_SLICE_NS, 100);
    ck_assert_uint_eq(percentiles_at(2 * JITTER_SLICE_NS).count, 1);
    ck_assert_uint_eq(percentiles_at(9 * JITTER_SLICE_NS).count, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("jitter");
    TCase *tests = tcase_create("last minute");
    SRunner *runner;
    int failed;

    tcase_add_test(tests, a_late_step_is_forgotten_after_a_minute);
    tcase_add_test(tests, without_steps_nothing_is_left);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
