/* bench_resources.c - shared assets: what holding, finding and evicting them costs.
 *
 *     bench_resources [ROW ...]
 *
 *   resources.acquire             acquire + release in line  against  + 1 and - 1 of a private counter
 *   resources.acquire_2           the same while a second process does it, too
 *   resources.acquire_roundtrip   the same  against  asking another process over AF_UNIX, twice
 *   resources.acquire_walk        the same for 4,096 resources in turn  against  as many counters, printed
 *   resources.acquire_call        by the functions of the library  against  two that do nothing
 *   resources.acquire_view        the same with a fresh view each time, printed
 *   resources.lookup              find by name  against  uthash with the same keys
 *   resources.evict               order -> memory back, 100 MB  against  bare punching of holes
 *   resources.policy              bytes that a game waits for again, LRU-2  against  LRU, on the trace of
 *                                 bench/session_trace.h with memory for a third of it
 *   resources.policy_soft         the same with the soft references of the trace  against  LRU
 *   resources.dead_client         SIGKILL of a holder -> nothing is held, alone
 *   resources.failed_group        heap bytes left of a group of 50 with one bad resource, alone
 *   resources.copies              memory of the host that a group of 200 MB takes which 8 games have read all
 *                                 of, their share of pages and what is left of the file in memory together, in
 *                                 copies; alone
 *
 * The games are real clients of a real daemon on a socket of its own. */
#include <engine-core/client.h>
#include <engine-core/resource_inline.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uthash.h>

#include "bench/harness.h"
#include "bench/session_trace.h"
#include "support/daemon.h"
#include "support/sample_images.h"

#define PAIRS_A_RUN 1000000 /* a few milliseconds */
#define ROUND_TRIPS_A_RUN 500
#define NAMES 4096
#define WALKS_A_RUN 100
#define LOOKUPS_A_RUN 10 /* of each name */
#define LARGE_COUNT 10
#define LARGE_BYTES (10u << 20)

static struct daemon_process daemon_;
static char archive[128];
static char names[NAMES][32];

static void say(struct ec_client *client, const char *method, const char *params)
{
    struct ec_error why = { 0 };
    char *result = NULL;

    if (ec_client_call(client, method, params, &result, &why) != EC_OK)
        bench_fail("%s: %s", method, why.text);
    free(result);
}

static struct ec_client *game(void)
{
    const struct ec_client_desc desc = { .name = "bench", .socket_path = daemon_.socket_path };
    struct ec_client *client;
    struct ec_error why = { 0 };

    if (ec_client_create(&desc, &client, &why) != EC_OK)
        bench_fail("%s", why.text);
    return client;
}

static ec_resource loaded(struct ec_client *client, const char *group, const char *name)
{
    ec_resource resource;
    char params[128];

    snprintf(params, sizeof params, "{\"group\":\"%s\"}", group);
    say(client, "resource.load", params);
    if (ec_resource_find(client, name, &resource) != EC_OK)
        bench_fail("%s is not there", name);
    return resource;
}

/* ---- acquire ---------------------------------------------------------------------------------- */

typedef double run_fn(const void *context); /* ns that one of many took */

/* One run after the other, on the first processor. */
static void answer_runs(run_fn *run, const void *context)
{
    bench_pin(0);
    bench_ready();
    while (bench_next()) {
        long before = bench_switches();
        double ns = run(context);

        bench_answer(ns, bench_switches() - before);
    }
}

struct held {
    struct ec_client *client;
    ec_resource resource;
    struct ec_resource_view *view; /* of the calls; NULL: none */
};

static double hold_and_release(const void *context)
{
    const struct held held = *(const struct held *)context;
    int64_t begin = bench_ns();

    for (unsigned i = 0; i < PAIRS_A_RUN; i++) {
        if (ec_resource_acquire_inline(held.client, held.resource) != EC_OK)
            bench_fail("acquire failed");
        ec_resource_release_inline(held.client, held.resource);
    }
    return (double)(bench_ns() - begin) / PAIRS_A_RUN;
}

