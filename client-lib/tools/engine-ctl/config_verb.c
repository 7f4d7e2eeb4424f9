/* engine-ctl config show, get, set, reload, check, schema */
#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/tables.h"
#include "proto/tables/nearest.h"

enum { ORIGIN, CHANGED }; /* rows of the options of config show */

#define DAEMON "engine-cored"

static const struct ec_config_row *find_key(const char *key);
static int fail_key(const char *key);
static char *value_text(const cJSON *value);
static void print_all(const struct ctl *ctl, const cJSON *result, bool with_origin,
                      bool only_changed);
static void print_usual(const struct ctl *ctl, const cJSON *result);
static void print_with_origin(const struct ctl *ctl, const cJSON *result);
static void print_changed(const struct ctl *ctl, const cJSON *result);
static void print_value(const struct ctl *ctl, const cJSON *result);
static void print_reload(const struct ctl *ctl, const cJSON *result);
static cJSON *schema_of(const struct ec_config_row *row);

int verb_config_show(struct ctl *ctl, const struct verb_input *input)
{
    return ctl_show(ctl, "config.get", NULL,
                    input->options[CHANGED] != NULL  ? print_changed
                    : input->options[ORIGIN] != NULL ? print_with_origin
                                                     : print_usual);
}

int verb_config_get(struct ctl *ctl, const struct verb_input *input)
{
    cJSON *params;

    if (find_key(input->arguments[0]) == NULL)
        return fail_key(input->arguments[0]);
    params = cJSON_CreateObject();
    cJSON_AddStringToObject(params, "key", input->arguments[0]);
    return ctl_show(ctl, "config.get", params, print_value);
}

/* A string needs no quotes, anything else is written as in JSON. */
int verb_config_set(struct ctl *ctl, const struct verb_input *input)
{
    const struct ec_config_row *row = find_key(input->arguments[0]);
    const char *text = input->arguments[1];
    cJSON *params, *value;

    if (row == NULL)
        return fail_key(input->arguments[0]);
    value = row->type == EC_CONFIG_STRING && strcmp(text, "null") != 0
                ? cJSON_CreateString(text)
                : cJSON_ParseWithOpts(text, NULL, true);
    if (value == NULL)
        return ctl_fail(EXIT_USAGE, "config set: %s is %s, expected %s", row->key, text,
                        row->type == EC_CONFIG_BOOLEAN ? "true or false" : "a number");
    if (cJSON_IsNumber(value)) { /* as it was written: a double would lose digits */
        cJSON_Delete(value);
        value = cJSON_CreateRaw(text);
    }
    params = cJSON_CreateObject();
    cJSON_AddStringToObject(params, "key", row->key);
    cJSON_AddItemToObject(params, "value", value);
    return ctl_show(ctl, "config.set", params, print_with_origin);
}

/* A file that is refused is a result, not an error of the request; a script must see it all the same. */
int verb_config_reload(struct ctl *ctl, const struct verb_input *input)
{
    struct json_answer answer;
    int rc = ctl_call(ctl, "config.reload", NULL, &answer);

    (void)input;
    if (rc == EXIT_DONE) {
        if (ctl->json)
            printf("%.*s\n", (int)answer.result_bytes, answer.result);
        else
            print_reload(ctl, answer.tree);
        rc = ctl_flush();
        if (rc == EXIT_DONE && cJSON_GetArraySize(json_member(answer.tree, "errors")) > 0)
            rc = EXIT_ANSWERED_ERROR;
    }
    json_answer_finish(&answer);
    return rc;
}

/* The daemon's own reader looks at it, whether a daemon runs or not: the one beside this program, or else
 * the one in PATH. */
int verb_config_check(struct ctl *ctl, const struct verb_input *input)
{
    char path[PATH_MAX] = "";
    ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - sizeof DAEMON - 1);
    const char *const arguments[] = { DAEMON, "--check", input->arguments[0], NULL };
    char *slash;

    (void)ctl;
    path[bytes > 0 ? bytes : 0] = '\0';
    slash = strrchr(path, '/');
    if (slash != NULL) {
        strcpy(slash + 1, DAEMON);
        execv(path, (char *const *)(uintptr_t)arguments);
    }
    execvp(DAEMON, (char *const *)(uintptr_t)arguments);
    return ctl_fail(EXIT_ANSWERED_ERROR, "config check: %s cannot be run: %s", DAEMON,
                    strerror(errno));
}

int verb_config_schema(struct ctl *ctl, const struct verb_input *input)
{
    cJSON *schema = cJSON_CreateObject(), *properties;
    char *text;

    (void)ctl;
    (void)input;
    cJSON_AddStringToObject(schema, "$schema", "https://json-schema.org/draft/2020-12/schema");
    cJSON_AddStringToObject(schema, "title", "engine-core configuration");
    cJSON_AddStringToObject(schema, "type", "object");
    properties = cJSON_AddObjectToObject(schema, "properties");
    for (size_t i = 0; i < EC_CONFIGS; i++) { /* flat, and nested by the first word */
        const char *dot = strchr(ec_configs[i].key, '.');
        char group[64];
        cJSON *nested;

        snprintf(group, sizeof group, "%.*s", (int)(dot - ec_configs[i].key), ec_configs[i].key);
        nested = cJSON_GetObjectItemCaseSensitive(properties, group);
        if (nested == NULL) {
            nested = cJSON_AddObjectToObject(properties, group);
            cJSON_AddStringToObject(nested, "type", "object");
            cJSON_AddObjectToObject(nested, "properties");
        }
        cJSON_AddItemToObject(cJSON_GetObjectItemCaseSensitive(nested, "properties"), dot + 1,
                              schema_of(&ec_configs[i]));
        cJSON_AddItemToObject(properties, ec_configs[i].key, schema_of(&ec_configs[i]));
    }
    text = cJSON_Print(schema);
    cJSON_Delete(schema);
    puts(text);
    cJSON_free(text);
    return ctl_flush();
}

