/* What games use is recorded from a real daemon, and policies are tried on the recording. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "foundation/real_time.h"
#include "support/asset_daemon.h"
#include "support/engine_ctl.h"
#include "support/reply.h"

#define NAMES 6
#define ROOM_NAMES 3
#define BYTES 8192 /* of a file of 5,000, in memory */

static struct asset_daemon assets;
static struct engine_ctl ctl;
static char trace[160];

/* Each letter is a use of the file of this name; a capital a soft reference. a, b are used again and
 * again, and a walk comes between. */
static const char order[] = "ababacdefabCabcbafedab";

static void start(void)
{
    assets = (struct asset_daemon) { 0 };
    asset_daemon_start(&assets, NULL);
    snprintf(trace, sizeof trace, "%s/evening.trace", assets.process.directory);
    engine_ctl_open(&ctl, &assets.process);
    for (unsigned i = 0; i < NAMES; i++) {
        char name[2] = { (char)('a' + i), '\0' }, bytes[5000];

        memset(bytes, 'A' + (int)i, sizeof bytes);
        asset_file(&assets, name, bytes, sizeof bytes);
    }
    asset_ok(asset_call(&assets, "resource.define",
                        "{\"group\":\"g\",\"resources\":[{\"name\":\"a\"},{\"name\":\"b\"},"
                        "{\"name\":\"c\"},{\"name\":\"d\"},{\"name\":\"e\"},{\"name\":\"f\"}]}"));
    asset_load(&assets, "g");
}

/* The recording so far. */
static const char *recorded(void)
{
    static char text[65536];

    text_read(trace, text, sizeof text);
    return text;
}

static void await_begin(void)
{
    int64_t deadline_ns = ec_real_ns() + GAME_WAIT_NS;

    while (strstr(recorded(), "resource trace 1\n") == NULL)
        ck_assert_int_lt(ec_real_ns(), deadline_ns);
}

/* Let a game use them in order; each use is seen by the daemon before the next. Soft references are looked
 * at by a tick. */
static void use_all(void)
{
    struct ec_client *client = asset_game(&assets, "game");
    ec_resource_soft soft;

    for (const char *at = order; *at != '\0'; at++) {
        char name[2] = { (char)(*at | 0x20), '\0' };

        if (*at == name[0])
            ec_resource_release(client, asset_hold(client, name, NULL));
        else
            ck_assert_int_eq(ec_resource_soft_acquire(client, name, &soft), EC_OK);
        while (reply_number(asset_call(&assets, "resource.trace", "{\"since\":0}"),
                            "result/next") <= at - order)
            ;
    }
    ec_client_destroy(client);
}

/* The uses of the recording as letters. */
static void letters_of(const char *text, char *letters, char *names)
{
    while ((text = strchr(text, '\n')) != NULL && *++text != '\0') {
        unsigned number, bytes;
        long long at_ns;
        char kind, name[8];

        if (sscanf(text, "r %u %u %lld %7s", &number, &bytes, &at_ns, name) == 4) {
            ck_assert_uint_lt(number, NAMES);
            ck_assert_uint_eq(bytes, BYTES);
            names[number] = name[0];
        } else {
            ck_assert_int_eq(sscanf(text, "%c %lld %*u %u", &kind, &at_ns, &number), 3);
            ck_assert_int_gt(at_ns, 0);
            ck_assert_uint_lt(number, NAMES);
            ck_assert_int_ne(names[number], 0); /* named before its first use */
            *letters++ = kind == 'u' ? names[number] : (char)(names[number] ^ 0x20);
        }
    }
    *letters = '\0';
}

/* LRU with room for three, in the plainest way: the last three different letters are there. */
static unsigned lru_hits(void)
{
    char there[NAMES] = "";
    unsigned hits = 0;

    for (const char *at = order; *at != '\0'; at++) {
        char *place = *at >= 'a' ? strchr(there, *at) : there;

        if (*at < 'a')
            continue;
        hits += place != NULL;
        if (place == NULL)
            place = there + (strlen(there) < ROOM_NAMES ? strlen(there) : ROOM_NAMES - 1);
        memmove(there + 1, there, (size_t)(place - there));
        there[0] = *at;
    }
    return hits;
}

static void assert_replay(void)
{
    char room[16], path[64];
    const char *text;

    snprintf(room, sizeof room, "%d", ROOM_NAMES * BYTES);
    ck_assert_int_eq(ENGINE_CTL(&ctl, "--json", "resources", "replay", trace, "--bytes", room), 0);
    text = ctl.text;
    ck_assert_int_eq(reply_number(text, "uses"), sizeof order - 2); /* one is a wish */
    ck_assert_int_eq(reply_number(text, "resources"), NAMES);
    ck_assert_int_eq(reply_number(text, "bytes"), NAMES * BYTES);
    ck_assert_int_eq(reply_number(text, "items/policy=LRU/hits"), lru_hits());
    for (unsigned i = 0; i < 5; i++) { /* whatever is not a hit was waited for */
        snprintf(path, sizeof path, "items/%u/hits", i);
        ck_assert_int_ge(reply_number(text, path), 1);
        snprintf(path, sizeof path, "items/%u/capacity_bytes", i);
        ck_assert_int_eq(reply_number(text, path), ROOM_NAMES * BYTES);
    }
    ck_assert_int_gt(reply_number(text, "items/policy=LRU-2/hits"), lru_hits());
    ck_assert_int_eq(reply_number(text, "items/policy=LRU-2 + soft/ahead_bytes"), BYTES);
    ck_assert_int_ge(reply_number(text, "items/policy=SIEVE/hits"), 1);
    ck_assert_int_ge(reply_number(text, "items/policy=S3-FIFO/hits"), 1);
}

START_TEST(what_games_use_is_recorded_in_order_and_played_again)
{
    char letters[64], names[NAMES] = { 0 };
    struct game record;

    start();
    record = ENGINE_CTL_START(&ctl, "--json", "resources", "record", trace);
    await_begin();
    use_all();
    ck_assert_int_eq(kill(record.pid, SIGINT), 0);
    ck_assert_int_eq(engine_ctl_end(&ctl, &record), 0);
    ck_assert_int_eq(reply_number(ctl.text, "uses"), sizeof order - 1);
    ck_assert_int_eq(reply_number(ctl.text, "lost"), 0);
    letters_of(recorded(), letters, names);
    ck_assert_str_eq(letters, order);
    assert_replay();
    asset_daemon_stop(&assets);
}
END_TEST

START_TEST(a_recording_that_cannot_begin_changes_no_file)
{
    start();
    asset_file(&assets, "kept", "what was there", 14);
    snprintf(trace, sizeof trace, "%s/kept", assets.folder);
    ck_assert_int_eq(ENGINE_CTL(&ctl, "--socket", "/nowhere", "resources", "record", trace), 3);
    ck_assert_str_eq(recorded(), "what was there");
    ck_assert_int_eq(ENGINE_CTL(&ctl, "resources", "record", trace, "--seconds", "never"), 2);
    ck_assert_ptr_nonnull(strstr(ctl.text, "--seconds is \"never\""));
    ck_assert_str_eq(recorded(), "what was there");
    ck_assert_int_eq(ENGINE_CTL(&ctl, "resources", "replay", trace), 1);
    ck_assert_ptr_nonnull(strstr(ctl.text, "does not begin like a resource trace"));
    asset_daemon_stop(&assets);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("use trace");
    TCase *tcase = tcase_create("use trace");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tcase, what_games_use_is_recorded_in_order_and_played_again);
    tcase_add_test(tcase, a_recording_that_cannot_begin_changes_no_file);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
