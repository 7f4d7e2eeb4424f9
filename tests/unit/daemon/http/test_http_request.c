/* HTTP requests as scrapers send them, and as web pages and others should not. */
#include "http/http_request.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define HOSTS "localhost,127.0.0.1,[::1]"

static const struct {
    const char *head;
    int status;
} cases[] = {
    { "GET /metrics HTTP/1.1\r\nHost: localhost:9469\r\n\r\n", 200 },
    { "GET /metrics HTTP/1.1\r\nhost:127.0.0.1\r\nAccept: */*\r\n\r\n", 200 },
    { "GET /metrics?x=1 HTTP/1.0\r\nHost: [::1]:1\r\n\r\n", 200 },
    { "HEAD /metrics HTTP/1.1\r\nHost: LOCALHOST\r\n\r\n", 200 },
    { "GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 200 },
    { "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 404 },
    { "GET /metrics/x HTTP/1.1\r\nHost: localhost\r\n\r\n", 404 },
    { "POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 405 },
    { "OPTIONS /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 405 },
    { "get /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 405 },
    { "GET /metrics HTTP/2.0\r\nHost: localhost\r\n\r\n", 505 },
    { "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403 },
    { "GET /metrics HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n", 403 },
    { "GET /metrics HTTP/1.1\r\nHost: localhos\r\n\r\n", 403 },
    { "GET /metrics HTTP/1.1\r\nHost:\r\n\r\n", 403 },
    { "GET /metrics HTTP/1.1\r\nHost: ,\r\n\r\n", 403 },
    { "GET /metrics HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n\r\n", 403 },
    { "GET /metrics HTTP/1.1\r\n\r\n", 400 },
    { "GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400 },
    { "GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n", 400 },
    { "GET /metrics HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", 400 },
    { "GET /metrics HTTP/1.1\r\nHost : localhost\r\n\r\n", 400 },
    { "GET /metrics HTTP/1.1\r\nHost: localhost\r\n folded\r\n\r\n", 400 },
    { "GET /metrics HTTP/1.1\r\nHost: local\nhost\r\n\r\n", 400 },
    { "GET  /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 400 },
    { "GET /metrics HTTP/1.1 \r\nHost: localhost\r\n\r\n", 400 },
    { "GET /metrics\r\nHost: localhost\r\n\r\n", 400 },
    { "\r\n\r\n", 400 },
    { " \r\n\r\n", 400 },
};

START_TEST(a_request_is_answered_by_the_letter)
{
    const char *head = cases[_i].head;
    const size_t bytes = strlen(head);
    /* Of exactly its size, so that a sanitizer sees who reads on. */
    char *copy = malloc(bytes);

    memcpy(copy, head, bytes);
    ck_assert_uint_eq(http_head_bytes(copy, bytes), bytes);
    ck_assert_msg(http_parse(copy, bytes, HOSTS).status == cases[_i].status, "%s is %d", head,
                  http_parse(copy, bytes, HOSTS).status);
    for (size_t part = 0; part < bytes; part++)
        ck_assert_uint_eq(http_head_bytes(copy, part), 0);
    free(copy);
}
END_TEST

START_TEST(a_head_may_hold_no_nul)
{
    char head[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n";

    ck_assert_int_eq(http_parse(head, sizeof head - 1, HOSTS).status, 400);
}
END_TEST

START_TEST(every_status_has_its_reason)
{
    static const int known[] = { 200, 400, 403, 404, 405, 431, 505 };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        ck_assert_str_ne(http_reason(known[i]), "Error");
    ck_assert_str_eq(http_reason(299), "Error");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http_request");
    TCase *tcase = tcase_create("http_request");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, a_request_is_answered_by_the_letter, 0,
                        (int)(sizeof cases / sizeof cases[0]));
    tcase_add_test(tcase, a_head_may_hold_no_nul);
    tcase_add_test(tcase, every_status_has_its_reason);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
