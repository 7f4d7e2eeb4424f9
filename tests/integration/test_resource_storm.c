/* A thousand groups, loaded and unloaded at random by four games that are killed at random, while memory is
 * evicted and files are saved. Every file carries a hash of itself, so whoever holds a resource can tell
 * whether its bytes are whole. EC_STORM_S says for how long (10 s). */
#include <check.h>
#include <engine-core/client.h>
#include <engine-core/resource_inline.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "foundation/real_time.h"
#include "support/asset_daemon.h"
#include "support/game.h"
#include "support/reply.h"

#define GAMES 4
#define GROUPS 1000
#define FILES 2000
#define MEMBERS 4
#define HELD_MAX 12
#define FAVOURITES 24
#define KILL_NS (EC_NS_PER_S / 4)

static struct asset_daemon assets;
static const unsigned files = FILES, groups = GROUPS;

/* Of all games, also of those that were killed. */
static struct sums {
    _Atomic uint64_t verified, refused;
} * sums;

/* ---- files ---- */

struct content {
    uint64_t hash; /* of what is behind it */
    uint32_t file;
    uint32_t version;
    uint64_t words[];
};

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Every other time one of the first few, so that what is saved is often held. */
static unsigned some(uint64_t *random, unsigned count)
{
    unsigned of = random_next(random) % 2 == 0 ? FAVOURITES : count;

    return (unsigned)(random_next(random) % of);
}

static uint64_t hash_of(const struct content *content, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)&content->file;
    uint64_t hash = 0xcbf29ce484222325ull;

    for (size_t i = 0; i < bytes - sizeof content->hash; i++)
        hash = (hash ^ at[i]) * 0x100000001b3ull;
    return hash;
}

/* Some are smaller than a page, some are many; every tenth file has the bytes of the one before. */
static void write_file(unsigned file, uint32_t version)
{
    unsigned source = version == 0 && file % 10 == 9 ? file - 1 : file;
    uint64_t state = 88172645463325252ull + source * 7919ull + version;
    size_t words = 1 + random_next(&state) % (file % 4 == 0 ? 4000 : 300);
    size_t bytes = sizeof(struct content) + words * sizeof(uint64_t);
    struct content *content = malloc(bytes);
    char name[32];

    ck_assert_ptr_nonnull(content);
    content->file = source;
    content->version = version;
    for (size_t i = 0; i < words; i++)
        content->words[i] = random_next(&state);
    content->hash = hash_of(content, bytes);
    snprintf(name, sizeof name, "f%u", file);
    asset_file(&assets, name, content, bytes);
    free(content);
}

static void write_manifest(const char *path)
{
    FILE *manifest = fopen(path, "we");

    ck_assert_ptr_nonnull(manifest);
    fprintf(manifest, "{\"groups\":[");
    for (unsigned i = 0; i < groups; i++) {
        fprintf(manifest, "%s{\"group\":\"g%u\",", i > 0 ? "," : "", i);
        if (i % 5 == 4) /* on one that is defined before it */
            fprintf(manifest, "\"depends\":[\"g%u\"],", i - 1 - i % 3);
        fprintf(manifest, "\"resources\":[");
        for (unsigned k = 0; k < MEMBERS; k++) /* neighbours share members */
            fprintf(manifest, "%s{\"name\":\"f%u\"}", k > 0 ? "," : "",
                    (i * (MEMBERS - 1) + k * (k == 3 ? 37 : 1)) % files);
        fprintf(manifest, "]}\n");
    }
    fprintf(manifest, "]}");
    ck_assert_int_eq(fclose(manifest), 0);
}

/* ---- a game ---- */

struct held {
    ec_resource resource;
    struct ec_resource_view view;
    unsigned file;
};

struct storm {
    struct ec_client *client;
    uint64_t random;
    struct held held[HELD_MAX];
    unsigned held_count;
    ec_resource_soft soft[HELD_MAX];
    uint64_t verified;
};

static void verify(const struct held *held)
{
    const struct content *content = held->view.data;

    GAME_CHECK(held->view.bytes >= sizeof *content);
    GAME_CHECK(content->hash == hash_of(content, held->view.bytes));
    GAME_CHECK(content->file == held->file || content->file + 1 == held->file);
}

