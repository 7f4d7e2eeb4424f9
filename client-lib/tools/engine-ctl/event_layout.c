/* Layouts of event types; see event_layout.h. */
#include "engine-ctl/event_layout.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "engine-ctl/fault.h"
#include "engine-ctl/json_read.h"

#define ROS_NAME_BYTES (EVENT_FIELD_NAME_BYTES + 8)

static const struct {
    const char *name;
    const char *ros1;
    uint32_t bytes;
} scalars[] = {
    [EC_FIELD_U8] = { "u8", "uint8", 1 },     [EC_FIELD_I8] = { "i8", "int8", 1 },
    [EC_FIELD_U16] = { "u16", "uint16", 2 },  [EC_FIELD_I16] = { "i16", "int16", 2 },
    [EC_FIELD_U32] = { "u32", "uint32", 4 },  [EC_FIELD_I32] = { "i32", "int32", 4 },
    [EC_FIELD_U64] = { "u64", "uint64", 8 },  [EC_FIELD_I64] = { "i64", "int64", 8 },
    [EC_FIELD_F32] = { "f32", "float32", 4 }, [EC_FIELD_F64] = { "f64", "float64", 8 },
    [EC_FIELD_BOOL] = { "bool", "bool", 1 },  [EC_FIELD_CHAR] = { "char", "uint8", 1 },
};

#define SCALARS (sizeof scalars / sizeof scalars[0])

/* ---- JSON ------------------------------------------------------------------------------------ */

/* An unsigned member up to max. */
static bool read_number(const cJSON *object, const char *name, double max, uint32_t *number)
{
    const cJSON *member = json_member(object, name);

    if (!cJSON_IsNumber(member) || !(member->valuedouble >= 0 && member->valuedouble <= max))
        return false;
    *number = (uint32_t)member->valuedouble;
    return true;
}

static bool copy_text(const cJSON *object, const char *name, char *to, size_t bytes)
{
    const char *text = json_text(object, name);

    if (text[0] == '\0' || strlen(text) >= bytes)
        return false;
    strcpy(to, text);
    return true;
}

static bool read_scalar(const cJSON *object, enum ec_field_type *type)
{
    const char *name = json_text(object, "type");

    for (size_t i = EC_FIELD_U8; i < SCALARS; i++) {
        if (strcmp(scalars[i].name, name) == 0) {
            *type = (enum ec_field_type)i;
            return true;
        }
    }
    return false;
}

/* One more field; end is where the one before ends, and then where this one does. */
static int read_field(const cJSON *json, struct event_layout *layout, uint64_t *end,
                      struct ec_error *why)
{
    struct ec_event_field *field = &layout->fields[layout->field_count];
    char *name = layout->field_names[layout->field_count];

    if (!copy_text(json, "name", name, EVENT_FIELD_NAME_BYTES))
        return fault(why, EC_ERR_PARAM, "field %u of %s has no name of 1..%d bytes",
                     layout->field_count, layout->name, EVENT_FIELD_NAME_BYTES - 1);
    field->name = name;
    if (!read_scalar(json, &field->type) ||
        !read_number(json, "count", layout->bytes, &field->count) || field->count == 0 ||
        !read_number(json, "offset", layout->bytes, &field->offset))
        return fault(why, EC_ERR_PARAM, "field %s of %s has no good type, count and offset", name,
                     layout->name);
    if (field->offset < *end ||
        field->offset + (uint64_t)field->count * scalars[field->type].bytes > layout->bytes)
        return fault(why, EC_ERR_PARAM, "field %s of %s lies outside of its place", name,
                     layout->name);
    field->bytes = field->count * scalars[field->type].bytes;
    *end = field->offset + field->bytes;
    layout->field_count++;
    return EC_OK;
}

int event_layout_read(const cJSON *json, struct event_layout *layout, struct ec_error *why)
{
    const cJSON *field;
    uint64_t end = 0;

    *layout = (struct event_layout) { 0 };
    if (!copy_text(json, "name", layout->name, sizeof layout->name))
        return fault(why, EC_ERR_PARAM, "a layout has no name of 1..%d bytes",
                     EVENT_NAME_BYTES - 1);
    if (!read_number(json, "version", UINT32_MAX, &layout->version) ||
        !read_number(json, "size", INT32_MAX, &layout->bytes) || layout->bytes == 0)
        return fault(why, EC_ERR_PARAM, "the layout of %s has no good version and size",
                     layout->name);
    layout->lossy = strcmp(json_text(json, "policy"), "lossy") == 0;
    cJSON_ArrayForEach(field, json_member(json, "fields"))
    {
        int rc = EC_ERR_PARAM;

        if (layout->field_count < EC_EVENT_FIELDS_MAX)
            rc = read_field(field, layout, &end, why);
        else
            fault(why, rc, "the layout of %s has more than %d fields", layout->name,
                  EC_EVENT_FIELDS_MAX);
        if (rc < 0)
            return rc;
    }
    return EC_OK;
}

