/* What the writer writes is what was meant, always valid, and reads back as what it was. */
#include "foundation/json/json_writer.h"

#include "foundation/json/json_scan.h"

#include <check.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/often.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static char buffer[1 << 16];
static struct ec_json_writer w;

static void setup(void)
{
    ec_json_writer_init(&w, buffer, sizeof buffer);
}

static void assert_text(const char *expected)
{
    struct ec_json_fault fault;

    ck_assert_int_eq(ec_json_writer_status(&w), EC_OK);
    ck_assert_msg(w.bytes == strlen(expected) && memcmp(w.base, expected, w.bytes) == 0,
                  "%.*s is not %s", (int)w.bytes, w.base, expected);
    ck_assert_msg(ec_json_check(w.base, w.bytes, NULL, &fault) == EC_OK, "%s", fault.reason);
}

START_TEST(commas_and_colons_come_by_themselves)
{
    ec_json_object_begin(&w);
    ec_json_member_string(&w, "jsonrpc", "2.0");
    ec_json_member_null(&w, "id");
    ec_json_member_object(&w, "result");
    ec_json_object_end(&w);
    ec_json_member_array(&w, "items");
    ec_json_array_begin(&w);
    ec_json_array_end(&w);
    ec_json_i64(&w, -1);
    ec_json_object_begin(&w);
    ec_json_member_boolean(&w, "a", true);
    ec_json_member_boolean(&w, "b", false);
    ec_json_object_end(&w);
    ec_json_array_begin(&w);
    ec_json_null(&w);
    ec_json_null(&w);
    ec_json_array_end(&w);
    ec_json_array_end(&w);
    ec_json_member_hex64(&w, "type_id", 0x1f);
    ec_json_object_end(&w);
    assert_text(
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{},\"items\":[[],-1,{\"a\":true,\"b\":false},[null,null]],"
        "\"type_id\":\"0x1f\"}");
}
END_TEST

START_TEST(integers_are_exact_to_64_bits)
{
    ec_json_array_begin(&w);
    ec_json_i64(&w, INT64_MIN);
    ec_json_i64(&w, INT64_MAX);
    ec_json_i64(&w, 0);
    ec_json_u64(&w, UINT64_MAX);
    ec_json_u64(&w, 1234567890123456780);
    ec_json_array_end(&w);
    assert_text(
        "[-9223372036854775808,9223372036854775807,0,18446744073709551615,1234567890123456780]");
}
END_TEST

START_TEST(ids_are_hexadecimal_strings_without_padding)
{
    ec_json_array_begin(&w);
    ec_json_hex64(&w, 0);
    ec_json_hex64(&w, 0xf);
    ec_json_hex64(&w, 0x10);
    ec_json_hex64(&w, 0xfedcba9876543210);
    ec_json_hex64(&w, 0x0fffffffffffffff);
    ec_json_hex64(&w, UINT64_MAX);
    ec_json_array_end(&w);
    assert_text(
        "[\"0x0\",\"0xf\",\"0x10\",\"0xfedcba9876543210\",\"0xfffffffffffffff\",\"0xffffffffffffffff\"]");
}
END_TEST

START_TEST(numbers_that_json_cannot_say_become_null)
{
    ec_json_array_begin(&w);
    ec_json_real(&w, (double)NAN);
    ec_json_real(&w, HUGE_VAL);
    ec_json_real(&w, -HUGE_VAL);
    ec_json_real(&w, 0.25);
    ec_json_array_end(&w);
    assert_text("[null,null,null,0.25]");
}
END_TEST

START_TEST(strings_are_escaped)
{
    ec_json_string_n(&w, "\"\\/\b\f\n\r\t\0\x01\x1f\x7f", 12);
    assert_text("\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u0001\\u001f\x7f\"");
}
END_TEST

