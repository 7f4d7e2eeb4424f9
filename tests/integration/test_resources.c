/* Assets from a real archive, decoded by a real daemon, held by real games. */
#include <check.h>
#include <engine-core/breaker.h>
#include <engine-core/client.h>
#include <engine-core/resource_inline.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "foundation/json/json_scan.h"
#include "support/asset_daemon.h"
#include "support/game.h"
#include "support/reply.h"
#include "support/sample_images.h"

static struct asset_daemon assets;
static char archive[128];

/* ---- what is mounted ---- */

static const struct sample_shape shape = { .width = 40, .height = 24, .channels = 4 };
static const struct sample_shape wide = { .width = 41, .height = 24, .channels = 4 };
static const struct sample_shape rgb = { .width = 40, .height = 24, .channels = 3 };

static void add_image(struct sample_zip *zip, const char *name,
                      void (*make)(struct sample *, const struct sample_shape *),
                      const struct sample_shape *of)
{
    struct sample sample;

    make(&sample, of);
    sample_zip_add(zip, name, sample.bytes, sample.count);
    sample_free(&sample);
}

static void write_archive(void)
{
    struct sample_zip zip = { 0 };
    struct sample sample;

    add_image(&zip, "a.png", sample_png, &shape);
    add_image(&zip, "b.jpg", sample_jpeg, &rgb);
    add_image(&zip, "c.tga", sample_tga, &wide);
    add_image(&zip, "d.bmp", sample_bmp, &rgb);
    sample_zip_add(&zip, "deep/notes.txt", "what a game reads", 17);
    sample_png(&sample, &shape);
    sample_zip_add(&zip, "broken.png", sample.bytes, sample.count / 2);
    sample_free(&sample);
    sample_zip_write(&zip, archive);
}

static void start(const char *const *arguments)
{
    asset_daemon_prepare(&assets);
    snprintf(archive, sizeof archive, "%s/assets.zip", assets.process.directory);
    write_archive();
    asset_daemon_start_bare(&assets, arguments);
}

static void stop(void)
{
    asset_daemon_stop(&assets);
}

static void mount_and_define(void)
{
    asset_ok(asset_call(&assets, "resource.mount", "{\"path\":\"%s\"}", archive));
    asset_ok(asset_call(
        &assets, "resource.define",
        "{\"group\":\"all\",\"resources\":["
        "{\"name\":\"a.png\",\"kind\":\"image\"},{\"name\":\"b.jpg\",\"kind\":\"image\"},"
        "{\"name\":\"c.tga\",\"kind\":\"image\"},{\"name\":\"d.bmp\",\"kind\":\"image\"},"
        "{\"name\":\"notes\",\"path\":\"deep/notes.txt\"}]}"));
}

/* The next event resource.group of this group with this state. */
static void await_group(struct line_client *events, const char *group, const char *state)
{
    const char *text;

    do {
        text = line_client_receive(events);
        ck_assert_ptr_nonnull(text);
    } while (!ec_json_string_equals(reply_at(text, "params/payload/group"), group) ||
             !ec_json_string_equals(reply_at(text, "params/payload/state"), state));
}

static void subscribe(struct line_client *events)
{
    ck_assert(line_client_connect(events, assets.process.socket_path));
    ck_assert_ptr_nonnull(line_client_hello(events, "events"));
    asset_ok(line_client_call(events, "event.subscribe", "{\"types\":[\"resource.group\"]}"));
}

/* ---- being a game ---- */

static void assert_pixels(const struct ec_resource_view *view, const struct sample_shape *of)
{
    const unsigned char *pixels = view->data;

    ck_assert_uint_eq(view->content, EC_RESOURCE_IMAGE);
    ck_assert_uint_eq(view->width, of->width);
    ck_assert_uint_eq(view->height, of->height);
    ck_assert_uint_eq(view->channels, of->channels);
    for (uint32_t y = 0; y < of->height; y++)
        for (uint32_t x = 0; x < of->width; x++)
            for (uint32_t c = 0; c < of->channels; c++)
                ck_assert_uint_eq(pixels[y * view->stride + x * of->channels + c],
                                  sample_pixel(x, y, c));
}

