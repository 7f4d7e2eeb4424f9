/* What journald would get: its socket is one of the test's own here. */
#include "daemon/log_journal.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char directory[40], path[64];
static int journal_fd;
static const struct log_line line = { .level = LOG_LEVEL_WARNING, .module = "events" };

static void set_up(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    strcpy(directory, "/tmp/log-journal-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/socket", directory);
    strcpy(address.sun_path, path);
    journal_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_eq(bind(journal_fd, (const struct sockaddr *)&address, sizeof address), 0);
}

static void tear_down(void)
{
    close(journal_fd);
    unlink(path);
    rmdir(directory);
}

START_TEST(a_line_comes_with_its_fields)
{
    struct log_journal journal;
    char datagram[1024];
    ssize_t bytes;

    log_journal_init(&journal, path);
    ck_assert_int_eq(log_journal_write(&journal, &line, "type shot registered"), 0);
    bytes = recv(journal_fd, datagram, sizeof datagram - 1, 0);
    ck_assert_int_gt(bytes, 0);
    datagram[bytes] = '\0';
    ck_assert_str_eq(datagram,
                     "MESSAGE=type shot registered\nPRIORITY=4\n"
                     "SYSLOG_IDENTIFIER=engine-cored\nEC_MODULE=events\nEC_LEVEL=warning\n");
    log_journal_finish(&journal);
}
END_TEST

START_TEST(a_journal_that_is_not_there_or_does_not_read_blocks_nobody)
{
    struct log_journal journal;
    int rc = 0;

    log_journal_init(&journal, path);
    for (int i = 0; i < 100000 && rc == 0; i++)
        rc = log_journal_write(&journal, &line, "again");
    ck_assert_int_eq(rc, EAGAIN);
    unlink(path);
    ck_assert_int_eq(log_journal_write(&journal, &line, "gone"), ENOENT);
    log_journal_finish(&journal);
}
END_TEST

START_TEST(stderr_is_the_journal_when_systemd_says_so)
{
    struct stat st;
    char stream[64];

    unsetenv("JOURNAL_STREAM");
    ck_assert(!log_journal_is_stderr());
    ck_assert_int_eq(fstat(STDERR_FILENO, &st), 0);
    snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
    ck_assert(log_journal_is_stderr());
    setenv("JOURNAL_STREAM", "1:1", 1);
    ck_assert(!log_journal_is_stderr());
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log_journal");
    TCase *tcase = tcase_create("log_journal");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_line_comes_with_its_fields);
    tcase_add_test(tcase, a_journal_that_is_not_there_or_does_not_read_blocks_nobody);
    tcase_add_test(tcase, stderr_is_the_journal_when_systemd_says_so);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
