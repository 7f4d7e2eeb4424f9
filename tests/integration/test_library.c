/* The library against the real daemon: connecting, calling, forking, and what it must not do to the
 * program that links it. */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <engine-core/client.h>

#include "client/client.h"
#include "support/daemon.h"

static struct daemon_process engine;
static struct line_client operator;
static struct ec_client *client;
static struct ec_error why;

static void set_up(void)
{
    ck_assert_msg(daemon_start(&engine, NULL), "%s", engine.why);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    ck_assert_ptr_nonnull(line_client_hello(&operator, "operator"));
    why = (struct ec_error) { 0 };
}

static void tear_down(void)
{
    ec_client_destroy(client);
    client = NULL;
    line_client_close(&operator);
    ck_assert_int_eq(daemon_stop(&engine), 0);
}

static struct ec_client *connect_with(const char *name, bool no_thread)
{
    const struct ec_client_desc desc = { .name = name,
                                         .socket_path = engine.socket_path,
                                         .timeout_ms = DAEMON_WAIT_MS,
                                         .no_thread = no_thread };
    struct ec_client *made = NULL;
    int rc = ec_client_create(&desc, &made, &why);

    ck_assert_msg(rc == EC_OK, "%s", why.text);
    return made;
}

static void ping(struct ec_client *on, unsigned number)
{
    char params[32], echo[48], *result = NULL;
    struct ec_error reason = { 0 };

    snprintf(params, sizeof params, "{\"n\":%u}", number);
    snprintf(echo, sizeof echo, "\"echo\":{\"n\":%u}", number);
    ck_assert_msg(ec_client_call(on, "core.ping", params, &result, &reason) == EC_OK, "%s",
                  reason.text);
    ck_assert_ptr_nonnull(strstr(result, echo));
    free(result);
}

/* Wait for the event client.left of this name; other notifications are passed over. */
static void wait_for_left(const char *name)
{
    char value[64];
    const char *line;

    snprintf(value, sizeof value, "\"%s\"", name);
    do {
        line = line_client_receive(&operator);
        ck_assert_msg(line != NULL, "the daemon hung up");
    } while (!line_has(line, "type", "\"client.left\"") || !line_has(line, "name", value));
}

