/* test_group.c - who holds a step back, for how long, and how one comes back. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/turn.h"
#include "segment/clock_arithmetic.h"

#define START_NS INT64_C(5000000000)
#define MS INT64_C(1000000)
#define BUDGET_NS (50 * MS)
#define MEMBERS 3

static struct scheduler_state state;
static struct scheduler_outcome outcome;
static struct ec_clock_page page;
static struct ec_step_member record[MEMBERS];
static int64_t now_ns;

static void turn_at(int64_t at_ns)
{
    now_ns = at_ns;
    scheduler_turn(&state, now_ns, &outcome);
    scheduler_publish(&state, &outcome, now_ns, &page);
}

static void order(const struct order *given)
{
    scheduler_order(&state, given, now_ns);
    turn_at(now_ns);
}

static void join(uint32_t slot, const struct order_member *desc)
{
    struct order joining = { .kind = ORDER_JOIN };

    joining.u.join.slot = slot;
    joining.u.join.member = *desc;
    joining.u.join.member.record = &record[slot];
    joining.u.join.member.client_id = slot + 1;
    if (joining.u.join.member.budget_ns == 0)
        joining.u.join.member.budget_ns = BUDGET_NS;
    order(&joining);
}

static void done(uint32_t slot)
{
    atomic_store(&record[slot].done, (uint32_t)page.step[0].step);
}

static void all_done(void)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        done(i);
}

static void set_up(void)
{
    static const struct order_clock physics = {
        .name = "physics", .source = EC_STEP_GAME, .late = LATE_BURST, .burst = 100
    };
    uint64_t num, den;

    memset(&page, 0, sizeof page);
    memset(record, 0, sizeof record);
    now_ns = START_NS;
    scheduler_state_init(&state, now_ns);
    ec_period_of_rate(100, 1, &num, &den);
    ck_assert_int_eq(scheduler_state_add(&state, &physics, num, den, now_ns), EC_OK);
    scheduler_state_write(&state, now_ns, &page);
    turn_at(now_ns);
    for (uint32_t i = 0; i < MEMBERS; i++)
        join(i, &(struct order_member) { .required = true });
    state.report_count = 0;
}

static uint64_t released(uint32_t slot)
{
    return atomic_load(&state.member[slot].released);
}

START_TEST(the_next_step_waits_until_all_are_done)
{
    turn_at(START_NS + 10 * MS);
    ck_assert_uint_eq(page.step[0].step, 1);
    turn_at(START_NS + 25 * MS);
    ck_assert_uint_eq(page.step[0].step, 1);
    ck_assert_uint_eq(outcome.word_count,
                      1); /* the first that is not ready is enough to wait for */
    ck_assert_ptr_eq(outcome.words[0].word, &record[0].done);
    ck_assert_int_eq(outcome.deadline_ns, START_NS + 10 * MS + BUDGET_NS);
    done(0);
    turn_at(now_ns + MS);
    ck_assert_ptr_eq(outcome.words[0].word, &record[1].done);
    done(1);
    done(2);
    turn_at(now_ns + MS);
    ck_assert_uint_eq(page.step[0].step, 2);
}
END_TEST

START_TEST(steps_that_were_held_are_made_up_for_one_by_one)
{
    turn_at(START_NS + 10 * MS);
    turn_at(START_NS + 45 * MS); /* three more are due */
    for (uint64_t step = 2; step <= 4; step++) {
        all_done();
        turn_at(now_ns);
        ck_assert_uint_eq(page.step[0].step, step);
    }
    all_done();
    turn_at(now_ns);
    ck_assert_uint_eq(page.step[0].step, 4);
    ck_assert_uint_eq(atomic_load(&state.clock[0].missed), 0);
}
END_TEST

