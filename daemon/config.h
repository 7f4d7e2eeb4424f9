/* config.h - the configuration: built-in < files < --set < config.set, each value with its origin.
 *
 *     stall_ms = config_integer(services->config, EC_CONFIG_event_stall_ms);
 *
 * Thread: loop; a module whose threads need a value copies it at start. Cost: an array look-up. */
#ifndef ENGINE_CORED_CONFIG_H
#define ENGINE_CORED_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "foundation/error.h"
#include "foundation/json/json_span.h"
#include "proto/tables.h"

struct config;
struct services;

int config_init(struct services *services, struct ec_error *why); /* module phase */
void config_shutdown(struct services *services);

#define CONFIG_STANDARD_MAX 2 /* the system's and the user's */

/* Is told of each key in a file that the table does not know: where ("FILE:LINE"), and what about it. */
typedef void config_unknown_fn(void *context, const char *where, const char *text);

struct config_source {
    const char *file;                          /* --config; NULL: the standard ones */
    const char *standard[CONFIG_STANDARD_MAX]; /* read where they are there; later ones win */
    const char *const *sets;                   /* key=value of --set */
    unsigned set_count;
    config_unknown_fn *on_unknown; /* NULL: a warning in the log */
    void *context;
};

/* Read all layers. An unknown key in a file is a warning with the nearest known one, in --set an
 * error; a wrong type or range is EC_ERR_PARAM with file:line:column, and nothing is created. */
int config_create(const struct config_source *source, struct config **config, struct ec_error *why);
void config_destroy(struct config *config);

int64_t config_integer(const struct config *config, enum ec_config_id id);
bool config_boolean(const struct config *config, enum ec_config_id id);
/* Valid until the next reload; copy what is kept. */
const char *config_string(const struct config *config, enum ec_config_id id);
/* "built-in", "FILE:LINE:COLUMN", "--set" or "config.set" */
const char *config_origin(const struct config *config, enum ec_config_id id);
/* The files in the order in which they are read, index 0.. until NULL; also those that were missing. */
const char *config_file(const struct config *config, unsigned index);
bool config_file_was_read(const struct config *config, unsigned index);
/* Raised by each change of a value that counts. */
uint64_t config_version(const struct config *config);

struct config_last {
    uint64_t count; /* of reloads; 0: there was none */
    int64_t at_ns;  /* of the last, wall clock */
    int rc;
    char reason[EC_ERROR_TEXT_BYTES]; /* when it failed */
};
const struct config_last *config_last_reload(const struct config *config);

/* Read the layers again; apply the reloadable keys, all or nothing. changed[id] tells what differs
 * (keys that need a restart are reported there too and keep their value). */
int config_reload(struct config *config, bool changed[EC_CONFIGS], struct ec_error *why);
/* Only say what would change. */
int config_rehearse_reload(struct config *config, bool changed[EC_CONFIGS], struct ec_error *why);

/* Set a reloadable key until the daemon ends, over all layers; null takes that back.
 *
 * Returns EC_OK, EC_ERR_PARAM (type, range, or it does not fit to the others), EC_ERR_STATE (the key
 * needs a restart) or EC_ERR_MEMORY; for null what config_reload returns, too. */
int config_set(struct config *config, enum ec_config_id id, struct ec_json_span value,
               struct ec_error *why);
int config_rehearse_set(const struct config *config, enum ec_config_id id,
                        struct ec_json_span value, struct ec_error *why);

/* Ask fn whether values fit together: at once, and whenever some were read anew or set, before any of them
 * counts. It returns EC_OK, or an error whose text names the keys; then the reload is refused as a whole.
 * Where the keys come from is put in front of the text: it need not say it.
 *
 * Returns what fn says of the values in force, or EC_ERR_LIMIT. */
typedef int config_check_fn(void *context, const struct config *fresh, struct ec_error *why);
int config_add_check(struct config *config, config_check_fn *fn, void *context,
                     struct ec_error *why);

/* An error that names keys: put where they come from in front of its text, once. Keys that were not given
 * have no place. Returns rc. */
int config_say_places(const struct config *config, int rc, struct ec_error *why);

/* Tell fn of each reloadable key that changed. */
typedef void config_changed_fn(void *context, enum ec_config_id id);
int config_on_change(struct config *config, config_changed_fn *fn, void *context);

#endif
