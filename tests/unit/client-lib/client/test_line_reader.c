/* Lines and descriptors come out as they were sent, however the stream was cut. */
#include "client/line_reader.h"

#include <check.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static int sockets[2]; /* the reader's, the sender's */
static struct ec_line_reader reader;
static struct ec_line line;
static struct ec_error why;

static void open_sockets(void)
{
    const int bytes = 4 * EC_LINE_BYTES;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    ck_assert_int_eq(setsockopt(sockets[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
    ec_line_reader_init(&reader, sockets[0]);
    why = (struct ec_error) { 0 };
}

static void close_sockets(void)
{
    ec_line_reader_finish(&reader);
    close(sockets[0]);
    close(sockets[1]);
}

static void send_bytes(const char *bytes, size_t count, const int *fds, unsigned fd_count)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * 200)];
    } control;
    struct iovec data = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = count };
    struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };

    if (fd_count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        control.align = (struct cmsghdr) { .cmsg_level = SOL_SOCKET,
                                           .cmsg_type = SCM_RIGHTS,
                                           .cmsg_len = CMSG_LEN(sizeof(int) * fd_count) };
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), fds, sizeof(int) * fd_count);
    }
    ck_assert_int_eq(sendmsg(sockets[1], &message, MSG_NOSIGNAL | MSG_DONTWAIT), (ssize_t)count);
}

static void send_text(const char *text)
{
    send_bytes(text, strlen(text), NULL, 0);
}

/* Send text with the reading end of a pipe; what the other side gets is known by its inode. */
static ino_t send_with_pipe(const char *text)
{
    struct stat status;
    int ends[2];

    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(fstat(ends[0], &status), 0);
    send_bytes(text, strlen(text), ends, 1);
    close(ends[0]);
    close(ends[1]);
    return status.st_ino;
}

static void expect_line(const char *text, unsigned fd_count)
{
    int rc = ec_line_reader_next(&reader, &line, &why);

    ck_assert_msg(rc == EC_OK, "%d: %s", rc, why.text);
    ck_assert_uint_eq(line.bytes, strlen(text));
    ck_assert_int_eq(memcmp(line.text, text, line.bytes), 0);
    ck_assert_uint_eq(line.fd_count, fd_count);
}

