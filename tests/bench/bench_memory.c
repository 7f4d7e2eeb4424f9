/* bench_memory.c - arenas and pools against general allocators and against what is physically least.
 *
 *   memory.pair_<n>        allocate and free n bytes at once
 *   memory.lifo1000_<n>    allocate 1,000, free them in reverse
 *   memory.random_<n>      replace one of 100,000 at random
 *   memory.frame_arena     10,000 x 128 bytes, two lines of each touched, then all given back at once
 *   memory.frame_pool      the same from a pool, each freed; and faults and system calls of 100 frames
 *   memory.cross_thread    one thread allocates 128 bytes, another frees them, through a ring of 1,024
 *   memory.heap_<n>        the pair with ec_alloc and ec_free, a tag for each block
 *   memory.counters        the pair counted in the shared page against counted in the pool alone
 *   memory.heap_mixed      1,000 live blocks of 16 to 512 bytes, replaced in turn
 *   memory.debug           the same with the checks of the tier debug: double frees, guard bytes
 *   memory.debug_allocator the same with the debug allocator, without call stacks
 *
 * and what is held, without a peer:
 *
 *   memory.cross_thread_held   capacity beyond the peak of live blocks, in KiB, while cross_thread runs
 *   memory.orphan          64 MiB of a thread that ended, freed and made again by another: growth of RSS
 *   memory.idle_threads    64 threads that freed 4 MiB each and idle: MiB held
 *   memory.returned        64 MiB freed, after a second of frames: percent still resident
 *   memory.patrol          ns for each block that the patrol looks at
 *   memory.align           misaligned blocks, all alignments up to 64 KiB (aligned: 2 MiB)
 *   memory.fork            forks under two allocating threads that hang or count in their parent's page
 *
 * Ours runs as a game does: attached to a daemon, through the shared library, counting in the client
 * segment. A general allocator is measured by this program again, started anew with its library
 * preloaded. Every side writes the first byte of each block. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <engine-core/aligned.h>
#include <engine-core/arena.h>
#include <engine-core/client.h>
#include <engine-core/clock.h>
#include <engine-core/debug.h>
#include <engine-core/heap.h>
#include <engine-core/pool.h>

#include "bench/harness.h"
#include "bench/system_calls.h"
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

enum shape { PAIR, LIFO, RANDOM, FRAME, CROSS, MIXED };

/* What a contender does, and with which library. */
struct load {
    enum shape shape;
    size_t bytes;
    const char *library;                      /* preloaded; NULL: the C library's */
    double (*hold)(struct ec_client *client); /* of run_held: measures once */
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

/* ---- two threads: one that allocates, and one that frees what comes through a ring ---------------- */

#define RING 1024
#define CROSSINGS 50000 /* a run */

static struct {
    void *slots[RING];
    _Alignas(64) _Atomic uint64_t written;
    _Alignas(64) _Atomic uint64_t read;
    pthread_barrier_t begin, end;
    const struct source *source;
    pthread_t thread;
    bool started;
} ring;

static void *consume(void *context)
{
    (void)context;
    bench_pin(1);
    for (;;) {
        pthread_barrier_wait(&ring.begin);
        for (uint64_t i = 0; i < CROSSINGS; i++) {
            const uint64_t at = atomic_load_explicit(&ring.read, memory_order_relaxed);

            while (atomic_load_explicit(&ring.written, memory_order_acquire) == at)
                bench_relax();
            ring.source->free(ring.source->context, ring.slots[at % RING]);
            atomic_store_explicit(&ring.read, at + 1, memory_order_release);
        }
        pthread_barrier_wait(&ring.end);
    }
    return NULL;
}

INLINE void run_cross(const struct source *source, size_t bytes)
{
    if (!ring.started) {
        ring.started = true;
        ring.source = source;
        pthread_barrier_init(&ring.begin, NULL, 2);
        pthread_barrier_init(&ring.end, NULL, 2);
        if (pthread_create(&ring.thread, NULL, consume, NULL) != 0)
            bench_fail("no thread");
        bench_pin(0);
    }
    pthread_barrier_wait(&ring.begin);
    for (int i = 0; i < CROSSINGS; i++) {
        const uint64_t at = atomic_load_explicit(&ring.written, memory_order_relaxed);
        void *block = source->alloc(source->context, bytes);

        touch(block, 0);
        while (at - atomic_load_explicit(&ring.read, memory_order_acquire) == RING)
            bench_relax();
        ring.slots[at % RING] = block;
        atomic_store_explicit(&ring.written, at + 1, memory_order_release);
    }
    pthread_barrier_wait(&ring.end);
}

/* A program with much to allocate: 1,000 live blocks of different sizes, replaced in turn. */
INLINE void run_mixed(const struct source *source)
{
    static uint32_t state = 1;

    for (int i = 0; i < REPLACEMENTS; i++) {
        const size_t place = (size_t)i % 1000;

        if (live[place] != NULL)
            source->free(source->context, live[place]);
        state = state * 1664525 + 1013904223;
        live[place] = source->alloc(source->context, 16 + (state >> 20) % 497);
        touch(live[place], 0);
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
    case CROSS:
        run_cross(source, load->bytes);
        return CROSSINGS;
    case MIXED:
        run_mixed(source);
        return REPLACEMENTS;
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
        const long switches = bench_switches_process();
        const int64_t begin_ns = bench_ns();
        const unsigned operations = run_load(source, load);

        bench_answer((double)(bench_ns() - begin_ns) / operations,
                     bench_switches_process() - switches);
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

/* The same without a client: counted in the pool alone. */
static void run_pool_alone(const void *context)
{
    const struct load *load = context;
    struct ec_error why = { 0 };
    struct ec_pool *pool;

    if (ec_pool_create(&(struct ec_pool_desc) { .name = "pool", .block_bytes = load->bytes }, &pool,
                       &why) < 0)
        bench_fail("%s", why.text);
    measure(&(struct source) { alloc_of_pool, free_of_pool, frame_end_of_pool, pool }, load);
    ec_pool_destroy(pool);
}

INLINE void *alloc_of_general(void *heap, size_t bytes)
{
    return ec_alloc(heap, bytes, EC_TAG_AI);
}

INLINE void free_of_general(void *heap, void *block)
{
    ec_free(heap, block);
}

static void measure_general(const struct load *load, bool guard_bytes)
{
    struct ec_client *client = attach();
    struct ec_error why = { 0 };
    struct ec_heap *heap;

    if (ec_heap_create(
            &(struct ec_heap_desc) { .client = client, .name = "heap", .guard_bytes = guard_bytes },
            &heap, &why) < 0)
        bench_fail("%s", why.text);
    measure(&(struct source) { alloc_of_general, free_of_general, NULL, heap }, load);
    ec_heap_destroy(heap);
    leave(client);
}

static void run_general(const void *context)
{
    measure_general(context, false);
}

/* With what the tier `debug` switches on. */
static void run_guarded(const void *context)
{
    measure_general(context, true);
}

INLINE void *alloc_of_debug(void *debug, size_t bytes)
{
    return ec_debug_alloc(debug, bytes, 0);
}

INLINE void free_of_debug(void *debug, void *block)
{
    ec_debug_free(debug, block);
}

static void run_debug(const void *context)
{
    struct ec_error why = { 0 };
    struct ec_debug *debug;

    if (ec_debug_create(&(struct ec_debug_desc) { .name = "debug", .no_stack = true }, &debug,
                        &why) < 0)
        bench_fail("%s", why.text);
    measure(&(struct source) { alloc_of_debug, free_of_debug, NULL, debug }, context);
    ec_debug_destroy(debug);
}

/* ---- what is held ------------------------------------------------------------------------------- */

#define HELD_BYTES 128
#define HELD_BLOCKS ((size_t)64 << 20 >> 7)
#define IDLE_THREADS 64
#define IDLE_BLOCKS ((size_t)4 << 20 >> 7)

static struct ec_pool *held_pool;
static void *held[HELD_BLOCKS];

static struct ec_pool *make_held(struct ec_client *client)
{
    struct ec_error why = { 0 };

    if (ec_pool_create(
            &(struct ec_pool_desc) { .client = client, .name = "held", .block_bytes = HELD_BYTES },
            &held_pool, &why) < 0)
        bench_fail("%s", why.text);
    return held_pool;
}

static double resident_mib(void)
{
    return (double)process_resident_kib(getpid()) / 1024;
}

static void *allocate_held(void *context)
{
    (void)context;
    for (size_t i = 0; i < HELD_BLOCKS; i++) {
        held[i] = ec_pool_alloc(held_pool);
        touch(held[i], 0);
        touch(held[i], 64);
    }
    return NULL;
}

static void free_held(void)
{
    for (size_t i = 0; i < HELD_BLOCKS; i++)
        ec_pool_free(held_pool, held[i]);
}

static void in_thread(void *(*run)(void *), void *context)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, run, context) != 0)
        bench_fail("no thread");
    pthread_join(thread, NULL);
}

