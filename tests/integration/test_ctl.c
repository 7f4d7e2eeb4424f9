/* engine-ctl against the real daemon, as a script or a person would run it. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "foundation/json/json_scan.h"
#include "support/daemon.h"

enum { DONE, ANSWERED_ERROR, USAGE, NO_DAEMON, TIMEOUT, NOT_PERMITTED, INCOMPATIBLE };

#define ARGUMENTS_MAX 12

static struct daemon_process engine;

/* One run of engine-ctl. */
static struct {
    pid_t pid;
    int out_fd, err_fd;
    char out[65536], err[4096];
} ctl;

static void set_up(void)
{
    ck_assert_msg(daemon_start(&engine, NULL), "%s", engine.why);
}

static void tear_down(void)
{
    ck_assert_int_eq(daemon_stop(&engine), 0);
}

static void start(const char *socket_path, uid_t uid, const char *const *words)
{
    char path[4096];
    const char *argv[ARGUMENTS_MAX] = { "engine-ctl", "--socket", socket_path };
    int out[2], err[2];

    snprintf(path, sizeof path, "%s/engine-ctl", getenv("EC_BIN_DIR"));
    for (int i = 0; words[i] != NULL; i++)
        argv[3 + i] = words[i];
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(err, O_CLOEXEC), 0);
    ctl.pid = fork();
    if (ctl.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        if (uid != getuid() && setuid(uid) < 0)
            _exit(126);
        execv(path, (char *const *)(void *)argv);
        _exit(127);
    }
    close(out[1]);
    close(err[1]);
    ctl.out_fd = out[0];
    ctl.err_fd = err[0];
    ctl.out[0] = ctl.err[0] = '\0';
}

static void read_all(int fd, char *text, size_t bytes)
{
    size_t used = 0;
    ssize_t n;

    while (used + 1 < bytes && (n = read(fd, text + used, bytes - used - 1)) > 0)
        used += (size_t)n;
    text[used] = '\0';
    close(fd);
}

