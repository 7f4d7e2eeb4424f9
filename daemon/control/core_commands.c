/* The commands of the daemon itself. */
#include <string.h>
#include <unistd.h>

#include "breaker/breaker.h"
#include "clients/clients.h"
#include "control/openrpc.h"
#include "control/request_memory.h"
#include "daemon/config.h"
#include "daemon/counters.h"
#include "daemon/log.h"
#include "daemon/module.h"
#include "daemon/request.h"
#include "daemon/segments.h"
#include "events/events.h"
#include "foundation/real_time.h"
#include "proto/line.h"
#include "resources/resources.h"
#include "scheduler/scheduler.h"
#include "telemetry/host_memory.h"

#if defined(EC_TIER_RELEASE)
#define TIER "release"
#elif defined(EC_TIER_DEBUG)
#define TIER "debug"
#else
#define TIER "development"
#endif

#ifdef __clang__
#define COMPILER __VERSION__ /* names itself */
#else
#define COMPILER "gcc " __VERSION__
#endif

#ifndef EC_COMMIT
#define EC_COMMIT "unknown" /* the build says what it was built from, if it knows */
#endif

static int parse_role(const struct param *param, enum ec_role fallback, enum ec_role *role,
                      struct ec_error *why);
static void write_features(struct ec_json_writer *writer);
static void write_limits(const struct config *config, struct ec_json_writer *writer);
static void write_modules(struct ec_json_writer *writer);
static void write_protection(const struct services *services, struct ec_json_writer *writer);
static void write_counters(const struct counters *counters, struct ec_json_writer *writer);

/* "resume": {"instance", "client_id"}. Whose instance it is decides only whether it may take the place of a
 * connection that still stands; else process and lease do. */
static int parse_resume(const struct param *param, uint64_t *instance, uint32_t *id,
                        struct ec_error *why)
{
    static const char *const names[] = { "instance", "client_id" };
    struct ec_json_span values[2] = { { 0 } };
    struct ec_json_fields fields = { .names = names, .values = values, .count = 2 };
    uint64_t number;

    if (ec_json_bind(param->span, &fields) < 0 || fields.unknown.bytes != 0 ||
        ec_json_get_hex64(values[0], instance) < 0 || ec_json_get_u64(values[1], &number) < 0 ||
        number == 0 || number > UINT32_MAX)
        return ec_fail(why, EC_ERR_PARAM,
                       "parameter resume: expected {\"instance\": \"0x…\", \"client_id\": n}");
    *id = (uint32_t)number;
    return EC_OK;
}

int cmd_core_hello(struct request *request)
{
    const struct params_core_hello *params = request->params;
    struct services *services = request->services;
    struct client *client = request->client;
    struct ec_json_writer *w = request->result;
    enum ec_role role;
    uint64_t instance = 0;
    uint32_t before = 0;
    bool resumed = false;
    int rc;

    if (params->protocol.integer != EC_PROTOCOL) {
        ec_json_object_begin(request->data);
        ec_json_member_array(request->data, "supported");
        ec_json_i64(request->data, EC_PROTOCOL);
        ec_json_array_end(request->data);
        ec_json_object_end(request->data);
        return ec_fail(request->why, EC_ERR_VERSION, "protocol %lld is not spoken here, %d is",
                       (long long)params->protocol.integer, EC_PROTOCOL);
    }
    rc = parse_role(&params->role, client->role_max, &role, request->why);
    if (rc == EC_OK && params->resume.present)
        rc = parse_resume(&params->resume, &instance, &before, request->why);
    if (rc == EC_OK && before != 0) {
        rc = clients_resume(services->clients, client, before, instance == services->instance, role,
                            request->why);
        resumed = rc == EC_OK;
        rc = rc == EC_ERR_NOT_FOUND ? EC_OK : rc; /* then it is a new one */
    }
    if (rc == EC_OK && !resumed)
        rc = clients_introduce(services->clients, client, params->name.string, role, request->why);
    if (rc < 0)
        return rc;
    ec_json_object_begin(w);
    ec_json_member_string(w, "server", "engine-core");
    ec_json_member_string(w, "version", EC_VERSION);
    ec_json_member_i64(w, "protocol", EC_PROTOCOL);
    ec_json_member_hex64(w, "instance", services->instance);
    ec_json_member_u64(w, "client_id", client->id);
    ec_json_member_boolean(w, "resumed", resumed);
    ec_json_member_u64(w, "uid", geteuid());
    ec_json_member_string(w, "role", ec_role_name(client->role));
    write_features(w);
    write_limits(services->config, w);
    ec_json_member_hex64(w, "commands_hash", ec_commands_hash());
    ec_json_object_end(w);
    return EC_OK;
}

/* The echo lies one level deeper than the parameters did; the depth limit is for requests. */
int cmd_core_ping(struct request *request)
{
    struct ec_json_writer *w = request->result;

    ec_json_object_begin(w);
    ec_json_member_boolean(w, "pong", true);
    ec_json_member_i64(w, "real_ns", ec_real_ns());
    if (request->raw.text != NULL)
        ec_json_member_raw(w, "echo", request->raw);
    else
        ec_json_member_null(w, "echo");
    ec_json_object_end(w);
    return EC_OK;
}

