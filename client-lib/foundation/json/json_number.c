/* Decimal to double and back, exactly.
 *
 * Reading: a number of at most 53 bits times a power of ten up to 10^22 is one correctly rounded
 * operation; everything else goes to strtod() as plain digits.
 *
 * Writing: three ways, the first that fits.
 *   1. Below 2^53 and whole: an integer.
 *   2. Down to 2^-70: the digit generation of Steele and White, in 128-bit fixed point. With a
 *      binary fraction the scale is a power of two, so there is neither a division nor a table.
 *   3. The rest: snprintf() with ever more digits until the number reads back. */
#include "foundation/json/json_number.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_EXACT                                                                               \
    800 /* 767 digits can decide a rounding; the one behind them stands for the rest */
#define DIGITS_SHORTEST 17
#define HIDDEN_BIT ((uint64_t)1 << 52)
#define POINT_MIN (-5) /* 0.000001 */
#define POINT_MAX 17   /* written out, so that a whole number still fits 64 bits when read back */

__extension__ typedef unsigned __int128 uint128;

/* 0.d1d2d3... times 10^point */
struct decimal {
    char digits[DIGITS_EXACT + 1];
    size_t count;
    int64_t point;
};

/* The same with at most 17 digits. */
struct shortest {
    char digits[DIGITS_SHORTEST + 1];
    size_t count;
    int point;
};

static void parse_decimal(const char *text, size_t bytes, struct decimal *decimal);
static double strtod_decimal(const struct decimal *decimal);
static bool shortest_fixed_point(double value, struct shortest *out);
static void shortest_searched(double value, struct shortest *out);
static size_t put_shortest(const struct shortest *number, char *text);

