/* The books of one game: what may be asked for, and what a hostile segment can do to them. */
#include "resources/gpu.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "proto/handle.h"

static struct gpu_queue queue;
static struct ec_gpu_table *table;
static uint32_t chosen[GPU_ITEMS_MAX];

static void set_up(void)
{
    struct ec_error why;

    table = calloc(1, sizeof *table);
    ck_assert_ptr_nonnull(table);
    ck_assert_int_eq(gpu_queue_init(&queue, &why), EC_OK);
}

static void tear_down(void)
{
    gpu_queue_finish(&queue);
    free(table);
}

static void row_set(uint32_t index, uint32_t generation, uint32_t state, uint64_t bytes,
                    uint64_t fence)
{
    atomic_store(&table->rows[index].bytes, bytes);
    atomic_store(&table->rows[index].used_fence, fence);
    atomic_store(&table->rows[index].life, (uint64_t)generation << 32 | state);
    if (atomic_load(&table->high) < index + 1)
        atomic_store(&table->high, index + 1);
}

/* Rows 0.. of 100 bytes each, used up to these fences. */
static void rows_set(const uint64_t *fences, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        row_set(i, 1, EC_GPU_RESIDENT, 100, fences[i]);
}

static void clocks_set(uint64_t completed, uint64_t budget)
{
    atomic_store(&table->completed_fence, completed);
    atomic_store(&table->budget_bytes, budget);
    gpu_queue_read(&queue, table);
}

START_TEST(what_was_used_the_longest_ago_is_asked_for_unless_work_uses_it)
{
    rows_set((const uint64_t[]) { 4, 1, 3, 9 }, 4);
    clocks_set(4, 150);
    ck_assert_uint_eq(queue.resident_bytes, 400);
    ck_assert_uint_eq(gpu_queue_choose(&queue, chosen), 3);
    ck_assert_uint_eq(chosen[0], 1);
    ck_assert_uint_eq(chosen[1], 2);
    ck_assert_uint_eq(chosen[2], 0);
    ck_assert_uint_eq(gpu_queue_choose(&queue, chosen), 0); /* once is enough */
    ck_assert_uint_eq(queue.requested_bytes, 300);
    ck_assert_uint_eq(queue.resident_bytes, 400);
}
END_TEST

START_TEST(completions_that_come_out_of_order_do_not_go_back)
{
    rows_set((const uint64_t[]) { 5, 6 }, 2);
    clocks_set(6, 1);
    clocks_set(2, 1); /* a thread that was slow to say so */
    ck_assert_uint_eq(queue.completed_fence, 6);
    ck_assert_uint_eq(gpu_queue_choose(&queue, chosen), 2);
}
END_TEST

START_TEST(a_confirmation_counts_once)
{
    rows_set((const uint64_t[]) { 1, 2 }, 2);
    clocks_set(2, 150);
    ck_assert_uint_eq(gpu_queue_choose(&queue, chosen), 1);
    row_set(0, 1, EC_GPU_EVICTED, 100, 1);
    for (unsigned i = 0; i < 3; i++) {
        gpu_queue_read(&queue, table);
        ck_assert_uint_eq(queue.resident_bytes, 100);
        ck_assert_uint_eq(queue.requested_bytes, 0);
    }
    row_set(0, 1, EC_GPU_RESIDENT, 100, 1); /* it is back, unasked */
    gpu_queue_read(&queue, table);
    ck_assert_uint_eq(queue.resident_bytes, 200);
    ck_assert_uint_eq(gpu_queue_choose(&queue, chosen), 1);
}
END_TEST

/* The game passes over a request for what it has used since. If that work is done by the next look, nothing
 * else shows it, and waiting for the confirmation would be for ever. */
START_TEST(a_use_since_the_request_ends_it_even_when_its_work_is_done)
{
    rows_set((const uint64_t[]) { 1, 2 }, 2);
    clocks_set(2, 150);
    ck_assert_uint_eq(gpu_queue_choose(&queue, chosen), 1);
    ck_assert_uint_eq(chosen[0], 0);
    row_set(0, 1, EC_GPU_RESIDENT, 100, 3);
    clocks_set(3, 150);
    ck_assert_uint_eq(queue.requested_bytes, 0);
    ck_assert_uint_eq(gpu_queue_choose(&queue, chosen), 1);
    ck_assert_uint_eq(chosen[0], 1); /* which is now the older one */
}
END_TEST

