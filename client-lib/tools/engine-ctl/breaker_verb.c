/* engine-ctl breaker get, trip, reset */
#include "engine-ctl/breaker_level.h"
#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"

#include <stdlib.h>
#include <string.h>

#define REASON_DEFAULT "by hand"

static void print_breaker(const struct ctl *ctl, const cJSON *result);
static void print_source(const cJSON *result);
static void print_level(const struct ctl *ctl, const cJSON *result);

int verb_breaker_get(struct ctl *ctl, const struct verb_input *input)
{
    struct json_answer answer;
    int rc;

    (void)input;
    if (ctl->json)
        return ctl_call_and_print(ctl, "breaker.get", NULL);
    rc = ctl_call(ctl, "breaker.get", NULL, &answer);
    if (rc == EXIT_DONE) {
        print_breaker(ctl, answer.tree);
        rc = ctl_flush();
    }
    json_answer_finish(&answer);
    return rc;
}

int verb_breaker_trip(struct ctl *ctl, const struct verb_input *input)
{
    struct json_answer answer;
    char text[TEXT_BYTES], *params_text;
    cJSON *params;
    long long level, hold_s = 60;
    int rc;

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
    params_text = json_params(params);
    if (ctl->json) {
        rc = ctl_call_and_print(ctl, "breaker.trip", params_text);
    } else {
        rc = ctl_call(ctl, "breaker.trip", params_text, &answer);
        if (rc == EXIT_DONE) {
            print_level(ctl, answer.tree);
            printf("%s freed, %d groups lost resources\n",
                   bytes_text(text, json_number(answer.tree, "freed_bytes")),
                   cJSON_GetArraySize(json_member(answer.tree, "evicted")));
            rc = ctl_flush();
        }
        json_answer_finish(&answer);
    }
    cJSON_free(params_text);
    return rc;
}

int verb_breaker_reset(struct ctl *ctl, const struct verb_input *input)
{
    struct json_answer answer;
    int rc;

    (void)input;
    if (ctl->json)
        return ctl_call_and_print(ctl, "breaker.reset", NULL);
    rc = ctl_call(ctl, "breaker.reset", NULL, &answer);
    if (rc == EXIT_DONE) {
        print_level(ctl, answer.tree);
        rc = ctl_flush();
    }
    json_answer_finish(&answer);
    return rc;
}

static void print_breaker(const struct ctl *ctl, const cJSON *result)
{
    static const struct column columns[] = {
        { "CLIENT", true }, { "NAME", false }, { "ANSWERED", true },
        { "AFTER", true },  { "FREED", true },
    };
    struct table clients = { .columns = columns, .column_count = 5 };
    char text[TEXT_BYTES];
    const cJSON *client;

    print_level(ctl, result);
    if (json_number(result, "level") > 0) {
        char *reason = tame(strdup(json_text(result, "reason")));

        printf("cause %s: %s\n", json_text(result, "cause"), reason);
        free(reason);
    }
    print_source(result);
    cJSON_ArrayForEach(client, json_member(result, "clients"))
    {
        table_cell(&clients, "%.0f", json_number(client, "client_id"));
        table_cell(&clients, "%s", json_text(client, "name"));
        table_cell(&clients, "level %.0f", json_number(client, "acked_level"));
        table_cell(&clients, "%s", duration_text(text, json_number(client, "ack_latency_ns")));
        table_cell(&clients, "%s", bytes_text(text, json_number(client, "freed_bytes")));
    }
    if (clients.cell_count > 0)
        table_print(&clients, stdout, ctl->colours);
}

/* Where memory runs short first, and how soon. */
static void print_source(const cJSON *result)
{
    char available[TEXT_BYTES], total[TEXT_BYTES], next[TEXT_BYTES];
    char *source = tame(strdup(json_text(result, "source")));

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