char *event_layout_json(const struct event_layout *layout)
{
    cJSON *json = cJSON_CreateObject(), *fields;

    cJSON_AddStringToObject(json, "name", layout->name);
    cJSON_AddNumberToObject(json, "version", layout->version);
    cJSON_AddNumberToObject(json, "size", layout->bytes);
    cJSON_AddStringToObject(json, "policy", layout->lossy ? "lossy" : "reliable");
    fields = cJSON_AddArrayToObject(json, "fields");
    for (uint32_t i = 0; i < layout->field_count; i++) {
        cJSON *field = cJSON_CreateObject();

        cJSON_AddStringToObject(field, "name", layout->fields[i].name);
        cJSON_AddStringToObject(field, "type", scalars[layout->fields[i].type].name);
        cJSON_AddNumberToObject(field, "count", layout->fields[i].count);
        cJSON_AddNumberToObject(field, "offset", layout->fields[i].offset);
        cJSON_AddItemToArray(fields, field);
    }
    return json_params(json);
}

/* ---- ROS 1 ----------------------------------------------------------------------------------- */

static void put_string(struct mcap_bytes *text, const char *string)
{
    mcap_put(text, string, strlen(string));
}

/* What ROS 1 takes as a name: letters, digits and underscores, a letter first. */
static void make_ros1_name(const struct event_layout *layout, uint32_t index,
                           char name[ROS_NAME_BYTES])
{
    const char *from = layout->fields[index].name;
    size_t count = 0;

    if (!isalpha((unsigned char)from[0]))
        count = (size_t)snprintf(name, ROS_NAME_BYTES, "f_");
    for (; *from != '\0'; from++)
        name[count++] = isalnum((unsigned char)*from) ? *from : '_';
    name[count] = '\0';
}

/* Names that became the same, or took one of ours, get their index behind them. */
static bool is_ros1_name_taken(const struct event_layout *layout, uint32_t index, const char *name)
{
    char other[ROS_NAME_BYTES];

    if (strncmp(name, "ec_", 3) == 0)
        return true;
    for (uint32_t i = 0; i < index; i++) {
        make_ros1_name(layout, i, other);
        if (strcmp(other, name) == 0)
            return true;
    }
    return false;
}

static void put_gap(struct mcap_bytes *text, uint64_t bytes, uint32_t index)
{
    char line[64];

    if (bytes == 0)
        return;
    snprintf(line, sizeof line, "uint8[%u] ec_gap_%u\n", (unsigned)bytes, index);
    put_string(text, line);
}

static void put_field(const struct event_layout *layout, uint32_t index, struct mcap_bytes *text)
{
    const struct ec_event_field *field = &layout->fields[index];
    char name[ROS_NAME_BYTES], line[ROS_NAME_BYTES + 64], array[16] = "", suffix[16] = "";

    make_ros1_name(layout, index, name);
    if (is_ros1_name_taken(layout, index, name))
        snprintf(suffix, sizeof suffix, "_%u", index);
    if (field->count > 1)
        snprintf(array, sizeof array, "[%u]", field->count);
    snprintf(line, sizeof line, "%s%s %s%s%s\n", scalars[field->type].ros1, array, name, suffix,
             field->type == EC_FIELD_CHAR ? " # text, padded with NUL" : "");
    put_string(text, line);
}

void event_layout_ros1(const struct event_layout *layout, const char *prefix,
                       struct mcap_bytes *text)
{
    uint32_t end = 0;

    put_string(text, prefix);
    if (layout->field_count == 0) {
        put_string(text, "uint8[] data\n");
        return;
    }
    for (uint32_t i = 0; i < layout->field_count; i++) {
        put_gap(text, layout->fields[i].offset - end, i);
        put_field(layout, i, text);
        end = layout->fields[i].offset + layout->fields[i].bytes;
    }
    put_gap(text, layout->bytes - end, layout->field_count);
}

/* ---- the library ----------------------------------------------------------------------------- */

int event_layout_register(const struct event_layout *layout, struct ec_client *client,
                          struct ec_error *why)
{
    struct ec_event_type_desc desc = {
        .name = layout->name,
        .version = layout->version,
        .fields = layout->fields,
        .field_count = layout->field_count,
        .bytes = layout->field_count != 0 ? layout->bytes : 0,
        .max_bytes = layout->field_count != 0 ? 0 : layout->bytes,
        .policy = layout->lossy ? EC_EVENT_LOSSY : EC_EVENT_RELIABLE,
    };

    return ec_event_type_register(client, &desc, NULL, why);
}