/* Holds a resource until it is killed. The context is its name. */
static int hold_for_ever(const struct game_side *side)
{
    struct ec_client *client = game_join("doomed", assets.process.socket_path);
    ec_resource resource;

    GAME_CHECK(ec_resource_find(client, side->context, &resource) == EC_OK);
    GAME_CHECK(ec_resource_acquire(client, resource, NULL) == EC_OK);
    game_say(side);
    for (;;)
        pause();
}

/* ---- the tests ---- */

/* Once with membarrier and once without: the games fence themselves then. */
static const char *const fences[] = { "--set", "resource.membarrier=false", NULL };
static const char *const *const orders[] = { NULL, fences };

START_TEST(a_game_sees_each_pixel_of_each_format)
{
    struct ec_resource_view view;
    struct ec_client *client;
    ec_resource resource;

    start(orders[_i]);
    mount_and_define();
    asset_load(&assets, "all");
    client = asset_game(&assets, "game");
    resource = asset_hold(client, "a.png", &view);
    assert_pixels(&view, &shape);
    ec_resource_release(client, resource);
    resource = asset_hold(client, "c.tga", &view);
    assert_pixels(&view, &wide);
    ec_resource_release(client, resource);
    resource = asset_hold(client, "d.bmp", &view);
    assert_pixels(&view, &rgb);
    ec_resource_release(client, resource);
    resource = asset_hold(client, "b.jpg", &view);
    ck_assert_uint_eq(view.channels, 3);
    for (uint32_t y = 0; y < view.height; y++)
        for (uint32_t x = 0; x < view.width * 3; x++)
            ck_assert_int_le(abs(((const unsigned char *)view.data)[y * view.stride + x] -
                                 sample_jpeg_grey(x / 3, y)),
                             1);
    ec_resource_release(client, resource);
    resource = asset_hold(client, "notes", &view);
    ck_assert_uint_eq(view.content, EC_RESOURCE_RAW);
    ck_assert_uint_eq(view.bytes, 17);
    ck_assert_mem_eq(view.data, "what a game reads", 17);
    ec_resource_release(client, resource);
    ck_assert_int_eq(ec_resource_find(client, "nobody", &resource), EC_ERR_NOT_FOUND);
    ck_assert_uint_eq(resource.value, 0);
    ck_assert_int_eq(ec_resource_acquire(client, resource, &view), EC_ERR_STALE);
    ec_client_destroy(client);
    stop();
}
END_TEST

START_TEST(what_is_held_is_kept_and_its_holder_named)
{
    struct ec_client *client;
    ec_resource resource, again;
    char reason[64];
    const char *reply;

    start(orders[_i]);
    mount_and_define();
    asset_load(&assets, "all");
    client = asset_game(&assets, "game");
    resource = asset_hold(client, "a.png", NULL);
    reply = asset_call(&assets, "resource.evict", "{\"group\":\"all\"}");
    asset_text(reply, "result/kept/0/name", "a.png");
    snprintf(reason, sizeof reason, "held by client %u (game)", ec_client_id(client));
    asset_text(reply, "result/kept/0/reason", reason);
    ck_assert_ptr_null(reply_at(reply, "result/kept/1").text);
    ck_assert_int_eq(reply_number(reply, "result/freed_bytes"), 4 * 4096);
    ck_assert_int_eq(asset_bytes(&assets), 4096);

    /* It stays usable, by its holder and by others; the rest is gone. */
    ck_assert_int_eq(ec_resource_acquire(client, resource, NULL), EC_OK);
    ec_resource_release(client, resource);
    ck_assert_int_eq(ec_resource_find(client, "b.jpg", &again), EC_ERR_EVICTED);

    ec_resource_release(client, resource);
    reply = asset_call(&assets, "resource.evict", "{\"group\":\"all\"}");
    asset_text(reply, "result/evicted/0", "a.png");
    ck_assert_int_eq(asset_bytes(&assets), 0);
    ck_assert_int_eq(ec_resource_acquire(client, resource, NULL), EC_ERR_EVICTED);

    /* Loaded again it has another handle, and the old one stays stale. */
    asset_load(&assets, "all");
    again = asset_hold(client, "a.png", NULL);
    ck_assert_uint_ne(again.value, resource.value);
    ck_assert_int_eq(ec_resource_acquire(client, resource, NULL), EC_ERR_STALE);
    ec_resource_release(client, again);
    ec_client_destroy(client);
    stop();
}
END_TEST

