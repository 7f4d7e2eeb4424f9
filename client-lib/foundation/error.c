/* Error texts: format into a local buffer first, because an argument may point into the text that
 * is about to be replaced. */
#include "foundation/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static size_t whole_characters(const char *text, size_t bytes);
static size_t format_text(char *text, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

int ec_fail(struct ec_error *why, int code, const char *format, ...)
{
    char text[EC_ERROR_TEXT_BYTES];
    va_list arguments;
    size_t bytes;

    if (why == NULL)
        return code;
    va_start(arguments, format);
    bytes = format_text(text, format, arguments);
    va_end(arguments);
    why->code = code;
    memcpy(why->text, text, bytes + 1);
    return code;
}

int ec_error_prefix(struct ec_error *why, int code, const char *format, ...)
{
    const size_t room = EC_ERROR_TEXT_BYTES - 1;
    char prefix[EC_ERROR_TEXT_BYTES];
    va_list arguments;
    size_t reason_bytes, bytes;

    if (why == NULL)
        return code;
    va_start(arguments, format);
    bytes = format_text(prefix, format, arguments);
    va_end(arguments);
    reason_bytes = strnlen(why->text, sizeof why->text);
    why->code = code;
    if (reason_bytes == 0 || bytes + 2 > room) { /* there is nothing, or no room, behind it */
        memcpy(why->text, prefix, bytes + 1);
        return code;
    }
    if (reason_bytes > room - bytes - 2)
        reason_bytes = whole_characters(why->text, room - bytes - 2);
    memmove(why->text + bytes + 2, why->text, reason_bytes);
    memcpy(why->text + bytes, ": ", 2);
    memcpy(why->text, prefix, bytes);
    why->text[bytes + 2 + reason_bytes] = '\0';
    return code;
}

/* How many of the first bytes end with a whole UTF-8 character; text[bytes] may be looked at. */
static size_t whole_characters(const char *text, size_t bytes)
{
    while (bytes > 0 && ((unsigned char)text[bytes] & 0xC0) == 0x80)
        bytes--;
    return bytes;
}

/* Format into EC_ERROR_TEXT_BYTES bytes and return the length without the NUL. One more byte than
 * is kept is formatted, so that the cut can see whether it falls inside a character. */
static size_t format_text(char *text, const char *format, va_list arguments)
{
    char wide[EC_ERROR_TEXT_BYTES + 1];
    const int errno_before = errno;
    int written = vsnprintf(wide, sizeof wide, format, arguments);
    size_t bytes = written < 0 ? 0 : (size_t)written;

    errno = errno_before;
    if (bytes >= EC_ERROR_TEXT_BYTES)
        bytes = whole_characters(wide, EC_ERROR_TEXT_BYTES - 1);
    memcpy(text, wide, bytes);
    text[bytes] = '\0';
    return bytes;
}

/* The installed header spells the codes out, for people; the table is their source. */
#define ERROR(name, number, text) _Static_assert(EC_ERR_##name == (number), #name);
#include "proto/tables/errors.def"
#undef ERROR

const char *ec_error_text(int code)
{
    static const struct {
        int code;
        const char *text;
    } rows[] = {
        { EC_OK, "done" },
        { EC_AGAIN, "not now" },
#define ERROR(name, number, text) { number, text },
#include "proto/tables/errors.def"
#undef ERROR
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].code == code)
            return rows[i].text;
    return "unknown error";
}
