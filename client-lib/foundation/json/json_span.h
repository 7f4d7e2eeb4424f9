/* foundation/json/json_span.h - read the values of a checked JSON text in place.
 *
 * ec_json_scan() has accepted the text; a span is one value in it. Reading neither copies nor
 * allocates, and walks over what is not wanted.
 *
 *     struct ec_json_iterator members = ec_json_iterate(params);
 *
 *     while (ec_json_next_member(&members, &name, &value))
 *         if (ec_json_string_equals(name, "level"))
 *             rc = ec_json_get_i64(value, &level);
 *
 * Everything here takes spans of an accepted text and trusts them. An empty span is allowed: it has
 * no type, so that a member that is not there fails like one of the wrong type.
 *
 * Thread:    any; nothing is shared.
 * Ownership: spans point into the caller's text and live as long as it does.
 * Cost:      linear in the bytes walked over; no allocation. */
#ifndef EC_FOUNDATION_JSON_SPAN_H
#define EC_FOUNDATION_JSON_SPAN_H

#include <engine-core/error.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* The outermost value of an accepted text. */
struct ec_json_span ec_json_root(const char *text, size_t bytes);

/* Bind the members of a checked object (the members of params, an entry of a batch).
 *
 * Returns EC_OK or EC_ERR_PARAM (not an object; then all values are empty). */
int ec_json_bind(struct ec_json_span object, struct ec_json_fields *fields);
/* One of them; empty: it is not there, or that is no object. */
struct ec_json_span ec_json_get_member(struct ec_json_span object, const char *name);

/* All values empty. Where the value of this member goes, or NULL; a name that nobody wants is noted.
 * Both are what ec_json_bind() consists of. */
void ec_json_fields_clear(struct ec_json_fields *fields);
struct ec_json_span *ec_json_fields_slot(struct ec_json_fields *fields, struct ec_json_span name);

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

#endif
