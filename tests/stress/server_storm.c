/* server_storm.c - start servers in a group, watch, start the dead again, count. */
#include "stress/server_storm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stress/earlyoom.h"
#include "stress/memory_group.h"
#include "stress/namespaces.h"
#include "support/daemon.h"

#define SERVERS_MAX 32
#define MIB (1024.0 * 1024.0)
#define STEPS_PER_S 50.0
#define RESTART_NS INT64_C(500000000)
#define LOOK_NS 1000000
#define OBSERVE_NS INT64_C(50000000)
#define END_NS INT64_C(10000000000) /* how long the servers may take to save at the end */
#define MARK_PERMILLE 100
#define PATH_BYTES 256

struct server {
    pid_t pid; /* 0: not running */
    unsigned generation;
    int64_t started_ns, ended_ns;
    uint64_t step_at_start; /* of the save that it loaded */
    char save_path[PATH_BYTES], stamp_path[PATH_BYTES];
};

struct storm {
    const struct storm_desc *desc;
    struct storm_result *result;
    struct memory_group group;
    struct daemon_process engine;
    struct server servers[SERVERS_MAX];
    char directory[PATH_BYTES / 2];
    struct earlyoom earlyoom;
    struct line_client observer; /* of the daemon, where that is wanted */
    int64_t observe_ns;          /* when to ask it again; 0: never */
    int64_t crossed_ns[STORM_REACTIONS_MAX];
    bool below;
};

static bool run_in_namespace(const struct storm_desc *desc, struct storm_result *result,
                             bool *missing, char *why, size_t bytes);
static bool run_here(const struct storm_desc *desc, struct storm_result *result, bool *missing,
                     char *why, size_t bytes);
static bool start_guard(struct storm *storm, bool *missing, char *why, size_t bytes);
static void end_guard(struct storm *storm);
static bool start_server(struct storm *storm, unsigned index);
static void watch(struct storm *storm, int64_t end_ns);
static void look(struct storm *storm, int64_t now);
static void observe(struct storm *storm, int64_t now);
static void reap(struct storm *storm, int64_t now, bool is_end);
static void note_end(struct storm *storm, struct server *server, int status, int64_t now,
                     bool is_end);
static void end_servers(struct storm *storm);
static void read_reactions(struct storm *storm);
static uint64_t saved_step(const struct server *server);
static bool program(const char *name, char path[PATH_BYTES]);
static void remove_files(struct storm *storm);
static int64_t now_ns(void);

bool storm_run(const struct storm_desc *desc, struct storm_result *result, bool *missing, char *why,
               size_t bytes)
{
    *missing = false;
    *result = (struct storm_result) { .lowest_bytes = UINT64_MAX };
    if (desc->servers > SERVERS_MAX) {
        snprintf(why, bytes, "at most %d servers", SERVERS_MAX);
        return false;
    }
    return desc->guard == STORM_EARLYOOM ? run_in_namespace(desc, result, missing, why, bytes)
                                         : run_here(desc, result, missing, why, bytes);
}

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;

    return a < b ? -1 : a > b;
}

void storm_print_title(FILE *out)
{
    static const char format[] = "%-12s %4s %6s %6s %6s %6s %7s %7s %8s %9s %9s %8s %7s %7s\n";

    fprintf(out, format, "guard", "seed", "kernel", "killed", "ended", "saves", "play", "down",
            "lowest", "react", "react", "in force", "unheard", "levels");
    fprintf(out, format, "", "", "kills", "", "early", "lost", "lost s", "s", "MiB", "p50 ms",
            "max ms", "", "", "");
}

void storm_print_row(FILE *out, const char *guard, unsigned seed, const struct storm_result *result)
{
    double reaction_ms[STORM_REACTIONS_MAX];

    memcpy(reaction_ms, result->reaction_ms, sizeof reaction_ms);
    qsort(reaction_ms, result->reactions, sizeof reaction_ms[0], compare);
    fprintf(out, "%-12s %4u %6u %6u %6u %6u %7.1f %7.1f %8.1f", guard, seed, result->kernel_kills,
            result->killed, result->ended, result->saves_lost, result->play_lost_s, result->down_s,
            (double)result->lowest_bytes / MIB);
    if (result->reactions > 0)
        fprintf(out, " %9.1f %9.1f", reaction_ms[result->reactions / 2],
                reaction_ms[result->reactions - 1]);
    else
        fprintf(out, " %9s %9s", "-", "-");
    fprintf(out, " %8u %7u %7u\n", result->in_force, result->unheard, result->level_changes);
}

/* What the child in the namespaces hands back. */
struct shared_result {
    const struct storm_desc *desc;
    struct storm_result result;
    bool done, missing;
    char why[256];
};

