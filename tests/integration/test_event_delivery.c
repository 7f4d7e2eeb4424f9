/* Many events, between many processes, some of which are killed: each event arrives whole, in order and
 * once, or is counted as lost; nothing that was never published arrives.
 *
 * EC_EVENTS is how many events are published by two publishers to four readers (default 1,000,000),
 * EC_KILL_ROUNDS how often publishers and readers are killed (default 20); `make soak` raises both. */
#include <engine-core/publisher.h>
#include <engine-core/subscriber.h>

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "support/checked_payload.h"
#include "support/daemon.h"
#include "support/fixture.h"
#include "support/game.h"

#define SMALL_BYTES_MAX 232u
#define LARGE_BYTES (64u << 20)
#define PUBLISHERS_MAX 4096u /* that one reader tells apart */

static struct daemon_process engine;
static struct line_client operator;

static void set_up(void)
{
    fixture_start(&engine, &operator, NULL);
}

static void tear_down(void)
{
    fixture_stop(&engine, &operator);
}

static uint64_t from_environment(const char *name, uint64_t normally)
{
    const char *text = getenv(name);

    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 10) : normally;
}

/* ---- both sides ------------------------------------------------------------------------------ */

#define CHECKED ec_event_type("test.checked")
#define END ec_event_type("test.end")

static struct ec_client *join(const char *name)
{
    struct ec_client *client = game_join(name, engine.socket_path);
    struct ec_event_type_desc checked = { .name = "test.checked", .max_bytes = LARGE_BYTES };
    struct ec_event_type_desc end = { .name = "test.end", .max_bytes = 8 };

    GAME_CHECK(ec_event_type_register(client, &checked, NULL, NULL) == EC_OK);
    GAME_CHECK(ec_event_type_register(client, &end, NULL, NULL) == EC_OK);
    return client;
}

static struct ec_publisher *open_publisher(struct ec_client *client, uint32_t ring_bytes)
{
    struct ec_publisher_desc desc = { .ring_bytes = ring_bytes };
    struct ec_publisher *publisher;

    GAME_CHECK(ec_publisher_create(client, &desc, &publisher, NULL) == EC_OK);
    return publisher;
}

static void publish_checked(struct ec_publisher *publisher, size_t bytes, uint64_t who,
                            uint64_t number)
{
    void *payload;

    GAME_CHECK(ec_publisher_claim_wait(publisher, CHECKED, bytes, GAME_WAIT_NS, &payload) == EC_OK);
    checked_fill(payload, bytes, who, number);
    GAME_CHECK(ec_publisher_commit(publisher) == EC_OK);
}

static void publish_end(struct ec_publisher *publisher)
{
    uint64_t nothing = 0;
    void *payload;

    GAME_CHECK(ec_publisher_claim_wait(publisher, END, sizeof nothing, GAME_WAIT_NS, &payload) ==
               EC_OK);
    memcpy(payload, &nothing, sizeof nothing);
    GAME_CHECK(ec_publisher_commit(publisher) == EC_OK);
}

/* What a reader knows of the publishers. */
struct seen {
    uint64_t next[PUBLISHERS_MAX];
    uint64_t delivered, ends;
    uint64_t lost, torn;
    uint64_t older; /* publishers below this were there before: their first event is any one */
    bool gaps;      /* allowed */
};

static void on_lost(void *context, const struct ec_loss *loss)
{
    struct seen *seen = context;

    seen->lost += loss->events;
    seen->torn += loss->torn;
}

static struct ec_subscriber *open_subscriber(struct ec_client *client, enum ec_event_policy policy,
                                             struct seen *seen)
{
    struct ec_subscriber_desc desc = { .types = (const char *[]) { "test.checked", "test.end" },
                                       .type_count = 2,
                                       .policy = policy,
                                       .on_lost = on_lost,
                                       .context = seen };
    struct ec_subscriber *subscriber;

    seen->gaps = policy == EC_EVENT_LOSSY;
    GAME_CHECK(ec_subscriber_create(client, &desc, &subscriber, NULL) == EC_OK);
    return subscriber;
}

/* Copy, validate, and only then look. */
static void read_one(struct ec_subscriber *subscriber, const struct ec_event *event,
                     struct seen *seen)
{
    static unsigned char copy[SMALL_BYTES_MAX];
    size_t bytes = event->bytes;
    uint64_t who, number;