START_TEST(who_uses_up_its_budget_is_released_and_counted_and_the_others_go_on)
{
    turn_at(START_NS + 10 * MS);
    done(0);
    done(2);
    turn_at(START_NS + 10 * MS + BUDGET_NS - 1);
    ck_assert_uint_eq(page.step[0].step, 1);
    turn_at(outcome.deadline_ns);
    ck_assert_uint_eq(page.step[0].step, 2);
    ck_assert_uint_eq(released(1), 1);
    ck_assert_uint_eq(atomic_load(&state.member[1].releases), 1);
    ck_assert_uint_eq(atomic_load(&state.releases), 1);
    done(0);
    done(2);
    turn_at(now_ns);
    ck_assert_uint_eq(page.step[0].step, 3); /* nobody waits for it any more */
}
END_TEST

START_TEST(who_was_released_is_required_again_once_it_has_finished_anything)
{
    turn_at(START_NS + 10 * MS);
    done(0);
    done(2);
    turn_at(START_NS + 10 * MS + BUDGET_NS);
    ck_assert_uint_eq(released(1), 1);
    atomic_store(&record[1].done, 1); /* late, with the step before */
    done(0);
    done(2);
    turn_at(now_ns);
    ck_assert_uint_eq(released(1), 0);
    ck_assert_uint_eq(page.step[0].step, 3);
    done(0);
    done(2);
    turn_at(now_ns + MS);
    ck_assert_uint_eq(page.step[0].step, 3); /* it is waited for */
    done(1);
    turn_at(now_ns);
    ck_assert_uint_eq(page.step[0].step, 4);
}
END_TEST

START_TEST(who_leaves_is_not_waited_for)
{
    turn_at(START_NS + 10 * MS);
    done(0);
    done(1);
    turn_at(START_NS + 20 * MS);
    ck_assert_uint_eq(page.step[0].step, 1);
    order(&(struct order) { .kind = ORDER_LEAVE, .clock = 2 });
    ck_assert_uint_eq(page.step[0].step, 2);
    ck_assert_uint_eq(page.step[0].required, 2);
}
END_TEST

START_TEST(a_member_that_only_listens_holds_nothing)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        order(&(struct order) { .kind = ORDER_LEAVE, .clock = i });
        join(i, &(struct order_member) { .required = false });
    }
    turn_at(START_NS + 35 * MS);
    ck_assert_uint_eq(page.step[0].step, 3);
    ck_assert_uint_eq(page.step[0].required, 0);
}
END_TEST

START_TEST(members_that_start_at_a_step_are_waited_for_from_there_on)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        order(&(struct order) { .kind = ORDER_LEAVE, .clock = i });
        join(i, &(struct order_member) { .required = true, .start_at = 5 });
    }
    for (int i = 1; i <= 8; i++)
        turn_at(START_NS + 10 * i * MS);
    ck_assert_uint_eq(page.step[0].step, 5);
    all_done();
    turn_at(now_ns);
    ck_assert_uint_eq(page.step[0].step, 6);
}
END_TEST

START_TEST(single_steps_of_a_clock_that_stands_wait_for_the_members)
{
    struct order advance = { .kind = ORDER_ADVANCE, .u.steps = 3 };

    order(&(struct order) { .kind = ORDER_PAUSE });
    while (state.report_count == 0) {
        turn_at(outcome.deadline_ns);
        all_done();
    }
    state.report_count = 0;
    order(&advance);
    for (uint64_t made = 1; made < 3; made++) {
        uint64_t step = page.step[0].step;

        turn_at(now_ns + MS);
        ck_assert_uint_eq(page.step[0].step, step); /* not before they are done */
        ck_assert_uint_eq(state.report_count, 0);
        all_done();
        turn_at(now_ns + MS);
        ck_assert_uint_eq(page.step[0].step, step + 1);
    }
    ck_assert_uint_eq(state.report_count, 1);
    ck_assert_uint_eq(state.report[0].steps, 3);
    ck_assert_int_eq(ec_game_at(&state.snapshot.game, now_ns),
                     (int64_t)page.step[0].step * 10 * MS);
    ck_assert_uint_eq(atomic_load(&state.clock[0].missed), 0);
}
END_TEST

