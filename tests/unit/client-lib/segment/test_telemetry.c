/* What a client tells is read into bounded numbers, whatever it wrote. */
#include "segment/telemetry.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct ec_client_segment *segment;

static void set_up(void)
{
    size_t bytes = (sizeof *segment + 4095) & ~(size_t)4095;

    segment = aligned_alloc(4096, bytes);
    ck_assert_ptr_nonnull(segment);
    memset(segment, 0, bytes);
}

static void tear_down(void)
{
    free(segment);
}

static void count(uint32_t thread, uint32_t tag, uint64_t allocs, uint64_t frees, uint64_t in,
                  uint64_t out)
{
    struct ec_tag_counters *counters = &segment->threads[thread].tags[tag];

    atomic_store(&counters->allocs, allocs);
    atomic_store(&counters->frees, frees);
    atomic_store(&counters->bytes_in, in);
    atomic_store(&counters->bytes_out, out);
}

START_TEST(a_tag_is_the_sum_of_its_threads)
{
    struct ec_tag_report tags[EC_TAGS_MAX];

    atomic_store(&segment->threads_high, 2);
    strcpy(segment->tags[3].name, "mesh");
    atomic_store(&segment->tags[3].budget_bytes, 9000);
    atomic_store(&segment->tags[3].peak_bytes, 65536);
    count(0, 3, 10, 0, 1000, 0);
    count(1, 3, 0, 4, 0, 400); /* freed by another thread */
    ck_assert_uint_eq(ec_telemetry_tags(segment, tags), 1);
    ck_assert_str_eq(tags[0].name, "mesh");
    ck_assert_uint_eq(tags[0].bytes, 600);
    ck_assert_uint_eq(tags[0].count, 6);
    ck_assert_uint_eq(tags[0].peak_bytes, 65536);
    ck_assert_uint_eq(tags[0].budget_bytes, 9000);
}
END_TEST

START_TEST(more_freed_than_allocated_counts_as_nothing)
{
    struct ec_tag_report tags[EC_TAGS_MAX];

    atomic_store(&segment->threads_high, 1);
    count(0, 0, 1, 2, 10, UINT64_MAX);
    ck_assert_uint_eq(ec_telemetry_tags(segment, tags), 1);
    ck_assert_uint_eq(tags[0].bytes, 0);
    ck_assert_uint_eq(tags[0].count, 0);
}
END_TEST

START_TEST(a_peak_is_never_below_what_is_held_now)
{
    struct ec_tag_report tags[EC_TAGS_MAX];

    atomic_store(&segment->threads_high, 1);
    count(0, 0, 1, 0, 100, 0); /* the peak is pushed in steps, so it may still be zero */
    ec_telemetry_tags(segment, tags);
    ck_assert_uint_eq(tags[0].peak_bytes, 100);
}
END_TEST

START_TEST(a_hostile_thread_count_is_bounded)
{
    struct ec_tag_report tags[EC_TAGS_MAX];
    struct ec_reference_sum references;

    atomic_store(&segment->threads_high, UINT32_MAX);
    count(EC_THREADS_MAX - 1, 0, 1, 0, 7, 0);
    ck_assert_uint_eq(ec_telemetry_tags(segment, tags), 1);
    ck_assert_uint_eq(tags[0].bytes, 7);
    ec_telemetry_references(segment, UINT32_MAX, &references);
    ck_assert_uint_eq(references.hard, 0);
}
END_TEST

START_TEST(texts_end_and_hold_no_control_characters)
{
    struct ec_tag_report tags[EC_TAGS_MAX];
    struct ec_allocator_report allocators[EC_ALLOCATORS_MAX];

    memset(segment->tags[0].name, 'a', sizeof segment->tags[0].name);
    segment->tags[0].name[1] = '\n';
    memset(segment->allocators[5].name, 0x1b, sizeof segment->allocators[5].name);
    atomic_store(&segment->allocators[5].kind, EC_ALLOCATOR_POOL);
    ec_telemetry_tags(segment, tags);
    ck_assert_uint_eq(strlen(tags[0].name), EC_TAG_NAME_BYTES - 1);
    ck_assert_int_eq(tags[0].name[1], '?');
    ck_assert_uint_eq(ec_telemetry_allocators(segment, allocators), 1);
    ck_assert_uint_eq(strlen(allocators[0].name), EC_ALLOCATOR_NAME_BYTES - 1);
    ck_assert_int_eq(allocators[0].name[0], '?');
}
END_TEST

START_TEST(an_allocator_names_its_tag_and_a_wrong_tag_is_none)
{
    struct ec_allocator_report allocators[EC_ALLOCATORS_MAX];
    struct ec_allocator_row *row = segment->allocators;

    strcpy(segment->tags[2].name, "audio");
    strcpy(row[0].name, "voices");
    row[0].tag = 2;
    atomic_store(&row[0].current_bytes, 128);
    atomic_store(&row[0].failed, 3);
    atomic_store(&row[0].kind, EC_ALLOCATOR_ARENA);
    row[7].tag = EC_TAGS_MAX;
    atomic_store(&row[7].kind, 1000);
    ck_assert_uint_eq(ec_telemetry_allocators(segment, allocators), 2);
    ck_assert_str_eq(allocators[0].name, "voices");
    ck_assert_str_eq(allocators[0].tag, "audio");
    ck_assert_uint_eq(allocators[0].current_bytes, 128);
    ck_assert_uint_eq(allocators[0].failed, 3);
    ck_assert_str_eq(ec_allocator_kind_name(allocators[0].kind), "arena");
    ck_assert_str_eq(allocators[1].tag, "");
    ck_assert_str_eq(ec_allocator_kind_name(allocators[1].kind), "unknown");
}
END_TEST

