/* test_turn.c - the scheduler's turns in simulated time: no thread, no clock, no sleep. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/turn.h"
#include "segment/clock_arithmetic.h"
#include "segment/clock_page.h"
#include "segment/histogram.h"

#define START_NS INT64_C(123456789012345)
#define MS INT64_C(1000000)
#define DAY_NS INT64_C(86400000000000)

static struct scheduler_state state;
static struct scheduler_outcome outcome;
static struct ec_clock_page page;

/* The period of a rate in Hz. */
static void add(const char *name, uint32_t source, uint64_t num, uint64_t den, int64_t now_ns)
{
    struct order_clock desc = { .source = source };
    uint64_t period_num, period_den;

    strncpy(desc.name, name, sizeof desc.name - 1);
    ck_assert_int_eq(ec_period_of_rate(num, den, &period_num, &period_den), EC_OK);
    ck_assert_int_eq(scheduler_state_add(&state, &desc, period_num, period_den, now_ns), EC_OK);
}

static void set_up(void)
{
    memset(&page, 0, sizeof page);
    scheduler_state_init(&state, START_NS);
    add("physics", EC_STEP_GAME, 60, 1, START_NS);
    scheduler_state_write(&state, START_NS, &page);
    scheduler_turn(&state, START_NS, &outcome);
}

/* Sleep to the deadline and a little longer, then make a turn and publish it. */
static void wake_late(int64_t late_ns)
{
    int64_t now_ns = outcome.deadline_ns + late_ns;

    scheduler_turn(&state, now_ns, &outcome);
    scheduler_publish(&state, &outcome, now_ns, &page);
}

static uint64_t missed(uint32_t clock)
{
    return atomic_load(&state.clock[clock].missed);
}

static uint64_t jitter_max_ns(uint32_t clock)
{
    return atomic_load(&state.clock[clock].jitter.max_ns);
}

START_TEST(time_begins_with_step_0_and_the_first_step_one_period_later)
{
    struct ec_clock_view view;

    ck_assert_uint_eq(outcome.stepped, 0);
    ck_assert_int_eq(outcome.deadline_ns, START_NS + 16666667);
    ck_assert_int_eq(ec_clock_read_view(&page, 0, &view), EC_OK);
    ck_assert_str_eq(view.step.name, "physics");
    ck_assert_int_eq(ec_game_at(&view.game, START_NS), 0);
    ck_assert_uint_eq(page.step[0].step, 0);
    ck_assert_int_eq(page.step[0].next_due_ns, 16666667);
    ck_assert_int_eq(page.heartbeat_ns, START_NS);
}
END_TEST

START_TEST(each_turn_publishes_the_step_its_due_time_and_the_next)
{
    for (uint64_t n = 1; n <= 600; n++) {
        uint32_t change = page.step[0].change;

        wake_late(1000);
        ck_assert_uint_eq(outcome.stepped, 1);
        ck_assert_uint_eq(page.step[0].change, change + 1);
        ck_assert_uint_eq(page.step[0].step, n);
        ck_assert_int_eq(page.step[0].due_ns, ec_step_due_ns(&state.snapshot.step[0], n));
        ck_assert_int_eq(page.step[0].next_due_ns, ec_step_due_ns(&state.snapshot.step[0], n + 1));
    }
    ck_assert_int_eq(page.step[0].due_ns, 10000 * MS); /* 600 steps are 10 s, to the ns */
    ck_assert_uint_eq(missed(0), 0);
    ck_assert_uint_eq(jitter_max_ns(0), 1000);
}
END_TEST

START_TEST(a_turn_before_the_deadline_steps_nothing_and_keeps_the_deadline)
{
    int64_t deadline_ns = outcome.deadline_ns;

    scheduler_turn(&state, deadline_ns - 1, &outcome);
    ck_assert_uint_eq(outcome.stepped, 0);
    ck_assert_int_eq(outcome.deadline_ns, deadline_ns);
    scheduler_turn(&state, deadline_ns, &outcome);
    ck_assert_uint_eq(outcome.stepped, 1);
}
END_TEST

START_TEST(late_steps_are_skipped_and_counted_and_the_base_stays)
{
    wake_late(0);
    wake_late(49 * MS); /* step 2 was due, and 3 and 4 as well; 5 is due in a ms */
    ck_assert_uint_eq(page.step[0].step, 4);
    ck_assert_uint_eq(missed(0), 2);
    ck_assert_uint_eq(jitter_max_ns(0), 49 * MS);
    ck_assert_int_eq(outcome.deadline_ns, START_NS + 83333334);
    ck_assert(!outcome.snapshot_changed);
    wake_late(0);
    ck_assert_uint_eq(page.step[0].step, 5);
    ck_assert_uint_eq(missed(0), 2);
}
END_TEST

