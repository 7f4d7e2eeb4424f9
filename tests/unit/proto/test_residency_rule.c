/* Who goes first: by the use before the last, then by what a byte costs, then by the last use. */
#include "proto/residency_rule.h"

#include <check.h>
#include <stdlib.h>

#define MIB (UINT64_C(1) << 20)

static const struct {
    struct ec_residency_use first, second;
} cases[] = {
    /* The use before the last one decides, whatever else. */
    { { .previous = 3, .last = 90, .bytes = 10, .load_ns = 1000000000 },
      { .previous = 4, .last = 5, .bytes = 10, .load_ns = 1 } },
    /* Used once, or never, before all others. */
    { { .previous = 0, .last = 90, .bytes = MIB, .load_ns = 1000000 },
      { .previous = 1, .last = 1, .bytes = MIB, .load_ns = 1000000 } },
    /* Among equals what is read as it is before what takes long to decode... */
    { { .previous = 0, .last = 90, .bytes = 10 * MIB, .load_ns = 5000000 },
      { .previous = 0, .last = 10, .bytes = 10 * MIB, .load_ns = 500000000 } },
    /* ...by the byte: the larger one of two that took the same time. */
    { { .previous = 7, .last = 90, .bytes = 400 * MIB, .load_ns = 500000000 },
      { .previous = 7, .last = 10, .bytes = 4 * MIB, .load_ns = 500000000 } },
    /* Measured times are never exact: a few percent are no difference, and the last use decides. */
    { { .previous = 2, .last = 10, .bytes = 10 * MIB, .load_ns = 52000000 },
      { .previous = 2, .last = 11, .bytes = 10 * MIB, .load_ns = 50000000 } },
    /* Processes and messages are most of what a small one takes, so it says nothing. */
    { { .previous = 0, .last = 10, .bytes = 100, .load_ns = 1500000 },
      { .previous = 0, .last = 11, .bytes = 40000, .load_ns = 1400000 } },
};

START_TEST(the_first_one_goes_before_the_second)
{
    ck_assert(ec_residency_before(&cases[_i].first, &cases[_i].second));
    ck_assert(!ec_residency_before(&cases[_i].second, &cases[_i].first));
    ck_assert(!ec_residency_before(&cases[_i].first, &cases[_i].first));
}
END_TEST

START_TEST(extremes_do_not_overflow)
{
    const struct ec_residency_use longest = { .bytes = 1, .load_ns = INT64_MAX / 1024 },
                                  largest = { .bytes = UINT64_C(1) << 48, .load_ns = 1 };

    ck_assert_uint_gt(ec_residency_cost(&longest), ec_residency_cost(&largest));
    ck_assert_uint_eq(ec_residency_cost(&largest), 0);
    ck_assert(ec_residency_before(&largest, &longest));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("residency rule");
    TCase *tcase = tcase_create("rule");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_loop_test(tcase, the_first_one_goes_before_the_second, 0,
                        sizeof cases / sizeof cases[0]);
    tcase_add_test(tcase, extremes_do_not_overflow);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
