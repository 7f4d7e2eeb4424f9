/* Reading a text that ec_json_scan() has accepted. What the scanner has checked is not checked
 * again: escapes are whole, brackets match. */
#include "foundation/json/json_span.h"

#include "foundation/json/json_number.h"
#include "foundation/json/json_string.h"

#include <math.h>
#include <string.h>

static const char *skip_space(const char *at, const char *end);
static const char *skip_value(const char *at, const char *end);
static const char *skip_string(const char *at, const char *end);
static const char *skip_container(const char *at, const char *end);
static bool name_is(struct ec_json_span name, const char *text);
static int parse_integer(struct ec_json_span value, bool *negative, uint64_t *magnitude);
static size_t unescape(const char *at, const char *end, char *buffer, size_t capacity);

struct ec_json_span ec_json_root(const char *text, size_t bytes)
{
    const char *end = text + bytes;
    const char *at = skip_space(text, end);

    while (end > at && (end[-1] == ' ' || end[-1] == '\n' || end[-1] == '\r' || end[-1] == '\t'))
        end--;
    return (struct ec_json_span) { at, (size_t)(end - at) };
}

void ec_json_fields_clear(struct ec_json_fields *fields)
{
    for (size_t i = 0; i < fields->count; i++)
        fields->values[i] = (struct ec_json_span) { NULL, 0 };
    fields->unknown = (struct ec_json_span) { NULL, 0 };
}

struct ec_json_span *ec_json_fields_slot(struct ec_json_fields *fields, struct ec_json_span name)
{
    for (size_t i = 0; i < fields->count; i++)
        if (name_is(name, fields->names[i]))
            return &fields->values[i];
    if (fields->unknown.text == NULL)
        fields->unknown = name;
    return NULL;
}

int ec_json_bind(struct ec_json_span object, struct ec_json_fields *fields)
{
    struct ec_json_iterator members = ec_json_iterate(object);
    struct ec_json_span name, value, *slot;

    ec_json_fields_clear(fields);
    if (ec_json_type_of(object) != EC_JSON_OBJECT)
        return EC_ERR_PARAM;
    while (ec_json_next_member(&members, &name, &value)) {
        slot = ec_json_fields_slot(fields, name);
        if (slot != NULL)
            *slot = value;
    }
    return EC_OK;
}

struct ec_json_span ec_json_get_member(struct ec_json_span object, const char *name)
{
    struct ec_json_span value = { 0 };
    struct ec_json_fields fields = { .names = &name, .values = &value, .count = 1 };

    (void)ec_json_bind(object, &fields);
    return value;
}

enum ec_json_type ec_json_type_of(struct ec_json_span value)
{
    char first = value.bytes > 0 ? value.text[0] : '\0';

    switch (first) {
    case '{':
        return EC_JSON_OBJECT;
    case '[':
        return EC_JSON_ARRAY;
    case '"':
        return EC_JSON_STRING;
    case 't':
    case 'f':
        return EC_JSON_BOOLEAN;
    case 'n':
        return EC_JSON_NULL;
    default:
        return first == '-' || (first >= '0' && first <= '9') ? EC_JSON_NUMBER : EC_JSON_NONE;
    }
}

const char *ec_json_type_text(enum ec_json_type type)
{
    static const char *const texts[] = {
        [EC_JSON_NONE] = "nothing",      [EC_JSON_NULL] = "null",
        [EC_JSON_BOOLEAN] = "a boolean", [EC_JSON_NUMBER] = "a number",
        [EC_JSON_STRING] = "a string",   [EC_JSON_ARRAY] = "an array",
        [EC_JSON_OBJECT] = "an object",
    };

    return texts[type];
}

struct ec_json_iterator ec_json_iterate(struct ec_json_span container)
{
    enum ec_json_type type = ec_json_type_of(container);