static double hold_and_release_by_calls(const void *context)
{
    const struct held held = *(const struct held *)context;
    int64_t begin = bench_ns();

    for (unsigned i = 0; i < PAIRS_A_RUN; i++) {
        if (ec_resource_acquire(held.client, held.resource, held.view) != EC_OK)
            bench_fail("acquire failed");
        ec_resource_release(held.client, held.resource);
    }
    return (double)(bench_ns() - begin) / PAIRS_A_RUN;
}

static struct held held_by_game(void)
{
    struct held held = { .client = game() };

    held.resource = loaded(held.client, "names", "name 7");
    return held;
}

static void acquire(const void *context)
{
    const struct held held = held_by_game();

    (void)context;
    hold_and_release(&held);
    answer_runs(hold_and_release, &held);
    ec_client_destroy(held.client);
}

/* context: not NULL to have a view each time. */
static void acquire_by_calls(const void *context)
{
    struct held held = held_by_game();
    struct ec_resource_view view;

    held.view = context != NULL ? &view : NULL;
    hold_and_release_by_calls(&held);
    answer_runs(hold_and_release_by_calls, &held);
    ec_client_destroy(held.client);
}

struct walk {
    struct ec_client *client;
    ec_resource resources[NAMES];
};

static double hold_all_in_turn(const void *context)
{
    const struct walk *walk = context;
    struct ec_client *client = walk->client;
    int64_t begin = bench_ns();

    for (unsigned round = 0; round < WALKS_A_RUN; round++)
        for (unsigned i = 0; i < NAMES; i++) {
            if (ec_resource_acquire_inline(client, walk->resources[i]) != EC_OK)
                bench_fail("acquire failed");
            ec_resource_release_inline(client, walk->resources[i]);
        }
    return (double)(bench_ns() - begin) / (WALKS_A_RUN * NAMES);
}

/* What a frame does: each of many resources once. */
static void acquire_walk(const void *context)
{
    static struct walk walk;

    (void)context;
    walk.client = game();
    loaded(walk.client, "names", names[0]);
    for (unsigned i = 0; i < NAMES; i++)
        if (ec_resource_find(walk.client, names[i], &walk.resources[i]) != EC_OK)
            bench_fail("%s is not there", names[i]);
    answer_runs(hold_all_in_turn, &walk);
    ec_client_destroy(walk.client);
}

/* The second game: holds and releases while the shared word is the number of the run. */
static void second_game(struct bench_partner *parent, const void *context)
{
    struct ec_client *client = game();
    ec_resource resource = loaded(client, "names", "name 7");
    const _Atomic uint64_t *now = context;
    uint64_t run;

    bench_pin(1);
    bench_partner_send(parent, 0);
    while (bench_partner_wait(parent, &run)) {
        bench_partner_send(parent, 0);
        while (atomic_load_explicit(now, memory_order_relaxed) == run) {
            if (ec_resource_acquire_inline(client, resource) == EC_OK)
                ec_resource_release_inline(client, resource);
        }
    }
    ec_client_destroy(client);
}

static void acquire_beside_another(const void *context)
{
    _Atomic uint64_t *now =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct bench_partner partner;
    struct held held;
    uint64_t run = 0, value;

    (void)context;
    if (now == MAP_FAILED)
        bench_fail("mmap failed");
    bench_partner_start(&partner, second_game, now);
    bench_partner_wait(&partner, &value);
    held = held_by_game();
    bench_pin(0);
    bench_ready();
    while (bench_next()) {
        long before;
        double ns;

        atomic_store(now, ++run);
        bench_partner_send(&partner, run);
        bench_partner_wait(&partner, &value);
        before = bench_switches();
        ns = hold_and_release(&held);
        bench_answer(ns, bench_switches() - before);
        atomic_store(now, 0);
    }
    bench_partner_end(&partner);
    ec_client_destroy(held.client);
}

