/* The streaming writer. Each value reserves its bytes with the comma in front, then writes them. After
 * an error the nesting is still followed, so that wrong use is noticed and the caller's code needs
 * no second path. */
#include "foundation/json/json_writer.h"

#include "foundation/json/json_number.h"
#include "foundation/json/json_string.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_FIRST 1024 /* holds most replies */

static bool reserve_slowly(struct ec_json_writer *w, size_t bytes);
static char *value_begin(struct ec_json_writer *w, size_t bytes);
static void put_value(struct ec_json_writer *w, const char *text, size_t bytes);
static void level_begin(struct ec_json_writer *w, char bracket);
static void level_end(struct ec_json_writer *w, char bracket);
static void put_escaped(struct ec_json_writer *w, const char *text, size_t bytes);
static const char *put_special(struct ec_json_writer *w, const char *at, const char *end);
static inline bool is_in(const struct ec_json_writer *w, char bracket);

/* Where this many bytes go (one or more), or NULL, and then the status says why. */
static inline char *reserve(struct ec_json_writer *w, size_t bytes)
{
    if ((w->status == EC_OK && w->capacity - w->bytes >= bytes) || reserve_slowly(w, bytes))
        return w->base + w->bytes;
    return NULL;
}

static inline void put(struct ec_json_writer *w, const char *text, size_t bytes)
{
    char *out = bytes > 0 ? reserve(w, bytes) : NULL;

    if (out != NULL) {
        memcpy(out, text, bytes);
        w->bytes += bytes;
    }
}

void ec_json_writer_init(struct ec_json_writer *w, char *buffer, size_t capacity)
{
    *w = (struct ec_json_writer) { .base = buffer, .capacity = capacity, .bytes_max = capacity };
}

void ec_json_writer_init_growing(struct ec_json_writer *w, ec_json_grow grow, void *context,
                                 size_t bytes_max)
{
    *w = (struct ec_json_writer) { .bytes_max = bytes_max, .grow = grow, .context = context };
}

void *ec_json_grow_heap(void *context, void *base, size_t used, size_t bytes)
{
    (void)context;
    (void)used;
    return realloc(base, bytes);
}

void ec_json_writer_rewind(struct ec_json_writer *w, size_t bytes)
{
    assert(bytes <= w->bytes);
    w->bytes = bytes;
    w->status = EC_OK;
    w->comma = false;
    w->after_key = false;
    w->depth = 0;
}

void ec_json_line_end(struct ec_json_writer *w)
{
    assert(w->depth == 0 && w->comma);
    put(w, "\n", 1);
    w->comma = false;
}

void ec_json_object_begin(struct ec_json_writer *w)
{
    level_begin(w, '{');
}

void ec_json_object_end(struct ec_json_writer *w)
{
    level_end(w, '}');
}

void ec_json_array_begin(struct ec_json_writer *w)
{
    level_begin(w, '[');
}

void ec_json_array_end(struct ec_json_writer *w)
{
    level_end(w, ']');
}

void ec_json_key_plain(struct ec_json_writer *w, const char *name, size_t bytes)
{
    char *out;

    assert(is_in(w, '{') && !w->after_key);
    assert(ec_json_skip_plain(name, name + bytes) == name + bytes);
    w->after_key = true;
    out = reserve(w, bytes + 4);
    if (out == NULL)
        return;
    if (w->comma)
        *out++ = ',';
    *out++ = '"';
    memcpy(out, name, bytes);
    out[bytes] = '"';
    out[bytes + 1] = ':';
    w->bytes = (size_t)(out + bytes + 2 - w->base);
}

void ec_json_key_n(struct ec_json_writer *w, const char *name, size_t bytes)
{
    assert(is_in(w, '{') && !w->after_key);
    if (w->comma)
        put(w, ",", 1);
    put_escaped(w, name, bytes);
    put(w, ":", 1);
    w->after_key = true;
}

void ec_json_null(struct ec_json_writer *w)
{
    put_value(w, "null", 4);
}

void ec_json_boolean(struct ec_json_writer *w, bool value)
{
    put_value(w, value ? "true" : "false", value ? 4 : 5);
}

void ec_json_i64(struct ec_json_writer *w, int64_t value)
{
    char *out = value_begin(w, 21);

    if (out == NULL)
        return;
    if (value < 0)
        *out++ = '-';
    /* Minus by hand: INT64_MIN has no positive counterpart. */
    out += ec_json_format_u64(value < 0 ? 0 - (uint64_t)value : (uint64_t)value, out);
    w->bytes = (size_t)(out - w->base);
}

void ec_json_u64(struct ec_json_writer *w, uint64_t value)
{
    char *out = value_begin(w, 20);

    if (out != NULL)
        w->bytes = (size_t)(out + ec_json_format_u64(value, out) - w->base);
}

void ec_json_hex64(struct ec_json_writer *w, uint64_t value)
{
    char text[] = "\"0x0123456789abcdef\"";
    int digits = value == 0 ? 1 : (67 - __builtin_clzll(value)) / 4;

    for (int i = digits; i > 0; i--) {
        text[2 + i] = "0123456789abcdef"[value & 15];
        value >>= 4;
    }
    text[3 + digits] = '"';
    put_value(w, text, (size_t)digits + 4);
}

void ec_json_real(struct ec_json_writer *w, double value)
{
    char *out;

    if (!isfinite(value)) {
        ec_json_null(w);
        return;
    }
    out = value_begin(w, EC_JSON_REAL_BYTES);
    if (out != NULL)
        w->bytes = (size_t)(out + ec_json_format_real(value, out) - w->base);
}