static void let_go(struct storm *storm)
{
    unsigned at = (unsigned)(random_next(&storm->random) % storm->held_count);

    verify(&storm->held[at]); /* to the end */
    if (random_next(&storm->random) % 2 == 0)
        ec_resource_release(storm->client, storm->held[at].resource);
    else
        ec_resource_release_inline(storm->client, storm->held[at].resource);
    storm->held[at] = storm->held[--storm->held_count];
}

/* By a call, or in line and then a look at what is held. */
static int acquire(struct storm *storm, struct held *held)
{
    int rc;

    if (random_next(&storm->random) % 2 == 0)
        return ec_resource_acquire(storm->client, held->resource, &held->view);
    rc = ec_resource_acquire_inline(storm->client, held->resource);
    if (rc == EC_OK)
        GAME_CHECK(ec_resource_access(storm->client, held->resource, &held->view) == EC_OK);
    return rc;
}

static void take(struct storm *storm, unsigned file)
{
    struct held *held;
    char name[32];
    int rc;

    if (storm->held_count == HELD_MAX)
        let_go(storm);
    held = &storm->held[storm->held_count];
    held->file = file;
    snprintf(name, sizeof name, "f%u", file);
    rc = ec_resource_find(storm->client, name, &held->resource);
    if (rc == EC_OK)
        rc = acquire(storm, held);
    if (rc == EC_ERR_EVICTED)
        GAME_CHECK(ec_resource_request(storm->client, name) == EC_OK);
    GAME_CHECK(rc == EC_OK || rc == EC_AGAIN || rc == EC_ERR_EVICTED || rc == EC_ERR_STALE ||
               rc == EC_ERR_STATE);
    if (rc != EC_OK) {
        atomic_fetch_add_explicit(&sums->refused, 1, memory_order_relaxed);
        return;
    }
    storm->held_count++;
    verify(held);
    storm->verified++;
    atomic_fetch_add_explicit(&sums->verified, 1, memory_order_relaxed);
}

static void ask(struct storm *storm, const char *method, unsigned group)
{
    struct ec_error why = { 0 };
    char params[64], *result = NULL;
    int rc;

    snprintf(params, sizeof params, "{\"group\":\"g%u\"}", group);
    rc = ec_client_call(storm->client, method, params, &result, &why);
    if (rc != EC_OK && rc != EC_ERR_STATE) { /* unloaded by another while it was loading */
        fprintf(stderr, "%s %s: %s\n", method, params, why.text);
        _exit(100);
    }
    free(result);
}

static void play(struct storm *storm)
{
    unsigned group = some(&storm->random, groups);
    unsigned wish = (unsigned)(random_next(&storm->random) % HELD_MAX);
    char name[32];

    ask(storm, "resource.load", group);
    for (unsigned k = 0; k < MEMBERS; k++)
        take(storm, (group * (MEMBERS - 1) + k * (k == 3 ? 37 : 1)) % files);
    ec_resource_soft_release(storm->client, storm->soft[wish]);
    snprintf(name, sizeof name, "f%u", (unsigned)(random_next(&storm->random) % files));
    GAME_CHECK(ec_resource_soft_acquire(storm->client, name, &storm->soft[wish]) == EC_OK);
    if (random_next(&storm->random) % 4 != 0)
        ask(storm, "resource.unload", (unsigned)(random_next(&storm->random) % groups));
    ask(storm, "resource.unload", group);
    while (storm->held_count > 0 && random_next(&storm->random) % 3 != 0)
        let_go(storm);
}

static int game_main(const struct game_side *side)
{
    struct storm storm = { .random = (uint64_t)getpid() * 2654435761u + 1 };
    struct pollfd told = { .fd = side->hear, .events = POLLIN };

    storm.client = game_join("storm", side->context);
    do /* one that came late may have found all of its first groups evicted */
        play(&storm);
    while (poll(&told, 1, 0) == 0 || storm.verified == 0);
    game_hear(side);
    while (storm.held_count > 0)
        let_go(&storm);
    ec_client_destroy(storm.client);
    return 0;
}

/* ---- the storm ---- */

static void await_idle(unsigned descriptors)
{
    int64_t deadline_ns = ec_real_ns() + GAME_WAIT_NS;

    /* What was cancelled comes back, memory is given back, connections are closed. */
    while (asset_bytes(&assets) != 0 || process_descriptors(assets.process.pid) != descriptors)
        ck_assert_msg(ec_real_ns() < deadline_ns, "%lld bytes, %u descriptors instead of %u",
                      (long long)asset_bytes(&assets), process_descriptors(assets.process.pid),
                      descriptors);
}

