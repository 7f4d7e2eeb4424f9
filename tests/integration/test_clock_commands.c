/* test_clock_commands.c - clock.*, timer.* and engine-ctl clock against a real daemon. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <engine-core/clock.h>

#include "support/daemon.h"

#define MS INT64_C(1000000)

static struct daemon_process server;
static struct line_client operator;

static void set_up(void)
{
    memset(&server, 0, sizeof server);
    ck_assert_msg(daemon_start(&server, NULL), "%s", server.why);
    ck_assert(line_client_connect(&operator, server.socket_path));
    line_client_hello(&operator, "operator");
}

static void tear_down(void)
{
    line_client_close(&operator);
    ck_assert_int_eq(daemon_stop(&server), 0);
}

static const char *call(const char *method, const char *params)
{
    return line_client_call(&operator, method, params);
}

/* The number behind "name": in a line; the first of that name after `from`. */
static int64_t number_after(const char *line, const char *from, const char *name)
{
    const char *place = from != NULL ? strstr(line, from) : line;
    char key[64];

    snprintf(key, sizeof key, "\"%s\":", name);
    place = place != NULL ? strstr(place, key) : NULL;
    ck_assert_msg(place != NULL, "%s after %s in %s", name, from, line);
    return strtoll(place + strlen(key), NULL, 10);
}

static int64_t number(const char *line, const char *name)
{
    return number_after(line, NULL, name);
}

START_TEST(the_three_default_clocks_are_there)
{
    const char *reply = call("clock.get", "{}");

    ck_assert_msg(
        strstr(reply, "\"name\":\"physics\",\"rate\":\"60/1\",\"hz\":60,\"source\":\"game\""), "%s",
        reply);
    ck_assert_msg(
        strstr(reply, "\"name\":\"network\",\"rate\":\"20/1\",\"hz\":20,\"source\":\"real\""), "%s",
        reply);
    ck_assert_msg(strstr(reply, "\"name\":\"ai\",\"rate\":\"10/1\",\"hz\":10,\"source\":\"game\""),
                  "%s", reply);
    ck_assert_msg(strstr(reply, "\"jitter_last_minute_ns\":{\"p50\":"), "%s", reply);
}
END_TEST

START_TEST(pause_advance_and_resume_answer_after_their_effect)
{
    const char *reply = call("clock.pause", "{}");
    int64_t game_ns = number(reply, "game_ns"), step = number_after(reply, "physics", "step");

    ck_assert_msg(line_has(reply, "paused", "true"), "%s", reply);
    ck_assert_int_le(number(reply, "effective_real_ns"), number(reply, "real_ns"));
    ck_assert_int_eq(game_ns, (step * 50000000 + 2) / 3); /* it stands at a step */
    reply = call("clock.get", "{}");
    ck_assert_int_eq(number(reply, "game_ns"), game_ns);
    reply = call("clock.step.advance", "{\"name\":\"physics\",\"steps\":7}");
    ck_assert_int_eq(number(reply, "advanced"), 7);
    ck_assert_int_eq(number_after(reply, "physics", "step"), step + 7);
    ck_assert_int_eq(number(reply, "game_ns"), ((step + 7) * 50000000 + 2) / 3);
    ck_assert_int_eq(number_after(reply, "physics", "missed"),
                     number_after(call("clock.get", "{}"), "physics", "missed"));
    reply = call("clock.step.advance", "{\"name\":\"network\"}"); /* follows real time */
    ck_assert_msg(line_has(reply, "code", "-32006"), "%s", reply);
    reply = call("clock.resume", "{}");
    ck_assert_msg(line_has(reply, "paused", "false"), "%s", reply);
    reply = call("clock.step.advance", "{\"name\":\"physics\"}");
    ck_assert_msg(line_has(reply, "code", "-32006"), "%s", reply);
}
END_TEST

