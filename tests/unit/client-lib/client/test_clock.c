/* test_clock.c - time as a game sees it, with a clock page that the test writes. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <engine-core/clock.h>

#include "client/client.h"
#include "foundation/futex.h"
#include "foundation/real_time.h"
#include "segment/clock_arithmetic.h"
#include "segment/clock_page.h"

#define S EC_NS_PER_S
#define MS INT64_C(1000000)

static struct ec_clock_page page;
static struct ec_clock_snapshot snapshot;
static struct ec_client client;
static enum ec_client_state connection;

/* The connection is the test's: this stands in for the function of client.c. */
enum ec_client_state ec_client_state(const struct ec_client *asked)
{
    ck_assert_ptr_eq(asked, &client);
    return connection;
}

/* Game time began `ago` before now, and 60 steps go to each of its seconds. */
static void set_up_ago(int64_t ago_ns)
{
    snapshot.game = (struct ec_game_snapshot) {
        .real0_ns = ec_real_ns() - ago_ns,
        .scale_num = 1,
        .scale_den = 1,
        .epoch = 7,
        .until_ns = EC_CLOCK_NEVER,
    };
    snapshot.step[2] = (struct ec_step_snapshot) { .name = "physics", .source = EC_STEP_GAME };
    ec_period_of_rate(60, 1, &snapshot.step[2].period_num, &snapshot.step[2].period_den);
    ec_clock_page_write(&page, &snapshot);
    atomic_store(&page.step[2].epoch_before, snapshot.game.epoch);
    atomic_store(&page.step[2].epoch_after, snapshot.game.epoch);
}

static void announce_of(unsigned index, uint64_t step)
{
    ec_step_word_publish(&page.step[index],
                         &(struct ec_step_news) {
                             .step = step,
                             .epoch = snapshot.game.epoch,
                             .due_ns = ec_step_due_ns(&snapshot.step[index], step),
                             .next_due_ns = ec_step_due_ns(&snapshot.step[index], step + 1),
                         });
    ec_futex_wake_all(&page.step[index].change);
}

static void announce(uint64_t step)
{
    announce_of(2, step);
}

static void set_up(void)
{
    memset(&page, 0, sizeof page);
    memset(&snapshot, 0, sizeof snapshot);
    memset(&client, 0, sizeof client);
    client.clock.base = &page;
    client.own.base = aligned_alloc(EC_SEGMENT_HEADER_BYTES, sizeof(struct ec_client_segment));
    ck_assert_ptr_nonnull(client.own.base);
    memset(client.own.base, 0, sizeof(struct ec_client_segment));
    connection = EC_CONNECTED;
    set_up_ago(-3600 * S); /* nothing is due for an hour, unless a test says otherwise */
}

static void tear_down(void)
{
    free(client.own.base);
}

static struct ec_step_clock physics(void)
{
    struct ec_step_clock clock;

    ck_assert_int_eq(ec_step_find(&client, "physics", &clock), EC_OK);
    return clock;
}

START_TEST(a_clock_is_found_by_its_name)
{
    struct ec_step_clock clock;

    announce(5);
    clock = physics();
    ck_assert_uint_eq(clock.index, 2);
    ck_assert_uint_eq(clock.seen, 5);
    ck_assert_uint_eq(ec_step_index(&clock), 5);
    ck_assert_int_eq(ec_step_find(&client, "physic", &clock), EC_ERR_NOT_FOUND);
    ck_assert_int_eq(ec_step_find(&client, "", &clock), EC_ERR_NOT_FOUND);
    ck_assert_int_eq(ec_step_find(&client, "physics and all the rest of it", &clock),
                     EC_ERR_NOT_FOUND);
}
END_TEST

START_TEST(steps_that_passed_are_answered_at_once_and_counted)
{
    struct ec_step_clock clock = physics();
    struct ec_step step;

    announce(3);
    ck_assert_int_eq(ec_step_wait(&clock, -1, &step), EC_OK);
    ck_assert_uint_eq(step.step, 3);
    ck_assert_uint_eq(step.steps_passed, 3);
    ck_assert_int_eq(step.due_ns, 50 * MS);
    ck_assert_uint_eq(step.epoch, 7);
    ck_assert(!step.stale);
    ck_assert(!step.breaker_changed);
    ck_assert_uint_eq(ec_client_own(&client)->pulse.step, 3);
    ck_assert_int_gt(ec_client_own(&client)->pulse.step_ns, 0);
}
END_TEST

