/* Levels promise: up at once, also by several; down one by one, after a calm hold time; growth seen. */
#include "breaker/levels.h"

#include <check.h>
#include <stdlib.h>

#define MS INT64_C(1000000)
#define TOTAL UINT64_C(1000000) /* so that a permille is 1,000 bytes */

static const struct level_marks marks = {
    .permille = { 0, 150, 100, 50 },
    .hysteresis_permille = 30,
    .hold_ns = 500 * MS,
    .some_permille = 100,
    .full_permille = 100,
    .ceiling_permille = 500,
};

static struct level_reading left(uint32_t permille)
{
    return (struct level_reading) { .total_bytes = TOTAL, .available_bytes = permille * 1000ull };
}

static bool look(struct level_machine *machine, uint32_t permille, int64_t at_ms)
{
    const struct level_reading reading = left(permille);

    return level_machine_look(machine, &marks, &reading, at_ms * MS);
}

/* Every level from every level, in one look. */
static const struct {
    uint32_t from_permille, to_permille, from, to;
} rises[] = {
    { 900, 150, 0, 0 }, { 900, 149, 0, 1 }, { 900, 100, 0, 1 }, { 900, 99, 0, 2 },
    { 900, 50, 0, 2 },  { 900, 49, 0, 3 },  { 900, 0, 0, 3 },   { 149, 99, 1, 2 },
    { 149, 10, 1, 3 },  { 99, 49, 2, 3 },   { 99, 120, 2, 2 },
};

START_TEST(a_level_rises_at_once_also_by_several)
{
    struct level_machine machine = { 0 };

    look(&machine, rises[_i].from_permille, 0);
    ck_assert_uint_eq(machine.level, rises[_i].from);
    ck_assert_int_eq(look(&machine, rises[_i].to_permille, 1), rises[_i].to != rises[_i].from);
    ck_assert_uint_eq(machine.level, rises[_i].to);
    if (rises[_i].to > rises[_i].from)
        ck_assert_int_eq(machine.since_ns, MS);
}
END_TEST

START_TEST(a_level_falls_by_one_for_each_calm_hold_time)
{
    struct level_machine machine = { 0 };
    static const struct {
        int64_t at_ms;
        uint32_t level;
    } steps[] = { { 1, 3 },    { 500, 3 },  { 501, 2 },  { 1000, 2 },
                  { 1001, 1 }, { 1500, 1 }, { 1501, 0 }, { 5000, 0 } };

    look(&machine, 10, 0);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        look(&machine, 900, steps[i].at_ms);
        ck_assert_msg(machine.level == steps[i].level, "at %d ms: %u, expected %u",
                      (int)steps[i].at_ms, machine.level, steps[i].level);
    }
    ck_assert_int_eq(machine.cause, EC_BREAKER_CAUSE_NONE);
}
END_TEST

START_TEST(a_level_stays_while_less_than_the_hysteresis_is_free)
{
    struct level_machine machine = { 0 };

    look(&machine, 99, 0);
    for (int64_t at_ms = 1; at_ms < 10000; at_ms += 10)
        ck_assert(!look(&machine, 129, at_ms)); /* 100 + 30 is needed */
    ck_assert(!look(&machine, 130, 10000));
    ck_assert(look(&machine, 130, 10500));
    ck_assert_uint_eq(machine.level, 1);
}
END_TEST

START_TEST(one_short_moment_begins_the_hold_time_anew)
{
    struct level_machine machine = { 0 };

    look(&machine, 99, 0);
    look(&machine, 200, 100);
    look(&machine, 110, 599);
    ck_assert(!look(&machine, 200, 600));
    ck_assert(!look(&machine, 200, 1099));
    ck_assert(look(&machine, 200, 1100));
}
END_TEST

