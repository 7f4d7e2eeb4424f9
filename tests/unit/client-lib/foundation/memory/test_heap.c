/* The heap promises: any size, any thread, each block under its tag, and no nonsense is taken for a block. */
#include "foundation/memory/heap.h"

#include <engine-core/slab.h>

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support/memory_rows.h"
#include "support/often.h"

#define LIVE 300
#define THREADS 4
#define ROUNDS 30000

static struct memory_rows *rows;

static void setup(void)
{
    rows = memory_rows_create();
}

static void teardown(void)
{
    memory_rows_destroy(rows);
}

static struct ec_heap *make(struct ec_memory_sink *sink)
{
    struct ec_error why = { 0 };
    struct ec_heap *heap;

    ck_assert_msg(ec_heap_create_in(sink, &(struct ec_heap_desc) { .name = "heap" }, &heap, &why) ==
                      EC_OK,
                  "%s", why.text);
    return heap;
}

static struct ec_memory_stats stats_of(const struct ec_heap *heap)
{
    struct ec_memory_stats stats;

    ec_heap_stats(heap, &stats);
    return stats;
}

START_TEST(zero_absurd_and_overflowing_requests_are_refused_and_counted)
{
    struct ec_heap *heap = make(&rows->sink);
    volatile size_t huge = SIZE_MAX;
    void *block = ec_alloc(heap, 100, 0);

    ck_assert_ptr_null(ec_alloc(heap, huge + 1, 0));
    ck_assert_ptr_null(ec_alloc(heap, huge, 0));
    ck_assert_ptr_null(ec_alloc(heap, ((size_t)1 << 40) + 1, 0));
    ck_assert_ptr_null(ec_alloc(heap, 16, EC_TAG_USER_FIRST + 48));
    ck_assert_ptr_null(ec_alloc_array(heap, huge / 8 + 1, 8, 0));
    ck_assert_ptr_null(ec_alloc_array(heap, huge + 1, 8, 0));
    ck_assert_ptr_null(ec_alloc_aligned(heap, 16, 48, 0));
    ck_assert_ptr_null(ec_alloc_aligned(heap, 16, 0, 0));
    ck_assert_ptr_null(ec_alloc_aligned(heap, 16, (size_t)4 << 20, 0));
    ck_assert_ptr_null(ec_realloc(heap, block, huge + 1, 0));
    ck_assert_ptr_null(ec_realloc(heap, block, huge, 0));
    ck_assert_ptr_null(ec_realloc(heap, &heap, 100, 0));
    ck_assert_uint_eq(stats_of(heap).failed, 12);
    ck_assert_uint_eq(stats_of(heap).count, 1);
    ck_assert_int_eq(ec_free(heap, block), EC_OK);
    ec_heap_destroy(heap);
}
END_TEST

/* In every tier, for small and for large blocks. */
START_TEST(a_block_is_freed_once)
{
    static const size_t sizes[] = { 1, 100, 2048, 2049, 1 << 20 };
    struct ec_heap *heap = make(&rows->sink);
    char *block = ec_alloc(heap, sizes[_i], 3), *mine = malloc(100);
    volatile size_t bytes = sizes[_i];

    ck_assert_int_eq(ec_free(heap, mine), EC_ERR_PARAM);
    ck_assert_int_eq(ec_free(heap, block + 8), EC_ERR_PARAM);
    ck_assert_ptr_null(ec_realloc(heap, block + 8, bytes, 3));
    if (bytes <= EC_SLAB_BYTES_MAX) /* the header of its group */
        ck_assert_int_eq(ec_free(heap, block - (uintptr_t)block % 65536 + 64), EC_ERR_PARAM);
    else
        ck_assert_int_eq(ec_free(heap, block + 64), EC_ERR_PARAM);
    ck_assert_int_eq(ec_free(heap, (void *)(uintptr_t)16), EC_ERR_PARAM);
    ck_assert_uint_eq(memory_rows_tag(rows, 3).count, 1);
    ck_assert_uint_ge(memory_rows_tag(rows, 3).bytes, sizes[_i]);
    ck_assert_uint_ge(ec_heap_block_bytes(heap, block), sizes[_i]);
    ck_assert_int_eq(ec_free(heap, block), EC_OK);
    ck_assert_int_lt(ec_free(heap, block), 0);
    ck_assert_ptr_null(ec_realloc(heap, block, bytes, 3)); /* although its size would stay */
    ck_assert_int_eq(ec_free(heap, NULL), EC_OK);
    ck_assert_uint_eq(stats_of(heap).failed, 7);
    ck_assert_uint_eq(memory_rows_tag(rows, 3).bytes, 0);
    free(mine);
    ec_heap_destroy(heap);
}
END_TEST