START_TEST(a_look_without_a_new_step_times_out_and_says_what_is_known)
{
    struct ec_step_clock clock;
    struct ec_step step;

    announce(3);
    clock = physics();
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_ERR_TIMEOUT);
    ck_assert_uint_eq(step.step, 3);
    ck_assert_uint_eq(step.steps_passed, 0);
    ck_assert_int_eq(ec_step_wait(&clock, MS, &step), EC_ERR_TIMEOUT);
    ck_assert(!step.stale);
    ck_assert_uint_eq(ec_client_own(&client)->pulse.step, 0);
}
END_TEST

START_TEST(a_change_of_the_breaker_is_told_once_and_is_no_step)
{
    struct ec_step_clock clock;
    struct ec_step step;

    clock = physics();
    atomic_store(&page.breaker_level, 2);
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_OK);
    ck_assert_uint_eq(step.steps_passed, 0);
    ck_assert(step.breaker_changed);
    ck_assert_uint_eq(step.breaker_level, 2);
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_ERR_TIMEOUT);
    ck_assert(!step.breaker_changed);
    ck_assert_uint_eq(step.breaker_level, 2);
}
END_TEST

START_TEST(without_the_daemon_steps_go_on_by_arithmetic_and_are_stale)
{
    struct ec_step_clock clock;
    struct ec_step step, next;

    set_up_ago(10 * S);
    announce(540); /* nine seconds: the last ones are missing */
    clock = physics();
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_OK);
    ck_assert(step.stale);
    ck_assert_uint_ge(step.step, 600);
    ck_assert_uint_eq(step.steps_passed, step.step - 540);
    ck_assert_int_eq(step.due_ns, ec_step_due_ns(&snapshot.step[2], step.step));
    ck_assert_int_ge(ec_time_game(&client), step.due_ns);
    /* The next ones come at their time, without anybody announcing them. */
    ck_assert_int_eq(ec_step_wait(&clock, -1, &next), EC_OK);
    ck_assert(next.stale);
    ck_assert_uint_gt(next.step, step.step);
    ck_assert_int_ge(ec_time_game(&client), next.due_ns);
    ck_assert_uint_eq(ec_client_own(&client)->pulse.step, next.step);
}
END_TEST

START_TEST(a_daemon_that_comes_back_is_followed_again_and_never_goes_back)
{
    struct ec_step_clock clock;
    struct ec_step step;
    uint64_t computed;

    set_up_ago(10 * S);
    announce(540);
    clock = physics();
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_OK);
    computed = step.step;
    announce(computed + 36000); /* nothing is due for ten minutes */
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_OK);
    ck_assert_uint_eq(step.step, computed + 36000);
    ck_assert_uint_eq(step.steps_passed, 36000);
    ck_assert(!step.stale);
}
END_TEST

START_TEST(a_lost_connection_needs_no_grace)
{
    struct ec_step_clock clock;
    struct ec_step step;

    set_up_ago(50 * MS); /* steps 1, 2 and 3 are due, the first for 33 ms */
    clock = physics();
    connection = EC_DISCONNECTED;
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_OK);
    ck_assert(step.stale);
    ck_assert_uint_ge(step.step, 3);
}
END_TEST

START_TEST(while_game_time_stands_no_step_is_missing)
{
    struct ec_step_clock clock;
    struct ec_step step;

    snapshot.game.game0_ns = 105 * MS;
    snapshot.game.real0_ns -= 7200 * S;
    snapshot.game.scale_num = 0;

    ec_clock_page_write(&page, &snapshot);
    announce(6);
    clock = physics();
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_ERR_TIMEOUT);
    ck_assert(!step.stale);
    ck_assert_int_eq(ec_time_game(&client), 105 * MS);
    ck_assert_double_eq_tol(ec_step_alpha(&clock), 5.0 / 16.666667, 1e-6);
}
END_TEST

START_TEST(alpha_is_1_when_the_next_step_is_due_and_0_before_this_one)
{
    struct ec_step_clock clock = physics();

    set_up_ago(10 * S);
    ck_assert_double_eq(ec_step_alpha(&clock), 1.0);
    announce(36000);
    ck_assert_double_eq(ec_step_alpha(&clock), 0.0);
}
END_TEST