START_TEST(a_group_that_fails_leaves_nothing_and_names_the_resource)
{
    struct ec_client *client;
    ec_resource resource;
    const char *reply;
    unsigned before;

    start(NULL);
    mount_and_define();
    asset_ok(asset_call(&assets, "resource.define",
                        "{\"group\":\"bad\",\"resources\":["
                        "{\"name\":\"x\",\"path\":\"a.png\",\"kind\":\"image\"},"
                        "{\"name\":\"y\",\"path\":\"broken.png\",\"kind\":\"image\"},"
                        "{\"name\":\"z\",\"path\":\"c.tga\",\"kind\":\"image\"}]}"));
    asset_await_idle(&assets);
    before = process_descriptors(assets.process.pid);
    for (int round = 0; round < 3; round++) {
        reply = asset_call(&assets, "resource.load", "{\"group\":\"bad\"}");
        asset_error(reply, EC_ERR_GROUP, "group bad: resource y");
        asset_text(reply, "error/data/group", "bad");
        asset_text(reply, "error/data/resource", "y");
        asset_text(reply, "error/data/path", "broken.png");
        ck_assert_uint_gt(reply_at(reply, "error/data/reason").bytes, 2);
    }
    asset_ok(asset_call(&assets, "resource.unload", "{\"group\":\"bad\"}"));
    asset_load(&assets, "all");
    asset_ok(asset_call(&assets, "resource.evict", "{\"group\":\"all\"}"));
    asset_await_idle(&assets);        /* the workers come to the end of what was cancelled */
    while (asset_bytes(&assets) != 0) /* which the heap's thread may still have to give back */
        ;
    ck_assert_uint_eq(process_descriptors(assets.process.pid), before);
    client = asset_game(&assets, "game");
    ck_assert_int_eq(ec_resource_find(client, "x", &resource), EC_ERR_STATE);
    ck_assert_int_eq(ec_resource_find(client, "y", &resource), EC_ERR_STATE);
    ec_client_destroy(client);
    stop();
}
END_TEST

static const struct {
    const char *resource; /* as in resource.define */
    const char *part;     /* of the error of the load */
} bad_resources[] = {
    { "{\"name\":\"missing.png\",\"kind\":\"image\"}", "not found" },
    { "{\"name\":\"deep\"}", "directory" },
    { "{\"name\":\"t\",\"path\":\"deep/notes.txt\",\"kind\":\"image\"}", "no image" },
    { "{\"name\":\"link\"}", "link" },
};

START_TEST(what_cannot_be_loaded_says_why)
{
    char path[200];

    start(NULL);
    snprintf(path, sizeof path, "%s/link", assets.folder);
    ck_assert_int_eq(symlink("/etc/passwd", path), 0);
    asset_ok(asset_call(&assets, "resource.mount", "{\"path\":\"%s\"}", archive));
    asset_ok(asset_call(&assets, "resource.mount", "{\"path\":\"%s\"}", assets.folder));
    asset_ok(asset_call(&assets, "resource.define", "{\"group\":\"g\",\"resources\":[%s]}",
                        bad_resources[_i].resource));
    asset_error(asset_call(&assets, "resource.load", "{\"group\":\"g\"}"), EC_ERR_GROUP,
                bad_resources[_i].part);
    stop();
}
END_TEST

