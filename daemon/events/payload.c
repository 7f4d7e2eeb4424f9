/* payload.c - payloads between their layout and JSON; see types.h. */
#include <ctype.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "events/types.h"
#include "proto/tables/nearest.h"

/* ---- encode ---------------------------------------------------------------------------------- */

static int bad(const struct event_field *field, struct ec_error *why)
{
    const struct scalar_row *scalar = &scalars[field->scalar];

    if (field->scalar == SCALAR_BOOL)
        return ec_fail(why, EC_ERR_PARAM, "field %s: expected true or false", field->name);
    if (scalar->max == 0)
        return ec_fail(why, EC_ERR_PARAM, "field %s: expected a number of type %s", field->name,
                       scalar->name);
    return ec_fail(why, EC_ERR_PARAM, "field %s: expected an integer in %lld..%llu", field->name,
                   (long long)scalar->min, (unsigned long long)scalar->max);
}

static int encode_integer(const struct event_field *field, struct ec_json_span value, void *place,
                          struct ec_error *why)
{
    const struct scalar_row *scalar = &scalars[field->scalar];
    uint64_t bits;
    int64_t number;

    if (scalar->min < 0) {
        if (ec_json_get_i64(value, &number) != EC_OK || number < scalar->min ||
            number > (int64_t)scalar->max)
            return bad(field, why);
        bits = (uint64_t)number;
    } else if (ec_json_get_u64(value, &bits) != EC_OK || bits > scalar->max) {
        return bad(field, why);
    }
    /* Segments are little-endian (x86-64, arm64): the low bytes come first. */
    memcpy(place, &bits, scalar->bytes);
    return EC_OK;
}

static int encode_scalar(const struct event_field *field, struct ec_json_span value, void *place,
                         struct ec_error *why)
{
    double real;
    float single;
    bool flag;

    switch (field->scalar) {
    case SCALAR_F32:
        /* What is nearest to FLT_MAX means it: with 9 digits FLT_MAX itself is a bit more. */
        if (ec_json_get_double(value, &real) != EC_OK || fabs(real) >= 0x1.ffffffp127)
            return bad(field, why);
        single = fabs(real) > (double)FLT_MAX ? copysignf(FLT_MAX, (float)(real / 2)) : (float)real;
        memcpy(place, &single, sizeof single);
        return EC_OK;
    case SCALAR_F64:
        if (ec_json_get_double(value, &real) != EC_OK)
            return bad(field, why);
        memcpy(place, &real, sizeof real);
        return EC_OK;
    case SCALAR_BOOL:
        if (ec_json_get_boolean(value, &flag) != EC_OK)
            return bad(field, why);
        *(unsigned char *)place = flag;
        return EC_OK;
    default:
        return encode_integer(field, value, place, why);
    }
}

static int encode_text(const struct event_field *field, struct ec_json_span value, char *place,
                       struct ec_error *why)
{
    char text[4096];
    size_t bytes;

    if (field->count >= sizeof text)
        return ec_fail(why, EC_ERR_PARAM, "field %s: text of over %zu bytes cannot be given here",
                       field->name, sizeof text - 1);
    if (ec_json_get_string(value, text, field->count + 1, &bytes) != EC_OK)
        return ec_fail(why, EC_ERR_PARAM, "field %s: expected a string of at most %u bytes",
                       field->name, field->count);
    memcpy(place, text, bytes);
    return EC_OK;
}

static int encode_field(const struct event_field *field, struct ec_json_span value,
                        unsigned char *payload, struct ec_error *why)
{
    unsigned char *place = payload + field->offset;
    struct ec_json_iterator elements;
    struct ec_json_span element;
    uint32_t index = 0;

    if (field->scalar == SCALAR_CHAR)
        return encode_text(field, value, (char *)place, why);
    if (field->count == 1)
        return encode_scalar(field, value, place, why);
    if (ec_json_type_of(value) != EC_JSON_ARRAY)
        return ec_fail(why, EC_ERR_PARAM, "field %s: expected an array of %u", field->name,
                       field->count);
    elements = ec_json_iterate(value);
    while (ec_json_next_element(&elements, &element)) {
        int rc;

        if (index == field->count)
            return ec_fail(why, EC_ERR_PARAM, "field %s: more than %u elements", field->name,
                           field->count);
        rc = encode_scalar(field, element, place + index * scalars[field->scalar].bytes, why);
        if (rc < 0)
            return rc;
        index++;
    }
    return EC_OK;
}

static const struct event_field *find_field(const struct event_type *type, struct ec_json_span name)
{
    for (uint32_t i = 0; i < type->field_count; i++)
        if (ec_json_string_equals(name, type->fields[i].name))
            return &type->fields[i];
    return NULL;
}

