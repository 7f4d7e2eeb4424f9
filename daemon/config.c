/* The configuration: layers of values, each read completely before any of it counts.
 *
 * A set of values starts as the defaults of the table; the file and then --set are laid over it. A
 * reload builds a second set and takes over what differs and may change, so a bad file changes
 * nothing. In the file, {"event": {"stall_ms": 100}} and {"event.stall_ms": 100} are the same. */
#include "daemon/config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/services.h"
#include "foundation/json/json_scan.h"
#include "proto/tables/nearest.h"

#define CONFIG_FILE_BYTES_MAX (1024 * 1024)
#define CONFIG_KEY_BYTES 128
#define CONFIG_LISTENERS 16

/* One key's value and where it comes from. text belongs to the value. */
struct config_value {
    int64_t integer; /* or boolean */
    char *text;      /* of a string */
    char *origin;    /* NULL: built-in */
};

struct config_set {
    struct config_value values[EC_CONFIGS];
};

struct config_listener {
    config_changed_fn *fn;
    void *context;
};

struct config_check {
    config_check_fn *fn;
    void *context;
};

struct config {
    struct config_source source; /* own copies */
    struct config_set set;
    uint64_t version;
    struct config_listener listeners[CONFIG_LISTENERS];
    unsigned listener_count;
    struct config_check checks[CONFIG_LISTENERS];
    unsigned check_count;
};

/* The file while it is read. */
struct config_text {
    const char *path;
    char *bytes;
    size_t count;
    bool given[EC_CONFIGS]; /* a key may come nested and flat, but not both */
};

static int copy_source(struct config *config, const struct config_source *source);
static int check_together(const struct config *config, const struct config_set *set,
                          struct ec_error *why);
static void free_source(struct config_source *source);
static int read_layers(const struct config_source *source, struct config_set *set,
                       struct ec_error *why);
static int set_defaults(struct config_set *set, struct ec_error *why);
static void set_finish(struct config_set *set);
static int check_can_be_read_again(const char *path, struct ec_error *why);
static int read_file(struct config_text *text, struct ec_error *why);
static int apply_object(struct config_text *text, struct config_set *set, const char *prefix,
                        struct ec_json_span object, struct ec_error *why);
static int apply_member(struct config_text *text, struct config_set *set, const char *key,
                        struct ec_json_span value, struct ec_error *why);
static int apply_argument(struct config_set *set, const char *argument, struct ec_error *why);
static int convert(const struct ec_config_row *row, struct ec_json_span value,
                   struct config_value *out, struct ec_error *why);
static int check_integer(const struct ec_config_row *row, int64_t value, struct ec_error *why);
static int check_text(const struct ec_config_row *row, const char *text, struct ec_error *why);
static int find_key(const char *key);
static void warn_unknown(const char *where, const char *key);
static bool is_same(const struct ec_config_row *row, const struct config_value *a,
                    const struct config_value *b);
static void apply_log_level(void *context, enum ec_config_id id);

int config_create(const struct config_source *source, struct config **out, struct ec_error *why)
{
    struct config *config = calloc(1, sizeof *config);
    int rc;

    *out = NULL;
    if (config == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "%zu bytes", sizeof *config);
    rc = copy_source(config, source);
    if (rc < 0)
        rc = ec_fail(why, rc, "copy of the arguments");
    else
        rc = read_layers(&config->source, &config->set, why);
    if (rc < 0) {
        config_destroy(config);
        return rc;
    }
    config->version = 1;
    *out = config;
    return EC_OK;
}

void config_destroy(struct config *config)
{
    if (config == NULL)
        return;
    set_finish(&config->set);
    free_source(&config->source);
    free(config);
}

int config_init(struct services *services, struct ec_error *why)
{
    int rc = config_create(services->config_source, &services->config, why);

    if (rc < 0)
        return rc;
    apply_log_level(services->config, EC_CONFIG_log_level);
    return config_on_change(services->config, apply_log_level, services->config);
}

