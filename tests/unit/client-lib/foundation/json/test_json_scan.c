/* The scanner accepts what RFC 8259 and the rules in its header allow, refuses everything else, and
 * says what and where. */
#include "foundation/json/json_scan.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/json_texts.h"

/* Texts may hold NUL, so their size is that of the literal. */
#define T(literal)                                                                                 \
    {                                                                                              \
        (literal), sizeof(literal) - 1                                                             \
    }
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Scan a copy that ends where its block ends, so that a sanitizer sees each byte read beyond. */
static int scan_copy(const struct json_text *text, struct ec_json_fault *fault)
{
    char *copy = malloc(text->bytes > 0 ? text->bytes : 1);
    int rc;

    ck_assert_ptr_nonnull(copy);
    memcpy(copy, text->text, text->bytes);
    rc = ec_json_check(copy, text->bytes, NULL, fault);
    free(copy);
    return rc;
}

START_TEST(each_text_is_accepted_or_refused_for_its_fault)
{
    const struct json_text_set *set = &json_text_sets[_i];
    struct ec_json_fault fault;

    for (size_t i = 0; i < set->count; i++) {
        int rc = scan_copy(&set->texts[i], &fault);

        ck_assert_msg(rc == (set->fault == EC_JSON_FAULT_NONE ? EC_OK : EC_ERR_PARSE) &&
                          fault.kind == set->fault,
                      "text %zu, %s: code %d kind %d: %s", i, set->texts[i].text, rc,
                      (int)fault.kind, fault.reason);
        ck_assert_msg(fault.offset <= set->texts[i].bytes, "text %zu: offset %zu", i, fault.offset);
        ck_assert_msg((fault.reason[0] == '\0') == (rc == EC_OK), "text %zu: %s", i, fault.reason);
    }
}
END_TEST

START_TEST(no_prefix_of_an_object_is_accepted)
{
    struct ec_json_fault fault;
    struct json_text text = T(
        "{\"a\":[1,-2.5e3,\"x\\u00e4\\ud83d\\ude39\xE2\x82\xAC\"],\"b\":{\"c\":[true,false,null]}}");

    ck_assert_int_eq(scan_copy(&text, &fault), EC_OK);
    while (text.bytes-- > 0)
        ck_assert_int_eq(scan_copy(&text, &fault), EC_ERR_PARSE);
}
END_TEST

/* Offset and words, as a user reads them. */
static const struct {
    struct json_text text;
    size_t offset;
    const char *reason;
} reports[] = {
    { T(""), 0, "expected a value, but the text ends" },
    { T("{\"a\":1 \"b\":2}"), 7, "expected ',' or '}', found '\"'" },
    { T("[1 2]"), 3, "expected ',' or ']', found '2'" },
    { T("{\"a\" 1}"), 5, "expected ':', found '1'" },
    { T("{a:1}"), 1, "expected a member name, found 'a'" },
    { T("{\"a\":1,}"), 7, "expected a member name, found '}'" },
    { T("[1] x"), 4, "expected nothing after the value, found 'x'" },
    { T("null\0"), 4, "expected nothing after the value, found byte 0x00" },
    { T("[1."), 3, "expected a digit, but the text ends" },
    { T("[-a]"), 2, "expected a digit, found 'a'" },
    { T("[-012]"), 2, "a number begins with a superfluous 0" },
    { T("[18446744073709551616]"), 1, "number does not fit 64 bits" },
    { T("[1,1e309]"), 3, "number does not fit a double" },
    { T("[\"abc"), 5, "the string that begins at 1 does not end" },
    { T("[\"a\\x\"]"), 4, "expected one of \"\\/bfnrtu after a backslash, found 'x'" },
    { T("[\"a\\u12g4\"]"), 3, "\\u without four hexadecimal digits" },
    { T("[\"a\\uD8aB\"]"), 3, "lone surrogate \\uD8aB" },
    { T("[\"a\tb\"]"), 3, "control character 0x09 in a string" },
    { T("[\"a\xC0\x80\"]"), 3, "byte 0xc0 is not valid UTF-8 here" },
    { T("\xEF\xBB\xBF{}"), 0, "text begins with a byte order mark" },
    { T("{\"x\":1,\"y\":2,\"x\":3}"), 13, "duplicate member name \"x\"" },
    { T("{\"x\":1,\"\\u0078\":3}"), 7, "duplicate member name \"\\u0078\"" },
};

