/* Where assets come from, and what is asked for ahead, in a daemon that takes the place of one that was killed:
 * mounts and aliases that were made while it ran, soft references, groups that were just defined. */
#include <engine-core/clock.h>
#include <engine-core/resource.h>

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/daemon.h"
#include "support/reply.h"
#include "support/returns.h"

#define BYTES 5000u
#define RESTARTS 3

static struct daemon_process engine;
static bool keeps; /* descriptors */

static void start(void)
{
    /* Whom the machine lets stand still has the time to come back. */
    static const char *const plain[] = { "--set", "resource.tick_ms=10", "--set",
                                         "client.grace_s=60", NULL };
    static const char *const with_store[] = { "--set", "resource.tick_ms=10",
                                              "--set", "client.grace_s=60",
                                              "--set", "core.descriptor_store=true",
                                              NULL };

    engine.keeps_descriptors = keeps;
    ck_assert_msg(daemon_start(&engine, keeps ? with_store : plain), "%s", engine.why);
}

static void restart(void)
{
    daemon_crash(&engine);
    start();
}

static void set_up(void)
{
    engine = (struct daemon_process) { 0 };
    ck_assert(daemon_prepare(&engine));
}

static void tear_down(void)
{
    ck_assert_int_eq(daemon_stop(&engine), 0);
}

/* A folder in the daemon's directory with one file of one byte value. */
static void write_folder(const char *folder, const char *file, int value)
{
    char path[160];
    FILE *stream;

    snprintf(path, sizeof path, "%s/%s", engine.directory, folder);
    ck_assert(mkdir(path, 0700) == 0 || access(path, F_OK) == 0);
    snprintf(path, sizeof path, "%s/%s/%s", engine.directory, folder, file);
    stream = fopen(path, "we");
    ck_assert_ptr_nonnull(stream);
    for (unsigned i = 0; i < BYTES; i++)
        fputc(value, stream);
    ck_assert_int_eq(fclose(stream), 0);
}

static const char *ask(const char *method, const char *params)
{
    return daemon_ask(&engine, method, params);
}

/* The answer has the search path. */
static const char *mount(const char *folder, const char *at, bool append)
{
    char params[300];

    snprintf(params, sizeof params, "{\"path\":\"%s/%s\",\"at\":\"%s\",\"append\":%s}",
             engine.directory, folder, at, append ? "true" : "false");
    return ask("resource.mount", params);
}

static void define_and_load(const char *group, const char *name)
{
    char params[200];

    snprintf(params, sizeof params, "{\"group\":\"%s\",\"resources\":[{\"name\":\"%s\"}]}", group,
             name);
    ask("resource.define", params);
    snprintf(params, sizeof params, "{\"group\":\"%s\"}", group);
    ask("resource.load", params);
}

/* The first byte of a resource that is loaded. */
static int first_byte(struct ec_client *client, const char *name)
{
    struct ec_resource_view view;
    ec_resource resource;
    int value;

    ck_assert_int_eq(ec_resource_find(client, name, &resource), EC_OK);
    ck_assert_int_eq(ec_resource_acquire(client, resource, &view), EC_OK);
    ck_assert_uint_eq(view.bytes, BYTES);
    value = *(const unsigned char *)view.data;
    ec_resource_release(client, resource);
    return value;
}

