/* engine-ctl mem-report, mem-leaks, mem-snapshot: one screen that answers who has the memory. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine-ctl/json_read.h"
#include "engine-ctl/memory_sites.h"
#include "engine-ctl/memory_tag.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"
#include "engine-ctl/watch.h"

#define BAR_CELLS 10
#define FRAMES_DEFAULT 1
#define FRAMES_MAX 24

enum { CLIENT, PID, DIFF, WATCH, FRAMES, DEBUG_DIRECTORY };
enum { LEAKS_FILTER, LEAKS_FRAMES, LEAKS_DEBUG_DIRECTORY };

struct view {
    const struct ctl *ctl;
    struct symbols *symbols;
    size_t frames;      /* of each stack */
    const char *params; /* of memory.report */
    bool is_watched;
};

static int make_params(const struct verb_input *input, char **params);
static int read_frames(const char *verb, const char *text, size_t *frames);
static int report(struct ctl *ctl, void *context);
static int diff(struct ctl *ctl, const struct verb_input *input, const struct view *view);
static void print_snapshot(const struct ctl *ctl, const cJSON *result);
static void print_process(const struct view *view, const cJSON *process);
static void print_bridge(const struct ctl *ctl, const cJSON *process);
static void print_checks(const struct ctl *ctl, const cJSON *process);
static void print_tags(const struct ctl *ctl, const cJSON *tags);
static void print_allocators(const struct ctl *ctl, const cJSON *allocators);
static void print_sites(const struct view *view, const cJSON *process, const cJSON *sites);
static void print_suspects(const struct view *view, const cJSON *process);
static void print_changes(const struct view *view, const cJSON *rows, const char *title,
                          const char *name);

int verb_mem_report(struct ctl *ctl, const struct verb_input *input)
{
    struct view view = { .ctl = ctl };
    char *params = NULL;
    int rc = read_frames("mem-report", input->options[FRAMES], &view.frames);

    if (rc == EXIT_DONE && input->arguments[0] != NULL && input->list_count == 0)
        rc = ctl_fail(EXIT_USAGE, "mem-report: \"%s\" is a snapshot only behind --diff",
                      input->arguments[0]);
    if (rc == EXIT_DONE)
        rc = make_params(input, &params);
    if (rc != EXIT_DONE)
        return rc;
    view.params = params;
    view.is_watched = input->options[WATCH] != NULL;
    view.symbols = symbols_create(input->options[DEBUG_DIRECTORY]);
    if (view.symbols == NULL)
        rc = ctl_fail(EXIT_ANSWERED_ERROR, "mem-report: no memory");
    else if (input->list_count > 0)
        rc = diff(ctl, input, &view);
    else
        rc = watch_show(ctl, "mem-report", input->options[WATCH], report, &view);
    symbols_destroy(view.symbols);
    cJSON_free(params);
    return rc;
}

int verb_mem_snapshot(struct ctl *ctl, const struct verb_input *input)
{
    cJSON *params;
    long long client;

    if (!verb_number(input->arguments[0], 0, UINT32_MAX, &client))
        return ctl_fail(EXIT_USAGE, "mem-snapshot: \"%s\" is not the number of a client",
                        input->arguments[0]);
    params = cJSON_CreateObject();
    cJSON_AddNumberToObject(params, "client_id", (double)client);
    if (input->arguments[1] != NULL)
        cJSON_AddStringToObject(params, "name", input->arguments[1]);
    return ctl_show(ctl, "memory.snapshot", params, print_snapshot);
}

static void print_snapshot(const struct ctl *ctl, const cJSON *result)
{
    const double client = json_number(result, "client_id"),
                 number = json_number(result, "snapshot");

    (void)ctl;
    printf("Snapshot %.0f of client %.0f. Later: engine-ctl mem-snapshot %.0f, then "
           "engine-ctl mem-report --diff %.0f N\n",
           number, client, client, number);
}

