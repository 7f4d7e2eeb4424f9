/* The scanner accepts what RFC 8259 and the rules in its header allow, refuses everything else, and
 * says what and where. */
#include "foundation/json/json_scan.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
    const char *text;
    size_t bytes;
};

/* Texts may hold NUL, so their size is that of the literal. */
#define T(literal)                                                                                 \
    {                                                                                              \
        (literal), sizeof(literal) - 1                                                             \
    }
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* clang-format off */
static const struct text accepted[] = {
    /* every kind of value alone, and white space */
    T("null"), T("true"), T("false"), T("0"), T("\"\""), T("[]"), T("{}"), T(" null"), T("null "),
    T("\t\n\r {} \r\n\t"), T("[ ]"), T("{ }"), T("\n[\n]\n"), T("42\n"), T("-1"), T("\"a\""),
    /* arrays */
    T("[1]"), T("[1,2,3]"), T("[ 1 , 2 ]"), T("[null]"), T("[[]]"), T("[[],[]]"), T("[[[]]]"),
    T("[\"\"]"), T("[true,false,null]"), T("[1,null,null,null,2]"), T("[{}]"), T("[{},[],\"\"]"),
    T("[1\n]"), T("[2] "), T(" [1]"),
    /* objects */
    T("{\"a\":1}"), T("{\"\":0}"), T("{\"a\":{}}"), T("{\"a\":[]}"), T("{ \"a\" : 1 }"),
    T("{\"a\":1,\"b\":2}"), T("{\"a\":1,\"A\":2}"), T("{\"a\":1,\"a \":2}"), T("{\"a\":{\"a\":1}}"),
    T("{\"a\":\"b\",\"b\":\"a\"}"), T("{\n\"a\":\n1\n}"), T("{\"foo\\u0000bar\":42}"),
    T("{\"a\":1,\"a\\u0000\":2}"), T("[{\"a\":1},{\"a\":1}]"),
    T("{\"a\":[{\"b\":1},{\"b\":2}],\"b\":0}"), T("{\"\\u00e4\":1,\"\\u00c4\":2}"),
    T("{\"min\":-1.0e+28,\"max\":1.0e+28}"),
    /* numbers */
    T("[-0]"), T("[-0.0]"), T("[0e1]"), T("[0e+1]"), T("[0E-1]"), T("[1E22]"), T("[1E-2]"),
    T("[1E+2]"), T("[123e45]"), T("[123.456e78]"), T("[1e-2]"), T("[1e+2]"), T("[-123]"),
    T("[123.456789]"), T("[0.1]"), T("[-0.1]"), T("[0.0000000000000000000001]"), T("[20e1]"),
    T("[1e007]"), T("[123e65]"), T("[1.000000000000000000000000000000000000000000001]"),
    T("[9223372036854775807]"), T("[-9223372036854775808]"), T("[9223372036854775808]"),
    T("[18446744073709551615]"), T("[18446744073709551616.0]"), T("[1e308]"),
    T("[1.7976931348623157e308]"), T("[1.7976931348623158e308]"), T("[-1.7976931348623157E+308]"),
    T("[0e99999999999999999999]"), T("[0.0e+999]"), T("[1e-400]"), T("[-1e-99999999999999999999]"),
    T("[5e-324]"), T("[123123e-10000000]"), T("[0.1e309]"), T("[0.00001e312]"),
    /* strings */
    T("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]"), T("[\"\\u0060\\u012a\\u12AB\"]"), T("[\"\\\\u0000\"]"),
    T("[\"\\u0000\"]"), T("[\"a\\u0000b\"]"), T("[\"\\u001f\"]"), T("[\"\\u007F\"]"),
    T("[\"\x7f\"]"), T("[\"\\uD801\\udc37\"]"), T("[\"\\ud83d\\ude39\\ud83d\\udc8d\"]"),
    T("[\"\\uDBFF\\uDFFF\"]"), T("[\"\\uFFFF\"]"), T("[\"\\uFDD0\"]"), T("[\"\\uFFFE\"]"),
    T("[\"\\uE000\"]"), T("[\"\\ud7ff\"]"), T("[\"a/*b*/c\"]"), T("[\"asd \"]"), T("[\" \"]"),
    T("[\"'\"]"), T("[\"{\"]"), T("[\"]\"]"), T("[\"\\u0022\"]"), T("[\"\\u005C\"]"),
    T("[\"\\u2028\"]"), T("[\"\\u200B\"]"), T("[\"new\\u000Aline\"]"),
    /* UTF-8: first and last of each length and on both sides of the surrogates */
    T("[\"\xC2\x80\"]"), T("[\"\xDF\xBF\"]"), T("[\"\xE0\xA0\x80\"]"), T("[\"\xEF\xBF\xBF\"]"),
    T("[\"\xED\x9F\xBF\"]"), T("[\"\xEE\x80\x80\"]"), T("[\"\xF0\x90\x80\x80\"]"),
    T("[\"\xF4\x8F\xBF\xBF\"]"), T("[\"\xE2\x80\xA8\xE2\x80\xA9\"]"), T("[\"\xEF\xBB\xBF\"]"),
    T("[\"\xF0\x9F\x98\xB9\"]"), T("\"\xE2\x8D\x82\xE3\x88\xB4\xE2\x8D\x82\""),
    T("{\"\xC3\xA4\":1}"), T("[\"\xEF\xBF\xBE\"]"), T("[\"\xE1\x80\x80\xEC\xBF\xBF\"]"),
    T("[\"\xF3\xBF\xBF\xBF\xF1\x80\x80\x80\"]"),
};

