/* Records on disk: written by a thread while the loop goes on, kept in memory while they cannot be, few and
 * the newest. */
#include "postmortem/records.h"

#include <check.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

static uv_loop_t loop;
static uv_timer_t other;
static char place[64], directory[96];
static struct records *records;
static struct ec_error why;

static void never(uv_timer_t *timer)
{
    (void)timer;
}

/* As in the daemon something else keeps the loop alive. */
static void begin(void)
{
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    uv_timer_init(&loop, &other);
    uv_timer_start(&other, never, 3600000, 0);
    ck_assert_int_eq(records_create(&loop, directory, &records, &why), EC_OK);
}

static void end(void)
{
    records_destroy(records);
    uv_close((uv_handle_t *)&other, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static void set_up(void)
{
    strcpy(place, "/tmp/engine-core-records-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(place));
    snprintf(directory, sizeof directory, "%s/records", place);
    begin();
}

static void tear_down(void)
{
    char command[96];

    end();
    snprintf(command, sizeof command, "rm -rf %s", place);
    ck_assert_int_eq(system(command), 0);
}

static uint32_t add(const char *text)
{
    return records_add(records, text, (uint32_t)strlen(text));
}

/* Let the thread's news arrive until the row is on disk. */
static void await_written(uint32_t index)
{
    while (records_at(records, index)->unwritten != NULL)
        uv_run(&loop, UV_RUN_ONCE);
}

static bool is_there(uint32_t id)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%08u.json", directory, id);
    return access(path, F_OK) == 0;
}

static void check_text(uint32_t id, const char *expected)
{
    char *text;

    ck_assert_int_eq(records_read(records, id, &text, &why), EC_OK);
    ck_assert_str_eq(text, expected);
    free(text);
}

START_TEST(a_record_can_be_read_at_once_and_is_on_disk_soon)
{
    ck_assert_uint_eq(add("{\"a\":1}"), 1);
    check_text(1, "{\"a\":1}");
    ck_assert_uint_eq(add("{\"b\":2}"), 2);
    await_written(0);
    await_written(1);
    ck_assert(is_there(1) && is_there(2));
    check_text(1, "{\"a\":1}");
    check_text(2, "{\"b\":2}");
    end();
    begin(); /* another daemon */
    ck_assert_uint_eq(records_next_id(records), 3);
    check_text(2, "{\"b\":2}");
}
END_TEST

START_TEST(what_cannot_be_written_stays_in_memory_and_is_tried_again)
{
    int fd = open(directory, O_WRONLY | O_CREAT | O_CLOEXEC, 0600); /* a file in its place */

    close(fd);
    for (unsigned i = 0; i < RECORDS_UNWRITTEN + 2; i++)
        ck_assert_uint_eq(add("{}"), i + 1);
    uv_run(&loop, UV_RUN_ONCE);
    ck_assert_ptr_null(records_at(records, RECORDS_UNWRITTEN)); /* no more than these */
    check_text(RECORDS_UNWRITTEN + 2, "{}");
    ck_assert_int_eq(unlink(directory), 0);
    /* The thread may be at one that failed still: the next record tries again. Each try ends with news. */
    while (records_at(records, 0)->unwritten != NULL) {
        add("{\"last\":true}");
        uv_run(&loop, UV_RUN_ONCE);
    }
    ck_assert(is_there(records_at(records, 0)->id));
}
END_TEST

START_TEST(only_the_newest_stay)
{
    records_set_limits(records, 2, 1000);
    for (unsigned i = 0; i < 5; i++)
        add("{\"x\":1}");
    ck_assert_uint_eq(records_at(records, 0)->id, 4);
    ck_assert_ptr_null(records_at(records, 2));
    await_written(0);
    await_written(1);
    uv_run(&loop, UV_RUN_NOWAIT);
    for (uint32_t id = 1; id <= 5; id++) /* also that which was being written when it had to go */
        ck_assert(is_there(id) == (id > 3));
    records_set_limits(records, 2, 10);
    ck_assert(!is_there(4) && is_there(5));
}
END_TEST

START_TEST(the_end_waits_until_all_is_written)
{
    add("{\"a\":1}");
    add("{\"b\":2}");
    add("{\"c\":3}");
    end();
    ck_assert(is_there(1) && is_there(2) && is_there(3));
    begin();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("records");
    TCase *tests = tcase_create("records");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_record_can_be_read_at_once_and_is_on_disk_soon);
    tcase_add_test(tests, what_cannot_be_written_stays_in_memory_and_is_tried_again);
    tcase_add_test(tests, only_the_newest_stay);
    tcase_add_test(tests, the_end_waits_until_all_is_written);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
