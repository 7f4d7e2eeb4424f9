/* The queue is flushed into one end of a socket pair whose other end the test reads. */
#include "control/output.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/line.h"

static struct output output, other;
static int ends[2]; /* [0] is the connection's */

static void set_up(void)
{
    output = other = (struct output) { 0 };
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
}

static void tear_down(void)
{
    output_finish(&output);
    output_finish(&other);
    close(ends[0]);
    close(ends[1]);
}

/* One recvmsg(): its text, and how many descriptors came. They are closed. */
static const char *receive(unsigned *fd_count)
{
    static char text[1 << 20];
    union {
        char bytes[CMSG_SPACE(sizeof(int) * EC_LINE_FDS)];
        struct cmsghdr align;
    } control;
    struct iovec part = { text, sizeof text - 1 };
    struct msghdr message = { .msg_iov = &part,
                              .msg_iovlen = 1,
                              .msg_control = control.bytes,
                              .msg_controllen = sizeof control };
    ssize_t bytes = recvmsg(ends[1], &message, MSG_CMSG_CLOEXEC);
    struct cmsghdr *header = bytes > 0 ? CMSG_FIRSTHDR(&message) : NULL;

    *fd_count = 0;
    if (header != NULL)
        *fd_count = (unsigned)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (unsigned i = 0; i < *fd_count; i++) {
        int fd;

        memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
        close(fd);
    }
    text[bytes > 0 ? bytes : 0] = '\0';
    return text;
}

