/* Claims are strangers' words: each is whole, in range and for a place of its own, or none counts. */
#include "events/claims.h"

#include <check.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct ec_error why;

static int read_text(struct claims *claims, const char *text, bool of_port)
{
    return claims_read(claims, ec_json_root(text, strlen(text)), of_port, &why);
}

static const struct {
    const char *text;
    bool of_port;
    uint32_t count;
} good[] = {
    { "[]", true, 0 },
    { "[{\"reader_id\":7,\"reader_slot\":0,\"segment\":\"0x1\"},"
      "{\"reader_id\":8,\"reader_slot\":255,\"segment\":\"0xffffffffffffffff\"}]",
      true, 2 },
    { "[{\"port_id\":4294967295,\"cursor\":1023,\"reader_slot\":3,\"segment\":\"0x2\"}]", false,
      1 },
    { "[{\"port_id\":1,\"cursor\":0,\"reader_slot\":3,\"segment\":\"0x2\"},"
      "{\"port_id\":2,\"cursor\":1,\"reader_slot\":3,\"segment\":\"0x2\"}]",
      false, 2 },
};

START_TEST(claims_are_read_found_and_removed)
{
    struct claims claims;

    ck_assert_msg(read_text(&claims, good[_i].text, good[_i].of_port) == EC_OK, "%s", why.text);
    ck_assert_uint_eq(claims.count, good[_i].count);
    while (claims.count > 0) {
        uint32_t id = claims.rows[0].id;

        ck_assert_ptr_nonnull(claims_find(&claims, id));
        claims_remove(&claims, id);
        ck_assert_ptr_null(claims_find(&claims, id));
    }
    claims_finish(&claims);
}
END_TEST

static const struct {
    const char *text;
    bool of_port;
} bad[] = {
    { "[1]", true },
    { "[{}]", true },
    { "[{\"reader_id\":0,\"reader_slot\":0,\"segment\":\"0x1\"}]", true },
    { "[{\"reader_id\":7,\"reader_slot\":256,\"segment\":\"0x1\"}]", true },
    { "[{\"reader_id\":7,\"reader_slot\":-1,\"segment\":\"0x1\"}]", true },
    { "[{\"reader_id\":7,\"reader_slot\":0,\"segment\":1}]", true },
    { "[{\"reader_id\":7,\"reader_slot\":0,\"segment\":\"0x1\",\"cursor\":1}]", true },
    { "[{\"reader_id\":7,\"reader_slot\":0,\"segment\":\"0x1\"},"
      "{\"reader_id\":8,\"reader_slot\":0,\"segment\":\"0x1\"}]",
      true }, /* one place twice */
    { "[{\"port_id\":1,\"cursor\":1024,\"reader_slot\":3,\"segment\":\"0x2\"}]", false },
    { "[{\"port_id\":1,\"cursor\":0,\"reader_slot\":3,\"segment\":\"0x2\"},"
      "{\"port_id\":1,\"cursor\":1,\"reader_slot\":3,\"segment\":\"0x2\"}]",
      false }, /* one port twice */
};

START_TEST(what_is_no_claim_is_refused_and_none_stays)
{
    struct claims claims;

    ck_assert_int_eq(read_text(&claims, bad[_i].text, bad[_i].of_port), EC_ERR_PARAM);
    ck_assert_uint_eq(claims.count, 0);
    ck_assert_ptr_null(claims.rows);
}
END_TEST

START_TEST(a_file_has_one_name_and_another_file_another)
{
    int a = memfd_create("a", MFD_CLOEXEC), again = dup(a), b = memfd_create("a", MFD_CLOEXEC);

    ck_assert_uint_eq(claim_segment(a), claim_segment(again));
    ck_assert_uint_ne(claim_segment(a), claim_segment(b));
    ck_assert_uint_eq(claim_segment(-1), 0);
    close(a);
    close(again);
    close(b);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("claims");
    TCase *tcase = tcase_create("claims");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tcase, claims_are_read_found_and_removed, 0,
                        (int)(sizeof good / sizeof good[0]));
    tcase_add_loop_test(tcase, what_is_no_claim_is_refused_and_none_stays, 0,
                        (int)(sizeof bad / sizeof bad[0]));
    tcase_add_test(tcase, a_file_has_one_name_and_another_file_another);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