    if ((type != EC_JSON_OBJECT && type != EC_JSON_ARRAY) || container.bytes < 2)
        return (struct ec_json_iterator) { NULL, NULL };
    return (struct ec_json_iterator) { container.text + 1, container.text + container.bytes - 1 };
}

bool ec_json_next_member(struct ec_json_iterator *iterator, struct ec_json_span *name,
                         struct ec_json_span *value)
{
    const char *end = iterator->end;
    const char *begin = skip_space(iterator->at, end);
    const char *at;

    if (begin == end || *begin != '"') {
        iterator->at = end;
        return false;
    }
    at = skip_string(begin, end);
    *name = (struct ec_json_span) { begin, (size_t)(at - begin) };
    at = skip_space(at, end);
    iterator->at = at < end ? at + 1 : end; /* the colon */
    return ec_json_next_element(iterator, value);
}

bool ec_json_next_element(struct ec_json_iterator *iterator, struct ec_json_span *value)
{
    const char *end = iterator->end;
    const char *begin = skip_space(iterator->at, end);
    const char *at;

    iterator->at = begin;
    if (begin == end)
        return false;
    at = skip_value(begin, end);
    *value = (struct ec_json_span) { begin, (size_t)(at - begin) };
    at = skip_space(at, end);
    iterator->at = at < end ? at + 1 : end; /* the comma */
    return true;
}

int ec_json_get_i64(struct ec_json_span value, int64_t *out)
{
    uint64_t magnitude;
    bool negative;

    if (parse_integer(value, &negative, &magnitude) < 0)
        return EC_ERR_PARAM;
    if (!negative && magnitude > INT64_MAX)
        return EC_ERR_PARAM;
    /* Minus by hand: the magnitude of INT64_MIN is no int64_t. */
    *out = negative && magnitude > 0 ? -(int64_t)(magnitude - 1) - 1 : (int64_t)magnitude;
    return EC_OK;
}

int ec_json_get_u64(struct ec_json_span value, uint64_t *out)
{
    uint64_t magnitude;
    bool negative;

    if (parse_integer(value, &negative, &magnitude) < 0 || (negative && magnitude > 0))
        return EC_ERR_PARAM;
    *out = magnitude;
    return EC_OK;
}

int ec_json_get_double(struct ec_json_span value, double *out)
{
    double number;

    if (ec_json_type_of(value) != EC_JSON_NUMBER)
        return EC_ERR_PARAM;
    number = ec_json_parse_real(value.text, value.bytes);
    if (!isfinite(number))
        return EC_ERR_PARAM;
    *out = number;
    return EC_OK;
}

int ec_json_get_boolean(struct ec_json_span value, bool *out)
{
    if (ec_json_type_of(value) != EC_JSON_BOOLEAN)
        return EC_ERR_PARAM;
    *out = value.text[0] == 't';
    return EC_OK;
}

int ec_json_get_hex64(struct ec_json_span value, uint64_t *out)
{
    uint64_t number = 0;

    if (ec_json_type_of(value) != EC_JSON_STRING || value.bytes < 5 || value.bytes > 20 ||
        value.text[1] != '0' || value.text[2] != 'x')
        return EC_ERR_PARAM;
    for (const char *at = value.text + 3; at < value.text + value.bytes - 1; at++) {
        if (*at >= '0' && *at <= '9')
            number = number << 4 | (uint64_t)(*at - '0');
        else if ((*at | 0x20) >= 'a' && (*at | 0x20) <= 'f')
            number = number << 4 | (uint64_t)((*at | 0x20) - 'a' + 10);
        else
            return EC_ERR_PARAM;
    }
    *out = number;
    return EC_OK;
}

int ec_json_get_string(struct ec_json_span value, char *buffer, size_t capacity, size_t *bytes)
{
    size_t length;

    if (ec_json_type_of(value) != EC_JSON_STRING || value.bytes < 2)
        return EC_ERR_PARAM;
    length = unescape(value.text + 1, value.text + value.bytes - 1, buffer, capacity);
    if (length >= capacity) {
        if (capacity > 0)
            buffer[0] = '\0';
        return EC_ERR_SIZE;
    }
    buffer[length] = '\0';
    *bytes = length;
    return EC_OK;
}