void config_shutdown(struct services *services)
{
    config_destroy(services->config);
    services->config = NULL;
}

int64_t config_integer(const struct config *config, enum ec_config_id id)
{
    return config->set.values[id].integer;
}

bool config_boolean(const struct config *config, enum ec_config_id id)
{
    return config->set.values[id].integer != 0;
}

const char *config_string(const struct config *config, enum ec_config_id id)
{
    return config->set.values[id].text;
}

const char *config_origin(const struct config *config, enum ec_config_id id)
{
    const char *origin = config->set.values[id].origin;

    return origin != NULL ? origin : "built-in";
}

const char *config_file(const struct config *config)
{
    return config->source.file;
}

uint64_t config_version(const struct config *config)
{
    return config->version;
}

int config_reload(struct config *config, bool changed[EC_CONFIGS], struct ec_error *why)
{
    struct config_set fresh = { 0 };
    bool any = false;
    int rc = check_can_be_read_again(config->source.file, why);

    if (rc == EC_OK)
        rc = read_layers(&config->source, &fresh, why);
    if (rc == EC_OK)
        rc = check_together(config, &fresh, why);
    for (size_t i = 0; i < EC_CONFIGS; i++)
        changed[i] =
            rc == EC_OK && !is_same(&ec_configs[i], &config->set.values[i], &fresh.values[i]);
    for (size_t i = 0; i < EC_CONFIGS && rc == EC_OK; i++) {
        struct config_value before = config->set.values[i];

        if (changed[i] && !ec_configs[i].reloadable) {
            log_warning("config", "%s has changed and needs a restart", ec_configs[i].key);
            continue;
        }
        config->set.values[i] = fresh.values[i];
        fresh.values[i] = before;
        any = any || changed[i];
    }
    set_finish(&fresh);
    if (rc < 0)
        return rc;
    if (any)
        config->version++;
    for (size_t i = 0; i < EC_CONFIGS; i++)
        for (unsigned l = 0; changed[i] && ec_configs[i].reloadable && l < config->listener_count;
             l++)
            config->listeners[l].fn(config->listeners[l].context, (enum ec_config_id)i);
    return EC_OK;
}

int config_add_check(struct config *config, config_check_fn *fn, void *context)
{
    if (config->check_count == CONFIG_LISTENERS)
        return EC_ERR_LIMIT;
    config->checks[config->check_count++] = (struct config_check) { fn, context };
    return EC_OK;
}

/* Do the fresh values fit together? They are asked for as those of a configuration of their own. */
static int check_together(const struct config *config, const struct config_set *set,
                          struct ec_error *why)
{
    const struct config fresh = { .set = *set };
    int rc = EC_OK;

    for (unsigned i = 0; i < config->check_count && rc == EC_OK; i++)
        rc = config->checks[i].fn(config->checks[i].context, &fresh, why);
    return rc;
}

int config_on_change(struct config *config, config_changed_fn *fn, void *context)
{
    if (config->listener_count == CONFIG_LISTENERS)
        return EC_ERR_LIMIT;
    config->listeners[config->listener_count++] = (struct config_listener) { fn, context };
    return EC_OK;
}

static int copy_source(struct config *config, const struct config_source *source)
{
    char **sets = calloc(source->set_count + 1, sizeof *sets);

    if (sets == NULL)
        return EC_ERR_MEMORY;
    config->source.sets = (const char *const *)sets;
    if (source->file != NULL && (config->source.file = strdup(source->file)) == NULL)
        return EC_ERR_MEMORY;
    for (; config->source.set_count < source->set_count; config->source.set_count++) {
        sets[config->source.set_count] = strdup(source->sets[config->source.set_count]);
        if (sets[config->source.set_count] == NULL)
            return EC_ERR_MEMORY;
    }
    return EC_OK;
}

static void free_source(struct config_source *source)
{
    for (unsigned i = 0; i < source->set_count; i++)
        free((void *)(uintptr_t)source->sets[i]);
    free((void *)(uintptr_t)source->sets);
    free((void *)(uintptr_t)source->file);
}

