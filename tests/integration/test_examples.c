/* The shortest programs: what one publishes, the other one prints. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/daemon.h"

#define LINES_MAX 40

static struct daemon_process engine;

static void set_up(void)
{
    ck_assert_msg(daemon_start(&engine, NULL), "%s", engine.why);
    ck_assert_int_eq(setenv("ENGINE_CORE_SOCKET", engine.socket_path, 1), 0);
}

static pid_t start(const char *name, int out_fd)
{
    char path[4096];
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(path, sizeof path, "%s/%s", getenv("EC_BIN_DIR"), name);
    if (out_fd >= 0)
        dup2(out_fd, STDOUT_FILENO);
    execl(path, name, NULL);
    _exit(127);
}

static int end_of(pid_t pid)
{
    int status;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

START_TEST(the_subscriber_prints_what_the_publisher_publishes)
{
    unsigned number = 0, next = 0;
    char line[256];
    pid_t subscriber, publisher;
    FILE *from;
    int out[2];

    ck_assert_int_eq(pipe(out), 0);
    from = fdopen(out[0], "r");
    subscriber = start("subscriber", out[1]);
    close(out[1]);
    publisher = start("publisher", -1);
    for (int i = 0; i < 20; i++) {
        ck_assert_ptr_nonnull(fgets(line, sizeof line, from));
        ck_assert_int_eq(sscanf(line, "shot %u at 1.5, -1.5\n", &number), 1);
        ck_assert(i == 0 || number == next);
        next = number + 1;
    }
    ck_assert_int_eq(daemon_stop(&engine), 0);
    ck_assert_int_eq(end_of(publisher), 0);
    while (fgets(line, sizeof line, from) != NULL) /* so that it is not held up by us */
        continue;
    ck_assert_int_eq(end_of(subscriber), 0);
    fclose(from);
}
END_TEST

START_TEST(without_a_daemon_an_example_says_so_and_fails)
{
    ck_assert_int_eq(daemon_stop(&engine), 0);
    ck_assert_int_eq(end_of(start("publisher", -1)), 1);
    ck_assert_int_eq(end_of(start("subscriber", -1)), 1);
}
END_TEST

static const char *const examples[] = { "publisher", "subscriber" };

START_TEST(an_example_fits_on_a_screen)
{
    char path[4096], line[256];
    int lines = 0;
    FILE *source;

    snprintf(path, sizeof path, "%s/client-lib/examples/%s.c", getenv("EC_SOURCE_DIR"),
             examples[_i]);
    source = fopen(path, "r");
    ck_assert_ptr_nonnull(source);
    while (fgets(line, sizeof line, source) != NULL)
        lines++;
    fclose(source);
    ck_assert_int_lt(lines, LINES_MAX);
    ck_assert_int_eq(daemon_stop(&engine), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("examples");
    TCase *tcase = tcase_create("examples");
    SRunner *runner;
    int failed;

    signal(SIGPIPE, SIG_IGN);
    tcase_add_checked_fixture(tcase, set_up, NULL);
    tcase_add_test(tcase, the_subscriber_prints_what_the_publisher_publishes);
    tcase_add_test(tcase, without_a_daemon_an_example_says_so_and_fails);
    tcase_add_loop_test(tcase, an_example_fits_on_a_screen, 0, 2);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
