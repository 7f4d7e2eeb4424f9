/* engine-ctl clients */
#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"

static void print_clients(const struct ctl *ctl, const cJSON *result);

int verb_clients(struct ctl *ctl, const struct verb_input *input)
{
    struct json_answer answer;
    int rc;

    (void)input;
    if (ctl->json)
        return ctl_call_and_print(ctl, "client.list", NULL);
    rc = ctl_call(ctl, "client.list", NULL, &answer);
    if (rc == EXIT_DONE) {
        print_clients(ctl, answer.tree);
        rc = ctl_flush();
    }
    json_answer_finish(&answer);
    return rc;
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
        table_cell(&table, "%s", json_is_true(client, "attached") ? "yes" : "no");
        table_cell(&table, "%.0f", json_number(client, "ports"));
        table_cell(&table, "%.0f", json_number(client, "readers"));
        table_cell(&table, "%.0f", json_number(client, "hard_refs"));
        table_cell(&table, "%s", bytes_text(text, json_number(client, "memory_bytes")));
        table_cell(&table, "%.0f", json_number(client, "last_frame"));
    }
    table_print(&table, stdout, ctl->colours);
}
