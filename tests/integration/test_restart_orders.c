/* What was ordered of a daemon that is killed holds in the next one: timers, checkpoints, reservations and
 * a level that was raised by hand. What belonged to a connection of lines ends with it.
 *
 * Each with and without kept descriptors. */
#include <engine-core/breaker.h>
#include <engine-core/clock.h>
#include <engine-core/request.h>
#include <engine-core/subscriber.h>

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/client.h"
#include "support/daemon.h"
#include "support/game.h"
#include "support/reply.h"
#include "support/returns.h"

#define RESTARTS 3

static struct daemon_process engine;
/* Whom the machine lets stand still has the time to come back. */
#define PATIENT "--set", "event.stall_ms=60000", "--set", "client.grace_s=60"
static const char *const plain[] = { PATIENT, NULL };
static const char *const with_store[] = { PATIENT, "--set", "core.descriptor_store=true", NULL };

static void start(bool keeps)
{
    engine.keeps_descriptors = keeps;
    ck_assert_msg(daemon_start(&engine, keeps ? with_store : plain), "%s", engine.why);
}

static void restart(bool keeps)
{
    daemon_crash(&engine);
    start(keeps);
}

static void set_up(void)
{
    engine = (struct daemon_process) { 0 };
}

static void tear_down(void)
{
    ck_assert_int_eq(daemon_stop(&engine), 0);
}

static const char *ask(const char *method, const char *params)
{
    return daemon_ask(&engine, method, params);
}

/* A request of the game itself; caller frees. */
static char *call(struct ec_client *client, const char *method, const char *params)
{
    struct ec_error why = { 0 };
    char *result = NULL;

    ck_assert_msg(ec_client_call(client, method, params, &result, &why) == EC_OK, "%s", why.text);
    return result;
}

static int64_t arm(struct ec_client *client, const char *params)
{
    char *result = call(client, "timer.arm", params);
    int64_t id = reply_number(result, "timer_id");

    free(result);
    return id;
}

/* ---- timers ---------------------------------------------------------------------------------- */

/* As timer.fired and the event that goes with it have it. */
struct seen {
    int64_t id;     /* whose firings are looked for */
    uint64_t count; /* the newest */
    unsigned firings, repeated;
    uint64_t payloads;
    uint32_t value; /* of the last payload */
};

static void see(void *context, const struct ec_event *event)
{
    struct seen *seen = context;
    struct { /* timer.fired, without the clock's name */
        uint64_t timer_id;
        uint32_t client_id, passed;
        int64_t due;
        uint64_t count;
    } fired;

    if (event->type == ec_event_type("test.bell")) {
        memcpy(&seen->value, event->payload, sizeof seen->value);
        seen->payloads++;
        return;
    }
    memcpy(&fired, event->payload, sizeof fired);
    if ((int64_t)fired.timer_id != seen->id)
        return;
    seen->firings++;
    seen->repeated += fired.count <= seen->count;
    seen->count = fired.count;
}

static struct ec_subscriber *listen_to_timers(struct ec_client *client)
{
    struct ec_event_field field = { .name = "value", .type = EC_FIELD_U32, .bytes = 4 };
    struct ec_event_type_desc bell = {
        .name = "test.bell", .fields = &field, .field_count = 1, .bytes = 4
    };
    const char *types[] = { "timer.fired", "test.bell" };
    struct ec_subscriber_desc desc = { .types = types, .type_count = 2 };
    struct ec_subscriber *subscriber;
    struct ec_error why = { 0 };

    ck_assert_msg(ec_event_type_register(client, &bell, NULL, &why) == EC_OK, "%s", why.text);
    ck_assert_msg(ec_subscriber_create(client, &desc, &subscriber, &why) == EC_OK, "%s", why.text);
    return subscriber;
}

static void await_firings(struct ec_subscriber *subscriber, struct seen *seen, unsigned count)
{
    const unsigned enough = seen->firings + count;

    while (seen->firings < enough) {
        ck_assert_int_ge(ec_subscriber_wait(subscriber, GAME_WAIT_NS), EC_OK);
        ec_subscriber_poll(subscriber, see, seen, 1024);
    }
}

