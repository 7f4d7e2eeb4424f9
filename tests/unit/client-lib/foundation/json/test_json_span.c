/* Values are read out of a checked text exactly, or not at all. */
#include "foundation/json/json_span.h"

#include "foundation/json/json_scan.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The root of a text that must be accepted. */
static struct ec_json_span root_n(const char *text, size_t bytes)
{
    struct ec_json_fault fault;

    ck_assert_msg(ec_json_check(text, bytes, NULL, &fault) == EC_OK, "%s: %s", text, fault.reason);
    return ec_json_root(text, bytes);
}

static struct ec_json_span root(const char *text)
{
    return root_n(text, strlen(text));
}

static void assert_span(struct ec_json_span span, const char *expected)
{
    ck_assert_uint_eq(span.bytes, strlen(expected));
    ck_assert(memcmp(span.text, expected, span.bytes) == 0);
}

START_TEST(the_type_is_told_by_the_first_byte)
{
    ck_assert_int_eq(ec_json_type_of(root("null")), EC_JSON_NULL);
    ck_assert_int_eq(ec_json_type_of(root("true")), EC_JSON_BOOLEAN);
    ck_assert_int_eq(ec_json_type_of(root(" false ")), EC_JSON_BOOLEAN);
    ck_assert_int_eq(ec_json_type_of(root("-1")), EC_JSON_NUMBER);
    ck_assert_int_eq(ec_json_type_of(root("0.5")), EC_JSON_NUMBER);
    ck_assert_int_eq(ec_json_type_of(root("9")), EC_JSON_NUMBER);
    ck_assert_int_eq(ec_json_type_of(root("\"\"")), EC_JSON_STRING);
    ck_assert_int_eq(ec_json_type_of(root("[]")), EC_JSON_ARRAY);
    ck_assert_int_eq(ec_json_type_of(root("\n{}\n")), EC_JSON_OBJECT);
    ck_assert_int_eq(ec_json_type_of((struct ec_json_span) { NULL, 0 }), EC_JSON_NONE);
    ck_assert_str_eq(ec_json_type_text(EC_JSON_OBJECT), "an object");
    ck_assert_str_eq(ec_json_type_text(EC_JSON_NONE), "nothing");
}
END_TEST

START_TEST(the_root_has_no_white_space_around_it)
{
    assert_span(root(" \r\n\t{ } \r\n\t"), "{ }");
    assert_span(root("1"), "1");
}
END_TEST

START_TEST(members_come_in_their_order)
{
    static const char *const expected[][2] = {
        { "\"a\"", "1" },
        { "\"b\\\"}\"", "\"]\\\\\"" },
        { "\"c\"", "[1,{\"x\":\"}\"},[]]" },
        { "\"d\"", "{\"e\":{}}" },
        { "\"\"", "null" },
        { "\"f\"", "-1.5e-3" },
    };
    struct ec_json_iterator members = ec_json_iterate(
        root(" { \"a\" : 1 , \"b\\\"}\":\"]\\\\\" ,\"c\":[1,{\"x\":\"}\"},[]],\"d\": {\"e\":{}} , "
             "\"\":null\n,\"f\":-1.5e-3 } "));
    struct ec_json_span name, value;
    size_t count = 0;

    while (ec_json_next_member(&members, &name, &value)) {
        ck_assert_uint_lt(count, COUNT(expected));
        assert_span(name, expected[count][0]);
        assert_span(value, expected[count][1]);
        count++;
    }
    ck_assert_uint_eq(count, COUNT(expected));
    ck_assert(!ec_json_next_member(&members, &name, &value));
}
END_TEST

START_TEST(elements_come_in_their_order)
{
    static const char *const expected[] = {
        "1", "\"a,\\\\\"", "[2,3]", "{\"b\":[]}", "true", "null"
    };
    struct ec_json_iterator elements =
        ec_json_iterate(root("[1,\"a,\\\\\" , [2,3] ,{\"b\":[]}\n,true,null ]"));
    struct ec_json_span value;
    size_t count = 0;

    while (ec_json_next_element(&elements, &value)) {
        ck_assert_uint_lt(count, COUNT(expected));
        assert_span(value, expected[count++]);
    }
    ck_assert_uint_eq(count, COUNT(expected));
    ck_assert(!ec_json_next_element(&elements, &value));
}
END_TEST