START_TEST(mounts_and_aliases_of_the_last_run_are_those_of_the_next)
{
    struct returns returns;
    struct ec_client *client;
    const char *reply;
    char mounted[3][160];

    keeps = _i == 1;
    write_folder("base", "wall", 'b');
    write_folder("base", "floor", 'f');
    write_folder("mod", "wall", 'm');
    write_folder("deep", "sky", 's');
    start();
    mount("base", "/", true);
    mount("deep", "/textures", true);
    mount("mod", "/", false);
    ask("resource.alias", "{\"set\":{\"ground\":\"floor\",\"old/\":\"textures/\",\"x\":\"y\"}}");
    ask("resource.alias", "{\"remove\":[\"x\"]}");
    snprintf(mounted[0], sizeof mounted[0], "%s/mod", engine.directory);
    snprintf(mounted[1], sizeof mounted[1], "%s/base", engine.directory);
    snprintf(mounted[2], sizeof mounted[2], "%s/deep", engine.directory);
    for (unsigned i = 0; i < RESTARTS; i++)
        restart();
    reply = ask("resource.alias", "{}");
    ck_assert_str_eq(reply_text(reply, "result/aliases/ground"), "floor");
    ck_assert_ptr_null(reply_at(reply, "result/aliases/x").text);
    define_and_load("level", "wall");
    define_and_load("more", "ground");
    define_and_load("most", "old/sky");
    client = returns_connect(&returns, "game", engine.socket_path);
    ck_assert_int_eq(first_byte(client, "wall"), 'm');
    ck_assert_int_eq(first_byte(client, "ground"), 'f');
    ck_assert_int_eq(first_byte(client, "old/sky"), 's');
    returns_disconnect(&returns, client);
    reply = mount("base", "/", true); /* mounting one of them again changes nothing */
    for (unsigned i = 0; i < 3; i++) {
        char path[32];

        snprintf(path, sizeof path, "result/items/%u/path", i);
        ck_assert_str_eq(reply_text(reply, path), mounted[i]);
    }
    ck_assert_ptr_null(reply_at(reply, "result/items/3").text);
}
END_TEST

START_TEST(a_mount_that_is_gone_is_left_out_and_the_others_stay)
{
    char path[160];

    keeps = false;
    write_folder("base", "wall", 'b');
    write_folder("mod", "wall", 'm');
    start();
    mount("base", "/", true);
    mount("mod", "/", false);
    daemon_crash(&engine);
    snprintf(path, sizeof path, "%s/mod/wall", engine.directory);
    ck_assert_int_eq(unlink(path), 0);
    snprintf(path, sizeof path, "%s/mod", engine.directory);
    ck_assert_int_eq(rmdir(path), 0);
    start();
    /* Those that are left are mounted one by one; a further one comes behind them. */
    write_folder("last", "other", 'o');
    mount("last", "/", true);
    define_and_load("level", "wall");
    restart();
    define_and_load("level", "wall");
    define_and_load("more", "other");
}
END_TEST

/* In good order, and nobody is attached: the next run begins anew. */
START_TEST(a_daemon_that_ended_in_good_order_leaves_no_paths)
{
    char path[160];

    keeps = false;
    write_folder("base", "wall", 'b');
    start();
    mount("base", "/", true);
    snprintf(path, sizeof path, "%s.paths", engine.socket_path);
    ck_assert_int_eq(access(path, F_OK), 0);
    daemon_end(&engine);
    ck_assert_int_eq(access(path, F_OK), -1);
    start();
    write_folder("base2", "wall", 'b');
    ck_assert_ptr_null(reply_at(mount("base2", "/", true), "result/items/1").text);
}
END_TEST

/* ---- soft references --------------------------------------------------------------------------- */

static void await_state(const char *name, const char *state)
{
    char path[96];
    const char *reply;

    snprintf(path, sizeof path, "result/items/name=%s/state", name);
    do /* the test's own time-out ends this */
        reply = ask("resource.list", "{}");
    while (strcmp(reply_text(reply, path), state) != 0);
}

static int64_t soft_refs(const char *name)
{
    char path[96];

    snprintf(path, sizeof path, "result/items/name=%s/soft_refs", name);
    return reply_number(ask("resource.list", "{}"), path);
}

