/* dry_run: every command that changes something can say what it would do, and then nothing changes.
 *
 * The cases are compared with the command table: a command is either known here to change nothing, or
 * it takes dry_run and has a case. The state of the daemon is compared before and after each case. */
#include <check.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "foundation/real_time.h"
#include "proto/client_segment.h"
#include "proto/cursor_segment.h"
#include "proto/tables.h"
#include "segment/event_port.h"
#include "segment/segment.h"
#include "support/daemon.h"
#include "support/reply.h"

#define STATE_BYTES (256 * 1024)
#define PARAMS_BYTES 512

static struct daemon_process engine;
static struct line_client operator, game, visitor;
static struct ec_segment own, cursors, visitor_own, visitor_cursors;
static struct ec_port_writer port, second_port;
static int doorbell_fd;
/* What the cases speak of. */
static unsigned game_id, timer_id, checkpoint_id, subscription_id, port_id, reader_id,
    reservation_id, log_subscription_id, telemetry_subscription_id;

/* These read; core.hello makes the caller known and is not for rehearsals; event.reader.sync waits. */
/* clang-format off */
static const char *const reading[] = { /* a name a line, so that two may be added at a time */
    "breaker.get",
    "breaker.history",
    "breaker.rehearse",
    "breaker.samples",
    "breaker.trace",
    "client.get",
    "client.list",
    "clock.get",
    "clock.group.get",
    "config.get",
    "core.discover",
    "core.hello",
    "core.info",
    "core.ping",
    "event.list",
    "event.port.sync",
    "event.reader.sync",
    "event.stats",
    "memory.report",
    "memory.leaks",
    "memory.pools",
    "memory.sites",
    "memory.stats",
    "memory.tags",
    "resource.get",
    "resource.list",
    "resource.stats",
    "resource.trace",
    "telemetry.get",
    "telemetry.history",
    "timer.list",
    "postmortem.list", "postmortem.get",
};
/* clang-format on */

enum caller { OPERATOR, GAME, VISITOR };

