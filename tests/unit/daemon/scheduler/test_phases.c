/* test_phases.c - newcomers get the largest gap, and nobody moves. */
#include <check.h>
#include <stdlib.h>

#include "scheduler/phases.h"

#define PERIOD_NS 16000

START_TEST(each_newcomer_halves_the_largest_gap)
{
    static const int64_t expected[] = { 0, 8000, 4000, 12000, 2000, 6000, 10000, 14000 };
    int64_t taken[8];

    for (unsigned i = 0; i < 8; i++) {
        int64_t phase_ns = phase_for_newcomer(taken, i, PERIOD_NS);

        ck_assert_int_eq(phase_ns, expected[i]);
        taken[i] = phase_ns;
    }
}
END_TEST

START_TEST(the_gap_over_the_end_of_the_period_counts_too)
{
    int64_t taken[] = { 9000, 5000 };

    ck_assert_int_eq(phase_for_newcomer(taken, 2, PERIOD_NS), 15000);
}
END_TEST

START_TEST(sixteen_are_at_least_a_sixteenth_apart)
{
    int64_t taken[16];

    for (unsigned i = 0; i < 16; i++)
        taken[i] = phase_for_newcomer(taken, i, PERIOD_NS);
    for (unsigned i = 0; i < 16; i++)
        for (unsigned j = 0; j < i; j++)
            ck_assert_int_ge(llabs(taken[i] - taken[j]), PERIOD_NS / 16);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("phases");
    TCase *tests = tcase_create("gaps");
    SRunner *runner;
    int failed;

    tcase_add_test(tests, each_newcomer_halves_the_largest_gap);
    tcase_add_test(tests, the_gap_over_the_end_of_the_period_counts_too);
    tcase_add_test(tests, sixteen_are_at_least_a_sixteenth_apart);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
