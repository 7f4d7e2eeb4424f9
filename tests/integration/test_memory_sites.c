/* Who allocates is seen from outside by place, also after a SIGKILL; what only grows, is over its budget
 * or allocates in every frame is a suspect; two moments can be compared; and other programs can read it. */
#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <engine-core/clock.h>
#include <engine-core/heap.h>
#include <engine-core/pool.h>
#include <engine-core/slab.h>
#include <engine-core/tracking.h>

#include "support/daemon.h"
#include "support/game.h"
#include "support/reply.h"

#define BUDGET 100000
#define THIS_FILE "test_memory_sites.c"

static struct daemon_process engine;
static struct line_client operator;

static void set_up(void)
{
    static const char *const arguments[] = { "--set", "memory.look_ms=10", "--set",
                                             "memory.suspect_frames=40", NULL };

    engine = (struct daemon_process) { 0 };
    ck_assert_msg(daemon_start(&engine, arguments), "%s", engine.why);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    ck_assert_ptr_nonnull(line_client_hello(&operator, "operator"));
}

static void tear_down(void)
{
    line_client_close(&operator);
    ck_assert_int_eq(daemon_stop(&engine), 0);
}

static const char *ask(const char *method, const char *format, int number)
{
    char params[256];

    snprintf(params, sizeof params, format, number);
    return line_client_call(&operator, method, params);
}

/* 300 blocks at one place, of which 100 are freed; 50 at another; then it waits. */
static int hold_blocks(const struct game_side *side)
{
    struct ec_client *client = game_join("holder", engine.socket_path);
    struct ec_heap *heap;
    void *blocks[300];

    GAME_CHECK(ec_tracking_start(client, 1, NULL) == EC_OK);
    GAME_CHECK(ec_heap_create(&(struct ec_heap_desc) { .client = client, .name = "heap" }, &heap,
                              NULL) == EC_OK);
    for (int i = 0; i < 300; i++)
        blocks[i] = EC_SITE(ec_alloc(heap, 64, EC_TAG_AI)); /* the first place */
    for (int i = 0; i < 100; i++)
        GAME_CHECK(ec_free(heap, blocks[i]) == EC_OK);
    for (int i = 0; i < 50; i++)
        GAME_CHECK(ec_alloc(heap, 5000, EC_TAG_UI) != NULL); /* without a word: by its stack */
    game_say(side);
    game_hear(side);
    return 0;
}

static void check_holder(const char *line)
{
    ck_assert_int_eq(reply_number(line, "result/items/0/sampling/sample_bytes"), 1);
    ck_assert_int_eq(reply_number(line, "result/items/0/sampling/lost"), 0);
    ck_assert_int_eq(reply_number(line, "result/items/0/sites/0/bytes"), 50 * 5000);
    ck_assert_int_eq(reply_number(line, "result/items/0/sites/0/count"), 50);
    ck_assert_str_eq(reply_text(line, "result/items/0/sites/0/tag"), "ui");
    ck_assert_int_eq(reply_number(line, "result/items/0/sites/1/bytes"), 200 * 64);
    ck_assert_int_eq(reply_number(line, "result/items/0/sites/1/count"), 200);
    ck_assert_int_eq(reply_number(line, "result/items/0/sites/1/total"), 300);
    ck_assert_str_eq(reply_text(line, "result/items/0/sites/1/tag"), "ai");
    ck_assert_ptr_nonnull(strstr(reply_text(line, "result/items/0/sites/1/where"), THIS_FILE ":"));
    ck_assert_ptr_nonnull(
        strstr(reply_text(line, "result/items/0/modules/0/path"), "integration-memory_sites"));
}

START_TEST(sites_are_told_of_a_live_process_and_of_a_killed_one)
{
    struct game game = game_start(hold_blocks, NULL);
    const char *line;

    game_await(&game);
    check_holder(ask("memory.sites", "{\"pid\":%d}", game.pid));
    line_client_call(&operator, "event.subscribe", "{\"types\":[\"client.left\"]}");
    ck_assert_int_eq(game_kill(&game), -SIGKILL);
    do
        line = line_client_receive(&operator);
    while (!line_has(line, "type", "\"client.left\""));
    line = ask("memory.sites", "{\"pid\":%d}", game.pid);
    ck_assert(line_has(line, "alive", "false"));
    check_holder(line);
    line = ask("memory.report", "{\"pid\":%d}", game.pid);
    ck_assert_int_eq(reply_number(line, "result/items/0/sites/0/bytes"), 50 * 5000);
}
END_TEST

