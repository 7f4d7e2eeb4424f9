/* The event bus between real processes: what is published arrives whole, once and in order, whoever
 * is killed, stopped or hostile meanwhile. */
#include <engine-core/publisher.h>
#include <engine-core/subscriber.h>

#include <check.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/client.h"
#include "support/daemon.h"
#include "support/fixture.h"
#include "support/game.h"
#include "support/reply.h"

struct shot {
    uint64_t number;
    uint64_t check; /* ~number */
    float x, y;
    char who[8];
};

static const struct ec_event_field shot_fields[] = {
    EC_EVENT_FIELD(struct shot, number, EC_FIELD_U64),
    EC_EVENT_FIELD(struct shot, check, EC_FIELD_U64),
    EC_EVENT_FIELD(struct shot, x, EC_FIELD_F32),
    EC_EVENT_FIELD(struct shot, y, EC_FIELD_F32),
    EC_EVENT_FIELD(struct shot, who, EC_FIELD_CHAR),
};

static const struct ec_event_type_desc shot_desc = {
    .name = "game.shot", .fields = shot_fields, .field_count = 5, .bytes = sizeof(struct shot)
};

static struct daemon_process engine;
static struct line_client operator;

static void set_up(void)
{
    fixture_start(&engine, &operator, fixture_patient);
}

static void set_up_default(void)
{
    fixture_start(&engine, &operator, NULL);
}

static void tear_down(void)
{
    fixture_stop(&engine, &operator);
}

/* ---- games in processes of their own --------------------------------------------------------- */

static uint64_t know_shot(struct ec_client *client)
{
    struct ec_error why = { 0 };
    uint64_t type;
    int rc = ec_event_type_register(client, &shot_desc, &type, &why);

    if (rc < 0)
        fprintf(stderr, "%s\n", why.text);
    GAME_CHECK(rc == EC_OK && type == ec_event_type("game.shot"));
    return type;
}

static struct ec_publisher *publisher_of(struct ec_client *client)
{
    struct ec_publisher *publisher;

    GAME_CHECK(ec_publisher_create(client, &(struct ec_publisher_desc) { .ring_bytes = 65536 },
                                   &publisher, NULL) == EC_OK);
    return publisher;
}

static struct ec_subscriber *subscriber_of(struct ec_client *client, enum ec_event_policy policy)
{
    struct ec_subscriber_desc desc = { .types = (const char *[]) { "game.shot" },
                                       .type_count = 1,
                                       .policy = policy };
    struct ec_subscriber *subscriber;
    struct ec_error why = { 0 };
    int rc = ec_subscriber_create(client, &desc, &subscriber, &why);

    if (rc < 0)
        fprintf(stderr, "%s\n", why.text);
    GAME_CHECK(rc == EC_OK);
    return subscriber;
}

static void publish_shot(struct ec_publisher *publisher, uint64_t number)
{
    struct shot *shot;

    GAME_CHECK(ec_publisher_claim_wait(publisher, ec_event_type("game.shot"), sizeof *shot,
                                       GAME_WAIT_NS, (void **)&shot) == EC_OK);
    *shot = (struct shot) { .number = number, .check = ~number, .x = 1.5f, .who = "me" };
    GAME_CHECK(ec_publisher_commit(publisher) == EC_OK);
}

/* What a reader checks of each event. */
struct seen {
    uint64_t next;
    uint64_t count;
    bool gaps; /* allowed */
};

static void on_shot(void *context, const struct ec_event *event)
{
    const struct shot *shot = event->payload;
    struct seen *seen = context;

    GAME_CHECK(event->type == ec_event_type("game.shot") && event->bytes == sizeof *shot);
    GAME_CHECK(shot->check == ~shot->number);
    GAME_CHECK(seen->gaps ? shot->number >= seen->next : shot->number == seen->next);
    seen->next = shot->number + 1;
    seen->count++;
}

/* ---- from process to process ----------------------------------------------------------------- */

#define MANY 200000u

static int publish_many(const struct game_side *side)
{
    struct ec_client *client = game_join("publisher", engine.socket_path);
    struct ec_publisher *publisher;
    struct ec_publisher_stats stats;

    know_shot(client);
    publisher = publisher_of(client);
    game_say(side);
    game_hear(side);
    for (uint64_t n = 0; n < MANY; n++) {
        if (n % 1000 == 0)
            ec_publisher_batch_begin(publisher);
        publish_shot(publisher, n);
        if (n % 1000 == 500)
            ec_publisher_batch_end(publisher);
    }
    ec_publisher_batch_end(publisher);
    ec_publisher_stats(publisher, &stats);
    GAME_CHECK(stats.published == MANY && stats.refused == 0);
    game_hear(side); /* until the readers have read it */
    ec_publisher_destroy(publisher);
    ec_client_destroy(client);
    return 0;
}

static int read_many(const struct game_side *side)
{
    struct ec_client *client = game_join("reader", engine.socket_path);
    struct ec_subscriber *subscriber;
    struct ec_subscriber_stats stats;
    struct seen seen = { 0 };

    know_shot(client);
    subscriber = subscriber_of(client, EC_EVENT_RELIABLE);
    game_say(side);
    while (seen.count < MANY) {
        GAME_CHECK(ec_subscriber_wait(subscriber, GAME_WAIT_NS) == EC_OK);
        ec_subscriber_poll(subscriber, on_shot, &seen, 1000);
    }
    ec_subscriber_stats(subscriber, &stats);
    GAME_CHECK(stats.delivered == MANY && stats.lost_events == 0 && stats.broken_ports == 0);
    ec_subscriber_destroy(subscriber);
    ec_client_destroy(client);
    return 0;
}

