/* Amounts on the command line. */
#include "engine-ctl/duration.h"

#include <check.h>
#include <inttypes.h>
#include <stdlib.h>

static const struct {
    const char *text;
    uint64_t bytes;
} distances[] = {
    { "0", 0 },        { "off", 0 },           { "1", 1 }, { "65536", 65536 }, { "64KiB", 65536 },
    { "0.5KiB", 512 }, { "1TiB", 1ull << 40 },
};

static const char *const no_distances[] = { "",   "64kb", "-1",  "0.5", "2TiB",
                                            "5s", "1e99", "nan", "on",  "64KiB " };

START_TEST(a_distance_of_samples_is_bytes_with_or_without_a_unit_or_off)
{
    uint64_t bytes = 99;

    ck_assert(sample_distance_parse(distances[_i].text, &bytes));
    ck_assert_uint_eq(bytes, distances[_i].bytes);
}
END_TEST

START_TEST(what_is_no_distance_of_samples_is_refused)
{
    uint64_t bytes;

    ck_assert_msg(!sample_distance_parse(no_distances[_i], &bytes), "%s", no_distances[_i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("duration");
    TCase *tcase = tcase_create("distances of samples");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, a_distance_of_samples_is_bytes_with_or_without_a_unit_or_off, 0,
                        (int)(sizeof distances / sizeof distances[0]));
    tcase_add_loop_test(tcase, what_is_no_distance_of_samples_is_refused, 0,
                        (int)(sizeof no_distances / sizeof no_distances[0]));
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