START_TEST(game_time_follows_real_time)
{
    int64_t before_ns, game_ns, after_ns;

    set_up_ago(S);
    before_ns = ec_time_real();
    game_ns = ec_time_game(&client);
    after_ns = ec_time_real();
    ck_assert_int_ge(game_ns, before_ns - snapshot.game.real0_ns);
    ck_assert_int_le(game_ns, after_ns - snapshot.game.real0_ns);
    ck_assert_uint_eq(ec_time_epoch(&client), 7);
}
END_TEST

START_TEST(a_page_that_nobody_wrote_has_no_time)
{
    struct ec_step_clock clock;
    struct ec_step step;

    clock = physics();
    memset(&page, 0, sizeof page);
    ck_assert(ec_time_game(&client) == EC_TIME_NONE);
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_ERR_TIMEOUT);
    ck_assert_double_eq(ec_step_alpha(&clock), 0.0);
    ck_assert_int_eq(ec_step_find(&client, "physics", &clock), EC_ERR_NOT_FOUND);
}
END_TEST

static void *wait_for_step(void *context)
{
    struct ec_step_clock *clock = context;
    struct ec_step step;

    ck_assert_int_eq(ec_step_wait(clock, -1, &step), EC_OK);
    return clock;
}

START_TEST(a_sleeper_is_woken_by_the_announcement)
{
    struct ec_step_clock clock;
    pthread_t thread;

    clock = physics();
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_step, &clock), 0);
    announce(1);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(clock.seen, 1);
}
END_TEST

START_TEST(frame_marks_count_frames_and_are_published)
{
    struct ec_pulse *pulse = &ec_client_own(&client)->pulse;
    struct ec_frame first, second;

    ec_frame_begin(&client, &first);
    ck_assert_uint_eq(first.index, 1);
    ck_assert_int_eq(first.period_ns, 0);
    ck_assert_uint_eq(pulse->frame, 1);
    ck_assert_int_eq(pulse->frame_ns, first.begin_ns);
    ck_assert_int_eq(first.work_ns, 0);
    ec_frame_end(&first);
    ck_assert_int_ge(first.work_ns, 0);
    ec_frame_begin(&client, &second);
    ck_assert_uint_eq(second.index, 2);
    ck_assert_int_eq(second.period_ns, second.begin_ns - first.begin_ns);
    ck_assert_int_ge(second.period_ns, first.work_ns);
    ck_assert_uint_eq(pulse->frame, 2);
}
END_TEST

/* ---- epochs, announcements, phases, simulated time ---- */

START_TEST(a_new_epoch_is_told_once_and_has_no_difference_to_the_old_one)
{
    struct ec_step_clock clock;
    struct ec_step step;

    announce(500);
    clock = physics();
    atomic_store(&page.heartbeat_ns, ec_real_ns());
    snapshot.game.epoch = 8; /* time goes back */
    ec_clock_page_write(&page, &snapshot);
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step),
                     EC_ERR_TIMEOUT); /* its step is not there yet */
    announce(100);
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_OK);
    ck_assert(step.epoch_changed);
    ck_assert_uint_eq(step.epoch, 8);
    ck_assert_uint_eq(step.step, 100);
    ck_assert_uint_eq(step.steps_passed, 0);
    announce(101);
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_OK);
    ck_assert(!step.epoch_changed);
    ck_assert_uint_eq(step.steps_passed, 1);
}
END_TEST

START_TEST(steps_that_are_left_out_are_told_apart)
{
    struct ec_step_clock clock = physics();
    struct ec_step step;

    atomic_store(&page.step[2].skipped, 4);
    ec_step_word_publish(&page.step[2],
                         &(struct ec_step_news) { .step = 6, .epoch = 7, .skipped = 4 });
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_OK);
    ck_assert_uint_eq(step.steps_passed, 6);
    ck_assert_uint_eq(step.steps_skipped, 4);
    ec_step_word_publish(&page.step[2],
                         &(struct ec_step_news) { .step = 7, .epoch = 7, .skipped = 4 });
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_OK);
    ck_assert_uint_eq(step.steps_skipped, 0);
}
END_TEST

/* A clock that the test turns. */
static int64_t simulated_ns;

static int64_t simulated_now(void *context)
{
    (void)context;
    return simulated_ns;
}

