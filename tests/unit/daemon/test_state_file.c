/* A state file is read as a whole or refused with a reason, and replaced as a whole or left as it was. */
#include "daemon/state_file.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[] = "/tmp/state-file-XXXXXX";
static char path[64], beside[64];
static struct ec_error why;

static void set_up(void)
{
    strcpy(directory + strlen(directory) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/state", directory);
    snprintf(beside, sizeof beside, "%s/state.new", directory);
    why = (struct ec_error) { 0 };
}

static void tear_down(void)
{
    unlink(path);
    rmdir(beside);
    ck_assert_int_eq(rmdir(directory), 0); /* nothing else was left */
}

static void assert_holds(const char *expected)
{
    size_t bytes;
    char *text = state_file_read(path, 16, &bytes, &why);

    ck_assert_ptr_nonnull(text);
    ck_assert_uint_eq(bytes, strlen(expected));
    ck_assert_str_eq(text, expected);
    free(text);
}

START_TEST(what_is_written_is_read)
{
    struct stat st;

    ck_assert_int_eq(state_file_replace(path, "first", 5), 0);
    assert_holds("first");
    ck_assert_int_eq(state_file_replace(path, "", 0), 0);
    assert_holds("");
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
}
END_TEST

START_TEST(one_that_is_not_there_is_no_error)
{
    size_t bytes;

    ck_assert_ptr_null(state_file_read(path, 16, &bytes, &why));
    ck_assert_str_eq(why.text, "");
}
END_TEST

START_TEST(what_is_no_such_file_is_refused)
{
    size_t bytes;

    ck_assert_int_eq(state_file_replace(path, "more than 16 bytes", 18), 0);
    ck_assert_ptr_null(state_file_read(path, 16, &bytes, &why));
    ck_assert_int_eq(why.code, EC_ERR_SIZE);
    ck_assert_ptr_null(state_file_read(directory, 16, &bytes, &why));
    ck_assert_int_eq(why.code, EC_ERR_SIZE);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(symlink("/dev/null", path), 0);
    ck_assert_ptr_null(state_file_read(path, 16, &bytes, &why));
    ck_assert_int_eq(why.code, EC_ERR_SYSTEM);
}
END_TEST

START_TEST(one_that_cannot_be_replaced_stays)
{
    char long_path[STATE_FILE_PATH_BYTES];

    ck_assert_int_eq(state_file_replace(path, "old", 3), 0);
    ck_assert_int_eq(mkdir(beside, 0700), 0);
    ck_assert_int_eq(state_file_replace(path, "new", 3), EISDIR);
    assert_holds("old");
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    ck_assert_int_eq(state_file_replace(long_path, "new", 3), ENAMETOOLONG);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("state file");
    TCase *tcase = tcase_create("state file");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, what_is_written_is_read);
    tcase_add_test(tcase, one_that_is_not_there_is_no_error);
    tcase_add_test(tcase, what_is_no_such_file_is_refused);
    tcase_add_test(tcase, one_that_cannot_be_replaced_stays);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
