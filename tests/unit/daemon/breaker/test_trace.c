/* A trace keeps what was read, not too close together, and shows it in the form of a rehearsal. */
#include "breaker/trace.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "support/often.h"

#define MS INT64_C(1000000)

static struct trace *trace;
static char text[1024];

static void set_up(void)
{
    trace = trace_create();
    ck_assert_ptr_nonnull(trace);
}

static void tear_down(void)
{
    trace_destroy(trace);
}

static void add(int64_t at_ms, uint64_t available_bytes, bool is_near)
{
    const struct level_reading reading = { .total_bytes = 1000,
                                           .available_bytes = available_bytes,
                                           .some_permille = 7 };

    trace_add(trace, at_ms * MS, &reading, is_near);
}

static const char *written(uint32_t limit)
{
    struct ec_json_writer writer;

    ec_json_writer_init(&writer, text, sizeof text - 1);
    ec_json_array_begin(&writer);
    trace_write(trace, limit, &writer);
    ec_json_array_end(&writer);
    text[writer.bytes] = '\0';
    return text;
}

START_TEST(readings_are_a_tenth_of_a_second_apart_and_closer_near_a_mark)
{
    add(5000, 900, false);
    add(5010, 890, false);
    add(5099, 880, false);
    add(5100, 870, false);
    add(5105, 160, true);
    add(5110, 150, true);
    ck_assert_str_eq(written(100), "[[0,1000,900,7,0],[100,1000,870,7,0],[110,1000,150,7,0]]");
    ck_assert_str_eq(written(1), "[[0,1000,150,7,0]]");
}
END_TEST

START_TEST(an_empty_one_is_empty)
{
    struct trace_reading reading;

    ck_assert_str_eq(written(100), "[]");
    ck_assert_uint_eq(trace_count(trace), 0);
    ck_assert(!trace_at(trace, 0, &reading));
}
END_TEST

START_TEST(the_oldest_go)
{
    struct trace_reading reading;

    for (int64_t i = 0; i < TRACE_MAX + 3; i++)
        add(i * 100, 900, false);
    ck_assert_uint_eq(trace_count(trace), TRACE_MAX);
    ck_assert(trace_at(trace, 0, &reading));
    ck_assert_int_eq(reading.at_ns, 300 * MS);
    for (uint32_t place = 1; place < TRACE_MAX; place++) {
        const int64_t before_ns = reading.at_ns;

        ASSERT_OFTEN(trace_at(trace, place, &reading) && reading.at_ns == before_ns + 100 * MS);
    }
    ck_assert(!trace_at(trace, TRACE_MAX, &reading));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace");
    TCase *tcase = tcase_create("trace");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, readings_are_a_tenth_of_a_second_apart_and_closer_near_a_mark);
    tcase_add_test(tcase, an_empty_one_is_empty);
    tcase_add_test(tcase, the_oldest_go);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