int verb_mem_leaks(struct ctl *ctl, const struct verb_input *input)
{
    struct view view = { .ctl = ctl };
    struct json_answer answer = { 0 };
    cJSON *object;
    long long client;
    char *params, text[TEXT_BYTES];
    int rc = read_frames("mem-leaks", input->options[LEAKS_FRAMES], &view.frames);

    if (rc != EXIT_DONE)
        return rc;
    if (!verb_number(input->arguments[0], 0, UINT32_MAX, &client))
        return ctl_fail(EXIT_USAGE, "mem-leaks: \"%s\" is not the number of a client",
                        input->arguments[0]);
    object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "client_id", (double)client);
    if (input->options[LEAKS_FILTER] != NULL)
        cJSON_AddStringToObject(object, "filter", input->options[LEAKS_FILTER]);
    params = json_params(object);
    view.symbols = symbols_create(input->options[LEAKS_DEBUG_DIRECTORY]);
    if (view.symbols == NULL) {
        rc = ctl_fail(EXIT_ANSWERED_ERROR, "mem-leaks: no memory");
    } else if (ctl->json) {
        rc = ctl_call_and_print(ctl, "memory.leaks", params);
    } else {
        rc = ctl_call(ctl, "memory.leaks", params, &answer);
        if (rc == EXIT_DONE) {
            printf("%s in %.0f blocks from %.0f sites %s\n",
                   bytes_text(text, json_number(answer.tree, "bytes")),
                   json_number(answer.tree, "count"), json_number(answer.tree, "sites"),
                   json_is_true(answer.tree, "alive") ? "are held now."
                                                      : "were held when it ended.");
            print_sites(&view, answer.tree, json_member(answer.tree, "items"));
            rc = ctl_flush();
        }
        json_answer_finish(&answer);
    }
    symbols_destroy(view.symbols);
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
        if (!verb_number(input->options[i], i == CLIENT ? 0 : 1, UINT32_MAX, &number)) {
            cJSON_Delete(object);
            return ctl_fail(EXIT_USAGE, "mem-report: \"%s\" is not a number of a %s",
                            input->options[i], i == CLIENT ? "client" : "process");
        }
        cJSON_AddNumberToObject(object, names[i], (double)number);
    }
    *params = json_params(object);
    return EXIT_DONE;
}

static int read_frames(const char *verb, const char *text, size_t *frames)
{
    long long number = FRAMES_DEFAULT;

    if (text != NULL && !verb_number(text, 1, FRAMES_MAX, &number))
        return ctl_fail(EXIT_USAGE, "%s: --frames is \"%s\", expected 1..%d", verb, text,
                        FRAMES_MAX);
    *frames = (size_t)number;
    return EXIT_DONE;
}

/* On a terminal the newest one takes the place of the last; in a pipe each is a line of JSON. */
static int report(struct ctl *ctl, void *context)
{
    const struct view *view = context;
    struct json_answer answer = { 0 };
    const cJSON *process;
    int rc;

    if (ctl->json || (view->is_watched && !ctl->terminal))
        return ctl_call_and_print(ctl, "memory.report", view->params);
    rc = ctl_call(ctl, "memory.report", view->params, &answer);
    if (rc == EXIT_DONE) {
        if (view->is_watched)
            fputs("\033[H\033[J", stdout); /* to the upper left, and clear */
        cJSON_ArrayForEach(process, json_member(answer.tree, "items"))
        {
            print_process(view, process);
        }
        rc = ctl_flush();
    }
    json_answer_finish(&answer);
    return rc;
}

/* A snapshot by its number or its name. */
static void add_snapshot(cJSON *list, const char *text)
{
    long long number;

    cJSON_AddItemToArray(list, verb_number(text, 1, UINT32_MAX, &number)
                                   ? cJSON_CreateNumber((double)number)
                                   : cJSON_CreateString(text));
}

/* The second snapshot is an argument, or another --diff. */
static int diff(struct ctl *ctl, const struct verb_input *input, const struct view *view)
{
    const char *second = input->list_count == 2 ? input->list[1] : input->arguments[0];
    struct json_answer answer = { 0 };
    cJSON *object, *list;
    char *params, text[TEXT_BYTES];
    int rc;

    if (second == NULL || input->list_count + (input->arguments[0] != NULL) != 2)
        return ctl_fail(EXIT_USAGE, "mem-report: expected two snapshots, as in --diff 1 2");
    object = cJSON_CreateObject();
    list = cJSON_AddArrayToObject(object, "diff");
    add_snapshot(list, input->list[0]);
    add_snapshot(list, second);
    params = json_params(object);
    if (ctl->json) {
        rc = ctl_call_and_print(ctl, "memory.snapshot", params);
    } else {
        rc = ctl_call(ctl, "memory.snapshot", params, &answer);
        if (rc == EXIT_DONE) {
            const struct memory_sites_view sites = { view->symbols, view->frames, true,
                                                     ctl->colours };
            char *name = tame_copy(json_text(answer.tree, "name"));

            printf("%s  client %.0f: what changed in %s\n", name,
                   json_number(answer.tree, "client_id"),
                   duration_text(text,
                                 json_number(json_member(answer.tree, "after"), "real_ns") -
                                     json_number(json_member(answer.tree, "before"), "real_ns")));
            free(name);
            if (cJSON_GetArraySize(json_member(answer.tree, "tags")) == 0 &&
                cJSON_GetArraySize(json_member(answer.tree, "allocators")) == 0 &&
                cJSON_GetArraySize(json_member(answer.tree, "sites")) == 0)
                puts("  nothing");
            print_changes(view, json_member(answer.tree, "tags"), "  TAG", "tag");
            print_changes(view, json_member(answer.tree, "allocators"), "  ALLOCATOR", "name");
            memory_sites_print(json_member(answer.tree, "sites"),
                               json_member(answer.tree, "modules"), &sites);
            rc = ctl_flush();
        }
        json_answer_finish(&answer);
    }
    cJSON_free(params);
    return rc;
}

