/* bench_memory.c - arenas and pools against general allocators and against what is physically least.
 *
 *   memory.pair_<n>        allocate and free n bytes at once
 *   memory.lifo1000_<n>    allocate 1,000, free them in reverse
 *   memory.random_<n>      replace one of 100,000 at random
 *   memory.frame_arena     10,000 x 128 bytes, two lines of each touched, then all given back
 *
 * Ours runs as a game does: attached to a daemon, through the shared library, counting in the client
 * segment. A general allocator is measured by this program again, started anew with its library
 * preloaded. Every side writes the first byte of each block. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <engine-core/arena.h>
#include <engine-core/client.h>
#include <engine-core/pool.h>

#include "bench/harness.h"
#include "support/daemon.h"

#define PAIRS 50000        /* a run: below a millisecond */
#define LIFO_BLOCKS 1000   /* more than a magazine holds */
#define LIFO_ROUNDS 50     /* a run */
#define LIVE_BLOCKS 100000 /* of the random load */
#define REPLACEMENTS 50000 /* a run */
#define FRAME_BLOCKS 10000
#define FRAME_BYTES 128
#define FRAMES 20 /* a run */
#define TURNS 31  /* pairs of runs of a row */
#define PRELOADED "preloaded"

enum shape { PAIR, LIFO, RANDOM, FRAME };

/* What a contender does, and with which library. */
struct load {
    enum shape shape;
    size_t bytes;
    const char *library; /* preloaded; NULL: the C library's */
};

/* Where blocks come from. */
struct source {
    void *(*alloc)(void *context, size_t bytes);
    void (*free)(void *context, void *block);
    void (*frame_end)(void *context, void **blocks); /* gives back FRAME_BLOCKS */
    void *context;
};

static void *live[LIVE_BLOCKS];

static inline void touch(void *block, size_t offset)
{
    if (block == NULL)
        bench_fail("no memory");
    ((volatile char *)block)[offset] = 1;
}

/* ---- loads: always inlined, so that no side pays for a call through a pointer ------------------- */

#define INLINE static inline __attribute__((always_inline))

INLINE void run_pair(const struct source *source, size_t bytes)
{
    for (int i = 0; i < PAIRS; i++) {
        void *block = source->alloc(source->context, bytes);

        touch(block, 0);
        source->free(source->context, block);
    }
}

INLINE void run_lifo(const struct source *source, size_t bytes)
{
    for (int round = 0; round < LIFO_ROUNDS; round++) {
        for (int i = 0; i < LIFO_BLOCKS; i++) {
            live[i] = source->alloc(source->context, bytes);
            touch(live[i], 0);
        }
        for (int i = LIFO_BLOCKS; i > 0; i--)
            source->free(source->context, live[i - 1]);
    }
}

INLINE void run_random(const struct source *source, size_t bytes)
{
    static uint64_t state = 88172645463325252u;

    for (int i = 0; i < LIVE_BLOCKS && live[LIVE_BLOCKS - 1] == NULL; i++) {
        live[i] = source->alloc(source->context, bytes);
        touch(live[i], 0);
    }
    for (int i = 0; i < REPLACEMENTS; i++) {
        uint64_t place;

        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        place = state % LIVE_BLOCKS;
        source->free(source->context, live[place]);
        live[place] = source->alloc(source->context, bytes);
        touch(live[place], 0);
    }
}

INLINE void run_frame(const struct source *source, size_t bytes)
{
    for (int frame = 0; frame < FRAMES; frame++) {
        for (int i = 0; i < FRAME_BLOCKS; i++) {
            live[i] = source->alloc(source->context, bytes);
            touch(live[i], 0);
            touch(live[i], 64);
        }
        source->frame_end(source->context, live);
    }
}

/* Returns how many operations that was. */
INLINE unsigned run_load(const struct source *source, const struct load *load)
{
    switch (load->shape) {
    case PAIR:
        run_pair(source, load->bytes);
        return PAIRS;
    case LIFO:
        run_lifo(source, load->bytes);
        return LIFO_ROUNDS * LIFO_BLOCKS;
    case RANDOM:
        run_random(source, load->bytes);
        return REPLACEMENTS;
    case FRAME:
        run_frame(source, load->bytes);
        return FRAMES * FRAME_BLOCKS;
    }
    bench_fail("no such load");
}

