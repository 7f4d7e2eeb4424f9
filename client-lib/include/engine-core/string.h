/* engine-core/string.h - a growing string, and the way to build one piece by piece, on any allocator.
 *
 *     struct ec_string line;
 *
 *     ec_string_init(&line, &from);
 *     ec_string_append(&line, "hits ");
 *     ec_string_format(&line, "%d of %d", hits, shots);
 *     if (ec_string_status(&line) == EC_OK)
 *         draw(ec_string_text(&line));
 *     ec_string_finish(&line);
 *
 * The first call that finds no memory makes the string fail: it keeps what it had, later calls change
 * nothing, and one look at ec_string_status at the end is enough. ec_string_clear makes it good again.
 *
 * On a frame arena take <engine-core/frame_string.h>, which knows when its frame is over.
 *
 * Bytes are copied as they are, zero bytes too; the text always ends with a NUL that length does not count.
 *
 * Thread:    one at a time. Ownership: the text belongs to the string and moves when it grows.
 * Cost:      appending is amortised O(bytes). */
#ifndef ENGINE_CORE_STRING_H
#define ENGINE_CORE_STRING_H

#include <stdarg.h>

#include <engine-core/allocator.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Read length as you like; the rest belongs to the string. */
struct ec_string {
    char *bytes; /* NULL while nothing was appended */
    size_t length;
    size_t room; /* with the NUL */
    int status;  /* EC_OK, EC_ERR_MEMORY or EC_ERR_SIZE */
    struct ec_allocator from;
};

EC_API void ec_string_init(struct ec_string *string, const struct ec_allocator *from);
EC_API void
ec_string_finish(struct ec_string *string); /* accepts a zeroed one; good for another init */

/* Each returns the status from then on. */
EC_API int ec_string_append(struct ec_string *string, const char *text);
EC_API int ec_string_append_bytes(struct ec_string *string, const void *bytes, size_t count);
EC_API int ec_string_append_char(struct ec_string *string, char c);
EC_API int ec_string_format(struct ec_string *string, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
EC_API int ec_string_format_list(struct ec_string *string, const char *format, va_list list)
    __attribute__((format(printf, 2, 0)));

/* Room for so many bytes in all, without the NUL. */
EC_API int ec_string_reserve(struct ec_string *string, size_t bytes);

EC_API void ec_string_truncate(struct ec_string *string,
                               size_t length); /* no effect when it is shorter */
EC_API void
ec_string_clear(struct ec_string *string); /* keeps the room; the status is EC_OK again */

/* Never NULL. Good until the next call that changes the string. */
EC_API const char *ec_string_text(const struct ec_string *string);
EC_API int ec_string_status(const struct ec_string *string);

#ifdef __cplusplus
}
#endif
#endif
