/* engine-ctl resources list, get, define, load, unload, request, pin, evict, reload, mount, watch, dump */
#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <engine-core/clock.h>

/* The tables of a list, filled page by page. */
struct lists {
    struct table groups, resources;
};

#define GROUP_COLUMNS 8
#define RESOURCE_COLUMNS 12

static const struct column group_columns[GROUP_COLUMNS] = {
    { "GROUP", false }, { "STATE", false }, { "LOADED", true }, { "BYTES", true },
    { "REFS", true },   { "SOFT", true },   { "CLASS", false }, { "NEEDED BY", true },
};
static const struct column resource_columns[RESOURCE_COLUMNS] = {
    { "RESOURCE", false }, { "GROUP", false }, { "KIND", false },    { "STATE", false },
    { "SIZE", true },      { "BYTES", true },  { "REFS", true },     { "SOFT", true },
    { "CLIENTS", false },  { "CLASS", false }, { "LAST USE", true }, { "BEFORE", true },
};

static int list_page(struct ctl *ctl, const struct verb_input *input, struct lists *lists,
                     char after[256]);
static void groups_add(struct table *table, const cJSON *rows);
static void resources_add(struct table *table, const cJSON *rows);
static char *clients_text(char text[128], const cJSON *clients);
static char *age_text(char text[TEXT_BYTES], double at_ns);
static void print_gpu(const struct ctl *ctl, const cJSON *result);
static void print_resource(const struct ctl *ctl, const cJSON *result);
static void print_defined(const struct ctl *ctl, const cJSON *result);
static void print_undefined(const struct ctl *ctl, const cJSON *result);
static void print_unloaded(const struct ctl *ctl, const cJSON *result);
static void print_requested(const struct ctl *ctl, const cJSON *result);
static void print_reloaded(const struct ctl *ctl, const cJSON *result);
static void print_pinned(const struct ctl *ctl, const cJSON *result);
static int take_event(struct ctl *ctl, const struct json_answer *notification, void *context);
static void print_loaded(const struct ctl *ctl, const cJSON *result);
static void print_evicted(const struct ctl *ctl, const cJSON *result);
static void print_mounts(const struct ctl *ctl, const cJSON *result);

enum { LIST_STATE, LIST_GPU }; /* rows of its options */

/* All pages, as one table; with --json each page as it came. */
int verb_resources_list(struct ctl *ctl, const struct verb_input *input)
{
    struct lists lists = { .groups = { .columns = group_columns, .column_count = GROUP_COLUMNS },
                           .resources = { .columns = resource_columns,
                                          .column_count = RESOURCE_COLUMNS } };
    char after[256] = "";
    int rc;

    if (input->options[LIST_GPU] != NULL) {
        cJSON *params = cJSON_CreateObject();

        cJSON_AddTrueToObject(params, "gpu");
        return ctl_show(ctl, "resource.list", params, print_gpu);
    }
    do
        rc = list_page(ctl, input, &lists, after);
    while (rc == EXIT_DONE && after[0] != '\0');
    if (rc != EXIT_DONE || ctl->json)
        return rc;
    table_print(&lists.groups, stdout, ctl->colours);
    putchar('\n');
    table_print(&lists.resources, stdout, ctl->colours);
    return ctl_flush();
}

/* after is where the page begins, and then the next one; empty at either end. */
static int list_page(struct ctl *ctl, const struct verb_input *input, struct lists *lists,
                     char after[256])
{
    cJSON *params = cJSON_CreateObject();
    struct json_answer answer = { 0 };
    char *text;
    int rc;

    if (input->arguments[0] != NULL)
        cJSON_AddStringToObject(params, "group", input->arguments[0]);
    if (input->options[LIST_STATE] != NULL)
        cJSON_AddStringToObject(params, "state", input->options[LIST_STATE]);
    if (after[0] != '\0')
        cJSON_AddStringToObject(params, "after", after);
    text = json_params(params);
    rc = ctl_call(ctl, "resource.list", text, &answer);
    cJSON_free(text);
    if (rc == EXIT_DONE) {
        snprintf(after, 256, "%s", json_text(answer.tree, "next"));
        if (ctl->json) {
            printf("%.*s\n", (int)answer.result_bytes, answer.result);
            rc = ctl_flush();
        } else {
            groups_add(&lists->groups, json_member(answer.tree, "groups"));
            resources_add(&lists->resources, json_member(answer.tree, "items"));
        }
    }
    json_answer_finish(&answer);
    return rc;
}

