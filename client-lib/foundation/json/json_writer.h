/* foundation/json/json_writer.h - write JSON front to back into a buffer.
 *
 * Commas and colons come by themselves, strings are escaped, and what comes out is always valid
 * JSON on one line, whatever goes in. Errors are sticky: write the whole text, then ask once.
 *
 *     ec_json_object_begin(w);
 *     ec_json_member_string(w, "server", "engine-core");
 *     ec_json_member_array(w, "items");
 *     ec_json_u64(w, 17);
 *     ec_json_array_end(w);
 *     ec_json_object_end(w);
 *     rc = ec_json_writer_status(w);
 *
 * The buffer is the caller's and fixed, or grows through a function of the caller. Several texts may
 * follow each other in it (ec_json_line_end), and a half-written one can be taken back
 * (ec_json_writer_rewind), as when a handler fails after it has begun its result.
 *
 * Wrong use is a mistake of ours and asserts: a value in an object without a key, a key in an array,
 * an end that does not match its begin.
 *
 * Thread:    any; one writer belongs to one thread at a time.
 * Ownership: the caller owns the buffer, before and after growing, and frees it.
 * Cost:      no system call, no allocation but that of grow. No printf either, with one exception:
 *            ec_json_real() for numbers from 2^53 up or below 2^-70. */
#ifndef EC_FOUNDATION_JSON_WRITER_H
#define EC_FOUNDATION_JSON_WRITER_H

#include "foundation/json/json_span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EC_JSON_WRITER_DEPTH 64

/* Like realloc: return a block of at least `bytes` with the first `used` bytes of `base` in it, or
 * NULL, and then base stays what it was. base is NULL the first time. */
typedef void *(*ec_json_grow)(void *context, void *base, size_t used, size_t bytes);
/* realloc itself: base is then to be freed. */
void *ec_json_grow_heap(void *context, void *base, size_t used, size_t bytes);

/* Read base and bytes as you like; leave the rest to the functions. */
struct ec_json_writer {
    char *base;
    size_t bytes;    /* written so far */
    size_t capacity; /* of base */
    size_t bytes_max;
    ec_json_grow grow; /* NULL: the buffer is fixed */
    void *context;
    int status;
    bool comma;         /* a value stands before this place */
    bool after_key;     /* the next thing must be a value */
    uint32_t depth;     /* open objects and arrays */
    uint64_t is_object; /* bit depth - 1: what the innermost one is */
};

/* Write into `capacity` bytes and no more. The text gets no NUL at its end. */
void ec_json_writer_init(struct ec_json_writer *w, char *buffer, size_t capacity);

/* Write into a buffer that grows, by doubling, to at most bytes_max. Set w->base to NULL, or take
 * it, when the writer is done. */
void ec_json_writer_init_growing(struct ec_json_writer *w, ec_json_grow grow, void *context,
                                 size_t bytes_max);

/* EC_OK, EC_ERR_SIZE (the buffer or bytes_max was too small), EC_ERR_MEMORY (grow failed),
 * EC_ERR_LIMIT (deeper than EC_JSON_WRITER_DEPTH). After an error nothing more is written. */
static inline int ec_json_writer_status(const struct ec_json_writer *w)
{
    return w->status;
}

/* Forget everything from byte `bytes` (an earlier w->bytes, taken between two texts), the error
 * too, and begin a new text there. */
void ec_json_writer_rewind(struct ec_json_writer *w, size_t bytes);

/* End the text with LF; the next value begins a new one. */
void ec_json_line_end(struct ec_json_writer *w);

void ec_json_object_begin(struct ec_json_writer *w);
void ec_json_object_end(struct ec_json_writer *w);
void ec_json_array_begin(struct ec_json_writer *w);
void ec_json_array_end(struct ec_json_writer *w);

/* The name of the next member. ec_json_key_plain() is for names that need no escape (ASCII without
 * quote, backslash and control characters), which it asserts; ec_json_key_n() is for any. */
void ec_json_key_plain(struct ec_json_writer *w, const char *name, size_t bytes);
void ec_json_key_n(struct ec_json_writer *w, const char *name, size_t bytes);

static inline void ec_json_key(struct ec_json_writer *w, const char *name)
{
    ec_json_key_plain(w, name, strlen(name));
}

void ec_json_null(struct ec_json_writer *w);
void ec_json_boolean(struct ec_json_writer *w, bool value);
void ec_json_i64(struct ec_json_writer *w, int64_t value);
void ec_json_u64(struct ec_json_writer *w, uint64_t value);
void ec_json_hex64(struct ec_json_writer *w, uint64_t value); /* a string: "0x1f" */

/* The fewest digits that read back as the same double, whatever the locale; integers below 2^53
 * without fraction and exponent. NaN and the infinities become null, -0 becomes -0.0. */
void ec_json_real(struct ec_json_writer *w, double value);

/* A string of any bytes. What is not valid UTF-8 becomes U+FFFD, one for each broken sequence. */
void ec_json_string_n(struct ec_json_writer *w, const char *text, size_t bytes);

static inline void ec_json_string(struct ec_json_writer *w, const char *text)
{
    ec_json_string_n(w, text, strlen(text));
}

/* A value out of a checked text, byte by byte, except that line ends become spaces. */
void ec_json_raw(struct ec_json_writer *w, struct ec_json_span value);

/* A member in one line. */
static inline void ec_json_member_object(struct ec_json_writer *w, const char *name)
{
    ec_json_key(w, name);
    ec_json_object_begin(w);
}

static inline void ec_json_member_array(struct ec_json_writer *w, const char *name)
{
    ec_json_key(w, name);
    ec_json_array_begin(w);
}

static inline void ec_json_member_null(struct ec_json_writer *w, const char *name)
{
    ec_json_key(w, name);
    ec_json_null(w);
}

static inline void ec_json_member_boolean(struct ec_json_writer *w, const char *name, bool value)
{
    ec_json_key(w, name);
    ec_json_boolean(w, value);
}

static inline void ec_json_member_i64(struct ec_json_writer *w, const char *name, int64_t value)
{
    ec_json_key(w, name);
    ec_json_i64(w, value);
}

static inline void ec_json_member_u64(struct ec_json_writer *w, const char *name, uint64_t value)
{
    ec_json_key(w, name);
    ec_json_u64(w, value);
}

static inline void ec_json_member_hex64(struct ec_json_writer *w, const char *name, uint64_t value)
{
    ec_json_key(w, name);
    ec_json_hex64(w, value);
}

static inline void ec_json_member_real(struct ec_json_writer *w, const char *name, double value)
{
    ec_json_key(w, name);
    ec_json_real(w, value);
}

static inline void ec_json_member_string(struct ec_json_writer *w, const char *name,
                                         const char *text)
{
    ec_json_key(w, name);
    ec_json_string(w, text);
}

static inline void ec_json_member_string_n(struct ec_json_writer *w, const char *name,
                                           const char *text, size_t bytes)
{
    ec_json_key(w, name);
    ec_json_string_n(w, text, bytes);
}

static inline void ec_json_member_raw(struct ec_json_writer *w, const char *name,
                                      struct ec_json_span value)
{
    ec_json_key(w, name);
    ec_json_raw(w, value);
}

#endif