void ec_json_string_n(struct ec_json_writer *w, const char *text, size_t bytes)
{
    char *out = value_begin(w, 0);

    if (out != NULL)
        w->bytes = (size_t)(out - w->base);
    put_escaped(w, text, bytes);
}

void ec_json_raw(struct ec_json_writer *w, struct ec_json_span value)
{
    size_t begin;

    assert(value.bytes > 0);
    put_value(w, value.text, value.bytes);
    if (w->status != EC_OK || memchr(value.text, '\n', value.bytes) == NULL)
        return;
    begin = w->bytes - value.bytes;
    for (size_t i = begin; i < w->bytes;
         i++) /* strings hold no raw line end, only the space does */
        if (w->base[i] == '\n')
            w->base[i] = ' ';
}

static bool __attribute__((cold, noinline)) reserve_slowly(struct ec_json_writer *w, size_t bytes)
{
    size_t capacity = w->capacity < CAPACITY_FIRST / 2 ? CAPACITY_FIRST / 2 : w->capacity;
    char *base;

    if (w->status != EC_OK)
        return false;
    if (bytes > w->bytes_max - w->bytes || w->grow == NULL) {
        w->status = EC_ERR_SIZE;
        return false;
    }
    while (capacity < w->bytes_max && capacity - w->bytes < bytes)
        capacity = capacity * 2;
    if (capacity > w->bytes_max)
        capacity = w->bytes_max;
    base = w->grow(w->context, w->base, w->bytes, capacity);
    if (base == NULL) {
        w->status = EC_ERR_MEMORY;
        return false;
    }
    w->base = base;
    w->capacity = capacity;
    return true;
}

/* Keys and values take turns in an object. What is deeper than the limit is not remembered. */
static inline bool is_in(const struct ec_json_writer *w, char bracket)
{
    if (w->depth > EC_JSON_WRITER_DEPTH)
        return true;
    return w->depth > 0 && (w->is_object >> (w->depth - 1) & 1) == (bracket == '{');
}

/* Where a value of at most `bytes` bytes goes, behind its comma; the caller sets w->bytes behind
 * it. NULL after an error. */
static inline char *value_begin(struct ec_json_writer *w, size_t bytes)
{
    char *out;
    bool comma = w->comma && !w->after_key;

    assert(w->after_key || is_in(w, '[') || w->depth == 0);
    assert(w->depth > 0 || !w->comma); /* one value is one text: ec_json_line_end() first */
    w->comma = true;
    w->after_key = false;
    out = reserve(w, bytes + 1);
    if (out != NULL && comma)
        *out++ = ',';
    return out;
}

static inline void put_value(struct ec_json_writer *w, const char *text, size_t bytes)
{
    char *out = value_begin(w, bytes);

    if (out != NULL) {
        memcpy(out, text, bytes);
        w->bytes = (size_t)(out + bytes - w->base);
    }
}

static void level_begin(struct ec_json_writer *w, char bracket)
{
    char *out = value_begin(w, 1);
    uint32_t depth = w->depth++;

    if (out != NULL) {
        *out = bracket;
        w->bytes = (size_t)(out + 1 - w->base);
    }
    w->comma = false;
    if (depth >= EC_JSON_WRITER_DEPTH) {
        if (w->status == EC_OK)
            w->status = EC_ERR_LIMIT;
        return;
    }
    w->is_object &= ~((uint64_t)1 << depth);
    w->is_object |= (uint64_t)(bracket == '{') << depth;
}

static void level_end(struct ec_json_writer *w, char bracket)
{
    assert(is_in(w, bracket == '}' ? '{' : '[') && !w->after_key);
    w->depth--;
    w->comma = true;
    put(w, &bracket, 1);
}

/* A string with its quotes. Most have nothing to escape and are copied in one piece. */
static void put_escaped(struct ec_json_writer *w, const char *text, size_t bytes)
{
    const char *end = text + bytes, *run = text;
    const char *at = ec_json_skip_plain(text, end);

    if (at == end) {
        char *out = reserve(w, bytes + 2);

        if (out != NULL) {
            out[0] = '"';
            memcpy(out + 1, text, bytes);
            out[bytes + 1] = '"';
            w->bytes += bytes + 2;
        }
        return;
    }
    put(w, "\"", 1);
    while (at < end && w->status == EC_OK) {
        put(w, run, (size_t)(at - run));
        run = put_special(w, at, end);
        at = ec_json_skip_plain(run, end);
    }
    put(w, run, (size_t)(at - run));
    put(w, "\"", 1);
}

/* One character that does not stand for itself; returns the place behind it. */
static const char *put_special(struct ec_json_writer *w, const char *at, const char *end)
{
    static const char short_escapes[0x20] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r',
    };
    unsigned char byte = (unsigned char)*at;
    int length;

    if (byte >= 0x80) {
        length = ec_json_utf8_length(at, end);
        if (length > 0) {
            put(w, at, (size_t)length);
            return at + length;
        }
        put(w, "\xEF\xBF\xBD", 3); /* U+FFFD */
        return at - length;
    }
    if (byte >= 0x20) { /* quote or backslash */
        put(w, (const char[]) { '\\', (char)byte }, 2);
    } else if (short_escapes[byte] != 0) {
        put(w, (const char[]) { '\\', short_escapes[byte] }, 2);
    } else {
        char escape[] = "\\u0000";

        escape[4] = (char)('0' + (byte >> 4));
        escape[5] = "0123456789abcdef"[byte & 15];
        put(w, escape, sizeof escape - 1);
    }
    return at + 1;
}
