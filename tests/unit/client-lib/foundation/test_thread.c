/* Threads of the library: named, deaf to signals, without a trace in their creator, and the states of
 * those that a program makes. */
#include "foundation/thread.h"

#include <check.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/* ---- threads with a state ---- */

struct life {
    _Atomic int began;
    int answer;
    int nice;
    int policy;
    size_t stack_bytes;
};

static struct ec_thread *create(ec_thread_fn *run, struct life *life, bool suspended)
{
    struct ec_error why = { 0 };
    struct ec_thread *thread = NULL;
    const struct ec_thread_desc desc = {
        .name = "test", .run = run, .context = life, .suspended = suspended
    };

    ck_assert_msg(ec_thread_create(&desc, &thread, &why) == EC_OK, "%s", why.text);
    return thread;
}

static int answer(struct ec_thread *self, void *context)
{
    struct life *life = context;

    (void)self;
    atomic_store(&life->began, 1);
    return life->answer;
}

static int live_until_asked(struct ec_thread *self, void *context)
{
    struct life *life = context;

    atomic_store(&life->began, 1);
    ck_assert_int_eq(ec_thread_state(self), EC_THREAD_RUNNING);
    ck_assert_int_eq(ec_thread_rest(self, -1), EC_OK);
    ck_assert(ec_thread_stop_asked(self));
    return 5;
}

START_TEST(a_thread_runs_and_join_brings_its_result)
{
    struct life life = { .answer = -7 };
    struct ec_thread *thread = create(answer, &life, false);
    int result = 0;

    ck_assert_str_eq(ec_thread_name(thread), "test");
    ck_assert_int_eq(ec_thread_resume(thread), EC_ERR_STATE); /* it is not suspended */
    ck_assert_int_eq(ec_thread_join(thread, -1, &result), EC_OK);
    ck_assert_int_eq(result, -7);
    ck_assert_int_eq(atomic_load(&life.began), 1);
}
END_TEST

START_TEST(a_suspended_thread_waits_for_resume)
{
    struct life life = { .answer = 3 };
    struct ec_thread *thread = create(answer, &life, true);
    int result = 0;

    ck_assert_int_eq(ec_thread_state(thread), EC_THREAD_SUSPENDED);
    ck_assert_int_eq(ec_thread_join(thread, 1000000, &result), EC_ERR_TIMEOUT);
    ck_assert_int_eq(atomic_load(&life.began), 0);
    ck_assert_int_eq(ec_thread_resume(thread), EC_OK);
    ck_assert_int_eq(ec_thread_join(thread, -1, &result), EC_OK);
    ck_assert_int_eq(result, 3);
}
END_TEST

START_TEST(a_suspended_thread_that_is_asked_to_stop_never_runs)
{
    struct life life = { .answer = 3 };
    struct ec_thread *thread = create(answer, &life, true);
    int result = 1;

    ec_thread_ask_stop(thread);
    ck_assert(ec_thread_stop_asked(thread) || ec_thread_state(thread) == EC_THREAD_STOPPED);
    ck_assert_int_eq(ec_thread_resume(thread), EC_ERR_STATE);
    ck_assert_int_eq(ec_thread_join(thread, -1, &result), EC_OK);
    ck_assert_int_eq(result, 0);
    ck_assert_int_eq(atomic_load(&life.began), 0);
}
END_TEST

START_TEST(a_running_thread_hears_that_it_is_asked_to_stop)
{
    struct life life = { 0 };
    struct ec_thread *thread = create(live_until_asked, &life, false);
    int result = 0;

    ck_assert_int_eq(ec_thread_join(thread, 0, &result), EC_ERR_TIMEOUT);
    while (atomic_load(&life.began) == 0)
        sched_yield();
    ec_thread_ask_stop(thread);
    ec_thread_ask_stop(thread); /* once more changes nothing */
    ck_assert_int_eq(ec_thread_join(thread, -1, &result), EC_OK);
    ck_assert_int_eq(result, 5);
}
END_TEST

static int rest_a_little(struct ec_thread *self, void *context)
{
    (void)context;
    return ec_thread_rest(self, 1000);
}

START_TEST(a_rest_ends_by_itself)
{
    struct ec_thread *thread = create(rest_a_little, NULL, false);
    int result = 0;

    ck_assert_int_eq(ec_thread_join(thread, -1, &result), EC_OK);
    ck_assert_int_eq(result, EC_ERR_TIMEOUT);
}
END_TEST

