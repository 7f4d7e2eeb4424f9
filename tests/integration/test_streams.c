/* Streams over a real daemon: events, log lines and metrics, with rates, the newest only, and since. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/daemon.h"
#include "support/reply.h"

#define LINE_BYTES 4096

static struct daemon_process engine;
static struct line_client publisher, reader;

static void start_with(const char *const *arguments)
{
    engine = (struct daemon_process) { 0 };
    ck_assert_msg(daemon_start(&engine, arguments), "%s", engine.why);
    ck_assert(line_client_connect(&publisher, engine.socket_path));
    ck_assert(line_client_connect(&reader, engine.socket_path));
    line_client_hello(&publisher, "publisher");
}

static void set_up(void)
{
    start_with(NULL);
}

static void tear_down(void)
{
    line_client_close(&publisher);
    line_client_close(&reader);
    ck_assert_int_eq(daemon_stop(&engine), 0);
}

/* The next notification of this method; others are passed over. */
static const char *next(struct line_client *client, const char *method)
{
    char wanted[64];
    const char *line;

    snprintf(wanted, sizeof wanted, "\"method\":\"%s\"", method);
    do {
        line = line_client_receive(client);
        ck_assert_ptr_nonnull(line);
    } while (strstr(line, wanted) == NULL);
    return line;
}

static void register_type(void)
{
    line_client_must(&publisher, "event.register",
                     "{\"name\":\"s.number\",\"fields\":[{\"name\":\"n\",\"type\":\"u32\"}]}");
}

static void publish(unsigned from, unsigned to)
{
    char params[128];

    for (unsigned n = from; n <= to; n++) {
        snprintf(params, sizeof params, "{\"type\":\"s.number\",\"payload\":{\"n\":%u}}", n);
        line_client_must(&publisher, "event.publish", params);
    }
}

static void reconnect(void)
{
    line_client_close(&reader);
    ck_assert(line_client_connect(&reader, engine.socket_path));
}

static const char *instance_of(struct line_client *client)
{
    static char instance[32];

    snprintf(instance, sizeof instance, "%s",
             reply_text(line_client_must(client, "core.info", NULL), "result/instance"));
    return instance;
}

/* Subscribe to events with since; instance NULL: the daemon's own. */
static void subscribe_since(const char *instance, int64_t seq)
{
    char params[256];

    snprintf(params, sizeof params,
             "{\"types\":[\"s.number\"],\"since\":{\"instance\":\"%s\",\"seq\":%" PRId64 "}}",
             instance != NULL ? instance : instance_of(&reader), seq);
    line_client_must(&reader, "event.subscribe", params);
}

START_TEST(who_comes_back_gets_what_it_missed)
{
    int64_t seq = 0;

    register_type();
    line_client_must(&reader, "event.subscribe", "{\"types\":[\"s.number\"]}");
    publish(1, 3);
    for (int n = 1; n <= 2; n++) { /* the third is on its way when the connection breaks */
        const char *line = next(&reader, "event");

        ck_assert_int_eq(reply_number(line, "params/payload/n"), n);
        seq = reply_number(line, "params/seq");
    }
    reconnect();
    publish(4, 6);
    subscribe_since(NULL, seq);
    publish(7, 7);
    for (int n = 3; n <= 7; n++) {
        const char *line = next(&reader, "event");

        ck_assert_int_eq(reply_number(line, "params/payload/n"), n);
        ck_assert_int_eq(reply_number(line, "params/seq"), ++seq);
    }
}
END_TEST

START_TEST(who_comes_from_another_run_is_told_of_a_gap)
{
    const char *line;

    register_type();
    subscribe_since("0x1", 41);
    line = next(&reader, "event");
    ck_assert_str_eq(reply_text(line, "params/gap/reason"), "instance");
    ck_assert_int_eq(reply_number(line, "params/gap/from"), 41);
    publish(1, 1);
    ck_assert_int_eq(reply_number(next(&reader, "event"), "params/payload/n"), 1);
}
END_TEST

START_TEST(who_comes_back_too_late_is_told_of_one_gap)
{
    const char *line;
    int64_t seq;

    register_type();
    line_client_must(&reader, "event.subscribe", "{\"types\":[\"s.number\"]}");
    publish(1, 1);
    seq = reply_number(next(&reader, "event"), "params/seq");
    reconnect();
    publish(2, 200); /* of which the ring of 4 KiB holds the last few only */
    subscribe_since(NULL, seq);
    line = next(&reader, "event");
    ck_assert_ptr_nonnull(reply_at(line, "params/gap").text);
    ck_assert_int_eq(reply_number(line, "params/gap/from"), seq);
    publish(201, 201);
    ck_assert_int_eq(reply_number(next(&reader, "event"), "params/payload/n"), 201);
}
END_TEST