START_TEST(what_is_empty_or_no_container_has_nothing_to_walk)
{
    static const char *const texts[] = { "{}", "[]", "[ ]", "{\n}", "1", "\"[1]\"", "null" };
    struct ec_json_span name, value;

    for (size_t i = 0; i < COUNT(texts); i++) {
        struct ec_json_iterator iterator = ec_json_iterate(root(texts[i]));

        ck_assert(!ec_json_next_member(&iterator, &name, &value));
        ck_assert(!ec_json_next_element(&iterator, &value));
    }
    ck_assert(!ec_json_next_element(&(struct ec_json_iterator) { NULL, NULL }, &value));
}
END_TEST

START_TEST(bind_finds_members_and_names_the_unknown_one)
{
    static const char *const names[] = { "level", "hold_s", "reason" };
    struct ec_json_span values[3];
    struct ec_json_fields fields = { .names = names, .values = values, .count = 3 };

    ck_assert_int_eq(
        ec_json_bind(root("{\"hold\":1,\"hold_s\":[60],\"hold_s2\":2,\"l\\u0065vel\":2}"), &fields),
        EC_OK);
    assert_span(values[0], "2");
    assert_span(values[1], "[60]");
    ck_assert_ptr_null(values[2].text);
    assert_span(fields.unknown, "\"hold\"");
    ck_assert_int_eq(ec_json_bind(root("{\"reason\":\"\"}"), &fields), EC_OK);
    ck_assert_ptr_null(values[0].text);
    assert_span(values[2], "\"\"");
    ck_assert_ptr_null(fields.unknown.text);
    ck_assert_int_eq(ec_json_bind(root("[1]"), &fields), EC_ERR_PARAM);
    ck_assert_ptr_null(values[2].text);
    ck_assert_int_eq(ec_json_bind((struct ec_json_span) { NULL, 0 }, &fields), EC_ERR_PARAM);
}
END_TEST

START_TEST(one_member_is_found_by_its_name)
{
    const struct ec_json_span object = root("{\"a\":1,\"b\":[2]}");
    uint64_t number = 0;

    ck_assert_int_eq(ec_json_get_u64(ec_json_get_member(object, "a"), &number), EC_OK);
    ck_assert_uint_eq(number, 1);
    ck_assert_int_eq(ec_json_type_of(ec_json_get_member(object, "b")), EC_JSON_ARRAY);
    ck_assert_ptr_null(ec_json_get_member(object, "c").text);
    ck_assert_ptr_null(ec_json_get_member(root("[1]"), "a").text);
}
END_TEST

static const struct {
    const char *text;
    bool fits_i64, fits_u64;
    int64_t i64;
    uint64_t u64;
} integers[] = {
    { "0", true, true, 0, 0 },
    { "-0", true, true, 0, 0 },
    { "1", true, true, 1, 1 },
    { "-1", true, false, -1, 0 },
    { "9007199254740993", true, true, 9007199254740993, 9007199254740993 },
    { "1234567890123456780", true, true, 1234567890123456780, 1234567890123456780 },
    { "9223372036854775807", true, true, INT64_MAX, INT64_MAX },
    { "9223372036854775808", false, true, 0, 9223372036854775808u },
    { "18446744073709551614", false, true, 0, UINT64_MAX - 1 },
    { "18446744073709551615", false, true, 0, UINT64_MAX },
    { "-9223372036854775807", true, false, -INT64_MAX, 0 },
    { "-9223372036854775808", true, false, INT64_MIN, 0 },
    { "1.0", false, false, 0, 0 },
    { "1e3", false, false, 0, 0 },
    { "-0.0", false, false, 0, 0 },
    { "\"1\"", false, false, 0, 0 },
    { "true", false, false, 0, 0 },
    { "null", false, false, 0, 0 },
    { "[1]", false, false, 0, 0 },
};

START_TEST(integers_are_exact_to_64_bits)
{
    struct ec_json_span value = root(integers[_i].text);
    int64_t i64 = 77;
    uint64_t u64 = 77;

    ck_assert_int_eq(ec_json_get_i64(value, &i64), integers[_i].fits_i64 ? EC_OK : EC_ERR_PARAM);
    ck_assert_int_eq(ec_json_get_u64(value, &u64), integers[_i].fits_u64 ? EC_OK : EC_ERR_PARAM);
    ck_assert_int_eq(i64, integers[_i].fits_i64 ? integers[_i].i64 : 77);
    ck_assert_uint_eq(u64, integers[_i].fits_u64 ? integers[_i].u64 : 77);
}
END_TEST

