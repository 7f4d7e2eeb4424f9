/* What a client writes about its sites is bounded before it is believed. */
#include "segment/site_report.h"

#include <check.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

static struct ec_client_segment *segment;

static void set_up(void)
{
    segment = aligned_alloc(alignof(struct ec_client_segment), sizeof *segment);
    ck_assert_ptr_nonnull(segment);
    memset(segment, 0, sizeof *segment);
}

static void tear_down(void)
{
    free(segment);
}

static void put_site(uint32_t row, uint64_t bytes, uint64_t total)
{
    segment->tracking.sites[row].ready = 1;
    segment->tracking.sites[row].bytes_in = bytes;
    segment->tracking.sites[row].allocs = total;
    if (segment->tracking.site_count <= row)
        segment->tracking.site_count = row + 1;
}

static void put_module(uint32_t row, uint64_t begin, uint64_t end, const char *path)
{
    struct ec_module_row *module = &segment->tracking.modules[row];

    module->state = EC_MODULE_LOADED;
    module->begin = begin;
    module->end = end;
    strcpy(module->path, path);
    segment->tracking.module_count = row + 1;
}

START_TEST(the_greatest_come_first)
{
    struct ec_site_report sites[5];

    for (uint32_t row = 0; row < 50; row++)
        put_site(row, 1 + row * 37 % 50, 100 - row);
    ck_assert_uint_eq(ec_site_report_top(segment, EC_SITES_BY_BYTES, sites, 5), 5);
    for (int i = 0; i < 5; i++)
        ck_assert_uint_eq(sites[i].bytes, 50 - (unsigned)i);
    ck_assert_uint_eq(ec_site_report_top(segment, EC_SITES_BY_TOTAL, sites, 5), 5);
    for (uint32_t i = 0; i < 5; i++)
        ck_assert_uint_eq(sites[i].row, i);
    ck_assert_uint_eq(ec_site_report_top(segment, EC_SITES_BY_BYTES, sites, 0), 0);
}
END_TEST

START_TEST(what_is_free_or_half_written_is_left_out)
{
    struct ec_site_report sites[4];

    put_site(0, 0, 5);
    put_site(1, 10, 1);
    segment->tracking.sites[1].ready = 0;
    put_site(2, 7, 1);
    ck_assert_uint_eq(ec_site_report_top(segment, EC_SITES_BY_BYTES, sites, 4), 1);
    ck_assert_uint_eq(sites[0].row, 2);
}
END_TEST

START_TEST(nonsense_is_bounded)
{
    struct ec_site_report sites[2];
    struct ec_module_report module;

    put_site(0, 5, 1);
    segment->tracking.site_count = UINT32_MAX;
    segment->tracking.module_count = UINT32_MAX;
    segment->tracking.sites[0].depth = UINT32_MAX;
    segment->tracking.sites[0].frees = UINT64_MAX;
    segment->tracking.sites[0].bytes_out = 1;
    memset(segment->tracking.sites[0].file, '\x1b', sizeof segment->tracking.sites[0].file);
    ck_assert_uint_eq(ec_site_report_top(segment, EC_SITES_BY_BYTES, sites, 2), 1);
    ck_assert_uint_eq(sites[0].depth, EC_SITE_FRAMES);
    ck_assert_uint_eq(sites[0].count, 0);
    ck_assert_uint_eq(sites[0].bytes, 4);
    ck_assert_uint_eq(strlen(sites[0].file), EC_SITE_FILE_BYTES - 1);
    ck_assert_int_eq(sites[0].file[0], '?');
    ck_assert(!ec_module_report_find(segment, &sites[0], 0x1000, &module));
    segment->tracking.modules[EC_MODULES_MAX - 1].state = EC_MODULE_LOADED;
    segment->tracking.modules[EC_MODULES_MAX - 1].end = UINT64_MAX;
    segment->tracking.modules[EC_MODULES_MAX - 1].build_id_bytes = 4000;
    sites[0].modules_until = UINT32_MAX;
    ck_assert(ec_module_report_find(segment, &sites[0], 0x1000, &module));
    ck_assert_uint_eq(module.build_id_bytes, 0);
}
END_TEST

START_TEST(a_loaded_module_comes_before_one_that_is_gone)
{
    struct ec_site_report site = { .depth = 0 };
    struct ec_module_report module;

    put_module(0, 0x1000, 0x2000, "/lib/old.so");
    segment->tracking.modules[0].state = EC_MODULE_UNLOADED;
    ck_assert(ec_module_report_find(segment, &site, 0x1800, &module));
    ck_assert_str_eq(module.path, "/lib/old.so");
    put_module(1, 0x1000, 0x2000, "/lib/new.so");
    ck_assert(ec_module_report_find(segment, &site, 0x1800, &module));
    ck_assert_str_eq(module.path, "/lib/new.so");
    ck_assert(!module.is_unloaded);
    ck_assert(!ec_module_report_find(segment, &site, 0x2000, &module));
    site.modules_until = 1; /* it lost a module when there was but the first */
    ck_assert(ec_module_report_find(segment, &site, 0x1800, &module));
    ck_assert_str_eq(module.path, "/lib/old.so");
    ck_assert(module.is_unloaded);
}
END_TEST

START_TEST(a_site_is_called_after_the_first_frame_that_says_something)
{
    struct ec_site_report site = { .depth = 3, .frames = { 0x1100, 0x2100, 0x3100 } };

    put_module(0, 0x1000, 0x2000, "/usr/lib/libstdc++.so.6");
    put_module(1, 0x2000, 0x3000, "/opt/lib/libengine-core.so.0");
    put_module(2, 0x3000, 0x4000, "/opt/bin/game");
    ck_assert_uint_eq(ec_site_report_frame(segment, &site), 2);
    site.depth = 2;
    ck_assert_uint_eq(ec_site_report_frame(segment, &site), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("site_report");
    TCase *tcase = tcase_create("site_report");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, the_greatest_come_first);
    tcase_add_test(tcase, what_is_free_or_half_written_is_left_out);
    tcase_add_test(tcase, nonsense_is_bounded);
    tcase_add_test(tcase, a_loaded_module_comes_before_one_that_is_gone);
    tcase_add_test(tcase, a_site_is_called_after_the_first_frame_that_says_something);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
