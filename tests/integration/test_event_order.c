/* Where a reader starts and in which order it reads the ports of several processes. */
#include <engine-core/clock.h>
#include <engine-core/publisher.h>
#include <engine-core/subscriber.h>

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "support/daemon.h"
#include "support/fixture.h"
#include "support/game.h"

#define MARK(FIELD, ARRAY) FIELD(uint32_t, who) FIELD(uint32_t, number)
EC_EVENT_STRUCT(mark, "test.mark", MARK);
EC_EVENT_STRUCT(end, "test.end", MARK);

#define MARKS_MAX 4096

/* What a reader saw, in its order; shared with the test. */
struct seen {
    uint32_t count;
    uint64_t overdue;
    struct {
        uint64_t step;
        struct mark mark;
    } row[MARKS_MAX];
};

static struct daemon_process engine;
static struct line_client operator;
static struct seen *seen;

static void set_up(void)
{
    fixture_start(&engine, &operator, NULL);
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(seen, MAP_FAILED);
}

static void tear_down(void)
{
    munmap(seen, sizeof *seen);
    fixture_stop(&engine, &operator);
}

static struct ec_client *join(const char *name)
{
    struct ec_client *client = game_join(name, engine.socket_path);

    GAME_CHECK(ec_event_type_register(client, mark_desc(), NULL, NULL) == EC_OK);
    GAME_CHECK(ec_event_type_register(client, end_desc(), NULL, NULL) == EC_OK);
    return client;
}

static struct ec_publisher *open_port(struct ec_client *client, const char *name)
{
    struct ec_publisher *publisher;

    GAME_CHECK(ec_publisher_create(client, &(struct ec_publisher_desc) { .name = name }, &publisher,
                                   NULL) == EC_OK);
    return publisher;
}

static void publish(struct ec_publisher *publisher, uint64_t type, uint32_t who, uint32_t number)
{
    struct mark mark = { .who = who, .number = number };

    GAME_CHECK(ec_publisher_publish(publisher, type, &mark, sizeof mark) == EC_OK);
}

/* Read marks until so many ports have ended. */
static void read_marks(struct ec_subscriber *subscriber, int ends)
{
    struct ec_subscriber_stats stats;
    struct ec_event event;

    while (ends > 0) {
        GAME_CHECK(ec_subscriber_wait(subscriber, GAME_WAIT_NS) == EC_OK);
        while (ends > 0 && ec_subscriber_next(subscriber, &event) == EC_OK) {
            struct mark mark = *(const struct mark *)event.payload;

            GAME_CHECK(ec_subscriber_done(subscriber) == EC_OK);
            if (event.type == end_type()) {
                ends--;
                continue;
            }
            GAME_CHECK(event.type == mark_type() && seen->count < MARKS_MAX);
            seen->row[seen->count].step = event.step;
            seen->row[seen->count++].mark = mark;
        }
    }
    ec_subscriber_stats(subscriber, &stats);
    GAME_CHECK(stats.lost_events == 0);
    seen->overdue = stats.overdue;
}

static struct ec_subscriber *open_subscriber(struct ec_client *client,
                                             struct ec_subscriber_desc desc)
{
    struct ec_subscriber *subscriber;

    desc.types = (const char *[]) { "test.mark", "test.end" };
    desc.type_count = 2;
    GAME_CHECK(ec_subscriber_create(client, &desc, &subscriber, NULL) == EC_OK);
    return subscriber;
}

static int read_in_order(const struct game_side *side)
{
    const struct ec_subscriber_desc *desc = side->context;
    struct ec_client *client = join("reader");
    struct ec_subscriber *subscriber = open_subscriber(client, *desc);

    game_say(side);
    if (desc->order == EC_ORDER_TIME)
        game_hear(side); /* all is published: it is merged as a whole */
    read_marks(subscriber, 3);
    ec_subscriber_destroy(subscriber);
    ec_client_destroy(client);
    return 0;
}

/* ---- by step --------------------------------------------------------------------------------- */

#define STEPS 50u

