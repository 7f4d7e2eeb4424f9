/* What publishing and reading may not cost: a system call, an allocation, or a wait for the dead. */
#include <engine-core/publisher.h>
#include <engine-core/subscriber.h>

#include <check.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "foundation/real_time.h"
#include "support/daemon.h"
#include "support/fixture.h"
#include "support/game.h"

#define ROUNDS 100000u
#define REMOVED_NS (DAEMON_WAIT_MS * 1000000ll) /* without the removal it would stand for ever */

#define SPOT(FIELD, ARRAY) FIELD(uint64_t, number) FIELD(float, x) FIELD(float, y)
EC_EVENT_STRUCT(spot, "test.spot", SPOT);

static struct daemon_process engine;

static void set_up(void)
{
    /* Nobody is demoted: who is dead must be removed because it is dead. */
    ck_assert_msg(daemon_start(&engine, fixture_patient), "%s", engine.why);
}

static void tear_down(void)
{
    ck_assert_int_eq(daemon_stop(&engine), 0);
}

/* ---- allocations of this thread -------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define COUNTS_ALLOCATIONS 0 /* the allocator is somebody else's already */
static _Thread_local unsigned long allocations;
#else
#define COUNTS_ALLOCATIONS 1
static _Thread_local unsigned long allocations;

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *base, size_t bytes);
extern void __libc_free(void *base);

void *malloc(size_t bytes)
{
    allocations++;
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    allocations++;
    return __libc_calloc(count, bytes);
}

void *realloc(void *base, size_t bytes)
{
    allocations++;
    return __libc_realloc(base, bytes);
}

void free(void *base)
{
    allocations += base != NULL;
    __libc_free(base);
}
#endif

/* ---- no system call, no allocation ----------------------------------------------------------- */