static int finish(void)
{
    int status;

    read_all(ctl.out_fd, ctl.out, sizeof ctl.out);
    read_all(ctl.err_fd, ctl.err, sizeof ctl.err);
    ck_assert_int_eq(waitpid(ctl.pid, &status, 0), ctl.pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int run(const char *const *words)
{
    start(engine.socket_path, getuid(), words);
    return finish();
}

#define RUN(...) run((const char *const[]) { __VA_ARGS__, NULL })

/* The next line of a run that goes on, from one of its descriptors. */
static const char *read_line_of(int fd)
{
    static char line[65536];
    size_t used = 0;

    do {
        struct pollfd readable = { .fd = fd, .events = POLLIN };

        ck_assert_uint_lt(used + 1, sizeof line);
        ck_assert_int_eq(poll(&readable, 1, DAEMON_WAIT_MS), 1);
        ck_assert_int_eq(read(fd, line + used, 1), 1);
    } while (line[used++] != '\n');
    line[used - 1] = '\0';
    return line;
}

static const char *read_line(void)
{
    return read_line_of(ctl.out_fd);
}

static bool is_json(const char *text)
{
    return ec_json_check(text, strlen(text), NULL, NULL) == EC_OK;
}

START_TEST(status_shows_one_page_without_colours_in_a_pipe)
{
    ck_assert_int_eq(RUN("status"), DONE);
    ck_assert_ptr_nonnull(strstr(ctl.out, "engine-cored "));
    ck_assert_ptr_nonnull(strstr(ctl.out, "breaker level 0 normal"));
    ck_assert_ptr_nonnull(strstr(ctl.out, "physics"));
    ck_assert_ptr_null(strchr(ctl.out, '\033'));
    ck_assert_str_eq(ctl.err, "");
}
END_TEST

/* A stranger's name may stand in lists and in the text of an error. */
START_TEST(names_of_others_cannot_drive_the_terminal)
{
    struct line_client stranger;

    ck_assert(line_client_connect(&stranger, engine.socket_path));
    line_client_hello(&stranger, "\\u001b[31mred");
    line_client_call(&stranger, "event.register", "{\"name\":\"red\",\"max_size\":3}");
    line_client_call(&stranger, "clock.checkpoint", "{\"name\":\"\\u001b[2J\"}");
    ck_assert_int_eq(RUN("clients"), DONE);
    ck_assert_ptr_nonnull(strstr(ctl.out, "?[31mred"));
    ck_assert_int_eq(RUN("clock", "get"), DONE);
    ck_assert_ptr_nonnull(strstr(ctl.out, "?[2J"));
    ck_assert_int_ne(RUN("call", "event.register", "{\"name\":\"red\",\"max_size\":4}"), DONE);
    ck_assert_ptr_nonnull(strstr(ctl.err, "?[31mred"));
    line_client_close(&stranger);
}
END_TEST

START_TEST(status_as_json_has_all_parts_in_one_line)
{
    static const char *const parts[] = { "info",   "clients",   "clock",  "events",
                                         "memory", "resources", "breaker" };

    ck_assert_int_eq(RUN("status", "--json"), DONE);
    ck_assert(is_json(ctl.out));
    ck_assert_ptr_eq(strchr(ctl.out, '\n'), ctl.out + strlen(ctl.out) - 1);
    for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char member[32];

        snprintf(member, sizeof member, "\"%s\":{", parts[i]);
        ck_assert_msg(strstr(ctl.out, member) != NULL, "%s", parts[i]);
    }
}
END_TEST

START_TEST(status_that_watches_prints_a_line_for_each_interval_until_the_daemon_goes)
{
    start(engine.socket_path, getuid(), (const char *const[]) { "status", "--watch", NULL });
    for (int i = 0; i < 2; i++) {
        const char *line = read_line();

        ck_assert_ptr_nonnull(strstr(line, "physics "));
        ck_assert_ptr_nonnull(strstr(line, " | breaker 0 normal"));
    }
    ck_assert_int_eq(daemon_stop(&engine), 0);
    ck_assert_int_eq(finish(), NO_DAEMON);
    engine = (struct daemon_process) { 0 };
    set_up(); /* for the tear-down */
}
END_TEST

static const char *const json_verbs[][3] = {
    { "clients" },           { "mem-report" },     { "events", "list" },
    { "resources", "list" }, { "breaker", "get" }, { "breaker", "reset" },
};

START_TEST(each_verb_prints_json_when_asked_to)
{
    const char *first = json_verbs[_i][0], *second = json_verbs[_i][1];

    ck_assert_int_eq(RUN(first, second != NULL ? second : "--json", "--json"), DONE);
    ck_assert_msg(is_json(ctl.out), "%s", ctl.out);
    ck_assert_int_eq(RUN(first, second), DONE);
    ck_assert_str_eq(ctl.err, "");
}
END_TEST

START_TEST(clients_lists_the_tool_itself)
{
    ck_assert_int_eq(RUN("clients"), DONE);
    ck_assert_int_eq(strncmp(ctl.out, "ID  NAME", 8), 0);
    ck_assert_ptr_nonnull(strstr(ctl.out, "engine-ctl"));
}
END_TEST

START_TEST(call_prints_the_result_to_the_last_digit)
{
    ck_assert_int_eq(RUN("call", "core.ping", "{\"n\": 18446744073709551615,\n\"t\":\"\\u0000\"}"),
                     DONE);
    ck_assert(is_json(ctl.out));
    ck_assert_ptr_nonnull(strstr(ctl.out, "18446744073709551615"));
    ck_assert_ptr_nonnull(strstr(ctl.out, "\\u0000"));
}
END_TEST

START_TEST(an_error_that_is_answered_is_exit_code_1)
{
    ck_assert_int_eq(RUN("resources", "load", "nothing"), ANSWERED_ERROR);
    ck_assert_str_eq(ctl.out, "");
    ck_assert_int_eq(strncmp(ctl.err, "engine-ctl: resource.load: ", 27), 0);
    ck_assert_int_eq(RUN("call", "no.method", "--json"), ANSWERED_ERROR);
    ck_assert_msg(is_json(ctl.err), "%s", ctl.err);
    ck_assert_ptr_nonnull(strstr(ctl.err, "\"code\":-32601"));
}
END_TEST

START_TEST(wrong_usage_is_exit_code_2)
{
    ck_assert_int_eq(RUN("breaker", "trip"), USAGE);
    ck_assert_int_eq(RUN("breaker", "trip", "4"), USAGE);
    ck_assert_int_eq(RUN("breaker", "trip", "1", "--hold", "3601"), USAGE);
    ck_assert_int_eq(RUN("breaker", "policy", "--set", "[1]"), USAGE);
    ck_assert_int_eq(RUN("breaker", "history", "--limit", "0"), USAGE);
    ck_assert_int_eq(RUN("fly"), USAGE);
    ck_assert_int_eq(RUN("call", "core.ping", "{"), USAGE);
    ck_assert_int_eq(RUN("call", "core.ping\"", "{}"), USAGE);
    ck_assert_int_eq(RUN("status", "--watch=0"), USAGE);
    ck_assert_int_eq(RUN("mem-report", "--client", "x"), USAGE);
    ck_assert_int_eq(RUN("resources", "evict", "g", "--bytes", "1"), USAGE);
    ck_assert_int_eq(RUN("resources", "evict"), USAGE);
}
END_TEST

START_TEST(no_daemon_is_exit_code_3)
{
    start("/nowhere/socket", getuid(), (const char *const[]) { "status", NULL });
    ck_assert_int_eq(finish(), NO_DAEMON);
    ck_assert_ptr_nonnull(strstr(ctl.err, "/nowhere/socket"));
}
END_TEST

START_TEST(a_daemon_that_does_not_answer_is_exit_code_4)
{
    kill(engine.pid, SIGSTOP);
    ck_assert_int_eq(RUN("--timeout", "1", "status"), TIMEOUT);
    kill(engine.pid, SIGCONT);
}
END_TEST

START_TEST(a_user_without_rights_is_exit_code_5)
{
    if (getuid() != 0)
        return; /* only root can become somebody else */
    chmod(engine.directory, 0755);
    start(engine.socket_path, 65534, (const char *const[]) { "status", NULL });
    ck_assert_int_eq(finish(), NOT_PERMITTED);
}
END_TEST

/* A daemon of another time: it speaks protocol 2 only. */
static void *refuse_version(void *context)
{
    static const char reply[] =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32004,\"message\":\"protocol 1 is not "
        "supported\",\"data\":{\"supported\":[2]}}}\n";
    int fd = accept(*(int *)context, NULL, NULL);
    char line[512];

    if (read(fd, line, sizeof line) > 0 && write(fd, reply, sizeof reply - 1) > 0)
        while (read(fd, line, sizeof line) > 0)
            ;
    close(fd);
    return NULL;
}

START_TEST(another_protocol_version_is_exit_code_6)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pthread_t peer;

    snprintf(address.sun_path, sizeof address.sun_path, "%s/other", engine.directory);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(pthread_create(&peer, NULL, refuse_version, &listener), 0);
    start(address.sun_path, getuid(), (const char *const[]) { "status", NULL });
    ck_assert_int_eq(finish(), INCOMPATIBLE);
    ck_assert_ptr_nonnull(strstr(ctl.err, "protocol 1 is not supported"));
    pthread_join(peer, NULL);
    close(listener);
    unlink(address.sun_path);
}
END_TEST

