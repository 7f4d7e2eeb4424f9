/* event_filter.h - conditions on the fields of a decoded payload, as `events tail --where` takes them.
 *
 *     rc = event_filter_parse(&filter, "speed>=2.5");
 *     if (event_filter_matches(&filter, payload, payload_text)) …
 *
 * FIELD=VALUE, and != > >= < <=. Integers are compared to the last digit, other numbers as such, texts
 * byte by byte, true and false by = and !=. An event that has no such field, or another kind of value
 * in it, does not match, whatever the condition.
 *
 * Thread: any. */
#ifndef ENGINE_CTL_EVENT_FILTER_H
#define ENGINE_CTL_EVENT_FILTER_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "engine-ctl/event_layout.h"

#define EVENT_FILTER_FIELD_BYTES 64

enum comparison {
    COMPARE_EQUAL,
    COMPARE_UNEQUAL,
    COMPARE_MORE,
    COMPARE_MORE_OR_EQUAL,
    COMPARE_LESS,
    COMPARE_LESS_OR_EQUAL,
};

struct event_filter {
    char field[EVENT_FILTER_FIELD_BYTES];
    enum comparison comparison;
    const char *value; /* in the text that was parsed */
};

/* false: there is no comparison in it, no field before it, or another sign behind it. */
bool event_filter_parse(struct event_filter *filter, const char *text);

/* Can an event of this type match at all?
 *
 * Returns EC_OK or EC_ERR_PARAM: it has no such field (the reason names the type, the field and the
 * nearest one), the field is an array, or no value of its kind compares with the given one. */
int event_filter_check(const struct event_filter *filter, const struct event_layout *layout,
                       struct ec_error *why);

/* payload_text is the same object as text: it has the digits that the tree loses. */
bool event_filter_matches(const struct event_filter *filter, const cJSON *payload,
                          const char *payload_text);

#endif
