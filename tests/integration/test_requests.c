/* Every request ends exactly once: with its reply, or with an error after its deadline. */
#include <engine-core/request.h>

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "foundation/real_time.h"
#include "support/daemon.h"
#include "support/fixture.h"
#include "support/game.h"

#define SECOND_NS 1000000000ll

#define QUESTION(FIELD, ARRAY) EC_REQUEST_FIELDS(FIELD) FIELD(uint64_t, number)
#define ANSWER(FIELD, ARRAY) EC_REQUEST_FIELDS(FIELD) FIELD(uint64_t, square)
EC_EVENT_STRUCT(question, "test.question", QUESTION);
EC_EVENT_STRUCT(answer, "test.answer", ANSWER);

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

/* ---- both sides ------------------------------------------------------------------------------ */

struct asking {
    struct ec_client *client;
    struct ec_publisher *publisher;
    struct ec_requester *requester;
};

struct replying {
    struct ec_client *client;
    struct ec_publisher *publisher;
    struct ec_replier *replier;
};

static struct ec_publisher *open_side(struct ec_client *client)
{
    struct ec_publisher_desc desc = { .ring_bytes = 4u << 20 };
    struct ec_publisher *publisher;

    GAME_CHECK(ec_event_type_register(client, question_desc(), NULL, NULL) == EC_OK);
    GAME_CHECK(ec_event_type_register(client, answer_desc(), NULL, NULL) == EC_OK);
    GAME_CHECK(ec_publisher_create(client, &desc, &publisher, NULL) == EC_OK);
    return publisher;
}

static struct asking ask(const char *name, uint32_t outstanding_max)
{
    struct asking asking = { .client = game_join(name, engine.socket_path) };
    struct ec_requester_desc desc = { .request = "test.question",
                                      .reply = "test.answer",
                                      .outstanding_max = outstanding_max };
    struct ec_error why = { 0 };
    int rc;

    desc.publisher = asking.publisher = open_side(asking.client);
    rc = ec_requester_create(asking.client, &desc, &asking.requester, &why);
    if (rc < 0)
        fprintf(stderr, "%s\n", why.text);
    GAME_CHECK(rc == EC_OK);
    return asking;
}

static void stop_asking(struct asking *asking)
{
    ec_requester_destroy(asking->requester);
    ec_publisher_destroy(asking->publisher);
    ec_client_destroy(asking->client);
}

static struct replying reply(const char *name)
{
    struct replying replying = { .client = game_join(name, engine.socket_path) };
    struct ec_replier_desc desc = { .request = "test.question", .reply = "test.answer" };

    desc.publisher = replying.publisher = open_side(replying.client);
    GAME_CHECK(ec_replier_create(replying.client, &desc, &replying.replier, NULL) == EC_OK);
    return replying;
}

static void stop_replying(struct replying *replying)
{
    ec_replier_destroy(replying->replier);
    ec_publisher_destroy(replying->publisher);
    ec_client_destroy(replying->client);
}

static bool answer_one(struct ec_replier *replier)
{
    struct ec_request request;
    struct answer *answer;
    int rc;

    if (ec_replier_next(replier, &request) != EC_OK)
        return false;
    rc = ec_replier_claim(replier, &request, sizeof *answer, (void **)&answer);
    GAME_CHECK(rc == EC_OK);
    answer->square = ((const struct question *)request.payload)->number;
    answer->square *= answer->square;
    GAME_CHECK(ec_replier_done(replier) == EC_OK);
    GAME_CHECK(ec_replier_send(replier, EC_OK) == EC_OK);
    return true;
}

/* Answers until it is killed. */
static int answer_all(const struct game_side *side)
{
    struct replying replying = reply("replier");

    game_say(side);
    for (;;) {
        GAME_CHECK(ec_replier_wait(replying.replier, -1) == EC_OK);
        while (answer_one(replying.replier))
            continue;
    }
}

