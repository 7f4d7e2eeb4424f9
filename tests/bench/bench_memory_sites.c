/* bench_memory_sites.c - what it costs to know who allocates.
 *
 *   memory.shim_count      an unmodified program under the preload library, counters only, to without
 *   memory.shim_sampled    the same with a call stack every 512 KiB
 *   memory.shim_every      the same with a call stack at each allocation
 *   memory.shim_heaptrack  the last to the same program under heaptrack
 *   memory.report_us       the tags of a client with 64 threads and 64 tags read from outside, us
 *   memory.report_ms       memory.report of the load with its 20 sites over the socket, ms
 *   memory.kill_consistent SIGKILLs of a program in full run after which its last state contradicts itself
 *
 * The load replaces blocks of 16 to 1,024 bytes in a set of 10,000, at the end of twelve calls. It is this
 * program again, started anew as whatever it is measured under. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <engine-core/client.h>
#include <engine-core/heap.h>
#include <engine-core/tracking.h>

#include "bench/harness.h"
#include "proto/client_segment.h"
#include "segment/telemetry.h"
#include "support/daemon.h"
#include "support/reply.h"

#define LOAD "load"
#define BLOCKS 10000
#define REPLACEMENTS 40000 /* a run: some milliseconds */
#define DEPTH 12
#define TURNS 31
#define READS 200
#define HEAPTRACK "/usr/lib/heaptrack/libheaptrack_preload.so"

struct under {
    const char *library; /* NULL: nothing */
    const char *sample;
};

static void *blocks[BLOCKS];
static uint64_t seed = 88172645463325252ull;

