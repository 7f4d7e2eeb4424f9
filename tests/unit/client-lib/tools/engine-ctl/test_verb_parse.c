/* From words to verbs. */
#include "engine-ctl/verb.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct ctl ctl;
static const struct verb *verb;
static struct verb_input input;

static int parse(const char *const *words)
{
    int count = 0;

    while (words[count] != NULL)
        count++;
    ctl = (struct ctl) { .timeout_ms = 30000 };
    return verb_parse(&ctl, count, (char **)(uintptr_t)words, &verb, &input);
}

#define PARSE(...) parse((const char *const[]) { "engine-ctl", __VA_ARGS__, NULL })

START_TEST(a_verb_of_two_words_takes_its_argument_and_option)
{
    ck_assert_int_eq(PARSE("breaker", "trip", "2", "--reason", "too hot"), EXIT_DONE);
    ck_assert_str_eq(verb->name, "breaker trip");
    ck_assert_str_eq(input.arguments[0], "2");
    ck_assert_str_eq(input.options[0], "too hot");
}
END_TEST

START_TEST(options_may_stand_anywhere)
{
    ck_assert_int_eq(PARSE("--json", "breaker", "--reason=x=y", "trip", "--socket", "/s", "1"),
                     EXIT_DONE);
    ck_assert(ctl.json);
    ck_assert_str_eq(ctl.socket_path, "/s");
    ck_assert_str_eq(input.options[0], "x=y");
    ck_assert_str_eq(input.arguments[0], "1");
}
END_TEST

START_TEST(an_optional_value_is_only_taken_behind_an_equal_sign)
{
    ck_assert_int_eq(PARSE("status", "--watch"), EXIT_DONE);
    ck_assert_str_eq(input.options[0], "");
    ck_assert_int_eq(PARSE("status", "--watch=5"), EXIT_DONE);
    ck_assert_str_eq(input.options[0], "5");
    ck_assert_int_eq(PARSE("status"), EXIT_DONE);
    ck_assert_ptr_null(input.options[0]);
    ck_assert_int_eq(PARSE("status", "--watch", "5"), EXIT_USAGE);
}
END_TEST

START_TEST(an_option_that_may_be_given_several_times_fills_a_list)
{
    ck_assert_int_eq(PARSE("record", "--type", "a", "file", "--seconds", "3", "--type=b"),
                     EXIT_DONE);
    ck_assert_uint_eq(input.list_count, 2);
    ck_assert_str_eq(input.list[0], "a");
    ck_assert_str_eq(input.list[1], "b");
    ck_assert_ptr_null(input.options[0]);
    ck_assert_str_eq(input.options[1], "3");
}
END_TEST

START_TEST(options_that_come_several_times_are_kept_with_their_names)
{
    ck_assert_int_eq(PARSE("events", "tail", "--type", "a", "--where=b=1", "--type=c"), EXIT_DONE);
    ck_assert_uint_eq(input.list_count, 3);
    ck_assert_str_eq(input.list[0], "a");
    ck_assert_str_eq(input.list[1], "b=1");
    ck_assert_str_eq(input.list[2], "c");
    for (size_t i = 0; i < 3; i++)
        ck_assert_str_eq(verb->options[input.list_option[i]].name, i == 1 ? "where" : "type");
}
END_TEST

START_TEST(words_behind_two_dashes_are_no_options)
{
    ck_assert_int_eq(PARSE("call", "core.ping", "--", "--json"), EXIT_DONE);
    ck_assert(!ctl.json);
    ck_assert_str_eq(input.arguments[1], "--json");
}
END_TEST

START_TEST(a_negative_number_is_no_option)
{
    ck_assert_int_eq(PARSE("clock", "scale", "-1"), EXIT_DONE);
    ck_assert_str_eq(input.arguments[0], "-1");
    ck_assert_int_eq(PARSE("clock", "scale", "-.5"), EXIT_DONE);
    ck_assert_str_eq(input.arguments[0], "-.5");
    ck_assert_int_eq(PARSE("clock", "scale", "-x"), EXIT_USAGE);
}
END_TEST

static const char *const wrong[][6] = {
    { "engine-ctl", NULL },
    { "engine-ctl", "fly", NULL },
    { "engine-ctl", "breaker", NULL },
    { "engine-ctl", "breaker", "fly", NULL },
    { "engine-ctl", "breaker", "trip", NULL },
    { "engine-ctl", "breaker", "get", "more", NULL },
    { "engine-ctl", "clients", "--reason", "x", NULL },
    { "engine-ctl", "clients", "--nothing", NULL },
    { "engine-ctl", "clients", "--json=yes", NULL },
    { "engine-ctl", "clients", "--socket", NULL },
    { "engine-ctl", "clients", "--timeout", "soon", NULL },
    { "engine-ctl", "clients", "--timeout=0", NULL },
    { "engine-ctl", "fly", "--help", NULL },
};

START_TEST(what_is_not_understood_is_a_usage_error)
{
    ck_assert_int_eq(parse(wrong[_i]), EXIT_USAGE);
}
END_TEST

START_TEST(help_is_there_for_all_and_runs_nothing)
{
    ck_assert_int_eq(PARSE("--help"), EXIT_DONE);
    ck_assert_ptr_null(verb);
    for (size_t i = 0; i < verb_count; i++) {
        char words[64], *second;

        strcpy(words, verbs[i].name);
        second = strchr(words, ' ');
        if (second != NULL)
            *second++ = '\0';
        ck_assert_int_eq(PARSE(words, second != NULL ? second : "--help", "--help"), EXIT_DONE);
        ck_assert_ptr_null(verb);
    }
}
END_TEST

START_TEST(numbers_are_whole_and_in_their_range)
{
    long long number;

    ck_assert(verb_number("3", 0, 3, &number));
    ck_assert_int_eq(number, 3);
    ck_assert(!verb_number("4", 0, 3, &number));
    ck_assert(!verb_number("-1", 0, 3, &number));
    ck_assert(!verb_number("", 0, 3, &number));
    ck_assert(!verb_number("2x", 0, 3, &number));
    ck_assert(!verb_number("99999999999999999999", 0, INT64_MAX, &number));
}
END_TEST

START_TEST(each_verb_says_what_it_does)
{
    for (size_t i = 0; i < verb_count; i++) {
        ck_assert(verbs[i].run != NULL);
        ck_assert_uint_gt(strlen(verbs[i].help), 0);
        ck_assert_uint_le(verbs[i].argument_max, VERB_ARGUMENTS_MAX);
        ck_assert_uint_le(verbs[i].argument_min, verbs[i].argument_max);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verbs");
    TCase *tests = tcase_create("verbs");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tests, a_verb_of_two_words_takes_its_argument_and_option);
    tcase_add_test(tests, options_may_stand_anywhere);
    tcase_add_test(tests, an_optional_value_is_only_taken_behind_an_equal_sign);
    tcase_add_test(tests, options_that_come_several_times_are_kept_with_their_names);
    tcase_add_test(tests, words_behind_two_dashes_are_no_options);
    tcase_add_test(tests, a_negative_number_is_no_option);
    tcase_add_test(tests, an_option_that_may_be_given_several_times_fills_a_list);
    tcase_add_loop_test(tests, what_is_not_understood_is_a_usage_error, 0,
                        sizeof wrong / sizeof wrong[0]);
    tcase_add_test(tests, help_is_there_for_all_and_runs_nothing);
    tcase_add_test(tests, numbers_are_whole_and_in_their_range);
    tcase_add_test(tests, each_verb_says_what_it_does);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
