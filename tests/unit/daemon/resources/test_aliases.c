/* A name leads to one path, the nearest; a change is made whole or not at all. */
#include "resources/aliases.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct aliases aliases;
static struct ec_error why;

static void tear_down(void)
{
    aliases_finish(&aliases);
}

static const struct alias rows[] = {
    { "textures/", "hd/" }, { "textures/ui/", "plain/ui/" }, { "textures/logo", "logo2" },
    { "tex", "whole" },     { "textures/ui/a/b", "deep" },   { "z", "a" },
    { "a", "never/a" },
};

static const struct {
    const char *name, *path;
} cases[] = {
    { "textures/wall.png", "hd/wall.png" },
    { "textures/ui/button", "plain/ui/button" },
    { "textures/ui/a/b", "deep" },
    { "textures/ui/a/bc", "plain/ui/a/bc" },
    { "textures/logo", "logo2" },
    { "textures/logos", "hd/logos" },
    { "textures", "textures" },
    { "tex", "whole" },
    { "texture", "texture" },
    { "z", "a" }, /* once: it does not go on to never/a */
    { "other/textures/x", "other/textures/x" },
};

START_TEST(the_nearest_alias_wins)
{
    char path[64];

    ck_assert_msg(aliases_change(&aliases, NULL, 0, rows, sizeof rows / sizeof rows[0], &why) ==
                      EC_OK,
                  "%s", why.text);
    ck_assert_int_eq(aliases_resolve(&aliases, cases[_i].name, path, sizeof path, &why), EC_OK);
    ck_assert_str_eq(path, cases[_i].path);
}
END_TEST

static const struct {
    struct alias set;
    const char *remove;
    int rc;
} bad[] = {
    { { "a", "../b" }, NULL, EC_ERR_PATH }, { { "/a", "b" }, NULL, EC_ERR_PATH },
    { { "a/", "b" }, NULL, EC_ERR_PATH },   { { "a", "b/" }, NULL, EC_ERR_PATH },
    { { "", "b" }, NULL, EC_ERR_PATH },     { { "a", "" }, NULL, EC_ERR_PATH },
    { { "a//", "b/" }, NULL, EC_ERR_PATH }, { { "a", "b" }, "none", EC_ERR_NOT_FOUND },
};

START_TEST(a_bad_change_changes_nothing)
{
    ck_assert_int_eq(aliases_change(&aliases, NULL, 0, rows, 3, &why), EC_OK);
    ck_assert_int_eq(aliases_change(&aliases, (const char *[]) { "textures/", bad[_i].remove },
                                    bad[_i].remove != NULL ? 2 : 1, &bad[_i].set, 1, &why),
                     bad[_i].rc);
    ck_assert_uint_eq(aliases.count, 3);
    ck_assert_str_eq(aliases.rows[0].name, "textures/");
}
END_TEST

START_TEST(what_is_removed_may_be_set_anew_and_the_table_has_an_end)
{
    static struct alias many[ALIASES_MAX + 1];
    static char names[ALIASES_MAX + 1][16];
    char path[8];

    ck_assert_int_eq(aliases_change(&aliases, NULL, 0, rows, 3, &why), EC_OK);
    ck_assert_int_eq(aliases_change(&aliases, (const char *[]) { "textures/" }, 1,
                                    (const struct alias[]) { { "textures/", "x/" } }, 1, &why),
                     EC_OK);
    ck_assert_uint_eq(aliases.count, 3);
    ck_assert_str_eq(aliases.rows[0].path, "x/");
    ck_assert_int_eq(aliases_resolve(&aliases, "textures/0123456", path, sizeof path, &why),
                     EC_ERR_PATH);
    aliases_finish(&aliases);
    for (unsigned i = 0; i <= ALIASES_MAX; i++) {
        snprintf(names[i], sizeof names[i], "n%u", i);
        many[i] = (struct alias) { names[i], "p" };
    }
    ck_assert_int_eq(aliases_change(&aliases, NULL, 0, many, ALIASES_MAX + 1, &why), EC_ERR_LIMIT);
    ck_assert_int_eq(aliases_change(&aliases, NULL, 0, many, ALIASES_MAX, &why), EC_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("aliases");
    TCase *tcase = tcase_create("aliases");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, NULL, tear_down);
    tcase_add_loop_test(tcase, the_nearest_alias_wins, 0, sizeof cases / sizeof cases[0]);
    tcase_add_loop_test(tcase, a_bad_change_changes_nothing, 0, sizeof bad / sizeof bad[0]);
    tcase_add_test(tcase, what_is_removed_may_be_set_anew_and_the_table_has_an_end);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
