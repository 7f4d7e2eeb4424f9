/* The tool's own socket, against a daemon that says what the test wants. */
#include "engine-ctl/json_socket.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define TIMEOUT_MS 60000

static char directory[64], path[96];
static int listener;
static struct json_socket client;
static struct json_answer answer;
static struct ec_error why;
static pthread_t peer;
static bool peer_runs;

static void open_listener(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    strcpy(directory, "/tmp/ec-ctl-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/socket", directory);
    strcpy(address.sun_path, path);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(listener, 8), 0);
    peer_runs = false;
}

static void close_listener(void)
{
    json_answer_finish(&answer);
    json_socket_close(&client);
    if (peer_runs)
        pthread_join(peer, NULL);
    close(listener);
    unlink(path);
    rmdir(directory);
}

/* Read a line, say the text, wait until the other side hangs up. */
static void *say(void *context)
{
    FILE *stream = fdopen(accept(listener, NULL, NULL), "r+");
    char line[256];

    setvbuf(stream, NULL, _IONBF, 0);
    if (fgets(line, sizeof line, stream) != NULL && context != NULL) {
        fputs(context, stream);
        while (fgets(line, sizeof line, stream) != NULL)
            ;
    }
    fclose(stream);
    return NULL;
}

static int call(const char *reply, int timeout_ms)
{
    ck_assert_int_eq(pthread_create(&peer, NULL, say, (void *)(uintptr_t)reply), 0);
    peer_runs = true;
    ck_assert_int_eq(json_socket_open(&client, path, timeout_ms, &why), EC_OK);
    return json_socket_call(&client, "core.ping", "{\n}", &answer, &why);
}

START_TEST(a_result_comes_as_it_was_written_and_as_a_tree)
{
    ck_assert_int_eq(call("{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{}}\n"
                          "{\"jsonrpc\":\"2.0\",\"result\" : "
                          "{\"n\":18446744073709551615,\"t\":\"}\\\"]\"} , \"id\":1}\n",
                          TIMEOUT_MS),
                     EC_OK);
    ck_assert_int_eq((int)answer.result_bytes, 37);
    ck_assert_int_eq(memcmp(answer.result, "{\"n\":18446744073709551615,\"t\":\"}\\\"]\"}", 37), 0);
    ck_assert_str_eq(cJSON_GetObjectItemCaseSensitive(answer.tree, "t")->valuestring, "}\"]");
}
END_TEST

START_TEST(an_error_comes_with_code_message_and_object)
{
    ck_assert_int_eq(
        call("{\"id\":1,\"error\":{\"code\":-32003,\"message\":\"not you\"}}\n", TIMEOUT_MS),
        EC_ERR_PERMISSION);
    ck_assert_str_eq(why.text, "not you");
    ck_assert_int_eq(memcmp(answer.error, "{\"code\":-32003", 14), 0);
}
END_TEST

START_TEST(an_answer_without_an_id_is_ours_too)
{
    ck_assert_int_eq(
        call("{\"id\":null,\"error\":{\"code\":-32001,\"message\":\"long\"}}\n", TIMEOUT_MS),
        EC_ERR_SIZE);
}
END_TEST

static const char *const wrong[] = { "hello\n", "{\"id\":1}\n",
                                     "{\"id\":1,\"error\":{\"code\":1}}\n" };

START_TEST(what_is_no_answer_is_an_error)
{
    ck_assert_int_eq(call(wrong[_i], TIMEOUT_MS), EC_ERR_REQUEST);
}
END_TEST

START_TEST(a_daemon_that_says_nothing_is_a_time_out)
{
    ck_assert_int_eq(call("\"", 20), EC_ERR_TIMEOUT); /* a line that never ends */
}
END_TEST

START_TEST(a_daemon_that_hangs_up_is_no_daemon)
{
    ck_assert_int_eq(call(NULL, TIMEOUT_MS), EC_ERR_DISCONNECTED);
}
END_TEST

START_TEST(nobody_there_is_said_with_the_path)
{
    ck_assert_int_eq(json_socket_open(&client, "/nowhere/at/all", TIMEOUT_MS, &why),
                     EC_ERR_DISCONNECTED);
    ck_assert_ptr_nonnull(strstr(why.text, "/nowhere/at/all"));
    ck_assert(!json_socket_is_open(&client));
}
END_TEST

START_TEST(notifications_of_the_wanted_method_come_one_by_one)
{
    ck_assert_int_eq(call("{\"id\":1,\"result\":{}}\n"
                          "{\"method\":\"log\",\"params\":{\"n\":0}}\n"
                          "{\"method\":\"event\",\"params\":{\"n\":1}}\n"
                          "{\"method\":\"event\",\"params\":{\"n\":2}}\n",
                          TIMEOUT_MS),
                     EC_OK);
    for (int n = 1; n <= 2; n++) {
        json_answer_finish(&answer);
        ck_assert_int_eq(json_socket_next(&client, "event", &answer, &why), EC_OK);
        ck_assert_int_eq(cJSON_GetObjectItemCaseSensitive(answer.tree, "n")->valueint, n);
    }
}
END_TEST

static const struct {
    const char *object, *text;
} members[] = {
    { "{\"a\":1}", "1" },
    { " { \"b\" : [1,{\"a\":2}] , \"a\" : -1.5e3 } ", "-1.5e3" },
    { "{\"b\":\"a\\\":3\",\"a\":\"x\"}", "\"x\"" },
    { "{\"a\":[[],{}]}", "[[],{}]" },
    { "{\"a\":true,\"b\":1}", "true" },
    { "{\"b\":{\"a\":1}}", NULL },
    { "{}", NULL },
    { "[\"a\"]", NULL },
    { "", NULL },
};

START_TEST(a_member_is_found_in_the_outermost_object_only)
{
    size_t bytes = 0;
    const char *text = json_member_text(members[_i].object, "a", &bytes);

    if (members[_i].text == NULL) {
        ck_assert_ptr_null(text);
    } else {
        ck_assert_uint_eq(bytes, strlen(members[_i].text));
        ck_assert_int_eq(memcmp(text, members[_i].text, bytes), 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json socket");
    TCase *tests = tcase_create("json socket");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tests, open_listener, close_listener);
    tcase_add_test(tests, a_result_comes_as_it_was_written_and_as_a_tree);
    tcase_add_test(tests, an_error_comes_with_code_message_and_object);
    tcase_add_test(tests, an_answer_without_an_id_is_ours_too);
    tcase_add_loop_test(tests, what_is_no_answer_is_an_error, 0, 3);
    tcase_add_test(tests, a_daemon_that_says_nothing_is_a_time_out);
    tcase_add_test(tests, a_daemon_that_hangs_up_is_no_daemon);
    tcase_add_test(tests, nobody_there_is_said_with_the_path);
    tcase_add_test(tests, notifications_of_the_wanted_method_come_one_by_one);
    tcase_add_loop_test(tests, a_member_is_found_in_the_outermost_object_only, 0,
                        sizeof members / sizeof members[0]);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
