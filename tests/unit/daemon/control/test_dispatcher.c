/* A dispatcher with handlers that show what they were given, and a caller that keeps what it gets. */
#include "control/dispatcher.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clients/clients.h"
#include "daemon/config.h"
#include "daemon/counters.h"

static struct services services;
static struct counters counters;
static struct client client;
static struct dispatcher dispatcher;
static struct caller caller;
static struct ec_error why;

/* What was sent, line by line, with LF. */
static char *sent;
static size_t sent_bytes;
static unsigned sent_fds;

static struct reply *deferred[512];
static unsigned deferred_count, gone_count;

static void keep(struct caller *to, const char *line, size_t bytes, const int *fds,
                 unsigned fd_count)
{
    const struct ec_json_limits limits = { .depth = EC_LINE_DEPTH + 1 }; /* an echo goes deeper */
    struct ec_json_fault fault;

    ck_assert_ptr_eq(to, &caller);
    ck_assert_uint_lt(bytes, EC_LINE_BYTES);
    ck_assert_msg(ec_json_check(line, bytes, &limits, &fault) == EC_OK, "%s at %zu: %.*s",
                  fault.reason, fault.offset, (int)bytes, line);
    sent = realloc(sent, sent_bytes + bytes + 2);
    memcpy(sent + sent_bytes, line, bytes);
    memcpy(sent + sent_bytes + bytes, "\n", 2);
    sent_bytes += bytes + 1;
    for (unsigned i = 0; i < fd_count; i++)
        ck_assert_int_ge(fcntl(fds[i], F_GETFD), 0);
    sent_fds += fd_count;
}

static void forget(void)
{
    free(sent);
    sent = strdup("");
    sent_bytes = 0;
    sent_fds = 0;
}

static void send_line(const char *line)
{
    forget();
    dispatcher_line(&dispatcher, &caller, line, strlen(line), NULL);
}

static void expect(const char *line, const char *answer)
{
    send_line(line);
    ck_assert_str_eq(sent, answer);
}

static void expect_part(const char *line, const char *part)
{
    send_line(line);
    ck_assert_msg(strstr(sent, part) != NULL, "%s is not in %s", part, sent);
}

/* Handlers: each command of the table gets one that does what its first parameter's place says. */

static int answer_bound(struct request *request)
{
    const struct params_breaker_trip *params = request->params;
    struct ec_json_writer *w = request->result;

    ec_json_object_begin(w);
    ec_json_member_i64(w, "level", params->level.integer);
    ec_json_member_string(w, "reason", params->reason.string);
    ec_json_member_i64(w, "hold_s", params->hold_s.integer);
    ec_json_member_boolean(w, "held", params->hold_s.present);
    ec_json_object_end(w);
    return EC_OK;
}

static int answer_echo(struct request *request)
{
    ec_json_object_begin(request->result);
    if (request->raw.text != NULL)
        ec_json_member_raw(request->result, "echo", request->raw);
    ec_json_object_end(request->result);
    return EC_OK;
}

static int answer_error(struct request *request)
{
    ec_json_object_begin(request->result); /* half a result, which is thrown away */
    ec_json_member_string(request->result, "half", "a result");
    ec_json_object_begin(request->data);
    ec_json_member_string(request->data, "wanted", "more");
    ec_json_object_end(request->data);
    return ec_fail(request->why, EC_ERR_NOT_FOUND, "nothing called \"that\"");
}

static int answer_nothing(struct request *request)
{
    (void)request;
    return EC_OK;
}

static int answer_too_much(struct request *request)
{
    ec_json_array_begin(request->result);
    for (unsigned i = 0; i < 200000; i++)
        ec_json_string(request->result, "0123456789");
    ec_json_array_end(request->result);
    return EC_OK;
}

static int answer_half_a_mebibyte(struct request *request)
{
    ec_json_array_begin(request->result);
    for (unsigned i = 0; i < 40000; i++)
        ec_json_string(request->result, "0123456789");
    ec_json_array_end(request->result);
    return EC_OK;
}

