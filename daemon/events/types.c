/* types.c - register event types and compare layouts; see types.h. */
#include "events/types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct scalar_row scalars[SCALARS] = {
    [SCALAR_U8] = { "u8", 1, 0, UINT8_MAX },    [SCALAR_I8] = { "i8", 1, INT8_MIN, INT8_MAX },
    [SCALAR_U16] = { "u16", 2, 0, UINT16_MAX }, [SCALAR_I16] = { "i16", 2, INT16_MIN, INT16_MAX },
    [SCALAR_U32] = { "u32", 4, 0, UINT32_MAX }, [SCALAR_I32] = { "i32", 4, INT32_MIN, INT32_MAX },
    [SCALAR_U64] = { "u64", 8, 0, UINT64_MAX }, [SCALAR_I64] = { "i64", 8, INT64_MIN, INT64_MAX },
    [SCALAR_F32] = { "f32", 4, 0, 0 },          [SCALAR_F64] = { "f64", 8, 0, 0 },
    [SCALAR_BOOL] = { "bool", 1, 0, 1 },        [SCALAR_CHAR] = { "char", 1, 0, 0 },
};

bool event_scalar_parse(const char *name, enum scalar *scalar)
{
    for (int i = 0; i < SCALARS; i++) {
        if (strcmp(scalars[i].name, name) == 0) {
            *scalar = (enum scalar)i;
            return true;
        }
    }
    return false;
}

struct event_type *event_types_find(const struct event_types *types, uint64_t id)
{
    struct event_type *type;

    HASH_FIND(hh, types->by_id, &id, sizeof id, type);
    return type;
}

struct event_type *event_types_find_name(const struct event_types *types, const char *name)
{
    struct event_type *type = event_types_find(types, ec_event_type_id(name));

    return type != NULL && strcmp(type->name, name) == 0 ? type : NULL;
}

/* Names go into messages and logs of others: printable, no spaces. */
static int check_name(const char *what, const char *name, size_t bytes_max, struct ec_error *why)
{
    size_t bytes = strlen(name);

    if (bytes == 0 || bytes >= bytes_max)
        return ec_fail(why, EC_ERR_PARAM, "%s is %zu bytes long, expected 1..%zu", what, bytes,
                       bytes_max - 1);
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)name[i] <= ' ' || name[i] == 0x7f)
            return ec_fail(why, EC_ERR_PARAM, "%s has a space or control character at byte %zu",
                           what, i);
    return EC_OK;
}

static bool is_name_taken(const struct event_type_desc *desc, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++)
        if (strcmp(desc->fields[i].name, desc->fields[index].name) == 0)
            return true;
    return false;
}

/* Fill in the offsets by the rules of C. */
static int lay_out(const struct event_type_desc *desc, uint32_t *size, struct ec_error *why)
{
    uint64_t end = 0;
    uint32_t widest = 1;

    if (desc->field_count > EVENT_FIELDS_MAX)
        return ec_fail(why, EC_ERR_LIMIT, "%u fields, at most %d are possible", desc->field_count,
                       EVENT_FIELDS_MAX);
    for (uint32_t i = 0; i < desc->field_count; i++) {
        struct event_field *field = &desc->fields[i];
        uint32_t align = scalars[field->scalar].bytes;
        int rc = check_name("the name of a field", field->name, EVENT_FIELD_NAME_BYTES, why);

        if (rc < 0)
            return rc;
        if (is_name_taken(desc, i))
            return ec_fail(why, EC_ERR_PARAM, "field %s appears twice", field->name);
        if (field->count == 0 || field->count > EVENT_PAYLOAD_MAX)
            return ec_fail(why, EC_ERR_PARAM, "field %s: count is %u, expected 1..%u", field->name,
                           field->count, EVENT_PAYLOAD_MAX);
        end = (end + align - 1) / align * align;
        field->offset = (uint32_t)end;
        end += (uint64_t)align * field->count;
        if (end > EVENT_PAYLOAD_MAX)
            return ec_fail(why, EC_ERR_SIZE, "field %s ends at byte %llu, at most %u are possible",
                           field->name, (unsigned long long)end, EVENT_PAYLOAD_MAX);
        if (align > widest)
            widest = align;
    }
    *size = (uint32_t)((end + widest - 1) / widest * widest);
    return EC_OK;
}

static void write_conflict(struct ec_json_writer *data, const struct event_type *known,
                           const char *field, const char *expected, const char *got)
{
    if (data == NULL)
        return;
    ec_json_object_begin(data);
    ec_json_member_string(data, "registered_by", known->registered_by);
    ec_json_member_string(data, "field", field);
    ec_json_member_string(data, "expected", expected);
    ec_json_member_string(data, "got", got);
    ec_json_object_end(data);
}

