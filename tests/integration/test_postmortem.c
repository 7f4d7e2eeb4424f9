/* Who dies leaves a record: clients that had attached, by whatever cause, and the daemon itself. */
#include <engine-core/clock.h>
#include <engine-core/log.h>
#include <engine-core/memory.h>
#include <engine-core/pool.h>
#include <engine-core/publisher.h>

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "support/daemon.h"
#include "support/engine_ctl.h"
#include "support/fixture.h"
#include "support/game.h"
#include "support/reply.h"

static struct daemon_process engine;
static struct line_client operator;
static struct engine_ctl ctl;

static void set_up(void)
{
    fixture_start(&engine, &operator, NULL);
}

static void tear_down(void)
{
    fixture_stop(&engine, &operator);
}

/* The record of a client, once it is there. */
static const char *await_record(unsigned id)
{
    char params[32];
    const char *reply;

    snprintf(params, sizeof params, "{\"id\":%u}", id);
    for (;;) { /* the test's own time-out ends this */
        reply = line_client_call(&operator, "postmortem.get", params);
        if (reply_at(reply, "result").text != NULL)
            return reply;
    }
}

static unsigned count_records(void)
{
    struct ec_json_iterator items = ec_json_iterate(
        reply_at(line_client_call(&operator, "postmortem.list", "{}"), "result/items"));
    struct ec_json_span item;
    unsigned count = 0;

    while (ec_json_next_element(&items, &item))
        count++;
    return count;
}

enum ending { BY_SIGNAL, BY_EXIT, BY_DETACH };

static const struct {
    enum ending ending;
    int number; /* of the signal, or the exit code */
    const char *cause;
} endings[] = {
    { BY_SIGNAL, SIGKILL, "signal" }, { BY_SIGNAL, SIGHUP, "signal" },
    { BY_SIGNAL, SIGQUIT, "signal" }, { BY_EXIT, 3, "exit" },
    { BY_EXIT, 0, "exit" },
};

static int play(const struct game_side *side)
{
    const int at = *(const int *)side->context;
    struct ec_client *client = game_join("doomed", engine.socket_path);
    struct ec_pool_desc desc = { .client = client, .name = "bullets", .block_bytes = 64 };
    struct ec_event_type_desc shot = { .name = "game.shot", .max_bytes = 8 };
    struct ec_publisher_desc port = { .name = "shots", .ring_bytes = 65536 };
    struct ec_publisher *publisher;
    struct ec_frame frame;
    struct ec_pool *pool;

    GAME_CHECK(ec_pool_create(&desc, &pool, NULL) == EC_OK);
    for (int i = 0; i < 100; i++)
        GAME_CHECK(ec_pool_alloc(pool) != NULL);
    GAME_CHECK(ec_event_type_register(client, &shot, NULL, NULL) == EC_OK);
    GAME_CHECK(ec_publisher_create(client, &port, &publisher, NULL) == EC_OK);
    for (uint64_t i = 0; i < 20; i++) /* more than are kept */
        GAME_CHECK(ec_publisher_publish(publisher, ec_event_type("game.shot"), &i, sizeof i) ==
                   EC_OK);
    ec_frame_begin(client, &frame);
    for (int i = 0; i < 40; i++) /* more than are kept */
        ec_log(client, "line %d \x1b[31m of \xff%s", i, "the game");
    game_say(side);
    game_hear(side);
    if (at < 0)
        ec_client_destroy(client);
    else if (endings[at].ending == BY_EXIT)
        _exit(endings[at].number);
    else
        kill(getpid(), endings[at].number);
    pause();
    return 0;
}

/* Let a game come to its end. */
static void end_game(int at)
{
    struct game game = game_start(play, &at);

    game_await(&game);
    game_tell(&game);
    game_end(&game);
}

