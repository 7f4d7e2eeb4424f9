/* Real connections over socket pairs, in a loop that the test turns by hand. */
#include "control/connection.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clients/clients.h"
#include "daemon/before_answers.h"
#include "daemon/config.h"
#include "daemon/counters.h"

#define LIMIT 65536 /* control.output_bytes, its least value */

static uv_loop_t loop;
static uv_timer_t other; /* a loop with nothing else to do would not turn */
static struct services services;
static struct counters counters;
static struct before_answers before_answers;
static struct dispatcher dispatcher;
static struct connections connections;
static struct ec_error why;
static int peer; /* the client's end */

static struct client *client; /* who called last */
static struct reply *deferred;
static unsigned gone_count;
static unsigned fds_seen[8], fds_count; /* descriptors of each call, in order */
static const char *notification = "{\"note\":1}";

static int answer_ping(struct request *request)
{
    client = request->client;
    if (fds_count < 8)
        fds_seen[fds_count++] = request->fd_count;
    ec_json_u64(request->result, request->fd_count);
    return EC_OK;
}

static int answer_and_notify(struct request *request)
{
    struct client *self = request->client;

    client = self;
    ck_assert_int_eq(self->output->notify(self->connection, notification, strlen(notification),
                                          (const int[]) { STDERR_FILENO }, 1),
                     EC_OK);
    ck_assert_uint_gt(self->output->pending(self->connection), 0);
    ec_json_boolean(request->result, true);
    return EC_OK;
}

static int answer_much(struct request *request)
{
    ec_json_array_begin(request->result);
    for (unsigned i = 0; i < 4000; i++)
        ec_json_string(request->result, "0123456789");
    ec_json_array_end(request->result);
    return EC_OK;
}

static void on_gone(void *context)
{
    (void)context;
    gone_count++;
}

static int answer_later(struct request *request)
{
    client = request->client;
    return request_defer(request, on_gone, NULL, &deferred);
}

static int answer_and_close(struct request *request)
{
    request->client->output->close(request->client->connection, "the handler wants it");
    ec_json_boolean(request->result, true);
    return EC_OK;
}

static handler_fn *handlers[EC_COMMANDS];

