/* The configuration: layers of values, each read completely before any of it counts.
 *
 * A set of values starts as the defaults of the table; the files, --set and what was set at run time are
 * laid over it, in this order. A reload builds a second set and takes over what differs and may change,
 * so a bad file changes nothing. */
#include "daemon/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/config_read.h"
#include "daemon/config_watch.h"
#include "daemon/log.h"
#include "daemon/services.h"
#include "foundation/real_time.h"

#define CONFIG_LISTENERS 16
#define ORIGIN_RUN_TIME "config.set"
#define KEY_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789_."

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
    bool was_read[CONFIG_STANDARD_MAX];
    struct config_set set;
    struct config_set run_time; /* of config_set(); those without an origin are not set */
    uint64_t version;
    struct config_last last;
    struct config_listener listeners[CONFIG_LISTENERS];
    unsigned listener_count;
    struct config_check checks[CONFIG_LISTENERS];
    unsigned check_count;
};

static int copy_source(struct config *config, const struct config_source *source);
static void free_source(struct config_source *source);
static int read_layers(struct config *config, struct config_set *set, struct ec_error *why);
static int read_files(struct config *config, const struct config_reader *reader,
                      struct ec_error *why);
static int read_again(struct config *config, struct config_set *fresh, bool changed[EC_CONFIGS],
                      struct ec_error *why);
static int check_can_be_read_again(const char *path, struct ec_error *why);
static int check_together(const struct config *config, const struct config_set *set,
                          struct ec_error *why);
static int ask(const struct config_check *check, const struct config *fresh, struct ec_error *why);
static bool take_over(struct config *config, struct config_set *fresh,
                      const bool changed[EC_CONFIGS]);
static void tell(struct config *config, enum ec_config_id id);
static void note_reload(struct config *config, int rc, const struct ec_error *why);
static int take_back(struct config *config, enum ec_config_id id, struct ec_error *why);
static int convert(enum ec_config_id id, struct ec_json_span value, struct config_value *out,
                   struct ec_error *why);
static int check_one(const struct config *config, enum ec_config_id id,
                     const struct config_value *value, struct ec_error *why);
static bool is_same(const struct ec_config_row *row, const struct config_value *a,
                    const struct config_value *b);
static void warn_unknown(void *context, const char *where, const char *text);

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
        rc = read_layers(config, &config->set, why);
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
    config_set_finish(&config->set);
    config_set_finish(&config->run_time);
    free_source(&config->source);
    free(config);
}

int config_init(struct services *services, struct ec_error *why)
{
    return config_create(services->config_source, &services->config, why);
}

