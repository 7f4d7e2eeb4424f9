/* A ring of samples: the newest come first, the oldest go. */
#include "breaker/samples.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct samples *samples;
static char text[4096];

static void set_up(void)
{
    samples = samples_create();
    ck_assert_ptr_nonnull(samples);
}

static void tear_down(void)
{
    samples_destroy(samples);
}

static void add(int64_t at_ns, uint32_t client_id)
{
    samples_add(samples, &(struct sample) {
                             .at_ns = at_ns,
                             .client_id = client_id,
                             .level = 1,
                             .resident_bytes = (uint64_t)at_ns * 4096,
                         });
}

/* How many there are, and the time of the first one. */
static unsigned written(const struct samples_query *query, long long *first_ns)
{
    struct ec_json_writer writer;
    unsigned count = 0;

    ec_json_writer_init(&writer, text, sizeof text);
    ec_json_array_begin(&writer);
    samples_write(samples, query, &writer);
    ec_json_array_end(&writer);
    ck_assert_uint_lt(writer.bytes, sizeof text);
    text[writer.bytes] = '\0';
    *first_ns = -1;
    for (const char *at = text; (at = strstr(at, "\"at_ns\":")) != NULL; at++)
        if (count++ == 0)
            ck_assert_int_eq(sscanf(at, "\"at_ns\":%lld", first_ns), 1);
    return count;
}

START_TEST(without_samples_nothing_is_written)
{
    long long first_ns;

    ck_assert_uint_eq(written(&(struct samples_query) { .limit = 10 }, &first_ns), 0);
    ck_assert_str_eq(text, "[]");
}
END_TEST

START_TEST(the_newest_come_first_of_one_client_or_of_all)
{
    long long first_ns;

    for (int64_t at_ns = 1; at_ns <= 10; at_ns++)
        add(at_ns, at_ns % 2 == 0 ? 7 : 8);
    ck_assert_uint_eq(written(&(struct samples_query) { .limit = 100 }, &first_ns), 10);
    ck_assert_int_eq(first_ns, 10);
    ck_assert_uint_eq(written(&(struct samples_query) { .limit = 3 }, &first_ns), 3);
    ck_assert_uint_eq(written(&(struct samples_query) { .client_id = 8, .limit = 100 }, &first_ns),
                      5);
    ck_assert_int_eq(first_ns, 9);
    ck_assert_uint_eq(written(&(struct samples_query) { .since_ns = 6, .limit = 100 }, &first_ns),
                      5);
    ck_assert_uint_eq(written(&(struct samples_query) { .client_id = 9, .limit = 100 }, &first_ns),
                      0);
}
END_TEST

START_TEST(the_oldest_go)
{
    long long first_ns;

    for (int64_t at_ns = 1; at_ns <= SAMPLES_MAX + 5; at_ns++)
        add(at_ns, at_ns <= 5 ? 1 : 2);
    ck_assert_uint_eq(written(&(struct samples_query) { .client_id = 1, .limit = 10 }, &first_ns),
                      0);
    ck_assert_uint_eq(written(&(struct samples_query) { .client_id = 2, .limit = 10 }, &first_ns),
                      10);
    ck_assert_int_eq(first_ns, SAMPLES_MAX + 5);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("samples");
    TCase *tcase = tcase_create("samples");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, without_samples_nothing_is_written);
    tcase_add_test(tcase, the_newest_come_first_of_one_client_or_of_all);
    tcase_add_test(tcase, the_oldest_go);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
