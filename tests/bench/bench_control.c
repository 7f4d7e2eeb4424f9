/* bench_control.c - the control socket against Redis, and how the daemon starts.
 *
 *     bench_control [ROW ...]
 *
 * Server and load generator have a processor each. A request is about 100 bytes and reads state:
 * event.list of one type that an attached game registered (about 200 bytes), or clock.get.
 * Redis answers GET with as many bytes, from memory, without persistence. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <engine-core/client.h>
#include <engine-core/event.h>

#include "bench/harness.h"
#include "bench/load.h"
#include "support/daemon.h"

#define REQUESTS 4000 /* in a run, per connection and place in the pipeline; and at most: */
#define REQUESTS_MAX 40000

struct control_bench {
    const char *request; /* a line of JSON-RPC */
    unsigned connections, pipeline;
};

static struct daemon_process daemon_;

/* ---- servers --------------------------------------------------------------------------------- */

/* The server inherits the second processor; the generator has the first. */
static void start_daemon(const char *const *arguments)
{
    bench_pin(1);
    if (!daemon_start(&daemon_, arguments))
        bench_fail("%s", daemon_.why);
    bench_pin(0);
}

static void measure_load(const struct load_desc *desc)
{
    struct load *load = load_open(desc);
    uint64_t requests = (uint64_t)REQUESTS * desc->connections * desc->pipeline;

    requests = requests < REQUESTS_MAX ? requests : REQUESTS_MAX;
    bench_ready();
    while (bench_next()) {
        long switches = bench_switches();
        double per_s = load_run(load, requests);

        bench_answer(per_s, bench_switches() - switches);
    }
    load_close(load);
}

/* A game is attached, whose event type the requests ask about. */
static struct ec_client *join(const char *socket_path)
{
    struct ec_client *client;
    struct ec_error why = { 0 };

    if (ec_client_create(&(struct ec_client_desc) { .name = "game", .socket_path = socket_path },
                         &client, &why) < 0 ||
        ec_event_type_register(
            client, &(struct ec_event_type_desc) { .name = "bench.state", .max_bytes = 64 }, NULL,
            &why) < 0)
        bench_fail("%s", why.text);
    return client;
}

static void ours(const void *context)
{
    const struct control_bench *bench = context;
    struct ec_client *client;

    start_daemon((const char *const[]) { "--set", "control.connections_per_user=128", NULL });
    client = join(daemon_.socket_path);
    measure_load(&(struct load_desc) { .socket_path = daemon_.socket_path,
                                       .protocol = &load_json,
                                       .request = bench->request,
                                       .connections = bench->connections,
                                       .pipeline = bench->pipeline });
    ec_client_destroy(client);
    if (daemon_stop(&daemon_) != 0)
        bench_fail("the daemon ended badly");
}

/* How long our reply to this request is: Redis gets a value that makes its reply as long. */
static size_t our_reply_bytes(const char *request)
{
    struct ec_client *client;
    struct load *load;
    size_t bytes;

    start_daemon(NULL);
    client = join(daemon_.socket_path);
    load = load_open(&(struct load_desc) { .socket_path = daemon_.socket_path,
                                           .protocol = &load_json,
                                           .request = request,
                                           .connections = 1,
                                           .pipeline = 1 });
    load_run(load, 1);
    bytes = load_reply_bytes(load);
    load_close(load);
    ec_client_destroy(client);
    daemon_stop(&daemon_);
    return bytes;
}

static pid_t start_redis(const char *directory, const char *socket_path)
{
    pid_t pid;

    bench_pin(1);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (freopen("/dev/null", "w", stdout) == NULL)
            _exit(126);
        execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", socket_path, "--save",
               "", "--appendonly", "no", "--daemonize", "no", "--dir", directory, (char *)NULL);
        _exit(127);
    }
    bench_pin(0);
    return pid;
}

static bool installed(const char *program)
{
    char path[4096];
    const char *directory = getenv("PATH");

    while (directory != NULL && *directory != '\0') {
        size_t bytes = strcspn(directory, ":");

        snprintf(path, sizeof path, "%.*s/%s", (int)bytes, directory, program);
        if (access(path, X_OK) == 0)
            return true;
        directory += bytes + (directory[bytes] == ':');
    }
    return false;
}

#define KEY_BYTES 70 /* makes the request as long as ours */

static void redis_command(char *command, size_t bytes, const char *verb, size_t value_bytes)
{
    int used = snprintf(command, bytes, "*%d\r\n$3\r\n%s\r\n$%d\r\n%0*d\r\n",
                        value_bytes != 0 ? 3 : 2, verb, KEY_BYTES, KEY_BYTES, 7);

    if (value_bytes != 0)
        snprintf(command + used, bytes - (size_t)used, "$%zu\r\n%0*d\r\n", value_bytes,
                 (int)value_bytes, 1);
}

