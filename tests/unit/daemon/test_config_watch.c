/* A configuration file that changes under the daemon. */
#include "daemon/config_watch.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char directory[40], path[64], other[64];
static struct config *config;
static struct config_watch *watch;
static uv_loop_t loop;
static unsigned changes;

static void write_file(const char *at, const char *text)
{
    FILE *file = fopen(at, "we");

    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static void on_change(void *context)
{
    ck_assert_ptr_eq(context, &changes);
    changes++;
    uv_stop(&loop);
}

static void set_up(void)
{
    struct config_source source = { .file = path };
    struct ec_error why = { 0 };

    strcpy(directory, "/tmp/config-watch-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/f", directory);
    snprintf(other, sizeof other, "%s/g", directory);
    changes = 0;
    write_file(path, "{}");
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(config_create(&source, &config, &why), EC_OK);
    ck_assert_msg(config_watch_create(&loop, config, on_change, &changes, &watch, &why) == EC_OK,
                  "%s", why.text);
}

static void tear_down(void)
{
    config_watch_destroy(watch);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    config_destroy(config);
    unlink(path);
    unlink(other);
    rmdir(directory);
}

static void on_timer(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

/* Turn the loop until there was a change, or for as long. The watch itself keeps no loop alive. */
static void turn(uint64_t ms)
{
    uv_timer_t timer;

    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, on_timer, ms, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
}

#define AT_MOST_MS 60000
#define NOTHING_MS 200

START_TEST(a_file_that_is_written_is_noticed)
{
    write_file(path, "{\"control.batch\": 8}");
    turn(AT_MOST_MS);
    ck_assert_uint_eq(changes, 1);
}
END_TEST

START_TEST(a_file_that_is_replaced_by_a_rename_is_noticed_again_and_again)
{
    for (unsigned i = 1; i <= 3; i++) {
        write_file(other, "{}");
        ck_assert_int_eq(rename(other, path), 0);
        turn(AT_MOST_MS);
        ck_assert_uint_eq(changes, i);
    }
}
END_TEST

START_TEST(a_link_that_is_turned_to_another_file_is_noticed)
{
    char link_path[64];

    write_file(other, "{\"control.batch\": 9}");
    snprintf(link_path, sizeof link_path, "%s/l", directory);
    ck_assert_int_eq(symlink("g", link_path), 0);
    ck_assert_int_eq(rename(link_path, path), 0);
    turn(AT_MOST_MS);
    ck_assert_uint_eq(changes, 1);
}
END_TEST

START_TEST(a_file_that_goes_and_comes_back_is_noticed_twice)
{
    ck_assert_int_eq(unlink(path), 0);
    turn(AT_MOST_MS);
    ck_assert_uint_eq(changes, 1);
    write_file(path, "{}");
    turn(AT_MOST_MS);
    ck_assert_uint_eq(changes, 2);
}
END_TEST

START_TEST(files_beside_it_do_not_matter)
{
    write_file(other, "{}");
    ck_assert_int_eq(unlink(other), 0);
    turn(NOTHING_MS);
    ck_assert_uint_eq(changes, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config_watch");
    TCase *tcase = tcase_create("config_watch");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, a_file_that_is_written_is_noticed);
    tcase_add_test(tcase, a_file_that_is_replaced_by_a_rename_is_noticed_again_and_again);
    tcase_add_test(tcase, a_link_that_is_turned_to_another_file_is_noticed);
    tcase_add_test(tcase, a_file_that_goes_and_comes_back_is_noticed_twice);
    tcase_add_test(tcase, files_beside_it_do_not_matter);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
