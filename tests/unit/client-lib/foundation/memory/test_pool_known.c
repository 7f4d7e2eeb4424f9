/* Only what was added is known, anywhere in the address space. */
#include "foundation/memory/pool_known.h"

#include <check.h>
#include <stdint.h>

static const uintptr_t groups[] = {
    0x10000, 0x7fff00000000, 0xfffffffe0000, 0x7f0000000000, 0x7f0000010000, 0x7f00ffff0000,
};

START_TEST(an_address_is_known_from_add_to_remove)
{
    struct ec_pool_known *known = ec_pool_known_create();
    const void *group = (const void *)groups[_i];

    ck_assert_ptr_nonnull(known);
    ck_assert(!ec_pool_known_number(known, group));
    ck_assert(ec_pool_known_add(known, group, 65536, 7));
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        ck_assert_uint_eq(ec_pool_known_number(known, (const void *)(groups[i] + 12345)),
                          i == (size_t)_i ? 7 : 0);
    ec_pool_known_remove(known, group, 65536);
    ck_assert(!ec_pool_known_number(known, group));
    ec_pool_known_destroy(known);
}
END_TEST

START_TEST(addresses_over_48_bits_are_never_known)
{
    struct ec_pool_known *known = ec_pool_known_create();
    const void *beyond = (const void *)((uintptr_t)1 << 48);

    ck_assert_ptr_nonnull(known);
    ck_assert(!ec_pool_known_number(known, beyond));
    ck_assert(!ec_pool_known_add(known, beyond, 65536, 1));
    ec_pool_known_remove(known, beyond, 65536);
    ec_pool_known_destroy(known);
}
END_TEST

START_TEST(a_large_group_is_known_in_all_its_parts)
{
    struct ec_pool_known *known = ec_pool_known_create();
    const void *group = (const void *)(uintptr_t)0x7f00fffe0000; /* over the end of a leaf */

    ck_assert_ptr_nonnull(known);
    ck_assert(ec_pool_known_add(known, group, 262144, 255));
    for (size_t offset = 0; offset < 262144; offset += 65536 / 2)
        ck_assert_uint_eq(ec_pool_known_number(known, (const char *)group + offset), 255);
    ck_assert_uint_eq(ec_pool_known_number(known, (const char *)group - 1), 0);
    ck_assert_uint_eq(ec_pool_known_number(known, (const char *)group + 262144), 0);
    ec_pool_known_remove(known, group, 262144);
    for (size_t offset = 0; offset < 262144; offset += 65536)
        ck_assert_uint_eq(ec_pool_known_number(known, (const char *)group + offset), 0);
    ec_pool_known_destroy(known);
}
END_TEST

START_TEST(no_table_remembers_nothing)
{
    ck_assert(ec_pool_known_add(NULL, &groups, 65536, 1));
    ec_pool_known_remove(NULL, &groups, 65536);
    ec_pool_known_destroy(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool_known");
    TCase *tcase = tcase_create("pool_known");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, an_address_is_known_from_add_to_remove, 0,
                        sizeof groups / sizeof groups[0]);
    tcase_add_test(tcase, addresses_over_48_bits_are_never_known);
    tcase_add_test(tcase, a_large_group_is_known_in_all_its_parts);
    tcase_add_test(tcase, no_table_remembers_nothing);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
