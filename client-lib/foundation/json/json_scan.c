/* The strict scanner: one loop over the text, with a stack of the open objects and arrays instead of
 * recursion. Each function takes the place where it begins and returns the place behind what it
 * accepted, or NULL after it has described the fault. */
#include "foundation/json/json_scan.h"

#include "foundation/json/json_names.h"
#include "foundation/json/json_number.h"
#include "foundation/json/json_string.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NAME_SHOWN_BYTES 48

/* An object or array that is open. */
struct level {
    size_t first_name; /* where its names begin on the stack; an array has none */
    bool is_object;
};

struct scan {
    const char *text;
    const char *end;
    struct ec_json_fault *fault;
    struct ec_json_fields *fields; /* NULL: nobody asks */
    struct ec_json_span *wanted;   /* where the root member goes that is being read, or NULL */
    const char *value;             /* where that one begins */
    uint32_t depth;
    uint32_t depth_max;
    struct ec_json_names names;
    struct level levels[EC_JSON_DEPTH_MAX];
};

static uint32_t depth_limit(const struct ec_json_limits *limits);
static const char *scan_text(struct scan *s);
static const char *begin_value(struct scan *s, const char *at);
static const char *end_values(struct scan *s, const char *at, bool *complete);
static const char *open_level(struct scan *s, const char *at, bool is_object);
static const char *close_level(struct scan *s, const char *at);
static const char *scan_member_name(struct scan *s, const char *at);
static const char *scan_string(struct scan *s, const char *at, bool *has_escape);
static const char *scan_escape(struct scan *s, const char *at);
static const char *scan_character(struct scan *s, const char *at);
static const char *scan_number(struct scan *s, const char *at);
static const char *scan_real(struct scan *s, const char *number, const char *at);
static const char *scan_word(struct scan *s, const char *at, const char *word);
static const char *unexpected(struct scan *s, const char *at, const char *expected);
static const char *repeated_name(struct scan *s, const char *name, size_t bytes);
static const char *fail(struct scan *s, enum ec_json_fault_kind kind, const char *at,
                        const char *format, ...) __attribute__((cold, format(printf, 4, 5)));
static int code_of(enum ec_json_fault_kind kind);

int ec_json_check(const char *text, size_t bytes, const struct ec_json_limits *limits,
                  struct ec_json_fault *fault)
{
    return ec_json_scan(text, bytes, limits, NULL, fault);
}

int ec_json_scan(const char *text, size_t bytes, const struct ec_json_limits *limits,
                 struct ec_json_fields *fields, struct ec_json_fault *fault)
{
    struct ec_json_fault own_fault;
    struct scan s; /* too large to be cleared each time */

    s.text = text;
    s.end = text + bytes;
    s.fault = fault != NULL ? fault : &own_fault;
    s.fields = fields;
    s.wanted = NULL;
    s.depth = 0;
    s.depth_max = depth_limit(limits);
    s.fault->kind = EC_JSON_FAULT_NONE;
    s.fault->offset = 0;
    s.fault->reason[0] = '\0';
    if (fields != NULL)
        ec_json_fields_clear(fields);
    ec_json_names_init(&s.names, text);
    if (bytes > EC_JSON_TEXT_BYTES_MAX)
        fail(&s, EC_JSON_FAULT_SIZE, text, "text has %zu bytes, at most %d are read", bytes,
             EC_JSON_TEXT_BYTES_MAX);
    else
        scan_text(&s);
    ec_json_names_finish(&s.names);
    if (s.fault->kind != EC_JSON_FAULT_NONE && fields != NULL)
        ec_json_fields_clear(fields);
    return code_of(s.fault->kind);
}

void ec_json_position(const char *text, size_t offset, size_t *line, size_t *column)
{
    const char *begin = text, *end = text + offset;

    *line = 1;
    for (const char *at = text; at < end; at++) {
        if (*at == '\n') {
            *line += 1;
            begin = at + 1;
        }
    }
    *column = (size_t)(end - begin) + 1;
}

