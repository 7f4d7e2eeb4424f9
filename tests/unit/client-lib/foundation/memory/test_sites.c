#include "foundation/memory/sites.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support/often.h"

static struct ec_tracking *tracking;
static struct ec_sites *sites;
static _Atomic bool news;

static void set_up(void)
{
    tracking = calloc(1, sizeof *tracking);
    sites = calloc(1, sizeof *sites);
    ck_assert(tracking != NULL && sites != NULL);
    sites->tracking = tracking;
    sites->is_news = &news;
    news = false;
}

static void tear_down(void)
{
    free(sites);
    free(tracking);
}

static uint32_t find(uint64_t first, uint64_t second)
{
    const uint64_t frames[] = { first, second };

    return ec_sites_find(sites, &(struct ec_site_key) { .frames = frames, .depth = 2 });
}

START_TEST(a_stack_has_one_row_and_another_has_another)
{
    const uint32_t row = find(1000, 2000);

    ck_assert_uint_lt(row, EC_SITES_MAX);
    ck_assert(news);
    ck_assert_uint_eq(find(1000, 2000), row);
    ck_assert_uint_ne(find(1000, 2001), row);
    ck_assert_uint_ne(find(2000, 1000), row);
    ck_assert_uint_eq(tracking->site_count, 3);
    ck_assert_uint_eq(tracking->samples, 4);
    ck_assert_uint_eq(tracking->sites[row].ready, 1);
    ck_assert_uint_eq(tracking->sites[row].depth, 2);
    ck_assert_uint_eq(tracking->sites[row].frames[1], 2000);
}
END_TEST

START_TEST(a_site_that_lost_a_module_is_found_no_more)
{
    const uint32_t row = find(1000, 2000), other = find(3000, 4000);
    uint32_t next;

    tracking->sites[row].modules_until = 5;
    next = find(1000, 2000);
    ck_assert_uint_ne(next, row);
    ck_assert_uint_eq(find(1000, 2000), next);
    ck_assert_uint_eq(find(3000, 4000), other);
}
END_TEST

START_TEST(tag_file_and_line_part_sites)
{
    struct ec_site_key key = { .file = "a.c", .line = 1 };
    const uint32_t row = ec_sites_find(sites, &key);
    char other[] = "a.c";

    key.file = other; /* the text counts, not where it lies */
    ck_assert_uint_eq(ec_sites_find(sites, &key), row);
    key.line = 2;
    ck_assert_uint_ne(ec_sites_find(sites, &key), row);
    key.line = 1;
    key.tag = 3;
    ck_assert_uint_ne(ec_sites_find(sites, &key), row);
    ck_assert_str_eq(tracking->sites[row].file, "a.c");
}
END_TEST

START_TEST(of_a_long_path_the_end_is_kept)
{
    const char path[] = "/a/very/long/path/that/does/not/fit/into/the/row/at/all/really/npc.c";
    const uint32_t row = ec_sites_find(sites, &(struct ec_site_key) { .file = path, .line = 9 });
    const char *file = tracking->sites[row].file;

    ck_assert_uint_eq(strlen(file), EC_SITE_FILE_BYTES - 1);
    ck_assert_str_eq(file, path + strlen(path) - strlen(file));
}
END_TEST

START_TEST(a_full_table_loses_samples_and_counts_them)
{
    for (uint64_t i = 0; i < EC_SITES_MAX + 10; i++)
        (void)find(4096 + i, i);
    ck_assert_uint_eq(tracking->site_count, EC_SITES_MAX);
    ck_assert_uint_ge(tracking->lost, 10);
    ck_assert_uint_eq(find(1, 1), EC_SITE_NONE);
    ec_sites_add(sites, EC_SITE_NONE, 1, 1); /* does nothing */
    ec_sites_remove(sites, EC_SITE_NONE, 1, 1);
}
END_TEST

static void *count_all(void *context)
{
    (void)context;
    for (int round = 0; round < 200; round++)
        for (uint64_t i = 0; i < 100; i++) {
            const uint32_t row = find(50000 + i, 7);

            ec_sites_add(sites, row, 10, 1);
            if (round % 2 == 1)
                ec_sites_remove(sites, row, 10, 1);
        }
    return NULL;
}

START_TEST(threads_find_the_same_rows_and_lose_no_count)
{
    pthread_t threads[4];
    uint64_t allocs = 0, frees = 0;

    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count_all, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t row = 0; row < tracking->site_count; row++) {
        const struct ec_site_row *site = &tracking->sites[row];

        ASSERT_OFTEN(site->allocs == 0 || (site->allocs == 800 && site->frees == 400));
        ASSERT_OFTEN((site->allocs != 0) == (site->ready == 1));
        allocs += site->allocs;
        frees += site->frees;
    }
    ck_assert_uint_eq(allocs, 80000);
    ck_assert_uint_eq(frees, 40000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sites");
    TCase *tcase = tcase_create("sites");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_stack_has_one_row_and_another_has_another);
    tcase_add_test(tcase, a_site_that_lost_a_module_is_found_no_more);
    tcase_add_test(tcase, tag_file_and_line_part_sites);
    tcase_add_test(tcase, of_a_long_path_the_end_is_kept);
    tcase_add_test(tcase, a_full_table_loses_samples_and_counts_them);
    tcase_add_test(tcase, threads_find_the_same_rows_and_lose_no_count);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