START_TEST(a_fault_says_what_was_expected_and_where)
{
    struct ec_json_fault fault;

    for (size_t i = 0; i < COUNT(reports); i++) {
        ck_assert_int_eq(scan_copy(&reports[i].text, &fault), EC_ERR_PARSE);
        ck_assert_str_eq(fault.reason, reports[i].reason);
        ck_assert_uint_eq(fault.offset, reports[i].offset);
    }
}
END_TEST

START_TEST(an_accepted_text_leaves_no_fault)
{
    struct ec_json_fault fault;

    memset(&fault, 0xAA, sizeof fault);
    ck_assert_int_eq(ec_json_check("[]", 2, NULL, &fault), EC_OK);
    ck_assert_int_eq(fault.kind, EC_JSON_FAULT_NONE);
    ck_assert_uint_eq(fault.offset, 0);
    ck_assert_str_eq(fault.reason, "");
    ck_assert_int_eq(ec_json_check("[", 1, NULL, NULL), EC_ERR_PARSE);
}
END_TEST

/* The scanner leaves its loop of eight bytes at each position and each byte. */
START_TEST(each_byte_is_judged_the_same_at_each_place_of_a_string)
{
    char text[64];

    for (size_t place = 0; place < 20; place++) {
        for (int byte = 0; byte < 256; byte++) {
            bool allowed = byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
            int rc;

            memset(text, 'x', sizeof text);
            text[0] = '"';
            text[1 + place] = (char)byte;
            text[22] = '"';
            rc = ec_json_check(text, 23, NULL, NULL);
            ck_assert_msg((rc == EC_OK) == allowed, "byte 0x%02x at %zu: %d", (unsigned)byte, place,
                          rc);
        }
    }
}
END_TEST

/* Put a text over the bytes at a place. */
static void overwrite(char *at, const char *text)
{
    while (*text != '\0')
        *at++ = *text++;
}

static char *nested(size_t depth, const char *open, const char *inside, const char *close,
                    size_t *bytes)
{
    char *text = malloc(depth * (strlen(open) + strlen(close)) + strlen(inside) + 1);
    char *at = text;

    ck_assert_ptr_nonnull(text);
    for (size_t i = 0; i < depth; i++)
        at = stpcpy(at, open);
    at = stpcpy(at, inside);
    for (size_t i = 0; i < depth; i++)
        at = stpcpy(at, close);
    *bytes = (size_t)(at - text);
    return text;
}

static int check_nested(size_t depth, const char *open, const char *inside, const char *close,
                        const struct ec_json_limits *limits, struct ec_json_fault *fault)
{
    size_t bytes;
    char *text = nested(depth, open, inside, close, &bytes);
    int rc = ec_json_check(text, bytes, limits, fault);

    free(text);
    return rc;
}

START_TEST(depth_64_is_accepted_and_65_is_not)
{
    struct ec_json_fault fault;

    ck_assert_int_eq(check_nested(64, "[", "", "]", NULL, &fault), EC_OK);
    ck_assert_int_eq(check_nested(64, "[", "1", "]", NULL, &fault), EC_OK);
    ck_assert_int_eq(check_nested(64, "{\"a\":", "1", "}", NULL, &fault), EC_OK);
    ck_assert_int_eq(check_nested(65, "[", "", "]", NULL, &fault), EC_ERR_LIMIT);
    ck_assert_int_eq(fault.kind, EC_JSON_FAULT_DEPTH);
    ck_assert_uint_eq(fault.offset, 64);
    ck_assert_str_eq(fault.reason, "nested deeper than 64 levels");
    ck_assert_int_eq(check_nested(65, "{\"a\":", "1", "}", NULL, &fault), EC_ERR_LIMIT);
    ck_assert_int_eq(check_nested(64, "{\"a\":", "{}", "}", NULL, &fault), EC_ERR_LIMIT);
    ck_assert_int_eq(check_nested(100000, "[", "", "", NULL, &fault), EC_ERR_LIMIT);
    ck_assert_int_eq(check_nested(100000, "{\"a\":[", "", "", NULL, &fault), EC_ERR_LIMIT);
}
END_TEST