START_TEST(timers_of_a_game_go_on_and_those_of_a_line_client_end)
{
    const bool keeps = _i == 1;
    struct returns returns;
    struct ec_client *client;
    struct ec_subscriber *subscriber;
    struct line_client lines;
    struct seen seen = { 0 };
    int64_t far, steps, own;
    char path[64], params[96], *result;
    const char *reply;

    start(keeps);
    client = returns_connect(&returns, "game", engine.socket_path);
    subscriber = listen_to_timers(client);
    far = arm(client, "{\"in_ns\":3600000000000}");
    steps = arm(client, "{\"clock\":\"physics\",\"in_steps\":1000000,\"every_steps\":7}");
    seen.id = arm(client, "{\"in_ns\":1000000,\"every_ns\":2000000,\"event\":\"test.bell\","
                          "\"payload\":{\"value\":4711}}");
    ck_assert(line_client_connect(&lines, engine.socket_path));
    line_client_hello(&lines, "lines");
    own = reply_number(line_client_call(&lines, "timer.arm", "{\"in_ns\":3600000000000}"),
                       "result/timer_id");
    await_firings(subscriber, &seen, 3);
    for (unsigned i = 0; i < RESTARTS; i++) {
        restart(keeps);
        returns_await(&returns);
        seen.payloads = 0;
        seen.value = 0;
        await_firings(subscriber, &seen, 3);
        ck_assert_uint_ge(seen.payloads, 1);
        ck_assert_uint_eq(seen.value, 4711);
        /* The one whose firing was being published when the daemon was killed may come once more. */
        ck_assert_uint_le(seen.repeated, i + 1);
        ck_assert_uint_gt(seen.count, i * 3);
    }
    reply = ask("timer.list", "{}");
    ck_assert_int_eq(reply_number(reply, "result/armed"), 3);
    snprintf(path, sizeof path, "result/items/timer_id=%lld/every", (long long)steps);
    ck_assert_int_eq(reply_number(reply, path), 7);
    snprintf(path, sizeof path, "result/items/timer_id=%lld/client_id", (long long)far);
    ck_assert_int_eq(reply_number(reply, path), ec_client_id(client));
    snprintf(path, sizeof path, "result/items/timer_id=%lld/due", (long long)own);
    ck_assert_ptr_null(reply_at(reply, path).text);
    /* An id is not given out again, and an old one still cancels what it was given for. */
    own = arm(client, "{\"in_ns\":3600000000000}");
    ck_assert(own != far && own != steps && own != seen.id);
    snprintf(params, sizeof params, "{\"timer_id\":%lld}", (long long)far);
    result = call(client, "timer.cancel", params);
    free(result);
    line_client_close(&lines);
    ec_subscriber_destroy(subscriber);
    returns_disconnect(&returns, client);
}
END_TEST

/* What falls due while no daemon runs is told when its game is back, once. */
START_TEST(a_timer_that_is_due_while_no_daemon_runs_fires_in_the_next)
{
    struct returns returns;
    struct ec_client *client;
    struct ec_subscriber *subscriber;
    struct seen seen = { 0 };
    struct ec_step_clock physics;
    struct ec_step step;
    int64_t due_ns;
    char *result;

    start(_i == 1);
    client = returns_connect(&returns, "game", engine.socket_path);
    subscriber = listen_to_timers(client);
    ck_assert_int_eq(ec_step_find(client, "physics", &physics), EC_OK);
    result = call(client, "timer.arm", "{\"in_ns\":200000000}");
    seen.id = reply_number(result, "timer_id");
    due_ns = reply_number(result, "due");
    free(result);
    daemon_crash(&engine);
    while (ec_client_now_ns(client) < due_ns) /* or it was due before the kill: as good */
        ck_assert_int_eq(ec_step_wait(&physics, GAME_WAIT_NS, &step), EC_OK);
    start(_i == 1);
    returns_await(&returns);
    await_firings(subscriber, &seen, 1);
    ck_assert_uint_eq(seen.count, 1);
    ck_assert_int_eq(reply_number(ask("timer.list", "{}"), "result/armed"), 0);
    ec_subscriber_destroy(subscriber);
    returns_disconnect(&returns, client);
}
END_TEST

/* Its event's type belonged to another, who is not there any more. */
START_TEST(a_timer_whose_type_is_gone_fires_and_the_log_says_what_is_missing)
{
    struct returns returns;
    struct ec_client *client;
    struct ec_subscriber *subscriber;
    struct line_client lines;
    struct seen seen = { 0 };

    start(false);
    client = returns_connect(&returns, "game", engine.socket_path);
    subscriber = listen_to_timers(client);
    ck_assert(line_client_connect(&lines, engine.socket_path));
    line_client_hello(&lines, "lines");
    ck_assert_ptr_nonnull(
        reply_at(line_client_call(&lines, "event.register",
                                  "{\"name\":\"test.gone\",\"fields\":[{\"name\":\"value\","
                                  "\"type\":\"u32\"}]}"),
                 "result")
            .text);
    seen.id = arm(
        client,
        "{\"in_ns\":1000000,\"every_ns\":2000000,\"event\":\"test.gone\",\"payload\":{\"value\":1}}");
    await_firings(subscriber, &seen, 3);
    restart(false);
    returns_await(&returns);
    await_firings(subscriber, &seen, 3);
    while (!daemon_has_said(&engine, "nobody has registered its type"))
        await_firings(subscriber, &seen, 1); /* it is said from a thread of its own */
    line_client_close(&lines);
    ec_subscriber_destroy(subscriber);
    returns_disconnect(&returns, client);
}
END_TEST

