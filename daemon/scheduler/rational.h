/* rational.h - fractions as people and programs write them, taken exactly.
 *
 *     60   59.94   "60000/1001"   0.5   "3"
 *
 * A number is taken by its decimal text, at most nine decimals and no exponent; a string is such a
 * number or num/den, two whole numbers.
 *
 * Thread: any. */
#ifndef ENGINE_CORED_SCHEDULER_RATIONAL_H
#define ENGINE_CORED_SCHEDULER_RATIONAL_H

#include <stdint.h>

#include "foundation/error.h"
#include "foundation/json/json_span.h"

struct rational {
    uint64_t num, den; /* reduced; den is not 0 */
};

/* expected is the range in words. Returns EC_OK or EC_ERR_PARAM. */
int rational_parse(struct ec_json_span value, const char *expected, struct rational *rational,
                   struct ec_error *why);

#endif
