#include "proto/tables/nearest.h"

#include <check.h>
#include <string.h>

static const char *nearest_of(const char *name)
{
    static const char *const known[] = { "event.stall_ms", "event.queue_bytes", "log.level" };
    struct ec_nearest nearest;

    ec_nearest_init(&nearest, name, strlen(name));
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        ec_nearest_offer(&nearest, known[i]);
    return nearest.best;
}

START_TEST(a_slip_of_the_finger_is_understood)
{
    static const char *const slips[][2] = {
        { "event.stal_ms", "event.stall_ms" },  { "event.stallms", "event.stall_ms" },
        { "evnet.stall_ms", "event.stall_ms" }, { "event.queue_byte", "event.queue_bytes" },
        { "log.levle", "log.level" },           { "loglevel", "log.level" },
        { "event.stall_ms", "event.stall_ms" },
    };

    ck_assert_str_eq(nearest_of(slips[_i][0]), slips[_i][1]);
}
END_TEST

START_TEST(another_word_has_nobody_near)
{
    static const char *const words[] = { "", "x", "colour", "resource.workers", "event.nosuch_ms" };

    ck_assert_ptr_null(nearest_of(words[_i]));
}
END_TEST

START_TEST(nobody_is_near_to_a_name_that_is_too_long)
{
    char name[EC_NEAREST_BYTES_MAX + 2];

    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    ck_assert_ptr_null(nearest_of(name));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nearest");
    TCase *tcase = tcase_create("nearest");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, a_slip_of_the_finger_is_understood, 0, 7);
    tcase_add_loop_test(tcase, another_word_has_nobody_near, 0, 5);
    tcase_add_test(tcase, nobody_is_near_to_a_name_that_is_too_long);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