    if (bytes <= sizeof copy)
        memcpy(copy, event->payload, bytes);
    if (ec_subscriber_done(subscriber) != EC_OK)
        return;
    if (event->type == END) {
        seen->ends++;
        return;
    }
    GAME_CHECK(event->type == CHECKED && bytes <= sizeof copy);
    GAME_CHECK(checked_read(copy, bytes, &who, &number));
    GAME_CHECK(who < PUBLISHERS_MAX && bytes == checked_bytes(number, SMALL_BYTES_MAX));
    if (seen->gaps || (seen->next[who] == 0 && who < seen->older))
        GAME_CHECK(number >= seen->next[who]);
    else
        GAME_CHECK(number == seen->next[who]);
    seen->next[who] = number + 1;
    seen->delivered++;
}

static void read_until_ends(struct ec_subscriber *subscriber, struct seen *seen, uint64_t ends)
{
    struct ec_event event;

    while (seen->ends < ends) {
        GAME_CHECK(ec_subscriber_wait(subscriber, GAME_WAIT_NS) == EC_OK);
        while (ec_subscriber_next(subscriber, &event) == EC_OK)
            read_one(subscriber, &event, seen);
    }
}

/* ---- two publishers, four readers ------------------------------------------------------------ */

struct publishing {
    uint64_t who, events;
};

static int publish_all(const struct game_side *side)
{
    const struct publishing *plan = side->context;
    struct ec_client *client = join("publisher");
    struct ec_publisher *publisher = open_publisher(client, 256 * 1024);

    game_say(side);
    game_hear(side);
    for (uint64_t n = 0; n < plan->events; n++) {
        if (n % 64 == 0)
            ec_publisher_batch_begin(publisher);
        publish_checked(publisher, checked_bytes(n, SMALL_BYTES_MAX), plan->who, n);
        if (n % 64 == 48)
            ec_publisher_batch_end(publisher);
    }
    ec_publisher_batch_end(publisher);
    game_say(side);
    game_hear(side); /* the lossy readers have seen the rest: now the end cannot be lost */
    publish_end(publisher);
    game_hear(side);
    ec_publisher_destroy(publisher);
    ec_client_destroy(client);
    return 0;
}

struct reading {
    enum ec_event_policy policy;
    uint64_t events; /* of each publisher */
};

static int read_all(const struct game_side *side)
{
    static struct seen seen;
    const struct reading *plan = side->context;
    struct ec_client *client = join("reader");
    struct ec_subscriber *subscriber = open_subscriber(client, plan->policy, &seen);
    struct ec_subscriber_stats stats;

    game_say(side);
    read_until_ends(subscriber, &seen, 2);
    ec_subscriber_stats(subscriber, &stats);
    GAME_CHECK(seen.lost == stats.lost_events && stats.broken_ports == 0);
    GAME_CHECK(seen.delivered + seen.lost == 2 * plan->events);
    GAME_CHECK(plan->policy == EC_EVENT_LOSSY || seen.lost == 0);
    if (plan->policy == EC_EVENT_RELIABLE)
        GAME_CHECK(seen.next[0] == plan->events && seen.next[1] == plan->events);
    printf("  %s reader: %llu delivered, %llu lost, %llu torn and thrown away\n",
           plan->policy == EC_EVENT_LOSSY ? "lossy" : "reliable",
           (unsigned long long)seen.delivered, (unsigned long long)seen.lost,
           (unsigned long long)seen.torn);
    fflush(stdout);
    ec_subscriber_destroy(subscriber);
    ec_client_destroy(client);
    return 0;
}

START_TEST(two_publishers_and_four_readers_agree_on_every_event)
{
    const uint64_t events = from_environment("EC_EVENTS", 1000000) / 2;
    struct publishing plans[2] = { { 0, events }, { 1, events } };
    struct reading reliable = { EC_EVENT_RELIABLE, events }, lossy = { EC_EVENT_LOSSY, events };
    struct game publishers[2], readers[4];

    for (int i = 0; i < 2; i++) {
        publishers[i] = game_start(publish_all, &plans[i]);
        game_await(&publishers[i]);
    }
    for (int i = 0; i < 4; i++) {
        readers[i] = game_start(read_all, i < 2 ? &reliable : &lossy);
        game_await(&readers[i]);
    }
    for (int i = 0; i < 2; i++)
        game_tell(&publishers[i]);
    for (int i = 0; i < 2; i++)
        game_await(&publishers[i]);
    for (int i = 0; i < 2; i++)
        game_tell(&publishers[i]);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(game_end(&readers[i]), 0);
    for (int i = 0; i < 2; i++) {
        game_tell(&publishers[i]);
        ck_assert_int_eq(game_end(&publishers[i]), 0);
    }
}
END_TEST

