/* Any bytes are scanned; what is accepted is walked, read and written again, and that text must be
 * accepted too, mean the same, and be what writing it once more gives. */
#include "foundation/json/json_scan.h"
#include "foundation/json/json_writer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX (1 << 20)
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* A string in a block of its own, so that a sanitizer sees the first byte too many. */
static char *string_of(struct ec_json_span value, size_t *bytes)
{
    char *text = malloc(value.bytes - 1);

    CHECK(text != NULL);
    CHECK(ec_json_get_string(value, text, value.bytes - 1, bytes) == EC_OK);
    CHECK(*bytes <= value.bytes - 2 && text[*bytes] == '\0');
    if (memchr(text, '\0', *bytes) == NULL)
        CHECK(ec_json_string_equals(value, text));
    return text;
}

static void rewrite_number(struct ec_json_writer *w, struct ec_json_span value)
{
    int64_t i64;
    uint64_t u64;
    double real;

    CHECK(ec_json_get_double(value, &real) == EC_OK && isfinite(real));
    if (ec_json_get_i64(value, &i64) == EC_OK)
        ec_json_i64(w, i64);
    else if (ec_json_get_u64(value, &u64) == EC_OK)
        ec_json_u64(w, u64);
    else
        ec_json_real(w, real);
}

static void rewrite(struct ec_json_writer *w, struct ec_json_span value)
{
    struct ec_json_iterator iterator = ec_json_iterate(value);
    struct ec_json_span name, inner;
    size_t bytes;
    char *text;
    bool boolean;

    switch (ec_json_type_of(value)) {
    case EC_JSON_OBJECT:
        ec_json_object_begin(w);
        while (ec_json_next_member(&iterator, &name, &inner)) {
            text = string_of(name, &bytes);
            ec_json_key_n(w, text, bytes);
            free(text);
            rewrite(w, inner);
        }
        ec_json_object_end(w);
        break;
    case EC_JSON_ARRAY:
        ec_json_array_begin(w);
        while (ec_json_next_element(&iterator, &inner))
            rewrite(w, inner);
        ec_json_array_end(w);
        break;
    case EC_JSON_STRING:
        text = string_of(value, &bytes);
        ec_json_string_n(w, text, bytes);
        free(text);
        break;
    case EC_JSON_NUMBER:
        rewrite_number(w, value);
        break;
    case EC_JSON_BOOLEAN:
        CHECK(ec_json_get_boolean(value, &boolean) == EC_OK);
        ec_json_boolean(w, boolean);
        break;
    case EC_JSON_NULL:
        ec_json_null(w);
        break;
    default:
        abort(); /* an accepted text has no other values */
    }
}

/* The reason quotes the text and is still one line of UTF-8: the writer has nothing to replace. */
static void check_reason(const struct ec_json_fault *fault)
{
    char text[8 * EC_JSON_REASON_BYTES];
    struct ec_json_writer w;

    CHECK((fault->kind == EC_JSON_FAULT_NONE) == (fault->reason[0] == '\0'));
    ec_json_writer_init(&w, text, sizeof text);
    ec_json_string(&w, fault->reason);
    CHECK(ec_json_writer_status(&w) == EC_OK);
    CHECK(ec_json_string_equals((struct ec_json_span) { w.base, w.bytes }, fault->reason));
    CHECK(memchr(fault->reason, '\n', strlen(fault->reason)) == NULL);
}

/* One pass and two must find the same members. */
static void compare_bindings(const char *text, size_t bytes, struct ec_json_span root)
{
    static const char *const names[] = { "jsonrpc", "id", "method", "params", "a", "" };
    struct ec_json_span once[6], twice[6];
    struct ec_json_fields scanned = { .names = names, .values = once, .count = 6 };
    struct ec_json_fields bound = { .names = names, .values = twice, .count = 6 };

    CHECK(ec_json_scan(text, bytes, NULL, &scanned, NULL) == EC_OK);
    CHECK((ec_json_bind(root, &bound) == EC_OK) == (ec_json_type_of(root) == EC_JSON_OBJECT));
    for (size_t i = 0; i < 6; i++)
        CHECK(once[i].text == twice[i].text && once[i].bytes == twice[i].bytes);
    CHECK(scanned.unknown.text == bound.unknown.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const char *text = (const char *)data;
    struct ec_json_fault fault;
    struct ec_json_writer once, twice;
    int rc = ec_json_check(text, bytes, NULL, &fault);

    CHECK((rc == EC_OK) == (fault.kind == EC_JSON_FAULT_NONE));
    CHECK(fault.offset <= bytes);
    check_reason(&fault);
    if (rc != EC_OK)
        return 0;
    compare_bindings(text, bytes, ec_json_root(text, bytes));

    ec_json_writer_init_growing(&once, ec_json_grow_heap, NULL, 8 * TEXT_BYTES_MAX);
    rewrite(&once, ec_json_root(text, bytes));
    CHECK(ec_json_writer_status(&once) == EC_OK);
    CHECK(ec_json_check(once.base, once.bytes, NULL, NULL) == EC_OK);

    ec_json_writer_init_growing(&twice, ec_json_grow_heap, NULL, 8 * TEXT_BYTES_MAX);
    rewrite(&twice, ec_json_root(once.base, once.bytes));
    CHECK(ec_json_writer_status(&twice) == EC_OK);
    CHECK(once.bytes == twice.bytes && memcmp(once.base, twice.base, once.bytes) == 0);

    ec_json_writer_rewind(&twice, 0);
    ec_json_raw(&twice, ec_json_root(text, bytes));
    CHECK(ec_json_writer_status(&twice) == EC_OK);
    CHECK(memchr(twice.base, '\n', twice.bytes) == NULL);
    CHECK(ec_json_check(twice.base, twice.bytes, NULL, NULL) == EC_OK);
    free(once.base);
    free(twice.base);
    return 0;
}
