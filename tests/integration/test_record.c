/* What was recorded comes again: every payload, in order, whatever happened to the recorder. */
#include <engine-core/clock.h>
#include <engine-core/publisher.h>
#include <engine-core/subscriber.h>

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/daemon.h"
#include "support/fixture.h"

#define WAIT_NS 20000000000ll /* how long anything may take before the test has failed */
#define MANY 100000u

struct shot {
    uint64_t number;
    uint64_t check; /* ~number */
    float x;
    uint8_t kind; /* three bytes of padding behind it */
};

static const struct ec_event_field shot_fields[] = {
    EC_EVENT_FIELD(struct shot, number, EC_FIELD_U64),
    EC_EVENT_FIELD(struct shot, check, EC_FIELD_U64),
    EC_EVENT_FIELD(struct shot, x, EC_FIELD_F32),
    EC_EVENT_FIELD(struct shot, kind, EC_FIELD_U8),
};

static const struct ec_event_type_desc shot_desc = {
    .name = "game.shot", .fields = shot_fields, .field_count = 4, .bytes = sizeof(struct shot)
};

static struct daemon_process engine;
static char directory[64], path[96];

static void start_daemon(void)
{
    engine = (struct daemon_process) { 0 };
    ck_assert_msg(daemon_start(&engine, fixture_patient), "%s", engine.why);
}

static void set_up(void)
{
    strcpy(directory, "/tmp/ec-record-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/test.mcap", directory);
    start_daemon();
}

static void tear_down(void)
{
    ck_assert_int_eq(daemon_stop(&engine), 0);
    unlink(path);
    rmdir(directory);
}

/* ---- processes ------------------------------------------------------------------------------- */

struct process {
    pid_t pid;
    int from, to;
};

#define GAME_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _exit(100);                                                                            \
        }                                                                                          \
    } while (0)

typedef int game_fn(int say, int hear);

static struct process fork_with_pipes(bool *child, int *say, int *hear)
{
    struct process process;
    int from[2], to[2];

    ck_assert_int_eq(pipe2(from, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(to, O_CLOEXEC), 0);
    process.pid = fork();
    ck_assert_int_ge(process.pid, 0);
    *child = process.pid == 0;
    if (*child)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(*child ? from[0] : from[1]);
    close(*child ? to[1] : to[0]);
    *say = from[1];
    *hear = to[0];
    process.from = from[0];
    process.to = to[1];
    return process;
}

static struct process game_start(game_fn *fn)
{
    bool child;
    int say, hear;
    struct process process = fork_with_pipes(&child, &say, &hear);

    if (child)
        _exit(fn(say, hear));
    return process;
}

static struct process ctl_start(const char *const *words)
{
    const char *argv[16] = { "engine-ctl", "--socket", engine.socket_path };
    char program[4096];
    bool child;
    int say, hear;
    struct process process;

