/* test_alarms.c - an alarm rings once, on its clock, and says when to look. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/alarms.h"
#include "segment/clock_arithmetic.h"

#define START_NS INT64_C(1000000000)
#define MS INT64_C(1000000)

static struct scheduler_state state;
static struct alarms alarms;

static void set_up(void)
{
    static const struct order_clock physics = { .name = "physics", .source = EC_STEP_GAME };

    scheduler_state_init(&state, START_NS);
    ck_assert_int_eq(scheduler_state_add(&state, &physics, 10 * (uint64_t)MS, 1, START_NS), EC_OK);
    alarms_init(&alarms);
}

START_TEST(an_alarm_of_real_time_rings_once_when_it_is_due)
{
    ck_assert_int_eq(alarms_deadline_ns(&alarms, &state), ALARM_NEVER);
    alarms_set(&alarms, ALARM_REAL, START_NS + 5);
    ck_assert_int_eq(alarms_deadline_ns(&alarms, &state), START_NS + 5);
    ck_assert(!alarms_ring(&alarms, &state, START_NS + 4));
    ck_assert(alarms_ring(&alarms, &state, START_NS + 5));
    ck_assert(!alarms_ring(&alarms, &state, START_NS + 6));
    ck_assert_int_eq(alarms_deadline_ns(&alarms, &state), ALARM_NEVER);
}
END_TEST

START_TEST(an_alarm_of_game_time_follows_scale_and_pause)
{
    alarms_set(&alarms, ALARM_GAME, 100);
    ck_assert_int_eq(ec_game_rebase(&state.snapshot.game, START_NS, 1, 2), EC_OK);
    ck_assert_int_eq(alarms_deadline_ns(&alarms, &state), START_NS + 200);
    ck_assert(!alarms_ring(&alarms, &state, START_NS + 199));
    ck_assert_int_eq(ec_game_rebase(&state.snapshot.game, START_NS + 199, 0, 1), EC_OK);
    ck_assert_int_eq(alarms_deadline_ns(&alarms, &state), ALARM_NEVER);
    ck_assert(!alarms_ring(&alarms, &state, START_NS + 10 * MS));
    ck_assert_int_eq(ec_game_rebase(&state.snapshot.game, START_NS + 10 * MS, 1, 1), EC_OK);
    ck_assert(alarms_ring(&alarms, &state, START_NS + 10 * MS + 1));
}
END_TEST

START_TEST(an_alarm_of_a_step_rings_with_the_step)
{
    struct scheduler_outcome outcome;

    alarms_set(&alarms, ALARM_STEP, 2);
    scheduler_turn(&state, START_NS + 10 * MS, &outcome);
    ck_assert(!alarms_ring(&alarms, &state, START_NS + 10 * MS));
    scheduler_turn(&state, START_NS + 20 * MS, &outcome);
    ck_assert(alarms_ring(&alarms, &state, START_NS + 20 * MS));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("alarms");
    TCase *tests = tcase_create("ring");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, an_alarm_of_real_time_rings_once_when_it_is_due);
    tcase_add_test(tests, an_alarm_of_game_time_follows_scale_and_pause);
    tcase_add_test(tests, an_alarm_of_a_step_rings_with_the_step);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
