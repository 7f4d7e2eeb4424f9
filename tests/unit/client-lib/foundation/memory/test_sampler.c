#include "foundation/memory/sampler.h"

#include <check.h>

#include "support/often.h"

#define MEAN 10000

/* The expected sum of the weights is what was allocated. With a fixed seed this is a fixed number. */
static double estimate(uint64_t bytes, uint64_t count)
{
    struct ec_sampler sampler = { .random = 12345 };
    uint64_t sum = 0;

    sampler.until = ec_sampler_distance(&sampler, MEAN);
    for (uint64_t i = 0; i < count; i++) {
        sampler.until -= (int64_t)bytes;
        if (sampler.until <= 0)
            sum += ec_sampler_weight(&sampler, MEAN, bytes);
    }
    return (double)sum / (double)(bytes * count);
}

static const uint64_t sizes[] = { 16, 100, 999, MEAN, 3 * MEAN, 31 * MEAN, 1000 * MEAN };

START_TEST(blocks_of_any_size_are_estimated_as_what_they_are)
{
    const double share = estimate(sizes[_i], 400000000 / sizes[_i] + 1000);

    ck_assert_msg(share > 0.97 && share < 1.03, "%f of blocks of %d bytes", share, (int)sizes[_i]);
}
END_TEST

START_TEST(the_distances_have_their_mean_and_are_spread_like_an_exponential)
{
    struct ec_sampler sampler = { .random = 99 };
    double sum = 0;
    int below = 0;

    for (int i = 0; i < 100000; i++) {
        const int64_t distance = ec_sampler_distance(&sampler, MEAN);

        ASSERT_OFTEN(distance >= 1);
        sum += (double)distance;
        below += distance < MEAN;
    }
    ck_assert(sum / 100000 > 0.98 * MEAN && sum / 100000 < 1.02 * MEAN);
    ck_assert(below > 62000 && below < 64500); /* 1 - 1/e */
}
END_TEST

START_TEST(a_very_large_block_stands_for_itself)
{
    struct ec_sampler sampler = { .random = 7, .until = -1 };

    ck_assert_uint_eq(ec_sampler_weight(&sampler, MEAN, MEAN * EC_SAMPLER_POINTS_MAX + 5),
                      MEAN * EC_SAMPLER_POINTS_MAX + 5);
    ck_assert_int_gt(sampler.until, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sampler");
    TCase *tcase = tcase_create("sampler");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, blocks_of_any_size_are_estimated_as_what_they_are, 0,
                        sizeof sizes / sizeof sizes[0]);
    tcase_add_test(tcase, the_distances_have_their_mean_and_are_spread_like_an_exponential);
    tcase_add_test(tcase, a_very_large_block_stands_for_itself);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
