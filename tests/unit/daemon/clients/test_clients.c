/* A client ends with its connection and its process, in either order, and others are told once. */
#include "clients/clients.h"

#include <check.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "clients/clients_private.h"
#include "daemon/config.h"
#include "daemon/services.h"

static uv_loop_t loop;
static struct services services;
static struct clients *clients;
static struct ec_error why;
static char directory[64];
static struct sockaddr_un address;
static int listener;

/* What the hooks and the output were told, in order: "a3 l3 e3 c" and so on. */
static char told[512];

static void tell(char what, const struct client *client)
{
    size_t bytes = strlen(told);

    snprintf(told + bytes, sizeof told - bytes, "%c%u%s ", what, client->id,
             client_segment(client) == NULL ? "-" : "");
}

static void on_attached(void *context, struct client *client)
{
    (void)context;
    tell('a', client);
}

static void on_left(void *context, struct client *client)
{
    (void)context;
    tell('l', client);
}

static void on_ended(void *context, struct client *client)
{
    (void)context;
    ck_assert(!client->attached);
    tell('e', client);
    uv_stop(&loop);
}

static void describe(void *context, struct client *client, struct ec_json_writer *writer)
{
    (void)context;
    ec_json_member_u64(writer, "described", client->id);
}

static char notified[256];

static int notify(void *connection, const char *line, size_t bytes, const int *fds,
                  unsigned fd_count)
{
    (void)connection;
    (void)fds;
    (void)fd_count;
    snprintf(notified, sizeof notified, "%.*s", (int)bytes, line);
    return EC_OK;
}

/* connection is the place of the client, or NULL when the test hangs up later. */
static void close_connection(void *connection, const char *reason)
{
    strcat(told, "c ");
    ck_assert(strcmp(reason, "process ended") == 0 ||
              strcmp(reason, "it came back over another connection") == 0);
    if (connection != NULL)
        clients_hang_up(clients, *(struct client **)connection, reason);
}

static const struct client_output output = { .notify = notify, .close = close_connection };

static void start(const char *set)
{
    const char *const sets[] = { set };
    const struct config_source source = { .sets = sets, .set_count = set == NULL ? 0 : 1 };
    const struct client_hooks hooks = {
        .attached = on_attached, .left = on_left, .ended = on_ended, .describe = describe
    };

    uv_loop_init(&loop);
    services.loop = &loop;
    ck_assert_msg(config_create(&source, &services.config, &why) == EC_OK, "%s", why.text);
    ck_assert_msg(clients_init(&services, &why) == EC_OK, "%s", why.text);
    clients = services.clients;
    clients_add_hooks(clients, &hooks, NULL);
    told[0] = '\0';
}

static void set_up(void)
{
    strcpy(directory, "/tmp/clients-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    chmod(directory, 0755);
    address.sun_family = AF_UNIX;
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", directory);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(listener, 64), 0);
    chmod(address.sun_path, 0777);
}

static void tear_down(void)
{
    if (clients != NULL) {
        clients_shutdown(&services);
        while (uv_run(&loop, UV_RUN_DEFAULT) != 0) /* again when a test had stopped it */
            ;
        ck_assert_int_eq(uv_loop_close(&loop), 0); /* nothing was left on it */
        config_destroy(services.config);
    }
    close(listener);
    unlink(address.sun_path);
    rmdir(directory);
}

static bool connect_here(void)
{
    return connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address) ==
           0;
}

/* A process that connects as this user and group and then waits to be killed. */
static pid_t start_process(uid_t uid, gid_t gid)
{
    pid_t child = fork();

    if (child != 0)
        return child;
    if ((gid != getegid() && (setgroups(0, NULL) < 0 || setgid(gid) < 0)) ||
        (uid != geteuid() && setuid(uid) < 0))
        _exit(1);
    if (!connect_here())
        _exit(1);
    for (;;)
        pause();
}

/* One that connects twice. */
static pid_t start_process_twice(void)
{
    pid_t child = fork();

    if (child != 0)
        return child;
    if (!connect_here() || !connect_here())
        _exit(1);
    for (;;)
        pause();
}

