/* foundation/json/json_scan.h - check JSON that a stranger wrote, and read it in place.
 *
 * One pass accepts a complete JSON text or says what is wrong and where. Nothing is copied and no
 * tree is built: a value is a span of the checked text, and getters read what is wanted. The same
 * pass finds the members of the outermost object, so a request is checked and taken apart at once:
 *
 *     static const char *const names[] = { "jsonrpc", "id", "method", "params" };
 *     struct ec_json_span values[4];
 *     struct ec_json_fields fields = { .names = names, .values = values, .count = 4 };
 *
 *     rc = ec_json_scan(line, bytes, NULL, &fields, &fault);
 *     if (rc == EC_OK && ec_json_string_equals(values[2], "clock.get"))
 *         ...
 *
 * Accepted is RFC 8259 to the letter, in valid UTF-8 and without a byte order mark, and then:
 *   - a member name stands once in its object ("a" and "\u0061" are the same name);
 *   - \uD800..\uDFFF come as a pair, high then low; \u0000 is legal;
 *   - an integer (no fraction, no exponent) fits int64_t or uint64_t;
 *   - any other number does not overflow a double (it may round, also to zero);
 *   - nesting is at most limits->depth; the outermost object or array is at depth 1.
 *
 * Thread:    any; nothing is shared.
 * Ownership: spans point into the caller's text and live as long as it does.
 * Cost:      time O(bytes log bytes) for any input, however hostile, 8 KiB of stack, and no
 *            allocation unless more than 256 members are open at once or one object has more than
 *            128; then less than 50 bytes a member, freed before the return. */
#ifndef EC_FOUNDATION_JSON_SCAN_H
#define EC_FOUNDATION_JSON_SCAN_H

#include "foundation/json/json_span.h"
#include <engine-core/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EC_JSON_DEPTH_DEFAULT 64
#define EC_JSON_DEPTH_MAX 256
#define EC_JSON_TEXT_BYTES_MAX 0x7FFFFFFF
#define EC_JSON_REASON_BYTES 96

/* Zero means the default. */
struct ec_json_limits {
    uint32_t depth; /* 1..EC_JSON_DEPTH_MAX; more counts as that */
};

enum ec_json_fault_kind {
    EC_JSON_FAULT_NONE,
    EC_JSON_FAULT_SYNTAX,    /* EC_ERR_PARSE */
    EC_JSON_FAULT_UTF8,      /* EC_ERR_PARSE */
    EC_JSON_FAULT_NUMBER,    /* EC_ERR_PARSE: does not fit */
    EC_JSON_FAULT_DUPLICATE, /* EC_ERR_PARSE */
    EC_JSON_FAULT_DEPTH,     /* EC_ERR_LIMIT */
    EC_JSON_FAULT_SIZE,      /* EC_ERR_SIZE: more than EC_JSON_TEXT_BYTES_MAX */
    EC_JSON_FAULT_MEMORY,    /* EC_ERR_MEMORY: an object of very many members */
};

/* What is wrong with a text. The reason is one line of UTF-8 without the offset. */
struct ec_json_fault {
    enum ec_json_fault_kind kind;
    size_t offset; /* byte where it was noticed, 0..bytes */
    char reason[EC_JSON_REASON_BYTES];
};

/* Check one complete JSON text. limits and fault may be NULL. A line end behind the text is white
 * space like any other.
 *
 * Returns EC_OK, EC_ERR_PARSE, EC_ERR_LIMIT (too deep), EC_ERR_SIZE, EC_ERR_MEMORY. */
int ec_json_check(const char *text, size_t bytes, const struct ec_json_limits *limits,
                  struct ec_json_fault *fault);

/* Check, and in the same pass bind the members of the outermost object to fields. If the text is
 * something else than an object, or not accepted, all values are empty.
 *
 * Returns as ec_json_check(). */
int ec_json_scan(const char *text, size_t bytes, const struct ec_json_limits *limits,
                 struct ec_json_fields *fields, struct ec_json_fault *fault);

/* Line and column (bytes), both from 1, of an offset; for messages about files. */
void ec_json_position(const char *text, size_t offset, size_t *line, size_t *column);

#endif