int ec_json_get_text(struct ec_json_span value, char *buffer, size_t capacity)
{
    size_t bytes;
    int rc = ec_json_get_string(value, buffer, capacity, &bytes);

    if (rc == EC_OK && memchr(buffer, '\0', bytes) != NULL) {
        buffer[0] = '\0';
        return EC_ERR_PARAM;
    }
    return rc;
}

bool ec_json_string_equals(struct ec_json_span value, const char *text)
{
    return ec_json_type_of(value) == EC_JSON_STRING && value.bytes >= 2 && name_is(value, text);
}

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    return at;
}

static const char *skip_value(const char *at, const char *end)
{
    if (*at == '"')
        return skip_string(at, end);
    if (*at == '{' || *at == '[')
        return skip_container(at, end);
    while (at<end && * at> ' ' && *at != ',' && *at != '}' && *at != ']')
        at++;
    return at;
}

static const char *skip_string(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++) {
        at = ec_json_skip_plain(at, end);
        if (at == end || *at == '"')
            break;
        if (*at == '\\' && end - at > 1)
            at++;
    }
    return at < end ? at + 1 : end;
}

/* Only brackets outside of strings count, and the scanner has seen that they match. */
static const char *skip_container(const char *at, const char *end)
{
    size_t depth = 0;

    while (at < end) {
        if (*at == '"') {
            at = skip_string(at, end);
            continue;
        }
        if (*at == '{' || *at == '[')
            depth++;
        else if ((*at == '}' || *at == ']') && --depth == 0)
            return at + 1;
        at++;
    }
    return end;
}

/* Compare a string span with a C string, as it stands up to the first escape, then decoded. */
static bool name_is(struct ec_json_span name, const char *text)
{
    const char *at = name.text + 1, *end = name.text + name.bytes - 1;
    struct ec_json_decoder decoder;
    int byte;

    while (at < end && *at == *text &&
           *at != '\\') { /* ends at the NUL of text, which at never has */
        at++;
        text++;
    }
    if (at == end || *at != '\\')
        return at == end && *text == '\0';
    decoder = (struct ec_json_decoder) { .at = at, .end = end };
    while ((byte = ec_json_decode_byte(&decoder)) >= 0)
        if (byte == 0 || byte != (unsigned char)*text++)
            return false;
    return *text == '\0';
}

/* An integer literal into sign and magnitude; the scanner has seen that it fits. */
static int parse_integer(struct ec_json_span value, bool *negative, uint64_t *magnitude)
{
    uint64_t number = 0;
    size_t i;

    if (ec_json_type_of(value) != EC_JSON_NUMBER)
        return EC_ERR_PARAM;
    *negative = value.text[0] == '-';
    for (i = *negative; i < value.bytes; i++) {
        if (value.text[i] < '0' || value.text[i] > '9')
            return EC_ERR_PARAM;
        number = number * 10 + (uint64_t)(value.text[i] - '0');
    }
    *magnitude = number;
    return EC_OK;
}

/* Returns the length of the whole string, of which as much is written as fits. */
static size_t unescape(const char *at, const char *end, char *buffer, size_t capacity)
{
    size_t length = 0;

    while (at < end) {
        char character[4];
        const char *piece = at;
        size_t bytes;

        if (*at == '\\') {
            piece = character;
            bytes = ec_json_encode_utf8(ec_json_decode_escape(&at), character);
        } else {
            const char *escape = memchr(at, '\\', (size_t)(end - at));

            at = escape != NULL ? escape : end;
            bytes = (size_t)(at - piece);
        }
        if (length < capacity && bytes <= capacity - length)
            memcpy(buffer + length, piece, bytes);
        else
            capacity = 0; /* too long: only count from here on */
        length += bytes;
    }
    return length;
}
