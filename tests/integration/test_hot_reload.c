/* Files and archives are saved, as editors and build tools do it, while games read them. Each content
 * carries its own hash, so whoever holds a resource can tell whether its bytes are whole. */
#include <check.h>
#include <engine-core/resource_inline.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "foundation/real_time.h"
#include "support/asset_daemon.h"
#include "support/game.h"
#include "support/reply.h"
#include "support/sample_images.h"

#define PAGE 4096
#define ENTRIES 4
#define WORDS 700 /* more than a page */
#define ROUNDS 12
#define HELD 3 /* lives that a game keeps */

static struct asset_daemon assets;
static char archive[160];

struct content {
    uint64_t hash; /* of the rest */
    uint64_t entry, version;
    uint64_t words[WORDS];
};

static uint64_t hash_of(const struct content *content)
{
    uint64_t hash = 0xcbf29ce484222325ull ^ content->entry ^ content->version << 32;

    for (unsigned i = 0; i < WORDS; i++)
        hash = (hash ^ content->words[i]) * 0x100000001b3ull;
    return hash;
}

static void content_make(struct content *content, unsigned entry, unsigned version)
{
    content->entry = entry;
    content->version = version;
    for (unsigned i = 0; i < WORDS; i++)
        content->words[i] = (uint64_t)(i + 1) * (entry + 3) * (version + 7) * 0x9e3779b97f4a7c15ull;
    content->hash = hash_of(content);
}

/* As a build tool does it: beside, and over it. */
static void archive_write(unsigned version)
{
    struct sample_zip zip = { 0 };
    struct content content;
    char fresh[176];

    for (unsigned i = 0; i < ENTRIES; i++) {
        char name[2] = { (char)('a' + i), '\0' };

        content_make(&content, i, i == 0 ? 0 : version); /* a never changes */
        sample_zip_add(&zip, name, &content, sizeof content);
    }
    snprintf(fresh, sizeof fresh, "%s.new", archive);
    sample_zip_write(&zip, fresh);
    ck_assert_int_eq(rename(fresh, archive), 0);
}

static void start(void)
{
    assets = (struct asset_daemon) { 0 };
    asset_daemon_start_bare(&assets,
                            (const char *const[]) { "--set", "resource.hot_reload=true", NULL });
    snprintf(archive, sizeof archive, "%s/pack.zip", assets.process.directory);
    archive_write(0);
    asset_ok(asset_call(&assets, "resource.mount", "{\"path\":\"%s\"}", archive));
    asset_ok(asset_call(&assets, "resource.define",
                        "{\"group\":\"g\",\"resources\":[{\"name\":\"a\"},{\"name\":\"b\"},"
                        "{\"name\":\"c\"},{\"name\":\"d\"}]}"));
    asset_load(&assets, "g");
    asset_subscribe(&assets, "[\"resource.changed\"]");
}

static void stop(void)
{
    unlink(archive);
    asset_daemon_stop(&assets);
}

/* ---- an archive that is replaced while games read ---- */

struct held {
    ec_resource resource;
    struct content copy; /* as it was when it was acquired */
    const struct content *data;
};

static void held_check(const struct held *held)
{
    GAME_CHECK(held->data->hash == hash_of(held->data));
    GAME_CHECK(memcmp(held->data, &held->copy, sizeof held->copy) == 0);
}