/* The same daemon, and a connection that breaks. */
START_TEST(timers_wait_for_a_game_whose_connection_broke)
{
    struct returns returns;
    struct ec_client *client;
    struct ec_subscriber *subscriber;
    struct seen seen = { 0 };

    start(false);
    client = returns_connect(&returns, "game", engine.socket_path);
    subscriber = listen_to_timers(client);
    seen.id = arm(client, "{\"in_ns\":1000000,\"every_ns\":2000000}");
    await_firings(subscriber, &seen, 3);
    for (unsigned i = 0; i < RESTARTS; i++) {
        ck_assert_uint_eq(returns_break(engine.socket_path), 1);
        returns_await(&returns);
        await_firings(subscriber, &seen, 3);
        ck_assert_uint_eq(seen.repeated, 0);
    }
    ck_assert_int_eq(reply_number(ask("timer.list", "{}"), "result/armed"), 1);
    ec_subscriber_destroy(subscriber);
    returns_disconnect(&returns, client);
    ck_assert_int_eq(reply_number(ask("timer.list", "{}"), "result/armed"), 0);
}
END_TEST

/* ---- checkpoints ------------------------------------------------------------------------------ */

START_TEST(checkpoints_lead_back_in_a_new_daemon)
{
    const bool keeps = _i == 1;
    int64_t first, second, game_ns, step;
    char params[64];
    const char *reply;

    start(keeps);
    ask("clock.step.create", "{\"name\":\"own\",\"rate\":\"1000/3\"}");
    reply = ask("clock.checkpoint", "{\"name\":\"before the boss\"}");
    first = reply_number(reply, "result/checkpoint_id");
    game_ns = reply_number(reply, "result/game_ns");
    step = reply_number(reply, "result/steps/own");
    second = reply_number(ask("clock.checkpoint", "{}"), "result/checkpoint_id");
    ask("clock.step.rate", "{\"name\":\"own\",\"hz\":50}");
    for (unsigned i = 0; i < RESTARTS; i++)
        restart(keeps);
    reply = ask("clock.get", "{}");
    snprintf(params, sizeof params, "result/checkpoints/checkpoint_id=%lld/name", (long long)first);
    ck_assert_str_eq(reply_text(reply, params), "before the boss");
    ask("clock.pause", "{}"); /* so that what it shows can be compared */
    snprintf(params, sizeof params, "{\"checkpoint_id\":%lld}", (long long)first);
    reply = ask("clock.rollback", params);
    ck_assert_int_eq(reply_number(reply, "result/game_ns"), game_ns);
    ck_assert_int_eq(reply_number(reply, "result/steps/name=own/step"), step);
    ck_assert_str_eq(reply_text(reply, "result/steps/name=own/rate"), "1000/3");
    /* What lay ahead of it has not happened, in the next run neither. */
    restart(keeps);
    reply = ask("clock.get", "{}");
    snprintf(params, sizeof params, "result/checkpoints/checkpoint_id=%lld/name",
             (long long)second);
    ck_assert_ptr_null(reply_at(reply, params).text);
    ck_assert_int_eq(reply_number(reply, "result/game_ns"), game_ns);
    ck_assert_int_gt(reply_number(ask("clock.checkpoint", "{}"), "result/checkpoint_id"), second);
}
END_TEST

/* ---- the breaker ------------------------------------------------------------------------------ */

