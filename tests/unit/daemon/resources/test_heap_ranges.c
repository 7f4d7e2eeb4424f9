/* The allocator of the heap against a model that knows for each page whether it is taken. */
#include "resources/heap_ranges.h"

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define PAGE HEAP_PAGE_BYTES
#define MIB (1u << 20)

static struct heap_ranges ranges;

static void begin(uint64_t pages, uint32_t taken_max)
{
    struct ec_error why = { 0 };

    ck_assert_int_eq(heap_ranges_init(&ranges, PAGE, pages * PAGE, taken_max, &why), EC_OK);
}

static void tear_down(void)
{
    heap_ranges_finish(&ranges);
}

static uint64_t take(uint64_t bytes)
{
    uint64_t offset = 0;

    ck_assert_int_eq(heap_ranges_take(&ranges, bytes, &offset), EC_OK);
    ck_assert_uint_eq(offset % PAGE, 0);
    return offset;
}

START_TEST(ranges_are_whole_pages_and_never_empty)
{
    begin(8, 8);
    ck_assert_uint_eq(heap_ranges_round(0), PAGE);
    ck_assert_uint_eq(heap_ranges_round(1), PAGE);
    ck_assert_uint_eq(heap_ranges_round(PAGE), PAGE);
    ck_assert_uint_eq(heap_ranges_round(PAGE + 1), 2 * PAGE);
    ck_assert_uint_ge(heap_ranges_round(UINT64_MAX), UINT64_MAX - PAGE);
    ck_assert_uint_eq(take(0), PAGE);
    ck_assert_uint_eq(take(1), 2 * PAGE);
}
END_TEST

START_TEST(what_does_not_fit_takes_nothing)
{
    uint64_t offset = 99;

    begin(8, 8);
    ck_assert_int_eq(heap_ranges_take(&ranges, 9 * PAGE, &offset), EC_ERR_MEMORY);
    ck_assert_int_eq(heap_ranges_take(&ranges, UINT64_MAX, &offset), EC_ERR_MEMORY);
    ck_assert_uint_eq(ranges.free_bytes, 8 * PAGE);
    ck_assert_uint_eq(take(8 * PAGE), PAGE);
    ck_assert_int_eq(heap_ranges_take(&ranges, 1, &offset), EC_ERR_MEMORY);
}
END_TEST

START_TEST(large_ranges_are_aligned_for_huge_pages)
{
    uint64_t small, large;

    begin(4096, 8);
    small = take(1);
    large = take(2 * MIB + 1);
    ck_assert_uint_eq(large % HEAP_HUGE_BYTES, 0);
    ck_assert_uint_eq(take(1), small + PAGE); /* the gap before it is still there */
}
END_TEST

START_TEST(what_was_freed_first_is_used_first)
{
    uint64_t first, second, third;

    begin(3, 8);
    first = take(PAGE);
    second = take(PAGE);
    third = take(PAGE);
    heap_ranges_give(&ranges, second, PAGE);
    heap_ranges_give(&ranges, third, PAGE);
    heap_ranges_give(&ranges, first, PAGE);
    ck_assert_uint_eq(take(PAGE), second);
    ck_assert_uint_eq(take(PAGE), third);
    ck_assert_uint_eq(take(PAGE), first);
}
END_TEST

START_TEST(space_never_used_comes_before_freed_space)
{
    uint64_t first;

    begin(4, 8);
    first = take(PAGE);
    heap_ranges_give(&ranges, first, PAGE);
    ck_assert_uint_ne(take(PAGE), first);
}
END_TEST

START_TEST(neighbours_join_when_nothing_else_fits)
{
    begin(4, 8);
    for (unsigned i = 0; i < 4; i++)
        take(PAGE);
    heap_ranges_give(&ranges, 2 * PAGE, PAGE);
    heap_ranges_give(&ranges, 4 * PAGE, PAGE);
    heap_ranges_give(&ranges, 3 * PAGE, PAGE);
    ck_assert_uint_eq(take(3 * PAGE), 2 * PAGE);
}
END_TEST

START_TEST(a_size_that_is_not_whole_pages_is_refused)
{
    struct ec_error why = { 0 };

    ck_assert_int_eq(heap_ranges_init(&ranges, 1, PAGE, 8, &why), EC_ERR_PARAM);
    ck_assert_int_eq(heap_ranges_init(&ranges, 0, PAGE + 1, 8, &why), EC_ERR_PARAM);
}
END_TEST