START_TEST(each_death_of_a_client_leaves_a_record)
{
    const char *reply;

    end_game(_i);
    reply = await_record(1);
    ck_assert_str_eq(reply_text(reply, "result/kind"), "client");
    ck_assert_str_eq(reply_text(reply, "result/name"), "doomed");
    /* How it ended is known where the kernel tells: since Linux 6.15, or while nobody has collected it. */
    if (strcmp(reply_text(reply, "result/cause"), "unknown") != 0) {
        ck_assert_str_eq(reply_text(reply, "result/cause"), endings[_i].cause);
        ck_assert_int_eq(
            reply_number(reply, endings[_i].ending == BY_EXIT ? "result/code" : "result/signal"),
            endings[_i].number);
    }
    ck_assert_int_eq(reply_number(reply, "result/last_frame"), 1);
    ck_assert_int_ge(reply_number(reply, "result/memory/bytes"), 6400);
    ck_assert_int_eq(reply_number(reply, "result/memory/allocators/name=bullets/current_bytes"),
                     6400);
    /* The last 32 lines, with what could drive a terminal or is no text taken out. */
    ck_assert_str_eq(reply_text(reply, "result/log/0/message"), "line 8 ?[31m of ?the game");
    ck_assert_str_eq(reply_text(reply, "result/log/31/message"), "line 39 ?[31m of ?the game");
    ck_assert_ptr_null(reply_at(reply, "result/log/32").text);
    ck_assert_ptr_nonnull(reply_at(reply, "result/daemon_log/0").text);
    /* The last eight events of its port. */
    ck_assert_str_eq(reply_text(reply, "result/events/0/type"), "game.shot");
    ck_assert_int_eq(reply_number(reply, "result/events/0/sequence"), 12);
    ck_assert_int_eq(reply_number(reply, "result/events/7/sequence"), 19);
    ck_assert_int_eq(reply_number(reply, "result/events/7/bytes"), 8);
    ck_assert_ptr_null(reply_at(reply, "result/events/8").text);
}
END_TEST

START_TEST(who_detaches_leaves_none)
{
    int at = -1;
    struct game game = game_start(play, &at);

    game_await(&game);
    game_tell(&game);
    fixture_await_clients(&operator, 1);
    game_kill(&game); /* after it has said goodbye */
    end_game(0);
    await_record(1); /* a record takes a moment: one of the first would have come before */
    ck_assert_uint_eq(count_records(), 1);
}
END_TEST

START_TEST(a_client_that_dies_while_the_daemon_is_away_leaves_one_too)
{
    static const char *const with_store[] = { "--set", "core.descriptor_store=true", NULL };
    int at = 0;
    struct game game;
    const char *reply;

    line_client_close(&operator);
    daemon_crash(&engine);
    engine.keeps_descriptors = true;
    ck_assert_msg(daemon_start(&engine, with_store), "%s", engine.why);
    game = game_start(play, &at);
    game_await(&game);
    daemon_crash(&engine);
    game_kill(&game);
    ck_assert_msg(daemon_start(&engine, with_store), "%s", engine.why);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    reply = await_record(3); /* after those of two daemons */
    ck_assert_str_eq(reply_text(reply, "result/name"), "doomed");
    ck_assert_str_eq(reply_text(reply, "result/log/31/message"), "line 39 ?[31m of ?the game");
}
END_TEST

/* ---- the daemon ------------------------------------------------------------------------------ */

/* Until nothing more fits. */
static void fill_up(const char *path)
{
    static const char zeros[4096];
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    ck_assert_int_ge(fd, 0);
    while (write(fd, zeros, sizeof zeros) > 0)
        ;
    ck_assert_int_eq(errno, ENOSPC);
    close(fd);
}

static void await_on_disk(unsigned index, const char *expected)
{
    char path[48];
    struct ec_json_span value;

    snprintf(path, sizeof path, "result/items/%u/on_disk", index);
    do /* the test's own time-out ends this */
        value = reply_at(line_client_call(&operator, "postmortem.list", "{}"), path);
    while (value.bytes != strlen(expected) || memcmp(value.text, expected, value.bytes) != 0);
}

static const struct {
    int signal;
    const char *cause;
} daemon_ends[] = {
    { SIGKILL, "killed" }, { SIGSEGV, "signal" }, { SIGABRT, "signal" }, { SIGBUS, "signal" }
};

