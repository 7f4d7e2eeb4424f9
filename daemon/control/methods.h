/* methods.h - find a command by its method name, and the names of its parameters.
 *
 * Thread: loop. Cost: one hash of the name and, nearly always, one comparison. */
#ifndef ENGINE_CORED_CONTROL_METHODS_H
#define ENGINE_CORED_CONTROL_METHODS_H

#include "foundation/json/json_span.h"
#include "proto/tables.h"

#define METHOD_SLOTS 256 /* a power of two, at least twice the commands */
#define METHOD_PARAMS_MAX 16
#define METHOD_BYTES_MAX 128

struct methods {
    uint8_t slots[METHOD_SLOTS];                        /* index of the command + 1; 0: free */
    const char *params[EC_COMMANDS][METHOD_PARAMS_MAX]; /* names, for ec_json_bind */
    uint8_t
        dry_run[EC_COMMANDS]; /* place of that parameter in struct params_<id>; 0: it has none */
};

void methods_init(struct methods *methods);

/* name is a JSON string. Returns the index of the command, or -1. */
int methods_find(const struct methods *methods, struct ec_json_span name);

#endif
