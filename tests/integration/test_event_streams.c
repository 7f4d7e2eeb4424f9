/* A JSON subscriber that asks for less than all is told exactly how much it did not get. */
#include <engine-core/publisher.h>

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/event_port.h"
#include "support/daemon.h"
#include "support/fixture.h"
#include "support/game.h"

#define COUNTED(FIELD, ARRAY) FIELD(uint64_t, number)
EC_EVENT_STRUCT(counted, "test.counted", COUNTED);
EC_EVENT_STRUCT(other, "test.other", COUNTED);

static struct daemon_process engine;
static struct line_client reader;

static void set_up(void)
{
    fixture_start(&engine, &reader, NULL);
}

static void tear_down(void)
{
    fixture_stop(&engine, &reader);
}

/* ---- games ----------------------------------------------------------------------------------- */

static struct ec_publisher *open_publisher(const char *name)
{
    struct ec_client *client = game_join(name, engine.socket_path);
    struct ec_publisher *publisher;

    GAME_CHECK(ec_event_type_register(client, counted_desc(), NULL, NULL) == EC_OK);
    GAME_CHECK(ec_event_type_register(client, other_desc(), NULL, NULL) == EC_OK);
    GAME_CHECK(ec_publisher_create(client, &(struct ec_publisher_desc) { .ring_bytes = 65536 },
                                   &publisher, NULL) == EC_OK);
    return publisher;
}

static void publish(struct ec_publisher *publisher, uint64_t type, uint64_t number)
{
    struct counted counted = { .number = number };

    GAME_CHECK(ec_publisher_publish(publisher, type, &counted, sizeof counted) == EC_OK);
}

static int publish_for_ever(const struct game_side *side)
{
    struct ec_publisher *publisher = open_publisher("publisher");

    game_say(side);
    game_hear(side);
    for (uint64_t n = 0; n < UINT64_MAX; n++) /* until it is killed */
        publish(publisher, counted_type(), n);
    return 1;
}

#define MANY 20000u

static int publish_many(const struct game_side *side)
{
    struct ec_publisher *publisher = open_publisher("publisher");

    game_say(side);
    game_hear(side);
    for (uint64_t n = 0; n < MANY; n++)
        publish(publisher, counted_type(), n);
    game_say(side);
    game_hear(side); /* until it is killed */
    return 1;
}

static int publish_two_types(const struct game_side *side)
{
    struct ec_publisher *publisher = open_publisher("publisher");

    game_say(side);
    game_hear(side);
    for (uint64_t n = 0; n < 10; n++) {
        publish(publisher, counted_type(), n);
        publish(publisher, other_type(), n);
    }
    game_hear(side); /* until it is killed */
    return 1;
}

/* The library refuses to publish what is larger than its type; who has the ring can write it all the same. */
static int publish_one_too_large(const struct game_side *side)
{
    struct ec_publisher *publisher = open_publisher("hostile");
    struct ec_event_header *header;
    void *payload;

    game_say(side);
    game_hear(side);
    publish(publisher, counted_type(), 0);
    ec_publisher_batch_begin(publisher);
    GAME_CHECK(ec_publisher_claim(publisher, counted_type(), sizeof(struct counted), &payload) ==
               EC_OK);
    memset(payload, 0, sizeof(struct counted));
    GAME_CHECK(ec_publisher_commit(publisher) == EC_OK);
    header = (struct ec_event_header *)payload - 1;
    header->bytes += 8; /* as far as it is padded */
    ec_publisher_batch_end(publisher);
    publish(publisher, counted_type(), 2);
    game_hear(side); /* until it is killed */
    return 1;
}

/* ---- notifications --------------------------------------------------------------------------- */

static uint64_t member(const char *line, const char *name)
{
    char key[32];
    const char *at;

    snprintf(key, sizeof key, "\"%s\":", name);
    at = strstr(line, key);
    return at != NULL ? strtoull(at + strlen(key), NULL, 10) : 0;
}

struct received {
    uint64_t events, lost, skipped;
    uint64_t sequence; /* of the last one */
};

/* The next event; everything before it was received, lost or skipped. */
static void receive(struct received *received)
{
    const char *line = line_client_receive(&reader);

    ck_assert_ptr_nonnull(line);
    ck_assert(line_has(line, "method", "\"event\""));
    received->events++;
    received->lost += member(line, "lost");
    received->skipped += member(line, "skipped");
    received->sequence = member(line, "sequence");
    ck_assert_uint_eq(member(line, "number"), received->sequence);
    ck_assert_uint_eq(received->events + received->lost + received->skipped,
                      received->sequence + 1);
}