static uint64_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* A stack to walk: the compiler must neither inline it nor make a jump of the last call. */
static __attribute__((noinline)) void *descend(size_t bytes, unsigned depth)
{
    void *block = depth > 0 ? descend(bytes, depth - 1) : malloc(bytes);

    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

static double replace_blocks(void)
{
    const int64_t begin_ns = bench_ns();

    for (int i = 0; i < REPLACEMENTS; i++) {
        void **place = &blocks[draw() % BLOCKS];

        free(*place);
        *place = descend(16 + draw() % 1009, DEPTH);
        *(volatile char *)*place = 1;
    }
    return (double)(bench_ns() - begin_ns) / REPLACEMENTS;
}

static int load(void)
{
    bench_pin(0);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = descend(64, DEPTH);
    replace_blocks();
    bench_ready();
    while (bench_next()) {
        const long switches = bench_switches();
        const double ns = replace_blocks();

        bench_answer(ns, bench_switches() - switches);
    }
    return 0;
}

static void preload_library(char path[4096])
{
    snprintf(path, 4096, "%s/libengine-core-preload.so",
             getenv("EC_LIB_DIR") != NULL ? getenv("EC_LIB_DIR") : "lib");
}

static void become_load(const void *context)
{
    const struct under *under = context;
    char path[4096];

    if (under->library != NULL && under->library[0] == '\0') {
        preload_library(path);
        setenv("LD_PRELOAD", path, 1);
    } else if (under->library != NULL) {
        if (access(under->library, R_OK) != 0)
            bench_missing("heaptrack");
        setenv("LD_PRELOAD", under->library, 1);
        setenv("DUMP_HEAPTRACK_OUTPUT", "/dev/null", 1);
    }
    if (under->sample != NULL)
        setenv("ENGINE_CORE_MALLOC_SAMPLE", under->sample, 1);
    execl("/proc/self/exe", "bench_memory_sites", LOAD, (char *)NULL);
    bench_fail("cannot start the load anew");
}

static void read_tags(const void *context)
{
    struct ec_client_segment *segment = mmap(NULL, sizeof *segment, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct ec_tag_report tags[EC_TAGS_MAX];

    (void)context;
    if (segment == MAP_FAILED)
        bench_fail("no memory");
    bench_pin(0);
    atomic_store(&segment->threads_high, EC_THREADS_MAX);
    for (unsigned thread = 0; thread < EC_THREADS_MAX; thread++)
        for (unsigned tag = 0; tag < EC_TAGS_MAX; tag++)
            atomic_store(&segment->threads[thread].tags[tag].allocs, 1 + tag);
    bench_ready();
    while (bench_next()) {
        const long switches = bench_switches();
        const int64_t begin_ns = bench_ns();

        for (int i = 0; i < READS; i++)
            if (ec_telemetry_tags(segment, tags) != EC_TAGS_MAX)
                bench_fail("not all tags were read");
        bench_answer((double)(bench_ns() - begin_ns) / 1000 / READS, bench_switches() - switches);
    }
}

/* The load attaches to a daemon; then its report is asked for. */
static void ask_report(const void *context)
{
    struct daemon_process daemon = { 0 };
    struct line_client client;
    char path[4096], command[8192];
    FILE *program;

    (void)context;
    if (!daemon_start(&daemon, NULL) || !line_client_connect(&client, daemon.socket_path) ||
        line_client_hello(&client, "bench") == NULL)
        bench_fail("no daemon: %s", daemon.why);
    preload_library(path);
    snprintf(command, sizeof command,
             "ENGINE_CORE_MALLOC_AT_ONCE=1 ENGINE_CORE_MALLOC_SAMPLE=1 ENGINE_CORE_SOCKET=%s "
             "LD_PRELOAD=%s exec /proc/%d/exe " LOAD " >/dev/null",
             daemon.socket_path, path, (int)getpid());
    program = popen(command, "we"); /* waits for its first run */
    if (program == NULL)
        bench_fail("no load");
    while (
        !line_has(line_client_call(&client, "memory.report", "{\"client_id\":2}"), "alive", "true"))
        ;
    bench_ready();
    while (bench_next()) {
        const long switches = bench_switches();
        const int64_t begin_ns = bench_ns();

        line_client_call(&client, "memory.report", "{\"client_id\":2}");
        bench_answer((double)(bench_ns() - begin_ns) / 1e6, bench_switches() - switches);
    }
    pclose(program); /* its stdin ends, and so does it */
    line_client_close(&client);
    daemon_stop(&daemon);
}

/* ---- SIGKILL in full run ---- */

#define KILLS 91 /* a run, of 11: a thousand and one */
#define VICTIM_THREADS 2
#define VICTIM_BLOCKS 64

static struct ec_heap *victim_heap;

/* The ways of the two threads through the sizes are apart. */
static void *replace_for_ever(void *context)
{
    static _Thread_local void *held[VICTIM_BLOCKS];
    uint64_t random = (uintptr_t)context;

    for (;;) {
        void **place;

        random = random * 6364136223846793005u + 1442695040888963407u;
        place = &held[random >> 58];
        ec_free(victim_heap, *place);
        *place = ec_alloc(victim_heap, 1 + (random >> 40) % 2048, EC_TAG_AI);
    }
    return NULL;
}

static _Noreturn void be_victim(const char *socket_path, int ready_fd)
{
    const struct ec_client_desc desc = { .name = "victim",
                                         .socket_path = socket_path,
                                         .no_thread = true };
    struct ec_client *client;
    pthread_t thread;

    if (ec_client_create(&desc, &client, NULL) < 0 || ec_tracking_start(client, 65536, NULL) < 0 ||
        ec_heap_create(&(struct ec_heap_desc) { .client = client, .name = "heap" }, &victim_heap,
                       NULL) < 0 ||
        pthread_create(&thread, NULL, replace_for_ever, (void *)1) != 0 ||
        write(ready_fd, "", 1) != 1)
        _exit(1);
    replace_for_ever((void *)2);
    _exit(1);
}

/* Tags and classes are counted apart, in the same order: at most the block that a thread is about is in one and not
 * in the other. */
static bool is_consistent(const char *line)
{
    const struct ec_json_span rows = reply_at(line, "result/items/0/allocators");
    struct ec_json_iterator each = ec_json_iterate(rows);
    const int64_t tag_count = reply_number(line, "result/items/0/tags/tag=ai/count"),
                  tag_bytes = reply_number(line, "result/items/0/tags/tag=ai/bytes");
    int64_t count = 0, bytes = 0;
    struct ec_json_span row;
    char path[96];

    for (int i = 0; ec_json_next_element(&each, &row); i++) {
        int64_t value[5];
        static const char *const names[] = { "count", "current_bytes", "total", "peak_bytes",
                                             "failed" };

        for (int n = 0; n < 5; n++) {
            snprintf(path, sizeof path, "result/items/0/allocators/%d/%s", i, names[n]);
            value[n] = reply_number(line, path);
        }
        if (value[0] > value[2] || value[1] > value[3] || value[4] != 0)
            return false;
        count += value[0];
        bytes += value[1];
    }
    return llabs(count - tag_count) <= VICTIM_THREADS &&
           llabs(bytes - tag_bytes) <= VICTIM_THREADS * 2048 &&
           count <= VICTIM_THREADS * (VICTIM_BLOCKS + 1);
}

static bool survives_kill(const struct daemon_process *daemon, struct line_client *client)
{
    char params[64], byte;
    const char *line;
    int ready[2];
    pid_t pid;

    if (pipe2(ready, O_CLOEXEC) < 0)
        bench_fail("no pipe");
    pid = fork();
    if (pid == 0)
        be_victim(daemon->socket_path, ready[1]);
    close(ready[1]);
    if (pid < 0 || read(ready[0], &byte, 1) != 1)
        bench_fail("no victim");
    close(ready[0]);
    usleep((useconds_t)(draw() % 2000)); /* somewhere in the middle of it */
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    snprintf(params, sizeof params, "{\"pid\":%d}", (int)pid);
    do
        line = line_client_call(client, "memory.report", params);
    while (line_has(line, "alive", "true"));
    return is_consistent(line);
}

static void kill_many(const void *context)
{
    struct daemon_process daemon = { 0 };
    struct line_client client;

    (void)context;
    if (!daemon_start(&daemon, NULL) || !line_client_connect(&client, daemon.socket_path) ||
        line_client_hello(&client, "bench") == NULL)
        bench_fail("no daemon: %s", daemon.why);
    bench_ready();
    while (bench_next()) {
        int inconsistent = 0;

        for (int i = 0; i < KILLS; i++)
            inconsistent += !survives_kill(&daemon, &client);
        bench_answer(inconsistent, 0);
    }
    line_client_close(&client);
    daemon_stop(&daemon);
}

#define UNDER(name_, goal_, pairs_, ours_, peer_name_, peer_)                                      \
    {                                                                                              \
        { .name = name_, .unit = "ns", .op = "<=", .goal = goal_, .pairs = pairs_ },               \
            { .name = "engine-core", .run = become_load, .context = ours_ },                       \
        {                                                                                          \
            .name = peer_name_, .run = become_load, .context = peer_                               \
        }                                                                                          \
    }
#define ALONE(name_, unit_, goal_, run_)                                                           \
    {                                                                                              \
        { .name = name_, .unit = unit_, .op = "<=", .goal = goal_ },                               \
            { .name = "engine-core", .run = run_ },                                                \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

int main(int argc, char **argv)
{
    static const struct under plain = { NULL, NULL }, count = { "", "0" },
                              sampled = { "", "524288" }, every = { "", "1" },
                              heaptrack = { HEAPTRACK, NULL };
    static const struct {
        struct bench_row row;
        struct bench_contender ours, peer;
    } rows[] = {
        UNDER("memory.shim_count", 1.15, TURNS, &count, "without", &plain),
        UNDER("memory.shim_sampled", 1.2, TURNS, &sampled, "without", &plain),
        UNDER("memory.shim_every", 2.5, TURNS, &every, "without", &plain),
        UNDER("memory.shim_heaptrack", 0.2, 0, &every, "heaptrack", &heaptrack),
        ALONE("memory.report_us", "us", 20, read_tags),
        ALONE("memory.report_ms", "ms", 5, ask_report),
        ALONE("memory.kill_consistent", "pages", 0, kill_many),
    };
    int status = EXIT_SUCCESS;

    if (argc > 1 && strcmp(argv[1], LOAD) == 0)
        return load();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (bench_wanted(argc, argv, rows[i].row.name) &&
            !bench_compare(&rows[i].row, &rows[i].ours,
                           rows[i].peer.name != NULL ? &rows[i].peer : NULL))
            status = EXIT_FAILURE;
    return status;
}
