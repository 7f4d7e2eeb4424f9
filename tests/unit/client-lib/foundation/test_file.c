/* Files: reading, lines, seeking, and the replacement that is seen whole or not at all. */
#include <engine-core/copy.h>
#include <engine-core/file.h>

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[] = "/tmp/engine-core-file-XXXXXX";
static char path[64];

static void set_up(void)
{
    strcpy(directory + sizeof directory - 7, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/file", directory);
}

static unsigned entries(void)
{
    DIR *listing = opendir(directory);
    unsigned count = 0;

    ck_assert_ptr_nonnull(listing);
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(listing);
    return count;
}

static void tear_down(void)
{
    unlink(path);
    ck_assert_uint_eq(entries(), 0);
    ck_assert_int_eq(rmdir(directory), 0);
}

static struct ec_file *open_file(unsigned mode)
{
    struct ec_error why = { 0 };
    struct ec_file *file = NULL;

    ck_assert_msg(ec_file_open(path, mode, &file, &why) == EC_OK, "%s", why.text);
    return file;
}

static void write_file(const void *bytes, size_t count)
{
    struct ec_file *file = open_file(EC_FILE_WRITE | EC_FILE_CREATE | EC_FILE_TRUNCATE);

    ck_assert_int_eq(ec_file_write(file, bytes, count, NULL), EC_OK);
    ck_assert_int_eq(ec_file_close(file, NULL), EC_OK);
}

static void expect_content(const char *text)
{
    struct ec_file *file = open_file(EC_FILE_READ);
    char bytes[256] = "";

    ck_assert_int_eq(ec_file_read(file, bytes, sizeof bytes, NULL), (int64_t)strlen(text));
    ck_assert_str_eq(bytes, text);
    ck_assert_int_eq(ec_file_read(file, bytes, sizeof bytes, NULL), 0);
    ck_assert_int_eq(ec_file_close(file, NULL), EC_OK);
}

START_TEST(what_is_written_is_read)
{
    struct ec_file *file;

    write_file("one two", 7);
    expect_content("one two");
    file = open_file(EC_FILE_WRITE | EC_FILE_APPEND);
    ck_assert_int_eq(ec_file_write(file, " three", 6, NULL), EC_OK);
    ck_assert_int_eq(ec_file_close(file, NULL), EC_OK);
    expect_content("one two three");
    file = open_file(EC_FILE_WRITE); /* neither truncates nor appends */
    ck_assert_int_eq(ec_file_write(file, "ONE", 3, NULL), EC_OK);
    ck_assert_int_eq(ec_file_close(file, NULL), EC_OK);
    expect_content("ONE two three");
}
END_TEST

START_TEST(small_writes_wait_in_the_buffer_for_each_other)
{
    struct ec_file *file = open_file(EC_FILE_WRITE | EC_FILE_CREATE);
    struct stat status;

    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(ec_file_write(file, &"0123456789"[i], 1, NULL), EC_OK);
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_size, 0);
    ck_assert_int_eq(ec_file_flush(file, NULL), EC_OK);
    expect_content("0123456789");
    ck_assert_int_eq(ec_file_close(file, NULL), EC_OK);
}
END_TEST