static void run_shared(void *context)
{
    struct shared_result *shared = context;

    shared->result.lowest_bytes = UINT64_MAX;
    shared->done =
        run_here(shared->desc, &shared->result, &shared->missing, shared->why, sizeof shared->why);
}

/* earlyoom may only see the servers, and a meminfo of its own: a child with its own processes and
 * mounts. */
static bool run_in_namespace(const struct storm_desc *desc, struct storm_result *result,
                             bool *missing, char *why, size_t bytes)
{
    struct shared_result *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool done;

    if (shared == MAP_FAILED) {
        snprintf(why, bytes, "mmap: %s", strerror(errno));
        return false;
    }
    shared->desc = desc;
    if (namespaces_run(run_shared, shared, why, bytes)) {
        *result = shared->result;
        *missing = shared->missing;
        snprintf(why, bytes, "%s", shared->why);
    } else {
        *missing = true;
    }
    done = shared->done;
    munmap(shared, sizeof *shared);
    return done;
}

static bool run_here(const struct storm_desc *desc, struct storm_result *result, bool *missing,
                     char *why, size_t bytes)
{
    struct storm storm = { .desc = desc, .result = result, .earlyoom.meminfo_fd = -1 };
    bool done = false;

    snprintf(storm.directory, sizeof storm.directory, "/tmp/ec-storm-XXXXXX");
    if (!memory_group_create(&storm.group, desc->limit_bytes, why, bytes)) {
        *missing = true;
        return false;
    }
    if (mkdtemp(storm.directory) == NULL) {
        snprintf(why, bytes, "mkdtemp: %s", strerror(errno));
        memory_group_destroy(&storm.group);
        return false;
    }
    if (start_guard(&storm, missing, why, bytes)) {
        done = true;
        for (unsigned i = 0; i < desc->servers && done; i++) {
            done = start_server(&storm, i);
            if (!done)
                snprintf(why, bytes, "server_sim did not start");
        }
        watch(&storm, now_ns() + (int64_t)desc->seconds * 1000000000);
        end_servers(&storm);
        result->kernel_kills = (unsigned)memory_group_kills(&storm.group);
        read_reactions(&storm);
        end_guard(&storm);
    }
    memory_group_destroy(&storm.group);
    remove_files(&storm);
    return done;
}

/* ---- who guards ------------------------------------------------------------------------------- */

static bool start_guard(struct storm *storm, bool *missing, char *why, size_t bytes)
{
    switch (storm->desc->guard) {
    case STORM_ALONE:
        return true;
    case STORM_EARLYOOM:
        *missing = !earlyoom_start(&storm->earlyoom, storm->directory, "10,5",
                                   storm->desc->limit_bytes, why, bytes);
        return !*missing;
    case STORM_BREAKER:
        if (!daemon_start(&storm->engine, NULL)) {
            snprintf(why, bytes, "%.200s", storm->engine.why);
            return false;
        }
        if (storm->desc->observe_from_s == 0)
            return true;
        storm->observe_ns = now_ns() + (int64_t)storm->desc->observe_from_s * 1000000000;
        if (!line_client_connect(&storm->observer, storm->engine.socket_path)) {
            snprintf(why, bytes, "the daemon does not answer");
            return false;
        }
        line_client_hello(&storm->observer, "observer");
        return true;
    }
    return false;
}

static void end_guard(struct storm *storm)
{
    earlyoom_stop(&storm->earlyoom);
    if (storm->desc->guard == STORM_BREAKER) {
        struct line_client operator;
        const char *reply;

        if (storm->observe_ns != 0)
            line_client_close(&storm->observer);
        if (line_client_connect(&operator, storm->engine.socket_path)) {
            line_client_hello(&operator, "storm");
            reply = line_client_call(&operator, "breaker.history", "{\"limit\":256}");
            for (const char *at = reply; (at = strstr(at, "\"number\":")) != NULL; at++)
                storm->result->level_changes++;
            if (getenv("EC_STORM_VERBOSE") != NULL)
                fprintf(stderr, "%s\n%s\n", reply,
                        line_client_call(&operator, "breaker.get", NULL));
            line_client_close(&operator);
        }
        daemon_stop(&storm->engine);
    }
}

/* ---- servers ---------------------------------------------------------------------------------- */

