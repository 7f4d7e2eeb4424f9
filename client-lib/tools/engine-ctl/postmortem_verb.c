/* engine-ctl postmortem: who died, of what, and what they left. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/symbols.h"
#include "engine-ctl/verb.h"

/* Wall-clock time, to the second. */
static const char *time_text(char buffer[TEXT_BYTES], double unix_ns)
{
    const time_t at = (time_t)(unix_ns / 1e9);
    struct tm local;

    if (localtime_r(&at, &local) == NULL ||
        strftime(buffer, TEXT_BYTES, "%Y-%m-%d %H:%M:%S", &local) == 0)
        buffer[0] = '\0';
    return buffer;
}

/* "SIGKILL", "exit 3", "killed". */
static void cause_cell(struct table *table, const cJSON *record)
{
    if (json_member(record, "signal_name") != NULL)
        table_cell(table, "%s", json_text(record, "signal_name"));
    else if (json_member(record, "code") != NULL)
        table_cell(table, "exit %.0f", json_number(record, "code"));
    else
        table_cell(table, "%s", json_text(record, "cause"));
}

static void print_list(const struct ctl *ctl, const cJSON *result)
{
    static const struct column columns[] = {
        { "ID", true },     { "WHEN", false }, { "KIND", false }, { "NAME", false },
        { "CLIENT", true }, { "PID", true },   { "OF", false },   { "FRAME", true },
        { "STEP", true },   { "BYTES", true },
    };
    struct table table = { .columns = columns, .column_count = sizeof columns / sizeof columns[0] };
    char text[TEXT_BYTES];
    const cJSON *record;

    cJSON_ArrayForEach(record, json_member(result, "items"))
    {
        table_cell(&table, "%.0f", json_number(record, "id"));
        table_cell(&table, "%s", time_text(text, json_number(record, "unix_ns")));
        table_cell(&table, "%s", json_text(record, "kind"));
        table_cell(&table, "%s", json_text(record, "name"));
        table_cell(&table, "%.0f", json_number(record, "client_id"));
        table_cell(&table, "%.0f", json_number(record, "pid"));
        cause_cell(&table, record);
        table_cell(&table, "%.0f", json_number(record, "last_frame"));
        table_cell(&table, "%.0f", json_number(record, "last_step"));
        table_cell(&table, "%s", bytes_text(text, json_number(record, "bytes")));
    }
    table_print(&table, stdout, ctl->colours);
}

int verb_postmortem_list(struct ctl *ctl, const struct verb_input *input)
{
    (void)input;
    return ctl_show(ctl, "postmortem.list", NULL, print_list);
}

/* ---- one record ------------------------------------------------------------------------------ */

static void print_text(const char *label, const char *text)
{
    char *copy = tame_copy(text);

    printf("%-16s %s\n", label, copy);
    free(copy);
}

static void print_head(const cJSON *record)
{
    char text[TEXT_BYTES];

    printf("%-16s %.0f\n", "record", json_number(record, "id"));
    print_text(json_text(record, "kind"), json_text(record, "name"));
    printf("%-16s %.0f\n", "process", json_number(record, "pid"));
    printf("%-16s %s\n", "when", time_text(text, json_number(record, "unix_ns")));
    if (json_member(record, "signal_name") != NULL)
        print_text("died of", json_text(record, "signal_name"));
    else if (json_member(record, "code") != NULL)
        printf("%-16s exit %.0f, without detaching\n", "died of", json_number(record, "code"));
    else
        print_text("died of", json_text(record, "cause"));
    if (json_number(record, "connected_ns") > 0)
        printf("%-16s %s\n", "after", duration_text(text, json_number(record, "connected_ns")));
    printf("%-16s frame %.0f, step %.0f\n", "last seen at", json_number(record, "last_frame"),
           json_number(record, "last_step"));
    if (json_number(record, "silent_ns") > 0)
        printf("%-16s %s\n", "silent for", duration_text(text, json_number(record, "silent_ns")));
    printf("%-16s %.0f\n", "breaker level", json_number(record, "breaker_level"));
    if (json_member(record, "rss_bytes") != NULL)
        printf("%-16s %s\n", "resident", bytes_text(text, json_number(record, "rss_bytes")));
}