START_TEST(the_breaker_shows_its_policy_what_it_would_do_and_what_it_did)
{
    ck_assert_int_eq(RUN("breaker", "history"), DONE);
    ck_assert_str_eq(ctl.out, "no transitions so far\n");
    ck_assert_int_eq(RUN("breaker", "history", "--actions"), DONE);
    ck_assert_str_eq(ctl.out, "no actions so far\n");
    ck_assert_int_eq(RUN("breaker", "samples"), DONE);
    ck_assert_ptr_nonnull(strstr(ctl.out, "nothing was sampled"));
    ck_assert_int_eq(RUN("breaker", "samples", "--limit", "0"), USAGE);
    ck_assert_int_eq(RUN("breaker", "policy"), DONE);
    ck_assert_ptr_nonnull(strstr(ctl.out, "warning_permille           150"));
    ck_assert_int_eq(RUN("breaker", "policy", "--set", "{\"warning_permille\":160}"), DONE);
    ck_assert_ptr_nonnull(strstr(ctl.out, "warning_permille           160"));
    ck_assert_int_eq(RUN("breaker", "policy", "--set", "{\"warning_permille\":10}"), 1);
    ck_assert_ptr_nonnull(strstr(ctl.err, "breaker.warning_permille"));
    ck_assert_int_eq(
        RUN("breaker", "rehearse", "--set", "{\"warning_permille\":999,\"hysteresis_permille\":0}"),
        DONE);
    ck_assert_msg(strstr(ctl.out, "host would be at level 1") != NULL, "%s", ctl.out);
    ck_assert_int_eq(RUN("breaker", "rehearse", "--recorded"), DONE);
    ck_assert_msg(strstr(ctl.out, "readings, level 0 at the end, 0 at most") != NULL, "%s",
                  ctl.out);
    ck_assert_int_eq(RUN("breaker", "trace", "--limit", "1"), DONE);
    ck_assert_msg(strncmp(ctl.out, "[[0,", 4) == 0, "%s", ctl.out);
    ck_assert_int_eq(RUN("breaker", "rehearse", "--trace", "/nowhere"), USAGE);
    ck_assert_int_eq(RUN("breaker", "trip", "1", "--hold", "0"), DONE);
    ck_assert_int_eq(RUN("breaker", "get"), DONE);
    ck_assert_ptr_nonnull(strstr(ctl.out, "available ("));
    ck_assert_int_eq(RUN("breaker", "history", "--limit", "1"), DONE);
    ck_assert_ptr_nonnull(strstr(ctl.out, "0 > 1  manual"));
    ck_assert_int_eq(RUN("breaker", "reset"), DONE);
}
END_TEST