static void turn(void)
{
    for (unsigned i = 0; i < 4; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
}

static void never(uv_timer_t *timer)
{
    (void)timer;
}

static void set_up(void)
{
    const struct config_source source = {
        .sets = (const char *const[]) { "control.output_bytes=65536" }, .set_count = 1
    };
    int ends[2];

    memset(&counters, 0, sizeof counters);
    before_answers = (struct before_answers) { 0 };
    services = (struct services) { .loop = &loop,
                                   .counters = &counters,
                                   .before_answers = &before_answers };
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    uv_timer_init(&loop, &other);
    uv_timer_start(&other, never, 3600000, 0);
    ck_assert_int_eq(config_create(&source, &services.config, &why), EC_OK);
    ck_assert_int_eq(clients_init(&services, &why), EC_OK);
    ck_assert_int_eq(dispatcher_init(&dispatcher, &services, &why), EC_OK);
    for (size_t i = 0; i < EC_COMMANDS; i++)
        handlers[i] = answer_ping;
    handlers[EC_COMMAND_core_info] = answer_and_notify;
    handlers[EC_COMMAND_core_discover] = answer_much;
    handlers[EC_COMMAND_core_reload] = answer_later;
    handlers[EC_COMMAND_core_shutdown] = answer_and_close;
    dispatcher.handlers = handlers;
    ck_assert_int_eq(connections_init(&connections, &services, &dispatcher, &why), EC_OK);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    connections_add(&connections, ends[0]);
    peer = ends[1];
    fds_count = gone_count = 0;
    client = NULL;
}

static void tear_down(void)
{
    connections_finish(&connections);
    clients_shutdown(&services);
    dispatcher_finish(&dispatcher);
    config_destroy(services.config);
    close(peer);
    uv_close((uv_handle_t *)&other, NULL);
    turn();
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

/* One sendmsg() with copies of stderr. */
static void send_text(const char *text, unsigned fd_count)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * 8)];
        struct cmsghdr align;
    } control = { .bytes = { 0 } };
    struct iovec part = { (char *)(uintptr_t)text, strlen(text) };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

    if (fd_count > 0) {
        struct cmsghdr *header;

        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        for (unsigned i = 0; i < fd_count; i++)
            memcpy(CMSG_DATA(header) + i * sizeof(int), &(int) { STDERR_FILENO }, sizeof(int));
    }
    ck_assert_int_eq(sendmsg(peer, &message, MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* What has come, up to a message boundary; "" for nothing, NULL for the end. */
static const char *receive(void)
{
    static char text[1 << 20];
    ssize_t bytes = recv(peer, text, sizeof text - 1, 0);

    if (bytes == 0 || (bytes < 0 && errno == ECONNRESET))
        return NULL;
    text[bytes > 0 ? bytes : 0] = '\0';
    return text;
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;

    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

#define CALL(id, method) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\"}\n"
#define ANSWER(id, result) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"result\":" result "}\n"
#define PING(id) CALL(id, "core.ping")

START_TEST(lines_of_one_read_are_answered_with_one_write)
{
    send_text("\n" PING("1") " \r\n" PING("2") "{\"jsonrpc\":\"2.0\",", 0);
    turn();
    ck_assert_str_eq(receive(), ANSWER("1", "0") ANSWER("2", "0"));
    send_text("\"id\":3,\"method\":\"core.ping\"}\n", 0);
    turn();
    ck_assert_str_eq(receive(), ANSWER("3", "0"));
}
END_TEST

/* Nothing may be on its way when that which is answered for is written. */
static void write_down(void *context)
{
    unsigned *written = context;
    char byte;

    ck_assert_int_eq(recv(peer, &byte, 1, MSG_PEEK | MSG_DONTWAIT), -1);
    ++*written;
}

START_TEST(what_is_answered_for_is_written_once_before_the_answers)
{
    unsigned written = 0;

    before_answers_add(&before_answers, write_down, &written);
    send_text(PING("1") PING("2"), 0);
    before_answers_note(&before_answers);
    turn();
    ck_assert_uint_eq(written, 1);
    ck_assert_int_gt((int)strlen(receive()), 0);
    turn(); /* and never without a reason */
    ck_assert_uint_eq(written, 1);
    before_answers_note(&before_answers); /* nobody is answered */
    turn();
    ck_assert_uint_eq(written, 2);
    before_answers_remove(&before_answers, &written);
}
END_TEST

START_TEST(notifications_to_the_caller_itself_follow_the_answer)
{
    send_text(CALL("1", "core.info") PING("2"), 0);
    turn();
    ck_assert_str_eq(receive(), ANSWER("1", "true") "{\"note\":1}\n");
    ck_assert_str_eq(receive(), ANSWER("2", "0"));
}
END_TEST

START_TEST(notifications_from_elsewhere_go_out_before_the_loop_sleeps)
{
    send_text(PING("1"), 0);
    turn();
    receive();
    for (unsigned i = 0; i < 3; i++)
        client->output->notify(client->connection, "{}", 2, NULL, 0);
    ck_assert_uint_eq(client->output->pending(client->connection), 9);
    ck_assert_str_eq(receive(), "");
    uv_run(&loop, UV_RUN_NOWAIT);
    ck_assert_str_eq(receive(), "{}\n{}\n{}\n");
    ck_assert_uint_eq(client->output->pending(client->connection), 0);
}
END_TEST

START_TEST(notifications_over_the_limit_are_dropped_and_counted_and_answers_are_not)
{
    static char line[1000];
    unsigned taken = 0;
    size_t received = 0;
    const char *text, *last = NULL;

    memset(line, ' ', sizeof line);
    memcpy(line, "[]", 2);
    send_text(PING("1"), 0);
    turn();
    receive();
    /* Far more than socket and queue hold together. */
    for (unsigned i = 0; i < 2000; i++) {
        taken += client->output->notify(client->connection, line, sizeof line, NULL, 0) == EC_OK;
        uv_run(&loop, UV_RUN_NOWAIT);
        ck_assert_uint_le(client->output->pending(client->connection), LIMIT);
    }
    ck_assert_uint_lt(taken, 2000);
    ck_assert_uint_eq(client->lost_notifications, 2000 - taken);
    ck_assert_uint_eq(counters_get(&counters, EC_COUNTER_dropped), 2000 - taken);
    ck_assert_ptr_nonnull(client->output);
    while ((text = receive())[0] != '\0') {
        received += strlen(text);
        turn();
    }
    ck_assert_uint_eq(received, taken * (sizeof line + 1));
    send_text(PING("2"), 0);
    turn();
    last = receive();
    ck_assert_str_eq(last, ANSWER("2", "0"));
}
END_TEST

START_TEST(a_client_that_reads_nothing_holds_a_bounded_number_of_descriptors)
{
    unsigned before, taken = 0;

    send_text(PING("1"), 0);
    turn();
    before = open_descriptors();
    for (unsigned i = 0; i < 4000; i++) {
        taken += client->output->notify(client->connection, notification, strlen(notification),
                                        (const int[]) { STDERR_FILENO }, 1) == EC_OK;
        if (i % 64 == 0)
            turn(); /* what the socket takes is no longer ours */
    }
    ck_assert_uint_lt(taken, 4000);
    ck_assert_uint_eq(client->lost_notifications, 4000 - taken);
    ck_assert_uint_le(open_descriptors() - before, 256);
    ck_assert_int_eq(
        client->output->notify(client->connection, notification, strlen(notification), NULL, 0),
        EC_OK); /* those without are not dropped */
    ck_assert_uint_eq(connections.count, 1);
}
END_TEST

START_TEST(who_does_not_take_answers_is_not_read_from_and_goes_on_later)
{
    unsigned sent = 0, answered = 0;
    const char *text;

    /* Each answer is 52 KB: the socket is full after a few, and the queue stays below its limit. */
    while (send(peer, CALL("1", "core.discover"), strlen(CALL("1", "core.discover")),
                MSG_NOSIGNAL) > 0 &&
           sent < 100000) {
        sent++;
        if (sent % 64 == 0)
            turn();
    }
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_uint_eq(connections.count, 1);
    do {
        turn();
        text = receive();
        ck_assert_ptr_nonnull(text);
        for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
            answered++;
    } while (text[0] != '\0');
    ck_assert_uint_eq(answered, sent);
}
END_TEST

/* One request at a time: when the connection pauses, no line waits with it. */
START_TEST(who_sends_nothing_while_it_is_not_read_from_goes_on_too)
{
    unsigned answered = 0;
    const char *text;

    for (unsigned i = 0; i < 8; i++) {
        send_text(CALL("1", "core.discover"), 0);
        turn();
    }
    while (answered < 8) {
        text = receive();
        ck_assert_ptr_nonnull(text);
        for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
            answered++;
        turn();
    }
    send_text(PING("2"), 0);
    turn();
    ck_assert_str_eq(receive(), ANSWER("2", "0"));
}
END_TEST

START_TEST(answers_alone_over_the_limit_end_the_connection)
{
    static char batch[8192];
    char *at = batch;

    for (unsigned i = 0; i < 18; i++)
        at += sprintf(at, "%c{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"core.discover\"}",
                      i == 0 ? '[' : ',');
    strcpy(at, "]\n");
    send_text(batch, 0); /* one line of nearly a mebibyte */
    turn();
    ck_assert_uint_eq(connections.count, 0);
}
END_TEST

START_TEST(an_answer_that_comes_later_is_sent_also_after_a_half_close)
{
    send_text(CALL("1", "core.reload"), 0);
    shutdown(peer, SHUT_WR);
    turn();
    ck_assert_str_eq(receive(), "");
    ck_assert_uint_eq(connections.count, 1);
    ec_json_u64(reply_result(deferred), 5);
    reply_finish(deferred);
    turn();
    ck_assert_str_eq(receive(), ANSWER("1", "5"));
    ck_assert_ptr_null(receive());
    ck_assert_uint_eq(connections.count, 0);
    ck_assert_uint_eq(gone_count, 0);
}
END_TEST

START_TEST(who_answers_later_hears_of_a_hang_up)
{
    send_text(CALL("1", "core.reload"), 0);
    turn();
    close(peer);
    turn();
    /* A closed peer looks like a half-closed one until something is sent. */
    client->output->notify(client->connection, "{}", 2, NULL, 0);
    turn();
    ck_assert_uint_eq(gone_count, 1);
    ck_assert_uint_eq(connections.count, 0);
    peer = dup(STDERR_FILENO);
}
END_TEST

START_TEST(a_handler_may_close_its_own_connection)
{
    send_text(CALL("1", "core.shutdown") PING("2"), 0);
    turn();
    ck_assert_str_eq(receive(), ANSWER("1", "true"));
    ck_assert_ptr_null(receive());
    ck_assert_uint_eq(connections.count, 0);
}
END_TEST

/* Each send_text() is one sendmsg(). */
START_TEST(descriptors_belong_to_the_line_that_they_came_with)
{
    static const char port[] = "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"event.port.open\","
                               "\"params\":{\"name\":\"a\",\"bytes\":65536}}\n";
    const unsigned before = open_descriptors();
    char text[512];

    send_text(PING("0"), 0);
    turn();
    client->id = 1; /* as if it had said hello */
    fds_count = 0;

    /* Glued by the kernel to what was sent before: the last line. */
    send_text(PING("1"), 0);
    send_text(port, 2);
    send_text(PING("2"), 0);
    turn();
    ck_assert_uint_eq(fds_count, 3);
    ck_assert_uint_eq(fds_seen[0], 0);
    ck_assert_uint_eq(fds_seen[1], 2);
    ck_assert_uint_eq(fds_seen[2], 0);

    /* Two lines of which only the second one passes some. */
    fds_count = 0;
    send_text(port, 0);
    send_text(port, 3);
    turn();
    ck_assert_uint_eq(fds_count, 2);
    ck_assert_uint_eq(fds_seen[0], 0);
    ck_assert_uint_eq(fds_seen[1], 3);

    /* More lines in one message: the one whose method takes them. */
    fds_count = 0;
    snprintf(text, sizeof text, "%s%s", port, PING("3"));
    send_text(text, 1);
    turn();
    ck_assert_uint_eq(fds_count, 2);
    ck_assert_uint_eq(fds_seen[0], 1);
    ck_assert_uint_eq(fds_seen[1], 0);

    /* The first piece of a line that comes in three. */
    fds_count = 0;
    snprintf(text, sizeof text, "%.20s", port);
    send_text(text, 2);
    turn();
    snprintf(text, sizeof text, "%.20s", port + 20);
    send_text(text, 0);
    turn();
    send_text(port + 40, 0);
    send_text(port, 1);
    turn();
    ck_assert_uint_eq(fds_count, 2);
    ck_assert_uint_eq(fds_seen[0], 2);
    ck_assert_uint_eq(fds_seen[1], 1);
    ck_assert_uint_eq(open_descriptors(), before);
}
END_TEST

START_TEST(descriptors_in_the_middle_of_a_line_are_closed_and_said)
{
    const unsigned before = open_descriptors();
    const char *text;

    send_text("{\"jsonrpc\":\"2.0\",\"id\":1,", 0);
    turn();
    send_text("\"method\":\"core.ping\"}\n", 1);
    turn();
    text = receive();
    ck_assert_msg(strstr(text, "\"id\":1,\"error\":{\"code\":-32600,\"message\":"
                               "\"descriptors ride on the first byte of a line\"") != NULL,
                  "%s", text);
    ck_assert_uint_eq(open_descriptors(), before);
    send_text(PING("2"), 0);
    turn();
    ck_assert_str_eq(receive(), ANSWER("2", "0"));
}
END_TEST

START_TEST(descriptors_of_a_line_that_never_ends_are_closed_with_it)
{
    const unsigned before = open_descriptors();

    send_text("{\"jsonrpc\":", 3);
    turn();
    ck_assert_uint_eq(open_descriptors(), before + 3);
    shutdown(peer, SHUT_WR);
    turn();
    ck_assert_uint_lt(open_descriptors(), before); /* those of the connection, too */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connection");
    TCase *tcase = tcase_create("connection");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, what_is_answered_for_is_written_once_before_the_answers);
    tcase_add_test(tcase, lines_of_one_read_are_answered_with_one_write);
    tcase_add_test(tcase, notifications_to_the_caller_itself_follow_the_answer);
    tcase_add_test(tcase, notifications_from_elsewhere_go_out_before_the_loop_sleeps);
    tcase_add_test(tcase, notifications_over_the_limit_are_dropped_and_counted_and_answers_are_not);
    tcase_add_test(tcase, a_client_that_reads_nothing_holds_a_bounded_number_of_descriptors);
    tcase_add_test(tcase, who_does_not_take_answers_is_not_read_from_and_goes_on_later);
    tcase_add_test(tcase, who_sends_nothing_while_it_is_not_read_from_goes_on_too);
    tcase_add_test(tcase, answers_alone_over_the_limit_end_the_connection);
    tcase_add_test(tcase, an_answer_that_comes_later_is_sent_also_after_a_half_close);
    tcase_add_test(tcase, who_answers_later_hears_of_a_hang_up);
    tcase_add_test(tcase, a_handler_may_close_its_own_connection);
    tcase_add_test(tcase, descriptors_belong_to_the_line_that_they_came_with);
    tcase_add_test(tcase, descriptors_in_the_middle_of_a_line_are_closed_and_said);
    tcase_add_test(tcase, descriptors_of_a_line_that_never_ends_are_closed_with_it);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
