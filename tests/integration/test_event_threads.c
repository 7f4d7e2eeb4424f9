/* Publishers and subscribers of one process, on threads of their own, come and go while events flow.
 *
 * Built for ThreadSanitizer too, which sees the mailboxes between the service thread and the others. It
 * does not see the ring: publisher and reader map it at two addresses, which it takes for two memories. */
#include <engine-core/publisher.h>
#include <engine-core/subscriber.h>

#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "support/checked_payload.h"
#include "support/daemon.h"

#define READERS 3
#define ROUNDS 20
#define EVENTS 500u /* that each reader takes in a round */
#define BYTES 64u
#define WAIT_NS 60000000000ll

static struct daemon_process engine;
static struct ec_client *client;
static atomic_bool stop;

static void set_up(void)
{
    struct ec_client_desc desc = { .name = "threads", .timeout_ms = DAEMON_WAIT_MS };
    struct ec_event_type_desc checked = { .name = "test.checked", .max_bytes = BYTES };
    struct ec_error why = { 0 };

    ck_assert_msg(daemon_start(&engine, NULL), "%s", engine.why);
    desc.socket_path = engine.socket_path;
    ck_assert_msg(ec_client_create(&desc, &client, &why) == EC_OK, "%s", why.text);
    ck_assert_int_eq(ec_event_type_register(client, &checked, NULL, NULL), EC_OK);
}

static void tear_down(void)
{
    ec_client_destroy(client);
    ck_assert_int_eq(daemon_stop(&engine), 0);
}

/* Opens a port again and again; each port's events count from 0. */
static void *publish(void *argument)
{
    const uint64_t who = *(const uint64_t *)argument;
    struct ec_publisher_desc desc = { .ring_bytes = 16384, .name = who == 0 ? "zero" : "one" };

    while (!atomic_load(&stop)) {
        struct ec_publisher *publisher;
        void *payload;

        if (ec_publisher_create(client, &desc, &publisher, NULL) != EC_OK)
            abort();
        for (uint64_t n = 0; n < 20000 && !atomic_load(&stop); n++) {
            int rc = ec_publisher_claim(publisher, ec_event_type("test.checked"), BYTES, &payload);

            if (rc == EC_AGAIN)
                continue; /* a reader is behind */
            if (rc != EC_OK)
                abort();
            checked_fill(payload, BYTES, who, n);
            ec_publisher_commit(publisher);
        }
        ec_publisher_destroy(publisher);
    }
    return NULL;
}

/* Subscribes, takes some events and leaves, again and again. Returns how many were not whole. */
static void *subscribe(void *argument)
{
    struct ec_subscriber_desc desc = { .types = (const char *[]) { "test.checked" },
                                       .type_count = 1 };
    uintptr_t wrong = 0;

    desc.policy = *(const uint64_t *)argument == 0 ? EC_EVENT_LOSSY : EC_EVENT_RELIABLE;
    for (int round = 0; round < ROUNDS; round++) {
        struct ec_subscriber *subscriber;
        struct ec_event event;
        uint64_t who, number;

        if (ec_subscriber_create(client, &desc, &subscriber, NULL) != EC_OK)
            abort();
        for (uint32_t taken = 0; taken < EVENTS;) {
            if (ec_subscriber_wait(subscriber, WAIT_NS) != EC_OK)
                abort();
            while (taken < EVENTS && ec_subscriber_next(subscriber, &event) == EC_OK) {
                bool whole = checked_read(event.payload, event.bytes, &who, &number) && who < 2;

                if (ec_subscriber_done(subscriber) != EC_OK)
                    continue;
                wrong += !whole;
                taken++;
            }
        }
        ec_subscriber_destroy(subscriber);
    }
    return (void *)wrong;
}

START_TEST(publishers_and_subscribers_come_and_go_on_their_own_threads)
{
    static const uint64_t number[READERS] = { 0, 1, 2 };
    pthread_t publishers[2], readers[READERS];
    void *wrong;

    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(
            pthread_create(&publishers[i], NULL, publish, (void *)(uintptr_t)&number[i]), 0);
    for (int i = 0; i < READERS; i++)
        ck_assert_int_eq(
            pthread_create(&readers[i], NULL, subscribe, (void *)(uintptr_t)&number[i]), 0);
    for (int i = 0; i < READERS; i++) {
        ck_assert_int_eq(pthread_join(readers[i], &wrong), 0);
        ck_assert_ptr_null(wrong);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_join(publishers[i], NULL), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event threads");
    TCase *tcase = tcase_create("event threads");
    SRunner *runner;
    int failed;

    signal(SIGPIPE, SIG_IGN);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, publishers_and_subscribers_come_and_go_on_their_own_threads);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