START_TEST(the_breaker_is_tripped_and_reset_by_hand)
{
    ck_assert_int_eq(RUN("breaker", "trip", "2"), DONE);
    ck_assert_ptr_nonnull(strstr(ctl.out, "breaker level 2 eviction"));
    ck_assert_int_eq(RUN("breaker", "get", "--json"), DONE);
    ck_assert(line_has(ctl.out, "level", "2"));
    ck_assert(line_has(ctl.out, "reason", "\"by hand\""));
    ck_assert_int_eq(RUN("breaker", "trip", "1", "--reason", "a \"test\""), DONE);
    ck_assert_int_eq(RUN("breaker", "get"), DONE);
    ck_assert_ptr_nonnull(strstr(ctl.out, "cause manual: a \"test\""));
    ck_assert_int_eq(RUN("breaker", "reset"), DONE);
    ck_assert_int_eq(RUN("breaker", "get"), DONE);
    ck_assert_ptr_nonnull(strstr(ctl.out, "breaker level 0 normal"));
}
END_TEST

START_TEST(events_are_followed_one_a_line)
{
    const char *line;

    ck_assert_int_eq(
        RUN("call", "event.register",
            "{\"name\":\"test.noted\",\"fields\":[{\"name\":\"n\",\"type\":\"u32\"}]}"),
        DONE);
    start(engine.socket_path, getuid(),
          (const char *const[]) { "events", "tail", "--type", "test.noted", NULL });
    /* Publish until the first one is seen: when the tail has subscribed is its own affair. */
    for (struct pollfd seen = { .fd = ctl.out_fd, .events = POLLIN }; poll(&seen, 1, 10) == 0;) {
        struct line_client game;

        ck_assert(line_client_connect(&game, engine.socket_path));
        line_client_hello(&game, "publisher");
        ck_assert(line_has(line_client_call(&game, "event.publish",
                                            "{\"type\":\"test.noted\",\"payload\":{\"n\":7}}"),
                           "jsonrpc", "\"2.0\""));
        line_client_close(&game);
    }
    line = read_line();
    ck_assert(is_json(line));
    ck_assert(line_has(line, "type", "\"test.noted\""));
    ck_assert(line_has(line, "n", "7"));
    kill(ctl.pid, SIGTERM);
    ck_assert_int_eq(finish(), -SIGTERM);
    ck_assert_int_eq(RUN("events", "list"), DONE);
    ck_assert_ptr_nonnull(strstr(ctl.out, "test.noted"));
}
END_TEST