static int nibble(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int encode_hex(const struct event_type *type, struct ec_json_span value, void *payload,
                      uint32_t *bytes, struct ec_error *why)
{
    const char *text = value.text + 1; /* hexadecimal digits need no unescaping */
    size_t digits = value.bytes >= 2 ? value.bytes - 2 : 0;

    if (ec_json_type_of(value) != EC_JSON_STRING || digits % 2 != 0 || digits / 2 > type->size)
        return ec_fail(why, EC_ERR_PARAM, "hex: expected a string of at most %u pairs of digits",
                       type->size);
    for (size_t i = 0; i < digits; i += 2) {
        int high = nibble(text[i]), low = nibble(text[i + 1]);

        if (high < 0 || low < 0)
            return ec_fail(why, EC_ERR_PARAM, "hex: digit %zu is not hexadecimal", i);
        ((unsigned char *)payload)[i / 2] = (unsigned char)(high << 4 | low);
    }
    *bytes = (uint32_t)(digits / 2);
    return EC_OK;
}

static int no_such_field(const struct event_type *type, struct ec_json_span name,
                         struct ec_error *why)
{
    char unknown[EVENT_FIELD_NAME_BYTES] = "?";
    struct ec_nearest nearest;

    ec_json_get_text(name, unknown, sizeof unknown);
    ec_nearest_init(&nearest, unknown, strlen(unknown));
    for (uint32_t i = 0; i < type->field_count; i++)
        ec_nearest_offer(&nearest, type->fields[i].name);
    if (nearest.best != NULL)
        return ec_fail(why, EC_ERR_PARAM, "event type %s has no field %s, did you mean %s?",
                       type->name, unknown, nearest.best);
    return ec_fail(why, EC_ERR_PARAM, "event type %s has no field %s", type->name, unknown);
}

int event_payload_encode(const struct event_type *type, struct ec_json_span object, void *payload,
                         uint32_t *bytes, struct ec_error *why)
{
    struct ec_json_iterator members = ec_json_iterate(object);
    struct ec_json_span name, value;

    *bytes = type->field_count != 0 ? type->size : 0;
    memset(payload, 0, *bytes);
    while (ec_json_next_member(&members, &name, &value)) {
        const struct event_field *field = find_field(type, name);
        int rc;

        if (field != NULL) {
            rc = encode_field(field, value, payload, why);
        } else if (type->field_count == 0 && ec_json_string_equals(name, "hex")) {
            rc = encode_hex(type, value, payload, bytes, why);
        } else {
            rc = no_such_field(type, name, why);
        }
        if (rc < 0)
            return rc;
    }
    return EC_OK;
}

/* ---- decode ---------------------------------------------------------------------------------- */

static void decode_scalar(enum scalar scalar, const unsigned char *place, struct ec_json_writer *w)
{
    uint64_t bits = 0;
    float single;
    double real;

    memcpy(&bits, place, scalars[scalar].bytes);
    switch (scalar) {
    case SCALAR_F32:
        memcpy(&single, place, sizeof single);
        ec_json_real(w, (double)single);
        break;
    case SCALAR_F64:
        memcpy(&real, place, sizeof real);
        ec_json_real(w, real);
        break;
    case SCALAR_BOOL:
        ec_json_boolean(w, bits != 0);
        break;
    case SCALAR_I8:
        ec_json_i64(w, (int8_t)bits);
        break;
    case SCALAR_I16:
        ec_json_i64(w, (int16_t)bits);
        break;
    case SCALAR_I32:
        ec_json_i64(w, (int32_t)bits);
        break;
    case SCALAR_I64:
        ec_json_i64(w, (int64_t)bits);
        break;
    default:
        ec_json_u64(w, bits);
    }
}

static void decode_field(const struct event_field *field, const unsigned char *payload,
                         struct ec_json_writer *w)
{
    const unsigned char *place = payload + field->offset;

    ec_json_key(w, field->name);
    if (field->scalar == SCALAR_CHAR) {
        ec_json_string_n(w, (const char *)place, strnlen((const char *)place, field->count));
        return;
    }
    if (field->count == 1) {
        decode_scalar(field->scalar, place, w);
        return;
    }
    ec_json_array_begin(w);
    for (uint32_t i = 0; i < field->count; i++)
        decode_scalar(field->scalar, place + i * scalars[field->scalar].bytes, w);
    ec_json_array_end(w);
}

#define HEX_BYTES_MAX 4096u /* longer ones are cut, and say so */

static void decode_hex(const unsigned char *payload, uint32_t bytes, struct ec_json_writer *w)
{
    static const char digits[] = "0123456789abcdef";
    char text[2 * HEX_BYTES_MAX];
    uint32_t shown = bytes < HEX_BYTES_MAX ? bytes : HEX_BYTES_MAX;

    for (uint32_t i = 0; i < shown; i++) {
        text[2 * i] = digits[payload[i] >> 4];
        text[2 * i + 1] = digits[payload[i] & 15];
    }
    ec_json_member_string_n(w, "hex", text, 2 * (size_t)shown);
    if (shown < bytes)
        ec_json_member_u64(w, "bytes", bytes);
}

void event_payload_decode(const struct event_type *type, const void *payload, uint32_t bytes,
                          struct ec_json_writer *writer)
{
    ec_json_object_begin(writer);
    if (type->field_count == 0)
        decode_hex(payload, bytes, writer);
    for (uint32_t i = 0; i < type->field_count && bytes == type->size; i++)
        decode_field(&type->fields[i], payload, writer);
    ec_json_object_end(writer);
}

void event_fields_write(const struct event_type *type, struct ec_json_writer *writer)
{
    ec_json_member_array(writer, "fields");
    for (uint32_t i = 0; i < type->field_count; i++) {
        const struct event_field *field = &type->fields[i];

        ec_json_object_begin(writer);
        ec_json_member_string(writer, "name", field->name);
        ec_json_member_string(writer, "type", scalars[field->scalar].name);
        ec_json_member_u64(writer, "count", field->count);
        ec_json_member_u64(writer, "offset", field->offset);
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
}
