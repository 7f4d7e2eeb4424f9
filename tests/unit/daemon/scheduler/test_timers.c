/* test_timers.c - timers against a plain list, their grids, their owners and the way back. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/timers.h"

#define MANY 100000

static struct timers *timers;

static void set_up(void)
{
    ck_assert_int_eq(timers_create(MANY, &timers, NULL), EC_OK);
}

static void tear_down(void)
{
    timers_destroy(timers);
}

static uint64_t arm(unsigned clock, int64_t due, int64_t every, uint32_t owner)
{
    uint64_t id;

    ck_assert_int_eq(timers_arm(timers,
                                &(struct timer_desc) {
                                    .clock = clock, .due = due, .every = every, .owner = owner },
                                &id, NULL),
                     EC_OK);
    return id;
}

START_TEST(a_hundred_thousand_fire_in_order_each_once)
{
    static int64_t due[MANY];
    uint64_t seed = 7, fired = 0, wrong = 0;
    int64_t before = 0;
    struct timer_firing firing;
    struct ec_error why = { 0 };
    uint64_t id;

    for (int i = 0; i < MANY; i++) {
        seed = seed * 6364136223846793005u + 1;
        due[i] = (int64_t)(seed >> 40);
        arm(ALARM_REAL, due[i], 0, 1);
    }
    ck_assert_uint_eq(timers_armed(timers), MANY);
    ck_assert_int_eq(timers_arm(timers, &(struct timer_desc) { .owner = 1 }, &id, &why),
                     EC_ERR_LIMIT);
    ck_assert_str_eq(why.text, "100000 timers are armed already");
    for (int64_t now = 0; now < 1 << 24; now += 1 << 14)
        while (timers_fire(timers, ALARM_REAL, now, &firing)) {
            wrong += firing.desc.due > now || firing.desc.due < before || firing.passed != 1;
            before = firing.desc.due;
            fired++;
        }
    while (timers_fire(timers, ALARM_REAL, 1 << 24, &firing))
        fired++;
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_eq(fired, MANY);
    ck_assert_uint_eq(timers_armed(timers), 0);
    ck_assert_int_eq(timers_first(timers, ALARM_REAL), ALARM_NEVER);
}
END_TEST

START_TEST(cancelled_ones_do_not_fire_and_ids_are_not_used_again)
{
    static uint64_t ids[1000];
    struct timer_firing firing;
    unsigned fired = 0, wrong = 0;

    for (unsigned i = 0; i < 1000; i++)
        ids[i] = arm(ALARM_GAME, (int64_t)(i * 7919 % 1000), 0, 3);
    for (unsigned i = 0; i < 1000; i += 2)
        ck_assert(timers_cancel(timers, ids[i], 3));
    ck_assert(!timers_cancel(timers, ids[0], 3));
    ck_assert(!timers_cancel(timers, ids[1], 4)); /* another's */
    ck_assert(!timers_cancel(timers, ids[1] + (1u << 20), 3));
    ck_assert_uint_ne(arm(ALARM_GAME, 5000, 0, 3), ids[0]);
    while (timers_fire(timers, ALARM_GAME, 4999, &firing)) {
        for (unsigned i = 0; i < 1000; i += 2)
            wrong += firing.id == ids[i];
        fired++;
    }
    ck_assert_uint_eq(fired, 500);
    ck_assert_uint_eq(wrong, 0);
}
END_TEST

/* However late each firing is, the grid stays where it was. */
START_TEST(a_repeating_timer_never_drifts)
{
    struct timer_firing firing;
    int64_t now = 100;

    arm(ALARM_REAL, 100, 16666667, 1);
    for (uint64_t i = 0; i < 1000000; i++) {
        if (!timers_fire(timers, ALARM_REAL, now, &firing))
            ck_abort_msg("firing %lu did not come", (unsigned long)i);
        if (firing.desc.due != 100 + (int64_t)i * 16666667)
            ck_abort_msg("firing %lu is due at %ld", (unsigned long)i, (long)firing.desc.due);
        now = timers_first(timers, ALARM_REAL) + (int64_t)(i % 977) * 1000;
    }
}
END_TEST

START_TEST(points_that_passed_at_once_are_one_firing_with_a_count)
{
    struct timer_firing firing;

    arm(ALARM_STEP + 2, 10, 5, 1);
    ck_assert(!timers_fire(timers, ALARM_STEP + 2, 9, &firing));
    ck_assert(timers_fire(timers, ALARM_STEP + 2, 27, &firing));
    ck_assert_int_eq(firing.desc.due, 10);
    ck_assert_uint_eq(firing.passed, 4); /* 10, 15, 20, 25 */
    ck_assert(!timers_fire(timers, ALARM_STEP + 2, 29, &firing));
    ck_assert_int_eq(timers_first(timers, ALARM_STEP + 2), 30);
}
END_TEST

