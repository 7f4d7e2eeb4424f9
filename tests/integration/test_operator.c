/* What operators do all day: wait, look, change the configuration while it runs, follow the log; and what
 * a daemon has to stand from them and from many clients. */
#include <check.h>
#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/daemon.h"
#include "support/reply.h"

static struct daemon_process engine;
static struct line_client client;
static char output[256 * 1024];

static void start_with(const char *config, const char *const *arguments)
{
    engine = (struct daemon_process) { 0 };
    ck_assert(daemon_prepare(&engine));
    if (config != NULL)
        ck_assert(daemon_write_config(&engine, config));
    ck_assert_msg(daemon_start(&engine, arguments), "%s", engine.why);
    ck_assert(line_client_connect(&client, engine.socket_path));
}

static void set_up(void)
{
    start_with("{\"control\": {\"batch\": 7}}", NULL);
}

static void tear_down(void)
{
    line_client_close(&client);
    ck_assert_int_eq(daemon_stop(&engine), 0);
}

/* Run engine-ctl behind another command; its output, of both kinds, is in output. */
static int ctl_behind(const char *command, const char *words)
{
    char line[1024];
    size_t used;
    FILE *pipe;

    snprintf(line, sizeof line, "%s %s/engine-ctl --socket %s %s 2>&1", command,
             getenv("EC_BIN_DIR"), engine.socket_path, words);
    pipe = popen(line, "r");
    ck_assert_ptr_nonnull(pipe);
    used = fread(output, 1, sizeof output - 1, pipe);
    output[used] = '\0';
    return WEXITSTATUS(pclose(pipe));
}

static int ctl(const char *words)
{
    return ctl_behind("", words);
}

static bool says(const char *text)
{
    return strstr(output, text) != NULL;
}

static const char *must(const char *method, const char *params)
{
    return line_client_must(&client, method, params);
}

/* Follow the log until a line has this text. */
static void await_log(const char *text)
{
    const char *line;

    do {
        line = line_client_receive(&client);
        ck_assert_ptr_nonnull(line);
    } while (strstr(line, "\"method\":\"log\"") == NULL || strstr(line, text) == NULL);
}