static void simulated_sleep(void *context, int64_t deadline_ns)
{
    (void)context;
    if (deadline_ns < INT64_MAX)
        simulated_ns = deadline_ns;
}

static const struct ec_time_source simulated = { simulated_now, simulated_sleep, NULL };

static void simulate_from_now(void)
{
    set_up_ago(0);
    simulated_ns = snapshot.game.real0_ns;
    ec_client_use_time(&client, &simulated);
}

START_TEST(by_a_simulated_source_a_day_of_steps_passes_at_once)
{
    struct ec_step_clock clock;
    struct ec_step step;
    uint64_t made = 0;

    simulate_from_now();
    clock = physics();
    while (made < 60 * 86400) {
        if (ec_step_wait(&clock, -1, &step) != EC_OK)
            ck_abort_msg("step %lu did not come", (unsigned long)made);
        made += step.steps_passed;
    }
    ck_assert_uint_eq(step.step, 60 * 86400);
    ck_assert_int_eq(step.due_ns, 86400 * S);
    ck_assert_int_eq(ec_time_game(&client), 86400 * S);
}
END_TEST

START_TEST(alpha_can_be_set_by_a_simulated_source)
{
    struct ec_step_clock clock;

    simulate_from_now();
    clock = physics();
    simulated_ns += 4166667;
    ck_assert_double_eq_tol(ec_step_alpha(&clock), 0.25, 1e-6);
}
END_TEST

START_TEST(an_announced_change_of_scale_is_followed_without_a_word)
{
    simulate_from_now();
    snapshot.game.until_ns = simulated_ns + 10 * MS;
    snapshot.game_next = snapshot.game;
    snapshot.game_next.until_ns = EC_CLOCK_NEVER;
    ec_game_rebase(&snapshot.game_next, snapshot.game.until_ns, 1, 2);
    ec_clock_page_write(&page, &snapshot);
    simulated_ns += 10 * MS - 1;
    ck_assert_int_eq(ec_time_game(&client), 10 * MS - 1);
    simulated_ns += 11;
    ck_assert_int_eq(ec_time_game(&client), 10 * MS + 5);
}
END_TEST

START_TEST(a_member_with_a_phase_is_told_of_a_step_so_much_later)
{
    struct ec_step_clock clock;
    struct ec_step step;

    simulate_from_now();
    clock = physics();
    clock.phase_ns = 5 * MS;
    for (uint64_t n = 1; n <= 10; n++) {
        while (simulated_ns - snapshot.game.real0_ns < ec_step_due_ns(&snapshot.step[2], n))
            ck_assert_int_eq(ec_step_wait_until(&clock, simulated_ns + MS, &step), EC_ERR_TIMEOUT);
        announce(n);
        ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_ERR_TIMEOUT);
        ck_assert_int_eq(ec_step_wait(&clock, -1, &step), EC_OK);
        ck_assert_uint_eq(step.step, n);
        ck_assert_int_eq(simulated_ns - snapshot.game.real0_ns,
                         ec_step_due_ns(&snapshot.step[2], n) + 5 * MS);
        ck_assert(!step.stale);
    }
}
END_TEST

/* Held back by members of its group, a step may come late; only a lost heartbeat is a missing daemon. */
START_TEST(a_step_that_is_held_back_is_not_stale_while_the_heart_beats)
{
    struct ec_step_clock clock;
    struct ec_step step;

    simulate_from_now();
    clock = physics();
    atomic_store(&page.step[2].required, 1);
    for (int i = 0; i < 50; i++) {
        atomic_store(&page.heartbeat_ns, simulated_ns);
        ck_assert_int_eq(ec_step_wait_until(&clock, simulated_ns + 100 * MS, &step),
                         EC_ERR_TIMEOUT);
    }
    ck_assert_int_eq(ec_step_wait_until(&clock, simulated_ns + 2000 * MS, &step), EC_OK);
    ck_assert(step.stale);
}
END_TEST

/* Steps 1, 2 … of the simulated clock. */
static int64_t due_ns(uint64_t step)
{
    return snapshot.game.real0_ns + ec_step_due_ns(&snapshot.step[2], step);
}

