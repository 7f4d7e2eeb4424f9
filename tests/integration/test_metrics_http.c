/* The metrics over HTTP: what a scraper gets, read by a parser of others, and what everybody else gets. */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/daemon.h"

static struct daemon_process engine;
static struct line_client client;
static struct sockaddr_in address;
static char answer[1024 * 1024];

static int listen_on(uint32_t host)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t bytes = sizeof address;

    address = (struct sockaddr_in) { .sin_family = AF_INET, .sin_addr.s_addr = htonl(host) };
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(fd, 16), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    return fd;
}

static void set_up(void)
{
    engine = (struct daemon_process) { 0 };
    ck_assert(daemon_prepare(&engine));
    engine.listen_fd = listen_on(INADDR_LOOPBACK);
    ck_assert_msg(daemon_start(&engine, NULL), "%s", engine.why);
    close(engine.listen_fd);
    ck_assert(line_client_connect(&client, engine.socket_path)); /* it listens there, too */
}

static void tear_down(void)
{
    line_client_close(&client);
    ck_assert_int_eq(daemon_stop(&engine), 0);
}

static int dial(void)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void receive_all(int fd)
{
    size_t used = 0;
    ssize_t n;

    while (used + 1 < sizeof answer && (n = read(fd, answer + used, sizeof answer - used - 1)) > 0)
        used += (size_t)n;
    answer[used] = '\0';
    close(fd);
}

/* The status of the answer, which is in answer. */
static int ask(const char *request)
{
    const int fd = dial();
    int status = 0;

    ck_assert_int_eq(write(fd, request, strlen(request)), (ssize_t)strlen(request));
    receive_all(fd);
    ck_assert_int_eq(sscanf(answer, "HTTP/1.1 %d", &status), 1);
    return status;
}

#define SCRAPE "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"

static const char *body(void)
{
    return strstr(answer, "\r\n\r\n") + 4;
}

START_TEST(a_scraper_gets_every_metric)
{
    ck_assert_int_eq(ask(SCRAPE), 200);
    ck_assert_ptr_nonnull(strstr(answer, "Content-Type: text/plain; version=0.0.4"));
    ck_assert_ptr_nonnull(strstr(body(), "# TYPE engine_core_memory_available_bytes gauge\n"
                                         "engine_core_memory_available_bytes "));
    ck_assert_ptr_nonnull(strstr(body(), "# TYPE engine_core_event_published_total counter\n"));
    ck_assert_ptr_nonnull(strstr(body(), "engine_core_clock_step_total{clock=\"physics\"} "));
    ck_assert_ptr_nonnull(strstr(body(), "engine_core_breaker_available_ratio 0."));
}
END_TEST

START_TEST(head_gets_the_length_and_no_body)
{
    ck_assert_int_eq(ask("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"), 200);
    ck_assert_ptr_nonnull(strstr(answer, "Content-Length: "));
    ck_assert_str_eq(body(), "");
}
END_TEST

