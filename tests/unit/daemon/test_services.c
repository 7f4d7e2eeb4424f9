/* The registry: memory that nobody can write once it is locked. */
#include "daemon/services.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>

START_TEST(an_open_registry_is_filled_and_read)
{
    struct services *services = services_create();

    ck_assert_ptr_nonnull(services);
    ck_assert_ptr_null(services->loop);
    services->instance = 7;
    services_lock(services);
    ck_assert_uint_eq(services->instance, 7);
    services_unlock(services);
    services->instance = 8;
    services_destroy(services);
    services_destroy(NULL);
}
END_TEST

START_TEST(a_write_to_a_locked_registry_ends_the_program)
{
    struct services *services = services_create();

    signal(SIGSEGV, SIG_DFL); /* a sanitizer would report and exit */
    ck_assert_ptr_nonnull(services);
    services_lock(services);
    *(volatile uint64_t *)&services->instance = 7;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("services");
    TCase *tests = tcase_create("services");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tests, an_open_registry_is_filled_and_read);
    tcase_add_test_raise_signal(tests, a_write_to_a_locked_registry_ends_the_program, SIGSEGV);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