/* Keeps some lives for a while, whatever is saved meanwhile, and looks at them to the end. */
static int read_on(const struct game_side *side)
{
    static struct held held[HELD];
    struct pollfd told = { .fd = side->hear, .events = POLLIN };
    struct ec_client *client = game_join("reader", side->context);

    for (unsigned round = 0; poll(&told, 1, 0) == 0; round++) {
        struct held *at = &held[round % HELD];
        char name[2] = { (char)('a' + round % ENTRIES), '\0' };
        struct ec_resource_view view;
        ec_resource resource;

        if (at->data != NULL) {
            held_check(at);
            ec_resource_release_inline(client, at->resource);
            at->data = NULL;
        }
        if (ec_resource_find(client, name, &resource) != EC_OK ||
            ec_resource_acquire(client, resource, &view) != EC_OK)
            continue; /* just being replaced */
        GAME_CHECK(view.bytes == sizeof(struct content));
        at->resource = resource;
        at->data = view.data;
        memcpy(&at->copy, view.data, sizeof at->copy);
        GAME_CHECK(at->copy.entry == round % ENTRIES);
        held_check(at);
    }
    game_hear(side);
    for (unsigned i = 0; i < HELD; i++)
        if (held[i].data != NULL) {
            held_check(&held[i]);
            ec_resource_release(client, held[i].resource);
        }
    ec_client_destroy(client);
    return 0;
}

/* Until b, c and d have this version in memory. */
static void await_version(struct ec_client *client, unsigned version)
{
    int64_t deadline_ns = ec_real_ns() + GAME_WAIT_NS;

    for (unsigned i = 1; i < ENTRIES; i++) {
        char name[2] = { (char)('a' + i), '\0' };
        struct ec_resource_view view;
        ec_resource resource;
        bool there = false;

        while (!there) {
            if (ec_resource_find(client, name, &resource) == EC_OK &&
                ec_resource_acquire(client, resource, &view) == EC_OK) {
                there = ((const struct content *)view.data)->version == version;
                ec_resource_release(client, resource);
            }
            ck_assert_ptr_nonnull(asset_call(&assets, "core.ping", "{}"));
            ck_assert_int_lt(ec_real_ns(), deadline_ns);
        }
    }
}

START_TEST(an_archive_is_replaced_while_games_read_it)
{
    struct ec_client *client;
    struct game games[2];
    ec_resource unchanged, found;

    start();
    for (unsigned i = 0; i < 2; i++)
        games[i] = game_start(read_on, assets.process.socket_path);
    client = asset_game(&assets, "looks on");
    ck_assert_int_eq(ec_resource_find(client, "a", &unchanged), EC_OK);
    for (unsigned version = 1; version <= ROUNDS; version++) {
        archive_write(version);
        if (version % 3 == 0) /* the others follow one another as they come */
            await_version(client, version);
    }
    await_version(client, ROUNDS);
    ck_assert_int_eq(ec_resource_find(client, "a", &found), EC_OK);
    ck_assert_uint_eq(found.value, unchanged.value); /* its bytes are the same: the same life */
    for (unsigned i = 0; i < 2; i++) {
        game_tell(&games[i]);
        ck_assert_int_eq(game_end(&games[i]), 0);
    }
    while (asset_bytes(&assets) != ENTRIES * 2 * PAGE)
        ; /* nothing of the old lives stays */
    for (unsigned i = 0; i < ENTRIES; i++)
        ck_assert_ptr_null(
            reply_at(asset_call(&assets, "resource.get", "{\"name\":\"%c\"}", (char)('a' + i)),
                     "result/old/0")
                .text);
    ec_client_destroy(client);
    stop();
}
END_TEST

