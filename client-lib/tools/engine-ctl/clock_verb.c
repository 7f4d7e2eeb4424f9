/* engine-ctl clock get, pause, resume, scale, checkpoint, rollback, step, create, rate, group */
#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/tables/nearest.h"

#define STEPS_MAX 100000 /* as the daemon has it */

static int find_checkpoint(struct ctl *ctl, const char *name, long long *number);
static cJSON *raw_number(long long number);
static int usage_number(const char *verb, const char *what, const char *text, long long min,
                        long long max);
static void print_clocks(const struct ctl *ctl, const cJSON *result);
static void print_checkpoint(const struct ctl *ctl, const cJSON *result);
static void print_group(const struct ctl *ctl, const cJSON *result);
static void print_time(const struct ctl *ctl, const cJSON *result);

int verb_clock_get(struct ctl *ctl, const struct verb_input *input)
{
    (void)input;
    return ctl_show(ctl, "clock.get", cJSON_CreateObject(), print_clocks);
}

int verb_clock_pause(struct ctl *ctl, const struct verb_input *input)
{
    (void)input;
    return ctl_show(ctl, "clock.pause", cJSON_CreateObject(), print_time);
}

int verb_clock_resume(struct ctl *ctl, const struct verb_input *input)
{
    (void)input;
    return ctl_show(ctl, "clock.resume", cJSON_CreateObject(), print_time);
}

/* The scale goes out as the text that it is, so that no digit is lost; the daemon knows its range. */
int verb_clock_scale(struct ctl *ctl, const struct verb_input *input)
{
    cJSON *params = cJSON_CreateObject();

    cJSON_AddStringToObject(params, "scale", input->arguments[0]);
    return ctl_show(ctl, "clock.scale", params, print_time);
}

int verb_clock_checkpoint(struct ctl *ctl, const struct verb_input *input)
{
    cJSON *params = cJSON_CreateObject();

    if (input->arguments[0] != NULL)
        cJSON_AddStringToObject(params, "name", input->arguments[0]);
    return ctl_show(ctl, "clock.checkpoint", params, print_checkpoint);
}

int verb_clock_rollback(struct ctl *ctl, const struct verb_input *input)
{
    const char *time = input->options[0], *checkpoint = input->arguments[0];
    cJSON *params;
    long long number;
    int rc;

    if ((time != NULL) == (checkpoint != NULL))
        return ctl_fail(EXIT_USAGE, "clock rollback: expected a checkpoint or --time, one of them");
    if (time != NULL && !verb_number(time, 0, INT64_MAX, &number))
        return usage_number("rollback", "--time", time, 0, INT64_MAX);
    if (time == NULL && !verb_number(checkpoint, 0, INT64_MAX, &number)) {
        rc = find_checkpoint(ctl, checkpoint, &number);
        if (rc != EXIT_DONE)
            return rc;
    }
    params = cJSON_CreateObject();
    cJSON_AddItemToObject(params, time != NULL ? "game_ns" : "checkpoint_id", raw_number(number));
    return ctl_show(ctl, "clock.rollback", params, print_time);
}

/* The newest checkpoint of this name. */
static int find_checkpoint(struct ctl *ctl, const char *name, long long *number)
{
    struct json_answer answer;
    struct ec_nearest nearest;
    const cJSON *checkpoint;
    int rc = ctl_call(ctl, "clock.get", NULL, &answer);

    *number = 0;
    ec_nearest_init(&nearest, name, strlen(name));
    cJSON_ArrayForEach(checkpoint, json_member(rc == EXIT_DONE ? answer.tree : NULL, "checkpoints"))
    {
        ec_nearest_offer(&nearest, json_text(checkpoint, "name"));
        if (strcmp(json_text(checkpoint, "name"), name) == 0 &&
            json_number(checkpoint, "checkpoint_id") > (double)*number)
            *number = (long long)json_number(checkpoint, "checkpoint_id");
    }
    if (rc == EXIT_DONE && *number == 0)
        rc = ctl_fail(EXIT_ANSWERED_ERROR, "clock rollback: there is no checkpoint %s%s%s%s", name,
                      nearest.best != NULL ? ", did you mean " : "",
                      nearest.best != NULL ? nearest.best : "", nearest.best != NULL ? "?" : "");
    json_answer_finish(&answer);
    return rc;
}

/* A double would lose digits. */
static cJSON *raw_number(long long number)
{
    char text[32];

    snprintf(text, sizeof text, "%lld", number);
    return cJSON_CreateRaw(text);
}

int verb_clock_step(struct ctl *ctl, const struct verb_input *input)
{
    cJSON *params;
    long long steps = 1;

    if (input->arguments[1] != NULL && !verb_number(input->arguments[1], 1, STEPS_MAX, &steps))
        return usage_number("step", "number of steps", input->arguments[1], 1, STEPS_MAX);
    params = cJSON_CreateObject();
    cJSON_AddStringToObject(params, "name", input->arguments[0]);
    cJSON_AddNumberToObject(params, "steps", (double)steps);
    return ctl_show(ctl, "clock.step.advance", params, print_clocks);
}

int verb_clock_create(struct ctl *ctl, const struct verb_input *input)
{
    cJSON *params = cJSON_CreateObject();

    cJSON_AddStringToObject(params, "name", input->arguments[0]);
    cJSON_AddStringToObject(params, "hz", input->arguments[1]);
    if (input->options[0] != NULL)
        cJSON_AddStringToObject(params, "source", "real");
    if (input->options[1] != NULL) {
        const char *late = input->options[1];
        long long burst;

        if (verb_number(late, 0, 10000, &burst))
            cJSON_AddNumberToObject(cJSON_AddObjectToObject(params, "late"), "burst",
                                    (double)burst);
        else
            cJSON_AddStringToObject(params, "late", late);
    }
    return ctl_show(ctl, "clock.step.create", params, print_clocks);
}