START_TEST(a_gap_of_more_than_a_second_is_a_discontinuity_and_no_jitter)
{
    struct ec_game_snapshot game;

    wake_late(SCHEDULER_GAP_NS + 1);
    ck_assert_uint_eq(atomic_load(&state.discontinuities), 1);
    ck_assert_int_eq(ec_clock_read_game(&page, outcome.deadline_ns, &game), EC_OK);
    ck_assert_uint_eq(game.epoch, 1);
    ck_assert_uint_eq(page.step[0].step, 61);
    ck_assert_uint_eq(missed(0), 60);
    ck_assert_uint_eq(jitter_max_ns(0), 0);
    wake_late(0);
    ck_assert_uint_eq(atomic_load(&state.discontinuities), 1);
    ck_assert_uint_eq(page.step[0].step, 62);
    ck_assert_int_eq(page.step[0].due_ns, ec_step_due_ns(&state.snapshot.step[0], 62));
}
END_TEST

START_TEST(a_delay_of_just_a_second_is_no_discontinuity)
{
    wake_late(SCHEDULER_GAP_NS);
    ck_assert_uint_eq(atomic_load(&state.discontinuities), 0);
    ck_assert(!outcome.snapshot_changed);
    ck_assert_uint_eq(jitter_max_ns(0), (uint64_t)SCHEDULER_GAP_NS);
}
END_TEST

START_TEST(thirty_days_of_three_clocks_miss_nothing_and_do_not_drift)
{
    static const struct {
        const char *name;
        uint64_t num, den, steps;
    } rates[] = { { "film", 60000, 1001, 155364635 },
                  { "third", 1000, 3, 864000000 },
                  { "slow", 1, 3600, 720 } };
    uint64_t turns = 0;

    scheduler_state_init(&state, START_NS);
    for (int i = 0; i < 3; i++)
        add(rates[i].name, EC_STEP_REAL, rates[i].num, rates[i].den, START_NS);
    scheduler_state_write(&state, START_NS, &page);
    scheduler_turn(&state, START_NS, &outcome);
    while (outcome.deadline_ns <= START_NS + 60000 * MS) { /* every turn of the first minute */
        scheduler_turn(&state, outcome.deadline_ns, &outcome);
        turns++;
    }
    ck_assert_uint_eq(state.clock[0].step, 3596); /* 3596.40… */
    ck_assert_uint_eq(state.clock[1].step, 20000);
    ck_assert_uint_ge(turns, 20000);
    ck_assert_uint_eq(missed(0) + missed(1) + missed(2), 0);

    scheduler_turn(&state, START_NS + 30 * DAY_NS, &outcome); /* and the rest at once */
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_uint_eq(state.clock[i].step, rates[i].steps);
    ck_assert_uint_eq(state.clock[1].step, 864000000);
    ck_assert_int_eq(ec_step_due_ns(&state.snapshot.step[1], 864000000), START_NS + 30 * DAY_NS);
}
END_TEST

START_TEST(steps_follow_game_time_at_its_scale)
{
    ck_assert_int_eq(ec_game_rebase(&state.snapshot.game, START_NS, 1, 2), EC_OK);
    scheduler_turn(&state, START_NS, &outcome);
    ck_assert_int_eq(outcome.deadline_ns, START_NS + 33333334); /* game 16,666,667 at half speed */
    wake_late(0);
    ck_assert_uint_eq(page.step[0].step, 1);
}
END_TEST

START_TEST(while_game_time_stands_only_the_heartbeat_goes_on)
{
    ck_assert_int_eq(ec_game_rebase(&state.snapshot.game, START_NS + 5, 0, 1), EC_OK);
    scheduler_turn(&state, START_NS + 5, &outcome);
    ck_assert_int_eq(outcome.deadline_ns, START_NS + 5 + SCHEDULER_HEARTBEAT_NS);
    for (int i = 0; i < 100; i++)
        wake_late(0);
    ck_assert_uint_eq(page.step[0].step, 0);
    ck_assert_uint_eq(atomic_load(&state.discontinuities), 0);
    ck_assert_int_eq(page.heartbeat_ns, START_NS + 5 + 100 * SCHEDULER_HEARTBEAT_NS);
}
END_TEST