START_TEST(every_alignment_is_kept)
{
    const size_t align = (size_t)1 << _i;
    struct ec_heap *heap = make(NULL);
    const size_t sizes[] = { align / 2 + 1, align, 3 * align };

    for (int i = 0; i < 3; i++) {
        char *block = ec_alloc_aligned(heap, sizes[i], align, 0);

        ck_assert_ptr_nonnull(block);
        ck_assert_uint_eq((uintptr_t)block % align, 0);
        memset(block, 1, sizes[i]);
        ck_assert_int_eq(ec_free(heap, block), EC_OK);
    }
    ec_heap_destroy(heap);
}
END_TEST

START_TEST(a_resized_block_keeps_its_bytes_and_its_tag)
{
    struct ec_heap *heap = make(&rows->sink);
    unsigned char *block = NULL;
    size_t held = 0;

    srand(9);
    for (int round = 0; round < 3000; round++) {
        const size_t bytes = (size_t)1 << rand() % 16 | (size_t)(rand() % 50);
        unsigned char *moved = ec_realloc(heap, block, bytes, block == NULL ? 7 : 9);

        ASSERT_OFTEN(moved != NULL && (uintptr_t)moved % 16 == 0);
        block = moved;
        for (size_t i = 0; i < (held < bytes ? held : bytes); i++)
            ASSERT_OFTEN(block[i] == (unsigned char)(i * 7));
        for (size_t i = 0; i < bytes; i++)
            block[i] = (unsigned char)(i * 7);
        held = bytes;
        ASSERT_OFTEN(memory_rows_tag(rows, 7).count == 1);
        ASSERT_OFTEN(memory_rows_tag(rows, 7).bytes >= bytes);
        ASSERT_OFTEN(memory_rows_tag(rows, 9).total == 0);
    }
    ck_assert_int_eq(ec_free(heap, block), EC_OK);
    ck_assert_uint_eq(stats_of(heap).current_bytes, 0);
    ec_heap_destroy(heap);
}
END_TEST

START_TEST(what_is_still_out_ends_with_the_heap)
{
    struct ec_heap *heap = make(&rows->sink);

    for (size_t i = 1; i < 5000; i += 7)
        ck_assert_ptr_nonnull(ec_alloc(heap, i, (uint32_t)(i % 10)));
    ck_assert_uint_gt(memory_rows_tag(rows, 4).bytes, 0);
    ec_heap_destroy(heap);
    for (uint32_t tag = 0; tag < 10; tag++) {
        ck_assert_uint_eq(memory_rows_tag(rows, tag).bytes, 0);
        ck_assert_uint_eq(memory_rows_tag(rows, tag).count, 0);
        ck_assert_uint_gt(memory_rows_tag(rows, tag).peak_bytes, 0);
    }
    ck_assert_uint_eq(memory_rows_listed(rows), 0);
}
END_TEST

