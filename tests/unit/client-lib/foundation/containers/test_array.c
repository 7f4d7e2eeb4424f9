/* The array promises the order of a plain array, whatever allocator is behind it, and no change on failure. */
#include <engine-core/array.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "foundation/memory/arena.h"
#include "support/often.h"

#define MODEL 2000

struct item {
    int value, twice;
};

static struct item item_of(int value)
{
    return (struct item) { value, 2 * value };
}

START_TEST(it_agrees_with_a_plain_array)
{
    static int model[MODEL];
    const struct ec_allocator from = ec_system_allocator();
    struct ec_array array;
    size_t count = 0;

    srand(2);
    ec_array_init(&array, &from, sizeof(struct item));
    for (int round = 0; round < 30000; round++) {
        const size_t index = count != 0 ? (size_t)rand() % count : 0;
        const struct item item = item_of(round);
        const int what = rand() % 100;

        if (what < 40 && count < MODEL) {
            ASSERT_OFTEN(ec_array_add(&array, &item) != NULL);
            model[count++] = round;
        } else if (what < 60 && count < MODEL) {
            ASSERT_OFTEN(ec_array_insert(&array, index, &item) != NULL);
            memmove(model + index + 1, model + index, (count - index) * sizeof *model);
            model[index] = round;
            count++;
        } else if (what < 79 && count > 0) {
            ASSERT_OFTEN(ec_array_remove(&array, index) == EC_OK);
            count--;
            memmove(model + index, model + index + 1, (count - index) * sizeof *model);
        } else if (what < 98 && count > 0) {
            ASSERT_OFTEN(ec_array_remove_swap(&array, index) == EC_OK);
            model[index] = model[--count];
        } else if (what == 98) {
            ASSERT_OFTEN(ec_array_shrink(&array) == EC_OK && array.room == count);
        } else if (rand() % 20 == 0) {
            ec_array_clear(&array);
            count = 0;
        }
        ASSERT_OFTEN(array.count == count);
        if (round % 50 == 0)
            for (size_t i = 0; i < count; i++)
                ASSERT_OFTEN(EC_ARRAY_AT(&array, struct item, i)->value == model[i] &&
                             EC_ARRAY_AT(&array, struct item, i)->twice == 2 * model[i]);
    }
    ec_array_finish(&array);
    ck_assert_uint_eq(array.count, 0);
    ec_array_finish(&array);
}
END_TEST

START_TEST(an_item_of_the_array_itself_can_be_added)
{
    const struct ec_allocator from = ec_system_allocator();
    struct ec_array array;

    ec_array_init(&array, &from, sizeof(int));
    for (int i = 0; i < 8; i++)
        ck_assert_ptr_nonnull(ec_array_add(&array, &i));
    ck_assert_uint_eq(array.count, array.room); /* so that it moves */
    ck_assert_ptr_nonnull(ec_array_add(&array, EC_ARRAY_AT(&array, int, 3)));
    ck_assert_int_eq(*EC_ARRAY_AT(&array, int, 8), 3);
    ck_assert_ptr_nonnull(ec_array_insert(&array, 2, EC_ARRAY_AT(&array, int, 5)));
    ck_assert_int_eq(*EC_ARRAY_AT(&array, int, 2), 5);
    ck_assert_ptr_nonnull(ec_array_insert(&array, 4, EC_ARRAY_AT(&array, int, 1)));
    ck_assert_int_eq(*EC_ARRAY_AT(&array, int, 4), 1);
    ec_array_finish(&array);
}
END_TEST

START_TEST(without_memory_nothing_changes)
{
    struct ec_arena *arena;
    struct ec_allocator from;
    struct ec_array array;

    ck_assert_int_eq(ec_arena_create_in(NULL, &(struct ec_arena_desc) { .name = "a", .bytes = 100 },
                                        &arena, NULL),
                     EC_OK);
    from = ec_arena_allocator(arena);
    ec_array_init(&array, &from, sizeof(int));
    for (int i = 0; i < 16; i++)
        ck_assert_ptr_nonnull(ec_array_add(&array, &i));
    ck_assert_ptr_null(ec_array_add(&array, NULL));
    ck_assert_int_eq(ec_array_reserve(&array, 1000), EC_ERR_MEMORY);
    ck_assert_int_eq(ec_array_reserve(&array, SIZE_MAX), EC_ERR_SIZE);
    ck_assert_int_eq(ec_array_remove(&array, 16), EC_ERR_PARAM);
    ck_assert_int_eq(ec_array_remove_swap(&array, 16), EC_ERR_PARAM);
    ck_assert_ptr_null(ec_array_insert(&array, 17, NULL));
    ck_assert_uint_eq(array.count, 16);
    for (int i = 0; i < 16; i++)
        ck_assert_int_eq(*EC_ARRAY_AT(&array, int, i), i);
    ec_array_finish(&array);
    ec_arena_destroy(arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("array");
    TCase *tcase = tcase_create("array");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, it_agrees_with_a_plain_array);
    tcase_add_test(tcase, an_item_of_the_array_itself_can_be_added);
    tcase_add_test(tcase, without_memory_nothing_changes);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