START_TEST(roll_back_goes_to_a_checkpoint_or_a_time_and_raises_the_epoch)
{
    const char *reply;
    int64_t checkpoint, game_ns, step;

    call("clock.pause", "{}");
    reply = call("clock.checkpoint", "{\"name\":\"here\"}");
    checkpoint = number(reply, "checkpoint_id");
    game_ns = number(reply, "game_ns");
    step = number(reply, "physics");
    reply = call("clock.get", "{}");
    ck_assert_msg(line_has(reply, "name", "\"here\""), "%s", reply);
    call("clock.step.advance", "{\"name\":\"physics\",\"steps\":100}");
    reply = call("clock.rollback", "{\"checkpoint_id\":1}");
    ck_assert_int_eq(checkpoint, 1);
    ck_assert_int_eq(number(reply, "game_ns"), game_ns);
    ck_assert_int_eq(number(reply, "rollback_epoch"), 1);
    ck_assert_int_eq(number_after(reply, "physics", "step"), step);
    reply = call("clock.rollback", "{\"game_ns\":0}");
    ck_assert_int_eq(number_after(reply, "physics", "step"), 0);
    ck_assert_int_eq(number(reply, "rollback_epoch"), 2);
}
END_TEST

static const struct {
    const char *method, *params, *code, *param, *reason;
} bad_cases[] = {
    { "clock.scale", "{\"scale\":-1}", "-32602", "scale", "expected 0 to 100" },
    { "clock.scale", "{\"scale\":\"NaN\"}", "-32602", "scale", "expected 0 to 100" },
    { "clock.scale", "{\"scale\":1e9}", "-32602", "scale", "expected 0 to 100" },
    { "clock.scale", "{\"scale\":1000000000}", "-32602", "scale", "expected 0 to 100" },
    { "clock.scale", "{\"scale\":100.000000001}", "-32602", "scale", "expected 0 to 100" },
    { "clock.scale", "{\"scale\":0.0000000001}", "-32602", "scale", "nine decimals" },
    { "clock.step.rate", "{\"name\":\"ai\",\"rate\":\"0/1\"}", "-32602", "rate",
      "1/3600 to 10000" },
    { "clock.step.rate", "{\"name\":\"ai\",\"rate\":\"1/0\"}", "-32602", "rate",
      "1/3600 to 10000" },
    { "clock.step.rate", "{\"name\":\"ai\",\"rate\":\"a/b\"}", "-32602", "rate",
      "1/3600 to 10000" },
    { "clock.step.rate", "{\"name\":\"ai\",\"hz\":20000}", "-32602", "hz", "1/3600 to 10000" },
    { "clock.step.rate", "{\"name\":\"ai\"}", "-32602", "rate", "one of them" },
    { "clock.step.rate", "{\"name\":\"no\",\"hz\":20}", "-32005", "name", "physics, network, ai" },
    { "clock.step.advance", "{\"name\":\"no\"}", "-32005", "name", "physics, network, ai" },
    { "clock.step.create", "{\"name\":\"ai\",\"hz\":5}", "-32006", "name", "already" },
    { "clock.step.create", "{\"name\":\"x\",\"hz\":5,\"late\":\"never\"}", "-32602", "late",
      "burst" },
    { "clock.step.create", "{\"name\":\"x\",\"hz\":5,\"source\":\"real\",\"late\":\"slow\"}",
      "-32602", "late", "real time cannot be slowed" },
    { "clock.step.create", "{\"name\":\"real\",\"hz\":5}", "-32602", "name", "no step clocks" },
    { "clock.step.create", "{\"name\":\"a\\nb\",\"hz\":5}", "-32602", "name", "at byte 1" },
    { "clock.rollback", "{\"game_ns\":-5}", "-32005", "game_ns", "expected 0 to " },
    { "clock.rollback", "{\"game_ns\":99000000000000}", "-32005", "game_ns", "expected 0 to " },
    { "clock.rollback", "{\"checkpoint_id\":9}", "-32005", "checkpoint_id", "expected one of" },
    { "clock.rollback", "{}", "-32602", "game_ns", "one of them" },
    { "clock.group.get", "{\"name\":\"no\"}", "-32005", "name", "physics, network, ai" },
    { "timer.arm", "{\"clock\":\"no\",\"in_ns\":5}", "-32005", "clock", "physics, network, ai" },
    { "timer.arm", "{\"clock\":\"ai\",\"in_ns\":5}", "-32602", "clock", "counts steps" },
    { "timer.arm", "{\"clock\":\"game\"}", "-32602", "clock", "at_ns or in_ns" },
    { "timer.arm", "{\"in_ns\":5,\"event\":\"no.such\"}", "-32011", "event", "not registered" },
    { "timer.arm", "{\"in_ns\":5,\"event\":\"breaker.level\"}", "-32003", "event",
      "engine-cored only" },
    { "timer.cancel", "{\"timer_id\":77}", "-32005", "timer_id", "no armed timer" },
};