struct question_asked {
    uint64_t number;
    int64_t not_before_ns; /* its deadline, or a little before */
    int status;            /* 1: no end yet */
    int ends;
};

static void on_answer(void *context, const struct ec_reply *reply)
{
    struct question_asked *asked = context;

    asked->status = reply->status;
    asked->ends++;
    if (reply->status == EC_ERR_TIMEOUT)
        GAME_CHECK(ec_real_ns() >= asked->not_before_ns);
    if (reply->status != EC_OK)
        return;
    GAME_CHECK(reply->bytes == sizeof(struct answer) && reply->sender != 0);
    GAME_CHECK(((const struct answer *)reply->payload)->square == asked->number * asked->number);
}

static int send_question(struct ec_requester *requester, struct question_asked *asked,
                         uint64_t number, int64_t timeout_ns)
{
    struct question *question;
    int rc = ec_requester_claim(requester, sizeof *question, (void **)&question);

    if (rc != EC_OK)
        return rc;
    *asked = (struct question_asked) { .number = number,
                                       .not_before_ns = ec_real_ns() + timeout_ns,
                                       .status = 1 };
    question->number = number;
    return ec_requester_send(requester, timeout_ns, on_answer, asked, NULL);
}

static void poll_until_none_is_left(struct ec_requester *requester)
{
    struct ec_requester_stats stats;

    do {
        GAME_CHECK(ec_requester_wait(requester, GAME_WAIT_NS) == EC_OK);
        ec_requester_poll(requester, 100);
        ec_requester_stats(requester, &stats);
    } while (stats.outstanding != 0);
}

/* ---- replies --------------------------------------------------------------------------------- */

#define QUESTIONS 20000u

static int ask_one_after_the_other(const struct game_side *side)
{
    struct asking asking = ask("asker", 0);
    struct question_asked asked;
    struct ec_requester_stats stats;

    (void)side;
    for (uint64_t n = 0; n < QUESTIONS; n++) {
        GAME_CHECK(send_question(asking.requester, &asked, n, 60 * SECOND_NS) == EC_OK);
        poll_until_none_is_left(asking.requester);
        GAME_CHECK(asked.ends == 1 && asked.status == EC_OK);
    }
    ec_requester_stats(asking.requester, &stats);
    GAME_CHECK(stats.sent == QUESTIONS && stats.replied == QUESTIONS && stats.late == 0 &&
               stats.timed_out == 0 && stats.refused == 0 && stats.outstanding == 0);
    stop_asking(&asking);
    return 0;
}

START_TEST(every_reply_finds_its_request_when_several_ask_at_once)
{
    struct game replier = game_start(answer_all, NULL), askers[2];

    game_await(&replier);
    for (int i = 0; i < 2; i++)
        askers[i] = game_start(ask_one_after_the_other, NULL);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(game_end(&askers[i]), 0);
    ck_assert_int_eq(game_kill(&replier), -SIGKILL);
}
END_TEST

#define OUTSTANDING 10000u

static int ask_ten_thousand_at_once(const struct game_side *side)
{
    struct asking asking = ask("asker", OUTSTANDING);
    struct question_asked *asked = calloc(OUTSTANDING + 1, sizeof *asked);
    struct ec_requester_stats stats;

    game_hear(side); /* the replier is there, and stopped */
    for (uint64_t n = 0; n < OUTSTANDING; n++)
        GAME_CHECK(send_question(asking.requester, &asked[n], n, 60 * SECOND_NS) == EC_OK);
    GAME_CHECK(send_question(asking.requester, &asked[OUTSTANDING], 0, 1) == EC_ERR_LIMIT);
    ec_requester_stats(asking.requester, &stats);
    GAME_CHECK(stats.outstanding == OUTSTANDING && stats.limited == 1);
    game_say(side);
    poll_until_none_is_left(asking.requester);
    for (uint64_t n = 0; n < OUTSTANDING; n++)
        GAME_CHECK(asked[n].ends == 1 && asked[n].status == EC_OK);
    ec_requester_stats(asking.requester, &stats);
    GAME_CHECK(stats.replied == OUTSTANDING && stats.timed_out == 0);
    free(asked);
    stop_asking(&asking);
    return 0;
}