/* Three ports of two clients, in the order that the merge promises: by client name, then by port name. */
static const struct ports {
    const char *client, *port[2];
    uint32_t count, who;
} alpha = { "alpha", { "main" }, 1, 0 }, beta = { "beta", { "east", "west" }, 2, 1 };

static uint32_t events_of(uint64_t step, uint32_t who)
{
    return (uint32_t)(step * 7 + who * 3) % 5;
}

/* Publishes each time it is told, in the step that is then. */
static int publish_by_steps(const struct game_side *side)
{
    const struct ports *ports = side->context;
    struct ec_client *client = join(ports->client);
    struct ec_publisher *publisher[2] = { NULL, NULL };
    uint32_t number[2] = { 0, 0 };
    struct ec_step_clock physics;
    uint64_t first, now;

    for (uint32_t i = ports->count; i-- > 0;)
        publisher[i] = open_port(client, ports->port[i]);
    GAME_CHECK(ec_step_find(client, "physics", &physics) == EC_OK);
    first = ec_step_index(&physics);
    game_say(side);
    do {
        game_hear(side);
        now = ec_step_index(&physics);
        for (uint32_t i = ports->count; i-- > 0;) {
            if (now - first == STEPS)
                publish(publisher[i], end_type(), ports->who + i, 0);
            for (uint32_t n = events_of(now - first, ports->who + i); n > 0; n--)
                publish(publisher[i], mark_type(), ports->who + i, number[i]++);
            ec_publisher_step_passed(publisher[i], now);
        }
        game_say(side);
    } while (now - first != STEPS);
    game_hear(side);
    for (uint32_t i = 0; i < ports->count; i++)
        ec_publisher_destroy(publisher[i]);
    ec_client_destroy(client);
    return 0;
}

static void advance(void)
{
    ck_assert(line_has(
        line_client_call(&operator, "clock.step.advance", "{\"name\":\"physics\",\"steps\":1}"),
        "advanced", "1"));
}

/* Run all steps; who is told first is another one in each step and in each run. */
static void run_steps(bool alpha_comes_first)
{
    struct ec_subscriber_desc desc = { .order = EC_ORDER_STEP, .overdue_ms = 60000 };
    struct game games[2], reader;

    games[0] = game_start(publish_by_steps, alpha_comes_first ? &alpha : &beta);
    game_await(&games[0]);
    games[1] = game_start(publish_by_steps, alpha_comes_first ? &beta : &alpha);
    game_await(&games[1]);
    reader = game_start(read_in_order, &desc);
    game_await(&reader);
    for (uint32_t step = 1; step <= STEPS; step++) {
        advance();
        for (uint32_t i = 0; i < 2; i++) {
            game_tell(&games[(step + i) % 2]);
            game_await(&games[(step + i) % 2]);
        }
    }
    ck_assert_int_eq(game_end(&reader), 0);
    for (int i = 0; i < 2; i++) {
        game_tell(&games[i]);
        ck_assert_int_eq(game_end(&games[i]), 0);
    }
}

START_TEST(two_runs_read_the_same_events_in_the_same_order)
{
    struct seen *first = malloc(sizeof *first);
    uint32_t at = 0, number[3] = { 0 };
    uint64_t step;

    ck_assert(line_has(line_client_call(&operator, "clock.pause", NULL), "paused", "true"));
    run_steps(true);
    *first = *seen;
    seen->count = 0;
    run_steps(false);
    ck_assert_uint_eq(first->count, seen->count);
    ck_assert_uint_gt(first->count, STEPS);
    ck_assert_uint_eq(first->overdue + seen->overdue, 0);
    step = seen->row[0].step - 1; /* the one before the first */
    for (uint32_t s = 1; s < STEPS; s++) {
        for (uint32_t who = 0; who < 3; who++) {
            for (uint32_t n = events_of(s, who); n > 0; n--, at++) {
                ck_assert_uint_eq(seen->row[at].step, step + s);
                ck_assert_uint_eq(seen->row[at].mark.who, who);
                ck_assert_uint_eq(seen->row[at].mark.number, number[who]++);
                ck_assert_mem_eq(&seen->row[at].mark, &first->row[at].mark, sizeof(struct mark));
            }
        }
    }
    free(first);
}
END_TEST