static int read_layers(const struct config_source *source, struct config_set *set,
                       struct ec_error *why)
{
    int rc = set_defaults(set, why);

    if (rc == EC_OK && source->file != NULL) {
        struct config_text text = { .path = source->file };

        rc = read_file(&text, why);
        if (rc == EC_OK)
            rc = apply_object(&text, set, "", ec_json_root(text.bytes, text.count), why);
        free(text.bytes);
    }
    for (unsigned i = 0; i < source->set_count && rc == EC_OK; i++)
        rc = apply_argument(set, source->sets[i], why);
    return rc;
}

static int set_defaults(struct config_set *set, struct ec_error *why)
{
    for (size_t i = 0; i < EC_CONFIGS; i++) {
        set->values[i].integer = ec_configs[i].integer;
        if (ec_configs[i].type != EC_CONFIG_STRING)
            continue;
        set->values[i].text = strdup(ec_configs[i].string);
        if (set->values[i].text == NULL)
            return ec_fail(why, EC_ERR_MEMORY, "default of %s", ec_configs[i].key);
    }
    return EC_OK;
}

static void value_finish(struct config_value *value)
{
    free(value->text);
    free(value->origin);
    *value = (struct config_value) { 0 };
}

static void set_finish(struct config_set *set)
{
    for (size_t i = 0; i < EC_CONFIGS; i++)
        value_finish(&set->values[i]);
}

/* At the start a pipe is as good as a file (--config <(command)). Later the loop must not wait for
 * whoever writes to it. */
static int check_can_be_read_again(const char *path, struct ec_error *why)
{
    struct stat st;

    if (path == NULL || stat(path, &st) < 0 || S_ISREG(st.st_mode))
        return EC_OK; /* what is not there is said when it is opened */
    return ec_fail(why, EC_ERR_STATE, "%s: is not a regular file, which alone is read again", path);
}

/* Read the whole file and check that it is one JSON object. */
static int read_file(struct config_text *text, struct ec_error *why)
{
    const int fd = open(text->path, O_RDONLY | O_CLOEXEC);
    struct ec_json_fault fault;
    size_t line, column;
    ssize_t bytes = 0;

    if (fd < 0)
        return ec_fail(why, EC_ERR_SYSTEM, "%s: %s", text->path, strerror(errno));
    text->bytes = malloc(CONFIG_FILE_BYTES_MAX + 1);
    if (text->bytes == NULL) {
        close(fd);
        return ec_fail(why, EC_ERR_MEMORY, "%s: no memory", text->path);
    }
    while (text->count <= CONFIG_FILE_BYTES_MAX &&
           (bytes = read(fd, text->bytes + text->count, CONFIG_FILE_BYTES_MAX + 1 - text->count)) >
               0)
        text->count += (size_t)bytes;
    if (bytes < 0) {
        const int reason = errno;

        close(fd);
        return ec_fail(why, EC_ERR_SYSTEM, "%s: %s", text->path, strerror(reason));
    }
    close(fd);
    if (text->count > CONFIG_FILE_BYTES_MAX)
        return ec_fail(why, EC_ERR_SIZE, "%s: is longer than %d bytes", text->path,
                       CONFIG_FILE_BYTES_MAX);
    if (ec_json_check(text->bytes, text->count, NULL, &fault) < 0) {
        ec_json_position(text->bytes, fault.offset, &line, &column);
        return ec_fail(why, EC_ERR_PARSE, "%s:%zu:%zu: %s", text->path, line, column, fault.reason);
    }
    if (ec_json_type_of(ec_json_root(text->bytes, text->count)) != EC_JSON_OBJECT)
        return ec_fail(why, EC_ERR_PARAM, "%s:1:1: expected an object", text->path);
    return EC_OK;
}

