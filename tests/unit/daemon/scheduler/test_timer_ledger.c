/* Timers in a file: what was noted is read again by the next run, whatever happened in between; what makes
 * no sense is left out. */
#include "scheduler/timer_ledger.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST 5000
#define CLOCKS (ALARM_STEP + 1)
#define ROWS_AT 4096
#define ROW_BYTES 128

static char directory[64], path[96];
static struct timer_ledger *ledger;
static struct timer_ledger_rows found;
static struct ec_error why;

static void set_up(void)
{
    strcpy(directory, "/tmp/engine-core-ledger-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/timers", directory);
    ck_assert_int_eq(timer_ledger_create(path, MOST, &ledger, &why), EC_OK);
    ck_assert_int_eq(timer_ledger_commit(ledger, &why), EC_OK);
    found = (struct timer_ledger_rows) { 0 };
}

static void tear_down(void)
{
    timer_ledger_rows_finish(&found);
    timer_ledger_destroy(ledger, false);
    ck_assert_int_eq(access(path, F_OK), -1);
    ck_assert_int_eq(rmdir(directory), 0);
}

static struct timer_kept timer(uint32_t slot, const void *payload, uint32_t bytes)
{
    return (struct timer_kept) { .slot = slot,
                                 .generation = 7,
                                 .life = TIMER_ARMED,
                                 .desc = { .clock = ALARM_STEP,
                                           .due = 1000 + slot,
                                           .every = 3,
                                           .owner = 42,
                                           .event = 5,
                                           .payload = payload,
                                           .payload_bytes = bytes },
                                 .first = -9,
                                 .fired = 11,
                                 .count = 13 };
}

static void read_again(void)
{
    timer_ledger_rows_finish(&found);
    ck_assert_msg(timer_ledger_read(path, CLOCKS, &found, &why) == EC_OK, "%s", why.text);
}

static void check_same(const struct timer_kept *kept)
{
    const struct timer_kept *row = &found.rows[kept->slot];

    ck_assert_uint_lt(kept->slot, found.count);
    ck_assert_int_eq(row->life, kept->life);
    ck_assert_uint_eq(row->generation, kept->generation);
    ck_assert_uint_eq(row->desc.owner, kept->desc.owner);
    ck_assert_uint_eq(row->desc.clock, kept->desc.clock);
    ck_assert_uint_eq(row->desc.event, kept->desc.event);
    ck_assert_int_eq(row->desc.due, kept->desc.due);
    ck_assert_int_eq(row->desc.every, kept->desc.every);
    ck_assert_int_eq(row->first, kept->first);
    ck_assert_int_eq(row->fired, kept->fired);
    ck_assert_uint_eq(row->count, kept->count);
    ck_assert_uint_eq(row->desc.payload_bytes, kept->desc.payload_bytes);
    if (kept->desc.payload_bytes > 0)
        ck_assert_mem_eq(row->desc.payload, kept->desc.payload, kept->desc.payload_bytes);
}

/* Payloads that lie in the row, that just do not, and the largest. */
static const uint32_t payload_sizes[] = { 0, 1, 56, 57, 5000, TIMER_LEDGER_PAYLOAD_MAX };

START_TEST(what_was_noted_is_read_again_with_its_payload)
{
    static unsigned char payload[TIMER_LEDGER_PAYLOAD_MAX];
    struct timer_kept first = timer(0, payload, payload_sizes[_i]), last = first;

    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (unsigned char)(i * 7 + 1);
    last.slot = MOST - 1;
    timer_ledger_note(ledger, &first);
    timer_ledger_note(ledger, &last);
    read_again();
    check_same(&first);
    check_same(&last);
    ck_assert_int_eq(found.rows[1].life, TIMER_FREE);
    /* It fires, fires for the last time, and goes; another takes its place. */
    first.desc.due += 3;
    first.count++;
    first.fired = 1000;
    timer_ledger_note(ledger, &first);
    read_again();
    check_same(&first);
    first.life = TIMER_FIRED;
    timer_ledger_note(ledger, &first);
    read_again();
    check_same(&first);
    first.life = TIMER_FREE;
    first.generation = 8;
    timer_ledger_note(ledger, &first);
    read_again();
    ck_assert_int_eq(found.rows[0].life, TIMER_FREE);
    ck_assert_uint_eq(found.rows[0].generation, 8);
    first = timer(0, "another", 7);
    first.generation = 9;
    timer_ledger_note(ledger, &first);
    read_again();
    check_same(&first);
}
END_TEST

