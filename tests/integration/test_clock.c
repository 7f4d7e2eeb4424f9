/* test_clock.c - one clock in several processes, and what is left of it when one of them stops or
 * dies, the daemon included. */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <engine-core/clock.h>

#include "support/daemon.h"

#define GAMES 3
#define STEPS 120

static struct daemon_process server;

static void set_up(void)
{
    memset(&server, 0, sizeof server);
    ck_assert_msg(daemon_start(&server, NULL), "%s", server.why);
}

static void tear_down(void)
{
    daemon_kill(&server); /* for tests that left it running */
}

/* Step n of 60 Hz since game time 0. */
static int64_t due_ns(uint64_t step)
{
    return (int64_t)((step * 50000000 + 2) / 3);
}

/* A process that tells the test of each step that it sees, until it is killed. */
struct game {
    pid_t pid;
    int steps_fd;
};

/* What it tells. */
struct sight {
    struct ec_step step;
    int64_t at_ns; /* real time */
};

static void play(int steps_fd)
{
    const struct ec_client_desc desc = { .name = "game",
                                         .socket_path = server.socket_path,
                                         .timeout_ms = DAEMON_WAIT_MS };
    struct ec_client *client;
    struct ec_step_clock physics;
    struct ec_step step;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (ec_client_create(&desc, &client, NULL) != EC_OK ||
        ec_step_find(client, "physics", &physics) != EC_OK)
        _exit(1);
    while (ec_step_wait(&physics, -1, &step) == EC_OK) {
        struct sight sight = { step, ec_time_real() };

        if (write(steps_fd, &sight, sizeof sight) != (ssize_t)sizeof sight)
            _exit(2);
    }
    _exit(3);
}

static struct game start_game(void)
{
    struct game game;
    int fds[2];

    ck_assert_int_eq(pipe(fds), 0);
    game.pid = fork();
    ck_assert_int_ge(game.pid, 0);
    if (game.pid == 0) {
        close(fds[0]);
        play(fds[1]);
    }
    close(fds[1]);
    game.steps_fd = fds[0];
    return game;
}

/* The next step that a game has seen. A game that ends fails the test. */
static struct sight next_sight(const struct game *game)
{
    struct sight sight;
    ssize_t bytes;

    do
        bytes = read(game->steps_fd, &sight, sizeof sight);
    while (bytes < 0 && errno == EINTR);
    ck_assert_msg(bytes == (ssize_t)sizeof sight, "the game has ended");
    ck_assert_int_eq(sight.step.due_ns, due_ns(sight.step.step));
    return sight;
}

static struct ec_step next_step(const struct game *game)
{
    return next_sight(game).step;
}

static struct ec_step next_stale_step(const struct game *game, bool stale)
{
    struct ec_step step;

    do
        step = next_step(game);
    while (step.stale != stale);
    return step;
}

static void end_game(struct game *game)
{
    kill(game->pid, SIGKILL);
    ck_assert_int_eq(waitpid(game->pid, NULL, 0), game->pid);
    close(game->steps_fd);
}

/* Follow a game for some steps; each is later than the one before and says by how much. Returns the
 * last. */
static uint64_t follow(const struct game *game, uint64_t from, int count)
{
    for (int i = 0; i < count; i++) {
        struct ec_step step = next_step(game);

        ck_assert_uint_gt(step.step, from);
        ck_assert_uint_eq(step.steps_passed, step.step - from);
        from = step.step;
    }
    return from;
}

START_TEST(three_games_see_the_same_steps_in_order)
{
    struct game games[GAMES];
    uint64_t last[GAMES];

    for (int i = 0; i < GAMES; i++)
        games[i] = start_game();
    for (int i = 0; i < GAMES; i++)
        last[i] = next_step(&games[i]).step;
    /* Due times are checked against the one formula in each process, so equal numbers mean equal
     * moments. Who began later catches up by its own first step, not by counting. */
    for (int i = 0; i < GAMES; i++)
        last[i] = follow(&games[i], last[i], STEPS);
    for (int i = 0; i < GAMES; i++) {
        uint64_t other = last[(i + 1) % GAMES];

        while (last[i] < other) /* all of them reach what any of them has seen */
            last[i] = follow(&games[i], last[i], 1);
    }
    for (int i = 0; i < GAMES; i++)
        end_game(&games[i]);
}
END_TEST