static const struct text syntax_faults[] = {
    /* nothing, or not one value */
    T(""), T(" "), T("\n"), T("1 2"), T("null null"), T("{}{}"), T("[][]"), T("[1]x"), T("{}#"),
    T("[1]]"), T("{}}"), T("\"\"x"), T("{\"a\":true}\"x\""), T("[],"), T("1,"), T("{},{}"),
    T("true//"), T("{\"a\":\"b\"}/**/"), T("/**/{}"), T("//\n1"), T("#1\n1"), T("\"a\"\"b\""),
    T("null\0"), T("\0"), T("{}\0"), T("[1\0]"), T("\0null"), T("*"), T("<null>"), T("<.>"),
    T("\\u000A\"\""), T("]"), T("}"), T(","), T(":"), T("\""), T("'a'"), T("[\f]"), T("[\v1]"),
    T("\f[]"), T("\xE2\x81\xA0[]"), T("[\xC2\xA0]"), T("{\"a\":1}\xEF\xBB\xBF"),
    /* byte order marks and other encodings */
    T("\xEF\xBB\xBF{}"), T("\xEF\xBB\xBF"), T("\xEF\xBB"), T("\xFF\xFE[\0]\0"), T("\xFE\xFF\0[\0]"),
    T("[\0]\0"), T("\0[\0]"),
    /* words */
    T("nul"), T("tru"), T("fals"), T("True"), T("FALSE"), T("Null"), T("nan"), T("NaN"), T("[NaN]"),
    T("Infinity"), T("[-Infinity]"), T("[+Inf]"), T("undefined"), T("[nul]"), T("[truth]"),
    T("[nulll]"), T("truefalse"), T("[t]"), T("[f]"), T("[n"), T("none"),
    /* arrays */
    T("["), T("[,"), T("[,1]"), T("[1,]"), T("[1,,2]"), T("[,]"), T("[1"), T("[1,"),
    T("[1,\n1\n,1"), T("[1 2]"), T("[\"\": 1]"), T("[1:2]"), T("[[1]"), T("[}"), T("[1}"),
    T("[\"a\""), T("[\"a\","), T("[{}"), T("[\"\","), T("[3[4]]"), T("[1 true]"), T("[a]"),
    T("[\"a\",\n4\n,1,"), T("[*]"), T("[;]"), T("[\"x\"]]"), T("[1;2]"), T("[\"a\xC3\xA5\",,]"),
    T("[][,]"),
    /* objects */
    T("{"), T("{,"), T("{,}"), T("{]"), T("{\"a\"}"), T("{\"a\""), T("{\"a\":"), T("{\"a\":}"),
    T("{\"a\" 1}"), T("{\"a\",1}"), T("{\"a\":1,}"), T("{\"a\":1,,\"b\":2}"), T("{\"a\":1"),
    T("{\"a\":1,"), T("{\"a\":1 \"b\":2}"), T("{a:1}"), T("{'a':1}"), T("{1:1}"), T("{null:1}"),
    T("{[]:1}"), T("{\"a\"::1}"), T("{:1}"), T("{\"a\":1]"), T("{\"a\":1:2}"), T("{\"a\"=1}"),
    T("{\"a\":\"b\",\"c\"}"), T("{\"x\", null}"), T("{\"a\":\"a"), T("{\"a"), T("{\"a\":/**/1}"),
    T("{\"a\":1}}"), T("{ \"foo\" : \"bar\", \"a\" }"), T("{9999E9999:1}"), T("{\xF0\x9F\x87\xA8}"),
    T("{\"id\":0,,,,,}"), T("{\"a\":-}"), T("{true:false}"), T("{\"a\":b}"), T("{\"a\";1}"),
    /* numbers */
    T("-"), T("+1"), T("[+0]"), T("[-]"), T("[--1]"), T("[-+1]"), T("[++1]"), T("[01]"), T("[-01]"),
    T("[00]"), T("[-012]"), T("[1.]"), T("[.1]"), T("[-.1]"), T("[.]"), T("[1.e1]"), T("[2.e+3]"),
    T("[0.e1]"), T("[0e]"), T("[0e+]"), T("[0E]"), T("[1eE2]"), T("[1.0e]"), T("[1.0e-]"),
    T("[1.0e+]"), T("[1e1.5]"), T("[9.e+]"), T("[1 000]"), T("[1_000]"), T("[0x1]"), T("[0x]"),
    T("[1a]"), T("[-1x]"), T("[1.2a-3]"), T("[1.8011670033376514H-308]"), T("[0.3e]"), T("[0.1.2]"),
    T("[-2.]"), T("[- 1]"), T("[1,5.]"), T("[1e+-2]"), T("[\xEF\xBC\x91]"), T("[-foo]"), T("[1+2]"),
    T("[123\xE5]"), T("[1e1\xE5]"), T("[0\xE5]"), T("[0o7]"), T("[0b1]"), T("[1L]"), T("[1.0f]"),
    T("2."), T("-0."), T("1e"), T("0123"), T("1."), T("[-1.0.]"), T("[1.5e"),
    /* strings */
    T("\"a"), T("[\"a]"), T("\"\\"), T("\"\\\""), T("[\"\\\"]"), T("[\"\\x41\"]"), T("[\"\\a\"]"),
    T("[\"\\0\"]"), T("[\"\\'\"]"), T("[\"\\U0041\"]"), T("[\"\\ \"]"), T("[\"\\\t\"]"),
    T("[\"\\\0\"]"), T("[\"\\\xC3\xA4\"]"), T("[\"\\"), T("[\"\\u\"]"), T("[\"\\u1\"]"),
    T("[\"\\u12\"]"), T("[\"\\u123\"]"), T("[\"\\u00G0\"]"), T("[\"\\u 041\"]"), T("[\"\\u+041\"]"),
    T("[\"\\u-041\"]"), T("[\"\\u0x41\"]"), T("[\"\\u\xE5\"]"), T("\"\\u12"), T("[\"\\v\"]"),
    T("[\"\\uD800\"]"), T("[\"\\uDC00\"]"), T("[\"\\uDFFF\"]"), T("[\"\\uDBFF\"]"),
    T("[\"\\uD800x\"]"), T("[\"\\uD800\\n\"]"), T("[\"\\uD800\\u0041\"]"),
    T("[\"\\uD800\\uD800\"]"), T("[\"\\uDC00\\uD800\"]"), T("[\"\\uD83D\\uDE39\\uD83D\"]"),
    T("[\"\\uD800\\u\"]"), T("[\"\\uD800\\uD\"]"), T("[\"\\uD800\\uDC0\"]"),
    T("[\"\\uD800\\uDC0G\"]"), T("[\"\\uD800\\\"]"), T("[\"\\uD800\\"), T("[\"\\ud800abc\"]"),
    T("{\"\\uD800\":1}"), T("[\"\0\"]"), T("[\"a\0b\"]"), T("[\"\n\"]"), T("[\"\t\"]"),
    T("[\"\r\"]"), T("[\"\x1f\"]"), T("[\"\x01\"]"), T("[\"a\nb\"]"), T("[\"12345678\n\"]"),
    T("[\"1234567\x1f\"]"), T("{\"a\tb\":1}"), T("\"\x08\""), T("[\xC3\xA9]"), T("[\\n]"),
    T("[\\u0020\"a\"]"), T("abc"), T("[\"a\\\\\\\"]"), T("[\"\\\\\\\\\\\"]"), T("[\xFF]"),
    T("\xE5"),
};