START_TEST(a_payload_that_is_too_large_is_not_kept)
{
    static const unsigned char payload[TIMER_LEDGER_PAYLOAD_MAX + 1];
    struct timer_kept kept = timer(0, payload, sizeof payload);

    timer_ledger_note(ledger, &kept);
    read_again();
    ck_assert(found.count == 0 || found.rows[0].life == TIMER_FREE);
}
END_TEST

START_TEST(the_file_before_stays_until_the_new_one_is_whole)
{
    struct timer_kept kept = timer(3, NULL, 0);
    struct timer_ledger *next;

    kept.desc.event = 0;
    timer_ledger_note(ledger, &kept);
    ck_assert_int_eq(timer_ledger_create(path, MOST, &next, &why), EC_OK);
    read_again();
    check_same(&kept);
    timer_ledger_destroy(next, true); /* it was not committed, so nothing of it stays */
    read_again();
    check_same(&kept);
    timer_ledger_destroy(ledger, true);
    read_again();
    check_same(&kept);
    ck_assert_int_eq(timer_ledger_create(path, MOST, &ledger, &why), EC_OK);
    ck_assert_int_eq(timer_ledger_commit(ledger, &why), EC_OK);
    read_again();
    ck_assert_uint_eq(found.count, 0);
}
END_TEST

/* Bytes of a row of a stranger; the row is one that would be read. */
static const struct {
    unsigned offset;
    uint32_t value;
} faults[] = {
    { 0, 9 },            /* life */
    { 4, 0 },            /* generation */
    { 8, 0 },            /* owner */
    { 12, CLOCKS },      /* clock */
    { 28, 0x80000000u }, /* every */
    { 64, 65537 },       /* payload_bytes */
    { 64, UINT32_MAX },
};

static void overwrite(off_t at, uint32_t value)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    ck_assert_int_eq(pwrite(fd, &value, sizeof value, at), sizeof value);
    close(fd);
}

START_TEST(a_row_that_makes_no_sense_is_left_out)
{
    struct timer_kept good = timer(0, "x", 1), bad = timer(1, "y", 1);

    timer_ledger_note(ledger, &good);
    timer_ledger_note(ledger, &bad);
    read_again();
    check_same(&bad);
    overwrite(ROWS_AT + ROW_BYTES + (off_t)faults[_i].offset, faults[_i].value);
    read_again();
    check_same(&good);
    ck_assert(found.count == 1 || found.rows[1].life == TIMER_FREE);
}
END_TEST

static const struct {
    off_t at;
    int rc;
} headers[] = {
    { 0, EC_ERR_LAYOUT },     /* magic */
    { 8, EC_ERR_LAYOUT },     /* row_bytes */
    { 12, EC_ERR_LAYOUT },    /* row_count */
    { 16, EC_ERR_NOT_FOUND }, /* boot_id */
};

START_TEST(a_file_of_another_version_or_boot_is_none)
{
    overwrite(headers[_i].at, UINT32_MAX);
    ck_assert_int_eq(timer_ledger_read(path, CLOCKS, &found, &why), headers[_i].rc);
    ck_assert_ptr_null(found.rows);
}
END_TEST