/* ---- ports come and go ----------------------------------------------------------------------- */

#define FEW_EVENTS 100u
#define PORT_EVENTS 5000u

/* Opens a second port when the first one, of which nearly nothing was read, is closed. */
static int publish_on_one_port_after_the_other(const struct game_side *side)
{
    struct ec_client *client = join("publisher");
    struct ec_publisher *publisher = open_publisher(client, 16 * 1024);

    game_say(side);
    game_hear(side);
    for (uint64_t n = 0; n < FEW_EVENTS; n++)
        publish_checked(publisher, CHECKED_BYTES_MIN, 0, n);
    game_say(side);
    game_hear(side); /* the reader has begun */
    ec_publisher_destroy(publisher);
    publisher = open_publisher(client, 16 * 1024);
    game_say(side);
    for (uint64_t n = 0; n < PORT_EVENTS; n++)
        publish_checked(publisher, CHECKED_BYTES_MIN, 1, n);
    publish_end(publisher);
    game_hear(side);
    ec_publisher_destroy(publisher);
    ec_client_destroy(client);
    return 0;
}

static int read_one_port_after_the_other(const struct game_side *side)
{
    static struct seen seen;
    uint64_t next[2] = { 0, 0 }, who, number;
    struct ec_client *client = join("reader");
    struct ec_subscriber *subscriber = open_subscriber(client, EC_EVENT_RELIABLE, &seen);
    struct ec_event event = { 0 };

    game_say(side);
    GAME_CHECK(ec_subscriber_wait(subscriber, GAME_WAIT_NS) == EC_OK);
    GAME_CHECK(ec_subscriber_next(subscriber, &event) == EC_OK);
    GAME_CHECK(ec_subscriber_done(subscriber) == EC_OK);
    next[0]++;
    game_say(side);
    game_hear(side); /* the second port is there */
    while (event.type != END) {
        GAME_CHECK(ec_subscriber_wait(subscriber, GAME_WAIT_NS) == EC_OK);
        while (event.type != END && ec_subscriber_next(subscriber, &event) == EC_OK) {
            if (event.type == CHECKED) {
                GAME_CHECK(checked_read(event.payload, event.bytes, &who, &number));
                GAME_CHECK(who < 2 && number == next[who]);
                next[who]++;
            }
            GAME_CHECK(ec_subscriber_done(subscriber) == EC_OK);
        }
    }
    GAME_CHECK(next[0] == FEW_EVENTS && next[1] == PORT_EVENTS && seen.lost == 0);
    ec_subscriber_destroy(subscriber);
    ec_client_destroy(client);
    return 0;
}

START_TEST(a_port_that_opens_while_a_closed_one_is_read_to_its_end_loses_nothing)
{
    struct game publisher, reader;

    fixture_restart(&engine, &operator, fixture_patient);
    publisher = game_start(publish_on_one_port_after_the_other, NULL);
    game_await(&publisher);
    reader = game_start(read_one_port_after_the_other, NULL);
    game_await(&reader);
    game_tell(&publisher);
    game_await(&publisher); /* all of the first port is published */
    game_await(&reader);
    game_tell(&publisher);
    game_await(&publisher); /* the second port is open */
    game_tell(&reader);
    ck_assert_int_eq(game_end(&reader), 0);
    game_tell(&publisher);
    ck_assert_int_eq(game_end(&publisher), 0);
}
END_TEST

/* ---- lapping --------------------------------------------------------------------------------- */

#define LAPPING_EVENTS 2000000u

/* The smallest ring and nobody to wait for: the readers are lapped all the time. */
static int publish_at_full_speed(const struct game_side *side)
{
    struct ec_client *client = join("publisher");
    struct ec_publisher *publisher = open_publisher(client, 16 * 1024);
    struct ec_publisher_stats stats;

    game_say(side);
    game_hear(side);
    for (uint64_t n = 0; n < LAPPING_EVENTS; n++)
        publish_checked(publisher, checked_bytes(n, SMALL_BYTES_MAX), 0, n);
    ec_publisher_stats(publisher, &stats);
    GAME_CHECK(stats.would_block == 0 && stats.published == LAPPING_EVENTS);
    publish_end(publisher);
    game_hear(side);
    ec_publisher_destroy(publisher);
    ec_client_destroy(client);
    return 0;
}