static void register_noted(void)
{
    ck_assert_int_eq(
        RUN("call", "event.register",
            "{\"name\":\"test.noted\",\"fields\":[{\"name\":\"n\",\"type\":\"u64\"}]}"),
        DONE);
}

START_TEST(only_events_that_meet_all_conditions_are_printed)
{
    static const char *const payloads[] = { "{\"n\":18446744073709551614}", "{\"n\":7}",
                                            "{\"n\":18446744073709551615}" };
    struct line_client game;
    const char *line;

    register_noted();
    start(engine.socket_path, getuid(),
          (const char *const[]) { "events", "tail", "--type=test.noted", "--where", "n>7",
                                  "--where", "n!=18446744073709551614", NULL });
    ck_assert(line_client_connect(&game, engine.socket_path));
    line_client_hello(&game, "publisher");
    for (struct pollfd seen = { .fd = ctl.out_fd, .events = POLLIN }; poll(&seen, 1, 10) == 0;) {
        for (int i = 0; i < 3; i++) {
            char params[128];

            snprintf(params, sizeof params, "{\"type\":\"test.noted\",\"payload\":%s}",
                     payloads[i]);
            ck_assert_ptr_nonnull(
                strstr(line_client_call(&game, "event.publish", params), "sequence"));
        }
    }
    line_client_close(&game);
    line = read_line();
    ck_assert(is_json(line));
    ck_assert_msg(line_has(line, "n", "18446744073709551615"), "%s", line);
    kill(ctl.pid, SIGTERM);
    ck_assert_int_eq(finish(), -SIGTERM);
}
END_TEST

START_TEST(an_event_is_published_counted_and_its_fields_are_listed)
{
    register_noted();
    ck_assert_int_eq(RUN("events", "publish", "test.noted", "{\n\"n\": 18446744073709551615 }"),
                     DONE);
    ck_assert_ptr_nonnull(strstr(ctl.out, "\"sequence\":"));
    ck_assert_int_eq(RUN("events", "publish", "test.noted"), DONE);
    ck_assert_int_eq(RUN("events", "publish", "test.noted", "{\"n\":-1}"), ANSWERED_ERROR);
    ck_assert_ptr_nonnull(strstr(ctl.err, "field n"));
    ck_assert_int_eq(RUN("events", "publish", "test.none"), ANSWERED_ERROR);
    ck_assert_int_eq(RUN("events", "publish", "test.noted", "[1]"), USAGE);
    ck_assert_int_eq(RUN("events", "publish", "test.noted", "{\"n\":"), USAGE);
    ck_assert_int_eq(RUN("events", "stats", "--type", "test.noted"), DONE);
    ck_assert(is_json(ctl.out));
    ck_assert(line_has(ctl.out, "published", "2"));
    ck_assert_ptr_null(strstr(ctl.out, "client.joined"));
    ck_assert_int_eq(RUN("events", "stats", "--type", "test.none"), ANSWERED_ERROR);
    ck_assert_int_eq(RUN("events", "stats", "--watch=0"), USAGE);
    ck_assert_int_eq(RUN("events", "list", "test.noted"), DONE);
    ck_assert_ptr_nonnull(strstr(ctl.out, "OFFSET"));
    ck_assert_ptr_nonnull(strstr(ctl.out, "u64"));
    ck_assert_int_eq(RUN("--json", "events", "list", "test.noted"), DONE);
    ck_assert_ptr_nonnull(strstr(ctl.out, "\"fields\""));
}
END_TEST

