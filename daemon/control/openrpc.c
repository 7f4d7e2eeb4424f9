/* OpenRPC 1.2.6: https://spec.open-rpc.org. Types of the table become JSON schemas; the role that a
 * method needs is the extension x-role, and x-descriptors says that some come with the line. */
#include "control/openrpc.h"

#include "foundation/error.h"
#include "proto/tables.h"

static void write_method(struct ec_json_writer *w, const struct ec_command_row *row);
static void write_param(struct ec_json_writer *w, const struct ec_param_row *row);
static void write_result(struct ec_json_writer *w, const struct ec_command_row *row);
static void write_errors(struct ec_json_writer *w, const struct ec_command_row *row);
static void write_error(struct ec_json_writer *w, int code);
static void write_type(struct ec_json_writer *w, enum ec_param_type type);
static void write_bounds(struct ec_json_writer *w, const struct ec_param_row *row);

void openrpc_write(struct ec_json_writer *w)
{
    ec_json_object_begin(w);
    ec_json_member_string(w, "openrpc", "1.2.6");
    ec_json_member_object(w, "info");
    ec_json_member_string(w, "title", "engine-core");
    ec_json_member_string(w, "version", EC_VERSION);
    ec_json_object_end(w);
    ec_json_member_array(w, "methods");
    for (size_t i = 0; i < EC_COMMANDS; i++)
        write_method(w, &ec_commands[i]);
    ec_json_array_end(w);
    ec_json_object_end(w);
}

static void write_method(struct ec_json_writer *w, const struct ec_command_row *row)
{
    ec_json_object_begin(w);
    ec_json_member_string(w, "name", row->method);
    ec_json_member_string(w, "summary", row->help);
    /* core.ping echoes whatever comes, an array, too. */
    ec_json_member_string(w, "paramStructure",
                          row == &ec_commands[EC_COMMAND_core_ping] ? "either" : "by-name");
    ec_json_member_array(w, "params");
    for (size_t i = 0; i < row->param_count; i++)
        write_param(w, &row->params[i]);
    ec_json_array_end(w);
    write_result(w, row);
    write_errors(w, row);
    ec_json_member_string(w, "x-role", ec_role_name(row->role));
    if (row->takes_fds)
        ec_json_member_boolean(w, "x-descriptors", true);
    ec_json_object_end(w);
}

static void write_param(struct ec_json_writer *w, const struct ec_param_row *row)
{
    ec_json_object_begin(w);
    ec_json_member_string(w, "name", row->name);
    ec_json_member_string(w, "description", row->help);
    ec_json_member_boolean(w, "required", ec_param_required(row));
    ec_json_member_object(w, "schema");
    write_type(w, row->type);
    write_bounds(w, row);
    if (ec_param_fallback(row) != NULL) {
        const char *fallback = ec_param_fallback(row);

        ec_json_member_raw(w, "default", (struct ec_json_span) { fallback, strlen(fallback) });
    }
    ec_json_object_end(w);
    ec_json_object_end(w);
}

static void write_result(struct ec_json_writer *w, const struct ec_command_row *row)
{
    ec_json_member_object(w, "result");
    ec_json_member_string(w, "name", "result");
    ec_json_member_object(w, "schema");
    ec_json_member_string(w, "type", "object");
    ec_json_member_object(w, "properties");
    for (size_t i = 0; i < row->result_count; i++) {
        ec_json_member_object(w, row->results[i].name);
        write_type(w, row->results[i].type);
        ec_json_member_string(w, "description", row->results[i].help);
        ec_json_object_end(w);
    }
    ec_json_object_end(w);
    ec_json_object_end(w);
    ec_json_object_end(w);
}

/* Those that the control plane itself answers with; a handler may have more of the error table. */
static void write_errors(struct ec_json_writer *w, const struct ec_command_row *row)
{
    ec_json_member_array(w, "errors");
    if (row->param_count > 0)
        write_error(w, EC_ERR_PARAM);
    if (row->role > EC_ROLE_OBSERVER)
        write_error(w, EC_ERR_PERMISSION);
    ec_json_array_end(w);
}

static void write_error(struct ec_json_writer *w, int code)
{
    ec_json_object_begin(w);
    ec_json_member_i64(w, "code", code);
    ec_json_member_string(w, "message", ec_error_text(code));
    ec_json_object_end(w);
}

static void write_type(struct ec_json_writer *w, enum ec_param_type type)
{
    static const char *const names[][5] = {
        [EC_PARAM_INTEGER] = { "integer" },
        [EC_PARAM_NUMBER] = { "number" },
        [EC_PARAM_BOOLEAN] = { "boolean" },
        [EC_PARAM_STRING] = { "string" },
        [EC_PARAM_ID] = { "string" },
        [EC_PARAM_ARRAY] = { "array" },
        [EC_PARAM_OBJECT] = { "object" },
        [EC_PARAM_SCALAR] = { "string", "number", "boolean", "null" },
        [EC_PARAM_ANY] = { NULL },
        [EC_PARAM_INTEGER_OR_NULL] = { "integer", "null" },
        [EC_PARAM_STRING_OR_NULL] = { "string", "null" },
    };

    if (names[type][0] == NULL)
        return;
    if (names[type][1] != NULL) {
        ec_json_member_array(w, "type");
        for (size_t i = 0; names[type][i] != NULL; i++)
            ec_json_string(w, names[type][i]);
        ec_json_array_end(w);
        return;
    }
    ec_json_member_string(w, "type", names[type][0]);
    if (type == EC_PARAM_ID)
        ec_json_member_string(w, "pattern", "^0x[0-9a-fA-F]{1,16}$");
}

/* Strings are bounded in bytes, and a character has at least one. */
static void write_bounds(struct ec_json_writer *w, const struct ec_param_row *row)
{
    const bool is_text = row->type == EC_PARAM_STRING;

    if (row->min == 0 && row->max == 0)
        return;
    if (!is_text && row->type != EC_PARAM_INTEGER && row->type != EC_PARAM_NUMBER)
        return;
    if (is_text ? row->min > 0 : true)
        ec_json_member_i64(w, is_text ? "minLength" : "minimum", is_text ? 1 : row->min);
    if (row->max != 0)
        ec_json_member_i64(w, is_text ? "maxLength" : "maximum", row->max);
}