#define MODEL_PAGES 3000
#define MODEL_TAKEN 64

struct taken {
    uint64_t offset, bytes;
};

/* Mark the pages of a range; each must have been the opposite. */
static void model_set(bool *model, struct taken range, bool to)
{
    uint64_t pages = heap_ranges_round(range.bytes) / PAGE, first = range.offset / PAGE;

    ck_assert_uint_ge(first, 1); /* the heap begins at page 1 */
    ck_assert_uint_le(first + pages, MODEL_PAGES + 1);
    for (uint64_t i = first; i < first + pages; i++) {
        ck_assert(model[i] != to);
        model[i] = to;
    }
}

static bool model_has_room(const bool *model, uint64_t pages, bool aligned)
{
    for (uint64_t start = 1; start + pages <= MODEL_PAGES + 1; start++) {
        uint64_t i = 0;

        if (aligned && start * PAGE % HEAP_HUGE_BYTES != 0)
            continue;
        while (i < pages && !model[start + i])
            i++;
        if (i == pages)
            return true;
    }
    return false;
}

/* What is free around a range that is free, up to the ends of its huge pages. */
static void model_check_wide(const bool *model, struct taken range)
{
    const uint64_t huge_pages = HEAP_HUGE_BYTES / PAGE;
    uint64_t begin = range.offset, end = range.offset + heap_ranges_round(range.bytes);
    uint64_t first = begin / PAGE, last = end / PAGE;

    while (first % huge_pages != 0 && first > 1 && !model[first - 1])
        first--;
    while (last % huge_pages != 0 && last <= MODEL_PAGES && !model[last])
        last++;
    heap_ranges_widen(&ranges, &begin, &end);
    ck_assert_uint_eq(begin, first * PAGE);
    ck_assert_uint_eq(end, last * PAGE);
}

START_TEST(random_use_agrees_with_a_map_of_pages)
{
    static bool model[MODEL_PAGES + 1];
    struct taken taken[MODEL_TAKEN];
    unsigned count = 0;

    memset(model, 0, sizeof model);
    srandom((unsigned)_i + 1);
    begin(MODEL_PAGES, MODEL_TAKEN);
    for (unsigned step = 0; step < 4000; step++) {
        if (count < MODEL_TAKEN && random() % 2 == 0) {
            uint64_t bytes = (uint64_t)random() % (random() % 8 == 0 ? 5 * MIB : 40 * PAGE);
            struct taken made = { 0, bytes };
            int rc = heap_ranges_take(&ranges, bytes, &made.offset);
            uint64_t rounded = heap_ranges_round(bytes);

            ck_assert_int_eq(rc == EC_OK,
                             model_has_room(model, rounded / PAGE, rounded >= HEAP_HUGE_BYTES));
            if (rc == EC_OK) {
                model_set(model, made, true);
                taken[count++] = made;
            }
        } else if (count > 0) {
            unsigned which = (unsigned)random() % count;

            model_set(model, taken[which], false);
            heap_ranges_give(&ranges, taken[which].offset, taken[which].bytes);
            model_check_wide(model, taken[which]);
            taken[which] = taken[--count];
        }
    }
    while (count > 0) {
        count--;
        heap_ranges_give(&ranges, taken[count].offset, taken[count].bytes);
    }
    ck_assert_uint_eq(ranges.free_bytes, (uint64_t)MODEL_PAGES * PAGE);
    ck_assert_uint_eq(take((uint64_t)MODEL_PAGES * PAGE - 2 * MIB), HEAP_HUGE_BYTES);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("heap ranges");
    TCase *tcase = tcase_create("heap ranges");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, NULL, tear_down);
    tcase_add_test(tcase, ranges_are_whole_pages_and_never_empty);
    tcase_add_test(tcase, what_does_not_fit_takes_nothing);
    tcase_add_test(tcase, large_ranges_are_aligned_for_huge_pages);
    tcase_add_test(tcase, what_was_freed_first_is_used_first);
    tcase_add_test(tcase, space_never_used_comes_before_freed_space);
    tcase_add_test(tcase, neighbours_join_when_nothing_else_fits);
    tcase_add_test(tcase, a_size_that_is_not_whole_pages_is_refused);
    tcase_add_loop_test(tcase, random_use_agrees_with_a_map_of_pages, 0, 4);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