static unsigned count_entries(const char *path)
{
    DIR *directory = opendir(path);
    unsigned count = 0;

    ck_assert_ptr_nonnull(directory);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

START_TEST(a_client_is_attached_from_create_to_destroy)
{
    const char *list;

    client = connect_with("my game", _i == 1);
    ck_assert_int_eq(ec_client_state(client), EC_CONNECTED);
    ck_assert_uint_gt(ec_client_id(client), 0);
    list = line_client_call(&operator, "client.list", NULL);
    ck_assert(line_has(list, "name", "\"my game\""));
    ck_assert(line_has(list, "attached", "true"));
    ec_client_destroy(client);
    client = NULL;
    list = line_client_call(&operator, "client.list", NULL);
    ck_assert(!line_has(list, "attached", "true"));
}
END_TEST

START_TEST(a_call_right_after_create_is_answered)
{
    client = connect_with("caller", _i == 1);
    for (unsigned i = 0; i < 100; i++)
        ping(client, i);
}
END_TEST

static void *ping_many(void *context)
{
    for (unsigned i = 0; i < 200; i++)
        ping(context, i);
    return NULL;
}

START_TEST(many_threads_may_call_at_once)
{
    pthread_t threads[16];

    client = connect_with("caller", _i == 1);
    for (unsigned i = 0; i < 16; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ping_many, client), 0);
    for (unsigned i = 0; i < 16; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}
END_TEST

START_TEST(an_error_of_the_daemon_comes_back_with_its_code)
{
    char *result = NULL;

    client = connect_with("caller", false);
    ck_assert_int_eq(ec_client_call(client, "no.method", NULL, &result, &why), EC_ERR_METHOD);
    ck_assert_int_eq(strncmp(why.text, "no.method: ", 11), 0);
    ck_assert_int_eq(ec_client_call(client, "core.ping", "{", &result, &why), EC_ERR_PARAM);
    ck_assert_int_eq(ec_client_call(client, "client.get", "{\"client_id\":\"x\"}", &result, &why),
                     EC_ERR_PARAM);
    ck_assert_ptr_null(result);
    ping(client, 1); /* and the connection stands */
}
END_TEST

START_TEST(several_clients_live_in_one_process)
{
    struct ec_client *clients[4];

    for (unsigned i = 0; i < 4; i++)
        clients[i] = connect_with("one of many", i % 2 == 1);
    for (unsigned i = 0; i < 4; i++) {
        ping(clients[i], i);
        for (unsigned other = 0; other < i; other++)
            ck_assert_uint_ne(ec_client_id(clients[i]), ec_client_id(clients[other]));
    }
    for (unsigned i = 0; i < 4; i++)
        ec_client_destroy(clients[i]);
}
END_TEST

START_TEST(without_a_thread_the_program_dispatches)
{
    struct pollfd readable;
    unsigned threads = count_entries("/proc/self/task");

    client = connect_with("no thread", true);
    ck_assert_uint_eq(count_entries("/proc/self/task"), threads);
    ck_assert_int_ge(ec_client_fd(client), 0);
    ck_assert_int_eq(ec_client_dispatch(client), EC_AGAIN);
    ck_assert_int_eq(daemon_kill(&engine), -SIGKILL);
    readable = (struct pollfd) { .fd = ec_client_fd(client), .events = POLLIN };
    ck_assert_int_eq(poll(&readable, 1, DAEMON_WAIT_MS), 1);
    ck_assert_int_eq(ec_client_dispatch(client), EC_ERR_DISCONNECTED);
    ck_assert_int_eq(ec_client_state(client), EC_DISCONNECTED);
    engine = (struct daemon_process) { 0 };
    line_client_close(&operator);
    set_up(); /* for the tear-down */
}
END_TEST

START_TEST(with_a_thread_there_is_nothing_to_poll)
{
    client = connect_with("thread", false);
    ck_assert_int_eq(ec_client_fd(client), -1);
    ck_assert_int_eq(ec_client_dispatch(client), EC_AGAIN);
}
END_TEST

static void tell(void *context, enum ec_client_state state)
{
    ck_assert_int_eq(state, EC_DISCONNECTED);
    ck_assert_int_eq((int)write(*(int *)context, "x", 1), 1);
}

START_TEST(the_program_is_told_when_the_daemon_dies_and_goes_on)
{
    int ends[2];
    char byte, *result = NULL;
    struct ec_client_desc desc = { .name = "survivor", .on_state = tell, .context = &ends[1] };

    desc.socket_path = engine.socket_path;
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_msg(ec_client_create(&desc, &client, &why) == EC_OK, "%s", why.text);
    ck_assert_int_eq(daemon_kill(&engine), -SIGKILL);
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    ck_assert_int_eq(ec_client_state(client), EC_DISCONNECTED);
    ck_assert_int_eq(ec_client_call(client, "core.ping", NULL, &result, &why), EC_ERR_DISCONNECTED);
    /* what was mapped stays */
    ck_assert_uint_eq(ec_client_clock(client)->header.kind, EC_SEGMENT_CLOCK);
    ck_assert_uint_eq(ec_client_directory(client)->header.kind, EC_SEGMENT_DIRECTORY);
    ec_client_destroy(client);
    client = NULL;
    close(ends[0]);
    close(ends[1]);
    engine = (struct daemon_process) { 0 };
    line_client_close(&operator);
    set_up(); /* for the tear-down */
}
END_TEST

START_TEST(no_daemon_is_an_error_that_names_the_path)
{
    const struct ec_client_desc desc = { .name = "early", .socket_path = "/nowhere/socket" };

    ck_assert_int_eq(ec_client_create(&desc, &client, &why), EC_ERR_DISCONNECTED);
    ck_assert_ptr_nonnull(strstr(why.text, "/nowhere/socket"));
    ck_assert_ptr_null(client);
}
END_TEST

/* A game that forks a helper and is killed: the helper must not keep it alive for the daemon. */
static void run_game_with_child(int child_lives_fd, int end_fd)
{
    struct ec_client *game = connect_with("forking game", false);
    char byte;

    if (fork() == 0) {
        struct ec_client_private *kept = game->private;

        /* private memory now, and calls fail instead of reading the parent's socket */
        ec_client_own(game)->pulse.frame = 99;
        byte = kept != NULL && ec_client_state(game) == EC_DISCONNECTED &&
                       ec_client_call(game, "core.ping", NULL, NULL, NULL) == EC_ERR_DISCONNECTED
                   ? 'y'
                   : 'n';
        if (write(child_lives_fd, &byte, 1) == 1 && read(end_fd, &byte, 1) == 0)
            _exit(0);
        _exit(1);
    }
    pause();
}

START_TEST(a_forked_child_does_not_keep_its_dead_parent_connected)
{
    int lives[2], end[2], status;
    char byte = 0;
    pid_t game;

    ck_assert_ptr_nonnull(
        line_client_call(&operator, "event.subscribe", "{\"types\":[\"client.left\"]}"));
    ck_assert_int_eq(pipe(lives), 0);
    ck_assert_int_eq(pipe(end), 0);
    game = fork();
    if (game == 0) {
        close(end[1]);
        run_game_with_child(lives[1], end[0]);
        _exit(1);
    }
    close(end[0]);
    ck_assert_int_eq(read(lives[0], &byte, 1), 1);
    ck_assert_int_eq(byte, 'y');
    kill(game, SIGKILL);
    ck_assert_int_eq(waitpid(game, &status, 0), game);
    wait_for_left("forking game"); /* while the child still lives */
    close(end[1]);
    close(lives[0]);
    close(lives[1]);
}
END_TEST

START_TEST(signal_handlers_and_masks_of_the_program_stay_as_they_are)
{
    struct sigaction before[NSIG], after;
    sigset_t mask_before, mask_after;

    pthread_sigmask(SIG_SETMASK, NULL, &mask_before);
    for (int number = 1; number < NSIG; number++)
        sigaction(number, NULL, &before[number]);
    client = connect_with("quiet", false);
    ping(client, 1);
    for (int number = 1; number < NSIG; number++) {
        if (sigaction(number, NULL, &after) == 0)
            ck_assert_msg(after.sa_handler == before[number].sa_handler, "signal %d", number);
    }
    pthread_sigmask(SIG_SETMASK, NULL, &mask_after);
    for (int number = 1; number < NSIG; number++)
        ck_assert_int_eq(sigismember(&mask_after, number), sigismember(&mask_before, number));
}
END_TEST

/* The line that begins with name in a file of /proc; false: there is none. */
static bool find_line(const char *path, const char *name, char *value, size_t bytes)
{
    FILE *file = fopen(path, "re");
    char line[256];
    bool found = false;

    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, name, strlen(name)) != 0)
            continue;
        snprintf(value, bytes, "%s", line + strlen(name));
        found = true;
    }
    if (file != NULL)
        fclose(file);
    return found;
}