START_TEST(every_event_reaches_every_reliable_reader_once_and_in_order)
{
    struct game publisher = game_start(publish_many, NULL), readers[2];

    game_await(&publisher);
    for (int i = 0; i < 2; i++) {
        readers[i] = game_start(read_many, NULL);
        game_await(&readers[i]);
    }
    game_tell(&publisher);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(game_end(&readers[i]), 0);
    game_tell(&publisher);
    ck_assert_int_eq(game_end(&publisher), 0);
}
END_TEST

START_TEST(a_reader_that_was_there_first_gets_a_later_port_from_its_beginning)
{
    struct game reader = game_start(read_many, NULL), publisher;

    game_await(&reader);
    publisher = game_start(publish_many, NULL);
    game_await(&publisher);
    game_tell(&publisher);
    ck_assert_int_eq(game_end(&reader), 0);
    game_tell(&publisher);
    ck_assert_int_eq(game_end(&publisher), 0);
}
END_TEST

/* ---- types ----------------------------------------------------------------------------------- */

struct other_shot {
    uint64_t number;
    uint32_t check;
    float x;
};

static int register_another_shot(const struct game_side *side)
{
    static const struct ec_event_field fields[] = {
        EC_EVENT_FIELD(struct other_shot, number, EC_FIELD_U64),
        EC_EVENT_FIELD(struct other_shot, check, EC_FIELD_U32),
        EC_EVENT_FIELD(struct other_shot, x, EC_FIELD_F32),
    };
    struct ec_event_type_desc desc = {
        .name = "game.shot", .fields = fields, .field_count = 3, .bytes = sizeof(struct other_shot)
    };
    struct ec_client *client = game_join("new build", engine.socket_path);
    struct ec_error why = { 0 };

    (void)side;
    GAME_CHECK(ec_event_type_register(client, &desc, NULL, &why) == EC_ERR_TYPE_CONFLICT);
    GAME_CHECK(strstr(why.text, "old build") != NULL && strstr(why.text, "new build") != NULL);
    GAME_CHECK(strstr(why.text, "check u64[1]") != NULL &&
               strstr(why.text, "check u32[1]") != NULL);
    ec_client_destroy(client);
    return 0;
}

static int register_shot(const struct game_side *side)
{
    struct ec_client *client = game_join("old build", engine.socket_path);

    know_shot(client);
    know_shot(client); /* the same again is no conflict */
    game_say(side);
    game_hear(side);
    ec_client_destroy(client);
    return 0;
}

START_TEST(another_layout_under_the_same_name_is_refused_with_both_names)
{
    struct game first = game_start(register_shot, NULL), second;

    game_await(&first);
    second = game_start(register_another_shot, NULL);
    ck_assert_int_eq(game_end(&second), 0);
    game_tell(&first);
    ck_assert_int_eq(game_end(&first), 0);
}
END_TEST

static int publish_what_is_refused(const struct game_side *side)
{
    struct ec_client *client = game_join("publisher", engine.socket_path);
    struct ec_publisher *publisher;
    struct ec_publisher_stats stats;
    struct shot shot = { 0 };

    know_shot(client);
    publisher = publisher_of(client);
    GAME_CHECK(ec_publisher_publish(publisher, ec_event_type("game.nothing"), &shot, 8) ==
               EC_ERR_TYPE);
    GAME_CHECK(ec_publisher_publish(publisher, ec_event_type("game.shot"), &shot, 8) ==
               EC_ERR_SIZE);
    GAME_CHECK(ec_publisher_publish(publisher, ec_event_type("game.shot"), &shot, 1 << 20) ==
               EC_ERR_SIZE);
    GAME_CHECK(ec_publisher_commit(publisher) == EC_ERR_STATE);
    ec_publisher_stats(publisher, &stats);
    GAME_CHECK(stats.published == 0 && stats.refused == 3);
    game_say(side);
    game_hear(side);
    ec_publisher_destroy(publisher);
    ec_client_destroy(client);
    return 0;
}

START_TEST(an_unknown_type_or_a_wrong_size_is_refused_and_counted)
{
    struct game game = game_start(publish_what_is_refused, NULL);

    game_await(&game);
    ck_assert(line_has(line_client_call(&operator, "event.stats", "{\"type\":\"game.shot\"}"),
                       "refused", "2"));
    game_tell(&game);
    ck_assert_int_eq(game_end(&game), 0);
}
END_TEST

/* ---- JSON ------------------------------------------------------------------------------------ */

#define SHOT_JSON                                                                                  \
    "{\"name\":\"game.shot\",\"fields\":[{\"name\":\"number\",\"type\":\"u64\"},"                  \
    "{\"name\":\"check\",\"type\":\"u64\"},{\"name\":\"x\",\"type\":\"f32\"},"                     \
    "{\"name\":\"y\",\"type\":\"f32\"},{\"name\":\"who\",\"type\":\"char\",\"count\":8}]}"

static int publish_one(const struct game_side *side)
{
    struct ec_client *client = game_join("publisher", engine.socket_path);
    struct ec_publisher *publisher;

    know_shot(client);
    publisher = publisher_of(client);
    game_say(side);
    game_hear(side);
    publish_shot(publisher, UINT64_MAX);
    game_hear(side);
    ec_publisher_destroy(publisher);
    ec_client_destroy(client);
    return 0;
}

START_TEST(a_json_subscriber_gets_what_a_game_publishes_decoded_to_the_bit)
{
    struct game game;
    const char *line;

    ck_assert(
        line_has(line_client_call(&operator, "event.register", SHOT_JSON), "created", "true"));
    game = game_start(publish_one, NULL);
    game_await(&game);
    ck_assert(
        line_has(line_client_call(&operator, "event.subscribe", "{\"types\":[\"game.shot\"]}"),
                 "subscription_id", "1"));
    game_tell(&game);
    line = line_client_receive(&operator);
    ck_assert(line_has(line, "method", "\"event\""));
    ck_assert(line_has(line, "number", "18446744073709551615"));
    ck_assert(line_has(line, "check", "0"));
    ck_assert(line_has(line, "x", "1.5"));
    ck_assert(line_has(line, "who", "\"me\""));
    ck_assert(line_has(line, "sequence", "0"));
    ck_assert(line_has(line_client_call(&operator, "event.unsubscribe", "{\"subscription_id\":1}"),
                       "subscription_id", "1"));
    ck_assert(line_has(line_client_call(&operator, "event.unsubscribe", "{\"subscription_id\":1}"),
                       "code", "-32005"));
    game_tell(&game);
    ck_assert_int_eq(game_end(&game), 0);
}
END_TEST