START_TEST(statistics_are_shown_again_and_again)
{
    register_noted();
    start(engine.socket_path, getuid(),
          (const char *const[]) { "events", "stats", "--watch", "--type", "test.noted", NULL });
    for (int i = 0; i < 2; i++)
        ck_assert(line_has(read_line(), "published", "0"));
    kill(ctl.pid, SIGTERM);
    ck_assert_int_eq(finish(), -SIGTERM);
}
END_TEST

START_TEST(a_condition_or_a_rate_that_makes_no_sense_is_a_usage_error)
{
    register_noted();
    ck_assert_int_eq(RUN("events", "tail", "--where", "n"), USAGE);
    ck_assert_ptr_nonnull(strstr(ctl.err, "FIELD=VALUE"));
    ck_assert_int_eq(RUN("events", "tail", "--where", "n>>1"), USAGE);
    ck_assert_int_eq(RUN("events", "tail", "--type", "test.noted", "--where", "m=1"), USAGE);
    ck_assert_ptr_nonnull(strstr(ctl.err, "type test.noted has no field m, did you mean n?"));
    ck_assert_int_eq(RUN("events", "tail", "--type", "test.noted", "--where", "n=some"), USAGE);
    ck_assert_ptr_nonnull(strstr(ctl.err, "field n of type test.noted is a number"));
    ck_assert_int_eq(RUN("events", "tail", "--type", "test.none", "--where", "n=1"),
                     ANSWERED_ERROR);
    ck_assert_ptr_nonnull(strstr(ctl.err, "test.none is not registered"));
    ck_assert_int_eq(RUN("events", "tail", "--max-rate", "0"), USAGE);
    ck_assert_int_eq(RUN("events", "tail", "--max-rate", "fast"), USAGE);
}
END_TEST

START_TEST(a_condition_that_no_registered_type_meets_waits_and_says_so)
{
    register_noted();
    start(engine.socket_path, getuid(),
          (const char *const[]) { "events", "tail", "--where", "colour=1", NULL });
    ck_assert_ptr_nonnull(strstr(read_line_of(ctl.err_fd), "waiting for one"));
    kill(ctl.pid, SIGTERM);
    ck_assert_int_eq(finish(), -SIGTERM);
}
END_TEST

START_TEST(resources_are_mounted_loaded_listed_and_evicted)
{
    char content[128], file[160], dumped[160], line[32] = "";
    FILE *written;

    snprintf(dumped, sizeof dumped, "%s/dumped", engine.directory);
    snprintf(content, sizeof content, "%s/content", engine.directory);
    snprintf(file, sizeof file, "%s/note.txt", content);
    ck_assert_int_eq(mkdir(content, 0755), 0);
    written = fopen(file, "we");
    fputs("hello", written);
    fclose(written);
    ck_assert_int_eq(RUN("resources", "mount", content), DONE);
    ck_assert_ptr_nonnull(strstr(ctl.out, content));
    ck_assert_int_eq(
        RUN("call", "resource.define",
            "{\"group\":\"notes\",\"resources\":[{\"name\":\"note.txt\",\"kind\":\"raw\"}]}"),
        DONE);
    ck_assert_int_eq(RUN("resources", "load", "notes"), DONE);
    ck_assert_str_eq(ctl.out, "notes is ready: 1 of 1 resources, 4.0 KiB\n");
    ck_assert_int_eq(RUN("resources", "list"), DONE);
    ck_assert_ptr_nonnull(strstr(ctl.out, "note.txt"));
    ck_assert_int_eq(RUN("resources", "get", "note.txt"), DONE);
    ck_assert_ptr_nonnull(strstr(ctl.out, "class         auto"));
    ck_assert_int_eq(RUN("resources", "dump", "note.txt", dumped), DONE);
    written = fopen(dumped, "re");
    ck_assert_ptr_nonnull(fgets(line, sizeof line, written));
    fclose(written);
    ck_assert_str_eq(line, "hello");
    ck_assert_int_eq(RUN("resources", "dump", "nobody", dumped), ANSWERED_ERROR);
    ck_assert_ptr_nonnull(strstr(ctl.err, "nobody is not defined"));
    ck_assert_int_eq(RUN("resources", "pin", "notes"), DONE);
    ck_assert_str_eq(ctl.out, "notes is pinned\n");
    ck_assert_int_eq(RUN("resources", "evict", "notes"), DONE);
    ck_assert_ptr_nonnull(strstr(ctl.out, "0 resources evicted, 1 kept"));
    ck_assert_int_eq(RUN("resources", "pin", "notes", "--off"), DONE);
    ck_assert_str_eq(ctl.out, "notes is auto\n");
    ck_assert_int_eq(RUN("resources", "evict", "notes"), DONE);
    ck_assert_ptr_nonnull(strstr(ctl.out, "1 resources evicted, 0 kept"));
    ck_assert_int_eq(RUN("resources", "list", "--json"), DONE);
    ck_assert(line_has(ctl.out, "state", "\"evicted\""));
    ck_assert_int_eq(RUN("resources", "dump", "note.txt", dumped), ANSWERED_ERROR);
    ck_assert_ptr_nonnull(strstr(ctl.err, "is evicted"));
    ck_assert_int_eq(RUN("resources", "request", "note.txt"), DONE);
    ck_assert_str_eq(ctl.out, "note.txt is ready, 4.0 KiB\n");
    ck_assert_int_eq(RUN("resources", "unload", "notes"), DONE);
    ck_assert_str_eq(ctl.out, "notes is unloaded\n");
    ck_assert_int_eq(RUN("resources", "undefine", "notes"), DONE);
    written = fopen(dumped, "we");
    fputs("{\"group\":\"again\",\"resources\":[{\"name\":\"note.txt\"}]}", written);
    fclose(written);
    ck_assert_int_eq(RUN("resources", "define", dumped), DONE);
    ck_assert_str_eq(ctl.out, "1 groups with 1 resources are defined\n");
    unlink(file);
    rmdir(content);
}
END_TEST

