/* The four walks of docs/architecture.md: an event, a resource, a counter and a command, each followed
 * through every place that it passes, from one end to the other. What can go wrong on the way has its
 * tests elsewhere. */
#include <check.h>
#include <engine-core/breaker.h>
#include <engine-core/memory.h>
#include <engine-core/pool.h>
#include <engine-core/publisher.h>
#include <engine-core/resource.h>
#include <engine-core/subscriber.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/daemon.h"
#include "support/game.h"
#include "support/reply.h"
#include "support/sample_images.h"

static struct daemon_process engine;
static struct line_client operator; /* asks and commands */
static struct line_client witness;  /* is told of events */
static char archive[128];

static void set_up(void)
{
    engine = (struct daemon_process) { 0 };
    ck_assert(daemon_prepare(&engine));
    snprintf(archive, sizeof archive, "%s/assets.zip", engine.directory);
    ck_assert_msg(daemon_start(&engine, NULL), "%s", engine.why);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    ck_assert_ptr_nonnull(line_client_hello(&operator, "operator"));
    ck_assert(line_client_connect(&witness, engine.socket_path));
    ck_assert_ptr_nonnull(line_client_hello(&witness, "witness"));
}

static void tear_down(void)
{
    line_client_close(&witness);
    line_client_close(&operator);
    ck_assert_int_eq(daemon_stop(&engine), 0);
}

/* ---- what the daemon answers ---- */