START_TEST(another_life_in_the_same_row_owes_nothing)
{
    rows_set((const uint64_t[]) { 1 }, 1);
    clocks_set(1, 50);
    ck_assert_uint_eq(gpu_queue_choose(&queue, chosen), 1);
    row_set(0, 2, EC_GPU_RESIDENT, 30, 0);
    gpu_queue_read(&queue, table);
    ck_assert_uint_eq(queue.requested_bytes, 0);
    ck_assert_uint_eq(queue.resident_bytes, 30);
    ck_assert_uint_eq(queue.count, 1);
    row_set(0, 2, EC_GPU_UNUSED, 30, 0);
    gpu_queue_read(&queue, table);
    ck_assert_uint_eq(queue.resident_bytes, 0);
    ck_assert_uint_eq(queue.count, 0);
}
END_TEST

START_TEST(a_hostile_table_is_bounded)
{
    row_set(0, 0, EC_GPU_RESIDENT, 100, 0);        /* no life has generation 0 */
    row_set(1, 1, 77, 100, 0);                     /* no state */
    row_set(2, 1, EC_GPU_RESIDENT, UINT64_MAX, 0); /* no GPU has that */
    row_set(3, 1, EC_GPU_RESIDENT, 1, UINT64_MAX); /* never done */
    memset(table->rows[3].name, 0xff, sizeof table->rows[3].name);
    atomic_store(&table->high, UINT32_MAX);
    clocks_set(5, 1);
    ck_assert_uint_eq(queue.count, 1);
    ck_assert_uint_eq(queue.resident_bytes, 1);
    ck_assert_uint_eq(strlen(queue.items[3].name), EC_GPU_NAME_BYTES - 1);
    for (uint32_t i = 0; i < EC_GPU_RESOURCES_MAX; i++)
        row_set(i, 2, EC_GPU_RESIDENT, UINT64_C(1) << 48, 0);
    gpu_queue_read(&queue, table);
    ck_assert_uint_eq(queue.resident_bytes, (uint64_t)EC_GPU_RESOURCES_MAX << 48);
    ck_assert_uint_eq(gpu_queue_choose(&queue, chosen), EC_GPU_RESOURCES_MAX);
    ck_assert_uint_eq(queue.requested_bytes, queue.resident_bytes);
}
END_TEST

START_TEST(wrong_ids_change_nothing)
{
    const uint64_t none[] = { 0,
                              1,
                              UINT64_MAX,
                              ec_handle_make(EC_GPU_RESOURCES_MAX, 2),
                              ec_handle_make(EC_GPU_RESOURCES_MAX + 1, 1),
                              ec_handle_make(GPU_ITEMS_MAX, 1),
                              ec_handle_make(0, 1) };
    uint64_t id;

    rows_set((const uint64_t[]) { 1 }, 1); /* the library's, which JSON cannot reach */
    gpu_queue_read(&queue, table);
    ck_assert_int_eq(gpu_queue_declare(&queue, "x", 10, &id), EC_OK);
    ck_assert_uint_eq(id, ec_handle_make(EC_GPU_RESOURCES_MAX, 1));
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        ck_assert_int_eq(gpu_queue_use(&queue, none[i], 5), EC_ERR_STALE);
        for (int state = GPU_UNUSED; state <= GPU_KEEP; state++)
            ck_assert_int_eq(gpu_queue_set_state(&queue, none[i], (enum gpu_state)state),
                             EC_ERR_STALE);
    }
    ck_assert_uint_eq(queue.resident_bytes, 110);
    ck_assert_int_eq(gpu_queue_set_state(&queue, id, GPU_UNUSED), EC_OK);
    ck_assert_int_eq(gpu_queue_set_state(&queue, id, GPU_UNUSED), EC_ERR_STALE);
    ck_assert_int_eq(gpu_queue_declare(&queue, "y", 10, &id), EC_OK);
    ck_assert_uint_eq(id, ec_handle_make(EC_GPU_RESOURCES_MAX, 2)); /* the next life */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu");
    TCase *tcase = tcase_create("queue");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, what_was_used_the_longest_ago_is_asked_for_unless_work_uses_it);
    tcase_add_test(tcase, completions_that_come_out_of_order_do_not_go_back);
    tcase_add_test(tcase, a_confirmation_counts_once);
    tcase_add_test(tcase, a_use_since_the_request_ends_it_even_when_its_work_is_done);
    tcase_add_test(tcase, another_life_in_the_same_row_owes_nothing);
    tcase_add_test(tcase, a_hostile_table_is_bounded);
    tcase_add_test(tcase, wrong_ids_change_nothing);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
