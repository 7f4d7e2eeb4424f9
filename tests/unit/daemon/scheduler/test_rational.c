/* test_rational.c - fractions are taken by their text, exactly. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/rational.h"

static const struct {
    const char *json;
    int result;
    uint64_t num, den;
} cases[] = {
    { "60", EC_OK, 60, 1 },
    { "59.94", EC_OK, 2997, 50 },
    { "0.1", EC_OK, 1, 10 },
    { "0.000000001", EC_OK, 1, 1000000000 },
    { "\"60000/1001\"", EC_OK, 60000, 1001 },
    { "\"1/3600\"", EC_OK, 1, 3600 },
    { "\"29.97\"", EC_OK, 2997, 100 },
    { "0", EC_OK, 0, 1 },
    { "0.0000000001", EC_ERR_PARAM, 0, 0 },
    { "1e3", EC_ERR_PARAM, 0, 0 },
    { "-1", EC_ERR_PARAM, 0, 0 },
    { "true", EC_ERR_PARAM, 0, 0 },
    { "null", EC_ERR_PARAM, 0, 0 },
    { "\"\"", EC_ERR_PARAM, 0, 0 },
    { "\"1/0\"", EC_ERR_PARAM, 0, 0 },
    { "\"1/\"", EC_ERR_PARAM, 0, 0 },
    { "\"/1\"", EC_ERR_PARAM, 0, 0 },
    { "\"a/b\"", EC_ERR_PARAM, 0, 0 },
    { "\"1.5/2\"", EC_ERR_PARAM, 0, 0 },
    { "\" 1\"", EC_ERR_PARAM, 0, 0 },
    { "\"NaN\"", EC_ERR_PARAM, 0, 0 },
    { "18446744073709551615", EC_OK, UINT64_MAX, 1 },
    { "18446744073709551616", EC_ERR_PARAM, 0, 0 },
    { "\"1/99999999999999999999\"", EC_ERR_PARAM, 0, 0 },
};

START_TEST(a_fraction_is_what_its_text_says)
{
    const struct ec_json_span value = { cases[_i].json, strlen(cases[_i].json) };
    struct rational rational;
    struct ec_error why = { 0 };

    ck_assert_int_eq(rational_parse(value, "0 to 100", &rational, &why), cases[_i].result);
    if (cases[_i].result != EC_OK) {
        ck_assert_msg(strstr(why.text, cases[_i].json) != NULL, "%s", why.text);
        ck_assert_msg(strstr(why.text, "expected 0 to 100") != NULL, "%s", why.text);
        return;
    }
    ck_assert_uint_eq(rational.num, cases[_i].num);
    ck_assert_uint_eq(rational.den, cases[_i].den);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rational");
    TCase *tests = tcase_create("texts");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tests, a_fraction_is_what_its_text_says, 0,
                        (int)(sizeof cases / sizeof *cases));
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
