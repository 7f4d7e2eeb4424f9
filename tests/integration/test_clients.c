/* Clients as they come and go: attach with what a hostile or broken program might hand up, detach, and
 * die at any moment. The games here speak raw lines, so that they can do what the library never does. */
#include <check.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "foundation/real_time.h"
#include "proto/client_segment.h"
#include "proto/clock_page.h"
#include "proto/cursor_segment.h"
#include "segment/segment.h"
#include "support/daemon.h"
#include "support/reply.h"

#define POLL_LIMIT_NS (10 * EC_NS_PER_S)
#define ATTACH_PARAMS "\"fds\":[\"client\",\"cursor\",\"doorbell\"]"

static struct daemon_process engine;
static struct line_client operator;

/* A program that attaches by hand. */
struct game {
    struct line_client line;
    struct ec_segment own, cursors;
    int doorbell_fd;
};

static void set_up(void)
{
    ck_assert_msg(daemon_start(&engine, NULL), "%s", engine.why);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    ck_assert(line_has(line_client_hello(&operator, "operator"), "role", "\"operator\""));
}

static void tear_down(void)
{
    line_client_close(&operator);
    ck_assert_int_eq(daemon_stop(&engine), 0);
}

static void game_init(struct game *game, const char *name)
{
    const struct ec_segment_desc own = { .name = "client",
                                         .kind = EC_SEGMENT_CLIENT,
                                         .bytes = sizeof(struct ec_client_segment) };
    const struct ec_segment_desc cursors = { .name = "cursor",
                                             .kind = EC_SEGMENT_CURSOR,
                                             .bytes = sizeof(struct ec_cursor_segment) };
    struct ec_error why = { 0 };

    ck_assert(line_client_connect(&game->line, engine.socket_path));
    if (name != NULL)
        ck_assert(line_has(line_client_hello(&game->line, name), "protocol", "1"));
    ck_assert_msg(ec_segment_init(&game->own, &own, &why) == EC_OK, "%s", why.text);
    ck_assert_msg(ec_segment_init(&game->cursors, &cursors, &why) == EC_OK, "%s", why.text);
    game->doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static void game_finish(struct game *game)
{
    line_client_close(&game->line);
    ec_segment_finish(&game->own);
    ec_segment_finish(&game->cursors);
    close(game->doorbell_fd);
}

/* The answer to client.attach with these descriptors. */
static const char *attach_fds(struct game *game, const char *names, const int *fds, unsigned count)
{
    char line[512];
    const char *reply;

    snprintf(line, sizeof line,
             "{\"jsonrpc\":\"2.0\",\"id\":\"attach\",\"method\":\"client.attach\","
             "\"params\":{\"real_ns\":%lld,%s}}",
             (long long)ec_real_ns(), names);
    ck_assert(line_client_send_fds(&game->line, line, fds, count));
    do
        reply = line_client_receive(&game->line);
    while (reply != NULL && !line_has(reply, "id", "\"attach\""));
    ck_assert_ptr_nonnull(reply);
    return reply;
}

static const char *attach(struct game *game)
{
    const int fds[] = { game->own.fd, game->cursors.fd, game->doorbell_fd };

    return attach_fds(game, ATTACH_PARAMS, fds, 3);
}

static void attach_well(struct game *game)
{
    const char *reply = attach(game);

    ck_assert_msg(strstr(reply, "\"result\"") != NULL, "%s", reply);
}

static struct ec_client_segment *own(struct game *game)
{
    return game->own.base;
}

/* What a game that holds memory and references has in its segment. */
static void hold_something(struct game *game)
{
    struct ec_client_segment *segment = own(game);

    strcpy(segment->tags[1].name, "meshes");
    atomic_store(&segment->threads[0].tags[1].allocs, 3);
    atomic_store(&segment->threads[0].tags[1].bytes_in, 123456);
    atomic_store(&segment->pulse.frame, 77);
    atomic_store(&segment->threads_high, 1);
}

/* A process that runs fn with a game of its own, tells that it is ready and then waits for its end. */
static pid_t start_game(const char *name, void (*fn)(struct game *game))
{
    int ready[2];
    char byte;
    pid_t child;

    ck_assert_int_eq(pipe(ready), 0);
    child = fork();
    if (child == 0) {
        struct game game;

        close(ready[0]);
        game_init(&game, name);
        fn(&game);
        if (write(ready[1], "r", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    ck_assert_msg(read(ready[0], &byte, 1) == 1, "the game ended before it was ready");
    close(ready[0]);
    return child;
}

static void kill_game(pid_t pid)
{
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

/* Ask until the list does not have the name any more. */
static void wait_until_unlisted(const char *name)
{
    const int64_t deadline_ns = ec_real_ns() + POLL_LIMIT_NS;

    while (line_has(line_client_call(&operator, "client.list", NULL), "name", name))
        ck_assert_msg(ec_real_ns() < deadline_ns, "%s is still listed", name);
}

static void wait_for_notification(const char *type, const char *name)
{
    const char *line;

    do {
        line = line_client_receive(&operator);
        ck_assert_ptr_nonnull(line);
    } while (!line_has(line, "type", type) || !line_has(line, "name", name));
}

START_TEST(attach_answers_with_the_daemons_segments_read_only)
{
    static const uint32_t kinds[] = { EC_SEGMENT_CLOCK, EC_SEGMENT_DIRECTORY, EC_SEGMENT_HEAP };
    struct game game;
    const char *reply;

    game_init(&game, "game");
    reply = attach(&game);
    ck_assert_msg(line_has(reply, "clock_offset_ns", "0"), "%s", reply);
    ck_assert(line_has(reply, "layout", "\"1.0\""));
    ck_assert_uint_eq(game.line.fd_count, 3);
    for (unsigned i = 0; i < 3; i++) {
        struct ec_error why = { 0 };
        struct ec_segment_map map;

        ck_assert_msg(ec_segment_map_init(&map, game.line.fds[i], kinds[i], 4096,
                                          EC_SEGMENT_BYTES_MAX, &why) == EC_OK,
                      "%s", why.text);
        ck_assert(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, game.line.fds[i], 0) ==
                  MAP_FAILED);
        ec_segment_map_finish(&map);
        close(game.line.fds[i]);
    }
    reply = line_client_call(&operator, "client.list", NULL);
    ck_assert_msg(line_has(reply, "name", "\"game\""), "%s", reply);
    ck_assert(line_has(reply, "attached", "true"));
    game_finish(&game);
}
END_TEST

/* The answer to client.attach of a process that reads this clock. */
static void attach_at(struct game *game, int64_t real_ns, char *answer, size_t bytes)
{
    const int fds[] = { game->own.fd, game->cursors.fd, game->doorbell_fd };
    char line[512];

    snprintf(line, sizeof line,
             "{\"jsonrpc\":\"2.0\",\"id\":\"attach\",\"method\":\"client.attach\","
             "\"params\":{\"real_ns\":%lld," ATTACH_PARAMS "}}",
             (long long)real_ns);
    ck_assert(line_client_send_fds(&game->line, line, fds, 3));
    snprintf(answer, bytes, "%s", line_client_receive(&game->line));
}

START_TEST(a_late_request_of_the_same_clock_is_no_offset)
{
    struct game game;
    char answer[1024];

    game_init(&game, "slow");
    attach_at(&game, ec_real_ns() - 5 * EC_NS_PER_S, answer, sizeof answer);
    ck_assert_msg(line_has(answer, "clock_offset_ns", "0"), "%s", answer);
    game_finish(&game);
}
END_TEST

/* What no clock can show is refused, and nothing was attached: the right one is taken afterwards. */
START_TEST(a_clock_that_makes_no_sense_is_refused)
{
    struct game game;
    char answer[1024];

    game_init(&game, "odd");
    attach_at(&game, ec_real_ns() + 10 * EC_NS_PER_S, answer, sizeof answer);
    ck_assert_msg(line_has(answer, "code", "-32602"), "%s", answer);
    ck_assert_msg(strstr(answer, "though both read one clock") != NULL, "%s", answer);
    attach_at(&game, -5, answer, sizeof answer);
    ck_assert_msg(line_has(answer, "code", "-32602"), "%s", answer);
    ck_assert_msg(strstr(answer, "real_ns: is -5") != NULL, "%s", answer);
    attach_at(&game, ec_real_ns(), answer, sizeof answer);
    ck_assert_msg(line_has(answer, "clock_offset_ns", "0"), "%s", answer);
    game_finish(&game);
}
END_TEST

/* A child of a process that made a time namespace lives in it: its monotonic clock is ahead. */
static void attach_ahead(int answer_fd)
{
    struct game game;
    char answer[1024];
    FILE *offsets;

    if (unshare(CLONE_NEWTIME) < 0 || (offsets = fopen("/proc/self/timens_offsets", "w")) == NULL ||
        fputs("monotonic 100000 0", offsets) < 0 || fclose(offsets) != 0)
        _exit(0); /* not allowed, or a kernel without it: nothing is written */
    if (fork() == 0) {
        game_init(&game, "ahead");
        attach_at(&game, ec_real_ns(), answer, sizeof answer);
        if (write(answer_fd, answer, strlen(answer)) < 0)
            _exit(1);
    }
    _exit(0);
}

START_TEST(a_client_in_another_time_namespace_learns_the_offset)
{
    char answer[1024] = "";
    const char *offset;
    int answer_fds[2];
    ssize_t bytes;

    ck_assert_int_eq(pipe(answer_fds), 0);
    if (fork() == 0)
        attach_ahead(answer_fds[1]);
    close(answer_fds[1]);
    bytes = read(answer_fds[0], answer, sizeof answer - 1);
    close(answer_fds[0]);
    if (bytes == 0) /* time namespaces are not allowed here */
        return;
    offset = strstr(answer, "\"clock_offset_ns\":");
    ck_assert_msg(offset != NULL, "%s", answer);
    /* Not more than a minute from minus 100,000 s. */
    ck_assert_int_eq(atoll(offset + 18) / (100 * EC_NS_PER_S), -999);
}
END_TEST

static const struct {
    size_t offset, bytes;
    uint64_t value;
    const char *text; /* in the message */
    const char *data;
} header_cases[] = {
    { offsetof(struct ec_segment_header, magic), 8, 0x99, "magic is 0x99, expected 0x4552",
      "\"field\":\"magic\",\"expected\":\"0x45524f4345474e45\",\"got\":\"0x99\"" },
    { offsetof(struct ec_segment_header, kind), 4, 5, "kind is 5, expected 4",
      "\"field\":\"kind\",\"expected\":4,\"got\":5" },
    { offsetof(struct ec_segment_header, layout_major), 2, 7, "layout_major is 7, expected 1",
      "\"field\":\"layout_major\",\"expected\":1,\"got\":7" },
    { offsetof(struct ec_segment_header, layout_hash), 8, 0xabc,
      "layout_hash is 0xabc, expected 0x", "\"field\":\"layout_hash\"" },
    { offsetof(struct ec_segment_header, total_bytes), 8, 4096, "total_bytes is 4096, expected",
      "\"field\":\"total_bytes\"" },
};

START_TEST(a_wrong_segment_header_is_refused_with_both_values)
{
    struct game game;
    const char *reply;

    game_init(&game, "wrong");
    memcpy((char *)game.own.base + header_cases[_i].offset, &header_cases[_i].value,
           header_cases[_i].bytes);
    reply = attach(&game);
    ck_assert_msg(line_has(reply, "code", "-32012"), "%s", reply);
    ck_assert_msg(strstr(reply, header_cases[_i].text) != NULL, "%s", reply);
    ck_assert_msg(strstr(reply, header_cases[_i].data) != NULL, "%s", reply);
    ck_assert(line_has(reply, "segment", "\"client\""));
    ck_assert_uint_eq(game.line.fd_count, 0); /* nothing of the daemon's came */
    reply = line_client_call(&operator, "client.list", NULL);
    ck_assert(!line_has(reply, "attached", "true"));
    game_finish(&game);
}
END_TEST

START_TEST(a_client_that_was_refused_may_try_again)
{
    struct game game;

    game_init(&game, "game");
    ((struct ec_segment_header *)game.own.base)->layout_major = 7;
    ck_assert(line_has(attach(&game), "code", "-32012"));
    ((struct ec_segment_header *)game.own.base)->layout_major = 1;
    attach_well(&game);
    game_finish(&game);
}
END_TEST

START_TEST(attach_wants_exactly_its_three_descriptors)
{
    struct game game;
    int fds[4];

    game_init(&game, "game");
    fds[0] = game.own.fd;
    fds[1] = game.cursors.fd;
    fds[2] = fds[3] = game.doorbell_fd;
    ck_assert(line_has(attach_fds(&game, ATTACH_PARAMS, NULL, 0), "code", "-32602"));
    ck_assert(line_has(attach_fds(&game, ATTACH_PARAMS, fds, 2), "code", "-32602"));
    ck_assert(line_has(attach_fds(&game, ATTACH_PARAMS, fds, 4), "code", "-32602"));
    ck_assert(line_has(attach_fds(&game, "\"fds\":[\"client\",\"client\",\"doorbell\"]", fds, 3),
                       "code", "-32602"));
    ck_assert(
        line_has(attach_fds(&game, "\"fds\":[\"client\",\"cursor\"]", fds, 2), "code", "-32602"));
    ck_assert(line_has(attach_fds(&game, "\"fds\":[1,2,3]", fds, 3), "code", "-32602"));
    attach_well(&game);
    game_finish(&game);
}
END_TEST

START_TEST(the_parameter_says_which_descriptor_is_which)
{
    struct game game;
    const char *reply;
    int fds[3];

    game_init(&game, "game");
    fds[0] = game.doorbell_fd;
    fds[1] = game.own.fd;
    fds[2] = game.cursors.fd;
    reply = attach_fds(&game, "\"fds\":[\"doorbell\",\"client\",\"cursor\"]", fds, 3);
    ck_assert_msg(strstr(reply, "\"result\"") != NULL, "%s", reply);
    game_finish(&game);
}
END_TEST

START_TEST(a_doorbell_that_is_no_eventfd_is_refused)
{
    struct game game;
    const char *reply;
    int fds[3], pipe_fds[2];

    game_init(&game, "game");
    ck_assert_int_eq(pipe(pipe_fds), 0);
    fds[0] = game.own.fd;
    fds[1] = game.cursors.fd;
    fds[2] = pipe_fds[1];
    reply = attach_fds(&game, ATTACH_PARAMS, fds, 3);
    ck_assert_msg(line_has(reply, "code", "-32012"), "%s", reply);
    ck_assert_ptr_nonnull(strstr(reply, "eventfd"));
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    game_finish(&game);
}
END_TEST

START_TEST(attach_twice_conflicts_and_detach_allows_it_again)
{
    struct game game;

    game_init(&game, "game");
    attach_well(&game);
    ck_assert(line_has(attach(&game), "code", "-32006"));
    ck_assert(line_has(line_client_call(&game.line, "client.detach", NULL), "detached", "true"));
    ck_assert(line_has(line_client_call(&game.line, "client.detach", NULL), "code", "-32006"));
    attach_well(&game);
    game_finish(&game);
}
END_TEST

START_TEST(an_observer_may_neither_attach_nor_trip_the_breaker)
{
    struct line_client observer;
    const char *reply;

    ck_assert(line_client_connect(&observer, engine.socket_path));
    reply = line_client_call(&observer, "core.hello",
                             "{\"name\":\"tool\",\"protocol\":1,\"role\":\"observer\"}");
    ck_assert_msg(line_has(reply, "role", "\"observer\""), "%s", reply);
    reply = line_client_call(&observer, "breaker.trip", "{\"level\":3,\"reason\":\"mischief\"}");
    ck_assert_msg(line_has(reply, "code", "-32003"), "%s", reply);
    reply = line_client_call(&observer, "client.attach", "{\"real_ns\":1,\"fds\":[]}");
    ck_assert_msg(line_has(reply, "code", "-32003"), "%s", reply);
    ck_assert(line_has(line_client_call(&observer, "breaker.get", NULL), "level", "0"));
    line_client_close(&observer);
}
END_TEST

static void attach_and_hold(struct game *game)
{
    hold_something(game);
    attach_well(game);
}

START_TEST(a_killed_client_is_gone_at_once_and_its_last_memory_stays)
{
    char params[64], pid_text[32];
    const char *reply;
    pid_t pid;

    ck_assert_ptr_nonnull(strstr(
        line_client_call(&operator, "event.subscribe", "{\"types\":[\"client.left\"]}"), "result"));
    pid = start_game("victim", attach_and_hold);
    snprintf(pid_text, sizeof pid_text, "%d", (int)pid);
    snprintf(params, sizeof params, "{\"pid\":%d}", (int)pid);
    reply = line_client_call(&operator, "client.list", NULL);
    ck_assert_msg(line_has(reply, "memory_bytes", "123456"), "%s", reply);
    ck_assert(line_has(reply, "last_frame", "77"));
    ck_assert(line_has(reply, "pid", pid_text));
    reply = line_client_call(&operator, "memory.report", params);
    ck_assert_msg(line_has(reply, "alive", "true"), "%s", reply);

    kill_game(pid);
    wait_for_notification("\"client.left\"", "\"victim\"");
    wait_until_unlisted("\"victim\"");
    reply = line_client_call(&operator, "memory.report", params);
    ck_assert_msg(line_has(reply, "alive", "false"), "%s", reply);
    ck_assert(line_has(reply, "tag", "\"meshes\""));
    ck_assert(line_has(reply, "bytes", "123456"));
    ck_assert(line_has(reply, "count", "3"));
    reply = line_client_call(&operator, "client.list", "{\"closed\":true}");
    ck_assert_msg(line_has(reply, "name", "\"victim\""), "%s", reply);
}
END_TEST

/* The child of the game keeps all its descriptors open, the socket too, until the pipe is closed. */
static int keeper_pipe[2];

static void attach_and_fork(struct game *game)
{
    char byte;

    attach_well(game);
    if (fork() == 0) {
        close(keeper_pipe[1]);
        _exit(read(keeper_pipe[0], &byte, 1) == 0 ? 0 : 1);
    }
}

START_TEST(a_killed_client_is_gone_although_its_child_keeps_the_socket)
{
    pid_t pid;

    ck_assert_int_eq(pipe(keeper_pipe), 0);
    pid = start_game("parent", attach_and_fork);
    ck_assert(line_has(line_client_call(&operator, "client.list", NULL), "name", "\"parent\""));
    kill_game(pid);
    wait_until_unlisted("\"parent\"");
    ck_assert(line_has(line_client_call(&operator, "client.list", "{\"closed\":true}"), "reason",
                       "\"process ended\""));
    close(keeper_pipe[0]);
    close(keeper_pipe[1]);
}
END_TEST

START_TEST(clients_that_come_and_die_leave_no_descriptors)
{
    unsigned before = 0;

    for (int i = 0; i < 40; i++) {
        if (i == 20) /* what is kept of the last dead ones is there by now */
            before = process_descriptors(engine.pid);
        kill_game(start_game("mayfly", attach_well));
        wait_until_unlisted("\"mayfly\"");
    }
    /* A record of a death keeps one a little longer, until the parent has collected its child. */
    while (process_descriptors(engine.pid) > before) /* the test's own time-out ends this */
        line_client_call(&operator, "core.ping", NULL);
}
END_TEST

/* Make one resource that stands at index 0 of the directory. */
static void load_one_resource(void)
{
    char path[160], params[256];
    const char *reply;
    FILE *file;

    snprintf(path, sizeof path, "%s/one.bin", engine.directory);
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs("some bytes", file);
    fclose(file);
    snprintf(params, sizeof params, "{\"path\":\"%s\"}", engine.directory);
    reply = line_client_call(&operator, "resource.mount", params);
    ck_assert_msg(strstr(reply, "\"result\"") != NULL, "%s", reply);
    reply =
        line_client_call(&operator, "resource.define",
                         "{\"group\":\"g\",\"resources\":[{\"name\":\"one\",\"path\":\"one.bin\","
                         "\"kind\":\"raw\"}]}");
    ck_assert_msg(strstr(reply, "\"result\"") != NULL, "%s", reply);
    reply = line_client_call(&operator, "resource.load", "{\"group\":\"g\"}");
    ck_assert_msg(line_has(reply, "state", "\"ready\""), "%s", reply);
    unlink(path);
}

static void hold_first_resource(struct game *game)
{
    atomic_store(&own(game)->threads_high, 1);
    attach_well(game);
    atomic_store(&own(game)->hard.count[0][0], 2);
}

START_TEST(detach_gives_references_back)
{
    struct game game;
    const char *reply;

    load_one_resource();
    game_init(&game, "holder");
    hold_first_resource(&game);
    reply = line_client_call(&operator, "client.list", NULL);
    ck_assert_msg(line_has(reply, "hard_refs", "2"), "%s", reply);
    reply = line_client_call(&operator, "resource.list", NULL);
    ck_assert_msg(line_has(reply, "hard_refs", "2"), "%s", reply);
    ck_assert(line_has(line_client_call(&game.line, "client.detach", NULL), "detached", "true"));
    reply = line_client_call(&operator, "resource.list", NULL);
    ck_assert_msg(!line_has(reply, "hard_refs", "2"), "%s", reply);
    game_finish(&game);
}
END_TEST

START_TEST(references_of_a_killed_client_are_gone)
{
    const int64_t deadline_ns = ec_real_ns() + POLL_LIMIT_NS;
    pid_t pid;

    load_one_resource();
    pid = start_game("holder", hold_first_resource);
    ck_assert(line_has(line_client_call(&operator, "resource.list", NULL), "hard_refs", "2"));
    kill_game(pid);
    while (line_has(line_client_call(&operator, "resource.list", NULL), "hard_refs", "2"))
        ck_assert_msg(ec_real_ns() < deadline_ns, "the references are still counted");
}
END_TEST

START_TEST(a_hung_up_client_keeps_its_references_while_its_process_lives)
{
    struct game game;
    const char *reply;

    load_one_resource();
    game_init(&game, "holder");
    hold_first_resource(&game);
    line_client_close(&game.line);
    ck_assert(line_client_connect(&game.line, engine.socket_path)); /* accepted after the hang-up */
    line_client_call(&game.line, "core.ping", NULL);
    reply = line_client_call(&operator, "client.list", NULL);
    ck_assert_msg(line_has(reply, "state", "\"gone\""), "%s", reply);
    ck_assert(line_has(line_client_call(&operator, "resource.list", NULL), "hard_refs", "2"));
    game_finish(&game);
}
END_TEST

/* Say hello as the client that had this id. Returns whether the daemon agrees. */
static bool resume(struct line_client *line, unsigned id)
{
    char params[160];
    const char *reply;

    snprintf(
        params, sizeof params,
        "{\"name\":\"game\",\"protocol\":1,\"resume\":{\"instance\":\"0x1\",\"client_id\":%u}}",
        id);
    reply = line_client_call(line, "core.hello", params);
    ck_assert_msg(line_has(reply, "protocol", "1"), "%s", reply);
    return line_has(reply, "resumed", "true");
}

START_TEST(only_one_connection_comes_back_as_a_client)
{
    struct game game, other;
    unsigned id;

    game_init(&game, "game");
    attach_well(&game);
    id = (unsigned)reply_number(line_client_call(&operator, "client.list", NULL),
                                "result/items/name=game/client_id");
    line_client_close(&game.line);
    ck_assert(line_client_connect(&game.line, engine.socket_path)); /* accepted after the hang-up */
    game_init(&other, NULL);
    ck_assert(resume(&game.line, id));
    ck_assert(!resume(&other.line, id)); /* while the first is about to */
    attach_well(&game);
    attach_well(&other);
    line_client_close(&game.line);
    ck_assert(line_client_connect(&game.line, engine.socket_path));
    ck_assert(resume(&game.line, id)); /* it had come back, and may do so again */
    game_finish(&game);
    game_finish(&other);
}
END_TEST

START_TEST(a_game_whose_last_frame_is_old_is_called_stalled)
{
    struct game game;
    const char *reply;

    game_init(&game, "game");
    attach_well(&game);
    reply = line_client_call(&operator, "client.list", NULL);
    ck_assert_msg(!line_has(reply, "stalled", "true"), "%s", reply); /* it never had one */
    atomic_store(&own(&game)->pulse.frame_ns, ec_real_ns() - 2 * EC_NS_PER_S);
    reply = line_client_call(&operator, "client.list", NULL);
    ck_assert_msg(line_has(reply, "stalled", "true"), "%s", reply);
    atomic_store(&own(&game)->pulse.step_ns, INT64_MAX); /* a lie */
    reply = line_client_call(&operator, "client.list", NULL);
    ck_assert_msg(!line_has(reply, "stalled", "true"), "%s", reply);
    game_finish(&game);
}
END_TEST

START_TEST(lies_in_a_client_segment_do_no_harm)
{
    struct ec_client_segment *segment;
    struct game game;
    const char *reply;

    game_init(&game, "liar");
    attach_well(&game);
    segment = own(&game);
    memset((char *)segment + EC_SEGMENT_HEADER_BYTES, 0xff,
           sizeof *segment - EC_SEGMENT_HEADER_BYTES);
    ck_assert(line_has(line_client_call(&operator, "client.list", NULL), "name", "\"liar\""));
    reply = line_client_call(&operator, "memory.report", NULL);
    ck_assert_msg(line_has(reply, "name", "\"liar\""), "%.200s", reply);
    ck_assert(line_has(line_client_call(&operator, "memory.stats", NULL), "count", "1"));
    ck_assert(line_has(line_client_call(&operator, "breaker.get", NULL), "acked_level", "0"));
    ck_assert(line_has(line_client_call(&operator, "core.ping", NULL), "pong", "true"));
    game_finish(&game);
}
END_TEST

START_TEST(a_closed_connection_is_listed_with_its_reason_and_bytes)
{
    static const char request[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"core.ping\"}";
    struct line_client line;
    const char *reply;
    char bytes[32];

    ck_assert(line_client_connect(&line, engine.socket_path));
    ck_assert(line_client_send(&line, request));
    snprintf(bytes, sizeof bytes, "%zu", strlen(line_client_receive(&line)) + 1);
    line_client_close(&line);
    ck_assert(line_client_connect(&line, engine.socket_path)); /* accepted after the hang-up */
    line_client_call(&line, "core.ping", NULL);
    reply = line_client_call(&operator, "client.list", "{\"closed\":true}");
    ck_assert_msg(line_has(reply, "sent_bytes", bytes), "%s", reply);
    snprintf(bytes, sizeof bytes, "%zu", sizeof request); /* its LF for the NUL */
    ck_assert_msg(line_has(reply, "received_bytes", bytes), "%s", reply);
    ck_assert_ptr_nonnull(strstr(reply, "\"reason\":\""));
    line_client_close(&line);
}
END_TEST

START_TEST(an_unknown_client_or_process_is_named_in_the_error)
{
    const char *reply = line_client_call(&operator, "client.get", "{\"client_id\":4711}");

    ck_assert_msg(line_has(reply, "code", "-32005") && strstr(reply, "4711") != NULL, "%s", reply);
    reply = line_client_call(&operator, "memory.report", "{\"client_id\":4711}");
    ck_assert_msg(line_has(reply, "code", "-32005") && strstr(reply, "4711") != NULL, "%s", reply);
    reply = line_client_call(&operator, "memory.report", "{\"pid\":1}");
    ck_assert_msg(line_has(reply, "code", "-32005"), "%s", reply);
}
END_TEST

START_TEST(memory_stats_know_the_host_and_the_daemon)
{
    const char *reply = line_client_call(&operator, "memory.stats", NULL);

    ck_assert_msg(!line_has(reply, "total_bytes", "0"), "%s", reply);
    ck_assert(!line_has(reply, "rss_bytes", "0"));
    ck_assert_ptr_nonnull(strstr(reply, "\"source\":\""));
    ck_assert(line_has(reply, "heap_virtual_bytes", "17179869184"));
}
END_TEST

#define CASES(array) (int)(sizeof(array) / sizeof(array)[0])

int main(void)
{
    Suite *suite = suite_create("clients");
    TCase *attaching = tcase_create("attach"), *ending = tcase_create("end");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(attaching, set_up, tear_down);
    tcase_add_checked_fixture(ending, set_up, tear_down);
    tcase_add_test(attaching, attach_answers_with_the_daemons_segments_read_only);
    tcase_add_loop_test(attaching, a_wrong_segment_header_is_refused_with_both_values, 0,
                        CASES(header_cases));
    tcase_add_test(attaching, a_late_request_of_the_same_clock_is_no_offset);
    tcase_add_test(attaching, a_clock_that_makes_no_sense_is_refused);
    tcase_add_test(attaching, a_client_in_another_time_namespace_learns_the_offset);
    tcase_add_test(attaching, a_client_that_was_refused_may_try_again);
    tcase_add_test(attaching, attach_wants_exactly_its_three_descriptors);
    tcase_add_test(attaching, the_parameter_says_which_descriptor_is_which);
    tcase_add_test(attaching, a_doorbell_that_is_no_eventfd_is_refused);
    tcase_add_test(attaching, attach_twice_conflicts_and_detach_allows_it_again);
    tcase_add_test(attaching, an_observer_may_neither_attach_nor_trip_the_breaker);
    tcase_add_test(ending, a_killed_client_is_gone_at_once_and_its_last_memory_stays);
    tcase_add_test(ending, a_killed_client_is_gone_although_its_child_keeps_the_socket);
    tcase_add_test(ending, clients_that_come_and_die_leave_no_descriptors);
    tcase_add_test(ending, detach_gives_references_back);
    tcase_add_test(ending, references_of_a_killed_client_are_gone);
    tcase_add_test(ending, a_hung_up_client_keeps_its_references_while_its_process_lives);
    tcase_add_test(ending, only_one_connection_comes_back_as_a_client);
    tcase_add_test(ending, a_game_whose_last_frame_is_old_is_called_stalled);
    tcase_add_test(ending, lies_in_a_client_segment_do_no_harm);
    tcase_add_test(ending, a_closed_connection_is_listed_with_its_reason_and_bytes);
    tcase_add_test(ending, an_unknown_client_or_process_is_named_in_the_error);
    tcase_add_test(ending, memory_stats_know_the_host_and_the_daemon);
    suite_add_tcase(suite, attaching);
    suite_add_tcase(suite, ending);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