static int join_itself(struct ec_thread *self, void *context)
{
    (void)context;
    return ec_thread_join(self, -1, NULL);
}

START_TEST(a_thread_cannot_wait_for_itself)
{
    struct ec_thread *thread = create(join_itself, NULL, false);
    int result = 0;

    ck_assert_int_eq(ec_thread_join(thread, -1, &result), EC_OK);
    ck_assert_int_eq(result, EC_ERR_STATE);
}
END_TEST

static int look_at_self(struct ec_thread *self, void *context)
{
    struct life *life = context;
    pthread_attr_t attributes;

    (void)self;
    life->nice = getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));
    life->policy = sched_getscheduler(0);
    ck_assert_int_eq(pthread_getattr_np(pthread_self(), &attributes), 0);
    pthread_attr_getstacksize(&attributes, &life->stack_bytes);
    pthread_attr_destroy(&attributes);
    return 0;
}

START_TEST(priority_and_stack_are_what_was_asked_for_or_what_is_said)
{
    static const int steps[] = {
        [EC_THREAD_NORMAL] = 0, [EC_THREAD_LOW] = 10, [EC_THREAD_HIGH] = -10
    };
    const int own = getpriority(PRIO_PROCESS, 0);
    struct life life = { 0 };
    struct ec_thread *thread = NULL;
    const struct ec_thread_desc desc = { .name = "look",
                                         .run = look_at_self,
                                         .context = &life,
                                         .priority = (enum ec_thread_priority)_i,
                                         .stack_bytes = (size_t)1 << 20 };
    enum ec_thread_priority granted;

    ck_assert_int_eq(ec_thread_create(&desc, &thread, NULL), EC_OK);
    granted = ec_thread_priority(thread);
    ck_assert(granted == desc.priority || granted == EC_THREAD_NORMAL);
    ck_assert_int_eq(ec_thread_join(thread, -1, NULL), EC_OK);
    if (own + steps[granted] <= 19 && own + steps[granted] >= -20)
        ck_assert_int_eq(life.nice, own + steps[granted]);
    if (granted == EC_THREAD_LOW)
        ck_assert_int_eq(life.policy, SCHED_BATCH);
    ck_assert_uint_ge(life.stack_bytes, (size_t)1 << 20);
}
END_TEST

START_TEST(what_cannot_be_a_thread_is_refused_with_its_reason)
{
    static const struct {
        struct ec_thread_desc desc;
        const char *says;
    } wrong[] = {
        { { .run = answer }, "name has 0 bytes" },
        { { .name = "", .run = answer }, "name has 0 bytes" },
        { { .name = "sixteen-bytes-xx", .run = answer }, "more than 15" },
        { { .name = "idle" }, "run is NULL" },
        { { .name = "p", .run = answer, .priority = (enum ec_thread_priority)3 }, "no priority 3" },
        { { .name = "s", .run = answer, .stack_bytes = 1000 }, "stack of 1000 bytes" },
        { { .name = "s", .run = answer, .stack_bytes = (size_t)1 << 40 }, "expected 16384" },
    };
    struct ec_thread *thread = NULL;
    struct ec_error why = { 0 };

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ck_assert_int_eq(ec_thread_create(&wrong[i].desc, &thread, &why), EC_ERR_PARAM);
        ck_assert_msg(strstr(why.text, wrong[i].says) != NULL, "%s", why.text);
        ck_assert_ptr_null(thread);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("thread");
    TCase *tests = tcase_create("thread");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tests, a_thread_has_its_name_and_blocks_all_signals);
    tcase_add_test(tests, a_thread_runs_and_join_brings_its_result);
    tcase_add_test(tests, a_suspended_thread_waits_for_resume);
    tcase_add_test(tests, a_suspended_thread_that_is_asked_to_stop_never_runs);
    tcase_add_test(tests, a_running_thread_hears_that_it_is_asked_to_stop);
    tcase_add_test(tests, a_rest_ends_by_itself);
    tcase_add_test(tests, a_thread_cannot_wait_for_itself);
    tcase_add_loop_test(tests, priority_and_stack_are_what_was_asked_for_or_what_is_said, 0, 3);
    tcase_add_test(tests, what_cannot_be_a_thread_is_refused_with_its_reason);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
