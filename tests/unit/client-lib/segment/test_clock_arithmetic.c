/* test_clock_arithmetic.c - nothing drifts, and a step's due time gives the step back. */
#include <check.h>
#include <stdlib.h>

#include "segment/clock_arithmetic.h"

#define DAY_NS INT64_C(86400000000000)
#define MONTH_NS (30 * DAY_NS)

/* Rates that whole ns cannot express, and one that they can. */
static const struct {
    uint64_t num, den;
    uint64_t period_num, period_den;
    uint64_t steps_in_month;
} rates[] = {
    { 60, 1, 50000000, 3, 155520000 },
    { 60000, 1001, 50050000, 3, 155364635 }, /* 155,364,635.36… */
    { 1000, 3, 3000000, 1, 864000000 },
    { 20, 1, 50000000, 1, 51840000 },
    { 9999999, 1000, 1000000000000, 9999999, 25919997408 },
};
#define RATES ((int)(sizeof rates / sizeof *rates))

static struct ec_step_snapshot step_of_rate(uint64_t num, uint64_t den)
{
    struct ec_step_snapshot step = { .name = "test" };

    ck_assert_int_eq(ec_period_of_rate(num, den, &step.period_num, &step.period_den), EC_OK);
    return step;
}

/* The definition, written out the slow way: due(n) is the least t with t Q >= fraction + n P. */
static bool due_is_exact(const struct ec_step_snapshot *step, uint64_t number, int64_t due_ns)
{
    ec_u128 exact = step->fraction + (ec_u128)(number - step->n0) * step->period_num;
    ec_u128 after = (ec_u128)(uint64_t)(due_ns - step->base_ns) * step->period_den;

    return after >= exact && after - exact < step->period_den;
}

START_TEST(a_rate_becomes_a_reduced_period_and_comes_back)
{
    struct ec_step_snapshot step = step_of_rate(rates[_i].num, rates[_i].den);
    uint64_t num, den;

    ck_assert_uint_eq(step.period_num, rates[_i].period_num);
    ck_assert_uint_eq(step.period_den, rates[_i].period_den);
    ec_rate_of_period(step.period_num, step.period_den, &num, &den);
    ck_assert_uint_eq(num, rates[_i].num);
    ck_assert_uint_eq(den, rates[_i].den);
}
END_TEST

static const struct {
    uint64_t num, den;
    int result;
} limit_cases[] = {
    { 0, 1, EC_ERR_PARAM },
    { 1, 0, EC_ERR_PARAM },
    { 10000, 1, EC_OK },
    { 10001, 1, EC_ERR_PARAM },
    { 1, 3600, EC_OK },
    { 1, 3601, EC_ERR_PARAM },
    { UINT64_MAX, UINT64_MAX, EC_OK },            /* 1 Hz */
    { UINT64_MAX, UINT64_MAX - 1, EC_ERR_PARAM }, /* needs more than 62 bits */
    { 9999999999999, 1000000000, EC_OK },         /* nine decimals */
};

START_TEST(rates_outside_the_limits_are_refused)
{
    uint64_t num = 7, den = 9;

    ck_assert_int_eq(ec_period_of_rate(limit_cases[_i].num, limit_cases[_i].den, &num, &den),
                     limit_cases[_i].result);
    if (limit_cases[_i].result != EC_OK) {
        ck_assert_uint_eq(num, 7);
        ck_assert_uint_eq(den, 9);
    }
}
END_TEST

START_TEST(thirty_days_have_exactly_as_many_steps_as_the_rate_says)
{
    struct ec_step_snapshot step = step_of_rate(rates[_i].num, rates[_i].den);

    ck_assert_uint_eq(ec_step_at(&step, MONTH_NS), rates[_i].steps_in_month);
    ck_assert(due_is_exact(&step, rates[_i].steps_in_month,
                           ec_step_due_ns(&step, rates[_i].steps_in_month)));
}
END_TEST

/* Every one of the first steps and every 99,991st of thirty days. Check notes each assertion in a
 * file, so loops count what is wrong and assert once. */
START_TEST(the_step_of_a_due_time_is_that_step_and_one_ns_before_it_is_not)
{
    struct ec_step_snapshot step = step_of_rate(rates[_i].num, rates[_i].den);
    int64_t before_ns = -1;
    unsigned wrong = 0;

    for (uint64_t n = 0; n < rates[_i].steps_in_month; n += n < 7200 ? 1 : 99991) {
        int64_t due_ns = ec_step_due_ns(&step, n);

        wrong += due_ns <= before_ns || !due_is_exact(&step, n, due_ns);
        wrong += ec_step_at(&step, due_ns) != n;
        wrong += n > 0 && ec_step_at(&step, due_ns - 1) != n - 1;
        before_ns = due_ns;
    }
    ck_assert_uint_eq(wrong, 0);
}
END_TEST