START_TEST(the_next_step_is_told_when_it_is_due_and_only_once)
{
    struct ec_step_clock clock;
    struct ec_step step;

    simulate_from_now();
    clock = physics();
    for (uint64_t n = 1; n <= 10; n++) {
        ck_assert_int_eq(ec_step_wait(&clock, -1, &step), EC_OK);
        ck_assert_int_eq(simulated_ns, due_ns(n));
        ck_assert_uint_eq(step.step, n);
        ck_assert_uint_eq(step.steps_passed, 1);
        ck_assert(!step.stale);
        ck_assert_uint_eq(ec_step_index(&clock), n);
        ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_ERR_TIMEOUT);
        ck_assert_uint_eq(ec_step_index(&clock), n);
        announce(n);
        ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_ERR_TIMEOUT);
        ck_assert_uint_eq(ec_step_index(&clock), n);
    }
}
END_TEST

START_TEST(nobody_is_more_than_one_step_ahead_of_the_announcements)
{
    struct ec_step_clock clock;
    struct ec_step step;

    simulate_from_now();
    clock = physics();
    ck_assert_int_eq(ec_step_wait(&clock, -1, &step), EC_OK);
    ck_assert_int_eq(ec_step_wait_until(&clock, due_ns(2) + MS / 2, &step), EC_ERR_TIMEOUT);
    ck_assert_uint_eq(step.step, 1);
    announce(1);
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_OK);
    ck_assert_uint_eq(step.step, 2);
}
END_TEST

START_TEST(a_step_that_is_late_is_for_the_daemon_to_tell)
{
    struct ec_step_clock clock;
    struct ec_step step;

    simulate_from_now();
    clock = physics();
    simulated_ns = due_ns(1) + 2 * MS;
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_ERR_TIMEOUT);
    announce(1);
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_OK);
}
END_TEST

START_TEST(where_members_are_waited_for_nobody_is_ahead)
{
    struct ec_step_clock clock;
    struct ec_step step;

    simulate_from_now();
    clock = physics();
    atomic_store(&page.step[2].required, 1);
    atomic_store(&page.heartbeat_ns, simulated_ns);
    ck_assert_int_eq(ec_step_wait_until(&clock, due_ns(1) + MS / 2, &step), EC_ERR_TIMEOUT);
    announce(1);
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_OK);
}
END_TEST

START_TEST(a_member_that_was_at_work_when_its_step_came_was_not_woken_late)
{
    struct ec_step_clock clock;
    struct ec_step_member *record;
    struct ec_step step;

    simulate_from_now();
    clock = physics();
    clock.joined = true;
    record = &((struct ec_client_segment *)client.own.base)->members[clock.index];
    simulated_ns = due_ns(1);
    announce(1);
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_OK);
    simulated_ns = due_ns(2) + 7 * MS; /* a long step */
    announce(2);
    ec_step_done(&clock);
    simulated_ns += MS;
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_OK);
    ck_assert_uint_eq(step.step, 2);
    ck_assert_uint_eq(atomic_load(&record->woken_late.max_ns), MS);
    ck_assert_uint_eq(atomic_load(&record->step_work.max_ns),
                      (uint64_t)(due_ns(2) + 7 * MS - due_ns(1)));
}
END_TEST

START_TEST(no_step_is_taken_after_an_announced_pause)
{
    struct ec_step_clock clock;
    struct ec_step step;

    simulate_from_now();
    clock = physics();
    snapshot.game.until_ns = due_ns(1) - 1;
    snapshot.game_next = snapshot.game;
    snapshot.game_next.until_ns = EC_CLOCK_NEVER;
    ec_game_rebase(&snapshot.game_next, snapshot.game.until_ns, 0, 1);
    ec_clock_page_write(&page, &snapshot);
    ck_assert_int_eq(ec_step_wait_until(&clock, due_ns(3), &step), EC_ERR_TIMEOUT);
    ck_assert_uint_eq(step.step, 0);
}
END_TEST

/* The daemon was stopped for a while, and leaves out what came too late: step 1 was simulated. */
START_TEST(a_step_that_was_taken_and_is_left_out_later_is_counted_once)
{
    struct ec_step_clock clock;
    struct ec_step step;

    simulate_from_now();
    clock = physics();
    ck_assert_int_eq(ec_step_wait(&clock, -1, &step), EC_OK);
    ck_assert_uint_eq(step.steps_skipped, 0);
    ec_step_word_publish(&page.step[2],
                         &(struct ec_step_news) { .step = 4, .epoch = 7, .skipped = 3 });
    simulated_ns = due_ns(4) + 2 * MS;
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_OK);
    ck_assert_uint_eq(step.step, 4);
    ck_assert_uint_eq(step.steps_passed, 3);
    ck_assert_uint_eq(step.steps_skipped, 2);
}
END_TEST

