/* Threads find their slot, and leave it with its counts to the next one. */
#include "client/live_clients.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct ec_client clients[6];

static void open_client(struct ec_client *client)
{
    const struct ec_segment_desc desc = { .name = "test",
                                          .kind = EC_SEGMENT_CLIENT,
                                          .bytes = sizeof(struct ec_client_segment),
                                          .client_id = 1 };
    struct ec_error why = { 0 };

    *client = (struct ec_client) { .doorbell = { -1, -1 } };
    ck_assert_msg(ec_segment_init(&client->own, &desc, &why) == EC_OK, "%s", why.text);
    ck_assert_int_eq(ec_live_clients_add(client, &why), EC_OK);
}

static void close_client(struct ec_client *client)
{
    ec_live_clients_remove(client);
    ec_segment_finish(&client->own);
}

static void open_clients(void)
{
    for (unsigned i = 0; i < 6; i++)
        open_client(&clients[i]);
}

static void close_clients(void)
{
    for (unsigned i = 0; i < 6; i++)
        close_client(&clients[i]);
}

static const struct ec_thread_row *row_of(struct ec_client *client, uint32_t slot)
{
    return &ec_client_own(client)->threads[slot];
}

/* Threads that hold their slots until all of them have one. */
struct crowd {
    pthread_barrier_t have, leave;
    uint32_t slots[EC_THREADS_MAX + 2];
};

struct member {
    pthread_t thread;
    struct crowd *crowd;
    unsigned number;
};

static void *join_crowd(void *context)
{
    struct member *member = context;
    struct crowd *crowd = member->crowd;

    crowd->slots[member->number] = ec_client_thread_slot(&clients[0]);
    ck_assert_uint_eq(crowd->slots[member->number], ec_client_thread_slot(&clients[0]));
    pthread_barrier_wait(&crowd->have);
    pthread_barrier_wait(&crowd->leave);
    return NULL;
}

