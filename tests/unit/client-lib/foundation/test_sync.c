/* Mutex, semaphore, event and once, each with threads that compete for it. */
#include <engine-core/sync.h>

#include <check.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#define THREADS 4
#define ROUNDS 20000
#define SOON_NS 1000000 /* what is not there after it is taken to be missing */

static pthread_t threads[THREADS];

static void start_all(void *(*run)(void *), void *context)
{
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run, context), 0);
}

static void join_all(void)
{
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}

static struct ec_mutex mutex = EC_MUTEX_INIT;
static unsigned long guarded; /* by the mutex */

static void *count_up(void *context)
{
    (void)context;
    for (int i = 0; i < ROUNDS; i++) {
        ec_mutex_lock(&mutex);
        guarded++;
        ec_mutex_unlock(&mutex);
    }
    return NULL;
}

START_TEST(a_mutex_lets_one_thread_in)
{
    start_all(count_up, NULL);
    join_all();
    ck_assert_uint_eq(guarded, (unsigned long)THREADS * ROUNDS);
}
END_TEST

static void *try_it(void *context)
{
    struct ec_mutex *held = context;

    ck_assert_int_eq(ec_mutex_try_lock(held), EC_AGAIN);
    return NULL;
}

START_TEST(a_held_mutex_is_not_had_by_another)
{
    struct ec_mutex held;

    ec_mutex_init(&held);
    ck_assert_int_eq(ec_mutex_try_lock(&held), EC_OK);
    start_all(try_it, &held);
    join_all();
    ec_mutex_unlock(&held);
    ck_assert_int_eq(ec_mutex_try_lock(&held), EC_OK);
    ec_mutex_unlock(&held);
    ec_mutex_finish(&held);
}
END_TEST

#ifndef __SANITIZE_THREAD__
START_TEST(a_holder_that_locks_again_is_stopped)
{
    struct ec_mutex held;

    ec_mutex_init(&held);
    ec_mutex_lock(&held);
    ec_mutex_lock(&held);
}
END_TEST

START_TEST(an_unlock_by_nobody_is_stopped)
{
    struct ec_mutex held;

    ec_mutex_init(&held);
    ec_mutex_unlock(&held);
}
END_TEST

#endif

#define SEATS 2

struct room {
    struct ec_semaphore seats;
    _Atomic int inside, most;
};

static void *sit_down(void *context)
{
    struct room *room = context;

    for (int i = 0; i < ROUNDS / 10; i++) {
        int now, most;

        ck_assert_int_eq(ec_semaphore_wait(&room->seats, -1), EC_OK);
        now = atomic_fetch_add(&room->inside, 1) + 1;
        most = atomic_load(&room->most);
        while (now > most && !atomic_compare_exchange_weak(&room->most, &most, now))
            ;
        atomic_fetch_sub(&room->inside, 1);
        ck_assert_int_eq(ec_semaphore_post(&room->seats), EC_OK);
    }
    return NULL;
}

START_TEST(a_semaphore_lets_so_many_in)
{
    struct room room = { 0 };

    ck_assert_int_eq(ec_semaphore_init(&room.seats, SEATS), EC_OK);
    start_all(sit_down, &room);
    join_all();
    ck_assert_int_le(atomic_load(&room.most), SEATS);
    for (int i = 0; i < SEATS; i++)
        ck_assert_int_eq(ec_semaphore_wait(&room.seats, 0), EC_OK);
    ck_assert_int_eq(ec_semaphore_wait(&room.seats, 0), EC_ERR_TIMEOUT);
    ck_assert_int_eq(ec_semaphore_wait(&room.seats, SOON_NS), EC_ERR_TIMEOUT);
    ec_semaphore_finish(&room.seats);
}
END_TEST