/* What a game would do for an asset of its own: raise the count of the object at hand and lower it. */
static inline void count_privately(_Atomic int32_t *counter)
{
    __asm__ volatile("" : "+r"(counter) : : "memory"); /* which one is known only now */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    __asm__ volatile("" : "+r"(counter) : : "memory"); /* it is used in between */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) - 1,
                          memory_order_relaxed);
}

static double count_one(const void *context)
{
    _Atomic int32_t *counters = *(_Atomic int32_t *const *)context;
    int64_t begin = bench_ns();

    for (unsigned i = 0; i < PAIRS_A_RUN; i++)
        count_privately(&counters[7]);
    return (double)(bench_ns() - begin) / PAIRS_A_RUN;
}

static double count_all_in_turn(const void *context)
{
    _Atomic int32_t *counters = *(_Atomic int32_t *const *)context;
    int64_t begin = bench_ns();

    for (unsigned round = 0; round < WALKS_A_RUN; round++)
        for (unsigned i = 0; i < NAMES; i++)
            count_privately(&counters[i]);
    return (double)(bench_ns() - begin) / (WALKS_A_RUN * NAMES);
}

/* context: which of them are counted. */
static void private_counters(const void *context)
{
    run_fn *const *run = context;
    _Atomic int32_t *counters = calloc(NAMES, sizeof *counters);

    if (counters == NULL)
        bench_fail("no memory");
    answer_runs(*run, &counters);
    free(counters);
}

__attribute__((noinline)) static int nothing(struct ec_client *client, ec_resource resource,
                                             struct ec_resource_view *view)
{
    __asm__ volatile("" : : "r"(client), "r"(resource.value), "r"(view) : "memory");
    return EC_OK;
}

/* What two calls cost that do nothing at all. */
static double call_nothing(const void *context)
{
    int64_t begin = bench_ns();

    (void)context;
    for (unsigned i = 0; i < PAIRS_A_RUN; i++) {
        if (nothing(NULL, (ec_resource) { 7 }, NULL) != EC_OK)
            bench_fail("impossible");
        nothing(NULL, (ec_resource) { 7 }, NULL);
    }
    return (double)(bench_ns() - begin) / PAIRS_A_RUN;
}

static void empty_calls(const void *context)
{
    answer_runs(call_nothing, context);
}

/* ---- the same by asking ----------------------------------------------------------------------- */

static void keeper(struct bench_partner *parent, const void *context)
{
    int fd = *(const int *)context;
    uint64_t message;

    (void)parent;
    while (recv(fd, &message, sizeof message, 0) == (ssize_t)sizeof message)
        if (send(fd, &message, sizeof message, MSG_NOSIGNAL) != (ssize_t)sizeof message)
            return;
}

static void ask(int fd, uint64_t message)
{
    if (send(fd, &message, sizeof message, MSG_NOSIGNAL) != (ssize_t)sizeof message ||
        recv(fd, &message, sizeof message, 0) != (ssize_t)sizeof message)
        bench_fail("the keeper has gone");
}

static void round_trips(const void *context)
{
    struct bench_partner partner;
    int ends[2];

    (void)context;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        bench_fail("socketpair failed");
    bench_partner_start(&partner, keeper, &ends[1]);
    close(ends[1]);
    bench_ready();
    while (bench_next()) {
        int64_t begin = bench_ns();

        for (unsigned i = 0; i < ROUND_TRIPS_A_RUN; i++) {
            ask(ends[0], 1);
            ask(ends[0], 0);
        }
        /* Each round trip is two switches of both processes: none of them is a disturbance. */
        bench_answer((double)(bench_ns() - begin) / ROUND_TRIPS_A_RUN, 0);
    }
    shutdown(ends[0], SHUT_RDWR);
    bench_partner_end(&partner);
}

/* ---- lookup ----------------------------------------------------------------------------------- */

struct known {
    char name[32];
    uint64_t handle;
    UT_hash_handle hh;
};

static void names_make(void)
{
    for (unsigned i = 0; i < NAMES; i++)
        snprintf(names[i], sizeof names[i], "name %u", i * 2654435761u % NAMES);
}

