/* Order of start and end, with modules that only write down what they were told. */
#include "daemon/module.h"

#include <check.h>
#include <string.h>

#include "daemon/services.h"

static char told[256];
static const char *failing; /* the phase that fails, such as "init2" */

static int tell(const char *what, struct ec_error *error)
{
    strcat(strcat(told, what), " ");
    if (failing != NULL && strcmp(failing, what) == 0)
        return ec_fail(error, EC_ERR_MEMORY, "no room");
    return EC_OK;
}

#define PHASE(phase, n)                                                                            \
    static int phase##_##n(struct services *services, struct ec_error *why)                        \
    {                                                                                              \
        (void)services;                                                                            \
        return tell(#phase #n, why);                                                               \
    }
#define STOP(n)                                                                                    \
    static void stop_##n(struct services *services)                                                \
    {                                                                                              \
        (void)services;                                                                            \
        tell("stop" #n, NULL);                                                                     \
    }
PHASE(pre, 1)
PHASE(pre, 3)
PHASE(init, 1)
PHASE(init, 2)
PHASE(init, 3)
PHASE(post, 1)
PHASE(post, 2)
STOP(1)
STOP(2)
STOP(3)

static const struct module modules[] = {
    { "one", pre_1, init_1, post_1, stop_1, { NULL } },
    { "two", NULL, init_2, post_2, stop_2, { "one" } },
    { "three", pre_3, init_3, NULL, stop_3, { "two", "one" } },
};

static struct services nothing;
static struct ec_error reason;

static void reset(void)
{
    told[0] = '\0';
    failing = NULL;
    reason = (struct ec_error) { 0 };
}

START_TEST(phases_run_downwards_one_after_the_other_and_the_end_upwards)
{
    ck_assert_int_eq(modules_start(modules, 3, &nothing, &reason), EC_OK);
    ck_assert_str_eq(told, "pre1 pre3 init1 init2 init3 post1 post2 ");
    told[0] = '\0';
    modules_stop(modules, 3, &nothing);
    ck_assert_str_eq(told, "stop3 stop2 stop1 ");
}
END_TEST

START_TEST(a_half_started_daemon_stops_what_was_touched)
{
    static const char *const cases[][2] = {
        { "pre1", "pre1 stop1 " },
        { "pre3", "pre1 pre3 stop3 stop1 " },
        { "init1", "pre1 pre3 init1 stop3 stop1 " },
        { "init2", "pre1 pre3 init1 init2 stop3 stop2 stop1 " },
        { "post2", "pre1 pre3 init1 init2 init3 post1 post2 stop3 stop2 stop1 " },
    };

    failing = cases[_i][0];
    ck_assert_int_eq(modules_start(modules, 3, &nothing, &reason), EC_ERR_MEMORY);
    ck_assert_str_eq(told, cases[_i][1]);
    ck_assert_msg(strstr(reason.text, ": no room") != NULL, "%s", reason.text);
}
END_TEST

START_TEST(the_error_names_the_module)
{
    failing = "init2";
    modules_start(modules, 3, &nothing, &reason);
    ck_assert_str_eq(reason.text, "two: no room");
}
END_TEST

static const struct {
    struct module modules[3];
    const char *text;
} wrong[] = {
    { { { .name = "one" }, { .name = "two", .needs = { "four" } }, { .name = "three" } },
      "module two needs four, which does not exist" },
    { { { .name = "one", .needs = { "three" } }, { .name = "two" }, { .name = "three" } },
      "module one needs three, which starts after it" },
    { { { .name = "one" }, { .name = "two", .needs = { "one", "two" } }, { .name = "three" } },
      "module two needs itself" },
    { { { .name = "one" }, { .name = "two" }, { .name = "one" } }, "module one stands twice" },
    { { { .name = "one", .needs = { "two" } },
        { .name = "two", .needs = { "one" } },
        { .name = "three" } },
      "modules need each other: one needs two, two needs one" },
    { { { .name = "one", .needs = { "three" } },
        { .name = "two", .needs = { "one" } },
        { .name = "three", .needs = { "one", "two" } } },
      "modules need each other: one needs three, three needs one" },
    { { { .name = "one", .needs = { "three" } },
        { .name = "two", .needs = { "one" } },
        { .name = "three", .needs = { "two" } } },
      "modules need each other: one needs three, three needs two, two needs one" },
    { { { .name = "one" },
        { .name = "two", .needs = { "one", "three" } },
        { .name = "three", .needs = { "two" } } },
      "modules need each other: two needs three, three needs two" },
};

START_TEST(wrong_needs_are_found_before_anything_starts)
{
    struct module table[3];

    memcpy(table, wrong[_i].modules, sizeof table);
    table[0].pre_init = pre_1;
    ck_assert_int_eq(modules_start(table, 3, &nothing, &reason), EC_ERR_STATE);
    ck_assert_str_eq(reason.text, wrong[_i].text);
    ck_assert_str_eq(told, "");
}
END_TEST

START_TEST(the_daemon_itself_has_a_sound_table)
{
    ck_assert_str_eq(modules_name(0), "log");
    ck_assert_str_eq(modules_name(daemon_module_count - 1), "control");
    ck_assert_ptr_null(modules_name(daemon_module_count));
    for (unsigned i = 0; i < daemon_module_count; i++)
        for (unsigned n = 0; n < MODULE_NEEDS_MAX && daemon_modules[i].needs[n] != NULL; n++) {
            unsigned at = 0;

            while (at < i && strcmp(daemon_modules[at].name, daemon_modules[i].needs[n]) != 0)
                at++;
            ck_assert_msg(at < i, "%s needs %s", daemon_modules[i].name,
                          daemon_modules[i].needs[n]);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("modules");
    TCase *tcase = tcase_create("modules");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, reset, NULL);
    tcase_add_test(tcase, phases_run_downwards_one_after_the_other_and_the_end_upwards);
    tcase_add_loop_test(tcase, a_half_started_daemon_stops_what_was_touched, 0, 5);
    tcase_add_test(tcase, the_error_names_the_module);
    tcase_add_loop_test(tcase, wrong_needs_are_found_before_anything_starts, 0,
                        sizeof wrong / sizeof wrong[0]);
    tcase_add_test(tcase, the_daemon_itself_has_a_sound_table);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