START_TEST(ten_thousand_requests_wait_at_once_and_one_more_is_refused)
{
    struct game asker = game_start(ask_ten_thousand_at_once, NULL);
    struct game replier = game_start(answer_all, NULL);

    game_await(&replier);
    game_stop(&replier);
    game_tell(&asker);
    game_await(&asker);
    game_continue(&replier);
    ck_assert_int_eq(game_end(&asker), 0);
    ck_assert_int_eq(game_kill(&replier), -SIGKILL);
}
END_TEST

static int ask_without_a_daemon(const struct game_side *side)
{
    struct asking asking = ask("asker", 0);
    struct question_asked asked;

    game_say(side);
    game_hear(side); /* the daemon is dead */
    GAME_CHECK(send_question(asking.requester, &asked, 12, 60 * SECOND_NS) == EC_OK);
    poll_until_none_is_left(asking.requester);
    GAME_CHECK(asked.ends == 1 && asked.status == EC_OK);
    return 0;
}

START_TEST(requests_are_answered_while_there_is_no_daemon)
{
    struct game asker = game_start(ask_without_a_daemon, NULL);
    struct game replier = game_start(answer_all, NULL);
    struct daemon_process next = { 0 };

    game_await(&asker);
    game_await(&replier);
    ck_assert_int_eq(daemon_kill(&engine), -SIGKILL);
    game_tell(&asker);
    ck_assert_int_eq(game_end(&asker), 0);
    ck_assert_int_eq(game_kill(&replier), -SIGKILL);
    engine = next; /* for tear_down */
    ck_assert_msg(daemon_start(&engine, NULL), "%s", engine.why);
}
END_TEST

/* ---- no reply, or too late ------------------------------------------------------------------- */

static int ask_a_killed_replier(const struct game_side *side)
{
    struct asking asking = ask("asker", 0);
    struct question_asked asked[100];
    struct ec_requester_stats stats;

    game_hear(side);                   /* the replier is there, and stopped */
    for (uint64_t n = 0; n < 100; n++) /* deadlines that do not come in their order */
        GAME_CHECK(send_question(asking.requester, &asked[n], n,
                                 (int64_t)(100 + (n * 37) % 100) * 1000000) == EC_OK);
    game_say(side);
    poll_until_none_is_left(asking.requester);
    for (uint64_t n = 0; n < 100; n++)
        GAME_CHECK(asked[n].ends == 1 && asked[n].status == EC_ERR_TIMEOUT);
    ec_requester_stats(asking.requester, &stats);
    GAME_CHECK(stats.timed_out == 100 && stats.replied == 0 && stats.outstanding == 0);
    stop_asking(&asking);
    return 0;
}

START_TEST(requests_to_a_killed_replier_end_with_an_error_at_their_deadline)
{
    struct game asker = game_start(ask_a_killed_replier, NULL);
    struct game replier = game_start(answer_all, NULL);

    game_await(&replier);
    game_stop(&replier);
    game_tell(&asker);
    game_await(&asker);
    ck_assert_int_eq(game_kill(&replier), -SIGKILL);
    ck_assert_int_eq(game_end(&asker), 0);
}
END_TEST

static int ask_who_is_late(const struct game_side *side)
{
    struct asking asking = ask("asker", 0);
    struct question_asked asked, next;
    struct ec_requester_stats stats;

    game_hear(side);
    GAME_CHECK(send_question(asking.requester, &asked, 1, 20000000) == EC_OK);
    game_say(side);
    poll_until_none_is_left(asking.requester);
    GAME_CHECK(asked.ends == 1 && asked.status == EC_ERR_TIMEOUT);
    /* The next one takes the same slot; the late reply must not end it. */
    GAME_CHECK(send_question(asking.requester, &next, 2, 60 * SECOND_NS) == EC_OK);
    game_say(side);
    poll_until_none_is_left(asking.requester);
    GAME_CHECK(asked.ends == 1 && next.ends == 1 && next.status == EC_ERR_BUSY);
    ec_requester_stats(asking.requester, &stats);
    GAME_CHECK(stats.sent == 2 && stats.timed_out == 1 && stats.late == 1 && stats.replied == 1);
    stop_asking(&asking);
    return 0;
}

