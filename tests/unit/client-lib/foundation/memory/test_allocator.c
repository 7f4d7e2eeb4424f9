/* Behind the struct every allocator keeps the same promises, within its sizes and alignments. */
#include <engine-core/allocator.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "foundation/memory/aligned.h"
#include "foundation/memory/arena.h"
#include "foundation/memory/frame_arena.h"
#include "foundation/memory/heap.h"
#include "foundation/memory/pool.h"
#include "foundation/memory/slab.h"
#include "foundation/memory/stack.h"
#include "support/often.h"

enum { SYSTEM, HEAP, SLAB, POOL, ALIGNED, STACK, ARENA, FRAME, KINDS };

#define POOL_BYTES 512
#define ROOM ((size_t)64 << 20)

static struct {
    struct ec_heap *heap;
    struct ec_slab *slab;
    struct ec_pool *pool;
    struct ec_aligned *aligned;
    struct ec_stack *stack;
    struct ec_arena *arena;
    struct ec_frame_arena *frame;
} all;

static const struct {
    size_t bytes_max, align_max;
    bool newest_only;
} limits[KINDS] = {
    [SYSTEM] = { 100000, 4096, false },  [HEAP] = { 100000, 4096, false },
    [SLAB] = { 2048, 16, false },        [POOL] = { POOL_BYTES, 64, false },
    [ALIGNED] = { 100000, 4096, false }, [STACK] = { 10000, 4096, true },
    [ARENA] = { 10000, 4096, true },     [FRAME] = { 10000, 4096, true },
};

static void setup(void)
{
    const int rc =
        ec_heap_create_in(NULL, &(struct ec_heap_desc) { .name = "a" }, &all.heap, NULL) |
        ec_slab_create_in(NULL, &(struct ec_slab_desc) { .name = "a" }, &all.slab, NULL) |
        ec_pool_create_in(
            NULL, &(struct ec_pool_desc) { .name = "a", .block_bytes = POOL_BYTES, .align = 64 },
            &all.pool, NULL) |
        ec_aligned_create_in(NULL, &(struct ec_aligned_desc) { .name = "a" }, &all.aligned, NULL) |
        ec_stack_create_in(NULL, &(struct ec_stack_desc) { .name = "a", .bytes = ROOM }, &all.stack,
                           NULL) |
        ec_arena_create_in(NULL, &(struct ec_arena_desc) { .name = "a", .bytes = ROOM }, &all.arena,
                           NULL) |
        ec_frame_arena_create_in(NULL, &(struct ec_frame_arena_desc) { .name = "a", .bytes = ROOM },
                                 &all.frame, NULL);

    ck_assert_int_eq(rc, EC_OK);
}

static void teardown(void)
{
    ec_heap_destroy(all.heap);
    ec_slab_destroy(all.slab);
    ec_pool_destroy(all.pool);
    ec_aligned_destroy(all.aligned);
    ec_stack_destroy(all.stack);
    ec_arena_destroy(all.arena);
    ec_frame_arena_destroy(all.frame);
}

static struct ec_allocator allocator_of(int kind)
{
    switch (kind) {
    case HEAP:
        return ec_heap_allocator(all.heap, EC_TAG_UI);
    case SLAB:
        return ec_slab_allocator(all.slab);
    case POOL:
        return ec_pool_allocator(all.pool);
    case ALIGNED:
        return ec_aligned_allocator(all.aligned);
    case STACK:
        return ec_stack_allocator(all.stack);
    case ARENA:
        return ec_arena_allocator(all.arena);
    case FRAME:
        return ec_frame_allocator(all.frame);
    default:
        return ec_system_allocator();
    }
}