static const double powers_of_ten[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                        1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                        1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

bool ec_json_integer_fits(const char *digits, size_t count, bool negative)
{
    const char *limit = negative ? "9223372036854775808" : "18446744073709551615";
    size_t limit_count = negative ? 19 : 20;

    return count < limit_count || (count == limit_count && memcmp(digits, limit, count) <= 0);
}

double ec_json_parse_real(const char *text, size_t bytes)
{
    struct decimal decimal;
    double value;
    int64_t exponent;

    parse_decimal(text, bytes, &decimal);
    exponent = decimal.point - (int64_t)decimal.count;
    if (decimal.count <= 15 && exponent >= -22 && exponent <= 22) {
        int64_t whole = 0;

        for (size_t i = 0; i < decimal.count; i++)
            whole = whole * 10 + (decimal.digits[i] - '0');
        value = exponent < 0 ? (double)whole / powers_of_ten[-exponent]
                             : (double)whole * powers_of_ten[exponent];
    } else {
        value = strtod_decimal(&decimal);
    }
    return text[0] == '-' ? -value : value;
}

size_t ec_json_format_real(double value, char *text)
{
    struct shortest number;
    size_t bytes = 0;

    if (signbit(value)) {
        text[bytes++] = '-';
        value = -value;
    }
    if (value < 0x1p53 && value == (double)(uint64_t)value) {
        bytes += ec_json_format_u64((uint64_t)value, text + bytes);
        if (value == 0 && bytes == 2) { /* -0 would read back as an integer, which has no sign */
            text[bytes++] = '.';
            text[bytes++] = '0';
        }
        return bytes;
    }
    if (!shortest_fixed_point(value, &number))
        shortest_searched(value, &number);
    return bytes + put_shortest(&number, text + bytes);
}

size_t ec_json_format_u64(uint64_t value, char *text)
{
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233"
        "34353637383940414243444546474849505152535455565758596061626364656667"
        "6869707172737475767778798081828384858687888990919293949596979899";
    char digits[20];
    char *at = digits + sizeof digits;
    size_t count;

    while (value >= 100) {
        at -= 2;
        memcpy(at, pairs + value % 100 * 2, 2);
        value /= 100;
    }
    if (value >= 10) {
        at -= 2;
        memcpy(at, pairs + value * 2, 2);
    } else {
        *--at = (char)('0' + value);
    }
    count = (size_t)(digits + sizeof digits - at);
    memcpy(text, at, count);
    return count;
}

/* Digits without zeros at either end. A number may be a megabyte long: beyond 800 digits only
 * "something not zero follows" can matter, and a last 1 says that. */
static void parse_decimal(const char *text, size_t bytes, struct decimal *decimal)
{
    const char *at = text + (text[0] == '-');
    const char *end = text + bytes;
    bool fraction = false, negative = false;
    int64_t exponent = 0;

    decimal->count = 0;
    decimal->point = 0;
    for (; at < end && (*at | 0x20) != 'e'; at++) {
        if (*at == '.') {
            fraction = true;
            continue;
        }
        if (decimal->count > 0 || *at != '0') {
            if (decimal->count < DIGITS_EXACT)
                decimal->digits[decimal->count++] = *at;
            else if (*at != '0' && decimal->count == DIGITS_EXACT)
                decimal->digits[decimal->count++] = '1';
            decimal->point += !fraction;
        } else {
            decimal->point -= fraction; /* a zero between the point and the first digit */
        }
    }
    if (at < end && ++at < end && (*at == '-' || *at == '+'))
        negative = *at++ == '-';
    for (; at < end; at++)
        if (exponent < INT64_MAX / 100)
            exponent = exponent * 10 + (*at - '0');
    decimal->point += negative ? -exponent : exponent;
    while (decimal->count > 0 && decimal->digits[decimal->count - 1] == '0')
        decimal->count--;
}

static double strtod_decimal(const struct decimal *decimal)
{
    char text[DIGITS_EXACT + 1 + sizeof "e-1000"];
    const int errno_before = errno;
    double value;

    if (decimal->count == 0 || decimal->point < -400)
        return 0;
    if (decimal->point > 400)
        return HUGE_VAL;
    memcpy(text, decimal->digits, decimal->count);
    /* -400 - 801 .. 400 - 1 */
    (void)snprintf(text + decimal->count, sizeof text - decimal->count, "e%d",
                   (int)(decimal->point - (int64_t)decimal->count));
    value = strtod(text, NULL);
    errno = errno_before;
    return value;
}

/* All numbers below are in units of 2^-shift: the fraction that is left, and half the distance to
 * the next double above and below, any of which reads back as this one. A whole number is never so
 * near, therefore the digits before the point are all needed. */
static bool shortest_fixed_point(double value, struct shortest *out)
{
    uint128 rest, above, below, one;
    uint64_t bits, mantissa;
    int shift;
    bool low, high, even;

    if (value >= 0x1p53 || value < 0x1p-70)
        return false;
    memcpy(&bits, &value, sizeof bits);
    mantissa = (bits & (HIDDEN_BIT - 1)) | HIDDEN_BIT;
    shift = 1075 - (int)(bits >> 52) + 2; /* value is mantissa * 2^(exponent field - 1075) */
    one = (uint128)1 << shift;
    even = (mantissa & 1) == 0; /* a tie reads back as the even mantissa */
    above = 2;
    below = mantissa == HIDDEN_BIT ? 1 : 2; /* under a power of two doubles are twice as dense */
    rest = (uint128)mantissa << 2;
    out->count = value < 1 ? 0 : ec_json_format_u64((uint64_t)(rest >> shift), out->digits);
    out->point = (int)out->count;
    rest &= one - 1;
    do {
        char digit;

        rest *= 10;
        above *= 10;
        below *= 10;
        digit = (char)(rest >> shift);
        rest &= one - 1;
        low = even ? rest <= below : rest < below;
        high = even ? rest + above >= one : rest + above > one;
        if (high && (!low || rest * 2 >= one))
            digit++; /* never 10: then the digit before would have been the last */
        if (out->count > 0 || digit > 0)
            out->digits[out->count++] = (char)('0' + digit);
        else
            out->point--;
    } while (!low && !high);
    return true;
}

/* If n digits read back, so do n + 1: they are at least as near. So the fewest are found by
 * halving. */
static void shortest_searched(double value, struct shortest *out)
{
    size_t low = 1, high = DIGITS_SHORTEST;
    char text[DIGITS_SHORTEST + 16];
    const int errno_before = errno;
    char *at;

    while (low < high) {
        size_t middle = (low + high) / 2;

        (void)snprintf(text, sizeof text, "%.*e", (int)middle - 1, value);
        if (strtod(text, NULL) == value) /* written and read in one locale, whatever it is */
            high = middle;
        else
            low = middle + 1;
    }
    errno = errno_before; /* strtod() reports subnormal numbers there */
    (void)snprintf(text, sizeof text, "%.*e", (int)low - 1, value);
    out->count = 0;
    for (at = text; *at != 'e'; at++)
        if (*at >= '0' && *at <= '9')
            out->digits[out->count++] = *at;
    out->point = (int)strtol(at + 1, NULL, 10) + 1;
    while (out->count > 1 && out->digits[out->count - 1] == '0')
        out->count--;
}

/* Point by hand, as snprintf() would take the locale's. */
static size_t put_shortest(const struct shortest *number, char *text)
{
    char *at = text;
    size_t before;

    if (number->point < POINT_MIN || number->point > POINT_MAX) {
        int exponent = number->point - 1;

        *at++ = number->digits[0];
        if (number->count > 1) {
            *at++ = '.';
            memcpy(at, number->digits + 1, number->count - 1);
            at += number->count - 1;
        }
        *at++ = 'e';
        if (exponent < 0)
            *at++ = '-';
        at += ec_json_format_u64((uint64_t)abs(exponent), at);
        return (size_t)(at - text);
    }
    if (number->point <= 0) {
        *at++ = '0';
        *at++ = '.';
        for (int zeros = number->point; zeros < 0; zeros++)
            *at++ = '0';
        memcpy(at, number->digits, number->count);
        return (size_t)(at + number->count - text);
    }
    before = (size_t)number->point;
    if (number->count <= before) {
        memset(at, '0', before);
        memcpy(at, number->digits, number->count);
        return before;
    }
    memcpy(at, number->digits, before);
    at[before] = '.';
    memcpy(at + before + 1, number->digits + before, number->count - before);
    return number->count + 1;
}
