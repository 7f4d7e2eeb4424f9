/* Characters and escapes of JSON strings. */
#include "foundation/json/json_string.h"

int ec_json_utf8_length(const char *text, const char *end)
{
    const unsigned char *at = (const unsigned char *)text;
    unsigned low = 0x80,
             high = 0xBF; /* of the second byte: no overlong form, surrogate, > U+10FFFF */
    int more;

    if (at[0] < 0x80)
        return 1;
    if (at[0] < 0xC2 || at[0] > 0xF4)
        return -1;
    if (at[0] < 0xE0) {
        more = 1;
    } else if (at[0] < 0xF0) {
        more = 2;
        low = at[0] == 0xE0 ? 0xA0 : low;
        high = at[0] == 0xED ? 0x9F : high;
    } else {
        more = 3;
        low = at[0] == 0xF0 ? 0x90 : low;
        high = at[0] == 0xF4 ? 0x8F : high;
    }
    for (int i = 1; i <= more; i++) {
        if (end - text <= i || at[i] < low || at[i] > high)
            return -i;
        low = 0x80;
        high = 0xBF;
    }
    return more + 1;
}

int32_t ec_json_hex4(const char *digits)
{
    int32_t value = 0;

    for (int i = 0; i < 4; i++) {
        int digit = (unsigned char)digits[i];

        if (digit >= '0' && digit <= '9')
            digit -= '0';
        else if ((digit | 0x20) >= 'a' && (digit | 0x20) <= 'f')
            digit = (digit | 0x20) - 'a' + 10;
        else
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

uint32_t ec_json_decode_escape(const char **at)
{
    const char *escape = *at;
    uint32_t high, low;

    *at += 2;
    switch (escape[1]) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'u':
        break;
    default: /* quote, backslash, slash */
        return (unsigned char)escape[1];
    }
    *at += 4;
    high = (uint32_t)ec_json_hex4(escape + 2);
    if (high < 0xD800 || high > 0xDBFF)
        return high;
    *at += 6;
    low = (uint32_t)ec_json_hex4(escape + 8);
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
}

size_t ec_json_encode_utf8(uint32_t code_point, char bytes[4])
{
    size_t more = code_point < 0x80 ? 0 : code_point < 0x800 ? 1 : code_point < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = { 0x00, 0xC0, 0xE0, 0xF0 };

    for (size_t i = more; i > 0; i--) {
        bytes[i] = (char)(0x80 | (code_point & 0x3F));
        code_point >>= 6;
    }
    bytes[0] = (char)(lead[more] | code_point);
    return more + 1;
}

int ec_json_decode_byte(struct ec_json_decoder *decoder)
{
    int byte;

    if (decoder->pending_count == 0) {
        char bytes[4];

        if (decoder->at == decoder->end)
            return -1;
        if (*decoder->at != '\\')
            return (unsigned char)*decoder->at++;
        decoder->pending_count =
            (uint32_t)ec_json_encode_utf8(ec_json_decode_escape(&decoder->at), bytes);
        decoder->pending = 0;
        for (uint32_t i = 0; i < decoder->pending_count; i++)
            decoder->pending |= (uint32_t)(unsigned char)bytes[i] << 8 * i;
    }
    byte = (int)(decoder->pending & 0xFF);
    decoder->pending >>= 8;
    decoder->pending_count--;
    return byte;
}