/* Keeps the first request and replies to it when its deadline has long passed, then to the second one. */
static int answer_late(const struct game_side *side)
{
    struct replying replying = reply("late replier");
    struct ec_request first, second;
    struct ec_replier_stats stats;
    void *payload;

    game_say(side);
    GAME_CHECK(ec_replier_wait(replying.replier, GAME_WAIT_NS) == EC_OK);
    while (ec_replier_next(replying.replier, &first) != EC_OK)
        GAME_CHECK(ec_replier_wait(replying.replier, GAME_WAIT_NS) == EC_OK);
    GAME_CHECK(ec_replier_done(replying.replier) == EC_OK);
    GAME_CHECK(ec_replier_done(replying.replier) == EC_ERR_STATE);
    game_say(side);
    game_hear(side); /* the first one timed out, the second one is sent */
    GAME_CHECK(ec_replier_send(replying.replier, EC_OK) == EC_ERR_STATE);
    GAME_CHECK(ec_replier_claim(replying.replier, &first, sizeof(struct answer), &payload) ==
               EC_OK);
    GAME_CHECK(ec_replier_send(replying.replier, EC_OK) == EC_OK);
    GAME_CHECK(ec_replier_wait(replying.replier, GAME_WAIT_NS) == EC_OK);
    GAME_CHECK(ec_replier_next(replying.replier, &second) == EC_OK);
    GAME_CHECK(second.head.correlation != first.head.correlation);
    GAME_CHECK(ec_replier_claim(replying.replier, &second, sizeof(struct answer), &payload) ==
               EC_OK);
    GAME_CHECK(ec_replier_done(replying.replier) == EC_OK);
    GAME_CHECK(ec_replier_send(replying.replier, EC_ERR_BUSY) == EC_OK);
    ec_replier_stats(replying.replier, &stats);
    GAME_CHECK(stats.requests == 2 && stats.replied == 2 && stats.expired == 0);
    game_hear(side);
    stop_replying(&replying);
    return 0;
}

START_TEST(a_reply_behind_the_deadline_is_dropped_and_counted)
{
    struct game replier = game_start(answer_late, NULL);
    struct game asker = game_start(ask_who_is_late, NULL);

    game_await(&replier);
    game_tell(&asker);
    game_await(&asker);
    game_await(&replier); /* it has the request */
    game_await(&asker);   /* it timed out, and the next one is sent */
    game_tell(&replier);
    ck_assert_int_eq(game_end(&asker), 0);
    game_tell(&replier);
    ck_assert_int_eq(game_end(&replier), 0);
}
END_TEST

static int read_requests_behind_their_deadline(const struct game_side *side)
{
    struct replying replying = reply("late replier");
    struct ec_replier_stats stats;
    struct ec_request request;

    game_say(side);
    game_hear(side); /* the deadline has passed */
    GAME_CHECK(ec_replier_next(replying.replier, &request) == EC_AGAIN);
    ec_replier_stats(replying.replier, &stats);
    GAME_CHECK(stats.requests == 0 && stats.expired == 1);
    stop_replying(&replying);
    return 0;
}

static int ask_and_give_up(const struct game_side *side)
{
    struct asking asking = ask("asker", 0);
    struct question_asked asked;

    game_hear(side);
    GAME_CHECK(send_question(asking.requester, &asked, 1, 1000) == EC_OK);
    poll_until_none_is_left(asking.requester);
    game_say(side);
    stop_asking(&asking);
    return 0;
}

