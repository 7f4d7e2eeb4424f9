/* Which paths are refused, what is found first, and that nothing outside the mounts is reached. */
#include "resources/search_path.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/sample_images.h"

static struct search_path *search;
static struct ec_error why;
static char root[64], first[96], second[96], archive[96];

static void write_file(const char *directory, const char *name, const char *text)
{
    char path[200];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", directory, name);
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static void set_up(void)
{
    struct sample_zip zip = { 0 };

    snprintf(root, sizeof root, "/tmp/search-path-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    snprintf(first, sizeof first, "%s/first", root);
    snprintf(second, sizeof second, "%s/second", root);
    snprintf(archive, sizeof archive, "%s/archive.zip", root);
    ck_assert_int_eq(mkdir(first, 0700), 0);
    ck_assert_int_eq(mkdir(second, 0700), 0);
    write_file(first, "both", "from the first");
    write_file(second, "both", "from the second");
    write_file(second, "alone", "only here");
    write_file(root, "secret", "outside");
    sample_zip_add(&zip, "both", "from the archive", 16);
    sample_zip_add(&zip, "packed/deep", "inside", 6);
    sample_zip_write(&zip, archive);
    ck_assert_int_eq(search_path_create(&search, &why), EC_OK);
}

static void tear_down(void)
{
    char command[128];

    search_path_destroy(search);
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    ck_assert_int_eq(system(command), 0);
}

static int mount(const char *path, const char *at, bool append)
{
    return search_path_mount(search, path, at, append, &why);
}

/* The whole text of an entry, or the error. */
static int read_entry(const char *path, char *text, size_t bytes)
{
    struct search_entry entry;
    int rc = search_entry_open(search, &entry, path, &why);

    if (rc == EC_OK) {
        ck_assert_uint_lt(entry.bytes, bytes);
        rc = search_entry_read(&entry, text, entry.bytes, &why);
        text[entry.bytes] = '\0';
        ck_assert(search_entry_at_end(&entry));
    }
    search_entry_close(&entry);
    return rc;
}

static void assert_entry(const char *path, const char *expected)
{
    char text[64] = "";

    ck_assert_msg(read_entry(path, text, sizeof text) == EC_OK, "%s: %s", path, why.text);
    ck_assert_str_eq(text, expected);
}

static const struct {
    const char *path;
    size_t bytes; /* 0: strlen */
    int rc;
} paths[] = {
    { "a", 0, EC_OK },          { "a/b.c/d-e_f", 0, EC_OK }, { "..a/b..", 0, EC_OK },
    { "…/ü", 0, EC_OK },        { "", 0, EC_ERR_PATH },      { "/a", 0, EC_ERR_PATH },
    { "a/", 0, EC_ERR_PATH },   { "a//b", 0, EC_ERR_PATH },  { ".", 0, EC_ERR_PATH },
    { "..", 0, EC_ERR_PATH },   { "../a", 0, EC_ERR_PATH },  { "a/../b", 0, EC_ERR_PATH },
    { "a/..", 0, EC_ERR_PATH }, { "a/./b", 0, EC_ERR_PATH }, { "a\\b", 0, EC_ERR_PATH },
    { "c:a", 0, EC_ERR_PATH },  { "a\nb", 0, EC_ERR_PATH },  { "a\x7f", 0, EC_ERR_PATH },
    { "a\0b", 3, EC_ERR_PATH },
};

START_TEST(a_path_stays_inside)
{
    size_t bytes = paths[_i].bytes != 0 ? paths[_i].bytes : strlen(paths[_i].path);

    ck_assert_int_eq(search_path_check(paths[_i].path, bytes, &why), paths[_i].rc);
}
END_TEST

START_TEST(a_path_has_a_greatest_length)
{
    char path[SEARCH_PATH_BYTES + 1];

    memset(path, 'a', sizeof path);
    ck_assert_int_eq(search_path_check(path, SEARCH_PATH_BYTES - 1, &why), EC_OK);
    ck_assert_int_eq(search_path_check(path, SEARCH_PATH_BYTES, &why), EC_ERR_PATH);
}
END_TEST

START_TEST(the_first_mount_that_has_it_wins)
{
    ck_assert_int_eq(mount(second, "/", true), EC_OK);
    ck_assert_int_eq(mount(archive, "/", true), EC_OK);
    assert_entry("both", "from the second");
    ck_assert_int_eq(mount(first, "/", false), EC_OK); /* in front of all */
    assert_entry("both", "from the first");
    assert_entry("alone", "only here");
    assert_entry("packed/deep", "inside");
    ck_assert_str_eq(search_path_at(search, 0)->path, first);
    ck_assert_str_eq(search_path_at(search, 1)->path, second);
    ck_assert_str_eq(search_path_at(search, 2)->path, archive);
    ck_assert_ptr_null(search_path_at(search, 3));
}
END_TEST

START_TEST(a_mount_may_appear_further_down)
{
    ck_assert_int_eq(mount(archive, "/pack/one", true), EC_OK);
    assert_entry("pack/one/packed/deep", "inside");
    ck_assert_int_eq(mount(archive, "/pack/one", true), EC_OK); /* the same again */
    ck_assert_ptr_null(search_path_at(search, 1));
    ck_assert_int_eq(mount(archive, "/pack/two", true), EC_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(why.text, "/pack/one"));
}
END_TEST

START_TEST(what_cannot_be_mounted_is_named)
{
    char path[128];

    snprintf(path, sizeof path, "%s/nothing", root);
    ck_assert_int_eq(mount(path, "/", true), EC_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(why.text, path));
    snprintf(path, sizeof path, "%s/secret", root);
    ck_assert_int_eq(mount(path, "/", true), EC_ERR_PATH); /* no archive */
    ck_assert_ptr_nonnull(strstr(why.text, path));
    ck_assert_int_eq(mount("relative", "/", true), EC_ERR_PATH);
    ck_assert_int_eq(mount(first, "", true), EC_ERR_PATH);
    ck_assert_int_eq(mount(first, "x", true), EC_ERR_PATH);
    ck_assert_int_eq(mount(first, "/x/../y", true), EC_ERR_PATH);
    snprintf(path, sizeof path, "%s/pipe", root);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(mount(path, "/", true), EC_ERR_PATH); /* and nobody waits for it */
    ck_assert_ptr_null(search_path_at(search, 0));
}
END_TEST

START_TEST(only_regular_files_inside_the_mounts_are_read)
{
    char path[200], text[64];

    snprintf(path, sizeof path, "%s/link", first);
    ck_assert_int_eq(symlink("../secret", path), 0);
    snprintf(path, sizeof path, "%s/out", first);
    ck_assert_int_eq(symlink("..", path), 0);
    snprintf(path, sizeof path, "%s/pipe", first);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    snprintf(path, sizeof path, "%s/folder", first);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_eq(mount(first, "/", true), EC_OK);
    ck_assert_int_eq(read_entry("link", text, sizeof text), EC_ERR_PATH);
    ck_assert_int_lt(read_entry("out/secret", text, sizeof text), 0);
    ck_assert_int_eq(read_entry("pipe", text, sizeof text), EC_ERR_PATH);
    ck_assert_int_eq(read_entry("folder", text, sizeof text), EC_ERR_PATH);
    ck_assert_int_eq(read_entry("nothing", text, sizeof text), EC_ERR_NOT_FOUND);
}
END_TEST

/* Another file is renamed over it, with other bytes at the same places: what was mounted is still read. */
START_TEST(an_archive_stays_the_file_that_was_mounted)
{
    struct sample_zip zip = { 0 };
    char fresh[112], text[64];

    ck_assert_int_eq(mount(archive, "/", true), EC_OK);
    snprintf(fresh, sizeof fresh, "%s.new", archive);
    sample_zip_add(&zip, "both", "from another one", 16);
    sample_zip_add(&zip, "packed/deep", "differ", 6);
    sample_zip_write(&zip, fresh);
    ck_assert_int_eq(rename(fresh, archive), 0);
    ck_assert_int_eq(read_entry("both", text, sizeof text), EC_OK);
    ck_assert_str_eq(text, "from the archive");
    ck_assert_int_eq(unlink(archive), 0);
    ck_assert_int_eq(read_entry("packed/deep", text, sizeof text), EC_OK);
    ck_assert_str_eq(text, "inside");
}
END_TEST

START_TEST(two_entries_of_an_archive_are_read_in_turns)
{
    struct search_entry both, deep;
    char text[17] = "", other[7] = "";

    ck_assert_int_eq(mount(archive, "/", true), EC_OK);
    ck_assert_int_eq(search_entry_open(search, &both, "both", &why), EC_OK);
    ck_assert_int_eq(search_entry_open(search, &deep, "packed/deep", &why), EC_OK);
    ck_assert_ptr_nonnull(both.archive);
    ck_assert_int_eq(search_entry_read(&both, text, 5, &why), EC_OK);
    ck_assert_int_eq(search_entry_read(&deep, other, 3, &why), EC_OK);
    ck_assert_int_eq(search_entry_read(&both, text + 5, 11, &why), EC_OK);
    ck_assert_int_eq(search_entry_read(&deep, other + 3, 3, &why), EC_OK);
    ck_assert_str_eq(text, "from the archive");
    ck_assert_str_eq(other, "inside");
    search_entry_forget(&both);
    search_entry_close(&both);
    search_entry_close(&deep);
}
END_TEST

START_TEST(an_entry_that_is_shorter_than_asked_for_is_an_error)
{
    struct search_entry entry;
    char text[64];

    ck_assert_int_eq(mount(second, "/", true), EC_OK);
    ck_assert_int_eq(search_entry_open(search, &entry, "alone", &why), EC_OK);
    ck_assert_uint_eq(entry.bytes, 9);
    ck_assert_int_eq(search_entry_read(&entry, text, 4, &why), EC_OK);
    ck_assert(!search_entry_at_end(&entry));
    ck_assert_int_eq(search_entry_read(&entry, text, 10, &why), EC_ERR_SIZE);
    search_entry_close(&entry);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("search path");
    TCase *tcase = tcase_create("search path");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, a_path_stays_inside, 0, sizeof paths / sizeof paths[0]);
    tcase_add_test(tcase, a_path_has_a_greatest_length);
    tcase_add_test(tcase, the_first_mount_that_has_it_wins);
    tcase_add_test(tcase, a_mount_may_appear_further_down);
    tcase_add_test(tcase, what_cannot_be_mounted_is_named);
    tcase_add_test(tcase, only_regular_files_inside_the_mounts_are_read);
    tcase_add_test(tcase, an_archive_stays_the_file_that_was_mounted);
    tcase_add_test(tcase, two_entries_of_an_archive_are_read_in_turns);
    tcase_add_test(tcase, an_entry_that_is_shorter_than_asked_for_is_an_error);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
