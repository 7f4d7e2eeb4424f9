/* The daemon is killed and started again under games that work. They go on without it, come back by
 * themselves as who they were, and nothing that was between them is lost.
 *
 * The same when it lives and only the connections break.
 *
 * EC_RESTARTS is how often it is killed in the longer tests (default 3). */
#include <engine-core/clock.h>
#include <engine-core/publisher.h>
#include <engine-core/resource.h>
#include <engine-core/subscriber.h>

#include <check.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/client.h"
#include "support/daemon.h"
#include "support/engine_ctl.h"
#include "support/game.h"
#include "support/reply.h"
#include "support/returns.h"

/* How soon games are back, after the new daemon says that it is ready. The design says 3 s; a test
 * machine may stand still for a while. */
#define BACK_NS_MAX 60000000000ll

static struct daemon_process engine;

/* Who is let stand still by the machine must not be taken for a slow reader, or for a game that does not
 * come back. */
#define PATIENT "--set", "event.stall_ms=60000", "--set", "client.grace_s=60"
static const char *const patient[] = { PATIENT, NULL };

static void set_up(void)
{
    engine = (struct daemon_process) { 0 };
    ck_assert_msg(daemon_start(&engine, patient), "%s", engine.why);
}

static void tear_down(void)
{
    ck_assert_int_eq(daemon_stop(&engine), 0);
}