/* Ten minutes of one per cent up and down around each mark, at every look and slowly. */
START_TEST(flapping_around_a_mark_makes_one_transition)
{
    static const uint32_t around[] = { 150, 100, 50 };
    static const int64_t periods_ms[] = { 10, 100, 500, 1000, 7000 };

    for (size_t m = 0; m < 3; m++)
        for (size_t p = 0; p < sizeof periods_ms / sizeof periods_ms[0]; p++) {
            struct level_machine machine = { 0 };
            unsigned transitions = 0;

            for (int64_t at_ms = 0; at_ms < 600000; at_ms += 10) {
                const bool up = at_ms / periods_ms[p] % 2 == 0;

                transitions += look(&machine, up ? around[m] + 10 : around[m] - 10, at_ms);
            }
            /* The first reading may lie above the mark, in the level before. */
            ck_assert_uint_le(transitions, 2);
            ck_assert_uint_eq(machine.level, m + 1);
        }
}
END_TEST

START_TEST(without_hysteresis_there_is_one_way_down_for_each_hold_time)
{
    struct level_marks bare = marks;
    struct level_machine machine = { 0 };
    unsigned falls = 0;

    bare.hysteresis_permille = 0;
    for (int64_t at_ms = 0; at_ms < 600000; at_ms += 10) {
        const struct level_reading reading = left(at_ms / 1000 % 2 == 0 ? 140 : 160);
        const uint32_t before = machine.level;

        level_machine_look(&machine, &bare, &reading, at_ms * MS);
        falls += machine.level < before;
    }
    ck_assert_uint_gt(falls, 0);
    ck_assert_uint_le(falls, 600000 / 500);
}
END_TEST

START_TEST(bytes_count_when_they_are_reached_first)
{
    struct level_marks by_bytes = marks;
    const struct level_reading reading = left(300);
    enum ec_breaker_cause cause;

    by_bytes.bytes[1] = 301000;
    ck_assert_uint_eq(level_wanted(&by_bytes, &reading, &cause), 1);
    by_bytes.bytes[1] = 300000;
    ck_assert_uint_eq(level_wanted(&by_bytes, &reading, &cause), 0);
}
END_TEST

static const struct {
    uint32_t permille, some, full, level;
    enum ec_breaker_cause cause;
} pressures[] = {
    { 400, 100, 0, 1, EC_BREAKER_CAUSE_PRESSURE }, { 400, 99, 99, 0, EC_BREAKER_CAUSE_NONE },
    { 500, 999, 999, 0, EC_BREAKER_CAUSE_NONE }, /* half is free: it is wrong */
    { 140, 999, 99, 1, EC_BREAKER_CAUSE_MEMORY },  { 140, 0, 100, 2, EC_BREAKER_CAUSE_PRESSURE },
    { 90, 0, 100, 3, EC_BREAKER_CAUSE_PRESSURE },  { 40, 999, 999, 3, EC_BREAKER_CAUSE_MEMORY },
};

START_TEST(pressure_raises_by_one_and_only_below_its_ceiling)
{
    struct level_reading reading = left(pressures[_i].permille);
    enum ec_breaker_cause cause;

    reading.some_permille = pressures[_i].some;
    reading.full_permille = pressures[_i].full;
    ck_assert_uint_eq(level_wanted(&marks, &reading, &cause), pressures[_i].level);
    ck_assert_int_eq(cause, pressures[_i].cause);
}
END_TEST

START_TEST(growth_is_what_went_away_in_the_last_tenth_of_a_second)
{
    struct growth growth = { 0 };

    ck_assert_uint_eq(growth_bytes_per_s(&growth), 0);
    growth_add(&growth, 0, 1000000);
    ck_assert_uint_eq(growth_bytes_per_s(&growth), 0);
    for (int64_t at_ms = 10; at_ms <= 2000; at_ms += 10) /* 100 bytes each ms */
        growth_add(&growth, at_ms * MS, (uint64_t)(1000000 - at_ms * 100));
    ck_assert_uint_ge(growth_bytes_per_s(&growth), 99990);
    ck_assert_uint_le(growth_bytes_per_s(&growth), 100010);
    for (int64_t at_ms = 2010; at_ms <= 2200; at_ms += 10)
        growth_add(&growth, at_ms * MS, 900000);
    ck_assert_uint_eq(growth_bytes_per_s(&growth), 0); /* it gets back more than it loses */
}
END_TEST