START_TEST(fragmentation_is_the_free_memory_that_does_not_serve_everybody)
{
    struct ec_allocator_report allocators[EC_ALLOCATORS_MAX];
    struct ec_allocator_row *row = segment->allocators;

    for (int i = 0; i < 3; i++) {
        atomic_store(&row[i].capacity_bytes, 1000);
        atomic_store(&row[i].kind, i == 0 ? EC_ALLOCATOR_ARENA : EC_ALLOCATOR_POOL);
    }
    atomic_store(&row[0].current_bytes, 200);
    atomic_store(&row[0].largest_free_bytes, 600);
    atomic_store(&row[1].block_bytes, 10);
    atomic_store(&row[1].reusable_bytes, 250);
    atomic_store(&row[2].current_bytes, 1000); /* full */
    ck_assert_uint_eq(ec_telemetry_allocators(segment, allocators), 3);
    ck_assert_double_eq_tol(allocators[0].fragmentation, 0.25, 1e-9);
    ck_assert_double_eq_tol(allocators[1].fragmentation, 0.75, 1e-9);
    ck_assert_double_eq_tol(allocators[2].fragmentation, 0, 1e-9);
    atomic_store(&row[1].reusable_bytes, UINT64_MAX); /* nonsense */
    ec_telemetry_allocators(segment, allocators);
    ck_assert_double_eq_tol(allocators[1].fragmentation, 0, 1e-9);
}
END_TEST

START_TEST(all_tags_together_never_wrap_around)
{
    struct ec_memory_sum sum;

    atomic_store(&segment->threads_high, 1);
    count(0, 0, 1, 0, 1000, 400);
    count(0, 9, 1, 0, 50, 0);
    ec_telemetry_memory(segment, &sum);
    ck_assert_uint_eq(sum.bytes, 650);
    count(0, 10, 1, 0, UINT64_MAX, 0);
    ec_telemetry_memory(segment, &sum);
    ck_assert_uint_eq(sum.bytes, UINT64_MAX);
}
END_TEST

START_TEST(references_are_summed_over_threads_and_never_below_zero)
{
    struct ec_reference_sum references;

    atomic_store(&segment->threads_high, 3);
    atomic_store(&segment->hard.count[0][0], 3);
    atomic_store(&segment->hard.count[1][0], -1); /* released on another thread */
    atomic_store(&segment->hard.count[2][1], -5); /* nonsense: counts as none */
    atomic_store(&segment->hard.count[0][600], 1);
    atomic_store(&segment->hard.count[0][601], 1); /* beyond what exists */
    atomic_store(&segment->hard.count[3][0], 9);   /* a slot that was never used */
    atomic_store(&segment->soft.count[0][0], 4);
    ec_telemetry_references(segment, 601, &references);
    ck_assert_uint_eq(references.hard, 3);
    ck_assert_uint_eq(references.soft, 4);
}
END_TEST

START_TEST(the_pulse_is_the_newer_of_frame_and_step)
{
    struct ec_pulse_seen pulse;

    atomic_store(&segment->pulse.frame, 12);
    atomic_store(&segment->pulse.frame_ns, 100);
    atomic_store(&segment->pulse.step, 34);
    atomic_store(&segment->pulse.step_ns, 200);
    ec_telemetry_pulse(segment, &pulse);
    ck_assert_uint_eq(pulse.frame, 12);
    ck_assert_uint_eq(pulse.step, 34);
    ck_assert_int_eq(pulse.last_ns, 200);
}
END_TEST

START_TEST(an_answer_that_was_never_finished_is_not_taken_for_one)
{
    struct ec_ack_seen ack;

    atomic_store(&segment->breaker.level, 2);
    atomic_store(&segment->breaker.sequence, 3);
    ck_assert(!ec_telemetry_ack(segment, &ack));
    atomic_store(&segment->breaker.sequence, 4);
    ck_assert(ec_telemetry_ack(segment, &ack));
    ck_assert_uint_eq(ack.level, 2);
    ck_assert_uint_eq(ack.sequence, 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("telemetry");
    TCase *tcase = tcase_create("telemetry");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_tag_is_the_sum_of_its_threads);
    tcase_add_test(tcase, more_freed_than_allocated_counts_as_nothing);
    tcase_add_test(tcase, a_peak_is_never_below_what_is_held_now);
    tcase_add_test(tcase, a_hostile_thread_count_is_bounded);
    tcase_add_test(tcase, texts_end_and_hold_no_control_characters);
    tcase_add_test(tcase, an_allocator_names_its_tag_and_a_wrong_tag_is_none);
    tcase_add_test(tcase, fragmentation_is_the_free_memory_that_does_not_serve_everybody);
    tcase_add_test(tcase, all_tags_together_never_wrap_around);
    tcase_add_test(tcase, references_are_summed_over_threads_and_never_below_zero);
    tcase_add_test(tcase, the_pulse_is_the_newer_of_frame_and_step);
    tcase_add_test(tcase, an_answer_that_was_never_finished_is_not_taken_for_one);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