static const char *ask(const char *method, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static const char *ask(const char *method, const char *format, ...)
{
    static char params[4096];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(params, sizeof params, format, arguments);
    va_end(arguments);
    return line_client_call(&operator, method, params);
}

static void assert_ok(const char *reply)
{
    ck_assert_msg(reply_at(reply, "result").bytes != 0, "%s", reply);
}

static void witness_events(const char *types)
{
    char params[256];

    snprintf(params, sizeof params, "{\"types\":[%s]}", types);
    assert_ok(line_client_call(&witness, "event.subscribe", params));
}

/* The witness's next event. */
static const char *witness_hears(const char *type)
{
    const char *line = line_client_receive(&witness);

    ck_assert_ptr_nonnull(line);
    ck_assert_str_eq(reply_text(line, "method"), "event");
    ck_assert_str_eq(reply_text(line, "params/type"), type);
    return line;
}

/* What engine-ctl prints. */
static const char *ctl(const char *words)
{
    static char output[65536];
    char command[512];
    size_t bytes;
    FILE *pipe;

    snprintf(command, sizeof command, "%s/engine-ctl --socket %s %s", getenv("EC_BIN_DIR"),
             engine.socket_path, words);
    pipe = popen(command, "re");
    ck_assert_ptr_nonnull(pipe);
    bytes = fread(output, 1, sizeof output - 1, pipe);
    output[bytes] = '\0';
    ck_assert_int_eq(pclose(pipe), 0);
    return output;
}

/* ---- the walk of an event ---- */

#define SHOT(FIELD, ARRAY)                                                                         \
    FIELD(uint64_t, number)                                                                        \
    FIELD(float, x)                                                                                \
    ARRAY(char, who, 12)
EC_EVENT_STRUCT(shot, "walk.shot", SHOT);

static void know_shot(struct ec_client *client)
{
    uint64_t type;

    GAME_CHECK(ec_event_type_register(client, shot_desc(), &type, NULL) == EC_OK);
    GAME_CHECK(type == shot_type());
}

static int shoot_once(const struct game_side *side)
{
    struct ec_client *client = game_join("shooter", side->context);
    struct ec_publisher *publisher;
    struct ec_publisher_stats stats;
    struct shot *shot;

    know_shot(client);
    GAME_CHECK(ec_publisher_create(client, &(struct ec_publisher_desc) { .name = "gun" },
                                   &publisher, NULL) == EC_OK);
    game_say(side);
    game_hear(side); /* the reader sleeps */
    GAME_CHECK(ec_publisher_claim(publisher, shot_type(), sizeof *shot, (void **)&shot) == EC_OK);
    *shot = (struct shot) { .number = UINT64_MAX, .x = 0.5f, .who = "shooter" };
    GAME_CHECK(ec_publisher_commit(publisher) == EC_OK);
    ec_publisher_stats(publisher, &stats);
    GAME_CHECK(stats.published == 1 && stats.bells >= 1);
    game_say(side);
    game_hear(side); /* it was read */
    ec_publisher_destroy(publisher);
    ec_client_destroy(client);
    return 0;
}

struct seen {
    unsigned count;
    struct ec_event event;
    struct shot shot;
};

static void on_shot(void *context, const struct ec_event *event)
{
    struct seen *seen = context;

    seen->count++;
    seen->event = *event;
    memcpy(&seen->shot, event->payload, sizeof seen->shot);
}

START_TEST(an_event_goes_from_claim_to_call_back_and_to_every_count)
{
    struct game shooter = game_start(shoot_once, engine.socket_path);
    struct ec_subscriber_desc desc = { .types = (const char *[]) { "walk.shot" }, .type_count = 1 };
    struct ec_client *client;
    struct ec_subscriber *subscriber;
    struct seen seen = { 0 };
    const char *line;
    int64_t shooter_id;

    game_await(&shooter);

    /* The registry knows the type with its layout, and the port. */
    line = ask("event.list", "{}");
    ck_assert_int_eq(reply_number(line, "result/items/name=walk.shot/size"), sizeof(struct shot));
    shooter_id = reply_number(ask("client.list", "{}"), "result/items/name=shooter/client_id");
    line = ask("event.stats", "{}");
    ck_assert_int_eq(reply_number(line, "result/ports/port=gun/client_id"), shooter_id);
    ck_assert_int_eq(reply_number(line, "result/ports/port=gun/published"), 0);

    /* A reader in another process joins, and sleeps. */
    witness_events("\"walk.shot\"");
    client = game_join("reader", engine.socket_path);
    know_shot(client);
    ck_assert_int_eq(ec_subscriber_create(client, &desc, &subscriber, NULL), EC_OK);
    ck_assert_int_eq(
        reply_number(ask("event.list", "{}"), "result/items/name=walk.shot/subscribers"), 2);
    ck_assert_int_eq(ec_subscriber_arm(subscriber), EC_AGAIN);

    /* The commit wakes it; the payload is what was written in place. */
    game_tell(&shooter);
    ck_assert_int_eq(ec_subscriber_wait(subscriber, GAME_WAIT_NS), EC_OK);
    ck_assert_int_eq(ec_subscriber_poll(subscriber, on_shot, &seen, 10), 1);
    ck_assert_uint_eq(seen.count, 1);
    ck_assert_int_eq(seen.event.sender, shooter_id);
    ck_assert_uint_eq(seen.event.sequence, 0);
    ck_assert_uint_eq(seen.event.bytes, sizeof(struct shot));
    ck_assert_uint_eq(seen.shot.number, UINT64_MAX);
    ck_assert(seen.shot.x == 0.5f);
    ck_assert_str_eq(seen.shot.who, "shooter");
    game_await(&shooter);

    /* The daemon read it, too, for its JSON subscriber. */
    line = witness_hears("walk.shot");
    ck_assert(strstr(line, "\"number\":18446744073709551615") != NULL); /* to the last digit */
    ck_assert_str_eq(reply_text(line, "params/payload/who"), "shooter");
    ck_assert_int_eq(reply_number(line, "params/sender"), shooter_id);

    /* All of them counted it. */
    line = ask("event.stats", "{\"type\":\"walk.shot\"}");
    ck_assert_int_eq(reply_number(line, "result/items/0/published"), 1);
    ck_assert_int_eq(reply_number(line, "result/items/0/delivered"), 2);
    ck_assert_int_eq(reply_number(line, "result/items/0/lost"), 0);
    ck_assert_int_eq(reply_number(line, "result/items/0/bytes"), sizeof(struct shot));
    ck_assert_int_gt(reply_number(line, "result/items/0/latency_ns/max"), 0);

    /* The port goes with its publisher. */
    game_tell(&shooter);
    ck_assert_int_eq(game_end(&shooter), 0);
    ck_assert_uint_eq(reply_at(ask("event.stats", "{}"), "result/ports/port=gun").bytes, 0);
    ec_subscriber_destroy(subscriber);
    ec_client_destroy(client);
}
END_TEST

/* ---- the walk of a resource ---- */

static const struct sample_shape shape = { .width = 48, .height = 32, .channels = 4 };

static void pack_archive(void)
{
    struct sample_zip zip = { 0 };
    struct sample image;

    sample_png(&image, &shape);
    sample_zip_add(&zip, "art/hero.png", image.bytes, image.count);
    sample_free(&image);
    sample_zip_write(&zip, archive);
}

static bool is_the_picture(const struct ec_resource_view *view)
{
    const unsigned char *pixels = view->data;
    bool same = view->content == EC_RESOURCE_IMAGE && view->width == shape.width &&
                view->height == shape.height && view->channels == shape.channels;

    for (uint32_t y = 0; same && y < shape.height; y++)
        for (uint32_t x = 0; x < shape.width; x++)
            for (uint32_t c = 0; c < shape.channels; c++)
                same = same &&
                       pixels[y * view->stride + x * shape.channels + c] == sample_pixel(x, y, c);
    return same;
}

static int hold_the_hero(const struct game_side *side)
{
    struct ec_client *client = game_join("holder", side->context);
    struct ec_resource_view view;
    ec_resource hero, again;

    GAME_CHECK(ec_resource_find(client, "hero", &hero) == EC_ERR_STATE); /* defined, not loaded */
    game_say(side);
    game_hear(side); /* it is loaded */
    GAME_CHECK(ec_resource_find(client, "hero", &hero) == EC_OK);
    GAME_CHECK(ec_resource_acquire(client, hero, &view) == EC_OK);
    GAME_CHECK(is_the_picture(&view));
    game_say(side);
    game_hear(side);                   /* an eviction was tried */
    GAME_CHECK(is_the_picture(&view)); /* and what is held has stayed */
    ec_resource_release(client, hero);
    game_say(side);
    game_hear(side); /* it was evicted */
    GAME_CHECK(ec_resource_acquire(client, hero, &view) == EC_ERR_EVICTED);
    game_say(side);
    game_hear(side); /* it was loaded again */
    GAME_CHECK(ec_resource_find(client, "hero", &again) == EC_OK && again.value != hero.value);
    GAME_CHECK(ec_resource_acquire(client, again, &view) == EC_OK && is_the_picture(&view));
    ec_resource_release(client, again);
    ec_client_destroy(client);
    return 0;
}

static int64_t asset_bytes(void)
{
    return reply_number(ask("memory.stats", "{}"), "result/assets/bytes");
}

START_TEST(a_resource_goes_from_the_archive_to_the_game_and_out_again)
{
    struct game holder;
    const char *line;
    int64_t holder_id, bytes;
    uint64_t handle = 0;

    pack_archive();
    witness_events("\"resource.group\"");
    assert_ok(ask("resource.mount", "{\"path\":\"%s\"}", archive));
    assert_ok(ask("resource.define", "{\"group\":\"people\",\"resources\":[{\"name\":\"hero\","
                                     "\"path\":\"art/hero.png\",\"kind\":\"image\"}]}"));
    holder = game_start(hold_the_hero, engine.socket_path);
    game_await(&holder);
    holder_id = reply_number(ask("client.list", "{}"), "result/items/name=holder/client_id");
    ck_assert_int_eq(asset_bytes(), 0);

    /* Read, decoded into the heap, published in the directory, announced. */
    line = ask("resource.load", "{\"group\":\"people\"}");
    ck_assert_str_eq(reply_text(line, "result/state"), "ready");
    ck_assert_int_eq(ec_json_get_hex64(reply_at(line, "result/handles/hero"), &handle), EC_OK);
    ck_assert_uint_ne(handle, 0);
    ck_assert_str_eq(reply_text(witness_hears("resource.group"), "params/payload/state"), "ready");
    bytes = asset_bytes();
    ck_assert_int_ge(bytes, shape.width * shape.height * shape.channels);

    /* Held: the daemon sees the reference in the game's own segment, and keeps the bytes. */
    game_tell(&holder);
    game_await(&holder);
    line = ask("resource.list", "{\"group\":\"people\"}");
    ck_assert_int_eq(reply_number(line, "result/items/name=hero/hard_refs"), 1);
    ck_assert_int_eq(reply_number(line, "result/items/name=hero/meta/width"), shape.width);
    ck_assert_int_eq(reply_number(ask("client.list", "{}"), "result/items/name=holder/hard_refs"),
                     1);
    line = ask("resource.evict", "{\"group\":\"people\"}");
    ck_assert_int_eq(reply_number(line, "result/freed_bytes"), 0);
    ck_assert_str_eq(reply_text(line, "result/kept/0/name"), "hero");
    ck_assert_int_eq(
        strtol(strpbrk(reply_text(line, "result/kept/0/reason"), "0123456789"), NULL, 10),
        holder_id);
    ck_assert_int_eq(asset_bytes(), bytes);

    /* Released: now it goes, the memory comes back, and the handle is stale. */
    game_tell(&holder);
    game_await(&holder);
    line = ask("resource.evict", "{\"group\":\"people\"}");
    ck_assert_int_eq(reply_number(line, "result/freed_bytes"), bytes);
    ck_assert_str_eq(reply_text(witness_hears("resource.group"), "params/payload/state"),
                     "evicted");
    ck_assert_int_eq(asset_bytes(), 0);
    game_tell(&holder);
    game_await(&holder);

    /* Loaded again it is the same picture in another life. */
    assert_ok(ask("resource.load", "{\"group\":\"people\"}"));
    game_tell(&holder);
    ck_assert_int_eq(game_end(&holder), 0);
    ck_assert_int_eq(unlink(archive), 0);
}
END_TEST

/* ---- the walk of a counter ---- */

#define CRATES 1000
#define CRATES_FREED 250
#define CRATE_BYTES 96
#define CRATES_LEFT (CRATES - CRATES_FREED)

static int stack_crates(const struct game_side *side)
{
    static void *crates[CRATES];
    struct ec_client *client = game_join("stacker", side->context);
    struct ec_pool_desc desc = { .client = client, .name = "crates", .block_bytes = CRATE_BYTES };
    struct ec_tag_stats stats;
    struct ec_pool *pool;

    GAME_CHECK(ec_tag_register(client, "cargo", 1 << 20, &desc.tag, NULL) == EC_OK);
    GAME_CHECK(ec_pool_create(&desc, &pool, NULL) == EC_OK);
    for (int i = 0; i < CRATES; i++)
        GAME_CHECK((crates[i] = ec_pool_alloc(pool)) != NULL);
    for (int i = 0; i < CRATES_FREED; i++)
        GAME_CHECK(ec_pool_free(pool, crates[i]) == EC_OK);
    GAME_CHECK(ec_tag_stats(client, desc.tag, &stats) == EC_OK);
    GAME_CHECK(stats.count == CRATES_LEFT && stats.current_bytes == CRATES_LEFT * CRATE_BYTES);
    game_say(side);
    game_hear(side); /* until it is killed */
    return 1;
}

static bool is_alive(const char *report)
{
    bool alive = false;

    ck_assert_int_eq(ec_json_get_boolean(reply_at(report, "result/items/0/alive"), &alive), EC_OK);
    return alive;
}

static void assert_crates(const char *report)
{
    ck_assert_int_eq(reply_number(report, "result/items/0/tags/tag=cargo/bytes"),
                     CRATES_LEFT * CRATE_BYTES);
    ck_assert_int_eq(reply_number(report, "result/items/0/tags/tag=cargo/count"), CRATES_LEFT);
    ck_assert_int_eq(reply_number(report, "result/items/0/tags/tag=cargo/budget_bytes"), 1 << 20);
    ck_assert_str_eq(reply_text(report, "result/items/0/allocators/name=crates/kind"), "pool");
    ck_assert_str_eq(reply_text(report, "result/items/0/allocators/name=crates/tag"), "cargo");
    ck_assert_int_eq(reply_number(report, "result/items/0/allocators/name=crates/count"),
                     CRATES_LEFT);
    ck_assert_int_eq(reply_number(report, "result/items/0/allocators/name=crates/total"), CRATES);
}

START_TEST(a_counter_goes_from_the_allocator_to_the_report_also_of_a_killed_game)
{
    struct game stacker = game_start(stack_crates, engine.socket_path);
    char verb[64];
    const char *line;

    game_await(&stacker);
    assert_crates(ask("memory.report", "{\"pid\":%d}", (int)stacker.pid));
    ck_assert_int_eq(reply_number(ask("memory.stats", "{}"), "result/clients/current_bytes"),
                     CRATES_LEFT * CRATE_BYTES);
    ck_assert_int_eq(
        reply_number(ask("client.list", "{}"), "result/items/name=stacker/memory_bytes"),
        CRATES_LEFT * CRATE_BYTES);

    /* It says nothing any more, and its segment still says what it had. */
    ck_assert_int_eq(game_kill(&stacker), -SIGKILL);
    do
        line = ask("memory.report", "{\"pid\":%d}", (int)stacker.pid);
    while (is_alive(line));
    assert_crates(line);

    snprintf(verb, sizeof verb, "mem-report --pid %d", (int)stacker.pid);
    line = ctl(verb);
    ck_assert_msg(strstr(line, "cargo") != NULL && strstr(line, "crates") != NULL, "%s", line);
}
END_TEST

/* ---- the walk of a command ---- */

START_TEST(a_command_goes_from_its_row_to_the_reply_the_games_and_the_counters)
{
    struct ec_client *game = game_join("game", engine.socket_path);
    int64_t requests, errors;
    const char *line;

    /* Its row in the table is what core.discover says. */
    line = ask("core.discover", "{}");
    ck_assert_int_eq(
        reply_number(line, "result/methods/name=breaker.trip/params/name=level/schema/maximum"), 3);
    ck_assert_int_eq(
        reply_number(line, "result/methods/name=breaker.trip/params/name=hold_s/schema/default"),
        60);

    /* What the row forbids never reaches the handler. */
    line = ask("core.info", "{}");
    requests = reply_number(line, "result/counters/control.requests");
    errors = reply_number(line, "result/counters/control.errors");
    line = ask("breaker.trip", "{\"level\":4,\"reason\":\"walk\"}");
    ck_assert_int_eq(reply_number(line, "error/code"), EC_ERR_PARAM);
    ck_assert_str_eq(reply_text(line, "error/data/param"), "level");
    line = ask("breaker.trip", "{\"level\":2,\"reason\":\"walk\",\"holds\":1}");
    ck_assert_int_eq(reply_number(line, "error/code"), EC_ERR_PARAM);
    ck_assert_ptr_nonnull(strstr(reply_text(line, "error/message"), "hold_s"));
    ck_assert_uint_eq(ec_breaker_level(game), 0);

    /* The handler's work is seen in the clock page as soon as the reply is there. */
    witness_events("\"breaker.level\"");
    line = ask("breaker.trip", "{\"level\":2,\"reason\":\"walk\",\"hold_s\":0}");
    ck_assert_int_eq(reply_number(line, "result/level"), 2);
    ck_assert_uint_eq(ec_breaker_level(game), EC_BREAKER_EVICTION);
    line = witness_hears("breaker.level");
    ck_assert_int_eq(reply_number(line, "params/payload/from"), 0);
    ck_assert_int_eq(reply_number(line, "params/payload/to"), 2);
    ck_assert_str_eq(reply_text(line, "params/payload/reason"), "walk");

    /* The game answers in its own segment. */
    ec_breaker_ack(game, EC_BREAKER_EVICTION, 4096);
    line = ask("breaker.get", "{}");
    ck_assert_int_eq(reply_number(line, "result/clients/name=game/acked_level"), 2);
    ck_assert_int_eq(reply_number(line, "result/clients/name=game/freed_bytes"), 4096);

    /* All of it was counted: two refused, event.subscribe, trip, get, and the info before them. */
    line = ask("core.info", "{}");
    ck_assert_int_eq(reply_number(line, "result/counters/control.requests") - requests, 6);
    ck_assert_int_eq(reply_number(line, "result/counters/control.errors") - errors, 2);

    /* The same from the command line. */
    ck_assert_str_eq(ctl("breaker reset"), "breaker level 0 normal\n");
    ck_assert_uint_eq(ec_breaker_level(game), 0);
    ec_client_destroy(game);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("walks");
    TCase *tcase = tcase_create("walks");
    SRunner *runner;
    int failed;

    signal(SIGPIPE, SIG_IGN);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, an_event_goes_from_claim_to_call_back_and_to_every_count);
    tcase_add_test(tcase, a_resource_goes_from_the_archive_to_the_game_and_out_again);
    tcase_add_test(tcase, a_counter_goes_from_the_allocator_to_the_report_also_of_a_killed_game);
    tcase_add_test(tcase, a_command_goes_from_its_row_to_the_reply_the_games_and_the_counters);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