static const struct {
    const char *words;
    int status;
    const char *text;
} verb_cases[] = {
    { "wait ready", 0, "" },
    { "wait 'clock.steps>=1'", 0, "clock.steps is" },
    { "wait 'memory.available_bytes>1MiB'", 0, "memory.available_bytes is" },
    { "--timeout 1 wait 'breaker.level>9'", 4, "breaker.level is 0 after 1 s" },
    { "wait 'memory.availabl_bytes>1'", 2, "did you mean memory.available_bytes?" },
    { "wait soon", 2, "expected ready" },
    { "wait 'clock.steps<1000000000'", 0, "clock.steps is" },
    { "wait 'breaker.level=0'", 0, "breaker.level is 0" },
    { "wait 'breaker.level<=0'", 0, "breaker.level is 0" },
    { "wait 'clock.steps!=0'", 0, "clock.steps is" },
    { "--json wait 'breaker.level=0'", 0, "{\"breaker.level\":0}" },
    { "--timeout 1 --socket /nowhere/socket wait ready", 4, "no daemon has answered" },
    { "--socket /nowhere/socket wait 'breaker.level=0'", 3, "/nowhere/socket" },
    { "wait 'clock.steps=>1'", 2, "expected" },
    { "wait '>1'", 2, "there is no metric" },
    { "wait 'clock.steps>'", 2, "is no number" },
    { "wait ''", 2, "expected ready" },
    { "--timeout 0 wait ready", 2, "expected 1.." },
    { "wait 'clock.steps>many'", 2, "is no number" },
    { "config get control.batch", 0, "7\n" },
    { "config get control.bach", 2, "did you mean control.batch?" },
    { "config get breaker.nosuch", 2, "there is no key breaker.nosuch; see" },
    { "config show --origin", 0, ":1" },
    { "config show --changed", 0, "control.batch" },
    { "config set control.batch 9", 0, "config.set" },
    { "config set control.batch 0", 1, "allowed is 1 to 1000" },
    { "config set control.batch many", 2, "expected a number" },
    { "config set resource.workers 3", 1, "needs a restart" },
    { "--dry-run config set control.batch 9", 0, "would set control.batch to 9" },
    { "config reload", 0, "version" },
    { "config schema", 0, "\"control.batch\"" },
    { "log level", 0, "all others info" },
    { "log level debug", 0, "all others debug" },
    { "log level events warning", 0, "warning" },
    { "log level event warning", 1, "did you mean events?" },
    { "telemetry get memory", 0, "memory.total_bytes" },
    { "telemetry get memry", 2, "there is no topic" },
    { "--json telemetry history clock", 0, "\"interval_ms\":" },
    { "--json top --ticks 1", 0, "\"breaker\":{" },
    { "top --ticks 1", 0, "\"breaker\":{" }, /* a pipe is no screen */
    { "clients --closed", 0, "REASON" },
    { "mem-report --client 0", 0, "REQUESTED" },
    { "--json mem-report --client 0", 0, "\"bridge\":{\"requested_bytes\":" },
    { "mem-report --client 9999", 1, "neither attached nor" },
    { "mem-report --watch=soon", 2, "expected seconds" },
    { "mem-observe 0 --checks on", 2, "not the number of a client" },
    { "mem-observe 1", 2, "expected --sample, --checks, or both" },
    { "mem-observe 1 --checks maybe", 2, "expected on or off" },
    { "mem-observe 1 --sample lots", 2, "expected bytes up to 1TiB, or off" },
    { "mem-observe 9999 --sample 64KiB --checks on", 1, "client 9999 is not attached" },
    { "confg show", 2, "did you mean config show? Try engine-ctl --help" },
    { "breaker status", 2, "no verb \"breaker status\"; try engine-ctl breaker --help" },
    { "help breaker trip", 0, "engine-ctl breaker trip LEVEL" },
    { "core.info", 2, "core.info is a method; try engine-ctl call core.info" },
    { "help", 0, "Usage: engine-ctl" },
    { "help fly", 2, "no verb \"fly\"; try engine-ctl --help" },
    { "config sho", 2, "did you mean config show?" },
    { "clients --closd", 2, "did you mean --closed?" },
    { "--dry-run clock pause", 0, "would pause game time" },
    { "--dry-run --json clock pause", 0, "\"dry_run\":true" },
    { "--dry-run --json log tail", 0, "\"would\":" }, /* and does not wait for lines */
    { "--dry-run timer arm 1s", 0, "would arm" },
    { "--dry-run run /bin/echo run", 2, "there is no --dry-run" },
    { "--dry-run cook /nowhere /nowhere", 2, "there is no --dry-run" },
    { "postmortem show nobody", 2, "is no id" },
    { "completion bash", 0, "complete -F" },
    { "completion csh", 2, "bash, zsh and fish" },
};

START_TEST(verbs_do_what_they_say)
{
    const int status = ctl(verb_cases[_i].words);

    ck_assert_msg(status == verb_cases[_i].status, "%s: exit %d: %s", verb_cases[_i].words, status,
                  output);
    ck_assert_msg(says(verb_cases[_i].text), "%s: %s", verb_cases[_i].words, output);
}
END_TEST

START_TEST(a_timer_that_is_due_at_once_is_seen_each_time)
{
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(ctl("timer arm 0ms"), 0);
        ck_assert_msg(says("timer.fired"), "%s", output);
    }
}
END_TEST

