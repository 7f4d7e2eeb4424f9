/* Calls, answers and notifications against a daemon that says what the test wants. */
#include "client/connection.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define TIMEOUT_MS 60000 /* of what is expected to answer */
#define SHORT_MS 20      /* of what is expected not to */

static char directory[] = "/tmp/ec-connection-XXXXXX", path[64];
static int listener = -1;
static FILE *peer; /* the daemon's end */
static struct ec_connection *connection;
static struct ec_error why;
static _Atomic int hang_ups;

static void count_hang_up(void *context)
{
    (void)context;
    atomic_fetch_add(&hang_ups, 1);
}

static void open_listener(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    strcpy(directory, "/tmp/ec-connection-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/socket", directory);
    strcpy(address.sun_path, path);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(listener, 8), 0);
    why = (struct ec_error) { 0 };
    atomic_store(&hang_ups, 0);
}

static void close_listener(void)
{
    ec_connection_destroy(connection);
    connection = NULL;
    if (peer != NULL)
        fclose(peer);
    peer = NULL;
    close(listener);
    unlink(path);
    rmdir(directory);
}

static void connect_with(uint32_t timeout_ms)
{
    const struct ec_connection_desc desc = { .socket_path = path,
                                             .timeout_ms = timeout_ms,
                                             .on_hang_up = count_hang_up };
    int rc = ec_connection_create(&desc, &connection, &why);

    ck_assert_msg(rc == EC_OK, "%s", why.text);
    peer = fdopen(accept(listener, NULL, NULL), "r+");
    ck_assert_ptr_nonnull(peer);
    setvbuf(peer, NULL, _IONBF, 0);
}

static void start(void)
{
    ck_assert_msg(ec_connection_start(connection, &why) == EC_OK, "%s", why.text);
}

/* The daemon's end: read one request, return its id. */
static unsigned long read_request(char *line, size_t bytes)
{
    const char *id;

    ck_assert_ptr_nonnull(fgets(line, (int)bytes, peer));
    id = strstr(line, "\"id\":");
    ck_assert_ptr_nonnull(id);
    return strtoul(id + 5, NULL, 10);
}

/* A call on a thread of its own. */
struct caller {
    pthread_t thread;
    struct ec_call call;
    struct ec_error why;
    int rc;
};

static void *run_caller(void *context)
{
    struct caller *caller = context;

    caller->rc = ec_connection_call(connection, &caller->call, &caller->why);
    return NULL;
}

static void begin_call(struct caller *caller, const char *method, const char *params)
{
    *caller = (struct caller) { .call = { .method = method, .params = params } };
    ck_assert_int_eq(pthread_create(&caller->thread, NULL, run_caller, caller), 0);
}

static int end_call(struct caller *caller)
{
    ck_assert_int_eq(pthread_join(caller->thread, NULL), 0);
    return caller->rc;
}

static void expect_result(const struct caller *caller, const char *text)
{
    ck_assert_uint_eq(caller->call.result.bytes, strlen(text));
    ck_assert_int_eq(memcmp(caller->call.result.text, text, strlen(text)), 0);
}

START_TEST(a_path_that_does_not_fit_is_refused)
{
    char longer[EC_SOCKET_PATH_BYTES + 2];
    struct ec_connection_desc desc = { .socket_path = longer, .timeout_ms = TIMEOUT_MS };

    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    ck_assert_int_eq(ec_connection_create(&desc, &connection, &why), EC_ERR_PARAM);
    ck_assert_ptr_nonnull(strstr(why.text, "108 bytes, the limit is 107"));
    longer[sizeof longer - 2] = '\0';
    ck_assert_int_eq(ec_connection_create(&desc, &connection, &why), EC_ERR_DISCONNECTED);
}
END_TEST

START_TEST(nobody_listening_is_said_with_the_path)
{
    struct ec_connection_desc desc = { .socket_path = path, .timeout_ms = TIMEOUT_MS };

    close(listener);
    ck_assert_int_eq(ec_connection_create(&desc, &connection, &why), EC_ERR_DISCONNECTED);
    ck_assert_ptr_nonnull(strstr(why.text, path));
    ck_assert_ptr_nonnull(strstr(why.text, strerror(ECONNREFUSED)));
}
END_TEST

