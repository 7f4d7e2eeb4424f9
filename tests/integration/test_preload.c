/* Programs that know nothing of engine-core, run by `engine-ctl run`: what they allocate is counted, in
 * every form of malloc, in threads, children and successors, with a daemon and without. */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/daemon.h"
#include "support/reply.h"

#define WORDS_MAX 24
#define GAME_SERVER "/usr/games/bzfs"

static struct daemon_process engine;
static struct line_client operator, listener;

/* A program of the test, with its stdin and stdout. */
struct program {
    pid_t pid;
    FILE *in, *out;
};

static void set_up(void)
{
    ck_assert_msg(daemon_start(&engine, NULL), "%s", engine.why);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    ck_assert_ptr_nonnull(line_client_hello(&operator, "operator"));
    ck_assert(line_client_connect(&listener, engine.socket_path));
    ck_assert_ptr_nonnull(line_client_hello(&listener, "listener"));
    ck_assert(
        line_has(line_client_call(&listener, "event.subscribe", "{\"types\":[\"client.joined\"]}"),
                 "jsonrpc", "\"2.0\""));
}

static void tear_down(void)
{
    line_client_close(&listener);
    line_client_close(&operator);
    ck_assert_int_eq(daemon_stop(&engine), 0);
}

/* engine-ctl run OPTION... -- WORD... */
static struct program start(const char *const *options, const char *const *words)
{
    char path[4096];
    const char *argv[WORDS_MAX] = { "engine-ctl", "--socket", engine.socket_path, "run" };
    size_t count = 4;
    int in[2], out[2];
    struct program program;

