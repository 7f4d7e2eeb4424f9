/* Manifests of any content: refused with a reason, or every text is bounded and every group has something. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "resources/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_text(const char *text, size_t max)
{
    if (text == NULL || text[0] == '\0' || strlen(text) > max)
        abort();
}

static void check_group(const struct group_desc *group)
{
    check_text(group->name, GROUP_NAME_BYTES - 1);
    if (group->count == 0 && group->depend_count == 0)
        abort();
    for (uint32_t i = 0; i < group->count; i++) {
        check_text(group->resources[i].name, EC_RESOURCE_NAME_BYTES - 1);
        check_text(group->resources[i].path, SEARCH_PATH_BYTES - 1);
    }
    for (uint32_t i = 0; i < group->depend_count; i++)
        check_text(group->depends[i], GROUP_NAME_BYTES - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct manifest manifest;
    struct ec_error why = { 0 };
    int rc = manifest_read((const char *)data, bytes, &manifest, &why);

    if (rc < 0) {
        if (why.text[0] == '\0' || manifest.groups != NULL)
            abort();
        return 0;
    }
    for (uint32_t i = 0; i < manifest.count; i++)
        check_group(&manifest.groups[i]);
    manifest_finish(&manifest);
    return 0;
}