START_TEST(growth_of_more_than_there_can_be_is_a_number_still)
{
    struct growth growth = { 0 };

    growth_add(&growth, 0, UINT64_MAX);
    growth_add(&growth, 1, 0);
    ck_assert_uint_eq(growth_bytes_per_s(&growth), UINT64_C(1) << 52);
}
END_TEST

START_TEST(looks_that_come_very_often_do_not_shorten_the_window)
{
    struct growth growth = { 0 };

    for (int64_t at_ms = 0; at_ms <= 1000; at_ms++)
        growth_add(&growth, at_ms * MS, (uint64_t)(2000000 - at_ms * 1000));
    ck_assert_uint_ge(growth_bytes_per_s(&growth), 999000);
    ck_assert_uint_le(growth_bytes_per_s(&growth), 1001000);
}
END_TEST

START_TEST(the_next_level_is_foretold)
{
    const struct level_reading free_half = left(500), in_2 = left(90), in_3 = left(10);

    ck_assert_int_eq(level_next_ns(&marks, &free_half, 0), -1);
    ck_assert_int_eq(level_next_ns(&marks, &free_half, 350000), 1000 * MS);
    ck_assert_int_eq(level_next_ns(&marks, &in_2, 40000), 1000 * MS);
    ck_assert_int_eq(level_next_ns(&marks, &in_3, 40000), -1); /* there is none above 3 */
}
END_TEST

START_TEST(looks_come_sooner_when_less_is_free_or_it_grows)
{
    const struct level_tick tick = { 100 * MS, 10 * MS, 300 };
    const struct level_reading calm = left(900), below = left(299), close = left(160);

    ck_assert_int_eq(level_look_ns(&tick, &marks, &calm, 0), 100 * MS);
    ck_assert_int_eq(level_look_ns(&tick, &marks, &below, 0), 10 * MS);
    ck_assert_int_eq(level_look_ns(&tick, &marks, &calm, 7500000),
                     50 * MS); /* 100 ms to the mark */
    ck_assert_int_eq(level_look_ns(&tick, &marks, &close, 1000000), 5 * MS);
    ck_assert_int_eq(level_look_ns(&tick, &marks, &close, 1000000000), 1 * MS);
}
END_TEST

START_TEST(marks_do_not_overflow)
{
    const struct level_reading huge = { .total_bytes = UINT64_MAX, .available_bytes = UINT64_MAX };
    enum ec_breaker_cause cause;

    ck_assert_uint_eq(level_wanted(&marks, &huge, &cause), 0);
    ck_assert_uint_gt(level_mark_bytes(&marks, 1, UINT64_MAX), UINT64_MAX / 7);
    ck_assert_uint_eq(level_permille(5, 0), 1000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("levels");
    TCase *tcase = tcase_create("levels");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, a_level_rises_at_once_also_by_several, 0,
                        (int)(sizeof rises / sizeof rises[0]));
    tcase_add_test(tcase, a_level_falls_by_one_for_each_calm_hold_time);
    tcase_add_test(tcase, a_level_stays_while_less_than_the_hysteresis_is_free);
    tcase_add_test(tcase, one_short_moment_begins_the_hold_time_anew);
    tcase_add_test(tcase, flapping_around_a_mark_makes_one_transition);
    tcase_add_test(tcase, without_hysteresis_there_is_one_way_down_for_each_hold_time);
    tcase_add_test(tcase, bytes_count_when_they_are_reached_first);
    tcase_add_loop_test(tcase, pressure_raises_by_one_and_only_below_its_ceiling, 0,
                        (int)(sizeof pressures / sizeof pressures[0]));
    tcase_add_test(tcase, growth_is_what_went_away_in_the_last_tenth_of_a_second);
    tcase_add_test(tcase, growth_of_more_than_there_can_be_is_a_number_still);
    tcase_add_test(tcase, looks_that_come_very_often_do_not_shorten_the_window);
    tcase_add_test(tcase, the_next_level_is_foretold);
    tcase_add_test(tcase, looks_come_sooner_when_less_is_free_or_it_grows);
    tcase_add_test(tcase, marks_do_not_overflow);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