START_TEST(two_snapshots_are_compared_and_no_other_number_of_them)
{
    static const struct {
        const char *words;
        int status;
        const char *text;
    } cases[] = {
        { "mem-report --diff before after", 0, "what changed in" },
        { "mem-report --diff before --diff 2", 0, "what changed in" },
        { "mem-report --diff before nothing", 1, "nothing" },
        { "mem-report --diff before", 2, "expected two snapshots" },
        { "mem-report --diff before --diff after 2", 2, "expected two snapshots" },
        { "mem-report before", 2, "only behind --diff" },
        { "--json mem-report --diff before after", 0, "\"before\":{" },
    };

    ck_assert_int_eq(ctl("mem-snapshot 0 before"), 0);
    ck_assert_msg(says("Snapshot 1 of client 0"), "%s", output);
    ck_assert_int_eq(ctl("mem-snapshot 0 after"), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int status = ctl(cases[i].words);

        ck_assert_msg(status == cases[i].status && says(cases[i].text), "%s: exit %d: %s",
                      cases[i].words, status, output);
    }
}
END_TEST

/* Lines of a watch up to and with the second one that has the text. */
static void read_twice(FILE *pipe, const char *text)
{
    char line[4096];

    for (int seen = 0; seen < 2;) {
        ck_assert_ptr_nonnull(fgets(line, sizeof line, pipe));
        ck_assert_ptr_null(strchr(line, '\033')); /* a pipe is no screen, and gets JSON */
        seen += strstr(line, text) != NULL;
    }
}

START_TEST(a_report_is_shown_again_and_again_until_its_reader_or_the_daemon_goes)
{
    char command[512];
    FILE *pipe;
    int status;

    snprintf(command, sizeof command,
             "exec %s/engine-ctl --socket %s mem-report --client 0 --watch=1", getenv("EC_BIN_DIR"),
             engine.socket_path);
    pipe = popen(command, "re");
    ck_assert_ptr_nonnull(pipe);
    read_twice(pipe, "\"requested_bytes\":");
    status = pclose(pipe); /* it ends at its next line */
    ck_assert_msg(WIFSIGNALED(status) ? WTERMSIG(status) == SIGPIPE : WEXITSTATUS(status) == 1,
                  "%d", status);
    pipe = popen(command, "re");
    ck_assert_ptr_nonnull(pipe);
    read_twice(pipe, "engine-cored");
    daemon_crash(&engine);
    while (fgets(output, sizeof output, pipe) != NULL)
        ;
    status = pclose(pipe);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 3, "%d", status);
    ck_assert_msg(daemon_start(&engine, NULL), "%s", engine.why);
}
END_TEST

START_TEST(a_file_is_checked_without_a_daemon)
{
    char words[256];

    snprintf(words, sizeof words, "config check %s", engine.config_path);
    ck_assert_int_eq(ctl(words), 0);
    ck_assert_str_eq(output, "");
    ck_assert(daemon_write_config(&engine, "{\n  \"control\": {\"batch\": 0}}"));
    ck_assert_int_eq(ctl(words), 1);
    ck_assert_msg(says(":2:24: control.batch is 0"), "%s", output);
    ck_assert(daemon_write_config(&engine, "{\"control\": {\"bach\": 1}}"));
    ck_assert_int_eq(ctl(words), 1);
    ck_assert_msg(says("did you mean control.batch?"), "%s", output);
    ck_assert(daemon_write_config(&engine, "{\"log.sinks\": \"file\"}"));
    ck_assert_int_eq(ctl(words), 1);
    ck_assert_msg(says("log.file"), "%s", output);
}
END_TEST

/* One key against another, or against the machine: the daemon does not start, and says where it stands. */
static const struct {
    const char *json, *text;
    bool is_seen_by_check; /* else it shows at the start alone */
} misfits[] = {
    { "{\n \"breaker.eviction_permille\": 200}",
      "config.json:2:31: breaker.eviction_permille is 200, not below breaker.warning_permille",
      true },
    { "{\"breaker\": {\"warning_permille\": 90,\n \"eviction_permille\": 95}}",
      "config.json:2:23: breaker.eviction_permille is 95", true },
    { "{\"log.sinks\": \"file\"}", "config.json:1:15: log.sinks has file, but log.file is", true },
    { "{\"log.levels\": \"evens=debug\"}", "config.json:1:16: log.levels", true },
    { "{\"control.roles\": \"nobody-has-this-name=game\"}",
      "config.json:1:19: control.roles: there is no user nobody-has-this-name", true },
    { "{\"resource.heap_huge\": \"some\"}", "config.json:1:24: resource.heap_huge is some", true },
    { "{\"resource.mounts\": \"/nowhere\"}", "config.json:1:21: resource.mounts: /nowhere", false },
    { "{\"breaker.groups\": \"/nowhere\"}", "config.json:1:20: breaker.groups", false },
};

