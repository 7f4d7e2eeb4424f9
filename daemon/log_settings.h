/* log_settings.h - the log as the configuration wants it: levels and sinks, also when that changes.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_LOG_SETTINGS_H
#define ENGINE_CORED_LOG_SETTINGS_H

#include "foundation/error.h"

struct config;
struct services;

int log_settings_init(struct services *services, struct ec_error *why); /* module phase */

/* Do the values of log.* fit together? EC_OK, or EC_ERR_PARAM naming the key. A config_check_fn. */
int log_settings_check(void *context, const struct config *fresh, struct ec_error *why);

/* The names that log lines begin with, index 0.. until NULL. */
const char *log_settings_module(unsigned index);
/* Is it one of them? EC_OK, or EC_ERR_NOT_FOUND with the nearest one. */
int log_settings_check_module(const char *name, struct ec_error *why);

#endif
