/* rational.c - see rational.h. */
#include "scheduler/rational.h"

#include <stdbool.h>
#include <string.h>

#define DECIMALS_MAX 9
#define TEXT_BYTES 64

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* Digits, at least one. *text goes behind them. */
static bool take_digits(const char **text, uint64_t *number)
{
    const char *begin = *text;

    while (**text >= '0' && **text <= '9') {
        if (__builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, (uint64_t)(**text - '0'), number))
            return false;
        (*text)++;
    }
    return *text > begin;
}

static bool take_decimals(const char **text, struct rational *rational)
{
    const char *begin = ++*text;

    if (!take_digits(text, &rational->num) || *text - begin > DECIMALS_MAX)
        return false;
    for (const char *digit = begin; digit < *text; digit++)
        rational->den *= 10;
    return true;
}

static bool take(const char *text, bool may_divide, struct rational *rational)
{
    *rational = (struct rational) { .den = 1 };
    if (!take_digits(&text, &rational->num))
        return false;
    if (*text == '.') {
        if (!take_decimals(&text, rational))
            return false;
    } else if (*text == '/' && may_divide) {
        text++;
        rational->den = 0;
        if (!take_digits(&text, &rational->den) || rational->den == 0)
            return false;
    }
    return *text == '\0';
}

int rational_parse(struct ec_json_span value, const char *expected, struct rational *rational,
                   struct ec_error *why)
{
    bool is_string = ec_json_type_of(value) == EC_JSON_STRING;
    char text[TEXT_BYTES] = "";
    uint64_t common;

    if (is_string) {
        if (ec_json_get_text(value, text, sizeof text) != EC_OK)
            text[0] = '\0';
    } else if (value.bytes < sizeof text && value.bytes > 0) {
        memcpy(text, value.text, value.bytes);
        text[value.bytes] = '\0';
    }
    if (!take(text, is_string, rational))
        return ec_fail(
            why, EC_ERR_PARAM, "is %.*s, expected %s, with at most nine decimals or as \"num/den\"",
            (int)(value.bytes < TEXT_BYTES ? value.bytes : TEXT_BYTES), value.text, expected);
    common = gcd(rational->num, rational->den);
    rational->num /= common;
    rational->den /= common;
    return EC_OK;
}