/* Lay the members of an object over the values; prefix is the path to it, dot included. */
static int apply_object(struct config_text *text, struct config_set *set, const char *prefix,
                        struct ec_json_span object, struct ec_error *why)
{
    struct ec_json_iterator members = ec_json_iterate(object);
    struct ec_json_span name, value;
    int rc = EC_OK;

    while (rc == EC_OK && ec_json_next_member(&members, &name, &value)) {
        char key[CONFIG_KEY_BYTES];
        const size_t prefix_bytes = strlen(prefix);
        const size_t room = sizeof key - 1 - prefix_bytes; /* one is for the next dot */

        memcpy(key, prefix, prefix_bytes);
        if (room < 2 || ec_json_get_text(name, key + prefix_bytes, room) < 0) {
            /* No key is as long as that. The name is shown as it stands in the file. */
            snprintf(key, sizeof key, "%.*s", (int)(name.bytes < 100 ? name.bytes : 100),
                     name.text);
            rc = apply_member(text, set, key, value, why);
        } else if (find_key(key) < 0 && ec_json_type_of(value) == EC_JSON_OBJECT) {
            strcat(key, ".");
            rc = apply_object(text, set, key, value, why);
        } else {
            rc = apply_member(text, set, key, value, why);
        }
    }
    return rc;
}

static int apply_member(struct config_text *text, struct config_set *set, const char *key,
                        struct ec_json_span value, struct ec_error *why)
{
    const int id = find_key(key);
    struct config_value fresh = { 0 };
    char where[4096 + 64];
    size_t line, column;
    int rc;

    ec_json_position(text->bytes, (size_t)(value.text - text->bytes), &line, &column);
    snprintf(where, sizeof where, "%s:%zu", text->path, line);
    if (id < 0) {
        warn_unknown(where, key);
        return EC_OK;
    }
    if (text->given[id])
        rc = ec_fail(why, EC_ERR_PARAM, "%s is given twice", key);
    else
        rc = convert(&ec_configs[id], value, &fresh, why);
    if (rc == EC_OK && (fresh.origin = strdup(where)) == NULL)
        rc = ec_fail(why, EC_ERR_MEMORY, "origin of %s", key);
    if (rc < 0) {
        value_finish(&fresh);
        return ec_error_prefix(why, rc, "%s:%zu:%zu", text->path, line, column);
    }
    text->given[id] = true;
    value_finish(&set->values[id]);
    set->values[id] = fresh;
    return EC_OK;
}

/* key=value of --set: a string needs no quotes, anything else is written as in JSON. */
static int apply_argument(struct config_set *set, const char *argument, struct ec_error *why)
{
    const char *equals = strchr(argument, '=');
    struct config_value fresh = { 0 };
    char key[CONFIG_KEY_BYTES];
    int id, rc;

    if (equals == NULL || equals == argument || (size_t)(equals - argument) >= sizeof key)
        return ec_fail(why, EC_ERR_PARAM, "--set %s: expected key=value", argument);
    memcpy(key, argument, (size_t)(equals - argument));
    key[equals - argument] = '\0';
    id = find_key(key);
    if (id < 0) {
        warn_unknown("--set", key);
        return EC_OK;
    }
    if (ec_configs[id].type == EC_CONFIG_STRING) {
        rc = check_text(&ec_configs[id], equals + 1, why);
        if (rc == EC_OK && (fresh.text = strdup(equals + 1)) == NULL)
            rc = ec_fail(why, EC_ERR_MEMORY, "value of %s", key);
    } else {
        const size_t bytes = strlen(equals + 1);
        struct ec_json_span value = { 0 };

        if (ec_json_check(equals + 1, bytes, NULL, NULL) == EC_OK)
            value = ec_json_root(equals + 1, bytes);
        rc = convert(&ec_configs[id], value, &fresh, why);
    }
    if (rc == EC_OK && (fresh.origin = strdup("--set")) == NULL)
        rc = ec_fail(why, EC_ERR_MEMORY, "origin of %s", key);
    if (rc < 0) {
        value_finish(&fresh);
        return ec_error_prefix(why, rc, "--set %s", argument);
    }
    value_finish(&set->values[id]);
    set->values[id] = fresh;
    return EC_OK;
}