START_TEST(what_does_not_fit_is_refused_with_line_and_column)
{
    char words[256], socket_path[128];
    const char *const arguments[] = { "--socket", socket_path, "--config", engine.config_path,
                                      NULL };

    snprintf(socket_path, sizeof socket_path, "%s/other", engine.directory);
    snprintf(words, sizeof words, "config check %s", engine.config_path);
    ck_assert(daemon_write_config(&engine, misfits[_i].json));
    ck_assert_int_eq(daemon_run(arguments, output, sizeof output), 1);
    ck_assert_msg(says(misfits[_i].text), "%s", output);
    ck_assert_int_eq(ctl(words), misfits[_i].is_seen_by_check ? 1 : 0);
    ck_assert_msg(!misfits[_i].is_seen_by_check || says(misfits[_i].text), "%s", output);
}
END_TEST

START_TEST(an_unknown_key_on_the_command_line_is_wrong_usage)
{
    const char *const words[] = { "--set", "control.bach=1", NULL };

    ck_assert_int_eq(daemon_run(words, output, sizeof output), 2);
    ck_assert_msg(says("unknown key control.bach, did you mean control.batch?"), "%s", output);
}
END_TEST

START_TEST(a_changed_file_is_applied_by_itself_also_when_it_was_replaced)
{
    char other[128];
    FILE *file;

    must("log.tail", NULL);
    ck_assert(daemon_write_config(&engine, "{\"control\": {\"batch\": 8}}"));
    await_log("1 keys changed");
    ck_assert_int_eq(
        reply_number(must("config.get", "{\"key\":\"control.batch\"}"), "result/items/0/value"), 8);
    snprintf(other, sizeof other, "%s/other", engine.directory);
    file = fopen(other, "w");
    ck_assert_ptr_nonnull(file);
    fputs("// replaced\n{\"control.batch\": 9}\n", file);
    fclose(file);
    ck_assert_int_eq(rename(other, engine.config_path), 0);
    await_log("1 keys changed");
    ck_assert_int_eq(
        reply_number(must("config.get", "{\"key\":\"control.batch\"}"), "result/items/0/value"), 9);
    ck_assert(
        daemon_write_config(&engine, "{\"control.batch\": }")); /* and nothing of a wrong one */
    await_log("nothing was changed");
    ck_assert_int_eq(
        reply_number(must("config.get", "{\"key\":\"control.batch\"}"), "result/items/0/value"), 9);
    ck_assert_int_eq(ctl("doctor"), 1);
    ck_assert_msg(says("The configuration file is wrong"), "%s", output);
    ck_assert_msg(says("engine-ctl config check"), "%s", output);
    ck_assert_int_eq(ctl("config reload"), 1);
    ck_assert_msg(says("refused, nothing was changed"), "%s", output);
    ck_assert_int_eq(ctl("--json config reload"), 1);
    ck_assert_msg(says("\"errors\":[\""), "%s", output);
}
END_TEST

