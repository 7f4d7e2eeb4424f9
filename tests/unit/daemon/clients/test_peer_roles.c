/* Roles that the configuration gives. */
#include "clients/peer_roles.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct ec_error why;

START_TEST(the_highest_role_that_matches_counts)
{
    static const struct {
        uid_t uid;
        gid_t gid, other;
        enum ec_role role;
    } cases[] = {
        { 1001, 5, 6, EC_ROLE_OPERATOR }, { 1002, 5, 6, EC_ROLE_OBSERVER },
        { 1003, 77, 6, EC_ROLE_GAME },    { 1003, 5, 77, EC_ROLE_GAME },
        { 1002, 77, 6, EC_ROLE_GAME },    { 1003, 5, 6, EC_ROLE_NONE },
        { 77, 5, 6, EC_ROLE_NONE },       { 0, 5, 6, EC_ROLE_OBSERVER },
    };
    struct peer peer = { .uid = cases[_i].uid, .gid = cases[_i].gid, .group_count = 1 };
    struct peer_roles roles;

    peer.groups[0] = cases[_i].other;
    ck_assert_int_eq(
        peer_roles_parse("1001=operator,@77=game,1002=observer,root=observer", &roles, &why),
        EC_OK);
    ck_assert_int_eq(peer_roles_of(&roles, &peer), cases[_i].role);
}
END_TEST

START_TEST(what_is_wrong_is_named)
{
    static const char *const wrong[][2] = {
        { "1001", "expected WHO=ROLE" },
        { "1001=king", "expected WHO=ROLE" },
        { "=game", "expected WHO=ROLE" },
        { "@=game", "expected WHO=ROLE" },
        { "1001=none", "expected WHO=ROLE" },
        { "1001=game,,", "expected WHO=ROLE" },
        { "nobody-has-this-name=game", "there is no user nobody-has-this-name" },
        { "@nobody-has-this-name=game", "there is no group nobody-has-this-name" },
        { "99999999999=game", "there is no user 99999999999" },
    };
    struct peer_roles roles;

    ck_assert_int_eq(peer_roles_parse(wrong[_i][0], &roles, &why), EC_ERR_PARAM);
    ck_assert_msg(strstr(why.text, wrong[_i][1]) != NULL, "%s", why.text);
}
END_TEST

START_TEST(without_any_nobody_has_a_role_by_it)
{
    const struct peer peer = { .uid = 0 };
    struct peer_roles roles;

    ck_assert_int_eq(peer_roles_parse("", &roles, &why), EC_OK);
    ck_assert_int_eq(peer_roles_of(&roles, &peer), EC_ROLE_NONE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("peer_roles");
    TCase *tcase = tcase_create("peer_roles");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, the_highest_role_that_matches_counts, 0, 8);
    tcase_add_loop_test(tcase, what_is_wrong_is_named, 0, 9);
    tcase_add_test(tcase, without_any_nobody_has_a_role_by_it);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