static int conflict(const struct event_type *known, const struct event_type_desc *desc,
                    const char *field, const char *expected, const char *got,
                    struct ec_json_writer *data, struct ec_error *why)
{
    write_conflict(data, known, field, expected, got);
    return ec_fail(why, EC_ERR_TYPE_CONFLICT, "%s: %s is %s as registered by %s, but %s by %s",
                   known->name, field, expected, known->registered_by, got, desc->registered_by);
}

static void describe_field(const struct event_field *field, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s %s[%u]", field->name, scalars[field->scalar].name, field->count);
}

/* The first difference decides, in the order: version, policy, fields, size. */
static int compare(const struct event_type *known, const struct event_type_desc *desc,
                   uint32_t size, struct ec_json_writer *data, struct ec_error *why)
{
    char expected[160], got[160];

    for (uint32_t i = 0; i < known->field_count || i < desc->field_count; i++) {
        snprintf(expected, sizeof expected, "absent");
        snprintf(got, sizeof got, "absent");
        if (i < known->field_count)
            describe_field(&known->fields[i], expected, sizeof expected);
        if (i < desc->field_count)
            describe_field(&desc->fields[i], got, sizeof got);
        if (strcmp(expected, got) != 0)
            return conflict(known, desc,
                            i < known->field_count ? known->fields[i].name : desc->fields[i].name,
                            expected, got, data, why);
    }
    if (known->version != desc->version || known->size != size || known->lossy != desc->lossy) {
        bool version = known->version != desc->version, bytes = known->size != size;

        snprintf(expected, sizeof expected, "%u", version ? known->version : known->size);
        snprintf(got, sizeof got, "%u", version ? desc->version : size);
        if (!version && !bytes) {
            snprintf(expected, sizeof expected, "%s", known->lossy ? "lossy" : "reliable");
            snprintf(got, sizeof got, "%s", desc->lossy ? "lossy" : "reliable");
        }
        return conflict(known, desc,
                        version ? "version"
                        : bytes ? "max_size"
                                : "policy",
                        expected, got, data, why);
    }
    return EC_OK;
}

static struct event_type *create(const struct event_type_desc *desc, uint64_t id, uint32_t size)
{
    struct event_type *type = calloc(1, sizeof *type);

    if (type == NULL)
        return NULL;
    if (desc->field_count != 0) {
        type->fields = calloc(desc->field_count, sizeof *type->fields);
        if (type->fields == NULL) {
            free(type);
            return NULL;
        }
        memcpy(type->fields, desc->fields, desc->field_count * sizeof *type->fields);
    }
    type->id = id;
    type->version = desc->version;
    type->size = size;
    type->lossy = desc->lossy;
    type->field_count = desc->field_count;
    snprintf(type->name, sizeof type->name, "%s", desc->name);
    snprintf(type->registered_by, sizeof type->registered_by, "%s", desc->registered_by);
    return type;
}

int event_types_register(struct event_types *types, const struct event_type_desc *desc,
                         struct event_type **type, bool *created, struct ec_json_writer *data,
                         struct ec_error *why)
{
    uint64_t id = ec_event_type_id(desc->name);
    uint32_t size = desc->max_size;
    struct event_type *known;
    int rc = check_name("the name", desc->name, EVENT_NAME_BYTES, why);

    if (created != NULL)
        *created = false;
    if (rc == EC_OK && desc->field_count != 0)
        rc = lay_out(desc, &size, why);
    if (rc < 0)
        return ec_error_prefix(why, rc, "event type %s", desc->name);
    if (size == 0 || size > EVENT_PAYLOAD_MAX)
        return ec_fail(why, EC_ERR_PARAM, "event type %s: max_size is %u, expected 1..%u",
                       desc->name, size, EVENT_PAYLOAD_MAX);
    known = event_types_find(types, id);
    if (known != NULL && strcmp(known->name, desc->name) != 0) {
        write_conflict(data, known, "name", known->name, desc->name);
        return ec_fail(why, EC_ERR_TYPE_CONFLICT,
                       "%s and %s, registered by %s, have the same id: choose another name",
                       desc->name, known->name, known->registered_by);
    }
    if (known != NULL) {
        if (type != NULL)
            *type = known;
        return compare(known, desc, size, data, why);
    }
    if (id == 0)
        return ec_fail(why, EC_ERR_PARAM, "%s has the id 0: choose another name", desc->name);
    if (HASH_COUNT(types->by_id) >= EVENT_TYPES_MAX)
        return ec_fail(why, EC_ERR_LIMIT, "%d event types are registered, no more are possible",
                       EVENT_TYPES_MAX);
    if (type == NULL)
        return EC_OK;
    known = create(desc, id, size);
    if (known == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for event type %s", desc->name);
    HASH_ADD(hh, types->by_id, id, sizeof known->id, known);
    *type = known;
    *created = true;
    return EC_OK;
}

void event_types_finish(struct event_types *types)
{
    struct event_type *type, *next;

    HASH_ITER(hh, types->by_id, type, next)
    {
        HASH_DEL(types->by_id, type);
        free(type->fields);
        free(type);
    }
}