/* Has a port and never says that it passed a step. */
static int hold_everybody_up(const struct game_side *side)
{
    struct ec_client *client = join("sleeper");
    struct ec_publisher *publisher = open_port(client, "main");

    game_say(side);
    game_hear(side);
    ec_publisher_destroy(publisher);
    ec_client_destroy(client);
    return 0;
}

#define TOLD_STEPS 60

/* It may be told of a step by its own timer, before the daemon announces it. Its second client is not
 * told, but says itself that the step before is over. */
static int publish_in_step(const struct game_side *side)
{
    struct ec_client *client = join("game"), *second = join("second");
    struct ec_publisher *ports[] = { open_port(client, "main"), open_port(second, "main") };
    struct ec_subscriber *subscriber = open_subscriber(client, (struct ec_subscriber_desc) { 0 });
    struct ec_step_clock physics;
    struct ec_event event;
    struct ec_step step;

    (void)side;
    GAME_CHECK(ec_step_find(client, "physics", &physics) == EC_OK);
    for (uint32_t n = 0; n < TOLD_STEPS; n++) {
        do
            GAME_CHECK(ec_step_wait(&physics, GAME_WAIT_NS, &step) == EC_OK);
        while (step.steps_passed == 0);
        GAME_CHECK(ec_step_index(&physics) >= step.step);
        ec_publisher_step_passed(ports[1], step.step - 1);
        for (int i = 0; i < 2; i++) {
            publish(ports[i], mark_type(), 0, n);
            GAME_CHECK(ec_subscriber_wait(subscriber, GAME_WAIT_NS) == EC_OK);
            GAME_CHECK(ec_subscriber_next(subscriber, &event) == EC_OK);
            GAME_CHECK(event.step >= step.step);
            GAME_CHECK(ec_subscriber_done(subscriber) == EC_OK);
        }
    }
    ec_subscriber_destroy(subscriber);
    for (int i = 0; i < 2; i++)
        ec_publisher_destroy(ports[i]);
    ec_client_destroy(client);
    ec_client_destroy(second);
    return 0;
}

/* A batch has one stamp, but it may go on when a step is over. */
static int publish_a_batch(const struct game_side *side)
{
    struct ec_client *client = join("game");
    struct ec_publisher *publisher = open_port(client, "main");
    struct ec_subscriber *subscriber = open_subscriber(client, (struct ec_subscriber_desc) { 0 });
    struct ec_step_clock physics;
    uint64_t passed = 0;
    struct ec_event event;
    struct ec_step step;

    (void)side;
    GAME_CHECK(ec_step_find(client, "physics", &physics) == EC_OK);
    do
        GAME_CHECK(ec_step_wait(&physics, GAME_WAIT_NS, &step) == EC_OK);
    while (step.step == 0);
    ec_publisher_batch_begin(publisher);
    for (uint32_t n = 0; n < 2; n++) {
        publish(publisher, mark_type(), 0, n);
        ec_publisher_step_passed(publisher, passed); /* makes the event visible */
        GAME_CHECK(ec_subscriber_wait(subscriber, GAME_WAIT_NS) == EC_OK);
        GAME_CHECK(ec_subscriber_next(subscriber, &event) == EC_OK);
        GAME_CHECK(n == 0 || event.step > passed);
        passed = event.step;
        GAME_CHECK(ec_subscriber_done(subscriber) == EC_OK);
        ec_publisher_step_passed(publisher, passed);
    }
    ec_publisher_batch_end(publisher);
    ec_subscriber_destroy(subscriber);
    ec_publisher_destroy(publisher);
    ec_client_destroy(client);
    return 0;
}

START_TEST(a_batch_has_nothing_of_a_step_that_its_publisher_said_is_over)
{
    struct game game = game_start(publish_a_batch, NULL);

    ck_assert_int_eq(game_end(&game), 0);
}
END_TEST

START_TEST(an_event_belongs_to_the_step_that_its_publisher_was_told_of)
{
    struct game game = game_start(publish_in_step, NULL);

    ck_assert_int_eq(game_end(&game), 0);
}
END_TEST