START_TEST(a_game_that_was_stopped_is_told_how_many_steps_passed)
{
    struct game stopped = start_game(), other = start_game();
    uint64_t last = next_step(&stopped).step;
    struct ec_step step;
    struct sight sight;
    int64_t stopped_ns;
    int status;

    ck_assert_int_eq(kill(stopped.pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(stopped.pid, &status, WUNTRACED), stopped.pid);
    ck_assert(WIFSTOPPED(status));
    stopped_ns = ec_time_real();
    do
        sight = next_sight(&other);
    while (sight.at_ns < stopped_ns + 1000000000); /* 60 steps that the stopped one does not see */
    ck_assert_int_eq(kill(stopped.pid, SIGCONT), 0);
    do {
        step = next_step(&stopped);
        ck_assert_uint_eq(step.steps_passed, step.step - last);
        last = step.step;
    } while (step.steps_passed < 50);
    ck_assert_uint_ge(step.step, sight.step.step);
    follow(&stopped, last, 10);
    end_game(&stopped);
    end_game(&other);
}
END_TEST

START_TEST(a_game_that_is_killed_while_it_waits_disturbs_nobody)
{
    struct game killed = start_game(), other = start_game();
    uint64_t last;

    next_step(&killed);
    last = next_step(&other).step;
    end_game(&killed);
    follow(&other, last, 30);
    end_game(&other);
}
END_TEST

START_TEST(games_go_on_stepping_when_the_daemon_is_killed_and_say_stale)
{
    struct game games[2] = { start_game(), start_game() };
    uint64_t last[2];

    for (int i = 0; i < 2; i++)
        next_step(&games[i]);
    ck_assert_int_eq(daemon_kill(&server), -SIGKILL);
    for (int i = 0; i < 2; i++) {
        last[i] = next_stale_step(&games[i], true).step;
        for (int n = 0; n < STEPS; n++) {
            struct ec_step step = next_step(&games[i]);

            ck_assert(step.stale);
            ck_assert_uint_gt(step.step, last[i]);
            ck_assert_uint_eq(step.steps_passed, step.step - last[i]);
            last[i] = step.step;
        }
    }
    for (int i = 0; i < 2; i++)
        end_game(&games[i]);
}
END_TEST

/* Stopped for more than a second, the daemon notices the gap when it goes on: the epoch rises, and
 * the steps are where they would have been. */
START_TEST(a_daemon_that_was_stopped_comes_back_on_the_same_grid_in_a_new_epoch)
{
    struct game game = start_game();
    struct ec_step step = next_step(&game);
    uint64_t epoch = step.epoch, last;

    ck_assert_int_eq(kill(server.pid, SIGSTOP), 0);
    last = next_stale_step(&game, true).step;
    last = follow(&game, last, 90);
    ck_assert_int_eq(kill(server.pid, SIGCONT), 0);
    do {
        step = next_step(&game);
        ck_assert_uint_ge(step.step, last); /* a new epoch begins with a step that was known */
        ck_assert(step.step > last || step.epoch_changed);
        last = step.step;
    } while (!step.epoch_changed);
    ck_assert(!step.stale);
    ck_assert_uint_eq(step.steps_passed, 0); /* no difference across epochs */
    ck_assert_uint_gt(step.epoch, epoch);
    follow(&game, last, 10);
    end_game(&game);
    ck_assert_int_eq(daemon_stop(&server), 0);
}
END_TEST

START_TEST(clock_get_tells_rate_steps_and_jitter)
{
    struct game game = start_game();
    struct line_client client;
    uint64_t last = next_step(&game).step;
    const char *reply;

    follow(&game, last, 10);
    ck_assert(line_client_connect(&client, server.socket_path));
    reply = line_client_call(&client, "clock.get", "{}");
    ck_assert_msg(line_has(reply, "name", "\"physics\""), "%s", reply);
    ck_assert_msg(line_has(reply, "rate", "\"60/1\""), "%s", reply);
    ck_assert_msg(line_has(reply, "hz", "60"), "%s", reply);
    ck_assert_msg(line_has(reply, "source", "\"game\""), "%s", reply);
    ck_assert_msg(line_has(reply, "base_ns", "0"), "%s", reply);
    ck_assert_msg(line_has(reply, "scale", "1"), "%s", reply);
    ck_assert_msg(line_has(reply, "paused", "false"), "%s", reply);
    ck_assert_msg(strstr(reply, "\"jitter_ns\":{\"p50\":") != NULL, "%s", reply);
    ck_assert_msg(!line_has(reply, "step", "0"), "%s", reply);
    line_client_close(&client);
    end_game(&game);
    ck_assert_int_eq(daemon_stop(&server), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("clock");
    TCase *tests = tcase_create("processes");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, three_games_see_the_same_steps_in_order);
    tcase_add_test(tests, a_game_that_was_stopped_is_told_how_many_steps_passed);
    tcase_add_test(tests, a_game_that_is_killed_while_it_waits_disturbs_nobody);
    tcase_add_test(tests, games_go_on_stepping_when_the_daemon_is_killed_and_say_stale);
    tcase_add_test(tests, a_daemon_that_was_stopped_comes_back_on_the_same_grid_in_a_new_epoch);
    tcase_add_test(tests, clock_get_tells_rate_steps_and_jitter);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
