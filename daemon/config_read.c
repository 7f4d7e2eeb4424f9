/* config_read.c - see config_read.h. */
#include "daemon/config_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/heap_file.h"
#include "foundation/json/json_scan.h"
#include "proto/tables/nearest.h"

#define CONFIG_FILE_BYTES_MAX (1024 * 1024)
#define CONFIG_KEY_BYTES 128
#define CONFIG_UNKNOWN_BYTES (2 * CONFIG_KEY_BYTES + 64)

/* The file while it is read. */
struct config_text {
    const struct config_reader *reader;
    const char *path;
    char *bytes;
    size_t count;
    bool given[EC_CONFIGS]; /* a key may come nested and flat, but not both */
};

static int read_file(struct config_text *text, struct ec_error *why);
static int apply_object(struct config_text *text, const char *prefix, struct ec_json_span object,
                        struct ec_error *why);
static int apply_member(struct config_text *text, const char *key, struct ec_json_span value,
                        struct ec_error *why);
static int check_integer(const struct ec_config_row *row, int64_t value, struct ec_error *why);
static int check_text(const struct ec_config_row *row, const char *text, struct ec_error *why);
static bool is_one_of(const char *text, const char *list);

int config_set_defaults(struct config_set *set, struct ec_error *why)
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

void config_value_finish(struct config_value *value)
{
    free(value->text);
    free(value->origin);
    *value = (struct config_value) { 0 };
}

void config_set_finish(struct config_set *set)
{
    for (size_t i = 0; i < EC_CONFIGS; i++)
        config_value_finish(&set->values[i]);
}

int config_value_copy(struct config_value *to, const struct config_value *from)
{
    *to = (struct config_value) { .integer = from->integer };
    if (from->text != NULL && (to->text = strdup(from->text)) == NULL)
        return EC_ERR_MEMORY;
    if (from->origin != NULL && (to->origin = strdup(from->origin)) == NULL)
        return EC_ERR_MEMORY;
    return EC_OK;
}

int config_read_file(const struct config_reader *reader, const char *path, struct ec_error *why)
{
    struct config_text text = { .reader = reader, .path = path };
    int rc = read_file(&text, why);

    if (rc == EC_OK)
        rc = apply_object(&text, "", ec_json_root(text.bytes, text.count), why);
    free(text.bytes);
    return rc;
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
    config_blank_comments(text->bytes, text->count);
    if (ec_json_check(text->bytes, text->count, NULL, &fault) < 0) {
        ec_json_position(text->bytes, fault.offset, &line, &column);
        return ec_fail(why, EC_ERR_PARSE, "%s:%zu:%zu: %s", text->path, line, column, fault.reason);
    }
    if (ec_json_type_of(ec_json_root(text->bytes, text->count)) != EC_JSON_OBJECT)
        return ec_fail(why, EC_ERR_PARAM, "%s:1:1: expected an object", text->path);
    return EC_OK;
}

/* Lay the members of an object over the values; prefix is the path to it, dot included. */
static int apply_object(struct config_text *text, const char *prefix, struct ec_json_span object,
                        struct ec_error *why)
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
            rc = apply_member(text, key, value, why);
        } else if (config_find(key) < 0 && ec_json_type_of(value) == EC_JSON_OBJECT) {
            strcat(key, ".");
            rc = apply_object(text, key, value, why);
        } else {
            rc = apply_member(text, key, value, why);
        }
    }
    return rc;
}

static int apply_member(struct config_text *text, const char *key, struct ec_json_span value,
                        struct ec_error *why)
{
    struct config_set *set = text->reader->set;
    const int id = config_find(key);
    struct config_value fresh = { 0 };
    char place[4096 + 64];
    size_t line, column;
    int rc;

    ec_json_position(text->bytes, (size_t)(value.text - text->bytes), &line, &column);
    snprintf(place, sizeof place, "%s:%zu:%zu", text->path, line, column);
    if (id < 0) {
        char unknown[CONFIG_UNKNOWN_BYTES];

        config_unknown_text(key, unknown, sizeof unknown);
        text->reader->on_unknown(text->reader->context, place, unknown);
        return EC_OK;
    }
    if (text->given[id])
        rc = ec_fail(why, EC_ERR_PARAM, "%s is given twice", key);
    else
        rc = config_read_value(&ec_configs[id], value, &fresh, why);
    if (rc == EC_OK && (fresh.origin = strdup(place)) == NULL)
        rc = ec_fail(why, EC_ERR_MEMORY, "origin of %s", key);
    if (rc < 0) {
        config_value_finish(&fresh);
        return ec_error_prefix(why, rc, "%s", place);
    }
    text->given[id] = true;
    config_value_finish(&set->values[id]);
    set->values[id] = fresh;
    return EC_OK;
}

