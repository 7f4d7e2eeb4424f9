/* Each lump of a WAD is found, also those whose name another one has; what does not fit is refused. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "resources/search_path.h"

static struct search_path *search;
static struct ec_error why;
static char archive[64];
static unsigned char wad[4096];
static size_t wad_bytes;

static void put32(size_t at, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        wad[at + i] = (unsigned char)(value >> 8 * i);
}

/* The text of each lump is its place in the directory; lumps without text are markers. */
struct row {
    const char *name, *text;
};

static void wad_make(const struct row *rows, uint32_t count)
{
    uint32_t at = 12;

    memset(wad, 0, sizeof wad);
    memcpy(wad, "PWAD", 4);
    put32(4, count);
    put32(8, 2048);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t bytes = (uint32_t)strlen(rows[i].text);

        memcpy(wad + at, rows[i].text, bytes);
        put32(2048 + 16 * i, at);
        put32(2048 + 16 * i + 4, bytes);
        memcpy(wad + 2048 + 16 * i + 8, rows[i].name, strnlen(rows[i].name, 8));
        at += bytes;
    }
    wad_bytes = 2048 + 16 * count;
}

static int wad_mount(void)
{
    FILE *file = fopen(archive, "we");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(wad, 1, wad_bytes, file), wad_bytes);
    fclose(file);
    return search_path_mount(search, archive, "/", true, &why);
}

static void set_up(void)
{
    int fd;

    snprintf(archive, sizeof archive, "/tmp/archive-wad-XXXXXX");
    fd = mkstemp(archive);
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(search_path_create(&search, &why), EC_OK);
}

static void tear_down(void)
{
    search_path_destroy(search);
    unlink(archive);
}

static void assert_lump(const char *path, const char *expected)
{
    struct search_entry entry;
    char text[64] = "";

    ck_assert_msg(search_entry_open(search, &entry, path, &why) == EC_OK, "%s: %s", path, why.text);
    ck_assert_uint_eq(entry.bytes, strlen(expected));
    ck_assert_int_eq(search_entry_read(&entry, text, entry.bytes, &why), EC_OK);
    ck_assert(search_entry_at_end(&entry));
    ck_assert_str_eq(text, expected);
    search_entry_close(&entry);
}

static void assert_none(const char *path)
{
    struct search_entry entry;

    ck_assert_int_eq(search_entry_open(search, &entry, path, &why), EC_ERR_NOT_FOUND);
}

static const struct row rows[] = {
    { "PLAYPAL", "0" },  { "MAP01", "" },      { "THINGS", "2" },    { "LINEDEFS", "3" },
    { "MAP02", "" },     { "THINGS", "5" },    { "LINEDEFS", "6" },  { "BEHAVIOR", "7" },
    { "DEHACKED", "8" }, { "MAP03", "" },      { "TEXTMAP", "10" },  { "ZNODES", "11" },
    { "ENDMAP", "" },    { "THINGS", "13" },   { "F_START", "" },    { "WALL", "15" },
    { "F1_START", "" },  { "INNER", "17" },    { "F1_END", "" },     { "F_END", "" },
    { "WALL", "20" },    { "GL_MAP01", "" },   { "GL_VERT", "22" },  { "GL_SEGS", "23" },
    { "VILE\\1", "24" }, { "EIGHTCHR", "25" }, { "BAD:NAME", "26" }, { "/UP", "27" },
    { "", "28" },
};
#define ROWS ((uint32_t)(sizeof rows / sizeof rows[0]))

