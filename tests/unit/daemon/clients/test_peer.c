/* Who is at the other end comes from the kernel, and decides the role. */
#include "clients/peer.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    uid_t uid;
    gid_t gid;
    gid_t other;
    bool has_group;
    enum ec_role role;
} role_cases[] = {
    { 1000, 5, 6, true, EC_ROLE_OPERATOR },  /* the daemon's own uid */
    { 0, 0, 0, true, EC_ROLE_OPERATOR },     /* root */
    { 1001, 77, 6, true, EC_ROLE_GAME },     /* its own group */
    { 1001, 5, 77, true, EC_ROLE_GAME },     /* a supplementary group */
    { 1001, 5, 6, true, EC_ROLE_NONE },      /* neither */
    { 1001, 77, 77, false, EC_ROLE_NONE },   /* there is no such group */
    { 1000, 5, 6, false, EC_ROLE_OPERATOR }, /* which does not matter here */
};

START_TEST(the_role_follows_from_uid_and_groups)
{
    const gid_t group = 77;
    struct peer peer = { .uid = role_cases[_i].uid, .gid = role_cases[_i].gid };

    peer.groups[0] = 4;
    peer.groups[1] = role_cases[_i].other;
    peer.group_count = 2;
    ck_assert_int_eq(peer_role(&peer, 1000, role_cases[_i].has_group ? &group : NULL),
                     role_cases[_i].role);
}
END_TEST

START_TEST(the_kernel_says_who_connected)
{
    struct ec_error why = { 0 };
    struct peer peer;
    int pair[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    ck_assert_int_eq(peer_of(pair[0], &peer, &why), EC_OK);
    ck_assert_int_eq(peer.pid, getpid());
    ck_assert_uint_eq(peer.uid, geteuid());
    ck_assert_uint_eq(peer.gid, getegid());
    ck_assert_int_ge(peer.pidfd, 0);
    ck_assert_int_eq(fcntl(peer.pidfd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    close(peer.pidfd);
    close(pair[0]);
    close(pair[1]);
}
END_TEST

START_TEST(what_is_no_socket_has_no_peer)
{
    struct ec_error why = { 0 };
    struct peer peer;

    ck_assert_int_eq(peer_of(-1, &peer, &why), EC_ERR_SYSTEM);
    ck_assert_int_eq(peer.pidfd, -1);
}
END_TEST

START_TEST(a_process_is_taken_by_number_only_with_the_right_uid)
{
    pid_t child = fork();
    struct pollfd ended;

    if (child == 0) {
        pause();
        _exit(0);
    }
    ck_assert_int_eq(peer_pidfd_open(child, geteuid() + 1), -1);
    ended = (struct pollfd) { .fd = peer_pidfd_open(child, geteuid()), .events = POLLIN };
    ck_assert_int_ge(ended.fd, 0);
    ck_assert_int_eq(poll(&ended, 1, 0), 0);
    kill(child, SIGKILL);
    ck_assert_int_eq(poll(&ended, 1, -1), 1);
    waitpid(child, NULL, 0);
    ck_assert_int_eq(peer_pidfd_open(child, geteuid()), -1); /* gone */
    ck_assert_int_eq(peer_pidfd_open(0, geteuid()), -1);
    close(ended.fd);
}
END_TEST

START_TEST(a_process_of_the_same_time_namespace_shares_the_clock)
{
    ck_assert(peer_shares_clock(getpid()));
    ck_assert(!peer_shares_clock(0));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("peer");
    TCase *tcase = tcase_create("peer");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, the_role_follows_from_uid_and_groups, 0,
                        (int)(sizeof role_cases / sizeof role_cases[0]));
    tcase_add_test(tcase, the_kernel_says_who_connected);
    tcase_add_test(tcase, what_is_no_socket_has_no_peer);
    tcase_add_test(tcase, a_process_is_taken_by_number_only_with_the_right_uid);
    tcase_add_test(tcase, a_process_of_the_same_time_namespace_shares_the_clock);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
