/* The reference pages, one function per table. Texts are escaped for Markdown where a table row
 * would end or a tag would begin. */
#include "daemon/reference.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "daemon/arguments.h"
#include "proto/line.h"
#include "proto/tables.h"

static void print_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '|' || *text == '<' || *text == '*' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
}

static void print_range(FILE *out, const struct ec_param_row *param)
{
    const char *unit = param->type == EC_PARAM_STRING ? " bytes" : "";

    if (param->min == 0 && param->max == 0)
        return;
    if (param->max == 0)
        fprintf(out, "at least %" PRId64 "%s", param->min, unit);
    else
        fprintf(out, "%" PRId64 "…%" PRId64 "%s", param->min, param->max, unit);
}

static void print_need(FILE *out, const struct ec_param_row *param)
{
    if (ec_param_required(param))
        fputs("required", out);
    else if (ec_param_fallback(param) != NULL)
        fprintf(out, "`%s`", ec_param_fallback(param));
    else
        fputs("optional", out);
}

static void print_command(FILE *out, const struct ec_command_row *command)
{
    fprintf(out, "\n## %s\n\n", command->method);
    print_text(out, command->help);
    fprintf(out, "\n\nRole: %s.%s\n", ec_role_name(command->role),
            command->takes_fds ? " Descriptors may come with the line." : "");
    if (command->param_count > 0) {
        fputs("\n| parameter | type | need | range | meaning |\n| --- | --- | --- | --- | --- |\n",
              out);
        for (size_t i = 0; i < command->param_count; i++) {
            const struct ec_param_row *param = &command->params[i];

            fprintf(out, "| `%s` | %s | ", param->name, ec_param_type_name(param->type));
            print_need(out, param);
            fputs(" | ", out);
            print_range(out, param);
            fputs(" | ", out);
            print_text(out, param->help);
            fputs(" |\n", out);
        }
    }
    if (command->result_count > 0)
        fputs("\n| result | type | meaning |\n| --- | --- | --- |\n", out);
    for (size_t i = 0; i < command->result_count; i++) {
        fprintf(out, "| `%s` | %s | ", command->results[i].name,
                ec_param_type_name(command->results[i].type));
        print_text(out, command->results[i].help);
        fputs(" |\n", out);
    }
}

static void print_commands(FILE *out)
{
    fprintf(
        out,
        "# Commands\n\n"
        "JSON-RPC 2.0 on the control socket, protocol %d: one message per line, at most %d bytes.\n"
        "An id is a string of 0x and hexadecimal digits. What has no need of a parameter takes\n"
        "none. Descriptors ride on the first byte of their line, which has a sendmsg() of its own.\n",
        EC_PROTOCOL, EC_LINE_BYTES);
    for (size_t i = 0; i < EC_COMMANDS; i++)
        print_command(out, &ec_commands[i]);
}

static void print_config(FILE *out)
{
    fputs(
        "# Configuration\n\n"
        "JSON files with comments, `--set key=value`, which wins over them, and `config.set`, which wins\n"
        "over all. In a file a key may be written flat or nested: `{\"event.stall_ms\": 100}` or\n"
        "`{\"event\": {\"stall_ms\": 100}}`. Keys of the kind *reload* apply while the daemon runs: when a\n"
        "file changes, at SIGHUP and at `config.reload`.\n\n"
        "| key | type | default | range | applies | meaning |\n"
        "| --- | --- | --- | --- | --- | --- |\n",
        out);
    for (size_t i = 0; i < EC_CONFIGS; i++) {
        const struct ec_config_row *row = &ec_configs[i];

        fprintf(out, "| `%s` | ", row->key);
        if (row->type == EC_CONFIG_STRING)
            fprintf(out, "string | `\"%s\"` | %" PRId64 "…%" PRId64 " bytes", row->string, row->min,
                    row->max);
        else if (row->type == EC_CONFIG_BOOLEAN)
            fprintf(out, "boolean | `%s` | ", row->integer != 0 ? "true" : "false");
        else
            fprintf(out, "integer | `%" PRId64 "` | %" PRId64 "…%" PRId64 "%s%s", row->integer,
                    row->min, row->max, row->unit[0] != '\0' ? " " : "", row->unit);
        fprintf(out, " | %s | ", row->reloadable ? "reload" : "restart");
        print_text(out, row->help);
        fputs(" |\n", out);
    }
}

static size_t group_bytes(const char *key)
{
    return strcspn(key, ".");
}

static bool is_in_group(const char *key, const char *other)
{
    return group_bytes(key) == group_bytes(other) && memcmp(key, other, group_bytes(key)) == 0;
}

/* Lines of at most 100 columns with // in front. */
static void print_comment(FILE *out, const char *indent, const char *text)
{
    size_t left = strlen(text);

    while (left > 0) {
        size_t bytes = left;

        if (bytes > 92 - strlen(indent))
            for (bytes = 92 - strlen(indent); bytes > 1 && text[bytes] != ' '; bytes--)
                ;
        fprintf(out, "%s// %.*s\n", indent, (int)bytes, text);
        text += bytes;
        left -= bytes;
        for (; left > 0 && *text == ' '; left--)
            text++;
    }
}