static const struct text utf8_faults[] = {
    T("[\"\x80\"]"), T("[\"\xBF\"]"), T("[\"\xC0\x80\"]"), T("[\"\xC0\xAF\"]"), T("[\"\xC1\xBF\"]"),
    T("[\"\xC2\"]"), T("[\"\xC3\x28\"]"), T("[\"\xDF\x7F\"]"), T("[\"\xDF\xC0\"]"),
    T("[\"\xE0\x80\x80\"]"), T("[\"\xE0\x9F\xBF\"]"), T("[\"\xE0\x80\xAF\"]"), T("[\"\xE1\x80\"]"),
    T("[\"\xE2\x82\"]"), T("[\"\xE2\x28\xA1\"]"), T("[\"\xE2\x82\x28\"]"), T("[\"\xED\xA0\x80\"]"),
    T("[\"\xED\xBF\xBF\"]"), T("[\"\xED\xA0\x80\xED\xB0\x80\"]"), T("[\"\xEF\xBF\"]"),
    T("[\"\xF0\x80\x80\x80\"]"), T("[\"\xF0\x8F\xBF\xBF\"]"), T("[\"\xF0\x90\x80\"]"),
    T("[\"\xF0\x28\x8C\xBC\"]"), T("[\"\xF0\x90\x28\xBC\"]"), T("[\"\xF0\x28\x8C\x28\"]"),
    T("[\"\xF4\x90\x80\x80\"]"), T("[\"\xF4\xBF\xBF\xBF\"]"), T("[\"\xF5\x80\x80\x80\"]"),
    T("[\"\xF8\x88\x80\x80\x80\"]"), T("[\"\xFC\x83\xBF\xBF\xBF\xBF\"]"), T("[\"\xFE\"]"),
    T("[\"\xFF\"]"), T("[\"\xFF\xFE\"]"), T("[\"abcdefg\xE9\"]"), T("[\"abcdefghijklmno\xE4\"]"),
    T("\"\xE2\x82"), T("\"\xF0"), T("{\"\xFC\":1}"), T("[\"\xC3\xA4\xA4\"]"),
    T("[\"\xE6\x97\xA5\xD1\x88\xFA\"]"),
};