START_TEST(leaks_are_listed_by_file_and_module)
{
    struct game game = game_start(hold_blocks, NULL);
    char params[128];
    const char *line;
    int id;

    game_await(&game);
    id = (int)reply_number(ask("memory.sites", "{\"pid\":%d}", game.pid),
                           "result/items/0/client_id");
    line = ask("memory.leaks", "{\"client_id\":%d}", id);
    ck_assert_int_eq(reply_number(line, "result/bytes"), 50 * 5000 + 200 * 64);
    ck_assert_int_eq(reply_number(line, "result/count"), 250);
    snprintf(params, sizeof params, "{\"client_id\":%d,\"filter\":\"nowhere\"}", id);
    line = line_client_call(&operator, "memory.leaks", params);
    ck_assert_int_eq(reply_number(line, "result/sites"), 0);
    ck_assert_int_eq(reply_number(line, "result/bytes"), 0);
    snprintf(params, sizeof params, "{\"client_id\":%d,\"filter\":\"memory_sites\"}", id);
    line = line_client_call(&operator, "memory.leaks", params);
    ck_assert_int_eq(reply_number(line, "result/count"), 250);
    game_tell(&game);
    ck_assert_int_eq(game_end(&game), 0);
    ck_assert(line_has(line_client_call(&operator, "memory.leaks", "{\"client_id\":9999}"), "code",
                       "-32005"));
}
END_TEST

/* Of all sites in a list of leaks, whose blocks have 128 bytes; -1: one has others. */
static int sum_of_blocks(const char *text)
{
    int sum = 0, bytes, blocks;

    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (sscanf(line, "%d bytes in %d blocks at ", &bytes, &blocks) != 2)
            continue;
        if (bytes != blocks * 128)
            return -1;
        sum += blocks;
    }
    return sum;
}

/* Itself: what ec_tracking_leaks writes. */
static int list_leaks(const struct game_side *side)
{
    struct ec_client *client = game_join("leaker", engine.socket_path);
    struct ec_pool *pool;
    volatile int left = 3; /* one call, which the compiler must not write three times */
    char text[8192];
    int fds[2], sites;
    ssize_t bytes;

    (void)side;
    GAME_CHECK(pipe(fds) == 0);
    GAME_CHECK(ec_tracking_leaks(client, NULL, fds[1]) == 0);
    GAME_CHECK(ec_tracking_start(client, 1, NULL) == EC_OK);
    GAME_CHECK(ec_pool_create(
                   &(struct ec_pool_desc) { .client = client, .name = "pool", .block_bytes = 128 },
                   &pool, NULL) == EC_OK);
    while (left-- > 0)
        GAME_CHECK(EC_SITE(ec_pool_alloc(pool)) != NULL);
    GAME_CHECK(ec_tracking_leaks(client, "no such module", fds[1]) == 0);
    sites = ec_tracking_leaks(client, THIS_FILE, fds[1]);
    bytes = read(fds[0], text, sizeof text - 1);
    GAME_CHECK(sites > 0 && bytes > 0);
    text[bytes] = '\0';
    /* The pool's own two ways to a block, which are one call where calls at the end become jumps. */
    GAME_CHECK(sum_of_blocks(text) == 3);
    GAME_CHECK(strstr(text, "integration-memory_sites 0x") != NULL);
    ec_tracking_stop(client);
    GAME_CHECK(ec_pool_alloc(pool) != NULL);
    GAME_CHECK(ec_tracking_leaks(client, NULL, fds[1]) == sites);
    ec_pool_destroy(pool);
    ec_client_destroy(client);
    return 0;
}

START_TEST(a_program_lists_its_own_leaks)
{
    struct game game = game_start(list_leaks, NULL);

    ck_assert_int_eq(game_end(&game), 0);
}
END_TEST

