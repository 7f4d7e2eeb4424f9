/* config.h - the configuration: built-in < file < --set, each value with its origin.
 *
 *     stall_ms = config_integer(services->config, EC_CONFIG_event_stall_ms);
 *
 * Thread: loop; a module whose threads need a value copies it at start. Cost: an array look-up. */
#ifndef ENGINE_CORED_CONFIG_H
#define ENGINE_CORED_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "foundation/error.h"
#include "proto/tables.h"

struct config;
struct services;

int config_init(struct services *services, struct ec_error *why); /* module phase */
void config_shutdown(struct services *services);

struct config_source {
    const char *file;        /* --config; NULL: none */
    const char *const *sets; /* key=value of --set */
    unsigned set_count;
};

/* Read all layers. An unknown key is a warning with the nearest known one; a wrong type or range is
 * EC_ERR_PARAM with file:line:column, and nothing is created. */
int config_create(const struct config_source *source, struct config **config, struct ec_error *why);
void config_destroy(struct config *config);

int64_t config_integer(const struct config *config, enum ec_config_id id);
bool config_boolean(const struct config *config, enum ec_config_id id);
/* Valid until the next reload; copy what is kept. */
const char *config_string(const struct config *config, enum ec_config_id id);
const char *config_origin(const struct config *config,
                          enum ec_config_id id);      /* "built-in", "FILE:LINE", "--set" */
const char *config_file(const struct config *config); /* NULL: none */
uint64_t
config_version(const struct config *config); /* raised by each reload that changed something */

/* Read the layers again; apply the reloadable keys, all or nothing. changed[id] tells what differs
 * (keys that need a restart are reported there too and keep their value). */
int config_reload(struct config *config, bool changed[EC_CONFIGS], struct ec_error *why);

/* Ask fn whether values that were read anew fit together, before any of them counts. It returns EC_OK,
 * or an error whose text names the key; then the reload is refused as a whole. */
typedef int config_check_fn(void *context, const struct config *fresh, struct ec_error *why);
int config_add_check(struct config *config, config_check_fn *fn, void *context);

/* Tell fn of each reloadable key that changed. */
typedef void config_changed_fn(void *context, enum ec_config_id id);
int config_on_change(struct config *config, config_changed_fn *fn, void *context);

#endif