void config_shutdown(struct services *services)
{
    config_watch_destroy(services->config_watch);
    services->config_watch = NULL;
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

const char *config_file(const struct config *config, unsigned index)
{
    if (config->source.file != NULL)
        return index == 0 ? config->source.file : NULL;
    return index < CONFIG_STANDARD_MAX ? config->source.standard[index] : NULL;
}

bool config_file_was_read(const struct config *config, unsigned index)
{
    return config->source.file != NULL || config->was_read[index];
}

uint64_t config_version(const struct config *config)
{
    return config->version;
}

const struct config_last *config_last_reload(const struct config *config)
{
    return &config->last;
}

int config_reload(struct config *config, bool changed[EC_CONFIGS], struct ec_error *why)
{
    struct config_set fresh = { 0 };
    int rc = read_again(config, &fresh, changed, why);

    note_reload(config, rc, why);
    if (rc == EC_OK && take_over(config, &fresh, changed))
        config->version++;
    config_set_finish(&fresh);
    for (size_t i = 0; i < EC_CONFIGS && rc == EC_OK; i++)
        if (changed[i] && ec_configs[i].reloadable)
            tell(config, (enum ec_config_id)i);
    return rc;
}

int config_rehearse_reload(struct config *config, bool changed[EC_CONFIGS], struct ec_error *why)
{
    struct config_set fresh = { 0 };
    int rc = read_again(config, &fresh, changed, why);

    config_set_finish(&fresh);
    return rc;
}

int config_set(struct config *config, enum ec_config_id id, struct ec_json_span value,
               struct ec_error *why)
{
    struct config_value fresh = { 0 }, kept = { 0 };
    bool changed;
    int rc;

    if (ec_json_type_of(value) == EC_JSON_NULL)
        return take_back(config, id, why);
    rc = convert(id, value, &fresh, why);
    if (rc == EC_OK)
        rc = check_one(config, id, &fresh, why);
    if (rc == EC_OK && config_value_copy(&kept, &fresh) < 0)
        rc = ec_fail(why, EC_ERR_MEMORY, "no memory for %s", ec_configs[id].key);
    if (rc < 0) {
        config_value_finish(&fresh);
        config_value_finish(&kept);
        return rc;
    }
    changed = !is_same(&ec_configs[id], &config->set.values[id], &fresh);
    config_value_finish(&config->run_time.values[id]);
    config->run_time.values[id] = kept;
    config_value_finish(&config->set.values[id]);
    config->set.values[id] = fresh;
    if (changed) {
        config->version++;
        tell(config, id);
    }
    return EC_OK;
}

int config_rehearse_set(const struct config *config, enum ec_config_id id,
                        struct ec_json_span value, struct ec_error *why)
{
    struct config_value fresh = { 0 };
    int rc = EC_OK;

    if (ec_json_type_of(value) != EC_JSON_NULL) {
        rc = convert(id, value, &fresh, why);
        if (rc == EC_OK)
            rc = check_one(config, id, &fresh, why);
    }
    config_value_finish(&fresh);
    return rc;
}

int config_add_check(struct config *config, config_check_fn *fn, void *context,
                     struct ec_error *why)
{
    const struct config_check check = { fn, context };

    if (config->check_count == CONFIG_LISTENERS)
        return ec_fail(why, EC_ERR_LIMIT, "too many want to check the configuration");
    config->checks[config->check_count++] = check;
    return ask(&check, config, why);
}

int config_on_change(struct config *config, config_changed_fn *fn, void *context)
{
    if (config->listener_count == CONFIG_LISTENERS)
        return EC_ERR_LIMIT;
    config->listeners[config->listener_count++] = (struct config_listener) { fn, context };
    return EC_OK;
}

/* ---- layers ------------------------------------------------------------------------------------ */

static int copy_source(struct config *config, const struct config_source *source)
{
    char **sets = calloc(source->set_count + 1, sizeof *sets);

    config->source.on_unknown = source->on_unknown != NULL ? source->on_unknown : warn_unknown;
    config->source.context = source->context;
    if (sets == NULL)
        return EC_ERR_MEMORY;
    config->source.sets = (const char *const *)sets;
    if (source->file != NULL && (config->source.file = strdup(source->file)) == NULL)
        return EC_ERR_MEMORY;
    for (unsigned i = 0; i < CONFIG_STANDARD_MAX && source->standard[i] != NULL; i++)
        if ((config->source.standard[i] = strdup(source->standard[i])) == NULL)
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
    for (unsigned i = 0; i < CONFIG_STANDARD_MAX; i++)
        free((void *)(uintptr_t)source->standard[i]);
    free((void *)(uintptr_t)source->sets);
    free((void *)(uintptr_t)source->file);
}

static int read_layers(struct config *config, struct config_set *set, struct ec_error *why)
{
    const struct config_reader reader = { set, config->source.on_unknown, config->source.context };
    int rc = config_set_defaults(set, why);

    if (rc == EC_OK)
        rc = read_files(config, &reader, why);
    for (unsigned i = 0; i < config->source.set_count && rc == EC_OK; i++)
        rc = config_read_argument(set, config->source.sets[i], why);
    for (size_t i = 0; i < EC_CONFIGS && rc == EC_OK; i++) {
        if (config->run_time.values[i].origin == NULL)
            continue;
        config_value_finish(&set->values[i]);
        if (config_value_copy(&set->values[i], &config->run_time.values[i]) < 0)
            rc = ec_fail(why, EC_ERR_MEMORY, "no memory for %s", ec_configs[i].key);
    }
    return rc;
}

/* Of the standard files each may be missing. */
static int read_files(struct config *config, const struct config_reader *reader,
                      struct ec_error *why)
{
    const char *path;
    int rc = EC_OK;

    for (unsigned i = 0; rc == EC_OK && (path = config_file(config, i)) != NULL; i++) {
        struct stat st;

        config->was_read[i] = config->source.file != NULL || stat(path, &st) == 0;
        if (config->was_read[i])
            rc = config_read_file(reader, path, why);
    }
    return rc;
}

static int read_again(struct config *config, struct config_set *fresh, bool changed[EC_CONFIGS],
                      struct ec_error *why)
{
    const char *path;
    int rc = EC_OK;

    for (unsigned i = 0; rc == EC_OK && (path = config_file(config, i)) != NULL; i++)
        rc = check_can_be_read_again(path, why);
    if (rc == EC_OK)
        rc = read_layers(config, fresh, why);
    if (rc == EC_OK)
        rc = check_together(config, fresh, why);
    for (size_t i = 0; i < EC_CONFIGS; i++)
        changed[i] =
            rc == EC_OK && !is_same(&ec_configs[i], &config->set.values[i], &fresh->values[i]);
    return rc;
}

/* At the start a pipe is as good as a file (--config <(command)). Later the loop must not wait for
 * whoever writes to it. */
static int check_can_be_read_again(const char *path, struct ec_error *why)
{
    struct stat st;

    if (stat(path, &st) < 0 || S_ISREG(st.st_mode))
        return EC_OK; /* what is not there is said when it is opened */
    return ec_fail(why, EC_ERR_STATE, "%s: is not a regular file, which alone is read again", path);
}

/* Do the fresh values fit together? They are asked for as those of a configuration of their own. */
static int check_together(const struct config *config, const struct config_set *set,
                          struct ec_error *why)
{
    const struct config fresh = { .set = *set };
    int rc = EC_OK;

    for (unsigned i = 0; i < config->check_count && rc == EC_OK; i++)
        rc = ask(&config->checks[i], &fresh, why);
    return rc;
}

static int ask(const struct config_check *check, const struct config *fresh, struct ec_error *why)
{
    const int rc = check->fn(check->context, fresh, why);

    return rc < 0 ? config_say_places(fresh, rc, why) : rc;
}

/* The first key that a text names from *at on; *at is then behind it. EC_CONFIGS: there is none. */
static enum ec_config_id named_key(const char **at)
{
    while (**at != '\0') {
        const size_t bytes = strspn(*at, KEY_LETTERS);
        size_t key_bytes = bytes;

        while (key_bytes > 0 && (*at)[key_bytes - 1] == '.') /* the end of a sentence */
            key_bytes--;
        for (enum ec_config_id id = 0; id < EC_CONFIGS; id++)
            if (strlen(ec_configs[id].key) == key_bytes &&
                memcmp(ec_configs[id].key, *at, key_bytes) == 0) {
                *at += bytes;
                return id;
            }
        *at += bytes > 0 ? bytes : 1;
    }
    return EC_CONFIGS;
}

/* The place of the first key in front; those of others, when they are elsewhere, behind. */
int config_say_places(const struct config *config, int rc, struct ec_error *why)
{
    const char *first = NULL, *at = why->text;
    char behind[EC_ERROR_TEXT_BYTES] = "";
    size_t used = 0;
    enum ec_config_id id;

    while ((id = named_key(&at)) != EC_CONFIGS) {
        const char *origin = config->set.values[id].origin;

        if (origin == NULL)
            continue;
        if (first == NULL)
            first = origin;
        else if (strcmp(origin, first) != 0 && used < sizeof behind)
            used += (size_t)snprintf(behind + used, sizeof behind - used, "; %s is from %s",
                                     ec_configs[id].key, origin);
    }
    if (first == NULL || strncmp(why->text, first, strlen(first)) == 0)
        return rc;
    used = strlen(why->text);
    snprintf(why->text + used, sizeof why->text - used, "%s", behind);
    return ec_error_prefix(why, rc, "%s", first);
}

/* Origins are taken over also where the value is the same. false: no value that counts has changed. */
static bool take_over(struct config *config, struct config_set *fresh,
                      const bool changed[EC_CONFIGS])
{
    bool any = false;

    for (size_t i = 0; i < EC_CONFIGS; i++) {
        struct config_value before = config->set.values[i];

        if (changed[i] && !ec_configs[i].reloadable) {
            log_warning("config", "%s has changed and needs a restart", ec_configs[i].key);
            continue;
        }
        config->set.values[i] = fresh->values[i];
        fresh->values[i] = before;
        any = any || changed[i];
    }
    return any;
}

static void tell(struct config *config, enum ec_config_id id)
{
    for (unsigned l = 0; l < config->listener_count; l++)
        config->listeners[l].fn(config->listeners[l].context, id);
}

static void note_reload(struct config *config, int rc, const struct ec_error *why)
{
    config->last = (struct config_last) {
        .count = config->last.count + 1,
        .at_ns = ec_wall_ns(),
        .rc = rc,
    };
    if (rc < 0)
        snprintf(config->last.reason, sizeof config->last.reason, "%s", why->text);
}

/* ---- one value at run time --------------------------------------------------------------------- */

/* Let the key be what files and arguments say. */
static int take_back(struct config *config, enum ec_config_id id, struct ec_error *why)
{
    struct config_value kept = config->run_time.values[id];
    bool changed[EC_CONFIGS];
    int rc;

    config->run_time.values[id] = (struct config_value) { 0 };
    rc = config_reload(config, changed, why);
    if (rc < 0)
        config->run_time.values[id] = kept;
    else
        config_value_finish(&kept);
    return rc;
}

static int convert(enum ec_config_id id, struct ec_json_span value, struct config_value *out,
                   struct ec_error *why)
{
    const struct ec_config_row *row = &ec_configs[id];
    int rc;

    if (!row->reloadable)
        return ec_fail(why, EC_ERR_STATE, "%s needs a restart: set it in a file or with --set",
                       row->key);
    rc = config_read_value(row, value, out, why);
    if (rc == EC_OK && (out->origin = strdup(ORIGIN_RUN_TIME)) == NULL)
        rc = ec_fail(why, EC_ERR_MEMORY, "no memory for %s", row->key);
    return rc;
}

/* Does the value fit to the others? */
static int check_one(const struct config *config, enum ec_config_id id,
                     const struct config_value *value, struct ec_error *why)
{
    struct config_set set = config->set; /* borrowed */

    set.values[id] = *value;
    return check_together(config, &set, why);
}

static bool is_same(const struct ec_config_row *row, const struct config_value *a,
                    const struct config_value *b)
{
    return row->type == EC_CONFIG_STRING ? strcmp(a->text, b->text) == 0 : a->integer == b->integer;
}

static void warn_unknown(void *context, const char *where, const char *text)
{
    (void)context;
    log_warning("config", "%s: ignored: %s", where, text);
}
