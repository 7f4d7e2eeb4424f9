/* Traces are read with every number checked, and policies behave as their papers say on small ones. */
#include "engine-ctl/resource_trace.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static int read_text(const char *text, struct resource_trace *trace, struct ec_error *why)
{
    FILE *file = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    int rc;

    ck_assert_ptr_nonnull(file);
    rc = resource_trace_read(file, trace, why);
    fclose(file);
    return rc;
}

static const struct {
    const char *text, *part;
} bad[] = {
    { "u 1 1 0\n", "does not begin" },
    { RESOURCE_TRACE_HEADER "u 1 1 0\n", "line 2" },
    { RESOURCE_TRACE_HEADER "r 0 10 5 a\nr 0 10 5 b\n", "line 3" },
    { RESOURCE_TRACE_HEADER "r 99999999 10 5 a\n", "line 2" },
    { RESOURCE_TRACE_HEADER "r 0 0 5 a\n", "line 2" },
    { RESOURCE_TRACE_HEADER "r 0 -1 5 a\n", "line 2" },
    { RESOURCE_TRACE_HEADER "r 0 10 5 a\nu 1 1 0 more\n", "line 3" },
    { RESOURCE_TRACE_HEADER "# said\n\nr 0 10 5 a\nx\n", "line 5" },
};

START_TEST(a_bad_line_is_named)
{
    struct resource_trace trace;
    struct ec_error why = { 0 };

    ck_assert_int_eq(read_text(bad[_i].text, &trace, &why), EC_ERR_PARSE);
    ck_assert_msg(strstr(why.text, bad[_i].part) != NULL, "%s", why.text);
    resource_trace_finish(&trace);
}
END_TEST

/* h and i are used again and again; a scan over eight others comes by twice. There is room for four. */
static void write_scan(char *text)
{
    char *at = text + sprintf(text, "%s", RESOURCE_TRACE_HEADER);

    for (int i = 0; i < 10; i++)
        at += sprintf(at, "r %d 10 1000 n%d\n", i, i);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 4; i++)
            at += sprintf(at, "u 1 1 0\nu 1 1 1\n");
        for (int i = 2; i < 10; i++)
            at += sprintf(at, "u 1 1 %d\n", i);
    }
    sprintf(at, "u 1 1 0\nu 1 1 1\n");
}

START_TEST(a_scan_pushes_out_what_is_used_again_under_lru_alone)
{
    char text[4096];
    struct resource_trace trace;
    struct policy_result result[POLICIES];
    struct ec_error why = { 0 };

    write_scan(text);
    ck_assert_msg(read_text(text, &trace, &why) == EC_OK, "%s", why.text);
    ck_assert_uint_eq(trace.bytes, 100);
    for (unsigned i = 0; i < POLICIES; i++)
        ck_assert_int_eq(policy_run(&trace, i, 40, &result[i]), EC_OK);
    ck_assert_uint_eq(result[POLICY_LRU].hits, 6 + 6); /* both must be loaded after each scan */
    ck_assert_uint_eq(result[POLICY_LRU2].hits, 6 + 8 + 2);
    for (unsigned i = 0; i < POLICIES; i++) {
        ck_assert_uint_eq(result[i].uses, 34);
        ck_assert_uint_ge(result[i].hits, result[POLICY_LRU].hits);
        ck_assert_uint_eq(result[i].waited_bytes, (34 - result[i].hits) * 10);
        ck_assert_uint_eq(result[i].reloaded_bytes, result[i].waited_bytes - 100);
    }
    resource_trace_finish(&trace);
}
END_TEST

START_TEST(everything_fits_and_nothing_is_reloaded)
{
    char text[4096];
    struct resource_trace trace;
    struct policy_result result;
    struct ec_error why = { 0 };

    write_scan(text);
    ck_assert_int_eq(read_text(text, &trace, &why), EC_OK);
    for (unsigned i = 0; i < POLICIES; i++) {
        ck_assert_int_eq(policy_run(&trace, i, 100, &result), EC_OK);
        ck_assert_uint_eq(result.hits, 24);
        ck_assert_uint_eq(result.reloaded_bytes, 0);
        ck_assert_int_eq(policy_run(&trace, i, 9, &result), EC_OK); /* nothing fits */
        ck_assert_uint_eq(result.hits, 0);
    }
    resource_trace_finish(&trace);
}
END_TEST

START_TEST(a_soft_reference_loads_ahead_where_it_counts)
{
    struct resource_trace trace;
    struct policy_result result;
    struct ec_error why = { 0 };

    ck_assert_int_eq(
        read_text(RESOURCE_TRACE_HEADER "r 0 10 5 a\nr 1 10 5 b\ns 1 1 1\nu 2 1 1\n", &trace, &why),
        EC_OK);
    ck_assert_int_eq(policy_run(&trace, POLICY_LRU2_AHEAD, 20, &result), EC_OK);
    ck_assert_uint_eq(result.hits, 1);
    ck_assert_uint_eq(result.ahead_bytes, 10);
    ck_assert_int_eq(policy_run(&trace, POLICY_LRU2, 20, &result), EC_OK);
    ck_assert_uint_eq(result.hits, 0);
    resource_trace_finish(&trace);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("resource trace");
    TCase *tcase = tcase_create("resource trace");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, a_bad_line_is_named, 0, sizeof bad / sizeof bad[0]);
    tcase_add_test(tcase, a_scan_pushes_out_what_is_used_again_under_lru_alone);
    tcase_add_test(tcase, everything_fits_and_nothing_is_reloaded);
    tcase_add_test(tcase, a_soft_reference_loads_ahead_where_it_counts);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