START_TEST(thirty_days_at_60_hz_have_no_drift)
{
    struct ec_step_snapshot step = step_of_rate(60, 1);
    int64_t worst_ns = 0;

    /* Three steps are 50 ms exactly: compare with what a child would compute. */
    for (uint64_t n = 0; n <= 155520000; n += 300) {
        int64_t off_ns = ec_step_due_ns(&step, n) - (int64_t)(n / 3) * 50000000;

        if (llabs(off_ns) > worst_ns)
            worst_ns = llabs(off_ns);
    }
    ck_assert_int_eq(worst_ns, 0);
}
END_TEST

START_TEST(a_million_changes_of_rate_lose_nothing)
{
    struct ec_step_snapshot step = step_of_rate(60, 1);
    uint64_t period_num[3], period_den[3];
    ec_u128 thirds = 0; /* the exact time of the boundary in 1/3 ns, to which all periods belong */
    uint64_t number = 0;
    unsigned wrong = 0;

    ec_period_of_rate(60, 1, &period_num[0], &period_den[0]);
    ec_period_of_rate(30, 1, &period_num[1], &period_den[1]);
    ec_period_of_rate(1000, 3, &period_num[2], &period_den[2]);
    for (unsigned i = 0; i < 1000000; i++) {
        unsigned rate = i % 3, next = (i + 1) % 3;
        uint64_t steps = 1 + i % 5;

        number += steps;
        thirds += (ec_u128)steps * period_num[rate] * (3 / period_den[rate]);
        wrong += ec_step_rebase(&step, number, period_num[next], period_den[next]) != EC_OK;
        wrong += !ec_step_valid(&step);
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_eq(step.n0, number);
    ck_assert_int_eq(step.base_ns, (int64_t)(thirds / 3));
    ck_assert(step.fraction * 3 == (uint64_t)(thirds % 3) * step.period_den);
}
END_TEST

START_TEST(a_remainder_without_a_common_denominator_is_rounded_and_said_so)
{
    struct ec_step_snapshot step = { .period_den = (1ull << 40) + 1 };

    step.period_num = 200000 * step.period_den;
    step.fraction = step.period_den - 1; /* odd denominator, even numerator: nothing to reduce */
    ck_assert_int_eq(ec_step_rebase(&step, 0, 100000ull << 40, 1ull << 40), EC_AGAIN);
    ck_assert(ec_step_valid(&step));
    ck_assert_uint_eq(step.period_den, 1ull << 40);
    ck_assert_uint_eq(step.fraction, (1ull << 40) - 1); /* floor of (1 - 1/(2^40 + 1)) 2^40 */
}
END_TEST

START_TEST(a_change_of_rate_moves_no_step_before_it_and_none_at_it)
{
    struct ec_step_snapshot before = step_of_rate(60, 1), after = before;
    uint64_t period_num, period_den;

    ec_period_of_rate(50, 1, &period_num, &period_den);
    ck_assert_int_eq(ec_step_rebase(&after, 100, period_num, period_den), EC_OK);
    ck_assert_int_eq(ec_step_due_ns(&after, 100), ec_step_due_ns(&before, 100));
    ck_assert_int_eq(ec_step_due_ns(&after, 101), 1666666667 + 20000000); /* of 1666666666 2/3 */
    ck_assert_uint_eq(ec_step_at(&after, ec_step_due_ns(&after, 101)), 101);
    ck_assert_uint_eq(ec_step_at(&after, ec_step_due_ns(&after, 101) - 1), 100);
}
END_TEST

/* Announced, a change of rate gives the same as carried out, before, at and after its step. */
START_TEST(an_announced_change_of_rate_is_what_it_will_be)
{
    static const uint64_t hz[][2] = { { 50, 1 }, { 1000, 3 }, { 60000, 1001 }, { 1, 10 } };
    struct ec_step_snapshot before = step_of_rate(60, 1), announced = before, after = before;
    unsigned wrong = 0;

    ec_period_of_rate(hz[_i][0], hz[_i][1], &announced.next_period_num, &announced.next_period_den);
    announced.until_step = 100;
    ck_assert(ec_step_valid(&announced));
    ck_assert_int_eq(
        ec_step_rebase(&after, 100, announced.next_period_num, announced.next_period_den), EC_OK);
    for (uint64_t n = 0; n < 400; n++)
        wrong += ec_step_due_ns(&announced, n) != ec_step_due_ns(n <= 100 ? &before : &after, n);
    for (int64_t ns = 0; ns < 4000000000; ns += 1234567)
        wrong +=
            ec_step_at(&announced, ns) != ec_step_at(ns < after.base_ns + 1 ? &before : &after, ns);
    ck_assert_uint_eq(wrong, 0);
    ck_assert_double_eq_tol(
        ec_step_fraction(&announced, 100,
                         after.base_ns + 1 + (int64_t)(after.period_num / after.period_den / 2)),
        0.5, 1e-3);
}
END_TEST

START_TEST(game_time_that_is_set_keeps_its_remainder)
{
    struct ec_game_snapshot game = { .real0_ns = 5, .scale_num = 1, .scale_den = 2 };

    ck_assert_int_eq(ec_game_set(&game, 1000, 77, 2, 3), EC_OK);
    ck_assert_int_eq(ec_game_at(&game, 1000), 77);
    ck_assert_int_eq(ec_game_at(&game, 1001), 78); /* 77 2/3 + 1/2 */
    ck_assert_int_eq(ec_game_at(&game, 1002), 78);
    ck_assert_int_eq(ec_game_at(&game, 1003), 79); /* 77 2/3 + 3/2 */
}
END_TEST

START_TEST(times_beyond_the_end_stay_at_the_end)
{
    struct ec_step_snapshot step = step_of_rate(1, 3600);
    struct ec_game_snapshot game = { .scale_num = 1, .scale_den = 100 };

    ck_assert_int_eq(ec_step_due_ns(&step, UINT64_MAX), INT64_MAX);
    ck_assert_int_eq(ec_game_real_ns(&game, INT64_MAX), INT64_MAX);
    step.base_ns = -5;
    step.n0 = 40;
    ck_assert_int_eq(ec_step_due_ns(&step, 39), -5);
    ck_assert_uint_eq(ec_step_at(&step, -100), 40);
    ck_assert_uint_eq(ec_step_at(&step, INT64_MAX), 40 + (uint64_t)INT64_MAX / 3600000000000);
}
END_TEST

START_TEST(game_time_follows_the_scale)
{
    struct ec_game_snapshot game = {
        .real0_ns = 1000, .game0_ns = 500, .scale_num = 1, .scale_den = 3, .remainder = 2
    };

    ck_assert_int_eq(ec_game_at(&game, 1000), 500);
    ck_assert_int_eq(ec_game_at(&game, 1001), 501); /* (1 + 2) / 3 */
    ck_assert_int_eq(ec_game_at(&game, 1003), 501);
    ck_assert_int_eq(ec_game_at(&game, 1004), 502);
    ck_assert_int_eq(ec_game_at(&game, 10), 500); /* before the change */
    game.scale_num = 3;                           /* at scale 1 the remainder never becomes a ns */
    ck_assert_int_eq(ec_game_at(&game, 1000 + MONTH_NS), 500 + MONTH_NS);
}
END_TEST

/* The first real time of a game time is exact: one ns earlier it is not there yet. */
START_TEST(the_real_time_of_a_game_time_is_the_first_one)
{
    static const uint64_t scale[][2] = {
        { 1, 1 }, { 1, 3 }, { 7, 5 }, { 100, 1 }, { 1, 1000000007 }
    };
    struct ec_game_snapshot game = { .real0_ns = 12345, .game0_ns = 777 };
    unsigned wrong = 0;

    game.scale_num = scale[_i][0];
    game.scale_den = scale[_i][1];
    game.remainder = game.scale_den / 2;
    for (int64_t game_ns = 778; game_ns < 60000; game_ns += 37) {
        int64_t real_ns = ec_game_real_ns(&game, game_ns);

        wrong += ec_game_at(&game, real_ns) < game_ns;
        wrong += real_ns > game.real0_ns && ec_game_at(&game, real_ns - 1) >= game_ns;
    }
    ck_assert_uint_eq(wrong, 0);
}
END_TEST

START_TEST(game_time_that_stands_never_comes)
{
    struct ec_game_snapshot game = { .game0_ns = 100, .scale_num = 0, .scale_den = 1 };

    ck_assert_int_eq(ec_game_at(&game, MONTH_NS), 100);
    ck_assert_int_eq(ec_game_real_ns(&game, 101), INT64_MAX);
    ck_assert_int_eq(ec_game_real_ns(&game, 100), 0);
}
END_TEST

START_TEST(a_million_changes_of_scale_lose_nothing)
{
    static const uint64_t scale[][2] = { { 1, 3 }, { 1, 1 }, { 5, 7 }, { 0, 1 }, { 100, 21 } };
    struct ec_game_snapshot game = { .scale_num = 1, .scale_den = 3 };
    ec_u128 parts = 0; /* exact game time in 1/21 ns */
    int64_t real_ns = 0;
    unsigned wrong = 0;

    for (unsigned i = 0; i < 1000000; i++) {
        const uint64_t *now = scale[i % 5], *next = scale[(i + 1) % 5];
        int64_t passed_ns = 24851 + i % 17;

        real_ns += passed_ns;
        parts += (ec_u128)passed_ns * now[0] * (21 / now[1]);
        wrong += ec_game_rebase(&game, real_ns, next[0], next[1]) != EC_OK;
        wrong += !ec_game_valid(&game);
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_int_eq(game.game0_ns, (int64_t)(parts / 21));
    ck_assert(game.remainder * 21 == (uint64_t)(parts % 21) * game.scale_den);
}
END_TEST

START_TEST(game_time_does_not_jump_where_its_scale_changes)
{
    struct ec_game_snapshot before = { .scale_num = 1, .scale_den = 3 }, after = before;

    ck_assert_int_eq(ec_game_rebase(&after, 1000000001, 200, 2), EC_OK);
    ck_assert_int_eq(ec_game_at(&after, 1000000001), ec_game_at(&before, 1000000001));
    ck_assert_int_eq(ec_game_at(&after, 1000000002), ec_game_at(&before, 1000000001) + 100);
    ck_assert_int_eq(after.real0_ns, 1000000001);
}
END_TEST

START_TEST(the_fraction_of_a_step_is_held_between_0_and_1)
{
    struct ec_step_snapshot step = step_of_rate(60, 1);
    int64_t due_ns = ec_step_due_ns(&step, 10);

    ck_assert_double_eq(ec_step_fraction(&step, 10, due_ns - 1), 0.0);
    ck_assert_double_eq(ec_step_fraction(&step, 10, due_ns), 0.0);
    ck_assert_double_eq_tol(ec_step_fraction(&step, 10, due_ns + 8333333), 0.5, 1e-6);
    ck_assert_double_eq(ec_step_fraction(&step, 10, due_ns + 20000000), 1.0);
}
END_TEST

START_TEST(snapshots_that_would_divide_by_zero_are_not_valid)
{
    struct ec_step_snapshot step = step_of_rate(60, 1);
    struct ec_game_snapshot game = { .scale_num = 1, .scale_den = 1 };

    ck_assert(ec_step_valid(&step) && ec_game_valid(&game));
    step.fraction = step.period_den;
    ck_assert(!ec_step_valid(&step));
    step.fraction = 0;
    step.period_num = 0;
    ck_assert(!ec_step_valid(&step));
    step.period_num = 1;
    step.period_den = 0;
    ck_assert(!ec_step_valid(&step));
    game.remainder = 1;
    ck_assert(!ec_game_valid(&game));
    game.remainder = 0;
    game.scale_num = 101;
    ck_assert(!ec_game_valid(&game));
    game.scale_num = game.scale_den = 0;
    ck_assert(!ec_game_valid(&game));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("clock_arithmetic");
    TCase *tests = tcase_create("exact");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tests, a_rate_becomes_a_reduced_period_and_comes_back, 0, RATES);
    tcase_add_loop_test(tests, rates_outside_the_limits_are_refused, 0,
                        (int)(sizeof limit_cases / sizeof *limit_cases));
    tcase_add_loop_test(tests, thirty_days_have_exactly_as_many_steps_as_the_rate_says, 0, RATES);
    tcase_add_loop_test(tests, the_step_of_a_due_time_is_that_step_and_one_ns_before_it_is_not, 0,
                        RATES);
    tcase_add_test(tests, thirty_days_at_60_hz_have_no_drift);
    tcase_add_test(tests, a_million_changes_of_rate_lose_nothing);
    tcase_add_test(tests, a_remainder_without_a_common_denominator_is_rounded_and_said_so);
    tcase_add_test(tests, a_change_of_rate_moves_no_step_before_it_and_none_at_it);
    tcase_add_loop_test(tests, an_announced_change_of_rate_is_what_it_will_be, 0, 4);
    tcase_add_test(tests, game_time_that_is_set_keeps_its_remainder);
    tcase_add_test(tests, times_beyond_the_end_stay_at_the_end);
    tcase_add_test(tests, game_time_follows_the_scale);
    tcase_add_loop_test(tests, the_real_time_of_a_game_time_is_the_first_one, 0, 5);
    tcase_add_test(tests, game_time_that_stands_never_comes);
    tcase_add_test(tests, a_million_changes_of_scale_lose_nothing);
    tcase_add_test(tests, game_time_does_not_jump_where_its_scale_changes);
    tcase_add_test(tests, the_fraction_of_a_step_is_held_between_0_and_1);
    tcase_add_test(tests, snapshots_that_would_divide_by_zero_are_not_valid);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
