/* UTF-8 and escapes, at their first and last values. */
#include "foundation/json/json_string.h"

#include <check.h>
#include <stdlib.h>

#include "support/often.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct {
    const char *text;
    size_t bytes;
    int length;
} characters[] = {
    { "\x01", 1, 1 },
    { "\x7F", 1, 1 },
    { "\xC2\x80", 2, 2 },
    { "\xDF\xBF", 2, 2 },
    { "\xE0\xA0\x80", 3, 3 },
    { "\xED\x9F\xBF", 3, 3 },
    { "\xEE\x80\x80", 3, 3 },
    { "\xEF\xBF\xBF", 3, 3 },
    { "\xF0\x90\x80\x80", 4, 4 },
    { "\xF4\x8F\xBF\xBF", 4, 4 },
    { "\xC3\xA4\xC3\xA4", 4, 2 },
    /* a lead byte that cannot be, or a continuation alone */
    { "\x80", 1, -1 },
    { "\xBF\xBF", 2, -1 },
    { "\xC0\x80", 2, -1 },
    { "\xC1\xBF", 2, -1 },
    { "\xF5\x80\x80\x80", 4, -1 },
    { "\xFF", 1, -1 },
    /* overlong, surrogate, beyond U+10FFFF: the second byte cannot follow */
    { "\xE0\x9F\xBF", 3, -1 },
    { "\xED\xA0\x80", 3, -1 },
    { "\xF0\x8F\xBF\xBF", 4, -1 },
    { "\xF4\x90\x80\x80", 4, -1 },
    /* begun and not finished: what was good so far counts as one */
    { "\xC2", 1, -1 },
    { "\xE2\x82", 2, -2 },
    { "\xE2\x82x", 3, -2 },
    { "\xF0\x9F\x98", 3, -3 },
    { "\xF0\x9F\x98\xC3", 4, -3 },
    { "\xF0\x9F", 2, -2 },
    { "\xF0x", 2, -1 },
};

START_TEST(a_character_is_measured_or_its_broken_part)
{
    char *copy = malloc(characters[_i].bytes); /* ends where its block ends */

    ck_assert_ptr_nonnull(copy);
    memcpy(copy, characters[_i].text, characters[_i].bytes);
    ck_assert_int_eq(ec_json_utf8_length(copy, copy + characters[_i].bytes), characters[_i].length);
    free(copy);
}
END_TEST

START_TEST(each_code_point_is_encoded_as_valid_utf8)
{
    for (uint32_t code_point = 0; code_point <= 0x10FFFF; code_point++) {
        char bytes[4];
        size_t length = ec_json_encode_utf8(code_point, bytes);
        bool is_surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;

        ASSERT_OFTEN(ec_json_utf8_length(bytes, bytes + length) ==
                     (is_surrogate ? -1 : (int)length));
    }
}
END_TEST

START_TEST(the_first_special_byte_is_found_behind_any_plain_ones)
{
    char text[40];

    for (size_t length = 0; length < sizeof text; length++) {
        for (size_t place = 0; place <= length; place++) {
            memset(text, '!', sizeof text); /* its neighbour is the quote */
            memset(text + place, '"', sizeof text - place);
            ck_assert_ptr_eq(ec_json_skip_plain(text, text + length), text + place);
        }
    }
}
END_TEST

START_TEST(four_hexadecimal_digits_have_a_value)
{
    ck_assert_int_eq(ec_json_hex4("0000"), 0);
    ck_assert_int_eq(ec_json_hex4("ffff"), 0xFFFF);
    ck_assert_int_eq(ec_json_hex4("aBcD"), 0xABCD);
    ck_assert_int_eq(ec_json_hex4("1g00"), -1);
    ck_assert_int_eq(ec_json_hex4("123\""), -1);
    ck_assert_int_eq(ec_json_hex4("@123"), -1);
    ck_assert_int_eq(ec_json_hex4("/123"), -1);
    ck_assert_int_eq(ec_json_hex4(":123"), -1);
    ck_assert_int_eq(ec_json_hex4("`123"), -1);
}
END_TEST

START_TEST(a_decoder_gives_the_bytes_that_escapes_stand_for)
{
    static const char text[] = "a\\n\\u00e4\\uD83D\\uDE39\xC3\xA4\\u0000z";
    static const char expected[] = "a\n\xC3\xA4\xF0\x9F\x98\xB9\xC3\xA4\0z";
    struct ec_json_decoder decoder = { .at = text, .end = text + sizeof text - 1 };

    for (size_t i = 0; i < sizeof expected - 1; i++)
        ck_assert_int_eq(ec_json_decode_byte(&decoder), (unsigned char)expected[i]);
    ck_assert_int_eq(ec_json_decode_byte(&decoder), -1);
    ck_assert_int_eq(ec_json_decode_byte(&decoder), -1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json_string");
    TCase *tcase = tcase_create("json_string");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, a_character_is_measured_or_its_broken_part, 0,
                        (int)COUNT(characters));
    tcase_add_test(tcase, each_code_point_is_encoded_as_valid_utf8);
    tcase_add_test(tcase, the_first_special_byte_is_found_behind_any_plain_ones);
    tcase_add_test(tcase, four_hexadecimal_digits_have_a_value);
    tcase_add_test(tcase, a_decoder_gives_the_bytes_that_escapes_stand_for);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