/* Just before it announces a step, the daemon takes time back: a clock on real time keeps its steps. */
START_TEST(a_step_that_was_taken_before_a_new_epoch_goes_back_with_game_time_only)
{
    const bool real = _i == 1;
    struct ec_step_clock clock;
    struct ec_step step;

    simulate_from_now();
    if (real) {
        snapshot.step[2].source = EC_STEP_REAL;
        snapshot.step[2].base_ns = simulated_ns;
        ec_clock_page_write(&page, &snapshot);
    }
    clock = physics();
    ck_assert_int_eq(ec_step_wait(&clock, -1, &step), EC_OK);
    ck_assert_uint_eq(step.step, 1);
    atomic_store(&page.heartbeat_ns, simulated_ns);
    snapshot.game.epoch = 8;
    ec_game_set(&snapshot.game, simulated_ns, 0, 0, 1);
    ec_clock_page_write(&page, &snapshot);
    announce(0);
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_OK);
    ck_assert(step.epoch_changed);
    ck_assert_uint_eq(step.step, real);
    ck_assert_uint_eq(ec_step_index(&clock), real);
    announce(1);
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step), real ? EC_ERR_TIMEOUT : EC_OK);
    ck_assert_uint_eq(step.step, 1);
}
END_TEST

/* The clock is the page's first from now on; its times stay. */
static void move_to_first(void)
{
    snapshot.step[0] = snapshot.step[2];
    snapshot.step[2].name[0] = '\0';
    ec_clock_page_write(&page, &snapshot);
}

/* Events are stamped with it, on whichever thread they are published. */
START_TEST(what_one_thread_was_told_ahead_is_not_taken_back_by_what_another_is_told)
{
    struct ec_step_clock ahead, behind;
    struct ec_step step;

    simulate_from_now();
    move_to_first();
    announce_of(0, 1);
    simulated_ns = due_ns(1);
    ahead = physics();
    behind = ahead;
    behind.seen = 0;
    behind.phase_ns = 5 * MS;
    ck_assert_int_eq(ec_step_wait(&ahead, -1, &step), EC_OK);
    ck_assert_uint_eq(step.step, 2);
    ck_assert_uint_eq(atomic_load(&client.first_taken), 2);
    ck_assert_int_eq(ec_step_wait(&behind, 0, &step), EC_OK);
    ck_assert_uint_eq(step.step, 1);
    ck_assert_uint_eq(atomic_load(&client.first_taken), 2);

    announce_of(0, 2); /* from now on it is one of many that are over */
    simulated_ns += 10 * MS;
    ck_assert_int_eq(ec_step_wait(&behind, 0, &step), EC_OK);
    ck_assert_uint_eq(step.step, 2);
    ck_assert_uint_eq(atomic_load(&client.first_taken), 0);
}
END_TEST

START_TEST(a_step_that_was_told_ahead_is_forgotten_when_game_time_goes_back)
{
    struct ec_step_clock clock;
    struct ec_step step;

    simulate_from_now();
    move_to_first();
    announce_of(0, 0);
    clock = physics();
    ck_assert_int_eq(ec_step_wait(&clock, -1, &step), EC_OK);
    ck_assert_uint_eq(atomic_load(&client.first_taken), 1);
    snapshot.game.epoch = 8;
    ec_game_set(&snapshot.game, simulated_ns, 0, 0, 1);
    ec_clock_page_write(&page, &snapshot);
    announce_of(0, 0);
    ck_assert_int_eq(ec_step_wait(&clock, 0, &step), EC_OK);
    ck_assert(step.epoch_changed);
    ck_assert_uint_eq(atomic_load(&client.first_taken), 0);
}
END_TEST

