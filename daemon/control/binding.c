#include "control/binding.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/tables/nearest.h"

/* struct params_<id> is read as an array of struct param: that is all it consists of. */
#define COMMAND(id, method, role, flags, help)                                                     \
    _Static_assert(sizeof(struct params_##id) % sizeof(struct param) == 0, "an array of params");
#define PARAM(name, type, need, min, max, help)
#define RESULT(name, type, help)
#define COMMAND_END(id)
#include "proto/tables/commands.def"
#undef COMMAND
#undef PARAM
#undef RESULT
#undef COMMAND_END

static int convert(const struct ec_param_row *row, struct ec_json_span value,
                   struct request_memory *memory, struct param *param, struct ec_error *why);
static int convert_any(struct ec_json_span value, struct request_memory *memory,
                       struct param *param, struct ec_error *why);
static int take_text(struct ec_json_span value, struct request_memory *memory, struct param *param,
                     struct ec_error *why);
static int check_bounds(const struct ec_param_row *row, const struct param *param,
                        struct ec_error *why);
static int wrong_type(const struct ec_param_row *row, struct ec_json_span value,
                      struct ec_error *why);
static int fail_param(const char *name, struct ec_json_writer *data, struct ec_error *why);
static int fail_unknown(const struct ec_command_row *row, struct ec_json_span name,
                        struct request_memory *memory, struct ec_json_writer *data,
                        struct ec_error *why);

int binding_bind(const struct methods *methods, int command, struct ec_json_span object,
                 struct request_memory *memory, struct param params[METHOD_PARAMS_MAX + 1],
                 struct ec_json_writer *data, struct ec_error *why)
{
    const struct ec_command_row *row = &ec_commands[command];
    struct ec_json_span values[METHOD_PARAMS_MAX];
    struct ec_json_fields fields = { .names = methods->params[command],
                                     .values = values,
                                     .count = row->param_count };
    int rc;

    memset(params, 0, (row->param_count + 1) * sizeof *params);
    if (object.text == NULL)
        ec_json_fields_clear(&fields);
    else if (ec_json_bind(object, &fields) < 0)
        return ec_fail(why, EC_ERR_PARAM, "%s takes its parameters by name", row->method);
    if (fields.unknown.text != NULL)
        return fail_unknown(row, fields.unknown, memory, data, why);
    for (size_t i = 0; i < row->param_count; i++) {
        const struct ec_param_row *param = &row->params[i];
        struct ec_json_span value = values[i];

        if (value.text == NULL && ec_param_required(param)) {
            ec_fail(why, EC_ERR_PARAM, "is missing");
            return fail_param(param->name, data, why);
        }
        if (value.text == NULL) {
            const char *fallback = ec_param_fallback(param);

            if (fallback == NULL)
                continue;
            value = (struct ec_json_span) { fallback, strlen(fallback) };
        }
        params[i + 1].present = true;
        params[i + 1].span = value;
        rc = convert(param, value, memory, &params[i + 1], why);
        if (rc == EC_ERR_PARAM)
            return fail_param(param->name, data, why);
        if (rc < 0)
            return rc;
    }
    return EC_OK;
}

static int convert(const struct ec_param_row *row, struct ec_json_span value,
                   struct request_memory *memory, struct param *param, struct ec_error *why)
{
    const enum ec_json_type type = ec_json_type_of(value);
    int rc = EC_OK;

    switch (row->type) {
    case EC_PARAM_INTEGER:
        if (ec_json_get_i64(value, &param->integer) < 0)
            return wrong_type(row, value, why);
        param->number = (double)param->integer;
        return check_bounds(row, param, why);
    case EC_PARAM_NUMBER:
        if (ec_json_get_double(value, &param->number) < 0)
            return wrong_type(row, value, why);
        return check_bounds(row, param, why);
    case EC_PARAM_BOOLEAN:
        return ec_json_get_boolean(value, &param->boolean) < 0 ? wrong_type(row, value, why)
                                                               : EC_OK;
    case EC_PARAM_STRING:
        if (type != EC_JSON_STRING)
            return wrong_type(row, value, why);
        rc = take_text(value, memory, param, why);
        return rc == EC_OK ? check_bounds(row, param, why) : rc;
    case EC_PARAM_ID:
        return ec_json_get_hex64(value, &param->id) < 0 ? wrong_type(row, value, why) : EC_OK;
    case EC_PARAM_ARRAY:
        return type != EC_JSON_ARRAY ? wrong_type(row, value, why) : EC_OK;
    case EC_PARAM_OBJECT:
        return type != EC_JSON_OBJECT ? wrong_type(row, value, why) : EC_OK;
    case EC_PARAM_SCALAR:
        if (type == EC_JSON_ARRAY || type == EC_JSON_OBJECT)
            return wrong_type(row, value, why);
        return convert_any(value, memory, param, why);
    case EC_PARAM_ANY:
        return convert_any(value, memory, param, why);
    case EC_PARAM_INTEGER_OR_NULL: /* of results only */
    case EC_PARAM_STRING_OR_NULL:
        break;
    }
    return ec_fail(why, EC_ERR_INTERNAL, "parameter type %d", (int)row->type);
}

/* Whatever it is, its members that make sense are set. */
static int convert_any(struct ec_json_span value, struct request_memory *memory,
                       struct param *param, struct ec_error *why)
{
    switch (ec_json_type_of(value)) {
    case EC_JSON_NUMBER:
        ec_json_get_i64(value, &param->integer);
        ec_json_get_double(value, &param->number);
        return EC_OK;
    case EC_JSON_BOOLEAN:
        return ec_json_get_boolean(value, &param->boolean);
    case EC_JSON_STRING:
        ec_json_get_hex64(value, &param->id);
        return take_text(value, memory, param, why);
    case EC_JSON_NONE:
    case EC_JSON_NULL:
    case EC_JSON_ARRAY:
    case EC_JSON_OBJECT:
        break;
    }
    return EC_OK;
}

static int take_text(struct ec_json_span value, struct request_memory *memory, struct param *param,
                     struct ec_error *why)
{
    char *text = request_memory_alloc(memory, value.bytes);

    if (text == NULL)
        return ec_fail(why, EC_ERR_MEMORY,
                       "the parameters need more than the %d bytes of a request",
                       REQUEST_MEMORY_BYTES);
    if (ec_json_get_text(value, text, value.bytes) < 0)
        return ec_fail(why, EC_ERR_PARAM, "must not contain \\u0000");
    param->string = text;
    return EC_OK;
}

/* min and max bound an integer or number, and the bytes of a string; max 0: no upper bound. */
static int check_bounds(const struct ec_param_row *row, const struct param *param,
                        struct ec_error *why)
{
    const bool is_text = row->type == EC_PARAM_STRING;
    const int64_t value = is_text ? (int64_t)strlen(param->string) : param->integer;
    const bool is_number = row->type == EC_PARAM_NUMBER;
    const bool is_low = is_number ? param->number < (double)row->min : value < row->min;
    const bool is_high =
        row->max != 0 && (is_number ? param->number > (double)row->max : value > row->max);
    char came[40];

    if ((row->min == 0 && row->max == 0) || (!is_low && !is_high))
        return EC_OK;
    if (is_number)
        snprintf(came, sizeof came, "%g", param->number);
    else
        snprintf(came, sizeof came, "%" PRId64, value);
    if (row->max == 0)
        return ec_fail(why, EC_ERR_PARAM, "%s%s, allowed is at least %" PRId64,
                       is_text ? "bytes: " : "is ", came, row->min);
    return ec_fail(why, EC_ERR_PARAM, "%s%s, allowed is %" PRId64 " to %" PRId64,
                   is_text ? "bytes: " : "is ", came, row->min, row->max);
}

static int wrong_type(const struct ec_param_row *row, struct ec_json_span value,
                      struct ec_error *why)
{
    static const char *const expected[] = {
        [EC_PARAM_INTEGER] = "an integer of 64 bits",
        [EC_PARAM_NUMBER] = "a number",
        [EC_PARAM_BOOLEAN] = "true or false",
        [EC_PARAM_STRING] = "a string",
        [EC_PARAM_ID] = "an id, \"0x\" and up to 16 hexadecimal digits",
        [EC_PARAM_ARRAY] = "an array",
        [EC_PARAM_OBJECT] = "an object",
        [EC_PARAM_SCALAR] = "a number, string, boolean or null",
        [EC_PARAM_ANY] = "a value",
    };

    if (ec_json_type_of(value) == EC_JSON_NUMBER)
        return ec_fail(why, EC_ERR_PARAM, "is %.*s, expected %s",
                       (int)(value.bytes < 40 ? value.bytes : 40), value.text, expected[row->type]);
    return ec_fail(why, EC_ERR_PARAM, "is %s, expected %s",
                   ec_json_type_text(ec_json_type_of(value)), expected[row->type]);
}

/* why has the reason so far. */
static int fail_param(const char *name, struct ec_json_writer *data, struct ec_error *why)
{
    ec_json_object_begin(data);
    ec_json_member_string(data, "param", name);
    ec_json_member_string(data, "reason", why->text);
    ec_json_object_end(data);
    return ec_error_prefix(why, EC_ERR_PARAM, "parameter %.60s", name);
}

static int fail_unknown(const struct ec_command_row *row, struct ec_json_span name,
                        struct request_memory *memory, struct ec_json_writer *data,
                        struct ec_error *why)
{
    char *text = request_memory_alloc(memory, name.bytes);
    struct ec_nearest nearest;

    if (text == NULL || ec_json_get_text(name, text, name.bytes) < 0)
        return ec_fail(why, EC_ERR_PARAM, "%s has no parameter of that name", row->method);
    ec_nearest_init(&nearest, text, strlen(text));
    for (size_t i = 0; i < row->param_count; i++)
        ec_nearest_offer(&nearest, row->params[i].name);
    if (nearest.best != NULL)
        ec_fail(why, EC_ERR_PARAM, "%s does not take it, did you mean %s?", row->method,
                nearest.best);
    else
        ec_fail(why, EC_ERR_PARAM, "%s does not take it", row->method);
    return fail_param(text, data, why);
}

void binding_say_param(int command, const char *text, struct ec_json_writer *data)
{
    const struct ec_command_row *row = &ec_commands[command];
    const size_t bytes = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");

    ec_json_object_begin(data);
    for (size_t i = 0; i < row->param_count; i++)
        if (strlen(row->params[i].name) == bytes && memcmp(row->params[i].name, text, bytes) == 0)
            ec_json_member_string(data, "param", row->params[i].name);
    ec_json_member_string(data, "reason", text);
    ec_json_object_end(data);
}