/* Does nothing about tracking. */
static int hold_one_block(const struct game_side *side)
{
    struct ec_client *client;
    struct ec_heap *heap;

    if (side->context != NULL)
        GAME_CHECK(setenv("ENGINE_CORE_SAMPLE", side->context, 1) == 0);
    client = game_join("holder", engine.socket_path);
    GAME_CHECK(ec_heap_create(&(struct ec_heap_desc) { .client = client, .name = "heap" }, &heap,
                              NULL) == EC_OK);
    GAME_CHECK(ec_alloc(heap, 100, EC_TAG_AI) != NULL);
    game_say(side);
    game_hear(side);
    return 0;
}

/* What each tier does by itself, and what the environment makes of it. */
static const struct {
    const char *environment;
    int64_t sample_bytes;
} starts[] = {
#if EC_TIER_DEBUG
    { NULL, 1 }, { "much", 1 },
#elif EC_TIER_DEVELOPMENT
    { NULL, 524288 }, { "much", 524288 },
#else
    { NULL, 0 }, { "much", 0 },
#endif
    { "0", 0 },  { "1", 1 },    { "4096", 4096 },
};

START_TEST(tracking_begins_by_itself_as_the_tier_and_the_environment_say)
{
    struct game game = game_start(hold_one_block, starts[_i].environment);
    const char *line;

    game_await(&game);
    line = ask("memory.sites", "{\"pid\":%d}", game.pid);
    ck_assert_int_eq(reply_number(line, "result/items/0/sampling/sample_bytes"),
                     starts[_i].sample_bytes);
    if (starts[_i].sample_bytes == 1) {
        ck_assert_int_eq(reply_number(line, "result/items/0/sites/0/count"), 1);
        ck_assert_str_eq(reply_text(line, "result/items/0/sites/0/tag"), "ai");
    }
    game_tell(&game);
    ck_assert_int_eq(game_end(&game), 0);
}
END_TEST

/* Frees a block twice once it is told to, which is refused: in every tier, since checks are on by then. */
static int free_twice(const struct game_side *side)
{
    struct ec_client *client;
    struct ec_slab *slab;
    void *block;

    GAME_CHECK(setenv("ENGINE_CORE_SAMPLE", "0", 1) == 0);
    client = game_join("twice", engine.socket_path);
    GAME_CHECK(ec_slab_create(&(struct ec_slab_desc) { .client = client, .name = "small" }, &slab,
                              NULL) == EC_OK);
    game_say(side);
    game_hear(side);
    block = ec_slab_alloc(slab, 40);
    GAME_CHECK(ec_slab_free(slab, block) == EC_OK);
    GAME_CHECK(ec_slab_free(slab, block) == EC_ERR_STATE);
    GAME_CHECK(ec_slab_alloc(slab, 40) == block);
    game_say(side);
    game_hear(side);
    return 0;
}