/* A file that cannot be read is a reload that fails; one that comes back is applied. */
START_TEST(a_file_that_goes_or_cannot_be_read_changes_nothing)
{
    must("log.tail", NULL);
    ck_assert_int_eq(unlink(engine.config_path), 0);
    await_log("No such file");
    ck_assert_int_eq(
        reply_number(must("config.get", "{\"key\":\"control.batch\"}"), "result/items/0/value"), 7);
    ck_assert_int_eq(mkdir(engine.config_path, 0700), 0);
    await_log("is not a regular file");
    ck_assert_int_eq(rmdir(engine.config_path), 0);
    await_log("No such file");
    ck_assert_int_eq(symlink("nowhere", engine.config_path), 0);
    ck_assert(line_has(must("config.reload", NULL), "changed", "[]"));
    ck_assert_int_eq(unlink(engine.config_path), 0);
    ck_assert(daemon_write_config(&engine, "{\"control\": {\"batch\": 11}}"));
    await_log("1 keys changed");
    ck_assert_int_eq(
        reply_number(must("config.get", "{\"key\":\"control.batch\"}"), "result/items/0/value"),
        11);
}
END_TEST

START_TEST(the_doctor_says_what_is_not_well_and_what_helps)
{
    ck_assert_int_eq(ctl("--json doctor"), 0);
    ck_assert(says("{\"findings\":["));
    must("clock.pause", NULL);
    must("breaker.trip", "{\"level\":2,\"reason\":\"for the doctor\"}");
    ck_assert_int_eq(ctl("doctor"), 1);
    ck_assert_msg(says("The memory breaker is at level 2"), "%s", output);
    ck_assert_msg(says("for the doctor"), "%s", output);
    ck_assert_msg(says("engine-ctl breaker reset"), "%s", output);
    ck_assert_msg(says("Game time stands"), "%s", output);
    ck_assert_msg(says("engine-ctl clock resume"), "%s", output);
}
END_TEST

START_TEST(the_doctor_says_that_there_is_no_daemon)
{
    line_client_close(&client);
    ck_assert_int_eq(daemon_stop(&engine), 0);
    ck_assert_int_eq(ctl("doctor"), 3);
    ck_assert_msg(says("No daemon answers"), "%s", output);
}
END_TEST

START_TEST(a_storm_of_hang_ups_is_only_reloads)
{
    /* Each reload is reported, and who reports waits for a manager that does not read: here is none. */
    close(engine.notify_fd);
    engine.notify_fd = -1;
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(kill(engine.pid, SIGHUP), 0);
    must("core.ping", NULL);
    must("config.set", "{\"key\":\"control.batch\",\"value\":11}");
    ck_assert_int_eq(
        reply_number(must("config.get", "{\"key\":\"control.batch\"}"), "result/items/0/value"),
        11);
}
END_TEST

#define MANY 200

START_TEST(two_hundred_clients_are_served_at_once)
{
    static const char *const room[] = { "--set", "control.connections=256", NULL };
    static struct line_client clients[MANY];

    line_client_close(&client);
    ck_assert_int_eq(daemon_stop(&engine), 0);
    start_with(NULL, room);
    for (int i = 0; i < MANY; i++)
        ck_assert(line_client_connect(&clients[i], engine.socket_path));
    for (int i = 0; i < MANY; i++)
        ck_assert(line_client_send(&clients[i],
                                   "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"core.ping\"}"));
    for (int i = 0; i < MANY; i++)
        ck_assert(line_has(line_client_receive(&clients[i]), "pong", "true"));
    for (int i = 0; i < MANY; i++)
        line_client_close(&clients[i]);
    must("core.ping", NULL);
}
END_TEST

/* A full disk as root can make one, and as everybody can. */
START_TEST(a_full_disk_loses_log_lines_and_nothing_else)
{
    static const char *const full[] = { "--set", "log.sinks=file", "--set", "log.file=/dev/full",
                                        NULL };
    const char *info;

    line_client_close(&client);
    ck_assert_int_eq(daemon_stop(&engine), 0);
    start_with(NULL, full);
    must("log.tail", "{\"lines\":100}");
    await_log("No space left on device; lines are lost there");
    for (int i = 0; i < 100; i++)
        must("config.set", i % 2 == 0 ? "{\"key\":\"control.batch\",\"value\":11}"
                                      : "{\"key\":\"control.batch\",\"value\":12}");
    info = must("core.info", NULL);
    ck_assert_ptr_nonnull(strstr(info, "\"log.sink_lost\":"));
    ck_assert_ptr_null(strstr(info, "\"log.sink_lost\":0,"));
    must("config.set", "{\"key\":\"log.sinks\",\"value\":\"stderr\"}");
}
END_TEST