static struct game start_and_subscribe(game_fn *fn, const char *params)
{
    struct game game = game_start(fn, NULL);

    game_await(&game);
    ck_assert_uint_eq(
        member(line_client_call(&reader, "event.subscribe", params), "subscription_id"), 1);
    game_tell(&game);
    return game;
}

/* The publisher is as fast as it can: of its events most are skipped, some may be lost. */
START_TEST(what_comes_faster_than_the_rate_is_skipped_and_counted)
{
    struct game game =
        start_and_subscribe(publish_for_ever, "{\"types\":[\"test.counted\"],\"max_rate_hz\":50}");
    struct received received = { 0 };

    while (received.events < 20)
        receive(&received);
    ck_assert_uint_gt(received.skipped, received.events);
    ck_assert_int_eq(game_kill(&game), -SIGKILL);
}
END_TEST

START_TEST(the_newest_event_always_arrives_at_the_pace_that_was_asked_for)
{
    struct game game = start_and_subscribe(
        publish_many, "{\"types\":[\"test.counted\"],\"max_rate_hz\":10,\"mode\":\"latest\"}");
    struct received received = { 0 };

    while (received.events == 0 || received.sequence != MANY - 1)
        receive(&received);
    ck_assert_uint_gt(received.skipped + received.lost, 0);
    ck_assert_int_eq(game_kill(&game), -SIGKILL);
}
END_TEST

START_TEST(a_slow_reader_of_the_newest_finds_it_when_it_reads_at_last)
{
    struct game game =
        start_and_subscribe(publish_many, "{\"types\":[\"test.counted\"],\"mode\":\"latest\"}");
    struct received received = { 0 };

    game_await(&game); /* all is published, nothing was read */
    while (received.events == 0 || received.sequence != MANY - 1)
        receive(&received);
    ck_assert_uint_gt(received.skipped + received.lost, 0);
    ck_assert_int_eq(game_kill(&game), -SIGKILL);
}
END_TEST

START_TEST(each_type_has_a_pace_of_its_own)
{
    struct game game = start_and_subscribe(
        publish_two_types, "{\"types\":[\"test.counted\",\"test.other\"],\"max_rate_hz\":0.001}");
    const char *line = line_client_receive(&reader);

    ck_assert(line_has(line, "type", "\"test.counted\""));
    ck_assert(line_has(line, "number", "0"));
    line = line_client_receive(&reader);
    ck_assert(line_has(line, "type", "\"test.other\""));
    ck_assert(line_has(line, "number", "0"));
    ck_assert_ptr_null(strstr(line, "skipped"));
    ck_assert_int_eq(game_kill(&game), -SIGKILL);
}
END_TEST

START_TEST(a_subscription_of_all_events_skips_none_beside_one_with_a_rate)
{
    struct game game =
        start_and_subscribe(publish_two_types, "{\"types\":\"*\",\"max_rate_hz\":0.001}");
    uint64_t slow = 0, all = 0;

    ck_assert_int_eq(game_kill(&game), -SIGKILL);
    game = game_start(publish_two_types, NULL);
    game_await(&game);
    ck_assert_uint_eq(
        member(line_client_call(&reader, "event.subscribe", "{\"types\":[\"test.other\"]}"),
               "subscription_id"),
        2);
    game_tell(&game);
    while (all < 10) {
        const char *line = line_client_receive(&reader);

        if (member(line, "subscription_id") == 2) {
            ck_assert_uint_eq(member(line, "number"), all++);
            ck_assert_ptr_null(strstr(line, "skipped"));
        } else {
            slow++;
        }
    }
    ck_assert_uint_le(slow, 5); /* one of each type that there was */
    ck_assert_int_eq(game_kill(&game), -SIGKILL);
}
END_TEST

START_TEST(an_event_that_is_larger_than_its_type_is_lost_and_counted)
{
    struct game game = start_and_subscribe(publish_one_too_large, "{\"types\":[\"test.counted\"]}");
    struct received received = { 0 };

    receive(&received);
    receive(&received); /* it checks that received, lost and skipped make up the sequence */
    ck_assert_uint_eq(received.events, 2);
    ck_assert_uint_eq(received.lost, 1);
    ck_assert_int_eq(game_kill(&game), -SIGKILL);
}
END_TEST

