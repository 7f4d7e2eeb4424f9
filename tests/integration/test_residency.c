/* What is defined, what stays in memory, and why: manifests, dependencies, soft references, requests, pins,
 * reloads. Files are a few bytes; each takes a page of the heap. */
#include <check.h>
#include <engine-core/gpu.h>
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

#define PAGE 4096

static struct asset_daemon assets;

static void start(const char *const *arguments)
{
    assets = (struct asset_daemon) { 0 };
    asset_daemon_start(&assets, arguments);
}

static void stop(void)
{
    asset_daemon_stop(&assets);
}

/* Files a, b, c … of different bytes. */
static void write_files(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char name[2] = { (char)('a' + i), '\0' }, bytes[100];

        memset(bytes, 'A' + (int)i, sizeof bytes);
        asset_file(&assets, name, bytes, sizeof bytes);
    }
}

static void define(const char *group, const char *resources, const char *more)
{
    asset_ok(asset_call(&assets, "resource.define", "{\"group\":\"%s\",\"resources\":[%s]%s}",
                        group, resources, more));
}

static const char *group_state(const char *group)
{
    return reply_text(asset_call(&assets, "resource.list", "{\"group\":\"%s\"}", group),
                      "result/groups/0/state");
}

static void write_manifest(const char *name, const char *text)
{
    char path[200];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", assets.process.directory, name);
    file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

/* ---- manifests ---- */

static const char forest[] = "{\"groups\":[\n"
                             "  {\"group\":\"forest\",\"depends\":[\"common\"],\n"
                             "   \"resources\":[{\"name\":\"tree\",\"path\":\"a\"}]}]}\n";
static const char common[] = "{\"group\":\"common\",\"residency\":\"pinned\",\n"
                             " \"resources\":[{\"name\":\"b\"},{\"name\":\"c\"}]}\n";

START_TEST(manifests_of_a_directory_are_defined_at_the_start)
{
    char set[160], folder[128];

    assets = (struct asset_daemon) { 0 };
    asset_daemon_prepare(&assets);
    snprintf(folder, sizeof folder, "%s/manifests", assets.process.directory);
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    write_manifest("manifests/1.json", forest); /* before the one that it depends on */
    write_manifest("manifests/2.json", common);
    write_manifest("manifests/not read.txt", "{");
    snprintf(set, sizeof set, "resource.manifests=%s", folder);
    asset_daemon_start(&assets, (const char *const[]) { "--set", set, NULL });
    write_files(3);
    asset_load(&assets, "forest");
    ck_assert_str_eq(group_state("common"), "ready");
    ck_assert_int_eq(asset_bytes(&assets), 3 * PAGE);
    stop();
}
END_TEST

static const struct {
    const char *text, *part;
} bad_manifests[] = {
    { "{\"groups\":[}", "1:12:" },
    { "{\"groups\":{}}", "groups is an object, expected an array" },
    { "[]", "is an array, expected an object" },
    { "{\"groups\":[{\"group\":\"g\",\"resources\":[{\"name\":\"x\",\"path\":\"../x\"}]}]}",
      "groups[0]: resources[0]: path" },
    { "{\"groups\":[{\"group\":\"g\",\"resources\":[{\"name\":\"x\"},{\"name\":\"x\"}]}]}",
      "group g: resource x is named twice" },
    { "{\"groups\":[{\"group\":\"g\",\"resources\":[],\"more\":1}]}",
      "groups[0]: has the unknown member" },
    { "{\"groups\":[{\"group\":\"g\",\"resources\":[]}]}", "groups[0]: resources is empty" },
    { "{\"groups\":[{\"group\":\"ok\",\"resources\":[{\"name\":\"x\"}]},"
      "{\"group\":\"a\",\"depends\":[\"b\"]},{\"group\":\"b\",\"depends\":[\"c\"]},"
      "{\"group\":\"c\",\"depends\":[\"a\"]}]}",
      "c -> a -> b -> c" },
    { "{\"groups\":[{\"group\":\"g\",\"depends\":[\"g\"]}]}", "g -> g" },
};

START_TEST(a_bad_manifest_is_named_and_defines_nothing)
{
    char path[160];

    start(NULL);
    write_manifest("m.json", bad_manifests[_i].text);
    snprintf(path, sizeof path, "%s/m.json", assets.process.directory);
    asset_error(asset_call(&assets, "resource.define", "{\"manifest\":\"%s\"}", path),
                _i == 0   ? EC_ERR_PARSE
                : _i == 3 ? EC_ERR_PATH
                          : EC_ERR_PARAM,
                bad_manifests[_i].part);
    asset_error(asset_call(&assets, "resource.define", "{\"manifest\":\"%s\"}", path),
                _i == 0   ? EC_ERR_PARSE
                : _i == 3 ? EC_ERR_PATH
                          : EC_ERR_PARAM,
                path);
    ck_assert_int_eq(reply_number(asset_call(&assets, "resource.list", "{}"), "result/resources"),
                     0);
    ck_assert_int_eq(reply_number(asset_call(&assets, "core.info", "{}"), "result/groups"), 0);
    stop();
}
END_TEST

START_TEST(a_bad_manifest_refuses_the_start)
{
    char set[160], *said;

    assets = (struct asset_daemon) { 0 };
    asset_daemon_prepare(&assets);
    write_manifest("m.json", "{\n\"group\":");
    snprintf(set, sizeof set, "resource.manifests=%s/m.json", assets.process.directory);
    ck_assert(!daemon_start(&assets.process, (const char *const[]) { "--set", set, NULL }));
    said = assets.process.why;
    ck_assert_msg(strstr(said, "m.json: 2:9:") != NULL, "%s", said);
    daemon_kill(&assets.process);
}
END_TEST

/* ---- groups that depend on groups ---- */

START_TEST(dependencies_load_with_a_group_and_leave_with_it)
{
    const char *reply;

    start(NULL);
    write_files(3);
    define("top", "{\"name\":\"a\"}", ",\"depends\":[\"middle\",\"bottom\"]"); /* not there yet */
    asset_error(asset_call(&assets, "resource.load", "{\"group\":\"top\"}"), EC_ERR_NOT_FOUND,
                "group top depends on group middle, which is not defined");
    define("middle", "{\"name\":\"b\"}", ",\"depends\":[\"bottom\"]");
    define("bottom", "{\"name\":\"c\"}", "");
    asset_load(&assets, "top");
    ck_assert_str_eq(group_state("bottom"), "ready");

    reply = asset_call(&assets, "resource.unload", "{\"group\":\"bottom\"}");
    asset_text(reply, "result/state", "ready");
    ck_assert_ptr_nonnull(reply_at(reply, "result/needed_by/1").text);
    asset_error(asset_call(&assets, "resource.undefine", "{\"group\":\"bottom\"}"), EC_ERR_STATE,
                "is ready");
    asset_text(asset_call(&assets, "resource.unload", "{\"group\":\"top\"}"), "result/state",
               "unloaded");
    ck_assert_str_eq(group_state("middle"), "unloaded");
    ck_assert_str_eq(group_state("bottom"), "unloaded");
    while (asset_bytes(&assets) != 0) /* the heap's thread gives it back */
        ;

    /* One that was asked for by its own name stays. */
    asset_load(&assets, "bottom");
    asset_load(&assets, "top");
    asset_ok(asset_call(&assets, "resource.unload", "{\"group\":\"top\"}"));
    ck_assert_str_eq(group_state("middle"), "unloaded");
    ck_assert_str_eq(group_state("bottom"), "ready");
    stop();
}
END_TEST

START_TEST(a_dependency_that_fails_fails_the_group_and_nothing_stays)
{
    const char *reply;

    start(NULL);
    write_files(2);
    define("top", "{\"name\":\"a\"}", ",\"depends\":[\"middle\"]");
    define("middle", "{\"name\":\"b\"}", ",\"depends\":[\"bottom\"]");
    define("bottom", "{\"name\":\"not there\"}", "");
    reply = asset_call(&assets, "resource.load", "{\"group\":\"top\"}");
    asset_error(reply, EC_ERR_GROUP, "group top: resource not there");
    asset_text(reply, "error/data/resource", "not there");
    ck_assert_str_eq(group_state("top"), "failed");
    ck_assert_str_eq(group_state("middle"), "failed");
    ck_assert_str_eq(group_state("bottom"), "failed");
    while (asset_bytes(&assets) != 0) /* the heap's thread gives it back */
        ;
    asset_file(&assets, "not there", "x", 1);
    asset_load(&assets, "top");
    stop();
}
END_TEST

/* Loaded again after an eviction, it may fail while those that depend on it keep what they have. */
START_TEST(a_failed_group_stays_defined_while_others_depend_on_it)
{
    char path[200];

    start(NULL);
    write_files(2);
    define("top", "{\"name\":\"a\"}", ",\"depends\":[\"bottom\"]");
    define("bottom", "{\"name\":\"b\"}", "");
    asset_load(&assets, "top");
    asset_ok(asset_call(&assets, "resource.evict", "{\"group\":\"bottom\"}"));
    snprintf(path, sizeof path, "%s/b", assets.folder);
    ck_assert_int_eq(unlink(path), 0);
    asset_error(asset_call(&assets, "resource.load", "{\"group\":\"bottom\"}"), EC_ERR_GROUP, "b");
    ck_assert_str_eq(group_state("bottom"), "failed");
    asset_error(asset_call(&assets, "resource.undefine", "{\"group\":\"bottom\"}"), EC_ERR_STATE,
                "group top depends on it");
    ck_assert_str_eq(group_state("top"), "ready");
    asset_ok(asset_call(&assets, "resource.unload", "{\"group\":\"top\"}"));
    asset_ok(asset_call(&assets, "resource.undefine", "{\"group\":\"bottom\"}"));
    stop();
}
END_TEST

/* 2^61 ways lead from the lowest group to the highest. */
START_TEST(each_group_is_looked_at_once_however_many_ways_lead_to_it)
{
    char name[32], depends[96];

    start(NULL);
    write_files(1);
    for (int i = 62; i >= 0; i--)
        for (int side = 0; side < 2; side++) {
            snprintf(name, sizeof name, "g%d.%d", i, side);
            snprintf(depends, sizeof depends, ",\"depends\":[\"g%d.0\",\"g%d.1\"]", i + 1, i + 1);
            define(name, i == 62 ? "{\"name\":\"a\"}" : "", i == 62 ? "" : depends);
        }
    asset_load(&assets, "g0.0");
    asset_text(asset_call(&assets, "resource.evict", "{\"bytes\":1}"), "result/evicted/0", "a");
    stop();
}
END_TEST

START_TEST(a_cycle_is_named_whichever_group_closes_it)
{
    start(NULL);
    define("one", "{\"name\":\"a\"}", ",\"depends\":[\"two\"]");
    define("two", "{\"name\":\"b\"}", ",\"depends\":[\"three\"]");
    asset_error(asset_call(&assets, "resource.define",
                           "{\"group\":\"three\",\"resources\":[{\"name\":\"c\"}],"
                           "\"depends\":[\"one\"]}"),
                EC_ERR_PARAM, "three -> one -> two -> three");
    ck_assert_int_eq(reply_number(asset_call(&assets, "resource.list", "{}"), "result/resources"),
                     2);
    define("three", "{\"name\":\"c\"}", "");
    stop();
}
END_TEST

START_TEST(dependencies_have_a_greatest_depth)
{
    char depends[64];

    start(NULL);
    write_files(1);
    for (int i = 0; i < 65; i++) {
        char name[16];

        snprintf(name, sizeof name, "g%d", i);
        snprintf(depends, sizeof depends, ",\"depends\":[\"g%d\"]", i + 1);
        define(name, "{\"name\":\"a\"}", i < 64 ? depends : "");
    }
    asset_error(asset_call(&assets, "resource.load", "{\"group\":\"g0\"}"), EC_ERR_LIMIT,
                "deeper than 64");
    asset_load(&assets, "g1");
    asset_ok(asset_call(&assets, "resource.unload", "{\"group\":\"g1\"}"));
    while (asset_bytes(&assets) != 0) /* the heap's thread gives it back */
        ;
    stop();
}
END_TEST

/* ---- one copy ---- */

START_TEST(equal_bytes_under_two_names_are_stored_once)
{
    struct ec_resource_view x_view, y_view;
    struct ec_client *client;
    ec_resource x, y;

    start(NULL);
    asset_file(&assets, "x", "the same bytes", 14);
    asset_file(&assets, "y", "the same bytes", 14);
    define("first", "{\"name\":\"x\"}", "");
    define("second", "{\"name\":\"y\"}", "");
    asset_load(&assets, "first");
    asset_load(&assets, "second");
    ck_assert_int_eq(asset_bytes(&assets), PAGE);
    client = asset_game(&assets, "game");
    x = asset_hold(client, "x", &x_view);
    y = asset_hold(client, "y", &y_view);
    ck_assert_ptr_eq(x_view.data, y_view.data);

    /* Each name lives its own life on them. */
    ec_resource_release(client, x);
    asset_ok(asset_call(&assets, "resource.unload", "{\"group\":\"first\"}"));
    ck_assert_int_eq(ec_resource_acquire(client, x, NULL), EC_ERR_STALE);
    ck_assert_int_eq(asset_bytes(&assets), PAGE);
    ck_assert_mem_eq(y_view.data, "the same bytes", 14);
    ec_resource_release(client, y);
    asset_ok(asset_call(&assets, "resource.unload", "{\"group\":\"second\"}"));
    while (asset_bytes(&assets) != 0) /* the heap's thread gives it back */
        ;
    ec_client_destroy(client);
    stop();
}
END_TEST

START_TEST(an_undefined_group_leaves_no_trace)
{
    start(NULL);
    write_files(2);
    for (int round = 0; round < 3; round++) {
        define("g", "{\"name\":\"a\"},{\"name\":\"b\"}", "");
        define("other", "{\"name\":\"b\"}", "");
        asset_load(&assets, "g");
        asset_error(asset_call(&assets, "resource.undefine", "{\"group\":\"g\"}"), EC_ERR_STATE,
                    "group g is ready");
        asset_ok(asset_call(&assets, "resource.unload", "{\"group\":\"g\"}"));
        asset_ok(asset_call(&assets, "resource.undefine", "{\"group\":\"g\"}"));
        ck_assert_int_eq(
            reply_number(asset_call(&assets, "resource.list", "{}"), "result/resources"), 1);
        asset_error(asset_call(&assets, "resource.get", "{\"name\":\"a\"}"), EC_ERR_NOT_FOUND,
                    "resource a is not defined");
        asset_ok(asset_call(&assets, "resource.undefine", "{\"group\":\"other\"}"));
        ck_assert_int_eq(
            reply_number(asset_call(&assets, "resource.list", "{}"), "result/resources"), 0);
    }
    stop();
}
END_TEST

/* ---- soft references and requests ---- */

START_TEST(a_soft_reference_loads_ahead_and_keeps)
{
    struct ec_client *client;
    ec_resource_soft soft, again, none;
    ec_resource a;

    start(NULL);
    write_files(2);
    define("g", "{\"name\":\"a\"},{\"name\":\"b\"}", "");
    asset_subscribe(&assets, "[\"resource.ready\"]");
    client = asset_game(&assets, "game");
    ck_assert_int_eq(ec_resource_soft_acquire(client, "nobody", &none), EC_ERR_NOT_FOUND);
    ck_assert_int_eq(ec_resource_soft_acquire(client, "a", &soft), EC_OK);
    ck_assert_int_eq(ec_resource_soft_acquire(client, "a", &again), EC_OK);
    asset_await(&assets, "resource.ready", "name", "a");
    a = asset_hold(client, "a", NULL);
    ec_resource_release(client, a);
    ck_assert_str_eq(asset_state(&assets, "b"), "unloaded");
    ck_assert_int_eq(
        reply_number(asset_call(&assets, "resource.get", "{\"name\":\"a\"}"), "result/soft_refs"),
        2);

    /* It stays when its group goes, and goes with the last soft reference. */
    asset_load(&assets, "g");
    asset_ok(asset_call(&assets, "resource.unload", "{\"group\":\"g\"}"));
    ck_assert_str_eq(asset_state(&assets, "a"), "ready");
    ck_assert_int_eq(asset_bytes(&assets), PAGE);
    ec_resource_soft_release(client, soft);
    ec_resource_soft_release(client, none);
    ck_assert_int_eq(ec_resource_acquire(client, a, NULL), EC_OK);
    ec_resource_release(client, a);
    ec_resource_soft_release(client, again);
    while (asset_bytes(&assets) != 0)
        ; /* the tick has to come by */
    ck_assert_int_eq(ec_resource_acquire(client, a, NULL), EC_ERR_STALE);
    ec_client_destroy(client);
    stop();
}
END_TEST

START_TEST(soft_references_end_with_their_game)
{
    struct ec_client *client;
    ec_resource_soft soft;

    start(NULL);
    write_files(1);
    define("g", "{\"name\":\"a\"}", "");
    asset_subscribe(&assets, "[\"resource.ready\"]");
    client = asset_game(&assets, "game");
    ck_assert_int_eq(ec_resource_soft_acquire(client, "a", &soft), EC_OK);
    asset_await(&assets, "resource.ready", "name", "a");
    ec_client_destroy(client);
    while (asset_bytes(&assets) != 0)
        ;
    stop();
}
END_TEST

START_TEST(a_name_that_is_defined_again_is_not_taken_along_by_its_old_life)
{
    struct ec_client *client;
    ec_resource_soft soft, other;

    start(NULL);
    write_files(2);
    define("g", "{\"name\":\"a\"}", "");
    define("h", "{\"name\":\"b\"}", "");
    asset_subscribe(&assets, "[\"resource.ready\"]");
    client = asset_game(&assets, "game");
    ck_assert_int_eq(ec_resource_soft_acquire(client, "a", &soft), EC_OK);
    asset_await(&assets, "resource.ready", "name", "a");
    asset_ok(asset_call(&assets, "resource.undefine", "{\"group\":\"g\"}"));
    define("g", "{\"name\":\"a\"}", "");
    ck_assert_int_eq(
        reply_number(asset_call(&assets, "resource.get", "{\"name\":\"a\"}"), "result/soft_refs"),
        1); /* it asks for the new one, too */
    asset_load(&assets, "g");
    ec_resource_soft_release(client, soft);
    ck_assert_int_eq(ec_resource_soft_acquire(client, "b", &other), EC_OK);
    asset_await(&assets, "resource.ready", "name", "b"); /* the tick has come by */
    ck_assert_str_eq(asset_state(&assets, "a"), "ready");
    ec_resource_release(client, asset_hold(client, "a", NULL));
    ck_assert_int_eq(
        reply_number(asset_call(&assets, "resource.get", "{\"name\":\"a\"}"), "result/soft_refs"),
        0);
    ec_client_destroy(client);
    stop();
}
END_TEST

START_TEST(the_budget_bounds_what_is_loaded_ahead)
{
    struct ec_client *client;
    ec_resource_soft soft[4];
    static const char *const names[] = { "a", "b", "c", "d" };

    start((const char *const[]) { "--set", "resource.soft_bytes=8192", NULL });
    write_files(4);
    define("g", "{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"c\"},{\"name\":\"d\"}", "");
    asset_subscribe(&assets, "[\"resource.ready\"]");
    client = asset_game(&assets, "game");
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(ec_resource_soft_acquire(client, names[i], &soft[i]), EC_OK);
    asset_await(&assets, "resource.ready", "name", "b");
    ck_assert_int_le(asset_bytes(&assets), 2 * PAGE);
    ck_assert_str_ne(asset_state(&assets, "c"), "ready");
    ec_resource_soft_release(client, soft[0]); /* makes room for the next in line */
    asset_await(&assets, "resource.ready", "name", "c");
    ck_assert_int_le(asset_bytes(&assets), 2 * PAGE);

    /* Who asks by name does not wait for the budget. */
    asset_text(asset_call(&assets, "resource.request", "{\"name\":\"d\"}"), "result/state",
               "ready");
    ck_assert_int_eq(asset_bytes(&assets), 3 * PAGE);
    ec_client_destroy(client);
    stop();
}
END_TEST

START_TEST(an_evicted_resource_says_so_and_can_be_asked_for)
{
    struct ec_client *client;
    ec_resource a, fresh;

    start(NULL);
    write_files(2);
    define("g", "{\"name\":\"a\"},{\"name\":\"b\"}", "");
    asset_load(&assets, "g");
    asset_subscribe(&assets, "[\"resource.ready\",\"resource.group\"]");
    client = asset_game(&assets, "game");
    a = asset_hold(client, "a", NULL);
    ec_resource_release(client, a);
    asset_ok(asset_call(&assets, "resource.evict", "{\"group\":\"g\"}"));
    ck_assert_str_eq(group_state("g"), "evicted");
    ck_assert_int_eq(ec_resource_acquire(client, a, NULL), EC_ERR_EVICTED);
    ck_assert_int_eq(ec_resource_find(client, "a", &fresh), EC_ERR_EVICTED);
    ck_assert_int_eq(ec_resource_request(client, "nobody"), EC_ERR_NOT_FOUND);
    ck_assert_int_eq(ec_resource_request(client, "a"), EC_OK);
    asset_await(&assets, "resource.ready", "name", "a");
    ck_assert_str_eq(group_state("g"), "partial");
    fresh = asset_hold(client, "a", NULL);
    ck_assert_uint_ne(fresh.value, a.value);
    ck_assert_int_eq(ec_resource_acquire(client, a, NULL), EC_ERR_STALE);

    asset_text(asset_call(&assets, "resource.request", "{\"name\":\"b\"}"), "result/state",
               "ready");
    asset_await(&assets, "resource.group", "state", "ready");
    ck_assert_str_eq(group_state("g"), "ready");
    ec_resource_release(client, fresh);

    asset_ok(asset_call(&assets, "resource.unload", "{\"group\":\"g\"}"));
    asset_error(asset_call(&assets, "resource.request", "{\"name\":\"a\"}"), EC_ERR_STATE,
                "in no group that is loaded");
    ec_client_destroy(client);
    stop();
}
END_TEST

/* ---- lists ---- */

START_TEST(the_list_comes_in_pages)
{
    char resources[32000], after[128] = "";
    unsigned items = 0, groups = 0, pages = 0;
    size_t used = 0;

    start(NULL);
    for (unsigned i = 0; i < 1000; i++)
        used += (size_t)snprintf(resources + used, sizeof resources - used, "%s{\"name\":\"r%u\"}",
                                 i > 0 ? "," : "", i);
    define("many", resources, "");
    for (unsigned i = 0; i < 100; i++) {
        char name[16];

        snprintf(name, sizeof name, "group %u", i);
        define(name, "{\"name\":\"r1\"}", "");
    }
    do {
        const char *reply = asset_call(&assets, "resource.list", "{\"limit\":64%s%s%s}",
                                       after[0] != '\0' ? ",\"after\":\"" : "", after,
                                       after[0] != '\0' ? "\"" : "");
        struct ec_json_iterator rows = ec_json_iterate(reply_at(reply, "result/items"));
        struct ec_json_span row;

        while (ec_json_next_element(&rows, &row))
            items++;
        rows = ec_json_iterate(reply_at(reply, "result/groups"));
        while (ec_json_next_element(&rows, &row))
            groups++;
        ck_assert_int_eq(reply_number(reply, "result/resources"), 1000);
        after[0] = '\0';
        ec_json_get_text(reply_at(reply, "result/next"), after, sizeof after);
        pages++;
    } while (after[0] != '\0');
    ck_assert_uint_eq(items, 1000);
    ck_assert_uint_eq(groups, 101);
    ck_assert_uint_eq(pages, 16);
    asset_error(asset_call(&assets, "resource.list", "{\"after\":\"x\"}"), EC_ERR_PARAM,
                "which no answer gave");
    stop();
}
END_TEST

START_TEST(a_pinned_group_stays_until_it_is_let_go)
{
    const char *reply;

    start(NULL);
    write_files(1);
    define("g", "{\"name\":\"a\"}", "");
    asset_load(&assets, "g");
    reply = asset_call(&assets, "resource.pin", "{\"group\":\"g\"}");
    ck_assert(line_has(reply, "pinned", "true"));
    asset_text(reply, "result/residency", "auto");
    asset_text(asset_call(&assets, "resource.evict", "{\"group\":\"g\"}"), "result/kept/0/reason",
               "pinned");
    ck_assert_int_eq(asset_bytes(&assets), PAGE);
    asset_ok(asset_call(&assets, "resource.pin", "{\"group\":\"g\",\"pinned\":false}"));
    asset_text(asset_call(&assets, "resource.evict", "{\"group\":\"g\"}"), "result/evicted/0", "a");
    stop();
}
END_TEST

START_TEST(a_pin_outlives_an_unload_and_the_daemon)
{
    char mounts[160];
    const char *const arguments[] = { "--set", "core.descriptor_store=true", "--set", mounts,
                                      NULL };

    assets = (struct asset_daemon) { 0 };
    asset_daemon_prepare(&assets);
    assets.process.keeps_descriptors = true;
    asset_daemon_start(&assets,
                       (const char *const[]) { "--set", "core.descriptor_store=true", NULL });
    snprintf(mounts, sizeof mounts, "resource.mounts=%s", assets.folder);
    write_files(1);
    define("g", "{\"name\":\"a\"}", "");
    asset_load(&assets, "g");
    asset_ok(asset_call(&assets, "resource.pin", "{\"group\":\"g\"}"));
    asset_ok(asset_call(&assets, "resource.unload", "{\"group\":\"g\"}")); /* is no eviction */
    ck_assert_str_eq(asset_state(&assets, "a"), "unloaded");
    asset_load(&assets, "g");
    asset_text(asset_call(&assets, "resource.evict", "{\"group\":\"g\"}"), "result/kept/0/reason",
               "pinned");

    daemon_crash(&assets.process);
    ck_assert_msg(daemon_start(&assets.process, arguments), "%s", assets.process.why);
    line_client_close(&assets.line);
    ck_assert(line_client_connect(&assets.line, assets.process.socket_path));
    ck_assert_ptr_nonnull(line_client_hello(&assets.line, "test"));
    ck_assert_str_eq(group_state("g"), "ready");
    asset_text(asset_call(&assets, "resource.evict", "{\"group\":\"g\"}"), "result/kept/0/reason",
               "pinned");
    asset_ok(asset_call(&assets, "resource.pin", "{\"group\":\"g\",\"pinned\":false}"));
    asset_text(asset_call(&assets, "resource.evict", "{\"group\":\"g\"}"), "result/evicted/0", "a");
    stop();
}
END_TEST

/* ---- who goes first ---- */

static void use(struct ec_client *client, const char *name)
{
    ec_resource resource = asset_hold(client, name, NULL);

    ec_resource_release(client, resource);
    asset_ok(asset_call(&assets, "resource.get", "{\"name\":\"%s\"}", name)); /* reads the rings */
}

START_TEST(who_was_used_before_last_the_longest_ago_goes_first)
{
    static const char *const uses[] = { "b", "c", "b", "c", "a", "a" };
    struct ec_client *client;
    const char *reply;

    start(NULL);
    write_files(3);
    define("g", "{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"c\"}", "");
    asset_load(&assets, "g");
    client = asset_game(&assets, "game");
    for (size_t i = 0; i < sizeof uses / sizeof uses[0]; i++)
        use(client, uses[i]);
    reply = asset_call(&assets, "resource.get", "{\"name\":\"a\"}");
    ck_assert_int_eq(reply_number(reply, "result/uses"), 2);
    ck_assert_int_gt(reply_number(reply, "result/previous_use_ns"), 0);
    ck_assert_int_gt(reply_number(reply, "result/last_use_ns"),
                     reply_number(reply, "result/previous_use_ns"));
    asset_text(asset_call(&assets, "resource.evict", "{\"bytes\":1}"), "result/evicted/0", "b");

    /* The history of b is kept: with its third use it is newer than c. */
    asset_ok(asset_call(&assets, "resource.request", "{\"name\":\"b\"}"));
    use(client, "b");
    asset_text(asset_call(&assets, "resource.evict", "{\"bytes\":1}"), "result/evicted/0", "c");
    asset_text(asset_call(&assets, "resource.evict", "{\"bytes\":1}"), "result/evicted/0", "b");
    asset_text(asset_call(&assets, "resource.evict", "{\"bytes\":1}"), "result/evicted/0", "a");
    ec_client_destroy(client);
    stop();
}
END_TEST

START_TEST(the_last_uses_of_a_game_that_leaves_are_seen)
{
    static const char *const slow[] = { "--set", "resource.tick_ms=1000", NULL };
    struct ec_client *client;

    start(slow);
    write_files(1);
    define("g", "{\"name\":\"a\"}", "");
    asset_load(&assets, "g");
    client = asset_game(&assets, "game");
    ec_resource_release(client, asset_hold(client, "a", NULL));
    ec_client_destroy(client);
    ck_assert_int_eq(
        reply_number(asset_call(&assets, "resource.get", "{\"name\":\"a\"}"), "result/uses"), 1);
    stop();
}
END_TEST

/* ---- reload ---- */

START_TEST(a_reload_gives_a_new_life_and_the_old_one_stays_with_its_holder)
{
    struct ec_resource_view old_view, view;
    struct ec_client *client;
    ec_resource old, fresh;
    const char *reply;

    start(NULL);
    asset_file(&assets, "a", "first", 5);
    define("g", "{\"name\":\"a\"}", "");
    asset_load(&assets, "g");
    asset_subscribe(&assets, "[\"resource.changed\"]");
    client = asset_game(&assets, "game");
    old = asset_hold(client, "a", &old_view);
    asset_file(&assets, "a", "second", 6);
    asset_ok(asset_call(&assets, "resource.reload", "{\"name\":\"a\"}"));
    asset_await(&assets, "resource.changed", "state", "changed");

    ck_assert_int_eq(ec_resource_acquire(client, old, NULL), EC_ERR_STALE);
    ck_assert_mem_eq(old_view.data, "first", 5);
    ck_assert_int_eq(ec_resource_access(client, old, &view), EC_OK);
    ck_assert_ptr_eq(view.data, old_view.data);
    fresh = asset_hold(client, "a", &view);
    ck_assert_mem_eq(view.data, "second", 6);
    ck_assert_int_eq(asset_bytes(&assets), 2 * PAGE);
    reply = asset_call(&assets, "resource.get", "{\"name\":\"a\"}");
    ck_assert_int_eq(reply_number(reply, "result/old/0/hard_refs"), 1);
    ck_assert_int_eq(reply_number(reply, "result/hard_refs"), 1);

    ec_resource_release(client, old);
    while (asset_bytes(&assets) != PAGE)
        ;
    ck_assert_int_eq(ec_resource_access(client, old, &view), EC_ERR_STALE);

    /* What cannot be loaded leaves the old one as it is. */
    asset_ok(asset_call(&assets, "resource.evict", "{\"bytes\":1}"));
    ck_assert_str_eq(asset_state(&assets, "a"), "ready");
    ec_resource_release(client, fresh);
    ec_client_destroy(client);
    stop();
}
END_TEST

static const char *const hot[] = { "--set", "resource.hot_reload=true", NULL };

static int64_t reloads(void)
{
    return reply_number(asset_call(&assets, "core.info", "{}"),
                        "result/counters/resource.reloaded");
}

START_TEST(a_saved_file_is_loaded_again_once)
{
    struct ec_resource_view view;
    struct ec_client *client;
    char path[200];
    FILE *file;

    start(hot);
    asset_file(&assets, "a", "first", 5);
    define("g", "{\"name\":\"a\"}", "");
    asset_load(&assets, "g");
    asset_subscribe(&assets, "[\"resource.changed\"]");
    client = asset_game(&assets, "game");

    /* As an editor does it: beside, over it, and then again in place, in several writes. The daemon
     * stands still meanwhile, so that it sees all of it at once, however slow this test is. */
    game_stop(&(struct game) { .pid = assets.process.pid });
    asset_file(&assets, "a", "second", 6);
    snprintf(path, sizeof path, "%s/a", assets.folder);
    for (int i = 0; i < 3; i++) {
        file = fopen(path, "ae");
        ck_assert_ptr_nonnull(file);
        ck_assert_int_ge(fputs("!", file), 0);
        ck_assert_int_eq(fclose(file), 0);
    }
    game_continue(&(struct game) { .pid = assets.process.pid });
    asset_await(&assets, "resource.changed", "state", "changed");
    asset_hold(client, "a", &view);
    ck_assert_uint_eq(view.bytes, 9);
    ck_assert_mem_eq(view.data, "second!!!", 9);
    ck_assert_int_eq(reloads(), 1);

    /* The same bytes again are no change, so the next event is of the one behind it. */
    asset_file(&assets, "a", "second!!!", 9);
    asset_file(&assets, "other", "x", 1);
    asset_file(&assets, "b", "x", 1);
    define("h", "{\"name\":\"b\"}", "");
    asset_load(&assets, "h");
    asset_file(&assets, "b", "y", 1);
    asset_await(&assets, "resource.changed", "name", "b");
    ck_assert_int_eq(reloads(), 2);
    ec_client_destroy(client);
    stop();
}
END_TEST

START_TEST(a_file_that_cannot_be_loaded_leaves_the_old_one)
{
    struct ec_resource_view view;
    struct ec_client *client;
    struct sample image;
    ec_resource a;

    start(hot);
    sample_png(&image, &(struct sample_shape) { .width = 8, .height = 8, .channels = 4 });
    asset_file(&assets, "a", image.bytes, image.count);
    define("g", "{\"name\":\"a\",\"kind\":\"image\"}", "");
    asset_load(&assets, "g");
    asset_subscribe(&assets, "[\"resource.changed\"]");
    client = asset_game(&assets, "game");
    a = asset_hold(client, "a", &view);
    asset_file(&assets, "a", image.bytes, image.count / 2);
    asset_await(&assets, "resource.changed", "state", "failed");
    ck_assert_int_eq(ec_resource_acquire(client, a, NULL), EC_OK);
    ck_assert_uint_eq(view.width, 8);
    sample_free(&image);
    sample_png(&image, &(struct sample_shape) { .width = 16, .height = 8, .channels = 4 });
    asset_file(&assets, "a", image.bytes, image.count);
    asset_await(&assets, "resource.changed", "state", "changed");
    asset_hold(client, "a", &view);
    ck_assert_uint_eq(view.width, 16);
    sample_free(&image);
    ec_client_destroy(client);
    stop();
}
END_TEST

START_TEST(a_folder_that_appears_later_is_watched)
{
    char path[200];

    start(hot);
    define("g", "{\"name\":\"a\",\"path\":\"deep/down/a\"}", "");
    snprintf(path, sizeof path, "%s/deep", assets.folder);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/deep/down", assets.folder);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    asset_file(&assets, "deep/down/a", "first", 5);
    asset_load(&assets, "g");
    asset_subscribe(&assets, "[\"resource.changed\"]");
    asset_file(&assets, "deep/down/a", "second", 6);
    asset_await(&assets, "resource.changed", "name", "a");
    stop();
}
END_TEST

static void write_archive(const char *text)
{
    struct sample_zip zip = { 0 };
    char path[200], fresh[200];

    snprintf(path, sizeof path, "%s/pack.zip", assets.process.directory);
    snprintf(fresh, sizeof fresh, "%s/pack.new", assets.process.directory);
    sample_zip_add(&zip, "z", text, strlen(text));
    sample_zip_add(&zip, "same", "unchanged", 9);
    sample_zip_write(&zip, fresh);
    ck_assert_int_eq(rename(fresh, path), 0);
}

START_TEST(a_saved_archive_is_opened_anew)
{
    struct ec_resource_view view;
    struct ec_client *client;
    ec_resource same;

    start(hot);
    write_archive("first");
    asset_ok(asset_call(&assets, "resource.mount", "{\"path\":\"%s/pack.zip\"}",
                        assets.process.directory));
    define("g", "{\"name\":\"z\"},{\"name\":\"same\"}", "");
    asset_load(&assets, "g");
    asset_subscribe(&assets, "[\"resource.changed\"]");
    client = asset_game(&assets, "game");
    same = asset_hold(client, "same", NULL);
    write_archive("second");
    asset_await(&assets, "resource.changed", "name", "z");
    asset_hold(client, "z", &view);
    ck_assert_mem_eq(view.data, "second", 6);
    ck_assert_int_eq(ec_resource_acquire(client, same, NULL), EC_OK); /* not changed, same life */
    write_archive("third");
    asset_await(&assets, "resource.changed", "name", "z");
    asset_hold(client, "z", &view);
    ck_assert_mem_eq(view.data, "third", 5);
    ec_client_destroy(client);
    stop();
}
END_TEST

/* ---- the GPU's queue ---- */

/* The next request within the time of some ticks. */
static ec_gpu next_request(struct ec_client *client)
{
    ec_gpu gpu;

    while (ec_gpu_next_request(client, &gpu) != EC_OK)
        ck_assert_ptr_nonnull(asset_call(&assets, "core.ping", "{}"));
    return gpu;
}

static int64_t gpu_number(const char *path)
{
    char whole[80];

    snprintf(whole, sizeof whole, "result/gpu/0/%s", path);
    return reply_number(asset_call(&assets, "resource.list", "{\"gpu\":true}"), whole);
}

START_TEST(a_game_is_asked_for_what_its_gpu_does_not_use)
{
    struct ec_client *client;
    ec_gpu a, b, c, asked;

    start(NULL);
    client = asset_game(&assets, "game");
    ck_assert_int_eq(ec_gpu_declare(client, "", 1, &a), EC_ERR_PARAM);
    ck_assert_int_eq(ec_gpu_declare(client, "a", 100, &a), EC_OK);
    ck_assert_int_eq(ec_gpu_declare(client, "b", 100, &b), EC_OK);
    ck_assert_int_eq(ec_gpu_declare(client, "c", 100, &c), EC_OK);
    ec_gpu_use(client, b, 1);
    ec_gpu_use(client, a, 2);
    ec_gpu_use(client, c, 3);
    ec_gpu_completed(client, 2);
    ck_assert_int_eq(gpu_number("resident_bytes"), 300);
    ec_gpu_budget(client, 150); /* two must go, but the work of c goes on */
    asked = next_request(client);
    ck_assert_uint_eq(asked.value, b.value);
    asked = next_request(client);
    ck_assert_uint_eq(asked.value, a.value);
    ck_assert_int_eq(gpu_number("requested_bytes"), 200);
    ck_assert_int_eq(gpu_number("resident_bytes"), 300); /* until it is confirmed */
    ck_assert_int_eq(ec_gpu_evicted(client, b), EC_OK);
    ec_gpu_use(client, a, 4); /* not given back: used again */
    ck_assert_int_eq(gpu_number("resident_bytes"), 200);
    ck_assert_int_eq(gpu_number("requested_bytes"), 0);
    ec_gpu_completed(client, 3);
    asked = next_request(client);
    ck_assert_uint_eq(asked.value, c.value);
    ec_gpu_forget(client, c);
    ck_assert_int_eq(ec_gpu_evicted(client, c), EC_ERR_STALE);
    ck_assert_int_eq(gpu_number("resident_bytes"), 100);
    ck_assert_int_eq(gpu_number("declared"), 2);
    ck_assert_int_eq(ec_gpu_restored(client, b), EC_OK);
    ck_assert_int_eq(gpu_number("resident_bytes"), 200);
    ec_client_destroy(client);
    stop();
}
END_TEST

/* With work that was never completed, and something asked for: all of it goes with the game. */
static int die_with_work(const struct game_side *side)
{
    struct ec_client *client = game_join("doomed", assets.process.socket_path);
    ec_gpu busy, idle, asked;

    GAME_CHECK(ec_gpu_declare(client, "busy", 100, &busy) == EC_OK);
    GAME_CHECK(ec_gpu_declare(client, "idle", 100, &idle) == EC_OK);
    ec_gpu_use(client, busy, 7);
    ec_gpu_budget(client, 1);
    while (ec_gpu_next_request(client, &asked) != EC_OK)
        ;
    GAME_CHECK(asked.value == idle.value);
    game_say(side);
    game_hear(side);
    return 0;
}

START_TEST(the_gpu_queue_of_a_game_goes_with_it)
{
    struct ec_client *client;
    struct game game;
    ec_gpu gpu, asked;

    start(NULL);
    game = game_start(die_with_work, NULL); /* before this process has a second thread */
    game_await(&game);
    client = asset_game(&assets, "other");
    ck_assert_int_eq(ec_gpu_declare(client, "mine", 10, &gpu), EC_OK);
    ck_assert_ptr_nonnull(
        strstr(asset_call(&assets, "resource.list", "{\"gpu\":true}"), "\"doomed\""));
    ck_assert_int_eq(game_kill(&game), -SIGKILL);
    while (strstr(asset_call(&assets, "resource.list", "{\"gpu\":true}"), "\"doomed\"") != NULL)
        ;
    ck_assert_int_eq(gpu_number("resident_bytes"), 10); /* the other's books are as they were */
    ck_assert_int_eq(ec_gpu_next_request(client, &asked), EC_AGAIN);
    ec_client_destroy(client);
    stop();
}
END_TEST

START_TEST(a_game_without_the_library_has_a_gpu_queue_too)
{
    char id[2][32];
    const char *reply, *line;

    start(NULL);
    reply = asset_call(&assets, "resource.gpu",
                       "{\"budget_bytes\":100,\"declare\":[{\"name\":\"x\",\"bytes\":80},"
                       "{\"name\":\"y\",\"bytes\":80}],\"completed_fence\":0}");
    snprintf(id[0], sizeof id[0], "%s", reply_text(reply, "result/gpu_ids/0"));
    snprintf(id[1], sizeof id[1], "%s", reply_text(reply, "result/gpu_ids/1"));
    ck_assert_int_eq(reply_number(reply, "result/requested_bytes"), 80);
    asset_error(asset_call(&assets, "resource.gpu",
                           "{\"budget_bytes\":1,\"used\":[{\"gpu_id\":\"0x7\",\"fence\":1}]}"),
                EC_ERR_STALE, "used[0]");
    asset_error(asset_call(&assets, "resource.gpu", "{\"completed_fence\":-1}"), EC_ERR_PARAM,
                "completed_fence");
    asset_error(asset_call(&assets, "resource.gpu", "{\"budget_bytes\":-1}"), EC_ERR_PARAM,
                "budget_bytes");
    reply = asset_call(&assets, "resource.gpu", "{\"evicted\":[\"%s\"]}", id[0]);
    ck_assert_int_eq(reply_number(reply, "result/resident_bytes"), 80);
    reply = asset_call(&assets, "resource.gpu", "{\"evicted\":[\"%s\",\"%s\"]}", id[0], id[0]);
    ck_assert_int_eq(reply_number(reply, "result/budget_bytes"),
                     100); /* the fault changed nothing */
    ck_assert_int_eq(reply_number(reply, "result/resident_bytes"), 80);
    asset_call(&assets, "resource.gpu", "{\"restored\":[\"%s\"]}", id[0]);
    ck_assert(line_client_send(&assets.line, "{\"jsonrpc\":\"2.0\",\"method\":\"resource.gpu\","
                                             "\"params\":{\"budget_bytes\":50}}"));
    do
        line = line_client_receive(&assets.line);
    while (strstr(line, "resource.gpu.evict") == NULL);
    ck_assert(strstr(line, id[1]) != NULL || strstr(line, id[0]) != NULL);
    stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("residency");
    TCase *tcase = tcase_create("residency");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, manifests_of_a_directory_are_defined_at_the_start);
    tcase_add_loop_test(tcase, a_bad_manifest_is_named_and_defines_nothing, 0,
                        sizeof bad_manifests / sizeof bad_manifests[0]);
    tcase_add_test(tcase, a_bad_manifest_refuses_the_start);
    tcase_add_test(tcase, dependencies_load_with_a_group_and_leave_with_it);
    tcase_add_test(tcase, a_dependency_that_fails_fails_the_group_and_nothing_stays);
    tcase_add_test(tcase, a_failed_group_stays_defined_while_others_depend_on_it);
    tcase_add_test(tcase, each_group_is_looked_at_once_however_many_ways_lead_to_it);
    tcase_add_test(tcase, a_cycle_is_named_whichever_group_closes_it);
    tcase_add_test(tcase, dependencies_have_a_greatest_depth);
    tcase_add_test(tcase, equal_bytes_under_two_names_are_stored_once);
    tcase_add_test(tcase, an_undefined_group_leaves_no_trace);
    tcase_add_test(tcase, a_soft_reference_loads_ahead_and_keeps);
    tcase_add_test(tcase, soft_references_end_with_their_game);
    tcase_add_test(tcase, a_name_that_is_defined_again_is_not_taken_along_by_its_old_life);
    tcase_add_test(tcase, the_budget_bounds_what_is_loaded_ahead);
    tcase_add_test(tcase, an_evicted_resource_says_so_and_can_be_asked_for);
    tcase_add_test(tcase, the_list_comes_in_pages);
    tcase_add_test(tcase, a_pinned_group_stays_until_it_is_let_go);
    tcase_add_test(tcase, a_pin_outlives_an_unload_and_the_daemon);
    tcase_add_test(tcase, who_was_used_before_last_the_longest_ago_goes_first);
    tcase_add_test(tcase, the_last_uses_of_a_game_that_leaves_are_seen);
    tcase_add_test(tcase, a_reload_gives_a_new_life_and_the_old_one_stays_with_its_holder);
    tcase_add_test(tcase, a_saved_file_is_loaded_again_once);
    tcase_add_test(tcase, a_file_that_cannot_be_loaded_leaves_the_old_one);
    tcase_add_test(tcase, a_folder_that_appears_later_is_watched);
    tcase_add_test(tcase, a_saved_archive_is_opened_anew);
    tcase_add_test(tcase, a_game_is_asked_for_what_its_gpu_does_not_use);
    tcase_add_test(tcase, the_gpu_queue_of_a_game_goes_with_it);
    tcase_add_test(tcase, a_game_without_the_library_has_a_gpu_queue_too);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
