/* log_settings.c - see log_settings.h. */
#include "daemon/log_settings.h"

#include <stdio.h>
#include <string.h>

#include "daemon/config.h"
#include "daemon/log_sinks.h"
#include "daemon/module.h"
#include "daemon/services.h"
#include "proto/tables/nearest.h"

static void on_change(void *context, enum ec_config_id id);
static void apply(const struct config *config);
static int parse_levels(const char *text, bool is_applied, struct ec_error *why);
static int parse_sinks(const struct config *config, struct log_sinks_desc *desc,
                       struct ec_error *why);

int log_settings_init(struct services *services, struct ec_error *why)
{
    int rc = config_add_check(services->config, log_settings_check, NULL, why);

    if (rc < 0)
        return rc;
    apply(services->config);
    rc = config_on_change(services->config, on_change, services->config);
    return rc < 0 ? ec_fail(why, rc, "too many want to hear of changes") : rc;
}

int log_settings_check_module(const char *name, struct ec_error *why)
{
    struct ec_nearest nearest;
    const char *known;

    ec_nearest_init(&nearest, name, strlen(name));
    for (unsigned i = 0; (known = log_settings_module(i)) != NULL; i++) {
        if (strcmp(known, name) == 0)
            return EC_OK;
        ec_nearest_offer(&nearest, known);
    }
    if (nearest.best != NULL)
        return ec_fail(why, EC_ERR_NOT_FOUND, "there is no module %s, did you mean %s?", name,
                       nearest.best);
    return ec_fail(why, EC_ERR_NOT_FOUND, "there is no module %s", name);
}

const char *log_settings_module(unsigned index)
{
    return index == 0 ? "main" : modules_name(index - 1);
}

int log_settings_check(void *context, const struct config *fresh, struct ec_error *why)
{
    struct log_sinks_desc desc;
    int rc = parse_levels(config_string(fresh, EC_CONFIG_log_levels), false, why);

    (void)context;
    if (rc == EC_OK)
        rc = parse_sinks(fresh, &desc, why);
    return rc;
}

static void on_change(void *context, enum ec_config_id id)
{
    if (strncmp(ec_configs[id].key, "log.", 4) == 0)
        apply(context);
}

static void apply(const struct config *config)
{
    struct log_sinks_desc desc;
    struct ec_error why;
    enum log_level level;

    if (log_level_parse(config_string(config, EC_CONFIG_log_level), &level))
        log_set_level(level);
    log_clear_module_levels();
    parse_levels(config_string(config, EC_CONFIG_log_levels), true, &why);
    if (parse_sinks(config, &desc, &why) == EC_OK)
        log_use_sinks(&desc);
}

/* The next word of a list with commas between; false: there is none. */
static bool next_word(const char **list, char word[64])
{
    const size_t bytes = strcspn(*list, ",");

    if (**list == '\0')
        return false;
    snprintf(word, 64, "%.*s", (int)bytes, *list);
    *list += bytes + ((*list)[bytes] == ',');
    return true;
}

/* "events=debug,breaker=warning" */
static int parse_levels(const char *text, bool is_applied, struct ec_error *why)
{
    char word[64];

    while (next_word(&text, word)) {
        char *equals = strchr(word, '=');
        enum log_level level;
        int rc;

        if (equals == NULL || !log_level_parse(equals + 1, &level))
            return ec_fail(why, EC_ERR_PARAM,
                           "log.levels: %s: expected MODULE=LEVEL, the level being one of %s", word,
                           ec_log_level_list);
        *equals = '\0';
        rc = log_settings_check_module(word, why);
        if (rc < 0)
            return ec_error_prefix(why, EC_ERR_PARAM, "log.levels");
        if (is_applied)
            log_set_module_level(word, level);
    }
    return EC_OK;
}

static int parse_sinks(const struct config *config, struct log_sinks_desc *desc,
                       struct ec_error *why)
{
    const char *list = config_string(config, EC_CONFIG_log_sinks);
    char word[64];

    *desc = (struct log_sinks_desc) {
        .file_bytes = (uint64_t)config_integer(config, EC_CONFIG_log_file_bytes),
        .file_count = (unsigned)config_integer(config, EC_CONFIG_log_file_count),
    };
    snprintf(desc->file, sizeof desc->file, "%s", config_string(config, EC_CONFIG_log_file));
    snprintf(desc->journal, sizeof desc->journal, "%s",
             config_string(config, EC_CONFIG_log_journal));
    while (next_word(&list, word)) {
        if (strcmp(word, "auto") == 0)
            strcpy(word, log_journal_is_stderr() ? "journal" : "stderr");
        if (strcmp(word, "stderr") == 0)
            desc->to_stderr = true;
        else if (strcmp(word, "file") == 0)
            desc->to_file = true;
        else if (strcmp(word, "journal") == 0)
            desc->to_journal = true;
        else
            return ec_fail(why, EC_ERR_PARAM,
                           "log.sinks: %s: expected auto, stderr, file or journal, with commas",
                           word);
    }
    if (desc->to_file && desc->file[0] != '/')
        return ec_fail(why, EC_ERR_PARAM,
                       "log.sinks has file, but log.file is \"%s\", expected an absolute path",
                       desc->file);
    return EC_OK;
}