/* ---- the page ---- */

static void print_process(const struct view *view, const cJSON *process)
{
    const struct ctl *ctl = view->ctl;
    const double rss = json_number(process, "rss_bytes");
    const double rate = json_number(process, "allocations_per_s");
    char *name = tame_copy(json_text(process, "name"));
    char text[TEXT_BYTES];

    printf("%s%s%s  client %.0f, pid %.0f", style_on(STYLE_BOLD, ctl->colours), name,
           style_off(ctl->colours), json_number(process, "client_id"), json_number(process, "pid"));
    free(name);
    if (!json_is_true(process, "alive"))
        fputs(", ended: its last state", stdout);
    if (rss > 0)
        printf(", resident %s", bytes_text(text, rss));
    if (rate > 0)
        printf(", %s allocations/s", number_text(text, rate));
    putchar('\n');
    print_bridge(ctl, process);
    print_tags(ctl, json_member(process, "tags"));
    print_allocators(ctl, json_member(process, "allocators"));
    print_sites(view, process, json_member(process, "sites"));
    print_checks(ctl, process);
    print_suspects(view, process);
    putchar('\n');
}

/* From what was asked for to what `top` shows, so that the two never differ without a reason. */
static void print_bridge(const struct ctl *ctl, const cJSON *process)
{
    static const struct column columns[] = {
        { "  REQUESTED", false }, { "ROUNDED", true },  { "CACHED", true },    { "FREE", true },
        { "TAKEN", true },        { "RESIDENT", true }, { "ANONYMOUS", true }, { "FILE", true },
        { "SHARED", true },       { "SWAPPED", true },  { "MAPPED", true },
    };
    static const char *const members[] = {
        "requested_bytes", "rounded_bytes", "cached_bytes",    "free_bytes",
        "capacity_bytes",  "rss_bytes",     "anonymous_bytes", "file_bytes",
        "shared_bytes",    "swap_bytes",    "mapped_bytes",
    };
    const size_t count = sizeof members / sizeof members[0];
    const cJSON *bridge = json_member(process, "bridge");
    struct table table = { .columns = columns, .column_count = count };
    char text[TEXT_BYTES];

    if (bridge == NULL)
        return;
    for (size_t i = 0; i < count; i++)
        table_cell(&table, i == 0 ? "  %s" : "%s",
                   json_member(bridge, members[i]) == NULL
                       ? "-" /* of a process that has ended */
                       : bytes_text(text, json_number(bridge, members[i])));
    table_print(&table, stdout, ctl->colours);
}

static void print_checks(const struct ctl *ctl, const cJSON *process)
{
    const cJSON *checks = json_member(process, "checks");
    const double faults = json_number(checks, "faults");

    if (faults > 0)
        printf(
            "  %sFaults%s: %.0f refused calls: blocks freed twice, pointers that are no block, or "
            "overwritten guards\n",
            style_on(STYLE_WARNING, ctl->colours), style_off(ctl->colours), faults);
    else if (json_is_true(checks, "on"))
        puts("  Checks are on and have found no fault.");
}

static void print_tags(const struct ctl *ctl, const cJSON *tags)
{
    static const struct column columns[] = {
        { "  TAG", false }, { "BYTES", true },  { "PEAK", true },
        { "BLOCKS", true }, { "RATE/S", true }, { "BUDGET", true },
    };
    struct table table = { .columns = columns, .column_count = 6 };
    char text[TEXT_BYTES];
    const cJSON *tag;

    cJSON_ArrayForEach(tag, tags)
    {
        const double budget = json_number(tag, "budget_bytes");
        const double rate = json_number(tag, "allocations_per_s");

        if (!memory_tag_is_used(tag))
            continue;
        table_cell(&table, "  %s", json_text(tag, "tag"));
        table_cell(&table, "%s", bytes_text(text, json_number(tag, "bytes")));
        table_cell(&table, "%s", bytes_text(text, json_number(tag, "peak_bytes")));
        table_cell(&table, "%.0f", json_number(tag, "count"));
        table_cell(&table, "%s", rate > 0 ? number_text(text, rate) : "-");
        table_cell(&table, "%s", budget > 0 ? bytes_text(text, budget) : "-");
    }
    if (table.cell_count > 0)
        table_print(&table, stdout, ctl->colours);
}