static const struct {
    const char *method;
    enum caller caller;
    const char *params; /* %u is the number beside it */
    const unsigned *number;
} cases[] = {
    { "core.shutdown", OPERATOR, "", NULL },
    { "core.reload", OPERATOR, "", NULL },
    { "client.attach", VISITOR, "\"real_ns\":1,\"fds\":[\"client\",\"cursor\",\"doorbell\"],",
      NULL },
    { "client.detach", GAME, "", NULL },
    { "client.resumed", GAME, "", NULL },
    { "memory.snapshot", OPERATOR, "\"client_id\":0,", NULL },
    { "memory.observe", OPERATOR, "\"client_id\":%u,\"sample_bytes\":4096,", &game_id },
    { "clock.pause", OPERATOR, "", NULL },
    { "clock.resume", OPERATOR, "", NULL },
    { "clock.scale", OPERATOR, "\"scale\":0.5,", NULL },
    { "clock.scale", OPERATOR, "\"scale\":0,", NULL },
    { "clock.checkpoint", OPERATOR, "\"name\":\"rehearsed\",", NULL },
    { "clock.rollback", OPERATOR, "\"checkpoint_id\":%u,", &checkpoint_id },
    { "clock.rollback", OPERATOR, "\"game_ns\":0,", NULL },
    { "clock.step.create", OPERATOR, "\"name\":\"rehearsed\",\"hz\":25,", NULL },
    { "clock.step.rate", OPERATOR, "\"name\":\"own\",\"hz\":25,", NULL },
    { "clock.step.advance", OPERATOR, "\"name\":\"own\",\"steps\":3,", NULL },
    { "clock.group.join", GAME, "\"name\":\"second\",", NULL },
    { "clock.group.leave", GAME, "\"name\":\"own\",", NULL },
    { "timer.arm", GAME, "\"in_ns\":1000000,", NULL },
    { "timer.cancel", GAME, "\"timer_id\":%u,", &timer_id },
    { "event.register", GAME, "\"name\":\"rehearsed\",\"max_size\":8,", NULL },
    { "event.register", GAME, "\"name\":\"dry.type\",\"max_size\":16,", NULL },
    { "event.publish", GAME, "\"type\":\"dry.fields\",\"payload\":{\"x\":1},", NULL },
    { "event.subscribe", OPERATOR, "\"types\":\"*\",", NULL },
    { "event.unsubscribe", OPERATOR, "\"subscription_id\":%u,", &subscription_id },
    { "event.port.open", GAME, "\"name\":\"rehearsed\",\"bytes\":65536,", NULL },
    { "event.port.close", GAME, "\"port_id\":%u,", &port_id },
    { "event.reader.open", GAME, "\"types\":\"*\",", NULL },
    { "event.port.accept", GAME, "\"reader_id\":%u,\"port_id\":1,", &reader_id },
    { "event.reader.accept", GAME, "\"reader_id\":%u,\"port_id\":1,", &reader_id },
    { "event.reader.close", GAME, "\"reader_id\":%u,", &reader_id },
    { "resource.mount", OPERATOR, "\"path\":\"/\",\"at\":\"/rehearsed\",", NULL },
    { "resource.alias", OPERATOR, "\"set\":{\"a/\":\"b/\"},", NULL },
    { "resource.define", GAME, "\"group\":\"rehearsed\",\"resources\":[{\"name\":\"other.bin\"}],",
      NULL },
    { "resource.load", GAME, "\"group\":\"idle\",", NULL },
    { "resource.unload", GAME, "\"group\":\"loaded\",", NULL },
    { "resource.define", GAME,
      "\"group\":\"rehearsed\",\"resources\":[{\"name\":\"other.bin\"}],\"depends\":[\"idle\"],",
      NULL },
    { "resource.undefine", GAME, "\"group\":\"idle\",", NULL },
    { "resource.request", GAME, "\"name\":\"one.bin\",", NULL },
    { "resource.pin", OPERATOR, "\"group\":\"loaded\",", NULL },
    { "resource.reload", OPERATOR, "\"name\":\"one.bin\",", NULL },
    { "resource.gpu", GAME, "\"declare\":[{\"name\":\"g\",\"bytes\":1}],", NULL },
    { "resource.evict", OPERATOR, "\"bytes\":1,", NULL },
    { "resource.evict", OPERATOR, "\"group\":\"loaded\",", NULL },
    { "breaker.trip", OPERATOR, "\"level\":3,\"reason\":\"rehearsed\",", NULL },
    { "breaker.reset", OPERATOR, "", NULL },
    { "breaker.policy", OPERATOR, "\"set\":{\"warning_permille\":200},", NULL },
    { "breaker.policy", OPERATOR, "", NULL },
    { "breaker.declare", GAME, "\"priority\":99,\"can_save\":true,", NULL },
    { "breaker.reserve", GAME, "\"bytes\":4096,", NULL },
    { "breaker.release", GAME, "\"reservation_id\":%u,", &reservation_id },
    { "config.set", OPERATOR, "\"key\":\"control.batch\",\"value\":7,", NULL },
    { "config.reload", OPERATOR, "", NULL },
    { "log.level", OPERATOR, "\"module\":\"events\",\"level\":\"debug\",", NULL },
    { "telemetry.subscribe", OPERATOR, "\"interval_ms\":1000,", NULL },
    { "telemetry.unsubscribe", OPERATOR, "\"subscription_id\":%u,", &telemetry_subscription_id },
    { "log.tail", OPERATOR, "\"lines\":5,", NULL },
    { "log.unsubscribe", OPERATOR, "\"subscription_id\":%u,", &log_subscription_id },
};
#define CASES (sizeof cases / sizeof cases[0])

