/* A listening socket in a loop that the test turns by hand. */
#include "control/listener.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define DESCRIPTORS 64

static uv_loop_t loop;
static struct listener listener;
static struct ec_error why;
static char directory[] = "/tmp/listener-XXXXXX";
static char path[64], lock_path[72];
static unsigned accepted_count;
static struct rlimit limit_before;

static void on_accepted(void *context, int socket_fd)
{
    (void)context;
    accepted_count++;
    close(socket_fd);
}

static void set_up(void)
{
    strcpy(directory + strlen(directory) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/socket", directory);
    snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    accepted_count = 0;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit_before), 0);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_msg(listener_init(&listener, path, -1, &why) == EC_OK, "%s", why.text);
    ck_assert_msg(listener_start(&listener, &loop, on_accepted, NULL, &why) == EC_OK, "%s",
                  why.text);
}

static void tear_down(void)
{
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit_before), 0);
    listener_finish(&listener);
    while (listener.closing > 0)
        uv_run(&loop, UV_RUN_NOWAIT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    unlink(lock_path);
    ck_assert_int_eq(rmdir(directory), 0);
}

static int connect_one(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    memcpy(address.sun_path, path, strlen(path) + 1);
    ck_assert_int_eq(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Leave the process no descriptor. Returns one that may be given back. */
static int take_all_descriptors(void)
{
    struct rlimit few = { DESCRIPTORS, limit_before.rlim_max };
    int fd, last = -1;

    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        last = fd;
    ck_assert_int_eq(errno, EMFILE);
    ck_assert_int_ge(last, 0);
    return last;
}

static bool has_hung_up(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

START_TEST(who_comes_when_no_descriptor_is_left_is_hung_up_on)
{
    const int client = connect_one(), other = connect_one();

    take_all_descriptors();
    uv_run(&loop, UV_RUN_NOWAIT);
    ck_assert_uint_eq(accepted_count, 0);
    ck_assert(has_hung_up(client));
    ck_assert(has_hung_up(other));
    ck_assert_int_ge(listener.spare_fd, 0);
    ck_assert(uv_is_active((uv_handle_t *)&listener.poll));
}
END_TEST

/* A thread that opens a file may take the place of the spare descriptor. */
START_TEST(without_even_a_spare_descriptor_the_loop_sleeps_and_tries_again)
{
    const int client = connect_one();
    int given_back;

    close(listener.spare_fd);
    listener.spare_fd = -1;
    given_back = take_all_descriptors();
    uv_run(&loop, UV_RUN_NOWAIT);
    ck_assert(!uv_is_active((uv_handle_t *)&listener.poll));
    ck_assert(!has_hung_up(client));
    close(given_back);
    while (accepted_count == 0 && !has_hung_up(client))
        ck_assert_int_ne(uv_run(&loop, UV_RUN_ONCE), 0);
    ck_assert(uv_is_active((uv_handle_t *)&listener.poll));
    ck_assert_int_ge(listener.spare_fd, 0); /* the next one needs it again */
}
END_TEST

START_TEST(a_lock_that_is_another_daemon_s_is_left_alone)
{
    struct stat st;
    int other;

    ck_assert_int_eq(unlink(lock_path), 0);
    other = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(other, 0);
    listener_finish(&listener);
    ck_assert_int_eq(stat(lock_path, &st), 0);
    ck_assert_int_eq(stat(path, &st), -1);
    close(other);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("listener");
    TCase *tcase = tcase_create("listener");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, who_comes_when_no_descriptor_is_left_is_hung_up_on);
    tcase_add_test(tcase, without_even_a_spare_descriptor_the_loop_sleeps_and_tries_again);
    tcase_add_test(tcase, a_lock_that_is_another_daemon_s_is_left_alone);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
