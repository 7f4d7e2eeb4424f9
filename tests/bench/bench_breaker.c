/* bench_breaker.c - how soon games hear that memory runs short, what watching costs, what it saves.
 *
 *   breaker.react_p50, _max  crossing the warning mark at 200 MiB/s in a group of 512 MiB until the level
 *                            can be read in shared memory, ms; _max is the worst of five in a row
 *   breaker.react_p50        and against earlyoom with the same mark, until its SIGTERM comes
 *   breaker.handler          the same at 700 MiB/s until the game's call-back runs, ms
 *   breaker.idle_cpu         processor time of the daemon at its 10 ms tick, in percent more than without
 *   breaker.idle_wake        the same, in parts of what a bare timer of 10 ms costs
 *   breaker.saved            sessions lost by 8 servers that want 130 % of 512 MiB in 15 s: those that were
 *                            killed, and saves that were lost; against nobody, and against earlyoom
 *   breaker.trips            level changes in such a storm
 *   breaker.cache_kept       what 3 of these servers keep cached, on average, when there are no more of
 *                            them; against a part for each of 8 that was fixed beforehand
 *   breaker.thrash           a process that grows by 2 MiB/s beside a file that is read again and again:
 *                            how long before 15 % are left level 1 comes, s
 *
 * All but idle_* need a memory control group that can be made here; without one they fail with the
 * reason. */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <engine-core/breaker.h>
#include <engine-core/client.h>

#include "bench/harness.h"
#include "stress/earlyoom.h"
#include "stress/memory_group.h"
#include "stress/namespaces.h"
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

/* Touch memory, at a rate or as fast as it goes, until no more than so much is left, and tell earlyoom if it
 * is there. Returns when that was so. */
