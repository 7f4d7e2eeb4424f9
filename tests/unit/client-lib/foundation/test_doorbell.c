/* A doorbell promises: a ring wakes its owner, and a bell of sockets never makes the ringing side wait,
 * whatever its owner does. */
#include "foundation/doorbell.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static struct ec_error why;

static bool is_ringing(const struct ec_doorbell *doorbell)
{
    struct pollfd fd = { .fd = doorbell->wait_fd, .events = POLLIN };

    return poll(&fd, 1, 0) == 1;
}

START_TEST(a_ring_wakes_until_it_is_silenced)
{
    struct ec_doorbell doorbell;

    ck_assert_int_eq(ec_doorbell_init(&doorbell, _i == 1, &why), EC_OK);
    ck_assert_int_eq(ec_doorbell_is_socket(doorbell.ring_fd), _i == 1);
    ck_assert(!is_ringing(&doorbell));
    for (int i = 0; i < 5; i++)
        ck_assert(ec_doorbell_ring(doorbell.ring_fd, _i == 1));
    ck_assert(is_ringing(&doorbell));
    ec_doorbell_silence(&doorbell);
    ck_assert(!is_ringing(&doorbell));
    ec_doorbell_finish(&doorbell);
    ec_doorbell_finish(&doorbell); /* a finished one is accepted */
}
END_TEST

START_TEST(a_full_bell_of_sockets_does_not_block_even_when_its_owner_wants_it_to)
{
    struct ec_doorbell doorbell;
    int rings = 0;

    ck_assert_int_eq(ec_doorbell_init(&doorbell, true, &why), EC_OK);
    ck_assert_int_eq(fcntl(doorbell.ring_fd, F_SETFL, 0), 0); /* O_NONBLOCK is gone */
    while (ec_doorbell_ring(doorbell.ring_fd, true))
        ck_assert_int_lt(rings++, 100000);
    ck_assert(is_ringing(&doorbell));
    ec_doorbell_finish(&doorbell);
}
END_TEST

START_TEST(a_bell_whose_owner_is_gone_is_rung_in_vain)
{
    struct ec_doorbell doorbell;

    ck_assert_int_eq(ec_doorbell_init(&doorbell, true, &why), EC_OK);
    close(doorbell.wait_fd);
    ck_assert(!ec_doorbell_ring(doorbell.ring_fd, true)); /* no SIGPIPE either */
    close(doorbell.ring_fd);
}
END_TEST

static int stream(void)
{
    int fds[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    close(fds[1]);
    return fds[0];
}

static int datagram(void)
{
    int fds[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), 0);
    close(fds[1]);
    return fds[0];
}

static int quiet_eventfd(void)
{
    return eventfd(0, EFD_NONBLOCK);
}

static int blocking_eventfd(void)
{
    return eventfd(0, 0);
}

static int file(void)
{
    return open("/dev/zero", O_RDWR);
}

static const struct {
    int (*make)(void);
    bool may_be_eventfd;
    int expected;
    const char *says;
} strangers[] = {
    { datagram, false, EC_OK, "" },
    { datagram, true, EC_OK, "" },
    { quiet_eventfd, true, EC_OK, "" },
    { quiet_eventfd, false, EC_ERR_LAYOUT, "another user" },
    { blocking_eventfd, true, EC_ERR_LAYOUT, "O_NONBLOCK" },
    { stream, true, EC_ERR_LAYOUT, "datagram" },
    { file, true, EC_ERR_LAYOUT, "/dev/zero" },
};

START_TEST(only_what_cannot_block_is_accepted_from_a_stranger)
{
    int fd = strangers[_i].make();

    why.text[0] = '\0';
    ck_assert_int_eq(ec_doorbell_check(fd, strangers[_i].may_be_eventfd, &why),
                     strangers[_i].expected);
    ck_assert_msg(strstr(why.text, strangers[_i].says) != NULL, "%s", why.text);
    close(fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("doorbell");
    TCase *tcase = tcase_create("doorbell");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, a_ring_wakes_until_it_is_silenced, 0, 2);
    tcase_add_test(tcase, a_full_bell_of_sockets_does_not_block_even_when_its_owner_wants_it_to);
    tcase_add_test(tcase, a_bell_whose_owner_is_gone_is_rung_in_vain);
    tcase_add_loop_test(tcase, only_what_cannot_block_is_accepted_from_a_stranger, 0,
                        sizeof strangers / sizeof strangers[0]);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