START_TEST(any_number_is_a_double)
{
    double value = 7;

    ck_assert_int_eq(ec_json_get_double(root("-12.5e1"), &value), EC_OK);
    ck_assert(value == -125);
    ck_assert_int_eq(ec_json_get_double(root("18446744073709551615"), &value), EC_OK);
    ck_assert(value == 0x1p64);
    ck_assert_int_eq(ec_json_get_double(root("-0"), &value), EC_OK);
    ck_assert(value == 0 && signbit(value));
    value = 7;
    ck_assert_int_eq(ec_json_get_double(root("\"1\""), &value), EC_ERR_PARAM);
    ck_assert_int_eq(ec_json_get_double((struct ec_json_span) { NULL, 0 }, &value), EC_ERR_PARAM);
    ck_assert(value == 7);
}
END_TEST

START_TEST(a_boolean_is_a_boolean_only)
{
    bool value = false;

    ck_assert_int_eq(ec_json_get_boolean(root("true"), &value), EC_OK);
    ck_assert(value);
    ck_assert_int_eq(ec_json_get_boolean(root("false"), &value), EC_OK);
    ck_assert(!value);
    ck_assert_int_eq(ec_json_get_boolean(root("1"), &value), EC_ERR_PARAM);
    ck_assert_int_eq(ec_json_get_boolean(root("null"), &value), EC_ERR_PARAM);
}
END_TEST

START_TEST(an_id_is_a_string_of_hexadecimal_digits)
{
    static const char *const refused[] = {
        "\"0x\"",   "\"x1\"",  "\"1f\"",   "\"0X1f\"",
        "\"0x1g\"", "\"0x \"", "\"0x-1\"", "\"0x12345678901234567\"",
        "31",       "\"\"",    "null",     "\"0x\\u0031\"",
        "\"0\""
    };
    uint64_t value = 0;

    ck_assert_int_eq(ec_json_get_hex64(root("\"0x1F\""), &value), EC_OK);
    ck_assert_uint_eq(value, 0x1f);
    ck_assert_int_eq(ec_json_get_hex64(root("\"0xfedcba9876543210\""), &value), EC_OK);
    ck_assert_uint_eq(value, 0xfedcba9876543210);
    ck_assert_int_eq(ec_json_get_hex64(root("\"0x0000000000000000\""), &value), EC_OK);
    ck_assert_uint_eq(value, 0);
    for (size_t i = 0; i < COUNT(refused); i++)
        ck_assert_msg(ec_json_get_hex64(root(refused[i]), &value) == EC_ERR_PARAM, "%s",
                      refused[i]);
}
END_TEST

