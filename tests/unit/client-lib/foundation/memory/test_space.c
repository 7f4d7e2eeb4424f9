/* A space promises: what it hands out is aligned, disjoint and inside, and what comes back is used again. */
#include "foundation/memory/space.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "support/segv.h"

#define UNITS 160
#define LIVE 40

START_TEST(pages_of_the_system_are_aligned_and_zero)
{
    const size_t align = (size_t)4096 << _i;
    const size_t sizes[] = { 1, 4096, 5000, 3 * align };

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *base = ec_space_map(NULL, sizes[i], align);

        ck_assert_ptr_nonnull(base);
        ck_assert_uint_eq((uintptr_t)base % align, 0);
        ck_assert_int_eq(base[0] | base[sizes[i] - 1], 0);
        memset(base, 1, sizes[i]);
        ec_space_unmap(NULL, base, sizes[i]);
    }
}
END_TEST

START_TEST(absurd_sizes_are_refused)
{
    ck_assert_ptr_null(ec_space_map(NULL, SIZE_MAX - 100, 4096));
    ck_assert_ptr_null(ec_space_map(NULL, SIZE_MAX / 2, 4096));
}
END_TEST

START_TEST(a_byte_behind_guarded_pages_ends_the_program)
{
    char *base = ec_space_map_guarded(65536, 65536);

    ck_assert_ptr_nonnull(base);
    base[65535] = 1;
    ((volatile char *)base)[65536] = 1;
}
END_TEST

START_TEST(a_range_below_one_unit_is_refused)
{
    static char range[EC_SPACE_UNIT_BYTES - 1];
    struct ec_space space;
    struct ec_error why = { 0 };

    ck_assert_int_eq(ec_space_init(&space, range, sizeof range, &why), EC_ERR_SIZE);
    ck_assert_str_eq(why.text, "space has 65535 bytes, expected at least 65536");
    ec_space_finish(&space);
}
END_TEST

/* Against a map of who has which unit. */
START_TEST(units_of_a_range_belong_to_one_at_a_time)
{
    static unsigned char owner[UNITS + 1];
    struct part {
        char *base;
        size_t bytes;
    } parts[LIVE] = { 0 };
    char *range = aligned_alloc(4096, (size_t)(UNITS + 1) * EC_SPACE_UNIT_BYTES);
    struct ec_space space;
    unsigned refused = 0;

    ck_assert_ptr_nonnull(range);
    srand(7);
    ck_assert_int_eq(ec_space_init(&space, range + 4096, (size_t)UNITS * EC_SPACE_UNIT_BYTES, NULL),
                     EC_OK);
    for (int round = 0; round < 20000; round++) {
        struct part *part = &parts[rand() % LIVE];
        const size_t align = (size_t)4096 << rand() % 8;
        size_t units;

        if (part->base != NULL) {
            units = (part->bytes + EC_SPACE_UNIT_BYTES - 1) / EC_SPACE_UNIT_BYTES;
            memset(owner + (part->base - space.base) / EC_SPACE_UNIT_BYTES, 0, units);
            ec_space_unmap(&space, part->base, part->bytes);
            part->base = NULL;
            continue;
        }
        part->bytes = (size_t)(rand() % (12 * (int)EC_SPACE_UNIT_BYTES)) + 1;
        part->base = ec_space_map(&space, part->bytes, align);
        if (part->base == NULL) {
            refused++;
            continue;
        }
        units = (part->bytes + EC_SPACE_UNIT_BYTES - 1) / EC_SPACE_UNIT_BYTES;
        if ((uintptr_t)part->base % align != 0 || part->base < range + 4096 ||
            part->base + part->bytes > range + 4096 + (size_t)UNITS * EC_SPACE_UNIT_BYTES)
            ck_abort_msg("%p is not aligned to %zu, or outside", (void *)part->base, align);
        for (size_t i = 0; i < units; i++) {
            unsigned char *unit = &owner[(part->base - space.base) / EC_SPACE_UNIT_BYTES + (long)i];

            if (*unit != 0)
                ck_abort_msg("a unit was handed out twice in round %d", round);
            *unit = 1;
        }
    }
    ck_assert_uint_gt(refused, 0);
    for (int i = 0; i < LIVE; i++)
        if (parts[i].base != NULL)
            ec_space_unmap(&space, parts[i].base, parts[i].bytes);
    ck_assert_ptr_nonnull(ec_space_map(&space, (size_t)(UNITS - 1) * EC_SPACE_UNIT_BYTES, 4096));
    ck_assert_ptr_null(ec_space_map(&space, 2 * EC_SPACE_UNIT_BYTES, 4096));
    ec_space_finish(&space);
    free(range);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("space");
    TCase *tcase = tcase_create("space");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, pages_of_the_system_are_aligned_and_zero, 0, 10);
    tcase_add_test(tcase, absurd_sizes_are_refused);
    tcase_add_segv_test(tcase, a_byte_behind_guarded_pages_ends_the_program);
    tcase_add_test(tcase, a_range_below_one_unit_is_refused);
    tcase_add_test(tcase, units_of_a_range_belong_to_one_at_a_time);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
