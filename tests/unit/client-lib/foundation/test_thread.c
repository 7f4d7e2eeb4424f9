/* Threads of the library: named, deaf to signals, and without a trace in their creator. */
#include "foundation/thread.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>

static sigset_t mask_inside;
static char name_inside[16];

static void *look_around(void *context)
{
    pthread_barrier_wait(context); /* named by now */
    pthread_sigmask(SIG_SETMASK, NULL, &mask_inside);
    pthread_getname_np(pthread_self(), name_inside, sizeof name_inside);
    return context;
}

START_TEST(a_thread_has_its_name_and_blocks_all_signals)
{
    struct ec_error why = { 0 };
    sigset_t before, after;
    pthread_barrier_t named;
    pthread_t thread;
    void *result;

    pthread_barrier_init(&named, NULL, 2);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    ck_assert_int_eq(ec_thread_start(&thread, "ec-fifteen-char", look_around, &named, &why), EC_OK);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    pthread_barrier_wait(&named);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_eq(result, &named);
    ck_assert_str_eq(name_inside, "ec-fifteen-char");
    for (int number = 1; number < 32; number++) {
        ck_assert_int_eq(sigismember(&after, number), sigismember(&before, number));
        if (number != SIGKILL && number != SIGSTOP)
            ck_assert_int_eq(sigismember(&mask_inside, number), 1);
    }
    pthread_barrier_destroy(&named);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("thread");
    TCase *tests = tcase_create("thread");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tests, a_thread_has_its_name_and_blocks_all_signals);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