static void run_held(const void *context)
{
    const struct load *load = context;
    struct ec_client *client = attach();

    bench_ready();
    while (bench_next())
        bench_answer(load->hold(client), 0);
    leave(client);
}

static double orphan(struct ec_client *client)
{
    double before, first, after;

    memset(held, 0, sizeof held);
    make_held(client);
    before = resident_mib();
    in_thread(allocate_held, NULL);
    first = resident_mib() - before;
    free_held();
    allocate_held(NULL);
    after = resident_mib() - before;
    ec_pool_destroy(held_pool);
    return after / first;
}

static pthread_barrier_t idle_begin, idle_end;

static void *allocate_free_idle(void *context)
{
    void **blocks = context;

    for (size_t i = 0; i < IDLE_BLOCKS; i++) {
        blocks[i] = ec_pool_alloc(held_pool);
        touch(blocks[i], 0);
    }
    for (size_t i = 0; i < IDLE_BLOCKS; i++)
        ec_pool_free(held_pool, blocks[i]);
    pthread_barrier_wait(&idle_begin);
    pthread_barrier_wait(&idle_end);
    return NULL;
}

/* Frames go on for a second, in which time the rest goes back. */
static void frames_for(struct ec_client *client, int64_t ns)
{
    const struct timespec pause = { .tv_nsec = 16000000 };
    const int64_t begin_ns = bench_ns();

    while (bench_ns() - begin_ns < ns) {
        struct ec_frame frame;

        ec_frame_begin(client, &frame);
        nanosleep(&pause, NULL); /* a frame */
        ec_frame_end(&frame);
    }
}

