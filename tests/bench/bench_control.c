/* bench_control.c - the control socket against Redis, and how the daemon starts.
 *
 *     bench_control [ROW ...]
 *
 * Server and load generator have a processor each. A request is about 100 bytes and reads state:
 * event.list of one type that an attached game registered (about 200 bytes), or clock.get.
 * Redis answers GET with as many bytes, from memory, without persistence. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <engine-core/client.h>
#include <engine-core/event.h>

#include "bench/harness.h"
#include "bench/load.h"
#include "proto/client_segment.h"
#include "proto/cursor_segment.h"
#include "segment/event_port.h"
#include "segment/segment.h"
#include "support/daemon.h"
#include "support/json_texts.h"
#include "support/reply.h"
#include "support/rpc_examples.h"

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

/* MiB that a daemon without assets and clients has resident. */
static void idle_rss(const void *context)
{
    (void)context;
    bench_ready();
    while (bench_next()) {
        long rss_kib;

        if (!daemon_start(&daemon_, NULL))
            bench_fail("%s", daemon_.why);
        rss_kib = process_resident_kib(daemon_.pid);
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
#define VISITS 100000
#define LEAK_REQUESTS 1000000

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

/* us that one ping in a hundred takes at least; context: whether others stand in the way. */
static void ping_p99(const void *context)
{
    const bool *is_stalled = context;
    static double took_us[PINGS];
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
            took_us[i] = (double)(bench_ns() - begin) / 1000;
        }
        bench_answer(bench_percentile(took_us, PINGS, 99), 0);
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
        before_kib = process_resident_kib(daemon_.pid);
        stall(stalled);
        line_client_call(&client, "core.ping", "{}");
        bench_answer((double)(process_resident_kib(daemon_.pid) - before_kib) / 1024, 0);
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

/* The daemon has heard of the last hang-up before it answers who came later. */
static unsigned settled_descriptors(struct ec_client *game)
{
    struct ec_error why = { 0 };
    char *result;

    for (int i = 0; i < 2; i++) {
        if (ec_client_call(game, "core.ping", NULL, &result, &why) < 0)
            bench_fail("%s", why.text);
        free(result);
    }
    return process_descriptors(daemon_.pid);
}

/* KiB that visits and requests leave behind; as many descriptors as before have to be open. The daemon
 * is the same in all runs. */
static void leak(const void *context)
{
    const struct control_bench *bench = context;
    struct ec_client *game;
    struct load *load;

    start_daemon(NULL);
    game = join(daemon_.socket_path);
    load = load_open(&(struct load_desc) { .socket_path = daemon_.socket_path,
                                           .protocol = &load_json,
                                           .request = bench->request,
                                           .connections = 1,
                                           .pipeline = 16 });
    load_run(load, LEAK_REQUESTS / 10);
    visit(VISITS_FIRST);
    bench_ready();
    while (bench_next()) {
        const unsigned descriptors = settled_descriptors(game);
        const long before_kib = process_resident_kib(daemon_.pid);

        load_run(load, LEAK_REQUESTS);
        visit(VISITS);
        if (settled_descriptors(game) != descriptors)
            bench_fail("%u descriptors were open, now %u", descriptors, settled_descriptors(game));
        bench_answer((double)(process_resident_kib(daemon_.pid) - before_kib), 0);
    }
    load_close(load);
    ec_client_destroy(game);
    daemon_stop(&daemon_);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

#define TRIPS 1000 /* in a run */
#define PORT_BYTES 65536

static struct ec_segment segments[2]; /* of the game on the line client */
static struct ec_port_writer port;

static const char *result_of(const char *reply)
{
    if (strstr(reply, "\"result\":") == NULL)
        bench_fail("%s", reply);
    return reply;
}

static const char *send_descriptors(struct line_client *client, const char *line, const int *fds,
                                    unsigned fd_count)
{
    const char *reply;

    if (!line_client_send_fds(client, line, fds, fd_count))
        bench_fail("the daemon hung up");
    reply = line_client_receive(client);
    if (reply == NULL)
        bench_fail("the daemon hung up");
    return result_of(reply);
}

static void forget_descriptors(struct line_client *client)
{
    while (client->fd_count > 0)
        close(client->fds[--client->fd_count]);
}

/* A game that speaks in lines, with a port to hand over. */
static void attach(struct line_client *client)
{
    const struct ec_segment_desc descs[] = {
        { .name = "client", .kind = EC_SEGMENT_CLIENT, .bytes = sizeof(struct ec_client_segment) },
        { .name = "cursor", .kind = EC_SEGMENT_CURSOR, .bytes = sizeof(struct ec_cursor_segment) }
    };
    const struct ec_port_writer_desc port_desc = { .name = "main", .ring_bytes = PORT_BYTES };
    const int doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct ec_error why = { 0 };
    char line[256];

    if (!line_client_connect(client, daemon_.socket_path) ||
        ec_segment_init(&segments[0], &descs[0], &why) < 0 ||
        ec_segment_init(&segments[1], &descs[1], &why) < 0 ||
        ec_port_writer_init(&port, &port_desc, &why) < 0)
        bench_fail("attach: %s", why.text);
    result_of(line_client_hello(client, "game"));
    snprintf(line, sizeof line,
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"client.attach\",\"params\":{\"real_ns\":"
             "%" PRId64 ",\"fds\":[\"client\",\"cursor\",\"doorbell\"]}}",
             bench_ns());
    send_descriptors(client, line, (const int[]) { segments[0].fd, segments[1].fd, doorbell_fd },
                     3);
    close(doorbell_fd);
    forget_descriptors(client);
}

/* Hand a port over: answered when the daemon has mapped and checked it. */
static int64_t give_port(struct line_client *client)
{
    static const char line[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"event.port.open\","
                               "\"params\":{\"name\":\"main\",\"bytes\":65536}}";
    const int64_t begin = bench_ns();
    const char *reply = send_descriptors(client, line, &port.segment.fd, 1);
    const int64_t took_ns = bench_ns() - begin;
    char params[64];

    snprintf(params, sizeof params, "{\"port_id\":%" PRId64 "}",
             reply_number(reply, "result/port_id"));
    result_of(line_client_call(client, "event.port.close", params));
    return took_ns;
}

/* Get the daemon's own port: until its bytes have been read. */
static int64_t take_port(struct line_client *client)
{
    static const char line[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"event.reader.open\","
                               "\"params\":{\"types\":\"*\"}}";
    const int64_t begin = bench_ns();
    const char *reply = send_descriptors(client, line, NULL, 0);
    const int64_t reader_id = reply_number(reply, "result/reader_id");
    volatile const unsigned char *bytes;
    char params[64];
    int64_t took_ns;

    if (client->fd_count != 1)
        bench_fail("one port was to come with the reader, not %u", client->fd_count);
    bytes = mmap(NULL, PORT_BYTES, PROT_READ, MAP_SHARED, client->fds[0], 0);
    if (bytes == MAP_FAILED || bytes[0] == 0)
        bench_fail("the port cannot be read");
    took_ns = bench_ns() - begin;
    munmap((void *)(uintptr_t)bytes, PORT_BYTES);
    forget_descriptors(client);
    snprintf(params, sizeof params, "{\"reader_id\":%" PRId64 "}", reader_id);
    result_of(line_client_call(client, "event.reader.close", params));
    return took_ns;
}

static int64_t ping(struct line_client *client)
{
    static const char line[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"core.ping\"}";
    const int64_t begin = bench_ns();

    send_descriptors(client, line, NULL, 0);
    return bench_ns() - begin;
}

typedef int64_t trip_fn(struct line_client *client); /* ns */

/* us of the median trip. context: what a trip is. */
static void trips(const void *context)
{
    trip_fn *const *trip = context;
    static double took_us[TRIPS];
    struct line_client client;

    start_daemon(NULL);
    attach(&client);
    bench_ready();
    while (bench_next()) {
        for (int i = 0; i < TRIPS; i++)
            took_us[i] = (double)(*trip)(&client) / 1000;
        bench_answer(bench_median(took_us, TRIPS), 0);
    }
    daemon_stop(&daemon_);
}

/* ---- conformance ----------------------------------------------------------------------------- */

/* How many cases are judged wrongly: texts by the scanner that stands before every request, and the
 * examples of JSON-RPC by a daemon. */
static void conformance(const void *context)
{
    (void)context;
    start_daemon(NULL);
    bench_ready();
    while (bench_next()) {
        struct line_client client;
        unsigned wrong = 0;

        for (size_t s = 0; s < json_text_sets_count; s++)
            for (size_t i = 0; i < json_text_sets[s].count; i++) {
                const struct json_text *text = &json_text_sets[s].texts[i];
                struct ec_json_fault fault;

                ec_json_check(text->text, text->bytes, NULL, &fault);
                wrong += fault.kind != json_text_sets[s].fault;
            }
        if (!line_client_connect(&client, daemon_.socket_path))
            bench_fail("a client cannot connect");
        for (size_t i = 0; i < rpc_examples_count; i++)
            wrong += rpc_example_try(&client, &rpc_examples[i]) != NULL;
        line_client_close(&client);
        bench_answer(wrong, 0);
    }
    daemon_stop(&daemon_);
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

static trip_fn *const give_port_trip = give_port, *const take_port_trip = take_port,
                      *const ping_trip = ping;
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

/* ---- under systemd ---------------------------------------------------------------------------- */

#define KILLS 7 /* of drive-restart */

/* The numbers behind this word, in the lines that a command says up to the last one that is wanted. */
static unsigned numbers_said(FILE *said, const char *word, double *numbers, unsigned most)
{
    char line[512], *at;
    unsigned count = 0;

    while (count < most && fgets(line, sizeof line, said) != NULL)
        if ((at = strstr(line, word)) != NULL)
            numbers[count++] = strtod(at + strlen(word), NULL);
    return count;
}

/* The service is killed under a systemd of its own; how long the next answer takes, from the kill on. A
 * connection that is refused counts as if it took for ever. */
static void restart(const void *context)
{
    static const char command[] =
        EC_SOURCE_DIR "/tests/systemd/boot " EC_BUILD_DIR " " EC_SOURCE_DIR
                      "/tests/bench/drive-restart 2>/dev/null";
    double took_ms[KILLS], refused = 0;
    unsigned count = 0, at = 0;

    (void)context;
    if (geteuid() != 0 || access("/lib/systemd/systemd", X_OK) < 0)
        bench_missing("systemd that can be booted in namespaces, as root");
    bench_ready();
    while (bench_next()) {
        if (at == count) {
            FILE *said = popen(command, "re");

            if (said == NULL)
                bench_fail("%s: %s", command, strerror(errno));
            count = numbers_said(said, "answer_ms ", took_ms, KILLS);
            if (count < KILLS || numbers_said(said, "refused ", &refused, 1) != 1)
                bench_fail("systemd/boot did not come to its end");
            (void)numbers_said(said, "\n", &(double) { 0 }, 1);
            if (pclose(said) != 0 || refused != 0)
                bench_fail("%.0f connections were refused", refused);
            at = 0;
        }
        bench_answer(took_ms[at++], 0);
    }
}

/* By systemd's own measure, of the unit as it is installed. */
static void exposure(const void *context)
{
    static const char command[] = "systemd-analyze security --offline=true " EC_BUILD_DIR
                                  "/systemd/engine-core.service 2>/dev/null";
    double level;

    (void)context;
    if (access("/usr/bin/systemd-analyze", X_OK) < 0)
        bench_missing("systemd-analyze");
    bench_ready();
    while (bench_next()) {
        FILE *said = popen(command, "re");

        if (said == NULL || numbers_said(said, "engine-core.service: ", &level, 1) != 1)
            bench_fail("systemd-analyze said something else");
        pclose(said);
        bench_answer(level, 0);
    }
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
    { { .name = "control.conformance", .unit = "wrong", .op = "<=", .goal = 0, .pairs = 5 },
      { .name = "engine-cored", .run = conformance },
      { 0 } },
    { { .name = "control.fd", .unit = "us", .op = "<=", .goal = 3, .pairs = 11, .shared = true },
      { .name = "a port to the daemon", .run = trips, .context = &give_port_trip },
      { .name = "core.ping", .run = trips, .context = &ping_trip } },
    { { .name = "control.fd_back",
        .unit = "us",
        .op = "<=",
        .goal = 3,
        .pairs = 11,
        .shared = true },
      { .name = "a port from the daemon", .run = trips, .context = &take_port_trip },
      { .name = "core.ping", .run = trips, .context = &ping_trip } },
    { { .name = "control.leak",
        .unit = "KiB",
        .op = "<=",
        .goal = 256,
        .pairs = 5,
        .run_s = 600,
        .shared = true },
      { .name = "engine-cored", .run = leak, .context = &one },
      { 0 } },
    { { .name = "control.start", .unit = "ms", .op = "<=", .goal = 50, .shared = true },
      { .name = "engine-cored", .run = start },
      { 0 } },
    { { .name = "control.start_rss", .unit = "MiB", .op = "<=", .goal = 8, .shared = true },
      { .name = "engine-cored", .run = idle_rss },
      { 0 } },
    { { .name = "control.restart",
        .unit = "ms",
        .op = "<=",
        .goal = 500,
        .pairs = KILLS,
        .run_s = 180,
        .shared = true },
      { .name = "kill -9 to the next answer", .run = restart },
      { 0 } },
    { { .name = "control.exposure", .unit = "of 10", .op = "<=", .goal = 0.8, .pairs = 5 },
      { .name = "engine-core.service", .run = exposure },
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
