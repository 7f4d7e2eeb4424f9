/* test_game.c - game time against a model that knows it exactly, and what readers may see of a change. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/heritage.h"
#include "scheduler/succession.h"
#include "scheduler/turn.h"
#include "segment/clock_arithmetic.h"
#include "segment/clock_page.h"

#define START_NS INT64_C(987654321012345)
#define MS INT64_C(1000000)
#define PARTS 21000 /* to these parts of a ns all scales below belong */
#define OPERATIONS 10000

static struct scheduler_state state;
static struct scheduler_outcome outcome;
static struct ec_clock_page page, before;
static int64_t now_ns;
static uint64_t seed;
static unsigned went_back;

static uint32_t random_below(uint32_t limit)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 33) % limit);
}

static void add(const char *name, uint64_t hz, enum late_policy late)
{
    struct order_clock desc = { .source = EC_STEP_GAME, .late = late };
    uint64_t num, den;

    strncpy(desc.name, name, sizeof desc.name - 1);
    ck_assert_int_eq(ec_period_of_rate(hz, 1, &num, &den), EC_OK);
    ck_assert_int_eq(scheduler_state_add(&state, &desc, num, den, now_ns), EC_OK);
}

static void set_up(void)
{
    memset(&page, 0, sizeof page);
    now_ns = START_NS;
    seed = 42;
    went_back = 0;
    scheduler_state_init(&state, now_ns);
    add("physics", 60, LATE_SKIP);
    scheduler_state_write(&state, now_ns, &page);
    scheduler_turn(&state, now_ns, &outcome);
}

static int64_t read_at(const struct ec_clock_page *of, int64_t real_ns, uint64_t *epoch)
{
    struct ec_game_snapshot game;

    ck_assert_int_eq(ec_clock_read_game(of, real_ns, &game), EC_OK);
    *epoch = game.epoch;
    return ec_game_at(&game, real_ns);
}

/* Between the clock that a turn read and its stores some time may pass. A reader that sees the page as it
 * was then must not be ahead of one that sees it afterwards. */
static void compare_readers(void)
{
    static const int64_t delays_ns[] = { 0, 1, 1000, SCHEDULER_ANNOUNCE_NS - 1 };

    for (size_t i = 0; i < sizeof delays_ns / sizeof delays_ns[0]; i++) {
        uint64_t old_epoch, new_epoch;
        int64_t old_ns = read_at(&before, now_ns + delays_ns[i], &old_epoch);
        int64_t new_ns = read_at(&page, now_ns + delays_ns[i], &new_epoch);

        went_back += old_epoch == new_epoch && new_ns < old_ns;
    }
}

static void turn_at(int64_t at_ns)
{
    now_ns = at_ns;
    memcpy(&before, &page, sizeof page);
    scheduler_turn(&state, now_ns, &outcome);
    scheduler_publish(&state, &outcome, now_ns, &page);
    compare_readers();
}

/* Let time pass, each turn a little late. */
static void run_to(int64_t end_ns)
{
    while (outcome.deadline_ns < end_ns)
        turn_at(outcome.deadline_ns + random_below(100000));
    if (end_ns > now_ns)
        turn_at(end_ns);
}

/* Order, and let time pass until the report is there. */
static struct report carry_out(const struct order *order)
{
    struct report report;

    ck_assert(!scheduler_must_wait(&state, order));
    scheduler_order(&state, order, now_ns);
    turn_at(now_ns);
    while (state.report_count == 0)
        turn_at(outcome.deadline_ns + random_below(100000));
    ck_assert_uint_eq(state.report_count, 1);
    report = state.report[0];
    state.report_count = 0;
    return report;
}

/* ---- the model: exact game time in parts of a ns ---- */

static struct {
    ec_u128 parts;
    int64_t real_ns;
    uint64_t scale_parts; /* for each real ns */
    bool paused;
} model;

static void model_to(int64_t real_ns)
{
    if (!model.paused)
        model.parts += (ec_u128)(real_ns - model.real_ns) * model.scale_parts;
    model.real_ns = real_ns;
}

static int64_t model_ns(void)
{
    return (int64_t)(model.parts / PARTS);
}