START_TEST(a_semaphore_says_when_it_is_too_much)
{
    struct ec_semaphore many;

    ck_assert_int_eq(ec_semaphore_init(&many, EC_SEMAPHORE_MAX + 1u), EC_ERR_PARAM);
    ck_assert_int_eq(ec_semaphore_init(&many, EC_SEMAPHORE_MAX), EC_OK);
    ck_assert_int_eq(ec_semaphore_post(&many), EC_ERR_LIMIT);
    ec_semaphore_finish(&many);
}
END_TEST

struct gate {
    struct ec_signal open, passed;
    _Atomic int through;
};

static void *go_through(void *context)
{
    struct gate *gate = context;

    ck_assert_int_eq(ec_signal_wait(&gate->open, -1), EC_OK);
    atomic_fetch_add(&gate->through, 1);
    ec_signal_set(&gate->passed);
    return NULL;
}

START_TEST(an_event_lets_all_go_on_until_it_is_reset)
{
    struct gate gate = { 0 };

    ec_signal_init(&gate.open, false);
    ec_signal_init(&gate.passed, false);
    start_all(go_through, &gate);
    ck_assert_int_eq(ec_signal_wait(&gate.open, SOON_NS), EC_ERR_TIMEOUT);
    ec_signal_set(&gate.open);
    join_all();
    ck_assert_int_eq(atomic_load(&gate.through), THREADS);
    ck_assert_int_eq(ec_signal_wait(&gate.open, 0), EC_OK); /* still set */
    ec_signal_reset(&gate.open);
    ck_assert_int_eq(ec_signal_wait(&gate.open, 0), EC_ERR_TIMEOUT);
    ec_signal_finish(&gate.open);
    ec_signal_finish(&gate.passed);
}
END_TEST

START_TEST(an_automatic_event_lets_one_go_on_for_each_set)
{
    struct gate gate = { 0 };

    ec_signal_init(&gate.open, true);
    ec_signal_init(&gate.passed, true);
    start_all(go_through, &gate);
    for (int i = 1; i <= THREADS; i++) {
        ec_signal_set(&gate.open);
        ck_assert_int_eq(ec_signal_wait(&gate.passed, -1), EC_OK);
        ck_assert_int_eq(atomic_load(&gate.through), i);
    }
    join_all();
    ck_assert_int_eq(ec_signal_wait(&gate.open, 0), EC_ERR_TIMEOUT);
    ec_signal_finish(&gate.open);
    ec_signal_finish(&gate.passed);
}
END_TEST

static struct ec_once once = EC_ONCE_INIT;
static int times, made; /* not atomic: that is what once is for */

static void make(void *context)
{
    times++;
    for (int i = 0; i < 100; i++) /* room for the others to come too early */
        sched_yield();
    made = *(const int *)context;
}

static void *need(void *context)
{
    ec_once(&once, make, context);
    ck_assert_int_eq(made, 42);
    return NULL;
}

START_TEST(once_is_once_and_nobody_goes_on_before_it_is_done)
{
    int value = 42;

    start_all(need, &value);
    join_all();
    ck_assert_int_eq(times, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sync");
    TCase *tests = tcase_create("sync");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tests, a_mutex_lets_one_thread_in);
    tcase_add_test(tests, a_held_mutex_is_not_had_by_another);
#ifndef __SANITIZE_THREAD__ /* which reports these faults itself */
    tcase_add_test_raise_signal(tests, a_holder_that_locks_again_is_stopped, SIGABRT);
    tcase_add_test_raise_signal(tests, an_unlock_by_nobody_is_stopped, SIGABRT);
#endif
    tcase_add_test(tests, a_semaphore_lets_so_many_in);
    tcase_add_test(tests, a_semaphore_says_when_it_is_too_much);
    tcase_add_test(tests, an_event_lets_all_go_on_until_it_is_reset);
    tcase_add_test(tests, an_automatic_event_lets_one_go_on_for_each_set);
    tcase_add_test(tests, once_is_once_and_nobody_goes_on_before_it_is_done);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