START_TEST(an_operator_switches_checks_and_samples_of_a_live_program)
{
    struct game game = game_start(free_twice, NULL);
    const char *line;
    int id;

    game_await(&game);
    id =
        (int)reply_number(ask("memory.tags", "{\"pid\":%d}", game.pid), "result/items/0/client_id");
    line = ask("memory.observe", "{\"client_id\":%d,\"sample_bytes\":1,\"checks\":true}", id);
    ck_assert_int_eq(reply_number(line, "result/sample_bytes"), 1);
    ck_assert(line_has(line, "checks", "true"));
    do /* its service thread follows; the checks are the last of it */
        line = ask("memory.report", "{\"client_id\":%d}", id);
    while (reply_number(line, "result/items/0/sampling/sample_bytes") != 1 ||
           *reply_at(line, "result/items/0/checks/on").text != 't');
    ck_assert_int_eq(reply_number(line, "result/items/0/checks/faults"), 0);
    ck_assert_int_eq(reply_number(line, "result/items/0/sampling/samples"), 0);
    game_tell(&game);
    game_await(&game);
    line = ask("memory.report", "{\"client_id\":%d}", id);
    ck_assert_int_eq(reply_number(line, "result/items/0/checks/faults"), 1);
    ck_assert_int_eq(reply_number(line, "result/items/0/sampling/samples"), 2);
    /* One block of 48 bytes, for which 40 were asked. */
    ck_assert_str_eq(reply_text(line, "result/items/0/allocators/1/name"), "small/48");
    ck_assert_int_eq(reply_number(line, "result/items/0/allocators/1/current_bytes"), 48);
    ck_assert_int_eq(reply_number(line, "result/items/0/allocators/1/requested_bytes"), 40);
    ck_assert_int_eq(reply_number(line, "result/items/0/bridge/requested_bytes"), 40);
    ck_assert_int_eq(reply_number(line, "result/items/0/bridge/rounded_bytes"), 48);
    ck_assert_int_eq(reply_number(line, "result/items/0/bridge/capacity_bytes"),
                     48 + reply_number(line, "result/items/0/bridge/cached_bytes") +
                         reply_number(line, "result/items/0/bridge/free_bytes"));
    ck_assert_int_eq(reply_number(line, "result/items/0/bridge/rss_bytes"),
                     reply_number(line, "result/items/0/bridge/anonymous_bytes") +
                         reply_number(line, "result/items/0/bridge/file_bytes") +
                         reply_number(line, "result/items/0/bridge/shared_bytes"));
    ck_assert_int_gt(reply_number(line, "result/items/0/bridge/mapped_bytes"),
                     reply_number(line, "result/items/0/bridge/rss_bytes"));
    ask("memory.observe", "{\"client_id\":%d,\"sample_bytes\":0}", id);
    do
        line = ask("memory.report", "{\"client_id\":%d}", id);
    while (reply_number(line, "result/items/0/sampling/sample_bytes") != 0);
    ck_assert(line_has(ask("memory.observe", "{\"client_id\":%d}", id), "code", "-32602"));
    ck_assert(line_has(ask("memory.observe", "{\"client_id\":%d,\"checks\":true}", 9999), "code",
                       "-32005"));
    game_tell(&game);
    ck_assert_int_eq(game_end(&game), 0);
}
END_TEST

#define STARTERS 8

static struct {
    struct ec_client *client;
    pthread_barrier_t barrier;
    int null_fd;
} at_once;

static void *start_at_once(void *context)
{
    const uint64_t number = (uint64_t)(uintptr_t)context;

    pthread_barrier_wait(&at_once.barrier);
    if (number == 0) { /* who looks while it begins finds nothing or all of it */
        struct ec_frame frame;

        ec_frame_begin(at_once.client, &frame);
        ec_frame_end(&frame);
        GAME_CHECK(ec_tracking_leaks(at_once.client, NULL, at_once.null_fd) == 0);
    } else if (number == 1) {
        ec_tracking_stop(at_once.client);
    } else {
        GAME_CHECK(ec_tracking_start(at_once.client, number, NULL) == EC_OK);
    }
    return NULL;
}

/* Each round with a client that is not tracked yet. */
static int start_many_times(const struct game_side *side)
{
    pthread_t threads[STARTERS];

    (void)side;
    GAME_CHECK(setenv("ENGINE_CORE_SAMPLE", "0", 1) == 0);
    at_once.null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    GAME_CHECK(at_once.null_fd >= 0);
    GAME_CHECK(pthread_barrier_init(&at_once.barrier, NULL, STARTERS) == 0);
    for (int round = 0; round < 10; round++) {
        struct ec_heap *heap;

        at_once.client = game_join("starter", engine.socket_path);
        for (uintptr_t i = 0; i < STARTERS; i++)
            GAME_CHECK(pthread_create(&threads[i], NULL, start_at_once, (void *)i) == 0);
        for (int i = 0; i < STARTERS; i++)
            GAME_CHECK(pthread_join(threads[i], NULL) == 0);
        GAME_CHECK(ec_tracking_start(at_once.client, 1, NULL) == EC_OK);
        GAME_CHECK(
            ec_heap_create(&(struct ec_heap_desc) { .client = at_once.client, .name = "heap" },
                           &heap, NULL) == EC_OK);
        GAME_CHECK(ec_alloc(heap, 100, EC_TAG_AI) != NULL);
        GAME_CHECK(ec_tracking_leaks(at_once.client, NULL, at_once.null_fd) == 1);
        ec_heap_destroy(heap);
        ec_client_destroy(at_once.client);
    }
    return 0;
}

