/* Where the socket is, and what a client does with a peer that is not a proper daemon. */
#include "client/client.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static char directory[64], path[96];
static int listener;
static struct ec_error why;

static void open_listener(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    strcpy(directory, "/tmp/ec-client-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/%s", directory, EC_SOCKET_NAME);
    strcpy(address.sun_path, path);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(listener, 8), 0);
    unsetenv("ENGINE_CORE_SOCKET");
    unsetenv("XDG_RUNTIME_DIR");
    why = (struct ec_error) { 0 };
}

static void close_listener(void)
{
    close(listener);
    unlink(path);
    rmdir(directory);
}

START_TEST(a_given_path_wins)
{
    char found[EC_SOCKET_PATH_MAX];

    setenv("ENGINE_CORE_SOCKET", "/from/environment", 1);
    setenv("XDG_RUNTIME_DIR", directory, 1);
    ck_assert_int_eq(ec_client_socket_path("/given", found, sizeof found, &why), EC_OK);
    ck_assert_str_eq(found, "/given");
    ck_assert_int_eq(ec_client_socket_path(NULL, found, sizeof found, &why), EC_OK);
    ck_assert_str_eq(found, "/from/environment");
    setenv("ENGINE_CORE_SOCKET", "", 1);
    ck_assert_int_eq(ec_client_socket_path("", found, sizeof found, &why), EC_OK);
    ck_assert_str_eq(found, path);
}
END_TEST

START_TEST(without_any_socket_the_places_are_named)
{
    char found[EC_SOCKET_PATH_MAX];

    if (access(EC_SOCKET_SYSTEM_DIR "/" EC_SOCKET_NAME, F_OK) == 0)
        return; /* a system service runs on this machine: there is a default */
    setenv("XDG_RUNTIME_DIR", "/nowhere", 1);
    ck_assert_int_eq(ec_client_socket_path(NULL, found, sizeof found, &why), EC_ERR_DISCONNECTED);
    ck_assert_str_eq(why.text,
                     "no daemon runs here: there is neither /nowhere/engine-core.sock nor "
                     "/run/engine-core/engine-core.sock");
}
END_TEST

START_TEST(a_path_over_the_limit_is_refused)
{
    char longer[200], found[EC_SOCKET_PATH_MAX];

    memset(longer, 'x', sizeof longer);
    longer[199] = '\0';
    ck_assert_int_eq(ec_client_socket_path(longer, found, sizeof found, &why), EC_ERR_PARAM);
    ck_assert_ptr_nonnull(strstr(why.text, "199 bytes, the limit is 107"));
}
END_TEST

START_TEST(a_client_needs_a_name_that_fits)
{
    static const char *const names[] = { NULL, "",
                                         "123456789012345678901234567890123456789012345678" };
    struct ec_client *client = NULL;

    ck_assert_int_eq(
        ec_client_create(&(struct ec_client_desc) { .name = names[_i], .socket_path = path },
                         &client, &why),
        EC_ERR_PARAM);
    ck_assert_ptr_null(client);
}
END_TEST

/* A peer that reads a line, says its answer, and so on, then hangs up. %lu becomes the id. */
static void *answer_with(void *context)
{
    const char *const *answers = context;
    FILE *peer = fdopen(accept(listener, NULL, NULL), "r+");
    char line[1024];

    setvbuf(peer, NULL, _IONBF, 0);
    for (; *answers != NULL && fgets(line, sizeof line, peer) != NULL; answers++) {
        const char *mark = strstr(*answers, "%lu");

        fprintf(peer, "%.*s%lu%s\n", (int)(mark - *answers), *answers,
                strtoul(strstr(line, "\"id\":") + 5, NULL, 10), mark + 3);
    }
    fclose(peer);
    return NULL;
}

#define HELLO                                                                                        \
    "{\"jsonrpc\":\"2.0\",\"id\":%lu,\"result\":{\"protocol\":1,\"instance\":\"0x7\",\"client_id\":" \
    "3}}"

static const struct {
    const char *answers[3];
    int code;
    const char *text;
} wrong_peers[] = {
    { { NULL }, EC_ERR_DISCONNECTED, "connect: core.hello: the daemon hung up" },
    { { "{\"jsonrpc\":\"2.0\",\"id\":%lu,\"result\":{}}" },
      EC_ERR_VERSION,
      "connect: core.hello: the answer is not that of a daemon" },
    { { "{\"jsonrpc\":\"2.0\",\"id\":%lu,\"result\":{\"protocol\":2,\"instance\":\"0x7\",\"client_"
        "id\":3}}" },
      EC_ERR_VERSION,
      "connect: core.hello: the daemon speaks protocol 2, this library 1" },
    { { "{\"jsonrpc\":\"2.0\",\"id\":%lu,\"error\":{\"code\":-32003,\"message\":\"not for you\"}}" },
      EC_ERR_PERMISSION,
      "connect: core.hello: not for you" },
    { { HELLO, "{\"jsonrpc\":\"2.0\",\"id\":%lu,\"result\":{\"segments\":[]}}" },
      EC_ERR_LAYOUT,
      "connect: client.attach: the daemon sent no segment clock" },
    { { HELLO,
        "{\"jsonrpc\":\"2.0\",\"id\":%lu,\"result\":{\"segments\":[{\"name\":\"clock\"}]}}" },
      EC_ERR_LAYOUT,
      "connect: client.attach: 0 descriptors for more segments" },
};

START_TEST(a_peer_that_is_no_proper_daemon_is_refused_and_leaves_nothing)
{
    struct ec_client *client = NULL;
    pthread_t peer;
    int rc, fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    ck_assert_int_eq(
        pthread_create(&peer, NULL, answer_with, (void *)(uintptr_t)wrong_peers[_i].answers), 0);
    rc = ec_client_create(&(struct ec_client_desc) { .name = "test", .socket_path = path }, &client,
                          &why);
    pthread_join(peer, NULL);
    ck_assert_str_eq(why.text, wrong_peers[_i].text);
    ck_assert_int_eq(rc, wrong_peers[_i].code);
    ck_assert_ptr_null(client);
    close(fd);
    ck_assert_int_eq(open("/dev/null", O_RDONLY | O_CLOEXEC), fd);
    ck_assert_int_eq(dup(fd), fd + 1); /* no descriptor stayed behind it */
}
END_TEST

START_TEST(destroy_accepts_null)
{
    ec_client_destroy(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client");
    TCase *tests = tcase_create("client");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tests, open_listener, close_listener);
    tcase_add_test(tests, a_given_path_wins);
    tcase_add_test(tests, without_any_socket_the_places_are_named);
    tcase_add_test(tests, a_path_over_the_limit_is_refused);
    tcase_add_loop_test(tests, a_client_needs_a_name_that_fits, 0, 3);
    tcase_add_loop_test(tests, a_peer_that_is_no_proper_daemon_is_refused_and_leaves_nothing, 0,
                        sizeof wrong_peers / sizeof wrong_peers[0]);
    tcase_add_test(tests, destroy_accepts_null);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
