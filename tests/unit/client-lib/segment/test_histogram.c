/* Percentiles promise 12.5 % of the value, nothing above the maximum, and zeros for nothing. */
#include "segment/histogram.h"

#include <check.h>
#include <stdlib.h>

static struct ec_histogram histogram, other;

static struct ec_percentiles percentiles_of(const struct ec_histogram *a,
                                            const struct ec_histogram *b)
{
    struct ec_histogram_sum sum = { 0 };
    struct ec_percentiles percentiles;

    ec_histogram_sum_add(&sum, a);
    if (b != NULL)
        ec_histogram_sum_add(&sum, b);
    ec_histogram_percentiles(&sum, &percentiles);
    return percentiles;
}

static void assert_near(uint64_t got, uint64_t expected)
{
    uint64_t distance = got > expected ? got - expected : expected - got;

    ck_assert_msg(distance * 8 <= expected, "%lu is not within 12.5 %% of %lu", (unsigned long)got,
                  (unsigned long)expected);
}

START_TEST(an_empty_histogram_has_only_zeros)
{
    struct ec_percentiles p = percentiles_of(&histogram, NULL);

    ck_assert_uint_eq(p.count + p.p50_ns + p.p99_ns + p.p999_ns + p.max_ns, 0);
}
END_TEST

START_TEST(percentiles_of_a_ramp_are_within_an_eighth)
{
    struct ec_percentiles p;

    for (uint64_t ns = 1000; ns <= 1000000; ns += 1000)
        ec_histogram_add(&histogram, ns);
    p = percentiles_of(&histogram, NULL);
    ck_assert_uint_eq(p.count, 1000);
    assert_near(p.p50_ns, 500000);
    assert_near(p.p99_ns, 990000);
    assert_near(p.p999_ns, 999000);
    ck_assert_uint_eq(p.max_ns, 1000000);
}
END_TEST

START_TEST(no_percentile_is_above_the_maximum)
{
    struct ec_percentiles p;

    ec_histogram_add(&histogram, 4097); /* the middle of its bucket is 4608 */
    p = percentiles_of(&histogram, NULL);
    ck_assert_uint_eq(p.p50_ns, 4097);
    ck_assert_uint_eq(p.p999_ns, 4097);
}
END_TEST

START_TEST(one_slow_sample_of_a_thousand_shows_only_in_the_maximum)
{
    struct ec_percentiles p;

    for (int i = 0; i < 999; i++)
        ec_histogram_add(&histogram, 200);
    ec_histogram_add(&histogram, 3000000000u);
    p = percentiles_of(&histogram, NULL);
    assert_near(p.p99_ns, 200);
    assert_near(p.p999_ns, 200);
    ck_assert_uint_eq(p.max_ns, 3000000000u);
}
END_TEST

START_TEST(several_histograms_are_one)
{
    struct ec_percentiles p;

    for (int i = 0; i < 100; i++)
        ec_histogram_add(&histogram, 1000);
    for (int i = 0; i < 300; i++)
        ec_histogram_add(&other, 100000);
    p = percentiles_of(&histogram, &other);
    ck_assert_uint_eq(p.count, 400);
    assert_near(p.p50_ns, 100000);
    ck_assert_uint_eq(p.max_ns, 100000);
}
END_TEST

START_TEST(a_writer_that_lies_about_its_counts_does_no_harm)
{
    struct ec_percentiles p;

    for (uint32_t i = 0; i < EC_HISTOGRAM_BUCKETS; i++)
        atomic_store(&histogram.bucket[i], UINT32_MAX);
    p = percentiles_of(&histogram, NULL);
    ck_assert_uint_eq(p.count, (uint64_t)UINT32_MAX * EC_HISTOGRAM_BUCKETS);
    ck_assert_uint_eq(p.p50_ns, 0); /* its maximum says 0 */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("histogram");
    TCase *tcase = tcase_create("histogram");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, an_empty_histogram_has_only_zeros);
    tcase_add_test(tcase, percentiles_of_a_ramp_are_within_an_eighth);
    tcase_add_test(tcase, no_percentile_is_above_the_maximum);
    tcase_add_test(tcase, one_slow_sample_of_a_thousand_shows_only_in_the_maximum);
    tcase_add_test(tcase, several_histograms_are_one);
    tcase_add_test(tcase, a_writer_that_lies_about_its_counts_does_no_harm);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