/* SET and its answer, +OK. */
static void set_value(const char *socket_path, size_t value_bytes)
{
    static const struct load_protocol simple = { "+OK", 1 };
    char command[8192];
    struct load *load;

    redis_command(command, sizeof command, "SET", value_bytes);
    load = load_open(&(struct load_desc) { .socket_path = socket_path,
                                           .protocol = &simple,
                                           .request = command,
                                           .connections = 1,
                                           .pipeline = 1 });
    load_run(load, 1);
    load_close(load);
}

static void redis(const void *context)
{
    const struct control_bench *bench = context;
    char directory[] = "/tmp/engine-core-bench-XXXXXX", socket_path[96], get[256];
    size_t reply_bytes;
    pid_t pid;

    if (!installed("redis-server"))
        bench_missing("redis-server");
    if (mkdtemp(directory) == NULL)
        bench_fail("%s: %s", directory, strerror(errno));
    reply_bytes = our_reply_bytes(bench->request);
    snprintf(socket_path, sizeof socket_path, "%s/socket", directory);
    pid = start_redis(directory, socket_path);
    set_value(socket_path, reply_bytes - strlen("$200\r\n\r\n"));
    redis_command(get, sizeof get, "GET", 0);
    measure_load(&(struct load_desc) { .socket_path = socket_path,
                                       .protocol = &load_redis,
                                       .request = get,
                                       .connections = bench->connections,
                                       .pipeline = bench->pipeline });
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    unlink(socket_path);
    rmdir(directory);
}

/* ---- start and rest -------------------------------------------------------------------------- */

/* ms from fork and exec until a ping is answered, without assets. A new daemon for each run. */
static void start(const void *context)
{
    (void)context;
    bench_ready();
    while (bench_next()) {
        int64_t begin = bench_ns();
        struct line_client client;
        double took_ms;

        if (!daemon_start(&daemon_, NULL) || !line_client_connect(&client, daemon_.socket_path))
            bench_fail("%s", daemon_.why);
        if (!line_has(line_client_call(&client, "core.ping", "{}"), "pong", "true"))
            bench_fail("core.ping was not answered");
        took_ms = (double)(bench_ns() - begin) / 1e6;
        line_client_close(&client);
        if (daemon_stop(&daemon_) != 0)
            bench_fail("the daemon ended badly");
        daemon_ = (struct daemon_process) { 0 };
        bench_answer(took_ms, 0);
    }
}

static long resident_kib(void)
{
    char path[64], line[256];
    long rss_kib = 0;
    FILE *status;

    snprintf(path, sizeof path, "/proc/%d/status", (int)daemon_.pid);
    status = fopen(path, "re");
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, "VmRSS:", 6) == 0)
            rss_kib = strtol(line + 6, NULL, 10);
    if (status != NULL)
        fclose(status);
    if (rss_kib == 0)
        bench_fail("%s has no VmRSS", path);
    return rss_kib;
}

/* MiB that a daemon without assets and clients has resident. */
static void idle_rss(const void *context)
{
    (void)context;
    bench_ready();
    while (bench_next()) {
        long rss_kib;

        if (!daemon_start(&daemon_, NULL))
            bench_fail("%s", daemon_.why);
        rss_kib = resident_kib();
        if (daemon_stop(&daemon_) != 0)
            bench_fail("the daemon ended badly");
        daemon_ = (struct daemon_process) { 0 };
        bench_answer((double)rss_kib / 1024, 0);
    }
}

/* ---- clients that never read, and clients that come and go ------------------------------------ */

#define STALLED 4
#define STALLED_LINES 4000 /* each with 1 KiB to be sent back */
#define PINGS 2000
#define VISITS_FIRST 1000
#define VISITS 5000
#define LEAK_REQUESTS 100000

