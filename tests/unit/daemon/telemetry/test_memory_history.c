/* What grows for many frames, and what is allocated in each, is found; frames are counted as the program
 * counts them, or by the time when it does not. */
#include "telemetry/memory_history.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS INT64_C(1000000000)
#define FRAMES_MIN 60

static struct ec_client_segment *segment;
static struct memory_history history;
static int64_t now_ns;

static void set_up(void)
{
    const size_t bytes = (sizeof *segment + 4095) & ~(size_t)4095;

    segment = aligned_alloc(4096, bytes);
    ck_assert_ptr_nonnull(segment);
    memset(segment, 0, bytes);
    atomic_store(&segment->allocators[0].kind, EC_ALLOCATOR_POOL);
    atomic_store(&segment->tracking.site_count, 1);
    atomic_store(&segment->tracking.sites[0].ready, 1);
    history = (struct memory_history) { 0 };
    now_ns = 1000 * SECOND_NS; /* of a host that has run for a while */
}

static void tear_down(void)
{
    memory_history_finish(&history);
    free(segment);
}

/* One second of a program: so many blocks more in the pool and allocations at the site. */
static void pass_second(uint64_t frames, uint64_t grown)
{
    atomic_fetch_add(&segment->pulse.frame, frames);
    atomic_fetch_add(&segment->allocators[0].count, grown);
    atomic_fetch_add(&segment->tracking.sites[0].allocs, grown);
    now_ns += SECOND_NS;
    memory_history_look(&history, segment, now_ns);
}

START_TEST(what_grows_with_the_frames_is_found_and_what_has_stopped_is_not)
{
    uint64_t frames;

    pass_second(60, 1);
    for (unsigned i = 0; i < 3; i++) {
        pass_second(60, 60);
        ck_assert(!memory_history_grows(&history, 0, FRAMES_MIN, &frames));
    }
    pass_second(60, 60);
    ck_assert(memory_history_grows(&history, 0, FRAMES_MIN, &frames));
    ck_assert_uint_eq(frames, 240);
    ck_assert(memory_history_is_busy(&history, 0, FRAMES_MIN, &frames));
    ck_assert_uint_eq(frames, 240);
    pass_second(60, 0);
    ck_assert(!memory_history_grows(&history, 0, FRAMES_MIN, &frames));
    ck_assert(!memory_history_is_busy(&history, 0, FRAMES_MIN, &frames));
}
END_TEST

START_TEST(the_first_mark_of_a_frame_begins_the_count)
{
    uint64_t frames;

    for (unsigned i = 0; i < 6; i++) /* it loads, and marks no frame yet */
        pass_second(0, 100);
    ck_assert(memory_history_grows(&history, 0, FRAMES_MIN, &frames));
    ck_assert_uint_eq(frames, 300);
    ck_assert(!memory_history_is_busy(&history, 0, FRAMES_MIN, &frames));
    pass_second(10, 100);
    ck_assert(!memory_history_grows(&history, 0, FRAMES_MIN, &frames));
    ck_assert(!memory_history_is_busy(&history, 0, FRAMES_MIN, &frames));
    for (unsigned i = 0; i < 4; i++)
        pass_second(60, 60);
    ck_assert(memory_history_grows(&history, 0, FRAMES_MIN, &frames));
    ck_assert_uint_eq(frames, 240);
    ck_assert_uint_eq(history.growth[0].begin_count, 600);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory_history");
    TCase *tcase = tcase_create("memory_history");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, what_grows_with_the_frames_is_found_and_what_has_stopped_is_not);
    tcase_add_test(tcase, the_first_mark_of_a_frame_begins_the_count);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
