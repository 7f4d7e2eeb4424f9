/* The breaker by itself: memory is a plain file here, and real clients obey, hang, or die. */
#include <check.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <engine-core/breaker.h>
#include <engine-core/client.h>
#include <engine-core/clock.h>

#include "client/client.h"
#include "support/daemon.h"
#include "support/reply.h"

#define TOTAL_KIB 1000000u

static struct daemon_process engine;
static struct line_client operator;
static char proc[96];

/* Memory of the host, in thousandths. The daemon reads the file with one pread, and what is written here
 * is one write of the same length, so it never sees half of it. */
static void put_available(unsigned permille)
{
    char path[128], text[128];
    const int bytes = snprintf(text, sizeof text, "MemTotal: %10u kB\nMemAvailable: %10u kB\n",
                               TOTAL_KIB, TOTAL_KIB / 1000 * permille);
    FILE *file;

    snprintf(path, sizeof path, "%s/meminfo", proc);
    file = fopen(path, access(path, F_OK) == 0 ? "r+" : "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, (size_t)bytes, file), (size_t)bytes);
    fclose(file);
}

/* A configuration with these members of "breaker". Each reload is told to who started the daemon, who would
 * have to be waited for if he never listened. */
static void put_config(const char *members)
{
    char json[2048];

    while (recv(engine.notify_fd, json, sizeof json, MSG_DONTWAIT) > 0)
        ;

    snprintf(json, sizeof json,
             "{\"breaker\":{\"proc\":\"%s\",\"fast_tick_ms\":2,\"tick_ms\":2%s%s}}", proc,
             members[0] == '\0' ? "" : ",", members);
    ck_assert(daemon_write_config(&engine, json));
}

static void start(const char *members)
{
    ck_assert(daemon_prepare(&engine));
    snprintf(proc, sizeof proc, "%s/proc", engine.directory);
    ck_assert_int_eq(mkdir(proc, 0755), 0);
    put_available(900);
    put_config(members);
    ck_assert_msg(daemon_start(&engine, NULL), "%s", engine.why);
    ck_assert(line_client_connect(&operator, engine.socket_path));
    line_client_hello(&operator, "operator");
}

static void stop(void)
{
    line_client_close(&operator);
    ck_assert_int_eq(daemon_stop(&engine), 0);
}

static struct ec_client *join(const char *name)
{
    struct ec_client *client;
    struct ec_error why = { 0 };

    ck_assert_msg(ec_client_create(
                      &(struct ec_client_desc) { .name = name, .socket_path = engine.socket_path },
                      &client, &why) == EC_OK,
                  "%s", why.text);
    return client;
}

static bool is_too_late(const struct timespec *begin)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - begin->tv_sec) * 1000 > DAEMON_WAIT_MS;
}

/* Ask until the answer has this; each answer is a fresh look. */
static const char *ask_until(const char *method, const char *name, const char *value)
{
    const char *reply = NULL;
    struct timespec begin;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    while (!is_too_late(&begin)) {
        reply = line_client_call(&operator, method, NULL);
        if (line_has(reply, name, value))
            return reply;
    }
    ck_abort_msg("%s is never %s: %s", name, value, reply);
}

static const char *wait_level(const char *level)
{
    return ask_until("breaker.get", "level", level);
}

/* ---- levels ---- */

START_TEST(levels_follow_memory_up_at_once_and_down_step_by_step)
{
    const char *reply;

    start("\"hold_ms\":50");
    ck_assert(line_has(line_client_call(&operator, "breaker.get", NULL), "level", "0"));
    put_available(140);
    reply = wait_level("1");
    ck_assert_msg(line_has(reply, "cause", "\"memory\""), "%s", reply);
    put_available(900);
    wait_level("0");
    put_available(10);
    reply = wait_level("3");
    ck_assert_msg(strstr(reply, "10 of 1000 parts are left") != NULL, "%s", reply);
    put_available(900);
    wait_level("0");
    reply = line_client_call(&operator, "breaker.history", NULL);
    ck_assert_msg(strstr(reply, "\"from\":0,\"to\":3") != NULL, "%s", reply);
    ck_assert(strstr(reply, "\"from\":3,\"to\":2") != NULL);
    ck_assert(strstr(reply, "\"from\":2,\"to\":1") != NULL);
    ck_assert(strstr(reply, "\"from\":1,\"to\":0") != NULL);
    ck_assert(strstr(reply, "\"to\":1,\"level\":1,\"cause\":\"memory\",\"source\":\"host\"") !=
              NULL);
    stop();
}
END_TEST

START_TEST(a_manual_level_is_a_floor_under_what_memory_says)
{
    start("\"hold_ms\":20");
    line_client_call(&operator, "breaker.trip", "{\"level\":2,\"reason\":\"drill\",\"hold_s\":0}");
    put_available(10);
    ck_assert(line_has(wait_level("3"), "cause", "\"memory\""));
    put_available(900);
    ck_assert(line_has(wait_level("2"), "cause", "\"manual\""));
    line_client_call(&operator, "breaker.reset", NULL);
    wait_level("0"); /* the way down may not be over yet */
    put_available(120);
    wait_level("1");
    line_client_call(&operator, "breaker.trip", "{\"level\":3,\"reason\":\"drill\",\"hold_s\":0}");
    ck_assert(line_has(line_client_call(&operator, "breaker.reset", NULL), "level", "1"));
    stop();
}
END_TEST

