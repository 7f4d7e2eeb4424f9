/* engine-ctl events tail */
#include "engine-ctl/event_filter.h"
#include "engine-ctl/event_layout.h"
#include "engine-ctl/json_read.h"
#include "engine-ctl/print.h"
#include "engine-ctl/verb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <engine-core/error.h>

enum { TYPE, WHERE, MAX_RATE, LATEST }; /* rows of its options */

struct filters {
    struct event_filter filter[VERB_LIST_MAX];
    size_t count;
};

static int read_filters(const struct verb_input *input, struct filters *filters);
static int check_filters(struct ctl *ctl, const struct verb_input *input,
                         const struct filters *filters);
static int subscribe(struct ctl *ctl, const struct verb_input *input);
static int take_event(struct ctl *ctl, const struct json_answer *event, void *context);
static bool is_wanted(const struct filters *filters, const struct json_answer *event);
static void say_missing(FILE *out, const struct json_answer *event);
static void print_event(const struct json_answer *event);

int verb_events_tail(struct ctl *ctl, const struct verb_input *input)
{
    struct filters filters;
    int rc = read_filters(input, &filters);

    if (rc == EXIT_DONE)
        rc = check_filters(ctl, input, &filters);
    if (rc == EXIT_DONE)
        rc = subscribe(ctl, input);
    return rc == EXIT_DONE ? ctl_take(ctl, "events tail", "event", take_event, &filters) : rc;
}

static int read_filters(const struct verb_input *input, struct filters *filters)
{
    filters->count = 0;
    for (size_t i = 0; i < input->list_count; i++) {
        if (input->list_option[i] != WHERE)
            continue;
        if (!event_filter_parse(&filters->filter[filters->count++], input->list[i]))
            return ctl_fail(EXIT_USAGE,
                            "events tail: --where is \"%s\", expected FIELD=VALUE, or != > >= < <=",
                            input->list[i]);
    }
    return EXIT_DONE;
}

/* The layout of a registered type. */
static int read_layout(struct ctl *ctl, const char *type, struct event_layout *layout)
{
    struct json_answer answer = { 0 };
    struct ec_error why = { 0 };
    cJSON *params = cJSON_CreateObject();
    char *text;
    int rc;

    cJSON_AddStringToObject(params, "type", type);
    text = json_params(params);
    rc = ctl_call(ctl, "event.list", text, &answer);
    cJSON_free(text);
    if (rc == EXIT_DONE &&
        event_layout_read(cJSON_GetArrayItem(json_member(answer.tree, "items"), 0), layout, &why) <
            0)
        rc = ctl_fail(EXIT_ANSWERED_ERROR, "events tail: the layout of %s: %s", type, why.text);
    json_answer_finish(&answer);
    return rc;
}

/* The first condition that no event of the type can meet; NULL: none. */
static const struct event_filter *
first_misfit(const struct filters *filters, const struct event_layout *layout, struct ec_error *why)
{
    for (size_t i = 0; i < filters->count; i++)
        if (event_filter_check(&filters->filter[i], layout, why) < 0)
            return &filters->filter[i];
    return NULL;
}

/* With "all types" one of them is enough, and one that fits may still be registered. */
static int check_against_all(struct ctl *ctl, const struct filters *filters)
{
    struct json_answer types = { 0 };
    struct event_layout layout;
    struct ec_error why = { 0 };
    const cJSON *type;
    bool fits = false;
    int rc = ctl_call(ctl, "event.list", NULL, &types);

    cJSON_ArrayForEach(type, json_member(types.tree, "items"))
    {
        if (!fits && rc == EXIT_DONE)
            rc = read_layout(ctl, json_text(type, "name"), &layout);
        if (!fits && rc == EXIT_DONE)
            fits = first_misfit(filters, &layout, &why) == NULL;
    }
    json_answer_finish(&types);
    if (rc == EXIT_DONE && !fits)
        fprintf(stderr,
                "events tail: no type that is registered now meets --where; waiting for one\n");
    return rc;
}

