/* The control socket of a real daemon: who gets it, what it answers, and what it survives. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/line.h"
#include "support/daemon.h"
#include "support/json_texts.h"
#include "support/rpc_examples.h"

#define CONNECTS 10000
#define CONNECTS_FIRST 100

static struct daemon_process daemon_process;
static struct line_client client;

static void start(void)
{
    daemon_process = (struct daemon_process) { 0 };
    ck_assert_msg(daemon_start(&daemon_process, NULL), "%s", daemon_process.why);
    ck_assert(line_client_connect(&client, daemon_process.socket_path));
}

static void stop(void)
{
    line_client_close(&client);
    ck_assert_int_eq(daemon_stop(&daemon_process), 0);
}

static int listen_on(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(address.sun_path, path, strlen(path) + 1);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(fd, 16), 0);
    return fd;
}

/* A line of so many bytes, LF included, that is a request with this id. Caller frees. */
static char *long_line(size_t bytes, unsigned id)
{
    char *line = malloc(bytes + 1);
    int head;

    ck_assert_ptr_nonnull(line);
    head = snprintf(line, bytes, "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"core.ping\"", id);
    memset(line + head, ' ', bytes - (size_t)head);
    memcpy(line + bytes - 2, "}\n", 3);
    return line;
}

/* Who gets the socket. */

START_TEST(a_second_daemon_on_the_same_socket_is_refused)
{
    const char *const arguments[] = { "--socket", daemon_process.socket_path, NULL };
    char output[4096], expected[256], kept_path[256];
    struct stat st;

    /* In a file beside the socket, and no client is attached that it would be kept for. */
    ck_assert(strstr(line_client_call(&client, "resource.alias", "{\"set\":{\"a\":\"b\"}}"),
                     "\"result\"") != NULL);
    ck_assert_int_eq(daemon_run(arguments, output, sizeof output), 1);
    snprintf(expected, sizeof expected, "another engine-cored is running on %s",
             daemon_process.socket_path);
    ck_assert_msg(strstr(output, expected) != NULL, "%s", output);
    ck_assert_msg(strstr(output, "last run") == NULL, "%s", output);
    snprintf(kept_path, sizeof kept_path, "%s.paths", daemon_process.socket_path);
    ck_assert_int_eq(stat(kept_path, &st), 0);
    ck_assert(line_has(line_client_call(&client, "core.ping", NULL), "pong", "true"));
}
END_TEST

START_TEST(a_start_that_fails_leaves_what_the_last_run_left)
{
    struct daemon_process second = { 0 };
    const char *const arguments[] = { "--socket", second.socket_path,
                                      "--set",    "breaker.tick_ms=100",
                                      "--set",    "breaker.fast_tick_ms=200",
                                      NULL };
    char output[4096], kept_path[256];
    struct line_client other;
    struct pollfd ended = { .events = POLLIN };
    struct stat st;

    ck_assert_msg(daemon_start(&second, NULL), "%s", second.why);
    ended.fd = second.pidfd;
    ck_assert(line_client_connect(&other, second.socket_path));
    ck_assert(strstr(line_client_call(&other, "resource.alias", "{\"set\":{\"a\":\"b\"}}"),
                     "\"result\"") != NULL);
    line_client_close(&other);
    ck_assert_int_eq(kill(second.pid, SIGKILL), 0);
    /* A connection may hang up before the listening socket does. */
    ck_assert_int_eq(poll(&ended, 1, DAEMON_WAIT_MS), 1);
    ck_assert_int_eq(daemon_run(arguments, output, sizeof output), 1);
    ck_assert_msg(strstr(output, "breaker.fast_tick_ms") != NULL, "%s", output);
    snprintf(kept_path, sizeof kept_path, "%s.paths", second.socket_path);
    ck_assert_int_eq(stat(kept_path, &st), 0);
    ck_assert_int_ne(daemon_wait(&second), 0);
}
END_TEST

START_TEST(a_socket_of_another_program_is_not_stolen)
{
    char path[128], output[4096];
    const char *const arguments[] = { "--socket", path, NULL };
    struct line_client other;
    int fd;

    snprintf(path, sizeof path, "%s/other", daemon_process.directory);
    fd = listen_on(path);
    ck_assert_int_eq(daemon_run(arguments, output, sizeof output), 1);
    ck_assert_msg(strstr(output, "somebody else listens on") != NULL, "%s", output);
    ck_assert(line_client_connect(&other, path));
    line_client_close(&other);
    close(fd);
}
END_TEST

START_TEST(a_file_in_the_place_of_the_socket_stays_what_it_is)
{
    char path[128], output[4096];
    const char *const arguments[] = { "--socket", path, NULL };
    struct stat st;
    int fd;

    snprintf(path, sizeof path, "%s/file", daemon_process.directory);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(daemon_run(arguments, output, sizeof output), 1);
    ck_assert_msg(strstr(output, "exists and is not a socket") != NULL, "%s", output);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert(S_ISREG(st.st_mode));
}
END_TEST

