/* The frame arena promises: a block is good for its frame and the next, then its memory is used again. */
#include "foundation/memory/frame_arena.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "foundation/memory/frame_list.h"
#include "support/memory_rows.h"
#include "support/often.h"
#include "support/segv.h"

static struct memory_rows *rows;

static void setup(void)
{
    rows = memory_rows_create();
}

static void teardown(void)
{
    memory_rows_destroy(rows);
}

static struct ec_frame_arena *make(struct ec_frame_arena_desc desc)
{
    struct ec_error why = { 0 };
    struct ec_frame_arena *frame;

    desc.name = "frame";
    desc.tag = EC_TAG_RENDERING;
    ck_assert_msg(ec_frame_arena_create_in(&rows->sink, &desc, &frame, &why) == EC_OK, "%s",
                  why.text);
    return frame;
}

static struct ec_memory_stats stats_of(const struct ec_frame_arena *frame)
{
    struct ec_memory_stats stats;

    ec_frame_arena_stats(frame, &stats);
    return stats;
}

static char *alloc_text(struct ec_frame_arena *frame, const char *text)
{
    char *copy = ec_frame_alloc(frame, strlen(text) + 1, 1);

    ck_assert_ptr_nonnull(copy);
    return strcpy(copy, text);
}

START_TEST(a_bad_description_is_refused_with_its_value_and_limit)
{
    struct ec_error why = { 0 };
    struct ec_frame_arena *frame;

    ck_assert_int_eq(ec_frame_arena_create_in(
                         &rows->sink, &(struct ec_frame_arena_desc) { .name = "f" }, &frame, &why),
                     EC_ERR_SIZE);
    ck_assert_str_eq(why.text, "frame_arena \"f\": bytes is 0, expected 64..1099511627776");
    ck_assert_int_eq(ec_frame_arena_create_in(&rows->sink,
                                              &(struct ec_frame_arena_desc) {
                                                  .name = "f", .bytes = 4096, .limit_bytes = 5000 },
                                              &frame, &why),
                     EC_ERR_MEMORY);
    ck_assert_ptr_null(frame);
    ck_assert_uint_eq(memory_rows_listed(rows), 0);
}
END_TEST

/* Guarded or not. */
START_TEST(a_block_is_good_for_two_frames)
{
    struct ec_frame_arena *frame =
        make((struct ec_frame_arena_desc) { .bytes = 4096, .guard_old_frames = _i == 1 });
    const char *first = alloc_text(frame, "first"), *second;

    ck_assert_int_eq(ec_frame_arena_check(frame, first), EC_OK);
    ck_assert_int_eq(ec_frame_arena_check(frame, first + 4000), EC_ERR_STALE);
    ck_assert_int_eq(ec_frame_arena_check(frame, &frame), EC_ERR_PARAM);
    ec_frame_arena_next(frame);
    second = alloc_text(frame, "second");
    ck_assert_str_eq(first, "first");
    ck_assert_int_eq(ec_frame_arena_check(frame, first), EC_OK);
    ck_assert_uint_eq(stats_of(frame).count, 2);
    ec_frame_arena_next(frame);
    ck_assert_int_eq(ec_frame_arena_check(frame, first), EC_ERR_STALE);
    ck_assert_str_eq(second, "second");
    ck_assert_uint_eq(stats_of(frame).count, 1);
    ck_assert_uint_eq(ec_frame_arena_number(frame), 2);
    ec_frame_arena_next(frame);
    ck_assert_uint_eq(stats_of(frame).current_bytes, 0);
    ck_assert_uint_eq(stats_of(frame).total, 2);
    ec_frame_arena_destroy(frame);
}
END_TEST

START_TEST(use_of_an_older_frame_ends_the_program_where_it_is_guarded)
{
    struct ec_frame_arena *frame =
        make((struct ec_frame_arena_desc) { .bytes = 4096, .guard_old_frames = true });
    volatile char *block = ec_frame_alloc(frame, 16, 0);

    ec_frame_arena_next(frame);
    block[0] = 1; /* still good */
    ec_frame_arena_next(frame);
    block[0] = 2;
}
END_TEST

START_TEST(frame_marks_move_all_frame_arenas_of_the_client)
{
    struct ec_frame_arena *one = make((struct ec_frame_arena_desc) { .bytes = 4096 });
    struct ec_frame_arena *two = make((struct ec_frame_arena_desc) { .bytes = 4096 });

    for (int i = 0; i < 3; i++)
        ec_frame_list_begin(&rows->sink);
    ck_assert_uint_eq(ec_frame_arena_number(one), 3);
    ec_frame_arena_destroy(one);
    ec_frame_list_begin(&rows->sink);
    ec_frame_list_end(&rows->sink);
    ck_assert_uint_eq(ec_frame_arena_number(two), 4);
    ec_frame_arena_destroy(two);
}
END_TEST

