/* Requests end once, in the order of their deadlines, however they come and go. */
#include "client/outstanding.h"

#include <check.h>
#include <stdlib.h>

#include "support/often.h"

#define MANY 10000u

static struct ec_outstanding table;

static void on_reply(void *context, const struct ec_reply *reply)
{
    (void)context;
    (void)reply;
}

START_TEST(the_first_is_always_the_one_with_the_earliest_deadline)
{
    struct ec_outstanding_slot removed;
    int64_t deadline_ns, before = INT64_MIN;
    uint64_t correlation;

    ASSERT_OFTEN(ec_outstanding_init(&table, MANY) == EC_OK);
    srandom(1);
    for (uint32_t i = 0; i < MANY; i++)
        ec_outstanding_add(&table, random() % 5000, on_reply, NULL);
    for (uint32_t i = 0; i < MANY; i++) {
        ASSERT_OFTEN(ec_outstanding_first(&table, &correlation, &deadline_ns));
        ASSERT_OFTEN(deadline_ns >= before);
        before = deadline_ns;
        ASSERT_OFTEN(ec_outstanding_remove(&table, correlation, &removed));
        ASSERT_OFTEN(removed.deadline_ns == deadline_ns);
    }
    ASSERT_OFTEN(!ec_outstanding_first(&table, &correlation, &deadline_ns));
    ec_outstanding_finish(&table);
}
END_TEST

/* Against a plain list that is searched from end to end. */
START_TEST(what_comes_and_goes_in_any_order_is_found_again)
{
    struct {
        uint64_t correlation;
        int64_t deadline_ns;
    } list[64];
    uint32_t count = 0;

    ASSERT_OFTEN(ec_outstanding_init(&table, 64) == EC_OK);
    srandom(2);
    for (int turn = 0; turn < 200000; turn++) {
        int64_t deadline_ns = 0, least = INT64_MAX;
        struct ec_outstanding_slot removed;
        uint64_t correlation;

        if (count < 64 && (count == 0 || random() % 2 == 0)) {
            list[count].deadline_ns = random() % 100;
            list[count].correlation =
                ec_outstanding_add(&table, list[count].deadline_ns, on_reply, &list[count]);
            count++;
        } else {
            uint32_t at = (uint32_t)random() % count;

            ASSERT_OFTEN(ec_outstanding_remove(&table, list[at].correlation, &removed));
            ASSERT_OFTEN(removed.deadline_ns == list[at].deadline_ns);
            ASSERT_OFTEN(!ec_outstanding_remove(&table, list[at].correlation, &removed));
            list[at] = list[--count];
        }
        for (uint32_t i = 0; i < count; i++)
            least = list[i].deadline_ns < least ? list[i].deadline_ns : least;
        ASSERT_OFTEN(table.count == count);
        ASSERT_OFTEN(ec_outstanding_first(&table, &correlation, &deadline_ns) == (count != 0));
        ASSERT_OFTEN(count == 0 || deadline_ns == least);
    }
    ec_outstanding_finish(&table);
}
END_TEST

static const uint64_t invented[] = {
    0, 1, 2, 4, 1ull << 32, 2ull << 32 | 1, 1ull << 32 | 4, UINT64_MAX, 1ull << 63
};

START_TEST(a_correlation_that_was_never_given_out_finds_nothing)
{
    struct ec_outstanding_slot removed;

    ck_assert_int_eq(ec_outstanding_init(&table, 4), EC_OK);
    ec_outstanding_remove(&table, ec_outstanding_add(&table, 1, on_reply, NULL), &removed);
    ec_outstanding_add(&table, 2, on_reply, NULL); /* slot 0, its third generation */
    ck_assert(!ec_outstanding_remove(&table, invented[_i], &removed));
    ck_assert_uint_eq(table.count, 1);
    ec_outstanding_finish(&table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("outstanding");
    TCase *tcase = tcase_create("outstanding");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, the_first_is_always_the_one_with_the_earliest_deadline);
    tcase_add_test(tcase, what_comes_and_goes_in_any_order_is_found_again);
    tcase_add_loop_test(tcase, a_correlation_that_was_never_given_out_finds_nothing, 0,
                        (int)(sizeof invented / sizeof invented[0]));
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
