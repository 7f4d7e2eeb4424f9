/* The demo of `make run`: it ends by itself or when told to, and leaves nothing behind. Needs the packages of
 * section [sample] of .ci/packages. */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct demo {
    pid_t pid;
    int out_fd;
    char out[65536]; /* stdout and stderr */
    size_t bytes;
};

static char directory[64]; /* where all of the demo's files must be */

static void set_up(void)
{
    strcpy(directory, "/tmp/engine-core-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
}

static void tear_down(void)
{
    rmdir(directory);
}

static void start(struct demo *demo, const char *seconds, const char *runtime_directory)
{
    char path[4096];
    int ends[2];

    *demo = (struct demo) { .pid = -1 };
    snprintf(path, sizeof path, "%s/client-lib/examples/run-demo", getenv("EC_SOURCE_DIR"));
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    demo->pid = fork();
    if (demo->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        setenv("TMPDIR", directory, 1);
        setenv("RUN_SECONDS", seconds, 1);
        if (runtime_directory != NULL)
            setenv("XDG_RUNTIME_DIR", runtime_directory, 1);
        else
            unsetenv("XDG_RUNTIME_DIR");
        execl(path, "run-demo", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    demo->out_fd = ends[0];
}

/* Read on until the text has come; NULL: until the end. false: it ended without. */
static bool read_until(struct demo *demo, const char *text)
{
    while (text == NULL || strstr(demo->out, text) == NULL) {
        ssize_t n = read(demo->out_fd, demo->out + demo->bytes, sizeof demo->out - demo->bytes - 1);

        if (n <= 0)
            return false;
        demo->bytes += (size_t)n;
        demo->out[demo->bytes] = '\0';
    }
    return true;
}

static int finish(struct demo *demo)
{
    int status;

    read_until(demo, NULL);
    close(demo->out_fd);
    ck_assert_int_eq(waitpid(demo->pid, &status, 0), demo->pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void expect_nothing_left(void)
{
    DIR *opened = opendir(directory);
    struct dirent *entry;

    ck_assert_ptr_nonnull(opened);
    while ((entry = readdir(opened)) != NULL)
        ck_assert_msg(entry->d_name[0] == '.', "%s/%s", directory, entry->d_name);
    closedir(opened);
}

START_TEST(it_ends_by_itself_and_has_shown_load_eviction_and_reload)
{
    static const char *const shown[] = {
        "sprites is ready",
        "textures is ready",
        "alpha: breaker level 2",
        "physics ",
        "breaker level 2 eviction",
        "beta: breaker level 2",
        "sample.moved",
        "alpha: breaker level 0 again",
    };
    static struct demo demo;

    start(&demo, "2", NULL);
    ck_assert_msg(finish(&demo) == 0, "%s", demo.out);
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++)
        ck_assert_msg(strstr(demo.out, shown[i]) != NULL, "\"%s\" is not in\n%s", shown[i],
                      demo.out);
    expect_nothing_left();
}
END_TEST

START_TEST(a_signal_ends_it_in_good_order)
{
    static struct demo demo;

    start(&demo, "", NULL);
    ck_assert_msg(read_until(&demo, "physics "), "%s", demo.out);
    kill(demo.pid, SIGTERM);
    ck_assert_msg(finish(&demo) == 0, "%s", demo.out);
    expect_nothing_left();
}
END_TEST

START_TEST(two_at_once_do_not_collide)
{
    static struct demo demos[2];
    char socket_line[128];

    snprintf(socket_line, sizeof socket_line, "listens on %s/engine-core.sock.", directory);
    for (int i = 0; i < 2; i++)
        start(&demos[i], "2", directory);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(finish(&demos[i]) == 0, "%s", demos[i].out);
    ck_assert_int_eq((strstr(demos[0].out, socket_line) != NULL) +
                         (strstr(demos[1].out, socket_line) != NULL),
                     1);
    expect_nothing_left();
}
END_TEST

START_TEST(a_length_that_is_none_is_refused)
{
    static struct demo demo;

    start(&demo, "soon", NULL);
    ck_assert_int_eq(finish(&demo), 1);
    ck_assert_ptr_nonnull(strstr(demo.out, "RUN_SECONDS is \"soon\""));
    expect_nothing_left();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("demo");
    TCase *tests = tcase_create("demo");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, it_ends_by_itself_and_has_shown_load_eviction_and_reload);
    tcase_add_test(tests, a_signal_ends_it_in_good_order);
    tcase_add_test(tests, two_at_once_do_not_collide);
    tcase_add_test(tests, a_length_that_is_none_is_refused);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
