/* proto/tables.h - the tables of what the outside sees, as arrays.
 *
 * The rows stand in tables/ (commands.def, errors.def, config.def, counters.def, metrics.def, events.def).
 * Validation, help, completion, core.discover and docs/generated loop over these arrays.
 *
 * Thread: any; all of it is const. */
#ifndef EC_PROTO_TABLES_H
#define EC_PROTO_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ec_role { EC_ROLE_NONE = 0, EC_ROLE_OBSERVER = 1, EC_ROLE_GAME = 2, EC_ROLE_OPERATOR = 3 };

enum ec_param_type {
    EC_PARAM_INTEGER,
    EC_PARAM_NUMBER,
    EC_PARAM_BOOLEAN,
    EC_PARAM_STRING,
    EC_PARAM_ID, /* 64 bits as "0x…" */
    EC_PARAM_ARRAY,
    EC_PARAM_OBJECT,
    EC_PARAM_SCALAR, /* any but array and object */
    EC_PARAM_ANY,
    EC_PARAM_INTEGER_OR_NULL, /* these two of results only */
    EC_PARAM_STRING_OR_NULL,
};

struct ec_param_row {
    const char *name;
    enum ec_param_type type;
    const char *need; /* "!" required, "" optional, else the default as JSON text */
    int64_t min,
        max; /* of an integer or number; bytes of a string; 0, 0: no bound; max 0: no upper */
    const char *help;
};

static inline bool ec_param_required(const struct ec_param_row *row)
{
    return row->need[0] == '!';
}

/* The default as JSON text; NULL when there is none. */
static inline const char *ec_param_fallback(const struct ec_param_row *row)
{
    return row->need[0] == '!' || row->need[0] == '\0' ? NULL : row->need;
}

struct ec_result_row {
    const char *name;
    enum ec_param_type type;
    const char *help;
};

struct ec_command_row {
    const char *id;     /* breaker_trip */
    const char *method; /* breaker.trip */
    enum ec_role role;
    bool takes_fds;
    const char *help;
    const struct ec_param_row *params;
    size_t param_count;
    const struct ec_result_row *results;
    size_t result_count;
};

struct ec_error_row {
    const char *name; /* STALE */
    int code;
    const char *text;
};

enum ec_config_type { EC_CONFIG_INTEGER, EC_CONFIG_BOOLEAN, EC_CONFIG_STRING };

struct ec_config_row {
    const char *key; /* event.stall_ms */
    enum ec_config_type type;
    int64_t integer;    /* default of an integer or boolean */
    const char *string; /* default of a string */
    int64_t min, max;
    const char *unit;
    bool reloadable;
    const char *help;
};

struct ec_counter_row {
    const char *name;
    const char *unit;
    const char *help;
};

enum ec_topic {
    EC_TOPIC_MEMORY,
    EC_TOPIC_CLOCK,
    EC_TOPIC_EVENT,
    EC_TOPIC_BREAKER,
    EC_TOPIC_RESOURCE,
    EC_TOPIC_CONTROL,
    EC_TOPICS
};

struct ec_metric_row {
    enum ec_topic topic;
    const char *name; /* available_bytes; the whole name is memory.available_bytes */
    bool is_counter;  /* only grows while the daemon runs */
    const char *unit;
    const char *help;
};

struct ec_system_field_row {
    const char *name;
    const char *type; /* u32, char, … as in event.register */
    uint32_t count;
    const char *help;
};

struct ec_system_event_row {
    const char *name;
    const char *help;
    const struct ec_system_field_row *fields;
    size_t field_count;
};

/* The index of each row: EC_COMMAND_breaker_trip, EC_CONFIG_event_stall_ms, … */
enum ec_command_id {
#define COMMAND(id, method, role, flags, help) EC_COMMAND_##id,
#define PARAM(name, type, need, min, max, help)
#define RESULT(name, type, help)
#define COMMAND_END(id)
#include "proto/tables/commands.def"
#undef COMMAND
#undef PARAM
#undef RESULT
#undef COMMAND_END
#undef DRY_RUN
    EC_COMMANDS
};

enum ec_config_id {
#define CONFIG(id, key, type, fallback, min, max, unit, when, help) EC_CONFIG_##id,
#include "proto/tables/config.def"
#undef CONFIG
    EC_CONFIGS
};

enum ec_counter_id {
#define COUNTER(id, name, unit, help) EC_COUNTER_##id,
#include "proto/tables/counters.def"
#undef COUNTER
    EC_COUNTERS
};

enum ec_metric_id {
#define METRIC(id, topic, name, kind, unit, help) EC_METRIC_##id,
#include "proto/tables/metrics.def"
#undef METRIC
    EC_METRICS
};

enum ec_system_event_id {
#define SYSTEM_EVENT(id, name, help) EC_SYSTEM_##id,
#define SYSTEM_FIELD(name, type, count, help)
#define SYSTEM_EVENT_END(id)
#include "proto/tables/events.def"
#undef SYSTEM_EVENT
#undef SYSTEM_FIELD
#undef SYSTEM_EVENT_END
    EC_SYSTEM_EVENTS
};

extern const struct ec_command_row ec_commands[EC_COMMANDS];
extern const struct ec_error_row ec_errors[];
extern const size_t ec_error_count;
extern const struct ec_config_row ec_configs[EC_CONFIGS];
extern const struct ec_counter_row ec_counters[EC_COUNTERS];
extern const struct ec_metric_row ec_metrics[EC_METRICS];
extern const struct ec_system_event_row ec_system_events[EC_SYSTEM_EVENTS];

/* Levels of the log, the least important first: "trace"; NULL behind the last. */
const char *ec_log_level_name(unsigned level);
extern const char *const ec_log_level_list;     /* "trace, debug, …", for messages */
const char *ec_topic_name(enum ec_topic topic); /* "memory" */
/* Of enum ec_resource_state: "ready"; NULL behind the last. */
const char *ec_resource_state_name(unsigned state);
const char *ec_role_name(enum ec_role role);             /* "operator" */
const char *ec_param_type_name(enum ec_param_type type); /* "integer" */
uint64_t ec_commands_hash(void); /* over names, types and roles of all rows */

#endif
