/* event_type.c - register event types; see engine-core/event.h. */
#include <engine-core/event.h>

#include <stdlib.h>
#include <string.h>

#include "client/event_peers.h"
#include "foundation/json/json_writer.h"

#define NAME_BYTES_MAX 127
#define REQUEST_BYTES (32 * 1024) /* 64 fields with their names */

static const struct {
    const char *name;
    uint32_t bytes;
} field_types[] = {
    [EC_FIELD_U8] = { "u8", 1 },   [EC_FIELD_I8] = { "i8", 1 },     [EC_FIELD_U16] = { "u16", 2 },
    [EC_FIELD_I16] = { "i16", 2 }, [EC_FIELD_U32] = { "u32", 4 },   [EC_FIELD_I32] = { "i32", 4 },
    [EC_FIELD_U64] = { "u64", 8 }, [EC_FIELD_I64] = { "i64", 8 },   [EC_FIELD_F32] = { "f32", 4 },
    [EC_FIELD_F64] = { "f64", 8 }, [EC_FIELD_BOOL] = { "bool", 1 }, [EC_FIELD_CHAR] = { "char", 1 },
};

static bool is_field_type(enum ec_field_type type)
{
    return type >= EC_FIELD_U8 && type <= EC_FIELD_CHAR;
}

/* Check one field and say how many values it has. */
static int check_field(const struct ec_event_type_desc *desc, uint32_t index, uint32_t *count,
                       struct ec_error *why)
{
    const struct ec_event_field *field = &desc->fields[index];
    uint32_t bytes;

    if (field->name == NULL || field->name[0] == '\0' || strlen(field->name) > NAME_BYTES_MAX)
        return ec_fail(why, EC_ERR_PARAM, "field %u has no name of 1..%d bytes", index,
                       NAME_BYTES_MAX);
    if (!is_field_type(field->type))
        return ec_fail(why, EC_ERR_PARAM, "field %s: type %d does not exist", field->name,
                       (int)field->type);
    bytes = field_types[field->type].bytes;
    *count = field->count != 0 ? field->count : field->bytes / bytes;
    if (*count == 0 || (uint64_t)*count * bytes != field->bytes)
        return ec_fail(why, EC_ERR_PARAM, "field %s: %u bytes are not %u values of %s", field->name,
                       field->bytes, *count, field_types[field->type].name);
    if ((uint64_t)field->offset + field->bytes > desc->bytes)
        return ec_fail(why, EC_ERR_PARAM, "field %s ends at byte %llu of %u", field->name,
                       (unsigned long long)field->offset + field->bytes, desc->bytes);
    return EC_OK;
}

static int write_fields(struct ec_json_writer *w, const struct ec_event_type_desc *desc,
                        struct ec_error *why)
{
    ec_json_member_array(w, "fields");
    for (uint32_t i = 0; i < desc->field_count; i++) {
        uint32_t count = 0;
        int rc = check_field(desc, i, &count, why);

        if (rc < 0)
            return rc;
        ec_json_object_begin(w);
        ec_json_member_string(w, "name", desc->fields[i].name);
        ec_json_member_string(w, "type", field_types[desc->fields[i].type].name);
        ec_json_member_u64(w, "count", count);
        ec_json_object_end(w);
    }
    ec_json_array_end(w);
    return EC_OK;
}

static int write_request(struct ec_json_writer *w, const struct ec_event_type_desc *desc,
                         struct ec_error *why)
{
    int rc = EC_OK;

    ec_json_object_begin(w);
    ec_json_member_string(w, "name", desc->name);
    ec_json_member_u64(w, "version", desc->version != 0 ? desc->version : 1);
    ec_json_member_string(w, "policy", desc->policy == EC_EVENT_LOSSY ? "lossy" : "reliable");
    if (desc->field_count != 0)
        rc = write_fields(w, desc, why);
    else
        ec_json_member_u64(w, "max_size", desc->max_bytes);
    if (rc < 0)
        return rc;
    ec_json_object_end(w);
    ec_json_line_end(w);
    rc = ec_json_writer_status(w);
    return rc < 0 ? ec_fail(why, rc, "the layout takes more than %d bytes of JSON", REQUEST_BYTES)
                  : EC_OK;
}

/* The daemon lays the fields out by the rules of C; the struct must agree, or data would be misread. */
static int compare_layout(const struct ec_event_type_desc *desc, struct ec_json_span result,
                          struct ec_error *why)
{
    static const char *const names[] = { "size", "fields" };
    struct ec_json_span values[2] = { { 0 } }, field;
    struct ec_json_fields members = { .names = names, .values = values, .count = 2 };
    struct ec_json_iterator fields;
    uint64_t size, offset;
    uint32_t index = 0;