/* The parameter and its range are named, and nothing changes. */
START_TEST(bad_input_is_refused_by_name_and_changes_nothing)
{
    const char *reply, *steps;
    char param[64], before[64];

    call("clock.pause", "{}");
    snprintf(before, sizeof before, "%" PRId64, number(call("clock.get", "{}"), "game_ns"));
    reply = call(bad_cases[_i].method, bad_cases[_i].params);
    ck_assert_msg(line_has(reply, "code", bad_cases[_i].code), "%s", reply);
    snprintf(param, sizeof param, "\"%s\"", bad_cases[_i].param);
    ck_assert_msg(line_has(reply, "param", param), "%s", reply);
    ck_assert_msg(strstr(reply, bad_cases[_i].reason) != NULL, "%s", reply);
    reply = call("clock.get", "{}");
    ck_assert_msg(line_has(reply, "game_ns", before), "%s", reply);
    ck_assert(line_has(reply, "scale", "1") && line_has(reply, "rollback_epoch", "0"));
    steps = strstr(reply, "\"ai\"");
    ck_assert_msg(steps != NULL && strstr(steps, "\"rate\":\"10/1\"") != NULL, "%s", reply);
    ck_assert_msg(strstr(steps, "},{\"name\"") == NULL, "%s", reply); /* no clock behind ai */
}
END_TEST

START_TEST(a_new_rate_holds_from_the_next_step_and_is_announced)
{
    const char *reply = call("clock.step.create", "{\"name\":\"film\",\"rate\":\"60000/1001\"}");

    ck_assert_msg(strstr(reply, "\"name\":\"film\",\"rate\":\"60000/1001\"") != NULL, "%s", reply);
    reply = call("clock.step.rate", "{\"name\":\"film\",\"hz\":29.97}");
    ck_assert_msg(strstr(reply, "\"name\":\"film\",\"rate\":\"2997/100\"") != NULL, "%s", reply);
    ck_assert_int_le(number(reply, "effective_real_ns"), number(reply, "real_ns"));
    call("clock.pause", "{}");
    reply = call("clock.step.rate", "{\"name\":\"film\",\"hz\":30}");
    ck_assert_msg(line_has(reply, "effective_real_ns", "null"), "%s", reply); /* it stands */
}
END_TEST

/* ---- timers ---- */

static const char *next_event(const char *type)
{
    const char *line;
    char quoted[64];

    snprintf(quoted, sizeof quoted, "\"%s\"", type);
    do
        line = line_client_receive(&operator);
    while (!line_has(line, "method", "\"event\"") || !line_has(line, "type", quoted));
    return line;
}

static int64_t arm(const char *params)
{
    return number(call("timer.arm", params), "timer_id");
}

