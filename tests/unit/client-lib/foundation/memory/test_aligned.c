/* The aligned allocator promises: every block is aligned, is freed once, and is counted exactly. */
#include "foundation/memory/aligned.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support/memory_rows.h"
#include "support/often.h"

#define LIVE 64

static struct memory_rows *rows;

static void setup(void)
{
    rows = memory_rows_create();
}

static void teardown(void)
{
    memory_rows_destroy(rows);
}

static struct ec_aligned *make(struct ec_aligned_desc desc)
{
    struct ec_error why = { 0 };
    struct ec_aligned *aligned;

    desc.name = "aligned";
    desc.tag = EC_TAG_AUDIO;
    ck_assert_msg(ec_aligned_create_in(&rows->sink, &desc, &aligned, &why) == EC_OK, "%s",
                  why.text);
    return aligned;
}

static struct ec_memory_stats stats_of(const struct ec_aligned *aligned)
{
    struct ec_memory_stats stats;

    ec_aligned_stats(aligned, &stats);
    return stats;
}

/* All alignments up to 2 MiB, sizes around them; with and without huge pages. */
START_TEST(every_block_is_aligned)
{
    struct ec_aligned *aligned = make((struct ec_aligned_desc) { .huge_pages = _i == 1 });

    for (size_t align = 1; align <= (size_t)2 << 20; align *= 2) {
        const size_t sizes[] = { align / 2 + 1, align, 3 * align };
        char *blocks[3];

        for (int i = 0; i < 3; i++) {
            blocks[i] = ec_aligned_alloc(aligned, sizes[i], align);
            ck_assert_ptr_nonnull(blocks[i]);
            ck_assert_uint_eq((uintptr_t)blocks[i] % align, 0);
            ck_assert_uint_eq((uintptr_t)blocks[i] % 16, 0);
            blocks[i][0] = blocks[i][sizes[i] - 1] = 1;
        }
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(ec_aligned_free(aligned, blocks[i]), EC_OK);
    }
    ck_assert_uint_eq(stats_of(aligned).current_bytes, 0);
    ck_assert_uint_eq(stats_of(aligned).capacity_bytes, 0);
    ec_aligned_destroy(aligned);
}
END_TEST

START_TEST(what_is_no_live_block_is_refused_and_counted)
{
    struct ec_aligned *aligned = make((struct ec_aligned_desc) { 0 });
    char *block = ec_aligned_alloc(aligned, 1 << 20, 4096); /* mapped: a second look would crash */

    ck_assert_int_eq(ec_aligned_free(aligned, block + 16), EC_ERR_PARAM);
    ck_assert_int_eq(ec_aligned_free(aligned, &aligned), EC_ERR_PARAM);
    ck_assert_int_eq(ec_aligned_free(aligned, (void *)(uintptr_t)8), EC_ERR_PARAM);
    ck_assert_int_eq(ec_aligned_free(aligned, block), EC_OK);
    ck_assert_int_eq(ec_aligned_free(aligned, block), EC_ERR_PARAM);
    ck_assert_int_eq(ec_aligned_free(aligned, NULL), EC_OK);
    ck_assert_uint_eq(stats_of(aligned).failed, 4);
    ck_assert_uint_eq(stats_of(aligned).total, 1);
    ec_aligned_destroy(aligned);
}
END_TEST

START_TEST(absurd_requests_and_a_passed_limit_are_refused)
{
    struct ec_aligned *aligned = make((struct ec_aligned_desc) { .limit_bytes = 1000 });
    volatile size_t huge = SIZE_MAX;
    void *block;

    ck_assert_ptr_null(ec_aligned_alloc(aligned, huge + 1, 0));
    ck_assert_ptr_null(ec_aligned_alloc(aligned, huge, 0));
    ck_assert_ptr_null(ec_aligned_alloc(aligned, 64, 48));
    ck_assert_ptr_null(ec_aligned_alloc(aligned, 64, (size_t)4 << 20));
    ck_assert_ptr_null(ec_aligned_alloc(aligned, 1001, 0));
    block = ec_aligned_alloc(aligned, 1000, 0);
    ck_assert_ptr_nonnull(block);
    ck_assert_ptr_null(ec_aligned_alloc(aligned, 1, 0));
    ck_assert_uint_eq(stats_of(aligned).failed, 6);
    ck_assert_int_eq(ec_aligned_free(aligned, block), EC_OK);
    ck_assert_ptr_nonnull(ec_aligned_alloc(aligned, 1000, 0)); /* and is freed by destroy */
    ec_aligned_destroy(aligned);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_AUDIO).bytes, 0);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_AUDIO).total, 2);
}
END_TEST

/* Random calls, against a list. */
static void *churn(void *context)
{
    struct ec_aligned *aligned = context;
    struct {
        unsigned char *block;
        size_t bytes;
    } list[LIVE] = { 0 };
    unsigned seed = (unsigned)(uintptr_t)&list >> 12;

    for (int round = 0; round < 5000; round++) {
        const int i = rand_r(&seed) % LIVE;
        const size_t align = (size_t)1 << rand_r(&seed) % 14;

        if (list[i].block != NULL) {
            ASSERT_OFTEN(list[i].block[0] == i && list[i].block[list[i].bytes - 1] == i);
            ASSERT_OFTEN(ec_aligned_free(aligned, list[i].block) == EC_OK);
            list[i].block = NULL;
            continue;
        }
        list[i].bytes = (size_t)(rand_r(&seed) % (rand_r(&seed) % 50 == 0 ? 300000 : 3000)) + 1;
        list[i].block = ec_aligned_alloc(aligned, list[i].bytes, align);
        ASSERT_OFTEN(list[i].block != NULL && (uintptr_t)list[i].block % align == 0);
        list[i].block[0] = list[i].block[list[i].bytes - 1] = (unsigned char)i;
    }
    for (int i = 0; i < LIVE; i++)
        ASSERT_OFTEN(ec_aligned_free(aligned, list[i].block) == EC_OK);
    return NULL;
}

START_TEST(threads_do_not_disturb_each_other)
{
    struct ec_aligned *aligned = make((struct ec_aligned_desc) { 0 });
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, aligned), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(stats_of(aligned).current_bytes, 0);
    ck_assert_uint_eq(stats_of(aligned).count, 0);
    ck_assert_uint_eq(stats_of(aligned).capacity_bytes, 0);
    ck_assert_uint_gt(stats_of(aligned).peak_bytes, 0);
    ck_assert_uint_eq(memory_rows_allocator(rows, "aligned").total, stats_of(aligned).total);
    ec_aligned_destroy(aligned);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("aligned");
    TCase *tcase = tcase_create("aligned");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, every_block_is_aligned, 0, 2);
    tcase_add_test(tcase, what_is_no_live_block_is_refused_and_counted);
    tcase_add_test(tcase, absurd_requests_and_a_passed_limit_are_refused);
    tcase_add_test(tcase, threads_do_not_disturb_each_other);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