static void print_default(FILE *out, const struct ec_config_row *row)
{
    char comment[1024];
    int bytes = snprintf(comment, sizeof comment, "%s", row->help);

    if (row->type == EC_CONFIG_INTEGER)
        bytes += snprintf(comment + bytes, sizeof comment - (size_t)bytes,
                          " %" PRId64 " to %" PRId64 "%s%s.", row->min, row->max,
                          row->unit[0] != '\0' ? " " : "", row->unit);
    if (!row->reloadable)
        snprintf(comment + bytes, sizeof comment - (size_t)bytes, " Needs a restart.");
    print_comment(out, "    ", comment);
    fprintf(out, "    \"%s\": ", row->key + group_bytes(row->key) + 1);
    if (row->type == EC_CONFIG_STRING)
        fprintf(out, "\"%s\"", row->string); /* defaults have nothing to escape */
    else if (row->type == EC_CONFIG_BOOLEAN)
        fputs(row->integer != 0 ? "true" : "false", out);
    else
        fprintf(out, "%" PRId64, row->integer);
}

static void print_group(FILE *out, size_t first)
{
    bool is_first = true;

    for (size_t i = 0; i < EC_CONFIGS; i++) {
        if (!is_in_group(ec_configs[i].key, ec_configs[first].key))
            continue;
        fputs(is_first ? "" : ",\n", out);
        is_first = false;
        print_default(out, &ec_configs[i]);
    }
}

static void print_default_config(FILE *out)
{
    fputs(
        "// The configuration of engine-cored, with all defaults: what is left out has the same value.\n"
        "// JSON with comments. A change is applied at once, except where it says otherwise; see\n"
        "// `engine-ctl config show --origin` for what is in force, and `engine-ctl config check FILE`.\n"
        "{\n",
        out);
    for (size_t i = 0; i < EC_CONFIGS; i++) {
        size_t before = 0;

        while (before < i && !is_in_group(ec_configs[before].key, ec_configs[i].key))
            before++;
        if (before < i)
            continue;
        fprintf(out, "%s  \"%.*s\": {\n", i == 0 ? "" : ",\n", (int)group_bytes(ec_configs[i].key),
                ec_configs[i].key);
        print_group(out, i);
        fputs("\n  }", out);
    }
    fputs("\n}\n", out);
}

static void print_counters(FILE *out)
{
    fputs("# Counters\n\n"
          "They only grow; `core.info` reports them.\n\n"
          "| counter | unit | meaning |\n| --- | --- | --- |\n",
          out);
    for (size_t i = 0; i < EC_COUNTERS; i++) {
        fprintf(out, "| `%s` | %s | ", ec_counters[i].name, ec_counters[i].unit);
        print_text(out, ec_counters[i].help);
        fputs(" |\n", out);
    }
}

static void print_metrics(FILE *out)
{
    fputs(
        "# Metrics\n\n"
        "Numbers by which the daemon is watched over time: `telemetry.get`, `telemetry.subscribe`,\n"
        "`telemetry.history`, `engine-ctl top`, `engine-ctl wait` and, as `engine_core_TOPIC_NAME`, the\n"
        "Prometheus endpoint have them. Counters only grow while the daemon runs.\n\n"
        "| metric | kind | unit | meaning |\n| --- | --- | --- | --- |\n",
        out);
    for (size_t i = 0; i < EC_METRICS; i++) {
        const struct ec_metric_row *row = &ec_metrics[i];

        fprintf(out, "| `%s.%s` | %s | %s | ", ec_topic_name(row->topic), row->name,
                row->is_counter ? "counter" : "gauge", row->unit);
        print_text(out, row->help);
        fputs(" |\n", out);
    }
}

static void print_errors(FILE *out)
{
    fputs("# Errors\n\n"
          "The same numbers in C and in JSON-RPC.\n\n"
          "| number | in C | meaning |\n| --- | --- | --- |\n",
          out);
    for (size_t i = 0; i < ec_error_count; i++) {
        fprintf(out, "| %d | `EC_ERR_%s` | ", ec_errors[i].code, ec_errors[i].name);
        print_text(out, ec_errors[i].text);
        fputs(" |\n", out);
    }
}

static void print_events(FILE *out)
{
    fputs("# System events\n\n"
          "The daemon publishes them through its own port. Text fields are padded with NUL.\n",
          out);
    for (size_t i = 0; i < EC_SYSTEM_EVENTS; i++) {
        const struct ec_system_event_row *event = &ec_system_events[i];

        fprintf(out, "\n## %s\n\n", event->name);
        print_text(out, event->help);
        fputs("\n\n| field | type | count | meaning |\n| --- | --- | --- | --- |\n", out);
        for (size_t f = 0; f < event->field_count; f++) {
            fprintf(out, "| `%s` | %s | %" PRIu32 " | ", event->fields[f].name,
                    event->fields[f].type, event->fields[f].count);
            print_text(out, event->fields[f].help);
            fputs(" |\n", out);
        }
    }
}

static const struct {
    const char *name;
    void (*print)(FILE *out);
} pages[] = {
    { "commands", print_commands },
    { "config", print_config },
    { "counters", print_counters },
    { "errors", print_errors },
    { "events", print_events },
    { "metrics", print_metrics },
    { "default-config", print_default_config },
    { "completion-bash", completion_print_bash },
    { "completion-zsh", completion_print_zsh },
    { "completion-fish", completion_print_fish },
};

int reference_print(FILE *out, const char *table)
{
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++)
        if (strcmp(pages[i].name, table) == 0) {
            pages[i].print(out);
            return EC_OK;
        }
    return EC_ERR_NOT_FOUND;
}

const char *reference_table(size_t index)
{
    return index < sizeof pages / sizeof pages[0] ? pages[index].name : NULL;
}