static unsigned restarts(void)
{
    const char *text = getenv("EC_RESTARTS");

    return text != NULL && text[0] != '\0' ? (unsigned)strtoul(text, NULL, 10) : 3;
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- games ----------------------------------------------------------------------------------- */

/* How often a game breaks its own connection, and how often it came back; nothing of the daemon's is
 * touched. 0: never. */
static unsigned breaks_wanted;
static _Atomic unsigned breaks, comebacks;

/* Says a byte each time that the connection stands again. */
static void on_state(void *context, enum ec_client_state state)
{
    if (state != EC_CONNECTED)
        return;
    atomic_fetch_add(&comebacks, 1);
    game_say(context);
}

/* In the middle of its work, as soon as it is back from the last time. */
static void break_connection(void)
{
    if (atomic_load(&breaks) < breaks_wanted && atomic_load(&breaks) == atomic_load(&comebacks)) {
        atomic_fetch_add(&breaks, 1);
        GAME_CHECK(returns_break(engine.socket_path) == 1);
    }
}

static struct ec_client *join(const char *name, const struct game_side *side)
{
    struct ec_client_desc desc = { .name = name,
                                   .socket_path = engine.socket_path,
                                   .timeout_ms = DAEMON_WAIT_MS,
                                   .on_state = on_state,
                                   .context = (void *)(uintptr_t)side };
    struct ec_event_type_desc number = { .name = "test.number", .max_bytes = 8 };
    struct ec_error why = { 0 };
    struct ec_client *client;

    if (ec_client_create(&desc, &client, &why) < 0)
        fprintf(stderr, "%s\n", why.text);
    GAME_CHECK(why.text[0] == '\0');
    GAME_CHECK(ec_event_type_register(client, &number, NULL, NULL) == EC_OK);
    return client;
}

static bool is_told(const struct game_side *side)
{
    struct pollfd hear = { .fd = side->hear, .events = POLLIN };

    return poll(&hear, 1, 0) == 1;
}

#define NUMBER ec_event_type("test.number")
#define LAST UINT64_MAX

static void publish_number(struct ec_publisher *publisher, uint64_t number)
{
    void *payload;

    GAME_CHECK(ec_publisher_claim_wait(publisher, NUMBER, sizeof number, GAME_WAIT_NS, &payload) ==
               EC_OK);
    memcpy(payload, &number, sizeof number);
    GAME_CHECK(ec_publisher_commit(publisher) == EC_OK);
}

/* 0, 1, 2, … until it is told to end. */
static int publish_numbers(const struct game_side *side)
{
    struct ec_client *client = join("publisher", side);
    struct ec_publisher_desc desc = { .ring_bytes = 65536 };
    struct ec_publisher *publisher;
    uint64_t number = 0;

    GAME_CHECK(ec_publisher_create(client, &desc, &publisher, NULL) == EC_OK);
    game_say(side);
    game_hear(side); /* there is a reader */
    do {
        for (int i = 0; i < 64; i++)
            publish_number(publisher, number++);
        break_connection();
    } while (!is_told(side));
    publish_number(publisher, LAST);
    game_hear(side);
    game_say(side);
    game_hear(side); /* the reader has all */
    ec_publisher_destroy(publisher);
    ec_client_destroy(client);
    return 0;
}

struct count {
    uint64_t next;
    bool ended;
};

static void count_number(void *context, const struct ec_event *event)
{
    struct count *count = context;
    uint64_t number;

    if (event->type != NUMBER)
        return;
    memcpy(&number, event->payload, sizeof number);
    if (number == LAST) {
        count->ended = true;
        return;
    }
    GAME_CHECK(number == count->next);
    count->next++;
}

/* Reads all of them: in order, each once, none lost. */
static int read_numbers(const struct game_side *side)
{
    struct ec_client *client = join("reader", side);
    const char *type = "test.number";
    struct ec_subscriber_desc desc = { .types = &type, .type_count = 1 };
    struct ec_subscriber *subscriber;
    struct ec_subscriber_stats stats;
    struct count count = { 0 };
    uint32_t id = ec_client_id(client);

    GAME_CHECK(ec_subscriber_create(client, &desc, &subscriber, NULL) == EC_OK);
    game_say(side);
    while (!count.ended) {
        GAME_CHECK(ec_subscriber_wait(subscriber, GAME_WAIT_NS) == EC_OK);
        ec_subscriber_poll(subscriber, count_number, &count, 4096);
        break_connection();
    }
    ec_subscriber_stats(subscriber, &stats);
    GAME_CHECK(stats.lost_events == 0 && stats.demoted_ports == 0 && stats.broken_ports == 0);
    GAME_CHECK(count.next > 0 && ec_client_id(client) == id);
    game_say(side);
    game_hear(side);
    ec_subscriber_destroy(subscriber);
    ec_client_destroy(client);
    return 0;
}

/* ---- the daemon ------------------------------------------------------------------------------ */

/* Kill it, start it, wait until all games have said that they are back. Returns how long that took. */
static int64_t replace_daemon(const struct game *games, unsigned count)
{
    int64_t from_ns;

    daemon_crash(&engine);
    ck_assert_msg(daemon_start(&engine, patient), "%s", engine.why);
    from_ns = now_ns();
    for (unsigned i = 0; i < count; i++)
        game_await(&games[i]);
    return now_ns() - from_ns;
}

/* One publishes to two others, until it is told to end. */
static void start_number_games(struct game games[3])
{
    games[0] = game_start(publish_numbers, NULL);
    game_await(&games[0]);
    games[1] = game_start(read_numbers, NULL);
    games[2] = game_start(read_numbers, NULL);
    game_await(&games[1]);
    game_await(&games[2]);
    game_tell(&games[0]);
}

static void end_number_games(struct game games[3])
{
    game_tell(&games[0]);
    for (int i = 0; i < 3; i++)
        game_await(&games[i]);
    for (int i = 0; i < 3; i++)
        game_tell(&games[i]);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(game_end(&games[i]), 0);
}

START_TEST(events_between_games_go_on_while_the_daemon_is_killed_and_replaced)
{
    struct game games[3];
    const char *reply;
    struct line_client operator;
    int64_t longest_ns = 0;

    start_number_games(games);
    for (unsigned i = 0; i < restarts(); i++) {
        int64_t took_ns = replace_daemon(games, 3);

        longest_ns = took_ns > longest_ns ? took_ns : longest_ns;
    }
    printf("3 games were back %.0f ms after the daemon at the latest\n", (double)longest_ns / 1e6);
    ck_assert_int_lt(longest_ns, BACK_NS_MAX);

    /* They are who they were, and what they had is known again. */
    ck_assert(line_client_connect(&operator, engine.socket_path));
    reply = line_client_call(&operator, "client.list", "{}");
    ck_assert_msg(strstr(reply, "\"client_id\":1,\"name\":\"publisher\"") != NULL &&
                      strstr(reply, "\"ports\":1") != NULL &&
                      strstr(reply, "\"readers\":1") != NULL,
                  "%s", reply);
    reply = line_client_call(&operator, "event.list", "{}");
    ck_assert_ptr_nonnull(strstr(reply, "test.number"));
    line_client_close(&operator);

    end_number_games(games);
}
END_TEST

START_TEST(events_between_games_go_on_while_their_connections_break)
{
    struct game games[3];
    const char *reply;

    breaks_wanted = restarts() * 3;
    start_number_games(games);
    for (unsigned i = 0; i < breaks_wanted; i++)
        for (int g = 0; g < 3; g++)
            game_await(&games[g]);
    reply = daemon_ask(&engine, "client.list", "{}");
    ck_assert_int_eq(reply_number(reply, "result/items/client_id=1/ports"), 1);
    ck_assert_int_eq(reply_number(reply, "result/items/client_id=2/readers"), 1);
    ck_assert_int_eq(reply_number(reply, "result/items/client_id=3/readers"), 1);
    end_number_games(games);
}
END_TEST

/* ---- what comes and goes while a connection is broken ----------------------------------------- */

static const struct ec_event_type_desc number_type = { .name = "test.number", .max_bytes = 8 };

/* A client that does nothing with the daemon unless it is told to. */
static struct ec_client *connect_quiet(const char *name)
{
    struct ec_client_desc desc = { .name = name,
                                   .socket_path = engine.socket_path,
                                   .timeout_ms = DAEMON_WAIT_MS,
                                   .no_thread = true };
    struct ec_client *client;

    ck_assert_int_eq(ec_client_create(&desc, &client, NULL), EC_OK);
    ck_assert_int_eq(ec_event_type_register(client, &number_type, NULL, NULL), EC_OK);
    return client;
}

static void await_connection(struct ec_client *client)
{
    while (ec_client_state(client) != EC_CONNECTED) {
        struct pollfd due = { .fd = ec_client_fd(client), .events = POLLIN };

        ck_assert_int_eq(poll(&due, 1, DAEMON_WAIT_MS), 1);
        ec_client_dispatch(client);
    }
}

static void notice_break(struct ec_client *client)
{
    while (ec_client_state(client) == EC_CONNECTED)
        ec_client_dispatch(client);
}

/* Wait until the daemon says so of a client, by its number in client.list. */
static void await_state(uint32_t client_id, const char *state)
{
    struct line_client operator;
    char path[64];

    snprintf(path, sizeof path, "result/items/client_id=%u/state", client_id);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    while (strcmp(reply_text(line_client_call(&operator, "client.list", "{}"), path), state) != 0)
        ; /* the test's own time-out ends this */
    line_client_close(&operator);
}

static struct ec_publisher *open_publisher(struct ec_client *client)
{
    struct ec_publisher_desc desc = { .ring_bytes = 65536 };
    struct ec_publisher *publisher;

    ck_assert_int_eq(ec_publisher_create(client, &desc, &publisher, NULL), EC_OK);
    return publisher;
}

static struct ec_subscriber *open_subscriber(struct ec_client *client)
{
    const char *type = "test.number";
    struct ec_subscriber_desc desc = { .types = &type, .type_count = 1 };
    struct ec_subscriber *subscriber;

    ck_assert_int_eq(ec_subscriber_create(client, &desc, &subscriber, NULL), EC_OK);
    return subscriber;
}

static void collect(void *context, const struct ec_event *event)
{
    uint64_t *sum = context, number;

    memcpy(&number, event->payload, sizeof number);
    *sum = *sum * 10 + number;
}

static void publish_one(struct ec_publisher *publisher, uint64_t number)
{
    ck_assert_int_eq(ec_publisher_publish(publisher, NUMBER, &number, sizeof number), EC_OK);
}

static void await_sum(struct ec_subscriber *subscriber, uint64_t *sum, uint64_t enough)
{
    while (*sum < enough) {
        ck_assert_int_ge(ec_subscriber_wait(subscriber, GAME_WAIT_NS), EC_OK);
        ec_subscriber_poll(subscriber, collect, sum, 100);
    }
}

START_TEST(a_reader_whose_connection_broke_gets_what_came_and_went_meanwhile)
{
    struct ec_client *reader = connect_quiet("reader"), *writer;
    struct ec_subscriber *subscriber = open_subscriber(reader);
    struct ec_publisher *first, *second;
    struct returns returns;
    uint64_t sum = 0;

    writer = returns_connect(&returns, "writer", engine.socket_path);
    ck_assert_int_eq(ec_event_type_register(writer, &number_type, NULL, NULL), EC_OK);
    first = open_publisher(writer);
    ec_client_dispatch(reader);
    publish_one(first, 1);
    await_sum(subscriber, &sum, 1);
    ck_assert_uint_eq(returns_break(engine.socket_path), 2);
    returns_await(&returns);
    await_state(ec_client_id(reader), "gone");
    notice_break(reader);
    publish_one(first, 2); /* through the link that stands */
    await_sum(subscriber, &sum, 12);
    publish_one(first, 3);
    ec_publisher_destroy(first);
    second = open_publisher(writer);
    publish_one(second, 4);
    await_connection(reader);
    await_sum(subscriber, &sum, 1234);
    publish_one(second, 5);
    await_sum(subscriber, &sum, 12345);
    ck_assert_uint_eq(sum, 12345);
    ec_publisher_destroy(second);
    ec_subscriber_destroy(subscriber);
    ec_client_destroy(reader);
    returns_disconnect(&returns, writer);
}
END_TEST

START_TEST(a_publisher_whose_connection_broke_learns_who_reads_it_now)
{
    struct ec_client *writer = connect_quiet("writer"), *reader;
    struct ec_publisher *publisher = open_publisher(writer);
    struct ec_subscriber *first, *second, *third;
    struct ec_publisher_stats stats;
    struct returns returns;
    uint64_t sums[2] = { 0, 0 };

    reader = returns_connect(&returns, "reader", engine.socket_path);
    ck_assert_int_eq(ec_event_type_register(reader, &number_type, NULL, NULL), EC_OK);
    first = open_subscriber(reader);
    second = open_subscriber(reader);
    do {
        ec_client_dispatch(writer);
        publish_one(publisher, 0);
        ec_publisher_stats(publisher, &stats);
    } while (stats.readers < 2);
    ck_assert_uint_eq(returns_break(engine.socket_path), 2);
    returns_await(&returns);
    await_state(ec_client_id(writer), "gone");
    notice_break(writer);
    ec_subscriber_destroy(first);
    third = open_subscriber(reader);
    await_connection(writer);
    do {
        ec_client_dispatch(writer);
        publish_one(publisher, 0);
        ec_publisher_stats(publisher, &stats);
    } while (stats.readers != 2);
    ec_subscriber_poll(third, collect, &sums[1], 100000);
    publish_one(publisher, 7);
    await_sum(second, &sums[0], 7);
    await_sum(third, &sums[1], 7);
    ck_assert_uint_eq(sums[0], 7);
    ck_assert_uint_eq(sums[1], 7);
    ec_subscriber_destroy(second);
    ec_subscriber_destroy(third);
    ec_publisher_destroy(publisher);
    ec_client_destroy(writer);
    returns_disconnect(&returns, reader);
}
END_TEST

/* Its process lives, but it does not come back: it had its time. */
START_TEST(ports_and_readers_end_when_their_client_does_not_come_back)
{
    struct ec_client *writer = connect_quiet("writer");
    struct ec_publisher *publisher = open_publisher(writer);
    struct line_client operator;
    const char *reply;

    daemon_ask(&engine, "config.set", "{\"key\":\"client.grace_s\",\"value\":1}");
    ck_assert_uint_eq(returns_break(engine.socket_path), 1);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    while (reply_at(line_client_call(&operator, "event.stats", "{}"),
                    "result/ports/client_id=1/port_id")
               .text != NULL)
        ; /* the test's own time-out ends this */
    notice_break(writer);
    await_connection(writer);
    /* It is here as a new one: nothing is left of what it was, whose death would be told one day. */
    ck_assert_uint_ne(ec_client_id(writer), 1);
    reply = line_client_call(&operator, "client.list", "{}");
    ck_assert_str_eq(reply_text(reply, "result/items/name=writer/state"), "connected");
    ck_assert_ptr_null(reply_at(reply, "result/items/client_id=1").text);
    line_client_close(&operator);
    ec_publisher_destroy(publisher);
    ec_client_destroy(writer);
}
END_TEST

/* ---- operators --------------------------------------------------------------------------------- */

START_TEST(engine_ctl_shows_who_is_awaited)
{
    static struct engine_ctl ctl;
    struct ec_client *writer = connect_quiet("writer");

    daemon_crash(&engine);
    ck_assert_msg(daemon_start(&engine, patient), "%s", engine.why);
    engine_ctl_open(&ctl, &engine);
    ck_assert_int_eq(ENGINE_CTL(&ctl, "clients"), 0);
    ck_assert_msg(strstr(ctl.text, "awaited") != NULL, "%s", ctl.text);
    notice_break(writer);
    await_connection(writer);
    ck_assert_int_eq(ENGINE_CTL(&ctl, "clients"), 0);
    ck_assert_msg(strstr(ctl.text, "awaited") == NULL, "%s", ctl.text);
    ec_client_destroy(writer);
}
END_TEST

/* ---- time ------------------------------------------------------------------------------------ */

/* How far game time is behind real time: it stays the same while game time runs as real time does. */
static int64_t behind_ns(struct ec_client *client)
{
    struct ec_time now;
    int rc;

    while ((rc = ec_time_read(client, &now)) == EC_AGAIN)
        ;
    ck_assert_int_eq(rc, EC_OK);
    return now.real_ns - now.game_ns;
}

static const struct {
    bool keeps_descriptors;
} store_cases[] = { { false }, { true } };

static const char *const with_store[] = { PATIENT, "--set", "core.descriptor_store=true", NULL };

static void restart_with(bool keeps_descriptors)
{
    daemon_crash(&engine);
    ck_assert_msg(daemon_start(&engine, keeps_descriptors ? with_store : patient), "%s",
                  engine.why);
}

START_TEST(game_time_and_steps_go_on_in_a_new_daemon)
{
    const bool keeps = store_cases[_i].keeps_descriptors;
    struct returns returns;
    struct ec_step_clock physics, own;
    struct ec_client *client;
    struct ec_step step;
    struct line_client operator;
    uint64_t before, epoch;
    int64_t offset_ns;

    if (keeps) { /* the first one has to know that there is a store */
        engine.keeps_descriptors = true;
        restart_with(true);
    }
    ck_assert(line_client_connect(&operator, engine.socket_path));
    ck_assert_ptr_nonnull(strstr(
        line_client_call(&operator, "clock.step.create", "{\"name\":\"own\",\"rate\":\"1000/3\"}"),
        "\"result\""));
    ck_assert_ptr_nonnull(
        strstr(line_client_call(&operator, "clock.step.rate", "{\"name\":\"physics\",\"hz\":50}"),
               "\"result\""));
    line_client_close(&operator);
    client = returns_connect(&returns, "clock reader", engine.socket_path);
    ck_assert_int_eq(ec_step_find(client, "physics", &physics), EC_OK);
    ck_assert_int_eq(ec_step_find(client, "own", &own), EC_OK);
    ck_assert_int_eq(ec_step_wait(&own, GAME_WAIT_NS, &step), EC_OK);
    offset_ns = behind_ns(client);
    epoch = ec_time_epoch(client);
    for (unsigned i = 0; i < restarts(); i++) {
        before = ec_step_index(&own);
        daemon_crash(&engine);
        /* The page still says how time goes on. */
        ck_assert_int_eq(ec_step_wait(&own, GAME_WAIT_NS, &step), EC_OK);
        ck_assert_uint_gt(step.step, before);
        ck_assert_msg(daemon_start(&engine, keeps ? with_store : patient), "%s", engine.why);
        returns_await(&returns);
        ck_assert_int_eq(behind_ns(client), offset_ns);
        ck_assert_uint_eq(ec_time_epoch(client), epoch);
        before = step.step;
        /* Steps are those of the daemon again, and none was told twice. */
        do {
            ck_assert_int_eq(ec_step_wait(&own, GAME_WAIT_NS, &step), EC_OK);
            ck_assert_uint_gt(step.step, before);
            before = step.step;
        } while (step.stale);
        ck_assert_int_eq(ec_step_wait(&physics, GAME_WAIT_NS, &step), EC_OK);
    }
    returns_disconnect(&returns, client);
}
END_TEST

START_TEST(a_clock_that_stood_still_stands_still_in_a_new_daemon)
{
    const bool keeps = store_cases[_i].keeps_descriptors;
    struct line_client operator;
    struct returns returns;
    struct ec_client *client;
    int64_t game_ns;

    if (keeps) {
        engine.keeps_descriptors = true;
        restart_with(true);
    }
    client = returns_connect(&returns, "clock reader", engine.socket_path);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    ck_assert_ptr_nonnull(
        strstr(line_client_call(&operator, "clock.scale", "{\"scale\":2.5}"), "\"result\""));
    ck_assert_ptr_nonnull(strstr(line_client_call(&operator, "clock.pause", "{}"), "\"result\""));
    line_client_close(&operator);
    game_ns = ec_time_game(client);
    restart_with(keeps);
    returns_await(&returns);
    ck_assert_int_eq(ec_time_game(client), game_ns);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    ck_assert(line_has(line_client_call(&operator, "clock.get", "{}"), "paused", "true"));
    ck_assert(line_has(line_client_call(&operator, "clock.resume", "{}"), "scale", "2.5"));
    ck_assert_int_ge(ec_time_game(client), game_ns);
    line_client_close(&operator);
    returns_disconnect(&returns, client);
}
END_TEST

/* ---- a daemon that knows nothing ------------------------------------------------------------- */

static void await_one_reader(struct ec_client *client, struct ec_publisher *publisher)
{
    struct ec_publisher_stats stats;

    for (;;) { /* the test's own time-out ends this */
        ec_client_dispatch(client);
        ck_assert_int_eq(ec_publisher_publish(publisher, NUMBER, "1234567", 8), EC_OK);
        ec_publisher_stats(publisher, &stats);
        ck_assert_uint_le(stats.readers, 1);
        if (stats.readers == 1)
            return;
    }
}

/* The state is lost, so ids begin anew: what is opened first gets the id that another object had. */
START_TEST(each_object_gets_its_own_readers_from_a_daemon_that_lost_its_state)
{
    struct ec_client *late = connect_quiet("late"), *early; /* comes back when it is told to */
    struct ec_publisher *first, *second, *other;
    struct ec_subscriber *subscriber;
    struct returns returns;
    char state[160];

    first = open_publisher(late);
    second = open_publisher(late);
    early = returns_connect(&returns, "clock reader", engine.socket_path);
    ck_assert_int_eq(ec_event_type_register(early, &number_type, NULL, NULL), EC_OK);
    other = open_publisher(early);
    subscriber = open_subscriber(early);
    await_one_reader(late, first);
    await_one_reader(late, second);
    daemon_crash(&engine);
    snprintf(state, sizeof state, "%s.state", engine.socket_path);
    ck_assert_int_eq(unlink(state), 0);
    ck_assert_msg(daemon_start(&engine, patient), "%s", engine.why);
    returns_await(&returns);
    notice_break(late);
    await_connection(late);
    await_one_reader(late, first);
    await_one_reader(late, second);
    await_one_reader(early, other);
    ec_publisher_destroy(first);
    ec_publisher_destroy(second);
    ec_client_destroy(late);
    ec_subscriber_destroy(subscriber);
    ec_publisher_destroy(other);
    returns_disconnect(&returns, early);
}
END_TEST

/* ---- assets ---------------------------------------------------------------------------------- */

#define ASSET_BYTES 300000u

/* Two files in the daemon's directory, which is mounted. */
static void write_assets(void)
{
    char path[160];

    for (int i = 0; i < 2; i++) {
        FILE *file;

        snprintf(path, sizeof path, "%s/asset%d.bin", engine.directory, i);
        file = fopen(path, "we");
        ck_assert_ptr_nonnull(file);
        for (unsigned byte = 0; byte < ASSET_BYTES; byte++)
            fputc((int)(byte * 31u + (unsigned)i) & 0xff, file);
        ck_assert_int_eq(fclose(file), 0);
    }
}

static bool is_asset(const struct ec_resource_view *view, unsigned number)
{
    const unsigned char *data = view->data;

    for (unsigned byte = 0; byte < ASSET_BYTES; byte++)
        if (data[byte] != ((byte * 31u + number) & 0xff))
            return false;
    return view->bytes == ASSET_BYTES;
}

static void start_with_assets(const char *mounts)
{
    const char *const arguments[] = { PATIENT, "--set", "core.descriptor_store=true",
                                      "--set", mounts,  NULL };

    daemon_crash(&engine);
    ck_assert_msg(daemon_start(&engine, arguments), "%s", engine.why);
}

START_TEST(handles_and_assets_go_on_where_descriptors_are_kept)
{
    struct line_client operator;
    struct ec_resource_view held, again;
    struct returns returns;
    ec_resource first, second, found;
    struct ec_client *client;
    const char *reply;
    char mounts[128];
    int64_t bytes;

    engine.keeps_descriptors = true;
    write_assets();
    snprintf(mounts, sizeof mounts, "resource.mounts=%s", engine.directory);
    start_with_assets(mounts);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    line_client_must(
        &operator, "resource.define",
        "{\"group\":\"level\",\"resources\":[{\"name\":\"asset0.bin\"},{\"name\":\"asset1.bin\"}]}");
    line_client_must(&operator, "resource.load", "{\"group\":\"level\"}");
    bytes = reply_number(line_client_call(&operator, "memory.stats", "{}"), "result/assets/bytes");
    line_client_close(&operator);
    client = returns_connect(&returns, "clock reader", engine.socket_path);
    ck_assert_int_eq(ec_resource_find(client, "asset0.bin", &first), EC_OK);
    ck_assert_int_eq(ec_resource_find(client, "asset1.bin", &second), EC_OK);
    ck_assert_int_eq(ec_resource_acquire(client, first, &held), EC_OK);
    for (unsigned i = 0; i < restarts(); i++) {
        start_with_assets(mounts);
        returns_await(&returns);
        ck_assert(is_asset(&held, 0)); /* where it was */
        ck_assert_int_eq(ec_resource_find(client, "asset1.bin", &found), EC_OK);
        ck_assert_uint_eq(found.value, second.value);
        ck_assert_int_eq(ec_resource_acquire(client, second, &again), EC_OK);
        ck_assert(is_asset(&again, 1));
        ec_resource_release(client, second);
    }
    ck_assert(line_client_connect(&operator, engine.socket_path));
    ck_assert_int_eq(
        reply_number(line_client_call(&operator, "memory.stats", "{}"), "result/assets/bytes"),
        bytes);
    reply = line_client_call(&operator, "resource.list", "{\"group\":\"level\"}");
    ck_assert_str_eq(reply_text(reply, "result/items/name=asset0.bin/state"), "ready");
    ck_assert_int_eq(reply_number(reply, "result/items/name=asset0.bin/hard_refs"), 1);
    /* What is held stays, what is not goes, and both in the ordinary way. */
    reply = line_client_call(&operator, "resource.evict", "{\"group\":\"level\"}");
    ck_assert_int_gt(reply_number(reply, "result/freed_bytes"), 0);
    ck_assert(is_asset(&held, 0));
    ck_assert_int_lt(ec_resource_acquire(client, second, NULL), 0);
    line_client_must(&operator, "resource.load", "{\"group\":\"level\"}");
    ck_assert_int_eq(ec_resource_find(client, "asset1.bin", &found), EC_OK);
    ck_assert_uint_ne(found.value, second.value);
    ec_resource_release(client, first);
    line_client_must(&operator, "resource.unload", "{\"group\":\"level\"}");
    line_client_close(&operator);
    returns_disconnect(&returns, client);
}
END_TEST

/* While a client of the last run may still come back nothing is freed; it is when it is known dead. */
START_TEST(nothing_is_evicted_before_the_clients_are_back_or_dead)
{
    struct line_client operator;
    struct game game;
    const char *reply;
    char mounts[128];

    engine.keeps_descriptors = true;
    write_assets();
    snprintf(mounts, sizeof mounts, "resource.mounts=%s", engine.directory);
    start_with_assets(mounts);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    line_client_must(&operator, "resource.define",
                     "{\"group\":\"level\",\"resources\":[{\"name\":\"asset0.bin\"}]}");
    line_client_must(&operator, "resource.load", "{\"group\":\"level\"}");
    line_client_close(&operator);
    game = game_start(publish_numbers, NULL);
    game_await(&game);
    game_stop(&game); /* it cannot come back now */
    start_with_assets(mounts);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    reply = line_client_call(&operator, "client.list", "{}");
    ck_assert_str_eq(reply_text(reply, "result/items/name=publisher/state"), "awaited");
    reply = line_client_call(&operator, "resource.evict", "{\"group\":\"level\"}");
    ck_assert_int_eq(reply_number(reply, "result/freed_bytes"), 0);
    ck_assert_ptr_nonnull(strstr(reply, "may come back"));
    game_kill(&game);
    do /* the test's own time-out ends this */
        reply = line_client_call(&operator, "resource.evict", "{\"group\":\"level\"}");
    while (reply_number(reply, "result/freed_bytes") == 0);
    line_client_close(&operator);
}
END_TEST

/* Without kept descriptors assets end with the daemon, but what a game holds keeps its bytes. */
START_TEST(what_is_held_keeps_its_bytes_where_nothing_is_kept)
{
    struct line_client operator;
    struct ec_resource_view held;
    struct returns returns;
    ec_resource handle, found;
    struct ec_client *client;
    char mounts[128];
    const char *const arguments[] = { PATIENT, "--set", mounts, NULL };

    write_assets();
    snprintf(mounts, sizeof mounts, "resource.mounts=%s", engine.directory);
    daemon_crash(&engine);
    ck_assert_msg(daemon_start(&engine, arguments), "%s", engine.why);
    for (int round = 0; round < 2; round++) {
        ck_assert(line_client_connect(&operator, engine.socket_path));
        line_client_must(&operator, "resource.define",
                         "{\"group\":\"level\",\"resources\":[{\"name\":\"asset0.bin\"}]}");
        line_client_must(&operator, "resource.load", "{\"group\":\"level\"}");
        line_client_close(&operator);
        if (round == 1)
            break;
        client = returns_connect(&returns, "clock reader", engine.socket_path);
        ck_assert_int_eq(ec_resource_find(client, "asset0.bin", &handle), EC_OK);
        ck_assert_int_eq(ec_resource_acquire(client, handle, &held), EC_OK);
        daemon_crash(&engine);
        ck_assert_msg(daemon_start(&engine, arguments), "%s", engine.why);
        returns_await(&returns);
        ck_assert(is_asset(&held, 0));
        ck_assert_int_eq(ec_resource_acquire(client, handle, NULL), EC_ERR_STALE);
    }
    /* A handle of one daemon is never one of another. */
    ck_assert_int_eq(ec_resource_find(client, "asset0.bin", &found), EC_OK);
    ck_assert_uint_ne(found.value, handle.value);
    ck_assert_int_eq(ec_resource_acquire(client, handle, NULL), EC_ERR_STALE);
    ck_assert(is_asset(&held, 0));
    ec_resource_release(client, handle);
    returns_disconnect(&returns, client);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("restart");
    TCase *tcase = tcase_create("restart");
    SRunner *runner;
    int failed;

    signal(SIGPIPE, SIG_IGN);
    if (getenv("EC_RESTARTS") != NULL)
        tcase_set_timeout(tcase, 0); /* as long as that many take */
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, events_between_games_go_on_while_the_daemon_is_killed_and_replaced);
    tcase_add_test(tcase, events_between_games_go_on_while_their_connections_break);
    tcase_add_test(tcase, a_reader_whose_connection_broke_gets_what_came_and_went_meanwhile);
    tcase_add_test(tcase, a_publisher_whose_connection_broke_learns_who_reads_it_now);
    tcase_add_test(tcase, ports_and_readers_end_when_their_client_does_not_come_back);
    tcase_add_test(tcase, engine_ctl_shows_who_is_awaited);
    tcase_add_test(tcase, each_object_gets_its_own_readers_from_a_daemon_that_lost_its_state);
    tcase_add_loop_test(tcase, game_time_and_steps_go_on_in_a_new_daemon, 0, 2);
    tcase_add_loop_test(tcase, a_clock_that_stood_still_stands_still_in_a_new_daemon, 0, 2);
    tcase_add_test(tcase, handles_and_assets_go_on_where_descriptors_are_kept);
    tcase_add_test(tcase, nothing_is_evicted_before_the_clients_are_back_or_dead);
    tcase_add_test(tcase, what_is_held_keeps_its_bytes_where_nothing_is_kept);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
