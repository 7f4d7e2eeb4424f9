/* foundation/error.h - say why something failed, once, where it is known.
 *
 * A function that can fail takes a `struct ec_error *why` last and returns EC_OK, EC_AGAIN or a
 * negative EC_ERR_... code. Who finds the fault writes the reason; each caller puts in front what it
 * was doing, so that the text reads from the outside to the inside:
 * `attach client 7: map segment fd 5: size is 100, expected at least 4096`.
 *
 *     int segment_map(int fd, struct ec_error *why)
 *     {
 *         int rc = segment_check(fd, why); // ec_fail(why, EC_ERR_LAYOUT, "size is %zu, ...", size)
 *
 *         return rc < 0 ? ec_error_prefix(why, rc, "map segment fd %d", fd) : EC_OK;
 *     }
 *
 * `why` may be NULL everywhere: then only the code is returned. The text is UTF-8, always ends with
 * NUL, and is cut at its end, never inside a character, when it does not fit.
 *
 * Thread:    any; one struct belongs to one thread at a time.
 * Ownership: the caller owns the struct; nothing is allocated.
 * Cost:      formats text, so hot paths return a code and count instead. errno is kept. */
#ifndef EC_FOUNDATION_ERROR_H
#define EC_FOUNDATION_ERROR_H

#include <engine-core/error.h>

/* Set code and text, and return the code. An earlier reason is replaced. */
int ec_fail(struct ec_error *why, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Put "format: " in front of the reason and return code. The code becomes that of `why`, so a caller
 * may also translate it on the way. Without a reason the text is the formatted one alone. */
int ec_error_prefix(struct ec_error *why, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