static void *count_once(void *context)
{
    struct ec_client *client = context;
    uint32_t slot = ec_client_thread_slot(client);
    _Atomic uint64_t *allocs = &ec_client_own(client)->threads[slot].tags[0].allocs;

    atomic_store_explicit(allocs, atomic_load_explicit(allocs, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    return (void *)(uintptr_t)slot;
}

static uint32_t slot_of_new_thread(struct ec_client *client)
{
    pthread_t thread;
    void *slot;

    ck_assert_int_eq(pthread_create(&thread, NULL, count_once, client), 0);
    ck_assert_int_eq(pthread_join(thread, &slot), 0);
    return (uint32_t)(uintptr_t)slot;
}

START_TEST(a_thread_keeps_its_slot_and_names_it)
{
    uint32_t slot = ec_client_thread_slot(&clients[0]);

    ck_assert_uint_eq(slot, 0);
    ck_assert_uint_eq(ec_client_thread_slot(&clients[0]), slot);
    ck_assert_uint_eq(atomic_load(&row_of(&clients[0], slot)->used), 1);
    ck_assert_uint_eq(atomic_load(&row_of(&clients[0], slot)->tid), (uint32_t)gettid());
    ck_assert_int_ne(row_of(&clients[0], slot)->name[0], 0);
    ck_assert_uint_eq(atomic_load(&ec_client_own(&clients[0])->threads_high), 1);
}
END_TEST

START_TEST(a_thread_that_ends_leaves_its_slot_and_its_counts_to_the_next)
{
    for (unsigned i = 1; i <= 200; i++) {
        ck_assert_uint_eq(slot_of_new_thread(&clients[0]), 0);
        ck_assert_uint_eq(atomic_load(&row_of(&clients[0], 0)->used), 0);
        ck_assert_uint_eq(atomic_load(&row_of(&clients[0], 0)->tags[0].allocs), i);
    }
}
END_TEST

START_TEST(each_thread_has_a_slot_of_its_own_and_the_rest_share_the_last)
{
    static struct member members[EC_THREADS_MAX + 2];
    static struct crowd crowd;
    unsigned owners[EC_THREADS_MAX] = { 0 };

    pthread_barrier_init(&crowd.have, NULL, EC_THREADS_MAX + 3);
    pthread_barrier_init(&crowd.leave, NULL, EC_THREADS_MAX + 3);
    for (unsigned i = 0; i < EC_THREADS_MAX + 2; i++) {
        members[i] = (struct member) { .crowd = &crowd, .number = i };
        ck_assert_int_eq(pthread_create(&members[i].thread, NULL, join_crowd, &members[i]), 0);
    }
    pthread_barrier_wait(&crowd.have);
    for (unsigned i = 0; i < EC_THREADS_MAX + 2; i++)
        owners[crowd.slots[i]]++;
    for (unsigned i = 0; i < EC_THREAD_SLOT_SHARED; i++)
        ck_assert_uint_eq(owners[i], 1);
    ck_assert_uint_eq(owners[EC_THREAD_SLOT_SHARED], 3);
    ck_assert_str_eq(row_of(&clients[0], EC_THREAD_SLOT_SHARED)->name, "shared");
    pthread_barrier_wait(&crowd.leave);
    for (unsigned i = 0; i < EC_THREADS_MAX + 2; i++)
        pthread_join(members[i].thread, NULL);
    for (unsigned i = 0; i < EC_THREAD_SLOT_SHARED; i++)
        ck_assert_uint_eq(atomic_load(&row_of(&clients[0], i)->used), 0);
    ck_assert_uint_eq(atomic_load(&row_of(&clients[0], EC_THREAD_SLOT_SHARED)->used), 1);
}
END_TEST

START_TEST(several_clients_each_give_a_slot)
{
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < 4; i++)
            ck_assert_uint_eq(ec_client_thread_slot(&clients[i]), 0);
    /* more clients than a thread remembers: it shares, so that no slot is ever lost */
    ck_assert_uint_eq(ec_client_thread_slot(&clients[4]), EC_THREAD_SLOT_SHARED);
    ck_assert_uint_eq(ec_client_thread_slot(&clients[5]), EC_THREAD_SLOT_SHARED);
}
END_TEST

START_TEST(a_new_client_at_the_same_address_gets_a_slot_of_its_own)
{
    for (unsigned i = 0; i < 10; i++) {
        ck_assert_uint_eq(ec_client_thread_slot(&clients[0]), 0);
        ck_assert_uint_eq(atomic_load(&row_of(&clients[0], 0)->used), 1);
        close_client(&clients[0]);
        open_client(&clients[0]);
        ck_assert_uint_eq(atomic_load(&row_of(&clients[0], 0)->used), 0);
    }
}
END_TEST

static void *outlive(void *context)
{
    pthread_barrier_t *steps = context;

    ec_client_thread_slot(&clients[0]);
    pthread_barrier_wait(steps); /* has a slot */
    pthread_barrier_wait(steps); /* the client is gone */
    return NULL;
}

START_TEST(a_thread_may_outlive_the_client)
{
    pthread_barrier_t steps;
    pthread_t thread;

    pthread_barrier_init(&steps, NULL, 2);
    ck_assert_int_eq(pthread_create(&thread, NULL, outlive, &steps), 0);
    pthread_barrier_wait(&steps);
    close_client(&clients[0]);
    pthread_barrier_wait(&steps);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    open_client(&clients[0]);
}
END_TEST

START_TEST(a_forked_child_counts_into_pages_of_its_own)
{
    const uint32_t slot = ec_client_thread_slot(&clients[0]);
    int status;
    pid_t child;

    count_once(&clients[0]);
    child = fork();
    if (child == 0) {
        count_once(&clients[0]);
        _exit(clients[0].own.fd == -1 &&
                      atomic_load(&row_of(&clients[0], slot)->tags[0].allocs) == 1
                  ? 0
                  : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(atomic_load(&row_of(&clients[0], slot)->tags[0].allocs), 1);
    ck_assert_int_ge(clients[0].own.fd, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("thread slots");
    TCase *tests = tcase_create("slots");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tests, open_clients, close_clients);
    tcase_add_test(tests, a_thread_keeps_its_slot_and_names_it);
    tcase_add_test(tests, a_thread_that_ends_leaves_its_slot_and_its_counts_to_the_next);
    tcase_add_test(tests, each_thread_has_a_slot_of_its_own_and_the_rest_share_the_last);
    tcase_add_test(tests, several_clients_each_give_a_slot);
    tcase_add_test(tests, a_new_client_at_the_same_address_gets_a_slot_of_its_own);
    tcase_add_test(tests, a_thread_may_outlive_the_client);
    tcase_add_test(tests, a_forked_child_counts_into_pages_of_its_own);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