static const struct {
    const char *params;
    int code;
    const char *part;
} bad_definitions[] = {
    { "{\"group\":\"g\",\"resources\":[]}", EC_ERR_PARAM, "empty" },
    { "{\"group\":\"g\",\"resources\":[7]}", EC_ERR_PARAM, "resources[0]" },
    { "{\"group\":\"g\",\"resources\":[{}]}", EC_ERR_PARAM, "name is missing" },
    { "{\"group\":\"g\",\"resources\":[{\"name\":\"\"}]}", EC_ERR_PARAM, "1..127" },
    { "{\"group\":\"g\",\"resources\":[{\"name\":\"a\",\"kind\":\"song\"}]}", EC_ERR_PARAM,
      "song" },
    { "{\"group\":\"g\",\"resources\":[{\"name\":\"a\",\"size\":1}]}", EC_ERR_PARAM, "size" },
    { "{\"group\":\"g\",\"resources\":[{\"name\":\"a\"},{\"name\":\"a\"}]}", EC_ERR_PARAM,
      "twice" },
    { "{\"group\":\"g\",\"residency\":\"eternal\",\"resources\":[{\"name\":\"a\"}]}", EC_ERR_PARAM,
      "eternal" },
    { "{\"group\":\"g\",\"resources\":[{\"name\":\"a\",\"path\":\"../a\"}]}", EC_ERR_PATH, ".." },
    { "{\"group\":\"g\",\"resources\":[{\"name\":\"a\",\"path\":\"/etc/passwd\"}]}", EC_ERR_PATH,
      "absolute" },
    { "{\"group\":\"g\",\"resources\":[{\"name\":\"a\",\"path\":\"b\\\\c\"}]}", EC_ERR_PATH, "\\" },
    { "{\"group\":\"g\",\"resources\":[{\"name\":\"a\",\"path\":\"b\\u0007\"}]}", EC_ERR_PATH,
      "control" },
    { "{\"group\":\"g\",\"resources\":[{\"name\":\"a\",\"path\":\"b\\u0000c\"}]}", EC_ERR_PATH,
      "NUL" },
    { "{\"group\":\"g\",\"resources\":[{\"name\":\"a/../b\"}]}", EC_ERR_PATH, ".." },
    { "{\"group\":\"all\",\"resources\":[{\"name\":\"a\"}]}", EC_ERR_STATE, "all" },
    { "{\"group\":\"g\",\"resources\":[{\"name\":\"fresh\"},{\"name\":\"a.png\"}]}", EC_ERR_STATE,
      "a.png" },
};

START_TEST(a_bad_definition_is_named_and_changes_nothing)
{
    const char *reply;

    start(NULL);
    mount_and_define();
    mount_and_define(); /* the same again is no error */
    asset_error(asset_call(&assets, "resource.define", "%s", bad_definitions[_i].params),
                bad_definitions[_i].code, bad_definitions[_i].part);
    reply = asset_call(&assets, "resource.list", "{}");
    ck_assert_ptr_nonnull(reply_at(reply, "result/items/4").text);
    ck_assert_ptr_null(reply_at(reply, "result/items/5").text);
    ck_assert_ptr_null(reply_at(reply, "result/groups/1").text);
    asset_error(asset_call(&assets, "resource.load", "{\"group\":\"g\"}"), EC_ERR_NOT_FOUND, "g");
    stop();
}
END_TEST

START_TEST(references_of_a_killed_game_end_and_the_unload_that_waited_for_them)
{
    struct line_client events = { 0 };
    const char *reply;
    struct game game;

    start(NULL);
    mount_and_define();
    asset_load(&assets, "all");
    subscribe(&events);
    game = game_start(hold_for_ever, "a.png");
    game_await(&game);
    reply = asset_call(&assets, "resource.unload", "{\"group\":\"all\"}");
    asset_text(reply, "result/state", "unloading");
    ck_assert_int_eq(reply_number(reply, "result/waiting_for/0/hard_refs"), 1);
    ck_assert_int_eq(asset_bytes(&assets), 4096);
    ck_assert_int_eq(game_kill(&game), -SIGKILL);
    await_group(&events, "all", "unloaded");
    ck_assert_int_eq(asset_bytes(&assets), 0);
    line_client_close(&events);
    stop();
}
END_TEST

START_TEST(an_unload_waits_for_the_last_release)
{
    struct line_client events = { 0 };
    struct ec_client *client;
    ec_resource resource, other;

    start(NULL);
    mount_and_define();
    asset_load(&assets, "all");
    subscribe(&events);
    client = asset_game(&assets, "game");
    resource = asset_hold(client, "a.png", NULL);
    asset_text(asset_call(&assets, "resource.unload", "{\"group\":\"all\"}"), "result/state",
               "unloading");
    ck_assert_int_eq(ec_resource_acquire(client, resource, NULL),
                     EC_AGAIN); /* nobody new gets in */
    ck_assert_int_eq(ec_resource_find(client, "a.png", &other), EC_AGAIN);

    /* A load calls it back, with the handle that it had. */
    asset_load(&assets, "all");
    ck_assert_int_eq(ec_resource_acquire(client, resource, NULL), EC_OK);
    ec_resource_release(client, resource);

    asset_text(asset_call(&assets, "resource.unload", "{\"group\":\"all\"}"), "result/state",
               "unloading");
    ec_resource_release(client, resource);
    await_group(&events, "all", "unloaded");
    ck_assert_int_eq(asset_bytes(&assets), 0);
    ck_assert_int_eq(ec_resource_acquire(client, resource, NULL), EC_ERR_STALE);
    ec_client_destroy(client);
    line_client_close(&events);
    stop();
}
END_TEST

