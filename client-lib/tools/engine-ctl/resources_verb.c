/* engine-ctl resources list, load, evict, mount */
#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"

#include <stdint.h>
#include <stdlib.h>

static void print_lists(const struct ctl *ctl, const cJSON *result);
static void print_loaded(const struct ctl *ctl, const cJSON *result);
static void print_evicted(const struct ctl *ctl, const cJSON *result);
static void print_mounts(const struct ctl *ctl, const cJSON *result);

int verb_resources_list(struct ctl *ctl, const struct verb_input *input)
{
    (void)input;
    return ctl_show(ctl, "resource.list", cJSON_CreateObject(), print_lists);
}

int verb_resources_load(struct ctl *ctl, const struct verb_input *input)
{
    cJSON *params = cJSON_CreateObject();

    cJSON_AddStringToObject(params, "group", input->arguments[0]);
    return ctl_show(ctl, "resource.load", params, print_loaded);
}

int verb_resources_evict(struct ctl *ctl, const struct verb_input *input)
{
    cJSON *params;
    long long bytes = 0;

    if ((input->options[0] != NULL) == (input->arguments[0] != NULL))
        return ctl_fail(EXIT_USAGE, "resources evict: expected a group or --bytes, one of them");
    if (input->options[0] != NULL && !verb_number(input->options[0], 1, INT64_MAX, &bytes))
        return ctl_fail(EXIT_USAGE,
                        "resources evict: --bytes is \"%s\", expected a number of bytes",
                        input->options[0]);
    params = cJSON_CreateObject();
    if (input->arguments[0] != NULL)
        cJSON_AddStringToObject(params, "group", input->arguments[0]);
    if (bytes > 0)
        cJSON_AddNumberToObject(params, "bytes", (double)bytes);
    return ctl_show(ctl, "resource.evict", params, print_evicted);
}

/* The daemon knows nothing of our working directory, so the path goes out whole. */
int verb_resources_mount(struct ctl *ctl, const struct verb_input *input)
{
    char *path = realpath(input->arguments[0], NULL);
    cJSON *params = cJSON_CreateObject();

    cJSON_AddStringToObject(params, "path", path != NULL ? path : input->arguments[0]);
    free(path);
    return ctl_show(ctl, "resource.mount", params, print_mounts);
}

static void print_lists(const struct ctl *ctl, const cJSON *result)
{
    static const struct column group_columns[] = {
        { "GROUP", false }, { "STATE", false }, { "RESOURCES", true },
        { "BYTES", true },  { "REFS", true },
    };
    static const struct column resource_columns[] = {
        { "RESOURCE", false }, { "GROUP", false }, { "KIND", false }, { "STATE", false },
        { "SIZE", true },      { "BYTES", true },  { "REFS", true },
    };
    struct table groups = { .columns = group_columns, .column_count = 5 };
    struct table resources = { .columns = resource_columns, .column_count = 7 };
    char text[TEXT_BYTES];
    const cJSON *row;

    cJSON_ArrayForEach(row, json_member(result, "groups"))
    {
        table_cell(&groups, "%s", json_text(row, "group"));
        table_cell(&groups, "%s", json_text(row, "state"));
        table_cell(&groups, "%.0f", json_number(row, "resources"));
        table_cell(&groups, "%s", bytes_text(text, json_number(row, "bytes")));
        table_cell(&groups, "%.0f", json_number(row, "hard_refs"));
    }
    cJSON_ArrayForEach(row, json_member(result, "items"))
    {
        const cJSON *meta = json_member(row, "meta");

        table_cell(&resources, "%s", json_text(row, "name"));
        table_cell(&resources, "%s", json_text(row, "group"));
        table_cell(&resources, "%s", json_text(row, "kind"));
        table_cell(&resources, "%s", json_text(row, "state"));
        if (json_number(meta, "width") > 0)
            table_cell(&resources, "%.0fx%.0fx%.0f", json_number(meta, "width"),
                       json_number(meta, "height"), json_number(meta, "channels"));
        else
            table_cell(&resources, "-");
        table_cell(&resources, "%s", bytes_text(text, json_number(row, "bytes")));
        table_cell(&resources, "%.0f", json_number(row, "hard_refs"));
    }
    table_print(&groups, stdout, ctl->colours);
    putchar('\n');
    table_print(&resources, stdout, ctl->colours);
}

static void print_loaded(const struct ctl *ctl, const cJSON *result)
{
    char text[TEXT_BYTES];

    (void)ctl;
    printf("%s is %s: %.0f of %.0f resources, %s\n", json_text(result, "group"),
           json_text(result, "state"), json_number(result, "loaded"), json_number(result, "total"),
           bytes_text(text, json_number(result, "bytes")));
}

static void print_evicted(const struct ctl *ctl, const cJSON *result)
{
    static const struct column columns[] = { { "KEPT", false }, { "REASON", false } };
    struct table kept = { .columns = columns, .column_count = 2 };
    char text[TEXT_BYTES];
    const cJSON *row;

    printf("%s freed, %d resources evicted, %d kept\n",
           bytes_text(text, json_number(result, "freed_bytes")),
           cJSON_GetArraySize(json_member(result, "evicted")),
           cJSON_GetArraySize(json_member(result, "kept")));
    cJSON_ArrayForEach(row, json_member(result, "kept"))
    {
        table_cell(&kept, "%s", json_text(row, "name"));
        table_cell(&kept, "%s", json_text(row, "reason"));
    }
    if (kept.cell_count > 0)
        table_print(&kept, stdout, ctl->colours);
}

static void print_mounts(const struct ctl *ctl, const cJSON *result)
{
    static const struct column columns[] = { { "PATH", false }, { "AT", false } };
    struct table mounts = { .columns = columns, .column_count = 2 };
    const cJSON *row;

    cJSON_ArrayForEach(row, json_member(result, "items"))
    {
        table_cell(&mounts, "%s", json_text(row, "path"));
        table_cell(&mounts, "%s", json_text(row, "at"));
    }
    table_print(&mounts, stdout, ctl->colours);
}