static double find_all(const void *context)
{
    struct ec_client *client = *(struct ec_client *const *)context;
    ec_resource resource;
    int64_t begin = bench_ns();

    for (unsigned round = 0; round < LOOKUPS_A_RUN; round++)
        for (unsigned i = 0; i < NAMES; i++)
            if (ec_resource_find(client, names[i], &resource) != EC_OK)
                bench_fail("%s was not found", names[i]);
    return (double)(bench_ns() - begin) / (LOOKUPS_A_RUN * NAMES);
}

static void lookup(const void *context)
{
    struct ec_client *client = game();

    (void)context;
    loaded(client, "names", "name 7");
    answer_runs(find_all, &client);
    ec_client_destroy(client);
}

static double find_all_in_table(const void *context)
{
    struct known *table = *(struct known *const *)context, *found;
    int64_t begin = bench_ns();

    for (unsigned round = 0; round < LOOKUPS_A_RUN; round++)
        for (unsigned i = 0; i < NAMES; i++) {
            HASH_FIND_STR(table, names[i], found);
            if (found == NULL || found->handle == 0)
                bench_fail("%s was not found", names[i]);
        }
    return (double)(bench_ns() - begin) / (LOOKUPS_A_RUN * NAMES);
}

static void lookup_uthash(const void *context)
{
    struct known *table = NULL, *rows = calloc(NAMES, sizeof *rows);

    (void)context;
    if (rows == NULL)
        bench_fail("no memory");
    for (unsigned i = 0; i < NAMES; i++) {
        snprintf(rows[i].name, sizeof rows[i].name, "name %u", i);
        rows[i].handle = i + 1;
        HASH_ADD_STR(table, name, &rows[i]);
    }
    answer_runs(find_all_in_table, &table);
    HASH_CLEAR(hh, table);
    free(rows);
}

/* ---- evict ------------------------------------------------------------------------------------ */

static void evict(const void *context)
{
    struct ec_client *client = game();

    (void)context;
    bench_ready();
    while (bench_next()) {
        int64_t begin;

        say(client, "resource.load", "{\"group\":\"large\"}");
        begin = bench_ns();
        say(client, "resource.evict", "{\"group\":\"large\"}");
        bench_answer((double)(bench_ns() - begin) / 1e6, 0);
    }
    ec_client_destroy(client);
}

static void punch(const void *context)
{
    int fd = memfd_create("bench", MFD_CLOEXEC);

    (void)context;
    if (fd < 0 || ftruncate(fd, 1 << 30) < 0)
        bench_fail("memfd failed");
    bench_ready();
    while (bench_next()) {
        unsigned char *base;
        int64_t begin;

        if (fallocate(fd, 0, 0, (off_t)LARGE_BYTES * LARGE_COUNT) < 0)
            bench_fail("fallocate failed");
        base = mmap(NULL, LARGE_BYTES * LARGE_COUNT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (base == MAP_FAILED)
            bench_fail("mmap failed");
        memset(base, 7, LARGE_BYTES * LARGE_COUNT); /* mapped, as the heap is by the daemon */
        begin = bench_ns();
        for (unsigned i = 0; i < LARGE_COUNT; i++)
            if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)LARGE_BYTES * i,
                          LARGE_BYTES) < 0)
                bench_fail("punch failed");
        bench_answer((double)(bench_ns() - begin) / 1e6, 0);
        munmap(base, LARGE_BYTES * LARGE_COUNT);
    }
    close(fd);
}

/* ---- content and rows ------------------------------------------------------------------------- */