/* The tests that take _i run with a service thread (1) and without (0). */
START_TEST(an_answer_comes_back_to_its_call)
{
    struct caller caller;
    char line[256];
    unsigned long id;

    connect_with(TIMEOUT_MS);
    if (_i == 1)
        start();
    begin_call(&caller, "core.ping", "{\"a\":\n[1,2]}");
    id = read_request(line, sizeof line);
    ck_assert_ptr_nonnull(strstr(line, "\"jsonrpc\":\"2.0\""));
    ck_assert_ptr_nonnull(strstr(line, "\"method\":\"core.ping\",\"params\":{\"a\": [1,2]}}"));
    fprintf(peer, "{\"jsonrpc\":\"2.0\",\"id\":%lu,\"result\": {\"pong\":true} }\n", id);
    ck_assert_msg(end_call(&caller) == EC_OK, "%s", caller.why.text);
    expect_result(&caller, "{\"pong\":true}");
    ec_call_finish(&caller.call);
}
END_TEST

START_TEST(answers_in_any_order_find_their_calls)
{
    enum { CALLS = 16 };
    struct caller callers[CALLS];
    unsigned long ids[CALLS];
    unsigned numbers[CALLS];
    char params[CALLS][32], line[256], expected[16];

    connect_with(TIMEOUT_MS);
    if (_i == 1)
        start();
    for (unsigned i = 0; i < CALLS; i++) {
        snprintf(params[i], sizeof params[i], "{\"n\":%u}", i);
        begin_call(&callers[i], "core.ping", params[i]);
    }
    for (unsigned i = 0; i < CALLS; i++) {
        ids[i] = read_request(line, sizeof line);
        ck_assert_int_eq(sscanf(strstr(line, "\"n\":"), "\"n\":%u", &numbers[i]), 1);
    }
    for (unsigned i = CALLS; i-- > 0;)
        fprintf(peer, "{\"jsonrpc\":\"2.0\",\"id\":%lu,\"result\":%u}\n", ids[i], numbers[i]);
    for (unsigned i = 0; i < CALLS; i++) {
        ck_assert_msg(end_call(&callers[i]) == EC_OK, "%s", callers[i].why.text);
        snprintf(expected, sizeof expected, "%u", i);
        expect_result(&callers[i], expected);
        ec_call_finish(&callers[i].call);
    }
}
END_TEST

START_TEST(an_error_keeps_its_code_and_message)
{
    struct caller caller;
    char line[256];
    unsigned long id;

    connect_with(TIMEOUT_MS);
    start();
    begin_call(&caller, "breaker.trip", "{}");
    id = read_request(line, sizeof line);
    fprintf(peer,
            "{\"jsonrpc\":\"2.0\",\"id\":%lu,\"error\":{\"code\":-32602,\"message\":\"level is "
            "missing\",\"data\":{\"param\":\"level\"}}}\n",
            id);
    ck_assert_int_eq(end_call(&caller), EC_ERR_PARAM);
    ck_assert_str_eq(caller.why.text, "breaker.trip: level is missing");
    ec_call_finish(&caller.call);
}
END_TEST

START_TEST(an_error_without_a_code_is_not_taken_for_success)
{
    struct caller caller;
    char line[256];
    unsigned long id;

    connect_with(TIMEOUT_MS);
    start();
    begin_call(&caller, "core.ping", NULL);
    id = read_request(line, sizeof line);
    fprintf(peer, "{\"jsonrpc\":\"2.0\",\"id\":%lu,\"error\":{\"code\":0}}\n", id);
    ck_assert_int_eq(end_call(&caller), EC_ERR_INTERNAL);
    ec_call_finish(&caller.call);
}
END_TEST

START_TEST(params_that_are_not_json_are_refused_and_not_sent)
{
    static const char *const wrong[] = { "{", "17", "{} {}", "" };
    struct ec_call call = { .method = "core.ping", .params = wrong[_i] };
    struct pollfd sent;

    connect_with(TIMEOUT_MS);
    ck_assert_int_eq(ec_connection_call(connection, &call, &why), EC_ERR_PARAM);
    ec_call_finish(&call);
    sent = (struct pollfd) { .fd = fileno(peer), .events = POLLIN };
    ck_assert_int_eq(poll(&sent, 1, 0), 0);
}
END_TEST

START_TEST(a_request_over_the_line_limit_is_refused)
{
    char *params = malloc(EC_LINE_BYTES + 16);
    struct ec_call call = { .method = "core.ping", .params = params };

    connect_with(TIMEOUT_MS);
    memset(params, 'x', EC_LINE_BYTES + 4);
    memcpy(params, "[\"", 2);
    strcpy(params + EC_LINE_BYTES, "\"]");
    ck_assert_int_eq(ec_connection_call(connection, &call, &why), EC_ERR_SIZE);
    ec_call_finish(&call);
    free(params);
}
END_TEST