static void append(enum output_kind kind, const char *line)
{
    ck_assert_int_eq(output_append(&output, kind, line, strlen(line), NULL, 0), EC_OK);
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;

    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

START_TEST(lines_go_out_together_in_their_order)
{
    unsigned fds;

    append(OUTPUT_REPLY, "one");
    append(OUTPUT_NOTIFICATION, "two");
    append(OUTPUT_REPLY, "three");
    ck_assert_uint_eq(output_unsent(&output), 14);
    ck_assert_uint_eq(output_unsent_replies(&output), 10);
    ck_assert_int_eq(output_flush(&output, ends[0]), EC_OK);
    ck_assert_str_eq(receive(&fds), "one\ntwo\nthree\n");
    ck_assert_uint_eq(output_unsent(&output), 0);
    ck_assert_uint_eq(output_unsent_replies(&output), 0);
}
END_TEST

START_TEST(a_line_with_descriptors_has_a_message_of_its_own)
{
    const unsigned before = open_descriptors();
    const int fds[] = { ends[0], ends[1] };
    unsigned count;

    append(OUTPUT_REPLY, "one");
    ck_assert_int_eq(output_append(&output, OUTPUT_REPLY, "two", 3, fds, 2), EC_OK);
    ck_assert_int_eq(output_append(&output, OUTPUT_NOTIFICATION, "three", 5, fds, 1), EC_OK);
    append(OUTPUT_NOTIFICATION, "four");
    append(OUTPUT_NOTIFICATION, "five");
    ck_assert_uint_eq(open_descriptors(), before + 3); /* duplicates: the caller's may go */
    ck_assert_int_eq(output_flush(&output, ends[0]), EC_OK);
    ck_assert_uint_eq(open_descriptors(), before);   /* in flight, and closed here */
    ck_assert_str_eq(receive(&count), "one\ntwo\n"); /* the kernel glues what has none in front */
    ck_assert_uint_eq(count, 2);
    ck_assert_str_eq(receive(&count), "three\n");
    ck_assert_uint_eq(count, 1);
    ck_assert_str_eq(receive(&count), "four\nfive\n");
    ck_assert_uint_eq(count, 0);
    ck_assert_uint_eq(open_descriptors(), before);
}
END_TEST

START_TEST(what_the_socket_does_not_take_waits)
{
    static char line[300000];
    const int fd = ends[0];
    size_t received = 0;
    unsigned count, with_fds = 0;

    memset(line, 'a', sizeof line);
    ck_assert_int_eq(output_append(&output, OUTPUT_REPLY, line, sizeof line, NULL, 0), EC_OK);
    memset(line, 'b', sizeof line);
    ck_assert_int_eq(output_append(&output, OUTPUT_NOTIFICATION, line, sizeof line, &fd, 1), EC_OK);
    append(OUTPUT_REPLY, "end");
    while (output_flush(&output, ends[0]) == EC_AGAIN) {
        const char *text = receive(&count);

        with_fds += count;
        received += strlen(text);
        ck_assert_uint_eq(output_unsent_replies(&output),
                          output_unsent(&output) - output.notification_bytes);
    }
    do {
        const char *text = receive(&count);

        with_fds += count;
        received += strlen(text);
        if (text[0] == '\0')
            break;
    } while (true);
    ck_assert_uint_eq(received, 2 * sizeof line + 2 + 4);
    ck_assert_uint_eq(with_fds, 1); /* and not again with the rest of its line */
    ck_assert_uint_eq(output.notification_bytes, 0);
    ck_assert_uint_eq(output.mark_count, 0);
}
END_TEST

START_TEST(bytes_of_notifications_are_counted_apart_while_they_leave)
{
    static char line[50000];
    size_t unsent_before = SIZE_MAX;

    memset(line, 'x', sizeof line);
    for (unsigned i = 0; i < 20; i++)
        ck_assert_int_eq(output_append(&output, i % 2 == 0 ? OUTPUT_REPLY : OUTPUT_NOTIFICATION,
                                       line, sizeof line, NULL, 0),
                         EC_OK);
    while (output_flush(&output, ends[0]) == EC_AGAIN) {
        unsigned count;
        size_t replies = 0, place = 20 * (sizeof line + 1) - output_unsent(&output);

        /* Count again: the bytes behind place that belong to an even line. */
        for (unsigned i = 0; i < 20; i += 2) {
            const size_t begin = i * (sizeof line + 1), end = begin + sizeof line + 1;

            replies += place <= begin ? end - begin : place < end ? end - place : 0;
        }
        ck_assert_uint_eq(output_unsent_replies(&output), replies);
        ck_assert_uint_lt(output_unsent(&output), unsent_before);
        unsent_before = output_unsent(&output);
        receive(&count);
    }
}
END_TEST

START_TEST(a_queue_takes_over_another_with_its_descriptors)
{
    const unsigned before = open_descriptors();
    unsigned count;

    append(OUTPUT_REPLY, "reply");
    ck_assert_int_eq(output_append(&other, OUTPUT_NOTIFICATION, "one", 3, NULL, 0), EC_OK);
    ck_assert_int_eq(output_append(&other, OUTPUT_NOTIFICATION, "two", 3, ends, 1), EC_OK);
    ck_assert_int_eq(output_take_over(&output, &other), EC_OK);
    append(OUTPUT_NOTIFICATION, "three");
    ck_assert_uint_eq(output_unsent(&other), 0);
    ck_assert_uint_eq(output_unsent_replies(&output), 6);
    ck_assert_int_eq(output_flush(&output, ends[0]), EC_OK);
    ck_assert_str_eq(receive(&count), "reply\none\ntwo\n");
    ck_assert_uint_eq(count, 1);
    ck_assert_str_eq(receive(&count), "three\n");
    ck_assert_uint_eq(count, 0);

    /* And once more, with a last line that has descriptors in front. */
    ck_assert_int_eq(output_append(&output, OUTPUT_REPLY, "fds", 3, ends, 2), EC_OK);
    ck_assert_int_eq(output_append(&other, OUTPUT_NOTIFICATION, "plain", 5, NULL, 0), EC_OK);
    ck_assert_int_eq(output_take_over(&output, &other), EC_OK);
    ck_assert_int_eq(output_flush(&output, ends[0]), EC_OK);
    ck_assert_str_eq(receive(&count), "fds\n");
    ck_assert_uint_eq(count, 2);
    ck_assert_str_eq(receive(&count), "plain\n");
    ck_assert_uint_eq(open_descriptors(), before);
}
END_TEST

START_TEST(notifications_that_are_taken_over_again_and_again_are_counted_right)
{
    unsigned count;

    for (unsigned i = 0; i < 3; i++) {
        append(OUTPUT_REPLY, "reply");
        ck_assert_int_eq(output_append(&other, OUTPUT_NOTIFICATION, "note", 4, NULL, 0), EC_OK);
        ck_assert_int_eq(output_take_over(&output, &other), EC_OK);
        ck_assert_uint_eq(output_unsent_replies(&output), 6);
        ck_assert_int_eq(output_flush(&output, ends[0]), EC_OK);
        ck_assert_uint_eq(output_unsent_replies(&output), 0);
        ck_assert_str_eq(receive(&count), "reply\nnote\n");
    }
}
END_TEST

START_TEST(what_was_never_sent_is_given_back)
{
    const unsigned before = open_descriptors();

    ck_assert_int_eq(output_append(&output, OUTPUT_REPLY, "fds", 3, ends, 2), EC_OK);
    output_finish(&output);
    ck_assert_uint_eq(open_descriptors(), before);
}
END_TEST

START_TEST(a_peer_that_is_gone_is_noticed)
{
    append(OUTPUT_REPLY, "one");
    close(ends[1]);
    ck_assert_int_eq(output_flush(&output, ends[0]), EC_ERR_DISCONNECTED);
    ends[1] = dup(ends[0]);
}
END_TEST

START_TEST(a_buffer_that_was_large_is_given_back)
{
    static char line[100000];
    unsigned count;

    memset(line, 'x', sizeof line);
    ck_assert_int_eq(output_append(&output, OUTPUT_REPLY, line, sizeof line, NULL, 0), EC_OK);
    ck_assert_int_eq(output_flush(&output, ends[0]), EC_OK);
    ck_assert_uint_eq(output.capacity, 0);
    receive(&count);
    append(OUTPUT_REPLY, "small");
    ck_assert_int_eq(output_flush(&output, ends[0]), EC_OK);
    ck_assert_uint_gt(output.capacity, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("output");
    TCase *tcase = tcase_create("output");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, lines_go_out_together_in_their_order);
    tcase_add_test(tcase, a_line_with_descriptors_has_a_message_of_its_own);
    tcase_add_test(tcase, what_the_socket_does_not_take_waits);
    tcase_add_test(tcase, bytes_of_notifications_are_counted_apart_while_they_leave);
    tcase_add_test(tcase, a_queue_takes_over_another_with_its_descriptors);
    tcase_add_test(tcase, notifications_that_are_taken_over_again_and_again_are_counted_right);
    tcase_add_test(tcase, what_was_never_sent_is_given_back);
    tcase_add_test(tcase, a_peer_that_is_gone_is_noticed);
    tcase_add_test(tcase, a_buffer_that_was_large_is_given_back);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
