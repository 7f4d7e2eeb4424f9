/* The stack promises: only the newest block goes, markers nest, and its numbers are right after each call. */
#include "foundation/memory/stack.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "support/memory_rows.h"
#include "support/often.h"

static struct memory_rows *rows;

static void setup(void)
{
    rows = memory_rows_create();
}

static void teardown(void)
{
    memory_rows_destroy(rows);
}

static struct ec_stack *make(size_t bytes)
{
    const struct ec_stack_desc desc = { .name = "stack", .tag = EC_TAG_AI, .bytes = bytes };
    struct ec_error why = { 0 };
    struct ec_stack *stack;

    ck_assert_msg(ec_stack_create_in(&rows->sink, &desc, &stack, &why) == EC_OK, "%s", why.text);
    return stack;
}

static struct ec_memory_stats stats_of(const struct ec_stack *stack)
{
    struct ec_memory_stats stats;

    ec_stack_stats(stack, &stats);
    return stats;
}

START_TEST(a_bad_description_is_refused_with_its_value_and_limit)
{
    struct ec_error why = { 0 };
    struct ec_stack *stack;

    ck_assert_int_eq(
        ec_stack_create_in(NULL, &(struct ec_stack_desc) { .name = "s" }, &stack, &why),
        EC_ERR_SIZE);
    ck_assert_str_eq(why.text, "stack \"s\": bytes is 0, expected 64..1099511627776");
    ck_assert_int_eq(
        ec_stack_create_in(&rows->sink,
                           &(struct ec_stack_desc) { .name = "s", .bytes = 64, .in_segment = true },
                           &stack, &why),
        EC_ERR_STATE);
    ck_assert_str_eq(why.text,
                     "stack \"s\": in_segment, but the client was made without segment_bytes");
    ck_assert_ptr_null(stack);
    ck_assert_uint_eq(memory_rows_listed(rows), 0);
}
END_TEST

START_TEST(only_the_newest_block_can_be_freed)
{
    struct ec_stack *stack = make(4096);
    void *first = ec_stack_alloc(stack, 100, 0), *second = ec_stack_alloc(stack, 100, 0);

    ck_assert_int_eq(ec_stack_free(stack, first), EC_ERR_STATE);
    ck_assert_int_eq(ec_stack_free(stack, (char *)second + 16), EC_ERR_STATE);
    ck_assert_uint_eq(stats_of(stack).count, 2);
    ck_assert_uint_eq(stats_of(stack).failed, 2);
    ck_assert_int_eq(ec_stack_free(stack, second), EC_OK);
    ck_assert_int_eq(ec_stack_free(stack, second), EC_ERR_STATE);
    ck_assert_int_eq(ec_stack_free(stack, first), EC_OK);
    ck_assert_int_eq(ec_stack_free(stack, first), EC_ERR_STATE);
    ck_assert_int_eq(ec_stack_free(stack, NULL), EC_OK);
    ck_assert_uint_eq(stats_of(stack).current_bytes, 0);
    ck_assert_uint_eq(stats_of(stack).total, 2);
    ec_stack_destroy(stack);
}
END_TEST

START_TEST(a_marker_whose_block_is_gone_is_stale)
{
    struct ec_stack *stack = make(4096);
    const struct ec_stack_marker empty = ec_stack_mark(stack);
    struct ec_stack_marker one, two;
    void *block;

    ck_assert_ptr_nonnull(ec_stack_alloc(stack, 16, 0));
    one = ec_stack_mark(stack);
    block = ec_stack_alloc(stack, 16, 0);
    two = ec_stack_mark(stack);
    ck_assert_ptr_nonnull(ec_stack_alloc(stack, 16, 0));
    ck_assert_int_eq(ec_stack_rewind(stack, &two), EC_OK);
    ck_assert_uint_eq(stats_of(stack).count, 2);
    ck_assert_int_eq(ec_stack_rewind(stack, &two), EC_OK); /* it stays good */
    ck_assert_int_eq(ec_stack_rewind(stack, &one), EC_OK);
    ck_assert_int_eq(ec_stack_rewind(stack, &two), EC_ERR_STALE);
    ck_assert_ptr_eq(ec_stack_alloc(stack, 16, 0), block); /* another life at the same place */
    ck_assert_int_eq(ec_stack_rewind(stack, &two), EC_ERR_STALE);
    ck_assert_uint_eq(stats_of(stack).count, 2);
    ck_assert_int_eq(ec_stack_rewind(stack, &empty), EC_OK);
    ck_assert_uint_eq(stats_of(stack).current_bytes, 0);
    ec_stack_destroy(stack);
}
END_TEST