START_TEST(a_resource_of_two_groups_exists_once_and_stays_for_the_other)
{
    const char *reply;

    start(NULL);
    mount_and_define();
    asset_ok(asset_call(&assets, "resource.define",
                        "{\"group\":\"few\",\"resources\":["
                        "{\"name\":\"a.png\",\"kind\":\"image\"}]}"));
    asset_load(&assets, "all");
    ck_assert_int_eq(asset_bytes(&assets), 5 * 4096);
    asset_load(&assets, "few");
    ck_assert_int_eq(asset_bytes(&assets), 5 * 4096);
    reply = asset_call(&assets, "resource.evict", "{\"group\":\"few\"}");
    asset_text(reply, "result/kept/0/reason", "needed by another group");
    asset_text(asset_call(&assets, "resource.unload", "{\"group\":\"all\"}"), "result/state",
               "unloaded");
    ck_assert_int_eq(asset_bytes(&assets), 4096);
    asset_text(asset_call(&assets, "resource.list", "{\"group\":\"few\"}"), "result/groups/0/state",
               "ready");
    asset_text(asset_call(&assets, "resource.unload", "{\"group\":\"few\"}"), "result/state",
               "unloaded");
    ck_assert_int_eq(asset_bytes(&assets), 0);
    stop();
}
END_TEST

START_TEST(loads_of_one_group_are_joined)
{
    const char *load_line =
        "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resource.load\",\"params\":{\"group\":\"all\"}},"
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resource.load\",\"params\":{\"group\":\"all\"}}]";
    const char *reply;

    start(NULL);
    mount_and_define();
    ck_assert(line_client_send(&assets.line, load_line));
    reply = line_client_receive(&assets.line);
    asset_text(reply, "0/result/state", "ready");
    asset_text(reply, "1/result/state", "ready");
    ck_assert_int_eq(
        reply_number(asset_call(&assets, "core.info", "{}"), "result/counters/resource.loaded"), 5);
    stop();
}
END_TEST

START_TEST(an_unload_ends_a_load_that_goes_on)
{
    const char *both =
        "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resource.load\",\"params\":{\"group\":\"all\"}},"
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resource.unload\",\"params\":{\"group\":\"all\"}}]";
    const char *reply;

    start(NULL);
    mount_and_define();
    ck_assert(line_client_send(&assets.line, both));
    reply = line_client_receive(&assets.line);
    ck_assert_ptr_nonnull(strstr(reply, "unloaded while it was loading"));
    asset_load(&assets, "all"); /* also joins what a worker is just at */
    asset_text(asset_call(&assets, "resource.unload", "{\"group\":\"all\"}"), "result/state",
               "unloaded");
    ck_assert_int_eq(asset_bytes(&assets), 0);
    stop();
}
END_TEST

START_TEST(a_waiter_that_hangs_up_is_forgotten)
{
    struct line_client other = { 0 };

    start(NULL);
    mount_and_define();
    ck_assert(line_client_connect(&other, assets.process.socket_path));
    ck_assert(line_client_send(&other, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resource.load\","
                                       "\"params\":{\"group\":\"all\"}}"));
    line_client_close(&other);
    asset_load(&assets, "all");
    stop();
}
END_TEST