/* The log goes to a file, and on in a new one when that is full. */
START_TEST(a_log_file_is_turned_over)
{
    char file[128], params[256], older[160];
    struct stat st;

    snprintf(file, sizeof file, "%s/log", engine.directory);
    snprintf(older, sizeof older, "%s.1", file);
    snprintf(params, sizeof params, "{\"key\":\"log.file\",\"value\":\"%s\"}", file);
    must("config.set", params);
    must("config.set", "{\"key\":\"log.file_bytes\",\"value\":4096}");
    must("config.set", "{\"key\":\"log.sinks\",\"value\":\"file\"}");
    must("log.tail", NULL);
    for (int i = 0; i < 100; i++)
        must("config.set", i % 2 == 0 ? "{\"key\":\"control.batch\",\"value\":11}"
                                      : "{\"key\":\"control.batch\",\"value\":12}");
    must("core.reload", NULL);
    await_log("keys changed"); /* all before it has been written */
    ck_assert_int_eq(stat(older, &st), 0);
    ck_assert_int_le(st.st_size, 4096);
}
END_TEST

/* Run engine-ctl as another uid. */
static int ctl_as(unsigned uid, const char *words)
{
    char command[128];

    snprintf(command, sizeof command, "setpriv --reuid %u --regid %u --clear-groups", uid, uid);
    return ctl_behind(command, words);
}

/* Needs root to become them. */
START_TEST(uids_have_the_roles_that_they_should)
{
    static const char *const roles[] = { "--set",
                                         "control.roles=60001=operator,@60002=game,60003=observer",
                                         NULL };
    static const struct {
        unsigned uid;
        const char *words;
        int status;
        const char *text;
    } cases[] = {
        { 60001, "clock pause", 0, "paused" },
        { 60002, "clock get", 0, "physics" },
        { 60002, "call event.register '{\"name\":\"r.t\",\"max_size\":8}'", 0, "created" },
        { 60002, "clock resume", 5, "needs the role operator, this client is game" },
        { 60003, "clock get", 0, "physics" },
        { 60003, "call event.register '{\"name\":\"r.u\",\"max_size\":8}'", 5,
          "needs the role game" },
        { 60004, "clock get", 5, "uid 60004 is neither" },
    };

    if (getuid() != 0) {
        fputs("not root: roles of other uids are not tested\n", stderr);
        return;
    }
    line_client_close(&client);
    ck_assert_int_eq(daemon_stop(&engine), 0);
    start_with(NULL, roles);
    ck_assert_int_eq(chmod(engine.directory, 0755), 0);
    ck_assert_int_eq(chmod(engine.socket_path, 0666), 0);
    must("log.tail", NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int status = ctl_as(cases[i].uid, cases[i].words);

        ck_assert_msg(status == cases[i].status && says(cases[i].text), "uid %u: %s: exit %d: %s",
                      cases[i].uid, cases[i].words, status, output);
    }
    await_log("clock.resume was refused"); /* with who it was */
    await_log("uid 60004");
}
END_TEST

