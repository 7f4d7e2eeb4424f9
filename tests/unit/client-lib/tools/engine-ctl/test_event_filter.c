/* Conditions on payloads: to the last digit, and never true of what is not there. */
#include "engine-ctl/event_filter.h"

#include <check.h>

#define PAYLOAD                                                                                    \
    "{\"n\":18446744073709551615,\"i\":-9223372036854775808,\"x\":1.5,\"e\":2e3,\"t\":\"me\","     \
    "\"b\":true,\"a\":[1,2],\"z\":null,\"empty\":\"\"}"

static const struct {
    const char *text;
    bool matches;
} conditions[] = {
    { "n=18446744073709551615", true },
    { "n=18446744073709551614", false }, /* the same as a double */
    { "n>18446744073709551614", true },
    { "n!=18446744073709551614", true },
    { "n<=18446744073709551615", true },
    { "n>1.5", true },
    { "i=-9223372036854775808", true },
    { "i<-9223372036854775807", true },
    { "i>=0", false },
    { "i<-0", true },
    { "x=1.5", true },
    { "x>=1.5", true },
    { "x>1.5", false },
    { "x<2", true },
    { "x!=1", true },
    { "e=2000", true },
    { "t=me", true },
    { "t!=me", false },
    { "t>a", true },
    { "t=", false },
    { "empty=", true },
    { "b=true", true },
    { "b!=false", true },
    { "b=1", false },
    { "b>false", false },
    { "a=1", false },
    { "z!=0", false },
    { "none!=0", false },
    { "x=soon", false },
    { "x!=soon", false },
    { "x!=nan", false },
};

START_TEST(a_condition_holds_of_the_value_and_of_nothing_else)
{
    cJSON *payload = cJSON_Parse(PAYLOAD);
    struct event_filter filter;

    ck_assert(event_filter_parse(&filter, conditions[_i].text));
    ck_assert_msg(event_filter_matches(&filter, payload, PAYLOAD) == conditions[_i].matches, "%s",
                  conditions[_i].text);
    cJSON_Delete(payload);
}
END_TEST

static const char *const wrong[] = { "", "x", "=1", "!x", "x!1", ">=" };

START_TEST(what_is_no_condition_is_refused)
{
    struct event_filter filter;

    ck_assert(!event_filter_parse(&filter, wrong[_i]));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event filter");
    TCase *tcase = tcase_create("event filter");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, a_condition_holds_of_the_value_and_of_nothing_else, 0,
                        (int)(sizeof conditions / sizeof conditions[0]));
    tcase_add_loop_test(tcase, what_is_no_condition_is_refused, 0,
                        (int)(sizeof wrong / sizeof wrong[0]));
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