    if (ec_json_bind(result, &members) != EC_OK || ec_json_get_u64(values[0], &size) != EC_OK)
        return ec_fail(why, EC_ERR_INTERNAL, "the daemon's answer has no size");
    if (desc->field_count == 0)
        return EC_OK;
    fields = ec_json_iterate(values[1]);
    while (index < desc->field_count && ec_json_next_element(&fields, &field)) {
        if (!ec_event_member(field, "offset", UINT32_MAX, &offset) ||
            offset != desc->fields[index].offset)
            return ec_fail(why, EC_ERR_TYPE_CONFLICT,
                           "field %s lies at byte %u of the struct, the layout puts it elsewhere: "
                           "list all fields in their order, without packing",
                           desc->fields[index].name, desc->fields[index].offset);
        index++;
    }
    if (size != desc->bytes)
        return ec_fail(why, EC_ERR_TYPE_CONFLICT,
                       "the struct has %u bytes, the fields make %llu: list all of them",
                       desc->bytes, (unsigned long long)size);
    return EC_OK;
}

static int remember(struct ec_event_peers *peers, const struct ec_event_type_desc *desc,
                    const char *request, struct ec_error *why)
{
    const uint64_t type = ec_event_type(desc->name);
    struct ec_known_type row = {
        .type = type,
        .exact = desc->field_count != 0,
        .bytes = desc->field_count != 0 ? desc->bytes : desc->max_bytes,
        .request = strdup(request),
    };
    int rc = EC_OK;
    unsigned i = 0;

    if (row.request == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "no memory for the request");
    pthread_mutex_lock(&peers->mutex);
    while (i < peers->type_count && peers->types[i].type != type)
        i++;
    if (i == EC_CLIENT_TYPES_MAX)
        rc = ec_fail(why, EC_ERR_LIMIT, "a client registers at most %d types", EC_CLIENT_TYPES_MAX);
    if (rc == EC_OK) {
        if (i == peers->type_count)
            peers->type_count++;
        else
            free(peers->types[i].request);
        peers->types[i] = row;
    }
    pthread_mutex_unlock(&peers->mutex);
    if (rc < 0)
        free(row.request);
    return rc;
}

int ec_event_type_register(struct ec_client *client, const struct ec_event_type_desc *desc,
                           uint64_t *type, struct ec_error *why)
{
    struct ec_call call = { .method = "event.register" };
    struct ec_json_writer writer;
    uint64_t generation;
    char *request;
    int rc;

    if (desc->name == NULL || desc->name[0] == '\0' || strlen(desc->name) > NAME_BYTES_MAX)
        return ec_fail(why, EC_ERR_PARAM, "the type's name is not 1..%d bytes long",
                       NAME_BYTES_MAX);
    if (desc->field_count > EC_EVENT_FIELDS_MAX)
        return ec_fail(why, EC_ERR_PARAM, "type %s has %u fields, at most %d are possible",
                       desc->name, desc->field_count, EC_EVENT_FIELDS_MAX);
    if (desc->field_count == 0 && desc->max_bytes == 0)
        return ec_fail(why, EC_ERR_PARAM, "type %s has neither fields nor max_bytes", desc->name);
    request = malloc(REQUEST_BYTES + 1);
    if (request == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "%d bytes for the request", REQUEST_BYTES);
    ec_json_writer_init(&writer, request, REQUEST_BYTES);
    rc = write_request(&writer, desc, why);
    if (rc == EC_OK)
        request[writer.bytes - 1] = '\0'; /* instead of the line end */
    call.params = request;
    do { /* a daemon that came meanwhile does not know it yet */
        generation = ec_connection_generation(client->connection);
        if (rc == EC_OK)
            rc = ec_connection_call(client->connection, &call, why);
        if (rc == EC_OK)
            rc = compare_layout(desc, call.result, why);
        ec_call_finish(&call);
        if (rc == EC_OK)
            rc = remember(client->event_peers, desc, request, why);
    } while (rc == EC_OK && generation != ec_connection_generation(client->connection));
    free(request);
    if (rc == EC_OK && type != NULL)
        *type = ec_event_type(desc->name);
    return rc < 0 ? ec_error_prefix(why, rc, "register event type %s", desc->name) : rc;
}