START_TEST(a_path_that_does_not_fit_an_address_is_refused)
{
    char path[200], output[4096];
    const char *const arguments[] = { "--socket", path, NULL };

    memset(path, 'a', sizeof path);
    memcpy(path, "/tmp/", 5);
    path[108] = '\0';
    ck_assert_int_eq(daemon_run(arguments, output, sizeof output), 1);
    ck_assert_msg(strstr(output, "socket path has 108 bytes, allowed are 107") != NULL, "%s",
                  output);
}
END_TEST

START_TEST(a_stale_socket_is_replaced)
{
    struct daemon_process second = { 0 };
    struct line_client other;
    struct stat st;

    ck_assert(daemon_prepare(&second));
    close(listen_on(second.socket_path)); /* nobody listens there any more */
    ck_assert_int_eq(lstat(second.socket_path, &st), 0);
    ck_assert_msg(daemon_start(&second, NULL), "%s", second.why);
    ck_assert(line_client_connect(&other, second.socket_path));
    ck_assert(line_has(line_client_call(&other, "core.ping", NULL), "pong", "true"));
    line_client_close(&other);
    ck_assert_int_eq(daemon_stop(&second), 0);
}
END_TEST

START_TEST(the_socket_is_for_its_owner_only_and_goes_with_the_daemon)
{
    struct daemon_process second = { 0 };
    char lock_path[128];
    struct stat st;
    char *said;

    ck_assert_msg(daemon_start(&second, NULL), "%s", second.why);
    snprintf(lock_path, sizeof lock_path, "%s.lock", second.socket_path);
    ck_assert_int_eq(lstat(second.socket_path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
    ck_assert_int_eq(kill(second.pid, SIGTERM), 0);
    ck_assert(strstr(daemon_notification(&second), "STOPPING=1") != NULL);
    {
        struct pollfd ended = { .fd = second.pidfd, .events = POLLIN };

        ck_assert_int_eq(poll(&ended, 1, DAEMON_WAIT_MS), 1);
    }
    ck_assert_int_lt(lstat(second.socket_path, &st), 0);
    ck_assert_int_lt(lstat(lock_path, &st), 0);
    said = daemon_stderr(&second);
    ck_assert_msg(strstr(said, "[error]") == NULL, "%s", said);
    free(said);
    ck_assert_int_eq(daemon_wait(&second), 0);
}
END_TEST

START_TEST(a_socket_that_another_took_over_is_left_alone)
{
    struct daemon_process second = { 0 };
    struct stat st;
    int fd;

    ck_assert_msg(daemon_start(&second, NULL), "%s", second.why);
    ck_assert_int_eq(unlink(second.socket_path), 0);
    fd = listen_on(second.socket_path);
    ck_assert_int_eq(kill(second.pid, SIGTERM), 0);
    {
        struct pollfd ended = { .fd = second.pidfd, .events = POLLIN };

        ck_assert_int_eq(poll(&ended, 1, DAEMON_WAIT_MS), 1);
    }
    ck_assert_int_eq(lstat(second.socket_path, &st), 0);
    close(fd);
    ck_assert_int_eq(daemon_wait(&second), 0);
}
END_TEST

START_TEST(a_socket_that_is_passed_is_used_and_left_where_it_is)
{
    struct daemon_process second = { 0 };
    struct line_client other;
    char path[128];
    struct stat st;

    ck_assert(daemon_prepare(&second));
    snprintf(path, sizeof path, "%s/passed", second.directory);
    second.listen_fd = listen_on(path);
    ck_assert(line_client_connect(&other, path)); /* before anybody accepts */
    ck_assert_msg(daemon_start(&second, NULL), "%s", second.why);
    ck_assert(line_has(line_client_call(&other, "core.ping", NULL), "pong", "true"));
    ck_assert(strstr(line_client_call(&other, "core.info", NULL), path) != NULL);
    ck_assert_int_lt(lstat(second.socket_path, &st), 0);
    ck_assert_int_eq(kill(second.pid, SIGTERM), 0);
    line_client_wait_hang_up(&other);
    line_client_close(&other);
    {
        struct pollfd ended = { .fd = second.pidfd, .events = POLLIN };

        ck_assert_int_eq(poll(&ended, 1, DAEMON_WAIT_MS), 1);
    }
    ck_assert_int_eq(lstat(path, &st), 0);
    close(second.listen_fd);
    ck_assert_int_eq(daemon_wait(&second), 0);
}
END_TEST

START_TEST(the_service_manager_hears_of_start_reload_and_stop)
{
    struct daemon_process second = { 0 };
    const char *message;

    /* daemon_start() has waited for READY=1. */
    ck_assert_msg(daemon_start(&second, NULL), "%s", second.why);
    ck_assert_int_eq(kill(second.pid, SIGHUP), 0);
    message = daemon_notification(&second);
    ck_assert_ptr_nonnull(message);
    ck_assert_msg(strstr(message, "RELOADING=1\nMONOTONIC_USEC=") != NULL, "%s", message);
    message = daemon_notification(&second);
    ck_assert_ptr_nonnull(message);
    ck_assert_msg(strstr(message, "READY=1") != NULL, "%s", message);
    ck_assert_int_eq(kill(second.pid, SIGINT), 0);
    message = daemon_notification(&second);
    ck_assert_ptr_nonnull(message);
    ck_assert_msg(strstr(message, "STOPPING=1") != NULL, "%s", message);
    ck_assert_int_eq(daemon_wait(&second), 0);
}
END_TEST

START_TEST(the_watchdog_is_fed)
{
    struct daemon_process second = { 0 };
    unsigned fed = 0;

    setenv("WATCHDOG_USEC", "20000", 1);
    ck_assert_msg(daemon_start(&second, NULL), "%s", second.why);
    unsetenv("WATCHDOG_USEC");
    while (fed < 3) {
        const char *message = daemon_notification(&second);

        ck_assert_ptr_nonnull(message);
        fed += strstr(message, "WATCHDOG=1") != NULL;
    }
    ck_assert_int_eq(daemon_stop(&second), 0);
}
END_TEST

/* Arguments and configuration. */

START_TEST(wrong_usage_has_its_own_exit_code)
{
    static const char *const wrong[][3] = {
        { "--no-such-option", NULL, NULL },
        { "surplus", NULL, NULL },
        { "--print", "nothing", NULL },
        { "--socket", NULL, NULL },
    };
    char output[4096];

    ck_assert_int_eq(daemon_run(wrong[_i], output, sizeof output), 2);
    ck_assert(output[0] != '\0');
}
END_TEST

START_TEST(reference_pages_are_printed)
{
    static const char *const pages[][2] = {
        { "commands", "## core.hello" },          { "config", "| `event.stall_ms` |" },
        { "counters", "| `control.requests` |" }, { "errors", "| -32602 | `EC_ERR_PARAM` |" },
        { "events", "## client.joined" },
    };
    const char *const arguments[] = { "--print", pages[_i][0], NULL };
    static char output[262144];

    ck_assert_int_eq(daemon_run(arguments, output, sizeof output), 0);
    ck_assert_msg(strstr(output, pages[_i][1]) != NULL, "%s", output);
    ck_assert_int_eq(output[0], '#');
}
END_TEST

START_TEST(a_wrong_configuration_names_file_line_and_column)
{
    struct daemon_process second = { 0 };

    ck_assert(daemon_prepare(&second));
    ck_assert(daemon_write_config(&second, "{\n  \"control\": {\n    \"batch\": 5000\n  }\n}\n"));
    ck_assert(!daemon_start(&second, NULL));
    ck_assert_msg(strstr(second.why, "config.json:3:14: control.batch is 5000, "
                                     "allowed is 1 to 1000 requests") != NULL,
                  "%s", second.why);
}
END_TEST

START_TEST(reload_applies_what_may_change_and_nothing_of_a_wrong_file)
{
    struct daemon_process second = { 0 };
    struct line_client other;
    const char *reply;

    ck_assert(daemon_prepare(&second));
    ck_assert(daemon_write_config(&second, "{\"control.batch\":2}"));
    ck_assert_msg(daemon_start(&second, NULL), "%s", second.why);
    ck_assert(line_client_connect(&other, second.socket_path));
    ck_assert(line_client_send(&other, "[1,1,1]"));
    ck_assert(line_has(line_client_receive(&other), "code", "-32002"));

    ck_assert(daemon_write_config(&second, "{\"control.batch\":3}"));
    reply = line_client_call(&other, "core.reload", NULL);
    ck_assert_msg(line_has(reply, "changed", "[\"control.batch\"]"), "%s", reply);
    ck_assert(line_client_send(&other, "[1,1,1]"));
    ck_assert(!line_has(line_client_receive(&other), "code", "-32002"));

    ck_assert(daemon_write_config(&second, "{\"control.batch\":1,\"control.line_s\":true}"));
    reply = line_client_call(&other, "core.reload", NULL);
    ck_assert_msg(strstr(reply, "config.json:1:37: control.line_s is an integer") != NULL, "%s",
                  reply);
    ck_assert(line_has(reply, "changed", "[]"));
    ck_assert(line_client_send(&other, "[1,1,1]"));
    ck_assert(!line_has(line_client_receive(&other), "code", "-32002"));
    line_client_close(&other);
    ck_assert_int_eq(daemon_stop(&second), 0);
}
END_TEST

/* JSON-RPC 2.0: the examples of the specification, with methods that exist here. */

static bool is_blank(const struct json_text *text)
{
    for (size_t i = 0; i < text->bytes; i++)
        if (strchr(" \t\r", text->text[i]) == NULL || text->text[i] == '\0')
            return false;
    return true;
}

START_TEST(the_examples_of_json_rpc_are_answered_to_the_letter)
{
    for (size_t i = 0; i < rpc_examples_count; i++) {
        const char *missing = rpc_example_try(&client, &rpc_examples[i]);

        ck_assert_msg(missing == NULL, "%s: expected %s", rpc_examples[i].line, missing);
    }
}
END_TEST

/* A text is a line of its own: what the scanner refuses is no JSON here, and what it accepts is. */
START_TEST(each_text_is_judged_at_the_socket_as_by_the_scanner)
{
    for (size_t s = 0; s < json_text_sets_count; s++) {
        const struct json_text_set *set = &json_text_sets[s];

        for (size_t i = 0; i < set->count; i++) {
            const struct json_text *text = &set->texts[i];
            const char *reply;

            if (memchr(text->text, '\n', text->bytes) != NULL || is_blank(text))
                continue; /* several lines, or none that is answered */
            ck_assert(line_client_send_bytes(&client, text->text, text->bytes));
            ck_assert(line_client_send(&client, ""));
            reply = line_client_receive(&client);
            ck_assert_ptr_nonnull(reply);
            ck_assert_msg((strstr(reply, "\"code\":-32700,") != NULL) ==
                              (set->fault != EC_JSON_FAULT_NONE),
                          "%s: %s", text->text, reply);
        }
    }
}
END_TEST

START_TEST(a_batch_has_a_limit)
{
    static char line[120 * 64];
    char *at = line, *last = NULL;

    for (unsigned i = 0; i < 101; i++) {
        last = at;
        at += sprintf(at, "%c" RPC_PING("%u"), i == 0 ? '[' : ',', i);
    }
    strcpy(at, "]");
    ck_assert(line_client_send(&client, line));
    ck_assert(line_has(line_client_receive(&client), "code", "-32002"));
    strcpy(last, "]"); /* one less is as many as there may be */
    ck_assert(line_client_send(&client, line));
    ck_assert(strstr(line_client_receive(&client), RPC_PONG("99")) != NULL);
}
END_TEST

/* Also what only the handler can see. */
static const struct {
    const char *method, *params;
    const char *data; /* how it begins */
} wrong_params[] = {
    { "clock.scale", "{\"scale\":101}", "{\"param\":\"scale\",\"reason\":\"is 101" },
    { "telemetry.subscribe", "{\"interval_ms\":100,\"topics\":[]}",
      "{\"param\":\"topics\",\"reason\":\"topics is empty" },
    { "log.level", "{\"level\":\"loud\"}", "{\"param\":\"level\",\"reason\":\"level is loud" },
    { "config.set", "{\"key\":\"control.batch\",\"value\":1.5}",
      "{\"param\":\"value\",\"reason\":\"value: control.batch is an integer" },
    { "event.subscribe", "{\"types\":\"x\"}", "{\"param\":\"types\",\"reason\":\"types: expected" },
    { "event.subscribe", "{\"types\":\"*\",\"since\":{}}",
      "{\"param\":\"since\",\"reason\":\"since" },
    { "clock.get", "[]", "{\"reason\":\"clock.get takes its parameters by name\"}" },
};

START_TEST(a_wrong_parameter_comes_with_its_name_and_the_reason)
{
    for (size_t i = 0; i < sizeof wrong_params / sizeof wrong_params[0]; i++) {
        const char *reply =
            line_client_call(&client, wrong_params[i].method, wrong_params[i].params);
        const char *data = strstr(reply, "\"data\":");

        ck_assert(line_has(reply, "code", "-32602"));
        ck_assert_msg(data != NULL && strncmp(data + 7, wrong_params[i].data,
                                              strlen(wrong_params[i].data)) == 0,
                      "%s: %s", wrong_params[i].method, reply);
    }
}
END_TEST

START_TEST(ping_gives_back_every_byte_of_its_parameters)
{
    const char *params = "{\"a\":9223372036854775807,\"b\":-9223372036854775808,"
                         "\"c\":18446744073709551615,\"d\":[1.10,\"\\u0000\\ud83d\\ude00\",null]}";
    char expected[256];
    const char *reply = line_client_call(&client, "core.ping", params);

    snprintf(expected, sizeof expected, "\"echo\":%s}", params);
    ck_assert_msg(strstr(reply, expected) != NULL, "%s", reply);
}
END_TEST

/* The commands of the daemon itself. */

/* By default. */
static const struct {
    const char *name, *value;
} limits[] = {
    { "line_bytes", "1048576" },      { "line_s", "30" },          { "depth", "64" },
    { "request_bytes", "4194304" },   { "batch", "100" },          { "in_flight", "256" },
    { "output_bytes", "4194304" },    { "queue_bytes", "262144" }, { "connections", "128" },
    { "connections_per_user", "32" },
};

START_TEST(hello_gives_an_id_and_a_role)
{
    const char *reply = line_client_hello(&client, "tester");

    ck_assert_msg(line_has(reply, "server", "\"engine-core\""), "%s", reply);
    ck_assert(line_has(reply, "protocol", "1"));
    ck_assert(line_has(reply, "role", "\"operator\""));
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        ck_assert_msg(line_has(reply, limits[i].name, limits[i].value), "%s: %s", limits[i].name,
                      reply);
    ck_assert(strstr(reply, "\"client_id\":") != NULL);
    reply = line_client_hello(&client, "again");
    ck_assert_msg(line_has(reply, "code", "-32006"), "%s", reply);
}
END_TEST

START_TEST(hello_with_another_protocol_says_which_is_spoken)
{
    const char *reply = line_client_call(&client, "core.hello", "{\"name\":\"x\",\"protocol\":2}");

    ck_assert_msg(line_has(reply, "code", "-32004"), "%s", reply);
    ck_assert(strstr(reply, "\"data\":{\"supported\":[1]}") != NULL);
    ck_assert(line_has(line_client_hello(&client, "x"), "protocol", "1"));
}
END_TEST

START_TEST(a_lesser_role_may_do_less)
{
    const char *reply;

    reply = line_client_call(&client, "core.hello",
                             "{\"name\":\"x\",\"protocol\":1,\"role\":\"observer\"}");
    ck_assert_msg(line_has(reply, "role", "\"observer\""), "%s", reply);
    reply = line_client_call(&client, "core.shutdown", NULL);
    ck_assert_msg(line_has(reply, "code", "-32003"), "%s", reply);
    ck_assert(line_has(line_client_call(&client, "core.ping", NULL), "pong", "true"));
}
END_TEST

/* Its socket holds some ten messages, and each reload sends two. */
START_TEST(a_service_manager_that_does_not_read_holds_nobody_up)
{
    for (unsigned i = 0; i < 50; i++)
        ck_assert(line_has(line_client_call(&client, "core.reload", NULL), "errors", "[]"));
}
END_TEST

START_TEST(who_resumes_without_being_waited_for_is_a_new_client)
{
    const char *reply = line_client_call(
        &client, "core.hello",
        "{\"name\":\"x\",\"protocol\":1,\"resume\":{\"instance\":\"0x1\",\"client_id\":77}}");

    ck_assert_msg(!line_has(reply, "client_id", "77"), "%s", reply);
    ck_assert(strstr(reply, "\"client_id\":") != NULL);
    ck_assert(line_has(reply, "resumed", "false"));
}
END_TEST

START_TEST(info_tells_what_the_daemon_is)
{
    const char *reply = line_client_call(&client, "core.info", NULL);

    ck_assert_msg(line_has(reply, "breaker_level", "0"), "%s", reply);
    ck_assert(strstr(reply, daemon_process.socket_path) != NULL);
    ck_assert(strstr(reply, "\"modules\":[\"log\",\"config\",\"log_settings\",") != NULL);
    ck_assert(strstr(reply, "\"control.connections\":") != NULL);
}
END_TEST

START_TEST(discover_describes_every_method)
{
    const char *reply = line_client_call(&client, "core.discover", NULL);

    ck_assert(line_has(reply, "openrpc", "\"1.2.6\""));
    ck_assert(line_has(reply, "name", "\"core.hello\""));
    ck_assert(line_has(reply, "name", "\"breaker.reset\""));
    ck_assert(strstr(reply, "\"name\":\"hold_s\"") != NULL);
    ck_assert(strstr(reply, "\"next\":{\"type\":[\"string\",\"null\"]") != NULL);
}
END_TEST

START_TEST(shutdown_answers_and_ends_the_daemon)
{
    struct daemon_process second = { 0 };
    struct line_client other;

    ck_assert_msg(daemon_start(&second, NULL), "%s", second.why);
    ck_assert(line_client_connect(&other, second.socket_path));
    ck_assert(line_has(line_client_call(&other, "core.shutdown", NULL), "stopping", "true"));
    line_client_wait_hang_up(&other);
    line_client_close(&other);
    ck_assert_int_eq(daemon_wait(&second), 0);
}
END_TEST

/* Bytes. */

START_TEST(a_line_of_exactly_one_mebibyte_is_a_line)
{
    char *line = long_line(EC_LINE_BYTES, 5);

    ck_assert(line_client_send_bytes(&client, line, EC_LINE_BYTES));
    ck_assert(strstr(line_client_receive(&client), RPC_PONG("5")) != NULL);
    free(line);
}
END_TEST

START_TEST(a_line_of_one_byte_more_is_refused_and_the_connection_closed)
{
    char *line = long_line(EC_LINE_BYTES + 1, 5);
    const char *reply;

    ck_assert(line_client_send_bytes(&client, line, EC_LINE_BYTES + 1));
    reply = line_client_receive(&client);
    ck_assert_msg(strstr(reply, RPC_ERROR("null", "-32001")) != NULL, "%s", reply);
    ck_assert_ptr_null(line_client_receive(&client));
    free(line);
}
END_TEST

START_TEST(a_line_without_an_end_is_refused_when_it_is_too_long)
{
    const char *reply;
    char *line = malloc(8u * EC_LINE_BYTES);

    ck_assert_ptr_nonnull(line);
    memset(line, 'x', 8u * EC_LINE_BYTES);
    ck_assert(line_client_send_bytes(&client, line, 8u * EC_LINE_BYTES));
    reply = line_client_receive(&client);
    ck_assert_msg(strstr(reply, RPC_ERROR("null", "-32001")) != NULL, "%s", reply);
    ck_assert_ptr_null(line_client_receive(&client));
    free(line);
}
END_TEST

START_TEST(garbage_is_answered_line_by_line)
{
    uint32_t random = 1;
    unsigned char bytes[4096];
    unsigned lines = 0;

    for (size_t i = 0; i < sizeof bytes - 1; i++) {
        random = random * 1664525u + 1013904223u;
        bytes[i] = (unsigned char)(random >> 24);
        if (bytes[i] == '\n' || bytes[i] == '\r')
            bytes[i] = 0xFF;
        if (i % 64 == 63) { /* lines of 63 bytes, none of them blank */
            bytes[i] = '\n';
            lines++;
        }
    }
    bytes[sizeof bytes - 1] = '\n';
    lines += 1;
    ck_assert(line_client_send_bytes(&client, bytes, sizeof bytes));
    for (unsigned i = 0; i < lines; i++)
        ck_assert(line_has(line_client_receive(&client), "code", "-32700"));
    ck_assert(line_has(line_client_call(&client, "core.ping", NULL), "pong", "true"));
}
END_TEST

START_TEST(a_client_may_send_byte_by_byte)
{
    const char *lines = RPC_PING("1") "\r\n\n" RPC_PING("2") "\n";

    for (const char *at = lines; *at != '\0'; at++)
        ck_assert(line_client_send_bytes(&client, at, 1));
    ck_assert(strstr(line_client_receive(&client), RPC_PONG("1")) != NULL);
    ck_assert(strstr(line_client_receive(&client), RPC_PONG("2")) != NULL);
}
END_TEST

START_TEST(a_client_that_closes_its_side_still_gets_its_answers)
{
    ck_assert(line_client_send(&client, RPC_PING("1")));
    ck_assert(
        line_client_send_bytes(&client, RPC_PING("2"), strlen(RPC_PING("2")))); /* without LF */
    ck_assert_int_eq(shutdown(client.fd, SHUT_WR), 0);
    ck_assert(strstr(line_client_receive(&client), RPC_PONG("1")) != NULL);
    ck_assert(strstr(line_client_receive(&client), RPC_PONG("2")) != NULL);
    ck_assert_ptr_null(line_client_receive(&client));
}
END_TEST

START_TEST(http_is_hung_up_on)
{
    ck_assert(line_client_send_bytes(&client, "POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", 35));
    ck_assert(line_client_send(&client, RPC_PING("1")) || errno == EPIPE);
    ck_assert_ptr_null(line_client_receive(&client));
}
END_TEST

START_TEST(a_line_that_is_not_complete_in_time_is_refused)
{
    struct daemon_process second = { 0 };
    struct line_client other;
    const char *reply;

    ck_assert_msg(
        daemon_start(&second, (const char *const[]) { "--set", "control.line_s=1", NULL }), "%s",
        second.why);
    ck_assert(line_client_connect(&other, second.socket_path));
    ck_assert(line_client_send_bytes(&other, "{\"jsonrpc\":", 11));
    reply = line_client_receive(&other);
    ck_assert_msg(strstr(reply, RPC_ERROR("null", "-32008")) != NULL, "%s", reply);
    ck_assert_ptr_null(line_client_receive(&other));
    line_client_close(&other);
    ck_assert_int_eq(daemon_stop(&second), 0);
}
END_TEST

/* Descriptors. */

START_TEST(descriptors_are_closed_where_nobody_takes_them)
{
    const char *reply;
    unsigned before;
    int fds[2];

    line_client_call(&client, "core.ping", NULL); /* the connection is accepted and counted */
    before = process_descriptors(daemon_process.pid);
    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    ck_assert(line_client_send_fds(&client, RPC_PING("1"), fds, 2));
    reply = line_client_receive(&client);
    ck_assert_msg(strstr(reply, "core.ping takes no descriptors") != NULL, "%s", reply);
    ck_assert(line_client_send_fds(&client,
                                   "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"event.port.open\","
                                   "\"params\":{\"name\":\"a\",\"bytes\":65536}}",
                                   fds, 1));
    reply = line_client_receive(&client);
    ck_assert_msg(strstr(reply, "descriptors are taken after core.hello only") != NULL, "%s",
                  reply);
    ck_assert_uint_eq(process_descriptors(daemon_process.pid), before);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

START_TEST(more_descriptors_than_a_line_may_have_are_all_closed)
{
    int fds[EC_LINE_FDS + 1];
    const char *reply;
    unsigned before;

    ck_assert(strstr(line_client_hello(&client, "x"), "result") != NULL);
    before = process_descriptors(daemon_process.pid);
    for (unsigned i = 0; i < EC_LINE_FDS + 1; i++)
        fds[i] = STDERR_FILENO;
    ck_assert(line_client_send_fds(&client, RPC_PING("1"), fds, EC_LINE_FDS + 1));
    reply = line_client_receive(&client);
    ck_assert_msg(strstr(reply, RPC_ERROR("1", "-32600") "\"message\":\"descriptors were lost") !=
                      NULL,
                  "%s", reply);
    ck_assert_uint_eq(process_descriptors(daemon_process.pid), before);
    ck_assert(line_has(line_client_call(&client, "core.ping", NULL), "pong", "true"));
}
END_TEST

/* Many, and one that does not read. */

/* Connections that were closed are gone when the loop has turned a few times more. */
static void let_the_loop_turn(void)
{
    for (unsigned i = 0; i < 16; i++)
        ck_assert(line_has(line_client_call(&client, "core.ping", NULL), "pong", "true"));
}

static void connect_and_leave(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct line_client other;

        ck_assert(line_client_connect(&other, daemon_process.socket_path));
        if (i % 8 == 0)
            ck_assert(strstr(line_client_hello(&other, "visitor"), "result") != NULL);
        if (i % 8 == 1)
            ck_assert(line_client_send(&other, RPC_PING("1"))); /* and never read the answer */
        line_client_close(&other);
    }
    let_the_loop_turn();
}

START_TEST(ten_thousand_visitors_leave_nothing_behind)
{
    unsigned descriptors;
    long kib;

    connect_and_leave(CONNECTS_FIRST);
    descriptors = process_descriptors(daemon_process.pid);
    kib = process_resident_kib(daemon_process.pid);
    connect_and_leave(CONNECTS - CONNECTS_FIRST);
    ck_assert_uint_eq(process_descriptors(daemon_process.pid), descriptors);
    ck_assert_int_le(labs(process_resident_kib(daemon_process.pid) - kib), 1024);
}
END_TEST

START_TEST(a_connection_too_many_is_told_so)
{
    struct daemon_process second = { 0 };
    struct line_client clients[4];
    const char *reply;

    ck_assert_msg(
        daemon_start(&second, (const char *const[]) { "--set", "control.connections=3", NULL }),
        "%s", second.why);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert(line_client_connect(&clients[i], second.socket_path));
        ck_assert(line_has(line_client_call(&clients[i], "core.ping", NULL), "pong", "true"));
    }
    ck_assert(line_client_connect(&clients[3], second.socket_path));
    reply = line_client_receive(&clients[3]);
    ck_assert_msg(strstr(reply, RPC_ERROR("null", "-32002")) != NULL, "%s", reply);
    ck_assert_ptr_null(line_client_receive(&clients[3]));
    for (unsigned i = 0; i < 4; i++)
        line_client_close(&clients[i]);
    ck_assert_int_eq(daemon_stop(&second), 0);
}
END_TEST

/* Another user, whom the mode of the socket lets in. */
static void connect_as_nobody(const char *path)
{
    struct line_client other;
    const char *reply;

    if (setgid(65534) < 0 || setuid(65534) < 0 || !line_client_connect(&other, path))
        _exit(1);
    reply = line_client_receive(&other);
    if (reply == NULL || strstr(reply, RPC_ERROR("null", "-32003")) == NULL)
        _exit(2);
    _exit(line_client_receive(&other) == NULL ? 0 : 3);
}

START_TEST(a_user_without_a_right_is_told_so)
{
    pid_t child;
    int status;

    if (geteuid() != 0)
        return; /* nobody else can be played */
    ck_assert_int_eq(chmod(daemon_process.directory, 0755), 0);
    ck_assert_int_eq(chmod(daemon_process.socket_path, 0666), 0);
    child = fork();
    if (child == 0)
        connect_as_nobody(daemon_process.socket_path);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    ck_assert(strstr(line_client_call(&client, "core.info", NULL), "\"control.refused\":1") !=
              NULL);
}
END_TEST

/* Its descriptors must not take the places of stdout and stderr, to which it writes. */
START_TEST(a_daemon_may_be_started_with_everything_closed)
{
    struct daemon_process second;
    struct line_client mute_client;

    ck_assert(daemon_prepare(&second));
    second.is_mute = true;
    ck_assert_msg(daemon_start(&second, NULL), "%s", second.why);
    ck_assert(line_client_connect(&mute_client, second.socket_path));
    ck_assert(line_has(line_client_call(&mute_client, "core.ping", NULL), "pong", "true"));
    line_client_close(&mute_client);
    ck_assert_int_eq(daemon_stop(&second), 0);
}
END_TEST

START_TEST(a_daemon_without_descriptors_left_hangs_up_and_goes_on)
{
    struct daemon_process second = { 0 };
    struct rlimit limit;
    struct line_client clients[100];
    unsigned served = 0;

    ck_assert_msg(daemon_start(&second, NULL), "%s", second.why);
    ck_assert_int_eq(prlimit(second.pid, RLIMIT_NOFILE, NULL, &limit), 0);
    ck_assert_uint_eq(limit.rlim_cur, limit.rlim_max); /* it takes what it may have */
    limit.rlim_cur = 64;
    ck_assert_int_eq(prlimit(second.pid, RLIMIT_NOFILE, &limit, NULL), 0);
    for (unsigned i = 0; i < 100; i++)
        ck_assert(line_client_connect(&clients[i], second.socket_path));
    for (unsigned i = 0; i < 100; i++) {
        const char *reply;

        line_client_send(&clients[i], RPC_PING("1"));
        reply = line_client_receive(&clients[i]);
        served += reply != NULL && strstr(reply, RPC_PONG("1")) != NULL;
    }
    ck_assert_uint_gt(served, 10);
    ck_assert_uint_lt(served, 64);
    for (unsigned i = 0; i < 100; i++)
        line_client_close(&clients[i]);
    do { /* until the daemon has noticed that they are gone */
        ck_assert(line_client_connect(&clients[0], second.socket_path));
        line_client_send(&clients[0], RPC_PING("2"));
        served = line_client_receive(&clients[0]) != NULL;
        line_client_close(&clients[0]);
    } while (served == 0);
    ck_assert_int_eq(daemon_stop(&second), 0);
}
END_TEST

START_TEST(one_that_never_reads_does_not_disturb_the_others)
{
    static const char request[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"core.discover\"}\n";
    struct line_client silent, others[4];
    long kib;

    ck_assert(line_client_connect(&silent, daemon_process.socket_path));
    let_the_loop_turn();
    kib = process_resident_kib(daemon_process.pid);
    /* Until the daemon does not read from it any more and the socket is full. */
    while (send(silent.fd, request, sizeof request - 1, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        ;
    ck_assert_int_eq(errno, EAGAIN);
    for (unsigned i = 0; i < 4; i++)
        ck_assert(line_client_connect(&others[i], daemon_process.socket_path));
    for (unsigned round = 0; round < 500; round++)
        for (unsigned i = 0; i < 4; i++)
            ck_assert(line_has(line_client_call(&others[i], "core.ping", NULL), "pong", "true"));
    ck_assert_int_le(process_resident_kib(daemon_process.pid) - kib, 2048);
    /* It reads at last: what it sent is answered, in order, and the daemon reads on. */
    ck_assert(strstr(line_client_receive(&silent), "\"openrpc\"") != NULL);
    for (unsigned i = 0; i < 4; i++)
        line_client_close(&others[i]);
    line_client_close(&silent);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("control");
    TCase *of_socket = tcase_create("socket");
    TCase *of_protocol = tcase_create("protocol");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(of_socket, start, stop);
    tcase_add_test(of_socket, a_second_daemon_on_the_same_socket_is_refused);
    tcase_add_test(of_socket, a_start_that_fails_leaves_what_the_last_run_left);
    tcase_add_test(of_socket, a_socket_of_another_program_is_not_stolen);
    tcase_add_test(of_socket, a_file_in_the_place_of_the_socket_stays_what_it_is);
    tcase_add_test(of_socket, a_path_that_does_not_fit_an_address_is_refused);
    tcase_add_test(of_socket, a_stale_socket_is_replaced);
    tcase_add_test(of_socket, the_socket_is_for_its_owner_only_and_goes_with_the_daemon);
    tcase_add_test(of_socket, a_socket_that_another_took_over_is_left_alone);
    tcase_add_test(of_socket, a_socket_that_is_passed_is_used_and_left_where_it_is);
    tcase_add_test(of_socket, the_service_manager_hears_of_start_reload_and_stop);
    tcase_add_test(of_socket, the_watchdog_is_fed);
    tcase_add_loop_test(of_socket, wrong_usage_has_its_own_exit_code, 0, 4);
    tcase_add_loop_test(of_socket, reference_pages_are_printed, 0, 5);
    tcase_add_test(of_socket, a_wrong_configuration_names_file_line_and_column);
    tcase_add_test(of_socket, reload_applies_what_may_change_and_nothing_of_a_wrong_file);
    suite_add_tcase(suite, of_socket);

    tcase_add_checked_fixture(of_protocol, start, stop);
    tcase_add_test(of_protocol, the_examples_of_json_rpc_are_answered_to_the_letter);
    tcase_add_test(of_protocol, a_wrong_parameter_comes_with_its_name_and_the_reason);
    tcase_add_test(of_protocol, each_text_is_judged_at_the_socket_as_by_the_scanner);
    tcase_add_test(of_protocol, a_batch_has_a_limit);
    tcase_add_test(of_protocol, ping_gives_back_every_byte_of_its_parameters);
    tcase_add_test(of_protocol, hello_gives_an_id_and_a_role);
    tcase_add_test(of_protocol, hello_with_another_protocol_says_which_is_spoken);
    tcase_add_test(of_protocol, a_lesser_role_may_do_less);
    tcase_add_test(of_protocol, a_service_manager_that_does_not_read_holds_nobody_up);
    tcase_add_test(of_protocol, who_resumes_without_being_waited_for_is_a_new_client);
    tcase_add_test(of_protocol, info_tells_what_the_daemon_is);
    tcase_add_test(of_protocol, discover_describes_every_method);
    tcase_add_test(of_protocol, shutdown_answers_and_ends_the_daemon);
    tcase_add_test(of_protocol, a_line_of_exactly_one_mebibyte_is_a_line);
    tcase_add_test(of_protocol, a_line_of_one_byte_more_is_refused_and_the_connection_closed);
    tcase_add_test(of_protocol, a_line_without_an_end_is_refused_when_it_is_too_long);
    tcase_add_test(of_protocol, garbage_is_answered_line_by_line);
    tcase_add_test(of_protocol, a_client_may_send_byte_by_byte);
    tcase_add_test(of_protocol, a_client_that_closes_its_side_still_gets_its_answers);
    tcase_add_test(of_protocol, http_is_hung_up_on);
    tcase_add_test(of_protocol, a_line_that_is_not_complete_in_time_is_refused);
    tcase_add_test(of_protocol, descriptors_are_closed_where_nobody_takes_them);
    tcase_add_test(of_protocol, more_descriptors_than_a_line_may_have_are_all_closed);
    tcase_add_test(of_protocol, ten_thousand_visitors_leave_nothing_behind);
    tcase_add_test(of_protocol, a_connection_too_many_is_told_so);
    tcase_add_test(of_protocol, a_user_without_a_right_is_told_so);
    tcase_add_test(of_protocol, a_daemon_may_be_started_with_everything_closed);
    tcase_add_test(of_protocol, a_daemon_without_descriptors_left_hangs_up_and_goes_on);
    tcase_add_test(of_protocol, one_that_never_reads_does_not_disturb_the_others);
    suite_add_tcase(suite, of_protocol);

    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
