/* Layouts, JSON and payloads of strangers: what is encoded can be decoded again, and whatever bytes a
 * payload has, what is decoded from them is strict JSON.
 *
 * The input: a number of fields, {scalar, count} for each, then the JSON of a payload, or, when that is
 * none, the bytes of one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "events/types.h"

#define BYTES_MAX 65536u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct event_field fields[EVENT_FIELDS_MAX];

static size_t read_fields(const uint8_t *data, size_t bytes, uint32_t *count)
{
    size_t at = 1;

    *count = bytes == 0 ? 0 : data[0] % 9;
    memset(fields, 0, sizeof fields);
    for (uint32_t i = 0; i < *count && at + 2 <= bytes; i++, at += 2) {
        snprintf(fields[i].name, sizeof fields[i].name, "%c", 'a' + (int)i);
        fields[i].scalar = (enum scalar)(data[at] % SCALARS);
        fields[i].count = data[at + 1] < 128 ? 1 : data[at + 1] - 127u;
    }
    return at < bytes ? at : bytes;
}

static void decode(const struct event_type *type, const void *payload, uint32_t bytes,
                   struct ec_json_writer *writer)
{
    ec_json_writer_init_growing(writer, ec_json_grow_heap, NULL, 16u << 20);
    event_payload_decode(type, payload, bytes, writer);
    if (ec_json_writer_status(writer) == EC_OK &&
        ec_json_check(writer->base, writer->bytes, NULL, NULL) != EC_OK)
        abort();
}

/* What was encoded from JSON is decoded to JSON that means the same bytes. */
static void go_round(const struct event_type *type, struct ec_json_span json)
{
    unsigned char *payload = malloc(type->size), *again = malloc(type->size);
    struct ec_json_writer first, second;
    struct ec_error why = { 0 };
    uint32_t bytes, bytes_again;

    if (event_payload_encode(type, json, payload, &bytes, &why) == EC_OK) {
        decode(type, payload, bytes, &first);
        if (event_payload_encode(type,
                                 (struct ec_json_span) { .text = first.base, .bytes = first.bytes },
                                 again, &bytes_again, &why) != EC_OK ||
            bytes_again != bytes)
            abort();
        decode(type, again, bytes, &second);
        if (first.bytes != second.bytes || memcmp(first.base, second.base, first.bytes) != 0)
            abort();
        free(first.base);
        free(second.base);
    } else if (why.text[0] == '\0') {
        abort(); /* a refusal names the field */
    }
    free(payload);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct event_types types = { 0 };
    struct event_type_desc desc = {
        .name = "test.fuzz", .registered_by = "fuzzer", .version = 1, .fields = fields
    };
    struct event_type *type;
    struct ec_json_writer text;
    struct ec_error why = { 0 };
    bool created;
    size_t at = read_fields(data, bytes, &desc.field_count);

    if (desc.field_count == 0)
        desc.max_size = 1024; /* read and written as hexadecimal digits */
    if (event_types_register(&types, &desc, &type, &created, NULL, &why) == EC_OK &&
        type->size <= BYTES_MAX) {
        const char *json = (const char *)data + at;
        size_t json_bytes = bytes - at;

        if (json_bytes >= 2 && json[0] == '{' && json[json_bytes - 1] == '}' &&
            ec_json_check(json, json_bytes, NULL, NULL) == EC_OK) {
            go_round(type, (struct ec_json_span) { .text = json, .bytes = json_bytes });
        } else if (json_bytes <= type->size) {
            unsigned char *payload = malloc(json_bytes + 1);

            memcpy(payload, json, json_bytes);
            decode(type, payload, (uint32_t)json_bytes, &text);
            free(text.base);
            free(payload);
        }
    }
    event_types_finish(&types);
    return 0;
}
