/* Configuration files of any content: they are refused with a place, or all values are in range. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/config.h"
#include "daemon/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_values(const struct config *config)
{
    for (enum ec_config_id id = 0; id < EC_CONFIGS; id++) {
        const struct ec_config_row *row = &ec_configs[id];
        const int64_t value = row->type == EC_CONFIG_STRING
                                  ? (int64_t)strlen(config_string(config, id))
                                  : config_integer(config, id);

        if (config_origin(config, id)[0] == '\0' ||
            (row->type != EC_CONFIG_BOOLEAN && (value < row->min || value > row->max)))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static int fd = -1;
    static char path[64];
    struct config_source source = { .file = path };
    bool changed[EC_CONFIGS];
    struct config *config;
    struct ec_error why;

    if (fd < 0) {
        log_set_level(LOG_LEVEL_ERROR); /* unknown keys are warnings, and there will be many */
        fd = memfd_create("config", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || ftruncate(fd, 0) < 0 || pwrite(fd, data, bytes, 0) != (ssize_t)bytes)
        abort();
    if (config_create(&source, &config, &why) < 0) {
        if (config != NULL || strncmp(why.text, path, strlen(path)) != 0)
            abort();
        return 0;
    }
    check_values(config);
    if (config_reload(config, changed, &why) != EC_OK)
        abort();
    for (size_t i = 0; i < EC_CONFIGS; i++)
        if (changed[i])
            abort();
    config_destroy(config);
    return 0;
}