/* Large ones differ, or they would lie in memory once. */
static void define(struct line_client *line, const char *group, unsigned count)
{
    char *params = malloc(64 + (size_t)count * 64);
    size_t at;

    if (params == NULL)
        bench_fail("no memory");
    at = (size_t)sprintf(params, "{\"group\":\"%s\",\"resources\":[", group);
    for (unsigned i = 0; i < count; i++) {
        at += (size_t)sprintf(params + at, "%s{\"name\":\"", i > 0 ? "," : "");
        at += (size_t)sprintf(params + at, strcmp(group, "large") == 0 ? "large %u" : "name %u", i);
        at += (size_t)sprintf(params + at, "\",\"path\":\"");
        at += (size_t)sprintf(params + at, strcmp(group, "large") == 0 ? "large%u" : "small", i);
        at += (size_t)sprintf(params + at, "\"}");
    }
    strcpy(params + at, "]}");
    if (strstr(line_client_call(line, "resource.define", params), "\"result\"") == NULL)
        bench_fail("%s cannot be defined", group);
    free(params);
}

static void content_make(void)
{
    unsigned char *large = malloc(LARGE_BYTES);
    struct sample_zip zip = { 0 };
    struct line_client line = { 0 };
    char params[256];

    if (large == NULL)
        bench_fail("no memory");
    sample_zip_add(&zip, "small", "small", 5);
    for (int i = 0; i < LARGE_COUNT; i++) {
        char name[16];

        memset(large, 7 + i, LARGE_BYTES);
        snprintf(name, sizeof name, "large%d", i);
        sample_zip_add(&zip, name, large, LARGE_BYTES);
    }
    sample_zip_write(&zip, archive);
    free(large);
    if (!line_client_connect(&line, daemon_.socket_path))
        bench_fail("cannot connect");
    line_client_hello(&line, "bench");
    snprintf(params, sizeof params, "{\"path\":\"%s\"}", archive);
    if (strstr(line_client_call(&line, "resource.mount", params), "\"result\"") == NULL)
        bench_fail("%s cannot be mounted", archive);
    define(&line, "names", NAMES);
    define(&line, "large", LARGE_COUNT);
    line_client_close(&line);
}

static const bool with_view = true;
static run_fn *const count_one_run = count_one, *const count_all_run = count_all_in_turn;

static const struct bench_contender peers[] = {
    { .name = "private counter", .run = private_counters, .context = &count_one_run },
    { .name = "AF_UNIX round trips", .run = round_trips },
    { .name = "uthash", .run = lookup_uthash },
    { .name = "fallocate PUNCH_HOLE", .run = punch },
    { .name = "private counters", .run = private_counters, .context = &count_all_run },
    { .name = "empty calls", .run = empty_calls },
};

static const struct {
    struct bench_row row;
    struct bench_contender ours;
    const struct bench_contender *peer;
} rows[] = {
    { { .name = "resources.acquire", .unit = "ns", .op = "<=", .goal = 3, .pairs = 31 },
      { .name = "engine-core", .run = acquire },
      &peers[0] },
    { { .name = "resources.acquire_2", .unit = "ns", .op = "<=", .goal = 3, .pairs = 11 },
      { .name = "engine-core", .run = acquire_beside_another },
      &peers[0] },
    { { .name = "resources.acquire_roundtrip", .unit = "ns", .op = "<=", .goal = 0.0002 },
      { .name = "engine-core", .run = acquire },
      &peers[1] },
    { { .name = "resources.acquire_walk", .unit = "ns" },
      { .name = "engine-core", .run = acquire_walk },
      &peers[4] },
    { { .name = "resources.acquire_call", .unit = "ns" },
      { .name = "engine-core", .run = acquire_by_calls },
      &peers[5] },
    { { .name = "resources.acquire_view", .unit = "ns" },
      { .name = "engine-core", .run = acquire_by_calls, .context = &with_view },
      &peers[0] },
    { { .name = "resources.lookup", .unit = "ns", .op = "<=", .goal = 1.2 },
      { .name = "engine-core", .run = lookup },
      &peers[2] },
    { { .name = "resources.evict", .unit = "ms", .op = "<=", .goal = 1.3, .shared = true },
      { .name = "engine-core", .run = evict },
      &peers[3] },
};

/* ---- policies --------------------------------------------------------------------------------- */

static char trace_path[128];
static uint64_t trace_bytes;

