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
    ck_assert(!ec_pool_known_has(known, group));
    ck_assert(ec_pool_known_add(known, group));
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        ck_assert(ec_pool_known_has(known, (const void *)groups[i]) == (i == (size_t)_i));
    ec_pool_known_remove(known, group);
    ck_assert(!ec_pool_known_has(known, group));
    ec_pool_known_destroy(known);
}
END_TEST

START_TEST(addresses_over_48_bits_are_never_known)
{
    struct ec_pool_known *known = ec_pool_known_create();
    const void *beyond = (const void *)((uintptr_t)1 << 48);

    ck_assert_ptr_nonnull(known);
    ck_assert(!ec_pool_known_has(known, beyond));
    ck_assert(!ec_pool_known_add(known, beyond));
    ec_pool_known_remove(known, beyond);
    ec_pool_known_destroy(known);
}
END_TEST

START_TEST(no_table_knows_everything)
{
    ck_assert(ec_pool_known_add(NULL, &groups));
    ck_assert(ec_pool_known_has(NULL, &groups));
    ec_pool_known_remove(NULL, &groups);
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
    tcase_add_test(tcase, no_table_knows_everything);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