START_TEST(a_request_that_is_read_behind_its_deadline_is_passed_over_and_counted)
{
    struct game replier = game_start(read_requests_behind_their_deadline, NULL);
    struct game asker = game_start(ask_and_give_up, NULL);

    game_await(&replier);
    game_tell(&asker);
    game_await(&asker);
    game_tell(&replier);
    ck_assert_int_eq(game_end(&asker), 0);
    ck_assert_int_eq(game_end(&replier), 0);
}
END_TEST

static int cancel_and_destroy(const struct game_side *side)
{
    struct asking asking = ask("asker", 3);
    struct question_asked asked[3] = { 0 };
    struct ec_requester_stats stats;
    struct question *question;
    uint64_t correlation;

    (void)side;
    GAME_CHECK(send_question(asking.requester, &asked[0], 0, 60 * SECOND_NS) == EC_OK);
    GAME_CHECK(send_question(asking.requester, &asked[1], 1, 60 * SECOND_NS) == EC_OK);
    GAME_CHECK(ec_requester_claim(asking.requester, sizeof *question, (void **)&question) == EC_OK);
    GAME_CHECK(ec_requester_send(asking.requester, 0, on_answer, &asked[2], NULL) == EC_ERR_PARAM);
    GAME_CHECK(ec_requester_send(asking.requester, 1, NULL, NULL, NULL) == EC_ERR_PARAM);
    GAME_CHECK(ec_requester_send(asking.requester, INT64_MAX, on_answer, &asked[2], &correlation) ==
               EC_OK);
    GAME_CHECK(ec_requester_send(asking.requester, 1, on_answer, &asked[2], NULL) == EC_ERR_STATE);
    GAME_CHECK(ec_requester_cancel(asking.requester, correlation) == EC_OK);
    GAME_CHECK(ec_requester_cancel(asking.requester, correlation) == EC_ERR_STALE);
    GAME_CHECK(ec_requester_wait(asking.requester, 0) == EC_ERR_TIMEOUT);
    GAME_CHECK(ec_requester_poll(asking.requester, 10) == 0);
    ec_requester_stats(asking.requester, &stats);
    GAME_CHECK(stats.sent == 3 && stats.outstanding == 2);
    stop_asking(&asking);
    for (int i = 0; i < 2; i++)
        GAME_CHECK(asked[i].ends == 1 && asked[i].status == EC_ERR_STATE);
    GAME_CHECK(asked[2].ends == 0);
    return 0;
}

START_TEST(a_cancelled_request_is_forgotten_and_destroying_ends_the_others)
{
    struct game asker = game_start(cancel_and_destroy, NULL);

    ck_assert_int_eq(game_end(&asker), 0);
}
END_TEST

/* ---- what makes no sense --------------------------------------------------------------------- */

static int ask_among_strangers(const struct game_side *side)
{
    struct asking asking = ask("asker", 0);
    struct question_asked asked;
    struct ec_requester_stats stats;

    GAME_CHECK(send_question(asking.requester, &asked, 3, SECOND_NS / 2) == EC_OK);
    game_say(side);
    game_hear(side); /* strangers have replied */
    poll_until_none_is_left(asking.requester);
    GAME_CHECK(asked.ends == 1 && asked.status == EC_ERR_TIMEOUT);
    ec_requester_stats(asking.requester, &stats);
    GAME_CHECK(stats.replied == 0 && stats.late == 0 && stats.timed_out == 1);
    stop_asking(&asking);
    return 0;
}

static const char *const strange_replies[] = {
    "{\"type\":\"test.answer\",\"payload\":{}}",
    ("{\"type\":\"test.answer\",\"payload\":{\"correlation\":18446744073709551615,"
     "\"requester\":18446744073709551615,\"status\":-9223372036854775808}}"),
    "{\"type\":\"test.answer\",\"payload\":{\"correlation\":4294967296}}",
};