/* Ask for far more than they will ever read. */
static void stall(struct line_client clients[STALLED])
{
    char line[1200];

    snprintf(
        line, sizeof line,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"core.ping\",\"params\":{\"x\":\"%01000d\"}}\n",
        7);
    for (int i = 0; i < STALLED; i++) {
        if (!line_client_connect(&clients[i], daemon_.socket_path))
            bench_fail("a client cannot connect");
        for (int n = 0; n < STALLED_LINES; n++)
            if (send(clients[i].fd, line, strlen(line), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
                break; /* the daemon does not read any more, as it should */
    }
}

static int compare_ns(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return a < b ? -1 : a > b;
}

/* us that one ping in a hundred takes at least; context: whether others stand in the way. */
static void ping_p99(const void *context)
{
    const bool *is_stalled = context;
    static int64_t took_ns[PINGS];
    struct line_client stalled[STALLED], client;

    start_daemon(NULL);
    if (*is_stalled)
        stall(stalled);
    if (!line_client_connect(&client, daemon_.socket_path))
        bench_fail("a client cannot connect");
    bench_ready();
    while (bench_next()) {
        for (int i = 0; i < PINGS; i++) {
            const int64_t begin = bench_ns();

            line_client_call(&client, "core.ping", "{}");
            took_ns[i] = bench_ns() - begin;
        }
        qsort(took_ns, PINGS, sizeof took_ns[0], compare_ns);
        bench_answer((double)took_ns[PINGS * 99 / 100] / 1000, 0);
    }
    daemon_stop(&daemon_);
}

/* MiB that four of them cost the daemon. */
static void stalled_rss(const void *context)
{
    (void)context;
    bench_ready();
    while (bench_next()) {
        struct line_client stalled[STALLED], client;
        long before_kib;

        start_daemon(NULL);
        if (!line_client_connect(&client, daemon_.socket_path))
            bench_fail("a client cannot connect");
        line_client_call(&client, "core.ping", "{}");
        before_kib = resident_kib();
        stall(stalled);
        line_client_call(&client, "core.ping", "{}");
        bench_answer((double)(resident_kib() - before_kib) / 1024, 0);
        line_client_close(&client);
        for (int i = 0; i < STALLED; i++)
            line_client_close(&stalled[i]);
        daemon_stop(&daemon_);
        daemon_ = (struct daemon_process) { 0 };
    }
}

static void visit(unsigned times)
{
    struct line_client client;

    while (times-- > 0) {
        if (!line_client_connect(&client, daemon_.socket_path))
            bench_fail("a client cannot connect");
        line_client_hello(&client, "visitor");
        line_client_close(&client);
    }
}

/* KiB that visits and requests leave behind. */
static void leak(const void *context)
{
    const struct control_bench *bench = context;

    bench_ready();
    while (bench_next()) {
        struct ec_client *game;
        struct load *load;
        long before_kib;

        start_daemon(NULL);
        game = join(daemon_.socket_path);
        load = load_open(&(struct load_desc) { .socket_path = daemon_.socket_path,
                                               .protocol = &load_json,
                                               .request = bench->request,
                                               .connections = 1,
                                               .pipeline = 16 });
        load_run(load, LEAK_REQUESTS / 10);
        visit(VISITS_FIRST);
        before_kib = resident_kib();
        load_run(load, LEAK_REQUESTS);
        visit(VISITS);
        bench_answer((double)(resident_kib() - before_kib), 0);
        load_close(load);
        ec_client_destroy(game);
        daemon_stop(&daemon_);
        daemon_ = (struct daemon_process) { 0 };
    }
}

/* ---- instructions ---------------------------------------------------------------------------- */

#define WARM_REQUESTS 1000
#define COUNTED_REQUESTS 5000

/* What callgrind counted for a daemon that served this many requests. */
static double counted_instructions(const char *request, uint64_t requests)
{
    char directory[] = "/tmp/engine-core-bench-XXXXXX", socket_path[96], file[96], line[256];
    char option[160], program[4096];
    const char *bin = getenv("EC_BIN_DIR");
    double instructions = 0;
    struct ec_client *client;
    struct load *load;
    FILE *counted;
    pid_t pid;

    if (mkdtemp(directory) == NULL)
        bench_fail("%s: %s", directory, strerror(errno));
    snprintf(socket_path, sizeof socket_path, "%s/socket", directory);
    snprintf(file, sizeof file, "%s/callgrind", directory);
    snprintf(option, sizeof option, "--callgrind-out-file=%s", file);
    snprintf(program, sizeof program, "%s/engine-cored", bin != NULL ? bin : ".");
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (freopen("/dev/null", "w", stderr) == NULL) /* it warns of new system calls */
            _exit(126);
        execlp("valgrind", "valgrind", "-q", "--tool=callgrind", option, program, "--set",
               "log.level=error", "--socket", socket_path, (char *)NULL);
        _exit(127);
    }
    load = load_open(&(struct load_desc) { .socket_path = socket_path,
                                           .protocol = &load_json,
                                           .request = request,
                                           .connections = 1,
                                           .pipeline = 1 });
    client = join(socket_path);
    load_run(load, requests);
    load_close(load);
    ec_client_destroy(client);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    counted = fopen(file, "re");
    while (counted != NULL && fgets(line, sizeof line, counted) != NULL)
        if (strncmp(line, "totals:", 7) == 0 || strncmp(line, "summary:", 8) == 0)
            instructions = strtod(strchr(line, ':') + 1, NULL);
    if (counted == NULL || instructions <= 0)
        bench_fail("callgrind has left no totals in %s", file);
    fclose(counted);
    unlink(file);
    snprintf(file, sizeof file, "%s/socket.lock", directory); /* stays after the daemon */
    unlink(file);
    rmdir(directory);
    return instructions;
}

/* Instructions of one request, whole: loop, line, parse, dispatch, reply. The difference of two runs,
 * so that start and end of the daemon do not count. */
static void instructions(const void *context)
{
    const struct control_bench *bench = context;

    if (!installed("valgrind"))
        bench_missing("valgrind");
    bench_ready();
    while (bench_next()) {
        double before = counted_instructions(bench->request, WARM_REQUESTS);
        double after =
            counted_instructions(bench->request, WARM_REQUESTS + (uint64_t)COUNTED_REQUESTS);

        bench_answer((after - before) / COUNTED_REQUESTS, 0);
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define EVENT_LIST                                                                                 \
    "{\"jsonrpc\":\"2.0\",\"id\":1234567,\"method\":\"event.list\","                               \
    "\"params\":{\"type\":\"bench.state\"}}               \n"
#define CLOCK_GET                                                                                  \
    "{\"jsonrpc\":\"2.0\",\"id\":1234567,\"method\":\"clock.get\",\"params\":{}}"                  \
    "                                   \n"

static const bool is_stalled = true, is_alone = false;
static const struct control_bench one = { EVENT_LIST, 1, 1 };
static const struct control_bench fifty = { EVENT_LIST, 50, 1 };
static const struct control_bench one_piped = { EVENT_LIST, 1, 16 };
static const struct control_bench fifty_piped = { EVENT_LIST, 50, 16 };
static const struct control_bench clock_fifty = { CLOCK_GET, 50, 1 };

#define AGAINST_REDIS(bench)                                                                       \
    { .name = "engine-cored", .run = ours, .context = &(bench) },                                  \
    {                                                                                              \
        .name = "Redis GET", .run = redis, .context = &(bench)                                     \
    }

static const struct {
    struct bench_row row;
    struct bench_contender ours, peer;
} rows[] = {
    { { .name = "control.rps_1x1",
        .unit = "/s",
        .op = ">=",
        .goal = 0.95,
        .pairs = 21,
        .shared = true },
      AGAINST_REDIS(one) },
    { { .name = "control.rps_50x1",
        .unit = "/s",
        .op = ">=",
        .goal = 0.75,
        .pairs = 21,
        .shared = true },
      AGAINST_REDIS(fifty) },
    { { .name = "control.rps_1x16",
        .unit = "/s",
        .op = ">=",
        .goal = 0.8,
        .pairs = 21,
        .shared = true },
      AGAINST_REDIS(one_piped) },
    { { .name = "control.rps_50x16",
        .unit = "/s",
        .op = ">=",
        .goal = 0.5,
        .pairs = 21,
        .shared = true },
      AGAINST_REDIS(fifty_piped) },
    { { .name = "control.rps_50x1_clock", .unit = "/s", .shared = true },
      AGAINST_REDIS(clock_fifty) },
    { { .name = "control.instructions",
        .unit = "per request",
        .op = "<=",
        .goal = 14000,
        .pairs = 5,
        .shared = true },
      { .name = "engine-cored", .run = instructions, .context = &one },
      { 0 } },
    { { .name = "control.stalled_rss",
        .unit = "MiB",
        .op = "<=",
        .goal = 2,
        .pairs = 5,
        .shared = true },
      { .name = "engine-cored", .run = stalled_rss },
      { 0 } },
    { { .name = "control.stalled_p99",
        .unit = "us",
        .op = "<=",
        .goal = 1.5,
        .pairs = 11,
        .shared = true },
      { .name = "four clients never read", .run = ping_p99, .context = &is_stalled },
      { .name = "nobody else", .run = ping_p99, .context = &is_alone } },
    { { .name = "control.leak",
        .unit = "KiB",
        .op = "<=",
        .goal = 256,
        .pairs = 5,
        .shared = true },
      { .name = "engine-cored", .run = leak, .context = &one },
      { 0 } },
    { { .name = "control.start", .unit = "ms", .op = "<=", .goal = 50, .shared = true },
      { .name = "engine-cored", .run = start },
      { 0 } },
    { { .name = "control.start_rss", .unit = "MiB", .op = "<=", .goal = 8, .shared = true },
      { .name = "engine-cored", .run = idle_rss },
      { 0 } },
};

int main(int argc, char **argv)
{
    int status = EXIT_SUCCESS;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (bench_wanted(argc, argv, rows[i].row.name) &&
            !bench_compare(&rows[i].row, &rows[i].ours,
                           rows[i].peer.name != NULL ? &rows[i].peer : NULL))
            status = EXIT_FAILURE;
    return status;
}