START_TEST(a_daemon_that_dies_leaves_a_record_for_the_next)
{
    const char *reply;
    char module[512];

    line_client_close(&operator);
    ck_assert_int_eq(kill(engine.pid, daemon_ends[_i].signal), 0);
    ck_assert_int_eq(
        poll(&(struct pollfd) { .fd = engine.pidfd, .events = POLLIN }, 1, DAEMON_WAIT_MS), 1);
    daemon_crash(&engine); /* it is dead already: only collect it */
    ck_assert_msg(daemon_start(&engine, NULL), "%s", engine.why);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    reply = await_record(1);
    ck_assert_str_eq(reply_text(reply, "result/kind"), "daemon");
    ck_assert_str_eq(reply_text(reply, "result/cause"), daemon_ends[_i].cause);
    ck_assert_ptr_nonnull(reply_at(reply, "result/log/0/message").text);
    if (daemon_ends[_i].signal == SIGKILL)
        return;
    ck_assert_int_eq(reply_number(reply, "result/signal"), daemon_ends[_i].signal);
    snprintf(module, sizeof module, "%s", reply_text(reply, "result/frames/0/module"));
    ck_assert_ptr_nonnull(strchr(module, '/'));
    ck_assert_uint_gt(strlen(reply_text(reply, "result/frames/0/offset")), 2);
    /* The stack goes through libc and libuv to the beginning, and has names where the files have. */
    engine_ctl_open(&ctl, &engine);
    ck_assert_int_eq(ENGINE_CTL(&ctl, "--json", "postmortem", "show", "1"), 0);
    ck_assert_ptr_nonnull(strstr(ctl.text, "\"function\":\"main\""));
    ck_assert_int_eq(ENGINE_CTL(&ctl, "postmortem", "show", "1"), 0);
    ck_assert_ptr_nonnull(strstr(ctl.text, " main "));
}
END_TEST

/* A disk without room: the record stays in memory, and goes to disk with the next one that can. */
START_TEST(a_record_waits_in_memory_for_room_on_the_disk)
{
    char directory[96], argument[128], filler[128];
    const char *arguments[] = { "--set", argument, NULL };
    const char *reply;

    fixture_stop(&engine, &operator);
    engine = (struct daemon_process) { 0 };
    ck_assert(daemon_prepare(&engine));
    snprintf(directory, sizeof directory, "%s/disk", engine.directory);
    ck_assert_int_eq(mkdir(directory, 0700), 0);
    snprintf(argument, sizeof argument, "postmortem.directory=%s/records", directory);
    if (mount("none", directory, "tmpfs", MS_NOSUID, "size=64k") < 0) {
        perror("no disk without room: mount");
        fixture_start(&engine, &operator, arguments);
        return;
    }
    snprintf(filler, sizeof filler, "%s/filler", directory);
    fill_up(filler);
    fixture_start(&engine, &operator, arguments);
    end_game(0);
    reply = await_record(1);
    ck_assert_str_eq(reply_text(reply, "result/name"), "doomed");
    await_on_disk(0, "false");
    ck_assert_int_eq(unlink(filler), 0);
    end_game(0);
    await_record(2);
    await_on_disk(0, "true");
    await_on_disk(1, "true");
    line_client_close(&operator);
    daemon_crash(&engine); /* another one finds both, and makes a third */
    ck_assert_msg(daemon_start(&engine, arguments), "%s", engine.why);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    await_record(3);
    ck_assert_str_eq(reply_text(await_record(1), "result/name"), "doomed");
    ck_assert_str_eq(reply_text(await_record(2), "result/name"), "doomed");
    ck_assert_int_eq(umount2(directory, MNT_DETACH), 0);
}
END_TEST

START_TEST(a_daemon_that_ends_in_good_order_leaves_none)
{
    char path[160];

    line_client_close(&operator);
    daemon_end(&engine);
    snprintf(path, sizeof path, "%s.crash", engine.socket_path);
    ck_assert_int_ne(access(path, F_OK), 0);
    ck_assert_msg(daemon_start(&engine, NULL), "%s", engine.why);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    ck_assert_uint_eq(count_records(), 0);
}
END_TEST

static const char *const crash_files[] = { "", "short", "\0\0\0\0" };

