/* The breaker's level is in the clock page before a trip returns, and time or a reset ends it. Memory is a
 * plain file here, and the test says what time it is. */
#include "breaker/breaker.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "breaker/state.h"
#include "clients/clients.h"
#include "daemon/config.h"
#include "daemon/counters.h"
#include "daemon/segments.h"
#include "daemon/services.h"
#include "events/events.h"
#include "foundation/real_time.h"
#include "resources/resources.h"
#include "scheduler/scheduler.h"
#include "support/often.h"

static uv_loop_t loop;
static struct counters counters;
static struct services services;
static struct breaker *breaker;
static struct breaker_state state;
static struct ec_error why;

/* The modules above the breaker, without their threads. */
static int (*const inits[])(struct services *,
                            struct ec_error *) = { clients_init, events_init, scheduler_init,
                                                   resources_init, breaker_init };

static char directory[64];
static int meminfo_fd;

/* Memory of the host in thousandths, in one write. */
static bool write_available(unsigned permille)
{
    char text[128];
    const int bytes =
        snprintf(text, sizeof text, "MemTotal: %8u kB\nMemAvailable: %8u kB\n", 1000u, permille);

    return pwrite(meminfo_fd, text, (size_t)bytes, 0) == bytes;
}

static void put_available(unsigned permille)
{
    ck_assert(write_available(permille));
}

static void put_available_often(unsigned permille)
{
    ASSERT_OFTEN(write_available(permille));
}

/* Allocations of this thread. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 0 /* the allocator is somebody else's already */
#else
#define COUNTS_ALLOCATIONS 1
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *base, size_t bytes);
void *malloc(size_t bytes);
void *calloc(size_t count, size_t bytes);
void *realloc(void *base, size_t bytes);
#endif
static _Thread_local unsigned long allocations;

#if COUNTS_ALLOCATIONS
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
#endif

static void set_up(void)
{
    static char setting[128], path[128];
    static const char *const sets[] = { setting };

    snprintf(directory, sizeof directory, "/tmp/ec-breaker-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(setting, sizeof setting, "breaker.proc=%s", directory);
    snprintf(path, sizeof path, "%s/meminfo", directory);
    meminfo_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(meminfo_fd, 0);
    put_available(900);
    uv_loop_init(&loop);
    services = (struct services) { .loop = &loop, .counters = &counters, .instance = 1 };
    ck_assert_int_eq(config_create(&(struct config_source) { .sets = sets, .set_count = 1 },
                                   &services.config, &why),
                     EC_OK);
    ck_assert_msg(segments_create(&(struct segments_desc) { .instance = 1, .heap_bytes = 1 << 20 },
                                  &services.segments, &why) == EC_OK,
                  "%s", why.text);
    for (size_t i = 0; i < sizeof inits / sizeof inits[0]; i++)
        ck_assert_msg(inits[i](&services, &why) == EC_OK, "%s", why.text);
    breaker = services.breaker;
}

static void tear_down(void)
{
    char command[128];

    breaker_shutdown(&services);
    resources_shutdown(&services);
    scheduler_shutdown(&services);
    events_shutdown(&services);
    clients_shutdown(&services);
    segments_destroy(services.segments);
    while (uv_run(&loop, UV_RUN_DEFAULT) != 0)
        ;
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    config_destroy(services.config);
    close(meminfo_fd);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    ck_assert_int_eq(system(command), 0);
}

static uint32_t page_level(void)
{
    return atomic_load(&segments_clock(services.segments)->breaker_level);
}

START_TEST(it_starts_at_level_0_and_held_by_nothing)
{
    breaker_state(breaker, &state);
    ck_assert_uint_eq(state.level, 0);
    ck_assert_uint_eq(state.hold_s, 0);
    ck_assert_str_eq(state.reason, "");
    ck_assert_uint_eq(page_level(), 0);
}
END_TEST

START_TEST(games_see_each_level_that_was_tripped_up_or_down)
{
    static const uint32_t levels[] = { 1, 3, 2, 0, 2 };

    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        breaker_trip(breaker, &(struct breaker_trip) { .level = levels[i], .reason = "drill" },
                     NULL);
        ck_assert_uint_eq(breaker_level(breaker), levels[i]);
        ck_assert_uint_eq(page_level(), levels[i]);
    }
}
END_TEST