    snprintf(program, sizeof program, "%s/engine-ctl", getenv("EC_BIN_DIR"));
    for (int i = 0; words[i] != NULL; i++)
        argv[3 + i] = words[i];
    process = fork_with_pipes(&child, &say, &hear);
    if (child) {
        dup2(say, STDOUT_FILENO);
        dup2(say, STDERR_FILENO);
        execv(program, (char *const *)(void *)argv);
        _exit(127);
    }
    return process;
}

#define CTL(...) ctl_start((const char *const[]) { __VA_ARGS__, NULL })

static void say(int fd)
{
    GAME_CHECK(write(fd, "!", 1) == 1);
}

static void hear(int fd)
{
    char byte;

    GAME_CHECK(read(fd, &byte, 1) == 1);
}

static void wait_for(const struct process *process)
{
    char byte;

    ck_assert_int_eq(read(process->from, &byte, 1), 1);
}

static void tell(const struct process *process)
{
    ck_assert_int_eq(write(process->to, "!", 1), 1);
}

/* The exit code or -signal; output gets what it printed since. */
static int end_of(struct process *process, char *output, size_t bytes)
{
    char rest[4096];
    size_t used = 0;
    ssize_t got;
    int status;

    while ((got = read(process->from, rest, sizeof rest)) > 0)
        for (ssize_t i = 0; i < got; i++)
            if (used + 1 < bytes)
                output[used++] = rest[i];
    if (bytes > 0)
        output[used] = '\0';
    ck_assert_int_eq(waitpid(process->pid, &status, 0), process->pid);
    close(process->from);
    close(process->to);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static char output[65536];

static int run_ctl(const char *const *words)
{
    struct process process = ctl_start(words);

    return end_of(&process, output, sizeof output);
}

#define RUN(...) run_ctl((const char *const[]) { __VA_ARGS__, NULL })

/* A recorder that has said that it records. */
static struct process start_recorder(void)
{
    struct process recorder = CTL("record", path);
    char byte = '\0';

    while (byte != '\n')
        ck_assert_int_eq(read(recorder.from, &byte, 1), 1);
    return recorder;
}

static void end_recorder(struct process *recorder)
{
    ck_assert_int_eq(kill(recorder->pid, SIGINT), 0);
    ck_assert_msg(end_of(recorder, output, sizeof output) == 0, "%s", output);
}

/* ---- games ----------------------------------------------------------------------------------- */

static struct ec_client *join(const char *name)
{
    struct ec_client_desc desc = { .name = name,
                                   .socket_path = engine.socket_path,
                                   .timeout_ms = DAEMON_WAIT_MS };
    struct ec_client *client;

    GAME_CHECK(ec_client_create(&desc, &client, NULL) == EC_OK);
    GAME_CHECK(ec_event_type_register(client, &shot_desc, NULL, NULL) == EC_OK);
    return client;
}

static void publish_shot(struct ec_publisher *publisher, uint64_t number)
{
    struct shot shot = { .number = number, .check = ~number, .x = (float)number, .kind = 7 };

    GAME_CHECK(ec_publisher_publish(publisher, ec_event_type("game.shot"), &shot, sizeof shot) ==
               EC_OK);
}

/* The ring holds all of it, so that a loaded machine loses nothing. */
static int publish_many(int talk, int listen)
{
    struct ec_client *client = join("game");
    struct ec_publisher *publisher;

    (void)talk;
    (void)listen;
    GAME_CHECK(ec_publisher_create(
                   client, &(struct ec_publisher_desc) { .name = "shots", .ring_bytes = 16u << 20 },
                   &publisher, NULL) == EC_OK);
    for (uint64_t n = 0; n < MANY; n++)
        publish_shot(publisher, n);
    ec_publisher_destroy(publisher);
    ec_client_destroy(client);
    return 0;
}

struct seen {
    uint64_t count, next;
    bool gaps; /* allowed */
};

static void on_shot(void *context, const struct ec_event *event)
{
    const struct shot *shot = event->payload;
    struct seen *seen = context;

    GAME_CHECK(event->bytes == sizeof *shot && shot->check == ~shot->number);
    GAME_CHECK(shot->x == (float)shot->number && shot->kind == 7);
    GAME_CHECK(seen->gaps ? shot->number >= seen->next : shot->number == seen->next);
    seen->next = shot->number + 1;
    seen->count++;
}

static struct ec_subscriber *subscribe(struct ec_client *client, enum ec_order order)
{
    struct ec_subscriber_desc desc = { .types = (const char *[]) { "game.shot" },
                                       .type_count = 1,
                                       .order = order,
                                       .overdue_ms = 60000 };
    struct ec_subscriber *subscriber;

    GAME_CHECK(ec_subscriber_create(client, &desc, &subscriber, NULL) == EC_OK);
    return subscriber;
}

static int read_many(int talk, int listen)
{
    struct ec_client *client = join("reader");
    struct ec_subscriber *subscriber = subscribe(client, EC_ORDER_PORT);
    struct seen seen = { 0 };

    (void)listen;
    say(talk);
    while (seen.count < MANY) {
        GAME_CHECK(ec_subscriber_wait(subscriber, WAIT_NS) == EC_OK);
        ec_subscriber_poll(subscriber, on_shot, &seen, 1000);
    }
    ec_subscriber_destroy(subscriber);
    ec_client_destroy(client);
    return 0;
}

static void record_many(void)
{
    struct process recorder = start_recorder(), game = game_start(publish_many);

    ck_assert_int_eq(end_of(&game, NULL, 0), 0);
    end_recorder(&recorder);
}

START_TEST(every_recorded_event_comes_again_with_its_payload_and_in_order)
{
    struct process reader;

    record_many();
    ck_assert_int_eq(RUN("record", "--info", path, "--json"), 0);
    ck_assert_msg(line_has(output, "whole", "true"), "%s", output);
    ck_assert(line_has(output, "lost_events", "0"));
    ck_assert_msg(strstr(output, "\"client\":\"game\",\"port\":\"shots\","
                                 "\"type\":\"game.shot\",\"events\":100000") != NULL,
                  "%s", output);
    reader = game_start(read_many);
    wait_for(&reader);
    ck_assert_msg(RUN("replay", path, "--speed", "100", "--json") == 0, "%s", output);
    ck_assert_msg(line_has(output, "published", "100000"), "%s", output);
    ck_assert_int_eq(end_of(&reader, NULL, 0), 0);
}
END_TEST

/* ---- a recorder that is killed --------------------------------------------------------------- */

static int publish_for_ever(int talk, int listen)
{
    struct ec_client *client = join("game");
    struct ec_publisher *publisher;

    (void)listen;
    GAME_CHECK(ec_publisher_create(client, &(struct ec_publisher_desc) { .ring_bytes = 1u << 20 },
                                   &publisher, NULL) == EC_OK);
    say(talk);
    for (uint64_t n = 0; n < UINT64_MAX; n++) /* until it is killed */
        publish_shot(publisher, n);
    return 1;
}

/* Wait until the file has so many bytes. */
static void await_bytes(int inotify, off_t bytes)
{
    char events[4096];
    struct stat status;

    while (stat(path, &status) == 0 && status.st_size < bytes)
        ck_assert_int_gt(read(inotify, events, sizeof events), 0);
}

static int count_replayed(int talk, int listen)
{
    struct ec_client *client = join("reader");
    struct ec_subscriber *subscriber = subscribe(client, EC_ORDER_PORT);
    struct seen seen = { .gaps = true };
    struct ec_subscriber_stats stats;
    bool told = false;

    say(talk);
    while (!told) { /* until the replay has ended */
        struct pollfd readable = { .fd = listen, .events = POLLIN };

        ec_subscriber_wait(subscriber, 10000000);
        ec_subscriber_poll(subscriber, on_shot, &seen, 100000);
        told = poll(&readable, 1, 0) == 1;
    }
    while (ec_subscriber_poll(subscriber, on_shot, &seen, 100000) > 0)
        continue;
    ec_subscriber_stats(subscriber, &stats);
    GAME_CHECK(stats.lost_events == 0);
    GAME_CHECK(write(talk, &seen.count, sizeof seen.count) == sizeof seen.count);
    ec_subscriber_destroy(subscriber);
    ec_client_destroy(client);
    return 0;
}

START_TEST(what_a_killed_recorder_wrote_is_whole_up_to_its_last_chunk)
{
    struct process recorder = start_recorder(), game, reader;
    int inotify = inotify_init1(IN_CLOEXEC);
    char published[64];
    uint64_t count;

    ck_assert_int_ge(inotify_add_watch(inotify, path, IN_MODIFY), 0);
    game = game_start(publish_for_ever);
    wait_for(&game);
    await_bytes(inotify, 3 << 20); /* some chunks */
    ck_assert_int_eq(kill(recorder.pid, SIGKILL), 0);
    ck_assert_int_eq(end_of(&recorder, NULL, 0), -SIGKILL);
    ck_assert_int_eq(kill(game.pid, SIGKILL), 0);
    ck_assert_int_eq(end_of(&game, NULL, 0), -SIGKILL);
    close(inotify);

    ck_assert_int_eq(RUN("record", "--info", path, "--json"), 0);
    ck_assert_msg(line_has(output, "whole", "false"), "%s", output);
    ck_assert(line_has(output, "damaged", "0"));
    ck_assert(!line_has(output, "events", "0"));
    reader = game_start(count_replayed);
    wait_for(&reader);
    ck_assert_msg(RUN("replay", path, "--type", "game.shot", "--speed", "100", "--json") == 0, "%s",
                  output);
    tell(&reader);
    ck_assert_int_eq(read(reader.from, &count, sizeof count), sizeof count);
    ck_assert_int_eq(end_of(&reader, NULL, 0), 0);
    ck_assert_uint_gt(count, 0);
    snprintf(published, sizeof published, "%llu", (unsigned long long)count);
    ck_assert_msg(line_has(output, "published", published), "%s of %s", published, output);
}
END_TEST

/* ---- step-locked ----------------------------------------------------------------------------- */

#define STEPS 20u
#define STEP_EVENTS (STEPS * 3u * 2u) /* of one game: three on each of two ports a step */

/* Events of a game that has two ports, some in each of so many steps. */
static int publish_in_steps(const char *name, int talk, int listen)
{
    struct ec_client *client = join(name);
    struct ec_publisher *ports[2];
    struct ec_step_clock clock;
    struct ec_step step;
    uint64_t number = 0;

    for (int i = 0; i < 2; i++)
        GAME_CHECK(ec_publisher_create(
                       client, &(struct ec_publisher_desc) { .name = i == 0 ? "left" : "right" },
                       &ports[i], NULL) == EC_OK);
    GAME_CHECK(ec_step_find(client, "physics", &clock) == EC_OK);
    say(talk);
    hear(listen);
    for (uint32_t n = 0; n < STEPS; n++) {
        GAME_CHECK(ec_step_wait(&clock, WAIT_NS, &step) == EC_OK);
        for (int i = 0; i < 6; i++)
            publish_shot(ports[i % 2], number++);
    }
    for (int i = 0; i < 2; i++)
        ec_publisher_destroy(ports[i]);
    ec_client_destroy(client);
    return 0;
}

static int publish_as_anna(int talk, int listen)
{
    return publish_in_steps("anna", talk, listen);
}

static int publish_as_bert(int talk, int listen)
{
    return publish_in_steps("bert", talk, listen);
}

struct order {
    struct ec_subscriber *subscriber;
    uint64_t first_step;
    uint32_t count;
    struct step_event {
        char client, port;
        uint32_t step;
        uint64_t number;
    } events[2 * STEP_EVENTS];
};

static void note_order(void *context, const struct ec_event *event)
{
    const struct shot *shot = event->payload;
    struct order *order = context;
    struct step_event *note = &order->events[order->count];
    struct ec_port_names names;

    GAME_CHECK(order->count++ < 2 * STEP_EVENTS);
    GAME_CHECK(ec_subscriber_port(order->subscriber, event->port, &names) == EC_OK);
    if (order->count == 1)
        order->first_step = event->step;
    *note = (struct step_event) { .client = names.client[0],
                                  .port = names.port[0],
                                  .step = (uint32_t)(event->step - order->first_step),
                                  .number = shot->number };
}

/* Tell the order in which events come to one who reads by step. */
static int read_in_steps(int talk, int listen)
{
    struct ec_client *client = join("reader");
    struct order *order = calloc(1, sizeof *order);

    (void)listen;
    GAME_CHECK(order != NULL);
    order->subscriber = subscribe(client, EC_ORDER_STEP);
    say(talk);
    while (order->count < 2 * STEP_EVENTS) {
        GAME_CHECK(ec_subscriber_wait(order->subscriber, WAIT_NS) == EC_OK);
        ec_subscriber_poll(order->subscriber, note_order, order, 1000);
    }
    for (size_t told = 0; told < sizeof order->events;)
        told +=
            (size_t)write(talk, (const char *)order->events + told, sizeof order->events - told);
    ec_subscriber_destroy(order->subscriber);
    ec_client_destroy(client);
    free(order);
    return 0;
}

/* The steps of a late group of events differ from run to run, their order does not. */
static void replay_in_steps(struct step_event *events)
{
    struct process reader = game_start(read_in_steps), replay;
    const size_t bytes = 2 * STEP_EVENTS * sizeof *events;
    size_t got = 0;

    wait_for(&reader);
    replay = CTL("replay", path, "--step-locked", "--json");
    while (got < bytes) {
        ssize_t more = read(reader.from, (char *)events + got, bytes - got);

        ck_assert_int_gt(more, 0);
        got += (size_t)more;
    }
    ck_assert_int_eq(end_of(&reader, NULL, 0), 0);
    ck_assert_msg(end_of(&replay, output, sizeof output) == 0, "%s", output);
    ck_assert_msg(line_has(output, "published", "240"), "%s", output);
}

START_TEST(a_step_locked_replay_gives_the_same_order_twice)
{
    static struct step_event first[2 * STEP_EVENTS], second[2 * STEP_EVENTS];
    struct process recorder = start_recorder(), anna = game_start(publish_as_anna), bert;

    wait_for(&anna);
    bert = game_start(publish_as_bert);
    wait_for(&bert);
    tell(&bert);
    tell(&anna);
    ck_assert_int_eq(end_of(&anna, NULL, 0), 0);
    ck_assert_int_eq(end_of(&bert, NULL, 0), 0);
    end_recorder(&recorder);

    replay_in_steps(first);
    replay_in_steps(second);
    for (uint32_t i = 0; i < 2 * STEP_EVENTS; i++) {
        ck_assert_int_eq(first[i].client, second[i].client);
        ck_assert_int_eq(first[i].port, second[i].port);
        ck_assert_uint_eq(first[i].number, second[i].number);
    }
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------- */

START_TEST(a_type_that_is_registered_with_another_layout_stops_the_replay_and_names_the_field)
{
    struct line_client client;

    record_many();
    ck_assert_int_eq(daemon_stop(&engine), 0);
    start_daemon();
    ck_assert(line_client_connect(&client, engine.socket_path));
    line_client_hello(&client, "other build");
    line_client_call(&client, "event.register",
                     "{\"name\":\"game.shot\",\"fields\":[{\"name\":\"number\",\"type\":\"u64\"},"
                     "{\"name\":\"check\",\"type\":\"u32\"}]}");
    ck_assert_int_eq(RUN("replay", path), 1);
    ck_assert_msg(strstr(output, "check u32[1]") != NULL && strstr(output, "check u64[1]") != NULL,
                  "%s", output);
    line_client_close(&client);
}
END_TEST

START_TEST(a_file_that_is_there_is_not_overwritten_and_one_that_is_no_recording_is_refused)
{
    FILE *file = fopen(path, "w");

    fputs("precious", file);
    fclose(file);
    ck_assert_int_eq(RUN("record", path), 1);
    ck_assert_ptr_nonnull(strstr(output, "exists"));
    ck_assert_ptr_null(strstr(strstr(output, path) + 1, path)); /* it is named once */
    ck_assert_int_eq(RUN("record", "--info", path), 1);
    ck_assert_ptr_nonnull(strstr(output, "no MCAP file"));
    ck_assert_int_eq(RUN("replay", path), 1);
    ck_assert_ptr_nonnull(strstr(output, "no MCAP file"));
    file = fopen(path, "r");
    ck_assert_ptr_nonnull(fgets(output, sizeof output, file));
    ck_assert_str_eq(output, "precious");
    fclose(file);
}
END_TEST

START_TEST(a_type_that_was_not_recorded_is_named)
{
    record_many();
    ck_assert_int_eq(RUN("replay", path, "--type", "game.shot", "--type", "game.other"), 1);
    ck_assert_ptr_nonnull(strstr(output, "game.other"));
    ck_assert_int_eq(RUN("replay", path, "--speed", "1000"), 2);
    ck_assert_int_eq(RUN("replay", path, "--speed", "1", "--step-locked"), 2);
}
END_TEST

START_TEST(a_recorder_ends_with_its_daemon_and_its_file_is_whole)
{
    struct process recorder = start_recorder(), game;
    int inotify = inotify_init1(IN_CLOEXEC);

    ck_assert_int_ge(inotify_add_watch(inotify, path, IN_MODIFY), 0);
    game = game_start(publish_many);
    ck_assert_int_eq(end_of(&game, NULL, 0), 0);
    await_bytes(inotify, 1 << 19); /* a chunk at least: the type is known */
    close(inotify);
    ck_assert_int_eq(daemon_stop(&engine), 0);
    ck_assert_int_eq(end_of(&recorder, output, sizeof output), 3);
    start_daemon();
    ck_assert_int_eq(RUN("record", "--info", path, "--json"), 0);
    ck_assert(line_has(output, "whole", "true"));
    ck_assert_ptr_nonnull(strstr(output, "\"events\":100000"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("record");
    TCase *tcase = tcase_create("record");
    SRunner *runner;
    int failed;

    signal(SIGPIPE, SIG_IGN);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, every_recorded_event_comes_again_with_its_payload_and_in_order);
    tcase_add_test(tcase, what_a_killed_recorder_wrote_is_whole_up_to_its_last_chunk);
    tcase_add_test(tcase, a_step_locked_replay_gives_the_same_order_twice);
    tcase_add_test(
        tcase, a_type_that_is_registered_with_another_layout_stops_the_replay_and_names_the_field);
    tcase_add_test(tcase,
                   a_file_that_is_there_is_not_overwritten_and_one_that_is_no_recording_is_refused);
    tcase_add_test(tcase, a_type_that_was_not_recorded_is_named);
    tcase_add_test(tcase, a_recorder_ends_with_its_daemon_and_its_file_is_whole);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
