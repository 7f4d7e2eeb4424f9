/* What the service manager would get: its socket is one of the test's own here. */
#include "daemon/notify.h"

#include <check.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <engine-core/error.h>

static char directory[40], path[64];
static int manager_fd;

static void set_up(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    strcpy(directory, "/tmp/notify-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/socket", directory);
    strcpy(address.sun_path, path);
    manager_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_eq(bind(manager_fd, (const struct sockaddr *)&address, sizeof address), 0);
    setenv("NOTIFY_SOCKET", path, 1);
}

static void tear_down(void)
{
    close(manager_fd);
    unlink(path);
    rmdir(directory);
}

/* The next message, and the descriptor that came with it; -1: none. */
static int receive(char *text, size_t bytes)
{
    struct iovec data = { .iov_base = text, .iov_len = bytes - 1 };
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
    };
    const ssize_t got = recvmsg(manager_fd, &message, MSG_CMSG_CLOEXEC);
    int fd = -1;

    ck_assert_int_gt(got, 0);
    text[got] = '\0';
    if (CMSG_FIRSTHDR(&message) != NULL)
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

START_TEST(a_message_comes_as_it_was_written)
{
    struct notify notify = { .wait_ms = NOTIFY_WAIT_MS };
    char text[256];

    ck_assert_int_eq(notify_send(&notify, "READY=1\nSTATUS=Listening on %s", "x.sock"), EC_OK);
    ck_assert_int_eq(receive(text, sizeof text), -1);
    ck_assert_str_eq(text, "READY=1\nSTATUS=Listening on x.sock");
}
END_TEST

START_TEST(a_descriptor_comes_with_its_message)
{
    struct notify notify = { .wait_ms = NOTIFY_WAIT_MS };
    struct stat sent, received;
    char text[256];
    int fd;

    ck_assert_int_eq(fstat(manager_fd, &sent), 0);
    ck_assert_int_eq(notify_send_fd(&notify, manager_fd, "FDSTORE=1\nFDNAME=a"), EC_OK);
    fd = receive(text, sizeof text);
    ck_assert_str_eq(text, "FDSTORE=1\nFDNAME=a");
    ck_assert_int_eq(fstat(fd, &received), 0);
    ck_assert_uint_eq(received.st_ino, sent.st_ino);
    close(fd);
}
END_TEST

/* Fill the socket: the kernel holds net.unix.max_dgram_qlen messages for it. */
static unsigned send_until_lost(struct notify *notify)
{
    unsigned sent = 0;

    while (notify_send(notify, "WATCHDOG=1") == EC_OK)
        ck_assert_uint_lt(++sent, 1000000);
    return sent;
}

START_TEST(a_manager_that_does_not_read_is_waited_for_once)
{
    struct notify notify = { .wait_ms = 1 };
    char text[256];

    ck_assert_uint_gt(send_until_lost(&notify), 0);
    ck_assert(notify.is_deaf);
    notify.wait_ms = -1; /* who waits now waits for ever */
    for (unsigned i = 0; i < 20; i++)
        ck_assert_int_eq(notify_send(&notify, "WATCHDOG=1"), EC_ERR_TIMEOUT);
    ck_assert_int_eq(notify_barrier(&notify), EC_ERR_TIMEOUT);
    while (recv(manager_fd, text, sizeof text, 0) > 0)
        continue;
    ck_assert_int_eq(notify_send(&notify, "READY=1"), EC_OK);
    ck_assert(!notify.is_deaf);
    receive(text, sizeof text);
    ck_assert_str_eq(text, "READY=1");
}
END_TEST

START_TEST(a_barrier_lasts_until_its_descriptor_is_closed)
{
    struct notify notify = { .wait_ms = 1 };
    char text[256];
    int fd;

    ck_assert_int_eq(notify_barrier(&notify), EC_ERR_TIMEOUT); /* the manager still has it */
    fd = receive(text, sizeof text);
    ck_assert_str_eq(text, "BARRIER=1");
    ck_assert_int_ge(fd, 0);
    close(fd);
}
END_TEST

START_TEST(without_a_manager_nothing_is_sent_and_nothing_fails)
{
    struct notify notify = { .wait_ms = -1 };

    ck_assert_int_eq(notify_send(NULL, "READY=1"), EC_OK);
    unsetenv("NOTIFY_SOCKET");
    ck_assert_int_eq(notify_send(&notify, "READY=1"), EC_OK);
    ck_assert_int_eq(notify_barrier(&notify), EC_OK);
}
END_TEST

START_TEST(a_manager_that_is_not_there_is_an_error)
{
    struct notify notify = { .wait_ms = -1 };

    unlink(path);
    ck_assert_int_eq(notify_send(&notify, "READY=1"), EC_ERR_SYSTEM);
    setenv("NOTIFY_SOCKET", "vsock:2:1", 1);
    ck_assert_int_eq(notify_send(&notify, "READY=1"), EC_ERR_SYSTEM);
    ck_assert(!notify.is_deaf);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("notify");
    TCase *tests = tcase_create("notify");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_message_comes_as_it_was_written);
    tcase_add_test(tests, a_descriptor_comes_with_its_message);
    tcase_add_test(tests, a_manager_that_does_not_read_is_waited_for_once);
    tcase_add_test(tests, a_barrier_lasts_until_its_descriptor_is_closed);
    tcase_add_test(tests, without_a_manager_nothing_is_sent_and_nothing_fails);
    tcase_add_test(tests, a_manager_that_is_not_there_is_an_error);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