START_TEST(what_nobody_subscribed_to_cannot_be_replayed)
{
    register_type();
    line_client_must(&publisher, "event.register", "{\"name\":\"s.other\",\"max_size\":8}");
    line_client_must(&reader, "event.subscribe", "{\"types\":[\"s.other\"]}");
    line_client_must(&publisher, "event.publish", "{\"type\":\"s.other\",\"payload\":{}}");
    next(&reader, "event");
    subscribe_since(NULL, 0);
    ck_assert_str_eq(reply_text(next(&reader, "event"), "params/gap/reason"), "not kept");
}
END_TEST

START_TEST(since_is_checked)
{
    static const char *const wrong[] = {
        "{\"instance\":\"0x1\"}",
        "{\"seq\":1}",
        "{\"instance\":1,\"seq\":1}",
        "{\"instance\":\"0x1\",\"seq\":-1}",
        "{\"instance\":\"0x1\",\"seq\":1,\"more\":2}",
    };
    char params[256];

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(params, sizeof params, "{\"types\":\"*\",\"since\":%s}", wrong[i]);
        ck_assert_int_eq(
            reply_number(line_client_call(&reader, "event.subscribe", params), "error/code"),
            -32602);
    }
    snprintf(params, sizeof params, "{\"types\":\"*\",\"since\":{\"instance\":\"%s\",\"seq\":99}}",
             instance_of(&reader));
    ck_assert_int_eq(
        reply_number(line_client_call(&reader, "event.subscribe", params), "error/code"), -32602);
}
END_TEST

START_TEST(metrics_come_again_and_again_and_say_what_each_topic_has)
{
    const char *line;
    int64_t before;

    line_client_must(&reader, "telemetry.subscribe",
                     "{\"interval_ms\":10,\"topics\":[\"memory\",\"clock\"]}");
    line = next(&reader, "telemetry");
    before = reply_number(line, "params/real_ns");
    ck_assert_int_gt(reply_number(line, "params/memory/total_bytes"), 0);
    ck_assert_ptr_null(reply_at(line, "params/event").text);
    for (int i = 2; i <= 5; i++) {
        line = next(&reader, "telemetry");
        ck_assert_int_eq(reply_number(line, "params/seq"), i);
        ck_assert_int_gt(reply_number(line, "params/real_ns"), before);
        before = reply_number(line, "params/real_ns");
    }
}
END_TEST

START_TEST(two_intervals_do_not_disturb_each_other)
{
    const char *line;
    int64_t slow, fast, seen[2] = { 0 };

    slow = reply_number(line_client_must(&reader, "telemetry.subscribe", "{\"interval_ms\":60}"),
                        "result/subscription_id");
    fast = reply_number(line_client_must(&reader, "telemetry.subscribe", "{\"interval_ms\":10}"),
                        "result/subscription_id");
    while (seen[0] < 3) {
        line = next(&reader, "telemetry");
        seen[reply_number(line, "params/subscription_id") == fast]++;
        ck_assert(reply_number(line, "params/subscription_id") == fast ||
                  reply_number(line, "params/subscription_id") == slow);
    }
    ck_assert_int_ge(seen[1], seen[0] - 1); /* a machine that stands still makes both late */
}
END_TEST

START_TEST(the_history_is_bounded_in_number_and_time)
{
    const char *reply;
    int64_t since;
    char params[128];

    line_client_must(&reader, "telemetry.subscribe",
                     "{\"interval_ms\":100,\"topics\":[\"control\"]}");
    for (int i = 0; i < 5; i++) /* as long as it takes to have some samples of 100 ms */
        next(&reader, "telemetry");
    reply = line_client_must(&publisher, "telemetry.history", "{\"topic\":\"memory\",\"limit\":2}");
    ck_assert_str_eq(reply_text(reply, "result/names/0"), "total_bytes");
    ck_assert_ptr_nonnull(reply_at(reply, "result/items/1").text);
    ck_assert_ptr_null(reply_at(reply, "result/items/2").text);
    since = reply_number(reply, "result/items/1/0");
    ck_assert_int_gt(since, reply_number(reply, "result/items/0/0"));
    snprintf(params, sizeof params, "{\"topic\":\"memory\",\"since_ns\":%" PRId64 "}", since);
    ck_assert_int_eq(
        reply_number(line_client_must(&publisher, "telemetry.history", params), "result/items/0/0"),
        since);
    reply = line_client_must(&publisher, "telemetry.history",
                             "{\"topic\":\"memory\",\"step_ns\":9000000000000000}");
    ck_assert_ptr_nonnull(reply_at(reply, "result/items/0").text);
    ck_assert_ptr_null(reply_at(reply, "result/items/2").text); /* two periods at most */
}
END_TEST

START_TEST(the_log_is_followed_from_the_past_on)
{
    const char *line;

    line_client_must(&reader, "log.tail", "{\"lines\":100}");
    do
        line = next(&reader, "log"); /* other threads may have had something to say after it */
    while (strstr(line, "listens on") == NULL);
    ck_assert_str_eq(reply_text(line, "params/module"), "main");
    ck_assert_str_eq(reply_text(line, "params/level"), "info");
    line_client_must(&publisher, "log.level", "{\"module\":\"clients\",\"level\":\"debug\"}");
    line_client_close(&publisher);
    do
        line = next(&reader, "log");
    while (strstr(line, "hung up") == NULL);
    ck_assert_str_eq(reply_text(line, "params/level"), "debug");
}
END_TEST