static int read_one(const struct game_side *side)
{
    struct ec_client *client = game_join("reader", engine.socket_path);
    struct ec_subscriber *subscriber;
    struct seen seen = { .gaps = true };

    know_shot(client);
    subscriber = subscriber_of(client, EC_EVENT_RELIABLE);
    game_say(side);
    GAME_CHECK(ec_subscriber_wait(subscriber, GAME_WAIT_NS) == EC_OK);
    GAME_CHECK(ec_subscriber_poll(subscriber, on_shot, &seen, 10) == 1);
    GAME_CHECK(seen.next == 18446744073709551000u + 1);
    GAME_CHECK(ec_subscriber_wait(subscriber, 0) == EC_ERR_TIMEOUT);
    ec_subscriber_destroy(subscriber);
    ec_client_destroy(client);
    return 0;
}

START_TEST(a_sleeping_game_wakes_for_what_a_tool_publishes)
{
    struct game game = game_start(read_one, NULL);

    game_await(&game);
    ck_assert_ptr_nonnull(strstr(line_client_call(&operator, "event.publish",
                                                  "{\"type\":\"game.shot\",\"payload\":{\"number\":"
                                                  "18446744073709551000,\"check\":615,"
                                                  "\"who\":\"tool\"}}"),
                                 "\"sequence\":"));
    ck_assert_int_eq(game_end(&game), 0);
}
END_TEST

static const struct {
    const char *params;
    const char *code;
    const char *names;
} bad_publishes[] = {
    { "{\"type\":\"game.none\"}", "-32011", "game.none" },
    { "{\"type\":\"breaker.level\"}", "-32003", "engine-cored only" },
    { "{\"type\":\"game.shot\",\"payload\":{\"number\":-1}}", "-32602", "\"param\":\"payload\"" },
    { "{\"type\":\"game.shot\",\"payload\":{\"nunber\":1}}", "-32602", "did you mean number" },
    { "{\"type\":\"game.shot\",\"payload\":{\"number\":-1}}", "-32602", "18446744073709551615" },
    { "{\"type\":\"game.shot\",\"payload\":{\"number\":1.5}}", "-32602", "number" },
    { "{\"type\":\"game.shot\",\"payload\":{\"x\":1e300}}", "-32602", "f32" },
    { "{\"type\":\"game.shot\",\"payload\":{\"who\":\"longer than 8\"}}", "-32602", "8 bytes" },
    { "{\"type\":\"game.shot\",\"payload\":{\"who\":7}}", "-32602", "who" },
};

START_TEST(what_does_not_fit_the_layout_is_refused_and_named)
{
    const char *reply;

    ck_assert(
        line_has(line_client_call(&operator, "event.register", SHOT_JSON), "created", "true"));
    reply = line_client_call(&operator, "event.publish", bad_publishes[_i].params);
    ck_assert_msg(line_has(reply, "code", bad_publishes[_i].code), "%s", reply);
    ck_assert_msg(strstr(reply, bad_publishes[_i].names) != NULL, "%s", reply);
    ck_assert(line_has(line_client_call(&operator, "event.stats", "{\"type\":\"game.shot\"}"),
                       "published", "0"));
}
END_TEST

START_TEST(the_largest_f32_may_be_written_with_nine_digits)
{
    const char *reply;

    ck_assert(
        line_has(line_client_call(&operator, "event.register", SHOT_JSON), "created", "true"));
    reply = line_client_call(&operator, "event.publish",
                             "{\"type\":\"game.shot\",\"payload\":{\"x\":3.40282347e+38,"
                             "\"y\":-3.40282347e+38}}");
    ck_assert_msg(strstr(reply, "\"sequence\":") != NULL, "%s",
                  reply); /* events of the system count */
    reply = line_client_call(&operator, "event.publish",
                             "{\"type\":\"game.shot\",\"payload\":{\"x\":3.4028236e38}}");
    ck_assert_msg(line_has(reply, "code", "-32602"), "%s", reply);
}
END_TEST

static const struct {
    const char *params;
    const char *code;
    const char *names;
} bad_types[] = {
    { "{\"name\":\"a b\",\"max_size\":8}", "-32602", "byte 1" },
    { "{\"name\":\"x\"}", "-32602", "max_size" },
    { "{\"name\":\"x\",\"max_size\":8,\"fields\":[]}", "-32602", "either" },
    { "{\"name\":\"x\",\"fields\":[]}", "-32602", "empty" },
    { "{\"name\":\"x\",\"fields\":[{\"name\":\"a\",\"type\":\"u128\"}]}", "-32602", "u64" },
    { "{\"name\":\"x\",\"fields\":[{\"name\":\"a\",\"type\":\"u8\",\"count\":0}]}", "-32602",
      "count" },
    { "{\"name\":\"x\",\"fields\":[{\"name\":\"a\",\"type\":\"u8\"},{\"name\":\"a\",\"type\":\"u8\"}]}",
      "-32602", "twice" },
    { "{\"name\":\"x\",\"fields\":[{\"name\":\"a\",\"type\":\"u64\",\"count\":268435000}]}",
      "-32001", "a ends" },
    { "{\"name\":\"x\",\"max_size\":8,\"policy\":\"often\"}", "-32602", "often" },
};

