/* reply.c - see reply.h. */
#include "support/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void fail(const char *what, const char *path, const char *line)
{
    fprintf(stderr, "%s %s in %s\n", what, path, line);
    abort();
}

static struct ec_json_span member(struct ec_json_span object, const char *name)
{
    struct ec_json_iterator members = ec_json_iterate(object);
    struct ec_json_span key, value;

    while (ec_json_next_member(&members, &key, &value))
        if (ec_json_string_equals(key, name))
            return value;
    return (struct ec_json_span) { 0 };
}

/* A string of this text, or a number that is written like this. */
static bool is_written(struct ec_json_span value, const char *text)
{
    return ec_json_string_equals(value, text) ||
           (ec_json_type_of(value) == EC_JSON_NUMBER && value.bytes == strlen(text) &&
            memcmp(value.text, text, value.bytes) == 0);
}

/* The element of an array whose member `key` is `text`; without a '=' its index. */
static struct ec_json_span element(struct ec_json_span array, char *which)
{
    struct ec_json_iterator elements = ec_json_iterate(array);
    struct ec_json_span value;
    char *text = strchr(which, '=');

    if (text != NULL)
        *text++ = '\0';
    for (int index = 0; ec_json_next_element(&elements, &value); index++)
        if (text != NULL ? is_written(member(value, which), text) : index == atoi(which))
            return value;
    return (struct ec_json_span) { 0 };
}

struct ec_json_span reply_at(const char *line, const char *path)
{
    struct ec_json_span value = ec_json_root(line, strlen(line));
    char copy[128], *rest = copy, *part;

    if ((size_t)snprintf(copy, sizeof copy, "%s", path) >= sizeof copy)
        fail("no room for the path", path, line);
    while ((part = strsep(&rest, "/")) != NULL)
        value =
            ec_json_type_of(value) == EC_JSON_ARRAY ? element(value, part) : member(value, part);
    return value;
}

int64_t reply_number(const char *line, const char *path)
{
    int64_t value = 0;

    if (ec_json_get_i64(reply_at(line, path), &value) != EC_OK)
        fail("no number", path, line);
    return value;
}

const char *reply_text(const char *line, const char *path)
{
    static char buffer[512];

    if (ec_json_get_text(reply_at(line, path), buffer, sizeof buffer) != EC_OK)
        fail("no text", path, line);
    return buffer;
}