/* Bytes of one group that nobody holds. */
static void load_group(void)
{
    char path[160], params[256];
    const char *reply;
    FILE *file;

    snprintf(path, sizeof path, "%s/one.bin", engine.directory);
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < 10000; i++)
        fputc('x', file);
    fclose(file);
    snprintf(params, sizeof params, "{\"path\":\"%s\"}", engine.directory);
    line_client_call(&operator, "resource.mount", params);
    line_client_call(&operator, "resource.define",
                     "{\"group\":\"one\",\"residency\":\"evictable\",\"resources\":"
                     "[{\"name\":\"one\",\"path\":\"one.bin\",\"kind\":\"raw\"}]}");
    reply = line_client_call(&operator, "resource.load", "{\"group\":\"one\"}");
    ck_assert_msg(line_has(reply, "state", "\"ready\""), "%s", reply);
}

START_TEST(memory_that_runs_short_evicts_and_halves_the_clocks_that_allow_it)
{
    const char *reply;

    start("");
    load_group();
    line_client_call(&operator, "clock.step.create",
                     "{\"name\":\"soft\",\"hz\":60,\"breaker\":true}");
    line_client_call(&operator, "clock.step.create", "{\"name\":\"hard\",\"hz\":50}");
    put_available(140);
    wait_level("1");
    ck_assert(strstr(line_client_call(&operator, "resource.list", NULL), "\"evicted\"") == NULL);
    put_available(90);
    wait_level("2");
    ck_assert(strstr(line_client_call(&operator, "resource.list", NULL), "\"evicted\"") != NULL);
    reply = line_client_call(&operator, "breaker.history", "{\"limit\":1}");
    ck_assert_msg(strstr(reply, "\"evict\":{\"runs\":1,\"freed_bytes\":12288") != NULL, "%s",
                  reply);
    put_available(10);
    wait_level("3");
    reply = ask_until("clock.get", "hz", "30");
    ck_assert_msg(line_has(reply, "hz", "50"), "%s", reply);
    stop();
}
END_TEST

/* ---- policy ---- */

/* Members of "breaker" in a file, and what the refusal says. */
static const struct {
    const char *members, *said;
} refused[] = {
    { "\"eviction_permille\":200",
      "breaker.eviction_permille is 200, not below breaker.warning_permille, which is 150" },
    { "\"hold_ms\":-1", "breaker.hold_ms" },
    { "\"eviction_actions\":\"evict,explode\"",
      "breaker.eviction_actions: there is no action \\\"explode\\\"" },
    { "\"emergency_permille\":\"5\"", "breaker.emergency_permille" },
};

START_TEST(a_policy_is_reloaded_during_level_2_and_a_bad_one_changes_nothing)
{
    const char *reply;

    start("\"hold_ms\":20");
    put_available(90);
    wait_level("2");
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        put_config(refused[i].members);
        reply = line_client_call(&operator, "core.reload", NULL);
        ck_assert_msg(strstr(reply, refused[i].said) != NULL, "%s", reply);
        reply = line_client_call(&operator, "breaker.policy", NULL);
        ck_assert_msg(line_has(reply, "eviction_permille", "100") &&
                          line_has(reply, "hold_ms", "20"),
                      "%s", reply);
        ck_assert(line_has(line_client_call(&operator, "breaker.get", NULL), "level", "2"));
    }

    put_config("\"hold_ms\":20,\"eviction_permille\":40,\"emergency_permille\":20");
    reply = line_client_call(&operator, "core.reload", NULL);
    ck_assert_msg(line_has(reply, "errors", "[]"), "%s", reply);
    ck_assert(
        line_has(line_client_call(&operator, "breaker.policy", NULL), "eviction_permille", "40"));
    wait_level("1"); /* 90 is above 40 and its hysteresis now */

    reply = line_client_call(&operator, "breaker.policy", "{\"set\":{\"eviction_permille\":95}}");
    ck_assert_msg(line_has(reply, "eviction_permille", "95"), "%s", reply);
    wait_level("2");
    reply = line_client_call(&operator, "breaker.policy", "{\"set\":{\"eviction_permille\":-95}}");
    ck_assert_msg(line_has(reply, "code", "-32030") && strstr(reply, "eviction_permille") != NULL,
                  "%s", reply);
    stop();
}
END_TEST

START_TEST(a_daemon_with_a_bad_policy_does_not_start_and_names_the_key)
{
    char output[4096];
    const char *const arguments[] = { "--socket", "/tmp/ec-never.sock", "--set",
                                      "breaker.warning_permille=20", NULL };

    ck_assert_int_ne(daemon_run(arguments, output, sizeof output), 0);
    ck_assert_msg(strstr(output, "breaker.warning_permille") != NULL, "%s", output);
}
END_TEST