START_TEST(depth_limit_is_the_callers_up_to_256)
{
    ck_assert_int_eq(check_nested(3, "[", "", "]", &(struct ec_json_limits) { .depth = 3 }, NULL),
                     EC_OK);
    ck_assert_int_eq(check_nested(4, "[", "", "]", &(struct ec_json_limits) { .depth = 3 }, NULL),
                     EC_ERR_LIMIT);
    ck_assert_int_eq(check_nested(64, "[", "", "]", &(struct ec_json_limits) { 0 }, NULL), EC_OK);
    ck_assert_int_eq(
        check_nested(256, "[", "", "]", &(struct ec_json_limits) { .depth = 9999 }, NULL), EC_OK);
    ck_assert_int_eq(
        check_nested(257, "[", "", "]", &(struct ec_json_limits) { .depth = 9999 }, NULL),
        EC_ERR_LIMIT);
}
END_TEST

START_TEST(many_arrays_side_by_side_are_not_deep)
{
    struct ec_json_fault fault;

    ck_assert_int_eq(check_nested(1000, "[],[{}],", "0", "", NULL, &fault), EC_ERR_PARSE);
    ck_assert_int_eq(check_nested(1, "[[],[{}],[],[[],[]],{},", "0", "]",
                                  &(struct ec_json_limits) { .depth = 3 }, &fault),
                     EC_OK);
}
END_TEST

/* {"k<i>":i,...}; the member at `repeat` has the name of the first, as `first` writes it. */
static char *many_members(size_t count, size_t repeat, const char *first, size_t *bytes)
{
    char *text = malloc(count * 32 + 3);
    char *at = text;

    ck_assert_ptr_nonnull(text);
    *at++ = '{';
    for (size_t i = 0; i < count; i++) {
        if (i == repeat)
            at += sprintf(at, "%s:%zu,", first, i);
        else
            at += sprintf(at, "\"k%zu\":%zu,", i, i);
    }
    at[-1] = '}';
    *bytes = (size_t)(at - text);
    return text;
}

START_TEST(an_object_of_100000_members_is_accepted)
{
    size_t bytes;
    char *text = many_members(100000, SIZE_MAX, "", &bytes);

    ck_assert_int_eq(ec_json_check(text, bytes, NULL, NULL), EC_OK);
    free(text);
}
END_TEST

static const size_t member_counts[] = { 2,   15,  16,  17,  18,  33,   127,
                                        128, 129, 255, 256, 257, 1000, 100000 };

START_TEST(a_repeated_name_is_found_in_an_object_of_any_size)
{
    static const char *const first_name[] = { "\"k0\"", "\"\\u006b0\"", "\"k\\u0030\"" };
    size_t count = member_counts[_i];
    size_t places[] = { 1, count / 2, count - 1 };

    for (size_t i = 0; i < COUNT(places); i++) {
        for (size_t k = 0; k < COUNT(first_name); k++) {
            struct ec_json_fault fault;
            size_t bytes;
            char *text = many_members(count, places[i] > 0 ? places[i] : 1, first_name[k], &bytes);
            char reason[64];

            ck_assert_int_eq(ec_json_check(text, bytes, NULL, &fault), EC_ERR_PARSE);
            ck_assert_int_eq(fault.kind, EC_JSON_FAULT_DUPLICATE);
            (void)snprintf(reason, sizeof reason, "duplicate member name %s", first_name[k]);
            ck_assert_str_eq(fault.reason, reason);
            ck_assert(memcmp(text + fault.offset, first_name[k], strlen(first_name[k])) == 0);
            ck_assert_uint_gt(fault.offset, 1);
            free(text);
        }
    }
}
END_TEST

START_TEST(the_first_of_several_repeated_names_is_reported)
{
    char text[1024] = "{";
    char *at = text + 1;
    struct ec_json_fault fault;
    size_t expected;

    for (int i = 0; i < 20; i++)
        at += sprintf(at, "\"k%d\":0,", i);
    expected = (size_t)(at - text);
    for (int i = 19; i > 0; i--)
        at += sprintf(at, "\"k%d\":0,", i);
    at[-1] = '}';
    ck_assert_int_eq(ec_json_check(text, (size_t)(at - text), NULL, &fault), EC_ERR_PARSE);
    ck_assert_str_eq(fault.reason, "duplicate member name \"k19\"");
    ck_assert_uint_eq(fault.offset, expected);
}
END_TEST

