/* engine-ctl breaker get, trip, reset */
#include "engine-ctl/breaker_level.h"
#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"

#include <stdlib.h>
#include <string.h>

#define REASON_DEFAULT "by hand"

static void print_breaker(const struct ctl *ctl, const cJSON *result);
static void print_tripped(const struct ctl *ctl, const cJSON *result);
static void print_source(const cJSON *result);
static void print_sources(const struct ctl *ctl, const cJSON *sources);
static void print_clients(const struct ctl *ctl, const cJSON *clients, double level);
static void print_reservations(const cJSON *reservations);
static void print_absent(const cJSON *absent);
static void print_level(const struct ctl *ctl, const cJSON *result);

int verb_breaker_get(struct ctl *ctl, const struct verb_input *input)
{
    (void)input;
    return ctl_show(ctl, "breaker.get", NULL, print_breaker);
}

int verb_breaker_trip(struct ctl *ctl, const struct verb_input *input)
{
    cJSON *params;
    long long level, hold_s = 60;

    if (input->options[1] != NULL && !verb_number(input->options[1], 0, 3600, &hold_s))
        return ctl_fail(EXIT_USAGE, "breaker trip: --hold is \"%s\", expected 0..3600",
                        input->options[1]);
    if (!verb_number(input->arguments[0], 0, 3, &level))
        return ctl_fail(EXIT_USAGE, "breaker trip: level is \"%s\", expected 0..3",
                        input->arguments[0]);
    params = cJSON_CreateObject();
    cJSON_AddNumberToObject(params, "level", (double)level);
    cJSON_AddStringToObject(params, "reason",
                            input->options[0] != NULL ? input->options[0] : REASON_DEFAULT);
    cJSON_AddNumberToObject(params, "hold_s", (double)hold_s);
    return ctl_show(ctl, "breaker.trip", params, print_tripped);
}

int verb_breaker_reset(struct ctl *ctl, const struct verb_input *input)
{
    (void)input;
    return ctl_show(ctl, "breaker.reset", NULL, print_level);
}

static void print_tripped(const struct ctl *ctl, const cJSON *result)
{
    char text[TEXT_BYTES];

    print_level(ctl, result);
    printf("%s freed, %d groups lost resources\n",
           bytes_text(text, json_number(result, "freed_bytes")),
           cJSON_GetArraySize(json_member(result, "evicted")));
}

static void print_breaker(const struct ctl *ctl, const cJSON *result)
{
    print_level(ctl, result);
    if (json_number(result, "level") > 0) {
        char *reason = tame_copy(json_text(result, "reason"));

        printf("cause %s: %s\n", json_text(result, "cause"), reason);
        free(reason);
    }
    print_source(result);
    print_sources(ctl, json_member(result, "sources"));
    print_clients(ctl, json_member(result, "clients"), json_number(result, "level"));
    print_reservations(json_member(result, "reservations"));
    print_absent(json_member(result, "absent"));
}

/* All of them, where there is more than the host. */
static void print_sources(const struct ctl *ctl, const cJSON *sources)
{
    static const struct column columns[] = {
        { "SOURCE", false }, { "COUNTS FOR", false }, { "LEVEL", true }, { "AVAILABLE", true },
        { "OF", true },      { "LOWEST", true },      { "WAITS", true },
    };
    struct table table = { .columns = columns, .column_count = 7 };
    const cJSON *source;
    char text[TEXT_BYTES];

    if (cJSON_GetArraySize(sources) < 2)
        return;
    cJSON_ArrayForEach(source, sources)
    {
        char *name = tame_copy(json_text(source, "name"));

        table_cell(&table, "%s", name);
        free(name);
        table_cell(&table, "%s", json_text(source, "scope"));
        table_cell(&table, "%.0f", json_number(source, "level"));
        table_cell(&table, "%s", bytes_text(text, json_number(source, "available_bytes")));
        table_cell(&table, "%s", bytes_text(text, json_number(source, "total_bytes")));
        table_cell(&table, "%s", bytes_text(text, json_number(source, "lowest_bytes")));
        table_cell(&table, "%.1f %%", json_number(source, "some_permille") / 10);
    }
    table_print(&table, stdout, ctl->colours);
}