START_TEST(pinned_groups_stay_and_what_was_never_used_goes_first)
{
    static const char *const names[] = { "a.png", "b.jpg", "c.tga", "d.bmp", "notes" };
    struct ec_client *client;
    const char *reply;

    start(NULL);
    mount_and_define();
    asset_ok(asset_call(&assets, "resource.define",
                        "{\"group\":\"pin\",\"residency\":\"pinned\",\"resources\":"
                        "[{\"name\":\"p\",\"path\":\"a.png\",\"kind\":\"image\"}]}"));
    asset_ok(asset_call(&assets, "resource.define",
                        "{\"group\":\"old\",\"resources\":"
                        "[{\"name\":\"o\",\"path\":\"a.png\",\"kind\":\"image\"}]}"));
    asset_ok(asset_call(&assets, "resource.define",
                        "{\"group\":\"soft\",\"residency\":\"evictable\","
                        "\"resources\":[{\"name\":\"s\",\"path\":\"a.png\"}]}"));
    asset_load(&assets, "old");
    asset_load(&assets, "pin");
    asset_load(&assets, "all");
    asset_load(&assets, "soft");
    client = asset_game(&assets, "game");
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            ec_resource_release(client, asset_hold(client, names[i], NULL));
        asset_ok(
            asset_call(&assets, "resource.get", "{\"name\":\"notes\"}")); /* reads what was used */
    }
    ec_client_destroy(client);
    reply = asset_call(&assets, "resource.evict", "{\"bytes\":1}");
    asset_text(reply, "result/evicted/0", "s"); /* evictable before auto, though it is the newest */
    ck_assert_ptr_null(reply_at(reply, "result/evicted/1").text);
    asset_text(asset_call(&assets, "resource.evict", "{\"bytes\":1}"), "result/evicted/0", "o");
    reply = asset_call(&assets, "resource.evict", "{\"bytes\":1000000000}");
    asset_text(reply, "result/kept/0/name", "p");
    asset_text(reply, "result/kept/0/reason", "pinned");
    ck_assert_int_eq(asset_bytes(&assets), 4096);
    asset_error(asset_call(&assets, "resource.evict", "{}"), EC_ERR_PARAM, "bytes or group");
    stop();
}
END_TEST

START_TEST(the_breaker_evicts_what_nobody_holds_and_games_see_it)
{
    struct ec_client *client;
    ec_resource held, other;
    const char *reply;

    start(NULL);
    mount_and_define();
    asset_load(&assets, "all");
    client = asset_game(&assets, "game");
    held = asset_hold(client, "a.png", NULL);
    ck_assert_int_eq(ec_resource_find(client, "c.tga", &other), EC_OK);
    reply = asset_call(&assets, "breaker.trip", "{\"level\":2,\"reason\":\"test\"}");
    ck_assert_int_eq(reply_number(reply, "result/freed_bytes"), 4 * 4096);
    asset_text(reply, "result/evicted/0", "all");
    ck_assert_uint_eq(ec_breaker_level(client), 2);
    ck_assert_int_eq(ec_resource_acquire(client, other, NULL), EC_ERR_EVICTED);
    ck_assert_int_eq(ec_resource_acquire(client, held, NULL), EC_OK);
    asset_text(asset_call(&assets, "resource.list", "{\"group\":\"all\"}"), "result/groups/0/state",
               "partial");
    ec_client_destroy(client);
    stop();
}
END_TEST

START_TEST(mounts_are_checked)
{
    const char *const missing[] = { "--set", "resource.mounts=/nowhere/at/all", NULL };
    struct daemon_process failing = { 0 };

    ck_assert(daemon_prepare(&failing));
    ck_assert(!daemon_start(&failing, missing));
    ck_assert_ptr_nonnull(strstr(failing.why, "/nowhere/at/all"));

    start(NULL);
    asset_ok(asset_call(&assets, "resource.define",
                        "{\"group\":\"early\",\"resources\":[{\"name\":\"early.txt\"}]}"));
    asset_error(asset_call(&assets, "resource.load", "{\"group\":\"early\"}"), EC_ERR_GROUP,
                "not found in the search path: early.txt"); /* nothing is mounted yet */
    asset_error(asset_call(&assets, "resource.mount", "{\"path\":\"/nowhere\"}"), EC_ERR_NOT_FOUND,
                "/nowhere");
    asset_error(asset_call(&assets, "resource.mount", "{\"path\":\"relative\"}"), EC_ERR_PATH,
                "relative");
    asset_error(
        asset_call(&assets, "resource.mount", "{\"path\":\"%s\"}", assets.process.socket_path),
        EC_ERR_PATH, "neither");
    asset_error(asset_call(&assets, "resource.mount", "{\"path\":\"/etc/passwd\"}"), EC_ERR_PATH,
                "/etc/passwd");
    asset_error(
        asset_call(&assets, "resource.mount", "{\"path\":\"%s\",\"at\":\"/a/..\"}", archive),
        EC_ERR_PATH, "..");
    asset_ok(asset_call(&assets, "resource.mount", "{\"path\":\"%s\",\"at\":\"/base\"}", archive));
    asset_error(asset_call(&assets, "resource.mount", "{\"path\":\"%s\"}", archive), EC_ERR_STATE,
                "/base");
    asset_ok(asset_call(&assets, "resource.define",
                        "{\"group\":\"g\",\"resources\":[{\"name\":\"base/deep/notes.txt\"}]}"));
    asset_load(&assets, "g");
    stop();
}
END_TEST