START_TEST(a_port_that_is_overdue_is_no_longer_waited_for_and_counted)
{
    struct ec_subscriber_desc desc = { .order = EC_ORDER_STEP, .overdue_ms = 20 };
    struct game sleeper = game_start(hold_everybody_up, NULL), games[2], reader;

    ck_assert(line_has(line_client_call(&operator, "clock.pause", NULL), "paused", "true"));
    game_await(&sleeper);
    games[0] = game_start(publish_by_steps, &alpha);
    games[1] = game_start(publish_by_steps, &beta);
    for (int i = 0; i < 2; i++)
        game_await(&games[i]);
    reader = game_start(read_in_order, &desc);
    game_await(&reader);
    for (uint32_t step = 1; step <= STEPS; step++) {
        advance();
        for (int i = 0; i < 2; i++) {
            game_tell(&games[i]);
            game_await(&games[i]);
        }
    }
    ck_assert_int_eq(game_end(&reader), 0); /* it did not wait for ever */
    ck_assert_uint_ge(seen->overdue, 1);
    ck_assert_uint_gt(seen->count, STEPS);
    for (int i = 0; i < 2; i++) {
        game_tell(&games[i]);
        ck_assert_int_eq(game_end(&games[i]), 0);
    }
    game_tell(&sleeper);
    ck_assert_int_eq(game_end(&sleeper), 0);
}
END_TEST

/* ---- by time --------------------------------------------------------------------------------- */

#define TURNS 300u

static int publish_by_turns(const struct game_side *side)
{
    const uint32_t *who = side->context;
    struct ec_client *client = join("publisher");
    struct ec_publisher *publisher = open_port(client, "main");

    game_say(side);
    for (uint32_t n = 0; n < TURNS; n++) {
        game_hear(side);
        publish(publisher, mark_type(), *who, n);
        game_say(side);
    }
    publish(publisher, end_type(), *who, 0);
    game_say(side);
    game_hear(side);
    ec_publisher_destroy(publisher);
    ec_client_destroy(client);
    return 0;
}

START_TEST(ports_are_merged_by_the_time_of_their_events)
{
    static const uint32_t who[3] = { 0, 1, 2 };
    struct ec_subscriber_desc desc = { .order = EC_ORDER_TIME };
    struct game games[3], reader;

    for (int i = 0; i < 3; i++) {
        games[i] = game_start(publish_by_turns, &who[i]);
        game_await(&games[i]);
    }
    reader = game_start(read_in_order, &desc);
    game_await(&reader);
    for (uint32_t turn = 0; turn < 3 * TURNS; turn++) {
        game_tell(&games[turn % 3]);
        game_await(&games[turn % 3]);
    }
    for (int i = 0; i < 3; i++)
        game_await(&games[i]); /* the ends */
    game_tell(&reader);
    ck_assert_int_eq(game_end(&reader), 0);
    ck_assert_uint_eq(seen->count, 3 * TURNS);
    for (uint32_t turn = 0; turn < 3 * TURNS; turn++) {
        ck_assert_uint_eq(seen->row[turn].mark.who, turn % 3);
        ck_assert_uint_eq(seen->row[turn].mark.number, turn / 3);
    }
    for (int i = 0; i < 3; i++) {
        game_tell(&games[i]);
        ck_assert_int_eq(game_end(&games[i]), 0);
    }
}
END_TEST

/* ---- where to start -------------------------------------------------------------------------- */

#define BEFORE 100u
#define KEYFRAME 50u

static int publish_before_and_after(const struct game_side *side)
{
    struct ec_client *client = join("publisher");
    struct ec_publisher *publisher = open_port(client, "main");

    for (uint32_t n = 0; n < BEFORE + 10; n++) {
        if (n == KEYFRAME)
            ec_publisher_keyframe(publisher);
        if (n == BEFORE) {
            game_say(side);
            game_hear(side); /* the late joiner is there */
        }
        publish(publisher, mark_type(), 0, n);
    }
    publish(publisher, end_type(), 0, 0);
    game_hear(side);
    ec_publisher_destroy(publisher);
    ec_client_destroy(client);
    return 0;
}