START_TEST(blocks_of_all_sizes_can_lie_in_a_range)
{
    const size_t bytes = 64 * EC_SPACE_UNIT_BYTES;
    char *range = aligned_alloc(65536, bytes);
    struct ec_space space;
    struct ec_error why = { 0 };
    struct ec_heap *heap;

    ck_assert_int_eq(ec_space_init(&space, range, bytes, NULL), EC_OK);
    rows->sink.space = &space;
    ck_assert_msg(ec_heap_create_in(&rows->sink,
                                    &(struct ec_heap_desc) { .name = "h", .in_segment = true },
                                    &heap, &why) == EC_OK,
                  "%s", why.text);
    for (size_t size = 1; size < 300000; size = size * 2 + 1) {
        char *block = ec_alloc(heap, size, 1);

        ck_assert(block >= range && block + size <= range + bytes);
        memset(block, 1, size);
        block = ec_realloc(heap, block, size + 1, 1);
        ck_assert(block >= range && block + size <= range + bytes);
        ck_assert_int_eq(ec_free(heap, block), EC_OK);
    }
    ck_assert_ptr_null(ec_alloc(heap, bytes, 1));
    ec_heap_destroy(heap);
    rows->sink.space = NULL;
    ec_space_finish(&space);
    free(range);
}
END_TEST

/* One list for all threads: a block is freed by whoever comes by. */
static struct {
    pthread_mutex_t lock;
    unsigned char *block;
    size_t bytes;
} shared[LIVE];

static struct ec_heap *common;

static void *churn(void *context)
{
    unsigned seed = *(unsigned *)context;

    for (int round = 0; round < ROUNDS; round++) {
        const int i = rand_r(&seed) % LIVE;
        unsigned char *block;
        size_t bytes;

        pthread_mutex_lock(&shared[i].lock);
        block = shared[i].block;
        bytes = shared[i].bytes;
        shared[i].block = NULL;
        pthread_mutex_unlock(&shared[i].lock);
        if (block != NULL) {
            ASSERT_OFTEN(block[0] == (unsigned char)i && block[bytes - 1] == (unsigned char)i);
            ASSERT_OFTEN(ec_free(common, block) == EC_OK);
            continue;
        }
        bytes = (size_t)(rand_r(&seed) % (rand_r(&seed) % 20 == 0 ? 10000 : 300)) + 1;
        block = ec_alloc(common, bytes, (uint32_t)(i % EC_TAGS_MAX));
        ASSERT_OFTEN(block != NULL);
        block[0] = block[bytes - 1] = (unsigned char)i;
        pthread_mutex_lock(&shared[i].lock);
        if (shared[i].block == NULL) {
            shared[i].block = block;
            shared[i].bytes = bytes;
            block = NULL;
        }
        pthread_mutex_unlock(&shared[i].lock);
        ASSERT_OFTEN(ec_free(common, block) == EC_OK);
    }
    return NULL;
}

START_TEST(threads_may_free_each_others_blocks)
{
    pthread_t threads[THREADS];
    unsigned seeds[THREADS];

    common = make(&rows->sink);
    for (int i = 0; i < LIVE; i++)
        pthread_mutex_init(&shared[i].lock, NULL);
    for (unsigned i = 0; i < THREADS; i++) {
        seeds[i] = i + 1;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, &seeds[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < LIVE; i++)
        ASSERT_OFTEN(ec_free(common, shared[i].block) == EC_OK);
    ck_assert_uint_eq(stats_of(common).count, 0);
    ck_assert_uint_eq(stats_of(common).current_bytes, 0);
    ck_assert_uint_eq(stats_of(common).failed, 0);
    for (uint32_t tag = 0; tag < EC_TAGS_MAX; tag++) {
        ASSERT_OFTEN(memory_rows_tag(rows, tag).count == 0);
        ASSERT_OFTEN(memory_rows_tag(rows, tag).bytes == 0);
        ASSERT_OFTEN(memory_rows_tag(rows, tag).total > 0);
    }
    ec_heap_destroy(common);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("heap");
    TCase *tcase = tcase_create("heap");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, zero_absurd_and_overflowing_requests_are_refused_and_counted);
    tcase_add_loop_test(tcase, a_block_is_freed_once, 0, 5);
    tcase_add_loop_test(tcase, every_alignment_is_kept, 0, 22);
    tcase_add_test(tcase, a_resized_block_keeps_its_bytes_and_its_tag);
    tcase_add_test(tcase, what_is_still_out_ends_with_the_heap);
    tcase_add_test(tcase, blocks_of_all_sizes_can_lie_in_a_range);
    tcase_add_test(tcase, threads_may_free_each_others_blocks);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