int cmd_core_info(struct request *request)
{
    struct services *services = request->services;
    struct ec_json_writer *w = request->result;
    struct resources_totals totals;

    resources_totals(services->resources, &totals);
    ec_json_object_begin(w);
    ec_json_member_string(w, "version", EC_VERSION);
    ec_json_member_hex64(w, "instance", services->instance);
    ec_json_member_i64(w, "pid", getpid());
    ec_json_member_i64(w, "uptime_ns", ec_real_ns() - services->started_ns);
    ec_json_member_string(w, "socket", services->socket_path);
    ec_json_member_array(w, "config_files");
    for (unsigned i = 0; config_file(services->config, i) != NULL; i++)
        if (config_file_was_read(services->config, i))
            ec_json_string(w, config_file(services->config, i));
    ec_json_array_end(w);
    ec_json_member_u64(w, "clients", clients_count(services->clients));
    ec_json_member_u64(w, "types", events_type_count(services->events));
    ec_json_member_u64(w, "groups", totals.groups);
    ec_json_member_u64(w, "breaker_level", breaker_level(services->breaker));
    ec_json_member_u64(w, "rss_bytes", host_memory_rss("/proc", getpid(), NULL));
    write_modules(w);
    write_protection(services, w);
    ec_json_key(w, "scheduler");
    scheduler_describe(services->scheduler, w);
    write_counters(services->counters, w);
    ec_json_member_object(w, "build");
    ec_json_member_string(w, "tier", TIER);
    ec_json_member_string(w, "compiler", COMPILER);
    ec_json_member_string(w, "commit", EC_COMMIT);
    ec_json_object_end(w);
    ec_json_object_end(w);
    return EC_OK;
}

int cmd_core_discover(struct request *request)
{
    openrpc_write(request->result);
    return EC_OK;
}

int cmd_core_shutdown(struct request *request)
{
    if (request_would(request, "end the daemon: %u clients are connected",
                      clients_count(request->services->clients)))
        return EC_OK;
    log_info("control", "client %u (%s) asks the daemon to end", request->client->id,
             request->client->name);
    ec_json_object_begin(request->result);
    ec_json_member_boolean(request->result, "stopping", true);
    ec_json_object_end(request->result);
    services_stop(request->services);
    return EC_OK;
}

static int parse_role(const struct param *param, enum ec_role fallback, enum ec_role *role,
                      struct ec_error *why)
{
    *role = fallback;
    if (!param->present)
        return EC_OK;
    for (*role = EC_ROLE_OBSERVER; *role <= EC_ROLE_OPERATOR; (*role)++)
        if (strcmp(param->string, ec_role_name(*role)) == 0)
            return EC_OK;
    return ec_fail(why, EC_ERR_PARAM, "role is %s, allowed are observer, game, operator",
                   param->string);
}

/* What this daemon can do, group of methods by group: exactly what is in the table. */
static void write_features(struct ec_json_writer *writer)
{
    size_t group_bytes = 0;

    ec_json_member_array(writer, "features");
    for (size_t i = 0; i < EC_COMMANDS; i++) {
        const char *method = ec_commands[i].method;

        if (i > 0 && strncmp(method, ec_commands[i - 1].method, group_bytes + 1) == 0)
            continue;
        group_bytes = strcspn(method, ".");
        ec_json_string_n(writer, method, group_bytes);
    }
    ec_json_array_end(writer);
}

/* Each has an error of its own. */
static void write_limits(const struct config *config, struct ec_json_writer *writer)
{
    static const struct {
        const char *name;
        enum ec_config_id id;
    } rows[] = {
        { "batch", EC_CONFIG_control_batch },
        { "in_flight", EC_CONFIG_control_in_flight },
        { "output_bytes", EC_CONFIG_control_output_bytes },
        { "line_s", EC_CONFIG_control_line_s },
        { "connections", EC_CONFIG_control_connections },
        { "connections_per_user", EC_CONFIG_control_connections_per_user },
        { "queue_bytes", EC_CONFIG_event_queue_bytes },
    };

    ec_json_member_object(writer, "limits");
    ec_json_member_i64(writer, "line_bytes", EC_LINE_BYTES);
    ec_json_member_i64(writer, "line_descriptors", EC_LINE_FDS);
    ec_json_member_i64(writer, "depth", EC_LINE_DEPTH);
    ec_json_member_i64(writer, "request_bytes", REQUEST_MEMORY_BYTES);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ec_json_member_i64(writer, rows[i].name, config_integer(config, rows[i].id));
    ec_json_object_end(writer);
}

static void write_modules(struct ec_json_writer *writer)
{
    const char *name;

    ec_json_member_array(writer, "modules");
    for (unsigned i = 0; (name = modules_name(i)) != NULL; i++)
        ec_json_string(writer, name);
    ec_json_array_end(writer);
}

static void write_protection(const struct services *services, struct ec_json_writer *writer)
{
    unsigned count;
    const struct segment_row *rows = segments_rows(services->segments, &count);

    ec_json_member_object(writer, "protection");
    for (unsigned i = 0; i < count; i++)
        ec_json_member_string(writer, rows[i].name, rows[i].protection);
    ec_json_member_string(writer, "decoding", resources_guard_text(services->resources));
    ec_json_object_end(writer);
}

static void write_counters(const struct counters *counters, struct ec_json_writer *writer)
{
    ec_json_member_object(writer, "counters");
    for (size_t i = 0; i < EC_COUNTERS; i++)
        ec_json_member_u64(writer, ec_counters[i].name,
                           i == EC_COUNTER_log_lost ? log_lost()
                           : i == EC_COUNTER_log_sink_lost
                               ? log_sink_lost()
                               : counters_get(counters, (enum ec_counter_id)i));
    ec_json_object_end(writer);
}
