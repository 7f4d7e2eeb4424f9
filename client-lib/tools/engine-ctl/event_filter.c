/* event_filter.c - see event_filter.h. */
#include "engine-ctl/event_filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine-ctl/fault.h"
#include "engine-ctl/json_read.h"
#include "engine-ctl/json_socket.h"
#include "proto/tables/nearest.h"

/* Longer signs come first: >= is no > with a value of =. */
static const struct {
    const char *sign;
    enum comparison comparison;
} signs[] = {
    { "!=", COMPARE_UNEQUAL }, { ">=", COMPARE_MORE_OR_EQUAL }, { "<=", COMPARE_LESS_OR_EQUAL },
    { "=", COMPARE_EQUAL },    { ">", COMPARE_MORE },           { "<", COMPARE_LESS },
};

bool event_filter_parse(struct event_filter *filter, const char *text)
{
    const size_t bytes = strcspn(text, "=!<>");

    if (bytes == 0 || bytes >= sizeof filter->field)
        return false;
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        if (strncmp(text + bytes, signs[i].sign, strlen(signs[i].sign)) != 0)
            continue;
        memcpy(filter->field, text, bytes);
        filter->field[bytes] = '\0';
        filter->comparison = signs[i].comparison;
        filter->value = text + bytes + strlen(signs[i].sign);
        return filter->value[0] == '\0' || strchr("=!<>", filter->value[0]) == NULL;
    }
    return false;
}

/* "type T has no field F", and which one may be meant. */
static int no_such_field(const struct event_filter *filter, const struct event_layout *layout,
                         struct ec_error *why)
{
    struct ec_nearest nearest;

    if (layout->field_count == 0)
        return fault(why, EC_ERR_PARAM,
                     "type %s has no fields, only bytes: its payload is {\"hex\":\"...\"}",
                     layout->name);
    ec_nearest_init(&nearest, filter->field, strlen(filter->field));
    for (uint32_t i = 0; i < layout->field_count; i++)
        ec_nearest_offer(&nearest, layout->fields[i].name);
    if (nearest.best != NULL)
        return fault(why, EC_ERR_PARAM, "type %s has no field %s, did you mean %s?", layout->name,
                     filter->field, nearest.best);
    return fault(why, EC_ERR_PARAM, "type %s has no field %s; its first is %s", layout->name,
                 filter->field, layout->fields[0].name);
}

static bool read_real(const char *text, double *number)
{
    char *end;

    *number = strtod(text, &end);
    return end != text && *end == '\0' && *number == *number;
}

int event_filter_check(const struct event_filter *filter, const struct event_layout *layout,
                       struct ec_error *why)
{
    const struct ec_event_field *field = layout->fields, *end = field + layout->field_count;
    double number;

    if (layout->field_count == 0 && strcmp(filter->field, "hex") == 0)
        return EC_OK;
    while (field < end && strcmp(field->name, filter->field) != 0)
        field++;
    if (field == end)
        return no_such_field(filter, layout, why);
    if (field->type == EC_FIELD_CHAR)
        return EC_OK;
    if (field->count > 1)
        return fault(why, EC_ERR_PARAM,
                     "field %s of type %s is an array of %u: a condition is about one value",
                     field->name, layout->name, field->count);
    if (field->type == EC_FIELD_BOOL)
        return filter->comparison <= COMPARE_UNEQUAL &&
                       (strcmp(filter->value, "true") == 0 || strcmp(filter->value, "false") == 0)
                   ? EC_OK
                   : fault(why, EC_ERR_PARAM,
                           "field %s of type %s is true or false, = or != one of them", field->name,
                           layout->name);
    return read_real(filter->value, &number)
               ? EC_OK
               : fault(why, EC_ERR_PARAM, "field %s of type %s is a number, \"%s\" is none",
                       field->name, layout->name, filter->value);
}

/* order is below, at or above zero, as the field is to the value. */
static bool holds(enum comparison comparison, int order)
{
    switch (comparison) {
    case COMPARE_EQUAL:
        return order == 0;
    case COMPARE_UNEQUAL:
        return order != 0;
    case COMPARE_MORE:
        return order > 0;
    case COMPARE_MORE_OR_EQUAL:
        return order >= 0;
    case COMPARE_LESS:
        return order < 0;
    case COMPARE_LESS_OR_EQUAL:
        return order <= 0;
    }
    return false;
}

struct whole_number {
    bool negative;
    unsigned long long amount;
};

/* A whole number of 64 bits and nothing behind it. */
static bool read_whole(const char *text, struct whole_number *number)
{
    char *end;

    number->negative = text[0] == '-';
    text += number->negative;
    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    number->amount = strtoull(text, &end, 10);
    number->negative = number->negative && number->amount != 0;
    return errno == 0 && *end == '\0';
}

static int order_of_whole(const struct whole_number *a, const struct whole_number *b)
{
    const int order = (a->amount > b->amount) - (a->amount < b->amount);

    if (a->negative != b->negative)
        return a->negative ? -1 : 1;
    return a->negative ? -order : order;
}

static bool number_matches(const struct event_filter *filter, const char *text)
{
    struct whole_number a, b;
    double value, number;

    if (read_whole(text, &a) && read_whole(filter->value, &b))
        return holds(filter->comparison, order_of_whole(&a, &b));
    if (!read_real(filter->value, &value))
        return false;
    number = strtod(text, NULL);
    return holds(filter->comparison, (number > value) - (number < value));
}

bool event_filter_matches(const struct event_filter *filter, const cJSON *payload,
                          const char *payload_text)
{
    const cJSON *field = json_member(payload, filter->field);
    char digits[64];

    if (cJSON_IsString(field))
        return holds(filter->comparison, strcmp(field->valuestring, filter->value));
    if (cJSON_IsBool(field)) {
        const bool is_true = strcmp(filter->value, "true") == 0;

        if (filter->comparison > COMPARE_UNEQUAL ||
            (!is_true && strcmp(filter->value, "false") != 0))
            return false;
        return holds(filter->comparison, cJSON_IsTrue(field) != is_true);
    }
    if (cJSON_IsNumber(field)) {
        size_t bytes = 0;
        const char *text = json_member_text(payload_text, filter->field, &bytes);

        if (text == NULL || bytes >= sizeof digits)
            return false;
        memcpy(digits, text, bytes);
        digits[bytes] = '\0';
        return number_matches(filter, digits);
    }
    return false;
}