static void on_gone(void *context)
{
    ck_assert_ptr_eq(context, &gone_count);
    gone_count++;
}

static int answer_later(struct request *request)
{
    return request_defer(request, on_gone, &gone_count, &deferred[deferred_count++]);
}

static int answer_later_and_fail(struct request *request)
{
    struct reply *reply;

    request_defer(request, on_gone, &gone_count, &reply);
    return ec_fail(request->why, EC_ERR_BUSY, "not now after all");
}

static int answer_at_once_though_later(struct request *request)
{
    struct reply *reply;
    int rc = request_defer(request, on_gone, &gone_count, &reply);

    ec_json_boolean(reply_result(reply), true);
    reply_finish(reply);
    return rc;
}

static int answer_with_descriptor(struct request *request)
{
    int rc = request_attach_fd(request, STDERR_FILENO);

    if (rc < 0)
        return rc;
    ec_json_u64(request->result, request->fd_count);
    if (request->fd_count > 0) {
        close(request->fds[0]);
        request->fds[0] = -1; /* taken */
    }
    return EC_OK;
}

static handler_fn *handlers[EC_COMMANDS];

static void set_up(void)
{
    const struct config_source source = {
        .sets = (const char *const[]) { "control.batch=5", "control.in_flight=3" }, .set_count = 2
    };

    services = (struct services) { .counters = &counters };
    memset(&counters, 0, sizeof counters);
    client = (struct client) { .id = 1, .role = EC_ROLE_OPERATOR };
    ck_assert_int_eq(config_create(&source, &services.config, &why), EC_OK);
    ck_assert_int_eq(dispatcher_init(&dispatcher, &services, &why), EC_OK);
    for (size_t i = 0; i < EC_COMMANDS; i++)
        handlers[i] = answer_echo;
    handlers[EC_COMMAND_breaker_trip] = answer_bound;
    handlers[EC_COMMAND_client_get] = answer_error;
    handlers[EC_COMMAND_breaker_get] = answer_nothing;
    handlers[EC_COMMAND_memory_stats] = answer_too_much;
    handlers[EC_COMMAND_memory_report] = answer_half_a_mebibyte;
    handlers[EC_COMMAND_resource_load] = answer_later;
    handlers[EC_COMMAND_resource_unload] = answer_later_and_fail;
    handlers[EC_COMMAND_resource_list] = answer_at_once_though_later;
    handlers[EC_COMMAND_event_port_open] = answer_with_descriptor;
    dispatcher.handlers = handlers;
    caller = (struct caller) { .client = &client, .send = keep };
    caller_init(&caller);
    deferred_count = gone_count = 0;
}

static void tear_down(void)
{
    caller_finish(&caller);
    dispatcher_finish(&dispatcher);
    config_destroy(services.config);
    free(sent);
    sent = NULL;
}

#define REQUEST(id, method, params)                                                                \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\",\"params\":" params "}"
#define ANSWER(id, result) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"result\":" result "}"
#define LOAD(id) REQUEST(id, "resource.load", "{\"group\":\"g\"}")

/* Parameters. */

START_TEST(parameters_are_bound_as_the_table_says)
{
    expect(REQUEST("1", "breaker.trip", "{\"reason\":\"te\\u0073t\",\"level\":2}"),
           ANSWER("1", "{\"level\":2,\"reason\":\"test\",\"hold_s\":60,\"held\":true}") "\n");
    expect(REQUEST("1", "breaker.trip", "{\"reason\":\"x\",\"level\":0,\"hold_s\":0}"),
           ANSWER("1", "{\"level\":0,\"reason\":\"x\",\"hold_s\":0,\"held\":true}") "\n");
}
END_TEST

