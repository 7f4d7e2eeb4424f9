/* What a process allocated is seen from outside: while it lives, and as it was when it was killed. */
#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <engine-core/arena.h>
#include <engine-core/client.h>
#include <engine-core/pool.h>

#include "support/daemon.h"
#include "support/game.h"

static struct daemon_process engine;
static struct line_client operator;

static void set_up(void)
{
    ck_assert_msg(daemon_start(&engine, NULL), "%s", engine.why);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    ck_assert_ptr_nonnull(line_client_hello(&operator, "operator"));
}

static void tear_down(void)
{
    line_client_close(&operator);
    ck_assert_int_eq(daemon_stop(&engine), 0);
}

/* What a game of the tests holds. */
struct holdings {
    struct ec_client *client;
    struct ec_arena *frame;
    struct ec_pool *sparks;
    uint32_t loot; /* a tag of its own */
    void *blocks[1000];
};

static const char *hold(struct holdings *game)
{
    static struct ec_error why;
    const struct ec_client_desc desc = { .name = "game",
                                         .socket_path = engine.socket_path,
                                         .timeout_ms = DAEMON_WAIT_MS };

    if (ec_client_create(&desc, &game->client, &why) < 0 ||
        ec_tag_register(game->client, "loot", 123456, &game->loot, &why) < 0 ||
        ec_arena_create(
            &(struct ec_arena_desc) {
                .client = game->client, .name = "frame", .tag = EC_TAG_RENDERING, .bytes = 65536 },
            &game->frame, &why) < 0 ||
        ec_pool_create(
            &(struct ec_pool_desc) {
                .client = game->client, .name = "sparks", .tag = game->loot, .block_bytes = 64 },
            &game->sparks, &why) < 0)
        return why.text;
    return NULL;
}

static void *free_half(void *context)
{
    struct holdings *game = context;

    for (int i = 0; i < 1000; i += 2)
        ec_pool_free(game->sparks, game->blocks[i]);
    return NULL;
}

/* 100 x 32 bytes and one refusal in the arena; 1,000 x 64 bytes in the pool, of which another thread
 * frees the half. */
static const char *allocate(struct holdings *game)
{
    pthread_t thread;

    for (int i = 0; i < 100; i++)
        if (ec_arena_alloc(game->frame, 32, 16) == NULL)
            return "the arena is full";
    if (ec_arena_alloc(game->frame, 65536, 16) != NULL)
        return "the arena is larger than it is";
    for (int i = 0; i < 1000; i++) {
        game->blocks[i] = ec_pool_alloc(game->sparks);
        if (game->blocks[i] == NULL)
            return "the pool is full";
    }
    if (pthread_create(&thread, NULL, free_half, game) != 0 || pthread_join(thread, NULL) != 0)
        return "no thread";
    return NULL;
}

static void let_go(struct holdings *game)
{
    ec_arena_destroy(game->frame);
    ec_pool_destroy(game->sparks);
    ec_client_destroy(game->client);
}

/* The report's object that has this member, up to its end; it holds no other object. */
static const char *object_with(const char *report, const char *name, const char *value)
{
    static char object[1024];
    const char *begin;

    for (begin = strchr(report, '{'); begin != NULL; begin = strchr(begin + 1, '{')) {
        const char *end = begin + strcspn(begin + 1, "{}") + 1;
        const size_t bytes = (size_t)(end - begin) + 1;

        if (*end != '}' || bytes >= sizeof object)
            continue;
        memcpy(object, begin, bytes);
        object[bytes] = '\0';
        if (line_has(object, name, value))
            return object;
    }
    ck_abort_msg("no object with %s %s in: %s", name, value, report);
    return NULL;
}

static void check_report(const char *report)
{
    const char *tag = object_with(report, "tag", "\"rendering\"");
    const char *allocator;

    ck_assert_msg(line_has(tag, "bytes", "3200"), "%s", tag);
    ck_assert_msg(line_has(tag, "count", "100"), "%s", tag);
    tag = object_with(report, "tag", "\"loot\"");
    ck_assert_msg(line_has(tag, "bytes", "32000"), "%s", tag);
    ck_assert_msg(line_has(tag, "count", "500"), "%s", tag);
    ck_assert_msg(line_has(tag, "budget_bytes", "123456"), "%s", tag);

    allocator = object_with(report, "name", "\"frame\"");
    ck_assert_msg(line_has(allocator, "kind", "\"arena\""), "%s", allocator);
    ck_assert_msg(line_has(allocator, "tag", "\"rendering\""), "%s", allocator);
    ck_assert_msg(line_has(allocator, "current_bytes", "3200"), "%s", allocator);
    ck_assert_msg(line_has(allocator, "capacity_bytes", "65536"), "%s", allocator);
    ck_assert_msg(line_has(allocator, "count", "100"), "%s", allocator);
    ck_assert_msg(line_has(allocator, "total", "100"), "%s", allocator);
    ck_assert_msg(line_has(allocator, "failed", "1"), "%s", allocator);

    allocator = object_with(report, "name", "\"sparks\"");
    ck_assert_msg(line_has(allocator, "kind", "\"pool\""), "%s", allocator);
    ck_assert_msg(line_has(allocator, "tag", "\"loot\""), "%s", allocator);
    ck_assert_msg(line_has(allocator, "current_bytes", "32000"), "%s", allocator);
    ck_assert_msg(line_has(allocator, "count", "500"), "%s", allocator);
    ck_assert_msg(line_has(allocator, "total", "1000"), "%s", allocator);
    ck_assert_msg(line_has(allocator, "failed", "0"), "%s", allocator);
}