START_TEST(all_waiting_calls_fail_when_the_daemon_hangs_up)
{
    struct caller callers[3];
    struct ec_call call = { .method = "core.ping" };
    char line[256];

    connect_with(TIMEOUT_MS);
    if (_i == 1)
        start();
    for (unsigned i = 0; i < 3; i++)
        begin_call(&callers[i], "core.ping", NULL);
    for (unsigned i = 0; i < 3; i++)
        read_request(line, sizeof line);
    fclose(peer);
    peer = NULL;
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(end_call(&callers[i]), EC_ERR_DISCONNECTED);
        ck_assert_str_eq(callers[i].why.text, "core.ping: the daemon hung up");
        ec_call_finish(&callers[i].call);
    }
    ck_assert(!ec_connection_is_open(connection));
    ck_assert_int_eq(ec_connection_call(connection, &call, &why), EC_ERR_DISCONNECTED);
    ec_connection_destroy(connection); /* joins the thread that tells of it */
    connection = NULL;
    ck_assert_int_eq(atomic_load(&hang_ups), 1);
}
END_TEST

START_TEST(a_line_that_is_not_json_ends_the_connection)
{
    struct caller caller;
    char line[256];

    connect_with(TIMEOUT_MS);
    start();
    begin_call(&caller, "core.ping", NULL);
    read_request(line, sizeof line);
    fputs("{\"id\":1,\"id\":2}\n", peer);
    ck_assert_int_eq(end_call(&caller), EC_ERR_DISCONNECTED);
    ck_assert_ptr_nonnull(strstr(caller.why.text, "the daemon sent a bad line"));
    ck_assert_ptr_null(fgets(line, sizeof line, peer)); /* and the daemon notices */
    ec_call_finish(&caller.call);
}
END_TEST

struct news {
    unsigned count;
    char params[64];
    int fd;
};

static void on_news(void *context, struct ec_json_span params, int *fds, unsigned fd_count)
{
    struct news *news = context;

    news->count++;
    snprintf(news->params, sizeof news->params, "%.*s", (int)params.bytes, params.text);
    if (fd_count > 0) {
        news->fd = fds[0];
        fds[0] = -1;
    }
}

static void send_with_descriptor(const char *text, int fd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof fd)];
    } control = { .align = { .cmsg_level = SOL_SOCKET,
                             .cmsg_type = SCM_RIGHTS,
                             .cmsg_len = CMSG_LEN(sizeof fd) } };
    struct iovec data = { .iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text) };
    struct msghdr message = { .msg_iov = &data,
                              .msg_iovlen = 1,
                              .msg_control = control.bytes,
                              .msg_controllen = sizeof control.bytes };

    memcpy(CMSG_DATA(&control.align), &fd, sizeof fd);
    ck_assert_int_eq(sendmsg(fileno(peer), &message, 0), (ssize_t)strlen(text));
}

START_TEST(a_notification_goes_to_its_handler_with_its_descriptors)
{
    struct news news = { .fd = -1 };

    connect_with(TIMEOUT_MS);
    ck_assert_int_eq(ec_connection_on(connection, "event.port.added", on_news, &news), EC_OK);
    ck_assert_int_eq(ec_connection_dispatch(connection), EC_AGAIN);
    fputs("{\"jsonrpc\":\"2.0\",\"method\":\"something.else\",\"params\":{}}\n", peer);
    send_with_descriptor(
        "{\"jsonrpc\":\"2.0\",\"method\":\"event.port.added\",\"params\":{\"port_id\":3}}\n",
        fileno(peer));
    ck_assert_int_eq(ec_connection_dispatch(connection), EC_OK);
    ck_assert_uint_eq(news.count, 1);
    ck_assert_str_eq(news.params, "{\"port_id\":3}");
    ck_assert_int_eq(fcntl(news.fd, F_GETFD), FD_CLOEXEC);
    close(news.fd);
}
END_TEST

START_TEST(no_answer_in_time_is_an_error_and_a_late_one_harms_nobody)
{
    struct ec_call call = { .method = "core.ping" };
    char line[256], reply[128], byte;
    unsigned long late;
    int ends[2];

    connect_with(SHORT_MS);
    ck_assert_int_eq(ec_connection_call(connection, &call, &why), EC_ERR_TIMEOUT);
    ck_assert_str_eq(why.text, "core.ping: no answer within 20 ms");
    ec_call_finish(&call);
    late = read_request(line, sizeof line);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    snprintf(reply, sizeof reply, "{\"jsonrpc\":\"2.0\",\"id\":%lu,\"result\":{}}\n", late);
    send_with_descriptor(reply, ends[1]);
    close(ends[1]);
    ck_assert_int_eq(ec_connection_dispatch(connection), EC_OK);
    ck_assert_int_eq(ec_connection_dispatch(connection), EC_AGAIN);
    ck_assert(ec_connection_is_open(connection));
    ck_assert_int_eq(read(ends[0], &byte, 1), 0); /* its descriptor was closed */
    close(ends[0]);
}
END_TEST