static double idle_threads(struct ec_client *client)
{
    static void *blocks[IDLE_THREADS][IDLE_BLOCKS];
    pthread_t threads[IDLE_THREADS];
    struct ec_memory_stats stats;

    make_held(client);
    pthread_barrier_init(&idle_begin, NULL, IDLE_THREADS + 1);
    pthread_barrier_init(&idle_end, NULL, IDLE_THREADS + 1);
    for (int i = 0; i < IDLE_THREADS; i++)
        if (pthread_create(&threads[i], NULL, allocate_free_idle, blocks[i]) != 0)
            bench_fail("no thread");
    pthread_barrier_wait(&idle_begin);
    frames_for(client, 1000000000);
    ec_pool_stats(held_pool, &stats);
    pthread_barrier_wait(&idle_end);
    for (int i = 0; i < IDLE_THREADS; i++)
        pthread_join(threads[i], NULL);
    ec_pool_destroy(held_pool);
    return (double)stats.capacity_bytes / (1 << 20);
}

static double returned(struct ec_client *client)
{
    double before, peak, after;

    memset(held, 0, sizeof held);
    make_held(client);
    before = resident_mib();
    allocate_held(NULL);
    peak = resident_mib() - before;
    free_held();
    frames_for(client, 1000000000);
    after = resident_mib() - before;
    ec_pool_destroy(held_pool);
    return 100 * after / peak;
}

/* What the pool has beyond the most that was ever live, while the ring runs. */
static double cross_held(struct ec_client *client)
{
    static struct source source; /* the other thread waits for another run with it */
    uint64_t most = 0;

    source = (struct source) { alloc_of_pool, free_of_pool, NULL, make_held(client) };
    for (int i = 0; i < 50; i++) {
        struct ec_memory_stats stats;

        run_cross(&source, HELD_BYTES);
        ec_pool_stats(held_pool, &stats);
        if (stats.capacity_bytes > most + stats.peak_bytes)
            most = stats.capacity_bytes - stats.peak_bytes;
    }
    ec_pool_destroy(held_pool);
    return (double)most / 1024;
}

static void one_frame(void *context)
{
    for (int i = 0; i < FRAME_BLOCKS; i++) {
        held[i] = ec_pool_alloc(context);
        touch(held[i], 0);
    }
    for (int i = 0; i < FRAME_BLOCKS; i++)
        ec_pool_free(context, held[i]);
}

static void three_frames(void *context)
{
    for (int i = 0; i < 3; i++)
        one_frame(context);
}

static void hundred_and_three_frames(void *context)
{
    for (int i = 0; i < 103; i++)
        one_frame(context);
}