static int show_named(struct ctl *ctl, const char *method, const char *member, const char *name,
                      ctl_print_fn *print)
{
    cJSON *params = cJSON_CreateObject();

    cJSON_AddStringToObject(params, member, name);
    return ctl_show(ctl, method, params, print);
}

int verb_resources_get(struct ctl *ctl, const struct verb_input *input)
{
    return show_named(ctl, "resource.get", "name", input->arguments[0], print_resource);
}

/* The daemon knows nothing of our working directory, so paths go out whole. */
int verb_resources_define(struct ctl *ctl, const struct verb_input *input)
{
    char *path = realpath(input->arguments[0], NULL);
    int rc = show_named(ctl, "resource.define", "manifest",
                        path != NULL ? path : input->arguments[0], print_defined);

    free(path);
    return rc;
}

int verb_resources_undefine(struct ctl *ctl, const struct verb_input *input)
{
    return show_named(ctl, "resource.undefine", "group", input->arguments[0], print_undefined);
}

int verb_resources_unload(struct ctl *ctl, const struct verb_input *input)
{
    return show_named(ctl, "resource.unload", "group", input->arguments[0], print_unloaded);
}

int verb_resources_request(struct ctl *ctl, const struct verb_input *input)
{
    return show_named(ctl, "resource.request", "name", input->arguments[0], print_requested);
}

int verb_resources_reload(struct ctl *ctl, const struct verb_input *input)
{
    return show_named(ctl, "resource.reload", "name", input->arguments[0], print_reloaded);
}

int verb_resources_pin(struct ctl *ctl, const struct verb_input *input)
{
    cJSON *params = cJSON_CreateObject();

    cJSON_AddStringToObject(params, "group", input->arguments[0]);
    cJSON_AddBoolToObject(params, "pinned", input->options[0] == NULL);
    return ctl_show(ctl, "resource.pin", params, print_pinned);
}

