/* bench_breaker.c - how soon games hear that memory runs short, what watching costs, what it saves.
 *
 *   breaker.react_p50, _max  crossing the warning mark at 200 MiB/s in a group of 512 MiB until the level
 *                            can be read in shared memory, ms; _max is the worst of five in a row
 *   breaker.handler          the same at 700 MiB/s until the game's call-back runs, ms
 *   breaker.idle_cpu         processor time of the daemon at its 10 ms tick, in percent more than without
 *   breaker.saved            sessions lost by 8 servers that want 130 % of 512 MiB in 15 s: those that were
 *                            killed, and saves that were lost; against nobody, and against earlyoom
 *   breaker.trips            level changes in such a storm
 *
 * All but idle_cpu need a memory control group that can be made here; without one they fail with the
 * reason. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <engine-core/breaker.h>
#include <engine-core/client.h>

#include "bench/harness.h"
#include "stress/memory_group.h"
#include "stress/server_storm.h"
#include "support/daemon.h"

#define LIMIT_BYTES (UINT64_C(512) * 1024 * 1024)
#define STEP_BYTES (64 * 1024)
#define START_PERMILLE 280 /* left when the climb begins */
#define MARK_PERMILLE 150
#define CALM_US 400000
#define POLL_NS 50000
#define WORST_OF 5
#define PAIRS 5

/* ---- a process that climbs to the mark -------------------------------------------------------- */

struct climb {
    uint64_t bytes_per_s;
    bool by_call_back; /* until the handler runs; else until the level can be read */
    unsigned worst_of;
};

struct climber {
    struct ec_client *client;
    _Atomic int64_t seen_ns;
    atomic_bool stop;
};

static void on_change(void *context, const struct ec_breaker_policy *policy)
{
    struct climber *climber = context;

    if (policy->level >= EC_BREAKER_WARNING)
        atomic_store(&climber->seen_ns, bench_ns());
}

static void *poll_level(void *context)
{
    struct climber *climber = context;
    const struct timespec nap = { .tv_nsec = POLL_NS };

    while (!atomic_load(&climber->stop) && ec_breaker_level(climber->client) < EC_BREAKER_WARNING)
        nanosleep(&nap, NULL);
    atomic_store(&climber->seen_ns, bench_ns());
    return NULL;
}

/* Touch memory, at a rate or as fast as it goes, until no more than so much is left. Returns when that was
 * so. */
static int64_t fill(unsigned char *memory, uint64_t *touched, const struct memory_group *group,
                    uint64_t left_bytes, uint64_t bytes_per_s)
{
    const int64_t begin_ns = bench_ns();
    const uint64_t from = *touched;

    while (memory_group_available(group) > left_bytes && *touched < LIMIT_BYTES) {
        memset(memory + *touched, 1, STEP_BYTES);
        *touched += STEP_BYTES;
        if (bytes_per_s > 0) {
            const int64_t due_ns =
                begin_ns + (int64_t)((double)(*touched - from) * 1e9 / (double)bytes_per_s);
            const int64_t left_ns = due_ns - bench_ns();
            const struct timespec nap = { .tv_nsec = left_ns };

            if (left_ns > 0)
                nanosleep(&nap, NULL);
        }
    }
    return bench_ns();
}

/* Runs in a process of its own inside the group; the answer goes through the pipe. */
static void climb_once(const struct climb *climb, const struct memory_group *group, int answer)
{
    struct climber climber = { 0 };
    struct ec_error why = { 0 };
    unsigned char *memory;
    pthread_t poller;
    uint64_t touched = 0;
    int64_t crossed_ns;
    double ms;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!memory_group_enter(group, 0) ||
        ec_client_create(&(struct ec_client_desc) { .name = "climber" }, &climber.client, &why) < 0)
        _exit(1);
    memory = mmap(NULL, LIMIT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        _exit(1);
    fill(memory, &touched, group, LIMIT_BYTES / 1000 * START_PERMILLE, 0);
    usleep(CALM_US); /* the burst so far is forgotten */
    if (climb->by_call_back)
        ec_breaker_on_change(
            climber.client,
            &(struct ec_breaker_watch) { .fn = on_change, .context = &climber, .immediate = true });
    else if (pthread_create(&poller, NULL, poll_level, &climber) != 0)
        _exit(1);
    crossed_ns =
        fill(memory, &touched, group, LIMIT_BYTES / 1000 * MARK_PERMILLE - 1, climb->bytes_per_s);
    for (unsigned i = 0; i < 2000 && atomic_load(&climber.seen_ns) == 0; i++)
        usleep(1000);
    ms = atomic_load(&climber.seen_ns) == 0
             ? 2000
             : (double)(atomic_load(&climber.seen_ns) - crossed_ns) / 1e6;
    ms = ms < 0 ? 0 : ms; /* the daemon looked between the store and our own look */
    _exit(write(answer, &ms, sizeof ms) == sizeof ms ? 0 : 1);
}