int config_read_argument(struct config_set *set, const char *argument, struct ec_error *why)
{
    const char *equals = strchr(argument, '=');
    struct config_value fresh = { 0 };
    char key[CONFIG_KEY_BYTES];
    int id, rc;

    if (equals == NULL || equals == argument || (size_t)(equals - argument) >= sizeof key)
        return ec_fail(why, EC_ERR_PARAM, "--set %s: expected key=value", argument);
    memcpy(key, argument, (size_t)(equals - argument));
    key[equals - argument] = '\0';
    id = config_find(key);
    if (id < 0) {
        char unknown[CONFIG_UNKNOWN_BYTES];

        config_unknown_text(key, unknown, sizeof unknown);
        return ec_fail(why, EC_ERR_PARAM, "--set %s: %s", argument, unknown);
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
        rc = config_read_value(&ec_configs[id], value, &fresh, why);
    }
    if (rc == EC_OK && (fresh.origin = strdup("--set")) == NULL)
        rc = ec_fail(why, EC_ERR_MEMORY, "origin of %s", key);
    if (rc < 0) {
        config_value_finish(&fresh);
        return ec_error_prefix(why, rc, "--set %s", argument);
    }
    config_value_finish(&set->values[id]);
    set->values[id] = fresh;
    return EC_OK;
}

int config_read_value(const struct ec_config_row *row, struct ec_json_span value,
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

    if ((int64_t)bytes < row->min || (int64_t)bytes > row->max)
        return ec_fail(why, EC_ERR_PARAM, "%s has %zu bytes, allowed are %" PRId64 " to %" PRId64,
                       row->key, bytes, row->min, row->max);
    if (row == &ec_configs[EC_CONFIG_log_level] && !is_one_of(text, ec_log_level_list))
        return ec_fail(why, EC_ERR_PARAM, "%s is %s, allowed are %s", row->key, text,
                       ec_log_level_list);
    if (row == &ec_configs[EC_CONFIG_resource_heap_huge] && !is_one_of(text, HEAP_FILE_HUGE))
        return ec_fail(why, EC_ERR_PARAM, "%s is %s, allowed are %s", row->key, text,
                       HEAP_FILE_HUGE);
    return EC_OK;
}

/* list: words with ", " between. */
static bool is_one_of(const char *text, const char *list)
{
    const size_t bytes = strlen(text);

    for (;;) {
        const size_t word_bytes = strcspn(list, ",");

        if (word_bytes == bytes && memcmp(list, text, bytes) == 0)
            return true;
        if (list[word_bytes] == '\0')
            return false;
        list += word_bytes + 2;
    }
}

int config_find(const char *key)
{
    for (size_t i = 0; i < EC_CONFIGS; i++)
        if (strcmp(ec_configs[i].key, key) == 0)
            return (int)i;
    return -1;
}

void config_unknown_text(const char *key, char *text, size_t bytes)
{
    struct ec_nearest nearest;

    ec_nearest_init(&nearest, key, strlen(key));
    for (size_t i = 0; i < EC_CONFIGS; i++)
        ec_nearest_offer(&nearest, ec_configs[i].key);
    if (nearest.best != NULL)
        snprintf(text, bytes, "unknown key %s, did you mean %s?", key, nearest.best);
    else
        snprintf(text, bytes, "unknown key %s", key);
}

void config_blank_comments(char *text, size_t bytes)
{
    bool in_string = false;

    for (size_t i = 0; i < bytes; i++) {
        const char next = i + 1 < bytes ? text[i + 1] : '\0';

        if (in_string) {
            in_string = text[i] != '"';
            i += text[i] == '\\'; /* whatever it is, it does not end the string */
        } else if (text[i] == '"') {
            in_string = true;
        } else if (text[i] == '/' && next == '/') {
            for (; i < bytes && text[i] != '\n'; i++)
                text[i] = ' ';
        } else if (text[i] == '/' && next == '*') {
            const char *end = memmem(text + i + 2, bytes - i - 2, "*/", 2);

            if (end == NULL)
                return; /* it stays, and is an error */
            for (size_t stop = (size_t)(end - text) + 2; i < stop; i++)
                if (text[i] != '\n')
                    text[i] = ' ';
            i--;
        }
    }
}