START_TEST(threads_that_start_tracking_at_once_start_one_tracker)
{
    struct game game = game_start(start_many_times, NULL);

    ck_assert_int_eq(game_end(&game), 0);
}
END_TEST

/* Frames in which a pool only grows, a place allocates and frees, and a tag passes its budget. */
static int grow(const struct game_side *side)
{
    struct ec_client *client = game_join("grower", engine.socket_path);
    struct ec_heap *heap;
    struct ec_pool *growing, *steady;
    struct ec_step_clock physics;
    struct ec_step step;
    uint32_t loot;

    GAME_CHECK(ec_tracking_start(client, 1, NULL) == EC_OK);
    GAME_CHECK(ec_tag_register(client, "loot", BUDGET, &loot, NULL) == EC_OK);
    GAME_CHECK(ec_heap_create(&(struct ec_heap_desc) { .client = client, .name = "heap" }, &heap,
                              NULL) == EC_OK);
    GAME_CHECK(ec_pool_create(
                   &(struct ec_pool_desc) {
                       .client = client, .name = "growing", .tag = loot, .block_bytes = 1024 },
                   &growing, NULL) == EC_OK);
    GAME_CHECK(ec_pool_create(
                   &(struct ec_pool_desc) { .client = client, .name = "steady", .block_bytes = 64 },
                   &steady, NULL) == EC_OK);
    GAME_CHECK(ec_pool_alloc(steady) != NULL);
    GAME_CHECK(ec_step_find(client, "physics", &physics) == EC_OK);
    game_say(side);
    for (;;) { /* until it is killed */
        struct ec_frame frame;

        ec_frame_begin(client, &frame);
        GAME_CHECK(ec_pool_alloc(growing) != NULL);
        GAME_CHECK(ec_free(heap, EC_SITE(ec_alloc(heap, 32, EC_TAG_AI))) == EC_OK);
        ec_frame_end(&frame);
        ec_step_wait(&physics, 1000000000, &step);
    }
    return 0;
}

static bool has_suspect(const char *line, const char *kind, const char *what)
{
    char path[128];

    for (int i = 0; i < 16; i++) {
        snprintf(path, sizeof path, "result/items/0/suspects/%d/kind", i);
        if (reply_at(line, path).text == NULL)
            return false;
        if (strcmp(reply_text(line, path), kind) != 0)
            continue;
        snprintf(path, sizeof path, "result/items/0/suspects/%d/what", i);
        if (strstr(reply_text(line, path), what) != NULL)
            return true;
    }
    return false;
}

START_TEST(suspects_are_named_with_their_reason)
{
    struct game game = game_start(grow, NULL);
    const char *line;

    game_await(&game);
    do /* each needs its frames; the test's own time limit is the only one */
        line = ask("memory.report", "{\"pid\":%d}", game.pid);
    while (!has_suspect(line, "growing", "growing") ||
           !has_suspect(line, "every_frame", THIS_FILE ":") ||
           !has_suspect(line, "over_budget", "loot"));
    ck_assert(!has_suspect(line, "growing", "steady"));
    /* Nothing with frames comes after the suspects: this is the call stack of the site itself. */
    ck_assert_ptr_nonnull(
        strstr(strstr(line, "\"kind\":\"every_frame\""), "\"frames\":[{\"module\":"));
    ck_assert_ptr_nonnull(strstr(line, "have only grown for "));
    ck_assert_ptr_nonnull(strstr(line, "more than its budget of 100000"));
    do { /* a look may fall between two frames */
        line = line_client_call(&operator, "memory.stats", NULL);
        ck_assert_ptr_nonnull(reply_at(line, "result/allocations_per_s").text);
    } while (line_has(line, "allocations_per_s", "0"));
    game_kill(&game);
}
END_TEST