static void end_process(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static int connect_client(void *connection, struct client **client)
{
    int fd = accept(listener, NULL, NULL);
    int rc = clients_connect(clients, fd, &output, connection, client, &why);

    close(fd);
    return rc;
}

static struct client *connected(void *connection, const char *name)
{
    struct client *client;

    ck_assert_msg(connect_client(connection, &client) == EC_OK, "%s", why.text);
    if (name != NULL)
        ck_assert_int_eq(clients_introduce(clients, client, name, client->role_max, &why), EC_OK);
    return client;
}

static void attach(struct client *client)
{
    const struct ec_segment_desc descs[] = {
        { .name = "client", .kind = EC_SEGMENT_CLIENT, .bytes = sizeof(struct ec_client_segment) },
        { .name = "cursor", .kind = EC_SEGMENT_CURSOR, .bytes = sizeof(struct ec_cursor_segment) },
    };
    struct attachment attachment;
    int fds[ATTACH_PARTS];

    for (int i = 0; i < 2; i++) {
        struct ec_segment segment;

        ck_assert_int_eq(ec_segment_init(&segment, &descs[i], &why), EC_OK);
        fds[i] = dup(segment.fd);
        ec_segment_finish(&segment);
    }
    fds[ATTACH_DOORBELL] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ck_assert_msg(clients_may_attach(clients, client, &why) == EC_OK, "%s", why.text);
    ck_assert_msg(attachment_init(&attachment, fds, true, &why) == EC_OK, "%s", why.text);
    ck_assert_int_eq(clients_attach(clients, client, &attachment, fds, 0, &why), EC_OK);
    ck_assert_int_eq(fds[0], -1);
}

START_TEST(a_connection_gets_pid_uid_and_role_and_its_id_at_hello)
{
    struct client *client, *other;
    pid_t pid = start_process(geteuid(), getegid()), second = start_process(geteuid(), getegid());

    start(NULL);
    client = connected(NULL, NULL);
    ck_assert(client->pid == pid || client->pid == second);
    ck_assert_uint_eq(client->uid, geteuid());
    ck_assert_int_eq(client->role, EC_ROLE_OPERATOR);
    ck_assert_uint_eq(client->id, 0);
    ck_assert_uint_eq(clients_count(clients), 0);
    ck_assert_int_eq(clients_introduce(clients, client, "one", EC_ROLE_GAME, &why), EC_OK);
    ck_assert_uint_eq(client->id, 1);
    ck_assert_str_eq(client->name, "one");
    ck_assert_int_eq(client->role, EC_ROLE_GAME);
    ck_assert_ptr_eq(clients_find(clients, 1), client);
    ck_assert_uint_eq(clients_count(clients), 1);
    other = connected(NULL, "two");
    ck_assert_uint_eq(other->id, 2);
    ck_assert_ptr_eq(clients_next(clients, NULL), client);
    ck_assert_ptr_eq(clients_next(clients, client), other);
    ck_assert_ptr_null(clients_next(clients, other));
    ck_assert_ptr_null(clients_find(clients, 0));
    ck_assert_ptr_null(clients_find(clients, 3));
    end_process(pid);
    end_process(second);
}
END_TEST

START_TEST(hello_is_said_once_and_asks_for_no_more_than_the_peer_may_have)
{
    struct client *client;
    pid_t pid = start_process(geteuid(), getegid());

    start(NULL);
    client = connected(NULL, NULL);
    client->role_max = EC_ROLE_GAME;
    ck_assert_int_eq(clients_introduce(clients, client, "x", EC_ROLE_OPERATOR, &why),
                     EC_ERR_PERMISSION);
    ck_assert_ptr_nonnull(strstr(why.text, "role operator"));
    ck_assert_uint_eq(client->id, 0);
    ck_assert_int_eq(clients_introduce(clients, client, "x", EC_ROLE_OBSERVER, &why), EC_OK);
    ck_assert_int_eq(clients_introduce(clients, client, "y", EC_ROLE_OBSERVER, &why), EC_ERR_STATE);
    ck_assert_str_eq(client->name, "x");
    end_process(pid);
}
END_TEST

START_TEST(who_never_attached_ends_with_its_connection)
{
    struct client *client;
    pid_t pid = start_process(geteuid(), getegid());

    start(NULL);
    client = connected(NULL, "tool");
    clients_hang_up(clients, client, "end of file");
    ck_assert_str_eq(told, "l1- e1- ");
    ck_assert_ptr_null(clients_next(clients, NULL));
    ck_assert_ptr_null(clients_next_dead(clients, NULL));
    ck_assert_str_eq(closed_clients_at(&clients->closed, 0)->reason, "end of file");
    ck_assert_str_eq(closed_clients_at(&clients->closed, 0)->name, "tool");
    end_process(pid);
}
END_TEST

START_TEST(attach_needs_hello_and_happens_once)
{
    struct client *client;
    pid_t pid = start_process(geteuid(), getegid());

    start(NULL);
    client = connected(NULL, NULL);
    ck_assert_int_eq(clients_may_attach(clients, client, &why), EC_ERR_STATE);
    clients_introduce(clients, client, "game", EC_ROLE_GAME, &why);
    attach(client);
    ck_assert(client->attached);
    ck_assert_ptr_nonnull(client_segment(client));
    ck_assert_ptr_nonnull(client_cursors(client));
    ck_assert_int_eq(clients_may_attach(clients, client, &why), EC_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(why.text, "attached already"));
    ck_assert_str_eq(told, "a1 ");
    end_process(pid);
}
END_TEST

START_TEST(detach_gives_everything_back_and_it_may_attach_again)
{
    struct client *client;
    pid_t pid = start_process(geteuid(), getegid());

    start(NULL);
    client = connected(NULL, "game");
    ck_assert_int_eq(clients_detach(clients, client, &why), EC_ERR_STATE);
    attach(client);
    ck_assert_int_eq(clients_detach(clients, client, &why), EC_OK);
    ck_assert_str_eq(told, "a1 l1 e1- ");
    ck_assert(!client->attached);
    ck_assert_ptr_null(client_segment(client));
    ck_assert_ptr_null(client_cursors(client));
    ck_assert_int_eq(client->doorbell_fd, -1);
    attach(client);
    clients_detach(clients, client, &why);
    clients_hang_up(clients, client, "end of file");
    ck_assert_str_eq(told, "a1 l1 e1- a1 l1 e1- l1- e1- ");
    ck_assert_ptr_null(clients_next(clients, NULL));
    end_process(pid);
}
END_TEST

START_TEST(a_process_that_ends_first_closes_its_connection)
{
    struct client *client, *dead;
    pid_t pid = start_process(geteuid(), getegid());

    start(NULL);
    client = connected(&client, "game");
    attach(client);
    end_process(pid);
    uv_run(&loop, UV_RUN_DEFAULT); /* until it is told that it ended */
    ck_assert_str_eq(told, "a1 l1 e1 c ");
    ck_assert_ptr_null(clients_next(clients, NULL));
    dead = clients_next_dead(clients, NULL);
    ck_assert_ptr_eq(dead, client);
    ck_assert_int_eq(dead->state, CLIENT_DEAD);
    ck_assert_ptr_nonnull(client_segment(dead)); /* for memory.report */
    ck_assert_ptr_null(client_cursors(dead));
    ck_assert_ptr_null(clients_find(clients, 1));
    ck_assert_str_eq(closed_clients_at(&clients->closed, 0)->reason, "process ended");
}
END_TEST

START_TEST(a_connection_that_ends_first_leaves_the_references_to_the_process)
{
    struct client *client;
    pid_t pid = start_process(geteuid(), getegid());

    start(NULL);
    client = connected(NULL, "game");
    attach(client);
    clients_hang_up(clients, client, "end of file");
    ck_assert_str_eq(told, "a1 l1 ");
    ck_assert_int_eq(client->state, CLIENT_GONE);
    ck_assert(client->attached);
    ck_assert_ptr_eq(clients_find(clients, 1), client);
    ck_assert_uint_eq(clients_count(clients), 0);
    end_process(pid);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_str_eq(told, "a1 l1 e1 ");
    ck_assert_ptr_eq(clients_next_dead(clients, NULL), client);
}
END_TEST

START_TEST(a_connection_may_be_closed_later_than_its_process_ended)
{
    struct client *client;
    pid_t pid = start_process(geteuid(), getegid());

    start(NULL);
    client = connected(NULL, "game");
    attach(client);
    end_process(pid);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_str_eq(told, "a1 l1 e1 c ");
    ck_assert_ptr_null(clients_next(clients, NULL));
    clients_hang_up(clients, client, "closed");
    ck_assert_str_eq(told, "a1 l1 e1 c "); /* nobody is told twice */
    ck_assert_ptr_eq(clients_next_dead(clients, NULL), client);
}
END_TEST

START_TEST(a_process_that_came_back_ends_once_though_its_old_connection_is_not_closed_yet)
{
    struct client *before, *back;
    pid_t pid = start_process_twice();

    start(NULL);
    before = connected(NULL, "game");
    attach(before);
    back = connected(NULL, NULL);
    ck_assert_int_eq(clients_resume(clients, back, 1, true, back->role_max, &why), EC_OK);
    attach(back);
    ck_assert_str_eq(told, "a1 l1 c e1 a1 ");
    uv_run(&loop, UV_RUN_NOWAIT); /* on_ended had stopped it */
    end_process(pid);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_str_eq(told, "a1 l1 c e1 a1 l1 e1 c ");
    clients_hang_up(clients, before, "closed");
    clients_hang_up(clients, back, "closed");
    ck_assert_str_eq(told, "a1 l1 c e1 a1 l1 e1 c ");
    ck_assert_ptr_null(clients_next(clients, NULL));
    ck_assert_ptr_eq(clients_next_dead(clients, NULL), back);
}
END_TEST

START_TEST(only_the_last_dead_ones_are_kept_oldest_first)
{
    struct client *client;
    uint32_t expected = 3;

    start(NULL);
    for (int i = 0; i < CLIENTS_DEAD_MAX + 2; i++) {
        pid_t pid = start_process(geteuid(), getegid());

        client = connected(&client, "game");
        attach(client);
        end_process(pid);
        uv_run(&loop, UV_RUN_DEFAULT);
    }
    for (client = clients_next_dead(clients, NULL); client != NULL;
         client = clients_next_dead(clients, client))
        ck_assert_uint_eq(client->id, expected++);
    ck_assert_uint_eq(expected, CLIENTS_DEAD_MAX + 3);
}
END_TEST

START_TEST(a_limited_number_holds_segments)
{
    struct client *client, *second;
    pid_t pid = start_process(geteuid(), getegid()), other = start_process(geteuid(), getegid());

    start("control.connections=1");
    client = connected(NULL, "game");
    attach(client);
    clients_hang_up(clients, client, "end of file");
    second = connected(NULL, "game");
    ck_assert_int_eq(clients_may_attach(clients, second, &why), EC_ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(why.text, "control.connections = 1"));
    end_process(pid);
    end_process(other);
}
END_TEST

START_TEST(a_stranger_is_refused_and_a_member_of_the_group_is_limited)
{
    struct group *group = getgrgid(65534);
    struct client *client, *second;
    char set[96];
    pid_t stranger, member, again;

    if (geteuid() != 0 || group == NULL) /* only root can be somebody else */
        return;
    snprintf(set, sizeof set, "control.group=%s", group->gr_name);
    start(set);
    stranger = start_process(65533, 65533);
    ck_assert_int_eq(connect_client(NULL, &client), EC_ERR_PERMISSION);
    ck_assert_ptr_nonnull(strstr(why.text, "uid 65533"));
    ck_assert_ptr_null(client);
    member = start_process(65533, 65534);
    client = connected(NULL, NULL);
    ck_assert_int_eq(client->role, EC_ROLE_GAME);
    config_destroy(services.config);
    ck_assert_int_eq(config_create(
                         &(struct config_source) {
                             .sets = (const char *const[]) { "control.connections_per_user=1" },
                             .set_count = 1 },
                         &services.config, &why),
                     EC_OK);
    again = start_process(65533, 65534);
    ck_assert_int_eq(connect_client(NULL, &second), EC_ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(why.text, "control.connections_per_user = 1"));
    end_process(stranger);
    end_process(member);
    end_process(again);
}
END_TEST

START_TEST(a_notification_is_one_json_line_and_nobody_is_notified_after_the_hang_up)
{
    char text[64];
    struct ec_json_writer params;
    struct client *client;
    pid_t pid = start_process(geteuid(), getegid());

    start(NULL);
    client = connected(NULL, "game");
    attach(client);
    ec_json_writer_init(&params, text, sizeof text);
    ec_json_object_begin(&params);
    ec_json_member_u64(&params, "port_id", 5);
    ec_json_object_end(&params);
    ck_assert_int_eq(client_notify(client, "event.port.added", &params, NULL, 0), EC_OK);
    ck_assert_str_eq(
        notified,
        "{\"jsonrpc\":\"2.0\",\"method\":\"event.port.added\",\"params\":{\"port_id\":5}}");
    clients_hang_up(clients, client, "end of file");
    ck_assert_int_eq(client_notify(client, "event.port.added", &params, NULL, 0),
                     EC_ERR_DISCONNECTED);
    end_process(pid);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("clients");
    TCase *tcase = tcase_create("clients");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_connection_gets_pid_uid_and_role_and_its_id_at_hello);
    tcase_add_test(tcase, hello_is_said_once_and_asks_for_no_more_than_the_peer_may_have);
    tcase_add_test(tcase, who_never_attached_ends_with_its_connection);
    tcase_add_test(tcase, attach_needs_hello_and_happens_once);
    tcase_add_test(tcase, detach_gives_everything_back_and_it_may_attach_again);
    tcase_add_test(tcase, a_process_that_ends_first_closes_its_connection);
    tcase_add_test(tcase, a_connection_that_ends_first_leaves_the_references_to_the_process);
    tcase_add_test(tcase, a_connection_may_be_closed_later_than_its_process_ended);
    tcase_add_test(tcase,
                   a_process_that_came_back_ends_once_though_its_old_connection_is_not_closed_yet);
    tcase_add_test(tcase, only_the_last_dead_ones_are_kept_oldest_first);
    tcase_add_test(tcase, a_limited_number_holds_segments);
    tcase_add_test(tcase, a_stranger_is_refused_and_a_member_of_the_group_is_limited);
    tcase_add_test(tcase, a_notification_is_one_json_line_and_nobody_is_notified_after_the_hang_up);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
