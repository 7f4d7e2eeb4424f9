/* config_commands.c - config.get, config.set, config.reload and core.reload, and the reloads that nobody
 * asks for in JSON: by SIGHUP and by a file that changed. */
#include "daemon/config_commands.h"

#include <inttypes.h>
#include <string.h>

#include "clients/clients.h"
#include "daemon/config.h"
#include "daemon/config_read.h"
#include "daemon/config_watch.h"
#include "daemon/log.h"
#include "daemon/notify.h"
#include "daemon/request.h"
#include "foundation/real_time.h"

static void on_file_change(void *context);
static int reload(struct request *request);
static int find_key(struct request *request, const char *key, enum ec_config_id *id);
static void write_item(const struct config *config, enum ec_config_id id,
                       struct ec_json_writer *writer);
static void write_value(const struct ec_config_row *row, int64_t integer, const char *text,
                        struct ec_json_writer *writer);
static void write_last(const struct config *config, struct ec_json_writer *writer);

int config_post_init(struct services *services, struct ec_error *why)
{
    int rc = config_watch_create(services->loop, services->config, on_file_change, services,
                                 &services->config_watch, why);

    if (rc ==
        EC_ERR_SYSTEM) { /* no inotify left for this user: SIGHUP and config.reload still work */
        log_warning("config", "files are not watched: %s", why->text);
        rc = EC_OK;
    }
    return rc;
}

int config_reload_and_tell(struct services *services, const char *by, bool changed[EC_CONFIGS],
                           struct ec_error *why)
{
    unsigned applied = 0;
    int rc;

    notify_send(services->notify,
                "RELOADING=1\nMONOTONIC_USEC=%" PRId64 "\nSTATUS=Reloading the configuration",
                ec_real_ns() / 1000);
    rc = config_reload(services->config, changed, why);
    if (rc < 0) {
        log_error("config", "reload by %s: %s; nothing was changed", by, why->text);
        notify_send(services->notify, "READY=1\nSTATUS=Listening on %s; reload failed: %s",
                    services->socket_path, why->text);
        return rc;
    }
    for (size_t i = 0; i < EC_CONFIGS; i++) {
        if (!changed[i] || !ec_configs[i].reloadable)
            continue;
        log_info("config", "%s has changed (%s)", ec_configs[i].key,
                 config_origin(services->config, (enum ec_config_id)i));
        applied++;
    }
    log_info("config", "reload by %s: %u keys changed", by, applied);
    notify_send(services->notify, "READY=1\nSTATUS=Listening on %s", services->socket_path);
    return EC_OK;
}

int cmd_core_reload(struct request *request)
{
    return reload(request);
}

int cmd_config_reload(struct request *request)
{
    return reload(request);
}

int cmd_config_get(struct request *request)
{
    const struct params_config_get *params = request->params;
    const struct config *config = request->services->config;
    struct ec_json_writer *writer = request->result;
    enum ec_config_id only = EC_CONFIGS;
    const char *path;
    int rc = params->key.present ? find_key(request, params->key.string, &only) : EC_OK;

    if (rc < 0)
        return rc;
    ec_json_object_begin(writer);
    ec_json_member_u64(writer, "version", config_version(config));
    ec_json_member_array(writer, "files");
    for (unsigned i = 0; (path = config_file(config, i)) != NULL; i++) {
        ec_json_object_begin(writer);
        ec_json_member_string(writer, "path", path);
        ec_json_member_boolean(writer, "read", config_file_was_read(config, i));
        ec_json_object_end(writer);
    }
    ec_json_array_end(writer);
    write_last(config, writer);
    ec_json_member_array(writer, "items");
    for (enum ec_config_id id = 0; id < EC_CONFIGS; id++)
        if (only == EC_CONFIGS || only == id)
            write_item(config, id, writer);
    ec_json_array_end(writer);
    ec_json_object_end(writer);
    return EC_OK;
}

