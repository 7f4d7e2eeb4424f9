/* Every kind of allocator counts where the daemon sees it, with its blocks in ordinary memory or in the client
 * segment, and those that follow frames follow the client's frame marks. */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <engine-core/aligned.h>
#include <engine-core/arena.h>
#include <engine-core/client.h>
#include <engine-core/clock.h>
#include <engine-core/debug.h>
#include <engine-core/frame_arena.h>
#include <engine-core/heap.h>
#include <engine-core/object_pool.h>
#include <engine-core/pool.h>
#include <engine-core/slab.h>
#include <engine-core/stack.h>

#include "support/daemon.h"

#define SEGMENT_BYTES ((size_t)16 << 20)

static struct daemon_process engine;
static struct line_client operator;
static struct ec_client *client;

static struct {
    struct ec_arena *arena;
    struct ec_stack *stack;
    struct ec_pool *pool;
    struct ec_slab *slab;
    struct ec_heap *heap;
    struct ec_aligned *aligned;
    struct ec_frame_arena *frame;
    struct ec_object_pool *things;
    struct ec_debug *debug;
} all;

static const struct ec_object_type types[] = { { .name = "door", .bytes = 200 } };

static void join(size_t segment_bytes)
{
    const struct ec_client_desc desc = { .name = "kinds",
                                         .socket_path = engine.socket_path,
                                         .timeout_ms = DAEMON_WAIT_MS,
                                         .segment_bytes = segment_bytes };
    struct ec_error why = { 0 };

    ck_assert_msg(ec_client_create(&desc, &client, &why) == EC_OK, "%s", why.text);
}

static void set_up(void)
{
    ck_assert_msg(daemon_start(&engine, NULL), "%s", engine.why);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    ck_assert_ptr_nonnull(line_client_hello(&operator, "operator"));
}

static void tear_down(void)
{
    ec_client_destroy(client);
    line_client_close(&operator);
    ck_assert_int_eq(daemon_stop(&engine), 0);
}

static int make_all(bool in_segment, struct ec_error *why)
{
    const uint32_t tag = EC_TAG_ASSETS;
    int rc;

    memset(&all, 0, sizeof all);
    rc = ec_arena_create(&(struct ec_arena_desc) { .client = client,
                                                   .name = "arena",
                                                   .tag = tag,
                                                   .bytes = 100000,
                                                   .in_segment = in_segment },
                         &all.arena, why);
    if (rc == EC_OK)
        rc = ec_stack_create(&(struct ec_stack_desc) { .client = client,
                                                       .name = "stack",
                                                       .tag = tag,
                                                       .bytes = 100000,
                                                       .in_segment = in_segment },
                             &all.stack, why);
    if (rc == EC_OK)
        rc = ec_pool_create(&(struct ec_pool_desc) { .client = client,
                                                     .name = "pool",
                                                     .tag = tag,
                                                     .block_bytes = 128,
                                                     .in_segment = in_segment },
                            &all.pool, why);
    if (rc == EC_OK)
        rc = ec_slab_create(
            &(struct ec_slab_desc) {
                .client = client, .name = "slab", .tag = tag, .in_segment = in_segment },
            &all.slab, why);
    if (rc == EC_OK)
        rc = ec_heap_create(
            &(struct ec_heap_desc) { .client = client, .name = "heap", .in_segment = in_segment },
            &all.heap, why);
    if (rc == EC_OK)
        rc = ec_aligned_create(
            &(struct ec_aligned_desc) {
                .client = client, .name = "aligned", .tag = tag, .in_segment = in_segment },
            &all.aligned, why);
    if (rc == EC_OK)
        rc = ec_frame_arena_create(&(struct ec_frame_arena_desc) { .client = client,
                                                                   .name = "frame",
                                                                   .tag = tag,
                                                                   .bytes = 100000,
                                                                   .in_segment = in_segment },
                                   &all.frame, why);
    if (rc == EC_OK)
        rc = ec_object_pool_create(&(struct ec_object_pool_desc) { .client = client,
                                                                   .name = "things",
                                                                   .tag = tag,
                                                                   .types = types,
                                                                   .type_count = 1,
                                                                   .in_segment = in_segment },
                                   &all.things, why);
    if (rc == EC_OK)
        rc = ec_debug_create(&(struct ec_debug_desc) { .client = client,
                                                       .name = "debug",
                                                       .tag = EC_TAG_SCRIPTS,
                                                       .under = ec_slab_allocator(all.slab) },
                             &all.debug, why);
    return rc;
}