/* What makes a stream say something that would else be silent. */
static void change_level(void)
{
    struct line_client operator;

    ck_assert(line_client_connect(&operator, engine.socket_path));
    line_client_call(&operator, "breaker.trip", "{\"level\":1,\"reason\":\"a test\"}");
    ck_assert(line_has(line_client_call(&operator, "breaker.reset", NULL), "level", "0"));
    line_client_close(&operator);
}

static void make_groups(void)
{
    static unsigned number;
    char content[128], params[256];
    struct line_client loader;
    FILE *written;

    snprintf(content, sizeof content, "%s/stream", engine.directory);
    written = fopen(content, "we");
    ck_assert_ptr_nonnull(written);
    fclose(written);
    ck_assert(line_client_connect(&loader, engine.socket_path));
    snprintf(params, sizeof params, "{\"path\":\"%s\"}", engine.directory);
    ck_assert_ptr_nonnull(strstr(line_client_call(&loader, "resource.mount", params), "result"));
    for (int i = 0; i < 2; i++) {
        snprintf(params, sizeof params,
                 "{\"group\":\"g%u\",\"resources\":[{\"name\":\"r%u\",\"path\":\"stream\"}]}",
                 number, number);
        ck_assert_ptr_nonnull(
            strstr(line_client_call(&loader, "resource.define", params), "result"));
        snprintf(params, sizeof params, "{\"group\":\"g%u\"}", number++);
        line_client_call(&loader, "resource.load", params); /* the file is empty: it may fail */
    }
    line_client_close(&loader);
    unlink(content);
}

static const struct {
    const char *words[7];
    void (*trigger)(void);
} streams[] = {
    { { "events", "tail", "--type", "breaker.level" }, change_level },
    { { "events", "stats", "--watch" }, NULL },
    { { "resources", "watch" }, make_groups },
    { { "log", "tail" }, NULL },
    { { "telemetry", "tail", "--interval", "50ms" }, NULL },
    { { "telemetry", "tail", "clock", "--interval", "50ms" }, NULL },
    { { "timer", "arm", "20ms", "--every", "20ms" }, NULL },
    { { "mem-report", "--watch" }, NULL },
    { { "status", "--watch", "--json" }, NULL },
    { { "top", "--interval", "100ms" }, NULL },
};