/* ---- a daemon in which something can be changed ---------------------------------------------- */

static const char *call_with_fds(struct line_client *client, const char *method, const char *params,
                                 const int *fds, unsigned fd_count)
{
    char line[1024];
    const char *reply;

    snprintf(line, sizeof line,
             "{\"jsonrpc\":\"2.0\",\"id\":\"fds\",\"method\":\"%s\",\"params\":%s}", method,
             params);
    ck_assert(line_client_send_fds(client, line, fds, fd_count));
    do
        reply = line_client_receive(client);
    while (reply != NULL && !line_has(reply, "id", "\"fds\""));
    ck_assert_ptr_nonnull(reply);
    return reply;
}

static void make_segments(struct ec_segment *client_segment, struct ec_segment *cursor_segment)
{
    const struct ec_segment_desc client_desc = { .name = "client",
                                                 .kind = EC_SEGMENT_CLIENT,
                                                 .bytes = sizeof(struct ec_client_segment) };
    const struct ec_segment_desc cursor_desc = { .name = "cursor",
                                                 .kind = EC_SEGMENT_CURSOR,
                                                 .bytes = sizeof(struct ec_cursor_segment) };
    struct ec_error why = { 0 };

    ck_assert_msg(ec_segment_init(client_segment, &client_desc, &why) == EC_OK, "%s", why.text);
    ck_assert_msg(ec_segment_init(cursor_segment, &cursor_desc, &why) == EC_OK, "%s", why.text);
}

static void attach_game(void)
{
    const struct ec_port_writer_desc desc = { .name = "main", .ring_bytes = 65536 };
    const int fds[] = { own.fd, cursors.fd, doorbell_fd };
    struct ec_error why = { 0 };
    char params[PARAMS_BYTES];
    const char *reply;
    struct ec_client_segment *segment = own.base;

    atomic_store(&segment->observation.is_switchable, 1);
    snprintf(params, sizeof params,
             "{\"real_ns\":%" PRId64 ",\"fds\":[\"client\",\"cursor\",\"doorbell\"]}",
             ec_real_ns());
    reply = call_with_fds(&game, "client.attach", params, fds, 3);
    ck_assert_msg(strstr(reply, "\"result\"") != NULL, "%s", reply);
    ck_assert_msg(ec_port_writer_init(&port, &desc, &why) == EC_OK, "%s", why.text);
    ck_assert_msg(ec_port_writer_init(&second_port, &desc, &why) == EC_OK, "%s", why.text);
    reply = call_with_fds(&game, "event.port.open", "{\"name\":\"main\",\"bytes\":65536}",
                          &port.segment.fd, 1);
    port_id = (unsigned)reply_number(reply, "result/port_id");
    reader_id = (unsigned)reply_number(
        line_client_must(&game, "event.reader.open", "{\"types\":\"*\"}"), "result/reader_id");
}