static const struct {
    const char *params, *param, *reason;
} wrong[] = {
    { "{\"reason\":\"x\"}", "level", "is missing" },
    { "{\"level\":1}", "reason", "is missing" },
    { "{\"level\":4,\"reason\":\"x\"}", "level", "is 4, allowed is 0 to 3" },
    { "{\"level\":-1,\"reason\":\"x\"}", "level", "is -1, allowed is 0 to 3" },
    { "{\"level\":1.0,\"reason\":\"x\"}", "level", "is 1.0, expected an integer of 64 bits" },
    { "{\"level\":18446744073709551615,\"reason\":\"x\"}", "level",
      "is 18446744073709551615, expected an integer of 64 bits" },
    { "{\"level\":\"1\",\"reason\":\"x\"}", "level",
      "is a string, expected an integer of 64 bits" },
    { "{\"level\":null,\"reason\":\"x\"}", "level", "is null, expected an integer of 64 bits" },
    { "{\"level\":1,\"reason\":[]}", "reason", "is an array, expected a string" },
    { "{\"level\":1,\"reason\":\"\"}", "reason", "bytes: 0, allowed is 1 to 127" },
    { "{\"level\":1,\"reason\":\"a\\u0000b\"}", "reason", "must not contain \\\\u0000" },
    { "{\"level\":1,\"reason\":\"x\",\"holds\":1}", "holds",
      "breaker.trip does not take it, did you mean hold_s?" },
    { "{\"level\":1,\"reason\":\"x\",\"colour\":1}", "colour", "breaker.trip does not take it" },
};

START_TEST(a_wrong_parameter_is_named_with_the_reason)
{
    char line[512], expected[512];

    snprintf(line, sizeof line, REQUEST("1", "breaker.trip", "%s"), wrong[_i].params);
    snprintf(expected, sizeof expected,
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32602,\"message\":"
             "\"parameter %s: %s\",\"data\":{\"param\":\"%s\",\"reason\":\"%s\"}}}\n",
             wrong[_i].param, wrong[_i].reason, wrong[_i].param, wrong[_i].reason);
    expect(line, expected);
}
END_TEST

START_TEST(parameters_by_place_are_for_ping_only)
{
    expect(REQUEST("1", "core.ping", "[1,2]"), ANSWER("1", "{\"echo\":[1,2]}") "\n");
    expect_part(REQUEST("1", "core.info", "[]"), "\"code\":-32602");
    expect_part(REQUEST("1", "core.info", "[1]"), "takes its parameters by name");
}
END_TEST

START_TEST(every_default_of_the_table_binds)
{
    const struct ec_command_row *row = &ec_commands[_i];

    for (size_t p = 0; p < row->param_count; p++) {
        const char *fallback = ec_param_fallback(&row->params[p]);
        char line[512];

        if (fallback == NULL)
            continue;
        snprintf(line, sizeof line,
                 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":"
                 "{\"%s\":%s}}",
                 row->method, row->params[p].name, fallback);
        send_line(line);
        ck_assert_msg(strstr(sent, "expected") == NULL && strstr(sent, "allowed") == NULL, "%s",
                      sent);
    }
}
END_TEST

/* Results and errors. */

START_TEST(an_error_throws_the_half_result_away_and_keeps_its_data)
{
    expect(REQUEST("\"x\"", "client.get", "{\"client_id\":1}"),
           "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"error\":{\"code\":-32005,\"message\":"
           "\"nothing called \\\"that\\\"\",\"data\":{\"wanted\":\"more\"}}}\n");
    ck_assert_uint_eq(counters_get(&counters, EC_COUNTER_requests), 1);
    ck_assert_uint_eq(counters_get(&counters, EC_COUNTER_errors), 1);
    /* And nothing of it is left for the next one. */
    expect(REQUEST("2", "core.ping", "{}"), ANSWER("2", "{\"echo\":{}}") "\n");
    expect_part(REQUEST("3", "xylophone", "{}"), "there is no method xylophone\"}}");
}
END_TEST

START_TEST(a_handler_that_writes_nothing_is_an_internal_error)
{
    expect_part(REQUEST("1", "breaker.get", "{}"), "\"id\":1,\"error\":{\"code\":-32603,");
}
END_TEST

START_TEST(an_answer_over_a_line_is_an_error_that_says_so)
{
    expect(REQUEST("1", "memory.stats", "{}"),
           "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32001,\"message\":"
           "\"the answer is over 1 MiB\"}}\n");
    expect(REQUEST("2", "core.ping", "{}"), ANSWER("2", "{\"echo\":{}}") "\n");
}
END_TEST