static void destroy_all(void)
{
    ec_debug_destroy(all.debug);
    ec_object_pool_destroy(all.things);
    ec_frame_arena_destroy(all.frame);
    ec_aligned_destroy(all.aligned);
    ec_heap_destroy(all.heap);
    ec_slab_destroy(all.slab);
    ec_pool_destroy(all.pool);
    ec_stack_destroy(all.stack);
    ec_arena_destroy(all.arena);
}

/* The row with this name and kind has so many blocks. */
static void assert_row(const char *report, const char *name, const char *kind, int count)
{
    char begin[80], row[600];
    const char *at;

    snprintf(begin, sizeof begin, "{\"name\":\"%s\",\"kind\":\"%s\"", name, kind);
    at = strstr(report, begin);
    ck_assert_msg(at != NULL, "no %s in %s", begin, report);
    snprintf(row, sizeof row, "%.*s", (int)strcspn(at, "}"), at);
    snprintf(begin, sizeof begin, "\"count\":%d,", count);
    ck_assert_msg(strstr(row, begin) != NULL, "no %s in %s", begin, row);
}

/* In ordinary memory and in the segment. */
START_TEST(each_kind_is_in_the_report)
{
    const bool in_segment = _i == 1;
    struct ec_error why = { 0 };
    ec_object_handle door;
    void *blocks[8];
    const char *report;
    char params[64];

    join(in_segment ? SEGMENT_BYTES : 0);
    ck_assert_msg(make_all(in_segment, &why) == EC_OK, "%s", why.text);
    blocks[0] = ec_arena_alloc(all.arena, 100, 0);
    blocks[1] = ec_stack_alloc(all.stack, 100, 0);
    blocks[2] = ec_pool_alloc(all.pool);
    blocks[3] = ec_slab_alloc(all.slab, 100);
    blocks[4] = ec_alloc(all.heap, 500, EC_TAG_UI);
    blocks[5] = ec_alloc(all.heap, 50000, EC_TAG_UI);
    blocks[6] = ec_aligned_alloc(all.aligned, 5000, 4096);
    blocks[7] = ec_frame_alloc(all.frame, 100, 0);
    for (int i = 0; i < 8; i++)
        ck_assert_msg(blocks[i] != NULL, "block %d", i);
    for (int i = 0; i < 8; i++)
        memset(blocks[i], i, 100);
    ck_assert_int_eq(ec_object_create(all.things, 0, NULL, &door), EC_OK);
    ck_assert_ptr_nonnull(ec_debug_alloc(all.debug, 1000, 0));

    snprintf(params, sizeof params, "{\"pid\":%d}", (int)getpid());
    report = line_client_call(&operator, "memory.report", params);
    assert_row(report, "arena", "arena", 1);
    assert_row(report, "stack", "stack", 1);
    assert_row(report, "pool", "pool", 1);
    assert_row(report, "slab/112", "slab", 1);
    assert_row(report, "heap/512", "slab", 1);
    assert_row(report, "heap/large", "heap", 1);
    assert_row(report, "aligned", "aligned", 1);
    assert_row(report, "frame", "frame_arena", 1);
    assert_row(report, "things/door", "object_pool", 1);
    assert_row(report, "debug", "debug", 1);
    ck_assert_msg(strstr(report, "{\"tag\":\"ui\",\"bytes\":50512,") != NULL, "%s", report);

    ck_assert_int_eq(ec_free(all.heap, blocks[4]), EC_OK);
    ck_assert_int_eq(ec_free(all.heap, blocks[5]), EC_OK);
    destroy_all();
    report = line_client_call(&operator, "memory.report", params);
    ck_assert_msg(strstr(report, "\"allocators\":[]") != NULL, "%s", report);
    ck_assert_msg(strstr(report, "{\"tag\":\"assets\",\"bytes\":0,") != NULL, "%s", report);
    ck_assert_msg(strstr(report, "{\"tag\":\"ui\",\"bytes\":0,") != NULL, "%s", report);
}
END_TEST