static void fill_daemon(void)
{
    char params[PARAMS_BYTES];

    line_client_must(&operator, "clock.pause", "{}");
    line_client_must(&operator, "clock.step.create", "{\"name\":\"own\",\"hz\":10}");
    line_client_must(&operator, "clock.step.create", "{\"name\":\"second\",\"hz\":10}");
    checkpoint_id = (unsigned)reply_number(
        line_client_must(&operator, "clock.checkpoint", "{\"name\":\"here\"}"),
        "result/checkpoint_id");
    line_client_must(&game, "event.register", "{\"name\":\"dry.type\",\"max_size\":16}");
    line_client_must(&game, "event.register",
                     "{\"name\":\"dry.fields\",\"fields\":[{\"name\":\"x\",\"type\":\"u32\"}]}");
    subscription_id = (unsigned)reply_number(
        line_client_must(&operator, "event.subscribe", "{\"types\":[\"dry.type\"]}"),
        "result/subscription_id");
    telemetry_subscription_id = (unsigned)reply_number(
        line_client_must(&operator, "telemetry.subscribe", "{\"interval_ms\":3600000}"),
        "result/subscription_id");
    log_subscription_id = (unsigned)reply_number(
        line_client_must(&operator, "log.tail", "{\"level\":\"error\"}"), "result/subscription_id");
    timer_id = (unsigned)reply_number(
        line_client_must(&game, "timer.arm", "{\"in_ns\":900000000000000}"), "result/timer_id");
    snprintf(params, sizeof params, "{\"path\":\"%s/assets\"}", engine.directory);
    line_client_must(&operator, "resource.mount", params);
    line_client_must(&game, "resource.define",
                     "{\"group\":\"loaded\",\"resources\":[{\"name\":\"one.bin\"}]}");
    line_client_must(&game, "resource.define",
                     "{\"group\":\"idle\",\"resources\":[{\"name\":\"two.bin\"}]}");
    line_client_must(&game, "resource.load", "{\"group\":\"loaded\"}");
    line_client_must(&game, "clock.group.join", "{\"name\":\"own\"}");
    line_client_must(&operator, "breaker.trip",
                     "{\"level\":1,\"reason\":\"by the test\",\"hold_s\":0}");
    reservation_id = (unsigned)reply_number(
        line_client_must(&game, "breaker.reserve", "{\"bytes\":4096,\"hold_s\":3600}"),
        "result/reservation_id");
}

static void write_asset(const char *name)
{
    char path[256];
    FILE *file;

    snprintf(path, sizeof path, "%s/assets/%s", engine.directory, name);
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < 1000; i++)
        fputs("asset\n", file);
    ck_assert_int_eq(fclose(file), 0);
}

static void set_up(void)
{
    /* The machine's own shortage of memory must not change the breaker under the test. */
    static const char *const calm[] = {
        "--set", "breaker.warning_permille=2",   "--set", "breaker.eviction_permille=1",
        "--set", "breaker.emergency_permille=0", "--set", "breaker.psi_some_permille=0",
        "--set", "breaker.psi_full_permille=0",  NULL
    };
    char path[256];

    engine = (struct daemon_process) { 0 };
    ck_assert(daemon_prepare(&engine));
    snprintf(path, sizeof path, "%s/assets", engine.directory);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    write_asset("one.bin");
    write_asset("two.bin");
    ck_assert_msg(daemon_start(&engine, calm), "%s", engine.why);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    ck_assert(line_client_connect(&game, engine.socket_path));
    ck_assert(line_client_connect(&visitor, engine.socket_path));
    line_client_hello(&operator, "operator");
    game_id = (unsigned)reply_number(line_client_hello(&game, "game"), "result/client_id");
    line_client_hello(&visitor, "visitor");
    make_segments(&own, &cursors);
    make_segments(&visitor_own, &visitor_cursors);
    doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    attach_game();
    fill_daemon();
}

static void tear_down(void)
{
    char path[256];

    line_client_close(&operator);
    line_client_close(&game);
    line_client_close(&visitor);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/assets/%s", engine.directory,
                 i == 0 ? "one.bin" : "two.bin");
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/assets", engine.directory);
    rmdir(path);
    ck_assert_int_eq(daemon_stop(&engine), 0);
    ec_port_writer_finish(&port);
    ec_port_writer_finish(&second_port);
    ec_segment_finish(&own);
    ec_segment_finish(&cursors);
    ec_segment_finish(&visitor_own);
    ec_segment_finish(&visitor_cursors);
    close(doorbell_fd);
}

/* ---- its state -------------------------------------------------------------------------------- */