START_TEST(a_trip_says_since_when_why_and_for_how_long)
{
    const int64_t before_ns = ec_real_ns();

    breaker_trip(breaker, &(struct breaker_trip) { .level = 1, .hold_s = 60, .reason = "drill" },
                 NULL);
    breaker_state(breaker, &state);
    ck_assert_int_ge(state.since_ns, before_ns);
    ck_assert_int_le(state.since_ns, ec_real_ns());
    ck_assert_uint_eq(state.hold_s, 60);
    ck_assert_str_eq(state.reason, "drill");
}
END_TEST

START_TEST(a_reset_ends_the_level_and_its_time)
{
    breaker_trip(breaker, &(struct breaker_trip) { .level = 2, .hold_s = 60, .reason = "drill" },
                 NULL);
    breaker_reset(breaker, "over");
    breaker_state(breaker, &state);
    ck_assert_uint_eq(state.level, 0);
    ck_assert_uint_eq(state.hold_s, 0);
    ck_assert_str_eq(state.reason, "over");
    ck_assert_uint_eq(page_level(), 0);
}
END_TEST

START_TEST(a_later_trip_replaces_the_time_of_an_earlier_one)
{
    breaker_trip(breaker, &(struct breaker_trip) { .level = 1, .hold_s = 60, .reason = "short" },
                 NULL);
    breaker_trip(breaker, &(struct breaker_trip) { .level = 1, .hold_s = 0, .reason = "until" },
                 NULL);
    breaker_state(breaker, &state);
    ck_assert_uint_eq(state.level, 1);
    ck_assert_uint_eq(state.hold_s, 0);
    breaker_trip(breaker, &(struct breaker_trip) { .level = 0, .hold_s = 60, .reason = "end" },
                 NULL);
    breaker_state(breaker, &state);
    ck_assert_uint_eq(state.hold_s, 0); /* level 0 is not held */
}
END_TEST

START_TEST(a_long_reason_is_cut)
{
    char reason[3 * BREAKER_REASON_BYTES];

    memset(reason, 'r', sizeof reason - 1);
    reason[sizeof reason - 1] = '\0';
    breaker_trip(breaker, &(struct breaker_trip) { .level = 1, .reason = reason }, NULL);
    breaker_state(breaker, &state);
    ck_assert_uint_eq(strlen(state.reason), BREAKER_REASON_BYTES - 1);
}
END_TEST

START_TEST(with_nothing_loaded_an_eviction_frees_nothing)
{
    char text[64];
    struct ec_json_writer groups;

    ec_json_writer_init(&groups, text, sizeof text);
    ec_json_array_begin(&groups);
    ck_assert_uint_eq(
        breaker_trip(breaker, &(struct breaker_trip) { .level = 2, .reason = "drill" }, &groups),
        0);
    ec_json_array_end(&groups);
    ck_assert_mem_eq(text, "[]", 2);
    ck_assert_uint_eq(groups.bytes, 2);
}
END_TEST

/* ---- with memory and time of the test ---- */

#define MS INT64_C(1000000)

static const struct {
    unsigned permille;
    int64_t after_ms;
    uint32_t level;
} course[] = {
    { 900, 10, 0 },   { 149, 10, 1 },  { 99, 10, 2 },    { 49, 10, 3 },  { 900, 10, 3 },
    { 900, 500, 2 },  { 900, 500, 1 }, { 900, 500, 0 },  { 40, 10, 3 },  { 60, 5000, 3 },
    { 90, 10, 3 },    { 90, 500, 2 },  { 120, 5000, 2 }, { 140, 10, 2 }, { 140, 500, 1 },
    { 170, 5000, 1 }, { 190, 10, 1 },  { 190, 500, 0 },  { 0, 1, 3 },
};