/* Names of outer objects stay where they are while inner ones come and go. */
START_TEST(names_of_nested_large_objects_do_not_mix)
{
    char *text = malloc(2000000);
    char *at = text;

    ck_assert_ptr_nonnull(text);
    *at++ = '{';
    for (int i = 0; i < 200; i++) {
        at += sprintf(at, "\"k%d\":{", i);
        for (int k = 0; k < 200; k++)
            at += sprintf(at, "\"k%d\":[{\"k%d\":0}],", k, k);
        at += sprintf(at - 1, "},") - 1;
    }
    at += sprintf(at - 1, ",\"end\":0}") - 1;
    ck_assert_int_eq(ec_json_check(text, (size_t)(at - text), NULL, NULL), EC_OK);
    at += sprintf(at - 1, ",\"\\u006b0\":0}") - 1;
    ck_assert_int_eq(ec_json_check(text, (size_t)(at - text), NULL, NULL), EC_ERR_PARSE);
    free(text);
}
END_TEST

START_TEST(a_long_name_is_cut_between_characters_in_the_reason)
{
    char text[512] = "{\"", *at = text + 2;
    struct ec_json_fault fault;

    for (int twice = 0; twice < 2; twice++) {
        at = stpcpy(at, "x");
        for (int i = 0; i < 40; i++)
            at = stpcpy(at, "\xC3\xA4");
        at = stpcpy(at, twice ? "\":1}" : "\":1,\"");
    }
    ck_assert_int_eq(ec_json_check(text, strlen(text), NULL, &fault), EC_ERR_PARSE);
    ck_assert_int_eq(fault.kind, EC_JSON_FAULT_DUPLICATE);
    ck_assert_uint_eq(strlen(fault.reason), strlen("duplicate member name \"...\"") + 47);
    ck_assert_str_eq(fault.reason + strlen(fault.reason) - 6, "\xC3\xA4...\"");
}
END_TEST

START_TEST(a_megabyte_in_one_string_is_accepted)
{
    size_t bytes = 1 << 20;
    char *text = malloc(bytes);

    ck_assert_ptr_nonnull(text);
    memset(text, 'a', bytes);
    text[0] = text[bytes - 1] = '"';
    ck_assert_int_eq(ec_json_check(text, bytes, NULL, NULL), EC_OK);
    ck_assert_int_eq(ec_json_check(text, bytes - 1, NULL, NULL), EC_ERR_PARSE);
    for (size_t i = 1; i < bytes - 1; i += 2)
        overwrite(text + i, "\\n");
    ck_assert_int_eq(ec_json_check(text, bytes, NULL, NULL), EC_OK);
    free(text);
}
END_TEST

START_TEST(a_number_of_a_megabyte_is_judged_by_its_value)
{
    size_t bytes = 1 << 20;
    char *text = malloc(bytes);

    ck_assert_ptr_nonnull(text);
    memset(text, '0', bytes);
    overwrite(text, "0.");
    ck_assert_int_eq(ec_json_check(text, bytes, NULL, NULL), EC_OK);
    overwrite(text + bytes - 9, "1e1048565"); /* 10^0 or so */
    ck_assert_int_eq(ec_json_check(text, bytes, NULL, NULL), EC_OK);
    overwrite(text + bytes - 9, "1e1048999");
    ck_assert_int_eq(ec_json_check(text, bytes, NULL, NULL), EC_ERR_PARSE);
    memset(text, '9', bytes);
    ck_assert_int_eq(ec_json_check(text, bytes, NULL, NULL), EC_ERR_PARSE);
    overwrite(text + bytes - 9, "e-1048570");
    ck_assert_int_eq(ec_json_check(text, bytes, NULL, NULL), EC_OK);
    free(text);
}
END_TEST

static const char *const request_names[] = { "jsonrpc", "id", "method", "params" };

#define ASSERT_SPAN(span, expected)                                                                \
    do {                                                                                           \
        ck_assert_uint_eq((span).bytes, strlen(expected));                                         \
        ck_assert(memcmp((span).text, expected, (span).bytes) == 0);                               \
    } while (0)

START_TEST(a_request_is_checked_and_bound_in_one_pass)
{
    static const char text[] =
        " {\"jsonrpc\":\"2.0\" , \"params\": {\"id\":[7,{\"id\":8}]} ,\"id\":1, \"method\":\"clock.get\"}\n";
    struct ec_json_span values[4];
    struct ec_json_fields fields = { .names = request_names, .values = values, .count = 4 };

    ck_assert_int_eq(ec_json_scan(text, sizeof text - 1, NULL, &fields, NULL), EC_OK);
    ASSERT_SPAN(values[0], "\"2.0\"");
    ASSERT_SPAN(values[1], "1");
    ASSERT_SPAN(values[2], "\"clock.get\"");
    ASSERT_SPAN(values[3], "{\"id\":[7,{\"id\":8}]}");
    ck_assert_ptr_null(fields.unknown.text);
}
END_TEST