/* What a command could change, member by member; times and counts that go on by themselves left out. */
static char *read_state(void)
{
    static const struct {
        const char *method, *params;
        const char *paths[8];
    } parts[] = {
        { "client.list", NULL, { "result/items" } },
        { "clock.get",
          NULL,
          { "result/scale", "result/paused", "result/rollback_epoch", "result/checkpoints",
            "result/timers", "result/steps/name=own/rate", "result/steps/name=own/members",
            "result/steps/name=second/members" } },
        { "clock.get", NULL, { "result/game_ns", "result/steps/name=rehearsed" } },
        { "timer.list", NULL, { "result" } },
        { "event.list", NULL, { "result" } },
        { "event.stats",
          "{\"type\":\"dry.fields\"}",
          { "result/items/0/published", "result/ports" } },
        { "resource.list", NULL, { "result" } },
        { "resource.mount", "{\"path\":\"/nowhere\",\"dry_run\":true}", { "error" } },
        { "breaker.policy", NULL, { "result" } },
        { "config.get", NULL, { "result" } },
        { "log.level", NULL, { "result" } },
        { "breaker.get",
          NULL,
          { "result/level", "result/manual_level", "result/hold_s", "result/clients/0/priority",
            "result/clients/0/can_save", "result/reservations/0/reservation_id",
            "result/reservations/1" } },
    };
    char *state = malloc(STATE_BYTES), *at = state;

    ck_assert_ptr_nonnull(state);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const char *reply = line_client_call(&operator, parts[i].method, parts[i].params);

        for (size_t p = 0; p < 8 && parts[i].paths[p] != NULL; p++) {
            const struct ec_json_span span = reply_at(reply, parts[i].paths[p]);

            at += snprintf(at, (size_t)(state + STATE_BYTES - at), "%s %s: %.*s\n", parts[i].method,
                           parts[i].paths[p], (int)span.bytes, span.text != NULL ? span.text : "");
            ck_assert(at < state + STATE_BYTES - 1);
        }
    }
    return state;
}

static const char *rehearse(size_t i)
{
    struct line_client *const callers[] = { &operator, & game, &visitor };
    const int visitor_fds[] = { visitor_own.fd, visitor_cursors.fd, doorbell_fd };
    char params[PARAMS_BYTES], whole[PARAMS_BYTES + 32];

    snprintf(params, sizeof params, cases[i].params,
             cases[i].number != NULL ? *cases[i].number : 0);
    if (strcmp(cases[i].method, "event.reader.accept") == 0 ||
        strcmp(cases[i].method, "event.port.accept") == 0)
        snprintf(params, sizeof params, "\"reader_id\":%u,\"port_id\":%u,", reader_id, port_id);
    snprintf(whole, sizeof whole, "{%s\"dry_run\":true}", params);
    if (cases[i].caller == VISITOR)
        return call_with_fds(&visitor, cases[i].method, whole, visitor_fds, 3);
    if (strcmp(cases[i].method, "event.port.open") == 0)
        return call_with_fds(&game, cases[i].method, whole, &second_port.segment.fd, 1);
    return line_client_call(callers[cases[i].caller], cases[i].method, whole);
}

/* ---- tests ------------------------------------------------------------------------------------ */

static bool is_reading(const char *method)
{
    for (size_t i = 0; i < sizeof reading / sizeof reading[0]; i++)
        if (strcmp(reading[i], method) == 0)
            return true;
    return false;
}

START_TEST(every_command_reads_or_can_be_rehearsed)
{
    for (size_t c = 0; c < EC_COMMANDS; c++) {
        const struct ec_command_row *row = &ec_commands[c];
        bool takes_dry_run = false, has_case = false;

        for (size_t p = 0; p < row->param_count; p++)
            takes_dry_run = takes_dry_run || strcmp(row->params[p].name, "dry_run") == 0;
        for (size_t i = 0; i < CASES; i++)
            has_case = has_case || strcmp(cases[i].method, row->method) == 0;
        ck_assert_msg(takes_dry_run != is_reading(row->method),
                      "%s: give it DRY_RUN in the table, or name it among those that read",
                      row->method);
        ck_assert_msg(has_case == takes_dry_run, "%s: give it a case here", row->method);
    }
}
END_TEST