static const struct {
    const char *text;
    const char *bytes;
    size_t count;
} strings[] = {
    { "\"\"", "", 0 },
    { "\"abc\"", "abc", 3 },
    { "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8 },
    { "\"a\\u0000b\"", "a\0b", 3 },
    { "\"\\u0041\\u00e9\\u20AC\"", "A\xC3\xA9\xE2\x82\xAC", 6 },
    { "\"\\uD83D\\uDE39x\"", "\xF0\x9F\x98\xB9x", 5 },
    { "\"\\uDBFF\\uDFFF\\uD800\\uDC00\"", "\xF4\x8F\xBF\xBF\xF0\x90\x80\x80", 8 },
    { "\"\\uFFFF\\u0800\\u07FF\\u0080\\u007f\"", "\xEF\xBF\xBF\xE0\xA0\x80\xDF\xBF\xC2\x80\x7F",
      11 },
    { "\"\xC3\xA4\xF0\x9F\x98\xB9\"", "\xC3\xA4\xF0\x9F\x98\xB9", 6 },
    { "\"\\\\n\"", "\\n", 2 },
    { "\"0123456789abcdef\\n0123456789abcdef\"", "0123456789abcdef\n0123456789abcdef", 33 },
};

START_TEST(strings_are_unescaped_into_a_buffer_that_just_fits)
{
    struct ec_json_span value = root(strings[_i].text);
    size_t count = strings[_i].count, bytes = 99;
    char *buffer = malloc(count + 1);

    ck_assert_ptr_nonnull(buffer);
    ck_assert_int_eq(ec_json_get_string(value, buffer, count + 1, &bytes), EC_OK);
    ck_assert_uint_eq(bytes, count);
    ck_assert(memcmp(buffer, strings[_i].bytes, count + 1) == 0);
    bytes = 99;
    ck_assert_int_eq(ec_json_get_string(value, buffer, count, &bytes), EC_ERR_SIZE);
    ck_assert_int_eq(ec_json_get_string(value, buffer, count / 2, &bytes), EC_ERR_SIZE);
    ck_assert_uint_eq(bytes, 99);
    if (count > 1)
        ck_assert_int_eq(buffer[0], 0);
    ck_assert_uint_le(count, value.bytes - 2);
    free(buffer);
}
END_TEST

START_TEST(what_is_no_string_gives_no_string)
{
    char buffer[8] = "x";
    size_t bytes;

    ck_assert_int_eq(ec_json_get_string(root("12"), buffer, sizeof buffer, &bytes), EC_ERR_PARAM);
    ck_assert_int_eq(ec_json_get_text(root("{}"), buffer, sizeof buffer), EC_ERR_PARAM);
    ck_assert_int_eq(ec_json_get_text((struct ec_json_span) { NULL, 0 }, buffer, sizeof buffer),
                     EC_ERR_PARAM);
    ck_assert_str_eq(buffer, "x");
}
END_TEST

START_TEST(a_name_with_an_escaped_nul_is_refused)
{
    char buffer[8] = "x";

    ck_assert_int_eq(ec_json_get_text(root("\"a\\u0000b\""), buffer, sizeof buffer), EC_ERR_PARAM);
    ck_assert_str_eq(buffer, "");
    ck_assert_int_eq(ec_json_get_text(root("\"ab\\u0063\""), buffer, sizeof buffer), EC_OK);
    ck_assert_str_eq(buffer, "abc");
    ck_assert_int_eq(ec_json_get_text(root("\"abcdefgh\""), buffer, sizeof buffer), EC_ERR_SIZE);
}
END_TEST

static const struct {
    const char *text, *string;
    bool equal;
} comparisons[] = {
    { "\"a\"", "a", true },
    { "\"\"", "", true },
    { "\"a\"", "", false },
    { "\"\"", "a", false },
    { "\"ab\"", "a", false },
    { "\"a\"", "ab", false },
    { "\"a\"", "b", false },
    { "\"\\u0061\"", "a", true },
    { "\"a\\u0062c\"", "abc", true },
    { "\"a\\u0062c\"", "abd", false },
    { "\"a\\u0062\"", "abc", false },
    { "\"a\\u0062c\"", "ab", false },
    { "\"a\\u0000\"", "a", false },
    { "\"\\u0000\"", "", false },
    { "\"\\\\\"", "\\", true },
    { "\"\\\\a\"", "\\a", true },
    { "\"\\u00e4\"", "\xC3\xA4", true },
    { "\"\xC3\xA4\"", "\xC3\xA4", true },
    { "\"\\uD83D\\uDE39\"", "\xF0\x9F\x98\xB9", true },
    { "\"\\n\"", "\n", true },
    { "\"\\n\"", "n", false },
    { "1", "1", false },
    { "null", "null", false },
    { "\"\\u0061\\u0000\"", "a", false },
};

START_TEST(a_string_equals_what_it_stands_for)
{
    for (size_t i = 0; i < COUNT(comparisons); i++)
        ck_assert_msg(ec_json_string_equals(root(comparisons[i].text), comparisons[i].string) ==
                          comparisons[i].equal,
                      "%s and %s", comparisons[i].text, comparisons[i].string);
    ck_assert(!ec_json_string_equals((struct ec_json_span) { NULL, 0 }, ""));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json_span");
    TCase *tcase = tcase_create("json_span");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, one_member_is_found_by_its_name);
    tcase_add_test(tcase, the_type_is_told_by_the_first_byte);
    tcase_add_test(tcase, the_root_has_no_white_space_around_it);
    tcase_add_test(tcase, members_come_in_their_order);
    tcase_add_test(tcase, elements_come_in_their_order);
    tcase_add_test(tcase, what_is_empty_or_no_container_has_nothing_to_walk);
    tcase_add_test(tcase, bind_finds_members_and_names_the_unknown_one);
    tcase_add_loop_test(tcase, integers_are_exact_to_64_bits, 0, (int)COUNT(integers));
    tcase_add_test(tcase, any_number_is_a_double);
    tcase_add_test(tcase, a_boolean_is_a_boolean_only);
    tcase_add_test(tcase, an_id_is_a_string_of_hexadecimal_digits);
    tcase_add_loop_test(tcase, strings_are_unescaped_into_a_buffer_that_just_fits, 0,
                        (int)COUNT(strings));
    tcase_add_test(tcase, what_is_no_string_gives_no_string);
    tcase_add_test(tcase, a_name_with_an_escaped_nul_is_refused);
    tcase_add_test(tcase, a_string_equals_what_it_stands_for);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
