/* What the breaker does with assets: soft references give way first, then what nobody holds goes in the
 * order of residency. Memory is a plain file; files of resources take a page of the heap each. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <engine-core/breaker.h>

#include "support/asset_daemon.h"
#include "support/reply.h"

#define PAGE 4096
#define TOTAL_KIB 1000000u

static struct asset_daemon assets;
static char proc[96];
static int meminfo_fd;

/* Thousandths of the host, in one write of a constant length. */
static void put_available(unsigned permille)
{
    char text[128];
    const int bytes = snprintf(text, sizeof text, "MemTotal: %10u kB\nMemAvailable: %10u kB\n",
                               TOTAL_KIB, TOTAL_KIB / 1000 * permille);

    ck_assert_int_eq(pwrite(meminfo_fd, text, (size_t)bytes, 0), bytes);
}

static void start(void)
{
    static char setting[128], path[128];
    static const char *const arguments[] = { "--set", setting,
                                             "--set", "breaker.tick_ms=2",
                                             "--set", "breaker.fast_tick_ms=2",
                                             "--set", "breaker.hold_ms=20",
                                             NULL };

    assets = (struct asset_daemon) { 0 };
    asset_daemon_prepare(&assets);
    snprintf(proc, sizeof proc, "%s/proc", assets.process.directory);
    ck_assert_int_eq(mkdir(proc, 0755), 0);
    snprintf(path, sizeof path, "%s/meminfo", proc);
    meminfo_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(meminfo_fd, 0);
    put_available(900);
    snprintf(setting, sizeof setting, "breaker.proc=%s", proc);
    asset_daemon_start(&assets, arguments);
}

static void stop(void)
{
    close(meminfo_fd);
    asset_daemon_stop(&assets);
}

/* Files a, b, c … of different bytes, all in the group g. */
static void define(unsigned count)
{
    char resources[1024] = "";

    for (unsigned i = 0; i < count; i++) {
        char name[2] = { (char)('a' + i), '\0' }, bytes[100];
        size_t used = strlen(resources);

        memset(bytes, 'A' + (int)i, sizeof bytes);
        asset_file(&assets, name, bytes, sizeof bytes);
        snprintf(resources + used, sizeof resources - used, "%s{\"name\":\"%s\"}",
                 i == 0 ? "" : ",", name);
    }
    asset_ok(
        asset_call(&assets, "resource.define", "{\"group\":\"g\",\"resources\":[%s]}", resources));
}

static bool is_too_late(const struct timespec *begin)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - begin->tv_sec) * 1000 > DAEMON_WAIT_MS;
}

static void wait_level(int64_t level)
{
    struct timespec begin;
    int64_t now;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        now = reply_number(asset_call(&assets, "breaker.get", "{\"brief\":true}"), "result/level");
    while (now != level && !is_too_late(&begin));
    ck_assert_int_eq(now, level);
}

static void wait_state(const char *name, const char *state)
{
    struct timespec begin;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    while (strcmp(asset_state(&assets, name), state) != 0 && !is_too_late(&begin))
        ;
    ck_assert_str_eq(asset_state(&assets, name), state);
}

/* A number of an action's effect, of the newest transition. */
static int64_t effect(const char *action, const char *number)
{
    const char *reply = asset_call(&assets, "breaker.history", "{}");
    char path[96];

    snprintf(path, sizeof path, "result/items/0/actions/%s/%s", action, number);
    return reply_number(reply, path);
}

START_TEST(soft_references_give_way_by_levels_and_count_again_when_there_is_room)
{
    ec_resource_soft a, b;
    struct ec_client *client;

    start();
    define(2);
    client = asset_game(&assets, "game");
    ck_assert_int_eq(ec_resource_soft_acquire(client, "a", &a), EC_OK);
    wait_state("a", "ready");
    put_available(140);
    wait_level(1);
    ck_assert_int_eq(effect("prefetch", "runs"), 1);
    ck_assert_str_eq(asset_state(&assets, "a"), "ready"); /* what is there stays at level 1 */
    ck_assert_int_eq(ec_resource_soft_acquire(client, "b", &b), EC_OK);
    put_available(90);
    wait_level(2);
    ck_assert_int_eq(effect("soft", "runs"), 1);
    ck_assert_int_eq(effect("soft", "freed_bytes"), PAGE);
    ck_assert_str_ne(asset_state(&assets, "a"), "ready");
    ck_assert_str_ne(asset_state(&assets, "b"), "ready");
    ck_assert_int_eq(asset_bytes(&assets), 0);
    put_available(900);
    wait_level(0);
    wait_state("a", "ready");
    wait_state("b", "ready");
    ec_resource_soft_release(client, a);
    ec_resource_soft_release(client, b);
    ec_client_destroy(client);
    stop();
}
END_TEST