START_TEST(absurd_requests_are_refused_and_counted)
{
    struct ec_stack *stack = make(4096);
    volatile size_t huge = SIZE_MAX;

    ck_assert_ptr_null(ec_stack_alloc(stack, huge + 1, 0));
    ck_assert_ptr_null(ec_stack_alloc(stack, huge, 0));
    ck_assert_ptr_null(ec_stack_alloc(stack, 16, 24));
    ck_assert_ptr_null(ec_stack_alloc(stack, 16, (size_t)4 << 20));
    ck_assert_ptr_null(ec_stack_alloc(stack, 5000, 0));
    ck_assert_uint_eq(stats_of(stack).failed, 5);
    ck_assert_uint_eq(stats_of(stack).count, 0);
    ec_stack_destroy(stack);
}
END_TEST

/* Random calls, against a list of what must be there with which bytes. */
START_TEST(it_agrees_with_a_list)
{
    enum { DEPTH = 400 };
    struct {
        unsigned char *block;
        size_t bytes;
    } list[DEPTH];
    struct ec_stack_marker marker = { 0 };
    struct ec_stack *stack = make(20000);
    size_t depth = 0, marked = 0;

    srand(11);
    for (int round = 0; round < 100000; round++) {
        const size_t bytes = (size_t)(rand() % 700) + 1, align = (size_t)1 << rand() % 9;
        const int what = rand() % 100;

        if (what < 52 && depth < DEPTH) {
            unsigned char *block = ec_stack_alloc(stack, bytes, align);

            if (block == NULL)
                continue;
            ASSERT_OFTEN((uintptr_t)block % align == 0);
            memset(block, (int)depth & 0xFF, bytes);
            list[depth].block = block;
            list[depth++].bytes = bytes;
        } else if (what < 97 && depth > 0) {
            depth--;
            for (size_t i = 0; i < list[depth].bytes; i++)
                ASSERT_OFTEN(list[depth].block[i] == (depth & 0xFF));
            ASSERT_OFTEN(ec_stack_free(stack, list[depth].block) == EC_OK);
            if (depth < marked)
                marked = 0, marker = (struct ec_stack_marker) { 0 };
        } else if (what == 98) {
            marker = ec_stack_mark(stack);
            marked = depth;
        } else if (what == 99) {
            ASSERT_OFTEN(ec_stack_rewind(stack, &marker) == EC_OK);
            depth = marked;
        }
        ASSERT_OFTEN(stats_of(stack).count == depth);
    }
    ck_assert_uint_gt(stats_of(stack).failed, 0); /* it was full now and then */
    ck_assert_uint_eq(memory_rows_allocator(rows, "stack").count, depth);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_AI).count, depth);
    ec_stack_destroy(stack);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_AI).bytes, 0);
    ck_assert_uint_eq(memory_rows_tag(rows, EC_TAG_AI).count, 0);
    ck_assert_uint_eq(memory_rows_listed(rows), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stack");
    TCase *tcase = tcase_create("stack");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_bad_description_is_refused_with_its_value_and_limit);
    tcase_add_test(tcase, only_the_newest_block_can_be_freed);
    tcase_add_test(tcase, a_marker_whose_block_is_gone_is_stale);
    tcase_add_test(tcase, absurd_requests_are_refused_and_counted);
    tcase_add_test(tcase, it_agrees_with_a_list);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