START_TEST(a_rehearsal_changes_nothing)
{
    const char *reply;

    start("");
    reply = line_client_call(&operator, "breaker.rehearse", "{\"set\":{\"warning_permille\":950}}");
    ck_assert_msg(strstr(reply, "\"name\":\"host\",\"level\":1") != NULL, "%s", reply);
    reply = line_client_call(&operator, "breaker.rehearse", "{\"trace\":[[0,100,50],[5,100,7]]}");
    ck_assert_msg(line_has(reply, "highest", "2"), "%s", reply);
    reply = line_client_call(&operator, "breaker.rehearse", "{\"trace\":[[5,100,7],[0,100,50]]}");
    ck_assert_msg(line_has(reply, "code", "-32602"), "%s", reply);
    ck_assert_msg(strstr(reply, "element 1 is at 0 ms") != NULL, "%s", reply);
    reply = line_client_call(&operator, "breaker.rehearse", "{\"trace\":[[0,100,50,0,0,0]]}");
    ck_assert_msg(line_has(reply, "code", "-32602"), "%s", reply);
    ck_assert(line_has(line_client_call(&operator, "breaker.get", NULL), "level", "0"));
    ck_assert(
        line_has(line_client_call(&operator, "breaker.policy", NULL), "warning_permille", "150"));
    stop();
}
END_TEST

/* ---- clients ---- */

struct obedient {
    struct ec_client *client;
    uint64_t asked, calls; /* asked: in all; newest: by the last order */
    uint64_t newest;
    uint32_t level;
    bool must_leave;
};

static void obey(void *context, const struct ec_breaker_policy *policy)
{
    struct obedient *obedient = context;

    __atomic_add_fetch(&obedient->calls, 1, __ATOMIC_RELAXED);
    if (policy->give_bytes > 0) {
        __atomic_add_fetch(&obedient->asked, policy->give_bytes, __ATOMIC_RELAXED);
        __atomic_store_n(&obedient->newest, policy->give_bytes, __ATOMIC_RELAXED);
        ec_breaker_answer(obedient->client, policy, policy->give_bytes, policy->give_bytes / 4);
    }
    __atomic_store_n(&obedient->must_leave, policy->must_leave, __ATOMIC_RELAXED);
    __atomic_store_n(&obedient->level, policy->level, __ATOMIC_RELEASE);
}

static void watch(struct obedient *obedient, bool immediate)
{
    ec_breaker_on_change(obedient->client, &(struct ec_breaker_watch) {
                                               .fn = obey,
                                               .context = obedient,
                                               .immediate = immediate,
                                           });
}

START_TEST(an_immediate_client_is_asked_answers_and_is_remembered)
{
    struct obedient obedient = { 0 };
    const char *reply;

    start("\"hold_ms\":20,\"order_deadline_ms\":60000");
    obedient.client = join("obedient");
    ec_breaker_offer(obedient.client, 1u << 30);
    watch(&obedient, true);
    put_available(90);
    reply = ask_until("breaker.get", "acked_level", "2");
    /* up to the warning mark and 1 % more: 70 of 1000 parts, and what seemed to grow */
    ck_assert_uint_ge(__atomic_load_n(&obedient.asked, __ATOMIC_RELAXED),
                      70u * TOTAL_KIB / 1000 * 1024);
    ck_assert_msg(!line_has(reply, "ack_latency_ns", "null"), "%s", reply);
    reply = line_client_call(&operator, "breaker.history", NULL);
    ck_assert_msg(strstr(reply, "\"orders\":{\"runs\":1") != NULL, "%s", reply);
    ck_assert(strstr(reply, "\"trim\":{\"runs\":1") != NULL);
    put_available(900);
    wait_level("0");
    ec_client_destroy(obedient.client);
    stop();
}
END_TEST

/* No library writes that, but a hostile program can. */
START_TEST(a_nonsense_answer_stays_an_answer_with_sane_numbers)
{
    static const int64_t times_ns[] = { INT64_MIN, -1, 0, INT64_MAX };
    struct ec_client *client;
    const char *reply;

    start("\"order_deadline_ms\":60000,\"order_growth_ms\":0,\"grace_ms\":600000,\"hold_ms\":20");
    client = join("hostile");
    ec_breaker_offer(client, UINT64_MAX);
    for (size_t i = 0; i < sizeof times_ns / sizeof times_ns[0]; i++) {
        struct ec_breaker_ack *ack = &ec_client_own(client)->breaker;

        put_available(90);
        wait_level("2");
        atomic_store(&ack->at_ns, times_ns[i]);
        atomic_store(&ack->freed_bytes, UINT64_MAX);
        atomic_store(&ack->trimmed_bytes, UINT64_MAX);
        atomic_store(&ack->order, UINT64_MAX);
        atomic_store(&ack->level, 2);
        atomic_fetch_add(&ack->sequence, 2);
        reply = ask_until("breaker.get", "acked_level", "2");
        ck_assert_msg(line_has(reply, "freed_bytes", "1024000000"), "%s", reply); /* of the host */
        ck_assert_msg(strstr(reply, "\"ack_latency_ns\":-") == NULL, "%s", reply);
        put_available(900);
        wait_level("0");
    }
    ec_client_destroy(client);
    stop();
}
END_TEST