/* A change takes effect where game time has just come to a step, or at once while it stands. */
static bool is_boundary(void)
{
    uint64_t step = (uint64_t)model_ns() * 3 / 50000000;
    int64_t due_ns = (int64_t)((step * 50000000 + 2) / 3);

    return model_ns() - due_ns < (int64_t)(model.scale_parts / PARTS + 1);
}

static unsigned wrong_times, wrong_steps, wrong_moments;

static void compare_with_model(void)
{
    uint64_t epoch;

    model_to(now_ns);
    wrong_times += read_at(&page, now_ns, &epoch) != model_ns();
    wrong_steps += page.step[0].step != (uint64_t)model_ns() * 3 / 50000000;
}

/* A step that is over 100 ms away is not waited for. */
static bool is_far(int64_t ordered_ns)
{
    return 16666667 * (int64_t)PARTS / (int64_t)model.scale_parts > SCHEDULER_CHANGE_NS / 2 ||
           ordered_ns == model.real_ns;
}

static void change_model(enum order_kind kind, uint64_t num, uint64_t den, int64_t ordered_ns,
                         const struct report *report)
{
    model_to(report->effective_ns);
    wrong_moments += !is_boundary() && !is_far(ordered_ns);
    wrong_moments += report->effective_ns - ordered_ns > SCHEDULER_CHANGE_NS;
    if (kind == ORDER_SCALE)
        model.scale_parts = num * (PARTS / den);
    else
        model.paused = kind == ORDER_PAUSE;
}

START_TEST(ten_thousand_random_changes_are_exact_to_the_nanosecond)
{
    static const uint64_t dens[] = { 1, 2, 3, 4, 5, 7, 8, 10, 100, 1000 };
    ec_u128 checkpoint_parts[SCHEDULER_CHECKPOINTS] = { 0 };
    uint64_t epoch = 0, checkpoint = 0;

    model.parts = 0;
    model.real_ns = START_NS;
    model.scale_parts = PARTS;
    model.paused = false;
    for (unsigned i = 0; i < OPERATIONS; i++) {
        uint32_t what = random_below(10);
        struct order order = { .kind = ORDER_SCALE };
        uint64_t den = dens[random_below(10)], num = 1 + random_below((uint32_t)den * 4);
        struct report report;
        int64_t ordered_ns;

        run_to(now_ns + random_below(50 * MS));
        compare_with_model();
        if (what < 2) {
            order.kind = model.paused ? ORDER_RESUME : ORDER_PAUSE;
        } else if (what < 7) {
            order.u.ratio.num = num;
            order.u.ratio.den = den;
        } else if (what == 7) {
            order.kind = ORDER_CHECKPOINT;
        } else {
            order.kind = ORDER_ROLLBACK;
            if (what == 8 && checkpoint > 0)
                order.u.back.checkpoint = checkpoint;
            else
                order.u.back.game_ns = (int64_t)((double)model_ns() * random_below(1000) / 1000);
        }
        if (order.kind == ORDER_CHECKPOINT)
            checkpoint_parts[(checkpoint + 1) % SCHEDULER_CHECKPOINTS] = model.parts;
        ordered_ns = now_ns;
        report = carry_out(&order);
        switch (order.kind) {
        case ORDER_CHECKPOINT:
            checkpoint = report.checkpoint;
            ck_assert_int_eq(
                report.game_ns,
                (int64_t)(checkpoint_parts[checkpoint % SCHEDULER_CHECKPOINTS] / PARTS));
            break;
        case ORDER_ROLLBACK:
            if (report.rc == EC_ERR_NOT_FOUND) { /* time had gone back behind it before */
                ck_assert_uint_ne(order.u.back.checkpoint, 0);
                break;
            }
            ck_assert_int_eq(report.rc, EC_OK);
            epoch++;
            model_to(report.effective_ns);
            model.parts = order.u.back.checkpoint != 0
                              ? checkpoint_parts[checkpoint % SCHEDULER_CHECKPOINTS]
                              : (ec_u128)order.u.back.game_ns * PARTS;
            break;
        default:
            change_model(order.kind, num, den, ordered_ns, &report);
        }
        compare_with_model();
        ck_assert_uint_eq(state.snapshot.game.epoch, epoch);
    }
    ck_assert_uint_eq(wrong_times, 0);
    ck_assert_uint_eq(wrong_steps, 0);
    ck_assert_uint_eq(wrong_moments, 0);
    ck_assert_uint_eq(went_back, 0);
}
END_TEST