/* Game time follows the members: a hundred steps in the time of none, each only after all are done. */
START_TEST(members_that_all_want_it_run_as_fast_as_they_are_done)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        order(&(struct order) { .kind = ORDER_LEAVE, .clock = i });
        join(i, &(struct order_member) { .required = true, .fast = true });
    }
    turn_at(now_ns);
    while (state.snapshot.game.scale_num != 0) { /* the way there is announced as any other */
        all_done();
        turn_at(outcome.deadline_ns);
    }
    ck_assert_int_eq(state.driven, 0);
    for (int i = 0; i < 100; i++) {
        uint64_t step = page.step[0].step;

        all_done();
        turn_at(now_ns + 1000);
        ck_assert_uint_eq(page.step[0].step, step + 1);
        turn_at(now_ns + 1000);
        ck_assert_uint_eq(page.step[0].step, step + 1);
    }
    ck_assert_int_eq(ec_game_at(&state.snapshot.game, now_ns),
                     (int64_t)page.step[0].step * 10 * MS);
    order(&(struct order) { .kind = ORDER_LEAVE, .clock = 0 });
    join(0, &(struct order_member) { .required = true }); /* one that does not want it */
    ck_assert_int_eq(state.driven, -1);
    ck_assert_uint_eq(state.snapshot.game.scale_num, 1);
}
END_TEST

START_TEST(with_all_members_released_time_does_not_run_away)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        order(&(struct order) { .kind = ORDER_LEAVE, .clock = i });
        join(i, &(struct order_member) { .required = true, .fast = true });
    }
    for (int i = 0; i < 1000 && released(0) + released(1) + released(2) < 3; i++)
        turn_at(outcome.deadline_ns);
    ck_assert_uint_eq(released(0) + released(1) + released(2), 3);
    turn_at(now_ns + 1);
    ck_assert_int_eq(state.driven, -1);
    ck_assert_int_gt(outcome.deadline_ns, now_ns);
}
END_TEST

START_TEST(after_a_roll_back_the_next_step_waits_until_all_know_of_it)
{
    struct order back = { .kind = ORDER_ROLLBACK };

    for (int i = 1; i <= 20; i++) {
        turn_at(START_NS + 10 * i * MS);
        all_done();
    }
    back.u.back.game_ns = 55 * MS;
    order(&back);
    ck_assert_uint_eq(page.step[0].step, 5);
    ck_assert_uint_eq(page.step[0].epoch_after, 1);
    turn_at(now_ns + 10 * MS);
    ck_assert_uint_eq(page.step[0].step, 5); /* they said that they are done with step 20 */
    all_done();
    turn_at(now_ns);
    ck_assert_uint_eq(page.step[0].step, 6);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("group");
    TCase *tests = tcase_create("members");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, the_next_step_waits_until_all_are_done);
    tcase_add_test(tests, steps_that_were_held_are_made_up_for_one_by_one);
    tcase_add_test(tests, who_uses_up_its_budget_is_released_and_counted_and_the_others_go_on);
    tcase_add_test(tests, who_was_released_is_required_again_once_it_has_finished_anything);
    tcase_add_test(tests, who_leaves_is_not_waited_for);
    tcase_add_test(tests, a_member_that_only_listens_holds_nothing);
    tcase_add_test(tests, members_that_start_at_a_step_are_waited_for_from_there_on);
    tcase_add_test(tests, single_steps_of_a_clock_that_stands_wait_for_the_members);
    tcase_add_test(tests, members_that_all_want_it_run_as_fast_as_they_are_done);
    tcase_add_test(tests, with_all_members_released_time_does_not_run_away);
    tcase_add_test(tests, after_a_roll_back_the_next_step_waits_until_all_know_of_it);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