/* Fills groups of a pool, and when it is told to frees all but a block of each 256. */
static int leave_holes(const struct game_side *side)
{
    struct ec_client *client = game_join("holes", engine.socket_path);
    static void *blocks[20000];
    struct ec_pool *pool;

    GAME_CHECK(ec_pool_create(
                   &(struct ec_pool_desc) { .client = client, .name = "holes", .block_bytes = 64 },
                   &pool, NULL) == EC_OK);
    for (int i = 0; i < 20000; i++)
        GAME_CHECK((blocks[i] = ec_pool_alloc(pool)) != NULL);
    game_say(side);
    game_hear(side);
    for (int i = 0; i < 20000; i++)
        GAME_CHECK(i % 256 == 0 || ec_pool_free(pool, blocks[i]) == EC_OK);
    game_say(side);
    game_hear(side);
    for (int i = 0; i < 20000; i += 256)
        GAME_CHECK(ec_pool_free(pool, blocks[i]) == EC_OK);
    (void)ec_pool_trim(pool);
    game_say(side);
    game_hear(side);
    return 0;
}

START_TEST(a_pool_full_of_holes_is_a_suspect_while_it_is)
{
    struct game game = game_start(leave_holes, NULL);
    const char *line;

    game_await(&game);
    line = ask("memory.report", "{\"pid\":%d}", game.pid);
    ck_assert(!has_suspect(line, "fragmented", "holes"));
    game_tell(&game);
    game_await(&game);
    line = ask("memory.report", "{\"pid\":%d}", game.pid);
    ck_assert(has_suspect(line, "fragmented", "holes"));
    ck_assert_ptr_nonnull(strstr(line, "% serve any request"));
    game_tell(&game);
    game_await(&game);
    line = ask("memory.report", "{\"pid\":%d}", game.pid);
    ck_assert(!has_suspect(line, "fragmented", "holes"));
    game_tell(&game);
    ck_assert_int_eq(game_end(&game), 0);
}
END_TEST

/* More of one site between the two words. */
static int change(const struct game_side *side)
{
    struct ec_client *client = game_join("changer", engine.socket_path);
    struct ec_heap *heap;

    GAME_CHECK(ec_tracking_start(client, 1, NULL) == EC_OK);
    GAME_CHECK(ec_heap_create(&(struct ec_heap_desc) { .client = client, .name = "heap" }, &heap,
                              NULL) == EC_OK);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 10 + 90 * round; i++)
            GAME_CHECK(EC_SITE(ec_alloc(heap, 100, EC_TAG_PHYSICS)) != NULL);
        game_say(side);
        game_hear(side);
    }
    return 0;
}

START_TEST(two_moments_are_compared)
{
    struct game game = game_start(change, NULL);
    const char *line;
    int id;

    game_await(&game);
    id =
        (int)reply_number(ask("memory.tags", "{\"pid\":%d}", game.pid), "result/items/0/client_id");
    line = ask("memory.snapshot", "{\"client_id\":%d,\"name\":\"before\"}", id);
    ck_assert_int_eq(reply_number(line, "result/snapshot"), 1);
    game_tell(&game);
    game_await(&game);
    ask("memory.snapshot", "{\"client_id\":%d}", id);
    line = line_client_call(&operator, "memory.snapshot", "{\"diff\":[\"before\",2]}");
    ck_assert_int_eq(reply_number(line, "result/sites/0/count"), 100);
    ck_assert_int_eq(reply_number(line, "result/sites/0/total"), 100);
    ck_assert_int_ge(reply_number(line, "result/sites/0/bytes"), 10000);
    ck_assert_ptr_nonnull(strstr(reply_text(line, "result/sites/0/where"), THIS_FILE ":"));
    ck_assert_int_eq(reply_number(line, "result/tags/tag=physics/count"), 100);
    ck_assert_int_eq(reply_number(line, "result/before/snapshot"), 1);
    line = line_client_call(&operator, "memory.snapshot", "{\"diff\":[2,\"before\"]}");
    ck_assert_int_eq(reply_number(line, "result/sites/0/count"), -100);
    ck_assert(line_has(line_client_call(&operator, "memory.snapshot", "{\"diff\":[1,77]}"), "code",
                       "-32005"));
    ck_assert(line_has(line_client_call(&operator, "memory.snapshot", "{\"diff\":[1]}"), "code",
                       "-32602"));
    ck_assert(line_has(line_client_call(&operator, "memory.snapshot", "{}"), "code", "-32602"));
    game_tell(&game);
    ck_assert_int_eq(game_end(&game), 0);
}
END_TEST