START_TEST(replies_to_nobody_change_nothing)
{
    struct game asker = game_start(ask_among_strangers, NULL);

    game_await(&asker);
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_nonnull(strstr(
            line_client_call(&operator, "event.publish", strange_replies[i]), "\"sequence\":"));
    game_tell(&asker);
    ck_assert_int_eq(game_end(&asker), 0);
}
END_TEST

static int create_wrongly(const struct game_side *side)
{
    struct ec_client *client = game_join("asker", engine.socket_path);
    struct ec_requester_desc desc = { .request = "test.question", .reply = "test.answer" };
    struct ec_requester *requester;
    struct ec_replier *replier;
    struct ec_error why = { 0 };
    void *payload;

    (void)side;
    GAME_CHECK(ec_requester_create(client, &desc, &requester, &why) == EC_ERR_PARAM);
    GAME_CHECK(strstr(why.text, "publisher") != NULL && requester == NULL);
    desc.publisher = open_side(client);
    desc.reply = "test.nothing";
    GAME_CHECK(ec_requester_create(client, &desc, &requester, &why) == EC_ERR_TYPE);
    GAME_CHECK(strstr(why.text, "test.nothing") != NULL);
    GAME_CHECK(ec_event_type_register(
                   client, &(struct ec_event_type_desc) { .name = "test.short", .max_bytes = 31 },
                   NULL, NULL) == EC_OK);
    desc.reply = "test.short";
    GAME_CHECK(ec_requester_create(client, &desc, &requester, &why) == EC_ERR_SIZE);
    GAME_CHECK(strstr(why.text, "test.short") != NULL && strstr(why.text, "31") != NULL);
    GAME_CHECK(ec_replier_create(client,
                                 &(struct ec_replier_desc) { .publisher = desc.publisher,
                                                             .request = "test.question" },
                                 &replier, &why) == EC_ERR_PARAM);
    GAME_CHECK(strstr(why.text, "reply") != NULL && replier == NULL);
    desc.reply = "test.answer";
    desc.outstanding_max = EC_REQUESTS_OUTSTANDING_MAX + 1;
    GAME_CHECK(ec_requester_create(client, &desc, &requester, &why) == EC_ERR_PARAM);
    GAME_CHECK(strstr(why.text, "65537") != NULL);
    desc.outstanding_max = 1;
    GAME_CHECK(ec_requester_create(client, &desc, &requester, &why) == EC_OK);
    GAME_CHECK(ec_requester_claim(requester, sizeof(struct ec_request_head) - 1, &payload) ==
               EC_ERR_SIZE);
    GAME_CHECK(ec_requester_claim(requester, sizeof(struct question) + 1, &payload) == EC_ERR_SIZE);
    ec_requester_destroy(requester);
    ec_publisher_destroy(desc.publisher);
    ec_client_destroy(client);
    return 0;
}

START_TEST(what_is_missing_or_too_small_is_named)
{
    struct game asker = game_start(create_wrongly, NULL);

    ck_assert_int_eq(game_end(&asker), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("requests");
    TCase *tcase = tcase_create("requests");
    SRunner *runner;
    int failed;

    signal(SIGPIPE, SIG_IGN);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, every_reply_finds_its_request_when_several_ask_at_once);
    tcase_add_test(tcase, ten_thousand_requests_wait_at_once_and_one_more_is_refused);
    tcase_add_test(tcase, requests_are_answered_while_there_is_no_daemon);
    tcase_add_test(tcase, requests_to_a_killed_replier_end_with_an_error_at_their_deadline);
    tcase_add_test(tcase, a_reply_behind_the_deadline_is_dropped_and_counted);
    tcase_add_test(tcase, a_request_that_is_read_behind_its_deadline_is_passed_over_and_counted);
    tcase_add_test(tcase, a_cancelled_request_is_forgotten_and_destroying_ends_the_others);
    tcase_add_test(tcase, replies_to_nobody_change_nothing);
    tcase_add_test(tcase, what_is_missing_or_too_small_is_named);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