static int read_while_lapped(const struct game_side *side)
{
    static struct seen seen;
    struct ec_client *client = join("reader");
    struct ec_subscriber *subscriber = open_subscriber(client, EC_EVENT_LOSSY, &seen);

    game_say(side);
    read_until_ends(subscriber, &seen, 1);
    GAME_CHECK(seen.delivered + seen.lost == LAPPING_EVENTS);
    GAME_CHECK(seen.lost > 0);
    printf("  lapped reader: %llu delivered, %llu lost, %llu torn and thrown away\n",
           (unsigned long long)seen.delivered, (unsigned long long)seen.lost,
           (unsigned long long)seen.torn);
    fflush(stdout);
    ec_subscriber_destroy(subscriber);
    ec_client_destroy(client);
    return 0;
}

START_TEST(readers_that_are_lapped_at_full_speed_take_no_torn_event_and_count_exactly)
{
    struct game publisher = game_start(publish_at_full_speed, NULL), readers[2];

    game_await(&publisher);
    for (int i = 0; i < 2; i++) {
        readers[i] = game_start(read_while_lapped, NULL);
        game_await(&readers[i]);
    }
    game_tell(&publisher);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(game_end(&readers[i]), 0);
    game_tell(&publisher);
    ck_assert_int_eq(game_end(&publisher), 0);
}
END_TEST

/* ---- large payloads -------------------------------------------------------------------------- */

#define LARGE_EVENTS 6u

static int publish_large(const struct game_side *side)
{
    struct ec_client *client = join("publisher");
    struct ec_publisher_desc desc = { .ring_bytes = 16 * 1024,
                                      .block_bytes = LARGE_BYTES,
                                      .block_count = 2 };
    struct ec_publisher *publisher;
    void *payload;

    GAME_CHECK(ec_publisher_create(client, &desc, &publisher, NULL) == EC_OK);
    GAME_CHECK(ec_publisher_claim(publisher, CHECKED, LARGE_BYTES + 8, &payload) == EC_ERR_SIZE);
    game_say(side);
    game_hear(side);
    for (uint64_t n = 0; n < LARGE_EVENTS; n++) /* three times each block */
        publish_checked(publisher, n % 2 == 0 ? LARGE_BYTES : LARGE_BYTES - 4096, 7, n);
    game_hear(side);
    ec_publisher_destroy(publisher);
    ec_client_destroy(client);
    return 0;
}

static int read_large(const struct game_side *side)
{
    static struct seen seen;
    struct ec_client *client = join("reader");
    struct ec_subscriber *subscriber = open_subscriber(client, EC_EVENT_RELIABLE, &seen);
    struct ec_event event;

    game_say(side);
    for (uint64_t n = 0; n < LARGE_EVENTS; n++) {
        GAME_CHECK(ec_subscriber_wait(subscriber, GAME_WAIT_NS) == EC_OK);
        GAME_CHECK(ec_subscriber_next(subscriber, &event) == EC_OK);
        GAME_CHECK(event.bytes == (n % 2 == 0 ? LARGE_BYTES : LARGE_BYTES - 4096));
        GAME_CHECK(checked_is_whole(event.payload, event.bytes, 7, n));
        GAME_CHECK(ec_subscriber_done(subscriber) == EC_OK);
    }
    GAME_CHECK(seen.lost == 0);
    ec_subscriber_destroy(subscriber);
    ec_client_destroy(client);
    return 0;
}

START_TEST(payloads_of_64_MiB_go_through_blocks_that_are_used_again)
{
    struct game publisher, readers[2];

    fixture_restart(&engine, &operator, fixture_patient); /* checking 64 MiB takes a while */
    publisher = game_start(publish_large, NULL);
    game_await(&publisher);
    for (int i = 0; i < 2; i++) {
        readers[i] = game_start(read_large, NULL);
        game_await(&readers[i]);
    }
    game_tell(&publisher);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(game_end(&readers[i]), 0);
    game_tell(&publisher);
    ck_assert_int_eq(game_end(&publisher), 0);
}
END_TEST

/* ---- SIGKILL --------------------------------------------------------------------------------- */

/* Publishes until it is killed, or told to end. */
static int publish_until_told(const struct game_side *side)
{
    const uint64_t *who = side->context;
    struct ec_client *client = join("publisher");
    struct ec_publisher *publisher = open_publisher(client, 16 * 1024);
    uint64_t number = 0;

    game_say(side);
    for (;;) {
        fd_set told;

        for (int i = 0; i < 1000; i++, number++)
            publish_checked(publisher, checked_bytes(number, SMALL_BYTES_MAX), *who, number);
        FD_ZERO(&told);
        FD_SET(side->hear, &told);
        if (select(side->hear + 1, &told, NULL, NULL, &(struct timeval) { 0 }) == 1)
            break;
    }
    publish_end(publisher);
    game_hear(side);
    game_hear(side); /* the reader has read it */
    ec_publisher_destroy(publisher);
    ec_client_destroy(client);
    return 0;
}

