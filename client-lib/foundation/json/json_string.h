/* foundation/json/json_string.h - the bytes inside JSON strings, for the files of this folder.
 *
 * Most bytes of a string stand for themselves. They are passed over eight at a time; the rest is
 * control characters, the quote, the backslash and everything beyond ASCII. */
#ifndef EC_FOUNDATION_JSON_STRING_H
#define EC_FOUNDATION_JSON_STRING_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EC_JSON_ONES 0x0101010101010101u
#define EC_JSON_HIGH_BITS 0x8080808080808080u

/* Reads a string without its quotes byte by byte, escapes resolved. */
struct ec_json_decoder {
    const char *at;
    const char *end;
    uint32_t pending; /* bytes of the last escape that are still to come, first one lowest */
    uint32_t pending_count;
};

/* Eight bytes as a number whose lowest byte is the first one. */
static inline uint64_t ec_json_load64(const char *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof word);
    return le64toh(word);
}

/* The lowest set bit is the high bit of the first byte that does not stand for itself; 0: all do.
 * Bits above it may be wrong, because each subtraction borrows from the byte above. */
static inline uint64_t ec_json_special_bytes(uint64_t word)
{
    uint64_t control = word - EC_JSON_ONES * 0x20;
    uint64_t quote = (word ^ (EC_JSON_ONES * '"')) - EC_JSON_ONES;
    uint64_t backslash = (word ^ (EC_JSON_ONES * '\\')) - EC_JSON_ONES;

    return (control | quote | backslash | word) & EC_JSON_HIGH_BITS;
}

static inline bool ec_json_is_plain(char byte)
{
    return (unsigned char)byte >= 0x20 && (unsigned char)byte < 0x80 && byte != '"' && byte != '\\';
}

/* The first byte that does not stand for itself, or end. */
static inline const char *ec_json_skip_plain(const char *at, const char *end)
{
    while (end - at >= 8) {
        uint64_t special = ec_json_special_bytes(ec_json_load64(at));

        if (special != 0)
            return at + __builtin_ctzll(special) / 8;
        at += 8;
    }
    while (at < end && ec_json_is_plain(*at))
        at++;
    return at;
}

/* The UTF-8 character at `text`, which is before `end`: its length 1..4, or minus the number of bytes, 1..3,
 * that begin a character and do not finish it (what one U+FFFD replaces). */
int ec_json_utf8_length(const char *text, const char *end);

/* The value of four hexadecimal digits, or -1. */
int32_t ec_json_hex4(const char *digits);

/* The code point of the checked escape at *at, which is moved behind it; a pair counts as one. */
uint32_t ec_json_decode_escape(const char **at);

/* Write a code point as UTF-8 and return its length 1..4. */
size_t ec_json_encode_utf8(uint32_t code_point, char bytes[4]);

/* The next byte 0..255, or -1 at the end. */
int ec_json_decode_byte(struct ec_json_decoder *decoder);

#endif