    snprintf(path, sizeof path, "%s/engine-ctl", getenv("EC_BIN_DIR"));
    for (size_t i = 0; options != NULL && options[i] != NULL; i++)
        argv[count++] = options[i];
    argv[count++] = "--";
    for (size_t i = 0; words[i] != NULL; i++)
        argv[count++] = words[i];
    ck_assert_uint_lt(count, WORDS_MAX);
    ck_assert_int_eq(pipe2(in, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    program.pid = fork();
    ck_assert_int_ge(program.pid, 0);
    if (program.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        execv(path, (char *const *)(void *)argv);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    program.in = fdopen(in[1], "w");
    program.out = fdopen(out[0], "r");
    return program;
}

static const char *own_program(const char *name)
{
    static char path[4096];

    snprintf(path, sizeof path, "%s/%s", getenv("EC_BIN_DIR"), name);
    return path;
}

/* Wait for "ready NUMBER". */
static int await_ready(const struct program *program)
{
    char line[256];
    int number;

    ck_assert_ptr_nonnull(fgets(line, sizeof line, program->out));
    ck_assert_msg(sscanf(line, "ready %d", &number) == 1, "%s", line);
    return number;
}

static void tell(const struct program *program)
{
    ck_assert_int_gt(fprintf(program->in, "go\n"), 0);
    ck_assert_int_eq(fflush(program->in), 0);
}

static int end(struct program *program)
{
    int status;

    fclose(program->in);
    fclose(program->out);
    ck_assert_int_eq(waitpid(program->pid, &status, 0), program->pid);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static int kill_hard(struct program *program)
{
    ck_assert_int_eq(kill(program->pid, SIGKILL), 0);
    return end(program);
}

/* Wait until this process has attached, by the event; its name must be this. */
static void await_attached(pid_t pid, const char *name)
{
    char number[32], quoted[64];
    const char *line;

    snprintf(number, sizeof number, "%d", (int)pid);
    snprintf(quoted, sizeof quoted, "\"%s\"", name);
    do {
        line = line_client_receive(&listener);
        ck_assert_ptr_nonnull(line);
    } while (!line_has(line, "type", "\"client.joined\"") || !line_has(line, "pid", number) ||
             !line_has(line, "name", quoted));
}

static const char *report_of(pid_t pid)
{
    char params[64];

    snprintf(params, sizeof params, "{\"pid\":%d}", (int)pid);
    return line_client_call(&operator, "memory.report", params);
}

/* A member of the tag's row in the newest item of the report. */
static int64_t tag_number(pid_t pid, const char *tag, const char *member)
{
    char path[128];

    snprintf(path, sizeof path, "result/items/0/tags/tag=%s/%s", tag, member);
    return reply_number(report_of(pid), path);
}

static const char *const samples[] = { "0", "4096", "512KiB", "1" };

static const char *const at_once[] = { "--at-once", NULL };

START_TEST(each_block_of_a_c_program_is_counted)
{
    const char *options[] = { "--at-once", "--tag", "level", "--sample", samples[_i], NULL };
    const char *words[] = { own_program("preload_program"),
                            "wait",
                            "every",
                            "wait",
                            "blocks",
                            "10000",
                            "100",
                            "wait",
                            NULL };
    struct program program = start(options, words);
    const int64_t extra = _i == 3 ? 16 : 0; /* a mark at the end of each block */
    int64_t count, bytes;

    ck_assert_int_eq(await_ready(&program), program.pid);
    tell(&program); /* stdin has its buffer from here on */
    await_ready(&program);
    count = tag_number(program.pid, "level", "count");
    bytes = tag_number(program.pid, "level", "bytes");
    tell(&program);
    await_ready(&program);
    /* glibc rounds 100 bytes and its own word up to whole 16 */
    ck_assert_int_eq(tag_number(program.pid, "level", "count") - count, 10000);
    ck_assert_int_ge(tag_number(program.pid, "level", "bytes") - bytes, 10000 * (104 + extra));
    ck_assert_int_lt(tag_number(program.pid, "level", "bytes") - bytes, 10000 * (104 + extra + 2));
    tell(&program);
    ck_assert_int_eq(end(&program), 0);
}
END_TEST

START_TEST(what_a_program_does_with_its_memory_stays_right)
{
    const char *options[] = { "--sample", samples[_i], NULL };
    const char *words[] = { own_program("preload_program"),
                            "every",
                            "grow",
                            "8000000",
                            "threads",
                            "100",
                            "close",
                            "every",
                            "threads",
                            "10",
                            NULL };
    struct program program = start(options, words);

    ck_assert_int_eq(end(&program), 0);
}
END_TEST

START_TEST(threads_leave_nothing_behind_in_the_counts)
{
    const char *words[] = {
        own_program("preload_program"), "wait", "threads", "200", "wait", NULL
    };
    struct program program = start(at_once, words);
    const char *line;
    char params[64];
    int64_t count;

    await_ready(&program);
    count = tag_number(program.pid, "malloc", "count");
    snprintf(params, sizeof params, "{\"client_id\":%d,\"sample_bytes\":1}",
             (int)reply_number(report_of(program.pid), "result/items/0/client_id"));
    line = line_client_call(&operator, "memory.observe", params);
    ck_assert_msg(strstr(line, "cannot be switched while it runs") != NULL, "%s", line);
    tell(&program);
    await_ready(&program);
    /* the C library keeps something of its own for some threads */
    ck_assert_int_lt(tag_number(program.pid, "malloc", "count") - count, 1000);
    tell(&program);
    ck_assert_int_eq(end(&program), 0);
}
END_TEST

#define CROWD 100
#define CROWD_BLOCKS 200

/* There are rows for 63: the others count in the last one, together. */
START_TEST(more_threads_than_there_are_rows_are_counted_to_the_block)
{
    const char *options[] = { "--at-once", "--sample", samples[_i], NULL };
    const char *words[] = {
        own_program("preload_program"), "wait", "hold", "100", "200", "1000", "wait", NULL
    };
    struct program program = start(options, words);
    int64_t count, bytes;

    await_ready(&program);
    tell(&program); /* stdin has its buffer only behind this */
    await_ready(&program);
    count = tag_number(program.pid, "malloc", "count");
    bytes = tag_number(program.pid, "malloc", "bytes");
    tell(&program);
    await_ready(&program);
    /* the C library keeps something of its own for some threads, which have ended */
    ck_assert_int_le(count - tag_number(program.pid, "malloc", "count"),
                     CROWD * CROWD_BLOCKS + 4 * CROWD);
    ck_assert_int_ge(count - tag_number(program.pid, "malloc", "count"), CROWD * CROWD_BLOCKS);
    ck_assert_int_ge(bytes - tag_number(program.pid, "malloc", "bytes"),
                     CROWD * CROWD_BLOCKS * 1000);
    tell(&program);
    ck_assert_int_eq(end(&program), 0);
}
END_TEST

/* Whether a site of this many live blocks has this module in its frame; the list of modules follows within a
 * second. */
static bool has_site_of(const char *line, const char *module, int64_t count)
{
    char path[96];

    for (int i = 0; i < 20; i++) {
        snprintf(path, sizeof path, "result/items/0/sites/%d/where", i);
        if (reply_at(line, path).text == NULL)
            return false;
        if (strncmp(reply_text(line, path), module, strlen(module)) != 0)
            continue;
        snprintf(path, sizeof path, "result/items/0/sites/%d/count", i);
        if (reply_number(line, path) == count)
            return true;
    }
    return false;
}

START_TEST(what_a_library_allocated_is_its_own_also_after_it_was_unloaded)
{
    static const char *const options[] = { "--at-once", "--sample", "1", NULL };
    char plugin[4096], late[4096];
    const char *words[] = { own_program("preload_program"),
                            "plugin",
                            plugin,
                            "300",
                            "wait",
                            "unload",
                            "wait",
                            "plugin",
                            late,
                            "200",
                            "wait",
                            NULL };
    struct program program;
    const char *line;

    snprintf(plugin, sizeof plugin, "%s/preload_plugin.so", getenv("EC_LIB_DIR"));
    snprintf(late, sizeof late, "%s/preload_late.so", getenv("EC_LIB_DIR"));
    program = start(options, words);
    await_ready(&program);
    while (!has_site_of(report_of(program.pid), "preload_plugin.so+0x", 300))
        ;
    tell(&program);
    await_ready(&program);
    do
        line = report_of(program.pid);
    while (!line_has(line, "unloaded", "true"));
    ck_assert(has_site_of(line, "preload_plugin.so+0x", 300));
    tell(&program);
    await_ready(&program); /* the next one may lie where that was, with the same addresses */
    do
        line = report_of(program.pid);
    while (!has_site_of(line, "preload_late.so+0x", 200));
    ck_assert(has_site_of(line, "preload_plugin.so+0x", 300));
    tell(&program);
    ck_assert_int_eq(end(&program), 0);
}
END_TEST

/* Behind ours, where `run` leaves it, or in front, by way of env. Without samples: those ours takes as
 * aligned blocks, which the other does not count. */
START_TEST(another_library_in_the_place_of_malloc_gets_each_call_too)
{
    char other[4096], in_front[8400];
    const char *options[] = { "--sample", "0", NULL };
    const char *words[] = { "env",  in_front, own_program("preload_program"),
                            "wait", "other",  "blocks",
                            "1000", "100",    "other",
                            "wait", NULL };
    struct program program;
    int64_t count;
    int calls;

    snprintf(other, sizeof other, "%s/preload_other.so", getenv("EC_LIB_DIR"));
    snprintf(in_front, sizeof in_front, "LD_PRELOAD=%s:%s/libengine-core-preload.so", other,
             getenv("EC_LIB_DIR"));
    if (_i == 0)
        setenv("LD_PRELOAD", other, 1);
    program = start(options, _i == 0 ? words + 2 : words);
    unsetenv("LD_PRELOAD");
    await_ready(&program);
    await_attached(program.pid, "preload_program");
    tell(&program); /* stdin has its buffer by the count below: the line is read before */
    calls = await_ready(&program);
    ck_assert_int_ge(await_ready(&program) - calls, 1000);
    await_ready(&program);
    count = tag_number(program.pid, "malloc", "count");
    ck_assert_int_ge(count, 1000);
    ck_assert_int_lt(tag_number(program.pid, "malloc", "total"), 10000);
    tell(&program);
    ck_assert_int_eq(end(&program), 0);
}
END_TEST

START_TEST(a_cpp_program_is_counted)
{
    const char *options[] = { "--at-once", "--sample", samples[_i], NULL };
    const char *words[] = { own_program("preload_objects"), NULL };
    struct program program = start(options, words);

    ck_assert_int_eq(await_ready(&program), 1000);
    /* 1,000 objects, their names and paths, and 2,000 names in the map */
    ck_assert_int_ge(tag_number(program.pid, "malloc", "count"), 7000);
    ck_assert_int_ge(tag_number(program.pid, "malloc", "bytes"), 1000 * 400);
    ck_assert_int_ge(tag_number(program.pid, "malloc", "peak_bytes"), 2000 * 400);
    tell(&program);
    ck_assert_int_eq(end(&program), 0);
}
END_TEST

START_TEST(python_is_counted)
{
    const char *options[] = { "--at-once", "--sample", samples[_i], NULL };
    const char *words[] = { "/usr/bin/python3", "-c",
                            "import os, sys, json, threading\n"
                            "kept = [bytes(10000) for i in range(1000)]\n"
                            "t = threading.Thread(target=lambda: json.dumps(list(range(10000))))\n"
                            "t.start(); t.join()\n"
                            "print('ready', os.getpid(), flush=True)\n"
                            "sys.stdin.readline()\n",
                            NULL };
    struct program program = start(options, words);

    ck_assert_int_eq(await_ready(&program), program.pid);
    ck_assert_int_ge(tag_number(program.pid, "malloc", "bytes"), 10000000);
    ck_assert_int_ge(tag_number(program.pid, "malloc", "count"), 1000);
    tell(&program);
    ck_assert_int_eq(end(&program), 0);
}
END_TEST

/* A port that nobody has now. */
static void free_port(char text[8])
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    snprintf(text, 8, "%u", ntohs(address.sin_port));
    close(fd);
}

START_TEST(a_game_server_of_the_distribution_is_counted)
{
    const char *options[] = { "--at-once", "--tag", "world", "--sample", samples[_i], NULL };
    char port[8];
    const char *words[] = { GAME_SERVER, "-i", "127.0.0.1", "-p", port, "-ddd", NULL };
    struct program program;
    char line[512];
    int status;

    free_port(port);
    program = start(options, words);
    do /* its world is built */
        ck_assert_ptr_nonnull(fgets(line, sizeof line, program.out));
    while (strstr(line, "MD5 generation") == NULL);
    ck_assert_int_ge(tag_number(program.pid, "world", "count"), 100);
    ck_assert_int_ge(tag_number(program.pid, "world", "bytes"), 100000);
    ck_assert_int_eq(kill(program.pid, SIGTERM), 0);
    status = end(&program);
    ck_assert_msg(status >= 0 || status == -SIGTERM, "it ended by signal %d", -status);
}
END_TEST

START_TEST(a_forked_child_counts_for_itself)
{
    const char *options[] = { "--at-once", "--sample", samples[_i], NULL };
    const char *words[] = {
        own_program("preload_program"), "blocks", "1000", "1000", "wait", "fork", "wait", NULL
    };
    struct program program = start(options, words);
    int64_t count;
    pid_t child;

    await_ready(&program);
    count = tag_number(program.pid, "malloc", "count");
    ck_assert_int_ge(count, 1000);
    tell(&program);
    child = await_ready(&program);
    ck_assert_int_ne(child, program.pid);
    await_attached(child, "preload_program");
    /* The child has what its parent had, and 1,000 blocks more; the parent has nothing of them. */
    ck_assert_int_ge(tag_number(child, "malloc", "count"), count + 1000);
    ck_assert_int_lt(tag_number(child, "malloc", "count"), count + 1100);
    ck_assert_int_lt(tag_number(program.pid, "malloc", "count"), count + 100);
    tell(&program);
    await_ready(&program);
    ck_assert_int_lt(tag_number(program.pid, "malloc", "count"), count + 100);
    tell(&program);
    ck_assert_int_eq(end(&program), 0);
}
END_TEST

START_TEST(a_program_that_replaces_itself_begins_anew)
{
    const char *words[] = { own_program("preload_program"),
                            "blocks",
                            "100000",
                            "100",
                            "exec",
                            own_program("preload_program"),
                            "blocks",
                            "10",
                            "100000",
                            "wait",
                            NULL };
    struct program program = start(NULL, words);
    char path[128];
    const char *report;

    ck_assert_int_eq(await_ready(&program), program.pid);
    await_attached(program.pid, "preload_program");
    snprintf(path, sizeof path, "result/items/0/tags/tag=malloc/bytes");
    do /* the one before has joined, too, if it was given the time */
        report = report_of(program.pid);
    while (reply_number(report, path) >= 10000000);
    ck_assert_int_ge(reply_number(report, path), 1000000);
    ck_assert_int_lt(reply_number(report, path), 1200000);
    tell(&program);
    ck_assert_int_eq(end(&program), 0);
}
END_TEST

START_TEST(a_program_that_closes_all_descriptors_is_seen_again)
{
    const char *words[] = { own_program("preload_program"),
                            "blocks",
                            "1000",
                            "1000",
                            "wait",
                            "close",
                            "blocks",
                            "1000",
                            "1000",
                            "wait",
                            NULL };
    struct program program = start(at_once, words);
    const char *report;

    await_ready(&program);
    await_attached(program.pid, "preload_program");
    tell(&program);
    await_ready(&program);
    await_attached(program.pid, "preload_program"); /* by a second segment, with all counts */
    report = report_of(program.pid);
    ck_assert_msg(reply_number(report, "result/items/1/tags/tag=malloc/count") >= 2000, "%s",
                  report);
    tell(&program);
    ck_assert_int_eq(end(&program), 0);
}
END_TEST

START_TEST(a_child_keeps_what_its_parent_opened_after_it_closed_all_descriptors)
{
    const char *words[] = {
        own_program("preload_program"), "wait", "close", "fork", "wait", "fork", NULL
    };
    struct program program = start(at_once, words);

    await_ready(&program);
    await_attached(program.pid, "preload_program");
    tell(&program);
    await_ready(&program); /* the child, which came before the library could notice */
    tell(&program);
    await_ready(&program);
    await_attached(program.pid, "preload_program"); /* it has noticed */
    tell(&program);
    await_ready(&program);
    tell(&program);
    ck_assert_int_eq(end(&program), 0);
}
END_TEST

START_TEST(the_report_of_a_killed_program_is_its_last_state)
{
    const char *options[] = { "--at-once", "--sample", samples[_i], NULL };
    const char *words[] = {
        own_program("preload_program"), "wait", "blocks", "5000", "300", "wait", NULL
    };
    struct program program = start(options, words);
    int64_t bytes, count;

    await_ready(&program);
    tell(&program); /* stdin has its buffer from here on */
    await_ready(&program);
    bytes = tag_number(program.pid, "malloc", "bytes");
    count = tag_number(program.pid, "malloc", "count");
    line_client_call(&listener, "event.subscribe", "{\"types\":[\"client.left\"]}");
    ck_assert_int_eq(kill_hard(&program), -SIGKILL);
    while (!line_has(line_client_receive(&listener), "type", "\"client.left\""))
        ;
    ck_assert(line_has(report_of(program.pid), "alive", "false"));
    ck_assert_int_eq(tag_number(program.pid, "malloc", "bytes"), bytes);
    ck_assert_int_eq(tag_number(program.pid, "malloc", "count"), count);
}
END_TEST

START_TEST(a_program_runs_as_well_without_a_daemon)
{
    const char *words[] = {
        own_program("preload_program"), "every", "threads", "70", "fork", NULL
    };
    struct program program;
    char path[sizeof engine.socket_path];

    strcpy(path, engine.socket_path);
    strcpy(engine.socket_path, "/nonexistent/engine-core.sock");
    program = start(at_once, words);
    strcpy(engine.socket_path, path);
    await_ready(&program);
    tell(&program);
    ck_assert_int_eq(end(&program), 0);
}
END_TEST

START_TEST(a_program_finds_a_daemon_that_comes_later)
{
    const char *words[] = {
        own_program("preload_program"), "blocks", "1000", "1000", "wait", NULL
    };
    struct program program;
    char path[sizeof engine.socket_path];
    struct daemon_process second = { 0 };
    struct line_client late;
    const char *line;

    ck_assert(daemon_prepare(&second));
    strcpy(path, engine.socket_path);
    strcpy(engine.socket_path, second.socket_path);
    program = start(at_once, words);
    strcpy(engine.socket_path, path);
    await_ready(&program);
    ck_assert_msg(daemon_start(&second, NULL), "%s", second.why);
    ck_assert(line_client_connect(&late, second.socket_path));
    ck_assert_ptr_nonnull(line_client_hello(&late, "late"));
    line_client_call(&late, "event.subscribe", "{\"types\":[\"client.joined\"]}");
    /* It may have come before the subscription: the list says so then. */
    line = line_client_call(&late, "client.list", NULL);
    while (!line_has(line, "name", "\"preload_program\""))
        line = line_client_receive(&late);
    line_client_close(&late);
    tell(&program);
    ck_assert_int_eq(end(&program), 0);
    ck_assert_int_eq(daemon_stop(&second), 0);
}
END_TEST

START_TEST(a_program_comes_back_to_the_next_daemon_with_its_counts)
{
    const char *words[] = {
        own_program("preload_program"), "blocks", "1000", "1000", "wait", NULL
    };
    struct program program = start(at_once, words);

    await_ready(&program);
    line_client_close(&listener);
    line_client_close(&operator);
    ck_assert_int_eq(kill(engine.pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(engine.pid, NULL, 0), engine.pid);
    close(engine.pidfd);
    ck_assert_msg(daemon_start(&engine, NULL), "%s", engine.why);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    ck_assert_ptr_nonnull(line_client_hello(&operator, "operator"));
    ck_assert(line_client_connect(&listener, engine.socket_path));
    ck_assert_ptr_nonnull(line_client_hello(&listener, "listener"));
    line_client_call(&listener, "event.subscribe", "{\"types\":[\"client.joined\"]}");
    while (!line_has(report_of(program.pid), "alive", "true")) /* or else its event is to come */
        ck_assert_ptr_nonnull(line_client_receive(&listener));
    ck_assert_int_ge(tag_number(program.pid, "malloc", "count"), 1000);
    tell(&program);
    ck_assert_int_eq(end(&program), 0);
}
END_TEST

START_TEST(the_breaker_makes_it_give_back_what_the_c_library_keeps)
{
    const char *words[] = { own_program("preload_program"), "threads", "50", "wait", NULL };
    struct program program = start(at_once, words);
    const char *line;

    await_ready(&program);
    line_client_call(&operator, "breaker.trip", "{\"level\":2,\"reason\":\"test\",\"hold_s\":60}");
    do
        line = line_client_call(&operator, "breaker.get", NULL);
    while (!line_has(line, "acked_level", "2") && kill(program.pid, 0) == 0);
    ck_assert_msg(line_has(line, "acked_level", "2"), "%s", line);
    tell(&program);
    ck_assert_int_eq(end(&program), 0);
}
END_TEST

START_TEST(what_cannot_be_counted_is_refused_with_the_reason)
{
    static const struct {
        const char *words[6];
        const char *text;
    } cases[] = {
        { { "run", NULL }, "which program" },
        { { "run", "--", "/nonexistent/program", NULL }, "No such file" },
        { { "run", "--sample", "many", "--", "/bin/true", NULL }, "expected bytes up to 1TiB" },
        { { "run", "--tag", "0123456789012345678901234567890123", "/bin/true", NULL },
          "expected 1..31" },
        { { "run", "/sbin/ldconfig", NULL }, "linked statically" },
    };
    char command[4096], text[512];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        FILE *pipe;
        size_t bytes;

        snprintf(command, sizeof command, "%s/engine-ctl", getenv("EC_BIN_DIR"));
        for (size_t word = 0; cases[i].words[word] != NULL; word++) {
            strcat(command, " ");
            strcat(command, cases[i].words[word]);
        }
        strcat(command, " 2>&1");
        pipe = popen(command, "r");
        ck_assert_ptr_nonnull(pipe);
        bytes = fread(text, 1, sizeof text - 1, pipe);
        text[bytes] = '\0';
        ck_assert_int_eq(WEXITSTATUS(pclose(pipe)), 2);
        ck_assert_msg(strstr(text, cases[i].text) != NULL, "%s: %s", command, text);
    }
}
END_TEST

static Suite *preload_suite(void)
{
    Suite *suite = suite_create("preload");
    TCase *counted = tcase_create("counted");
    const int modes = sizeof samples / sizeof samples[0];

    tcase_add_checked_fixture(counted, set_up, tear_down);
    tcase_add_loop_test(counted, each_block_of_a_c_program_is_counted, 0, modes);
    tcase_add_loop_test(counted, what_a_program_does_with_its_memory_stays_right, 0, modes);
    tcase_add_test(counted, threads_leave_nothing_behind_in_the_counts);
    tcase_add_loop_test(counted, more_threads_than_there_are_rows_are_counted_to_the_block, 0,
                        modes);
    tcase_add_test(counted, what_a_library_allocated_is_its_own_also_after_it_was_unloaded);
    tcase_add_loop_test(counted, another_library_in_the_place_of_malloc_gets_each_call_too, 0, 2);
    tcase_add_loop_test(counted, a_cpp_program_is_counted, 0, modes);
    tcase_add_loop_test(counted, python_is_counted, 0, modes);
    tcase_add_loop_test(counted, a_game_server_of_the_distribution_is_counted, 0, modes);
    tcase_add_loop_test(counted, a_forked_child_counts_for_itself, 0, modes);
    tcase_add_test(counted, a_program_that_replaces_itself_begins_anew);
    tcase_add_test(counted, a_program_that_closes_all_descriptors_is_seen_again);
    tcase_add_test(counted, a_child_keeps_what_its_parent_opened_after_it_closed_all_descriptors);
    tcase_add_loop_test(counted, the_report_of_a_killed_program_is_its_last_state, 0, modes);
    tcase_add_test(counted, a_program_runs_as_well_without_a_daemon);
    tcase_add_test(counted, a_program_finds_a_daemon_that_comes_later);
    tcase_add_test(counted, a_program_comes_back_to_the_next_daemon_with_its_counts);
    tcase_add_test(counted, the_breaker_makes_it_give_back_what_the_c_library_keeps);
    tcase_add_test(counted, what_cannot_be_counted_is_refused_with_the_reason);
    suite_add_tcase(suite, counted);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(preload_suite());
    int failed;

    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