static const struct ec_config_row *find_key(const char *key)
{
    for (size_t i = 0; i < EC_CONFIGS; i++)
        if (strcmp(ec_configs[i].key, key) == 0)
            return &ec_configs[i];
    return NULL;
}

static int fail_key(const char *key)
{
    struct ec_nearest nearest;

    ec_nearest_init(&nearest, key, strlen(key));
    for (size_t i = 0; i < EC_CONFIGS; i++)
        ec_nearest_offer(&nearest, ec_configs[i].key);
    if (nearest.best != NULL)
        return ctl_fail(EXIT_USAGE, "there is no key %s, did you mean %s?", key, nearest.best);
    return ctl_fail(EXIT_USAGE, "there is no key %s; see engine-ctl config show", key);
}

/* For people; free it. */
static char *value_text(const cJSON *value)
{
    char *text = NULL;

    if (cJSON_IsNumber(value) && asprintf(&text, "%.0f", value->valuedouble) > 0)
        return text; /* up to 2^53 exact, and no key allows more */
    text = cJSON_PrintUnformatted(value);
    return text != NULL ? text : strdup("");
}

static void print_all(const struct ctl *ctl, const cJSON *result, bool with_origin,
                      bool only_changed)
{
    static const struct column columns[] = {
        { "KEY", false },     { "VALUE", false },  { "UNIT", false },
        { "APPLIES", false }, { "ORIGIN", false },
    };
    struct table table = { .columns = columns, .column_count = with_origin ? 5 : 4 };
    const cJSON *item;

    cJSON_ArrayForEach(item, json_member(result, "items"))
    {
        char *text;

        if (only_changed && strcmp(json_text(item, "origin"), "built-in") == 0)
            continue;
        text = value_text(json_member(item, "value"));
        table_cell(&table, "%s", json_text(item, "key"));
        table_cell(&table, "%s", text);
        table_cell(&table, "%s", json_text(item, "unit"));
        table_cell(&table, "%s", json_is_true(item, "reloadable") ? "at once" : "at a restart");
        if (with_origin)
            table_cell(&table, "%s", json_text(item, "origin"));
        free(text);
    }
    table_print(&table, stdout, ctl->colours);
}

static void print_usual(const struct ctl *ctl, const cJSON *result)
{
    print_all(ctl, result, false, false);
}

static void print_with_origin(const struct ctl *ctl, const cJSON *result)
{
    print_all(ctl, result, true, false);
}

static void print_changed(const struct ctl *ctl, const cJSON *result)
{
    print_all(ctl, result, true, true);
}

/* The value alone, for scripts. */
static void print_value(const struct ctl *ctl, const cJSON *result)
{
    const cJSON *value = json_member(cJSON_GetArrayItem(json_member(result, "items"), 0), "value");
    char *text = value_text(value);

    (void)ctl;
    printf("%s\n", cJSON_IsString(value) ? value->valuestring : text);
    free(text);
}

static void print_reload(const struct ctl *ctl, const cJSON *result)
{
    const cJSON *row;

    (void)ctl;
    cJSON_ArrayForEach(row, json_member(result, "errors"))
        printf("refused, nothing was changed: %s\n", row->valuestring);
    cJSON_ArrayForEach(row, json_member(result, "changed"))
        printf("%s has changed\n", row->valuestring);
    cJSON_ArrayForEach(row, json_member(result, "needs_restart"))
        printf("%s needs a restart\n", row->valuestring);
    printf("version %.0f\n", json_number(result, "version"));
}

static cJSON *schema_of(const struct ec_config_row *row)
{
    cJSON *schema = cJSON_CreateObject();
    char number[32];

    cJSON_AddStringToObject(schema, "description", row->help);
    if (row->type == EC_CONFIG_BOOLEAN) {
        cJSON_AddStringToObject(schema, "type", "boolean");
        cJSON_AddBoolToObject(schema, "default", row->integer != 0);
    } else if (row->type == EC_CONFIG_STRING) {
        cJSON_AddStringToObject(schema, "type", "string");
        cJSON_AddStringToObject(schema, "default", row->string);
        cJSON_AddNumberToObject(schema, "maxLength", (double)row->max);
    } else {
        const int64_t numbers[] = { row->integer, row->min, row->max };
        static const char *const names[] = { "default", "minimum", "maximum" };

        cJSON_AddStringToObject(schema, "type", "integer");
        for (int i = 0; i < 3; i++) {
            snprintf(number, sizeof number, "%" PRId64, numbers[i]);
            cJSON_AddRawToObject(schema, names[i], number);
        }
    }
    return schema;
}