/* ---- moments ---- */

static struct report change(enum order_kind kind, uint64_t num, uint64_t den)
{
    struct order order = { .kind = kind };

    order.u.ratio.num = num;
    order.u.ratio.den = den;
    return carry_out(&order);
}

START_TEST(a_change_is_announced_and_takes_effect_at_the_next_step)
{
    struct order order = { .kind = ORDER_PAUSE };
    struct ec_game_snapshot game;

    run_to(START_NS + 5 * MS);
    scheduler_order(&state, &order, now_ns);
    turn_at(now_ns);
    ck_assert_uint_eq(state.report_count, 0); /* not before the effect */
    ck_assert(outcome.tell);
    ck_assert_int_eq(ec_clock_read_game(&page, now_ns, &game), EC_OK);
    ck_assert_int_eq(game.until_ns, START_NS + 16666667);
    ck_assert_int_eq(ec_clock_read_game(&page, START_NS + 20 * MS, &game), EC_OK);
    ck_assert_int_eq(ec_game_at(&game, START_NS + 20 * MS), 16666667); /* known in advance */
    run_to(START_NS + 20 * MS);
    ck_assert_uint_eq(state.report_count, 1);
    ck_assert_int_eq(state.report[0].effective_ns, START_NS + 16666667);
    ck_assert_uint_eq(page.step[0].step, 1);
}
END_TEST

START_TEST(a_step_that_is_too_near_to_be_announced_is_not_the_moment)
{
    struct report report;

    run_to(START_NS + 16666667 - SCHEDULER_ANNOUNCE_NS + 1);
    report = change(ORDER_SCALE, 1, 2);
    ck_assert_int_eq(report.effective_ns, START_NS + 33333334);
}
END_TEST

START_TEST(without_a_clock_that_is_fast_enough_a_change_comes_as_soon_as_it_was_announced)
{
    struct report report;

    change(ORDER_SCALE, 1, 100); /* a step each 1.6 s */
    report = change(ORDER_SCALE, 1, 1);
    ck_assert_int_le(report.effective_ns, now_ns);
    ck_assert_int_le(now_ns - report.effective_ns, MS);
}
END_TEST

START_TEST(game_time_that_stands_goes_on_at_once)
{
    struct report report;
    int64_t then_ns;
    uint64_t epoch;

    change(ORDER_PAUSE, 0, 0);
    run_to(now_ns + 3000 * MS);
    then_ns = now_ns;
    report = change(ORDER_RESUME, 0, 0);
    ck_assert_int_eq(report.effective_ns, then_ns);
    run_to(then_ns + 7 * MS);
    ck_assert_int_eq(read_at(&page, now_ns, &epoch), 16666667 + 7 * MS);
    ck_assert_uint_eq(epoch, 0);
}
END_TEST

START_TEST(a_scale_that_is_ordered_while_paused_waits_for_the_resume)
{
    uint64_t epoch;

    change(ORDER_PAUSE, 0, 0);
    change(ORDER_SCALE, 3, 1);
    run_to(now_ns + 100 * MS);
    ck_assert_int_eq(read_at(&page, now_ns, &epoch), 16666667);
    change(ORDER_RESUME, 0, 0);
    run_to(now_ns + 10 * MS);
    ck_assert_int_eq(read_at(&page, now_ns, &epoch), 16666667 + 30 * MS);
}
END_TEST

START_TEST(an_order_waits_while_another_is_announced)
{
    struct order pause = { .kind = ORDER_PAUSE }, checkpoint = { .kind = ORDER_CHECKPOINT };

    scheduler_order(&state, &pause, now_ns);
    ck_assert(scheduler_must_wait(&state, &pause));
    ck_assert(!scheduler_must_wait(&state, &checkpoint));
    run_to(START_NS + 20 * MS);
    ck_assert(!scheduler_must_wait(&state, &pause));
}
END_TEST

