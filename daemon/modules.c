/* The daemon's modules and the order in which they live and die. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "breaker/breaker.h"
#include "clients/clients.h"
#include "control/control.h"
#include "daemon/config.h"
#include "daemon/config_commands.h"
#include "daemon/crash_record.h"
#include "daemon/fd_store.h"
#include "daemon/heritage.h"
#include "daemon/log.h"
#include "daemon/log_feed.h"
#include "daemon/log_settings.h"
#include "daemon/module.h"
#include "daemon/own_memory.h"
#include "daemon/segments.h"
#include "daemon/services.h"
#include "events/events.h"
#include "http/http.h"
#include "metrics/metrics.h"
#include "postmortem/postmortem.h"
#include "resources/resources.h"
#include "scheduler/scheduler.h"
#include "telemetry/memory_watch.h"

static int start_log(struct services *services, struct ec_error *why);
static void stop_log(struct services *services);
static bool was_touched(const struct module *module, unsigned phase, bool in_phase);
static int check_needs(const struct module *modules, unsigned count, unsigned index,
                       struct ec_error *why);
static int check_cycle(const struct module *modules, unsigned count, unsigned first,
                       struct ec_error *why);

/* The daemon on one screen. Started downwards, shut down upwards. A module calls only modules above
 * it; what it has to tell those below goes out by callback or event. */
const struct module daemon_modules[] = {
    /* name        pre_init   init            post_init            shutdown            needs */
    { "log", start_log, NULL, NULL, stop_log, { NULL } },
    { "config", NULL, config_init, config_post_init, config_shutdown, { "log" } },
    { "log_settings", NULL, log_settings_init, NULL, NULL, { "config" } },
    { "crash_record",
      NULL,
      crash_record_init,
      crash_record_post_init,
      crash_record_shutdown,
      { "config" } },
    { "own_memory", NULL, own_memory_init, NULL, own_memory_shutdown, { "log" } },
    { "fd_store", NULL, fd_store_init, fd_store_post_init, fd_store_shutdown, { "config" } },
    { "heritage",
      NULL,
      heritage_init,
      heritage_post_init,
      heritage_shutdown,
      { "config", "fd_store" } },
    { "segments",
      NULL,
      segments_init,
      segments_post_init,
      segments_shutdown,
      { "heritage", "fd_store" } },
    { "clients", NULL, clients_init, clients_post_init, clients_shutdown, { "segments" } },
    { "log_feed", NULL, log_feed_init, NULL, log_feed_shutdown, { "clients" } },
    { "events", NULL, events_init, NULL, events_shutdown, { "clients" } },
    { "scheduler", NULL, scheduler_init, scheduler_post_init, scheduler_shutdown, { "events" } },
    { "resources", NULL, resources_init, resources_post_init, resources_shutdown, { "events" } },
    { "memory_watch",
      NULL,
      memory_watch_init,
      memory_watch_post_init,
      memory_watch_shutdown,
      { "clients" } },
    { "breaker", NULL, breaker_init, breaker_post_init, breaker_shutdown, { "resources" } },
    { "metrics", NULL, metrics_init, NULL, metrics_shutdown, { "breaker" } },
    { "http", NULL, http_init, http_post_init, http_shutdown, { "metrics" } },
    { "postmortem",
      NULL,
      postmortem_init,
      postmortem_post_init,
      postmortem_shutdown,
      { "clients", "crash_record" } },
    { "control",
      control_pre_init,
      control_init,
      control_post_init,
      control_shutdown,
      { "clients" } },
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
        if ((rc = check_cycle(modules, count, i, why)) < 0)
            return rc;
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
            if (rc < 0 && services != NULL && services->config != NULL)
                rc = config_say_places(services->config, rc, why);
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

static unsigned find(const struct module *modules, unsigned count, const char *name)
{
    unsigned at = 0;

    while (at < count && strcmp(modules[at].name, name) != 0)
        at++;
    return at;
}

/* Where one gets to from module `from` by needs, breadth first, until it is `first`: the shortest way.
 * via[m] is the module that needs m. Whether there is a way. */
static bool find_way(const struct module *modules, unsigned count, unsigned first,
                     unsigned via[MODULES_MAX])
{
    unsigned queue[MODULES_MAX], head = 0, tail = 0;
    bool seen[MODULES_MAX] = { false };

    queue[tail++] = first;
    while (head < tail) {
        const unsigned from = queue[head++];

        for (unsigned n = 0; n < MODULE_NEEDS_MAX && modules[from].needs[n] != NULL; n++) {
            const unsigned to = find(modules, count, modules[from].needs[n]);

            if (to == count || to == from || seen[to])
                continue;
            seen[to] = true;
            via[to] = from;
            if (to == first)
                return true;
            queue[tail++] = to;
        }
    }
    return false;
}

/* A cycle is told as such, from its first module on: `a needs c, c needs b, b needs a`. */
static int check_cycle(const struct module *modules, unsigned count, unsigned first,
                       struct ec_error *why)
{
    unsigned via[MODULES_MAX] = { 0 }, way[MODULES_MAX + 1], length = 0, at = first;
    char text[EC_ERROR_TEXT_BYTES] = "";

    if (count > MODULES_MAX)
        return ec_fail(why, EC_ERR_LIMIT, "%u modules, the limit is %d", count, MODULES_MAX);
    if (!find_way(modules, count, first, via))
        return EC_OK;
    do {
        way[length++] = at;
        at = via[at];
    } while (at != first);
    way[length] = first;
    for (unsigned i = 0, bytes = 0; i < length && bytes < sizeof text; i++)
        bytes += (unsigned)snprintf(text + bytes, sizeof text - bytes, "%s%s needs %s",
                                    i == 0 ? "" : ", ", modules[way[(length - i) % length]].name,
                                    modules[way[length - i - 1]].name);
    return ec_fail(why, EC_ERR_STATE, "modules need each other: %s", text);
}

static int check_needs(const struct module *modules, unsigned count, unsigned index,
                       struct ec_error *why)
{
    const struct module *module = &modules[index];

    for (unsigned i = 0; i < index; i++)
        if (strcmp(modules[i].name, module->name) == 0)
            return ec_fail(why, EC_ERR_STATE, "module %s stands twice", module->name);
    for (unsigned n = 0; n < MODULE_NEEDS_MAX && module->needs[n] != NULL; n++) {
        const unsigned at = find(modules, count, module->needs[n]);

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