/* ns per operation, again and again. */
INLINE void measure(const struct source *source, const struct load *load)
{
    for (int i = 0; i < 3; i++) /* warm up: groups, page tables, the heap's shape */
        run_load(source, load);
    bench_ready();
    while (bench_next()) {
        const long switches = bench_switches();
        const int64_t begin_ns = bench_ns();
        const unsigned operations = run_load(source, load);

        bench_answer((double)(bench_ns() - begin_ns) / operations, bench_switches() - switches);
    }
}

/* ---- ours ---------------------------------------------------------------------------------------- */

static struct daemon_process engine;

static struct ec_client *attach(void)
{
    struct ec_client *client;
    struct ec_error why = { 0 };

    if (!daemon_start(&engine, NULL))
        bench_fail("%s", engine.why);
    if (ec_client_create(
            &(struct ec_client_desc) { .name = "benchmark", .socket_path = engine.socket_path },
            &client, &why) < 0)
        bench_fail("%s", why.text);
    return client;
}

static void leave(struct ec_client *client)
{
    ec_client_destroy(client);
    if (daemon_stop(&engine) != 0)
        bench_fail("the daemon ended badly");
}

INLINE void *alloc_of_pool(void *pool, size_t bytes)
{
    (void)bytes;
    return ec_pool_alloc(pool);
}

INLINE void free_of_pool(void *pool, void *block)
{
    ec_pool_free(pool, block);
}

INLINE void frame_end_of_pool(void *pool, void **blocks)
{
    for (int i = 0; i < FRAME_BLOCKS; i++)
        ec_pool_free(pool, blocks[i]);
}

static void run_pool(const void *context)
{
    const struct load *load = context;
    struct ec_client *client = attach();
    struct ec_error why = { 0 };
    struct ec_pool *pool;

    if (ec_pool_create(
            &(struct ec_pool_desc) { .client = client, .name = "pool", .block_bytes = load->bytes },
            &pool, &why) < 0)
        bench_fail("%s", why.text);
    measure(&(struct source) { alloc_of_pool, free_of_pool, frame_end_of_pool, pool }, load);
    ec_pool_destroy(pool);
    leave(client);
}

INLINE void *alloc_of_arena(void *arena, size_t bytes)
{
    return ec_arena_alloc(arena, bytes, 0);
}

INLINE void frame_end_of_arena(void *arena, void **blocks)
{
    (void)blocks;
    ec_arena_reset(arena);
}

static void run_arena(const void *context)
{
    struct ec_client *client = attach();
    struct ec_error why = { 0 };
    struct ec_arena *arena;

    if (ec_arena_create(&(struct ec_arena_desc) { .client = client,
                                                  .name = "frame",
                                                  .bytes = FRAME_BLOCKS * FRAME_BYTES },
                        &arena, &why) < 0)
        bench_fail("%s", why.text);
    measure(&(struct source) { alloc_of_arena, NULL, frame_end_of_arena, arena }, context);
    ec_arena_destroy(arena);
    leave(client);
}

/* ---- the limit ----------------------------------------------------------------------------------- */

struct bump {
    char *begin, *position, *end;
};

INLINE void *alloc_of_bump(void *context, size_t bytes)
{
    struct bump *bump = context;
    char *block = bump->position;

    bytes = (bytes + 15) & ~(size_t)15;
    if ((size_t)(bump->end - block) < bytes)
        return NULL;
    bump->position += bytes;
    return block;
}

INLINE void frame_end_of_bump(void *context, void **blocks)
{
    struct bump *bump = context;

    (void)blocks;
    bump->position = bump->begin;
}

static void run_bump(const void *context)
{
    struct bump bump = { .begin = malloc(FRAME_BLOCKS * FRAME_BYTES) };

    if (bump.begin == NULL)
        bench_fail("no memory");
    bump.position = bump.begin;
    bump.end = bump.begin + (size_t)FRAME_BLOCKS * FRAME_BYTES;
    measure(&(struct source) { alloc_of_bump, NULL, frame_end_of_bump, &bump }, context);
    free(bump.begin);
}

/* ---- general allocators -------------------------------------------------------------------------- */

INLINE void *alloc_of_heap(void *context, size_t bytes)
{
    void *block = malloc(bytes);

    (void)context;
    __asm__ volatile("" : "+r"(block)); /* so that the pair is not left out */
    return block;
}

INLINE void free_of_heap(void *context, void *block)
{
    (void)context;
    free(block);
}

INLINE void frame_end_of_heap(void *context, void **blocks)
{
    (void)context;
    for (int i = 0; i < FRAME_BLOCKS; i++)
        free(blocks[i]);
}