static bool start_server(struct storm *storm, unsigned index)
{
    const struct storm_desc *desc = storm->desc;
    struct server *server = &storm->servers[index];
    char path[PATH_BYTES], name[32], world[16], cache[16], grow[16], seed[16], fill[16];
    const char *argv[24] = { path, name, server->save_path };
    unsigned count = 3;

    if (!program("server_sim", path))
        return false;
    snprintf(name, sizeof name, "server%u", index);
    snprintf(server->save_path, sizeof server->save_path, "%s/%s.save", storm->directory, name);
    snprintf(server->stamp_path, sizeof server->stamp_path, "%s/%s.stamp", storm->directory, name);
    snprintf(world, sizeof world, "%u", desc->world_mib);
    snprintf(cache, sizeof cache, "%u", desc->cache_mib);
    snprintf(grow, sizeof grow, "%u", desc->seconds * 2 / 3 + 1);
    snprintf(seed, sizeof seed, "%u", desc->seed * 1000 + index * 10 + server->generation);
    argv[count++] = "--world";
    argv[count++] = world;
    argv[count++] = "--cache";
    argv[count++] = cache;
    argv[count++] = "--grow";
    argv[count++] = grow;
    argv[count++] = "--seed";
    argv[count++] = seed;
    argv[count++] = "--stamp";
    argv[count++] = server->stamp_path;
    if (desc->fill_mib_s > 0) {
        snprintf(fill, sizeof fill, "%u", desc->fill_mib_s);
        argv[count++] = "--fill";
        argv[count++] = fill;
    }
    if (desc->guard != STORM_BREAKER)
        argv[count++] = "--bare";
    server->step_at_start = saved_step(server);
    server->generation++;
    fflush(NULL);
    server->pid = fork();
    if (server->pid == 0) {
        const int null = open("/dev/null", O_WRONLY);

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (null >= 0)
            dup2(null, STDOUT_FILENO);
        if (desc->guard == STORM_BREAKER)
            setenv("ENGINE_CORE_SOCKET", storm->engine.socket_path, 1);
        /* 0 is this process, whatever its number is in the group's namespace. */
        if (memory_group_enter(&storm->group, 0))
            execv(path, (char *const *)(void *)argv);
        _exit(127);
    }
    server->started_ns = now_ns();
    return server->pid > 0;
}

static void watch(struct storm *storm, int64_t end_ns)
{
    struct timespec due;
    int64_t now = now_ns();

    clock_gettime(CLOCK_MONOTONIC, &due);
    while (now < end_ns) {
        look(storm, now);
        observe(storm, now);
        reap(storm, now, false);
        for (unsigned i = 0; i < storm->desc->servers; i++)
            if (storm->servers[i].pid == 0 && now - storm->servers[i].ended_ns >= RESTART_NS) {
                storm->result->down_s += (double)(now - storm->servers[i].ended_ns) / 1e9;
                start_server(storm, i);
            }
        due.tv_nsec += LOOK_NS;
        due.tv_sec += due.tv_nsec / 1000000000;
        due.tv_nsec %= 1000000000;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
        now = now_ns();
    }
}

static void look(struct storm *storm, int64_t now)
{
    const uint64_t available_bytes = memory_group_available(&storm->group);
    const uint64_t mark_bytes = storm->desc->limit_bytes / 1000 * MARK_PERMILLE;
    struct storm_result *result = storm->result;

    if (available_bytes < result->lowest_bytes)
        result->lowest_bytes = available_bytes;
    if (available_bytes < storm->desc->limit_bytes / 100)
        result->lowest_ms += LOOK_NS / 1e6;
    if (available_bytes < mark_bytes && !storm->below) {
        if (result->crossings < STORM_REACTIONS_MAX)
            storm->crossed_ns[result->crossings] = now;
        result->crossings++;
        storm->below = true;
    }
    /* Back above the mark and some more: the next time counts again. */
    if (available_bytes > mark_bytes + storm->desc->limit_bytes / 20)
        storm->below = false;
    earlyoom_write(&storm->earlyoom, available_bytes);
}

/* What the servers' caches hold, by what they offer. */
static void observe(struct storm *storm, int64_t now)
{
    struct storm_result *result = storm->result;
    double bytes = 0;
    unsigned count = 0;
    const char *reply;

    if (storm->observe_ns == 0 || now < storm->observe_ns)
        return;
    storm->observe_ns = now + OBSERVE_NS;
    reply = line_client_call(&storm->observer, "breaker.get", NULL);
    for (const char *at = reply; (at = strstr(at, "\"evictable_bytes\":")) != NULL; count++) {
        at += strlen("\"evictable_bytes\":");
        bytes += strtod(at, NULL);
    }
    if (count == 0)
        return;
    result->cache_bytes += (bytes / count - result->cache_bytes) / ++result->observations;
}