START_TEST(without_these_actions_soft_references_stay)
{
    struct ec_client *client;
    ec_resource_soft a;

    start();
    asset_ok(asset_call(&assets, "breaker.policy",
                        "{\"set\":{\"warning_actions\":\"\",\"eviction_actions\":\"orders\"}}"));
    define(1);
    client = asset_game(&assets, "game");
    ck_assert_int_eq(ec_resource_soft_acquire(client, "a", &a), EC_OK);
    wait_state("a", "ready");
    put_available(90);
    wait_level(2);
    ck_assert_str_eq(asset_state(&assets, "a"), "ready");
    asset_ok(asset_call(&assets, "breaker.policy", "{\"set\":{\"eviction_actions\":\"soft\"}}"));
    wait_state("a", "unloaded");
    ec_resource_soft_release(client, a);
    ec_client_destroy(client);
    stop();
}
END_TEST

/* ---- the order of eviction ---- */

#define RESOURCES 12
#define USES 60

/* LRU-2, as it stands in the books: whose use before the last one is the longest ago goes first. */
struct model {
    unsigned clock;
    unsigned last[RESOURCES], previous[RESOURCES];
    bool gone[RESOURCES];
};

static void model_use(struct model *model, unsigned i)
{
    model->previous[i] = model->last[i];
    model->last[i] = ++model->clock;
}

static unsigned model_victim(const struct model *model)
{
    unsigned victim = RESOURCES;

    for (unsigned i = 0; i < RESOURCES; i++)
        if (!model->gone[i] &&
            (victim == RESOURCES || model->previous[i] < model->previous[victim]))
            victim = i;
    return victim;
}

static void use(struct model *model, struct ec_client *client, unsigned i)
{
    const char name[2] = { (char)('a' + i), '\0' };
    ec_resource resource = asset_hold(client, name, NULL);

    ec_resource_release(client, resource);
    asset_ok(asset_call(&assets, "resource.get", "{\"name\":\"%s\"}", name)); /* reads the rings */
    model_use(model, i);
}

/* For one byte that is missing one victim goes. 300 of 1000 parts are left, level 2 begins at 100. */
static void ask_for_a_byte(struct ec_client *client)
{
    const struct ec_breaker_wish wish = { .bytes = UINT64_C(200) * TOTAL_KIB / 1000 * 1024 + 1 };
    uint32_t id;

    ck_assert_int_eq(ec_breaker_reserve(client, &wish, &id, NULL), EC_AGAIN);
}

/* Each of three random courses of uses. */
START_TEST(the_breaker_evicts_in_the_order_of_lru_2)
{
    struct model model = { 0 };
    struct ec_client *client;
    uint32_t state = (uint32_t)_i + 1;

    start();
    define(RESOURCES);
    asset_load(&assets, "g");
    client = asset_game(&assets, "game");
    for (unsigned i = 0; i < 2 * RESOURCES + USES; i++) {
        state = state * 1664525 + 1013904223;
        /* Everybody twice first: before that other things count, too, such as the time of a load. */
        use(&model, client, i < 2 * RESOURCES ? i % RESOURCES : (state >> 16) % RESOURCES);
    }
    put_available(300);
    for (unsigned n = 0; n < RESOURCES; n++) {
        const unsigned victim = model_victim(&model);
        const char name[2] = { (char)('a' + victim), '\0' };

        ck_assert_str_eq(asset_state(&assets, name), "ready");
        ask_for_a_byte(client);
        ck_assert_str_eq(asset_state(&assets, name), "evicted");
        model.gone[victim] = true;
        ck_assert_int_eq(asset_bytes(&assets), (RESOURCES - 1 - n) * PAGE);
    }
    ec_client_destroy(client);
    stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("breaker_assets");
    TCase *tcase = tcase_create("breaker_assets");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, soft_references_give_way_by_levels_and_count_again_when_there_is_room);
    tcase_add_test(tcase, without_these_actions_soft_references_stay);
    tcase_add_loop_test(tcase, the_breaker_evicts_in_the_order_of_lru_2, 0, 3);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