static const struct {
    const char *params;
    const char *names;
} bad_paces[] = {
    { "{\"types\":\"*\",\"mode\":\"some\"}", "some" },
    { "{\"types\":\"*\",\"max_rate_hz\":0}", "max_rate_hz" },
    { "{\"types\":\"*\",\"max_rate_hz\":-1}", "max_rate_hz" },
    { "{\"types\":\"*\",\"max_rate_hz\":1000001}", "max_rate_hz" },
    { "{\"types\":\"*\",\"max_rate_hz\":\"10\"}", "max_rate_hz" },
};

#define SLOW_READERS 24
#define WIDE_EVENTS 2000 /* of over 1 KiB as text: more than the socket and the output take */
#define QUEUE_KIB 1024

/* How many of the listed clients have lost nothing. */
static unsigned without_loss(const char *list)
{
    static const char member_text[] = "\"lost_notifications\":0";
    unsigned count = 0;

    for (const char *at = list; (at = strstr(at, member_text)) != NULL; at += sizeof member_text)
        count++;
    return count;
}

/* What waits for slow readers is kept once, however many of them there are. */
START_TEST(what_waits_for_several_readers_is_kept_once)
{
    static struct line_client slow[SLOW_READERS];
    static char params[2048];
    long one_kib, all_kib;

    line_client_must(&reader, "config.set", "{\"key\":\"event.queue_bytes\",\"value\":1048576}");
    line_client_must(
        &reader, "event.register",
        "{\"name\":\"test.wide\",\"fields\":[{\"name\":\"text\",\"type\":\"char\",\"count\":1024}]}");
    snprintf(params, sizeof params, "{\"type\":\"test.wide\",\"payload\":{\"text\":\"%01000d\"}}",
             7);
    for (int i = 0; i < SLOW_READERS; i++) {
        ck_assert(line_client_connect(&slow[i], engine.socket_path));
        if (i == 0)
            line_client_must(&slow[i], "event.subscribe", "{\"types\":[\"test.wide\"]}");
    }
    for (int i = 0; i < WIDE_EVENTS; i++)
        line_client_must(&reader, "event.publish", params);
    one_kib = process_resident_kib(engine.pid); /* one queue is full */
    for (int i = 1; i < SLOW_READERS; i++)
        line_client_must(&slow[i], "event.subscribe", "{\"types\":[\"test.wide\"]}");
    for (int i = 0; i < WIDE_EVENTS; i++)
        line_client_must(&reader, "event.publish", params);
    all_kib = process_resident_kib(engine.pid); /* all are */
    ck_assert_uint_eq(without_loss(line_client_call(&reader, "client.list", NULL)), 1); /* reader */
    ck_assert_msg(all_kib - one_kib < SLOW_READERS * QUEUE_KIB / 2, "%ld KiB, then %ld KiB",
                  one_kib, all_kib);
    for (int i = 0; i < SLOW_READERS; i++)
        line_client_close(&slow[i]);
}
END_TEST

START_TEST(a_pace_that_makes_no_sense_is_refused_and_named)
{
    const char *reply = line_client_call(&reader, "event.subscribe", bad_paces[_i].params);

    ck_assert(line_has(reply, "code", "-32602"));
    ck_assert_ptr_nonnull(strstr(reply, bad_paces[_i].names));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event streams");
    TCase *tcase = tcase_create("event streams");
    SRunner *runner;
    int failed;

    signal(SIGPIPE, SIG_IGN);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, what_comes_faster_than_the_rate_is_skipped_and_counted);
    tcase_add_test(tcase, the_newest_event_always_arrives_at_the_pace_that_was_asked_for);
    tcase_add_test(tcase, a_slow_reader_of_the_newest_finds_it_when_it_reads_at_last);
    tcase_add_test(tcase, each_type_has_a_pace_of_its_own);
    tcase_add_test(tcase, what_waits_for_several_readers_is_kept_once);
    tcase_add_test(tcase, a_subscription_of_all_events_skips_none_beside_one_with_a_rate);
    tcase_add_test(tcase, an_event_that_is_larger_than_its_type_is_lost_and_counted);
    tcase_add_loop_test(tcase, a_pace_that_makes_no_sense_is_refused_and_named, 0,
                        (int)(sizeof bad_paces / sizeof bad_paces[0]));
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