START_TEST(an_archive_that_cannot_be_opened_leaves_everything_as_it_was)
{
    struct ec_client *client;
    ec_resource before, after;
    char fresh[176];
    FILE *file;

    start();
    client = asset_game(&assets, "game");
    ck_assert_int_eq(ec_resource_find(client, "b", &before), EC_OK);
    snprintf(fresh, sizeof fresh, "%s.new", archive);
    file = fopen(fresh, "we");
    ck_assert_ptr_nonnull(file);
    fputs("half of an archive", file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(rename(fresh, archive), 0);
    while (!daemon_has_said(&assets.process, "an archive changed and cannot be opened"))
        ; /* then it has tried */
    ck_assert_int_eq(ec_resource_find(client, "b", &after), EC_OK);
    ck_assert_uint_eq(after.value, before.value);
    asset_ok(asset_call(&assets, "resource.evict", "{\"group\":\"g\"}"));
    asset_ok(
        asset_call(&assets, "resource.request", "{\"name\":\"c\"}")); /* from the old archive */
    archive_write(5);
    asset_await(&assets, "resource.changed", "name", "c");
    for (unsigned i = 1; i < ENTRIES; i++)
        asset_ok(asset_call(&assets, "resource.request", "{\"name\":\"%c\"}", (char)('a' + i)));
    await_version(client, 5);
    ec_client_destroy(client);
    stop();
}
END_TEST

/* ---- editors ---- */

static const char *in_folder(const char *name)
{
    static char path[2][160];
    static unsigned turn;

    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", assets.folder, name);
    return path[turn];
}

static void write_in_place(const char *name, const char *text)
{
    FILE *file = fopen(in_folder(name), "we");

    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
}

/* The old one aside, another in its place, the old one away. */
static void save_with_a_backup(const char *text)
{
    ck_assert_int_eq(rename(in_folder("note"), in_folder("note~")), 0);
    write_in_place("note", text);
    ck_assert_int_eq(unlink(in_folder("note~")), 0);
}

/* Beside, and over it; then its mode and its times. */
static void save_by_rename(const char *text)
{
    write_in_place(".note.swp", text);
    ck_assert_int_eq(rename(in_folder(".note.swp"), in_folder("note")), 0);
    ck_assert_int_eq(chmod(in_folder("note"), 0640), 0);
    ck_assert_int_eq(utimensat(AT_FDCWD, in_folder("note"), NULL, 0), 0);
}

/* Emptied first, then written in pieces, as a copy does it. */
static void save_in_place(const char *text)
{
    write_in_place("note", "");
    for (const char *at = text; *at != '\0'; at++) {
        FILE *file = fopen(in_folder("note"), "ae");

        ck_assert_ptr_nonnull(file);
        fputc(*at, file);
        ck_assert_int_eq(fclose(file), 0);
    }
}

/* Away, and back as another file. */
static void save_by_removal(const char *text)
{
    ck_assert_int_eq(unlink(in_folder("note")), 0);
    write_in_place("note", text);
}

static void (*const editors[])(const char *text) = { save_with_a_backup, save_by_rename,
                                                     save_in_place, save_by_removal };

static int64_t reloads(void)
{
    return reply_number(asset_call(&assets, "core.info", "{}"),
                        "result/counters/resource.reloaded");
}

START_TEST(however_an_editor_saves_it_is_one_reload)
{
    struct ec_resource_view view;
    struct ec_client *client;

    assets = (struct asset_daemon) { 0 };
    asset_daemon_start(&assets,
                       (const char *const[]) { "--set", "resource.hot_reload=true", NULL });
    asset_file(&assets, "note", "before", 6);
    asset_ok(asset_call(&assets, "resource.define",
                        "{\"group\":\"g\",\"resources\":[{\"name\":\"note\"}]}"));
    asset_load(&assets, "g");
    asset_subscribe(&assets, "[\"resource.changed\"]");
    client = asset_game(&assets, "game");
    /* The daemon stands still meanwhile, so that it sees all of it at once, however slow this test is. */
    game_stop(&(struct game) { .pid = assets.process.pid });
    editors[_i]("behind it");
    game_continue(&(struct game) { .pid = assets.process.pid });
    asset_await(&assets, "resource.changed", "state", "changed");
    asset_hold(client, "note", &view);
    ck_assert_uint_eq(view.bytes, 9);
    ck_assert_mem_eq(view.data, "behind it", 9);
    ck_assert_int_eq(reloads(), 1);
    ec_client_destroy(client);
    asset_daemon_stop(&assets);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hot reload");
    TCase *tcase = tcase_create("hot reload");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(tcase, 0); /* what is waited for has its own deadline */
    tcase_add_test(tcase, an_archive_is_replaced_while_games_read_it);
    tcase_add_test(tcase, an_archive_that_cannot_be_opened_leaves_everything_as_it_was);
    tcase_add_loop_test(tcase, however_an_editor_saves_it_is_one_reload, 0,
                        sizeof editors / sizeof editors[0]);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
