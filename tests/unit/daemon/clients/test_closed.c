/* Of the closed connections the last 128 stay, newest first. */
#include "clients/closed.h"

#include <check.h>
#include <stdlib.h>

START_TEST(the_newest_comes_first_and_the_oldest_goes)
{
    static struct closed_clients closed;
    struct client client = { .name = "game", .close_reason = "hang-up", .received_bytes = 5 };

    ck_assert_ptr_null(closed_clients_at(&closed, 0));
    for (uint32_t id = 1; id <= CLOSED_CLIENTS_MAX + 2; id++) {
        client.id = id;
        closed_clients_add(&closed, &client, id);
    }
    ck_assert_uint_eq(closed_clients_at(&closed, 0)->id, CLOSED_CLIENTS_MAX + 2);
    ck_assert_uint_eq(closed_clients_at(&closed, CLOSED_CLIENTS_MAX - 1)->id, 3);
    ck_assert_ptr_null(closed_clients_at(&closed, CLOSED_CLIENTS_MAX));
    ck_assert_str_eq(closed_clients_at(&closed, 0)->name, "game");
    ck_assert_str_eq(closed_clients_at(&closed, 0)->reason, "hang-up");
    ck_assert_uint_eq(closed_clients_at(&closed, 0)->received_bytes, 5);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("closed");
    TCase *tcase = tcase_create("closed");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, the_newest_comes_first_and_the_oldest_goes);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