START_TEST(a_crash_file_that_makes_no_sense_is_passed_over)
{
    char path[160], bytes[65536];
    int fd;

    line_client_close(&operator);
    daemon_crash(&engine);
    snprintf(path, sizeof path, "%s.crash", engine.socket_path);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    memset(bytes, 0xa5, sizeof bytes);
    if (_i == 2)
        ck_assert_int_eq(write(fd, bytes, sizeof bytes), (ssize_t)sizeof bytes);
    else
        ck_assert_int_eq(write(fd, crash_files[_i], strlen(crash_files[_i])),
                         (ssize_t)strlen(crash_files[_i]));
    close(fd);
    ck_assert_msg(daemon_start(&engine, NULL), "%s", engine.why);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    ck_assert_uint_eq(count_records(), 0);
}
END_TEST

START_TEST(a_crash_file_of_another_user_is_passed_over)
{
    char path[160];

    if (geteuid() != 0) {
        fputs("not root: no file can be given away\n", stderr);
        return;
    }
    line_client_close(&operator);
    daemon_crash(&engine);
    snprintf(path, sizeof path, "%s.crash", engine.socket_path);
    ck_assert_int_eq(chown(path, 65534, (gid_t)-1), 0);
    ck_assert_msg(daemon_start(&engine, NULL), "%s", engine.why);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    ck_assert_uint_eq(count_records(), 0);
}
END_TEST

/* ---- bounds ---------------------------------------------------------------------------------- */

START_TEST(only_the_newest_records_stay)
{
    static const char *const few[] = { "--set", "postmortem.count=2", NULL };
    const char *reply;

    fixture_restart(&engine, &operator, few);
    for (int i = 0; i < 4; i++)
        end_game(0);
    await_record(4);
    reply = line_client_call(&operator, "postmortem.list", "{}");
    ck_assert_int_eq(reply_number(reply, "result/items/0/id"), 4);
    ck_assert_int_eq(reply_number(reply, "result/items/1/id"), 3);
    ck_assert_ptr_null(reply_at(reply, "result/items/2").text);
    reply = line_client_call(&operator, "postmortem.get", "{\"id\":1}");
    ck_assert_int_eq(reply_number(reply, "error/code"), -32005);
}
END_TEST

/* A directory that cannot be made stands for a disk that is full: nothing can be written there. */
START_TEST(a_record_that_cannot_be_written_is_kept_in_memory)
{
    char directory[128];
    const char *arguments[] = { "--set", directory, NULL };
    const char *reply;

    snprintf(directory, sizeof directory, "postmortem.directory=/proc/none/such");
    fixture_restart(&engine, &operator, arguments);
    end_game(0);
    await_record(1);
    reply = line_client_call(&operator, "postmortem.list", "{}");
    ck_assert_ptr_nonnull(strstr(reply, "\"on_disk\":false"));
    ck_assert_str_eq(reply_text(reply, "result/items/0/name"), "doomed");
    for (unsigned i = 0; i < 8; i++)
        end_game(0);
    while (!daemon_has_said(&engine, "record 1 is lost: "))
        ; /* the test's own time-out ends this */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("postmortem");
    TCase *tcase = tcase_create("postmortem");
    SRunner *runner;
    int failed;

    signal(SIGPIPE, SIG_IGN);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, each_death_of_a_client_leaves_a_record, 0, 5);
    tcase_add_test(tcase, who_detaches_leaves_none);
    tcase_add_test(tcase, a_client_that_dies_while_the_daemon_is_away_leaves_one_too);
    tcase_add_loop_test(tcase, a_daemon_that_dies_leaves_a_record_for_the_next, 0, 4);
    tcase_add_test(tcase, a_daemon_that_ends_in_good_order_leaves_none);
    tcase_add_loop_test(tcase, a_crash_file_that_makes_no_sense_is_passed_over, 0, 3);
    tcase_add_test(tcase, a_crash_file_of_another_user_is_passed_over);
    tcase_add_test(tcase, only_the_newest_records_stay);
    tcase_add_test(tcase, a_record_that_cannot_be_written_is_kept_in_memory);
    tcase_add_test(tcase, a_record_waits_in_memory_for_room_on_the_disk);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