START_TEST(a_new_breaker_level_is_told_to_sleepers_once)
{
    uint32_t change = page.step[0].change;
    int64_t now_ns = START_NS + 1000;

    state.breaker_change = 2;
    scheduler_turn(&state, now_ns, &outcome);
    scheduler_publish(&state, &outcome, now_ns, &page);
    ck_assert_uint_eq(page.step[0].change, change + 1);
    ck_assert_uint_eq(page.step[0].step, 0);
    scheduler_turn(&state, now_ns, &outcome);
    scheduler_publish(&state, &outcome, now_ns, &page);
    ck_assert_uint_eq(page.step[0].change, change + 1);
}
END_TEST

START_TEST(a_clock_that_begins_later_begins_with_step_0)
{
    int64_t now_ns = START_NS + 10 * DAY_NS;

    add("late", EC_STEP_REAL, 10, 1, now_ns);
    ck_assert_int_eq(ec_step_due_ns(&state.snapshot.step[1], 0), now_ns);
    ck_assert_int_eq(ec_step_due_ns(&state.snapshot.step[1], 1), now_ns + 100 * MS);
    add("game", EC_STEP_GAME, 10, 1, now_ns);
    ck_assert_int_eq(ec_step_due_ns(&state.snapshot.step[2], 0), 10 * DAY_NS);
}
END_TEST

START_TEST(clocks_that_cannot_be_are_refused_and_change_nothing)
{
    struct order_clock desc = { .name = "physics", .source = EC_STEP_REAL };
    char name[8];

    ck_assert_int_eq(scheduler_state_add(&state, &desc, 50000000, 1, START_NS), EC_ERR_STATE);
    ck_assert_uint_eq(state.clock_count, 1);
    while (state.clock_count < EC_STEP_CLOCKS_MAX) {
        snprintf(name, sizeof name, "more%u", state.clock_count);
        add(name, EC_STEP_REAL, 20, 1, START_NS);
    }
    desc.name[0] = 'x';
    ck_assert_int_eq(scheduler_state_add(&state, &desc, 50000000, 1, START_NS), EC_ERR_LIMIT);
    ck_assert_uint_eq(state.clock_count, EC_STEP_CLOCKS_MAX);
}
END_TEST

START_TEST(a_burst_clock_makes_up_for_as_many_late_steps_as_it_says)
{
    state.clock[0].late = LATE_BURST;
    state.clock[0].burst = 2;
    wake_late(0);
    wake_late(84 * MS); /* step 2 was due, and five more */
    ck_assert_uint_eq(page.step[0].step, 7);
    ck_assert_uint_eq(missed(0), 3);
    ck_assert_uint_eq(page.step[0].skipped, 3);
    wake_late(34 * MS); /* two more: within the burst */
    ck_assert_uint_eq(page.step[0].step, 10);
    ck_assert_uint_eq(missed(0), 3);
}
END_TEST

START_TEST(after_a_gap_nothing_is_made_up_for_whatever_the_policy)
{
    state.clock[0].late = LATE_BURST;
    state.clock[0].burst = 10000;
    wake_late(SCHEDULER_GAP_NS + 1);
    ck_assert_uint_eq(page.step[0].step, 61);
    ck_assert_uint_eq(missed(0), 60);
    ck_assert_uint_eq(page.step[0].epoch_after, 1); /* each word says the epoch */
    ck_assert(outcome.tell);
}
END_TEST

START_TEST(the_breaker_halves_the_rate_of_clocks_that_allow_it)
{
    int64_t due_ns;

    state.clock[0].halvable = true;
    wake_late(0);
    state.halve = true;
    scheduler_turn(&state, START_NS + 17 * MS, &outcome);
    ck_assert(outcome.snapshot_changed && outcome.tell); /* told before the step */
    due_ns = outcome.deadline_ns;
    ck_assert_int_eq(due_ns, START_NS + 33333334); /* this step comes as it was due */
    wake_late(0);
    ck_assert_int_eq(outcome.deadline_ns,
                     START_NS + 66666667); /* the next one a double period later */
    state.halve = false;
    scheduler_turn(&state, START_NS + 40 * MS, &outcome);
    wake_late(0);
    ck_assert_uint_eq(page.step[0].step, 3);
    ck_assert_int_eq(outcome.deadline_ns, START_NS + 83333334);
}
END_TEST