/* This program again, with the library preloaded. */
static void run_heap(const void *context)
{
    const struct load *load = context;
    char shape[12], bytes[24];
    char *const arguments[] = { (char *)"bench_memory", (char *)PRELOADED, shape, bytes, NULL };

    if (load->library != NULL) {
        if (access(load->library, R_OK) < 0)
            bench_missing(load->library);
        setenv("LD_PRELOAD", load->library, 1);
    }
    snprintf(shape, sizeof shape, "%d", (int)load->shape);
    snprintf(bytes, sizeof bytes, "%zu", load->bytes);
    execv("/proc/self/exe", arguments);
    bench_fail("execv of this program");
}

static int run_preloaded(const char *shape, const char *bytes)
{
    const struct load load = { .shape = (enum shape)strtoul(shape, NULL, 10),
                               .bytes = strtoul(bytes, NULL, 10) };

    measure(&(struct source) { alloc_of_heap, free_of_heap, frame_end_of_heap, NULL }, &load);
    return EXIT_SUCCESS;
}

/* ---- rows ---------------------------------------------------------------------------------------- */

#if defined(__aarch64__)
#define LIBRARIES "/usr/lib/aarch64-linux-gnu/"
#else
#define LIBRARIES "/usr/lib/x86_64-linux-gnu/"
#endif
#define TCMALLOC LIBRARIES "libtcmalloc_minimal.so.4"
#define JEMALLOC LIBRARIES "libjemalloc.so.2"

#define GLIBC_ROW(name_, shape_, bytes_, goal_)                                                    \
    {                                                                                              \
        { .name = name_, .unit = "ns", .op = "<=", .goal = goal_, .pairs = TURNS },                \
            { shape_, bytes_, NULL }, run_pool, "glibc", run_heap                                  \
    }

#define PEER_ROW(name_, shape_, bytes_, goal_, library_, peer_)                                    \
    {                                                                                              \
        { .name = name_, .unit = "ns", .op = "<=", .goal = goal_, .pairs = TURNS },                \
            { shape_, bytes_, library_ }, run_pool, peer_, run_heap                                \
    }

#define ARENA_ROW(goal_, library_, peer_, run_)                                                    \
    {                                                                                              \
        { .name = "memory.frame_arena", .unit = "ns", .op = "<=", .goal = goal_, .pairs = TURNS }, \
            { FRAME, FRAME_BYTES, library_ }, run_arena, peer_, run_                               \
    }

static const struct bench_case {
    struct bench_row row;
    struct load load;
    void (*ours)(const void *context);
    const char *peer_name;
    void (*peer)(const void *context);
} cases[] = {
    GLIBC_ROW("memory.pair_64", PAIR, 64, 0.7),
    PEER_ROW("memory.pair_64", PAIR, 64, 1.1, TCMALLOC, "tcmalloc_minimal"),
    PEER_ROW("memory.pair_64", PAIR, 64, 1.1, JEMALLOC, "jemalloc"),
    GLIBC_ROW("memory.pair_128", PAIR, 128, 0.7),
    PEER_ROW("memory.pair_128", PAIR, 128, 1.1, TCMALLOC, "tcmalloc_minimal"),
    PEER_ROW("memory.pair_128", PAIR, 128, 1.1, JEMALLOC, "jemalloc"),
    GLIBC_ROW("memory.lifo1000_64", LIFO, 64, 1.0),
    PEER_ROW("memory.lifo1000_64", LIFO, 64, 1.0, TCMALLOC, "tcmalloc_minimal"),
    GLIBC_ROW("memory.random_64", RANDOM, 64, 0.7),
    PEER_ROW("memory.random_64", RANDOM, 64, 1.2, TCMALLOC, "tcmalloc_minimal"),
    ARENA_ROW(1.1, NULL, "bump limit", run_bump),
    ARENA_ROW(0.5, NULL, "glibc", run_heap),
    ARENA_ROW(0.5, TCMALLOC, "tcmalloc_minimal", run_heap),
    ARENA_ROW(0.5, JEMALLOC, "jemalloc", run_heap),
};

int main(int argc, char **argv)
{
    int status = EXIT_SUCCESS;

    if (argc == 4 && strcmp(argv[1], PRELOADED) == 0)
        return run_preloaded(argv[2], argv[3]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct bench_contender ours = { .name = "engine-core",
                                              .run = cases[i].ours,
                                              .context = &cases[i].load };
        const struct bench_contender peer = { .name = cases[i].peer_name,
                                              .run = cases[i].peer,
                                              .context = &cases[i].load };

        if (!bench_compare(&cases[i].row, &ours, &peer))
            status = EXIT_FAILURE;
    }
    return status;
}