static void expect_inode(int fd, ino_t inode)
{
    struct stat status;

    ck_assert_int_eq(fstat(fd, &status), 0);
    ck_assert_uint_eq(status.st_ino, inode);
    ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;

    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

START_TEST(a_line_that_comes_byte_by_byte_is_whole)
{
    const char text[] = "{\"id\":1}\n";

    for (const char *byte = text; *byte != '\0'; byte++) {
        ck_assert_int_eq(ec_line_reader_next(&reader, &line, &why), EC_AGAIN);
        send_bytes(byte, 1, NULL, 0);
    }
    expect_line("{\"id\":1}", 0);
    ck_assert_int_eq(ec_line_reader_next(&reader, &line, &why), EC_AGAIN);
}
END_TEST

START_TEST(lines_that_come_together_are_taken_one_by_one)
{
    send_text("a\n\nbc\nd");
    expect_line("a", 0);
    expect_line("", 0);
    expect_line("bc", 0);
    ck_assert_int_eq(ec_line_reader_next(&reader, &line, &why), EC_AGAIN);
    send_text("\n");
    expect_line("d", 0);
}
END_TEST

/* What is sent before the line with the descriptor, with it, and after it. */
static const struct {
    const char *before[2], *with, *after;
} cuts[] = {
    { { NULL, NULL }, "with\n", NULL },
    { { "one\n", NULL }, "with\n", "two\n" },
    { { "one\n", "two\n" }, "with\n", "three\n" },
    { { "o", "ne\n" }, "wi", "th\n" },
    { { "one\ntwo\n", NULL }, "with\nthree\nfour\n", "five\n" },
    { { "o", "ne\n" }, "w", "ith\ntwo\n" },
    { { "one\n", NULL }, "with\ntw", "o\n" },
};

START_TEST(descriptors_belong_to_the_line_whose_first_byte_carried_them)
{
    bool seen = false;
    ino_t inode;
    int rc;

    for (unsigned i = 0; i < 2; i++)
        if (cuts[_i].before[i] != NULL)
            send_text(cuts[_i].before[i]);
    inode = send_with_pipe(cuts[_i].with);
    if (cuts[_i].after != NULL)
        send_text(cuts[_i].after);
    while ((rc = ec_line_reader_next(&reader, &line, &why)) == EC_OK) {
        bool with = line.bytes == 4 && memcmp(line.text, "with", 4) == 0;

        ck_assert_uint_eq(line.fd_count, with ? 1 : 0);
        if (with)
            expect_inode(line.fds[0], inode);
        seen |= with;
    }
    ck_assert_int_eq(rc, EC_AGAIN);
    ck_assert(seen);
}
END_TEST

START_TEST(two_lines_with_descriptors_each_get_their_own)
{
    ino_t first = send_with_pipe("first\n");
    ino_t second = send_with_pipe("second\n");

    expect_line("first", 1);
    expect_inode(line.fds[0], first);
    expect_line("second", 1);
    expect_inode(line.fds[0], second);
}
END_TEST

/* The first line does not fit the reader's first buffer, so its end is received together with the news
 * that further descriptors stand behind it. */
START_TEST(a_long_line_with_descriptors_may_be_followed_by_another_one)
{
    static char text[10001];
    ino_t first, second;

    memset(text, 'x', sizeof text - 2);
    text[sizeof text - 2] = '\n';
    first = send_with_pipe(text);
    second = send_with_pipe("second\n");
    text[sizeof text - 2] = '\0';
    expect_line(text, 1);
    expect_inode(line.fds[0], first);
    expect_line("second", 1);
    expect_inode(line.fds[0], second);
}
END_TEST

START_TEST(descriptors_that_nobody_took_are_closed)
{
    const unsigned before = open_descriptors();
    int taken;

    send_with_pipe("first\n");
    send_with_pipe("second\n");
    send_with_pipe("third\n");
    expect_line("first", 1);
    expect_line("second", 1);
    ck_assert_uint_eq(open_descriptors(), before + 1);
    taken = line.fds[0];
    line.fds[0] = -1;
    expect_line("third", 1);
    ck_assert_uint_eq(open_descriptors(), before + 2);
    ec_line_reader_finish(&reader);
    ck_assert_uint_eq(open_descriptors(), before + 1);
    close(taken);
}
END_TEST

START_TEST(descriptors_inside_a_line_are_refused)
{
    send_text("beg");
    ck_assert_int_eq(ec_line_reader_next(&reader, &line, &why), EC_AGAIN);
    send_with_pipe("in\n");
    ck_assert_int_eq(ec_line_reader_next(&reader, &line, &why), EC_ERR_REQUEST);
    ck_assert_str_eq(why.text, "descriptors came inside a line");
}
END_TEST

START_TEST(more_descriptors_than_a_line_may_carry_are_closed_and_an_error)
{
    const unsigned before = open_descriptors();
    int fds[EC_LINE_FDS + 1];

    for (unsigned i = 0; i < EC_LINE_FDS + 1; i++)
        fds[i] = STDERR_FILENO;
    send_bytes("many\n", 5, fds, EC_LINE_FDS + 1);
    ck_assert_int_eq(ec_line_reader_next(&reader, &line, &why), EC_ERR_LIMIT);
    ck_assert_uint_eq(open_descriptors(), before);
}
END_TEST

START_TEST(as_many_descriptors_as_a_line_may_carry_arrive)
{
    int fds[EC_LINE_FDS];

    for (unsigned i = 0; i < EC_LINE_FDS; i++)
        fds[i] = STDERR_FILENO;
    send_bytes("many\n", 5, fds, EC_LINE_FDS);
    expect_line("many", EC_LINE_FDS);
}
END_TEST

START_TEST(the_longest_line_arrives_and_a_longer_one_is_refused)
{
    char *text = malloc(EC_LINE_BYTES + 1);

    memset(text, 'x', EC_LINE_BYTES);
    text[EC_LINE_BYTES - 1] = '\n';
    text[EC_LINE_BYTES] = 'x';
    for (size_t sent = 0; sent < EC_LINE_BYTES; sent += EC_LINE_BYTES / 16) {
        int rc;

        send_bytes(text + sent, EC_LINE_BYTES / 16, NULL, 0);
        rc = ec_line_reader_next(&reader, &line, &why);
        ck_assert_int_eq(rc, sent + EC_LINE_BYTES / 16 == EC_LINE_BYTES ? EC_OK : EC_AGAIN);
    }
    ck_assert_uint_eq(line.bytes, EC_LINE_BYTES - 1);
    text[EC_LINE_BYTES - 1] = 'x';
    for (size_t sent = 0; sent < EC_LINE_BYTES; sent += EC_LINE_BYTES / 16) {
        send_bytes(text + sent, EC_LINE_BYTES / 16, NULL, 0);
        if (sent + EC_LINE_BYTES / 16 < EC_LINE_BYTES)
            ck_assert_int_eq(ec_line_reader_next(&reader, &line, &why), EC_AGAIN);
    }
    ck_assert_int_eq(ec_line_reader_next(&reader, &line, &why), EC_ERR_SIZE);
    free(text);
}
END_TEST

START_TEST(what_was_sent_before_the_hang_up_is_still_read)
{
    send_text("last\nhalf");
    shutdown(sockets[1], SHUT_RDWR);
    expect_line("last", 0);
    ck_assert_int_eq(ec_line_reader_next(&reader, &line, &why), EC_ERR_DISCONNECTED);
    ck_assert_str_eq(why.text, "the daemon hung up");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("line reader");
    TCase *tests = tcase_create("lines");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tests, open_sockets, close_sockets);
    tcase_add_test(tests, a_line_that_comes_byte_by_byte_is_whole);
    tcase_add_test(tests, lines_that_come_together_are_taken_one_by_one);
    tcase_add_loop_test(tests, descriptors_belong_to_the_line_whose_first_byte_carried_them, 0,
                        sizeof cuts / sizeof cuts[0]);
    tcase_add_test(tests, two_lines_with_descriptors_each_get_their_own);
    tcase_add_test(tests, a_long_line_with_descriptors_may_be_followed_by_another_one);
    tcase_add_test(tests, descriptors_that_nobody_took_are_closed);
    tcase_add_test(tests, descriptors_inside_a_line_are_refused);
    tcase_add_test(tests, more_descriptors_than_a_line_may_carry_are_closed_and_an_error);
    tcase_add_test(tests, as_many_descriptors_as_a_line_may_carry_arrive);
    tcase_add_test(tests, the_longest_line_arrives_and_a_longer_one_is_refused);
    tcase_add_test(tests, what_was_sent_before_the_hang_up_is_still_read);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
