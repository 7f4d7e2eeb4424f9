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
 * Cost:      time O(bytes log bytes) for any input, however hostile, 6 KiB of stack, and no
 *            allocation unless more than 256 members are open at once or one object has more than
 *            128; then at most 24 bytes a member, freed before the return. */
#ifndef EC_FOUNDATION_JSON_SCAN_H
#define EC_FOUNDATION_JSON_SCAN_H

#include "proto/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EC_JSON_DEPTH_DEFAULT 64
#define EC_JSON_DEPTH_MAX 256
#define EC_JSON_TEXT_BYTES_MAX 0x7FFFFFFF
#define EC_JSON_REASON_BYTES 96

/* One value inside a checked text, without the white space around it: {"a":1}, "x" with its
 * quotes, -12.50, true. The span of a number is its decimal text. text is NULL for "no value". */
struct ec_json_span {
    const char *text;
    size_t bytes;
};

enum ec_json_type {
    EC_JSON_NONE, /* the span is empty: a member that is not there */
    EC_JSON_NULL,
    EC_JSON_BOOLEAN,
    EC_JSON_NUMBER,
    EC_JSON_STRING,
    EC_JSON_ARRAY,
    EC_JSON_OBJECT,
};

/* Zero means the default. */
struct ec_json_limits {
    uint32_t depth; /* 1..EC_JSON_DEPTH_MAX */
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

/* Which members of an object are wanted, by plain UTF-8 names without NUL, and where their values
 * go: values[i] belongs to names[i] and has text NULL when the member is not there. */
struct ec_json_fields {
    const char *const *names;
    struct ec_json_span *values;
    size_t count;
    struct ec_json_span unknown; /* out: name of the first member that is not in names */
};

/* A place in a checked object or array; see ec_json_iterate(). */
struct ec_json_iterator {
    const char *at;
    const char *end;
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

/* Everything below takes spans of a text that was accepted. */

/* The outermost value of an accepted text. */
struct ec_json_span ec_json_root(const char *text, size_t bytes);

/* Bind the members of a checked object (the members of params, an entry of a batch).
 *
 * Returns EC_OK or EC_ERR_PARAM (not an object; all values are empty). */
int ec_json_bind(struct ec_json_span object, struct ec_json_fields *fields);

enum ec_json_type ec_json_type_of(struct ec_json_span value);

/* "a string", "an object": for texts that say what was expected and what came. */
const char *ec_json_type_text(enum ec_json_type type);

/* Walk an object or array from its first member or element. Anything else has none. */
struct ec_json_iterator ec_json_iterate(struct ec_json_span container);

/* The next member; the name is a string span like any other. false: there is none. */
bool ec_json_next_member(struct ec_json_iterator *iterator, struct ec_json_span *name,
                         struct ec_json_span *value);

/* The next element of an array. false: there is none. */
bool ec_json_next_element(struct ec_json_iterator *iterator, struct ec_json_span *value);

/* Getters. *out is written on EC_OK only. EC_ERR_PARAM: the value is of another type, or is a number
 * that the type of out cannot hold. Integers are integer literals: 1.0 and 1e3 are not. */
int ec_json_get_i64(struct ec_json_span value, int64_t *out);
int ec_json_get_u64(struct ec_json_span value, uint64_t *out);
int ec_json_get_double(struct ec_json_span value, double *out); /* any number, rounded to nearest */
int ec_json_get_boolean(struct ec_json_span value, bool *out);

/* A 64-bit id: a string of 0x and 1..16 hexadecimal digits. */
int ec_json_get_hex64(struct ec_json_span value, uint64_t *out);

/* Unescape a string. buffer gets the bytes and a NUL behind them, which *bytes does not count; a
 * string may contain NULs of its own. A buffer of value.bytes - 1 is always large enough.
 *
 * Returns EC_OK, EC_ERR_PARAM (not a string), EC_ERR_SIZE (longer than capacity - 1 bytes; the
 * buffer holds an empty string). */
int ec_json_get_string(struct ec_json_span value, char *buffer, size_t capacity, size_t *bytes);

/* The same for names and paths, where an escaped NUL would cut the text short.
 *
 * Returns EC_OK, EC_ERR_PARAM (not a string, or holds \u0000), EC_ERR_SIZE. */
int ec_json_get_text(struct ec_json_span value, char *buffer, size_t capacity);

/* Is it a string, and this one? Escapes count as what they stand for. */
bool ec_json_string_equals(struct ec_json_span value, const char *text);

/* Line and column (bytes), both from 1, of an offset; for messages about files. */
void ec_json_position(const char *text, size_t offset, size_t *line, size_t *column);

#endif
