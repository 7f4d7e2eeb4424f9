/* tables.c - turns the rows of tables/ into arrays.
 *
 * Each file is included once per array that is made of it. The arrays of parameters, results and
 * fields end with an empty row, so that a command without any is legal C too. */
#include "proto/tables.h"

#include <string.h>

#include "proto/directory.h"

#define REQUIRED "!"
#define OPTIONAL ""
#define NONE false
#define FDS true
#define OBSERVER EC_ROLE_OBSERVER
#define GAME EC_ROLE_GAME
#define OPERATOR EC_ROLE_OPERATOR
#define TYPE_integer EC_PARAM_INTEGER
#define TYPE_number EC_PARAM_NUMBER
#define TYPE_boolean EC_PARAM_BOOLEAN
#define TYPE_string EC_PARAM_STRING
#define TYPE_id EC_PARAM_ID
#define TYPE_array EC_PARAM_ARRAY
#define TYPE_object EC_PARAM_OBJECT
#define TYPE_scalar EC_PARAM_SCALAR
#define TYPE_any EC_PARAM_ANY
#define TYPE_integer_or_null EC_PARAM_INTEGER_OR_NULL
#define TYPE_string_or_null EC_PARAM_STRING_OR_NULL

#define COMMAND(id, method, role, flags, help) static const struct ec_param_row params_##id[] = {
#define PARAM(name, type, need, min, max, help) { #name, TYPE_##type, need, min, max, help },
#define RESULT(name, type, help)
#define COMMAND_END(id)                                                                            \
    {                                                                                              \
        0                                                                                          \
    }                                                                                              \
    }                                                                                              \
    ;
#include "proto/tables/commands.def"
#undef COMMAND
#undef PARAM
#undef RESULT
#undef COMMAND_END

#define COMMAND(id, method, role, flags, help) static const struct ec_result_row results_##id[] = {
#define PARAM(name, type, need, min, max, help)
#define RESULT(name, type, help) { #name, TYPE_##type, help },
#define COMMAND_END(id)                                                                            \
    {                                                                                              \
        0                                                                                          \
    }                                                                                              \
    }                                                                                              \
    ;
#include "proto/tables/commands.def"
#undef COMMAND
#undef RESULT
#undef COMMAND_END

