/* A log file that is turned over, and one whose disk is full for a while. */
#include "daemon/log_file.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[40], path[64];
static struct log_file file;

static void set_up(void)
{
    strcpy(directory, "/tmp/log-file-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/log", directory);
}

static void tear_down(void)
{
    char older[80];

    log_file_finish(&file);
    unlink(path);
    for (int i = 1; i < 5; i++) {
        snprintf(older, sizeof older, "%s.%d", path, i);
        unlink(older);
    }
    rmdir(directory);
}

static char *text_of(const char *at)
{
    static char text[65536];
    FILE *in = fopen(at, "re");
    size_t bytes = in != NULL ? fread(text, 1, sizeof text - 1, in) : 0;

    text[bytes] = '\0';
    if (in != NULL)
        fclose(in);
    return text;
}

static void write_line(const char *line)
{
    ck_assert_int_eq(log_file_write(&file, line, strlen(line)), 0);
}

START_TEST(a_full_file_makes_room_for_a_new_one_and_the_oldest_goes)
{
    char older[80];

    log_file_init(&file, path, 10, 2);
    write_line("first...\n");
    write_line("second..\n");
    write_line("third...\n");
    write_line("fourth..\n");
    ck_assert_str_eq(text_of(path), "fourth..\n");
    snprintf(older, sizeof older, "%s.1", path);
    ck_assert_str_eq(text_of(older), "third...\n");
    snprintf(older, sizeof older, "%s.2", path);
    ck_assert_str_eq(text_of(older), "second..\n");
    snprintf(older, sizeof older, "%s.3", path);
    ck_assert_int_lt(access(older, F_OK), 0);
}
END_TEST

START_TEST(without_older_files_it_begins_anew)
{
    log_file_init(&file, path, 10, 0);
    write_line("first...\n");
    write_line("second..\n");
    ck_assert_str_eq(text_of(path), "second..\n");
}
END_TEST

START_TEST(a_file_of_an_earlier_run_is_written_on)
{
    log_file_init(&file, path, 100, 2);
    write_line("first\n");
    log_file_finish(&file);
    log_file_init(&file, path, 100, 2);
    write_line("second\n");
    ck_assert_str_eq(text_of(path), "first\nsecond\n");
}
END_TEST

/* The limit of a file's size does to a write what a full disk does: it is short, then it fails. */
START_TEST(after_a_full_disk_it_says_how_many_lines_are_missing)
{
    struct rlimit limit = { 20, RLIM_INFINITY };

    signal(SIGXFSZ, SIG_IGN);
    log_file_init(&file, path, 1000, 2);
    write_line("before it is full\n");
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(log_file_write(&file, "torn\n", 5), EFBIG);
    ck_assert_int_eq(log_file_write(&file, "lost\n", 5), EFBIG);
    limit.rlim_cur = RLIM_INFINITY;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    write_line("after\n");
    ck_assert_str_eq(text_of(path),
                     "before it is full\nto\n[log][warning] 2 lines are missing here: "
                     "they could not be written\nafter\n");
    ck_assert_uint_eq(file.lost, 0);
}
END_TEST

START_TEST(a_directory_that_comes_later_is_found)
{
    char inside[80];

    snprintf(inside, sizeof inside, "%s/later/log", directory);
    log_file_init(&file, inside, 1000, 2);
    ck_assert_int_eq(log_file_write(&file, "lost\n", 5), ENOENT);
    snprintf(inside, sizeof inside, "%s/later", directory);
    ck_assert_int_eq(mkdir(inside, 0700), 0);
    write_line("kept\n");
    ck_assert_ptr_nonnull(strstr(text_of(file.path), "1 lines are missing"));
    unlink(file.path);
    rmdir(inside);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log_file");
    TCase *tcase = tcase_create("log_file");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_full_file_makes_room_for_a_new_one_and_the_oldest_goes);
    tcase_add_test(tcase, without_older_files_it_begins_anew);
    tcase_add_test(tcase, a_file_of_an_earlier_run_is_written_on);
    tcase_add_test(tcase, after_a_full_disk_it_says_how_many_lines_are_missing);
    tcase_add_test(tcase, a_directory_that_comes_later_is_found);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