START_TEST(a_role_may_do_what_the_table_says)
{
    client.role = EC_ROLE_OBSERVER;
    expect_part(REQUEST("1", "breaker.trip", "{}"),
                "\"code\":-32003,\"message\":\"breaker.trip needs the role operator, "
                "this client is observer\"");
    expect_part(REQUEST("1", "event.publish", "{}"), "\"code\":-32003");
    expect_part(REQUEST("1", "core.ping", "{}"), "result");
    client.role = EC_ROLE_GAME;
    expect_part(REQUEST("1", "event.publish", "{\"type\":\"x\"}"), "result");
    client.role = EC_ROLE_NONE;
    expect_part(REQUEST("1", "core.ping", "{}"), "\"code\":-32003");
}
END_TEST

START_TEST(a_notification_is_carried_out_and_not_answered)
{
    expect("{\"jsonrpc\":\"2.0\",\"method\":\"client.get\",\"params\":{\"client_id\":1}}", "");
    ck_assert_uint_eq(counters_get(&counters, EC_COUNTER_requests), 1);
    ck_assert_uint_eq(counters_get(&counters, EC_COUNTER_errors), 1);
    expect("{\"jsonrpc\":\"2.0\",\"method\":\"resource.load\",\"params\":{\"group\":\"g\"}}", "");
    ck_assert_uint_eq(deferred_count, 1);
    ck_assert_uint_eq(caller.waiting, 1);
    ec_json_boolean(reply_result(deferred[0]), true);
    reply_finish(deferred[0]);
    ck_assert_str_eq(sent, "");
    ck_assert_uint_eq(caller.waiting, 0);
}
END_TEST

START_TEST(a_long_id_is_no_id)
{
    static char line[8192], id[4200];

    memset(id, 'i', sizeof id - 1);
    id[0] = '"';
    id[sizeof id - 2] = '"';
    snprintf(line, sizeof line, REQUEST("%s", "core.ping", "{}"), id);
    expect_part(line, "\"id\":null,\"error\":{\"code\":-32600,");
}
END_TEST

START_TEST(nesting_has_a_limit_of_its_own)
{
    char line[512] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"core.ping\",\"params\":";
    char *at = line + strlen(line);

    memset(at, '[', 63);
    memset(at + 63, ']', 63);
    strcpy(at + 126, "}");
    expect_part(line, "\"id\":1,\"result\"");
    memset(at, '[', 64);
    memset(at + 64, ']', 64);
    strcpy(at + 128, "}");
    expect_part(line, "\"id\":null,\"error\":{\"code\":-32002,");
}
END_TEST

/* Batches. */

START_TEST(a_batch_is_answered_in_one_line)
{
    expect("[" REQUEST("1", "core.ping", "[]") "," REQUEST("2", "core.ping", "[2]") "]",
           "[" ANSWER("1", "{\"echo\":[]}") "," ANSWER("2", "{\"echo\":[2]}") "]\n");
    expect(" \t[{\"jsonrpc\":\"2.0\",\"method\":\"core.ping\"}]", "");
}
END_TEST

START_TEST(a_batch_of_too_many_is_refused_as_a_whole)
{
    expect("[1,2,3,4,5,6]", "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32002,"
                            "\"message\":\"a batch has at most 5 requests\"}}\n");
    ck_assert_uint_eq(counters_get(&counters, EC_COUNTER_requests), 1);
}
END_TEST