static int convert(const struct ec_config_row *row, struct ec_json_span value,
                   struct config_value *out, struct ec_error *why)
{
    const char *came = value.text != NULL ? ec_json_type_text(ec_json_type_of(value)) : "this";
    bool boolean;

    switch (row->type) {
    case EC_CONFIG_INTEGER:
        if (ec_json_get_i64(value, &out->integer) < 0)
            return ec_fail(why, EC_ERR_PARAM,
                           "%s is an integer from %" PRId64 " to %" PRId64 ", not %s", row->key,
                           row->min, row->max, came);
        return check_integer(row, out->integer, why);
    case EC_CONFIG_BOOLEAN:
        if (ec_json_get_boolean(value, &boolean) < 0)
            return ec_fail(why, EC_ERR_PARAM, "%s is true or false, not %s", row->key, came);
        out->integer = boolean;
        return EC_OK;
    case EC_CONFIG_STRING:
        break;
    }
    if (ec_json_type_of(value) != EC_JSON_STRING)
        return ec_fail(why, EC_ERR_PARAM, "%s is a string, not %s", row->key, came);
    out->text = malloc(value.bytes);
    if (out->text == NULL)
        return ec_fail(why, EC_ERR_MEMORY, "value of %s", row->key);
    if (ec_json_get_text(value, out->text, value.bytes) < 0)
        return ec_fail(why, EC_ERR_PARAM, "%s must not contain \\u0000", row->key);
    return check_text(row, out->text, why);
}

static int check_integer(const struct ec_config_row *row, int64_t value, struct ec_error *why)
{
    if (value >= row->min && value <= row->max)
        return EC_OK;
    return ec_fail(why, EC_ERR_PARAM,
                   "%s is %" PRId64 ", allowed is %" PRId64 " to %" PRId64 "%s%s", row->key, value,
                   row->min, row->max, row->unit[0] != '\0' ? " " : "", row->unit);
}

static int check_text(const struct ec_config_row *row, const char *text, struct ec_error *why)
{
    const size_t bytes = strlen(text);
    enum log_level level;

    if ((int64_t)bytes < row->min || (int64_t)bytes > row->max)
        return ec_fail(why, EC_ERR_PARAM, "%s has %zu bytes, allowed are %" PRId64 " to %" PRId64,
                       row->key, bytes, row->min, row->max);
    if (row == &ec_configs[EC_CONFIG_log_level] && !log_level_parse(text, &level))
        return ec_fail(why, EC_ERR_PARAM,
                       "%s is %s, allowed are trace, debug, info, warning, error", row->key, text);
    return EC_OK;
}

/* The row of a key; -1 when there is none. */
static int find_key(const char *key)
{
    for (size_t i = 0; i < EC_CONFIGS; i++)
        if (strcmp(ec_configs[i].key, key) == 0)
            return (int)i;
    return -1;
}

static void warn_unknown(const char *where, const char *key)
{
    struct ec_nearest nearest;

    ec_nearest_init(&nearest, key, strlen(key));
    for (size_t i = 0; i < EC_CONFIGS; i++)
        ec_nearest_offer(&nearest, ec_configs[i].key);
    if (nearest.best != NULL)
        log_warning("config", "%s: unknown key %s is ignored, did you mean %s?", where, key,
                    nearest.best);
    else
        log_warning("config", "%s: unknown key %s is ignored", where, key);
}

static bool is_same(const struct ec_config_row *row, const struct config_value *a,
                    const struct config_value *b)
{
    return row->type == EC_CONFIG_STRING ? strcmp(a->text, b->text) == 0 : a->integer == b->integer;
}

static void apply_log_level(void *context, enum ec_config_id id)
{
    enum log_level level;

    if (id == EC_CONFIG_log_level && log_level_parse(config_string(context, id), &level))
        log_set_level(level);
}
