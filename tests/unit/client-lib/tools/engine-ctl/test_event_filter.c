/* Conditions on payloads: to the last digit, and never true of what is not there. */
#include "engine-ctl/event_filter.h"

#include <check.h>
#include <string.h>

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

static const char *const wrong[] = { "",     "x",    "=1",   "!x",   "x!1",  ">=",
                                     "x>>1", "x==1", "x=<1", "x<>1", "x=!1", "x!=!" };

START_TEST(what_is_no_condition_is_refused)
{
    struct event_filter filter;

    ck_assert(!event_filter_parse(&filter, wrong[_i]));
}
END_TEST

#define SHOT                                                                                       \
    "{\"name\":\"game.shot\",\"version\":1,\"size\":32,\"policy\":\"reliable\",\"fields\":["       \
    "{\"name\":\"shooter\",\"type\":\"u32\",\"count\":1,\"offset\":0},"                            \
    "{\"name\":\"speed\",\"type\":\"f32\",\"count\":1,\"offset\":4},"                              \
    "{\"name\":\"hit\",\"type\":\"bool\",\"count\":1,\"offset\":8},"                               \
    "{\"name\":\"weapon\",\"type\":\"char\",\"count\":8,\"offset\":9},"                            \
    "{\"name\":\"at\",\"type\":\"f32\",\"count\":3,\"offset\":20}]}"
#define PLAIN "{\"name\":\"game.plain\",\"version\":1,\"size\":32,\"policy\":\"lossy\"}"

static const struct {
    const char *type;
    const char *condition;
    const char *reason; /* NULL: none */
} against_types[] = {
    { SHOT, "shooter=3", NULL },
    { SHOT, "shooter>=1e3", NULL },
    { SHOT, "hit=true", NULL },
    { SHOT, "weapon!=rail", NULL },
    { SHOT, "weapon=", NULL },
    { PLAIN, "hex=00", NULL },
    { SHOT, "shoter=3", "type game.shot has no field shoter, did you mean shooter?" },
    { SHOT, "colour=3", "type game.shot has no field colour; its first is shooter" },
    { SHOT, "speed=fast", "field speed of type game.shot is a number, \"fast\" is none" },
    { SHOT, "speed=", "field speed of type game.shot is a number, \"\" is none" },
    { SHOT, "speed<nan", "\"nan\" is none" },
    { SHOT, "hit=1", "field hit of type game.shot is true or false" },
    { SHOT, "hit>false", "field hit of type game.shot is true or false" },
    { SHOT, "at>1", "field at of type game.shot is an array of 3" },
    { PLAIN, "x=1", "type game.plain has no fields" },
};

START_TEST(a_condition_that_no_event_of_the_type_can_meet_is_refused)
{
    cJSON *json = cJSON_Parse(against_types[_i].type);
    struct event_filter filter;
    struct event_layout layout;
    struct ec_error why = { 0 };
    int rc;

    ck_assert_msg(event_layout_read(json, &layout, &why) == EC_OK, "%s", why.text);
    ck_assert(event_filter_parse(&filter, against_types[_i].condition));
    rc = event_filter_check(&filter, &layout, &why);
    if (against_types[_i].reason == NULL) {
        ck_assert_msg(rc == EC_OK, "%s", why.text);
    } else {
        ck_assert_int_eq(rc, EC_ERR_PARAM);
        ck_assert_msg(strstr(why.text, against_types[_i].reason) != NULL, "%s", why.text);
    }
    cJSON_Delete(json);
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
    tcase_add_loop_test(tcase, a_condition_that_no_event_of_the_type_can_meet_is_refused, 0,
                        (int)(sizeof against_types / sizeof against_types[0]));
    tcase_add_loop_test(tcase, what_is_no_condition_is_refused, 0,
                        (int)(sizeof wrong / sizeof wrong[0]));
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
