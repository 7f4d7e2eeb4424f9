/* engine-ctl mem-report */
#include "engine-ctl/json_read.h"
#include "engine-ctl/memory_tag.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENT, PID };

static int make_params(const struct verb_input *input, char **params);
static void print_process(const struct ctl *ctl, const cJSON *process);
static void print_tags(const struct ctl *ctl, const cJSON *tags);
static void print_allocators(const struct ctl *ctl, const cJSON *allocators);

int verb_mem_report(struct ctl *ctl, const struct verb_input *input)
{
    struct json_answer answer = { 0 };
    const cJSON *process;
    char *params = NULL;
    int rc = make_params(input, &params);

    if (rc != EXIT_DONE)
        return rc;
    if (ctl->json) {
        rc = ctl_call_and_print(ctl, "memory.report", params);
    } else {
        rc = ctl_call(ctl, "memory.report", params, &answer);
        if (rc == EXIT_DONE) {
            cJSON_ArrayForEach(process, json_member(answer.tree, "items"))
                print_process(ctl, process);
            if (cJSON_GetArraySize(json_member(answer.tree, "items")) == 0)
                puts("No client shares its memory figures.");
            rc = ctl_flush();
        }
        json_answer_finish(&answer);
    }
    cJSON_free(params);
    return rc;
}

static int make_params(const struct verb_input *input, char **params)
{
    static const char *const names[] = { [CLIENT] = "client_id", [PID] = "pid" };
    cJSON *object = cJSON_CreateObject();

    for (int i = CLIENT; i <= PID; i++) {
        long long number;

        if (input->options[i] == NULL)
            continue;
        if (!verb_number(input->options[i], 1, UINT32_MAX, &number)) {
            cJSON_Delete(object);
            return ctl_fail(EXIT_USAGE, "mem-report: \"%s\" is not a number of a %s",
                            input->options[i], i == CLIENT ? "client" : "process");
        }
        cJSON_AddNumberToObject(object, names[i], (double)number);
    }
    *params = json_params(object);
    return EXIT_DONE;
}

static void print_process(const struct ctl *ctl, const cJSON *process)
{
    const cJSON *tags = json_member(process, "tags");
    const cJSON *allocators = json_member(process, "allocators");
    char *name;

    if (cJSON_GetArraySize(tags) == 0 && cJSON_GetArraySize(allocators) == 0)
        return; /* it shares no figures */
    name = tame(strdup(json_text(process, "name")));
    printf("%s%s%s  client %.0f, pid %.0f%s\n", style_on(STYLE_BOLD, ctl->colours), name,
           style_off(ctl->colours), json_number(process, "client_id"), json_number(process, "pid"),
           json_is_true(process, "alive") ? "" : ", ended: its last state");
    free(name);
    print_tags(ctl, tags);
    print_allocators(ctl, allocators);
    putchar('\n');
}

static void print_tags(const struct ctl *ctl, const cJSON *tags)
{
    static const struct column columns[] = {
        { "  TAG", false }, { "BYTES", true },  { "PEAK", true },
        { "BLOCKS", true }, { "BUDGET", true },
    };
    struct table table = { .columns = columns, .column_count = 5 };
    char text[TEXT_BYTES];
    const cJSON *tag;

    cJSON_ArrayForEach(tag, tags)
    {
        const double budget = json_number(tag, "budget_bytes");

        if (!memory_tag_is_used(tag))
            continue;
        table_cell(&table, "  %s", json_text(tag, "tag"));
        table_cell(&table, "%s", bytes_text(text, json_number(tag, "bytes")));
        table_cell(&table, "%s", bytes_text(text, json_number(tag, "peak_bytes")));
        table_cell(&table, "%.0f", json_number(tag, "count"));
        table_cell(&table, "%s", budget > 0 ? bytes_text(text, budget) : "-");
    }
    if (table.cell_count > 0)
        table_print(&table, stdout, ctl->colours);
}

static void print_allocators(const struct ctl *ctl, const cJSON *allocators)
{
    static const struct column columns[] = {
        { "  ALLOCATOR", false }, { "KIND", false }, { "TAG", false },   { "USED", true },
        { "CAPACITY", true },     { "PEAK", true },  { "BLOCKS", true }, { "FAILED", true },
    };
    struct table table = { .columns = columns, .column_count = 8 };
    char text[TEXT_BYTES];
    const cJSON *row;

    cJSON_ArrayForEach(row, allocators)
    {
        table_cell(&table, "  %s", json_text(row, "name"));
        table_cell(&table, "%s", json_text(row, "kind"));
        table_cell(&table, "%s", json_text(row, "tag"));
        table_cell(&table, "%s", bytes_text(text, json_number(row, "current_bytes")));
        table_cell(&table, "%s", bytes_text(text, json_number(row, "capacity_bytes")));
        table_cell(&table, "%s", bytes_text(text, json_number(row, "peak_bytes")));
        table_cell(&table, "%.0f", json_number(row, "count"));
        table_cell(&table, "%.0f", json_number(row, "failed"));
    }
    if (table.cell_count > 0)
        table_print(&table, stdout, ctl->colours);
}