START_TEST(timers_fire_on_real_time_game_time_and_steps_with_the_event_they_name)
{
    const char *line;
    int64_t id;

    call("event.register",
         "{\"name\":\"game.spawn\",\"fields\":[{\"name\":\"what\",\"type\":\"u32\"}]}");
    call("event.subscribe", "{\"types\":[\"timer.fired\",\"game.spawn\"]}");
    id = arm("{\"in_ns\":20000000}");
    line = next_event("timer.fired");
    ck_assert_int_eq(number(line, "timer_id"), id);
    ck_assert_msg(line_has(line, "clock", "\"real\""), "%s", line);

    id = arm(
        "{\"clock\":\"physics\",\"in_steps\":3,\"event\":\"game.spawn\",\"payload\":{\"what\":77}}");
    line = next_event("timer.fired");
    ck_assert_int_eq(number(line, "timer_id"), id);
    line = next_event("game.spawn");
    ck_assert_int_eq(number(line, "what"), 77);

    id = arm("{\"clock\":\"game\",\"in_ns\":20000000}");
    line = next_event("timer.fired");
    ck_assert_int_eq(number(line, "timer_id"), id);
    ck_assert_int_eq(number(call("timer.list", "{}"), "armed"), 0);
}
END_TEST

START_TEST(a_repeating_timer_fires_on_its_grid_until_it_is_cancelled)
{
    const char *reply;
    int64_t id, due;
    char params[64];

    call("event.subscribe", "{\"types\":[\"timer.fired\"]}");
    reply = call("timer.arm", "{\"in_ns\":10000000,\"every_ns\":10000000}");
    id = number(reply, "timer_id");
    due = number(reply, "due");
    for (int64_t count = 1; count <= 20; count++) {
        const char *line = next_event("timer.fired");

        ck_assert_int_eq(number(line, "count"), count);
        ck_assert_int_eq((number(line, "due") - due) % (10 * MS), 0);
        ck_assert_int_ge(number(line, "time_ns"), number(line, "due"));
    }
    snprintf(params, sizeof params, "{\"timer_id\":%" PRId64 "}", id);
    ck_assert_int_eq(number(call("timer.cancel", params), "timer_id"), id);
    ck_assert_int_eq(number(call("timer.list", "{}"), "armed"), 0);
}
END_TEST

START_TEST(a_game_timer_stands_with_game_time_and_fires_again_after_a_roll_back)
{
    const char *reply, *line;
    int64_t id, game_ns;
    char params[96];

    call("event.subscribe", "{\"types\":[\"timer.fired\",\"clock.rollback\"]}");
    reply = call("clock.pause", "{}");
    game_ns = number(reply, "game_ns");
    id = arm("{\"clock\":\"game\",\"in_ns\":100000000}");
    call("clock.step.advance", "{\"name\":\"physics\",\"steps\":5}");
    ck_assert_int_eq(number(call("timer.list", "{}"), "armed"), 1);
    call("clock.step.advance", "{\"name\":\"physics\",\"steps\":10}");
    line = next_event("timer.fired");
    ck_assert_int_eq(number(line, "timer_id"), id);
    snprintf(params, sizeof params, "{\"game_ns\":%" PRId64 "}", game_ns);
    for (int round = 0; round < 3; round++) {
        call("clock.rollback", params);
        next_event("clock.rollback");
        ck_assert_int_eq(number(call("timer.list", "{}"), "armed"), 1); /* once */
        call("clock.step.advance", "{\"name\":\"physics\",\"steps\":15}");
        line = next_event("timer.fired");
        ck_assert_int_eq(number(line, "timer_id"), id);
        ck_assert_int_eq(number(line, "count"), round + 2);
    }
}
END_TEST

START_TEST(the_timers_of_a_client_that_leaves_are_cancelled)
{
    struct line_client other;

    ck_assert(line_client_connect(&other, server.socket_path));
    line_client_hello(&other, "other");
    for (int i = 0; i < 10; i++)
        line_client_call(&other, "timer.arm", "{\"in_ns\":3600000000000}");
    arm("{\"in_ns\":3600000000000}");
    ck_assert_int_eq(number(call("timer.list", "{}"), "armed"), 11);
    line_client_close(&other);
    while (number(call("timer.list", "{}"), "armed") != 1)
        ;
}
END_TEST

/* ---- engine-ctl ---- */