static int read_from_the_start(const struct game_side *side)
{
    const struct ec_subscriber_desc *desc = side->context;
    struct ec_client *client = join("reader");
    struct ec_subscriber *subscriber = open_subscriber(client, *desc);

    game_say(side);
    read_marks(subscriber, 1);
    ec_subscriber_destroy(subscriber);
    ec_client_destroy(client);
    return 0;
}

static const struct {
    struct ec_subscriber_desc desc;
    uint32_t first;
} starts[] = {
    { { .start = EC_START_TAIL }, BEFORE },
    { { .start = EC_START_KEYFRAME }, KEYFRAME },
    { { .start = EC_START_HISTORY, .history = 10 }, BEFORE - 10 },
    { { .start = EC_START_HISTORY, .history = 4095 }, 0 },
    { { .start = EC_START_KEYFRAME, .policy = EC_EVENT_LOSSY }, KEYFRAME },
    { { .start = EC_START_KEYFRAME, .order = EC_ORDER_TIME }, KEYFRAME },
};

START_TEST(a_late_joiner_starts_where_it_asked_to_and_misses_nothing_behind)
{
    struct game publisher = game_start(publish_before_and_after, NULL), reader;

    game_await(&publisher);
    reader = game_start(read_from_the_start, &starts[_i].desc);
    game_await(&reader);
    game_tell(&publisher);
    ck_assert_int_eq(game_end(&reader), 0);
    ck_assert_uint_eq(seen->count, BEFORE + 10 - starts[_i].first);
    for (uint32_t i = 0; i < seen->count; i++)
        ck_assert_uint_eq(seen->row[i].mark.number, starts[_i].first + i);
    game_tell(&publisher);
    ck_assert_int_eq(game_end(&publisher), 0);
}
END_TEST

static const struct {
    struct ec_subscriber_desc desc;
    const char *names;
} bad_descs[] = {
    { { .policy = EC_EVENT_LOSSY + 1 }, "policy 2" },
    { { .start = EC_START_HISTORY + 1 }, "start 3" },
    { { .order = EC_ORDER_STEP + 1 }, "order 3" },
    { { .start = EC_START_HISTORY }, "1..4095" },
    { { .start = EC_START_HISTORY, .history = 4096 }, "1..4095" },
    { { .history = 1 }, "EC_START_HISTORY" },
    { { .spin_ns = 100001 }, "0..100000" },
    { { .type_count = 33 }, "at most 32" },
};

START_TEST(a_subscriber_that_makes_no_sense_is_refused_and_says_why)
{
    struct ec_client *client = join("odd");
    struct ec_subscriber *subscriber = NULL;
    struct ec_error why = { 0 };

    ck_assert_int_eq(ec_subscriber_create(client, &bad_descs[_i].desc, &subscriber, &why),
                     EC_ERR_PARAM);
    ck_assert_msg(strstr(why.text, bad_descs[_i].names) != NULL, "%s", why.text);
    ec_client_destroy(client);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event order");
    TCase *tcase = tcase_create("event order");
    SRunner *runner;
    int failed;

    signal(SIGPIPE, SIG_IGN);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, two_runs_read_the_same_events_in_the_same_order);
    tcase_add_test(tcase, an_event_belongs_to_the_step_that_its_publisher_was_told_of);
    tcase_add_test(tcase, a_batch_has_nothing_of_a_step_that_its_publisher_said_is_over);
    tcase_add_test(tcase, a_port_that_is_overdue_is_no_longer_waited_for_and_counted);
    tcase_add_test(tcase, ports_are_merged_by_the_time_of_their_events);
    tcase_add_loop_test(tcase, a_late_joiner_starts_where_it_asked_to_and_misses_nothing_behind, 0,
                        (int)(sizeof starts / sizeof starts[0]));
    tcase_add_loop_test(tcase, a_subscriber_that_makes_no_sense_is_refused_and_says_why, 0,
                        (int)(sizeof bad_descs / sizeof bad_descs[0]));
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