START_TEST(a_call_back_at_frame_marks_runs_at_frame_marks_only)
{
    struct obedient obedient = { 0 };
    struct ec_frame frame;

    start("");
    obedient.client = join("framed");
    watch(&obedient, false);
    ec_frame_begin(obedient.client, &frame);
    ck_assert_uint_eq(obedient.calls, 0);
    put_available(90);
    wait_level("2");
    ck_assert_uint_eq(obedient.calls, 0);
    ec_frame_begin(obedient.client, &frame);
    ck_assert_uint_eq(obedient.calls, 1);
    ck_assert_uint_eq(obedient.level, 2);
    ec_breaker_on_change(obedient.client, NULL);
    put_available(10);
    wait_level("3");
    ec_frame_begin(obedient.client, &frame);
    ck_assert_uint_eq(obedient.calls, 1);
    ec_client_destroy(obedient.client);
    stop();
}
END_TEST

START_TEST(the_policy_tells_the_knobs_of_the_level)
{
    struct ec_breaker_policy policy;
    struct ec_client *client;

    start("\"particle_rate_permille\":250");
    client = join("knobs");
    ec_breaker_policy(client, &policy);
    ck_assert(policy.level == 0 && policy.particle_rate == 1.0f && policy.audio_noncritical);
    ck_assert(policy.quality == 1.0f && policy.shadows && policy.post_effects &&
              !policy.must_leave);
    ck_assert_str_eq(policy.cause, "none");
    ck_assert_uint_eq(policy.total_bytes, TOTAL_KIB * 1024ull);
    put_available(90);
    wait_level("2");
    ec_breaker_policy(client, &policy);
    ck_assert(policy.level == 2 && policy.particle_rate == 0.25f && !policy.audio_noncritical);
    ck_assert(policy.quality == 1.0f && policy.shadows);
    put_available(10);
    wait_level("3");
    ec_breaker_policy(client, &policy);
    ck_assert(policy.quality == 0.0f && !policy.shadows && !policy.post_effects);
    ck_assert(policy.lod_bias == 1.0f);
    ec_client_destroy(client);
    stop();
}
END_TEST

/* How often the first client in the list was late, once that is more often than before. */
static int64_t wait_late(int64_t before)
{
    struct timespec begin;
    int64_t late;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        late =
            reply_number(line_client_call(&operator, "breaker.get", NULL), "result/clients/0/late");
    while (late <= before && !is_too_late(&begin));
    ck_assert_int_gt(late, before);
    return late;
}

START_TEST(who_is_late_is_asked_again_and_the_others_for_more)
{
    struct obedient obedient = { 0 };
    struct ec_breaker_policy policy;
    struct ec_client *silent;
    struct timespec begin;
    uint64_t first;
    int64_t late;

    start("\"order_deadline_ms\":20,\"grace_ms\":600000,\"order_growth_ms\":0");
    silent = join("silent");
    obedient.client = join("obedient");
    ec_breaker_offer(silent, 1u << 30);
    ec_breaker_offer(obedient.client, 1u << 30);
    watch(&obedient, true);
    put_available(90);
    wait_level("2");
    ec_breaker_policy(silent, &policy);
    first = policy.order;
    ck_assert_uint_gt(policy.give_bytes, 0);
    late = wait_late(1);
    /* The file does not care what was given back: the need is the same, the shares are not. On a slow
     * machine the other one may be late now and then, too. */
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        ec_breaker_policy(silent, &policy);
        line_client_call(&operator, "breaker.get", NULL);
    } while ((policy.order <= first ||
              __atomic_load_n(&obedient.newest, __ATOMIC_RELAXED) <= 3 * policy.give_bytes) &&
             !is_too_late(&begin));
    ck_assert_uint_gt(policy.order, first);
    ck_assert_uint_gt(__atomic_load_n(&obedient.newest, __ATOMIC_RELAXED), 3 * policy.give_bytes);
    /* An answer to the first order does not count for a later one. */
    policy.order = first;
    ec_breaker_answer(silent, &policy, 1, 0);
    wait_late(late);
    ec_client_destroy(silent);
    ec_client_destroy(obedient.client);
    stop();
}
END_TEST