START_TEST(the_service_thread_has_a_name_and_blocks_all_signals)
{
    struct dirent *entry;
    unsigned found = 0;
    DIR *tasks;

    client = connect_with("named", false);
    tasks = opendir("/proc/self/task");
    while ((entry = readdir(tasks)) != NULL) {
        char path[300], name[64], blocked[64];
        unsigned long long mask;

        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        if (!find_line(path, "Name:\t", name, sizeof name) || strcmp(name, "ec-service\n") != 0)
            continue;
        ck_assert(find_line(path, "SigBlk:\t", blocked, sizeof blocked));
        mask = strtoull(blocked, NULL, 16);
        for (int number = 1; number < 32; number++)
            if (number != SIGKILL && number != SIGSTOP)
                ck_assert_msg((mask >> (number - 1) & 1) != 0, "signal %d", number);
        found++;
    }
    closedir(tasks);
    ck_assert_uint_eq(found, 1);
}
END_TEST

START_TEST(all_descriptors_are_closed_on_exec)
{
    client = connect_with("careful", false);
    for (int fd = 3; fd < 256; fd++) {
        const int flags = fcntl(fd, F_GETFD);
        char path[32], target[64];
        ssize_t bytes;

        if (flags < 0 || (flags & FD_CLOEXEC) != 0)
            continue;
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        bytes = readlink(path, target, sizeof target - 1);
        target[bytes > 0 ? bytes : 0] = '\0';
        /* what Check opened for itself is a file */
        ck_assert_msg(target[0] == '/' || strncmp(target, "pipe:", 5) == 0, "fd %d is %s", fd,
                      target);
    }
}
END_TEST