START_TEST(soft_references_load_ahead_in_a_new_daemon)
{
    struct returns returns;
    struct ec_client *client;
    ec_resource_soft wall, again, floor_soft, gone;
    struct ec_frame frame;

    keeps = _i == 1;
    write_folder("base", "wall", 'b');
    write_folder("base", "floor", 'f');
    write_folder("base", "other", 'o');
    start();
    mount("base", "/", true);
    ask("resource.define", "{\"group\":\"level\",\"resources\":[{\"name\":\"wall\"},"
                           "{\"name\":\"floor\"},{\"name\":\"other\"}]}");
    client = returns_connect(&returns, "game", engine.socket_path);
    ck_assert_int_eq(ec_resource_soft_acquire(client, "wall", &wall), EC_OK);
    ck_assert_int_eq(ec_resource_soft_acquire(client, "wall", &again), EC_OK);
    ck_assert_int_eq(ec_resource_soft_acquire(client, "floor", &floor_soft), EC_OK);
    ck_assert_int_eq(ec_resource_soft_acquire(client, "other", &gone), EC_OK);
    await_state("wall", "ready");
    for (unsigned i = 0; i < RESTARTS; i++) {
        restart();
        returns_await(&returns);
        if (!keeps) /* groups are defined anew, in another order, so that indices differ */
            ask("resource.define", "{\"group\":\"level\",\"resources\":[{\"name\":\"other\"},"
                                   "{\"name\":\"floor\"},{\"name\":\"wall\"}]}");
        if (i == 0)
            ec_resource_soft_release(client, gone); /* before it is asked for again */
        if (!keeps) {
            ck_assert_int_eq(soft_refs("wall"), 0);
            while (soft_refs("wall") == 0) { /* a frame mark at which it is time to look */
                ec_frame_begin(client, &frame);
                ec_frame_end(&frame);
            }
        }
        await_state("wall", "ready");
        await_state("floor", "ready");
        ck_assert_int_eq(soft_refs("wall"), 2);
        ck_assert_int_eq(soft_refs("floor"), 1);
        ck_assert_int_eq(soft_refs("other"), 0);
    }
    ec_resource_soft_release(client, wall);
    ec_resource_soft_release(client, floor_soft);
    ec_resource_soft_release(client, floor_soft); /* once is enough: nothing is given back twice */
    ck_assert_int_eq(soft_refs("wall"), 1);
    ck_assert_int_eq(soft_refs("floor"), 0);
    ec_resource_soft_release(client, again);
    ck_assert_int_eq(soft_refs("wall"), 0);
    returns_disconnect(&returns, client);
}
END_TEST

/* ---- groups ------------------------------------------------------------------------------------ */

/* It is written before it is answered: whenever the daemon is killed, what was answered is there. */
START_TEST(a_group_is_defined_in_the_next_run_as_soon_as_that_is_answered)
{
    struct line_client operator;
    char params[120];
    const char *reply;

    keeps = true;
    start();
    for (unsigned i = 0; i < 20; i++) {
        ck_assert(line_client_connect(&operator, engine.socket_path));
        snprintf(params, sizeof params, "{\"group\":\"g%u\",\"resources\":[{\"name\":\"r%u\"}]}", i,
                 i);
        reply = line_client_call(&operator, "resource.define", params);
        ck_assert_ptr_nonnull(reply_at(reply, "result").text);
        daemon_crash(&engine);
        line_client_close(&operator);
        start();
        snprintf(params, sizeof params, "{\"group\":\"g%u\"}", i);
        ask("resource.list", params);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("restart_assets");
    TCase *tcase = tcase_create("restart_assets");
    SRunner *runner;
    int failed;

    signal(SIGPIPE, SIG_IGN);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, mounts_and_aliases_of_the_last_run_are_those_of_the_next, 0, 2);
    tcase_add_test(tcase, a_mount_that_is_gone_is_left_out_and_the_others_stay);
    tcase_add_test(tcase, a_daemon_that_ended_in_good_order_leaves_no_paths);
    tcase_add_loop_test(tcase, soft_references_load_ahead_in_a_new_daemon, 0, 2);
    tcase_add_test(tcase, a_group_is_defined_in_the_next_run_as_soon_as_that_is_answered);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