static void reap(struct storm *storm, int64_t now, bool is_end)
{
    int status;

    for (unsigned i = 0; i < storm->desc->servers; i++)
        if (storm->servers[i].pid > 0 && waitpid(storm->servers[i].pid, &status, WNOHANG) > 0)
            note_end(storm, &storm->servers[i], status, now, is_end);
}

/* What it had played since the save that it loaded, and what of that is in its file. */
static void note_end(struct storm *storm, struct server *server, int status, int64_t now,
                     bool is_end)
{
    struct storm_result *result = storm->result;
    const bool killed = WIFSIGNALED(status);
    const uint64_t saved = saved_step(server);
    const double played_s = (double)(now - server->started_ns) / 1e9;
    const double kept_s = (double)(saved - server->step_at_start) / STEPS_PER_S;

    server->pid = 0;
    server->ended_ns = now;
    if (killed)
        result->killed++;
    else if (!is_end)
        result->ended++;
    /* Who ends by itself with status 0 or 3 has saved; who could not says 1. */
    if (killed || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 3)) {
        result->saves_lost++;
        if (played_s > kept_s)
            result->play_lost_s += played_s - kept_s;
    }
}

static void end_servers(struct storm *storm)
{
    const int64_t end_ns = now_ns() + END_NS;
    unsigned running = 1;

    for (unsigned i = 0; i < storm->desc->servers; i++)
        if (storm->servers[i].pid > 0)
            kill(storm->servers[i].pid, SIGTERM);
    while (running > 0) {
        const int64_t now = now_ns();

        reap(storm, now, true);
        running = 0;
        for (unsigned i = 0; i < storm->desc->servers; i++) {
            running += storm->servers[i].pid > 0;
            if (storm->servers[i].pid > 0 && now > end_ns)
                kill(storm->servers[i].pid, SIGKILL); /* it hangs: counted as killed */
        }
        earlyoom_write(&storm->earlyoom, memory_group_available(&storm->group));
        usleep(LOOK_NS / 1000); /* not for an end alone: earlyoom is told at each look */
    }
}

/* ---- results ---------------------------------------------------------------------------------- */

/* The first call-back of level 2 of any server that came after a crossing, or up to two looks before it.
 * Where a server had been told level 2 already and not less since then, there was nothing to react to. */
static void read_reactions(struct storm *storm)
{
    struct storm_result *result = storm->result;
    int64_t first_ns[STORM_REACTIONS_MAX] = { 0 };
    bool in_force[STORM_REACTIONS_MAX] = { false };
    const unsigned crossings =
        result->crossings < STORM_REACTIONS_MAX ? result->crossings : STORM_REACTIONS_MAX;

    for (unsigned i = 0; i < storm->desc->servers; i++)
        for (unsigned c = 0; c < crossings; c++) {
            const int64_t from_ns = storm->crossed_ns[c] - 2 * LOOK_NS;
            FILE *file = fopen(storm->servers[i].stamp_path, "re");
            unsigned level, level_before = 0;
            long long at_ns;

            while (file != NULL && fscanf(file, "%lld %u %*u %*u", &at_ns, &level) == 2)
                if (at_ns < from_ns)
                    level_before = level;
                else if (level >= 2 && (first_ns[c] == 0 || at_ns < first_ns[c]))
                    first_ns[c] = at_ns;
            in_force[c] = in_force[c] || level_before >= 2;
            if (file != NULL)
                fclose(file);
        }
    for (unsigned c = 0; c < crossings; c++) {
        if (in_force[c])
            result->in_force++;
        else if (first_ns[c] != 0)
            result->reaction_ms[result->reactions++] =
                first_ns[c] > storm->crossed_ns[c]
                    ? (double)(first_ns[c] - storm->crossed_ns[c]) / 1e6
                    : 0;
        else
            result->unheard++;
    }
}

static uint64_t saved_step(const struct server *server)
{
    unsigned long long step = 0;
    FILE *file = fopen(server->save_path, "re");

    if (file != NULL) {
        if (fscanf(file, "%llu", &step) != 1)
            step = 0;
        fclose(file);
    }
    return step;
}

static bool program(const char *name, char path[PATH_BYTES])
{
    const char *directory = getenv("EC_BIN_DIR");

    snprintf(path, PATH_BYTES, "%s/%s", directory != NULL ? directory : ".", name);
    return access(path, X_OK) == 0;
}

static void remove_files(struct storm *storm)
{
    for (unsigned i = 0; i < storm->desc->servers; i++) {
        char beside[PATH_BYTES + 8];

        snprintf(beside, sizeof beside, "%s.new", storm->servers[i].save_path);
        unlink(beside);
        unlink(storm->servers[i].save_path);
        unlink(storm->servers[i].stamp_path);
    }
    rmdir(storm->directory);
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}
