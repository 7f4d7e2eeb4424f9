/* engine-ctl log level, tail */
#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/tables.h"

enum { LEVEL, MODULE, LINES }; /* rows of the options of log tail */

#define LINES_DEFAULT 10

static bool is_level(const char *text);
static void print_levels(const struct ctl *ctl, const cJSON *result);
static int take_line(struct ctl *ctl, const struct json_answer *line, void *context);

/* log level, log level LEVEL, log level MODULE, log level MODULE LEVEL */
int verb_log_level(struct ctl *ctl, const struct verb_input *input)
{
    const char *first = input->arguments[0], *second = input->arguments[1];
    cJSON *params = cJSON_CreateObject();

    if (first != NULL && second == NULL && is_level(first)) {
        cJSON_AddStringToObject(params, "level", first);
    } else if (first != NULL) {
        cJSON_AddStringToObject(params, "module", first);
        if (second != NULL)
            cJSON_AddStringToObject(params, "level", second);
    }
    return ctl_show(ctl, "log.level", params, print_levels);
}

int verb_log_tail(struct ctl *ctl, const struct verb_input *input)
{
    long long lines = LINES_DEFAULT;
    cJSON *params;

    if (input->options[LINES] != NULL && !verb_number(input->options[LINES], 0, 10000, &lines))
        return ctl_fail(EXIT_USAGE, "log tail: --lines is \"%s\", expected 0..10000",
                        input->options[LINES]);
    params = cJSON_CreateObject();
    cJSON_AddNumberToObject(params, "lines", (double)lines);
    if (input->options[LEVEL] != NULL)
        cJSON_AddStringToObject(params, "level", input->options[LEVEL]);
    if (input->options[MODULE] != NULL)
        cJSON_AddStringToObject(params, "module", input->options[MODULE]);
    return ctl_follow(ctl, "log.tail", params, "log", take_line, NULL);
}

static bool is_level(const char *text)
{
    const char *level;

    for (unsigned i = 0; (level = ec_log_level_name(i)) != NULL; i++)
        if (strcmp(level, text) == 0)
            return true;
    return false;
}

static void print_levels(const struct ctl *ctl, const cJSON *result)
{
    static const struct column columns[] = { { "MODULE", false }, { "LEVEL", false } };
    struct table table = { .columns = columns, .column_count = 2 };
    const cJSON *module;

    cJSON_ArrayForEach(module, json_member(result, "modules"))
    {
        table_cell(&table, "%s", module->string);
        table_cell(&table, "%s", module->valuestring);
    }
    table_print(&table, stdout, ctl->colours);
    printf("all others %s\n", json_text(result, "level"));
}

static enum style style_of(const char *level)
{
    return strcmp(level, "error") == 0 ? STYLE_BAD : STYLE_WARNING;
}

static int take_line(struct ctl *ctl, const struct json_answer *line, void *context)
{
    const char *level = json_text(line->tree, "level");
    const bool stands_out = strcmp(level, "error") == 0 || strcmp(level, "warning") == 0;
    const double time_ns = json_number(line->tree, "time_ns");
    const time_t seconds = (time_t)(time_ns / 1e9);
    char *message = tame_copy(json_text(line->tree, "message"));
    struct tm local;
    char when[32];

    (void)context;
    if (!ctl_print_line(ctl, line)) {
        localtime_r(&seconds, &local);
        strftime(when, sizeof when, "%H:%M:%S", &local);
        if (json_number(line->tree, "lost") > 0)
            printf("(%.0f lines lost)\n", json_number(line->tree, "lost"));
        printf("%s.%03.0f [%s][%s%s%s] %s\n", when, (time_ns - (double)seconds * 1e9) / 1e6,
               json_text(line->tree, "module"),
               stands_out ? style_on(style_of(level), ctl->colours) : "", level,
               stands_out ? style_off(ctl->colours) : "", message);
    }
    free(message);
    return EXIT_GO_ON;
}