int verb_resources_watch(struct ctl *ctl, const struct verb_input *input)
{
    cJSON *params = cJSON_CreateObject(), *types = cJSON_AddArrayToObject(params, "types");
    static const char *const names[] = { "resource.group", "resource.progress", "resource.ready",
                                         "resource.changed", "resource.gpu_evict" };

    (void)input;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        cJSON_AddItemToArray(types, cJSON_CreateString(names[i]));
    return ctl_follow(ctl, "event.subscribe", params, "event", take_event, NULL);
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

int verb_resources_mount(struct ctl *ctl, const struct verb_input *input)
{
    char *path = input->arguments[0] != NULL ? realpath(input->arguments[0], NULL) : NULL;
    cJSON *params = cJSON_CreateObject();

    if (input->arguments[0] != NULL)
        cJSON_AddStringToObject(params, "path", path != NULL ? path : input->arguments[0]);
    free(path);
    return ctl_show(ctl, "resource.mount", params, print_mounts);
}

static void groups_add(struct table *table, const cJSON *rows)
{
    char text[TEXT_BYTES];
    const cJSON *row;

    cJSON_ArrayForEach(row, rows)
    {
        table_cell(table, "%s", json_text(row, "group"));
        table_cell(table, "%s", json_text(row, "state"));
        table_cell(table, "%.0f/%.0f", json_number(row, "loaded"), json_number(row, "resources"));
        table_cell(table, "%s", bytes_text(text, json_number(row, "bytes")));
        table_cell(table, "%.0f", json_number(row, "hard_refs"));
        table_cell(table, "%.0f", json_number(row, "soft_refs"));
        table_cell(table, "%s%s", json_text(row, "residency"),
                   json_is_true(row, "pinned") && strcmp(json_text(row, "residency"), "pinned") != 0
                       ? ", pinned"
                       : "");
        table_cell(table, "%.0f", json_number(row, "needed_by"));
    }
}

static void resources_add(struct table *table, const cJSON *rows)
{
    char text[TEXT_BYTES], clients[128];
    const cJSON *row;

    cJSON_ArrayForEach(row, rows)
    {
        const cJSON *meta = json_member(row, "meta");

        table_cell(table, "%s", json_text(row, "name"));
        table_cell(table, "%s", json_text(row, "group"));
        table_cell(table, "%s", json_text(row, "kind"));
        table_cell(table, "%s", json_text(row, "state"));
        if (json_number(meta, "width") > 0)
            table_cell(table, "%.0fx%.0fx%.0f", json_number(meta, "width"),
                       json_number(meta, "height"), json_number(meta, "channels"));
        else
            table_cell(table, "-");
        table_cell(table, "%s", bytes_text(text, json_number(row, "bytes")));
        table_cell(table, "%.0f", json_number(row, "hard_refs"));
        table_cell(table, "%.0f", json_number(row, "soft_refs"));
        table_cell(table, "%s", clients_text(clients, json_member(row, "clients")));
        table_cell(table, "%s", json_text(row, "residency"));
        table_cell(table, "%s", age_text(text, json_number(row, "last_use_ns")));
        table_cell(table, "%s", age_text(text, json_number(row, "previous_use_ns")));
    }
}

/* Who refers to it, and how often: "3:2 7:1". */
static char *clients_text(char text[128], const cJSON *clients)
{
    size_t used = 0;
    const cJSON *client;

    strcpy(text, "-");
    cJSON_ArrayForEach(client, clients)
    {
        if (used < 128)
            used += (size_t)snprintf(text + used, 128 - used, "%s%.0f:%.0f", used > 0 ? " " : "",
                                     json_number(client, "client_id"),
                                     json_number(client, "hard_refs"));
    }
    return text;
}

/* How long ago; real time is the same in all processes of a host. */
static char *age_text(char text[TEXT_BYTES], double at_ns)
{
    if (at_ns <= 0) {
        strcpy(text, "-");
        return text;
    }
    return duration_text(text, (double)ec_time_real() - at_ns);
}

static void print_gpu(const struct ctl *ctl, const cJSON *result)
{
    static const struct column columns[] = { { "NAME", false },
                                             { "STATE", false },
                                             { "BYTES", true },
                                             { "LAST FENCE", true },
                                             { "ID", false } };
    struct table table = { .columns = columns, .column_count = 5 };
    char resident[TEXT_BYTES], budget[TEXT_BYTES], requested[TEXT_BYTES];
    const cJSON *client, *row;

    cJSON_ArrayForEach(client, json_member(result, "gpu"))
    {
        char *name = tame_copy(json_text(client, "client"));

        printf("client %.0f %s: %s of %s, %s asked for; fence %.0f is completed\n",
               json_number(client, "client_id"), name,
               bytes_text(resident, json_number(client, "resident_bytes")),
               json_number(client, "budget_bytes") > 0
                   ? bytes_text(budget, json_number(client, "budget_bytes"))
                   : "no bound",
               bytes_text(requested, json_number(client, "requested_bytes")),
               json_number(client, "completed_fence"));
        free(name);
        cJSON_ArrayForEach(row, json_member(client, "items"))
        {
            table_cell(&table, "%s", json_text(row, "name"));
            table_cell(&table, "%s", json_text(row, "state"));
            table_cell(&table, "%s", bytes_text(resident, json_number(row, "bytes")));
            table_cell(&table, "%.0f", json_number(row, "used_fence"));
            table_cell(&table, "%s", json_text(row, "gpu_id"));
        }
        table_print(&table, stdout, ctl->colours);
    }
}

static void print_age(const char *what, double at_ns)
{
    char text[TEXT_BYTES];

    printf("%-13s %s%s\n", what, at_ns > 0 ? age_text(text, at_ns) : "never",
           at_ns > 0 ? " ago" : "");
}

static void print_resource(const struct ctl *ctl, const cJSON *result)
{
    const cJSON *meta = json_member(result, "meta"), *row;
    char text[TEXT_BYTES], clients[128];

    (void)ctl;
    printf("name          %s\n", json_text(result, "name"));
    printf("group         %s (of %.0f)\n", json_text(result, "group"),
           json_number(result, "groups"));
    printf("path          %s\n", json_text(result, "path"));
    printf("kind          %s\n", json_text(result, "kind"));
    printf("state         %s\n", json_text(result, "state"));
    printf("handle        %s\n", json_text(result, "handle"));
    if (json_number(meta, "width") > 0)
        printf("image         %.0f x %.0f, %.0f channels, %.0f levels\n",
               json_number(meta, "width"), json_number(meta, "height"),
               json_number(meta, "channels"), json_number(meta, "levels"));
    printf("bytes         %s", bytes_text(text, json_number(result, "bytes")));
    if (json_number(result, "names") > 1)
        printf(", under %.0f names", json_number(result, "names"));
    putchar('\n');
    printf("references    %.0f hard, %.0f soft; by client %s\n", json_number(result, "hard_refs"),
           json_number(result, "soft_refs"), clients_text(clients, json_member(result, "clients")));
    printf("class         %s\n", json_text(result, "residency"));
    print_age("last use", json_number(result, "last_use_ns"));
    print_age("previous use", json_number(result, "previous_use_ns"));
    printf("uses          %.0f\n", json_number(result, "uses"));
    printf("load took     %s\n", duration_text(text, json_number(result, "load_ns")));
    cJSON_ArrayForEach(row, json_member(result, "old"))
    {
        printf("old life      %s, %s, %.0f references\n", json_text(row, "handle"),
               bytes_text(text, json_number(row, "bytes")), json_number(row, "hard_refs"));
    }
}

static void print_defined(const struct ctl *ctl, const cJSON *result)
{
    (void)ctl;
    if (json_number(result, "groups") > 0)
        printf("%.0f groups with %.0f resources are defined\n", json_number(result, "groups"),
               json_number(result, "resources"));
    else
        printf("nothing is defined: there is no group\n");
}

static void print_undefined(const struct ctl *ctl, const cJSON *result)
{
    (void)ctl;
    printf("%s is forgotten, %.0f groups are left\n", json_text(result, "group"),
           json_number(result, "groups"));
}

static void print_unloaded(const struct ctl *ctl, const cJSON *result)
{
    const cJSON *row;

    (void)ctl;
    printf("%s is %s\n", json_text(result, "group"), json_text(result, "state"));
    cJSON_ArrayForEach(row, json_member(result, "waiting_for"))
    {
        char *name = tame_copy(json_text(row, "client"));

        printf("  held by client %.0f (%s), %.0f references\n", json_number(row, "client_id"), name,
               json_number(row, "hard_refs"));
        free(name);
    }
    cJSON_ArrayForEach(row, json_member(result, "needed_by"))
    {
        printf("  needed by group %s\n", cJSON_IsString(row) ? row->valuestring : "");
    }
}

static void print_requested(const struct ctl *ctl, const cJSON *result)
{
    char text[TEXT_BYTES];

    (void)ctl;
    printf("%s is %s, %s\n", json_text(result, "name"), json_text(result, "state"),
           bytes_text(text, json_number(result, "bytes")));
}

static void print_reloaded(const struct ctl *ctl, const cJSON *result)
{
    (void)ctl;
    printf("%s is being read again\n", json_text(result, "name"));
}

static void print_pinned(const struct ctl *ctl, const cJSON *result)
{
    (void)ctl;
    printf("%s is %s\n", json_text(result, "group"),
           json_is_true(result, "pinned") ? "pinned" : json_text(result, "residency"));
}

static int take_event(struct ctl *ctl, const struct json_answer *notification, void *context)
{
    const cJSON *payload = json_member(notification->tree, "payload");
    const char *type = json_text(notification->tree, "type");
    char text[TEXT_BYTES], *name;

    (void)context;
    if (ctl_print_line(ctl, notification))
        return EXIT_GO_ON;
    name = tame_copy(json_text(payload, "name")); /* a game chose it */
    if (strcmp(type, "resource.progress") == 0)
        printf("group     %s: %.0f of %.0f, %s\n", json_text(payload, "group"),
               json_number(payload, "loaded"), json_number(payload, "total"),
               bytes_text(text, json_number(payload, "bytes")));
    else if (strcmp(type, "resource.group") == 0)
        printf("group     %s is %s, %s\n", json_text(payload, "group"), json_text(payload, "state"),
               bytes_text(text, json_number(payload, "bytes")));
    else if (strcmp(type, "resource.gpu_evict") == 0)
        printf("gpu       client %.0f is asked for %s, %s\n", json_number(payload, "client_id"),
               name, bytes_text(text, json_number(payload, "bytes")));
    else
        printf("resource  %s %s\n", name,
               strcmp(type, "resource.ready") == 0 ? "is ready" : json_text(payload, "state"));
    free(name);
    return EXIT_GO_ON;
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

    printf("%s freed, %.0f resources evicted, %.0f kept\n",
           bytes_text(text, json_number(result, "freed_bytes")),
           json_number(result, "evicted_count"), json_number(result, "kept_count"));
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