static int ctl(const char *arguments, char *output, size_t bytes)
{
    char command[512];
    size_t read;
    FILE *pipe;

    snprintf(command, sizeof command, "%s/engine-ctl --socket %s %s 2>&1", getenv("EC_BIN_DIR"),
             server.socket_path, arguments);
    pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    read = fread(output, 1, bytes - 1, pipe);
    output[read] = '\0';
    return WEXITSTATUS(pclose(pipe));
}

static const struct {
    const char *arguments;
    int status;
    const char *says;
} verb_cases[] = {
    { "clock get", 0, "physics" },
    { "clock pause", 0, "paused" },
    { "clock resume", 0, "game time" },
    { "clock scale 0.25", 0, "scale 0.25" },
    { "clock scale 1/3", 0, "scale 0.333333" },
    { "clock scale -- -3", 1, "expected 0 to 100" },
    { "clock checkpoint here", 0, "checkpoint 1" },
    { "clock rollback --time 0", 0, "epoch 1" },
    { "clock rollback 5", 1, "no checkpoint 5" },
    { "clock rollback", 2, "one of them" },
    { "clock rollback x", 1, "there is no checkpoint x" },
    { "timer list", 0, "armed" },
    { "timer cancel 5", 1, "no armed timer" },
    { "timer arm 1ms", 0, "timer.fired" },
    { "timer arm soon", 2, "is no duration" },
    { "timer arm 1.5 --clock physics", 2, "number of steps" },
    { "timer arm 2 --clock ai", 0, "\"clock\":\"ai\"" },
    { "clock step physics", 1, "must stand" },
    { "clock create film 60000/1001 --late slow", 0, "slow" },
    { "clock create sound 100 --real --late 4", 0, "burst 4" },
    { "clock rate ai 5", 0, "5 Hz" },
    { "clock group ai", 0, "ai at step" },
    { "--json clock get", 0, "\"steps\":[" },
};

START_TEST(engine_ctl_has_a_verb_for_each)
{
    char output[8192];

    ck_assert_int_eq(ctl(verb_cases[_i].arguments, output, sizeof output), verb_cases[_i].status);
    ck_assert_msg(strstr(output, verb_cases[_i].says) != NULL, "%s: %s", verb_cases[_i].arguments,
                  output);
}
END_TEST

START_TEST(the_example_goes_on_drawing_while_game_time_stands)
{
    char command[512], output[8192];
    size_t read;
    FILE *pipe;

    call("clock.pause", "{}");
    snprintf(command, sizeof command, "ENGINE_CORE_SOCKET=%s %s/fixed_step 0.3", server.socket_path,
             getenv("EC_BIN_DIR"));
    pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    read = fread(output, 1, sizeof output - 1, pipe);
    output[read] = '\0';
    ck_assert_int_eq(WEXITSTATUS(pclose(pipe)), 0);
    ck_assert_msg(strstr(output, " s ") != NULL && strchr(output, 'o') != NULL, "%s", output);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("clock_commands");
    TCase *tests = tcase_create("daemon");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, the_three_default_clocks_are_there);
    tcase_add_test(tests, pause_advance_and_resume_answer_after_their_effect);
    tcase_add_test(tests, roll_back_goes_to_a_checkpoint_or_a_time_and_raises_the_epoch);
    tcase_add_loop_test(tests, bad_input_is_refused_by_name_and_changes_nothing, 0,
                        (int)(sizeof bad_cases / sizeof *bad_cases));
    tcase_add_test(tests, a_new_rate_holds_from_the_next_step_and_is_announced);
    tcase_add_test(tests, timers_fire_on_real_time_game_time_and_steps_with_the_event_they_name);
    tcase_add_test(tests, a_repeating_timer_fires_on_its_grid_until_it_is_cancelled);
    tcase_add_test(tests, a_game_timer_stands_with_game_time_and_fires_again_after_a_roll_back);
    tcase_add_test(tests, the_timers_of_a_client_that_leaves_are_cancelled);
    tcase_add_loop_test(tests, engine_ctl_has_a_verb_for_each, 0,
                        (int)(sizeof verb_cases / sizeof *verb_cases));
    tcase_add_test(tests, the_example_goes_on_drawing_while_game_time_stands);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