START_TEST(connecting_and_destroying_leaves_nothing_behind)
{
    unsigned descriptors, threads;

    client = connect_with("first", false);
    ec_client_destroy(client);
    descriptors = count_entries("/proc/self/fd");
    threads = count_entries("/proc/self/task");
    for (unsigned i = 0; i < 100; i++) {
        client = connect_with("next", i % 2 == 1);
        ec_client_thread_slot(client);
        ec_client_destroy(client);
    }
    client = NULL;
    ck_assert_uint_eq(count_entries("/proc/self/fd"), descriptors);
    ck_assert_uint_eq(count_entries("/proc/self/task"), threads);
}
END_TEST

START_TEST(a_daemon_that_does_not_answer_is_a_time_out)
{
    struct ec_client_desc desc = { .name = "patient", .timeout_ms = 1000 };
    char *result = NULL;

    desc.socket_path = engine.socket_path;
    ck_assert_msg(ec_client_create(&desc, &client, &why) == EC_OK, "%s", why.text);
    kill(engine.pid, SIGSTOP);
    ck_assert_int_eq(ec_client_call(client, "core.ping", NULL, &result, &why), EC_ERR_TIMEOUT);
    ck_assert_int_eq(ec_client_state(client), EC_CONNECTED);
    kill(engine.pid, SIGCONT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("library");
    TCase *tests = tcase_create("library");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, a_client_is_attached_from_create_to_destroy, 0, 2);
    tcase_add_loop_test(tests, a_call_right_after_create_is_answered, 0, 2);
    tcase_add_loop_test(tests, many_threads_may_call_at_once, 0, 2);
    tcase_add_test(tests, an_error_of_the_daemon_comes_back_with_its_code);
    tcase_add_test(tests, several_clients_live_in_one_process);
    tcase_add_test(tests, without_a_thread_the_program_dispatches);
    tcase_add_test(tests, with_a_thread_there_is_nothing_to_poll);
    tcase_add_test(tests, the_program_is_told_when_the_daemon_dies_and_goes_on);
    tcase_add_test(tests, no_daemon_is_an_error_that_names_the_path);
    tcase_add_test(tests, a_forked_child_does_not_keep_its_dead_parent_connected);
    tcase_add_test(tests, signal_handlers_and_masks_of_the_program_stay_as_they_are);
    tcase_add_test(tests, the_service_thread_has_a_name_and_blocks_all_signals);
    tcase_add_test(tests, all_descriptors_are_closed_on_exec);
    tcase_add_test(tests, connecting_and_destroying_leaves_nothing_behind);
    tcase_add_test(tests, a_daemon_that_does_not_answer_is_a_time_out);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
