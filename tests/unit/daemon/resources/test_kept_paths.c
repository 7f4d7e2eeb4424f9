/* Mounts and aliases as text: what is written is read again; what makes no sense is refused as a whole. */
#include "resources/kept_paths.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/boot_id.h"

static struct kept_mounts mounts;
static struct aliases aliases;
static struct ec_error why;
static char text[65536];

static const struct alias rows[] = {
    { "textures/", "hd/textures/" },
    { "a \"name\"", "another" },
};

static void set_up(void)
{
    mounts = (struct kept_mounts) { 0 };
    aliases = (struct aliases) { 0 };
}

static void tear_down(void)
{
    kept_mounts_finish(&mounts);
    aliases_finish(&aliases);
}

/* Two of each. */
static const char *good(void)
{
    struct kept_mount made[] = { { (char *)"/srv/mod.zip", (char *)"/", false },
                                 { (char *)"/srv/b", (char *)"/textures", true } };
    const struct kept_mounts two = { made, 2 };
    struct aliases both = { 0 };
    struct ec_json_writer writer;

    ck_assert_int_eq(aliases_change(&both, NULL, 0, rows, 2, &why), EC_OK);
    ec_json_writer_init(&writer, text, sizeof text - 1);
    kept_paths_write(&two, &both, &writer);
    ck_assert_int_eq(ec_json_writer_status(&writer), EC_OK);
    text[writer.bytes] = '\0';
    aliases_finish(&both);
    return text;
}

START_TEST(what_is_written_is_read_again)
{
    char path[64];

    for (int round = 0; round < 2; round++) { /* what was there before is replaced */
        good();
        ck_assert_msg(kept_paths_read(text, strlen(text), &mounts, &aliases, &why) == EC_OK, "%s",
                      why.text);
        ck_assert_uint_eq(mounts.count, 2);
        ck_assert_str_eq(mounts.rows[0].path, "/srv/mod.zip");
        ck_assert_str_eq(mounts.rows[1].at, "/textures");
        ck_assert(!mounts.rows[0].append && mounts.rows[1].append);
        ck_assert_uint_eq(aliases.count, 2);
        ck_assert_int_eq(aliases_resolve(&aliases, "textures/wall.png", path, sizeof path, &why),
                         EC_OK);
        ck_assert_str_eq(path, "hd/textures/wall.png");
    }
}
END_TEST

static const struct {
    const char *from, *to;
    int rc;
} changes[] = {
    { "\"format\":1", "\"format\":2", EC_ERR_PARAM },
    { "\"boot_id\":\"", "\"boot_id\":\"x", EC_ERR_NOT_FOUND },
    { "\"boot_id\"", "\"boot\"", EC_ERR_PARAM },
    { "/srv/mod.zip", "srv/mod.zip", EC_ERR_PARAM },
    { "\"path\":\"/srv/b\"", "\"path\":\"\"", EC_ERR_PARAM },
    { "\"at\":\"/textures\"", "\"at\":7", EC_ERR_PARAM },
    { "\"append\":true", "\"append\":1", EC_ERR_PARAM },
    { "hd/textures/", "hd/../textures/", EC_ERR_PATH },
    { "\"hd/textures/\"", "\"hd/textures\"", EC_ERR_PATH },
    { "\"another\"", "null", EC_ERR_PARAM },
    { "}\n", "\n", EC_ERR_PARSE },
};

START_TEST(what_makes_no_sense_is_refused_as_a_whole)
{
    static char changed[65536];
    const char *from = good(), *at = strstr(from, changes[_i].from);

    ck_assert_ptr_nonnull(at);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - from), from, changes[_i].to,
             at + strlen(changes[_i].from));
    ck_assert_int_eq(kept_paths_read(changed, strlen(changed), &mounts, &aliases, &why),
                     changes[_i].rc);
    ck_assert_uint_eq(mounts.count, 0);
    ck_assert_uint_eq(aliases.count, 0);
    ck_assert_int_gt((int)strlen(why.text), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kept_paths");
    TCase *tests = tcase_create("kept_paths");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, what_is_written_is_read_again);
    tcase_add_loop_test(tests, what_makes_no_sense_is_refused_as_a_whole, 0,
                        (int)(sizeof changes / sizeof changes[0]));
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