#define COUNT(array) (sizeof(array) / sizeof(array)[0] - 1)
#define COMMAND(id, method, role, flags, help)                                                     \
    { #id,                                                                                         \
      method,                                                                                      \
      role,                                                                                        \
      flags,                                                                                       \
      help,                                                                                        \
      params_##id,                                                                                 \
      COUNT(params_##id),                                                                          \
      results_##id,                                                                                \
      COUNT(results_##id) },
#define RESULT(name, type, help)
#define COMMAND_END(id)
const struct ec_command_row ec_commands[EC_COMMANDS] = {
#include "proto/tables/commands.def"
};

#define ERROR(name, code, text) { #name, code, text },
const struct ec_error_row ec_errors[] = {
#include "proto/tables/errors.def"
};
const size_t ec_error_count = sizeof ec_errors / sizeof ec_errors[0];

#define RELOAD true
#define RESTART false
#define ROW_integer(fallback) EC_CONFIG_INTEGER, fallback, NULL
#define ROW_boolean(fallback) EC_CONFIG_BOOLEAN, fallback, NULL
#define ROW_string(fallback) EC_CONFIG_STRING, 0, fallback
#define CONFIG(id, key, type, fallback, min, max, unit, when, help)                                \
    { key, ROW_##type(fallback), min, max, unit, when, help },
const struct ec_config_row ec_configs[EC_CONFIGS] = {
#include "proto/tables/config.def"
};

#define COUNTER(id, name, unit, help) { name, unit, help },
const struct ec_counter_row ec_counters[EC_COUNTERS] = {
#include "proto/tables/counters.def"
};

#define TOPIC_memory EC_TOPIC_MEMORY
#define TOPIC_clock EC_TOPIC_CLOCK
#define TOPIC_event EC_TOPIC_EVENT
#define TOPIC_breaker EC_TOPIC_BREAKER
#define TOPIC_resource EC_TOPIC_RESOURCE
#define TOPIC_control EC_TOPIC_CONTROL
#define GAUGE false
#undef COUNTER
#define COUNTER true
#define METRIC(id, topic, name, kind, unit, help) { TOPIC_##topic, name, kind, unit, help },
const struct ec_metric_row ec_metrics[EC_METRICS] = {
#include "proto/tables/metrics.def"
};

#define SYSTEM_EVENT(id, name, help) static const struct ec_system_field_row fields_##id[] = {
#define SYSTEM_FIELD(name, type, count, help) { #name, #type, count, help },
#define SYSTEM_EVENT_END(id)                                                                       \
    {                                                                                              \
        0                                                                                          \
    }                                                                                              \
    }                                                                                              \
    ;
#include "proto/tables/events.def"
#undef SYSTEM_EVENT
#undef SYSTEM_FIELD
#undef SYSTEM_EVENT_END

#define SYSTEM_EVENT(id, name, help) { name, help, fields_##id, COUNT(fields_##id) },
#define SYSTEM_FIELD(name, type, count, help)
#define SYSTEM_EVENT_END(id)
const struct ec_system_event_row ec_system_events[EC_SYSTEM_EVENTS] = {
#include "proto/tables/events.def"
};

const char *ec_topic_name(enum ec_topic topic)
{
    static const char *const names[] = { "memory",  "clock",    "event",
                                         "breaker", "resource", "control" };

    return (size_t)topic < sizeof names / sizeof names[0] ? names[topic] : "unknown";
}

#define LOG_LEVEL(name, help) #name,
static const char *const log_levels[] = {
#include "proto/tables/log_levels.def"
};
#undef LOG_LEVEL

#define LOG_LEVEL(name, help) ", " #name
static const char log_level_list[] =
#include "proto/tables/log_levels.def"
    ;
#undef LOG_LEVEL

const char *const ec_log_level_list = log_level_list + 2;

const char *ec_log_level_name(unsigned level)
{
    return level < sizeof log_levels / sizeof log_levels[0] ? log_levels[level] : NULL;
}

const char *ec_resource_state_name(unsigned state)
{
    static const char *const names[] = {
        [EC_RESOURCE_UNLOADED] = "unloaded", [EC_RESOURCE_LOADING] = "loading",
        [EC_RESOURCE_READY] = "ready",       [EC_RESOURCE_EVICTING] = "evicting",
        [EC_RESOURCE_EVICTED] = "evicted",   [EC_RESOURCE_FAILED] = "failed",
    };

    return state < sizeof names / sizeof names[0] ? names[state] : NULL;
}

const char *ec_role_name(enum ec_role role)
{
    static const char *const names[] = { "none", "observer", "game", "operator" };

    return (size_t)role < sizeof names / sizeof names[0] ? names[role] : "unknown";
}

const char *ec_param_type_name(enum ec_param_type type)
{
    static const char *const names[] = { "integer", "number",          "boolean",       "string",
                                         "id",      "array",           "object",        "scalar",
                                         "any",     "integer or null", "string or null" };

    return (size_t)type < sizeof names / sizeof names[0] ? names[type] : "unknown";
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    for (size_t i = 0; i <= strlen(text); i++) /* the NUL too: it keeps neighbours apart */
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3ull;
    return hash;
}

uint64_t ec_commands_hash(void)
{
    uint64_t hash = 0xcbf29ce484222325ull;

    for (size_t c = 0; c < EC_COMMANDS; c++) {
        const struct ec_command_row *command = &ec_commands[c];

        hash = mix_text(mix_text(hash, command->method), ec_role_name(command->role));
        for (size_t p = 0; p < command->param_count; p++)
            hash = mix_text(mix_text(mix_text(hash, command->params[p].name),
                                     ec_param_type_name(command->params[p].type)),
                            command->params[p].need);
        for (size_t r = 0; r < command->result_count; r++)
            hash = mix_text(mix_text(hash, command->results[r].name),
                            ec_param_type_name(command->results[r].type));
    }
    return hash;
}