START_TEST(the_page_follows_the_file_through_every_level)
{
    int64_t now_ns = ec_real_ns();

    for (size_t i = 0; i < sizeof course / sizeof course[0]; i++) {
        put_available(course[i].permille);
        now_ns += course[i].after_ms * MS;
        breaker_look(breaker, now_ns);
        ck_assert_msg(page_level() == course[i].level, "step %zu: level %u, expected %u", i,
                      page_level(), course[i].level);
    }
}
END_TEST

static void put_file(const char *name, const char *text)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", directory, name);
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

START_TEST(a_group_that_becomes_the_daemon_s_has_less_by_what_is_reserved)
{
    static const struct reservation row = { .client_id = 7, .bytes = 3000, .end_ns = INT64_MAX };
    const int64_t now_ns = ec_real_ns();
    char text[256];

    snprintf(text, sizeof text, "mkdir %s/self %s/group", directory, directory);
    ck_assert_int_eq(system(text), 0);
    ck_assert_uint_ne(reservations_add(&breaker->reservations, &row), 0);
    breaker_deduct(breaker);
    breaker_look(breaker, now_ns);
    put_file("group/memory.max", "100000\n");
    put_file("group/memory.current", "20000\n");
    put_file("group/memory.stat", "anon 20000\n");
    put_file("self/cgroup", "0::/group\n");
    snprintf(text, sizeof text, "41 31 0:38 / %s rw - cgroup2 cgroup2 rw\n", directory);
    put_file("self/mountinfo", text);
    breaker_look(breaker, now_ns + 10000 * MS); /* finds it */
    breaker_look(breaker, now_ns + 10010 * MS);
    ck_assert_uint_eq(breaker->sources.high, 2);
    ck_assert_uint_eq(breaker->sources.source[1].reading.available_bytes, 77000);
}
END_TEST

/* One per cent up and down around each mark for ten minutes, at every look and slower than the hold
 * time. */
static const struct {
    unsigned mark;
    int64_t period_ms;
    uint32_t level;
} flapping[] = {
    { 150, 10, 1 },  { 100, 10, 2 }, { 50, 10, 3 },    { 150, 700, 1 },
    { 100, 700, 2 }, { 50, 700, 3 }, { 150, 5000, 1 }, { 100, 5000, 2 },
};

START_TEST(flapping_memory_makes_no_flapping_level)
{
    const int64_t begin_ns = ec_real_ns();
    int64_t changed_ms = INT64_MIN / 2;
    unsigned transitions = 0;
    uint32_t before = 0;

    for (int64_t at_ms = 0; at_ms < 600000; at_ms += 10) {
        const bool up = at_ms / flapping[_i].period_ms % 2 == 0;

        put_available_often(up ? flapping[_i].mark + 10 : flapping[_i].mark - 10);
        breaker_look(breaker, begin_ns + at_ms * MS);
        if (page_level() == before)
            continue;
        transitions++;
        /* At most one in each hold time, but for the way up. */
        ASSERT_OFTEN(page_level() > before || at_ms - changed_ms >= 500);
        changed_ms = at_ms;
        before = page_level();
    }
    ck_assert_uint_le(transitions, 2); /* one with the first reading, one with the first below */
    ck_assert_uint_eq(page_level(), flapping[_i].level);
}
END_TEST

