/* test_step_group.c - processes that simulate in step, a hundred times as fast as real time, while one of
 * them is stopped, killed and started again. */
#include <check.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <engine-core/clock.h>

#include "support/daemon.h"

#define MEMBERS 5
#define STOPPED 2 /* the member that is stopped: its budget is waited for */
#define KILLED 4
#define BUDGET_MS 60000 /* never used up, also when the machine stands still for a while */
#define SHORT_BUDGET_MS 3000
#define ROUND 1000 /* steps */

/* What the members tell each other and the test; one writer each. */
struct place {
    _Alignas(64) _Atomic uint64_t told; /* the newest step that it was told */
    _Atomic uint64_t finished;          /* the newest step that it has simulated */
    _Atomic uint64_t made;              /* steps simulated */
    _Atomic uint32_t out;               /* left behind: stopped, killed or not yet there */
    _Atomic uint32_t stopping;          /* by the test: out stays set */
    _Atomic uint64_t apart;             /* how often another member was further away than a step */
    struct ec_error why;                /* of a member that could not begin; read after its end */
};

static struct daemon_process server;
static struct line_client operator;
static struct place *places;
static pid_t members[MEMBERS];
static struct ec_client *client;
static struct ec_step_clock pace; /* of the test itself, which holds nobody */

static void set_up(void)
{
    memset(&server, 0, sizeof server);
    places = mmap(NULL, MEMBERS * sizeof *places, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(places, MAP_FAILED);
}

static void start_server(bool waitv)
{
    static const char *const without_waitv[] = { "--set", "scheduler.waitv=false", NULL };
    /* Without a thread: this process forks, and a thread in the middle of malloc would leave its lock
     * to the child of a build with the address sanitizer. */
    const struct ec_client_desc desc = { .name = "test",
                                         .socket_path = server.socket_path,
                                         .timeout_ms = DAEMON_WAIT_MS,
                                         .no_thread = true };

    ck_assert_msg(daemon_start(&server, waitv ? NULL : without_waitv), "%s", server.why);
    ck_assert(line_client_connect(&operator, server.socket_path));
    line_client_call(&operator, "clock.step.create",
                     "{\"name\":\"lockstep\",\"hz\":60,\"late\":\"slow\"}");
    ck_assert_int_eq(ec_client_create(&desc, &client, NULL), EC_OK);
    ck_assert_int_eq(ec_step_find(client, "lockstep", &pace), EC_OK);
}

static void tear_down(void)
{
    for (int i = 0; i < MEMBERS; i++)
        if (members[i] > 0) {
            kill(members[i], SIGKILL);
            waitpid(members[i], NULL, 0);
            members[i] = 0;
        }
    ec_client_destroy(client);
    line_client_close(&operator);
    daemon_kill(&server);
    munmap(places, MEMBERS * sizeof *places);
}

/* Told of step n, a member looks at the others: all that take part have finished n - 1. */
static void compare(int self, uint64_t step)
{
    for (int i = 0; i < MEMBERS; i++)
        if (i != self && atomic_load(&places[i].out) == 0 &&
            atomic_load(&places[i].finished) + 1 < step && atomic_load(&places[i].out) == 0)
            atomic_fetch_add(&places[self].apart, 1);
}

/* More work than there is time for in a step, and a different amount for each member and step. */
static void work(int self, uint64_t step)
{
    int64_t end_ns = ec_time_real() + (int64_t)((step * 7 + (uint64_t)self * 3) % 4) * 100000;

    while (ec_time_real() < end_ns)
        ;
}

static void simulate(int self)
{
    const struct ec_client_desc desc = { .name = "member",
                                         .socket_path = server.socket_path,
                                         .timeout_ms = DAEMON_WAIT_MS };
    const struct ec_step_join_desc join = { .required = true,
                                            .budget_ms =
                                                self == STOPPED ? SHORT_BUDGET_MS : BUDGET_MS };
    struct place *own = &places[self];
    struct ec_client *member;
    struct ec_step_clock clock;
    struct ec_step step;
    unsigned in_step = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (ec_client_create(&desc, &member, &own->why) != EC_OK)
        _exit(1);
    if (ec_step_find(member, "lockstep", &clock) != EC_OK)
        _exit(3);
    if (ec_step_join(&clock, &join, &own->why) != EC_OK)
        _exit(4);
    for (;;) {
        if (ec_step_wait(&clock, -1, &step) != EC_OK)
            _exit(2);
        if (step.stale) /* the machine stood still; a scheduler that does for good fails next_step */
            continue;
        atomic_store(&own->told, step.step);
        if (step.steps_passed == 1 && atomic_load(&own->out) == 0)
            compare(self, step.step);
        in_step = step.steps_passed == 1 && atomic_load(&own->stopping) == 0 ? in_step + 1 : 0;
        work(self, step.step);
        atomic_store(&own->finished, step.step);
        atomic_fetch_add(&own->made, 1);
        if (in_step > 10) /* it has taken over the common time */
            atomic_store(&own->out, 0);
    }
}

static void start_member(int i)
{
    atomic_store(&places[i].out, 1);
    atomic_store(&places[i].stopping, 0);
    members[i] = fork();
    ck_assert_int_ge(members[i], 0);
    if (members[i] == 0)
        simulate(i);
}

static void next_step(void)
{
    struct ec_step step;
    int status = 0;

    ck_assert_int_eq(ec_step_wait(&pace, 20000000000, &step), EC_OK);
    for (int i = 0; i < MEMBERS; i++)
        ck_assert_msg(members[i] == 0 || waitpid(members[i], &status, WNOHANG) == 0,
                      "member %d has ended with status 0x%x: %s", i, (unsigned)status,
                      places[i].why.text);
}

/* Until all members that are not left out have made so many steps more. None was further away from
 * another than a step. */
static void let_run(uint64_t steps)
{
    uint64_t until[MEMBERS];

    for (int i = 0; i < MEMBERS; i++)
        until[i] = atomic_load(&places[i].made) + steps;
    for (int i = 0; i < MEMBERS; i++)
        while (atomic_load(&places[i].out) == 0 && atomic_load(&places[i].made) < until[i])
            next_step();
    for (int i = 0; i < MEMBERS; i++)
        ck_assert_msg(atomic_load(&places[i].apart) == 0, "member %d, %lu times: %s", i,
                      (unsigned long)atomic_load(&places[i].apart),
                      line_client_call(&operator, "clock.group.get", "{\"name\":\"lockstep\"}"));
}

/* Before it is stopped: from its next step on a member does not count itself in again. */
static void leave_out(int i)
{
    uint64_t made = atomic_load(&places[i].made);

    atomic_store(&places[i].stopping, 1);
    while (atomic_load(&places[i].made) < made + 2)
        next_step();
    atomic_store(&places[i].out, 1);
}

static void wait_until_back(int i)
{
    while (atomic_load(&places[i].out) != 0)
        next_step();
}

START_TEST(five_members_stay_in_step_while_one_is_stopped_and_one_is_killed_and_comes_back)
{
    const char *reply;
    int status;

    start_server(_i == 0);
    for (int i = 0; i < MEMBERS; i++)
        start_member(i);
    reply = line_client_call(&operator, "clock.scale", "{\"scale\":100}");
    ck_assert_msg(line_has(reply, "scale", "100"), "%s", reply);
    for (int i = 0; i < MEMBERS; i++)
        wait_until_back(i);
    let_run(ROUND);

    leave_out(STOPPED);
    ck_assert_int_eq(kill(members[STOPPED], SIGSTOP), 0);
    ck_assert_int_eq(waitpid(members[STOPPED], &status, WUNTRACED), members[STOPPED]);
    let_run(ROUND); /* the others go on: it was released */
    reply = line_client_call(&operator, "clock.group.get", "{\"name\":\"lockstep\"}");
    ck_assert_msg(line_has(reply, "released", "true"), "%s", reply);
    ck_assert_int_eq(kill(members[STOPPED], SIGCONT), 0);
    atomic_store(&places[STOPPED].stopping, 0);
    wait_until_back(STOPPED);
    let_run(ROUND);

    leave_out(KILLED);
    ck_assert_int_eq(kill(members[KILLED], SIGKILL), 0);
    ck_assert_int_eq(waitpid(members[KILLED], &status, 0), members[KILLED]);
    members[KILLED] = 0;
    let_run(ROUND);
    start_member(KILLED);
    wait_until_back(KILLED);
    let_run(ROUND);

    for (int i = 0; i < MEMBERS; i++)
        ck_assert_uint_eq(atomic_load(&places[i].apart), 0);
    reply = line_client_call(&operator, "clock.get", "{}");
    ck_assert_msg(strstr(reply, "\"name\":\"lockstep\"") != NULL, "%s", reply);
    ck_assert_msg(
        strstr(strstr(reply, "\"name\":\"lockstep\""), "\"missed\":0,\"late\":\"slow\"") != NULL,
        "%s", reply);
}
END_TEST

static const char *join_line(const char *params)
{
    return line_client_call(&operator, "clock.group.join", params);
}

START_TEST(who_cannot_be_a_member_is_told_why)
{
    struct ec_step_clock again;
    struct ec_error why = { 0 };

    start_server(true);
    ck_assert(line_has(join_line("{\"name\":\"lockstep\"}"), "code", "-32006")); /* not attached */
    ck_assert(line_has(join_line("{\"name\":\"no\"}"), "code", "-32005"));
    ck_assert_int_eq(ec_step_join(&pace, &(struct ec_step_join_desc) { 0 }, &why), EC_OK);
    ck_assert_int_eq(ec_step_find(client, "lockstep", &again), EC_OK);
    ck_assert_int_eq(ec_step_join(&again, &(struct ec_step_join_desc) { 0 }, &why), EC_ERR_STATE);
    ck_assert_int_eq(ec_step_leave(&pace, &why), EC_OK);
    ck_assert_int_eq(ec_step_leave(&pace, &why), EC_ERR_STATE);
    ck_assert_int_eq(ec_step_find(client, "network", &again), EC_OK);
    ck_assert_int_eq(
        ec_step_join(&again,
                     &(struct ec_step_join_desc) { .required = true, .free_running_speed = true },
                     &why),
        EC_ERR_PARAM); /* real time cannot be driven */
    while (ec_step_index(&pace) < 2)
        next_step();
    ck_assert_int_eq(ec_step_join(&pace, &(struct ec_step_join_desc) { .start_at_step = 1 }, &why),
                     EC_ERR_PARAM);
    ck_assert_msg(strstr(why.text, "start_at_step") != NULL, "%s", why.text);
}
END_TEST

START_TEST(members_that_want_it_run_as_fast_as_they_are_done)
{
    const struct ec_step_join_desc join = { .required = true, .free_running_speed = true };
    struct ec_step step;
    struct ec_time then, now;
    uint64_t made = 0;

    start_server(true);
    ck_assert_int_eq(ec_step_join(&pace, &join, NULL), EC_OK);
    while (made < 6000) { /* a hundred seconds of game time */
        ck_assert_int_eq(ec_step_wait(&pace, 20000000000, &step), EC_OK);
        if (made == 0)
            ck_assert_int_eq(ec_time_read(client, &then), EC_OK);
        made += step.steps_passed;
    }
    ck_assert_int_eq(ec_time_read(client, &now), EC_OK);
    ck_assert_int_gt(now.game_ns - then.game_ns, INT64_C(90000000000));
    ck_assert_int_lt(now.real_ns - then.real_ns, now.game_ns - then.game_ns);
    ck_assert_int_eq(ec_step_leave(&pace, NULL), EC_OK);
    ck_assert_int_eq(ec_step_wait(&pace, 20000000000, &step), EC_OK); /* paced again */
}
END_TEST

START_TEST(members_that_spread_get_phases_in_the_largest_gaps)
{
    const struct ec_client_desc desc = { .name = "spread",
                                         .socket_path = server.socket_path,
                                         .timeout_ms = DAEMON_WAIT_MS };
    static const char *const phases[] = { "0", "8333333", "4166666", "12499999" };
    struct ec_client *spread[4];
    struct ec_step_clock clock[4];
    struct ec_step step;
    char expected[64];
    const char *reply;

    start_server(true);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(ec_client_create(&desc, &spread[i], NULL), EC_OK);
        ck_assert_int_eq(ec_step_find(spread[i], "lockstep", &clock[i]), EC_OK);
        ck_assert_int_eq(
            ec_step_join(&clock[i], &(struct ec_step_join_desc) { .spread = true }, NULL), EC_OK);
    }
    for (int i = 0; i < 4; i++)
        for (int n = 0; n < 3; n++) {
            ck_assert_int_eq(ec_step_wait(&clock[i], -1, &step), EC_OK);
            ck_assert(!step.stale);
            ck_assert_int_ge(ec_time_game(spread[i]), step.due_ns + clock[i].phase_ns);
        }
    reply = line_client_call(&operator, "clock.group.get", "{\"name\":\"lockstep\"}");
    for (int i = 0; i < 4; i++) {
        snprintf(expected, sizeof expected, "\"phase_ns\":%s,", phases[i]);
        ck_assert_msg(strstr(reply, expected) != NULL, "%s in %s", expected, reply);
        ec_client_destroy(spread[i]);
    }
    reply = line_client_call(&operator, "clock.group.get", "{\"name\":\"lockstep\"}");
    ck_assert_msg(strstr(reply, "\"members\":[]") != NULL, "%s", reply);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("step_group");
    TCase *tests = tcase_create("processes");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(
        tests, five_members_stay_in_step_while_one_is_stopped_and_one_is_killed_and_comes_back, 0,
        2);
    tcase_add_test(tests, who_cannot_be_a_member_is_told_why);
    tcase_add_test(tests, members_that_want_it_run_as_fast_as_they_are_done);
    tcase_add_test(tests, members_that_spread_get_phases_in_the_largest_gaps);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