START_TEST(web_pages_and_strangers_are_refused)
{
    ck_assert_int_eq(ask("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n"), 403);
    ck_assert_int_eq(ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n"), 403);
    ck_assert_int_eq(ask("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"), 405);
    ck_assert_int_eq(ask("GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n"), 404);
    ck_assert_int_eq(ask("nonsense\r\n\r\n"), 400);
    ck_assert_ptr_null(strstr(answer, "engine_core_"));
}
END_TEST

START_TEST(a_head_that_is_too_long_is_refused)
{
    char *request = malloc(10000);

    memset(request, 'x', 9999);
    memcpy(request, "GET /metrics HTTP/1.1\r\nX: ", 26);
    request[9999] = '\0';
    ck_assert_int_eq(ask(request), 431);
    free(request);
}
END_TEST

START_TEST(hosts_can_be_added_while_it_runs)
{
    const char *request = "GET /metrics HTTP/1.1\r\nHost: metrics.example:80\r\n\r\n";

    ck_assert_int_eq(ask(request), 403);
    ck_assert(strstr(line_client_call(&client, "config.set",
                                      "{\"key\":\"http.hosts\",\"value\":\"metrics.example\"}"),
                     "\"result\"") != NULL);
    ck_assert_int_eq(ask(request), 200);
    ck_assert_int_eq(ask(SCRAPE), 403);
}
END_TEST

START_TEST(those_who_say_nothing_do_not_keep_others_away)
{
    int idle[8];

    for (int i = 0; i < 7; i++)
        idle[i] = dial();
    ck_assert_int_eq(ask(SCRAPE), 200);
    for (int i = 0; i < 7; i++)
        close(idle[i]);
    for (int i = 0; i < 50; i++)
        ck_assert_int_eq(ask(SCRAPE), 200);
}
END_TEST

/* Also who has already said that it says no more. */
START_TEST(a_scraper_waits_for_a_descriptor_of_the_daemon)
{
    struct rlimit before, none = { .rlim_cur = 3 };
    int fd, status = 0;

    line_client_call(&client, "core.ping", NULL); /* it has been accepted */
    ck_assert_int_eq(prlimit(engine.pid, RLIMIT_NOFILE, NULL, &before), 0);
    none.rlim_max = before.rlim_max;
    ck_assert_int_eq(prlimit(engine.pid, RLIMIT_NOFILE, &none, NULL), 0);
    fd = dial();
    ck_assert_int_eq(write(fd, SCRAPE, strlen(SCRAPE)), (ssize_t)strlen(SCRAPE));
    ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
    ck_assert(line_has(line_client_call(&client, "core.ping", NULL), "pong", "true"));
    ck_assert_int_eq(prlimit(engine.pid, RLIMIT_NOFILE, &before, NULL), 0);
    receive_all(fd);
    ck_assert_int_eq(sscanf(answer, "HTTP/1.1 %d", &status), 1);
    ck_assert_int_eq(status, 200);
}
END_TEST

/* What strangers chose as names comes as labels. */
static void give_hostile_names(void)
{
    char params[256];

    for (int i = 0; i < 100; i++) {
        snprintf(params, sizeof params, "{\"name\":\"label.type%03d\",\"max_size\":8}", i);
        ck_assert(strstr(line_client_call(&client, "event.register", params), "\"result\"") !=
                  NULL);
    }
    ck_assert(
        strstr(line_client_call(&client, "resource.define",
                                "{\"group\":\"a\\\"b\\\\c\",\"resources\":[{\"name\":\"x\"}]}"),
               "\"result\"") != NULL);
}

START_TEST(labels_are_escaped_and_bounded)
{
    give_hostile_names();
    ck_assert_int_eq(ask(SCRAPE), 200);
    ck_assert_ptr_nonnull(strstr(body(), "event_type_published_total{type=\"other\"} "));
    ck_assert_ptr_null(strstr(body(), "label.type099"));
    ck_assert_ptr_nonnull(strstr(body(), "{group=\"a\\\"b\\\\c\",state=\"unloaded\"} 1\n"));
}
END_TEST

/* promtool where it is installed, else the Python client's parser; one of them comes with the packages of
 * the tests. */
START_TEST(a_parser_of_others_reads_it)
{
    static const char *const parsers[] = {
        "promtool check metrics",
        "/usr/bin/python3 -c 'import sys; from prometheus_client.parser import text_string_to_metric_families "
        "as read; families = list(read(sys.stdin.read())); assert len(families) > 40, families; "
        "assert all(family.documentation for family in families)'",
    };
    bool parsed = false;

    give_hostile_names();
    ck_assert_int_eq(ask(SCRAPE), 200);
    for (size_t i = 0; i < 2; i++) {
        FILE *pipe;
        int status;

        if (system(i == 0 ? "command -v promtool >/dev/null"
                          : "/usr/bin/python3 -c 'import prometheus_client' 2>/dev/null") != 0)
            continue;
        pipe = popen(parsers[i], "w");
        ck_assert_ptr_nonnull(pipe);
        fputs(body(), pipe);
        status = pclose(pipe);
        ck_assert_msg(status == 0, "%s: %d", parsers[i], WEXITSTATUS(status));
        parsed = true;
    }
    ck_assert_msg(parsed, "neither promtool nor python3-prometheus-client is installed");
}
END_TEST

START_TEST(a_socket_that_others_can_reach_is_not_used)
{
    engine = (struct daemon_process) { 0 };
    ck_assert(daemon_prepare(&engine));
    engine.listen_fd = listen_on(INADDR_ANY);
    ck_assert(!daemon_start(&engine, NULL));
    ck_assert_ptr_nonnull(strstr(engine.why, "is not used"));
    close(engine.listen_fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metrics_http");
    TCase *served = tcase_create("served"), *refused = tcase_create("refused");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(served, set_up, tear_down);
    tcase_set_timeout(served, 0);
    tcase_set_timeout(refused, 0);
    tcase_add_test(served, a_scraper_gets_every_metric);
    tcase_add_test(served, head_gets_the_length_and_no_body);
    tcase_add_test(served, web_pages_and_strangers_are_refused);
    tcase_add_test(served, a_head_that_is_too_long_is_refused);
    tcase_add_test(served, hosts_can_be_added_while_it_runs);
    tcase_add_test(served, those_who_say_nothing_do_not_keep_others_away);
    tcase_add_test(served, a_scraper_waits_for_a_descriptor_of_the_daemon);
    tcase_add_test(served, labels_are_escaped_and_bounded);
    tcase_add_test(served, a_parser_of_others_reads_it);
    tcase_add_test(refused, a_socket_that_others_can_reach_is_not_used);
    suite_add_tcase(suite, served);
    suite_add_tcase(suite, refused);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