/* [######    ]  57 % */
static const char *occupancy_bar(char text[TEXT_BYTES], double occupancy)
{
    const int full = occupancy >= 1 ? BAR_CELLS : (int)(occupancy * BAR_CELLS + 0.5);

    snprintf(text, TEXT_BYTES, "[%.*s%*s] %3.0f %%", full, "##########", BAR_CELLS - full, "",
             occupancy * 100);
    return text;
}

static void print_allocators(const struct ctl *ctl, const cJSON *allocators)
{
    static const struct column columns[] = {
        { "  ALLOCATOR", false }, { "KIND", false },    { "TAG", false },
        { "USED", true },         { "CAPACITY", true }, { "FULL", false },
        { "PEAK", true },         { "BLOCKS", true },   { "FAILED", true },
    };
    struct table table = { .columns = columns, .column_count = 9 };
    char text[TEXT_BYTES];
    const cJSON *row;

    cJSON_ArrayForEach(row, allocators)
    {
        table_cell(&table, "  %s", json_text(row, "name"));
        table_cell(&table, "%s", json_text(row, "kind"));
        table_cell(&table, "%s", json_text(row, "tag"));
        table_cell(&table, "%s", bytes_text(text, json_number(row, "current_bytes")));
        table_cell(&table, "%s", bytes_text(text, json_number(row, "capacity_bytes")));
        table_cell(&table, "%s",
                   json_number(row, "capacity_bytes") > 0
                       ? occupancy_bar(text, json_number(row, "occupancy"))
                       : "-");
        table_cell(&table, "%s", bytes_text(text, json_number(row, "peak_bytes")));
        table_cell(&table, "%.0f", json_number(row, "count"));
        table_cell(&table, "%.0f", json_number(row, "failed"));
    }
    if (table.cell_count > 0)
        table_print(&table, stdout, ctl->colours);
}

static void print_sites(const struct view *view, const cJSON *process, const cJSON *sites)
{
    const cJSON *sampling = json_member(process, "sampling");
    const double distance = json_number(sampling, "sample_bytes");
    const struct memory_sites_view how = { view->symbols, view->frames, false, view->ctl->colours };
    char text[TEXT_BYTES];

    if (cJSON_GetArraySize(sites) == 0)
        return;
    if (distance > 1)
        printf("  (sites are estimates, of one sample in %s)\n", bytes_text(text, distance));
    if (json_number(sampling, "lost") > 0)
        printf("  (%.0f of %.0f samples found no room in the table of sites)\n",
               json_number(sampling, "lost"), json_number(sampling, "samples"));
    memory_sites_print(sites, json_member(process, "modules"), &how);
}

static void print_suspects(const struct view *view, const cJSON *process)
{
    const cJSON *suspect, *modules = json_member(process, "modules");
    const bool colours = view->ctl->colours;

    cJSON_ArrayForEach(suspect, json_member(process, "suspects"))
    {
        char *what = tame_copy(json_text(suspect, "what"));
        char *reason = tame_copy(json_text(suspect, "reason"));
        char site[SITE_NAME_BYTES];

        printf("  %sSuspect%s %s: %s\n", style_on(STYLE_WARNING, colours), style_off(colours),
               json_member(suspect, "frames") != NULL
                   ? memory_site_name(view->symbols, modules, suspect, site)
                   : what,
               reason);
        free(what);
        free(reason);
    }
}

static void print_changes(const struct view *view, const cJSON *rows, const char *title,
                          const char *name)
{
    const struct column columns[] = { { title, false },
                                      { "BEFORE", true },
                                      { "AFTER", true },
                                      { "BLOCKS", true },
                                      { "ALLOCATIONS", true } };
    struct table table = { .columns = columns, .column_count = 5 };
    char text[TEXT_BYTES];
    const cJSON *row;

    cJSON_ArrayForEach(row, rows)
    {
        table_cell(&table, "  %s", json_text(row, name));
        table_cell(&table, "%s", bytes_text(text, json_number(row, "bytes_before")));
        table_cell(&table, "%s", bytes_text(text, json_number(row, "bytes_after")));
        table_cell(&table, "%+.0f", json_number(row, "count"));
        table_cell(&table, "%+.0f", json_number(row, "total"));
    }
    if (table.cell_count > 0)
        table_print(&table, stdout, view->ctl->colours);
}