START_TEST(a_level_of_a_module_does_not_change_the_others)
{
    const char *reply =
        line_client_must(&publisher, "log.level", "{\"module\":\"events\",\"level\":\"error\"}");

    ck_assert_str_eq(reply_text(reply, "result/modules/events"), "error");
    reply = line_client_must(&publisher, "log.level", NULL);
    ck_assert_str_eq(reply_text(reply, "result/modules/events"), "error");
    ck_assert_str_eq(reply_text(reply, "result/modules/control"), "info");
    line_client_must(&publisher, "log.level", "{\"level\":\"warning\"}");
    reply = line_client_must(&publisher, "log.level", NULL);
    ck_assert_str_eq(reply_text(reply, "result/level"), "warning");
    ck_assert_str_eq(reply_text(reply, "result/modules/control"), "warning");
    ck_assert_str_eq(reply_text(reply, "result/modules/events"), "error");
    reply = line_client_call(&publisher, "log.level", "{\"module\":\"event\",\"level\":\"info\"}");
    ck_assert_ptr_nonnull(strstr(reply, "did you mean events?"));
}
END_TEST

START_TEST(an_observer_reads_levels_and_configuration_but_sets_none)
{
    ck_assert_ptr_nonnull(
        strstr(line_client_call(&reader, "core.hello",
                                "{\"name\":\"looker\",\"protocol\":1,\"role\":\"observer\"}"),
               "\"role\":\"observer\""));
    line_client_must(&reader, "log.level", NULL);
    line_client_must(&reader, "config.get", NULL);
    ck_assert_int_eq(
        reply_number(line_client_call(&reader, "log.level", "{\"level\":\"debug\"}"), "error/code"),
        -32003);
    ck_assert_int_eq(reply_number(line_client_call(&reader, "config.set",
                                                   "{\"key\":\"control.batch\",\"value\":1}"),
                                  "error/code"),
                     -32003);
}
END_TEST

START_TEST(a_stream_ends_when_it_is_ended_and_only_by_its_owner)
{
    static const char *const streams[][3] = {
        { "event.subscribe", "{\"types\":\"*\"}", "event.unsubscribe" },
        { "telemetry.subscribe", "{\"interval_ms\":1000}", "telemetry.unsubscribe" },
        { "log.tail", "{}", "log.unsubscribe" },
    };
    const int64_t id = reply_number(line_client_must(&reader, streams[_i][0], streams[_i][1]),
                                    "result/subscription_id");
    char params[64];

    snprintf(params, sizeof params, "{\"subscription_id\":%" PRId64 "}", id);
    ck_assert_int_eq(
        reply_number(line_client_call(&publisher, streams[_i][2], params), "error/code"), -32005);
    line_client_must(&reader, streams[_i][2], params);
    ck_assert_int_eq(reply_number(line_client_call(&reader, streams[_i][2], params), "error/code"),
                     -32005);
}
END_TEST

static void set_up_small(void)
{
    static const char *const small[] = { "--set", "control.replay_bytes=4096", NULL };

    start_with(small);
}

static void set_up_fast(void)
{
    static const char *const fast[] = { "--set", "telemetry.interval_ms=100", NULL };

    start_with(fast);
}

int main(void)
{
    Suite *suite = suite_create("streams");
    TCase *usual = tcase_create("usual"), *small = tcase_create("small ring");
    TCase *fast = tcase_create("fast history");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(usual, set_up, tear_down);
    tcase_add_checked_fixture(small, set_up_small, tear_down);
    tcase_add_checked_fixture(fast, set_up_fast, tear_down);
    tcase_set_timeout(usual, 0);
    tcase_set_timeout(small, 0);
    tcase_set_timeout(fast, 0);
    tcase_add_test(usual, who_comes_back_gets_what_it_missed);
    tcase_add_test(usual, who_comes_from_another_run_is_told_of_a_gap);
    tcase_add_test(small, who_comes_back_too_late_is_told_of_one_gap);
    tcase_add_test(usual, what_nobody_subscribed_to_cannot_be_replayed);
    tcase_add_test(usual, since_is_checked);
    tcase_add_test(usual, metrics_come_again_and_again_and_say_what_each_topic_has);
    tcase_add_test(usual, two_intervals_do_not_disturb_each_other);
    tcase_add_test(fast, the_history_is_bounded_in_number_and_time);
    tcase_add_test(usual, the_log_is_followed_from_the_past_on);
    tcase_add_test(usual, a_level_of_a_module_does_not_change_the_others);
    tcase_add_test(usual, an_observer_reads_levels_and_configuration_but_sets_none);
    tcase_add_loop_test(usual, a_stream_ends_when_it_is_ended_and_only_by_its_owner, 0, 3);
    suite_add_tcase(suite, usual);
    suite_add_tcase(suite, small);
    suite_add_tcase(suite, fast);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