START_TEST(reservations_of_a_game_stand_in_a_new_daemon)
{
    const bool keeps = _i == 1;
    struct returns returns;
    struct ec_client *client;
    struct line_client lines;
    struct ec_breaker_wish wish = { .bytes = 1 << 20, .hold_s = 3600 };
    struct ec_error why = { 0 };
    uint32_t id, other;
    const char *reply;
    char path[96];

    start(keeps);
    client = returns_connect(&returns, "game", engine.socket_path);
    ck_assert_msg(ec_breaker_reserve(client, &wish, &id, &why) == EC_OK, "%s", why.text);
    ck_assert(line_client_connect(&lines, engine.socket_path));
    line_client_hello(&lines, "lines");
    other = (uint32_t)reply_number(
        line_client_call(&lines, "breaker.reserve", "{\"bytes\":4096,\"hold_s\":3600}"),
        "result/reservation_id");
    ck_assert_uint_gt(other, id);
    for (unsigned i = 0; i < RESTARTS; i++) {
        restart(keeps);
        reply = ask("breaker.get", "{}"); /* whether it is back already or not */
        snprintf(path, sizeof path, "result/reservations/reservation_id=%u/bytes", id);
        ck_assert_int_eq(reply_number(reply, path), 1 << 20);
        snprintf(path, sizeof path, "result/reservations/reservation_id=%u/bytes", other);
        ck_assert_ptr_null(reply_at(reply, path).text);
        returns_await(&returns);
    }
    line_client_close(&lines);
    ck_assert_uint_eq(returns_break(engine.socket_path), 1);
    returns_await(&returns);
    ck_assert_msg(ec_breaker_release(client, id, &why) == EC_OK, "%s", why.text);
    ck_assert_ptr_null(reply_at(ask("breaker.get", "{}"), "result/reservations/0").text);
    ck_assert_int_eq(ec_breaker_reserve(client, &wish, &id, &why), EC_OK);
    ck_assert_uint_gt(id, other);
    returns_disconnect(&returns, client);
    ck_assert_ptr_null(reply_at(ask("breaker.get", "{}"), "result/reservations/0").text);
}
END_TEST

START_TEST(a_level_by_hand_stands_in_a_new_daemon_until_it_is_reset)
{
    const bool keeps = _i == 1;
    const char *reply;

    start(keeps);
    ask("breaker.trip", "{\"level\":2,\"reason\":\"a rehearsal\",\"hold_s\":0}");
    for (unsigned i = 0; i < RESTARTS; i++) {
        restart(keeps);
        reply = ask("breaker.get", "{}");
        ck_assert_int_eq(reply_number(reply, "result/manual_level"), 2);
        ck_assert_int_ge(reply_number(reply, "result/level"), 2);
        ck_assert_ptr_nonnull(strstr(reply, "a rehearsal"));
    }
    ask("breaker.reset", "{}");
    restart(keeps);
    ck_assert_int_eq(reply_number(ask("breaker.get", "{}"), "result/manual_level"), 0);
    /* With an end, that holds, too. */
    ask("breaker.trip", "{\"level\":1,\"reason\":\"for a while\",\"hold_s\":3600}");
    restart(keeps);
    reply = ask("breaker.get", "{}");
    ck_assert_int_eq(reply_number(reply, "result/manual_level"), 1);
    ck_assert_int_le(reply_number(reply, "result/hold_s"), 3600);
    ck_assert_int_gt(reply_number(reply, "result/hold_s"), 3000);
}
END_TEST

START_TEST(a_level_by_hand_of_a_run_that_ended_does_not_come_back_later)
{
    start(true);
    ask("breaker.trip", "{\"level\":2,\"reason\":\"a rehearsal\",\"hold_s\":0}");
    daemon_end(&engine);
    while (engine.kept_count > 0) /* the manager throws it away when the unit is stopped by hand */
        close(engine.kept[--engine.kept_count].fd);
    for (unsigned i = 0; i < RESTARTS; i++) {
        if (i == 0)
            start(true);
        else
            restart(true);
        ck_assert_int_eq(reply_number(ask("breaker.get", "{}"), "result/manual_level"), 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("restart_orders");
    TCase *tcase = tcase_create("restart_orders");
    SRunner *runner;
    int failed;

    signal(SIGPIPE, SIG_IGN);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, timers_of_a_game_go_on_and_those_of_a_line_client_end, 0, 2);
    tcase_add_loop_test(tcase, a_timer_that_is_due_while_no_daemon_runs_fires_in_the_next, 0, 2);
    tcase_add_test(tcase, a_timer_whose_type_is_gone_fires_and_the_log_says_what_is_missing);
    tcase_add_test(tcase, timers_wait_for_a_game_whose_connection_broke);
    tcase_add_loop_test(tcase, checkpoints_lead_back_in_a_new_daemon, 0, 2);
    tcase_add_loop_test(tcase, reservations_of_a_game_stand_in_a_new_daemon, 0, 2);
    tcase_add_loop_test(tcase, a_level_by_hand_stands_in_a_new_daemon_until_it_is_reset, 0, 2);
    tcase_add_test(tcase, a_level_by_hand_of_a_run_that_ended_does_not_come_back_later);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