static const struct text number_faults[] = {
    T("18446744073709551616"), T("[18446744073709551616]"), T("[-9223372036854775809]"),
    T("[99999999999999999999]"), T("[-18446744073709551615]"), T("[-99999999999999999999]"),
    T("[100000000000000000000]"), T("[1e309]"), T("[-1e309]"), T("[1E+400]"),
    T("[1.7976931348623159e308]"), T("[179769313486231590000000000000000e277]"),
    T("[0.4e00669999999999999999]"), T("[123123e100000]"), T("[-123123e100000]"),
    T("[1e99999999999999999999]"), T("[0.00001e315]"), T("[-1e+9999]"),
    T("{\"a\":123456789012345678901234567890}"), T("[1.5e+9999]"),
};

static const struct text duplicate_faults[] = {
    T("{\"a\":1,\"a\":2}"), T("{\"a\":1,\"b\":2,\"a\":1}"), T("{\"\":1,\"\":1}"),
    T("{\"a\":1,\"\\u0061\":2}"), T("{\"\\u0061\":1,\"a\":2}"), T("{\"\\u0061\":1,\"\\u0061\":2}"),
    T("{\"\\n\":1,\"\\u000A\":2}"), T("{\"/\":1,\"\\/\":2}"), T("{\"\xC3\xA4\":1,\"\\u00e4\":2}"),
    T("{\"\\uD83D\\uDE39\":1,\"\xF0\x9F\x98\xB9\":2}"), T("{\"\\u0000\":1,\"\\u0000\":2}"),
    T("{\"12345678\":1,\"1234567\\u0038\":2}"),
    T("{\"123456789abc\":1,\"\\u0031\\u0032\\u003345678\\u0039abc\":2}"), T("[{\"a\":1,\"a\":1}]"),
    T("{\"x\":{\"a\":1,\"a\":1}}"), T("{\"x\":[{\"b\":1},{\"a\":1,\"a\":1}]}"),
    T("{\"a\":{\"b\":1},\"a\":{}}"), T("{\"\\\"\":1,\"\\u0022\":2}"),
    T("{\"a\":0,\"b\":0,\"c\":0,\"d\":0,\"e\":0,\"f\":0,\"g\":0,\"h\":0,\"i\":0,\"j\":0,\"k\":0,\"l\":0,\"m\":0,\"n\":0,\"o\":0,\"a\":0}"),
    T("{\"a\":0,\"b\":0,\"c\":0,\"d\":0,\"e\":0,\"f\":0,\"g\":0,\"h\":0,\"i\":0,\"j\":0,\"k\":0,\"l\":0,\"m\":0,\"n\":0,\"o\":0,\"p\":0,\"a\":0}"),
    T("{\"a\":0,\"b\":0,\"c\":0,\"d\":0,\"e\":0,\"f\":0,\"g\":0,\"h\":0,\"i\":0,\"j\":0,\"k\":0,\"l\":0,\"m\":0,\"n\":0,\"o\":0,\"p\":0,\"q\":0,\"\\u0071\":0}"),
};
/* clang-format on */