static void *three_frames_of_a_thread(void *context)
{
    three_frames(context);
    return NULL;
}

static double frame_faults(struct ec_client *client)
{
    struct ec_pool *pool = make_held(client);
    struct rusage before, after;

    for (int i = 0; i < 3; i++)
        one_frame(pool);
    getrusage(RUSAGE_THREAD, &before);
    for (int i = 0; i < 100; i++)
        one_frame(pool);
    getrusage(RUSAGE_THREAD, &after);
    ec_pool_destroy(pool);
    return (double)(after.ru_minflt - before.ru_minflt + after.ru_majflt - before.ru_majflt);
}

/* In threads that may make no system call, which therefore use the groups of one that ended. What a new thread
 * needs for its first frames is taken off. */
static double frame_calls(struct ec_client *client)
{
    struct ec_pool *pool = make_held(client);
    long first, all;

    in_thread(three_frames_of_a_thread, pool);
    first = count_system_calls(three_frames, pool);
    all = count_system_calls(hundred_and_three_frames, pool);
    if (first < 0 || all < 0)
        bench_missing("seccomp");
    ec_pool_destroy(pool);
    return (double)(all - first);
}

static void run_patrol(const void *context)
{
    struct ec_debug *debug;
    struct ec_error why = { 0 };

    (void)context;
    if (ec_debug_create(
            &(struct ec_debug_desc) { .name = "debug", .no_stack = true, .patrol_permille = 100 },
            &debug, &why) < 0)
        bench_fail("%s", why.text);
    for (int i = 0; i < FRAME_BLOCKS; i++)
        if (ec_debug_alloc(debug, 64, 0) == NULL)
            bench_fail("no memory");
    bench_ready();
    while (bench_next()) {
        const long switches = bench_switches();
        const int64_t begin_ns = bench_ns();
        uint64_t blocks = 0;

        for (int i = 0; i < 10; i++)
            blocks += ec_debug_patrol(debug);
        bench_answer((double)(bench_ns() - begin_ns) / (double)blocks, bench_switches() - switches);
    }
    ec_debug_destroy(debug);
}

static long misaligned_in_pool(size_t bytes, size_t align)
{
    struct ec_pool *pool;
    struct ec_error why = { 0 };
    long count = 0;

    if (bytes > 65536)
        return 0;
    if (ec_pool_create(
            &(struct ec_pool_desc) { .name = "align", .block_bytes = bytes, .align = align }, &pool,
            &why) < 0)
        bench_fail("%s", why.text);
    for (int i = 0; i < 50; i++)
        count += (uintptr_t)ec_pool_alloc(pool) % align != 0;
    ec_pool_destroy(pool);
    return count;
}

static double misaligned(struct ec_client *client)
{
    struct ec_error why = { 0 };
    struct ec_aligned *aligned;
    struct ec_heap *heap;
    long count = 0;

    (void)client;
    if (ec_aligned_create(&(struct ec_aligned_desc) { .name = "align" }, &aligned, &why) < 0 ||
        ec_heap_create(&(struct ec_heap_desc) { .name = "align" }, &heap, &why) < 0)
        bench_fail("%s", why.text);
    for (size_t align = 16; align <= (size_t)2 << 20; align *= 2) {
        const size_t sizes[] = { align / 2 + 1, align, 3 * align };

        for (int s = 0; s < 3; s++) {
            if (align <= 65536)
                count += misaligned_in_pool(sizes[s], align);
            for (int i = 0; i < 20; i++) {
                count += (uintptr_t)ec_aligned_alloc(aligned, sizes[s], align) % align != 0;
                count += (uintptr_t)ec_alloc_aligned(heap, sizes[s], align, 0) % align != 0;
            }
        }
    }
    ec_aligned_destroy(aligned);
    ec_heap_destroy(heap);
    return (double)count;
}

static _Atomic bool fork_stop;

static void *allocate_all_the_time(void *context)
{
    void *blocks[200];

    while (!atomic_load(&fork_stop)) {
        for (int i = 0; i < 200; i++)
            blocks[i] = ec_pool_alloc(context);
        for (int i = 0; i < 200; i++)
            ec_pool_free(context, blocks[i]);
    }
    return NULL;
}

