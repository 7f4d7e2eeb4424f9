/* A repeated name is found, and nothing else is taken for one, also when all hashes are equal. */
#include "foundation/json/json_names.h"

#include <engine-core/error.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define FLOOD 3000

static char text[1 << 16];
static size_t text_bytes;
static struct ec_json_names names;

static void setup(void)
{
    text_bytes = 0;
    ec_json_names_init(&names, text);
}

static void teardown(void)
{
    ec_json_names_finish(&names);
}

static int add_n(size_t first, const char *name, size_t bytes, bool has_escape)
{
    char *copy = text + text_bytes;

    ck_assert_uint_le(text_bytes + bytes, sizeof text);
    memcpy(copy, name, bytes);
    text_bytes += bytes;
    return ec_json_names_add(&names, first, copy, bytes, has_escape);
}

static int add(size_t first, const char *name)
{
    return add_n(first, name, strlen(name), strchr(name, '\\') != NULL);
}

START_TEST(a_name_hashes_alike_with_and_without_escapes)
{
    static const char *const pairs[][2] = {
        { "a", "\\u0061" },
        { "ab", "a\\u0062" },
        { "abc", "\\u0061bc" },
        { "abcd", "abc\\u0064" },
        { "abcde", "\\u0061\\u0062\\u0063\\u0064\\u0065" },
        { "1234567", "123456\\u0037" },
        { "12345678", "1234567\\u0038" },
        { "123456789", "12345678\\u0039" },
        { "1234567890abcdefg", "1\\u0032\\u0033\\u0034567890abcde\\u0066g" },
        { "1234567\xC3\xA4", "1234567\\u00e4" },
        { "/", "\\/" },
        { "\xF0\x9F\x98\xB9", "\\uD83D\\uDE39" },
    };

    for (size_t i = 0; i < COUNT(pairs); i++) {
        struct ec_json_name repeated;

        ck_assert_int_eq(add(0, pairs[i][0]), EC_OK);
        ck_assert_msg(add(0, pairs[i][1]) == EC_ERR_PARSE, "%s", pairs[i][1]);
        ck_assert_int_eq(ec_json_names_end(&names, 0, &repeated), EC_OK);
    }
}
END_TEST

START_TEST(names_of_the_same_beginning_differ)
{
    char name[40];

    for (size_t bytes = 0; bytes < 16; bytes++) {
        memset(name, 'a', sizeof name);
        ck_assert_int_eq(add_n(0, name, bytes, false), EC_OK);
    }
    ck_assert_uint_eq(names.count, 16);
}
END_TEST

START_TEST(an_object_hides_the_names_around_it)
{
    struct ec_json_name repeated;

    ck_assert_int_eq(add(0, "a"), EC_OK);
    ck_assert_int_eq(add(1, "a"), EC_OK);
    ck_assert_int_eq(add(1, "b"), EC_OK);
    ck_assert_int_eq(ec_json_names_end(&names, 1, &repeated), EC_OK);
    ck_assert_uint_eq(names.count, 1);
    ck_assert_int_eq(add(0, "b"), EC_OK);
    ck_assert_int_eq(add(0, "a"), EC_ERR_PARSE);
}
END_TEST

/* Two words: the second undoes what the first did to the hash, as an attacker would do it. */
static void colliding_name(uint64_t i, char name[16])
{
    uint64_t first = 0x4141414141414141 + i, state = first * 0x9E3779B97F4A7C15u, second;

    state ^= state >> 32;
    second = state ^ 0x4242424242424242;
    memcpy(name, &first, 8);
    memcpy(name + 8, &second, 8);
}

/* The names go past the scanner: most are not valid UTF-8, which does not matter here. */
static void add_flood(void)
{
    char name[16];

    for (uint64_t i = 0; i < FLOOD; i++) {
        colliding_name(i * 7919 % FLOOD, name);
        ck_assert_int_eq(add_n(0, name, sizeof name, false), EC_OK);
        ck_assert_msg(names.stack[i].hash == names.stack[0].hash,
                      "the hash has changed, and so must colliding_name()");
    }
}

START_TEST(equal_hashes_are_no_equal_names)
{
    struct ec_json_name repeated;

    add_flood();
    ck_assert_int_eq(ec_json_names_end(&names, 0, &repeated), EC_OK);
    ck_assert_uint_eq(names.count, 0);
}
END_TEST

START_TEST(an_equal_name_is_found_among_equal_hashes)
{
    struct ec_json_name repeated;
    char name[16];

    add_flood();
    colliding_name(FLOOD / 2, name);
    ck_assert_int_eq(add_n(0, name, sizeof name, false), EC_OK);
    ck_assert_int_eq(ec_json_names_end(&names, 0, &repeated), EC_ERR_PARSE);
    ck_assert_uint_eq(repeated.offset, FLOOD * sizeof name);
    ck_assert_uint_eq(repeated.bytes, sizeof name);
}
END_TEST

START_TEST(names_survive_the_growth_of_the_stack)
{
    struct ec_json_name repeated;
    char name[16];

    for (int i = 0; i < 3000; i++) {
        (void)snprintf(name, sizeof name, "name%d", i);
        ck_assert_int_eq(add(0, name), EC_OK);
    }
    ck_assert_int_eq(add(0, "\\u006eame77"), EC_OK); /* large objects are judged at their end */
    ck_assert_int_eq(ec_json_names_end(&names, 0, &repeated), EC_ERR_PARSE);
    ck_assert(memcmp(text + repeated.offset, "\\u006eame77", repeated.bytes) == 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json_names");
    TCase *tcase = tcase_create("json_names");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_name_hashes_alike_with_and_without_escapes);
    tcase_add_test(tcase, names_of_the_same_beginning_differ);
    tcase_add_test(tcase, an_object_hides_the_names_around_it);
    tcase_add_test(tcase, equal_hashes_are_no_equal_names);
    tcase_add_test(tcase, an_equal_name_is_found_among_equal_hashes);
    tcase_add_test(tcase, names_survive_the_growth_of_the_stack);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