/* A process of its own that joins and does nothing more. */
static pid_t join_process(void)
{
    int ready[2];
    char byte;
    pid_t pid;

    ck_assert_int_eq(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        struct ec_client *client;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGTERM, SIG_DFL); /* not that of the test runner */
        if (ec_client_create(
                &(struct ec_client_desc) { .name = "other", .socket_path = engine.socket_path },
                &client, NULL) != EC_OK ||
            write(ready[1], "r", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

START_TEST(clients_that_stop_or_die_in_the_middle_hold_nobody_up)
{
    struct obedient obedient = { 0 };
    pid_t stopped, killed;
    int status;

    start("\"order_deadline_ms\":20,\"grace_ms\":600000,\"hold_ms\":20");
    stopped = join_process();
    killed = join_process();
    obedient.client = join("obedient");
    watch(&obedient, true);
    ck_assert_int_eq(kill(stopped, SIGSTOP), 0);
    put_available(90);
    wait_late(1);
    ck_assert_int_eq(kill(killed, SIGKILL), 0);
    ck_assert_int_eq(waitpid(killed, &status, 0), killed);
    put_available(10);
    wait_level("3");
    ask_until("breaker.get", "acked_level", "3");
    put_available(900);
    wait_level("0");
    kill(stopped, SIGKILL);
    ck_assert_int_eq(waitpid(stopped, &status, 0), stopped);
    ec_client_destroy(obedient.client);
    stop();
}
END_TEST

START_TEST(only_who_may_go_is_asked_to_leave_lowest_priority_first)
{
    struct ec_breaker_policy policy;
    struct ec_client *needed, *dear, *cheap;

    start("\"grace_ms\":0,\"save_deadline_ms\":600000,\"hold_ms\":20");
    needed = join("needed");
    dear = join("dear");
    cheap = join("cheap");
    ck_assert_int_eq(
        ec_breaker_declare(needed, &(struct ec_breaker_traits) { .required = true }, NULL), EC_OK);
    ck_assert_int_eq(ec_breaker_declare(dear, &(struct ec_breaker_traits) { .priority = 90 }, NULL),
                     EC_OK);
    ck_assert_int_eq(
        ec_breaker_declare(cheap, &(struct ec_breaker_traits) { .priority = 10 }, NULL), EC_OK);
    ck_assert_int_eq(
        ec_breaker_declare(cheap, &(struct ec_breaker_traits) { .priority = 101 }, NULL),
        EC_ERR_PARAM);
    put_available(10);
    ask_until("breaker.get", "exit_asked", "true");
    ec_breaker_policy(cheap, &policy);
    ck_assert(policy.must_leave);
    ck_assert_int_gt(policy.leave_ns, 0);
    ec_breaker_policy(dear, &policy);
    ck_assert(!policy.must_leave);
    ec_client_destroy(cheap); /* it does as it was asked */
    while (!policy.must_leave) {
        line_client_call(&operator, "breaker.get", NULL);
        ec_breaker_policy(dear, &policy);
    }
    ec_breaker_policy(needed, &policy);
    ck_assert(!policy.must_leave);
    put_available(900);
    wait_level("0");
    ec_breaker_policy(dear, &policy);
    ck_assert(!policy.must_leave); /* withdrawn */
    ck_assert(strstr(line_client_call(&operator, "breaker.history", NULL), "\"exits\":2") != NULL);
    ec_client_destroy(dear);
    ec_client_destroy(needed);
    stop();
}
END_TEST

START_TEST(who_does_not_leave_gets_sigterm_when_the_policy_says_so)
{
    pid_t other;
    int status = 0;

    start("\"grace_ms\":0,\"save_deadline_ms\":1,\"sigterm\":true");
    other = join_process();
    put_available(10);
    ck_assert_int_eq(waitpid(other, &status, 0), other);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(WTERMSIG(status), SIGTERM);
    stop();
}
END_TEST

START_TEST(nobody_is_asked_for_anything_while_it_saves)
{
    struct ec_breaker_policy policy;
    struct ec_client *client;

    start("\"grace_ms\":0");
    client = join("saving");
    ck_assert_int_eq(
        ec_breaker_declare(client, &(struct ec_breaker_traits) { .saving = true }, NULL), EC_OK);
    put_available(10);
    wait_level("3");
    line_client_call(&operator, "breaker.get", NULL);
    ec_breaker_policy(client, &policy);
    ck_assert_uint_eq(policy.level, 3);
    ck_assert_uint_eq(policy.give_bytes, 0);
    ck_assert(!policy.must_leave);
    ck_assert_int_eq(ec_breaker_declare(client, &(struct ec_breaker_traits) { 0 }, NULL), EC_OK);
    ask_until("breaker.get", "exit_asked", "true");
    ec_client_destroy(client);
    stop();
}
END_TEST

static void put_group(unsigned limit, unsigned usage)
{
    static const char *const names[] = { "memory.max", "memory.current", "memory.stat" };
    char path[192];

    for (unsigned i = 0; i < 3; i++) {
        FILE *file;

        snprintf(path, sizeof path, "%s/games/%s", engine.directory, names[i]);
        file = fopen(path, access(path, F_OK) == 0 ? "r+" : "w");
        ck_assert_ptr_nonnull(file);
        fprintf(file, "%010u\n", i == 0 ? limit : i == 1 ? usage : 0);
        fclose(file);
    }
}

static void put_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

/* This process lives in a group of its own. */
static void put_own_group(void)
{
    char path[192], text[256];

    snprintf(path, sizeof path, "%s/games", engine.directory);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    put_group(1000000, 100000);
    snprintf(path, sizeof path, "%s/self", proc);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    snprintf(path, sizeof path, "%s/self/mountinfo", proc);
    snprintf(text, sizeof text, "41 31 0:38 / %s rw - cgroup2 cgroup2 rw\n", engine.directory);
    put_file(path, text);
    snprintf(path, sizeof path, "%s/%d", proc, (int)getpid());
    ck_assert_int_eq(mkdir(path, 0755), 0);
    snprintf(path, sizeof path, "%s/%d/cgroup", proc, (int)getpid());
    put_file(path, "0::/games\n");
}

START_TEST(a_client_has_the_level_of_its_own_group_too)
{
    struct ec_step_clock clock;
    struct ec_client *client;
    struct ec_step step;

    start("\"hold_ms\":20");
    put_own_group();
    client = join("grouped");
    ck_assert_uint_eq(ec_breaker_level(client), 0);
    ck_assert_int_eq(ec_step_find(client, "physics", &clock), EC_OK);
    put_group(1000000, 930000);
    ask_until("breaker.get", "own_level", "2");
    ck_assert_uint_eq(ec_breaker_level(client), 2);
    ck_assert(line_has(line_client_call(&operator, "core.info", NULL), "breaker_level", "0"));
    ck_assert_int_eq(ec_step_wait(&clock, -1, &step), EC_OK);
    ck_assert(step.breaker_changed);
    ck_assert_uint_eq(step.breaker_level, 2);
    put_group(1000000, 100000);
    ask_until("breaker.get", "own_level", "0");
    ck_assert_uint_eq(ec_breaker_level(client), 0);
    do
        ck_assert_int_eq(ec_step_wait(&clock, -1, &step), EC_OK);
    while (!step.breaker_changed);
    ck_assert_uint_eq(step.breaker_level, 0);
    ec_client_destroy(client);
    stop();
}
END_TEST

/* While game time stands no step comes: only the change itself can wake it. */
START_TEST(who_waits_for_a_step_is_woken_by_its_own_level)
{
    struct ec_step_clock clock;
    struct ec_client *client;
    struct ec_step step;

    start("\"hold_ms\":20");
    put_own_group();
    client = join("grouped");
    line_client_call(&operator, "clock.pause", NULL);
    ck_assert_int_eq(ec_step_find(client, "physics", &clock), EC_OK);
    put_group(1000000, 930000);
    do
        ck_assert_int_eq(ec_step_wait(&clock, -1, &step), EC_OK);
    while (!step.breaker_changed);
    ck_assert_uint_eq(step.breaker_level, 2);
    ec_client_destroy(client);
    stop();
}
END_TEST

/* ---- effects ---- */

/* The transition that is newest, once it shows this. */
static const char *wait_history(const char *text)
{
    const char *reply = NULL;
    struct timespec begin;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    while (!is_too_late(&begin)) {
        line_client_call(&operator, "breaker.get", NULL); /* a look */
        reply = line_client_call(&operator, "breaker.history", "{\"limit\":1}");
        if (strstr(reply, text) != NULL)
            return reply;
    }
    ck_abort_msg("no %s: %s", text, reply);
}

START_TEST(who_turned_a_knob_and_what_that_gave_back_is_shown)
{
    struct ec_breaker_policy policy;
    struct ec_client *client, *deaf;
    const char *reply;

    start("\"hold_ms\":20,\"order_deadline_ms\":60000,\"grace_ms\":600000");
    client = join("turning");
    deaf = join("deaf");
    put_available(90);
    wait_level("2");
    ec_breaker_policy(client, &policy);
    ec_breaker_knob_turned(client, EC_BREAKER_KNOB_PARTICLES, 7000);
    ec_breaker_knob_turned(client, EC_BREAKER_KNOB_PARTICLES, 500);
    ec_breaker_knob_turned(client, EC_BREAKER_KNOB_SHADOWS, 1); /* nobody asked for that yet */
    reply = wait_history("\"particles\":{\"runs\":1,\"freed_bytes\":7500");
    ck_assert_msg(strstr(reply, "\"audio\":{\"runs\":1,\"freed_bytes\":0") != NULL, "%s", reply);
    ck_assert_msg(strstr(reply, "shadows") == NULL, "%s", reply);
    put_available(10);
    wait_level("3");
    ec_breaker_policy(client, &policy);
    ec_breaker_knob_turned(client, EC_BREAKER_KNOB_QUALITY, 300);
    ec_breaker_policy(deaf, &policy);
    reply = wait_history("\"quality\":{\"runs\":2,\"freed_bytes\":300");
    ck_assert_msg(strstr(reply, "\"post_effects\":{\"runs\":2") != NULL, "%s", reply);
    ec_client_destroy(client);
    ec_client_destroy(deaf);
    stop();
}
END_TEST

/* Whether this clock's rate is this: clock.get has all of them in one line. */
static bool has_rate(const char *name, const char *rate)
{
    const char *reply = line_client_call(&operator, "clock.get", NULL);
    char text[64];
    const char *at, *end;

    snprintf(text, sizeof text, "\"name\":\"%s\"", name);
    at = strstr(reply, text);
    ck_assert_ptr_nonnull(at);
    end = strchr(at, '}');
    snprintf(text, sizeof text, "\"hz\":%s,", rate);
    at = strstr(at, text);
    return at != NULL && at < end;
}

START_TEST(the_step_rate_is_an_action_of_the_policy)
{
    struct timespec begin;

    start("\"hold_ms\":20,\"emergency_actions\":\"quality\"");
    line_client_call(&operator, "clock.step.create",
                     "{\"name\":\"soft\",\"hz\":60,\"breaker\":true}");
    put_available(10);
    wait_level("3");
    ck_assert(has_rate("soft", "60"));
    line_client_call(&operator, "breaker.policy",
                     "{\"set\":{\"emergency_actions\":\"step_rate\"}}");
    clock_gettime(CLOCK_MONOTONIC, &begin);
    while (!has_rate("soft", "30") && !is_too_late(&begin))
        ;
    ck_assert(has_rate("soft", "30"));
    wait_history("\"step_rate\":{\"runs\":1");
    put_available(900);
    wait_level("0");
    clock_gettime(CLOCK_MONOTONIC, &begin);
    while (!has_rate("soft", "60") && !is_too_late(&begin))
        ;
    ck_assert(has_rate("soft", "60"));
    stop();
}
END_TEST

/* Ten times a second from level 1 on: of three samples the first and the last are two tenths apart. */
START_TEST(from_level_1_on_each_clients_memory_is_sampled)
{
    long long newest_ns = 0, oldest_ns = 0;
    struct ec_client *client;
    const char *reply = NULL, *at;
    char path[192];
    struct timespec begin;

    start("\"hold_ms\":20");
    snprintf(path, sizeof path, "%s/%d", proc, (int)getpid());
    ck_assert_int_eq(mkdir(path, 0755), 0);
    snprintf(path, sizeof path, "%s/%d/statm", proc, (int)getpid());
    put_file(path, "1000 500 100 1 0 9 0\n");
    client = join("sampled");
    ck_assert(line_has(line_client_call(&operator, "breaker.samples", NULL), "items", "[]"));
    put_available(140);
    wait_level("1");
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        reply = line_client_call(&operator, "breaker.samples", "{\"limit\":3}");
        at = strstr(reply, "\"at_ns\":");
        newest_ns = at == NULL ? 0 : strtoll(at + 8, NULL, 10);
        for (unsigned i = 0; i < 2 && at != NULL; i++)
            at = strstr(at + 1, "\"at_ns\":");
    } while (at == NULL && !is_too_late(&begin));
    ck_assert_msg(at != NULL, "%s", reply);
    oldest_ns = strtoll(at + 8, NULL, 10);
    ck_assert_int_ge(newest_ns - oldest_ns, 2 * 100000000);
    ck_assert_msg(line_has(reply, "resident_bytes", "2048000"), "%s", reply);
    ck_assert_msg(line_has(reply, "private_bytes", "1638400"), "%s", reply);
    ck_assert_msg(line_has(reply, "available_bytes", "143360000"), "%s", reply);
    ck_assert(line_has(line_client_call(&operator, "breaker.samples", "{\"client_id\":9999}"),
                       "items", "[]"));
    wait_history("\"sampling\":{\"runs\":");
    ec_client_destroy(client);
    stop();
}
END_TEST

START_TEST(a_brief_answer_has_the_status_alone)
{
    const char *reply;

    start("");
    reply = line_client_call(&operator, "breaker.get", "{\"brief\":true}");
    ck_assert_msg(line_has(reply, "level", "0") && line_has(reply, "next_level_ns", "null"), "%s",
                  reply);
    ck_assert_msg(strstr(reply, "\"sources\"") == NULL && strstr(reply, "\"actions\"") == NULL,
                  "%s", reply);
    ck_assert_uint_lt(strlen(reply), 400);
    stop();
}
END_TEST

/* ---- reservations ---- */

#define MEGA 1000000ull

static int reserve(struct ec_client *client, uint64_t bytes, uint32_t *id)
{
    return ec_breaker_reserve(client, &(struct ec_breaker_wish) { .bytes = bytes }, id, NULL);
}

START_TEST(room_is_reserved_deducted_released_and_refused)
{
    struct ec_client *first, *second;
    uint32_t id = 0, other = 0;

    start("");
    first = join("first");
    second = join("second");
    put_available(300); /* 307 MB; below 102 MB is level 2 */
    while (
        !line_has(line_client_call(&operator, "breaker.get", NULL), "available_bytes", "307200000"))
        ;
    ck_assert_int_eq(reserve(first, 150 * MEGA, &id), EC_OK);
    ck_assert_uint_ne(id, 0);
    ck_assert(
        line_has(line_client_call(&operator, "breaker.get", NULL), "available_bytes", "157200000"));
    ck_assert_int_eq(reserve(second, 60 * MEGA, &other), EC_AGAIN);
    ck_assert_int_eq(ec_breaker_release(second, id, NULL), EC_ERR_NOT_FOUND); /* not its own */
    ck_assert_int_eq(ec_breaker_release(first, id, NULL), EC_OK);
    ck_assert_int_eq(reserve(second, 60 * MEGA, &other), EC_OK);
    ec_client_destroy(second); /* and what it had goes with it */
    ask_until("breaker.get", "available_bytes", "307200000");
    ec_client_destroy(first);
    stop();
}
END_TEST

/* Used by who has reserved it, and gone from what is available: that is the same memory. */
START_TEST(what_is_reserved_and_used_counts_once)
{
    struct ec_client *client;
    char path[192];
    uint32_t id = 0;

    start("");
    snprintf(path, sizeof path, "%s/%d", proc, (int)getpid());
    ck_assert_int_eq(mkdir(path, 0755), 0);
    snprintf(path, sizeof path, "%s/%d/statm", proc, (int)getpid());
    put_file(path, "90000 10000 0 1 0 9 0\n");
    client = join("using");
    put_available(300);
    ask_until("breaker.get", "available_bytes", "307200000");
    ck_assert_int_eq(reserve(client, 20000 * 4096, &id), EC_OK);
    ask_until("breaker.get", "available_bytes", "225280000");
    put_file(path, "90000 25000 0 1 0 9 0\n"); /* 15,000 pages of it */
    put_available(240);
    ask_until("breaker.get", "taken_bytes", "61440000");
    ask_until("breaker.get", "available_bytes", "225280000");
    put_file(path, "90000 40000 0 1 0 9 0\n"); /* more than it has reserved */
    put_available(180);
    ask_until("breaker.get", "taken_bytes", "81920000");
    ask_until("breaker.get", "available_bytes", "184320000");
    ck_assert_int_eq(ec_breaker_release(client, id, NULL), EC_OK);
    ask_until("breaker.get", "available_bytes", "184320000");
    ec_client_destroy(client);
    stop();
}
END_TEST

START_TEST(who_waits_for_room_gets_it_when_there_is_some)
{
    const char *reply;

    start("");
    put_available(120);
    wait_level("1");
    ck_assert(line_client_send(&operator,
                               "{\"jsonrpc\":\"2.0\",\"id\":900,\"method\":\"breaker.reserve\","
                               "\"params\":{\"bytes\":100000000,\"timeout_ms\":20000}}"));
    put_available(900);
    do
        reply = line_client_receive(&operator);
    while (reply != NULL && !line_has(reply, "id", "900"));
    ck_assert_msg(reply != NULL && line_has(reply, "granted", "true"), "%s", reply);
    reply =
        line_client_call(&operator, "breaker.reserve", "{\"bytes\":1000000000,\"timeout_ms\":10}");
    ck_assert_msg(line_has(reply, "granted", "false"), "%s", reply);
    stop();
}
END_TEST

/* ---- alarm ---- */

START_TEST(the_alarm_gets_the_values_and_a_time_limit)
{
    char members[256], path[128];
    bool killed = false;
    struct timespec begin;
    FILE *file = NULL;
    char line[64] = "";

    start("");
    snprintf(path, sizeof path, "%s/said", engine.directory);
    snprintf(members, sizeof members,
             "\"on_level_s\":1,\"on_level\":\"echo $EC_BREAKER_FROM $EC_BREAKER_LEVEL "
             "$EC_BREAKER_CAUSE > %s; sleep 600\"",
             path);
    put_config(members);
    line_client_call(&operator, "core.reload", NULL);
    put_available(90);
    wait_level("2");
    clock_gettime(CLOCK_MONOTONIC, &begin);
    while (!killed && !is_too_late(&begin)) {
        line_client_call(&operator, "core.ping", "{}");
        killed = daemon_has_said(&engine, "took too long");
    }
    ck_assert(killed);
    file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, file));
    fclose(file);
    ck_assert_str_eq(line, "0 2 memory\n");
    stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("breaker_memory");
    TCase *tcase = tcase_create("breaker_memory");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, levels_follow_memory_up_at_once_and_down_step_by_step);
    tcase_add_test(tcase, a_manual_level_is_a_floor_under_what_memory_says);
    tcase_add_test(tcase, memory_that_runs_short_evicts_and_halves_the_clocks_that_allow_it);
    tcase_add_test(tcase, a_policy_is_reloaded_during_level_2_and_a_bad_one_changes_nothing);
    tcase_add_test(tcase, a_daemon_with_a_bad_policy_does_not_start_and_names_the_key);
    tcase_add_test(tcase, a_rehearsal_changes_nothing);
    tcase_add_test(tcase, an_immediate_client_is_asked_answers_and_is_remembered);
    tcase_add_test(tcase, a_nonsense_answer_stays_an_answer_with_sane_numbers);
    tcase_add_test(tcase, a_call_back_at_frame_marks_runs_at_frame_marks_only);
    tcase_add_test(tcase, the_policy_tells_the_knobs_of_the_level);
    tcase_add_test(tcase, who_is_late_is_asked_again_and_the_others_for_more);
    tcase_add_test(tcase, clients_that_stop_or_die_in_the_middle_hold_nobody_up);
    tcase_add_test(tcase, only_who_may_go_is_asked_to_leave_lowest_priority_first);
    tcase_add_test(tcase, who_does_not_leave_gets_sigterm_when_the_policy_says_so);
    tcase_add_test(tcase, nobody_is_asked_for_anything_while_it_saves);
    tcase_add_test(tcase, a_client_has_the_level_of_its_own_group_too);
    tcase_add_test(tcase, who_waits_for_a_step_is_woken_by_its_own_level);
    tcase_add_test(tcase, who_turned_a_knob_and_what_that_gave_back_is_shown);
    tcase_add_test(tcase, the_step_rate_is_an_action_of_the_policy);
    tcase_add_test(tcase, from_level_1_on_each_clients_memory_is_sampled);
    tcase_add_test(tcase, a_brief_answer_has_the_status_alone);
    tcase_add_test(tcase, what_is_reserved_and_used_counts_once);
    tcase_add_test(tcase, room_is_reserved_deducted_released_and_refused);
    tcase_add_test(tcase, who_waits_for_room_gets_it_when_there_is_some);
    tcase_add_test(tcase, the_alarm_gets_the_values_and_a_time_limit);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
