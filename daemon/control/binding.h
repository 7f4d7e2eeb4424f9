/* binding.h - bind the parameters of a request to struct params_<id>, as the command table says.
 *
 * Values are checked for type and range and converted straight from the text; no tree is built. An
 * unknown name is an error that says the nearest known one.
 *
 * Thread: loop. */
#ifndef ENGINE_CORED_CONTROL_BINDING_H
#define ENGINE_CORED_CONTROL_BINDING_H

#include "control/methods.h"
#include "control/request_memory.h"
#include "daemon/request.h"

/* object is the checked params, or empty. params gets the struct params_<id> of the command: one
 * struct param of no use and one for each row. Strings go into memory.
 *
 * Returns EC_OK, EC_ERR_PARAM (data gets {param, reason}) or EC_ERR_MEMORY. */
int binding_bind(const struct methods *methods, int command, struct ec_json_span object,
                 struct request_memory *memory, struct param params[METHOD_PARAMS_MAX + 1],
                 struct ec_json_writer *data, struct ec_error *why);

/* Write {param, reason} for an EC_ERR_PARAM of which only the text is known: the parameter is the one whose
 * name the text begins with, or is left out. */
void binding_say_param(int command, const char *text, struct ec_json_writer *data);

#endif