START_TEST(a_file_for_both_turns_without_a_word)
{
    struct ec_file *file = open_file(EC_FILE_READ | EC_FILE_WRITE | EC_FILE_CREATE);
    char bytes[8] = "";

    ck_assert_int_eq(ec_file_write(file, "abcdef", 6, NULL), EC_OK);
    ck_assert_int_eq(ec_file_tell(file), 6);
    ck_assert_int_eq(ec_file_seek(file, 1, EC_FILE_BEGIN, NULL), EC_OK);
    ck_assert_int_eq(ec_file_read(file, bytes, 2, NULL), 2);
    ck_assert_str_eq(bytes, "bc");
    ck_assert_int_eq(ec_file_write(file, "D", 1, NULL), EC_OK);
    ck_assert_int_eq(ec_file_seek(file, -1, EC_FILE_END, NULL), EC_OK);
    ck_assert_int_eq(ec_file_read(file, bytes, 8, NULL), 1);
    ck_assert_int_eq(ec_file_seek(file, -2, EC_FILE_HERE, NULL), EC_OK);
    ck_assert_int_eq(ec_file_tell(file), 4);
    ck_assert_int_eq(ec_file_seek(file, -5, EC_FILE_HERE, NULL), EC_ERR_PARAM);
    ck_assert_int_eq(ec_file_seek(file, 0, (enum ec_file_origin)3, NULL), EC_ERR_PARAM);
    ck_assert_int_eq(ec_file_tell(file), 4);
    ck_assert_int_eq(ec_file_flush(file, NULL), EC_OK);
    expect_content("abcDef");
    ck_assert_int_eq(ec_file_sync(file, NULL), EC_OK);
    ck_assert_int_eq(ec_file_close(file, NULL), EC_OK);
}
END_TEST

START_TEST(lines_come_without_their_ends_and_too_long_ones_are_passed_over)
{
    static const char text[] = "first\r\n\n12345678\nwith\0nul\n1234567\nlast";
    struct ec_file *file;
    struct ec_error why = { 0 };
    char line[8];

    write_file(text, sizeof text - 1);
    file = open_file(EC_FILE_READ);
    ck_assert_int_eq(ec_file_read_line(file, line, sizeof line, &why), EC_OK);
    ck_assert_str_eq(line, "first");
    ck_assert_int_eq(ec_file_read_line(file, line, sizeof line, &why), EC_OK);
    ck_assert_str_eq(line, "");
    ck_assert_int_eq(ec_file_read_line(file, line, sizeof line, &why), EC_ERR_SIZE);
    ck_assert_ptr_nonnull(strstr(why.text, "a line of 8 bytes, there is room for 7"));
    ck_assert_int_eq(ec_file_read_line(file, line, sizeof line, &why), EC_ERR_PARSE);
    ck_assert_int_eq(ec_file_read_line(file, line, sizeof line, &why), EC_OK);
    ck_assert_str_eq(line, "1234567");
    ck_assert_int_eq(ec_file_read_line(file, line, sizeof line, &why), EC_OK);
    ck_assert_str_eq(line, "last");
    ck_assert_int_eq(ec_file_read_line(file, line, sizeof line, &why), EC_AGAIN);
    ck_assert_int_eq(ec_file_read_line(file, line, sizeof line, &why), EC_AGAIN);
    ck_assert_int_eq(ec_file_close(file, NULL), EC_OK);
}
END_TEST

START_TEST(what_is_appended_behind_the_end_is_read_by_who_was_there)
{
    struct ec_file *reader, *writer;
    char line[8];

    write_file("one\n", 4);
    reader = open_file(EC_FILE_READ);
    ck_assert_int_eq(ec_file_read_line(reader, line, sizeof line, NULL), EC_OK);
    ck_assert_int_eq(ec_file_read_line(reader, line, sizeof line, NULL), EC_AGAIN);
    writer = open_file(EC_FILE_WRITE | EC_FILE_APPEND);
    ck_assert_int_eq(ec_file_write(writer, "two\n", 4, NULL), EC_OK);
    ck_assert_int_eq(ec_file_close(writer, NULL), EC_OK);
    ck_assert_int_eq(ec_file_read_line(reader, line, sizeof line, NULL), EC_OK);
    ck_assert_str_eq(line, "two");
    ck_assert_int_eq(ec_file_close(reader, NULL), EC_OK);
}
END_TEST