START_TEST(a_type_that_makes_no_sense_is_not_registered)
{
    const char *reply = line_client_call(&operator, "event.register", bad_types[_i].params);

    ck_assert_msg(line_has(reply, "code", bad_types[_i].code), "%s", reply);
    ck_assert_msg(strstr(reply, bad_types[_i].names) != NULL, "%s", reply);
    ck_assert_ptr_null(strstr(line_client_call(&operator, "event.list", NULL), "\"x\""));
}
END_TEST

#define UNREAD 20000

static int publish_into_a_full_queue(const struct game_side *side)
{
    struct ec_client *client = game_join("publisher", engine.socket_path);
    struct ec_publisher *publisher;

    know_shot(client);
    publisher = publisher_of(client);
    game_say(side);
    game_hear(side);
    for (uint64_t n = 0; n < UNREAD; n++)
        publish_shot(publisher, n);
    game_say(side);
    game_hear(side);
    ec_publisher_destroy(publisher);
    ec_client_destroy(client);
    return 0;
}

/* The sum of all members "lost" of a line. */
static uint64_t sum_of_lost(const char *line)
{
    uint64_t sum = 0;

    while ((line = strstr(line, "\"lost\":")) != NULL) {
        line += strlen("\"lost\":");
        sum += strtoull(line, NULL, 10);
    }
    return sum;
}

/* Every event is either received or counted in a notification's "lost". */
START_TEST(a_json_subscriber_that_does_not_read_loses_the_oldest_and_is_told_how_many)
{
    struct game game = game_start(publish_into_a_full_queue, NULL);
    struct line_client reader;
    uint64_t received = 0, lost = 0;

    game_await(&game);
    ck_assert(line_client_connect(&reader, engine.socket_path));
    ck_assert(line_has(line_client_call(&reader, "event.subscribe", "{\"types\":[\"game.shot\"]}"),
                       "subscription_id", "1"));
    game_tell(&game);
    game_await(&game); /* all is published, nothing was read */
    while (received + lost < UNREAD) {
        const char *line = line_client_receive(&reader), *at = strstr(line, "\"lost\":");

        ck_assert(line_has(line, "method", "\"event\""));
        received++;
        if (at != NULL)
            lost += strtoull(at + 7, NULL, 10);
    }
    ck_assert_uint_eq(received + lost, UNREAD);
    ck_assert_uint_gt(lost, 0);
    /* The type counts what its queue dropped, the port what was overtaken in the ring. */
    ck_assert_uint_eq(
        sum_of_lost(line_client_call(&operator, "event.stats", "{\"type\":\"game.shot\"}")), lost);
    line_client_close(&reader);
    game_tell(&game);
    ck_assert_int_eq(game_end(&game), 0);
}
END_TEST

static int open_readers_by_hand(const struct game_side *side)
{
    static const struct {
        const char *start;
        const char *answer;
    } starts[] = {
        { "\"tail\"", "\"sequence\":5" },     { "{\"history\":2}", "\"sequence\":3" },
        { "\"keyframe\"", "\"sequence\":1" }, { "\"yesterday\"", NULL },
        { "{\"history\":0}", NULL },          { "{\"history\":4096}", NULL },
    };
    struct ec_client *client = game_join("by hand", engine.socket_path);
    struct ec_publisher *publisher;

    (void)side;
    know_shot(client);
    publisher = publisher_of(client);
    for (uint64_t n = 0; n < 5; n++) {
        if (n == 1)
            ec_publisher_keyframe(publisher);
        publish_shot(publisher, n);
    }
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        struct ec_error why = { 0 };
        char params[128], *result = NULL;
        int rc;

        snprintf(params, sizeof params, "{\"types\":[\"game.shot\"],\"start\":%s}",
                 starts[i].start);
        rc = ec_client_call(client, "event.reader.open", params, &result, &why);
        if (starts[i].answer == NULL)
            GAME_CHECK(rc == EC_ERR_PARAM && strstr(why.text, "4095") != NULL);
        else
            GAME_CHECK(rc == EC_OK && strstr(result, starts[i].answer) != NULL);
        free(result);
    }
    ec_publisher_destroy(publisher);
    ec_client_destroy(client);
    return 0;
}

START_TEST(who_opens_a_reader_by_hand_is_told_where_it_begins)
{
    struct game game = game_start(open_readers_by_hand, NULL);

    ck_assert_int_eq(game_end(&game), 0);
}
END_TEST

static int sync_by_hand(const struct game_side *side)
{
    struct ec_client *client = game_join("by hand", engine.socket_path);
    char *result = NULL, params[128];
    struct ec_publisher *publisher;
    unsigned long long reader;
    const unsigned long long port =
        3; /* the daemon's is the first one, the first one here the second */

    (void)side;
    know_shot(client);
    GAME_CHECK(ec_client_call(client, "event.reader.open", "{\"types\":\"*\"}", &result, NULL) ==
               EC_OK);
    GAME_CHECK(sscanf(result, "{\"reader_id\":%llu", &reader) == 1);
    free(result);
    /* A port whose reader nobody speaks for: its publisher is made all the same. */
    ec_publisher_destroy(publisher_of(client));
    GAME_CHECK(ec_client_call(client, "event.port.sync", "{\"port_id\":999}", &result, NULL) ==
               EC_ERR_NOT_FOUND);
    GAME_CHECK(ec_client_call(client, "event.port.accept", "{\"port_id\":999,\"reader_id\":1}",
                              &result, NULL) == EC_ERR_NOT_FOUND);
    publisher = publisher_of(client);
    snprintf(params, sizeof params, "{\"port_id\":%llu}", port);
    GAME_CHECK(ec_client_call(client, "event.port.sync", params, &result, NULL) == EC_OK);
    GAME_CHECK(strstr(result, "\"complete\":false") != NULL);
    free(result);
    snprintf(params, sizeof params, "{\"port_id\":%llu,\"reader_id\":%llu}", port, reader);
    GAME_CHECK(ec_client_call(client, "event.port.accept", params, &result, NULL) == EC_OK);
    free(result);
    snprintf(params, sizeof params, "{\"port_id\":%llu}", port);
    GAME_CHECK(ec_client_call(client, "event.port.sync", params, &result, NULL) == EC_OK);
    GAME_CHECK(strstr(result, "\"complete\":true") != NULL);
    free(result);
    ec_publisher_destroy(publisher);
    ec_client_destroy(client);
    return 0;
}

