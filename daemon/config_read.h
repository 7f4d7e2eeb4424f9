/* config_read.h - what config.c reads its layers with: files, arguments and single values, all checked
 * against the table.
 *
 * In a file, {"event": {"stall_ms": 100}} and {"event.stall_ms": 100} are the same, and what stands
 * between // and the end of its line, or in slashes with stars, is comment.
 *
 * Thread: any, each set by one at a time. */
#ifndef ENGINE_CORED_CONFIG_READ_H
#define ENGINE_CORED_CONFIG_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/config.h"
#include "foundation/error.h"
#include "foundation/json/json_span.h"
#include "proto/tables.h"

/* One key's value and where it comes from. */
struct config_value {
    int64_t integer; /* or boolean */
    char *text;      /* of a string; the value's own */
    char *origin;    /* NULL: built-in; the value's own */
};

struct config_set {
    struct config_value values[EC_CONFIGS];
};

struct config_reader {
    struct config_set *set;
    config_unknown_fn *on_unknown;
    void *context;
};

/* EC_OK or EC_ERR_MEMORY. A set that was begun is to be finished, also after an error. */
int config_set_defaults(struct config_set *set, struct ec_error *why);
void config_set_finish(struct config_set *set);
void config_value_finish(struct config_value *value);
int config_value_copy(struct config_value *to, const struct config_value *from);

/* Lay a file over the set.
 *
 * Returns EC_OK, EC_ERR_SYSTEM (cannot be read), EC_ERR_SIZE, EC_ERR_PARSE, EC_ERR_PARAM or EC_ERR_MEMORY;
 *         the text begins with the path, and names line and column of what is wrong in it. */
int config_read_file(const struct config_reader *reader, const char *path, struct ec_error *why);

/* Lay key=value over the set: a string needs no quotes, anything else is written as in JSON.
 *
 * Returns EC_OK, EC_ERR_PARAM (also for an unknown key: the nearest one is named) or EC_ERR_MEMORY. */
int config_read_argument(struct config_set *set, const char *argument, struct ec_error *why);

/* Convert one JSON value, as the row says. EC_OK, EC_ERR_PARAM or EC_ERR_MEMORY. */
int config_read_value(const struct ec_config_row *row, struct ec_json_span value,
                      struct config_value *out, struct ec_error *why);

/* The row of a key; -1 when there is none. */
int config_find(const char *key);
/* "unknown key KEY", and the nearest one that there is. */
void config_unknown_text(const char *key, char *text, size_t bytes);

/* Blank comments out, so that all else keeps its place. */
void config_blank_comments(char *text, size_t bytes);

#endif
