/* Threads find their heaps, leave them when they end, and a forked child begins anew. */
#include "foundation/memory/pool_threads.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "foundation/memory/pool.h"
#include "support/memory_rows.h"

static struct memory_rows *rows;
static struct ec_pool *pool;

static void setup(void)
{
    struct ec_pool_desc desc = { .name = "pool", .block_bytes = 64 };
    struct ec_error why = { 0 };

    rows = memory_rows_create();
    ck_assert_msg(ec_pool_create_in(&rows->sink, &desc, &pool, &why) == EC_OK, "%s", why.text);
}

static void teardown(void)
{
    ec_pool_destroy(pool);
    memory_rows_destroy(rows);
}

static uint64_t live_blocks(void)
{
    struct ec_memory_stats stats;

    ec_pool_stats(pool, &stats);
    return stats.count;
}

START_TEST(a_thread_has_one_heap_per_pool)
{
    struct ec_pool_heap *heap = ec_pool_threads_heap(pool);

    ck_assert_ptr_nonnull(heap);
    ck_assert_ptr_eq(ec_pool_threads_heap(pool), heap);
    ck_assert_ptr_eq(ec_pool_thread_heap(pool), heap);
}
END_TEST

static void *find_heap(void *context)
{
    (void)context;
    return ec_pool_threads_heap(pool);
}

START_TEST(the_next_thread_takes_over_the_heap_of_one_that_ended)
{
    struct ec_pool_heap *mine = ec_pool_threads_heap(pool);
    void *first = NULL, *second = NULL;
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, find_heap, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, &first), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, find_heap, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, &second), 0);
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_eq(first, second);
    ck_assert_ptr_ne(first, mine);
}
END_TEST

START_TEST(who_left_a_sink_begins_anew_in_it)
{
    void *block = ec_pool_alloc(pool);

    ec_pool_threads_leave(&rows->sink);
    ck_assert_ptr_null(ec_pool_thread_heap(pool));
    ck_assert_uint_eq(live_blocks(), 1);
    ck_assert_int_eq(ec_pool_free(pool, block), EC_OK);
    ck_assert_ptr_nonnull(ec_pool_thread_heap(pool));
    ck_assert_uint_eq(live_blocks(), 0);
}
END_TEST

START_TEST(leaving_another_sink_changes_nothing)
{
    struct ec_memory_sink other;
    struct ec_pool_heap *heap = ec_pool_threads_heap(pool);

    ec_pool_threads_leave(&other);
    ck_assert_ptr_eq(ec_pool_thread_heap(pool), heap);
}
END_TEST

/* A destructor that runs again and again, so also after the pool's. Not in the last of the four
 * rounds that a thread's end has, which a sanitizer takes for itself. */
#define LATE_ROUNDS 3

static pthread_key_t late;
static _Atomic int late_frees;

static void free_late(void *block)
{
    static _Thread_local int round;
    void *next = ++round < LATE_ROUNDS ? ec_pool_alloc(pool) : NULL;

    if (ec_pool_free(pool, block) == EC_OK)
        late_frees++;
    pthread_setspecific(late, next);
}

static void *end_with_a_block(void *context)
{
    (void)context;
    pthread_setspecific(late, ec_pool_alloc(pool));
    return NULL;
}

START_TEST(a_thread_may_allocate_and_free_until_its_very_end)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_key_create(&late, free_late), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(pthread_create(&thread, NULL, end_with_a_block, NULL), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
    }
    ck_assert_int_eq(late_frees, 3 * LATE_ROUNDS);
    ck_assert_uint_eq(live_blocks(), 0);
    pthread_key_delete(late);
}
END_TEST

/* In the child the rows are pages of zeroes, as the library arranges it. */
static int use_in_child(void)
{
    void *blocks[1000];

    memset(rows->threads, 0, sizeof rows->threads);
    for (int i = 0; i < 1000; i++) {
        blocks[i] = ec_pool_alloc(pool);
        if (blocks[i] == NULL)
            return 1;
        memset(blocks[i], 1, 64);
        for (int j = 0; j < i && i < 200; j++)
            if (blocks[j] == blocks[i])
                return 2;
    }
    for (int i = 0; i < 1000; i++)
        if (ec_pool_free(pool, blocks[i]) != EC_OK)
            return 3;
    return live_blocks() == 0 ? 0 : 4;
}

START_TEST(a_forked_child_goes_on_with_empty_magazines)
{
    void *block = ec_pool_alloc(pool);
    int status;
    pid_t child;

    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(ec_pool_free(pool, ec_pool_alloc(pool)), EC_OK);
    child = fork();
    if (child == 0)
        _exit(use_in_child());
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    ck_assert_uint_eq(live_blocks(), 1);
    ck_assert_int_eq(ec_pool_free(pool, block), EC_OK);
}
END_TEST

START_TEST(the_4097th_pool_gets_no_index)
{
    struct ec_pool *other = aligned_alloc(EC_HOT_BYTES, sizeof *other);
    uint32_t count = 1; /* the fixture's */

    ck_assert_ptr_nonnull(other);
    memset(other, 0, sizeof *other);
    while (ec_pool_threads_add(other)) {
        ck_assert_uint_lt(other->index, EC_POOLS_MAX);
        ck_assert_uint_ne(other->index, pool->index);
        count++;
    }
    ck_assert_uint_eq(count, EC_POOLS_MAX);
    for (uint32_t index = 0; index < EC_POOLS_MAX; index++) {
        other->index = index;
        if (index != pool->index)
            ec_pool_threads_remove(other);
    }
    ck_assert(ec_pool_threads_add(other));
    ec_pool_threads_remove(other);
    free(other);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool_threads");
    TCase *tcase = tcase_create("pool_threads");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_thread_has_one_heap_per_pool);
    tcase_add_test(tcase, the_next_thread_takes_over_the_heap_of_one_that_ended);
    tcase_add_test(tcase, who_left_a_sink_begins_anew_in_it);
    tcase_add_test(tcase, leaving_another_sink_changes_nothing);
    tcase_add_test(tcase, a_thread_may_allocate_and_free_until_its_very_end);
    tcase_add_test(tcase, a_forked_child_goes_on_with_empty_magazines);
    tcase_add_test(tcase, the_4097th_pool_gets_no_index);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