START_TEST(a_rehearsal_says_what_would_happen_and_changes_nothing)
{
    for (size_t i = 0; i < CASES; i++) {
        char *before = read_state(), *after;
        const char *reply = rehearse(i);
        size_t same, from;

        ck_assert_msg(line_has(reply, "dry_run", "true"), "%s: %s", cases[i].method, reply);
        ck_assert_int_gt((int)strlen(reply_text(reply, "result/would")), 0);
        after = read_state();
        same = 0;
        while (before[same] != '\0' && before[same] == after[same])
            same++;
        from = same > 60 ? same - 60 : 0; /* Check's messages are short */
        ck_assert_msg(strcmp(before, after) == 0, "%s changed\n%.500s\ninto\n%.500s",
                      cases[i].method, before + from, after + from);
        free(before);
        free(after);
    }
    /* And what would happen does happen without it. */
    line_client_must(&operator, "clock.scale", "{\"scale\":0.5,\"dry_run\":false}");
    ck_assert(line_has(line_client_call(&operator, "clock.get", NULL), "scale", "0.5"));
}
END_TEST

START_TEST(a_rehearsal_answers_the_error_that_would_come)
{
    static const struct {
        const char *method, *params;
        int code;
    } wrong[] = {
        { "clock.rollback", "{\"checkpoint_id\":999,\"dry_run\":true}", -32005 },
        { "clock.rollback", "{\"game_ns\":-1,\"dry_run\":true}", -32005 },
        { "clock.step.create", "{\"name\":\"own\",\"hz\":1,\"dry_run\":true}", -32006 },
        { "clock.step.rate", "{\"name\":\"nobody\",\"hz\":1,\"dry_run\":true}", -32005 },
        { "timer.cancel", "{\"timer_id\":12345,\"dry_run\":true}", -32005 },
        { "event.register", "{\"name\":\"dry.type\",\"max_size\":17,\"dry_run\":true}", -32010 },
        { "event.publish", "{\"type\":\"dry.fields\",\"payload\":{\"y\":1},\"dry_run\":true}",
          -32602 },
        { "event.unsubscribe", "{\"subscription_id\":77,\"dry_run\":true}", -32005 },
        { "resource.load", "{\"group\":\"nobody\",\"dry_run\":true}", -32005 },
        { "resource.mount", "{\"path\":\"relative\",\"dry_run\":true}", -32021 },
        { "resource.define",
          "{\"group\":\"loaded\",\"resources\":[{\"name\":\"two.bin\"}],\"dry_run\":true}",
          -32006 },
        { "breaker.policy", "{\"set\":{\"warning_permille\":0},\"dry_run\":true}", -32030 },
        { "breaker.release", "{\"reservation_id\":777,\"dry_run\":true}", -32005 },
        { "client.detach", "{\"dry_run\":true}", -32006 },
        { "core.shutdown", "{\"dry_run\":1}", -32602 },
    };

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *reply = line_client_call(&operator, wrong[i].method, wrong[i].params);

        ck_assert_ptr_nonnull(reply_at(reply, "error").text);
        ck_assert_msg(reply_number(reply, "error/code") == wrong[i].code, "%s %s: %s",
                      wrong[i].method, wrong[i].params, reply);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dry_run");
    TCase *table = tcase_create("table"), *daemon = tcase_create("daemon");
    SRunner *runner;
    int failed;

    tcase_add_test(table, every_command_reads_or_can_be_rehearsed);
    tcase_add_checked_fixture(daemon, set_up, tear_down);
    tcase_set_timeout(daemon, 0);
    tcase_add_test(daemon, a_rehearsal_says_what_would_happen_and_changes_nothing);
    tcase_add_test(daemon, a_rehearsal_answers_the_error_that_would_come);
    suite_add_tcase(suite, table);
    suite_add_tcase(suite, daemon);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
