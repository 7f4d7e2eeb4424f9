/* config_commands.h - reload the configuration and tell everybody who has to know: callers, log and
 * service manager.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_CONFIG_COMMANDS_H
#define ENGINE_CORED_CONFIG_COMMANDS_H

#include <stdbool.h>

#include "foundation/error.h"
#include "proto/tables.h"

struct services;

/* Module phase, behind config_init: watch the files. */
int config_post_init(struct services *services, struct ec_error *why);

/* config_reload(), said in the log and to the service manager. by: "SIGHUP", "request". */
int config_reload_and_tell(struct services *services, const char *by, bool changed[EC_CONFIGS],
                           struct ec_error *why);

#endif