/* The subscription is there when the tool is a client, and a stream that comes before is as good. */
static void await_tool(void)
{
    struct line_client watcher;
    bool found = false;

    ck_assert(line_client_connect(&watcher, engine.socket_path));
    while (!found)
        found = line_has(line_client_call(&watcher, "client.list", NULL), "name", "\"engine-ctl\"");
    line_client_close(&watcher);
}

START_TEST(each_stream_is_lines_of_json_in_a_pipe)
{
    int status;

    start(engine.socket_path, getuid(), streams[_i].words);
    await_tool();
    for (int lines = 0; lines < 2; lines++) {
        struct pollfd readable = { .fd = ctl.out_fd, .events = POLLIN };

        /* It may have come before the subscription: once more, until one comes behind it. */
        while (streams[_i].trigger != NULL && poll(&readable, 1, 20) == 0)
            streams[_i].trigger();
        ck_assert(is_json(read_line()));
    }
    kill(ctl.pid, SIGTERM);
    status = finish();
    ck_assert_msg(status == DONE || status == -SIGTERM, "%d: %s", status, ctl.err);
}
END_TEST

/* A short output fails when it is flushed, a long one before, and a closed one must not be written to
 * the socket, which would have its number. */
static const char *const unwritable[] = { "clients >/dev/full", "call core.discover >/dev/full",
                                          "clients >&-" };

START_TEST(output_that_cannot_be_written_is_an_error)
{
    char command[4096];

    if (access("/dev/full", W_OK) < 0)
        return;
    snprintf(command, sizeof command, "%s/engine-ctl --socket %s %s", getenv("EC_BIN_DIR"),
             engine.socket_path, unwritable[_i]);
    ck_assert_int_eq(WEXITSTATUS(system(command)), ANSWERED_ERROR);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine-ctl");
    TCase *tests = tcase_create("engine-ctl");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, status_shows_one_page_without_colours_in_a_pipe);
    tcase_add_test(tests, names_of_others_cannot_drive_the_terminal);
    tcase_add_test(tests, status_as_json_has_all_parts_in_one_line);
    tcase_add_test(tests,
                   status_that_watches_prints_a_line_for_each_interval_until_the_daemon_goes);
    tcase_add_loop_test(tests, each_verb_prints_json_when_asked_to, 0,
                        sizeof json_verbs / sizeof json_verbs[0]);
    tcase_add_test(tests, clients_lists_the_tool_itself);
    tcase_add_test(tests, call_prints_the_result_to_the_last_digit);
    tcase_add_test(tests, an_error_that_is_answered_is_exit_code_1);
    tcase_add_test(tests, wrong_usage_is_exit_code_2);
    tcase_add_test(tests, no_daemon_is_exit_code_3);
    tcase_add_test(tests, a_daemon_that_does_not_answer_is_exit_code_4);
    tcase_add_test(tests, a_user_without_rights_is_exit_code_5);
    tcase_add_test(tests, another_protocol_version_is_exit_code_6);
    tcase_add_test(tests, the_breaker_shows_its_policy_what_it_would_do_and_what_it_did);
    tcase_add_test(tests, the_breaker_is_tripped_and_reset_by_hand);
    tcase_add_test(tests, events_are_followed_one_a_line);
    tcase_add_test(tests, only_events_that_meet_all_conditions_are_printed);
    tcase_add_test(tests, an_event_is_published_counted_and_its_fields_are_listed);
    tcase_add_test(tests, statistics_are_shown_again_and_again);
    tcase_add_test(tests, a_condition_or_a_rate_that_makes_no_sense_is_a_usage_error);
    tcase_add_test(tests, a_condition_that_no_registered_type_meets_waits_and_says_so);
    tcase_add_test(tests, resources_are_mounted_loaded_listed_and_evicted);
    tcase_add_loop_test(tests, each_stream_is_lines_of_json_in_a_pipe, 0,
                        sizeof streams / sizeof streams[0]);
    tcase_add_loop_test(tests, output_that_cannot_be_written_is_an_error, 0, 3);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