START_TEST(a_notification_that_comes_before_an_answer_is_handled_first)
{
    struct news news = { .fd = -1 };
    struct caller caller;
    char line[256];
    unsigned long id;

    connect_with(TIMEOUT_MS);
    ec_connection_on(connection, "event.port.added", on_news, &news);
    if (_i == 1)
        start();
    begin_call(&caller, "core.ping", NULL);
    id = read_request(line, sizeof line);
    fputs("{\"jsonrpc\":\"2.0\",\"method\":\"event.port.added\",\"params\":{}}\n", peer);
    fprintf(peer, "{\"jsonrpc\":\"2.0\",\"id\":%lu,\"result\":null}\n", id);
    ck_assert_int_eq(end_call(&caller), EC_OK);
    ck_assert_uint_eq(news.count, 1);
    ec_call_finish(&caller.call);
}
END_TEST

START_TEST(descriptors_go_out_on_the_request_and_come_back_with_the_answer)
{
    int ends[2];
    const int fds[] = { 0, 1, 2 };
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof fds)];
    } control;
    char line[256], reply[128];
    struct iovec room = { .iov_base = line, .iov_len = sizeof line - 1 };
    struct msghdr message = { .msg_iov = &room,
                              .msg_iovlen = 1,
                              .msg_control = control.bytes,
                              .msg_controllen = sizeof control.bytes };
    struct caller caller = {
        .call = { .method = "client.attach", .params = "{}", .fds = fds, .fd_count = 3 }
    };
    ssize_t n;
    int came[3];

    connect_with(TIMEOUT_MS);
    start();
    ck_assert_int_eq(pthread_create(&caller.thread, NULL, run_caller, &caller), 0);
    n = recvmsg(fileno(peer), &message, MSG_CMSG_CLOEXEC);
    ck_assert_int_gt(n, 0);
    line[n] = '\0';
    ck_assert_uint_eq(control.align.cmsg_len, CMSG_LEN(sizeof fds));
    memcpy(came, CMSG_DATA(&control.align), sizeof came);
    for (unsigned i = 0; i < 3; i++)
        close(came[i]);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    snprintf(reply, sizeof reply, "{\"jsonrpc\":\"2.0\",\"id\":%lu,\"result\":{}}\n",
             strtoul(strstr(line, "\"id\":") + 5, NULL, 10));
    send_with_descriptor(reply, ends[1]);
    close(ends[1]);
    ck_assert_int_eq(end_call(&caller), EC_OK);
    ck_assert_uint_eq(caller.call.reply_fd_count, 1);
    ec_call_finish(&caller.call); /* closes the last writing end: the pipe says end of file */
    ck_assert_int_eq(read(ends[0], line, 1), 0);
    close(ends[0]);
}
END_TEST

START_TEST(an_abandoned_connection_fails_calls_and_leaves_the_socket_to_others)
{
    struct ec_call call = { .method = "core.ping" };
    int other;

    connect_with(TIMEOUT_MS);
    other = dup(ec_connection_fd(connection));
    ec_connection_abandon(connection);
    ck_assert_int_eq(ec_connection_call(connection, &call, &why), EC_ERR_DISCONNECTED);
    ck_assert_int_eq(write(other, "\n", 1), 1); /* not shut down for the parent */
    close(other);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connection");
    TCase *tests = tcase_create("connection");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tests, open_listener, close_listener);
    tcase_add_test(tests, a_path_that_does_not_fit_is_refused);
    tcase_add_test(tests, nobody_listening_is_said_with_the_path);
    tcase_add_loop_test(tests, an_answer_comes_back_to_its_call, 0, 2);
    tcase_add_loop_test(tests, answers_in_any_order_find_their_calls, 0, 2);
    tcase_add_test(tests, an_error_keeps_its_code_and_message);
    tcase_add_test(tests, an_error_without_a_code_is_not_taken_for_success);
    tcase_add_loop_test(tests, params_that_are_not_json_are_refused_and_not_sent, 0, 4);
    tcase_add_test(tests, a_request_over_the_line_limit_is_refused);
    tcase_add_test(tests, no_answer_in_time_is_an_error_and_a_late_one_harms_nobody);
    tcase_add_loop_test(tests, all_waiting_calls_fail_when_the_daemon_hangs_up, 0, 2);
    tcase_add_test(tests, a_line_that_is_not_json_ends_the_connection);
    tcase_add_test(tests, a_notification_goes_to_its_handler_with_its_descriptors);
    tcase_add_loop_test(tests, a_notification_that_comes_before_an_answer_is_handled_first, 0, 2);
    tcase_add_test(tests, descriptors_go_out_on_the_request_and_come_back_with_the_answer);
    tcase_add_test(tests, an_abandoned_connection_fails_calls_and_leaves_the_socket_to_others);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
