/* test_futex.c - sleeping on a word. */
#include <check.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "foundation/futex.h"
#include "foundation/real_time.h"

START_TEST(a_word_that_differs_does_not_sleep)
{
    _Atomic uint32_t word = 1;

    ck_assert_int_eq(ec_futex_wait(&word, 0, EC_FUTEX_FOREVER), EC_OK);
}
END_TEST

START_TEST(a_deadline_that_has_passed_times_out_at_once)
{
    _Atomic uint32_t word = 1;

    ck_assert_int_eq(ec_futex_wait(&word, 1, 0), EC_ERR_TIMEOUT);
    ck_assert_int_eq(ec_futex_wait(&word, 1, -1), EC_ERR_TIMEOUT);
    ck_assert_int_eq(ec_futex_wait(&word, 1, ec_real_ns()), EC_ERR_TIMEOUT);
}
END_TEST

START_TEST(a_time_out_is_never_early)
{
    _Atomic uint32_t word = 1;
    int64_t deadline_ns = ec_real_ns() + 2000000;

    while (ec_futex_wait(&word, 1, deadline_ns) != EC_ERR_TIMEOUT)
        ; /* a signal */
    ck_assert_int_ge(ec_real_ns(), deadline_ns);
}
END_TEST

/* The page is shared, the child may only read it: as with the clock page. */
START_TEST(another_process_is_woken_on_a_page_that_it_cannot_write)
{
    _Atomic uint32_t *word =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (child == 0) {
        if (mprotect(word, 4096, PROT_READ) != 0)
            _exit(1);
        while (atomic_load_explicit(word, memory_order_acquire) == 0)
            if (ec_futex_wait(word, 0, EC_FUTEX_FOREVER) != EC_OK)
                _exit(2);
        _exit(0);
    }
    /* Whether the child sleeps already does not matter: the word tells it, too. */
    atomic_store_explicit(word, 1, memory_order_release);
    ck_assert_int_ge(ec_futex_wake_all(word), 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    munmap(word, 4096);
}
END_TEST

START_TEST(nobody_sleeps_so_nobody_is_woken)
{
    _Atomic uint32_t word = 0;

    ck_assert_int_eq(ec_futex_wake_all(&word), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("futex");
    TCase *tests = tcase_create("futex");
    SRunner *runner;
    int failed;

    tcase_add_test(tests, a_word_that_differs_does_not_sleep);
    tcase_add_test(tests, a_deadline_that_has_passed_times_out_at_once);
    tcase_add_test(tests, a_time_out_is_never_early);
    tcase_add_test(tests, another_process_is_woken_on_a_page_that_it_cannot_write);
    tcase_add_test(tests, nobody_sleeps_so_nobody_is_woken);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