/* Each child allocates from the pool that it inherited and from one of its own, and says so by its exit. */
static void child_of_fork(struct ec_pool *pool)
{
    struct ec_pool *own;
    struct ec_error why = { 0 };

    alarm(10); /* it hangs: it ends by a signal */
    if (ec_pool_create(&(struct ec_pool_desc) { .name = "child", .block_bytes = 64 }, &own, &why) <
        0)
        _exit(EXIT_FAILURE);
    for (int i = 0; i < 1000; i++)
        if (ec_pool_alloc(pool) == NULL || ec_pool_alloc(own) == NULL)
            _exit(EXIT_FAILURE);
    _exit(EXIT_SUCCESS);
}

static double bad_forks(struct ec_client *client)
{
    const int forks = 1000;
    struct ec_pool *pool = make_held(client);
    struct ec_memory_stats stats;
    pthread_t threads[2];
    long bad = 0;

    atomic_store(&fork_stop, false);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, allocate_all_the_time, pool) != 0)
            bench_fail("no thread");
    for (int i = 0; i < forks; i++) {
        const pid_t child = fork();
        int status;

        if (child == 0)
            child_of_fork(pool);
        if (waitpid(child, &status, 0) != child || status != 0)
            bad++;
    }
    atomic_store(&fork_stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    ec_pool_stats(pool, &stats);
    bad += stats.count != 0; /* what a child had counted here would still be out */
    ec_pool_destroy(pool);
    return (double)bad;
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

#define MIMALLOC LIBRARIES "libmimalloc.so.2"

#define ROW(name_, goal_)                                                                          \
    {                                                                                              \
        .name = name_, .unit = "ns", .op = "<=", .goal = goal_, .pairs = TURNS                     \
    }

/* Ours by a function against a library. */
#define AGAINST(name_, shape_, bytes_, goal_, run_, library_, peer_)                               \
    {                                                                                              \
        ROW(name_, goal_), { .shape = shape_, .bytes = bytes_, .library = library_ }, run_, peer_, \
            run_heap                                                                               \
    }
/* Against glibc, printed and not judged. */
#define SEEN(name_, shape_, bytes_, run_)                                                          \
    {                                                                                              \
        { .name = name_, .unit = "ns", .pairs = TURNS }, { .shape = shape_, .bytes = bytes_ },     \
            run_, "glibc", run_heap                                                                \
    }
#define GLIBC_ROW(name_, shape_, bytes_, goal_)                                                    \
    AGAINST(name_, shape_, bytes_, goal_, run_pool, NULL, "glibc")
#define PEER_ROW(name_, shape_, bytes_, goal_, library_, peer_)                                    \
    AGAINST(name_, shape_, bytes_, goal_, run_pool, library_, peer_)

#define ARENA_ROW(goal_, library_, peer_, run_)                                                    \
    {                                                                                              \
        ROW("memory.frame_arena", goal_),                                                          \
            { .shape = FRAME, .bytes = FRAME_BYTES, .library = library_ }, run_arena, peer_, run_  \
    }
#define FRAME_POOL_ROW(library_, peer_)                                                            \
    PEER_ROW("memory.frame_pool", FRAME, FRAME_BYTES, 1.0, library_, peer_)
#define CROSS_ROW(goal_, library_, peer_)                                                          \
    PEER_ROW("memory.cross_thread", CROSS, 128, goal_, library_, peer_)

#define PAIR_ROWS(bytes_)                                                                          \
    GLIBC_ROW("memory.pair_" #bytes_, PAIR, bytes_, 0.7),                                          \
        PEER_ROW("memory.pair_" #bytes_, PAIR, bytes_, 1.1, TCMALLOC, "tcmalloc_minimal")
#define LIFO_ROWS(bytes_)                                                                          \
    GLIBC_ROW("memory.lifo1000_" #bytes_, LIFO, bytes_, 1.0),                                      \
        PEER_ROW("memory.lifo1000_" #bytes_, LIFO, bytes_, 1.0, TCMALLOC, "tcmalloc_minimal")
#define RANDOM_ROWS(bytes_)                                                                        \
    GLIBC_ROW("memory.random_" #bytes_, RANDOM, bytes_, 0.7),                                      \
        PEER_ROW("memory.random_" #bytes_, RANDOM, bytes_, 1.2, TCMALLOC, "tcmalloc_minimal")

/* A number without a peer. */
#define ALONE(name_, unit_, goal_, pairs_, run_, ...)                                              \
    {                                                                                              \
        { .name = name_, .unit = unit_, .op = "<=", .goal = goal_, .pairs = pairs_ },              \
            { __VA_ARGS__ }, run_, NULL, NULL                                                      \
    }
#define HELD(name_, unit_, goal_, hold_) ALONE(name_, unit_, goal_, 5, run_held, .hold = hold_)

static const struct load random_64 = { .shape = RANDOM, .bytes = 64 };

static void run_random_64(const void *context)
{
    (void)context;
    run_pool(&random_64);
}

static const struct bench_case {
    struct bench_row row;
    struct load load;
    void (*ours)(const void *context);
    const char *peer_name;
    void (*peer)(const void *context);
} cases[] = {
    PAIR_ROWS(16),
    PAIR_ROWS(64),
    PEER_ROW("memory.pair_64", PAIR, 64, 1.1, JEMALLOC, "jemalloc"),
    PEER_ROW("memory.pair_64", PAIR, 64, 1.1, MIMALLOC, "mimalloc"),
    PAIR_ROWS(128),
    PEER_ROW("memory.pair_128", PAIR, 128, 1.1, JEMALLOC, "jemalloc"),
    PAIR_ROWS(256),
    PAIR_ROWS(1024),
    LIFO_ROWS(16),
    LIFO_ROWS(64),
    PEER_ROW("memory.lifo1000_64", LIFO, 64, 1.0, MIMALLOC, "mimalloc"),
    LIFO_ROWS(128),
    LIFO_ROWS(256),
    LIFO_ROWS(1024),
    RANDOM_ROWS(16),
    RANDOM_ROWS(64),
    PEER_ROW("memory.random_64", RANDOM, 64, 1.2, MIMALLOC, "mimalloc"),
    RANDOM_ROWS(128),
    RANDOM_ROWS(256),
    RANDOM_ROWS(1024),
    { ROW("memory.random_1024", 2.5),
      { .shape = RANDOM, .bytes = 1024 },
      run_pool,
      "64 bytes",
      run_random_64 },
    ARENA_ROW(1.1, NULL, "bump limit", run_bump),
    ARENA_ROW(0.5, NULL, "glibc", run_heap),
    ARENA_ROW(0.5, TCMALLOC, "tcmalloc_minimal", run_heap),
    ARENA_ROW(0.5, JEMALLOC, "jemalloc", run_heap),
    ARENA_ROW(0.5, MIMALLOC, "mimalloc", run_heap),
    FRAME_POOL_ROW(NULL, "glibc"),
    FRAME_POOL_ROW(TCMALLOC, "tcmalloc_minimal"),
    FRAME_POOL_ROW(JEMALLOC, "jemalloc"),
    FRAME_POOL_ROW(MIMALLOC, "mimalloc"),
    HELD("memory.frame_pool_faults", "faults", 0, frame_faults),
    HELD("memory.frame_pool_calls", "calls", 0, frame_calls),
    CROSS_ROW(0.7, NULL, "glibc"),
    CROSS_ROW(0.5, JEMALLOC, "jemalloc"),
    CROSS_ROW(0.25, TCMALLOC, "tcmalloc_minimal"),
    CROSS_ROW(0.7, MIMALLOC, "mimalloc"),
    HELD("memory.cross_thread_held", "KiB", 128, cross_held),
    SEEN("memory.heap_64", PAIR, 64, run_general),
    SEEN("memory.heap_1024", PAIR, 1024, run_general),
    SEEN("memory.heap_mixed", MIXED, 0, run_general),
    { ROW("memory.counters", 1.3),
      { .shape = PAIR, .bytes = 64 },
      run_pool,
      "private",
      run_pool_alone },
    { ROW("memory.counters_2", 1.3),
      { .shape = CROSS, .bytes = 64 },
      run_pool,
      "private",
      run_pool_alone },
    AGAINST("memory.debug", MIXED, 0, 2.5, run_guarded, NULL, "glibc"),
    SEEN("memory.debug_allocator", MIXED, 0, run_debug),
    ALONE("memory.patrol", "ns", 20, 11, run_patrol, 0),
    HELD("memory.orphan", "ratio", 1.15, orphan),
    HELD("memory.idle_threads", "MiB", 16, idle_threads),
    HELD("memory.returned", "%", 5, returned),
    HELD("memory.align", "blocks", 0, misaligned),
    HELD("memory.fork", "forks", 0, bad_forks),
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

        if (!bench_wanted(argc, argv, cases[i].row.name))
            continue;
        if (!bench_compare(&cases[i].row, &ours, cases[i].peer != NULL ? &peer : NULL))
            status = EXIT_FAILURE;
    }
    return status;
}