/* Needs root to become them. */
START_TEST(roles_are_taken_back_from_connections_that_stand)
{
    struct line_client ours[2];

    if (getuid() != 0) {
        fputs("not root: roles of other uids are not tested\n", stderr);
        return;
    }
    ck_assert_int_eq(chmod(engine.directory, 0755), 0);
    ck_assert_int_eq(chmod(engine.socket_path, 0666), 0);
    must("config.set", "{\"key\":\"control.roles\",\"value\":\"60001=operator,60002=game\"}");
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(seteuid(60001 + i), 0);
        ck_assert(line_client_connect(&ours[i], engine.socket_path));
        ck_assert_int_eq(seteuid(0), 0);
        line_client_hello(&ours[i], "visitor");
    }
    ck_assert(line_has(line_client_call(&ours[0], "clock.pause", NULL), "paused", "true"));
    must("config.set", "{\"key\":\"control.roles\",\"value\":\"60001=observer\"}");
    ck_assert(line_has(line_client_call(&ours[0], "clock.resume", NULL), "code", "-32003"));
    ck_assert(line_has(line_client_call(&ours[0], "clock.get", NULL), "paused", "true"));
    line_client_wait_hang_up(&ours[1]); /* it may do nothing any more */
    ck_assert_ptr_nonnull(
        strstr(must("client.list", "{\"closed\":true}"), "it may do nothing any more"));
    /* More than it had it gets with a new connection. */
    must("config.set", "{\"key\":\"control.roles\",\"value\":\"60001=operator\"}");
    ck_assert(line_has(line_client_call(&ours[0], "clock.resume", NULL), "code", "-32003"));
    ck_assert_int_eq(ctl_as(60001, "clock resume"), 0);
    must("config.set", "{\"key\":\"control.roles\",\"value\":null}");
    ck_assert_int_eq(ctl_as(60001, "clock get"), 5);
    ck_assert(line_has(
        line_client_call(&client, "config.set", "{\"key\":\"control.roles\",\"value\":\"x\"}"),
        "code", "-32602"));
    line_client_close(&ours[0]);
    line_client_close(&ours[1]);
}
END_TEST

START_TEST(refusals_do_not_fill_the_log)
{
    const char *line = NULL;
    unsigned lines = 0;

    must("log.tail", "{\"level\":\"warning\"}");
    must("core.ping", NULL);
    must("core.hello", "{\"name\":\"looker\",\"protocol\":1,\"role\":\"observer\"}");
    for (int i = 0; i < 1000; i++)
        ck_assert(
            line_client_send(&client, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"clock.pause\"}"));
    ck_assert(line_client_send(&client, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"core.ping\"}"));
    do {
        line = line_client_receive(&client);
        ck_assert_ptr_nonnull(line);
        lines += strstr(line, "was refused to client") != NULL;
    } while (!line_has(line, "id", "2"));
    ck_assert_uint_lt(lines, 500); /* five a second, however slow the machine is */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("operator");
    TCase *tcase = tcase_create("operator");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, verbs_do_what_they_say, 0,
                        (int)(sizeof verb_cases / sizeof verb_cases[0]));
    tcase_add_test(tcase, a_timer_that_is_due_at_once_is_seen_each_time);
    tcase_add_test(tcase, two_snapshots_are_compared_and_no_other_number_of_them);
    tcase_add_test(tcase, a_report_is_shown_again_and_again_until_its_reader_or_the_daemon_goes);
    tcase_add_test(tcase, a_file_is_checked_without_a_daemon);
    tcase_add_loop_test(tcase, what_does_not_fit_is_refused_with_line_and_column, 0,
                        (int)(sizeof misfits / sizeof misfits[0]));
    tcase_add_test(tcase, a_file_that_goes_or_cannot_be_read_changes_nothing);
    tcase_add_test(tcase, an_unknown_key_on_the_command_line_is_wrong_usage);
    tcase_add_test(tcase, a_changed_file_is_applied_by_itself_also_when_it_was_replaced);
    tcase_add_test(tcase, the_doctor_says_what_is_not_well_and_what_helps);
    tcase_add_test(tcase, a_storm_of_hang_ups_is_only_reloads);
    tcase_add_test(tcase, two_hundred_clients_are_served_at_once);
    tcase_add_test(tcase, a_full_disk_loses_log_lines_and_nothing_else);
    tcase_add_test(tcase, a_log_file_is_turned_over);
    tcase_add_test(tcase, uids_have_the_roles_that_they_should);
    tcase_add_test(tcase, roles_are_taken_back_from_connections_that_stand);
    tcase_add_test(tcase, refusals_do_not_fill_the_log);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("without a daemon");
    tcase_add_checked_fixture(tcase, set_up, NULL);
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, the_doctor_says_that_there_is_no_daemon);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
