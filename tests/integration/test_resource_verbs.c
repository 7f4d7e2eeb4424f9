/* engine-ctl resources, as a person uses it who knows nothing: each verb, names that do not exist, and
 * refusals that say what to do. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/asset_daemon.h"
#include "support/engine_ctl.h"
#include "support/reply.h"

#define MANY 4200 /* names of 127 quotes are more than the 1 MiB of an answer */

static struct asset_daemon assets;
static struct engine_ctl ctl;

#define RUN(...) ENGINE_CTL(&ctl, "resources", __VA_ARGS__)

/* It printed this. */
static void said(const char *part)
{
    ck_assert_msg(strstr(ctl.text, part) != NULL, "no \"%s\" in:\n%s", part, ctl.text);
}

/* A file in the daemon's directory, which is not mounted. */
static const char *beside(const char *name)
{
    static char path[200];

    snprintf(path, sizeof path, "%s/%s", assets.process.directory, name);
    return path;
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static const char forest[] =
    "{\"groups\":["
    "{\"group\":\"forest\",\"depends\":[\"common\"],"
    "\"resources\":[{\"name\":\"tree\"},{\"name\":\"rock\"}]},"
    "{\"group\":\"common\",\"resources\":[{\"name\":\"font\"},{\"name\":\"rock\"},"
    "{\"name\":\"stone\"}]}]}";

static void start(void)
{
    static const char *const names[] = { "tree", "rock", "font" };

    assets = (struct asset_daemon) { 0 };
    asset_daemon_start(&assets, NULL);
    engine_ctl_open(&ctl, &assets.process);
    for (unsigned i = 0; i < 3; i++)
        asset_file(&assets, names[i], names[i], 4);
    asset_file(&assets, "stone", "rock", 4); /* the same bytes under two names */
    write_text(beside("forest.json"), forest);
    ck_assert_int_eq(RUN("define", beside("forest.json")), 0);
    said("2 groups with 5 resources are defined");
}

static void stop(void)
{
    asset_daemon_stop(&assets);
}

/* ---- names ---- */

static const struct {
    const char *words[4];
    const char *said;
} unknown[] = {
    { { "load", "forrest" }, "group forrest is not defined, did you mean forest?" },
    { { "load", "Forest" }, "did you mean forest?" },
    { { "load", "tree" }, "group tree is not defined; it is a resource of group forest" },
    { { "load", "castle" }, "group castle is not defined\n" },
    { { "unload", "comon" }, "did you mean common?" },
    { { "evict", "commno" }, "did you mean common?" },
    { { "pin", "commons" }, "did you mean common?" },
    { { "undefine", "fores" }, "did you mean forest?" },
    { { "list", "frest" }, "did you mean forest?" },
    { { "get", "treee" }, "resource treee is not defined, did you mean tree?" },
    { { "get", "forest" }, "resource forest is not defined; it is a group" },
    { { "get", "zzzzzzzz" }, "resource zzzzzzzz is not defined\n" },
    { { "request", "fnot" }, "did you mean font?" },
    { { "reload", "ston" }, "did you mean stone?" },
    { { "dump", "ston", "/dev/null" }, "did you mean stone?" },
    { { "list", "--state", "reddy" }, "state is reddy, expected unloaded, loading, ready" },
};

START_TEST(an_unknown_name_is_answered_with_the_one_that_may_be_meant)
{
    start();
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        const char *const *words = unknown[i].words;

        ck_assert_int_eq(RUN(words[0], words[1], words[2]), 1);
        said(unknown[i].said);
    }
    stop();
}
END_TEST

