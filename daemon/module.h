/* module.h - what a part of the daemon is: a name, four phases, and what it needs.
 *
 * pre_init   before anything else is up; only the raw log works
 * init       build the state; everything named in needs has been built
 * post_init  start threads and accept work; every module has been built
 * shutdown   give everything back; accepts a half-built module; called in reverse order
 *
 * Each phase may be NULL. init functions put their pointer into services. */
#ifndef ENGINE_CORED_MODULE_H
#define ENGINE_CORED_MODULE_H

#include "foundation/error.h"

struct services;

#define MODULE_NEEDS_MAX 8
#define MODULES_MAX 32

struct module {
    const char *name;
    int (*pre_init)(struct services *services, struct ec_error *why);
    int (*init)(struct services *services, struct ec_error *why);
    int (*post_init)(struct services *services, struct ec_error *why);
    void (*shutdown)(struct services *services);
    const char *needs[MODULE_NEEDS_MAX];
};

/* Check names and order, then run the phases. On failure everything that was started is shut down.
 *
 * Returns EC_OK, EC_ERR_STATE (a need is missing, comes later or is its own: the text names both; or
 * modules need each other: it names all of the cycle), EC_ERR_LIMIT (more than MODULES_MAX) or the
 * error of the phase that failed, prefixed with the module's name. */
int modules_start(const struct module *modules, unsigned count, struct services *services,
                  struct ec_error *why);
void modules_stop(const struct module *modules, unsigned count, struct services *services);

/* The daemon's own table. */
extern const struct module daemon_modules[];
extern const unsigned daemon_module_count;

/* Names of the daemon's modules in their order; NULL after the last. */
const char *modules_name(unsigned index);

#endif