START_TEST(missing_and_unknown_members_are_told)
{
    static const char text[] = "{\"m\\u0065thod\":null,\"extra\":{},\"more\":[],\"ID\":1,\"i\":2}";
    struct ec_json_span values[4];
    struct ec_json_fields fields = { .names = request_names, .values = values, .count = 4 };

    memset(values, 0xAA, sizeof values);
    ck_assert_int_eq(ec_json_scan(text, sizeof text - 1, NULL, &fields, NULL), EC_OK);
    ck_assert_ptr_null(values[0].text);
    ck_assert_ptr_null(values[1].text);
    ASSERT_SPAN(values[2], "null");
    ck_assert_ptr_null(values[3].text);
    ASSERT_SPAN(fields.unknown, "\"extra\"");
}
END_TEST

START_TEST(nothing_is_bound_when_the_text_is_refused_or_no_object)
{
    static const struct json_text texts[] = { T("{\"id\":1,\"method\":2"), T("{\"id\":1,\"id\":1}"),
                                              T("[{\"id\":1}]"), T("\"id\""), T("{\"extra\":1}x") };
    struct ec_json_span values[4];
    struct ec_json_fields fields = { .names = request_names, .values = values, .count = 4 };

    for (size_t i = 0; i < COUNT(texts); i++) {
        memset(values, 0xAA, sizeof values);
        ec_json_scan(texts[i].text, texts[i].bytes, NULL, &fields, NULL);
        for (size_t k = 0; k < 4; k++)
            ck_assert_ptr_null(values[k].text);
        ck_assert_ptr_null(fields.unknown.text);
    }
}
END_TEST

START_TEST(a_place_in_a_file_has_line_and_column)
{
    static const char text[] = "{\n  \"a\": 1,\n  \"a\": 2\n}";
    struct ec_json_fault fault;
    size_t line, column;

    ck_assert_int_eq(ec_json_check(text, sizeof text - 1, NULL, &fault), EC_ERR_PARSE);
    ec_json_position(text, fault.offset, &line, &column);
    ck_assert_uint_eq(line, 3);
    ck_assert_uint_eq(column, 3);
    ec_json_position(text, 0, &line, &column);
    ck_assert_uint_eq(line, 1);
    ck_assert_uint_eq(column, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json_scan");
    TCase *tcase = tcase_create("json_scan");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, each_text_is_accepted_or_refused_for_its_fault, 0,
                        (int)json_text_sets_count);
    tcase_add_test(tcase, no_prefix_of_an_object_is_accepted);
    tcase_add_test(tcase, a_fault_says_what_was_expected_and_where);
    tcase_add_test(tcase, an_accepted_text_leaves_no_fault);
    tcase_add_test(tcase, each_byte_is_judged_the_same_at_each_place_of_a_string);
    tcase_add_test(tcase, depth_64_is_accepted_and_65_is_not);
    tcase_add_test(tcase, depth_limit_is_the_callers_up_to_256);
    tcase_add_test(tcase, many_arrays_side_by_side_are_not_deep);
    tcase_add_test(tcase, an_object_of_100000_members_is_accepted);
    tcase_add_loop_test(tcase, a_repeated_name_is_found_in_an_object_of_any_size, 0,
                        (int)COUNT(member_counts));
    tcase_add_test(tcase, the_first_of_several_repeated_names_is_reported);
    tcase_add_test(tcase, names_of_nested_large_objects_do_not_mix);
    tcase_add_test(tcase, a_long_name_is_cut_between_characters_in_the_reason);
    tcase_add_test(tcase, a_megabyte_in_one_string_is_accepted);
    tcase_add_test(tcase, a_number_of_a_megabyte_is_judged_by_its_value);
    tcase_add_test(tcase, a_request_is_checked_and_bound_in_one_pass);
    tcase_add_test(tcase, missing_and_unknown_members_are_told);
    tcase_add_test(tcase, nothing_is_bound_when_the_text_is_refused_or_no_object);
    tcase_add_test(tcase, a_place_in_a_file_has_line_and_column);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