/* Names are compared up to a bound, so that no request holds the daemon up. */
START_TEST(among_very_many_names_the_search_for_a_near_one_ends)
{
    FILE *file;

    start();
    file = fopen(beside("many.json"), "we");
    ck_assert_ptr_nonnull(file);
    fputs("{\"group\":\"many\",\"resources\":[", file);
    for (unsigned i = 0; i < 16000; i++)
        fprintf(file, "%s{\"name\":\"many/%0115u\",\"path\":\"tree\"}", i > 0 ? "," : "", i);
    fputs("]}", file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(RUN("define", beside("many.json")), 0);
    ck_assert_int_eq(RUN("get", "treee"), 1);
    said("did you mean tree?");
    ck_assert_int_eq(RUN("get", "many/x"), 1);
    said("resource many/x is not defined");
    ck_assert_int_eq(RUN("list"), 0);
    said("many/00");
    ck_assert_int_eq(RUN("undefine", "many"), 0);
    stop();
}
END_TEST

/* More names than an answer has room for: it says how many, and names the first. */
START_TEST(answers_about_very_many_resources_are_cut_and_no_error)
{
    FILE *file;

    start();
    file = fopen(beside("many.json"), "we");
    ck_assert_ptr_nonnull(file);
    fputs("{\"group\":\"many\",\"resources\":[", file);
    for (unsigned i = 0; i < MANY; i++) {
        fprintf(file, "%s{\"path\":\"tree\",\"name\":\"%u", i > 0 ? "," : "", 1000000 + i);
        for (unsigned k = 7; k < 127; k++)
            fputs("\\\"", file); /* a quote, which takes two letters in an answer, too */
        fputs("\"}", file);
    }
    fputs("]}", file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(RUN("define", beside("many.json")), 0);
    ck_assert_int_eq(RUN("load", "many", "--timeout", "600"), 0);
    said("many is ready: 4200 of 4200 resources");
    ck_assert_int_eq(RUN("pin", "many"), 0);
    ck_assert_int_eq(RUN("evict", "many"), 0);
    said("0 resources evicted, 4200 kept");
    ck_assert_int_eq(RUN("pin", "many", "--off"), 0);
    ck_assert_int_eq(RUN("evict", "many"), 0);
    said("4200 resources evicted, 0 kept");
    ck_assert_int_eq(asset_bytes(&assets), 0);
    stop();
}
END_TEST

/* ---- what is held ---- */

START_TEST(who_holds_is_named_wherever_it_matters)
{
    struct ec_client *client;
    ec_resource tree;
    char held[64];

    start();
    ck_assert_int_eq(RUN("load", "forest"), 0);
    said("forest is ready: 2 of 2 resources");
    client = asset_game(&assets, "my game");
    tree = asset_hold(client, "tree", NULL);
    snprintf(held, sizeof held, "held by client %u (my game)", ec_client_id(client));
    ck_assert_int_eq(RUN("evict", "forest"), 0);
    said(held);
    said("needed by another group"); /* rock */
    said("0 resources evicted, 2 kept");
    ck_assert_int_eq(RUN("unload", "common"), 0);
    said("common is ready\n  needed by group forest\n");
    ck_assert_int_eq(RUN("unload", "forest"), 0);
    said("forest is unloading");
    said(held);
    ck_assert_int_eq(RUN("evict", "forest"), 0);
    said("being unloaded; it goes as soon as nobody holds it");
    ck_assert_int_eq(RUN("undefine", "forest"), 1);
    said("group forest is unloading; somebody still holds it");
    ec_resource_release(client, tree);
    while (strcmp(asset_state(&assets, "tree"), "unloaded") != 0)
        ;
    ck_assert_int_eq(RUN("undefine", "forest"), 0);
    said("forest is forgotten, 1 groups are left");
    ec_client_destroy(client);
    stop();
}
END_TEST

START_TEST(a_resource_says_what_it_is)
{
    struct ec_client *client;

    start();
    ck_assert_int_eq(RUN("get", "stone"), 0);
    said("state         unloaded\n");
    said("last use      never\nprevious use  never\nuses          0\n");
    ck_assert_int_eq(RUN("load", "forest"), 0);
    ck_assert_int_eq(RUN("get", "stone"), 0);
    said("bytes         4.0 KiB, under 2 names\n");
    said("last use      never\n"); /* to be loaded is no use */
    client = asset_game(&assets, "game");
    ec_resource_release(client, asset_hold(client, "stone", NULL));
    ck_assert_int_eq(RUN("get", "stone"), 0);
    said(" ago\nprevious use  never\nuses          1\n");
    ck_assert_int_eq(RUN("get", "rock"), 0);
    said("(of 2)\n");
    ck_assert_int_eq(asset_bytes(&assets), 3 * 4096); /* rock and stone once */
    ck_assert_int_eq(RUN("evict", "common", "--dry-run"), 0);
    ck_assert_int_eq(asset_bytes(&assets), 3 * 4096);
    ec_client_destroy(client);
    stop();
}
END_TEST

/* ---- dump ---- */

START_TEST(a_dump_writes_what_is_in_memory_and_removes_no_device)
{
    struct stat status;
    char text[64];

    start();
    ck_assert_int_eq(RUN("dump", "tree", beside("out")), 1);
    said("tree is not loaded");
    ck_assert_int_eq(access(beside("out"), F_OK), -1);
    ck_assert_int_eq(RUN("load", "forest"), 0);
    ck_assert_int_eq(RUN("dump", "tree", beside("out")), 0);
    text_read(beside("out"), text, sizeof text);
    ck_assert_str_eq(text, "tree");
    ck_assert_int_eq(RUN("dump", "tree", beside("other"), "--mip", "1"), 1);
    said("it is no image and has no levels");
    ck_assert_int_eq(access(beside("other"), F_OK), -1);
    ck_assert_int_eq(RUN("dump", "tree", "/nowhere/at/all"), 1);
    said("/nowhere/at/all: No such file or directory");
    /* A link stands for the device: if something is removed, it is that. */
    ck_assert_int_eq(symlink("/dev/full", beside("full")), 0);
    ck_assert_int_eq(RUN("dump", "tree", beside("full")), 1);
    said("No space left on device");
    ck_assert_int_eq(lstat(beside("full"), &status), 0);
    stop();
}
END_TEST

/* ---- the search path ---- */

START_TEST(the_search_path_is_shown_and_added_to)
{
    start();
    ck_assert_int_eq(RUN("mount"), 0);
    said(assets.folder);
    ck_assert_int_eq(RUN("mount", "/nowhere"), 1);
    said("/nowhere: No such file or directory");
    ck_assert_int_eq(mkdir(beside("more"), 0700), 0);
    ck_assert_int_eq(RUN("mount", beside("more")), 0);
    said(assets.folder);
    said(beside("more"));
    ck_assert_int_eq(RUN("--json", "mount"), 0);
    ck_assert_str_eq(reply_text(ctl.text, "items/0/path"), assets.folder);
    ck_assert_str_eq(reply_text(ctl.text, "items/1/path"), beside("more"));
    rmdir(beside("more"));
    stop();
}
END_TEST

/* ---- watch ---- */

static void await_text(const char *part)
{
    do
        text_read(ctl.path, ctl.text, sizeof ctl.text);
    while (strstr(ctl.text, part) == NULL);
}

START_TEST(watch_follows_what_happens)
{
    struct game watch;

    start();
    watch = ENGINE_CTL_START(&ctl, "--json", "resources", "watch");
    do { /* until it has subscribed: each load and unload is an event */
        asset_load(&assets, "common");
        asset_ok(asset_call(&assets, "resource.unload", "{\"group\":\"common\"}"));
        text_read(ctl.path, ctl.text, sizeof ctl.text);
    } while (strstr(ctl.text, "\"group\":\"common\",\"state\":\"unloaded\"") == NULL);
    asset_load(&assets, "forest");
    await_text("\"group\":\"forest\",\"state\":\"ready\"");
    asset_ok(asset_call(&assets, "resource.evict", "{\"group\":\"forest\"}"));
    await_text("\"group\":\"forest\",\"state\":\"partial\"");
    asset_ok(asset_call(&assets, "resource.request", "{\"name\":\"tree\"}"));
    await_text("\"type\":\"resource.ready\"");
    asset_file(&assets, "tree", "trees", 5);
    asset_ok(asset_call(&assets, "resource.reload", "{\"name\":\"tree\"}"));
    await_text("\"type\":\"resource.changed\"");
    ck_assert_int_eq(kill(watch.pid, SIGTERM), 0);
    ck_assert_int_eq(engine_ctl_end(&ctl, &watch), -SIGTERM);
    stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("resource verbs");
    TCase *tcase = tcase_create("resource verbs");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(tcase, 0); /* what is waited for has its own deadline */
    tcase_add_test(tcase, an_unknown_name_is_answered_with_the_one_that_may_be_meant);
    tcase_add_test(tcase, among_very_many_names_the_search_for_a_near_one_ends);
    tcase_add_test(tcase, answers_about_very_many_resources_are_cut_and_no_error);
    tcase_add_test(tcase, who_holds_is_named_wherever_it_matters);
    tcase_add_test(tcase, a_resource_says_what_it_is);
    tcase_add_test(tcase, a_dump_writes_what_is_in_memory_and_removes_no_device);
    tcase_add_test(tcase, the_search_path_is_shown_and_added_to);
    tcase_add_test(tcase, watch_follows_what_happens);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