/* What engine-ctl says of one policy; context is its name. */
static void policy(const void *context)
{
    const char *directory = getenv("EC_BIN_DIR");
    char command[512], wanted[64], *text = malloc(65536), *at;
    size_t bytes;
    FILE *out;

    snprintf(command, sizeof command, "%s/engine-ctl --json resources replay %s --bytes %llu",
             directory != NULL ? directory : "bin", trace_path,
             (unsigned long long)trace_bytes / 3);
    snprintf(wanted, sizeof wanted, "\"policy\":\"%s\"", (const char *)context);
    out = popen(command, "re");
    if (out == NULL || text == NULL)
        bench_fail("%s", command);
    bytes = fread(text, 1, 65535, out);
    text[bytes] = '\0';
    at = pclose(out) == 0 ? strstr(text, wanted) : NULL;
    at = at != NULL ? strstr(at, "\"reloaded_bytes\":") : NULL;
    if (at == NULL)
        bench_fail("%s said %.200s", command, text);
    bench_ready();
    while (bench_next())
        bench_answer(strtod(at + strlen("\"reloaded_bytes\":"), NULL), 0);
    free(text);
}

/* ---- a game that dies, a group that fails ------------------------------------------------------ */

static double number_of(struct ec_client *client, const char *method, const char *params,
                        const char *member)
{
    struct ec_error why = { 0 };
    char *result = NULL, *at;
    double number;

    if (ec_client_call(client, method, params, &result, &why) != EC_OK)
        bench_fail("%s: %s", method, why.text);
    at = strstr(result, member);
    if (at == NULL)
        bench_fail("%s has no %s", method, member);
    number = strtod(at + strlen(member), NULL);
    free(result);
    return number;
}

static void holder(struct bench_partner *parent, const void *context)
{
    struct ec_client *client = game();

    (void)context;
    if (ec_resource_acquire(client, loaded(client, "names", "name 7"), NULL) != EC_OK)
        bench_fail("acquire failed");
    bench_partner_send(parent, 1);
    pause();
}

static void dead_client(const void *context)
{
    struct ec_client *client = game();

    (void)context;
    loaded(client, "names", "name 7");
    bench_ready();
    while (bench_next()) {
        struct bench_partner partner;
        uint64_t value;
        int64_t begin;

        bench_partner_start(&partner, holder, NULL);
        bench_partner_wait(&partner, &value);
        begin = bench_ns();
        kill(partner.pid, SIGKILL);
        while (number_of(client, "resource.get", "{\"name\":\"name 7\"}", "\"hard_refs\":") > 0)
            ;
        bench_answer((double)(bench_ns() - begin) / 1e6, 0);
        bench_partner_end(&partner);
    }
    ec_client_destroy(client);
}

static void failed_group(const void *context)
{
    struct ec_client *client = game();
    struct ec_error why = { 0 };
    char params[8192] = "{\"group\":\"bad\",\"resources\":[", *result = NULL;
    double before;

    (void)context;
    for (int i = 0; i < 50; i++)
        snprintf(params + strlen(params), sizeof params - strlen(params),
                 "%s{\"name\":\"bad %d\",\"path\":\"%s%d\"}", i > 0 ? "," : "", i,
                 i == 37 ? "not there" : "large", i % LARGE_COUNT);
    snprintf(params + strlen(params), sizeof params - strlen(params), "]}");
    say(client, "resource.define", params);
    bench_ready();
    while (bench_next()) {
        before = number_of(client, "memory.stats", "{}", "\"assets\":{\"bytes\":");
        if (ec_client_call(client, "resource.load", "{\"group\":\"bad\"}", &result, &why) == EC_OK)
            bench_fail("the bad group was loaded");
        while (number_of(client, "resource.stats", "{}", "\"running\":") > 0)
            ; /* what was cancelled comes to its end */
        bench_answer(number_of(client, "memory.stats", "{}", "\"assets\":{\"bytes\":") - before, 0);
    }
    ec_client_destroy(client);
}

/* ---- one copy for all -------------------------------------------------------------------------- */