START_TEST(lumps_are_found_by_map_and_marker)
{
    wad_make(rows, ROWS);
    ck_assert_msg(wad_mount() == EC_OK, "%s", why.text);
    assert_lump("PLAYPAL", "0");
    assert_lump("MAP01/THINGS", "2");
    assert_lump("MAP01/LINEDEFS", "3");
    assert_lump("MAP01", "");
    assert_lump("MAP02/THINGS", "5");
    assert_lump("MAP02/BEHAVIOR", "7");
    assert_lump("DEHACKED", "8");
    assert_lump("MAP03/TEXTMAP", "10");
    assert_lump("MAP03/ENDMAP", "");
    assert_lump("THINGS", "13"); /* the last of that name */
    assert_lump("LINEDEFS", "6");
    assert_lump("F/WALL", "15");
    assert_lump("WALL", "20");
    assert_lump("F1/INNER", "17");
    assert_lump("INNER", "17");
    assert_lump("GL_MAP01/GL_SEGS", "23");
    assert_lump("VILE^1", "24");
    assert_lump("EIGHTCHR", "25");
    assert_none("MAP01/BEHAVIOR");
    assert_none("MAP02/DEHACKED");
    assert_none("F/PLAYPAL");
    ck_assert_int_eq(search_entry_open(search, &(struct search_entry) { 0 }, "BAD:NAME", &why),
                     EC_ERR_PATH); /* as everywhere */
    assert_none("MAP03/THINGS");
    assert_none("MAP04");
}
END_TEST

/* Two of them are open at once, and each reads its own. */
START_TEST(lumps_are_read_beside_one_another)
{
    struct search_entry left, right;
    char text[3] = "";

    wad_make((const struct row[]) { { "LEFT", "ab" }, { "RIGHT", "xy" } }, 2);
    ck_assert_int_eq(wad_mount(), EC_OK);
    ck_assert_int_eq(search_entry_open(search, &left, "LEFT", &why), EC_OK);
    ck_assert_int_eq(search_entry_open(search, &right, "RIGHT", &why), EC_OK);
    ck_assert_int_eq(search_entry_read(&left, text, 1, &why), EC_OK);
    ck_assert_int_eq(search_entry_read(&right, text + 1, 1, &why), EC_OK);
    ck_assert_str_eq(text, "ax");
    ck_assert_int_eq(search_entry_read(&left, text, 1, &why), EC_OK);
    ck_assert_int_eq(search_entry_read(&right, text + 1, 1, &why), EC_OK);
    ck_assert_str_eq(text, "by");
    ck_assert_int_ne(search_entry_read(&left, text, 1, &why), EC_OK); /* it has no more */
    search_entry_close(&left);
    search_entry_close(&right);
}
END_TEST

static const struct {
    size_t at;
    uint32_t value;
} damages[] = {
    { 4, ROWS + 1 },       /* one lump too many */
    { 4, 0xffffffffu },    /* and all too many */
    { 8, 4000 },           /* the directory is behind the end */
    { 8, 0xffffffffu },    /* far behind it */
    { 2048, 0xfffffff0u }, /* a lump begins behind the end */
    { 2052, 4000 },        /* a lump goes on behind the end */
    { 2052, 0xffffffffu }, /* far behind it */
    { 0, 'P' | 'W' << 8 }, /* not a WAD at all */
};

START_TEST(a_damaged_wad_is_refused)
{
    wad_make(rows, ROWS);
    put32(damages[_i].at, damages[_i].value);
    ck_assert_int_eq(wad_mount(), EC_ERR_PATH);
}
END_TEST

START_TEST(a_truncated_wad_is_refused)
{
    wad_make(rows, ROWS);
    for (wad_bytes--; wad_bytes > 0; wad_bytes -= wad_bytes > 2000 ? 1 : 97) {
        ck_assert_int_eq(wad_mount(), EC_ERR_PATH);
        if (wad_bytes < 97)
            break;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("archive wad");
    TCase *tcase = tcase_create("archive wad");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, lumps_are_found_by_map_and_marker);
    tcase_add_test(tcase, lumps_are_read_beside_one_another);
    tcase_add_loop_test(tcase, a_damaged_wad_is_refused, 0, sizeof damages / sizeof damages[0]);
    tcase_add_test(tcase, a_truncated_wad_is_refused);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