START_TEST(limits_of_the_configuration_hold)
{
    static const char *const arguments[] = { "--set", "resource.pixels_max=959", NULL };

    start(arguments);
    mount_and_define();
    asset_error(asset_call(&assets, "resource.load", "{\"group\":\"all\"}"), EC_ERR_GROUP, "959");
    stop();
}
END_TEST

START_TEST(a_full_heap_is_an_error_of_the_load)
{
    static const char *const arguments[] = { "--set", "resource.heap_bytes=1048576", NULL };
    const struct sample_shape large = { .width = 600, .height = 600, .channels = 3 };
    struct sample_zip zip = { 0 };
    char path[160];

    start(arguments);
    mount_and_define();
    snprintf(path, sizeof path, "%s/large.zip", assets.process.directory);
    add_image(&zip, "large.png", sample_png, &large);
    sample_zip_write(&zip, path);
    asset_ok(asset_call(&assets, "resource.mount", "{\"path\":\"%s\"}", path));
    asset_ok(asset_call(&assets, "resource.define",
                        "{\"group\":\"large\",\"resources\":"
                        "[{\"name\":\"large.png\",\"kind\":\"image\"}]}"));
    asset_error(asset_call(&assets, "resource.load", "{\"group\":\"large\"}"), EC_ERR_GROUP,
                "heap");
    asset_load(&assets, "all"); /* what fits still goes */
    unlink(path);
    stop();
}
END_TEST

/* Damaged copies of good images, each a group of its own: an error or an image, never more. */
#define BROKEN 60

START_TEST(a_corpus_of_broken_images_harms_nobody)
{
    void (*const make[])(struct sample *, const struct sample_shape *) = { sample_png, sample_jpeg,
                                                                           sample_tga, sample_bmp };
    struct sample_zip zip = { 0 };
    char path[160], name[32];
    unsigned before;

    start(NULL);
    srandom(7);
    for (unsigned i = 0; i < BROKEN; i++) {
        struct sample sample;

        make[i % 4](&sample, &rgb);
        for (unsigned flips = 0; flips < 4; flips++)
            sample.bytes[(size_t)random() % (flips < 2 ? 60 : sample.count)] ^=
                (unsigned char)(1u << random() % 8);
        snprintf(name, sizeof name, "%u", i);
        sample_zip_add(&zip, name, sample.bytes, i % 3 == 0 ? sample.count / 2 : sample.count);
        sample_free(&sample);
    }
    snprintf(path, sizeof path, "%s/broken.zip", assets.process.directory);
    sample_zip_write(&zip, path);
    mount_and_define();
    asset_ok(asset_call(&assets, "resource.mount", "{\"path\":\"%s\"}", path));
    asset_load(&assets, "all");
    asset_await_idle(&assets);
    before = process_descriptors(assets.process.pid);
    for (unsigned i = 0; i < BROKEN; i++) {
        const char *reply;

        asset_ok(asset_call(
            &assets, "resource.define",
            "{\"group\":\"broken %u\",\"resources\":[{\"name\":\"%u\",\"kind\":\"image\"}]}", i,
            i));
        reply = asset_call(&assets, "resource.load", "{\"group\":\"broken %u\"}", i);
        if (reply_at(reply, "error").text != NULL)
            ck_assert_int_eq(reply_number(reply, "error/code"), EC_ERR_GROUP);
        asset_ok(asset_call(&assets, "resource.unload", "{\"group\":\"broken %u\"}", i));
    }
    ck_assert_int_eq(asset_bytes(&assets), 5 * 4096);
    asset_await_idle(&assets);
    ck_assert_uint_eq(process_descriptors(assets.process.pid), before);
    unlink(path);
    stop();
}
END_TEST