START_TEST(blocks_lie_in_the_segment_only_where_there_is_room)
{
    struct ec_error why = { 0 };

    join(0);
    ck_assert_int_eq(make_all(true, &why), EC_ERR_STATE);
    ck_assert_str_eq(why.text,
                     "arena \"arena\": in_segment, but the client was made without segment_bytes");
    ec_client_destroy(client);
    client = NULL;
    ck_assert_int_eq(
        ec_client_create(&(struct ec_client_desc) { .name = "much",
                                                    .socket_path = engine.socket_path,
                                                    .segment_bytes = ((size_t)64 << 30) + 1 },
                         &client, &why),
        EC_ERR_SIZE);
    ck_assert_str_eq(why.text,
                     "connect: segment_bytes is 68719476737, expected at most 68719476736");
}
END_TEST

START_TEST(frame_marks_drive_what_lives_by_frames)
{
    struct ec_error why = { 0 };
    struct ec_frame mark;
    ec_object_handle door;
    char *block;

    join(0);
    ck_assert_msg(make_all(false, &why) == EC_OK, "%s", why.text);
    ec_frame_begin(client, &mark);
    block = ec_frame_alloc(all.frame, 16, 0);
    ck_assert_int_eq(ec_object_create(all.things, 0, NULL, &door), EC_OK);
    ck_assert_int_eq(ec_object_destroy_later(all.things, door), EC_OK);
    ck_assert_ptr_nonnull(ec_object_get(all.things, door));
    ec_frame_end(&mark);
    ck_assert_ptr_null(ec_object_get(all.things, door));
    ck_assert_int_eq(ec_frame_arena_check(all.frame, block), EC_OK);
    ec_frame_begin(client, &mark);
    ck_assert_int_eq(ec_frame_arena_check(all.frame, block), EC_OK);
    ec_frame_end(&mark);
    ec_frame_begin(client, &mark);
    ck_assert_int_eq(ec_frame_arena_check(all.frame, block), EC_ERR_STALE);
    ec_frame_end(&mark);
    destroy_all();
}
END_TEST

/* A pool that nobody calls any more gives its groups back while frames go on. */
START_TEST(empty_groups_go_back_with_the_frames)
{
    static void *blocks[20000];
    struct ec_memory_stats stats;
    struct ec_step_clock physics;
    struct ec_step step;
    struct ec_error why = { 0 };
    uint64_t full_bytes;

    join(0);
    ck_assert_msg(make_all(false, &why) == EC_OK, "%s", why.text);
    ck_assert_int_eq(ec_step_find(client, "physics", &physics), EC_OK);
    for (int i = 0; i < 20000; i++)
        blocks[i] = ec_pool_alloc(all.pool);
    ec_pool_stats(all.pool, &stats);
    full_bytes = stats.capacity_bytes;
    for (int i = 0; i < 20000; i++)
        ec_pool_free(all.pool, blocks[i]);
    do {
        struct ec_frame mark;

        ec_frame_begin(client, &mark);
        ec_frame_end(&mark);
        ec_step_wait(&physics, 1000000000, &step);
        ec_pool_stats(all.pool, &stats);
    } while (stats.capacity_bytes > full_bytes / 10);
    destroy_all();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory kinds");
    TCase *tcase = tcase_create("memory kinds");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, each_kind_is_in_the_report, 0, 2);
    tcase_add_test(tcase, blocks_lie_in_the_segment_only_where_there_is_room);
    tcase_add_test(tcase, frame_marks_drive_what_lives_by_frames);
    tcase_add_test(tcase, empty_groups_go_back_with_the_frames);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