static void print_memory(const struct ctl *ctl, const cJSON *memory)
{
    static const struct column columns[] = {
        { "TAG", false }, { "BYTES", true }, { "PEAK", true }, { "BLOCKS", true }
    };
    struct table table = { .columns = columns, .column_count = 4 };
    char text[TEXT_BYTES];
    const cJSON *tag;

    if (cJSON_GetArraySize(json_member(memory, "tags")) == 0)
        return;
    printf("\nmemory %s\n", bytes_text(text, json_number(memory, "bytes")));
    cJSON_ArrayForEach(tag, json_member(memory, "tags"))
    {
        table_cell(&table, "%s", json_text(tag, "tag"));
        table_cell(&table, "%s", bytes_text(text, json_number(tag, "bytes")));
        table_cell(&table, "%s", bytes_text(text, json_number(tag, "peak_bytes")));
        table_cell(&table, "%.0f", json_number(tag, "count"));
    }
    table_print(&table, stdout, ctl->colours);
}

static void print_references(const struct ctl *ctl, const cJSON *references)
{
    static const struct column columns[] = { { "HELD", false }, { "REFS", true } };
    struct table table = { .columns = columns, .column_count = 2 };
    const cJSON *reference;

    if (cJSON_GetArraySize(references) == 0)
        return;
    putchar('\n');
    cJSON_ArrayForEach(reference, references)
    {
        table_cell(&table, "%s", json_text(reference, "name"));
        table_cell(&table, "%.0f", json_number(reference, "hard_refs"));
    }
    table_print(&table, stdout, ctl->colours);
}

/* What the files that are here say of a frame. The innermost one stands where the fault is, the others
 * behind their calls. false: they say nothing. */
static bool find_symbol(struct symbols *symbols, const cJSON *frame, int number,
                        struct symbol *symbol)
{
    const char *module = json_text(frame, "module"), *offset = json_text(frame, "offset");

    return symbols != NULL && module[0] == '/' && strncmp(offset, "0x", 2) == 0 &&
           symbols_find(symbols, module, json_text(frame, "build_id"),
                        strtoull(offset + 2, NULL, 16), number > 0, symbol) &&
           symbol->function != NULL;
}

/* Function and line where there are symbols; else module, build id and the offset that they go by. */
static void print_frames(const struct ctl *ctl, const cJSON *frames, struct symbols *symbols)
{
    static const struct column columns[] = { { "FRAME", true },   { "FUNCTION", false },
                                             { "AT", false },     { "MODULE", false },
                                             { "OFFSET", false }, { "BUILD ID", false } };
    struct table table = { .columns = columns, .column_count = 6 };
    const cJSON *frame;
    int number = 0;

    if (cJSON_GetArraySize(frames) == 0)
        return;
    putchar('\n');
    cJSON_ArrayForEach(frame, frames)
    {
        const char *module = json_text(frame, "module");
        struct symbol symbol = { 0 };
        const bool known = find_symbol(symbols, frame, number, &symbol);

        table_cell(&table, "%d", number++);
        table_cell(&table, "%s", known ? symbol.function : "?");
        if (known && symbol.file != NULL)
            table_cell(&table, "%s:%d", symbol.file, symbol.line);
        else
            table_cell(&table, "%s", "");
        table_cell(&table, "%s", module[0] != '\0' ? module : "?");
        table_cell(&table, "%s", json_text(frame, module[0] != '\0' ? "offset" : "address"));
        table_cell(&table, "%s", json_text(frame, "build_id"));
    }
    table_print(&table, stdout, ctl->colours);
}