/* Who is at level 0 was asked nothing and owes no answer. */
static void print_clients(const struct ctl *ctl, const cJSON *clients, double level)
{
    static const struct column columns[] = {
        { "CLIENT", true },   { "NAME", false }, { "OWN LEVEL", true },
        { "PRIORITY", true }, { "ASKED", true }, { "ANSWERED", false },
        { "AFTER", true },    { "FREED", true }, { "LATE", true },
    };
    struct table table = { .columns = columns, .column_count = 9 };
    const cJSON *client;
    char text[TEXT_BYTES];

    cJSON_ArrayForEach(client, clients)
    {
        const bool answered = cJSON_IsTrue(json_member(client, "answered"));

        table_cell(&table, "%.0f", json_number(client, "client_id"));
        table_cell(&table, "%s", json_text(client, "name"));
        table_cell(&table, "%.0f", json_number(client, "own_level"));
        table_cell(&table, "%.0f", json_number(client, "priority"));
        table_cell(&table, "%s",
                   cJSON_IsTrue(json_member(client, "exit_asked"))
                       ? "to leave"
                       : bytes_text(text, json_number(client, "asked_bytes")));
        if (answered)
            table_cell(&table, "level %.0f", json_number(client, "acked_level"));
        else
            table_cell(&table,
                       level > 0 || json_number(client, "own_level") > 0 ? "not answered" : "-");
        table_cell(&table, "%s",
                   answered ? duration_text(text, json_number(client, "ack_latency_ns")) : "-");
        table_cell(&table, "%s",
                   answered ? bytes_text(text, json_number(client, "freed_bytes")) : "-");
        table_cell(&table, "%.0f", json_number(client, "late"));
    }
    if (table.cell_count > 0)
        table_print(&table, stdout, ctl->colours);
}

static void print_reservations(const cJSON *reservations)
{
    char bytes[TEXT_BYTES], taken[TEXT_BYTES], left[TEXT_BYTES];
    const cJSON *row;

    cJSON_ArrayForEach(row, reservations)
        printf("client %.0f has reserved %s, %s of it taken, for %s\n",
               json_number(row, "client_id"), bytes_text(bytes, json_number(row, "bytes")),
               bytes_text(taken, json_number(row, "taken_bytes")),
               duration_text(left, json_number(row, "left_ns")));
}

static void print_absent(const cJSON *absent)
{
    const cJSON *row;

    cJSON_ArrayForEach(row, absent)
    {
        char *reason = tame_copy(json_text(row, "reason"));

        printf("not watched: %s (%s)\n", json_text(row, "source"), reason);
        free(reason);
    }
}

/* Where memory runs short first, and how soon. */
static void print_source(const cJSON *result)
{
    char available[TEXT_BYTES], total[TEXT_BYTES], next[TEXT_BYTES];
    char *source = tame_copy(json_text(result, "source"));

    printf("%s: %s of %s available (%.1f %%)", source,
           bytes_text(available, json_number(result, "available_bytes")),
           bytes_text(total, json_number(result, "total_bytes")),
           100 * json_number(result, "available_ratio"));
    if (cJSON_IsNumber(json_member(result, "next_level_ns")))
        printf(", the next level in %s at this rate",
               duration_text(next, json_number(result, "next_level_ns")));
    printf("\n");
    free(source);
}

static void print_level(const struct ctl *ctl, const cJSON *result)
{
    const double level = json_number(result, "level");

    printf("breaker level %s%.0f %s%s\n", style_on(breaker_level_style(level), ctl->colours), level,
           breaker_level_name(level), style_off(ctl->colours));
}
