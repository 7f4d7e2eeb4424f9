/* A deadline is never before its beginning, however far away it is. */
#include "foundation/real_time.h"

#include <check.h>

static const struct {
    int64_t now_ns, timeout_ns, deadline_ns;
} cases[] = {
    { 5, 0, 5 },
    { 5, 10, 15 },
    { 5, -1, INT64_MAX }, /* for ever */
    { 5, INT64_MIN, INT64_MAX },
    { 5, INT64_MAX - 6, INT64_MAX - 1 },
    { 5, INT64_MAX - 5, INT64_MAX },
    { 5, INT64_MAX, INT64_MAX }, /* no overflow */
};

START_TEST(a_deadline_lies_as_far_away_as_was_asked_for_or_is_never)
{
    ck_assert_int_eq(ec_deadline_ns(cases[_i].now_ns, cases[_i].timeout_ns), cases[_i].deadline_ns);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("real_time");
    TCase *tcase = tcase_create("real_time");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, a_deadline_lies_as_far_away_as_was_asked_for_or_is_never, 0,
                        sizeof cases / sizeof cases[0]);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