/* One U+FFFD for each sequence that breaks off, as the Unicode standard recommends. */
static const struct {
    const char *text, *expected;
} broken[] = {
    { "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\xB9", "\"\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\xB9\"" },
    { "a\xFFz", "\"a\xEF\xBF\xBDz\"" },
    { "\x80", "\"\xEF\xBF\xBD\"" },
    { "\xC3", "\"\xEF\xBF\xBD\"" },
    { "\xE2\x82", "\"\xEF\xBF\xBD\"" },
    { "\xE2\x82z", "\"\xEF\xBF\xBDz\"" },
    { "\xF0\x9F\x98\xC3\xA4", "\"\xEF\xBF\xBD\xC3\xA4\"" },
    { "\xC0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\"" },
    { "\xED\xA0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"" },
    { "\xF4\x90\x80\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"" },
};

START_TEST(broken_utf8_becomes_the_replacement_character)
{
    ec_json_string(&w, broken[_i].text);
    assert_text(broken[_i].expected);
}
END_TEST

START_TEST(keys_of_any_bytes_are_escaped)
{
    ec_json_object_begin(&w);
    ec_json_key_n(&w, "a\"\n", 3);
    ec_json_u64(&w, 1);
    ec_json_key_n(&w, "b\xFF", 2);
    ec_json_u64(&w, 2);
    ec_json_member_u64(&w, "c", 3);
    ec_json_object_end(&w);
    assert_text("{\"a\\\"\\n\":1,\"b\xEF\xBF\xBD\":2,\"c\":3}");
}
END_TEST

START_TEST(a_raw_value_stays_as_it_is_but_on_one_line)
{
    static const char text[] = "{\n \"a\":\t18446744073709551615,\r\n \"b\\n\":1.10 }";

    ec_json_array_begin(&w);
    ec_json_raw(&w, (struct ec_json_span) { text, sizeof text - 1 });
    ec_json_raw(&w, (struct ec_json_span) { "\"\\u0000\"", 8 });
    ec_json_array_end(&w);
    assert_text("[{  \"a\":\t18446744073709551615,\r  \"b\\n\":1.10 },\"\\u0000\"]");
}
END_TEST

START_TEST(texts_follow_each_other_in_one_buffer)
{
    ec_json_u64(&w, 1);
    ec_json_line_end(&w);
    ec_json_object_begin(&w);
    ec_json_object_end(&w);
    ec_json_line_end(&w);
    ec_json_string(&w, "x");
    ec_json_line_end(&w);
    ck_assert_int_eq(ec_json_writer_status(&w), EC_OK);
    ck_assert_uint_eq(w.bytes, 9);
    ck_assert(memcmp(buffer, "1\n{}\n\"x\"\n", 9) == 0);
}
END_TEST

START_TEST(a_half_written_text_can_be_taken_back)
{
    size_t mark;

    ec_json_u64(&w, 1);
    ec_json_line_end(&w);
    mark = w.bytes;
    ec_json_object_begin(&w);
    ec_json_member_array(&w, "items");
    ec_json_u64(&w, 1);
    ec_json_writer_rewind(&w, mark);
    ec_json_object_begin(&w);
    ec_json_member_i64(&w, "error", -32602);
    ec_json_object_end(&w);
    ec_json_line_end(&w);
    ck_assert_uint_eq(w.bytes, strlen("1\n{\"error\":-32602}\n"));
    ck_assert(memcmp(buffer, "1\n{\"error\":-32602}\n", w.bytes) == 0);
}
END_TEST

/* One of everything. */
static void write_sample(void)
{
    ec_json_object_begin(&w);
    ec_json_member_string(&w, "s", "a\nb\xC3\xA4\xFF");
    ec_json_member_i64(&w, "i", -12345);
    ec_json_key_n(&w, "k\t", 2);
    ec_json_array_begin(&w);
    ec_json_real(&w, 0.5);
    ec_json_boolean(&w, true);
    ec_json_null(&w);
    ec_json_hex64(&w, 255);
    ec_json_u64(&w, 7);
    ec_json_array_end(&w);
    ec_json_member_raw(&w, "r", (struct ec_json_span) { "[1, 2]", 6 });
    ec_json_object_end(&w);
    ec_json_line_end(&w);
}

START_TEST(a_fixed_buffer_is_never_overrun)
{
    char *exact;
    size_t needed;

    write_sample();
    ck_assert_int_eq(ec_json_writer_status(&w), EC_OK);
    needed = w.bytes;
    for (size_t capacity = 0; capacity < needed; capacity++) {
        exact = malloc(capacity + 1);
        ck_assert_ptr_nonnull(exact);
        exact[capacity] = 'g';
        ec_json_writer_init(&w, exact, capacity);
        write_sample();
        ck_assert_int_eq(ec_json_writer_status(&w), EC_ERR_SIZE);
        ck_assert_uint_le(w.bytes, capacity);
        ck_assert_int_eq(exact[capacity], 'g');
        ec_json_writer_rewind(&w, 0);
        ck_assert_int_eq(ec_json_writer_status(&w), EC_OK);
        free(exact);
    }
}
END_TEST

struct growth {
    size_t calls;
    size_t calls_max;
};

static void *grow(void *context, void *base, size_t used, size_t bytes)
{
    struct growth *growth = context;

    ck_assert_uint_lt(used, bytes);
    return growth->calls++ < growth->calls_max ? realloc(base, bytes) : NULL;
}

START_TEST(a_growing_buffer_holds_as_much_as_is_allowed)
{
    struct growth growth = { .calls_max = SIZE_MAX };
    size_t count = 100000;

    ec_json_writer_init_growing(&w, grow, &growth, 1 << 20);
    ec_json_array_begin(&w);
    for (size_t i = 0; i < count; i++)
        ec_json_u64(&w, i);
    ec_json_array_end(&w);
    ck_assert_int_eq(ec_json_writer_status(&w), EC_OK);
    ck_assert_int_eq(ec_json_check(w.base, w.bytes, NULL, NULL), EC_OK);
    ck_assert_uint_le(growth.calls, 12);
    free(w.base);
}
END_TEST

START_TEST(more_than_is_allowed_is_an_error_that_stays)
{
    struct growth growth = { .calls_max = SIZE_MAX };

    ec_json_writer_init_growing(&w, grow, &growth, 3000);
    ec_json_array_begin(&w);
    for (size_t i = 0; i < 2000; i++)
        ec_json_u64(&w, 1);
    ec_json_array_end(&w);
    ck_assert_int_eq(ec_json_writer_status(&w), EC_ERR_SIZE);
    ck_assert_uint_le(w.bytes, 3000);
    ck_assert_uint_le(w.capacity, 3000);
    ck_assert_uint_ge(w.bytes, 2970); /* an integer wants room for all its digits */
    free(w.base);
}
END_TEST

START_TEST(without_memory_the_error_stays_and_the_text_too)
{
    struct growth growth = { .calls_max = 1 };
    size_t bytes;

    ec_json_writer_init_growing(&w, grow, &growth, 1 << 20);
    ec_json_array_begin(&w);
    while (ec_json_writer_status(&w) == EC_OK)
        ec_json_string(&w, "0123456789");
    ck_assert_int_eq(ec_json_writer_status(&w), EC_ERR_MEMORY);
    bytes = w.bytes;
    ec_json_string(&w, "");
    ec_json_array_end(&w);
    ck_assert_uint_eq(w.bytes, bytes);
    ck_assert(memcmp(w.base, "[\"0123456789\",", 14) == 0);
    free(w.base);
}
END_TEST

START_TEST(nesting_is_limited)
{
    for (int depth = 0; depth < EC_JSON_WRITER_DEPTH; depth++)
        ec_json_array_begin(&w);
    ck_assert_int_eq(ec_json_writer_status(&w), EC_OK);
    ec_json_object_begin(&w);
    ec_json_member_null(&w, "deeper");
    ec_json_object_end(&w);
    ck_assert_int_eq(ec_json_writer_status(&w), EC_ERR_LIMIT);
    for (int depth = 0; depth < EC_JSON_WRITER_DEPTH; depth++)
        ec_json_array_end(&w);
    ck_assert_int_eq(ec_json_writer_status(&w), EC_ERR_LIMIT);
}
END_TEST

#ifndef NDEBUG
START_TEST(wrong_use_is_asserted)
{
    switch (_i) {
    case 0: /* a value without a key */
        ec_json_object_begin(&w);
        ec_json_u64(&w, 1);
        break;
    case 1: /* a key in an array */
        ec_json_array_begin(&w);
        ec_json_key(&w, "a");
        break;
    case 2: /* an end that does not match */
        ec_json_array_begin(&w);
        ec_json_object_end(&w);
        break;
    case 3: /* an end too many */
        ec_json_array_end(&w);
        break;
    case 4: /* two keys */
        ec_json_object_begin(&w);
        ec_json_key(&w, "a");
        ec_json_key(&w, "b");
        break;
    case 5: /* a key without a value */
        ec_json_object_begin(&w);
        ec_json_key(&w, "a");
        ec_json_object_end(&w);
        break;
    case 6: /* two values in one text */
        ec_json_null(&w);
        ec_json_null(&w);
        break;
    default: /* a name that needs escapes */
        ec_json_object_begin(&w);
        ec_json_key(&w, "a\n");
        break;
    }
}
END_TEST
#endif

static uint64_t random_state = 88172645463325252;

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static size_t random_bytes(char *bytes, size_t most)
{
    size_t count = next_random() % most;

    for (size_t i = 0; i < count; i++)
        bytes[i] = (char)(next_random() % 4 == 0 ? next_random() : 0x20 + next_random() % 0x5F);
    return count;
}

/* Write a random value, and what was written into a list that the reader goes through again. */
struct expectation {
    enum ec_json_type type;
    int64_t i64;
    uint64_t u64;
    double real;
    size_t bytes;
    char text[40];
};

static struct expectation expectations[4096];
static size_t expected;

static void write_random(int depth)
{
    struct expectation *e = &expectations[expected];
    uint64_t kind = next_random() % (depth < 6 && expected < 3000 ? 8 : 6);
    size_t count = next_random() % 40; /* above and below what is compared in pairs */

    *e = (struct expectation) { .type = EC_JSON_NULL };
    expected++;
    switch (kind) {
    case 0:
        ec_json_null(&w);
        break;
    case 1:
        e->type = EC_JSON_BOOLEAN;
        e->u64 = next_random() & 1;
        ec_json_boolean(&w, e->u64 != 0);
        break;
    case 2:
        e->type = EC_JSON_NUMBER;
        e->i64 = (int64_t)(next_random() >> next_random() % 64) * (next_random() & 1 ? -1 : 1);
        ec_json_i64(&w, e->i64);
        break;
    case 3:
        e->type = EC_JSON_STRING;
        for (size_t i = 0; i < sizeof e->text; i++)
            e->text[i] = (char)(next_random() % 0x80);
        e->bytes = next_random() % sizeof e->text;
        ec_json_string_n(&w, e->text, e->bytes);
        break;
    case 4:
        e->type = EC_JSON_NUMBER;
        e->real =
            (double)(int64_t)next_random() / (double)(next_random() >> next_random() % 60 | 1);
        e->bytes = 1;
        ec_json_real(&w, e->real);
        break;
    case 5:
        e->type = EC_JSON_STRING;
        e->u64 = next_random() >> next_random() % 64;
        e->bytes = SIZE_MAX;
        ec_json_hex64(&w, e->u64);
        break;
    case 6:
        e->type = EC_JSON_ARRAY;
        ec_json_array_begin(&w);
        while (count-- > 0 && expected < COUNT(expectations) - 1) {
            write_random(depth + 1);
            e->bytes++;
        }
        ec_json_array_end(&w);
        break;
    default:
        e->type = EC_JSON_OBJECT;
        ec_json_object_begin(&w);
        while (count-- > 0 && expected < COUNT(expectations) - 1) {
            char key[24];
            int bytes = snprintf(key, sizeof key, "%zu\t\xC3\xA4", e->bytes++);

            ec_json_key_n(&w, key, (size_t)bytes);
            write_random(depth + 1);
        }
        ec_json_object_end(&w);
        break;
    }
}

static size_t place;

static void read_expected(struct ec_json_span value)
{
    const struct expectation *e = &expectations[place++];
    struct ec_json_iterator iterator = ec_json_iterate(value);
    struct ec_json_span name, inner;
    char text[sizeof e->text + 1];
    size_t bytes, count = 0;
    int64_t i64;
    uint64_t u64;
    double real;
    bool boolean;

    ASSERT_OFTEN(ec_json_type_of(value) == e->type);
    if (e->type == EC_JSON_BOOLEAN) {
        ASSERT_OFTEN(ec_json_get_boolean(value, &boolean) == EC_OK);
        ASSERT_OFTEN(boolean == e->u64);
    } else if (e->type == EC_JSON_NUMBER && e->bytes == 0) {
        ASSERT_OFTEN(ec_json_get_i64(value, &i64) == EC_OK);
        ASSERT_OFTEN(i64 == e->i64);
    } else if (e->type == EC_JSON_NUMBER) {
        ASSERT_OFTEN(ec_json_get_double(value, &real) == EC_OK);
        ASSERT_OFTEN(real == e->real && signbit(real) == signbit(e->real));
    } else if (e->type == EC_JSON_STRING && e->bytes == SIZE_MAX) {
        ASSERT_OFTEN(ec_json_get_hex64(value, &u64) == EC_OK);
        ASSERT_OFTEN(u64 == e->u64);
    } else if (e->type == EC_JSON_STRING) {
        ASSERT_OFTEN(ec_json_get_string(value, text, sizeof text, &bytes) == EC_OK);
        ASSERT_OFTEN(bytes == e->bytes);
        ASSERT_OFTEN(memcmp(text, e->text, bytes) == 0);
    } else if (e->type == EC_JSON_ARRAY) {
        for (; ec_json_next_element(&iterator, &inner); count++)
            read_expected(inner);
        ASSERT_OFTEN(count == e->bytes);
    } else if (e->type == EC_JSON_OBJECT) {
        for (; ec_json_next_member(&iterator, &name, &inner); count++) {
            (void)snprintf(text, sizeof text, "%zu\t\xC3\xA4", count);
            ASSERT_OFTEN(ec_json_string_equals(name, text));
            read_expected(inner);
        }
        ASSERT_OFTEN(count == e->bytes);
    }
}

START_TEST(what_is_written_at_random_reads_back_equal)
{
    static char large[1 << 20];

    for (int round = 0; round < 300; round++) {
        struct ec_json_fault fault;

        ec_json_writer_init(&w, large, sizeof large);
        expected = place = 0;
        write_random(0);
        ck_assert_int_eq(ec_json_writer_status(&w), EC_OK);
        ck_assert_msg(ec_json_check(w.base, w.bytes, NULL, &fault) == EC_OK, "%s at %zu: %.*s",
                      fault.reason, fault.offset, (int)w.bytes, w.base);
        read_expected(ec_json_root(w.base, w.bytes));
        ck_assert_uint_eq(place, expected);
    }
}
END_TEST

START_TEST(random_bytes_as_strings_are_always_valid_json)
{
    for (int round = 0; round < 20000; round++) {
        char bytes[64];

        ec_json_writer_rewind(&w, 0);
        ec_json_string_n(&w, bytes, random_bytes(bytes, sizeof bytes));
        ASSERT_OFTEN(ec_json_writer_status(&w) == EC_OK);
        ASSERT_OFTEN(ec_json_check(w.base, w.bytes, NULL, NULL) == EC_OK);
    }
}
END_TEST

/* Compile a locale of nothing but a decimal comma, as few systems have one ready, and enter it.
 * localedef warns of all that is not in it, and says so with its exit status. */
static bool enter_decimal_comma(const char *directory)
{
    char command[256];

    (void)snprintf(command, sizeof command,
                   "cd %s && printf 'LC_NUMERIC\\ndecimal_point \"<U002C>\"\\n"
                   "thousands_sep \"\"\\ngrouping -1\\nEND LC_NUMERIC\\n' >source && "
                   "localedef -c -i source -f ANSI_X3.4-1968 ./comma >messages 2>&1",
                   directory);
    return system(command) != -1 && setenv("LOCPATH", directory, 1) == 0 &&
           setlocale(LC_NUMERIC, "comma") != NULL && localeconv()->decimal_point[0] == ',';
}

static void remove_directory(const char *directory)
{
    char command[256];

    (void)snprintf(command, sizeof command, "rm -rf %s", directory);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(a_locale_with_decimal_comma_changes_nothing)
{
    char directory[] = "/tmp/test-json-locale-XXXXXX", text[16];
    bool entered;
    double value;

    ck_assert_ptr_nonnull(mkdtemp(directory));
    entered = enter_decimal_comma(directory);
    remove_directory(directory);
    if (!entered) {
        (void)fprintf(stderr, "skipped: localedef is not installed\n");
        return;
    }
    (void)snprintf(text, sizeof text, "%.1f", 0.5);
    ck_assert_str_eq(text, "0,5"); /* the locale is in force */
    ec_json_array_begin(&w);
    ec_json_real(&w, 0.5);
    ec_json_real(&w, 1.25e100);
    ec_json_real(&w, 4.9406564584124654e-324);
    ec_json_real(&w, 1234567.25);
    ec_json_array_end(&w);
    assert_text("[0.5,1.25e100,5e-324,1234567.25]");
    ck_assert_int_eq(ec_json_get_double((struct ec_json_span) { "2.5", 3 }, &value), EC_OK);
    ck_assert(value == 2.5);
    ck_assert_int_eq(
        ec_json_get_double((struct ec_json_span) { "1.7976931348623157e308", 22 }, &value), EC_OK);
    ck_assert(value == 1.7976931348623157e308);
    ck_assert_int_eq(ec_json_check("1.7976931348623159e308", 22, NULL, NULL), EC_ERR_PARSE);
    ck_assert_int_eq(ec_json_check("1,5", 3, NULL, NULL), EC_ERR_PARSE);
    (void)setlocale(LC_NUMERIC, "C");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json_writer");
    TCase *tcase = tcase_create("json_writer");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, commas_and_colons_come_by_themselves);
    tcase_add_test(tcase, integers_are_exact_to_64_bits);
    tcase_add_test(tcase, ids_are_hexadecimal_strings_without_padding);
    tcase_add_test(tcase, numbers_that_json_cannot_say_become_null);
    tcase_add_test(tcase, strings_are_escaped);
    tcase_add_loop_test(tcase, broken_utf8_becomes_the_replacement_character, 0,
                        (int)COUNT(broken));
    tcase_add_test(tcase, keys_of_any_bytes_are_escaped);
    tcase_add_test(tcase, a_raw_value_stays_as_it_is_but_on_one_line);
    tcase_add_test(tcase, texts_follow_each_other_in_one_buffer);
    tcase_add_test(tcase, a_half_written_text_can_be_taken_back);
    tcase_add_test(tcase, a_fixed_buffer_is_never_overrun);
    tcase_add_test(tcase, a_growing_buffer_holds_as_much_as_is_allowed);
    tcase_add_test(tcase, more_than_is_allowed_is_an_error_that_stays);
    tcase_add_test(tcase, without_memory_the_error_stays_and_the_text_too);
    tcase_add_test(tcase, nesting_is_limited);
#ifndef NDEBUG
    tcase_add_loop_test_raise_signal(tcase, wrong_use_is_asserted, SIGABRT, 0, 8);
#endif
    tcase_add_test(tcase, what_is_written_at_random_reads_back_equal);
    tcase_add_test(tcase, random_bytes_as_strings_are_always_valid_json);
    tcase_add_test(tcase, a_locale_with_decimal_comma_changes_nothing);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