START_TEST(the_daemon_reports_its_own_memory)
{
    const char *line = line_client_call(&operator, "memory.report", "{\"client_id\":0}");
    int64_t feeds;

    ck_assert_str_eq(reply_text(line, "result/items/0/name"), "engine-cored");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* whose malloc tells nothing */
    ck_assert_int_gt(reply_number(line, "result/items/0/tags/tag=heap/bytes"), 0);
#endif
    ck_assert_int_gt(reply_number(line, "result/items/0/tags/tag=requests/total"), 0);
    ck_assert_int_gt(reply_number(line, "result/items/0/allocators/name=requests/capacity_bytes"),
                     0);
    ck_assert_int_ge(reply_number(line, "result/items/0/allocators/name=connections/count"), 1);
    ck_assert_int_ge(reply_number(line, "result/items/0/tags/tag=routes/count"), 1); /* its own */
    feeds = reply_number(line, "result/items/0/tags/tag=feeds/total"); /* log lines that are kept */
    line_client_call(&operator, "event.subscribe", "{\"types\":[\"client.joined\"]}");
    line = line_client_call(&operator, "memory.report", "{\"client_id\":0}");
    ck_assert_int_gt(reply_number(line, "result/items/0/tags/tag=feeds/total"), feeds);
    ck_assert_int_gt(reply_number(line, "result/items/0/tags/tag=feeds/bytes"), 0);
}
END_TEST

/* ---- names, for a program without them --------------------------------------------------------- */

#ifdef EC_HAS_PRELOAD
/* Run a command of the shell; its output. */
static const char *run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *run(const char *format, ...)
{
    static char output[65536];
    char command[4096];
    va_list arguments;
    FILE *pipe;
    size_t bytes;
    int status;

    va_start(arguments, format);
    ck_assert_int_lt(vsnprintf(command, sizeof command, format, arguments), sizeof command);
    va_end(arguments);
    pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    bytes = fread(output, 1, sizeof output - 1, pipe);
    output[bytes] = '\0';
    status = pclose(pipe);
    ck_assert_msg(status == 0, "%s: %d: %s", command, status, output);
    return output;
}

START_TEST(a_stripped_program_is_explained_by_its_debug_file)
{
    const char *bin = getenv("EC_BIN_DIR"), *dir = engine.directory;
    const char *text;
    char id[64];

    run("cp %s/preload_program %s/stripped && objcopy --only-keep-debug %s/stripped %s/it.debug && "
        "strip --strip-all %s/stripped",
        bin, dir, dir, dir, dir);
    text = run("readelf -n %s/stripped | sed -n 's/.*Build ID: //p'", dir);
    ck_assert_int_eq(sscanf(text, "%40s", id), 1);
    run("cd %s && ENGINE_CORE_MALLOC_SAMPLE=1 %s/engine-ctl --socket %s run --at-once -- "
        "%s/stripped forget 100",
        dir, bin, engine.socket_path, dir);
    text = run("%s/engine-ctl --socket %s mem-leaks 2 --filter stripped", bin, engine.socket_path);
    ck_assert_msg(strstr(text, "stripped+0x") != NULL && strstr(text, "forget_here") == NULL, "%s",
                  text);
    run("mkdir -p %s/debug/.build-id/%.2s && mv %s/it.debug %s/debug/.build-id/%.2s/%s.debug", dir,
        id, dir, dir, id, id + 2);
    text = run("%s/engine-ctl --socket %s mem-leaks 2 --filter stripped --debug-dir %s/debug "
               "--frames 3",
               bin, engine.socket_path, dir);
    ck_assert_msg(strstr(text, "forget_here (preload_program.c:") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "main (preload_program.c:") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "100.0 KiB") != NULL, "%s", text);

    text = run("nm %s/preload_program | sed -n 's/^\\([0-9a-f]*\\) [tT] main$/0x\\1/p'", bin);
    ck_assert_int_eq(sscanf(text, "%40s", id), 1);
    text = run("%s/engine-ctl symbolize --debug-dir %s/debug %s/stripped %s", bin, dir, dir, id);
    ck_assert_msg(strncmp(text, "main at ", 8) == 0, "%s", text);
    text = run("echo '    %s/preload_program %s' | %s/engine-ctl symbolize", bin, id, bin);
    ck_assert_msg(strstr(text, "main at ") != NULL, "%s", text);
    text = run("cd %s && ./engine-ctl symbolize preload_program %s", bin, id);
    ck_assert_msg(strncmp(text, "main at ", 8) == 0, "%s", text);
}
END_TEST