START_TEST(a_port_is_complete_once_every_reader_has_said_that_it_knows_it)
{
    struct game game = game_start(sync_by_hand, NULL);

    ck_assert_int_eq(game_end(&game), 0);
}
END_TEST

/* ---- many ports ------------------------------------------------------------------------------ */

#define PORT_GAMES 3
#define PORTS_OF_GAME 40

static int publish_through_many_ports(const struct game_side *side)
{
    struct ec_client *client = game_join("publisher", engine.socket_path);
    struct ec_publisher *publishers[PORTS_OF_GAME];

    know_shot(client);
    for (int i = 0; i < PORTS_OF_GAME; i++)
        publishers[i] = publisher_of(client);
    game_say(side);
    game_hear(side);
    for (int i = 0; i < PORTS_OF_GAME; i++)
        publish_shot(publishers[i], 0);
    game_hear(side);
    for (int i = 0; i < PORTS_OF_GAME; i++)
        ec_publisher_destroy(publishers[i]);
    ec_client_destroy(client);
    return 0;
}

static void count_shot(void *context, const struct ec_event *event)
{
    (void)event;
    ++*(int *)context;
}

static int read_many_ports(const struct game_side *side)
{
    struct ec_client *client = game_join("reader", engine.socket_path);
    struct ec_subscriber *subscriber;
    int count = 0;

    know_shot(client);
    subscriber = subscriber_of(client, EC_EVENT_RELIABLE);
    game_say(side);
    while (count < PORT_GAMES * PORTS_OF_GAME) {
        GAME_CHECK(ec_subscriber_wait(subscriber, GAME_WAIT_NS) == EC_OK);
        ec_subscriber_poll(subscriber, count_shot, &count, 1000);
    }
    ec_subscriber_destroy(subscriber);
    ec_client_destroy(client);
    return 0;
}

START_TEST(a_reader_of_more_ports_than_one_line_carries_gets_them_all)
{
    struct game publishers[PORT_GAMES], reader;

    for (int i = 0; i < PORT_GAMES; i++) {
        publishers[i] = game_start(publish_through_many_ports, NULL);
        game_await(&publishers[i]);
    }
    reader = game_start(read_many_ports, NULL);
    game_await(&reader);
    for (int i = 0; i < PORT_GAMES; i++)
        game_tell(&publishers[i]);
    ck_assert_int_eq(game_end(&reader), 0);
    for (int i = 0; i < PORT_GAMES; i++) {
        game_tell(&publishers[i]);
        ck_assert_int_eq(game_end(&publishers[i]), 0);
    }
}
END_TEST

/* ---- across users ---------------------------------------------------------------------------- */

#define NOBODY 65534

static const char *const open_to_nogroup[] = { "--set", "control.group=nogroup", NULL };