START_TEST(a_file_that_is_cut_off_or_no_file_is_refused)
{
    ck_assert_int_eq(truncate(path, 10), 0);
    ck_assert_int_eq(timer_ledger_read(path, CLOCKS, &found, &why), EC_ERR_LAYOUT);
    ck_assert_int_eq(timer_ledger_read(directory, CLOCKS, &found, &why), EC_ERR_LAYOUT);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(timer_ledger_read(path, CLOCKS, &found, &why), EC_ERR_NOT_FOUND);
}
END_TEST

/* A timer's whole life through the timers themselves, and into those of another run. */
START_TEST(the_timers_of_one_run_are_those_of_the_next)
{
    struct timers *timers, *next;
    struct timer_firing firing;
    uint64_t once, again, gone;
    uint32_t at = 0, count = 0;

    ck_assert_int_eq(timers_create(MOST, &timers, &why), EC_OK);
    timers_watch(timers, timer_ledger_note, ledger);
    timers_arm(timers, &(struct timer_desc) { .clock = ALARM_GAME, .due = 5, .owner = 1 }, &gone,
               &why);
    timers_arm(timers, &(struct timer_desc) { .clock = ALARM_REAL, .due = 50, .owner = 1 }, &once,
               &why);
    timers_arm(timers,
               &(struct timer_desc) { .clock = ALARM_GAME, .due = 10, .every = 10, .owner = 2 },
               &again, &why);
    ck_assert(timers_fire(timers, ALARM_GAME, 5, &firing));
    timers_settle(timers);
    ck_assert(timers_fire(timers, ALARM_GAME, 10, &firing));
    timers_settle(timers);
    ck_assert(timers_fire(timers, ALARM_GAME, 20, &firing)); /* killed before it was published */
    read_again();
    timers_destroy(timers);

    ck_assert_int_eq(timers_create(MOST, &next, &why), EC_OK);
    ck_assert_int_eq(timers_restore(next, found.rows, found.count, &why), EC_OK);
    ck_assert_uint_eq(timers_held(next), 2);
    ck_assert(!timers_fire(next, ALARM_GAME, 1000, &firing)); /* they wait for their owners */
    ck_assert(timers_is_armed(next, once, 1) && timers_is_armed(next, again, 2));
    while (timers_next(next, &at, &firing))
        count++;
    ck_assert_uint_eq(count, 2);
    ck_assert_uint_eq(timers_release(next, 2), 0);
    ck_assert(timers_fire(next, ALARM_GAME, 20, &firing));
    ck_assert_uint_eq(firing.id, again);
    ck_assert_uint_eq(firing.count, 2); /* the one that was not published */
    ck_assert_int_eq(firing.desc.due, 20);
    /* What had fired is armed again when time goes back behind it. */
    timers_set_back(next, ALARM_GAME, 0);
    ck_assert(timers_fire(next, ALARM_GAME, 5, &firing));
    ck_assert_uint_eq(firing.id, gone);
    /* And away once more. */
    timers_hold(next, 2);
    ck_assert(!timers_fire(next, ALARM_GAME, 1000, &firing));
    ck_assert(timers_cancel(next, again, 2));
    timers_cancel_owner(next, 1);
    ck_assert_uint_eq(timers_held(next) + timers_armed(next), 0);
    timers_destroy(next);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("timer_ledger");
    TCase *tests = tcase_create("timer_ledger");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, what_was_noted_is_read_again_with_its_payload, 0,
                        (int)(sizeof payload_sizes / sizeof payload_sizes[0]));
    tcase_add_test(tests, a_payload_that_is_too_large_is_not_kept);
    tcase_add_test(tests, the_file_before_stays_until_the_new_one_is_whole);
    tcase_add_loop_test(tests, a_row_that_makes_no_sense_is_left_out, 0,
                        (int)(sizeof faults / sizeof faults[0]));
    tcase_add_loop_test(tests, a_file_of_another_version_or_boot_is_none, 0,
                        (int)(sizeof headers / sizeof headers[0]));
    tcase_add_test(tests, a_file_that_is_cut_off_or_no_file_is_refused);
    tcase_add_test(tests, the_timers_of_one_run_are_those_of_the_next);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
