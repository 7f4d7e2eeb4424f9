/* engine-ctl clients */
#include <string.h>

#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"

static void print_clients(const struct ctl *ctl, const cJSON *result);
static void print_closed(const struct ctl *ctl, const cJSON *result);

int verb_clients(struct ctl *ctl, const struct verb_input *input)
{
    cJSON *params;

    if (input->options[0] == NULL)
        return ctl_show(ctl, "client.list", NULL, print_clients);
    params = cJSON_CreateObject();
    cJSON_AddTrueToObject(params, "closed");
    return ctl_show(ctl, "client.list", params, print_closed);
}

static void print_closed(const struct ctl *ctl, const cJSON *result)
{
    static const struct column columns[] = {
        { "ID", true },   { "NAME", false },  { "PID", true },
        { "UID", true },  { "LASTED", true }, { "READ", true },
        { "SENT", true }, { "LOST", true },   { "REASON", false },
    };
    struct table table = { .columns = columns, .column_count = 9 };
    const cJSON *client;
    char text[TEXT_BYTES];

    cJSON_ArrayForEach(client, json_member(result, "items"))
    {
        table_cell(&table, "%.0f", json_number(client, "client_id"));
        table_cell(&table, "%s", json_text(client, "name"));
        table_cell(&table, "%.0f", json_number(client, "pid"));
        table_cell(&table, "%.0f", json_number(client, "uid"));
        table_cell(
            &table, "%s",
            duration_text(text, json_number(client, "ended_ns") - json_number(client, "since_ns")));
        table_cell(&table, "%s", bytes_text(text, json_number(client, "received_bytes")));
        table_cell(&table, "%s", bytes_text(text, json_number(client, "sent_bytes")));
        table_cell(&table, "%.0f", json_number(client, "lost_notifications"));
        table_cell(&table, "%s", json_text(client, "reason"));
    }
    table_print(&table, stdout, ctl->colours);
}

/* Whether it is attached, or why nobody is at the other end: "awaited", "gone". */
static const char *attachment_text(const cJSON *client)
{
    const char *state = json_text(client, "state");

    if (strcmp(state, "connected") != 0)
        return state;
    return json_is_true(client, "attached") ? "yes" : "no";
}

static void print_clients(const struct ctl *ctl, const cJSON *result)
{
    static const struct column columns[] = {
        { "ID", true },        { "NAME", false }, { "PID", true },     { "ROLE", false },
        { "ATTACHED", false }, { "PORTS", true }, { "READERS", true }, { "REFS", true },
        { "MEMORY", true },    { "FRAME", true },
    };
    struct table table = { .columns = columns, .column_count = 10 };
    const cJSON *client;
    char text[TEXT_BYTES];

    cJSON_ArrayForEach(client, json_member(result, "items"))
    {
        table_cell(&table, "%.0f", json_number(client, "client_id"));
        table_cell(&table, "%s", json_text(client, "name"));
        table_cell(&table, "%.0f", json_number(client, "pid"));
        table_cell(&table, "%s", json_text(client, "role"));
        table_cell(&table, "%s", attachment_text(client));
        table_cell(&table, "%.0f", json_number(client, "ports"));
        table_cell(&table, "%.0f", json_number(client, "readers"));
        table_cell(&table, "%.0f", json_number(client, "hard_refs"));
        table_cell(&table, "%s", bytes_text(text, json_number(client, "memory_bytes")));
        table_cell(&table, "%.0f", json_number(client, "last_frame"));
    }
    table_print(&table, stdout, ctl->colours);
}