START_TEST(answers_of_a_batch_that_do_not_fit_a_line_become_errors)
{
    send_line(
        "[" REQUEST("1", "memory.report", "{}") "," REQUEST("2", "memory.report", "{}") "," REQUEST(
            "3", "memory.report", "{}") "," REQUEST("4", "core.ping", "{}") "]");
    ck_assert_ptr_nonnull(strstr(sent, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[\"01"));
    ck_assert_ptr_nonnull(strstr(sent, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":[\"01"));
    ck_assert_ptr_nonnull(strstr(sent, "\"id\":3,\"error\":{\"code\":-32001,"));
    ck_assert_ptr_nonnull(strstr(sent, "\"id\":4,\"result\":{\"echo\":{}}}]"));
}
END_TEST

START_TEST(a_batch_waits_for_its_last_answer)
{
    expect("[" LOAD("1") "," REQUEST("2", "core.ping", "{}") "," LOAD("3") "]", "");
    ck_assert_uint_eq(deferred_count, 2);
    ec_json_string(reply_result(deferred[1]), "third");
    reply_finish(deferred[1]);
    ck_assert_str_eq(sent, "");
    why = (struct ec_error) { .code = EC_ERR_GROUP, .text = "no" };
    reply_fail(deferred[0], &why);
    ck_assert_str_eq(
        sent, "[" ANSWER("2", "{\"echo\":{}}") "," ANSWER(
                  "3", "\"third\"") ","
                                    "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32020,"
                                    "\"message\":\"no\"}}]\n");
    expect(REQUEST("4", "core.ping", "{}"), ANSWER("4", "{\"echo\":{}}") "\n");
}
END_TEST

START_TEST(a_batch_may_defer_fail_and_finish_at_once)
{
    expect("[" REQUEST("1", "resource.list", "{}") "," REQUEST(
               "2", "resource.unload", "{\"group\":\"g\"}") "," LOAD("3") "]",
           "");
    ck_assert_uint_eq(caller.waiting, 1);
    ec_json_null(reply_result(deferred[0]));
    reply_finish(deferred[0]);
    ck_assert_str_eq(
        sent,
        "[" ANSWER("1", "true") ","
                                "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-32007,"
                                "\"message\":\"not now after all\"}}," ANSWER("3", "null") "]\n");
    ck_assert_uint_eq(caller.waiting, 0);
    ck_assert_uint_eq(gone_count, 0);
}
END_TEST

/* Answers that come later. */

START_TEST(a_deferred_answer_comes_with_its_own_id)
{
    expect(LOAD("\"first\""), "");
    expect(LOAD("2"), "");
    expect(REQUEST("3", "core.ping", "{}"), ANSWER("3", "{\"echo\":{}}") "\n");
    forget();
    ec_json_i64(reply_result(deferred[1]), 7);
    reply_finish(deferred[1]);
    ck_assert_str_eq(sent, ANSWER("2", "7") "\n");
    forget();
    ec_json_string(reply_data(deferred[0]), "path");
    ec_fail(&why, EC_ERR_PATH, "outside");
    ec_json_object_begin(reply_result(deferred[0])); /* begun, and then it failed */
    reply_fail(deferred[0], &why);
    ck_assert_str_eq(sent, "{\"jsonrpc\":\"2.0\",\"id\":\"first\",\"error\":{\"code\":-32021,"
                           "\"message\":\"outside\",\"data\":\"path\"}}\n");
}
END_TEST

START_TEST(too_many_unanswered_requests_are_refused)
{
    for (unsigned i = 0; i < 3; i++)
        expect(LOAD("1"), "");
    expect_part(LOAD("4"), "\"code\":-32002,\"message\":\"3 requests are unanswered, "
                           "allowed are 3\"");
    ec_json_null(reply_result(deferred[0]));
    reply_finish(deferred[0]);
    expect(LOAD("5"), "");
}
END_TEST

START_TEST(who_answers_later_hears_that_the_caller_is_gone)
{
    expect("[" LOAD("1") "," REQUEST("2", "core.ping", "{}") "," LOAD("3") "]", "");
    expect(LOAD("4"), "");
    caller_finish(&caller);
    ck_assert_uint_eq(gone_count, 3);
    ck_assert_uint_eq(caller.waiting, 0);
    ck_assert_str_eq(sent, "");
}
END_TEST

/* Descriptors. */

START_TEST(descriptors_go_to_the_handler_and_come_with_the_answer)
{
    struct line_rights rights = { .fds = { dup(STDERR_FILENO), dup(STDERR_FILENO) }, .count = 2 };
    const char *line = REQUEST("1", "event.port.open", "{\"name\":\"a\",\"bytes\":65536}");

    forget();
    dispatcher_line(&dispatcher, &caller, line, strlen(line), &rights);
    ck_assert_str_eq(sent, ANSWER("1", "2") "\n");
    ck_assert_uint_eq(sent_fds, 1);
    ck_assert_int_eq(rights.fds[0], -1);
    ck_assert_int_ge(fcntl(rights.fds[1], F_GETFD), 0); /* not taken: still the caller's */
    close(rights.fds[1]);
}
END_TEST

START_TEST(descriptors_are_refused_where_they_do_not_belong)
{
    struct line_rights rights = { .fds = { STDERR_FILENO }, .count = 1 };
    static const char *const lines[][2] = {
        { REQUEST("1", "core.ping", "{}"), "core.ping takes no descriptors" },
        { "[" REQUEST("1", "core.ping", "{}") "]", "not with a batch" },
        { "[" REQUEST("1", "event.port.open", "{\"name\":\"a\",\"bytes\":65536}") "]",
          "not with a batch" },
    };

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        forget();
        dispatcher_line(&dispatcher, &caller, lines[i][0], strlen(lines[i][0]), &rights);
        ck_assert_msg(strstr(sent, lines[i][1]) != NULL, "%s", sent);
    }
    expect_part(lines[2][0], "cannot be part of a batch");
    client.id = 0;
    forget();
    dispatcher_line(&dispatcher, &caller, lines[2][0] + 1, strlen(lines[2][0]) - 2, &rights);
    ck_assert_msg(strstr(sent, "after core.hello only") != NULL, "%s", sent);
    client.id = 1;
    rights = (struct line_rights) { .fault = "descriptors were lost" };
    forget();
    dispatcher_line(&dispatcher, &caller, lines[2][0] + 1, strlen(lines[2][0]) - 2, &rights);
    ck_assert_msg(strstr(sent, "\"code\":-32600,\"message\":\"descriptors were lost\"") != NULL,
                  "%s", sent);
    ck_assert_int_ge(fcntl(STDERR_FILENO, F_GETFD), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dispatcher");
    TCase *tcase = tcase_create("dispatcher");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, parameters_are_bound_as_the_table_says);
    tcase_add_loop_test(tcase, a_wrong_parameter_is_named_with_the_reason, 0,
                        (int)(sizeof wrong / sizeof wrong[0]));
    tcase_add_test(tcase, parameters_by_place_are_for_ping_only);
    tcase_add_loop_test(tcase, every_default_of_the_table_binds, 0, EC_COMMANDS);
    tcase_add_test(tcase, an_error_throws_the_half_result_away_and_keeps_its_data);
    tcase_add_test(tcase, a_handler_that_writes_nothing_is_an_internal_error);
    tcase_add_test(tcase, an_answer_over_a_line_is_an_error_that_says_so);
    tcase_add_test(tcase, a_role_may_do_what_the_table_says);
    tcase_add_test(tcase, a_notification_is_carried_out_and_not_answered);
    tcase_add_test(tcase, a_long_id_is_no_id);
    tcase_add_test(tcase, nesting_has_a_limit_of_its_own);
    tcase_add_test(tcase, a_batch_is_answered_in_one_line);
    tcase_add_test(tcase, a_batch_of_too_many_is_refused_as_a_whole);
    tcase_add_test(tcase, answers_of_a_batch_that_do_not_fit_a_line_become_errors);
    tcase_add_test(tcase, a_batch_waits_for_its_last_answer);
    tcase_add_test(tcase, a_batch_may_defer_fail_and_finish_at_once);
    tcase_add_test(tcase, a_deferred_answer_comes_with_its_own_id);
    tcase_add_test(tcase, too_many_unanswered_requests_are_refused);
    tcase_add_test(tcase, who_answers_later_hears_that_the_caller_is_gone);
    tcase_add_test(tcase, descriptors_go_to_the_handler_and_come_with_the_answer);
    tcase_add_test(tcase, descriptors_are_refused_where_they_do_not_belong);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
