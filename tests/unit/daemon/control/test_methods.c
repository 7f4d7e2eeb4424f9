#include "control/methods.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct methods methods;

static int find(const char *json)
{
    return methods_find(&methods, (struct ec_json_span) { json, strlen(json) });
}

START_TEST(every_method_of_the_table_is_found)
{
    char json[METHOD_BYTES_MAX];

    methods_init(&methods);
    snprintf(json, sizeof json, "\"%s\"", ec_commands[_i].method);
    ck_assert_int_eq(find(json), _i);
}
END_TEST

START_TEST(other_names_are_not)
{
    static const char *const names[] = {
        "\"\"",          "\"core\"",       "\"core.pin\"",         "\"core.pings\"",
        "\"Core.ping\"", "\"core.ping \"", "\"core.ping\\u0000\"", "\"\\u0000\"",
        "\"rpc.ping\"",
    };
    char name[400];

    methods_init(&methods);
    ck_assert_int_eq(find(names[_i]), -1);
    memset(name, 'a', sizeof name);
    memcpy(name, "\"\\n", 3);
    memcpy(name + sizeof name - 2, "\"", 2);
    ck_assert_int_eq(find(name), -1);
}
END_TEST

START_TEST(escapes_count_as_what_they_stand_for)
{
    methods_init(&methods);
    ck_assert_int_eq(find("\"core\\u002Ep\\u0069ng\""), EC_COMMAND_core_ping);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("methods");
    TCase *tcase = tcase_create("methods");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, every_method_of_the_table_is_found, 0, EC_COMMANDS);
    tcase_add_loop_test(tcase, other_names_are_not, 0, 9);
    tcase_add_test(tcase, escapes_count_as_what_they_stand_for);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
