/* A life is one thread's, and over when that thread is. */
#include "foundation/thread_life.h"

#include <check.h>
#include <pthread.h>
#include <stddef.h>

static void *tell(void *context)
{
    uint32_t *life = context;

    *life = ec_thread_life();
    ck_assert_uint_eq(ec_thread_life(), *life);
    ck_assert(!ec_thread_life_is_over(*life));
    return NULL;
}

START_TEST(each_thread_has_a_life_of_its_own)
{
    const uint32_t mine = ec_thread_life();
    uint32_t before = EC_THREAD_LIFE_NONE;

    ck_assert_uint_ne(mine, EC_THREAD_LIFE_NONE);
    for (int i = 0; i < 100; i++) {
        uint32_t other;
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, tell, &other), 0);
        pthread_join(thread, NULL);
        ck_assert_uint_ne(other, mine);
        ck_assert_uint_ne(other, before); /* although it had the same place */
        ck_assert(ec_thread_life_is_over(other));
        before = other;
    }
    ck_assert(!ec_thread_life_is_over(mine));
    ck_assert(ec_thread_life_is_over(EC_THREAD_LIFE_NONE));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("thread_life");
    TCase *tcase = tcase_create("thread_life");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, each_thread_has_a_life_of_its_own);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