/* A condition that cannot hold would wait for ever in silence. */
static int check_filters(struct ctl *ctl, const struct verb_input *input,
                         const struct filters *filters)
{
    struct event_layout layout;
    struct ec_error why = { 0 };
    bool any_type = true;
    int rc;

    if (filters->count == 0)
        return EXIT_DONE;
    for (size_t i = 0; i < input->list_count; i++) {
        if (input->list_option[i] != TYPE)
            continue;
        any_type = false;
        rc = read_layout(ctl, input->list[i], &layout);
        if (rc != EXIT_DONE)
            return rc;
        if (first_misfit(filters, &layout, &why) != NULL)
            return ctl_fail(EXIT_USAGE, "events tail: --where: %s", why.text);
    }
    return any_type ? check_against_all(ctl, filters) : EXIT_DONE;
}

static bool read_rate(const char *text, double *rate_hz)
{
    char *end;

    errno = 0;
    *rate_hz = strtod(text, &end);
    return errno == 0 && end != text && *end == '\0' && *rate_hz >= 0.001 && *rate_hz <= 1e6;
}

static int subscribe(struct ctl *ctl, const struct verb_input *input)
{
    cJSON *params, *types;
    double rate_hz = 0;

    if (input->options[MAX_RATE] != NULL && !read_rate(input->options[MAX_RATE], &rate_hz))
        return ctl_fail(EXIT_USAGE, "events tail: --max-rate is \"%s\", expected 0.001..1000000",
                        input->options[MAX_RATE]);
    params = cJSON_CreateObject();
    types = cJSON_CreateArray();
    for (size_t i = 0; i < input->list_count; i++)
        if (input->list_option[i] == TYPE)
            cJSON_AddItemToArray(types, cJSON_CreateString(input->list[i]));
    if (cJSON_GetArraySize(types) != 0) {
        cJSON_AddItemToObject(params, "types", types);
    } else {
        cJSON_Delete(types);
        cJSON_AddStringToObject(params, "types", "*");
    }
    if (rate_hz > 0)
        cJSON_AddNumberToObject(params, "max_rate_hz", rate_hz);
    if (input->options[LATEST] != NULL)
        cJSON_AddStringToObject(params, "mode", "latest");
    return ctl_subscribe(ctl, "event.subscribe", params);
}

static int take_event(struct ctl *ctl, const struct json_answer *event, void *context)
{
    const struct filters *filters = context;

    if (!is_wanted(filters, event))
        say_missing(stderr, event); /* what is not printed cannot tell it */
    else if (!ctl_print_line(ctl, event))
        print_event(event);
    return EXIT_GO_ON;
}

static bool is_wanted(const struct filters *filters, const struct json_answer *event)
{
    const cJSON *payload = json_member(event->tree, "payload");
    size_t bytes;
    const char *text = json_member_text(event->result, "payload", &bytes);

    for (size_t i = 0; i < filters->count; i++)
        if (text == NULL || !event_filter_matches(&filters->filter[i], payload, text))
            return false;
    return true;
}

static void say_missing(FILE *out, const struct json_answer *event)
{
    const double lost = json_number(event->tree, "lost");
    const double skipped = json_number(event->tree, "skipped");

    if (lost > 0)
        fprintf(out, "(%.0f events lost)\n", lost);
    if (skipped > 0)
        fprintf(out, "(%.0f events skipped)\n", skipped);
}

static void print_event(const struct json_answer *event)
{
    size_t payload_bytes = 0;
    const char *payload = json_member_text(event->result, "payload", &payload_bytes);
    char *type = tame_copy(json_text(event->tree, "type"));

    say_missing(stdout, event);
    printf("%.6f  %-20s client %-3.0f #%-8.0f %.*s\n", json_number(event->tree, "time_ns") / 1e9,
           type, json_number(event->tree, "sender"), json_number(event->tree, "sequence"),
           (int)payload_bytes, payload != NULL ? payload : "");
    free(type);
}
