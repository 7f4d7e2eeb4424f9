/* What a client hands up is checked before the daemon answers with its own. */
#include "clients/attachment.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/client_segment.h"
#include "proto/cursor_segment.h"

static struct ec_segment client, cursor;
static int fds[ATTACH_PARTS];
static struct attachment attachment;
static struct ec_error why;

static void set_up(void)
{
    const struct ec_segment_desc client_desc = { .name = "client",
                                                 .kind = EC_SEGMENT_CLIENT,
                                                 .bytes = sizeof(struct ec_client_segment) };
    const struct ec_segment_desc cursor_desc = { .name = "cursor",
                                                 .kind = EC_SEGMENT_CURSOR,
                                                 .bytes = sizeof(struct ec_cursor_segment) };

    ck_assert_int_eq(ec_segment_init(&client, &client_desc, &why), EC_OK);
    ck_assert_int_eq(ec_segment_init(&cursor, &cursor_desc, &why), EC_OK);
    fds[ATTACH_CLIENT] = client.fd;
    fds[ATTACH_CURSOR] = cursor.fd;
    fds[ATTACH_DOORBELL] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static void tear_down(void)
{
    ec_segment_finish(&client);
    ec_segment_finish(&cursor);
    close(fds[ATTACH_DOORBELL]);
}

START_TEST(what_a_good_client_hands_up_is_mapped)
{
    ck_assert_msg(attachment_init(&attachment, fds, true, &why) == EC_OK, "%s", why.text);
    ck_assert_ptr_nonnull(attachment.client_map.base);
    ck_assert_ptr_nonnull(attachment.cursor_map.base);
    attachment_finish(&attachment);
}
END_TEST

START_TEST(a_wrong_field_is_named_with_both_values_and_nothing_stays_mapped)
{
    ((struct ec_segment_header *)cursor.base)->layout_major = 9;
    ck_assert_int_eq(attachment_init(&attachment, fds, true, &why), EC_ERR_LAYOUT);
    ck_assert_msg(strstr(why.text, "cursor: ") == why.text, "%s", why.text);
    ck_assert_msg(strstr(why.text, "layout_major is 9, expected 1") != NULL, "%s", why.text);
    ck_assert_int_eq(attachment.refused, ATTACH_CURSOR);
    ck_assert_str_eq(attachment.mismatch.field, "layout_major");
    ck_assert_uint_eq(attachment.mismatch.got, 9);
    ck_assert_uint_eq(attachment.mismatch.expected, 1);
    ck_assert_ptr_null(attachment.client_map.base);
}
END_TEST

START_TEST(segments_in_the_wrong_order_are_refused)
{
    fds[ATTACH_CLIENT] = cursor.fd;
    fds[ATTACH_CURSOR] = client.fd;
    ck_assert_int_lt(attachment_init(&attachment, fds, true, &why), 0);
    ck_assert_int_eq(attachment.refused, ATTACH_CLIENT);
    ck_assert_ptr_null(attachment.client_map.base);
}
END_TEST

START_TEST(a_doorbell_must_be_an_eventfd)
{
    int pipe_fds[2], doorbell = fds[ATTACH_DOORBELL];

    ck_assert_int_eq(pipe(pipe_fds), 0);
    fds[ATTACH_DOORBELL] = pipe_fds[1];
    ck_assert_int_eq(attachment_init(&attachment, fds, true, &why), EC_ERR_LAYOUT);
    ck_assert_msg(strstr(why.text, "pipe:") != NULL, "%s", why.text);
    ck_assert_msg(strstr(why.text, "expected anon_inode:[eventfd]") != NULL, "%s", why.text);
    ck_assert_int_eq(attachment.refused, ATTACH_DOORBELL);
    ck_assert_ptr_null(attachment.mismatch.field);
    fds[ATTACH_DOORBELL] = doorbell;
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}
END_TEST

START_TEST(a_doorbell_must_not_block)
{
    int doorbell = fds[ATTACH_DOORBELL];

    fds[ATTACH_DOORBELL] = eventfd(0, EFD_CLOEXEC);
    ck_assert_int_eq(attachment_init(&attachment, fds, true, &why), EC_ERR_LAYOUT);
    ck_assert_msg(strstr(why.text, "expected O_NONBLOCK") != NULL, "%s", why.text);
    close(fds[ATTACH_DOORBELL]);
    fds[ATTACH_DOORBELL] = doorbell;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attachment");
    TCase *tcase = tcase_create("attachment");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, what_a_good_client_hands_up_is_mapped);
    tcase_add_test(tcase, a_wrong_field_is_named_with_both_values_and_nothing_stays_mapped);
    tcase_add_test(tcase, segments_in_the_wrong_order_are_refused);
    tcase_add_test(tcase, a_doorbell_must_be_an_eventfd);
    tcase_add_test(tcase, a_doorbell_must_not_block);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