/* ---- the slow policy ---- */

START_TEST(a_late_slow_clock_stretches_game_time_and_leaves_no_step_out)
{
    uint64_t epoch, steps = 0;

    set_up();
    state.clock[0].late = LATE_SLOW;
    turn_at(now_ns);
    for (int i = 0; i < 50; i++) { /* each turn comes three periods late */
        turn_at(outcome.deadline_ns + 50 * MS);
        steps += outcome.stepped & 1;
        ck_assert_uint_le(page.step[0].step, steps + 1);
    }
    ck_assert_uint_eq(atomic_load(&state.clock[0].missed), 0);
    ck_assert_uint_eq(went_back, 0);
    ck_assert_uint_gt(atomic_load(&state.stretched_ns), 1000 * MS);
    ck_assert_int_lt(read_at(&page, now_ns, &epoch), (int64_t)(page.step[0].step + 2) * 16666667);
}
END_TEST

START_TEST(a_slow_clock_in_time_stretches_nothing)
{
    uint64_t epoch;

    state.clock[0].late = LATE_SLOW;
    turn_at(now_ns);
    run_to(START_NS + 10000 * MS);
    ck_assert_int_eq(read_at(&page, now_ns, &epoch), 10000 * MS);
    ck_assert_uint_eq(page.step[0].step, 600);
    ck_assert_uint_eq(atomic_load(&state.stretched_ns), 0);
    ck_assert_uint_eq(went_back, 0);
}
END_TEST

START_TEST(a_slow_clock_can_be_paused_scaled_and_set_back_while_it_waits)
{
    struct order back = { .kind = ORDER_ROLLBACK };
    uint64_t epoch;

    state.clock[0].late = LATE_SLOW;
    turn_at(now_ns);
    for (int i = 0; i < 200; i++) {
        turn_at(outcome.deadline_ns + random_below(60 * MS));
        change(i % 4 < 2    ? ORDER_SCALE
               : i % 4 == 2 ? ORDER_PAUSE
                            : ORDER_RESUME,
               1 + (uint64_t)i % 3, 1);
        if (i % 50 == 49) {
            back.u.back.game_ns = read_at(&page, now_ns, &epoch) / 2;
            ck_assert_int_eq(carry_out(&back).rc, EC_OK);
        }
    }
    ck_assert_uint_eq(atomic_load(&state.clock[0].missed), 0);
}
END_TEST

static int64_t paused_to(uint32_t clock, uint64_t steps)
{
    struct order order = { .kind = ORDER_ADVANCE, .clock = clock, .u.steps = steps };
    uint64_t epoch;

    carry_out(&order);
    return read_at(&page, now_ns, &epoch);
}

static void rate_to(uint32_t clock, uint64_t hz)
{
    struct order order = { .kind = ORDER_RATE, .clock = clock };

    ck_assert_int_eq(ec_period_of_rate(hz, 1, &order.u.ratio.num, &order.u.ratio.den), EC_OK);
    ck_assert_int_eq(carry_out(&order).rc, EC_OK);
}

START_TEST(a_clock_that_was_made_after_the_moment_of_a_roll_back_begins_anew)
{
    struct order back = { .kind = ORDER_ROLLBACK };
    int64_t made_ns;
    uint64_t made_step;

    carry_out(&(struct order) { .kind = ORDER_PAUSE });
    made_ns = paused_to(0, 60);
    back.u.back.checkpoint = carry_out(&(struct order) { .kind = ORDER_CHECKPOINT }).checkpoint;
    made_step = state.clock[0].step;
    paused_to(0, 600);
    add("late", 10, LATE_SKIP);
    paused_to(1, 10);
    rate_to(1, 20);
    paused_to(1, 5); /* to step 15, of which the last four have the new rate */
    ck_assert_int_eq(carry_out(&back).rc, EC_OK);
    ck_assert_uint_eq(state.clock[1].step, 0);
    ck_assert_int_eq(paused_to(1, 1), made_ns + 50 * MS);
    ck_assert_int_eq(paused_to(1, 19), made_ns + 1000 * MS);
    ck_assert_uint_eq(state.clock[0].step, made_step + 60);
}
END_TEST