static uint32_t depth_limit(const struct ec_json_limits *limits)
{
    if (limits == NULL || limits->depth == 0)
        return EC_JSON_DEPTH_DEFAULT;
    return limits->depth < EC_JSON_DEPTH_MAX ? limits->depth : EC_JSON_DEPTH_MAX;
}

static inline const char *skip_space(const struct scan *s, const char *at)
{
    while (at < s->end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    return at;
}

static const char *scan_text(struct scan *s)
{
    const char *at = skip_space(s, s->text);
    bool complete = false;

    if (at == s->text && s->end - at >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0)
        return fail(s, EC_JSON_FAULT_SYNTAX, at, "text begins with a byte order mark");
    while (!complete) {
        uint32_t depth = s->depth;

        at = begin_value(s, at);
        if (at != NULL &&
            s->depth == depth) /* no object or array was opened: the value has ended */
            at = end_values(s, at, &complete);
        if (at == NULL)
            return NULL;
    }
    at = skip_space(s, at);
    return at == s->end ? at : unexpected(s, at, "nothing after the value");
}

/* Accept a value up to its end, or an object or array up to its first value. */
static const char *begin_value(struct scan *s, const char *at)
{
    bool has_escape;

    if (s->depth == 1)
        s->value = at;
    switch (at < s->end ? *at : '\0') {
    case '{':
        return open_level(s, at, true);
    case '[':
        return open_level(s, at, false);
    case '"':
        return scan_string(s, at, &has_escape);
    case 't':
        return scan_word(s, at, "true");
    case 'f':
        return scan_word(s, at, "false");
    case 'n':
        return scan_word(s, at, "null");
    default:
        break;
    }
    if (at < s->end && (*at == '-' || (*at >= '0' && *at <= '9')))
        return scan_number(s, at);
    return unexpected(s, at, "a value");
}

/* A value ended: go on to the next one, out of as many objects and arrays as end here. */
static const char *end_values(struct scan *s, const char *at, bool *complete)
{
    while (s->depth > 0) {
        bool is_object = s->levels[s->depth - 1].is_object;

        if (s->wanted != NULL && s->depth == 1) {
            *s->wanted = (struct ec_json_span) { s->value, (size_t)(at - s->value) };
            s->wanted = NULL;
        }
        at = skip_space(s, at);
        if (at < s->end && *at == ',') {
            at = skip_space(s, at + 1);
            return is_object ? scan_member_name(s, at) : at;
        }
        if (at == s->end || *at != (is_object ? '}' : ']'))
            return unexpected(s, at, is_object ? "',' or '}'" : "',' or ']'");
        at = close_level(s, at);
        if (at == NULL)
            return NULL;
    }
    *complete = true;
    return at;
}

static const char *open_level(struct scan *s, const char *at, bool is_object)
{
    struct level *level;

    if (s->depth == s->depth_max)
        return fail(s, EC_JSON_FAULT_DEPTH, at, "nested deeper than %u levels", s->depth_max);
    level = &s->levels[s->depth];
    level->first_name = s->names.count;
    level->is_object = is_object;
    at = skip_space(s, at + 1);
    if (at < s->end && *at == (is_object ? '}' : ']'))
        return at + 1; /* an empty one is a value that has ended */
    s->depth++;
    return is_object ? scan_member_name(s, at) : at;
}

static const char *close_level(struct scan *s, const char *at)
{
    const struct level *level = &s->levels[--s->depth];
    struct ec_json_name repeated;
    int rc;

    if (!level->is_object)
        return at + 1;
    rc = ec_json_names_end(&s->names, level->first_name, &repeated);
    if (rc == EC_ERR_PARSE)
        return repeated_name(s, s->text + repeated.offset, repeated.bytes);
    if (rc == EC_ERR_MEMORY)
        return fail(s, EC_JSON_FAULT_MEMORY, at, "no memory to compare the member names");
    return at + 1;
}

/* Accept a name and its colon, up to the value. */
static const char *scan_member_name(struct scan *s, const char *at)
{
    const char *name = at + 1;
    bool has_escape = false;
    size_t bytes;
    int rc;

    if (at == s->end || *at != '"')
        return unexpected(s, at, "a member name");
    at = scan_string(s, at, &has_escape);
    if (at == NULL)
        return NULL;
    bytes = (size_t)(at - 1 - name);
    rc = ec_json_names_add(&s->names, s->levels[s->depth - 1].first_name, name, bytes, has_escape);
    if (rc == EC_ERR_PARSE)
        return repeated_name(s, name, bytes);
    if (rc == EC_ERR_MEMORY)
        return fail(s, EC_JSON_FAULT_MEMORY, at, "no memory to remember the member names");
    if (s->depth == 1 && s->fields != NULL)
        s->wanted = ec_json_fields_slot(s->fields, (struct ec_json_span) { name - 1, bytes + 2 });
    at = skip_space(s, at);
    if (at == s->end || *at != ':')
        return unexpected(s, at, "':'");
    return skip_space(s, at + 1);
}

static const char *scan_string(struct scan *s, const char *at, bool *has_escape)
{
    const char *begin = at;

    at++;
    for (;;) {
        at = ec_json_skip_plain(at, s->end);
        if (at == s->end)
            return fail(s, EC_JSON_FAULT_SYNTAX, at, "the string that begins at %zu does not end",
                        (size_t)(begin - s->text));
        if (*at == '"')
            return at + 1;
        if (*at == '\\') {
            *has_escape = true;
            at = scan_escape(s, at);
        } else {
            at = scan_character(s, at);
        }
        if (at == NULL)
            return NULL;
    }
}

static const char *scan_escape(struct scan *s, const char *at)
{
    int32_t high, low;

    if (s->end - at >= 2 && at[1] != '\0' && strchr("\"\\/bfnrt", at[1]) != NULL)
        return at + 2;
    if (s->end - at < 2 || at[1] != 'u')
        return unexpected(s, at + 1, "one of \"\\/bfnrtu after a backslash");
    high = s->end - at >= 6 ? ec_json_hex4(at + 2) : -1;
    if (high < 0)
        return fail(s, EC_JSON_FAULT_SYNTAX, at, "\\u without four hexadecimal digits");
    if (high < 0xD800 || high > 0xDFFF)
        return at + 6;
    low = s->end - at >= 12 && at[6] == '\\' && at[7] == 'u' ? ec_json_hex4(at + 8) : -1;
    if (high > 0xDBFF || low < 0xDC00 || low > 0xDFFF)
        return fail(s, EC_JSON_FAULT_SYNTAX, at, "lone surrogate \\u%.4s", at + 2);
    return at + 12;
}

/* A byte of a string that is neither plain nor quote nor backslash. */
static const char *scan_character(struct scan *s, const char *at)
{
    int length;

    if ((unsigned char)*at < 0x20)
        return fail(s, EC_JSON_FAULT_SYNTAX, at, "control character 0x%02x in a string",
                    (unsigned)*at);
    length = ec_json_utf8_length(at, s->end);
    if (length < 0)
        return fail(s, EC_JSON_FAULT_UTF8, at, "byte 0x%02x is not valid UTF-8 here",
                    (unsigned)(unsigned char)*at);
    return at + length;
}

static inline const char *skip_digits(const struct scan *s, const char *at)
{
    while (at < s->end && *at >= '0' && *at <= '9')
        at++;
    return at;
}

static const char *scan_number(struct scan *s, const char *at)
{
    const char *number = at;
    const char *digits = *at == '-' ? at + 1 : at;
    size_t count;

    at = skip_digits(s, digits);
    count = (size_t)(at - digits);
    if (count == 0)
        return unexpected(s, at, "a digit");
    if (*digits == '0' && count > 1)
        return fail(s, EC_JSON_FAULT_SYNTAX, digits, "a number begins with a superfluous 0");
    if (at < s->end && (*at == '.' || *at == 'e' || *at == 'E'))
        return scan_real(s, number, at);
    if (!ec_json_integer_fits(digits, count, digits != number))
        return fail(s, EC_JSON_FAULT_NUMBER, number, "number does not fit 64 bits");
    return at;
}

/* A number from its point or exponent on. */
static const char *scan_real(struct scan *s, const char *number, const char *at)
{
    const char *digits;
    bool may_overflow = at - number > 300;

    if (*at == '.') {
        digits = at + 1;
        at = skip_digits(s, digits);
        if (at == digits)
            return unexpected(s, at, "a digit");
    }
    if (at < s->end && (*at == 'e' || *at == 'E')) {
        at++;
        may_overflow = true;
        digits = at < s->end && (*at == '+' || *at == '-') ? at + 1 : at;
        at = skip_digits(s, digits);
        if (at == digits)
            return unexpected(s, at, "a digit");
    }
    if (may_overflow && !isfinite(ec_json_parse_real(number, (size_t)(at - number))))
        return fail(s, EC_JSON_FAULT_NUMBER, number, "number does not fit a double");
    return at;
}

static const char *scan_word(struct scan *s, const char *at, const char *word)
{
    size_t bytes = strlen(word);

    if ((size_t)(s->end - at) < bytes || memcmp(at, word, bytes) != 0)
        return unexpected(s, at, "a value");
    return at + bytes;
}

static const char *unexpected(struct scan *s, const char *at, const char *expected)
{
    if (at >= s->end)
        return fail(s, EC_JSON_FAULT_SYNTAX, s->end, "expected %s, but the text ends", expected);
    if (*at > ' ' && *at < 0x7F)
        return fail(s, EC_JSON_FAULT_SYNTAX, at, "expected %s, found '%c'", expected, *at);
    return fail(s, EC_JSON_FAULT_SYNTAX, at, "expected %s, found byte 0x%02x", expected,
                (unsigned)(unsigned char)*at);
}

/* The name is shown as it stands in the text, and cut between two characters. */
static const char *repeated_name(struct scan *s, const char *name, size_t bytes)
{
    int shown = (int)bytes;

    if (bytes > NAME_SHOWN_BYTES)
        for (shown = NAME_SHOWN_BYTES; shown > 0 && ((unsigned char)name[shown] & 0xC0) == 0x80;)
            shown--;
    return fail(s, EC_JSON_FAULT_DUPLICATE, name - 1, "duplicate member name \"%.*s%s\"", shown,
                name, bytes > NAME_SHOWN_BYTES ? "..." : "");
}

static const char *fail(struct scan *s, enum ec_json_fault_kind kind, const char *at,
                        const char *format, ...)
{
    va_list arguments;

    s->fault->kind = kind;
    s->fault->offset = (size_t)(at - s->text);
    va_start(arguments, format);
    (void)vsnprintf(s->fault->reason, sizeof s->fault->reason, format, arguments);
    va_end(arguments);
    return NULL;
}

static int code_of(enum ec_json_fault_kind kind)
{
    static const int codes[] = {
        [EC_JSON_FAULT_NONE] = EC_OK,
        [EC_JSON_FAULT_SYNTAX] = EC_ERR_PARSE,
        [EC_JSON_FAULT_UTF8] = EC_ERR_PARSE,
        [EC_JSON_FAULT_NUMBER] = EC_ERR_PARSE,
        [EC_JSON_FAULT_DUPLICATE] = EC_ERR_PARSE,
        [EC_JSON_FAULT_DEPTH] = EC_ERR_LIMIT,
        [EC_JSON_FAULT_SIZE] = EC_ERR_SIZE,
        [EC_JSON_FAULT_MEMORY] = EC_ERR_MEMORY,
    };

    return codes[kind];
}
