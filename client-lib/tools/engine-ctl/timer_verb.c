/* engine-ctl timer arm, cancel, list */
#include "engine-ctl/duration.h"
#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CLOCK, EVERY, EVENT, PAYLOAD }; /* rows of the options of timer arm */

/* A timer that is followed until it has fired, or for ever. */
struct following {
    double timer_id;
    bool again;
};

static int add_when(cJSON *params, const char *clock, const char *name, const char *text);
static int subscribe(struct ctl *ctl);
static int arm(struct ctl *ctl, cJSON *params, struct following *following);
static int take_firing(struct ctl *ctl, const struct json_answer *event, void *context);
static void print_timers(const struct ctl *ctl, const cJSON *result);
static void print_cancelled(const struct ctl *ctl, const cJSON *result);

/* A timer ends with the connection that armed it, so this stays until it has fired. */
int verb_timer_arm(struct ctl *ctl, const struct verb_input *input)
{
    const char *clock = input->options[CLOCK] != NULL ? input->options[CLOCK] : "real";
    struct following following = { .again = input->options[EVERY] != NULL };
    cJSON *params = cJSON_CreateObject(), *payload;
    int rc;

    cJSON_AddStringToObject(params, "clock", clock);
    rc = add_when(params, clock, "in", input->arguments[0]);
    if (rc == EXIT_DONE && input->options[EVERY] != NULL)
        rc = add_when(params, clock, "every", input->options[EVERY]);
    if (input->options[EVENT] != NULL)
        cJSON_AddStringToObject(params, "event", input->options[EVENT]);
    if (rc == EXIT_DONE && input->options[PAYLOAD] != NULL) {
        payload = cJSON_Parse(input->options[PAYLOAD]);
        if (cJSON_IsObject(payload)) {
            cJSON_AddItemToObject(params, "payload", payload);
        } else {
            cJSON_Delete(payload);
            rc = ctl_fail(EXIT_USAGE, "timer arm: --payload is no JSON object: %s",
                          input->options[PAYLOAD]);
        }
    }
    if (rc != EXIT_DONE) {
        cJSON_Delete(params);
        return rc;
    }
    rc = ctl->dry_run ? EXIT_DONE : subscribe(ctl);
    if (rc == EXIT_DONE)
        rc = arm(ctl, params, &following);
    else
        cJSON_Delete(params);
    return rc == EXIT_DONE ? ctl_take(ctl, "timer.arm", "event", take_firing, &following) : rc;
}

/* Before it is armed: a short timer fires at once, and nobody would see it. */
static int subscribe(struct ctl *ctl)
{
    cJSON *params = cJSON_CreateObject();

    cJSON_AddItemToArray(cJSON_AddArrayToObject(params, "types"),
                         cJSON_CreateString("timer.fired"));
    return ctl_subscribe(ctl, "event.subscribe", params);
}

int verb_timer_cancel(struct ctl *ctl, const struct verb_input *input)
{
    cJSON *params;
    long long id;

    if (!verb_number(input->arguments[0], 1, INT64_C(9007199254740991), &id))
        return ctl_fail(EXIT_USAGE, "timer cancel: \"%s\" is no id of a timer; see timer list",
                        input->arguments[0]);
    params = cJSON_CreateObject();
    cJSON_AddNumberToObject(params, "timer_id", (double)id);
    return ctl_show(ctl, "timer.cancel", params, print_cancelled);
}

int verb_timer_list(struct ctl *ctl, const struct verb_input *input)
{
    (void)input;
    return ctl_show(ctl, "timer.list", NULL, print_timers);
}

/* A duration for real and game time, a number of steps for a step clock. */
static int add_when(cJSON *params, const char *clock, const char *name, const char *text)
{
    const bool is_time = strcmp(clock, "real") == 0 || strcmp(clock, "game") == 0;
    char member[32];
    long long number;

    snprintf(member, sizeof member, "%s_%s", name, is_time ? "ns" : "steps");
    if (is_time ? !duration_parse(text, &number) : !verb_number(text, 0, INT64_MAX, &number))
        return ctl_fail(EXIT_USAGE, "timer arm: \"%s\" is no %s", text,
                        is_time ? "duration, such as 250ms, 1.5s, 2min"
                                : "number of steps, which step clocks count");
    cJSON_AddNumberToObject(params, member, (double)number);
    return EXIT_DONE;
}

static int arm(struct ctl *ctl, cJSON *params, struct following *following)
{
    char *text = json_params(params);
    struct json_answer answer;
    int rc = ctl_call(ctl, "timer.arm", text, &answer);

    cJSON_free(text);
    if (rc == EXIT_DONE) {
        following->timer_id = json_number(answer.tree, "timer_id");
        if (ctl->terminal && !ctl->json)
            printf("timer %.0f is armed; it ends with this program\n", following->timer_id);
        rc = ctl_flush();
    }
    json_answer_finish(&answer);
    return rc;
}

static int take_firing(struct ctl *ctl, const struct json_answer *event, void *context)
{
    const struct following *following = context;
    const cJSON *payload = json_member(event->tree, "payload");

    if (json_number(payload, "timer_id") != following->timer_id)
        return EXIT_GO_ON;
    if (!ctl_print_line(ctl, event))
        printf("timer %.0f fired, time %.0f, due %.0f\n", following->timer_id,
               json_number(payload, "count"), json_number(payload, "due"));
    return following->again ? EXIT_GO_ON : ctl_flush();
}

static void print_timers(const struct ctl *ctl, const cJSON *result)
{
    static const struct column columns[] = {
        { "TIMER", true }, { "CLIENT", true }, { "CLOCK", false }, { "DUE", true },
        { "EVERY", true }, { "FIRED", true },  { "EVENT", false },
    };
    struct table table = { .columns = columns, .column_count = 7 };
    const cJSON *timer;

    cJSON_ArrayForEach(timer, json_member(result, "items"))
    {
        table_cell(&table, "%.0f", json_number(timer, "timer_id"));
        table_cell(&table, "%.0f", json_number(timer, "client_id"));
        table_cell(&table, "%s", json_text(timer, "clock"));
        table_cell(&table, "%.0f", json_number(timer, "due"));
        table_cell(&table, "%.0f", json_number(timer, "every"));
        table_cell(&table, "%.0f", json_number(timer, "count"));
        table_cell(&table, "%s", json_text(timer, "event"));
    }
    table_print(&table, stdout, ctl->colours);
    printf("%.0f armed\n", json_number(result, "armed"));
}

static void print_cancelled(const struct ctl *ctl, const cJSON *result)
{
    (void)ctl;
    printf("timer %.0f is cancelled\n", json_number(result, "timer_id"));
}