START_TEST(a_moment_is_read_as_a_whole)
{
    struct ec_time now;

    simulate_from_now();
    simulated_ns += 3 * MS;
    ck_assert_int_eq(ec_time_read(&client, &now), EC_OK);
    ck_assert_int_eq(now.real_ns, simulated_ns);
    ck_assert_int_eq(now.game_ns, 3 * MS);
    ck_assert_uint_eq(now.epoch, 7);
    ck_assert_double_eq(now.scale, 1.0);
    memset(&page, 0, sizeof page);
    ck_assert_int_eq(ec_time_read(&client, &now), EC_AGAIN);
}
END_TEST

START_TEST(frames_are_counted_and_measured)
{
    struct ec_frame frame;
    struct ec_frame_stats stats;

    simulate_from_now();
    for (int i = 0; i < 241; i++) { /* four seconds of 60 frames, each 5 ms of work */
        ec_frame_begin(&client, &frame);
        simulated_ns += 5 * MS;
        ec_frame_end(&frame);
        ck_assert_int_eq(frame.work_ns, 5 * MS);
        simulated_ns += 11666667;
    }
    ec_frame_stats(&client, &stats);
    ck_assert_uint_eq(stats.frames, 241);
    ck_assert_double_eq_tol(stats.fps, 60, 0.01);
    ck_assert_uint_eq(stats.period.max_ns, 16666667);
    ck_assert_uint_eq(stats.work.max_ns, 5 * MS);
    ck_assert_uint_le(stats.period.p50_ns, 16666667);
    ck_assert_uint_ge(stats.period.p50_ns, 14000000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("clock");
    TCase *tests = tcase_create("clock");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_clock_is_found_by_its_name);
    tcase_add_test(tests, steps_that_passed_are_answered_at_once_and_counted);
    tcase_add_test(tests, a_look_without_a_new_step_times_out_and_says_what_is_known);
    tcase_add_test(tests, a_change_of_the_breaker_is_told_once_and_is_no_step);
    tcase_add_test(tests, without_the_daemon_steps_go_on_by_arithmetic_and_are_stale);
    tcase_add_test(tests, a_daemon_that_comes_back_is_followed_again_and_never_goes_back);
    tcase_add_test(tests, a_lost_connection_needs_no_grace);
    tcase_add_test(tests, while_game_time_stands_no_step_is_missing);
    tcase_add_test(tests, alpha_is_1_when_the_next_step_is_due_and_0_before_this_one);
    tcase_add_test(tests, game_time_follows_real_time);
    tcase_add_test(tests, a_page_that_nobody_wrote_has_no_time);
    tcase_add_test(tests, a_sleeper_is_woken_by_the_announcement);
    tcase_add_test(tests, frame_marks_count_frames_and_are_published);
    tcase_add_test(tests, a_new_epoch_is_told_once_and_has_no_difference_to_the_old_one);
    tcase_add_test(tests, steps_that_are_left_out_are_told_apart);
    tcase_add_test(tests, by_a_simulated_source_a_day_of_steps_passes_at_once);
    tcase_add_test(tests, alpha_can_be_set_by_a_simulated_source);
    tcase_add_test(tests, an_announced_change_of_scale_is_followed_without_a_word);
    tcase_add_test(tests, a_member_with_a_phase_is_told_of_a_step_so_much_later);
    tcase_add_test(tests, a_step_that_is_held_back_is_not_stale_while_the_heart_beats);
    tcase_add_test(tests, the_next_step_is_told_when_it_is_due_and_only_once);
    tcase_add_test(tests, nobody_is_more_than_one_step_ahead_of_the_announcements);
    tcase_add_test(tests, a_step_that_is_late_is_for_the_daemon_to_tell);
    tcase_add_test(tests, where_members_are_waited_for_nobody_is_ahead);
    tcase_add_test(tests, a_member_that_was_at_work_when_its_step_came_was_not_woken_late);
    tcase_add_test(tests, no_step_is_taken_after_an_announced_pause);
    tcase_add_test(tests, a_step_that_was_taken_and_is_left_out_later_is_counted_once);
    tcase_add_test(tests, what_one_thread_was_told_ahead_is_not_taken_back_by_what_another_is_told);
    tcase_add_test(tests, a_step_that_was_told_ahead_is_forgotten_when_game_time_goes_back);
    tcase_add_loop_test(
        tests, a_step_that_was_taken_before_a_new_epoch_goes_back_with_game_time_only, 0, 2);
    tcase_add_test(tests, a_moment_is_read_as_a_whole);
    tcase_add_test(tests, frames_are_counted_and_measured);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