static void unload_all(void)
{
    for (unsigned i = 0; i < groups; i++)
        asset_ok(asset_call(&assets, "resource.unload", "{\"group\":\"g%u\"}", i));
}

/* For who has it run for long. */
static void figures_print(unsigned kills)
{
    const char *info = asset_call(&assets, "core.info", "{}");

    fprintf(stderr,
            "%llu resources acquired and verified, %llu not there, %lld evicted, %lld reloaded, "
            "%u games killed; %u descriptors\n",
            (unsigned long long)sums->verified, (unsigned long long)sums->refused,
            (long long)reply_number(info, "result/counters/resource.evicted"),
            (long long)reply_number(info, "result/counters/resource.reloaded"), kills,
            process_descriptors(assets.process.pid));
}

/* Returns how many games were killed. */
static unsigned rage(int64_t seconds)
{
    int64_t end_ns = ec_real_ns() + seconds * EC_NS_PER_S, kill_ns = ec_real_ns() + KILL_NS;
    struct game game[GAMES];
    uint64_t random = 4711;
    unsigned kills = 0;

    for (unsigned i = 0; i < GAMES; i++)
        game[i] = game_start(game_main, assets.process.socket_path);
    while (ec_real_ns() < end_ns) {
        asset_ok(asset_call(&assets, "resource.evict", "{\"bytes\":%llu}",
                            1 + (unsigned long long)(random_next(&random) % 1000000)));
        write_file(some(&random, files), (uint32_t)random_next(&random) | 1);
        if (ec_real_ns() > kill_ns) {
            unsigned victim = (unsigned)(random_next(&random) % GAMES);

            ck_assert_int_eq(game_kill(&game[victim]), -SIGKILL);
            game[victim] = game_start(game_main, assets.process.socket_path);
            kill_ns = ec_real_ns() + KILL_NS;
            kills++;
        }
    }
    for (unsigned i = 0; i < GAMES; i++)
        game_tell(&game[i]);
    for (unsigned i = 0; i < GAMES; i++)
        ck_assert_int_eq(game_end(&game[i]), 0);
    ck_assert_uint_gt(kills, 0);
    return kills;
}

static void storm(bool membarrier)
{
    const char *seconds = getenv("EC_STORM_S");
    char path[160];
    unsigned descriptors, kills;

    sums = mmap(NULL, sizeof *sums, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(sums, MAP_FAILED);
    assets = (struct asset_daemon) { 0 };
    asset_daemon_prepare(&assets);
    for (unsigned i = 0; i < files; i++)
        write_file(i, 0);
    snprintf(path, sizeof path, "%s/groups.json", assets.process.directory);
    write_manifest(path);
    asset_daemon_start(
        &assets, (const char *const[]) {
                     "--set", "resource.hot_reload=true", "--set", "resource.soft_bytes=1000000",
                     "--set", membarrier ? "resource.membarrier=true" : "resource.membarrier=false",
                     "--set", "log.level=error", NULL });
    ck_assert_int_eq(
        reply_number(asset_call(&assets, "resource.define", "{\"manifest\":\"%s\"}", path),
                     "result/groups"),
        groups);
    asset_load(&assets, "g1");
    asset_ok(asset_call(&assets, "resource.unload", "{\"group\":\"g1\"}"));
    while (asset_bytes(&assets) != 0)
        ;
    asset_await_idle(&assets);
    descriptors = process_descriptors(assets.process.pid);
    kills = rage((seconds != NULL ? atoll(seconds) : 10) / 2 + 1);
    unload_all();
    await_idle(descriptors);
    if (seconds != NULL)
        figures_print(kills);
    ck_assert_int_eq(
        reply_number(asset_call(&assets, "memory.stats", "{}"), "result/assets/resources"), 0);
    asset_daemon_stop(&assets);
}

START_TEST(a_storm_leaves_nothing_and_nobody_reads_wrong_bytes)
{
    storm(_i == 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("resource storm");
    TCase *tcase = tcase_create("resource storm");
    SRunner *runner;
    int failed;

    tcase_set_timeout(tcase, 0); /* what is waited for has its own deadline */
    tcase_add_loop_test(tcase, a_storm_leaves_nothing_and_nobody_reads_wrong_bytes, 0, 2);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
