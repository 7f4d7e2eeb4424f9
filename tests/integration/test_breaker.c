/* The breaker by hand: games see the level, it really evicts, and it ends by itself. */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <engine-core/breaker.h>
#include <engine-core/client.h>

#include "support/daemon.h"

static struct daemon_process engine;
static struct line_client operator;
static struct ec_client *game;

static void set_up(void)
{
    struct ec_error why = { 0 };

    ck_assert_msg(daemon_start(&engine, NULL), "%s", engine.why);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    line_client_hello(&operator, "operator");
    ck_assert_msg(ec_client_create(&(struct ec_client_desc) { .name = "game",
                                                              .socket_path = engine.socket_path },
                                   &game, &why) == EC_OK,
                  "%s", why.text);
}

static void tear_down(void)
{
    ec_client_destroy(game);
    line_client_close(&operator);
    ck_assert_int_eq(daemon_stop(&engine), 0);
}

/* The next breaker.level event. */
static const char *level_event(void)
{
    const char *line;

    do {
        line = line_client_receive(&operator);
        ck_assert_ptr_nonnull(line);
    } while (!line_has(line, "type", "\"breaker.level\""));
    return line;
}

static void subscribe(void)
{
    const char *reply =
        line_client_call(&operator, "event.subscribe", "{\"types\":[\"breaker.level\"]}");

    ck_assert_msg(strstr(reply, "subscription_id") != NULL, "%s", reply);
}

START_TEST(a_game_sees_the_level_and_its_answer_is_reported)
{
    const char *reply = line_client_call(&operator, "breaker.trip",
                                         "{\"level\":2,\"reason\":\"drill\",\"hold_s\":0}");

    ck_assert_msg(line_has(reply, "level", "2"), "%s", reply);
    ck_assert(line_has(reply, "cause", "\"manual\""));
    ck_assert(line_has(reply, "reason", "\"drill\""));
    ck_assert(line_has(reply, "acked_level", "0"));
    ck_assert(line_has(reply, "ack_latency_ns", "null"));
    ck_assert_uint_eq(ec_breaker_level(game), EC_BREAKER_EVICTION);
    ec_breaker_ack(game, EC_BREAKER_EVICTION, 5000);
    reply = line_client_call(&operator, "breaker.get", NULL);
    ck_assert_msg(line_has(reply, "acked_level", "2"), "%s", reply);
    ck_assert(line_has(reply, "freed_bytes", "5000"));
    ck_assert(!line_has(reply, "ack_latency_ns", "null"));

    reply = line_client_call(&operator, "breaker.reset", NULL);
    ck_assert_msg(line_has(reply, "level", "0"), "%s", reply);
    ck_assert(line_has(reply, "cause", "\"none\""));
    ck_assert(line_has(reply, "acked_level", "0")); /* that answer was to another level */
    ck_assert_uint_eq(ec_breaker_level(game), EC_BREAKER_NORMAL);
}
END_TEST

/* A game that only looks at the level answers as fast as it can: what was asked of it at that level must
 * be asked by then, or its answer would be to nothing. */
struct looker {
    _Atomic bool over;
    _Atomic uint32_t seen;
};

static void *answer_each_level_at_once(void *context)
{
    struct looker *looker = context;

    while (!atomic_load(&looker->over)) {
        const uint32_t level = ec_breaker_level(game);

        if (level == atomic_load(&looker->seen))
            continue;
        if (level >= EC_BREAKER_EVICTION)
            ec_breaker_ack(game, level, 100);
        atomic_store(&looker->seen, level);
    }
    return NULL;
}

