/* foundation/json/json_number.h - decimal numbers, for the files of this folder.
 *
 * Neither direction depends on the locale: strtod() is given digits and an exponent, never a decimal
 * separator, and what snprintf() prints is searched for digits only. */
#ifndef EC_FOUNDATION_JSON_NUMBER_H
#define EC_FOUNDATION_JSON_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EC_JSON_REAL_BYTES 32 /* longest output of ec_json_format_real() is 25 */

/* The integer literal (digits without sign or leading zero) fits 64 bits with this sign. */
bool ec_json_integer_fits(const char *digits, size_t count, bool negative);

/* The value of a checked number, rounded to nearest; infinite when it overflows. */
double ec_json_parse_real(const char *text, size_t bytes);

/* Write the fewest digits that read back as the same finite double; returns their length. */
size_t ec_json_format_real(double value, char *text);

/* Write decimal digits; returns their number, 1..20. */
size_t ec_json_format_u64(uint64_t value, char *text);

#endif