START_TEST(what_cannot_be_opened_says_why)
{
    struct ec_file *file = NULL;
    struct ec_error why = { 0 };
    char missing[96];

    ck_assert_int_eq(ec_file_open(path, EC_FILE_READ, &file, &why), EC_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(why.text, path));
    ck_assert_int_eq(ec_file_open(directory, EC_FILE_READ, &file, &why), EC_ERR_STATE);
    ck_assert_int_eq(ec_file_open(path, 0, &file, &why), EC_ERR_PARAM);
    ck_assert_int_eq(ec_file_open(path, EC_FILE_READ | EC_FILE_TRUNCATE, &file, &why),
                     EC_ERR_PARAM);
    ck_assert_int_eq(ec_file_open(path, EC_FILE_WRITE | EC_FILE_EXCLUSIVE, &file, &why),
                     EC_ERR_PARAM);
    ck_assert_int_eq(ec_file_open(path, 1u << 20 | EC_FILE_READ, &file, &why), EC_ERR_PARAM);
    write_file("x", 1);
    ck_assert_int_eq(
        ec_file_open(path, EC_FILE_WRITE | EC_FILE_CREATE | EC_FILE_EXCLUSIVE, &file, &why),
        EC_ERR_STATE);
    snprintf(missing, sizeof missing, "%s/no", path); /* below a file */
    ck_assert_int_eq(ec_file_open(missing, EC_FILE_READ, &file, &why), EC_ERR_NOT_FOUND);
    ck_assert_ptr_null(file);
    expect_content("x");
}
END_TEST

START_TEST(a_full_disk_is_an_error_of_the_flush_or_the_close)
{
    struct ec_error why = { 0 };
    struct ec_file *file = NULL;
    int rc;

    ck_assert_int_eq(ec_file_open("/dev/full", EC_FILE_WRITE, &file, &why), EC_OK);
    rc = ec_file_write(file, "some bytes", 10, &why); /* into the buffer */
    ck_assert_int_eq(rc, EC_OK);
    if (_i == 0) {
        ck_assert_int_eq(ec_file_flush(file, &why), EC_ERR_SYSTEM);
        ck_assert_int_eq(ec_file_close(file, NULL), EC_OK); /* it has been told */
    } else {
        ck_assert_int_eq(ec_file_close(file, &why), EC_ERR_SYSTEM);
    }
    ck_assert_ptr_nonnull(strstr(why.text, "/dev/full"));
    ck_assert_ptr_nonnull(strstr(why.text, strerror(ENOSPC)));
}
END_TEST

START_TEST(a_replacement_has_content_and_permissions_and_leaves_nothing)
{
    struct ec_error why = { 0 };
    struct stat status;

    write_file("old", 3);
    ck_assert_int_eq(ec_file_replace(path, "new content", 11, 0640, &why), EC_OK);
    expect_content("new content");
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0640);
    ck_assert_uint_eq(entries(), 1);
    ck_assert_int_eq(ec_file_replace(path, NULL, 0, 0600, &why), EC_OK);
    expect_content("");
}
END_TEST

