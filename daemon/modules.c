/* The daemon's modules and the order in which they live and die. */
#include <stdbool.h>
#include <string.h>

#include "breaker/breaker.h"
#include "clients/clients.h"
#include "control/control.h"
#include "daemon/config.h"
#include "daemon/log.h"
#include "daemon/module.h"
#include "daemon/segments.h"
#include "events/events.h"
#include "resources/resources.h"
#include "scheduler/scheduler.h"

static int start_log(struct services *services, struct ec_error *why);
static void stop_log(struct services *services);
static bool was_touched(const struct module *module, unsigned phase, bool in_phase);
static int check_needs(const struct module *modules, unsigned count, unsigned index,
                       struct ec_error *why);

/* The daemon on one screen. Started downwards, shut down upwards. A module calls only modules above
 * it; what it has to tell those below goes out by callback or event. */
const struct module daemon_modules[] = {
    /* name        pre_init   init            post_init            shutdown            needs */
    { "log", start_log, NULL, NULL, stop_log, { NULL } },
    { "config", NULL, config_init, NULL, config_shutdown, { "log" } },
    { "segments", NULL, segments_init, NULL, segments_shutdown, { "config" } },
    { "clients", NULL, clients_init, NULL, clients_shutdown, { "segments" } },
    { "events", NULL, events_init, NULL, events_shutdown, { "clients" } },
    { "scheduler", NULL, scheduler_init, scheduler_post_init, scheduler_shutdown, { "events" } },
    { "resources", NULL, resources_init, resources_post_init, resources_shutdown, { "events" } },
    { "breaker", NULL, breaker_init, breaker_post_init, breaker_shutdown, { "resources" } },
    { "control", NULL, control_init, control_post_init, control_shutdown, { "clients" } },
};
const unsigned daemon_module_count = sizeof daemon_modules / sizeof daemon_modules[0];

const char *modules_name(unsigned index)
{
    return index < daemon_module_count ? daemon_modules[index].name : NULL;
}

int modules_start(const struct module *modules, unsigned count, struct services *services,
                  struct ec_error *why)
{
    int rc = EC_OK;

    for (unsigned i = 0; i < count; i++)
        if ((rc = check_needs(modules, count, i, why)) < 0)
            return rc;
    /* Phase by phase: a module may rely on the earlier phases of all others. */
    for (unsigned phase = 0; phase < 3; phase++)
        for (unsigned i = 0; i < count; i++) {
            int (*const run[])(struct services *, struct ec_error *) = { modules[i].pre_init,
                                                                         modules[i].init,
                                                                         modules[i].post_init };

            if (run[phase] == NULL)
                continue;
            rc = run[phase](services, why);
            if (rc < 0) {
                /* Shutdown accepts what is half-built, so the one that failed gets it, too. */
                for (unsigned m = count; m-- > 0;)
                    if (modules[m].shutdown != NULL && was_touched(&modules[m], phase, m <= i))
                        modules[m].shutdown(services);
                return ec_error_prefix(why, rc, "%s", modules[i].name);
            }
        }
    return EC_OK;
}

/* Has a phase of this module been run? in_phase: this phase has come as far as this module. */
static bool was_touched(const struct module *module, unsigned phase, bool in_phase)
{
    return (module->pre_init != NULL && (phase > 0 || in_phase)) ||
           (module->init != NULL && (phase > 1 || (phase == 1 && in_phase))) ||
           (module->post_init != NULL && phase == 2 && in_phase);
}

void modules_stop(const struct module *modules, unsigned count, struct services *services)
{
    for (unsigned i = count; i-- > 0;)
        if (modules[i].shutdown != NULL)
            modules[i].shutdown(services);
}

static int check_needs(const struct module *modules, unsigned count, unsigned index,
                       struct ec_error *why)
{
    const struct module *module = &modules[index];

    for (unsigned i = 0; i < index; i++)
        if (strcmp(modules[i].name, module->name) == 0)
            return ec_fail(why, EC_ERR_STATE, "module %s stands twice", module->name);
    for (unsigned n = 0; n < MODULE_NEEDS_MAX && module->needs[n] != NULL; n++) {
        unsigned at = 0;

        while (at < count && strcmp(modules[at].name, module->needs[n]) != 0)
            at++;
        if (at == count)
            return ec_fail(why, EC_ERR_STATE, "module %s needs %s, which does not exist",
                           module->name, module->needs[n]);
        if (at == index)
            return ec_fail(why, EC_ERR_STATE, "module %s needs itself", module->name);
        if (at > index)
            return ec_fail(why, EC_ERR_STATE, "module %s needs %s, which starts after it",
                           module->name, module->needs[n]);
    }
    return EC_OK;
}

/* Pre-init, so that every later phase of every module can log. */
static int start_log(struct services *services, struct ec_error *why)
{
    (void)services;
    return log_start() < 0 ? ec_fail(why, EC_ERR_SYSTEM, "cannot start the writer thread") : EC_OK;
}

static void stop_log(struct services *services)
{
    (void)services;
    log_stop();
}