static const char *report_of(pid_t pid)
{
    char params[64];

    snprintf(params, sizeof params, "{\"pid\":%d}", (int)pid);
    return line_client_call(&operator, "memory.report", params);
}

START_TEST(a_live_process_is_reported_as_it_is)
{
    struct holdings game = { 0 };
    const char *fault = hold(&game);
    const char *report;
    struct ec_tag_stats stats;

    ck_assert_msg(fault == NULL, "%s", fault);
    fault = allocate(&game);
    ck_assert_msg(fault == NULL, "%s", fault);
    report = report_of(getpid());
    ck_assert_msg(line_has(report, "alive", "true"), "%s", report);
    check_report(report);
    ck_assert_int_eq(ec_tag_stats(game.client, game.loot, &stats), EC_OK);
    ck_assert_uint_eq(stats.current_bytes, 32000);
    ck_assert_uint_eq(stats.count, 500);
    ck_assert_uint_eq(stats.total, 1000);
    ck_assert_uint_ge(stats.peak_bytes, 64 * (1000 - 128));
    ck_assert_uint_eq(stats.budget_bytes, 123456);
    ck_assert_int_eq(ec_tag_stats(game.client, game.loot + 1, &stats), EC_ERR_PARAM);

    ec_arena_reset(game.frame);
    report = report_of(getpid());
    ck_assert(line_has(object_with(report, "tag", "\"rendering\""), "bytes", "0"));
    ck_assert(line_has(object_with(report, "name", "\"frame\""), "peak_bytes", "3200"));
    let_go(&game);
}
END_TEST

START_TEST(the_names_of_the_tags_are_there_from_the_attach)
{
    struct holdings game = { 0 };
    const char *fault = hold(&game);
    const char *report;

    ck_assert_msg(fault == NULL, "%s", fault);
    report = report_of(getpid());
    object_with(report, "tag", "\"general\"");
    object_with(report, "tag", "\"temporary\"");
    let_go(&game);
}
END_TEST

START_TEST(destroyed_allocators_leave_the_report_and_their_tag)
{
    struct holdings game = { 0 };
    const char *fault = hold(&game);
    const char *report;

    ck_assert_msg(fault == NULL, "%s", fault);
    fault = allocate(&game);
    ck_assert_msg(fault == NULL, "%s", fault);
    ec_arena_destroy(game.frame);
    ec_pool_destroy(game.sparks);
    game.frame = NULL;
    game.sparks = NULL;
    report = report_of(getpid());
    ck_assert(!line_has(report, "name", "\"frame\""));
    ck_assert(!line_has(report, "name", "\"sparks\""));
    ck_assert(line_has(object_with(report, "tag", "\"loot\""), "bytes", "0"));
    ck_assert(line_has(object_with(report, "tag", "\"rendering\""), "bytes", "0"));
    let_go(&game);
}
END_TEST

static int allocate_and_wait(const struct game_side *side)
{
    struct holdings game = { 0 };

    GAME_CHECK(hold(&game) == NULL);
    GAME_CHECK(allocate(&game) == NULL);
    game_say(side);
    for (;;) /* until it is killed */
        pause();
}

static void wait_for_left(void)
{
    const char *line;

    do {
        line = line_client_receive(&operator);
        ck_assert_msg(line != NULL, "the daemon hung up");
    } while (!line_has(line, "type", "\"client.left\"") || !line_has(line, "name", "\"game\""));
}

START_TEST(a_killed_process_is_reported_as_it_last_was)
{
    struct game victim;
    const char *report;

    line_client_call(&operator, "event.subscribe", "{\"types\":[\"client.left\"]}");
    victim = game_start(allocate_and_wait, NULL);
    game_await(&victim);
    ck_assert_int_eq(game_kill(&victim), -SIGKILL);
    wait_for_left();
    report = report_of(victim.pid);
    ck_assert_msg(line_has(report, "alive", "false"), "%s", report);
    check_report(report);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory");
    TCase *tcase = tcase_create("memory");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_live_process_is_reported_as_it_is);
    tcase_add_test(tcase, the_names_of_the_tags_are_there_from_the_attach);
    tcase_add_test(tcase, destroyed_allocators_leave_the_report_and_their_tag);
    tcase_add_test(tcase, a_killed_process_is_reported_as_it_last_was);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
