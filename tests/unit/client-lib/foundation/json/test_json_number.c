/* Doubles go to text and back without loss, in the fewest digits. */
#include "foundation/json/json_number.h"

#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static uint64_t random_state = 0x853C49E6748FEA9B;

/* xorshift64*: the same numbers in each run */
static uint64_t next_random(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545F4914F6CDD1D;
}

static double double_of_bits(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static const struct {
    double value;
    const char *text;
} reals[] = {
    { 0.0, "0" },
    { -0.0, "-0.0" },
    { 1.0, "1" },
    { -1.0, "-1" },
    { 60.0, "60" },
    { 0.5, "0.5" },
    { -0.1, "-0.1" },
    { 0.3, "0.3" },
    { 0.1 + 0.2, "0.30000000000000004" },
    { 1.0 / 3, "0.3333333333333333" },
    { 2.0 / 3, "0.6666666666666666" },
    { 0.0123, "0.0123" },
    { 59.94, "59.94" },
    { 123456.789, "123456.789" },
    { 100.25, "100.25" },
    { 0.001, "0.001" },
    { 0.000001, "0.000001" },
    { 0.0000001, "1e-7" },
    { 1.5e-7, "1.5e-7" },
    { 0x1p-70, "8.470329472543003e-22" },
    { 0x1p-71, "4.235164736271502e-22" },
    { 9007199254740991.0, "9007199254740991" },
    { 9007199254740992.0, "9007199254740992" },
    { 9007199254740994.0, "9007199254740994" },
    { 4503599627370495.5, "4503599627370495.5" },
    { 1e15, "1000000000000000" },
    { 1e16, "10000000000000000" },
    { 99999999999999984.0, "99999999999999980" },
    { 1e17, "1e17" },
    { 18446744073709551616.0, "1.8446744073709552e19" },
    { 1e21, "1e21" },
    { 1e22, "1e22" },
    { 1e23, "1e23" },
    { -1.25e100, "-1.25e100" },
    { 1.7976931348623157e308, "1.7976931348623157e308" },
    { 2.2250738585072014e-308, "2.2250738585072014e-308" },
    { 2.225073858507201e-308, "2.225073858507201e-308" },
    { 5e-324, "5e-324" },
    { 0.9999999999999999, "0.9999999999999999" },
    { 1.0000000000000002, "1.0000000000000002" },
    { 0x1.fffffffffffffp-1, "0.9999999999999999" },
    { 9.5367431640625e-07, "9.5367431640625e-7" },
    { 2.0e-5, "0.00002" },
    { 5e-20, "5e-20" },
};

START_TEST(reals_take_the_fewest_digits)
{
    char text[EC_JSON_REAL_BYTES + 1];

    text[ec_json_format_real(reals[_i].value, text)] = '\0';
    ck_assert_str_eq(text, reals[_i].text);
    ck_assert(ec_json_parse_real(text, strlen(text)) == reals[_i].value);
}
END_TEST

/* The fewest digits are those with which printf's correctly rounded output reads back first. */
static int fewest_digits(double value)
{
    char text[40];
    int digits = 1;

    while (digits < 17) {
        (void)snprintf(text, sizeof text, "%.*e", digits - 1, value);
        if (strtod(text, NULL) == value)
            break;
        digits++;
    }
    return digits;
}

static int count_digits(const char *text)
{
    int digits = 0, zeros = 0;

    for (; *text != '\0' && *text != 'e'; text++) {
        if (*text >= '1' && *text <= '9') {
            digits += zeros + 1;
            zeros = 0;
        } else if (*text == '0') {
            zeros += digits > 0;
        }
    }
    return digits;
}

static void assert_round_trip(double value)
{
    char text[EC_JSON_REAL_BYTES + 1];
    size_t bytes = ec_json_format_real(value, text);

    ck_assert_uint_lt(bytes, EC_JSON_REAL_BYTES);
    text[bytes] = '\0';
    ck_assert_msg(strtod(text, NULL) == value, "%a became %s", value, text);
    ck_assert_msg(ec_json_parse_real(text, bytes) == value, "%a became %s, and %a", value, text,
                  ec_json_parse_real(text, bytes));
    if (fabs(value) >= 0x1p53 || value != trunc(value)) /* integers are written out */
        ck_assert_msg(count_digits(text) <= fewest_digits(value), "%a became %s", value, text);
}

START_TEST(random_doubles_round_trip_in_the_fewest_digits)
{
    for (int i = 0; i < 20000; i++) {
        double value = double_of_bits(next_random());

        if (isfinite(value))
            assert_round_trip(value);
    }
}
END_TEST

START_TEST(random_ratios_and_rates_round_trip_in_the_fewest_digits)
{
    for (int i = 0; i < 20000; i++) {
        double numerator = (double)(next_random() % 1000000),
               denominator = (double)(next_random() % 100000 + 1);

        assert_round_trip(numerator / denominator);
        assert_round_trip(ldexp((double)(next_random() >> 11), -(int)(next_random() % 124)));
    }
}
END_TEST

/* On both sides of a power of two the doubles lie at different distances. */
START_TEST(powers_of_two_and_their_neighbours_round_trip)
{
    for (int exponent = -1074; exponent < 1024; exponent++) {
        double value = ldexp(1, exponent);

        assert_round_trip(value);
        assert_round_trip(-nextafter(value, 0));
        if (exponent < 1023)
            assert_round_trip(nextafter(value, HUGE_VAL));
    }
}
END_TEST

START_TEST(powers_of_ten_and_their_neighbours_round_trip)
{
    for (int exponent = -323; exponent < 309; exponent++) {
        char text[16];
        double value;

        (void)snprintf(text, sizeof text, "1e%d", exponent);
        value = strtod(text, NULL);
        ck_assert(ec_json_parse_real(text, strlen(text)) == value);
        assert_round_trip(value);
        assert_round_trip(nextafter(value, 0));
        assert_round_trip(nextafter(value, HUGE_VAL));
    }
}
END_TEST

static const char *const decimals[] = {
    "0",
    "-0",
    "0.0",
    "-0.0e5",
    "1",
    "123",
    "1000000",
    "1e22",
    "1e23",
    "9007199254740993",
    "9007199254740992.9999999999999999",
    "0.1",
    "0.30000000000000004",
    "123456789012345678901234567890",
    "1.7976931348623158e308",
    "2.4703282292062327e-324",
    "2.4703282292062329e-324",
    "5e-324",
    "2.2250738585072011e-308",
    "1e-400",
    "0.000000000000000000000000000000000000001e40",
    "100000000000000000000000000e-26",
    "1e400",
    "-1e400",
    "1e99999999999999999999",
    "1e-99999999999999999999",
    "0e99999999999999999999",
    "1.5E+3",
    "15e0",
    "1e0000000000000000003",
    "8.5e-23",
    "179769313486231580793728971405301e276",
};

START_TEST(decimals_are_read_as_strtod_reads_them)
{
    const char *text = decimals[_i];
    double value = ec_json_parse_real(text, strlen(text)), expected = strtod(text, NULL);

    ck_assert_msg(bits_of(value) == bits_of(expected), "%s: %a, not %a", text, value, expected);
}
END_TEST

START_TEST(random_decimals_are_read_as_strtod_reads_them)
{
    for (int i = 0; i < 20000; i++) {
        char text[64], *at = text;
        double value, expected;

        at += sprintf(at, "%s%llu", next_random() & 1 ? "-" : "",
                      (unsigned long long)(next_random() >> next_random() % 64));
        if (next_random() & 1)
            at += sprintf(at, ".%llu", (unsigned long long)(next_random() >> next_random() % 64));
        if (next_random() & 1)
            at += sprintf(at, "e%d", (int)(next_random() % 700) - 350);
        value = ec_json_parse_real(text, (size_t)(at - text));
        expected = strtod(text, NULL);
        ck_assert_msg(bits_of(value) == bits_of(expected), "%s: %a, not %a", text, value, expected);
    }
}
END_TEST

/* Half way between two doubles, the digit that decides may stand far behind. */
START_TEST(the_last_of_many_digits_decides_a_tie)
{
    size_t bytes = 5000;
    char *text = malloc(bytes);

    ck_assert_ptr_nonnull(text);
    memset(text, '0', bytes);
    for (size_t i = 0; i < 17; i++)
        text[i] = "9007199254740993."[i];
    ck_assert(ec_json_parse_real(text, bytes) == 9007199254740992.0);
    text[bytes - 1] = '1';
    ck_assert(ec_json_parse_real(text, bytes) == 9007199254740994.0);
    free(text);
}
END_TEST

START_TEST(only_the_bytes_of_the_number_are_read)
{
    ck_assert(ec_json_parse_real("12345", 3) == 123);
    ck_assert(ec_json_parse_real("12e45", 4) == 12e4);
}
END_TEST

START_TEST(errno_is_left_alone)
{
    char text[EC_JSON_REAL_BYTES];

    errno = ENOENT;
    ec_json_parse_real("1e-320", 6);
    ec_json_parse_real("1.79769313486231599999e308", 26);
    ec_json_format_real(5e-324, text);
    ck_assert_int_eq(errno, ENOENT);
}
END_TEST

START_TEST(integers_fit_by_their_digits)
{
    ck_assert(ec_json_integer_fits("0", 1, false));
    ck_assert(ec_json_integer_fits("18446744073709551615", 20, false));
    ck_assert(!ec_json_integer_fits("18446744073709551616", 20, false));
    ck_assert(!ec_json_integer_fits("100000000000000000000", 21, false));
    ck_assert(ec_json_integer_fits("9223372036854775808", 19, true));
    ck_assert(!ec_json_integer_fits("9223372036854775809", 19, true));
    ck_assert(!ec_json_integer_fits("10000000000000000000", 20, true));
}
END_TEST

START_TEST(integers_are_written_as_printf_writes_them)
{
    uint64_t value = 1;

    for (int i = 0; i < 20; i++) {
        for (uint64_t near = value - 2; near != value + 3; near++) {
            char text[24], expected[24];

            text[ec_json_format_u64(near, text)] = '\0';
            (void)snprintf(expected, sizeof expected, "%llu", (unsigned long long)near);
            ck_assert_str_eq(text, expected);
        }
        value *= 10;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json_number");
    TCase *tcase = tcase_create("json_number");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, reals_take_the_fewest_digits, 0, (int)COUNT(reals));
    tcase_add_test(tcase, random_doubles_round_trip_in_the_fewest_digits);
    tcase_add_test(tcase, random_ratios_and_rates_round_trip_in_the_fewest_digits);
    tcase_add_test(tcase, powers_of_two_and_their_neighbours_round_trip);
    tcase_add_test(tcase, powers_of_ten_and_their_neighbours_round_trip);
    tcase_add_loop_test(tcase, decimals_are_read_as_strtod_reads_them, 0, (int)COUNT(decimals));
    tcase_add_test(tcase, random_decimals_are_read_as_strtod_reads_them);
    tcase_add_test(tcase, the_last_of_many_digits_decides_a_tie);
    tcase_add_test(tcase, only_the_bytes_of_the_number_are_read);
    tcase_add_test(tcase, errno_is_left_alone);
    tcase_add_test(tcase, integers_fit_by_their_digits);
    tcase_add_test(tcase, integers_are_written_as_printf_writes_them);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