START_TEST(a_manual_level_ends_with_its_time_and_memory_counts_again)
{
    int64_t now_ns = ec_real_ns();

    breaker_trip(breaker, &(struct breaker_trip) { .level = 3, .hold_s = 60, .reason = "drill" },
                 NULL);
    put_available(120);
    breaker_look(breaker, now_ns + 59000 * MS);
    ck_assert_uint_eq(page_level(), 3);
    breaker_look(breaker, now_ns + 61000 * MS);
    ck_assert_uint_eq(page_level(), 1);
}
END_TEST

START_TEST(the_next_look_comes_sooner_when_memory_is_short)
{
    int64_t now_ns = ec_real_ns();

    ck_assert_int_eq(breaker_look(breaker, now_ns), 100 * MS);
    put_available(290);
    now_ns += 100000 * MS; /* so slowly that it is no growth */
    breaker_look(breaker, now_ns);
    ck_assert_int_eq(breaker_look(breaker, now_ns + 200 * MS), 10 * MS);
}
END_TEST

START_TEST(from_calm_to_emergency_and_back_nothing_is_allocated)
{
    int64_t now_ns = ec_real_ns();
    unsigned long before, up, down;
    void *volatile probe;

    breaker_look(breaker, now_ns);
    put_available(10); /* the assertion in it allocates, so it is not counted */
    before = allocations;
    breaker_look(breaker, now_ns + 10 * MS);
    up = allocations - before;
    ck_assert_uint_eq(page_level(), 3);
    put_available(900);
    before = allocations;
    for (unsigned i = 0; i < 200; i++)
        breaker_look(breaker, now_ns += 20 * MS);
    down = allocations - before;
    ck_assert_uint_eq(page_level(), 0);
    ck_assert_uint_eq(up, 0);
    ck_assert_uint_eq(down, 0);
    before = allocations;
    probe = malloc(1); /* volatile: clang would leave out a block that nobody uses */
    free(probe);
    ck_assert_uint_eq(allocations - before, COUNTS_ALLOCATIONS); /* it does count */
}
END_TEST

START_TEST(a_file_that_cannot_be_read_leaves_the_level_as_it_is)
{
    int64_t now_ns = ec_real_ns();

    put_available(90);
    breaker_look(breaker, now_ns);
    ck_assert_uint_eq(page_level(), 2);
    ck_assert_int_eq(ftruncate(meminfo_fd, 0), 0);
    for (unsigned i = 0; i < 100; i++)
        breaker_look(breaker, now_ns += 100 * MS);
    ck_assert_uint_eq(page_level(), 2);
    put_available(900);
    breaker_look(breaker, now_ns += 10 * MS);
    breaker_look(breaker, now_ns + 500 * MS);
    ck_assert_uint_eq(page_level(), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("breaker");
    TCase *tcase = tcase_create("breaker");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, it_starts_at_level_0_and_held_by_nothing);
    tcase_add_test(tcase, games_see_each_level_that_was_tripped_up_or_down);
    tcase_add_test(tcase, a_trip_says_since_when_why_and_for_how_long);
    tcase_add_test(tcase, a_reset_ends_the_level_and_its_time);
    tcase_add_test(tcase, a_later_trip_replaces_the_time_of_an_earlier_one);
    tcase_add_test(tcase, a_long_reason_is_cut);
    tcase_add_test(tcase, with_nothing_loaded_an_eviction_frees_nothing);
    tcase_add_test(tcase, the_page_follows_the_file_through_every_level);
    tcase_add_test(tcase, a_group_that_becomes_the_daemon_s_has_less_by_what_is_reserved);
    tcase_add_loop_test(tcase, flapping_memory_makes_no_flapping_level, 0,
                        sizeof flapping / sizeof flapping[0]);
    tcase_add_test(tcase, a_manual_level_ends_with_its_time_and_memory_counts_again);
    tcase_add_test(tcase, the_next_look_comes_sooner_when_memory_is_short);
    tcase_add_test(tcase, from_calm_to_emergency_and_back_nothing_is_allocated);
    tcase_add_test(tcase, a_file_that_cannot_be_read_leaves_the_level_as_it_is);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
