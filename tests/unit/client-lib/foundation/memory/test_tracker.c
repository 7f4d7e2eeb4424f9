/* The tracker promises: a site holds what was allocated there and is still out, and nothing else. */
#include "foundation/memory/tracker.h"

#include <engine-core/tracking.h>

#include <check.h>
#include <stdlib.h>

#include "foundation/memory/aligned.h"
#include "foundation/memory/arena.h"
#include "foundation/memory/heap.h"
#include "foundation/memory/pool.h"
#include "support/memory_rows.h"

static struct memory_rows *rows;
static struct ec_tracking *tracking;
static struct ec_tracker *tracker;

static void setup(void)
{
    rows = memory_rows_create();
    tracking = calloc(1, sizeof *tracking);
    tracker = calloc(1, sizeof *tracker);
    ck_assert(tracking != NULL && tracker != NULL);
    ec_tracker_start(tracker, &rows->sink, tracking, 1); /* each block */
}

static void teardown(void)
{
    ec_tracker_finish(tracker);
    free(tracker);
    free(tracking);
    memory_rows_destroy(rows);
}

/* Of all sites together. */
static void assert_held(uint64_t count, uint64_t bytes)
{
    uint64_t held = 0, held_bytes = 0;

    for (uint32_t i = 0; i < tracking->site_count; i++) {
        held += tracking->sites[i].allocs - tracking->sites[i].frees;
        held_bytes += tracking->sites[i].bytes_in - tracking->sites[i].bytes_out;
    }
    ck_assert_uint_eq(held, count);
    ck_assert_uint_eq(held_bytes, bytes);
    ck_assert_uint_eq(ec_block_table_count(&tracker->blocks), count);
}

static struct ec_pool *make_pool(size_t block_bytes)
{
    struct ec_pool *pool;

    ck_assert_int_eq(
        ec_pool_create_in(&rows->sink,
                          &(struct ec_pool_desc) { .name = "pool", .block_bytes = block_bytes },
                          &pool, NULL),
        EC_OK);
    return pool;
}

START_TEST(a_site_holds_a_block_from_its_allocation_to_its_free)
{
    struct ec_pool *pool = make_pool(64);
    void *one = EC_SITE(ec_pool_alloc(pool)), *two;
    const uint32_t line = __LINE__ - 1;

    ck_assert_uint_eq(tracking->sites[0].line, line);
    two = ec_pool_alloc(pool);
    ck_assert_uint_eq(tracking->sites[1].line, 0);
    assert_held(2, 128);
    ck_assert_int_eq(ec_pool_free(pool, one), EC_OK);
    assert_held(1, 64);
    ec_tracker_set(tracker, 0); /* the other one is still looked for */
    ck_assert_int_eq(ec_pool_free(pool, two), EC_OK);
    assert_held(0, 0);
    ck_assert_ptr_nonnull(ec_pool_alloc(pool));
    assert_held(0, 0);
    ec_pool_destroy(pool);
}
END_TEST

START_TEST(what_is_said_of_a_place_is_said_of_one_allocation)
{
    struct ec_pool *pool = make_pool(64), *unseen;

    ck_assert_int_eq(
        ec_pool_create_in(NULL, &(struct ec_pool_desc) { .name = "unseen", .block_bytes = 64 },
                          &unseen, NULL),
        EC_OK);
    ck_assert_ptr_nonnull(EC_SITE(ec_pool_alloc(unseen))); /* nobody hears of it */
    ck_assert_ptr_nonnull(ec_pool_alloc(pool));
    ck_assert_uint_eq(tracking->site_count, 1);
    ck_assert_str_eq(tracking->sites[0].file, "");
    ec_pool_destroy(unseen);
    ec_pool_destroy(pool);
}
END_TEST

START_TEST(a_stack_is_one_site_whatever_was_said_before_of_others)
{
    struct ec_pool *pool = make_pool(64);

    for (volatile uint32_t line = 1; line <= 4; line++) { /* volatile: one loop, one stack */
        ec_tracking_here("place.c", line);
        ck_assert_ptr_nonnull(ec_pool_alloc(pool));
        ck_assert_ptr_nonnull(ec_pool_alloc(pool));
    }
    ck_assert_uint_eq(tracking->site_count, 4 + 1);
    ec_pool_destroy(pool);
}
END_TEST

START_TEST(what_is_still_out_leaves_its_site_with_its_allocator)
{
    struct ec_pool *small = make_pool(16), *large = make_pool(65536);
    struct ec_aligned *aligned;
    struct ec_arena *arena;
    struct ec_heap *heap;

    ck_assert_int_eq(
        ec_heap_create_in(&rows->sink, &(struct ec_heap_desc) { .name = "heap" }, &heap, NULL),
        EC_OK);
    ck_assert_int_eq(ec_aligned_create_in(&rows->sink,
                                          &(struct ec_aligned_desc) { .name = "aligned" }, &aligned,
                                          NULL),
                     EC_OK);
    ck_assert_int_eq(ec_arena_create_in(&rows->sink,
                                        &(struct ec_arena_desc) { .name = "arena", .bytes = 1000 },
                                        &arena, NULL),
                     EC_OK);
    for (int i = 0; i < 5000; i++) /* more than a group */
        ck_assert_ptr_nonnull(ec_pool_alloc(small));
    ck_assert_ptr_nonnull(ec_pool_alloc(large));
    ck_assert_ptr_nonnull(ec_alloc(heap, 100, 0)); /* a block of 112 */
    ck_assert_ptr_nonnull(ec_alloc(heap, 100000, 0));
    ck_assert_ptr_nonnull(ec_aligned_alloc(aligned, 5000, 4096));
    assert_held(5005, 5000 * 16 + 65536 + 112 + 100000 + 5000 + 1000);
    ec_pool_destroy(small);
    assert_held(5, 65536 + 112 + 100000 + 5000 + 1000);
    ec_pool_destroy(large);
    ec_heap_destroy(heap);
    assert_held(2, 5000 + 1000);
    ec_aligned_destroy(aligned);
    ec_arena_destroy(arena);
    assert_held(0, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tracker");
    TCase *tcase = tcase_create("tracker");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_site_holds_a_block_from_its_allocation_to_its_free);
    tcase_add_test(tcase, what_is_said_of_a_place_is_said_of_one_allocation);
    tcase_add_test(tcase, a_stack_is_one_site_whatever_was_said_before_of_others);
    tcase_add_test(tcase, what_is_still_out_leaves_its_site_with_its_allocator);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