int cmd_config_set(struct request *request)
{
    const struct params_config_set *params = request->params;
    struct config *config = request->services->config;
    enum ec_config_id id = EC_CONFIGS;
    int rc = find_key(request, params->key.string, &id);

    if (rc == EC_OK) {
        rc = config_rehearse_set(config, id, params->value.span, request->why);
        if (rc == EC_ERR_PARAM)
            rc = ec_error_prefix(request->why, rc, "value");
    }
    if (rc == EC_OK &&
        request_would(request, "set %s to %.*s", ec_configs[id].key,
                      (int)(params->value.span.bytes < 100 ? params->value.span.bytes : 100),
                      params->value.span.text))
        return EC_OK;
    if (rc == EC_OK)
        rc = config_set(config, id, params->value.span, request->why);
    if (rc < 0)
        return rc;
    log_info("config", "%s was set by client %u (%s, pid %d)", ec_configs[id].key,
             request->client->id, request->client->name, (int)request->client->pid);
    ec_json_object_begin(request->result);
    ec_json_member_u64(request->result, "version", config_version(config));
    ec_json_member_array(request->result, "items");
    write_item(config, id, request->result);
    ec_json_array_end(request->result);
    ec_json_object_end(request->result);
    return EC_OK;
}

static void on_file_change(void *context)
{
    bool changed[EC_CONFIGS];
    struct ec_error why = { 0 };

    config_reload_and_tell(context, "a change of its file", changed, &why);
}

/* A configuration that is refused is an answer, not an error: the reload has been tried. */
static int reload(struct request *request)
{
    struct config *config = request->services->config;
    struct ec_json_writer *writer = request->result;
    bool changed[EC_CONFIGS];
    struct ec_error why = { 0 };
    int rc;

    if (request_would_begin(request, "read the configuration again")) {
        rc = config_rehearse_reload(config, changed, &why);
    } else {
        rc = config_reload_and_tell(request->services, "request", changed, &why);
        ec_json_object_begin(writer);
    }
    ec_json_member_u64(writer, "version", config_version(config));
    ec_json_member_array(writer, "changed");
    for (size_t i = 0; i < EC_CONFIGS; i++)
        if (changed[i])
            ec_json_string(writer, ec_configs[i].key);
    ec_json_array_end(writer);
    ec_json_member_array(writer, "needs_restart");
    for (size_t i = 0; i < EC_CONFIGS; i++)
        if (changed[i] && !ec_configs[i].reloadable)
            ec_json_string(writer, ec_configs[i].key);
    ec_json_array_end(writer);
    ec_json_member_array(writer, "errors");
    if (rc < 0)
        ec_json_string(writer, why.text);
    ec_json_array_end(writer);
    ec_json_object_end(writer);
    return EC_OK;
}

static int find_key(struct request *request, const char *key, enum ec_config_id *id)
{
    const int found = config_find(key);
    char text[256];

    if (found >= 0) {
        *id = (enum ec_config_id)found;
        return EC_OK;
    }
    config_unknown_text(key, text, sizeof text);
    ec_json_object_begin(request->data);
    ec_json_member_string(request->data, "param", "key");
    ec_json_member_string(request->data, "reason", text);
    ec_json_object_end(request->data);
    return ec_fail(request->why, EC_ERR_NOT_FOUND, "parameter key: %s", text);
}

static void write_item(const struct config *config, enum ec_config_id id,
                       struct ec_json_writer *writer)
{
    const struct ec_config_row *row = &ec_configs[id];
    const bool is_text = row->type == EC_CONFIG_STRING;

    ec_json_object_begin(writer);
    ec_json_member_string(writer, "key", row->key);
    ec_json_key(writer, "value");
    write_value(row, is_text ? 0 : config_integer(config, id),
                is_text ? config_string(config, id) : NULL, writer);
    ec_json_key(writer, "default");
    write_value(row, row->integer, row->string, writer);
    ec_json_member_string(writer, "origin", config_origin(config, id));
    ec_json_member_boolean(writer, "reloadable", row->reloadable);
    if (row->unit[0] != '\0')
        ec_json_member_string(writer, "unit", row->unit);
    ec_json_object_end(writer);
}

static void write_value(const struct ec_config_row *row, int64_t integer, const char *text,
                        struct ec_json_writer *writer)
{
    if (row->type == EC_CONFIG_STRING)
        ec_json_string(writer, text);
    else if (row->type == EC_CONFIG_BOOLEAN)
        ec_json_boolean(writer, integer != 0);
    else
        ec_json_i64(writer, integer);
}

static void write_last(const struct config *config, struct ec_json_writer *writer)
{
    const struct config_last *last = config_last_reload(config);

    ec_json_member_object(writer, "last_reload");
    ec_json_member_u64(writer, "count", last->count);
    ec_json_member_i64(writer, "wall_ns", last->at_ns);
    ec_json_member_boolean(writer, "failed", last->rc < 0);
    ec_json_member_string(writer, "reason", last->reason);
    ec_json_object_end(writer);
}
