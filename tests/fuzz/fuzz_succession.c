/* What a run left of its groups, of any content: refused with a reason, or every group that is defined now is one
 * that can be loaded. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "clients/clients.h"
#include "daemon/config.h"
#include "daemon/log.h"
#include "daemon/services.h"
#include "resources/state.h"
#include "resources/succession.h"

#define INSTANCE 0x1234 /* as in the corpus */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct services services;
static struct resources resources;
static struct ec_directory directory;

static void prepare(void)
{
    const struct config_source source = { 0 };
    struct ec_error why = { 0 };

    log_set_level(LOG_LEVEL_ERROR);
    if (config_create(&source, &services.config, &why) < 0 || clients_init(&services, &why) < 0)
        abort();
    resources.services = &services;
    resources.directory = &directory;
}

static void check_group(const struct group *group)
{
    if (group->name[0] == '\0' || group->priority > LOAD_PRIORITY_MAX ||
        (group->state != GROUP_EVICTED && group->state != GROUP_UNLOADED))
        abort();
    for (uint32_t i = 0; i < group->count; i++) {
        const struct resource *member = group->members[i];

        if (resources.by_index[member->index] != member || member->kind > EC_KIND_IMAGE ||
            member->options.channels > 4)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct ec_error why = { 0 };

    if (services.config == NULL)
        prepare();
    if (succession_read(&resources, (const char *)data, bytes, INSTANCE, &why) < 0 &&
        why.text[0] == '\0')
        abort();
    for (const struct group *group = resources.groups; group != NULL; group = group->hh.next)
        check_group(group);
    groups_free(&resources);
    resources.group_count = 0;
    if (atomic_load(&directory.high) > 0)
        memset(&directory, 0, sizeof directory);
    return 0;
}