START_TEST(the_references_of_a_client_are_listed)
{
    struct ec_client *client;
    const char *reply;

    start(NULL);
    mount_and_define();
    asset_load(&assets, "all");
    client = asset_game(&assets, "game");
    asset_hold(client, "c.tga", NULL);
    asset_hold(client, "c.tga", NULL);
    reply = asset_call(&assets, "client.get", "{\"client_id\":%u}", ec_client_id(client));
    asset_text(reply, "result/references/0/name", "c.tga");
    ck_assert_int_eq(reply_number(reply, "result/references/0/hard_refs"), 2);
    reply = asset_call(&assets, "resource.list", "{\"group\":\"all\"}");
    ck_assert_int_eq(reply_number(reply, "result/groups/0/hard_refs"), 2);
    ck_assert_int_eq(reply_number(reply, "result/items/2/hard_refs"), 2);
    ck_assert_int_eq(reply_number(reply, "result/items/2/meta/width"), 41);
    ec_client_destroy(client);
    stop();
}
END_TEST

/* Holds, checks one row and releases until it is killed. */
static int check_for_ever(const struct game_side *side)
{
    struct ec_client *client = game_join("checker", assets.process.socket_path);
    struct ec_resource_view view;
    ec_resource resource;

    (void)side;
    for (uint32_t y = 0;; y = (y + 1) % shape.height) {
        if (ec_resource_find(client, "a.png", &resource) != EC_OK ||
            ec_resource_acquire_inline(client, resource) != EC_OK)
            continue;
        GAME_CHECK(ec_resource_access(client, resource, &view) == EC_OK);
        for (uint32_t x = 0; x < shape.width; x++)
            GAME_CHECK(((const unsigned char *)view.data)[y * view.stride + x * 4] ==
                       sample_pixel(x, y, 0));
        ec_resource_release_inline(client, resource);
        sched_yield(); /* now and then nobody holds it */
    }
}

START_TEST(whoever_holds_a_resource_sees_its_pixels_while_others_evict_and_load)
{
    struct game games[2];

    start(orders[_i]);
    mount_and_define();
    asset_load(&assets, "all");
    for (unsigned i = 0; i < 2; i++)
        games[i] = game_start(check_for_ever, NULL);
    for (unsigned round = 0; round < 200; round++) {
        asset_ok(asset_call(&assets, "resource.evict", "{\"bytes\":1000000000}"));
        asset_load(&assets, "all");
    }
    for (unsigned i = 0; i < 2; i++)
        ck_assert_int_eq(game_kill(&games[i]), -SIGKILL); /* it found nothing wrong before */
    stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("resources");
    TCase *tcase = tcase_create("resources");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, a_game_sees_each_pixel_of_each_format, 0, 2);
    tcase_add_loop_test(tcase, what_is_held_is_kept_and_its_holder_named, 0, 2);
    tcase_add_test(tcase, a_group_that_fails_leaves_nothing_and_names_the_resource);
    tcase_add_loop_test(tcase, what_cannot_be_loaded_says_why, 0,
                        sizeof bad_resources / sizeof bad_resources[0]);
    tcase_add_loop_test(tcase, a_bad_definition_is_named_and_changes_nothing, 0,
                        sizeof bad_definitions / sizeof bad_definitions[0]);
    tcase_add_test(tcase, references_of_a_killed_game_end_and_the_unload_that_waited_for_them);
    tcase_add_test(tcase, an_unload_waits_for_the_last_release);
    tcase_add_test(tcase, a_resource_of_two_groups_exists_once_and_stays_for_the_other);
    tcase_add_test(tcase, loads_of_one_group_are_joined);
    tcase_add_test(tcase, an_unload_ends_a_load_that_goes_on);
    tcase_add_test(tcase, a_waiter_that_hangs_up_is_forgotten);
    tcase_add_test(tcase, pinned_groups_stay_and_what_was_never_used_goes_first);
    tcase_add_test(tcase, the_breaker_evicts_what_nobody_holds_and_games_see_it);
    tcase_add_test(tcase, mounts_are_checked);
    tcase_add_test(tcase, limits_of_the_configuration_hold);
    tcase_add_test(tcase, a_full_heap_is_an_error_of_the_load);
    tcase_add_test(tcase, a_corpus_of_broken_images_harms_nobody);
    tcase_add_test(tcase, the_references_of_a_client_are_listed);
    tcase_add_loop_test(tcase, whoever_holds_a_resource_sees_its_pixels_while_others_evict_and_load,
                        0, 2);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