/* From here on any system call of this thread ends the process, but for its own end. */
static void forbid_system_calls(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { .len = sizeof filter / sizeof *filter, .filter = filter };

    GAME_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    GAME_CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static int read_the_clock(const struct game_side *side)
{
    (void)side;
    forbid_system_calls();
    _exit(ec_real_ns() == 0);
}

static int call_the_system(const struct game_side *side)
{
    (void)side;
    forbid_system_calls();
    _exit((int)syscall(SYS_getppid) & 0);
}

struct sum {
    uint64_t next, wrong;
};

static void on_spot(void *context, const struct ec_event *event)
{
    struct sum *sum = context;

    sum->wrong += ((const struct spot *)event->payload)->number != sum->next;
    sum->next++;
}

struct both {
    struct ec_publisher *publisher;
    struct ec_subscriber *subscriber;
    struct sum sum;
    uint64_t published;
};

/* Every way to publish and to read that does not sleep. Returns an exit code: it may not even print. */
static int publish_and_read(struct both *both, uint64_t rounds)
{
    struct ec_event event;
    struct spot *spot;

    for (uint64_t round = 0; round < rounds; round++) {
        if (ec_publisher_claim(both->publisher, spot_type(), sizeof *spot, (void **)&spot) != EC_OK)
            return 1;
        *spot = (struct spot) { .number = both->published++ };
        if (ec_publisher_commit(both->publisher) != EC_OK)
            return 2;
        ec_publisher_batch_begin(both->publisher);
        for (int i = 0; i < 4; i++) {
            struct spot next = { .number = both->published++ };

            if (ec_publisher_publish(both->publisher, spot_type(), &next, sizeof next) != EC_OK)
                return 3;
        }
        ec_publisher_batch_end(both->publisher);
        ec_publisher_step_passed(both->publisher, round + 1);
        if (ec_subscriber_next(both->subscriber, &event) != EC_OK)
            return 4;
        on_spot(&both->sum, &event);
        if (ec_subscriber_done(both->subscriber) != EC_OK)
            return 5;
        if (ec_subscriber_wait(both->subscriber, -1) != EC_OK) /* something is there */
            return 6;
        if (ec_subscriber_poll(both->subscriber, on_spot, &both->sum, 100) != 4)
            return 7;
    }
    return both->sum.wrong == 0 && both->sum.next == both->published ? 0 : 8;
}

static int do_without(const struct game_side *side)
{
    static struct both both;
    struct ec_client *client = game_join("frugal", engine.socket_path);
    struct ec_subscriber_desc desc = { .types = (const char *[]) { "test.spot" }, .type_count = 1 };
    unsigned long before;
    int rc;

    (void)side;
    GAME_CHECK(ec_event_type_register(client, spot_desc(), NULL, NULL) == EC_OK);
    GAME_CHECK(ec_publisher_create(client, &(struct ec_publisher_desc) { .ring_bytes = 65536 },
                                   &both.publisher, NULL) == EC_OK);
    GAME_CHECK(ec_subscriber_create(client, &desc, &both.subscriber, NULL) == EC_OK);
    GAME_CHECK(publish_and_read(&both, 10) == 0); /* types and readers are known now */
    before = allocations;
    forbid_system_calls();
    rc = publish_and_read(&both, ROUNDS);
    _exit(rc != 0 ? rc : allocations == before ? 0 : 9);
}

START_TEST(publishing_and_reading_make_no_system_call_and_allocate_nothing)
{
    struct game clock = game_start(read_the_clock, NULL), caller, frugal;

    if (game_end(&clock) != 0) {
        printf("  not checked: this machine reads its clock by a system call\n");
        return;
    }
    caller = game_start(call_the_system, NULL);
    ck_assert_int_eq(game_end(&caller), -SIGSYS); /* a call would be seen */
    frugal = game_start(do_without, NULL);
    ck_assert_int_eq(game_end(&frugal), 0);
}
END_TEST

START_TEST(an_allocation_would_be_seen)
{
    unsigned long before = allocations;
    void *volatile block = malloc(16);
    unsigned long counted;

    free(block);
    counted = allocations - before;
    ck_assert_uint_eq(counted, COUNTS_ALLOCATIONS * 2);
}
END_TEST

/* ---- the dead -------------------------------------------------------------------------------- */

static int publish_until_full(const struct game_side *side)
{
    struct ec_client *client = game_join("publisher", engine.socket_path);
    struct ec_publisher_stats stats;
    struct ec_publisher *publisher;
    struct spot spot = { 0 };
    void *payload;
    int rc;

    GAME_CHECK(ec_event_type_register(client, spot_desc(), NULL, NULL) == EC_OK);
    GAME_CHECK(ec_publisher_create(client, &(struct ec_publisher_desc) { .ring_bytes = 16384 },
                                   &publisher, NULL) == EC_OK);
    game_say(side);
    game_hear(side); /* the reader is there and stopped */
    do
        rc = ec_publisher_publish(publisher, spot_type(), &spot, sizeof spot);
    while (rc == EC_OK);
    GAME_CHECK(rc == EC_AGAIN);
    game_say(side); /* held up */
    GAME_CHECK(ec_publisher_claim_wait(publisher, spot_type(), sizeof spot, GAME_WAIT_NS,
                                       &payload) == EC_OK);
    game_say(side); /* no longer */
    ec_publisher_stats(publisher, &stats);
    GAME_CHECK(stats.readers == 0 && stats.demoted == 0);
    ec_publisher_destroy(publisher);
    ec_client_destroy(client);
    return 0;
}

static int read_nothing(const struct game_side *side)
{
    struct ec_client *client = game_join("reader", engine.socket_path);
    struct ec_subscriber_desc desc = { .types = (const char *[]) { "test.spot" }, .type_count = 1 };
    struct ec_subscriber *subscriber;

    GAME_CHECK(ec_event_type_register(client, spot_desc(), NULL, NULL) == EC_OK);
    GAME_CHECK(ec_subscriber_create(client, &desc, &subscriber, NULL) == EC_OK);
    game_say(side);
    game_hear(side); /* until it is killed */
    return 1;
}

START_TEST(a_dead_reader_no_longer_holds_up_a_publisher)
{
    struct game publisher = game_start(publish_until_full, NULL), reader;
    int64_t killed_ns, passed_ns;

    game_await(&publisher);
    reader = game_start(read_nothing, NULL);
    game_await(&reader);
    game_tell(&publisher);
    game_await(&publisher);
    killed_ns = ec_real_ns();
    ck_assert_int_eq(kill(reader.pid, SIGKILL), 0);
    game_await(&publisher);
    passed_ns = ec_real_ns() - killed_ns;
    printf("  a killed reader was removed after %.1f ms\n", (double)passed_ns / 1e6);
    ck_assert_int_lt(passed_ns, REMOVED_NS);
    ck_assert_int_eq(game_end(&reader), -SIGKILL);
    ck_assert_int_eq(game_end(&publisher), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event costs");
    TCase *tcase = tcase_create("event costs");
    SRunner *runner;
    int failed;

    signal(SIGPIPE, SIG_IGN);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, publishing_and_reading_make_no_system_call_and_allocate_nothing);
    tcase_add_test(tcase, an_allocation_would_be_seen);
    tcase_add_test(tcase, a_dead_reader_no_longer_holds_up_a_publisher);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