static int64_t fill(unsigned char *memory, uint64_t *touched, const struct memory_group *group,
                    uint64_t left_bytes, uint64_t bytes_per_s, struct earlyoom *told)
{
    const int64_t begin_ns = bench_ns();
    const uint64_t from = *touched;
    uint64_t available_bytes;

    while ((available_bytes = memory_group_available(group)) > left_bytes &&
           *touched < LIMIT_BYTES) {
        if (told != NULL)
            earlyoom_write(told, available_bytes);
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
    if (told != NULL)
        earlyoom_write(told, available_bytes);
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
    fill(memory, &touched, group, LIMIT_BYTES / 1000 * START_PERMILLE, 0, NULL);
    usleep(CALM_US); /* the burst so far is forgotten */
    if (climb->by_call_back)
        ec_breaker_on_change(
            climber.client,
            &(struct ec_breaker_watch) { .fn = on_change, .context = &climber, .immediate = true });
    else if (pthread_create(&poller, NULL, poll_level, &climber) != 0)
        _exit(1);
    crossed_ns = fill(memory, &touched, group, LIMIT_BYTES / 1000 * MARK_PERMILLE - 1,
                      climb->bytes_per_s, NULL);
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

/* ---- the same climb beside earlyoom ------------------------------------------------------------ */

#define EARLYOOM_MARKS "15,1" /* the breaker's first mark */
#define TERM_S 10

struct term_climb {
    const struct climb *climb;
    const struct memory_group *group;
    char directory[64];
    _Atomic int64_t crossed_ns, term_ns;
    char why[200];
};

static struct term_climb *climbing; /* of the signal handler */

static void on_term(int number)
{
    struct timespec now;

    (void)number;
    clock_gettime(CLOCK_MONOTONIC, &now); /* as bench_ns() */
    atomic_store(&climbing->term_ns, now.tv_sec * INT64_C(1000000000) + now.tv_nsec);
}

static void climb_to_term(struct term_climb *term, struct earlyoom *earlyoom)
{
    unsigned char *memory;
    uint64_t touched = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    climbing = term;
    signal(SIGTERM, on_term);
    memory = mmap(NULL, LIMIT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!memory_group_enter(term->group, 0) || memory == MAP_FAILED)
        _exit(1);
    fill(memory, &touched, term->group, LIMIT_BYTES / 1000 * START_PERMILLE, 0, earlyoom);
    sleep(2); /* it looks at least once a second, and tells nobody when */
    atomic_store(&term->crossed_ns,
                 fill(memory, &touched, term->group, LIMIT_BYTES / 1000 * MARK_PERMILLE - 1,
                      term->climb->bytes_per_s, earlyoom));
    for (unsigned i = 0; i < TERM_S * 1000 && atomic_load(&term->term_ns) == 0; i++)
        usleep(1000); /* the signal, which ends it, says when by itself */
    _exit(0);
}

/* The first process of the namespace: earlyoom spares it. */
static void climb_beside_earlyoom(void *context)
{
    struct term_climb *term = context;
    struct earlyoom earlyoom;
    pid_t pid;

    if (!earlyoom_start(&earlyoom, term->directory, EARLYOOM_MARKS, LIMIT_BYTES, term->why,
                        sizeof term->why))
        return;
    pid = fork();
    if (pid == 0)
        climb_to_term(term, &earlyoom);
    waitpid(pid, NULL, 0);
    earlyoom_stop(&earlyoom);
}

static void measure_earlyoom(const void *context)
{
    struct term_climb *term =
        mmap(NULL, sizeof *term, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct memory_group group;
    char why[256];

    if (term == MAP_FAILED || !memory_group_create(&group, LIMIT_BYTES, why, sizeof why))
        bench_fail("memory group: %s", why);
    bench_ready();
    while (bench_next()) {
        *term = (struct term_climb) { .climb = context,
                                      .group = &group,
                                      .directory = "/tmp/ec-earlyoom-XXXXXX" };
        if (mkdtemp(term->directory) == NULL)
            bench_fail("a directory for earlyoom");
        if (!namespaces_run(climb_beside_earlyoom, term, why, sizeof why))
            bench_fail("%s", why);
        rmdir(term->directory);
        if (atomic_load(&term->crossed_ns) == 0)
            bench_fail("earlyoom: %s", term->why);
        bench_answer(atomic_load(&term->term_ns) == 0
                         ? TERM_S * 1e3
                         : (double)(atomic_load(&term->term_ns) - atomic_load(&term->crossed_ns)) /
                               1e6,
                     0);
    }
    memory_group_destroy(&group);
    munmap(term, sizeof *term);
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

/* A process that only wakes up as often. */
static void measure_timer(const void *context)
{
    double used_ns;
    int64_t begin_ns;
    pid_t pid;

    (void)context;
    pid = fork();
    if (pid == 0) {
        const int epoll = epoll_create1(EPOLL_CLOEXEC);
        struct epoll_event event;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (epoll_wait(epoll, &event, 1, 10) >= 0)
            ;
        _exit(1);
    }
    bench_ready();
    while (bench_next()) {
        used_ns = process_ns(pid);
        begin_ns = bench_ns();
        sleep(2); /* what is measured */
        bench_answer((process_ns(pid) - used_ns) / (double)(bench_ns() - begin_ns) * 100, 0);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* ---- a file that is read again and again -------------------------------------------------------- */

#define THRASH_LIMIT (UINT64_C(256) * 1024 * 1024)
#define THRASH_FILE (UINT64_C(96) * 1024 * 1024)
#define THRASH_BYTES_PER_S (2.0 * 1024 * 1024)
#define THRASH_PIECE 16384
#define THRASH_PIECES (THRASH_FILE / THRASH_PIECE)
#define THRASH_FAST_PERMILLE 250 /* so much is left when the slow growth begins */
#define THRASH_S 90

struct reader {
    const char *path;
    sem_t is_hot; /* the file is in memory, and the kernel has seen that it is used */
    atomic_bool stop;
};

/* All of it twice, then pieces in no order; nothing is read ahead: what was taken away is waited for. */
static void *read_again(void *context)
{
    static unsigned char piece[THRASH_PIECE];
    struct reader *reader = context;
    const int fd = open(reader->path, O_RDONLY | O_CLOEXEC);
    uint32_t state = 1;

    if (fd >= 0)
        posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    for (uint64_t i = 0; fd >= 0 && i < 2 * THRASH_PIECES; i++)
        if (pread(fd, piece, sizeof piece, (off_t)(i % THRASH_PIECES * THRASH_PIECE)) <= 0)
            break;
    sem_post(&reader->is_hot);
    while (fd >= 0 && !atomic_load(&reader->stop)) {
        state = state * 1664525 + 1013904223;
        if (pread(fd, piece, sizeof piece, (off_t)((state >> 8) % THRASH_PIECES * THRASH_PIECE)) <=
            0)
            break;
    }
    if (fd >= 0)
        close(fd);
    return NULL;
}

/* In a process of its own in the group: when was level 1 seen, when were 15 % left? */
static void thrash_once(const struct memory_group *group, const struct memory_view *view,
                        const char *path, int answer)
{
    struct reader reader = { .path = path };
    int64_t begin_ns, level_ns = 0, mark_ns = 0;
    struct ec_client *client;
    struct ec_error why = { 0 };
    unsigned char *memory;
    pthread_t thread;
    uint64_t touched = 0, from;
    double lead_s;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!memory_group_enter(group, 0) || !memory_view_enter(view, 0) ||
        ec_client_create(&(struct ec_client_desc) { .name = "thrasher" }, &client, &why) < 0)
        _exit(1);
    memory = mmap(NULL, THRASH_LIMIT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || sem_init(&reader.is_hot, 0, 0) < 0 ||
        pthread_create(&thread, NULL, read_again, &reader) != 0)
        _exit(1);
    while (sem_wait(&reader.is_hot) < 0)
        ; /* a signal */
    fill(memory, &touched, group, THRASH_LIMIT / 1000 * THRASH_FAST_PERMILLE, 0, NULL);
    from = touched;
    begin_ns = bench_ns();
    while ((level_ns == 0 || mark_ns == 0) &&
           bench_ns() - begin_ns < THRASH_S * INT64_C(1000000000)) {
        const int64_t now_ns = bench_ns();
        const struct timespec nap = { .tv_nsec = 5000000 };

        if (level_ns == 0 && ec_breaker_level(client) >= EC_BREAKER_WARNING)
            level_ns = now_ns;
        if (mark_ns == 0 && memory_group_available(group) < THRASH_LIMIT / 1000 * MARK_PERMILLE)
            mark_ns = now_ns;
        if (mark_ns == 0 && touched + STEP_BYTES < THRASH_LIMIT &&
            (double)(now_ns - begin_ns) / 1e9 * THRASH_BYTES_PER_S > (double)(touched - from)) {
            memset(memory + touched, 1, STEP_BYTES);
            touched += STEP_BYTES;
        }
        nanosleep(&nap, NULL);
    }
    atomic_store(&reader.stop, true);
    pthread_join(thread, NULL);
    lead_s = level_ns == 0 || mark_ns == 0 ? -THRASH_S : (double)(mark_ns - level_ns) / 1e9;
    _exit(write(answer, &lead_s, sizeof lead_s) == sizeof lead_s ? 0 : 1);
}

/* A file that is on the disk and not in memory. */
static void make_file(const char *path)
{
    static unsigned char block[1024 * 1024];
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    for (uint64_t i = 0; i < THRASH_FILE / sizeof block && fd >= 0; i++)
        if (write(fd, block, sizeof block) != (ssize_t)sizeof block)
            bench_fail("%s: cannot be written", path);
    if (fd < 0 || fsync(fd) < 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
        bench_fail("%s: cannot be made", path);
    close(fd);
}

static void measure_thrash(const void *context)
{
    struct daemon_process engine = { 0 };
    struct memory_group group;
    struct memory_view view;
    char why[256], setting[128], path[96];
    const char *const arguments[] = { "--set", setting, NULL };

    (void)context;
    if (!memory_group_create(&group, THRASH_LIMIT, why, sizeof why) ||
        !memory_view_create(&view, &group, why, sizeof why))
        bench_fail("memory group: %s", why);
    snprintf(setting, sizeof setting, "breaker.groups=%s", view.directory);
    snprintf(path, sizeof path, "%s/hot", view.directory);
    bench_ready();
    while (bench_next()) {
        double lead_s = 0;
        int answer[2];
        pid_t pid;

        if (!daemon_start(&engine, arguments))
            bench_fail("engine-cored: %s", engine.why);
        setenv("ENGINE_CORE_SOCKET", engine.socket_path, 1);
        make_file(path);
        if (pipe(answer) < 0)
            bench_fail("pipe");
        pid = fork();
        if (pid == 0)
            thrash_once(&group, &view, path, answer[1]);
        close(answer[1]);
        if (read(answer[0], &lead_s, sizeof lead_s) != sizeof lead_s)
            bench_fail("the process that thrashes ended");
        close(answer[0]);
        waitpid(pid, NULL, 0);
        unlink(path);
        daemon_stop(&engine);
        bench_answer(lead_s, 0);
    }
    memory_view_destroy(&view);
    memory_group_destroy(&group);
}

/* ---- storms ------------------------------------------------------------------------------------- */

#define MIB (1024.0 * 1024.0)
/* The eighth part of 512 MiB without a world of 30 MiB, a level of 8 that is loaded, a save of 2, and 4 for
 * the program itself. */
#define FIXED_CACHE_MIB 20

struct storm_case {
    enum storm_guard guard;
    enum { STORM_LOST, STORM_TRIPS, STORM_CACHE } answer; /* sessions, level changes, MiB */
    unsigned servers, cache_mib;
};

static const char *const guard_names[] = {
    [STORM_ALONE] = "alone",
    [STORM_EARLYOOM] = "earlyoom",
    [STORM_BREAKER] = "engine-core",
};

/* What else is to be told of a storm goes to stderr. */
static void measure_storm(const void *context)
{
    const struct storm_case *storm = context;
    unsigned seed = 0;

    bench_ready();
    while (bench_next()) {
        const struct storm_desc desc = {
            .guard = storm->guard,
            .servers = storm->servers,
            .limit_bytes = LIMIT_BYTES,
            .seconds = 15,
            .seed = ++seed,
            .world_mib = 30,
            .cache_mib = storm->cache_mib,
            .observe_from_s = storm->answer == STORM_CACHE ? 5 : 0,
        };
        struct storm_result result;
        char why[256] = "";
        bool missing;

        if (!storm_run(&desc, &result, &missing, why, sizeof why))
            bench_fail("storm: %s", why);
        if (seed == 1)
            storm_print_title(stderr);
        storm_print_row(stderr, guard_names[storm->guard], seed, &result);
        /* Who was told to end and saved has lost its session, too: its players are gone. */
        bench_answer(storm->answer == STORM_TRIPS   ? result.level_changes
                     : storm->answer == STORM_CACHE ? result.cache_bytes / MIB
                                                    : result.killed + result.ended,
                     0);
    }
}

int main(int argc, char **argv)
{
    static const struct climb slow = { UINT64_C(200) << 20, false, 1 },
                              worst = { UINT64_C(200) << 20, false, WORST_OF },
                              fast = { UINT64_C(700) << 20, true, 1 };
    static const struct storm_case alone = { STORM_ALONE, STORM_LOST, 8, 50 },
                                   earlyoom = { STORM_EARLYOOM, STORM_LOST, 8, 50 },
                                   guarded = { STORM_BREAKER, STORM_LOST, 8, 50 },
                                   trips = { STORM_BREAKER, STORM_TRIPS, 8, 50 },
                                   shared = { STORM_BREAKER, STORM_CACHE, 3, 400 },
                                   fixed = { STORM_BREAKER, STORM_CACHE, 3, FIXED_CACHE_MIB };
    static const struct bench_case {
        struct bench_row row;
        struct bench_contender ours, peer;
    } cases[] = {
#define OURS(measure, of) { .name = "engine-core", .run = measure, .context = of }
#define ROW_OF(row_name, row_unit, row_op, row_goal)                                               \
    {                                                                                              \
        .name = row_name, .unit = row_unit, .op = row_op, .goal = row_goal, .pairs = PAIRS,        \
        .shared = true                                                                             \
    }
#define ROW(row_name, row_unit, most) ROW_OF(row_name, row_unit, "<=", most)
#define AT_LEAST(row_name, row_unit, least) ROW_OF(row_name, row_unit, ">=", least)
        { ROW("breaker.react_p50", "ms", 10), OURS(measure_climb, &slow), { 0 } },
        { ROW("breaker.react_max", "ms", 25), OURS(measure_climb, &worst), { 0 } },
        { ROW("breaker.react_p50", "ms", 0.2),
          OURS(measure_climb, &slow),
          { .name = "earlyoom", .run = measure_earlyoom, .context = &slow } },
        { ROW("breaker.handler", "ms", 100), OURS(measure_climb, &fast), { 0 } },
        { ROW("breaker.idle_cpu", "%", 0.1), OURS(measure_idle, NULL), { 0 } },
        { ROW("breaker.idle_wake", "%", 3),
          OURS(measure_idle, NULL),
          { .name = "bare timer", .run = measure_timer } },
        { AT_LEAST("breaker.thrash", "s", 1), OURS(measure_thrash, NULL), { 0 } },
        { AT_LEAST("breaker.cache_kept", "MiB", 4),
          OURS(measure_storm, &shared),
          { .name = "fixed parts for 8", .run = measure_storm, .context = &fixed } },
        { ROW("breaker.trips", "changes", 20), OURS(measure_storm, &trips), { 0 } },
        { ROW("breaker.saved", "sessions", 0),
          OURS(measure_storm, &guarded),
          { .name = "kernel alone", .run = measure_storm, .context = &alone } },
        { ROW("breaker.saved", "sessions", 0),
          OURS(measure_storm, &guarded),
          { .name = "earlyoom", .run = measure_storm, .context = &earlyoom } },
#undef OURS
#undef ROW
#undef AT_LEAST
#undef ROW_OF
    };
    int status = EXIT_SUCCESS;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (!bench_wanted(argc, argv, cases[i].row.name))
            continue;
        if (!bench_compare(&cases[i].row, &cases[i].ours,
                           cases[i].peer.run == NULL ? NULL : &cases[i].peer))
            status = EXIT_FAILURE;
    }
    return status;
}
