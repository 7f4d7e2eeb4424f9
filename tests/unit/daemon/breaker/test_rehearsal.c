/* A rehearsal says what would have happened, and refuses traces that make no sense. */
#include "breaker/rehearsal.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config.h"
#include "foundation/json/json_scan.h"

static struct config *config;
static struct breaker_policy policy;
static struct ec_error why;
static char text[8192];

static void set_up(void)
{
    ck_assert_int_eq(config_create(&(struct config_source) { 0 }, &config, &why), EC_OK);
    ck_assert_int_eq(policy_load(config, &policy, &why), EC_OK);
}

static void tear_down(void)
{
    config_destroy(config);
}

static int run(const char *trace)
{
    struct ec_json_writer writer;
    int rc;

    ec_json_writer_init(&writer, text, sizeof text - 1);
    ec_json_object_begin(&writer);
    rc = rehearsal_run(&policy, ec_json_root(trace, strlen(trace)), &writer, &why);
    if (rc == EC_OK)
        ec_json_object_end(&writer);
    text[writer.bytes] = '\0';
    return rc;
}

START_TEST(a_trace_shows_its_transitions)
{
    ck_assert_msg(run("[[0,1000,900],[10,1000,140],[20,1000,40],[30,1000,900],[530,1000,900],"
                      "[540,1000,900]]") == EC_OK,
                  "%s", why.text);
    ck_assert_msg(strstr(text, "\"at_ms\":10,\"from\":0,\"to\":1,\"cause\":\"memory\"") != NULL,
                  "%s", text);
    ck_assert(strstr(text, "\"at_ms\":20,\"from\":1,\"to\":3") != NULL);
    ck_assert(strstr(text, "\"at_ms\":530,\"from\":3,\"to\":2") != NULL);
    ck_assert(strstr(text, "\"readings\":6,\"level\":2,\"highest\":3") != NULL);
    ck_assert(strstr(text, "\"exit\"") != NULL); /* an action of level 3 */
}
END_TEST

/* 100 MB a second: up to 15 % and 1 %, and what grows in 0.3 s. */
START_TEST(what_would_be_asked_for_is_shown)
{
    ck_assert_int_eq(run("[[0,1000000000,100000000],[10,1000000000,99000000]]"), EC_OK);
    ck_assert_msg(strstr(text, "\"to\":2,\"cause\":\"memory\",\"available_bytes\":99000000,"
                               "\"growth_bytes_s\":100000000,\"wanted_bytes\":91000000") != NULL,
                  "%s", text);
}
END_TEST

START_TEST(what_was_recorded_goes_the_same_way)
{
    static const struct {
        int64_t at_ms;
        uint64_t available_bytes;
    } course[] = { { 700, 900 }, { 800, 140 }, { 900, 40 }, { 1000, 900 }, { 1500, 900 } };
    struct trace *trace = trace_create();
    char given[sizeof text];
    struct ec_json_writer writer;

    for (size_t i = 0; i < sizeof course / sizeof course[0]; i++)
        trace_add(trace, course[i].at_ms * 1000000,
                  &(struct level_reading) { .total_bytes = 1000,
                                            .available_bytes = course[i].available_bytes },
                  false);
    ck_assert_int_eq(
        run("[[0,1000,900],[100,1000,140],[200,1000,40],[300,1000,900],[800,1000,900]]"), EC_OK);
    memcpy(given, text, sizeof given);
    ck_assert(strstr(given, "\"from\":3,\"to\":2") != NULL);
    ec_json_writer_init(&writer, text, sizeof text - 1);
    ec_json_object_begin(&writer);
    rehearsal_run_recorded(&policy, trace, &writer);
    ec_json_object_end(&writer);
    text[writer.bytes] = '\0';
    ck_assert_str_eq(text, given);
    trace_destroy(trace);
}
END_TEST

START_TEST(pressure_in_a_trace_counts)
{
    ck_assert_int_eq(run("[[0,1000,400,150,0]]"), EC_OK);
    ck_assert_msg(strstr(text, "\"to\":1,\"cause\":\"psi\"") != NULL, "%s", text);
}
END_TEST

START_TEST(no_reading_is_no_transition)
{
    ck_assert_int_eq(run("[]"), EC_OK);
    ck_assert_str_eq(text, "{\"transitions\":[],\"readings\":0,\"level\":0,\"highest\":0}");
}
END_TEST

static const char *const bad[] = {
    "[[0,1000]]",
    "[[0,0,0]]",
    "[7]",
    "[[0,1000,-1]]",
    "[[10,1000,1],[5,1000,1]]",
    "[[0,1000,\"1\"]]",
    "[[0,1000,500,-1]]",
    "[[0,1000,500,0,-1]]",
    "[[0,1000,500,\"1\"]]",
    "[[0,1000,500,0,0,0]]",
};

START_TEST(nonsense_is_refused_with_its_element)
{
    ck_assert_int_eq(run(bad[_i]), EC_ERR_PARAM);
    ck_assert_msg(strstr(why.text, "trace: element") != NULL, "%s", why.text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rehearsal");
    TCase *tcase = tcase_create("rehearsal");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_trace_shows_its_transitions);
    tcase_add_test(tcase, what_would_be_asked_for_is_shown);
    tcase_add_test(tcase, what_was_recorded_goes_the_same_way);
    tcase_add_test(tcase, pressure_in_a_trace_counts);
    tcase_add_test(tcase, no_reading_is_no_transition);
    tcase_add_loop_test(tcase, nonsense_is_refused_with_its_element, 0,
                        (int)(sizeof bad / sizeof bad[0]));
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