#define COPIES_FILES 20
#define COPIES_GAMES 8

/* The bytes that are this process's share of the pages it has mapped. */
static uint64_t share_of(pid_t pid)
{
    char path[64], line[128];
    uint64_t kib = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%ld/smaps_rollup", (long)pid);
    file = fopen(path, "re");
    if (file == NULL)
        bench_fail("%s cannot be read", path);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "Pss:", 4) == 0)
            kib = strtoull(line + 4, NULL, 10);
    fclose(file);
    return kib * 1024;
}

/* Of a file, the bytes that the kernel has in memory. */
static uint64_t cached_of(const char *file)
{
    static unsigned char present[LARGE_BYTES / 4096];
    const int fd = open(file, O_RDONLY | O_CLOEXEC);
    void *mapped = mmap(NULL, LARGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    uint64_t bytes = 0;

    if (fd < 0 || mapped == MAP_FAILED || mincore(mapped, LARGE_BYTES, present) < 0)
        bench_fail("%s cannot be looked at", file);
    for (size_t i = 0; i < sizeof present; i++)
        bytes += 4096u * (present[i] & 1);
    munmap(mapped, LARGE_BYTES);
    close(fd);
    return bytes;
}

static void copies_file(char path[160], unsigned index)
{
    snprintf(path, 160, "%s/copies/%u", daemon_.directory, index);
}

static void copies_define(struct ec_client *client)
{
    unsigned char *bytes = malloc(LARGE_BYTES);
    char params[2048], path[160];

    if (bytes == NULL)
        bench_fail("no memory");
    snprintf(path, sizeof path, "%s/copies", daemon_.directory);
    mkdir(path, 0700);
    snprintf(params, sizeof params, "{\"path\":\"%s\"}", path);
    for (unsigned i = 0; i < COPIES_FILES; i++) {
        int fd;

        memset(bytes, 100 + (int)i, LARGE_BYTES);
        copies_file(path, i);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0 || write(fd, bytes, LARGE_BYTES) != LARGE_BYTES || fsync(fd) < 0)
            bench_fail("%s cannot be written", path);
        close(fd);
    }
    free(bytes);
    say(client, "resource.mount", params);
    snprintf(params, sizeof params, "{\"group\":\"copies\",\"resources\":[");
    for (unsigned i = 0; i < COPIES_FILES; i++)
        snprintf(params + strlen(params), sizeof params - strlen(params),
                 "%s{\"name\":\"copy %u\",\"path\":\"%u\"}", i > 0 ? "," : "", i, i);
    snprintf(params + strlen(params), sizeof params - strlen(params), "]}");
    say(client, "resource.define", params);
}

/* Told to, reads all of it; told again, says by how much its share has grown. */
static void reader(struct bench_partner *parent, const void *context)
{
    struct ec_client *client = game();
    const uint64_t before = share_of(getpid());
    volatile unsigned char byte;
    uint64_t value;

    (void)context;
    bench_partner_send(parent, 1);
    bench_partner_wait(parent, &value);
    for (unsigned i = 0; i < COPIES_FILES; i++) {
        struct ec_resource_view view;
        ec_resource resource;
        char name[16];

        snprintf(name, sizeof name, "copy %u", i);
        if (ec_resource_find(client, name, &resource) != EC_OK ||
            ec_resource_acquire(client, resource, &view) != EC_OK)
            bench_fail("%s is not there", name);
        for (size_t at = 0; at < view.bytes; at += 64)
            byte = ((const unsigned char *)view.data)[at];
    }
    (void)byte;
    bench_partner_send(parent, 1);
    bench_partner_wait(parent, &value);
    bench_partner_send(parent, share_of(getpid()) - before);
    bench_partner_wait(parent, &value);
    ec_client_destroy(client);
}

static uint64_t all_say(const struct bench_partner *partners)
{
    uint64_t sum = 0, value;

    for (unsigned i = 0; i < COPIES_GAMES; i++) {
        if (!bench_partner_wait(&partners[i], &value))
            bench_fail("a game has ended");
        sum += value;
    }
    return sum;
}