START_TEST(a_new_rate_holds_from_the_next_step_and_is_reported_then)
{
    struct order rate = { .kind = ORDER_RATE, .u.ratio = { 20000000, 1 } };

    scheduler_order(&state, &rate, START_NS + 5 * MS);
    scheduler_turn(&state, START_NS + 5 * MS, &outcome);
    ck_assert_uint_eq(state.report_count, 0);
    ck_assert_int_eq(outcome.deadline_ns, START_NS + 16666667);
    wake_late(0);
    ck_assert_uint_eq(state.report_count, 1);
    ck_assert_int_eq(state.report[0].effective_ns, START_NS + 16666667);
    ck_assert_int_eq(outcome.deadline_ns, START_NS + 36666667); /* of 16666666 2/3 + 20000000 */
    ck_assert_uint_eq(page.step[0].step, 1);
}
END_TEST

START_TEST(a_rate_whose_boundary_is_far_away_is_reported_before_it)
{
    struct order rate = { .kind = ORDER_RATE, .clock = 1, .u.ratio = { 20000000, 1 } };

    add("hourly", EC_STEP_REAL, 1, 3600, START_NS);
    scheduler_order(&state, &rate, START_NS);
    scheduler_turn(&state, START_NS, &outcome);
    for (int i = 0; i < 200 && state.report_count == 0; i++)
        wake_late(0);
    ck_assert_uint_eq(state.report_count, 1);
    ck_assert_int_eq(state.report[0].effective_ns, START_NS + 3600000 * MS);
}
END_TEST

/* Every turn of thirty days would take a minute; one of each second, and all of the last, does not. */
START_TEST(thirty_days_at_three_rates_are_exact_in_count_and_time)
{
    static const struct {
        const char *name;
        uint64_t num, den;
    } rates[] = { { "sixty", 60, 1 }, { "third", 1000, 3 }, { "film", 60000, 1001 } };
    unsigned wrong = 0;

    scheduler_state_init(&state, START_NS);
    for (int i = 0; i < 3; i++)
        add(rates[i].name, EC_STEP_GAME, rates[i].num, rates[i].den, START_NS);
    scheduler_state_write(&state, START_NS, &page);
    scheduler_turn(&state, START_NS, &outcome);
    for (uint64_t second = 1; second <= 30 * 86400; second++) {
        int64_t now_ns = START_NS + (int64_t)second * 1000 * MS;

        state.deadline_ns = now_ns;
        scheduler_turn(&state, now_ns, &outcome);
        for (int i = 0; i < 3; i++)
            wrong += state.clock[i].step != second * rates[i].num / rates[i].den;
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_eq(state.clock[0].step, 155520000);
    ck_assert_int_eq(ec_step_due_ns(&state.snapshot.step[0], 155520000), 30 * DAY_NS);
    ck_assert_int_eq(ec_step_due_ns(&state.snapshot.step[1], 864000000), 30 * DAY_NS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("turn");
    TCase *tests = tcase_create("turn");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, time_begins_with_step_0_and_the_first_step_one_period_later);
    tcase_add_test(tests, each_turn_publishes_the_step_its_due_time_and_the_next);
    tcase_add_test(tests, a_turn_before_the_deadline_steps_nothing_and_keeps_the_deadline);
    tcase_add_test(tests, late_steps_are_skipped_and_counted_and_the_base_stays);
    tcase_add_test(tests, a_gap_of_more_than_a_second_is_a_discontinuity_and_no_jitter);
    tcase_add_test(tests, a_delay_of_just_a_second_is_no_discontinuity);
    tcase_add_test(tests, thirty_days_of_three_clocks_miss_nothing_and_do_not_drift);
    tcase_add_test(tests, steps_follow_game_time_at_its_scale);
    tcase_add_test(tests, while_game_time_stands_only_the_heartbeat_goes_on);
    tcase_add_test(tests, a_new_breaker_level_is_told_to_sleepers_once);
    tcase_add_test(tests, a_clock_that_begins_later_begins_with_step_0);
    tcase_add_test(tests, clocks_that_cannot_be_are_refused_and_change_nothing);
    tcase_add_test(tests, a_burst_clock_makes_up_for_as_many_late_steps_as_it_says);
    tcase_add_test(tests, after_a_gap_nothing_is_made_up_for_whatever_the_policy);
    tcase_add_test(tests, the_breaker_halves_the_rate_of_clocks_that_allow_it);
    tcase_add_test(tests, a_new_rate_holds_from_the_next_step_and_is_reported_then);
    tcase_add_test(tests, a_rate_whose_boundary_is_far_away_is_reported_before_it);
    tcase_add_test(tests, thirty_days_at_three_rates_are_exact_in_count_and_time);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