START_TEST(what_is_no_request_gives_nothing)
{
    const struct ec_allocator from = allocator_of(_i);

    ck_assert_ptr_null(ec_allocator_alloc(&from, 0, 0));
    ck_assert_ptr_null(ec_allocator_alloc(&from, 16, 24));
    ck_assert_ptr_null(ec_allocator_alloc(&from, 16, (size_t)4 << 20));
    ck_assert_int_eq(ec_allocator_free(&from, NULL, 16), EC_OK);
    if (limits[_i].bytes_max <= 2048)
        ck_assert_ptr_null(ec_allocator_alloc(&from, limits[_i].bytes_max + 1, 0));
}
END_TEST

/* Random sizes, resizes and frees, against a list with the bytes. */
START_TEST(blocks_keep_their_bytes_when_they_are_resized)
{
    enum { LIVE = 40 };
    struct {
        unsigned char *block;
        size_t bytes, align;
    } list[LIVE] = { 0 };
    const struct ec_allocator from = allocator_of(_i);

    srand(4);
    for (int round = 0; round < 4000; round++) {
        const int i = rand() % LIVE;
        const size_t bytes = (size_t)rand() % limits[_i].bytes_max + 1;
        size_t align = (size_t)1 << rand() % 13;
        unsigned char *block = list[i].block;

        while (align > limits[_i].align_max)
            align /= 2;
        if (block == NULL) {
            block = ec_allocator_alloc(&from, bytes, align);
            ASSERT_OFTEN(block != NULL);
            list[i].align = align;
        } else if (rand() % 2 == 0 && _i != STACK) {
            const size_t kept = bytes < list[i].bytes ? bytes : list[i].bytes;

            block = ec_allocator_resize(&from, block, list[i].bytes, bytes, list[i].align);
            ASSERT_OFTEN(block != NULL);
            for (size_t b = 0; b < kept; b++)
                ASSERT_OFTEN(block[b] == (unsigned char)i);
        } else {
            const int rc = ec_allocator_free(&from, block, list[i].bytes);

            ASSERT_OFTEN(limits[_i].newest_only || rc == EC_OK);
            list[i].block = NULL;
            continue;
        }
        ASSERT_OFTEN((uintptr_t)block % list[i].align == 0);
        memset(block, i, bytes);
        list[i].block = block;
        list[i].bytes = bytes;
    }
    for (int i = 0; i < LIVE; i++)
        ec_allocator_free(&from, list[i].block, list[i].bytes);
}
END_TEST

START_TEST(the_newest_block_of_an_arena_grows_where_it_is)
{
    const struct ec_allocator from = allocator_of(ARENA);
    struct ec_arena_marker marker;
    struct ec_memory_stats stats;
    char *block = ec_allocator_alloc(&from, 100, 16), *second;

    ck_assert_ptr_eq(ec_allocator_resize(&from, block, 100, 1000000, 16), block);
    ck_assert_ptr_eq(ec_allocator_resize(&from, block, 1000000, 50, 16), block);
    ec_arena_stats(all.arena, &stats);
    ck_assert_uint_eq(stats.current_bytes, 50);
    second = ec_allocator_alloc(&from, 100, 16);
    ck_assert_ptr_ne(ec_allocator_resize(&from, block, 50, 200, 16), block);
    ck_assert_ptr_nonnull(second);

    /* what an open marker has to find again stays */
    block = ec_allocator_alloc(&from, 64, 16);
    ck_assert_int_eq(ec_arena_mark(all.arena, &marker), EC_OK);
    ck_assert_int_eq(ec_allocator_free(&from, block, 64), EC_OK);
    ck_assert_int_eq(ec_arena_rewind(all.arena, &marker), EC_OK);
    ck_assert_int_eq(ec_allocator_free(&from, block, 64), EC_OK); /* the marker is gone */
    ck_assert_ptr_eq(ec_allocator_alloc(&from, 64, 16), block);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("allocator");
    TCase *tcase = tcase_create("allocator");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, what_is_no_request_gives_nothing, 0, KINDS);
    tcase_add_loop_test(tcase, blocks_keep_their_bytes_when_they_are_resized, 0, KINDS);
    tcase_add_test(tcase, the_newest_block_of_an_arena_grows_where_it_is);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