START_TEST(a_grid_may_begin_at_the_far_end_of_the_past_and_ends_with_time)
{
    const int64_t every = (INT64_C(1) << 53) - 1, first = INT64_MIN;
    struct timer_firing firing;

    arm(ALARM_REAL, first, every, 1);
    ck_assert(timers_fire(timers, ALARM_REAL, 1000, &firing));
    ck_assert_uint_eq(firing.passed, 1025); /* 2^63 / 2^53, and a bit for each that is shorter */
    ck_assert_int_eq(timers_first(timers, ALARM_REAL),
                     (int64_t)((uint64_t)first + 1025u * (uint64_t)every));
    arm(ALARM_GAME, INT64_MAX - 5, 10, 1);
    ck_assert(timers_fire(timers, ALARM_GAME, INT64_MAX - 1, &firing));
    ck_assert(!timers_fire(timers, ALARM_GAME, INT64_MAX, &firing));
    ck_assert_int_eq(timers_first(timers, ALARM_GAME), INT64_MAX);
}
END_TEST

START_TEST(an_owner_that_leaves_takes_its_timers_along)
{
    struct timer_firing firing;

    for (int i = 0; i < 1000; i++)
        arm(i % 2 ? ALARM_REAL : ALARM_GAME, i, 0, (uint32_t)(1 + i % 3));
    while (timers_fire(timers, ALARM_GAME, 100, &firing))
        ;
    timers_cancel_owner(timers, 2);
    timers_cancel_owner(timers, 77);
    timers_set_back(timers, ALARM_GAME, -1);
    for (unsigned clock = ALARM_REAL; clock <= ALARM_GAME; clock++)
        while (timers_fire(timers, clock, 1000, &firing))
            ck_assert_uint_ne(firing.desc.owner, 2);
}
END_TEST

START_TEST(what_fired_after_the_moment_that_time_went_back_to_is_armed_again_once)
{
    struct timer_firing firing;
    uint64_t early = arm(ALARM_GAME, 10, 0, 1), late = arm(ALARM_GAME, 50, 0, 1);

    ck_assert(timers_fire(timers, ALARM_GAME, 20, &firing));
    ck_assert_uint_eq(firing.id, early);
    ck_assert(timers_fire(timers, ALARM_GAME, 60, &firing));
    ck_assert_uint_eq(firing.id, late);
    timers_set_back(timers, ALARM_GAME, 30);
    timers_set_back(timers, ALARM_GAME, 30);
    ck_assert_uint_eq(timers_armed(timers), 1);
    ck_assert(!timers_fire(timers, ALARM_GAME, 49, &firing));
    ck_assert(timers_fire(timers, ALARM_GAME, 50, &firing));
    ck_assert_uint_eq(firing.id, late);
    ck_assert(!timers_fire(timers, ALARM_GAME, 1000, &firing));
}
END_TEST

START_TEST(a_repeating_timer_goes_back_on_its_grid)
{
    struct timer_firing firing;

    arm(ALARM_GAME, 7, 10, 1);
    arm(ALARM_GAME, 1000, 10, 1);
    ck_assert(timers_fire(timers, ALARM_GAME, 95, &firing));
    timers_set_back(timers, ALARM_GAME, 40);
    ck_assert_int_eq(timers_first(timers, ALARM_GAME), 47);
    timers_set_back(timers, ALARM_GAME, 1);
    ck_assert_int_eq(timers_first(timers, ALARM_GAME), 7);
}
END_TEST

START_TEST(real_time_never_goes_back_so_nothing_is_kept_of_it)
{
    struct timer_firing firing;
    uint64_t id;

    for (int i = 0; i < 3 * MANY; i++) {
        id = arm(ALARM_REAL, i, 0, 1);
        ck_assert_msg(timers_fire(timers, ALARM_REAL, i, &firing) && firing.id == id, "timer %d",
                      i);
    }
}
END_TEST

START_TEST(payloads_are_copied_and_what_cannot_be_undone_is_forgotten)
{
    struct timer_firing firing;
    char payload[] = "payload";
    uint64_t id;

    for (int i = 0; i < 1000; i++) {
        ck_assert_int_eq(timers_arm(timers,
                                    &(struct timer_desc) { .clock = ALARM_GAME,
                                                           .due = i,
                                                           .owner = 1,
                                                           .event = 5,
                                                           .payload = payload,
                                                           .payload_bytes = sizeof payload },
                                    &id, NULL),
                         EC_OK);
    }
    payload[0] = 'x';
    while (timers_fire(timers, ALARM_GAME, 999, &firing))
        ck_assert_str_eq(firing.desc.payload, "payload");
    timers_forget(timers, ALARM_GAME, 2000);
    timers_set_back(timers, ALARM_GAME, 0);
    ck_assert_uint_eq(timers_armed(timers), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("timers");
    TCase *tests = tcase_create("heap");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_hundred_thousand_fire_in_order_each_once);
    tcase_add_test(tests, cancelled_ones_do_not_fire_and_ids_are_not_used_again);
    tcase_add_test(tests, a_repeating_timer_never_drifts);
    tcase_add_test(tests, points_that_passed_at_once_are_one_firing_with_a_count);
    tcase_add_test(tests, a_grid_may_begin_at_the_far_end_of_the_past_and_ends_with_time);
    tcase_add_test(tests, an_owner_that_leaves_takes_its_timers_along);
    tcase_add_test(tests, what_fired_after_the_moment_that_time_went_back_to_is_armed_again_once);
    tcase_add_test(tests, a_repeating_timer_goes_back_on_its_grid);
    tcase_add_test(tests, real_time_never_goes_back_so_nothing_is_kept_of_it);
    tcase_add_test(tests, payloads_are_copied_and_what_cannot_be_undone_is_forgotten);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
