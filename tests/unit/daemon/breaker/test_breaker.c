/* The breaker's level is in the clock page before a trip returns, and time or a reset ends it. */
#include "breaker/breaker.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "clients/clients.h"
#include "daemon/config.h"
#include "daemon/counters.h"
#include "daemon/segments.h"
#include "daemon/services.h"
#include "events/events.h"
#include "foundation/real_time.h"
#include "resources/resources.h"
#include "scheduler/scheduler.h"

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

static void set_up(void)
{
    uv_loop_init(&loop);
    services = (struct services) { .loop = &loop, .counters = &counters, .instance = 1 };
    ck_assert_int_eq(config_create(&(struct config_source) { 0 }, &services.config, &why), EC_OK);
    ck_assert_msg(segments_create(1, 1 << 20, &services.segments, &why) == EC_OK, "%s", why.text);
    for (size_t i = 0; i < sizeof inits / sizeof inits[0]; i++)
        ck_assert_msg(inits[i](&services, &why) == EC_OK, "%s", why.text);
    breaker = services.breaker;
}

static void tear_down(void)
{
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
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
