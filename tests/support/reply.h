/* support/reply.h - one value of a line that the daemon wrote, by its path.
 *
 *     reply_number(line, "result/assets/bytes")
 *     reply_number(line, "result/items/0/bytes")         an element by its index
 *     reply_number(line, "result/items/name=hero/bytes") the first with this member
 *
 * A number or text that is not there, or of another type, aborts the test. Thread: one. */
#ifndef EC_SUPPORT_REPLY_H
#define EC_SUPPORT_REPLY_H

#include <stdint.h>

#include "foundation/json/json_span.h"

/* Its text is NULL when there is none. Valid as long as the line. */
struct ec_json_span reply_at(const char *line, const char *path);

int64_t reply_number(const char *line, const char *path);

/* Valid until the next call; at most 511 bytes. */
const char *reply_text(const char *line, const char *path);

#endif