static void tell_all(const struct bench_partner *partners)
{
    for (unsigned i = 0; i < COPIES_GAMES; i++)
        bench_partner_send(&partners[i], 1);
}

static void copies(const void *context)
{
    struct ec_client *client = game();
    char path[160];

    (void)context;
    copies_define(client);
    bench_ready();
    while (bench_next()) {
        struct bench_partner partners[COPIES_GAMES];
        const uint64_t before = share_of(daemon_.pid);
        uint64_t bytes;

        for (unsigned i = 0; i < COPIES_GAMES; i++)
            bench_partner_start(&partners[i], reader, NULL);
        all_say(partners);
        say(client, "resource.load", "{\"group\":\"copies\"}");
        tell_all(partners);
        all_say(partners);
        tell_all(partners);
        bytes = all_say(partners) + share_of(daemon_.pid) - before;
        for (unsigned i = 0; i < COPIES_FILES; i++) {
            copies_file(path, i);
            bytes += cached_of(path);
        }
        bench_answer((double)bytes / ((double)COPIES_FILES * LARGE_BYTES), 0);
        tell_all(partners);
        for (unsigned i = 0; i < COPIES_GAMES; i++)
            bench_partner_end(&partners[i]);
        say(client, "resource.unload", "{\"group\":\"copies\"}");
        say(client, "resource.evict", "{\"bytes\":1}");
    }
    for (unsigned i = 0; i < COPIES_FILES; i++) {
        copies_file(path, i);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/copies", daemon_.directory);
    rmdir(path);
    ec_client_destroy(client);
}

static const struct bench_contender lru = { .name = "LRU", .run = policy, .context = "LRU" };

static const struct {
    struct bench_row row;
    struct bench_contender ours;
    const struct bench_contender *peer;
} residency_rows[] = {
    { { .name = "resources.policy", .unit = "B", .op = "<=", .goal = 0.95, .pairs = 5 },
      { .name = "engine-core", .run = policy, .context = "LRU-2" },
      &lru },
    { { .name = "resources.policy_soft", .unit = "B", .op = "<=", .goal = 0.55, .pairs = 5 },
      { .name = "engine-core", .run = policy, .context = "LRU-2 + soft" },
      &lru },
    { { .name = "resources.dead_client", .unit = "ms", .op = "<=", .goal = 100 },
      { .name = "engine-core", .run = dead_client },
      NULL },
    { { .name = "resources.failed_group", .unit = "B", .op = "<=", .goal = 0, .pairs = 5 },
      { .name = "engine-core", .run = failed_group },
      NULL },
    { { .name = "resources.copies",
        .unit = "copies",
        .op = "<=",
        .goal = 1.05,
        .pairs = 5,
        .shared = true },
      { .name = "engine-core", .run = copies },
      NULL },
};

int main(int argc, char **argv)
{
    bool measured = true;

    if (!daemon_prepare(&daemon_) || !daemon_start(&daemon_, NULL)) {
        fprintf(stderr, "bench_resources: %s\n", daemon_.why);
        return 1;
    }
    snprintf(archive, sizeof archive, "%s/content.zip", daemon_.directory);
    names_make();
    content_make();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (bench_wanted(argc, argv, rows[i].row.name))
            measured = bench_compare(&rows[i].row, &rows[i].ours, rows[i].peer) && measured;
    snprintf(trace_path, sizeof trace_path, "%s/session.trace", daemon_.directory);
    if (!session_trace_write(trace_path, &trace_bytes))
        return 1;
    for (size_t i = 0; i < sizeof residency_rows / sizeof residency_rows[0]; i++)
        if (bench_wanted(argc, argv, residency_rows[i].row.name))
            measured = bench_compare(&residency_rows[i].row, &residency_rows[i].ours,
                                     residency_rows[i].peer) &&
                       measured;
    unlink(archive);
    return daemon_stop(&daemon_) == 0 && measured ? 0 : 1;
}