static void measure_climb(const void *context)
{
    const struct climb *climb = context;
    struct daemon_process engine = { 0 };
    struct memory_group group;
    char why[256];

    if (!memory_group_create(&group, LIMIT_BYTES, why, sizeof why))
        bench_fail("memory group: %s", why);
    if (!daemon_start(&engine, NULL))
        bench_fail("engine-cored: %s", engine.why);
    setenv("ENGINE_CORE_SOCKET", engine.socket_path, 1);
    bench_ready();
    while (bench_next()) {
        double worst_ms = 0;

        for (unsigned i = 0; i < climb->worst_of; i++) {
            int answer[2], status;
            double ms = -1;
            pid_t pid;

            if (pipe(answer) < 0)
                bench_fail("pipe");
            pid = fork();
            if (pid == 0)
                climb_once(climb, &group, answer[1]);
            close(answer[1]);
            if (read(answer[0], &ms, sizeof ms) != sizeof ms)
                ms = -1;
            close(answer[0]);
            waitpid(pid, &status, 0);
            if (ms < 0)
                bench_fail("the climber ended with %d", status);
            worst_ms = ms > worst_ms ? ms : worst_ms;
        }
        bench_answer(worst_ms, 0);
    }
    daemon_stop(&engine);
    memory_group_destroy(&group);
}

/* ---- what watching costs ----------------------------------------------------------------------- */

static double process_ns(pid_t pid)
{
    struct timespec used;
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        bench_fail("the processor time of process %d", (int)pid);
    return (double)used.tv_sec * 1e9 + (double)used.tv_nsec;
}

static double used_percent(const struct daemon_process *engine)
{
    const double used_ns = process_ns(engine->pid);
    const int64_t begin_ns = bench_ns();

    sleep(2);
    return (process_ns(engine->pid) - used_ns) / (double)(bench_ns() - begin_ns) * 100;
}

/* Two daemons, one that looks each 10 ms and one that looks each 10 s: the difference is the looks. */
static void measure_idle(const void *context)
{
    static const char *const often[] = { "--set", "breaker.fast_permille=1000", NULL };
    static const char *const seldom[] = { "--set", "breaker.tick_ms=10000", "--set",
                                          "breaker.fast_tick_ms=10000", NULL };
    struct daemon_process looking = { 0 }, blind = { 0 };

    (void)context;
    if (!daemon_start(&looking, often) || !daemon_start(&blind, seldom))
        bench_fail("engine-cored: %s%s", looking.why, blind.why);
    bench_ready();
    while (bench_next()) {
        const double percent = used_percent(&looking) - used_percent(&blind);

        bench_answer(percent > 0 ? percent : 0, 0);
    }
    daemon_stop(&looking);
    daemon_stop(&blind);
}

/* ---- storms ------------------------------------------------------------------------------------- */

struct storm_case {
    enum storm_guard guard;
    bool trips; /* answer the level changes instead of the lost sessions */
};

static void measure_storm(const void *context)
{
    const struct storm_case *storm = context;
    unsigned seed = 0;

    bench_ready();
    while (bench_next()) {
        const struct storm_desc desc = {
            .guard = storm->guard,
            .servers = 8,
            .limit_bytes = LIMIT_BYTES,
            .seconds = 15,
            .seed = ++seed,
            .world_mib = 30,
            .cache_mib = 50,
        };
        struct storm_result result;
        char why[256] = "";
        bool missing;

        if (!storm_run(&desc, &result, &missing, why, sizeof why))
            bench_fail("storm: %s", why);
        /* Who was told to end and saved has lost its session, too: its players are gone. */
        bench_answer(storm->trips ? result.level_changes : result.killed + result.ended, 0);
    }
}

int main(void)
{
    static const struct climb slow = { UINT64_C(200) << 20, false, 1 },
                              worst = { UINT64_C(200) << 20, false, WORST_OF },
                              fast = { UINT64_C(700) << 20, true, 1 };
    static const struct storm_case alone = { STORM_ALONE, false },
                                   earlyoom = { STORM_EARLYOOM, false },
                                   guarded = { STORM_BREAKER, false },
                                   trips = { STORM_BREAKER, true };
    static const struct bench_case {
        struct bench_row row;
        struct bench_contender ours, peer;
    } cases[] = {
#define OURS(measure, of) { .name = "engine-core", .run = measure, .context = of }
#define ROW(row_name, row_unit, most)                                                              \
    {                                                                                              \
        .name = row_name, .unit = row_unit, .op = "<=", .goal = most, .pairs = PAIRS,              \
        .shared = true                                                                             \
    }
        { ROW("breaker.react_p50", "ms", 10), OURS(measure_climb, &slow), { 0 } },
        { ROW("breaker.react_max", "ms", 25), OURS(measure_climb, &worst), { 0 } },
        { ROW("breaker.handler", "ms", 100), OURS(measure_climb, &fast), { 0 } },
        { ROW("breaker.idle_cpu", "%", 0.1), OURS(measure_idle, NULL), { 0 } },
        { ROW("breaker.trips", "changes", 20), OURS(measure_storm, &trips), { 0 } },
        { ROW("breaker.saved", "sessions", 0),
          OURS(measure_storm, &guarded),
          { .name = "kernel alone", .run = measure_storm, .context = &alone } },
        { ROW("breaker.saved", "sessions", 0),
          OURS(measure_storm, &guarded),
          { .name = "earlyoom", .run = measure_storm, .context = &earlyoom } },
#undef OURS
#undef ROW
    };
    int status = EXIT_SUCCESS;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (!bench_compare(&cases[i].row, &cases[i].ours,
                           cases[i].peer.run == NULL ? NULL : &cases[i].peer))
            status = EXIT_FAILURE;
    return status;
}