START_TEST(a_checkpoint_of_another_run_is_taken_over_for_the_same_clocks_only)
{
    struct checkpoint made = { 0 };
    struct checkpoint_heritage kept = { .clock_count = 1 };

    carry_out(&(struct order) { .kind = ORDER_CHECKPOINT, .u.copy = &made });
    kept.id = made.id;
    kept.game_ns = made.past.game_ns;
    kept.remainder_den = made.remainder_den;
    kept.clock[0].step = made.past.clock[0].step;
    kept.clock[0].period_num = made.past.clock[0].period_num;
    kept.clock[0].period_den = made.past.clock[0].period_den;
    ck_assert(succession_restore_checkpoint(&state, &kept, now_ns));
    kept.clock[0].step.source = EC_STEP_REAL;
    ck_assert(!succession_restore_checkpoint(&state, &kept, now_ns));
    kept.clock[0].step.source = EC_STEP_GAME;
    kept.clock[0].step.name[0] = 'P';
    ck_assert(!succession_restore_checkpoint(&state, &kept, now_ns));
    kept.clock[0].step.name[0] = 'p';
    kept.game_ns = made.past.game_ns + 1000 * MS; /* it has not come yet */
    ck_assert(!succession_restore_checkpoint(&state, &kept, now_ns));
    kept.game_ns = made.past.game_ns;
    ck_assert(succession_restore_checkpoint(&state, &kept, now_ns));
}
END_TEST

START_TEST(time_that_is_put_forward_over_two_changes_of_rate_goes_back_between_them)
{
    struct order back = { .kind = ORDER_ROLLBACK };
    int64_t start_ns;

    add("slower", 4, LATE_SKIP); /* its change comes later, but it stands first */
    add("faster", 5, LATE_SKIP);
    add("driver", 1, LATE_SKIP);
    start_ns = state.snapshot.step[1].base_ns;
    carry_out(&(struct order) { .kind = ORDER_PAUSE });
    rate_to(1, 8);
    rate_to(2, 10);
    paused_to(3, 1);
    ck_assert_uint_eq(state.clock[1].step, 1 + 6);
    ck_assert_uint_eq(state.clock[2].step, 1 + 8);
    back.u.back.game_ns = start_ns + 240 * MS;
    ck_assert_int_eq(carry_out(&back).rc, EC_OK);
    ck_assert_uint_eq(state.clock[1].step, 0);
    ck_assert_uint_eq(state.clock[2].step, 1);
    ck_assert_int_eq(paused_to(1, 1), start_ns + 250 * MS);
    ck_assert_int_eq(paused_to(2, 1), start_ns + 300 * MS);
    ck_assert_int_eq(paused_to(1, 1), start_ns + 500 * MS); /* the change had not been ordered */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("game");
    TCase *tests = tcase_create("game time");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, ten_thousand_random_changes_are_exact_to_the_nanosecond);
    tcase_add_test(tests, a_change_is_announced_and_takes_effect_at_the_next_step);
    tcase_add_test(tests, a_step_that_is_too_near_to_be_announced_is_not_the_moment);
    tcase_add_test(tests,
                   without_a_clock_that_is_fast_enough_a_change_comes_as_soon_as_it_was_announced);
    tcase_add_test(tests, game_time_that_stands_goes_on_at_once);
    tcase_add_test(tests, a_scale_that_is_ordered_while_paused_waits_for_the_resume);
    tcase_add_test(tests, an_order_waits_while_another_is_announced);
    tcase_add_test(tests, a_late_slow_clock_stretches_game_time_and_leaves_no_step_out);
    tcase_add_test(tests, a_slow_clock_in_time_stretches_nothing);
    tcase_add_test(tests, a_slow_clock_can_be_paused_scaled_and_set_back_while_it_waits);
    tcase_add_test(tests, a_clock_that_was_made_after_the_moment_of_a_roll_back_begins_anew);
    tcase_add_test(tests, a_checkpoint_of_another_run_is_taken_over_for_the_same_clocks_only);
    tcase_add_test(tests, time_that_is_put_forward_over_two_changes_of_rate_goes_back_between_them);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