/* Scan a copy that ends where its block ends, so that a sanitizer sees each byte read beyond. */
static int scan_copy(const struct text *text, struct ec_json_fault *fault)
{
    char *copy = malloc(text->bytes > 0 ? text->bytes : 1);
    int rc;

    ck_assert_ptr_nonnull(copy);
    memcpy(copy, text->text, text->bytes);
    rc = ec_json_check(copy, text->bytes, NULL, fault);
    free(copy);
    return rc;
}

static void assert_refused(const struct text *texts, size_t count, enum ec_json_fault_kind kind)
{
    struct ec_json_fault fault;

    for (size_t i = 0; i < count; i++) {
        int rc = scan_copy(&texts[i], &fault);

        ck_assert_msg(rc == EC_ERR_PARSE && fault.kind == kind, "text %zu, %s: code %d kind %d: %s",
                      i, texts[i].text, rc, (int)fault.kind, fault.reason);
        ck_assert_msg(fault.offset <= texts[i].bytes, "text %zu: offset %zu", i, fault.offset);
        ck_assert_str_ne(fault.reason, "");
    }
}

START_TEST(all_valid_texts_are_accepted)
{
    struct ec_json_fault fault;

    for (size_t i = 0; i < COUNT(accepted); i++)
        ck_assert_msg(scan_copy(&accepted[i], &fault) == EC_OK, "text %zu, %s: %s at %zu", i,
                      accepted[i].text, fault.reason, fault.offset);
}
END_TEST

START_TEST(all_faults_of_syntax_are_refused)
{
    assert_refused(syntax_faults, COUNT(syntax_faults), EC_JSON_FAULT_SYNTAX);
}
END_TEST

START_TEST(all_broken_utf8_is_refused)
{
    assert_refused(utf8_faults, COUNT(utf8_faults), EC_JSON_FAULT_UTF8);
}
END_TEST

START_TEST(numbers_that_do_not_fit_are_refused)
{
    assert_refused(number_faults, COUNT(number_faults), EC_JSON_FAULT_NUMBER);
}
END_TEST

START_TEST(repeated_names_are_refused_however_they_are_escaped)
{
    assert_refused(duplicate_faults, COUNT(duplicate_faults), EC_JSON_FAULT_DUPLICATE);
}
END_TEST

START_TEST(no_prefix_of_an_object_is_accepted)
{
    struct ec_json_fault fault;
    struct text text = T(
        "{\"a\":[1,-2.5e3,\"x\\u00e4\\ud83d\\ude39\xE2\x82\xAC\"],\"b\":{\"c\":[true,false,null]}}");

    ck_assert_int_eq(scan_copy(&text, &fault), EC_OK);
    while (text.bytes-- > 0)
        ck_assert_int_eq(scan_copy(&text, &fault), EC_ERR_PARSE);
}
END_TEST

/* Offset and words, as a user reads them. */
static const struct {
    struct text text;
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
    static const struct text texts[] = { T("{\"id\":1,\"method\":2"), T("{\"id\":1,\"id\":1}"),
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

    /* The tables are what the test is about. */
    _Static_assert(COUNT(accepted) >= 90, "texts that must be accepted");
    _Static_assert(COUNT(syntax_faults) + COUNT(utf8_faults) + COUNT(number_faults) +
                           COUNT(duplicate_faults) >=
                       180,
                   "texts that must be refused");
    tcase_add_test(tcase, all_valid_texts_are_accepted);
    tcase_add_test(tcase, all_faults_of_syntax_are_refused);
    tcase_add_test(tcase, all_broken_utf8_is_refused);
    tcase_add_test(tcase, numbers_that_do_not_fit_are_refused);
    tcase_add_test(tcase, repeated_names_are_refused_however_they_are_escaped);
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
    tcase_set_timeout(tcase, 60);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
