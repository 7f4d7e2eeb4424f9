/* An error text reads from the outside to the inside, and never runs over. */
#include "foundation/error.h"

#include <check.h>
#include <errno.h>
#include <string.h>

START_TEST(fail_sets_code_and_text_and_returns_the_code)
{
    struct ec_error why = { 0 };

    ck_assert_int_eq(ec_fail(&why, EC_ERR_LAYOUT, "size is %d, expected at least %d", 100, 4096),
                     EC_ERR_LAYOUT);
    ck_assert_int_eq(why.code, EC_ERR_LAYOUT);
    ck_assert_str_eq(why.text, "size is 100, expected at least 4096");
    ck_assert_int_eq(ec_fail(&why, EC_ERR_SIZE, "other"), EC_ERR_SIZE);
    ck_assert_str_eq(why.text, "other");
}
END_TEST

START_TEST(prefixes_stand_in_front_outermost_first)
{
    struct ec_error why = { 0 };

    ec_fail(&why, EC_ERR_LAYOUT, "size is 100, expected at least 4096");
    ck_assert_int_eq(ec_error_prefix(&why, EC_ERR_LAYOUT, "map segment fd %d", 5), EC_ERR_LAYOUT);
    ck_assert_int_eq(ec_error_prefix(&why, EC_ERR_STATE, "attach client %u", 7u), EC_ERR_STATE);
    ck_assert_str_eq(why.text,
                     "attach client 7: map segment fd 5: size is 100, expected at least 4096");
    ck_assert_int_eq(why.code, EC_ERR_STATE);
}
END_TEST

START_TEST(without_a_reason_the_prefix_is_the_text)
{
    struct ec_error why = { 0 };

    ck_assert_int_eq(ec_error_prefix(&why, EC_ERR_BUSY, "load group %s", "textures"), EC_ERR_BUSY);
    ck_assert_str_eq(why.text, "load group textures");
    ck_assert_int_eq(why.code, EC_ERR_BUSY);
}
END_TEST

START_TEST(nobody_needs_to_ask_why)
{
    ck_assert_int_eq(ec_fail(NULL, EC_ERR_PARAM, "%s", "x"), EC_ERR_PARAM);
    ck_assert_int_eq(ec_error_prefix(NULL, EC_ERR_PARAM, "%s", "x"), EC_ERR_PARAM);
}
END_TEST

/* A struct with a guard behind it. */
static struct {
    struct ec_error why;
    char guard[16];
} guarded;

static void assert_guard(void)
{
    for (size_t i = 0; i < sizeof guarded.guard; i++)
        ck_assert_int_eq(guarded.guard[i], 'g');
    ck_assert_ptr_nonnull(memchr(guarded.why.text, '\0', sizeof guarded.why.text));
}

START_TEST(long_texts_are_cut_at_the_end)
{
    char reason[600];

    memset(guarded.guard, 'g', sizeof guarded.guard);
    for (size_t length = 0; length < sizeof reason - 1; length++) {
        size_t expected = length < EC_ERROR_TEXT_BYTES - 1 ? length : EC_ERROR_TEXT_BYTES - 1;

        memset(reason, 'r', sizeof reason);
        reason[length] = '\0';
        ec_fail(&guarded.why, EC_ERR_PARAM, "%s", reason);
        assert_guard();
        ck_assert_uint_eq(strlen(guarded.why.text), expected);
        ec_error_prefix(&guarded.why, EC_ERR_PARAM, "prefix");
        assert_guard();
        if (length > 0)
            ck_assert(strncmp(guarded.why.text, "prefix: r", 9) == 0);
        ec_error_prefix(&guarded.why, EC_ERR_PARAM, "%s", reason);
        assert_guard();
        ck_assert(strncmp(guarded.why.text, reason, expected) == 0);
    }
}
END_TEST

START_TEST(a_cut_never_falls_into_a_character)
{
    struct ec_error why = { 0 };
    char reason[400];

    for (size_t ahead = 0; ahead < 3; ahead++) {
        memset(reason, 'x', ahead);
        for (size_t i = ahead; i + 3 < sizeof reason; i += 3)
            memcpy(reason + i, "\xE2\x82\xAC", 4);
        ec_fail(&why, EC_ERR_PARAM, "%s", reason);
        ck_assert_uint_eq((strlen(why.text) - ahead) % 3, 0);
        ck_assert_uint_ge(strlen(why.text), EC_ERROR_TEXT_BYTES - 3);
        ec_error_prefix(&why, EC_ERR_PARAM, "p");
        ck_assert_uint_eq((strlen(why.text) - ahead - 3) % 3, 0);
        ck_assert_uint_ge(strlen(why.text), EC_ERROR_TEXT_BYTES - 3);
    }
}
END_TEST

START_TEST(the_text_may_be_an_argument_of_its_successor)
{
    struct ec_error why = { 0 };

    ec_fail(&why, EC_ERR_PATH, "a/b");
    ec_fail(&why, EC_ERR_GROUP, "resource %s is refused", why.text);
    ck_assert_str_eq(why.text, "resource a/b is refused");
    ec_error_prefix(&why, EC_ERR_GROUP, "%.8s", why.text);
    ck_assert_str_eq(why.text, "resource: resource a/b is refused");
}
END_TEST

START_TEST(errno_is_left_alone)
{
    struct ec_error why = { 0 };

    errno = ENOSPC;
    ec_fail(&why, EC_ERR_SYSTEM, "ftruncate: %s", strerror(errno));
    ec_error_prefix(&why, EC_ERR_SYSTEM, "create segment");
    ck_assert_int_eq(errno, ENOSPC);
}
END_TEST

START_TEST(each_code_has_its_words)
{
    ck_assert_str_eq(ec_error_text(EC_ERR_PERMISSION), "not permitted");
    ck_assert_str_eq(ec_error_text(EC_ERR_DISCONNECTED), "not connected to the daemon");
    ck_assert_str_ne(ec_error_text(EC_OK), ec_error_text(EC_AGAIN));
    ck_assert_str_eq(ec_error_text(-1), "unknown error");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("error");
    TCase *tcase = tcase_create("error");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, fail_sets_code_and_text_and_returns_the_code);
    tcase_add_test(tcase, prefixes_stand_in_front_outermost_first);
    tcase_add_test(tcase, without_a_reason_the_prefix_is_the_text);
    tcase_add_test(tcase, nobody_needs_to_ask_why);
    tcase_add_test(tcase, long_texts_are_cut_at_the_end);
    tcase_add_test(tcase, a_cut_never_falls_into_a_character);
    tcase_add_test(tcase, the_text_may_be_an_argument_of_its_successor);
    tcase_add_test(tcase, errno_is_left_alone);
    tcase_add_test(tcase, each_code_has_its_words);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