static int publish_as_nobody(const struct game_side *side)
{
    struct ec_client *client;
    struct ec_publisher *publisher;

    GAME_CHECK(setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
    client = game_join("nobody", engine.socket_path);
    know_shot(client);
    publisher = publisher_of(client);
    game_say(side);
    game_hear(side);
    publish_shot(publisher, 0);
    game_hear(side);
    ec_publisher_destroy(publisher);
    ec_client_destroy(client);
    return 0;
}

struct sleeping {
    bool as_nobody; /* else as root, as the daemon */
    bool in_a_loop; /* of its own, by ec_subscriber_fd */
};

static void sleep_until_an_event(struct ec_subscriber *subscriber, bool in_a_loop)
{
    struct pollfd bell = { .events = POLLIN };

    if (!in_a_loop) {
        GAME_CHECK(ec_subscriber_wait(subscriber, GAME_WAIT_NS) == EC_OK);
        return;
    }
    bell.fd = ec_subscriber_fd(subscriber);
    GAME_CHECK(bell.fd >= 0);
    if (ec_subscriber_arm(subscriber) == EC_AGAIN)
        GAME_CHECK(poll(&bell, 1, (int)(GAME_WAIT_NS / 1000000)) == 1);
}

/* Sleeps until the event of the user nobody wakes it, then until the daemon's does. */
static int read_across_users(const struct game_side *side)
{
    const struct sleeping *plan = side->context;
    struct ec_client *client;
    struct ec_subscriber *subscriber;
    struct seen seen = { .gaps = true };

    if (plan->as_nobody)
        GAME_CHECK(setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
    client = game_join("reader", engine.socket_path);
    know_shot(client);
    subscriber = subscriber_of(client, EC_EVENT_RELIABLE);
    game_say(side);
    for (uint64_t count = 1; count <= 2; count++) {
        while (seen.count < count) {
            sleep_until_an_event(subscriber, plan->in_a_loop);
            ec_subscriber_poll(subscriber, on_shot, &seen, 10);
        }
        game_say(side);
    }
    ec_subscriber_destroy(subscriber);
    ec_client_destroy(client);
    return 0;
}

static const struct sleeping sleepings[] = {
    { .as_nobody = false, .in_a_loop = false },
    { .as_nobody = false, .in_a_loop = true },
    { .as_nobody = true, .in_a_loop = false },
    { .as_nobody = true, .in_a_loop = true },
};

START_TEST(a_sleeping_reader_is_woken_by_programs_of_every_user)
{
    struct game publisher, reader;

    fixture_restart(&engine, &operator, open_to_nogroup);
    if (geteuid() != 0)
        return; /* only root can be two users */
    ck_assert_int_eq(chmod(engine.directory, 0755), 0);
    ck_assert_int_eq(chmod(engine.socket_path, 0666), 0);
    publisher = game_start(publish_as_nobody, NULL);
    game_await(&publisher);
    reader = game_start(read_across_users, &sleepings[_i]);
    game_await(&reader);
    game_tell(&publisher);
    game_await(&reader);
    ck_assert_ptr_nonnull(strstr(
        line_client_call(&operator, "event.publish",
                         "{\"type\":\"game.shot\",\"payload\":{\"number\":18446744073709551000,"
                         "\"check\":615}}"),
        "sequence"));
    game_await(&reader);
    ck_assert_int_eq(game_end(&reader), 0);
    game_tell(&publisher);
    ck_assert_int_eq(game_end(&publisher), 0);
}
END_TEST

/* ---- who is killed, stopped or hostile ------------------------------------------------------- */

static int claim_and_hang(const struct game_side *side)
{
    struct ec_client *client = game_join("publisher", engine.socket_path);
    struct ec_publisher *publisher;
    void *payload;

    know_shot(client);
    publisher = publisher_of(client);
    game_say(side);
    game_hear(side);
    publish_shot(publisher, 0);
    GAME_CHECK(ec_publisher_claim(publisher, ec_event_type("game.shot"), sizeof(struct shot),
                                  &payload) == EC_OK);
    memset(payload, 0xff, sizeof(struct shot)); /* written, not committed */
    game_say(side);
    game_hear(side); /* until it is killed */
    return 1;
}

static int read_until_client_left(const struct game_side *side)
{
    struct ec_client *client = game_join("reader", engine.socket_path);
    struct ec_subscriber *shots, *system;
    struct ec_subscriber_desc left = { .types = (const char *[]) { "client.left" },
                                       .type_count = 1 };
    struct seen seen = { 0 };

    know_shot(client);
    shots = subscriber_of(client, EC_EVENT_RELIABLE);
    GAME_CHECK(ec_subscriber_create(client, &left, &system, NULL) == EC_OK);
    game_say(side);
    game_hear(side); /* the other one was killed */
    GAME_CHECK(ec_subscriber_wait(system, GAME_WAIT_NS) == EC_OK);
    while (ec_subscriber_poll(shots, on_shot, &seen, 100) > 0)
        continue;
    GAME_CHECK(seen.count == 1); /* only what was committed */
    ec_subscriber_destroy(shots);
    ec_subscriber_destroy(system);
    ec_client_destroy(client);
    return 0;
}

START_TEST(what_a_killed_publisher_had_claimed_is_never_seen)
{
    struct game publisher = game_start(claim_and_hang, NULL), reader;

    game_await(&publisher);
    reader = game_start(read_until_client_left, NULL);
    game_await(&reader);
    game_tell(&publisher);
    game_await(&publisher);
    ck_assert_int_eq(game_kill(&publisher), -SIGKILL);
    game_tell(&reader);
    ck_assert_int_eq(game_end(&reader), 0);
}
END_TEST

static int publish_for_ever(const struct game_side *side)
{
    struct ec_client *client = game_join("publisher", engine.socket_path);
    struct ec_publisher *publisher;

    know_shot(client);
    publisher = publisher_of(client);
    game_say(side);
    for (uint64_t n = 0; n < UINT64_MAX; n++) /* until it is killed */
        publish_shot(publisher, n);
    return 1;
}

static int read_for_ever(const struct game_side *side)
{
    struct ec_client *client = game_join("reader", engine.socket_path);
    struct ec_subscriber *subscriber;
    struct seen seen = { .gaps = true };

    know_shot(client);
    subscriber = subscriber_of(client, EC_EVENT_RELIABLE);
    game_say(side);
    while (seen.next < UINT64_MAX) { /* until it is killed */
        GAME_CHECK(ec_subscriber_wait(subscriber, GAME_WAIT_NS) == EC_OK);
        ec_subscriber_poll(subscriber, on_shot, &seen, 100);
    }
    return 1;
}

/* Publishers and readers are killed at random moments; a survivor of each kind goes on. */
START_TEST(random_kills_leave_no_stuck_publisher_and_no_descriptor)
{
    const unsigned before = process_descriptors(engine.pid);

    for (int round = 0; round < 20; round++) {
        struct game publisher = game_start(publish_for_ever, NULL),
                    victim = game_start(read_for_ever, NULL);
        struct game reader = game_start(read_for_ever, NULL);

        game_await(&publisher);
        game_await(&victim);
        game_await(&reader);
        for (int i = 0; i < round * 10; i++) /* a moment that differs from round to round */
            line_client_call(&operator, "core.ping", NULL);
        if (round % 2 == 0) {
            ck_assert_int_eq(game_kill(&victim), -SIGKILL);
            ck_assert_int_eq(game_kill(&reader), -SIGKILL);
            ck_assert_int_eq(game_kill(&publisher), -SIGKILL);
        } else {
            ck_assert_int_eq(game_kill(&publisher), -SIGKILL);
            ck_assert_int_eq(game_kill(&victim), -SIGKILL);
            ck_assert_int_eq(game_kill(&reader), -SIGKILL);
        }
        fixture_await_clients(&operator, 1);
    }
    fixture_await_descriptors(&engine, &operator, before);
}
END_TEST

static int publish_past_a_stopped_reader(const struct game_side *side)
{
    struct ec_client *client = game_join("publisher", engine.socket_path);
    struct ec_publisher *publisher;
    struct ec_publisher_stats stats;

    know_shot(client);
    publisher = publisher_of(client);
    game_say(side);
    game_hear(side);                    /* the reader is stopped */
    for (uint64_t n = 0; n < 5000; n++) /* several times the ring */
        publish_shot(publisher, n);
    ec_publisher_stats(publisher, &stats);
    GAME_CHECK(stats.published == 5000 && stats.demoted == 1);
    game_say(side);
    game_hear(side);
    ec_publisher_destroy(publisher);
    ec_client_destroy(client);
    return 0;
}

static void on_lost(void *context, const struct ec_loss *loss)
{
    *(uint64_t *)context += loss->events;
}

static int read_after_a_stop(const struct game_side *side)
{
    struct ec_client *client = game_join("reader", engine.socket_path);
    struct ec_subscriber *subscriber;
    uint64_t lost = 0;
    struct ec_subscriber_desc desc = { .types = (const char *[]) { "game.shot" },
                                       .type_count = 1,
                                       .on_lost = on_lost,
                                       .context = &lost };
    struct seen seen = { .gaps = true };

    know_shot(client);
    GAME_CHECK(ec_subscriber_create(client, &desc, &subscriber, NULL) == EC_OK);
    game_say(side);
    game_hear(side);
    while (ec_subscriber_poll(subscriber, on_shot, &seen, 1000) > 0)
        continue;
    GAME_CHECK(lost > 0 && seen.count + lost == 5000 && seen.next == 5000);
    ec_subscriber_destroy(subscriber);
    ec_client_destroy(client);
    return 0;
}

START_TEST(a_stopped_reader_is_demoted_and_later_told_exactly_what_it_lost)
{
    struct game publisher = game_start(publish_past_a_stopped_reader, NULL), reader;

    game_await(&publisher);
    reader = game_start(read_after_a_stop, NULL);
    game_await(&reader);
    game_stop(&reader);
    game_tell(&publisher);
    game_await(&publisher);
    game_continue(&reader);
    game_tell(&reader);
    ck_assert_int_eq(game_end(&reader), 0);
    game_tell(&publisher);
    ck_assert_int_eq(game_end(&publisher), 0);
    /* What it lost stays counted when it is gone. */
    ck_assert_int_gt(
        reply_number(line_client_call(&operator, "telemetry.get", NULL), "result/event/lost"), 0);
}
END_TEST

static int scribble_over_own_cursors(const struct game_side *side)
{
    struct ec_client *client = game_join("hostile", engine.socket_path);
    struct ec_subscriber *subscriber;
    unsigned char *cursors = client->cursors.base;
    uint32_t random = 12345;

    know_shot(client);
    subscriber = subscriber_of(client, EC_EVENT_RELIABLE);
    (void)subscriber;
    game_say(side);
    for (uint32_t i = 0; getppid() != 1; i++) { /* until it is killed */
        random = random * 1664525u + 1013904223u;
        cursors[random % sizeof(struct ec_cursor_segment)] = (unsigned char)(random >> 24);
        if (i == 2000000)
            game_say(side);
    }
    return 1;
}

/* A cursor that stands somewhere in the ring is that of a slow reader, who is waited for so long. */
static const char *const not_so_patient[] = { "--set", "event.stall_ms=3000", NULL };

START_TEST(a_client_that_scribbles_over_its_cursors_harms_nobody_else)
{
    struct game publisher, hostile, reader;

    fixture_restart(&engine, &operator, not_so_patient);
    publisher = game_start(publish_many, NULL);
    game_await(&publisher);
    hostile = game_start(scribble_over_own_cursors, NULL);
    game_await(&hostile);
    reader = game_start(read_many, NULL);
    game_await(&reader);
    game_tell(&publisher);
    ck_assert_int_eq(game_end(&reader), 0); /* all events, in order */
    game_await(&hostile);
    ck_assert(line_has(line_client_call(&operator, "core.ping", NULL), "pong", "true"));
    ck_assert_ptr_nonnull(strstr(line_client_call(&operator, "event.stats", NULL), "game.shot"));
    ck_assert_ptr_nonnull(strstr(line_client_call(&operator, "client.list", NULL), "hostile"));
    ck_assert_int_eq(game_kill(&hostile), -SIGKILL);
    game_tell(&publisher);
    ck_assert_int_eq(game_end(&publisher), 0);
}
END_TEST

/* A writable mapping of this process, by the name of its memory. */
static unsigned char *find_mapping(const char *name, size_t *bytes)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned char *found = NULL;
    char line[512], access[8];
    unsigned long begin, end;

    GAME_CHECK(maps != NULL);
    while (found == NULL && fgets(line, sizeof line, maps) != NULL) {
        if (strstr(line, name) == NULL || sscanf(line, "%lx-%lx %7s", &begin, &end, access) != 3 ||
            access[1] != 'w')
            continue;
        found = (unsigned char *)begin; // NOLINT(performance-no-int-to-ptr)
        *bytes = end - begin;
    }
    fclose(maps);
    GAME_CHECK(found != NULL);
    return found;
}

/* Random bytes into the port it publishes on, header, marks and ring, as long as it lives. */
static int scribble_over_own_port(const struct game_side *side)
{
    struct ec_client *client = game_join("hostile", engine.socket_path);
    struct ec_publisher *publisher;
    unsigned char *port;
    size_t bytes;
    uint32_t random = 54321;

    know_shot(client);
    publisher = publisher_of(client);
    publish_shot(publisher, 0);
    port = find_mapping("engine-core-port", &bytes);
    game_say(side);
    for (uint32_t i = 0; getppid() != 1; i++) { /* until it is killed */
        random = random * 1664525u + 1013904223u;
        /* Every other one into the words that readers look at first. */
        port[i % 2 == 0 ? random % bytes : random % 8192] = (unsigned char)(random >> 24);
        if (i == 2000000)
            game_say(side);
    }
    return 1;
}

struct honest {
    struct ec_subscriber *subscriber;
    struct seen seen;
};

/* What comes from the hostile one may be anything; what comes from the others must be right. */
static void on_honest_shot(void *context, const struct ec_event *event)
{
    struct honest *honest = context;
    struct ec_port_names names;

    GAME_CHECK(ec_subscriber_port(honest->subscriber, event->port, &names) == EC_OK);
    if (strcmp(names.client, "hostile") != 0)
        on_shot(&honest->seen, event);
}

static int read_among_hostile_ports(const struct game_side *side)
{
    struct ec_client *client = game_join("reader", engine.socket_path);
    struct honest honest = { 0 };

    know_shot(client);
    honest.subscriber = subscriber_of(client, EC_EVENT_RELIABLE);
    game_say(side);
    while (honest.seen.count < MANY) {
        GAME_CHECK(ec_subscriber_wait(honest.subscriber, GAME_WAIT_NS) == EC_OK);
        ec_subscriber_poll(honest.subscriber, on_honest_shot, &honest, 1000);
    }
    ec_subscriber_destroy(honest.subscriber);
    ec_client_destroy(client);
    return 0;
}

START_TEST(a_publisher_that_scribbles_over_its_port_harms_nobody_else)
{
    struct game publisher = game_start(publish_many, NULL), hostile, reader;
    struct line_client follower; /* the daemon reads all ports for it */

    game_await(&publisher);
    ck_assert(line_client_connect(&follower, engine.socket_path));
    ck_assert(line_has(
        line_client_call(&follower, "event.subscribe", "{\"types\":\"*\",\"mode\":\"latest\"}"),
        "subscription_id", "1"));
    hostile = game_start(scribble_over_own_port, NULL);
    game_await(&hostile);
    reader = game_start(read_among_hostile_ports, NULL);
    game_await(&reader);
    game_tell(&publisher);
    ck_assert_int_eq(game_end(&reader), 0); /* all events of the honest one, in order */
    game_await(&hostile);
    ck_assert(line_has(line_client_call(&operator, "core.ping", NULL), "pong", "true"));
    ck_assert_ptr_nonnull(strstr(line_client_call(&operator, "event.stats", NULL), "game.shot"));
    ck_assert_ptr_nonnull(strstr(line_client_call(&operator, "client.list", NULL), "hostile"));
    ck_assert_int_eq(game_kill(&hostile), -SIGKILL);
    game_tell(&publisher);
    ck_assert_int_eq(game_end(&publisher), 0);
    line_client_close(&follower);
}
END_TEST

static int publish_without_a_daemon(const struct game_side *side)
{
    struct ec_client *client = game_join("publisher", engine.socket_path);
    struct ec_publisher *publisher;

    know_shot(client);
    publisher = publisher_of(client);
    game_say(side);
    game_hear(side); /* the daemon is dead */
    for (uint64_t n = 0; n < MANY; n++)
        publish_shot(publisher, n);
    game_hear(side);
    ec_publisher_destroy(publisher);
    ec_client_destroy(client);
    return 0;
}

START_TEST(events_between_games_go_on_when_the_daemon_is_killed)
{
    struct game publisher = game_start(publish_without_a_daemon, NULL), reader;
    struct daemon_process next = { 0 };

    game_await(&publisher);
    reader = game_start(read_many, NULL);
    game_await(&reader);
    ck_assert_int_eq(daemon_kill(&engine), -SIGKILL);
    game_tell(&publisher);
    ck_assert_int_eq(game_end(&reader), 0);
    game_tell(&publisher);
    ck_assert_int_eq(game_end(&publisher), 0);
    engine = next; /* for tear_down */
    ck_assert_msg(daemon_start(&engine, fixture_patient), "%s", engine.why);
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

int main(void)
{
    Suite *suite = suite_create("events");
    TCase *tcase = tcase_create("events"), *stalls = tcase_create("stalls");
    SRunner *runner;
    int failed;

    signal(SIGPIPE, SIG_IGN);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, every_event_reaches_every_reliable_reader_once_and_in_order);
    tcase_add_test(tcase, a_reader_that_was_there_first_gets_a_later_port_from_its_beginning);
    tcase_add_test(tcase, another_layout_under_the_same_name_is_refused_with_both_names);
    tcase_add_test(tcase, an_unknown_type_or_a_wrong_size_is_refused_and_counted);
    tcase_add_test(tcase, a_json_subscriber_gets_what_a_game_publishes_decoded_to_the_bit);
    tcase_add_test(tcase, a_sleeping_game_wakes_for_what_a_tool_publishes);
    tcase_add_test(tcase, the_largest_f32_may_be_written_with_nine_digits);
    tcase_add_loop_test(tcase, what_does_not_fit_the_layout_is_refused_and_named, 0,
                        COUNT(bad_publishes));
    tcase_add_loop_test(tcase, a_type_that_makes_no_sense_is_not_registered, 0, COUNT(bad_types));
    tcase_add_test(tcase,
                   a_json_subscriber_that_does_not_read_loses_the_oldest_and_is_told_how_many);
    tcase_add_test(tcase, who_opens_a_reader_by_hand_is_told_where_it_begins);
    tcase_add_test(tcase, a_port_is_complete_once_every_reader_has_said_that_it_knows_it);
    tcase_add_test(tcase, a_reader_of_more_ports_than_one_line_carries_gets_them_all);
    tcase_add_loop_test(tcase, a_sleeping_reader_is_woken_by_programs_of_every_user, 0,
                        COUNT(sleepings));
    tcase_add_test(tcase, what_a_killed_publisher_had_claimed_is_never_seen);
    tcase_add_test(tcase, random_kills_leave_no_stuck_publisher_and_no_descriptor);
    tcase_add_checked_fixture(stalls, set_up_default, tear_down);
    tcase_add_test(stalls, a_stopped_reader_is_demoted_and_later_told_exactly_what_it_lost);
    tcase_add_test(tcase, a_client_that_scribbles_over_its_cursors_harms_nobody_else);
    tcase_add_test(tcase, a_publisher_that_scribbles_over_its_port_harms_nobody_else);
    tcase_add_test(tcase, events_between_games_go_on_when_the_daemon_is_killed);
    suite_add_tcase(suite, tcase);
    suite_add_tcase(suite, stalls);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
