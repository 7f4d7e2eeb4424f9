/* test_scheduler.c - the scheduler's thread on a page of the test's own. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "foundation/futex.h"
#include "foundation/real_time.h"
#include "proto/clock_page.h"
#include "scheduler/scheduler.h"
#include "segment/clock_page.h"

static struct ec_clock_page page;
static struct scheduler *scheduler;
static char text[4096];

static int create(int priority)
{
    return scheduler_create(&(struct scheduler_desc) { .page = &page, .priority = priority },
                            &scheduler, NULL);
}

static void set_up(void)
{
    memset(&page, 0, sizeof page);
    ck_assert_int_eq(create(10), EC_OK);
}

static void tear_down(void)
{
    scheduler_destroy(scheduler);
}

static void wait_for_change(uint32_t seen)
{
    while (ec_step_word_change(&page.step[0]) == seen)
        ck_assert_int_eq(ec_futex_wait(&page.step[0].change, seen, EC_FUTEX_FOREVER), EC_OK);
}

static const char *finish(struct ec_json_writer *writer)
{
    ck_assert_int_eq(ec_json_writer_status(writer), EC_OK);
    ck_assert_uint_lt(writer->bytes, sizeof text);
    text[writer->bytes] = '\0';
    return text;
}

START_TEST(the_page_can_be_read_before_time_goes)
{
    static const char *const names[] = { "physics", "network", "ai" };
    struct ec_clock_view view;

    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_int_eq(ec_clock_read_view(&page, i, &view), EC_OK);
        ck_assert_str_eq(view.step.name, names[i]);
    }
    ck_assert_uint_eq(view.game.scale_num, 1);
    ck_assert_uint_eq(view.game.scale_den, 1);
    ck_assert_uint_eq(atomic_load(&page.step[0].step), 0);
}
END_TEST

START_TEST(steps_come_by_themselves_each_after_it_is_due)
{
    struct ec_game_snapshot game;
    uint64_t before = 0;

    ck_assert_int_eq(scheduler_start(scheduler, NULL), EC_OK);
    for (int i = 0; i < 5; i++) {
        wait_for_change(ec_step_word_change(&page.step[0]));
        ck_assert_uint_gt(atomic_load(&page.step[0].step), before);
        before = atomic_load(&page.step[0].step);
        ck_assert_int_eq(ec_clock_read_game(&page, ec_real_ns(), &game), EC_OK);
        ck_assert_int_ge(ec_real_ns() - game.real0_ns, (int64_t)before * 16666666);
    }
    ck_assert_int_gt(atomic_load(&page.heartbeat_ns), 0);
}
END_TEST

/* Were they not told at once, each change would be a step, and 50 changes 50 steps. */
START_TEST(sleepers_are_told_of_a_new_breaker_level_between_two_steps)
{
    uint64_t begin;

    ck_assert_int_eq(scheduler_start(scheduler, NULL), EC_OK);
    begin = atomic_load(&page.step[0].step);
    for (uint32_t i = 1; i <= 50; i++) {
        uint32_t seen = ec_step_word_change(&page.step[0]);

        scheduler_breaker_changed(scheduler, false);
        wait_for_change(seen);
    }
    ck_assert_uint_lt(atomic_load(&page.step[0].step) - begin, 50);
}
END_TEST

START_TEST(a_scheduler_that_never_started_or_just_did_can_be_destroyed)
{
    scheduler_destroy(scheduler);
    scheduler_destroy(NULL);
    ck_assert_int_eq(create(0), EC_OK);
    ck_assert_int_eq(scheduler_start(scheduler, NULL), EC_OK);
    scheduler_destroy(scheduler);
    scheduler = NULL;
}
END_TEST

START_TEST(the_description_tells_what_was_granted_or_why_not)
{
    struct ec_json_writer writer;
    const char *json;

    ck_assert_int_eq(scheduler_start(scheduler, NULL), EC_OK);
    ec_json_writer_init(&writer, text, sizeof text);
    scheduler_describe(scheduler, &writer);
    json = finish(&writer);
    if (strstr(json, "\"class\":\"fifo\""))
        ck_assert_ptr_nonnull(strstr(json, "\"priority\":10"));
    else
        ck_assert_ptr_nonnull(strstr(json, "RLIMIT_RTPRIO"));
    if (strstr(json, "\"memory_locked\":false"))
        ck_assert_ptr_nonnull(strstr(json, "RLIMIT_MEMLOCK"));
}
END_TEST

START_TEST(priority_0_asks_for_nothing_and_is_refused_nothing)
{
    struct ec_json_writer writer;
    const char *json;

    scheduler_destroy(scheduler);
    ck_assert_int_eq(create(0), EC_OK);
    ck_assert_int_eq(scheduler_start(scheduler, NULL), EC_OK);
    ec_json_writer_init(&writer, text, sizeof text);
    scheduler_describe(scheduler, &writer);
    json = finish(&writer);
    ck_assert_ptr_nonnull(strstr(json, "\"class\":\"other\",\"priority\":0"));
    ck_assert_ptr_null(strstr(json, "SCHED_FIFO"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("scheduler");
    TCase *tests = tcase_create("thread");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, the_page_can_be_read_before_time_goes);
    tcase_add_test(tests, steps_come_by_themselves_each_after_it_is_due);
    tcase_add_test(tests, sleepers_are_told_of_a_new_breaker_level_between_two_steps);
    tcase_add_test(tests, a_scheduler_that_never_started_or_just_did_can_be_destroyed);
    tcase_add_test(tests, the_description_tells_what_was_granted_or_why_not);
    tcase_add_test(tests, priority_0_asks_for_nothing_and_is_refused_nothing);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