int verb_clock_rate(struct ctl *ctl, const struct verb_input *input)
{
    cJSON *params = cJSON_CreateObject();

    cJSON_AddStringToObject(params, "name", input->arguments[0]);
    cJSON_AddStringToObject(params, "hz", input->arguments[1]);
    return ctl_show(ctl, "clock.step.rate", params, print_clocks);
}

int verb_clock_group(struct ctl *ctl, const struct verb_input *input)
{
    cJSON *params = cJSON_CreateObject();

    cJSON_AddStringToObject(params, "name", input->arguments[0]);
    return ctl_show(ctl, "clock.group.get", params, print_group);
}

static int usage_number(const char *verb, const char *what, const char *text, long long min,
                        long long max)
{
    return ctl_fail(EXIT_USAGE, "clock %s: %s is \"%s\", expected %lld..%lld", verb, what, text,
                    min, max);
}

static void print_time(const struct ctl *ctl, const cJSON *result)
{
    const bool paused = json_is_true(result, "paused");

    printf("game time %s%.6f s%s, scale %g%s, epoch %.0f\n", style_on(STYLE_BOLD, ctl->colours),
           json_number(result, "game_ns") / 1e9, style_off(ctl->colours),
           json_number(result, "scale"), paused ? ", paused" : "",
           json_number(result, "rollback_epoch"));
}

static void print_late(struct table *table, const cJSON *late)
{
    if (cJSON_IsString(late))
        table_cell(table, "%s", late->valuestring);
    else
        table_cell(table, "burst %.0f", json_number(late, "burst"));
}

static void print_clocks(const struct ctl *ctl, const cJSON *result)
{
    static const struct column columns[] = {
        { "CLOCK", false }, { "RATE", true },         { "TIME", false },   { "STEP", true },
        { "MISSED", true }, { "LATE", false },        { "MEMBERS", true }, { "JITTER P50", true },
        { "P99", true },    { "LAST MIN P99", true },
    };
    struct table table = { .columns = columns, .column_count = 10 };
    char text[TEXT_BYTES];
    const cJSON *step, *checkpoint;

    print_time(ctl, result);
    cJSON_ArrayForEach(step, json_member(result, "steps"))
    {
        const cJSON *jitter = json_member(step, "jitter_ns");
        const cJSON *recent = json_member(step, "jitter_last_minute_ns");

        table_cell(&table, "%s", json_text(step, "name"));
        table_cell(&table, "%g Hz", json_number(step, "hz"));
        table_cell(&table, "%s", json_text(step, "source"));
        table_cell(&table, "%.0f", json_number(step, "step"));
        table_cell(&table, "%.0f", json_number(step, "missed"));
        print_late(&table, json_member(step, "late"));
        table_cell(&table, "%.0f", json_number(step, "members"));
        table_cell(&table, "%s", latency_text(text, json_number(jitter, "p50")));
        table_cell(&table, "%s", latency_text(text, json_number(jitter, "p99")));
        table_cell(&table, "%s", latency_text(text, json_number(recent, "p99")));
    }
    table_print(&table, stdout, ctl->colours);
    cJSON_ArrayForEach(checkpoint, json_member(result, "checkpoints"))
    {
        char *name = tame_copy(json_text(checkpoint, "name"));

        printf("checkpoint %.0f at %.6f s %s\n", json_number(checkpoint, "checkpoint_id"),
               json_number(checkpoint, "game_ns") / 1e9, name);
        free(name);
    }
}

static void print_checkpoint(const struct ctl *ctl, const cJSON *result)
{
    (void)ctl;
    printf("checkpoint %.0f at %.6f s\n", json_number(result, "checkpoint_id"),
           json_number(result, "game_ns") / 1e9);
}

static void print_group(const struct ctl *ctl, const cJSON *result)
{
    static const struct column columns[] = {
        { "CLIENT", true }, { "REQUIRED", false },      { "STATE", false }, { "STEP", true },
        { "PHASE", true },  { "WOKEN LATE P50", true }, { "P99", true },    { "WORK P50", true },
        { "P99", true },    { "RELEASES", true },
    };
    struct table table = { .columns = columns, .column_count = 10 };
    char text[TEXT_BYTES];
    const cJSON *member;

    printf("%s at step %.0f%s\n", json_text(result, "name"), json_number(result, "step"),
           json_is_true(result, "free_running_speed") ? ", as fast as its members are done" : "");
    cJSON_ArrayForEach(member, json_member(result, "members"))
    {
        const cJSON *late = json_member(member, "woken_late_ns");
        const cJSON *work = json_member(member, "step_work_ns");

        table_cell(&table, "%.0f", json_number(member, "client_id"));
        table_cell(&table, "%s", json_is_true(member, "required") ? "yes" : "no");
        table_cell(&table, "%s",
                   json_is_true(member, "released")  ? "released"
                   : json_is_true(member, "waiting") ? "done"
                                                     : "at work");
        table_cell(&table, "%.0f", json_number(member, "step"));
        table_cell(&table, "%s", duration_text(text, json_number(member, "phase_ns")));
        table_cell(&table, "%s", latency_text(text, json_number(late, "p50")));
        table_cell(&table, "%s", latency_text(text, json_number(late, "p99")));
        table_cell(&table, "%s", latency_text(text, json_number(work, "p50")));
        table_cell(&table, "%s", latency_text(text, json_number(work, "p99")));
        table_cell(&table, "%.0f", json_number(member, "releases"));
    }
    table_print(&table, stdout, ctl->colours);
}