struct surviving {
    enum ec_event_policy policy;
    uint64_t older;
};

/* Reads until the survivor ends, however many others are killed meanwhile. */
static int read_until_the_end(const struct game_side *side)
{
    static struct seen seen;
    const struct surviving *plan = side->context;
    struct ec_client *client = join("reader");
    struct ec_subscriber *subscriber = open_subscriber(client, plan->policy, &seen);

    seen.older = plan->older;
    game_say(side);
    read_until_ends(subscriber, &seen, 1);
    GAME_CHECK(plan->policy == EC_EVENT_LOSSY || seen.lost == 0);
    ec_subscriber_destroy(subscriber);
    game_say(side); /* its mappings and descriptors are gone again */
    game_hear(side);
    ec_client_destroy(client);
    return 0;
}

/* A reader of each policy and a publisher survive; who is killed beside them harms none of them. The
 * reliable survivor gets every event of the others too, up to their last moment. */
START_TEST(who_is_killed_at_any_moment_takes_nobody_with_him)
{
    static const struct surviving survivors[2] = { { EC_EVENT_RELIABLE, 1 },
                                                   { EC_EVENT_LOSSY, 1 } };
    static const struct surviving lost[2] = { { EC_EVENT_RELIABLE, PUBLISHERS_MAX },
                                              { EC_EVENT_LOSSY, PUBLISHERS_MAX } };
    const uint64_t rounds = from_environment("EC_KILL_ROUNDS", 20), survivor = 0;
    struct game publisher, readers[2];
    unsigned descriptors[2] = { 0 }, before;
    unsigned random = 12345;

    /* Nobody is demoted: who is dead must be removed because it is dead. */
    fixture_restart(&engine, &operator, fixture_patient);
    publisher = game_start(publish_until_told, &survivor);
    game_await(&publisher);
    for (int i = 0; i < 2; i++) {
        readers[i] = game_start(read_until_the_end, &survivors[i]);
        game_await(&readers[i]);
    }
    before = process_descriptors(engine.pid);
    for (int i = 0; i < 2; i++)
        descriptors[i] = process_descriptors(readers[i].pid);
    for (uint64_t round = 0; round < rounds; round++) {
        const uint64_t who = 1 + round % (PUBLISHERS_MAX - 1);
        struct game victims[3] = { game_start(publish_until_told, &who),
                                   game_start(read_until_the_end, &lost[0]),
                                   game_start(read_until_the_end, &lost[1]) };

        for (int i = 0; i < 3; i++)
            game_await(&victims[i]);
        random = random * 1664525u + 1013904223u;
        for (unsigned i = 0; i < random >> 27; i++) /* a moment that differs from round to round */
            line_client_call(&operator, "core.ping", NULL);
        for (unsigned i = 0; i < 3; i++)
            ck_assert_int_eq(game_kill(&victims[(i + (random >> 20)) % 3]), -SIGKILL);
        fixture_await_clients(&operator, 4);
    }
    fixture_await_descriptors(&engine, &operator, before);
    game_tell(&publisher);
    for (int i = 0; i < 2; i++) {
        game_await(&readers[i]);
        ck_assert_uint_le(process_descriptors(readers[i].pid), descriptors[i]);
        game_tell(&readers[i]);
        ck_assert_int_eq(game_end(&readers[i]), 0);
    }
    game_tell(&publisher);
    ck_assert_int_eq(game_end(&publisher), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event delivery");
    TCase *tcase = tcase_create("event delivery");
    SRunner *runner;
    int failed;

    signal(SIGPIPE, SIG_IGN);
    if (getenv("EC_EVENTS") != NULL || getenv("EC_KILL_ROUNDS") != NULL)
        tcase_set_timeout(tcase, 0); /* as long as that many take */
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, two_publishers_and_four_readers_agree_on_every_event);
    tcase_add_test(tcase, a_port_that_opens_while_a_closed_one_is_read_to_its_end_loses_nothing);
    tcase_add_test(tcase,
                   readers_that_are_lapped_at_full_speed_take_no_torn_event_and_count_exactly);
    tcase_add_test(tcase, payloads_of_64_MiB_go_through_blocks_that_are_used_again);
    tcase_add_test(tcase, who_is_killed_at_any_moment_takes_nobody_with_him);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