START_TEST(an_answer_that_comes_with_the_level_is_one_to_its_order)
{
    struct looker looker = { .seen = EC_BREAKER_NORMAL };
    const char *reply;
    pthread_t thread;

    ec_breaker_offer(game, 1000000);
    ck_assert_int_eq(pthread_create(&thread, NULL, answer_each_level_at_once, &looker), 0);
    for (int i = 0; i < 200; i++) {
        line_client_call(&operator, "breaker.trip", "{\"level\":2,\"reason\":\"drill\"}");
        do
            reply = line_client_call(&operator, "breaker.get", NULL);
        while (!line_has(reply, "acked_level", "2"));
        line_client_call(&operator, "breaker.reset", NULL);
        while (atomic_load(&looker.seen) != EC_BREAKER_NORMAL)
            sched_yield();
    }
    atomic_store(&looker.over, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

START_TEST(each_change_is_an_event_with_both_levels)
{
    const char *line;

    subscribe();
    line_client_call(&operator, "breaker.trip", "{\"level\":1,\"reason\":\"first\"}");
    line = level_event();
    ck_assert_msg(line_has(line, "from", "0") && line_has(line, "to", "1"), "%s", line);
    ck_assert(line_has(line, "reason", "\"first\""));
    line_client_call(&operator, "breaker.trip", "{\"level\":3,\"reason\":\"second\"}");
    line = level_event();
    ck_assert_msg(line_has(line, "from", "1") && line_has(line, "to", "3"), "%s", line);
}
END_TEST

START_TEST(a_held_level_ends_by_itself)
{
    const char *line;

    subscribe();
    line = line_client_call(&operator, "breaker.trip",
                            "{\"level\":1,\"reason\":\"short\",\"hold_s\":1}");
    ck_assert_msg(line_has(line, "hold_s", "1"), "%s", line);
    line = level_event();
    if (line_has(line, "to", "1"))
        line = level_event();
    ck_assert_msg(line_has(line, "from", "1") && line_has(line, "to", "0"), "%s", line);
    ck_assert_uint_eq(ec_breaker_level(game), EC_BREAKER_NORMAL);
}
END_TEST

START_TEST(level_2_evicts_what_nobody_holds)
{
    char path[160], params[256];
    const char *reply;
    FILE *file;

    snprintf(path, sizeof path, "%s/one.bin", engine.directory);
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < 10000; i++)
        fputc('x', file);
    fclose(file);
    snprintf(params, sizeof params, "{\"path\":\"%s\"}", engine.directory);
    line_client_call(&operator, "resource.mount", params);
    line_client_call(&operator, "resource.define",
                     "{\"group\":\"level1\",\"residency\":\"evictable\",\"resources\":"
                     "[{\"name\":\"one\",\"path\":\"one.bin\",\"kind\":\"raw\"}]}");
    reply = line_client_call(&operator, "resource.load", "{\"group\":\"level1\"}");
    ck_assert_msg(line_has(reply, "state", "\"ready\""), "%s", reply);

    reply = line_client_call(&operator, "breaker.trip", "{\"level\":1,\"reason\":\"warn\"}");
    ck_assert_msg(line_has(reply, "evicted", "[]") && line_has(reply, "freed_bytes", "0"), "%s",
                  reply);
    reply = line_client_call(&operator, "breaker.trip", "{\"level\":2,\"reason\":\"evict\"}");
    ck_assert_msg(line_has(reply, "evicted", "[\"level1\"]"), "%s", reply);
    ck_assert_msg(line_has(reply, "freed_bytes", "12288"), "%s", reply);
    reply = line_client_call(&operator, "resource.list", NULL);
    ck_assert_msg(line_has(reply, "state", "\"evicted\""), "%s", reply);
    unlink(path);
}
END_TEST

static const char *const bad_trips[] = {
    "{\"level\":4,\"reason\":\"x\"}",
    "{\"level\":-1,\"reason\":\"x\"}",
    "{\"level\":1}",
    "{\"level\":1,\"reason\":\"\"}",
    "{\"level\":1,\"reason\":\"x\",\"hold_s\":3601}",
};

START_TEST(a_wrong_trip_changes_nothing)
{
    const char *reply = line_client_call(&operator, "breaker.trip", bad_trips[_i]);

    ck_assert_msg(line_has(reply, "code", "-32602"), "%s", reply);
    ck_assert(line_has(line_client_call(&operator, "breaker.get", NULL), "level", "0"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("breaker");
    TCase *tcase = tcase_create("breaker");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_game_sees_the_level_and_its_answer_is_reported);
    tcase_add_test(tcase, an_answer_that_comes_with_the_level_is_one_to_its_order);
    tcase_add_test(tcase, each_change_is_an_event_with_both_levels);
    tcase_add_test(tcase, a_held_level_ends_by_itself);
    tcase_add_test(tcase, level_2_evicts_what_nobody_holds);
    tcase_add_loop_test(tcase, a_wrong_trip_changes_nothing, 0,
                        (int)(sizeof bad_trips / sizeof bad_trips[0]));
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