static void print_events(const struct ctl *ctl, const cJSON *events)
{
    static const struct column columns[] = { { "LAST EVENTS", false },
                                             { "PORT", false },
                                             { "SEQUENCE", true },
                                             { "STEP", true },
                                             { "BYTES", true } };
    struct table table = { .columns = columns, .column_count = 5 };
    const cJSON *event;
    char text[TEXT_BYTES];

    if (cJSON_GetArraySize(events) == 0)
        return;
    putchar('\n');
    cJSON_ArrayForEach(event, events)
    {
        table_cell(&table, "%s", json_text(event, "type"));
        table_cell(&table, "%s", json_text(event, "port"));
        table_cell(&table, "%.0f", json_number(event, "sequence"));
        table_cell(&table, "%.0f", json_number(event, "step"));
        table_cell(&table, "%s", bytes_text(text, json_number(event, "bytes")));
    }
    table_print(&table, stdout, ctl->colours);
}

static void print_lines(const char *title, const cJSON *lines)
{
    const cJSON *line;

    if (cJSON_GetArraySize(lines) == 0)
        return;
    printf("\n%s\n", title);
    cJSON_ArrayForEach(line, lines)
    {
        char *message = tame_copy(json_text(line, "message"));
        char *module = tame_copy(json_text(line, "module"));
        char text[TEXT_BYTES] = "";

        if (json_member(line, "unix_ns") != NULL)
            time_text(text, json_number(line, "unix_ns"));
        printf("  %s%s%s%s%s\n", text, text[0] != '\0' ? " " : "", module,
               module[0] != '\0' ? ": " : "", message);
        free(message);
        free(module);
    }
}

static void print_record(const struct ctl *ctl, const cJSON *record, struct symbols *symbols)
{
    print_head(record);
    print_memory(ctl, json_member(record, "memory"));
    print_references(ctl, json_member(record, "references"));
    print_events(ctl, json_member(record, "events"));
    print_frames(ctl, json_member(record, "frames"), symbols);
    print_lines("its last lines", json_member(record, "log"));
    print_lines("the daemon's last lines", json_member(record, "daemon_log"));
}

/* The record as it came, digit for digit, with one more member: what its frames are called. */
static int print_json(const struct json_answer *answer, struct symbols *symbols)
{
    cJSON *named = cJSON_CreateArray();
    const cJSON *frame;
    int number = 0;
    char *text;

    cJSON_ArrayForEach(frame, json_member(answer->tree, "frames"))
    {
        struct symbol symbol = { 0 };
        cJSON *row = cJSON_CreateObject();

        cJSON_AddNumberToObject(row, "frame", number);
        if (find_symbol(symbols, frame, number, &symbol))
            cJSON_AddStringToObject(row, "function", symbol.function);
        if (symbol.function != NULL && symbol.file != NULL) {
            cJSON_AddStringToObject(row, "file", symbol.file);
            cJSON_AddNumberToObject(row, "line", symbol.line);
        }
        cJSON_AddItemToArray(named, row);
        number++;
    }
    text = cJSON_PrintUnformatted(named);
    cJSON_Delete(named);
    if (text == NULL || answer->result_bytes < 2)
        return ctl_fail(EXIT_ANSWERED_ERROR, "postmortem show: no memory");
    printf("%.*s,\"symbols\":%s}\n", (int)answer->result_bytes - 1, answer->result, text);
    cJSON_free(text);
    return ctl_flush();
}

int verb_postmortem_show(struct ctl *ctl, const struct verb_input *input)
{
    struct symbols *symbols;
    struct json_answer answer;
    char params[32];
    long long id;
    int rc;

    if (!verb_number(input->arguments[0], 1, UINT32_MAX, &id))
        return ctl_fail(EXIT_USAGE, "postmortem show: \"%s\" is no id; see postmortem list",
                        input->arguments[0]);
    snprintf(params, sizeof params, "{\"id\":%lld}", id);
    rc = ctl_call(ctl, "postmortem.get", params, &answer);
    if (rc != EXIT_DONE) {
        json_answer_finish(&answer);
        return rc;
    }
    symbols = symbols_create(input->options[0]); /* without memory for it the frames stay raw */
    if (ctl->json) {
        rc = print_json(&answer, symbols);
    } else {
        print_record(ctl, answer.tree, symbols);
        rc = ctl_flush();
    }
    symbols_destroy(symbols);
    json_answer_finish(&answer);
    return rc;
}