START_TEST(a_replacement_that_fails_leaves_the_old_file)
{
    struct ec_error why = { 0 };
    char below[96];
    char *big = calloc(1, 100000);
    struct rlimit limit = { 50000, 50000 };
    pid_t child;
    int status;

    ck_assert_ptr_nonnull(big);
    write_file("old", 3);
    snprintf(below, sizeof below, "%s/no/file", directory);
    ck_assert_int_eq(ec_file_replace(below, "x", 1, 0600, &why), EC_ERR_NOT_FOUND);
    ck_assert_int_eq(ec_file_replace("", "x", 1, 0600, &why), EC_ERR_PARAM);
    ck_assert_int_eq(ec_file_replace("/tmp/", "x", 1, 0600, &why), EC_ERR_PARAM);
    child = fork(); /* for a limit of its own: the file may not become so big */
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        _exit(ec_file_replace(path, big, 100000, 0600, NULL) == EC_ERR_SYSTEM ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    expect_content("old");
    ck_assert_uint_eq(entries(), 1);
    free(big);
}
END_TEST

/* A reader that opens the file again and again while it is replaced sees one content or the other. */
START_TEST(a_reader_never_sees_half_of_a_replacement)
{
    char old[4096], new[4096], seen[8192];
    pid_t writer;
    int status = 0;

    memset(old, 'o', sizeof old);
    memset(new, 'n', sizeof new);
    ck_assert_int_eq(ec_file_replace(path, old, sizeof old, 0600, NULL), EC_OK);
    writer = fork();
    if (writer == 0) {
        for (int i = 0; i < 50; i++)
            if (ec_file_replace(path, i % 2 ? old : new, sizeof old, 0600, NULL) != EC_OK)
                _exit(1);
        _exit(0);
    }
    while (waitpid(writer, &status, WNOHANG) == 0) {
        struct ec_file *file = open_file(EC_FILE_READ);

        ck_assert_int_eq(ec_file_read(file, seen, sizeof seen, NULL), sizeof old);
        ck_assert(memcmp(seen, old, sizeof old) == 0 || memcmp(seen, new, sizeof new) == 0);
        ck_assert_int_eq(ec_file_close(file, NULL), EC_OK);
    }
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(a_copy_knows_how_much_room_there_is)
{
    char to[8] = "1234567";

    ck_assert_int_eq(ec_copy(to, sizeof to, "abcdefghi", 9), EC_ERR_SIZE);
    ck_assert_str_eq(to, "1234567");
    ck_assert_int_eq(ec_copy(to, sizeof to, "abc", 3), EC_OK);
    ck_assert_str_eq(to, "abc4567");
    ck_assert_int_eq(ec_copy(to, sizeof to, to + 2, 3), EC_ERR_PARAM);
    ck_assert_int_eq(ec_copy(to + 2, 6, to, 3), EC_ERR_PARAM);
    ck_assert_int_eq(ec_copy(to + 4, 4, to, 3), EC_OK);
    ck_assert_str_eq(to, "abc4abc");
    ck_assert_int_eq(ec_copy(to, 0, NULL, 0), EC_OK);
}
END_TEST

START_TEST(a_string_is_cut_at_a_whole_character)
{
    char to[4] = "";

    ck_assert_int_eq(ec_copy_string(to, sizeof to, "abc"), EC_OK);
    ck_assert_str_eq(to, "abc");
    ck_assert_int_eq(ec_copy_string(to, sizeof to, "abcd"), EC_ERR_SIZE);
    ck_assert_str_eq(to, "abc");
    ck_assert_int_eq(ec_copy_string(to, sizeof to, "ab\xc3\xa4"), EC_ERR_SIZE);
    ck_assert_str_eq(to, "ab");
    ck_assert_int_eq(ec_copy_string(to, sizeof to, "\xf0\x9f\x98\x80"), EC_ERR_SIZE);
    ck_assert_str_eq(to, "");
    ck_assert_int_eq(ec_copy_string(to, 0, "x"), EC_ERR_SIZE);
    ck_assert_int_eq(ec_copy_string(to, 1, ""), EC_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("file");
    TCase *tests = tcase_create("file");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, what_is_written_is_read);
    tcase_add_test(tests, small_writes_wait_in_the_buffer_for_each_other);
    tcase_add_test(tests, a_file_for_both_turns_without_a_word);
    tcase_add_test(tests, lines_come_without_their_ends_and_too_long_ones_are_passed_over);
    tcase_add_test(tests, what_is_appended_behind_the_end_is_read_by_who_was_there);
    tcase_add_test(tests, what_cannot_be_opened_says_why);
    tcase_add_loop_test(tests, a_full_disk_is_an_error_of_the_flush_or_the_close, 0, 2);
    tcase_add_test(tests, a_replacement_has_content_and_permissions_and_leaves_nothing);
    tcase_add_test(tests, a_replacement_that_fails_leaves_the_old_file);
    tcase_add_test(tests, a_reader_never_sees_half_of_a_replacement);
    tcase_add_test(tests, a_copy_knows_how_much_room_there_is);
    tcase_add_test(tests, a_string_is_cut_at_a_whole_character);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