START_TEST(scopes_and_resets_touch_the_present_frame_alone)
{
    struct ec_frame_arena *frame = make((struct ec_frame_arena_desc) { .bytes = 4096 });
    struct ec_arena *base = ec_frame_arena_base(frame);
    struct ec_arena_marker marker;
    const char *before = alloc_text(frame, "before");

    ec_frame_arena_next(frame);
    alloc_text(frame, "kept");
    ck_assert_int_eq(ec_arena_mark(base, &marker), EC_OK);
    alloc_text(frame, "scope");
    ck_assert_int_eq(ec_arena_rewind(base, &marker), EC_OK);
    ck_assert_uint_eq(stats_of(frame).count, 2);
    ec_arena_reset(base);
    ck_assert_uint_eq(stats_of(frame).count, 1);
    ck_assert_uint_eq(stats_of(frame).current_bytes, 7);
    ck_assert_str_eq(before, "before");
    ck_assert_int_eq(ec_arena_mark(base, &marker), EC_OK);
    ec_frame_arena_next(frame);
    ck_assert_int_eq(ec_arena_rewind(base, &marker), EC_ERR_STALE);
    ec_frame_arena_destroy(frame);
}
END_TEST

static int warnings;

static void on_warning(void *context, const char *text)
{
    const char *expected = context;

    ck_assert_msg(strncmp(text, expected, strlen(expected)) == 0, "%s", text);
    ck_assert_ptr_nonnull(strstr(text, " came from the heap"));
    warnings++;
}

START_TEST(what_does_not_fit_comes_from_the_heap_with_one_warning_for_each_place)
{
    static char text[] = "frame_arena \"frame\" is full (8192 bytes): 5000 bytes for ";
    struct ec_frame_arena *frame = make((struct ec_frame_arena_desc) {
        .bytes = 4096, .heap_fallback = true, .on_warning = on_warning, .context = text });
    char *block = NULL;

    if (stats_of(frame).capacity_bytes != 8192) { /* the tier guards old frames */
        ec_frame_arena_destroy(frame);
        return;
    }
    for (int i = 0; i < 10; i++) {
        block = ec_frame_alloc(frame, 5000, 0); /* one place */
        ck_assert_ptr_nonnull(block);
        memset(block, i, 5000);
        if (i % 3 == 0)
            ec_frame_arena_next(frame);
    }
    ck_assert_int_eq(warnings, 1);
    block = ec_frame_alloc(frame, 5000, 0); /* another */
    ck_assert_ptr_nonnull(block);
    ck_assert_int_eq(warnings, 2);
    ck_assert_uint_eq(stats_of(frame).fallbacks, 11);
    ck_assert_uint_eq(memory_rows_allocator(rows, "frame").fallbacks, 11);
    ec_frame_arena_destroy(frame);
}
END_TEST

/* Random frames, against a list of what they hold. */
START_TEST(it_agrees_with_lists_of_two_frames)
{
    enum { BLOCKS = 300 };
    static struct {
        unsigned char *block;
        size_t bytes;
    } lists[2][BLOCKS];
    size_t counts[2] = { 0 };
    struct ec_frame_arena *frame = make((struct ec_frame_arena_desc) {
        .bytes = 4096, .growth_bytes = 4096, .guard_old_frames = _i == 1 });
    uint64_t capacity_bytes = 0;

    srand(21);
    for (int number = 0; number < 400; number++) {
        const int now = number & 1;

        ec_frame_arena_next(frame);
        counts[now] = 0;
        for (int i = rand() % BLOCKS; i > 0; i--) {
            const size_t bytes = (size_t)(rand() % 200) + 1, align = (size_t)1 << rand() % 8;
            unsigned char *block = ec_frame_alloc(frame, bytes, align);

            ASSERT_OFTEN(block != NULL && (uintptr_t)block % align == 0);
            memset(block, i & 0xFF, bytes);
            lists[now][counts[now]].block = block;
            lists[now][counts[now]++].bytes = bytes;
        }
        for (int f = 0; f < 2; f++)
            for (size_t i = 0; i < counts[f]; i++) {
                const unsigned char *block = lists[f][i].block;

                ASSERT_OFTEN(block[0] == ((counts[f] - i) & 0xFF));
                ASSERT_OFTEN(memcmp(block, block + 1, lists[f][i].bytes - 1) == 0);
                ASSERT_OFTEN(ec_frame_arena_check(frame, block) == EC_OK);
            }
        ASSERT_OFTEN(stats_of(frame).count == counts[0] + counts[1]);
        ASSERT_OFTEN(memory_rows_tag(rows, EC_TAG_RENDERING).count == counts[0] + counts[1]);
        if (number == 200)
            capacity_bytes = stats_of(frame).capacity_bytes;
    }
    ck_assert_uint_le(stats_of(frame).capacity_bytes,
                      2 * capacity_bytes); /* chunks are used again */
    ec_frame_arena_destroy(frame);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_RENDERING).bytes, 0);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_RENDERING).count, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("frame_arena");
    TCase *tcase = tcase_create("frame_arena");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_bad_description_is_refused_with_its_value_and_limit);
    tcase_add_loop_test(tcase, a_block_is_good_for_two_frames, 0, 2);
    tcase_add_segv_test(tcase, use_of_an_older_frame_ends_the_program_where_it_is_guarded);
    tcase_add_test(tcase, frame_marks_move_all_frame_arenas_of_the_client);
    tcase_add_test(tcase, scopes_and_resets_touch_the_present_frame_alone);
    tcase_add_test(tcase, what_does_not_fit_comes_from_the_heap_with_one_warning_for_each_place);
    tcase_add_loop_test(tcase, it_agrees_with_lists_of_two_frames, 0, 2);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