START_TEST(a_file_of_another_build_explains_nothing)
{
    const char *bin = getenv("EC_BIN_DIR");
    const char *text = run("%s/engine-ctl symbolize --build-id 00112233 %s/preload_program 0x1000 "
                           "2>&1; test $? -eq 1",
                           bin, bin);

    ck_assert_msg(strstr(text, "its build id differs") != NULL, "%s", text);
    text = run("%s/engine-ctl symbolize /nonexistent 0x1000 2>&1; test $? -eq 1", bin);
    ck_assert_msg(strstr(text, "the file is not there") != NULL, "%s", text);
    text = run("%s/engine-ctl symbolize /dev/zero 0x1000 2>&1; test $? -eq 1", bin);
    ck_assert_msg(strstr(text, "no plain one") != NULL, "%s", text);
}
END_TEST

START_TEST(profiles_are_read_by_other_programs)
{
    const char *bin = getenv("EC_BIN_DIR"), *dir = engine.directory;
    const char *text;

    run("%s/engine-ctl --socket %s run --at-once --sample 1 -- %s/preload_program forget 100", bin,
        engine.socket_path, bin);
    text =
        run("%s/engine-ctl --socket %s mem-profile 2 - --format folded", bin, engine.socket_path);
    ck_assert_msg(strstr(text, "forget_here_(preload_program.c:") != NULL, "%s", text);
    ck_assert_msg(strstr(text, ";main_(preload_program.c:") != NULL, "%s", text);
    /* As profile.proto has it: sample types, strings, and functions by name. */
    run("%s/engine-ctl --socket %s mem-profile 2 %s/heap.pb", bin, engine.socket_path, dir);
    text = run("protoc --decode_raw < %s/heap.pb | grep -cE '^(1|2|3|4|5|6|11) \\{|^6: '", dir);
    ck_assert_int_ge(atoi(text), 20);
    text = run("protoc --decode_raw < %s/heap.pb | grep '^6: '", dir);
    ck_assert_ptr_nonnull(strstr(text, "\"inuse_space\""));
    ck_assert_ptr_nonnull(strstr(text, "\"forget_here\""));
    ck_assert_ptr_nonnull(strstr(text, "preload_program.c\""));
}
END_TEST

#endif

int main(void)
{
    Suite *suite = suite_create("memory_sites");
    TCase *sites = tcase_create("sites");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(sites, set_up, tear_down);
    tcase_add_test(sites, sites_are_told_of_a_live_process_and_of_a_killed_one);
    tcase_add_test(sites, leaks_are_listed_by_file_and_module);
    tcase_add_test(sites, a_program_lists_its_own_leaks);
    tcase_add_loop_test(sites, tracking_begins_by_itself_as_the_tier_and_the_environment_say, 0,
                        sizeof starts / sizeof starts[0]);
    tcase_add_test(sites, an_operator_switches_checks_and_samples_of_a_live_program);
    tcase_add_test(sites, threads_that_start_tracking_at_once_start_one_tracker);
    tcase_add_test(sites, suspects_are_named_with_their_reason);
    tcase_add_test(sites, a_pool_full_of_holes_is_a_suspect_while_it_is);
    tcase_add_test(sites, two_moments_are_compared);
    tcase_add_test(sites, the_daemon_reports_its_own_memory);
#ifdef EC_HAS_PRELOAD
    tcase_add_test(sites, a_stripped_program_is_explained_by_its_debug_file);
    tcase_add_test(sites, profiles_are_read_by_other_programs);
    tcase_add_test(sites, a_file_of_another_build_explains_nothing);
#endif
    suite_add_tcase(suite, sites);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
